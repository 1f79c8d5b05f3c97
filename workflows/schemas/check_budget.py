"""How much one check of data may cost, and what it has cost so far.

Lives here: the limits, what each thing costs, and the two ways to count: as the check goes on, and beforehand. Must not
live here: what a keyword means. Invariant owned: a check that costs more than `MOST_WORK` is `TooComplex`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jsonschema import ValidationError

from workflows.exceptions import TooComplex

if TYPE_CHECKING:
    from workflows.schemas.bounded_check import SchemaNode

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


current_work: ContextVar[Work] = ContextVar("work")


def count_tries(node: SchemaNode, value: Any, known: dict[tuple[int, int], int]) -> int:
    """How often a reader that remembers nothing looks at values, where it tries all forms of each choice."""
    schema = node.schema
    if not isinstance(schema, dict):
        return 1
    key = (id(node), id(value))
    if (before := known.get(key)) is not None:
        return before
    count = 1
    if "$ref" in schema:
        resolved = node.resolver.lookup(schema["$ref"])
        count += count_tries(node.go(resolved.contents, resolved.resolver), value, known)
    for keyword in ("allOf", "anyOf", "oneOf"):
        if keyword in schema:
            counts = (count_tries(node.go(inner), value, known) for inner in schema[keyword])
            # Where one name of the data tells the form, no other is tried.
            count += max(counts) if "discriminator" in schema else sum(counts)
    for inner, items in _list_inner(schema, value):
        further = node.go(inner)
        count += sum(count_tries(further, item, known) for item in items)
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
