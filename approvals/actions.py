"""What people do to a review beside deciding it: claim, hand on, ask, put aside, remind, withdraw.

Lives here: each action and the rule that may forbid it. Invariants owned: a page that greys out a button and the action
that refuses ask the same rule and give the same sentence; everything that was done is in the instance's ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils.translation import gettext

from approvals import records
from approvals.cases import Case
from approvals.decisions import find_undoable
from approvals.exceptions import AlreadyDecided, DecisionRefused, InvalidApproval, NotAllowed, TooSoon
from approvals.models import Comment, Review
from approvals.opening import find_group, find_user
from approvals.policies import Obstacle, find_obstacle
from approvals.principals import GROUP, USER, name_person, name_user
from approvals.settling import close_withdrawn, note_refusal, open_case, read_id
from workflows import answering
from workflows.arguments import read_actor
from workflows.exceptions import InvalidCall
from workflows.jsontext import check_text
from workflows.lifecycle import Event

#: Characters of something said.
MAX_TEXT = 4_000

Check = Callable[[Case, Any], "Obstacle | None"]


def claim(review: Any, *, actor: Any, door: str = "python") -> Review:
    """Say that one is at it: others cannot decide until it is released.

    >>> claim(review, actor=ann).claimed_by_id == ann.pk
    True
    """
    with _doing("claim", review, actor, door) as case:
        if case.review.claimed_by_id != actor.pk:
            records.update_review(case.review, claimed_by_id=actor.pk, claimed_at=case.now)
            _record(case, "claimed", actor, door)
        return case.review


def release(review: Any, *, actor: Any, door: str = "python") -> Review:
    """Let others decide again.

    >>> release(review, actor=ann).claimed_by_id is None
    True
    """
    with _doing("release", review, actor, door) as case:
        if case.review.claimed_by_id is not None:
            whose = case.review.claimed_by_id
            records.update_review(case.review, claimed_by_id=None, claimed_at=None)
            _record(case, "released", actor, door, {"of": f"user:{whose}" if whose != actor.pk else None})
        return case.review


def delegate(review: Any, *, to: Any, actor: Any, reason: str = "", door: str = "python") -> Review:
    """Hand one's own share on to somebody else, who decides in one's place.

    >>> delegate(review, to=ben, actor=ann).candidates.values_list("principal", flat=True)
    <ReadQuerySet ['user:2']>
    """
    reason = _read_text(reason, "a reason", blank=True)
    with _doing("delegate", review, actor, door) as case:
        other = find_user(to, "to")
        if (obstacle := _forbid_taking(case, other)) is not None:
            raise NotAllowed(obstacle)
        mine = case.list_answering(actor)
        own = next((one for one in mine if one.principal == name_user(actor)), None)
        share = (own.instead_of or own.principal) if own else mine[0].principal if mine else ""
        records.insert_candidates(case.review, [name_user(other)], added_by=name_user(actor), instead_of=share)
        if own is not None:
            records.remove_candidates(case.review, [own.principal])
        if case.review.claimed_by_id is not None:
            records.update_review(case.review, claimed_by_id=None, claimed_at=None)
        _record(case, "delegated", actor, door, {"to": name_user(other), "reason": reason})
        records.insert_notice(case.review, "new", at=case.now, to=[name_user(other)], data={"by": name_user(actor)})
        return case.review


def reassign(
    review: Any,
    *,
    users: Iterable[Any] = (),
    groups: Iterable[Any] = (),
    actor: Any,
    reason: str = "",
    keep: bool = False,
    door: str = "python",
) -> Review:
    """Ask others instead of those asked so far; with `keep`, as well.

    >>> reassign(review, groups=["legal"], actor=ann).open
    True
    """
    reason = _read_text(reason, "a reason", blank=True)
    principals = [name_user(find_user(one, "users")) for one in users]
    principals += [f"{GROUP}:{one.pk if hasattr(one, 'pk') else find_group(one, 'groups').pk}" for one in groups]
    if not principals:
        raise InvalidApproval("users", list(users), "name at least one user or group that is asked from now on")
    with _doing("reassign", review, actor, door) as case:
        if not keep:
            records.remove_candidates(case.review)
        records.insert_candidates(case.review, principals, added_by=name_user(actor))
        if case.review.claimed_by_id is not None:
            records.update_review(case.review, claimed_by_id=None, claimed_at=None)
        _record(case, "reassigned", actor, door, {"to": principals, "kept": keep or None, "reason": reason})
        records.insert_notice(case.review, "new", at=case.now, to=principals, data={"by": name_user(actor)})
        return case.review


def extend(
    review: Any,
    *,
    actor: Any,
    due: datetime | None = None,
    deadline: datetime | None = None,
    reason: str = "",
    door: str = "python",
) -> Review:
    """Give those asked more time: another moment at which it is due, another end of the wait, or both.

    >>> extend(review, due=tomorrow, actor=ann).due_at == tomorrow
    True
    """
    reason = _read_text(reason, "a reason", blank=True)
    if due is None and deadline is None:
        raise InvalidApproval("due", None, "say until when: due=, deadline= or both")
    with _doing("extend", review, actor, door) as case:
        assert case.held is not None
        for option, moment in (("due", due), ("deadline", deadline)):
            if moment is not None and moment <= case.now:
                raise InvalidApproval(option, moment, "it lies in the past")
        told = {"what": "extended", "door": door, "reason": reason or None, "due": due.isoformat() if due else None}
        if due is not None:
            records.move_due(case.review, due)
        if deadline is None:
            _record(case, "extended", actor, door, {"due": told["due"], "reason": reason})
        elif not answering.move_deadline(case.held, deadline, told, actor=read_actor(actor)):
            raise NotAllowed(
                Obstacle("closed", gettext("Its instance does not wait for it yet. Try again in a moment."))
            )
        return case.review


def comment(review: Any, text: str, *, actor: Any, door: str = "python") -> Comment:
    """Say something about it, to all who see it.

    >>> comment(review, "Is this within budget?", actor=ann).text
    'Is this within budget?'
    """
    text = _read_text(text, "a comment")
    with _doing("comment", review, actor, door) as case:
        made = records.insert_comment(case.review, "comment", text, user=actor, at=case.now)
        _record(case, "commented", actor, door, {"comment": str(made.pk)})
        return made


def request_info(review: Any, text: str, *, actor: Any, door: str = "python") -> Comment:
    """Ask the requester something; it can still be decided meanwhile.

    >>> request_info(review, "Which account?", actor=ann).kind
    'question'
    """
    text = _read_text(text, "a question")
    with _doing("request_info", review, actor, door) as case:
        made = records.insert_comment(case.review, "question", text, user=actor, at=case.now)
        _record(case, "asked", actor, door, {"comment": str(made.pk)})
        to = [f"{USER}:{case.review.requester_id}"]
        records.insert_notice(case.review, "question", at=case.now, to=to, data={"comment": str(made.pk)})
        return made


def answer_info(review: Any, text: str, *, actor: Any, door: str = "python") -> Comment:
    """The requester's answer. It raises the version: whoever decides should have seen it.

    >>> answer_info(review, "Account 4711", actor=ben).kind
    'answer'
    """
    text = _read_text(text, "an answer")
    with _doing("answer_info", review, actor, door) as case:
        question = _find_question(case)
        made = records.insert_comment(case.review, "answer", text, user=actor, at=case.now, answers=question)
        records.update_review(case.review, is_changed=True)
        _record(case, "answered", actor, door, {"comment": str(made.pk), "version": case.review.version})
        to = None if question is None or question.user_id is None else [f"{USER}:{question.user_id}"]
        records.insert_notice(case.review, "answer", at=case.now, to=to, data={"comment": str(made.pk)})
        return made


def snooze(review: Any, *, until: datetime, actor: Any, door: str = "python") -> Review:
    """Put it aside for oneself until then.

    >>> snooze(review, until=tomorrow, actor=ann).open
    True
    """
    with _doing("snooze", review, actor, door) as case:
        if until <= case.now:
            raise InvalidApproval("until", until, "it lies in the past")
        records.set_snooze(case.review, actor, until)
        return case.review


def unsnooze(review: Any, *, actor: Any) -> None:
    """Take it up again.

    >>> unsnooze(review, actor=ann)
    """
    found = Review.objects.using(answering.reach().alias).filter(pk=read_id(review)).first()
    if found is not None:
        records.clear_snooze(found, actor)


def nudge(review: Any, *, actor: Any, door: str = "python") -> Review:
    """The requester's reminder to those asked, once in a while.

    >>> nudge(review, actor=ben).nudged_at is None
    False
    """
    from approvals.conf import conf

    with _doing("nudge", review, actor, door) as case:
        last = case.review.nudged_at
        if last is not None and last + conf.nudge_cooldown > case.now:
            raise TooSoon(last + conf.nudge_cooldown)
        records.update_review(case.review, nudged_at=case.now)
        _record(case, "nudged", actor, door)
        records.insert_notice(case.review, "nudge", at=case.now)
        return case.review


def withdraw(review: Any, *, actor: Any, reason: str = "", door: str = "python") -> Review:
    """Take the request back: an outcome "withdraw" if the author named one, else its instance is cancelled.

    >>> withdraw(review, actor=ben).open
    False
    """
    reason = _read_text(reason, "a reason", blank=True)
    with _doing("withdraw", review, actor, door) as case:
        _record(case, "withdrawn", actor, door, {"reason": reason})
        close_withdrawn(case, actor, reason, door)
        return case.review


def explain(review: Any, user: Any) -> dict[str, Obstacle | None]:
    """For every action the rule that forbids it to this person now, or None: why can't I?

    >>> explain(review, ben)["nudge"] is None
    True
    """
    case = review if isinstance(review, Case) else Case(Review.objects.get(pk=read_id(review)))
    return {name: check(case, user) for name, check in CHECKS.items()}


# --- the rules --------------------------------------------------------------------------------------------


def _forbid_deciding(case: Case, user: Any) -> Obstacle | None:
    return find_obstacle(case.rules, case.find_facts(user))


def _forbid_releasing(case: Case, user: Any) -> Obstacle | None:
    if (closed := _forbid_closed(case)) is not None:
        return closed
    if case.review.claimed_by_id in (None, user.pk) or _may(user, "reassign_review"):
        return None
    told = gettext("Only %(by)s, who claimed it, can release it.") % {"by": case.name(case.review.claimed_by_id)}
    return Obstacle("claimed", told)


def _forbid_seen(case: Case, user: Any) -> Obstacle | None:
    """Whoever may look may say something, also afterwards."""
    if _sees(case, user):
        return None
    return Obstacle("not_candidate", gettext("This is not yours to see."))


def _forbid_asking(case: Case, user: Any) -> Obstacle | None:
    if (obstacle := _forbid_deciding(case, user)) is not None:
        return obstacle
    if case.review.requester_id is None:
        return Obstacle("requester", gettext("No person asked for this, so there is nobody to ask."))
    return None


def _forbid_answering(case: Case, user: Any) -> Obstacle | None:
    if (closed := _forbid_closed(case)) is not None:
        return closed
    if not _is_requester(case, user):
        return Obstacle("requester", gettext("Only who asked for this can answer."))
    if _find_question(case) is None:
        return Obstacle("no_question", gettext("Nobody has asked anything."))
    return None


def _forbid_snoozing(case: Case, user: Any) -> Obstacle | None:
    if (closed := _forbid_closed(case)) is not None:
        return closed
    standing = case.find_standing(user)
    if standing.is_candidate or standing.on_absence:
        return None
    return Obstacle("not_candidate", gettext("It is not in your inbox."))


def _forbid_nudging(case: Case, user: Any) -> Obstacle | None:
    if (closed := _forbid_closed(case)) is not None:
        return closed
    if not _is_requester(case, user):
        return Obstacle("requester", gettext("Only who asked for this can remind those asked."))
    return None


def _forbid_withdrawing(case: Case, user: Any) -> Obstacle | None:
    if (closed := _forbid_closed(case, in_grace=True)) is not None:
        return closed
    if _is_requester(case, user) or _may(user, "withdraw_review"):
        return None
    return Obstacle("requester", gettext("Only who asked for this can withdraw it."))


def _forbid_undoing(case: Case, user: Any) -> Obstacle | None:
    try:
        find_undoable(case, user)
    except AlreadyDecided as refused:
        return Obstacle("closed", str(refused))
    except NotAllowed as refused:
        return refused.obstacle
    return None


def _need(permission: str, told: Callable[[], str]) -> Check:
    def check(case: Case, user: Any) -> Obstacle | None:
        if not _may(user, permission):
            return Obstacle("permission", told())
        return _forbid_closed(case)

    return check


def _forbid_overriding(case: Case, user: Any) -> Obstacle | None:
    if not _may(user, "override_review"):
        return Obstacle("permission", gettext("You can’t override: it takes a permission of its own."))
    if (closed := _forbid_closed(case)) is not None:
        return closed
    if case.review.four_eyes and _is_requester(case, user):
        return Obstacle("requester", gettext("You can’t decide because you asked for this (four eyes)."))
    return None


def _forbid_closed(case: Case, *, in_grace: bool = False) -> Obstacle | None:
    """What is decided, or being decided, stays as it is."""
    found = find_obstacle(case.rules, case.state)
    passed = found is None or found.rule not in ("closed", "grace") or (in_grace and found.rule == "grace")
    return None if passed else found


def _forbid_taking(case: Case, user: Any) -> Obstacle | None:
    """Whom something cannot be handed on to: who may not decide it either."""
    name = name_person(user)
    if not user.is_active:
        return Obstacle("not_candidate", gettext("%(name)s can’t log in any more.") % {"name": name})
    if not case.is_member(user):
        return Obstacle("not_candidate", gettext("%(name)s is no member of this workspace.") % {"name": name})
    if case.is_barred(user):
        told = gettext("%(name)s can’t decide this: they asked for it or have decided on it (four eyes).")
        return Obstacle("requester", told % {"name": name})
    return None


def _sees(case: Case, user: Any) -> bool:
    if _is_requester(case, user) or _may(user, "view_review"):
        return case.is_member(user)
    standing = case.find_standing(user)
    voted = any(vote.user_id == user.pk for vote in case.all_votes)
    return standing.is_candidate or standing.on_absence or (voted and case.is_member(user))


def _is_requester(case: Case, user: Any) -> bool:
    return case.review.requester_id is not None and case.review.requester_id == user.pk and user.is_active


def _may(user: Any, permission: str) -> bool:
    return user.is_active and hasattr(user, "has_perm") and user.has_perm(f"holdpoint_approvals.{permission}")


def _find_question(case: Case) -> Comment | None:
    """The latest one that has no answer yet."""
    said = Comment.objects.using(answering.reach().alias).filter(review_id=case.review.pk)
    questions = said.filter(kind="question").exclude(pk__in=said.filter(kind="answer").values("answers_id"))
    found: Comment | None = questions.order_by("-pk").first()
    return found


CHECKS: Mapping[str, Check] = {
    "decide": _forbid_deciding,
    "claim": _forbid_deciding,
    "release": _forbid_releasing,
    "delegate": _forbid_deciding,
    "comment": _forbid_seen,
    "request_info": _forbid_asking,
    "answer_info": _forbid_answering,
    "snooze": _forbid_snoozing,
    "nudge": _forbid_nudging,
    "withdraw": _forbid_withdrawing,
    "undo": _forbid_undoing,
    "reassign": _need("reassign_review", lambda: gettext("You can’t reassign: it takes a permission of its own.")),
    "extend": _need("extend_review", lambda: gettext("You can’t move its deadline: it takes a permission of its own.")),
    "override": _forbid_overriding,
}


# --- doing ------------------------------------------------------------------------------------------------


@contextmanager
def _doing(action: str, review: Any, actor: Any, door: str) -> Iterator[Case]:
    """Under the locks, once the action's rule has nothing against it; a refusal is in the ledger."""
    id: UUID = read_id(review)
    try:
        with transaction.atomic(using=answering.reach().alias):
            case = open_case(id, actor)
            if (obstacle := CHECKS[action](case, actor)) is not None:
                _refuse(case, obstacle)
            yield case
    except DecisionRefused as refused:
        note_refusal(id, actor, action, door, refused)
        raise


def _refuse(case: Case, obstacle: Obstacle) -> None:
    if obstacle.rule == "closed":
        review = case.review
        raise AlreadyDecided(case.name(review.decided_by_id), review.decided_at, review.outcome)
    raise NotAllowed(obstacle)


def _record(case: Case, what: str, actor: Any, door: str, told: Mapping[str, Any] | None = None) -> None:
    assert case.held is not None
    row = {"what": what, "door": door, **{name: value for name, value in (told or {}).items() if value}}
    answering.record(case.held, Event.HANDLED, row, actor=read_actor(actor))


def _read_text(given: object, what: str, *, blank: bool = False) -> str:
    try:
        return check_text(given, what, limit=MAX_TEXT, blank=blank).strip()
    except InvalidCall as error:
        raise InvalidApproval("text", given, str(error)) from error
