"""Every door by every forbidden actor: refused, nothing recorded, and in the ledger where it is one of the workspace.

A new door has to be written down here: whatever calls `decide()` is looked for and compared, and so is every address.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from django.contrib import admin
from django.contrib.auth.models import AnonymousUser, Group, Permission, User
from django.db import connection, transaction
from django.test import Client
from django.utils import timezone

import approvals
import workflows
from approvals import decide, delegate
from approvals.access.personal_links import make_link
from approvals.actions import actions
from approvals.exceptions import ApprovalError
from approvals.mcp.agent_desk import AgentDesk
from approvals.models import Absence, Candidate, Comment, Review, Vote
from approvals.rest.api_part import PART
from approvals.urls import urlpatterns
from tests.support.api_calls import Api, make_key
from tests.support.apps.shop.site import make_order_admin, open_site
from tests.support.bulk_page import AT
from tests.support.notices import KEYS, SITE
from tests.support.review_calls import again, ask, find_review, grant, list_events, make_person, start, tell_rows
from workflows.exceptions import InvalidCall
from workflows.testing import _skew, drain

pytestmark = pytest.mark.django_db

ADMIN = "/admin/holdpoint_approvals/review/"
WHY = "It has to be done"


@pytest.fixture(autouse=True)
def site(settings: Any) -> None:
    settings.WORKFLOWS = {**settings.WORKFLOWS, "BASE_URL": SITE, "TOKEN_KEYS": KEYS}


# --- doors ----------------------------------------------------------------------------------------------------


def login(user: Any) -> Client:
    client = Client()
    if user.pk is not None:
        client.force_login(user)
    return client


def enter_python(user: Any, review: Review) -> None:
    with suppress(ApprovalError, InvalidCall):
        decide(review, "approve", actor=user, reason=WHY)


def fill(review: Review) -> dict[str, str]:
    return {
        "outcome": "approve",
        "reason": WHY,
        "version": str(review.version),
        "seen": review.digest,
        "saw": "1",
        f"version-{review.pk}": str(review.version),
        f"seen-{review.pk}": review.digest,
    }


def enter_page(user: Any, review: Review) -> None:
    login(user).post(f"/approvals/{review.pk}/", fill(review))


def enter_pane(user: Any, review: Review) -> None:
    login(user).post(f"/approvals/{review.pk}/", fill(review), headers={"HX-Request": "true"})


def enter_bulk(user: Any, review: Review) -> None:
    login(user).post(AT, {**fill(review), "pick": str(review.pk)})


def enter_link(user: Any, review: Review) -> None:
    """By the link of their own; nobody has one, and makes one up."""
    at = make_link(review, user).removeprefix(SITE) if user.pk is not None else f"/approvals/link/{uuid4()}/"
    Client().post(at, fill(review))


def enter_rest(user: Any, review: Review) -> None:
    body = {"outcome": "approve", "version": review.version, "reason": WHY}
    api = Api(client=login(user)) if not isinstance(user, Key) else Api(key=user.text)
    answer = api.post(f"/v1/approvals/{review.pk}/decide", body)
    assert answer.status_code >= 400


def work_there(user: Any) -> Client:
    """Whoever comes to the admin is let in there."""
    if user.pk is not None and not getattr(user, "stays_out", False):
        User.objects.filter(pk=user.pk).update(is_staff=True)
        grant(user, "view_review")
    return login(user)


def enter_admin_page(user: Any, review: Review) -> None:
    work_there(user).post(f"{ADMIN}{review.pk}/decide/", fill(review))


def enter_admin_action(user: Any, review: Review) -> None:
    chosen = {"action": "decide", "_selected_action": [str(review.pk)], "confirmed": "yes"}
    work_there(user).post(ADMIN, {**fill(review), **chosen})


def enter_mcp(user: Any, review: Review) -> None:
    with suppress(ApprovalError, InvalidCall):
        AgentDesk(user.pk, review.workspace_id).decide(str(review.pk), "approve", review.version, WHY)


@dataclass(frozen=True)
class Door:
    enter: Callable[[Any, Review], None]
    #: What votes and the ledger call it.
    name: str
    #: The module that makes the call.
    module: str


DOORS = {
    "python": Door(enter_python, "python", ""),
    "page": Door(enter_page, "page", "web.request.posted_decision"),
    "pane": Door(enter_pane, "page", "web.request.posted_decision"),
    "bulk": Door(enter_bulk, "page", "web.bulk.bulk_run"),
    "link": Door(enter_link, "link", "web.request.posted_decision"),
    "REST": Door(enter_rest, "api", "rest.review_views"),
    "admin page": Door(enter_admin_page, "admin", "admin.decision_page"),
    "admin action": Door(enter_admin_action, "admin", "admin.review_actions"),
    "MCP": Door(enter_mcp, "mcp", "mcp.agent_desk"),
}


# --- actors ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Key:
    """A program, with all that a key may have."""

    text: str
    actor: str
    pk: None = None


@dataclass(frozen=True)
class World:
    """A request, who tries to decide it, and which rule forbids it."""

    review: Review
    user: Any
    rule: str | None
    #: Whether they log in as somebody of the workspace.
    is_known: bool = True


def find_stranger() -> World:
    make_person("ann")
    return World(ask(assignees=["ann"]), make_person("eve"), "not_candidate")


def find_anybody() -> World:
    make_person("ann")
    return World(ask(assignees=["ann"]), AnonymousUser(), None, is_known=False)


def find_closed_account() -> World:
    ann = make_person("ann")
    review = ask(assignees=["ann"])
    User.objects.filter(pk=ann.pk).update(is_active=False)
    return World(review, ann, "not_candidate", is_known=False)


def find_other_workspace() -> World:
    ann = make_person("ann")
    review = ask(assignees=["ann"])
    workflows.workspace.create("acme").members.add(ann)
    return World(review, ann, "not_candidate", is_known=False)


def find_who_left() -> World:
    make_person("ann", "finance")
    ben = make_person("ben", "finance")
    review = ask(groups=["finance"])
    ben.groups.clear()
    return World(review, ben, "not_candidate")


def find_who_sees_all() -> World:
    make_person("ann")
    return World(ask(assignees=["ann"]), grant(make_person("ben"), "view_review"), "not_candidate")


def find_superuser() -> World:
    make_person("ann")
    return World(ask(assignees=["ann"]), User.objects.create_superuser("root"), "not_candidate")


def find_superuser_while_claimed() -> World:
    """Somebody else is at it, who is away, say."""
    ann = make_person("ann")
    review = ask(assignees=["ann"])
    actions.claim(review, actor=ann)
    return World(review, User.objects.create_superuser("root"), "not_candidate")


def find_who_may_override() -> World:
    """A right to override is no right to decide without saying so."""
    make_person("ann")
    return World(ask(assignees=["ann"]), grant(make_person("ben"), "override_review"), "not_candidate")


def find_requester() -> World:
    make_person("ann")
    ben = make_person("ben")
    return World(ask(assignees=["ann", "ben"], requester="ben"), ben, "requester")


def find_who_started_it() -> World:
    make_person("ann")
    ben = make_person("ben")
    return World(ask(assignees=["ann", "ben"], actor=ben), ben, "requester")


def find_almighty_requester() -> World:
    make_person("ann")
    root = User.objects.create_superuser("root")
    return World(ask(assignees=["ann", root], requester=root), root, "requester")


def find_earlier_decider() -> World:
    ann = make_person("ann")
    make_person("ben")
    instance = start({"assignees": ["ann"]}, {"assignees": ["ann", "ben"]})
    decide(find_review(instance), "approve", actor=ann)
    drain()
    return World(find_review(instance), ann, "decided_before")


def find_voter() -> World:
    ann = make_person("ann")
    make_person("ben")
    review = ask(assignees=["ann", "ben"], quorum=2)
    decide(review, "approve", actor=ann)
    return World(review, ann, "voted")


def find_who_comes_second() -> World:
    """Somebody else has claimed it."""
    ann, ben = make_person("ann"), make_person("ben")
    review = ask(assignees=["ann", "ben"])
    actions.claim(review, actor=ben)
    return World(review, ann, "claimed")


def find_who_comes_during_grace() -> World:
    ann, ben = make_person("ann"), make_person("ben")
    review = ask(assignees=["ann", "ben"])
    decide(review, "reject", actor=ben, grace=True)
    return World(review, ann, "grace")


def find_who_handed_on() -> World:
    ann, ben = make_person("ann"), make_person("ben")
    review = ask(assignees=["ann"])
    delegate(review, to=ben, actor=ann)
    return World(review, ann, "not_candidate")


def find_substitute_of_requester() -> World:
    make_person("ann")
    ben, cid = make_person("ben"), make_person("cid")
    review = ask(assignees=["ann", "ben"], requester="ben")
    Absence.objects.create(user=ben, substitute=cid, since=timezone.now())
    return World(review, cid, "not_candidate")


def find_who_is_late() -> World:
    """The deadline has passed, though no sweep has come by."""
    ann = make_person("ann")
    review = ask(assignees=["ann"], timeout="1h")
    _skew(connection, 3700)
    return World(review, ann, None)


def find_who_comes_after_all() -> World:
    """It was decided."""
    ann, ben = make_person("ann"), make_person("ben")
    review = ask(assignees=["ann", "ben"])
    decide(review, "reject", actor=ben)
    return World(review, ann, None)


def find_staff_without_permission() -> World:
    make_person("ann")
    eve: Any = make_person("eve", is_staff=True)
    eve.stays_out = True
    return World(ask(assignees=["ann"]), eve, "not_candidate")


def find_key() -> World:
    """A key of the workspace, which stands for no person."""
    make_person("ann")
    return World(ask(assignees=["ann"]), Key(make_key(), "key:"), "not_candidate")


ACTORS = {name.removeprefix("find_"): find for name, find in list(globals().items()) if name.startswith("find_")}
del ACTORS["review"]

#: All of them together, but that a key is for HTTP, and a desk is somebody's.
CELLS = [
    (door, actor)
    for door in DOORS
    for actor in ACTORS
    if (actor != "key" or door == "REST") and (actor != "anybody" or door != "MCP")
]


def is_heard(door: str, actor: str, world: World) -> bool:
    """Whether it leaves a row: not where nobody of the workspace has logged in. Python is told who it is."""
    return world.is_known or (door == "python" and actor != "anybody")


TABLES = (Review, Candidate, Vote, Comment)


@pytest.mark.no_fold(reason="moves the clock in some, and looks at rows only")
@pytest.mark.parametrize("actor", ACTORS)
def test_every_door_refuses_every_forbidden_actor_and_says_so_in_the_ledger(actor: str) -> None:
    """One door after the other, each as if nobody had been at another."""
    world = ACTORS[actor]()
    for door in DOORS:
        if (door, actor) in CELLS:
            with transaction.atomic():
                check_refusal(door, actor, world)
                transaction.set_rollback(True)


def check_refusal(door: str, actor: str, world: World) -> None:
    review = again(world.review)
    before, known = tell_rows(*TABLES), len(list_events(review, "refused"))
    DOORS[door].enter(world.user, review)
    late = actor == "who_is_late"  # whoever comes too late lets the deadline fire, and votes for nothing
    assert late or tell_rows(*TABLES) == before
    assert not late or (again(review).outcome, Vote.objects.count()) == ("", 0)
    heard = list_events(review, "refused")[known:]
    if not is_heard(door, actor, world):
        assert heard == []
        return
    [row] = heard
    told: Any = row.data
    assert told["door"] == DOORS[door].name
    assert row.actor.startswith("key:" if actor == "key" else f"user:{world.user.pk}")
    assert told.get("rule") == world.rule
    if world.rule is None:
        assert told["refused"] == "AlreadyDecided"


@pytest.mark.parametrize("door", DOORS)
def test_who_may_decide_does_so_by_every_door(door: str) -> None:
    """Else the refusals above would prove nothing."""
    ann = make_person("ann")
    review = ask(assignees=["ann"])
    if door == "REST":
        body = {"outcome": "approve", "version": review.version, "reason": WHY}
        assert Api(client=login(ann)).post(f"/v1/approvals/{review.pk}/decide", body).status_code == 200
    else:
        DOORS[door].enter(ann, review)
    [vote] = Vote.objects.all()
    assert (vote.outcome, vote.door) == ("approve", DOORS[door].name)


# --- overriding is a door of its own ----------------------------------------------------------------------------


MAY_OVERRIDE = ("who_may_override", "superuser", "superuser_while_claimed")


@pytest.mark.parametrize("actor", [one for one in ACTORS if one not in MAY_OVERRIDE and one != "key"])
def test_nobody_overrides_without_the_right_or_on_their_own(actor: str) -> None:
    """By the page of one and by the action of many, each as if nobody had been at the other."""
    world = ACTORS[actor]()
    for enter in (enter_override_page, enter_override_action):
        with transaction.atomic():
            review = again(world.review)
            if actor in ("requester", "who_started_it"):  # not even with the right
                grant(world.user, "override_review")
            before = tell_rows(*TABLES)
            enter(work_there(world.user), review)
            if actor != "who_is_late":
                assert tell_rows(*TABLES) == before
            assert not Vote.objects.filter(override=True).exists()
            transaction.set_rollback(True)


def enter_override_page(client: Client, review: Review) -> None:
    client.post(f"{ADMIN}{review.pk}/override/", fill(review))


def enter_override_action(client: Client, review: Review) -> None:
    chosen = {"action": "override", "_selected_action": [str(review.pk)], "confirmed": "yes"}
    client.post(ADMIN, {**fill(review), **chosen})


# --- what takes an approval is a door as well -----------------------------------------------------------------


def save_order(user: Any, order: Any) -> None:
    """Save in the admin whose Save proposes."""
    sent = {"code": order.code, "amount": "1.00", "due": "", "customer": "", "labels": [], "note": ""}
    login(user).post(f"/backoffice/shop/order/{order.pk}/change/", sent)


def patch_order(user: Any, order: Any) -> None:
    """Call the API whose calls wait."""
    login(user).patch(f"/api/orders/{order.pk}/", {"amount": "1.00"}, content_type="application/json")


MIXINS = {"admin mixin": save_order, "DRF replay": patch_order}


@pytest.fixture
def backoffice(shop: Any) -> Iterator[None]:
    from django.urls import include, path
    from rest_framework.routers import SimpleRouter

    from tests.support.gated_viewset import make_viewset

    router = SimpleRouter()
    router.register("orders", make_viewset(shop), basename="order")
    make_person("ann", "finance")
    kinds = (shop.Order, make_order_admin()), (shop.Customer, admin.ModelAdmin), (shop.Label, admin.ModelAdmin)
    with open_site(*kinds, routes=[path("api/", include(router.urls))]):
        yield


def may_change(user: User) -> User:
    """Staff that may save orders."""
    User.objects.filter(pk=user.pk).update(is_staff=True)
    user.user_permissions.add(*Permission.objects.filter(codename__in=["change_order", "view_order"]))
    return user


SAVERS: dict[str, Callable[[], Any]] = {
    "whoever may change it": lambda: may_change(make_person("eve")),
    "whoever may approve it": lambda: may_change(User.objects.get(username="ann")),
    "a superuser": lambda: User.objects.create_superuser("root"),
    "whoever may override": lambda: may_change(grant(make_person("eve"), "override_review")),
    "staff without permission": lambda: make_person("eve", is_staff=True),
    "no staff": lambda: make_person("eve"),
    "a closed account": lambda: may_change(make_person("eve", is_active=False)),
    "nobody": AnonymousUser,
}


@pytest.mark.parametrize("saver", SAVERS)
@pytest.mark.parametrize("door", MIXINS)
def test_nothing_is_changed_by_whoever_saves_and_they_do_not_approve_it_themselves(
    backoffice: None, order: Any, door: str, saver: str
) -> None:
    before, user = order.amount, SAVERS[saver]()
    MIXINS[door](user, order)
    drain()
    order.refresh_from_db()
    assert order.amount == before
    assert not Vote.objects.exists()
    for review in Review.objects.all():
        assert (review.open, review.requester_id) == (True, user.pk)
        decide_all(review, user)
        assert list_events(review, "refused")
    drain()
    order.refresh_from_db()
    assert order.amount == before
    assert not Vote.objects.exists()


def decide_all(review: Review, user: Any) -> None:
    """By every door, what one proposed oneself."""
    for name in DOORS:
        DOORS[name].enter(user, again(review))


# --- no door is missing here ------------------------------------------------------------------------------------

SOURCE = Path(approvals.__file__).parent
#: What calls `decide()` without being a door: a helper for tests of projects, and the protocol around the MCP desk.
NO_DOORS = {"testing", "mcp.server"}


@cache
def list_calls() -> list[tuple[str, Any]]:
    """(module of approvals, what is called there), of every call."""
    return [
        (".".join(path.relative_to(SOURCE).with_suffix("").parts), node.func)
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
    ]


def list_callers(name: str) -> set[str]:
    """The modules of approvals in which something of this name is called."""
    found = set()
    for module, called in list_calls():
        is_method = isinstance(called, ast.Attribute) and name == "decide" and called.attr == name
        if is_method or (isinstance(called, ast.Name) and called.id == name):
            found.add(module)
    return found


def test_whatever_decides_is_a_door_above() -> None:
    assert list_callers("decide") == {one.module for one in DOORS.values() if one.module} | NO_DOORS
    # Beside `decide()` only time, grace and withdrawing end a review.
    assert list_callers("finish") == {"deciding.decisions", "deciding.undo_window", "deciding.effects"}
    assert list_callers("answer_by_time") == {"deciding.timers"}


#: Every address below which something is decided, and every other one of ours: what is posted there decides nothing.
PAGES = {
    "bulk": "bulk",
    "review": "page",
    "link": "link",
    **dict.fromkeys(["inbox", "live", "theme", "keys", "saved", "settings", "colleagues", "call"], ""),
}
ENDPOINTS = {
    "approval-decide": "REST",
    **dict.fromkeys(["approvals", "approval", "approval-claim", "approval-release", "approval-delegate"], ""),
    **dict.fromkeys(["approval-comment", "approval-request-info", "approval-undo"], ""),
}
ADMIN_PAGES = {
    "decide": "admin page",
    "override": "admin page",
    **dict.fromkeys(["reassign", "extend", "release", "withdraw", "value"], ""),
    **dict.fromkeys(["changelist", "add", "delete", "history", "change"], ""),
}


def test_every_address_of_ours_is_a_door_above_or_none() -> None:
    assert {one.name for one in urlpatterns if one.name} == set(PAGES)
    assert {one.name for one in PART.patterns} == set(ENDPOINTS)
    named = [one.name for one in admin.site._registry[Review].get_urls() if one.name]
    assert {one.removeprefix("holdpoint_approvals_review_") for one in named} == set(ADMIN_PAGES)
    assert {*PAGES.values(), *ENDPOINTS.values(), *ADMIN_PAGES.values()} - {""} <= set(DOORS)
    assert set(admin.site._registry[Review].actions) == {  # type: ignore[arg-type]
        *("decide", "override"),
        *("reassign", "extend", "release", "withdraw"),
    }


def test_groups_alone_let_nobody_in() -> None:
    """The world of these tests: a group that is not asked is no way in."""
    Group.objects.get_or_create(name="sales")
    make_person("ann", "finance")
    eve = make_person("eve", "sales")
    review = ask(groups=["finance"])
    for door in DOORS.values():
        door.enter(eve, again(review))
    assert not Vote.objects.exists()
