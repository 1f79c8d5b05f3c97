"""Ending runs that met the engine's own trouble: no outcome, no attempt, no row in the ledger.

Invariant owned: fenced like an outcome. The instance goes on after a delay and alone, so that a step whose own doing
it was takes no neighbour with it.
"""

from __future__ import annotations

from collections.abc import Sequence

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.store.planned_commit import Commit
from workflows.store.progress_report import keep_progress, list_advancing
from workflows.store.sql import CLOCK, RUNNABLE, RUNNING, atomic, becoming, compact, fetch, write_plain, write_texts

#: Locked one by one in id order, waiting for each as an outcome would. The run that was counted at the claim is
#: taken off again, unless it is to be spent.
_POSTPONE = compact(f"""
    WITH v AS (
      SELECT * FROM unnest(%(ids)s::uuid[], %(fences)s::int[], %(delays)s::float8[], %(errors)s::text[],
        %(spent)s::bool[]) v(id, fence, delay, error, spent)
    ), k AS MATERIALIZED (
      SELECT v.* FROM (SELECT * FROM v ORDER BY id) v CROSS JOIN LATERAL (
        SELECT i.id FROM holdpoint_instance i
        WHERE i.id = v.id AND i.fence = v.fence AND i.status = {RUNNING} FOR NO KEY UPDATE) i
    )
    UPDATE holdpoint_instance i SET solo = true, error = k.error,
      runs = greatest(i.runs - CASE WHEN k.spent THEN 0 ELSE 1 END, 0),
      {becoming(RUNNABLE, f"{CLOCK} + k.delay * interval '1 s'")}
    FROM k WHERE i.id = k.id AND i.id = ANY(%(ids)s::uuid[]) RETURNING i.id::text
""")


def postpone(db: BaseDatabaseWrapper, commits: Sequence[Commit]) -> set[str]:
    """Let them run again later; the ids that were still held by this worker."""
    params = {
        "ids": write_plain([one.claim.id for one in commits]),
        "fences": write_plain([one.claim.fence for one in commits]),
        "delays": write_plain([one.delay or 0.0 for one in commits]),
        "errors": write_texts([one.error for one in commits]),
        "spent": write_plain([one.spent for one in commits]),
    }
    advancing = list_advancing([one.claim for one in commits])
    if not advancing:
        return {row[0] for row in fetch(db, _POSTPONE, params)}
    with atomic(db):
        applied = {row[0] for row in fetch(db, _POSTPONE, params)}
        keep_progress(db, advancing, applied)
        return applied
