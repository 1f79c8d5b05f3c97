"""Receipts in the admin: read by whoever may, of their own workspaces, and changed by nobody."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

import workflows
from tests.support.hook_posts import post, signed
from workflows import hook
from workflows.models import HookReceipt, Workspace

pytestmark = pytest.mark.django_db

LIST = "/admin/holdpoint/hookreceipt/"


@pytest.fixture(autouse=True)
def receipts() -> None:
    workflows.workspace.create("acme")
    hook("payments", verify=signed)(lambda message: {"order": "<b>7</b>"})
    hook("acme-orders", verify=signed, workspace="acme")(lambda message: None)
    assert post("payments", {"id": "evt_mine"}).status_code == 200
    assert post("acme-orders", {"id": "evt_of_acme"}).status_code == 200


def enter(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def test_an_operator_sees_what_was_taken_and_changes_nothing(admin_user: Any) -> None:
    client = enter(admin_user)
    page = client.get(LIST).content.decode()
    assert "evt_mine" in page
    assert "evt_of_acme" in page
    page = client.get(f"{LIST}?hook=payments").content.decode()
    assert "evt_mine" in page
    assert "evt_of_acme" not in page
    one = HookReceipt.objects.get(hook="payments")
    shown = client.get(f"{LIST}{one.pk}/change/").content.decode()
    assert "&lt;b&gt;7&lt;/b&gt;" in shown
    assert "<b>7</b>" not in shown
    assert client.post(f"{LIST}{one.pk}/delete/", {"post": "yes"}).status_code == 403
    assert client.get(f"{LIST}add/").status_code == 403
    with pytest.raises(workflows.EngineOwned):
        one.save()


def test_a_tenants_operator_sees_those_of_their_own_workspace() -> None:
    user = User.objects.create_user("ann", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_hookreceipt"))
    Workspace.objects.get(slug="acme").members.add(user)
    client = enter(user)
    page = client.get(LIST).content.decode()
    assert "evt_of_acme" in page
    assert "evt_mine" not in page
    theirs = HookReceipt.objects.get(hook="payments")
    assert client.get(f"{LIST}{theirs.pk}/change/").status_code == 302
