"""What a decision leads to: the answer, with the author's change to business rows, under the locks of a held case.

Lives here: writing what was decided. Must not live here: whether it may be, and votes that no longer count
(`fallen_votes`). Invariant owned: business change, answer and review are written in one transaction.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from django.core.exceptions import PermissionDenied, ValidationError
from django.db import InterfaceError, OperationalError, transaction
from psycopg import errors

from approvals.asking.approval import Approval
from approvals.exceptions import (
    AlreadyDecided,
    ApprovalError,
    DecisionFailed,
    Stale,
)
from approvals.forms.edits import find_agreed
from approvals.models import Vote, writer
from approvals.people.person import Person
from approvals.reviews.answer import find_agreeing
from approvals.reviews.held_case import HeldCase
from approvals.rules.escalation import load_rungs, next_moment
from approvals.subjects.diff_parts import same_json
from approvals.subjects.field_values import write_canonical
from workflows.api.arguments import read_actor
from workflows.api.completions import owned_answers
from workflows.api.instances import cancel
from workflows.definitions.decision import Answer
from workflows.definitions.question import find_projector
from workflows.exceptions import InteractionResolved
from workflows.models import Instance
from workflows.values.json_text import MAX_DEPTH
from workflows.wording.messages import Reason, gettext_noop

logger = logging.getLogger("approvals")

#: Characters of all reasons in one answer; a character takes up to four bytes, and data wants room too.
LONGEST_REASONS = 60_000
#: Characters of everybody's data in one answer, beside the answer's own.
LONGEST_DATA = 100_000
#: Levels that stand around somebody's data in an answer: its decisions, one of them, and the data's own place.
AROUND = 4
_ROLLED_BACK = Reason(gettext_noop("a statement of its own failed, or it rolled back: nothing of it would remain"))
#: Votes are judged again so long after the latest, then after an eighth of its age, and so often at the least.
LOOK_AFTER, LOOK_AT_LEAST = timedelta(minutes=5), timedelta(days=1)
#: The actor, and the door, of what nobody decided.
TIME = "time"


def finish(
    case: HeldCase,
    outcome: str,
    *,
    actor: str,
    user: Any,
    door: str,
    reason: str = "",
    override: str | None = None,
) -> None:
    """The author's change to business rows, and the answer.

    Its data are what everybody counted agreed to, its reason is that of the latest of them. `override` is the reason
    of somebody who was not asked.
    """
    review, held = case.review, case.held
    is_carried_out = review.effective_at is not None and review.decided_by_id == user
    agreeing = find_agreeing(case.votes, outcome)
    data = find_agreed(case.votes, outcome, case.outcomes)
    stored = {
        "outcome": outcome,
        "data": data,
        "reason": reason or ("" if agreeing is None else agreeing.reason),
        "actor": actor,
        "decisions": _write_decisions(case.votes, data),
    }
    writer.update_review(
        review,
        outcome=outcome,
        decided_at=review.decided_at if is_carried_out else case.now,
        decided_by_id=user,
        effective_at=None,
        held_deadline=None,
        next_at=None,
    )
    if review.on_decision:
        _change_business(case, Approval.read_answer(stored, owned_answers.find_schema(held)))
    try:
        owned_answers.answer(held, stored, actor=actor, door=door, override=override)
    except InteractionResolved as error:
        raise AlreadyDecided from error
    review.open = False
    writer.insert_notice(review, "decided", at=case.now)


def _change_business(case: HeldCase, answer: Answer) -> None:
    """`on_decision`: what it does commits or goes with the decision.

    In a savepoint, so that a statement of its own which failed is its failure, also where it caught that.
    """
    alias = owned_answers.reach().alias
    instance = Instance.objects.using(alias).get(pk=case.review.instance_id)
    try:
        with transaction.atomic(using=alias):
            find_projector(case.review.on_decision)(answer, instance)
            if transaction.get_rollback(using=alias):
                raise DecisionFailed(_ROLLED_BACK)
    except (DecisionFailed, Stale):
        raise
    except Exception as error:
        if _is_servers(error):
            raise
        raise DecisionFailed(_tell_failure(case, error)) from error


def _is_servers(error: Exception) -> bool:
    """Trouble of our own server, which the same call may not meet again: a deadlock, or a connection that broke.

    What else a statement of the project meets (another database that is away, a lock that is not had in time) is its
    failure: it would come again, and nothing else would move meanwhile.
    """
    if not isinstance(error, OperationalError | InterfaceError):
        return False
    raw: Any = owned_answers.reach().connection
    if raw is None or raw.closed or raw.broken:
        return True
    return isinstance(error.__cause__, errors.DeadlockDetected | errors.SerializationFailure)


def _tell_failure(case: HeldCase, error: Exception) -> str:
    """What people may read of it: errors by which code says no are for them, others tell of the site's inside."""
    kind = type(error).__name__
    logger.warning("on_decision of review %s failed", case.review.pk, exc_info=error)
    if isinstance(error, ValidationError):
        return "; ".join(error.messages)
    return f"{kind}: {error}" if isinstance(error, ValueError | PermissionDenied | ApprovalError) else kind


def _write_decisions(votes: Sequence[Vote], data: Any) -> list[dict[str, Any]]:
    """Everybody's share. Very many reasons are shortened, or the answer would get too large; the votes keep them.

    So it is with data that are long or deep: `as_answered` says of whom they are the answer's, and others' stay with
    the vote.
    """
    longest = max(80, LONGEST_REASONS // max(1, len(votes)))
    texts = [write_canonical(vote.data) for vote in votes if vote.data is not None]
    is_long = sum(map(len, texts)) > LONGEST_DATA or any(_is_deep(vote.data) for vote in votes)
    return [_write_decision(vote, longest) | _write_data(vote, data, is_long=is_long) for vote in votes]


def _is_deep(value: Any, room: int = MAX_DEPTH - AROUND) -> bool:
    """Whether data that an answer may hold have no room below its decisions."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return (room == 0 and isinstance(value, dict | list)) or any(_is_deep(one, room - 1) for one in inside)


def _write_data(vote: Vote, answered: Any, *, is_long: bool) -> dict[str, Any]:
    if not is_long or vote.data is None:
        return {"data": vote.data}
    return {"as_answered": True} if same_json(vote.data, answered) else {}


def _write_decision(vote: Vote, longest: int) -> dict[str, Any]:
    return {
        "actor": vote.actor,
        "outcome": vote.outcome,
        "reason": vote.reason if len(vote.reason) <= longest else f"{vote.reason[: longest - 1]}…",
        "at": vote.at.isoformat(),
        "on_behalf_of": "" if vote.on_behalf_of_id is None else f"user:{vote.on_behalf_of_id}",
        "automated": vote.automated,
        "override": vote.override,
    }


def close_withdrawn(case: HeldCase, actor: Person, reason: str, door: str) -> None:
    """Its requester does not want it any more: the outcome that the author named for that, else the end of it all."""
    review, held = case.review, case.held
    name = next((one.name for one in case.outcomes if one.name in ("withdraw", "withdrawn")), None)
    if name is not None:
        owned_answers.ask_site(held, read_actor(actor))
        finish(case, name, actor=read_actor(actor), user=actor.pk, door=door, reason=reason)
        return
    writer.update_review(
        review,
        outcome="withdrawn",
        decided_at=case.now,
        decided_by_id=actor.pk,
        effective_at=None,
        held_deadline=None,
        next_at=None,
    )
    cancel(Instance(pk=review.instance_id, workspace_id=review.workspace_id), reason or "withdrawn", actor=actor)
    review.open = False
    writer.insert_notice(review, "decided", at=case.now)


def answer_by_time(case: HeldCase, outcome: str) -> None:
    """What the author named for the end of the ladder, or what the votes amount to since somebody left."""
    owned_answers.ask_site(case.held, TIME)
    finish(case, outcome, actor=TIME, user=None, door=TIME)


def find_next_moment(case: HeldCase) -> datetime | None:
    """When time looks at it again: at the next rung; and where votes were given soon after the latest, then less often.

    Who may vote is not frozen: without any vote more a rule may be reached, or out of reach, because somebody left.
    """
    rungs = load_rungs(case.review.rungs or [])
    found = next_moment(rungs, case.review.rung)
    if not case.votes:
        return found
    rest = min(max((case.now - case.votes[-1].at) / 8, LOOK_AFTER), LOOK_AT_LEAST)
    return case.now + rest if found is None else min(found, case.now + rest)
