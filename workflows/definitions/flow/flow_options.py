"""Where an instance stands in the order of things: what its workflow says, what its caller says, and what became of it.

Lives here: the options of a definition, and the place that one instance has by them. Must not live here: rows, and
claiming. Invariant owned: a place that nothing distinguishes is None, and its row is a plain one.
"""

from __future__ import annotations

import inspect
import json
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from workflows.definitions.flow.key_templates import KeyTemplate, read_key
from workflows.definitions.flow.limits import Concurrency, Rate
from workflows.exceptions import InvalidCall, InvalidDefinition, WorkflowError, show
from workflows.values.json_text import check_text

if TYPE_CHECKING:
    from workflows.schemas.schema import Schema

DEFAULT_QUEUE = "default"
LOWEST, HIGHEST = -100, 100
#: The lanes of a queue lie side by side: the upper bits of their numbers are the queue's, so many are the lane's own.
LANE_BITS = 53
#: The options that all styles take, in the order of their documentation.
FLOW_OPTIONS = ("queue", "priority", "concurrency", "rate", "fair_by")


@dataclass(frozen=True, slots=True)
class FlowOptions:
    """What a definition says of flow control."""

    queue: str = DEFAULT_QUEUE
    priority: int = 0
    concurrency: Concurrency | None = None
    rate: Rate | None = None
    fair_by: KeyTemplate | None = None

    def check(self, source: str, accepts: Schema | None, signature: inspect.Signature | None) -> None:
        """Refuse keys of fields that the input cannot have."""
        for option, key in self.list_keys().items():
            try:
                if key is not None:
                    key.check(accepts, signature, f"{option}=")
            except InvalidDefinition as error:
                raise InvalidDefinition(f"workflow {source}: {error}") from error

    def check_input(self, workflow: str, input: Any) -> None:
        """Refuse an input of which a template cannot make its key. Functions are asked at a start only."""
        for option, key in self.list_keys().items():
            if key is not None and key.function is None:
                key.make(input, workflow, f"the key of its {option}=")

    def list_keys(self) -> dict[str, KeyTemplate | None]:
        """What is made of the input, by the option that asks for it."""
        return {
            "concurrency": None if self.concurrency is None else self.concurrency.key,
            "rate": None if self.rate is None else self.rate.key,
            "fair_by": self.fair_by,
        }


PLAIN = FlowOptions()


@dataclass(frozen=True, slots=True)
class Place:
    """Where one instance stands: its queue and priority, and the keys that hold it back."""

    workflow: str
    version: int
    queue: str
    priority: int
    #: Of its `Concurrency`.
    key: str | None = None
    #: Whether the key is held from the first run to the end.
    holds: bool = False
    #: Of its `Rate`; "" where that has one bucket for all.
    rate_key: str | None = None
    fair_key: str | None = None

    @property
    def gate(self) -> int | None:
        """The number of its key, within its workspace."""
        return None if self.key is None else number_of("gate", self.key)

    @property
    def lane(self) -> int:
        """The number of all that stand in the same place, within their workspace and priority."""
        own = number_of(
            "lane", self.workflow, self.version, self.queue, self.key, self.holds, self.rate_key, self.fair_key
        )
        return find_stretch(self.queue) << LANE_BITS | own & (1 << LANE_BITS) - 1

    def describe(self) -> dict[str, Any]:
        """Its columns, by the names of the model."""
        return {
            "queue": self.queue,
            "priority": self.priority,
            "lane": self.lane,
            "flow_key": self.key,
            "gate": self.gate,
            "rate_key": self.rate_key,
            "fair_key": self.fair_key,
            "holds": self.holds,
        }


def number_of(*parts: object) -> int:
    """63 bits that stand for these texts.

    >>> number_of("gate", "tenant:7") == number_of("gate", "tenant:7")
    True
    """
    text = json.dumps(parts, ensure_ascii=False)
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) >> 1


def find_stretch(queue: str) -> int:
    """The upper bits of a queue's lanes. Two queues may have the same."""
    return number_of("queue", queue) >> LANE_BITS


def read_flow_options(
    source: str, queue: object, priority: object, concurrency: object, rate: object, fair_by: object
) -> FlowOptions | None:
    """What an author wrote, checked; None where all of it is the default."""
    try:
        named = read_queue(DEFAULT_QUEUE if queue is None else queue)
        level = read_priority(0 if priority is None else priority)
        if concurrency is not None and not isinstance(concurrency, Concurrency):
            raise InvalidDefinition(f"concurrency= takes a Concurrency(key, limit), not {show(concurrency)}")
        if rate is not None and not isinstance(rate, Rate):
            raise InvalidDefinition(f"rate= takes a Rate(name, count, per=…), not {show(rate)}")
        fair = None if fair_by is None else read_key(fair_by, "fair_by=")
    except WorkflowError as error:
        raise InvalidDefinition(f"workflow {source}: {error}") from error
    options = FlowOptions(named, level, concurrency, rate, fair)
    return None if options == PLAIN else options


def read_queue(value: object) -> str:
    """The name of a queue: a word for addresses and command lines."""
    name = check_text(value, "the name of a queue", limit=100)
    if not all(letter.isalnum() or letter in "-_." for letter in name) or name in (".", ".."):
        raise InvalidCall(f"{name!r} is no name of a queue: use letters, digits, dots, hyphens and underscores")
    return name


def read_priority(value: object) -> int:
    """A priority as Django's tasks have it."""
    if not isinstance(value, int) or isinstance(value, bool) or not LOWEST <= value <= HIGHEST:
        raise InvalidCall(
            f"a priority is a whole number from {LOWEST} to {HIGHEST}, the higher first, not {show(value)}"
        )
    return value


def find_place(
    options: FlowOptions | None,
    workflow: str,
    version: int,
    input: Any,
    queue: str | None = None,
    priority: int | None = None,
) -> Place | None:
    """Where an instance with this input stands; None for a plain one. What its caller names comes first."""
    if options is None:
        if queue is None and priority is None:
            return None
        options = PLAIN
    limit = options.concurrency
    key = None if limit is None else limit.key.make(input, workflow, "the key of its Concurrency")
    place = Place(
        workflow,
        version,
        options.queue if queue is None else read_queue(queue),
        options.priority if priority is None else read_priority(priority),
        key,
        key is not None and limit is not None and limit.hold == "instance",
        _find_rate_key(options.rate, input, workflow),
        None if options.fair_by is None else options.fair_by.make(input, workflow, "its fair_by key"),
    )
    return None if is_plain(place) else place


def is_plain(place: Place) -> bool:
    """Whether nothing distinguishes it."""
    keys = (place.key, place.rate_key, place.fair_key)
    return place.queue == DEFAULT_QUEUE and place.priority == 0 and keys == (None, None, None)


def _find_rate_key(rate: Rate | None, input: Any, workflow: str) -> str | None:
    if rate is None or rate.key is None:
        return None if rate is None else ""
    return rate.key.make(input, workflow, f"the key of Rate {rate.name!r}")
