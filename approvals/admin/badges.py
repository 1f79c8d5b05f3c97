"""Pieces of the pages of approvals: badges and links. Nothing here queries.

Invariant owned: every text that came from people is escaped and isolated (see `workflows.admin.markup`).
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.urls import NoReverseMatch, reverse
from django.utils.formats import date_format
from django.utils.html import format_html
from django.utils.safestring import SafeString
from django.utils.timesince import timesince
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from approvals.cards.refusal_message import label_outcome
from approvals.display.values import show_text as reveal
from approvals.models import Review
from approvals.rules import load_outcomes
from approvals.rules.outcomes import WITHDRAWN
from workflows.admin.markup import NOTHING, show_badge, show_relative, show_text, to_local
from workflows.lifecycle import InteractionStatus

_RISK_TONES = {"medium": "wait", "high": "bad"}
_TONES = {"positive": "good", "negative": "bad", "warning": "wait", "neutral": "quiet"}


def show_standing(review: Review, status: InteractionStatus, now: datetime) -> SafeString:
    """How it stands, as a badge: the word carries the meaning."""
    if review.open:
        if review.effective_at is not None:
            told = _("deciding: %(outcome)s") % {"outcome": _label(review)}
            return show_badge(told, "go")
        return show_badge(_("waiting"), "wait")
    if review.outcome in WITHDRAWN:
        return show_badge(_("withdrawn"), "quiet")
    if review.outcome and review.effective_at is None:
        tone = next((one.tone for one in load_outcomes(review.outcomes) if one.name == review.outcome), "neutral")
        return show_badge(_label(review), _TONES[tone])
    if status is InteractionStatus.EXPIRED:
        return show_badge(pgettext("a request", "expired"), "quiet")
    return show_badge(_("cancelled"), "quiet")


def show_risk(review: Review) -> SafeString:
    """The risk, as a badge where it is not low."""
    word = {"low": _("low risk"), "medium": _("medium risk"), "high": _("high risk")}[review.risk]
    if review.risk == "low":
        return format_html('<span class="hp-quiet">{}</span>', word)
    return show_badge(word, _RISK_TONES[review.risk])


def show_due(review: Review, now: datetime) -> SafeString:
    """When an answer is due; overdue where it is and nobody has answered."""
    if review.due_at is None:
        return NOTHING
    if review.open and review.due_at < now:
        told = _("%(time)s overdue") % {"time": timesince(review.due_at, now, depth=1)}
        title = date_format(to_local(review.due_at), "Y-m-d H:i:s T")
        return format_html('<span title="{}">{}</span>', title, show_badge(told, "bad"))
    return show_relative(review.due_at, now)


def show_title(review: Review, limit: int = 80) -> SafeString:
    """What will happen, with the object below where there is one."""
    title = show_text(reveal(review.title), limit)
    if not review.subject_label:
        return title
    return format_html('{}<div class="hp-quiet">{}</div>', title, show_text(reveal(review.subject_label), 60))


def link_review(review: Any, site: str, *, linked: bool = True) -> SafeString:
    """A review's title, leading to its page for those who may open that."""
    shown = show_text(reveal(review.title), 60)
    url = locate_page("holdpoint_approvals_review", review.pk, site) if linked else None
    return shown if url is None else format_html('<a href="{}">{}</a>', url, shown)


def locate_page(name: str, pk: Any, site: str, page: str = "change") -> str | None:
    """The address of a page of this site of the admin; None where the site does not have it."""
    try:
        return reverse(f"admin:{name}_{page}", args=[pk], current_app=site)
    except NoReverseMatch:
        return None


def _label(review: Review) -> str:
    return reveal(label_outcome(review.outcome, load_outcomes(review.outcomes)), 60)
