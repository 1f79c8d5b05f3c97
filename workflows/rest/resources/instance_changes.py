"""/v1/instances/{id}/…: what an operator does to one instance: cancel, retry, fork."""

from __future__ import annotations

from typing import Any, ClassVar

from django.http import HttpResponse
from rest_framework.request import Request

import workflows
from workflows.models import Instance
from workflows.rest.base.authentication import CANCEL, FORK, RETRY, START, Need
from workflows.rest.base.endpoint import ChangeAnswer
from workflows.rest.protocol.bodies import read_as
from workflows.rest.protocol.operation import ID, document
from workflows.rest.protocol.request_bodies import CancelBody, ForkBody, RetryBody
from workflows.rest.protocol.response_bodies import DuplicateProblemOut, InstanceOut, ProblemOut
from workflows.rest.resources.instance_views import InstanceEndpoint, tell_unseen_holder


class _InstanceChange(InstanceEndpoint):
    """An operator's call about one instance."""

    needs: ClassVar[dict[str, Need]] = {}
    body: ClassVar[type[CancelBody] | type[RetryBody] | type[ForkBody]]
    #: What is answered.
    status: ClassVar[int] = 200

    def carry_out(self, request: Request, id: str) -> HttpResponse:
        """Carry it out."""
        raw, value = self.read_body(request, empty=True)
        body = read_as(self.body, value)

        def operate() -> ChangeAnswer:
            found = self.find(id)
            return self.answer_instance(self.operate(found, body), self.status)

        return self.answer_once(request, raw, operate)

    def operate(self, instance: Instance, body: Any) -> Instance:
        """What the address stands for."""
        raise NotImplementedError


class CancelInstance(_InstanceChange):
    """Cancel it, with all its children."""

    needs: ClassVar = {"POST": CANCEL}
    body = CancelBody

    @document(
        "cancelInstance",
        "Instances",
        "Cancel an instance",
        "With all its children and questions, in one transaction. The body may be left out.",
        body=CancelBody,
        answers={
            200: (InstanceOut, "Cancelled."),
            409: (ProblemOut, "It has ended already, or the idempotency key came with another body."),
        },
        problems=[404],
        scope="operate",
        posts=True,
        parameters=[ID],
    )
    def post(self, request: Request, id: str) -> HttpResponse:
        """Cancel."""
        return self.carry_out(request, id)

    def operate(self, instance: Instance, body: CancelBody) -> Instance:
        """Cancel."""
        return workflows.cancel(instance, body.reason, actor=self.caller.actor)


class RetryInstance(_InstanceChange):
    """Run a failed one again, from where it failed."""

    needs: ClassVar = {"POST": RETRY}
    body = RetryBody

    @document(
        "retryInstance",
        "Instances",
        "Retry a failed instance",
        "It goes on from the step that failed, with its state and its signals. The body may be left out.",
        body=RetryBody,
        answers={
            200: (InstanceOut, "It goes on, and may be running already."),
            409: (ProblemOut, "It has not failed, or cannot come back; or the idempotency key came with another body."),
        },
        problems=[404],
        scope="operate",
        posts=True,
        parameters=[ID],
    )
    def post(self, request: Request, id: str) -> HttpResponse:
        """Retry."""
        return self.carry_out(request, id)

    def operate(self, instance: Instance, body: RetryBody) -> Instance:
        """Retry."""
        return workflows.retry(instance, actor=self.caller.actor)


class ForkInstance(_InstanceChange):
    """Start another instance from a point in the life of this one."""

    needs: ClassVar = {"POST": FORK}
    body = ForkBody
    status = 201

    @document(
        "forkInstance",
        "Instances",
        "Fork an instance",
        "A new instance goes on from a point in the life of this one, which is not touched. The body may be left out.",
        body=ForkBody,
        answers={
            201: (InstanceOut, "The new instance; `forked_from` is this one."),
            409: (
                DuplicateProblemOut,
                "It cannot go on from there (`detail` says why), a live instance holds the key, or the idempotency key "
                "came with another body.",
            ),
        },
        problems=[404, 422],
        scope="operate",
        posts=True,
        parameters=[ID],
    )
    def post(self, request: Request, id: str) -> HttpResponse:
        """Fork."""
        return self.carry_out(request, id)

    def find_list(self, path: str) -> str:
        """That of all instances."""
        return path.removesuffix(f"/{self.kwargs['id']}/fork")

    def operate(self, instance: Instance, body: ForkBody) -> Instance:
        """Fork."""
        values = body.list_values()
        if values:
            self.caller.check(START)
        with tell_unseen_holder(self.caller):
            return workflows.fork(instance, at=body.at, key=body.key, actor=self.caller.actor, **values)
