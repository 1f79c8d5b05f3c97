"""A decision is bound to what was shown: version and digest, the difference, and the votes about an earlier state."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

from approvals import (
    Stale,
    answer_info,
    decide,
    request_info,
)
from approvals.models import Review, Vote
from approvals.reviews.case import Case
from approvals.rules.door import Door
from tests.support.review_calls import (
    again,
    answers,
    ask,
    list_events,
    list_notices,
    list_standing,
    make_person,
    refused,
    truth,  # noqa: F401 (a fixture)
)
from workflows.testing import drain

pytestmark = pytest.mark.django_db


@pytest.fixture
def ann() -> User:
    return make_person("ann", last_name="Archer")


# --- what was shown -------------------------------------------------------------------------------------------


def test_a_decision_about_another_version_is_refused(ann: User) -> None:
    review = ask(assignees=["ann"])
    refused(Stale, review, actor=ann, version=2)
    assert decide(review, "approve", actor=ann, version=1).state == "decided"


def test_a_subject_that_changed_is_refused_with_the_difference_and_then_shown_as_it_is(ann: User, shop: Any) -> None:
    invoice = shop.Order.objects.create(code="A-1", amount="40.00")
    review = ask(assignees=["ann"], subject=invoice)
    shop.Order.objects.update(amount="400.00")
    with pytest.raises(Stale) as told:
        decide(review, "approve", actor=ann, version=review.version)
    [(label, (before, after))] = told.value.difference.items()
    assert (label, "40.00" in before, "400.00" in after) == ("Amount", True, True)
    shown = again(review)
    assert (shown.version, shown.snapshot["amount"]) == (2, "400.00")
    assert shown.digest != review.digest
    assert [row.data["what"] for row in list_events(review, "handled")] == ["shown anew"]
    assert list_events(review, "refused")[0].data["refused"] == "Stale"
    with pytest.raises(Stale):  # the version that was on the screen
        decide(review, "approve", actor=ann, version=1)
    decide(review, "approve", actor=ann, version=2)


def test_whoever_saw_the_newest_state_decides_about_it_at_once(ann: User, shop: Any) -> None:
    invoice = shop.Order.objects.create(code="A-1", amount="40.00")
    review = ask(assignees=["ann"], subject=invoice)
    old = review.digest
    shop.Order.objects.update(amount="400.00")
    seen = Case(again(review)).read_subject().digest
    done = decide(review, "approve", actor=ann, version=1, door=Door("page", seen=seen))
    assert done.vote is not None
    assert done.vote.digest == seen != old
    assert again(review).version == 2


def test_who_saw_an_older_state_is_refused_though_the_review_shows_the_newest(ann: User, shop: Any) -> None:
    invoice = shop.Order.objects.create(code="A-1", amount="40.00")
    review = ask(assignees=["ann"], subject=invoice)
    told = refused(Stale, review, actor=ann, door=Door("page", seen="0" * 64))
    assert told.difference == {}
    assert again(review).version == 1


def test_what_was_seen_does_not_stand_in_for_a_version_that_was_raised(ann: User, ben: User) -> None:
    review = ask(assignees=["ann"], actor=ben)
    request_info(review, "Which account?", actor=ann)
    answer_info(review, "4711", actor=ben)
    with pytest.raises(Stale):
        decide(review, "approve", actor=ann, version=1, door=Door("page", seen=""))
    decide(review, "approve", actor=ann, version=2, door=Door("page", seen=""))


def test_votes_about_an_earlier_state_fall_and_their_voters_are_told(ann: User, ben: User, shop: Any) -> None:
    invoice = shop.Order.objects.create(code="A-1", amount="40.00")
    review = ask(assignees=["ann", "ben"], subject=invoice, quorum=2)
    decide(review, "approve", actor=ann)
    shop.Order.objects.update(amount="400.00")
    with pytest.raises(Stale):
        decide(review, "approve", actor=ben)
    assert list_standing(review) == []
    assert Vote.objects.filter(review=review).count() == 1  # it is still there
    [notice] = list_notices(review, "reopened")
    assert notice.to == [f"user:{ann.pk}"]
    assert "Amount" in notice.data["reason"]
    assert set(Review.objects.for_user(ann)) == set(Review.objects.for_user(ben)) == {review}
    assert decide(review, "approve", actor=ben).state == "open"
    assert decide(review, "approve", actor=ann).state == "decided"
    drain()
    assert [one.actor for one in answers[-1].decisions] == [f"user:{ben.pk}", f"user:{ann.pk}"]


def test_the_votes_of_others_fall_when_somebody_decides_about_the_newest_state(ann: User, ben: User, shop: Any) -> None:
    invoice = shop.Order.objects.create(code="A-1", amount="40.00")
    review = ask(assignees=["ann", "ben"], subject=invoice, quorum=2)
    decide(review, "approve", actor=ann)
    shop.Order.objects.update(amount="400.00")
    door = Door("page", seen=Case(again(review)).read_subject().digest)
    assert decide(review, "approve", actor=ben, door=door).state == "open"
    assert list_standing(review) == [(f"user:{ben.pk}", "approve")]


def test_what_others_changed_that_is_not_shown_makes_nothing_stale(ann: User, shop: Any) -> None:
    invoice = shop.Order.objects.create(code="A-1")
    review = ask(assignees=["ann"], subject=invoice)
    shop.Order.objects.update(api_token="another")
    assert decide(review, "approve", actor=ann).state == "decided"


def test_a_subject_that_is_gone_is_stale_for_everybody(ann: User, shop: Any) -> None:
    invoice = shop.Order.objects.create(code="A-1")
    review = ask(assignees=["ann"], subject=invoice)
    shop.Order.objects.all().delete()
    for seen in (None, "", review.digest):
        with pytest.raises(Stale) as told:
            decide(review, "approve", actor=ann, door=Door("page", seen=seen))
    assert list(told.value.difference.values()) == [("there", "no longer there")]
    assert again(review).version == 1
