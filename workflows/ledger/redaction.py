"""Erasing the payload of a row of the history.

Lives here: who may name the row and why. Must not live here: SQL. Invariant owned: the row itself stays and still
verifies, and another row says who erased its payload.
"""

from __future__ import annotations

from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.definitions.workspace import current_workspace
from workflows.exceptions import InvalidCall
from workflows.store.ledger import tombstones
from workflows.store.sql import in_transaction
from workflows.values.json_text import check_text


def redact(
    db: BaseDatabaseWrapper, instance: UUID, seq: int, *, actor: str, reason: str, workspace: str | None = None
) -> int:
    """Erase the payload of one ledger row for good; the number of the row that says so.

    `instance` may also be the id of a unit of items, or of an item, whose history it is. The row itself stays and still
    verifies. Beside the ledger only the traceback of a failure goes that the row told of: the instance's own state and
    error, its signals and its answers are separate rows.
    """
    actor = check_text(actor, "the actor of a redaction")
    reason = check_text(reason, "the reason of a redaction", limit=1000)
    scope = current_workspace(workspace)

    def work() -> int:
        if not tombstones.instance_is_here(db, instance, scope):
            raise InvalidCall(f"there is no instance {instance} in this workspace: it was pruned, or is in another one")
        number = tombstones.redact_row(db, instance, seq, actor=actor, reason=reason)
        if number is None:
            raise InvalidCall(f"row {seq} of instance {instance} has no payload to redact")
        return number

    return in_transaction(db, work)
