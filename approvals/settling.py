"""What a decision leads to: the answer, its grace, its taking back; each under the locks of an open case.

Lives here: writing what was decided. Must not live here: whether it may be. Invariants owned: business change, answer
and review are written in one transaction; a vote is taken back by a row of its own, nothing is deleted; what is
refused is in the ledger.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import InterfaceError, OperationalError, transaction
from psycopg import errors

from approvals import records
from approvals.answered import find_agreeing
from approvals.cases import Case
from approvals.channel import Approval
from approvals.diff_parts import ABSENT, same_json
from approvals.diffs import FieldDiff
from approvals.drifts import SubjectState
from approvals.edits import carries, dump_before, find_agreed, is_same
from approvals.exceptions import (
    AlreadyDecided,
    ApprovalError,
    DecisionFailed,
    NotAllowed,
    Stale,
    UnknownReview,
)
from approvals.ladder import load_rungs, next_moment
from approvals.models import Review, Vote
from approvals.plain_values import write_canonical
from workflows import answering, store
from workflows.answers import Answer
from workflows.api import cancel
from workflows.arguments import read_actor
from workflows.exceptions import InteractionResolved, InvalidCall, PolicyRefused, UnknownInteraction, show
from workflows.jsontext import MAX_DEPTH
from workflows.lifecycle import Event
from workflows.models import Instance, Interaction
from workflows.question import find_projector
from workflows.reasons import Reason, gettext_noop

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


def open_case(id: UUID, actor: Any = None) -> Case:
    """Lock instance, interaction and review, in this order."""
    if actor is not None:
        check_actor(actor)
    try:
        held = answering.hold(id)
    except UnknownInteraction as error:
        raise UnknownReview(id) from error
    review = records.lock_review(id)
    if review is None:
        raise UnknownReview(id)
    return Case(review, held)


def finish(
    case: Case,
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
    assert held is not None
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
    records.update_review(
        review,
        outcome=outcome,
        decided_at=review.decided_at if is_carried_out else case.now,
        decided_by_id=user,
        effective_at=None,
        held_deadline=None,
        next_at=None,
    )
    if review.on_decision:
        _change_business(case, Approval.read_answer(stored, answering.find_schema(held)))
    try:
        answering.answer(held, stored, actor=actor, door=door, override=override)
    except InteractionResolved as error:
        raise AlreadyDecided from error
    review.open = False
    records.insert_notice(review, "decided", at=case.now)


def _change_business(case: Case, answer: Answer) -> None:
    """`on_decision`: what it does commits or goes with the decision.

    In a savepoint, so that a statement of its own which failed is its failure, also where it caught that.
    """
    alias = answering.reach().alias
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
    raw: Any = answering.reach().connection
    if raw is None or raw.closed or raw.broken:
        return True
    return isinstance(error.__cause__, errors.DeadlockDetected | errors.SerializationFailure)


def _tell_failure(case: Case, error: Exception) -> str:
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


def close_withdrawn(case: Case, actor: Any, reason: str, door: str) -> None:
    """Its requester does not want it any more: the outcome that the author named for that, else the end of it all."""
    review, held = case.review, case.held
    assert held is not None
    name = next((one.name for one in case.outcomes if one.name in ("withdraw", "withdrawn")), None)
    if name is not None:
        answering.ask_site(held, read_actor(actor))
        finish(case, name, actor=read_actor(actor), user=actor.pk, door=door, reason=reason)
        return
    records.update_review(
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
    records.insert_notice(review, "decided", at=case.now)


def answer_by_time(case: Case, outcome: str) -> None:
    """What the author named for the end of the ladder, or what the votes amount to since somebody left."""
    assert case.held is not None
    answering.ask_site(case.held, TIME)
    finish(case, outcome, actor=TIME, user=None, door=TIME)


def find_next_moment(case: Case) -> datetime | None:
    """When time looks at it again: at the next rung; and where votes were given soon after the latest, then less often.

    Who may vote is not frozen: without any vote more a rule may be reached, or out of reach, because somebody left.
    """
    rungs = load_rungs(case.review.rungs or [])
    found = next_moment(rungs, case.review.rung)
    if not case.votes:
        return found
    rest = min(max((case.now - case.votes[-1].at) / 8, LOOK_AFTER), LOOK_AT_LEAST)
    return case.now + rest if found is None else min(found, case.now + rest)


def overturn(case: Case, vote: Vote) -> list[Vote]:
    """What a vote does to what is on the table: where it fills in something else, those who agreed to what was there
    no longer count. They are asked again (`ask_again`), and may agree to this."""
    if case.schema is None or not carries(vote, case.outcomes):
        return []
    before, schema = case.table.data, case.schema
    if not is_same(before, vote.data, schema):
        vote.changed_from = dump_before(before)
    agreed = [one for one in case.votes if carries(one, case.outcomes)]
    if not (fallen := [one for one in agreed if not is_same(one.data, vote.data, schema)]):
        return []
    records.let_fall(fallen, superseded_by=vote)
    case.votes = [one for one in case.votes if one not in fallen]
    return fallen


def ask_again(case: Case, vote: Vote, fallen: Sequence[Vote]) -> None:
    """Whose approval no longer counts is told, once."""
    if fallen:
        to = list(dict.fromkeys(one.actor for one in fallen))
        told = {"vote": str(vote.pk), "by": vote.actor}
        records.insert_notice(case.review, "edited", at=case.now, to=to, data=told)


def begin_grace(case: Case, outcome: str, vote: Vote, until: datetime) -> None:
    """Nothing else decides it meanwhile: no deadline, no rung of the ladder."""
    held = case.held
    assert held is not None
    records.update_review(
        case.review,
        outcome=outcome,
        decided_at=case.now,
        decided_by_id=vote.user_id,
        effective_at=until,
        held_deadline=held.found.deadline,
    )
    if held.found.deadline is not None:
        answering.move_deadline(held, None, {"what": "grace"}, actor=vote.actor)


def reopen(
    case: Case, vote: Vote, *, actor: str, user: Any, door: str, reason: str, problem: Exception | None = None
) -> None:
    """As if it had not been decided: the deadline runs again, others may decide."""
    review, held = case.review, case.held
    assert held is not None
    if review.held_deadline is not None:
        answering.move_deadline(held, review.held_deadline, {"what": "undo"}, actor=actor)
    records.update_review(
        review, outcome="", decided_at=None, decided_by_id=None, effective_at=None, held_deadline=None
    )
    reverse(case, vote, actor=actor, user=user, door=door, reason=reason)
    if user is None:
        # Read again only for what tells of it: what failed may be the reading itself.
        drift = case.read_subject().drift if isinstance(problem, Stale) else ()
        told = {"reason": reason} if problem is None else dump_problem(problem, drift)
        records.insert_notice(review, "reopened", at=case.now, to=[vote.actor], data=told)


def reverse(
    case: Case, vote: Vote, *, actor: str, user: Any, door: str, reason: str, raises_version: bool = False
) -> None:
    """A vote taken back by a row of its own: nothing is deleted.

    If it had changed what was on the table, that is there again, with the approvals that stood. `raises_version` where
    others could decide meanwhile: they have looked at what is there no more.
    """
    assert case.held is not None
    before = case.table.data
    case.votes.remove(vote)
    records.let_fall([vote])
    back = _list_put_back(case, vote)
    records.put_back(back)
    case.votes = sorted([*case.votes, *back], key=lambda one: (one.at, one.pk))
    after = case.table.data
    is_changed = case.schema is not None and not is_same(before, after, case.schema)
    if is_changed and raises_version:
        records.update_review(case.review, is_changed=True)
    records.insert(
        Vote(
            review=case.review,
            instance_id=case.review.instance_id,
            step=case.review.step,
            at=case.now,
            user_id=None if user is None else user.pk,
            reverses=vote,
            standing=False,
            outcome=vote.outcome,
            reason=reason,
            actor=actor,
            door=door,
            groups=[],
            data=None if not is_changed or after is ABSENT else after,
            changed_from=dump_before(before) if is_changed else None,
            version=case.review.version,
        )
    )
    told = {
        "vote": str(vote.pk),
        "outcome": vote.outcome,
        "door": door,
        "reason": reason or None,
        "restored": [str(one.pk) for one in back] or None,
    }
    answering.record(case.held, Event.REVERSED, told, actor=actor)


def _list_put_back(case: Case, vote: Vote) -> list[Vote]:
    """The approvals that fell by a vote which is taken back, as long as nobody else agrees to what it filled in; but
    for those who have decided anew."""
    if vote.changed_from is None or any(carries(one, case.outcomes) for one in case.votes):
        return []
    used = {key for one in case.votes for key in (one.user_id, one.on_behalf_of_id)} - {None}
    found = [one for one in case.all_votes if one.superseded_by_id == vote.pk and one.digest == case.review.digest]
    return [one for one in found if used.isdisjoint({one.user_id, one.on_behalf_of_id} - {None})]


def show_anew(case: Case, now: SubjectState) -> None:
    """From now on the subject is shown as it is now; what was said about how it was does not count, and whoever said
    it is told."""
    review, fallen = case.review, list(case.votes)
    assert case.held is not None
    records.update_review(review, is_changed=True, snapshot=now.shown, digest=now.digest)
    told = {"what": "shown anew", "version": review.version, "fallen": len(fallen) or None}
    answering.record(case.held, Event.HANDLED, told, actor="")
    if not fallen:
        return
    records.let_fall(fallen)
    case.votes.clear()
    to = [vote.actor for vote in fallen]
    told_why = dump_problem(Stale(now.difference), now.drift)
    records.insert_notice(review, "reopened", at=case.now, to=to, data=told_why)


def dump_problem(problem: Exception, drift: Sequence[FieldDiff] = ()) -> dict[str, Any]:
    """Why something was not carried out, for a notice: in words of ours for programs, and as what it is, to be told to
    each in their language (`refused.tell_problem`).

    >>> dump_problem(DecisionFailed("no such account"))["problem"]
    'no such account'
    """
    rule = problem.obstacle.rule if isinstance(problem, NotAllowed) else None
    # Only what is ours: others' errors may have anything under such a name.
    said = None
    if isinstance(problem, DecisionFailed):
        said = str(problem.problem)
    elif isinstance(problem, PolicyRefused):
        said = str(problem.reason)
    fields = [one.name for one in drift] if isinstance(problem, Stale) else None
    told = {"refused": type(problem).__name__, "rule": rule, "problem": said, "fields": fields}
    return {"reason": str(problem), **{name: value for name, value in told.items() if value}}


def note_refusal(id: UUID, actor: Any, what: Any, door: str, refused: Exception) -> None:
    """Write it into the ledger; and after a change of the subject, show it as it is from now on."""
    tried = what if isinstance(what, str) and what.isprintable() else show(what)
    told = {
        "interaction": str(id),
        "refused": type(refused).__name__,
        "rule": refused.obstacle.rule if isinstance(refused, NotAllowed) else None,
        "outcome": tried[:100],
        "door": door,
        "reason": str(refused)[:1000],
    }
    store.in_transaction(answering.reach(), lambda: _note(id, read_actor(actor), told, isinstance(refused, Stale)))


def _note(id: UUID, actor: str, told: dict[str, Any], is_stale: bool) -> None:
    rows = Review.objects.using(answering.reach().alias).filter(pk=id)
    found = rows.values_list("instance_id", "interaction__item").first()
    if found is None:
        return
    instance, is_item = found
    row = {name: value for name, value in told.items() if value}
    answering.record_refusal(instance, row, actor=actor, item=id if is_item else None)
    if is_stale:
        case = open_case(id)
        now = case.read_subject(lock=True)
        # Somebody may have decided about the new state meanwhile, and that stands.
        if case.state.is_open and case.review.effective_at is None and now.shown is not None:
            show_anew(case, now)


def check_actor(actor: Any) -> None:
    """That it is a user."""
    if not isinstance(actor, get_user_model()) or actor.pk is None:
        raise InvalidCall(f"actor must be a saved user, not {show(actor)}: people decide, under their own rights")


def read_id(review: Any) -> UUID:
    """The id of a review that is given as a row, its interaction, or an id."""
    if isinstance(review, Review | Interaction):
        id: UUID = review.pk
        return id
    if isinstance(review, UUID):
        return review
    if isinstance(review, Instance):
        raise InvalidCall(
            "an Instance is no review, and may have several: pass Review.objects.get(instance=…, open=True), with "
            "Review from approvals.models; in tests, approvals.testing.decide takes an instance"
        )
    try:
        return UUID(review)
    except (TypeError, ValueError, AttributeError) as error:
        raise UnknownReview(review) from error
