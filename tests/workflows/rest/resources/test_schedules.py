"""/v1/schedules: what the calls are told."""

from __future__ import annotations

from typing import Any

import pytest

import workflows
from tests.support.api_calls import Api, make_key, problem
from workflows import Await, Workflow, durable, step
from workflows.definitions import registry
from workflows.models import Instance, Schedule
from workflows.testing import advance

pytestmark = pytest.mark.django_db


class Lasting(Workflow):
    name = "rest_schedules.lasting"

    @step
    def wait(self, ctx):
        return Await("go", then="wait")


@durable(name="rest_schedules.greet")
def greet(ctx, name="Ada"):
    return name


@pytest.fixture
def api() -> Api:
    return Api(make_key())


def make(api: Api, **fields: Any) -> Any:
    return api.post("/v1/schedules", {"name": "nightly", "workflow": "rest_schedules.greet", **fields})


def test_a_schedule_is_made_read_changed_and_removed(api):
    made = make(api, cron="0 9 * * 1-5", tz="Europe/Berlin", input={"name": "Ben"}, catch_up=3)
    assert made.status_code == 201
    assert made.headers["Location"] == "/v1/schedules/nightly"
    told = made.json()
    assert (told["cron"], told["tz"], told["catch_up"], told["enabled"]) == ("0 9 * * 1-5", "Europe/Berlin", 3, True)
    assert len(told["next_ticks"]) == 5
    assert api.get("/v1/schedules/nightly").json() == told
    changed = api.patch("/v1/schedules/nightly", {"enabled": False, "catch_up": "none"}).json()
    assert changed == {**told, "enabled": False, "catch_up": "none"}
    assert api.patch("/v1/schedules/nightly", {}).json() == changed
    assert api.call("DELETE", "/v1/schedules/nightly").status_code == 204
    problem(api.get("/v1/schedules/nightly"), 404, "not-found")
    problem(api.call("DELETE", "/v1/schedules/nightly"), 404, "not-found")


def test_a_name_may_hold_anything_that_an_address_can_carry(api):
    made = make(api, name="orders/7 é", every="1h")
    assert api.get(made.headers["Location"]).json()["name"] == "orders/7 é"


def test_the_list_is_by_name_in_pages(api):
    for name in ("b", "a", "c"):
        workflows.schedule(name, greet, every="1h")
    workflows.disable_schedule("b")
    workflows.schedule("d", Lasting, every="1h")
    first = api.get("/v1/schedules", limit=2).json()
    assert [one["name"] for one in first["results"]] == ["a", "b"]
    assert [one["name"] for one in api.get(first["next"]).json()["results"]] == ["c", "d"]
    assert [one["name"] for one in api.get("/v1/schedules?enabled=false").json()["results"]] == ["b"]
    assert [one["name"] for one in api.get("/v1/schedules?workflow=rest_schedules.lasting").json()["results"]] == ["d"]


def test_what_it_has_started_is_told(api):
    workflows.schedule("nightly", greet, every="1h")
    advance("1h1s")
    told = api.get("/v1/schedules/nightly").json()
    started = api.get(f"/v1/instances/{told['last_instance']}").json()
    assert (started["started_by"], started["tick"]) == ("schedule:nightly", told["last_tick"])


def test_a_schedule_runs_now_unless_the_last_one_lives(api):
    workflows.schedule("nightly", Lasting, every="1h")
    started = api.post("/v1/schedules/nightly/run", {}).json()
    assert started["started_by"].startswith("key:")
    problem(api.post("/v1/schedules/nightly/run", {}), 409, "not-possible")
    assert Instance.objects.count() == 1


def test_the_same_call_again_makes_and_runs_nothing_twice(api):
    once = {"Idempotency-Key": "once"}
    body = {"name": "nightly", "workflow": "rest_schedules.greet", "every": "1h"}
    first = api.post("/v1/schedules", body, once)
    again = api.post("/v1/schedules", body, once)
    assert (again.content, again.headers["Location"]) == (first.content, first.headers["Location"])
    runs = [api.post("/v1/schedules/nightly/run", {}, {"Idempotency-Key": "run"}).json()["id"] for _ in range(2)]
    assert runs[0] == runs[1]


def test_a_name_that_is_taken_is_a_conflict(api):
    make(api, every="1h")
    problem(make(api, every="2h"), 409, "duplicate-schedule")


WRONG = [
    ({"cron": "0 0 30 2 *"}, "invalid-schedule"),
    ({"cron": "0 9 * * *", "tz": "Mars"}, "invalid-schedule"),
    ({}, "invalid-schedule"),
    ({"every": "0.5s"}, "invalid-schedule"),
    ({"every": "1h", "input": {"nobody": 1}}, "invalid-input"),
    ({"every": "1h", "workflow": "nobody"}, "unknown-workflow"),
]


@pytest.mark.parametrize(("fields", "kind"), WRONG, ids=lambda value: str(value)[:30])
def test_what_cannot_be_carried_out_is_422(api, fields, kind):
    problem(make(api, **fields), 422, kind)
    assert not Schedule.objects.exists()


@pytest.mark.parametrize("fields", [{"overlap": "queue"}, {"catch_up": 0}, {"enabled": "no"}, {"evry": "1h"}])
def test_a_body_of_the_wrong_kind_is_400(api, fields):
    problem(make(api, **{"every": "1h", **fields}), 400, "invalid-request")


def test_a_key_for_some_workflows_finds_and_makes_those_only():
    workflows.schedule("other", Lasting, every="1h")
    workflows.schedule("mine", greet, every="1h")
    api = Api(make_key(workflows=["rest_schedules.greet"]))
    assert [one["name"] for one in api.get("/v1/schedules").json()["results"]] == ["mine"]
    problem(api.get("/v1/schedules/other"), 404, "not-found")
    problem(api.post("/v1/schedules/other/run", {}), 404, "not-found")
    problem(api.call("DELETE", "/v1/schedules/other"), 404, "not-found")
    problem(api.patch("/v1/schedules/other", {"enabled": False}), 404, "not-found")
    problem(make(api, workflow="rest_schedules.lasting", every="1h"), 403, "forbidden")
    problem(api.patch("/v1/schedules/mine", {"workflow": "rest_schedules.lasting"}), 403, "forbidden")
    assert make(api, every="1h").status_code == 201


def test_a_key_for_some_workflows_is_told_again_what_it_was_told():
    api, once = Api(make_key(workflows=["rest_schedules.greet"])), {"Idempotency-Key": "once"}
    body = {"name": "mine", "workflow": "rest_schedules.greet", "every": "1h"}
    for method, path, sent, status in (
        ("POST", "/v1/schedules", body, 201),
        ("PATCH", "/v1/schedules/mine", {"every": "2h"}, 200),
        ("POST", "/v1/schedules/mine/run", {}, 200),
    ):
        send = api.post if method == "POST" else api.patch
        first, again = send(path, sent, once), send(path, sent, once)
        assert (first.status_code, again.status_code, again.content) == (status, status, first.content), path
        assert again.headers["Idempotency-Replayed"] == "true"
    assert Instance.objects.count() == 1
    gone = [api.call("DELETE", "/v1/schedules/mine", headers={"Idempotency-Key": "gone"}) for _ in range(2)]
    assert [(one.status_code, one.content) for one in gone] == [(204, b"")] * 2
    assert "Idempotency-Replayed" not in gone[0].headers
    assert gone[1].headers["Idempotency-Replayed"] == "true"
    assert api.post("/v1/schedules", body).status_code == 201
    # The same without a key: of a schedule of its own it is told that there is one.
    problem(api.post("/v1/schedules", body), 409, "duplicate-schedule")
    api.call("DELETE", "/v1/schedules/mine")
    assert api.post("/v1/schedules", body, once).status_code == 201
    assert not Schedule.objects.exists()


def test_what_was_told_of_another_workflow_is_not_told_to_a_key_for_some():
    whole, once = Api(make_key()), {"Idempotency-Key": "once"}
    narrow = Api(make_key(workflows=["rest_schedules.greet"]))
    body = {"name": "other", "workflow": "rest_schedules.lasting", "every": "1h"}
    assert whole.post("/v1/schedules", body, once).status_code == 201
    assert whole.patch("/v1/schedules/other", {"every": "2h"}, once).status_code == 200
    foreign = narrow.patch("/v1/schedules/other", {"every": "2h"}, once)
    unknown = narrow.patch("/v1/schedules/nobody", {"every": "2h"}, once)
    assert foreign.content == unknown.content
    problem(foreign, 404, "not-found")
    problem(narrow.post("/v1/schedules", body, once), 403, "forbidden")
    taken = problem(make(narrow, name="other", every="1h"), 409, "duplicate-schedule")
    assert "you cannot see" in taken["detail"]


def test_a_schedule_whose_workflow_is_gone_tells_a_key_for_some_of_no_other(monkeypatch):
    gone = durable(name="rest_schedules.gone")(lambda ctx: None)
    workflows.schedule("mine", gone, every="1h")
    monkeypatch.setattr(registry, "_latest", {k: v for k, v in registry._latest.items() if k != "rest_schedules.gone"})
    narrow = Api(make_key(workflows=["rest_schedules.gone", "rest_schedules.greet"]))
    for answer in (
        narrow.post("/v1/schedules/mine/run", {}),
        narrow.patch("/v1/schedules/mine", {"every": "2h"}),
        make(narrow, workflow="rest_schedules.gone", every="1h"),
        narrow.post("/v1/instances", {"workflow": "rest_schedules.gone"}),
    ):
        told = problem(answer, 422, "unknown-workflow")
        assert "(registered: rest_schedules.greet)" in told["detail"]
    told = problem(Api(make_key()).post("/v1/schedules/mine/run", {}), 422, "unknown-workflow")
    assert "rest_schedules.lasting" in told["detail"] or told["detail"].endswith("…")


@pytest.mark.parametrize(
    ("member", "value", "reasons"),
    [
        ("catch_up", {}, ["Input should be 'none' or 'last'", "must be a whole number"]),
        ("every", [], ["must be text", "Input should be a valid number", "must be a whole number"]),
        ("every", {"str": 1}, ["must be text", "Input should be a valid number", "must be a whole number"]),
        ("overlap", "now", ["Input should be 'skip', 'allow' or 'cancel'"]),
    ],
)
def test_a_member_that_may_be_of_several_kinds_is_named_and_what_each_of_them_wants(api, member, value, reasons):
    refused = problem(make(api, **{member: value}), 400, "invalid-request")
    assert refused["detail"].startswith(f"{member}: {', or '.join(reasons)}. A body has name, workflow, cron")
    assert refused["errors"] == {member: reasons}


def test_a_member_that_is_left_out_is_named(api):
    refused = problem(api.post("/v1/schedules", {"workflow": "rest_schedules.greet"}), 400, "invalid-request")
    assert refused["errors"] == {"name": ["is required"]}
