"""When a message goes out: at once, in somebody's next collected mail, or once more after a failure.

Pure: now is handed in. Invariants owned: a person's day begins in their own time zone; all that is collected for one
mail has the very same moment, by which it is found; and the moments of many people are spread over a minute.
"""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Any

#: When a daily mail is sent, where its reader lives.
DAILY_AT = time(8)
#: Waits after each failure, before the next try. The next failure is the last.
WAITS = tuple(timedelta(minutes=minutes) for minutes in (1, 5, 30, 120, 240, 480, 720))
MAX_ATTEMPTS = len(WAITS) + 1
#: A place that has just failed is left alone so long.
REST = timedelta(minutes=1)
#: Over which all who get a mail at the same hour are spread.
SPREAD_SECONDS = 60


def find_next_try(attempts: int, now: datetime) -> datetime | None:
    """When to try again after so many failures; None: never.

    >>> find_next_try(1, now) - now, find_next_try(8, now)
    (datetime.timedelta(seconds=60), None)
    """
    return now + WAITS[attempts - 1] if attempts <= len(WAITS) else None


def find_slot(how: str, now: datetime, zone: tzinfo, *, key: Any) -> datetime:
    """When the next collected mail of somebody (by their key) is due: "hourly" or "daily".

    >>> find_slot("daily", datetime(2026, 7, 14, 9, tzinfo=UTC), UTC, key=7).date()
    datetime.date(2026, 7, 15)
    """
    spread = timedelta(microseconds=_scatter(key))
    local = now.astimezone(zone)
    if how == "hourly":
        slot = local.replace(minute=0, second=0, microsecond=0)
        step = timedelta(hours=1)
        while slot.astimezone(UTC) + spread <= now:
            slot = (slot.astimezone(UTC) + step).astimezone(zone)
        return slot.astimezone(UTC) + spread
    day = local.date()
    while True:
        slot = datetime.combine(day, DAILY_AT, tzinfo=zone).astimezone(UTC) + spread
        if slot > now:
            return slot
        day += timedelta(days=1)


def _scatter(key: Any) -> int:
    """The same for the same person, always."""
    return int.from_bytes(hashlib.sha256(str(key).encode()).digest()[:8], "big") % (SPREAD_SECONDS * 1_000_000)
