"""Ticks of schedules that are due: taken, written down once, and the next one set.

Invariants owned: a tick has one row, whoever writes it and whatever dies, and its instance is written in the same
transaction; nobody else moves a schedule that is locked here. The schedule is locked before any instance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.store.sql import CLOCK, EPOCH, LIVE, NOW, compact, fetch, micros, to_moment, write_plain, write_texts


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A schedule as its row has it."""

    id: int
    workspace: int
    name: str
    workflow: str
    input: str
    cron: str | None
    every: timedelta | None
    tz: str
    overlap: str
    catch_up: int
    enabled: bool
    anchor_at: datetime
    next_at: datetime | None
    last_instance: UUID | None
    declared: str | None
    edited: bool
    removed: bool


@dataclass(frozen=True, slots=True)
class NewTick:
    """A tick and what becomes of it: an instance, or (without one) why not."""

    schedule: int
    at: datetime
    outcome: str
    instance: UUID | None


@dataclass(frozen=True, slots=True)
class MovedSchedule:
    """Where a schedule goes on after its ticks."""

    id: int
    next_at: datetime | None
    #: Its last tick, where it had one; and what it has started last, where it started anything.
    last_at: datetime | None
    last_instance: UUID | None
    error: str | None


#: The columns of a `ScheduleRow`, of a row that is called `s`.
COLUMNS = f"""s.id, s.workspace_id, s.name, s.workflow, s.input::text, s.cron,
      {micros("s.every")}, s.tz, s.overlap, s.catch_up, s.enabled,
      {micros("s.anchor_at")}, {micros("s.next_at")}, s.last_instance, s.declared, s.edited,
      s.removed_at IS NOT NULL"""

#: A statement of its own, once the schedules are held: whoever held them before may have started the instance after
#: the snapshot was taken of the statement that waited for them.
_LIVING = f"SELECT id, workflow FROM holdpoint_instance WHERE id = ANY(%(ids)s::uuid[]) AND {LIVE}"

#: The index of the next ticks gives them in their order; a pump of a deploy that knows a workflow not yet, or no more,
#: leaves its schedules to others. A row that somebody holds is looked at again by the next round. Of inputs, as they
#: are stored, no more come than one batch can start anyway, and one at least.
_LOCK = compact(f"""
    WITH s AS MATERIALIZED (
      SELECT s.* FROM holdpoint_schedule s
      WHERE s.next_at IS NOT NULL AND s.next_at <= {NOW} AND s.workflow = ANY(%(workflows)s::text[])
        AND (%(only)s::bigint IS NULL OR s.id = %(only)s::bigint) AND s.id <> ALL(%(skip)s::bigint[])
      ORDER BY s.next_at, s.id LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
    ), f AS (
      SELECT s.*, sum(pg_column_size(s.input)) OVER (ORDER BY s.next_at, s.id) - pg_column_size(s.input) AS bytes
      FROM s
    )
    SELECT {micros(NOW)}, {COLUMNS} FROM f s WHERE s.bytes < %(bytes)s ORDER BY s.id
""")

#: What was written before it is not written again: the row of the tick is what makes it happen once.
_WRITE_TICKS = compact(f"""
    INSERT INTO holdpoint_schedule_tick (schedule_id, at, fired_at, outcome, instance)
    SELECT v.schedule, v.at, {CLOCK}, v.outcome, v.instance
    FROM unnest(%(schedules)s::bigint[], %(moments)s::timestamptz[], %(outcomes)s::text[], %(instances)s::uuid[])
      v(schedule, at, outcome, instance)
    ON CONFLICT (schedule_id, at) DO NOTHING RETURNING schedule_id, {micros("at")}
""")

_MOVE = compact("""
    UPDATE holdpoint_schedule s SET next_at = v.next_at, last_at = coalesce(v.last_at, s.last_at),
      last_instance = coalesce(v.instance, s.last_instance), error = v.error
    FROM unnest(%(ids)s::bigint[], %(nexts)s::timestamptz[], %(lasts)s::timestamptz[], %(instances)s::uuid[],
      %(errors)s::text[]) v(id, next_at, last_at, instance, error)
    WHERE s.id = v.id
""")

#: Two look-ups by an index each: the next tick, and how many of the schedules that code declares there are.
_NEXT = compact(f"""
    SELECT extract(epoch FROM (SELECT s.next_at FROM holdpoint_schedule s
        WHERE s.next_at IS NOT NULL AND s.workflow = ANY(%(workflows)s::text[]) ORDER BY s.next_at LIMIT 1)
      - {CLOCK})::float8,
      CASE WHEN %(declared)s::text[] <> '{{}}' THEN (SELECT count(*) FROM holdpoint_schedule s
        WHERE s.workspace_id = (SELECT w.id FROM holdpoint_workspace w WHERE w.slug = %(slug)s::text)
          AND s.name = ANY(%(declared)s::text[])) ELSE 0 END
""")

#: A pump asks four times a second, and the workflows of a process stay the same.
_write_names = lru_cache(maxsize=8)(write_texts)

#: Found by the index of their age, and deleted by their keys whatever the planner thinks of how many there are.
_PRUNE = compact(f"""
    DELETE FROM holdpoint_schedule_tick t USING (
      SELECT o.schedule_id, o.at FROM holdpoint_schedule_tick o
      WHERE o.fired_at < {NOW} - %(keep)s * interval '1 s' ORDER BY o.fired_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    ) old WHERE t.schedule_id = old.schedule_id AND t.at = old.at RETURNING 1
""")

#: A tick is never written again once its schedule has moved on; its row is kept so long to be looked at.
KEEP_SECONDS = 7 * 86_400


def lock_due_schedules(
    db: BaseDatabaseWrapper,
    workflows: Sequence[str],
    limit: int,
    most_bytes: int,
    *,
    only: int | None = None,
    skip: Sequence[int] = (),
) -> tuple[datetime, list[ScheduleRow]]:
    """Within a transaction: schedules that are due, but for some, held; and the database's moment."""
    names = _write_names(tuple(workflows))
    params = {"workflows": names, "limit": limit, "bytes": most_bytes, "only": only, "skip": list(skip)}
    rows = fetch(db, _LOCK, params)
    now = to_moment(rows[0][0]) if rows else EPOCH
    return now, [read_row(row[1:]) for row in rows]


def find_busy(db: BaseDatabaseWrapper, rows: Sequence[ScheduleRow]) -> set[int]:
    """Of held schedules those whose last instance lives, where overlap asks for it.

    What another workflow runs, which a schedule had before, is not its own: it skips and cancels nothing.
    """
    asked = {row.last_instance: row for row in rows if row.overlap != "allow" and row.last_instance is not None}
    living = fetch(db, _LIVING, {"ids": write_plain(list(asked))}) if asked else []
    return {asked[id].id for id, workflow in living if asked[id].workflow == workflow}


def write_ticks(db: BaseDatabaseWrapper, ticks: Sequence[NewTick]) -> set[tuple[int, datetime]]:
    """Within that transaction: write ticks down; those that nobody had written before."""
    params = {
        "schedules": write_plain([one.schedule for one in ticks]),
        "moments": write_texts([one.at.isoformat() for one in ticks]),
        "outcomes": write_texts([one.outcome for one in ticks]),
        "instances": write_plain([one.instance for one in ticks]),
    }
    return {(schedule, to_moment(at)) for schedule, at in fetch(db, _WRITE_TICKS, params)}


def move_schedules(db: BaseDatabaseWrapper, moved: Sequence[MovedSchedule]) -> None:
    """Within that transaction: set where the schedules go on."""
    params = {
        "ids": write_plain([one.id for one in moved]),
        "nexts": _write_moments([one.next_at for one in moved]),
        "lasts": _write_moments([one.last_at for one in moved]),
        "instances": write_plain([one.last_instance for one in moved]),
        "errors": write_texts([one.error for one in moved]),
    }
    fetch(db, _MOVE, params, rows=False)


def seconds_to_tick(
    db: BaseDatabaseWrapper, workflows: Sequence[str], declared: Sequence[str], workspace: str
) -> tuple[float | None, int]:
    """Seconds to the next tick of one of these workflows, and how many of these declared schedules there are."""
    names, wanted = _write_names(tuple(workflows)), _write_names(tuple(declared))
    params = {"workflows": names, "declared": wanted, "slug": workspace}
    [(seconds, count)] = fetch(db, _NEXT, params)
    return seconds, count


def prune_ticks(db: BaseDatabaseWrapper, batch: int = 5_000, batches: int = 20) -> int:
    """Delete the rows of ticks of long ago, so many at most: the next call goes on. How many."""
    deleted = 0
    for _ in range(batches):
        gone = len(fetch(db, _PRUNE, {"keep": KEEP_SECONDS, "limit": batch}))
        deleted += gone
        if gone < batch:
            break
    return deleted


def read_row(row: Sequence[Any]) -> ScheduleRow:
    """The row of `COLUMNS`."""
    (id, workspace, name, workflow, input, cron, every, tz, overlap, catch_up, enabled, anchor, next_at, *rest) = row
    return ScheduleRow(
        id,
        workspace,
        name,
        workflow,
        input,
        cron,
        None if every is None else timedelta(microseconds=every),
        tz,
        overlap,
        catch_up,
        enabled,
        to_moment(anchor),
        None if next_at is None else to_moment(next_at),
        *rest,
    )


def _write_moments(moments: Sequence[datetime | None]) -> str:
    return write_texts([None if one is None else one.isoformat() for one in moments])
