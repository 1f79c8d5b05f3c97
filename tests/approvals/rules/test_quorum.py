"""How many equal votes decide, counted from rows: N of M, percent, all, per group, veto, early loss; and who counts.

The rules themselves are pure and tried with every combination in test_rules; here they meet people who
join, leave, are away, hand on, and change their minds.
"""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, User

import workflows
from approvals import NotAllowed, Veto, candidates, claim, decide, delegate, reassign, undo
from approvals.models import Review, Vote
from approvals.people import principals
from tests.support.review_calls import (
    again,
    answers,
    ask,
    grant,
    list_events,
    list_standing,
    make_absent,
    make_person,
    truth,  # noqa: F401 (a fixture)
)
from workflows.testing import drain

pytestmark = pytest.mark.django_db


def make_people(names: str, *groups: str) -> list[User]:
    return [make_person(name, *groups) for name in names.split()]


def vote(review: Review, outcome: str, *people: User) -> list[str]:
    """They decide so, one after the other; how it stood after each."""
    return [decide(review, outcome, actor=one).state for one in people]


def tell_answer(review: Review) -> tuple[str, list[str]]:
    """The answer that the author was handed, and what each of those who count had said."""
    assert not again(review).open
    drain()
    assert answers[-1] is not None
    return answers[-1].outcome, [one.outcome for one in answers[-1].decisions]


# --- the rules ------------------------------------------------------------------------------------------------


def test_n_of_m_equal_votes_decide_for_every_outcome_alike() -> None:
    people = make_people("ann ben cid dot")
    review = ask(assignees=people, quorum=2)
    assert vote(review, "approve", people[0]) == ["open"]
    assert vote(review, "reject", people[1], people[2]) == ["open", "decided"]
    assert tell_answer(review) == ("reject", ["approve", "reject", "reject"])


def test_percent_is_of_all_who_are_asked_rounded_up() -> None:
    people = make_people("ann ben cid dot eve", "board")
    review = ask(groups=["board"], quorum="50%")
    assert vote(review, "approve", *people[:3]) == ["open", "open", "decided"]
    assert tell_answer(review)[0] == "approve"


def test_all_takes_everybody() -> None:
    people = make_people("ann ben cid", "board")
    review = ask(groups=["board"], quorum="all")
    assert vote(review, "approve", *people) == ["open", "open", "decided"]


def test_each_group_must_come_to_the_same_answer() -> None:
    ann, ben = make_people("ann ben", "finance")
    cid, dot = make_people("cid dot", "legal")
    review = ask(quorum={"finance": 1, "legal": "all"})
    assert vote(review, "approve", ann, cid) == ["open", "open"]
    assert vote(review, "reject", ben) == ["open"]
    assert vote(review, "approve", dot) == ["decided"]
    assert tell_answer(review)[0] == "approve"
    assert [one.groups for one in Vote.objects.order_by("at")] == [["finance"], ["legal"], ["finance"], ["legal"]]


def test_who_is_in_two_groups_counts_in_both() -> None:
    (ann,) = make_people("ann", "finance", "legal")
    make_people("ben", "finance")
    review = ask(quorum={"finance": 1, "legal": 1})
    assert vote(review, "approve", ann) == ["decided"]


def test_one_veto_decides_at_once() -> None:
    people = make_people("ann ben cid")
    review = ask(assignees=people, quorum=Veto("all"))
    assert vote(review, "approve", people[0]) == ["open"]
    assert vote(review, "reject", people[1]) == ["decided"]
    assert tell_answer(review)[0] == "reject"


def test_when_no_outcome_can_reach_it_any_more_the_last_one_is_the_answer() -> None:
    people = make_people("ann ben cid", "board")
    review = ask(groups=["board"], quorum="all", outcomes=("red", "blue", "neither"))
    assert vote(review, "red", people[0]) == ["open"]
    recorded = decide(review, "blue", actor=people[1])
    assert (recorded.state, recorded.outcome) == ("decided", "neither")
    assert recorded.verdict is not None
    assert (recorded.verdict.state, recorded.verdict.by) == ("lost", "division")
    assert tell_answer(review) == ("neither", ["red", "blue"])


def test_too_few_people_are_not_a_lost_vote_while_more_may_join() -> None:
    (ann,) = make_people("ann", "board")
    review = ask(groups=["board"], quorum=2)
    assert vote(review, "approve", ann) == ["open"]
    (ben,) = make_people("ben", "board")
    assert vote(review, "approve", ben) == ["decided"]


def test_a_rung_that_asks_more_people_keeps_a_vote_open_that_is_lost_without_them() -> None:
    people = make_people("ann ben")
    make_people("cid", "board")
    review = ask(assignees=people, quorum=2, escalate=[("1d", ("add", "board"))])
    User.objects.filter(pk=people[1].pk).update(is_active=False)
    assert vote(review, "approve", people[0]) == ["open"]


# --- live, and recorded ---------------------------------------------------------------------------------------


def test_the_electorate_is_counted_at_the_vote_and_recorded_with_it() -> None:
    people = make_people("ann ben cid dot", "board")
    review = ask(groups=["board"], quorum="all")
    decide(review, "approve", actor=people[0])
    people[3].groups.clear()
    decide(review, "approve", actor=people[1])
    make_people("eve", "board")
    recorded = decide(review, "approve", actor=people[2])
    assert recorded.state == "open"
    assert [(one.verdict["needed"], one.verdict["people"]) for one in Vote.objects.order_by("at")] == [
        (4, 4),
        (3, 3),
        (4, 4),
    ]
    assert [row.data["verdict"]["people"] for row in list_events(review, "voted")] == [4, 3, 4]


def test_whoever_leaves_after_voting_keeps_their_vote() -> None:
    people = make_people("ann ben", "board")
    review = ask(groups=["board"], quorum="all")
    decide(review, "approve", actor=people[0])
    people[0].groups.clear()
    assert vote(review, "approve", people[1]) == ["decided"]
    assert tell_answer(review) == ("approve", ["approve", "approve"])


def test_whoever_joins_may_vote_and_whoever_left_may_not() -> None:
    ann, ben = make_people("ann ben", "board")
    review = ask(groups=["board"])
    ann.groups.clear()
    with pytest.raises(NotAllowed):
        decide(review, "approve", actor=ann)
    (cid,) = make_people("cid", "board")
    assert list(Review.objects.for_user(cid)) == [review]
    decide(review, "approve", actor=cid)
    assert list(Review.objects.for_user(ben)) == []


def test_neither_the_requester_nor_an_inactive_person_is_waited_for() -> None:
    people = make_people("ann ben cid", "board")
    review = ask(groups=["board"], quorum="all", actor=people[2])
    User.objects.filter(pk=people[1].pk).update(is_active=False)
    assert vote(review, "approve", people[0]) == ["decided"]
    assert Vote.objects.get().verdict["people"] == 1


def test_who_is_no_member_of_the_workspace_is_not_waited_for() -> None:
    people = make_people("ann ben cid", "board")
    workflows.workspace.create("acme").members.set(people[:2])
    with workflows.workspace("acme"):
        review = ask(groups=["board"], quorum="all")
    with pytest.raises(NotAllowed):
        decide(review, "approve", actor=people[2])
    assert vote(review, "approve", *people[:2]) == ["open", "decided"]


def test_a_registered_rule_is_asked_anew_each_time() -> None:
    @candidates("named_like_eve")
    def named_like_eve() -> Any:
        return User.objects.filter(username__startswith="eve")

    try:
        (eve,) = make_people("eve")
        review = ask(candidates="named_like_eve", quorum="all")
        (another,) = make_people("eve2")
        assert vote(review, "approve", eve, another) == ["open", "decided"]
    finally:
        del principals._rules["named_like_eve"]


def test_the_users_of_a_query_are_frozen() -> None:
    ann, ben = make_people("ann ben")
    review = ask(candidates=get_user_model().objects.filter(username__in=["ann", "ben", "cid"]), quorum="all")
    (cid,) = make_people("cid")
    with pytest.raises(NotAllowed):
        decide(review, "approve", actor=cid)
    assert vote(review, "approve", ann, ben) == ["open", "decided"]


def test_rule_and_outcomes_are_frozen_when_requested() -> None:
    ann, ben = make_people("ann ben")
    options = {"assignees": [ann, ben], "quorum": 2}
    review = ask(**options)
    options["quorum"] = 1
    assert vote(review, "approve", ann, ben) == ["open", "decided"]


def test_a_group_that_was_renamed_is_still_the_one_that_counts() -> None:
    ann, ben = make_people("ann ben", "finance")
    review = ask(quorum={"finance": 2})
    Group.objects.filter(name="finance").update(name="treasury")
    assert vote(review, "approve", ann, ben) == ["open", "decided"]


# --- once each ------------------------------------------------------------------------------------------------


def test_the_same_person_twice_in_n_of_m_counts_once() -> None:
    ann, ben = make_people("ann ben", "board")
    review = ask(assignees=[ann], groups=["board"], quorum=2)
    decide(review, "approve", actor=ann)
    with pytest.raises(NotAllowed) as told:
        decide(review, "approve", actor=ann)
    assert told.value.obstacle.rule == "voted"
    assert vote(review, "approve", ben) == ["decided"]


def test_a_vote_can_be_taken_back_while_others_still_have_to_decide() -> None:
    people = make_people("ann ben cid")
    review = ask(assignees=people, quorum=2)
    decide(review, "approve", actor=people[0], reason="fine")
    undo(review, actor=people[0])
    assert list_standing(review) == []
    first, second = Vote.objects.order_by("at")
    assert (second.reverses_id, second.standing, second.user_id, second.outcome) == (
        first.pk,
        False,
        people[0].pk,
        "approve",
    )
    assert [row.data["vote"] for row in list_events(review, "reversed")] == [str(first.pk)]
    assert vote(review, "reject", people[0]) == ["open"]
    assert vote(review, "reject", people[1]) == ["decided"]


def test_a_substitutes_vote_is_that_of_whoever_is_away_and_counts_once() -> None:
    ann, ben, cid = make_people("ann ben cid")
    make_absent(ann, cid)
    review = ask(assignees=[ann, ben], quorum=2)
    recorded = decide(review, "approve", actor=cid)
    assert recorded.vote is not None
    assert (recorded.state, recorded.vote.on_behalf_of_id) == ("open", ann.pk)
    assert recorded.vote.verdict["people"] == 2
    with pytest.raises(NotAllowed) as told:  # back from holiday
        decide(review, "approve", actor=ann)
    assert told.value.obstacle.rule == "voted"
    assert list(Review.objects.for_user(ann)) == []
    assert vote(review, "approve", ben) == ["decided"]
    drain()
    assert answers[-1] is not None
    assert answers[-1].decisions[0].on_behalf_of == f"user:{ann.pk}"


def test_nobody_stands_in_for_who_has_decided_already() -> None:
    ann, ben, cid = make_people("ann ben cid")
    make_absent(ann, cid)
    review = ask(assignees=[ann, ben], quorum=2)
    decide(review, "approve", actor=ann)
    with pytest.raises(NotAllowed) as told:
        decide(review, "approve", actor=cid)
    assert told.value.obstacle.rule == "not_candidate"


def test_a_share_that_was_handed_on_counts_once_where_it_would_have_counted() -> None:
    ann, ben = make_people("ann ben", "finance")
    (cid,) = make_people("cid")
    review = ask(quorum={"finance": "all"})
    delegate(review, to=cid, actor=ann)
    assert vote(review, "approve", ben) == ["open"]
    assert Vote.objects.get().verdict["groups"]["finance"]["people"] == 2
    with pytest.raises(NotAllowed) as told:  # handed on is handed on
        decide(review, "approve", actor=ann)
    assert told.value.obstacle.rule == "not_candidate"
    assert list(Review.objects.for_user(ann)) == []
    recorded = decide(review, "approve", actor=cid)
    assert recorded.vote is not None
    assert (recorded.state, recorded.vote.on_behalf_of_id, recorded.vote.groups) == ("decided", ann.pk, ["finance"])


def test_who_is_asked_again_after_handing_on_and_whoever_has_it_now_count_once_together() -> None:
    ann, ben, cid = make_people("ann ben cid")
    boss = grant(make_person("boss"), "reassign_review")
    review = ask(assignees=[ann, ben], quorum="all")
    delegate(review, to=cid, actor=ann)
    reassign(review, users=[ann], keep=True, actor=boss)
    decide(review, "approve", actor=ann)
    with pytest.raises(NotAllowed) as told:
        decide(review, "approve", actor=cid)
    assert told.value.obstacle.rule == "voted"
    assert vote(review, "approve", ben) == ["decided"]


def test_a_claim_ends_with_its_holders_vote_so_that_others_can_go_on() -> None:
    ann, ben = make_people("ann ben")
    review = ask(assignees=[ann, ben], quorum=2)
    claim(review, actor=ann)
    with pytest.raises(NotAllowed) as told:
        decide(review, "approve", actor=ben)
    assert told.value.obstacle.rule == "claimed"
    assert vote(review, "approve", ann, ben) == ["open", "decided"]
