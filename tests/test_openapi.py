"""The API's document: valid, complete, the same in every project, and true of every status that it names."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import schemathesis
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client
from drf_spectacular.validation import validate_schema
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

import workflows
from tests.calls import Api, make_key
from tests.openapi_world import ANSWER, Population, populate
from tests.pumps import pumping
from tests.two_connections import _provided_again, committed  # noqa: F401 (fixtures)
from workflows.keys import SCOPES
from workflows.models import Workspace
from workflows.rest import problems
from workflows.rest.openapi import describe_api

PROBLEM = "application/problem+json"
#: What no caller can bring about.
OURS = {"500", "503"}


def list_operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Method, path and operation."""
    for path, item in describe_api()["paths"].items():
        for method, operation in item.items():
            yield method.upper(), path, operation


OPERATIONS = list(list_operations())
EACH = pytest.mark.parametrize(
    ("method", "path", "operation"), OPERATIONS, ids=[operation["operationId"] for *_, operation in OPERATIONS]
)


def walk(value: Any) -> Iterator[dict[str, Any]]:
    """Every object within."""
    if isinstance(value, dict):
        yield value
    for one in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from walk(one)


def make_validator(schema: Mapping[str, Any]) -> Draft202012Validator:
    """For a schema of the document, whose references lead into the document."""
    resource = Resource(contents=describe_api(), specification=DRAFT202012)
    pointed = json.loads(json.dumps(schema).replace('"#/', '"urn:api#/'))
    return Draft202012Validator(
        pointed,
        registry=Registry().with_resource("urn:api", resource),
        format_checker=Draft202012Validator.FORMAT_CHECKER,
    )


# The document


def test_it_is_a_valid_openapi_3_1_document():
    told = describe_api()
    assert told["openapi"].startswith("3.1")
    validate_schema(told)
    schemathesis.openapi.from_dict(told).validate()
    for schema in told["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    assert json.loads(json.dumps(told)) == told


def test_every_reference_leads_somewhere_and_every_part_is_used():
    told = describe_api()
    named = {one["$ref"].removeprefix("#/components/schemas/") for one in walk(told) if "$ref" in one}
    assert named == set(told["components"]["schemas"])


@EACH
def test_every_operation_says_what_it_does_and_what_it_takes(method, path, operation):
    assert re.fullmatch("[a-z]+[A-Za-z]*", operation["operationId"])
    assert operation["summary"]
    assert len(operation["summary"]) <= 60
    [tag] = operation["tags"]
    assert tag in {one["name"] for one in describe_api()["tags"]}
    assert [one["operationId"] for *_, one in OPERATIONS].count(operation["operationId"]) == 1
    if path.startswith("/v1/"):
        assert operation["x-scope"] in SCOPES
        assert operation["security"] == [{"key": []}, {"session": []}]
    told = {one["name"] for one in operation.get("parameters", []) if one["in"] == "path" and one["required"]}
    assert told == set(re.findall(r"\{(\w+)\}", path))
    assert (method == "POST") is ("requestBody" in operation)


@EACH
def test_every_answer_is_described_and_every_error_is_a_problem(method, path, operation):
    assert any(status < "400" for status in operation["responses"])
    for status, answer in operation["responses"].items():
        assert answer["description"], status
        for kind, content in answer["content"].items():
            assert (kind == PROBLEM) is (status >= "400"), status
            if kind == PROBLEM:
                shape = make_validator(content["schema"])
                for short in ({}, {"type": "x", "title": "x", "status": int(status)}):
                    assert not shape.is_valid(short), "a problem has type, title, status and detail"
    if path.startswith("/v1/"):
        assert {"400", "401", "403", "429", "500", "503"} <= set(operation["responses"])
        assert {"409", "413", "415"} <= set(operation["responses"]) or method == "GET"


def test_every_kind_of_problem_is_documented_somewhere():
    kinds = {value.status for value in vars(problems).values() if isinstance(value, problems.Kind)}
    told = {int(status) for *_, operation in OPERATIONS for status in operation["responses"] if status >= "400"}
    assert kinds - told == {405}, "405 is of methods that are not documented"


def test_every_example_is_what_it_is_an_example_of():
    count = 0
    for schema in [one for one in walk(describe_api()) if "examples" in one]:
        for example in schema["examples"]:
            make_validator({name: value for name, value in schema.items() if name != "examples"}).validate(example)
            count += 1
    assert count > 7


#: json.loads stands for a function that fails when it is called.
HOSTILE = {
    "SPECTACULAR_SETTINGS": {
        "OAS_VERSION": "3.0.3",
        "TITLE": "Theirs",
        "VERSION": "99",
        "DESCRIPTION": "Theirs",
        "TOS": "https://theirs.example",
        "CONTACT": {"name": "Theirs"},
        "LICENSE": {"name": "Theirs"},
        "SERVERS": [{"url": "https://theirs.example"}],
        "TAGS": [{"name": "Theirs"}],
        "EXTERNAL_DOCS": {"url": "https://theirs.example"},
        "EXTENSIONS_INFO": {"x-theirs": 1},
        "EXTENSIONS_ROOT": {"x-theirs": 1},
        "SECURITY": [{"theirs": []}],
        "APPEND_PATHS": {"/theirs": {}},
        "APPEND_COMPONENTS": {"schemas": {"Theirs": {}}},
        "SCHEMA_PATH_PREFIX": "/v1",
        "SCHEMA_PATH_PREFIX_TRIM": True,
        "SCHEMA_PATH_PREFIX_INSERT": "/theirs",
        "SCHEMA_COERCE_PATH_PK_SUFFIX": True,
        "COMPONENT_SPLIT_REQUEST": True,
        "COMPONENT_NO_READ_ONLY_REQUIRED": True,
        "ENFORCE_NON_BLANK_FIELDS": True,
        "CAMELIZE_NAMES": True,
        "SORT_OPERATION_PARAMETERS": False,
        "OPERATION_ID_METHOD_POSITION": "PRE",
        "GENERIC_ADDITIONAL_PROPERTIES": "bool",
        "AUTHENTICATION_WHITELIST": [],
        "PARSER_WHITELIST": [],
        "RENDERER_WHITELIST": [],
        "DISABLE_DOCSTRING_DESCRIPTIONS": True,
        "PREPROCESSING_HOOKS": ["json.loads"],
        "POSTPROCESSING_HOOKS": ["json.loads"],
    },
    "REST_FRAMEWORK": {
        "DEFAULT_SCHEMA_CLASS": "rest_framework.schemas.coreapi.AutoSchema",
        "DEFAULT_VERSIONING_CLASS": "rest_framework.versioning.AcceptHeaderVersioning",
        "DEFAULT_VERSION": "9",
        "DEFAULT_AUTHENTICATION_CLASSES": [],
        "DEFAULT_PERMISSION_CLASSES": ["rest_framework.permissions.IsAdminUser"],
        "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.FormParser"],
        "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.StaticHTMLRenderer"],
        "DEFAULT_PAGINATION_CLASS": "rest_framework.pagination.PageNumberPagination",
        "EXCEPTION_HANDLER": "json.loads",
    },
    "LANGUAGE_CODE": "de",
    "FORCE_SCRIPT_NAME": "/theirs",
    "APPEND_SLASH": True,
}


def test_no_setting_of_the_project_changes_it():
    """In a process of its own: both libraries read their settings once."""
    program = f"""
import json, django
from django.conf import settings
from config import settings as shipped
settings.configure(**{{name: getattr(shipped, name) for name in dir(shipped) if name.isupper()}} | {HOSTILE!r})
django.setup()
from workflows.rest.openapi import describe_api
print(json.dumps(describe_api(), sort_keys=True))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == describe_api()


@pytest.mark.django_db
def test_everybody_may_read_it_and_is_told_the_same():
    workflows.workspace.create("openapi-secret")
    stranger, caller = Client().get("/v1/schema"), Api(make_key(workspace="openapi-secret")).get("/v1/schema")
    assert stranger.status_code == 200
    assert stranger.headers["Content-Type"] == "application/vnd.oai.openapi+json; version=3.1"
    assert stranger.content == caller.content
    assert json.loads(stranger.content) == {**describe_api(), "servers": [{"url": "/"}]}
    assert b"openapi-secret" not in stranger.content
    assert Client().head("/v1/schema").status_code == 200
    assert Client().post("/v1/schema").status_code == 405


# What it says is so

ROUTES = [
    (method, re.compile(re.sub(r"\\\{\w+\\\}", "([^/?]+)", re.escape(path)) + r"(\?.*)?\Z"), operation)
    for method, path, operation in OPERATIONS
]


HERE = "http://testserver"


class Witness(Client):
    """A client that holds every answer against the document, and remembers what it has seen."""

    def __init__(self, seen: set[tuple[str, str]]) -> None:
        super().__init__()
        self.seen = seen

    def generic(self, method: str, path: str, *args: Any, **kwargs: Any) -> Any:
        response = super().generic(method, path, *args, **kwargs)
        [operation] = [one for verb, route, one in ROUTES if verb == method and route.match(path.removeprefix(HERE))]
        check_answer(operation, response)
        self.seen.add((operation["operationId"], str(response.status_code)))
        return response


def check_answer(operation: Mapping[str, Any], response: Any) -> None:
    """That the document told of this answer: its status, its type, its headers and its body."""
    where = f"{operation['operationId']} {response.status_code}: {response.content[:500]!r}"
    told = operation["responses"].get(str(response.status_code))
    assert told, where
    kind = response.headers["Content-Type"].partition(";")[0]
    assert kind in told["content"], where
    for name, header in told.get("headers", {}).items():
        assert name in response.headers or not header.get("required"), f"{name} is missing: {where}"
        if name in response.headers:
            text = response.headers[name]
            make_validator(header["schema"]).validate(int(text) if header["schema"]["type"] == "integer" else text)
    if kind.endswith("json"):
        body = response.json()
        make_validator(told["content"][kind]["schema"]).validate(body)
        if kind != PROBLEM and "$ref" in told["content"][kind]["schema"]:
            check_members(body, told["content"][kind]["schema"])


def check_members(body: Mapping[str, Any], schema: Mapping[str, Any]) -> None:
    """That nothing is told that the document does not name."""
    shape = describe_api()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    assert set(body) <= set(shape["properties"])
    for row in body.get("results", ()):
        check_members(row, shape["properties"]["results"]["items"])


ID = str(uuid.UUID(int=7))

world = pytest.mark.django_db(transaction=True)


@pytest.fixture
def population(committed: None, settings: Any) -> Iterator[Population]:  # noqa: F811
    settings.WORKFLOWS = {**settings.WORKFLOWS, "MAX_BULK_BODY": 600_000}
    cache.clear()
    yield populate(3)
    cache.clear()


def list_good_calls(there: Population) -> dict[str, tuple[str, Any, int]]:
    """Of each operation a call that succeeds: address, body, status."""
    live, pending = there.instances["awaiting"][0], there.questions["pending"]
    return {
        "listInstances": ("/v1/instances", None, 200),
        "startInstance": ("/v1/instances", {"workflow": "openapi-order", "key": "openapi-new"}, 201),
        "getInstance": (f"/v1/instances/{live}", None, 200),
        "listInstanceEvents": (f"/v1/instances/{live}/events", None, 200),
        "signalInstance": (f"/v1/instances/{live}/signals", {"name": "note"}, 202),
        "cancelInstance": (f"/v1/instances/{there.instances['sleeping'][0]}/cancel", {}, 200),
        "retryInstance": (f"/v1/instances/{there.instances['failed'][0]}/retry", {}, 200),
        "signalKey": ("/v1/keys/openapi%2F0/signals", {"name": "note"}, 202),
        "signal": ("/v1/signals", {"key": "openapi/0", "name": "note"}, 202),
        "signalMany": (
            "/v1/signals/bulk",
            [{"key": "openapi/0", "name": "note"}, {"instance": ID, "name": "n"}, {"key": 5}],
            207,
        ),
        "emit": ("/v1/events", {"event": "openapi.closed"}, 202),
        "completeSignal": (f"/v1/signals/{pending[0].signal_id}/complete", {"data": ANSWER}, 200),
        "listInteractions": ("/v1/interactions", None, 200),
        "getInteraction": (f"/v1/interactions/{pending[1].pk}", None, 200),
        "completeInteraction": (f"/v1/interactions/{pending[1].pk}/complete", {"data": ANSWER}, 200),
        "resume": (f"/resume/{there.tokens['pending'][0]}", {"data": ANSWER}, 200),
        "healthz": ("/healthz", None, 200),
        "readyz": ("/readyz", None, 200),
        "metrics": ("/metrics", None, 200),
    }


#: Of an address that is there, one that is not.
MISSING = [
    (r"/instances/[^/]+", f"/instances/{ID}"),
    (r"/interactions/[^/]+", f"/interactions/{ID}"),
    (r"/keys/[^/]+", "/keys/nobody"),
    (r"/signals/[^/]+/complete", "/signals/nobody/complete"),
    (r"/resume/.*", "/resume/x"),
]


def refuse(operation: str, interaction: Any, actor: str) -> bool:
    return operation != "resume"


@world
def test_every_status_that_it_names_is_answered_as_it_says(population, settings):
    seen: set[tuple[str, str]] = set()
    api = Api(make_key(), Witness(seen))
    good = list_good_calls(population)
    assert set(good) == {operation["operationId"] for *_, operation in OPERATIONS}
    for method, _, operation in OPERATIONS:
        name, path, body, status = operation["operationId"], *good[operation["operationId"]]
        if "401" in operation["responses"]:
            send(Api(None, Witness(seen)), method, path, body, 401)
            send(Api(make_key(other_than(operation["x-scope"])), Witness(seen)), method, path, body, 403)
        if "429" in operation["responses"]:
            hurried = Api(make_key(rate="1/d"), Witness(seen))
            hurried.get("/v1/instances")
            send(hurried, method, path, body, 429)
        if "404" in operation["responses"]:
            send(api, method, find_missing(path), body | {"key": "nobody"} if name == "signal" else body, 404)
        if method == "POST":
            large = b'"' + b"x" * 600_000 + b'"'
            send(api, method, path, large, 413)
            send(api, method, path, b"{}", 415, content_type="text/plain")
            send(api, method, path, b"{", 400)
        once = {"Idempotency-Key": f"openapi-{name}"} if method == "POST" else {}
        first = send(api, method, path, body, status, headers=once)
        if once:
            again = send(api, method, path, body, status, headers=once)
            assert again.headers["Idempotency-Replayed"] == "true"
            assert again.content == first.content
            send(api, method, path, json.dumps(body).encode() + b" ", 409, headers=once)
    provoke_the_rest(api, population, settings)
    ask_where_two_workspaces_are_to_choose_from(seen, good)
    told = {(one["operationId"], status) for *_, one in OPERATIONS for status in one["responses"] if status not in OURS}
    assert seen - told == {("readyz", "503")}
    assert told - seen == set()


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
    site, settings.WORKFLOWS = settings.WORKFLOWS, {**settings.WORKFLOWS, "POLICY": "tests.test_openapi.refuse"}
    send(api, "POST", f"/resume/{there.tokens['pending'][1]}", {"data": ANSWER}, 403)
    settings.WORKFLOWS = site
    send(api, "GET", "/readyz?require=cluster", None, 503)
    send(api, "GET", "/readyz?require=x", None, 400)


def ask_where_two_workspaces_are_to_choose_from(seen: set[tuple[str, str]], good: Mapping[str, Any]) -> None:
    user = User.objects.create_superuser("openapi-ann")
    for slug in ("default", "openapi-second"):
        Workspace.objects.get_or_create(slug=slug)[0].members.add(user)
    client = Witness(seen)
    client.force_login(user)
    for method, path, operation in OPERATIONS:
        if path.startswith("/v1/"):
            path, body, _ = good[operation["operationId"]]
            send(Api(None, client), method, path, body, 400)


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
