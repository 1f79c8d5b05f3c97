"""Queues, limits and paused workflows in the admin: what holds is shown, and set through the calls."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test import Client

import workflows
from tests.support.admin_pages import LIST, read_rows, staff, words_of
from workflows import Concurrency, Done, Rate, Workflow, step, store
from workflows.api import flow_control
from workflows.models import Limit, PausedWorkflow, Queue, Workspace

pytestmark = pytest.mark.django_db

QUEUES, LIMITS, PAUSED = (f"/admin/holdpoint/{name}/" for name in ("queue", "limit", "pausedworkflow"))


class AdminMail(Workflow):
    name = "admin-mail"
    queue = "admin-mail"
    concurrency = Concurrency("adminmail:{tenant}", 5)
    rate = Rate("admin-smtp", 100, per="1m", weight=3)

    @step
    def send(self, ctx: Any) -> Done:
        return Done()


def fill(**more: Any) -> dict[str, Any]:
    blank = {"limit": "", "rate_count": "", "rate_per": "", "rate_burst": ""}
    return {"workspace": Workspace.objects.get(slug="default").pk, **blank, **more}


def test_queues_are_shown_with_what_holds_and_what_waits(operator: Client, settings: Any) -> None:
    settings.WORKFLOWS = {**settings.WORKFLOWS, "QUEUES": {"admin-mail": {"limit": 3, "rate": "50/s"}}}
    workflows.start_many("admin-mail", [{"tenant": 7}] * 2)
    unset = words_of(operator.get(QUEUES).text.partition('id="unset_list"')[2])
    assert "admin-mail 3 50/s 0 2 Change…" in unset
    flow_control.change_queue("admin-mail", rate="9/h", paused=True, actor="ada")
    page = operator.get(QUEUES).text
    [row] = read_rows(page)
    assert row.startswith("admin-mail paused 3 9/h 0 2")
    assert "admin-mail" not in words_of(page.partition('id="unset_list"')[2])


def test_a_queue_that_nobody_serves_is_told_above_the_list(operator: Client) -> None:
    told = "no living worker serves it: start manage.py workflow_worker --queue admin-mail"
    store.beat(connection, "one", "worker", "one", queues=["default"])
    assert told not in operator.get(QUEUES).text
    workflows.start("admin-mail", {"tenant": 7})
    assert told in operator.get(QUEUES).text
    assert "default" in operator.get("/admin/holdpoint/worker/").text
    store.beat(connection, "all", "worker", "all")
    assert told not in operator.get(QUEUES).text


def test_a_queue_is_set_in_what_was_filled_in_and_nothing_else(operator: Client) -> None:
    page = operator.get(f"{QUEUES}add/?workspace=1&name=admin-mail").text
    assert '<option value="admin-mail" selected>' in page
    form = fill(name="admin-mail", limit="7", rate_count="100", rate_per="60")
    assert operator.post(f"{QUEUES}add/", form).status_code == 302
    row = Queue.objects.get()
    assert (row.limit, row.rate_count, row.rate_per, row.rate_burst, row.paused) == (7, 100, 60.0, 100, False)
    assert row.changed_by.startswith("user:")
    change = f"{QUEUES}{row.pk}/change/"
    assert "ada" in operator.get(change).text
    flow_control.change_queue("admin-mail", paused=True)  # while the form stood open
    again = {"limit": "8", "rate_count": "100", "rate_per": "60.0", "rate_burst": "100", "paused": "on"}
    assert operator.post(change, again).status_code == 302
    row.refresh_from_db()
    assert (row.limit, row.paused, row.rate_count) == (8, True, 100)
    assert operator.post(change, {"limit": "", "rate_count": "", "rate_per": "", "rate_burst": ""}).status_code == 302
    row.refresh_from_db()
    assert (row.limit, row.paused, row.rate_count) == (None, False, None)


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({"name": "admin-mail", "limit": "0"}, "greater than or equal to 1"),
        ({"name": "admin-mail", "rate_count": "5"}, "A rate takes both"),
        ({"name": "admin-mail", "rate_count": "5", "rate_per": "0"}, "This is no rate"),
        ({"name": "admin-mail", "rate_count": "5", "rate_per": "nan"}, "Enter a number"),
        ({"name": "nobody"}, "Select a valid choice"),
    ],
)
def test_what_a_queue_cannot_be_is_told_at_its_field(operator: Client, form: Any, told: str) -> None:
    answer = operator.post(f"{QUEUES}add/", fill(**form))
    assert answer.status_code == 200
    assert told in words_of(answer.text)
    assert not Queue.objects.exists()


def test_a_queue_that_has_a_row_gets_no_second_one(operator: Client) -> None:
    flow_control.change_queue("admin-mail", limit=5)
    assert "already exists" in operator.post(f"{QUEUES}add/", fill(name="admin-mail", limit="7")).text
    assert Queue.objects.get().limit == 5


def test_chosen_queues_are_paused_and_go_on(operator: Client) -> None:
    flow_control.change_queue("admin-mail", limit=5)
    row = Queue.objects.get()
    for action, told in (("pause", "Paused: admin-mail."), ("unpause", "Goes on: admin-mail.")):
        answer = operator.post(QUEUES, {"action": action, "_selected_action": [row.pk]}, follow=True)
        assert told in words_of(answer.text)
        row.refresh_from_db()
        assert row.paused is (action == "pause")


def test_the_key_of_a_limit_shows_what_nobody_sees_and_reorders_nothing_on_any_page(operator: Client) -> None:
    flow_control.change_limit("concurrency", "adminmail:7\u202e<b>", 20)
    row = Limit.objects.get()
    for url in (LIMITS, f"{LIMITS}{row.pk}/change/", f"{LIMITS}{row.pk}/delete/"):
        page = operator.get(url).text
        assert "adminmail:7⟨U+202E⟩&lt;b&gt;" in page
        assert "\u202e" not in page


def test_a_limit_is_set_and_given_back_to_the_code(operator: Client) -> None:
    form = fill(kind="concurrency", name="adminmail:7", limit="20")
    assert operator.post(f"{LIMITS}add/", form).status_code == 302
    row = Limit.objects.get()
    assert (row.kind, row.name, row.limit) == ("concurrency", "adminmail:7", 20)
    [shown] = read_rows(operator.get(LIMITS).text)
    assert shown.startswith("adminmail:7 default concurrency 20 5")
    assert operator.post(f"{LIMITS}{row.pk}/change/", {"limit": "30"}).status_code == 302
    row.refresh_from_db()
    assert row.limit == 30
    assert operator.post(f"{LIMITS}{row.pk}/delete/", {"post": "yes"}).status_code == 302
    assert not Limit.objects.exists()
    rate = fill(kind="rate", name="admin-smtp", rate_count="50", rate_per="1")
    assert operator.post(f"{LIMITS}add/", rate).status_code == 302
    row = Limit.objects.get()
    assert (row.rate_count, row.rate_per, row.rate_burst) == (50, 1.0, 50)
    chosen = {"action": "delete_selected", "_selected_action": [row.pk], "post": "yes"}
    operator.post(LIMITS, chosen)
    assert not Limit.objects.exists()


def test_a_burst_that_is_below_what_a_run_takes_is_told_in_the_list(operator: Client) -> None:
    flow_control.change_limit("rate", "admin-smtp", "3/h")
    assert "one run takes" not in operator.get(LIMITS).text
    with connection.cursor() as cursor:  # as if a deploy had come after it
        cursor.execute("UPDATE holdpoint_limit SET rate_burst = 2")
    assert "one run takes 3" in words_of(operator.get(LIMITS).text)


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({"kind": "concurrency", "name": "adminmail:7"}, "How many at once?"),
        ({"kind": "concurrency", "name": "nobody:7", "limit": "5"}, "No workflow has such a limit"),
        ({"kind": "concurrency", "name": "adminmail:7", "limit": "5", "rate_count": "1", "rate_per": "1"}, "no rate"),
        ({"kind": "rate", "name": "admin-smtp"}, "A rate takes both"),
        ({"kind": "rate", "name": "admin-smtp", "rate_count": "2", "rate_per": "1"}, "One run takes 3"),
        ({"kind": "rate", "name": "admin-smtp", "rate_count": "5", "rate_per": "1", "limit": "5"}, "and no limit"),
        ({"kind": "rate", "name": "nobody", "rate_count": "5", "rate_per": "1"}, "There are:"),
    ],
)
def test_what_a_limit_cannot_be_is_told_at_its_field(operator: Client, form: Any, told: str) -> None:
    answer = operator.post(f"{LIMITS}add/", fill(**form))
    assert answer.status_code == 200
    assert told in words_of(answer.text)
    assert not Limit.objects.exists()


def test_a_workflow_is_paused_and_goes_on(operator: Client) -> None:
    assert operator.post(f"{PAUSED}add/", fill(workflow="admin-mail")).status_code == 302
    row = PausedWorkflow.objects.get()
    assert (row.workflow, row.changed_by[:5]) == ("admin-mail", "user:")
    assert operator.get(f"{PAUSED}{row.pk}/change/").status_code == 200
    answer = operator.post(PAUSED, {"action": "unpause", "_selected_action": [row.pk]}, follow=True)
    assert "Goes on: admin-mail." in words_of(answer.text)
    assert not PausedWorkflow.objects.exists()


def test_who_may_look_may_not_change(db: None) -> None:
    flow_control.change_queue("admin-mail", limit=5)
    flow_control.change_limit("concurrency", "adminmail:7", 20)
    workflows.pause("admin-mail")
    bob = staff("view_queue", "view_limit", "view_pausedworkflow")
    for url, row in (
        (QUEUES, Queue.objects.get()),
        (LIMITS, Limit.objects.get()),
        (PAUSED, PausedWorkflow.objects.get()),
    ):
        assert bob.get(url).status_code == 200
        assert bob.get(f"{url}{row.pk}/change/").status_code == 200
        assert bob.get(f"{url}add/").status_code == 403
        assert bob.post(f"{url}{row.pk}/change/", {"limit": "1"}).status_code == 403
        assert bob.post(f"{url}{row.pk}/delete/", {"post": "yes"}).status_code == 403
        bob.post(url, {"action": "unpause", "_selected_action": [row.pk]})
    assert (Queue.objects.get().limit, Limit.objects.get().limit, PausedWorkflow.objects.count()) == (5, 20, 1)


def test_control_queue_is_all_that_changing_takes(db: None) -> None:
    bob = staff("control_queue")
    assert bob.post(f"{QUEUES}add/", fill(name="admin-mail", limit="7")).status_code == 302
    assert bob.post(f"{LIMITS}add/", fill(kind="concurrency", name="adminmail:7", limit="20")).status_code == 302
    assert bob.post(f"{PAUSED}add/", fill(workflow="admin-mail")).status_code == 302
    assert (Queue.objects.get().limit, Limit.objects.get().limit, PausedWorkflow.objects.count()) == (7, 20, 1)


def test_instances_are_filtered_by_queue_and_show_theirs(operator: Client) -> None:
    mail = workflows.start("admin-mail", {"tenant": 7}, priority=5, key="mail-1")
    workflows.start("AdminWaits", key="other-1")
    assert [
        ("mail-1" in row, "other-1" in row) for row in read_rows(operator.get(f"{LIST}?queue=admin-mail").text)
    ] == [(True, False)]
    assert [("mail-1" in row, "other-1" in row) for row in read_rows(operator.get(f"{LIST}?queue=default").text)] == [
        (False, True)
    ]
    page = words_of(operator.get(f"{LIST}{mail.pk}/change/").text)
    assert "admin-mail priority 5" in page
    assert "adminmail:7" in page
