"""What the page of a one-person link says: the request with its buttons, how it ended, what went wrong.

Nothing here decides. Invariants owned: whoever may no longer see the request is not shown it; the outcome is there for
ever; no page holds the address, which is a secret.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _

from approvals.access.personal_links import Visitor
from approvals.cards.status import describe_status
from approvals.exceptions import UnknownReview
from approvals.models import Review
from approvals.notify.preferences import read_readers
from approvals.reviews.case import Case
from approvals.web.base.page import read_theme
from approvals.web.base.request_visit import RequestVisit, TopMessage, Typed
from workflows.api.completions import owned_answers
from workflows.pages.posted_form import give_token, keep_cookie
from workflows.pages.response import answer_page
from workflows.wording.punctuation import end_sentence

PAGE = "approvals/link.html"
NOTICE = "workflows/notice.html"
#: The actions that a page with a form has a button for, beside deciding.
_ACTIONS = ("comment", "answer_info", "nudge", "withdraw")


class LinkVisit(RequestVisit):
    """By a link of one's own, without any sign-in."""

    door = "link"
    deeds = ("comment", "ask", "answer", "nudge", "withdraw")

    def look_again(self) -> LinkVisit:
        """The same with the review as it has become."""
        review = Review.objects.using(owned_answers.reach().alias).filter(pk=self.review.pk).first()
        if review is None:
            raise UnknownReview(self.review.pk)
        return LinkVisit(self.request, self.user, self.reader, Case(review))

    def show(self, *, status: int = 200, banner: TopMessage | None = None, typed: Typed | None = None) -> HttpResponse:
        """The page as it stands."""
        context = self.make_context(banner=banner, typed=typed)
        has_form = self.card.may_decide or any(not self.card.actions[name] for name in _ACTIONS)
        context |= {
            "theme": read_theme(self.request),
            "has_form": has_form,
            "csrf_token": give_token(self.request) if has_form else "",
        }
        response = answer_page(PAGE, context, status=status, has_form=has_form)
        if has_form:
            keep_cookie(self.request, response)
        return response

    def finish(self, told: str, *, left: bool) -> HttpResponse:
        """To the same page, which shows what became of it; reloading that sends nothing."""
        return HttpResponseRedirect(self.request.path, status=303)


def make_visit(request: HttpRequest, visitor: Visitor) -> LinkVisit:
    """A request with whose link it came by."""
    return LinkVisit(request, visitor.user, read_readers([visitor.user])[visitor.user.pk], Case(visitor.review))


def find_refusal(visit: LinkVisit) -> HttpResponse | None:
    """The page for whoever is not, or no longer, to see the request; None: they may."""
    if not visit.user.is_active:
        told = _("It belonged to somebody who can no longer log in here. It shows and decides nothing any more.")
        return answer_notice(403, _("This link can no longer decide"), told)
    rows = Review.objects.using(owned_answers.reach().alias).visible_to(visit.user, workspace=visit.review.workspace_id)
    if rows.filter(pk=visit.review.pk).exists():
        return None
    told = _("You are no longer among those asked, so the request is not shown to you any more.")
    if not visit.review.open:
        told = f"{end_sentence(describe_status(visit.review, visit.user))} {told}"
    return answer_notice(403, _("This link can no longer decide"), told)


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
