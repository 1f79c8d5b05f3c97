"""From a JSON value to what somebody would have typed for it: what a form shows at first.

Invariant owned: what is written here is read back as the same value, as far as its field can hold it; what it
cannot hold is left out, so that nobody sends by accident what they never saw.
"""

from __future__ import annotations

import json
from typing import Any

from django.conf import settings
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from workflows.forms.form_fields import (
    Checks,
    Code,
    Field,
    Fixed,
    FormChoice,
    FormGroup,
    FormNumber,
    Lines,
    Rows,
    Text,
    join_name,
)
from workflows.forms.form_reader import read_json
from workflows.values.json_text import MISSING

#: Beyond it a float does not hold every whole number.
_WHOLE = 2.0**53


def write_form(form: Field, name: str, value: Any = MISSING) -> dict[str, list[str]]:
    """What stands in each field for a value; without one, for the defaults of what has to be there.

    >>> write_form(FormNumber(label="Amount", default=5), "data")
    {'data': ['5']}
    """
    typed: dict[str, list[str]] = {}
    _write(form, name, value, typed, suggest=value is MISSING)
    return typed


def _write(field: Field, name: str, value: Any, typed: dict[str, list[str]], *, suggest: bool) -> None:
    """`suggest`: where there is no value, the default stands for it.

    Within an object that may be left out nothing is suggested: it would be sent, and its required parts be missed.
    """
    if suggest and value is MISSING:
        value = field.default
    match field:
        case FormGroup():
            within = value if isinstance(value, dict) else {}
            suggest = suggest and (field.required or value is not MISSING)
            for inner in field.fields:
                _write(inner, join_name(name, inner.key), within.get(inner.key, MISSING), typed, suggest=suggest)
        case Rows():
            rows = value if isinstance(value, list) else [MISSING] * field.least
            typed[name] = [str(number) for number in range(len(rows))]
            for number, row in enumerate(rows):
                _write(field.item, join_name(name, str(number)), row, typed, suggest=suggest and row is MISSING)
        case _ if value is not MISSING and (texts := _write_value(field, value)):
            typed[name] = texts


def _write_value(field: Field, value: Any) -> list[str]:
    match field:
        case Fixed():
            return ["1"] if field.asks and value == field.value else []
        case FormChoice():
            return [option.token for option in field.options if _is_same(option.value, value)]
        case Checks() if isinstance(value, list):
            return [option.token for option in field.options if any(_is_same(option.value, each) for each in value)]
        case Lines() if isinstance(value, list):
            lines = [_write_text(field.item, each) for each in value]
            return ["\n".join(lines)] if all(line.strip() and "\n" not in line for line in lines) else []
        case Text() | FormNumber():
            text = _write_text(field, value)
            return [text] if text else []
        case Code():
            return [_write_code(field, value)]
    return []


def _write_text(field: Text | FormNumber, value: Any) -> str:
    """The text of a plain value, empty where the field cannot hold it."""
    if isinstance(field, FormNumber):
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return write_number(value) if is_number else value if field.as_text and isinstance(value, str) else ""
    if not isinstance(value, str):
        return str(value) if field.or_whole and isinstance(value, int) and not isinstance(value, bool) else ""
    return _drop_zone(value) if field.control == "datetime-local" else value


def write_number(value: Any) -> str:
    """A number as somebody would type it: a whole one without the point that its type gives it.

    >>> write_number(7000.0), write_number(0.5), write_number(12)
    ('7000', '0.5', '12')
    """
    is_whole = isinstance(value, float) and value.is_integer() and abs(value) < _WHOLE
    return json.dumps(int(value) if is_whole and str(value) != "-0.0" else value)


def _write_code(field: Code, value: Any) -> str:
    """JSON; a text as itself where it is read back as one."""
    plain = field.or_text and isinstance(value, str) and value.strip() == value != "" and "\r" not in value
    # Not what begins like JSON: somebody who goes on typing there would be told that it is none.
    if plain and value[0] not in '{["' and read_json(value, or_text=True) == value:
        text: str = value
        return text
    return json.dumps(value, ensure_ascii=False, indent=2)


def _drop_zone(text: str) -> str:
    """A moment in the zone that the page names, where that is all there is to it."""
    if not settings.USE_TZ:
        return text
    try:
        moment = parse_datetime(text)
        if moment is None or timezone.is_naive(moment):
            return text
        local = timezone.make_naive(moment)
        # In the hour that a clock goes through twice, the local time alone does not say which.
        return local.isoformat() if timezone.make_aware(local) == moment else text
    except (ValueError, OverflowError):
        return text


def _is_same(one: Any, other: Any) -> bool:
    """As JSON has it: 1 is not true."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
