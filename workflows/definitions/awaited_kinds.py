"""What one of several open questions may be about: an answer, signals, an event, the end of an instance, time.

Lives here: the values that authors write, and what they mean for one run (`AskSpec`). Must not live here: rows.
Invariant owned: an `AskSpec` that was made can be opened, but for a signal id or a key that is taken, and a target that
is not there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload
from uuid import UUID

from workflows.definitions.awaited_event import EventSpec
from workflows.definitions.channel import Channel, read_label
from workflows.definitions.flow.flow_options import read_priority, read_queue
from workflows.definitions.question import Callback, Question, ask_channel, check_body, check_signal_id, name_projector
from workflows.exceptions import InvalidCall, show
from workflows.lifecycle import Call
from workflows.values.durations import parse_delay, parse_moment
from workflows.values.json_text import check_signal_name, check_text
from workflows.values.types_of_signatures import A, BodyKind, CardinalityName, Projector, SchemaArgument, T, Validating

if TYPE_CHECKING:
    from workflows.models import Instance
    from workflows.styles.function.durable import Durable
    from workflows.values.types_of_signatures import SchemaValue, WorkflowRef

R = TypeVar("R")

#: The first name of a park on several questions. Nothing is delivered to it: it says that whoever runs next looks at
#: each question by itself, and that no deadline may close what stands beside it.
ASKED = "holdpoint:asked"
#: Before the id of an instance: the name under which its end is told.
END = "holdpoint:end:"


class Awaitable(Generic[A]):
    """What can be waited for; `A` is what the author is handed."""

    __slots__ = ()


if TYPE_CHECKING:
    from workflows.engine.context import Signal

    _OfSignal = Awaitable[Signal]
else:
    _OfSignal = Awaitable


@dataclass(frozen=True, slots=True)
class AwaitedSignal(_OfSignal):
    """A signal that is sent by name."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AwaitedChild(Awaitable[A]):
    """A child that is started, and its end."""

    workflow: Any
    input: Any = None
    key: str | None = None
    queue: str | None = None
    priority: int | None = None


@dataclass(frozen=True, slots=True)
class AwaitedInstance(Awaitable[Any]):
    """The end of any instance."""

    target: Any


@dataclass(frozen=True, slots=True)
class AwaitedAnswer(Awaitable[A]):
    """A question under a label, through a channel, or with a resume URL; its id is given where it is asked."""

    channel: str | Channel[Any]
    options: Mapping[str, Any]
    #: Its own signal id.
    signal: str | None = None
    token: bool = False
    body: str = "any"

    def make_question(self, id: str) -> Question:
        """The question, by the id of its wait."""
        if not self.token:
            asked = ask_channel(id, self.channel, **self.options)
            return asked if self.signal is None else replace(asked, signal_id=self.signal)
        return Question(
            id,
            channel=read_label(self.channel),
            token=True,
            schema=self.options["schema"],
            projector=self.options["projector"],
            body=self.body,
        )


@dataclass(frozen=True, eq=False)
class Pause:
    """Nothing but time: so many seconds, or until a moment."""

    duration: Any = None
    until: Any = None

    def read_time(self) -> float | datetime:
        """How long; refuses what cannot be read."""
        if (self.duration is None) == (self.until is None):
            raise InvalidCall('sleep takes a duration such as "1h", or until=, a datetime with a time zone')
        return parse_delay(self.duration) if self.until is None else parse_moment(self.until, "until= of sleep")


def received(*names: str) -> AwaitedSignal:
    """A signal that `workflows.signal` sends by one of these names; each wait takes one, the oldest.

    >>> received("paid", "refused").names
    ('paid', 'refused')
    """
    if not names:
        raise InvalidCall('received() takes the names of signals: received("paid")')
    checked = [check_signal_name(name, "a name in received()") for name in names]
    return AwaitedSignal(tuple(sorted(set(checked))))


@overload
def child(
    workflow: Durable[..., R],
    input: Mapping[str, Any] | None = None,
    *,
    key: str | None = None,
    queue: str | None = None,
    priority: int | None = None,
) -> AwaitedChild[R]: ...
@overload
def child(
    workflow: WorkflowRef,
    input: object = None,
    *,
    key: str | None = None,
    queue: str | None = None,
    priority: int | None = None,
) -> AwaitedChild[Any]: ...
def child(
    workflow: Any,
    input: object = None,
    *,
    key: str | None = None,
    queue: str | None = None,
    priority: int | None = None,
) -> AwaitedChild[Any]:
    """A child of this instance, started when it is asked for; the answer is its result.

    >>> child("Pack", {"box": 1}).input
    {'box': 1}
    """
    return AwaitedChild(
        workflow,
        {} if input is None else input,
        None if key is None else check_text(key, "a child's key"),
        None if queue is None else read_queue(queue),
        None if priority is None else read_priority(priority),
    )


def instance(target: Instance | UUID | str) -> AwaitedInstance:
    """The end of an instance that others started; the answer is its result.

    >>> instance("order-7").target
    'order-7'
    """
    target = getattr(target, "pk", target)  # an Instance stands for its id, and is not carried along
    if isinstance(target, str):
        return AwaitedInstance(check_text(target, "a correlation key"))
    if not isinstance(target, UUID):
        raise InvalidCall(f"instance() takes an Instance, its UUID or a correlation key, not {show(target)}")
    return AwaitedInstance(target)


@overload
def question(
    channel: str,
    *,
    schema: type[Validating],
    input: object = None,
    assignee: str | None = None,
    group: str | None = None,
    signal: str | None = None,
) -> AwaitedAnswer[dict[str, Any]]: ...
@overload
def question(
    channel: str,
    *,
    schema: type[T],
    input: object = None,
    assignee: str | None = None,
    group: str | None = None,
    signal: str | None = None,
) -> AwaitedAnswer[T]: ...
@overload
def question(
    channel: str | Channel[Any],
    *,
    input: object = None,
    cardinality: CardinalityName = "ONE_TO_ONE",
    schema: SchemaArgument | None = None,
    assignee: str | None = None,
    group: str | None = None,
    projector: Projector | None = None,
    signal: str | None = None,
) -> AwaitedAnswer[Any]: ...
def question(
    channel: str | Channel[Any],
    *,
    input: object = None,
    cardinality: str = "ONE_TO_ONE",
    schema: SchemaArgument | None = None,
    assignee: str | None = None,
    group: str | None = None,
    projector: Projector | None = None,
    signal: str | None = None,
) -> AwaitedAnswer[Any]:
    """What is asked through a channel, or listed under a label such as "api"; `signal` is an address of your own.

    >>> question("api", input={"order": 7}, assignee="ann").channel
    'api'
    """
    options = {
        "request": input,
        "cardinality": cardinality,
        "schema": schema,
        "assignee": assignee,
        "group": group,
        "projector": projector,
    }
    made: AwaitedAnswer[Any] = AwaitedAnswer(channel, options, None if signal is None else check_signal_id(signal))
    made.make_question("question")  # what is wrong with it is told where it is written
    return made


@overload
def callback(
    schema: type[Validating], *, channel: str = ..., body: BodyKind = ...
) -> AwaitedAnswer[dict[str, Any]]: ...
@overload
def callback(schema: type[T], *, channel: str = ..., body: BodyKind = ...) -> AwaitedAnswer[T]: ...
@overload
def callback(
    schema: SchemaValue | None = None,
    *,
    projector: Projector | None = None,
    channel: str = ...,
    body: BodyKind = ...,
) -> AwaitedAnswer[Any]: ...
def callback(
    schema: SchemaArgument | None = None,
    *,
    projector: Projector | None = None,
    channel: str = "callback",
    body: str = "any",
) -> AwaitedAnswer[Any]:
    """A question that a partner answers by its resume URL.

    >>> callback(body="raw").body
    'raw'
    """
    from workflows.schemas.schema import read_schema

    options = {"schema": read_schema(schema), "projector": name_projector(projector)}
    return AwaitedAnswer(read_label(channel), options, token=True, body=check_body(body))


@dataclass(frozen=True, slots=True)
class AskSpec:
    """One of several open questions, as a run asks it: its kind, and what that needs."""

    call: Call
    id: str
    question: Question | None = None
    event: EventSpec | None = None
    names: tuple[str, ...] = ()
    child: AwaitedChild[Any] | None = None
    target: UUID | str | None = None
    #: Of a sleep: how long.
    pause: float | datetime | None = None

    def describe(self) -> dict[str, Any]:
        """What the history tells of it, beside its id and its time."""
        if self.event is not None:
            return {"event": self.event.name, "match": dict(self.event.match) or None, "channel": self.event.channel}
        if self.child is not None:
            return {"child": True}
        if self.target is not None:
            return {"instance": str(self.target)}
        return {"signals": list(self.names)} if self.names else {"sleep": True}


def read_asked(id: str, what: object) -> AskSpec:
    """What a run asks under this id; plain text is a label, as in `ctx.wait_for`."""
    check_text(id, "the id of a question")
    match what:
        case Callback(question=asked):  # of a step, whose address may have been read
            return AskSpec(Call.ASK_CHANNEL, id, question=asked)
        case Channel() | str():
            return AskSpec(Call.ASK_CHANNEL, id, question=ask_channel(id, what))
        case AwaitedAnswer():
            return AskSpec(Call.ASK_CHANNEL, id, question=what.make_question(id))
        case EventSpec():
            return AskSpec(Call.ASK_EVENT, id, event=what)
        case AwaitedSignal(names):
            return AskSpec(Call.ASK_SIGNAL, id, names=names)
        case AwaitedChild():
            return AskSpec(Call.ASK_CHILD, id, child=what)
        case AwaitedInstance(target):
            return AskSpec(Call.ASK_INSTANCE, id, target=target)
        case Pause():
            return AskSpec(Call.ASK_SLEEP, id, pause=what.read_time())
    raise InvalidCall(
        f"the question {id!r} is about {show(what)}: write a channel such as Approval(…), question(…), callback(…), "
        "event(…), received(…), child(…), instance(…) or sleep(…)"
    )


@dataclass(frozen=True, slots=True)
class Several(Awaitable[Any]):
    """Questions by their ids; the wait is over with the first of them, or with the last."""

    specs: Mapping[str, AskSpec]
    #: Whether all of them have to be over.
    all: bool = False


def any_of(what: Mapping[str, object] | None = None, /, **more: object) -> Several:
    """Several questions at once, by ids of your own: the step runs when at least one of them is over.

    Each is a channel such as an approval, `question(…)`, `ctx.callback(…)`, `event(…)`, `received(…)` or a signal's
    name, `child(…)`, `instance(…)` or `sleep(…)`.

    >>> list(any_of(paid="payment_confirmed", late=received("too_late")).specs)
    ['paid', 'late']
    """
    return Several({id: read_one("any_of", id, one) for id, one in list_asked("any_of", what, more).items()})


def all_of(what: Mapping[str, object] | None = None, /, **more: object) -> Several:
    """Several questions at once, by ids of your own: the step runs when all of them are over.

    >>> all_of({"paid": "payment_confirmed"}).all
    True
    """
    return Several({id: read_one("all_of", id, one) for id, one in list_asked("all_of", what, more).items()}, all=True)


def list_asked(word: str, what: object, more: Mapping[str, object]) -> dict[str, object]:
    """The questions by their ids, as they were written."""
    if what is not None and not isinstance(what, Mapping):
        raise InvalidCall(f'{word} takes questions by their ids: {word}(paid=received("paid")), not {show(what)}')
    given = dict(what or {})
    if twice := given.keys() & more.keys():
        raise InvalidCall(f"{word} has {', '.join(map(repr, sorted(twice)))} twice")
    given |= more
    if not given:
        raise InvalidCall(f'{word} needs at least one question: {word}(paid=received("paid"), late=sleep("2d"))')
    return {check_signal_name(id, f"an id in {word}"): one for id, one in given.items()}


def read_one(word: str, id: str, what: object, prefix: str = "") -> AskSpec:
    """One question of several; plain text is the name of a signal, as in `Await`."""
    if isinstance(what, Several):
        raise InvalidCall(f"{word} has several questions within {id!r}: write each beside the others")
    return read_asked(f"{prefix}{id}", received(what) if isinstance(what, str) else what)
