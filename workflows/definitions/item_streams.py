"""A list of items that is to be asked, as authors write it: reading it, and nothing else.

Invariant owned: an `ItemStream` that was made can be opened, but for a signal id that is taken. Its items have been
through JSON, and are no more than the project allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Any

from workflows.conf import conf
from workflows.definitions.channel import Channel
from workflows.definitions.question import Question, ask_channel
from workflows.exceptions import InvalidCall, TooMany, show
from workflows.lifecycle import ItemPolicy
from workflows.values.json_text import dump_value, read_back

INPUT_LIMIT = "AWAIT_AGGREGATE_MAX_INPUT_ITEMS"

#: The channel of items that nobody is asked about.
LINE = "holdpoint:line"

#: Items that are asked and not over, unless the author says otherwise.
CONCURRENCY = 128
MOST_CONCURRENT = 1_000_000


@dataclass(frozen=True, slots=True)
class Asking:
    """How each item of a stream is asked: through one channel, or through one that a function makes of the item."""

    step: str
    channel: str | Channel[Any] | Callable[[Any], Any]
    schema: Any = None
    assignee: str | None = None
    group: str | None = None

    @property
    def is_one(self) -> bool:
        """Whether all items are asked alike."""
        return isinstance(self.channel, str | Channel) or not callable(self.channel)

    def make_question(self, item: object = None) -> Question:
        """The question of one item; of any, where all are asked alike. What is asked is told apart from it."""
        channel: Any = self.channel if self.is_one else self.channel(item)  # type: ignore[operator]
        if not self.is_one and not isinstance(channel, str | Channel):
            raise InvalidCall(
                f"{self.step!r}: the function passed as channel returned {show(channel)} for the item {show(item)}: it "
                "returns a Channel, such as Approval(…), or a label such as 'api'"
            )
        return ask_channel(self.step, channel, schema=self.schema, assignee=self.assignee, group=self.group)


@dataclass(frozen=True, slots=True)
class ItemLine:
    """What continues each item of a stream, in an instance of its own."""

    #: The step that it begins with.
    step: str
    #: "module:qualname" of the function, where that finds it.
    then: str | None = None


@dataclass(frozen=True, slots=True)
class ItemStream:
    """Items to be asked, each with its question."""

    step: str
    #: The items, as JSON.
    requests: Sequence[str]
    #: One for all of them, or one for each.
    questions: Sequence[Question]
    policy: ItemPolicy
    concurrency: int
    #: Seconds for each, from the moment it is asked, or the moment at which all are over.
    time: float | datetime | None
    #: What continues an item that is answered; None where the answer is its result.
    line: ItemLine | None = None
    #: Of a stream in which nothing is asked before the lines: how many of them may be under way.
    line_room: int = 0

    @property
    def is_hooked(self) -> bool:
        """Whether a channel writes rows of its own when an item is asked."""
        return any(writes_rows(one) for one in self.questions)

    @property
    def channel(self) -> str:
        """What the history calls the channel."""
        return ", ".join(sorted({one.channel for one in self.questions}))

    def find_question(self, index: int) -> Question:
        """The question of one item."""
        return self.questions[index if len(self.questions) > 1 else 0]


def writes_rows(question: Question) -> bool:
    """Whether a question's channel writes rows of its own when it is asked."""
    return question.opener is not None and type(question.opener).open is not Channel.open


def read_stream(
    asking: Asking,
    items: object,
    *,
    policy: ItemPolicy,
    concurrency: int,
    time: float | datetime | None,
    line: ItemLine | None = None,
) -> ItemStream:
    """The stream of a list, a query or a generator, read to its end, which has to come before the limit."""
    requests = dump_items(items, asking.step)
    if asking.is_one:
        questions = [asking.make_question()]
    else:
        questions = [asking.make_question(read_back(text)) for text in requests]
    return ItemStream(asking.step, requests, questions, policy, concurrency, time, line)


def plan_lines(step: str, requests: Sequence[str], line: ItemLine, policy: ItemPolicy, room: int) -> ItemStream:
    """A stream whose items go to their lines at once: nobody is asked about them, and nobody sees them."""
    return ItemStream(step, requests, [Question(step, channel=LINE)], policy, 0, None, line, room)


def dump_items(items: object, step: str) -> list[str]:
    """Each item as JSON; no more than `AWAIT_AGGREGATE_MAX_INPUT_ITEMS`."""
    taken = take_items(items, f"the input of {step!r}")
    return [dump_value(item, f"item {index} of {step!r}") for index, item in enumerate(taken)]


def take_items(items: object, what: str) -> list[Any]:
    """A list of whatever can be walked; refused where it has too many, without walking further."""
    if isinstance(items, str | bytes | Mapping) or not isinstance(items, Iterable):
        raise InvalidCall(
            f"{what} must be a list, or anything else that gives one item after another, not {show(items)}"
        )
    most = conf.most_inputs
    taken = list(islice(items, most + 1))
    if len(taken) > most:
        raise TooMany(what, most, INPUT_LIMIT)
    return taken


def read_policy(given: object) -> ItemPolicy:
    """Read `on_item=`: one failed item fails all of them, or is reported beside the others."""
    try:
        return ItemPolicy(str(given))
    except ValueError as error:
        known = " or ".join(repr(one.value) for one in ItemPolicy)
        raise InvalidCall(f"on_item= must be {known}, not {show(given)}") from error


def read_concurrency(given: object) -> int:
    """How many items may be asked and not over."""
    if isinstance(given, bool) or not isinstance(given, int) or not 1 <= given <= MOST_CONCURRENT:
        raise InvalidCall(f"concurrency= must be a number from 1 to {MOST_CONCURRENT}, not {show(given)}")
    return given
