"""The fields of Django forms and DRF serializers as JSON Schema.

Invariant owned: the schema never refuses JSON that the class would take as the value it stands for, and says what
JSON can say (kind, required, limits, choices, words for people). The rest stays with the class, which is asked
after it. No choice is read from the database here: a queryset's rows may change while a person thinks.
"""

from __future__ import annotations

import json
import math
from decimal import Decimal
from functools import cache
from typing import Any

from django import forms
from django.core.serializers.json import DjangoJSONEncoder
from django.core.validators import RegexValidator, URLValidator

from workflows.exceptions import InvalidSchema
from workflows.schemas.data_classes import DECIMAL_TEXT, limit_pattern

Json = dict[str, Any]

_TEXT: Json = {"type": "string"}
_NUMBER: Json = {"type": "number"}
_WHOLE: Json = {"type": "integer"}
_DECIMAL: Json = {"type": ["number", "string"], **DECIMAL_TEXT}
_BOOLEAN: Json = {"type": "boolean"}
#: A primary key: what it is depends on the model.
_KEY: Json = {"type": ["integer", "string"]}
_ISO = {"date-time": "2026-01-31T10:30:00Z", "date": "2026-01-31", "time": "10:30:00"}


def _text(form: str) -> Json:
    return {"type": "string", "format": form}


# --- forms --------------------------------------------------------------------------------------------

#: The first that fits counts, so a class stands before the one it derives from.
_FORM_FIELDS: list[tuple[type[Any], Json]] = [
    (forms.NullBooleanField, {"type": ["boolean", "null"]}),
    (forms.BooleanField, _BOOLEAN),
    (forms.DecimalField, _DECIMAL),
    (forms.FloatField, _NUMBER),
    (forms.IntegerField, _WHOLE),
    (forms.JSONField, {}),
    (forms.EmailField, _text("email")),
    (forms.URLField, _text("uri")),
    (forms.UUIDField, _text("uuid")),
    (forms.CharField, _TEXT),
    (forms.DateTimeField, _text("date-time")),
    (forms.DateField, _text("date")),
    (forms.TimeField, _text("time")),
    (forms.DurationField, _TEXT),
    (forms.ModelChoiceField, _KEY),
]


def describe_form(form: Any, source: Any) -> Json:
    """An object with the form's fields."""
    fields = {name: field for name, field in form.fields.items() if not field.disabled}
    properties = {name: _describe_form_field(field, source) for name, field in fields.items()}
    # A NullBooleanField says that it is required and takes nothing for "unknown" all the same.
    required = [n for n, field in fields.items() if field.required and not isinstance(field, forms.NullBooleanField)]
    return _make_object(properties, required)


def _describe_form_field(field: Any, source: Any) -> Json:
    if isinstance(field, forms.FileField):
        raise InvalidSchema(source, "a file cannot travel as JSON; take its address instead")
    if isinstance(field, forms.MultiValueField):
        # As the form sees it: a list with one value for each part.
        parts = [_describe_form_field(part, source) for part in field.fields]
        found: Json = {"type": "array", "prefixItems": parts, "maxItems": len(parts)}
    elif isinstance(field, forms.ModelMultipleChoiceField):
        found = {"type": "array", "items": _KEY}
    elif isinstance(field, forms.MultipleChoiceField):
        found = {"type": "array", "items": {"enum": _list_choices(field.choices)}}
    elif isinstance(field, forms.ChoiceField) and not isinstance(field, forms.ModelChoiceField):
        found = {"enum": _list_choices(field.choices)}
    else:
        found = _find_kind(field, _FORM_FIELDS)
        _limit(found, field)
        _limit_patterns(found, field, source)
        _drop_format(found, field.to_python)
    if field.required:
        _require_content(found)
    else:
        if isinstance(field, forms.CharField):
            _allow_blank(found)
        found = _allow_null(found)
    return _add_words(found, field)


def take_json(form: Any) -> None:
    """Let a form read JSON values by field name, in place of what a browser would have sent for its widgets."""
    form.prefix = None
    for field in form.fields.values():
        field.widget = _PlainField(field)


class _PlainField(forms.Widget):
    def __init__(self, field: Any) -> None:
        super().__init__()
        self.holds_json = isinstance(field, forms.JSONField)

    def value_from_datadict(self, data: Any, files: Any, name: str) -> Any:
        value = data.get(name)
        # A form's JSONField takes a text for JSON that is still to be read.
        return json.dumps(value) if self.holds_json and isinstance(value, str) else value


# --- serializers --------------------------------------------------------------------------------------


@cache
def _list_serializer_fields() -> list[tuple[type[Any], Json]]:
    from rest_framework import serializers

    return [
        (serializers.BooleanField, _BOOLEAN),
        (serializers.EmailField, _text("email")),
        (serializers.URLField, _text("uri")),
        (serializers.CharField, _TEXT),
        (serializers.UUIDField, _text("uuid")),
        (serializers.IntegerField, _WHOLE),
        (serializers.FloatField, _NUMBER),
        (serializers.DecimalField, _DECIMAL),
        (serializers.DateTimeField, _text("date-time")),
        (serializers.DateField, _text("date")),
        (serializers.TimeField, _text("time")),
        (serializers.DurationField, _TEXT),
        (serializers.PrimaryKeyRelatedField, _KEY),
        (serializers.SlugRelatedField, {}),
        (serializers.HyperlinkedRelatedField, _TEXT),
    ]


def describe_serializer(serializer: Any, source: Any) -> Json:
    """An object with the fields that may be written."""
    from rest_framework.serializers import HiddenField

    fields = {
        name: field
        for name, field in serializer.fields.items()
        if not field.read_only and not isinstance(field, HiddenField)
    }
    properties = {name: _describe_serializer_field(field, source) for name, field in fields.items()}
    return _make_object(properties, [name for name, field in fields.items() if field.required])


def _describe_serializer_field(field: Any, source: Any) -> Json:
    from rest_framework import serializers

    match field:
        case serializers.FileField():
            raise InvalidSchema(source, f"{field.field_name!r} is a file, which cannot travel as JSON")
        case serializers.Serializer():
            found = describe_serializer(field, source)
        case serializers.ListSerializer() | serializers.ListField():
            found = {"type": "array", "items": _describe_serializer_field(field.child, source)}
            _limit_items(found, field)
        case serializers.ManyRelatedField():
            found = {"type": "array", "items": _describe_serializer_field(field.child_relation, source)}
            _limit_items(found, field)
        case serializers.DictField():
            found = {"type": "object", "additionalProperties": _describe_serializer_field(field.child, source)}
            if not field.allow_empty:
                found["minProperties"] = 1
        case serializers.MultipleChoiceField():
            found = {"type": "array", "items": {"enum": _list_choices(field.choices.items())}}
            _limit_items(found, field)
        case serializers.ChoiceField():
            found = {"enum": [*_list_choices(field.choices.items()), *([""] if field.allow_blank else [])]}
        case _:
            found = _find_kind(field, _list_serializer_fields())
            _limit(found, field)
            _limit_patterns(found, field, source)
            _drop_format(found, field.to_internal_value)
            if isinstance(field, serializers.CharField):
                _allow_blank(found) if field.allow_blank else _require_content(found)
    return _add_words(_allow_null(found) if field.allow_null else found, field)


def _limit_items(found: Json, field: Any) -> None:
    if (least := getattr(field, "min_length", None)) is not None:
        found["minItems"] = least
    if (most := getattr(field, "max_length", None)) is not None:
        found["maxItems"] = most
    if not field.allow_empty:
        found["minItems"] = max(1, found.get("minItems", 1))


# --- both ---------------------------------------------------------------------------------------------


def _make_object(properties: Json, required: list[str]) -> Json:
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _find_kind(field: Any, table: list[tuple[type[Any], Json]]) -> Json:
    """A field of a kind that nobody knows here takes anything; its class is asked later."""
    return next((dict(found) for kind, found in table if isinstance(field, kind)), {})


def _limit(found: Json, field: Any) -> None:
    if found.get("type") == "string":
        pairs = (("minLength", "min_length"), ("maxLength", "max_length"))
    else:
        pairs = (("minimum", "min_value"), ("maximum", "max_value"))
    for keyword, attribute in pairs:
        limit = getattr(field, attribute, None)
        if isinstance(limit, int | float | Decimal) and math.isfinite(limit):
            found[keyword] = int(limit) if limit == int(limit) else float(limit)


def _limit_patterns(found: Json, field: Any, source: Any) -> None:
    """A field's own patterns are tried by Python's engine: on no longer a text than can be waited for."""
    if found.get("type") != "string":
        return
    for validator in field.validators:
        # That of addresses has a limit of its own.
        if isinstance(validator, RegexValidator) and not isinstance(validator, URLValidator):
            limit_pattern(found, validator.regex, source)


def _drop_format(found: Json, read: Any) -> None:
    """Dates in another notation than JSON's are the class's own business."""
    if (sample := _ISO.get(found.get("format", ""))) is None:
        return
    for text in (sample, sample.removesuffix("Z")):
        try:
            read(text)
        except Exception:  # each library has errors of its own
            continue
        return
    del found["format"]


def _require_content(found: Json) -> None:
    if found.get("type") == "string" and "format" not in found:
        found["minLength"] = max(1, found.get("minLength", 1))
    elif found.get("type") == "array":
        found.setdefault("minItems", 1)


def _allow_blank(found: Json) -> None:
    """An empty text is no e-mail address and too short for any limit, and is taken where nothing is required."""
    found.pop("format", None)
    found.pop("minLength", None)


def _allow_null(found: Json) -> Json:
    if "enum" in found:
        return {**found, "enum": [*found["enum"], *([] if None in found["enum"] else [None])]}
    kind = found.get("type")
    if kind is None:
        return found
    kinds = [kind] if isinstance(kind, str) else kind
    return {**found, "type": [*kinds, *([] if "null" in kinds else ["null"])]}


def _list_choices(choices: Any) -> list[Any]:
    """The keys of all choices, also of those in groups, as JSON has them."""
    keys: list[Any] = []
    for key, label in choices:
        keys.extend(inner for inner, _ in label) if isinstance(label, list | tuple) else keys.append(key)
    plain: list[Any] = json.loads(json.dumps(keys, cls=DjangoJSONEncoder))
    return plain


def _add_words(found: Json, field: Any) -> Json:
    words = {"title": field.label, "description": field.help_text}
    return {**found, **{keyword: str(text) for keyword, text in words.items() if text}}
