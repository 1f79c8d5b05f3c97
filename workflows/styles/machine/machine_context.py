"""What a machine's functions are handed: `ctx`.

Lives here: the view of the instance, of an item and of a stream's results. Must not live here: the results of single
stages. Invariant owned: what belongs to an item or to a stream is answered only where there is one, and else with the
stage that would have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from workflows.definitions.question import Callback, Question, name_projector
from workflows.exceptions import InvalidOutcome, show
from workflows.lifecycle import ItemPolicy
from workflows.styles.machine.stage_results import Steps, find_stage_owner
from workflows.styles.machine.stage_values import NotThere, make_plain, read_typed, wrap_value
from workflows.styles.machine.stages import WaitFor, is_function
from workflows.units.item_results import ItemResult, cast_answer, read_status
from workflows.values.json_text import read_back

if TYPE_CHECKING:
    from workflows.engine.context import StepContext
    from workflows.store import FoundItem, LineItem
    from workflows.styles.machine.stage_plan import Plan
    from workflows.styles.machine.streams.machine_line import LineView
    from workflows.styles.machine.streams.stream_plan import PlanStream

_NO_ITEM: Any = object()


class MachineContext:
    """The author's view of the instance, in a machine."""

    __slots__ = (
        "_ctx",
        "_input",
        "_item",
        "_items",
        "_joined",
        "_last",
        "_line",
        "_plan",
        "_results",
        "_units",
        "steps",
    )

    def __init__(
        self,
        ctx: StepContext,
        plan: Plan,
        results: Mapping[str, Any],
        *,
        units: Mapping[str, Any] | None = None,
        joined: Mapping[str, Any] | None = None,
        line: LineView | None = None,
        item: object = _NO_ITEM,
        last: str | None = None,
    ) -> None:
        self._ctx = ctx
        self._plan = plan
        self._results = results
        #: By the stage that opened a stream: the id of its unit, or the items of one in which nothing is done.
        self._units = units or {}
        #: By each `parallel` that is over and by branch: the stage that its result comes from, and the line.
        self._joined = joined or {}
        self._line = line
        self._item = item
        self._last = last
        self.steps = Steps(self, results)

    def with_item(self, item: object) -> MachineContext:
        """The `ctx` of one item, whose question is about to be asked."""
        return MachineContext(
            self._ctx, self._plan, self._results, units=self._units, joined=self._joined, line=self._line, item=item
        )

    @property
    def id(self) -> UUID:
        """The instance's id; in a stream that of the item's line, in a branch that of the machine's instance."""
        parent = self._ctx.claim.parent
        return self._ctx.id if self._line is None or parent is None or not self._line.stream.branch else UUID(parent)

    @property
    def workspace(self) -> str:
        """The slug of the instance's workspace."""
        return self._ctx.workspace

    @property
    def key(self) -> str | None:
        """The correlation key of the machine, if it has one."""
        return self._ctx.key if self._line is None else self._line.parent.key

    @property
    def tick(self) -> datetime | None:
        """The moment of the schedule for which it was started, also where that was late; None without a schedule."""
        return self._ctx.tick

    @property
    def step(self) -> str:
        """The name of the running stage."""
        return self._ctx.step

    @property
    def attempt(self) -> int:
        """0 in the stage's first run."""
        return self._ctx.attempt

    @property
    def now(self) -> datetime:
        """The database's time when this run began."""
        return self._ctx.now

    @property
    def input(self) -> Any:
        """What the instance was started with; typed when `accepts` is a class."""
        if not hasattr(self, "_input"):
            accepts = self._plan.accepts
            stored = self._ctx.input if self._line is None else self._line.parent_input
            self._input = stored if accepts is None else read_typed(accepts, stored, "input")
        return self._input

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Say how far the instance is; kept at most twice a second, and at the end of the stage."""
        self._ctx.progress(done, total, note)

    @property
    def item(self) -> Any:
        """The item of a stream that a stage between `expand` and `collect` runs for."""
        if self._item is _NO_ITEM:
            if self._line is None or self._line.stream.branch:
                raise InvalidOutcome(
                    "ctx.item is what stages between expand and collect are run for, and "
                    f"stage {self.step!r} runs once; collect(…) and a wait for the whole list have ctx.items"
                )
            self._item = self._line.item
        return wrap_value(self._item, "item")

    @property
    def joined(self) -> Mapping[str, Any]:
        """By each `parallel` that is over and by branch: stage and line that its result comes from. For the style."""
        return self._joined if self._line is None else self._line.parent_joined

    @property
    def items(self) -> list[Any]:
        """The results of a stream, in the order of its items, for the stage that it ends with."""
        stream = next((one for one in self._plan.streams.values() if one.closer == self.step), None)
        if stream is None or self._line is not None:
            raise InvalidOutcome(
                f"ctx.items are the results of a stream, and no stream ends with stage {self.step!r}: one ends with "
                "collect(…) or with a wait for the whole list"
            )
        return self.list_results(stream)

    def list_results(self, stream: PlanStream) -> list[Any]:
        """The results of a stream that is through; of each item its end too, where not all had to be well."""
        if not hasattr(self, "_items"):
            self._items: dict[str, list[Any]] = {}
        if stream.opener not in self._items:
            self._items[stream.opener] = self._read_results(stream)
        return self._items[stream.opener]

    def _read_results(self, stream: PlanStream) -> list[Any]:
        kept = self._units.get(stream.opener, [])
        if not isinstance(kept, str):
            return [wrap_value(one, f"items[{index}]") for index, one in enumerate(kept)]
        unit = UUID(kept)
        if stream.first is None and stream.asks is None:
            return [wrap_value(one, f"items[{index}]") for index, one in enumerate(self._ctx.units.read_output(unit))]
        if stream.first is None:
            assert stream.asks is not None
            name, ends = stream.asks, self._ctx.units.read_answers(unit)
            values = [self._read_answer(name, one, f"items[{one.index}]") for one in ends]
            results = [
                ItemResult(read_status(one.status), value, one.error) for one, value in zip(ends, values, strict=True)
            ]
        else:
            results = [
                ItemResult(one.status, _read_json(one.output, f"items[{one.index}]"), one.error)
                for one in self._ctx.units.read_ends(unit)
            ]
        return [one.output for one in results] if stream.on_item == ItemPolicy.FAIL else list(results)

    def _read_answer(self, name: str, one: FoundItem | LineItem, place: str) -> Any:
        """The answer to one item, as its wait types it; None where there is none."""
        stage = self._plan.nodes[name].stage
        assert isinstance(stage, WaitFor)
        if one.output is None:
            return None
        if is_function(stage.channel):
            return wrap_value(cast_answer(one), place)
        owner = find_stage_owner(self, name, stage)
        stored = read_back(one.output)
        if owner is not None:
            return owner[0].read_answer(stored, owner[1])
        return wrap_value(stored if stage.schema is None else read_typed(stage.schema, stored, place), place)

    def make_request(self, name: str, stage: WaitFor) -> Any:
        """What a wait asks about."""
        if self._line is not None and (stage.input is None or name == self._line.stream.opener):
            latest = self._results[self._last] if self._last else self._line.value
            return make_plain(self._line.make_request(name, stage, latest))
        if stage.input is None and stage.takes_many:
            stream = next((one for one in self._plan.streams.values() if one.closer == name), None)
            if stream is not None:
                return make_plain(self.list_results(stream))
        return make_plain(stage.input(self)) if callable(stage.input) else stage.input

    def callback(self, stage: str) -> Callback:
        """The callback that a stage waits for: `.resume_url` and `.resume_token`, before the wait is reached."""
        node = self._plan.nodes.get(stage)
        if node is None or not isinstance(node.stage, WaitFor) or not node.stage.callback:
            known = [name for name, one in self._plan.nodes.items() if getattr(one.stage, "callback", False)]
            raise InvalidOutcome(f"no stage {show(stage)} waits for a callback; these do: {', '.join(known) or 'none'}")
        if node.stream is not (self._line.stream if self._line is not None and not node.is_side else None):
            place = "the instance" if node.stream is None else node.stream.title
            raise InvalidOutcome(
                f"stage {stage!r} is asked by {place}, and has its address only there: hand it out in a stage before it"
            )
        return Callback(make_callback(self, stage, node.stage), self._ctx.ask_early)


def make_callback(ctx: MachineContext, name: str, stage: WaitFor) -> Question:
    """The one question of a callback stage, whoever needs it first: its address, or the wait."""
    try:
        request = ctx.make_request(name, stage)
    except NotThere:
        if ctx.step == name:
            raise
        request = None  # its address is needed before all that is asked is known
    return Question(
        name,
        channel=stage.channel or "callback",
        token=True,
        schema=stage.schema,
        request=request,
        cardinality=stage.cardinality,
        projector=name_projector(stage.projector),
        body=stage.body,
    )


def _read_json(text: str | None, place: str) -> Any:
    return None if text is None else wrap_value(read_back(text), place)
