"""What the API's document says is so: every status that it names is met, and every answer is as it says."""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.db import connections

import workflows
from tests.support.api_calls import Api, make_key
from tests.support.openapi_document import OPERATIONS, Witness
from tests.support.pumps import pumping
from tests.support.worlds.openapi import ANSWER, Population, populate
from workflows import hook
from workflows.access.api_keys import SCOPES
from workflows.hooks import definition, stripe
from workflows.models import Instance, Workspace

#: What no caller can bring about.
OURS = {"500", "503"}
ID = str(uuid.UUID(int=7))

world = pytest.mark.django_db(transaction=True)


@pytest.fixture
def population(committed: None, settings: Any) -> Iterator[Population]:
    settings.WORKFLOWS = {**settings.WORKFLOWS, "MAX_BULK_BODY": 600_000}
    cache.clear()
    yield populate(5)
    cache.clear()


def list_good_calls(there: Population) -> dict[str, tuple[str, Any, int]]:
    """Of each operation a call that succeeds: address, body, status."""
    live = Instance.objects.get(key=there.keys[0]).pk  # one that reads signals
    pending, open_reviews = there.questions["pending"], there.reviews["open"]
    return {
        "listInstances": ("/v1/instances", None, 200),
        "startInstance": ("/v1/instances", {"workflow": "openapi-order", "key": "openapi-new"}, 201),
        "getInstance": (f"/v1/instances/{live}", None, 200),
        "listInstanceEvents": (f"/v1/instances/{live}/events", None, 200),
        "signalInstance": (f"/v1/instances/{live}/signals", {"name": "note"}, 202),
        "cancelInstance": (f"/v1/instances/{there.instances['sleeping'][0]}/cancel", {}, 200),
        "retryInstance": (f"/v1/instances/{there.instances['failed'][0]}/retry", {}, 200),
        "forkInstance": (f"/v1/instances/{there.instances['failed'][2]}/fork", {}, 201),
        "signalKey": ("/v1/keys/openapi%2F0/signals", {"name": "note"}, 202),
        "signal": ("/v1/signals", {"key": "openapi/0", "name": "note"}, 202),
        "signalMany": (
            "/v1/signals/bulk",
            [{"key": "openapi/0", "name": "note"}, {"instance": ID, "name": "n"}, {"key": 5}],
            207,
        ),
        "emit": ("/v1/events", {"event": "openapi.closed"}, 202),
        "completeSignal": (f"/v1/signals/{pending[0].signal_id}/complete", {"data": ANSWER}, 200),
        "completeMany": (
            "/v1/interactions/complete",
            [
                {"id": str(pending[3].pk), "data": ANSWER},
                {"id": str(pending[1].pk), "data": ANSWER, "version": 99},
                {"signal_id": "nobody", "data": 1},
                {"id": 5, "data": 1},
            ],
            207,
        ),
        "listInteractions": ("/v1/interactions", None, 200),
        "getInteraction": (f"/v1/interactions/{pending[1].pk}", None, 200),
        "completeInteraction": (f"/v1/interactions/{pending[1].pk}/complete", {"data": ANSWER}, 200),
        "failInteraction": (f"/v1/interactions/{pending[4].pk}/fail", {"reason": "no"}, 200),
        "retryInteraction": (f"/v1/interactions/{there.items[0].pk}/retry", {}, 200),
        "listInteractionEvents": (f"/v1/interactions/{pending[1].pk}/events", None, 200),
        "listUnits": ("/v1/units", None, 200),
        "getUnit": (f"/v1/units/{pending[1].unit_id}", None, 200),
        "listSchedules": ("/v1/schedules", None, 200),
        "createSchedule": ("/v1/schedules", {"name": "new", "workflow": "openapi-order", "every": "30000d"}, 201),
        "getSchedule": ("/v1/schedules/openapi-0", None, 200),
        "changeSchedule": ("/v1/schedules/openapi-1", {"catch_up": 3}, 200),
        "deleteSchedule": ("/v1/schedules/openapi-2", None, 204),
        "runSchedule": ("/v1/schedules/openapi-3/run", {}, 200),
        "redriveInteraction": (f"/v1/interactions/{there.sent[0].pk}/redrive", {}, 200),
        "listDispatches": (f"/v1/interactions/{there.sent[0].pk}/dispatches", None, 200),
        "listWorkflows": ("/v1/workflows", None, 200),
        "pauseWorkflow": ("/v1/workflows/openapi%2Flimited/pause", {}, 200),
        "unpauseWorkflow": ("/v1/workflows/openapi%2Flimited/unpause", {}, 200),
        "listQueues": ("/v1/queues", None, 200),
        "getQueue": ("/v1/queues/openapi", None, 200),
        "changeQueue": ("/v1/queues/openapi", {"limit": 5, "rate": "5/30s"}, 200),
        "listLimits": ("/v1/limits", None, 200),
        "changeConcurrency": ("/v1/limits/concurrency/openapi-ann", {"limit": 5}, 200),
        "changeRate": ("/v1/limits/rate/openapi", {"rate": {"count": 5, "per": 2.5, "burst": 9}}, 200),
        "listApprovals": ("/v1/approvals", None, 200),
        "getApproval": (f"/v1/approvals/{open_reviews[0]}", None, 200),
        "decideApproval": (f"/v1/approvals/{open_reviews[1]}/decide", {"outcome": "approve", "version": 1}, 200),
        "claimApproval": (f"/v1/approvals/{open_reviews[2]}/claim", {}, 200),
        "releaseApproval": (f"/v1/approvals/{open_reviews[3]}/release", {}, 200),
        "delegateApproval": (f"/v1/approvals/{open_reviews[4]}/delegate", {"to": "openapi-ben"}, 200),
        "commentApproval": (f"/v1/approvals/{open_reviews[5]}/comment", {"text": "?"}, 200),
        "requestInfo": (f"/v1/approvals/{open_reviews[6]}/request_info", {"text": "?"}, 200),
        "undoApproval": (f"/v1/approvals/{there.reviews['voted'][0]}/undo", {}, 200),
        "resume": (f"/resume/{there.tokens['pending'][0]}", {"data": ANSWER}, 200),
        "postHook": ("/hooks/openapi", {"id": "evt_1"}, 200),
        "healthz": ("/healthz", None, 200),
        "readyz": ("/readyz", None, 200),
        "metrics": ("/metrics", None, 200),
    }


#: Of an address that is there, one that is not.
MISSING = [
    (r"/approvals/[^/]+", f"/approvals/{ID}"),
    (r"/units/[^/]+", f"/units/{ID}"),
    (r"/workflows/[^/]+", "/workflows/nobody"),
    (r"/queues/[^/]+", "/queues/nobody"),
    (r"/limits/(\w+)/.*", r"/limits/\1/nobody"),
    (r"/schedules/[^/]+", "/schedules/nobody"),
    (r"/instances/[^/]+", f"/instances/{ID}"),
    (r"/interactions/[^/]+", f"/interactions/{ID}"),
    (r"/keys/[^/]+", "/keys/nobody"),
    (r"/signals/[^/]+/complete", "/signals/nobody/complete"),
    (r"/resume/.*", "/resume/x"),
]


def refuse(operation: str, interaction: Any, actor: str) -> bool:
    return operation != "resume"


@world
def test_every_status_that_it_names_is_answered_as_it_says(population, settings, monkeypatch):
    seen: set[tuple[str, str]] = set()
    by_key, by_person = Api(make_key(), Witness(seen)), login(population.person, seen)
    good = list_good_calls(population)
    assert set(good) == {operation["operationId"] for *_, operation in OPERATIONS}
    for method, route, operation in OPERATIONS:
        name, path, body, status = operation["operationId"], *good[operation["operationId"]]
        if name == "postHook":
            continue
        takes_person = operation["security"] == [{"session": []}]
        api = by_person if takes_person else by_key
        # What is tried follows from the address: a document that leaves an answer out is not asked.
        if route.startswith("/v1/") or name == "metrics":
            send(Api(None, Witness(seen)), method, path, body, 401)
            weak = make_key() if takes_person else make_key(other_than(operation["x-scope"]))
            send(Api(weak, Witness(seen)), method, path, body, 403)
        if route.startswith("/v1/"):
            with hurrying(settings):
                who = User.objects.create_user(f"openapi-{name}")
                hurried = login(who, seen) if takes_person else Api(make_key(), Witness(seen))
                hurried.get("/v1/approvals")
                send(hurried, method, path, body, 429)
        if "{" in route or name == "signal":
            send(api, method, find_missing(path), body | {"key": "nobody"} if name == "signal" else body, 404)
        if method in {"POST", "PATCH"}:
            large = b'"' + b"x" * 600_000 + b'"'
            send(api, method, path, large, 413)
            send(api, method, path, b"{}", 415, content_type="text/plain")
            send(api, method, path, b"{", 400)
        once = {"Idempotency-Key": f"openapi-{name}"} if method != "GET" else {}
        first = send(api, method, path, body, status, headers=once)
        if once:
            again = send(api, method, path, body, status, headers=once)
            assert again.headers["Idempotency-Replayed"] == "true"
            assert again.content == first.content
            if body is not None:
                send(api, method, path, json.dumps(body).encode() + b" ", 409, headers=once)
    provoke_the_rest(by_key, population, settings)
    post_to_a_hook(Api(None, Witness(seen)), settings, monkeypatch)
    decide_what_cannot_be_decided(by_person, population)
    ask_where_two_workspaces_are_to_choose_from(seen, good)
    told = {(one["operationId"], status) for *_, one in OPERATIONS for status in one["responses"] if status not in OURS}
    assert seen - told == {("readyz", "503"), ("postHook", "500"), ("postHook", "503")}
    assert told - seen == set()


def login(user: User, seen: set[tuple[str, str]]) -> Api:
    client = Witness(seen)
    client.force_login(user)
    return Api(None, client)


@contextmanager
def hurrying(settings: Any) -> Iterator[None]:
    site, settings.WORKFLOWS = settings.WORKFLOWS, {**settings.WORKFLOWS, "API_RATE": "1/d"}
    yield
    settings.WORKFLOWS = site


def send(api: Api, method: str, path: str, body: Any, status: int, **options: Any) -> Any:
    raw = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
    kind = options.pop("content_type", "application/json")
    options["headers"] = api.headers(options.get("headers", {}))
    response = api.client.generic(method, path, raw, content_type=kind, **options)
    assert response.status_code == status, f"{method} {path}: {response.content!r}"
    return response


def other_than(scope: str) -> str:
    return next(one for one in SCOPES if one != scope)


def find_missing(path: str) -> str:
    for pattern, instead in MISSING:
        path = re.sub(pattern, instead, path)
    return path


def provoke_the_rest(api: Api, there: Population, settings: Any) -> None:
    """What only some operations answer."""
    for status, code in (("done", 200), ("awaiting", 202), ("failed", 422), ("cancelled", 422)):
        send(api, "GET", f"/v1/instances/{there.instances[status][1]}?wait=0", None, code)
    send(api, "POST", "/v1/instances", {"workflow": "openapi-none"}, 422)
    send(api, "POST", "/v1/instances", {"workflow": "openapi-order", "key": "openapi/0"}, 409)
    send(api, "POST", f"/v1/instances/{there.instances['failed'][1]}/fork", {"at": "nowhere"}, 422)
    send(api, "POST", "/v1/keys/nobody/signals", {"name": "note", "start": {"workflow": "openapi-none"}}, 422)
    send(api, "POST", f"/v1/interactions/{there.questions['completed'][0].pk}/fail", {"reason": "no"}, 410)
    unknown = {"workflow": "openapi-none", "every": "1h"}
    send(api, "POST", "/v1/schedules", {"name": "other", **unknown}, 422)
    send(api, "PATCH", "/v1/schedules/openapi-1", unknown, 422)
    with connections["default"].cursor() as cursor:
        cursor.execute("UPDATE holdpoint_schedule SET workflow = 'openapi-none' WHERE name = 'openapi-4'")
    send(api, "POST", "/v1/schedules/openapi-4/run", {}, 422)
    deaf = there.owned[0].instance_id  # of a function
    assert send(api, "POST", f"/v1/instances/{deaf}/signals", {"name": "n"}, 409).json()["type"].endswith("no-reader")
    for by in ("signal_id", "id"):
        for status, body, code in (
            ("completed", {"data": ANSWER}, 410),
            ("expired", {"data": ANSWER}, 410),
            ("pending", {}, 422),
            ("pending", {"data": ANSWER, "version": 99}, 409),
        ):
            one = there.questions[status][2]
            path = f"/v1/interactions/{one.pk}" if by == "id" else f"/v1/signals/{one.signal_id}"
            send(api, "POST", f"{path}/complete", body, code)
        owned = there.owned[0]
        path = f"/v1/interactions/{owned.pk}" if by == "id" else f"/v1/signals/{owned.signal_id}"
        send(api, "POST", f"{path}/complete", {"data": 1}, 409)
    for status, body, code in (("completed", {"data": ANSWER}, 410), ("pending", {"data": {}}, 422)):
        send(api, "POST", f"/resume/{there.tokens[status][2]}", body, code)
    site, settings.WORKFLOWS = (
        settings.WORKFLOWS,
        {**settings.WORKFLOWS, "POLICY": "tests.workflows.rest.schema.test_openapi_truth.refuse"},
    )
    send(api, "POST", f"/resume/{there.tokens['pending'][1]}", {"data": ANSWER}, 403)
    settings.WORKFLOWS = site
    send(api, "GET", "/readyz?require=cluster", None, 503)
    send(api, "GET", "/readyz?require=x", None, 400)


def post_to_a_hook(api: Api, settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything that a provider can be told."""
    monkeypatch.setattr(definition, "_hooks", {})
    signed = stripe("secret")
    hook("openapi", verify=signed)(lambda message: workflows.signal(message.data["key"], "note") and None)

    def provide(body: Any, status: int, name: str = "openapi", **headers: str) -> Any:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return send(api, "POST", f"/hooks/{name}", raw, status, headers={**signed.sign(raw), **headers})

    message = {"id": "evt_1", "key": "openapi/0"}
    provide(message, 200)
    assert provide(message, 200).headers["Idempotency-Replayed"] == "true"
    provide(message, 404, "nobody")
    provide(message, 401, **{"Stripe-Signature": "t=1,v1=0"})
    provide(b"{", 400)
    provide(b'"' + b"x" * 600_000 + b'"', 413)
    provide(message, 415, **{"Content-Encoding": "gzip"})
    provide({"id": "evt_2", "key": "nobody"}, 409)
    with hurrying(settings):
        provide({**message, "id": "evt_3"}, 200)
        provide({**message, "id": "evt_4"}, 429)
    hook("secretless", verify=stripe(lambda: None))(lambda message: None)
    provide(message, 503, "secretless")
    hook("failing", verify=signed)(lambda message: 1 / 0)
    provide(message, 500, "failing")


def decide_what_cannot_be_decided(api: Api, there: Population) -> None:
    over, waits = there.reviews["decided"][0], there.reviews["open"][7]
    for name in ("decide", "claim", "release", "delegate", "request_info", "undo"):
        body = {"decide": {"outcome": "approve"}, "delegate": {"to": "openapi-ben"}, "request_info": {"text": "?"}}
        send(api, "POST", f"/v1/approvals/{over}/{name}", body.get(name, {}), 410)
    send(api, "POST", f"/v1/approvals/{waits}/decide", {"outcome": "nothing"}, 422)
    send(api, "POST", f"/v1/approvals/{waits}/decide", {"outcome": "approve", "version": 99}, 409)
    send(api, "POST", f"/v1/approvals/{waits}/delegate", {"to": "nobody"}, 422)
    send(api, "POST", f"/v1/approvals/{waits}/delegate", {"to": "openapi-dan"}, 403)


def ask_where_two_workspaces_are_to_choose_from(seen: set[tuple[str, str]], good: Mapping[str, Any]) -> None:
    user = User.objects.create_superuser("openapi-chooser")
    for slug in ("default", "openapi-second"):
        Workspace.objects.get_or_create(slug=slug)[0].members.add(user)
    api = login(user, seen)
    for method, path, operation in OPERATIONS:
        if path.startswith("/v1/"):
            path, body, _ = good[operation["operationId"]]
            send(api, method, path, body, 400)


@world
def test_one_may_walk_from_answer_to_answer(population):
    api = Api(make_key(), Witness(set()))
    with pumping():
        started = send(api, "POST", "/v1/instances", {"workflow": "openapi-order", "key": "walk"}, 201)
        here, id = started.headers["Location"], started.json()["id"]
        assert api.get(here).json()["id"] == id
        assert api.post("/v1/keys/walk/signals", {"name": "note"}).json()["duplicate"] is False
        assert api.post("/v1/signals", {"key": "walk", "name": "paid", "payload": 5}).status_code == 202
        assert api.get(here, wait=20).json()["result"] == 5
        assert api.post(f"{here}/cancel", {}).status_code == 409
        assert [row["seq"] for row in api.get(f"{here}/events").json()["results"]][:2] == [1, 2]

        other = api.post("/v1/instances", {"workflow": "openapi-order"}).headers["Location"]
        assert api.post(f"{other}/cancel", {"reason": "no"}).json()["error"] == "no"
        assert api.get(other, wait=1).json()["instance_status"] == "cancelled"

        failed = api.post("/v1/instances", {"workflow": "openapi-order", "key": "fails"}).headers["Location"]
        api.post(f"{failed}/signals", {"name": "paid", "payload": "stop"})
        assert api.get(failed, wait=20).status_code == 422
        assert api.post(f"{failed}/retry", {}).status_code == 200

        page = api.get("/v1/instances", limit=2).json()
        back = api.get(api.get(page["next"]).json()["previous"]).json()
        assert [row["id"] for row in back["results"]] == [row["id"] for row in page["results"]]
        for row in page["results"]:
            assert api.get(f"/v1/instances/{row['id']}").json()["id"] == row["id"]

        [asked, *_] = api.get("/v1/interactions", status="pending", workflow="openapi-question").json()["results"]
        shown = api.get(f"/v1/interactions/{asked['id']}").json()
        assert shown == asked
        body = {"data": ANSWER, "version": shown["version"]}
        assert api.post(f"/v1/interactions/{asked['id']}/complete", body).json()["instance"] == asked["instance"]
        assert api.get(f"/v1/instances/{asked['instance']}", wait=20).json()["result"] == ANSWER
        assert api.get(f"/v1/interactions/{asked['id']}").json()["output"] == ANSWER
