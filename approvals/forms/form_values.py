"""What a form's data read like: labels of the schema, choices by name, numbers and dates in the reader's language.

Nothing here queries. Invariants owned: every difference between two sets of data has a row; what is secret (by its
name, or because its field hides it) is never shown; an amount is shown with its currency where one stands beside it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from functools import partial
from typing import Any

from django.utils.dateparse import parse_date, parse_datetime, parse_time
from django.utils.translation import gettext

from approvals.display.money import show_money
from approvals.display.values import (
    EMPTY,
    HIDDEN,
    MAX_BLOCK,
    MAX_NAME,
    ShownValue,
    show_moment,
    show_number,
    show_text,
)
from approvals.forms.request_facts import find_units, list_facts
from approvals.forms.secret_fields import is_hidden
from approvals.subjects.diff import FieldDiff, tell_text
from approvals.subjects.diff_parts import ABSENT, same_json
from approvals.subjects.field_display import MAX_ITEMS, count_more, keep_apart, show_loose
from workflows.forms.form import SchemaForm
from workflows.forms.form_fields import Checks, Field, FormChoice, FormGroup, FormNumber, FormOption, Text
from workflows.values.json_text import MISSING
from workflows.wording.punctuation import join_clauses, join_label, join_list

#: Fields of one form that are told apart, and how deep groups are looked into.
MAX_FIELDS = 60
MAX_DEPTH = 6

_READ = {"date": parse_date, "time": parse_time, "datetime-local": parse_datetime}


def add_defaults(field: Field, data: Any) -> Any:
    """The same data with the defaults of what was left out.

    >>> add_defaults(SchemaForm({"type": "object", "properties": {"months": {"default": 12}}}).tree, {})
    {'months': 12}
    """
    if not isinstance(field, FormGroup) or not isinstance(data, Mapping):
        return data
    made = {**data}
    for one in field.fields:
        if one.key in made or one.default is not MISSING:
            made[one.key] = add_defaults(one, made.get(one.key, one.default))
    return made


def compare_data(schema: Any, before: Any, after: Any) -> tuple[FieldDiff, ...]:
    """What differs between two sets of data of one form (a JSON Schema), in the order of its fields.

    >>> schema = {"type": "object", "properties": {"value": {"type": "number", "title": "Value"}}}
    >>> [(one.label, one.before.text, one.after.text) for one in compare_data(schema, {"value": 9600}, {"value": 9000})]
    [('Value', '9,600', '9,000')]
    """
    return _bound([row for _, differs, row in _walk(schema, before, after) if differs])


def list_settings(schema: Any, asked: Any, data: Any) -> tuple[FieldDiff, ...]:
    """What a form sets: each field that holds something or has to; `before` is what it was asked with.

    >>> schema = {"type": "object", "properties": {"value": {"type": "number", "title": "Value"}}}
    >>> [one.after.text for one in list_settings(schema, {"value": 9600}, {"value": 9000})]
    ['9,000']
    """
    shown = []
    for field, differs, row in _walk(schema, asked, data):
        is_blank = row.after.empty and row.before.empty
        if is_blank and not field.required:
            continue
        if is_blank:
            shown.append(FieldDiff(row.name, row.label, EMPTY, ShownValue(gettext("as you fill it in")), row.kind))
            continue
        before = row.before if differs else row.after
        shown.append(FieldDiff(row.name, row.label, before, row.after, row.kind, row.parts if differs else ()))
    return _bound(shown)


def _bound(rows: list[FieldDiff]) -> tuple[FieldDiff, ...]:
    if len(rows) <= MAX_FIELDS:
        return tuple(rows)
    return (*rows[:MAX_FIELDS], FieldDiff("", "", EMPTY, ShownValue(count_more(len(rows) - MAX_FIELDS)), "more"))


def _walk(schema: Any, before: Any, after: Any) -> Iterator[tuple[Field, bool, FieldDiff]]:
    tree = SchemaForm(schema).tree
    yield from _tell(tree, (), (), (before, after), ("", ""))


def _tell(
    field: Field, place: tuple[str, ...], labels: tuple[str, ...], sides: tuple[Any, ...], units: tuple[str, ...]
) -> Iterator[tuple[Field, bool, FieldDiff]]:
    """Each field with whether its two sides differ."""
    if isinstance(field, FormGroup) and len(place) < MAX_DEPTH and all(_is_inside(side) for side in sides):
        held = [side if isinstance(side, Mapping) else {} for side in sides]
        pairs = [find_units(side) for side in held]
        currencies = {key for found in pairs for key in found.values()}
        # A currency stands beside its amount, unless one of the sides holds it for something else.
        currencies -= {
            key
            for key in currencies
            for side, found in zip(held, pairs, strict=True)
            if key in side and key not in found.values()
        }
        known = {inner.key: inner for inner in field.fields}
        loose = {key: Field(key=key, label=key) for side in held for key in side if key not in known}
        for key, inner in {**known, **loose}.items():
            if key in currencies:
                continue
            below = tuple(side.get(key, ABSENT) for side in held)
            beside = tuple(
                str(side[found[key]]) if key in found else "" for side, found in zip(held, pairs, strict=True)
            )
            yield from _tell(inner, (*place, key), (*labels, _label(inner)), below, beside)
        return
    old, new = sides
    differs = not same_json(old, new) or units[0] != units[1]
    name = show_text(".".join(place), MAX_BLOCK)
    label = show_text(" \u203a ".join(labels) or _label(field), MAX_BLOCK)
    make = partial(FieldDiff, name, label)
    if is_hidden(field, *place):
        hidden = [EMPTY if _is_empty(side) else ShownValue(HIDDEN) for side in sides]
        yield field, differs, make(hidden[0], hidden[1], "secret")
    elif differs and not any(units) and _is_text(field, sides):
        yield field, differs, tell_text(make, old, new)
    else:
        before, after = (_show(field, side, unit) for side, unit in zip(sides, units, strict=True))
        if differs:
            before, after = keep_apart(before, after, old, new)
        yield field, differs, make(before, after, _find_kind(field, units))


def _find_kind(field: Field, units: tuple[str, ...]) -> str:
    if any(units):
        return "money"
    return "choice" if isinstance(field, FormChoice) else "number" if isinstance(field, FormNumber) else "text"


def _show(field: Field, value: Any, unit: str) -> ShownValue:
    if _is_empty(value):
        return EMPTY
    if unit:
        return ShownValue(show_money(Decimal(str(value)), unit))
    if isinstance(field, FormChoice):
        return ShownValue(_name_option(field.options, value)) if value != "" else EMPTY
    if isinstance(field, Checks) and isinstance(value, list):
        return _show_list([_name_option(field.options, one) for one in value[:MAX_ITEMS]], len(value))
    if isinstance(field, FormNumber) and field.as_text and isinstance(value, str):
        try:
            return ShownValue(show_number(Decimal(value)))
        except ArithmeticError:
            return show_loose(value)
    if isinstance(field, Text) and field.control in _READ and isinstance(value, str):
        try:
            moment = _READ[field.control](value)
        except ValueError:
            moment = None
        return show_loose(value) if moment is None else ShownValue(show_moment(moment))
    if isinstance(value, int | float) and not isinstance(value, bool):
        exact = int(value) if float(value).is_integer() and abs(value) < 1e15 else value
        # A number that may have a fraction is an amount of something: its thousands stand apart.
        is_whole = isinstance(field, FormNumber) and field.whole
        return ShownValue(show_number(exact if is_whole or not isinstance(exact, int) else Decimal(exact)))
    if isinstance(value, dict | list):
        told = (join_label(one.label, one.value.text) if one.label else one.value.text for one in list_facts(value))
        return ShownValue(show_text(join_clauses(told), MAX_BLOCK))
    return show_loose(value)


def _show_list(told: list[str], count: int) -> ShownValue:
    more = [count_more(count - MAX_ITEMS)] if count > MAX_ITEMS else []
    return ShownValue(show_text(join_list([*told, *more]), MAX_BLOCK))


def _name_option(options: tuple[FormOption, ...], value: Any) -> str:
    label = next((one.label for one in options if same_json(one.value, value)), None)
    return show_loose(value).text if label is None else show_text(label, MAX_NAME)


def _label(field: Field) -> str:
    return show_text(field.label, MAX_NAME)


def _is_inside(side: Any) -> bool:
    return _is_empty(side) or isinstance(side, Mapping)


def _is_empty(value: Any) -> bool:
    return value is ABSENT or value is None or value in ("", [], {})


def _is_text(field: Field, sides: tuple[Any, ...]) -> bool:
    is_plain = isinstance(field, Text) and field.control in ("text", "area", "email", "url")
    return is_plain and all(_is_empty(side) or isinstance(side, str) for side in sides)
