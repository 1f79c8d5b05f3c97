"""Running one stage of a machine: every stage is one step of the engine, so each result is committed by itself.

Lives here: what each kind of stage does when an instance, or the line of an item, reaches it. The two ends of a stream
are in `streams.stream_ends`. Invariants owned:

* A result is kept as it reads back from its row, and a stage is left only together with its result.
* The state holds results and ids of units only: no token, no address, nothing that a page must not show.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workflows.definitions.awaited_event import EventSpec, event
from workflows.definitions.outcomes import UNSET, Await, Done, Next, Outcome, Stop
from workflows.definitions.question import UNIT, Question, ask_channel
from workflows.exceptions import InvalidData, InvalidOutcome, show
from workflows.styles.machine.machine_context import MachineContext, make_callback
from workflows.styles.machine.stage_plan import Plan, PlanNode
from workflows.styles.machine.stage_values import make_plain
from workflows.styles.machine.stages import END, FAIL, ActionStage, Branch, Launch, Sleep, WaitFor, is_function
from workflows.values.json_text import dump_value, read_back

if TYPE_CHECKING:
    from workflows.engine.context import Signal, StepContext
    from workflows.styles.machine.streams.machine_line import LineView


@dataclass(frozen=True, slots=True)
class StageRun:
    """One run of one stage."""

    plan: Plan
    ctx: StepContext
    #: The results so far: `steps` by stage, the `last` one, and the `units` of streams by the stage that opened them.
    kept: dict[str, Any]
    mine: MachineContext
    #: Of the line of an item; None for the instance itself.
    line: LineView | None = None

    def find_answer(self) -> Signal | None:
        """What came for the question of this stage; the release of a stream that ends here is none."""
        ends = {f"{UNIT}{unit}" for unit in self.kept.get("units", {}).values() if isinstance(unit, str)}
        return next((one for one in self.ctx.awaited if one.name not in ends), None)


def begin_run(plan: Plan, ctx: StepContext, line: LineView | None = None) -> StageRun:
    """Read what was kept."""
    kept = _read_kept(ctx)
    mine = MachineContext(ctx, plan, kept["steps"], units=kept.get("units", {}), line=line, last=kept["last"])
    return StageRun(plan, ctx, kept, mine, line)


def run_stage(run: StageRun, node: PlanNode) -> Outcome:
    """Run a stage that is no end of a stream."""
    match node.stage:
        case ActionStage(fn=fn, then=then):
            return leave(run, node, call(fn, run.mine), node.next if then is None else run.plan.lead(then))
        case Branch():
            return _choose(run, node, call(node.stage.fn, run.mine))
        case WaitFor():
            return wait(run, node, node.stage)
        case Launch():
            started = _launch(node.stage, run.mine)
            return leave(run, node, {"id": started}, node.next)
        case Sleep(duration=duration):
            return Next(END if node.next is None else node.next, delay=duration)
    raise InvalidOutcome(f"stage {node.name!r} is of a kind that cannot run: {show(node.stage)}")


def _choose(run: StageRun, node: PlanNode, target: object) -> Outcome:
    known = run.plan.targets if run.line is None else [*run.line.stream.members, *run.plan.flows, END]
    allowed = node.stage.list_targets() or known
    if target == FAIL:
        return Stop(f"branch {node.name!r} returned FAIL")
    if not isinstance(target, str) or target not in allowed:
        raise InvalidOutcome(f"branch {node.name!r} returned {show(target)}; it may return {', '.join(allowed)}")
    after = run.plan.lead(target)
    return end(run) if after is None else Next(after)


def wait(run: StageRun, node: PlanNode, stage: WaitFor) -> Outcome:
    """Ask and take the answer in one step, so that an answer that is there is taken whenever it came."""
    answer = run.find_answer()
    if answer is not None:
        return leave(run, node, answer.payload, node.next)
    return ask(run, node, stage)


def ask(run: StageRun, node: PlanNode, stage: WaitFor) -> Outcome:
    """Ask, or do what is to be done when no answer came in time."""
    if not run.ctx.timed_out or run.kept.get("failed") == node.name:
        state = write_kept(run.kept) if "failed" in run.kept else UNSET
        return Await(_make_wait(run, node, stage), then=node.name, timeout=stage.timeout, state=state)
    if stage.on_timeout == FAIL:
        run.ctx.state = run.kept | {"failed": node.name}  # retry() runs the stage as it was left; then it asks anew
        unit = " s" if isinstance(stage.timeout, int | float) else ""
        return Stop(f"stage {node.name!r} had no answer within its timeout of {stage.timeout}{unit}")
    return Next(run.plan.flows[stage.on_timeout])


def _make_wait(run: StageRun, node: PlanNode, stage: WaitFor) -> EventSpec | Question:
    name, mine = node.name, run.mine
    if stage.event is not None:
        match = ask_author(stage.match, mine)
        if not isinstance(match, Mapping):
            raise InvalidOutcome(f"match= of stage {name!r} returned {show(match)}, not a dict of field to value")
        return event(stage.event, match, stage.schema, channel=stage.channel)
    if stage.callback:
        return make_callback(mine, name, stage)
    channel = call(stage.channel, mine) if is_function(stage.channel) else stage.channel
    return ask_channel(
        name,
        channel,
        request=mine.make_request(name, stage),
        schema=stage.schema,
        cardinality=stage.cardinality,
        projector=stage.projector,
    )


def _launch(stage: Launch, mine: MachineContext) -> str:
    from workflows.api.instances import start

    return str(start(stage.workflow, ask_author(stage.input, mine), actor=f"instance:{mine.id}").id)


def ask_author(value: object, mine: MachineContext) -> Any:
    """A value as it was written, or what a function of ctx makes of it."""
    return make_plain(call(value, mine)) if callable(value) else value


def call(fn: Any, mine: MachineContext, *more: Any) -> Any:
    """Call the function of a stage, which returns no outcome."""
    value = fn(mine, *more)
    if inspect.isawaitable(value):
        if inspect.iscoroutine(value):
            value.close()
        raise InvalidOutcome(
            f"the function of stage {mine.step!r} is async; call async code through asgiref.sync.async_to_sync"
        )
    if isinstance(value, Outcome):
        raise InvalidOutcome(
            f"the function of stage {mine.step!r} returned {show(value)}: outcomes belong to the step style. Return "
            "the stage's result; use then=, branch(…) and raise to lead elsewhere"
        )
    return value


def leave(run: StageRun, node: PlanNode, value: object, after: str | None) -> Outcome:
    """Go on with the stage's result kept."""
    text = dump_value(make_plain(value), f"the result of stage {node.name!r}")
    kept = run.kept | {"steps": run.kept["steps"] | {node.name: read_back(text)}, "last": node.name}
    if after is None:
        return end(StageRun(run.plan, run.ctx, kept, run.mine, run.line))
    return Next(after, write_kept(kept))


def end(run: StageRun) -> Outcome:
    """The latest result is the instance's, if it fits; or the item's."""
    kept = run.kept
    if run.line is not None:
        if kept["last"] is None:
            return Done(run.line.value)
        # Which stage the result is of is kept for those who read the results by stage; the result is the row's own.
        run.ctx.state = write_kept(
            kept | {"steps": {name: one for name, one in kept["steps"].items() if name != kept["last"]}}
        )
        return Done(kept["steps"][kept["last"]])
    return finish(run.plan, kept["steps"].get(kept["last"]), kept["last"])


def finish(plan: Plan, result: object, stage: str | None) -> Outcome:
    """The end of the instance, with a result that fits its `responds`."""
    if plan.responds is not None:
        try:
            plan.responds.check(result)
        except InvalidData as error:
            problems = "; ".join(f"{place or 'all of it'}: {', '.join(why)}" for place, why in error.errors.items())
            where = f"stage {stage!r}" if stage else "no stage"
            return Stop(f"the result, returned by {where}, does not fit responds= of machine {plan.source}: {problems}")
    return Done(result)


def write_kept(kept: Mapping[str, Any]) -> dict[str, Any]:
    """`steps` comes first, where jsonb has it last: the text of a first state is never that of the input."""
    units = {"units": kept["units"]} if kept.get("units") else {}
    return {"steps": kept["steps"], "last": kept["last"], **units}


def _read_kept(ctx: StepContext) -> dict[str, Any]:
    """The results so far. Before the first one the state is the input, whatever that looks like."""
    stored = ctx.claim.state
    if stored is None:
        return {"steps": {}, "last": None}
    kept: dict[str, Any] = json.loads(stored)
    return kept
