"""The JSON that goes out, as types: the OpenAPI document is made of them.

Invariant owned: they say what `representations` and `problems` write; a test compares both.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import ConfigDict, Field

from workflows.rest.protocol.bodies import Json, Shape

Status = Literal["runnable", "running", "awaiting", "sleeping", "awaiting_children", "done", "failed", "cancelled"]


class InstanceProgressOut(Shape):
    """How far an instance is, as its workflow says."""

    model_config = ConfigDict(title="InstanceProgress")

    done: Annotated[float, Field(description="So much is done.")]
    total: Annotated[float | None, Field(description="Of so much, where that is known.")]
    note: Annotated[str, Field(description="In words.")]
    at: Annotated[datetime | None, Field(description="When it was said. Null of items that are counted just now.")]


UnitStatusText = Literal["open", "completed", "failed", "expired", "cancelled"]
CardinalityText = Literal["ONE_TO_ONE", "ONE_TO_MANY", "MANY_TO_ONE", "MANY_TO_MANY"]


class InstanceFields(Shape):
    """An instance, but for its status."""

    id: Annotated[UUID, Field(description="Its own; ids sort by when they were made.")]
    workspace: Annotated[str, Field(description="The slug of its workspace.")]
    workflow: Annotated[str, Field(description="The workflow's name.")]
    version: Annotated[int, Field(description="Of the workflow's code.")]
    key: Annotated[str | None, Field(description="Its correlation key.")]
    step: Annotated[str, Field(description="Where it is, or where it ended.")]
    state: Json
    input: Json
    result: Annotated[Any, Field(description="Once it is done.")]
    error: Annotated[str | None, Field(description="Why it failed or was cancelled.")]
    traceback: Annotated[
        str | None,
        Field(description="The lines that led to its error: for keys with the scope operate, and null in lists."),
    ]
    attempt: Annotated[int, Field(description="How often the step has asked to be run again.")]
    queue: Annotated[str, Field(description="Where it waits to run.")]
    priority: Annotated[int, Field(description="-100 to 100; the higher comes first in its queue.")]
    flow_key: Annotated[
        str | None, Field(description="Its concurrency key, if it has one; for the scope operate only.")
    ]
    progress: Annotated[InstanceProgressOut | None, Field(description="How far it is, where that is known.")]
    parent: Annotated[UUID | None, Field(description="The instance that started it as its child.")]
    forked_from: Annotated[UUID | None, Field(description="The instance that it goes on from.")]
    started_by: Annotated[
        str, Field(description="`user:<id>`, `key:<id>`, `schedule:<name>`, or what the project's code said.")
    ]
    tick: Annotated[datetime | None, Field(description="The moment of the schedule for which it was started.")]
    created_at: Annotated[datetime, Field(description="When it was started.")]
    finished_at: Annotated[datetime | None, Field(description="When it ended.")]


class InstanceOut(InstanceFields):
    """An instance of a workflow."""

    model_config = ConfigDict(title="Instance")

    status: Annotated[Status, Field(description="done, failed and cancelled are ends; the others are on the way.")]


class RowOut(Shape):
    """A row of a history."""

    model_config = ConfigDict(title="Row")

    seq: Annotated[int, Field(description="Counts within the instance, the unit, or the item.")]
    kind: Annotated[str, Field(description="What happened, such as started, signalled, parked, answered, done.")]
    status: Annotated[Status, Field(description="The instance's status after it.")]
    at: Annotated[datetime, Field(description="When, by the database's clock.")]
    actor: Annotated[str, Field(description="Who did it: `user:<id>`, `key:<id>`, or empty for the engine.")]
    name: Annotated[str | None, Field(description="The step, or a signal's name.")]
    data: Json


class EventOut(RowOut):
    """A row of an instance's ledger."""

    model_config = ConfigDict(title="Event")

    unit: Annotated[
        UUID | None, Field(description="Of a unit of items, whose row it is; its rows count by themselves.")
    ]
    lifecycle: Annotated[
        list[str], Field(description="What it means in the life of an await, such as await_unit_completed.")
    ]


class InteractionOut(Shape):
    """A question that somebody outside answers."""

    model_config = ConfigDict(title="Interaction")

    id: Annotated[UUID, Field(description="Its own.")]
    signal_id: Annotated[str, Field(description="As the workflow named it; one open question of a workspace has it.")]
    workflow: Annotated[str, Field(description="The workflow that asks.")]
    instance: Annotated[UUID, Field(description="The instance that asks.")]
    unit: Annotated[UUID, Field(description="The unit that it belongs to.")]
    step: Annotated[str, Field(description="The wait that asks.")]
    index: Annotated[int, Field(description="Which item of a wait for many, from 0.")]
    queued: Annotated[bool, Field(description="It is not asked yet: as many as the wait asks at a time are.")]
    status: Annotated[str, Field(description="pending, completed, failed, expired or cancelled.")]
    version: Annotated[int, Field(description="Raised by every change.")]
    channel: Annotated[str, Field(description="How it is asked; a label, or a channel that takes the answer itself.")]
    assignee: Annotated[str | None, Field(description="Who is asked.")]
    group: Annotated[str | None, Field(description="Which group is asked.")]
    correlation_id: Annotated[str | None, Field(description="The workflow's own reference.")]
    created_at: Annotated[datetime, Field(description="When it was asked.")]
    deadline: Annotated[datetime | None, Field(description="Until when it can be answered.")]
    closed_at: Annotated[datetime | None, Field(description="When it was answered, expired or cancelled.")]
    actor: Annotated[str, Field(description="Who answered.")]
    request: Annotated[Any, Field(description="What is asked about.")]
    schema_: Annotated[Any, Field(alias="schema", description="The JSON Schema that an answer has to fit.")]
    output: Annotated[Any, Field(description="The answer, once there is one.")]


class CountsOut(Shape):
    """How far a unit is."""

    model_config = ConfigDict(title="Counts")

    total: Annotated[int, Field(description="How many items there are; one, where one question is asked.")]
    queued: Annotated[int, Field(description="Those that are not asked yet.")]
    in_flight: Annotated[int, Field(description="Those that are asked and not over.")]
    completed: Annotated[int, Field(description="Those that were answered.")]
    failed: Annotated[int, Field(description="Those that failed.")]
    expired: Annotated[int, Field(description="Those whose deadline passed.")]
    cancelled: Annotated[int, Field(description="Those that were not needed any more.")]
    remaining: Annotated[int, Field(description="Those that the instance still waits for.")]


class UnitOut(Shape):
    """One wait for an answer, or for one answer per item of a list."""

    model_config = ConfigDict(title="Unit")

    id: Annotated[UUID, Field(description="Its own.")]
    instance: Annotated[UUID, Field(description="The instance that waits.")]
    workflow: Annotated[str, Field(description="The workflow that waits.")]
    step: Annotated[str, Field(description="The wait's name.")]
    visit: Annotated[int, Field(description="Which visit of the wait, from 1: a loop asks anew each time.")]
    status: Annotated[UnitStatusText, Field(description="open, until it is over in one of the other ways.")]
    cardinality: Annotated[
        CardinalityText, Field(description="How many questions it asks, and how many answers it takes.")
    ]
    items: Annotated[bool, Field(description="Whether it asks one question per item of a list.")]
    policy: Annotated[
        Literal["fail", "partial"] | None,
        Field(description="What an item that fails or expires does: it fails the unit, or only itself."),
    ]
    concurrency: Annotated[int, Field(description="How many items are asked at a time.")]
    timeout: Annotated[float | None, Field(description="Seconds that each item may take, from when it is asked.")]
    counts: CountsOut
    created_at: Annotated[datetime, Field(description="When the wait began.")]
    deadline: Annotated[datetime | None, Field(description="Until when its one question can be answered.")]
    dispatched_at: Annotated[datetime | None, Field(description="When the last of its items was asked.")]
    closed_at: Annotated[datetime | None, Field(description="When it was over.")]
    released_at: Annotated[datetime | None, Field(description="When the instance was told.")]


class ListOut(Shape):
    """A page of a list."""

    next: Annotated[str | None, Field(description="The address of the next page.")]
    previous: Annotated[str | None, Field(description="The address of the page before.")]


class InstanceList(ListOut):
    """A page of instances."""

    model_config = ConfigDict(title="Instances")

    results: Annotated[list[InstanceOut], Field(description="In the order of the list.")]


class EventList(ListOut):
    """A page of a ledger."""

    model_config = ConfigDict(title="Events")

    results: Annotated[list[EventOut], Field(description="In the order of the list.")]


class RowList(ListOut):
    """A page of the history of a question."""

    model_config = ConfigDict(title="Rows")

    results: Annotated[list[RowOut], Field(description="In the order of the list.")]


class InteractionList(ListOut):
    """A page of questions."""

    model_config = ConfigDict(title="Interactions")

    results: Annotated[list[InteractionOut], Field(description="In the order of the list.")]


class UnitList(ListOut):
    """A page of units."""

    model_config = ConfigDict(title="Units")

    results: Annotated[list[UnitOut], Field(description="In the order of the list.")]


class DeliveryOut(Shape):
    """What became of a signal."""

    model_config = ConfigDict(
        title="Delivery", json_schema_extra={"examples": [{"id": "01a1…:3", "duplicate": False, "woke": True}]}
    )

    id: Annotated[
        str, Field(description="The instance and the signal's number there; of the first one, if a duplicate.")
    ]
    duplicate: Annotated[bool, Field(description="Its dedup key had come before; this one changed nothing.")]
    woke: Annotated[bool, Field(description="The instance waited for it, and goes on.")]


class BulkOut(Shape):
    """What became of one signal of many: as if it had been sent alone."""

    model_config = ConfigDict(
        title="Result",
        json_schema_extra={"examples": [{"status": 202, "id": "01a1…:3", "duplicate": False, "woke": True}]},
    )

    status: Annotated[int, Field(description="202 delivered; 400, 404 or 413 not, and then a problem follows.")]
    id: Annotated[str | None, Field(description="The instance and the signal's number there.")] = None
    duplicate: Annotated[bool | None, Field(description="Its dedup key had come before.")] = None
    woke: Annotated[bool | None, Field(description="The instance waited for it, and goes on.")] = None
    type: Annotated[str | None, Field(description="Of the problem.")] = None
    title: Annotated[str | None, Field(description="Of the problem.")] = None
    detail: Annotated[str | None, Field(description="What to do.")] = None
    errors: Annotated[dict[str, list[str]] | None, Field(description="What is wrong, per member.")] = None


class BulkResults(Shape):
    """One result per signal, in their order."""

    model_config = ConfigDict(title="Results")

    results: Annotated[list[BulkOut], Field(description="One per signal.")]


class CompletionOut(Shape):
    """An answer that was taken."""

    model_config = ConfigDict(title="Completion")

    id: Annotated[UUID, Field(description="The question's.")]
    signal_id: Annotated[str, Field(description="The question's.")]
    instance: Annotated[UUID, Field(description="The instance that asked, and goes on.")]
    status: Annotated[Literal["completed"], Field(description="Of the question.")]


class CompletionLineOut(Shape):
    """What became of one answer of many: as if it had been sent alone."""

    model_config = ConfigDict(
        title="CompletionResult",
        json_schema_extra={"examples": [{"status": 404, "type": "urn:holdpoint:problem:not-found"}]},
    )

    status: Annotated[
        int, Field(description="200 taken; 400, 403, 404, 409, 410, 413 or 422 not, and then a problem follows.")
    ]
    id: Annotated[UUID | None, Field(description="The question's.")] = None
    signal_id: Annotated[str | None, Field(description="The question's.")] = None
    instance: Annotated[UUID | None, Field(description="The instance that asked, and goes on.")] = None
    replayed: Annotated[bool | None, Field(description="The line's own idempotency key had come before.")] = None
    type: Annotated[str | None, Field(description="Of the problem.")] = None
    title: Annotated[str | None, Field(description="Of the problem.")] = None
    detail: Annotated[str | None, Field(description="What to do.")] = None
    errors: Annotated[dict[str, list[str]] | None, Field(description="What is wrong, per member.")] = None


class CompletionResults(Shape):
    """One result per answer, in their order."""

    model_config = ConfigDict(title="Completions")

    results: Annotated[list[CompletionLineOut], Field(description="One per answer.")]


class EmissionOut(Shape):
    """What an event did."""

    model_config = ConfigDict(title="Emission")

    id: Annotated[UUID, Field(description="The event's; of the first one, if a duplicate.")]
    woke: Annotated[int, Field(description="How many parked instances it woke.")]
    started: Annotated[int, Field(description="How many instances began with it.")]
    duplicate: Annotated[bool, Field(description="Its dedup key had come before; this one did nothing.")]


class ProblemOut(Shape):
    """Problem details (RFC 9457)."""

    model_config = ConfigDict(title="Problem", extra="allow")

    type: Annotated[str, Field(description="Stable, for programs.", examples=["urn:holdpoint:problem:not-found"])]
    title: Annotated[str, Field(description="The same for people.")]
    status: Annotated[int, Field(description="The answer's own.")]
    detail: Annotated[str, Field(description="What to do.")]
    errors: Annotated[dict[str, list[str]] | None, Field(description="What is wrong, per field.")] = None


class EndedProblemOut(InstanceFields):
    """An instance that was waited for and has failed or was cancelled: a problem, and all of the instance."""

    model_config = ConfigDict(title="Ended")

    type: Annotated[str, Field(description="…:instance-failed or …:instance-cancelled.")]
    title: Annotated[str, Field(description="The same for people.")]
    status: Annotated[Literal[422], Field(description="The answer's own.")]
    detail: Annotated[str, Field(description="Why it failed or was cancelled.")]
    instance_status: Annotated[Status, Field(description="The instance's.")]


class DuplicateProblemOut(ProblemOut):
    """The key is held."""

    model_config = ConfigDict(title="Duplicate", extra="allow")

    existing: Annotated[UUID | None, Field(description="The instance that holds it.")] = None
