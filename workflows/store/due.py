"""What time alone changes: deadlines that pass and sleepers whose moment has come.

Invariant owned: an armed deadline never fires after an answer. Rows locked by a delivery are skipped,
and the status is checked again on the newest version after locking, so a row is either woken by its
answer or by its deadline.
"""

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.lifecycle import Event
from workflows.store.sql import (
    CLOCK,
    LEDGER,
    NOTIFY_IDLE,
    NOW,
    PARKED,
    RUNNABLE,
    SLEEPING,
    becoming,
    compact,
    fetch,
    kind,
)

#: A sleeper keeps `timed_out`: it may be retrying the step that a deadline woke.
_EXPIRE = compact(f"""
    WITH c AS MATERIALIZED (
      SELECT i.id, i.status FROM holdpoint_instance i
      WHERE i.{PARKED} AND i.due_at IS NOT NULL AND i.due_at <= {NOW}
      ORDER BY i.due_at LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
    ), u AS (
      UPDATE holdpoint_instance i SET timed_out = i.timed_out OR c.status <> {SLEEPING}, seq = i.seq + 1,
        {becoming(RUNNABLE, CLOCK)}
      FROM c WHERE i.id = c.id RETURNING i.id, i.seq, i.workspace_id, i.status, i.step, c.status AS was
    ), l AS (
      {LEDGER}
      SELECT id, {CLOCK}, NULL, seq, workspace_id,
        CASE WHEN was = {SLEEPING} THEN {kind(Event.WOKE)} ELSE {kind(Event.TIMED_OUT)} END, status, '', step, NULL
      FROM u
    )
    SELECT count(*), CASE WHEN count(*) > 0 THEN {NOTIFY_IDLE} END FROM u
""")

#: When the next deadline passes: tests move the clock from one to the next.
_NEXT = compact(f"""
    SELECT extract(epoch FROM min(i.due_at) - {CLOCK})::float8 FROM holdpoint_instance i
    WHERE i.{PARKED} AND i.due_at IS NOT NULL
""")


def expire_due(db: BaseDatabaseWrapper, limit: int = 500) -> int:
    """Wake what is due; how many. Call again while it returns `limit`."""
    return int(fetch(db, _EXPIRE, {"limit": limit})[0][0])


def seconds_to_next(db: BaseDatabaseWrapper) -> float | None:
    """Seconds until the next armed moment; negative when it has passed, None when nothing is armed."""
    found: float | None = fetch(db, _NEXT, {})[0][0]
    return found
