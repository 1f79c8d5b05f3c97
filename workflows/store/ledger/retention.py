"""Retention: deleting what ended long ago, with everything that belongs to it.

Invariants owned: a tree goes as a whole or not at all, and only when every member of it ended before the
cutoff (a child may outlive its parent, and a failed root may be retried while we look), so no dedup key, answer
or history of a live instance is ever removed. One from which another was forked stays as long as that one, which refers
to its answers and children. Of a history that was sealed one row stays (see `tombstones`). One
transaction per batch: a run that is interrupted has deleted some trees and damaged none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.store.forks import list_forked
from workflows.store.ledger.tombstones import prune_rows
from workflows.store.outside.stored_answers import forget_answers
from workflows.store.sql import CLOCK, atomic, compact, fetch, retrying

BATCH = 500

#: Subtracting a very long time would leave the calendar, so it is bounded where "never" begins.
_CUTOFF = f"SELECT {CLOCK} - least(%(seconds)s::float8, 3e10) * interval '1 s'"

#: Reads the index of ended instances from its old end on; `after` is where the last batch stopped.
_ROOTS = compact("""
    SELECT i.id, i.finished_at, EXISTS (SELECT FROM holdpoint_instance c WHERE c.parent_id = i.id)
    FROM holdpoint_instance i
    WHERE i.finished_at IS NOT NULL AND i.finished_at < %(cutoff)s::timestamptz AND i.parent_id IS NULL
      AND (i.finished_at, i.id) > (%(at)s::timestamptz, %(id)s::uuid)
    ORDER BY i.finished_at, i.id LIMIT %(limit)s
""")

#: One index look-up per node, as in `instance_tree`.
_TREE = compact("""
    WITH RECURSIVE tree AS (
      SELECT i.id FROM holdpoint_instance i WHERE i.id = %(root)s::uuid
      UNION ALL SELECT i.id FROM tree CROSS JOIN LATERAL (
        SELECT i.id FROM holdpoint_instance i WHERE i.parent_id = tree.id OFFSET 0) i
    )
    SELECT id FROM tree
""")

#: Closes the race with a retry: whoever is not here any more, or is held by somebody, is not deleted. An ended
#: instance gets no new children, so nothing can be added to a tree all of whose members are locked.
_LOCK = compact("""
    SELECT i.id FROM holdpoint_instance i
    WHERE i.id = ANY(%(ids)s::uuid[]) AND i.finished_at IS NOT NULL AND i.finished_at < %(cutoff)s::timestamptz
    ORDER BY i.id FOR UPDATE SKIP LOCKED
""")

_COUNT = compact("""
    SELECT count(*) FROM holdpoint_instance i
    WHERE i.id = ANY(%(ids)s::uuid[]) AND i.finished_at IS NOT NULL AND i.finished_at < %(cutoff)s::timestamptz
""")

#: Interactions before their units, as everywhere. Event waits in two halves, so that each finds its partial index.
_UNITS = "SELECT id, seq > 0 FROM holdpoint_unit WHERE instance_id = ANY(%(ids)s::uuid[])"
#: Those that were sent come back, because their delivery logs follow: whoever adds to one holds its question's row. So
#: do items with a history of their own.
_DELETE_INTERACTIONS = compact("""
    WITH d AS (DELETE FROM holdpoint_interaction WHERE unit_id = ANY(%(units)s::uuid[]) RETURNING id, config, seq)
    SELECT id, config IS NOT NULL, seq > 0 FROM d WHERE config IS NOT NULL OR seq > 0
""")
_DELETE_DISPATCHES = "DELETE FROM holdpoint_dispatch WHERE interaction_id = ANY(%(ids)s::uuid[])"
_DELETES = [
    f"DELETE FROM {what} AND instance_id = ANY(%(ids)s::uuid[])"
    for what in (
        "holdpoint_unit WHERE true",
        "holdpoint_signal WHERE true",
        "holdpoint_checkpoint WHERE true",
        "holdpoint_kept_state WHERE true",
        "holdpoint_event_wait WHERE closed_at IS NOT NULL",
        "holdpoint_event_wait WHERE closed_at IS NULL",
    )
]
_DELETE_INSTANCES = "DELETE FROM holdpoint_instance WHERE id = ANY(%(ids)s::uuid[])"


@dataclass(frozen=True, slots=True)
class Pruned:
    """What one batch deleted (or would delete), and how many trees had to stay."""

    trees: int = 0
    instances: int = 0
    kept: int = 0

    def __add__(self, other: Pruned) -> Pruned:
        return Pruned(self.trees + other.trees, self.instances + other.instances, self.kept + other.kept)


def prune(
    db: BaseDatabaseWrapper, *, older_than: float, batch: int = BATCH, dry_run: bool = False, actor: str = "retention"
) -> Iterator[Pruned]:
    """Delete the trees that ended more than so many seconds ago, a batch at a time; each batch says what it did."""
    cutoff: datetime = fetch(db, _CUTOFF, {"seconds": older_than})[0][0]
    at: Any = "-infinity"
    last = UUID(int=0)
    while roots := fetch(db, _ROOTS, {"cutoff": cutoff, "at": at, "id": last, "limit": batch}):
        last, at, _ = roots[-1]
        if single := [id for id, _, has_children in roots if not has_children]:
            yield _prune_single(db, single, cutoff, actor, dry_run)
        for root in [id for id, _, has_children in roots if has_children]:
            yield _prune_tree(db, root, cutoff, actor, dry_run)


def _prune_single(db: BaseDatabaseWrapper, ids: list[UUID], cutoff: datetime, actor: str, dry_run: bool) -> Pruned:
    """Instances without children, each a tree of its own."""
    if dry_run:
        return Pruned(trees=len(ids), instances=len(ids))

    def work() -> Pruned:
        with atomic(db):
            ours = _leave_forked(db, [id for (id,) in fetch(db, _LOCK, {"ids": ids, "cutoff": cutoff})])
            _delete(db, ours, actor)
            return Pruned(trees=len(ours), instances=len(ours), kept=len(ids) - len(ours))

    return retrying(db, work)


def _prune_tree(db: BaseDatabaseWrapper, root: UUID, cutoff: datetime, actor: str, dry_run: bool) -> Pruned:
    """A root and everything below it, if all of that has ended long ago."""

    def work() -> Pruned:
        with atomic(db):
            ids = [id for (id,) in fetch(db, _TREE, {"root": root})]
            if not ids or fetch(db, _COUNT, {"ids": ids, "cutoff": cutoff}) != [(len(ids),)]:
                return Pruned(kept=1)
            if not dry_run:
                if len(fetch(db, _LOCK, {"ids": ids, "cutoff": cutoff})) < len(ids):
                    return Pruned(kept=1)
                if len(_leave_forked(db, ids)) < len(ids):
                    return Pruned(kept=1)
                _delete(db, ids, actor)
            return Pruned(trees=1, instances=len(ids))

    return retrying(db, work)


def _leave_forked(db: BaseDatabaseWrapper, ids: list[UUID]) -> list[UUID]:
    """Those that no other instance goes on from. They are locked, so no fork can be added; looked for in a snapshot of
    its own, which knows what was committed before."""
    while ids and (needed := list_forked(db, ids)):
        ids = [id for id in ids if id not in needed]
    return ids


def _delete(db: BaseDatabaseWrapper, ids: Sequence[UUID], actor: str) -> None:
    if not ids:
        return
    params = {"ids": list(ids)}
    units = fetch(db, _UNITS, params)
    gone = fetch(db, _DELETE_INTERACTIONS, {"units": [id for id, _ in units]})
    if sent := [id for id, was_sent, _ in gone if was_sent]:
        fetch(db, _DELETE_DISPATCHES, {"ids": sent}, rows=False)
    histories = [*ids, *(id for id, has_rows in units if has_rows), *(id for id, _, has_rows in gone if has_rows)]
    for statement in _DELETES:
        fetch(db, statement, params, rows=False)
    forget_answers(db, list(ids))
    prune_rows(db, histories, actor=actor)
    fetch(db, _DELETE_INSTANCES, params, rows=False)
