"""Questions, events and checkpoints in the admin: told in words, at a bounded cost, and never a token."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.contenttypes.models import ContentType
from django.db import connection, connections
from django.test import Client
from django.test.utils import CaptureQueriesContext

import workflows
from tests.support.admin_pages import (
    ESCAPED,
    HOSTILE,
    LIST,
    SCHEMA,
    page_of,
    part,
    read_rows,
    staff,
    waiting,
    words_of,
)
from workflows import Await, Done, InteractionRefused, Workflow, durable, event, step
from workflows.ledger import redact
from workflows.models import Instance, Interaction, LedgerEvent
from workflows.testing import advance, drain

pytestmark = pytest.mark.django_db

QUESTIONS = "/admin/holdpoint/interaction/"


class AdminListens(Workflow):
    """Waits for an event of its order."""

    @step
    def begin(self, ctx: Any) -> Await:
        wanted = event("order.paid", {"order": ctx.input["order"], "state": "new"}, schema=SCHEMA)
        return Await(wanted, then="end", timeout="24h")

    @step
    def end(self, ctx: Any) -> Done:
        return Done(ctx.answer)


@durable(name="AdminSaves")
def saves(ctx: Any, channel: str = "api", **more: Any) -> Any:
    """Two results and a question to a group."""
    ctx.step("copy", lambda: more)
    ctx.step("long", lambda: "x" * 5000)
    return ctx.wait_for("agree", channel, group="board", timeout="2h")


def test_a_question_is_told_in_words_in_the_list_and_on_the_page(operator: Client) -> None:
    instance = waiting("AdminAsks", {})
    question = Interaction.objects.get()
    (row,) = read_rows(operator.get(LIST).text)
    assert f"answer to {question.signal_id[:40]}" in row
    assert "holdpoint:unit" not in row
    page = operator.get(page_of(instance)).text
    head = words_of(page.partition('id="questions-page"')[0])
    assert re.search(
        rf"answer to {question.signal_id} through channel callback ?, as Payment ?, until \d{{4}}-", head
    ), head
    table = part(page, "questions")
    for text in (question.signal_id, "pending", "callback", "pay"):
        assert text in table


def test_an_event_is_told_in_words(operator: Client) -> None:
    instance = waiting("AdminListens", {"order": 7})
    (row,) = read_rows(operator.get(LIST).text)
    assert "event order.paid" in row
    assert "event order.paid" in part(operator.get(page_of(instance)).text, "ledger")  # before it came
    head = words_of(operator.get(page_of(instance)).text)
    assert "event order.paid with order = 7 , state = &quot;new&quot;" in head
    assert "as Payment" in head
    workflows.emit("order.paid", {"order": 7, "state": "new", "amount": 3})
    drain()
    page = operator.get(page_of(instance)).text
    assert "event order.paid" in part(page, "ledger")
    assert "event order.paid" in part(page, "inbox")


def test_rows_of_the_ledger_tell_what_they_are_about(operator: Client) -> None:
    instance = waiting("AdminAsks", {})
    question = Interaction.objects.get()
    with pytest.raises(workflows.InvalidData):
        workflows.complete(question, {}, actor="bob")
    workflows.complete(question, {"amount": 3}, actor="bob")
    drain()
    asked = LedgerEvent.objects.get(instance=instance, kind="asked")
    redact(connections["default"], instance.pk, asked.seq, actor="dpo", reason="on request")
    ledger = part(operator.get(page_of(instance)).text, "ledger")
    for text in ("question answered through channel callback", "refused", "amount", f"of row {asked.seq}: on request"):
        assert text in ledger
    other = waiting("AdminAsks", {})
    table = part(operator.get(page_of(other)).text, "ledger")
    assert f"question asked {Interaction.objects.get(instance=other).signal_id}" in table


def test_checkpoints_are_told_with_their_values(operator: Client) -> None:
    instance = waiting("AdminSaves", {"n": 1})
    page = operator.get(page_of(instance)).text
    table = part(page, "checkpoints")
    for text in ("copy", "{&quot;n&quot;: 1}", "long", "wait_for", "agree", "open", "see its question"):
        assert text in table
    assert "group board" in part(page, "questions")
    (link,) = re.findall(r'href="([^"]*/value/checkpoint-\d+/)"', page)
    assert len(operator.get(link).text) == 5002
    assert len(page) < 60_000


def test_closed_questions_stay_on_the_page(operator: Client) -> None:
    instance = waiting("AdminAsks", {})
    advance("25h")
    assert "expired" in part(operator.get(page_of(instance)).text, "questions")


def test_the_pages_cost_the_same_for_fifty_waits_as_for_one(
    operator: Client,
    django_assert_num_queries: Any,
) -> None:
    one = waiting("AdminAsks", {})
    waiting("AdminListens", {"order": 0})
    with django_assert_num_queries(8):  # the list's six, questions, events
        operator.get(LIST)
    with django_assert_num_queries(6):  # session, user, channels, workspaces, count, rows
        operator.get(QUESTIONS)
    workflows.start_many("AdminAsks", [{}] * 40)
    workflows.start_many("AdminListens", [{"order": n} for n in range(40)])
    drain()
    with django_assert_num_queries(8):
        assert len(read_rows(operator.get(LIST).text)) == 82
    with django_assert_num_queries(6):
        assert len(read_rows(operator.get(QUESTIONS).text)) == 41
    with CaptureQueriesContext(connection) as seen:
        operator.get(QUESTIONS)
    assert not any("COUNT(" in one["sql"] and "JOIN" in one["sql"] for one in seen)
    # As for any instance, and its questions, what it waits for, and how far that is.
    ContentType.objects.get_for_model(Instance)  # kept by the process
    with django_assert_num_queries(11):
        operator.get(page_of(one))


def test_nothing_of_a_question_runs_as_script(operator: Client) -> None:
    instance = waiting("AdminSaves", {"channel": HOSTILE, HOSTILE: HOSTILE}, key=HOSTILE)
    question = Interaction.objects.get()
    workflows.complete(question, HOSTILE, actor=HOSTILE)
    drain()
    other = waiting("AdminSaves", {"channel": HOSTILE})
    for address in (
        *(LIST, page_of(instance), page_of(other), QUESTIONS),
        *(f"{QUESTIONS}{question.pk}/change/", f"{QUESTIONS}?channel={HOSTILE}", f"{QUESTIONS}?q={HOSTILE}"),
    ):
        page = operator.get(address).text
        assert "<script>alert" not in page
        assert ESCAPED in page
        assert " style=" not in page


def test_neither_tokens_nor_hashes_are_read_or_shown(operator: Client) -> None:
    instance = waiting("AdminAsks", {"url": True})
    question = Interaction.objects.get()
    assert question.token_hash is not None
    workflows.complete(question, {"amount": 1}, idempotency_key="secret-key")
    with CaptureQueriesContext(connection) as seen:
        pages = [operator.get(at).text for at in (page_of(instance), QUESTIONS, f"{QUESTIONS}{question.pk}/change/")]
    for column in ("token_hash", "token_key", "idempotency_key", "idempotency_hash"):
        assert not any(f'."{column}"' in one["sql"] for one in seen)
    assert not any(bytes(question.token_hash).hex() in page or "secret-key" in page for page in pages)


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("status=pending", 1),
        ("status=completed", 1),
        ("status=expired", 0),
        ("channel=callback", 2),
        ("channel=api", 0),
        ("workspace=default", 2),
        ("workspace=acme", 0),
        ("q=pay-", 2),
        ("q=ay-", 0),
        ("q=pay%25", 0),
    ],
)
def test_questions_are_filtered_and_found_by_how_their_signal_id_begins(
    operator: Client,
    query: str,
    found: int,
) -> None:
    workflows.workspace.create("acme")
    one = waiting("AdminAsks", {})
    workflows.complete(Interaction.objects.get(instance=one), {"amount": 1})
    waiting("AdminAsks", {})
    assert len(read_rows(operator.get(f"{QUESTIONS}?{query}").text)) == found


def test_an_impossible_status_leads_back_to_the_list(operator: Client) -> None:
    assert operator.get(f"{QUESTIONS}?status=lost").status_code == 302


def test_the_page_of_a_question_tells_its_values(operator: Client) -> None:
    instance = waiting("AdminAsks", {}, key="order-1")
    question = Interaction.objects.get()
    workflows.complete(question, {"amount": 3, "note": "x" * 30_000}, actor="bob")
    page = operator.get(f"{QUESTIONS}{question.pk}/change/").text
    for text in ("Payment", "&quot;note&quot;: &quot;xxx", "answered", "bob", page_of(instance), "order-1"):
        assert text in page
    whole = operator.get(f"{QUESTIONS}{question.pk}/value/output/")
    assert whole["Content-Type"] == "text/plain; charset=utf-8"
    assert whole["X-Content-Type-Options"] == "nosniff"
    assert len(whole.text) > 30_000


def test_questions_are_read_only_and_only_for_those_who_may(operator: Client) -> None:
    instance = waiting("AdminAsks", {})
    question = Interaction.objects.get()
    page = f"{QUESTIONS}{question.pk}/"
    assert operator.get(f"{QUESTIONS}add/").status_code == 403
    assert operator.post(f"{page}change/", {"channel": "api"}).status_code == 403
    assert operator.post(f"{page}delete/", {"post": "yes"}).status_code == 403
    offered = re.findall(r'<option value="([a-z_]+)"', operator.get(QUESTIONS).text)
    assert offered == ["redrive"]  # which changes no answer
    viewer = staff("view_instance")
    for address in (QUESTIONS, f"{page}change/", f"{page}value/output/"):
        assert viewer.get(address).status_code == 403
    assert page not in viewer.get(page_of(instance)).text
    assert operator.get(f"{page}value/token_hash/").status_code in (302, 404)
    assert operator.get(f"{QUESTIONS}{instance.pk}/value/output/").status_code == 404


def test_a_long_history_of_questions_is_turned_page_by_page(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workflows.admin.instances.instance_history.ROWS", 1)
    instance = waiting("AdminSaves", {})
    page = operator.get(page_of(instance)).text
    assert "?checkpoints_page=2#checkpoints-page" in page
    assert "long" in part(operator.get(page_of(instance), {"checkpoints_page": "2"}).text, "checkpoints")


def test_a_refusal_of_a_stranger_is_not_told(operator: Client) -> None:
    instance = waiting("AdminAsks", {})
    question = Interaction.objects.get()
    with pytest.raises(InteractionRefused):
        workflows.complete(question, {"amount": 1}, version=9)
    assert "refused" not in part(operator.get(page_of(instance)).text, "ledger")


MANY = """
    WITH i AS (
      INSERT INTO holdpoint_instance(id, created_at, due_at, workspace_id, fence, seq, inbox, pending, version,
        status, attempt, runs, spawns, timed_out, solo, workflow, step, started_by, input)
      SELECT gen_random_uuid(), now(), now(), %(ws)s, 0, 1, 0, 0, 1, 1, 0, 0, 0, false, false, 'Many', 'wait', '', '{}'
      FROM generate_series(1, 20000) RETURNING id
    ), n AS (
      INSERT INTO holdpoint_unit(id, instance_id, created_at, closed_at, workspace_id, visit, total, remaining, failed,
        status, cardinality, step)
      SELECT gen_random_uuid(), i.id, now(), now(), %(ws)s, 1, 1, 0, 0, 5, 1, 'wait' FROM i RETURNING *
    )
    INSERT INTO holdpoint_interaction(id, unit_id, instance_id, created_at, closed_at, workspace_id, index, version,
      status, owned, channel, signal_id, actor)
    SELECT gen_random_uuid(), n.id, n.instance_id, now(), now(), n.workspace_id, 0, 1, 5, false, 'api', n.id::text, ''
    FROM n
"""


@pytest.mark.no_fold(reason="it inserts questions by SQL")
def test_beside_many_questions_no_page_reads_the_table(operator: Client) -> None:
    instance = waiting("AdminAsks", {})
    with connection.cursor() as cursor:
        cursor.execute(MANY, {"ws": instance.workspace_id})
        cursor.execute("ANALYZE holdpoint_instance")
        cursor.execute("ANALYZE holdpoint_unit")
        cursor.execute("ANALYZE holdpoint_interaction")
    with CaptureQueriesContext(connection) as seen:
        assert len(read_rows(operator.get(QUESTIONS).text)) == 100
        operator.get(page_of(instance))
    looked = [one["sql"] for one in seen if "holdpoint_interaction" in one["sql"] and "COUNT(" not in one["sql"]]
    assert len(looked) == 4  # channels and rows of the list, questions and wait of the page
    for sql in looked:
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN {sql}")
            plan = "\n".join(row[0] for row in cursor.fetchall())
        assert "Seq Scan on holdpoint_interaction" not in plan, plan
        assert "Seq Scan on holdpoint_unit" not in plan, plan


def test_a_call_that_failed_is_told(operator: Client) -> None:
    @durable(name="AdminFails")
    def fails(ctx: Any) -> Any:
        try:
            ctx.step("charge", lambda: 1 / 0)
        except ZeroDivisionError:
            return ctx.wait_for("agree", "api")

    table = part(operator.get(page_of(waiting("AdminFails", {}))).text, "checkpoints")
    assert "charge" in table
