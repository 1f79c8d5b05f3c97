"""A row as the database has it, and in what something differs from it.

Lives here: the one answer to "would this change it?". A form's own answer is no proof: it compares with what the
browser sent along, and knows nothing of what a `clean` or a `save` derives. Invariant owned: all fields of the model
are compared, also secrets, hidden ones and those that are in no form.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, time
from typing import Any

from django.db import models

from approvals.subjects.diff_parts import same_json
from approvals.subjects.field_values import AnyField, to_plain
from approvals.subjects.reference import find_rows, read_field, write_keys


@dataclass(frozen=True, slots=True)
class Stored:
    """One row, read anew."""

    row: models.Model
    using: str
    #: Relation to many -> the keys that it has.
    many: Mapping[str, Collection[Any]] = field(default_factory=dict)


def read_stored(model: type[models.Model], key: Any, using: str, *, lock: bool = False) -> Stored | None:
    """The row of this key, or None; with `lock` nobody else changes it until the transaction ends.

    >>> read_stored(Order, order.pk, "default").row.amount
    Decimal('1240.00')
    """
    rows = find_rows(model, using)
    row = (rows.select_for_update(no_key=True) if lock else rows).filter(pk=key).first()
    if row is None:
        return None
    return Stored(row, using, {one.name: read_field(row, one) for one in model._meta.many_to_many})


def find_differences(stored: Stored, obj: models.Model, many: Mapping[str, Collection[Any]]) -> dict[str, Any]:
    """The fields in which an object differs from its row, each with the object's value; its key is one of them.

    `many` are the keys of the relations to many that are known. What was not loaded would not be saved.

    >>> find_differences(stored, Order(code="A-1", amount=5), {"labels": []})
    {'amount': 5}
    """
    deferred = obj.get_deferred_fields()
    found = {}
    for one in obj._meta.concrete_fields:
        if one.attname in deferred or one.generated:
            continue
        value = one.value_from_object(obj)
        before = to_plain(one, one.value_from_object(stored.row))
        # A new file may well have the name of the old one.
        if not getattr(value, "_committed", True) or not same_json(to_plain(one, value), before):
            found[one.name] = value
    for relation in obj._meta.many_to_many:
        if relation.name in many:
            keys = many[relation.name]
            if write_keys(relation, keys) != write_keys(relation, stored.many[relation.name]):
                found[relation.name] = list(keys)
    return found


def find_changes(stored: Stored) -> dict[str, Any]:
    """The fields in which the row differs by now, each with its value; none where it is gone.

    >>> find_changes(stored)
    {'amount': Decimal('5.00')}
    """
    now = read_stored(type(stored.row), stored.row.pk, stored.using)
    return {} if now is None else find_differences(stored, now.row, now.many)


def is_gone(stored: Stored) -> bool:
    """Whether the row was deleted meanwhile."""
    return not find_rows(type(stored.row), stored.using).filter(pk=stored.row.pk).exists()


def is_key(one: AnyField) -> bool:
    """Whether a field says which row it is: with another value of it, another row would be written."""
    return one.primary_key or one in one.model._meta.pk_fields


def keep_stored(given: Any, before: Any) -> Any:
    """What was given, with what a browser cannot send taken from what was there: line ends and parts of a second.

    >>> keep_stored("a\\r\\nb", "a\\nc")
    'a\\nb'
    """
    if isinstance(given, str) and isinstance(before, str):
        return given if "\r\n" in before else given.replace("\r\n", "\n")
    if isinstance(given, datetime | time) and type(given) is type(before) and given == before.replace(microsecond=0):
        return before
    return given
