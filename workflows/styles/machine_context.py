"""What a machine's functions are handed: `ctx`, and the results of earlier stages as `ctx.steps.<name>.<field>`.

Invariants owned: what an author reads here cannot be changed through it; whatever is asked for and is not
there is answered with its place ("steps.payment has no field …").
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn
from uuid import UUID

from workflows.context import find_owner
from workflows.exceptions import InvalidData, InvalidOutcome, show
from workflows.schema import Schema, read_schema
from workflows.styles.machine_stages import WaitFor, is_function
from workflows.waits import Callback, Channel, Question, name_projector

if TYPE_CHECKING:
    from workflows.context import StepContext
    from workflows.styles.machine_plan import Plan


class MachineContext:
    """The author's view of the instance, in a machine."""

    __slots__ = ("_ctx", "_input", "_plan", "steps")

    def __init__(self, ctx: StepContext, plan: Plan, results: Mapping[str, Any]) -> None:
        self._ctx = ctx
        self._plan = plan
        self.steps = Steps(self, results)

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
        """The correlation key, if it has one."""
        return self._ctx.key

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
            self._input = self._ctx.input if accepts is None else read_typed(accepts, self._ctx.input, "input")
        return self._input

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Say how far the instance is; kept at most twice a second, and at the end of the stage."""
        self._ctx.progress(done, total, note)

    @property
    def item(self) -> NoReturn:
        """The item of a stream."""
        raise InvalidOutcome("ctx.item is what stages between expand and collect are run for; there are none here")

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
            node = self._ctx._plan.nodes.get(name)
            if node is None:
                raise NotThere(f"there is no stage {show(name)}; there are {', '.join(self._ctx._plan.nodes)}")
            stage = node.stage
            if name in self._results:
                schema = stage.schema if isinstance(stage, WaitFor) and stage.projector is None else None
                asked = isinstance(stage, WaitFor) and stage.callback
                owner = _find_owner(self._ctx, name, stage) if isinstance(stage, WaitFor) else None
                if owner is not None:
                    self._read[name] = owner[0].read_answer(self._results[name], owner[1])
                else:
                    self._read[name] = _view(self._results[name], schema, name, self._ctx if asked else None)
            elif isinstance(stage, WaitFor) and stage.callback:
                return Unanswered(name, self._ctx)
            else:
                raise NotThere(f"stage {name!r} has not run yet")
        return self._read[name]

    def __contains__(self, name: object) -> bool:
        return name in self._results

    def __iter__(self) -> Iterator[str]:
        return iter(self._results)

    def __len__(self) -> int:
        return len(self._results)

    def __repr__(self) -> str:
        return f"<steps {', '.join(self._results) or 'none yet'}>"


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
    request = stage.input
    if callable(request):
        try:
            request = request(ctx)
        except NotThere:
            if ctx.step == name:
                raise
            request = None  # its address is needed before all that is asked is known
    return Question(
        name,
        channel=stage.channel or "callback",
        token=True,
        schema=stage.schema,
        request=make_plain(request),
        projector=name_projector(stage.projector),
        body=stage.body,
    )


def make_plain(value: Any) -> Any:
    """Views as the dicts they show, so that a stage may return what an earlier one did, or parts of it."""
    if isinstance(value, dict):
        return {name: make_plain(one) for name, one in dict.items(value)}
    if isinstance(value, list | tuple):
        return [make_plain(one) for one in value]
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
        with ctx._ctx.at_work():
            return find_owner(ctx.id, name)
    owns = isinstance(stage.channel, Channel) and stage.channel.owns_answers
    return (type(stage.channel), read_schema(stage.channel.schema)) if owns else None


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
