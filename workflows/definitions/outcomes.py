"""What a step may return: frozen values that say what happens next, and nothing that makes it happen.

Arguments are checked here, where the author wrote them; whether a named step exists is checked by the
style, which knows the steps. Invariant owned: an outcome that was constructed can be committed, except
for values that are not JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final
from uuid import UUID

from workflows.definitions.awaited_event import EventSpec
from workflows.definitions.awaited_kinds import Several
from workflows.definitions.channel import Channel
from workflows.definitions.flow.flow_options import read_priority, read_queue
from workflows.definitions.question import Callback, Question
from workflows.exceptions import InvalidOutcome, show
from workflows.values.durations import parse_delay, parse_time
from workflows.values.json_text import check_signal_name, check_text

if TYPE_CHECKING:
    from workflows.store import NewInstance
    from workflows.values.types_of_signatures import Duration, WorkflowRef


class _Unset:
    """Stands for `state` left out: keep `ctx.state` as it is when the step returns."""

    def __repr__(self) -> str:
        return "UNSET"

    def __reduce__(self) -> str:
        return "UNSET"  # copies and pickles are the one value: it is compared by identity


UNSET: Final = _Unset()


class Outcome:
    """The root of everything a step may return."""

    __slots__ = ()


@dataclass(frozen=True, slots=True, init=False)
class Next(Outcome):
    """Go on with another step, at once or after a delay.

    Consumes the signals the step was handed as `ctx.awaited`, and those in the inbox whose name is in
    `consume`.

    >>> Next("ship", {"paid": True}, delay="5m").delay
    300.0
    """

    step: str
    state: Any
    delay: float
    consume: frozenset[str]
    #: Where what follows stands, as far as it changes: queue, priority and the key of the workflow's `Concurrency`.
    queue: str | None
    priority: int | None
    key: str | None

    def __init__(
        self,
        step: str,
        state: object = UNSET,
        *,
        delay: Duration | None = None,
        consume: str | Iterable[str] = (),
        queue: str | None = None,
        priority: int | None = None,
        key: str | None = None,
    ) -> None:
        if not isinstance(consume, Iterable):
            raise InvalidOutcome(f"consume= takes a name or several names, not {show(consume)}")
        names = (consume,) if isinstance(consume, str) else tuple(consume)
        _assign(
            self,
            step=check_text(step, "the step of Next"),
            state=state,
            delay=0.0 if delay is None else parse_delay(delay),
            consume=frozenset(check_signal_name(name, "a name in consume=") for name in names),
            queue=None if queue is None else read_queue(queue),
            priority=None if priority is None else read_priority(priority),
            key=None if key is None else check_text(key, "the key of Next"),
        )


@dataclass(frozen=True, slots=True, init=False)
class Await(Outcome):
    """Park until what is awaited arrives, or the timeout passes, then run step `then`.

    `until`, a moment with a time zone, takes the place of `timeout`.

    What is awaited: a signal's name or several, `event(…)`, `ctx.callback(…)`, a channel such as an approval; or
    several of these with `any_of(…)` and `all_of(…)`.

    >>> Await({"paid", "refused"}, then="decide", timeout="24h").timeout
    86400.0
    """

    names: tuple[str, ...]
    what: EventSpec | Question | Channel | Several | None
    then: str
    state: Any
    #: Seconds from the park, or the moment of the deadline.
    timeout: float | datetime | None

    def __init__(
        self,
        what: str | Iterable[str] | EventSpec | Question | Callback | Channel | Several,
        *,
        then: str,
        state: object = UNSET,
        timeout: Duration | None = None,
        until: datetime | None = None,
    ) -> None:
        if isinstance(what, Callback):
            what = what.question
        waits = isinstance(what, EventSpec | Question | Channel | Several)
        _assign(
            self,
            names=() if waits else _read_names(what),  # type: ignore[arg-type]
            what=what if waits else None,
            then=check_text(then, "then= of Await"),
            state=state,
            timeout=parse_time(timeout, until, "Await"),
        )


@dataclass(frozen=True, slots=True)
class Suspend(Outcome):
    """How a function parks: on a name, an event or nothing but time, until a moment that is fixed already.

    And how a machine does on a unit of items.
    """

    names: tuple[str, ...] = ()
    event: EventSpec | None = None
    until: datetime | None = None
    #: Of the checkpoint that is to remember the wait for the event.
    position: int | None = None
    #: What the history shall know of the wait, besides.
    told: Mapping[str, Any] | None = None
    #: Of a machine: the stage to go on with, and its state.
    then: str | None = None
    state: Any = UNSET


@dataclass(frozen=True, slots=True)
class Invoke(Outcome):
    """How a function parks on a child: child, checkpoint and park are one transaction."""

    child: NewInstance
    position: int
    call: str
    timeout: float | datetime | None
    #: A child of this call that an earlier run left behind alive: its id, and the place of its checkpoint.
    adrift: tuple[UUID, int] | None = None


@dataclass(frozen=True, slots=True)
class RunAgain(Outcome):
    """The run failed: again after a back-off, until `max_attempts` runs in a row have failed."""

    error: Exception


@dataclass(frozen=True, slots=True, init=False)
class Retry(Outcome):
    """Run the same step again later; the awaited inputs stay.

    Without a delay it waits 2^n seconds, n being `ctx.attempt`; `delay=0` runs at once.

    >>> Retry(delay=0).delay
    0.0
    """

    state: Any
    delay: float | None

    def __init__(self, state: object = UNSET, *, delay: Duration | None = None) -> None:
        _assign(self, state=state, delay=None if delay is None else parse_delay(delay))


@dataclass(frozen=True, slots=True, init=False)
class Child:
    """One child to be started by `Spawn`.

    >>> Child("Pack", {"box": 1}, key="box-1").key
    'box-1'
    """

    workflow: Any
    input: Any = None
    key: str | None = None
    queue: str | None = None
    priority: int | None = None

    def __init__(
        self,
        workflow: WorkflowRef,
        input: object = None,
        *,
        key: str | None = None,
        queue: str | None = None,
        priority: int | None = None,
    ) -> None:
        _assign(
            self,
            workflow=workflow,
            input={} if input is None else input,
            key=None if key is None else check_text(key, "a child's key"),
            queue=None if queue is None else read_queue(queue),
            priority=None if priority is None else read_priority(priority),
        )


@dataclass(frozen=True, slots=True, init=False)
class Spawn(Outcome):
    """Start children and park until all of them have ended, then run step `then`.

    >>> len(Spawn([Child("Pack"), Child("Pack")], then="ship").children)
    2
    """

    children: tuple[Child, ...]
    then: str
    state: Any

    def __init__(self, children: Iterable[Child], *, then: str, state: object = UNSET) -> None:
        if not isinstance(children, Iterable):
            raise InvalidOutcome(f"Spawn takes a list of Child(…) values, not {show(children)}")
        listed = tuple(children)
        for child in listed:
            if not isinstance(child, Child):
                raise InvalidOutcome(f"Spawn takes Child(workflow, input, key=…) values, not {show(child)}")
        keys = [child.key for child in listed if child.key is not None]
        if len(keys) != len(set(keys)):
            raise InvalidOutcome("two children of one Spawn have the same key")
        _assign(self, children=listed, then=check_text(then, "then= of Spawn"), state=state)


@dataclass(frozen=True, slots=True)
class Done(Outcome):
    """End well, with a result.

    >>> Done({"shipped": True}).result
    {'shipped': True}
    """

    result: Any = None


@dataclass(frozen=True, slots=True, init=False)
class Stop(Outcome):
    """End as failed, with a reason that people will read.

    >>> Stop("payment never came").reason
    'payment never came'
    """

    reason: str

    def __init__(self, reason: str) -> None:
        _assign(self, reason=check_text(reason, "the reason of Stop", limit=100_000))


def _read_names(what: str | Iterable[str]) -> tuple[str, ...]:
    if isinstance(what, str):
        return (check_signal_name(what, "the name in Await"),)
    if not isinstance(what, Iterable):
        raise InvalidOutcome(f"Await takes a name or several names, not {type(what).__name__} ({show(what)})")
    names: Sequence[str] = [check_signal_name(name, "a name in Await") for name in what]
    if not names:
        raise InvalidOutcome("Await needs at least one name; to wait for time alone use Next(step, delay=…)")
    # Sorted and unique, so that the same wait is always the same row.
    return tuple(sorted(set(names)))


def _assign(outcome: object, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(outcome, name, value)
