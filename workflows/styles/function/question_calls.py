"""Calls of a durable function that ask one question: a signal id, a channel, or a callback.

Lives here: `ctx.wait_for_signal`, `ctx.wait_for` and `ctx.callback`. Must not live here: lists of items and events.
Invariant owned: a wait has one row. Its question, token and deadline are found again by every later run.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Literal, overload

from workflows.definitions.awaited_event import EventSpec
from workflows.definitions.awaited_kinds import Awaitable, Pause
from workflows.definitions.channel import Channel, read_label
from workflows.definitions.outcomes import Suspend
from workflows.definitions.question import UNIT, Question, ask_channel, name_projector
from workflows.exceptions import InvalidCall, SignalTimeoutError, UnitFailed, show
from workflows.lifecycle import Call, Cardinality, InteractionStatus
from workflows.store import FAILURE, Saved
from workflows.styles.function.call_replay import read_saved
from workflows.styles.function.open_calls import Asked, OpenCalls, note_question
from workflows.values.durations import parse_time
from workflows.values.types_of_signatures import (
    A,
    BodyKind,
    CardinalityName,
    Duration,
    Projector,
    SchemaArgument,
    SchemaValue,
    T,
    Validating,
)

if TYPE_CHECKING:
    from workflows.schemas.schema import Schema


class QuestionCalls(OpenCalls):
    """The calls of `ctx` that wait for one answer."""

    __slots__ = ()

    @overload
    def wait_for_signal(
        self,
        id: str,
        *,
        signal: str | None = None,
        timeout: Duration | None = None,
        until: datetime | None = None,
        schema: type[Validating],
    ) -> dict[str, Any]: ...
    @overload
    def wait_for_signal(
        self,
        id: str,
        *,
        signal: str | None = None,
        timeout: Duration | None = None,
        until: datetime | None = None,
        schema: type[T],
    ) -> T: ...
    @overload
    def wait_for_signal(
        self,
        id: str,
        *,
        signal: str | None = None,
        timeout: Duration | None = None,
        until: datetime | None = None,
        schema: SchemaValue | None = None,
        projector: Projector | None = None,
    ) -> Any: ...
    @overload
    def wait_for_signal(
        self,
        id: str,
        *,
        signal: str | None = None,
        timeout: Duration | None = None,
        until: datetime | None = None,
        schema: SchemaArgument | None = None,
        projector: Projector,
    ) -> Any: ...
    def wait_for_signal(
        self,
        id: str,
        *,
        signal: str | None = None,
        timeout: object = None,
        until: object = None,
        schema: SchemaArgument | None = None,
        projector: Projector | None = None,
    ) -> Any:
        """Wait for the completion of a signal id; its data. `SignalTimeoutError` when the time is over."""
        typed = _read_schema(schema)
        question = Question(
            id,
            signal_id=f"{id}-{self.id}" if signal is None else signal,
            schema=typed,
            channel="signal",
            projector=name_projector(projector),
        )
        time = parse_time(timeout, until, f"ctx.wait_for_signal({id!r})", needed=True)
        return self._wait(Call.SIGNAL, question, time)

    @overload
    def wait_for(
        self,
        id: str,
        channel: Channel[A],
        *,
        input: object = None,
        cardinality: Literal["ONE_TO_ONE"] = "ONE_TO_ONE",
        schema: None = None,
        timeout: Duration | None = None,
        until: datetime | None = None,
        assignee: str | None = None,
        group: str | None = None,
    ) -> A: ...
    @overload
    def wait_for(
        self,
        id: str,
        channel: str,
        *,
        input: object = None,
        cardinality: Literal["ONE_TO_ONE"] = "ONE_TO_ONE",
        schema: type[Validating],
        timeout: Duration | None = None,
        until: datetime | None = None,
        assignee: str | None = None,
        group: str | None = None,
    ) -> dict[str, Any]: ...
    @overload
    def wait_for(
        self,
        id: str,
        channel: str,
        *,
        input: object = None,
        cardinality: Literal["ONE_TO_ONE"] = "ONE_TO_ONE",
        schema: type[T],
        timeout: Duration | None = None,
        until: datetime | None = None,
        assignee: str | None = None,
        group: str | None = None,
    ) -> T: ...
    @overload
    def wait_for(
        self,
        id: str,
        channel: str,
        *,
        input: object = None,
        cardinality: CardinalityName = "ONE_TO_ONE",
        schema: SchemaArgument | None = None,
        timeout: Duration | None = None,
        until: datetime | None = None,
        assignee: str | None = None,
        group: str | None = None,
        projector: Projector | None = None,
    ) -> Any: ...
    @overload
    def wait_for(
        self,
        id: str,
        channel: Channel,
        *,
        input: object = None,
        cardinality: CardinalityName = "ONE_TO_ONE",
        schema: SchemaArgument,
        timeout: Duration | None = None,
        until: datetime | None = None,
        assignee: str | None = None,
        group: str | None = None,
        projector: Projector | None = None,
    ) -> Any: ...
    @overload
    def wait_for(
        self,
        id: str,
        channel: Channel,
        *,
        input: object = None,
        cardinality: CardinalityName = "ONE_TO_ONE",
        schema: SchemaArgument | None = None,
        timeout: Duration | None = None,
        until: datetime | None = None,
        assignee: str | None = None,
        group: str | None = None,
        projector: Projector,
    ) -> Any: ...
    @overload
    def wait_for(
        self,
        id: str,
        channel: Channel,
        *,
        input: object = None,
        cardinality: CardinalityName,
        schema: SchemaArgument | None = None,
        timeout: Duration | None = None,
        until: datetime | None = None,
        assignee: str | None = None,
        group: str | None = None,
        projector: Projector | None = None,
    ) -> Any: ...
    @overload
    def wait_for(
        self, id: str, channel: Awaitable[A], *, timeout: Duration | None = None, until: datetime | None = None
    ) -> A: ...
    @overload
    def wait_for(
        self, id: str, channel: EventSpec | Pause, *, timeout: Duration | None = None, until: datetime | None = None
    ) -> Any: ...
    def wait_for(
        self,
        id: str,
        channel: str | Channel | Awaitable[Any] | EventSpec | Pause,
        *,
        input: object = None,
        cardinality: str = Cardinality.ONE_TO_ONE,
        schema: SchemaArgument | None = None,
        timeout: object = None,
        until: object = None,
        assignee: str | None = None,
        group: str | None = None,
        projector: Projector | None = None,
    ) -> Any:
        """Ask through a channel, or list the question under a label; the answer.

        Of `received(…)` it is the signal, of `child(…)` and `instance(…)` the result, of `event(…)` its data.
        """
        if isinstance(channel, Awaitable | EventSpec | Pause):
            options = (input, schema, assignee, group, projector)
            if any(one is not None for one in options) or cardinality != Cardinality.ONE_TO_ONE:
                raise InvalidCall(f"ctx.wait_for({id!r}): of {show(channel)} only timeout= and until= are known here")
            asked: Asked[Any] = self.open_question(id, channel, timeout, until)
            return asked.result()
        question = ask_channel(
            id,
            channel,
            request=input,
            schema=schema,
            cardinality=cardinality,
            assignee=assignee,
            group=group,
            projector=projector,
        )
        return self._wait(Call.CHANNEL, question, parse_time(timeout, until, f"ctx.wait_for({id!r})"))

    @overload
    def callback(
        self,
        id: str,
        schema: type[Validating],
        *,
        timeout: Duration | None = None,
        until: datetime | None = None,
        channel: str = ...,
        body: BodyKind = ...,
    ) -> FunctionCallback[dict[str, Any]]: ...
    @overload
    def callback(
        self,
        id: str,
        schema: type[T],
        *,
        timeout: Duration | None = None,
        until: datetime | None = None,
        channel: str = ...,
        body: BodyKind = ...,
    ) -> FunctionCallback[T]: ...
    @overload
    def callback(
        self,
        id: str,
        schema: SchemaValue | None = None,
        *,
        timeout: Duration | None = None,
        until: datetime | None = None,
        projector: Projector | None = None,
        channel: str = ...,
        body: BodyKind = ...,
    ) -> FunctionCallback[Any]: ...
    @overload
    def callback(
        self,
        id: str,
        schema: type[Any],
        *,
        timeout: Duration | None = None,
        until: datetime | None = None,
        projector: Projector,
        channel: str = ...,
        body: BodyKind = ...,
    ) -> FunctionCallback[Any]: ...
    def callback(
        self,
        id: str,
        schema: SchemaArgument | None = None,
        *,
        timeout: object = None,
        until: object = None,
        projector: Projector | None = None,
        channel: str = "callback",
        body: str = "any",
    ) -> FunctionCallback[Any]:
        """A question that a partner answers by its `resume_url`; `.wait()` for the answer."""
        time = parse_time(timeout, until, f"ctx.callback({id!r})", needed=True)
        question = Question(
            id,
            channel=read_label(channel),
            token=True,
            schema=_read_schema(schema),
            projector=name_projector(projector),
            body=body,
        )
        # Opened here and not when the URL is read: that is mostly inside a step, which a later run skips.
        return FunctionCallback(self, question, time, self._open(Call.CALLBACK, question, None))

    def _wait(self, call: Call, question: Question, timeout: float | datetime | None) -> Any:
        saved = self._open(call, question, timeout)
        return self._await_answer(saved, question, timeout)

    def _open(self, call: Call, question: Question, timeout: float | datetime | None) -> Saved:
        saved = self._find(call, question.step)
        if saved is None:
            with self._making(call, question.step):
                asked = self._left.ask_at(question, timeout, call, self._cursor)
            saved = self._add(Saved(self._cursor, call, question.step, False, False, None, None, None))
            note_question(saved, asked)
        elif saved.unit is None or saved.status is InteractionStatus.CANCELLED:  # it failed, and was retried
            note_question(saved, self._left.ask_at(question, timeout, call, saved.position))
        return saved

    def _await_answer(self, saved: Saved, question: Question, timeout: float | datetime | None) -> Any:
        assert saved.unit is not None
        name = f"{UNIT}{saved.unit}"
        if saved.status is InteractionStatus.PENDING and saved.ask_deadline is None and timeout is not None:
            note_question(saved, self._left.arm(saved.unit, timeout))
        if saved.status is InteractionStatus.PENDING:
            # The row of the asking knows no timeout where the time begins only here.
            began = question.token and timeout is not None
            told = {"step": question.step, "channel": question.channel, **_describe_time(timeout)} if began else None
            self._suspend(Suspend((name,), until=saved.ask_deadline, told=told))
        self._read.add(saved.position)
        if saved.status is InteractionStatus.COMPLETED:
            self._taken.add(name)
            value = read_saved(saved.output)
            if question.projector is not None:
                return value
            channel = Channel if question.opener is None else type(question.opener)
            return channel.read_answer(value, question.schema)
        if saved.status is InteractionStatus.FAILED:
            self._taken.add(name)
            why = (one.payload["reason"] for one in self.list_awaited() if one.name == name and one.source == FAILURE)
            raise self._trace(saved, UnitFailed(question.step, next(why, "it can no longer be answered")))
        raise self._trace(saved, SignalTimeoutError(question.step))


class FunctionCallback(Generic[A]):
    """A callback of a function: an address first, then a wait."""

    __slots__ = ("_ctx", "_question", "_saved", "_timeout")

    def __init__(self, ctx: QuestionCalls, question: Question, timeout: float | datetime | None, saved: Saved) -> None:
        self._ctx, self._question, self._timeout, self._saved = ctx, question, timeout, saved

    @property
    def resume_url(self) -> str:
        """The address to hand to the partner, the same in every run."""
        from workflows.definitions.callback_tokens import resume_url

        return resume_url(self.resume_token)

    @property
    def resume_token(self) -> str:
        """The secret part of that address."""
        return self._ctx._left.token_of(self._saved)

    def wait(self) -> A:
        """The partner's answer; `SignalTimeoutError` when the time, which begins here, is over."""
        what = f"ctx.callback({self._question.step!r}).wait()"
        self._ctx.refuse_nesting(what)
        self._ctx._left.refuse_open_block(what)
        answer: A = self._ctx._await_answer(self._saved, self._question, self._timeout)
        return answer


def _read_schema(schema: SchemaArgument | None) -> Schema | None:
    from workflows.schemas.schema import read_schema

    return read_schema(schema)


def _describe_time(time: float | datetime | None) -> dict[str, Any]:
    return {"until": time} if isinstance(time, datetime) else {"timeout": time}
