"""The words of the declarative style, as authors write them in the body of a `Machine`.

Nothing is checked here: what is wrong with the arguments is told when the class is made, which knows the name
that the stage was given. Typed as Any, because a stage's name means something else wherever it is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from workflows.styles.machine_stages import END as END
from workflows.styles.machine_stages import FAIL as FAIL
from workflows.styles.machine_stages import Action, Branch, Flow, Launch, Sleep, Stream, WaitFor


def action(fn: Callable[[Any], Any], *, then: str | None = None, atomic: bool = False) -> Any:
    """Call `fn(ctx)`; what it returns is the stage's result.

    `then` names the stage to go on with instead of the next one, or is END. `atomic=True` commits the
    function's own database writes together with the result.
    """
    return Action(fn, then, atomic=atomic)


def branch(fn: Callable[[Any], str], *, to: Iterable[str] | None = None) -> Any:
    """Go on with the stage that `fn(ctx)` names. `to` lists what it may name, to be checked at once."""
    return Branch(fn, to)


def expand(fn: Callable[[Any], Iterable[Any]]) -> Any:
    """Make many of one: the stages up to `collect` run once per item. Not available yet."""
    return Stream(fn)


def collect(fn: Callable[[Any], Any]) -> Any:
    """Make one of many: `fn` is called once all items have arrived. Not available yet."""
    return Stream(fn)


def wait_for(
    *,
    event: str | None = None,
    callback: bool = False,
    channel: Any = None,
    match: Mapping[str, Any] | Callable[[Any], Mapping[str, Any]] | None = None,
    timeout: object = None,
    on_timeout: str = FAIL,
    schema: Any = None,
    cardinality: str = "ONE_TO_ONE",
    each: bool = False,
    input: Any = None,
    projector: Callable[[Any, Any], Any] | None = None,
) -> Any:
    """Wait for a named event, for a partner's callback, or for the answer that comes by a channel.

    The answer is the stage's result, typed when `schema` is a class. `on_timeout` names the flow that runs
    when no answer came in time; its result is the instance's result. `projector(input, answer)` makes the
    trusted result of what somebody sent.
    """
    return WaitFor(event, callback, channel, match, timeout, on_timeout, schema, cardinality, each, input, projector)


def launch(workflow: Any, input: Any = None) -> Any:
    """Start another instance and go on without waiting for it; the result is `{"id": …}`."""
    return Launch(workflow, input)


def sleep(duration: object) -> Any:
    """Go on with the next stage after a while."""
    return Sleep(duration)


def flow(*stages: Any) -> Any:
    """A side path that a timeout or a branch may take; the result of its last stage ends the instance."""
    return Flow(stages)
