"""`Concurrency` and `Rate`: limits as authors write them.

Lives here: values that are checked where they are written. Must not live here: what overrides them at run time, and
holding anybody to them. Invariant owned: a limit that was constructed lets something through.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from workflows.definitions.flow.key_templates import KeyTemplate, read_key
from workflows.exceptions import InvalidDefinition, InvalidDuration, WorkflowError, show
from workflows.values.durations import parse_timeout
from workflows.values.json_text import check_text

if TYPE_CHECKING:
    from workflows.values.types_of_signatures import Duration

#: The numbers of slots are kept in two bytes.
MOST_SLOTS = 32_000
#: Tokens that a bucket can hold.
MOST_TOKENS = 1_000_000_000
#: Seconds: a bucket is filled in no less.
SHORTEST_PERIOD = 0.001
#: A year. What takes longer would let nothing through, and say that it does.
LONGEST_PERIOD = 366 * 86_400.0
#: Buckets of queues are named so; an author's rate cannot be.
QUEUE_BUCKET = "queue:"


@dataclass(frozen=True, slots=True, init=False)
class Concurrency:
    """At most `limit` of a key at once, in a workspace: steps that run, or instances from their first run to their end.

    >>> Concurrency("tenant:{tenant}", 5).limit
    5
    """

    key: KeyTemplate
    limit: int
    hold: Literal["step", "instance"]

    def __init__(
        self, key: str | Callable[[Any], object], limit: int, hold: Literal["step", "instance"] = "step"
    ) -> None:
        _assign(self, key=read_key(key, "the key of a Concurrency"))
        _assign(self, limit=check_amount(limit, "the limit of a Concurrency", MOST_SLOTS))
        if hold not in ("step", "instance"):
            raise InvalidDefinition(f'hold= of a Concurrency is "step" or "instance", not {show(hold)}')
        _assign(self, hold=hold)

    @property
    def name(self) -> str:
        """What a `Limit` row calls it: its template as written, or its function's name."""
        return self.key.text


@dataclass(frozen=True, slots=True, init=False)
class Rate:
    """A token bucket: `count` in each `per`, at most `burst` at once; each run takes `weight`.

    >>> Rate("stripe", 100, per="1m").burst
    100
    """

    name: str
    count: int
    per: float
    burst: int
    key: KeyTemplate | None
    weight: int

    def __init__(
        self,
        name: str,
        count: int,
        per: Duration,
        burst: int | None = None,
        key: str | Callable[[Any], object] | None = None,
        weight: int = 1,
    ) -> None:
        try:
            check_text(name, "the name of a Rate", limit=100)
            seconds = read_period(per)
        except (WorkflowError, InvalidDuration) as error:
            raise InvalidDefinition(f"a Rate cannot be read: {error}") from error
        if name.startswith(QUEUE_BUCKET):
            raise InvalidDefinition(f"the name of a Rate must not begin with {QUEUE_BUCKET!r}: so a queue's is called")
        what = f"of Rate {name!r}"
        check_amount(count, f"count {what}", MOST_TOKENS)
        most = check_amount(count if burst is None else burst, f"burst {what}", MOST_TOKENS)
        check_amount(weight, f"weight {what}", MOST_TOKENS)
        if weight > most:
            raise InvalidDefinition(
                f"weight {weight} {what} is above its burst of {most}, so no run could ever begin; lower the weight or "
                "raise burst="
            )
        _assign(self, name=name, count=count, per=seconds, burst=most, weight=weight)
        _assign(self, key=None if key is None else read_key(key, f"the key {what}"))


def read_period(value: Any) -> float:
    """The seconds in which a bucket gets its tokens: neither too few for any number to hold its pace, nor a pause."""
    seconds = parse_timeout(value)
    if seconds < SHORTEST_PERIOD:
        raise InvalidDuration(value, f"is too short for a rate: {SHORTEST_PERIOD:g} s at least")
    if seconds > LONGEST_PERIOD:
        raise InvalidDuration(value, "is too long for a rate: 366 days at most; to let nothing through, pause it")
    return seconds


def check_amount(value: object, what: str, most: int) -> int:
    """A whole number above zero."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= most:
        raise InvalidDefinition(f"{what} must be a whole number from 1 to {most}, not {show(value)}")
    return value


def _assign(made: object, /, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(made, name, value)
