"""Telling whoever waits for the end of an instance.

A trigger marks who waits, in the transaction of the end. What is marked is told here, in a transaction of its own that
locks the one that waits, so that no end ever waits for the row of somebody else. Invariants owned:

* An end is told once, as a signal of the inbox; a question that was withdrawn meanwhile hears nothing.
* Rows that somebody holds are not waited for: whoever they belong to is told later, and nobody else is.
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
_LIST = compact(f"""
    SELECT c.instance_id, c.position {_DUE} AND (c.instance_id, c.position) > (%(instance)s::uuid, %(position)s::int)
    ORDER BY c.instance_id, c.position LIMIT %(limit)s
""")

#: Before all of them.
FIRST_END = (UUID(int=0), -1)

_WAKES = f"i.status = {AWAITING} AND s.name = ANY(i.names)"
#: An instance that failed may have been retried since: it failed all the same.
_TELL = compact(f"""
    WITH t AS (
      SELECT i.id, i.seq, i.workspace_id, o.position
      FROM holdpoint_instance i JOIN holdpoint_checkpoint o ON o.instance_id = i.id
      WHERE i.id = %(instance)s::uuid AND i.{LIVE} AND o.instance_id = %(instance)s::uuid
        AND o.position = %(position)s::int AND o.watch + 0 = {Watch.ENDED:d} FOR NO KEY UPDATE SKIP LOCKED
    ), c AS (
      UPDATE holdpoint_checkpoint c SET watch = {Watch.TOLD:d} FROM t
      WHERE c.instance_id = t.id AND c.position = t.position AND c.instance_id = %(instance)s::uuid
        AND c.position = %(position)s::int
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
      FOR NO KEY UPDATE SKIP LOCKED) t CROSS JOIN LATERAL (SELECT o.position FROM holdpoint_checkpoint o
      WHERE o.instance_id = t.id AND o.position = %(position)s::int AND o.watch + 0 = {Watch.ENDED:d}
      FOR NO KEY UPDATE SKIP LOCKED) o
    WHERE c.instance_id = %(instance)s::uuid AND c.position = %(position)s::int AND c.position = o.position RETURNING 1
""")


def seconds_to_ends(db: BaseDatabaseWrapper) -> float | None:
    """0 while somebody is to be told of an end; None for nobody."""
    seconds: float | None = fetch(db, _NEXT, {})[0][0]
    return seconds


def list_ends(db: BaseDatabaseWrapper, limit: int, after: tuple[UUID, int] = FIRST_END) -> Sequence[tuple[UUID, int]]:
    """Who is to be told: instances, and the place of the question among their checkpoints, from one of them on."""
    instance, position = after
    return fetch(db, _LIST, {"limit": limit, "instance": instance, "position": position})


def tell_end(db: BaseDatabaseWrapper, instance: UUID, position: int) -> bool:
    """Tell one of them, in a transaction of its own; one that has ended hears nothing. False for one held."""
    params = {"instance": instance, "position": position}
    [(live, _, _)] = fetch(db, _TELL, params)
    return bool(live) or bool(fetch(db, _FORGET, params))
