"""/v1/interactions, and completing one by its id or its signal id."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal
from uuid import UUID

from django.db.models import Q, QuerySet
from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from workflows.api.completions.completion import complete_at, takes_many
from workflows.api.refused import count_dropped
from workflows.definitions.item_streams import LINE
from workflows.definitions.question import check_signal_id
from workflows.exceptions import InvalidData, InvalidSignalId
from workflows.lifecycle import InteractionStatus
from workflows.models import Interaction, LedgerEvent
from workflows.rest.base.authentication import COMPLETE, READ_INTERACTIONS
from workflows.rest.base.endpoint import ChangeAnswer, Endpoint
from workflows.rest.base.ids import read_id, refuse_unknown
from workflows.rest.base.json_body import count_malformed, refuse_single
from workflows.rest.base.lists import (
    Segment,
    answer_list,
    has_status,
    is_within,
    read_choice,
    read_filter,
    read_id_filter,
)
from workflows.rest.base.repeated_calls import answer_completion, answer_json, read_once
from workflows.rest.protocol.bodies import read_as, refuse_without_data
from workflows.rest.protocol.operation import FILTER, ID, document
from workflows.rest.protocol.problems import RequestRefused
from workflows.rest.protocol.representations import INTERACTION_FIELDS, show_event, show_interaction
from workflows.rest.protocol.request_bodies import CompleteBody
from workflows.rest.protocol.response_bodies import (
    CompletionOut,
    InteractionList,
    InteractionOut,
    ProblemOut,
    RowList,
)
from workflows.values.json_text import MISSING

#: Any text but control characters, and the two that stand for a place in an address.
SIGNAL_ID = {"type": "string", "minLength": 1, "maxLength": 200, "pattern": r"^(?!\.{1,2}$)[^\x00-\x1f\x7f-\x9f]+$"}

#: The door, as channels and the ledger call it.
DOOR = "api"

#: What is due first; then what has no deadline, the oldest first.
BY_DEADLINE = (
    Segment(("deadline", "id"), Q(deadline__isnull=False)),
    Segment(("id",), Q(deadline__isnull=True), same=("deadline",)),
)

#: What happened, as it was numbered.
BY_NUMBER = (Segment(("seq",)),)

#: The items of a unit, as they were given.
BY_INDEX = (Segment(("index",)),)

#: Parameter of the address -> what it is compared with.
FILTERS = {
    "assignee": "assignee",
    "group": "group",
    "workflow": "instance__workflow",
    "step": "unit__step",
    "channel": "channel",
    "correlation_id": "correlation_id",
}


class InteractionEndpoint(Endpoint):
    """What addresses of interactions share: whose they are."""

    needs: ClassVar = {"GET": READ_INTERACTIONS}

    def list_mine(self) -> QuerySet[Any]:
        """The interactions that the caller may know of."""
        rows = Interaction.objects.using(self.db.alias).filter(is_within(self.caller.workspace)).exclude(channel=LINE)
        if self.caller.workflows is not None:
            rows = rows.filter(instance__workflow__in=self.caller.workflows)
        return rows.select_related("instance", "unit").only(*INTERACTION_FIELDS)


class Interactions(InteractionEndpoint):
    """The questions of a workspace."""

    @document(
        "listInteractions",
        "Interactions",
        "List what is asked",
        "What is due first comes first, then what has no deadline, the oldest first; of a `unit` the items, in their "
        "order. Items that wait for their turn are listed with their unit only. Blank filters are ignored.",
        answers={200: (InteractionList, "A page of them.")},
        scope="read",
        pages=True,
        parameters=[
            OpenApiParameter("status", str, enum=list(InteractionStatus), description="Those in this status."),
            OpenApiParameter("unit", FILTER, description="The items of this unit, by its id."),
            *(OpenApiParameter(name, FILTER, description=f"Those with this {name}.") for name in FILTERS),
        ],
    )
    def get(self, request: Request) -> HttpResponse:
        """A page of them."""
        plain, rows = request._request, self.list_mine()
        unit = read_id_filter(plain, "unit")
        status = read_choice(plain, "status", InteractionStatus)
        if unit is not None:
            rows = rows.filter(unit_id=unit)
        if status:
            rows = rows.filter(has_status(InteractionStatus(status)))
        if unit is None or status == InteractionStatus.PENDING:
            rows = rows.filter(queued=False)  # whose turn has not come is not asked yet
        for name, column in FILTERS.items():
            if (value := read_filter(plain, name)) is not None:
                rows = rows.filter(**{column: value})
        return answer_list(plain, rows, BY_DEADLINE if unit is None else BY_INDEX, show_interaction)


class OneInteraction(InteractionEndpoint):
    """One question."""

    @document(
        "getInteraction",
        "Interactions",
        "Look at a question",
        "What is asked, of whom, until when; and the answer once there is one.",
        answers={200: (InteractionOut, "The question, and its answer once there is one.")},
        problems=[404],
        scope="read",
        parameters=[ID],
    )
    def get(self, request: Request, id: str) -> HttpResponse:
        """As it is."""
        found = self.list_mine().filter(pk=read_id(id)).first()
        if found is None:
            raise refuse_unknown()
        return answer_json(ChangeAnswer(show_interaction(found)).write())


class InteractionEvents(InteractionEndpoint):
    """The history of one question."""

    @document(
        "listInteractionEvents",
        "Interactions",
        "Read what happened to a question",
        "What is done to it, such as the votes on an approval. The rows of a single question are those of its instance "
        "that are about it; an item of a list has rows of its own, in no other history.",
        answers={200: (RowList, "A page of its rows.")},
        problems=[404],
        scope="read",
        pages=True,
        parameters=[ID],
    )
    def get(self, request: Request, id: str) -> HttpResponse:
        """A page of its rows, in order."""
        found = self.list_mine().filter(pk=read_id(id)).first()
        if found is None:
            raise refuse_unknown()
        rows = LedgerEvent.objects.using(self.db.alias)
        # An item's own rows lie under its id. Those about a single question are among its instance's.
        rows = rows.filter(instance_id=found.pk) if found.item else rows.filter(**about(found))
        return answer_list(request._request, rows, BY_NUMBER, show_event)


def about(question: Interaction) -> dict[str, Any]:
    """The condition that a row of the ledger is about a single question."""
    return {"instance_id": question.instance_id, "data__interaction": str(question.pk)}


#: What the document says of an answer, whichever address it came by.
TAKEN = {
    200: (CompletionOut, "Taken, or taken before with the same idempotency key."),
    409: (
        ProblemOut,
        "Another version than was shown, answered through another channel, or an idempotency key that came "
        "with other data: `type` tells which.",
    ),
}


class _CompletionEndpoint(Endpoint):
    needs: ClassVar = {"POST": COMPLETE}

    def complete(
        self, request: Request, by: Literal["id", "signal_id"], text: str, read: Callable[[str], UUID | str]
    ) -> HttpResponse:
        """Answer it. The body is judged first, whatever the address says."""

        def takes_more() -> bool:
            """Before a large body is read: one that takes a list of answers, or that was answered by this very call."""
            try:
                target = read(text)
            except (RequestRefused, InvalidSignalId):
                return False
            once = read_once(request._request, b"")
            return takes_many(by, target, workspace=self.caller.workspace, once=once, workflows=self.caller.workflows)

        with count_malformed(self.caller.workspace):
            raw, sent = self.read_body(request, more=takes_more)
            # Without data there is nothing to answer with, whatever else there is; a slip beside it is told as one.
            body = read_as(CompleteBody, sent) if isinstance(sent, dict) and "data" in sent else None
        try:
            target = read(text)
        except (RequestRefused, InvalidSignalId):
            count_dropped(self.caller.workspace, "unknown")
            raise
        try:
            done = complete_at(
                by,
                target,
                MISSING if body is None else body.data,
                workspace=self.caller.workspace,
                door=DOOR,
                actor=self.caller.actor,
                once=read_once(request._request, raw),
                version=None if body is None else body.version,
                workflows=self.caller.workflows,
                too_large=refuse_single(raw),
            )
        except InvalidData as error:
            if body is not None:
                raise
            raise refuse_without_data() from error
        return answer_completion(done)


class CompleteSignal(_CompletionEndpoint):
    """A question by its signal id."""

    @document(
        "completeSignal",
        "Interactions",
        "Answer a question by its signal id",
        "The one that is open under this id, else the latest that was. The id stands in the address percent-encoded, "
        "slashes too (`%2F`).",
        body=CompleteBody,
        answers=TAKEN,
        problems=[404, 410, 422],
        scope="complete",
        posts=True,
        parameters=[
            OpenApiParameter(
                "signal_id", SIGNAL_ID, OpenApiParameter.PATH, description="The `signal_id` of the question."
            )
        ],
    )
    def post(self, request: Request, signal_id: str) -> HttpResponse:
        """Answer it."""
        return self.complete(request, "signal_id", signal_id, check_signal_id)


class CompleteInteraction(_CompletionEndpoint):
    """A question by its id."""

    @document(
        "completeInteraction",
        "Interactions",
        "Answer a question by its id",
        "The answer is checked against the question's `schema`; the instance goes on with it.",
        body=CompleteBody,
        answers=TAKEN,
        problems=[404, 410, 422],
        scope="complete",
        posts=True,
        parameters=[ID],
    )
    def post(self, request: Request, id: str) -> HttpResponse:
        """Answer it."""
        return self.complete(request, "id", id, read_id)
