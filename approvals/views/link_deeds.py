"""What a posted form of a one-person link does: decide, say something, answer a question, remind, withdraw.

Must not live here: a rule of its own about who may what. Invariants owned: a deed goes through the same functions as
at every other door, with the link's user as actor; a refusal keeps what was typed; a deed that was done is answered by
a redirect to the page itself, which shows what became of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from django.http import HttpResponse, HttpResponseRedirect, QueryDict
from django.utils.translation import gettext as _

from approvals import actions
from approvals.decision_form import Filled
from approvals.decisions import decide
from approvals.doors import Door
from approvals.exceptions import (
    AlreadyDecided,
    DecisionFailed,
    InvalidApproval,
    NotAllowed,
    ReasonRequired,
    Stale,
    TooSoon,
    UnknownOutcome,
)
from approvals.passwords import TooManyTries, check_password
from approvals.show_times import show_when
from approvals.show_values import show_text
from approvals.views.link_page import SAID, Banner, Typed, Visit, show_visit
from workflows.exceptions import InvalidCall, InvalidData, NotSerializable, PolicyRefused, TooLarge
from workflows.pages.posted import read_posted

DOOR = "link"
#: Rules that stand against anybody at this moment, and not against this person.
_PASSING = ("grace", "claimed", "voted")

_Deed = Callable[[Visit, QueryDict], Any]


def take_deed(visit: Visit) -> HttpResponse:
    """Do what the form says; `FormRefused` where it cannot be read."""
    posted = read_posted(visit.request)
    data = posted.data
    typed = _read_typed(visit, data)
    if not posted.trusted:
        told = _(
            "It did not come from a page of this site that is still good, or your browser keeps no cookies for this "
            "site. What you typed is kept: check it, then send it again."
        )
        return show_visit(visit, status=403, banner=Banner("warn", _("Nothing was sent"), told), typed=typed)
    if (deed := _DEEDS.get(data.get("do", ""))) is not None:
        return _do(visit, deed, data, typed)
    if (pressed := visit.form.press(data)) is not None:
        filled, focus = pressed
        return show_visit(visit, typed=replace(typed, filled=filled, focus=focus))
    return _decide(visit, data, typed)


# --- deciding ---------------------------------------------------------------------------------------------


def _decide(visit: Visit, data: QueryDict, typed: Typed) -> HttpResponse:
    filled = typed.filled
    assert filled is not None
    if filled.errors and not visit.is_over:
        return show_visit(visit, status=422, typed=typed)
    try:
        decide(
            visit.review,
            filled.outcome,
            actor=visit.user,
            reason=filled.reason,
            data=filled.data,
            version=filled.version,
            door=Door(
                DOOR,
                saw_diff=typed.saw,
                has_reauthenticated=_check_password(visit, filled),
                seen=filled.seen,
            ),
        )
    except TooManyTries as refused:
        return show_visit(visit, status=429, typed=replace(typed, password_error=str(refused)))
    except AlreadyDecided:
        return _show_late(visit, typed)
    except Stale as refused:
        return _show_stale(visit, refused, typed)
    except NotAllowed as refused:
        return _show_forbidden(visit, refused, typed)
    except ReasonRequired:
        told = _("Write why, or choose a reason.")
        return show_visit(visit, status=422, typed=replace(typed, reason_error=told))
    except UnknownOutcome:
        told = _("Use one of the buttons. What you typed is kept.")
        return show_visit(visit, status=422, banner=Banner("warn", _("Nothing was decided"), told), typed=typed)
    except InvalidData as refused:
        filled.place_errors(refused.errors)
        if not filled.errors:
            return _show_problem(
                visit, 422, "; ".join(told for texts in refused.errors.values() for told in texts), typed
            )
        return show_visit(visit, status=422, typed=typed)
    except PolicyRefused as refused:
        return _show_problem(visit, 403, refused.reason or _("The rules of this site do not allow it."), typed)
    except DecisionFailed as refused:
        return _show_problem(visit, 409, refused.problem, typed)
    except (TooLarge, NotSerializable) as refused:
        return _show_problem(visit, 413 if isinstance(refused, TooLarge) else 422, str(refused), typed)
    except InvalidCall as refused:
        return show_visit(visit, status=422, typed=replace(typed, reason_error=show_text(str(refused))))
    return _lead_back(visit)


def _check_password(visit: Visit, filled: Filled) -> bool:
    """Whether it is theirs; only where it is asked for, and something was typed."""
    return visit.asks_password and bool(filled.password) and check_password(visit.user, filled.password)


def _show_late(visit: Visit, typed: Typed) -> HttpResponse:
    again = visit.look_again()
    banner = Banner("warn", _("What you sent was not taken"), f"{again.card.told}.")
    return show_visit(again, status=410, banner=banner, typed=typed)


def _show_stale(visit: Visit, refused: Stale, typed: Typed) -> HttpResponse:
    again = visit.look_again()
    if again.is_over:
        return _show_late(visit, typed)
    told = _("Nothing was decided. What you typed is kept: look at what has changed, then decide.")
    items = tuple(
        _("%(field)s: %(before)s → %(after)s") % {"field": name, "before": before, "after": after}
        for name, (before, after) in refused.difference.items()
    )
    # Whoever confirmed to have seen it saw something else.
    seen = replace(typed, saw=False)
    return show_visit(
        again, status=409, banner=Banner("warn", _("Changed since you opened it"), told, items), typed=seen
    )


def _show_forbidden(visit: Visit, refused: NotAllowed, typed: Typed) -> HttpResponse:
    rule, message = refused.obstacle.rule, show_text(refused.obstacle.message)
    if rule == "reauthenticate" and visit.asks_password:
        told = (
            _("That is not your password. Nothing was decided.") if typed.filled and typed.filled.password else message
        )
        return show_visit(visit, status=403, typed=replace(typed, password_error=told))
    if rule == "reauthenticate":
        message = _("It takes your password, and you have none here: decide it in the inbox.")
    if rule == "high_risk_diff":
        return show_visit(visit, status=422, typed=replace(typed, saw_error=message))
    return _show_problem(visit.look_again(), 409 if rule in _PASSING else 403, message, typed)


def _show_problem(visit: Visit, status: int, told: str, typed: Typed) -> HttpResponse:
    banner = Banner("warn", _("Nothing was decided"), show_text(told, 1000))
    return show_visit(visit, status=status, banner=banner, typed=typed)


# --- the other deeds --------------------------------------------------------------------------------------


def _comment(visit: Visit, data: QueryDict) -> None:
    actions.comment(visit.review, data.get("text", ""), actor=visit.user, door=DOOR)


def _ask(visit: Visit, data: QueryDict) -> None:
    actions.request_info(visit.review, data.get("text", ""), actor=visit.user, door=DOOR)


def _answer(visit: Visit, data: QueryDict) -> None:
    actions.answer_info(visit.review, data.get("answer", ""), actor=visit.user, door=DOOR)


def _nudge(visit: Visit, data: QueryDict) -> None:
    actions.nudge(visit.review, actor=visit.user, door=DOOR)


def _withdraw(visit: Visit, data: QueryDict) -> None:
    actions.withdraw(visit.review, actor=visit.user, reason=data.get("withdrawal", ""), door=DOOR)


_DEEDS: Mapping[str, _Deed] = {
    "comment": _comment,
    "ask": _ask,
    "answer": _answer,
    "nudge": _nudge,
    "withdraw": _withdraw,
}
#: The field that each of them reads.
_FIELDS = {"comment": "text", "ask": "text", "answer": "answer", "withdraw": "withdrawal"}


def _do(visit: Visit, deed: _Deed, data: QueryDict, typed: Typed) -> HttpResponse:
    name = data.get("do", "")
    try:
        deed(visit, data)
    except InvalidApproval as refused:
        blank = not data.get(_FIELDS.get(name, ""), "").strip()
        told = _("Write something first.") if blank else show_text(str(refused))
        wrong = replace(typed, said_errors={_FIELDS[name]: told})
        return show_visit(visit, status=422, typed=wrong)
    except AlreadyDecided:
        return _show_late(visit, typed)
    except TooSoon as refused:
        when = show_when(refused.until, visit.card.now)
        told = _("Those asked were reminded a moment ago. You can do it again %(when)s.") % {"when": when}
        return show_visit(visit, status=409, banner=Banner("warn", _("Nobody was reminded"), told), typed=typed)
    except NotAllowed as refused:
        status = 409 if refused.obstacle.rule in _PASSING else 403
        banner = Banner("warn", _("That was not done"), show_text(refused.obstacle.message))
        return show_visit(visit.look_again(), status=status, banner=banner, typed=typed)
    left = {one: text for one, text in typed.said.items() if one != _FIELDS.get(name)}
    if any(text.strip() for text in left.values()) or _has_typed(visit, typed.filled):
        # There is more on the page that was not sent: a redirect would lose it.
        done = Banner("good", _("Done"), _("What you typed elsewhere on this page is still there."))
        return show_visit(visit.look_again(), banner=done, typed=replace(typed, said=left))
    return _lead_back(visit)


# --- what was typed ---------------------------------------------------------------------------------------


def _read_typed(visit: Visit, data: QueryDict) -> Typed:
    said = {name: data.get(name, "") for name in SAID}
    return Typed(filled=visit.form.read(data), said=said, saw=data.get("saw") == "1")


def _has_typed(visit: Visit, filled: Filled | None) -> bool:
    if filled is None or not visit.card.may_decide:
        return False
    begun = visit.form.fields.begin() if visit.form.fields is not None else {}
    return bool(filled.typed_reason.strip() or any(filled.chosen.values()) or filled.typed != begun)


def _lead_back(visit: Visit) -> HttpResponse:
    """To the same page, which shows what became of it; reloading that sends nothing."""
    return HttpResponseRedirect(visit.request.path, status=303)
