"""From a JSON Schema to the fields of a form.

Whatever no field can hold becomes one that takes JSON, so every schema has a form. Invariants owned: a form has at
most `MOST_FIELDS` fields and is `DEEPEST` levels deep, whatever the schema says; words of the schema are cut where
nobody reads on, and are never markup.
"""

from __future__ import annotations

import json
from typing import Any

from django.utils.text import capfirst
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, npgettext, pgettext

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
)
from workflows.forms.form_writer import write_number
from workflows.schemas.field_order import sort_fields
from workflows.schemas.flatten import Flat, Json, flatten
from workflows.values.json_text import MISSING
from workflows.wording.punctuation import join_list

MOST_FIELDS = 250
DEEPEST = 6
#: Values to choose from: more are typed.
MOST_OPTIONS = 200
MOST_CHECKS = 60
MOST_ROWS = 100
#: Characters.
LONGEST_LABEL = 200
LONGEST_HINT = 2000
#: A text that may be longer than this gets several lines.
LONG_TEXT = 150
#: A limit above this tells nobody anything.
_TOLD_LIMIT = 10_000_000

_CONTROLS: dict[str, Any] = {
    "date": "date",
    "time": "time",
    "date-time": "datetime-local",
    "email": "email",
    "idn-email": "email",
    "uri": "url",
    "iri": "url",
    "password": "password",
}
_LONG_FORMATS = ("textarea", "multiline", "markdown")


def plan_form(schema: Any, *, label: str) -> Field:
    """The field for a whole answer; `label` is what it is called where the schema does not say.

    >>> plan_form({"properties": {"paid": {"type": "boolean"}}}, label="Answer").fields[0].label
    'Paid'
    """
    return _Planner(schema).plan("", schema, label=label, required=True)


class _Planner:
    def __init__(self, root: Any) -> None:
        self.root = root
        self.left = MOST_FIELDS

    def plan(
        self,
        key: str,
        schema: Any,
        *,
        label: str,
        required: bool,
        depth: int = 0,
        trail: tuple[str, ...] = (),
    ) -> Field:
        flat = flatten(schema, self.root, trail) or Flat({}, opaque=True)
        words = flat.keywords
        common: dict[str, Any] = {
            "key": key,
            "label": _cut(_find_title(words, key) or label or words.get("x-title"), LONGEST_LABEL),
            "hint": _cut(words.get("description") or "", LONGEST_HINT),
            "required": required,
            "nullable": flat.nullable,
            "default": MISSING if words.get("default") is None else words["default"],
        }
        if words.get("readOnly") is True and (field := _fix(words, common)) is not None:
            return field
        if flat.opaque:
            return Code(**common, notes=_tell_examples(words))
        if "const" in words:
            return _plan_constant(words["const"], common)
        if isinstance(words.get("enum"), list):
            return _plan_enumeration(words, common)
        match _find_kind(words):
            case "string":
                return _plan_text(words, common)
            case "integer" | "number" as kind:
                return FormNumber(
                    **common, whole=kind == "integer", notes=(*_tell_range(words), *_tell_examples(words))
                )
            case "boolean":
                options = _option(True, _("Yes")), _option(False, _("No"))
                return FormChoice(**common, options=options, none=_name_none(common, _("Neither")))
            case "null":
                return Fixed(**common, value=None, shown=_("Nothing"))
            case "object":
                return self._plan_object(flat, common, depth)
            case "array":
                return self._plan_list(flat, common, depth)
            case ["number", "string"] | ["string", "number"] if words.get("format") == "decimal":
                return FormNumber(**common, as_text=True, notes=(*_tell_range(words), *_tell_examples(words)))
            case ["integer", "string"] | ["string", "integer"]:
                return Text(**common, or_whole=True, notes=_tell_examples(words))
            case list() as kinds:
                return Code(**common, or_text="string" in kinds, notes=_tell_examples(words))
        return Code(**common, or_text=True, notes=_tell_examples(words))

    def _plan_object(self, flat: Flat, common: dict[str, Any], depth: int) -> Field:
        given = flat.keywords.get("properties")
        properties: Json = dict(given) if isinstance(given, dict) else {}
        asked = flat.keywords.get("required")
        required = [name for name in asked if isinstance(name, str)] if isinstance(asked, list) else []
        if properties:
            properties.update({name: {} for name in required if name not in properties})
        shown = {name: inner for name, inner in properties.items() if inner is not False}
        if not shown or depth >= DEEPEST or len(shown) > self.left:
            return Code(**common)
        self.left -= len(shown)
        ranked = sort_fields(shown, flat.keywords)
        fields = (
            self.plan(
                name, shown[name], label=name_key(name), required=name in required, depth=depth + 1, trail=flat.trail
            )
            for name in ranked
        )
        return FormGroup(**common, fields=tuple(fields))

    def _plan_list(self, flat: Flat, common: dict[str, Any], depth: int) -> Field:
        words = flat.keywords
        inner = words.get("items")
        if "prefixItems" in words or not isinstance(inner, dict) or depth >= DEEPEST or not self.left:
            return Code(**common, notes=_tell_count(words))
        self.left -= 1
        item = self.plan("", inner, label=_("Item"), required=True, depth=depth + 1, trail=flat.trail)
        notes = (*_tell_count(words), *item.notes)
        if isinstance(item, FormChoice) and len(item.options) <= MOST_CHECKS and not item.nullable:
            return Checks(**common, options=item.options, notes=_tell_count(words))
        if isinstance(item, Text | FormNumber) and not item.nullable:
            return Lines(**common, item=item, notes=notes)
        if isinstance(item, FormGroup) and not item.nullable:
            least, most = _read_count(words, "minItems", 0), _read_count(words, "maxItems", MOST_ROWS)
            first = max(least, 1 if common["required"] and not common["nullable"] else 0)
            most = min(most, MOST_ROWS)
            return Rows(**common, item=item, least=min(first, most, 10), most=most, notes=_tell_count(words))
        return Code(**common, notes=_tell_count(words))


# --- kinds --------------------------------------------------------------------------------------------


def _find_kind(words: Json) -> Any:
    kind = words.get("type")
    if isinstance(kind, str) or (isinstance(kind, list) and kind):
        return kind
    for found, keywords in (
        ("object", ("properties", "required", "additionalProperties", "minProperties", "maxProperties")),
        ("array", ("items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains")),
        ("string", ("minLength", "maxLength", "pattern", "format")),
        ("number", ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")),
    ):
        if any(keyword in words for keyword in keywords):
            return found
    return None


def _plan_constant(value: Any, common: dict[str, Any]) -> Field:
    # Nobody agrees to terms that are agreed to already; and what may be left out has to be asked for.
    asks = value is True or not common["required"]
    return Fixed(**common, value=value, shown=_cut(_show_value(value), LONGEST_LABEL), asks=asks)


def _fix(words: Json, common: dict[str, Any]) -> Field | None:
    """What may only be read, where the schema says what stands there."""
    value = words.get("const", words.get("default", MISSING))
    if value is MISSING:
        return None
    return Fixed(**common, value=value, shown=_cut(_show_value(value), LONGEST_LABEL))


def _plan_enumeration(words: Json, common: dict[str, Any]) -> Field:
    values: list[Any] = words["enum"]
    labels = words.get("x-labels")
    named = labels if isinstance(labels, list) and len(labels) == len(values) else [None] * len(values)
    options: dict[str, FormOption] = {}
    for value, label in zip(values[:MOST_OPTIONS], named, strict=False):
        option = _option(value, label if isinstance(label, str) and label else _show_value(value))
        options.setdefault(option.token, option)
    if not options or len(values) > MOST_OPTIONS:
        texts = all(isinstance(value, str) for value in values)
        return Text(**common) if texts else Code(**common)
    return FormChoice(**common, options=tuple(options.values()), none=_name_none(common, _("None of these")))


def _option(value: Any, label: str) -> FormOption:
    return FormOption(json.dumps(value), _cut(label, LONGEST_LABEL), value)


def _plan_text(words: Json, common: dict[str, Any]) -> Text:
    form, most = words.get("format"), words.get("maxLength")
    notes = (*_tell_length(words), *_tell_examples(words))
    if isinstance(form, str) and form in _CONTROLS:
        return Text(**common, control=_CONTROLS[form], notes=notes)
    media = words.get("contentMediaType")
    if form in _LONG_FORMATS or (isinstance(media, str) and media.startswith("text/")):
        return Text(**common, control="area", rows=4, notes=notes)
    if isinstance(most, int | float):
        return Text(**common, control="area" if most > LONG_TEXT else "text", rows=3, notes=notes)
    if "pattern" in words or "format" in words:
        return Text(**common, notes=notes)
    # It may be a name or a letter: one line that grows.
    return Text(**common, control="area", rows=1, notes=notes)


# --- words --------------------------------------------------------------------------------------------


def _find_title(words: Json, key: str) -> Any:
    """A title that an author wrote; not the one that pydantic makes of a name, in the capitals of a headline."""
    title = words.get("title")
    return None if title == key.replace("_", " ").title() else title


def name_key(name: str) -> str:
    """`first_name` as people write it."""
    return capfirst(" ".join(name.replace("_", " ").replace("-", " ").split())) or name or _("(no name)")


def _name_none(common: dict[str, Any], null: str) -> str:
    return null if common["nullable"] and common["required"] else _("No answer")


def _show_value(value: Any) -> str:
    if value is None:
        return _("Nothing")
    if isinstance(value, bool):
        return _("Yes") if value else _("No")
    return value if isinstance(value, str) and value.strip() else json.dumps(value, ensure_ascii=False)


def _cut(text: Any, limit: int) -> str:
    shown = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


def _read_count(words: Json, keyword: str, otherwise: int) -> int:
    value = words.get(keyword)
    return int(value) if isinstance(value, int | float) and 0 <= value <= _TOLD_LIMIT else otherwise


def _tell_length(words: Json) -> tuple[str, ...]:
    least, most = _read_count(words, "minLength", 0), _read_count(words, "maxLength", 0)
    told = []
    if least > 1:
        told.append(ngettext("At least %(n)s character.", "At least %(n)s characters.", least) % {"n": least})
    if most:
        told.append(ngettext("At most %(n)s character.", "At most %(n)s characters.", most) % {"n": most})
    return tuple(told)


def _tell_count(words: Json) -> tuple[str, ...]:
    least, most = _read_count(words, "minItems", 0), _read_count(words, "maxItems", 0)
    told = []
    if least:
        told.append(npgettext("how many are to be given", "At least %(n)s.", "At least %(n)s.", least) % {"n": least})
    if most:
        told.append(npgettext("how many are to be given", "At most %(n)s.", "At most %(n)s.", most) % {"n": most})
    return tuple(told)


def _tell_range(words: Json) -> tuple[str, ...]:
    sentences = {
        "minimum": pgettext("a number", "At least %(n)s."),
        "exclusiveMinimum": _("More than %(n)s."),
        "maximum": pgettext("a number", "At most %(n)s."),
        "exclusiveMaximum": _("Less than %(n)s."),
        "multipleOf": _("In steps of %(n)s."),
    }
    limits = {name: words.get(name) for name in sentences}
    return tuple(
        sentences[name] % {"n": f"{write_number(limit):.40}"}
        for name, limit in limits.items()
        if isinstance(limit, int | float) and not isinstance(limit, bool)
    )


def _tell_examples(words: Json) -> tuple[str, ...]:
    given = words.get("examples", words.get("example"))
    examples = given if isinstance(given, list) else [] if given is None else [given]
    shown = [_cut(one if isinstance(one, str) else json.dumps(one, ensure_ascii=False), 80) for one in examples[:3]]
    if not shown:
        return ()
    return (_("For example: %(examples)s.") % {"examples": join_list(shown)},)
