"""JSON Schema: whether a schema can be used, and whether data fits it.

Invariant owned: nothing is ever fetched. Every `$ref` is followed once when the schema is read, and one that
leads outside it, nowhere, or round in a circle is refused then, as is a pattern that would try a text in too many
ways: checking data can neither reach the network nor run without end.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING, Any

from workflows.exceptions import InvalidCall, InvalidData, InvalidSchema, TooComplex, show
from workflows.schemas.error_messages import (
    MAX_ERRORS,
    MORE,
    TOO_LARGE,
    Errors,
    add_reason,
    collect_error,
    join_place,
)
from workflows.schemas.patterns import SHORTEST, explain_pattern, read_pattern
from workflows.values.json_text import dump_value

if TYPE_CHECKING:
    from workflows.schemas.bounded_check import Tree

#: Keywords whose subschemas look at the same value again.
_SAME_VALUE_ONE = ("not", "if", "then", "else")
_SAME_VALUE_MANY = ("allOf", "anyOf", "oneOf")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


# --- reading ------------------------------------------------------------------------------------------


def dump_schema(given: Any) -> str:
    """The text of what should be a JSON Schema; its properties stay in their order."""
    try:
        return dump_value(given, "the schema")
    except InvalidCall as error:
        raise InvalidSchema(given, str(error)) from error


def read_json_schema(text: str) -> dict[str, Any] | bool:
    """The schema, when it is a usable one."""
    given = schema = json.loads(text)
    dialect = _find_dialect(schema)
    if dialect is None:
        known = "https://json-schema.org/draft/2020-12/schema"
        raise InvalidSchema(given, f'its "$schema" is none that is known here; leave it out or write "{known}"')
    _check_keywords(dialect, schema, given)
    try:
        _check_references(dialect, schema, given)
    except ValueError as error:
        if isinstance(error, InvalidSchema):
            raise
        raise InvalidSchema(given, str(error)) from error
    checked: dict[str, Any] | bool = schema
    return checked


def _find_dialect(schema: Any) -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for

    if isinstance(schema, bool) or "$schema" not in schema:
        return Draft202012Validator
    if not isinstance(schema["$schema"], str):
        return None
    return validator_for(schema, default=None)  # type: ignore[arg-type]


def _check_keywords(dialect: Any, schema: Any, given: Any) -> None:
    from jsonschema.exceptions import SchemaError

    try:
        dialect.check_schema(schema)
    except SchemaError as error:
        where = join_place(error.absolute_path)
        told = f"at {where}, {error.message:.200}" if where else f"{error.message:.200}"
        raise InvalidSchema(given, told) from error


def _check_references(dialect: Any, schema: Any, given: Any) -> None:
    """Walk every subschema, follow every reference, compile every pattern."""
    from referencing import Registry
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import specification_with

    specification = specification_with(dialect.META_SCHEMA.get("$id") or dialect.META_SCHEMA["id"])
    root = specification.create_resource(schema)
    waiting = [(root, Registry().resolver_with_root(root))]
    again: dict[int, list[int]] = {}  # subschema -> those that look at the same value
    while waiting:
        resource, resolver = waiting.pop()
        here = resource.contents
        if id(here) in again:
            continue
        edges: list[int] = []
        again[id(here)] = edges
        if not isinstance(here, dict):
            continue
        _check_patterns(here, given)
        edges.extend(id(inner) for inner in _find_same_value(here))
        for keyword in _REFERENCES:
            if not isinstance(reference := here.get(keyword), str):
                continue
            try:
                found = resolver.lookup(reference)
            except Unresolvable as error:
                raise InvalidSchema(given, _explain_reference(keyword, reference)) from error
            if not isinstance(found.contents, dict | bool):
                raise InvalidSchema(given, f"its {keyword} {show(reference)} leads to something that is no schema")
            _check_keywords(dialect, found.contents, given)
            edges.append(id(found.contents))
            waiting.append((specification.create_resource(found.contents), found.resolver))
        waiting.extend((inner, resolver.in_subresource(inner)) for inner in resource.subresources())
    if _has_circle(again):
        raise InvalidSchema(given, "it refers to itself without end, for one and the same value")


def _explain_reference(keyword: str, reference: str) -> str:
    if reference.startswith("#"):
        return f"its {keyword} {show(reference)} leads nowhere"
    return (
        f"its {keyword} {show(reference)} leads outside the schema, and nothing is ever fetched. Copy what it means "
        'into "$defs" and refer to "#/$defs/<name>"'
    )


def _check_patterns(schema: dict[str, Any], given: Any) -> None:
    """Not every draft's meta-schema looks at all of them."""
    by_pattern = schema.get("patternProperties")
    for pattern in (schema.get("pattern"), *(by_pattern if isinstance(by_pattern, dict) else ())):
        if not isinstance(pattern, str):
            continue
        try:
            longest = read_pattern(pattern).longest
        except (re.error, OverflowError, RecursionError) as error:
            raise InvalidSchema(given, f"the pattern {show(pattern)} is broken: {error}") from error
        if longest < SHORTEST:
            raise InvalidSchema(given, explain_pattern(pattern))


def _find_same_value(schema: dict[str, Any]) -> Iterator[Any]:
    for keyword in _SAME_VALUE_ONE:
        if keyword in schema:
            yield schema[keyword]
    for keyword in _SAME_VALUE_MANY:
        if isinstance(inner := schema.get(keyword), list):
            yield from inner
    for keyword in ("dependentSchemas", "dependencies"):
        if isinstance(inner := schema.get(keyword), dict):
            yield from inner.values()


def _has_circle(edges: dict[int, list[int]]) -> bool:
    """Take away what leads nowhere until nothing changes; what is left goes round."""
    left = {node: {end for end in ends if end in edges} for node, ends in edges.items()}
    while ended := [node for node, ends in left.items() if not ends]:
        for node in ended:
            del left[node]
        gone = set(ended)
        for ends in left.values():
            ends -= gone
    return bool(left)


# --- checking -----------------------------------------------------------------------------------------


def make_tree(schema: dict[str, Any] | bool) -> Tree:
    """The schema, ready to check data; it knows this document and nothing else."""
    from workflows.schemas.bounded_check import Tree

    return Tree(schema, _find_dialect(schema), _make_format_checker())


def check_json(tree: Tree, data: Any, *, all_forms: bool = False) -> None:
    """Raise InvalidData with all that is wrong, and TooComplex where that takes too much to find out.

    `all_forms`: for a class that tries all forms of each choice, however often it has tried them before.
    """
    from workflows.schemas.check_budget import MOST_TRIES

    errors: Errors = {}
    try:
        if all_forms and tree.count_tries(data) > MOST_TRIES:
            raise TooComplex
        for number, error in enumerate(tree.check(data, MAX_ERRORS + 1)):
            if number == MAX_ERRORS:
                add_reason(errors, "", MORE)
                break
            collect_error(error, errors)
    except (RecursionError, OverflowError):
        # A number or a text that no check can work with, such as a thousand digits against a fraction.
        add_reason(errors, "", TOO_LARGE)
    if errors:
        raise InvalidData(errors)


@cache
def _make_format_checker() -> Any:
    from jsonschema import FormatChecker

    checker = FormatChecker(formats=["date", "email", "idn-email", "ipv4", "ipv6", "uuid"])
    checker.checks("date-time", raises=ValueError)(_is_date_time)
    checker.checks("time", raises=ValueError)(_is_time)
    checker.checks("decimal")(lambda value: not isinstance(value, str) or _DECIMAL.fullmatch(value) is not None)
    return checker


#: A zone may be missing: a browser's datetime-local has none, nor has a project with USE_TZ off.
_TIME = r"\d\d:\d\d(:\d\d([.]\d{1,9})?)?([Zz]|[+-]\d\d:\d\d)?"
_DATE_TIME = re.compile(rf"\d{{4}}-\d\d-\d\d[Tt ]{_TIME}", re.ASCII)
_DECIMAL = re.compile(r"\s*[+-]?(\d+([.]\d*)?|[.]\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_TIME_ALONE = re.compile(_TIME, re.ASCII)


def _is_date_time(value: object) -> bool:
    if not isinstance(value, str):
        return True
    return _DATE_TIME.fullmatch(value) is not None and dt.datetime.fromisoformat(value.upper()) is not None


def _is_time(value: object) -> bool:
    if not isinstance(value, str):
        return True
    return _TIME_ALONE.fullmatch(value) is not None and dt.time.fromisoformat(value.upper()) is not None
