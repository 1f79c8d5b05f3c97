"""From what was typed to a JSON value.

Invariants owned: an empty field is left out, or null where the value has to be there and may be null; nothing is
rounded, guessed or repaired, and what cannot be read is refused at its field, in words that say what would be right;
reading never fails, whatever was posted.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from django.conf import settings
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _

from workflows.forms.form_fields import (
    Checks,
    Code,
    Field,
    Fixed,
    FormChoice,
    FormGroup,
    FormNumber,
    FormOption,
    Lines,
    Rows,
    Text,
    Typed,
    join_lines,
    join_name,
    join_step,
)
from workflows.schemas.error_messages import REQUIRED
from workflows.values.json_reader import UnreadableJson, parse_json
from workflows.values.json_text import MAX_DIGITS, MISSING, UNKEEPABLE
from workflows.wording.messages import make_sentence, tell_reason
from workflows.wording.punctuation import join_label

#: Rows that are read; a browser sends no more than it was shown.
MOST_ROWS_READ = 1000
#: Errors at one field that anybody reads.
MOST_REASONS = 5

_FREE = ("text", "area", "password")
_ROW = re.compile(r"0|[1-9][0-9]{0,5}")
_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+([.][0-9]*)?|[.][0-9]+)([eE][+-]?[0-9]{1,6})?")
_COMMAS = re.compile(r"[+-]?[0-9][0-9.,'’ \u00a0\u202f]*")
_KEY = re.compile(r"-?(0|[1-9][0-9]{0,30})")
#: What a datetime-local field sends: without a zone.
_LOCAL = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,6})?)?")


@dataclass(slots=True)
class FormReading:
    """What became of what was typed: the value, or `MISSING`; and what could not be read, by the field's name."""

    value: Any = MISSING
    errors: dict[str, list[str]] = field(default_factory=dict)
    #: Where in the value each field's own part ended up: place → (name, which of its lines).
    places: dict[str, tuple[str, str]] = field(default_factory=dict)

    def place_errors(self, found: Mapping[str, Iterable[str]]) -> None:
        """Put the refusals of a schema, which are told by place, to the fields that the places came from."""
        unread = set(self.errors)
        for place, reasons in found.items():
            name, where = self._find_field(place)
            if any(name == bad or name.startswith(f"{bad}/") for bad in unread):
                continue  # what could not be read is missing now, which is no news
            texts = self.errors.setdefault(name, [])
            for reason in reasons:
                if reason == REQUIRED and not where:
                    text = _("This is missing.")
                else:
                    text = join_label(where, tell_reason(reason)) if where else make_sentence(reason)
                if text not in texts and len(texts) < MOST_REASONS:
                    texts.append(text)

    def _find_field(self, place: str) -> tuple[str, str]:
        """The field at a place, or the one around it with the rest of the way."""
        known, rest = place, ""
        while known and known not in self.places:
            known, _dot, step = known.rpartition(".")
            rest = join_step(step, rest) if rest else step
        name, line = self.places.get(known, ("", ""))
        return name, join_label(line, f"{rest:.200}") if line and rest else line or f"{rest:.200}"


def read_form(form: Field, typed: Typed, name: str) -> FormReading:
    """The JSON value of a whole form.

    >>> read_form(FormNumber(label="Amount"), {"data": ["12.5"]}, "data").value
    12.5
    """
    reader = _TypedReader(typed)
    reader.told.value, _entered = reader.read(form, name, "")
    return reader.told


def list_rows(typed: Typed, name: str) -> list[str]:
    """The rows of a list, as numbers that stay theirs while others come and go."""
    given = dict.fromkeys(typed.get(name, ()))
    return [row for row in given if _ROW.fullmatch(row)][:MOST_ROWS_READ]


class _UnreadableText(Exception):
    """A text that cannot be read, and what would be right."""


class _TypedReader:
    def __init__(self, typed: Typed) -> None:
        self.typed = typed
        self.told = FormReading()

    def read(self, field: Field, name: str, place: str) -> tuple[Any, bool]:
        """The value and whether anybody entered one."""
        self.told.places.setdefault(place, (name, ""))
        try:
            match field:
                case FormGroup():
                    return self.read_group(field, name, place)
                case Rows():
                    return self.read_rows(field, name, place)
                case Lines():
                    return self.read_lines(field, name, place)
                case Checks():
                    return self.read_checks(field, name)
                case Fixed():
                    return self.read_fixed(field, name)
                case FormChoice():
                    return self.read_choice(field, name)
            text = self.find_text(name)
            # In a text, spaces may be meant; elsewhere they are nothing.
            if not (text if isinstance(field, Text) and field.control in _FREE else text.strip()):
                return _leave_empty(field), False
            return _read_text(field, text), True
        except _UnreadableText as refused:
            self.told.errors[name] = [str(refused)]
            return MISSING, True

    def find_text(self, name: str) -> str:
        texts = self.typed.get(name, ())
        text = join_lines(texts[-1]) if texts else ""
        check_text(text)
        return text

    def read_group(self, field: FormGroup, name: str, place: str) -> tuple[Any, bool]:
        value, entered = {}, False
        for inner in field.fields:
            part, filled = self.read(inner, join_name(name, inner.key), join_step(place, inner.key))
            entered = entered or filled
            if part is not MISSING:
                value[inner.key] = part
        if entered or (field.required and not field.nullable):
            return value, entered
        return _leave_empty(field), False

    def read_rows(self, field: Rows, name: str, place: str) -> tuple[Any, bool]:
        values: list[Any] = []
        for row in list_rows(self.typed, name):
            known = len(self.told.places)
            value, entered = self.read(field.item, join_name(name, row), join_step(place, len(values)))
            if entered:
                values.append(value)
            while not entered and len(self.told.places) > known:  # a row that nobody filled in is none
                self.told.places.popitem()
        return (values, True) if values else (_leave_list(field), False)

    def read_lines(self, field: Lines, name: str, place: str) -> tuple[Any, bool]:
        values: list[Any] = []
        refused: list[str] = []
        for number, line in enumerate(self.find_text(name).split("\n"), 1):
            if not line.strip():
                continue
            where = _("Line %(n)s") % {"n": str(number)}
            self.told.places[join_step(place, len(values))] = name, where
            try:
                values.append(_read_text(field.item, line))
            except _UnreadableText as error:
                refused.append(join_label(where, error))
        if refused:
            raise _UnreadableText(" ".join(refused[:MOST_REASONS]))
        return (values, True) if values else (_leave_list(field), False)

    def read_checks(self, field: Checks, name: str) -> tuple[Any, bool]:
        tokens = set(self.typed.get(name, ())) - {""}
        values = [option.value for option in field.options if option.token in tokens]
        if len(values) < len(tokens):
            raise _UnreadableText(_("Choose among the values that are offered."))
        return (values, True) if values else (_leave_list(field), False)

    def read_fixed(self, field: Fixed, name: str) -> tuple[Any, bool]:
        if not field.asks:
            return (field.value if field.required else MISSING), False
        return (field.value, True) if any(self.typed.get(name, ())) else (MISSING, False)

    def read_choice(self, field: FormChoice, name: str) -> tuple[Any, bool]:
        token = (self.typed.get(name) or [""])[-1]
        if not token:
            return _leave_empty(field), False
        return find_option(field.options, token).value, True


def find_option(options: Iterable[FormOption], token: str) -> FormOption:
    """The option that a token stands for."""
    for option in options:
        if option.token == token:
            return option
    raise _UnreadableText(_("Choose one of the values that are offered."))


def check_text(text: str) -> None:
    """Refuse what no database and no strict reader of JSON takes."""
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise _UnreadableText(UNKEEPABLE.tell())


def read_json(text: str, *, or_text: bool) -> Any:
    """The value of a JSON text, or with `or_text` the text itself where it does not even look like JSON.

    >>> read_json("[1]", or_text=True), read_json("one", or_text=True)
    ([1], 'one')
    """
    if or_text and text[0] not in '{["':
        try:
            return parse_json(text.encode())
        except UnreadableJson:
            return text
    try:
        return parse_json(text.encode())
    except UnreadableJson as error:
        problem = str(error).partition(": ")[2] or str(error)
        raise _UnreadableText(_("This is no JSON: %(problem)s") % {"problem": problem}) from None


def _leave_empty(field: Field) -> Any:
    return None if field.required and field.nullable else MISSING


def _leave_list(field: Field) -> Any:
    if not field.required:
        return MISSING
    return None if field.nullable else []


def _read_text(field: Field, text: str) -> Any:
    match field:
        case FormNumber():
            return _read_number(field, text.strip())
        case Code():
            return read_json(text.strip(), or_text=field.or_text)
        case Text(control="datetime-local"):
            return _add_zone(text.strip())
        case Text(control="text", or_whole=True):
            return int(text) if _KEY.fullmatch(text.strip()) else text
        case Text(control="date" | "time" | "email" | "url"):
            return text.strip()
    return text


def _read_number(field: FormNumber, text: str) -> Any:
    text = text.replace("\N{MINUS SIGN}", "-")
    whole = _WHOLE.fullmatch(text) is not None
    if not whole and (field.whole or not _NUMBER.fullmatch(text)):
        raise _UnreadableText(_explain_number(text, whole=field.whole))
    if whole and len(text.lstrip("+-")) > MAX_DIGITS:
        raise _UnreadableText(_("This number has more than %(n)s digits.") % {"n": str(MAX_DIGITS)})
    if field.as_text:
        return text
    if whole:
        return int(text)
    number = float(text)
    if not math.isfinite(number):
        raise _UnreadableText(_("This number is too large."))
    return number


def _explain_number(text: str, *, whole: bool) -> str:
    if "," in text and _COMMAS.fullmatch(text):
        return _("Write this number without a comma: a point before the decimals, as in 1234.5, and nothing else.")
    if whole:
        return _("This has to be a whole number, such as 12.")
    return _("This has to be a number, such as 12 or 12.5.")


def _add_zone(text: str) -> str:
    """A local time as a moment: in the zone that the page names beside the field."""
    if not settings.USE_TZ or not _LOCAL.fullmatch(text):
        return text
    try:
        moment = parse_datetime(text)
        return text if moment is None else timezone.make_aware(moment).isoformat()
    except (ValueError, OverflowError):  # there is no such day; the schema says so
        return text
