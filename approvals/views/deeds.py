"""What a posted form of a request's page does: decide, undo, say something, claim, hand on, put aside, withdraw …

Must not live here: a rule of its own about who may what. Invariants owned: a deed goes through the same functions as
at every other door, with the visitor as actor; a refusal keeps what was typed; a decision that is sent twice, by a
second tap or another tab, is answered twice alike.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.http import HttpRequest, HttpResponse, QueryDict
from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _
from django.views.decorators.debug import sensitive_variables

from approvals import actions
from approvals.action_rules import CHECKS
from approvals.decision_form import Filled
from approvals.decisions import decide
from approvals.doors import Door
from approvals.exceptions import (
    AlreadyDecided,
    ApprovalError,
    DecisionFailed,
    InvalidApproval,
    NotAllowed,
    ReasonRequired,
    Stale,
    TooSoon,
    UnknownOutcome,
    UnknownReview,
)
from approvals.grace import undo
from approvals.handing_on import delegate
from approvals.inbox.snoozes import find_snooze
from approvals.passwords import LATELY, TooManyTries, check_password, has_logged_in_lately
from approvals.refused import tell_refusal
from approvals.show_times import show_when
from approvals.show_values import MAX_BLOCK, show_text
from approvals.sight import note_unseen
from approvals.status import find_status
from approvals.views.visit import RequestVisit, TopMessage, Typed, has_typed, read_typed
from workflows.exceptions import InvalidCall, InvalidData, NotSerializable, PolicyRefused, TooLarge, WorkflowError
from workflows.joining import end_sentence
from workflows.pages.posted import read_posted
from workflows.reasons import make_sentence

#: Rules that stand against anybody at this moment, and not against this person.
_PASSING = ("grace", "claimed", "voted")
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
    return _decide(visit, data, typed)


# --- deciding ---------------------------------------------------------------------------------------------


@sensitive_variables("data", "filled", "typed")
def _decide(visit: RequestVisit, data: QueryDict, typed: Typed) -> HttpResponse:
    filled = typed.filled
    assert filled is not None
    if (answered := _answer_again(visit, typed)) is not None:
        return answered
    if filled.errors and not visit.is_over:
        return visit.show(status=422, typed=typed)
    try:
        recorded = decide(
            visit.review,
            filled.outcome,
            actor=visit.user,
            reason=filled.reason,
            data=filled.data,
            version=filled.version,
            grace=visit.has_grace,
            door=visit.make_door(typed, has_reauthenticated=_check_password(visit, filled)),
        )
    except TooManyTries as refused:
        return visit.show(status=429, typed=replace(typed, password_error=str(refused)))
    except AlreadyDecided:
        return _show_late(visit, typed)
    except Stale as refused:
        return _show_stale(visit, refused, typed)
    except NotAllowed as refused:
        return _show_forbidden(visit, refused, typed)
    except ReasonRequired:
        told = gettext("Write why, or choose a reason.")
        return visit.show(status=422, typed=replace(typed, reason_error=told))
    except UnknownOutcome:
        told = gettext("Use one of the buttons. What you typed is kept.")
        return visit.show(status=422, banner=TopMessage("warn", gettext("Nothing was decided"), told), typed=typed)
    except InvalidData as refused:
        filled.place_errors(refused.errors)
        if not filled.errors:
            return _show_problem(visit, 422, refused.tell(), typed)
        return visit.show(status=422, typed=typed)
    except PolicyRefused as refused:
        return _show_problem(visit, 403, refused.reason or gettext("The rules of this site do not allow it."), typed)
    except DecisionFailed as refused:
        return _show_problem(visit, 409, make_sentence(refused.problem), typed)
    except (TooLarge, NotSerializable) as refused:
        return _show_problem(visit, 413 if isinstance(refused, TooLarge) else 422, refused.tell(), typed)
    except InvalidCall as refused:
        return visit.show(status=422, typed=replace(typed, reason_error=refused.tell()))
    voted = recorded.vote.outcome if recorded.vote else recorded.outcome
    # Whoever has voted sees the request from then on: it is read again only where it is drawn.
    done = visit.look_again() if visit.draws else visit
    return done.finish(_tell(visit, voted, recorded.outcome), left=True)


def _answer_again(visit: RequestVisit, typed: Typed) -> HttpResponse | None:
    """What the first one was answered, if this is, word for word, the decision of theirs that counts."""
    filled, vote = typed.filled, visit.case.find_vote(visit.user)
    if filled is None or vote is None or find_status(visit.case) == "closed":
        return None
    if (vote.outcome, vote.reason, vote.data) != (filled.outcome, filled.reason.strip(), filled.data):
        return None
    return visit.finish(_tell(visit, vote.outcome, visit.review.outcome), left=True)


def _tell(visit: RequestVisit, voted: str, answer: str) -> str:
    """What a decision did, for the line that says so; `answer` is what was answered, if that is known by now."""
    named = {"title": show_text(visit.review.title, MAX_BLOCK), "outcome": visit.form.label(voted)}
    if not answer:
        return gettext("“%(outcome)s” noted: %(title)s. Others still have to decide.") % named
    if answer != voted:
        told = gettext("“%(outcome)s” noted, but those asked did not agree: %(title)s is answered “%(answer)s”.")
        return told % {**named, "answer": visit.form.label(answer)}
    return gettext("“%(outcome)s”: %(title)s.") % named


def _check_password(visit: RequestVisit, filled: Filled) -> bool:
    """Whether they have just shown who they are: by their password, or by a login where they have none."""
    if visit.asks_password:
        return bool(filled.password) and check_password(visit.user, filled.password)
    return visit.is_logged_in and has_logged_in_lately(visit.user, visit.case.now)


def _show_late(visit: RequestVisit, typed: Typed) -> HttpResponse:
    again = visit.look_again()
    # The first may have been under way when this one was looked at.
    if (answered := _answer_again(again, typed)) is not None:
        return answered
    banner = TopMessage("warn", gettext("What you sent was not taken"), end_sentence(again.card.told))
    return again.show(status=410, banner=banner, typed=typed)


def _show_stale(visit: RequestVisit, refused: Stale, typed: Typed) -> HttpResponse:
    again = visit.look_again()
    if again.is_over:
        return _show_late(visit, typed)
    told = gettext("Nothing was decided. What you typed is kept: look at what has changed, then decide.")
    items = tuple(
        gettext("%(field)s: %(before)s → %(after)s") % {"field": name, "before": before, "after": after}
        for name, (before, after) in refused.difference.items()
    )
    # Whoever confirmed to have seen it saw something else.
    seen = replace(typed, saw=False)
    if typed.filled is not None:
        shown = again.case.find_shown(typed.filled.version)
        seen = replace(seen, filled=again.form.take_over(typed.filled, shown))
    return again.show(
        status=409, banner=TopMessage("warn", gettext("Changed since you opened it"), told, items), typed=seen
    )


def _show_forbidden(visit: RequestVisit, refused: NotAllowed, typed: Typed) -> HttpResponse:
    rule, message = refused.obstacle.rule, show_text(refused.obstacle.message)
    if rule == "reauthenticate" and visit.asks_password:
        told = (
            gettext("That is not your password. Nothing was decided.")
            if typed.filled and typed.filled.password
            else message
        )
        return visit.show(status=403, typed=replace(typed, password_error=told))
    if rule == "reauthenticate" and visit.is_logged_in:
        told = gettext(
            "You have no password here, so it takes a fresh login: log out, log in, and decide within %(n)s minutes."
        )
        message = told % {"n": LATELY // timedelta(minutes=1)}
    elif rule == "reauthenticate":
        message = gettext("It takes your password, and you have none here: decide it in the inbox.")
    if rule == "high_risk_diff":
        return visit.show(status=422, typed=replace(typed, saw_error=message))
    again = visit.look_again()
    if (answered := _answer_again(again, typed)) is not None:
        return answered
    return _show_problem(again, 409 if rule in _PASSING else 403, message, typed)


def _show_problem(visit: RequestVisit, status: int, told: str, typed: Typed) -> HttpResponse:
    banner = TopMessage("warn", gettext("Nothing was decided"), show_text(told, 1000))
    return visit.show(status=status, banner=banner, typed=typed)


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
        return _show_late(visit, typed)
    except TooSoon as refused:
        when = show_when(refused.until, visit.case.now)
        said = gettext("Those asked were reminded a moment ago. You can do it again %(when)s.") % {"when": when}
        return visit.show(status=409, banner=TopMessage("warn", gettext("Nobody was reminded"), said), typed=typed)
    except NotAllowed as refused:
        status = 409 if refused.obstacle.rule in _PASSING else 403
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
