"""What the numbers say of items and of answers that were dropped, at every door."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import connections
from django.test import Client

import workflows
from tests.support.api_calls import Api, make_key
from tests.support.horizon import wait_for_foreigners
from tests.support.races import COMMITTED
from workflows import durable
from workflows.api import refused
from workflows.api.refused import flush_dropped
from workflows.models import Instance, Interaction, Workspace
from workflows.operations import metrics
from workflows.store.ledger.tallies import read_tallies, tally_ledger
from workflows.testing import drain

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]

NUMBER = {"type": "integer"}


@durable(name="counting-each")
def each(ctx, n=3, **options):
    return len(ctx.wait_for_each("pay", list(range(n)), "api", schema=NUMBER, **options))


@durable(name="counting-one")
def one(ctx, signal):
    return ctx.wait_for_signal("gate", signal=signal, schema=NUMBER, timeout="1h")


@durable(name="counting-call")
def call(ctx):
    reply = ctx.callback("reply", timeout="1h", schema=NUMBER)
    TOKENS[str(ctx.id)] = reply.resume_token
    return reply.wait()


TOKENS: dict[str, str] = {}


@pytest.fixture(autouse=True)
def fresh(committed: None) -> None:
    refused.forget_dropped()
    execute("DELETE FROM holdpoint_tally")


def execute(sql: str, params: Any = None) -> None:
    with connections["default"].cursor() as cursor:
        cursor.execute(sql, params)


def start(name: str, **input: Any) -> Instance:
    started = workflows.start(name, input)
    drain()
    return started


def sums() -> dict[str, float]:
    flush_dropped()
    wait_for_foreigners()
    tally_ledger(connections["default"])
    found = read_tallies(connections["default"], None)
    return {f"{name} {label}".strip(): value for (name, label), value in found.items()}


def drops() -> dict[str, float]:
    """By reason, whoever counted them."""
    found: dict[str, float] = {}
    for name, value in sums().items():
        source, _, reason = name.partition(" ")
        if source in ("refused", "dropped"):
            found[reason] = found.get(reason, 0) + value
    return found


def make_due(instance: Instance) -> None:
    execute("UPDATE holdpoint_interaction SET deadline = now() - interval '1 s' WHERE instance_id = %s", [instance.pk])
    execute(
        "UPDATE holdpoint_instance SET due_at = now() - interval '1 s' WHERE id = %s AND due_at IS NOT NULL",
        [instance.pk],
    )


@pytest.mark.no_fold(reason="it moves deadlines by SQL")
def test_items_are_counted_by_how_they_end_and_the_release_is_no_completion():
    asked = start("counting-each", n=4, on_item="partial", timeout="1h")
    for index in (0, 1):
        workflows.complete(f"pay.{index}-{asked.pk}", index)
    make_due(asked)
    drain()
    drain()
    asked.refresh_from_db()
    assert asked.status == "done"
    found = sums()
    assert (found["items completed"], found["items expired"], found.get("items failed", 0)) == (2, 2, 0)
    assert (found["completions"], found["timeouts"]) == (2, 2)
    assert found["resumptions"] == 1


def test_units_of_items_that_are_open_are_shown_by_their_counters():
    def read() -> tuple[int, int, int]:
        units = metrics.read_metrics(connections["default"], None).units
        return units.open, units.in_flight, units.queued

    assert read() == (0, 0, 0)
    first, _ = start("counting-each", n=5, concurrency=2), start("counting-each", n=3)
    start("counting-one", signal="gate")
    assert read() == (2, 5, 3)
    workflows.complete(f"pay.0-{first.pk}", 1)
    assert read() == (2, 5, 2)
    workflows.cancel(first)
    assert read() == (1, 3, 0)


def post(path: str, body: Any, key: str | None = None) -> int:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return int(Client(headers=headers).post(path, raw, content_type="application/json").status_code)


#: A body, the status that it is answered with, and why it was dropped.
BAD: list[tuple[Any, int, str]] = [
    (b"{", 400, "malformed"),
    ({"data": 1, "more": 2}, 400, "malformed"),
    ({"data": "x" * 600_000}, 413, "malformed"),
    ({"data": "no number"}, 422, "invalid_data"),
    ({}, 422, "invalid_data"),
    ({"data": 1, "version": 99}, 409, "stale_version"),
]


@pytest.mark.parametrize("item", [False, True])
def test_an_answer_that_is_dropped_at_an_address_is_counted_once_with_its_reason(item):
    key = make_key()
    asked = start("counting-each") if item else start("counting-one", signal="gate")
    question = Interaction.objects.filter(instance=asked).order_by("index")[0]
    wanted: dict[str, float] = {}
    for path in (f"/v1/interactions/{question.pk}/complete", f"/v1/signals/{question.signal_id}/complete"):
        for body, status, reason in BAD:
            assert post(path, body, key) == status, (path, body)
            wanted[reason] = wanted.get(reason, 0) + 1
    for path in ("/v1/interactions/x/complete", "/v1/signals/nobody/complete", "/v1/signals/%07/complete"):
        assert post(path, {"data": 1}, key) == 404
    assert post(f"/v1/interactions/{question.pk}/complete", {"data": 1}, make_key(workspace="acme")) == 404
    assert post(f"/v1/interactions/{question.pk}/complete", {"data": 1}, key) == 200
    assert post(f"/v1/interactions/{question.pk}/complete", {"data": 1}, key) == 410
    assert drops() == wanted | {"unknown": 4, "resolved": 1}


@pytest.mark.no_fold(reason="it moves deadlines by SQL")
@pytest.mark.parametrize("item", [False, True])
@pytest.mark.parametrize("door", ["address", "many", "python", "nobody"])
def test_an_answer_that_comes_too_late_is_counted_once(item, door):
    key = make_key()
    asked = start("counting-each", timeout="1h", on_item="partial") if item else start("counting-one", signal="gate")
    make_due(asked)
    question = Interaction.objects.filter(instance=asked).order_by("index")[0]
    if door == "address":
        assert post(f"/v1/interactions/{question.pk}/complete", {"data": 1}, key) == 410
    elif door == "many":
        [told] = Api(key).post("/v1/interactions/complete", [{"id": str(question.pk), "data": 1}]).json()["results"]
        assert told["status"] == 410
    else:
        with pytest.raises(workflows.InteractionResolved):
            workflows.complete(question, 1, actor="ann" if door == "python" else "")
    assert drops() == {"expired": 1}


def test_each_line_of_many_is_counted_with_its_own_reason():
    key = make_key()
    asked = start("counting-each", n=2)
    good, bad = (str(row.pk) for row in Interaction.objects.filter(instance=asked).order_by("index"))
    lines = [
        {"id": good, "data": 1},
        {"id": good, "data": 1},
        {"id": bad, "data": "x"},
        {"id": bad},
        {"id": bad, "data": 1, "version": 7},
        {"id": bad, "data": 1, "more": 1},
        {"data": 1},
        {"id": "x", "data": 1},
        {"signal_id": "nobody", "data": 1},
        5,
    ]
    told = Api(key).post("/v1/interactions/complete", lines).json()["results"]
    assert [line["status"] for line in told] == [200, 410, 422, 422, 409, 400, 400, 404, 404, 400]
    assert post("/v1/interactions/complete", b"[", key) == 400
    assert post("/v1/interactions/complete", {}, key) == 400
    assert drops() == {"resolved": 1, "invalid_data": 2, "stale_version": 1, "malformed": 5, "unknown": 2}


def test_a_partner_whose_body_cannot_be_read_is_counted_too():
    asked = start("counting-call")
    path = f"/resume/{TOKENS[str(asked.pk)]}"
    assert post(path, b"{") == 400
    assert post(path, {"data": "x" * 600_000}) == 413
    assert post("/resume/x", {"data": 1}) == 404
    assert post(path, {"data": "no number"}) == 422
    assert post(path, {"data": 1}) == 200
    assert post(path, {"data": 1}) == 410
    assert drops() == {"malformed": 2, "invalid_token": 1, "invalid_data": 1, "resolved": 1}
    assert Workspace.objects.filter(slug="default").exists()
