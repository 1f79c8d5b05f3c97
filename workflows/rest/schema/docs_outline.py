"""An OpenAPI 3.1 document as the documentation page tells it: groups of operations, and the objects they share.

Lives here: reading paths, parameters, bodies and responses. What nearly every operation takes or answers alike is told
once, and only named at the operations. Invariant owned: every operation, and with it every status that it may answer,
is in the outline, at an address (`anchor`) that no other part of the page has.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any

from django.utils.text import slugify

from workflows.rest.schema.docs_calls import find_content, show_json, write_call
from workflows.rest.schema.docs_shapes import SCHEMAS, Member, Shapes, ValueShape
from workflows.rest.schema.docs_text import Text, read_text

METHODS = ("get", "head", "post", "put", "patch", "delete", "options", "trace")
PLACES = ("path", "query", "header", "cookie")
JSON = "application/json"
PROBLEM = "application/problem+json"


@dataclass(frozen=True, slots=True)
class DescribedResponse:
    """What may come back with one status. `anchor` leads to where it is told, if that is elsewhere."""

    anchor: str
    status: str
    phrase: str
    text: Text
    headers: tuple[Member, ...]
    shape: ValueShape | None
    is_problem: bool
    #: Captions and texts.
    examples: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Example:
    """An answer, and the responses that look like this."""

    caption: str
    text: str
    is_problem: bool


@dataclass(frozen=True, slots=True)
class DescribedOperation:
    """One method of one address."""

    anchor: str
    method: str
    path: str
    summary: str
    text: Text
    #: What a key needs; "" where the document does not say.
    scope: str
    #: "required", "optional", "none", or "session" where a person calls and no key does.
    access: str
    is_deprecated: bool
    parameters: tuple[Member, ...]
    usual_parameters: tuple[Member, ...]
    body: ValueShape | None
    body_required: bool
    responses: tuple[DescribedResponse, ...]
    usual_responses: tuple[DescribedResponse, ...]
    call: str
    examples: tuple[Example, ...]


@dataclass(frozen=True, slots=True)
class OperationGroup:
    """The operations of one tag."""

    anchor: str
    name: str
    text: Text
    operations: tuple[DescribedOperation, ...]


@dataclass(frozen=True, slots=True)
class Shared:
    """An object that several places speak of."""

    anchor: str
    name: str
    shape: ValueShape
    example: str


@dataclass(frozen=True, slots=True)
class Api:
    """All of it."""

    title: str
    version: str
    text: Text
    #: What nearly all operations take and answer.
    parameters: tuple[Member, ...]
    responses: tuple[DescribedResponse, ...]
    groups: tuple[OperationGroup, ...]
    objects: tuple[Shared, ...]


class Outline:
    """Reads one document."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self.taken = set[str]()
        anchors = {name: self.name_anchor("object", name) for name in Shapes(document).find_shared()}
        self.shapes = Shapes(document, anchors)
        #: What is told once: how it is written in the document -> its address.
        self.usual: dict[str, str] = {}

    def read(self) -> Api:
        """The document's outline."""
        info = self.document.get("info", {})
        usual = self._find_usual()
        self.usual = {key: self.name_anchor("every", name) for key, (name, _) in usual.items()}
        told = [one for _, one in usual.values()]
        return Api(
            title=str(info.get("title") or "API"),
            version=str(info.get("version") or ""),
            text=read_text(info.get("description")),
            parameters=tuple(self._read_parameter(one) for one in told if isinstance(one, Mapping)),
            responses=tuple(self._read_response(*one) for one in told if isinstance(one, tuple)),
            groups=tuple(self._read_groups()),
            objects=tuple(self._read_objects()),
        )

    def _find_usual(self) -> dict[str, tuple[str, Any]]:
        """Parameters and problems that two of three operations have, word for word, and how each is called.

        What only those with a body have is told once where two of three of these have it.
        """
        found: dict[str, tuple[str, Any]] = {}
        uses: dict[bool, Counter[str]] = {True: Counter(), False: Counter()}
        totals = {True: 0, False: 0}
        for _, item, method in self._list_operations():
            has_body = "requestBody" in item[method]
            totals[has_body] += 1
            for one in self._list_parameters(item, method):
                if one.get("in") != "path":
                    found.setdefault(_write_key(one), (str(one.get("name")), one))
                    uses[has_body][_write_key(one)] += 1
            for status, one in self._list_responses(item[method]):
                if find_content(one)[0] == PROBLEM:
                    found.setdefault(_write_key(status, one), (status, (status, one)))
                    uses[has_body][_write_key(status, one)] += 1

        def is_usual(key: str) -> bool:
            count, total = uses[True][key], totals[True]
            if uses[False][key]:
                count, total = count + uses[False][key], total + totals[False]
            return count > 3 and 3 * count >= 2 * total

        usual = {key: told for key, told in found.items() if is_usual(key)}
        return dict(sorted(usual.items(), key=lambda one: one[1][0].lower()))

    def _list_operations(self) -> Iterator[tuple[str, Mapping[str, Any], str]]:
        for path, item in self.document.get("paths", {}).items():
            yield from ((path, item, method) for method in METHODS if isinstance(item.get(method), Mapping))

    def _list_parameters(self, item: Mapping[str, Any], method: str) -> list[Mapping[str, Any]]:
        """An operation's own parameter stands for the path's one of the same name and place."""
        given = (*item.get("parameters", ()), *item[method].get("parameters", ()))
        resolved = [self.shapes.resolve(one) for one in given]
        own = {(one.get("in"), one.get("name")): one for one in resolved}.values()
        return sorted(own, key=lambda one: PLACES.index(one.get("in")) if one.get("in") in PLACES else len(PLACES))

    def _list_responses(self, told: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for status, one in sorted(told.get("responses", {}).items(), key=lambda one: str(one[0])):
            yield str(status), self.shapes.resolve(one)

    def name_anchor(self, kind: str, name: str) -> str:
        """An address within the page that nothing else has."""
        words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "-", name)
        base = anchor = f"{kind}-{slugify(words)}".rstrip("-")
        number = 1
        while anchor in self.taken:
            number += 1
            anchor = f"{base}-{number}"
        self.taken.add(anchor)
        return anchor

    def _read_groups(self) -> Iterator[OperationGroup]:
        told = {str(tag.get("name")): tag.get("description") for tag in self.document.get("tags", [])}
        found: dict[str, list[DescribedOperation]] = {name: [] for name in told}
        for path, item, method in self._list_operations():
            tag = next(iter(item[method].get("tags", [])), "Other")
            found.setdefault(str(tag), []).append(self._read_operation(path, item, method))
        for name, operations in found.items():
            if operations:
                anchor = self.name_anchor("tag", name)
                yield OperationGroup(anchor, name[:1].upper() + name[1:], read_text(told.get(name)), tuple(operations))

    def _read_operation(self, path: str, item: Mapping[str, Any], method: str) -> DescribedOperation:
        told: Mapping[str, Any] = item[method]
        security = told.get("security", self.document.get("security", []))
        parameters = self._list_parameters(item, method)
        fields = [self._read_parameter(one) for one in parameters]
        responses = [self._read_response(status, one) for status, one in self._list_responses(told)]
        body = self.shapes.resolve(told.get("requestBody", {}))
        access = find_access(security)
        return DescribedOperation(
            anchor=self.name_anchor("op", str(told.get("operationId") or f"{method} {path}")),
            method=method.upper(),
            path=path,
            summary=str(told.get("summary") or told.get("operationId") or path),
            text=read_text(told.get("description")),
            scope=find_scope(told, security),
            access=access,
            is_deprecated=bool(told.get("deprecated")),
            parameters=tuple(one for one in fields if not one.anchor),
            usual_parameters=tuple(one for one in fields if one.anchor),
            body=self.shapes.read(find_content(body)[1].get("schema", {}), whole=True) if body else None,
            body_required=bool(body.get("required")),
            responses=tuple(one for one in responses if not one.anchor),
            usual_responses=tuple(one for one in responses if one.anchor),
            call=write_call(self.shapes, path, method, parameters, body, access=access),
            examples=tuple(_join_examples(responses)),
        )

    def _read_parameter(self, told: Mapping[str, Any]) -> Member:
        schema = dict(told.get("schema") or {})
        if told.get("description"):
            schema["description"] = told["description"]
        return Member(
            str(told.get("name", "")),
            bool(told.get("required")),
            self.shapes.read(schema, whole=True),
            place=str(told.get("in", "")),
            anchor=self.usual.get(_write_key(told), ""),
        )

    def _read_response(self, status: str, told: Mapping[str, Any]) -> DescribedResponse:
        media, content = find_content(told)
        schema = content.get("schema")
        headers = (
            self._read_parameter({"name": name, **self.shapes.resolve(one)})
            for name, one in told.get("headers", {}).items()
        )
        return DescribedResponse(
            anchor=self.usual.get(_write_key(status, told), ""),
            status=status,
            phrase=name_status(status),
            text=read_text(told.get("description")),
            headers=tuple(headers),
            shape=self.shapes.read(schema) if schema else None,
            is_problem=media == PROBLEM,
            examples=tuple(self._read_examples(f"{status} {name_status(status)}", content, media)),
        )

    def _read_examples(self, caption: str, content: Mapping[str, Any], media: str) -> Iterator[tuple[str, str]]:
        """The document's own; else one that is made from the schema. All problems look alike: of these none is made."""
        named = content.get("examples") or {}
        for name, one in named.items():
            one = self.shapes.resolve(one)
            yield f"{caption}: {one.get('summary') or name}", show_json(one.get("value"))
        if "example" in content:
            yield caption, show_json(content["example"])
        elif not named and media == JSON and (value := self.shapes.make_example(content.get("schema") or {})):
            yield caption, show_json(value)

    def _read_objects(self) -> Iterator[Shared]:
        for name, anchor in self.shapes.anchors.items():
            schema = {"$ref": SCHEMAS + name}
            yield Shared(
                anchor,
                self.shapes.name(name),
                self.shapes.read(schema, whole=True),
                show_json(self.shapes.make_example(schema)),
            )


def find_scope(told: Mapping[str, Any], security: list[Mapping[str, Any]]) -> str:
    """What a key needs: an extension of ours, or what the security requirement names."""
    for name, value in told.items():
        if name.startswith("x-") and "scope" in name:
            return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
    return ", ".join(dict.fromkeys(str(scope) for one in security for scopes in one.values() for scope in scopes))


def find_access(security: list[Mapping[str, Any]]) -> str:
    """Who may call: whoever has a key, or whoever is logged in."""
    if not any(security):
        return "none"
    if {} in security:
        return "optional"
    return "session" if all("session" in one for one in security) else "required"


def name_status(status: str) -> str:
    """A status in words; "" for a range or "default"."""
    try:
        return HTTPStatus(int(status)).phrase
    except ValueError:
        return ""


def _join_examples(responses: list[DescribedResponse]) -> Iterator[Example]:
    """Each text once, under all of its captions."""
    found: dict[tuple[str, bool], list[str]] = {}
    for response in responses:
        for caption, text in response.examples:
            found.setdefault((text, response.is_problem), []).append(caption)
    for (text, is_problem), captions in found.items():
        yield Example(", ".join(captions), text, is_problem)


def _write_key(*told: Any) -> str:
    return json.dumps(told, sort_keys=True, default=str)
