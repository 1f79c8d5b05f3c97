"""Who may call, in which order a request is judged, and what never differs between tenants."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth.models import Permission, User
from django.core.cache import cache
from django.test import Client
from rest_framework.views import APIView

import workflows
from tests.support.api_calls import Api, make_key, problem
from tests.support.rest_calls import CALLS, ID, PERSON, give_token, send
from workflows import durable
from workflows.access.api_keys import revoke_key
from workflows.models import ApiKey, Instance, Interaction, Workspace
from workflows.rest.base.endpoint import Endpoint
from workflows.testing import drain

pytestmark = pytest.mark.django_db


@durable(name="access-other")
def other(ctx):
    return ctx.wait_for_signal("gate", signal="access-other", timeout="1h")


@pytest.fixture(autouse=True)
def counted_anew():
    cache.clear()
    yield
    cache.clear()


GOOD = {200, 201, 202, 207, 404}
EACH = pytest.mark.parametrize(("method", "path", "body", "scope", "permission"), CALLS, ids=lambda one: str(one)[:40])


def test_these_are_all_the_calls_there_are():
    """A new address has to be listed above, and so is judged by every test here."""
    from workflows.rest.schema.openapi import describe_api

    told = {
        (method.upper(), path)
        for path, item in describe_api()["paths"].items()
        if path.startswith("/v1")
        for method in item
    }
    listed = set()
    for method, path, *_ in CALLS:
        path = path.replace("/interactions/" + ID, "/interactions/{id}").replace(ID, "{id}")
        path = re.sub("/workflows/access-gate/|/queues/default|/limits/[a-z]+/k", name_last, path)
        path = path.replace("/schedules/nightly", "/schedules/{schedule}")
        listed.add((method, path.replace("/keys/k/", "/keys/{key}/").replace("/access-gate/", "/{signal_id}/")))
    assert told == listed


def name_last(part: re.Match[str]) -> str:
    """The name in an address, as the document writes it."""
    head, end = part[0].rstrip("/").rpartition("/")[0], "/" * part[0].endswith("/")
    return f"{head}/{{name}}{end}"


@EACH
def test_without_a_key_or_session_it_is_401(method, path, body, scope, permission):
    response = send(Api(), method, path, body)
    problem(response, 401, "unauthorized")
    assert response.headers["WWW-Authenticate"].startswith("Bearer")


@EACH
def test_a_key_without_the_scope_is_403_and_with_it_goes_on(method, path, body, scope, permission):
    for missing in [scope] if scope == PERSON else scope.split():
        others = [one for one in ("read", "start", "signal", "complete", "operate") if one != missing]
        told = problem(send(Api(make_key(*others)), method, path, body), 403, "forbidden")["detail"]
        assert missing in told.lower()
    if scope == PERSON:
        assert "A person decides" in problem(send(Api(make_key()), method, path, body), 403, "forbidden")["detail"]
        return
    assert send(Api(make_key(*scope.split())), method, path, body).status_code in GOOD
    again = {**body, "name": "other"} if isinstance(body, dict) and "name" in body else body
    assert send(Api(make_key("admin")), method, path, again).status_code in GOOD


HOSTILE = {
    "EXCEPTION_HANDLER": "nowhere.to.be.found",
    "UNAUTHENTICATED_USER": "nowhere.to.be.found",
    "FORMAT_SUFFIX_KWARG": "id",
    "URL_FORMAT_OVERRIDE": "workspace",
    "NON_FIELD_ERRORS_KEY": "oops",
    "DEFAULT_AUTHENTICATION_CLASSES": ["nowhere.to.be.found"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.BrowsableAPIRenderer"],
}


@EACH
def test_how_a_project_sets_up_its_own_views_changes_nothing_here(settings, method, path, body, scope, permission):
    calls = [Api(), Api(make_key("read" if scope != "read" else "signal"))]
    calls += [Api(make_key("admin"))] if scope == PERSON or method == "GET" else []
    before = [send(api, method, path, body, headers={"Accept": "text/html"}) for api in calls]
    settings.REST_FRAMEWORK = HOSTILE
    after = [send(api, method, path, body, headers={"Accept": "text/html"}) for api in calls]
    assert [(one.status_code, one.content) for one in after] == [(one.status_code, one.content) for one in before]


def test_whatever_a_view_takes_from_a_projects_settings_is_said_by_ours():
    """These are read when the class is made, so a test that changes the settings comes too late."""
    taken = {name for name in vars(APIView) if name.endswith(("_class", "_classes"))} | {"schema"}
    assert taken - set(vars(Endpoint)) == set()


@EACH
def test_a_session_takes_the_permission_and_the_csrf_token(method, path, body, scope, permission):
    user = User.objects.create_user("ann", password="x")
    client = Client(enforce_csrf_checks=True)
    client.force_login(user)
    token = {} if method == "GET" else {"X-CSRFToken": give_token(client)}
    for one in permission.split():
        refused = problem(send(Api(client=client), method, path, body, headers=token), 403, "forbidden")
        assert one in refused["detail"]
        user.user_permissions.add(Permission.objects.get(codename=one, content_type__app_label="holdpoint"))
        user = User.objects.get(pk=user.pk)
    assert send(Api(client=client), method, path, body, headers=token).status_code in GOOD
    if method != "GET":
        assert "CSRF" in problem(send(Api(client=client), method, path, body), 403, "forbidden")["detail"]


@EACH
def test_too_many_calls_are_429_and_told_when_to_come_back(settings, method, path, body, scope, permission):
    settings.WORKFLOWS = {**settings.WORKFLOWS, "API_RATE": "2/d"}
    api, other = make_caller("ann", scope), make_caller("ben", scope)
    assert [send(api, method, path, body).status_code for _ in range(2)].count(429) == 0
    response = send(api, method, path, body)
    problem(response, 429, "too-many-requests")
    assert 1 <= int(response.headers["Retry-After"]) <= 86_401
    assert send(other, method, path, body).status_code != 429


def make_caller(name: str, scope: str) -> Api:
    """Somebody who may make a call of this scope."""
    if scope != PERSON:
        return Api(make_key())
    client = Client()
    client.force_login(User.objects.create_user(name))
    return Api(client=client)


def test_a_key_may_have_a_rate_of_its_own():
    api = Api(make_key(rate="1/d"))
    assert [api.get("/v1/instances").status_code for _ in range(2)] == [200, 429]


@EACH
def test_another_method_is_405_and_names_those_there_are(method, path, body, scope, permission):
    api = Api(make_key())
    right = {one for one, at, *_ in CALLS if at == path}
    for wrong in {"PUT", "PATCH", "DELETE", "TRACE", "OPTIONS"} - right:
        response = api.call(wrong, path)
        problem(response, 405, "method-not-allowed")
        assert method in response.headers["Allow"]


@pytest.mark.parametrize(
    "header",
    [
        "hp_x",
        "Basic {key}",
        "Bearer",
        "Bearer ",
        "Bearer {key}x",
        "Bearer Bearer {key}",
        "Bearer {key}, Bearer {key}",
        "Bearer ünïcode",
        "Bearer " + "h" * 5000,
        "Token {key}",
    ],
)
def test_only_a_whole_key_in_its_header_opens_anything(header):
    key = make_key()
    response = Client().get("/v1/instances", headers={"Authorization": header.replace("{key}", key)})
    problem(response, 401, "unauthorized")
    problem(Client().get(f"/v1/instances?key={key}&api_key={key}"), 401, "unauthorized")
    assert response.content == Client().get("/v1/instances").content


@pytest.mark.parametrize("header", ["Bearer {key}", "bearer {key}", "BEARER {key}", "Bearer  {key} "])
def test_the_scheme_may_be_written_in_any_case(header):
    assert (
        Client().get("/v1/instances", headers={"Authorization": header.replace("{key}", make_key())}).status_code == 200
    )


def test_a_revoked_key_opens_nothing_any_more():
    api = Api(make_key())
    assert api.get("/v1/instances").status_code == 200
    revoke_key(ApiKey.objects.get())
    assert problem(api.get("/v1/instances"), 401, "unauthorized") == problem(
        Api("hp_none").get("/v1/instances"), 401, "unauthorized"
    )


# Keys for some workflows


def test_a_key_for_some_workflows_knows_no_others():
    mine, theirs = workflows.start("access-gate", key="mine"), workflows.start("access-other", key="theirs")
    drain()
    api = Api(make_key(workflows=["access-gate"]))
    assert [row["id"] for row in api.get("/v1/instances").json()["results"]] == [str(mine.pk)]
    assert [row["workflow"] for row in api.get("/v1/interactions").json()["results"]] == ["access-gate"]
    question = Interaction.objects.get(instance=theirs)
    for method, path, body in [
        ("GET", f"/v1/instances/{theirs.pk}", None),
        ("GET", f"/v1/instances/{theirs.pk}/events", None),
        ("POST", f"/v1/instances/{theirs.pk}/signals", {"name": "a"}),
        ("POST", f"/v1/instances/{theirs.pk}/cancel", {}),
        ("POST", f"/v1/instances/{theirs.pk}/retry", {}),
        ("POST", "/v1/keys/theirs/signals", {"name": "a"}),
        ("POST", "/v1/signals", {"key": "theirs", "name": "a"}),
        ("GET", f"/v1/interactions/{question.pk}", None),
        ("POST", f"/v1/interactions/{question.pk}/complete", {"data": 1}),
        ("POST", "/v1/signals/access-other/complete", {"data": 1}),
    ]:
        problem(send(api, method, path, body), 404, "not-found")
    assert "access-gate" in problem(api.post("/v1/instances", {"workflow": "access-other"}), 403, "forbidden")["detail"]
    problem(api.post("/v1/events", {"event": "e"}), 403, "forbidden")
    results = api.post("/v1/signals/bulk", [{"key": "theirs", "name": "a"}, {"key": "mine", "name": "a"}]).json()[
        "results"
    ]
    # One's own is told that it is a function, which reads no signals; of the other nothing is told.
    assert [one["status"] for one in results] == [404, 409]
    problem(api.post("/v1/keys/mine/signals", {"name": "a"}), 409, "no-reader")
    assert api.post("/v1/signals/access-gate/complete", {"data": 1}).status_code == 200
    assert api.post("/v1/instances", {"workflow": "access-gate"}).status_code == 201


# Workspaces


def login(**options) -> tuple[Api, User]:
    user = User.objects.create_superuser("ann", password="x")
    client = Client()
    client.force_login(user)
    return Api(client=client), user


def test_in_a_single_workspace_everybody_is_in_it():
    api, _ = login()
    workflows.start("access-gate")
    assert len(api.get("/v1/instances").json()["results"]) == 1


def test_with_several_workspaces_nobody_is_in_one_without_membership():
    acme = workflows.workspace.create("acme")
    api, user = login()
    problem(api.get("/v1/instances"), 403, "forbidden")
    told = problem(api.get("/v1/instances", workspace="acme"), 403, "forbidden")
    assert told == problem(api.get("/v1/instances", workspace="nowhere"), 403, "forbidden")
    acme.members.add(user)
    workflows.start("access-gate", workspace="acme")
    assert [row["workspace"] for row in api.get("/v1/instances").json()["results"]] == ["acme"]
    problem(api.get("/v1/instances", workspace="default"), 403, "forbidden")


def test_a_member_of_several_has_to_choose():
    acme = workflows.workspace.create("acme")
    api, user = login()
    for one in (acme, Workspace.objects.get(slug="default")):
        one.members.add(user)
    told = problem(api.get("/v1/instances"), 400, "choose-workspace")
    assert told["errors"] == {"workspace": ["acme", "default"]}
    workflows.start("access-gate", workspace="acme")
    assert len(api.get("/v1/instances", workspace="acme").json()["results"]) == 1
    assert len(api.get("/v1/instances", headers={"X-Workspace": "acme"}).json()["results"]) == 1
    assert len(api.get("/v1/instances", workspace="default").json()["results"]) == 0


def only_acme(user):
    return ["acme", "never-made"] if user.username == "ann" else None


def test_the_project_may_say_who_is_where(settings):
    settings.WORKFLOWS = {
        **settings.WORKFLOWS,
        "WORKSPACES_FOR": "tests.workflows.rest.base.test_authentication.only_acme",
    }
    workflows.workspace.create("acme")
    api, _ = login()
    assert api.get("/v1/instances").json()["results"] == []
    problem(api.get("/v1/instances", workspace="default"), 403, "forbidden")


def test_a_key_cannot_be_used_for_another_workspace():
    workflows.workspace.create("acme")
    api = Api(make_key())
    assert api.get("/v1/instances", workspace="default").status_code == 200
    problem(api.get("/v1/instances", workspace="acme"), 403, "forbidden")
    problem(api.get("/v1/instances", headers={"X-Workspace": "acme"}), 403, "forbidden")


def test_what_is_started_lands_in_the_callers_workspace():
    api = Api(make_key(workspace="acme"))
    api.post("/v1/instances", {"workflow": "access-gate", "key": "same"})
    Api(make_key()).post("/v1/instances", {"workflow": "access-gate", "key": "same"})
    assert sorted(Instance.objects.values_list("workspace__slug", "key")) == [("acme", "same"), ("default", "same")]


def test_an_inactive_user_is_a_stranger():
    api, user = login()
    user.is_active = False
    user.save()
    problem(api.get("/v1/instances"), 401, "unauthorized")


# The order


@EACH
def test_the_order_is_401_403_429_then_the_body(settings, method, path, body, scope, permission):
    if method in ("GET", "DELETE"):
        return
    settings.WORKFLOWS = {**settings.WORKFLOWS, "API_RATE": "1/d", "MAX_BODY": 10, "MAX_BULK_BODY": 10}
    broken = b'{"data": ' + b"[" * 40
    problem(send(Api(), method, path, None, raw=broken), 401, "unauthorized")
    weak = Api(make_key("read"))
    assert [send(weak, method, path, None, raw=broken).status_code for _ in range(3)] == [403, 403, 403]
    api = make_caller("ann", scope)
    problem(send(api, method, path, None, raw=broken), 413, "too-large")
    problem(send(api, method, path, None, raw=broken), 429, "too-many-requests")
    settings.WORKFLOWS = {**settings.WORKFLOWS, "API_RATE": None, "MAX_BODY": 1000, "MAX_BULK_BODY": 1000}
    problem(send(api, method, path, None, raw=broken), 400, "invalid-body")
    problem(api.call(method, path, data=b"{}", content_type="text/plain"), 415, "unsupported-media-type")


def test_no_address_below_v1_is_a_page():
    for path in ("/v1", "/v1/", "/v1/nothing", "/v1/instances/", "/v1/instances/x/y/z", "/v1/signals/", "/v1/\n"):
        assert problem(Client().get(path), 404, "not-found")["detail"].startswith("There is no such address")
