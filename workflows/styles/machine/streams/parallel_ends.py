"""The two ends of `parallel`, which the instance itself runs: beginning its branches, and going on after the last.

A branch is run by a line, as an item of a stream is: it has leases, attempts, questions and deadlines of its own.
Invariants owned:

* The branches are begun once per visit: a run that comes after a crash finds their unit.
* A plain signal is addressed to the instance. It is handed on to each branch that may wait for its name, once; one that
  no branch can take stays in the inbox of the instance.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from workflows.definitions.item_streams import ItemLine, plan_lines
from workflows.definitions.outcomes import Next, Outcome, Stop, Suspend
from workflows.definitions.question import UNIT
from workflows.exceptions import NoTarget
from workflows.lifecycle import ItemPolicy, Status, UnitStatus
from workflows.styles.machine.stage_plan import PlanNode
from workflows.styles.machine.stage_run import StageRun, leave, write_kept
from workflows.values.json_text import dump_value, read_back

if TYPE_CHECKING:
    from workflows.engine.context import Signal
    from workflows.store import UnitLine
    from workflows.styles.machine.streams.stream_plan import PlanStream


def run_parallel(run: StageRun, node: PlanNode) -> Outcome:
    """Begin the branches, hand signals on to them, or go on with their results."""
    kept = run.kept.get("units", {}).get(node.name)
    latest = run.ctx.units.find_under_way(node.name)
    if latest is not None and str(latest) != kept:
        return _park(run, node, latest)
    if kept is None or f"{UNIT}{kept}" not in (run.ctx.claim.names or ()):
        return _park(run, node, _open(run, node))
    unit = UUID(kept)
    plain = [one for one in run.ctx.awaited if not one.name.startswith(UNIT)]
    match run.ctx.units.read_unit(unit).status:
        case UnitStatus.COMPLETED:
            run.ctx.leave_unread(plain)
            return _join(run, node, unit)
        case UnitStatus.OPEN:
            run.ctx.leave_unread(_hand_on(run, node, run.ctx.units.list_lines(unit), plain))
            return _park(run, node, unit)
    if run.kept.get("failed") == node.name:  # retry() runs the step as it was left: what failed is begun anew
        run.ctx.leave_unread(plain)
        return _park(run, node, _open(run, node))
    run.ctx.state = run.kept | {"failed": node.name}
    return Stop(_describe_failure(node.name, run.ctx.units.list_lines(unit)))


def begin_branch(branch: PlanStream) -> Outcome:
    """The first step of a branch's line, which knows only by its item which branch it is."""
    assert branch.first is not None
    return Next(branch.first)


def _open(run: StageRun, node: PlanNode) -> UUID:
    branches = run.plan.parallels[node.name]
    requests = [dump_value(name, "a branch") for name in branches]
    return run.ctx.units.open(plan_lines(node.name, requests, ItemLine(node.name), ItemPolicy.FAIL, len(branches)))


def _park(run: StageRun, node: PlanNode, unit: UUID) -> Outcome:
    kept = run.kept | {"units": run.kept.get("units", {}) | {node.name: str(unit)}}
    live = [_name_branch(one) for one in run.ctx.units.list_lines(unit) if one.status.live]
    names = {name for branch in live for name in run.plan.list_signals(run.plan.parallels[node.name][branch])}
    return Suspend((f"{UNIT}{unit}", *sorted(names)), then=node.name, state=write_kept(kept))


def _hand_on(run: StageRun, node: PlanNode, lines: Sequence[UnitLine], plain: Sequence[Signal]) -> list[Signal]:
    """Hand signals on to the branches that may wait for them; those that no branch takes come back.

    A run that died in the midst of it is repeated: the number of the signal keeps it from being handed on twice.
    """
    from workflows.api.instances import signal

    left = []
    for one in plain:
        taken = False
        for line in lines:
            branch = run.plan.parallels[node.name].get(_name_branch(line))
            if not line.status.live or branch is None or one.name not in run.plan.list_signals(branch):
                continue
            try:
                signal(line.id, one.name, one.payload, dedup_key=f"{run.ctx.id}#{one.n}", actor=one.source)
            except NoTarget:
                continue  # it has ended in this moment
            taken = True
        if not taken:
            left.append(one)
    return left


def _join(run: StageRun, node: PlanNode, unit: UUID) -> Outcome:
    results, origins = {}, {}
    for line in run.ctx.units.list_lines(unit):
        branch = _name_branch(line)
        results[branch] = None if line.result is None else read_back(line.result)
        origins[branch] = [line.last, str(line.id)]
    joined = run.kept.get("joined", {}) | {node.name: origins}
    return leave(StageRun(run.plan, run.ctx, run.kept | {"joined": joined}, run.mine), node, results, node.next)


def _describe_failure(name: str, lines: Sequence[UnitLine]) -> str:
    failed = next((one for one in lines if one.status is Status.FAILED), None)
    if failed is not None:
        return f"branch {_name_branch(failed)!r} of {name!r} failed: {failed.error}"
    cancelled = next((one for one in lines if one.status is Status.CANCELLED), lines[0])
    return f"branch {_name_branch(cancelled)!r} of {name!r} was cancelled: {cancelled.error or 'no reason was given'}"


def _name_branch(line: UnitLine) -> str:
    name: str = read_back(line.request)
    return name
