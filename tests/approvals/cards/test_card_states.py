"""The card of a review in every state: open, in its grace, decided, closed, and late."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection

from approvals import decide, undo, withdraw
from approvals.exceptions import AlreadyDecided
from approvals.models import Review
from tests.support.worlds.cards import People, ask, build
from workflows.testing import advance, drain

pytestmark = pytest.mark.django_db


def test_in_its_grace_nothing_else_can_be_decided(people: People) -> None:
    review = ask(groups=["Finance"])
    decide(review, "approve", actor=people.ann, grace=True)
    card = build(review, people.cid)
    assert (card.status, card.decided_at is not None, card.deadline is not None) == ("grace", True, True)
    assert card.effective_at == card.decided_at + timedelta(seconds=8)  # type: ignore[operator]
    assert card.answer is not None
    assert (card.answer.outcome, card.answer.label, card.answer.by) == ("approve", "Approve", "Ann Archer")
    assert card.endings == ()
    assert "is deciding this" in card.obstacle
    assert build(review, people.ann).actions["undo"] == ""
    undo(review, actor=people.ann)
    card = build(review, people.ann)
    assert (card.status, card.effective_at, card.answer) == ("open", None, None)
    assert [entry.kind for entry in card.timeline] == ["undo", "vote", "asked"]


def test_a_decided_card_has_its_answer_for_ever(asked: Review, people: People) -> None:
    decide(asked, "reject", actor=people.ann, reason="No\u202e receipt\nat all")
    decide(asked, "reject", actor=people.cid, reason="Same here")
    drain()
    for user in (people.ann, people.ben, None):
        card = build(asked, user)
        assert card.status == "decided"
        assert card.answer is not None
        assert (card.answer.outcome, card.answer.label, card.answer.tone) == ("reject", "Turn down", "negative")
        assert (card.answer.by, card.answer.reason) == ("Cid Campos", "Same here")
        assert card.decided_at is not None
        assert [row.after.text for row in card.diff][:1] == ["€99.50"]  # what was asked for, whatever became of it
        assert card.drift == ()
        assert not card.may_decide


def test_what_time_answered_was_answered_by_nobody(people: People) -> None:
    review = ask(groups=["Finance"], escalate=[("1d", ("outcome", "reject"))])
    advance("25h")
    card = build(review, people.ann)
    assert card.status == "decided"
    assert card.answer is not None
    assert (card.answer.label, card.answer.by, card.answer.reason) == ("Reject", "", "")
    assert card.told.startswith("Answered “Reject” automatically ")


def test_what_was_withdrawn_cancelled_or_ran_out_is_closed(people: People) -> None:
    withdrawn = ask(groups=["Finance"], requester=people.ben)
    withdraw(withdrawn, actor=people.ben, reason="Not any more")
    late = ask(groups=["Finance"], timeout="1d")
    advance("25h")
    for review in (withdrawn, late):
        card = build(review, people.ann)
        assert card.status == "closed"
        assert card.closed_at is not None
        assert card.endings == ()
        assert card.what_then == ""
        assert not card.may_decide
        assert card.obstacle


def test_past_its_deadline_no_button_pretends_before_the_sweep_has_come(people: People) -> None:
    review = ask(groups=["Finance"], timeout="1d")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_interaction SET deadline = created_at WHERE id = %s", [review.pk])
    card = build(review, people.ann)
    assert card.status == "closed"
    assert {one.obstacle for one in card.outcomes} == {"The time to decide is over."}
    assert {told for name, told in card.actions.items() if name != "comment"} == {"The time to decide is over."}
    assert card.actions["comment"] == ""
    with pytest.raises(AlreadyDecided):
        decide(review, "approve", actor=people.ann)
