"""`WORKFLOWS["POLICY"]`: the project's say in who may suspend, resume and time out.

Invariant owned: the policy is asked before anything is written, and what it refuses is `PolicyRefused`.
It is a function `(operation, interaction, actor)` with operation "suspend", "resume" or "timeout"; it refuses
by returning False or a text (the reason), or by raising `PolicyRefused`; None and True allow. A wait for an event
has no interaction of its own: it is shown as one that was never saved.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from workflows.conf import conf
from workflows.exceptions import PolicyRefused


def ask_policy(operation: str, interaction: Any, actor: str) -> None:
    """Ask the project, if it has a policy; raises `PolicyRefused`."""
    policy = conf.policy
    if policy is None:
        return
    answer = policy(operation, interaction, actor)
    if answer is False or isinstance(answer, str):
        raise PolicyRefused(operation, answer or "")


def describe_event(
    event: str, *, instance: UUID, workspace: int, match: Mapping[str, Any], schema: Any, channel: str | None
) -> Any:
    """A wait for an event under the names that a question has: `signal_id` is the event's name, `request` its match."""
    from workflows.lifecycle import InteractionStatus
    from workflows.models import Interaction

    return Interaction(
        id=None,
        instance_id=instance,
        workspace_id=workspace,
        status=InteractionStatus.PENDING,
        owned=False,
        channel=channel or "event",
        signal_id=event,
        request=dict(match),
        schema=schema,
    )


def describe_wait(wait: Any) -> Any:
    """The same of the row of a wait."""
    return describe_event(
        wait.event,
        instance=wait.instance_id,
        workspace=wait.workspace_id,
        match=wait.match,
        schema=wait.schema,
        channel=wait.channel,
    )


def tell_refused_event(event: str, id: UUID, error: Exception) -> dict[str, str]:
    """What the history of an instance tells of an event that was kept from it."""
    return {
        "operation": "resume",
        "event": event,
        "id": str(id),
        "refused": type(error).__name__,
        "reason": str(error)[:1000],
    }
