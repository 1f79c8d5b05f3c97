"""Pages of schedules, queues and pauses: their buttons, the moments they show, and what waits for its turn."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client

import workflows
from tests.support.admin_pages import LIST, page_of, read_rows, staff, words_of
from workflows import Done, Next, Workflow, durable, instance, step
from workflows.api import flow_control
from workflows.models import Instance, PausedWorkflow, Queue, Schedule
from workflows.testing import drain

pytestmark = pytest.mark.django_db

SCHEDULES, QUEUES, PAUSED = (f"/admin/holdpoint/{name}/" for name in ("schedule", "queue", "pausedworkflow"))


class ToolMail(Workflow):
    name = "tools.mail"
    queue = "tools-mail"

    @step
    def send(self, ctx: Any) -> Done:
        return Done()


def press(client: Client, page: str, name: str) -> str:
    """Press a button that the page has."""
    text = client.get(page).text
    assert f'name="action" value="{name}"' in text
    [row] = {line.split('"')[-2] for line in text.splitlines() if 'name="_selected_action"' in line}
    address = page.rpartition(f"{row}/change/")[0]
    return words_of(client.post(address, {"action": name, "_selected_action": row}, follow=True).text)


def test_a_schedule_is_run_and_switched_from_its_page(operator: Client) -> None:
    row = workflows.schedule("reports", ToolMail, every="1h")
    page = f"{SCHEDULES}{row.pk}/change/"
    assert "has started an instance" in press(operator, page, "run_now")
    assert Instance.objects.get().started_by.startswith("user:")
    assert "is disabled" in press(operator, page, "disable")
    assert "is enabled" in press(operator, page, "enable")
    assert Schedule.objects.get().enabled


def test_a_queue_and_a_workflow_are_paused_and_let_go_on_from_their_pages(operator: Client) -> None:
    flow_control.change_queue("tools-mail", limit=5)
    page = f"{QUEUES}{Queue.objects.get().pk}/change/"
    assert "Paused: tools-mail." in press(operator, page, "pause")
    assert "Goes on: tools-mail." in press(operator, page, "unpause")
    assert not Queue.objects.get().paused
    workflows.pause(ToolMail)
    assert "Goes on: tools.mail." in press(operator, f"{PAUSED}{PausedWorkflow.objects.get().pk}/change/", "unpause")
    assert not PausedWorkflow.objects.exists()


def test_who_may_only_look_is_shown_no_button() -> None:
    row = workflows.schedule("reports", ToolMail, every="1h")
    flow_control.change_queue("tools-mail", limit=5)
    workflows.pause(ToolMail)
    client = staff("view_schedule", "view_queue", "view_pausedworkflow")
    for page in (
        f"{SCHEDULES}{row.pk}/change/",
        f"{QUEUES}{Queue.objects.get().pk}/change/",
        f"{PAUSED}{PausedWorkflow.objects.get().pk}/change/",
    ):
        assert 'name="_selected_action"' not in client.get(page).text


def test_ticks_of_a_cron_expression_are_shown_in_its_own_zone_and_intervals_as_people_write_them(
    operator: Client,
) -> None:
    berlin = workflows.schedule("morning", ToolMail, cron="0 7 * * *", tz="Europe/Berlin")
    words = words_of(operator.get(f"{SCHEDULES}{berlin.pk}/change/").text)
    assert words.count(" 07:00:00 CE") == 5  # CET or CEST
    hours = workflows.schedule("hours", ToolMail, every=timedelta(hours=36))
    assert 'value="1d12h"' in operator.get(f"{SCHEDULES}{hours.pk}/change/").text
    rows = read_rows(operator.get(SCHEDULES).text)
    assert any("every 1d12h" in one for one in rows)


def test_a_schedule_whose_last_tick_was_refused_says_so_in_its_row(operator: Client) -> None:
    workflows.schedule("reports", ToolMail, every="1h")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_schedule SET error = 'amount: is required'")
    [row] = read_rows(operator.get(SCHEDULES).text)
    assert row.startswith("reports error")


def test_a_form_begins_in_the_default_workspace_and_with_an_empty_box_for_a_value(operator: Client) -> None:
    page = operator.get(f"{SCHEDULES}add/").text
    assert "selected>default</option>" in page
    assert "null" not in page.partition('name="input"')[2].partition("</textarea>")[0]

    class Ship(Workflow):
        name = "tools.ship"

        @step
        def go(self, ctx: Any) -> Next:
            return Next("go", delay="1h")

    first = workflows.start(Ship)
    form = operator.get(page_of(first, "fork/")).text
    assert "null" not in form.partition('name="input"')[2].partition("</textarea>")[0]


def test_the_list_of_paused_workflows_names_who_has_paused_them(operator: Client) -> None:
    operator.post(f"{PAUSED}add/", {"workspace": 1, "workflow": "tools.mail"})
    [row] = read_rows(operator.get(PAUSED).text)
    name = operator.get(PAUSED).wsgi_request.user.get_username()
    assert f"{name} (user:" in row


def test_what_waits_for_its_turn_is_not_called_late(operator: Client) -> None:
    workflows.pause(queue="tools-mail")
    held, plain = workflows.start(ToolMail), workflows.start("tools.plain")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_instance SET due_at = due_at - interval '10 min'")
    rows = {
        one.pk: row for one in (held, plain) for row in read_rows(operator.get(LIST).text) if str(one.pk)[-8:] in row
    }
    assert ("late" in rows[held.pk], "late" in rows[plain.pk]) == (False, True)


@durable(name="tools.plain")
def plain(ctx: Any, other: str | None = None) -> None:
    if other:
        ctx.ask("goods", instance(other)).result()


def test_the_ledger_names_what_a_question_was_about(operator: Client) -> None:
    workflows.start(ToolMail, key="goods-7")
    asking = workflows.start("tools.plain", {"other": "goods-7"})
    drain()
    page = words_of(operator.get(page_of(asking)).text.partition('id="ledger-page"')[2])
    assert "question asked goods" in page
    assert "signal received the end of an instance" in page
