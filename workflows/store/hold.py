"""Holding a question while people make up its answer: for channels that own their answers.

Invariants owned: the instance's row is locked before the question's, as everywhere, so whatever is decided under these
locks is decided once; and every moved deadline is a row of the ledger that says until when.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.lifecycle import INTERACTION_CODES, Event, InteractionStatus
from workflows.store.complete import COLUMNS, FROM, Addressed, read_addressed
from workflows.store.sql import AWAITING, CLOCK, LEDGER, compact, fetch, kind

PENDING = INTERACTION_CODES[InteractionStatus.PENDING]

#: Of the question only what never changes is read here.
_LOCK = compact(f"""
    SELECT i.status = {AWAITING} AND i.names[1] = 'holdpoint:unit:' || x.unit_id FROM holdpoint_interaction x
    JOIN holdpoint_instance i ON i.id = x.instance_id WHERE x.id = %(id)s::uuid FOR NO KEY UPDATE OF i
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


@dataclass(frozen=True, slots=True)
class Held:
    """A question whose instance and own row are locked by this transaction."""

    found: Addressed
    #: Whether the instance is parked on this very question.
    parked: bool
    #: The database's moment under the lock.
    now: datetime


def hold_question(db: BaseDatabaseWrapper, id: UUID) -> Held | None:
    """Lock a question's instance, then the question; None if there is no such question."""
    locked = fetch(db, _LOCK, {"id": id})
    looked = fetch(db, _LOOK, {"id": id}) if locked else []
    if not looked:
        return None
    now, *columns = looked[0]
    return Held(read_addressed(columns), bool(locked[0][0]), now)


def record_event(db: BaseDatabaseWrapper, instance: UUID, event: Event, *, actor: str, data: str) -> None:
    """One ledger row about what was done to a question of this instance."""
    fetch(db, _RECORD, {"instance": instance, "kind": event.code, "actor": actor, "data": data}, rows=False)


def move_deadline(db: BaseDatabaseWrapper, held: Held, deadline: datetime | None, *, actor: str, data: str) -> bool:
    """Give the wait another deadline, or none; False where the instance is not parked on the question."""
    params = {
        "instance": held.found.instance,
        "unit": str(held.found.unit),
        "id": held.found.id,
        "deadline": deadline,
        "actor": actor,
        "data": data,
    }
    return bool(fetch(db, _MOVE, params))
