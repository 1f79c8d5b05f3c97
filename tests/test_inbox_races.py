"""Many requests decided together while somebody else decides one of them: that one is theirs, the others go on."""

from __future__ import annotations

import pytest

from approvals.inbox.each import Pick, decide_each, undo_each
from tests.approving import list_standing
from tests.test_approval_races import _provided_again, find, park, people, pytestmark, say  # noqa: F401
from tests.two_connections import race


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
