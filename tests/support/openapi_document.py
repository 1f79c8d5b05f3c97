"""The API's document, for tests: its operations, its schemas as validators, and a client that holds answers against it.

What must not: populations (`openapi_world`), assertions about what the document should say.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from django.test import Client
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

from workflows.rest.schema.openapi import describe_api

PROBLEM = "application/problem+json"


def list_operations() -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Method, path and operation."""
    for path, item in describe_api()["paths"].items():
        for method, operation in item.items():
            yield method.upper(), path, operation


OPERATIONS = list(list_operations())


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
    if "content" not in told:
        assert not response.content, where
        return
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
