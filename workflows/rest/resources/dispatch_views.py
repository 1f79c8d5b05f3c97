"""/v1/interactions/{id}/redrive and …/dispatches: sending a question again, and the log of its tries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar
from uuid import UUID

from django.http import HttpResponse
from pydantic import ConfigDict, Field
from rest_framework.request import Request

from workflows.api.redrive import redrive
from workflows.models import Dispatch, Interaction
from workflows.rest.base.authentication import READ_INTERACTIONS, REDRIVE
from workflows.rest.base.endpoint import ChangeAnswer
from workflows.rest.base.ids import read_id, refuse_unknown
from workflows.rest.base.lists import Segment, answer_list
from workflows.rest.protocol.bodies import Shape, read_as
from workflows.rest.protocol.operation import ID, document
from workflows.rest.protocol.representations import show_interaction
from workflows.rest.protocol.request_bodies import RetryBody
from workflows.rest.protocol.response_bodies import InteractionOut, ListOut, ProblemOut
from workflows.rest.resources.interaction_views import InteractionEndpoint
from workflows.values.times import to_rfc3339

#: The first try first.
BY_TRY = (Segment(("id",)),)


class DispatchOut(Shape):
    """A try to send a question."""

    model_config = ConfigDict(title="Dispatch")

    at: Annotated[str, Field(description="When it was over, in UTC.")]
    try_: Annotated[int, Field(alias="try", description="Which try it was, from 1; a redrive begins anew.")]
    sent: Annotated[bool, Field(description="Whether it was taken.")]
    status: Annotated[int | None, Field(description="The HTTP status of the answer, if there was one.")]
    ms: Annotated[int | None, Field(description="Milliseconds that it took.")]
    error: Annotated[str | None, Field(description="Why it failed.")]
    response: Annotated[str, Field(description="The beginning of the answer.")]


class DispatchList(ListOut):
    """A page of a delivery log."""

    model_config = ConfigDict(title="Dispatches")

    results: Annotated[list[DispatchOut], Field(description="In the order of the list.")]


class _OfInteraction(InteractionEndpoint):
    """What belongs to one question."""

    def find(self, id: str) -> Interaction:
        """The question, if the caller may know of it."""
        found: Interaction | None = self.list_mine().filter(pk=read_id(id)).first()
        if found is None:
            raise refuse_unknown()
        return found


class InteractionDispatches(_OfInteraction):
    """The delivery log of a question."""

    needs: ClassVar = {"GET": READ_INTERACTIONS}

    @document(
        "listDispatches",
        "Interactions",
        "Read the delivery log of a question",
        "Each try to send it, where its channel keeps a log, as webhooks do.",
        answers={200: (DispatchList, "A page of it.")},
        problems=[404],
        scope="read",
        pages=True,
        parameters=[ID],
    )
    def get(self, request: Request, id: str) -> HttpResponse:
        """A page of it."""
        found = self.find(id)
        rows = Dispatch.objects.using(self.db.alias).filter(interaction_id=found.pk)
        return answer_list(request._request, rows, BY_TRY, show_dispatch)


class RedriveInteraction(_OfInteraction):
    """Send a question again."""

    needs: ClassVar = {"POST": REDRIVE}

    @document(
        "redriveInteraction",
        "Interactions",
        "Send a question again",
        "One that could not be sent, or that got lost: the same question, with the same idempotency key, at once. The "
        "body may be left out.",
        body=RetryBody,
        answers={
            200: (InteractionOut, "It is on its way."),
            409: (
                ProblemOut,
                "It is over, or its workflow went on; or the idempotency key came with another body.",
            ),
        },
        problems=[404],
        scope="operate",
        posts=True,
        parameters=[ID],
    )
    def post(self, request: Request, id: str) -> HttpResponse:
        """Send it again."""
        raw, value = self.read_body(request, empty=True)
        read_as(RetryBody, value)

        def work() -> ChangeAnswer:
            found = self.find(id)
            redrive(found, actor=self.caller.actor)
            return ChangeAnswer(show_interaction(self.find(id)), instance=UUID(str(found.instance_id)))

        return self.answer_once(request, raw, work)


def show_dispatch(row: Dispatch) -> Mapping[str, Any]:
    """A try."""
    return {
        "at": to_rfc3339(row.at),
        "try": row.number,
        "sent": row.sent,
        "status": row.status,
        "ms": row.ms,
        "error": row.error,
        "response": row.response,
    }
