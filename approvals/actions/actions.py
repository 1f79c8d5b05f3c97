"""What people do to a review beside deciding it: claim, ask, put aside, remind, withdraw; handing on lives beside it.

Lives here: each action. Must not live here: the rules that forbid them (`permissions`). Invariant owned: everything
that was done is in the instance's ledger, in the same transaction; but for what somebody puts aside for themselves.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django.utils.translation import gettext

from approvals.actions.action_transaction import act, read_later, read_words, record
from approvals.deciding.effects import close_withdrawn
from approvals.exceptions import InvalidApproval, NotAllowed
from approvals.models import Comment, Review, writer
from approvals.people.person import Person
from approvals.people.principals import USER
from approvals.reviews.held_case import read_id
from approvals.reviews.permissions import find_question
from approvals.rules import Obstacle
from approvals.rules.action_kinds import ACTION_KINDS
from workflows.api.arguments import read_actor
from workflows.api.completions import owned_answers


def claim(review: Any, *, actor: Person, door: str = "python") -> Review:
    """Say that one is at it: others cannot decide until it is released.

    >>> claim(review, actor=ann).claimed_by_id == ann.pk
    True
    """
    with act("claim", review, actor, door) as case:
        if case.review.claimed_by_id != actor.pk:
            writer.update_review(case.review, claimed_by_id=actor.pk, claimed_at=case.now)
            record(case, "claim", actor, door)
        return case.review


def release(review: Any, *, actor: Person, door: str = "python") -> Review:
    """Let others decide again.

    >>> release(review, actor=ann).claimed_by_id is None
    True
    """
    with act("release", review, actor, door) as case:
        if case.review.claimed_by_id is not None:
            whose = case.review.claimed_by_id
            writer.update_review(case.review, claimed_by_id=None, claimed_at=None)
            record(case, "release", actor, door, {"of": f"user:{whose}" if whose != actor.pk else None})
        return case.review


def extend(
    review: Any,
    *,
    actor: Person,
    due: datetime | None = None,
    deadline: datetime | None = None,
    reason: str = "",
    door: str = "python",
) -> Review:
    """Give those asked more time: another moment at which it is due, another end of the wait, or both.

    >>> extend(review, due=tomorrow, actor=ann).due_at == tomorrow
    True
    """
    reason = read_words(reason, "reason", "a reason", blank=True)
    if due is None and deadline is None:
        raise InvalidApproval("due", None, "say until when: due=, deadline= or both")
    with act("extend", review, actor, door) as case:
        for option, moment in (("due", due), ("deadline", deadline)):
            if moment is not None:
                read_later(moment, option, case.now)
        told = {
            "what": ACTION_KINDS["extend"].event,
            "door": door,
            "reason": reason or None,
            "due": due.isoformat() if due else None,
        }
        if due is not None:
            writer.move_due(case.review, due)
        if deadline is None:
            record(case, "extend", actor, door, {"due": told["due"], "reason": reason})
        elif not owned_answers.move_deadline(case.held, deadline, told, actor=read_actor(actor)):
            raise NotAllowed(
                Obstacle("closed", gettext("Its instance does not wait for it yet. Try again in a moment."))
            )
        return case.review


def comment(review: Any, text: str, *, actor: Person, door: str = "python") -> Comment:
    """Say something about it, to all who see it.

    >>> comment(review, "Is this within budget?", actor=ann).text
    'Is this within budget?'
    """
    text = read_words(text, "text", "a comment")
    with act("comment", review, actor, door) as case:
        made = writer.insert_comment(case.review, "comment", text, user=actor, at=case.now)
        record(case, "comment", actor, door, {"comment": str(made.pk)})
        return made


def request_info(review: Any, text: str, *, actor: Person, door: str = "python") -> Comment:
    """Ask the requester something; it can still be decided meanwhile.

    >>> request_info(review, "Which account?", actor=ann).kind
    'question'
    """
    text = read_words(text, "text", "a question")
    with act("request_info", review, actor, door) as case:
        made = writer.insert_comment(case.review, "question", text, user=actor, at=case.now)
        record(case, "request_info", actor, door, {"comment": str(made.pk)})
        to = [f"{USER}:{case.review.requester_id}"]
        writer.insert_notice(case.review, "question", at=case.now, to=to, data={"comment": str(made.pk)})
        return made


def answer_info(review: Any, text: str, *, actor: Person, door: str = "python") -> Comment:
    """The requester's answer. It raises the version: whoever decides should have seen it.

    >>> answer_info(review, "Account 4711", actor=ben).kind
    'answer'
    """
    text = read_words(text, "text", "an answer")
    with act("answer_info", review, actor, door) as case:
        question = find_question(case)
        made = writer.insert_comment(case.review, "answer", text, user=actor, at=case.now, answers=question)
        writer.update_review(case.review, is_changed=True)
        record(case, "answer_info", actor, door, {"comment": str(made.pk), "version": case.review.version})
        to = None if question is None or question.user_id is None else [f"{USER}:{question.user_id}"]
        writer.insert_notice(case.review, "answer", at=case.now, to=to, data={"comment": str(made.pk)})
        return made


def snooze(review: Any, *, until: datetime, actor: Person, door: str = "python") -> Review:
    """Put it aside for oneself until then.

    >>> snooze(review, until=tomorrow, actor=ann).open
    True
    """
    with act("snooze", review, actor, door) as case:
        writer.set_snooze(case.review, actor, read_later(until, "until", case.now))
        return case.review


def unsnooze(review: Any, *, actor: Person) -> None:
    """Take it up again.

    >>> unsnooze(review, actor=ann)
    """
    found = Review.objects.using(owned_answers.reach().alias).filter(pk=read_id(review)).first()
    if found is not None:
        writer.clear_snooze(found, actor)


def nudge(review: Any, *, actor: Person, door: str = "python") -> Review:
    """The requester's reminder to those asked, once in a while.

    >>> nudge(review, actor=ben).nudged_at is None
    False
    """
    with act("nudge", review, actor, door) as case:
        writer.update_review(case.review, nudged_at=case.now)
        record(case, "nudge", actor, door)
        writer.insert_notice(case.review, "nudge", at=case.now)
        return case.review


def withdraw(review: Any, *, actor: Person, reason: str = "", door: str = "python") -> Review:
    """Take the request back: an outcome "withdraw" if the author named one, else its instance is cancelled.

    >>> withdraw(review, actor=ben).open
    False
    """
    reason = read_words(reason, "reason", "a reason", blank=True)
    with act("withdraw", review, actor, door) as case:
        record(case, "withdraw", actor, door, {"reason": reason})
        close_withdrawn(case, actor, reason, door)
        return case.review
