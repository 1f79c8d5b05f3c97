"""Schedules as somebody writes them: made, changed, switched on and off, removed.

Invariants owned: whoever changes a schedule holds its row, so that a tick is either before the change or after it; what
was declared in code and removed by somebody leaves a row, so that the declaration does not make it again; what a
schedule has started last is of its own workflow, or nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.store.schedules.due_ticks import COLUMNS, ScheduleRow, read_row
from workflows.store.sql import CLOCK, compact, fetch, micros, to_moment
from workflows.store.targets import address_kind, workspace_sql


@dataclass(frozen=True, slots=True)
class WrittenSchedule:
    """A schedule as it is to be."""

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
    declared: str | None
    edited: bool


_SCOPE = {by: f"SELECT {workspace_sql(by)}, {micros(CLOCK)}" for by in ("id", "slug")}

_LOCK_NAMED = compact(f"""
    SELECT {COLUMNS} FROM holdpoint_schedule s WHERE s.workspace_id = %(ws)s::int AND s.name = %(name)s::text
    FOR NO KEY UPDATE
""")

_VALUES = """(workspace_id, name, workflow, input, cron, every, tz, overlap, catch_up, enabled, created_at, anchor_at,
      next_at, declared, edited)
    VALUES (%(workspace)s::int, %(name)s::text, %(workflow)s::text, %(input)s::jsonb, %(cron)s::text,
      %(every)s::interval, %(tz)s::text, %(overlap)s::text, %(catch_up)s::int, %(enabled)s::bool, """
_INSERT = f"""
    INSERT INTO holdpoint_schedule AS s {_VALUES} {CLOCK}, %(anchor)s::timestamptz, %(next)s::timestamptz,
      %(declared)s::text, %(edited)s::bool)
    ON CONFLICT (workspace_id, name)"""
#: Of two who make a schedule of one name at the same moment, the second waits, and its values stay.
_WRITE = compact(f"""
    {_INSERT} DO UPDATE SET workflow = excluded.workflow, input = excluded.input, cron = excluded.cron,
      every = excluded.every, tz = excluded.tz, overlap = excluded.overlap, catch_up = excluded.catch_up,
      enabled = excluded.enabled, anchor_at = excluded.anchor_at, next_at = excluded.next_at,
      declared = excluded.declared, edited = excluded.edited, removed_at = NULL, error = NULL,
      last_instance = CASE WHEN s.workflow = excluded.workflow THEN s.last_instance END
    RETURNING id
""")
_WRITE_NEW = compact(f"{_INSERT} DO NOTHING RETURNING id")

_COUNT = """
    SELECT count(*) FROM (SELECT FROM holdpoint_schedule s
      WHERE s.workspace_id = %(ws)s::int AND s.removed_at IS NULL LIMIT %(most)s) s
"""
_SWITCH = """
    UPDATE holdpoint_schedule SET enabled = %(enabled)s::bool, next_at = %(next)s::timestamptz WHERE id = %(id)s::bigint
"""
_HIDE = f"""
    UPDATE holdpoint_schedule SET removed_at = {CLOCK}, next_at = NULL, edited = %(edited)s::bool
    WHERE id = %(id)s::bigint
"""
_DELETE = """
    WITH t AS (DELETE FROM holdpoint_schedule_tick WHERE schedule_id = %(id)s::bigint)
    DELETE FROM holdpoint_schedule WHERE id = %(id)s::bigint
"""
_DECLARED = compact("""
    SELECT s.name, s.workflow, s.declared, s.edited, s.removed_at IS NOT NULL FROM holdpoint_schedule s
    WHERE s.workspace_id = (SELECT w.id FROM holdpoint_workspace w WHERE w.slug = %(slug)s::text)
      AND (s.declared IS NOT NULL OR s.name = ANY(%(names)s::text[]))
""")


def read_scope(db: BaseDatabaseWrapper, workspace: str | int) -> tuple[int | None, datetime]:
    """The id of a workspace, if there is such a one, and the database's moment."""
    [(id, now)] = fetch(db, _SCOPE[address_kind(workspace)], {"ws": workspace})
    return id, to_moment(now)


def lock_schedule(db: BaseDatabaseWrapper, workspace: int, name: str) -> ScheduleRow | None:
    """Within a transaction: the schedule of this name, held, also one that was removed; None if there is none."""
    rows = fetch(db, _LOCK_NAMED, {"ws": workspace, "name": name})
    return read_row(rows[0]) if rows else None


def count_schedules(db: BaseDatabaseWrapper, workspace: int, most: int) -> int:
    """How many schedules a workspace has, counted no further than `most`."""
    [(count,)] = fetch(db, _COUNT, {"ws": workspace, "most": most})
    return int(count)


def write_schedule(db: BaseDatabaseWrapper, wanted: WrittenSchedule, *, is_new: bool = False) -> bool:
    """Write a schedule; `is_new`: unless there is one of the name. Whether it was written."""
    params = {
        "workspace": wanted.workspace,
        "name": wanted.name,
        "workflow": wanted.workflow,
        "input": wanted.input,
        "cron": wanted.cron,
        "every": wanted.every,
        "tz": wanted.tz,
        "overlap": wanted.overlap,
        "catch_up": wanted.catch_up,
        "enabled": wanted.enabled,
        "anchor": wanted.anchor_at,
        "next": wanted.next_at,
        "declared": wanted.declared,
        "edited": wanted.edited,
    }
    return bool(fetch(db, _WRITE_NEW if is_new else _WRITE, params))


def switch_schedule(db: BaseDatabaseWrapper, id: int, next_at: datetime | None) -> None:
    """Switch a held schedule on, with its next tick; or off, without one."""
    fetch(db, _SWITCH, {"id": id, "enabled": next_at is not None, "next": next_at}, rows=False)


def remove_schedule(db: BaseDatabaseWrapper, row: ScheduleRow, *, by_code: bool = False) -> None:
    """Remove a held schedule; of one that is declared a row stays, which says whether its code removed it."""
    if row.declared is None:
        fetch(db, _DELETE, {"id": row.id}, rows=False)
    else:
        fetch(db, _HIDE, {"id": row.id, "edited": row.edited or not by_code}, rows=False)


def list_declared(
    db: BaseDatabaseWrapper, workspace: str, names: list[str]
) -> list[tuple[str, str, str | None, bool, bool]]:
    """What is declared, or has one of the names: name, workflow, declaration, whether edited, whether removed."""
    return [(n, w, d, e, r) for n, w, d, e, r in fetch(db, _DECLARED, {"slug": workspace, "names": names})]
