"""What a machine's functions are handed: `ctx`, and the results of earlier stages as `ctx.steps.<name>.<field>`.

Invariants owned: what an author reads here cannot be changed through it; whatever is asked for and is not
there is answered with its place ("steps.payment has no field …").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import UUID

from workflows.channel import Channel
from workflows.context import find_owner
from workflows.exceptions import InvalidData, InvalidOutcome, show
from workflows.jsontext import read_back
from workflows.lifecycle import ItemPolicy
from workflows.question import Callback, Question, name_projector
from workflows.schema import Schema, read_schema
from workflows.styles.machine_stages import Stage, WaitFor, is_function
from workflows.units.results import ItemResult, cast_answer, read_status

if TYPE_CHECKING:
    from workflows.context import StepContext
    from workflows.store import FoundItem, LineItem
    from workflows.styles.machine_line import LineView
    from workflows.styles.machine_plan import Plan
    from workflows.styles.machine_streams import Stream

_NO_ITEM: Any = object()


class MachineContext:
    """The author's view of the instance, in a machine."""

    __slots__ = ("_ctx", "_input", "_item", "_items", "_last", "_line", "_plan", "_results", "_units", "steps")

    def __init__(
        self,
        ctx: StepContext,
        plan: Plan,
        results: Mapping[str, Any],
        *,
        units: Mapping[str, Any] | None = None,
        line: LineView | None = None,
        item: Any = _NO_ITEM,
        last: str | None = None,
    ) -> None:
        self._ctx = ctx
        self._plan = plan
        self._results = results
        #: By the stage that opened a stream: the id of its unit, or the items of one in which nothing is done.
        self._units = units or {}
        self._line = line
        self._item = item
        self._last = last
        self.steps = Steps(self, results)

    def with_item(self, item: Any) -> MachineContext:
        """The same for one item, whose question is about to be asked."""
        return MachineContext(self._ctx, self._plan, self._results, units=self._units, line=self._line, item=item)

    @property
    def id(self) -> UUID:
        """The instance's id."""
        return self._ctx.id

    @property
    def workspace(self) -> str:
        """The slug of the instance's workspace."""
        return self._ctx.workspace

    @property
    def key(self) -> str | None:
        """The correlation key of the machine, if it has one."""
        return self._ctx.key if self._line is None else self._line.parent.key

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
            if self._line is None:
                raise InvalidOutcome(
                    "ctx.item is what stages between expand and collect are run for, and "
                    f"stage {self.step!r} runs once; collect(…) and a wait for the whole list have ctx.items"
                )
            self._item = self._line.item
        return _wrap(self._item, "item")

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

    def list_results(self, stream: Stream) -> list[Any]:
        """The results of a stream that is through; of each item its end too, where not all had to be well."""
        if not hasattr(self, "_items"):
            self._items: dict[str, list[Any]] = {}
        if stream.opener not in self._items:
            self._items[stream.opener] = self._read_results(stream)
        return self._items[stream.opener]

    def _read_results(self, stream: Stream) -> list[Any]:
        kept = self._units.get(stream.opener, [])
        if not isinstance(kept, str):
            return [_wrap(one, f"items[{index}]") for index, one in enumerate(kept)]
        unit = UUID(kept)
        if stream.first is None and stream.asks is None:
            return [_wrap(one, f"items[{index}]") for index, one in enumerate(self._ctx.units.read_output(unit))]
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
            return _wrap(cast_answer(one), place)
        owner = _find_owner(self, name, stage)
        stored = read_back(one.output)
        if owner is not None:
            return owner[0].read_answer(stored, owner[1])
        return _wrap(stored if stage.schema is None else read_typed(stage.schema, stored, place), place)

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
        return Callback(make_callback(self, stage, node.stage), self._ctx.ask)


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


class NotThere(AttributeError, KeyError):
    """A stage or field that was asked for and is not there; the message says where."""

    def __str__(self) -> str:
        return str(self.args[0])  # and not its repr, as a KeyError has it


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


class View(dict[str, Any]):
    """A JSON object of an earlier stage: fields as attributes, or as a dict's items.

    A field wins over a method of dict that has its name, so `order.items` is what the stage returned.
    """

    __slots__ = ("_holdpoint_ctx", "_holdpoint_place")

    def __init__(self, fields: Mapping[str, Any], place: str, ctx: MachineContext | None = None) -> None:
        super().__init__({name: _wrap(value, f"{place}.{name}") for name, value in fields.items()})
        object.__setattr__(self, "_holdpoint_place", place)
        object.__setattr__(self, "_holdpoint_ctx", ctx)

    def __getattribute__(self, name: str) -> Any:
        # What a partner sent may be called anything: a name of ours is not to be taken by it.
        if not name.startswith("_") and dict.__contains__(self, name):
            return dict.__getitem__(self, name)
        return super().__getattribute__(name)

    def __getattr__(self, name: str) -> Any:
        place = object.__getattribute__(self, "_holdpoint_place")
        ctx: MachineContext | None = object.__getattribute__(self, "_holdpoint_ctx")
        if ctx is not None and name in ("_resume_url", "_resume_token"):
            return getattr(ctx.callback(place.removeprefix("steps.")), name[1:])
        raise NotThere(_tell_missing(self, name))

    def __missing__(self, name: object) -> NoReturn:
        raise NotThere(_tell_missing(self, name))

    def __reduce_ex__(self, protocol: Any) -> Any:
        return dict, (make_plain(self),)  # a copy is the copier's own, to do with as he likes

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("what an earlier stage returned cannot be changed; make a copy: dict(…)")

    __setitem__ = __delitem__ = __setattr__ = __delattr__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse


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


def make_plain(value: Any) -> Any:
    """Views as the dicts they show, so that a stage may return what an earlier one did, or parts of it."""
    if isinstance(value, dict):
        return {name: make_plain(one) for name, one in dict.items(value)}
    if isinstance(value, list | tuple):
        return [make_plain(one) for one in value]
    if isinstance(value, ItemResult):
        return {"status": str(value.status), "output": make_plain(value.output)}
    return value


def read_typed(schema: Schema, stored: Any, place: str) -> Any:
    """The typed value of stored JSON; an error names the place."""
    try:
        return schema.cast(stored)
    except InvalidData as error:
        raise InvalidData({f"{place}.{at}".rstrip("."): reasons for at, reasons in error.errors.items()}) from error


def _find_owner(ctx: MachineContext, name: str, stage: WaitFor) -> tuple[type[Channel], Schema | None] | None:
    """Of an answer that its channel owns and types: a channel made when the stage ran is known by its row alone."""
    if stage.projector is not None:
        return None
    if is_function(stage.channel):
        inside = ctx._line is None or ctx._plan.nodes[name].stream is ctx._line.stream
        with ctx._ctx.at_work():
            return find_owner(ctx.id if inside or ctx._line is None else UUID(ctx._line.parent.id), name)
    owns = isinstance(stage.channel, Channel) and stage.channel.owns_answers
    return (type(stage.channel), read_schema(stage.channel.schema)) if owns else None


def _read_result(ctx: MachineContext, name: str, stage: Stage, stored: Any) -> Any:
    schema = stage.schema if isinstance(stage, WaitFor) and stage.projector is None else None
    asked = isinstance(stage, WaitFor) and stage.callback
    owner = _find_owner(ctx, name, stage) if isinstance(stage, WaitFor) else None
    if owner is not None:
        return owner[0].read_answer(stored, owner[1])
    return _view(stored, schema, name, ctx if asked else None)


def _read_json(text: str | None, place: str) -> Any:
    return None if text is None else _wrap(read_back(text), place)


def _find_stream(ctx: MachineContext, name: str) -> Stream | None:
    """The stream that a stage belongs to, if it has been opened."""
    for stream in ctx._plan.streams.values():
        if name in (stream.opener, stream.asks, *stream.members) and stream.opener in ctx._units:
            return stream
    return None


def _list_stage(ctx: MachineContext, name: str, stage: Stage, stream: Stream) -> list[Any]:
    """What a stage of a stream has made of each item, in the order of the items; None where it has not run."""
    kept = ctx._units[stream.opener]
    last = stream.members[-1] if stream.members else stream.asks or stream.opener
    if not isinstance(kept, str):
        return [_wrap(one, f"steps.{name}[{index}]") for index, one in enumerate(kept)]
    unit = UUID(kept)
    if name == stream.opener and stream.asks != name and name not in stream.members:
        if last == name:
            return ctx.list_results(stream)
        return [_wrap(one, f"steps.{name}[{index}]") for index, one in enumerate(ctx._ctx.units.read_requests(unit))]
    if name == stream.asks:
        answers = ctx._ctx.units.read_answers(unit)
        return [ctx._read_answer(name, one, f"steps.{name}[{one.index}]") for one in answers]
    results = ctx._ctx.units.read_stage_results(unit, name)
    return [_wrap(one, f"steps.{name}[{index}]") for index, one in enumerate(results)]


def _view(stored: Any, schema: Schema | None, name: str, ctx: MachineContext | None) -> Any:
    value = stored if schema is None else read_typed(schema, stored, f"steps.{name}")
    return View(value, f"steps.{name}", ctx) if type(value) is dict else _wrap(value, f"steps.{name}")


def _wrap(value: Any, place: str) -> Any:
    if type(value) is dict:
        return View(value, place)
    if type(value) is list:
        return [_wrap(one, f"{place}[{index}]") for index, one in enumerate(value)]
    return value


def _tell_missing(view: View, name: object) -> str:
    place = object.__getattribute__(view, "_holdpoint_place")
    known = ", ".join(dict.keys(view))
    return f"{place} has no field {show(name)}; it has {known or 'none'}"
