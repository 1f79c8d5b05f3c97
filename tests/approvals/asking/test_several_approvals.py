"""Approvals among several open questions: of steps, of machines and of the branches of a machine."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

import workflows
from approvals import Approval
from approvals.models import Review
from approvals.testing import decide, pending
from workflows import Await, Done, Machine, Next, Workflow, action, all_of, any_of, parallel, received, step, wait_for
from workflows.models import Instance
from workflows.testing import assert_done, assert_open, drain

pytestmark = pytest.mark.django_db


@pytest.fixture
def ann() -> User:
    return User.objects.create_user("ann")


@pytest.fixture
def ben() -> User:
    return User.objects.create_user("ben")


def run(workflow: Any, input: Any = None) -> Instance:
    one = workflows.start(workflow, {} if input is None else input)
    drain()
    return one


def gate(title: str) -> Approval[Any]:
    return Approval(title, assignees=["ann", "ben"], four_eyes=False)


class Steps(Workflow):
    name = "several-approvals.steps"

    @step
    def ask(self, ctx: Any) -> Any:
        return Await(any_of(money=gate("Pay"), law=gate("Sign"), stop=received("stop")), then="more")

    @step
    def more(self, ctx: Any) -> Any:
        if "stop" in ctx.answers:
            return Done(sorted(ctx.answers))
        if len(ctx.answers) == 2:
            return Done({id: answer.outcome for id, answer in ctx.answers.items()})
        return Await(any_of(money=gate("Pay"), law=gate("Sign"), stop=received("stop")), then="more")


class Withdrawn(Steps):
    name = "several-approvals.withdrawn"

    @step
    def more(self, ctx: Any) -> Any:
        ctx.withdraw("law")
        return Next("last") if ctx.input["next"] else Await(all_of(money=gate("Pay")), then="last")

    @step
    def last(self, ctx: Any) -> Any:
        return Done([ctx.answers["money"].outcome]) if "money" in ctx.answers else Await("never", then="last")


@pytest.fixture
def asking(ann: User, ben: User) -> Instance:
    return run(Steps)


def test_an_approval_stays_the_same_request_while_the_other_is_decided(asking: Instance, ann: User) -> None:
    assert_open(asking, ["money", "law", "stop"])
    before = {review.title: review.pk for review in pending(asking)}
    decide(Review.objects.get(title="Pay"), "approve", actor=ann)
    drain()
    assert_open(asking, ["law", "stop"])
    assert [(one.title, one.pk) for one in pending(asking)] == [("Sign", before["Sign"])]
    decide(asking, "reject", actor=ann, reason="no")
    drain()
    assert_done(asking, {"money": "approve", "law": "reject"})


def test_the_end_of_a_step_workflow_closes_the_cards(asking: Instance) -> None:
    workflows.signal(asking, "stop")
    drain()
    assert_done(asking, ["stop"])
    assert not Review.objects.pending().exists()


@pytest.mark.parametrize("goes_on", [True, False])
def test_withdrawing_closes_the_card_of_that_approval_and_of_no_other(ann: User, ben: User, goes_on: bool) -> None:
    one = run(Withdrawn, {"next": goes_on})
    workflows.signal(one, "stop")
    drain()
    assert [review.title for review in pending(one)] == ["Pay"]
    assert_open(one, ["money"])
    decide(one, "approve", actor=ann)
    drain()
    if not goes_on:
        assert_done(one, ["approve"])


class Gated(Machine):
    name = "several-approvals.machine"
    gate = wait_for(any_of={"law": lambda ctx: gate(f"Sign {ctx.input['what']}"), "money": gate("Pay"), "stop": "stop"})
    last = action(lambda ctx: {id: getattr(one, "outcome", one) for id, one in ctx.steps.gate.items()})


@pytest.mark.parametrize(("title", "result"), [("Pay", {"money": "approve"}), ("Sign a lease", {"law": "approve"})])
def test_a_machine_goes_on_with_the_first_decision_and_closes_the_other_card(
    ann: User, ben: User, title: str, result: Any
) -> None:
    one = run(Gated, {"what": "a lease"})
    decide(Review.objects.get(title=title), "approve", actor=ann)
    drain()
    assert_done(one, result)
    assert not Review.objects.pending().exists()


class Branched(Machine):
    name = "several-approvals.branches"
    checks = parallel(
        law=wait_for(channel=lambda ctx: gate(f"Sign {ctx.input['what']}")),
        money=[wait_for(channel=gate("Pay")), action(lambda ctx: ctx.steps["checks.money.0"].outcome)],
    )
    last = action(lambda ctx: [ctx.steps.checks.law.outcome, ctx.steps.checks.money])


def test_branches_of_a_machine_are_decided_in_any_order(ann: User, ben: User) -> None:
    one = run(Branched, {"what": "a lease"})
    assert_open(one, ["checks.law", "checks.money.0"])
    assert {review.title for review in pending(one)} == {"Sign a lease", "Pay"}
    decide(Review.objects.get(title="Pay"), "reject", actor=ben, reason="too much")
    drain()
    decide(one, "approve", actor=ann)
    drain()
    assert_done(one, ["approve", "reject"])


def test_a_cancelled_machine_closes_the_cards_of_its_branches(ann: User, ben: User) -> None:
    one = run(Branched, {"what": "a lease"})
    workflows.cancel(one)
    assert not Review.objects.pending().exists()
