"""The project's say in which earlier events a wait may take.

Invariant owned: a policy that fails lets nothing through, and keeps nobody else's outcome.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows import store
from workflows.conf import conf
from workflows.definitions.awaited_event import EventSpec
from workflows.engine.policy import ask_policy, describe_event, tell_refused_event
from workflows.exceptions import PolicyRefused
from workflows.store import Claim
from workflows.values.json_text import dump_value

logger = logging.getLogger("workflows")


def make_permission(db: BaseDatabaseWrapper, claim: Claim, spec: EventSpec) -> Callable[[UUID, str], bool] | None:
    """Whether an event, by its id and who emitted it, may resume a wait that begins; None where there is no policy."""
    return None if conf.policy is None else partial(_ask_about_earlier, db, claim, spec)


def _ask_about_earlier(db: BaseDatabaseWrapper, claim: Claim, spec: EventSpec, id: UUID, actor: str) -> bool:
    """Ask the policy about an event that came before the wait; a refusal is told in the history of the instance."""
    wait = describe_event(
        spec.name,
        instance=UUID(claim.id),
        workspace=claim.workspace,
        match=spec.match,
        schema=None if spec.schema is None else spec.schema.json,
        channel=spec.channel,
    )
    try:
        ask_policy("resume", wait, actor)
    except Exception as error:
        if not isinstance(error, PolicyRefused):
            logger.exception("the policy could not be asked about event %r; the wait stays parked", spec.name)
        data = dump_value(tell_refused_event(spec.name, id, error), "a refusal")
        store.record_refusal(db, claim.id, actor=actor, data=data, fence=claim.fence)
        return False
    return True
