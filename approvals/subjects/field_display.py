"""One value of one field, as its kind is read: choices by label, files by name, moments in the viewer's zone.

Nothing here queries; a file's size is asked of its storage. Invariant owned: two values that differ never read the
same, because `keep_apart` has the last word.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any

from django.db import models
from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from approvals.display.values import (
    EMPTY,
    MAX_BLOCK,
    MAX_NAME,
    ShownValue,
    show_duration,
    show_file,
    show_moment,
    show_number,
    show_text,
    show_texts,
    show_yes_no,
)
from approvals.subjects.diff_parts import ABSENT
from approvals.subjects.field_values import MISREAD, AnyField, from_plain, redact_json
from workflows.wording.punctuation import join_list

#: Items of a list, and rows of a relation to many, that are named; more are counted.
MAX_ITEMS = 20

_KINDS: tuple[tuple[tuple[type[Any], ...], str], ...] = (
    ((models.BooleanField,), "yes_no"),
    ((models.DateTimeField,), "moment"),
    ((models.DateField,), "date"),
    ((models.TimeField,), "time"),
    ((models.DurationField,), "duration"),
    ((models.IntegerField, models.FloatField, models.DecimalField), "number"),
    ((models.FileField,), "file"),
)


def label_field(name: str, field: AnyField | None) -> str:
    """What people call a field, in the active language; its name where it has no other.

    >>> label_field("net_total", None)
    'Net total'
    """
    verbose = name.replace("_", " ") if field is None else str(getattr(field, "verbose_name", name))
    return show_text(capfirst(verbose), MAX_NAME)


def find_kind(field: AnyField, plain: Any) -> str:
    """How a field's value is read."""
    if read_choices(field):
        return "choice"
    if isinstance(plain, list):
        return "list"
    return next((kind for classes, kind in _KINDS if isinstance(field, classes)), "text")


def show_value(field: AnyField, plain: Any) -> ShownValue:
    """A value that is neither a relation nor JSON."""
    kind = find_kind(field, plain)
    if kind == "choice" and not isinstance(plain, list):
        return _show_choice(field, plain)
    value = read_value(field, plain)
    if kind == "yes_no":
        return ShownValue(show_yes_no(value if isinstance(value, bool) else None), empty=value is None)
    if plain is None or plain in ("", []):
        return EMPTY
    if isinstance(plain, list):
        return _show_list(getattr(field, "base_field", None), plain)
    if isinstance(field, models.FileField):
        return _show_file(field, str(plain))
    if isinstance(value, timedelta):
        return ShownValue(show_duration(value))
    if isinstance(value, date | time):
        return ShownValue(show_moment(value))
    if isinstance(value, int | float | Decimal):
        return ShownValue(show_number(value))
    return ShownValue(show_text(plain))


def show_loose(plain: Any) -> ShownValue:
    """A value of which only its JSON is known."""
    if plain is ABSENT or plain is None or plain == "":
        return EMPTY
    if isinstance(plain, bool):
        return ShownValue(show_yes_no(plain))
    if isinstance(plain, int | float):
        return ShownValue(show_number(plain))
    return ShownValue(show_text(plain if isinstance(plain, str) else _write_exactly(plain)))


def keep_apart(before: ShownValue, after: ShownValue, old: Any, new: Any) -> tuple[ShownValue, ShownValue]:
    """Two sides that would read the same, such as moments a second apart, as exactly as they are kept."""
    if before.text != after.text:
        return before, after
    exact = show_texts(_write_exactly(old), _write_exactly(new))
    return (
        ShownValue(exact[0], before.url, before.missing, before.empty),
        ShownValue(exact[1], after.url, after.missing, after.empty),
    )


def read_choices(field: AnyField | None) -> Mapping[Any, Any]:
    """The labels of a field's values; groups of choices have none of their own."""
    return dict(field.flatchoices) if field is not None and field.choices else {}


def read_value(field: AnyField, plain: Any) -> Any:
    """The value that is kept as this JSON; as it is where the field cannot read it (any more)."""
    try:
        return from_plain(field, plain)
    except MISREAD:
        return plain


def count_more(count: int) -> str:
    """How much is left out."""
    return ngettext("and %(count)d more", "and %(count)d more", count) % {"count": count}


def _show_choice(field: AnyField, plain: Any) -> ShownValue:
    choices = read_choices(field)
    value = read_value(field, plain)
    label = choices.get(value, choices.get(plain))
    if label is not None:
        return ShownValue(show_text(label, MAX_NAME), empty=plain is None)
    return EMPTY if plain is None or plain == "" else ShownValue(show_text(plain))


def _show_list(base: AnyField | None, plain: list[Any]) -> ShownValue:
    shown = [show_loose(item) if base is None else show_value(base, item) for item in plain[:MAX_ITEMS]]
    told = [item.text for item in shown]
    if len(plain) > MAX_ITEMS:
        told.append(count_more(len(plain) - MAX_ITEMS))
    return ShownValue(show_text(join_list(told), MAX_BLOCK))


def _show_file(field: models.FileField, name: str) -> ShownValue:
    try:
        return ShownValue(show_file(name, field.storage.size(name)))
    except FileNotFoundError:
        return ShownValue(_("%(name)s (no longer there)") % {"name": show_file(name, None)}, missing=True)
    except Exception:  # storages raise what they like, and a page must not hang on them
        return ShownValue(show_file(name, None))


def _write_exactly(plain: Any) -> str:
    if plain is ABSENT:
        return _("not there")
    return json.dumps(redact_json(plain), ensure_ascii=False, default=repr)
