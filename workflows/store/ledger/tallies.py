"""Counting the ledger behind the engine's back, and what it does not tell; for metrics.

Lives here: the position up to which all is counted, moving it, adding to the sums and reading them. What a row counts
as is told in `event_sums`. Invariants owned:

* A row is counted exactly once. A tally counts the transactions from the last position up to the oldest that still
  runs, and moves the position in the same transaction, under a lock that others do not wait for; who commits late is
  younger than that, and falls into the next tally.
* A database restored elsewhere counts its transactions anew. Once its counter is seen below the position, what came
  along is counted to the end, and counting begins at zero again, divided from what was by time: as in `seals`.

Rows that retention deletes before they are counted, in the minute after they were written, are not counted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.store.ledger.event_sums import COUNT, LATEST, LISTS
from workflows.store.sql import (
    CLOCK,
    atomic,
    compact,
    fetch,
    in_transaction,
    micros,
    to_moment,
    write_plain,
    write_texts,
)

#: Rows that one tally counts, roughly: a backlog is counted in several short transactions.
BATCH = 50_000

#: One tally at a time.
LOCK = 7_031_966

#: What belongs to no workspace is kept under this one, which is none.
NOBODY = 0

#: For this transaction: reading a whole table is never wanted, and compiling a plan costs more than it saves.
_BEGIN = compact(f"""
    SELECT pg_try_advisory_xact_lock({LOCK}), set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true),
      set_config('statement_timeout', coalesce(%(ms)s::text, current_setting('statement_timeout')), true)
""")

#: The horizon comes from this statement's snapshot; those that follow see at least as much.
_POSITION = compact(f"""
    SELECT max(t.value) FILTER (WHERE t.label = 'xid'), max(t.value) FILTER (WHERE t.label = 'since'),
      max(t.value) FILTER (WHERE t.label = 'at'),
      pg_snapshot_xmin(pg_current_snapshot())::text::bigint, pg_snapshot_xmax(pg_current_snapshot())::text::bigint
    FROM holdpoint_tally t WHERE t.workspace_id = {NOBODY} AND t.name = 'counted'
""")

#: Where a batch ends, as in `seals`: behind the first so many rows as they lie in the table.
_CUT = compact("""
    SELECT count(*), max(xid) + 1 FROM (
      SELECT l.xid FROM holdpoint_ledger l
      WHERE l.xid >= %(lower)s AND l.xid < %(horizon)s AND l.at >= %(since)s LIMIT %(limit)s) x
""")

#: What a restored database brought along uncounted; in a healthy one nobody asks.
_TAIL = compact(f"""
    SELECT {micros(LATEST.format(at="l.at"))}, max(l.xid) + 1
    FROM holdpoint_ledger l WHERE l.xid >= %(lower)s AND l.at >= %(since)s
""")

#: Moments as whole microseconds, which a double holds exactly, as it does transactions.
_MOVE = compact(f"""
    INSERT INTO holdpoint_tally (workspace_id, name, label, value)
    SELECT {NOBODY}, 'counted', v.label, v.value FROM (VALUES ('xid', %(xid)s::bigint),
      ('since', {micros("%(since)s::timestamptz")}),
      ('at', greatest({micros(CLOCK)}, {micros("%(at)s::timestamptz")}))) v(label, value)
    ON CONFLICT (workspace_id, name, label) DO UPDATE SET value = excluded.value
""")

_READ = compact(f"""
    SELECT t.name, t.label, sum(t.value) FROM holdpoint_tally t
    WHERE t.name <> 'counted' AND (%(ws)s::int IS NULL OR t.workspace_id IN (%(ws)s::int, {NOBODY})) GROUP BY 1, 2
""")

#: The first as they lie in the table, which is about the oldest, found without reading the others.
_BEHIND = compact(f"""
    SELECT extract(epoch FROM {CLOCK} - l.at)::float8 FROM holdpoint_ledger l
    WHERE l.xid >= %(lower)s AND l.at >= %(since)s AND l.at < 'infinity' LIMIT 1
""")

_ADD = compact(f"""
    INSERT INTO holdpoint_tally AS o (workspace_id, name, label, value)
    SELECT coalesce(v.ws, {NOBODY}), v.name, v.label, sum(v.n)
    FROM unnest(%(workspaces)s::int[], %(names)s::text[], %(labels)s::text[], %(counts)s::float8[])
      v(ws, name, label, n)
    GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (workspace_id, name, label) DO UPDATE SET value = o.value + excluded.value
""")


@dataclass(frozen=True, slots=True)
class TallyPosition:
    """Up to where everything is counted, and up to where it could be."""

    lower: int
    since: datetime
    #: Not before any row that is counted.
    at: datetime
    horizon: int
    counter: int


def tally_ledger(db: BaseDatabaseWrapper, *, batches: int = 20, limit: int = BATCH) -> int:
    """Count what has been committed since the last time; how many rows. Another tally at work: none.

    Bounded, so that it can run between other things: what is left is for the next call.
    """
    counted, more = 0, True
    while more and batches > 0:
        rows, more = tally_batch(db, limit)
        counted, batches = counted + rows, batches - 1
    return counted


def tally_batch(db: BaseDatabaseWrapper, limit: int = BATCH, *, patience: float | None = None) -> tuple[int, bool]:
    """Count the oldest uncounted rows, about `limit`: how many, and whether more remain.

    A statement that takes longer than `patience` seconds is given up, and the batch with it.
    """
    ms = None if patience is None else f"{patience * 1000:.0f}"

    def work() -> tuple[int, bool]:
        with atomic(db):
            if not fetch(db, _BEGIN, {"ms": ms})[0][0]:
                return 0, False  # another one is at it
            return _count_batch(db, _find_position(db), limit)

    return in_transaction(db, work)


def read_tallies(db: BaseDatabaseWrapper, workspace: int | None) -> dict[tuple[str, str], float]:
    """(name, label) -> sum: of one workspace and of what is nobody's, or of all (None)."""
    return {(name, label): value for name, label, value in fetch(db, _READ, {"ws": workspace})}


def read_backlog(db: BaseDatabaseWrapper) -> float:
    """The age in seconds of the oldest row that is not counted, about; 0 if there is none."""
    at = _find_position(db)
    rows = fetch(db, _BEHIND, {"lower": at.lower, "since": at.since})
    return max(0.0, rows[0][0]) if rows else 0.0


def add_counts(db: BaseDatabaseWrapper, counts: Mapping[tuple[int | None, str, str], int]) -> None:
    """Add what the ledger does not tell, by workspace (None: nobody's), name and label."""
    params = {
        "workspaces": write_plain([workspace for workspace, _, _ in counts]),
        "names": write_texts([name for _, name, _ in counts]),
        "labels": write_texts([label for _, _, label in counts]),
        "counts": write_plain(list(counts.values())),
    }
    fetch(db, _ADD, params, rows=False)


def _find_position(db: BaseDatabaseWrapper) -> TallyPosition:
    """Asked after the lock was had, so that it is what the last holder committed."""
    [(lower, since, at, horizon, counter)] = fetch(db, _POSITION, {})
    return TallyPosition(int(lower or 0), _read_moment(since), _read_moment(at), horizon, counter)


def _count_batch(db: BaseDatabaseWrapper, at: TallyPosition, limit: int) -> tuple[int, bool]:
    # Not the horizon, which only lags: a counter below what it once was means that it began anew.
    if at.counter < at.lower:
        return _begin_anew(db, at)
    [(rows, behind)] = fetch(db, _CUT, {"lower": at.lower, "since": at.since, "horizon": at.horizon, "limit": limit})
    if not rows:
        return 0, False
    more = rows == limit and behind < at.horizon
    cut = behind if more else at.horizon
    counted, latest = _count(db, at, cut, "infinity")
    _move(db, cut, at.since, max(at.at, latest))
    return counted, more


def _begin_anew(db: BaseDatabaseWrapper, at: TallyPosition) -> tuple[int, bool]:
    """Count what the old cluster left, then begin with the first transaction of this one."""
    [(latest, behind)] = fetch(db, _TAIL, {"lower": at.lower, "since": at.since})
    since = max(at.at, _read_moment(latest)) + timedelta(microseconds=1)
    counted = _count(db, at, behind, since)[0] if behind else 0
    _move(db, 0, since, since)
    return counted, True


def _count(db: BaseDatabaseWrapper, at: TallyPosition, cut: int, until: datetime | str) -> tuple[int, datetime]:
    params = {"lower": at.lower, "cut": cut, "since": at.since, "until": until}
    [(rows, latest)] = fetch(db, COUNT, params | LISTS)
    return rows, _read_moment(latest)


def _move(db: BaseDatabaseWrapper, xid: int, since: datetime, at: datetime) -> None:
    fetch(db, _MOVE, {"xid": xid, "since": since, "at": at}, rows=False)


def _read_moment(value: float | None) -> datetime:
    """Moments leave the database as numbers: the driver's have no zone where a project has USE_TZ off."""
    return to_moment(int(value or 0))
