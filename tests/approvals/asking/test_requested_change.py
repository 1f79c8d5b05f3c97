"""`apply_requested_change`: the change that was shown is the change that is made."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

import workflows
from approvals import Approval, DecisionFailed, apply_requested_change, decide
from approvals.cards.card import build_card
from approvals.models import Review
from examples.models import Supplier
from workflows import Await, Done, Workflow, step
from workflows.testing import assert_done, drain

pytestmark = pytest.mark.django_db


class Rename(Workflow):
    name = "requested-rename"

    @step
    def ask(self, ctx: Any) -> Any:
        approval = Approval(
            "Rename the customer",
            subject=Supplier.objects.get(pk=ctx.input["customer"]),
            change={"name": ctx.input["name"]},
            assignees=["ann"],
            on_decision=apply_requested_change,
            why="They have merged.\nThe register says so.",
        )
        return Await(approval, then="end", timeout="7d")

    @step
    def end(self, ctx: Any) -> Any:
        return Done(ctx.answer.outcome)


@pytest.fixture
def asked() -> tuple[Any, Supplier, Review, User]:
    ann = User.objects.create_user("ann")
    customer = Supplier.objects.create(name="Acme", country="Germany")
    instance = workflows.start(Rename, {"customer": customer.pk, "name": "Acme GmbH"})
    drain()
    return instance, customer, Review.objects.get(), ann


def test_the_first_outcome_makes_the_change_in_the_deciding_transaction(asked: Any) -> None:
    instance, customer, review, ann = asked
    decide(review, "approve", actor=ann)
    customer.refresh_from_db()
    assert customer.name == "Acme GmbH"
    drain()
    assert_done(instance, "approve")


def test_any_other_outcome_changes_nothing(asked: Any) -> None:
    _, customer, review, ann = asked
    decide(review, "reject", actor=ann)
    customer.refresh_from_db()
    assert customer.name == "Acme"


def test_a_change_that_the_model_refuses_by_then_refuses_the_decision(asked: Any, monkeypatch: Any) -> None:
    _, customer, review, ann = asked
    field = Supplier._meta.get_field("name")
    monkeypatch.setattr(field, "choices", [("Acme", "Acme")])  # as a deploy may do between request and decision
    with pytest.raises(DecisionFailed, match="name"):
        decide(review, "approve", actor=ann)
    customer.refresh_from_db()
    review.refresh_from_db()
    assert (customer.name, review.open, review.outcome) == ("Acme", True, "")


def test_a_card_says_why_it_is_asked_now(asked: Any) -> None:
    _, _, review, ann = asked
    assert build_card(review, ann).why == "They have merged.\nThe register says so."
