"""/v1/instances: start, list, look, wait, cancel, retry."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

import workflows
from tests.support.api_calls import Api, make_key, problem
from workflows import Await, Done, Next, Stop, Workflow, step
from workflows.models import Instance, LedgerEvent, StoredAnswer
from workflows.testing import advance, assert_done, drain

pytestmark = pytest.mark.django_db


class RestShip(Workflow):
    name = "rest-ship"

    @step
    def ask(self, ctx):
        return Await("paid", then="ship", state={"asked": True})

    @step
    def ship(self, ctx):
        return Done({"paid": ctx.awaited[0].payload})


class RestFail(Workflow):
    name = "rest-fail"

    @step
    def fail(self, ctx):
        return Stop("out of stock")


FIELDS = {
    "id", "workspace", "workflow", "version", "key", "status", "step", "state", "input", "result", "error", "traceback",
    "attempt",
    "queue", "priority", "flow_key", "tick", "progress", "parent", "forked_from", "started_by", "created_at",
    "finished_at",
}  # fmt: skip


def start(api: Api, **body: Any) -> dict[str, Any]:
    response = api.post("/v1/instances", {"workflow": "rest-ship", **body})
    assert response.status_code == 201, response.content
    return response.json()


def test_an_instance_is_started_and_told_whole(api):
    response = api.post("/v1/instances", {"workflow": "rest-ship", "input": {"order": 7}, "key": "order-7"})
    assert response.status_code == 201
    told = response.json()
    assert set(told) == FIELDS
    assert response.headers["Location"] == f"/v1/instances/{told['id']}"
    row = Instance.objects.get()
    assert (str(row.pk), row.key, row.input, row.started_by) == (
        told["id"],
        "order-7",
        {"order": 7},
        told["started_by"],
    )
    assert told["started_by"].startswith("key:")
    assert (told["workspace"], told["status"], told["state"]) == ("default", "runnable", {"order": 7})
    assert api.get(response.headers["Location"]).json() == told


def test_input_left_out_is_an_empty_object(api):
    assert start(api)["input"] == {}


def test_a_key_that_a_live_instance_holds_is_refused_and_names_it(api):
    first = start(api, key="k")
    told = problem(api.post("/v1/instances", {"workflow": "rest-ship", "key": "k"}), 409, "duplicate-key")
    assert told["existing"] == first["id"]
    workflows.cancel(uuid.UUID(first["id"]))
    assert start(api, key="k")["id"] != first["id"]


def test_an_unknown_workflow_is_refused_and_lists_those_there_are(api):
    told = problem(api.post("/v1/instances", {"workflow": "rest-shop"}), 422, "unknown-workflow")
    assert "rest-shop" in told["detail"]
    assert not Instance.objects.exists()


def test_the_same_call_again_is_told_the_same_and_starts_nothing(api):
    body, headers = {"workflow": "rest-ship", "key": "once"}, {"Idempotency-Key": "k1"}
    first = api.post("/v1/instances", body, headers)
    drain()
    again = api.post("/v1/instances", body, headers)
    assert (first.status_code, again.status_code) == (201, 201)
    assert first.content == again.content
    assert first.headers["Location"] == again.headers["Location"]
    assert (first.headers.get("Idempotency-Replayed"), again.headers["Idempotency-Replayed"]) == (None, "true")
    assert Instance.objects.count() == 1
    problem(api.post("/v1/instances", {**body, "input": 1}, headers), 409, "idempotency-conflict")


def test_a_refused_start_uses_up_no_idempotency_key(api):
    headers = {"Idempotency-Key": "k1"}
    problem(api.post("/v1/instances", {"workflow": "nobody"}, headers), 422, "unknown-workflow")
    assert not StoredAnswer.objects.exists()
    assert api.post("/v1/instances", {"workflow": "rest-ship"}, headers).status_code == 201


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({}, "workflow"),
        ({"workflow": 5}, "workflow"),
        ({"workflow": ""}, "workflow"),
        ({"workflow": "rest-ship", "key": 5}, "key"),
        ({"workflow": "rest-ship", "key": ""}, "key"),
        ({"workflow": "rest-ship", "key": "k" * 201}, "key"),
        ({"workflow": "rest-ship", "inptu": {}}, "inptu"),
        ({"workflow": "rest-ship", "status": "done"}, "status"),
        ([], "$"),
    ],
)
def test_a_body_of_another_shape_is_refused_with_the_place(api, body, place):
    told = problem(api.post("/v1/instances", body), 400, "invalid-request")
    assert place in told["errors"]
    assert not Instance.objects.exists()


def test_the_list_is_paged_both_ways_without_gaps(api):
    ids = [start(api)["id"] for _ in range(7)][::-1]
    seen, url, pages = [], "/v1/instances?limit=3", []
    while url:
        page = api.get(url).json()
        pages.append(page)
        seen += [row["id"] for row in page["results"]]
        url = page["next"]
    assert seen == ids
    assert [len(page["results"]) for page in pages] == [3, 3, 1]
    assert pages[0]["previous"] is None
    back = api.get(pages[2]["previous"]).json()
    assert back["results"] == pages[1]["results"]
    first = api.get(back["previous"]).json()
    assert first["results"] == pages[0]["results"]
    assert first["previous"] is None
    assert api.get(first["next"]).json()["results"] == pages[1]["results"]


def test_rows_that_come_meanwhile_move_nothing(api):
    ids = [start(api)["id"] for _ in range(4)][::-1]
    page = api.get("/v1/instances", limit=2).json()
    start(api)
    assert [row["id"] for row in api.get(page["next"]).json()["results"]] == ids[2:]


def test_filters_narrow_the_list_down_and_blank_ones_do_nothing(api):
    shipped = start(api, key="a")["id"]
    failed = start(api, workflow="rest-fail", key="b")["id"]
    drain()
    assert [one["id"] for one in api.get("/v1/instances", status="failed").json()["results"]] == [failed]
    assert [one["id"] for one in api.get("/v1/instances", workflow="rest-ship").json()["results"]] == [shipped]
    assert [one["id"] for one in api.get("/v1/instances", key="b").json()["results"]] == [failed]
    assert [one["id"] for one in api.get("/v1/instances", key="a").json()["results"]] == [shipped]
    assert len(api.get("/v1/instances", key="", status="", workflow=" ", cursor="", limit="").json()["results"]) == 2


@pytest.mark.parametrize("limit", ["0", "-1", "501", "x", "1.5", "१", "9" * 20, "1e2", " 5"])
def test_a_limit_out_of_bounds_is_refused(api, limit):
    assert "limit" in problem(api.get("/v1/instances", limit=limit), 400, "invalid-request")["errors"]


@pytest.mark.parametrize(
    "cursor", ["x", "é", "bnVsbA==", "W10=", "W3RydWUsOSwiYSJd", "W3RydWUsMCwiYSJd", "W3RydWUsMCwxXQ==", "=" * 9]
)
def test_a_cursor_that_is_none_is_refused(api, cursor):
    assert "cursor" in problem(api.get("/v1/instances", cursor=cursor), 400, "invalid-request")["errors"]


def test_an_unknown_status_is_refused_with_those_there_are(api):
    assert "awaiting_children" in problem(api.get("/v1/instances", status="open"), 400, "invalid-request")["detail"]


@pytest.mark.parametrize("form", ["upper", "hex", "braces", "urn", "nil", "no"])
def test_an_instance_has_one_address_and_every_other_is_the_same_404(api, form):
    id = uuid.UUID(start(api)["id"])
    text = {
        "upper": str(id).upper(),
        "hex": id.hex,
        "braces": f"{{{id}}}",
        "urn": id.urn,
        "nil": str(uuid.UUID(int=0)),
        "no": "x",
    }
    response = api.get(f"/v1/instances/{text[form]}")
    if form == "upper":
        assert response.status_code == 200
    else:
        assert response.content == api.get(f"/v1/instances/{uuid.uuid4()}").content
        problem(response, 404, "not-found")


def test_waiting_tells_how_it_ended(api):
    shipped, failed = start(api, key="k"), start(api, workflow="rest-fail")
    gone = start(api)
    response = api.get(f"/v1/instances/{shipped['id']}", wait=0)
    assert (response.status_code, response.headers["Retry-After"]) == (202, "1")
    assert set(response.json()) == FIELDS
    drain()
    workflows.signal("k", "paid", 5)
    workflows.cancel(uuid.UUID(gone["id"]), "not needed")
    drain()
    done = api.get(f"/v1/instances/{shipped['id']}", wait=5)
    assert (done.status_code, done.json()["result"]) == (200, {"paid": 5})
    told = problem(api.get(f"/v1/instances/{failed['id']}", wait=5), 422, "instance-failed")
    assert (told["instance_status"], told["error"], told["id"]) == ("failed", "out of stock", failed["id"])
    assert set(told) >= FIELDS
    told = problem(api.get(f"/v1/instances/{gone['id']}", wait=5), 422, "instance-cancelled")
    assert (told["instance_status"], told["error"]) == ("cancelled", "not needed")


@pytest.mark.parametrize("wait", ["-1", "31", "x", "1.5"])
def test_a_wait_out_of_bounds_is_refused(api, wait):
    assert "wait" in problem(api.get(f"/v1/instances/{start(api)['id']}", wait=wait), 400, "invalid-request")["errors"]


def test_the_ledger_is_told_in_order(api):
    id = start(api, key="k")["id"]
    drain()
    workflows.signal("k", "paid", 1, actor="ann")
    drain()
    rows = api.get(f"/v1/instances/{id}/events").json()["results"]
    assert [row["kind"] for row in rows] == [
        one.kind for one in LedgerEvent.objects.filter(instance=id).order_by("seq")
    ]
    assert rows[0]["kind"] == "started"
    assert {"kind", "at", "actor", "data"} <= set(rows[0])
    assert "ann" in [row["actor"] for row in rows]
    page = api.get(f"/v1/instances/{id}/events", limit=2).json()
    assert page["results"] == rows[:2]
    assert api.get(page["next"]).json()["results"] == rows[2:4]


def test_a_long_ledger_is_told_in_order_both_ways(api):
    id = start(api, key="k")["id"]
    drain()
    workflows.signal_many([("k", "note", n) for n in range(150)])
    url, told, last = f"/v1/instances/{id}/events?limit=40", [], None
    while url:
        last = api.get(url).json()
        told.append(last["results"])
        url = last["next"]
    wanted = [one.seq for one in LedgerEvent.objects.filter(instance=id).order_by("seq")]
    assert len(wanted) > 150
    assert [row["seq"] for page in told for row in page] == wanted
    for page in reversed(told[:-1]):
        last = api.get(last["previous"]).json()
        assert last["results"] == page


def test_cancelling_tells_what_became_of_it_and_a_second_time_is_refused(api):
    id = start(api)["id"]
    told = api.post(f"/v1/instances/{id}/cancel", {"reason": "late"}).json()
    assert (told["status"], told["error"]) == ("cancelled", "late")
    problem(api.post(f"/v1/instances/{id}/cancel", {}), 409, "not-possible")


def test_a_body_may_be_left_out_where_nothing_has_to_be_said(api):
    id = start(api)["id"]
    response = api.call("POST", f"/v1/instances/{id}/cancel")
    assert response.status_code == 200, response.content


def test_retrying_runs_a_failed_one_again_and_nothing_else(api):
    live, failed = start(api)["id"], start(api, workflow="rest-fail")["id"]
    drain()
    told = api.post(f"/v1/instances/{failed}/retry", {})
    assert (told.status_code, told.json()["status"]) == (200, "runnable")
    assert "only a failed" in problem(api.post(f"/v1/instances/{live}/retry", {}), 409, "not-possible")["detail"]


def test_the_same_cancel_again_is_told_the_same(api):
    id = start(api)["id"]
    headers = {"Idempotency-Key": "c1"}
    first = api.post(f"/v1/instances/{id}/cancel", {}, headers)
    again = api.post(f"/v1/instances/{id}/cancel", {}, headers)
    assert first.content == again.content
    assert again.headers["Idempotency-Replayed"] == "true"


def test_payloads_come_back_as_they_were_sent(api):
    input = {"text": "é \u202e 𝄞 \u200b", "n": [1, 2**70, 1.5, -0.0, True, None], "": {"": []}}
    assert start(api, input=input)["input"] == input
    assert json.loads(api.get("/v1/instances").content)["results"][0]["input"] == input


def test_an_expired_deadline_shows_in_the_ledger(api):
    id = start(api)["id"]
    drain()
    advance("1h")
    assert api.get(f"/v1/instances/{id}").json()["status"] == "awaiting"
    workflows.signal(uuid.UUID(id), "paid")
    drain()
    assert_done(Instance.objects.get())


class RestForks(Workflow):
    name = "rest-forks"
    keep_states = 5

    @step
    def ask(self, ctx):
        return Next("use", {"n": 1})

    @step
    def use(self, ctx):
        return Done([ctx.input, ctx.state])


def run_forks() -> Instance:
    first = workflows.start(RestForks, {"order": 7})
    drain()
    return first


def test_a_fork_goes_on_from_a_point_of_another_instance(api):
    first = run_forks()
    told = api.post(f"/v1/instances/{first.pk}/fork", {"at": "use", "key": "again"})
    assert (told.status_code, told.json()["forked_from"], told.json()["key"]) == (201, str(first.pk), "again")
    assert told.headers["Location"].endswith(told.json()["id"])
    drain()
    shown = api.get(f"/v1/instances/{told.json()['id']}").json()
    assert (shown["result"], shown["started_by"][:4]) == ([{"order": 7}, {"n": 1}], "key:")
    assert api.get(f"/v1/instances/{first.pk}").json()["forked_from"] is None
    assert api.post(f"/v1/instances/{first.pk}/fork", None, raw=b"").status_code == 201


def test_a_fork_takes_the_scope_operate_and_start_too_where_it_begins_with_values_of_the_callers_own(api):
    first = run_forks()
    path = f"/v1/instances/{first.pk}/fork"
    operator = Api(make_key("operate"))
    assert operator.post(path, {"at": "use"}).status_code == 201
    for value in ({"state": {"n": 2}}, {"input": None}):
        problem(operator.post(path, {"at": "use", **value}), 403, "forbidden")
    own = api.post(path, {"at": "use", "state": {"n": 2}, "input": {"order": 8}}).json()
    drain()
    assert api.get(f"/v1/instances/{own['id']}").json()["result"] == [{"order": 8}, {"n": 2}]


def test_a_fork_that_cannot_be_is_refused_with_the_reason(api):
    first = run_forks()
    path = f"/v1/instances/{first.pk}/fork"
    assert "there are: 'ask', 'use'" in problem(api.post(path, {"at": "x"}), 422, "unknown-point")["detail"]
    api.post(path, {"key": "held"})
    assert problem(api.post(path, {"key": "held"}), 409, "duplicate-key")["existing"]
    problem(api.post(path, {"at": 5}), 400, "invalid-request")
    live = workflows.start("rest-ship")
    drain()
    assert (
        "has not run yet"
        in problem(api.post(f"/v1/instances/{live.pk}/fork", {"at": "ship"}), 409, "not-possible")["detail"]
    )
    some = Api(make_key("operate", "start", workflows=["rest-ship"]))
    problem(some.post(path, {}), 404, "not-found")
    workflows.start(RestForks, key="held")
    problem(some.post(f"/v1/instances/{live.pk}/fork", {"key": "held"}), 409, "duplicate-key")
