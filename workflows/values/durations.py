"""Durations and moments: the one place that knows how a timeout, a delay or an end of a wait may be written.

Invariant owned: what leaves here is a finite number of seconds, or a moment with a time zone; a timeout is above zero.
"""

import math
import re
from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone
from django.utils.dateparse import parse_duration

from workflows.exceptions import InvalidCall, InvalidDuration, show

_WRONG_TYPE = "expected text, a number of seconds or a timedelta"
_UNITS = {"w": 604_800.0, "d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0}
_SHORT = re.compile(r"(?:\d+(?:\.\d+)?[wdhms])+")
_PART = re.compile(r"(\d+(?:\.\d+)?)([wdhms])")

#: There is no maximum to ask for, but a timestamp ends with the year 9999: longer waits are kept as this.
FAR_AWAY = 7_500 * 365.25 * 86_400.0


def parse_timeout(value: object) -> float:
    """Seconds of a timeout, which must be above zero.

    >>> parse_timeout("1h30m")
    5400.0
    """
    seconds = parse_delay(value)
    if seconds <= 0:
        raise InvalidDuration(value, "a timeout must be longer than zero")
    return seconds


def parse_time(timeout: object, until: object, what: str, *, needed: bool = False) -> float | datetime | None:
    """How long a wait lasts: the seconds of `timeout=`, or the moment of `until=`; one of them at most.

    A moment that has passed is none too many: a run that is repeated may meet it late. The wait is over at once.

    >>> parse_time("1h", None, "ctx.wait_for('gate')")
    3600.0
    """
    if timeout is not None and until is not None:
        raise InvalidCall(f"{what} has timeout= and until=: leave one of them out")
    if until is not None:
        return parse_moment(until, f"until= of {what}")
    if timeout is not None:
        return parse_timeout(timeout)
    if needed:
        raise InvalidCall(f"{what} needs timeout=, how long it waits, or until=, the moment at which it ends")
    return None


def parse_moment(value: object, what: str) -> datetime:
    """A moment with a time zone.

    >>> parse_moment(datetime(2030, 1, 1, tzinfo=timezone.get_default_timezone()), "until=").year
    2030
    """
    if not isinstance(value, datetime):
        raise InvalidCall(f"{what} is a moment: a datetime with a time zone, not {show(value)}")
    if timezone.is_aware(value):
        return value
    if settings.USE_TZ:
        raise InvalidCall(
            f"{what} has no time zone: write django.utils.timezone.make_aware({value!r}), or begin with ctx.now"
        )
    return timezone.make_aware(value)


def parse_delay(value: object) -> float:
    """Seconds of a delay, which may be zero but not negative.

    >>> parse_delay("PT24H")
    86400.0
    """
    seconds = _seconds(value)
    if math.isnan(seconds):
        raise InvalidDuration(value, "it is not a number")
    if seconds < 0:
        raise InvalidDuration(value, "it is negative")
    return min(seconds, FAR_AWAY)


def write_duration(value: timedelta) -> str:
    """A duration as people write it, which reads as the same again.

    >>> write_duration(timedelta(hours=36, seconds=0.5))
    '1d12h0.5s'
    """
    left, parts = value // timedelta(microseconds=1), []
    for unit in "dhm":
        count, left = divmod(left, int(_UNITS[unit] * 1_000_000))
        parts += [f"{count}{unit}"] if count else []
    if left or not parts:
        parts.append(f"{left // 1_000_000}.{left % 1_000_000:06}".rstrip("0").rstrip(".") + "s")
    return "".join(parts)


def _seconds(value: object) -> float:
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, bool):
        raise InvalidDuration(value, _WRONG_TYPE)
    if isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:
            return math.inf if value > 0 else -math.inf
    if isinstance(value, str):
        return _read(value)
    raise InvalidDuration(value, _WRONG_TYPE)


def _read(text: str) -> float:
    compact = text.strip()
    if compact.startswith("-"):
        raise InvalidDuration(text, "it is negative")
    if _SHORT.fullmatch(compact):
        return sum(float(amount) * _UNITS[unit] for amount, unit in _PART.findall(compact))
    if _SHORT.fullmatch(compact.lower()):
        # "1M" may well be meant as a month.
        raise InvalidDuration(text, "units are lower case: w, d, h, m (minutes) and s; months have none")
    if compact[:1] in ("P", "p") and any(character.isdigit() for character in compact):
        try:
            parsed = parse_duration(compact.upper())
        except OverflowError:
            return math.inf
        if parsed is not None:
            return parsed.total_seconds()
    raise InvalidDuration(text, "it is not readable")
