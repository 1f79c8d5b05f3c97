"""The words of the declarative style, as authors write them in the body of a `Machine`.

Nothing is checked here: what is wrong with the arguments is told when the class is made, which knows the name
that the stage was given. What they return is typed as Any, because a stage's name means something else wherever it
is read, and a machine that inherits may set it to None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

from workflows.styles.machine.parallel_stage import Parallel
from workflows.styles.machine.several_stage import WaitForSeveral
from workflows.styles.machine.stages import (
    FAIL,
    ActionStage,
    Branch,
    Collect,
    Expand,
    Flow,
    Launch,
    Sleep,
    WaitFor,
)

if TYPE_CHECKING:
    from workflows.definitions.channel import Channel
    from workflows.styles.machine.machine_context import MachineContext
    from workflows.values.types_of_signatures import (
        BodyKind,
        CardinalityName,
        Duration,
        OnItem,
        Projector,
        SchemaArgument,
        WorkflowRef,
    )


def action(fn: Callable[[MachineContext], Any], *, then: str | None = None, atomic: bool = False) -> Any:
    """Call `fn(ctx)`; what it returns is the stage's result.

    `then` names the stage to go on with instead of the next one, or is END. `atomic=True` commits the
    function's own database writes together with the result.
    """
    return ActionStage(fn, then, atomic=atomic)


def branch(fn: Callable[[MachineContext], str], *, to: Iterable[str] | None = None) -> Any:
    """Go on with the stage that `fn(ctx)` names. `to` lists what it may name, to be checked at once."""
    return Branch(fn, to)


def expand(
    fn: Callable[[MachineContext], Iterable[Any]],
    *,
    on_item: OnItem | None = None,
    concurrency: int | None = None,
) -> Any:
    """Make many of one: the stages after it run once for each item that `fn(ctx)` returns, up to `collect`.

    There an item is `ctx.item`. With `on_item="fail"` (the default) one failed item fails the instance; with
    "partial" it goes on, and each result says how its item ended. At most `concurrency` items (128 by default) are
    under way at once.
    """
    return Expand(fn, on_item, concurrency)


def collect(fn: Callable[..., Any]) -> Any:
    """Make one of many: `fn(ctx)` is called once, when each item of the stream is through.

    `ctx.items` has the results in the order of the items; a function of two arguments is passed them: `fn(ctx, items)`.
    """
    return Collect(fn)


def wait_for(
    *,
    event: str | None = None,
    signal: str | Iterable[str] | None = None,
    callback: bool = False,
    channel: str | Channel[Any] | Callable[[MachineContext], str | Channel[Any]] | None = None,
    match: Mapping[str, Any] | Callable[[MachineContext], Mapping[str, Any]] | None = None,
    timeout: Duration | None = None,
    on_timeout: str = FAIL,
    schema: SchemaArgument | None = None,
    cardinality: CardinalityName = "ONE_TO_ONE",
    each: bool = False,
    input: object | Callable[[MachineContext], object] = None,
    projector: Projector | None = None,
    body: BodyKind = "any",
    on_item: OnItem | None = None,
    concurrency: int | None = None,
    until: datetime | Callable[[MachineContext], datetime] | None = None,
    any_of: Mapping[str, object] | None = None,
    all_of: Mapping[str, object] | None = None,
) -> Any:
    """Wait for a named event, a plain signal, a partner's callback, or for the answer that comes by a channel.

    The answer is the stage's result, typed when `schema` is a class. `on_timeout` names the flow that runs
    when no answer came in time; its result is the instance's result. `projector(input, answer)` makes the
    trusted result of what somebody sent. `body` says what a partner posts to a callback: the answer itself ("raw"),
    `{"data": answer}` ("wrapped"), or either. `until`, a moment or a function that tells it, takes the place of
    `timeout`.

    `any_of` and `all_of` wait for several questions at once, each by an id of its own: a channel, `question(…)`,
    `callback()`, `event(…)`, `received(…)`, `child(…)`, `instance(…)`, `sleep(…)`, or a function of ctx that makes one.
    The result has the answers by these ids; what is still open when the stage is left is withdrawn.

    `each=True` asks about each item of a stream by itself; outside of one it opens one, of the list in `input` or of
    the list that the stage before it returned. `cardinality` says what is asked once: about a whole list
    (`MANY_TO_ONE`, `MANY_TO_MANY`: a stream ends here), or for a list (`ONE_TO_MANY`, `MANY_TO_MANY`: one begins).
    `on_item` and `concurrency` are those of `expand`, for the stage that opens the stream.
    """
    given = (
        event,
        callback,
        channel,
        match,
        timeout,
        on_timeout,
        schema,
        cardinality,
        each,
        input,
        projector,
        body,
        on_item,
        concurrency,
        signal,
        until,
    )
    return WaitFor(*given) if any_of is None and all_of is None else WaitForSeveral(*given, any_of, all_of)


def parallel(**branches: object) -> Any:
    """Run branches side by side, each a stage or a list of stages, and go on when all of them are through.

    Each branch goes on by itself: it calls, asks, sleeps and is tried again whatever the others do. Its result is that
    of its last stage, at `ctx.steps.<parallel>.<branch>`. `then=END` in a branch ends that branch. One that fails
    fails the machine, and what the others still ask is withdrawn.
    """
    return Parallel(branches)


def launch(workflow: WorkflowRef, input: object | Callable[[MachineContext], object] = None) -> Any:
    """Start another instance and go on without waiting for it; the result is `{"id": …}`."""
    return Launch(workflow, input)


def sleep(
    duration: Duration | None = None, *, until: datetime | Callable[[MachineContext], datetime] | None = None
) -> Any:
    """Go on with the next stage after a while, or at a moment; also what `ctx.ask` of a function takes."""
    return Sleep(duration, until)


def flow(*stages: object) -> Any:
    """A side path that a timeout or a branch may take; the result of its last stage ends the instance."""
    return Flow(stages)
