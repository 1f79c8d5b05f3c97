"""Claiming from lanes: all instances that stand in one place wait in one lane, and a lane is looked at as a whole.

Invariants owned:

* A slot of a key, or of a queue, is had by one running instance at a time: unique indexes hold that, whatever the
  claims do. A slot is free again by any change of status that ends the run; no statement gives it back.
* Whoever claims for a key or a limited queue holds its lock until the commit, and reads the slots after it has the
  lock, so the constraint is not met. A key whose lock somebody has is left to them.
* A lane costs one look, however many rows wait in it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.definitions.flow.flow_options import LANE_BITS
from workflows.lifecycle import FIRST_TERMINAL
from workflows.store.claim import ANSWER, EVER, HEAVIEST_CLAIM, LEASE_SECONDS, RETURNED, Claim, make_claim
from workflows.store.sql import CLOCK, NOW, RUNNABLE, RUNNING, becoming, compact, fetch, write_plain, write_texts

#: After all lanes: they are gone through from the highest.
TOP = (101, 0, 0)
_LOWEST = "-9223372036854775808"


@dataclass(frozen=True, slots=True)
class Lane:
    """One lane in which something waits, and what its rows have in common."""

    priority: int
    workspace: int
    #: Below zero: its rows hold their key between runs.
    number: int
    workflow: str
    version: int
    queue: str
    key: str | None
    gate: int | None
    rate_key: str | None
    #: How many slots of its key are taken, as far as could be seen.
    taken: int

    @property
    def place(self) -> tuple[int, int, int]:
        """Where it is found."""
        return self.priority, self.workspace, self.number


@dataclass(slots=True)
class Ticket:
    """How much is claimed of a lane: as many as it has slots for."""

    lane: Lane
    quota: int
    #: Numbers for its key, and of how many; and the same for its queue.
    slots: Sequence[int] | None = None
    cap: int | None = None
    queue_slots: Sequence[int] | None = None
    queue_cap: int | None = None
    #: How many seconds back it is looked for what is due.
    back: float = EVER
    #: Of each run: parts of buckets, and what it takes of each.
    draws: list[tuple[tuple[int, float], ...]] = field(default_factory=list)


#: Written exactly as the partial index has it.
_TAKEN = f"slot IS NOT NULL AND (status = {RUNNING} OR (holds AND status < {FIRST_TERMINAL}))"
_WAITING = f"i.status = {RUNNABLE} AND i.lane IS NOT NULL"
_COLUMNS = "i.priority, i.workspace_id, i.lane, i.workflow, i.version, i.queue, i.flow_key, i.gate, i.rate_key"
_ORDER = "ORDER BY i.priority DESC, i.workspace_id DESC, i.lane DESC LIMIT 1"

#: The upper bits of a lane are its queue's. One that holds its key has all bits turned round.
_STRETCH = f"(i.lane >> {LANE_BITS})"
#: Where the next lane is looked for: below this one, or below all lanes of queues that are passed over.
_BELOW = f"""CASE
        WHEN {_STRETCH} <> ALL(%(served)s::bigint[]) THEN coalesce(((
          SELECT max(x.s) FROM unnest(%(served)s::bigint[]) x(s) WHERE x.s < {_STRETCH}) + 1) << {LANE_BITS}, {_LOWEST})
        WHEN (i.workspace_id, {_STRETCH}) IN (SELECT * FROM unnest(%(workspaces)s::int[], %(closed)s::bigint[]))
          THEN {_STRETCH} << {LANE_BITS}
        ELSE i.lane END"""

#: From lane to lane, each by one step into the index: PostgreSQL has no such scan of its own.
_LOOK = compact(f"""
    WITH RECURSIVE l AS (
      (SELECT {_COLUMNS}, {_BELOW} AS below, 1 AS n FROM holdpoint_instance i WHERE {_WAITING}
        AND (i.priority, i.workspace_id, i.lane) < (%(priority)s::int, %(workspace)s::int, %(lane)s::bigint) {_ORDER})
      UNION ALL
      SELECT i.*, l.n + 1 FROM l CROSS JOIN LATERAL (
        SELECT {_COLUMNS}, {_BELOW} FROM holdpoint_instance i WHERE {_WAITING}
          AND (i.priority, i.workspace_id, i.lane) < (l.priority, l.workspace_id, l.below) {_ORDER}) i
      WHERE l.n < %(most)s
    )
    SELECT l.priority, l.workspace_id, l.lane, l.workflow, l.version, l.queue, l.flow_key, l.gate, l.rate_key,
      CASE WHEN l.gate IS NULL OR l.lane < 0 THEN 0 ELSE (SELECT count(*) FROM holdpoint_instance s
        WHERE s.workspace_id = l.workspace_id AND s.gate = l.gate AND {_TAKEN}) END
    FROM l
""")

#: Locks without rows: nothing has to exist before it can be limited.
_LOCK = "SELECT k FROM unnest(%(keys)s::bigint[]) k WHERE pg_try_advisory_xact_lock(k)"

_TAKEN_SLOTS = compact(f"""
    SELECT v.n, s.slot FROM unnest(%(ns)s::int[], %(workspaces)s::int[], %(gates)s::bigint[]) v(n, ws, gate)
    CROSS JOIN LATERAL (SELECT slot FROM holdpoint_instance s
      WHERE s.workspace_id = v.ws AND s.gate = v.gate AND {_TAKEN}) s
""")
_TAKEN_OF_QUEUES = compact(f"""
    SELECT v.n, s.queue_slot FROM unnest(%(ns)s::int[], %(workspaces)s::int[], %(queues)s::text[]) v(n, ws, queue)
    CROSS JOIN LATERAL (SELECT queue_slot FROM holdpoint_instance s
      WHERE s.status = {RUNNING} AND s.workspace_id = v.ws AND coalesce(s.queue, 'default') = v.queue) s
""")

#: As the plain claim: the head decides whether one comes alone. Rows that are locked besides are free at the commit.
#: The fence is raised by two: who raises it by one, a worker of a release without lanes, gets no row of a lane.
_TAKE = compact(f"""
    WITH v AS (
      SELECT * FROM unnest(%(ns)s::int[], %(priorities)s::int[], %(workspaces)s::int[], %(lanes)s::bigint[],
        %(quotas)s::int[], %(caps)s::int[], %(slots)s::text[], %(queue_caps)s::int[], %(queue_slots)s::text[],
        %(backs)s::float8[]) v(n, priority, ws, lane, quota, cap, slots, queue_cap, queue_slots, back)
    ), r AS MATERIALIZED (
      SELECT v.n, v.cap, v.slots, v.queue_cap, v.queue_slots, i.* FROM v CROSS JOIN LATERAL (
        SELECT i.id, i.due_at, i.solo, pg_column_size(i.input) + coalesce(pg_column_size(i.state), 0) AS bytes
        FROM holdpoint_instance i WHERE {_WAITING} AND i.priority = v.priority AND i.workspace_id = v.ws
          AND i.lane = v.lane AND i.due_at <= {NOW} AND i.due_at >= {NOW} - v.back * interval '1 s'
          AND (%(solos)s OR NOT i.solo)
        ORDER BY i.due_at LIMIT v.quota FOR NO KEY UPDATE SKIP LOCKED) i
    ), h AS (
      SELECT r.id FROM r WHERE r.solo AND %(solos)s AND r.due_at = (SELECT min(r.due_at) FROM r) LIMIT 1
    ), w AS (
      SELECT r.*, row_number() OVER (PARTITION BY r.n ORDER BY r.due_at, r.id) AS turn,
        row_number() OVER (ORDER BY r.n, r.due_at, r.id) AS rank,
        sum(r.bytes) OVER (ORDER BY r.n, r.due_at, r.id) AS total
      FROM r WHERE CASE WHEN EXISTS (SELECT FROM h) THEN r.id = (SELECT h.id FROM h) ELSE NOT r.solo END
    ), p AS (
      SELECT w.id, w.due_at, w.n, w.rank, w.cap, (w.slots::int[])[w.turn] AS slot, w.queue_cap,
        (w.queue_slots::int[])[w.turn] AS queue_slot FROM w
      WHERE (w.total <= {HEAVIEST_CLAIM} OR w.rank = 1) AND w.rank <= %(limit)s
    ), u AS (
      UPDATE holdpoint_instance i SET fence = i.fence + 2, runs = least(i.runs + 1, 32767),
        slot = CASE WHEN i.lane < 0 THEN i.slot ELSE p.slot END,
        slots = CASE WHEN i.lane < 0 THEN i.slots ELSE p.cap END,
        lane = CASE WHEN i.holds AND i.lane >= 0 AND p.slot IS NOT NULL THEN ~i.lane ELSE i.lane END,
        queue_slot = p.queue_slot, queue_slots = p.queue_cap,
        {becoming(RUNNING, f"{CLOCK} + %(lease)s * interval '1 s'")}
      FROM p WHERE i.id = p.id
      RETURNING p.due_at AS was_due, p.n, p.rank, {RETURNED}
    )
    SELECT u.n, {ANSWER} FROM u ORDER BY u.rank
""")

#: Rows that are stamped ahead of the clock, which was put back: see `store.claim`.
_UNSTICK = compact(f"""
    WITH a AS MATERIALIZED (
      SELECT i.id FROM unnest(%(priorities)s::int[], %(workspaces)s::int[], %(lanes)s::bigint[]) v(priority, ws, lane)
      CROSS JOIN LATERAL (SELECT i.id FROM holdpoint_instance i WHERE {_WAITING} AND i.priority = v.priority
        AND i.workspace_id = v.ws AND i.lane = v.lane AND i.due_at > {NOW} + interval '2 s'
        AND (NOT i.solo OR i.due_at > {NOW} + interval '60 s')
        ORDER BY i.due_at LIMIT 500 FOR NO KEY UPDATE SKIP LOCKED) i
    )
    UPDATE holdpoint_instance i SET due_at = {CLOCK} FROM a WHERE i.id = a.id
""")


def look_at_lanes(
    db: BaseDatabaseWrapper,
    after: tuple[int, int, int] = TOP,
    most: int = 500,
    *,
    served: Collection[int] | None = None,
    closed: Collection[tuple[int, int]] = (),
) -> list[Lane]:
    """The lanes in which something waits, the highest priority first, from one of them on.

    Of queues whose stretches are not `served` there is one lane at most for each that is; of those that are `closed`
    (workspace and stretch) there is one.
    """
    priority, workspace, number = after
    params = {
        "priority": priority,
        "workspace": workspace,
        "lane": number,
        "most": most,
        "served": None if served is None else write_plain([bits for one in served for bits in (one, ~one)]),
        "workspaces": write_plain([at for at, _ in closed for _ in (1, 2)]),
        "closed": write_plain([bits for _, one in closed for bits in (one, ~one)]),
    }
    return [Lane(*row) for row in fetch(db, _LOOK, params)]


def lock_keys(db: BaseDatabaseWrapper, keys: Sequence[int]) -> set[int]:
    """Within a transaction: those of these locks that nobody else has."""
    return {row[0] for row in fetch(db, _LOCK, {"keys": write_plain(keys)})}


def read_slots(db: BaseDatabaseWrapper, gates: Sequence[tuple[int, int]]) -> list[list[int | None]]:
    """The slots taken of each key (workspace and number). Read after its lock was taken."""
    taken: list[list[int | None]] = [[] for _ in gates]
    params = {
        "ns": write_plain(range(len(gates))),
        "workspaces": write_plain([workspace for workspace, _ in gates]),
        "gates": write_plain([gate for _, gate in gates]),
    }
    for n, slot in fetch(db, _TAKEN_SLOTS, params) if gates else ():
        taken[n].append(slot)
    return taken


def read_queue_slots(db: BaseDatabaseWrapper, queues: Sequence[tuple[int, str]]) -> list[list[int | None]]:
    """The slots taken of each queue (workspace and name); None of what has no number."""
    taken: list[list[int | None]] = [[] for _ in queues]
    params = {
        "ns": write_plain(range(len(queues))),
        "workspaces": write_plain([workspace for workspace, _ in queues]),
        "queues": write_texts([name for _, name in queues]),
    }
    for n, slot in fetch(db, _TAKEN_OF_QUEUES, params) if queues else ():
        taken[n].append(slot)
    return taken


def take_lanes(
    db: BaseDatabaseWrapper, tickets: Sequence[Ticket], limit: int, lease: float = LEASE_SECONDS, *, solos: bool = True
) -> list[tuple[Ticket, Claim]]:
    """Claim so much of what is due of these lanes, each with its ticket, in the order of the tickets."""
    params = {
        "limit": limit,
        "ns": write_plain(range(len(tickets))),
        "priorities": write_plain([one.lane.priority for one in tickets]),
        "workspaces": write_plain([one.lane.workspace for one in tickets]),
        "lanes": write_plain([one.lane.number for one in tickets]),
        "quotas": write_plain([one.quota for one in tickets]),
        "caps": write_plain([one.cap for one in tickets]),
        "slots": write_texts([None if one.slots is None else write_plain(one.slots) for one in tickets]),
        "queue_caps": write_plain([one.queue_cap for one in tickets]),
        "queue_slots": write_texts(
            [None if one.queue_slots is None else write_plain(one.queue_slots) for one in tickets]
        ),
        "backs": write_plain([one.back for one in tickets]),
        "lease": lease,
        "solos": solos,
    }
    return [(tickets[n], make_claim(row)) for n, *row in fetch(db, _TAKE, params)]


def unstick_lanes(db: BaseDatabaseWrapper, lanes: Sequence[Lane]) -> None:
    """Let rows go on that wait for a clock which was put back."""
    params = {
        "priorities": write_plain([one.priority for one in lanes]),
        "workspaces": write_plain([one.workspace for one in lanes]),
        "lanes": write_plain([one.number for one in lanes]),
    }
    fetch(db, _UNSTICK, params, rows=False)
