"""What a wait may be for, beside a signal's name: an event, a question, a channel. Values only.

Lives here: reading what authors write in `event(…)`, `ctx.callback(…)` and channels. Invariant owned: a
`Question` that was made can be opened, but for its signal id being taken.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Generic
from uuid import UUID

from workflows.exceptions import InvalidCall, InvalidSignalId, show
from workflows.jsontext import check_signal_name, check_text, dump_value
from workflows.lifecycle import Cardinality, InteractionStatus
from workflows.reasons import gettext_noop
from workflows.sweeps import Sweep, register_sweep
from workflows.typed import A

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from workflows.models import Interaction
    from workflows.schema import Schema
    from workflows.transports.outgoing import Outgoing, Sent
    from workflows.typed import SchemaValue

#: The names under which the engine's own signals arrive.
UNIT = "holdpoint:unit:"
EVENT = "holdpoint:event:"

#: Rows that are read in one statement for a channel that is told of their end.
CLOSED_AT_ONCE = 1000
#: Bytes of field names in one match.
MATCH_NAMES = 1000

#: Any text without control characters and halves of characters.
_SIGNAL_ID = re.compile(r"[^\x00-\x1f\x7f-\x9f\ud800-\udfff]{1,200}")
#: What is sent to a resume URL: the answer itself, `{"data": answer}`, or either: then what has other members than
#: `data` and `version` is the answer itself.
BODIES = ("any", "raw", "wrapped")

_FOREIGN = re.compile(r"[^A-Za-z0-9._~:@-]")


@dataclass(frozen=True, slots=True)
class EventSpec:
    """A named event that somebody waits for, and what must be in it."""

    name: str
    match: Mapping[str, Any] = field(default_factory=dict)
    schema: Schema | None = None
    #: A label that says by which door the event has to come; None takes it from all.
    channel: str | None = None


def event(
    name: str,
    match: Mapping[str, Any] | None = None,
    schema: type[Any] | SchemaValue | None = None,
    *,
    channel: str | None = None,
) -> EventSpec:
    """An event to await: `match` names fields of its data and the values they must have.

    With `channel`, a label, an event of a door of the outside is taken only if that door is called so.

    >>> event("order.paid", {"order": 7}).match
    {'order': 7}
    """
    from workflows.schema import read_schema

    check_signal_name(name, "an event's name")
    if match is not None and not isinstance(match, Mapping):
        raise InvalidCall(f"match of event {name!r} must be a mapping of field to value, not {show(match)}")
    wanted = {check_text(key, "a field in match="): value for key, value in (match or {}).items()}
    dump_value(wanted, f"match of event {name!r}")
    if sum(len(key.encode()) + 4 for key in wanted) > MATCH_NAMES:  # they are part of an index entry
        raise InvalidCall(f"match of event {name!r} names too much: {MATCH_NAMES} bytes of field names at most")
    return EventSpec(name, wanted, read_schema(schema), None if channel is None else read_label(channel))


def read_label(channel: object) -> str:
    """The label beside an event or a callback, which are channels of their own."""
    if not isinstance(channel, str):
        raise InvalidCall(
            f"beside an event or a callback, a channel is a label such as 'webhook' or 'api', not {show(channel)}"
        )
    return check_text(channel, "a channel")


_channels: dict[str, type[Channel]] = {}
#: Those of them that are told of the end of their questions.
_closing: dict[str, type[Channel]] = {}


def find_channel(name: str) -> type[Channel]:
    """The class of a channel; of a mere label the one that all derive from."""
    return _channels.get(name, Channel)


def find_door(channel: str) -> str:
    """Where the answers of a channel are given."""
    return find_channel(channel).door


class Channel(Generic[A]):
    """How a question reaches whoever answers it. Subclass it; an instance is one such question.

    `class Vote(Channel[Ballot])` says what the author is handed as the answer.
    """

    #: Kept on the interaction; a label that says which doors may answer.
    name: ClassVar[str]
    #: Whether the channel alone takes the answer.
    owns_answers: ClassVar[bool] = False
    #: Where an answer is given, for the message to those who try elsewhere: in English, marked with `gettext_noop`.
    door: ClassVar[str] = gettext_noop("through its channel")

    request: Any = None
    schema: Any = None
    #: A function (request, submitted) -> output: what the author gets, made of what somebody sent.
    projector: Any = None
    assignee: str | None = None
    group: str | None = None
    correlation_id: str | None = None

    #: Whether it sends what is asked, from a task of its own, after the question is committed.
    sends: ClassVar[bool] = False
    #: Whether its questions have a resume URL, which may answer them.
    resumes: ClassVar[bool] = False
    #: Doors that are for some channels only, and may answer its questions all the same: "kafka".
    doors: ClassVar[frozenset[str]] = frozenset()
    #: Whether each try is a row that people can look at.
    keeps_log: ClassVar[bool] = False
    #: How many questions are handed to `dispatch_many` at a time.
    batch: ClassVar[int] = 1
    #: How many calls of `dispatch_many` a process makes side by side.
    threads: ClassVar[int] = 16
    #: Seconds that one call of `dispatch_many` may take; after them another process may send the same.
    lease: ClassVar[float] = 120.0
    #: What sending needs to know, as JSON, kept on the row. No secrets: name the setting that holds them.
    config: Any = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in vars(cls):
            _channels[cls.name] = cls
            _closing.pop(cls.name, None)
            if _has_close(cls):
                _closing[cls.name] = cls
        for job in cls.due_jobs() if "due_jobs" in vars(cls) else ():
            register_sweep(job)

    @classmethod
    def due_jobs(cls) -> Iterable[Sweep]:
        """The channel's own timers, such as reminders: asked once, when the class is made. See `workflows.sweeps`."""
        return ()

    def open(self, interactions: Sequence[Interaction]) -> None:
        """Write rows of the channel's own, in the transaction that opens the interactions."""

    @classmethod
    def close(cls, interactions: Sequence[Interaction], how: str) -> None:
        """Write rows of the channel's own, in the transaction that ends the interactions.

        `how` is "completed", "expired", "failed" or "cancelled". What it raises rolls the ending back.
        """

    @classmethod
    def dispatch(cls, question: Outgoing) -> Sent | None:
        """Send one question; raise `DispatchFailed` where that did not work. At least once, under `question.key`."""
        raise NotImplementedError(f"{cls.__name__} has sends = True: write its dispatch(question)")

    @classmethod
    def dispatch_many(cls, questions: Sequence[Outgoing]) -> Sequence[Sent | Exception | None]:
        """Send up to `batch` questions; for each what `dispatch` returned or raised. For channels that send in bulk."""
        return [_try(cls.dispatch, one) for one in questions]

    @classmethod
    def read_answer(cls, answer: Any, schema: Schema | None) -> Any:
        """What the author is handed, made of the stored answer: as the question's schema types it."""
        return answer if schema is None else schema.cast(answer)


def list_sending() -> list[type[Channel]]:
    """The channels that send."""
    return [one for one in list(_channels.values()) if one.sends]


def list_closing() -> list[str]:
    """The names of channels that are told of the end of their questions."""
    return list(_closing)


def tell_channel(alias: str, channel: str, ids: Sequence[UUID], how: str) -> None:
    """Tell a channel of the end of these questions."""
    from workflows.models import Interaction

    rows = {
        row.pk: row
        for begin in range(0, len(ids), CLOSED_AT_ONCE)
        for row in Interaction.objects.using(alias).filter(pk__in=ids[begin : begin + CLOSED_AT_ONCE])
    }
    _closing[channel].close([rows[id] for id in ids], how)


def _has_close(cls: type[Channel]) -> bool:
    if getattr(cls.close, "__func__", None) is Channel.close.__func__:  # type: ignore[attr-defined]
        return False
    if getattr(cls.close, "__self__", None) is not cls:
        raise InvalidCall(
            f"{cls.__name__}.close must be a class method, as no channel is left of the asking: write "
            "@classmethod above def close(cls, interactions, how)"
        )
    return True


def _try(send: Callable[[Outgoing], Sent | None], question: Outgoing) -> Sent | Exception | None:
    try:
        return send(question)
    except Exception as error:
        return error


@dataclass(frozen=True, slots=True)
class Question:
    """What a wait asks: one interaction with an address of its own. `step` names the wait within its instance."""

    step: str
    signal_id: str | None = None
    channel: str = "signal"
    #: Whether it gets a resume URL.
    token: bool = False
    schema: Schema | None = None
    request: Any = None
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
    request: Any = None,
    schema: Any = None,
    cardinality: str = Cardinality.ONE_TO_ONE,
    assignee: str | None = None,
    group: str | None = None,
    projector: Any = None,
) -> Question:
    """The question that a channel, or a mere label of one, asks; with `MANY_TO_…` about a list, read to its end."""
    from workflows.schema import read_schema

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


def _read_list(step: str, channel: object, request: Any) -> list[Any] | None:
    from workflows.units.streams import take_items

    if request is None and isinstance(channel, Channel):
        request = channel.request
    return None if request is None else take_items(request, f"the input of {step!r}")


def check_body(body: object) -> str:
    """What a partner's body holds."""
    if not isinstance(body, str) or body not in BODIES:
        raise InvalidCall(f"body= must be one of {', '.join(BODIES)}, not {show(body)}")
    return body


@dataclass(frozen=True, slots=True)
class Asked:
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
        from workflows.tokens import resume_url

        return resume_url(self.token or "")


class Callback:
    """A question that a partner answers by its resume URL, which exists as soon as it is read."""

    __slots__ = ("_ask", "question")

    def __init__(self, question: Question, ask: Callable[[Question], Asked]) -> None:
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


def name_projector(given: Any) -> str | None:
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


def find_projector(path: str) -> Any:
    """The function that a row names."""
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)


def check_signal_id(value: object) -> str:
    """A signal id that can stand in an address, percent-encoded where it has to be.

    >>> check_signal_id("orders/7 é")
    'orders/7 é'
    """
    if not isinstance(value, str) or not _SIGNAL_ID.fullmatch(value) or value in (".", ".."):
        raise InvalidSignalId(value)
    return value
