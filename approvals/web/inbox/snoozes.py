"""Until when something can be put aside, in words that need no calendar.

Invariant owned: every choice lies ahead, at the reader's own hours.
"""

from __future__ import annotations

from datetime import datetime, time, timedelta

from django.utils import timezone
from django.utils.translation import gettext

#: When a working day begins.
MORNING = time(8)
_LATER_TODAY = timedelta(hours=3)


def list_snoozes() -> tuple[tuple[str, str], ...]:
    """(value, label) of each choice.

    >>> [value for value, _ in list_snoozes()]
    ['later', 'tomorrow', 'monday', 'week']
    """
    return (
        ("later", gettext("In three hours")),
        ("tomorrow", gettext("Tomorrow morning")),
        ("monday", gettext("Monday morning")),
        ("week", gettext("In a week")),
    )


def find_snooze(value: str, now: datetime) -> datetime | None:
    """The moment of a choice; None for no choice."""
    today = timezone.localtime(now).date()
    days = {"tomorrow": 1, "monday": 7 - today.weekday(), "week": 7}
    if value == "later":
        return now + _LATER_TODAY
    if value not in days:
        return None
    return timezone.make_aware(datetime.combine(today + timedelta(days=days[value]), MORNING))
