"""/v1/interactions/{id}/fail and …/retry: a question that cannot be answered, and an item that is asked once more."""

from __future__ import annotations

from typing import Annotated, ClassVar
from uuid import UUID

from django.http import HttpResponse
from pydantic import ConfigDict, Field
from rest_framework.request import Request

import workflows
from workflows.api.completions.failing import MOST_REASON, fail_at
from workflows.exceptions import InteractionRefused
from workflows.models import Interaction
from workflows.rest.base.authentication import COMPLETE, RETRY
from workflows.rest.base.endpoint import ChangeAnswer
from workflows.rest.base.ids import read_id, refuse_unknown
from workflows.rest.protocol.bodies import Body, read_as
from workflows.rest.protocol.operation import ID, document
from workflows.rest.protocol.representations import show_interaction
from workflows.rest.protocol.request_bodies import RetryBody
from workflows.rest.protocol.response_bodies import InteractionOut, ProblemOut
from workflows.rest.resources.interaction_views import DOOR, InteractionEndpoint


class FailBody(Body):
    """Why a question cannot be answered."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "there is no such account"}]})

    reason: Annotated[
        str,
        Field(min_length=1, max_length=MOST_REASON, description="The workflow is told it, with `UnitFailed`."),
    ]


class _OneQuestion(InteractionEndpoint):
    def find(self, id: str) -> Interaction:
        """The question, if the caller may know of it."""
        found: Interaction | None = self.list_mine().filter(pk=read_id(id)).first()
        if found is None:
            raise refuse_unknown()
        return found

    def answer_found(self, id: str) -> ChangeAnswer:
        """As it is now."""
        found = self.find(id)
        return ChangeAnswer(show_interaction(found), instance=found.instance_id)


class FailInteraction(_OneQuestion):
    """Report that a question cannot be answered."""

    needs: ClassVar = {"POST": COMPLETE}
    traced: ClassVar = (InteractionRefused,)

    @document(
        "failInteraction",
        "Interactions",
        "Report that a question cannot be answered",
        "The wait fails with the reason. Of a list only this item fails; what that does to the others is said by the "
        "workflow.",
        body=FailBody,
        answers={
            200: (InteractionOut, "It has failed."),
            409: (
                ProblemOut,
                "Another channel answers it, or an idempotency key came with another body: `type` tells which.",
            ),
        },
        problems=[404, 410],
        scope="complete",
        posts=True,
        parameters=[ID],
    )
    def post(self, request: Request, id: str) -> HttpResponse:
        """Report it."""
        raw, value = self.read_body(request)
        body = read_as(FailBody, value)

        def work() -> ChangeAnswer:
            fail_at(
                read_id(id),
                body.reason,
                workspace=self.caller.workspace,
                door=DOOR,
                actor=self.caller.actor,
                workflows=self.caller.workflows,
            )
            return self.answer_found(id)

        return self.answer_once(request, raw, work)


class RetryItem(_OneQuestion):
    """Ask a failed or expired item once more."""

    needs: ClassVar = {"POST": RETRY}

    @document(
        "retryInteraction",
        "Interactions",
        "Ask an item of a list once more",
        "One that failed or expired, while its unit is open: where the workflow goes on with what arrives. Where the "
        "instance has failed, retry that. The body may be left out.",
        body=RetryBody,
        answers={
            200: (InteractionOut, "It is asked once more, or will be in its turn."),
            409: (ProblemOut, "It has not failed, or its unit is over; or the idempotency key came with another body."),
        },
        problems=[404],
        scope="operate",
        posts=True,
        parameters=[ID],
    )
    def post(self, request: Request, id: str) -> HttpResponse:
        """Ask it."""
        raw, value = self.read_body(request, empty=True)
        read_as(RetryBody, value)

        def work() -> ChangeAnswer:
            found = self.find(id)
            workflows.retry_item(UUID(str(found.pk)), workspace=self.caller.slug, actor=self.caller.actor)
            return self.answer_found(id)

        return self.answer_once(request, raw, work)
