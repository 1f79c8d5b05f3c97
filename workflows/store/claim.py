"""Claiming work: leases with a fence, committed with the run counted before any author code runs.

Lives here: claim, renew, release, reclaim. Invariants owned:

* A claim raises `fence`; whatever a worker writes later carries that number and is ignored once another
  claim has been made. A lease is only a promise to look again: safety is the fence.
* A row that was woken after the claim's snapshot is not taken (`due_at <= NOW`, and every wake stamps
  `due_at`): the claim would see its new status but its old, empty inbox.
* Whoever keeps a row busy takes no lease away: while the row is held, its lease is renewed beside it
  (`holdpoint_renewal`), and a row whose renewal holds is not reclaimed.
* A solo row (its last worker died, or it may run once only) is claimed without neighbours, so a step
  that kills its worker never takes others with it twice.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db import OperationalError
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import errors

from workflows.lifecycle import Event
from workflows.store.flow.places import KEPT, describe_kept
from workflows.store.flow.token_buckets import give_back
from workflows.store.sql import CLOCK, LEDGER, NOW, RUNNABLE, RUNNING, becoming, compact, fetch, kind, retrying

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
    #: How many units it has opened.
    asked: int
    #: Why the last run ended without progress.
    error: str | None
    #: The last number given out when it was claimed: a signal with a higher one is a latecomer.
    seq: int
    input: str
    state: str | None
    at: datetime
    #: Seconds that it was due before it was claimed.
    waited: float
    #: [n, name, payload, received_at, source] of every unconsumed signal, in order of arrival; None where they
    #: are too many or too large to travel with the claim.
    signals: list[list[Any]] | None
    #: What the run has said of its progress, as JSON; and the latest of it that the row has.
    progress: str | None = None
    kept: str | None = None
    #: Buckets that its run was taken from, and how much: given back with a claim that nobody has begun.
    drawn: tuple[tuple[int, float], ...] = ()
    #: How many states its workflow keeps; of most none.
    keep: int = 0


#: What a claim carries of an inbox. More is left behind and read when the author looks: one instance with a
#: huge inbox must not make the statement that serves everybody fail.
CARRIED_SIGNALS = 64
CARRIED_BYTES = 4_096

#: What a claim carries of inputs and states, as they are stored: a worker holds all of a batch at once.
HEAVIEST_CLAIM = 16 * 1024 * 1024
#: Seconds into the past that hold everything.
EVER = 1e10

#: Entries of rows that are runnable no more stay in the index as long as somebody's snapshot is older, and a scan from
#: its low end reads them all. So whoever knows how far back something can be due looks no further.
_QUEUE = f"""FROM holdpoint_instance i WHERE i.status = {RUNNABLE} AND i.lane IS NULL
        AND i.due_at <= {NOW} AND i.due_at >= {NOW} - %(back)s * interval '1 s'
        AND (%(known)s::text[] IS NULL OR i.workflow = ANY(%(known)s::text[]))"""

_ROW = "json_build_array(s.n, s.name, s.payload, s.received_at, s.source)"

#: What comes of a claim's rows, whichever statement claims them.
RETURNED = """i.id, i.fence, i.workflow, i.version, i.step, i.attempt, i.runs, i.timed_out,
        i.inbox, i.names, i.parent_id, i.key, i.workspace_id, i.spawns, i.solo, i.asked, i.error, i.seq,
        i.input, i.state"""
ANSWER = f"""u.id::text, u.fence, u.workflow, u.version, u.step, u.attempt, u.runs, u.timed_out, u.inbox, u.names,
      u.parent_id::text, u.key, u.workspace_id, u.spawns, u.solo, u.asked, u.error, u.seq, u.input::text, u.state::text,
      {CLOCK}, extract(epoch FROM {CLOCK} - u.was_due)::float8, CASE WHEN u.inbox BETWEEN 1 AND {CARRIED_SIGNALS} AND (
        SELECT sum(pg_column_size(s.payload)) FROM holdpoint_signal s
        WHERE s.instance_id = u.id AND s.consumed_at IS NULL) <= {CARRIED_BYTES}
      THEN (
        SELECT json_agg({_ROW} ORDER BY s.n)::text FROM holdpoint_signal s
        WHERE s.instance_id = u.id AND s.consumed_at IS NULL) END"""

#: The head decides: if it is solo it comes alone, and nothing else is locked; otherwise no solo row comes.
#: Runs on the pump's connection with sequential scans off: planned while the tables are empty it would
#: otherwise keep scanning the signals when they are many.
_CLAIM = compact(f"""
    WITH f AS MATERIALIZED (
      SELECT i.id, i.solo, i.due_at {_QUEUE} AND (%(solos)s OR NOT i.solo)
      ORDER BY i.due_at LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
    ), c AS MATERIALIZED (
      SELECT i.id, i.due_at, pg_column_size(i.input) + coalesce(pg_column_size(i.state), 0) AS bytes {_QUEUE}
        AND NOT i.solo AND i.id <> (SELECT f.id FROM f WHERE NOT f.solo)
      ORDER BY i.due_at LIMIT %(limit)s - 1 FOR NO KEY UPDATE SKIP LOCKED
    ), p AS (
      SELECT f.id, f.due_at FROM f UNION ALL
      SELECT w.id, w.due_at FROM (
        SELECT c.id, c.due_at, sum(c.bytes) OVER (ORDER BY c.due_at, c.id) AS total FROM c) w
      WHERE w.total <= {HEAVIEST_CLAIM}
    ), u AS (
      UPDATE holdpoint_instance i SET fence = i.fence + 1, runs = least(i.runs + 1, 32767),
        {becoming(RUNNING, f"{CLOCK} + %(lease)s * interval '1 s'")}
      FROM p WHERE i.id = p.id
      RETURNING p.due_at AS was_due, {RETURNED}
    )
    SELECT {ANSWER}
    FROM u
""")

#: While somebody holds plain instances back, they are left out; what becomes of them: see `flow.places`.
_CLAIM_OTHERS = _CLAIM.replace(compact(_QUEUE), compact(f"{_QUEUE} AND NOT {KEPT}"))

#: What was left behind, read later but as of the claim: numbers are given under the instance's lock, and only
#: its claimer consumes, so "up to the claim's last number" is the same set whenever it is read.
_LEFT = """
    FROM holdpoint_signal s WHERE s.instance_id = %(id)s::uuid AND s.n <= %(seq)s AND s.consumed_at IS NULL
      AND (%(names)s::text[] IS NULL OR s.name = ANY(%(names)s::text[])) ORDER BY s.n
"""
_READ = compact(f"SELECT {_ROW}::text {_LEFT}")  # row by row: a single value of PostgreSQL ends at 1 GB
_COUNT = compact(f"SELECT s.n {_LEFT}")

#: Rows of ours that nobody holds, locked one by one in id order. A locked one is skipped: often that is our own
#: commit, which waits for another of them, and nobody can take a locked row back meanwhile.
_HELD = f"""
    WITH v AS (SELECT * FROM unnest(%(ids)s::uuid[], %(fences)s::int[]) v(id, fence)
    ), k AS MATERIALIZED (
      SELECT i.id FROM (SELECT * FROM v ORDER BY id) v CROSS JOIN LATERAL (
        SELECT i.id FROM holdpoint_instance i
        WHERE i.id = v.id AND i.fence = v.fence AND i.status = {RUNNING} FOR NO KEY UPDATE SKIP LOCKED) i
    )"""

#: What is held is renewed beside its row. Whoever reclaims reads both.
_RENEW = compact(f"""
    {_HELD}
    , u AS (
      UPDATE holdpoint_instance i SET due_at = {CLOCK} + %(lease)s * interval '1 s'
      FROM k WHERE i.id = k.id AND i.id = ANY(%(ids)s::uuid[]) RETURNING i.id
    ), w AS (
      INSERT INTO holdpoint_renewal AS r (instance_id, fence, due_at)
      SELECT v.id, v.fence, {CLOCK} + %(lease)s * interval '1 s' FROM (SELECT * FROM v ORDER BY id) v
      JOIN holdpoint_instance i ON i.id = v.id AND i.fence = v.fence AND i.status = {RUNNING}
      WHERE v.id NOT IN (SELECT k.id FROM k)
      ON CONFLICT (instance_id) DO UPDATE SET fence = excluded.fence, due_at = excluded.due_at
        WHERE r.fence <= excluded.fence
    )
    SELECT u.id::text FROM u
""")

#: Given back untouched: the run that was counted at the claim is taken off again.
_RELEASE = compact(f"""
    {_HELD}
    UPDATE holdpoint_instance i SET runs = i.runs - 1, solo = i.solo OR %(solo)s::bool,
      {becoming(RUNNABLE, CLOCK)}
    FROM k WHERE i.id = k.id AND i.id = ANY(%(ids)s::uuid[]) RETURNING i.id::text
""")

#: Runnable rows are stamped with the moment, so one this far ahead was stamped by a clock that has been put back. What
#: was postponed is due in a while (see `POSTPONED` in `back_off`), and runs alone.
AHEAD = "interval '2 s'"
AHEAD_ALONE = "interval '60 s'"
#: Whether its runs are used up is decided by the next claimer, who knows the definition.
_RECLAIM = compact(f"""
    WITH c AS MATERIALIZED (
      SELECT i.id FROM holdpoint_instance i WHERE i.status = {RUNNING} AND i.due_at <= {NOW}
        AND NOT EXISTS (SELECT 1 FROM holdpoint_renewal r
          WHERE r.instance_id = i.id AND r.fence = i.fence AND r.due_at > {NOW} OFFSET 0)
      ORDER BY i.due_at LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
    ), u AS (
      UPDATE holdpoint_instance i SET fence = i.fence + 1, seq = i.seq + 1, solo = true,
        {becoming(RUNNABLE, CLOCK)}
      FROM c WHERE i.id = c.id RETURNING i.id, i.seq, i.workspace_id, i.status, i.step, i.runs
    ), a AS MATERIALIZED (
      SELECT i.id FROM holdpoint_instance i WHERE i.status = {RUNNABLE} AND i.lane IS NULL
        AND i.due_at > {NOW} + {AHEAD} AND (NOT i.solo OR i.due_at > {NOW} + {AHEAD_ALONE})
      ORDER BY i.due_at LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
    ), b AS (
      UPDATE holdpoint_instance i SET due_at = {CLOCK} FROM a WHERE i.id = a.id
    ), l AS (
      {LEDGER}
      SELECT id, {CLOCK}, NULL, seq, workspace_id, {kind(Event.RECLAIMED)}, status, '', step, to_jsonb(runs) FROM u
    )
    SELECT count(*) FROM u
""")

_FORGET = f"DELETE FROM holdpoint_renewal WHERE due_at < {CLOCK} - interval '1 min' RETURNING instance_id"


def claim(
    db: BaseDatabaseWrapper,
    limit: int,
    lease: float = LEASE_SECONDS,
    *,
    back: float = EVER,
    solos: bool = True,
    known: Sequence[str] | None = None,
    kept: Sequence[tuple[int, str]] = (),
) -> list[Claim]:
    """Take up to `limit` due instances, each with its unconsumed signals, in one statement.

    Of those due in the last `back` seconds; without `solos`, none that has to run alone; of the `known` workflows; and
    none that is `kept` back.
    """
    params = {"limit": limit, "lease": lease, "back": back, "solos": solos, "known": known}
    statement = _CLAIM
    if kept:
        statement, params = _CLAIM_OTHERS, params | describe_kept(kept)
    try:
        rows = fetch(db, statement, params)
    except OperationalError as error:
        if limit == 1 or not isinstance(error.__cause__, errors.ProgramLimitExceeded | errors.OutOfMemory):
            raise
        rows = fetch(db, statement, params | {"limit": 1})  # too much for one answer: one at a time
    return [make_claim(row) for row in rows]


def make_claim(row: Sequence[Any]) -> Claim:
    """A row of a claiming statement."""
    *columns, signals = row
    return Claim(*(*columns, _parse(columns[8], signals)))


def read_signals(db: BaseDatabaseWrapper, claim: Claim, names: Sequence[str] | None) -> list[list[Any]]:
    """The signals a claim left behind, all or those of some names."""
    return [json.loads(text) for (text,) in fetch(db, _READ, _left(claim, names))]


def read_numbers(db: BaseDatabaseWrapper, claim: Claim, names: Sequence[str] | None) -> list[int]:
    """Only their numbers."""
    return [n for (n,) in fetch(db, _COUNT, _left(claim, names))]


def _left(claim: Claim, names: Sequence[str] | None) -> dict[str, Any]:
    return {"id": claim.id, "seq": claim.seq, "names": None if names is None else list(names)}


def _parse(inbox: int, signals: str | None) -> list[list[Any]] | None:
    parsed: list[list[Any]] = json.loads(signals) if signals else []
    # Fewer than counted: too many to carry, or (when the clock stepped back) delivered between our snapshot and lock.
    return parsed if len(parsed) == inbox else None


def renew(db: BaseDatabaseWrapper, claims: Sequence[Claim], lease: float = LEASE_SECONDS) -> set[str]:
    """Prolong the leases; the ids of those whose row was free. The others are kept beside it: try again soon."""
    return _touch(db, _RENEW, claims, {"lease": lease})


def release(db: BaseDatabaseWrapper, claims: Sequence[Claim], *, solo: bool = False) -> set[str]:
    """Give unstarted instances back without having spent a run; those not answered are held by somebody just now."""
    released = _touch(db, _RELEASE, claims, {"solo": solo})
    give_back(db, [drawn for one in claims if one.id in released for drawn in one.drawn])
    return released


def reclaim(db: BaseDatabaseWrapper, limit: int = 500) -> int:
    """Take instances back from workers whose lease has ended; how many. What waits for a clock put back goes on."""
    return int(fetch(db, _RECLAIM, {"limit": limit})[0][0])


def forget_renewals(db: BaseDatabaseWrapper) -> int:
    """Remove the leases kept beside their rows that have ended."""
    return len(fetch(db, _FORGET, {}))


def _touch(db: BaseDatabaseWrapper, statement: str, claims: Sequence[Claim], params: dict[str, Any]) -> set[str]:
    if not claims:
        return set()
    params |= {"ids": [one.id for one in claims], "fences": [one.fence for one in claims]}
    return {row[0] for row in retrying(db, lambda: fetch(db, statement, params))}
