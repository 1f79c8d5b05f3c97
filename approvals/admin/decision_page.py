"""The page on which one review is decided, by who was asked or in their place.

Lives here: showing the card with its form, and reading what comes back. Invariants owned: a decision is bound to the
version and the digest that were on the page, and one of high risk to a look at it; whatever refuses it, the page comes
again with all that was typed; looking at the page decides nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.utils.decorators import method_decorator
from django.utils.translation import gettext
from django.views.decorators.debug import sensitive_post_parameters, sensitive_variables

from approvals.access.password_check import TooManyTries, check_password
from approvals.admin.action_pages import ReviewActions
from approvals.admin.review_actions import DECIDE, DOOR, OVERRIDE, AdminAction, tell_recorded
from approvals.cards.card import Card, build_card
from approvals.cards.decision_form import DecisionForm, Filled
from approvals.cards.refusal_message import tell_refusal
from approvals.conf import conf
from approvals.deciding.decisions import decide
from approvals.exceptions import ApprovalError, NotAllowed, ReasonRequired, Stale
from approvals.models import Review
from approvals.people.person import Person
from approvals.reviews.case import Case
from approvals.rules.door import Door
from workflows.exceptions import InvalidData, WorkflowError
from workflows.pages.posted_form import join_breaks
from workflows.wording.punctuation import join_label


class DecidingAdmin(ReviewActions):
    """Decide and override, on a page with the whole card."""

    def deed_view(self, request: HttpRequest, object_id: UUID, deed: AdminAction) -> HttpResponse:
        """These two have a page of their own."""
        if deed in (DECIDE, OVERRIDE):
            return self.decide_view(request, object_id, deed)
        return super().deed_view(request, object_id, deed)

    @method_decorator(sensitive_post_parameters("password"))
    @sensitive_variables("filled")
    def decide_view(self, request: HttpRequest, object_id: UUID, deed: AdminAction) -> HttpResponse:
        """The card with its form; and with POST the decision."""
        review = self.find_review(request, object_id)
        card = make_card(review, request.user, deed)
        asks = conf.reauthenticate and review.risk == "high"
        form = DecisionForm(card, asks_password=asks)
        if request.method != "POST":
            if (obstacle := card.actions[deed.name]) and not review.open:
                self.message_user(request, obstacle, messages.ERROR)
                return HttpResponseRedirect(self.locate(review))
            return self.show_decision(request, review, card, deed, form.show())
        if (pressed := form.press(join_breaks(request.POST))) is not None:
            filled, focus = pressed
            return self.show_decision(request, review, card, deed, form.show(filled, focus=focus))
        filled = form.read(join_breaks(request.POST))
        if not filled.outcome or filled.errors:
            told = gettext("Choose an answer.") if not filled.outcome else gettext("Look at what is marked below.")
            self.message_user(request, told, messages.ERROR)
            return self.show_decision(request, review, card, deed, form.show(filled))
        return self.try_to_decide(request, review, deed, filled, asks=asks)

    @sensitive_variables("filled")
    def try_to_decide(
        self, request: HttpRequest, review: Review, deed: AdminAction, filled: Filled, *, asks: bool
    ) -> HttpResponse:
        """Decide; or the page again, as things are now, with all that was typed."""
        try:
            proved = not asks or (bool(filled.password) and check_password(request.user, filled.password))
            recorded = decide(
                review,
                filled.outcome,
                reason=filled.reason,
                data=filled.data,
                version=filled.version,
                override=deed is OVERRIDE,
                actor=request.user,
                door=Door(DOOR, saw_diff=has_looked(request), has_reauthenticated=proved, seen=filled.seen),
            )
        except (ApprovalError, WorkflowError) as refused:
            return self.show_refusal(request, review, deed, filled, refused, asks=asks)
        told = tell_recorded(recorded)
        self.log_change(request, review, join_label(deed.button, told))
        self.message_user(request, told, messages.SUCCESS)
        return HttpResponseRedirect(self.locate(review))

    @sensitive_variables("filled")
    def show_refusal(
        self, request: HttpRequest, review: Review, deed: AdminAction, filled: Filled, refused: Exception, *, asks: bool
    ) -> HttpResponse:
        """The page again, with the sentence where it belongs."""
        review = self.find_review(request, review.pk)
        card = make_card(review, request.user, deed)
        form = DecisionForm(card, asks_password=asks)
        if isinstance(refused, Stale):
            filled = form.take_over(filled, Case(review).find_shown(filled.version))
        told = tell_refusal(refused, review)
        places: dict[str, str] = {}
        saw_error = ""
        if isinstance(refused, InvalidData):
            form.read(join_breaks(request.POST))
            filled.place_errors({place: list(map(str, why)) for place, why in refused.errors.items()})
            told = gettext("Look at what is marked below.")
        elif isinstance(refused, TooManyTries):
            places["password_error"] = told
        elif isinstance(refused, ReasonRequired):
            places["reason_error"] = told
        elif isinstance(refused, NotAllowed) and refused.obstacle.rule == "high_risk_diff":
            saw_error = told
        elif isinstance(refused, NotAllowed) and refused.obstacle.rule in ("reason_required", "reauthenticate"):
            places["reason_error" if refused.obstacle.rule == "reason_required" else "password_error"] = told
        self.message_user(request, told, messages.ERROR)
        return self.show_decision(request, review, card, deed, form.show(filled, **places), saw_error=saw_error)

    def show_decision(
        self, request: HttpRequest, review: Review, card: Card, deed: AdminAction, form: Any, *, saw_error: str = ""
    ) -> HttpResponse:
        """The page."""
        context = {
            **self.describe_page(request, deed.title if deed is OVERRIDE else gettext("Decide this request")),
            "card": card,
            "form": form,
            "deed": deed,
            "original": review,
            "back": self.locate(review),
            "obstacle": card.actions[deed.name],
            "is_high": card.risk == "high" and card.may_decide,
            "typed": {"saw": has_looked(request), "saw_error": saw_error},
        }
        return TemplateResponse(request, "admin/holdpoint_approvals/review/decide.html", context)


def has_looked(request: HttpRequest) -> bool:
    """Whether they say that they have looked at what happens: that the page was fetched does not tell."""
    return request.POST.get("saw") == "1"


def make_card(review: Review, user: Person, deed: AdminAction) -> Card:
    """The card, with what stands in the way of this deed on its buttons."""
    card = build_card(review, user)
    if deed is not OVERRIDE:
        return card
    obstacle = card.actions[deed.name]
    buttons = tuple(replace(one, obstacle=obstacle, requires_reason=True) for one in card.outcomes)
    return replace(card, outcomes=buttons)
