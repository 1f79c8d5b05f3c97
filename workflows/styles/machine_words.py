"""The words of the declarative style, as authors write them in the body of a `Machine`.

Nothing is checked here: what is wrong with the arguments is told when the class is made, which knows the name
that the stage was given. What they return is typed as Any, because a stage's name means something else wherever it
is read, and a machine that inherits may set it to None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from workflows.styles.machine_stages import END as END
from workflows.styles.machine_stages import FAIL as FAIL
from workflows.styles.machine_stages import Action, Branch, Flow, Launch, Sleep, Stream, WaitFor

if TYPE_CHECKING:
    from workflows.styles.machine_context import MachineContext
    from workflows.typed import BodyKind, CardinalityName, Duration, Projector, SchemaValue, WorkflowRef
    from workflows.waits import Channel


def action(fn: Callable[[MachineContext], Any], *, then: str | None = None, atomic: bool = False) -> Any:
    """Call `fn(ctx)`; what it returns is the stage's result.

    `then` names the stage to go on with instead of the next one, or is END. `atomic=True` commits the
    function's own database writes together with the result.
    """
    return Action(fn, then, atomic=atomic)


def branch(fn: Callable[[MachineContext], str], *, to: Iterable[str] | None = None) -> Any:
    """Go on with the stage that `fn(ctx)` names. `to` lists what it may name, to be checked at once."""
    return Branch(fn, to)


def expand(fn: Callable[[MachineContext], Iterable[Any]]) -> Any:
    """Make many of one: the stages up to `collect` run once per item. Not available yet."""
    return Stream(fn)


def collect(fn: Callable[[MachineContext], Any]) -> Any:
    """Make one of many: `fn` is called once all items have arrived. Not available yet."""
    return Stream(fn)


def wait_for(
    *,
    event: str | None = None,
    callback: bool = False,
    channel: str | Channel[Any] | Callable[[MachineContext], str | Channel[Any]] | None = None,
    match: Mapping[str, Any] | Callable[[MachineContext], Mapping[str, Any]] | None = None,
    timeout: Duration | None = None,
    on_timeout: str = FAIL,
    schema: type[Any] | SchemaValue | None = None,
    cardinality: CardinalityName = "ONE_TO_ONE",
    each: bool = False,
    input: object | Callable[[MachineContext], object] = None,
    projector: Projector | None = None,
    body: BodyKind = "any",
) -> Any:
    """Wait for a named event, for a partner's callback, or for the answer that comes by a channel.

    The answer is the stage's result, typed when `schema` is a class. `on_timeout` names the flow that runs
    when no answer came in time; its result is the instance's result. `projector(input, answer)` makes the
    trusted result of what somebody sent. `body` says what a partner posts to a callback: the answer itself ("raw"),
    `{"data": answer}` ("wrapped"), or either.
    """
    return WaitFor(
        event, callback, channel, match, timeout, on_timeout, schema, cardinality, each, input, projector, body
    )


def launch(workflow: WorkflowRef, input: object | Callable[[MachineContext], object] = None) -> Any:
    """Start another instance and go on without waiting for it; the result is `{"id": …}`."""
    return Launch(workflow, input)


def sleep(duration: Duration) -> Any:
    """Go on with the next stage after a while."""
    return Sleep(duration)


def flow(*stages: Any) -> Any:
    """A side path that a timeout or a branch may take; the result of its last stage ends the instance."""
    return Flow(stages)
