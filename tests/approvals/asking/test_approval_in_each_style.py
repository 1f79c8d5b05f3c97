"""Approvals: asking people, in all three styles, and what comes back."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Group, User

import workflows
from approvals import Approval, NotAllowed, decide
from approvals.models import Candidate, Review, Vote
from workflows import Await, Done, Machine, Workflow, action, durable, step, wait_for
from workflows.models import Instance
from workflows.testing import assert_done, drain

pytestmark = pytest.mark.django_db


class Refund(Workflow):
    name = "approvals-refund"

    @step
    def ask(self, ctx: Any) -> Any:
        return Await(Approval("Refund €1,240.00 to Acme GmbH", **ctx.input), then="pay", timeout="7d")

    @step
    def pay(self, ctx: Any) -> Any:
        answer = ctx.answer
        return Done({"outcome": answer.outcome, "reason": answer.reason, "actor": answer.actor})


@durable(name="approvals-outreach")
def outreach(ctx: Any, assignee: str) -> Any:
    answer = ctx.wait_for("gate", Approval("Send the letter", assignees=[assignee]), timeout="7d")
    return {"outcome": answer.outcome, "by": answer.decisions[0].actor}


class Publish(Machine):
    name = "approvals-publish"
    gate = wait_for(channel=Approval("Publish the article", assignees=["ann"]), timeout="7d")
    done = action(lambda ctx: {"outcome": ctx.steps.gate.outcome, "by": ctx.steps.gate.decisions[0].actor})


@pytest.fixture
def ann() -> User:
    return User.objects.create_user("ann", first_name="Ann", last_name="Archer")


def ask(**options: Any) -> tuple[Instance, Review]:
    instance = workflows.start(Refund, options)
    drain()
    return instance, Review.objects.get(instance=instance)


def test_the_one_person_asked_decides_and_the_instance_goes_on(ann: User) -> None:
    instance, review = ask(assignees=["ann"])
    assert review.open
    assert list(Review.objects.for_user(ann)) == [review]
    done = decide(review, "approve", actor=ann)
    assert done.state == "decided"
    drain()
    assert_done(instance, {"outcome": "approve", "reason": "", "actor": f"user:{ann.pk}"})
    review.refresh_from_db()
    assert (review.open, review.outcome, review.decided_by_id) == (False, "approve", ann.pk)
    assert not Candidate.objects.filter(review=review, open=True).exists()
    assert list(Review.objects.for_user(ann)) == []


def test_who_was_not_asked_cannot_decide(ann: User) -> None:
    stranger = User.objects.create_user("ben")
    _, review = ask(assignees=["ann"])
    with pytest.raises(NotAllowed, match=r"not among those asked.* Ann Archer can"):
        decide(review, "approve", actor=stranger)
    assert not Vote.objects.exists()


def test_every_style_is_handed_the_answer(ann: User) -> None:
    for started in (workflows.start(outreach, {"assignee": "ann"}), workflows.start(Publish)):
        drain()
        decide(Review.objects.get(instance=started), "reject", actor=ann, reason="no")
        drain()
        assert_done(started, {"outcome": "reject", "by": f"user:{ann.pk}"})


def test_a_group_is_asked_and_two_of_it_have_to_agree(ann: User) -> None:
    finance = Group.objects.create(name="finance")
    ben, cid = User.objects.create_user("ben"), User.objects.create_user("cid")
    for one in (ann, ben, cid):
        one.groups.add(finance)
    instance, review = ask(groups=["finance"], quorum=2)
    assert decide(review, "approve", actor=ann).state == "open"
    assert list(Review.objects.for_user(ann)) == []
    assert list(Review.objects.for_user(ben)) == [review]
    assert decide(review, "approve", actor=ben).state == "decided"
    drain()
    assert_done(instance)
