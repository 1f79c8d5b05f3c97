"""The JSON that comes in and goes out, as types: bodies are checked by them, the OpenAPI document is made of them.

Invariant owned: a member that is not named here is refused, so that a misspelt one cannot be silently left out, and
nothing but what is named here can be written from outside.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Literal, TypeVar
from uuid import UUID

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, RootModel, ValidationError

from workflows.exceptions import InvalidCall
from workflows.jsontext import RESERVED, check_signal_name, check_text
from workflows.rest.problems import INVALID_DATA, INVALID_REQUEST, RequestRefused

B = TypeVar("B", bound="Body")

#: Something that can be seen: what Python calls blank, as JSON Schema's patterns have it.
SEEN = r"[^\s\x1c-\x1f\x85]"
#: The same for names and dedup keys of signals and events, some of which are the engine's own.
FREE = rf"^(?!{RESERVED})[\s\S]*{SEEN}"


def _want_text(text: str) -> str:
    return _want(check_text, text)


def _want_name(text: str) -> str:
    return _want(check_signal_name, text)


def _want(check: Callable[[str, str], str], text: str) -> str:
    try:
        return check(text, _HERE)
    except InvalidCall as error:
        raise ValueError(str(error).removeprefix(f"{_HERE} ")) from error


#: Stands for the place in a message that is told beside it.
_HERE = "this"

Key = Annotated[
    str, Field(min_length=1, max_length=200, json_schema_extra={"pattern": SEEN}), AfterValidator(_want_text)
]
Name = Annotated[
    str, Field(min_length=1, max_length=200, json_schema_extra={"pattern": FREE}), AfterValidator(_want_name)
]
Json = Annotated[Any, Field(description="Any JSON value.")]


class Shape(BaseModel):
    """What the OpenAPI document takes for one of ours: a project may describe its own types otherwise."""


class Body(Shape):
    """What a request may say."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class StartBody(Body):
    """What to start."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"workflow": "Ship", "input": {"order": 7}, "key": "order-7"}]}
    )

    workflow: Annotated[str, Field(min_length=1, description="The name of a workflow.")]
    input: Annotated[Any, Field(description="What it is started with; {} if left out.")] = None
    key: Annotated[
        Key | None, Field(description="A correlation key: one live instance of the workspace holds it at a time.")
    ] = None


class SignalBody(Body):
    """A signal for an instance that the address names."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"name": "paid", "payload": {"amount": 120}, "dedup_key": "evt_1"}]}
    )

    name: Annotated[Name, Field(description="What the instance waits for, or will.")]
    payload: Json = None
    dedup_key: Annotated[
        Name | None, Field(description="Of signals with the same one, an instance takes the first only.")
    ] = None


class KeySignalBody(SignalBody):
    """A signal for whoever holds a correlation key."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"key": "order-7", "name": "paid", "payload": {"amount": 120}}]}
    )

    key: Annotated[Key, Field(description="The correlation key of a live instance.")]


class BulkLine(SignalBody):
    """One signal of many: for a `key`, or for an `instance`."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"key": "order-7", "name": "paid"}]})

    key: Key | None = None
    instance: Annotated[str | None, Field(json_schema_extra={"format": "uuid"})] = None


class BulkBody(RootModel[list[BulkLine]], Shape):
    """Many signals."""


class CompleteBody(Body):
    """An answer."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"data": {"approved": True}}]})

    data: Annotated[Any, Field(description="The answer. null is one; leaving it out is none.")]
    version: Annotated[
        int | None, Field(description="The interaction's version as it was shown: another one is refused with 409.")
    ] = None


class EventBody(Body):
    """A named event."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"event": "order.paid", "data": {"order": 7}, "dedup_key": "evt_1"}]}
    )

    event: Annotated[Name, Field(description="Its name.")]
    data: Json = None
    dedup_key: Annotated[Name | None, Field(description="A second event with the same one does nothing.")] = None


class CancelBody(Body):
    """Why."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"reason": "customer withdrew"}]})

    reason: Annotated[str, Field(max_length=10_000, description="Kept in the ledger and as the error.")] = ""


class RetryBody(Body):
    """Nothing has to be said."""


Status = Literal["runnable", "running", "awaiting", "sleeping", "awaiting_children", "done", "failed", "cancelled"]


class InstanceFields(Shape):
    """An instance, but for its status."""

    id: UUID
    workspace: Annotated[str, Field(description="The slug of its workspace.")]
    workflow: str
    version: Annotated[int, Field(description="Of the workflow's code.")]
    key: str | None
    step: Annotated[str, Field(description="Where it is, or where it ended.")]
    state: Json
    input: Json
    result: Annotated[Any, Field(description="Once it is done.")]
    error: Annotated[str | None, Field(description="Why it failed or was cancelled.")]
    attempt: int
    parent: Annotated[UUID | None, Field(description="The instance that started it as its child.")]
    started_by: Annotated[str, Field(description="`user:<id>`, `key:<id>`, or what the project's code said.")]
    created_at: datetime
    finished_at: datetime | None


class InstanceOut(InstanceFields):
    """An instance of a workflow."""

    status: Status


class EventOut(Shape):
    """A row of an instance's ledger."""

    seq: Annotated[int, Field(description="Counts within the instance.")]
    kind: str
    status: Annotated[Status, Field(description="The instance's status after it.")]
    at: datetime
    actor: str
    name: Annotated[str | None, Field(description="The step, or a signal's name.")]
    data: Json


class InteractionOut(Shape):
    """A question that somebody outside answers."""

    id: UUID
    signal_id: str
    workflow: str
    instance: UUID
    step: Annotated[str, Field(description="The wait that asks.")]
    index: Annotated[int, Field(description="Which item of a wait for many, from 0.")]
    status: str
    version: Annotated[int, Field(description="Raised by every change.")]
    channel: str
    assignee: str | None
    group: str | None
    correlation_id: str | None
    created_at: datetime
    deadline: datetime | None
    closed_at: datetime | None
    actor: Annotated[str, Field(description="Who answered.")]
    request: Annotated[Any, Field(description="What is asked about.")]
    schema_: Annotated[Any, Field(alias="schema", description="The JSON Schema that an answer has to fit.")]
    output: Annotated[Any, Field(description="The answer, once there is one.")]


class ListOut(Shape):
    """A page of a list."""

    next: Annotated[str | None, Field(description="The address of the next page.")]
    previous: Annotated[str | None, Field(description="The address of the page before.")]


class InstanceList(ListOut):
    """A page of instances."""

    results: list[InstanceOut]


class EventList(ListOut):
    """A page of a ledger."""

    results: list[EventOut]


class InteractionList(ListOut):
    """A page of questions."""

    results: list[InteractionOut]


class DeliveryOut(Shape):
    """What became of a signal."""

    id: str
    duplicate: Annotated[bool, Field(description="Its dedup key had come before; this one changed nothing.")]
    woke: Annotated[bool, Field(description="The instance waited for it, and goes on.")]


class BulkOut(Shape):
    """What became of one signal of many: as if it had been sent alone."""

    status: int
    id: str | None = None
    duplicate: bool | None = None
    woke: bool | None = None
    type: str | None = None
    title: str | None = None
    detail: str | None = None
    errors: dict[str, list[str]] | None = None


class BulkResults(Shape):
    """One result per signal, in their order."""

    results: list[BulkOut]


class CompletionOut(Shape):
    """An answer that was taken."""

    id: UUID
    signal_id: str
    instance: UUID
    status: Literal["completed"]


class EmissionOut(Shape):
    """What an event did."""

    id: UUID
    woke: Annotated[int, Field(description="How many parked instances it woke.")]
    started: Annotated[int, Field(description="How many instances began with it.")]
    duplicate: bool


class ProblemOut(Shape):
    """Problem details (RFC 9457)."""

    model_config = ConfigDict(extra="allow")

    type: Annotated[str, Field(description="Stable, for programs.", examples=["urn:holdpoint:problem:not-found"])]
    title: str
    status: int
    detail: Annotated[str, Field(description="What to do.")]
    errors: Annotated[dict[str, list[str]] | None, Field(description="What is wrong, per field.")] = None


class EndedProblemOut(InstanceFields):
    """An instance that was waited for and has failed or was cancelled: a problem, and all of the instance."""

    type: str
    title: str
    status: Literal[422]
    detail: str
    instance_status: Status


class DuplicateProblemOut(ProblemOut):
    """The key is held."""

    existing: Annotated[UUID | None, Field(description="The instance that holds it.")] = None


def read_as(model: type[B], value: Any) -> B:
    """A body as its type; `RequestRefused` with 400 and the members that are wrong."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise RequestRefused(INVALID_REQUEST, _tell(model, error), errors=list_mistakes(error)) from error


def list_mistakes(error: ValidationError) -> dict[str, list[str]]:
    """What is wrong, per member."""
    found: dict[str, list[str]] = {}
    for one in error.errors(include_url=False, include_input=False, include_context=False):
        reason = "is not known here" if one["type"] == "extra_forbidden" else one["msg"]
        reason = "is required" if one["type"] == "missing" else reason.removeprefix("Value error, ")
        found.setdefault(".".join(map(str, one["loc"])) or "$", []).append(reason)
    return found


def _tell(model: type[Body], error: ValidationError) -> str:
    place, reasons = next(iter(list_mistakes(error).items()))
    return f"{place:.60}: {reasons[0]}. A body has {', '.join(model.model_fields)}."


def refuse_without_data() -> RequestRefused:
    """Not by a field of the caller's own data, which may well be called "data" too."""
    return RequestRefused(
        INVALID_DATA,
        'The body has to be {"data": …}, with the answer in it: its member "data" is missing.',
        errors={"data": ["is required"]},
    )
