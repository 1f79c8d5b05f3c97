"""/v1/units: what instances wait for as a whole, with how far it is."""

from __future__ import annotations

from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from workflows.lifecycle import UnitStatus
from workflows.models import AwaitUnit
from workflows.rest.base.authentication import READ_INTERACTIONS
from workflows.rest.base.endpoint import ChangeAnswer, Endpoint
from workflows.rest.base.ids import read_id, refuse_unknown
from workflows.rest.base.lists import (
    Segment,
    answer_list,
    has_status,
    is_within,
    read_choice,
    read_filter,
    read_id_filter,
)
from workflows.rest.base.repeated_calls import answer_json
from workflows.rest.protocol.operation import FILTER, ID, document
from workflows.rest.protocol.representations import UNIT_FIELDS, show_unit
from workflows.rest.protocol.response_bodies import UnitList, UnitOut

#: What is true or false in an address.
FLAGS = ("true", "false")

NEWEST = (Segment(("id",), descending=True),)


class UnitEndpoint(Endpoint):
    """What addresses of units share: whose they are."""

    needs: ClassVar = {"GET": READ_INTERACTIONS}

    def list_mine(self) -> QuerySet[Any]:
        """The units that the caller may know of."""
        rows = AwaitUnit.objects.using(self.db.alias).filter(is_within(self.caller.workspace))
        if self.caller.workflows is not None:
            rows = rows.filter(instance__workflow__in=self.caller.workflows)
        return rows.select_related("instance").only(*UNIT_FIELDS)


class UnitsEndpoint(UnitEndpoint):
    """The units of a workspace."""

    @document(
        "listUnits",
        "Interactions",
        "List what instances wait for",
        "A unit is one wait for an answer, or for one answer per item of a list. The newest come first. Blank filters "
        "are ignored.",
        answers={200: (UnitList, "A page of them.")},
        scope="read",
        pages=True,
        parameters=[
            OpenApiParameter("instance", FILTER, description="Those of this instance, by its id."),
            OpenApiParameter("status", str, enum=list(UnitStatus), description="Those in this status."),
            OpenApiParameter("step", FILTER, description="Those of this wait."),
            OpenApiParameter("items", str, enum=list(FLAGS), description="Whether they are of many items, or of one."),
        ],
    )
    def get(self, request: Request) -> HttpResponse:
        """A page of them, the newest first."""
        plain, rows = request._request, self.list_mine()
        if (instance := read_id_filter(plain, "instance")) is not None:
            rows = rows.filter(instance_id=instance)
        if status := read_choice(plain, "status", UnitStatus):
            rows = rows.filter(has_status(UnitStatus(status)))
        if (step := read_filter(plain, "step")) is not None:
            rows = rows.filter(step=step)
        if (items := read_choice(plain, "items", FLAGS)) is not None:
            rows = rows.filter(items=items == "true")
        return answer_list(plain, rows, NEWEST, show_unit)


class OneUnit(UnitEndpoint):
    """One unit."""

    @document(
        "getUnit",
        "Interactions",
        "Look at a unit",
        "How far it is: how many of its items are queued, asked, and over, and in which way. Its items are listed by "
        "`GET /v1/interactions?unit=`.",
        answers={200: (UnitOut, "The unit, with its counts.")},
        problems=[404],
        scope="read",
        parameters=[ID],
    )
    def get(self, request: Request, id: str) -> HttpResponse:
        """As it is."""
        found = self.list_mine().filter(pk=read_id(id)).first()
        if found is None:
            raise refuse_unknown()
        return answer_json(ChangeAnswer(show_unit(found)).write())
