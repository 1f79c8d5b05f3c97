"""Asking an item once more that has ended badly, and telling items from single questions.

Invariant owned: an item comes back only to an open unit, under the locks of both, and is counted as it was before it
was asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.lifecycle import (
    INTERACTION_CODES,
    UNIT_CODES,
    UNIT_PHASE_CODES,
    Event,
    InteractionStatus,
    UnitPhase,
    UnitStatus,
)
from workflows.store.sql import (
    AWAITING,
    CLOCK,
    LEDGER,
    compact,
    fetch,
    kind,
    write_plain,
)

PENDING = INTERACTION_CODES[InteractionStatus.PENDING]
FAILED = INTERACTION_CODES[InteractionStatus.FAILED]
EXPIRED = INTERACTION_CODES[InteractionStatus.EXPIRED]
_OPEN = UNIT_CODES[UnitStatus.OPEN]
_FILLING = UNIT_PHASE_CODES[UnitPhase.FILLING]

_SORT = compact("""
    SELECT x.id, x.instance_id, x.item FROM unnest(%(ids)s::uuid[]) v(id)
    CROSS JOIN LATERAL (SELECT o.id, o.instance_id, o.item FROM holdpoint_interaction o WHERE o.id = v.id OFFSET 0) x
    ORDER BY x.item, x.instance_id, x.id
""")

#: An item that ended badly waits for its turn once more; its unit goes on if it is not over itself. It is counted from
#: the row as it was locked: constraints are checked before PostgreSQL looks for a newer version, and in the one that
#: the statement began with the item may not have failed yet.
_RETRY = compact(f"""
    WITH k AS MATERIALIZED (
      SELECT x.id, x.unit_id, x.index, x.status FROM holdpoint_interaction x
      WHERE x.id = %(id)s::uuid AND x.item FOR NO KEY UPDATE
    ), n AS MATERIALIZED (
      SELECT n.* FROM holdpoint_unit n WHERE n.id = (SELECT k.unit_id FROM k) FOR NO KEY UPDATE
    ), x AS (
      UPDATE holdpoint_interaction x SET status = {PENDING}, queued = true, closed_at = NULL, deadline = n.deadline,
        error = NULL, actor = '', dispatched_at = NULL, dispatch_at = NULL, tries = 0, dispatch_error = NULL,
        version = x.version + 1
      FROM k, n WHERE x.id = k.id AND n.status = {_OPEN} AND k.status IN ({FAILED}, {EXPIRED})
      RETURNING x.id, x.unit_id, x.index, k.status AS was
    ), u AS (
      UPDATE holdpoint_unit u SET queued = n.queued + 1, remaining = n.remaining + 1, seq = n.seq + 1,
        failed = n.failed - (x.was = {FAILED})::int, expired = n.expired - (x.was = {EXPIRED})::int,
        answered = n.answered, phase = {_FILLING}, dispatched_at = NULL
      FROM x, n WHERE u.id = x.unit_id RETURNING u.id, u.seq, u.workspace_id
    ), l AS (
      {LEDGER}
      SELECT u.id, {CLOCK}, NULL, u.seq, u.workspace_id, {kind(Event.REOPENED)}, {AWAITING}, %(actor)s::text, NULL,
        jsonb_build_object('interaction', x.id, 'index', x.index) FROM u, x
    )
    SELECT k.status, n.status, x.id IS NOT NULL, n.id FROM k, n LEFT JOIN x ON true
""")
_STATUS_OF = {code: status for status, code in INTERACTION_CODES.items()}
_UNIT_STATUS_OF = {code: status for status, code in UNIT_CODES.items()}


def sort_questions(db: BaseDatabaseWrapper, ids: Sequence[UUID]) -> tuple[list[UUID], list[UUID]]:
    """Single questions by their instances, in the order of locks; and items."""
    rows = fetch(db, _SORT, {"ids": write_plain(ids)})
    return [id for id, _, item in rows if not item], [id for id, _, item in rows if item]


def retry_item(
    db: BaseDatabaseWrapper, id: UUID, *, actor: str
) -> tuple[UUID, InteractionStatus, UnitStatus, bool] | None:
    """Ask a failed or expired item once more: its unit, how both stood, and whether it is asked. None: no item."""
    rows = fetch(db, _RETRY, {"id": id, "actor": actor})
    if not rows:
        return None
    status, unit_status, done, unit = rows[0]
    return unit, _STATUS_OF[status], _UNIT_STATUS_OF[unit_status], done
