"""What holds whatever users a project has: run by `test_absences_and_user_models`, MEMBERS saying which they are."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission

import workflows
from approvals import (
    Approval,
    InvalidApproval,
    NotAllowed,
    answer_info,
    candidates,
    claim,
    comment,
    decide,
    delegate,
    explain,
    reassign,
    request_info,
    snooze,
    undo,
    withdraw,
)
from approvals.cards.card import build_card
from approvals.cards.case_query import load_case
from approvals.models import Absence, Review
from approvals.people import principals
from approvals.people.lookup import find_group
from workflows import Await, Done, Workflow, step
from workflows.clock import read_now
from workflows.models import Workspace
from workflows.testing import advance, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db

User: Any = get_user_model()
IS_TEXT = os.environ["MEMBERS"] == "Account"
NAMES = ["ann:1 %s'", "ben\\", 'cid"x', "dot"] if IS_TEXT else ["ann", "ben", "cid", "dot"]

_options: list[dict[str, Any]] = []


class Asking(Workflow):
    name = "members.ask"

    @step
    def ask(self, ctx: Any) -> Any:
        return Await(Approval("Pay the invoice", **_options[-1]), then="end", timeout="7d")

    @step
    def end(self, ctx: Any) -> Any:
        return Done(ctx.answer.outcome if ctx.answer else None)


def make_people() -> list[Any]:
    if IS_TEXT:
        return [User.objects.create(login=name) for name in NAMES]
    return [User.objects.create(email=f"{name}@example.com") for name in NAMES]


def start(actor: Any = "", **options: Any) -> Any:
    _options.append(options)
    instance = workflows.start(Asking, actor=actor)
    drain()
    return instance


def ask(actor: Any = "", **options: Any) -> Review:
    found: Review = Review.objects.get(instance=start(actor, **options))
    return found


def list_for(user: Any) -> list[Review]:
    return list(Review.objects.for_user(User.objects.get(pk=user.pk)))


def test_people_are_asked_by_row_or_name_and_decide() -> None:
    ann, ben, cid, _ = make_people()
    review = ask(actor=cid, assignees=[ann, ben.get_username()], quorum=2)
    assert review.requester_id == cid.pk
    assert sorted(one.principal for one in review.candidates.all()) == sorted([f"user:{ann.pk}", f"user:{ben.pk}"])
    assert [list_for(one) for one in (ann, ben, cid)] == [[review], [review], []]
    assert decide(review, "approve", actor=ann).state == "open"
    assert [list_for(one) for one in (ann, ben, cid)] == [[], [review], []]
    assert list(Review.objects.visible_to(cid)) == [review]
    undo(review, actor=ann)
    assert [decide(review, "approve", actor=one).state for one in (ann, ben)] == ["open", "decided"]
    drain()
    assert_done(review.instance, "approve")


def test_everything_else_is_done_by_them_too() -> None:
    ann, ben, cid, dot = make_people()
    review = ask(actor=cid, assignees=[ann])
    claim(review, actor=ann)
    comment(review, "Well.", actor=ann)
    request_info(review, "Which?", actor=ann)
    answer_info(review, "This.", actor=cid)
    snooze(review, until=read_now() + timedelta(hours=1), actor=ann)
    delegate(review, to=ben.get_username(), actor=ann)
    delegate(review, to=dot, actor=ben)
    assert [list_for(one) for one in (ann, ben, dot)] == [[], [], [review]]
    for one in (ann, ben, cid, dot, None):
        told = build_card(Review.objects.get(pk=review.pk), one)
        assert told.title == "Pay the invoice"
    assert explain(review, dot)["decide"] is None
    with pytest.raises(NotAllowed):
        reassign(review, users=[ann], actor=dot)
    vote = decide(review, "approve", actor=dot, grace=True).vote
    assert vote is not None
    assert (vote.on_behalf_of_id, vote.user_id, vote.actor) == (ann.pk, dot.pk, f"user:{dot.pk}")
    advance("10s")
    drain()
    assert_done(review.instance, "approve")
    other = ask(actor=cid, assignees=[ann])
    withdraw(other, actor=cid)
    assert not Review.objects.get(pk=other.pk).open


def test_a_substitute_decides_for_who_is_away() -> None:
    ann, ben, cid, _ = make_people()
    review = ask(assignees=[ann], candidates=User.objects.filter(pk=cid.pk))
    Absence.objects.create(user=ann, substitute=ben, since=read_now() - timedelta(hours=1))
    assert [list_for(one) for one in (ann, ben, cid)] == [[review], [review], [review]]
    vote = decide(review, "approve", actor=ben).vote
    assert vote is not None
    assert vote.on_behalf_of_id == ann.pk


def test_where_there_are_two_workspaces_their_members_see_decide_and_are_counted() -> None:
    ann, ben, cid, _ = make_people()
    Workspace.objects.create(slug="other", name="Other").members.add(cid)
    Workspace.objects.get(slug="default").members.add(ann, ben)
    review = ask(assignees=[ann, ben, cid], quorum="all")
    assert [list_for(one) for one in (ann, ben, cid)] == [[review], [review], []]
    assert [load_case(review.pk, one) is None for one in (ann, ben, cid)] == [False, False, True]
    assert [decide(review, "approve", actor=one).state for one in (ann, ben)] == ["open", "decided"]
    case = load_case(review.pk, ann)
    assert case is not None
    assert [vote.user_id for vote in case.votes] == [ann.pk, ben.pk]
    told = [build_card(case.review, one, case=case).told for one in (ann, ben)]
    assert told[1].startswith("You approved this")
    assert told[0].startswith(f"{ben.get_username()} approved this")


def test_a_rule_names_them() -> None:
    ann, ben, *_ = make_people()
    candidates("first")(lambda: User.objects.filter(pk=ann.pk))
    review = ask(candidates="first")
    assert [list_for(one) for one in (ann, ben)] == [[review], []]
    assert list(principals.list_users(["rule:first", "user:nobody", f"user:{ben.pk}"]).order_by("pk")) == sorted(
        [ann, ben], key=lambda one: one.pk
    )
    assert decide(review, "approve", actor=ann).state == "decided"


@pytest.mark.skipif(IS_TEXT, reason="its users have groups and permissions")
def test_where_users_have_neither_groups_nor_permissions_asking_those_is_refused() -> None:
    make_people()
    Group.objects.create(name="finance")
    refused: list[tuple[dict[str, Any], str]] = [
        ({"groups": ["finance"]}, "users of this project are in no groups: ask users, a permission or a rule"),
        ({"quorum": {"finance": 1}}, "users of this project are in no groups"),
        ({"permission": "auth.change_group"}, "users of this project have no permissions: nobody could decide"),
        ({}, "users of this project have no permissions, so nobody could decide: say who is asked"),
    ]
    for options, told in refused:
        assert_failed(start(**options), told)
    ann = User.objects.first()
    review = ask(assignees=[ann])
    with pytest.raises(InvalidApproval, match="are in no groups"):
        find_group("finance", "groups")
    assert explain(review, ann)["reassign"] is not None
    assert list(principals.list_users(["group:1", "permission:auth.change_group"])) == []


@pytest.mark.skipif(not IS_TEXT, reason="its users have no groups")
def test_groups_and_permissions_are_asked() -> None:
    ann, ben, cid, _ = make_people()
    finance = Group.objects.create(name="it's 100 % \\ finance")
    ann.groups.add(finance)
    ben.user_permissions.add(Permission.objects.get(codename="change_group"))
    User.objects.filter(pk=cid.pk).update(is_superuser=True)
    review = ask(groups=[finance], permission="auth.change_group", quorum="all")
    assert [list_for(one) for one in (ann, ben, cid)] == [[review], [review], [review]]
    assert list(Review.objects.for_user(ann).filter(title__contains="%")) == []
    assert [decide(review, "approve", actor=one).state for one in (ann, ben, User.objects.get(pk=cid.pk))] == [
        "open",
        "open",
        "decided",
    ]
