"""A decision that was posted: made, answered alike when it is sent twice, or refused on the page that it came from.

Lives here: between a form and `decide`. Must not live here: a rule about who may what, and what else a form does
(`form_actions`). Invariants owned: a refusal keeps what was typed, but for the password; a decision that is sent again,
by a second tap or another tab, gets the first one's answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

from django.http import HttpResponse
from django.utils.translation import gettext
from django.views.decorators.debug import sensitive_variables

from approvals.access.password_check import LATELY, TooManyTries, check_password, has_logged_in_lately
from approvals.cards.decision_form import Filled
from approvals.cards.refusal_message import find_status_code
from approvals.cards.status import find_status
from approvals.deciding.decisions import decide
from approvals.display.values import MAX_BLOCK, show_text
from approvals.exceptions import (
    AlreadyDecided,
    ApprovalError,
    DecisionFailed,
    NotAllowed,
    ReasonRequired,
    Stale,
    UnknownOutcome,
    UnknownReview,
)
from approvals.web.base.request_visit import RequestVisit, TopMessage, Typed
from workflows.exceptions import InvalidCall, InvalidData, NotSerializable, PolicyRefused, TooLarge, WorkflowError
from workflows.wording.messages import make_sentence
from workflows.wording.punctuation import end_sentence


@sensitive_variables("filled", "typed")
def decide_posted(visit: RequestVisit, typed: Typed) -> HttpResponse:
    """Decide as the form says, and answer the visitor."""
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
    except (ApprovalError, WorkflowError, TooManyTries) as refused:
        return _show_refused(visit, refused, typed)
    voted = recorded.vote.outcome if recorded.vote else recorded.outcome
    message = _tell(visit, voted, recorded.outcome)
    try:
        done = visit.look_again() if visit.draws else visit
    except UnknownReview:
        return visit.leave(message)
    # What was made of the decision at once may have taken the request from the sight of who decided it.
    is_gone = recorded.state == "decided" and not visit.draws and visit.is_out_of_sight()
    return visit.leave(message) if is_gone else done.finish(message, left=True)


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


def _show_refused(visit: RequestVisit, refused: Exception, typed: Typed) -> HttpResponse:
    """The page again, with all that was typed, and the message where it belongs."""
    show = next((show for kind, show in _PLACES if isinstance(refused, kind)), None)
    if show is None:
        raise refused
    return show(visit, refused, typed)


def _show_at_password(visit: RequestVisit, refused: Exception, typed: Typed) -> HttpResponse:
    return visit.show(status=find_status_code(refused), typed=replace(typed, password_error=str(refused)))


def _show_at_reason(visit: RequestVisit, refused: ReasonRequired | InvalidCall, typed: Typed) -> HttpResponse:
    message = gettext("Write why, or choose a reason.") if isinstance(refused, ReasonRequired) else refused.tell()
    return visit.show(status=find_status_code(refused), typed=replace(typed, reason_error=message))


def _show_at_fields(visit: RequestVisit, refused: InvalidData, typed: Typed) -> HttpResponse:
    filled = typed.filled
    if filled is not None:
        filled.place_errors(refused.errors)
    if filled is None or not filled.errors:
        return _show_problem(visit, find_status_code(refused), refused.tell(), typed)
    return visit.show(status=find_status_code(refused), typed=typed)


def _show_above(visit: RequestVisit, refused: Exception, typed: Typed) -> HttpResponse:
    if isinstance(refused, UnknownOutcome):
        message = gettext("Use one of the buttons. What you typed is kept.")
    elif isinstance(refused, PolicyRefused):
        message = refused.reason or gettext("The rules of this site do not allow it.")
    elif isinstance(refused, DecisionFailed):
        message = make_sentence(refused.problem)
    else:
        assert isinstance(refused, InvalidCall)
        message = refused.tell()
    return _show_problem(visit, find_status_code(refused), message, typed)


def show_late(visit: RequestVisit, typed: Typed) -> HttpResponse:
    """The request as it was decided meanwhile; the first answer, if it was the visitor\'s own."""
    again = visit.look_again()
    # The first may have been under way when this one was looked at.
    if (answered := _answer_again(again, typed)) is not None:
        return answered
    banner = TopMessage("warn", gettext("What you sent was not taken"), end_sentence(again.card.told))
    return again.show(status=410, banner=banner, typed=typed)


def _show_stale(visit: RequestVisit, refused: Stale, typed: Typed) -> HttpResponse:
    again = visit.look_again()
    if again.is_over:
        return show_late(visit, typed)
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
    return _show_problem(again, find_status_code(refused), message, typed)


def _show_problem(visit: RequestVisit, status: int, told: str, typed: Typed) -> HttpResponse:
    banner = TopMessage("warn", gettext("Nothing was decided"), show_text(told, 1000))
    return visit.show(status=status, banner=banner, typed=typed)


def _show_decided(visit: RequestVisit, refused: AlreadyDecided, typed: Typed) -> HttpResponse:
    return show_late(visit, typed)


#: Where on the page a refusal is told; the first that fits.
_PLACES: tuple[tuple[type[Exception], Callable[[RequestVisit, Any, Typed], HttpResponse]], ...] = (
    (TooManyTries, _show_at_password),
    (AlreadyDecided, _show_decided),
    (Stale, _show_stale),
    (NotAllowed, _show_forbidden),
    (ReasonRequired, _show_at_reason),
    (UnknownOutcome, _show_above),
    (InvalidData, _show_at_fields),
    (PolicyRefused, _show_above),
    (DecisionFailed, _show_above),
    (TooLarge, _show_above),
    (NotSerializable, _show_above),
    (InvalidCall, _show_at_reason),
)
