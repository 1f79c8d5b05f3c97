"""/v1/workflows: what this site knows, and pausing it."""

from __future__ import annotations

from typing import Any, ClassVar

from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

import workflows
from workflows.api.flow_control import list_paused
from workflows.api.idempotency import check_told
from workflows.definitions import registry
from workflows.exceptions import UnknownWorkflow
from workflows.rest.base.authentication import CONTROL, READ
from workflows.rest.base.endpoint import ChangeAnswer, Endpoint
from workflows.rest.base.ids import refuse_unknown
from workflows.rest.base.known_lists import answer_known
from workflows.rest.protocol.bodies import read_as
from workflows.rest.protocol.operation import document
from workflows.rest.protocol.request_bodies import RetryBody
from workflows.rest.resources.flow.flow_bodies import PauseOut, WorkflowList, show_workflow
from workflows.rest.resources.flow.queue_views import REPEATED, TAG
from workflows.store import Once, Told

OF_WORKFLOW = OpenApiParameter("name", str, OpenApiParameter.PATH, description="The workflow's name, percent-encoded.")


class Workflows(Endpoint):
    """The workflows that there are for the caller."""

    needs: ClassVar = {"GET": READ}

    @document(
        "listWorkflows",
        TAG,
        "List workflows",
        "Those that this site knows, each version by itself, with what their code says of flow control.",
        answers={200: (WorkflowList, "A page of them.")},
        scope="read",
        pages=True,
    )
    def get(self, request: Request) -> HttpResponse:
        """A page of them, by name and version."""
        paused = set(list_paused())
        mine = (one for one in registry.list_definitions() if self.caller.sees(one.name))
        return answer_known(
            request._request,
            mine,
            (str, int),
            lambda one: (one.name, one.version),
            lambda one: show_workflow(one, paused=one.name in paused),
        )


class _Pausing(Endpoint):
    """What a key for some workflows may do to these, because nobody else's wait for it."""

    needs: ClassVar = {"POST": CONTROL}

    def hear_again(self, once: Once, before: Told) -> Told:
        """Whoever may pause the workflow of the address, which `carry_out` has looked at, may be told again."""
        check_told(once, before)
        return before

    def carry_out(self, request: Request, name: str, *, paused: bool) -> HttpResponse:
        """Pause it, or let it go on."""
        raw, value = self.read_body(request, empty=True)
        read_as(RetryBody, value)
        if not self.caller.sees(name):
            raise refuse_unknown()
        change: Any = workflows.pause if paused else workflows.unpause

        def work() -> ChangeAnswer:
            try:
                change(name, actor=self.caller.actor)
            except UnknownWorkflow:
                raise refuse_unknown() from None
            return ChangeAnswer({"name": name, "paused": paused})

        return self.answer_once(request, raw, work)


class PauseWorkflow(_Pausing):
    """Begin nothing of a workflow."""

    @document(
        "pauseWorkflow",
        TAG,
        "Pause a workflow",
        "No step of it is begun until it is unpaused, on any worker within seconds; what runs is not interrupted. "
        "Starts, signals, answers and deadlines are taken, and wait. The body may be left out.",
        body=RetryBody,
        answers={200: (PauseOut, "It is paused, now or already."), 409: REPEATED},
        problems=[404],
        scope="operate",
        posts=True,
        parameters=[OF_WORKFLOW],
    )
    def post(self, request: Request, name: str) -> HttpResponse:
        """Pause it."""
        return self.carry_out(request, name, paused=True)


class UnpauseWorkflow(_Pausing):
    """Let a workflow go on."""

    @document(
        "unpauseWorkflow",
        TAG,
        "Let a paused workflow go on",
        "What has come meanwhile is run, within its limits. The body may be left out.",
        body=RetryBody,
        answers={200: (PauseOut, "It goes on, or was not paused."), 409: REPEATED},
        problems=[404],
        scope="operate",
        posts=True,
        parameters=[OF_WORKFLOW],
    )
    def post(self, request: Request, name: str) -> HttpResponse:
        """Let it go on."""
        return self.carry_out(request, name, paused=False)
