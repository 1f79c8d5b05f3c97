"""`{% approval_status object %}`, and the filters of the card's parts.

    {% load approvals %}
    {% approval_status invoice %}

Lives here: the way from a template to what the modules say. Must not live here: a sentence of its own about a review.
Invariant owned: nothing here is marked as safe, so templates escape all of it.
"""

from __future__ import annotations

import mimetypes
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from django import template
from django.conf import settings
from django.db.models import Model
from django.forms import BoundField
from django.http import QueryDict
from django.utils import timezone
from django.utils.translation import gettext

from approvals.cards.card import Card
from approvals.cards.latest_review import find_newest, find_visible
from approvals.cards.status import Progress
from approvals.conf import conf
from approvals.display import times
from approvals.display.values import name_kind
from approvals.models.vote import MAX_TEXT
from workflows.wording.punctuation import end_sentence, join_label, join_list
from workflows.wording.relative_times import SOON, show_length

register = template.Library()

#: Dots that a gauge has room for; more votes are told by the words alone.
MAX_DOTS = 9
#: Where what a page has asked once is kept while it is rendered.
_VISIBLE = "approvals: visible"
#: What a browser shows as a picture, and runs nothing of.
_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"})


@register.simple_tag
def site_name() -> str:
    """What this is called on pages and in mails: `APPROVALS["NAME"]`."""
    return conf.name


@register.simple_tag
def max_text() -> str:
    """The length of the longest text that a person may write, as an attribute of a field."""
    return str(MAX_TEXT)


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
    return "" if value is None else times.show_at(value, now)


@register.filter
def due(value: datetime | None, now: datetime) -> str:
    """How far away: "in 2 days", "overdue by 3 hours"."""
    return "" if value is None else times.show_due(value, now)


@register.filter
def ago(value: datetime | None, now: datetime) -> str:
    """How long by now: "2 days, 1 hour"."""
    return "" if value is None else show_length(value, now)


@register.filter
def nearness(value: datetime | None, now: datetime) -> str:
    """The class of a moment at a line: late, soon or ahead."""
    if value is None:
        return ""
    return "is-late" if value < now else "is-soon" if value - now < SOON else ""


@register.filter
def iso(value: datetime | None) -> str:
    """A moment for programs, in the zone that the words are in."""
    return "" if value is None else timezone.localtime(value).isoformat(timespec="minutes")


@register.filter
def zone(value: datetime | None) -> str:
    """The zone that a moment is told in."""
    return "" if value is None else times.name_zone(value)


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


@register.filter
def sentence(words: Any) -> str:
    """Words that are a sentence, with the end that the language gives it."""
    return end_sentence(words)


@register.filter
def listed(items: Any) -> str:
    """Short things in a row, in the punctuation of the language."""
    return join_list(items)


@register.filter
def label(name: Any, value: Any) -> str:
    """A thing after its name: "Amount: €1,240.00"."""
    return join_label(name, value)


@register.filter
def after_name(value: Any) -> str:
    """What follows a name that stands there already: ": €1,240.00"."""
    return join_label("", value)


@register.filter
def after_comma(value: Any) -> str:
    """What follows something else of a list: ", settings"."""
    return join_list(["", value])


@register.filter
def as_number(count: Any) -> int:
    """A count as it is shown, as the number that chooses the form of the words around it.

    >>> as_number("1"), as_number("1+"), as_number("1,000+")
    (1, 2, 1001)
    """
    digits = "".join(one for one in str(count) if one.isdecimal())
    return int(digits or 0) + str(count).endswith("+")


@register.filter
def get(mapping: Any, key: str) -> Any:
    """What stands under a key; nothing where there is nothing."""
    return mapping.get(key) if mapping else None


@register.filter
def first_word(name: Any) -> str:
    """What somebody is called for short.

    >>> first_word("Ann Archer")
    'Ann'
    """
    return str(name).split()[0] if str(name).split() else ""


@register.filter
def pairs(query: Any, without: str = "") -> list[tuple[str, str]]:
    """The names and values of an address's query, but for some names.

    >>> pairs("view=risk&q=acme", "q after")
    [('view', 'risk')]
    """
    left_out = without.split()
    given = QueryDict(str(query or ""))
    return [(name, value) for name, values in given.lists() for value in values if name not in left_out]


@register.filter
def hotkey(card: Card, outcome: str) -> str:
    """The single key of an outcome: `a` for the first that says yes, `r` for the first that says no; no key decides
    anything of high risk."""
    return "" if card.risk == "high" else _find_main(card).get(outcome, "")


@register.filter
def is_spare(card: Card, outcome: str) -> bool:
    """Whether an outcome's button goes into "more" where there is no room for all."""
    main = _find_main(card)
    return len(card.outcomes) > max(2, len(main)) and outcome not in main and outcome != card.outcomes[0].name


@register.filter
def has_spare(card: Card) -> bool:
    """Whether there is any such button."""
    return any(is_spare(card, one.name) for one in card.outcomes)


@register.filter
def preview(evidence: Mapping[str, Any]) -> str:
    """What can be looked at right on the page: an "image" or a "pdf" that this site serves itself; else nothing.

    >>> preview({"url": "/media/scan.png"}), preview({"url": "https://elsewhere.example/scan.png"})
    ('image', '')
    """
    url = str(evidence.get("url") or "")
    ours = [one for one in (settings.MEDIA_URL, settings.STATIC_URL) if one and one != "/"]
    if not (url.startswith("/") and not url.startswith("//")) and not any(url.startswith(one) for one in ours):
        return ""
    kind = mimetypes.guess_type(urlsplit(url).path)[0] or ""
    return "image" if kind in _PICTURES else "pdf" if kind == "application/pdf" else ""


@register.filter
def noted(field: BoundField) -> str:
    """A field of a form whose page says more below it: that describes the field too, as its help and its errors do."""
    described = (field.aria_describedby or "").split()
    described.insert(1 if field.help_text else 0, f"{field.auto_id}_note")
    return field.as_widget(attrs={"aria-describedby": " ".join(described)})


@register.filter
def kind(workflow: Any) -> str:
    """A workflow's name as words.

    >>> kind("shop.refund_small")
    'Refund small'
    """
    return name_kind(str(workflow))


@register.filter
def is_yes(evidence: Mapping[str, Any]) -> bool:
    """Whether it is a fact that just holds: then a tick says more than "Yes"."""
    return evidence.get("kind") == "fact" and evidence.get("text") == gettext("Yes")


def _find_main(card: Card) -> dict[str, str]:
    """The first outcome that says yes, and the first that says no, with their keys."""
    yes = next((one.name for one in card.outcomes if one.tone == "positive"), None)
    no = next((one.name for one in card.outcomes if one.tone == "negative"), None)
    return {name: key for name, key in ((yes, "a"), (no, "r")) if name is not None}


def _find_user(context: Any) -> Any:
    user = context.get("user")
    return user if user is not None else getattr(context.get("request"), "user", None)
