"""Questions: one wait with an address of its own, its callback, and its row as a value.

Lives here: reading the arguments of `ctx.callback(…)` and of waits by a channel. Must not live here: rows. Invariant
owned: a `Question` that was made can be opened, but for its signal id being taken.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any
from uuid import UUID

from workflows.definitions.channel import Channel
from workflows.exceptions import InvalidCall, InvalidSignalId, show
from workflows.lifecycle import Cardinality, InteractionStatus
from workflows.values.json_text import check_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from workflows.schemas.schema import Schema
    from workflows.values.types_of_signatures import Projector, SchemaArgument

#: Before the id of a unit: the name under which the answer of a question arrives.
UNIT = "holdpoint:unit:"

#: What is sent to a resume URL: the answer itself, `{"data": answer}`, or either: then what has other members than
#: `data` and `version` is the answer itself.
BODIES = ("any", "raw", "wrapped")

#: Any text without control characters and halves of characters.
_SIGNAL_ID = re.compile(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,200}")

_FOREIGN = re.compile(r"[^A-Za-z0-9._~:@-]")


@dataclass(frozen=True, slots=True)
class Question:
    """What a wait asks: one interaction with an address of its own. `step` names the wait within its instance."""

    step: str
    signal_id: str | None = None
    channel: str = "signal"
    #: Whether it gets a resume URL.
    token: bool = False
    schema: Schema | None = None
    request: object = None
    cardinality: str = Cardinality.ONE_TO_ONE
    assignee: str | None = None
    group: str | None = None
    correlation_id: str | None = None
    #: "module:qualname" of the function (request, submitted) -> trusted output.
    projector: str | None = None
    #: What is sent to its resume URL, one of `BODIES`.
    body: str = "any"
    #: The channel itself, when it is more than a label.
    opener: Channel | None = None

    def __post_init__(self) -> None:
        check_text(self.step, "the id of a wait")
        if self.signal_id is not None:
            check_signal_id(self.signal_id)
        for name in ("assignee", "group", "correlation_id"):
            if (value := getattr(self, name)) is not None:
                check_text(value, f"{name}=")
        check_body(self.body)
        try:
            Cardinality(self.cardinality)
        except ValueError as error:
            known = ", ".join(Cardinality)
            raise InvalidCall(f"cardinality must be one of {known}, not {show(self.cardinality)}") from error

    def address(self, instance: UUID | str, index: int | None = None) -> str:
        """Its signal id: the given one, or one that is the instance's own; of an item with its number."""
        if self.signal_id is not None:
            return self.signal_id
        # A stage may be called `café`: an address that nobody has to encode is the better one.
        name = _FOREIGN.sub(lambda found: f"~{ord(found[0]):x}~", self.step)
        return f"{name[:150]}-{instance}" if index is None else f"{name[:150]}.{index}-{instance}"


def ask_channel(
    step: str,
    channel: str | Channel,
    *,
    request: object = None,
    schema: SchemaArgument | None = None,
    cardinality: str = Cardinality.ONE_TO_ONE,
    assignee: str | None = None,
    group: str | None = None,
    projector: Projector | None = None,
) -> Question:
    """The question that a channel, or a mere label of one, asks; with `MANY_TO_…` about a list, read to its end."""
    from workflows.schemas.schema import read_schema

    if cardinality in (Cardinality.MANY_TO_ONE, Cardinality.MANY_TO_MANY):
        request = _read_list(step, channel, request)
    if isinstance(channel, Channel):
        return Question(
            step,
            channel=channel.name,
            token=channel.resumes,
            schema=read_schema(channel.schema if schema is None else schema),
            request=channel.request if request is None else request,
            cardinality=cardinality,
            assignee=assignee or channel.assignee,
            group=group or channel.group,
            correlation_id=channel.correlation_id,
            projector=name_projector(projector or channel.projector),
            opener=channel,
        )
    if not isinstance(channel, str):
        raise InvalidCall(f"a channel is a label such as 'api' or a Channel, not {show(channel)}")
    return Question(
        step,
        channel=check_text(channel, "a channel"),
        schema=read_schema(schema),
        request=request,
        cardinality=cardinality,
        assignee=assignee,
        group=group,
        projector=name_projector(projector),
    )


def _read_list(step: str, channel: object, request: object) -> list[Any] | None:
    from workflows.definitions.item_streams import take_items

    if request is None and isinstance(channel, Channel):
        request = channel.request
    return None if request is None else take_items(request, f"the input of {step!r}")


def check_body(body: object) -> str:
    """What a partner's body holds."""
    if not isinstance(body, str) or body not in BODIES:
        raise InvalidCall(f"body= must be one of {', '.join(BODIES)}, not {show(body)}")
    return body


@dataclass(frozen=True, slots=True)
class OpenedQuestion:
    """A question as it stands: its address, and its answer if there is one."""

    id: UUID
    unit: UUID
    signal_id: str
    status: InteractionStatus
    deadline: datetime | None = None
    output: Any = None
    token: str | None = None

    @property
    def name(self) -> str:
        """The name under which the answer arrives."""
        return f"{UNIT}{self.unit}"

    @property
    def resume_url(self) -> str:
        """Where a partner posts the answer."""
        from workflows.definitions.callback_tokens import resume_url

        return resume_url(self.token or "")


class Callback:
    """A question that a partner answers by its resume URL, which exists as soon as it is read."""

    __slots__ = ("_ask", "question")

    def __init__(self, question: Question, ask: Callable[[Question], OpenedQuestion]) -> None:
        self.question = question
        self._ask = ask

    @property
    def resume_url(self) -> str:
        """The address to hand to the partner; the same however often the step runs."""
        return self._ask(self.question).resume_url

    @property
    def resume_token(self) -> str:
        """The secret part of that address."""
        return self._ask(self.question).token or ""


def name_projector(given: object) -> str | None:
    """Where a projector is found: every door has to find it, in whatever process."""
    if given is None:
        return None
    path = f"{getattr(given, '__module__', '')}:{getattr(given, '__qualname__', '')}"
    try:
        known = callable(given) and find_projector(path) is given
    except (ImportError, AttributeError):
        known = False
    if not known:
        raise InvalidCall(
            f"a projector is a function at the top of a module, which every process can import, not {show(given)}"
        )
    return path


def find_projector(path: str) -> Callable[..., Any]:
    """The function that a row names."""
    module, _, name = path.partition(":")
    function: Callable[..., Any] = getattr(import_module(module), name)
    return function


def check_signal_id(value: object) -> str:
    """A signal id that can stand in an address, percent-encoded where it has to be.

    >>> check_signal_id("orders/7 é")
    'orders/7 é'
    """
    if not isinstance(value, str) or not _SIGNAL_ID.fullmatch(value) or value in (".", ".."):
        raise InvalidSignalId(value)
    return value
