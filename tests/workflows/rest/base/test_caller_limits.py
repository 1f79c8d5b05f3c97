"""What one caller cannot do to others: endless answers, foreign answers, and words about what is not theirs."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.core.exceptions import SuspiciousFileOperation
from django.db import connection
from django.test import Client
from django.test.client import AsyncRequestFactory

import workflows
from tests.support.api_calls import Api, make_key, problem
from tests.support.rest_calls import give_token
from workflows import Await, Done, Workflow, durable, step
from workflows.access.api_keys import change_key
from workflows.models import ApiKey, Instance, Signal, StoredAnswer
from workflows.rest.base.json_body import read_bytes
from workflows.store import prune_answers
from workflows.store.ledger.retention import prune
from workflows.testing import advance, drain

pytestmark = pytest.mark.django_db


class LimitsMine(Workflow):
    name = "limits-mine"

    @step
    def ask(self, ctx):
        return Await("go", then="end")

    @step
    def end(self, ctx):
        return Done()


class LimitsTheirs(LimitsMine):
    name = "limits-theirs"


@pytest.fixture(autouse=True)
def counted_anew():
    cache.clear()


@pytest.fixture
def limited() -> Api:
    return Api(make_key(workflows=["limits-mine"]))


# Large


@pytest.mark.parametrize("line", [1, {"key": "k", "name": "n"}])
def test_a_call_carries_so_many_signals_and_no_more(api, line):
    told = problem(api.post("/v1/signals/bulk", [line] * 10_001), 413, "too-large")
    assert "10000" in told["detail"]


def test_a_line_is_told_a_few_of_its_mistakes(api):
    [one] = api.post("/v1/signals/bulk", [{f"x{n}": 1 for n in range(50)}]).json()["results"]
    assert len(one["errors"]) == 3


def test_a_page_of_large_rows_holds_fewer_and_leads_to_the_rest(api):
    large = {"text": "x" * 400_000}
    ids = [str(workflows.start("limits-mine", large).pk) for _ in range(25)][::-1]
    seen, url, sizes = [], "/v1/instances?limit=500", []
    while url:
        response = api.get(url)
        sizes.append(len(response.content))
        seen += [row["id"] for row in response.json()["results"]]
        before, url = response.json()["previous"], response.json()["next"]
    assert seen == ids
    assert len(sizes) > 1
    assert max(sizes) < 5_000_000
    page = api.get(before).json()
    back = [row["id"] for row in page["results"]]
    assert back + [row["id"] for row in api.get(page["next"]).json()["results"]] == ids[ids.index(back[0]) :]


def test_a_row_that_is_larger_than_a_page_is_a_page(api, monkeypatch):
    from workflows.rest.base import lists

    monkeypatch.setattr(lists, "MOST_BYTES", 10)
    for _ in range(3):
        workflows.start("limits-mine")
    assert len(api.get("/v1/instances").json()["results"]) == 1


# Keys for some workflows


def test_what_others_were_told_is_not_told_to_a_key_for_some_workflows(api, limited):
    theirs = workflows.start("limits-theirs", {"secret": "CANARY"}, key="theirs")
    drain()
    headers = {"Idempotency-Key": "k"}
    calls: list[tuple[str, Any]] = [
        ("/v1/keys/theirs/signals", {"name": "note"}),
        (f"/v1/instances/{theirs.pk}/signals", {"name": "note"}),
        (f"/v1/instances/{theirs.pk}/cancel", {}),
    ]
    for path, body in calls:
        assert api.post(path, body, headers).status_code < 300
        problem(limited.post(path, body, headers), 404, "not-found")
        assert b"CANARY" not in limited.post(path, body, headers).content
    [one] = limited.post("/v1/signals/bulk", [{"key": "theirs", "name": "note"}], headers).json()["results"]
    assert one["status"] == 404


ONCE = {"Idempotency-Key": "k"}


def test_a_key_that_was_narrowed_meanwhile_repeats_its_calls_and_does_not_make_them_anew():
    key = make_key()
    api, row = Api(key), ApiKey.objects.get()
    mine, theirs = workflows.start("limits-mine", key="mine"), workflows.start("limits-theirs", key="theirs")
    drain()
    calls: list[tuple[str, Any]] = [
        ("/v1/instances", {"workflow": "limits-mine"}),
        ("/v1/keys/mine/signals", {"name": "note"}),
        ("/v1/signals", {"key": "mine", "name": "note"}),
        (f"/v1/instances/{mine.pk}/signals", {"name": "note"}),
        ("/v1/signals/bulk", [{"key": "mine", "name": "note"}, {"key": "theirs", "name": "note"}, {"key": "nobody"}]),
        (f"/v1/instances/{mine.pk}/cancel", {}),
    ]
    first = [api.post(path, body, ONCE) for path, body in calls]
    lost = api.post(f"/v1/instances/{theirs.pk}/signals", {"name": "note"}, ONCE)
    counted = Signal.objects.count(), Instance.objects.count()
    change_key(row, workflows=["limits-mine"])
    for (path, body), before in zip(calls, first, strict=True):
        again = api.post(path, body, ONCE)
        assert (again.status_code, again.headers.get("Idempotency-Replayed")) == (before.status_code, "true"), path
        if path == "/v1/signals/bulk":  # less what is not theirs any more
            told, now = before.json()["results"], again.json()["results"]
            assert [one["status"] for one in told] == [202, 202, 400]
            assert [now[0], now[2]] == [told[0], told[2]]
            assert now[1]["status"] == 404
        else:
            assert again.content == before.content
    assert lost.status_code == 202
    problem(api.post(f"/v1/instances/{theirs.pk}/signals", {"name": "note"}, ONCE), 404, "not-found")
    assert (Signal.objects.count(), Instance.objects.count()) == counted


def test_a_key_that_was_narrowed_repeats_an_answer_to_a_question_that_is_its_own_and_no_other():
    api, row = Api(make_key()), ApiKey.objects.get()
    workflows.start("limits-question")
    drain()
    path = "/v1/signals/limits-question/complete"
    first = api.post(path, {"data": 1}, ONCE)
    change_key(row, workflows=["limits-question"])
    again = api.post(path, {"data": 1}, ONCE)
    assert (again.content, again.headers["Idempotency-Replayed"]) == (first.content, "true")
    change_key(row, workflows=["limits-mine"])
    unknown = api.post("/v1/signals/nothing/complete", {"data": 1}, ONCE)
    for body in ({"data": 1}, {"data": 2}):
        told = api.post(path, body, ONCE)
        problem(told, 404, "not-found")
        assert told.content == unknown.content


def test_of_two_keys_for_different_workflows_each_needs_idempotency_keys_of_its_own(limited):
    other = Api(make_key(workflows=["limits-theirs"]))
    assert limited.post("/v1/instances", {"workflow": "limits-mine"}, ONCE).status_code == 201
    problem(other.post("/v1/instances", {"workflow": "limits-theirs"}, ONCE), 409, "idempotency-conflict")
    assert Instance.objects.count() == 1


def test_an_idempotency_key_that_was_used_where_the_caller_could_not_look_is_a_conflict_where_it_can(api, limited):
    workflows.start("limits-question")
    drain()
    path = "/v1/signals/limits-question/complete"
    assert api.post(path, {"data": 1}, ONCE).status_code == 200
    drain()
    limited_to_asks = Api(make_key(workflows=["limits-asks-too"]))
    workflows.start("limits-asks-too")
    drain()
    problem(limited_to_asks.post(path, {"data": 1}, ONCE), 409, "idempotency-conflict")
    assert limited_to_asks.post(path, {"data": 1}, {"Idempotency-Key": "another"}).status_code == 200


def test_what_was_told_of_an_instance_that_is_gone_is_told_again_to_a_key_for_its_workflow_only(limited):
    id = limited.post("/v1/instances", {"workflow": "limits-mine"}, {"Idempotency-Key": "start"}).json()["id"]
    first = limited.post(f"/v1/instances/{id}/cancel", {}, ONCE)
    advance("1d")
    assert [one.instances for one in prune(connection, older_than=1)] == [1]
    again = limited.post(f"/v1/instances/{id}/cancel", {}, ONCE)
    assert (again.status_code, again.content) == (200, first.content)
    other = Api(make_key(workflows=["limits-theirs"]))
    problem(other.post(f"/v1/instances/{id}/cancel", {}, ONCE), 404, "not-found")


def test_a_taken_key_is_told_without_its_holder_where_that_is_not_the_callers(limited):
    theirs, mine = workflows.start("limits-theirs", key="theirs"), workflows.start("limits-mine", key="mine")
    told = problem(limited.post("/v1/instances", {"workflow": "limits-mine", "key": "theirs"}), 409, "duplicate-key")
    assert "existing" not in told
    assert str(theirs.pk) not in json.dumps(told)
    assert "limits-theirs" not in json.dumps(told)
    told = problem(limited.post("/v1/instances", {"workflow": "limits-mine", "key": "mine"}), 409, "duplicate-key")
    assert told["existing"] == str(mine.pk)


def test_a_key_for_some_workflows_is_told_400_before_404(limited):
    problem(limited.post("/v1/keys/a%00b/signals", {"name": "n"}), 400, "invalid-request")
    problem(limited.post("/v1/keys/nobody/signals", {"name": " "}), 400, "invalid-request")


def test_a_key_for_some_workflows_may_send_as_many_lines_as_others(limited):
    workflows.start("limits-mine", key="mine")
    lines = [{"key": f"none-{n}", "name": "n"} for n in range(9_999)] + [{"key": "mine", "name": "n"}]
    results = limited.post("/v1/signals/bulk", lines).json()["results"]
    assert [one["status"] for one in results[-2:]] == [404, 202]


def test_an_event_is_refused_to_it_whatever_the_body(limited):
    problem(limited.post("/v1/events", raw=b"{bad"), 403, "forbidden")


# Sessions


@pytest.mark.parametrize(
    "raw", [b"[" * 200_000, b"{bad", b'{"a": NaN}', b"\xff", b'{"x": "' + b"y" * 3_000_000 + b'"}'], ids=repr
)
def test_a_session_is_told_of_a_body_what_a_key_is_told(api, raw):
    client = Client(enforce_csrf_checks=True)
    client.force_login(User.objects.create_superuser("ann", password="x"))
    by_session = Api(client=client)
    token = {"X-CSRFToken": give_token(client)}
    for path in ("/v1/signals", "/v1/signals/bulk", "/v1/instances"):
        assert by_session.post(path, raw=raw, headers=token).content == api.post(path, raw=raw).content
        problem(by_session.post(path, raw=raw), 403, "forbidden")


def test_users_without_permissions_are_told_to_use_a_key(settings):
    from workflows.rest.base.authentication import READ, Caller
    from workflows.rest.protocol.problems import RequestRefused

    with pytest.raises(RequestRefused, match="use a key"):
        Caller("user:1", 1, "default", None, None, user=object()).check(READ)


# Odd


def test_a_thousand_parameters_are_refused(api):
    problem(api.get("/v1/instances?" + "&".join(f"x{n}=1" for n in range(1_001))), 400, "invalid-request")


def test_a_body_without_a_length_is_read_where_it_can_be():
    request = AsyncRequestFactory().post("/", b'{"reason": "late"}', content_type="application/json")
    request.META.pop("CONTENT_LENGTH")
    request.META["HTTP_TRANSFER_ENCODING"] = "chunked"
    assert read_bytes(request, empty=True) == b'{"reason": "late"}'


def test_a_body_of_http_2_which_announces_nothing_is_read():
    for raw in (b'{"reason": "late"}', b""):
        request = AsyncRequestFactory().post("/", raw, content_type="application/json")
        request.META.pop("CONTENT_LENGTH", None)
        assert read_bytes(request, empty=True) == raw


def test_a_key_that_reads_like_an_id_is_not_that_instance(limited):
    first = workflows.start("limits-mine")
    second = workflows.start("limits-mine", key=str(first.pk))
    lines = [{"instance": str(first.pk), "name": "a"}, {"key": str(first.pk), "name": "b"}]
    results = limited.post("/v1/signals/bulk", lines).json()["results"]
    assert [one["id"].partition(":")[0] for one in results] == [str(first.pk), str(second.pk)]


@durable(name="limits-question")
def question(ctx):
    return ctx.wait_for_signal("ask", signal="limits-question", timeout="1h")


@durable(name="limits-asks-too")
def asks_too(ctx):
    return ctx.wait_for_signal("ask", signal="limits-question", timeout="1h")


def find_suspicious(operation, interaction, actor):
    if operation == "resume":
        raise SuspiciousFileOperation("/srv/secret/path")


def test_what_the_projects_own_code_finds_suspicious_is_logged_and_not_told(api, settings):
    workflows.start("limits-question")
    drain()
    settings.WORKFLOWS = {**settings.WORKFLOWS, "POLICY": find_suspicious}
    told = problem(api.post("/v1/signals/limits-question/complete", {"data": 1}), 500, "server-error")
    assert "secret" not in json.dumps(told)


def test_a_body_without_a_length_is_refused_where_it_cannot_be(api):
    id = workflows.start("limits-mine").pk
    told = api.call(
        "POST", f"/v1/instances/{id}/cancel", {"Transfer-Encoding": "chunked", "Content-Type": "application/json"}
    )
    assert "Content-Length" in problem(told, 400, "invalid-body")["detail"]
    assert Instance.objects.get().status == "runnable"


def test_a_start_that_is_told_again_names_its_address_when_the_instance_is_gone(api):
    headers = {"Idempotency-Key": "k"}
    first = api.post("/v1/instances", {"workflow": "limits-mine"}, headers)
    workflows.cancel(uuid.UUID(first.json()["id"]))
    advance("1d")
    assert [one.instances for one in prune(connection, older_than=1)] == [1]
    again = api.post("/v1/instances", {"workflow": "limits-mine"}, headers)
    assert (again.content, again.headers["Location"]) == (first.content, first.headers["Location"])


def test_what_was_told_about_many_is_told_again_while_any_of_them_is_there(api):
    rows = [workflows.start("limits-mine", key=key) for key in ("a", "b")]
    drain()
    lines = [{"key": "nobody", "name": "note"}, {"key": "a", "name": "note"}, {"key": "b", "name": "note"}]
    first = api.post("/v1/signals/bulk", lines, ONCE)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_answer SET at = at - interval '5 days'")
    for row in rows:
        assert prune_answers(connection) == 0
        again = api.post("/v1/signals/bulk", lines, ONCE)
        assert (again.content, again.headers["Idempotency-Replayed"]) == (first.content, "true")
        workflows.cancel(row)
        advance("1d")
        assert [one.instances for one in prune(connection, older_than=1)] == [1]
    assert prune_answers(connection) == 1


def test_an_answer_about_an_instance_that_is_gone_is_tied_to_none():
    from workflows import store
    from workflows.api.idempotency import make_once

    once, gone = make_once("POST", "/", "k", body=b""), uuid.uuid4()
    assert store.reserve_answer(connection, 1, once) is None
    store.keep_answer(connection, 1, once, store.Told(once.body_hash, 200, "{}", gone))
    assert StoredAnswer.objects.get().instance_id is None


def test_a_rate_that_is_none_is_the_sites_mistake_and_not_the_callers(api, settings):
    settings.WORKFLOWS = {**settings.WORKFLOWS, "API_RATE": "600 per minute"}
    problem(api.get("/v1/instances"), 500, "server-error")


# Mounted elsewhere, and beside others


def test_under_a_prefix_every_address_has_it(api, settings):
    from types import ModuleType

    from django.urls import include, path

    module = ModuleType("tests.under_a_prefix")
    module.urlpatterns = [path("hooks/", include("workflows.urls_api"))]  # type: ignore[attr-defined]
    sys.modules[module.__name__] = module
    settings.ROOT_URLCONF = module.__name__
    first = api.post("/hooks/v1/instances", {"workflow": "limits-mine"})
    assert first.headers["Location"].startswith("/hooks/v1/instances/")
    assert api.get(first.headers["Location"]).status_code == 200
    api.post("/hooks/v1/instances", {"workflow": "limits-mine"})
    assert "/hooks/v1/instances?" in api.get("/hooks/v1/instances", limit=1).json()["next"]
    assert api.get("/hooks/v1/schema").json()["servers"] == [{"url": "/hooks"}]
    problem(api.call("POST", "/hooks/v1/schema"), 405, "method-not-allowed")


HOST = """
import django, json
from django.conf import settings
settings.configure(
    SECRET_KEY="x" * 50,
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "rest_framework", "workflows"],
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "none"}},
    ROOT_URLCONF="workflows.urls_api",
    REST_FRAMEWORK={"DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema"},
)
django.setup()
from pydantic import BaseModel, computed_field
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import ComponentRegistry
from workflows.rest.schema.openapi import describe_api

class Theirs(BaseModel):
    n: int = 1
    @computed_field
    @property
    def total(self) -> int:
        return self.n

schema = AutoSchema(); schema.registry = ComponentRegistry(); schema.method = "GET"; schema.path = "/"
told = schema.resolve_serializer(Theirs, "response").schema
print(json.dumps({"theirs": sorted(told["properties"]), "ours": sorted(describe_api()["paths"])}))
"""


def test_a_project_describes_its_own_types_as_before_and_we_only_what_is_routed():
    done = subprocess.run([sys.executable, "-c", HOST], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["theirs"] == ["n", "total"]
    assert "/v1/instances" in told["ours"]
    assert "/metrics" not in told["ours"]
