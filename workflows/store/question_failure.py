"""A single question that can no longer be answered, and the way back from there.

Invariants owned:

* The failure is a signal of the inbox, as an answer is: a park that comes after it sees it, and it wakes once.
* A question is asked again only where its instance still waits for it, or failed of it. It is the same one: its id, its
  address and its resume URL stay, so whoever had it can still answer it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.lifecycle import INTERACTION_CODES, STATUS_OF, Event, InteractionStatus, Status
from workflows.store.channel_closing import listens, tell_closed
from workflows.store.sql import (
    AWAITING,
    CLOCK,
    LEDGER,
    LIVE,
    NOTIFY_IDLE,
    NOW,
    RUNNABLE,
    atomic,
    becoming,
    compact,
    fetch,
    kind,
    retrying,
)

PENDING = INTERACTION_CODES[InteractionStatus.PENDING]
FAILED = INTERACTION_CODES[InteractionStatus.FAILED]
#: The source of the signal that says so.
FAILURE = "holdpoint:failed"

_WAKES = f"(m.was = {AWAITING} AND 'holdpoint:unit:' || x.unit_id = ANY(m.names))"
_BECOMES = f"CASE WHEN x.wakes THEN {RUNNABLE} ELSE i.status END"
_BECOMES_DUE = f"CASE WHEN x.wakes THEN {CLOCK} ELSE i.due_at END"

#: Of one whose deadline has passed nothing is said: it expires.
_FAIL = compact(f"""
    WITH t AS (
      SELECT i.id, i.seq, i.workspace_id, i.status AS was, i.names FROM holdpoint_instance i
      WHERE i.id = (SELECT o.instance_id FROM holdpoint_interaction o WHERE o.id = %(id)s::uuid) AND i.{LIVE}
      FOR NO KEY UPDATE
    ), m AS MATERIALIZED (
      SELECT t.*, {CLOCK} AS at FROM t
    ), x AS (
      UPDATE holdpoint_interaction x SET closed_at = m.at, version = x.version + 1, status = {FAILED},
        actor = %(actor)s::text, dispatch_at = NULL, error = %(reason)s::text
      FROM m WHERE x.id = %(id)s::uuid AND x.instance_id = m.id AND x.status + 0 = {PENDING}
        AND coalesce(x.deadline > m.at, true)
      RETURNING x.id, x.unit_id, m.id AS instance_id, m.seq + 1 AS n, m.workspace_id, m.at,
        'holdpoint:unit:' || x.unit_id AS name, {_WAKES} AS wakes
    ), un AS (
      UPDATE holdpoint_unit n SET failed = n.failed + 1, status = {FAILED}, closed_at = x.at, released_at = x.at
      FROM x WHERE n.id = x.unit_id RETURNING n.step
    ), s AS (
      INSERT INTO holdpoint_signal(instance_id, received_at, n, workspace_id, name, source, payload)
      SELECT x.instance_id, x.at, x.n, x.workspace_id, x.name, '{FAILURE}',
        jsonb_build_object('wait', un.step, 'reason', %(reason)s::text) FROM x, un
    ), u AS (
      UPDATE holdpoint_instance i SET seq = x.n, inbox = i.inbox + 1,
        {becoming(_BECOMES, _BECOMES_DUE, may_end=False)}
      FROM x WHERE i.id = x.instance_id
      RETURNING i.id, i.seq, i.workspace_id, i.status, x.name
    ), l AS (
      {LEDGER}
      SELECT u.id, {CLOCK}, NULL, u.seq, u.workspace_id, {kind(Event.SIGNALLED)}, u.status, %(actor)s::text, u.name,
        jsonb_build_object('failed', %(reason)s::text) FROM u
    )
    SELECT u.id, CASE WHEN u.status = {RUNNABLE} THEN {NOTIFY_IDLE} END FROM u
""")

#: Of an instance that ended by it or still waits for it, and whose row is locked. A function that went on from the
#: failure did not fail of it: then its question stays as it is. The question gets the time that it had at first.
_REVIVE = compact(f"""
    WITH s AS (
      UPDATE holdpoint_signal s SET consumed_at = {CLOCK}, consumed_by = 0
      FROM holdpoint_instance i
      WHERE s.instance_id = %(id)s::uuid AND i.id = s.instance_id AND s.consumed_at IS NULL AND s.source = '{FAILURE}'
        AND s.name = ANY(i.names) AND (%(live)s OR NOT EXISTS (
          SELECT FROM holdpoint_checkpoint c WHERE c.instance_id = %(id)s::uuid AND NOT c.blamed
            AND c.unit_id = substr(s.name, 16)::uuid))
      RETURNING substr(s.name, 16)::uuid AS unit
    ), i AS (
      UPDATE holdpoint_instance i SET inbox = i.inbox - q.n FROM (SELECT count(*)::int AS n FROM s) q
      WHERE i.id = %(id)s::uuid AND q.n > 0
    ), n AS (
      UPDATE holdpoint_unit n SET failed = n.failed - 1, status = {PENDING}, closed_at = NULL, released_at = NULL,
        deadline = {NOW} + (n.deadline - n.created_at)
      WHERE n.id = ANY(ARRAY(SELECT s.unit FROM s)) AND n.status + 0 = {FAILED} RETURNING n.id
    ), c AS (
      UPDATE holdpoint_checkpoint c SET blamed = false
      WHERE c.instance_id = %(id)s::uuid AND c.blamed AND c.unit_id = ANY(ARRAY(SELECT n.id FROM n))
    )
    UPDATE holdpoint_interaction x SET status = {PENDING}, closed_at = NULL, version = x.version + 1, actor = '',
      deadline = {NOW} + (x.deadline - x.created_at), tries = 0, dispatch_error = NULL, error = NULL,
      dispatch_at = CASE WHEN x.config IS NOT NULL THEN {CLOCK} END
    WHERE x.unit_id = ANY(ARRAY(SELECT n.id FROM n)) AND x.status + 0 = {FAILED} RETURNING x.id
""")

#: What waits to be sent again, or was sent and is wanted once more.
_SEND_AGAIN = compact(f"""
    UPDATE holdpoint_interaction x SET dispatch_at = {CLOCK}, tries = 0
    WHERE x.id = ANY(%(ids)s::uuid[]) AND x.status + 0 = {PENDING} AND x.config IS NOT NULL
    RETURNING x.id
""")

_LOCK = "SELECT i.status FROM holdpoint_instance i WHERE i.id = %(id)s::uuid FOR NO KEY UPDATE"


def fail_question(db: BaseDatabaseWrapper, id: UUID, reason: str, *, actor: str = "") -> bool:
    """End a single question as failed; False when it is over already, or its time is."""

    def fail() -> bool:
        with atomic(db) if listens() else nullcontext():
            failed = bool(fetch(db, _FAIL, {"id": id, "reason": reason, "actor": actor}))
            tell_closed(db, [id] if failed else [])
            return failed

    return retrying(db, fail)


def revive_questions(db: BaseDatabaseWrapper, instance: Any, *, live: bool = False) -> list[UUID]:
    """Ask again what an instance failed of, or what woke one that has not run since (`live`); which questions.

    Within a transaction that holds the instance's row.
    """
    return [id for (id,) in fetch(db, _REVIVE, {"id": instance, "live": live})]


def lock_instance(db: BaseDatabaseWrapper, instance: Any) -> Status | None:
    """Lock the row for the rest of the transaction; how the instance stands."""
    rows = fetch(db, _LOCK, {"id": instance})
    return STATUS_OF[rows[0][0]] if rows else None


def send_again(db: BaseDatabaseWrapper, ids: Sequence[UUID]) -> set[UUID]:
    """Let pending questions be sent at once, with all their tries before them; which ones."""
    return {id for (id,) in retrying(db, lambda: fetch(db, _SEND_AGAIN, {"ids": sorted(ids)}))}


def read_deadline(db: BaseDatabaseWrapper, unit: str) -> datetime | None:
    """Until when a wait may take."""
    rows = fetch(db, "SELECT n.deadline FROM holdpoint_unit n WHERE n.id = %(unit)s::uuid", {"unit": unit})
    found: datetime | None = rows[0][0] if rows else None
    return found
