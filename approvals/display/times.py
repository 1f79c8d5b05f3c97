"""Moments as people say them: since Tuesday, in 2 days, overdue by 3 hours; in the viewer's language and time zone.

Lives here: days by their names, and the words of a request that is due. Must not live here: how long something lasts,
and how far away it is (`workflows.wording.relative_times`). Pure: "now" is handed in, and is the database's. Invariants
owned: near moments are told by how far they are and by the name of the day, far ones by their date; a day is that
of the zone that is active, and no name means two days.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.timesince import timesince
from django.utils.translation import gettext, pgettext

from workflows.wording.relative_times import show_relative

#: Days that are told by their name: on the seventh it is that of today.
NAMED_DAYS = 7
MINUTE = timedelta(minutes=1)


def show_at(at: datetime, now: datetime) -> str:
    """A moment in a table or at a line.

    >>> show_at(now, now)
    'Today, 16:00'
    """
    local, days = _place(at, now)
    given = {"time": _show_time(local)}
    if days == 0:
        return gettext("Today, %(time)s") % given
    if days == 1:
        return gettext("Yesterday, %(time)s") % given
    if days == -1:
        return gettext("Tomorrow, %(time)s") % given
    if local.year == timezone.localtime(now).year:
        form = pgettext("a moment of this year, in the letters of Django’s date filter", "D j M, H:i")
    else:
        form = pgettext("a moment of another year, in the letters of Django’s date filter", "j M Y, H:i")
    return date_format(local, form)


def show_when(at: datetime, now: datetime) -> str:
    """A moment within a sentence.

    >>> "approved " + show_when(now, now)
    'approved today at 16:00'
    """
    local, days = _place(at, now)
    given = {"day": _show_day(local, now, days), "time": _show_time(local)}
    if days == 0:
        return gettext("today at %(time)s") % given
    if days == 1:
        return gettext("yesterday at %(time)s") % given
    if days == -1:
        return gettext("tomorrow at %(time)s") % given
    return gettext("on %(day)s at %(time)s") % given


def show_second(at: datetime) -> str:
    """A moment of today that is over in no time.

    >>> "until " + show_second(now + timedelta(seconds=8))
    'until 16:00:08'
    """
    form = pgettext("a time of day with its seconds, in the letters of Django’s date filter", "H:i:s")
    return date_format(timezone.localtime(at), form)


def show_since(at: datetime, now: datetime) -> str:
    """Since when something lasts, within a sentence.

    >>> "waiting " + show_since(now - timedelta(days=2), now)
    'waiting since Tuesday'
    """
    local, days = _place(at, now)
    if days <= 0:
        return gettext("since %(time)s") % {"time": _show_time(local)}
    if days == 1:
        return gettext("since yesterday")
    return gettext("since %(day)s") % {"day": _show_day(local, now, days)}


def show_due(at: datetime, now: datetime) -> str:
    """How far away it is that something is due, or was.

    >>> show_due(now + timedelta(days=2), now), show_due(now - timedelta(hours=3), now)
    ('in 2 days', 'overdue by 3 hours')
    """
    if at > now:
        return show_relative(at, now)
    if now - at < MINUTE:
        return gettext("due now")
    return gettext("overdue by %(time)s") % {"time": timesince(at, now, depth=2)}


def show_soon(at: datetime, now: datetime) -> str:
    """When something is due, in as little room as a list has.

    >>> show_soon(now, now + timedelta(hours=15)), show_soon(now + timedelta(minutes=1), now)
    ('15 hours overdue', '16:01')
    """
    if at < now:
        if now - at < MINUTE:
            return gettext("due now")
        return gettext("%(time)s overdue") % {"time": timesince(at, now, depth=1)}
    local, days = _place(at, now)
    if days == 0:
        return _show_time(local)
    if days == -1:
        return gettext("Tomorrow")
    if local.year == timezone.localtime(now).year:
        return date_format(local, pgettext("a day in a list, in the letters of Django’s date filter", "D j M"))
    form = pgettext("a day of another year in a list, in the letters of Django’s date filter", "j M Y")
    return date_format(local, form)


def name_zone(at: datetime) -> str:
    """The zone in which moments are told: to be named outside the product.

    >>> name_zone(now)
    'CEST'
    """
    return timezone.localtime(at).tzname() or ""


def _place(at: datetime, now: datetime) -> tuple[datetime, int]:
    """The moment in the active zone, and how many days it lies back there."""
    local = timezone.localtime(at)
    return local, (timezone.localtime(now).date() - local.date()).days


def _show_day(local: datetime, now: datetime, days: int) -> str:
    if 0 < days < NAMED_DAYS:
        return date_format(local, "l")
    if local.year == timezone.localtime(now).year:
        return date_format(local, pgettext("a day of this year, in the letters of Django’s date filter", "j F"))
    return date_format(local, pgettext("a day of another year, in the letters of Django’s date filter", "j F Y"))


def _show_time(local: datetime) -> str:
    return date_format(local, pgettext("a time of day, in the letters of Django’s date filter", "H:i"))
