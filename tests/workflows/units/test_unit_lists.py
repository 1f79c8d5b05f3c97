"""What reviewers and operators look at: units with their counts, and items by unit, step, assignee and the like."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext

import workflows
from approvals import Approval
from approvals.models import Review
from approvals.testing import decide
from tests.support.api_calls import Api, make_key, problem
from workflows import durable
from workflows.models import AwaitUnit, Instance, Interaction
from workflows.testing import advance, drain

pytestmark = pytest.mark.django_db


@durable(name="lists-each")
def each(ctx, n=3, group=None, **options):
    return len(ctx.wait_for_each("pay", [{"n": i} for i in range(n)], "api", **options))


@durable(name="lists-one")
def one(ctx, assignee=None, group=None):
    return ctx.wait_for("look", "chat", assignee=assignee, group=group, timeout="1d")


def start(workflow: str, key: str | None = None, **input: Any) -> Instance:
    started = workflows.start(workflow, input, key=key)
    drain()
    return started


def unit_of(instance: Instance) -> AwaitUnit:
    return AwaitUnit.objects.get(instance=instance)


def answer(instance: Instance, *indexes: int) -> None:
    for index in indexes:
        workflows.complete(f"pay.{index}-{instance.pk}", index)


def list_all(api: Api, path: str, limit: int = 500, **query: Any) -> list[dict[str, Any]]:
    page = api.get(path, limit=limit, **query).json()
    rows = page["results"]
    while page["next"]:
        page = api.get(page["next"]).json()
        rows += page["results"]
    return rows


def look(api: Api, instance: Instance) -> dict[str, Any]:
    told: dict[str, Any] = api.get(f"/v1/units/{unit_of(instance).pk}").json()
    return told


# Units


def test_a_unit_tells_how_far_its_items_are(api):
    asked = start("lists-each", n=6, concurrency=3, timeout="1h", on_item="partial")
    told = look(api, asked)
    assert told["counts"] == {
        "total": 6,
        "queued": 3,
        "in_flight": 3,
        "completed": 0,
        "failed": 0,
        "expired": 0,
        "cancelled": 0,
        "remaining": 6,
    }
    assert (told["status"], told["step"], told["workflow"]) == ("open", "pay", "lists-each")
    assert (told["items"], told["policy"], told["concurrency"], told["timeout"]) == (True, "partial", 3, 3600)
    assert told["cardinality"] == "ONE_TO_ONE"
    assert told["instance"] == str(asked.pk)
    assert (told["dispatched_at"], told["closed_at"], told["released_at"]) == (None, None, None)
    answer(asked, 0, 2)
    counts = look(api, asked)["counts"]
    assert (counts["queued"], counts["in_flight"], counts["completed"], counts["remaining"]) == (1, 3, 2, 4)
    advance("2h")
    drain()
    told = look(api, asked)
    assert (told["counts"]["completed"], told["counts"]["expired"], told["counts"]["in_flight"]) == (2, 4, 0)
    assert told["status"] == "completed"
    assert None not in (told["dispatched_at"], told["closed_at"], told["released_at"])


def test_items_that_are_not_needed_any_more_are_cancelled(api):
    asked = start("lists-each", n=4, timeout="1h", concurrency=2)
    answer(asked, 0)
    workflows.cancel(asked)
    told = look(api, asked)
    assert told["status"] == "cancelled"
    assert (told["counts"]["completed"], told["counts"]["cancelled"], told["counts"]["queued"]) == (1, 3, 0)


@pytest.mark.parametrize(
    ("end", "status", "count"),
    [("answer", "completed", "completed"), ("wait", "expired", "expired"), ("cancel", "cancelled", "cancelled")],
)
def test_the_unit_of_one_question_counts_one(api, end, status, count):
    asked = start("lists-one")
    assert look(api, asked)["counts"]["in_flight"] == 1
    if end == "answer":
        workflows.complete(asked.interactions.get(), 1)
    elif end == "wait":
        advance("2d")
    else:
        workflows.cancel(asked)
    told = look(api, asked)
    assert told["status"] == status
    assert {name: n for name, n in told["counts"].items() if n} == {"total": 1, count: 1}
    assert (told["items"], told["policy"]) == (False, None)


def test_units_are_listed_by_instance_status_step_and_kind_the_newest_first(api):
    first, second, single = start("lists-each"), start("lists-each"), start("lists-one")
    answer(first, 0, 1, 2)
    drain()
    ids = [str(unit_of(one).pk) for one in (single, second, first)]
    assert [row["id"] for row in list_all(api, "/v1/units")] == ids
    assert [row["id"] for row in list_all(api, "/v1/units", limit=1)] == ids
    assert [row["id"] for row in list_all(api, "/v1/units", instance=str(first.pk))] == ids[2:]
    assert [row["id"] for row in list_all(api, "/v1/units", status="open")] == ids[:2]
    assert [row["id"] for row in list_all(api, "/v1/units", step="pay")] == ids[1:]
    assert [row["id"] for row in list_all(api, "/v1/units", items="true")] == ids[1:]
    assert [row["id"] for row in list_all(api, "/v1/units", items="false")] == ids[:1]
    assert [row["id"] for row in list_all(api, "/v1/units", items="true", status="open")] == ids[1:2]
    assert list_all(api, "/v1/units", instance="x") == list_all(api, "/v1/units", instance=str(uuid.uuid4())) == []
    assert "status" in problem(api.get("/v1/units", status="pending"), 400, "invalid-request")["errors"]
    assert "items" in problem(api.get("/v1/units", items="yes"), 400, "invalid-request")["errors"]


def test_a_list_of_units_costs_the_same_however_many_items_they_have(api):
    counts = []
    api.get("/v1/units")  # the key is looked for once
    for n in (1, 40):
        start("lists-each", n=n)
        with CaptureQueriesContext(connection) as asked:
            api.get("/v1/units")
        counts.append(len(asked))
    assert counts[0] == counts[1]


def test_another_workspaces_units_are_not_there(api):
    unit = unit_of(start("lists-each"))
    theirs = Api(make_key(workspace="acme"))
    assert list_all(theirs, "/v1/units") == []
    problem(theirs.get(f"/v1/units/{unit.pk}"), 404, "not-found")
    assert list_all(theirs, "/v1/interactions", unit=str(unit.pk)) == []


def test_a_key_for_some_workflows_sees_their_units_only():
    mine, other = unit_of(start("lists-each")), unit_of(start("lists-one"))
    limited = Api(make_key(workflows=["lists-each"]))
    assert [row["id"] for row in list_all(limited, "/v1/units")] == [str(mine.pk)]
    problem(limited.get(f"/v1/units/{other.pk}"), 404, "not-found")


# Items


def test_the_items_of_a_unit_are_listed_in_their_order_those_that_wait_for_their_turn_too(api):
    asked = start("lists-each", n=5, concurrency=2, timeout="1h")
    start("lists-each")
    answer(asked, 1)
    unit = str(unit_of(asked).pk)
    rows = list_all(api, "/v1/interactions", unit=unit, limit=2)
    assert [row["index"] for row in rows] == [0, 1, 2, 3, 4]
    assert [row["queued"] for row in rows] == [False, False, False, True, True]
    assert {row["unit"] for row in rows} == {unit}
    assert [row["request"] for row in rows] == [{"n": i} for i in range(5)]
    pending = list_all(api, "/v1/interactions", unit=unit, status="pending")
    assert [row["index"] for row in pending] == [0, 2]
    assert [row["index"] for row in list_all(api, "/v1/interactions", unit=unit, status="completed")] == [1]
    page = api.get("/v1/interactions", unit=unit, limit=2).json()
    page = api.get(page["next"]).json()
    assert [row["index"] for row in api.get(page["previous"]).json()["results"]] == [0, 1]


def test_items_that_wait_for_their_turn_are_in_no_list_but_their_units(api):
    start("lists-each", n=5, concurrency=2)
    assert len(list_all(api, "/v1/interactions", status="pending")) == 2
    assert len(list_all(api, "/v1/interactions")) == 2
    assert len(list_all(api, "/v1/interactions", step="pay")) == 2


def test_questions_are_listed_by_step_assignee_group_workflow_channel_and_correlation_id(api):
    related = start("lists-one", key="order-7", assignee="ann", group="desk")
    start("lists-one", key="order-8", assignee="ben")
    start("lists-each")
    for query in (
        {"correlation_id": "order-7"},
        {"correlation_id": "order-7", "status": "pending"},
        {"assignee": "ann"},
        {"group": "desk", "workflow": "lists-one"},
        {"step": "look", "correlation_id": "order-7", "channel": "chat"},
        {"unit": str(unit_of(related).pk)},
        {"unit": str(unit_of(related).pk), "assignee": "ann"},
    ):
        assert [row["instance"] for row in list_all(api, "/v1/interactions", **query)] == [str(related.pk)], query
    assert len(list_all(api, "/v1/interactions", step="pay")) == 3
    assert list_all(api, "/v1/interactions", unit=str(uuid.uuid4())) == []
    assert list_all(api, "/v1/interactions", unit="x") == []
    assert len(list_all(api, "/v1/interactions", unit=" ")) == 5


@durable(name="lists-approve")
def approve(ctx, amounts):
    ask = lambda amount: Approval(f"Pay {amount}", assignees=["ann"], four_eyes=False)  # noqa: E731
    return len(ctx.wait_for_each("ok", amounts, ask))


def test_what_is_done_to_an_item_is_read_at_the_item(api):
    ann = User.objects.create_user("ann")
    asked = start("lists-approve", amounts=[5, 7])
    first, second = Interaction.objects.filter(instance=asked).order_by("index")
    decide(Review.objects.get(pk=first.pk), "approve", actor=ann, reason="fits")
    rows = list_all(api, f"/v1/interactions/{first.pk}/events")
    assert [(row["seq"], row["kind"], row["actor"]) for row in rows] == [(1, "voted", f"user:{ann.pk}")]
    assert list_all(api, f"/v1/interactions/{second.pk}/events") == []


def test_what_is_done_to_a_single_question_is_read_there_too(api):
    asked = start("lists-one")
    question = asked.interactions.get()
    workflows.complete(question, 1, actor="ann")
    drain()
    rows = list_all(api, f"/v1/interactions/{question.pk}/events", limit=1)
    assert [row["kind"] for row in rows] == ["asked", "answered"]
    problem(Api(make_key(workspace="acme")).get(f"/v1/interactions/{question.pk}/events"), 404, "not-found")


def test_a_place_in_the_list_of_a_unit_is_none_in_that_of_all(api):
    asked = start("lists-each")
    page = api.get("/v1/interactions", unit=str(unit_of(asked).pk), limit=1).json()
    cursor = page["next"].partition("cursor=")[2].partition("&")[0]
    problem(api.get(f"/v1/interactions?cursor={cursor}"), 400, "invalid-request")
