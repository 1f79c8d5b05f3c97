"""The order in which an author wrote fields, beside a schema that a row keeps: the database sorts an object's names.

Lives here: writing that order down where it would be lost, and reading it. Invariant owned: it is an annotation,
"x-order", that no check of data reads; a schema whose order survives anyway is kept as it was written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

KEYWORD = "x-order"
#: Keywords that hold schemas: one, a list of them, or one for each name.
_ONE = frozenset(
    ("additionalProperties", "contains", "else", "if", "items", "not", "propertyNames", "then", "unevaluatedProperties")
)
_LIST = frozenset(("allOf", "anyOf", "items", "oneOf", "prefixItems"))
_NAMED = frozenset(("$defs", "definitions", "dependentSchemas", "patternProperties", "properties"))


def keep_order(schema: Any) -> Any:
    """The same schema, saying of its objects in which order their fields were written.

    >>> keep_order({"properties": {"receipt": {}, "days": {}, "note": {}}})["x-order"]
    ['receipt', 'days', 'note']
    """
    if not isinstance(schema, dict):
        return schema
    kept = {name: _keep_inside(name, value) for name, value in schema.items()}
    properties = schema.get("properties")
    if isinstance(properties, dict) and KEYWORD not in schema:
        written, stored = list(properties), sorted(properties, key=_sort_as_stored)
        # One in the database's own order may have come out of it, and then it was nobody's wish.
        if written not in (stored, sort_fields(stored, schema)):
            kept[KEYWORD] = written
    return kept


def sort_fields(names: Iterable[str], schema: Mapping[str, Any]) -> list[str]:
    """Names of fields in the order of their schema: as it was written down, else those that are needed first.

    >>> sort_fields(["note", "days", "receipt"], {"required": ["receipt"]})
    ['receipt', 'note', 'days']
    """
    told = schema.get(KEYWORD) or schema.get("required")
    order = [one for one in told if isinstance(one, str)] if isinstance(told, list) else []
    return sorted(names, key=lambda name: order.index(name) if name in order else len(order))


def _keep_inside(name: str, value: Any) -> Any:
    if name in _NAMED and isinstance(value, dict):
        return {each: keep_order(inner) for each, inner in value.items()}
    if name in _LIST and isinstance(value, list):
        return [keep_order(inner) for inner in value]
    return keep_order(value) if name in _ONE else value


def _sort_as_stored(name: str) -> tuple[int, bytes]:
    """As PostgreSQL's jsonb does: the shorter first."""
    text = name.encode("utf-8", "surrogatepass")
    return len(text), text
