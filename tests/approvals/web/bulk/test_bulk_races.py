"""Requests decided on two pages at once: each is decided once, what another decided is theirs, and the others go on."""

from __future__ import annotations

import pytest
from django.test import RequestFactory
from django.urls import reverse

from approvals.models import Review
from approvals.web.bulk.bulk_run import Pick, decide_each, undo_each
from approvals.web.request.request_page import review as open_page
from tests.support.races import race
from tests.support.review_calls import list_standing
from tests.support.review_races import COMMITTED_PEOPLE, commit_people, find, park, say  # noqa: F401 (fixtures)

pytestmark = COMMITTED_PEOPLE


@pytest.mark.parametrize("rollback", [False, True], ids=["commit", "rollback"])
def test_one_that_another_is_deciding_is_waited_for_and_the_others_are_fine(rollback: bool) -> None:
    one, other = park(), park()
    picks = [Pick(review.pk, review.version, None) for review in (one, other)]
    _, came = race(
        say(one, "ben", "reject"),
        lambda: decide_each(picks, "approve", actor=find("ann"), reason="", data={}),
        rollback=rollback,
    )
    ann, ben = (f"user:{find(name).pk}" for name in ("ann", "ben"))
    assert [came[id].kind for id in (one.pk, other.pk)] == ["done" if rollback else "before", "done"]
    assert ("Ben rejected this" in came[one.pk].told) is not rollback
    assert list_standing(one) == ([(ann, "approve")] if rollback else [(ben, "reject")])
    assert list_standing(other) == [(ann, "approve")]


def test_two_tabs_of_one_person_decide_each_once_and_undo_each_once() -> None:
    reviews = [park(), park()]
    picks = [Pick(review.pk, review.version, None) for review in reviews]

    def decide_all() -> list[str]:
        came = decide_each(picks, "approve", actor=find("ann"), reason="", data={})
        return [one.kind for one in came.values()]

    assert race(decide_all, decide_all) == (["done", "done"], ["before", "before"])

    def undo_all() -> list[str]:
        return [one.kind for one in undo_each([review.pk for review in reviews], actor=find("ann")).values()]

    assert race(undo_all, undo_all) == (["undone", "undone"], ["left", "left"])
    assert [list_standing(review) for review in reviews] == [[], []]


def send(review: Review, outcome: str) -> int:
    """Post the form of the request's own page as ann; the status of the answer."""
    sent = {"outcome": outcome, "version": str(review.version)}
    request = RequestFactory().post(reverse("approvals:review", args=[review.pk]), sent)
    request.user = find("ann")
    request._dont_enforce_csrf_checks = True  # type: ignore[attr-defined]
    return open_page(request, id=review.pk).status_code


@pytest.mark.parametrize(("second", "status"), [("approve", 303), ("reject", 409)])
def test_a_second_tap_while_the_first_is_under_way_leads_to_the_page_and_another_answer_is_told(
    second: str, status: int
) -> None:
    review = park()
    assert race(lambda: send(review, "approve"), lambda: send(review, second)) == (303, status)
    assert list_standing(review) == [(f"user:{find('ann').pk}", "approve")]
