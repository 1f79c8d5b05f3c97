"""Business calendars: when people work, and what "in four hours" or "in two days" means to them.

Times of day are what the clock on the wall says in the calendar's zone: an hour that is skipped in spring is no
business time, one that is repeated in autumn counts twice. Hours, minutes and seconds count business time only;
days count business days, at the same time of day.

Invariant owned: `add` gives the earliest moment by which that much business time has passed. So adding in two
parts is adding at once, and a later start never ends earlier (with days, as long as every day is alike).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import cache
from typing import Any

from approvals.exceptions import InvalidApproval, InvalidCalendar, UnknownCalendar
from approvals.rules.business_hours import DAY, Holidays, Week, read_holidays, read_hours, read_span, read_zone
from workflows.exceptions import InvalidDuration

#: Nobody counts business hours beyond a hundred years: what lies further is kept as `FAR_AWAY`.
HORIZON = timedelta(days=36_525)
FAR_AWAY = datetime(9999, 12, 31, tzinfo=UTC)
#: A calendar that does not open for so long is a mistake, not a holiday.
NEVER = timedelta(days=1_100)

_OFFICE = dict.fromkeys(range(5), (("09:00", "17:00"),))
_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True, init=False)
class Calendar:
    """When people work: a time zone, hours by weekday, and the days on which nobody does.

    Weekdays are numbers (Monday is 0) or "mon" … "sun", times are `time` values or texts; "24:00" ends a day.
    Without `hours` it is Monday to Friday, 9 to 17. `holidays` are dates, a function of a date, or any
    container that can tell whether a date is in it.

    >>> berlin = Calendar("Europe/Berlin", {"mon": [("09:00", "12:00"), ("13:00", "17:00")]}, ["2026-12-28"])
    >>> str(berlin.add(datetime(2026, 12, 14, 10, tzinfo=UTC), "2h"))
    '2026-12-14 13:00:00+00:00'
    """

    zone: tzinfo
    hours: Week
    holidays: Holidays

    def __init__(self, timezone: str | tzinfo, hours: Mapping[Any, Any] | None = None, holidays: Any = ()) -> None:
        object.__setattr__(self, "zone", read_zone(timezone))
        object.__setattr__(self, "hours", read_hours(_OFFICE if hours is None else hours))
        object.__setattr__(self, "holidays", read_holidays(holidays))

    @property
    def is_always_open(self) -> bool:
        """Whether every moment is business time.

        >>> ALWAYS.is_always_open, Calendar("UTC").is_always_open
        (True, False)
        """
        return self.holidays == frozenset() and all(spans == ((timedelta(0), DAY),) for spans in self.hours)

    def add(self, moment: datetime, duration: object) -> datetime:
        """The earliest moment by which so much business time has passed, in UTC.

        "2d", "2bd" and "2 business days" are business days; "1w" is as many of them as a week has. A number or
        a timedelta is an amount of business time.

        >>> friday = datetime(2026, 7, 17, 16, tzinfo=UTC)
        >>> str(Calendar("UTC").add(friday, "4h")), str(Calendar("UTC").add(friday, "2 business days"))
        ('2026-07-20 12:00:00+00:00', '2026-07-21 16:00:00+00:00')
        """
        weeks, days, seconds = read_span(duration)
        days += weeks * sum(1 for spans in self.hours if spans)
        if part := days % 1:
            if not self.is_always_open:
                raise InvalidDuration(duration, "a part of a business day has no length; say hours instead")
            seconds += part * DAY.total_seconds()
        reached = self.add_days(moment, int(days)) if days >= 1 else _check_moment(moment)
        return self._add_time(reached, seconds) if seconds else reached

    def add_days(self, moment: datetime, days: int) -> datetime:
        """The same time of day so many business days later, kept within the hours of that day, in UTC.

        Outside business time, counting begins when it next opens.

        >>> saturday = datetime(2026, 7, 18, 12, tzinfo=UTC)
        >>> str(Calendar("UTC").add_days(saturday, 1))
        '2026-07-21 09:00:00+00:00'
        """
        if days < 1:
            raise InvalidApproval("days", days, "count at least one business day")
        opening, _ = next(self._walk(_check_moment(moment)), (None, None))
        if opening is None:
            return FAR_AWAY
        wall = opening.replace(tzinfo=UTC).astimezone(self.zone).replace(tzinfo=None)
        day = self._find_day(wall.date(), days)
        if day is None:
            return FAR_AWAY
        clock = wall - datetime.combine(wall.date(), time())
        spans = self.hours[day.weekday()]
        kept = min(max(clock, spans[0][0]), spans[-1][1])
        return self._find_instant(datetime.combine(day, time()) + kept)

    def _add_time(self, moment: datetime, seconds: float) -> datetime:
        if seconds > (FAR_AWAY - moment).total_seconds():
            return FAR_AWAY
        left = timedelta(seconds=seconds)
        if self.is_always_open:
            return moment + left
        for start, end in self._walk(moment):
            if end - start >= left:
                return (start + left).replace(tzinfo=UTC)
            left -= end - start
        return FAR_AWAY

    def _find_day(self, day: date, days: int) -> date | None:
        """The business day so many after this one; None when it lies too far away."""
        last = FAR_AWAY.date() - 2 * DAY
        if self.is_always_open:
            return day + days * DAY if days <= (last - day).days else None
        last = min(last, day + HORIZON) if day < last - HORIZON else last
        while day < last:
            day += DAY
            if self.hours[day.weekday()] and not self._is_holiday(day):
                days -= 1
                if days == 0:
                    return day
        return None

    def _is_holiday(self, day: date) -> bool:
        if isinstance(self.holidays, Container):
            return day in self.holidays
        return self.holidays(day)

    def _walk(self, moment: datetime) -> Iterator[tuple[datetime, datetime]]:
        """All business time from this moment on, in pieces, in order; naive in UTC.

        It goes from one change of the zone's offset to the next and not from day to day, because a clock that is
        set back at midnight shows a part of the day before again.
        """
        is_holiday = cache(self._is_holiday)  # a function of the project's may ask the database
        quiet_since = begin = moment.astimezone(UTC).replace(tzinfo=None)
        for since, until, offset in self._list_segments(begin):
            for day in sorted({(since + offset).date(), (until + offset).date()}):
                spans = self.hours[day.weekday()]
                if not spans or is_holiday(day):
                    continue
                midnight = datetime.combine(day, time()) - offset
                for opens, closes in spans:
                    start, end = max(since, midnight + opens), min(until, midnight + closes)
                    if start < end:
                        quiet_since = end
                        yield start, end
            if until - quiet_since > NEVER:
                problem = f"there is no business day for {NEVER.days} days after {quiet_since:%Y-%m-%d}"
                raise InvalidCalendar("holidays", self.holidays, problem)

    def _list_segments(self, begin: datetime) -> Iterator[tuple[datetime, datetime, timedelta]]:
        """Stretches of at most a day in which the offset does not change: since, until, offset; naive in UTC."""
        last = FAR_AWAY.replace(tzinfo=None) - 3 * DAY
        stop = begin + HORIZON if begin < last - HORIZON else last
        offset = self._find_offset(begin)
        while begin < stop:
            end = begin + DAY
            after = self._find_offset(end)
            if after != offset:
                end = self._find_change(begin, end, offset)
                after = self._find_offset(end)
            yield begin, end, offset
            begin, offset = end, after

    def _find_change(self, low: datetime, high: datetime, offset: timedelta) -> datetime:
        """The first moment after `low` at which the offset is another."""
        while high - low > _TICK:
            middle = low + (high - low) / 2
            if self._find_offset(middle) == offset:
                low = middle
            else:
                high = middle
        return high

    def _find_offset(self, moment: datetime) -> timedelta:
        return moment.replace(tzinfo=UTC).astimezone(self.zone).utcoffset() or timedelta(0)

    def _find_instant(self, wall: datetime) -> datetime:
        """The first moment at which the clock on the wall has come so far; in UTC."""
        for since, until, offset in self._list_segments(wall - DAY):
            if (reached := max(since, wall - offset)) < until:
                return reached.replace(tzinfo=UTC)
        return FAR_AWAY


def _check_moment(moment: Any) -> datetime:
    if not isinstance(moment, datetime) or moment.utcoffset() is None:
        raise InvalidApproval("moment", moment, "it must know its time zone, such as timezone.now()")
    return moment.astimezone(UTC)


#: Every hour of every day.
ALWAYS = Calendar(UTC, dict.fromkeys(range(7), (("00:00", "24:00"),)))

_registered: dict[str, Calendar] = {"always": ALWAYS}


def register_calendar(name: str, calendar: Calendar) -> Calendar:
    """Give a calendar the name under which requests keep it; call it where every process does, such as `ready()`.

    >>> register_calendar("always", ALWAYS) is ALWAYS
    True
    """
    _check_registration(name, calendar)
    if _registered.setdefault(name, calendar) != calendar:
        raise InvalidCalendar("name", name, "another calendar has it, by which requests that wait are counted")
    return calendar


def _check_registration(name: object, calendar: object) -> None:
    if not isinstance(name, str) or not name.strip() or len(name) > 100:
        raise InvalidCalendar("name", name, "a calendar's name is a text of 1 to 100 characters")
    if not isinstance(calendar, Calendar):
        raise InvalidCalendar("calendar", calendar, "register a Calendar(…)")


def find_calendar(name: str) -> Calendar:
    """The calendar of that name.

    >>> find_calendar("always") is ALWAYS
    True
    """
    try:
        return _registered[name]
    except (KeyError, TypeError) as error:
        raise UnknownCalendar(name, sorted(_registered)) from error


def name_calendar(given: str | Calendar | None) -> str:
    """The name to keep for a calendar given by its name, as itself (then it is registered), or not at all.

    A name need not be registered yet: workflows are imported before every app is ready.

    >>> name_calendar(None), name_calendar("berlin")
    ('always', 'berlin')
    """
    if given is None:
        return "always"
    if isinstance(given, str) and given.strip():
        return given
    for name, calendar in _registered.items():
        if calendar == given:
            return name
    how = 'give a name, or register it first: register_calendar("office", Calendar(…))'
    raise InvalidCalendar("calendar", given, how)
