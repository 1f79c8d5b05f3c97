"""What the page of a one-person link says: the request with its buttons, how it ended, what went wrong.

Nothing here decides. Invariants owned: whoever may no longer see the request is not shown it; what somebody typed is on
every page that refuses it, but for the password; the outcome is there for ever.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

from django.http import HttpRequest, HttpResponse
from django.utils import timezone, translation
from django.utils.translation import gettext as _

from approvals.actions import find_question
from approvals.cards import Card, build_card
from approvals.cases import Case
from approvals.conf import conf
from approvals.decision_form import DecisionForm, Filled, ShownDecision
from approvals.exceptions import UnknownReview
from approvals.links import Visitor
from approvals.models import Review
from approvals.notify.readers import Reader, read_readers
from approvals.principals import name_person
from approvals.show_values import MAX_BLOCK, MAX_NAME, show_text
from approvals.status import describe_status
from workflows import answering
from workflows.pages.answers import answer_page
from workflows.pages.posted import give_token, keep_cookie

PAGE = "approvals/link.html"
NOTICE = "workflows/notice.html"
#: Fields of the page beside those of the decision; the password is never shown again.
SAID = ("text", "answer", "withdrawal")
#: What can be done here beside deciding.
_DEEDS = ("comment", "answer_info", "nudge", "withdraw")


@dataclass(frozen=True, slots=True)
class Banner:
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
    focus: str = ""
    reason_error: str = ""
    password_error: str = ""
    saw_error: str = ""
    said_errors: Mapping[str, str] = field(default_factory=dict)


class Visit:
    """One request, and what it came for."""

    def __init__(self, request: HttpRequest, visitor: Visitor, reader: Reader) -> None:
        self.request, self.user, self.review, self.reader = request, visitor.user, visitor.review, reader

    @cached_property
    def case(self) -> Case:
        """The review as it was when it was looked at."""
        return Case(self.review)

    @cached_property
    def card(self) -> Card:
        """Its card for whose link it is."""
        return build_card(self.review, self.user, case=self.case)

    @cached_property
    def form(self) -> DecisionForm:
        """The form on it."""
        return DecisionForm(self.card, asks_password=self.asks_password)

    @cached_property
    def is_high(self) -> bool:
        """Whether it takes more care to decide it."""
        return self.card.risk == "high" and self.card.may_decide

    @cached_property
    def asks_password(self) -> bool:
        """Whether it takes the password, and there is one."""
        return self.is_high and conf.reauthenticate and self.user.has_usable_password()

    @property
    def is_over(self) -> bool:
        """Whether nothing is to be decided any more."""
        return self.card.status in ("decided", "closed")

    def look_again(self) -> Visit:
        """The same with the review as it has become."""
        review = Review.objects.using(answering.reach().alias).filter(pk=self.review.pk).first()
        if review is None:
            raise UnknownReview(self.review.pk)
        return Visit(self.request, Visitor(self.user, review), self.reader)


def make_visit(request: HttpRequest, visitor: Visitor) -> Visit:
    """A request with whose link it came by."""
    return Visit(request, visitor, read_readers([visitor.user])[visitor.user.pk])


@contextmanager
def speaking_to_visitor(visit: Visit) -> Iterator[None]:
    """In the language that they chose, else in that of the browser; in their time zone."""
    language = visit.reader.language if visit.reader.chose_language else translation.get_language()
    with translation.override(language), timezone.override(visit.reader.zone):
        yield


def find_refusal(visit: Visit) -> HttpResponse | None:
    """The page for whoever is not, or no longer, to see the request; None: they may."""
    if not visit.user.is_active:
        told = _("It belonged to somebody who can no longer log in here. It shows and decides nothing any more.")
        return answer_notice(403, _("This link can no longer decide"), told)
    rows = Review.objects.using(answering.reach().alias).visible_to(visit.user, workspace=visit.review.workspace_id)
    if rows.filter(pk=visit.review.pk).exists():
        return None
    told = _("You are no longer among those asked, so the request is not shown to you any more.")
    if not visit.review.open:
        told = f"{describe_status(visit.review, visit.user)}. {told}"
    return answer_notice(403, _("This link can no longer decide"), told)


def show_visit(
    visit: Visit, *, status: int = 200, banner: Banner | None = None, typed: Typed | None = None
) -> HttpResponse:
    """The page as it stands, with what was typed if it was sent and not taken."""
    typed = typed or Typed()
    card, chosen = visit.card, _find_chosen(visit, typed)
    is_requester = visit.review.requester_id is not None and visit.review.requester_id == visit.user.pk
    has_form = card.may_decide or any(not card.actions[name] for name in _DEEDS)
    context: dict[str, Any] = {
        "card": _put_first(card, chosen),
        "form": _show_form(visit, typed) if card.may_decide else None,
        "chosen": chosen,
        "banner": banner or _tell_state(visit),
        "kept": "" if card.may_decide or typed.filled is None else _keep(typed.filled),
        "typed": typed,
        "name": show_text(name_person(visit.user), MAX_NAME),
        "is_requester": is_requester,
        "is_over": visit.is_over,
        "has_bar": not visit.is_over and (card.may_decide or not is_requester),
        "gates": "approvals/link_gates.html" if visit.is_high else "",
        "question": "" if card.actions["answer_info"] else _find_question(visit),
        "csrf_token": give_token(visit.request) if has_form else "",
        "has_form": has_form,
    }
    response = answer_page(PAGE, context, status=status, has_form=has_form)
    if has_form:
        keep_cookie(visit.request, response)
    return response


def _show_form(visit: Visit, typed: Typed) -> ShownDecision:
    return visit.form.show(
        typed.filled, focus=typed.focus, reason_error=typed.reason_error, password_error=typed.password_error
    )


def answer_notice(
    status: int,
    title: str,
    text: str,
    *,
    resend: Sequence[tuple[str, str]] = (),
    csrf_token: str = "",
    headers: Any = None,
) -> HttpResponse:
    """A page that says one thing."""
    context = {"title": title, "text": text, "resend": resend, "csrf_token": csrf_token}
    return answer_page(NOTICE, context, status=status, has_form=bool(resend), headers=headers)


def answer_no_link() -> HttpResponse:
    """The address leads nowhere, or no longer."""
    told = _("Check that the address was copied in full. What it led to may be gone, or you find it in your inbox.")
    return answer_notice(404, _("There is nothing here"), told)


def answer_refused(status: int, *, text: str = "", headers: Any = None) -> HttpResponse:
    """What was sent could not even be read."""
    told = text or _("Open the link in a browser, and use the buttons on its page.")
    return answer_notice(status, _("That could not be read"), told, headers=headers)


def answer_trouble(request: HttpRequest, status: int) -> HttpResponse:
    """Something of ours failed. What was typed is in the page, to be sent again; but for the password."""
    title = _("Not available right now") if status == 503 else _("Something failed here")
    headers = {"Retry-After": "5"}
    told = _("Open the link again in a moment.")
    if request.method == "POST":
        try:
            hidden = ("csrfmiddlewaretoken", "password")
            kept = [(name, text) for name, texts in request.POST.lists() if name not in hidden for text in texts]
            told = _("It is not certain that this was taken: open the link again to see. Or send it again in a moment.")
            response = answer_notice(status, title, told, resend=kept, csrf_token=give_token(request), headers=headers)
            keep_cookie(request, response)
            return response
        except Exception:  # a session that is away with the database, say
            told = _("Open the link again in a moment.")
    return answer_notice(status, title, told, headers=headers)


def _tell_state(visit: Visit) -> Banner | None:
    """The first words of a page on which nothing is to be done."""
    card = visit.card
    if not visit.is_over:
        return None
    told = _("“%(reason)s”") % {"reason": card.answer.reason} if card.answer and card.answer.reason else ""
    tone: Literal["good", "warn"] = "good" if card.status == "decided" else "warn"
    return Banner(tone, f"{card.told}.", told or _("Nothing more is needed."))


def _find_chosen(visit: Visit, typed: Typed) -> str:
    """The answer that a button in the mail spoke of: it comes first, and does nothing by itself."""
    wanted = typed.filled.outcome if typed.filled else visit.request.GET.get("outcome", "")
    open_ones = [one.name for one in visit.card.outcomes if not one.obstacle]
    return wanted if wanted in open_ones else ""


def _put_first(card: Card, chosen: str) -> Card:
    return replace(card, outcomes=tuple(sorted(card.outcomes, key=lambda one: one.name != chosen)))


def _keep(filled: Filled) -> str:
    """What somebody sent who came too late, to be copied."""
    lines = [filled.typed_reason, *(text for texts in filled.typed.values() for text in texts)]
    return show_text("\n".join(line for line in lines if line.strip()), MAX_BLOCK, lines=True)


def _find_question(visit: Visit) -> str:
    """What waits for the requester's answer."""
    found = find_question(visit.case)
    return "" if found is None else show_text(found.text, MAX_BLOCK, lines=True)
