"""/v1/workflows, /v1/queues, /v1/limits, and the queue and priority of instances."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

import pytest
from django.core.cache import cache

import workflows
from tests.support.api_calls import Api, make_key, problem
from workflows import Concurrency, Done, Rate, Workflow, durable, step
from workflows.models import Instance, Limit, PausedWorkflow, Queue

pytestmark = pytest.mark.django_db


class RestMail(Workflow):
    name = "rest-mail"
    queue = "rest-mail"
    priority = 5
    concurrency = Concurrency("rest/{tenant}", 5, hold="instance")
    rate = Rate("rest-smtp", 100, per="1m", burst=200, weight=2)
    fair_by = "{tenant}"

    @step
    def send(self, ctx: Any) -> Done:
        return Done()


@durable(name="rest flow/plain")
def plain(ctx: Any) -> None:
    pass


MAIL = {"workflow": "rest-mail", "input": {"tenant": 7}}


@pytest.fixture(autouse=True)
def counted_anew() -> Iterator[None]:
    cache.clear()
    yield
    cache.clear()


def find(api: Api, path: str, **wanted: Any) -> dict[str, Any]:
    """The one row of a list that has these members."""
    rows = api.get(path, limit=500).json()["results"]
    [row] = [one for one in rows if wanted.items() <= one.items()]
    return dict(row)


# --- workflows ------------------------------------------------------------------------------------------


def test_workflows_are_listed_with_what_their_code_says(api):
    assert find(api, "/v1/workflows", name="rest-mail") == {
        "name": "rest-mail",
        "version": 1,
        "style": "steps",
        "queue": "rest-mail",
        "priority": 5,
        "concurrency": {"key": "rest/{tenant}", "limit": 5, "hold": "instance"},
        "rate": {"name": "rest-smtp", "count": 100, "per": 60.0, "burst": 200, "key": None, "weight": 2},
        "fair_by": "{tenant}",
        "paused": False,
    }
    other = find(api, "/v1/workflows", name="rest flow/plain")
    assert (other["style"], other["queue"], other["priority"], other["rate"]) == ("function", "default", 0, None)


def test_a_workflow_is_paused_and_goes_on(api):
    path = f"/v1/workflows/{quote('rest flow/plain', safe='')}"
    for _ in range(2):  # which is no error the second time
        assert api.post(f"{path}/pause", {}).json() == {"name": "rest flow/plain", "paused": True}
    assert find(api, "/v1/workflows", name="rest flow/plain")["paused"]
    assert PausedWorkflow.objects.get().changed_by.startswith("key:")
    for _ in range(2):
        assert api.post(f"{path}/unpause", raw=b"").json() == {"name": "rest flow/plain", "paused": False}
    assert not PausedWorkflow.objects.exists()


def test_a_workflow_that_is_not_deployed_any_more_can_be_unpaused(api, monkeypatch):
    workflows.pause("rest-mail")
    from workflows.definitions import registry

    monkeypatch.setattr(registry, "_latest", {})
    problem(api.post("/v1/workflows/rest%20flow%2Fplain/pause", {}), 404, "not-found")
    assert api.post("/v1/workflows/rest-mail/unpause", {}).status_code == 200
    assert not PausedWorkflow.objects.exists()


def test_a_key_for_some_workflows_sees_and_pauses_only_those():
    """Also when it repeats a call; and what a queue holds is nothing for it."""
    mine = Api(make_key(workflows=["rest-mail"]))
    assert [one["name"] for one in mine.get("/v1/workflows").json()["results"]] == ["rest-mail"]
    once = {"Idempotency-Key": "pause-1"}
    told = [mine.post("/v1/workflows/rest-mail/pause", {}, once) for _ in range(2)]
    assert [(one.status_code, one.headers.get("Idempotency-Replayed")) for one in told] == [(200, None), (200, "true")]
    problem(mine.post("/v1/workflows/rest%20flow%2Fplain/pause", {}), 404, "not-found")
    problem(mine.post("/v1/workflows/rest-mail:items/pause", {}), 404, "not-found")
    for path in ("/v1/queues", "/v1/queues/rest-mail", "/v1/limits"):
        assert "for all workflows" in problem(mine.get(path), 403, "forbidden")["detail"]
    problem(mine.patch("/v1/queues/rest-mail", {"paused": True}), 403, "forbidden")
    problem(mine.patch("/v1/limits/rate/rest-smtp", {"rate": "1/d"}), 403, "forbidden")
    assert not Queue.objects.exists()


def test_what_is_set_is_logged_in_one_line_whatever_its_key_holds(api, caplog):
    caplog.set_level("INFO", "workflows")
    key = "rest/7\r2026-11-19 ERROR \x1b[2J"
    assert api.patch(f"/v1/limits/concurrency/{quote(key, safe='')}", {"limit": 4}).json()["name"] == key
    workflows.api.flow_control.change_limit("concurrency", key, None)
    assert api.patch("/v1/queues/rest-mail", {"limit": 3}).status_code == 200
    told = [one.getMessage() for one in caplog.records if one.name == "workflows"]
    where = r"concurrency limit rest/7\r2026-11-19 ERROR \x1b[2J of workspace"
    assert [one.startswith(where) for one in told] == [True, True, False]
    assert all(one.isprintable() for one in told)
    assert re.fullmatch(r"queue rest-mail of workspace \d+: limit 3, by key:\d+", told[2])


# --- queues ---------------------------------------------------------------------------------------------


def test_queues_are_listed_with_what_runs_and_waits(api):
    workflows.start_many("rest-mail", [{"tenant": 7}] * 3)
    workflows.start("rest flow/plain")
    assert find(api, "/v1/queues", name="rest-mail") == {
        "name": "rest-mail",
        "limit": None,
        "paused": False,
        "rate": None,
        "default_limit": None,
        "default_rate": None,
        "running": 0,
        "waiting": 3,
    }
    assert api.get("/v1/queues/default").json()["waiting"] == 1
    problem(api.get("/v1/queues/rest-none"), 404, "not-found")


def test_a_queue_is_changed_in_the_members_that_are_sent_and_in_no_other(api, settings):
    settings.WORKFLOWS = {**settings.WORKFLOWS, "QUEUES": {"rest-mail": {"limit": 3, "rate": "50/s"}}}
    code = {"count": 50, "per": 1.0, "burst": 50}
    told = api.patch("/v1/queues/rest-mail", {"limit": 10}).json()
    assert (told["limit"], told["default_limit"], told["rate"], told["paused"]) == (10, 3, code, False)
    told = api.patch("/v1/queues/rest-mail", {"paused": True, "rate": "100/m"}).json()
    assert (told["limit"], told["rate"]["count"], told["rate"]["per"], told["paused"]) == (10, 100, 60.0, True)
    told = api.patch("/v1/queues/rest-mail", {"limit": None, "rate": None}).json()
    assert (told["limit"], told["rate"], told["paused"]) == (3, code, True)
    told = api.patch("/v1/queues/rest-mail", {"rate": {"count": 5, "per": "2s", "burst": 9}, "paused": False}).json()
    assert (told["rate"], told["paused"]) == ({"count": 5, "per": 2.0, "burst": 9}, False)
    assert api.get("/v1/queues/rest-mail").json() == told
    assert Queue.objects.get().changed_by.startswith("key:")


def test_a_patch_without_members_changes_nothing(api):
    assert api.patch("/v1/queues/rest-mail", {}).status_code == 200
    assert not Queue.objects.exists()


def test_a_patch_that_is_sent_again_is_told_the_same(api):
    once = {"Idempotency-Key": "q-1"}
    first = api.patch("/v1/queues/rest-mail", {"limit": 10}, once)
    api.patch("/v1/queues/rest-mail", {"limit": 20})
    again = api.patch("/v1/queues/rest-mail", {"limit": 10}, once)
    assert (again.content, again.headers["Idempotency-Replayed"]) == (first.content, "true")
    assert Queue.objects.get().limit == 20
    problem(api.patch("/v1/queues/rest-mail", {"limit": 11}, once), 409, "idempotency-conflict")


@pytest.mark.parametrize(
    ("body", "place", "word"),
    [
        ({"limit": 0}, "limit", "greater than or equal to 1"),
        ({"limit": 32_001}, "limit", "32000"),
        ({"limit": "5"}, "limit", "whole number"),
        ({"paused": None}, "paused", "bool"),
        ({"rate": "100"}, "rate", "100/m"),
        ({"rate": {"count": 5}}, "rate", "100/m"),
        ({"rate": {"count": 0, "per": 1}}, "rate", "whole number from 1"),
        ({"rate": "5/0s"}, "rate", "longer than zero"),
        ({"pause": True}, "pause", "not known"),
    ],
)
def test_what_a_queue_cannot_be_is_refused_with_the_place(api, body, place, word):
    told = problem(api.patch("/v1/queues/rest-mail", body), 400, "invalid-request")
    assert word in told["errors"][place][0]
    assert not Queue.objects.exists()


# --- limits ---------------------------------------------------------------------------------------------


def test_a_limit_is_set_for_one_key_or_for_all_and_given_back(api):
    template = find(api, "/v1/limits", kind="concurrency", name="rest/{tenant}")
    assert (template["limit"], template["default_limit"], template["overridden"]) == (5, 5, False)
    for name, limit in (("rest/{tenant}", 9), ("rest/acme:7", 20)):
        told = api.patch(f"/v1/limits/concurrency/{quote(name, safe='')}", {"limit": limit}).json()
        assert (told["name"], told["limit"], told["default_limit"], told["overridden"]) == (name, limit, 5, True)
        assert find(api, "/v1/limits", kind="concurrency", name=name) == told
    told = api.patch("/v1/limits/concurrency/rest%2Facme:7", {"limit": None}).json()
    assert (told["limit"], told["overridden"]) == (9, False)
    assert Limit.objects.get().name == "rest/{tenant}"


def test_a_rate_is_set_and_given_back_and_lets_every_weight_through(api):
    path = "/v1/limits/rate/rest-smtp"
    assert api.patch(path, {"rate": "5/30s"}).json()["rate"] == {"count": 5, "per": 30.0, "burst": 5}
    assert "takes 2 of rate" in problem(api.patch(path, {"rate": "1/s"}), 400, "invalid-request")["detail"]
    told = api.patch(path, {"rate": None}).json()
    assert (told["rate"]["count"], told["overridden"]) == (100, False)
    problem(api.patch(path, {}), 400, "invalid-request")


@pytest.mark.parametrize("name", ["nobody", "rest%2F", "rest%2F%00", "rest%2F" + "x" * 200, "%ED%A0%80"])
def test_a_limit_that_nobody_declares_is_not_there(api, name):
    problem(api.patch(f"/v1/limits/concurrency/{name}", {"limit": 5}), 404, "not-found")
    problem(api.patch(f"/v1/limits/rate/{name}", {"rate": "5/s"}), 404, "not-found")
    assert not Limit.objects.exists()


def test_lists_of_what_the_code_knows_are_paged_both_ways(api):
    for path, name in (("/v1/workflows", "name"), ("/v1/queues", "name"), ("/v1/limits", "name")):
        whole = api.get(path, limit=500).json()
        assert whole["previous"] is None
        assert whole["next"] is None or len(whole["results"]) == 500  # all modules of tests are imported in one process
        first = api.get(path, limit=1).json()
        second = api.get(first["next"]).json()
        assert [first["results"][0], second["results"][0]] == whole["results"][:2], name
        assert api.get(second["previous"]).json()["results"] == first["results"]
        for wrong in ("x", "W10", "WzFd"):
            problem(api.get(path, cursor=wrong), 400, "invalid-request")


# --- instances ------------------------------------------------------------------------------------------


def test_an_instance_shows_its_queue_and_priority_and_its_key_to_those_who_operate(api):
    started = api.post("/v1/instances", {**MAIL, "priority": -5}).json()
    assert (started["queue"], started["priority"], started["flow_key"]) == ("rest-mail", -5, "rest/7")
    reader = Api(make_key("read"))
    for told in (reader.get(f"/v1/instances/{started['id']}"), reader.get("/v1/instances")):
        row = told.json().get("results", [told.json()])[0]
        assert (row["queue"], row["priority"], row["flow_key"]) == ("rest-mail", -5, None)
    row = api.get(f"/v1/instances/{api.post('/v1/instances', {'workflow': 'rest flow/plain'}).json()['id']}").json()
    assert (row["queue"], row["priority"], row["flow_key"]) == ("default", 0, None)


def test_a_start_names_its_queue(api):
    api.post("/v1/instances", {"workflow": "rest flow/plain", "queue": "rest-mail", "priority": 100})
    row = Instance.objects.get()
    assert (row.queue, row.priority) == ("rest-mail", 100)
    told = problem(api.post("/v1/instances", {**MAIL, "queue": "rest-none"}), 422, "unknown-queue")
    assert "rest-mail" in told["detail"]
    for wrong in ({"priority": 101}, {"priority": "high"}, {"queue": ""}):
        problem(api.post("/v1/instances", {**MAIL, **wrong}), 400, "invalid-request")
    assert Instance.objects.count() == 1


def test_the_list_of_instances_is_narrowed_to_a_queue(api):
    mail, other = workflows.start("rest-mail", {"tenant": 7}), workflows.start("rest flow/plain")
    ranked = workflows.start("rest flow/plain", priority=5)
    for queue, wanted in (("rest-mail", {mail.pk}), ("default", {other.pk, ranked.pk}), ("rest-none", set())):
        rows = api.get("/v1/instances", queue=queue).json()["results"]
        assert {row["id"] for row in rows} == {str(pk) for pk in wanted}


def test_a_key_for_some_workflows_names_their_queues_and_is_told_of_no_other(settings):
    settings.WORKFLOWS = {**settings.WORKFLOWS, "QUEUES": {"rest-mail": {"limit": 3}, "rest-spare": {}}}
    narrow = Api(make_key(workflows=["rest flow/plain"]))
    body = {"workflow": "rest flow/plain", "input": {}}
    foreign = problem(narrow.post("/v1/instances", {**body, "queue": "rest-mail"}), 422, "unknown-queue")
    unknown = problem(narrow.post("/v1/instances", {**body, "queue": "rest-nope"}), 422, "unknown-queue")
    assert foreign == {**unknown, "detail": unknown["detail"].replace("rest-nope", "rest-mail")}
    assert "(there are: default, rest-spare)" in foreign["detail"]
    for queue in ("default", "rest-spare"):
        assert narrow.post("/v1/instances", {**body, "queue": queue}).json()["queue"] == queue
    both = Api(make_key(workflows=["rest flow/plain", "rest-mail"]))
    assert both.post("/v1/instances", {**body, "queue": "rest-mail"}).status_code == 201
