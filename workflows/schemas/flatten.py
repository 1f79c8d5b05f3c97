"""Reading a JSON Schema: references followed, parts merged, branches brought together, null told apart.

Lives here: what forms and the page of the API both read of a schema. Must not live here: what a keyword means for data
(`bounded_check`), and its words for people. What comes out says what to show, never what is right: a branch that cannot
be shown is left out, and the schema itself judges the answer in the end. Invariants owned: following references always
ends; a schema is only read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from referencing import Registry, Specification
from referencing.exceptions import Unresolvable

from workflows.schemas.field_order import KEYWORD, sort_fields

Json = dict[str, Any]

#: The same definition inside itself: so often it is shown, and below that it is typed as JSON.
MOST_VISITS = 2
#: References and branches that one place is made of; a schema can double them with every line.
MOST_PARTS = 64

_OPAQUE = ("$dynamicRef", "$recursiveRef")
_NOTES = frozenset({"title", "description", "default", "examples", "example", "readOnly", "$comment", "deprecated"})
_BOUNDS = {"minimum": max, "minLength": max, "minItems": max, "maximum": min, "maxLength": min, "maxItems": min}


@dataclass(frozen=True, slots=True)
class Flat:
    """What a place says, whether it may be null, and the definitions on the way to it."""

    keywords: Json
    nullable: bool = False
    trail: tuple[str, ...] = ()
    #: Nothing but JSON will do: it leads into itself too often, or is one of several forms.
    opaque: bool = False


class _TooMuch(Exception):
    pass


def flatten(schema: Any, root: Any, trail: tuple[str, ...] = ()) -> Flat | None:
    """A subschema as one set of keywords; None where nothing is allowed.

    >>> flatten({"anyOf": [{"type": "string"}, {"type": "null"}], "title": "Name"}, {}).keywords
    {'type': 'string', 'title': 'Name'}
    """
    return None if schema is False else _read(schema, root, trail, chooses=True)


def merge_parts(schema: Any, root: Any) -> Flat:
    """A subschema with its references and `allOf` as one set of keywords; `anyOf` and `oneOf` stay as they are.

    >>> merge_parts({"allOf": [{"type": "string"}, {"maxLength": 9}]}, {}).keywords
    {'type': 'string', 'maxLength': 9}
    """
    return _read(schema, root, (), chooses=False)


def _read(schema: Any, root: Any, trail: tuple[str, ...], *, chooses: bool) -> Flat:
    walk = _Walk(root, list(trail), chooses)
    try:
        found = walk.read(schema if isinstance(schema, dict) else {})
    except _TooMuch:
        words = {name: value for name, value in schema.items() if name in _NOTES}
        return Flat(words, trail=trail, opaque=True)
    kinds = found.get("type")
    if isinstance(kinds, list) and "null" in kinds and len(kinds) > 1:
        walk.nullable = True
        rest = [kind for kind in kinds if kind != "null"]
        found = {**found, "type": rest[0] if len(rest) == 1 else rest}
    if isinstance(found.get("enum"), list) and None in found["enum"] and len(found["enum"]) > 1:
        walk.nullable = True
        found = {**found, "enum": [value for value in found["enum"] if value is not None]}
    return Flat(found, walk.nullable, tuple(walk.trail), walk.opaque)


def split_null(branches: Sequence[Json]) -> tuple[list[Json], bool]:
    """The branches of a choice without the one that is null, and whether there was one.

    >>> split_null([{"type": "string"}, {"type": "null"}])
    ([{'type': 'string'}], True)
    """
    left = [branch for branch in branches if not _is_null(branch)]
    return left, len(left) < len(branches)


def _is_null(branch: Json) -> bool:
    return branch.get("type") == "null" or branch.get("const", 0) is None or branch.get("enum") == [None]


def follow_references(node: Mapping[str, Any], root: Any, *, once: bool = False) -> Mapping[str, Any]:
    """The object that a reference stands for, with the members beside it; {} where references form a circle.

    With `once` a reference at its end stays one.
    """
    seen = set[str]()
    while isinstance(reference := node.get("$ref"), str):
        if reference in seen:
            return {}
        seen.add(reference)
        try:
            target = look_up(root, reference)
        except LookupError:
            target = {}
        beside = {name: value for name, value in node.items() if name != "$ref"}
        node = {**target, **beside} if isinstance(target, Mapping) else beside
        if once:
            break
    return node


def look_up(root: Any, reference: str) -> Any:
    """The value that a JSON Pointer inside the document leads to; LookupError where there is none, or no pointer."""
    if reference != "#" and not reference.startswith("#/"):
        raise LookupError(reference)
    try:
        return Specification.OPAQUE.create_resource(root).pointer(reference[1:], Registry().resolver()).contents
    except (Unresolvable, TypeError, ValueError) as error:
        raise LookupError(reference) from error


class _Walk:
    def __init__(self, root: Any, trail: list[str], chooses: bool) -> None:
        self.root, self.trail, self.chooses = root, trail, chooses
        self.nullable = self.opaque = False
        self.left = MOST_PARTS

    def read(self, schema: Json) -> Json:
        self.left -= 1
        if self.left < 0:
            raise _TooMuch
        choices = ("anyOf", "oneOf") if self.chooses else ()
        own = {name: value for name, value in schema.items() if name not in ("$ref", "allOf", *choices)}
        if any(name in schema for name in _OPAQUE):
            self.opaque = True
        found: Json = {}
        if isinstance(reference := schema.get("$ref"), str):
            found = self.follow(reference)
        for part in _list_schemas(schema.get("allOf")):
            found = _merge(found, self.read(part))
        found = _merge(found, own)
        for keyword in choices:
            if isinstance(branches := schema.get(keyword), list):
                found = self.choose(found, branches)
        return _adopt(found, self) if self.chooses else found

    def follow(self, reference: str) -> Json:
        if self.trail.count(reference) >= MOST_VISITS:
            raise _TooMuch
        self.trail.append(reference)
        try:
            target = look_up(self.root, reference)
        except LookupError:
            raise _TooMuch from None
        found = self.read(target) if isinstance(target, dict) else {}
        # A definition is called after its class; the property that it is used for has a better name.
        return {"x-title" if name == "title" else name: value for name, value in found.items()}

    def choose(self, found: Json, branches: list[Any]) -> Json:
        """Bring the branches of a choice together: `T | None`, named values, one decimal in two spellings."""
        read = [self.read(branch if isinstance(branch, dict) else {}) for branch in branches if branch is not False]
        left, nullable = split_null(read)
        if len(left) == 1 and (nullable or len(branches) == 1):
            self.nullable = self.nullable or nullable
            return _merge(left[0], found)
        if left and all("const" in branch or isinstance(branch.get("enum"), list) for branch in left):
            self.nullable = self.nullable or nullable
            return {**found, **_list_values(left)}
        kinds = [branch.get("type") for branch in left]
        if all(kind in ("number", "integer", "string") for kind in kinds) and any(
            branch.get("format") == "decimal" for branch in left
        ):
            self.nullable = self.nullable or nullable
            return {**found, "type": ["number", "string"], "format": "decimal"}
        if "type" in found or "properties" in found:
            # Rules about the same fields, such as "one of these two": the schema itself will judge.
            for branch in left:
                found = _add_properties(found, branch)
            return found
        self.opaque = True
        self.nullable = self.nullable or nullable
        return found


def _adopt(found: Json, walk: _Walk) -> Json:
    """Fields that appear only under a condition can be filled in always."""
    conditional: list[Any] = [found.get("then"), found.get("else")]
    for keyword in ("dependentSchemas", "dependencies"):
        if isinstance(by_name := found.get(keyword), dict):
            conditional.extend(by_name.values())
    for part in _list_schemas(conditional):
        if "properties" in part or "$ref" in part or "allOf" in part or "then" in part:
            found = _add_properties(found, walk.read(part))
    return found


def _add_properties(found: Json, branch: Json) -> Json:
    added = branch.get("properties")
    if not isinstance(added, dict):
        return found
    known = found.get("properties")
    order = [*sort_fields(known if isinstance(known, dict) else (), found), *sort_fields(added, branch)]
    joined = {"properties": {**added, **(known if isinstance(known, dict) else {})}}
    return {**found, **joined, KEYWORD: list(dict.fromkeys(order))}


def _list_values(branches: list[Json]) -> Json:
    """Constants with titles, and enumerations, as one enumeration with labels."""
    values: list[Any] = []
    labels: list[Any] = []
    for branch in branches:
        several = [branch["const"]] if "const" in branch else branch["enum"]
        values.extend(several)
        labels.extend([branch.get("title") if len(several) == 1 else None] * len(several))
    return {"enum": values, "x-labels": labels}


def _merge(first: Json, second: Json) -> Json:
    """Both at once, as far as a form shows it; the second has the last word."""
    merged = {**first, **second}
    for name in first.keys() & second.keys():
        one, other = first[name], second[name]
        if name == "properties" and isinstance(one, dict) and isinstance(other, dict):
            merged[name] = {**one, **other} | {
                each: {"allOf": [one[each], other[each]]} if one[each] != other[each] else one[each]
                for each in one.keys() & other.keys()
            }
        elif name in ("required", KEYWORD) and isinstance(one, list) and isinstance(other, list):
            merged[name] = [*one, *(each for each in other if each not in one)]
        elif name == "enum" and isinstance(one, list) and isinstance(other, list):
            merged[name] = [each for each in one if each in other] or other
        elif name in _BOUNDS and _is_number(one) and _is_number(other):
            merged[name] = _BOUNDS[name](one, other)
        elif name == "type" and {str(one), str(other)} == {"integer", "number"}:
            merged[name] = "integer"
    return merged


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _list_schemas(given: Any) -> Iterator[Json]:
    return (each for each in (given if isinstance(given, list) else ()) if isinstance(each, dict))
