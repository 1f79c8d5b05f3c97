"""Reading what authors write about working time: a zone, hours, holidays, and durations in business days.

Invariant owned: hours that were read lie within their day, in order, without overlap, and there are some.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Mapping
from datetime import date, datetime, time, timedelta, tzinfo
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

from approvals.exceptions import InvalidCalendar
from workflows.exceptions import InvalidDuration
from workflows.values.durations import parse_timeout

#: When it opens and closes, as time since midnight.
Span = tuple[timedelta, timedelta]
#: The spans of Monday to Sunday.
Week = tuple[tuple[Span, ...], ...]
Holidays = frozenset[date] | Container[date] | Callable[[date], bool]

DAY = timedelta(days=1)
_NAMES = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WEEKDAYS: dict[Any, int] = {name: n for n, full in enumerate(_NAMES) for name in (full, full[:3], n)}
_BUSINESS_DAYS = re.compile(r"(?<=\d)\s*(?:business\s+days?|bd)", re.IGNORECASE)
_LONG_UNITS = re.compile(r"(\d+(?:\.\d+)?)([wd])")
_ISO_DAYS = re.compile(r"p(\d+(?:[.,]\d+)?)d")
#: More days than any calendar has, and still a number to count with.
_MANY = 1e9


def read_span(given: object) -> tuple[float, float, float]:
    """A duration as weeks, days and seconds: days are kept apart, since a business day has no fixed length.

    >>> read_span("2 business days"), read_span("1d4h"), read_span(timedelta(days=1))
    ((0.0, 2.0, 0.0), (0.0, 1.0, 14400.0), (0.0, 0.0, 86400.0))
    """
    plain = _BUSINESS_DAYS.sub("d", given) if isinstance(given, str) else given
    try:
        seconds = parse_timeout(plain)
    except InvalidDuration as error:
        if plain == given:
            raise
        raise InvalidDuration(given, 'business days are written as "2bd" or "2 business days"') from error
    if not isinstance(plain, str):
        return 0.0, 0.0, seconds
    compact = plain.strip().lower()
    if found := _ISO_DAYS.match(compact):
        weeks, days = 0.0, float(found[1].replace(",", "."))
    else:
        parts = [(float(amount), unit) for amount, unit in _LONG_UNITS.findall(compact)]
        weeks, days = (sum((amount for amount, unit in parts if unit == wanted), 0.0) for wanted in "wd")
    weeks, days = min(weeks, _MANY), min(days, _MANY)
    return weeks, days, max(0.0, seconds - (days + 7 * weeks) * DAY.total_seconds())


def read_zone(given: Any) -> tzinfo:
    """The zone that is named, or given as it is.

    >>> str(read_zone("Europe/Berlin"))
    'Europe/Berlin'
    """
    if isinstance(given, tzinfo):
        return given
    try:
        return ZoneInfo(given)
    except (LookupError, ValueError, TypeError, AttributeError, OSError) as error:
        raise InvalidCalendar("timezone", given, 'write the name of a time zone, such as "Europe/Berlin"') from error


def read_hours(given: Any) -> Week:
    """The hours of each weekday, from Monday.

    >>> read_hours({"fri": ("09:00", "13:00")})[4]
    ((datetime.timedelta(seconds=32400), datetime.timedelta(seconds=46800)),)
    """
    if not isinstance(given, Mapping):
        raise InvalidCalendar("hours", given, 'write them by weekday: {"mon": [("09:00", "17:00")]}')
    hours: list[tuple[Span, ...]] = [()] * 7
    seen = set()
    for day, spans in given.items():
        number = _WEEKDAYS.get(day.lower() if isinstance(day, str) else day)
        if number is None or isinstance(day, bool):
            raise InvalidCalendar("hours", given, f'{day!r} is no weekday: write "mon" … "sun", or 0 … 6')
        if number in seen:
            raise InvalidCalendar("hours", given, f"{_NAMES[number]} is there twice")
        seen.add(number)
        hours[number] = _read_spans(spans, day)
    if not any(hours):
        raise InvalidCalendar("hours", given, "no weekday has any")
    return tuple(hours)


def _read_spans(given: Any, day: object) -> tuple[Span, ...]:
    how = f'{day!r} takes pairs of opening and closing time, such as [("09:00", "12:00"), ("13:00", "17:00")]'
    try:
        pairs = list(given)
        if len(pairs) == 2 and all(isinstance(one, str | time) for one in pairs):
            pairs = [pairs]
        spans = sorted((_read_clock(opens), _read_clock(closes) or DAY) for opens, closes in pairs)
    except (TypeError, ValueError) as error:
        raise InvalidCalendar("hours", given, how) from error
    if any(opens >= closes for opens, closes in spans):
        raise InvalidCalendar("hours", given, f"{how}; for hours past midnight end with 24:00 and go on the next day")
    if any(opens < closes for (_, closes), (opens, _) in pairwise(spans)):
        raise InvalidCalendar("hours", given, f"{how} that do not overlap")
    return tuple(spans)


def _read_clock(given: Any) -> timedelta:
    if given == "24:00":
        return DAY
    clock = given if isinstance(given, time) else time.fromisoformat(given)
    if clock.tzinfo is not None:
        raise ValueError("the calendar has the time zone")
    return datetime.combine(date.min, clock) - datetime.combine(date.min, time())


def read_holidays(given: Any) -> Holidays:
    """Dates as a set; what works them out when it is asked (a function, a library's container) stays as it is.

    >>> sorted(read_holidays(["2026-12-25", date(2026, 1, 1)]))
    [datetime.date(2026, 1, 1), datetime.date(2026, 12, 25)]
    """
    if isinstance(given, Container) and type(given).__module__ not in ("builtins", "collections"):
        return given
    if callable(given):
        return given  # type: ignore[no-any-return]
    try:
        if isinstance(given, str):
            raise TypeError("one text is no list of dates")
        return frozenset(_read_date(one) for one in given)
    except (TypeError, ValueError) as error:
        how = 'give dates such as date(2026, 12, 25) or "2026-12-25", or a function of a date'
        raise InvalidCalendar("holidays", given, how) from error


def _read_date(given: Any) -> date:
    if isinstance(given, datetime):
        raise TypeError("a moment is a date only in some zone")
    return given if isinstance(given, date) else date.fromisoformat(given)
