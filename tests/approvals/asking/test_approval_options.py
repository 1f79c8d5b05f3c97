"""Asking people: every option of `Approval` good and bad, and what an opened review looks like.

What is wrong by itself is refused where it is written, what names somebody who is not there when it is opened; each
message says what to write instead, and nothing is left of a review that could not be opened.
"""

from __future__ import annotations

import itertools
import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.utils.functional import SimpleLazyObject

import workflows
from approvals import (
    Approval,
    ApprovalError,
    Calendar,
    InvalidApproval,
    Outcome,
    Veto,
    candidates,
    decide,
    register_calendar,
)
from approvals.asking.opening import MAX_USERS
from approvals.models import Candidate, Notice, Review
from approvals.people import principals
from approvals.rules import calendar
from approvals.rules.escalation import RungAction
from tests.support.review_calls import (
    answers,
    ask,
    count_statements,
    find_review,
    make_person,
    start,
    truth,  # noqa: F401 (a fixture)
)
from workflows import Await, Done, Machine, Workflow, action, durable, step, wait_for
from workflows.exceptions import InvalidDuration, WorkflowError
from workflows.models import Instance, Interaction, Workspace
from workflows.testing import assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def own_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test registers is gone with it."""
    monkeypatch.setattr(principals, "_rules", {**principals._rules})
    monkeypatch.setattr(calendar, "_registered", {**calendar._registered})


# --- what is wrong where it is written ------------------------------------------------------------------------

BAD: dict[str, tuple[dict[str, Any], str]] = {
    "no title": ({"title": ""}, "write the sentence that says what will happen"),
    "a blank title": ({"title": " \n"}, "write the sentence that says what will happen"),
    "a number as title": ({"title": 5}, "write the sentence that says what will happen"),
    "a title with NUL": ({"title": "a\0b"}, "NUL character, which PostgreSQL cannot store"),
    "half a character in the title": ({"title": "a\ud800"}, "lone surrogate"),
    "a title that is too long": ({"title": "x" * 301}, "301 characters, the limit is 300"),
    "why is no text": ({"why": 5}, "why must be text"),
    "why with NUL": ({"why": "\0"}, "NUL"),
    "a subject that is no row": ({"subject": "order 7"}, "an instance of a model"),
    "a class as subject": ({"subject": User}, "an instance of a model"),
    "a change of nothing": ({"change": {"name": "x"}}, "say which, with subject="),
    "a change that is no mapping": ({"change": ["name"], "subject": Group(name="x")}, "write {field: new value}"),
    "outcomes as text": ({"outcomes": "approve"}, 'write a list, such as ("approve", "reject")'),
    "no outcomes": ({"outcomes": []}, "there must be at least one"),
    "an outcome twice": ({"outcomes": ["a", "a"]}, "a may stand there once only"),
    "an outcome that is no word": ({"outcomes": ["a b"]}, "is a word such as 'send_back'"),
    "a number as assignee": ({"assignees": 5}, 'write a list of names or rows, such as ["ann", "ben"]'),
    "a number among assignees": ({"assignees": ["ann", 5]}, "name it, or give the row itself"),
    "nobody among assignees": ({"assignees": [None]}, "name it, or give the row itself"),
    "a blank name": ({"assignees": [" "]}, "must not be empty"),
    "bytes as assignees": ({"assignees": b"ann"}, "write a list of names or rows"),
    "a mapping of assignees": ({"assignees": {"ann": 1}}, "write a list of names or rows"),
    "an assignee with NUL": ({"assignees": ["\0"]}, "NUL"),
    "half a character in a group": ({"groups": ["\udfff"]}, "lone surrogate"),
    "a user as group": ({"groups": [User(username="x")]}, "a group is given as an object, or by its name"),
    "a permission as group": ({"groups": Permission(name="x")}, "a group is given as an object, or by its name"),
    "a permission without an app": ({"permission": "approve_order"}, 'such as "shop.approve_order"'),
    "half a permission": ({"permission": "shop."}, 'such as "shop.approve_order"'),
    "a permission's other half": ({"permission": ".approve"}, 'such as "shop.approve_order"'),
    "a permission that is no text": ({"permission": 7}, 'such as "shop.approve_order"'),
    "a permission with NUL": ({"permission": "shop.\0"}, 'such as "shop.approve_order"'),
    "a rule that is no word": ({"candidates": "on call"}, "it is the name of a rule (@candidates), or users"),
    "a number as candidates": ({"candidates": 5}, "write a list of names or rows"),
    "a number among candidates": ({"candidates": [5]}, "name it, or give the row itself"),
    "a quorum of none": ({"quorum": 0}, "write a number of equal votes such as 2"),
    "a negative quorum": ({"quorum": -1}, "write a number of equal votes such as 2"),
    "a truth value as quorum": ({"quorum": True}, "write a number of equal votes such as 2"),
    "half a vote": ({"quorum": 1.5}, "write a number of equal votes such as 2"),
    "nothing of a hundred": ({"quorum": "0%"}, "write a number of equal votes such as 2"),
    "more than a hundred": ({"quorum": "101%"}, "write a number of equal votes such as 2"),
    "no group to count": ({"quorum": {}}, "name at least one group"),
    "a veto of no outcome": ({"quorum": Veto(2, ["stop"])}, "stop is not among the outcomes (approve, reject)"),
    "four eyes as number": ({"four_eyes": 1}, "write True or False"),
    "four eyes as None": ({"four_eyes": None}, "write True or False"),
    "an unknown risk": ({"risk": "huge"}, "choose one of low, medium, high"),
    "no risk": ({"risk": None}, "choose one of low, medium, high"),
    "risks": ({"risk": ["low"]}, "choose one of low, medium, high"),
    "evidence as text": ({"evidence": "invoice"}, "evidence is a list of links"),
    "evidence as number": ({"evidence": 5}, "evidence is a list of links"),
    "a lambda": (
        {"on_decision": lambda answer, instance: None},
        "a function (answer, instance) at the top of a module",
    ),
    "a text as function": ({"on_decision": "shop.pay"}, "a function (answer, instance) at the top of a module"),
    "a method": ({"on_decision": "".join}, "a function (answer, instance) at the top of a module"),
    "a moment without zone": ({"due": datetime(2026, 1, 1)}, "the moment must know its time zone"),
    "a reminder as text": ({"remind": "1d"}, 'write a list, such as remind=["1d"]'),
    "a reminder that does more": ({"remind": [("1d", ("add", "finance"))]}, "it only reminds"),
    "a rung without action": ({"escalate": ["1d"]}, "a pair of duration and action"),
    "a rung with an unknown action": ({"escalate": [("1d", "shout")]}, 'an action is "remind"'),
    "an answer that there is not": ({"escalate": [("1d", ("outcome", "ok"))]}, "choose one of approve, reject"),
    "two answers": (
        {"escalate": [("1d", ("outcome", "reject")), ("2d", ("outcome", "approve"))]},
        "one outcome at most",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_what_cannot_work_is_refused_where_it_is_written_and_told_how(case: str) -> None:
    options, told = BAD[case]
    with pytest.raises(InvalidApproval, match=re.escape(told)) as refused:
        Approval(**{"title": "Pay the invoice", **options})
    assert isinstance(refused.value, ValueError | ApprovalError)
    assert len(str(refused.value)) < 500
    assert str(refused.value).isprintable()


@pytest.mark.parametrize(
    ("options", "error", "told"),
    [
        ({"due": "soon"}, InvalidDuration, "soon"),
        ({"due": -1}, InvalidDuration, "-1"),
        ({"remind": ["2bd"]}, InvalidDuration, "business days need a calendar="),
        ({"schema": 5}, WorkflowError, "schema"),
    ],
)
def test_times_and_schemas_are_refused_in_their_own_words(options: Any, error: Any, told: str) -> None:
    with pytest.raises(error, match=re.escape(told)):
        Approval("Pay the invoice", **options)


def test_a_title_is_one_line_whatever_it_was_written_as() -> None:
    assert Approval("  Refund €40.00\n  to\tAcme \r\n").title == "Refund €40.00 to Acme"
    assert Approval("x" * 300).title == "x" * 300
    assert ask(title="Refund\nBcc: everybody@example.com").title == "Refund Bcc: everybody@example.com"


GOOD: list[dict[str, Any]] = [
    {"outcomes": ["ship", Outcome("send_back", "Send back", "warning", True, ["Too late"])]},
    {"quorum": 3},
    {"quorum": "50%"},
    {"quorum": "all"},
    {"quorum": {"finance": 1, "legal": "all"}},
    {"quorum": Veto("50%", ["reject"])},
    {"four_eyes": False},
    {"risk": "high"},
    {"why": "The supplier waits."},
    {"request": {"amount": 5, "lines": [1, 2]}},
    {"schema": {"amount": int, "note": str | None}},
    {"due": "2h"},
    {"due": timedelta(days=2)},
    {"due": datetime(2030, 1, 1, tzinfo=UTC)},
    {"remind": ["1d", ("2d", "remind")]},
    {"escalate": [("3d", ("reassign", "legal")), ("4d", ("add", "user", "ann")), ("5d", ("outcome", "reject"))]},
    {"escalate": [("3d", RungAction("add", group="legal"))]},
    {"calendar": Calendar("Europe/Berlin"), "due": "2bd"},
    {"on_decision": assert_done},
]


@pytest.mark.parametrize("options", GOOD, ids=lambda options: " ".join(options))
def test_what_can_be_written_can_be_asked(options: dict[str, Any]) -> None:
    make_person("ann", "finance", "legal")
    if isinstance(options.get("calendar"), Calendar):
        register_calendar("berlin", options["calendar"])
    review = ask(groups=["finance"], **options)
    assert review.open
    assert list(Review.objects.for_user(User.objects.get(username="ann"))) == [review]


# --- who is asked ---------------------------------------------------------------------------------------------


def tell_asked(review: Review) -> list[str]:
    return list(Candidate.objects.filter(review=review).order_by("pk").values_list("principal", flat=True))


def test_people_and_groups_are_given_as_rows_or_by_name_alone_or_in_a_list() -> None:
    ann, ben = make_person("ann", "finance"), make_person("ben")
    finance = Group.objects.get()
    lazy = SimpleLazyObject(lambda: User.objects.get(username="ben"))
    for given, expected in [
        ({"assignees": "ann"}, [f"user:{ann.pk}"]),
        ({"assignees": ann}, [f"user:{ann.pk}"]),
        ({"assignees": ["ben", ann, "ben"]}, [f"user:{ben.pk}", f"user:{ann.pk}"]),
        ({"assignees": (one for one in ("ann",))}, [f"user:{ann.pk}"]),
        ({"assignees": User.objects.order_by("-username")}, [f"user:{ben.pk}", f"user:{ann.pk}"]),
        ({"assignees": lazy}, [f"user:{ben.pk}"]),
        ({"groups": "finance"}, [f"group:{finance.pk}"]),
        ({"groups": finance}, [f"group:{finance.pk}"]),
        ({"groups": [finance, "finance"]}, [f"group:{finance.pk}"]),
        ({"quorum": {"finance": 1}}, [f"group:{finance.pk}"]),
        ({"quorum": {finance: 1}}, [f"group:{finance.pk}"]),
        ({"candidates": ["ann", ben]}, [f"user:{ann.pk}", f"user:{ben.pk}"]),
        ({"candidates": "ann"}, None),  # the name of a rule
        ({"permission": "auth.change_user"}, ["permission:auth.change_user"]),
        ({}, ["permission:holdpoint_approvals.decide_review"]),
        (
            {"assignees": "ann", "groups": "finance", "permission": "auth.change_user", "candidates": [ben]},
            [f"user:{ann.pk}", f"group:{finance.pk}", "permission:auth.change_user", f"user:{ben.pk}"],
        ),
    ]:
        if expected is None:
            assert_failed(start(given), "there is no such rule (registered:")
        else:
            assert tell_asked(ask(**given)) == expected


def test_a_name_that_people_could_mistake_is_the_database_s_to_judge() -> None:
    make_person("ann")
    assert_failed(start({"assignees": ["Ann"]}), "there is no such user")


NOBODY: dict[str, tuple[Any, str]] = {
    "a user": (lambda: {"assignees": ["ann", "zoe"]}, "assignees='zoe' cannot be used: there is no such user"),
    "a user that is not saved": (lambda: {"assignees": [User(username="zoe")]}, "there is no such user"),
    "a user with a key that is not saved": (
        lambda: {"assignees": [User(pk=99, username="z")]},
        "there is no such user",
    ),
    "a user that was deleted": (lambda: {"assignees": [_deleted_user()]}, "there is no such user"),
    "a group as user": (lambda: {"assignees": [Group(name="g")]}, "a user is given as an object, or by the username"),
    "a calendar": (lambda: {"calendar": "berlin"}, "Call approvals.rules.calendar.register_calendar('berlin', …)"),
    "a group": (lambda: {"groups": ["sales"]}, "groups='sales' cannot be used: there is no group of this name"),
    "a group of a quorum": (lambda: {"quorum": {"sales": 1}}, "there is no group of this name"),
    "a permission": (lambda: {"permission": "auth.change_usr"}, "there is no such permission: nobody could decide"),
    "a rule": (
        lambda: {"candidates": "on_call"},
        "Register it with @candidates in a module that every process imports",
    ),
    "a query that finds nobody": (
        lambda: {"candidates": User.objects.none()},
        "it names nobody, so nobody could decide",
    ),
    "an empty list": (lambda: {"candidates": []}, "it names nobody, so nobody could decide"),
    "a query of groups": (lambda: {"candidates": Group.objects.all()}, "the query must give users"),
    "a requester": (lambda: {"requester": "zoe"}, "requester='zoe' cannot be used: there is no such user"),
    "a requester that is a number": (lambda: {"requester": 5}, "requester=5 cannot be used: there is no such user"),
    "a group of the ladder": (lambda: {"escalate": [("1d", ("add", "sales"))]}, "there is no group of this name"),
    "a user of the ladder": (lambda: {"escalate": [("1d", ("add", "user", "zoe"))]}, "escalate='zoe' cannot be used"),
    "more votes than people": (
        lambda: {"assignees": ["ann"], "quorum": 2},
        "quorum=2 cannot be used: 2 equal answers decide, and no more than 1 could be given",
    ),
    "more votes than people, with veto": (
        lambda: {"assignees": "ann", "quorum": Veto(3)},
        "3 equal answers decide, and no more than 1 could be given",
    ),
    "more votes than people are left by the ladder": (
        lambda: {
            "assignees": ["ann", make_person("ben")],
            "quorum": 2,
            "escalate": [("1h", ("reassign", "user", "ann"))],
        },
        "escalate=['reassign'] cannot be used: 2 equal answers decide, and no more than 1 could be given",
    ),
    "more votes than people, with one who is asked twice": (
        lambda: {"assignees": ["ann"], "quorum": 2, "escalate": [("1h", ("add", "user", "ann"))]},
        "2 equal answers decide, and no more than 1 could be given",
    ),
    "somebody whose answer counts in no group": (
        lambda: {"assignees": ["ann"], "quorum": _count_by("finance")},
        "answers count by group here (finance)",
    ),
    "a group that does not count": (
        lambda: {"groups": ["legal"], "quorum": _count_by("finance", "legal")},
        "answers count by group here (finance)",
    ),
    "a group that does not count, by the ladder": (
        lambda: {"quorum": _count_by("finance", "legal"), "escalate": [("1h", ("add", "legal"))]},
        "escalate=['add'] cannot be used: answers count by group here (finance)",
    ),
    "a group that counts, gone by the ladder": (
        lambda: {"quorum": _count_by("finance", "legal") | {"legal": 1}, "escalate": [("1h", ("reassign", "legal"))]},
        "answers count by group here (finance, legal)",
    ),
    "a group that counts, gone by the ladder, with veto": (
        lambda: {"quorum": Veto(_count_by("finance", "legal")), "escalate": [("1h", ("reassign", "legal"))]},
        "answers count by group here (finance)",
    ),
    "a subject that is not saved": (lambda: {"subject": Group(name="x")}, "it is not saved yet"),
    "a subject that is gone": (lambda: {"subject": _gone_group()}, "its row is not there"),
    "a change of an unknown field": (lambda: _change({"nam": "x"}), "did you mean 'name'?"),
    "a change that the model refuses": (lambda: _change({"name": "x" * 200}), "at most 150 characters"),
    "a change that meets another row": (lambda: _change({"name": "taken"}), "already exists"),
}


def _count_by(counted: str, *others: str) -> dict[str, int]:
    """A rule of one group, where there are others too."""
    for name in (counted, *others):
        Group.objects.get_or_create(name=name)
    return {counted: 1}


def _deleted_user() -> User:
    user = make_person("gone")
    user.delete()
    return user


def _gone_group() -> Group:
    group = Group.objects.create(name="gone")
    Group.objects.filter(pk=group.pk).delete()
    return group


def _change(change: dict[str, Any]) -> dict[str, Any]:
    Group.objects.create(name="taken")
    return {"subject": Group.objects.create(name="free"), "change": change}


@pytest.mark.parametrize("case", NOBODY)
def test_what_is_not_there_fails_the_opening_and_nothing_is_left_of_it(case: str) -> None:
    make_person("ann")
    make, told = NOBODY[case]
    instance = start(make())
    assert_failed(instance, told)
    assert re.match("InvalidApproval|InvalidChange|UnknownCalendar", Instance.objects.get(pk=instance.pk).error or "")
    for model in (Review, Candidate, Notice, Interaction):
        assert not model.objects.exists(), model


def test_more_users_than_one_query_may_name_belong_in_a_group() -> None:
    User.objects.bulk_create(User(username=f"u{n}") for n in range(MAX_USERS + 1))
    assert len(tell_asked(ask(candidates=User.objects.order_by("username")[:MAX_USERS]))) == MAX_USERS
    assert_failed(start({"candidates": User.objects.all()}), f"more than {MAX_USERS} users: use a group, a permission")
    assert_failed(start({"candidates": list(User.objects.all())}), f"more than {MAX_USERS} users")


def test_a_query_is_frozen_to_its_users_and_a_rule_is_not() -> None:
    ann, ben = make_person("ann"), make_person("ben")
    candidates("leads")(lambda: User.objects.filter(last_name="Lead"))
    User.objects.filter(pk=ann.pk).update(last_name="Lead")
    frozen = ask(candidates=User.objects.filter(last_name="Lead").distinct())
    live = ask(candidates="leads")
    User.objects.filter(pk=ben.pk).update(last_name="Lead")
    User.objects.filter(pk=ann.pk).update(last_name="")
    assert tell_asked(frozen) == [f"user:{ann.pk}"]
    assert tell_asked(live) == ["rule:leads"]
    assert list(Review.objects.for_user(ann)) == [frozen]
    assert list(Review.objects.for_user(ben)) == [live]


def test_a_combined_query_and_one_of_a_subclass_name_their_users() -> None:
    ann, ben = make_person("ann"), make_person("ben")
    both = User.objects.filter(pk=ann.pk).union(User.objects.filter(pk=ben.pk))
    assert sorted(tell_asked(ask(candidates=both))) == sorted([f"user:{ann.pk}", f"user:{ben.pk}"])


def test_where_nobody_is_named_whoever_has_the_permission_for_it_decides() -> None:
    ann, root = make_person("ann"), make_person("root", is_superuser=True)
    review = ask()
    assert list(Review.objects.for_user(ann)) == []
    assert list(Review.objects.for_user(root)) == [review]
    ann.user_permissions.add(Permission.objects.get(codename="decide_review"))
    assert decide(review, "approve", actor=ann).state == "decided"


def test_a_permission_with_dots_in_its_name_is_found_again() -> None:
    kind = Permission.objects.get(codename="change_user").content_type
    held = Permission.objects.create(content_type=kind, codename="orders.big.approve", name="Can approve big orders")
    ann = make_person("ann")
    review = ask(permission="auth.orders.big.approve")
    assert principals.describe_principals(tell_asked(review)) == ["whoever: Can approve big orders"]
    ann.user_permissions.add(held)
    assert list(principals.list_users(tell_asked(review))) == [ann]
    assert decide(review, "approve", actor=ann).state == "decided"


def test_a_group_that_is_renamed_after_the_request_is_still_asked_and_counted() -> None:
    ann = make_person("ann", "finance")
    review = ask(quorum={"finance": 1})
    Group.objects.update(name="treasury")
    assert list(Review.objects.for_user(ann)) == [review]
    assert principals.describe_principals(tell_asked(review)) == ["treasury"]
    assert decide(review, "approve", actor=ann).state == "decided"


def test_who_was_asked_and_is_gone_is_called_so() -> None:
    ann = make_person("ann", "finance")
    review = ask(assignees=[ann], groups=["finance"], candidates=User.objects.all())
    asked = tell_asked(review)
    ann.delete()
    Group.objects.all().delete()
    assert principals.describe_principals([*asked, "permission:shop.sold", "rule:on_call"]) == [
        "a former user",
        "a former group",
        "whoever: shop.sold",
        "on call",
    ]
    assert list(principals.list_users(asked)) == []


@pytest.mark.parametrize(
    "bad", ["user:", "user:x", "user:1e5", "user:\0", "group:x", "rule:gone", "permission:", "what"]
)
def test_a_principal_that_can_be_nobody_is_nobody(bad: str) -> None:
    make_person("ann", is_superuser=True)
    assert list(principals.list_users([bad])) == []
    assert len(principals.describe_principals([bad])) == 1


def test_whoever_is_listed_is_counted() -> None:
    ann = make_person("ann", "finance")
    make_person("root", is_superuser=True)
    make_person("left", "finance", is_active=False)
    lead = Group.objects.create(name="lead")
    lead.permissions.add(Permission.objects.get(codename="change_user"))
    make_person("lou").groups.add(lead)
    ann.user_permissions.add(Permission.objects.get(codename="add_group"))
    candidates("first")(lambda: User.objects.order_by("pk")[:1])
    names = ["permission:auth.change_user", "permission:auth.add_group", "permission:no.such", "rule:first"]
    names += [f"group:{one.pk}" for one in Group.objects.all()] + [f"user:{one.pk}" for one in User.objects.all()]
    for name in names:
        listed = {one.username for one in User.objects.all() if name in principals.list_principals(one)}
        assert {one.username for one in principals.list_users([name])} == listed, name


def test_the_columns_of_the_interaction_say_who_is_asked_where_that_is_one() -> None:
    ann, ben = make_person("ann", "finance", "legal"), make_person("ben")
    for given, expected in [
        ({"assignees": ann}, ("ann", None)),
        ({"assignees": ["ann"], "groups": ["finance"]}, ("ann", "finance")),
        ({"assignees": [ann, ben]}, (None, None)),
        ({"groups": ["finance", "legal"]}, (None, None)),
        ({"quorum": {"legal": 1}}, (None, "legal")),
        ({}, (None, None)),
    ]:
        found = ask(**given).interaction
        assert (found.assignee, found.group, found.channel) == (*expected, "approval")


# --- what it is about -----------------------------------------------------------------------------------------


def test_the_subject_is_kept_as_it_is_in_the_database_not_as_the_object_at_hand() -> None:
    group = Group.objects.create(name="old")
    at_hand = Group.objects.get()
    Group.objects.update(name="new")
    review = ask(subject=at_hand, change={"name": "newest"})
    assert (review.subject_model, review.subject_pk, review.snapshot, review.change) == (
        "auth.group",
        str(group.pk),
        {"name": "new"},
        {"name": "newest"},
    )
    assert re.fullmatch("[0-9a-f]{64}", review.digest)


def test_a_review_without_subject_has_nothing_of_one_and_a_change_that_changes_nothing_is_empty() -> None:
    bare = ask()
    assert (bare.subject_model, bare.subject_pk, bare.snapshot, bare.change, bare.digest) == ("", "", None, None, "")
    group = Group.objects.create(name="same")
    assert ask(subject=group).change is None
    assert ask(subject=group, change={"name": "same"}).change == {}


# --- who asked ------------------------------------------------------------------------------------------------


def test_who_asked_is_who_started_it_where_that_is_a_user() -> None:
    ann = make_person("ann")
    assert ask(actor=ann).requester_id == ann.pk
    assert ask(requester="ann").requester_id == ann.pk
    assert ask(requester=ann, actor="user:77").requester_id == ann.pk
    for actor in ("", "cron", "user:77", "user:x", "user:", "user:\u0663", "user:9" * 40, "api key:5"):
        assert ask(actor=actor).requester_id is None, actor


# --- frozen ---------------------------------------------------------------------------------------------------


def test_times_are_frozen_when_it_is_requested_whatever_a_calendar_says_later() -> None:
    register_calendar("desk", Calendar("UTC", {day: [("00:00", "24:00")] for day in range(7)}))
    group = make_person("ann", "finance").groups.get()
    escalate = [("3h", ("add", "finance")), ("5h", ("outcome", "reject"))]
    review = ask(calendar="desk", due="2h", remind=["1h"], escalate=escalate)
    calendar._registered["desk"] = Calendar("UTC", {0: [("09:00", "09:01")]})  # as after a deploy
    group.name = "treasury"
    group.save()
    review.refresh_from_db()
    hours = lambda moment: (moment - review.created_at) / timedelta(hours=1)  # noqa: E731
    assert (hours(review.due_at), hours(review.next_at)) == (2, 1)
    assert [(hours(datetime.fromisoformat(one["at"])), one["do"], one.get("principal")) for one in review.rungs] == [
        (1, "remind", None),
        (3, "add", f"group:{group.pk}"),
        (5, "outcome", None),
    ]
    assert Candidate.objects.get(review=review).due_at == review.due_at


def test_rules_and_outcomes_are_frozen_as_they_were_written() -> None:
    make_person("ann", "finance")
    review = ask(
        quorum=Veto({"finance": "all"}, ["no"]),
        outcomes=["yes", Outcome("no", "Not today", presets=["Later"])],
        four_eyes=False,
        risk="medium",
        on_decision=note_decision,
    )
    assert review.quorum == {
        "rule": {"veto": ["no"], "otherwise": {"groups": {"finance": "all"}}},
        "groups": {"finance": Group.objects.get().pk},
    }
    assert [one["name"] for one in review.outcomes] == ["yes", "no"]
    assert (review.four_eyes, review.risk) == (False, "medium")
    assert review.on_decision == "tests.approvals.asking.test_approval_options:note_decision"


def note_decision(answer: Any, instance: Any) -> None:
    """What a project would do."""


# --- in every style -------------------------------------------------------------------------------------------


class Published(Machine):
    name = "requests.publish"
    gate = wait_for(
        channel=Approval(
            "Publish the article",
            assignees=["ann"],
            candidates=User.objects.filter(last_name="Editor"),
            schema={"score": int},
            evidence=[("Draft", "/draft/7")],
        ),
        timeout="7d",
    )
    asked_again = wait_for(channel=lambda ctx: Approval(f"Score {ctx.steps.gate.data['score']}", groups=["desk"]))
    done = action(lambda ctx: [ctx.steps.gate.data, ctx.steps.asked_again.outcome])


def test_an_approval_in_a_class_body_looks_at_people_each_time_it_is_opened() -> None:
    ann = make_person("ann")
    desk = Group.objects.create(name="desk")
    first = workflows.start(Published)
    drain()
    eve = make_person("eve", last_name="Editor")
    second = workflows.start(Published)
    drain()
    assert tell_asked(find_review(first)) == [f"user:{ann.pk}"]
    assert tell_asked(find_review(second)) == [f"user:{ann.pk}", f"user:{eve.pk}"]
    decide(find_review(second), "approve", actor=eve, data={"score": 9})
    drain()
    review = find_review(second)
    assert (review.title, tell_asked(review)) == ("Score 9", [f"group:{desk.pk}"])
    ann.groups.add(desk)
    decide(review, "reject", actor=ann)
    drain()
    assert_done(second, [{"score": 9}, "reject"])


_rounds = itertools.count()


@durable(name="requests.loop")
def approve_each(ctx: Any, items: list[str]) -> Any:
    next(_rounds)
    told = []
    for n, item in enumerate(items):
        channel = Approval(f"Send {item}", assignees=["ann"], four_eyes=False)
        answer = ctx.wait_for(f"gate{n}", channel, timeout="7d")
        told.append([item, answer.outcome])
    return told


def test_a_function_that_asks_in_a_loop_opens_each_review_once_however_often_it_is_replayed() -> None:
    ann = make_person("ann")
    before = next(_rounds)
    instance = workflows.start(approve_each, {"items": ["a", "b", "c"]})
    drain()
    for n, outcome in enumerate(["approve", "reject", "approve"], start=1):
        assert Review.objects.filter(instance=instance).count() == n
        assert_awaiting(instance)
        [review] = Review.objects.for_user(ann)
        decide(review, outcome, actor=ann)
        drain()
        drain()
    assert_done(instance, [["a", "approve"], ["b", "reject"], ["c", "approve"]])
    assert [one.title for one in Review.objects.filter(instance=instance)] == ["Send a", "Send b", "Send c"]
    assert next(_rounds) - before == 5  # it was run four times


class Again(Workflow):
    """Asks, and fails once it has the answer."""

    name = "requests.again"
    fails = 0

    @step
    def ask(self, ctx: Any) -> Any:
        return Await(Approval("Once", assignees=["ann"]), then="look", timeout="1d")

    @step
    def look(self, ctx: Any) -> Any:
        type(self).fails += 1
        if type(self).fails < 2:
            raise RuntimeError("not yet")
        return Done(ctx.answer.outcome)


def test_a_step_that_fails_after_the_answer_asks_nobody_again() -> None:
    ann = make_person("ann")
    Again.fails = 0
    instance = workflows.start(Again)
    drain()
    decide(find_review(instance), "approve", actor=ann)
    drain()
    assert_failed(instance, "not yet")
    workflows.retry(instance)
    drain()
    assert_done(instance, "approve")
    assert Review.objects.filter(instance=instance).count() == 1


def test_another_visit_of_the_same_step_is_another_review() -> None:
    from tests.support.review_calls import Looping

    ann = make_person("ann")
    instance = start({"assignees": ["ann"]}, workflow=Looping)
    for outcome in ("reject", "reject", "approve"):
        [review] = Review.objects.for_user(ann)
        decide(review, outcome, actor=ann)
        drain()
    assert_done(instance)
    assert [one.outcome for one in Review.objects.filter(instance=instance)] == ["reject", "reject", "approve"]


def test_an_approval_that_could_not_be_opened_can_be_caught_where_it_was_asked() -> None:
    @durable(name="requests.caught")
    def caught(ctx: Any) -> Any:
        try:
            ctx.wait_for("gate", Approval("Nobody there", assignees=["zoe"]), timeout="1d")
        except InvalidApproval as refused:
            return str(refused)
        return "asked"

    instance = workflows.start(caught)
    drain()
    assert_done(instance, "assignees='zoe' cannot be used: there is no such user")
    assert not Review.objects.exists()


def test_an_answer_reaches_the_author_typed() -> None:
    ann = make_person("ann")
    review = ask(assignees=["ann"], schema={"amount": int})
    decide(review, "approve", actor=ann, data={"amount": 5}, reason="fine")
    drain()
    answer = answers[-1]
    assert answer is not None
    assert (answer.outcome, answer.data, answer.reason, answer.actor) == (
        "approve",
        {"amount": 5},
        "fine",
        f"user:{ann.pk}",
    )
    assert [one.at is not None for one in answer.decisions] == [True]


# --- what opening costs ---------------------------------------------------------------------------------------


def _count_opening(**options: Any) -> list[str]:
    sent = count_statements(lambda: start(options, run=drain))
    first = next(n for n, sql in enumerate(sent) if "INSERT INTO holdpoint_interaction" in sql)
    last = next(n for n, sql in enumerate(sent) if 'INSERT INTO "holdpoint_notice"' in sql)
    return sent[first + 1 : last + 1]


def test_opening_takes_a_fixed_number_of_statements() -> None:
    """The interaction, its instance and its unit are read; review, candidates and notice are written."""
    people = [make_person(f"u{n}", "finance", "legal") for n in range(5)]
    group = Group.objects.create(name="subject")
    costs = {
        "nobody named": len(_count_opening()),
        "a user's row": len(_count_opening(assignees=people[0])),
        "names": len(_count_opening(assignees=[one.username for one in people])),
        "groups": len(_count_opening(quorum={"finance": 1, "legal": 1})),
        "a permission": len(_count_opening(permission="auth.change_user")),
        "a query": len(_count_opening(candidates=User.objects.all())),
        "a requester": len(_count_opening(requester="u1")),
        "a ladder": len(_count_opening(escalate=[("1d", ("add", "finance")), ("2d", ("add", "user", "u1"))])),
        "a subject": len(_count_opening(subject=group)),
        "a change": len(_count_opening(subject=group, change={"name": "other"})),
    }
    bare = costs["nobody named"]
    assert bare == 6
    assert {name: cost - bare for name, cost in costs.items()} == {
        "nobody named": 0,
        "a user's row": 1,  # whether any of those who were named can decide it
        "names": 2,
        "groups": 1,
        "a permission": 1,
        "a query": 2,
        "a requester": 1,
        "a ladder": 2,
        "a subject": 1,
        "a change": 3,  # the row again, and whether another has the name
    }


def test_the_review_is_written_in_the_transaction_that_opens_its_interaction() -> None:
    ann = make_person("ann")
    workspace = Workspace.objects.get(slug="default")
    review = ask(assignees=["ann"], due="1h")
    interaction = review.interaction
    assert (review.pk, review.created_at, review.workspace_id) == (interaction.pk, interaction.created_at, workspace.pk)
    assert (review.workflow, review.step, review.open, review.version, review.rung) == (
        "approving.ask",
        "first",
        True,
        1,
        0,
    )
    assert [one.kind for one in Notice.objects.filter(review=review)] == ["new"]
    assert Candidate.objects.get(review=review).workspace_id == workspace.pk
    assert list(Review.objects.for_user(ann)) == [review]


def test_a_review_s_row_is_a_row_of_the_engine_that_nobody_else_writes() -> None:
    review = ask()
    for write in (review.save, review.delete, lambda: Review.objects.filter(pk=review.pk).update(title="x")):
        with pytest.raises(WorkflowError):
            write()
