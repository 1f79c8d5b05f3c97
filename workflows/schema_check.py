"""Checking data by a JSON Schema with an end: how much work one check may be is known before it begins.

Lives here: the walk of schema and data side by side, and the keywords that look further into the data. What a keyword
of one value means is the library's. Invariants owned: the verdict is that of the library; a check applies no more than
`MOST_WORK` keywords, whatever is in the data, and is `TooComplex` beyond that; no error repeats the data; below a
choice (anyOf and its like) a schema looks at a list or an object once, a branch ends with its first few errors, and
one of another type, or that a constant rules out, ends at once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from typing import Any

from jsonschema import Draft3Validator, Draft4Validator, Draft6Validator, Draft7Validator, ValidationError
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.jsonschema import lookup_recursive_ref, specification_with

from workflows.exceptions import TooComplex
from workflows.schema_patterns import read_pattern
from workflows.schema_words import NONE_OF

#: Keywords that are applied to values, and errors that are made, in one check: some two seconds of a process.
MOST_WORK = 2_000_000
#: Values that a class looks at, which remembers none: each takes it longer.
MOST_TRIES = 500_000
#: What an error costs, to be made or to be told again at another place.
ERROR = 10
#: Characters that cost as much as a keyword.
TEXT = 256
#: The same of steps in which a pattern is tried.
STEPS = 100
#: The same of a value that is written down to be compared, and of names and items.
WRITTEN = 16
WORDS = 16
#: Errors of one branch of a choice, by how many choices it stands below; what is deeper has the last.
FEW = (20, 3, 1)
#: Choices within choices of which the errors are kept to be told.
DEEPEST = 4

#: Drafts in which $ref makes all that stands beside it void.
_REF_ALONE = (Draft3Validator, Draft4Validator, Draft6Validator, Draft7Validator)
_DYNAMIC = ("$dynamicRef", "$recursiveRef")


class Unexpected(ValidationError):
    """Names that are not expected, or items. `names` are of an object."""

    names: list[str] | None = None


@dataclass(slots=True)
class Work:
    """One check, as far as it has come."""

    left: int = MOST_WORK
    #: How many choices the walk is below.
    depth: int = 0
    #: (schema, list or object) -> its errors, the first few of them.
    known: dict[tuple[int, int], list[ValidationError]] = field(default_factory=dict)

    def do(self, cost: int) -> None:
        """Count something that has a cost."""
        self.left -= cost
        if self.left < 0:
            raise TooComplex


_work: ContextVar[Work] = ContextVar("work")


class Tree:
    """A schema that is ready to check data: its nodes are made when they are first needed."""

    def __init__(self, schema: dict[str, Any] | bool, dialect: Any, formats: Any) -> None:
        self.formats = formats
        # What these lead to depends on the way that was taken there, so nothing is kept of it.
        text = json.dumps(schema)
        self.dynamic = any(f'"{name}"' in text for name in _DYNAMIC)
        self.chooses = '"$ref"' in text and ('"anyOf"' in text or '"oneOf"' in text)
        self.nodes: dict[int, Node] = {}
        self.texts: dict[int, frozenset[str]] = {}
        resolver = Registry().resolver_with_root(_specify(dialect).create_resource(schema))
        self.root = Node(self, schema, resolver, dialect)

    def check(self, data: Any, most: int, work: Work | None = None) -> list[ValidationError]:
        """The first errors of all; `TooComplex` when it is too much to find out."""
        token = _work.set(work or Work())
        try:
            return list(islice(self.root.find(data), most))
        finally:
            _work.reset(token)

    def count_tries(self, data: Any) -> int:
        """How often a reader that remembers nothing looks at values, where it tries all forms of each choice."""
        return _count_tries(self.root, data, {}) if self.chooses else 0


class Node:
    """One schema within it, by which a value is checked. Has what the library's keywords ask of a validator."""

    __slots__ = ("deep", "dialect", "format_checker", "resolver", "rules", "schema", "tree")

    def __init__(self, tree: Tree, schema: Any, resolver: Any, dialect: Any) -> None:
        self.tree, self.schema, self.dialect = tree, schema, dialect
        self.format_checker = tree.formats
        self.resolver = resolver
        #: What each keyword does, its name, what it says, and what it costs to look at it once.
        self.rules: list[tuple[Any, str, Any, int]] = []
        if isinstance(schema, dict):
            alone = dialect in _REF_ALONE and "$ref" in schema
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
        work = _work.get()
        work.do(1)
        if self.schema is True:
            return ()
        if self.schema is False:
            return (_make(None, None, value, False),)
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

    def go(self, schema: Any, resolver: Any = None) -> Node:
        """The node of a schema that this one holds or refers to."""
        if (found := self.tree.nodes.get(id(schema))) is not None and found.schema is schema:
            return found
        dialect = self.dialect
        if isinstance(schema, dict) and "$schema" in schema:
            dialect = validator_for(schema, default=dialect)
        if resolver is None:
            resolver = self.resolver.in_subresource(_specify(dialect).create_resource(schema))
        found = Node(self.tree, schema, resolver, dialect)
        if not self.tree.dynamic and not isinstance(schema, bool):
            self.tree.nodes[id(schema)] = found
        return found

    def fits(self, value: Any, schema: Any) -> bool:
        """Whether a value is right by a schema."""
        work = _work.get()
        work.depth += 1
        try:
            return next(iter(self.go(schema).find(value)), None) is None
        finally:
            work.depth -= 1

    def evolve(self, schema: Any) -> Node:
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


def _make(rule: str | None, told: Any, value: Any, schema: Any) -> ValidationError:
    keyword: Any = rule  # none, where a schema is just `false`
    return ValidationError("", validator=keyword, validator_value=told, instance=value, schema=schema)


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


# --- keywords -----------------------------------------------------------------------------------------

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
        "unevaluatedItems": _check_items_left,
        "unevaluatedProperties": _check_names_left,
        **{name: _limit(kind, fails) for name, (kind, fails) in _SIZES.items()},
    }
    if dialect is Draft3Validator:
        # Its types may be schemas, and a property says itself that it is required.
        ours["type"], ours["properties"] = _check_type_or_schema, dialect.VALIDATORS["properties"]
    return {name: ours.get(name, rule) for name, rule in dialect.VALIDATORS.items()}


_SIZES: Mapping[str, tuple[str, Any]] = {
    "minItems": ("array", lambda size, limit: size < limit),
    "maxItems": ("array", lambda size, limit: size > limit),
    "minLength": ("string", lambda size, limit: size < limit),
    "maxLength": ("string", lambda size, limit: size > limit),
    "minProperties": ("object", lambda size, limit: size < limit),
    "maxProperties": ("object", lambda size, limit: size > limit),
}


def _limit(kind: str, fails: Any) -> Any:
    def check(node: Node, limit: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
        if node.is_type(value, kind) and fails(len(value), limit):
            yield ValidationError("")

    return check


def _check_type(node: Node, kinds: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if not any(node.is_type(value, kind) for kind in ([kinds] if isinstance(kinds, str) else kinds)):
        yield ValidationError("")


def _check_type_or_schema(node: Node, kinds: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    kinds = kinds if isinstance(kinds, list) else [kinds]
    if not any(
        node.fits(value, kind) if isinstance(kind, dict) else kind == "any" or node.is_type(value, kind)
        for kind in kinds
    ):
        yield ValidationError("")


def _check_enum(node: Node, choices: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    texts = node.tree.texts.get(id(choices))
    if texts is None:
        texts = node.tree.texts[id(choices)] = frozenset(map(_write, choices))
    if _write(value) not in texts:
        yield ValidationError("")


def _check_const(node: Node, wanted: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if (type(value) is not type(wanted) and (isinstance(value, str) or isinstance(wanted, str))) or _write(
        value
    ) != _write(wanted):
        yield ValidationError("")


def _write(value: Any) -> str:
    """What is the same for JSON Schema has the same text: 1 is 1.0 and not true. Numbers could share one hash."""
    text = json.dumps(_make_comparable(value), sort_keys=True)
    _work.get().do(len(text) // WRITTEN)
    return text


def _make_comparable(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _make_comparable(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_make_comparable(inner) for inner in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _fits_pattern(pattern: str, text: str) -> bool:
    found = read_pattern(pattern)
    _work.get().do(len(text) // TEXT + int(min(found.count_steps(len(text)) // STEPS, MOST_WORK)))
    return found.fits(text)


def _check_pattern(node: Node, pattern: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(value, str):
        if len(value) > (longest := read_pattern(pattern).longest):
            yield _make("maxLength", longest, value, schema)
        elif not _fits_pattern(pattern, value):
            yield ValidationError("")


def _check_format(node: Node, name: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(value, str):
        _work.get().do(len(value) // TEXT)
        if not node.format_checker.conforms(value, name):
            yield ValidationError("")


def _check_unique(node: Node, unique: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if unique is True and isinstance(value, list):
        _work.get().do(len(value))
        if len(set(map(_write, value))) < len(value):
            yield ValidationError("")


def _check_reference(node: Node, reference: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    resolved = node.resolver.lookup(reference)
    yield from node.descend(value, resolved.contents, resolver=resolved.resolver)


def _check_recursion(node: Node, reference: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    resolved = lookup_recursive_ref(node.resolver)
    yield from node.descend(value, resolved.contents, resolver=resolved.resolver)


def _check_items(node: Node, items: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
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


def _check_prefix(node: Node, items: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(value, list):
        for index, (item, inner) in enumerate(zip(value, items, strict=False)):
            yield from node.descend(item, inner, path=index, schema_path=index)


def _check_more_items(node: Node, more: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    items = schema.get("items", {})
    if not isinstance(value, list) or not isinstance(items, list):
        return
    if isinstance(more, dict):
        for index in range(len(items), len(value)):
            yield from node.descend(value[index], more, path=index)
    elif not more and len(value) > len(items):
        yield Unexpected("")


def _check_properties(node: Node, properties: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(value, dict):
        for name in properties if len(properties) <= len(value) else [name for name in value if name in properties]:
            if name in value:
                yield from node.descend(value[name], properties[name], path=name, schema_path=name)


def _check_named(node: Node, patterns: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(value, dict):
        for pattern, inner in patterns.items():
            for name, item in value.items():
                if _fits_name(pattern, name):
                    yield from node.descend(item, inner, path=name, schema_path=pattern)


def _fits_name(pattern: str, name: str) -> bool:
    work = _work.get()
    work.do(1)
    if len(name) > read_pattern(pattern).longest:
        raise TooComplex
    return _fits_pattern(pattern, name)


def _check_more_names(node: Node, more: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(value, dict) or more is True:
        return
    patterns = schema.get("patternProperties", ())
    names = _find_more_names(value, schema.get("properties", {}), patterns)
    if isinstance(more, dict):
        for name in names:
            yield from node.descend(value[name], more, path=name)
    elif wrong := list(names):
        yield _tell_names(wrong)


def _find_more_names(value: Mapping[str, Any], known: Any, patterns: Any) -> Iterator[str]:
    for name in value:
        if name not in known and not any(_fits_name(pattern, name) for pattern in patterns):
            yield name


def _tell_names(names: list[str]) -> Unexpected:
    error = Unexpected("")
    error.names = names
    return error


def _check_names(node: Node, schema_of_names: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    for name in value if isinstance(value, dict) else ():
        yield from node.descend(name, schema_of_names)


def _check_contains(node: Node, wanted: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(value, list):
        return
    counts = "minContains" in node.dialect.VALIDATORS or node.dialect not in _REF_ALONE
    least = schema.get("minContains", 1) if counts else 1
    most = schema.get("maxContains", len(value)) if counts else len(value)
    found = 0
    for item in value:
        if node.fits(item, wanted):
            found += 1
            if found > most:
                yield _make("maxContains", most, value, schema)
                return
            if not counts:
                return
    if found < least:
        yield ValidationError("") if not found else _make("minContains", least, value, schema)


def _check_all(node: Node, schemas: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    for index, inner in enumerate(schemas):
        yield from node.descend(value, inner, schema_path=index)


def _check_any(node: Node, branches: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    _fitting, error = _choose(node, branches, value)
    if error is not None:
        yield error


def _check_one(node: Node, branches: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    fitting, error = _choose(node, branches, value)
    if error is not None:
        yield error
    elif any(node.fits(value, inner) for inner in branches[fitting + 1 :]):
        yield ValidationError("")


def _choose(node: Node, branches: Any, value: Any) -> tuple[int, ValidationError | None]:
    """The first branch that fits; else what is wrong with each."""
    work = _work.get()
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
            return -1, _make(NONE_OF, branches, value, node.schema)
        return -1, ValidationError("", context=errors)
    finally:
        work.depth -= 1


def _find_ruled_out(node: Node, branch: Any, value: Any) -> list[ValidationError]:
    """That a constant rules the branch out, such as {"kind": "card"}, before anything deeper is looked at."""
    while isinstance(branch, dict) and isinstance(branch.get("$ref"), str) and not node.tree.dynamic:
        if len(branch) > 1 and node.dialect not in _REF_ALONE:
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
            rule = _list_keywords(node.dialect).get(word) if word in inner else None
            if rule is not None and any(rule(node, inner[word], value[name], inner)):
                error = _make(word, inner[word], value[name], inner)
                error.path.appendleft(name)
                error.schema_path.extend(["properties", name, word])
                return [error]
    return []


def _check_not(node: Node, refused: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if node.fits(value, refused):
        yield ValidationError("")


def _check_if(node: Node, condition: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    way = "then" if node.fits(value, condition) else "else"
    if way in schema:
        yield from node.descend(value, schema[way], schema_path=way)


# --- what no other keyword has looked at --------------------------------------------------------------


def _check_items_left(node: Node, left: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(value, list) and len(_find_items(node, value)) < len(value):
        yield Unexpected("")


def _check_names_left(node: Node, left: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(value, dict):
        return
    looked_at = _find_names(node, value)
    wrong = [name for name in value if name not in looked_at and not node.fits(value[name], left)]
    if wrong:
        yield _tell_names(wrong)


def _find_items(node: Node, value: list[Any]) -> set[int]:
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


def _find_names(node: Node, value: dict[str, Any]) -> set[str]:
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
        found.update(name for name in value if _fits_name(pattern, name))
    for name, inner in schema.get("dependentSchemas", {}).items():
        if name in value:
            found |= _find_names(node.go(inner), value)
    for further in _list_applied(node, value):
        found |= _find_names(further, value)
    return found


def _list_applied(node: Node, value: Any) -> Iterator[Node]:
    """The schemas that look at the very same value and that it fits."""
    schema = node.schema
    _work.get().do(1 + len(value) // WORDS)
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


# --- a reader that remembers nothing ------------------------------------------------------------------


def _count_tries(node: Node, value: Any, known: dict[tuple[int, int], int]) -> int:
    schema = node.schema
    if not isinstance(schema, dict):
        return 1
    key = (id(node), id(value))
    if (before := known.get(key)) is not None:
        return before
    count = 1
    if "$ref" in schema:
        resolved = node.resolver.lookup(schema["$ref"])
        count += _count_tries(node.go(resolved.contents, resolved.resolver), value, known)
    for keyword in ("allOf", "anyOf", "oneOf"):
        if keyword in schema:
            counts = (_count_tries(node.go(inner), value, known) for inner in schema[keyword])
            # Where one name of the data tells the form, no other is tried.
            count += max(counts) if "discriminator" in schema else sum(counts)
    for inner, items in _list_inner(schema, value):
        further = node.go(inner)
        count += sum(_count_tries(further, item, known) for item in items)
    if isinstance(value, list | dict):
        known[key] = count
    return count


def _list_inner(schema: dict[str, Any], value: Any) -> Iterator[tuple[Any, Iterable[Any]]]:
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        yield from ((inner, (value[name],)) for name, inner in properties.items() if name in value)
        if isinstance(more := schema.get("additionalProperties"), dict):
            yield more, [item for name, item in value.items() if name not in properties]
    elif isinstance(value, list):
        first = schema.get("prefixItems", ())
        yield from ((inner, (item,)) for inner, item in zip(first, value, strict=False))
        if isinstance(items := schema.get("items"), dict):
            yield items, value[len(first) :]
