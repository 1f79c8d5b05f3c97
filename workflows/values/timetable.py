"""Timetables: the moments at which a schedule has a tick, by a cron expression in a time zone or by an interval.

Lives here: reading what somebody wrote, and the ticks after and before a moment. Must not live here: rows, and what a
tick starts. Invariants owned:

* A cron expression speaks of local times, and each local time has one tick: one that does not exist (a clock that is
  put forward passes it over) has it at the end of the gap, together with all others of that gap; one that comes twice
  has it when it comes first.
* Ticks of an interval lie at whole multiples of it after their anchor, so they never drift.
* The ticks of a timetable depend on nothing but the timetable: not on the process that asks, nor on when it asks.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from workflows.exceptions import InvalidDuration, InvalidSchedule, WorkflowError, show
from workflows.values.durations import parse_timeout
from workflows.values.json_text import check_text

LONGEST_CRON = 200
LONGEST_ZONE = 100
#: What a host calls its own clock, which is another one on the next host.
HOST_ZONE = "localtime"
#: Of an interval: nothing ticks more often, and nothing that is to be seen in a lifetime more seldom.
SHORTEST, LONGEST = timedelta(seconds=1), timedelta(days=36_525)

_SECOND = timedelta(seconds=1)
#: Where reading an expression begins that is only checked.
_SOME_DAY = datetime(2026, 1, 1)
_EXAMPLE = 'Write five fields, as "0 9 * * 1-5" (minute, hour, day of the month, month, day of the week).'


@dataclass(frozen=True, slots=True)
class Timetable:
    """When a schedule ticks: by `cron` in the time zone `tz`, or `every` so long."""

    cron: str | None
    every: timedelta | None
    #: Empty is the project's own, which a class statement cannot know yet.
    tz: str

    def find_next(self, after: datetime, anchor: datetime) -> datetime:
        """The first tick after a moment, in UTC; `anchor` is where the intervals begin.

        >>> weekdays = Timetable("0 9 * * 1-5", None, "Europe/Berlin")
        >>> weekdays.find_next(datetime(2026, 11, 20, 8, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)).isoformat()
        '2026-11-23T08:00:00+00:00'
        """
        if self.every is not None:
            return anchor + ((after - anchor) // self.every + 1) * self.every
        return _find_cron_tick(str(self.cron), self.tz, after.astimezone(UTC))

    def list_next(self, after: datetime, anchor: datetime, count: int) -> list[datetime]:
        """The first ticks after a moment, in UTC."""
        ticks: list[datetime] = []
        for _ in range(count):
            after = self.find_next(after, anchor)
            ticks.append(after)
        return ticks

    def list_last(
        self, since: datetime, until: datetime, anchor: datetime, count: int, whole: datetime | None = None
    ) -> list[datetime]:
        """The last ticks from a moment to another one, both with it; the earliest first.

        So many at most; but from the moment `whole` on all of them.
        """
        if self.every is None:
            found = _walk_back(str(self.cron), self.tz, until.astimezone(UTC))
        else:
            last = anchor + ((until - anchor) // self.every) * self.every
            found = (last - number * self.every for number in itertools.count())
        ticks: list[datetime] = []
        for tick in found:
            if tick < since or (len(ticks) >= count and (whole is None or tick < whole)):
                break
            ticks.append(tick)
            if tick == since:
                break  # the one before it is not looked for
        return ticks[::-1]


def read_timetable(cron: object, every: object, tz: object) -> Timetable:
    """The timetable that somebody wrote; `InvalidSchedule` says what to write instead.

    >>> read_timetable("0 9 * * 1-5", None, "Europe/Berlin").cron
    '0 9 * * 1-5'
    """
    if (cron is None) == (every is None):
        both = "cron= and every= exclude each other" if cron is not None else "it has neither cron= nor every="
        raise InvalidSchedule(f'{both}: give one of them, as cron="0 9 * * 1-5" or every="15m"')
    if every is not None:
        if tz is not None:
            raise InvalidSchedule("every= is an interval and knows no time zone: leave tz= out, or use cron=")
        return Timetable(None, _read_every(every), "UTC")
    return Timetable(_read_cron(cron), None, "" if tz is None else _read_zone(tz))


def _read_every(every: object) -> timedelta:
    try:
        seconds = parse_timeout(every)
    except InvalidDuration as error:
        raise InvalidSchedule(f"every={show(every)}: {error}") from error
    if not SHORTEST.total_seconds() <= seconds <= LONGEST.total_seconds():
        raise InvalidSchedule(f"every={show(every)} is not between 1 second and {LONGEST.days} days")
    return timedelta(seconds=seconds)


def _read_zone(tz: object) -> str:
    if not isinstance(tz, str):
        raise InvalidSchedule(f'tz={show(tz)} is no text: write the name of a zone, as "Europe/Berlin" or "UTC"')
    try:
        if ZoneInfo(check_text(tz, "it", limit=LONGEST_ZONE)).key == HOST_ZONE:
            raise ZoneInfoNotFoundError
    except (WorkflowError, ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InvalidSchedule(
            f'tz={show(tz)} is no time zone that is known here: write its IANA name, as "Europe/Berlin" or "UTC"'
        ) from error
    return tz


def _read_cron(cron: object) -> str:
    from cronsim import CronSim, CronSimError

    try:
        text = " ".join(check_text(cron, "it", limit=LONGEST_CRON).split())
    except WorkflowError as error:
        raise InvalidSchedule(f"cron={show(cron)} cannot be read: {error}. {_EXAMPLE}") from error
    try:
        next(CronSim(text, _SOME_DAY))
    except CronSimError as error:
        # A day that none of its months has is refused as a bad day.
        raise InvalidSchedule(
            f"cron={show(cron)} cannot be read, or never fires ({str(error).lower()}). {_EXAMPLE}"
        ) from error
    except StopIteration:
        raise InvalidSchedule(f"cron={show(cron)} never fires: no day of the next 50 years fits it") from None
    return text


@lru_cache(maxsize=4096)  # thousands of schedules of one minute ask the same
def _find_cron_tick(cron: str, tz: str, after: datetime) -> datetime:
    from cronsim import CronSim

    zone = ZoneInfo(tz)
    for local in CronSim(cron, after.astimezone(zone).replace(tzinfo=None)):
        if (tick := _to_moment(local, zone)) > after:
            return tick
    raise AssertionError(f"{cron} never fires")  # pragma: no cover - such a one was refused


def _walk_back(cron: str, tz: str, until: datetime) -> Iterator[datetime]:
    """The ticks up to a moment, the last one first."""
    from cronsim import CronSim

    zone = ZoneInfo(tz)
    start = until.astimezone(zone)
    local = start.replace(tzinfo=None, microsecond=0) + _SECOND
    if start.fold:  # in the hour that comes twice: times that were later than this in its first round have passed
        first = start.replace(fold=0).utcoffset()
        again = start.utcoffset()
        assert first is not None
        assert again is not None
        local += first - again
    before: datetime | None = None
    for one in CronSim(cron, local, reverse=True):
        tick = _to_moment(one, zone)
        if tick <= until and tick != before:
            yield tick
            before = tick


def _to_moment(local: datetime, zone: ZoneInfo) -> datetime:
    """When a local time comes first, or the end of the gap that it lies in, in UTC."""
    early = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if early.astimezone(zone).replace(tzinfo=None) == local:
        return early
    # Read with the offset from before the gap it lies after the gap, and with the later one before it.
    late, until = local.replace(tzinfo=zone, fold=1).astimezone(UTC), early
    offset = until.astimezone(zone).utcoffset()
    while until - late > _SECOND:
        middle = (late + (until - late) // 2).replace(microsecond=0)
        if middle.astimezone(zone).utcoffset() == offset:
            until = middle
        else:
            late = middle
    return until
