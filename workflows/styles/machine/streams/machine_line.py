"""What the line of an item sees of its item, and of the machine that it belongs to. Read when somebody asks.

Invariant owned: nothing here is copied into the line's own row, so that ten thousand lines cost no more than their
items.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

from workflows.definitions.registry import NotDeployed
from workflows.styles.machine.stages import WaitFor
from workflows.values.json_text import read_back

if TYPE_CHECKING:
    from workflows.engine.context import StepContext
    from workflows.store import Claim, LineItem
    from workflows.styles.machine.stage_plan import Plan
    from workflows.styles.machine.streams.stream_plan import PlanStream


class LineView:
    """One line's item and parent."""

    def __init__(self, ctx: StepContext, plan: Plan) -> None:
        self._ctx, self._plan = ctx, plan

    @cached_property
    def row(self) -> LineItem:
        """The row of the item that the line continues."""
        return self._ctx.units.read_line()

    @cached_property
    def stream(self) -> PlanStream:
        """The stream whose item it is, or the branch that it runs."""
        step = self.row.step
        if (branches := self._plan.parallels.get(step)) is not None:
            if self.item not in branches:
                raise NotDeployed(f"no branch {self.item!r} of {step!r}")
            return branches[self.item]
        return next(one for one in self._plan.streams.values() if step in (one.opener, one.asks))

    @cached_property
    def item(self) -> Any:
        """The item as the stream was opened with it."""
        return json.loads(self.row.request)

    @property
    def asks(self) -> str | None:
        """The wait that was answered before the line began."""
        return self.stream.asks

    @cached_property
    def output(self) -> Any:
        """The answer that it began with."""
        return None if self.row.output is None else read_back(self.row.output)

    @property
    def value(self) -> Any:
        """What the line begins with: the answer, else the item; nothing in a branch."""
        if self.stream.branch:
            return None
        return self.item if self.asks is None else self.output

    @cached_property
    def parent(self) -> Claim:
        """The instance that opened the stream."""
        return self._ctx.units.read_parent()

    @cached_property
    def parent_kept(self) -> dict[str, Any]:
        """What the machine has kept so far."""
        stored = self.parent.state
        kept: dict[str, Any] = {} if stored is None else json.loads(stored)
        return kept

    @property
    def parent_steps(self) -> dict[str, Any]:
        """The results of the stages before the stream."""
        results: dict[str, Any] = self.parent_kept.get("steps", {})
        return results

    @property
    def parent_joined(self) -> dict[str, Any]:
        """Where the results of branches come from that were over before the stream."""
        joined: dict[str, Any] = self.parent_kept.get("joined", {})
        return joined

    @cached_property
    def parent_input(self) -> Any:
        """What the machine was started with."""
        return json.loads(self.parent.input)

    def make_request(self, name: str, stage: WaitFor, latest: object) -> Any:
        """What a wait of the line asks about, where it does not say so itself."""
        if name == self.stream.opener:
            return self.item  # it opens the stream: its input was the list
        return latest if stage.each else None
