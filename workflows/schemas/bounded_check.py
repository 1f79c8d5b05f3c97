"""Checking data by a JSON Schema with an end: how much work one check may be is known before it begins.

Lives here: the walk of schema and data side by side, and the keywords about what no other has looked at. Must not live
here: the other keywords that look further into the data (`keywords`); those of one value are the library's.
Invariants owned: the verdict is that of the library; a check applies no more than
`MOST_WORK` keywords, whatever is in the data, and is `TooComplex` beyond that; no error repeats the data; below a
choice (anyOf and its like) a schema looks at a list or an object once, a branch ends with its first few errors, and
one of another type, or that a constant rules out, ends at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import islice
from typing import Any

from jsonschema import Draft3Validator, ValidationError
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.jsonschema import lookup_recursive_ref, specification_with

from workflows.schemas.check_budget import ERROR, WORDS, Work, count_tries, current_work
from workflows.schemas.keywords import (
    FEW,
    KEYWORDS,
    REF_ALONE,
    Unexpected,
    check_type_or_schema,
    fits_name,
    make_error,
    make_unexpected,
)

_DYNAMIC = ("$dynamicRef", "$recursiveRef")


class Tree:
    """A schema that is ready to check data: its nodes are made when they are first needed."""

    def __init__(self, schema: dict[str, Any] | bool, dialect: Any, formats: Any) -> None:
        self.formats = formats
        # What these lead to depends on the way that was taken there, so nothing is kept of it.
        text = json.dumps(schema)
        self.dynamic = any(f'"{name}"' in text for name in _DYNAMIC)
        self.chooses = '"$ref"' in text and ('"anyOf"' in text or '"oneOf"' in text)
        self.nodes: dict[int, SchemaNode] = {}
        self.texts: dict[int, frozenset[str]] = {}
        resolver = Registry().resolver_with_root(_specify(dialect).create_resource(schema))
        self.root = SchemaNode(self, schema, resolver, dialect)

    def check(self, data: Any, most: int, work: Work | None = None) -> list[ValidationError]:
        """The first errors of all; `TooComplex` when it is too much to find out."""
        token = current_work.set(work or Work())
        try:
            return list(islice(self.root.find(data), most))
        finally:
            current_work.reset(token)

    def count_tries(self, data: Any) -> int:
        """What `check_budget.count_tries` counts; 0 for a schema without choices between forms."""
        return count_tries(self.root, data, {}) if self.chooses else 0


class SchemaNode:
    """One schema within it, by which a value is checked. Has what the library's keywords ask of a validator."""

    __slots__ = ("deep", "dialect", "format_checker", "resolver", "rules", "schema", "tree")

    def __init__(self, tree: Tree, schema: Any, resolver: Any, dialect: Any) -> None:
        self.tree, self.schema, self.dialect = tree, schema, dialect
        self.format_checker = tree.formats
        self.resolver = resolver
        #: What each keyword does, its name, what it says, and what it costs to look at it once.
        self.rules: list[tuple[Any, str, Any, int]] = []
        if isinstance(schema, dict):
            alone = dialect in REF_ALONE and "$ref" in schema
            words = [("$ref", schema["$ref"])] if alone else sorted(schema.items(), key=_comes_late)
            table = _list_keywords(dialect)
            self.rules = [(table[name], name, value, _weigh(name, value)) for name, value in words if name in table]
        self.deep = any(name in _DEEP for _rule, name, _value, _cost in self.rules)

    def is_type(self, value: Any, kind: str) -> bool:
        """Whether a value is of a type of JSON."""
        found: bool = self.dialect.TYPE_CHECKER.is_type(value, kind)
        return found

    def find(self, value: Any) -> Iterable[ValidationError]:
        """What is wrong with a value."""
        work = current_work.get()
        work.do(1)
        if self.schema is True:
            return ()
        if self.schema is False:
            return (make_error(None, None, value, False),)
        if not self.deep or self.tree.dynamic or not isinstance(value, list | dict):
            return self._find(value, work)
        if (known := work.known.get((id(self), id(value)))) is None:
            if not work.depth:
                return self._find_once(value, work)
            few = FEW[min(work.depth, len(FEW)) - 1]
            known = work.known[id(self), id(value)] = list(islice(self._find(value, work), few))
        return (_copy(error, work) for error in known)

    def _find_once(self, value: Any, work: Work) -> Iterator[ValidationError]:
        right = True
        for error in self._find(value, work):
            right = False
            yield error
        if right:
            work.known[id(self), id(value)] = []

    def _find(self, value: Any, work: Work) -> Iterator[ValidationError]:
        for rule, name, told, cost in self.rules:
            work.do(cost)
            wrong = False
            for error in rule(self, told, value, self.schema) or ():
                wrong = True
                work.do(ERROR)
                if not isinstance(error.validator, str | None):
                    error.validator, error.validator_value = name, told
                    error.instance, error.schema = value, self.schema
                if name not in ("if", "$ref"):
                    error.schema_path.appendleft(name)
                yield error
            if wrong and name == "type" and work.depth:
                return  # of another type: what the branch says of this one does not matter

    def descend(
        self, instance: Any, schema: Any, path: Any = None, schema_path: Any = None, resolver: Any = None
    ) -> Iterator[ValidationError]:
        """What is wrong by another schema; `path` leads from this value to that one."""
        for error in self.go(schema, resolver).find(instance):
            if path is not None:
                error.path.appendleft(path)
            if schema_path is not None:
                error.schema_path.appendleft(schema_path)
            yield error

    def go(self, schema: Any, resolver: Any = None) -> SchemaNode:
        """The node of a schema that this one holds or refers to."""
        if (found := self.tree.nodes.get(id(schema))) is not None and found.schema is schema:
            return found
        dialect = self.dialect
        if isinstance(schema, dict) and "$schema" in schema:
            dialect = validator_for(schema, default=dialect)
        if resolver is None:
            resolver = self.resolver.in_subresource(_specify(dialect).create_resource(schema))
        found = SchemaNode(self.tree, schema, resolver, dialect)
        if not self.tree.dynamic and not isinstance(schema, bool):
            self.tree.nodes[id(schema)] = found
        return found

    def fits(self, value: Any, schema: Any) -> bool:
        """Whether a value is right by a schema."""
        work = current_work.get()
        work.depth += 1
        try:
            return next(iter(self.go(schema).find(value)), None) is None
        finally:
            work.depth -= 1

    def evolve(self, schema: Any) -> SchemaNode:
        """As the library calls `go`."""
        return self.go(schema)

    def is_valid(self, value: Any) -> bool:
        """As the library calls `fits`."""
        return self.fits(value, self.schema)


def _specify(dialect: Any) -> Any:
    return specification_with(dialect.META_SCHEMA.get("$id") or dialect.META_SCHEMA["id"])


def _comes_late(word: tuple[str, Any]) -> int:
    """The type first: the rest is nothing to say of another one."""
    return 0 if word[0] == "type" else 1


def _weigh(name: str, value: Any) -> int:
    """A keyword that names a thousand things looks for each, also in an object that is empty; choices are a set."""
    return 1 + (len(value) // WORDS if isinstance(value, list | dict) and name != "enum" else 0)


def _copy(error: ValidationError, work: Work) -> ValidationError:
    """The same error for another place: on its way up it is told where it stands."""
    work.do(ERROR)
    again = type(error)(
        error.message,
        validator=error.validator,
        validator_value=error.validator_value,
        instance=error.instance,
        schema=error.schema,
        path=error.relative_path,
        schema_path=error.relative_schema_path,
        context=[_copy(inner, work) for inner in error.context or ()],
    )
    if isinstance(error, Unexpected) and isinstance(again, Unexpected):
        again.names = error.names
    return again


# --- which keyword means what --------------------------------------------------------------------------

#: Keywords that look into a value, or at it more than once.
_DEEP = frozenset(
    [
        "$dynamicRef",
        "$recursiveRef",
        "$ref",
        "additionalItems",
        "additionalProperties",
        "allOf",
        "anyOf",
        "contains",
        "dependencies",
        "dependentSchemas",
        "disallow",
        "extends",
        "if",
        "items",
        "not",
        "oneOf",
        "patternProperties",
        "prefixItems",
        "properties",
        "propertyNames",
        "type",
        "unevaluatedItems",
        "unevaluatedProperties",
    ]
) - {"type"}


@cache
def _list_keywords(dialect: Any) -> Mapping[str, Any]:
    """The dialect's own, with ours in the place of those that look further than at one value."""
    ours = {
        **KEYWORDS,
        "unevaluatedItems": _check_items_left,
        "unevaluatedProperties": _check_names_left,
    }
    if dialect is Draft3Validator:
        # Its types may be schemas, and a property says itself that it is required.
        ours["type"], ours["properties"] = check_type_or_schema, dialect.VALIDATORS["properties"]
    return {name: ours.get(name, rule) for name, rule in dialect.VALIDATORS.items()}


# --- what no other keyword has looked at --------------------------------------------------------------


def _check_items_left(node: SchemaNode, left: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(value, list) and len(_find_items(node, value)) < len(value):
        yield Unexpected("")


def _check_names_left(node: SchemaNode, left: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(value, dict):
        return
    looked_at = _find_names(node, value)
    wrong = [name for name in value if name not in looked_at and not node.fits(value[name], left)]
    if wrong:
        yield make_unexpected(wrong)


def _find_items(node: SchemaNode, value: list[Any]) -> set[int]:
    """The items that a schema, or one that it leads to, has looked at."""
    schema = node.schema
    if not isinstance(schema, dict):
        return set()
    if "items" in schema and ("prefixItems" in node.dialect.VALIDATORS or not isinstance(schema["items"], list)):
        return set(range(len(value)))
    if "items" in schema and "additionalItems" in schema:
        return set(range(len(value)))
    found: set[int] = set()
    for keyword in ("prefixItems", "items"):
        if isinstance(schema.get(keyword), list):
            found.update(range(min(len(schema[keyword]), len(value))))
    for keyword in ("contains", "unevaluatedItems"):
        if keyword in schema:
            found.update(index for index, item in enumerate(value) if node.fits(item, schema[keyword]))
    for inner in _list_applied(node, value):
        found |= _find_items(inner, value)
    return found


def _find_names(node: SchemaNode, value: dict[str, Any]) -> set[str]:
    """The same of names."""
    schema = node.schema
    if not isinstance(schema, dict):
        return set()
    found = {name for name in schema.get("properties", ()) if name in value}
    old = "prefixItems" not in node.dialect.VALIDATORS
    for keyword in ("additionalProperties", "unevaluatedProperties"):
        if keyword not in schema:
            continue
        more = schema[keyword]
        if old:
            # So does the library in this draft: `true` is what counts.
            found.update(value if more is True else (n for n in more if n in value) if isinstance(more, dict) else ())
        else:
            found.update(name for name, item in value.items() if node.fits(item, more))
    for pattern in schema.get("patternProperties", ()):
        found.update(name for name in value if fits_name(pattern, name))
    for name, inner in schema.get("dependentSchemas", {}).items():
        if name in value:
            found |= _find_names(node.go(inner), value)
    for further in _list_applied(node, value):
        found |= _find_names(further, value)
    return found


def _list_applied(node: SchemaNode, value: Any) -> Iterator[SchemaNode]:
    """The schemas that look at the very same value and that it fits."""
    schema = node.schema
    current_work.get().do(1 + len(value) // WORDS)
    for keyword in ("$ref", "$dynamicRef"):
        if keyword in schema and keyword in node.dialect.VALIDATORS:
            resolved = node.resolver.lookup(schema[keyword])
            yield node.go(resolved.contents, resolved.resolver)
    if "$recursiveRef" in schema and "$recursiveRef" in node.dialect.VALIDATORS:
        resolved = lookup_recursive_ref(node.resolver)
        yield node.go(resolved.contents, resolved.resolver)
    for keyword in ("allOf", "oneOf", "anyOf"):
        yield from (node.go(inner) for inner in schema.get(keyword, ()) if node.fits(value, inner))
    if "if" in schema:
        if node.fits(value, schema["if"]):
            yield node.go(schema["if"])
            if "then" in schema:
                yield node.go(schema["then"])
        elif "else" in schema:
            yield node.go(schema["else"])
