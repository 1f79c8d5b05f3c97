"""What a project's own tests use: finding the review that is meant, and deciding by the one `decide()`."""

from __future__ import annotations

import doctest
import re
import uuid
from typing import Any

import pytest
from django.contrib.auth.models import User

import workflows
from approvals import AlreadyDecided, Approval, NotAllowed, ReasonRequired, testing
from approvals.models import Review, Vote, writer
from approvals.testing import assert_asked, decide, pending
from workflows import Await, Done, InvalidCall, Workflow, durable, step
from workflows.models import Instance, Interaction
from workflows.testing import advance, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db

ACCOUNT = {"type": "object", "properties": {"account": {"type": "string"}}, "required": ["account"]}


class Refund(Workflow):
    name = "testing-refund"

    @step
    def ask(self, ctx: Any) -> Any:
        return Await(Approval("Refund €1,240.00 to Acme GmbH", **ctx.input), then="pay", timeout="7d")

    @step
    def pay(self, ctx: Any) -> Any:
        return Done({"outcome": ctx.answer.outcome, "data": ctx.answer.data})


@durable(name="testing-chat")
def chat(ctx: Any) -> Any:
    return ctx.wait_for("gate", "chat")


@pytest.fixture
def ann() -> User:
    return User.objects.create_user("ann", first_name="Ann", last_name="Archer")


@pytest.fixture
def ben() -> User:
    return User.objects.create_user("ben")


@pytest.fixture
def refund(ann: User) -> Instance:
    started = workflows.start(Refund, {"assignees": ["ann"]})
    drain()
    return started


def test_a_test_decides_the_one_open_review_of_an_instance(refund: Instance, ann: User) -> None:
    assert decide(refund, "approve", actor=ann).state == "decided"
    drain()
    assert_done(refund, result={"outcome": "approve", "data": None})
    assert Vote.objects.get().door == "test"


@pytest.mark.parametrize("which", ["review", "interaction", "id of the review", "id of the instance"])
def test_a_review_may_be_given_in_any_way(refund: Instance, ann: User, which: str) -> None:
    review = Review.objects.get()
    given = {
        "review": review,
        "interaction": Interaction.objects.get(),
        "id of the review": review.pk,
        "id of the instance": refund.pk,
    }[which]
    assert decide(given, "approve", actor=ann).review.pk == review.pk


def test_reason_and_data_go_with_it(ann: User) -> None:
    started = workflows.start(Refund, {"assignees": ["ann"], "schema": ACCOUNT})
    drain()
    with pytest.raises(workflows.InvalidData):
        decide(started, "approve", actor=ann, data={"account": 7})
    decide(started, "approve", actor=ann, reason="as agreed", data={"account": "4711"})
    assert Vote.objects.get().reason == "as agreed"
    drain()
    assert_done(started, result={"outcome": "approve", "data": {"account": "4711"}})


def test_a_test_is_bound_by_every_rule(refund: Instance, ben: User) -> None:
    with pytest.raises(NotAllowed):
        decide(refund, "approve", actor=ben)
    with pytest.raises(workflows.InvalidCall, match="people decide"):
        decide(refund, "approve", actor="ann")


def test_high_risk_takes_a_reason_here_too(ann: User) -> None:
    started = workflows.start(Refund, {"assignees": ["ann"], "risk": "high"})
    drain()
    with pytest.raises(ReasonRequired):
        decide(started, "approve", actor=ann)
    assert decide(started, "approve", actor=ann, reason="checked").state == "decided"


def test_there_is_no_grace_unless_it_is_asked_for(refund: Instance, ann: User) -> None:
    recorded = decide(refund, "approve", actor=ann, grace=True)
    assert recorded.state == "grace"
    drain()
    assert not Instance.objects.get().ended
    advance("8s")
    assert_done(refund)


def test_before_drain_the_message_says_what_to_do(ann: User) -> None:
    started = workflows.start(Refund, {"assignees": ["ann"]})
    with pytest.raises(AssertionError, match=r"asks nobody now; it is runnable in step 'ask'\. Call drain\(\) first"):
        decide(started, "approve", actor=ann)


def test_once_decided_the_message_says_how(refund: Instance, ann: User) -> None:
    decide(refund, "reject", actor=ann)
    with pytest.raises(AssertionError, match=r"Its last review was 'Refund .*', answered 'reject'"):
        decide(refund, "approve", actor=ann)
    with pytest.raises(AssertionError, match="no longer waits for a decision, answered 'reject'"):
        assert_asked(Review.objects.get())
    with pytest.raises(AlreadyDecided):
        decide(Review.objects.get(), "approve", actor=ann)


def test_an_instance_that_failed_instead_of_asking_shows_its_error() -> None:
    started = workflows.start(Refund, {"assignees": ["nobody"]})
    drain()
    assert_failed(started)
    with pytest.raises(AssertionError, match=r"it is failed .*there is no such user"):
        assert_asked(started)


def test_a_review_that_was_cancelled_with_its_instance_says_so(refund: Instance) -> None:
    workflows.cancel(refund)
    with pytest.raises(AssertionError, match="closed without a decision"):
        assert_asked(refund)


def test_of_several_reviews_one_has_to_be_named(refund: Instance, ann: User) -> None:
    other = workflows.start(Refund, {"assignees": ["ann"]})
    drain()
    # An instance waits for one thing at a time, so far: no wait for many items makes two reviews of one instance yet.
    writer.rows(Review).filter(instance=other).update(instance=refund)
    first, second = pending(refund)
    with pytest.raises(AssertionError, match=rf"has 2 open reviews, say which one: .*{first.pk}.*{second.pk}"):
        decide(refund, "approve", actor=ann)


def test_a_question_that_is_no_approval_is_told_apart(ann: User) -> None:
    workflows.start(chat)
    drain()
    with pytest.raises(AssertionError, match="not an approval"):
        decide(Interaction.objects.get(), "approve", actor=ann)


def test_something_else_is_refused(ann: User) -> None:
    with pytest.raises(InvalidCall, match=r"by an Instance, a Review or an id \(UUID\), not 'refund-7'"):
        decide("refund-7", "approve", actor=ann)
    with pytest.raises(AssertionError, match="there is no instance and no review"):
        decide(uuid.uuid4(), "approve", actor=ann)


def test_pending_lists_what_waits(refund: Instance, ann: User) -> None:
    other = workflows.start(Refund, {"assignees": ["ann"]})
    drain()
    first, second = Review.objects.order_by("pk")
    assert pending() == [first, second]
    assert (pending(refund), pending(other.pk)) == ([first], [second])
    decide(refund, "approve", actor=ann)
    assert (pending(), pending(refund)) == ([second], [])


def test_assert_asked_says_who_may_decide_and_why_somebody_may_not(refund: Instance, ann: User, ben: User) -> None:
    assert assert_asked(refund, ann) == Review.objects.get()
    with pytest.raises(AssertionError, match=r"'ben' may not decide 'Refund .*': .*not among those asked.* Ann Archer"):
        assert_asked(refund, ann, ben)


def test_the_examples_in_the_docstrings_are_true(refund: Instance, ann: User) -> None:
    found = [one for one in doctest.DocTestFinder().find(testing) if one.examples]
    assert {re.sub(r".*\.", "", one.name) for one in found} == {"assert_asked", "decide", "pending"}
    for one in sorted(found, key=lambda one: one.name):  # decide closes it, so pending is last with another
        another = workflows.start(Refund, {"assignees": ["ann"]})
        drain()
        one.globs = {**vars(testing), "refund": another, "ann": ann}
        assert not doctest.DocTestRunner().run(one, clear_globs=False).failed
