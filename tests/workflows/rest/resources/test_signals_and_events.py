"""Signals, alone and in bulk, and named events, over HTTP."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

import workflows
from tests.support.api_calls import Api, make_key, problem
from workflows import Await, Done, Workflow, durable, event, step
from workflows.models import Instance, Signal
from workflows.testing import assert_done, drain

pytestmark = pytest.mark.django_db


class RestOrder(Workflow):
    name = "rest-order"

    @step
    def ask(self, ctx):
        return Await("paid", then="end")

    @step
    def end(self, ctx):
        return Done([one.payload for one in ctx.awaited])


class Foreign(Workflow):
    name = "starting.foreign"

    @step
    def ask(self, ctx):
        return Await("paid", then="ask")


@durable(name="starting.foreign-deaf")
def foreign_deaf(ctx):
    ctx.sleep("long", "1d")


class RestOnEvent(Workflow):
    name = "rest-on-event"
    on_event = "rest.opened"

    @step
    def go(self, ctx):
        return Done(ctx.input)


class RestForEvent(Workflow):
    name = "rest-for-event"

    @step
    def ask(self, ctx):
        return Await(event("rest.closed", match={"n": 1}), then="end")

    @step
    def end(self, ctx):
        return Done(ctx.answer)


def park(key: str | None = None, **options: Any) -> Instance:
    started = workflows.start("rest-order", key=key, **options)
    drain()
    return started


BODY = {"name": "paid", "payload": {"amount": 5}, "dedup_key": "evt_1"}


@pytest.mark.parametrize("address", ["instance", "key", "body"])
def test_a_signal_is_delivered_by_id_by_key_and_by_a_key_in_the_body(api, address):
    row = park("order-7")
    path = {"instance": f"/v1/instances/{row.pk}/signals", "key": "/v1/keys/order-7/signals", "body": "/v1/signals"}
    body = BODY | ({"key": "order-7"} if address == "body" else {})
    first = api.post(path[address], body)
    again = api.post(path[address], body)
    assert (first.status_code, again.status_code) == (202, 202)
    assert set(first.json()) == {"id", "duplicate", "woke"}
    assert (first.json()["duplicate"], first.json()["woke"]) == (False, True)
    assert again.json() == {"id": first.json()["id"], "duplicate": True, "woke": False}
    assert Signal.objects.get().source.startswith("key:")
    drain()
    assert_done(row, [{"amount": 5}])


@pytest.mark.parametrize("key", ["a/b", "ä ö", "../x", "%", "a?b#c", "bulk", "x" * 200])
def test_any_key_can_be_addressed_in_either_way(api, key):
    from urllib.parse import quote

    park(key)
    assert api.post(f"/v1/keys/{quote(key, safe='')}/signals", {"name": "one"}).status_code == 202
    assert api.post("/v1/signals", {"key": key, "name": "two"}).status_code == 202


def test_a_signal_without_a_target_is_404_and_stored_nowhere(api):
    ended = park("over")
    workflows.cancel(ended)
    told = {
        api.post("/v1/signals", {"key": "nobody", "name": "paid"}).content,
        api.post("/v1/keys/nobody/signals", {"name": "paid"}).content,
        api.post("/v1/keys/over/signals", {"name": "paid"}).content,
        api.post(f"/v1/instances/{uuid.uuid4()}/signals", {"name": "paid"}).content,
        api.post(f"/v1/instances/{ended.pk}/signals", {"name": "paid"}).content,
        api.post("/v1/instances/x/signals", {"name": "paid"}).content,
    }
    assert len(told) == 1
    assert json.loads(told.pop())["status"] == 404
    assert not Signal.objects.exists()


@pytest.mark.parametrize(
    ("body", "place"),
    [({}, "name"), ({"name": ""}, "name"), ({"name": "n" * 201}, "name"), ({"name": "a", "dedup": "x"}, "dedup")],
)
def test_a_signal_of_another_shape_is_refused_with_the_place(api, body, place):
    park("k")
    assert place in problem(api.post("/v1/keys/k/signals", body), 400, "invalid-request")["errors"]


def test_a_reserved_name_is_refused(api):
    park("k")
    problem(api.post("/v1/keys/k/signals", {"name": "holdpoint:unit:x"}), 400, "invalid-request")


def test_the_same_call_again_is_told_the_same_and_signals_once(api):
    park("k")
    headers = {"Idempotency-Key": "s1"}
    first = api.post("/v1/signals", {"key": "k", "name": "paid"}, headers)
    drain()
    again = api.post("/v1/signals", {"key": "k", "name": "paid"}, headers)
    assert first.content == again.content
    assert Signal.objects.count() == 1
    # Another address is another call.
    problem(api.post("/v1/keys/k/signals", {"name": "paid"}, headers), 404, "not-found")


STARTING = BODY | {"start": {"workflow": "rest-order", "input": {"order": 7}}}


def test_a_signal_by_key_starts_the_instance_first_when_no_live_one_holds_the_key(api):
    first = api.post("/v1/keys/order-7/signals", STARTING)
    row = Instance.objects.get()
    assert (first.status_code, row.key, row.input) == (202, "order-7", {"order": 7})
    assert row.started_by.startswith("key:")
    again = api.post("/v1/keys/order-7/signals", STARTING)
    assert again.json() == {"id": first.json()["id"], "duplicate": True, "woke": False}
    drain()
    assert_done(row, [{"amount": 5}])


def test_starting_by_a_signal_takes_the_scope_start_too(api):
    only = Api(make_key("signal"))
    problem(only.post("/v1/keys/order-7/signals", STARTING), 403, "forbidden")
    assert not Instance.objects.exists()
    assert only.post("/v1/keys/order-7/signals", BODY).status_code == 404
    assert Api(make_key("signal", "start")).post("/v1/keys/order-7/signals", STARTING).status_code == 202


def test_a_key_for_some_workflows_starts_no_other_by_a_signal_and_reaches_no_other(api):
    some = Api(make_key("signal", "start", workflows=["rest-on-event", "rest-order"]))
    other = STARTING | {"start": {"workflow": "rest-for-event"}}
    problem(some.post("/v1/keys/order-7/signals", other), 403, "forbidden")
    held = workflows.start("starting.foreign", key="order-7")
    problem(some.post("/v1/keys/order-7/signals", STARTING), 409, "duplicate-key")
    assert not held.signals.exists()
    workflows.cancel(held)
    deaf = workflows.start("starting.foreign-deaf", key="order-7")
    told = problem(some.post("/v1/keys/order-7/signals", STARTING), 409, "duplicate-key")
    assert "foreign" not in told["detail"]
    problem(api.post("/v1/keys/order-7/signals", STARTING), 409, "no-reader")
    workflows.cancel(deaf)
    assert some.post("/v1/keys/order-7/signals", STARTING).status_code == 202


@pytest.mark.parametrize(
    ("start", "status", "kind"),
    [
        ({"workflow": "nobody"}, 422, "unknown-workflow"),
        ({"workflow": ""}, 400, "invalid-request"),
        ({"input": {}}, 400, "invalid-request"),
        ({"workflow": "rest-order", "key": "k"}, 400, "invalid-request"),
        ("rest-order", 400, "invalid-request"),
    ],
)
def test_what_cannot_be_started_by_a_signal_is_refused(api, start, status, kind):
    problem(api.post("/v1/keys/order-7/signals", BODY | {"start": start}), status, kind)
    assert not Instance.objects.exists()


# Many


def test_each_of_many_is_answered_as_if_it_had_come_alone(api):
    first, second = park("a"), park("b")
    body = [
        {"key": "a", "name": "paid", "payload": 1, "dedup_key": "d"},
        {"instance": str(second.pk), "name": "paid", "payload": 2},
        {"key": "nobody", "name": "paid"},
        {"key": "a", "name": "paid", "payload": 1, "dedup_key": "d"},
        {"name": "paid"},
        {"key": "a", "instance": str(first.pk), "name": "paid"},
        {"key": "a", "name": 5},
        "paid",
        {"instance": "x", "name": "paid"},
        {"key": "a", "name": "holdpoint:x"},
        {"key": "b", "name": "paid", "payload": "x" * 600_000},
    ]
    response = api.post("/v1/signals/bulk", body)
    assert response.status_code == 207
    results = response.json()["results"]
    assert [one["status"] for one in results] == [202, 202, 404, 202, 400, 400, 400, 400, 404, 400, 413]
    assert [one["duplicate"] for one in results if one["status"] == 202] == [False, False, True]
    assert [one["woke"] for one in results if one["status"] == 202] == [True, True, False]
    for one in results:
        if one["status"] >= 400:
            assert one["type"].startswith("urn:holdpoint:problem:")
            assert one["title"]
            assert one["detail"]
    assert "name" in results[6]["errors"]
    drain()
    assert_done(first, [1])
    assert_done(second, [2])


@pytest.mark.parametrize("body", [{}, "x", {"signals": []}, None, 5])
def test_many_come_as_a_list(api, body):
    problem(api.post("/v1/signals/bulk", body), 400, "invalid-request")


def test_none_of_many_is_no_error(api):
    assert api.post("/v1/signals/bulk", []).json() == {"results": []}


def test_many_may_be_larger_than_one(api, settings):
    settings.WORKFLOWS = {**settings.WORKFLOWS, "MAX_BULK_BODY": 1_000_000}
    park("a")
    body = [{"key": "a", "name": "note", "payload": "x" * 400_000}] * 2
    assert [one["status"] for one in api.post("/v1/signals/bulk", body).json()["results"]] == [202, 202]
    assert "1000000" in problem(api.post("/v1/signals/bulk", body * 2), 413, "too-large")["detail"]
    problem(api.post("/v1/signals", {"key": "a", "name": "note", "payload": "x" * 600_000}), 413, "too-large")


def test_the_same_many_again_are_told_the_same(api):
    park("a")
    headers = {"Idempotency-Key": "b1"}
    first = api.post("/v1/signals/bulk", [{"key": "a", "name": "note"}, {"key": "z", "name": "note"}], headers)
    again = api.post("/v1/signals/bulk", [{"key": "a", "name": "note"}, {"key": "z", "name": "note"}], headers)
    assert first.content == again.content
    assert (again.status_code, again.headers["Idempotency-Replayed"]) == (207, "true")
    assert Signal.objects.count() == 1


# Events


def test_an_event_wakes_who_waits_and_starts_what_begins_with_it(api):
    waits = workflows.start("rest-for-event")
    drain()
    told = api.post("/v1/events", {"event": "rest.closed", "data": {"n": 1}, "dedup_key": "e1"})
    assert told.status_code == 202
    assert (told.json()["woke"], told.json()["started"], told.json()["duplicate"]) == (1, 0, False)
    again = api.post("/v1/events", {"event": "rest.closed", "data": {"n": 1}, "dedup_key": "e1"}).json()
    assert (again["woke"], again["duplicate"]) == (0, True)
    told = api.post("/v1/events", {"event": "rest.opened", "data": {"n": 2}}).json()
    assert (told["woke"], told["started"]) == (0, 1)
    drain()
    assert_done(waits, {"n": 1})
    assert Instance.objects.get(workflow="rest-on-event").started_by.startswith("key:")


def test_an_event_that_nobody_waits_for_is_no_error(api):
    assert api.post("/v1/events", {"event": "rest.nobody"}).status_code == 202


def test_the_same_emit_again_is_told_the_same(api):
    headers = {"Idempotency-Key": "e1"}
    first = api.post("/v1/events", {"event": "rest.opened"}, headers)
    again = api.post("/v1/events", {"event": "rest.opened"}, headers)
    assert first.content == again.content
    assert Instance.objects.count() == 1
