"""Sealing: hash chains over the ledger, one per workspace, written behind the engine's back.

Invariants owned:

* A row is in exactly one seal. A seal covers the transactions from_xid..to_xid, and to_xid never passes the
  oldest transaction that still runs: who commits late is younger than that, and falls into the next seal.
* A row's hash covers every cell, the payload through its salted digest, and reads the same in every session
  (no time zone, no locale). A redacted row takes the digest from the row that tells of its redaction.
* A database restored elsewhere counts its transactions anew. Once its counter is seen below what is sealed,
  what came along is sealed to the end and an era begins, divided from the last by time, `since`.
  `sealed_at` is never before a row it covers, so nothing sealed can be taken for part of a later era.

Within a seal rows are hashed per instance and then together, so that pruning one instance leaves behind no
more than one digest (see `tombstones`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.lifecycle import Event
from workflows.store.sql import CLOCK, atomic, compact, fetch, kind, micros

#: Rows that one seal statement reads, roughly: a backlog is sealed in several short transactions.
BATCH = 100_000

#: One sealer at a time, and no pruning meanwhile.
LOCK = 7_031_965

REDACTED = kind(Event.REDACTED)


#: What stands for a row's payload and salt. A payload that never was counts as empty text, which no JSON is;
#: `lost` is one that was cleared without a redaction, or replaced after one, and so matches nothing.
DIGEST = f"""CASE WHEN l.salt IS NOT NULL
      THEN encode(sha256(uuid_send(l.salt) || convert_to(coalesce(l.data::text, ''), 'UTF8')), 'hex')
      WHEN l.data IS NOT NULL THEN 'lost'
      ELSE coalesce((
        SELECT r.data->>'digest' FROM holdpoint_ledger r WHERE r.instance_id = l.instance_id
          AND r.kind = {REDACTED} AND r.data->>'seq' = l.seq::text ORDER BY r.seq LIMIT 1), 'lost') END"""

#: JSON quotes and separates, so no two rows read alike. The name at its front changes with the encoding.
ROW_HASH = f"""sha256(convert_to(jsonb_build_array('holdpoint row 1', l.workspace_id, l.instance_id, l.seq,
      {micros("l.at")}, {micros("l.due_at")}, l.kind, l.status, l.actor, l.name, l.xid, {DIGEST})::text, 'UTF8'))"""

#: A row that only a forger can have written, and that has no hash: its moment is none. `verify` tells of it.
BOUNDLESS = "(NOT isfinite(l.due_at) OR l.due_at > '290000-01-01 00:00Z') IS TRUE"

SEAL_HASH = f"""sha256(convert_to(jsonb_build_array('holdpoint seal 1', encode(s.previous, 'hex'),
      encode(s.content, 'hex'), s.workspace_id, s.number, s.era, {micros("s.since")}, s.from_xid, s.to_xid,
      {micros("s.sealed_at")}, s.rows)::text, 'UTF8'))"""


def fold_parts(by: str) -> str:
    """From `hashed` rows, the digest of each instance's, per seal."""
    return f"""SELECT {by}, instance_id, count(*) AS n, sha256(string_agg(h, ''::bytea ORDER BY seq, h)) AS digest
      FROM hashed GROUP BY {by}, instance_id"""


def fold_content(by: str) -> str:
    """From the `part` of each instance, one digest per seal."""
    return f"""SELECT {by}, sum(n)::bigint AS n, sha256(string_agg(uuid_send(instance_id) || int8send(n) || digest,
        ''::bytea ORDER BY instance_id, digest)) AS content FROM part GROUP BY {by}"""


#: The horizon comes from this statement's snapshot; those that follow see at least as much.
_POSITION = compact("""
    SELECT s.era, s.since, s.to_xid, s.sealed_at,
      pg_snapshot_xmin(x)::text::bigint, pg_snapshot_xmax(x)::text::bigint
    FROM pg_current_snapshot() x
    LEFT JOIN LATERAL (SELECT * FROM holdpoint_seal ORDER BY id DESC LIMIT 1) s ON true
""")

#: Where a batch ends: behind the first so many rows as they lie in the table, which is about their order.
_CUT = compact("""
    SELECT count(*), max(xid) + 1 FROM (
      SELECT l.xid FROM holdpoint_ledger l
      WHERE l.xid >= %(lower)s AND l.xid < %(horizon)s AND l.at >= %(since)s LIMIT %(limit)s) x
""")

#: What a restored database brought along unsealed; in a healthy one nobody asks.
_TAIL = compact("""
    SELECT max(l.at), max(l.xid) + 1 FROM holdpoint_ledger l WHERE l.xid >= %(lower)s AND l.at >= %(since)s
""")

#: All workspaces at once: one look at the new rows through the index on xid, however many workspaces there are.
_SEAL = compact(f"""
    WITH hashed AS (
      SELECT l.workspace_id, l.instance_id, l.seq, l.at, {ROW_HASH} AS h FROM holdpoint_ledger l
      WHERE l.xid >= %(lower)s AND l.xid < %(cut)s::bigint
        AND l.at >= %(since)s::timestamptz AND l.at < %(until)s::timestamptz AND NOT {BOUNDLESS}
    ), part AS (
      {fold_parts("workspace_id")}
    ), content AS (
      {fold_content("workspace_id")}
    ), latest AS (
      SELECT max(at) AS at FROM hashed
    ), s AS (
      SELECT c.workspace_id, coalesce(p.number, 0) + 1 AS number, %(era)s::int AS era, %(since)s::timestamptz AS since,
        greatest(CASE WHEN %(until)s::timestamptz = 'infinity' THEN {CLOCK} END, %(sealed_at)s::timestamptz,
          latest.at) AS sealed_at,
        CASE WHEN p.era = %(era)s::int THEN p.to_xid ELSE 0 END AS from_xid, %(cut)s::bigint AS to_xid, c.n AS rows,
        coalesce(p.hash, ''::bytea) AS previous, c.content
      FROM content c JOIN holdpoint_workspace w ON w.id = c.workspace_id CROSS JOIN latest
      LEFT JOIN LATERAL (
        SELECT q.number, q.era, q.to_xid, q.hash FROM holdpoint_seal q WHERE q.workspace_id = c.workspace_id
        ORDER BY q.number DESC LIMIT 1) p ON true
    )
    INSERT INTO holdpoint_seal (workspace_id, number, sealed_at, era, since, from_xid, to_xid, rows, previous, hash)
    SELECT workspace_id, number, sealed_at, era, since, from_xid, to_xid, rows, previous, {SEAL_HASH}
    FROM s ORDER BY workspace_id RETURNING 1
""")


@dataclass(frozen=True, slots=True)
class SealPosition:
    """Up to where everything is sealed, and up to where it could be."""

    era: int
    since: datetime
    lower: int
    sealed_at: datetime
    horizon: int


def seal_batch(db: BaseDatabaseWrapper, limit: int = BATCH) -> tuple[int, bool]:
    """Seal the oldest unsealed rows, about `limit`: how many seals that made, and whether more remain."""
    with atomic(db):
        if fetch(db, "SELECT pg_try_advisory_xact_lock(%(key)s)", {"key": LOCK}) != [(True,)]:
            return 0, False  # another one is at it
        seals, at = _find_position(db)
        params = {"lower": at.lower, "since": at.since, "horizon": at.horizon, "limit": limit}
        [(rows, behind)] = fetch(db, _CUT, params)
        if not rows:
            return seals, False
        more = rows == limit and behind < at.horizon
        return seals + _insert(db, at, behind if more else at.horizon), more


def _find_position(db: BaseDatabaseWrapper) -> tuple[int, SealPosition]:
    [(era, since, lower, sealed_at, horizon, counter)] = fetch(db, _POSITION, {})
    epoch = datetime.fromtimestamp(0, UTC)
    if era is None:
        return 0, SealPosition(0, epoch, 0, epoch, horizon)
    at = SealPosition(era, since, lower, sealed_at, horizon)
    # Not the horizon, which only lags: a counter below what it once was means that it began anew.
    return _begin_era(db, at) if counter < lower else (0, at)


def _begin_era(db: BaseDatabaseWrapper, at: SealPosition) -> tuple[int, SealPosition]:
    """Seal what the old cluster left, then count from zero again."""
    [(latest, behind)] = fetch(db, _TAIL, {"lower": at.lower, "since": at.since})
    since = max(at.sealed_at, latest or at.sealed_at) + timedelta(microseconds=1)
    seals = _insert(db, at, behind, until=since) if latest else 0
    return seals, replace(at, era=at.era + 1, since=since, lower=0, sealed_at=since)


def _insert(db: BaseDatabaseWrapper, at: SealPosition, cut: int, until: datetime | str = "infinity") -> int:
    params = {"era": at.era, "since": at.since, "until": until, "lower": at.lower, "cut": cut}
    return len(fetch(db, _SEAL, {**params, "sealed_at": at.sealed_at}))
