"""Messages of providers that were taken: each one once.

Invariants owned: a receipt and the effect of its message are committed together or not at all; of two equal messages
at the same moment the second waits for the first, and then finds its answer or, when that one failed, takes its place.
A receipt is reserved before anything else is locked, like a stored answer.
"""

from __future__ import annotations

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.conf import conf
from workflows.store.sql import CLOCK, NOW, compact, fetch

#: Waits for whoever has just reserved the same; a committed one is recognised by there being no row back.
_RESERVE = compact(f"""
    INSERT INTO holdpoint_hook_receipt (workspace_id, at, hook, event_id, answer)
    VALUES (%(ws)s::int, {CLOCK}, %(hook)s::text, %(event)s::text, '')
    ON CONFLICT DO NOTHING RETURNING 1
""")

_MINE = "WHERE workspace_id = %(ws)s::int AND hook = %(hook)s::text AND event_id = %(event)s::text"
_READ = f"SELECT answer FROM holdpoint_hook_receipt {_MINE}"
_KEEP = f"UPDATE holdpoint_hook_receipt SET answer = %(answer)s::text {_MINE}"

#: Found by the index of their age, and deleted by their keys whatever the planner thinks of how many there are.
#: Bounded, because subtracting a very long time would leave the calendar.
_PRUNE = compact(f"""
    DELETE FROM holdpoint_hook_receipt WHERE id = ANY(ARRAY(
      SELECT id FROM holdpoint_hook_receipt
      WHERE at < {NOW} - least(%(keep)s::float8, 3e10) * interval '1 s'
      ORDER BY at LIMIT %(limit)s FOR UPDATE SKIP LOCKED))
    RETURNING 1
""")


def reserve_receipt(db: BaseDatabaseWrapper, workspace: int, hook: str, event: str) -> str | None:
    """Within a transaction: None if the message is ours to take, else the answer of the first time."""
    params = {"ws": workspace, "hook": hook, "event": event}
    while not fetch(db, _RESERVE, params):
        if rows := fetch(db, _READ, params):
            return str(rows[0][0])
        # The row of the first time was pruned between the two statements.
    return None


def keep_receipt(db: BaseDatabaseWrapper, workspace: int, hook: str, event: str, answer: str) -> None:
    """Write the answer, in the transaction that reserved the receipt."""
    fetch(db, _KEEP, {"ws": workspace, "hook": hook, "event": event, "answer": answer}, rows=False)


def prune_receipts(db: BaseDatabaseWrapper, batch: int = 5_000, batches: int = 20) -> int:
    """Delete receipts that are older than `HOOK_RETENTION`, so many at most: the next call goes on. How many."""
    deleted = 0
    for _ in range(batches):
        gone = len(fetch(db, _PRUNE, {"keep": conf.hook_retention, "limit": batch}))
        deleted += gone
        if gone < batch:
            break
    return deleted
