"""How lines end: their items are through, in the transaction of that end, and with the last of them their unit.

Invariants owned:

* The unit is told of all lines of a batch in one statement, which reads none that is still under way.
* Instances first, then items, then units: whatever a failed line closes of its unit is locked in that order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.lifecycle import (
    FIRST_TERMINAL,
    INTERACTION_CODES,
    UNIT_CODES,
    UNIT_PHASE_CODES,
    Event,
    InteractionStatus,
    ItemPolicy,
    UnitPhase,
    UnitStatus,
)
from workflows.store.items.item_ends import lock_items
from workflows.store.sql import AWAITING, CANCELLED, CLOCK, DONE, LEDGER, LIVE, compact, fetch, kind, write_plain

_CANCELLED = INTERACTION_CODES[InteractionStatus.CANCELLED]
_PENDING = INTERACTION_CODES[InteractionStatus.PENDING]
_OPEN, _THROUGH_STATUS, _FAILED = (
    UNIT_CODES[one] for one in (UnitStatus.OPEN, UnitStatus.COMPLETED, UnitStatus.FAILED)
)
_CLOSED = UNIT_PHASE_CODES[UnitPhase.CLOSED]

#: After the lines were committed, in the same transaction. A unit that is over already counts nothing more.
_THROUGH = compact(f"""
    WITH e AS MATERIALIZED (
      SELECT i.id, i.unit_id, i.item, i.status, i.error FROM unnest(%(ids)s::uuid[]) v(id) CROSS JOIN LATERAL (
        SELECT * FROM holdpoint_instance i WHERE i.id = v.id AND i.unit_id IS NOT NULL
          AND i.status >= {FIRST_TERMINAL} OFFSET 0) i
    ), n AS MATERIALIZED (
      SELECT n.*, {CLOCK} AS at FROM (SELECT DISTINCT e.unit_id FROM e ORDER BY 1) d, LATERAL (
        SELECT n.id, n.status, n.seq, n.policy, n.line_room FROM holdpoint_unit n
        WHERE n.id = d.unit_id FOR NO KEY UPDATE) n
    ), g AS (
      SELECT e.unit_id, min(n.at) AS at, count(*)::int AS n, (count(*) FILTER (WHERE e.status <> {DONE}))::int AS bad,
        (count(*) FILTER (WHERE e.status <> {DONE} OR n.line_room > 0))::int AS rows,
        bool_or(e.status <> {DONE} AND n.policy = '{ItemPolicy.FAIL}') AS breaks
      FROM e JOIN n ON n.id = e.unit_id WHERE n.status = {_OPEN} GROUP BY 1
    ), u AS (
      UPDATE holdpoint_unit n SET remaining = n.remaining - g.n, answered = n.answered - g.bad,
        failed = n.failed + g.bad, queued = CASE WHEN g.breaks THEN 0 ELSE n.queued END,
        seq = n.seq + g.rows + (n.remaining = g.n AND NOT g.breaks)::int,
        status = CASE WHEN g.breaks THEN {_FAILED} WHEN n.remaining = g.n THEN {_THROUGH_STATUS} ELSE n.status END,
        closed_at = CASE WHEN g.breaks OR n.remaining = g.n THEN g.at END,
        phase = CASE WHEN g.breaks OR n.remaining = g.n THEN {_CLOSED} ELSE n.phase END
      FROM g WHERE n.id = g.unit_id
      RETURNING n.id, n.seq, n.workspace_id, n.total, n.answered, n.failed, n.expired, n.line_room, g.at,
        g.breaks, g.rows, n.status <> {_OPEN} AS over,
        n.queued > 0 AND n.line_room > n.remaining - n.queued AS fills
    ), li AS (
      {LEDGER}
      SELECT u.id, u.at, NULL, u.seq - u.rows - (u.over AND NOT u.breaks)::int
          + row_number() OVER (PARTITION BY u.id ORDER BY e.item),
        u.workspace_id, {kind(Event.ITEM_COMPLETED)}, {AWAITING}, '', NULL, jsonb_strip_nulls(jsonb_build_object(
          'index', e.item, 'line', e.id, 'reason', e.error,
          'how', CASE e.status WHEN {DONE} THEN 'completed' WHEN {CANCELLED} THEN 'cancelled' ELSE 'failed' END))
      FROM u JOIN e ON e.unit_id = u.id WHERE e.status <> {DONE} OR u.line_room > 0
    ), lc AS (
      {LEDGER}
      SELECT u.id, u.at, NULL, u.seq, u.workspace_id, {kind(Event.UNIT_COMPLETED)}, {AWAITING}, '', NULL,
        jsonb_build_object('items', u.total, 'completed', u.answered, 'failed', u.failed, 'expired', u.expired)
      FROM u WHERE u.over AND NOT u.breaks
    ), s AS (
      UPDATE holdpoint_interaction x
      SET status = {_CANCELLED}, closed_at = u.at, version = x.version + 1, queued = false
      FROM u CROSS JOIN LATERAL (SELECT o.id FROM holdpoint_interaction o
        WHERE u.breaks AND o.unit_id = u.id AND o.status + 0 = {_PENDING} OFFSET 0) o
      WHERE x.id = o.id AND x.status + 0 = {_PENDING} RETURNING x.id
    )
    SELECT u.id, u.over, NULL FROM u WHERE u.over OR u.fills
    UNION ALL SELECT NULL, NULL, s.id FROM s
""")

#: Of lines that have failed: the items that their units would cancel, to be locked before the units.
_LEFT = compact(f"""
    SELECT x.id FROM (
      SELECT DISTINCT u.id FROM unnest(%(ids)s::uuid[]) v(id)
      CROSS JOIN LATERAL (SELECT i.unit_id FROM holdpoint_instance i
        WHERE i.id = v.id AND i.status > {DONE} AND i.unit_id IS NOT NULL OFFSET 0) i
      CROSS JOIN LATERAL (SELECT u.id FROM holdpoint_unit u
        WHERE u.id = i.unit_id AND u.policy = '{ItemPolicy.FAIL}' AND u.status + 0 = {_OPEN} OFFSET 0) u) u
    CROSS JOIN LATERAL (SELECT o.id FROM holdpoint_interaction o
      WHERE o.unit_id = u.id AND o.status + 0 = {_PENDING} OFFSET 0) x
""")

_FREE_UNITS = compact("""
    WITH i AS MATERIALIZED (
      SELECT i.id, i.unit_id FROM unnest(%(ids)s::uuid[]) v(id) CROSS JOIN LATERAL (
        SELECT i.id, i.unit_id FROM holdpoint_instance i WHERE i.id = v.id OFFSET 0) i
    ), n AS MATERIALIZED (
      SELECT n.id FROM (SELECT DISTINCT i.unit_id FROM i ORDER BY 1) d CROSS JOIN LATERAL (
        SELECT n.id FROM holdpoint_unit n WHERE n.id = d.unit_id FOR NO KEY UPDATE SKIP LOCKED) n
    )
    SELECT i.id::text FROM i WHERE i.unit_id IS NULL OR i.unit_id IN (SELECT n.id FROM n)
""")

#: A line that failed goes on: its item is not through after all, if its unit still waits.
_REOPEN = compact(f"""
    WITH u AS (
      UPDATE holdpoint_unit n SET remaining = n.remaining + 1, answered = n.answered + 1, failed = n.failed - 1,
        seq = n.seq + 1
      WHERE n.id = %(unit)s::uuid AND n.status + 0 = {_OPEN} RETURNING n.id, n.seq, n.workspace_id
    ), l AS (
      {LEDGER}
      SELECT u.id, {CLOCK}, NULL, u.seq, u.workspace_id, {kind(Event.REOPENED)}, {AWAITING}, %(actor)s::text, NULL,
        jsonb_build_object('line', i.id, 'index', i.item)
      FROM u CROSS JOIN LATERAL (SELECT i.id, i.item FROM holdpoint_instance i WHERE i.id = %(line)s::uuid OFFSET 0) i
    )
    SELECT u.id FROM u
""")

#: Of a unit that has failed: what its lines still do, and whatever they have begun.
_LIVE_LINES = compact(f"""
    SELECT i.id, i.parent_id FROM holdpoint_instance i WHERE i.unit_id = %(unit)s::uuid AND i.{LIVE} ORDER BY i.id
""")


def end_lines(
    db: BaseDatabaseWrapper, lines: Iterable[Any], failed: Iterable[Any]
) -> tuple[dict[UUID, bool], list[UUID]]:
    """Tell the units of lines that have ended, in the transaction that ends them; `failed` are those that ended badly.

    The units that have something to be done about: whether they are over (True), or may begin more lines; and the items
    that were cancelled.
    """
    if bad := sorted(map(str, failed)):
        lock_items(db, [id for (id,) in fetch(db, _LEFT, {"ids": write_plain(bad)})])
    params = {"ids": write_plain(sorted(map(str, lines)))}
    rows = fetch(db, _THROUGH, params)
    return {unit: over for unit, over, _ in rows if unit is not None}, [id for _, _, id in rows if id is not None]


def list_free_lines(db: BaseDatabaseWrapper, lines: Iterable[Any]) -> set[str]:
    """Those of these lines whose units nobody holds just now, waiting for none; the units stay locked."""
    return {id for (id,) in fetch(db, _FREE_UNITS, {"ids": write_plain(sorted(map(str, lines)))})}


def reopen_line(db: BaseDatabaseWrapper, unit: UUID, line: Any, *, actor: str) -> bool:
    """A failed line of a unit is to go on: whether the unit still waits, which counts it again.

    Within the transaction that reopens it.
    """
    return bool(fetch(db, _REOPEN, {"unit": unit, "line": line, "actor": actor}))


def list_live_lines(db: BaseDatabaseWrapper, unit: UUID) -> list[tuple[UUID, UUID]]:
    """Lines of a unit that have not ended, each with its parent."""
    return [(id, parent) for id, parent in fetch(db, _LIVE_LINES, {"unit": unit})]
