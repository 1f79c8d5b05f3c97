"""What the page of a resume address says: the form, how it ended, what went wrong.

Nothing here decides; `resume` does, and says what is to be shown. Invariants owned: what somebody typed is on every
page that refuses it; an outcome tells when, and never what was answered.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

from django.db import router
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from workflows.callbacks.asked_question import AskedQuestion, load_question
from workflows.exceptions import PolicyRefused
from workflows.forms.form_fields import Typed
from workflows.forms.form_reader import FormReading
from workflows.models import Interaction
from workflows.pages.posted_form import give_token, keep_cookie
from workflows.pages.response import answer_page
from workflows.pages.value_view import dump_shown
from workflows.values.json_text import MISSING

logger = logging.getLogger("workflows")

PAGE = "workflows/resume.html"
NOTICE = "workflows/notice.html"


@dataclass(frozen=True, slots=True)
class AnswerBanner:
    """What has to be read first."""

    tone: Literal["good", "warn"]
    title: str
    text: str
    items: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerVisit:
    """One request, and the question that it came for."""

    request: HttpRequest
    interaction: UUID
    workspace: int
    question: AskedQuestion

    def look_again(self) -> AnswerVisit:
        """The same with the question as it has become."""
        return make_visit(self.request, self.interaction, self.workspace)


def make_visit(request: HttpRequest, interaction: UUID, workspace: int) -> AnswerVisit:
    """A request with its question as it stands now."""
    question = load_question(interaction, using=router.db_for_write(Interaction))
    return AnswerVisit(request, interaction, workspace, question)


def show_form(
    visit: AnswerVisit,
    typed: Typed,
    errors: Mapping[str, list[str]] | None = None,
    *,
    status: int = 200,
    focus: str = "",
    banner: AnswerBanner | None = None,
) -> HttpResponse:
    form = visit.question.form.show(typed, errors, focus=focus)
    context = {
        "question": visit.question,
        "form": form,
        "banner": banner,
        "count": len(form.problems) + len(form.errors),
        "csrf_token": give_token(visit.request),
        "nonce": secrets.token_urlsafe(16),
        "kept": "",
    }
    response = answer_page(PAGE, context, status=status, has_form=True)
    keep_cookie(visit.request, response)
    return response


def show_outcome(
    visit: AnswerVisit, *, status: int = 200, typed: Typed | None = None, reading: FormReading | None = None
) -> HttpResponse:
    """How it stands, without a form; whoever just sent an answer learns that it was not taken, and keeps it."""
    question = visit.question
    if reading is None and typed is not None:
        reading = question.form.read(typed)
    kept = "" if reading is None or typed is None else _keep(typed, reading)
    context = {
        "question": question,
        "form": None,
        "banner": _tell_outcome(question, late=reading is not None),
        "count": 0,
        "csrf_token": "",
        "nonce": "",
        "kept": kept,
    }
    return answer_page(PAGE, context, status=status)


def _keep(typed: Typed, reading: FormReading) -> str:
    """What was sent, as the value that it made; where it made none, as it was typed."""
    if not reading.errors:
        return "" if reading.value is MISSING else dump_shown(reading.value)
    return dump_shown({name: texts[0] if len(texts) == 1 else texts for name, texts in typed.items()})


def _tell_outcome(question: AskedQuestion, *, late: bool) -> AnswerBanner:
    not_taken = _("What you sent was not taken")
    closed, due = question.closed, question.due
    match question.state:
        case "answered":
            when = closed.exactly if closed else ""
            if late:
                return AnswerBanner("warn", not_taken, _("It was answered before, on %(when)s.") % {"when": when})
            told = _("On %(when)s. The workflow goes on with that answer, and nothing more is needed.") % {"when": when}
            return AnswerBanner("good", _("This has been answered"), told)
        case "over":
            when = due.exactly if due else closed.exactly if closed else ""
            title = not_taken if late else _("The time to answer is over")
            return AnswerBanner(
                "warn", title, _("It could be answered until %(when)s. The wait ended without it.") % {"when": when}
            )
        case "elsewhere":
            title = not_taken if late else _("This is answered elsewhere")
            return AnswerBanner(
                "warn", title, _("It is answered %(where)s, and not by this link.") % {"where": question.door}
            )
    title = not_taken if late else _("This can no longer be answered")
    return AnswerBanner("warn", title, _("It was closed before anybody answered."))


def show_stale(visit: AnswerVisit, typed: Typed, reading: FormReading, shown: str) -> HttpResponse:
    if visit.question.state != "open":
        return show_outcome(visit, status=409, typed=typed, reading=reading)
    changes = visit.question.list_changes(shown)
    text = _("Nothing was sent. What you typed is kept: check it, then send it again.")
    banner = AnswerBanner("warn", _("Changed since you opened it"), text, tuple(changes))
    return show_form(visit, typed, status=409, banner=banner)


def show_untrusted(visit: AnswerVisit, typed: Typed) -> HttpResponse:
    if visit.question.state != "open":
        return show_outcome(visit, status=403, typed=typed)
    text = _(
        "It did not come from a page of this site that is still good, or your browser keeps no cookies for this site. "
        "What you typed is kept: check it, then send it again."
    )
    return show_form(visit, typed, status=403, banner=AnswerBanner("warn", _("Nothing was sent"), text))


def show_refused(visit: AnswerVisit, typed: Typed, refused: PolicyRefused) -> HttpResponse:
    text = _("The rules of this site do not allow this answer. What you typed is kept.")
    banner = AnswerBanner("warn", _("This answer was refused"), text, (refused.reason,) if refused.reason else ())
    return show_form(visit, typed, status=403, banner=banner)


def answer_not_found() -> HttpResponse:
    told = _("Check that the address was copied in full. A question that was withdrawn is no longer here either.")
    return answer_notice(404, _("There is nothing to answer here"), told)


def answer_notice(
    status: int, title: str, text: str, *, resend: Any = (), csrf_token: str = "", headers: Any = None
) -> HttpResponse:
    context = {"title": title, "text": text, "resend": resend, "csrf_token": csrf_token}
    return answer_page(NOTICE, context, status=status, has_form=bool(resend), headers=headers)


def answer_trouble(request: HttpRequest, status: int) -> HttpResponse:
    """Something of ours failed. What was typed is in the page, to be sent again: the same form counts once."""
    headers = {"Retry-After": "5"}
    title = _("Not available right now") if status == 503 else _("Something failed here")
    if request.method != "POST":
        return answer_notice(status, title, _("Open the link again in a moment."), headers=headers)
    told = _(
        "It is not certain that your answer was taken. Send it again in a moment: if it was, that changes nothing. "
        "Or open the link again, which shows whether it was."
    )
    try:
        kept = ((name, texts) for name, texts in request.POST.lists() if name != "csrfmiddlewaretoken")
        fields = [(name, text) for name, texts in kept for text in texts]
        token = give_token(request)
        response = answer_notice(status, title, told, resend=fields, csrf_token=token, headers=headers)
        keep_cookie(request, response)
    except Exception:  # a session that is away with the database, say
        logger.exception("/resume: what was typed cannot be shown again")
        response = answer_notice(status, title, _("Open the link again in a moment."), headers=headers)
    return response
