"""`POST /v1/interactions/complete`: many answers in one call, each told as if it had come alone."""

from __future__ import annotations

import json
import uuid
from typing import Any, ClassVar

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

import workflows
from tests.support.api_calls import Api, make_key, problem
from workflows import durable
from workflows.access.api_keys import change_key
from workflows.definitions.channel import Channel
from workflows.models import ApiKey, Instance, Interaction, LedgerEvent, StoredAnswer
from workflows.store.ledger.retention import prune
from workflows.testing import advance, assert_done, drain

pytestmark = pytest.mark.django_db

PATH = "/v1/interactions/complete"
NUMBER = {"type": "object", "properties": {"n": {"type": "number"}}, "required": ["n"]}
ONCE = {"Idempotency-Key": "k"}


class ManyDesk(Channel):
    name = "many-desk"
    owns_answers: ClassVar[bool] = True
    door = "at the desk"


@durable(name="many-gate")
def gate(ctx, signal, timeout="1h", schema=None, channel="api"):
    return ctx.wait_for("gate", channel, schema=schema, timeout=timeout) if signal is None else ask(ctx, signal, schema)


def ask(ctx, signal, schema):
    return ctx.wait_for_signal("gate", signal=signal, timeout="1h", schema=schema)


@durable(name="many-other")
def other(ctx, signal):
    return ask(ctx, signal, None)


@durable(name="many-desk-gate")
def desk_gate(ctx):
    return ctx.wait_for("desk", ManyDesk())


@durable(name="many-list")
def lists(ctx):
    return len(ctx.wait_for("items", "api", cardinality="ONE_TO_MANY", timeout="1h"))


def park(workflow: Any = "many-gate", input: Any = None, **options: Any) -> Interaction:
    started = workflows.start(workflow, input, **options)
    drain()
    return Interaction.objects.get(instance=started)


def send(api: Api, lines: Any, headers: dict[str, str] | None = None) -> list[dict[str, Any]]:
    response = api.post(PATH, lines, headers)
    assert response.status_code == 207, response.content
    told: list[dict[str, Any]] = response.json()["results"]
    return told


def test_each_answer_of_many_is_taken_or_refused_as_if_it_had_come_alone(api):
    first, second = park(input={"signal": "many-1"}), park(input={"signal": "many-2", "schema": NUMBER})
    cancelled, desk = park(input={"signal": "many-3"}), park("many-desk-gate")
    answered = park(input={"signal": "many-4"})
    workflows.complete("many-4", 1)
    workflows.cancel(cancelled.instance)
    lines = [
        {"id": str(first.pk), "data": {"ok": True}},
        {"signal_id": "many-2", "data": {"n": 1}},
        {"signal_id": "many-1", "data": 2},
        {"signal_id": "nobody", "data": 1},
        {"id": str(uuid.uuid4()), "data": 1},
        {"id": "x", "data": 1},
        {"signal_id": "\u0007", "data": 1},
        {"signal_id": "many-3", "data": 1},
        {"id": str(desk.pk), "data": 1},
        {"id": str(answered.pk), "data": 1},
    ]
    results = send(api, lines)
    assert [one["status"] for one in results] == [200, 200, 410, 404, 404, 404, 404, 404, 409, 410]
    assert results[0] == {
        "status": 200,
        "id": str(first.pk),
        "signal_id": "many-1",
        "instance": str(first.instance_id),
        "replayed": False,
    }
    # Of what is not there nothing tells one from another.
    assert len({json.dumps(one) for one in results if one["status"] == 404}) == 1
    assert results[8]["type"].endswith(":answered-elsewhere")
    drain()
    assert_done(first.instance_id, {"ok": True})
    assert_done(second.instance_id, {"n": 1})
    row = LedgerEvent.objects.get(instance=first.instance_id, kind="answered")
    assert (row.data["door"], row.actor[:4]) == ("api", "key:")


def test_a_line_is_judged_in_the_order_of_a_single_completion(api):
    found = park(input={"signal": "many-1", "schema": NUMBER})
    id = str(found.pk)
    lines = [
        {"id": id, "data": {"n": 1}, "version": 7},
        {"id": id},
        {"id": id, "payload": 1},
        {"id": str(uuid.uuid4()), "payload": 1},
        {"id": id, "data": {"n": "one"}},
        {"id": id, "data": {"n": 1}, "payload": 1},
        {"data": {"n": 1}},
        {"id": id, "signal_id": "many-1", "data": {"n": 1}},
        {"id": 7, "data": 1},
        "answer",
        {"id": id, "data": {"n": 1}, "version": 1},
    ]
    results = send(api, lines)
    assert [one["status"] for one in results] == [409, 422, 422, 404, 422, 400, 400, 400, 400, 400, 200]
    assert results[1]["errors"] == results[2]["errors"] == {"data": ["is required"]}
    assert list(results[4]["errors"]) == ["n"]
    assert list(results[5]["errors"]) == ["payload"]
    for one in results[:-1]:
        assert one["type"].startswith("urn:holdpoint:problem:")
        assert one["title"]
        assert one["detail"]


def test_null_is_data_in_a_line_too(api):
    found = park(input={"signal": "many-1"})
    assert [one["status"] for one in send(api, [{"id": str(found.pk), "data": None}])] == [200]
    drain()
    assert_done(found.instance_id, None)


def test_an_answer_of_many_may_be_as_large_as_one_alone_and_a_list_larger(api):
    found, many = park(input={"signal": "many-1"}), park("many-list")
    large = ["x" * 1000] * 600
    lines = [{"id": str(found.pk), "data": large}, {"id": str(many.pk), "data": large}]
    results = send(api, lines)
    assert [one["status"] for one in results] == [413, 200]
    assert "524288" in results[0]["detail"]


def test_an_answer_that_comes_too_late_fires_its_deadline_and_the_others_are_taken(api):
    late = park(input={"signal": None, "timeout": "1h"})
    found = park(input={"signal": "many-1"})
    with connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_interaction SET deadline = holdpoint_now() WHERE id = %s", [late.pk])
        cursor.execute("UPDATE holdpoint_instance SET due_at = holdpoint_now() WHERE id = %s", [late.instance_id])
    results = send(api, [{"id": str(late.pk), "data": 1}, {"id": str(found.pk), "data": 1}])
    assert [one["status"] for one in results] == [410, 200]
    late.refresh_from_db()
    assert late.status == "expired"


@pytest.mark.parametrize("body", [{}, "x", {"answers": []}, None, 5])
def test_many_answers_come_as_a_list(api, body):
    told = problem(api.post(PATH, body), 400, "invalid-request")
    assert told["errors"] == {"$": ["must be a list"]}


def test_no_answer_is_no_error(api):
    assert send(api, []) == []


def test_more_answers_than_one_call_takes_are_refused_in_digits(api):
    assert "10000" in problem(api.post(PATH, [{}] * 10_001), 413, "too-large")["detail"]


def test_the_same_many_again_are_told_the_same_and_nothing_happens_twice(api):
    found = park(input={"signal": "many-1"})
    lines = [{"id": str(found.pk), "data": 1}, {"signal_id": "nobody", "data": 1}]
    first = api.post(PATH, lines, ONCE)
    drain()
    again = api.post(PATH, lines, ONCE)
    assert first.content == again.content
    assert (again.status_code, again.headers["Idempotency-Replayed"]) == (207, "true")
    problem(api.post(PATH, lines[:1], ONCE), 409, "idempotency-conflict")
    assert LedgerEvent.objects.filter(instance=found.instance_id, kind="answered").count() == 1


def test_a_line_has_an_idempotency_key_of_its_own(api):
    found = park(input={"signal": "many-1"})
    line = {"id": str(found.pk), "data": 1, "idempotency_key": "line-1"}
    [first] = send(api, [line])
    drain()
    again, other_data, without = send(api, [line, line | {"data": 2}, {"id": str(found.pk), "data": 1}])
    assert again == first | {"replayed": True}
    assert (other_data["status"], other_data["type"][-20:]) == (409, "idempotency-conflict")
    assert without["status"] == 410


def test_a_key_for_some_workflows_answers_only_theirs():
    mine, theirs = park(input={"signal": "many-1"}), park("many-other", {"signal": "many-2"})
    limited = Api(make_key(workflows=["many-gate"]))
    results = send(limited, [{"id": str(one.pk), "data": 1} for one in (mine, theirs)])
    assert [one["status"] for one in results] == [200, 404]
    assert send(limited, [{"signal_id": "many-2", "data": 1}])[0]["status"] == 404
    theirs.refresh_from_db()
    assert theirs.status == "pending"


def test_a_key_that_was_narrowed_hears_again_only_of_what_is_its_own():
    api, row = Api(make_key()), ApiKey.objects.get()
    mine, theirs = park(input={"signal": "many-1"}), park("many-other", {"signal": "many-2"})
    lines = [{"id": str(one.pk), "data": 1} for one in (mine, theirs)]
    first = send(api, lines, ONCE)
    change_key(row, workflows=["many-gate"])
    again = send(api, lines, ONCE)
    assert again[0] == first[0]
    assert again[1]["status"] == 404


def test_what_many_were_told_lives_as_long_as_any_of_their_instances(api):
    """Retention removes one instance after the other; the stored answer is tied to one that is still there."""
    first, second = park(input={"signal": "many-1"}), park(input={"signal": "many-2"})
    lines = [{"id": str(one.pk), "data": 1} for one in (first, second)]
    told = send(api, lines, ONCE)
    assert StoredAnswer.objects.get().instance_id == first.instance_id
    drain()
    advance("1d")
    with connection.cursor() as cursor:
        younger = "UPDATE holdpoint_instance SET finished_at = finished_at + interval '1 day' WHERE id = %s"
        cursor.execute(younger, [second.instance_id])
    assert sum(one.instances for one in prune(connection, older_than=3600)) == 1
    assert StoredAnswer.objects.get().instance_id == second.instance_id
    assert send(api, lines, ONCE) == told


def test_another_workspaces_questions_are_not_there():
    found = park(input={"signal": "many-1"})
    theirs = Api(make_key(workspace="acme"))
    results = send(theirs, [{"id": str(found.pk), "data": 1}, {"signal_id": "many-1", "data": 1}])
    assert [one["status"] for one in results] == [404, 404]


def test_the_policy_is_asked_about_each_of_many(api, settings):
    settings.WORKFLOWS = {**settings.WORKFLOWS, "POLICY": "tests.workflows.rest.resources.test_complete_many.let_pass"}
    first, second = park(input={"signal": "many-pass"}), park(input={"signal": "many-stop"})
    results = send(api, [{"id": str(one.pk), "data": 1} for one in (first, second)])
    assert [one["status"] for one in results] == [200, 403]
    assert LedgerEvent.objects.filter(instance=second.instance_id, kind="refused").count() == 1


def let_pass(operation: str, interaction: Any, actor: str) -> bool:
    return operation != "resume" or interaction.signal_id != "many-stop"


@durable(name="many-each")
def each(ctx, n, **options):
    return ctx.wait_for_each("pay", list(range(n)), "api", **options)


def test_a_thousand_items_in_one_call_cost_a_few_statements(api):
    asked = workflows.start("many-each", {"n": 500, "concurrency": 500})
    drain()
    ids = list(Interaction.objects.filter(instance=asked).order_by("index").values_list("pk", flat=True))
    assert send(api, [{"id": str(ids[0]), "data": 0}])[0]["status"] == 200
    counts = []
    for part in (ids[1:3], ids[3:499]):
        with CaptureQueriesContext(connection) as found:
            told = send(api, [{"id": str(id), "data": n} for n, id in enumerate(part)])
        assert {line["status"] for line in told} == {200}
        counts.append(len(found))
    assert counts[0] == counts[1] < 10
    send(api, [{"id": str(ids[499]), "data": 499}])
    drain()
    assert Instance.objects.get(pk=asked.pk).status == "done"


def test_items_and_single_questions_are_answered_in_one_call_each_once(api):
    asked = workflows.start("many-each", {"n": 3})
    drain()
    single = park(input={"signal": "many-1"})
    lines = [
        {"signal_id": f"pay.2-{asked.pk}", "data": "c"},
        {"id": str(single.pk), "data": 1},
        {"signal_id": f"pay.0-{asked.pk}", "data": "a"},
        {"signal_id": f"pay.2-{asked.pk}", "data": "again"},
        {"signal_id": f"pay.1-{asked.pk}", "data": "b", "idempotency_key": "once"},
    ]
    told = send(api, lines, ONCE)
    assert [line["status"] for line in told] == [200, 200, 200, 410, 200]
    assert send(api, lines, ONCE) == told
    assert send(api, lines[4:])[0] == told[4] | {"replayed": True}
    drain()
    assert_done(asked, ["a", "b", "c"])
    assert_done(single.instance_id, 1)
