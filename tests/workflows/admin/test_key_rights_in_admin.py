"""Keys that staff make in the admin: nobody hands out more than they hold, and nothing outside their workspace."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

import workflows
from tests.support.admin_pages import login
from workflows.access.api_keys import create_key, find_access
from workflows.models import ApiKey, Workspace

pytestmark = pytest.mark.django_db


def test_where_there_is_one_workspace_only_staff_see_it_without_being_members(db: None) -> None:
    workflows.start("AdminWaits", {}, key="mine")
    user = User.objects.create_user("sue", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="view_instance"))
    assert "mine" in login(user).get("/admin/holdpoint/instance/").text


def with_rights(*codenames: str) -> Client:
    user = User.objects.create_user("kim", is_staff=True)
    keys = ["add_apikey", "change_apikey", "view_apikey"]
    user.user_permissions.set(Permission.objects.filter(codename__in=[*keys, *codenames]))
    Workspace.objects.get(slug="default").members.add(user)
    return login(user)


def fill(**more: Any) -> dict[str, Any]:
    workspace = Workspace.objects.get(slug="default").pk
    form = {"name": "billing", "workspace": workspace, "scopes": ["read"], "reach": "all", "rate": ""}
    return {**form, "expires_at_0": "", "expires_at_1": "", "_save": "Save", **more}


ADD = "/admin/holdpoint/apikey/add/"


def test_who_may_make_keys_and_nothing_else_makes_none(db: None) -> None:
    browser = with_rights()
    assert browser.post(ADD, fill()).status_code == 403
    assert not ApiKey.objects.exists()


@pytest.mark.parametrize("scope", ["start", "operate", "admin"])
def test_a_key_may_do_no_more_than_whoever_makes_it(scope: str, db: None) -> None:
    browser = with_rights("view_instance", "view_interaction", "view_schedule", "cancel_instance")
    assert browser.post(ADD, fill(scopes=["read", scope])).status_code == 200
    assert not ApiKey.objects.exists()
    browser.post(ADD, fill())
    assert ApiKey.objects.get().scopes == ["read"]


def test_a_key_is_of_one_s_own_workspace(db: None) -> None:
    other = workflows.workspace.create("theirs")
    browser = with_rights("view_instance", "view_interaction", "view_schedule")
    before = ApiKey.objects.count()
    assert browser.post(ADD, fill(workspace=other.pk)).status_code == 200
    assert ApiKey.objects.count() == before


def test_a_key_that_may_more_than_i_can_be_ended_and_neither_widened_nor_replaced(db: None) -> None:
    row, key = create_key("ci", workspace=Workspace.objects.get(slug="default"))
    browser = with_rights("view_instance", "view_interaction", "view_schedule")
    page = f"/admin/holdpoint/apikey/{row.pk}/"
    assert 'name="scopes"' not in browser.get(f"{page}change/").text
    assert browser.post(f"{page}change/", fill(name="mine")).status_code == 403
    assert browser.post(f"{page}rotate/", {"grace": "1h", "confirmed": "1"}).status_code == 403
    assert ApiKey.objects.count() == 1
    assert find_access(key) is not None
    browser.post(f"{page}revoke/", {"confirmed": "1"})
    assert find_access(key) is None


def test_all_scopes_take_all_rights(db: None) -> None:
    needed = ["view_instance", "view_interaction", "start_instance", "signal_instance", "complete_interaction"]
    needed += ["cancel_instance", "retry_instance", "redrive_interaction", "control_queue", "manage_schedule"]
    needed += ["view_schedule", "run_schedule", "fork_instance"]
    browser = with_rights(*needed)
    browser.post(ADD, fill(scopes=["admin"]))
    assert ApiKey.objects.get().scopes == ["admin"]
