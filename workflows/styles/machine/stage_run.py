"""Running one stage of a machine: every stage is one step of the engine, so each result is committed by itself.

Lives here: what each kind of stage does when an instance, or the line of an item, reaches it. The two ends of a stream
are in `streams.stream_ends`. Invariants owned:

* A result is kept as it reads back from its row, and a stage is left only together with its result.
* The state holds results and ids of units only: no token, no address, nothing that a page must not show.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from workflows.definitions.awaited_event import EventSpec, event
from workflows.definitions.awaited_kinds import ASKED, Several
from workflows.definitions.outcomes import UNSET, Await, Done, Next, Outcome, Stop
from workflows.definitions.question import UNIT, Question, ask_channel
from workflows.engine.event_loop import run_coroutine
from workflows.exceptions import InvalidCall, InvalidData, InvalidOutcome, show
from workflows.styles.machine.machine_context import MachineContext, make_callback
from workflows.styles.machine.several_stage import WaitForSeveral, take_answers
from workflows.styles.machine.stage_plan import Plan, PlanNode
from workflows.styles.machine.stage_values import make_plain
from workflows.styles.machine.stages import END, FAIL, ActionStage, Branch, Launch, Sleep, WaitFor, is_function
from workflows.values.durations import parse_moment
from workflows.values.json_text import dump_value, read_back

if TYPE_CHECKING:
    from workflows.engine.context import Signal, StepContext
    from workflows.styles.machine.streams.machine_line import LineView


@dataclass(frozen=True, slots=True)
class StageRun:
    """One run of one stage."""

    plan: Plan
    ctx: StepContext
    #: The results so far: `steps` by stage, the `last` one, the `units` of streams and branches by the stage that opens
    #: them, and of branches that are over (`joined`) the stage and the line that their results come from.
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
    units, joined = kept.get("units", {}), kept.get("joined", {})
    mine = MachineContext(ctx, plan, kept["steps"], units=units, joined=joined, line=line, last=kept["last"])
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
        case Sleep(duration=duration, until=until):
            if until is not None:
                left = read_until(until, run.mine, node.name).timestamp() - run.ctx.now.timestamp()
                duration = max(left, 0.0)
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
    if isinstance(stage, WaitForSeveral):
        return _wait_for_several(run, node, stage)
    answer = run.find_answer()
    if answer is not None:
        if stage.signal is not None:
            run.ctx.leave_unread(one for one in run.ctx.awaited if one is not answer)
        return leave(run, node, answer.payload, node.next)
    return ask(run, node, stage)


def _wait_for_several(run: StageRun, node: PlanNode, stage: WaitForSeveral) -> Outcome:
    names = run.ctx.claim.names
    if names and names[0] == ASKED:
        taken = take_answers(run, node, stage)
        if isinstance(taken, Outcome):
            return taken
        if taken is not None:
            return leave(run, node, taken, node.next)
    outcome = ask(run, node, stage)
    if isinstance(outcome, Next):  # its time is over, and a flow runs
        run.ctx.withdraw()
    return outcome


def ask(run: StageRun, node: PlanNode, stage: WaitFor) -> Outcome:
    """Ask, or do what is to be done when no answer came in time."""
    if not run.ctx.timed_out or run.kept.get("failed") == node.name:
        state = write_kept(run.kept) if "failed" in run.kept else UNSET
        until = None if stage.until is None else read_until(stage.until, run.mine, node.name)
        return Await(_make_wait(run, node, stage), then=node.name, timeout=stage.timeout, until=until, state=state)
    if stage.on_timeout == FAIL:
        run.ctx.state = run.kept | {"failed": node.name}  # retry() runs the stage as it was left; then it asks anew
        if stage.timeout is None:
            return Stop(f"stage {node.name!r} had no answer before the moment of its until=")
        unit = " s" if isinstance(stage.timeout, int | float) else ""
        return Stop(f"stage {node.name!r} had no answer within its timeout of {stage.timeout}{unit}")
    return Next(run.plan.flows[stage.on_timeout])


def _make_wait(run: StageRun, node: PlanNode, stage: WaitFor) -> EventSpec | Question | Several | Sequence[str]:
    name, mine = node.name, run.mine
    if isinstance(stage, WaitForSeveral):
        return stage.make_several(name, lambda fn: call(fn, mine))
    if stage.signal is not None:
        names: Sequence[str] = stage.signal
        return names
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


def read_until(until: object, mine: MachineContext, name: str) -> datetime:
    """The moment at which a stage ends, as written or as a function of ctx tells it."""
    return parse_moment(call(until, mine) if callable(until) else until, f"until= of stage {name!r}")


def call(fn: Any, mine: MachineContext, *more: Any) -> Any:
    """Call the function of a stage, which returns no outcome."""
    value = fn(mine, *more)
    if isinstance(value, CoroutineType):
        value = run_coroutine(value, f"the function of stage {mine.step!r}")
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
    joined = {"joined": kept["joined"]} if kept.get("joined") else {}
    return {"steps": kept["steps"], "last": kept["last"], **units, **joined}


def read_results(plan: Plan, state: object) -> dict[str, Any]:
    """The state of a fork as its caller says it: results by stage, in the form that `Instance.state` shows.

    `last` names the stage whose result is the latest; of the stages that are named it is the last one.
    """
    shape = 'a machine\'s state is {"steps": {stage: result, …}, "last": stage}'
    if not isinstance(state, Mapping) or not isinstance(steps := state.get("steps"), Mapping):
        raise InvalidCall(f"{shape}, not {show(state)}")
    if unknown := [name for name in state if name not in ("steps", "last")]:
        raise InvalidCall(f"{shape}; it has no {show(unknown[0])}")
    for name in steps:
        if name not in plan.nodes or plan.nodes[name].stream is not None or name in plan.streams:
            own = [one for one, node in plan.nodes.items() if node.stream is None and one not in plan.streams]
            raise InvalidCall(f"the state names {show(name)}, of which no result is kept; there are {', '.join(own)}")
    last = state.get("last", next(reversed(steps), None) if steps else None)
    if last is not None and last not in steps:
        raise InvalidCall(f"the state's last is {show(last)}, of which it has no result")
    return write_kept({"steps": dict(steps), "last": last})


def _read_kept(ctx: StepContext) -> dict[str, Any]:
    """The results so far. Before the first one the state is the input, whatever that looks like."""
    stored = ctx.claim.state
    if stored is None:
        return {"steps": {}, "last": None}
    kept: dict[str, Any] = json.loads(stored)
    return kept
