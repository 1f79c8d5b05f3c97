"""E-mails: one about one request, and one that collects many.

Lives here: putting them together. Must not live here: sending (`smtp`), and whether (`sending`). Invariants owned:
a mail is in its reader's language and time zone, works without images, scripts and stylesheets from elsewhere, and its
links lead to a page that asks once more; however often it is tried, its Message-ID is the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urlsplit

from django.core.mail import EmailMultiAlternatives
from django.template.loader import render_to_string
from django.utils.translation import get_language, get_language_bidi, gettext, pgettext

from approvals.access.personal_links import find_inbox, make_link
from approvals.cards.card import Card
from approvals.conf import conf
from approvals.display.times import name_zone
from approvals.display.values import show_text
from approvals.models import Delivery, Review
from approvals.notify.delivery_writer import read_data
from approvals.notify.messages.mail_subjects import Occasion, choose_subject, choose_words, tell_due
from approvals.notify.preferences import ReaderPreferences
from approvals.notify.recipients import ASKS
from workflows.conf import conf as engine_conf
from workflows.definitions.callback_tokens import write_url

#: Rows of each kind that a mail shows; the page shows them all.
MAX_ROWS = 12
MAX_BUTTONS = 4
#: Requests that a collected mail lists.
MAX_REQUESTS = 50
#: After what a reader may decide.
_DECIDABLE = ASKS | {"answer", "reopened"}


@dataclass(frozen=True, slots=True)
class MailButton:
    """A link that looks like a button; whatever it says, it only opens the page."""

    label: str
    url: str
    is_main: bool = False
    is_danger: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """One line of a collected mail."""

    review: Review
    requester: str
    due: str
    is_late: bool


def write_mail(
    delivery: Delivery, occasion: Occasion, card: Card, review: Review, reader: ReaderPreferences, *, first_id: str = ""
) -> EmailMultiAlternatives:
    """A mail about one request. The reader's language has to be the active one.

    >>> write_mail(delivery, Occasion("new"), card, review, reader, first_id="").subject
    'Due today at 16:00: Refund €1,240.00 to Acme GmbH'
    """
    words = choose_words(occasion, card)
    link = make_link(review, reader.user)
    id = name_mail(delivery)
    may_decide = card.may_decide and occasion.kind in _DECIDABLE
    context = {
        "reader": reader,
        "words": words,
        "card": card,
        "occasion": occasion.kind,
        "may_decide": may_decide,
        "is_over": card.status in ("decided", "closed"),
        "due": tell_due(card.due_at, card.now),
        "zone": name_zone(card.now),
        "then": card.what_then,
        "diff": card.diff[:MAX_ROWS],
        "facts": card.facts[:MAX_ROWS],
        "evidence": [one | {"url": _complete(one["url"])} for one in card.evidence[:MAX_ROWS]],
        "settings": card.settings[:MAX_ROWS],
        "left_out": sum(max(0, len(rows) - MAX_ROWS) for rows in (card.diff, card.facts, card.settings)),
        "link": link,
        "buttons": _list_buttons(occasion, card, review, reader) if may_decide else _list_looks(occasion, link),
        "dir": "rtl" if get_language_bidi() else "ltr",
    }
    headers = {"Message-ID": id, "Auto-Submitted": "auto-generated"}
    if first_id and first_id != id:
        headers |= {"References": first_id, "In-Reply-To": first_id}
    return _make("message", words.subject, context, reader, headers)


def write_digest(
    batch: str, requests: Sequence[Request], reader: ReaderPreferences, *, how: str, now: datetime
) -> EmailMultiAlternatives:
    """The collected mail of an hour or a day. The reader's language has to be the active one.

    >>> write_digest(batch, requests, reader, how="daily", now=now).subject
    '3 requests wait for you: Refund €1,240.00 to Acme GmbH …'
    """
    shown = [(one, show_text(one.review.title), make_link(one.review, reader.user)) for one in requests[:MAX_REQUESTS]]
    context = {
        "reader": reader,
        "requests": [{"title": title, "link": link, "of": one} for one, title, link in shown],
        "more": len(requests) - len(shown),
        "count": len(requests),
        "how": how,
        "inbox": find_inbox(),
        "zone": name_zone(now),
        "dir": "rtl" if get_language_bidi() else "ltr",
    }
    headers = {"Message-ID": f"<{batch}@{find_domain()}>", "Auto-Submitted": "auto-generated"}
    return _make("digest", choose_subject(len(requests), shown[0][1]), context, reader, headers)


def name_mail(delivery: Delivery) -> str:
    """The Message-ID of a delivery: the same for every try, another when somebody has it sent again.

    >>> name_mail(delivery)
    '<01995c0e-…@holdpoint.example>'
    """
    again = read_data(delivery).get("again")
    return f"<{delivery.pk}{f'.{again}' if again else ''}@{find_domain()}>"


def find_domain() -> str:
    """What stands behind the @ of a Message-ID.

    >>> find_domain()
    'holdpoint.example'
    """
    host = urlsplit(engine_conf.base_url).hostname or "localhost"
    try:
        name = host.encode("idna").decode()
    except UnicodeError:
        return "localhost"
    return name if ":" not in name else f"[IPv6:{name}]"


def _make(
    template: str, subject: str, context: dict[str, Any], reader: ReaderPreferences, headers: dict[str, str]
) -> EmailMultiAlternatives:
    context |= {"subject": subject, "language": get_language() or "en"}
    mail = EmailMultiAlternatives(
        subject=subject,
        body=render_to_string(f"approvals/email/{template}.txt", context),
        from_email=conf.from_email,
        to=[reader.address],
        headers=headers,
    )
    mail.attach_alternative(render_to_string(f"approvals/email/{template}.html", context), "text/html")
    return mail


def _list_buttons(occasion: Occasion, card: Card, review: Review, reader: ReaderPreferences) -> list[MailButton]:
    """One for each answer: it opens the page with that answer put first, and the button there is the second tap."""
    open_ones = [one for one in card.outcomes if not one.obstacle]
    return [
        MailButton(one.label, make_link(review, reader.user, outcome=one.name), place == 0, one.tone == "negative")
        for place, one in enumerate(open_ones[:MAX_BUTTONS])
    ]


def _list_looks(occasion: Occasion, link: str) -> list[MailButton]:
    label = pgettext("a button", "Answer") if occasion.kind == "question" else gettext("Look at it")
    return [MailButton(label, link, is_main=True)]


def _complete(url: str | None) -> str | None:
    """An address of this site with its host."""
    return write_url(url) if url and url.startswith("/") else url
