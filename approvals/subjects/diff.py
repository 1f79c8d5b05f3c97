"""What changes, field by field, as a reviewer reads it.

Lives here: which rows a difference has and in which order. What must not: how one value reads (`field_display`,
`display.values`) and what a key stands for (`related`). Invariants owned: every difference has a row and no row is
without one; the two sides of a row never read the same, but for secrets; one statement for each related model, and
one for each relation to many that is read from an object.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any, TypeAlias

from django.apps import apps
from django.core.exceptions import FieldDoesNotExist
from django.db import models
from django.utils.translation import gettext as _

from approvals.display.money import show_money
from approvals.display.values import EMPTY, HIDDEN, MAX_BLOCK, MAX_NAME, ShownValue, show_text, show_texts
from approvals.people.person import Person
from approvals.subjects.diff_parts import (
    ABSENT,
    MAX_PLACES,
    DiffPart,
    Place,
    diff_json,
    diff_lines,
    mark_change,
    same_json,
)
from approvals.subjects.field_display import (
    MAX_ITEMS,
    count_more,
    find_kind,
    keep_apart,
    label_field,
    read_value,
    show_loose,
    show_value,
)
from approvals.subjects.field_values import REDACTED, AnyField, is_secret, is_secret_name, redact_json, to_plain
from approvals.subjects.reference import snapshot, snapshot_again, write_keys
from approvals.subjects.related import Related
from workflows.wording.punctuation import join_list

#: The convention of two fields that are one amount: `price` and `price_currency`.
CURRENCY = "_currency"
_AMOUNTS = (models.DecimalField, models.IntegerField, models.FloatField)
#: Characters of a step on the way to a place of JSON.
MAX_STEP = 60
_PLAIN_KEY = re.compile(r"[^\W\d][\w -]*")


@dataclass(frozen=True, slots=True)
class FieldDiff:
    """One row of a difference.

    `kind` is text, lines, choice, yes_no, number, money, date, time, moment, duration, relation, relations, list,
    json, file or secret; "more" for a count of what is left out, "gone" for what is not there any more.
    """

    #: The field; for JSON the place within, such as `settings.limits.0`.
    name: str
    label: str
    before: ShownValue
    after: ShownValue
    kind: str
    #: Lines of a text, rows of a relation to many, or the stretches of two similar lines.
    parts: tuple[DiffPart, ...] = ()


_Make: TypeAlias = Callable[..., FieldDiff]


def compare(
    before: models.Model | Mapping[str, Any],
    change: Mapping[str, Any],
    *,
    model: type[models.Model] | str | None = None,
    user: Person | None = None,
    money: Mapping[str, str] | None = None,
) -> tuple[FieldDiff, ...]:
    """What a change makes of an object, or of a snapshot of one with its `model`, in the order of the model's fields.

    Only what differs has a row. `user` is who looks: links are those that they may follow. `money` names more pairs
    of fields that are one amount: `{"total": "unit"}`.

    >>> [(diff.label, diff.before.text, diff.after.text) for diff in compare(invoice, {"amount": "99.50"})]
    [('Amount', '€1,240.00', '€99.50')]
    """
    return tuple(_prepare(before, change, model=model, money=money, related=Related(user)).tell())


def compare_each(
    requests: Iterable[tuple[str, Mapping[str, Any], Mapping[str, Any]]], *, user: Person | None = None
) -> list[tuple[FieldDiff, ...]]:
    """The same of many requests, each as (model, snapshot, change): a related model is still asked once, for all.

    >>> [[diff.label for diff in diffs] for diffs in compare_each([("shop.invoice", shown, {"amount": "99.50"})])]
    [['Amount']]
    """
    related = Related(user)
    made = [_prepare(before, change, model=model or None, related=related) for model, before, change in requests]
    related.fetch(key for one in made for key in one.list_keys())
    return [tuple(one.tell()) for one in made]


def find_drift(
    shown: Mapping[str, Any],
    now: models.Model | None,
    *,
    user: Person | None = None,
    money: Mapping[str, str] | None = None,
) -> tuple[FieldDiff, ...]:
    """What is different now from a snapshot that was shown; empty where nothing is. A lost object is one row.

    >>> [(diff.label, diff.after.text) for diff in find_drift(shown, load_subject(subject))]
    [('Amount', '€1,300.00')]
    """
    lost = ShownValue(_("no longer there"), missing=True)
    if now is None:
        return (FieldDiff("", _("All of it"), ShownValue(_("there")), lost, "gone"),)
    current = snapshot_again(now, shown)
    gone = [
        FieldDiff(show_text(name, MAX_NAME), label_field(name, None), show_loose(shown[name]), lost, "gone")
        for name in shown
        if name not in current
    ]
    return (*compare(shown, current, model=type(now), user=user, money=money), *gone)


@dataclass(slots=True)
class _FieldComparison:
    """One comparison on its way to rows."""

    model: type[models.Model] | None
    fields: dict[str, AnyField | None]
    old: Mapping[str, Any]
    new: dict[str, Any]
    pairs: dict[str, str]
    related: Related
    told: set[str] = field(default_factory=set)

    def tell(self) -> Iterator[FieldDiff]:
        self.related.fetch(self.list_keys())
        for name, one in self.fields.items():
            if name not in self.told and self._differs(name):
                yield from self._tell_money(name) or self._tell_field(name, one)

    def _differs(self, name: str) -> bool:
        return not same_json(self.old.get(name), self.new[name])

    def list_keys(self) -> Iterator[tuple[AnyField, Any]]:
        """What its relations point to."""
        for name, one in self.fields.items():
            if isinstance(one, models.ManyToManyField) and self._differs(name):
                for keys in _split_keys(self.old.get(name), self.new[name]):
                    yield from ((one, key) for key in keys[:MAX_ITEMS])
            elif isinstance(one, models.ForeignKey) and self._differs(name):
                yield from ((one, key) for key in (self.old.get(name), self.new[name]))

    def _tell_money(self, name: str) -> tuple[FieldDiff, ...]:
        """One row for an amount and its currency, whichever of them changes."""
        amount = next((amount for amount, currency in self.pairs.items() if name in (amount, currency)), None)
        if amount is None or self.model is None:
            return ()
        currency, one = self.pairs[amount], _find_field(self.model, amount)
        sides = []
        for state in (self.old, {**self.old, **self.new}):
            value = read_value(one, state.get(amount)) if one else None
            unit = state.get(currency)
            if not isinstance(unit, str) or not unit or not isinstance(value, int | float | Decimal | None):
                return ()
            sides.append(EMPTY if value is None else ShownValue(show_money(value, unit)))
        if sides[0] == sides[1]:
            return ()
        self.told |= {amount, currency}
        return (FieldDiff(amount, label_field(amount, one), sides[0], sides[1], "money"),)

    def _tell_field(self, name: str, one: AnyField | None) -> Iterator[FieldDiff]:
        old, new = self.old.get(name), self.new[name]
        label = label_field(name, one)
        make = partial(FieldDiff, show_text(name, MAX_NAME), label)
        if _is_secret(self.model, one, name):
            yield make(ShownValue(HIDDEN), ShownValue(HIDDEN), "secret")
        elif isinstance(one, models.ManyToManyField):
            if any(_split_keys(old, new)):
                yield self._tell_relations(make, one, old, new)
        elif isinstance(one, models.ForeignKey):
            sides = self.related.show(one, old), self.related.show(one, new)
            yield make(*_name_apart(*sides, old, new), "relation")
        elif one is None or isinstance(one, models.JSONField) or isinstance(old, dict) or isinstance(new, dict):
            yield from _tell_json(name, label, old, new)
        else:
            yield _tell_value(make, one, old, new)

    def _tell_relations(self, make: _Make, one: AnyField, old: Any, new: Any) -> FieldDiff:
        sides: list[ShownValue] = []
        parts: list[DiffPart] = []
        for sign, mark, keys in zip("-+", "\u2212+", _split_keys(old, new), strict=True):
            shown = [self.related.show(one, key) for key in keys[:MAX_ITEMS]]
            named = [_add_key(row, key) if shown.count(row) > 1 else row for row, key in zip(shown, keys, strict=False)]
            parts += [DiffPart(sign, row) for row in named]
            texts = [f"{mark} {row.text}" for row in named]
            if len(keys) > MAX_ITEMS:
                texts.append(count_more(len(keys) - MAX_ITEMS))
                parts.append(DiffPart("…", ShownValue(texts[-1])))
            missing = any(row.missing for row in named)
            sides.append(ShownValue(show_text(join_list(texts), MAX_BLOCK), missing=missing) if texts else EMPTY)
        return make(*sides, "relations", tuple(parts))


def _prepare(
    before: models.Model | Mapping[str, Any],
    change: Mapping[str, Any],
    *,
    model: type[models.Model] | str | None,
    related: Related,
    money: Mapping[str, str] | None = None,
) -> _FieldComparison:
    known = type(before) if isinstance(before, models.Model) else _find_model(model)
    fields, new = _read_change(known, change)
    pairs = _find_money(known, money or {})
    old: Mapping[str, Any]
    if isinstance(before, models.Model):
        partners = [name for pair in pairs.items() if not fields.keys().isdisjoint(pair) for name in pair]
        old = snapshot(before, dict.fromkeys((*(name for name, one in fields.items() if one), *partners)))
    else:
        # As the snapshot would be taken today: a field may have other decimal places by now.
        old = {
            **before,
            **{name: _read(known, one, name, before[name]) for name, one in fields.items() if name in before},
        }
    return _FieldComparison(known, fields, old, new, pairs, related)


def _tell_value(make: _Make, one: AnyField, old: Any, new: Any) -> FieldDiff:
    kind = find_kind(one, new if old is None else old)
    if kind == "text":
        return tell_text(make, old, new)
    sides = show_value(one, old), show_value(one, new)
    return make(*keep_apart(*sides, old, new), kind)


def tell_text(make: _Make, old: Any, new: Any) -> FieldDiff:
    """Two texts, line by line where they have lines."""
    before, after = ("" if plain is None or plain is ABSENT else str(plain) for plain in (old, new))
    if "\n" in before + after:
        unix = before.replace("\r\n", "\n"), after.replace("\r\n", "\n")
        parts = diff_lines(*unix) if unix[0] != unix[1] else diff_lines(before, after)
        sides = [ShownValue(show_text(text, MAX_BLOCK, lines=True)) if text else EMPTY for text in unix]
        return make(*sides, "lines", parts)
    told = show_texts(before, after)
    left, right = ShownValue(told[0]) if before else EMPTY, ShownValue(told[1]) if after else EMPTY
    return make(*keep_apart(left, right, old, new), "text", mark_change(*told) if before and after else ())


def _tell_json(name: str, label: str, old: Any, new: Any) -> Iterator[FieldDiff]:
    places = diff_json(old, new)
    for place, before, after in places[:MAX_PLACES]:
        steps = [_name_step(step) for step in place]
        where = show_text(".".join((name, *map(str, place))), MAX_BLOCK)
        make = partial(FieldDiff, where, show_text(" \u203a ".join((label, *steps)), MAX_BLOCK))
        if _is_hidden(place, before, after):
            yield make(ShownValue(HIDDEN), ShownValue(HIDDEN), "secret")
        elif all(side is ABSENT or side is None or isinstance(side, str) for side in (before, after)):
            yield tell_text(make, before, after)
        else:
            yield make(*keep_apart(show_loose(before), show_loose(after), before, after), "json")
    if len(places) > MAX_PLACES:
        yield FieldDiff(
            show_text(name, MAX_NAME), label, EMPTY, ShownValue(count_more(len(places) - MAX_PLACES)), "more"
        )


def _name_step(step: str | int) -> str:
    """A key or the number of an item; a key that could be taken for something else stands in quotes."""
    if isinstance(step, int):
        return str(step + 1)
    return show_text(step if _PLAIN_KEY.fullmatch(step) else f"\u201c{step}\u201d", MAX_STEP)


def _is_secret(model: type[models.Model] | None, one: AnyField | None, name: str) -> bool:
    return is_secret(one, model) if one and model else is_secret_name(name)


def _is_hidden(place: Place, before: Any, after: Any) -> bool:
    """Whether this place, or all that differs at it, is secret."""
    if any(isinstance(step, str) and is_secret_name(step) for step in place) or REDACTED in (before, after):
        return True
    return ABSENT not in (before, after) and same_json(redact_json(before), redact_json(after))


def _name_apart(before: ShownValue, after: ShownValue, old: Any, new: Any) -> tuple[ShownValue, ShownValue]:
    """Two rows whose names are the same, or look so, with their keys."""
    names = before.text, after.text
    if before.text != after.text and show_texts(*names) == names:
        return before, after
    return _add_key(before, old), _add_key(after, new)


def _add_key(row: ShownValue, key: Any) -> ShownValue:
    return row if row.empty else ShownValue(show_text(f"{row.text} ({key})"), row.url, row.missing)


def _read_change(
    model: type[models.Model] | None, change: Mapping[str, Any]
) -> tuple[dict[str, AnyField | None], dict[str, Any]]:
    """Fields and new values by name, in the order of the model; what the model does not have comes last."""
    order = [one.name for one in (*model._meta.concrete_fields, *model._meta.many_to_many)] if model else []
    found = [(_find_field(model, str(name)), str(name), value) for name, value in change.items()]
    found.sort(key=lambda row: (0, order.index(row[0].name), "") if row[0] else (1, 0, row[1]))
    fields = {one.name if one else name: one for one, name, _value in found}
    new = {one.name if one else name: _read(model, one, name, value) for one, name, value in found}
    return fields, new


def _read(model: type[models.Model] | None, one: AnyField | None, name: str, value: Any) -> Any:
    """A value, as a model or its JSON has it, as a snapshot would hold it; of a secret only that it is there."""
    if value is None or value == REDACTED:
        return value
    if _is_secret(model, one, name):
        return hashlib.sha256(repr(value).encode(errors="replace")).hexdigest()
    if isinstance(one, models.ManyToManyField):
        items = value if isinstance(value, Iterable) and not isinstance(value, str | Mapping) else ()
        return write_keys(one, (getattr(item, "pk", item) for item in items))
    return to_plain(one, value) if one else value


def _find_model(model: type[models.Model] | str | None) -> type[models.Model] | None:
    """The model of a snapshot; None for one that is not installed any more, which is shown as what its JSON tells."""
    try:
        return apps.get_model(model) if isinstance(model, str) else model
    except (LookupError, ValueError):
        return None


def _find_field(model: type[models.Model] | None, name: str) -> AnyField | None:
    try:
        found = model._meta.get_field(name) if model else None
    except FieldDoesNotExist:
        return None
    return found if isinstance(found, models.Field) and (found.concrete or found.many_to_many) else None


def _find_money(model: type[models.Model] | None, declared: Mapping[str, str]) -> dict[str, str]:
    """Which field is the currency of which amount."""
    if model is None:
        return {}
    pairs = {
        one.name: one.name + CURRENCY
        for one in model._meta.concrete_fields
        if isinstance(one, _AMOUNTS) and isinstance(_find_field(model, one.name + CURRENCY), models.CharField)
    }
    return {amount: currency for amount, currency in {**pairs, **declared}.items() if _find_field(model, currency)}


def _split_keys(old: Any, new: Any) -> tuple[list[Any], list[Any]]:
    """Keys that go and keys that come."""
    before, after = (
        [key for key in keys if isinstance(key, int | str)] if isinstance(keys, list) else [] for keys in (old, new)
    )
    left, right = set(before), set(after)
    return [key for key in before if key not in right], [key for key in after if key not in left]
