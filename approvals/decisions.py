"""`decide()`: the only way to answer, for page, REST, admin, link, chat and agents alike.

Lives here: deciding, taking a decision back, and carrying one out. Must not live here: what the rules are (`policies`)
and what is known (`cases`). Invariants owned:

* Everything is checked and written under the locks of instance, interaction and review, in one transaction: one of
  two deciders wins, and a person counts once. With grace it is two: the second checks subject and authority again.
* A refused decision changes nothing but this: it is in the ledger, and where the subject had changed the review
  shows it as it is now, so that whoever looks again decides about that.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.contrib.auth import get_user_model
from django.db import DatabaseError, transaction
from django.utils.translation import gettext

from approvals import records
from approvals.cases import Case
from approvals.conf import conf
from approvals.exceptions import (
    AlreadyDecided,
    DecisionFailed,
    DecisionRefused,
    NotAllowed,
    ReasonRequired,
    Stale,
)
from approvals.models import Review, Vote
from approvals.policies import (
    Attempt,
    Obstacle,
    Verdict,
    check_decision,
    dump_verdict,
    find_outcome,
    list_obstacles,
)
from approvals.settling import (
    TIME,
    begin_grace,
    check_actor,
    finish,
    note_refusal,
    open_case,
    read_id,
    reopen,
    reverse,
    show_anew,
)
from workflows import answering
from workflows.arguments import read_actor
from workflows.exceptions import InteractionResolved, InvalidData, PolicyRefused
from workflows.jsontext import check_text
from workflows.lifecycle import Event
from workflows.models import Interaction

#: Characters of a reason.
MAX_REASON = 4_000


@dataclass(frozen=True, slots=True)
class Door:
    """Where a decision comes from, and how carefully it was made there. The default trusts its caller: it is code."""

    name: str = "python"
    is_automated: bool = False
    via_bulk: bool = False
    single_key: bool = False
    saw_diff: bool = True
    has_reauthenticated: bool = True
    #: The digest of what was on screen, where that is known.
    seen: str | None = None


PYTHON = Door()


@dataclass(frozen=True, slots=True)
class Recorded:
    """What became of a decision."""

    review: Review
    vote: Vote | None
    #: "open": more votes are needed; "grace": decided, and carried out at `effective_at`; "decided".
    state: str
    outcome: str = ""
    effective_at: datetime | None = None
    verdict: Verdict | None = None


def decide(
    review: Review | Interaction | UUID | str,
    outcome: str,
    *,
    actor: Any,
    reason: str = "",
    data: Any = None,
    version: int | None = None,
    grace: bool = False,
    override: bool = False,
    door: Door = PYTHON,
) -> Recorded:
    """Record one person's decision; if it is the last one needed, answer.

    >>> decide(review, "approve", actor=ann).state
    'decided'
    """
    id = read_id(review)
    reason = check_text(reason, "a reason", limit=MAX_REASON, blank=True) if reason else ""
    check_actor(actor)
    late = False
    try:
        with transaction.atomic(using=answering.reach().alias):
            case = open_case(id)
            if case.held is not None and case.held.found.late:
                late = _expire(case, actor)
            else:
                attempt = _Attempt(actor, outcome, reason, data, version, grace, override, door)
                return _decide(case, attempt)
    except (DecisionRefused, InvalidData, PolicyRefused) as refused:
        note_refusal(id, actor, outcome, door.name, refused)
        raise
    assert late
    raise AlreadyDecided


def undo(review: Review | UUID | str, *, actor: Any, door: Door = PYTHON) -> Review:
    """Take one's decision back: within its grace, or while others still have to decide.

    >>> undo(review, actor=ann).effective_at is None
    True
    """
    id = read_id(review)
    check_actor(actor)
    try:
        with transaction.atomic(using=answering.reach().alias):
            case = open_case(id)
            vote = find_undoable(case, actor)
            if case.review.effective_at is not None:
                reopen(case, vote, actor=read_actor(actor), user=actor, door=door.name, reason="")
            else:
                reverse(case, vote, actor=read_actor(actor), user=actor, door=door.name, reason="")
            return case.review
    except DecisionRefused as refused:
        note_refusal(id, actor, "undo", door.name, refused)
        raise


def carry_out(id: UUID) -> bool:
    """The second transaction of a decision that could be undone; whether there was something to do.

    What has changed meanwhile (subject, authority, what `on_decision` finds) takes it back, and tells the decider.
    """
    problem: Exception | None = None
    for _ in range(2):
        try:
            with transaction.atomic(using=answering.reach().alias):
                case = open_case(id)
                review = case.review
                if not review.open or review.effective_at is None or review.effective_at > case.now:
                    return False
                vote = next((one for one in reversed(case.votes) if one.user_id == review.decided_by_id), None)
                if vote is None:
                    raise DecisionFailed("the vote that decided it is gone")
                problem = problem or _find_change(case, vote)
                if problem is not None:
                    reopen(case, vote, actor="holdpoint", user=None, door=TIME, reason=str(problem))
                else:
                    finish(case, review.outcome, actor=vote.actor, user=vote.user_id, door=vote.door, last=vote)
                return True
        except DatabaseError:
            raise  # trouble of the server: the next sweep tries again
        except Exception as error:
            if problem is not None:
                raise
            problem = error
    return False


# --- deciding ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Attempt:
    actor: Any
    outcome: str
    reason: str
    data: Any
    version: int | None
    grace: bool
    override: bool
    door: Door


def _decide(case: Case, attempt: _Attempt) -> Recorded:
    assert case.held is not None
    actor, door, review = attempt.actor, attempt.door, case.review
    now = case.read_subject(lock=True) if review.open else None
    checked = Attempt(
        outcome=attempt.outcome,
        reason=attempt.reason,
        is_current=now is None or _is_current(case, attempt, now.digest, is_gone=now.is_gone),
        difference={} if now is None else now.difference,
        via_bulk=door.via_bulk,
        single_key=door.single_key,
        saw_diff=door.saw_diff,
        has_reauthenticated=door.has_reauthenticated,
    )
    chosen = _check_override(case, attempt, checked) if attempt.override else None
    if chosen is None:
        facts = case.find_facts(actor, is_automated=door.is_automated)
        chosen = check_decision(case.rules, facts, checked).name
    answering.ask_site(case.held, read_actor(actor))
    data = _check_data(case, chosen, attempt.data)
    if now is not None and now.digest != review.digest:
        show_anew(case, now.digest)
    vote = _make_vote(case, attempt, chosen, data)
    verdict = case.count([*case.votes, vote])
    vote.verdict = dump_verdict(verdict)
    records.insert(vote)
    case.votes.append(vote)
    case.all_votes.append(vote)
    state, answer = verdict.state, verdict.outcome
    if attempt.override:
        state, answer = "decided", chosen
    until = _find_grace(case, attempt) if state != "open" else None
    answering.record(case.held, Event.VOTED, _tell_vote(vote, verdict, until), actor=vote.actor)
    if state == "open" or answer is None:
        if review.claimed_by_id is not None:
            records.update_review(review, claimed_by_id=None, claimed_at=None)  # done: let others go on
        return Recorded(review, vote, "open", verdict=verdict)
    if until is not None:
        begin_grace(case, answer, vote, until)
        return Recorded(review, vote, "grace", answer, until, verdict)
    last = vote if vote.outcome == answer else None
    finish(
        case, answer, actor=vote.actor, user=vote.user_id, door=door.name, last=last or vote, override=attempt.override
    )
    return Recorded(review, vote, "decided", answer, verdict=verdict)


def _is_current(case: Case, attempt: _Attempt, digest: str, *, is_gone: bool) -> bool:
    """Whether what was shown is what there is. Whoever saw the newest state may decide about it at once."""
    if is_gone:
        return False
    if attempt.door.seen is not None:
        return attempt.door.seen == digest
    return digest == case.review.digest and attempt.version in (None, case.review.version)


def _check_override(case: Case, attempt: _Attempt, checked: Attempt) -> str:
    """In place of those asked: a permission of its own, always with a reason, and never one's own request."""
    actor = attempt.actor
    facts = case.find_facts(actor, is_automated=attempt.door.is_automated)
    if not (hasattr(actor, "has_perm") and actor.has_perm("holdpoint_approvals.override_review")):
        raise NotAllowed(Obstacle("permission", gettext("You can’t override: it takes a permission of its own.")))
    if not attempt.reason.strip():
        raise ReasonRequired(attempt.outcome)
    binding = [
        one for one in list_obstacles(case.rules, facts) if one.rule not in ("not_candidate", "claimed", "voted")
    ]
    if binding:
        obstacle = binding[0]
        if obstacle.rule == "closed":
            raise AlreadyDecided(facts.decided.by, facts.decided.at, facts.decided.outcome)
        raise NotAllowed(obstacle)
    if not checked.is_current:
        raise Stale(checked.difference)
    return find_outcome(case.outcomes, attempt.outcome).name


def _check_data(case: Case, outcome: str, data: Any) -> Any:
    """The form's data. The last outcome, which also stands for no agreement, does without."""
    assert case.held is not None
    is_last = len(case.outcomes) > 1 and outcome == case.outcomes[-1].name
    if not (is_last and data is None):
        answering.check_data(case.held, data)
    return data


def _make_vote(case: Case, attempt: _Attempt, outcome: str, data: Any) -> Vote:
    standing = case.find_standing(attempt.actor)
    return Vote(
        review=case.review,
        instance_id=case.review.instance_id,
        step=case.review.step,
        at=case.now,
        user_id=attempt.actor.pk,
        on_behalf_of_id=standing.on_behalf_of,
        automated=attempt.door.is_automated,
        override=attempt.override,
        outcome=outcome,
        reason=attempt.reason,
        actor=read_actor(attempt.actor),
        door=attempt.door.name,
        digest=case.review.digest,
        groups=sorted(standing.groups),
        data=data,
    )


def _tell_vote(vote: Vote, verdict: Verdict, until: datetime | None) -> dict[str, Any]:
    return {
        "vote": str(vote.pk),
        "outcome": vote.outcome,
        "reason": vote.reason or None,
        "door": vote.door,
        "on_behalf_of": None if vote.on_behalf_of_id is None else f"user:{vote.on_behalf_of_id}",
        "automated": vote.automated or None,
        "override": vote.override or None,
        "digest": vote.digest or None,
        "verdict": dump_verdict(verdict),
        "effective_at": None if until is None else until.isoformat(),
    }


# --- grace ------------------------------------------------------------------------------------------------


def _find_grace(case: Case, attempt: _Attempt) -> datetime | None:
    """Until when it can be undone; None where it is carried out at once."""
    wanted = attempt.grace and conf.undo_seconds > 0 and case.review.risk != "high" and not attempt.door.is_automated
    if not wanted or case.held is None or not case.held.parked:
        return None
    return case.now + timedelta(seconds=conf.undo_seconds)


def find_undoable(case: Case, user: Any) -> Vote:
    """The vote that this person may take back now; the error that says why not."""
    review, vote = case.review, case.find_vote(user)
    if not review.open or (review.effective_at is not None and review.effective_at <= case.now):
        raise AlreadyDecided(case.name(review.decided_by_id), review.decided_at, review.outcome)
    if vote is None or (review.effective_at is not None and review.decided_by_id != vote.user_id):
        raise NotAllowed(Obstacle("voted", gettext("You have decided nothing here that could be undone.")))
    return vote


def _find_change(case: Case, vote: Vote) -> DecisionRefused | None:
    """What has changed since the decision, of what it took."""
    now = case.read_subject(lock=True)
    if now.is_gone or now.digest != vote.digest:
        return Stale(now.difference)
    if vote.override:
        return None
    user = get_user_model()._default_manager.filter(pk__in=[vote.user_id]).first()
    if user is None or not (_stands(case, user, vote)):
        told = gettext("You can’t decide this any more: you are no longer among those asked.")
        return NotAllowed(Obstacle("not_candidate", told))
    return None


def _stands(case: Case, user: Any, vote: Vote) -> bool:
    """Whether the decider may still decide; their own vote does not count against it."""
    others = [one for one in case.votes if one.pk != vote.pk]
    case.votes, kept = others, case.votes
    try:
        standing = case.find_standing(user)
    finally:
        case.votes = kept
    own = case.review.four_eyes and user.pk in (case.review.requester_id, *case.earlier_deciders)
    return (standing.is_candidate or standing.on_absence) and not own


def _expire(case: Case, actor: Any) -> bool:
    """It came too late: the answer is not taken, and the deadline that has passed fires."""
    assert case.held is not None
    try:
        answering.answer(case.held, None, actor=read_actor(actor), door="")
    except InteractionResolved:
        return True
    raise AssertionError("unreachable")  # pragma: no cover
