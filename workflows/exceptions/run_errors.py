"""Errors that a run of an author's code meets: waits and calls that ended badly, and rules of a run it has broken.

Lives here: what is raised into an author's step or function, or ends its run. Must not live here: which of them another
run would meet again. Invariant owned: `StepTimedOut` is no `Exception`, so no author's handler keeps a step alive.
"""

from __future__ import annotations

from workflows.exceptions.base import WorkflowError


class SignalCollision(WorkflowError):
    """A pending interaction of the workspace has this signal id already; that one keeps waiting."""

    def __init__(self, signal_id: str) -> None:
        self.signal_id = signal_id
        super().__init__(
            f"signal id {signal_id!r} is taken by another pending interaction of this workspace. It is free again when "
            "that one is answered, expires or is cancelled; put ctx.id into the id to make it your own."
        )


class SignalTimeoutError(WorkflowError):
    """The deadline of a wait passed without an answer."""

    def __init__(self, wait: str, index: int | None = None) -> None:
        #: The item whose time was over, counted from 0; None where one question was asked and not a list.
        self.wait, self.index = wait, index
        item = "" if index is None else f"item {index} of "
        super().__init__(f"{item}{wait!r} was not answered before its deadline")


class ChildFailed(WorkflowError):
    """An invoked child did not end well."""

    _how = "failed"

    def __init__(self, call: str, child: object, reason: str | None) -> None:
        self.call, self.child, self.reason = call, child, reason
        super().__init__(f"{call!r}: its child {child} {self._how}{f': {reason}' if reason else ''}")


class ChildCancelled(ChildFailed):
    """An invoked child was cancelled."""

    _how = "was cancelled"


class UnitFailed(WorkflowError):
    """What was asked cannot be answered any more: it was reported as failed, or one of several items was."""

    def __init__(self, wait: str, reason: str, index: int | None = None) -> None:
        #: The item that failed first, counted from 0; None where one question was asked and not a list.
        self.wait, self.reason, self.index = wait, reason, index
        item = "" if index is None else f"item {index}: "
        super().__init__(f"{wait!r} failed: {item}{reason}")


class CallRaised(WorkflowError):
    """A call of a function raised something in an earlier run, of a class that cannot be imported."""

    def __init__(self, text: str) -> None:
        super().__init__(
            f"{text} (raised in an earlier run; define its class at the top of a module to catch it by name)"
        )


class NonDeterministic(WorkflowError):
    """A function that is run again did not make the calls that it made before."""

    def __init__(self, position: int, saved: str, now: str) -> None:
        self.position, self.saved, self.now = position, saved, now
        super().__init__(
            f"call {position} of this workflow was {saved}, and is {now} in this run. A function must make the same "
            "calls in the same order each time: add new calls after the last saved one only, keep what changes between "
            "runs (time, random numbers, database reads) inside ctx.step(…), or register the changed function with a "
            "higher `version`."
        )


class DuplicateCheckpoint(NonDeterministic):
    """Two calls of one run have the same id."""

    def __init__(self, name: str) -> None:
        self.name = name
        WorkflowError.__init__(
            self,
            f"the id {name!r} is used by two calls of one run; give each call its own, in a loop e.g. f'{name}-{{n}}'",
        )


class LeftTransactionOpen(WorkflowError):
    """A step returned with a transaction of its own still open; it was rolled back."""

    def __init__(self, aliases: list[str]) -> None:
        self.aliases = aliases
        super().__init__(
            f"the step left a transaction open on {', '.join(aliases)}, which was rolled back: end what you begin "
            "(use `with transaction.atomic():`), or let @step(atomic=True) begin and end it for you"
        )


class StrictIsolation(WorkflowError):
    """A transaction stricter than READ COMMITTED cannot see what the lock of an event made it wait for."""

    def __init__(self, event: str, level: str, *, waits: bool) -> None:
        self.event, self.level = event, level
        if waits:
            super().__init__(
                f"an atomic step inside a {level.upper()} transaction cannot wait for event {event!r}: it could miss "
                "one that was emitted since it began. Wait in a step that is not atomic, or leave the isolation level "
                "at READ COMMITTED."
            )
        else:
            super().__init__(
                f"event {event!r} was emitted inside a {level.upper()} transaction, which could miss who began to wait "
                "for it since the transaction began. Emit after it: transaction.on_commit(lambda: "
                f"emit({event!r}, …)), in a workflow with ctx.emit(…); or leave the isolation level at READ COMMITTED."
            )


class EngineOwned(WorkflowError):
    """A row of the engine was about to be written past the store."""

    def __init__(self, model: str, calls: str = "") -> None:
        calls = calls or "workflows.start, signal, emit, complete, cancel or retry"
        super().__init__(f"{model} rows are written by the engine only. Use {calls}; reading through the ORM is fine.")


class ClaimLost(WorkflowError):
    """Another worker holds the instance now; this worker's outcome changed nothing."""

    def __init__(self, instance_id: object, fence: int) -> None:
        super().__init__(f"claim {fence} on instance {instance_id} is no longer valid; nothing was changed")


class StepTimedOut(BaseException):
    """Raised inside a step that ran longer than its `step_timeout`."""
