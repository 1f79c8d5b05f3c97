"""What stands on the page of one review: its card, what this person may do, and the rows behind it.

Invariants owned: one statement for each table of at most `ROWS` + 1 rows; everybody named on the page is asked for with
the card or once more; what was taken back stays in sight.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest
from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from approvals.admin.badges import locate_page
from approvals.admin.review_actions import DEEDS, RELEASE, AdminAction
from approvals.cards.card import build_card
from approvals.cards.edit_summary import list_changes, tell_change
from approvals.display.values import show_text as reveal
from approvals.models import Comment, Delivery, Review, Vote
from approvals.reviews.case import Case
from workflows.admin.instances.instance_history import read_page
from workflows.admin.markup import NOTHING, show_badge, show_moment, show_text
from workflows.wording.punctuation import join_list


@dataclass(frozen=True, slots=True)
class ActionButton:
    """Something that can be done, or the sentence that says why not."""

    deed: AdminAction
    url: str
    obstacle: str


def read_page_of(review: Review, request: HttpRequest, site: str) -> dict[str, Any]:
    """The context of a review's page."""
    case = Case(review)
    card = build_card(review, request.user, case=case)
    asked = read_page(case.candidates, request, "candidates_page")  # type: ignore[arg-type]  # slices like a query
    votes = read_page(case.all_votes[::-1], request, "votes_page")  # type: ignore[arg-type]
    said = read_page(Comment.objects.filter(review=review).order_by("-pk"), request, "comments_page")
    sent = read_page(Delivery.objects.filter(review=review).order_by("-pk"), request, "deliveries_page")
    names = case.read_names(
        [
            *(one for row in asked.rows for one in (row.principal, row.added_by, row.instead_of) if one),
            *(f"user:{row.user_id}" for page in (votes, said, sent) for row in page.rows if row.user_id is not None),
        ]
    )
    undone = {vote.reverses_id: vote for vote in case.all_votes if vote.reverses_id is not None}
    for one in asked.rows:
        one.cells = show_candidate(one, names)
    for one in votes.rows:
        one.cells = show_vote(one, case, undone)
    for one in said.rows:
        one.cells = show_comment(one, names)
    for one in sent.rows:
        one.cells = show_delivery(one, names)
        if request.user.has_perm("holdpoint_approvals.view_delivery"):
            one.cells["url"] = locate_page("holdpoint_approvals_delivery", one.pk, site)
    return {
        "card": card,
        "buttons": list_buttons(card, review),
        "candidates": asked,
        "votes": votes,
        "comments": said,
        "deliveries": sent,
        "site": site,
    }


def list_buttons(card: Any, review: Review) -> list[ActionButton]:
    """What can be done here, each with what stands in its way."""
    found = []
    for name, deed in DEEDS.items():
        obstacle = card.actions[name]
        if deed is RELEASE and not obstacle and review.claimed_by_id is None:
            obstacle = _("Nobody has claimed it.")
        found.append(ActionButton(deed, f"../{name}/", obstacle))
    return found


def show_candidate(one: Any, names: Any) -> dict[str, Any]:
    """The cells of somebody who may decide."""
    return {
        "who": show_text(reveal(names[one.principal]), 80),
        "principal": show_text(one.principal, 60),
        "instead": show_text(reveal(names[one.instead_of]), 60) if one.instead_of else NOTHING,
        "by": show_text(reveal(names.get(one.added_by, one.added_by)), 60) if one.added_by else NOTHING,
    }


def show_vote(vote: Vote, case: Case, undone: dict[Any, Vote]) -> dict[str, Any]:
    """The cells of a vote: whether it counts, and what took it back."""
    label = next((one.label for one in case.outcomes if one.name == vote.outcome), vote.outcome)
    marks = [
        word
        for word, given in (
            (_("override"), vote.override),
            (_("by a program"), vote.automated),
            (_("for %(who)s") % {"who": reveal(case.name(vote.on_behalf_of_id))}, vote.on_behalf_of_id is not None),
        )
        if given
    ]
    marks += map(tell_change, list_changes(case, vote))
    if vote.reverses_id is not None:
        state = show_badge(_("takes a vote back"), "quiet")
    elif vote.standing:
        state = show_badge(_("counts"), "good")
    elif vote.pk in undone:
        state = show_badge(_("taken back"), "bad")
    else:
        state = show_badge(_("fell with a change"), "bad")
    return {
        "at": show_moment(vote.at),
        "who": show_text(reveal(case.name(vote.user_id) or vote.actor), 60),
        "outcome": show_text(reveal(label), 60),
        "state": state,
        "marks": show_text(join_list(marks), 120),
        "door": show_text(vote.door, 20),
        "reason": show_text(reveal(vote.reason, 2_000), 400) if vote.reason else NOTHING,
    }


def show_comment(comment: Comment, names: Any) -> dict[str, Any]:
    """The cells of something said."""
    kinds = {"comment": _("comment"), "question": _("question"), "answer": _("answer")}
    who = names[f"user:{comment.user_id}"] if comment.user_id is not None else comment.actor
    return {
        "at": show_moment(comment.at),
        "who": show_text(reveal(who), 60),
        "kind": kinds[comment.kind],
        "text": show_text(reveal(comment.text, 2_000), 400),
    }


def show_delivery(sent: Delivery, names: Any) -> dict[str, Any]:
    """The cells of a message."""
    who = names[f"user:{sent.user_id}"] if sent.user_id is not None else ""
    return {
        "kind": show_text(sent.kind, 30),
        "channel": show_text(sent.channel, 30),
        "who": show_text(reveal(who), 60) if who else NOTHING,
        "status": show_delivery_status(sent),
        "sent": show_moment(sent.sent_at),
        "closed": show_moment(sent.closed_at),
        "error": show_text(reveal(sent.error), 120) if sent.error else NOTHING,
    }


def show_delivery_status(sent: Delivery) -> Any:
    """How a message stands, as a badge."""
    words = {
        "waiting": (pgettext("a notice", "waiting"), "wait"),
        "sent": (pgettext("a notice", "sent"), "good"),
        "failed": (pgettext("a notice", "failed"), "bad"),
        "dropped": (pgettext("a notice", "dropped"), "quiet"),
    }
    word, tone = words.get(sent.status, (sent.status, "quiet"))
    return show_badge(word, tone)
