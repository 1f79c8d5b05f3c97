"""An approval as one of several open questions of a function: answered, withdrawn, undone, past its time."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

import workflows
from approvals import AlreadyDecided, Approval, undo
from approvals.models import Review
from approvals.rules.door import Door
from approvals.testing import decide, pending
from tests.support.review_calls import again, make_person
from workflows import durable, received
from workflows.models import Interaction
from workflows.testing import advance, assert_done, assert_open, drain

pytestmark = pytest.mark.django_db


@pytest.fixture
def ann() -> User:
    return make_person("ann", last_name="Archer")


@pytest.fixture
def ben() -> User:
    return make_person("ben", last_name="Baker")


@durable(name="open-refund")
def refund(ctx):
    first = ctx.ask("first", Approval("Refund 40 €", assignees=["ann"]), timeout="2d")
    second = ctx.ask("second", Approval("Refund 40 € at once", assignees=["ben"]))
    taken_back = ctx.ask("taken back", received("withdraw"))
    won = ctx.wait_any(first, second, taken_back)
    for one in (first, second, taken_back):
        if one is not won:
            one.withdraw()
    ctx.sleep("nap", "1m")
    return [won.id, won.answer.outcome if won.answered and won is not taken_back else None]


@pytest.fixture
def started(ann, ben):
    instance = refund.start()
    drain()
    return instance


def find(title: str) -> Review:
    return Review.objects.get(title=title)


def test_the_first_decision_wins_and_the_other_card_is_closed_everywhere(started, ann, ben):
    assert_open(started, ["first", "second", "taken back"])
    left = find("Refund 40 € at once")
    decide(find("Refund 40 €"), "approve", actor=ann)
    drain()
    assert pending(started) == []
    assert Interaction.objects.get(pk=left.pk).status == "cancelled"
    with pytest.raises(AlreadyDecided):
        decide(again(left), "approve", actor=ben)
    advance("1m")
    assert_done(started, ["first", "approve"])


def test_a_signal_takes_both_cards_back(started):
    assert len(pending(started)) == 2
    workflows.signal(started.id, "withdraw")
    drain()
    assert pending(started) == []
    advance("1m")
    assert_done(started, ["taken back", None])


def test_a_decision_can_be_undone_while_its_instance_waits_for_several(started, ann):
    review = find("Refund 40 €")
    assert decide(review, "approve", actor=ann, grace=True).state == "grace"
    undo(review, actor=ann)
    drain()
    assert_open(started, ["first", "second", "taken back"])
    decide(again(review), "reject", actor=ann, reason="no", grace=True)
    advance("1h")
    assert_done(started, ["first", "reject"])


def test_no_deadline_passes_in_the_time_to_undo(started, ann):
    review = find("Refund 40 €")
    advance("47h59m58s")
    decide(review, "approve", actor=ann, grace=True)
    advance("10s")
    advance("1h")
    assert_done(started, ["first", "approve"])


def test_the_time_of_one_card_is_over_for_that_one_only(ann, ben):
    @durable(name="open-refund-late")
    def refund_late(ctx):
        short = ctx.ask("short", Approval("Short", assignees=["ann"]), timeout="1h")
        long = ctx.ask("long", Approval("Long", assignees=["ben"]), timeout="2d")
        return [ctx.wait_any(short, long).id, long.result().outcome]

    started = refund_late.start()
    drain()
    advance("1h")
    assert [one.title for one in pending(started)] == ["Long"]
    decide(find("Long"), "approve", actor=ben)
    drain()
    assert_done(started, ["short", "approve"])


def test_a_decision_on_the_page_wakes_the_run(started, ann):
    from approvals import decide as decide_at

    decide_at(find("Refund 40 €"), "approve", actor=ann, door=Door("page"))
    drain()
    assert pending(started) == []


def test_a_fork_behind_the_decision_keeps_it_and_one_at_the_wait_shows_both_cards_anew(started, ann, ben):
    decide(find("Refund 40 €"), "approve", actor=ann)
    advance("1m")
    assert_done(started, ["first", "approve"])
    behind = workflows.fork(started, at="nap")
    drain()
    assert pending(behind) == []
    advance("1m")
    assert_done(behind, ["first", "approve"])
    anew = workflows.fork(started, at="first, second, taken back")
    drain()
    assert_open(anew, ["first", "second", "taken back"])
    assert len(pending(anew)) == 2
    decide(next(one for one in pending(anew) if one.title == "Refund 40 € at once"), "reject", actor=ben, reason="no")
    drain()
    assert pending(anew) == []
    advance("1m")
    assert_done(anew, ["second", "reject"])
    assert_done(started, ["first", "approve"])
