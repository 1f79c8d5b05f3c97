"""The errors of the engine: one tree, each class names a condition and words its own message.

    WorkflowError
    ├── InvalidCall (ValueError)        the caller's argument is wrong; nothing was stored
    │   ├── NotSerializable             a value that JSON in PostgreSQL cannot hold, with its path
    │   ├── TooLarge                    a payload, state, result or body above its limit
    │   ├── InvalidDuration             a timeout or delay that is zero, negative or unreadable
    │   ├── InvalidInput                an input the workflow does not accept; `.errors`
    │   └── InvalidOutcome              a step returned something that is not an outcome
    │       └── UnknownStep             an outcome names a step that the workflow does not have
    ├── UnknownWorkflow                 no workflow of that name (and version) is registered
    ├── DuplicateWorkflow               two definitions claim one name and version
    ├── InvalidDefinition               a workflow class cannot work as it is written
    ├── UnknownWorkspace                no workspace has that slug
    ├── NoTarget                        no live instance there to take the signal
    │   └── InvalidTarget (TypeError)   the target is not an Instance, a UUID or a str key
    ├── DuplicateKey                    a live instance of the workspace holds the key; `.instance`
    ├── NotRetryable                    only a failed instance nobody replaced or counted can be retried
    ├── NotCancellable                  the instance has already ended
    ├── NotFinished                     `result()` was asked before the end
    ├── InstanceFailed                  `result()` of a failed instance; `.instance`
    ├── InstanceCancelled               `result()` of a cancelled instance; `.instance`
    ├── LeftTransactionOpen             a step returned with a transaction of its own still open
    ├── EngineOwned                     a model was written past the store
    └── ClaimLost                       a stale worker tried to commit; nothing changed

`StepTimedOut` stands outside: it is a `BaseException`, so that an author's `except Exception` cannot
keep a step alive past its limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workflows.models import Instance


def show(value: object) -> str:
    """A value in a message: short, and readable even where its `repr` fails."""
    try:
        return f"{value!r:.80}"
    except Exception:
        return f"<{type(value).__name__} that cannot be shown>"


class WorkflowError(Exception):
    """Whatever the engine refuses or reports."""


class InvalidCall(WorkflowError, ValueError):
    """An argument is wrong; the message says what to write instead. Nothing was stored."""


class NotSerializable(InvalidCall):
    """A value that cannot be kept as JSON in PostgreSQL."""

    def __init__(self, what: str, path: str, problem: str) -> None:
        self.what, self.path, self.problem = what, path, problem
        super().__init__(f"{what} cannot be stored: at {path}, {problem}")


class TooLarge(InvalidCall):
    """A value above its limit."""

    def __init__(self, what: str, size: int, limit: int) -> None:
        self.what, self.size, self.limit = what, size, limit
        super().__init__(
            f"{what} is {size} bytes as JSON, the limit is {limit}. "
            "Keep the large part elsewhere and pass a reference to it."
        )


class InvalidDuration(InvalidCall):
    """A duration that is not positive or not readable."""

    def __init__(self, value: object, problem: str) -> None:
        self.value = value
        super().__init__(
            f"{show(value)} is not a usable duration: {problem}. "
            'Write "30m", "24h", "7d", "1h30m", ISO 8601 such as "PT24H", seconds, or a timedelta.'
        )


class InvalidInput(InvalidCall):
    """The workflow does not accept this input; `.errors` maps a field to what is wrong with it."""

    def __init__(self, workflow: str, errors: Mapping[str, Any]) -> None:
        self.workflow, self.errors = workflow, dict(errors)
        told = "; ".join(f"{field}: {problem}" for field, problem in self.errors.items())
        super().__init__(f"workflow {workflow!r} does not accept this input: {told}")


class InvalidOutcome(InvalidCall):
    """A step returned something the engine cannot commit."""


class UnknownStep(InvalidOutcome):
    """An outcome leads to a step that does not exist."""

    def __init__(self, workflow: str, step: object, known: list[str]) -> None:
        self.workflow, self.step = workflow, step
        super().__init__(f"workflow {workflow!r} has no step {show(step)}; it has {', '.join(known)}")


class UnknownWorkflow(WorkflowError, LookupError):
    """Nothing is registered under this name, or not in this version."""

    def __init__(self, workflow: object, known: list[str]) -> None:
        self.workflow = workflow
        names = ", ".join(known) or "none"
        super().__init__(
            f"no workflow {show(workflow)} is registered (registered: {names}). Workflows are found in the "
            "workflows.py of each installed app."
        )


class DuplicateWorkflow(WorkflowError):
    """Two definitions claim one name and version."""

    def __init__(self, name: str, version: int, first: str, second: str) -> None:
        super().__init__(
            f"workflow {name!r} version {version} is defined twice, in {first} and in {second}. "
            "Give one of them another `name`, or raise `version` when it replaces the other."
        )


class InvalidDefinition(WorkflowError):
    """A workflow cannot work as it is written; raised when its class is made."""


class UnknownWorkspace(WorkflowError, LookupError):
    """No workspace has this slug."""

    def __init__(self, slug: object) -> None:
        self.slug = slug
        super().__init__(f"there is no workspace {slug!r}; make it with workflows.workspace.create({slug!r})")


class NoTarget(WorkflowError, LookupError):
    """No live instance is there to take the signal; nothing was stored."""

    def __init__(self, target: object) -> None:
        self.target = target
        super().__init__(
            f"no live instance for {target!r}: it has ended, never existed, or is in another workspace. "
            "Nothing was stored."
        )


class InvalidTarget(NoTarget, TypeError):
    """The target is of a kind that addresses nothing."""

    def __init__(self, target: object) -> None:
        self.target = target
        Exception.__init__(
            self,
            f"{show(target)} is no target: pass an Instance or its UUID to address by id, or a str to address "
            "by correlation key (a UUID written as text is a key; wrap it in uuid.UUID to use it as an id)",
        )


class DuplicateKey(WorkflowError):
    """A live instance of the workspace already holds the key; `.instance` is that one."""

    def __init__(self, key: str, instance: Instance | None) -> None:
        self.key, self.instance = key, instance
        held = f"instance {instance.id} ({instance.workflow})" if instance else "an instance that just ended"
        super().__init__(f"key {key!r} is held by {held}. Signal that one, or start again when it has ended.")


class NotRetryable(WorkflowError):
    """`retry()` was refused; the message says which rule forbids it."""

    def __init__(self, instance_id: object, problem: str) -> None:
        super().__init__(f"instance {instance_id} cannot be retried: {problem}")


class NotCancellable(WorkflowError):
    """The instance has already ended."""

    def __init__(self, instance_id: object, status: str) -> None:
        self.status = status
        super().__init__(f"instance {instance_id} cannot be cancelled: it is {status} already")


class NotFinished(WorkflowError):
    """The instance has not ended yet."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        why = f" ({instance.error})" if instance.error else ""
        super().__init__(f"instance {instance.id} is {instance.status} in step {instance.step!r}, not finished{why}")


class InstanceFailed(WorkflowError):
    """The instance ended as failed; `.instance.error` holds the reason."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        super().__init__(f"instance {instance.id} ({instance.workflow}) failed: {instance.error}")


class InstanceCancelled(WorkflowError):
    """The instance was cancelled; `.instance.error` holds the reason given."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        reason = f": {instance.error}" if instance.error else ""
        super().__init__(f"instance {instance.id} ({instance.workflow}) was cancelled{reason}")


class LeftTransactionOpen(WorkflowError):
    """A step returned with a transaction of its own still open; it was rolled back."""

    def __init__(self, aliases: list[str]) -> None:
        self.aliases = aliases
        super().__init__(
            f"the step left a transaction open on {', '.join(aliases)}, which was rolled back: end what you begin "
            "(use `with transaction.atomic():`), or let @step(atomic=True) begin and end it for you"
        )


class EngineOwned(WorkflowError):
    """A row of the engine was about to be written past the store."""

    def __init__(self, model: str) -> None:
        super().__init__(
            f"{model} rows are written by the engine only. "
            "Use workflows.start, signal, cancel or retry; reading through the ORM is fine."
        )


class ClaimLost(WorkflowError):
    """Another worker holds the instance now; this worker's outcome changed nothing."""

    def __init__(self, instance_id: object, fence: int) -> None:
        super().__init__(f"claim {fence} on instance {instance_id} is no longer valid; nothing was changed")


class StepTimedOut(BaseException):
    """Raised inside a step that ran longer than its `step_timeout`."""
