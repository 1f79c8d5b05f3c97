"""`/approvals/{id}/`: one request for whoever is logged in, as a page of its own or as the pane beside the list.

Nothing here decides (`form_actions` does). Invariants owned: a request that somebody may not see is, to them, not
there; the pane and the page are the same card with the same forms, and only the page's frame differs.
"""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db.models import Q
from django.http import HttpResponse, HttpResponseNotAllowed, HttpResponseRedirect
from django.urls import reverse

from approvals.cards.case_query import load_again, load_case
from approvals.display.times import show_when
from approvals.display.values import MAX_NAME, show_text
from approvals.exceptions import UnknownReview
from approvals.models import Review, Vote
from approvals.people.principals import forget_permissions, has_groups, list_active, list_users, name_person
from approvals.reviews.case import Case
from approvals.reviews.electorate import keep_members
from approvals.rules.door import Door
from approvals.web.base.filters import Filters, read_filters
from approvals.web.base.page import Opened, for_people
from approvals.web.base.request_visit import RequestVisit, TopMessage, Typed
from approvals.web.inbox.presence import Around, list_lookers, look, write_said
from approvals.web.inbox.snoozes import list_snoozes
from approvals.web.request.form_actions import note_attempt, take_deed
from workflows.api.completions import owned_answers
from workflows.conf import conf as engine_conf

METHODS = ("GET", "HEAD", "POST")
#: Among whom colleagues are looked for.
LATEST_VOTES = 1_000
#: Of those whom something can be handed on to; others are named by their username.
MAX_COLLEAGUES = 50


class PageVisit(RequestVisit):
    """In the inbox, or on the page of the request alone."""

    door = "page"
    has_grace = True
    is_logged_in = True
    deeds = (
        *("comment", "ask", "answer", "nudge", "withdraw"),
        *("claim", "release", "delegate", "snooze", "unsnooze", "undo"),
    )

    def __init__(self, page: Opened, case: Case) -> None:
        super().__init__(page.request, page.user, page.reader, case)
        self.page = page

    @cached_property
    def filters(self) -> Filters:
        """Those of the list that it was opened from."""
        return read_filters(self.request.GET)

    def look_again(self) -> PageVisit:
        """The same with the review as it has become, and with the rights that they have now."""
        case = load_again(self.review.pk, forget_permissions(self.page.user))
        if case is None:
            raise UnknownReview(self.review.pk)
        return PageVisit(self.page, case)

    def make_door(self, typed: Typed, *, has_reauthenticated: bool) -> Door:
        """How carefully it is decided here."""
        seen = typed.filled.seen if typed.filled else None
        return Door(
            self.door,
            single_key=typed.by_key,
            saw_diff=typed.saw,
            has_reauthenticated=has_reauthenticated,
            seen=seen,
        )

    def show(
        self,
        *,
        status: int = 200,
        banner: TopMessage | None = None,
        typed: Typed | None = None,
        headers: dict[str, str] | None = None,
    ) -> HttpResponse:
        """The page, or the pane of it."""
        around = self.look_around()
        card, query = self.card, self.filters.write(after=self.filters.after)
        inbox = reverse("approvals:inbox")
        own = reverse("approvals:review", args=[self.review.pk])
        context = self.make_context(banner=banner, typed=typed) | {
            "has_form": True,
            "query": query,
            "back": f"{inbox}?{query}" if query else inbox,
            "page_url": f"{own}?{query}" if query else own,
            "looking": around.others,
            "snoozed": around.snoozed_until and show_when(around.snoozed_until, self.case.now),
            "previous_url": "",
            "next_url": "",
            "back_label": "",
            "undo": self.find_undo(),
            "may_undo": card.status == "open" and not card.actions["undo"],
            "snoozes": () if card.actions["snooze"] else list_snoozes(),
            # The pane asks for them when they are wanted.
            "colleagues": () if self.page.is_part or card.actions["delegate"] else self.list_colleagues(),
            "colleagues_url": reverse("approvals:colleagues", args=[self.review.pk]),
            "is_part": self.page.is_part,
            "said": write_said(self.review.claimed_by_id, len(self.case.said or ())),
        }
        template = "approvals/parts/detail.html" if self.page.is_part else "approvals/one.html"
        return self.page.answer(template, context, status=status, headers=headers)

    @property
    def draws(self) -> bool:
        """Only in the pane."""
        return self.page.is_part

    def is_out_of_sight(self) -> bool:
        """Asked before a browser is led to the page of the request, which would tell it that there is nothing."""
        rows = Review.objects.using(owned_answers.reach().alias).visible_to(forget_permissions(self.page.user))
        return not rows.filter(pk=self.review.pk).exists()

    def finish(self, told: str, *, left: bool) -> HttpResponse:
        """The pane as it is now, with what was done for the script; a browser alone goes back to the page."""
        if not self.draws:
            return HttpResponseRedirect(self.request.get_full_path(), status=303)
        undo = self.find_undo()
        done = {**(undo or {"seconds": 0}), "id": str(self.review.pk), "told": told, "left": left, "undo": bool(undo)}
        return self.show(headers={"HX-Trigger": json.dumps({"holdpoint:done": done})})

    def leave(self, told: str) -> HttpResponse:
        """Back to the list, which has it no more."""
        if not self.page.is_part:
            return HttpResponseRedirect(reverse("approvals:inbox"), status=303)
        done = {"id": str(self.review.pk), "told": told, "left": True, "undo": False, "seconds": 0}
        return self.page.tell(200, told, "", headers={"HX-Trigger": json.dumps({"holdpoint:done": done})})

    def find_undo(self) -> dict[str, Any] | None:
        """Until when this person can take back what they decided; None where nothing is to be taken back."""
        card = self.card
        if card.status != "grace" or card.actions["undo"] or card.effective_at is None:
            return None
        left = (card.effective_at - card.now).total_seconds()
        undo = {"until": card.effective_at.isoformat(), "seconds": max(0, round(left))}
        # Their vote was the last one, and the answer is another one.
        return undo if card.answer is None or card.answer.by else {**undo, "told": card.told}

    def look_around(self) -> Around:
        """Who else has it open; a page that is looked at says so, unless it is only fetched ahead."""
        if self.card.status not in ("open", "grace"):
            return Around()
        if self.request.headers.get("Sec-Purpose", "").startswith("prefetch"):
            return Around(list_lookers(self.review.pk, self.user))
        return look(self.review.pk, self.user)

    def list_colleagues(self) -> tuple[tuple[str, str], ...]:
        """Those whom it could be handed on to, by username."""
        if engine_conf.workspaces_for is not None:
            return ()  # the project would be asked about each of its users
        asked = list_users(one.principal for one in self.case.candidates)
        # Who shares a group with them, or has decided something lately: an account may as well be a customer's.
        near = Q(pk__in=Vote.objects.filter(user__isnull=False).order_by("-pk").values("user_id")[:LATEST_VOTES])
        if has_groups():
            users = get_user_model()._default_manager
            near |= Q(pk__in=users.filter(groups__in=self.user.groups.values("pk")).values("pk"))
        known = (
            keep_members(self.case, list_active().filter(near))
            .exclude(pk__in=asked.values("pk"))
            .exclude(Q(pk=self.user.pk) | Q(pk=self.review.requester_id))
        )
        name = get_user_model().USERNAME_FIELD
        found = known.order_by(name)[:MAX_COLLEAGUES]
        return tuple((one.get_username(), show_text(name_person(one), MAX_NAME)) for one in found)


@for_people
def review(page: Opened, id: UUID) -> HttpResponse:
    """Show it, or do what was posted from it."""
    if page.request.method not in METHODS:
        return HttpResponseNotAllowed(METHODS)
    try:
        visit = open_visit(page, id)
    except UnknownReview:
        if page.request.method == "POST":
            note_attempt(page.request, id, page.user, PageVisit.door)
        return page.tell_gone(page.keep_typed())
    return take_deed(visit) if page.request.method == "POST" else visit.show()


@for_people
def colleagues(page: Opened, id: UUID) -> HttpResponse:
    """Those whom it could be handed on to: options for the pane."""
    if page.request.method not in ("GET", "HEAD"):
        return HttpResponseNotAllowed(["GET", "HEAD"])
    visit = open_visit(page, id)
    # Names are told to whoever may use them.
    found = () if visit.card.actions["delegate"] else visit.list_colleagues()
    return page.answer("approvals/parts/colleagues.html", {"colleagues": found})


def open_visit(page: Opened, id: UUID) -> PageVisit:
    """What somebody may see."""
    case = load_case(id, page.viewer)
    if case is None:
        raise UnknownReview(id)
    _ = page.request.GET  # an address that cannot be read is refused before anything is done
    return PageVisit(page, case)
