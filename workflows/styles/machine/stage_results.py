"""The results of earlier stages: `ctx.steps.<name>.<field>` of a machine.

Lives here: which result a stage's name stands for, in the machine and in a line of it. Must not live here: how a value
reads. Invariant owned: a stage that has not run yet is answered with its name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import UUID

from workflows.definitions.channel import Channel
from workflows.engine.journals.handed_rows import find_owner
from workflows.exceptions import show
from workflows.schemas.schema import Schema, read_schema
from workflows.styles.machine.parallel_stage import Parallel
from workflows.styles.machine.several_stage import WaitForSeveral
from workflows.styles.machine.stage_values import NotThere, View, read_typed, wrap_value
from workflows.styles.machine.stages import Stage, WaitFor, is_function
from workflows.values.json_text import read_back

if TYPE_CHECKING:
    from workflows.styles.machine.machine_context import MachineContext
    from workflows.styles.machine.streams.stream_plan import PlanStream


class Steps:
    """The results so far, by stage: `ctx.steps.payment` or `ctx.steps["payment"]`."""

    __slots__ = ("_ctx", "_read", "_results")

    def __init__(self, ctx: MachineContext, results: Mapping[str, Any]) -> None:
        self._ctx = ctx
        self._results = results
        self._read: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)  # no stage is called so, but copying and pickling ask for such names
        return self[name]

    def __getitem__(self, name: str) -> Any:
        if name not in self._read:
            ctx = self._ctx
            node = ctx._plan.nodes.get(name)
            if node is None:
                raise NotThere(f"there is no stage {show(name)}; there are {', '.join(ctx._plan.nodes)}")
            stage = node.stage
            if name in self._results:
                self._read[name] = _read_result(ctx, name, stage, self._results[name])
            elif ctx._line is not None and name == ctx._line.asks:
                self._read[name] = ctx._read_answer(name, ctx._line.row, f"steps.{name}")
            elif ctx._line is not None and node.stream is not ctx._line.stream and name in ctx._line.parent_steps:
                self._read[name] = _read_result(ctx, name, stage, ctx._line.parent_steps[name])
            elif (kept := _find_branch_result(ctx, name)) is not None:
                self._read[name] = _read_result(ctx, name, stage, kept[0], kept[1])
            elif ctx._line is None and (stream := _find_stream(ctx, name)) is not None:
                self._read[name] = _list_stage(ctx, name, stage, stream)
            elif isinstance(stage, WaitFor) and stage.callback:
                return Unanswered(name, ctx)
            else:
                raise NotThere(f"stage {name!r} has not run yet")
        return self._read[name]

    def __contains__(self, name: object) -> bool:
        return name in self._list()

    def __iter__(self) -> Iterator[str]:
        return iter(self._list())

    def __len__(self) -> int:
        return len(self._list())

    def _list(self) -> list[str]:
        line = self._ctx._line
        if line is None:
            return list(self._results)
        before = [*line.parent_steps, *([line.asks] if line.asks else [])]
        return list(dict.fromkeys([*(one for one in before if one not in line.stream.members), *self._results]))

    def __repr__(self) -> str:
        return f"<steps {', '.join(self._list()) or 'none yet'}>"


class Unanswered:
    """A callback before its answer: it has an address already, and nothing else."""

    __slots__ = ("_ctx", "_stage")

    def __init__(self, stage: str, ctx: MachineContext) -> None:
        self._stage, self._ctx = stage, ctx

    def __getattr__(self, name: str) -> Any:
        if name in ("_resume_url", "_resume_token"):
            return getattr(self._ctx.callback(self._stage), name[1:])
        if name.startswith("__") or name in self.__slots__:
            raise AttributeError(name)
        raise NotThere(
            f"stage {self._stage!r} has not run yet; before its answer it has only _resume_url and _resume_token"
        )

    def __getitem__(self, name: object) -> NoReturn:
        raise NotThere(f"stage {self._stage!r} has not run yet")

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<{self._stage}: not answered yet>"


def find_stage_owner(
    ctx: MachineContext, name: str, stage: WaitFor, asker: UUID | None = None
) -> tuple[type[Channel], Schema | None] | None:
    """Of an answer that its channel owns and types: a channel made when the stage ran is known by its row alone.

    `asker` is the instance that has asked, where that is a line whose result is read from outside.
    """
    if stage.projector is not None:
        return None
    if is_function(stage.channel):
        node = ctx._plan.nodes[name]
        inside = ctx._line is None or node.is_side or node.stream is ctx._line.stream
        if asker is None:
            asker = ctx._ctx.id if inside or ctx._line is None else UUID(ctx._line.parent.id)
        with ctx._ctx.at_work():
            return find_owner(asker, name)
    owns = isinstance(stage.channel, Channel) and stage.channel.owns_answers
    return (type(stage.channel), read_schema(stage.channel.schema)) if owns else None


def _read_result(ctx: MachineContext, name: str, stage: Stage, stored: Any, asker: UUID | None = None) -> Any:
    if isinstance(stage, Parallel):
        return View(_read_branches(ctx, name, stored), f"steps.{name}")
    if isinstance(stage, WaitForSeveral):
        return stage.read_answers(ctx, name, stored, asker)
    schema = stage.schema if isinstance(stage, WaitFor) and stage.projector is None else None
    asked = isinstance(stage, WaitFor) and stage.callback
    owner = find_stage_owner(ctx, name, stage, asker) if isinstance(stage, WaitFor) else None
    if owner is not None:
        return owner[0].read_answer(stored, owner[1])
    return _view(stored, schema, name, ctx if asked and asker is None else None)


def _read_branches(ctx: MachineContext, name: str, stored: dict[str, Any]) -> dict[str, Any]:
    """The result of each branch, as the stage types it that it comes from."""
    values = {}
    for branch, (last, line) in ctx.joined[name].items():
        node = ctx._plan.nodes.get(last)
        result = stored[branch]
        values[branch] = result if node is None else _read_result(ctx, last, node.stage, result, UUID(line))
    return values


def _find_branch_result(ctx: MachineContext, name: str) -> tuple[Any, UUID] | None:
    """What a stage of a branch has returned, of branches that are over, and the line that ran it."""
    stream = ctx._plan.nodes[name].stream
    if stream is None or not stream.branch or (ctx._line is not None and stream is ctx._line.stream):
        return None
    if stream.branch not in (of := ctx.joined.get(stream.opener, {})):
        return None
    line = UUID(of[stream.branch][1])
    found = ctx._ctx.units.read_line_result(line, name)
    return None if found is None else (read_back(found), line)


def _find_stream(ctx: MachineContext, name: str) -> PlanStream | None:
    """The stream that a stage belongs to, if it has been opened."""
    for stream in ctx._plan.streams.values():
        if name in (stream.opener, stream.asks, *stream.members) and stream.opener in ctx._units:
            return stream
    return None


def _list_stage(ctx: MachineContext, name: str, stage: Stage, stream: PlanStream) -> list[Any]:
    """What a stage of a stream has made of each item, in the order of the items; None where it has not run."""
    kept = ctx._units[stream.opener]
    last = stream.members[-1] if stream.members else stream.asks or stream.opener
    if not isinstance(kept, str):
        return [wrap_value(one, f"steps.{name}[{index}]") for index, one in enumerate(kept)]
    unit = UUID(kept)
    if name == stream.opener and stream.asks != name and name not in stream.members:
        if last == name:
            return ctx.list_results(stream)
        return [
            wrap_value(one, f"steps.{name}[{index}]") for index, one in enumerate(ctx._ctx.units.read_requests(unit))
        ]
    if name == stream.asks:
        answers = ctx._ctx.units.read_answers(unit)
        return [ctx._read_answer(name, one, f"steps.{name}[{one.index}]") for one in answers]
    results = ctx._ctx.units.read_stage_results(unit, name)
    return [wrap_value(one, f"steps.{name}[{index}]") for index, one in enumerate(results)]


def _view(stored: object, schema: Schema | None, name: str, ctx: MachineContext | None) -> Any:
    value = stored if schema is None else read_typed(schema, stored, f"steps.{name}")
    return View(value, f"steps.{name}", ctx) if type(value) is dict else wrap_value(value, f"steps.{name}")
