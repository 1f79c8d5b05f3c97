"""A field's value as plain JSON, and back again; which fields are secret.

Lives here: the one pair of functions through which values of any model enter and leave what is kept of a review.
What must not: queries, validation, wording. Invariants owned: `from_plain(field, to_plain(field, value))` is the
value; equal values have equal JSON, however they were written; a secret leaves only as `REDACTED`.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from types import SimpleNamespace
from typing import Any, TypeAlias, cast
from uuid import UUID

from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import models
from django.db.models.fields.files import FieldFile
from django.utils import timezone
from django.utils.duration import duration_string
from django.utils.functional import Promise

#: What stands in a snapshot for a value that nobody may read there.
REDACTED = "⟨redacted⟩"

#: What fields raise at values that are not theirs.
MISREAD = (ValidationError, TypeError, ValueError, ArithmeticError, AttributeError, LookupError)

AnyField: TypeAlias = "models.Field[Any, Any]"

#: A model names more: `approval_secrets = ("iban",)`; a class of fields has `secret = True`, or False against its name.
_SECRET_NAME = re.compile(
    r"(^|_)(password|passwd|passphrase|pwd|secret|token|credentials?|otp|pin|cvv|cvc|(api|private|access|secret)_?key)"
    r"(_?(hash|digest|\d+))?$"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_WORD_BREAK = re.compile(r"[\s.-]+")
#: Named like secrets ("password_expires", "has_token") these say something about one.
_NEVER_SECRET = (
    models.BooleanField,
    models.DateField,
    models.TimeField,
    models.DurationField,
    models.ForeignKey,
    models.ManyToManyField,
)


def is_secret_name(name: str) -> bool:
    """Whether something of this name is never shown.

    >>> [name for name in ("apiKey", "password_2", "secretary", "max_tokens") if is_secret_name(name)]
    ['apiKey', 'password_2']
    """
    return _SECRET_NAME.search(_WORD_BREAK.sub("_", _CAMEL.sub("_", name)).lower()) is not None


def is_secret(field: AnyField, model: type[models.Model]) -> bool:
    """Whether this field of a model is never shown nor kept: by its name, its class, or because a model says so.

    A child or a proxy may name more fields as secret, and cannot take back what its parents named.
    """
    marked = getattr(field, "secret", None)
    if isinstance(marked, bool):
        return marked
    if any(field.name in vars(one).get("approval_secrets", ()) for one in model.__mro__):
        return True
    if isinstance(field, _NEVER_SECRET):
        return False
    kind = type(field).__name__
    return "Encrypted" in kind or "Password" in kind or is_secret_name(field.name)


def to_plain(field: AnyField, value: Any) -> Any:
    """A value of this field as JSON; the same for a `Decimal("5")`, a `"5.00"` and whatever else means it.

    What the field cannot read is kept as text, because a snapshot tells what is there.
    """
    if value is None:
        return None
    if isinstance(field, models.ForeignKey):
        target = field.target_field
        return to_plain(target, getattr(value, target.attname) if isinstance(value, models.Model) else value)
    if isinstance(field, models.JSONField):
        return json.loads(json.dumps(value, cls=field.encoder))
    if isinstance(field, models.FileField):
        return _exact((value.name if isinstance(value, FieldFile) else str(value)) or "")
    return _write_plain(field, _read_leniently(field, value))


def from_plain(field: AnyField, plain: Any) -> Any:
    """The value that this JSON stands for; raises ValidationError where the field cannot read it."""
    if plain is None:
        return None
    if isinstance(field, models.ForeignKey):
        return from_plain(field.target_field, plain)
    if isinstance(field, models.JSONField):
        return json.loads(json.dumps(plain), cls=field.decoder) if field.decoder else plain
    base = getattr(field, "base_field", None)
    if isinstance(plain, list) and base is not None:
        return [from_plain(base, item) for item in plain]
    return field.to_python(plain)


def redact_json(value: Any, depth: int = 100) -> Any:
    """The same JSON without what stands under a secret's name, at any depth.

    >>> redact_json({"host": "a", "auth": {"api_key": "k"}})
    {'host': 'a', 'auth': {'api_key': '⟨redacted⟩'}}
    """
    if not depth:
        return REDACTED
    if isinstance(value, dict):
        return {
            key: REDACTED if is_secret_name(key) and item not in (None, "") else redact_json(item, depth - 1)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [redact_json(item, depth - 1) for item in value]
    return value


def write_canonical(value: Any) -> str:
    """JSON in the one spelling that is the same before and after jsonb: sorted keys, numbers written out."""
    if isinstance(value, Mapping):
        pairs = sorted((str(key), item) for key, item in value.items())
        return "{" + ",".join(f"{json.dumps(key)}:{write_canonical(item)}" for key, item in pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ",".join(map(write_canonical, value)) + "]"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value) if isinstance(value, int) and abs(value) < 10**18 else _write_number(value)
    return json.dumps(value, default=repr)


def make_aware(value: datetime) -> datetime:
    """A moment as the site keeps moments; one without a zone is meant in the zone that is active."""
    if settings.USE_TZ and timezone.is_naive(value):
        return timezone.make_aware(value)
    return value


def _read_leniently(field: AnyField, value: Any) -> Any:
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, Promise):
        value = str(value)
    if isinstance(value, float) and isinstance(field, models.DecimalField):
        value = repr(value)
    if isinstance(field, models.DateTimeField) and isinstance(value, date) and not isinstance(value, datetime):
        value = make_aware(datetime.combine(value, time()))
    try:
        value = field.to_python(value)
    except MISREAD:
        return value
    base = getattr(field, "base_field", None)
    return [to_plain(base, item) for item in value] if isinstance(value, list | tuple) and base else value


def _write_plain(field: AnyField, value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _exact(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else repr(float(value))
    if isinstance(value, Decimal):
        return _write_decimal(value, getattr(field, "decimal_places", None) or 0)
    if isinstance(value, datetime):
        return _write_moment(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return duration_string(value)
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, list) and hasattr(field, "base_field"):
        return value
    if isinstance(value, Mapping) and all(item is None or isinstance(item, str) for item in value.values()):
        return {str(key): item for key, item in value.items()}
    # Django's own contract for fields of any other kind: `to_python` reads what this writes.
    try:
        return _exact(field.value_to_string(cast(models.Model, SimpleNamespace(**{field.attname: value}))))
    except MISREAD:
        return _exact(str(value))


def _write_decimal(value: Decimal, places: int) -> str:
    """With its field's places, as the database gives it back; with more only where it has more."""
    if not value.is_finite() or abs(value.adjusted()) > 1000:
        return str(value)
    whole, _, fraction = f"{value or 0:f}".partition(".")
    fraction = fraction.rstrip("0").ljust(places, "0")
    return f"{whole}.{fraction}" if fraction else whole


def _write_moment(value: datetime) -> str:
    moment = make_aware(value)
    try:
        return (moment.astimezone(UTC) if timezone.is_aware(moment) else moment).isoformat()
    except OverflowError:
        return moment.isoformat()


def _write_number(value: int | float) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    number = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    text = f"{number or 0:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _exact(text: str) -> str:
    """The text as `str` itself: a subclass may claim to be safe for a page."""
    return "".join((text,))
