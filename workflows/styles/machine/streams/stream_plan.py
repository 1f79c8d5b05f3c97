"""Where a machine's streams begin, what is in them and where they end: read once, when its class is made.

A stream is a run of stages between the one that opens it (`expand`, a wait for a list, or `wait_for(each=True)`) and
the one that closes it (`collect`, a wait about the whole list, or the end). The instance itself runs the two ends; what
is between them is run by lines, one for each item. Invariant owned: a stage is either in one stream or in none, and no
name leads into a stream or out of it but for its two ends.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from workflows.exceptions import InvalidDefinition
from workflows.styles.machine.parallel_stage import Parallel
from workflows.styles.machine.stages import CONCURRENCY, END, FAIL, Collect, Expand, Stage, WaitFor


@dataclass(frozen=True, slots=True)
class PlanStream:
    """One stream of a machine."""

    #: The stage that opens it. A wait that asks the items may be that stage itself.
    opener: str
    #: The wait whose questions are the items of one unit; None where each line asks for itself.
    asks: str | None
    #: The first stage that lines run; None where none does.
    first: str | None
    #: The stage that is handed the results; None where the machine ends with them.
    closer: str | None
    #: All that lines run, in order.
    members: tuple[str, ...]
    on_item: str
    concurrency: int
    #: Of a branch of `parallel`, which is a stream of its own with one item: its name.
    branch: str = ""

    @property
    def title(self) -> str:
        """What messages call it."""
        return f"branch {self.branch!r} of {self.opener!r}" if self.branch else f"the stream that {self.opener!r} opens"


class StreamProblem(InvalidDefinition):
    """What is wrong with a stage's place; the plan adds which machine it is of."""

    def __init__(self, name: str, problem: str) -> None:
        self.name, self.problem = name, problem
        super().__init__(problem)


def find_streams(stages: Mapping[str, Stage]) -> list[PlanStream]:
    """The streams of one line of stages that have been read."""
    found: list[PlanStream] = []
    opener: str | None = None
    members: list[str] = []
    for name, stage in stages.items():
        opens = isinstance(stage, Expand) or (isinstance(stage, WaitFor) and (stage.gives_many or stage.each))
        closes = isinstance(stage, Collect) or (isinstance(stage, WaitFor) and stage.takes_many)
        if opener is None:
            if isinstance(stage, Collect):
                raise StreamProblem(name, "there is no stream to collect: expand(…) or a wait for a list opens one")
            if opens:
                opener, members = name, []
            else:
                _refuse_options(name, stage)
        elif closes:
            found.append(_make(stages, opener, members, name))
            opener, members = (name, []) if opens else (None, [])
            if not opens:
                _refuse_options(name, stage)
        elif isinstance(stage, Expand) or (isinstance(stage, WaitFor) and stage.gives_many):
            raise StreamProblem(
                name,
                f"it would open a stream inside the one that {opener!r} opens; collect(…) that first, or launch a "
                "machine of its own for each item",
            )
        elif isinstance(stage, Parallel):
            raise StreamProblem(
                name,
                f"it would run once per item of the stream that {opener!r} opens, which holds no parallel; collect(…) "
                "that first, or launch a machine of its own for each item",
            )
        else:
            members.append(name)
            _refuse_signals(name, stage)
            if not (len(members) == 1 and isinstance(stage, WaitFor) and stage.each):
                _refuse_options(name, stage)
    if opener is not None:
        found.append(_make(stages, opener, members, None))
    return found


def refuse_within(stages: Mapping[str, Stage], what: str) -> None:
    """A flow is run by whoever meets it, a line too; a branch is a line: neither holds a stream or other branches."""
    for name, stage in stages.items():
        if isinstance(stage, Expand | Collect) or (isinstance(stage, WaitFor) and (stage.gives_many or stage.each)):
            raise StreamProblem(name, f"a {what} holds no stream; make that a machine of its own, and launch(…) it")
        if isinstance(stage, Parallel):
            raise StreamProblem(name, f"a {what} holds no parallel; make that a machine of its own, and launch(…) it")
        _refuse_options(name, stage)


def make_branch(opener: str, branch: str, members: Iterable[str], concurrency: int) -> PlanStream:
    """A branch of `parallel`: its stages are run by a line, as those of a stream are."""
    names = tuple(members)
    return PlanStream(
        opener=opener,
        asks=None,
        first=names[0],
        closer=opener,
        members=names,
        on_item="fail",
        concurrency=concurrency,
        branch=branch,
    )


def check_crossings(
    streams: Iterable[PlanStream], nodes: Mapping[str, Stage], flows: Mapping[str, Iterable[str]]
) -> None:
    """Refuse names that lead into a stream or out of it. `flows` has the stages of each flow."""
    of = {member: stream for stream in streams for member in stream.members}
    flow_of = {name: flow for flow, names in flows.items() for name in names}
    items: dict[str, str] = {}  # flows that lines may take, and from where
    todo = list(of)
    for name in todo:
        stream = of.get(name)
        allowed = set(stream.members) if stream is not None else set()
        for target in nodes[name].list_targets():
            flow = target if target in flows else flow_of.get(target)
            if target in (END, FAIL) or target in allowed:
                continue
            if flow is None:
                origin = of.get(items.get(flow_of.get(name, ""), name))
                within = origin or stream
                assert within is not None
                what, places = "it" if within.branch else "an item", ", ".join((*within.members, END))
                raise StreamProblem(
                    name, f"it leads to {target!r}, out of {within.title}; {what} may be led to {places} or a flow"
                )
            if stream is not None and not stream.branch:
                for one in flows[flow]:
                    _refuse_signals(one, nodes[one])
            if flow not in items:
                items[flow] = items.get(flow_of.get(name, ""), name)
                todo += flows[flow]
    for name, stage in nodes.items():
        if name in of:
            continue
        for target in stage.list_targets():
            if (there := of.get(target)) is not None:
                where = f"stands in {there.title}" if there.branch else f"runs once per item of {there.title}"
                raise StreamProblem(name, f"it leads to {target!r}, which {where}")


def _make(stages: Mapping[str, Stage], opener: str, members: list[str], closer: str | None) -> PlanStream:
    opening = stages[opener]
    first = members[0] if members else None
    head = stages[first] if first is not None else None
    asking = next((one for one in (opening, head) if isinstance(one, WaitFor) and one.each), None)
    asks: str | None = None
    if isinstance(opening, WaitFor) and opening.each:
        if opening.asks_items:
            asks = opener
        else:
            members = [opener, *members]  # it opens the stream, and is the first that lines run
    elif first is not None and isinstance(head, WaitFor) and head.asks_items and head.input is None:
        asks, members = first, members[1:]
    heeded = [one for one in (asking, opening) if one is not None]
    return PlanStream(
        opener=opener,
        asks=asks,
        first=members[0] if members else None,
        closer=closer,
        members=tuple(members),
        on_item=next(filter(None, map(_policy, heeded)), "fail"),
        concurrency=next(filter(None, map(_bound, heeded)), CONCURRENCY),
    )


def _refuse_signals(name: str, stage: Stage) -> None:
    """The line of an item has no address that anybody could know."""
    if stage.list_signals():
        raise StreamProblem(
            name,
            "a signal is addressed to the machine's instance, and this runs for an item of a stream: wait for an event "
            'with match=, or for channel="api", which has an address for each item',
        )


def _policy(stage: Stage) -> str | None:
    policy: str | None = getattr(stage, "on_item", None)
    return policy


def _bound(stage: Stage) -> int | None:
    bound: int | None = getattr(stage, "concurrency", None)
    return bound


def _refuse_options(name: str, stage: Stage) -> None:
    """A policy, or a bound, that nothing would heed."""
    if isinstance(stage, WaitFor) and (_policy(stage) is not None or _bound(stage) is not None):
        raise StreamProblem(name, "on_item= and concurrency= stand at the stage that opens a stream")
