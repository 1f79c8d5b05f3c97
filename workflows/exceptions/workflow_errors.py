"""Workflows that cannot be registered or found, and calls on an instance that cannot be done.

Lives here: the errors of definitions, and those of `start`, `signal`, `cancel`, `retry`, `redrive` and `result`. Must
not live here: errors that a step meets while it runs. Invariant owned: the call changed nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from workflows.exceptions.base import WorkflowError, show

if TYPE_CHECKING:
    from workflows.models import Instance


class UnknownWorkflow(WorkflowError, LookupError):
    """Nothing is registered under this name, or not in this version."""

    def __init__(self, workflow: object, known: list[str]) -> None:
        self.workflow, self.known = workflow, known
        names = ", ".join(known) or "none"
        if isinstance(workflow, type) and any(one.__name__ == "Workflow" for one in workflow.__bases__):
            super().__init__(f"{workflow.__qualname__} has no steps: write @step above each method that is one")
            return
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


class UnknownQueue(WorkflowError, LookupError):
    """No workflow, setting or row names this queue."""

    def __init__(self, queue: object, known: list[str]) -> None:
        self.queue, self.known = queue, known
        super().__init__(
            f"there is no queue {show(queue)} (there are: {', '.join(known)}). Name it in a workflow (queue=…) or in "
            'WORKFLOWS["QUEUES"].'
        )


class UnknownLimit(WorkflowError, LookupError):
    """No workflow has a limit of this name."""

    def __init__(self, kind: str, name: object, known: list[str]) -> None:
        self.kind, self.name = kind, name
        super().__init__(
            f"no workflow has a {kind} limit {show(name)} (there are: {', '.join(known) or 'none'}); a limit is set in "
            "place of one that a workflow declares"
        )


class NoTarget(WorkflowError, LookupError):
    """No live instance is there to take the signal; nothing was stored."""

    def __init__(self, target: object) -> None:
        self.target = target
        super().__init__(
            f"no live instance for {target!r}: it has ended, never existed, or is in another workspace. "
            f"Nothing was stored.{_hint_at_id(target)}"
        )


def _hint_at_id(target: object) -> str:
    """Sessions and JSON turn an id into a text, and a text is a key."""
    try:
        id = UUID(target) if isinstance(target, str) else None
    except ValueError:
        return ""
    return (
        "" if id is None else f" A UUID written as text is a correlation key; to address by id pass uuid.UUID('{id}')."
    )


class NoReader(WorkflowError):
    """The workflow of the instance can never read a signal that is sent by name; nothing was stored."""

    def __init__(self, workflow: str) -> None:
        self.workflow = workflow
        super().__init__(
            f"workflow {workflow!r} is a function or a machine and reads no signals: answer what it asks with "
            "workflows.complete, or emit the event that it waits for. Nothing was stored."
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
    """`retry()` or `retry_item()` was refused; the message says which rule forbids it."""

    def __init__(self, instance_id: object, problem: str, *, item: str | None = None) -> None:
        what = f"instance {instance_id}" if item is None else f"{item!r}"
        super().__init__(f"{what} cannot be retried: {problem}")


class NotForkable(WorkflowError):
    """`fork()` was refused; the message says why the instance cannot go on from there."""

    def __init__(self, instance_id: object, problem: str) -> None:
        super().__init__(f"instance {instance_id} cannot be forked there: {problem}")


class UnknownPoint(WorkflowError, LookupError):
    """`fork()` names a point that the instance has not; `.points` are those that it has."""

    def __init__(self, at: object, points: list[str], what: str) -> None:
        self.at, self.points = at, points
        many = f" and {len(points) - 50} more" if len(points) > 50 else ""
        told = ", ".join(map(repr, points[:50])) + many if points else "none yet"
        super().__init__(f"at={show(at)} is none of its {what}; there are: {told}")


class NotRedrivable(WorkflowError):
    """`redrive()` was refused; the message says why the question is not sent again."""

    def __init__(self, interaction_id: object, problem: str) -> None:
        super().__init__(f"interaction {interaction_id} cannot be sent again: {problem}")


class UnknownSchedule(WorkflowError, LookupError):
    """No schedule of the workspace has this name."""

    def __init__(self, name: object) -> None:
        self.name = name
        super().__init__(
            f"no schedule of this workspace is called {show(name)}: workflows.schedule() makes one, and "
            "Schedule.objects lists them"
        )


class DuplicateSchedule(WorkflowError):
    """A schedule that is to be made is there."""

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(f"there is a schedule {name!r} in this workspace: change that one, or choose another name")


class WorkspaceFull(WorkflowError):
    """A workspace has as many schedules, or as many limits set at run time, as it may have."""

    def __init__(self, what: str, limit: int, setting: str) -> None:
        self.limit = limit
        super().__init__(
            f"this workspace has {limit} {what}, which is its limit: remove some that are not used any more, or raise "
            f'WORKFLOWS["{setting}"]'
        )


class ScheduleBusy(WorkflowError):
    """A schedule that skips while the last instance lives is to run now, and that one lives."""

    def __init__(self, name: str, instance_id: object) -> None:
        self.instance_id = instance_id
        super().__init__(
            f"schedule {name!r} does not run now: instance {instance_id}, which it started last, has not ended. "
            'Cancel that one, wait for its end, or give the schedule overlap="allow"'
        )


class NotCancellable(WorkflowError):
    """The instance has already ended."""

    def __init__(self, instance_id: object, status: str) -> None:
        self.status = status
        super().__init__(f"instance {instance_id} cannot be cancelled: it is {status} already")


#: Where work waits and nobody does it.
UNSERVED = "start manage.py workflow_worker --queue {queue}, or a worker that serves all queues."
NO_WORKER = "No worker shows a sign of life: start manage.py qcluster or workflow_worker."


class NotFinished(WorkflowError):
    """The instance has not ended yet."""

    def __init__(self, instance: Instance, hint: str = "") -> None:
        self.instance = instance
        why = f" ({instance.error})" if instance.error else ""
        super().__init__(
            f"instance {instance.id} is {instance.status} in step {instance.step!r}, not finished{why}"
            f"{'. ' if hint else ''}{hint}"
        )


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
