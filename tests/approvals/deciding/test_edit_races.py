"""Two voters with different edits at once: the second waits, and then votes on what the first put on the table."""

from __future__ import annotations

from typing import Any

import pytest

from approvals import Stale, decide, undo
from approvals.models import Review, Vote
from tests.support.edited_values import ASKED, EDITED, FORM
from tests.support.races import race
from tests.support.review_calls import again, list_events, list_standing
from tests.support.review_races import (  # noqa: F401 (fixtures)
    COMMITTED_PEOPLE,
    both_ends,
    commit_people,
    find,
    park,
    say,
)

pytestmark = COMMITTED_PEOPLE

LOWEST = {"value": 1, "months": 12}


def say_seen(review: Review, name: str, data: Any, version: int) -> Any:
    """Decide as this person, who has seen this version."""

    def call() -> Any:
        try:
            return decide(review.pk, "approve", actor=find(name), data=data, version=version).state
        except Stale as refused:
            return refused.difference

    return call


@both_ends
@pytest.mark.parametrize("edits", [(EDITED, LOWEST), (LOWEST, EDITED)], ids=["one order", "the other"])
def test_of_two_edits_at_once_the_second_is_told_of_the_first(rollback: bool, edits: Any) -> None:
    review = park(quorum=2, schema=FORM)
    first, second = race(say_seen(review, "ann", edits[0], 1), say_seen(review, "ben", edits[1], 1), rollback=rollback)
    assert first == "open"
    assert again(review).version == 2
    if rollback:
        assert second == "open"
        assert [vote.data for vote in Vote.objects.all()] == [edits[1]]
    else:
        assert {label: after for label, (_, after) in second.items()} == {"Value": f"{edits[0]['value']:,}"}
        assert [vote.data for vote in Vote.objects.all()] == [edits[0]]
        assert len(list_events(review, "refused")) == 1


@both_ends
def test_of_two_edits_without_a_version_the_second_is_on_the_table(rollback: bool) -> None:
    review = park(quorum=2, schema=FORM)
    told = race(say(review, "ann", data=EDITED), say(review, "ben", data=LOWEST), rollback=rollback)
    assert told == ("open", "open")
    assert list_standing(review) == [(f"user:{find('ben').pk}", "approve")]
    assert Vote.objects.filter(standing=False).count() == (0 if rollback else 1)


@both_ends
def test_an_edit_and_an_agreement_at_once_never_count_together(rollback: bool) -> None:
    review = park(quorum=2, schema=FORM)
    decide(review, "approve", actor=find("cid"), data=ASKED)
    first, second = race(say_seen(review, "ann", EDITED, 1), say_seen(review, "ben", ASKED, 1), rollback=rollback)
    assert first == "open"
    if rollback:
        assert second == "decided"
    else:
        assert second == {"Value": ("9,600", "9,000")}
        assert again(review).open


@both_ends
def test_an_edit_that_is_undone_while_another_agrees_to_it(rollback: bool) -> None:
    review = park(quorum=3, schema=FORM)
    decide(review, "approve", actor=find("cid"), data=ASKED)
    decide(review, "approve", actor=find("ann"), data=EDITED)
    first, second = race(
        lambda: undo(review.pk, actor=find("ann")).version, say_seen(review, "ben", EDITED, 2), rollback=rollback
    )
    if rollback:
        assert second == "open"
        assert sorted(list_standing(review)) == sorted((f"user:{find(one).pk}", "approve") for one in ("ann", "ben"))
    else:
        assert (first, second) == (3, {"Value": ("9,000", "9,600")})
        assert list_standing(review) == [(f"user:{find('cid').pk}", "approve")]
