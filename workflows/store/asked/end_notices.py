"""Telling whoever waits for the end of an instance.

A trigger marks who waits, in the transaction of the end. What is marked is told here, in a transaction of its own that
locks the one that waits, so that no end ever waits for the row of somebody else. Invariant owned: an end is told once,
as a signal of the inbox; a question that was withdrawn meanwhile hears nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.definitions.awaited_kinds import END
from workflows.lifecycle import FIRST_TERMINAL, Event, Watch
from workflows.store.sql import (
    AWAITING,
    CANCELLED,
    CLOCK,
    DONE,
    LEDGER,
    LIVE,
    NOTIFY_IDLE,
    RUNNABLE,
    becoming,
    compact,
    fetch,
    kind,
)

_DUE = f"FROM holdpoint_checkpoint c WHERE c.watch = {Watch.ENDED:d}"
_NEXT = f"SELECT CASE WHEN EXISTS (SELECT {_DUE}) THEN 0.0 END::float8"
_LIST = f"SELECT c.instance_id, c.position {_DUE} ORDER BY c.instance_id, c.position LIMIT %(limit)s"

_WAKES = f"i.status = {AWAITING} AND s.name = ANY(i.names)"
#: An instance that failed may have been retried since: it failed all the same.
_TELL = compact(f"""
    WITH t AS (
      SELECT i.id, i.seq, i.workspace_id FROM holdpoint_instance i
      WHERE i.id = %(instance)s::uuid AND i.{LIVE} FOR NO KEY UPDATE
    ), c AS (
      UPDATE holdpoint_checkpoint c SET watch = {Watch.TOLD:d} FROM t
      WHERE c.instance_id = t.id AND c.position = %(position)s::int AND c.watch = {Watch.ENDED:d}
      RETURNING c.child_id
    ), s AS (
      INSERT INTO holdpoint_signal(instance_id, received_at, n, workspace_id, name, source, payload)
      SELECT t.id, {CLOCK}, t.seq + 1, t.workspace_id, '{END}' || c.child_id, '', jsonb_build_object(
        'status', CASE e.status WHEN {DONE} THEN 'done' WHEN {CANCELLED} THEN 'cancelled' ELSE 'failed' END,
        'error', e.error, 'at', coalesce(e.finished_at, {CLOCK}))
      FROM t, c LEFT JOIN LATERAL (
        SELECT h.status, h.error, h.finished_at FROM holdpoint_instance h WHERE h.id = c.child_id OFFSET 0) e ON true
      RETURNING instance_id, n, name
    ), u AS (
      UPDATE holdpoint_instance i SET inbox = i.inbox + 1, seq = s.n,
        {
    becoming(
        f"CASE WHEN {_WAKES} THEN {RUNNABLE} ELSE i.status END",
        f"CASE WHEN {_WAKES} THEN {CLOCK} ELSE i.due_at END",
        may_end=False,
    )
}
      FROM s WHERE i.id = s.instance_id RETURNING i.id, i.seq, i.workspace_id, i.status, s.name
    ), l AS (
      {LEDGER}
      SELECT u.id, {CLOCK}, NULL, u.seq, u.workspace_id, {kind(Event.SIGNALLED)}, u.status, '', u.name, NULL FROM u
    )
    SELECT (SELECT count(*) FROM t), (SELECT count(*) FROM u),
      CASE WHEN EXISTS (SELECT FROM u WHERE u.status = {RUNNABLE}) THEN {NOTIFY_IDLE} END
""")
#: Whoever wanted to know has ended; one that was retried meanwhile is told by the next look.
_FORGET = compact(f"""
    UPDATE holdpoint_checkpoint c SET watch = {Watch.NONE:d}
    FROM (SELECT i.id FROM holdpoint_instance i WHERE i.id = %(instance)s::uuid AND i.status >= {FIRST_TERMINAL}
      FOR NO KEY UPDATE) t
    WHERE c.instance_id = t.id AND c.instance_id = %(instance)s::uuid AND c.position = %(position)s::int
      AND c.watch = {Watch.ENDED:d}
""")


def seconds_to_ends(db: BaseDatabaseWrapper) -> float | None:
    """0 while somebody is to be told of an end; None for nobody."""
    seconds: float | None = fetch(db, _NEXT, {})[0][0]
    return seconds


def list_ends(db: BaseDatabaseWrapper, limit: int) -> Sequence[tuple[UUID, int]]:
    """Who is to be told: instances, and the place of the question among their checkpoints."""
    return fetch(db, _LIST, {"limit": limit})


def tell_end(db: BaseDatabaseWrapper, instance: UUID, position: int) -> None:
    """Tell one of them, in a transaction of its own; one that has ended hears nothing."""
    params = {"instance": instance, "position": position}
    [(live, _, _)] = fetch(db, _TELL, params)
    if not live:
        fetch(db, _FORGET, params, rows=False)
