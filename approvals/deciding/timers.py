"""What time does to reviews: decisions whose grace is over, reminders, escalation, the answer at the end; and an answer
by votes that suffice since somebody left.

Invariants owned: rows say what is due, so nothing is lost with a process; each is done under the locks of a decision
and looked at again there, so it is done once, and never after somebody has decided.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from approvals.deciding.effects import TIME, answer_by_time, find_next_moment
from approvals.deciding.fallen_votes import dump_problem
from approvals.deciding.undo_window import carry_out
from approvals.exceptions import DecisionRefused, UnknownReview
from approvals.models import Review, Vote, writer
from approvals.people.principals import USER
from approvals.reviews.electorate import count_votes, find_case_gap, may_any_decide
from approvals.reviews.held_case import HeldCase, open_case
from approvals.rules import dump_verdict
from approvals.rules.escalation import Rung, load_rungs, next_rung
from workflows import store
from workflows.api.completions import owned_answers
from workflows.clock import Now
from workflows.exceptions import PolicyRefused
from workflows.lifecycle import Event

logger = logging.getLogger("approvals")

#: Reviews of one turn.
BATCH = 100
#: An answer that the project's code refuses is tried for so long.
TRY_FOR = timedelta(hours=1)
#: A rung whose step failed is tried again after so long.
AGAIN_SECONDS = 60

#: Both arms read the head of a partial index. While a decision can be undone, the ladder rests.
_NEXT = """
    SELECT extract(epoch FROM least(
      (SELECT min(effective_at) FROM holdpoint_review WHERE open AND effective_at IS NOT NULL),
      (SELECT min(next_at) FROM holdpoint_review WHERE open AND next_at IS NOT NULL AND effective_at IS NULL)
    ) - holdpoint_clock())::float8
"""

_PUT_OFF = """
    UPDATE holdpoint_review SET next_at = CASE WHEN next_at <= holdpoint_now()
        THEN holdpoint_clock() + %(seconds)s * interval '1 s' ELSE next_at END,
      effective_at = CASE WHEN effective_at <= holdpoint_now()
        THEN holdpoint_clock() + %(seconds)s * interval '1 s' ELSE effective_at END
    WHERE id = %(id)s::uuid
"""


def seconds_to_next(db: BaseDatabaseWrapper) -> float | None:
    """Until something is due."""
    found: float | None = store.fetch(db, _NEXT, {})[0][0]
    return found


def work() -> int:
    """Do what is due; how much that was. One that fails does not keep the others from their turn."""
    done = 0
    for move_on, id in _list_due():
        try:
            done += move_on(id)
        except UnknownReview:
            continue  # pruned meanwhile
        except Exception:
            logger.exception("review %s could not be moved on; it is tried again in %d s", id, AGAIN_SECONDS)
            # Fails as well where the trouble is the server's, and so ends the round.
            store.fetch(owned_answers.reach(), _PUT_OFF, {"id": id, "seconds": AGAIN_SECONDS}, rows=False)
            done += 1
    return done


def take_rung(id: UUID) -> bool:
    """What its votes amount to by now, else the next rung of a review's ladder, if its moment has come; whether it had.

    An outcome that the project's code goes on refusing ends the ladder: those concerned are told, and people or the
    deadline decide.
    """
    if Vote.objects.using(owned_answers.reach().alias).filter(review_id=id, standing=True).exists():
        try:
            if store.in_transaction(owned_answers.reach(), lambda: _judge_anew(open_case(id))):
                return True
        except (DecisionRefused, PolicyRefused) as refused:
            logger.warning("review %s is decided by its votes, and could not be answered: %s", id, refused)
    try:
        return store.in_transaction(owned_answers.reach(), lambda: _take_rung(open_case(id)))
    except (DecisionRefused, PolicyRefused) as refused:
        problem = refused
        if not store.in_transaction(owned_answers.reach(), lambda: _give_up(open_case(id), problem)):
            raise
    return True


def _give_up(case: HeldCase, problem: Exception) -> bool:
    review = case.review
    rungs = load_rungs(review.rungs or [])
    if not case.is_open or review.rung >= len(rungs) or case.now < rungs[-1].at + TRY_FOR:
        return False
    review.rung = len(rungs)
    writer.update_review(review, rung=review.rung, next_at=find_next_moment(case))
    owned_answers.record(case.held, Event.HANDLED, {"what": "escalation failed", "reason": str(problem)}, actor="time")
    to = [one.principal for one in case.candidates]
    to += [] if review.requester_id is None else [f"{USER}:{review.requester_id}"]
    writer.insert_notice(review, "reopened", at=case.now, to=to, data=dump_problem(problem))
    return True


def _judge_anew(case: HeldCase) -> bool:
    """Answer what the votes amount to since somebody has left; whether that is anything."""
    verdict = count_votes(case, case.votes) if _is_due(case) else None
    if verdict is None or verdict.outcome is None:
        return False
    now = case.read_subject(lock=True)
    if now.is_gone or now.digest != case.review.digest:
        return False  # the votes were about something else: whoever decides next is told so
    told = {"what": "judged anew", "outcome": verdict.outcome, "state": verdict.state, "verdict": dump_verdict(verdict)}
    owned_answers.record(case.held, Event.HANDLED, told, actor=TIME)
    answer_by_time(case, verdict.outcome)
    return True


def _is_due(case: HeldCase) -> bool:
    """Whether its moment has come, and nothing else ends it: its deadline, or whoever is deciding it."""
    review = case.review
    if not review.open or review.effective_at is not None or review.next_at is None or review.next_at > case.now:
        return False
    return case.is_open


def _take_rung(case: HeldCase) -> bool:
    review = case.review
    if not _is_due(case):
        return False
    rungs = load_rungs(review.rungs or [])
    rung = next_rung(rungs, review.rung, case.now)
    if rung is None:
        writer.update_review(review, next_at=find_next_moment(case))
        return False
    climb(case, rung)
    return True


def climb(case: HeldCase, rung: Rung) -> None:
    """Take a rung, under the locks of an open case."""
    review, action = case.review, rung.action
    review.rung = rung.index + 1
    writer.update_review(review, rung=review.rung, next_at=find_next_moment(case))
    principal = (review.rungs or [])[rung.index].get("principal")
    told: dict[str, Any] = {"what": "escalated", "rung": rung.index, "do": action.do, "to": principal}
    if principal is not None:
        told |= _check_handing_on(case, action.do, principal)
    if action.do == "outcome":
        told["outcome"] = action.outcome
    owned_answers.record(case.held, Event.HANDLED, told, actor="time")
    if action.do == "outcome":
        answer_by_time(case, action.outcome)
        return
    if told["do"] == "remind" or principal is None:
        writer.insert_notice(review, "reminder", at=case.now)
        return
    if told["do"] == "reassign":
        writer.remove_candidates(review)
    if review.claimed_by_id is not None:
        # Whoever is at it has not decided in time: those who are asked now must be able to.
        writer.update_review(review, claimed_by_id=None, claimed_at=None)
    writer.insert_candidates(review, [principal], added_by="time")
    if review.stranded_at is not None and not told.get("problem"):
        writer.update_review(review, stranded_at=None)
    writer.insert_notice(review, "escalation", at=case.now, to=[principal])


def _check_handing_on(case: HeldCase, do: str, principal: str) -> dict[str, Any]:
    """What is done in place of a rung that would leave nobody who can decide: those asked stay, or are reminded.

    Where it was written this was refused; since then people left, or the review is older than that check.
    """
    problem = "" if may_any_decide(case, principal) else "nobody of these can decide it"
    problem = problem or find_case_gap(case, [principal], keep=do == "add")
    if not problem:
        return {}
    logger.warning("review %s: its escalation to %s does not replace anybody: %s", case.review.pk, principal, problem)
    if case.quorum.groups and find_case_gap(case, [principal], keep=True):
        return {"do": "remind", "to": None, "problem": problem}
    return {"do": "add", "problem": problem}


def _list_due() -> Iterator[tuple[Callable[[UUID], bool], UUID]]:
    """What to do to which reviews, at most `BATCH` of each kind."""
    rows = Review.objects.using(owned_answers.reach().alias).filter(open=True)
    over = rows.filter(effective_at__lte=Now()).order_by("effective_at").values_list("pk", flat=True)
    for id in list(over[:BATCH]):
        yield carry_out, id
    climbing = rows.filter(next_at__lte=Now(), effective_at=None).order_by("next_at").values_list("pk", flat=True)
    for id in list(climbing[:BATCH]):
        yield take_rung, id
