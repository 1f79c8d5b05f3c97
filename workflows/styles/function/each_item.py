"""`ctx.wait_for_each`: a list of items, each asked by itself; the function goes on when all are over.

Invariant owned: a unit whose instance has not been told is not looked into, however many of its items are over. So the
release is what lets the function go on, once, and a run before it reads no item.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar, overload

from workflows.definitions.channel import Channel
from workflows.definitions.item_streams import (
    CONCURRENCY,
    Asking,
    ItemLine,
    ItemStream,
    read_concurrency,
    read_policy,
    read_stream,
)
from workflows.definitions.outcomes import Suspend
from workflows.definitions.question import UNIT, name_projector
from workflows.exceptions import InvalidCall, SignalTimeoutError, UnitFailed, show
from workflows.lifecycle import Call, InteractionStatus, ItemPolicy, UnitStatus
from workflows.store import FoundItem, LineItem, Saved
from workflows.styles.function.call_replay import ReplayContext, read_saved, refuse_async
from workflows.units.item_results import ItemResult, cast_answer
from workflows.units.line_access import make_error
from workflows.values.durations import parse_time
from workflows.values.json_text import read_back
from workflows.values.types_of_signatures import A, Duration, ItemChannel, SchemaArgument, T, Validating

if TYPE_CHECKING:
    from workflows.styles.function.context_calls import FunctionContext

R = TypeVar("R")


class EachCalls(ReplayContext):
    """The call of `ctx` that asks about each item of a list."""

    __slots__ = ()

    @overload
    def wait_for_each(
        self,
        id: str,
        items: Iterable[object],
        channel: ItemChannel,
        *,
        then: Callable[[FunctionContext, Any, Any], R],
        schema: SchemaArgument | None = None,
        timeout: Duration | None = None,
        until: datetime | None = None,
        on_item: Literal["fail"] = "fail",
        concurrency: int = CONCURRENCY,
        assignee: str | None = None,
        group: str | None = None,
    ) -> list[R]: ...
    @overload
    def wait_for_each(
        self,
        id: str,
        items: Iterable[object],
        channel: Channel[A] | Callable[[Any], Channel[A]],
        *,
        then: None = None,
        schema: None = None,
        timeout: Duration | None = None,
        until: datetime | None = None,
        on_item: Literal["fail"] = "fail",
        concurrency: int = CONCURRENCY,
        assignee: str | None = None,
        group: str | None = None,
    ) -> list[A]: ...
    @overload
    def wait_for_each(
        self,
        id: str,
        items: Iterable[object],
        channel: str,
        *,
        then: None = None,
        schema: type[Validating],
        timeout: Duration | None = None,
        until: datetime | None = None,
        on_item: Literal["fail"] = "fail",
        concurrency: int = CONCURRENCY,
        assignee: str | None = None,
        group: str | None = None,
    ) -> list[dict[str, Any]]: ...
    @overload
    def wait_for_each(
        self,
        id: str,
        items: Iterable[object],
        channel: str,
        *,
        then: None = None,
        schema: type[T],
        timeout: Duration | None = None,
        until: datetime | None = None,
        on_item: Literal["fail"] = "fail",
        concurrency: int = CONCURRENCY,
        assignee: str | None = None,
        group: str | None = None,
    ) -> list[T]: ...
    @overload
    def wait_for_each(
        self,
        id: str,
        items: Iterable[object],
        channel: ItemChannel,
        *,
        then: None = None,
        schema: SchemaArgument | None = None,
        timeout: Duration | None = None,
        until: datetime | None = None,
        on_item: Literal["fail"] = "fail",
        concurrency: int = CONCURRENCY,
        assignee: str | None = None,
        group: str | None = None,
    ) -> list[Any]: ...
    @overload
    def wait_for_each(
        self,
        id: str,
        items: Iterable[object],
        channel: ItemChannel,
        *,
        then: Callable[[FunctionContext, Any, Any], Any] | None = None,
        schema: SchemaArgument | None = None,
        timeout: Duration | None = None,
        until: datetime | None = None,
        on_item: Literal["partial"],
        concurrency: int = CONCURRENCY,
        assignee: str | None = None,
        group: str | None = None,
    ) -> list[ItemResult]: ...
    def wait_for_each(
        self,
        id: str,
        items: Iterable[object],
        channel: ItemChannel,
        *,
        then: Callable[[FunctionContext, Any, Any], object] | None = None,
        schema: SchemaArgument | None = None,
        timeout: object = None,
        until: object = None,
        on_item: str = "fail",
        concurrency: int = CONCURRENCY,
        assignee: str | None = None,
        group: str | None = None,
    ) -> list[Any]:
        """Ask each item by itself, `concurrency` of them at a time; their answers, in the order of the items.

        `timeout` is of each item, from the moment it is asked; `until` is one moment for all, asked or not.
        With `on_item="partial"` each is an `ItemResult`. `channel` may be a function that makes a channel of an item.
        `then(ctx, item, output)` is run as soon as an item is answered, with checkpoints and waits of its own; what it
        returns takes the place of the answer.
        """
        if then is not None:
            _check_then(then, f"then= of ctx.wait_for_each({id!r})")
        return self._wait_for_items(
            Asking(id, channel, schema, assignee, group),
            items,
            then=then,
            time=parse_time(timeout, until, f"ctx.wait_for_each({id!r})"),
            policy=read_policy(on_item),
            concurrency=read_concurrency(concurrency),
        )

    def _wait_for_items(
        self,
        asking: Asking,
        items: object,
        *,
        then: Callable[..., Any] | None = None,
        time: float | datetime | None,
        policy: ItemPolicy,
        concurrency: int,
    ) -> list[Any]:
        """The outputs of the items in their order, or how each of them ended."""

        line = None if then is None else _read_then(asking, then)

        def make_stream() -> ItemStream:
            return read_stream(asking, items, policy=policy, concurrency=concurrency, time=time, line=line)

        saved = self._open_items(asking.step, make_stream)
        if saved.unit is None:
            return []  # there was nothing to ask
        name = f"{UNIT}{saved.unit}"
        if not saved.released:
            if saved.fills:
                self._left.fill_each(saved.unit, asking)
            self._suspend(Suspend((name,)))
        self._taken.add(name)
        self._left.allow_expiries(saved.unit)
        if line is not None:
            return self._read_lines(asking.step, saved, policy)
        ends = self._left.read_each(saved.unit, typed=not asking.is_one)
        if policy is ItemPolicy.FAIL and saved.unit_status is not UnitStatus.COMPLETED:
            raise self._trace(saved, _make_error(asking.step, ends))
        cast = make_cast(asking)
        if policy is ItemPolicy.FAIL:
            return [cast(one) for one in ends]
        return [
            ItemResult(one.status.value, cast(one) if one.status is InteractionStatus.COMPLETED else None, one.error)  # type: ignore[arg-type]
            for one in ends
        ]

    def _open_items(self, step: str, make_stream: Callable[[], ItemStream]) -> Saved:
        saved = self._find(Call.EACH, step)
        if saved is None:
            with self._making(Call.EACH, step):
                stream = make_stream()
                unit = self._left.ask_each(stream, Call.EACH, self._cursor) if stream.requests else None
            if unit is None:
                return self._add(self._left.save(self._cursor, Call.EACH, step, value="[]"))
            saved = self._add(Saved(self._cursor, Call.EACH, step, False, False, None, None, None))
        elif saved.unit is not None and saved.unit_status is UnitStatus.CANCELLED:  # it failed, and was retried
            unit = self._left.ask_each(make_stream(), Call.EACH, saved.position)
        else:
            return saved
        saved.unit, saved.unit_status, saved.released, saved.fills = unit, UnitStatus.OPEN, False, False
        return saved

    def _read_lines(self, step: str, saved: Saved, policy: ItemPolicy) -> list[Any]:
        """What `then` made of each item."""
        assert saved.unit is not None
        ends = self.units.read_ends(saved.unit)
        if policy is ItemPolicy.FAIL and saved.unit_status is not UnitStatus.COMPLETED:
            raise self._trace(saved, make_error(step, ends))
        outputs = [None if one.output is None else read_back(one.output) for one in ends]
        if policy is ItemPolicy.FAIL:
            return outputs
        return [ItemResult(one.status, output, one.error) for one, output in zip(ends, outputs, strict=True)]


def _check_then(then: Callable[..., object], what: str) -> None:
    refuse_async(then, what, "It has a ctx of its own: write def, and hand async functions to ctx.step(…) in it")
    try:
        inspect.signature(then).bind(None, None, None)
    except TypeError as error:
        message = f"{what} is called with ctx, the item and its answer, which {show(then)} does not allow ({error})"
        raise InvalidCall(message) from error
    except ValueError:
        pass  # some builtins do not tell their arguments


def _read_then(asking: Asking, then: Callable[..., Any]) -> ItemLine:
    """How a line finds `then`: by its name, unless only the workflow's own function can make it, or type its answer."""
    try:
        path = name_projector(then)
    except InvalidCall:
        path = None
    schema = asking.make_question().schema if asking.is_one else None
    return ItemLine("run", path if schema is None or schema.type_path is not None or schema.source is None else None)


def _make_error(step: str, ends: list[FoundItem]) -> Exception:
    """Of several the first by its number, as results are told in the order of the items."""
    first = next(one for one in ends if one.status in (InteractionStatus.FAILED, InteractionStatus.EXPIRED))
    if first.status is InteractionStatus.EXPIRED:
        return SignalTimeoutError(step, first.index)
    return UnitFailed(step, first.error or "it can no longer be answered", first.index)


def make_cast(asking: Asking) -> Callable[[FoundItem | LineItem], Any]:
    """What makes the stored output of an item what the author is handed."""
    if asking.is_one:
        question = asking.make_question()
        channel = Channel if question.opener is None else type(question.opener)
        if question.projector is not None:
            return lambda one: read_saved(one.output)
        return lambda one: channel.read_answer(read_saved(one.output), question.schema)
    return cast_answer
