"""What the API tells, as frozen values, and reading them from its JSON.

Invariant owned: a member that this version does not know is passed over, so a newer server can say more; one that
it needs and does not get, or gets as something else, is an error and never a value of the wrong type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from datetime import datetime
from functools import cache
from types import NoneType
from typing import Any, TypeVar, get_args, get_type_hints
from uuid import UUID

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far an instance is, as its workflow says."""

    done: float
    total: float | None = None
    note: str = ""
    #: When it was said; None of items that were counted just then.
    at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Instance:
    """One durable execution, as it was when the server answered."""

    id: UUID
    workflow: str
    status: str
    workspace: str = ""
    version: int = 1
    key: str | None = None
    step: str = ""
    state: Any = None
    input: Any = None
    result: Any = None
    error: str | None = None
    #: Where its latest run failed, for a key with the scope operate.
    traceback: str | None = None
    attempt: int = 0
    queue: str = "default"
    priority: int = 0
    #: Its concurrency key, for a key with the scope operate.
    flow_key: str | None = None
    progress: Progress | None = None
    parent: UUID | None = None
    #: The instance that it goes on from.
    forked_from: UUID | None = None
    started_by: str = ""
    created_at: datetime
    finished_at: datetime | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing can happen any more (but a retry of a failed one)."""
        return self.finished_at is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One row of an instance's history; `status` is the instance's after it."""

    kind: str
    at: datetime
    seq: int = 0
    status: str = ""
    actor: str = ""
    #: The step, or a signal's name.
    name: str | None = None
    data: Any = None
    #: Of a unit of items, whose row it is; `seq` counts within the unit then.
    unit: UUID | None = None
    #: A list of what it means in the life of an await.
    lifecycle: Any = ()


@dataclass(frozen=True, slots=True)
class Delivery:
    """What became of a signal. In a bulk call `refused` says why one was not taken, such as "no_target"."""

    id: str | None
    duplicate: bool = False
    woke: bool = False
    refused: str | None = None
    #: What the server said about a refusal.
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Emission:
    """What an event did: how many instances it woke, and how many it started."""

    woke: int
    started: int = 0
    id: str | None = None
    duplicate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """An answer that was taken; `replayed` if the same call had been made before."""

    id: UUID
    signal_id: str
    instance: UUID
    replayed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Answered:
    """What became of one answer of many. `refused` says why one was not taken, such as "not_found" or "resolved"."""

    #: 200, or what a call of its own would have been answered with.
    status: int
    id: UUID | None = None
    signal_id: str | None = None
    instance: UUID | None = None
    #: The idempotency key of this answer had come before.
    replayed: bool = False
    refused: str | None = None
    #: What the server said about a refusal.
    detail: str = ""
    #: What is wrong, per place: lists of texts.
    errors: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Interaction:
    """A question that somebody outside answers."""

    id: UUID
    signal_id: str
    instance: UUID
    status: str
    workflow: str = ""
    unit: UUID | None = None
    step: str = ""
    index: int = 0
    #: It is an item whose turn has not come.
    queued: bool = False
    version: int = 1
    channel: str = ""
    request: Any = None
    schema: Any = None
    output: Any = None
    deadline: datetime | None = None
    assignee: str | None = None
    group: str | None = None
    correlation_id: str | None = None
    created_at: datetime | None = None
    closed_at: datetime | None = None
    #: Who answered.
    actor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unit:
    """One wait of an instance: for an answer, or for one answer per item of a list."""

    id: UUID
    instance: UUID
    status: str
    workflow: str = ""
    step: str = ""
    visit: int = 1
    cardinality: str = "ONE_TO_ONE"
    items: bool = False
    policy: str | None = None
    concurrency: int = 1
    timeout: Any = None
    #: How many there are of each: `total queued in_flight completed failed expired cancelled remaining`.
    counts: Any = None
    created_at: datetime | None = None
    deadline: datetime | None = None
    dispatched_at: datetime | None = None
    closed_at: datetime | None = None
    released_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisteredWorkflow:
    """A workflow that the site knows, with what its code says of flow control."""

    name: str
    version: int = 1
    #: "steps", "function" or "machine".
    style: str = ""
    queue: str = "default"
    priority: int = 0
    #: `key limit hold`
    concurrency: Any = None
    #: `name count per burst key weight`
    rate: Any = None
    fair_by: str | None = None
    paused: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """What starts an instance at each of its ticks."""

    name: str
    workflow: str
    workspace: str = ""
    input: Any = None
    #: A cron expression in the zone `tz`, or the seconds of an interval.
    cron: str | None = None
    every: float | None = None
    tz: str = ""
    #: "skip", "allow" or "cancel".
    overlap: str = "skip"
    #: "none", "last", or a number of ticks.
    catch_up: Any = "last"
    enabled: bool = True
    #: The next five, as RFC 3339 texts; those that it would have while it is off.
    next_ticks: Any = ()
    last_tick: datetime | None = None
    #: What it has started last.
    last_instance: UUID | None = None
    #: Why the last tick started nothing, where that was an error.
    error: str | None = None
    #: Whether the site's code declares it, and whether somebody has changed it since.
    declared: bool = False
    edited: bool = False
    created_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueState:
    """A queue: what holds, what the code says, what runs and what waits."""

    name: str
    limit: int | None = None
    paused: bool = False
    #: `count per burst`, as `default_rate`.
    rate: Any = None
    default_limit: int | None = None
    default_rate: Any = None
    running: int = 0
    waiting: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitState:
    """A limit that workflows declare, or of one of its keys: what holds, and what the code says."""

    kind: str
    name: str
    limit: int | None = None
    rate: Any = None
    default_limit: int | None = None
    default_rate: Any = None
    overridden: bool = False


def read_value(kind: type[Value], told: Any) -> Value:
    """A value out of a JSON object; `ValueError` says what is wrong with it.

    >>> read_value(Delivery, {"id": "i:1", "woke": True, "of_a_later_version": 1})
    Delivery(id='i:1', duplicate=False, woke=True, refused=None, detail='')
    """
    if not isinstance(told, Mapping):
        raise ValueError(f"this is no JSON object that tells of one {kind.__name__}")
    values: dict[str, Any] = {}
    known: Any = kind
    for name, read, needed in _list_members(known):
        if name in told:
            values[name] = read(told[name])
        elif needed:
            raise ValueError(f"{kind.__name__}.{name} is missing")
    return kind(**values)


_WRITTEN_AS_TEXT: Mapping[Any, Callable[[str], Any]] = {UUID: UUID, datetime: datetime.fromisoformat}


@cache
def _list_members(kind: Any) -> list[tuple[str, Callable[[Any], Any], bool]]:
    hints = get_type_hints(kind)
    return [
        (one.name, _make_reader(f"{kind.__name__}.{one.name}", hints[one.name]), one.default is MISSING)
        for one in fields(kind)
    ]


def _make_reader(place: str, hint: Any) -> Callable[[Any], Any]:
    """What turns the JSON of one member into what its annotation says."""
    if hint is Any:
        return lambda value: value
    kind, *others = get_args(hint) or (hint,)
    optional = NoneType in others
    convert = _WRITTEN_AS_TEXT.get(kind)

    def read(value: Any) -> Any:
        if value is None and optional:
            return None
        if isinstance(kind, type) and is_dataclass(kind):
            return read_value(kind, value)
        if kind is float and type(value) is int:
            return value  # JSON has one kind of numbers
        # `True` is an int to Python, and not to JSON.
        if not isinstance(value, str if convert else kind) or (kind is int and isinstance(value, bool)):
            raise ValueError(f"{place} is not of type {kind.__name__}")
        return convert(value) if convert else value

    return read
