"""`{% approval_status object %}`, and the filters of the card's parts.

    {% load approvals %}
    {% approval_status invoice %}

Lives here: the way from a template to what the modules say. Must not live here: a sentence of its own about a review.
Invariant owned: nothing here is marked as safe, so templates escape all of it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import template
from django.db.models import Model
from django.utils import timezone
from django.utils.translation import gettext

from approvals import show_times
from approvals.newest import find_newest, find_visible
from approvals.status import Progress

register = template.Library()

#: Dots that a gauge has room for; more votes are told by the words alone.
MAX_DOTS = 9
#: Where what a page has asked once is kept while it is rendered.
_VISIBLE = "approvals: visible"


@register.inclusion_tag("approvals/parts/status.html", takes_context=True)
def approval_status(context: Any, obj: Any) -> dict[str, Any]:
    """How the newest review about a row stands; nothing where there is none, or nothing to ask about.

    Whoever may not see that review reads "Waiting for a decision" or "Decided", and nothing else of it.

    >>> Template("{% load approvals %}{% approval_status invoice %}").render(Context({"invoice": invoice, "user": ann}))
    '<span class="holdpoint-status holdpoint-status-open">Waiting for Finance since Tuesday, 2 of 3 approved</span>'
    """
    if not isinstance(obj, Model):
        return {"newest": None}
    user = _find_user(context)
    # Kept for the page: who the viewer is does not change from row to row.
    kept = context.render_context
    if _VISIBLE not in kept:
        kept[_VISIBLE] = find_visible(user)
    return {"newest": find_newest(obj, user, visible=kept[_VISIBLE])}


@register.filter
def at(value: datetime | None, now: datetime) -> str:
    """A moment: "Today, 16:00"."""
    return "" if value is None else show_times.show_at(value, now)


@register.filter
def due(value: datetime | None, now: datetime) -> str:
    """How far away: "in 2 days", "overdue by 3 hours"."""
    return "" if value is None else show_times.show_due(value, now)


@register.filter
def ago(value: datetime | None, now: datetime) -> str:
    """How long by now: "2 days, 1 hour"."""
    return "" if value is None else show_times.show_length(value, now)


@register.filter
def nearness(value: datetime | None, now: datetime) -> str:
    """The class of a moment at a line: late, soon or ahead."""
    if value is None:
        return ""
    return "is-late" if value < now else "is-soon" if value - now < show_times.SOON else ""


@register.filter
def iso(value: datetime | None) -> str:
    """A moment for programs, in the zone that the words are in."""
    return "" if value is None else timezone.localtime(value).isoformat(timespec="minutes")


@register.filter
def zone(value: datetime | None) -> str:
    """The zone that a moment is told in."""
    return "" if value is None else show_times.name_zone(value)


@register.filter
def initials(name: Any) -> str:
    """Up to two letters in the place of a face; nothing that is no letter.

    >>> initials("Ann Archer")
    'AA'
    """
    words = [word for word in str(name).split() if word[0].isalnum()]
    chosen = words if len(words) < 2 else [words[0], words[-1]]
    return "".join(word[0] for word in chosen).upper()


@register.filter
def via(door: Any) -> str:
    """How something came, in words; nothing where that says nothing to a reader."""
    words = {
        "page": gettext("in the inbox"),
        "link": gettext("by e-mail link"),
        "api": gettext("through the API"),
        "admin": gettext("in the admin"),
        "mcp": gettext("by an agent"),
    }
    return words.get(str(door), "")


@register.filter
def gauge(progress: Progress) -> dict[str, Any] | None:
    """One dot for each vote that is needed, filled when given, and the bar behind them; None where there is no room."""
    if not 0 < progress.needed <= MAX_DOTS:
        return None
    dots = [{"x": 7 + 14 * number, "given": number < progress.votes} for number in range(progress.needed)]
    return {"width": 14 * progress.needed + 8, "bar": 14 * progress.needed + 4, "dots": dots}


@register.filter
def quote_label(label: Any) -> str:
    """A label in the quotes of the language."""
    return gettext("“%(label)s”") % {"label": label}


def _find_user(context: Any) -> Any:
    user = context.get("user")
    return user if user is not None else getattr(context.get("request"), "user", None)
