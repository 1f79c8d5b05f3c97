"""`ctx.wait_for_each`: a list of items, each asked by itself; the function goes on when all are over.

Invariant owned: a unit whose instance has not been told is not looked into, however many of its items are over. So the
release is what lets the function go on, once, and a run before it reads no item.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workflows.channel import Channel
from workflows.exceptions import InvalidCall, SignalTimeoutError, UnitFailed
from workflows.jsontext import read_back
from workflows.lifecycle import Call, InteractionStatus, ItemPolicy, UnitStatus
from workflows.outcomes import Suspend
from workflows.question import UNIT, name_projector
from workflows.store import FoundItem, LineItem, Saved
from workflows.units.lines import make_error
from workflows.units.results import ItemResult, cast_answer
from workflows.units.streams import Asking, Line, Stream, read_stream

if TYPE_CHECKING:
    from collections.abc import Callable

    from workflows.styles.calls import FunctionContext


def wait_for_each(
    ctx: FunctionContext,
    asking: Asking,
    items: object,
    *,
    then: Callable[..., Any] | None = None,
    timeout: float | None,
    policy: ItemPolicy,
    concurrency: int,
) -> list[Any]:
    """The outputs of the items in their order, or how each of them ended."""

    line = None if then is None else _read_then(asking, then)

    def make_stream() -> Stream:
        return read_stream(asking, items, policy=policy, concurrency=concurrency, timeout=timeout, line=line)

    saved = _open(ctx, asking.step, make_stream)
    if saved.unit is None:
        return []  # there was nothing to ask
    name = f"{UNIT}{saved.unit}"
    if not saved.released:
        if saved.fills:
            ctx.left.fill_each(saved.unit, asking)
        ctx.suspend(Suspend((name,)))
    ctx.take(name)
    ctx.left.allow_expiries(saved.unit)
    if line is not None:
        return _read_lines(ctx, asking.step, saved, policy)
    ends = ctx.left.read_each(saved.unit, typed=not asking.is_one)
    if policy is ItemPolicy.FAIL and saved.unit_status is not UnitStatus.COMPLETED:
        raise ctx.tell(saved, _make_error(asking.step, ends))
    cast = make_cast(asking)
    if policy is ItemPolicy.FAIL:
        return [cast(one) for one in ends]
    return [
        ItemResult(one.status.value, cast(one) if one.status is InteractionStatus.COMPLETED else None, one.error)  # type: ignore[arg-type]
        for one in ends
    ]


def _read_then(asking: Asking, then: Callable[..., Any]) -> Line:
    """How a line finds `then`: by its name, unless only the workflow's own function can make it, or type its answer."""
    try:
        path = name_projector(then)
    except InvalidCall:
        path = None
    schema = asking.make_question().schema if asking.is_one else None
    return Line("run", path if schema is None or schema.type_path is not None or schema.source is None else None)


def _read_lines(ctx: FunctionContext, step: str, saved: Saved, policy: ItemPolicy) -> list[Any]:
    """What `then` made of each item."""
    assert saved.unit is not None
    ends = ctx.units.read_ends(saved.unit)
    if policy is ItemPolicy.FAIL and saved.unit_status is not UnitStatus.COMPLETED:
        raise ctx.tell(saved, make_error(step, ends))
    outputs = [None if one.output is None else read_back(one.output) for one in ends]
    if policy is ItemPolicy.FAIL:
        return outputs
    return [ItemResult(one.status, output, one.error) for one, output in zip(ends, outputs, strict=True)]


def _open(ctx: FunctionContext, step: str, make_stream: Callable[[], Stream]) -> Saved:
    saved = ctx.find(Call.EACH, step)
    if saved is None:
        with ctx.making(Call.EACH, step):
            stream = make_stream()
            unit = ctx.left.ask_each(stream, Call.EACH, ctx.position) if stream.requests else None
        if unit is None:
            return ctx.add(ctx.left.save(ctx.position, Call.EACH, step, value="[]"))
        saved = ctx.add(Saved(ctx.position, Call.EACH, step, False, False, None, None, None))
    elif saved.unit is not None and saved.unit_status is UnitStatus.CANCELLED:  # it failed, and was retried
        unit = ctx.left.ask_each(make_stream(), Call.EACH, saved.position)
    else:
        return saved
    saved.unit, saved.unit_status, saved.released, saved.fills = unit, UnitStatus.OPEN, False, False
    return saved


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
            return lambda one: _read(one)
        return lambda one: channel.read_answer(_read(one), question.schema)
    return cast_answer


def _read(one: FoundItem | LineItem) -> Any:
    return None if one.output is None else read_back(one.output)
