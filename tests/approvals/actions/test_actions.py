"""What people do beside deciding, and what forbids it: the sentence of a greyed-out button is that of the refusal.

The matrix tries every action as everybody in every state. `explain` says beforehand what the action then does.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, Group, User
from django.db import transaction

import workflows
from approvals import (
    AlreadyDecided,
    ApprovalError,
    DecisionRefused,
    InvalidApproval,
    NotAllowed,
    Stale,
    TooSoon,
    UnknownReview,
    Veto,
    answer_info,
    claim,
    comment,
    decide,
    delegate,
    explain,
    extend,
    nudge,
    reassign,
    release,
    request_info,
    snooze,
    undo,
    unsnooze,
    withdraw,
)
from approvals.models import Absence, Candidate, Comment, Review, Snooze
from approvals.models.vote import MAX_TEXT
from approvals.reviews.case import Case
from approvals.reviews.permissions import CHECKS
from tests.support.review_calls import (
    again,
    ask,
    find_review,
    grant,
    list_events,
    list_notices,
    make_person,
    start,
    truth,  # noqa: F401 (a fixture)
)
from workflows.clock import read_now
from workflows.exceptions import InvalidCall
from workflows.models import Instance, LedgerEvent, Workspace
from workflows.testing import advance, assert_done, drain

pytestmark = pytest.mark.django_db


def soon(**later: float) -> datetime:
    moment: datetime = read_now() + timedelta(**later or {"hours": 1})
    return moment


# --- every action x everybody x every state -------------------------------------------------------------------

DEEDS: dict[str, Callable[[Review, User], Any]] = {
    "decide": lambda review, user: decide(review, "approve", actor=user),
    "claim": lambda review, user: claim(review, actor=user),
    "release": lambda review, user: release(review, actor=user),
    "delegate": lambda review, user: delegate(review, to="spare", actor=user),
    "comment": lambda review, user: comment(review, "Well.", actor=user),
    "request_info": lambda review, user: request_info(review, "Which one?", actor=user),
    "answer_info": lambda review, user: answer_info(review, "This one.", actor=user),
    "snooze": lambda review, user: snooze(review, until=soon(), actor=user),
    "nudge": lambda review, user: nudge(review, actor=user),
    "withdraw": lambda review, user: withdraw(review, actor=user),
    "undo": lambda review, user: undo(review, actor=user),
    "reassign": lambda review, user: reassign(review, users=["spare"], keep=True, actor=user),
    "extend": lambda review, user: extend(review, due=soon(), actor=user),
    "override": lambda review, user: decide(review, "approve", actor=user, reason="it is urgent", override=True),
}

ROLES = {
    "member": "is in the group that is asked",
    "voter": "has voted",
    "requester": "asked for it, and is in the group",
    "earlier": "decided an earlier stage, and is in the group",
    "away": "is away, and in the group",
    "substitute": "stands in for who is away",
    "back": "is in the group, and somebody who stood in has voted",
    "stood_in": "has voted for somebody",
    "giver": "has handed on",
    "taker": "was handed it",
    "locked_out": "is in the group, and may not log in any more",
    "stranger": "has nothing to do with it",
    "viewer": "may see all",
    "boss": "may reassign, extend, withdraw and override",
    "root": "may everything",
    "foreign": "is in the group, and no member of the workspace",
    "foreign_root": "may everything, and is no member of the workspace",
    "nobody": "has not logged in",
}
STATES = ["open", "claimed", "asked", "nudged", "grace", "decided", "withdrawn", "cancelled"]


def make_scene(state: str) -> tuple[Review, dict[str, Any]]:
    """A review of a second stage in that state, and everybody who has to do with it, or has not."""
    people: dict[str, Any] = {name: make_person(name) for name in [*ROLES, "spare"]}
    finance = Group.objects.create(name="finance")
    for name in ("member", "voter", "requester", "earlier", "away", "back", "giver", "locked_out", "foreign"):
        people[name].groups.add(finance)
    for name in ("root", "foreign_root"):
        User.objects.filter(pk=people[name].pk).update(is_superuser=True)
    grant(people["viewer"], "view_review")
    for codename in ("reassign_review", "extend_review", "withdraw_review", "override_review"):
        grant(people["boss"], codename)
    Workspace.objects.create(slug="other", name="Other")
    Workspace.objects.get(slug="default").members.set(
        [one for name, one in people.items() if name not in ("foreign", "foreign_root")]
    )
    second = {
        "groups": ["finance"],
        "requester": people["requester"],
        "quorum": Veto(5, ["reject"]),
        "outcomes": ["approve", "withdraw", "reject"],
    }
    instance = start({"assignees": ["earlier"], "outcomes": ["approve"]}, second, timeout="2d")
    decide(find_review(instance), "approve", actor=people["earlier"])
    drain()
    review = find_review(instance)
    decide(review, "approve", actor=people["voter"])
    since = soon(hours=-1)
    Absence.objects.create(user=people["back"], substitute=people["stood_in"], since=since)
    decide(review, "approve", actor=people["stood_in"])
    Absence.objects.filter(user=people["back"]).delete()
    Absence.objects.create(user=people["away"], substitute=people["substitute"], since=since)
    delegate(review, to="taker", actor=people["giver"])
    User.objects.filter(pk=people["locked_out"].pk).update(is_active=False)
    enter_state(review, state, people)
    found: dict[str, Any] = {name: User.objects.get(pk=one.pk) for name, one in people.items()}
    return again(review), {**found, "nobody": AnonymousUser()}


def enter_state(review: Review, state: str, people: dict[str, Any]) -> None:
    if state == "claimed":
        claim(review, actor=people["member"])
    if state == "asked":
        request_info(review, "Which account?", actor=people["member"])
    if state == "nudged":
        nudge(review, actor=people["requester"])
    if state == "grace":
        decide(review, "reject", actor=people["member"], grace=timedelta(hours=1))  # as long as the test may take
    if state == "decided":
        decide(review, "reject", actor=people["member"])
    if state == "withdrawn":
        withdraw(review, actor=people["requester"])
    if state == "cancelled":
        instance = Instance.objects.get(pk=review.instance_id)
        workflows.cancel(instance)


@pytest.mark.parametrize("state", STATES)
def test_every_action_is_refused_with_the_sentence_that_its_button_shows_or_it_is_done(state: str) -> None:
    review, people = make_scene(state)
    done: dict[str, list[str]] = {}
    before = LedgerEvent.objects.filter(kind="refused").count()  # each deed is taken back
    for role, user in people.items():
        told = explain(review, user)
        assert list(told) == list(CHECKS) == list(DEEDS)
        for action, obstacle in told.items():
            if role == "nobody":
                assert obstacle is not None, f"{action} by who has not logged in"
                with pytest.raises(InvalidCall, match="must be a saved user"):
                    DEEDS[action](review, user)
                continue
            assert obstacle is None or (obstacle.message and obstacle.rule), f"{action} by {role}"
            with transaction.atomic():
                refused = _try(DEEDS[action], review, user)
                rows = list(LedgerEvent.objects.filter(kind="refused").order_by("at", "seq"))[before:]
                transaction.set_rollback(True)
            case = f"{action} by {role}: explained as {obstacle}, and {refused!r}"
            if obstacle is None:
                assert refused is None, case
                done.setdefault(role, []).append(action)
                continue
            assert isinstance(refused, DecisionRefused), case
            if isinstance(refused, NotAllowed):
                assert (refused.obstacle.rule, str(refused)) == (obstacle.rule, obstacle.message), case
            else:
                assert {AlreadyDecided: "closed", TooSoon: "cooldown"}[type(refused)] == obstacle.rule, case
            [row] = rows
            assert row.actor == f"user:{user.pk}", case
            assert row.data["outcome"] == {"decide": "approve", "override": "approve"}.get(action, action), case
            assert row.data.get("rule") == (obstacle.rule if isinstance(refused, NotAllowed) else None), case
    assert done == MAY[state]


def _try(deed: Callable[[Review, User], Any], review: Review, user: User) -> Exception | None:
    try:
        deed(review, user)
    except ApprovalError as error:
        return error
    return None


_ASKED = ["decide", "claim", "release", "delegate", "comment", "request_info", "snooze"]
_BOSS = ["withdraw", "reassign", "extend", "override"]
_OPEN: dict[str, list[str]] = {
    "member": _ASKED,
    "voter": ["release", "comment", "snooze", "undo"],
    "requester": ["release", "comment", "snooze", "nudge", "withdraw"],
    "earlier": ["release", "comment", "snooze"],
    "away": _ASKED,
    "substitute": _ASKED,
    "back": ["release", "comment", "snooze"],
    "stood_in": ["release", "comment", "undo"],
    "giver": ["release", "comment"],
    "taker": _ASKED,
    "viewer": ["release", "comment"],
    "boss": _BOSS,
    "root": ["release", "comment", *_BOSS],
}
MAY: dict[str, dict[str, list[str]]] = {"open": _OPEN}


def _without(*gone: str, of: dict[str, list[str]] = _OPEN) -> dict[str, list[str]]:
    return {role: left for role, may in of.items() if (left := [one for one in may if one not in gone])}


MAY["claimed"] = {
    **_without("decide", "claim", "release", "delegate", "request_info"),
    "member": _ASKED,
    "root": ["release", "comment", *_BOSS],
}
MAY["asked"] = {**_OPEN, "requester": ["release", "comment", "answer_info", "snooze", "nudge", "withdraw"]}
MAY["nudged"] = _without("nudge")
MAY["grace"] = {role: ["comment"] for role in _OPEN if role != "boss"} | {
    "member": ["comment", "undo"],
    "requester": ["comment", "withdraw"],
    "boss": ["withdraw"],
    "root": ["comment", "withdraw"],
}
MAY["decided"] = MAY["withdrawn"] = MAY["cancelled"] = {role: ["comment"] for role in _OPEN if role != "boss"}


def test_the_rules_are_told_about_a_review_that_there_is() -> None:
    ann = make_person("ann")
    for given in ("01a1f0a7-e387-7000-9eed-e5671dac668a", "nonsense", None):
        with pytest.raises(UnknownReview):
            explain(given, ann)
        for deed in DEEDS.values():
            with pytest.raises(UnknownReview):
                deed(given, ann)


def test_the_rules_are_the_same_whichever_way_a_review_is_given() -> None:
    ann = make_person("ann")
    review = ask(assignees=["ann"])
    told = explain(review, ann)
    for given in (review.pk, str(review.pk), review.interaction, Case(review)):
        assert explain(given, ann) == told


def test_whoever_acts_is_looked_at_as_they_are_now() -> None:
    ann = make_person("ann")
    review = ask(assignees=["ann"])
    User.objects.filter(pk=ann.pk).update(is_active=False)
    with pytest.raises(NotAllowed):
        claim(review, actor=ann)  # whose object still says that she may log in
    boss = grant(make_person("boss"), "reassign_review")
    assert boss.has_perm("holdpoint_approvals.reassign_review")
    boss.user_permissions.clear()
    with pytest.raises(NotAllowed):
        reassign(review, users=["boss"], actor=boss)
    boss.delete()
    ghost = User(pk=10**6, username="ghost")
    ghost._state.adding = False
    with pytest.raises(NotAllowed, match="your account is gone"):
        comment(review, "Boo", actor=ghost)


@pytest.mark.parametrize("actor", [None, "ann", 5, User(username="x")])
def test_only_people_act(actor: Any) -> None:
    review = ask()
    for deed in DEEDS.values():
        with pytest.raises(InvalidCall, match="must be a saved user"):
            deed(review, actor)


def tell_handled(review: Review, what: str) -> list[dict[str, Any]]:
    """The ledger's rows of one kind of action, without what they all have."""
    rows = [one.data for one in list_events(review, "handled") if one.data["what"] == what]
    assert all(one["interaction"] == str(review.pk) and one["door"] for one in rows)
    return [{name: value for name, value in one.items() if name not in ("interaction", "what", "door")} for one in rows]


# --- claiming -------------------------------------------------------------------------------------------------


def test_who_has_claimed_it_decides_and_others_wait_until_it_is_released() -> None:
    ann, ben = make_person("ann", "finance"), make_person("ben", "finance")
    review = ask(groups=["finance"])
    assert claim(review, actor=ann, door="page").claimed_by_id == ann.pk
    claim(review, actor=ann)
    assert again(review).claimed_at
    assert list(Review.objects.for_user(ann)) == [review]
    assert list(Review.objects.for_user(ben)) == []
    with pytest.raises(NotAllowed, match=r"^Ann has claimed this\. Others can decide once it is released\.$"):
        decide(review, "approve", actor=ben)
    with pytest.raises(NotAllowed, match="Ann has claimed this"):
        claim(review, actor=ben)
    with pytest.raises(NotAllowed, match=r"^Only Ann, who claimed it, can release it\.$"):
        release(review, actor=ben)
    release(review, actor=ann)
    release(review, actor=ann)
    assert (again(review).claimed_by_id, again(review).claimed_at) == (None, None)
    assert decide(review, "approve", actor=ben).state == "decided"
    assert (len(tell_handled(review, "claimed")), tell_handled(review, "released")) == (1, [{}])


def test_whoever_reassigns_may_release_what_another_has_claimed() -> None:
    ann, boss = make_person("ann"), grant(make_person("boss"), "reassign_review")
    Group.objects.create(name="finance")
    review = ask(assignees=["ann"], requester=boss)
    claim(review, actor=ann)
    assert release(review, actor=boss).claimed_by_id is None
    assert tell_handled(review, "released") == [{"of": f"user:{ann.pk}"}]


# --- handing on -----------------------------------------------------------------------------------------------


def tell_asked(review: Review) -> list[tuple[str, str, str]]:
    rows = Candidate.objects.filter(review=review).order_by("pk")
    return list(rows.values_list("principal", "instead_of", "added_by"))


def test_a_share_of_ones_own_moves_to_who_it_is_handed_to() -> None:
    ann, ben = make_person("ann"), make_person("ben")
    review = ask(assignees=["ann"])
    claim(review, actor=ann)
    found = delegate(review, to="ben", actor=ann, reason="On the train")
    assert (found.claimed_by_id, tell_asked(review)) == (None, [(f"user:{ben.pk}", f"user:{ann.pk}", f"user:{ann.pk}")])
    assert (list(Review.objects.for_user(ann)), list(Review.objects.for_user(ben))) == ([], [review])
    assert list(Review.objects.visible_to(ann)) == [review]
    assert tell_handled(review, "delegated") == [{"to": f"user:{ben.pk}", "reason": "On the train"}]
    [told] = list_notices(review, "new")[1:]
    assert (told.to, told.data) == ([f"user:{ben.pk}"], {"by": f"user:{ann.pk}"})
    with pytest.raises(NotAllowed, match=r"not among those asked\. Ben can"):
        decide(review, "approve", actor=ann)
    vote = decide(review, "approve", actor=ben).vote
    assert vote is not None
    assert vote.on_behalf_of_id == ann.pk


def test_a_share_of_a_group_s_is_handed_to_somebody_outside_who_counts_in_the_group() -> None:
    ann, ben, cid = make_person("ann", "finance"), make_person("ben", "finance"), make_person("cid")
    review = ask(quorum={"finance": 2})
    delegate(review, to=cid, actor=ann)
    group = f"group:{Group.objects.get().pk}"
    assert tell_asked(review)[1:] == [(f"user:{cid.pk}", group, f"user:{ann.pk}")]
    assert list(Review.objects.for_user(ann)) == []
    vote = decide(review, "approve", actor=cid).vote
    assert vote is not None
    assert (vote.groups, vote.on_behalf_of_id) == (["finance"], ann.pk)
    assert decide(review, "approve", actor=ben).state == "decided"


def test_what_is_handed_on_and_on_stays_the_share_of_who_was_asked() -> None:
    people = ann, ben, cid, dot = [make_person(name) for name in ("ann", "ben", "cid", "dot")]
    Group.objects.create(name="finance").user_set.add(ann)
    for options, share in [({"assignees": ["ann"]}, f"user:{ann.pk}"), ({"groups": ["finance"]}, None)]:
        review = ask(**options)
        share = share or f"group:{Group.objects.get().pk}"
        delegate(review, to=ben, actor=ann)
        delegate(review, to=cid, actor=ben)
        delegate(review, to=dot, actor=cid)
        assert tell_asked(review)[-1] == (f"user:{dot.pk}", share, f"user:{ann.pk}")
        assert [one for one in people if list(Review.objects.for_user(one))] == [dot]
        vote = decide(review, "approve", actor=dot).vote
        assert vote is not None
        assert vote.on_behalf_of_id == ann.pk
        drain()


def test_what_is_handed_back_is_as_if_it_had_never_left() -> None:
    ann, ben = make_person("ann", "finance"), make_person("ben")
    for options in ({"assignees": ["ann"]}, {"groups": ["finance"]}):
        review = ask(**options)
        before = tell_asked(review)
        delegate(review, to=ben, actor=ann)
        delegate(review, to=ann, actor=ben)
        assert tell_asked(review) == before
        assert list(Review.objects.for_user(ben)) == []
        vote = decide(review, "approve", actor=ann).vote
        assert vote is not None
        assert vote.on_behalf_of_id is None


def test_nothing_is_handed_on_to_another_of_the_group_who_has_been_asked_already() -> None:
    ann, ben = make_person("ann", "finance"), make_person("ben", "finance")
    review = ask(groups=["finance"], quorum=2)
    before = tell_asked(review)
    with pytest.raises(NotAllowed, match=r"^Ben has been asked already, and everybody counts once\.$"):
        delegate(review, to=ben, actor=ann)
    assert tell_asked(review) == before
    assert [decide(review, "approve", actor=one).state for one in (ben, ann)] == ["open", "decided"]


def test_who_hands_on_to_somebody_asked_by_name_steps_back_where_one_answer_decides() -> None:
    ann, ben = make_person("ann"), make_person("ben")
    review = ask(assignees=[ann, ben])
    delegate(review, to=ben, actor=ann)
    assert tell_asked(review) == [(f"user:{ben.pk}", "", "")]
    assert decide(review, "approve", actor=ben).outcome == "approve"
    needs_both = ask(assignees=[ann, ben], quorum=2)
    with pytest.raises(NotAllowed, match=r"^Ben has been asked already, and everybody counts once\.$"):
        delegate(needs_both, to=ben, actor=ann)
    assert [decide(needs_both, "approve", actor=one).state for one in (ann, ben)] == ["open", "decided"]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("requester", r"Requester can’t decide this: they asked for it or have decided on it \(four eyes\)\."),
        ("voter", "Voter can’t decide this: they asked for it or have decided"),
        ("earlier", "Earlier can’t decide this: they asked for it or have decided"),
        ("locked_out", r"Locked_out can’t log in any more\."),
        ("member", r"It is theirs already: hand it on to somebody else\."),
    ],
)
def test_nothing_is_handed_to_who_could_not_decide_it(name: str, told: str) -> None:
    review, people = make_scene("open")
    with pytest.raises(NotAllowed, match=f"^{told}"):
        delegate(review, to=people[name], actor=people["member"])
    boss = people["boss"]
    if name != "member":
        with pytest.raises(NotAllowed, match=f"^{told}"):
            reassign(review, users=[people[name]], keep=True, actor=boss)


def test_of_people_in_other_workspaces_one_is_not_told_that_they_exist() -> None:
    review, people = make_scene("open")
    for name in ("foreign", "nobody_at_all"):
        with pytest.raises(InvalidApproval, match=f"to='{name}' cannot be used: there is no such user"):
            delegate(review, to=name, actor=people["member"])
        with pytest.raises(InvalidApproval, match=f"users='{name}' cannot be used: there is no such user"):
            reassign(review, users=[name], actor=people["boss"])
    with pytest.raises(NotAllowed, match="Foreign is no member of this workspace"):
        delegate(review, to=people["foreign"], actor=people["member"])


def test_a_substitute_hands_on_the_share_of_who_is_away() -> None:
    review, people = make_scene("open")
    away, spare = people["away"], people["spare"]
    delegate(review, to=spare, actor=people["substitute"])
    assert tell_asked(review)[-1] == (f"user:{spare.pk}", tell_asked(review)[0][0], f"user:{away.pk}")
    assert tell_handled(review, "delegated")[-1] == {"to": f"user:{spare.pk}", "of": f"user:{away.pk}"}
    assert explain(review, people["substitute"])["decide"] is not None
    assert explain(review, away)["decide"] is not None
    vote = decide(review, "approve", actor=spare).vote
    assert vote is not None
    assert vote.on_behalf_of_id == away.pk


# --- asking others --------------------------------------------------------------------------------------------


def test_whoever_may_asks_others_instead_or_as_well() -> None:
    ann, ben, cid = make_person("ann"), make_person("ben", "legal"), make_person("cid")
    boss = grant(make_person("boss"), "reassign_review")
    legal = Group.objects.get()
    review = ask(assignees=["ann"])
    claim(review, actor=ann)
    reassign(review, groups="legal", actor=boss, reason="Holiday", door="admin")
    assert tell_asked(review) == [(f"group:{legal.pk}", "", f"user:{boss.pk}")]
    assert again(review).claimed_by_id is None
    assert (list(Review.objects.for_user(ann)), list(Review.objects.for_user(ben))) == ([], [review])
    assert tell_handled(review, "reassigned") == [{"to": [f"group:{legal.pk}"], "reason": "Holiday"}]
    reassign(review, users=[cid, "cid"], groups=[legal], keep=True, actor=boss)
    assert [one[0] for one in tell_asked(review)] == [f"group:{legal.pk}", f"user:{cid.pk}"]
    assert tell_handled(review, "reassigned")[1]["kept"] is True
    assert list_notices(review, "new")[-1].to == [f"user:{cid.pk}", f"user:{cid.pk}", f"group:{legal.pk}"]
    vote = decide(review, "approve", actor=cid).vote
    assert vote is not None
    assert vote.on_behalf_of_id is None


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "name at least one user or group"),
        ({"users": []}, "name at least one user or group"),
        ({"users": 5}, "write a list of names or rows"),
        ({"users": [5]}, "name it, or give the row itself"),
        ({"users": ["zoe"]}, "there is no such user"),
        ({"groups": ["sales"]}, "there is no such group"),
        ({"groups": [User(username="x")]}, "there is no such group"),
        ({"groups": [Group(name="unsaved")]}, "there is no such group"),
        ({"users": ["ann"], "reason": "x" * (MAX_TEXT + 1)}, f"the limit is {MAX_TEXT}"),
        ({"users": ["ann"], "reason": "\0"}, "NUL"),
    ],
)
def test_others_are_asked_by_what_they_are_called(options: dict[str, Any], told: str) -> None:
    make_person("ann")
    boss = grant(make_person("boss"), "reassign_review")
    review = ask(assignees=["ann"])
    with pytest.raises(InvalidApproval, match=told):
        reassign(review, **options, actor=boss)


def test_those_who_are_asked_instead_are_enough_to_decide() -> None:
    ann, ben, cid = make_person("ann"), make_person("ben"), make_person("cid")
    boss = grant(make_person("boss"), "reassign_review")
    review = ask(assignees=["ann", "ben"], quorum=2)
    with pytest.raises(InvalidApproval, match="2 equal answers decide, and no more than 1 could be given"):
        reassign(review, users=[cid], actor=boss)
    decide(review, "approve", actor=ann)
    reassign(review, users=[cid], actor=boss)
    assert decide(review, "approve", actor=cid).state == "decided"
    growing = ask(assignees=["ann", "ben"], quorum=2, escalate=[("1d", ("add", "user", "ann"))])
    reassign(growing, users=[ben], actor=boss)


def test_where_answers_count_by_group_nobody_is_asked_whose_would_not() -> None:
    make_person("ann", "finance", "legal", "sales")
    boss = grant(make_person("boss"), "reassign_review")
    review = ask(quorum={"finance": 1, "legal": 1})
    for options in ({"users": ["ann"], "keep": True}, {"groups": ["sales"], "keep": True}, {"groups": ["legal"]}):
        with pytest.raises(InvalidApproval, match=r"answers count by group here \((finance, legal|legal, finance)\)"):
            reassign(review, **options, actor=boss)
    reassign(review, groups=["finance", "legal"], actor=boss)
    reassign(ask(quorum=Veto({"finance": 1})), users=["ann"], keep=True, actor=boss)


# --- more time ------------------------------------------------------------------------------------------------


def test_it_is_due_later_and_the_wait_ends_later() -> None:
    ann, boss = make_person("ann"), grant(make_person("boss"), "extend_review")
    review = ask(assignees=["ann"], due="1h", timeout="2h")
    due, deadline = soon(hours=5), soon(hours=6)
    extend(review, due=due, actor=boss, reason="She is ill")
    assert (again(review).due_at, Candidate.objects.get(review=review).due_at) == (due, due)
    assert tell_handled(review, "extended") == [{"due": due.isoformat(), "reason": "She is ill"}]
    extend(review, deadline=deadline, actor=boss)
    assert again(review).interaction.deadline == deadline
    [row] = list_events(review, "rescheduled")
    assert (row.data["what"], row.actor) == ("extended", f"user:{boss.pk}")
    advance("3h")
    assert decide(review, "approve", actor=ann).state == "decided"


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "say until when"),
        ({"due": "tomorrow"}, "it is a moment that knows its time zone"),
        ({"due": datetime(2030, 1, 1)}, "it is a moment that knows its time zone"),
        ({"deadline": datetime(2030, 1, 1)}, "deadline=.* it is a moment that knows its time zone"),
        ({"due": timedelta(hours=1)}, "it is a moment that knows its time zone"),
    ],
)
def test_more_time_ends_at_a_moment_that_lies_ahead(options: dict[str, Any], told: str) -> None:
    make_person("ann")
    boss = grant(make_person("boss"), "extend_review")
    review = ask(assignees=["ann"], due="1h")
    with pytest.raises(InvalidApproval, match=told):
        extend(review, **options, actor=boss)
    for option in ("due", "deadline"):
        with pytest.raises(InvalidApproval, match=f"{option}=.*it lies in the past"):
            extend(review, **{option: soon(hours=-1)}, actor=boss)
    assert again(review).due_at == review.due_at


# --- saying, asking and answering -----------------------------------------------------------------------------


def test_something_is_said_also_afterwards_and_by_nobody_else() -> None:
    ann, ben = make_person("ann"), make_person("ben")
    review = ask(assignees=["ann"])
    made = comment(review, "  Is this within budget? ", actor=ann)
    assert (made.text, made.kind, made.actor) == ("Is this within budget?", "comment", f"user:{ann.pk}")
    decide(review, "approve", actor=ann)
    drain()
    comment(review, "It was.", actor=ann, door="link")
    assert [one["comment"] for one in tell_handled(review, "commented")] == [
        str(one.pk) for one in Comment.objects.all()
    ]
    with pytest.raises(NotAllowed, match=r"^This is not yours to see\.$"):
        comment(review, "Hello", actor=ben)


@pytest.mark.parametrize(
    "text", ["", "  ", None, 5, "\0", "\ud800", "x" * (MAX_TEXT + 1)], ids=lambda text: ascii(text)[:9]
)
def test_words_that_cannot_be_kept_are_refused(text: Any) -> None:
    ann, ben = make_person("ann"), make_person("ben")
    review = ask(assignees=["ann"], requester="ben")
    request_info(review, "Which account?", actor=ann)
    for call, actor in ((comment, ann), (request_info, ann), (answer_info, ben)):
        with pytest.raises(InvalidApproval, match="text="):
            call(review, text, actor=actor)
    assert Comment.objects.count() == 1


def test_a_question_goes_to_who_asked_and_the_answer_makes_what_was_shown_stale() -> None:
    ann, ben = make_person("ann"), make_person("ben")
    review = ask(assignees=["ann"], requester="ben")
    with pytest.raises(NotAllowed, match=r"^Nobody has asked anything\.$"):
        answer_info(review, "4711", actor=ben)
    question = request_info(review, "Which account?", actor=ann)
    assert list_notices(review, "question")[0].to == [f"user:{ben.pk}"]
    assert again(review).version == 1
    with pytest.raises(NotAllowed, match=r"^Only who asked for this can answer\.$"):
        answer_info(review, "4711", actor=ann)
    answer = answer_info(review, "4711", actor=ben)
    assert (answer.answers_id, again(review).version) == (question.pk, 2)
    assert list_notices(review, "answer")[0].to == [f"user:{ann.pk}"]
    assert tell_handled(review, "answered") == [{"comment": str(answer.pk), "version": 2}]
    with pytest.raises(NotAllowed, match="Nobody has asked anything"):
        answer_info(review, "And 4712", actor=ben)
    with pytest.raises(Stale):
        decide(review, "approve", actor=ann, version=1)
    assert decide(review, "approve", actor=ann, version=2).state == "decided"


def test_the_latest_question_is_answered_first() -> None:
    ann, ben = make_person("ann"), make_person("ben")
    review = ask(assignees=["ann"], requester="ben")
    first, second = request_info(review, "Which?", actor=ann), request_info(review, "When?", actor=ann)
    assert answer_info(review, "Now", actor=ben).answers_id == second.pk
    assert answer_info(review, "This", actor=ben).answers_id == first.pk


def test_where_no_person_asked_nobody_can_be() -> None:
    ann = make_person("ann")
    review = ask(assignees=["ann"])
    with pytest.raises(NotAllowed, match=r"^No person asked for this, so there is nobody to ask\.$"):
        request_info(review, "Which account?", actor=ann)


# --- putting aside and reminding ------------------------------------------------------------------------------


def test_what_is_put_aside_is_so_for_oneself_until_then_or_until_it_is_taken_up() -> None:
    ann, ben = make_person("ann", "finance"), make_person("ben", "finance")
    review = ask(groups=["finance"])
    snooze(review, until=soon(hours=5), actor=ann)
    snooze(review, until=soon(hours=2), actor=ann)
    assert Snooze.objects.count() == 1
    assert (list(Review.objects.for_user(ann)), list(Review.objects.for_user(ben))) == ([], [review])
    unsnooze(review, actor=ann)
    unsnooze(review, actor=ann)
    assert list(Review.objects.for_user(ann)) == [review]
    for until in (soon(hours=-1), "later", datetime(2030, 1, 1)):
        with pytest.raises(InvalidApproval, match="until="):
            snooze(review, until=until, actor=ann)  # type: ignore[arg-type]
    snooze(review, until=soon(hours=2), actor=ann)
    assert decide(review, "approve", actor=ann).state == "decided"
    assert not tell_handled(review, "snoozed")  # nobody else's business


def test_who_asked_reminds_those_asked_once_in_a_while(settings: Any) -> None:
    settings.APPROVALS = {"NUDGE_COOLDOWN": "2h"}
    make_person("ann")
    ben = make_person("ben")
    review = ask(assignees=["ann"], requester="ben")
    at = nudge(review, actor=ben).nudged_at
    assert at is not None
    assert list_notices(review, "nudge")[0].to is None
    with pytest.raises(TooSoon) as told:
        nudge(review, actor=ben)
    assert told.value.until == at + timedelta(hours=2)
    assert f"{told.value.until:%Y-%m-%d %H:%M} UTC" in str(told.value)
    obstacle = explain(again(review), ben)["nudge"]
    assert obstacle is not None
    assert (obstacle.rule, obstacle.message[:35]) == ("cooldown", "They were reminded a moment ago. Yo")
    advance("2h1m")
    assert explain(again(review), ben)["nudge"] is None
    nudge(review, actor=ben)
    assert len(tell_handled(review, "nudged")) == 2
    assert again(review).version == 1


# --- withdrawing ----------------------------------------------------------------------------------------------


def test_who_asked_takes_it_back_and_its_instance_is_cancelled() -> None:
    ann, ben = make_person("ann"), make_person("ben")
    review = ask(assignees=["ann"], requester="ben")
    found = withdraw(review, actor=ben, reason="Paid by card")
    assert (found.open, found.outcome, found.decided_by_id) == (False, "withdrawn", ben.pk)
    instance = Instance.objects.get(pk=review.instance_id)
    assert instance.status == "cancelled"
    assert tell_handled(review, "withdrawn") == [{"reason": "Paid by card"}]
    assert [one.kind for one in list_notices(review)] == ["new", "decided"]
    with pytest.raises(AlreadyDecided):
        decide(review, "approve", actor=ann)
    with pytest.raises(AlreadyDecided):
        withdraw(review, actor=ben)


@pytest.mark.parametrize("name", ["withdraw", "withdrawn"])
def test_where_the_author_named_an_outcome_for_it_the_workflow_goes_on_with_that(name: str) -> None:
    make_person("ann")
    boss = grant(make_person("boss"), "withdraw_review")
    review = ask(assignees=["ann", "boss"], requester="ann", outcomes=["approve", name, "reject"])
    withdraw(review, actor=boss, reason="Paid by card")
    assert (again(review).open, again(review).outcome, again(review).decided_by_id) == (False, name, boss.pk)
    drain()
    assert_done(Instance.objects.get(pk=review.instance_id), {"outcome": name, "actor": f"user:{boss.pk}"})


@pytest.mark.parametrize("outcomes", [["approve", "reject"], ["approve", "withdraw"]])
def test_it_can_be_taken_back_while_a_decision_can_still_be_undone(outcomes: list[str]) -> None:
    ann, ben = make_person("ann"), make_person("ben")
    review = ask(assignees=["ann"], requester="ben", outcomes=outcomes)
    assert decide(review, "approve", actor=ann, grace=True).state == "grace"
    withdraw(review, actor=ben)
    found = again(review)
    assert (found.open, found.effective_at, found.decided_by_id) == (False, None, ben.pk)
    assert found.outcome == ("withdraw" if "withdraw" in outcomes else "withdrawn")
    assert found.decided_at >= list_events(review, "voted")[0].at
    advance("1m")
    assert again(review).outcome == found.outcome
