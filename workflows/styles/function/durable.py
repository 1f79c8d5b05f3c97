"""Function style: a function that is run again from its top, and finds what it did before.

    @durable(name="outreach")
    def outreach(ctx, contact):
        draft = ctx.step("draft", write_draft, contact)
        answer = ctx.wait_for_signal("gate", timeout="48h")
        return {"sent": answer["approved"], "draft": draft}

    outreach.start(contact="Ada")
    outreach.options(key="ada").start(contact="Ada")

Lives here: the decorator, what it makes of a function, and the protocol; what `ctx` offers is in `context_calls` and
the modules that it puts together. Invariant owned: a suspension reaches the engine whatever the author catches. It is a
`BaseException`, and where even that was swallowed, `ctx` remembers it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from workflows.definitions import registry
from workflows.definitions.awaited_kinds import received
from workflows.definitions.fingerprint import fingerprint_function
from workflows.definitions.flow.flow_options import DEFAULT_QUEUE, FlowOptions, read_flow_options
from workflows.definitions.flow.limits import Concurrency, Rate
from workflows.definitions.outcomes import Outcome
from workflows.definitions.registry import DEFAULT_MAX_ATTEMPTS, Definition, StepOptions
from workflows.engine.context import Context
from workflows.exceptions import InvalidCall, InvalidDefinition, InvalidDuration, InvalidInput, WorkflowError, show
from workflows.styles.function.call_replay import Suspended, refuse_async
from workflows.styles.function.context_calls import FunctionContext
from workflows.styles.function.function_lines import define_lines
from workflows.styles.retryable_errors import settle_error
from workflows.styles.schedule_option import declare_schedule
from workflows.values.durations import parse_timeout
from workflows.values.json_text import check_signal_name, check_text

if TYPE_CHECKING:
    from workflows.models import Instance
    from workflows.values.schedule_options import CatchUp, Overlap
    from workflows.values.types_of_signatures import Duration

P = ParamSpec("P")
R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")

#: The one step of a function.
RUN = "run"


class Durable(Generic[P, R_co]):
    """A durable function: its definition, and ways to start it with its own arguments.

    >>> outreach.start(contact="Ada").input
    {'contact': 'Ada'}
    """

    definition: Definition
    __name__: str
    __qualname__: str
    __wrapped__: Callable[Concatenate[FunctionContext, P], R_co]

    def __init__(self, function: Callable[Concatenate[FunctionContext, P], R_co], definition: Definition) -> None:
        functools.update_wrapper(self, function)
        self.definition = definition

    def start(self, /, *args: P.args, **kwargs: P.kwargs) -> Instance:
        """Start an instance; what is passed are the function's own arguments, without `ctx`."""
        return self.options().start(*args, **kwargs)

    async def astart(self, /, *args: P.args, **kwargs: P.kwargs) -> Instance:
        """`start` for async code."""
        return await self.options().astart(*args, **kwargs)

    def options(
        self,
        *,
        key: str | None = None,
        workspace: str | None = None,
        run_at: datetime | None = None,
        queue: str | None = None,
        priority: int | None = None,
        actor: object = "",
    ) -> Starting[P]:
        """How it is to be started. Said here, so that no option takes the name of an argument.

        >>> outreach.options(key="ada").start(contact="Ada").key
        'ada'
        """
        return Starting(self, key, workspace, run_at, queue, priority, actor)

    def __call__(self, ctx: FunctionContext, /, *args: P.args, **kwargs: P.kwargs) -> R_co:
        """The body itself, for tests that pass a `ctx` of their own. Nothing is started or saved by it."""
        first: object = ctx  # by its type it is none of these; callers without a type checker are told
        if isinstance(first, str | int | float | list | tuple | dict):
            raise InvalidCall(
                f"{self.__name__}() runs the body, and its first argument is a ctx, not {show(ctx)}. To start an "
                f"instance, write {self.__name__}.start(…) with the other arguments."
            )
        return self.__wrapped__(ctx, *args, **kwargs)

    def __repr__(self) -> str:
        return f"<durable function {self.__module__}.{self.__qualname__}>"

    def __reduce__(self) -> str:
        return self.__qualname__  # copied and pickled like a function: by its name


@dataclass(frozen=True, slots=True)
class Starting(Generic[P]):
    """A durable function together with how it is to be started."""

    function: Durable[P, Any]
    key: str | None
    workspace: str | None
    run_at: datetime | None
    queue: str | None
    priority: int | None
    actor: object

    def start(self, /, *args: P.args, **kwargs: P.kwargs) -> Instance:
        """Start an instance with the function's own arguments."""
        from workflows.api.instances import start

        return start(
            self.function,
            _gather_input(self.function.definition, args, kwargs),
            key=self.key,
            workspace=self.workspace,
            run_at=self.run_at,
            queue=self.queue,
            priority=self.priority,
            actor=self.actor,
        )

    async def astart(self, /, *args: P.args, **kwargs: P.kwargs) -> Instance:
        """`start` for async code."""
        from asgiref.sync import sync_to_async

        return await sync_to_async(self.start)(*args, **kwargs)


@overload
def durable(function: Callable[Concatenate[FunctionContext, P], R], /) -> Durable[P, R]: ...
@overload
def durable(
    *,
    name: str | None = None,
    version: int = 1,
    max_attempts: int = DEFAULT_MAX_ATTEMPTS,
    step_timeout: Duration | None = None,
    on_event: str | None = None,
    queue: str = DEFAULT_QUEUE,
    priority: int = 0,
    concurrency: Concurrency | None = None,
    rate: Rate | None = None,
    fair_by: str | Callable[[Any], object] | None = None,
    cron: str | None = None,
    every: Duration | None = None,
    tz: str | None = None,
    overlap: Overlap | None = None,
    catch_up: CatchUp | None = None,
    signals: bool | None = None,
) -> Callable[[Callable[Concatenate[FunctionContext, P], R]], Durable[P, R]]: ...
def durable(
    function: Any = None,
    *,
    name: str | None = None,
    version: int = 1,
    max_attempts: int = DEFAULT_MAX_ATTEMPTS,
    step_timeout: object = None,
    on_event: str | None = None,
    queue: object = DEFAULT_QUEUE,
    priority: object = 0,
    concurrency: object = None,
    rate: object = None,
    fair_by: object = None,
    cron: object = None,
    every: object = None,
    tz: object = None,
    overlap: object = None,
    catch_up: object = None,
    signals: bool | None = None,
) -> Any:
    """Make a function `f(ctx, **input)` a workflow; `name` defaults to its own.

    With `cron=` (in the time zone `tz=`) or `every=` a schedule starts it, without an input. `signals` says whether it
    reads signals that are sent by name; left out, it does where its code names `received`.
    """

    def make(fn: Any) -> Durable[..., Any]:
        source = f"{getattr(fn, '__module__', '')}.{getattr(fn, '__qualname__', show(fn))}"
        flow = read_flow_options(source, queue, priority, concurrency, rate, fair_by)
        definition = declare_schedule(
            _define(fn, name, version, max_attempts, step_timeout, on_event, signals, flow),
            cron=cron,
            every=every,
            tz=tz,
            overlap=overlap,
            catch_up=catch_up,
        )
        registry.register(definition)
        return Durable(fn, definition)

    return make if function is None else make(function)


def _gather_input(definition: Definition, args: tuple[object, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments as the input: each by its name. What is missing or unknown is told where the input is checked."""
    assert definition.signature is not None
    _, *parameters = definition.signature.parameters.values()
    names = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    if len(args) > len(names):
        raise InvalidInput(
            definition.name, {"": f"has {len(args)} arguments without a name, and the function takes {len(names)}"}
        )
    by_place = dict(zip(names, args, strict=False))
    if twice := by_place.keys() & kwargs.keys():
        raise InvalidInput(definition.name, dict.fromkeys(sorted(twice), "is passed twice"))
    return by_place | kwargs


def _define(
    fn: object,
    name: str | None,
    version: int,
    max_attempts: int,
    step_timeout: object,
    on_event: str | None,
    signals: object,
    flow: FlowOptions | None,
) -> Definition:
    if not inspect.isfunction(fn):
        raise InvalidDefinition(f"@durable makes a function a workflow, not {show(fn)}")
    source = f"{fn.__module__}.{fn.__qualname__}"
    refuse_async(
        fn,
        f"workflow {source}",
        "A durable function runs again from its top whenever it goes on, so it is an ordinary one: write def, and hand "
        "async functions to ctx.step(…)",
        InvalidDefinition,
    )
    try:
        named = check_text(fn.__name__ if name is None else name, "its name")
        seconds = None if step_timeout is None else parse_timeout(step_timeout)
        if on_event is not None:
            check_signal_name(on_event, "on_event=")
    except (InvalidDuration, WorkflowError) as error:
        raise InvalidDefinition(f"workflow {source}: {error}") from error
    for option, value in (("version", version), ("max_attempts", max_attempts)):
        registry.check_count(source, option, value)
    if signals is not None and not isinstance(signals, bool):
        raise InvalidDefinition(f"workflow {source}: signals= is True or False, not {show(signals)}")
    parameters = list(inspect.signature(fn).parameters.values())
    if not parameters or parameters[0].kind not in (
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.POSITIONAL_ONLY,
    ):
        raise InvalidDefinition(f"workflow {source}: its first parameter must be ctx, as in def {fn.__name__}(ctx, …)")

    for one in parameters[1:]:
        if one.kind in (one.POSITIONAL_ONLY, one.VAR_POSITIONAL):
            raise InvalidDefinition(
                f"workflow {source}: parameter {one.name!r} cannot be filled: the input is passed by name; "
                "write it without `*` and not before `/`"
            )

    def run(ctx: Context) -> Outcome:
        assert isinstance(ctx, FunctionContext)
        try:
            result = fn(ctx, **ctx.input)
        except Suspended as suspended:
            return suspended.outcome
        except BaseException:
            if ctx.suspended is not None:  # raised by a `finally` or an `except BaseException` on the way out
                return ctx.suspended.outcome
            raise
        return ctx.end(result, f"workflow {source}")

    whole = Definition(
        name=named,
        version=version,
        max_attempts=max_attempts,
        step_timeout=seconds,
        initial=RUN,
        steps={RUN: StepOptions()},
        run=run,
        handle=settle_error,
        source=source,
        signature=inspect.signature(fn),
        on_event=on_event,
        fingerprint=fingerprint_function(fn),
        reads_signals=_names_received(fn, set()) if signals is None else signals,
        make_context=FunctionContext,
        flow=flow,
    )
    return replace(whole, lines=define_lines(whole, fn))


def _names_received(fn: FunctionType, seen: set[CodeType]) -> bool:
    """Whether a function's code, or that of a function of its module which it names, has the word `received`."""
    codes = [fn.__code__]
    while codes:
        code = codes.pop()
        if code in seen:
            continue
        seen.add(code)
        for name in code.co_names:
            named = fn.__globals__.get(name)
            if name == received.__name__ or named is received:
                return True
            if isinstance(named, FunctionType) and named.__module__ == fn.__module__ and _names_received(named, seen):
                return True
        codes.extend(one for one in code.co_consts if isinstance(one, CodeType))
    return False
