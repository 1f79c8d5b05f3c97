"""What a posted form of a request's page does: decide, undo, say something, claim, hand on, put aside, withdraw …

Must not live here: a rule of its own about who may what, and decisions (`posted_decision`). Invariants owned: a deed
goes through the same functions as at every other door, with the visitor as actor; a refusal keeps what was typed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_variables

from approvals.actions import actions
from approvals.actions.delegation import delegate
from approvals.actions.visibility import note_unseen
from approvals.cards.refusal_message import find_status_code, tell_refusal
from approvals.deciding.undo_window import undo
from approvals.display.times import show_when
from approvals.display.values import show_text
from approvals.exceptions import (
    AlreadyDecided,
    ApprovalError,
    InvalidApproval,
    NotAllowed,
    TooSoon,
    UnknownReview,
)
from approvals.reviews.permissions import CHECKS
from approvals.rules.door import Door
from approvals.web.base.request_visit import RequestVisit, TopMessage, Typed, has_typed, read_typed
from approvals.web.inbox.snoozes import find_snooze
from approvals.web.request.posted_decision import decide_posted, show_late
from workflows.exceptions import WorkflowError
from workflows.pages.posted_form import read_posted

#: Does nothing but show the page with what was typed: how a draft comes back.
KEEP = "keep"


def note_attempt(request: HttpRequest, id: UUID, user: Any, door: str) -> None:
    """What a form tried about a request that its sender may not see is in the ledger, as at every door."""
    posted = read_posted(request)
    if not posted.trusted:
        return
    name = posted.data.get("do", "").partition(":")[0]
    action = {"ask": "request_info", "answer": "answer_info"}.get(name, name)
    if name in DEEDS and action in CHECKS:  # taking up again what was put aside has no rule
        note_unseen(id, user, action, door, action=action)
    elif outcome := posted.data.get("outcome", "").partition(":")[0]:
        note_unseen(id, user, outcome, door)


@sensitive_variables("data", "posted", "typed")
def take_deed(visit: RequestVisit) -> HttpResponse:
    """Do what the form says; `FormRefused` where it cannot be read."""
    posted = read_posted(visit.request)
    data = posted.data
    typed = read_typed(visit, data)
    if not posted.trusted:
        told = gettext(
            "It did not come from a page of this site that is still good, or your browser keeps no cookies for this "
            "site. What you typed is kept: check it, then send it again."
        )
        return visit.show(status=403, banner=TopMessage("warn", gettext("Nothing was sent"), told), typed=typed)
    # A button of a menu says with its name what was chosen there: "snooze:monday".
    name, _, choice = data.get("do", "").partition(":")
    if name == KEEP:
        return visit.show(typed=typed)
    if name in visit.deeds:
        return _do(visit, name, data, typed, choice)
    if (pressed := visit.form.press(data)) is not None:
        filled, focus = pressed
        return visit.show(typed=replace(typed, filled=filled, focus=focus))
    return decide_posted(visit, typed)


# --- the other deeds --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FormAction:
    """Something that a button does: the function, the field that it reads, and what is told afterwards."""

    do: Callable[[RequestVisit, QueryDict, str], Any]
    told: Any
    #: Of the page, where what is wrong is said.
    field: str = ""
    #: Whether the request no longer waits for whoever did it.
    leaves: bool = False


def _comment(visit: RequestVisit, data: QueryDict, choice: str) -> None:
    actions.comment(visit.review, data.get("text", ""), actor=visit.user, door=visit.door)


def _ask(visit: RequestVisit, data: QueryDict, choice: str) -> None:
    words = data.get("question", "").strip() or data.get("text", "")
    actions.request_info(visit.review, words, actor=visit.user, door=visit.door)


def _answer(visit: RequestVisit, data: QueryDict, choice: str) -> None:
    actions.answer_info(visit.review, data.get("answer", ""), actor=visit.user, door=visit.door)


def _nudge(visit: RequestVisit, data: QueryDict, choice: str) -> None:
    actions.nudge(visit.review, actor=visit.user, door=visit.door)


def _withdraw(visit: RequestVisit, data: QueryDict, choice: str) -> None:
    actions.withdraw(visit.review, actor=visit.user, reason=data.get("withdrawal", ""), door=visit.door)


def _claim(visit: RequestVisit, data: QueryDict, choice: str) -> None:
    actions.claim(visit.review, actor=visit.user, door=visit.door)


def _release(visit: RequestVisit, data: QueryDict, choice: str) -> None:
    actions.release(visit.review, actor=visit.user, door=visit.door)


def _delegate(visit: RequestVisit, data: QueryDict, choice: str) -> None:
    # Not everybody is in the list: the name that was typed says it more exactly.
    to, reason = data.get("whom", "").strip() or data.get("to", "").strip(), data.get("handing", "")
    delegate(visit.review, to=to, reason=reason, actor=visit.user, door=visit.door)


def _snooze(visit: RequestVisit, data: QueryDict, choice: str) -> None:
    chosen = choice or data.get("until", "")
    until = find_snooze(chosen, visit.case.now)
    if until is None:
        raise InvalidApproval("until", chosen, "it is none of the choices")
    actions.snooze(visit.review, until=until, actor=visit.user, door=visit.door)


def _unsnooze(visit: RequestVisit, data: QueryDict, choice: str) -> None:
    actions.unsnooze(visit.review, actor=visit.user)


def _undo(visit: RequestVisit, data: QueryDict, choice: str) -> None:
    undo(visit.review, actor=visit.user, door=Door(visit.door))


DEEDS: Mapping[str, FormAction] = {
    "comment": FormAction(_comment, _("Your comment is there."), "text"),
    "ask": FormAction(_ask, _("Asked. The answer will stand here."), "text"),
    "answer": FormAction(_answer, _("Answered."), "answer"),
    "nudge": FormAction(_nudge, _("Those asked were reminded.")),
    "withdraw": FormAction(_withdraw, _("Withdrawn."), "withdrawal", leaves=True),
    "claim": FormAction(_claim, _("It is yours now.")),
    "release": FormAction(_release, _("Released: others can take it.")),
    "delegate": FormAction(_delegate, _("Handed on."), "to", leaves=True),
    "snooze": FormAction(_snooze, _("Put aside."), "until", leaves=True),
    "unsnooze": FormAction(_unsnooze, _("Taken up again.")),
    "undo": FormAction(_undo, _("Undone. Nothing was carried out.")),
}


def _do(visit: RequestVisit, name: str, data: QueryDict, typed: Typed, choice: str) -> HttpResponse:
    deed = DEEDS[name]
    try:
        deed.do(visit, data, choice)
    except InvalidApproval as refused:
        field = _find_field(name, data, refused)
        told = _explain(field, data, refused)
        return visit.show(status=422, typed=replace(typed, said_errors={field: told}))
    except AlreadyDecided:
        return show_late(visit, typed)
    except TooSoon as refused:
        when = show_when(refused.until, visit.case.now)
        said = gettext("Those asked were reminded a moment ago. You can do it again %(when)s.") % {"when": when}
        return visit.show(status=409, banner=TopMessage("warn", gettext("Nobody was reminded"), said), typed=typed)
    except NotAllowed as refused:
        status = find_status_code(refused)
        banner = TopMessage("warn", gettext("That was not done"), show_text(refused.obstacle.message))
        return visit.look_again().show(status=status, banner=banner, typed=typed)
    except UnknownReview:
        raise
    except (ApprovalError, WorkflowError) as refused:  # withdrawing may lead to code of the project, which fails
        banner = TopMessage("warn", gettext("That was not done"), tell_refusal(refused, visit.review))
        return visit.look_again().show(status=409, banner=banner, typed=typed)
    sent = {"delegate": ("handing", "to", "whom"), "ask": ("question", "text")}.get(name, (deed.field,))
    left = {one: text for one, text in typed.said.items() if one not in sent}
    if any(text.strip() for text in left.values()) or has_typed(visit, typed.filled):
        # There is more on the page that was not sent: a redirect would lose it.
        done = TopMessage("good", str(deed.told), gettext("What you typed elsewhere on this page is still there."))
        return visit.look_again().show(banner=done, typed=replace(typed, said=left))
    return _finish(visit, str(deed.told), left=deed.leaves)


def _finish(visit: RequestVisit, told: str, *, left: bool) -> HttpResponse:
    try:
        again = visit.look_again()
    except UnknownReview:
        return visit.leave(told)
    return again.finish(told, left=left)


def _find_field(name: str, data: QueryDict, refused: InvalidApproval) -> str:
    """The field of the page that holds what was refused."""
    if name == "delegate" and refused.option == "reason":
        return "handing"
    return "question" if name == "ask" and "question" in data else DEEDS[name].field


def _explain(field: str, data: QueryDict, refused: InvalidApproval) -> str:
    if field == "to":
        return gettext("There is nobody of that name here. Choose somebody else.")
    if field == "until":
        return gettext("Choose until when.")
    if not data.get(field, "").strip():
        return gettext("Write something first.")
    return refused.tell()
