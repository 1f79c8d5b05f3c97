"""/v1/schedules: made, listed, looked at, changed, removed, run now. A schedule is addressed by its name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated, Any, ClassVar, Literal

from django.db.models import QuerySet
from django.http import HttpResponse
from drf_spectacular.utils import OpenApiParameter
from pydantic import ConfigDict, Field
from rest_framework.request import Request

from workflows import store
from workflows.api.schedule_calls import change_schedule, create_schedule, find_schedule, run_schedule, unschedule
from workflows.exceptions import DuplicateSchedule, UnknownSchedule
from workflows.models import Schedule
from workflows.rest.base.authentication import MANAGE_SCHEDULES, READ_SCHEDULES, REMOVE_SCHEDULES, RUN_SCHEDULES
from workflows.rest.base.endpoint import ChangeAnswer, Endpoint
from workflows.rest.base.lists import Segment, answer_list, is_within, read_choice, read_filter
from workflows.rest.base.repeated_calls import REPLAYED, answer_json, read_idempotency_key
from workflows.rest.protocol.bodies import AS_WHOLE, Body, Key, Shape, read_as
from workflows.rest.protocol.operation import FILTER, IDEMPOTENCY, document
from workflows.rest.protocol.problems import DUPLICATE_SCHEDULE, RequestRefused
from workflows.rest.protocol.representations import show_one_instance
from workflows.rest.protocol.request_bodies import RetryBody
from workflows.rest.protocol.response_bodies import InstanceOut, ListOut, ProblemOut
from workflows.rest.resources.unit_views import FLAGS
from workflows.schedules.schedule_plan import list_shown_ticks
from workflows.store import Once, Told
from workflows.values.schedule_options import show_catch_up
from workflows.values.times import to_rfc3339

BY_NAME = (Segment(("name",)),)
#: Ticks to come that are shown.
NEXT_TICKS = 5
NAME = OpenApiParameter(
    "schedule",
    {"type": "string", "minLength": 1, "maxLength": 200},
    OpenApiParameter.PATH,
    description="The schedule's name.",
)
OverlapText = Literal["skip", "allow", "cancel"]
CatchUpText = Literal["none", "last"]
_CRON = "Minute, hour, day of the month, month, day of the week, as `0 9 * * 1-5`; or `every`."
_EVERY = "An interval, as `15m` or seconds; or `cron`."
_TZ = "The IANA name of the zone in which `cron` speaks; left out, the site's own."
_INPUT = "What its instances are started with; {} if left out."
_OVERLAP = "What a tick does while the instance lives that was started last: skip, start beside it, or cancel it."
_CATCH_UP = "Missed ticks that are made up for: none, the last one, or so many of the last ones."
_EXAMPLE: Any = {"name": "reports", "workflow": "Report", "cron": "0 9 * * 1-5", "tz": "Europe/Berlin"}
Times = Annotated[int, Field(ge=1, le=1000), AS_WHOLE]


class ScheduleBody(Body):
    """A schedule to be made."""

    model_config = ConfigDict(json_schema_extra={"examples": [_EXAMPLE]})

    name: Annotated[Key, Field(description="Unique in the workspace.")]
    workflow: Annotated[str, Field(min_length=1, description="The name of a workflow.")]
    cron: Annotated[str | None, Field(description=_CRON)] = None
    every: Annotated[str | float | int | None, Field(description=_EVERY)] = None
    tz: Annotated[str | None, Field(description=_TZ)] = None
    input: Annotated[Any, Field(description=_INPUT)] = None
    overlap: Annotated[OverlapText, Field(description=_OVERLAP)] = "skip"
    catch_up: Annotated[CatchUpText | Times, Field(description=_CATCH_UP)] = "last"
    enabled: Annotated[bool, Field(description="Whether it ticks.")] = True


class ScheduleChangeBody(Body):
    """What is to be changed of a schedule; the rest stays."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"enabled": False}]})

    workflow: Annotated[str | None, Field(min_length=1, description="The name of a workflow.")] = None
    cron: Annotated[str | None, Field(description=f"{_CRON} It takes the place of `every`.")] = None
    every: Annotated[str | float | int | None, Field(description=f"{_EVERY} It takes the place of `cron`.")] = None
    tz: Annotated[str | None, Field(description=_TZ)] = None
    input: Annotated[Any, Field(description=_INPUT)] = None
    overlap: Annotated[OverlapText, Field(description=_OVERLAP)] = "skip"
    catch_up: Annotated[CatchUpText | Times, Field(description=_CATCH_UP)] = "last"
    enabled: Annotated[bool, Field(description="Whether it ticks. Ticks meanwhile are not missed.")] = True


class ScheduleOut(Shape):
    """A schedule."""

    model_config = ConfigDict(title="Schedule")

    name: Annotated[str, Field(description="Its address within the workspace.")]
    workspace: Annotated[str, Field(description="The slug of its workspace.")]
    workflow: Annotated[str, Field(description="What it starts.")]
    input: Annotated[Any, Field(description="What its instances are started with.")]
    cron: Annotated[str | None, Field(description="The expression by which it ticks.")]
    every: Annotated[float | None, Field(description="Or the seconds of its interval.")]
    tz: Annotated[str, Field(description="The zone in which `cron` speaks.")]
    overlap: Annotated[OverlapText, Field(description=_OVERLAP)]
    catch_up: Annotated[CatchUpText | int, Field(description=_CATCH_UP)]
    enabled: Annotated[bool, Field(description="Whether it ticks.")]
    next_ticks: Annotated[list[str], Field(description="The next five; those that it would have while it is off.")]
    last_tick: Annotated[str | None, Field(description="Its last one.")]
    last_instance: Annotated[str | None, Field(description="The id of the instance that it started last.")]
    error: Annotated[str | None, Field(description="Why the last tick started nothing, where that was an error.")]
    declared: Annotated[bool, Field(description="Whether code declares it.")]
    edited: Annotated[bool, Field(description="Whether it was changed at run time, so that code changes it no more.")]
    created_at: Annotated[str, Field(description="When it was made.")]


class ScheduleList(ListOut):
    """A page of schedules."""

    model_config = ConfigDict(title="Schedules")

    results: Annotated[list[ScheduleOut], Field(description="In the order of the list.")]


class _ScheduleEndpoint(Endpoint):
    """What addresses of schedules share: whose they are."""

    http_method_names = ("get", "head", "post", "patch", "delete")

    def list_mine(self) -> QuerySet[Any]:
        """The schedules that the caller may know of."""
        rows: QuerySet[Any] = Schedule.objects.using(self.db.alias).filter(is_within(self.caller.workspace))
        return rows if self.caller.workflows is None else rows.filter(workflow__in=self.caller.workflows)

    def find(self, name: str) -> Schedule:
        """One of them; 404 for any other."""
        found = find_schedule(name)
        if not self.caller.sees(found.workflow):
            raise UnknownSchedule(name)
        return found

    def change_held(self, name: str, change: Callable[[Schedule], ChangeAnswer]) -> ChangeAnswer:
        """Change one of them, which nobody else changes between the look at whose it is and the end of that."""

        def hold_and_change() -> ChangeAnswer:
            found = self.find(name)  # first: what the caller may not know of is not locked for it
            store.lock_schedule(self.db, found.workspace_id, found.name)
            return change(self.find(name))

        return store.in_transaction(self.db, hold_and_change)

    def hear_again(self, once: Once, before: Told) -> Told:
        """Whoever may know of the schedule that was told of, as it was then, may be told again."""
        if before.instance is None and before.workflow is None:
            before = replace(before, workflow=json.loads(before.body)["workflow"])
        return super().hear_again(once, before)

    def show(self, row: Schedule) -> dict[str, Any]:
        """A row of the list."""
        return show_schedule(row, self.caller.slug)


class Schedules(_ScheduleEndpoint):
    """All of a workspace."""

    needs: ClassVar = {"GET": READ_SCHEDULES, "POST": MANAGE_SCHEDULES}

    @document(
        "listSchedules",
        "Schedules",
        "List schedules",
        "By name. Blank filters are ignored.",
        answers={200: (ScheduleList, "A page of them.")},
        scope="read",
        pages=True,
        parameters=[
            OpenApiParameter("workflow", FILTER, description="Those that start this workflow."),
            OpenApiParameter("enabled", str, enum=list(FLAGS), description="Whether they tick."),
        ],
    )
    def get(self, request: Request) -> HttpResponse:
        """A page of them, by name."""
        plain, rows = request._request, self.list_mine()
        if workflow := read_filter(plain, "workflow"):
            rows = rows.filter(workflow=workflow)
        if (enabled := read_choice(plain, "enabled", FLAGS)) is not None:
            rows = rows.filter(enabled=enabled == "true")
        return answer_list(plain, rows, BY_NAME, self.show)

    @document(
        "createSchedule",
        "Schedules",
        "Make a schedule",
        "It ticks from now on. A key needs the scope `start` as well.",
        body=ScheduleBody,
        answers={
            201: (ScheduleOut, "Made, or made before by the same call."),
            409: (
                ProblemOut,
                "There is one of this name, the workspace has as many as it may have, or the idempotency key came with "
                "another body.",
            ),
        },
        problems=[422],
        scope="operate",
        posts=True,
    )
    def post(self, request: Request) -> HttpResponse:
        """Make one."""
        raw, value = self.read_body(request)
        body = read_as(ScheduleBody, value)
        self.caller.check_workflow(body.workflow)

        def make() -> ChangeAnswer:
            fields = {name: getattr(body, name) for name in type(body).model_fields if name != "name"}
            try:
                return ChangeAnswer(self.show(create_schedule(body.name, fields)), 201)
            except DuplicateSchedule:
                if self.list_mine().filter(name=body.name).exists():
                    raise
                told = f"name {body.name!r} is taken by a schedule that you cannot see; choose another one."
                raise RequestRefused(DUPLICATE_SCHEDULE, told) from None

        return self.answer_once(request, raw, make)

    def locate(self, path: str, body: Mapping[str, Any]) -> str:
        """The address of a new schedule."""
        return super().locate(path, {"id": body["name"]})


class OneSchedule(_ScheduleEndpoint):
    """One schedule, by its name."""

    needs: ClassVar = {"GET": READ_SCHEDULES, "PATCH": MANAGE_SCHEDULES, "DELETE": REMOVE_SCHEDULES}

    @document(
        "getSchedule",
        "Schedules",
        "Look at a schedule",
        "With its next five ticks.",
        answers={200: (ScheduleOut, "The schedule.")},
        problems=[404],
        scope="read",
        parameters=[NAME],
    )
    def get(self, request: Request, schedule: str) -> HttpResponse:
        """As it is."""
        return answer_json(ChangeAnswer(self.show(self.find(schedule))).write())

    @document(
        "changeSchedule",
        "Schedules",
        "Change a schedule",
        "Members that are left out stay as they are. Ticks move only when the times do. A key needs the scope `start` "
        "as well.",
        body=ScheduleChangeBody,
        answers={
            200: (ScheduleOut, "Changed."),
            409: (ProblemOut, "The idempotency key came with another body."),
        },
        problems=[404, 422],
        scope="operate",
        posts=True,
        parameters=[NAME],
    )
    def patch(self, request: Request, schedule: str) -> HttpResponse:
        """Change it."""
        raw, value = self.read_body(request, empty=True)
        body = read_as(ScheduleChangeBody, value)
        fields = {one: getattr(body, one) for one in body.model_fields_set}
        if body.workflow is not None:
            self.caller.check_workflow(body.workflow)

        def change(found: Schedule) -> ChangeAnswer:
            return ChangeAnswer(self.show(change_schedule(found.name, fields)))

        return self.answer_once(request, raw, lambda: self.change_held(schedule, change))

    @document(
        "deleteSchedule",
        "Schedules",
        "Remove a schedule",
        "What it has started goes on. One that code declares is not made again by that.",
        answers={
            204: (None, "Removed, or removed before by the same call."),
        },
        problems=[400, 404],
        scope="operate",
        parameters=[NAME, IDEMPOTENCY],
    )
    def delete(self, request: Request, schedule: str) -> HttpResponse:
        """Remove it. What is kept for the same call again is whose it was; the answer has no body."""
        read_idempotency_key(request._request)

        def remove(found: Schedule) -> ChangeAnswer:
            unschedule(found.name)
            return ChangeAnswer({"workflow": found.workflow}, 204)

        done = self.answer_once(request, b"", lambda: self.change_held(schedule, remove))
        return HttpResponse(status=204, headers={REPLAYED: done[REPLAYED]} if REPLAYED in done else None)


class RunSchedule(_ScheduleEndpoint):
    """Start an instance of a schedule now."""

    needs: ClassVar = {"POST": RUN_SCHEDULES}

    @document(
        "runSchedule",
        "Schedules",
        "Run a schedule now",
        "Beside its ticks. What the schedule says of overlap holds as for a tick. The body may be left out.",
        body=RetryBody,
        answers={
            200: (InstanceOut, "The instance that was started."),
            409: (
                ProblemOut,
                "It skips while the last instance lives, and that one lives; or the idempotency key came with another "
                "body.",
            ),
        },
        problems=[404, 422],
        scope="start",
        posts=True,
        parameters=[NAME],
    )
    def post(self, request: Request, schedule: str) -> HttpResponse:
        """Run it."""
        raw, value = self.read_body(request, empty=True)
        read_as(RetryBody, value)

        def run(found: Schedule) -> ChangeAnswer:
            started = run_schedule(found.name, actor=self.caller.actor)
            return ChangeAnswer(show_one_instance(started, self.caller.slug), instance=started.pk)

        return self.answer_once(request, raw, lambda: self.change_held(schedule, run))


def show_schedule(row: Schedule, slug: str) -> dict[str, Any]:
    """A schedule, with its next ticks."""
    return {
        "name": row.name,
        "workspace": slug,
        "workflow": row.workflow,
        "input": row.input,
        "cron": row.cron,
        "every": None if row.every is None else row.every.total_seconds(),
        "tz": row.tz,
        "overlap": row.overlap,
        "catch_up": show_catch_up(row.catch_up),
        "enabled": row.enabled,
        "next_ticks": [to_rfc3339(tick) for tick in list_shown_ticks(row, NEXT_TICKS)],
        "last_tick": to_rfc3339(row.last_at),
        "last_instance": None if row.last_instance is None else str(row.last_instance),
        "error": row.error,
        "declared": row.declared is not None,
        "edited": row.edited,
        "created_at": to_rfc3339(row.created_at),
    }
