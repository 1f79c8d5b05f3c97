"""What time alone changes: deadlines that pass and sleepers whose moment has come.

Invariant owned: an armed deadline never fires after an answer. Rows locked by a delivery are skipped,
and the status is checked again on the newest version after locking, so a row is either woken by its
answer or by its deadline.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import DatabaseError
from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.lifecycle import INTERACTION_CODES, Event, InteractionStatus
from workflows.store.channel_closing import PATIENCE, CloseFailed, listens, tell_closed, where_models_write
from workflows.store.sql import (
    AWAITING,
    CLOCK,
    LEDGER,
    NOTIFY_IDLE,
    NOW,
    PARKED,
    RUNNABLE,
    SLEEPING,
    atomic,
    becoming,
    compact,
    fetch,
    kind,
    wait_for_locks,
)

EXPIRED = INTERACTION_CODES[InteractionStatus.EXPIRED]

_DUE = f"i.{PARKED} AND i.due_at IS NOT NULL AND i.due_at <= {NOW} AND i.id <> ALL(%(skip)s::uuid[])"
#: Whether a question or an event's wait expires with it; the others write their own row only.
_ASKS = "coalesce(starts_with(i.names[1], 'holdpoint:'), false)"

_LIST = compact(f"""
    SELECT i.id::text, {_ASKS} FROM holdpoint_instance i WHERE {_DUE} ORDER BY i.due_at LIMIT %(limit)s
""")

#: What was asked expires with the wait, under the same lock. That it is still open is told by `closed_at`, in words
#: that no partial index has: one that is empty while the plan is made would be read whole ever after.
_CLOSE = f"""
    , n AS (
      UPDATE holdpoint_unit n SET status = {EXPIRED}, closed_at = {CLOCK}
      FROM u CROSS JOIN LATERAL (SELECT o.ctid FROM holdpoint_unit o
        WHERE o.id = u.unit OFFSET 0) o WHERE u.was = {AWAITING} AND n.ctid = o.ctid AND n.closed_at IS NULL
      RETURNING n.id
    ), x AS (
      UPDATE holdpoint_interaction x SET status = {EXPIRED}, closed_at = {CLOCK}, version = x.version + 1
      FROM n CROSS JOIN LATERAL (SELECT o.ctid FROM holdpoint_interaction o
        WHERE o.unit_id = n.id OFFSET 0) o WHERE x.ctid = o.ctid AND x.closed_at IS NULL
    ), w AS (
      UPDATE holdpoint_event_wait w SET closed_at = {CLOCK}
      FROM u CROSS JOIN LATERAL (SELECT o.ctid FROM holdpoint_event_wait o
        WHERE o.id = u.wait OFFSET 0) o WHERE u.was = {AWAITING} AND w.ctid = o.ctid
        AND coalesce(w.closed_at, 'infinity') = 'infinity'
    )"""


#: Tells also which interactions those were: only where a channel wants to hear it.
_TELLING = _CLOSE.replace(
    "WHERE x.ctid = o.ctid AND x.closed_at IS NULL\n", "WHERE x.ctid = o.ctid AND x.closed_at IS NULL RETURNING x.id\n"
)


def _expire(which: str, close: str, told: str = "") -> str:
    # A sleeper keeps `timed_out`: it may be retrying the step that a deadline woke.
    return compact(f"""
    WITH c AS MATERIALIZED (
      SELECT i.id, i.status FROM holdpoint_instance i WHERE {_DUE} {which}
      ORDER BY i.due_at LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
    ), u AS (
      UPDATE holdpoint_instance i SET timed_out = i.timed_out OR c.status <> {SLEEPING}, seq = i.seq + 1,
        {becoming(RUNNABLE, CLOCK)}
      FROM c WHERE i.id = c.id RETURNING i.id, i.seq, i.workspace_id, i.status, i.step, c.status AS was,
        CASE WHEN starts_with(i.names[1], 'holdpoint:unit:') THEN substr(i.names[1], 16)::uuid END AS unit,
        CASE WHEN starts_with(i.names[1], 'holdpoint:event:') THEN substr(i.names[1], 17)::uuid END AS wait
    ) {close}, l AS (
      {LEDGER}
      SELECT id, {CLOCK}, NULL, seq, workspace_id,
        CASE WHEN was = {SLEEPING} THEN {kind(Event.WOKE)} ELSE {kind(Event.TIMED_OUT)} END, status, '', step, NULL
      FROM u
    )
    SELECT count(*), CASE WHEN count(*) > 0 THEN {NOTIFY_IDLE} END {told} FROM u
""")


_EXPIRE = _expire("", _CLOSE)
#: While a table of what is asked is locked as a whole, no statement that names it can be executed.
_EXPIRE_PLAIN = _expire(f"AND NOT {_ASKS}", "")
_THESE = "AND i.id = ANY(%(only)s::uuid[])"
_EXPIRE_THESE = _expire(_THESE, _CLOSE)
_CLOSED = ", (SELECT array_agg(x.id) FROM x)"
_EXPIRE_TELLING = _expire("", _TELLING, _CLOSED)
_EXPIRE_THESE_TELLING = _expire(_THESE, _TELLING, _CLOSED)

#: When the next deadline passes: tests move the clock from one to the next.
_NEXT = compact(f"""
    SELECT extract(epoch FROM min(i.due_at) - {CLOCK})::float8 FROM holdpoint_instance i
    WHERE i.{PARKED} AND i.due_at IS NOT NULL
""")


def expire_due(db: BaseDatabaseWrapper, limit: int = 500, *, skip: Sequence[str] = (), plain: bool = False) -> int:
    """Wake what is due, but for some; how many. Call again while it returns `limit`.

    With `plain` only those that write nothing but their own row: nobody's question or event.
    """
    if listens() and not plain:
        return _expire_telling(db, _EXPIRE_TELLING, {"limit": limit, "skip": list(skip)})
    statement = _EXPIRE_PLAIN if plain else _EXPIRE
    return int(fetch(db, statement, {"limit": limit, "skip": list(skip)})[0][0])


def expire_these(db: BaseDatabaseWrapper, ids: Sequence[str], patience: float) -> int:
    """Wake those of these that are due, waiting for rows of others no longer than so many seconds; how many."""
    params = {"limit": len(ids), "skip": [], "only": list(ids)}
    if listens():
        return _expire_telling(db, _EXPIRE_THESE_TELLING, params, patience)
    with atomic(db):
        wait_for_locks(db, patience)
        return int(fetch(db, _EXPIRE_THESE, params)[0][0])


def _expire_telling(
    db: BaseDatabaseWrapper, statement: str, params: Mapping[str, Any], patience: float = PATIENCE
) -> int:
    """Where models write. What a channel raises is, like any other error of the database, the row's own trouble."""
    with where_models_write(db, patience) as writer:
        [(count, _, closed)] = fetch(writer, statement, params)
        try:
            tell_closed(writer, closed or [])
        except DatabaseError:
            raise
        except Exception as error:
            raise CloseFailed(f"{type(error).__name__}: {error}") from error
        return int(count)


def list_due(db: BaseDatabaseWrapper, limit: int = 500, *, skip: Sequence[str] = ()) -> tuple[list[str], list[str]]:
    """The ids of what `expire_due` would wake: those that ask nobody, and those that do."""
    found = fetch(db, _LIST, {"limit": limit, "skip": list(skip)})
    return [one for one, asks in found if not asks], [one for one, asks in found if asks]


def seconds_to_next(db: BaseDatabaseWrapper) -> float | None:
    """Seconds until the next armed moment; negative when it has passed, None when nothing is armed."""
    found: float | None = fetch(db, _NEXT, {})[0][0]
    return found
