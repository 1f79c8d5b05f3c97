"""What a schedule's row means: its options, the ticks that are to be carried out, and the row as it is to be.

Lives here: values only. Must not live here: a statement. Invariant owned: whoever changes anything but the times of a
schedule does not move its ticks.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.utils import timezone
from django.utils.timezone import get_default_timezone_name

from workflows.models import Schedule
from workflows.store import ScheduleRow, WrittenSchedule
from workflows.values.schedule_options import ScheduleOptions
from workflows.values.timetable import Timetable

#: A tick that is not older than this is not missed: whoever fires it was busy, or had to be started again.
GRACE = timedelta(seconds=60)
#: Begins the text of who started an instance.
ACTOR = "schedule:"


@dataclass(frozen=True, slots=True)
class ScheduleWish:
    """What somebody wants a schedule to be."""

    name: str
    workflow: str
    #: As JSON text.
    input: str
    options: ScheduleOptions
    enabled: bool
    declared: str | None = None
    edited: bool = False


def read_row_options(row: ScheduleRow) -> ScheduleOptions:
    """The options of a row."""
    return ScheduleOptions(Timetable(row.cron, row.every, row.tz), row.overlap, row.catch_up)


def plan_schedule(wish: ScheduleWish, workspace: int, now: datetime, row: ScheduleRow | None) -> WrittenSchedule:
    """The row as it is to be, made of a wish and of the row that was there."""
    table = wish.options.within(get_default_timezone_name()).timetable
    anchor, next_at = now, None
    if row is not None and not row.removed and read_row_options(row).timetable == table:
        anchor, next_at = row.anchor_at, row.next_at
    if not wish.enabled:
        next_at = None
    elif next_at is None:
        next_at = table.find_next(now, anchor)
    return WrittenSchedule(
        workspace,
        wish.name,
        wish.workflow,
        wish.input,
        table.cron,
        table.every,
        table.tz,
        wish.options.overlap,
        wish.options.catch_up,
        wish.enabled,
        anchor,
        next_at,
        wish.declared,
        wish.edited,
    )


def list_ticks_to_fire(row: ScheduleRow, options: ScheduleOptions, now: datetime) -> list[datetime]:
    """The ticks that are carried out now: all that are in time, and the last ones as far as they are made up for."""
    if row.next_at is None:
        return []
    return options.timetable.list_last(row.next_at, now, row.anchor_at, options.catch_up, now - GRACE)


def list_shown_ticks(row: Schedule, count: int) -> list[datetime]:
    """The next ticks of a row that was read by the ORM, from the moment that its page is shown."""
    table, now = Timetable(row.cron, row.every, row.tz), timezone.now().astimezone(UTC)
    anchor = row.anchor_at.astimezone(UTC)
    first = [] if row.next_at is None else [row.next_at.astimezone(UTC)]
    return [*first, *table.list_next(max([now, *first]), anchor, count)][:count]


def list_ticks_to_come(row: ScheduleRow, now: datetime, count: int) -> list[datetime]:
    """The next ticks, the first of which may be due; of a schedule that is switched off those that it would have."""
    table = read_row_options(row).timetable
    if row.next_at is None:
        return table.list_next(now, row.anchor_at, count)
    return [row.next_at, *table.list_next(max(row.next_at, now), row.anchor_at, count - 1)][:count]
