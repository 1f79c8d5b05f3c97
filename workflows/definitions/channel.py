"""Channels: the ways of a question to the people and programs that answer it.

Lives here: the base class of channels, and the channels by name. Must not live here: a channel of our own, and the
question itself. Invariant owned: a class that names itself is found by that name as soon as it is made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Generic

from workflows.definitions.sweeps import Sweep, register_sweep
from workflows.exceptions import InvalidCall, show
from workflows.values.json_text import check_text
from workflows.values.types_of_signatures import A
from workflows.wording.messages import gettext_noop

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from uuid import UUID

    from workflows.channels.outgoing import Outgoing, Sent
    from workflows.models import Interaction
    from workflows.schemas.schema import Schema

#: Rows that are read in one statement for a channel that is told of their end.
CLOSED_AT_ONCE = 1000

_channels: dict[str, type[Channel]] = {}

#: Those of them that are told of the end of their questions.
_closing: dict[str, type[Channel]] = {}


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

    request: object = None
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
        """The channel's own timers, such as reminders: asked once, when the class is made. See `definitions.sweeps`."""
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


def find_channel(name: str) -> type[Channel]:
    """The class of a channel; of a mere label the one that all derive from."""
    return _channels.get(name, Channel)


def find_door(channel: str) -> str:
    """Where the answers of a channel are given."""
    return find_channel(channel).door


def read_label(channel: object) -> str:
    """The label beside an event or a callback, which are channels of their own."""
    if not isinstance(channel, str):
        raise InvalidCall(
            f"beside an event or a callback, a channel is a label such as 'webhook' or 'api', not {show(channel)}"
        )
    return check_text(channel, "a channel")


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
