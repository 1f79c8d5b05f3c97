"""A JSON value as people read it: names beside their values, lists as lists; never markup.

Invariant owned: however large or deep a value is, what is shown of it is bounded, and says so where it was cut; and
no character of it hides or reorders what stands beside it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from django.core.serializers.json import DjangoJSONEncoder
from django.utils.translation import gettext as _

from workflows.wording.hidden_characters import reveal

MOST_VALUES = 200
DEEPEST = 5
#: Characters of one text, of a name, and of a whole value as JSON.
LONGEST_TEXT = 2000
LONGEST_NAME = 200
LONGEST_JSON = 20_000


@dataclass(frozen=True, slots=True)
class Value:
    """A piece of a value: a text, named values, or a list."""

    kind: Literal["text", "none", "code", "names", "list"]
    text: str = ""
    name: str = ""
    values: tuple[Value, ...] = ()
    #: Values that were left out.
    more: int = 0


def show_value(value: Any) -> Value:
    """What to show of a value.

    >>> show_value({"paid": True}).values[0].text
    'Yes'
    """
    return _Budget(MOST_VALUES).show(value, "", 0)


def dump_shown(value: Any) -> str:
    """The JSON of a value, or its beginning."""
    text = json.dumps(value, indent=2, ensure_ascii=False, cls=DjangoJSONEncoder)
    return _cut(text, LONGEST_JSON)


@dataclass(slots=True)
class _Budget:
    left: int

    def show(self, value: Any, name: str, depth: int) -> Value:
        self.left -= 1
        name = _cut(name, LONGEST_NAME)
        match value:
            case None | "":
                return Value("none", _("none") if value is None else _("empty"), name)
            case bool():
                return Value("text", _("Yes") if value else _("No"), name)
            case str():
                return Value("text", _cut(value, LONGEST_TEXT), name)
            case dict() | list() if not value:
                return Value("none", _("empty"), name)
            case dict() | list() if depth >= DEEPEST:
                return Value("code", _cut(json.dumps(value, ensure_ascii=False), LONGEST_TEXT), name)
            case dict():
                shown = tuple(self._show_some(((key, each) for key, each in value.items()), depth))
                return Value("names", "", name, shown, len(value) - len(shown))
            case list():
                shown = tuple(self._show_some((("", each) for each in value), depth))
                return Value("list", "", name, shown, len(value) - len(shown))
        return Value("text", _cut(json.dumps(value), LONGEST_TEXT), name)

    def _show_some(self, items: Iterator[tuple[str, Any]], depth: int) -> Iterator[Value]:
        for key, each in items:
            if self.left <= 0:
                return
            yield self.show(each, key, depth + 1)


def _cut(text: str, limit: int) -> str:
    return reveal(text if len(text) <= limit else f"{text[: limit - 1]}…", lines=True)
