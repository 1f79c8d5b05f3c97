"""Which stages a machine has, in which order, and where each leads: read once, when its class is made.

Lives here: collecting the stages of a class and its bases, naming those of side flows, checking names and
targets. Invariant owned: every stage of a plan has been read, and every name that it mentions leads somewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from workflows.definitions.flow.flow_options import FLOW_OPTIONS
from workflows.exceptions import InvalidDefinition, WorkflowError, show
from workflows.schemas.schema import Schema
from workflows.styles.machine.parallel_stage import Parallel
from workflows.styles.machine.stages import END, FAIL, ActionStage, Branch, Flow, Sleep, Stage, WaitFor
from workflows.styles.machine.streams.stream_plan import (
    PlanStream,
    StreamProblem,
    check_crossings,
    find_streams,
    make_branch,
    refuse_within,
)
from workflows.values.json_text import check_text
from workflows.values.schedule_options import SCHEDULE_OPTIONS

#: What ctx and Machine call by these names, and what a reader would take for it.
RESERVED = frozenset(
    {"id", "workspace", "key", "input", "attempt", "now", "step", "steps", "item"}
    | {"name", "version", "max_attempts", "step_timeout", "on_event", "accepts", "responds", "keep_states"}
    | set(FLOW_OPTIONS)
    | set(SCHEDULE_OPTIONS)
    | {"definition", "initial", "from_yaml", END, FAIL}
)


@dataclass(frozen=True, slots=True)
class PlanNode:
    """One stage in its place."""

    name: str
    stage: Stage
    #: The stage after it; None where its line ends, or the item's.
    next: str | None
    #: The stream, or the branch, whose lines run it.
    stream: PlanStream | None = None
    #: Whether it stands in a flow, which an instance and a line may take alike.
    is_side: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """A machine as the engine runs it."""

    source: str
    initial: str
    nodes: Mapping[str, PlanNode]
    #: Each flow, and its first stage.
    flows: Mapping[str, str]
    accepts: Schema | None = None
    responds: Schema | None = None
    #: By the stage that opens each.
    streams: Mapping[str, PlanStream] = field(default_factory=dict)
    #: The branches of each `parallel`, by their names.
    parallels: Mapping[str, Mapping[str, PlanStream]] = field(default_factory=dict)

    def lead(self, target: str) -> str | None:
        """The stage that a target means; None for the end."""
        return None if target == END else self.flows.get(target, target)

    def list_signals(self, stream: PlanStream) -> frozenset[str]:
        """The plain signals that a branch may wait for, in its own stages or in a flow."""
        return frozenset(
            name
            for one, node in self.nodes.items()
            if one in stream.members or node.is_side
            for name in node.stage.list_signals()
        )

    @property
    def targets(self) -> list[str]:
        """Everything that may be named."""
        return [*self.nodes, *self.flows, END]

    @property
    def steps(self) -> list[str]:
        """What the engine may be asked to run of the instance itself.

        A machine that ends by sleeping, or with a stream, has one step more: its end.
        """
        own = [name for name, node in self.nodes.items() if node.stream is None or name in self.streams]
        ends = any(isinstance(self.nodes[name].stage, Sleep) and self.nodes[name].next is None for name in own)
        return [*own, END] if ends or any(one.closer is None for one in self.streams.values()) else own

    @property
    def line_steps(self) -> list[str]:
        """The steps of the lines of its streams and branches, which begin at their `parallel`; none without them."""
        if not self.streams and not self.parallels:
            return []
        side = [name for name, node in self.nodes.items() if node.is_side]
        members = [name for name, node in self.nodes.items() if node.stream is not None]
        return [*self.parallels, *members, *side, END]


def plan_machine(cls: type, source: str) -> Plan | None:
    """The plan of a class; None for a base that has no stage yet."""
    declared, known = _collect(cls, source)
    flows = {name: value for name, value in declared.items() if isinstance(value, Flow)}
    members = {name: _name_members(name, one, known, declared, source) for name, one in flows.items()}
    parallels = {
        name: _name_branches(name, _read(source, name, one), known, declared, source)
        for name, one in declared.items()
        if isinstance(one, Parallel)
    }
    owner: dict[str, str] = {}
    branches = {f"{name}.{one}": stages for name, of in parallels.items() for one, stages in of.items()}
    for place, stages in (*members.items(), *branches.items()):
        for name in stages:
            if owner.setdefault(name, place) != place:
                raise _wrong(
                    source, name, None, f"it stands in {owner[name]!r} and again in {place!r}; make another one"
                )
    line = {name: one for name, one in declared.items() if isinstance(one, Stage) and name not in owner}
    if not line:
        return None
    nodes: dict[str, PlanNode] = {}
    streams: list[PlanStream] = []
    for stages in (line, *members.values()):
        read = {name: _read(source, name, stage) for name, stage in stages.items()}
        try:
            if stages is line:
                streams = find_streams(read)
            else:
                refuse_within(read, "flow")
        except StreamProblem as problem:
            raise _wrong(source, problem.name, read[problem.name], problem.problem) from None
        of = {name: one for one in streams for name in one.members}
        ends = {one.members[-1] for one in streams if one.members}
        follows = [*list(stages)[1:], None]
        for (name, stage), after in zip(read.items(), follows, strict=True):
            side = stages is not line
            nodes[name] = PlanNode(name, stage, None if name in ends else after, None if side else of.get(name), side)
    placed = {name: of for name, of in parallels.items() if name in line}
    plans = {name: _plan_branches(source, name, of, nodes) for name, of in placed.items()}
    plan = Plan(
        source,
        next(iter(line)),
        nodes,
        {name: next(iter(stages)) for name, stages in members.items()},
        streams={one.opener: one for one in streams},
        parallels=plans,
    )
    for node in nodes.values():
        _check_targets(plan, node)
    try:
        branched = [one for of in plans.values() for one in of.values()]
        check_crossings([*streams, *branched], {name: node.stage for name, node in nodes.items()}, members)
    except StreamProblem as problem:
        raise _wrong(source, problem.name, nodes[problem.name].stage, problem.problem) from None
    return plan


def _collect(cls: type, source: str) -> tuple[dict[str, Any], dict[int, str]]:
    """Stages and flows by name, inherited ones first, and the name of every stage that ever had one."""
    declared: dict[str, Any] = {}
    known: dict[int, str] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            if isinstance(value, Stage | Flow):
                _check_name(source, name, value)
                known[id(value)] = name
                declared[name] = value
            elif name in declared:
                if value is not None:
                    raise _wrong(
                        source, name, None, f"{show(value)} takes its place; wrap a function in action(…), or set None"
                    )
                del declared[name]
            elif isinstance(value, tuple | list) and any(isinstance(one, Stage | Flow) for one in value):
                raise _wrong(source, name, None, "it is a list of stages: is there a comma too many? Use flow(…)")
    return declared, known


def _check_name(source: str, name: str, value: Stage | Flow) -> None:
    if name in RESERVED:
        raise _wrong(source, name, value, "this word has a meaning; give the stage another name")
    if name.startswith("_"):
        raise _wrong(source, name, value, "a stage's name cannot begin with an underscore")
    check_text(name, "a stage's name")


def _name_members(
    flow: str, value: Flow, known: Mapping[int, str], declared: Mapping[str, Any], source: str
) -> dict[str, Stage]:
    """The stages of a flow: by their own names where they are attributes too, else by number."""
    stages: dict[str, Stage] = {}
    for number, one in enumerate(value.stages):
        if not isinstance(one, Stage):
            raise _wrong(source, flow, value, f"a flow is made of stages such as action(…), not {show(one)}")
        name = known.get(id(one), f"{flow}.{number}")
        if name in stages:
            raise _wrong(source, name, one, f"it stands in {flow!r} twice; make another one")
        current = declared.get(name)
        stages[name] = current if isinstance(current, Stage) else one
    if not stages:
        raise _wrong(source, flow, value, "a flow needs at least one stage")
    return stages


def _name_branches(
    parallel: str, value: Stage, known: Mapping[int, str], declared: Mapping[str, Any], source: str
) -> dict[str, dict[str, Stage]]:
    """The stages of each branch: by their own names where they are attributes too, else by the branch's and number."""
    assert isinstance(value, Parallel)
    named: dict[str, dict[str, Stage]] = {}
    for branch, listed in value.branches.items():
        stages = named[branch] = {}
        for number, one in enumerate(listed):
            name = known.get(id(one), f"{parallel}.{branch}" if len(listed) == 1 else f"{parallel}.{branch}.{number}")
            if name in stages:
                raise _wrong(source, name, one, f"it stands in branch {branch!r} twice; make another one")
            current = declared.get(name)
            stages[name] = current if isinstance(current, Stage) else one
    return named


def _plan_branches(
    source: str, parallel: str, branches: Mapping[str, Mapping[str, Stage]], nodes: dict[str, PlanNode]
) -> dict[str, PlanStream]:
    """Each branch as a stream, and its stages among the nodes of the machine."""
    plans = {}
    for branch, stages in branches.items():
        read = {name: _read(source, name, stage) for name, stage in stages.items()}
        try:
            refuse_within(read, "branch")
        except StreamProblem as problem:
            raise _wrong(source, problem.name, read[problem.name], problem.problem) from None
        plans[branch] = make_branch(parallel, branch, read, len(branches))
        for (name, stage), after in zip(read.items(), [*list(read)[1:], None], strict=True):
            nodes[name] = PlanNode(name, stage, after, plans[branch])
    return plans


def _read(source: str, name: str, stage: Stage) -> Stage:
    try:
        return stage.read()
    except WorkflowError as error:
        raise _wrong(source, name, stage, str(error)) from error


def _check_targets(plan: Plan, node: PlanNode) -> None:
    stage = node.stage
    for target in stage.list_targets():
        known = list(plan.flows) if isinstance(stage, WaitFor) else plan.targets
        if isinstance(stage, Branch):
            known = [*known, FAIL]
        if target in known:
            continue
        if isinstance(stage, WaitFor):
            problem = f"on_timeout={show(target)} is no flow of this machine"
            if target in plan.nodes:
                problem += "; it is a stage, so put what shall happen then into a flow(…)"
            else:
                problem += f"; it has {', '.join(known) or 'none'} (or leave it out to fail)"
        else:
            word = "then=" if isinstance(stage, ActionStage) else "to="
            problem = f"{word}{show(target)} leads nowhere; it may be {', '.join(known)}"
        raise _wrong(plan.source, node.name, stage, problem)


def _wrong(source: str, name: str, value: Stage | Flow | None, problem: str) -> InvalidDefinition:
    line = getattr(value, "line", None)
    place = f"line {line}, " if line else ""
    kind = "flow" if isinstance(value, Flow) else "stage"
    return InvalidDefinition(f"machine {source}: {place}{kind} {name!r}: {problem}")
