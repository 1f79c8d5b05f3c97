"""/v1/instances: started, listed, looked at, waited for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any, ClassVar

from django.db.models import F, Q, QuerySet
from django.db.models.lookups import GreaterThanOrEqual, LessThan
from django.http import HttpResponse
from django.utils.dateparse import parse_datetime
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

import workflows
from workflows.conf import conf
from workflows.definitions.flow.flow_options import DEFAULT_QUEUE
from workflows.definitions.flow.known_limits import check_queue
from workflows.exceptions import DuplicateKey
from workflows.lifecycle import Status
from workflows.models import Instance
from workflows.models.literals import LiteralNumber
from workflows.rest.base.authentication import READ, RETRY, START, Caller
from workflows.rest.base.endpoint import ChangeAnswer, Endpoint
from workflows.rest.base.ids import read_id, refuse_unknown
from workflows.rest.base.lists import (
    Segment,
    answer_list,
    code_of,
    has_status,
    is_within,
    read_choice,
    read_filter,
    refuse_parameter,
)
from workflows.rest.base.repeated_calls import answer_json
from workflows.rest.protocol.bodies import read_as
from workflows.rest.protocol.operation import FILTER, ID, document
from workflows.rest.protocol.problems import (
    DUPLICATE_KEY,
    INSTANCE_CANCELLED,
    INSTANCE_FAILED,
    RequestRefused,
    answer_problem,
)
from workflows.rest.protocol.representations import show_instance, show_one_instance
from workflows.rest.protocol.request_bodies import StartBody
from workflows.rest.protocol.response_bodies import (
    DuplicateProblemOut,
    EndedProblemOut,
    EventList,
    InstanceList,
    InstanceOut,
)
from workflows.rest.resources.history_pages import answer_history
from workflows.rest.resources.long_polls import wait_for_end

MOST_SECONDS = 30


class InstanceEndpoint(Endpoint):
    """What addresses of instances share: whose they are."""

    def list_mine(self) -> QuerySet[Any]:
        """The instances that the caller may know of."""
        rows = Instance.objects.using(self.db.alias).filter(is_within(self.caller.workspace))
        return rows if self.caller.workflows is None else rows.filter(workflow__in=self.caller.workflows)

    def find(self, id: str) -> Instance:
        """One of them; 404 for any other."""
        found: Instance | None = self.list_mine().filter(pk=read_id(id)).first()
        if found is None:
            raise refuse_unknown()
        return found

    def answer_instance(self, instance: Instance, status: int = 200) -> ChangeAnswer:
        """All of it."""
        return ChangeAnswer(self.show_whole(instance), status, instance.pk)

    def show_whole(self, instance: Instance) -> dict[str, Any]:
        """All of it, as this caller may see it."""
        return show_one_instance(instance, self.caller.slug, operates=self.caller.may(RETRY))


class Instances(InstanceEndpoint):
    """All of a workspace."""

    needs: ClassVar = {"GET": READ, "POST": START}

    @document(
        "listInstances",
        "Instances",
        "List instances",
        "The newest first. Blank filters are ignored.",
        answers={200: (InstanceList, "A page of them.")},
        scope="read",
        pages=True,
        parameters=[
            OpenApiParameter("status", str, enum=list(Status), description="Those in this status."),
            OpenApiParameter("workflow", FILTER, description="Those of this workflow."),
            OpenApiParameter("queue", FILTER, description="Those of this queue."),
            OpenApiParameter("key", FILTER, description="Those that have or had this correlation key."),
        ],
    )
    def get(self, request: Request) -> HttpResponse:
        """A page of them, the newest first."""
        plain, rows = request._request, self.list_mine().defer("traceback")
        if status := read_choice(plain, "status", Status):
            rows = rows.filter(has_status(Status(status)))
        if workflow := read_filter(plain, "workflow"):
            rows = rows.filter(workflow=workflow)
        if queue := read_filter(plain, "queue"):
            rows = rows.filter(Q(queue=queue) | Q(queue=None) if queue == DEFAULT_QUEUE else Q(queue=queue))
        if key := read_filter(plain, "key"):
            rows = rows.filter(has_key(key))
        return answer_list(plain, rows, [Segment(("id",), descending=True)], self.show)

    @document(
        "startInstance",
        "Instances",
        "Start an instance",
        "It runs as soon as a worker looks.",
        body=StartBody,
        answers={
            201: (InstanceOut, "Started, or started before by the same call."),
            409: (
                DuplicateProblemOut,
                "A live instance of the workspace holds the key (`existing` is its id), or the idempotency key came "
                "with another body.",
            ),
        },
        problems=[422],
        scope="start",
        posts=True,
    )
    def post(self, request: Request) -> HttpResponse:
        """Start one."""
        raw, value = self.read_body(request)
        body = read_as(StartBody, value)
        self.caller.check_workflow(body.workflow)

        def start() -> ChangeAnswer:
            check_queue(body.queue, self.caller.workflows)
            with tell_unseen_holder(self.caller):
                started = workflows.start(
                    body.workflow,
                    body.input,
                    key=body.key,
                    queue=body.queue,
                    priority=body.priority,
                    actor=self.caller.actor,
                )
            return self.answer_instance(started, 201)

        return self.answer_once(request, raw, start)

    def show(self, instance: Instance) -> dict[str, Any]:
        """A row of the list."""
        return show_instance(instance, self.caller.slug, operates=self.caller.may(RETRY))


class OneInstance(InstanceEndpoint):
    """One instance, now or when it has ended."""

    needs: ClassVar = {"GET": READ}

    @document(
        "getInstance",
        "Instances",
        "Look at an instance, or wait for its end",
        "Without `wait` it is shown as it is. With `wait` the answer comes when it has ended, or after so many "
        "seconds: 200 done, 422 failed or cancelled, 202 not yet.",
        answers={
            200: (InstanceOut, "The instance."),
            202: (InstanceOut, "It has not ended yet: ask again (`Retry-After`)."),
            422: (EndedProblemOut, "It has failed or was cancelled: `detail` says why."),
        },
        problems=[404],
        scope="read",
        parameters=[
            ID,
            OpenApiParameter(
                "wait",
                {"type": "integer", "minimum": 0, "maximum": MOST_SECONDS},
                description="Seconds to wait for its end.",
            ),
            OpenApiParameter(
                "progress_after",
                datetime,
                description="With `wait`: answer also once its `progress.at` is later than this.",
            ),
        ],
    )
    def get(self, request: Request, id: str) -> HttpResponse:
        """As it is; with `wait`, once it has ended or when the time is over."""
        seconds, known = read_seconds(request), read_moment(request)
        instance = self.find(id)
        if seconds is None:
            return answer_json(self.answer_instance(instance).write())
        if seconds and not instance.ended and not has_progressed(instance, known):
            wait_for_end(instance.pk, seconds, who=self.caller.actor, most=conf.max_waits, progressed=known)
            instance = self.find(id)
        return self.answer_waited(instance)

    def answer_waited(self, instance: Instance) -> HttpResponse:
        """200 done, 422 failed or cancelled, 202 not yet."""
        shown = self.show_whole(instance)
        if instance.status == Status.DONE:
            return answer_json(ChangeAnswer(shown).write())
        if not instance.ended:
            response = answer_json(ChangeAnswer(shown).write(), status=202)
            response["Retry-After"] = "1"
            return response
        kind = INSTANCE_FAILED if instance.status == Status.FAILED else INSTANCE_CANCELLED
        # `status` of a problem is that of the answer.
        members = {("instance_status" if name == "status" else name): value for name, value in shown.items()}
        return answer_problem(kind, instance.error or "No reason was given.", members=members)


class InstanceEvents(InstanceEndpoint):
    """The ledger of one instance."""

    needs: ClassVar = {"GET": READ}

    @document(
        "listInstanceEvents",
        "Instances",
        "Read an instance's ledger",
        "What happened to it, in order; nothing of it is ever changed. Rows of its units of items have a `unit`. "
        "`lifecycle` says what a row means in the life of an await.",
        answers={200: (EventList, "A page of its rows.")},
        problems=[404],
        scope="read",
        pages=True,
        parameters=[ID],
    )
    def get(self, request: Request, id: str) -> HttpResponse:
        """A page of its rows, in order."""
        return answer_history(request._request, self.db.alias, self.find(id))


@contextmanager
def tell_unseen_holder(caller: Caller) -> Iterator[None]:
    """Of a key that is held by an instance which the caller cannot see, say no more than that."""
    try:
        yield
    except DuplicateKey as held:
        if held.instance is not None and not caller.sees(held.instance.workflow):
            told = f"key {held.key!r} is held by an instance that you cannot see; choose another one."
            raise RequestRefused(DUPLICATE_KEY, told) from None
        raise


def has_key(key: str) -> Q:
    """The condition that a row has or had this key; in two parts, because the live and the ended have an index each."""
    ended = LiteralNumber(code_of(Status.DONE))
    return Q(LessThan(F("status"), ended), key=key) | Q(GreaterThanOrEqual(F("status"), ended), key=key)


def has_progressed(instance: Instance, known: float | None) -> bool:
    """Whether it has said more than the client knows; never, for one who does not ask."""
    at = instance.progress_at
    return at is not None and known is not None and at.timestamp() > known


def read_moment(request: Request) -> float | None:
    """When the client last heard of progress, in seconds since 1970, if it wants to hear of more."""
    text = request._request.GET.get("progress_after", "").strip()
    if not text:
        return None
    try:
        moment = parse_datetime(text)
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise refuse_parameter("progress_after", "must be a moment with its zone, such as 2026-11-18T09:30:00Z")
    return moment.timestamp()


def read_seconds(request: Request) -> float | None:
    """How long the client waits, if it does."""
    text = request._request.GET.get("wait", "")
    if not text.strip():
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= MOST_SECONDS):
        raise refuse_parameter("wait", f"must be a whole number of seconds from 0 to {MOST_SECONDS}")
    return float(text)
