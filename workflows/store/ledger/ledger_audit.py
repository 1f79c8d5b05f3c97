"""Reading the chains back: what is sealed, whether the rows still give those hashes, and all rows for an export.

Invariant owned: nothing here changes a row, so it may run on a replica and next to everything else. Each
statement judges on its own snapshot: a seal never changes, and pruning or redaction happens in one transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.store.ledger.seals import BOUNDLESS, DIGEST, REDACTED, ROW_HASH, SEAL_HASH, fold_content, fold_parts
from workflows.store.sql import atomic, compact, fetch

PAGE = 1000

#: The first transaction of any cluster; what is below has a meaning of its own to PostgreSQL.
FIRST_XID = 3

#: The parts of a tombstone as `tombstones` writes them: seal, rows, digest. As text, because jsonb writes a value one
#: way.
_PART = r'\[[1-9]\d{0,8}, [1-9]\d{0,8}, "[0-9a-f]{64}"\]'
_WELL_FORMED = rf"((l.data->'parts')::text ~ '^\[{_PART}(, {_PART})*\]$') IS TRUE"

_LINKS = compact("""
    SELECT number, sealed_at, era, since, from_xid, to_xid, rows, previous, hash FROM holdpoint_seal
    WHERE workspace_id = %(ws)s AND number > %(after)s ORDER BY number LIMIT %(limit)s
""")

#: From one era to the next, however many seals each has.
_ERA = """
    (SELECT era, since FROM holdpoint_seal ORDER BY era, since LIMIT 1)
      UNION ALL
      SELECT n.era, n.since FROM eras CROSS JOIN LATERAL (
        SELECT q.era, q.since FROM holdpoint_seal q WHERE q.era > eras.era ORDER BY q.era, q.since LIMIT 1) n
"""
_ERAS = compact(f"WITH RECURSIVE eras AS ({_ERA}) SELECT era, since FROM eras ORDER BY era")

#: A run of seals whose ranges follow one another, in one look at their rows: width_bucket finds each row's seal.
#: No sealed row is later than the latest seal; a later one with a transaction of the range is of an era to come.
_PROVE = compact(f"""
    WITH hashed AS (
      SELECT %(first)s::int + width_bucket(l.xid, %(froms)s::bigint[]) - 1 AS number, l.instance_id, l.seq,
        {ROW_HASH} AS h
      FROM holdpoint_ledger l
      WHERE l.workspace_id = %(ws)s::int AND l.xid >= %(lower)s AND l.xid < %(upper)s AND l.at >= %(since)s::timestamptz
        AND l.at < coalesce(%(until)s::timestamptz,
          (SELECT z.sealed_at + interval '1 us' FROM holdpoint_seal z ORDER BY z.id DESC LIMIT 1))
        AND NOT {BOUNDLESS}
    ), part AS (
      {fold_parts("number")}
      UNION ALL
      SELECT (x.part->>0)::int, l.instance_id, (x.part->>1)::bigint, decode(x.part->>2, 'hex')
      FROM holdpoint_ledger l, jsonb_array_elements(CASE WHEN {_WELL_FORMED} THEN l.data->'parts' END) x(part)
      WHERE l.workspace_id = %(ws)s::int AND l.kind = {REDACTED}
        AND (x.part->>0)::int BETWEEN %(first)s AND %(last)s
    ), content AS (
      {fold_content("number")}
    ), s AS (
      SELECT q.*, c.n, c.content FROM holdpoint_seal q LEFT JOIN content c ON c.number = q.number
      WHERE q.workspace_id = %(ws)s AND q.number BETWEEN %(first)s AND %(last)s
    )
    SELECT s.number, coalesce(s.n, 0), coalesce({SEAL_HASH} = s.hash, false) FROM s ORDER BY s.number
""")

#: Numbers that an instance gave out and its history lacks: which rows a removal took. Only looked for after one.
_HOLES = compact(f"""
    (SELECT x.instance_id, x.was + 1, x.seq - 1 FROM (
      SELECT l.instance_id, l.seq, l.kind, l.data, lag(l.seq, 1, 0) OVER (PARTITION BY l.instance_id ORDER BY l.seq) was
      FROM holdpoint_ledger l WHERE l.workspace_id = %(ws)s) x
    WHERE x.seq > x.was + 1 AND NOT (x.kind = {REDACTED} AND x.data ? 'parts') LIMIT %(limit)s)
    UNION ALL
    (SELECT i.id, l.seq + 1, i.seq FROM holdpoint_instance i CROSS JOIN LATERAL (
      SELECT coalesce(max(l.seq), 0) AS seq FROM holdpoint_ledger l WHERE l.instance_id = i.id) l
    WHERE i.workspace_id = %(ws)s AND i.seq > l.seq LIMIT %(limit)s)
""")

_LOST = compact(f"""
    SELECT l.instance_id, l.seq FROM holdpoint_ledger l
    WHERE l.workspace_id = %(ws)s::int AND l.salt IS NULL AND {DIGEST} = 'lost' LIMIT %(limit)s
""")

#: A tombstone that is not as `tombstones` writes it vouches for nothing.
_MALFORMED = compact(f"""
    SELECT l.instance_id, l.seq FROM holdpoint_ledger l
    WHERE l.workspace_id = %(ws)s::int AND l.kind = {REDACTED} AND l.data ? 'parts' AND NOT ({_WELL_FORMED})
    LIMIT %(limit)s
""")

#: What `_PROVE` does not look at and no seal to come will. One snapshot, so that a seal that is made meanwhile is there
#: together with its rows. A workspace's seals of an era begin at zero and follow one another (one that is gone is told
#: as such), so the last one says how far they reach. While a restored database still has to begin its era, what is
#: later than all seals belongs to that.
_STRAY = compact(f"""
    WITH RECURSIVE eras AS (
      {_ERA}
    ), z AS (
      SELECT q.era, q.to_xid, q.sealed_at, pg_snapshot_xmax(x)::text::bigint < q.to_xid AS restored,
        greatest(pg_snapshot_xmax(x)::text::bigint, pg_current_xact_id_if_assigned()::text::bigint + 1) AS counter
      FROM holdpoint_seal q, pg_current_snapshot() x ORDER BY q.id DESC LIMIT 1
    ), e AS (
      SELECT era, since, coalesce(lead(since) OVER (ORDER BY era), 'infinity') AS until, coalesce((
        SELECT max(q.to_xid) FROM holdpoint_seal q WHERE q.workspace_id = %(ws)s AND q.era = eras.era), 0) AS to_xid
      FROM eras
    ), why AS (
      SELECT l.instance_id, l.seq, CASE
        WHEN l.xid < {FIRST_XID} THEN 'transaction'
        WHEN {BOUNDLESS} OR NOT isfinite(l.at) OR l.at < 'epoch' THEN 'moment'
        WHEN z.era IS NULL THEN NULL
        WHEN e.era IS NULL THEN 'unsealed'
        WHEN l.xid < e.to_xid AND l.at <= z.sealed_at THEN NULL
        WHEN e.era < z.era THEN 'unsealed'
        WHEN l.xid < z.to_xid AND NOT (z.restored AND l.at > z.sealed_at) THEN 'unsealed'
        WHEN l.xid >= z.counter AND NOT z.restored THEN 'future' END AS why
      FROM holdpoint_ledger l LEFT JOIN z ON true LEFT JOIN e ON l.at >= e.since AND l.at < e.until
      WHERE l.workspace_id = %(ws)s::int
    )
    SELECT instance_id, seq, why FROM why WHERE why IS NOT NULL LIMIT %(limit)s
""")

#: Rows of the workspace's instances that say they are of one that does not exist, and so are in nobody's chain.
_HOMELESS = compact("""
    SELECT l.instance_id, l.seq, 'workspace' FROM holdpoint_instance i CROSS JOIN LATERAL (
      SELECT o.instance_id, o.seq, o.workspace_id FROM holdpoint_ledger o WHERE o.instance_id = i.id OFFSET 0) l
    WHERE i.workspace_id = %(ws)s AND NOT EXISTS (SELECT FROM holdpoint_workspace w WHERE w.id = l.workspace_id)
    LIMIT %(limit)s
""")

_HEADS = compact("""
    SELECT w.slug, s.number, s.hash, s.to_xid, s.sealed_at FROM holdpoint_workspace w CROSS JOIN LATERAL (
      SELECT * FROM holdpoint_seal q WHERE q.workspace_id = w.id ORDER BY q.number DESC LIMIT 1) s
    WHERE %(ws)s::int IS NULL OR w.id = %(ws)s::int ORDER BY w.slug
""")

_ROWS = compact(f"""
    SELECT w.slug, l.instance_id, l.seq, l.at, l.due_at, l.kind, l.status, l.actor, l.name, l.data::text, l.xid,
      {DIGEST}, encode({ROW_HASH}, 'hex'), l.salt IS NULL
    FROM holdpoint_ledger l JOIN holdpoint_workspace w ON w.id = l.workspace_id
    WHERE %(ws)s::int IS NULL OR l.workspace_id = %(ws)s::int ORDER BY l.instance_id, l.seq
""")


@dataclass(frozen=True, slots=True)
class SealLink:
    """A seal as it was written down."""

    number: int
    sealed_at: datetime
    era: int
    since: datetime
    from_xid: int
    to_xid: int
    rows: int
    previous: bytes
    hash: bytes


def list_workspaces(db: BaseDatabaseWrapper) -> list[tuple[str, int]]:
    """All workspaces, by slug."""
    return fetch(db, "SELECT slug, id FROM holdpoint_workspace ORDER BY slug", {})


def count_seals(db: BaseDatabaseWrapper, workspace: int) -> int:
    return int(fetch(db, "SELECT count(*) FROM holdpoint_seal WHERE workspace_id = %(ws)s", {"ws": workspace})[0][0])


def read_links(db: BaseDatabaseWrapper, workspace: int) -> Iterator[SealLink]:
    """The chain of a workspace from its beginning, in pages."""
    after = 0
    while page := fetch(db, _LINKS, {"ws": workspace, "after": after, "limit": PAGE}):
        for row in page:
            cells: list[Any] = [bytes(cell) if isinstance(cell, memoryview) else cell for cell in row]
            yield SealLink(*cells)
        after = page[-1][0]


def read_eras(db: BaseDatabaseWrapper) -> dict[int, datetime]:
    """When each era began."""
    return dict(fetch(db, _ERAS, {}))


def prove(
    db: BaseDatabaseWrapper, workspace: int, links: list[SealLink], until: datetime | None
) -> list[tuple[int, int, bool]]:
    """Per seal of a run: its number, how many rows are there (or were pruned), and whether they give its hash."""
    first, last = links[0], links[-1]
    params = {
        "ws": workspace,
        "first": first.number,
        "last": last.number,
        "froms": [link.from_xid for link in links],
        "lower": first.from_xid,
        "upper": last.to_xid,
        "since": first.since,
        "until": until,
    }
    return _look(db, _PROVE, params)


def find_holes(db: BaseDatabaseWrapper, workspace: int, limit: int) -> list[tuple[Any, int, int]]:
    """(instance, from, to) of numbers given out without a row."""
    return fetch(db, _HOLES, {"ws": workspace, "limit": limit})


def find_lost(db: BaseDatabaseWrapper, workspace: int, limit: int) -> list[tuple[Any, int]]:
    """(instance, seq) of rows whose payload is gone though no redaction tells of it."""
    return _look(db, _LOST, {"ws": workspace, "limit": limit})


def find_malformed(db: BaseDatabaseWrapper, workspace: int, limit: int) -> list[tuple[Any, int]]:
    """(instance, seq) of rows that claim to stand for a pruned history, in words that pruning does not use."""
    return _look(db, _MALFORMED, {"ws": workspace, "limit": limit})


def find_stray(db: BaseDatabaseWrapper, workspace: int, limit: int) -> list[tuple[Any, int, str]]:
    """(instance, seq, why) of rows that no seal covers and none ever will; `why` names the cell that tells."""
    params = {"ws": workspace, "limit": limit}
    return [*_look(db, _STRAY, params), *fetch(db, _HOMELESS, params)][:limit]


def read_heads(db: BaseDatabaseWrapper, workspace: int | None) -> list[tuple[str, int, bytes, int, datetime]]:
    """The last seal of each workspace that has one."""
    return fetch(db, _HEADS, {"ws": workspace})


def read_rows(db: BaseDatabaseWrapper, workspace: int | None) -> Iterator[tuple[Any, ...]]:
    """Every row with its hash, by instance and number, through a cursor on the server."""
    with atomic(db), db.chunked_cursor() as cursor:
        cursor.execute(_ROWS, {"ws": workspace})
        while page := cursor.fetchmany(PAGE):
            yield from page


def _look(db: BaseDatabaseWrapper, statement: str, params: Mapping[str, Any]) -> list[tuple[Any, ...]]:
    """Read a workspace's rows through the index that knows where they may be.

    Its filter compares with an int and with no wider number, hence the casts above. What such an index costs is guessed
    from how the column is spread, so beside a busy workspace the planner would read the whole ledger for a quiet one.
    For a busy one the index leads to all of it, which costs no more than a scan.
    """
    with atomic(db):
        fetch(db, "SET LOCAL enable_seqscan = off", {}, rows=False)
        found = fetch(db, statement, params)
        fetch(db, "SET LOCAL enable_seqscan TO DEFAULT", {}, rows=False)
    return found
