"""Who decides for whom: absences with dates and scope, shares that were handed on; and users of other kinds."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.db import IntegrityError, transaction

import workflows
from approvals import NotAllowed, claim, decide, delegate, explain, reassign, undo
from approvals.models import Absence, Review, Vote
from approvals.people.principals import describe_principals, forget_permissions, list_principals, list_users
from tests.support.postgres_plugin import FIRST_SERVER
from tests.support.review_calls import (
    again,
    ask,
    count_statements,
    find_review,
    grant,
    make_absent,
    make_person,
    start,
    truth,  # noqa: F401 (a fixture)
)
from workflows.clock import read_now
from workflows.models import Workspace
from workflows.testing import advance, drain

pytestmark = pytest.mark.django_db


def may(review: Review, user: User) -> bool:
    """Whether somebody may decide it now; the list and the rules say the same."""
    found = explain(again(review), User.objects.get(pk=user.pk))["decide"] is None
    assert (review in Review.objects.for_user(User.objects.get(pk=user.pk))) is found
    return found


# --- who is away ----------------------------------------------------------------------------------------------


def test_a_substitute_decides_in_place_of_who_is_away_who_then_has_decided() -> None:
    ann, ben, cid = make_person("ann"), make_person("ben"), make_person("cid")
    review = ask(assignees=[ann, cid], quorum=2)
    assert not may(review, ben)
    make_absent(ann, ben)
    assert [may(review, one) for one in (ann, ben, cid)] == [True, True, True]
    vote = decide(review, "approve", actor=ben).vote
    assert vote is not None
    assert (vote.user_id, vote.on_behalf_of_id) == (ben.pk, ann.pk)
    assert [may(review, one) for one in (ann, ben, cid)] == [False, False, True]
    obstacle = explain(again(review), ann)["decide"]
    assert obstacle is not None
    assert obstacle.rule == "voted"
    undo(review, actor=ben)
    assert [may(review, one) for one in (ann, ben, cid)] == [True, True, True]
    decide(review, "approve", actor=ann)
    assert [may(review, one) for one in (ann, ben, cid)] == [False, False, True]


def test_an_absence_begins_and_ends_at_its_moments() -> None:
    ann, ben = make_person("ann"), make_person("ben")
    review = ask(assignees=["ann"])
    made = make_absent(ann, ben, since=read_now() + timedelta(hours=1), until=read_now() + timedelta(hours=3))
    assert not may(review, ben)
    advance("2h")
    assert may(review, ben)
    advance("2h")
    assert not may(review, ben)
    with pytest.raises(NotAllowed):
        decide(review, "approve", actor=ben)
    Absence.objects.filter(pk=made.pk).update(until=None)
    assert may(review, ben)
    made.delete()
    assert not may(review, ben)


def test_a_substitute_s_grace_ends_with_the_absence() -> None:
    ann, ben = make_person("ann"), make_person("ben")
    review = ask(assignees=["ann"])
    made = make_absent(ann, ben)
    assert decide(review, "approve", actor=ben, grace=True).state == "grace"
    made.delete()
    advance("1m")
    assert (again(review).open, again(review).outcome) == (True, "")
    assert not Vote.objects.filter(standing=True).exists()


def test_an_absence_is_about_its_workspace_and_its_workflows() -> None:
    ann, ben = make_person("ann"), make_person("ben")
    here, there = Workspace.objects.get(slug="default"), Workspace.objects.create(slug="acme", name="Acme")
    for one in (here, there):
        one.members.set([ann, ben])
    review = ask(assignees=["ann"])
    scopes: list[tuple[dict[str, Any], bool]] = [
        ({"workspace": here}, True),
        ({"workspace": there}, False),
        ({"workflows": ["approving.ask"]}, True),
        ({"workflows": ["other", "approving.ask"]}, True),
        ({"workflows": ["other"]}, False),
        ({"workflows": []}, True),  # left empty: all of them
        ({"workspace": there, "workflows": ["approving.ask"]}, False),
    ]
    for options, expected in scopes:
        made = make_absent(ann, ben, **options)
        assert may(review, ben) is expected, options
        assert (review in Review.objects.visible_to(ben)) is expected, options
        made.delete()


def test_absences_are_not_followed_from_one_to_the_next() -> None:
    ann, ben, cid = make_person("ann"), make_person("ben"), make_person("cid")
    review = ask(assignees=["ann"])
    make_absent(ann, ben)
    make_absent(ben, cid)
    assert [may(review, one) for one in (ann, ben, cid)] == [True, True, False]


def test_who_stands_in_for_several_decides_once_for_the_first_who_may() -> None:
    ann, ben, cid, sub = (make_person(name) for name in ("ann", "ben", "cid", "sub"))
    make_absent(ann, sub)
    make_absent(ben, sub)
    review = ask(assignees=[ann, ben, cid], requester=ann, quorum=2)
    vote = decide(review, "approve", actor=sub).vote
    assert vote is not None
    assert vote.on_behalf_of_id == ben.pk  # it was Ann's request
    assert not may(review, sub)
    assert may(review, cid)


def test_a_substitute_of_who_asked_decides_nothing_of_theirs() -> None:
    ann, ben = make_person("ann", "finance"), make_person("ben")
    make_absent(ann, ben)
    review = ask(groups=["finance"], requester=ann)
    assert not may(review, ben)
    own = ask(groups=["finance"], requester=ben)
    assert may(own, ann)
    assert not may(own, ben)
    without = ask(groups=["finance"], requester=ann, four_eyes=False)
    assert may(without, ben)


def test_a_substitute_of_an_earlier_decider_decides_no_later_stage_for_them() -> None:
    ann, ben = make_person("ann", "finance"), make_person("ben")
    instance = start({"groups": ["finance"]}, {"groups": ["finance"]})
    decide(find_review(instance), "approve", actor=ann)
    drain()
    make_absent(ann, ben)
    assert not may(find_review(instance), ben)


def test_a_substitute_who_was_asked_too_decides_as_themselves() -> None:
    ann, ben = make_person("ann"), make_person("ben")
    make_absent(ann, ben)
    review = ask(assignees=[ann, ben], quorum=2)
    vote = decide(review, "approve", actor=ben).vote
    assert vote is not None
    assert vote.on_behalf_of_id is None
    assert not may(review, ben)
    assert decide(review, "approve", actor=ann).state == "decided"


def test_who_is_away_and_may_not_log_in_or_is_no_member_has_nobody_in_their_place() -> None:
    ann, ben = make_person("ann"), make_person("ben")
    review = ask(assignees=["ann"])
    make_absent(ann, ben)
    User.objects.filter(pk=ann.pk).update(is_active=False)
    assert not may(review, ben)
    User.objects.filter(pk=ann.pk).update(is_active=True)
    assert may(review, ben)
    Workspace.objects.create(slug="acme", name="Acme")
    Workspace.objects.get(slug="default").members.set([ben])
    assert not may(review, ben)
    Workspace.objects.get(slug="default").members.set([ann])
    assert not may(review, ben)
    Workspace.objects.get(slug="default").members.set([ann, ben])
    assert may(review, ben)


def test_nobody_stands_in_for_themselves_and_no_absence_ends_before_it_begins() -> None:
    ann, ben = make_person("ann"), make_person("ben")
    for options in ({"substitute": ann}, {"until": read_now() - timedelta(hours=2)}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Absence.objects.create(**{"user": ann, "substitute": ben, "since": read_now(), **options})


# --- shares that were handed on -------------------------------------------------------------------------------


def test_a_substitute_may_decide_what_was_handed_to_who_is_away() -> None:
    ann, ben, cid = make_person("ann"), make_person("ben"), make_person("cid")
    review = ask(assignees=["ann"])
    delegate(review, to=ben, actor=ann)
    make_absent(ben, cid)
    assert [may(review, one) for one in (ann, ben, cid)] == [False, True, True]
    vote = decide(review, "approve", actor=cid).vote
    assert vote is not None
    assert vote.on_behalf_of_id == ben.pk


def test_a_substitute_of_who_has_handed_it_on_has_nothing_left_to_decide() -> None:
    ann, ben, cid = make_person("ann", "finance"), make_person("ben"), make_person("cid")
    review = ask(groups=["finance"])
    make_absent(ann, cid)
    assert may(review, cid)
    delegate(review, to=ben, actor=ann)
    assert [may(review, one) for one in (ann, ben, cid)] == [False, True, False]


def test_who_took_a_share_over_has_it_until_who_gave_it_has_decided_after_all() -> None:
    ann, ben = make_person("ann"), make_person("ben")
    boss = grant(make_person("boss"), "reassign_review")
    review = ask(assignees=["ann", "boss"], quorum=2)
    delegate(review, to=ben, actor=ann)
    reassign(review, users=[ann], keep=True, actor=boss)
    assert [may(review, one) for one in (ann, ben)] == [True, True]
    decide(review, "approve", actor=ann)
    assert [may(review, one) for one in (ann, ben)] == [False, False]
    undo(review, actor=ann)
    assert [may(review, one) for one in (ann, ben)] == [True, True]
    decide(review, "approve", actor=ben)
    assert [may(review, one) for one in (ann, ben)] == [False, False]


def test_a_share_stays_with_who_took_it_when_its_giver_leaves_the_group_or_goes() -> None:
    ann, ben = make_person("ann", "finance"), make_person("ben")
    review = ask(quorum={"finance": 1})
    delegate(review, to=ben, actor=ann)
    ann.groups.clear()
    assert may(review, ben)
    User.objects.filter(pk=ann.pk).update(is_active=False)
    assert may(review, ben)
    vote = decide(review, "approve", actor=ben).vote
    assert vote is not None
    assert vote.groups == ["finance"]


def test_what_is_claimed_by_who_can_no_longer_log_in_is_free() -> None:
    ann, ben = make_person("ann", "finance"), make_person("ben", "finance")
    review = ask(groups=["finance"])
    claim(review, actor=ann)
    assert not may(review, ben)
    User.objects.filter(pk=ann.pk).update(is_active=False)
    assert may(review, ben)


def test_in_another_workspace_nothing_is_anybody_s_who_is_no_member() -> None:
    ann = make_person("ann", "finance", is_superuser=True)
    acme = Workspace.objects.create(slug="acme", name="Acme")
    with workflows.workspace("acme"):
        review = ask(groups=["finance"], assignees=["ann"])
    assert not may(review, ann)
    assert list(Review.objects.visible_to(ann)) == []
    acme.members.add(ann)
    assert may(review, ann)


# --- names ----------------------------------------------------------------------------------------------------


def test_a_superuser_answers_to_every_permission_there_is_in_a_bounded_number_of_statements() -> None:
    root = make_person("root", is_superuser=True)
    names = list_principals(root)
    held = [one for one in names if one.startswith("permission:")]
    assert len(held) == Permission.objects.count() > 50
    fresh = User.objects.get(pk=root.pk)
    assert len(count_statements(lambda: list_principals(fresh, {"permission"}))) == 2
    assert [one for one in held if root not in list_users([one])] == []


def test_people_are_named_in_one_statement_and_groups_with_permissions_in_another() -> None:
    people = [make_person(f"p{n}", f"g{n}") for n in range(9)]
    names = [f"user:{one.pk}" for one in people] + [f"group:{one.pk}" for one in Group.objects.all()]
    names += [f"permission:auth.{one}" for one in ("add_user", "change_user")]
    assert len(count_statements(lambda: describe_principals(names))) == 2
    told = [f"P{n}" for n in range(9)] + [f"g{n}" for n in range(9)]
    assert describe_principals(names) == [*told, "whoever: Can add user", "whoever: Can change user"]


def test_forgetting_what_somebody_may_leaves_the_object_at_hand_as_it_is() -> None:
    ann = make_person("ann")
    assert not ann.has_perm("auth.change_group")
    before = {**vars(ann)}
    ann.user_permissions.add(Permission.objects.get(codename="change_group"))
    assert forget_permissions(ann).has_perm("auth.change_group")
    assert vars(ann) == before


# --- users of a project's own kind ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("model", ["Member", "Account"])
def test_all_of_it_holds_for_users_with_a_key_of_another_kind(model: str) -> None:
    """A project has one user model, so that each is tried in a process of its own, on a database of its own."""
    environment = {**os.environ, "MEMBERS": model, "DJANGO_SETTINGS_MODULE": "tests.support.apps.members.settings"}
    environment = {name: value for name, value in environment.items() if not name.startswith("PYTEST_")}
    environment.pop(FIRST_SERVER, None)  # else what is migrated for it alone is copied for others
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-n0",
        "-p",
        "no:cacheprovider",
        "tests/support/apps/members/cases.py",
    ]
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-2000:]
    assert "6 passed" in done.stdout
