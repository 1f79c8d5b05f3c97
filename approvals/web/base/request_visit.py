"""A person's page of one request: what is on it, whichever door they came by.

Lives here: what the link's page and the inbox's have in common. Must not live here: how either looks (`link_page`,
`request_page`) and what a form does (`form_actions`). Invariants owned: a door tells `decide` truly how carefully it
was done there; what somebody typed is on every page that refuses it, but for the password; the outcome is there for
ever.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from approvals.cards.card import Card, build_card, may_decide
from approvals.cards.decision_form import DecisionForm, Filled, FrozenForm, ShownDecision
from approvals.cards.status import find_status
from approvals.conf import conf
from approvals.display.values import MAX_BLOCK, MAX_NAME, show_text
from approvals.models import Review
from approvals.notify.preferences import ReaderPreferences
from approvals.people.principals import name_person
from approvals.reviews.case import Case
from approvals.reviews.permissions import find_question
from approvals.rules.door import Door
from workflows.values.json_text import MISSING
from workflows.wording.punctuation import end_sentence

#: Fields of the page beside those of the decision; the password is never shown again.
SAID = ("text", "question", "answer", "withdrawal", "handing", "to", "whom")


@dataclass(frozen=True, slots=True)
class TopMessage:
    """What has to be read first."""

    tone: Literal["good", "warn"]
    title: str
    text: str = ""
    items: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Typed:
    """What was on the page when it was sent, and what is wrong with it."""

    filled: Filled | None = None
    said: Mapping[str, str] = field(default_factory=dict)
    saw: bool = False
    #: Whether a single key pressed the button.
    by_key: bool = False
    focus: str = ""
    reason_error: str = ""
    password_error: str = ""
    saw_error: str = ""
    said_errors: Mapping[str, str] = field(default_factory=dict)


class RequestVisit(ABC):
    """One request, and what it came for."""

    #: The door's name, as votes and the ledger have it.
    door: ClassVar[str]
    #: Whether a decision made here can be undone for a while.
    has_grace: ClassVar[bool] = False
    #: Whether they came by a login, and not by a link.
    is_logged_in: ClassVar[bool] = False
    #: What can be done here beside deciding: names of `form_actions.DEEDS`.
    deeds: ClassVar[tuple[str, ...]] = ()

    def __init__(self, request: HttpRequest, user: Any, reader: ReaderPreferences, case: Case) -> None:
        self.request, self.user, self.reader, self.case = request, user, reader, case
        #: The review as it was when it was looked at.
        self.review: Review = case.review

    @cached_property
    def card(self) -> Card:
        """Its card for whoever looks."""
        return build_card(self.review, self.user, case=self.case)

    @cached_property
    def form(self) -> FrozenForm:
        """The form that they were shown, to be read; it takes no card."""
        table = self.case.table
        return FrozenForm.from_review(self.review, MISSING if table.vote is None or table.data is None else table.data)

    @cached_property
    def is_high(self) -> bool:
        """Whether it takes more care to decide it."""
        return self.review.risk == "high" and self.may_decide

    @cached_property
    def may_decide(self) -> bool:
        """Whether any answer is open to them."""
        return may_decide(self.case, self.user)

    @cached_property
    def asks_password(self) -> bool:
        """Whether it takes the password, and there is one."""
        return self.is_high and conf.reauthenticate and self.user.has_usable_password()

    @cached_property
    def is_over(self) -> bool:
        """Whether nothing is to be decided any more."""
        return find_status(self.case) in ("decided", "closed")

    @cached_property
    def is_requester(self) -> bool:
        """Whether it is theirs."""
        return self.review.requester_id is not None and self.review.requester_id == self.user.pk

    def make_door(self, typed: Typed, *, has_reauthenticated: bool) -> Door:
        """How carefully it is decided here."""
        seen = typed.filled.seen if typed.filled else None
        return Door(self.door, saw_diff=typed.saw, has_reauthenticated=has_reauthenticated, seen=seen)

    @abstractmethod
    def look_again(self) -> RequestVisit:
        """The same with the review as it has become."""

    @abstractmethod
    def show(self, *, status: int = 200, banner: TopMessage | None = None, typed: Typed | None = None) -> HttpResponse:
        """The page as it stands, with what was typed if it was sent and not taken."""

    @property
    def draws(self) -> bool:
        """Whether `finish` shows the request; else it leads to its page."""
        return False

    def is_out_of_sight(self) -> bool:
        """Whether the visitor may not see the request any more, whatever they could a moment ago."""
        return False

    @abstractmethod
    def finish(self, told: str, *, left: bool) -> HttpResponse:
        """What is answered when something was done: what, and whether it leaves the visitor's list with that."""

    def leave(self, told: str) -> HttpResponse:
        """The same where the visitor may not see the request any more, for they have handed it on, say."""
        return self.finish(told, left=True)

    def make_context(self, *, banner: TopMessage | None, typed: Typed | None) -> dict[str, Any]:
        """What every page of a request shows."""
        typed, card = typed or Typed(), self.card
        chosen = self._find_chosen(typed)
        return {
            "base": conf.base_template,
            "card": _put_first(card, chosen),
            "form": self._show_form(typed) if card.may_decide else None,
            "chosen": chosen,
            "banner": banner or self._tell_state(),
            "kept": "" if card.may_decide or typed.filled is None else _keep(typed.filled),
            "typed": typed,
            "name": show_text(name_person(self.user), MAX_NAME),
            "is_requester": self.is_requester,
            "is_over": self.is_over,
            "has_bar": not self.is_over and (card.may_decide or not self.is_requester),
            "gates": "approvals/link_gates.html" if self.is_high else "",
            "effect": self._tell_effect(),
            "question": "" if card.actions["answer_info"] else self._find_question(),
        }

    def _show_form(self, typed: Typed) -> ShownDecision:
        return DecisionForm(self.card, asks_password=self.asks_password).show(
            typed.filled, focus=typed.focus, reason_error=typed.reason_error, password_error=typed.password_error
        )

    def _tell_state(self) -> TopMessage | None:
        """The first words of a page on which nothing is to be done."""
        card = self.card
        if not self.is_over:
            return None
        told = _("“%(reason)s”") % {"reason": card.answer.reason} if card.answer and card.answer.reason else ""
        tone: Literal["good", "warn"] = "good" if card.status == "decided" else "warn"
        return TopMessage(tone, end_sentence(card.told), told or _("Nothing more is needed."))

    def _tell_effect(self) -> str:
        """When an answer takes effect, and whether it can be taken back; only to whoever can give one."""
        if self.card.status != "open" or not self.card.may_decide:
            return ""
        seconds = round(conf.undo_seconds) if self.has_grace and self.card.risk != "high" else 0
        if seconds < 1:
            return _("It takes effect at once and can’t be undone.")
        told = ngettext("It can be undone for %(n)s second.", "It can be undone for %(n)s seconds.", seconds)
        return told % {"n": seconds}

    def _find_chosen(self, typed: Typed) -> str:
        """The answer that a button in the mail spoke of: it comes first, and does nothing by itself."""
        wanted = typed.filled.outcome if typed.filled else self.request.GET.get("outcome", "")
        open_ones = [one.name for one in self.card.outcomes if not one.obstacle]
        return wanted if wanted in open_ones else ""

    def _find_question(self) -> str:
        """What waits for the requester's answer."""
        found = find_question(self.case)
        return "" if found is None else show_text(found.text, MAX_BLOCK, lines=True)


def read_typed(visit: RequestVisit, data: QueryDict) -> Typed:
    """What was on the page."""
    said = {name: data.get(name, "") for name in SAID}
    return Typed(filled=visit.form.read(data), said=said, saw=data.get("saw") == "1", by_key=data.get("key") == "1")


def has_typed(visit: RequestVisit, filled: Filled | None) -> bool:
    """Whether there is anything in the form of the decision that would be lost."""
    if filled is None or not visit.may_decide:
        return False
    begun = visit.form.begin()
    return bool(filled.typed_reason.strip() or any(filled.chosen.values()) or filled.typed != begun)


def _put_first(card: Card, chosen: str) -> Card:
    return replace(card, outcomes=tuple(sorted(card.outcomes, key=lambda one: one.name != chosen)))


def _keep(filled: Filled) -> str:
    """What somebody sent who came too late, to be copied."""
    lines = [filled.typed_reason, *(text for texts in filled.typed.values() for text in texts)]
    return show_text("\n".join(line for line in lines if line.strip()), MAX_BLOCK, lines=True)
