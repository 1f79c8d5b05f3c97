"""Running one stage of a machine: every stage is one step of the engine, so each result is committed by itself.

Lives here: what each kind of stage does when an instance reaches it. Invariants owned:

* A result is kept as it reads back from its row, and a stage is left only together with its result.
* The state holds results only: no token, no address, nothing that a page must not show.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from workflows.exceptions import InvalidData, InvalidOutcome, show
from workflows.jsontext import dump_value, read_back
from workflows.outcomes import UNSET, Await, Done, Next, Outcome, Stop
from workflows.styles.machine_context import MachineContext, make_callback, make_plain
from workflows.styles.machine_plan import Node, Plan
from workflows.styles.machine_stages import END, FAIL, Action, Branch, Launch, Sleep, WaitFor, is_function
from workflows.waits import EventSpec, Question, ask_channel, event

if TYPE_CHECKING:
    from workflows.context import StepContext


def run_stage(plan: Plan, ctx: StepContext) -> Outcome:
    """Run the stage that the instance is in."""
    kept = _read_kept(ctx)
    if ctx.step == END:
        return _end(plan, kept)
    node = plan.nodes[ctx.step]
    mine = MachineContext(ctx, plan, kept["steps"])
    match node.stage:
        case Action(fn=fn, then=then):
            return _leave(plan, kept, node, _call(fn, mine), node.next if then is None else plan.lead(then))
        case Branch():
            return _choose(plan, kept, node, _call(node.stage.fn, mine))
        case WaitFor():
            return _wait(plan, ctx, kept, node, node.stage, mine)
        case Launch():
            started = _launch(node.stage, mine)
            return _leave(plan, kept, node, {"id": started}, node.next)
        case Sleep(duration=duration):
            return Next(END if node.next is None else node.next, delay=duration)
    raise InvalidOutcome(f"stage {node.name!r} is of a kind that cannot run: {show(node.stage)}")


def _choose(plan: Plan, kept: Mapping[str, Any], node: Node, target: Any) -> Outcome:
    allowed = node.stage.list_targets() or plan.targets
    if target == FAIL:
        return Stop(f"branch {node.name!r} returned FAIL")
    if not isinstance(target, str) or target not in allowed:
        raise InvalidOutcome(f"branch {node.name!r} returned {show(target)}; it may return {', '.join(allowed)}")
    after = plan.lead(target)
    return _end(plan, kept) if after is None else Next(after)


def _wait(
    plan: Plan, ctx: StepContext, kept: dict[str, Any], node: Node, stage: WaitFor, mine: MachineContext
) -> Outcome:
    """The same step asks and takes the answer, so that an answer that is there is taken whenever it came."""
    if ctx.awaited:
        return _leave(plan, kept, node, ctx.awaited[0].payload, node.next)
    if not ctx.timed_out or kept.get("failed") == node.name:
        state = _write_kept(kept) if "failed" in kept else UNSET
        return Await(_ask(node.name, stage, mine), then=node.name, timeout=stage.timeout, state=state)
    if stage.on_timeout == FAIL:
        ctx.state = kept | {"failed": node.name}  # retry() runs the stage as it was left; then it shall ask anew
        unit = " s" if isinstance(stage.timeout, int | float) else ""
        return Stop(f"stage {node.name!r} had no answer within its timeout of {stage.timeout}{unit}")
    return Next(plan.flows[stage.on_timeout])


def _ask(name: str, stage: WaitFor, mine: MachineContext) -> EventSpec | Question:
    if stage.event is not None:
        match = _ask_author(stage.match, mine)
        if not isinstance(match, Mapping):
            raise InvalidOutcome(f"match= of stage {name!r} returned {show(match)}, not a dict of field to value")
        return event(stage.event, match, stage.schema, channel=stage.channel)
    if stage.callback:
        return make_callback(mine, name, stage)
    channel = _call(stage.channel, mine) if is_function(stage.channel) else stage.channel
    return ask_channel(
        name, channel, request=_ask_author(stage.input, mine), schema=stage.schema, projector=stage.projector
    )


def _launch(stage: Launch, mine: MachineContext) -> str:
    from workflows.api import start

    return str(start(stage.workflow, _ask_author(stage.input, mine), actor=f"instance:{mine.id}").id)


def _ask_author(value: Any, mine: MachineContext) -> Any:
    return make_plain(_call(value, mine)) if callable(value) else value


def _call(fn: Any, mine: MachineContext) -> Any:
    value = fn(mine)
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


def _leave(plan: Plan, kept: dict[str, Any], node: Node, value: Any, after: str | None) -> Outcome:
    """Go on with the stage's result kept."""
    text = dump_value(make_plain(value), f"the result of stage {node.name!r}")
    kept = kept | {"steps": kept["steps"] | {node.name: read_back(text)}, "last": node.name}
    if after is None:
        return _end(plan, kept)
    return Next(after, _write_kept(kept))


def _end(plan: Plan, kept: Mapping[str, Any]) -> Outcome:
    """The latest result is the instance's, if it fits."""
    result = kept["steps"].get(kept["last"])
    if plan.responds is not None:
        try:
            plan.responds.check(result)
        except InvalidData as error:
            told = "; ".join(f"{place or 'all of it'}: {', '.join(why)}" for place, why in error.errors.items())
            where = f"stage {kept['last']!r}" if kept["last"] else "no stage"
            return Stop(f"the result, returned by {where}, does not fit responds= of machine {plan.source}: {told}")
    return Done(result)


def _write_kept(kept: Mapping[str, Any]) -> dict[str, Any]:
    """`steps` comes first, where jsonb has it last: the text of a first state is never that of the input."""
    return {"steps": kept["steps"], "last": kept["last"]}


def _read_kept(ctx: StepContext) -> dict[str, Any]:
    """The results so far. Before the first one the state is the input, whatever that looks like."""
    stored = ctx.claim.state
    if stored is None:
        return {"steps": {}, "last": None}
    kept: dict[str, Any] = json.loads(stored)
    return kept
