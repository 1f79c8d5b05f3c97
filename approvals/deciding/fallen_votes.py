"""Votes that no longer count: taken back, overturned by another answer, or about a subject that has changed.

Lives here: writing that under the locks of a held case. Must not live here: whether it may be (`permissions`) and
decisions that are undone (`undo_window`). Invariants owned: a vote is taken back by a row of its own, nothing is
deleted; everybody whose vote fell by what others did is told once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from approvals.exceptions import DecisionFailed, NotAllowed, Stale
from approvals.forms.edits import carries, dump_before, is_same
from approvals.models import Vote, writer
from approvals.people.person import Person
from approvals.reviews.held_case import HeldCase
from approvals.subjects.current_state import SubjectState
from approvals.subjects.diff import FieldDiff
from approvals.subjects.diff_parts import ABSENT
from workflows.api.completions import owned_answers
from workflows.exceptions import PolicyRefused
from workflows.lifecycle import Event


def overturn(case: HeldCase, vote: Vote) -> list[Vote]:
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
    writer.let_fall(fallen, superseded_by=vote)
    case.votes = [one for one in case.votes if one not in fallen]
    return fallen


def ask_again(case: HeldCase, vote: Vote, fallen: Sequence[Vote]) -> None:
    """Whose approval no longer counts is told, once."""
    if fallen:
        to = list(dict.fromkeys(one.actor for one in fallen))
        told = {"vote": str(vote.pk), "by": vote.actor}
        writer.insert_notice(case.review, "edited", at=case.now, to=to, data=told)


def reverse(
    case: HeldCase, vote: Vote, *, actor: str, user: Person | None, door: str, reason: str, raises_version: bool = False
) -> None:
    """A vote taken back by a row of its own: nothing is deleted.

    If it had changed what was on the table, that is there again, with the approvals that stood. `raises_version` where
    others could decide meanwhile: they have looked at what is there no more.
    """
    before = case.table.data
    case.votes.remove(vote)
    writer.let_fall([vote])
    back = _list_put_back(case, vote)
    writer.put_back(back)
    case.votes = sorted([*case.votes, *back], key=lambda one: (one.at, one.pk))
    after = case.table.data
    is_changed = case.schema is not None and not is_same(before, after, case.schema)
    if is_changed and raises_version:
        writer.update_review(case.review, is_changed=True)
    writer.insert(
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
    owned_answers.record(case.held, Event.REVERSED, told, actor=actor)


def _list_put_back(case: HeldCase, vote: Vote) -> list[Vote]:
    """The approvals that fell by a vote which is taken back, as long as nobody else agrees to what it filled in; but
    for those who have decided anew."""
    if vote.changed_from is None or any(carries(one, case.outcomes) for one in case.votes):
        return []
    used = {key for one in case.votes for key in (one.user_id, one.on_behalf_of_id)} - {None}
    found = [one for one in case.all_votes if one.superseded_by_id == vote.pk and one.digest == case.review.digest]
    return [one for one in found if used.isdisjoint({one.user_id, one.on_behalf_of_id} - {None})]


def show_anew(case: HeldCase, now: SubjectState) -> None:
    """From now on the subject is shown as it is now; what was said about how it was does not count, and whoever said
    it is told."""
    review, fallen = case.review, list(case.votes)
    writer.update_review(review, is_changed=True, snapshot=now.shown, digest=now.digest)
    told = {"what": "shown anew", "version": review.version, "fallen": len(fallen) or None}
    owned_answers.record(case.held, Event.HANDLED, told, actor="")
    if not fallen:
        return
    writer.let_fall(fallen)
    case.votes.clear()
    to = [vote.actor for vote in fallen]
    told_why = dump_problem(Stale(now.difference), now.drift)
    writer.insert_notice(review, "reopened", at=case.now, to=to, data=told_why)


def dump_problem(problem: Exception, drift: Sequence[FieldDiff] = ()) -> dict[str, Any]:
    """Why something was not carried out, for a notice: in words of ours for programs, and as what it is, to be told to
    each in their language (`refusal_message.tell_problem`).

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
