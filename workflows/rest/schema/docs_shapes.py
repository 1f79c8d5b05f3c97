"""What a schema of the API's description allows, in words, and an example of it.

Lives here: reading JSON Schema as OpenAPI 3.1 documents hold it. An object that several places speak of is told once
and named elsewhere; everything else is written out where it is used. Invariant owned: every walk ends, however the
schemas refer to each other.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from workflows.rest.schema.docs_text import Text, read_text
from workflows.schemas.flatten import Json, follow_references, merge_parts, split_null

Schema = Mapping[str, Any]

COMPONENTS = "#/components/"
SCHEMAS = f"{COMPONENTS}schemas/"
#: Levels that are written out; whatever is deeper is only named.
DEEPEST = 8

_SAMPLES: Mapping[str, Any] = {
    "uuid": "0198c2f4-6a51-7c3e-9b0d-5f2e8a41d7c6",
    "date-time": "2026-03-02T09:30:00Z",
    "date": "2026-03-02",
    "time": "09:30:00",
    "uri": "/v1/…",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "string": "…",
}

_BOUNDS: Mapping[str, str] = {
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
    "default": "default {}",
}
_RANGES = (
    ("minLength", "maxLength", " characters"),
    ("minItems", "maxItems", " items"),
    ("minimum", "maximum", ""),
)


@dataclass(frozen=True, slots=True)
class ValueShape:
    """What a value may be: `before name after` in words, where `anchor` leads to the object of that name."""

    name: str
    anchor: str = ""
    before: str = ""
    after: str = ""
    text: Text = ()
    limits: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    pattern: str = ""
    fields: tuple[Member, ...] = ()
    variants: tuple[ValueShape, ...] = ()


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an object, or a parameter, which has a `place`; `anchor` leads to where it is told, if elsewhere."""

    name: str
    required: bool
    shape: ValueShape
    place: str = ""
    anchor: str = ""
    #: Others of the same object are always there, this one is not.
    optional: bool = False


class Shapes:
    """The schemas of one document."""

    def __init__(self, document: Mapping[str, Any], anchors: Mapping[str, str] | None = None) -> None:
        self.document = document
        self.schemas: Mapping[str, Schema] = document.get("components", {}).get("schemas", {})
        #: The objects that are told once, with where.
        self.anchors = anchors or {}

    def find_shared(self) -> list[str]:
        """The names of the objects that more than one place speaks of; bodies of requests are written out anyhow."""
        uses: Counter[str] = Counter()
        waiting: list[Any] = [self.document.get("paths", {})]
        while waiting:
            node = waiting.pop()
            if isinstance(node, list):
                waiting.extend(node)
            elif isinstance(node, Mapping):
                for key, value in node.items():
                    if key == "requestBody" and isinstance(value, Mapping):
                        media = self.resolve(value).get("content", {}).values()
                        waiting.extend(self.resolve(one.get("schema", {})) for one in media)
                    elif key not in {"example", "examples", "default"}:
                        waiting.append(value)
                ref = node.get("$ref")
                if not isinstance(ref, str):
                    continue
                uses[ref] += 1
                if uses[ref] == 1:
                    waiting.append(self.resolve(node, once=True))
        return [name for name, schema in self.schemas.items() if uses[SCHEMAS + name] > 1 and _has_members(schema)]

    def resolve(self, node: Mapping[str, Any], *, once: bool = False) -> Mapping[str, Any]:
        """What a reference stands for, with what is said beside it; {} where it leads in a circle."""
        return follow_references(node, self.document, once=once)

    def name(self, name: str) -> str:
        """What readers call an object: its title, if it has one."""
        return str(self.schemas.get(name, {}).get("title") or name)

    def read(self, schema: Schema, *, depth: int = 0, whole: bool = False) -> ValueShape:
        """A schema in words; `whole` writes out an object even if it has a place of its own."""
        ref = schema.get("$ref", "")
        name = str(ref).removeprefix(SCHEMAS)
        if name in self.anchors and not whole:
            return ValueShape(self.name(name), anchor=self.anchors[name], text=read_text(schema.get("description")))
        flat = merge_parts(schema, self.document)
        schema = flat.keywords
        options, nullable = _split_options(schema)
        after = " or null" if nullable or flat.nullable else ""
        if len(options) == 1:
            inner = self.read(options[0], depth=depth + 1)
            return replace(
                inner,
                after=inner.after + after,
                text=read_text(schema.get("description")) or inner.text,
                limits=(*inner.limits, *_read_limits(schema)),
            )
        kinds = [kind for kind in _list_types(schema) if kind != "null"]
        shape = ValueShape(
            " or ".join(kinds) or _guess_type(schema),
            after=after,
            text=read_text(schema.get("description")),
            limits=tuple(_read_limits(schema)),
            choices=_read_choices(schema),
            pattern=str(schema.get("pattern") or ""),
        )
        if depth >= DEEPEST:
            return shape
        if options:
            variants = tuple(self.read(option, depth=depth + 1) for option in options)
            return replace(shape, name="one of", variants=variants, fields=self._read_fields(schema, depth))
        if "array" in kinds:
            return self._read_list(schema, shape, depth)
        values = schema.get("additionalProperties")
        if isinstance(values, Mapping) and values and not schema.get("properties"):
            inner = self.read(values, depth=depth + 1)
            return replace(inner, before=f"object of {inner.before}", after=inner.after + shape.after, text=shape.text)
        return replace(shape, fields=self._read_fields(schema, depth))

    def make_example(self, schema: Schema, *, writing: bool = False, seen: tuple[str, ...] = ()) -> Any:
        """A value that the schema allows; `writing` leaves out what only answers have, and the other way round."""
        ref = str(schema.get("$ref", ""))
        if ref in seen or len(seen) > 2 * DEEPEST:
            return None
        seen = (*seen, ref or f"#{len(seen)}")
        schema = merge_parts(schema, self.document).keywords
        for given in ("example", "default", "const"):
            if given in schema and not (given == "default" and schema[given] is None):
                return schema[given]
        for given in ("examples", "enum"):
            if isinstance(schema.get(given), list) and schema[given]:
                return schema[given][0]
        options, _ = _split_options(schema)
        if options:
            return self.make_example(options[0], writing=writing, seen=seen)
        kind = next((kind for kind in _list_types(schema) if kind != "null"), _guess_type(schema))
        if kind == "object":
            hidden = "readOnly" if writing else "writeOnly"
            members = schema.get("properties") or {}
            return {
                name: self.make_example(member, writing=writing, seen=seen)
                for name, member in members.items()
                if not merge_parts(member, self.document).keywords.get(hidden)
            }
        if kind == "array":
            return [self.make_example(schema.get("items") or {}, writing=writing, seen=seen)]
        return _SAMPLES.get(str(schema.get("format"))) or _SAMPLES.get(kind)

    def _read_fields(self, schema: Schema, depth: int) -> tuple[Member, ...]:
        required = schema.get("required") or ()
        return tuple(
            Member(
                name,
                name in required,
                self.read(member if isinstance(member, Mapping) else {}, depth=depth + 1),
                optional=bool(required) and name not in required,
            )
            for name, member in (schema.get("properties") or {}).items()
        )

    def _read_list(self, schema: Schema, shape: ValueShape, depth: int) -> ValueShape:
        inner = self.read(schema.get("items") or {}, depth=depth + 1)
        return replace(
            inner,
            before=f"list of {inner.before}",
            after=inner.after + shape.after,
            text=shape.text or inner.text,
            limits=(*shape.limits, *(f"each: {limit}" for limit in inner.limits)),
        )


def _list_types(schema: Schema) -> Sequence[str]:
    given = schema.get("type") or []
    return [given] if isinstance(given, str) else [str(kind) for kind in given]


def _guess_type(schema: Schema) -> str:
    """For a schema that names no type."""
    if schema.get("properties"):
        return "object"
    if schema.get("items"):
        return "array"
    values = schema.get("enum") or ([schema["const"]] if "const" in schema else [])
    return "string" if values and all(isinstance(value, str) for value in values if value is not None) else "any JSON"


def _split_options(schema: Schema) -> tuple[list[Json], bool]:
    """The schemas of which one holds, and whether null is among them."""
    given = schema.get("oneOf") or schema.get("anyOf") or []
    options, nullable = split_null([one for one in given if isinstance(one, dict)])
    return options, nullable or bool(schema.get("nullable"))


def _has_members(schema: Schema) -> bool:
    return any(schema.get(word) for word in ("properties", "allOf", "oneOf", "anyOf"))


def _read_choices(schema: Schema) -> tuple[str, ...]:
    values = [schema["const"]] if "const" in schema else schema.get("enum") or []
    return tuple(_show(value) for value in values if value is not None)


def _read_limits(schema: Schema) -> Iterator[str]:
    if schema.get("format"):
        yield str(schema["format"])
    for least, most, what in _RANGES:
        low, high = schema.get(least), schema.get(most)
        if low is not None and high is not None:
            yield f"{low}{what}" if low == high else f"{low} to {high}{what}"
        elif low is not None or high is not None:
            empty = "not empty" if low == 1 and what else f"at least {low}{what}"
            yield empty if high is None else f"at most {high}{what}"
    if schema.get("uniqueItems"):
        yield "none twice"
    for word, wording in _BOUNDS.items():
        if schema.get(word) is not None:
            yield wording.format(_show(schema[word]))
    if schema.get("additionalProperties") is False:
        yield "no other members"
    for word, told in (
        ("readOnly", "only in answers"),
        ("writeOnly", "never in answers"),
        ("deprecated", "deprecated"),
    ):
        if schema.get(word) is True:
            yield told


def _show(value: object) -> str:
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False, default=str)
