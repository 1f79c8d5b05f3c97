"""Schedules in the admin: made, changed, run and switched by whoever may, and shown with their next five ticks."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.urls import reverse

import workflows
from workflows import Await, Workflow, durable, step
from workflows.models import Instance, Schedule
from workflows.testing import advance

pytestmark = pytest.mark.django_db


class Lasting(Workflow):
    name = "schedule_admin.lasting"

    @step
    def wait(self, ctx):
        return Await("go", then="wait")


@durable(name="schedule_admin.greet")
def greet(ctx, name="Ada"):
    return name


LIST = reverse("admin:holdpoint_schedule_changelist")
ADD = reverse("admin:holdpoint_schedule_add")


def login(*permissions: str) -> Client:
    user = User.objects.create_user("ann", is_staff=True)
    user.user_permissions.add(
        *Permission.objects.filter(codename__in=[*permissions, "all_workspaces"], content_type__app_label="holdpoint")
    )
    client = Client()
    client.force_login(user)
    return client


def act(client: Client, action: str, *rows: Schedule) -> Any:
    return client.post(LIST, {"action": action, "_selected_action": [row.pk for row in rows]}, follow=True)


def page_of(row: Schedule) -> str:
    return reverse("admin:holdpoint_schedule_change", args=[row.pk])


def fill(**fields: Any) -> dict[str, Any]:
    workspace = workflows.models.Workspace.objects.get(slug="default").pk
    plain = {"name": "reports", "workspace": workspace, "workflow": "schedule_admin.greet", "overlap": "skip"}
    return {**plain, "catch_up": "last", "enabled": "on", **fields}


def test_the_list_and_the_page_show_the_next_ticks():
    row = workflows.schedule("reports", Lasting, every="1h", overlap="skip")
    advance("2h1s")
    row.refresh_from_db()
    client = login("view_schedule")
    assert "reports" in client.get(LIST).content.decode()
    page = client.get(page_of(row)).content.decode()
    assert page.count("<div><time") == 5 or page.count("<time") >= 5
    assert str(row.last_instance) in page
    assert "skipped" in page
    assert 'name="_save"' not in page


def test_a_schedule_is_made_and_changed_by_a_form():
    client = login("view_schedule", "manage_schedule", "start_instance")
    assert client.get(ADD).status_code == 200
    response = client.post(ADD, fill(cron="0 9 * * 1-5", tz="Europe/Berlin", input='{"name": "Ben"}', catch_up="3"))
    assert response.status_code == 302, response.content.decode()
    row = Schedule.objects.get()
    assert (row.cron, row.tz, row.input, row.catch_up) == ("0 9 * * 1-5", "Europe/Berlin", {"name": "Ben"}, 3)
    changed = client.post(page_of(row), fill(every="30m", input="", overlap="cancel"))
    assert changed.status_code == 302, changed.content.decode()
    row.refresh_from_db()
    assert (row.cron, row.every.total_seconds(), row.input, row.overlap) == (None, 1800, {}, "cancel")


WRONG = [
    ({"cron": "0 0 30 2 *"}, "never fires"),
    ({"cron": "0 9 * * *", "tz": "Mars"}, "no time zone"),
    ({}, "neither cron= nor every="),
    ({"every": "0.5s"}, "not between 1 second"),
    ({"every": "1h", "input": '{"nobody": 1}'}, "is no parameter of the function"),
    ({"every": "1h", "catch_up": "all"}, "catch_up="),
    ({"every": "1h", "catch_up": "9" * 5_000}, "catch_up="),
    ({"every": "9" * 5_000 + "s"}, "every="),
    ({"every": "1h", "name": "a/run"}, "name it otherwise"),
]


@pytest.mark.parametrize(("fields", "told"), WRONG, ids=lambda value: str(value)[:30])
def test_what_no_schedule_can_be_made_of_is_told_at_the_form(fields, told):
    client = login("manage_schedule", "start_instance")
    response = client.post(ADD, fill(**fields))
    assert response.status_code == 200
    assert told in response.content.decode().replace("&#x27;", "'")
    assert not Schedule.objects.exists()


def test_a_name_that_is_taken_is_told_at_the_form():
    workflows.schedule("reports", Lasting, every="1h")
    response = login("manage_schedule", "start_instance").post(ADD, fill(every="1h"))
    assert "There is a schedule of this name" in response.content.decode()


def test_schedules_are_run_and_switched_by_actions():
    row, other = workflows.schedule("reports", Lasting, every="1h"), workflows.schedule("other", greet, every="1h")
    client = login("view_schedule", "manage_schedule", "run_schedule", "start_instance")
    ann = User.objects.get(username="ann")
    assert "has started an instance" in act(client, "run_now", row, other).content.decode()
    assert set(Instance.objects.values_list("started_by", flat=True)) == {f"user:{ann.pk}"}
    assert "which it started last, has not ended" in act(client, "run_now", row).content.decode()
    assert "is disabled" in act(client, "disable", row, other).content.decode()
    assert not Schedule.objects.filter(enabled=True).exists()
    assert "is enabled" in act(client, "enable", row).content.decode()
    assert Schedule.objects.get(enabled=True) == row


def test_the_name_of_a_schedule_shows_what_nobody_sees_and_reorders_nothing_on_any_page():
    row = workflows.schedule("daily\u202egpj <b>", Lasting, every="1h")
    client = login("view_schedule", "manage_schedule", "start_instance")
    for url in (LIST, page_of(row), reverse("admin:holdpoint_schedule_delete", args=[row.pk])):
        page = client.get(url).content.decode()
        assert "daily⟨U+202E⟩gpj &lt;b&gt;" in page
        assert "\u202e" not in page


def test_a_schedule_is_removed():
    row = workflows.schedule("reports", Lasting, every="1h")
    client = login("view_schedule", "manage_schedule")
    url = reverse("admin:holdpoint_schedule_delete", args=[row.pk])
    assert client.post(url, {"post": "yes"}).status_code == 302
    assert not Schedule.objects.exists()


@pytest.mark.parametrize("remove", ["delete", "delete_selected"])
def test_a_schedule_that_somebody_else_removes_at_that_moment_is_gone_without_an_error(remove):
    row = workflows.schedule("reports", Lasting, every="1h")
    client = login("view_schedule", "manage_schedule")

    def be_faster(execute, sql, params, many, context):
        if "FOR NO KEY UPDATE" in sql and "holdpoint_schedule" in sql and not faster:
            faster.append(sql)
            with connection.cursor() as cursor:
                cursor.execute("DELETE FROM holdpoint_schedule WHERE id = %s", [row.pk])
        return execute(sql, params, many, context)

    faster: list[str] = []
    with connection.execute_wrapper(be_faster):
        if remove == "delete":
            url = reverse("admin:holdpoint_schedule_delete", args=[row.pk])
            answer = client.post(url, {"post": "yes"})
        else:
            answer = client.post(LIST, {"action": remove, "_selected_action": [row.pk], "post": "yes"})
    assert faster  # on this connection: it is rolled back with the call that met it
    assert answer.status_code == 302


@pytest.mark.parametrize("action", ["run_now", "enable", "disable", "delete_selected"])
def test_nobody_changes_anything_without_the_permission(action):
    row = workflows.schedule("reports", Lasting, every="1h")
    client = login("view_schedule", "start_instance")
    act(client, action, row)
    assert client.get(ADD).status_code == 403
    assert client.post(page_of(row), fill(every="2h")).status_code == 403
    assert client.post(reverse("admin:holdpoint_schedule_delete", args=[row.pk]), {"post": "yes"}).status_code == 403
    found = Schedule.objects.get()
    assert (found.next_at, found.enabled) == (row.next_at, True)
    assert not Instance.objects.exists()


def test_who_may_not_start_instances_makes_no_schedule():
    assert login("view_schedule", "manage_schedule").get(ADD).status_code == 403


def test_who_may_not_start_instances_switches_a_schedule_off_and_not_on():
    row = workflows.schedule("reports", Lasting, every="1h")
    client = login("view_schedule", "manage_schedule")
    assert "is disabled" in act(client, "disable", row).content.decode()
    assert 'value="enable"' not in client.get(page_of(row)).content.decode()
    act(client, "enable", row)
    assert not Schedule.objects.get().enabled
