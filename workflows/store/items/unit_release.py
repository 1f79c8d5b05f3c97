"""Telling an instance that its unit of items is over: once, by one signal.

Invariants owned:

* Exactly once. The instance is locked first, then the unit, whose phase is looked at on its newest version: of several
  releases one finds it closed, and the signal, the wake-up and both histories are written with the phase.
* A crash between the end of the unit and its release loses nothing: the phase stays, and a sweep finds it by an index.
* An instance that has ended is told nothing; its unit is over all the same.
"""

from __future__ import annotations

from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.lifecycle import INTERACTION_CODES, UNIT_CODES, UNIT_PHASE_CODES, Event, InteractionStatus, UnitPhase
from workflows.store.sql import (
    AWAITING,
    CLOCK,
    LEDGER,
    LIVE,
    NOTIFY_IDLE,
    RUNNABLE,
    becoming,
    compact,
    fetch,
    kind,
)

FILLING, CLOSED, RELEASED = (UNIT_PHASE_CODES[one] for one in (UnitPhase.FILLING, UnitPhase.CLOSED, UnitPhase.RELEASED))
PENDING = INTERACTION_CODES[InteractionStatus.PENDING]

_WORD = "CASE n.status " + " ".join(f"WHEN {code} THEN '{status}'" for status, code in UNIT_CODES.items()) + " END"
_COUNTED = "'items', n.total, 'completed', n.answered, 'failed', n.failed, 'expired', n.expired"

#: One moment for all that it tells: in the history of the instance and its units, rows are told apart by it.
_RELEASE = compact(f"""
    WITH t AS (
      SELECT i.id, i.seq, i.status, i.status + 0 < 10 AS live, i.names FROM holdpoint_instance i
      WHERE i.id = (SELECT n.instance_id FROM holdpoint_unit n WHERE n.id = %(unit)s::uuid) FOR NO KEY UPDATE
    ), n AS (
      UPDATE holdpoint_unit n SET phase = {RELEASED}, released_at = CASE WHEN t.live THEN {CLOCK} END,
        seq = n.seq + 1 + t.live::int
      FROM t WHERE n.id = %(unit)s::uuid AND n.phase + 0 = {CLOSED}
      RETURNING n.*, coalesce(n.released_at, {CLOCK}) AS at, t.live, t.seq + 1 AS at_number, {_WORD} AS word,
        t.status = {AWAITING} AND 'holdpoint:unit:' || n.id = ANY(t.names) AS wakes
    ), s AS (
      INSERT INTO holdpoint_signal(instance_id, received_at, n, workspace_id, name, dedup_key, source, payload)
      SELECT n.instance_id, n.at, n.at_number, n.workspace_id, 'holdpoint:unit:' || n.id,
        'holdpoint:unit:' || n.id, '', jsonb_build_object('unit', n.id, 'status', n.word) FROM n WHERE n.live
    ), u AS (
      UPDATE holdpoint_instance i SET seq = n.at_number, inbox = i.inbox + 1,
        {
    becoming(
        f"CASE WHEN n.wakes THEN {RUNNABLE} ELSE i.status END",
        f"CASE WHEN n.wakes THEN {CLOCK} ELSE i.due_at END",
        may_end=False,
    )
}
      FROM n WHERE i.id = n.instance_id AND n.live RETURNING i.id, i.status
    ), l AS (
      {LEDGER}
      SELECT n.instance_id, n.at, NULL, n.at_number, n.workspace_id, {kind(Event.ANSWERED)}, u.status, '', NULL,
        jsonb_build_object('unit', n.id, 'status', n.word, {_COUNTED}) FROM n, u
    ), lr AS (
      {LEDGER}
      SELECT n.id, n.at, NULL, n.seq - 1, n.workspace_id, {kind(Event.UNIT_RELEASED)}, {AWAITING}, '', NULL, NULL
      FROM n WHERE n.live
    ), lt AS (
      {LEDGER}
      SELECT n.id, n.at, NULL, n.seq, n.workspace_id, {kind(Event.UNIT_TERMINAL)}, {AWAITING}, '', NULL,
        jsonb_build_object('status', n.word, {_COUNTED}) FROM n
    )
    SELECT n.live, CASE WHEN u.status = {RUNNABLE} THEN {NOTIFY_IDLE} END FROM n LEFT JOIN u ON true
""")

#: Units with items that could be asked now: by whoever comes, or by the author's code, once the instance is parked.
_ROOM = """CASE WHEN n.line_room > 0 THEN n.line_room > n.remaining - n.queued
  ELSE n.concurrency > n.total - n.queued - n.answered - n.failed - n.expired END"""
_WAITS = f"""SELECT FROM holdpoint_instance i WHERE i.id = n.instance_id AND i.status + 0 = {AWAITING}
        AND i.names[1] = 'holdpoint:unit:' || n.id"""
_HAS_ROOM = f"n.phase = {FILLING} AND {_ROOM} AND (NOT n.hooked OR EXISTS ({_WAITS}))"

_NEXT = compact(f"""
    SELECT CASE
      WHEN EXISTS (SELECT FROM holdpoint_unit n WHERE n.phase = {CLOSED}) THEN 0
      WHEN EXISTS (SELECT FROM holdpoint_unit n WHERE {_HAS_ROOM}) THEN 0
      ELSE extract(epoch FROM (
        SELECT min(x.deadline) FROM holdpoint_interaction x
        WHERE x.status = {PENDING} AND x.item AND x.deadline IS NOT NULL) - {CLOCK}) END::float8
""")

_LIST_CLOSED = compact(f"SELECT n.id FROM holdpoint_unit n WHERE n.phase = {CLOSED} ORDER BY n.id LIMIT %(limit)s")
_LIST_FILLING = compact(f"""
    SELECT n.id, n.hooked, n.line_room > 0 FROM holdpoint_unit n WHERE {_HAS_ROOM} ORDER BY n.id LIMIT %(limit)s
""")

#: The author's code asks the next items: the instance runs once more, and parks again. No signal, so nothing is used.
_CALL = compact(f"""
    WITH u AS (
      UPDATE holdpoint_instance i SET seq = i.seq + 1, {becoming(RUNNABLE, CLOCK, may_end=False)}
      FROM holdpoint_unit n WHERE n.id = %(unit)s::uuid AND i.id = n.instance_id AND i.status + 0 = {AWAITING}
        AND i.{LIVE} AND i.names[1] = 'holdpoint:unit:' || n.id
      RETURNING i.id, i.seq, i.workspace_id, i.status, i.step
    ), l AS (
      {LEDGER}
      SELECT u.id, {CLOCK}, NULL, u.seq, u.workspace_id, {kind(Event.WOKE)}, u.status, '', u.step, NULL FROM u
    )
    SELECT u.id, {NOTIFY_IDLE} FROM u
""")


def release_unit(db: BaseDatabaseWrapper, unit: UUID) -> bool:
    """Put the unit's one signal into the inbox of its instance, if nobody has; whether it was this call."""
    rows = fetch(db, _RELEASE, {"unit": unit})
    return bool(rows) and bool(rows[0][0])


def list_closed_units(db: BaseDatabaseWrapper, limit: int = 100) -> list[UUID]:
    """Units that are over, and whose instances have not been told."""
    return [id for (id,) in fetch(db, _LIST_CLOSED, {"limit": limit})]


def list_filling_units(db: BaseDatabaseWrapper, limit: int = 100) -> list[tuple[UUID, bool, bool]]:
    """Units with items whose turn it is; whether the author's code asks them, and whether only lines are begun."""
    return [(id, hooked, asks_nothing) for id, hooked, asks_nothing in fetch(db, _LIST_FILLING, {"limit": limit})]


def call_author(db: BaseDatabaseWrapper, unit: UUID) -> bool:
    """Let the instance run, so that its code asks more items of its unit; whether it was parked on it."""
    return bool(fetch(db, _CALL, {"unit": unit}))


def seconds_to_units(db: BaseDatabaseWrapper) -> float | None:
    """Seconds until something is to be done for units of items; 0 for now, None for nothing."""
    seconds: float | None = fetch(db, _NEXT, {})[0][0]
    return seconds
