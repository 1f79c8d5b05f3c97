"""What a form is made of: one frozen value per kind of field, and how each is addressed.

A tree says nothing about where it stands, so that the item of a list can be shown in every row; names, places and
ids are made on the way down. Invariants owned: two fields of a form never share a name, whatever their properties
are called; a name comes back from a browser as it was written.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from workflows.values.json_text import MISSING

#: What was typed: the name of a field to its texts, as a browser sends them.
Typed: TypeAlias = Mapping[str, list[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """One value that is asked for."""

    #: The property it becomes; the form itself and the item of a list have none.
    key: str = ""
    label: str
    hint: str = ""
    #: What would be right, in whole sentences: limits, examples.
    notes: tuple[str, ...] = ()
    required: bool = False
    #: Left empty it is null where something has to be there.
    nullable: bool = False
    default: Any = MISSING


@dataclass(frozen=True, slots=True, kw_only=True)
class Text(Field):
    """A text, on one line or several."""

    #: The kind of control; "area" has lines.
    control: Literal["text", "area", "email", "url", "password", "date", "time", "datetime-local"] = "text"
    rows: int = 1
    #: A whole number is meant as one: a key, of which the schema does not say which of the two it is.
    or_whole: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FormNumber(Field):
    """A number, typed with a point."""

    whole: bool = False
    #: It travels as text, which keeps its digits.
    as_text: bool = False


@dataclass(frozen=True, slots=True)
class FormOption:
    """One of several values to choose from; the token stands for it in the form."""

    token: str
    label: str
    value: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class FormChoice(Field):
    """One of several values; yes and no are such."""

    options: tuple[FormOption, ...]
    #: What it is called to choose none of them.
    none: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checks(Field):
    """Any of several values."""

    options: tuple[FormOption, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed(Field):
    """A value that stands already: shown, or confirmed by a tick."""

    value: Any
    shown: str = ""
    asks: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines(Field):
    """A list of plain values, one on each line."""

    item: Text | FormNumber


@dataclass(frozen=True, slots=True, kw_only=True)
class Code(Field):
    """A value as JSON, for what no other field can hold."""

    #: What is no JSON is text.
    or_text: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FormGroup(Field):
    """An object."""

    fields: tuple[Field, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows(Field):
    """A list of objects."""

    item: Field
    #: How many rows there are at first, and at most.
    least: int = 0
    most: int = 0


#: Names are pieces of JSON Pointers, which escape these two; a browser changes line breaks inside a name.
_ESCAPES = {"~": "~0", "/": "~1", "\r": "~r", "\n": "~n"}
_ESCAPED = re.compile("[~/\r\n]")
_FOREIGN = re.compile(r"[^A-Za-z0-9]")
_LONGEST_ID = 80


def join_name(name: str, key: str) -> str:
    """The name of a property's field below that of its object.

    >>> join_name("data/lines/0", "net/gross")
    'data/lines/0/net~1gross'
    """
    return f"{name}/{_ESCAPED.sub(lambda found: _ESCAPES[found[0]], key)}"


def join_step(place: str, step: object) -> str:
    """The place of a value below another, as the refusals of a schema write it."""
    return f"{place}.{step}" if place else str(step)


def join_lines(text: str) -> str:
    """A text with each line break as one character, where a browser sends two."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def make_id(name: str) -> str:
    """The id of a field's control: made of letters only, so that a link can lead to it; as long as ids should be.

    >>> make_id("data/first name")
    'data-2f-first-20-name'
    """
    written = _FOREIGN.sub(lambda found: f"-{ord(found[0]):x}-", name)
    if len(written) <= _LONGEST_ID:
        return written
    return f"{written[:40]}-{hashlib.sha256(name.encode()).hexdigest()[:24]}"
