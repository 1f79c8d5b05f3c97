"""Claiming work: leases with a fence, committed with the run counted before any author code runs.

Lives here: claim, renew, release, reclaim. Invariants owned:

* A claim raises `fence`; whatever a worker writes later carries that number and is ignored once another
  claim has been made. A lease is only a promise to look again: safety is the fence.
* A row that was woken after the claim's snapshot is not taken (`due_at <= NOW`, and every wake stamps
  `due_at`): the claim would see its new status but its old, empty inbox.
* A solo row (its last worker died, or it may run once only) is claimed without neighbours, so a step
  that kills its worker never takes others with it twice.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.lifecycle import Event
from workflows.store.sql import CLOCK, LEDGER, NOW, RUNNABLE, RUNNING, becoming, compact, fetch, kind

LEASE_SECONDS = 10.0


@dataclass(slots=True)
class Claim:
    """One instance as a worker holds it. Texts of JSON are read only when the author asks for them."""

    id: str
    fence: int
    workflow: str
    version: int
    step: str
    attempt: int
    runs: int
    timed_out: bool
    inbox: int
    names: list[str] | None
    parent: str | None
    key: str | None
    workspace: int
    spawns: int
    solo: bool
    input: str
    state: str | None
    at: datetime
    #: [n, name, payload, received_at, source] of every unconsumed signal, in order of arrival.
    signals: list[list[Any]]


_SIGNALS = """
    SELECT json_agg(json_build_array(s.n, s.name, s.payload, s.received_at, s.source) ORDER BY s.n)::text AS signals
    FROM holdpoint_signal s WHERE s.instance_id = u.id AND s.consumed_at IS NULL
"""

#: Runs on the pump's connection with sequential scans off: planned while the tables are empty it would
#: otherwise keep scanning the signals when they are many.
_CLAIM = compact(f"""
    WITH c AS MATERIALIZED (
      SELECT i.id, i.solo FROM holdpoint_instance i WHERE i.status = {RUNNABLE} AND i.due_at <= {NOW}
      ORDER BY i.due_at LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
    ), f AS (SELECT id, solo FROM c LIMIT 1
    ), p AS (SELECT c.id FROM c, f WHERE CASE WHEN f.solo THEN c.id = f.id ELSE NOT c.solo END
    ), u AS (
      UPDATE holdpoint_instance i SET fence = i.fence + 1, runs = least(i.runs + 1, 32767),
        {becoming(RUNNING, f"{CLOCK} + %(lease)s * interval '1 s'")}
      FROM p WHERE i.id = p.id
      RETURNING i.id, i.fence, i.workflow, i.version, i.step, i.attempt, i.runs, i.timed_out, i.inbox, i.names,
        i.parent_id, i.key, i.workspace_id, i.spawns, i.solo, i.input, i.state
    )
    SELECT u.id::text, u.fence, u.workflow, u.version, u.step, u.attempt, u.runs, u.timed_out, u.inbox, u.names,
      u.parent_id::text, u.key, u.workspace_id, u.spawns, u.solo, u.input::text, u.state::text, {CLOCK}, m.signals
    FROM u LEFT JOIN LATERAL ({_SIGNALS} AND u.inbox > 0) m ON true
""")

_REREAD = compact(f"SELECT m.signals FROM (SELECT %(id)s::uuid AS id) u, LATERAL ({_SIGNALS}) m")

_RENEW = compact(f"""
    UPDATE holdpoint_instance i SET due_at = {CLOCK} + %(lease)s * interval '1 s'
    FROM unnest(%(ids)s::uuid[], %(fences)s::int[]) v(id, fence)
    WHERE i.id = ANY(%(ids)s::uuid[]) AND i.id = v.id AND i.fence = v.fence AND i.status = {RUNNING}
    RETURNING i.id::text
""")

#: Given back untouched: the run that was counted at the claim is taken off again.
_RELEASE = compact(f"""
    UPDATE holdpoint_instance i SET runs = i.runs - 1, solo = i.solo OR %(solo)s::bool,
      {becoming(RUNNABLE, CLOCK)}
    FROM unnest(%(ids)s::uuid[], %(fences)s::int[]) v(id, fence)
    WHERE i.id = ANY(%(ids)s::uuid[]) AND i.id = v.id AND i.fence = v.fence AND i.status = {RUNNING}
    RETURNING i.id::text
""")

#: Whether its runs are used up is decided by the next claimer, who knows the definition.
_RECLAIM = compact(f"""
    WITH c AS MATERIALIZED (
      SELECT i.id FROM holdpoint_instance i WHERE i.status = {RUNNING} AND i.due_at <= {NOW}
      ORDER BY i.due_at LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
    ), u AS (
      UPDATE holdpoint_instance i SET fence = i.fence + 1, seq = i.seq + 1, solo = true,
        {becoming(RUNNABLE, CLOCK)}
      FROM c WHERE i.id = c.id RETURNING i.id, i.seq, i.workspace_id, i.status, i.step, i.runs
    ), l AS (
      {LEDGER}
      SELECT id, {CLOCK}, NULL, seq, workspace_id, {kind(Event.RECLAIMED)}, status, '', step, to_jsonb(runs) FROM u
    )
    SELECT count(*) FROM u
""")


def claim(db: BaseDatabaseWrapper, limit: int, lease: float = LEASE_SECONDS) -> list[Claim]:
    """Take up to `limit` due instances, each with its unconsumed signals, in one statement."""
    rows = fetch(db, _CLAIM, {"limit": limit, "lease": lease})
    claims = [Claim(*(*columns, json.loads(signals) if signals else [])) for *columns, signals in rows]
    for one in claims:
        if one.inbox != len(one.signals):
            # Delivered between our snapshot and our lock; possible only when the clock stepped back.
            one.signals = reread_signals(db, one.id)
            one.inbox = len(one.signals)
    return claims


def reread_signals(db: BaseDatabaseWrapper, id: str) -> list[list[Any]]:
    """The unconsumed signals of one instance, by a snapshot of their own."""
    text = fetch(db, _REREAD, {"id": id})[0][0]
    return json.loads(text) if text else []


def renew(db: BaseDatabaseWrapper, claims: Sequence[Claim], lease: float = LEASE_SECONDS) -> set[str]:
    """Prolong the leases; the ids that are still ours come back."""
    return _touch(db, _RENEW, claims, {"lease": lease})


def release(db: BaseDatabaseWrapper, claims: Sequence[Claim], *, solo: bool = False) -> set[str]:
    """Give unstarted instances back without having spent a run; `solo` has them claimed alone."""
    return _touch(db, _RELEASE, claims, {"solo": solo})


def reclaim(db: BaseDatabaseWrapper, limit: int = 500) -> int:
    """Take instances back from workers whose lease has ended; how many."""
    return int(fetch(db, _RECLAIM, {"limit": limit})[0][0])


def _touch(db: BaseDatabaseWrapper, statement: str, claims: Sequence[Claim], params: dict[str, Any]) -> set[str]:
    if not claims:
        return set()
    params |= {"ids": [one.id for one in claims], "fences": [one.fence for one in claims]}
    return {row[0] for row in fetch(db, statement, params)}
