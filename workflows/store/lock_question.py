"""Holding a question while people make up its answer: for channels that own their answers.

Invariants owned: the instance's row is locked before the question's, as everywhere, so whatever is decided under these
locks is decided once; and every moved deadline is a row of the ledger that says until when.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.definitions.awaited_kinds import ASKED
from workflows.lifecycle import INTERACTION_CODES, Event, InteractionStatus
from workflows.store.complete import COLUMNS, FROM, Addressed, read_addressed
from workflows.store.sql import AWAITING, CLOCK, LEDGER, compact, fetch, kind

PENDING = INTERACTION_CODES[InteractionStatus.PENDING]

#: Of the question only what never changes is read here. The instance of an item is locked by nobody who answers it.
_LOCK = compact(f"""
    SELECT i.status = {AWAITING} AND i.names[1] IN ('holdpoint:unit:' || x.unit_id, '{ASKED}')
    FROM holdpoint_interaction x
    JOIN holdpoint_instance i ON i.id = x.instance_id WHERE x.id = %(id)s::uuid AND NOT x.item FOR NO KEY UPDATE OF i
""")

#: A statement of its own after the lock, so that it sees what was committed before the lock was had, and a moment
#: that was not read before the wait for it.
_LOOK = compact(f"SELECT {CLOCK}, {COLUMNS} {FROM} WHERE x.id = %(id)s::uuid FOR NO KEY UPDATE OF x")

_RECORD = compact(f"""
    WITH u AS (
      UPDATE holdpoint_instance i SET seq = i.seq + 1 WHERE i.id = %(instance)s::uuid
      RETURNING i.id, i.seq, i.workspace_id, i.status
    )
    {LEDGER}
    SELECT u.id, {CLOCK}, NULL, u.seq, u.workspace_id, %(kind)s::smallint, u.status, %(actor)s::text, NULL,
      %(data)s::jsonb FROM u
""")

#: Only of what is parked on this very question: what is not parked yet has its deadline in its worker's hands.
_MOVE = compact(f"""
    WITH u AS (
      UPDATE holdpoint_instance i SET seq = i.seq + 1, due_at = %(deadline)s::timestamptz
      WHERE i.id = %(instance)s::uuid AND i.status + 0 = {AWAITING} AND i.names[1] = 'holdpoint:unit:' || %(unit)s
      RETURNING i.id, i.seq, i.workspace_id, i.status
    ), n AS (
      UPDATE holdpoint_unit n SET deadline = %(deadline)s::timestamptz FROM u WHERE n.id = %(unit)s::uuid
    ), x AS (
      UPDATE holdpoint_interaction x SET deadline = %(deadline)s::timestamptz FROM u
      WHERE x.id = %(id)s::uuid AND x.status + 0 = {PENDING}
    ), l AS (
      {LEDGER}
      SELECT u.id, {CLOCK}, %(deadline)s::timestamptz, u.seq, u.workspace_id, {kind(Event.RESCHEDULED)}, u.status,
        %(actor)s::text, NULL, %(data)s::jsonb FROM u
    )
    SELECT 1 FROM u
""")

#: Of one of several open questions. The instance wakes no later than this deadline; where it wakes earlier, because
#: this one was moved away, it looks and parks again.
_MOVE_ASKED = compact(f"""
    WITH u AS (
      UPDATE holdpoint_instance i SET seq = i.seq + 1, due_at = least(i.due_at, %(deadline)s::timestamptz)
      WHERE i.id = %(instance)s::uuid AND i.status + 0 = {AWAITING} AND i.names[1] = '{ASKED}'
      RETURNING i.id, i.seq, i.workspace_id, i.status, i.due_at
    ), n AS (
      UPDATE holdpoint_unit n SET deadline = %(deadline)s::timestamptz FROM u WHERE n.id = %(unit)s::uuid
    ), x AS (
      UPDATE holdpoint_interaction x SET deadline = %(deadline)s::timestamptz FROM u
      WHERE x.id = %(id)s::uuid AND x.status + 0 = {PENDING}
    ), l AS (
      {LEDGER}
      SELECT u.id, {CLOCK}, u.due_at, u.seq, u.workspace_id, {kind(Event.RESCHEDULED)}, u.status,
        %(actor)s::text, NULL, %(data)s::jsonb FROM u
    )
    SELECT 1 FROM u
""")

#: The history of one item: its own row gives the numbers, and is locked already.
_RECORD_OF_ITEM = compact(f"""
    WITH u AS (
      UPDATE holdpoint_interaction x SET seq = x.seq + 1 WHERE x.id = %(id)s::uuid
      RETURNING x.id, x.seq, x.workspace_id
    )
    {LEDGER}
    SELECT u.id, {CLOCK}, %(due)s::timestamptz, u.seq, u.workspace_id, %(kind)s::smallint, {AWAITING}, %(actor)s::text,
      NULL, %(data)s::jsonb FROM u
""")

_MOVE_ITEM = compact(f"""
    UPDATE holdpoint_interaction x SET deadline = %(deadline)s::timestamptz
    WHERE x.id = %(id)s::uuid AND x.status + 0 = {PENDING} RETURNING 1
""")


@dataclass(frozen=True, slots=True)
class Held:
    """A question whose own row is locked by this transaction, and before it its instance, unless it is an item."""

    found: Addressed
    #: Whether its deadline can be moved: the instance is parked on it, alone or beside others, or it is an item.
    parked: bool
    #: The database's moment under the lock.
    now: datetime


def hold_question(db: BaseDatabaseWrapper, id: UUID) -> Held | None:
    """Lock a question's instance, then the question; None if there is no such question."""
    locked = fetch(db, _LOCK, {"id": id})
    looked = fetch(db, _LOOK, {"id": id})
    if not looked:
        return None
    now, *columns = looked[0]
    found = read_addressed(columns)
    return Held(found, found.item or bool(locked and locked[0][0]), now)


def record_event(db: BaseDatabaseWrapper, instance: UUID, event: Event, *, actor: str, data: str) -> None:
    """One ledger row about what was done to a question of this instance, which is no item."""
    fetch(db, _RECORD, {"instance": instance, "kind": event.code, "actor": actor, "data": data}, rows=False)


def record_item_event(
    db: BaseDatabaseWrapper, item: UUID, event: Event, *, actor: str, data: str, due: datetime | None = None
) -> None:
    """One ledger row about what was done to an item: of its own history, so that no item waits for another."""
    params = {"id": item, "kind": event.code, "actor": actor, "data": data, "due": due}
    fetch(db, _RECORD_OF_ITEM, params, rows=False)


def move_deadline(db: BaseDatabaseWrapper, held: Held, deadline: datetime | None, *, actor: str, data: str) -> bool:
    """Give the wait another deadline, or none; False where the instance is not parked on the question."""
    if held.found.item:
        if not fetch(db, _MOVE_ITEM, {"id": held.found.id, "deadline": deadline}):
            return False
        record_item_event(db, held.found.id, Event.RESCHEDULED, actor=actor, data=data, due=deadline)
        return True
    params = {
        "instance": held.found.instance,
        "unit": str(held.found.unit),
        "id": held.found.id,
        "deadline": deadline,
        "actor": actor,
        "data": data,
    }
    return bool(fetch(db, _MOVE, params) or fetch(db, _MOVE_ASKED, params))
