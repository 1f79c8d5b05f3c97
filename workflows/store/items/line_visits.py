"""The lines of a unit that is asked anew, because an earlier visit of the wait has failed and was retried.

Invariant owned: nothing that a line has done for an item is done again. What it saved goes on with the item.
"""

from __future__ import annotations

from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.lifecycle import INTERACTION_CODES, Event, InteractionStatus
from workflows.store.checkpoints import forget_failed
from workflows.store.items.item_lines import start_lines
from workflows.store.sql import CANCELLED, CLOCK, DONE, FAILED, LEDGER, RUNNABLE, becoming, compact, fetch, kind

_COMPLETED = INTERACTION_CODES[InteractionStatus.COMPLETED]

#: For a unit that is asked anew: lines that worked belong to it from now on, and their items are through.
_ADOPT = compact(f"""
    WITH x AS (
      SELECT x.index FROM holdpoint_interaction x WHERE x.unit_id = %(unit)s::uuid AND x.status + 0 = {_COMPLETED}
    ), i AS (
      UPDATE holdpoint_instance i SET unit_id = %(unit)s::uuid FROM x
      WHERE i.unit_id = %(before)s::uuid AND i.item = x.index AND i.status = {DONE} RETURNING i.item
    ), f AS (
      UPDATE holdpoint_instance i SET unit_id = %(unit)s::uuid, attempt = 0, runs = 0, error = NULL, seq = i.seq + 1,
        {becoming(RUNNABLE, CLOCK)}
      FROM x WHERE i.unit_id = %(before)s::uuid AND i.item = x.index AND i.status = {FAILED}
      RETURNING i.id, i.seq, i.workspace_id, i.status, i.step
    ), l AS (
      {LEDGER}
      SELECT f.id, {CLOCK}, NULL, f.seq, f.workspace_id, {kind(Event.REOPENED)}, f.status, '', f.step, NULL FROM f
    ), n AS (
      UPDATE holdpoint_unit n SET remaining = n.remaining - q.n FROM (SELECT count(*)::int AS n FROM i) q
      WHERE n.id = %(unit)s::uuid
    )
    SELECT f.id FROM f ORDER BY f.id
""")

#: What a line had saved when it was cancelled with its unit, for the one that continues its item now. A child that was
#: cancelled with it is started anew; questions are asked anew in their places. A fence above 0 says that there is
#: something to be read.
_INHERIT = compact(f"""
    WITH v AS MATERIALIZED (
      SELECT i.id, o.id AS old FROM holdpoint_instance i CROSS JOIN LATERAL (
        SELECT o.id FROM holdpoint_instance o WHERE o.unit_id = %(before)s::uuid AND o.item = i.item OFFSET 0) o
      WHERE i.unit_id = %(unit)s::uuid AND i.fence = 0 AND i.status = {RUNNABLE}
    ), i AS (
      UPDATE holdpoint_instance i SET fence = 1 FROM v WHERE i.id = v.id
    )
    INSERT INTO holdpoint_checkpoint(instance_id, saved_at, deadline, unit_id, child_id, position, kind, settled,
      failed, blamed, signal, expired, name, value)
    SELECT v.id, c.saved_at, c.deadline, c.unit_id, c.child_id, c.position, c.kind, c.settled,
      c.failed, c.blamed, c.signal, c.expired, c.name, c.value
    FROM v CROSS JOIN LATERAL (SELECT * FROM holdpoint_checkpoint c WHERE c.instance_id = v.old AND c.position >= 0
      AND NOT (NOT c.settled AND EXISTS (
        SELECT FROM holdpoint_instance h WHERE h.id = c.child_id AND h.status = {CANCELLED})) OFFSET 0) c
""")

#: Answered items of a unit that have no line.
_WANTING = compact(f"""
    SELECT x.id FROM holdpoint_interaction x WHERE x.unit_id = %(unit)s::uuid AND x.status + 0 = {_COMPLETED}
      AND NOT EXISTS (SELECT FROM holdpoint_instance i WHERE i.unit_id = x.unit_id AND i.item = x.index)
    ORDER BY x.index
""")


def open_lines(db: BaseDatabaseWrapper, unit: UUID, before: UUID | None = None) -> None:
    """Begin lines for the answers that a unit has when it is opened, within the transaction that opens it.

    Those are of the visit `before`, which has failed. Its lines that worked stay; those that failed go on, as a retry
    lets them; those that were cancelled have successors, which begin where they had come to.
    """
    if before is None:
        return
    for (line,) in fetch(db, _ADOPT, {"unit": unit, "before": before}):
        forget_failed(db, line)
    start_lines(db, [id for (id,) in fetch(db, _WANTING, {"unit": unit})], before)
    fetch(db, _INHERIT, {"unit": unit, "before": before}, rows=False)
