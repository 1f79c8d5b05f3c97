"""What may stand as a stage of a `Machine`. Values only.

Lives here: the values that `vocabulary` makes, and reading their arguments. What they do when an instance
reaches them is in `stage_run`. Invariant owned: a stage that `read()` returned can be run; what
is wrong with its arguments is told by `read()`, because only the class knows the stage's name.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from workflows.definitions.awaited_event import event
from workflows.definitions.awaited_kinds import Pause
from workflows.definitions.channel import Channel, read_label
from workflows.definitions.outcomes import Await
from workflows.definitions.question import ask_channel, check_body, name_projector
from workflows.definitions.registry import Definition
from workflows.exceptions import InvalidDefinition, show
from workflows.lifecycle import Cardinality
from workflows.schemas.schema import read_schema
from workflows.values.durations import parse_time
from workflows.values.json_text import check_text, dump_value

#: Where a machine ends: `then=END`, or what a branch returns.
END: Final = "END"
#: What an unanswered wait does to its instance unless told otherwise.
FAIL: Final = "FAIL"

#: How many items of a stream are under way at once, unless a stage says otherwise.
CONCURRENCY: Final = 128
POLICIES: Final = ("fail", "partial")


@dataclass(frozen=True, eq=False, kw_only=True)
class Stage:
    """The root of all stages."""

    #: Whether it runs inside the transaction of its own commit.
    atomic: bool = False
    #: Where a file declares it.
    line: int | None = None

    def read(self) -> Stage:
        """The stage with its arguments read; raises an error of ours that says what is wrong with them."""
        raise NotImplementedError

    def list_targets(self) -> tuple[str, ...]:
        """The stages and flows that it names."""
        return ()

    def list_signals(self) -> tuple[str, ...]:
        """The plain signals that it may wait for."""
        return ()


@dataclass(frozen=True, eq=False)
class ActionStage(Stage):
    fn: Callable[..., Any]
    then: str | None = None

    def read(self) -> Stage:
        check_function(self.fn, may_wait=not _read_flag(self.atomic, "atomic"))
        return self

    def list_targets(self) -> tuple[str, ...]:
        return () if self.then is None else (self.then,)


@dataclass(frozen=True, eq=False)
class Branch(Stage):
    fn: Callable[..., Any]
    to: Any = None

    def read(self) -> Stage:
        check_function(self.fn, may_wait=True)
        if self.to is None:
            return self
        if isinstance(self.to, str) or not isinstance(self.to, Iterable):
            raise InvalidDefinition(f"to= is a list of stages, not {show(self.to)}")
        return replace(self, to=tuple(self.to))

    def list_targets(self) -> tuple[str, ...]:
        return self.to or ()


@dataclass(frozen=True, eq=False)
class Expand(Stage):
    """Many of one: the stages after it run once per item."""

    fn: Callable[..., Any]
    #: "fail" or "partial"; None leaves it to the wait that asks the items, else "fail".
    on_item: Any = None
    concurrency: Any = None

    def read(self) -> Stage:
        check_function(self.fn, may_wait=True)
        _check_stream(self.on_item, self.concurrency)
        return self


@dataclass(frozen=True, eq=False)
class Collect(Stage):
    """One of many: called once, when each item is through."""

    fn: Callable[..., Any]

    def read(self) -> Stage:
        takes_items(self.fn)
        return self


@dataclass(frozen=True, eq=False)
class WaitFor(Stage):
    event: Any = None
    callback: Any = False
    channel: Any = None
    match: Any = None
    timeout: Any = None
    on_timeout: str = FAIL
    #: As written, until `read()` makes a Schema of it.
    schema: Any = None
    cardinality: Any = Cardinality.ONE_TO_ONE
    each: Any = False
    input: Any = None
    projector: Any = None
    body: Any = "any"
    on_item: Any = None
    concurrency: Any = None
    #: The names of plain signals.
    signal: Any = None
    #: The moment at which it ends, or a function of ctx that tells it; in place of `timeout`.
    until: Any = None

    def read(self) -> Stage:
        self._check_kind()
        self._check_shape()
        if self.signal is not None:
            return self._read_signal()
        self._check_time()
        # A channel may bring the schema of its answers; one that is made when the stage runs is known too late.
        # Where the channel owns the answer it also says what that is: the schema is of a part of it.
        brings = isinstance(self.channel, Channel) and not self.channel.owns_answers
        own = self.channel.schema if brings else None
        schema = read_schema(own if self.schema is None else self.schema)
        match, request = self.match, self.input
        if self.event is not None:
            if request is not None:
                raise InvalidDefinition("input= is what a callback or channel is asked; an event is asked nothing")
            match = check_function(match) if callable(match) else dict(event(self.event, match).match)
            _read_label(self.channel)
        else:
            if match is not None:
                raise InvalidDefinition("match= is for events")
            request = _read_value(request, "input")
        if self.projector is not None:
            if self.event is not None:
                raise InvalidDefinition("projector= is for callbacks and channels; an event is asked nothing")
            name_projector(self.projector)
        if check_body(self.body) != "any" and not self.callback:
            raise InvalidDefinition("body= is what a partner sends to a callback; nothing else is sent a body")
        if self.callback:
            _read_label(self.channel)
        elif is_function(self.channel):
            check_function(self.channel)
        elif self.channel is not None:
            ask_channel("stage", self.channel)
        return replace(self, schema=schema, match=match, input=request)

    def list_targets(self) -> tuple[str, ...]:
        return () if self.on_timeout == FAIL else (self.on_timeout,)

    def list_signals(self) -> tuple[str, ...]:
        return self.signal or ()

    @property
    def takes_many(self) -> bool:
        """Whether it is asked once about a whole list."""
        return self.cardinality in (Cardinality.MANY_TO_ONE, Cardinality.MANY_TO_MANY)

    @property
    def gives_many(self) -> bool:
        """Whether its answer is a list, which the stages after it take item by item."""
        return self.cardinality in (Cardinality.ONE_TO_MANY, Cardinality.MANY_TO_MANY)

    @property
    def asks_items(self) -> bool:
        """Whether all items can be asked by one unit, before any of them has a line of its own.

        A callback has an address before it is reached, an event asks nobody, and a flow is taken by a line.
        """
        return bool(
            self.each
            and self.channel is not None
            and self.event is None
            and not self.callback
            and self.projector is None
            and self.on_timeout == FAIL
        )

    def _read_signal(self) -> Stage:
        for word in ("match", "schema", "input", "projector"):
            if getattr(self, word) is not None:
                raise InvalidDefinition(
                    f"{word}= is of what is asked; a plain signal is asked nothing and is taken as it was sent"
                )
        if self.body != "any" or self.each or self.cardinality != Cardinality.ONE_TO_ONE:
            raise InvalidDefinition(
                "signal= takes the next signal of its name, and knows only timeout=, until= and on_timeout="
            )
        self._check_time()
        return replace(self, signal=Await(self.signal, then="stage").names)

    def _check_time(self) -> None:
        if callable(self.until):
            check_function(self.until)
            if self.timeout is not None:
                raise InvalidDefinition("it has timeout= and until=: leave one of them out")
        elif parse_time(self.timeout, self.until, "a wait") is None and self.on_timeout != FAIL:
            raise InvalidDefinition(f"on_timeout={show(self.on_timeout)} can never happen without a timeout")

    def _check_shape(self) -> None:
        if self.cardinality not in list(Cardinality):
            raise InvalidDefinition(
                f"cardinality must be one of {', '.join(Cardinality)}, not {show(self.cardinality)}"
            )
        if _read_flag(self.each, "each") and self.cardinality != Cardinality.ONE_TO_ONE:
            raise InvalidDefinition(
                "each=True asks about each item by itself, and "
                f"cardinality={show(str(self.cardinality))} once about all: leave one of them out"
            )
        if self.event is not None and self.cardinality != Cardinality.ONE_TO_ONE:
            raise InvalidDefinition(
                "cardinality= is of what is asked by a callback or channel; an event is asked nothing"
            )
        _check_stream(self.on_item, self.concurrency)

    def _check_kind(self) -> None:
        given = [
            word
            for word, is_given in (
                ("event", self.event is not None),
                ("callback", _read_flag(self.callback, "callback")),
                ("signal", self.signal is not None),
                ("channel", self.channel is not None),
            )
            if is_given
        ]
        if len(given) > 1 and given[-1] == "channel" and self.signal is None:
            given.pop()  # a label beside an event or a callback
        if len(given) != 1:
            told = " and ".join(given) or "none of them"
            raise InvalidDefinition(
                f'wait_for takes one of event="name", signal="name", callback=True and channel=…; here it has {told}'
            )


@dataclass(frozen=True, eq=False)
class Launch(Stage):
    workflow: Any
    input: Any = None
    #: The new instance and the stage's own outcome are one transaction.
    atomic: bool = field(default=True, kw_only=True)

    def read(self) -> Stage:
        if not isinstance(getattr(self.workflow, "definition", None), Definition):
            # A name is looked up when the stage runs: its workflow may be defined later, or elsewhere.
            check_text(self.workflow, "the workflow to launch (a class, a function or a name)")
        return replace(self, input=_read_value(self.input, "input"))


@dataclass(frozen=True, eq=False)
class Sleep(Pause, Stage):
    """Also what a function asks: `ctx.ask("later", sleep("1h"))`."""

    def read(self) -> Stage:
        if callable(self.until) and self.duration is None:
            return replace(self, until=check_function(self.until))
        time = self.read_time()
        return replace(self, until=time) if isinstance(time, datetime) else replace(self, duration=time)


@dataclass(frozen=True, eq=False)
class Flow:
    """A side path. Not a stage: the main line passes it by."""

    stages: tuple[Any, ...]
    line: int | None = None


def is_function(value: object) -> bool:
    """Whether an argument is to be asked for its value when the stage runs."""
    return callable(value) and not isinstance(value, Channel | type)


def check_function(fn: object, *, may_wait: bool = False) -> Any:
    """A function that can be called with ctx alone; an async one where it may wait."""
    if not callable(fn):
        raise InvalidDefinition(f"it takes a function of ctx, not {show(fn)}")
    _check_async(fn, may_wait=may_wait)
    try:
        inspect.signature(fn).bind(None)
    except TypeError as error:
        raise InvalidDefinition(
            f"its function is called with ctx alone, which {show(fn)} does not allow ({error})"
        ) from error
    except ValueError:
        pass  # some builtins do not tell their arguments
    return fn


def _check_async(fn: object, *, may_wait: bool) -> None:
    asked = (fn, type(fn).__call__)
    if any(inspect.isasyncgenfunction(one) for one in asked):
        raise InvalidDefinition("its function is an async generator, which has no result: return one value")
    if not may_wait and any(inspect.iscoroutinefunction(one) for one in asked):
        raise InvalidDefinition(
            "its function is async, and is called inside a transaction, or where the stage is being asked: await in "
            "the function of an action that is not atomic, and read its result here"
        )


def takes_items(fn: object) -> bool:
    """Whether a function of `collect` takes the results beside ctx; refuses one that takes neither."""
    if callable(fn):
        try:
            inspect.signature(fn).bind(None)
        except TypeError:
            try:
                inspect.signature(fn).bind(None, None)
            except TypeError:
                pass
            else:
                _check_async(fn, may_wait=True)
                return True
        except ValueError:
            pass
    check_function(fn, may_wait=True)
    return False


def _check_stream(on_item: object, concurrency: object) -> None:
    if on_item is not None and on_item not in POLICIES:
        raise InvalidDefinition(f'on_item= is "fail" or "partial", not {show(on_item)}')
    if concurrency is not None and (
        not isinstance(concurrency, int) or isinstance(concurrency, bool) or not 1 <= concurrency <= 10_000
    ):
        raise InvalidDefinition(f"concurrency= is a whole number from 1 to 10000, not {show(concurrency)}")


def _read_value(value: object, what: str) -> Any:
    """A function of ctx, or a JSON value: a copy, so that what happens to the original changes no machine."""
    return check_function(value) if callable(value) else json.loads(dump_value(value, f"{what}="))


def _read_flag(value: object, what: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidDefinition(f"{what}= is True or False, not {show(value)}")
    return value


def _read_label(channel: object) -> None:
    if channel is not None:
        read_label(channel)
