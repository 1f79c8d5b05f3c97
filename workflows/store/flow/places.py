"""Instances that change their place: by an outcome that says so, and plain ones that somebody holds back.

Invariants owned: whoever changes its key gives up the old one's slot with the same statement, and whoever keeps it
keeps the slot. A plain instance that must not be claimed as such moves into a lane, once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.definitions.flow.flow_options import DEFAULT_QUEUE, Place, is_plain
from workflows.store.sql import NOW, RUNNABLE, atomic, compact, fetch, write_plain, write_texts
from workflows.store.start import write_places


@dataclass(frozen=True, slots=True)
class Move:
    """What an outcome changes of its instance's place; None stays."""

    queue: str | None = None
    priority: int | None = None
    key: str | None = None
    #: Of a new key: whether it is held to the end.
    holds: bool = False


_READ = """
    SELECT i.id::text, i.workflow, i.version, coalesce(i.queue, 'default'), coalesce(i.priority, 0), i.flow_key,
      coalesce(i.holds, false), i.rate_key, i.fair_key
    FROM holdpoint_instance i WHERE i.id = ANY(%(ids)s::uuid[])
"""

#: The rows are locked: this transaction has just written them.
_MOVE = compact("""
    UPDATE holdpoint_instance i SET queue = v.queue, priority = v.priority, flow_key = v.flow_key, gate = v.gate,
      rate_key = v.rate_key, fair_key = v.fair_key, holds = v.holds, queue_slot = NULL, queue_slots = NULL,
      lane = CASE WHEN v.holds AND i.slot IS NOT NULL AND i.gate = v.gate THEN ~v.lane ELSE v.lane END,
      slot = CASE WHEN i.gate = v.gate THEN i.slot END, slots = CASE WHEN i.gate = v.gate THEN i.slots END
    FROM unnest(%(ids)s::uuid[], %(queues)s::text[], %(priorities)s::int[], %(lanes)s::bigint[], %(flow_keys)s::text[],
      %(gates)s::bigint[], %(rate_keys)s::text[], %(fair_keys)s::text[], %(holding)s::bool[])
      v(id, queue, priority, lane, flow_key, gate, rate_key, fair_key, holds)
    WHERE i.id = v.id AND i.id = ANY(%(ids)s::uuid[])
""")

#: Plain instances that are looked through at a time: of the oldest, so that each has its turn.
MOST_SEEN = 20_000
MOST_ADOPTED = 1_000
#: Those that must not be claimed as plain ones: workspace (0: any) and workflow ("": any).
KEPT = """EXISTS (SELECT FROM unnest(%(kept)s::int[], %(workflows)s::text[]) x(ws, workflow)
        WHERE x.ws IN (0, i.workspace_id) AND x.workflow IN ('', i.workflow))"""
_FIND = compact(f"""
    SELECT i.id::text, i.workflow, i.version FROM (
      SELECT i.id, i.workflow, i.version, i.workspace_id FROM holdpoint_instance i
      WHERE i.status = {RUNNABLE} AND i.lane IS NULL AND i.due_at <= {NOW} ORDER BY i.due_at LIMIT {MOST_SEEN}) i
    WHERE {KEPT} LIMIT {MOST_ADOPTED}
""")
_ADOPT = compact(f"""
    UPDATE holdpoint_instance i SET queue = '{DEFAULT_QUEUE}', priority = 0, lane = v.lane
    FROM (SELECT v.id, v.lane
      FROM (SELECT * FROM unnest(%(ids)s::uuid[], %(lanes)s::bigint[]) v(id, lane) ORDER BY id) v
      CROSS JOIN LATERAL (SELECT o.id FROM holdpoint_instance o WHERE o.id = v.id AND o.status = {RUNNABLE}
        AND o.lane IS NULL FOR NO KEY UPDATE SKIP LOCKED) o) v
    WHERE i.id = v.id AND i.id = ANY(%(ids)s::uuid[]) RETURNING 1
""")


def move_places(db: BaseDatabaseWrapper, moves: dict[str, Move]) -> None:
    """Within the transaction that has committed these outcomes."""
    ids, places = [], []
    for id, *columns in fetch(db, _READ, {"ids": write_plain(list(moves))}):
        workflow, version, queue, priority, key, holds, rate_key, fair_key = columns
        place, move = Place(workflow, version, queue, priority, key, holds, rate_key, fair_key), moves[id]
        if move.queue is not None:
            place = replace(place, queue=move.queue)
        if move.priority is not None:
            place = replace(place, priority=move.priority)
        if move.key is not None:
            place = replace(place, key=move.key, holds=move.holds)
        ids.append(id)
        places.append(None if is_plain(place) else place)
    if ids:
        fetch(db, _MOVE, {"ids": write_plain(ids), **write_places(places)}, rows=False)


def adopt_plain(db: BaseDatabaseWrapper, kept: Collection[tuple[int, str]]) -> int:
    """Move plain instances that wait and must not be claimed into lanes, where they are not seen again; how many."""
    params = describe_kept(kept)
    with atomic(db):
        found = fetch(db, _FIND, params)
        if not found:
            return 0
        lanes = [Place(workflow, version, DEFAULT_QUEUE, 0).lane for _, workflow, version in found]
        return len(fetch(db, _ADOPT, {"ids": write_plain([id for id, _, _ in found]), "lanes": write_plain(lanes)}))


def describe_kept(kept: Collection[tuple[int, str]]) -> dict[str, Any]:
    """As parameters of a statement that leaves them out."""
    ordered: Sequence[tuple[int, str]] = list(kept)
    return {
        "kept": write_plain([workspace for workspace, _ in ordered]),
        "workflows": write_texts([workflow for _, workflow in ordered]),
    }
