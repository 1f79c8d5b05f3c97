"""The lines of a function: `then(ctx, item, output)` of `ctx.wait_for_each`, each in an instance of its own.

`then` is mostly a lambda or a function inside the workflow, which closes over what the workflow has computed. So a line
runs the workflow's own function again, with all that it had saved before the wait, and takes `then` from the call. A
function at the top of a module is found by its name, which spares that.

Invariants owned:

* Of the parent a line reads and writes nothing: a call that it had not made before the wait is an error.
* `then` is called when the parent's function has been left: no `except` of it meets what `then` raises.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from workflows.definitions.item_streams import Asking
from workflows.definitions.outcomes import Outcome, Suspend
from workflows.definitions.question import find_projector
from workflows.definitions.registry import LINES, Definition
from workflows.engine.context import Context
from workflows.engine.journals.journal import Journal
from workflows.exceptions import NonDeterministic
from workflows.lifecycle import Call
from workflows.styles.function.call_replay import Suspended
from workflows.styles.function.context_calls import FunctionContext
from workflows.styles.function.each_item import make_cast
from workflows.units.item_results import cast_answer

if TYPE_CHECKING:
    from workflows.engine.author_calls import Host
    from workflows.store import Claim, LineItem, Saved


class LineContext(FunctionContext):
    """The `ctx` of `then`: its calls are the line's own. Its input and its key are those of the workflow."""

    __slots__ = ("_parent",)

    @property
    def parent(self) -> Claim:
        """The instance whose item this is."""
        if not hasattr(self, "_parent"):
            self._parent = self.units.read_parent()
        return self._parent

    @property
    def input(self) -> Any:
        """What the workflow was started with."""
        return json.loads(self.parent.input)

    @property
    def key(self) -> str | None:
        """The workflow's correlation key, if it has one."""
        return self.parent.key

    def replay_parent(self, unit: UUID) -> _Before:
        """The parent's `ctx`, to run its function again up to the wait."""
        return _Before(self.parent, self._left.host, unit)


class _Reached(Suspended):
    """The run of the parent's function has come to the wait."""

    def __init__(self, then: Callable[..., Any], cast: Callable[..., Any]) -> None:
        super().__init__(Suspend())
        self.then, self.cast = then, cast


class _Before(FunctionContext):
    """The parent's `ctx`, up to the wait."""

    __slots__ = ("_unit",)

    def __init__(self, claim: Claim, host: Host, unit: UUID) -> None:
        super().__init__(claim, Journal(claim, host))
        self._saved = None  # also where the parent's first run has come this far
        self._unit = unit

    @property
    def position(self) -> int:
        """The place of the call that this run would make next."""
        return self._cursor

    def wait_for_each(self, id: str, items: Any, channel: Any, *, then: Any = None, **options: Any) -> Any:
        """End here where this is the wait that the line belongs to."""
        saved, place = self._load(), self._cursor
        if place < len(saved) and saved[place].name == id and saved[place].unit == self._unit:
            self._find(Call.EACH, id)
            if then is None:
                raise NonDeterministic(place, f"wait_for_each {id!r} with then=", f"wait_for_each {id!r} without it")
            asking = Asking(id, channel, options.get("schema"), options.get("assignee"), options.get("group"))
            self.suspended = _Reached(then, make_cast(asking))
            raise self.suspended
        return super().wait_for_each(id, items, channel, then=then, **options)

    def _look_at_asks(self) -> None:
        """What the parent's questions were when it came to the wait stands in its rows already."""

    def _find(self, call: Call, id: str, *, repeats: bool = False) -> Saved | None:
        saved = super()._find(call, id, repeats=repeats)
        if saved is None:
            raise NonDeterministic(self._cursor, "the wait whose item a line continues", f"{call.value} {id!r}")
        return saved


def define_lines(whole: Definition, fn: Callable[..., Any]) -> Definition:
    """What the lines of a function run."""

    def run(ctx: Context) -> Outcome:
        assert isinstance(ctx, LineContext)
        line = ctx.units.read_line()
        if line.then is not None:
            then, cast = find_projector(line.then), cast_answer
        else:
            then, cast = _find_then(ctx, line, fn)
        try:
            result = then(ctx, json.loads(line.request), cast(line))
        except Suspended as suspended:
            return suspended.outcome
        except BaseException:
            if ctx.suspended is not None:
                return ctx.suspended.outcome
            raise
        return ctx.end(result, f"then= of {line.step!r}")

    return replace(
        whole,
        name=f"{whole.name}{LINES}",
        run=run,
        signature=None,
        on_event=None,
        flow=None,
        reads_signals=False,
        make_context=LineContext,
    )


def _find_then(
    ctx: LineContext, line: LineItem, fn: Callable[..., Any]
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    before = ctx.replay_parent(line.unit)
    try:
        fn(before, **json.loads(ctx.parent.input))
    except _Reached:
        pass
    except BaseException:
        if before.suspended is None:
            raise
    if not isinstance(before.suspended, _Reached):
        raise NonDeterministic(before.position, f"wait_for_each {line.step!r}", "the end of the function")
    return before.suspended.then, before.suspended.cast
