"""Moments as people read them: near ones by how far they are, all of them exactly.

Invariant owned: "now" is the database's, so that a page and the engine never disagree about what is over.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.utils import timezone
from django.utils.formats import date_format
from django.utils.timesince import timesince, timeuntil
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

#: A deadline that is nearer than this is marked.
SOON = timedelta(hours=24)


@dataclass(frozen=True, slots=True)
class Moment:
    """One moment: for programs, for people, and from here."""

    iso: str
    exactly: str
    relative: str
    near: bool = False


def show_moment(at: datetime, now: datetime) -> Moment:
    """A moment, with the zone that it is told in."""
    local = timezone.localtime(at) if timezone.is_aware(at) else at
    exactly = date_format(local, pgettext("an exact moment, in the letters of Django’s date filter", "D j M Y, H:i"))
    if timezone.is_aware(local):
        exactly = f"{exactly} {local.tzname() or ''}".strip()
    return Moment(local.isoformat(), exactly, show_relative(at, now), near=at - now < SOON)


def show_relative(at: datetime, now: datetime) -> str:
    """How far away it is, such as "in 5 hours"."""
    if abs(at - now) < timedelta(minutes=1):
        return _("in less than a minute") if at > now else _("just now")
    if at > now:
        return _("in %(time)s") % {"time": timeuntil(at, now, depth=2)}
    return _("%(time)s ago") % {"time": timesince(at, now, depth=2)}


def show_length(since: datetime, now: datetime) -> str:
    """How long something lasts by now.

    >>> show_length(now - timedelta(hours=49), now)
    '2 days, 1 hour'
    """
    if now - since < timedelta(minutes=1):
        return _("less than a minute")
    return timesince(since, now, depth=2)
