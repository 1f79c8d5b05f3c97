"""What keywords of JSON Schema mean that look further than at one value.

Lives here: one function for each keyword, called with the node of its schema. Must not live here: the walk through
schema and data (`bounded_check`), which counts what a keyword costs. Invariant owned: no error repeats the data.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from jsonschema import Draft3Validator, Draft4Validator, Draft6Validator, Draft7Validator, ValidationError
from referencing.jsonschema import lookup_recursive_ref

from workflows.exceptions import TooComplex
from workflows.schemas.check_budget import MOST_WORK, STEPS, TEXT, WRITTEN, current_work
from workflows.schemas.error_messages import NONE_OF
from workflows.schemas.patterns import read_pattern

if TYPE_CHECKING:
    from workflows.schemas.bounded_check import SchemaNode

#: Errors of one branch of a choice, by how many choices it stands below; what is deeper has the last.
FEW = (20, 3, 1)
#: Choices within choices of which the errors are kept to be told.
DEEPEST = 4

#: Drafts in which $ref makes all that stands beside it void.
REF_ALONE = (Draft3Validator, Draft4Validator, Draft6Validator, Draft7Validator)


class Unexpected(ValidationError):
    """Names that are not expected, or items. `names` are of an object."""

    names: list[str] | None = None


def make_error(rule: str | None, told: Any, value: Any, schema: Any) -> ValidationError:
    """The error of a keyword, with what it says and the value that breaks it."""
    keyword: Any = rule  # none, where a schema is just `false`
    return ValidationError("", validator=keyword, validator_value=told, instance=value, schema=schema)


def _limit(kind: str, fails: Any) -> Any:
    def check(node: SchemaNode, limit: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
        if node.is_type(value, kind) and fails(len(value), limit):
            yield ValidationError("")

    return check


def _check_type(node: SchemaNode, kinds: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if not any(node.is_type(value, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds)):
        yield ValidationError("")


def check_type_or_schema(node: SchemaNode, kinds: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    """The type of draft 3, of which each may be a schema."""
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if not any(
        node.fits(value, kind) if isinstance(kind, dict) else kind == "any" or node.is_type(value, kind)
        for kind in kinds
    ):
        yield ValidationError("")


def _check_enum(node: SchemaNode, choices: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    texts = node.tree.texts.get(id(choices))
    if texts is None:
        texts = node.tree.texts[id(choices)] = frozenset(map(_write, choices))
    if _write(value) not in texts:
        yield ValidationError("")


def _check_const(node: SchemaNode, wanted: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if (type(value) is not type(wanted) and (isinstance(value, str) or isinstance(wanted, str))) or _write(
        value
    ) != _write(wanted):
        yield ValidationError("")


def _write(value: Any) -> str:
    """What is the same for JSON Schema has the same text: 1 is 1.0 and not true. Numbers could share one hash."""
    text = json.dumps(_make_comparable(value), sort_keys=True)
    current_work.get().do(len(text) // WRITTEN)
    return text


def _make_comparable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _make_comparable(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_make_comparable(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _fits_pattern(pattern: str, text: str) -> bool:
    found = read_pattern(pattern)
    current_work.get().do(len(text) // TEXT + int(min(found.count_steps(len(text)) // STEPS, MOST_WORK)))
    return found.fits(text)


def _check_pattern(node: SchemaNode, pattern: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(value, str):
        if len(value) > (longest := read_pattern(pattern).longest):
            yield make_error("maxLength", longest, value, schema)
        elif not _fits_pattern(pattern, value):
            yield ValidationError("")


def _check_format(node: SchemaNode, name: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(value, str):
        current_work.get().do(len(value) // TEXT)
        if not node.format_checker.conforms(value, name):
            yield ValidationError("")


def _check_unique(node: SchemaNode, unique: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if unique is True and isinstance(value, list):
        current_work.get().do(len(value))
        if len(set(map(_write, value))) < len(value):
            yield ValidationError("")


def _check_reference(node: SchemaNode, reference: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    resolved = node.resolver.lookup(reference)
    yield from node.descend(value, resolved.contents, resolver=resolved.resolver)


def _check_recursion(node: SchemaNode, reference: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    resolved = lookup_recursive_ref(node.resolver)
    yield from node.descend(value, resolved.contents, resolver=resolved.resolver)


def _check_items(node: SchemaNode, items: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(value, list):
        return
    if isinstance(items, list):
        yield from _check_prefix(node, items, value, schema)
        return
    first = len(schema.get("prefixItems", ())) if "prefixItems" in node.dialect.VALIDATORS else 0
    if items is False and first < len(value):
        yield Unexpected("")
        return
    inner = node.go(items)
    for index in range(first, len(value)):
        for error in inner.find(value[index]):
            error.path.appendleft(index)
            yield error


def _check_prefix(node: SchemaNode, items: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(value, list):
        for index, (item, inner) in enumerate(zip(value, items, strict=False)):
            yield from node.descend(item, inner, path=index, schema_path=index)


def _check_more_items(node: SchemaNode, more: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    items = schema.get("items", {})
    if not isinstance(value, list) or not isinstance(items, list):
        return
    if isinstance(more, dict):
        for index in range(len(items), len(value)):
            yield from node.descend(value[index], more, path=index)
    elif not more and len(value) > len(items):
        yield Unexpected("")


def _check_properties(node: SchemaNode, properties: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(value, dict):
        for name in properties if len(properties) <= len(value) else [name for name in value if name in properties]:
            if name in value:
                yield from node.descend(value[name], properties[name], path=name, schema_path=name)


def _check_named(node: SchemaNode, patterns: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(value, dict):
        for pattern, inner in patterns.items():
            for name, item in value.items():
                if fits_name(pattern, name):
                    yield from node.descend(item, inner, path=name, schema_path=pattern)


def fits_name(pattern: str, name: str) -> bool:
    """Whether a name of an object matches a pattern; `TooComplex` where it is too long to be tried."""
    work = current_work.get()
    work.do(1)
    if len(name) > read_pattern(pattern).longest:
        raise TooComplex
    return _fits_pattern(pattern, name)


def _check_more_names(node: SchemaNode, more: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(value, dict) or more is True:
        return
    patterns = schema.get("patternProperties", ())
    names = _find_more_names(value, schema.get("properties", {}), patterns)
    if isinstance(more, dict):
        for name in names:
            yield from node.descend(value[name], more, path=name)
    elif wrong := list(names):
        yield make_unexpected(wrong)


def _find_more_names(value: Mapping[str, Any], known: Any, patterns: Any) -> Iterator[str]:
    for name in value:
        if name not in known and not any(fits_name(pattern, name) for pattern in patterns):
            yield name


def make_unexpected(names: list[str]) -> Unexpected:
    """The error of names that are not expected."""
    error = Unexpected("")
    error.names = names
    return error


def _check_names(node: SchemaNode, schema_of_names: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    for name in value if isinstance(value, dict) else ():
        yield from node.descend(name, schema_of_names)


def _check_contains(node: SchemaNode, wanted: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(value, list):
        return
    counts = "minContains" in node.dialect.VALIDATORS or node.dialect not in REF_ALONE
    least = schema.get("minContains", 1) if counts else 1
    most = schema.get("maxContains", len(value)) if counts else len(value)
    found = 0
    for item in value:
        if node.fits(item, wanted):
            found += 1
            if found > most:
                yield make_error("maxContains", most, value, schema)
                return
            if not counts:
                return
    if found < least:
        yield ValidationError("") if not found else make_error("minContains", least, value, schema)


def _check_all(node: SchemaNode, schemas: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    for index, inner in enumerate(schemas):
        yield from node.descend(value, inner, schema_path=index)


def _check_any(node: SchemaNode, branches: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    _fitting, error = _choose(node, branches, value)
    if error is not None:
        yield error


def _check_one(node: SchemaNode, branches: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    fitting, error = _choose(node, branches, value)
    if error is not None:
        yield error
    elif any(node.fits(value, inner) for inner in branches[fitting + 1 :]):
        yield ValidationError("")


def _choose(node: SchemaNode, branches: Any, value: Any) -> tuple[int, ValidationError | None]:
    """The first branch that fits; else what is wrong with each."""
    work = current_work.get()
    work.depth += 1
    try:
        few = FEW[min(work.depth, len(FEW)) - 1]
        errors: list[ValidationError] = []
        for index, inner in enumerate(branches):
            branch = _find_ruled_out(node, inner, value) or list(islice(node.go(inner).find(value), few))
            if not branch:
                return index, None
            if work.depth <= DEEPEST:
                for error in branch:
                    error.schema_path.appendleft(index)
                errors.extend(branch)
        if not errors:
            return -1, make_error(NONE_OF, branches, value, node.schema)
        return -1, ValidationError("", context=errors)
    finally:
        work.depth -= 1


def _find_ruled_out(node: SchemaNode, branch: Any, value: Any) -> list[ValidationError]:
    """That a constant rules the branch out, such as {"kind": "card"}, before anything deeper is looked at."""
    while isinstance(branch, dict) and isinstance(branch.get("$ref"), str) and not node.tree.dynamic:
        if len(branch) > 1 and node.dialect not in REF_ALONE:
            return []
        resolved = node.resolver.lookup(branch["$ref"])
        node = node.go(resolved.contents, resolved.resolver)
        branch = node.schema
    if not isinstance(branch, dict) or not isinstance(value, dict) or "$ref" in branch:
        return []
    properties = branch.get("properties")
    for name, inner in properties.items() if isinstance(properties, dict) else ():
        if name not in value or not isinstance(inner, dict) or "$ref" in inner:
            continue
        for word in ("const", "enum"):
            known = word in inner and word in node.dialect.VALIDATORS
            if known and any(KEYWORDS[word](node, inner[word], value[name], inner)):
                error = make_error(word, inner[word], value[name], inner)
                error.path.appendleft(name)
                error.schema_path.extend(["properties", name, word])
                return [error]
    return []


def _check_not(node: SchemaNode, refused: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if node.fits(value, refused):
        yield ValidationError("")


def _check_if(node: SchemaNode, condition: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    way = "then" if node.fits(value, condition) else "else"
    if way in schema:
        yield from node.descend(value, schema[way], schema_path=way)


_SIZES: Mapping[str, tuple[str, Any]] = {
    "minItems": ("array", lambda size, limit: size < limit),
    "maxItems": ("array", lambda size, limit: size > limit),
    "minLength": ("string", lambda size, limit: size < limit),
    "maxLength": ("string", lambda size, limit: size > limit),
    "minProperties": ("object", lambda size, limit: size < limit),
    "maxProperties": ("object", lambda size, limit: size > limit),
}


#: What each keyword does that looks further than at one value, in every draft that has it.
KEYWORDS: Mapping[str, Any] = {
    "$ref": _check_reference,
    "$dynamicRef": _check_reference,
    "$recursiveRef": _check_recursion,
    "type": _check_type,
    "enum": _check_enum,
    "const": _check_const,
    "pattern": _check_pattern,
    "format": _check_format,
    "uniqueItems": _check_unique,
    "items": _check_items,
    "prefixItems": _check_prefix,
    "additionalItems": _check_more_items,
    "properties": _check_properties,
    "patternProperties": _check_named,
    "additionalProperties": _check_more_names,
    "propertyNames": _check_names,
    "contains": _check_contains,
    "allOf": _check_all,
    "anyOf": _check_any,
    "oneOf": _check_one,
    "not": _check_not,
    "if": _check_if,
    **{name: _limit(kind, fails) for name, (kind, fails) in _SIZES.items()},
}
