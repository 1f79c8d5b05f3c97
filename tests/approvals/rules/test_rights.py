"""Who may decide, and how carefully: those asked, four eyes, high risk, and who may override them all."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User

import workflows
from approvals import (
    AlreadyDecided,
    NotAllowed,
    ReasonRequired,
    Stale,
    UnknownOutcome,
    claim,
    decide,
    explain,
    undo,
)
from approvals.models import Review, Vote
from approvals.rules.door import Door
from tests.support.review_calls import (
    Looping,
    answers,
    ask,
    find_review,
    grant,
    list_events,
    list_standing,
    make_person,
    refused,
    start,
    truth,  # noqa: F401 (a fixture)
)
from workflows.testing import assert_done, drain

pytestmark = pytest.mark.django_db


@pytest.fixture
def ann() -> User:
    return make_person("ann", last_name="Archer")


# --- who ------------------------------------------------------------------------------------------------------


def test_a_stranger_is_refused_and_told_who_may(ann: User, ben: User) -> None:
    review = ask(assignees=["ann"])
    told = refused(NotAllowed, review, actor=ben)
    assert (told.obstacle.rule, str(told)) == (
        "not_candidate",
        "You can’t decide because you are not among those asked. Ann Archer can.",
    )
    assert list_events(review, "refused")[0].data["rule"] == "not_candidate"


def test_whoever_was_deactivated_or_deleted_meanwhile_is_refused_whatever_their_object_says(ann: User) -> None:
    review = ask(assignees=["ann"])
    User.objects.filter(pk=ann.pk).update(is_active=False)
    assert ann.is_active
    refused(NotAllowed, review, actor=ann)
    other = ask(permission="holdpoint_approvals.decide_review")
    gone = User.objects.get(pk=make_person("gone", is_superuser=True).pk)
    User.objects.filter(pk=gone.pk).delete()
    assert refused(NotAllowed, other, actor=gone).obstacle.rule == "not_candidate"


def test_a_permission_that_was_taken_away_no_longer_counts_though_the_object_remembers_it(ann: User) -> None:
    ann = grant(ann, "decide_review")
    review = ask()
    assert list(Review.objects.for_user(ann)) == [review]  # and now it is remembered
    User.objects.get(pk=ann.pk).user_permissions.clear()
    refused(NotAllowed, review, actor=ann)


def test_where_nobody_is_named_a_permission_decides(ann: User, ben: User) -> None:
    review = ask()
    refused(NotAllowed, review, actor=ben)
    decide(review, "approve", actor=grant(ann, "decide_review"))


def test_the_requester_defaults_to_the_user_who_started_it_and_may_not_decide(ann: User, ben: User) -> None:
    review = ask(assignees=["ann", "ben"], actor=ann)
    assert review.requester_id == ann.pk
    told = refused(NotAllowed, review, actor=ann)
    assert told.obstacle.rule == "requester"
    decide(review, "approve", actor=ben)


@pytest.mark.parametrize("started_by", ["", "cron", "user:none", "user:999999999", "key:7"])
def test_without_a_person_who_asked_nobody_is_excluded_as_requester(ann: User, started_by: str) -> None:
    review = ask(assignees=["ann"], actor=started_by)
    assert review.requester_id is None
    decide(review, "approve", actor=ann)


def test_a_requester_that_is_named_counts_instead_of_who_started_it(ann: User, ben: User) -> None:
    review = ask(assignees=["ann", "ben"], actor=ann, requester="ben")
    assert refused(NotAllowed, review, actor=ben).obstacle.rule == "requester"
    decide(review, "approve", actor=ann)


def test_without_four_eyes_the_requester_may_decide(ann: User) -> None:
    review = ask(assignees=["ann"], actor=ann, four_eyes=False)
    decide(review, "approve", actor=ann)


def test_who_decided_an_earlier_stage_may_not_decide_a_later_one(ann: User, ben: User) -> None:
    both = {"assignees": ["ann", "ben"]}
    instance = start(both, both)
    decide(find_review(instance), "approve", actor=ann)
    drain()
    review = find_review(instance)
    assert review.step == "second"
    assert refused(NotAllowed, review, actor=ann).obstacle.rule == "decided_before"
    assert list(Review.objects.for_user(ann)) == []
    assert list(Review.objects.for_user(ben)) == [review]
    decide(review, "approve", actor=ben)
    drain()
    assert_done(instance)


def test_a_vote_that_was_undone_is_no_earlier_decision(ann: User, ben: User) -> None:
    cid = make_person("cid")
    instance = start({"assignees": ["ann", "ben", "cid"], "quorum": 2}, {"assignees": ["ann"]})
    review = find_review(instance)
    decide(review, "approve", actor=ann)
    undo(review, actor=ann)
    decide(review, "approve", actor=ben)
    decide(review, "approve", actor=cid)
    drain()
    decide(find_review(instance), "approve", actor=ann)


def test_a_second_visit_of_the_same_step_in_a_loop_is_no_earlier_stage(ann: User) -> None:
    instance = start({"assignees": ["ann"]}, workflow=Looping)
    decide(find_review(instance), "reject", actor=ann)
    drain()
    decide(find_review(instance), "approve", actor=ann)
    drain()
    assert_done(instance)
    assert Review.objects.filter(instance=instance).count() == 2


def test_one_person_decides_once(ann: User, ben: User) -> None:
    review = ask(assignees=["ann", "ben"], quorum=2)
    decide(review, "approve", actor=ann)
    assert refused(NotAllowed, review, actor=ann).obstacle.rule == "voted"
    assert refused(NotAllowed, review, "reject", actor=ann).obstacle.rule == "voted"
    assert list_standing(review) == [(f"user:{ann.pk}", "approve")]


def test_what_was_decided_says_who_and_when(ann: User, ben: User) -> None:
    review = ask(assignees=["ann", "ben"])
    vote = decide(review, "approve", actor=ann).vote
    told = refused(AlreadyDecided, review, actor=ben)
    assert vote is not None
    assert (told.by, told.at, told.outcome) == ("Ann Archer", vote.at, "approve")


# --- high risk ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("door", "rule"),
    [
        (Door("page", via_bulk=True), "high_risk_bulk"),
        (Door("page", single_key=True), "high_risk_key"),
        (Door("page", saw_diff=False), "high_risk_diff"),
        (Door("mcp", is_automated=True), "high_risk_diff"),
    ],
    ids=["bulk", "single key", "diff not seen", "automated"],
)
def test_high_risk_is_decided_by_a_person_who_saw_the_diff_one_by_one(ann: User, door: Door, rule: str) -> None:
    review = ask(assignees=["ann"], risk="high")
    assert refused(NotAllowed, review, actor=ann, reason="fine", door=door).obstacle.rule == rule
    low = ask(assignees=["ann"], risk="medium")
    assert decide(low, "approve", actor=ann, door=door).state == "decided"


@pytest.mark.parametrize("outcome", ["approve", "reject"])
def test_high_risk_takes_a_reason_for_every_outcome(ann: User, outcome: str) -> None:
    review = ask(assignees=["ann"], risk="high")
    refused(ReasonRequired, review, outcome, actor=ann)
    decide(review, outcome, actor=ann, reason="checked with the bank")


def test_high_risk_takes_the_password_again_where_the_site_says_so(ann: User, settings: Any) -> None:
    settings.APPROVALS = {"REAUTHENTICATE": True}
    review = ask(assignees=["ann"], risk="high")
    door = Door("page", has_reauthenticated=False)
    assert refused(NotAllowed, review, actor=ann, reason="fine", door=door).obstacle.rule == "reauthenticate"
    assert decide(review, "reject", actor=ann, reason="no", door=door).state == "decided"  # to say no is never harder


def test_an_automated_decision_of_low_risk_is_recorded_as_one(ann: User) -> None:
    review = ask(assignees=["ann"])
    decide(review, "approve", actor=ann, door=Door("mcp", is_automated=True))
    drain()
    assert Vote.objects.get().automated
    assert answers[-1].decisions[0].automated
    assert list_events(review, "voted")[0].data["automated"] is True


# --- override -------------------------------------------------------------------------------------------------


@pytest.fixture
def chief() -> User:
    return grant(make_person("chief"), "override_review")


def test_whoever_may_override_decides_in_place_of_those_asked_and_it_is_recorded_as_that(
    ann: User, chief: User
) -> None:
    review = ask(assignees=["ann", "chief"], quorum=2)
    assert decide(review, "approve", actor=chief, override=True, reason="board said so").state == "decided"
    drain()
    [decision] = answers[-1].decisions
    assert (decision.actor, decision.override, decision.reason) == (f"user:{chief.pk}", True, "board said so")
    assert Vote.objects.get().override
    assert list_events(review, "voted")[0].data["override"] is True
    assert list_events(review, "answered")[0].data["override"] == "board said so"


def test_to_override_takes_a_permission_of_its_own_and_a_reason(ann: User, chief: User) -> None:
    review = ask(assignees=["ann"])
    assert refused(NotAllowed, review, actor=ann, override=True, reason="me").obstacle.rule == "permission"
    refused(ReasonRequired, review, actor=chief, override=True)
    refused(UnknownOutcome, review, "burn", actor=chief, override=True, reason="why not")
    refused(NotAllowed, review, actor=chief, reason="not overriding")
    User.objects.filter(pk=chief.pk).update(is_active=False)
    refused(NotAllowed, review, actor=chief, override=True, reason="I left")


@pytest.mark.parametrize("four_eyes", [True, False])
def test_nobody_overrides_their_own_request(chief: User, four_eyes: bool) -> None:
    review = ask(actor=chief, four_eyes=four_eyes)
    assert refused(NotAllowed, review, actor=chief, override=True, reason="me").obstacle.rule == "requester"


def test_who_decided_an_earlier_stage_does_not_override_a_later_one(ann: User, chief: User) -> None:
    instance = start({"assignees": ["chief"]}, {"assignees": ["ann"]})
    decide(find_review(instance), "approve", actor=chief)
    drain()
    review = find_review(instance)
    assert refused(NotAllowed, review, actor=chief, override=True, reason="me").obstacle.rule == "decided_before"


def test_who_has_voted_and_overrides_has_changed_their_mind_and_counts_once(ann: User, chief: User) -> None:
    review = ask(assignees=["ann", "chief"], quorum=2)
    decide(review, "approve", actor=chief)
    decide(review, "reject", actor=chief, override=True, reason="it burns")
    drain()
    assert [one.outcome for one in answers[-1].decisions] == ["reject"]
    assert Vote.objects.filter(review=review).count() == 3  # the vote, its taking back, and the other one
    assert len(list_events(review, "reversed")) == 1


def test_a_claim_is_in_nobodys_way_who_overrides(ann: User, chief: User) -> None:
    review = ask(assignees=["ann"])
    claim(review, actor=ann)
    assert decide(review, "approve", actor=chief, override=True, reason="now").state == "decided"


@pytest.mark.parametrize("door", [Door("admin", via_bulk=True), Door("mcp", is_automated=True)], ids=["bulk", "agent"])
def test_high_risk_is_not_overridden_more_carelessly_than_decided(chief: User, door: Door) -> None:
    review = ask(assignees=["chief"], risk="high")
    refused(NotAllowed, review, actor=chief, override=True, reason="now", door=door)


def test_to_override_takes_membership_of_the_workspace(ann: User, chief: User) -> None:
    workflows.workspace.create("acme").members.add(ann)
    with workflows.workspace("acme"):
        review = ask(assignees=["ann"])
    assert refused(NotAllowed, review, actor=chief, override=True, reason="now").obstacle.rule == "permission"


def test_an_override_of_what_is_decided_or_stale_is_refused(ann: User, chief: User, shop: Any) -> None:
    review = ask(assignees=["ann"])
    decide(review, "approve", actor=ann)
    refused(AlreadyDecided, review, "reject", actor=chief, override=True, reason="no")
    invoice = shop.Order.objects.create(code="A-1")
    other = ask(assignees=["ann"], subject=invoice)
    shop.Order.objects.update(amount="1.00")
    with pytest.raises(Stale):
        decide(other, "approve", actor=chief, override=True, reason="no")


def test_what_takes_a_permission_takes_membership_of_the_workspace_too(ann: User, ben: User) -> None:
    workflows.workspace.create("acme").members.add(ann)
    with workflows.workspace("acme"):
        review = ask(assignees=["ann"])
    claim(review, actor=ann)
    for codename in ("reassign_review", "extend_review", "withdraw_review"):
        ben = grant(ben, codename)
    told = explain(review, ben)
    for action in ("reassign", "extend", "withdraw", "release"):
        assert told[action] is not None, action
