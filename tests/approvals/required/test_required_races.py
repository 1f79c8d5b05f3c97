"""Two connections and one object: proposals at once, approvals at once, a change beside an approval."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.admin import AdminSite, ModelAdmin
from django.contrib.auth.models import Group, User
from django.contrib.messages.storage.fallback import FallbackStorage
from django.test import RequestFactory

from approvals import Approval, Stale, decide
from approvals.models import Review
from approvals.required import ApprovalRequiredMixin
from approvals.required.core.proposals import propose
from tests.support.races import race, work
from workflows.models import Instance

#: Only these apps are there: what they do beside others is tested elsewhere.
pytestmark = [
    pytest.mark.django_db(
        transaction=True,
        available_apps=[
            "django.contrib.contenttypes",
            "django.contrib.auth",
            "django.contrib.admin",
            "workflows",
            "approvals",
        ],
    ),
    pytest.mark.usefixtures("people"),
]


@pytest.fixture
def people(transactional_db: None) -> None:
    for name in ("ann", "ben", "cid"):
        User.objects.create_user(name)
    Group.objects.create(name="sales")


def ask_for(name: str, requester: str = "ben") -> Callable[[], Any]:
    """Propose another name for the group."""

    def call() -> Any:
        group = Group.objects.get(name="sales")
        approval = Approval(f"Call it {name}", subject=group, change={"name": name}, assignees=["ann"])
        user = User.objects.get(username=requester)
        return propose(approval, "change", Group, group, {"name": name}, requester=user).instance.key

    return call


def approve(review: Review, name: str = "ann") -> Callable[[], Any]:
    def call() -> Any:
        try:
            return decide(review.pk, "approve", actor=User.objects.get(username=name)).state
        except Stale as refused:
            return sorted(refused.difference)

    return call


def tell(answer: Any) -> str:
    return str(getattr(getattr(answer, "error", None), "__name__", answer)).rpartition(":")[2]


@pytest.mark.parametrize(("rollback", "count"), [(False, 1), (True, 1)], ids=["commit", "rollback"])
def test_a_form_that_is_sent_twice_at_once_proposes_once(rollback: bool, count: int) -> None:
    first, second = race(ask_for("buyers"), ask_for("buyers"), rollback=rollback)
    assert tell(first) == "0"
    assert tell(second) == ("0" if rollback else "AlreadyProposed")
    assert Instance.objects.count() == count


def test_two_proposals_at_once_each_get_a_place() -> None:
    first, second = race(ask_for("buyers"), ask_for("sellers", "cid"))
    assert (tell(first), tell(second)) == ("0", "1")
    assert Instance.objects.count() == 2


def test_of_two_approvals_at_once_the_second_is_shown_what_the_first_has_changed() -> None:
    ask_for("buyers")()
    ask_for("sellers", "cid")()
    work()
    one, two = Review.objects.order_by("pk")
    assert race(approve(one), approve(two)) == ("decided", ["Name"])
    assert Group.objects.get().name == one.change["name"]  # type: ignore[index]


@pytest.mark.parametrize("rollback", [False, True], ids=["commit", "rollback"])
def test_a_change_beside_an_approval_makes_it_stale(rollback: bool) -> None:
    ask_for("buyers")()
    work()
    review = Review.objects.get()

    def rename() -> Any:
        return Group.objects.filter(name="sales").update(name="staff")

    assert race(rename, approve(review), rollback=rollback) == (1, "decided" if rollback else ["Name"])
    assert Group.objects.get().name == ("buyers" if rollback else "staff")


class NamesNeedApproval(ApprovalRequiredMixin, ModelAdmin):
    approval_assignees = ["ann"]
    approval_fields = ("name",)


def save_page(name: str, requester: str = "ben") -> Callable[[], Any]:
    """Send the group's page of the admin, which still shows this name."""

    def call() -> Any:
        group = Group.objects.get()
        sent: Any = RequestFactory().post("/", {"name": name, "permissions": []})
        sent.user = User.objects.get(username=requester)
        sent.session, sent._dont_enforce_csrf_checks = {}, True
        sent._messages = FallbackStorage(sent)
        sent.user.is_superuser = True
        NamesNeedApproval(Group, AdminSite()).changeform_view(sent, str(group.pk))
        return [str(one).partition(":")[0] for one in sent._messages]

    return call


@pytest.mark.parametrize("rollback", [False, True], ids=["commit", "rollback"])
def test_a_page_that_is_saved_beside_an_approval_does_not_take_it_back(rollback: bool) -> None:
    ask_for("buyers")()
    work()
    first, told = race(approve(Review.objects.get()), save_page("sales"), rollback=rollback)
    assert first == "decided"
    assert Group.objects.get().name == ("sales" if rollback else "buyers")
    assert ("Proposed, and not done yet" in told[0]) is not rollback
