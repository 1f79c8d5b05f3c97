"""`decide()`: the only way to answer, for page, REST, admin, link, chat and agents alike.

Lives here: deciding. Must not live here: what the rules are (`rules`), what is known (`case`), and what happens
between a decision and its effect (`undo_window`). Invariants owned:

* Everything is checked and written under the locks of instance, interaction and review, in one transaction: one of
  two deciders wins, and a person counts once.
* A refused decision changes nothing but this: it is in the ledger, and where the subject had changed the review
  shows it as it is now, so that whoever looks again decides about that.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.utils.translation import gettext

from approvals.deciding.effects import find_next_moment, finish
from approvals.deciding.fallen_votes import ask_again, overturn, reverse, show_anew
from approvals.deciding.refused_attempt import note_refusal
from approvals.deciding.undo_window import begin_grace, find_end
from approvals.exceptions import AlreadyDecided, DecisionRefused, NotAllowed, ReasonRequired
from approvals.forms.edits import is_same
from approvals.forms.form_values import compare_data
from approvals.forms.secret_fields import find_tree, hide_secrets, keep_untouched
from approvals.models import Review, Vote, writer
from approvals.models.vote import MAX_TEXT
from approvals.people.person import Person
from approvals.people.principals import load_user
from approvals.reviews.electorate import count_votes
from approvals.reviews.held_case import HeldCase, check_actor, open_case, read_id
from approvals.reviews.permissions import Permissions, never_own, stand_above
from approvals.rules import Attempt, Facts, Obstacle, Verdict, check_decision, dump_verdict, says_no
from approvals.rules.door import PYTHON, Door
from approvals.subjects.current_state import SubjectState
from workflows import store
from workflows.api.arguments import read_actor
from workflows.api.completions import owned_answers
from workflows.exceptions import InteractionResolved, InvalidData, PolicyRefused
from workflows.lifecycle import Event
from workflows.models import Interaction
from workflows.values.json_text import check_text, dump_value


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
    actor: Person,
    reason: str = "",
    data: Any = None,
    version: int | None = None,
    grace: bool | timedelta = False,
    override: bool = False,
    door: Door = PYTHON,
) -> Recorded:
    """Record one person's decision; if it is the last one needed, answer: at once, or with `grace` when it can no
    longer be undone. A timedelta adds so much to the time in which it can.

    >>> decide(review, "approve", actor=ann).state
    'decided'
    """
    id = read_id(review)
    check_actor(actor)
    call = _DecideCall(actor, outcome, _read_reason(reason), data, version, grace, override, door)
    try:
        recorded = store.in_transaction(owned_answers.reach(), lambda: _decide(open_case(id), call))
    except (DecisionRefused, InvalidData, PolicyRefused) as refused:
        note_refusal(id, actor, outcome, door.name, refused)
        raise
    if recorded is None:
        late = AlreadyDecided()
        note_refusal(id, actor, outcome, door.name, late)
        raise late
    return recorded


# --- deciding ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _DecideCall:
    """What `decide` was called with."""

    actor: Person
    outcome: str
    reason: str
    data: Any
    version: int | None
    grace: bool | timedelta
    override: bool
    door: Door


def _decide(case: HeldCase, call: _DecideCall) -> Recorded | None:
    """None where it came too late; then the deadline has fired, which has to be committed."""
    if case.held.found.late:
        _expire(case, call.actor)
        return None
    call = replace(call, actor=_read_again(call.actor))
    now = case.read_subject(lock=True) if case.review.open else None
    chosen = _check(case, call, now)
    owned_answers.ask_site(case.held, read_actor(call.actor))
    if now is not None and now.shown is not None:
        show_anew(case, now)
    data = _read_data(case, chosen, call)
    if call.override and (own := case.find_vote(call.actor)) is not None:
        _take_back(case, own, call)
    return _settle(case, call, _make_vote(case, call, chosen, data))


def _read_reason(given: Any) -> str:
    text = given.strip() if isinstance(given, str) else given
    return check_text(text, "a reason", limit=MAX_TEXT, blank=True) if text else ""


def _settle(case: HeldCase, call: _DecideCall, vote: Vote) -> Recorded:
    review, door = case.review, call.door
    fallen = overturn(case, vote)
    verdict = count_votes(case, [*case.votes, vote])
    answer = vote.outcome if call.override else verdict.outcome
    until = None if answer is None else find_end(case, wanted=call.grace if not door.is_automated else False)
    is_changed = answer is None and vote.changed_from is not None
    vote.verdict = dump_verdict(verdict)
    vote.version = review.version + is_changed
    writer.insert(vote)
    case.votes.append(vote)
    case.all_votes.append(vote)
    owned_answers.record(case.held, Event.VOTED, _tell_vote(vote, until, fallen), actor=vote.actor)
    if answer is None:
        # Done: let others go on.
        values = {"claimed_by_id": None, "claimed_at": None, "next_at": find_next_moment(case)}
        writer.update_review(review, is_changed=is_changed, **values)
        ask_again(case, vote, fallen)
        return Recorded(review, vote, "open", verdict=verdict)
    if until is not None:
        begin_grace(case, answer, vote, until)
        return Recorded(review, vote, "grace", answer, until, verdict)
    override = vote.reason if call.override else None
    finish(case, answer, actor=vote.actor, user=vote.user_id, door=door.name, override=override)
    return Recorded(review, vote, "decided", answer, verdict=verdict)


def _read_again(actor: Person) -> Any:
    """The person as they are now: what they may is remembered by the object that a caller has held for long."""
    found = load_user(actor.pk)
    if found is None:
        raise NotAllowed(Obstacle("not_candidate", gettext("You can’t decide because your account is gone.")))
    return found


def _check(case: HeldCase, call: _DecideCall, now: SubjectState | None) -> str:
    """The outcome that may be recorded; raises what forbids it."""
    door = call.door
    attempt = Attempt(
        outcome=call.outcome,
        reason=call.reason,
        is_current=now is None or _is_current(case, call, now),
        difference=_find_difference(case, call, now),
        via_bulk=door.via_bulk,
        single_key=door.single_key,
        saw_diff=door.saw_diff,
        has_reauthenticated=door.has_reauthenticated,
    )
    facts = case.find_facts(call.actor, is_automated=door.is_automated)
    if call.override:
        return _check_override(case, call, facts, attempt)
    return check_decision(case.rules, facts, attempt).name


def _check_override(case: HeldCase, call: _DecideCall, facts: Facts, attempt: Attempt) -> str:
    """In place of those asked: a permission of its own, always with a reason, and never one's own request."""
    obstacle = Permissions(case, call.actor).overriding
    if obstacle is not None and obstacle.rule == "permission":
        raise NotAllowed(obstacle)
    chosen = check_decision(never_own(case.rules), stand_above(facts), attempt)
    if not call.reason.strip():
        raise ReasonRequired(call.outcome)
    return chosen.name


def _is_current(case: HeldCase, call: _DecideCall, now: SubjectState) -> bool:
    """Whether what was shown is what there is. Whoever saw the newest state may decide about it at once.

    About what is gone one can only say no: nothing happens by that, and it would wait for ever otherwise.
    """
    if call.version not in (None, case.review.version):
        return False
    if now.is_gone:
        return any(one.name == call.outcome and says_no(one, case.outcomes) for one in case.outcomes)
    return now.digest == (case.review.digest if call.door.seen is None else call.door.seen)


def _find_difference(case: HeldCase, call: _DecideCall, now: SubjectState | None) -> Mapping[str, tuple[Any, Any]]:
    """What is not as it was shown: of the subject, and of what others have filled in since that version."""
    found = {} if now is None else now.difference
    if call.version in (None, case.review.version) or case.schema is None or not case.review.open:
        return found
    shown = case.find_shown(call.version)
    edits = compare_data(case.schema.describe(), shown, case.table.data)
    return {**found, **{one.label: (one.before.text, one.after.text) for one in edits}}


def _read_data(case: HeldCase, outcome: str, call: _DecideCall) -> Any:
    """The form's data, as it will be read back.

    The last outcome, which also stands for no agreement, does without. Whoever has looked at what others filled in,
    and sends nothing else, agrees to that.
    """
    data, table = call.data, case.table
    if data is not None:
        data = json.loads(dump_value(data, "the data"))  # judged as it is kept: a date is a text
    says_yes = not any(one.name == outcome and says_no(one, case.outcomes) for one in case.outcomes)
    if says_yes and table.vote is not None:
        if data is not None and case.schema is not None:
            # What programs are shown has a sign in the place of a secret: who sends that back means what stands there.
            data = keep_untouched(table.data, hide_secrets(find_tree(case.schema.describe()), table.data), data)
        if call.door.via_bulk and not is_same(data, table.data, case.schema):
            # What others have filled in has to be looked at.
            raise InvalidData({"": ["others have filled it in: look at this one on its own"]})
        if data is None and call.version is not None:
            return table.data
    if data is None and len(case.outcomes) > 1 and outcome == case.outcomes[-1].name:
        return None
    owned_answers.check_data(case.held, data)
    return data


def _take_back(case: HeldCase, vote: Vote, call: _DecideCall) -> None:
    """Everybody counts once: who overrides what they voted for themselves has changed their mind."""
    actor = call.actor
    reverse(case, vote, actor=read_actor(actor), user=actor, door=call.door.name, reason=call.reason)


def _make_vote(case: HeldCase, call: _DecideCall, outcome: str, data: Any) -> Vote:
    standing = case.find_standing(call.actor)
    return Vote(
        review=case.review,
        instance_id=case.review.instance_id,
        step=case.review.step,
        at=case.now,
        user_id=call.actor.pk,
        on_behalf_of_id=standing.on_behalf_of,
        automated=call.door.is_automated,
        override=call.override,
        outcome=outcome,
        reason=call.reason,
        actor=read_actor(call.actor),
        door=call.door.name,
        digest=case.review.digest,
        groups=sorted(standing.groups),
        data=data,
    )


def _tell_vote(vote: Vote, until: datetime | None, fallen: Sequence[Vote]) -> dict[str, Any]:
    return {
        "vote": str(vote.pk),
        "outcome": vote.outcome,
        "reason": vote.reason or None,
        "door": vote.door,
        "on_behalf_of": None if vote.on_behalf_of_id is None else f"user:{vote.on_behalf_of_id}",
        "automated": vote.automated or None,
        "override": vote.override or None,
        "digest": vote.digest or None,
        "edited": vote.changed_from is not None or None,
        "fallen": [str(one.pk) for one in fallen] or None,
        "verdict": vote.verdict,
        "effective_at": None if until is None else until.isoformat(),
    }


def _expire(case: HeldCase, actor: Person) -> None:
    """It came too late: the answer is not taken, and the deadline that has passed fires."""
    try:
        owned_answers.answer(case.held, None, actor=read_actor(actor), door="")
    except InteractionResolved:
        return
    raise AssertionError("unreachable")  # pragma: no cover
