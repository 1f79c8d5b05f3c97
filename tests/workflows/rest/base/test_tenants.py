"""Two tenants who never learn of each other: every address, method and state, with keys and with sessions.

The calls and the population are `tests.support.worlds.tenants`; an address that it does not know fails here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.test import Client, override_settings

import workflows
from tests.support.api_calls import Api, make_key, problem
from tests.support.routes import list_routes
from tests.support.worlds.tenants import (
    ABOUT,
    CANARY,
    EXEMPT,
    Call,
    Tenant,
    list_calls,
    list_ids,
    populate,
    take_picture,
)
from workflows.conf import conf
from workflows.models import Instance, Workspace
from workflows.testing import drain

pytestmark = pytest.mark.django_db

CALLERS = ("a key", "a key for some workflows", "a session")
#: Asked by these, nothing changes.
READING = {"GET", "HEAD"}


@pytest.fixture(scope="module")
def population(django_db_setup: None, django_db_blocker: Any) -> Iterator[Tenant]:
    """A's rows, made once and there for every test of this file; each takes back what it does to them."""
    calm = {"WORKFLOWS": {**django_settings.WORKFLOWS, "API_RATE": None}, "APPROVALS": {"UNDO_SECONDS": 3600}}
    with django_db_blocker.unblock(), transaction.atomic(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(conf, "supplies_links", False)
        with override_settings(**calm):
            tenant = populate(workflows.workspace.create("acme"), Api(make_key(workspace="acme")))
        yield tenant
        transaction.set_rollback(True)


@pytest.fixture
def a(population: Tenant, settings: Any) -> Tenant:
    settings.WORKFLOWS = {**settings.WORKFLOWS, "API_RATE": None}
    settings.APPROVALS = {"UNDO_SECONDS": 3600}  # nothing of A's is carried out meanwhile
    return population


def make_caller(kind: str) -> Api:
    """Somebody of workspace B and of no other."""
    workspace = workflows.workspace.create("beta")
    if kind == "a session":
        user = User.objects.create_superuser("bea", password="x")
        workspace.members.add(user)
        client = Client(raise_request_exception=False)
        client.force_login(user)
        return Api(client=client)
    names = ["tenants-ship", "tenants-ask"] if kind == "a key for some workflows" else None
    return Api(make_key(workspace="beta", workflows=names), Client(raise_request_exception=False))


BY_CALLER = pytest.mark.parametrize("caller", CALLERS)
#: What differs between two answers that are the same: ids and moments of what each of them made.
ECHO = re.compile(rb'(?<="results": \[\], "next": null, )"previous": "[^"]*cursor=[^"]*"')
OWN = re.compile(rb"(?:acme|nob)-nightly|[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|\d{4}-\d\d-\d\dT[\d:.]+Z")


def tell(response: Any) -> tuple[Any, ...]:
    """All that a caller sees of an answer, but for its date; and for the place in a list that they came with
    themselves: from an empty page the way back leads there."""
    content = ECHO.sub(b'"previous": "~"', response.content)
    return response.status_code, content, {k: v for k, v in response.headers.items() if k != "Date"}


def tell_made(response: Any) -> tuple[Any, ...]:
    """The same of an answer that tells of something new: whatever is its own is left out."""
    status, content, headers = tell(response)
    content = OWN.sub(b"~", content).replace(b'"key": "acme-key"', b"~").replace(b'"key": "nob-key"', b"~")
    headers = {k: OWN.sub(b"~", v.encode()) for k, v in headers.items() if k != "Content-Length"}
    return status, content, headers


def test_every_address_is_walked() -> None:
    """A new one has to say what of a tenant can be asked for there, or that nothing can."""
    names = {route.name for route in list_routes()}
    assert names == set(ABOUT) | set(EXEMPT)
    assert not set(ABOUT) & set(EXEMPT)


@BY_CALLER
def test_what_is_another_tenants_is_told_as_what_is_nobodys_and_costs_the_same_statements(
    a: Tenant, caller: str
) -> None:
    b, before = make_caller(caller), take_picture(a.workspace)
    ids = list_ids(a.workspace)
    walked = set()
    for name, theirs, nobodys in list_share(a, caller):
        (told, cost), (wanted, nobodys_cost) = send_and_note(b, theirs), send_and_note(b, nobodys)
        # What is made is B's own, and makes no difference to A.
        how = tell_made if wanted.status_code in {201, 202} else tell
        assert how(told) == how(wanted), (theirs, told.content[:300], wanted.content[:300])
        assert told.status_code < 500, theirs
        assert CANARY.encode() not in told.content, theirs
        assert not ids & set(re.findall(r"[0-9a-f-]{36}", told.content.decode())), theirs
        if theirs.method in {"GET", "POST"}:  # so neither the clock nor the load tells them apart
            assert cost == nobodys_cost, theirs
        walked.add((name, theirs.method, told.status_code))
    assert {name for name, _, _ in walked} == set(ABOUT)
    # An event reaches every workflow, so it takes a key for all of them; and no key decides.
    told = {"a key": {202, 403}, "a key for some workflows": {403}, "a session": {202}}[caller]
    assert {status for _, _, status in walked} == {200, 201, 207, 400, 404, 405, *told}
    for _, theirs, _ in list_share(a, caller):
        if theirs.method not in READING:  # what those did was not taken back
            theirs.send(b)
    drain()
    assert take_picture(a.workspace) == before


def list_share(a: Tenant, caller: str) -> Iterator[tuple[str, Call, Call]]:
    """Every call for the first caller, and each for one of the others, whose rights are looked at in the same place."""
    number = CALLERS.index(caller)
    return list_calls(a, number - 1, len(CALLERS) - 1) if number else list_calls(a)


def list_addresses(a: Tenant) -> Iterator[Call]:
    """One call for each address and method, and one under A's key: what refuses it comes before what it is about."""
    found: dict[tuple[Any, ...], Call] = {}
    for name, call, _ in list_calls(a):
        if call.method in {"GET", "POST"}:
            found.setdefault((name, call.method, call.headers), call)
    yield from found.values()


def send_and_forget(api: Api, call: Call) -> Any:
    """Send it, and take back what it did, so that the next one finds things as this one did."""
    if call.method in READING:
        return call.send(api)
    with transaction.atomic():
        response = call.send(api)
        transaction.set_rollback(True)
    return response


def send_and_note(api: Api, call: Call) -> tuple[Any, list[str]]:
    """The answer, and the statements that it took."""
    found: list[str] = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        # What is remembered of a key is looked up now and then, whatever is asked for.
        if "holdpoint_api_key" not in sql:
            found.append(re.sub(r'"s\d+_x\d+"', "savepoint", sql))
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        return send_and_forget(api, call), found


@BY_CALLER
def test_lists_show_a_tenant_its_own_and_nothing_else(a: Tenant, caller: str) -> None:
    b = make_caller(caller)
    with workflows.workspace("beta"):
        mine = {str(workflows.start("tenants-ship").pk) for _ in range(5)}
        asked = {str(workflows.start("tenants-ask", {"signal": f"acme-pending-{n}"}).pk) for n in range(4)}
    drain()
    for path, member, wanted in (("/v1/instances", "id", mine | asked), ("/v1/interactions", "instance", asked)):
        for limit in (1, 2, 500):
            assert walk(b, f"{path}?limit={limit}", member) == wanted
        status = "awaiting" if path.endswith("instances") else "pending"
        for query in (f"status={status}", "key=acme-live", "workflow=tenants-person", "assignee=acme-ann"):
            assert walk(b, f"{path}?limit=2&{query}", member) <= wanted
        # A cursor of A's opens nothing: it is a place in B's list.
        for cursor in a.cursors.values():
            response = b.get(f"{path}?cursor={cursor}")
            shown = {row[member] for row in response.json()["results"]} if response.status_code == 200 else set()
            assert shown <= wanted


@BY_CALLER
def test_lists_of_approvals_show_a_tenant_its_own_and_nothing_else(a: Tenant, caller: str) -> None:
    b = make_caller(caller)
    User.objects.get_or_create(username="bea")
    if caller == "a key for some workflows":
        b = Api(make_key(workspace="beta", workflows=["tenants-approve"]))
    options = {"assignees": ["bea"], "groups": ["acme-desk"]}
    with workflows.workspace("beta"):
        wanted = {str(workflows.start("tenants-approve", options).pk) for _ in range(3)}
    drain()
    for status in ("", "open", "any"):
        for limit in (1, 500):
            # The title is what this workflow asks in every workspace.
            told = walk(b, f"/v1/approvals?limit={limit}&status={status}", "instance", canary=False)
            assert told == wanted, status
    assert walk(b, "/v1/approvals?group=acme-desk&status=any", "instance", canary=False) == wanted
    assert walk(b, "/v1/approvals?requester=acme-ben", "instance") == set()
    assert walk(b, "/v1/approvals?assignee=acme-ann&status=any", "instance") == set()


def walk(api: Api, path: str, member: str, *, canary: bool = True) -> set[str]:
    found: list[str] = []
    url: str | None = path
    while url:
        response = api.get(url.removeprefix("http://testserver"))
        assert response.status_code == 200, response.content
        assert not canary or CANARY.encode() not in response.content
        found += [row[member] for row in response.json()["results"]]
        url = response.json()["next"]
    assert len(found) == len(set(found))
    return set(found)


@BY_CALLER
def test_a_name_that_a_tenant_has_taken_is_free_for_another(a: Tenant, caller: str) -> None:
    b = make_caller(caller)
    headers = {"Idempotency-Key": "order-7"}
    body = {"workflow": "tenants-ship", "key": "acme-live"}
    started = b.post("/v1/instances", body, headers)
    assert started.status_code == 201
    assert "Idempotency-Replayed" not in started.headers
    row = Instance.objects.get(pk=started.json()["id"])
    assert (row.workspace.slug, row.key) == ("beta", "acme-live")
    told = problem(b.post("/v1/instances", body), 409, "duplicate-key")
    assert told["existing"] == started.json()["id"]
    signal = b.post("/v1/signals", {"key": "acme-live", "name": "paid", "dedup_key": "d"}, headers).json()
    assert (signal["id"].partition(":")[0], signal["duplicate"]) == (str(row.pk), False)
    with workflows.workspace("beta"):
        workflows.start("tenants-ask", {"signal": "acme-pending"})
    drain()
    before = take_picture(a.workspace)
    answered = b.post("/v1/signals/acme-pending/complete", {"data": {}}, headers)
    assert answered.status_code == 200
    assert answered.json()["id"] not in list_ids(a.workspace)
    assert take_picture(a.workspace) == before


@pytest.mark.parametrize("how", ["parameter", "header"])
@BY_CALLER
def test_a_workspace_that_is_another_tenants_is_refused_as_one_that_is_not(a: Tenant, caller: str, how: str) -> None:
    b, before = make_caller(caller), take_picture(a.workspace)
    for call in list_addresses(a):
        if "?" in call.path:
            continue
        told = [tell(send_to(b, call, slug, how)) for slug in ("acme", "nowhere")]
        assert told[0] == told[1], call
        assert told[0][0] in {403, 405}, call
    assert take_picture(a.workspace) == before
    problem(send_to(b, Call("GET", "/v1/instances"), "acme", how), 403, "forbidden")


def send_to(api: Api, call: Call, slug: str, how: str) -> Any:
    if how == "parameter":
        return Call(call.method, f"{call.path}?workspace={slug}", call.body, call.headers).send(api)
    return Call(call.method, call.path, call.body, (*call.headers, ("X-Workspace", slug))).send(api)


def test_somebody_of_no_workspace_is_told_nothing_of_any(a: Tenant) -> None:
    client = Client(raise_request_exception=False)
    client.force_login(User.objects.create_superuser("zoe", password="x"))
    nobody = Api(client=client)
    assert Workspace.objects.count() > 1
    before = take_picture(a.workspace)
    told = {tell(call.send(nobody))[:2] for call in list_addresses(a)}
    assert {status for status, _ in told} == {403}
    assert all(CANARY not in json.dumps(json.loads(content)) for _, content in told)
    assert take_picture(a.workspace) == before


def test_what_a_key_for_some_workflows_may_not_see_is_not_told_again_to_it() -> None:
    """An idempotency key is easy to guess; the answer that is kept under it is not everybody's in the workspace."""
    whole = Api(make_key(workspace="acme"))
    started = whole.post("/v1/instances", {"workflow": "tenants-ship", "input": {"secret": CANARY}}).json()
    path = f"/v1/instances/{started['id']}/cancel"
    assert whole.post(path, {}, {"Idempotency-Key": "1"}).status_code == 200
    narrow = Api(make_key(workspace="acme", workflows=["tenants-ask"]))
    problem(narrow.get(f"/v1/instances/{started['id']}"), 404, "not-found")
    for body in ({}, {"reason": "x"}):
        response = narrow.post(path, body, {"Idempotency-Key": "1"})
        assert CANARY.encode() not in response.content
        problem(response, 404, "not-found")
