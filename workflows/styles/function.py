"""Function style: a function that is run again from its top, and finds what it did before.

    @durable(name="outreach")
    def outreach(ctx, contact):
        draft = ctx.step("draft", write_draft, contact)
        answer = ctx.wait_for_signal("gate", timeout="48h")
        return {"sent": answer["approved"], "draft": draft}

Lives here: the decorator and the protocol; what `ctx` offers is in `calls`. Invariant owned: a suspension
reaches the engine whatever the author catches. It is a `BaseException`, and where even that was swallowed,
`ctx` remembers it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, overload

from workflows import registry
from workflows.context import Context
from workflows.durations import parse_timeout
from workflows.exceptions import InvalidDefinition, InvalidDuration, WorkflowError, show
from workflows.fingerprint import fingerprint_function
from workflows.jsontext import check_signal_name, check_text
from workflows.outcomes import Done, Outcome
from workflows.registry import DEFAULT_MAX_ATTEMPTS, Definition, StepOptions
from workflows.styles.calls import FunctionContext, Suspended, refuse_async
from workflows.styles.errors import settle_error

Function = TypeVar("Function", bound=Callable[..., Any])

#: The one step of a function.
RUN = "run"


@overload
def durable(function: Function) -> Function: ...
@overload
def durable(
    *,
    name: str | None = None,
    version: int = 1,
    max_attempts: int = DEFAULT_MAX_ATTEMPTS,
    step_timeout: object = None,
    on_event: str | None = None,
) -> Callable[[Function], Function]: ...
def durable(
    function: Any = None,
    *,
    name: str | None = None,
    version: int = 1,
    max_attempts: int = DEFAULT_MAX_ATTEMPTS,
    step_timeout: object = None,
    on_event: str | None = None,
) -> Any:
    """Make a function `f(ctx, **input)` a workflow; `name` defaults to its own."""

    def make(fn: Any) -> Any:
        fn.definition = _define(fn, name, version, max_attempts, step_timeout, on_event)
        registry.register(fn.definition)
        return fn

    return make if function is None else make(function)


def _define(
    fn: Any, name: str | None, version: int, max_attempts: int, step_timeout: object, on_event: str | None
) -> Definition:
    if not inspect.isfunction(fn):
        raise InvalidDefinition(f"@durable makes a function a workflow, not {show(fn)}")
    source = f"{fn.__module__}.{fn.__qualname__}"
    refuse_async(fn, f"workflow {source}", InvalidDefinition)
    try:
        named = check_text(fn.__name__ if name is None else name, "its name")
        seconds = None if step_timeout is None else parse_timeout(step_timeout)
        if on_event is not None:
            check_signal_name(on_event, "on_event=")
    except (InvalidDuration, WorkflowError) as error:
        raise InvalidDefinition(f"workflow {source}: {error}") from error
    for option, value in (("version", version), ("max_attempts", max_attempts)):
        registry.check_count(source, option, value)
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
        if ctx.suspended is not None:
            return ctx.suspended.outcome
        ctx.refuse_unmade_calls()
        return Done(result)

    return Definition(
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
        make_context=FunctionContext,
    )
