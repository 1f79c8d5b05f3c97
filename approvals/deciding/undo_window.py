"""Between a decision and its effect: the moments in which it can be undone, and its being carried out.

Lives here: how long that is, undoing, and the second transaction. Must not live here: the first one (`decisions`).
Invariants owned: nothing takes effect before its grace is over, nor without another look at subject and authority; a
decision that cannot be carried out is taken back, and who made it is told.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import InterfaceError, OperationalError
from django.utils.translation import gettext

from approvals.conf import conf
from approvals.deciding.effects import TIME, finish
from approvals.deciding.fallen_votes import dump_problem, reverse
from approvals.deciding.refused_attempt import note_refusal
from approvals.exceptions import DecisionFailed, DecisionRefused, NotAllowed, Stale
from approvals.models import Review, Vote, writer
from approvals.people.person import Person
from approvals.people.principals import load_user
from approvals.reviews.held_case import HeldCase, check_actor, open_case, read_id
from approvals.reviews.permissions import find_undoable
from approvals.rules import Obstacle, says_no
from approvals.rules.door import PYTHON, Door
from workflows import store
from workflows.api.arguments import read_actor
from workflows.api.completions import owned_answers


def find_end(case: HeldCase, *, wanted: bool | timedelta) -> datetime | None:
    """Until when a decision of now can be undone; None where it is carried out at once.

    A timedelta makes it so much longer: what is decided together can be undone together, also the first of it.
    """
    if wanted is False or conf.undo_seconds <= 0 or case.review.risk == "high":
        return None
    if not case.held.parked:
        return None  # its deadline is in its worker's hands and could not be held
    longer = wanted if isinstance(wanted, timedelta) else timedelta(0)
    return case.now + timedelta(seconds=conf.undo_seconds) + longer


def undo(review: Review | UUID | str, *, actor: Person, door: Door = PYTHON) -> Review:
    """Take one's decision back: within its grace, or while others still have to decide.

    >>> undo(review, actor=ann).effective_at is None
    True
    """
    id = read_id(review)
    check_actor(actor)
    try:
        return store.in_transaction(owned_answers.reach(), lambda: _undo(open_case(id), actor, door.name))
    except DecisionRefused as refused:
        note_refusal(id, actor, "undo", door.name, refused)
        raise


def begin_grace(case: HeldCase, outcome: str, vote: Vote, until: datetime) -> None:
    """Nothing else decides it meanwhile: no deadline, no rung of the ladder."""
    held = case.held
    writer.update_review(
        case.review,
        outcome=outcome,
        decided_at=case.now,
        decided_by_id=vote.user_id,
        effective_at=until,
        held_deadline=held.found.deadline,
    )
    if held.found.deadline is not None:
        owned_answers.move_deadline(held, None, {"what": "grace"}, actor=vote.actor)


def carry_out(id: UUID) -> bool:
    """The second transaction of a decision that could be undone; whether there was something to do.

    What has changed meanwhile (subject, authority, what `on_decision` finds) takes it back, and tells the decider.
    """
    db = owned_answers.reach()
    try:
        return store.in_transaction(db, lambda: _carry_out(open_case(id), None))
    except (OperationalError, InterfaceError):
        raise  # trouble of the server: the next sweep tries again
    except Exception as error:
        problem = error
    return store.in_transaction(db, lambda: _carry_out(open_case(id), problem))


def _undo(case: HeldCase, actor: Person, door: str) -> Review:
    vote = find_undoable(case, actor)
    if case.review.effective_at is not None:
        _reopen(case, vote, actor=read_actor(actor), user=actor, door=door, reason="")
    else:
        reverse(case, vote, actor=read_actor(actor), user=actor, door=door, reason="", raises_version=True)
    return case.review


def _carry_out(case: HeldCase, problem: Exception | None) -> bool:
    review = case.review
    if not review.open or review.effective_at is None or review.effective_at > case.now:
        return False
    vote = next((one for one in reversed(case.votes) if one.user_id == review.decided_by_id), None)
    if vote is None:
        raise DecisionFailed("the vote that decided it is gone")
    problem = problem or _find_change(case, vote)
    if problem is not None:
        _reopen(case, vote, actor="holdpoint", user=None, door=TIME, reason=str(problem), problem=problem)
        return True
    owned_answers.ask_site(case.held, vote.actor)
    override = vote.reason if vote.override else None
    finish(case, review.outcome, actor=vote.actor, user=vote.user_id, door=vote.door, override=override)
    return True


def _reopen(
    case: HeldCase, vote: Vote, *, actor: str, user: Any, door: str, reason: str, problem: Exception | None = None
) -> None:
    """As if it had not been decided: the deadline runs again, others may decide."""
    review, held = case.review, case.held
    if review.held_deadline is not None:
        owned_answers.move_deadline(held, review.held_deadline, {"what": "undo"}, actor=actor)
    writer.update_review(review, outcome="", decided_at=None, decided_by_id=None, effective_at=None, held_deadline=None)
    reverse(case, vote, actor=actor, user=user, door=door, reason=reason)
    if user is None:
        # Read again only for what tells of it: what failed may be the reading itself.
        drift = case.read_subject().drift if isinstance(problem, Stale) else ()
        told = {"reason": reason} if problem is None else dump_problem(problem, drift)
        writer.insert_notice(review, "reopened", at=case.now, to=[vote.actor], data=told)


def _find_change(case: HeldCase, vote: Vote) -> DecisionRefused | None:
    """What has changed since the decision, of what it took."""
    now = case.read_subject(lock=True)
    is_no = any(one.name == vote.outcome and says_no(one, case.outcomes) for one in case.outcomes)
    if not (now.is_gone and is_no) and (now.is_gone or now.digest != vote.digest):
        return Stale(now.difference)
    user = load_user(vote.user_id)
    if user is None or not _may_still(case, user, vote):
        told = gettext("You can’t decide this any more: you are no longer among those asked.")
        return NotAllowed(Obstacle("not_candidate", told))
    return None


def _may_still(case: HeldCase, user: Any, vote: Vote) -> bool:
    """Whether the decider may still decide; their own vote does not count against it."""
    if vote.override:
        return bool(user.is_active and user.has_perm("holdpoint_approvals.override_review") and case.is_member(user))
    case.votes, kept = [one for one in case.votes if one.pk != vote.pk], case.votes
    try:
        standing = case.find_standing(user)
        is_own = case.review.four_eyes and user.pk in (case.review.requester_id, *case.earlier_deciders)
    finally:
        case.votes = kept
    return (standing.is_candidate or standing.on_absence) and not is_own
