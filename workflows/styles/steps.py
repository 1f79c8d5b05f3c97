"""Step style: a class whose `@step` methods return outcomes.

    class Ship(Workflow):
        @step
        def ask(self, ctx):
            return Await("payment_confirmed", then="ship", timeout="24h")

        @step
        def ship(self, ctx):
            return Done() if ctx.awaited else Stop("payment never came")

Invariant owned: a class that was made can run. Its steps exist, are ordinary functions, and its options
are checked when the class statement is executed, not when the first instance reaches them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from types import CoroutineType
from typing import Any, ClassVar, TypeVar, overload

from workflows.definitions import registry
from workflows.definitions.fingerprint import fingerprint_steps
from workflows.definitions.flow.flow_options import DEFAULT_QUEUE, FLOW_OPTIONS, read_flow_options
from workflows.definitions.flow.limits import Concurrency, Rate
from workflows.definitions.outcomes import Await, Next, Outcome, Spawn, Stop
from workflows.definitions.registry import CLOSE, DEFAULT_MAX_ATTEMPTS, RERUN, Definition, StepOptions
from workflows.engine.context import Context, StepContext
from workflows.engine.event_loop import run_coroutine
from workflows.exceptions import (
    InvalidDefinition,
    InvalidDuration,
    InvalidOutcome,
    UnknownStep,
    WorkflowError,
    describe_error,
    show,
)
from workflows.styles.schedule_option import declare_schedule
from workflows.values.durations import parse_timeout
from workflows.values.json_text import check_signal_name, check_text
from workflows.values.schedule_options import SCHEDULE_OPTIONS, CatchUp, Overlap
from workflows.values.types_of_signatures import Duration

#: What a step's method may return: an outcome, or a coroutine of one.
Returned = Outcome | Coroutine[Any, Any, Outcome]
Method = TypeVar("Method", bound=Callable[[Any, StepContext], Returned])

_MARK = "__holdpoint_step__"
#: Outcomes that name the step after them.
_LEADING_ON = (Next, Await, Spawn)
_RESERVED = frozenset(
    {"handle", "definition", "name", "version", "max_attempts", "step_timeout", "initial", "on_event", "late_signals"}
    | {"keep_states"}
    | set(FLOW_OPTIONS)
    | set(SCHEDULE_OPTIONS)
)


@overload
def step(method: Method) -> Method: ...
@overload
def step(*, atomic: bool = False, step_timeout: Duration | None = None) -> Callable[[Method], Method]: ...
def step(method: Any = None, *, atomic: bool = False, step_timeout: Duration | None = None) -> Any:
    """Make a method a step.

    `atomic=True` commits the method's own database writes together with its outcome.
    `step_timeout` bounds one run of it.
    """
    options = StepOptions(atomic, None if step_timeout is None else parse_timeout(step_timeout))

    def mark(function: Any) -> Any:
        if not callable(function):
            raise InvalidDefinition(f"@step marks methods, not {show(function)}")
        _check_method(function, function.__name__, atomic=options.atomic)
        _check_signature(function)
        setattr(function, _MARK, options)
        return function

    return mark if method is None else mark(method)


class Workflow:
    """Base of step-style workflows. Subclasses register themselves under `name` and `version`."""

    #: Defaults to the class name.
    name: ClassVar[str]
    version: ClassVar[int] = 1
    #: How many consecutive runs may end without an outcome (a dead worker, a step timeout).
    max_attempts: ClassVar[int] = DEFAULT_MAX_ATTEMPTS
    #: How long one run of a step may take; None means the setting WORKFLOWS["STEP_TIMEOUT"].
    step_timeout: ClassVar[Duration | None] = None
    #: The first step; defaults to the first one declared.
    initial: ClassVar[str]
    #: A named event that starts an instance, with its data as the input.
    on_event: ClassVar[str | None] = None
    #: The schedule that starts it, without an input: a cron expression in a time zone (None: the project's), or an
    #: interval; what a tick does while the last instance lives ("skip"); missed ticks that are made up for ("last").
    cron: ClassVar[str | None] = None
    every: ClassVar[Duration | None] = None
    tz: ClassVar[str | None] = None
    overlap: ClassVar[Overlap | None] = None
    catch_up: ClassVar[CatchUp | None] = None
    #: With "rerun", a step that would end the instance runs again when a signal that it awaited came meanwhile.
    late_signals: ClassVar[str] = CLOSE
    #: The queue of its instances, and their place in it: the higher first, -100 to 100.
    queue: ClassVar[str] = DEFAULT_QUEUE
    priority: ClassVar[int] = 0
    #: How many of a key may run at once, and how often runs may begin.
    concurrency: ClassVar[Concurrency | None] = None
    rate: ClassVar[Rate | None] = None
    #: Whose turn it is goes round what this makes of the input.
    fair_by: ClassVar[str | Callable[[Any], object] | None] = None
    #: How many states are kept, so that `fork` can begin with one of the latest so many steps as it was.
    keep_states: ClassVar[int] = 0
    definition: ClassVar[Definition]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        steps = _collect_steps(cls)
        if steps:
            cls.definition = declare_schedule(
                _define(cls, steps),
                cron=cls.cron,
                every=cls.every,
                tz=cls.tz,
                overlap=cls.overlap,
                catch_up=cls.catch_up,
            )
            registry.register(cls.definition)

    def handle(self, error: Exception, ctx: StepContext) -> Returned:
        """What happens after an exception in a step; the default ends the instance as failed."""
        return Stop(describe_error(error))


def _check_method(method: object, name: str, *, atomic: bool = False) -> None:
    if not callable(method):
        raise InvalidDefinition(f"{name!r} must be a method, not {show(method)}")
    if inspect.isasyncgenfunction(method):
        raise InvalidDefinition(
            f"{name!r} is an async generator: a step returns one outcome, so write return for yield"
        )
    if atomic and inspect.iscoroutinefunction(method):
        raise InvalidDefinition(
            f"{name!r} is async and atomic: its transaction would stay open, with its locks, for as long as it waits. "
            "Await in a step of its own, and write in an atomic one after it"
        )


def _check_signature(method: Any) -> None:
    """A step is called with ctx alone, which is easily forgotten."""
    try:
        inspect.signature(method).bind("self", "ctx")
    except TypeError as error:
        name = method.__name__
        raise InvalidDefinition(f"step {name!r} takes self and ctx: write def {name}(self, ctx) ({error})") from error
    except ValueError:
        pass  # something callable that does not tell its arguments


def _collect_steps(cls: type[Workflow]) -> dict[str, StepOptions]:
    """Name -> options in order of declaration, inherited ones first; an override stays a step."""
    steps: dict[str, StepOptions] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            if isinstance(options := getattr(value, _MARK, None), StepOptions):
                steps[name] = options
    return steps


def _define(cls: type[Workflow], steps: dict[str, StepOptions]) -> Definition:
    source = f"{cls.__module__}.{cls.__qualname__}"
    try:
        name = check_text(vars(cls).get("name", cls.__name__), "its name")
        step_timeout = None if cls.step_timeout is None else parse_timeout(cls.step_timeout)
        if cls.on_event is not None:
            check_signal_name(cls.on_event, "on_event")
    except (InvalidDuration, WorkflowError) as error:
        raise InvalidDefinition(f"workflow {source}: {error}") from error
    for option in ("version", "max_attempts"):
        registry.check_count(source, option, getattr(cls, option))
    registry.check_kept(source, cls.keep_states)
    if cls.late_signals not in (CLOSE, RERUN):
        raise InvalidDefinition(
            f'workflow {source}: late_signals is "{CLOSE}" or "{RERUN}", not {show(cls.late_signals)}'
        )
    if taken := _RESERVED & steps.keys():
        raise InvalidDefinition(f"workflow {source}: {', '.join(taken)} cannot be the name of a step; it has a meaning")
    flow = read_flow_options(source, cls.queue, cls.priority, cls.concurrency, cls.rate, cls.fair_by)
    for method, options in {**steps, "handle": StepOptions()}.items():
        _check_method(getattr(cls, method), method, atomic=options.atomic)
    initial = getattr(cls, "initial", next(iter(steps)))
    if initial not in steps:
        raise InvalidDefinition(f"workflow {source}: initial = {initial!r} is none of its steps ({', '.join(steps)})")

    def run(ctx: Context) -> Outcome:
        assert isinstance(ctx, StepContext)
        return accept(getattr(cls(), ctx.step)(ctx), ctx.step)

    def handle(error: Exception, ctx: Context) -> Outcome:
        assert isinstance(ctx, StepContext)
        return accept(cls().handle(error, ctx), "handle")

    def accept(outcome: object, place: str) -> Outcome:
        if isinstance(outcome, CoroutineType):
            outcome = run_coroutine(outcome, f"{place!r} of workflow {name!r}")
        if not isinstance(outcome, Outcome):
            raise InvalidOutcome(
                f"{place!r} of workflow {name!r} returned {show(outcome)}; return Next, Await, Retry, Spawn, "
                "Done or Stop"
            )
        if isinstance(outcome, _LEADING_ON):
            target = outcome.step if isinstance(outcome, Next) else outcome.then
            if target not in steps:
                raise UnknownStep(name, target, list(steps))
        return outcome

    return Definition(
        name=name,
        version=cls.version,
        max_attempts=cls.max_attempts,
        step_timeout=step_timeout,
        initial=initial,
        steps=dict(steps),
        run=run,
        handle=handle,
        source=source,
        on_event=cls.on_event,
        late_signals=cls.late_signals,
        keep_states=cls.keep_states,
        reads_signals=True,
        workflow=cls,
        fingerprint=fingerprint_steps(steps),
        flow=flow,
    )
