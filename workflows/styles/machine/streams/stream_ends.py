"""The two ends of a machine's stream, which the instance itself runs: opening it, and going on when it is through.

Invariants owned:

* A stream is opened once per visit: a run that comes after a crash finds the unit, and does not ask the author again.
* The closing stage is called when each item is through, or when its policy lets it go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any
from uuid import UUID

from workflows.conf import conf
from workflows.definitions.item_streams import Asking, ItemLine, plan_lines
from workflows.definitions.item_streams import ItemStream as Asked
from workflows.definitions.outcomes import Next, Outcome, Stop, Suspend
from workflows.definitions.question import UNIT
from workflows.exceptions import InvalidOutcome, TooMany, describe_error, show
from workflows.lifecycle import ItemPolicy, UnitStatus
from workflows.styles.machine.stage_plan import Plan, PlanNode
from workflows.styles.machine.stage_run import (
    StageRun,
    ask,
    ask_author,
    begin_run,
    call,
    end,
    finish,
    leave,
    read_until,
    run_stage,
    write_kept,
)
from workflows.styles.machine.stage_values import make_plain
from workflows.styles.machine.stages import END, Collect, Expand, WaitFor, is_function, takes_items
from workflows.styles.machine.streams.machine_line import LineView
from workflows.styles.machine.streams.parallel_ends import begin_branch, run_parallel
from workflows.styles.machine.streams.stream_plan import PlanStream
from workflows.units.line_access import make_error
from workflows.values.durations import parse_timeout
from workflows.values.json_text import dump_value, read_back

if TYPE_CHECKING:
    from workflows.engine.context import StepContext

_INPUTS = "AWAIT_AGGREGATE_MAX_INPUT_ITEMS"
_OUTPUTS = "AWAIT_AGGREGATE_MAX_OUTPUT_ITEMS"


def run_machine(plan: Plan, ctx: StepContext) -> Outcome:
    """Run the stage that the instance is in."""
    run = begin_run(plan, ctx)
    closed = _find_closed(plan, ctx.step)
    if closed is not None and run.find_answer() is None:
        other = _settle(run, closed)
        if other is not None:
            return other
    if ctx.step == END:
        return end(run) if closed is None or closed.opener not in run.kept.get("units", {}) else _end(run, closed)
    node = plan.nodes[ctx.step]
    if (stream := plan.streams.get(node.name)) is not None:
        return _open_stream(run, node, stream)
    if node.name in plan.parallels:
        return run_parallel(run, node)
    if isinstance(node.stage, Collect):
        items = (run.mine.items,) if takes_items(node.stage.fn) else ()
        return leave(run, node, call(node.stage.fn, run.mine, *items), node.next)
    return run_stage(run, node)


def run_line(plan: Plan, ctx: StepContext) -> Outcome:
    """Run the stage that the line of an item is in."""
    line = LineView(ctx, plan)
    if ctx.step in plan.parallels:
        return begin_branch(line.stream)
    run = begin_run(plan, ctx, line)
    return end(run) if ctx.step == END else run_stage(run, plan.nodes[ctx.step])


def _find_closed(plan: Plan, step: str) -> PlanStream | None:
    """The stream that ends at a step."""
    closer = None if step == END else step
    return next((one for one in plan.streams.values() if one.closer == closer), None)


def _open_stream(run: StageRun, node: PlanNode, stream: PlanStream) -> Outcome:
    """Make the items and park until each is through; a stream without items is through at once."""
    stage = node.stage
    unit = run.ctx.units.find_under_way(_name_unit(stream))
    if unit is not None:
        return _park(run, stream, unit)
    if isinstance(stage, WaitFor) and stage.gives_many:
        answer = run.find_answer()
        if answer is None:
            return ask(run, node, stage)
        items = _read_items(answer.payload, f"the answer of stage {node.name!r}", conf.most_outputs, _OUTPUTS)
        if items and stream.first is None and stream.asks is None:
            return _pass_on(run, stream, answer.name.removeprefix(UNIT))
    elif isinstance(stage, Expand):
        items = _read_items(call(stage.fn, run.mine), f"what stage {node.name!r} returned", conf.most_inputs, _INPUTS)
    else:
        assert isinstance(stage, WaitFor)
        listed = _find_list(run, stage)
        items = _read_items(listed, f"what stage {node.name!r} asks about", conf.most_inputs, _INPUTS)
    if not items or (stream.first is None and stream.asks is None):
        return _pass_on(run, stream, read_back(dump_value(items, f"the items of stage {node.name!r}")))
    return _park(run, stream, _open(run, stream, items))


def _end(run: StageRun, stream: PlanStream) -> Outcome:
    """The machine ends with its stream: the results are its result."""
    name = stream.members[-1] if stream.members else stream.asks or stream.opener
    return finish(run.plan, make_plain(run.mine.list_results(stream)), name)


def _settle(run: StageRun, stream: PlanStream) -> Outcome | None:
    """Look how the stream stands: None where its results may be used.

    After a failure `retry()` runs this step again; then what failed is begun anew, and nothing else.
    """
    kept = run.kept.get("units", {}).get(stream.opener)
    if not isinstance(kept, str) or (stream.first is None and stream.asks is None):
        return None
    unit = UUID(kept)
    status = run.ctx.units.read_unit(unit).status
    if status is not UnitStatus.OPEN and run.kept.get("failed") != run.ctx.step:
        run.ctx.units.allow_expiries(unit)
    if status is UnitStatus.COMPLETED:
        return None
    if status is UnitStatus.OPEN:  # woken to ask the next items, whose channel is made by the author's code
        run.ctx.units.fill(unit, _make_asking(run, stream))
        return _park(run, stream, unit)
    if run.kept.get("failed") == run.ctx.step:
        return _park(run, stream, _open(run, stream, run.ctx.units.read_requests(unit)))
    run.ctx.state = run.kept | {"failed": run.ctx.step}
    return Stop(describe_error(make_error(_name_unit(stream), run.ctx.units.read_ends(unit))))


def _open(run: StageRun, stream: PlanStream, items: list[Any]) -> UUID:
    step = _name_unit(stream)
    requests = [dump_value(item, f"item {index} of {step!r}") for index, item in enumerate(items)]
    line = None if stream.first is None else ItemLine(stream.first)
    policy = ItemPolicy(stream.on_item)
    if stream.asks is None:
        assert line is not None
        return run.ctx.units.open(plan_lines(step, requests, line, policy, stream.concurrency))
    asking = _make_asking(run, stream)
    questions = [asking.make_question()] if asking.is_one else [asking.make_question(item) for item in items]
    stage = run.plan.nodes[stream.asks].stage
    assert isinstance(stage, WaitFor)
    time: float | datetime | None = None if stage.timeout is None else parse_timeout(stage.timeout)
    if stage.until is not None:
        time = read_until(stage.until, run.mine, stream.asks)
    return run.ctx.units.open(Asked(step, requests, questions, policy, stream.concurrency, time, line))


def _make_asking(run: StageRun, stream: PlanStream) -> Asking:
    assert stream.asks is not None
    stage = run.plan.nodes[stream.asks].stage
    assert isinstance(stage, WaitFor)
    channel = stage.channel
    if is_function(channel):
        return Asking(stream.asks, lambda item: call(channel, run.mine.with_item(item)), stage.schema)
    return Asking(stream.asks, channel, stage.schema)


def _name_unit(stream: PlanStream) -> str:
    """What the outside sees as the step of the unit: the wait that asks."""
    return stream.asks or stream.opener


def _pass_on(run: StageRun, stream: PlanStream, items: str | list[Any]) -> Outcome:
    """Nothing is to be done per item: the next stage finds the items in the state, or in the answer's own row."""
    kept = run.kept | {"units": run.kept.get("units", {}) | {stream.opener: items}}
    return Next(stream.closer or END, write_kept(kept))


def _park(run: StageRun, stream: PlanStream, unit: UUID) -> Outcome:
    kept = run.kept | {"units": run.kept.get("units", {}) | {stream.opener: str(unit)}}
    return Suspend((f"{UNIT}{unit}",), then=stream.closer or END, state=write_kept(kept))


def _find_list(run: StageRun, stage: WaitFor) -> Any:
    """What `wait_for(each=True)` opens a stream of: its input, else the latest result, else the machine's input."""
    if stage.input is not None:
        return ask_author(stage.input, run.mine)
    last = run.kept["last"]
    return run.kept["steps"][last] if last else run.ctx.input


def _read_items(value: object, what: str, most: int, setting: str) -> list[Any]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise InvalidOutcome(
            f"{what} is {show(value)}; a stream is made of a list, or of something else to iterate over"
        )
    items = list(islice(value, most + 1))
    if len(items) > most:
        raise TooMany(what, most, setting)
    return [make_plain(one) for one in items]
