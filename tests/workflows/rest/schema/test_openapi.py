"""The API's document: valid, complete, and the same in every project. That it is true: test_openapi_truth, …_fuzz."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
import schemathesis
from django.test import Client
from drf_spectacular.validation import validate_schema
from jsonschema import Draft202012Validator

import workflows
from tests.support.api_calls import Api, make_key
from tests.support.openapi_document import OPERATIONS, PROBLEM, make_validator, walk
from workflows.access.api_keys import SCOPES
from workflows.rest.schema.docs_page import list_kinds
from workflows.rest.schema.openapi import describe_api

EACH = pytest.mark.parametrize(
    ("method", "path", "operation"), OPERATIONS, ids=[operation["operationId"] for *_, operation in OPERATIONS]
)


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
    if path.startswith("/v1/") and operation["security"] != [{"session": []}]:
        assert operation["x-scope"] in SCOPES
        assert operation["security"] == [{"key": []}, {"session": []}]
    told = {one["name"] for one in operation.get("parameters", []) if one["in"] == "path" and one["required"]}
    assert told == set(re.findall(r"\{(\w+)\}", path))
    assert (method in {"POST", "PATCH"}) is ("requestBody" in operation)


@EACH
def test_every_answer_is_described_and_every_error_is_a_problem(method, path, operation):
    assert any(status < "400" for status in operation["responses"])
    for status, answer in operation["responses"].items():
        assert answer["description"], status
        assert ("content" in answer) is (status != "204")
        for kind, content in answer.get("content", {}).items():
            assert (kind == PROBLEM) is (status >= "400"), status
            if kind == PROBLEM:
                shape = make_validator(content["schema"])
                for short in ({}, {"type": "x", "title": "x", "status": int(status)}):
                    assert not shape.is_valid(short), "a problem has type, title, status and detail"
    if path.startswith("/v1/"):
        assert {"400", "401", "403", "429", "500", "503"} <= set(operation["responses"])
        assert {"409", "413", "415"} <= set(operation["responses"]) or method in ("GET", "DELETE")


def test_what_takes_a_person_says_so_and_names_no_scope():
    people = {one["operationId"] for *_, one in OPERATIONS if one["security"] == [{"session": []}]}
    assert people == {
        "decideApproval",
        "claimApproval",
        "releaseApproval",
        "delegateApproval",
        "commentApproval",
        "requestInfo",
        "undoApproval",
    }
    assert not [one["operationId"] for *_, one in OPERATIONS if one["operationId"] in people and "x-scope" in one]


def test_every_kind_of_problem_is_documented_somewhere():
    kinds = {kind.status for kind in list_kinds()}
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
from workflows.rest.schema.openapi import describe_api
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
