"""An approval for each item: reviews are opened as items are asked, and a decision completes its item."""

from typing import Any

import pytest
from django.contrib.auth import get_user_model

import workflows
from approvals import Approval
from approvals.models import Review
from approvals.testing import decide
from workflows import durable
from workflows.models import AwaitUnit, Instance, LedgerEvent
from workflows.testing import advance, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db


@durable(name="items.approve")
def approve(ctx: Any, amounts: list[int], **more: Any) -> Any:
    """One approval for each amount."""
    answers = ctx.wait_for_each(
        "ok", amounts, lambda amount: Approval(f"Pay {amount}", assignees=["ann"], four_eyes=False), **more
    )
    return [[one.outcome, one.actor] if hasattr(one, "outcome") else [one.status] for one in answers]


@pytest.fixture
def ann() -> Any:
    return get_user_model().objects.create_user("ann")


def begin(amounts: list[int], **more: Any) -> Instance:
    instance = workflows.start(approve, {"amounts": amounts, **more})
    drain()
    return instance


def reviews(instance: Instance) -> dict[str, Review]:
    return {one.title: one for one in Review.objects.filter(instance=instance, open=True)}


def test_each_item_is_a_review_and_its_decision_completes_it(ann: Any) -> None:
    instance = begin([5, 7])
    open_reviews = reviews(instance)
    assert sorted(open_reviews) == ["Pay 5", "Pay 7"]
    decide(open_reviews["Pay 7"], "reject", actor=ann, reason="too much")
    assert AwaitUnit.objects.get(instance=instance).answered == 1
    assert sorted(reviews(instance)) == ["Pay 5"]
    decide(open_reviews["Pay 5"], "approve", actor=ann)
    drain()
    assert_done(instance, [["approve", f"user:{ann.pk}"], ["reject", f"user:{ann.pk}"]])


def test_reviews_of_later_items_are_opened_as_earlier_ones_are_decided(ann: Any) -> None:
    instance = begin([1, 2, 3], concurrency=1)
    for amount in (1, 2, 3):
        assert sorted(reviews(instance)) == [f"Pay {amount}"]
        decide(reviews(instance)[f"Pay {amount}"], "approve", actor=ann)
        drain()
    assert_done(instance)


def test_the_history_of_a_review_is_that_of_its_item(ann: Any) -> None:
    instance = begin([5])
    [review] = reviews(instance).values()
    decide(review, "approve", actor=ann)
    kinds = LedgerEvent.objects.filter(instance=review.pk).values_list("kind", flat=True)
    assert list(kinds) == ["voted"]
    assert not LedgerEvent.objects.filter(instance=instance, kind="voted").exists()


def test_a_review_of_an_item_whose_time_is_over_is_closed(ann: Any) -> None:
    instance = begin([5, 6], timeout="1h")
    advance("2h")
    assert_failed(instance, "item 0 of 'ok' was not answered before its deadline")
    assert reviews(instance) == {}


def test_a_decision_after_the_items_deadline_is_refused_and_fires_it(ann: Any) -> None:
    from approvals.exceptions import AlreadyDecided
    from workflows.testing import _db, _skew

    instance = begin([5, 6], timeout="1h", on_item="partial")
    open_reviews = reviews(instance)
    _skew(_db(), 3700.0)
    with pytest.raises(AlreadyDecided):
        decide(open_reviews["Pay 5"], "approve", actor=ann)
    unit = AwaitUnit.objects.get(instance=instance)
    assert (unit.expired, unit.answered) == (1, 0)
    drain()
    assert_done(instance, [["expired"], ["expired"]])


def test_a_decision_about_an_item_can_be_taken_back_within_its_grace(ann: Any, settings: Any) -> None:
    from approvals.deciding.undo_window import undo

    settings.APPROVALS = {**getattr(settings, "APPROVALS", {}), "UNDO_SECONDS": 10}
    instance = begin([5], timeout="1h")
    [review] = reviews(instance).values()
    decide(review, "approve", actor=ann, grace=True)
    assert review.interaction.__class__.objects.get(pk=review.pk).deadline is None  # held while it can be undone
    undo(review, actor=ann)
    assert review.interaction.__class__.objects.get(pk=review.pk).deadline is not None
    decide(review, "reject", actor=ann, reason="no", grace=True)
    advance("11s")
    assert_done(instance, [["reject", f"user:{ann.pk}"]])


def test_cancelling_the_instance_closes_the_reviews_of_its_items(ann: Any) -> None:
    instance = begin([5, 6, 7], concurrency=2)
    assert len(reviews(instance)) == 2
    workflows.cancel(instance)
    assert reviews(instance) == {}
