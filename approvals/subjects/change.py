"""A change that was asked for: read, tried out, and in the end made.

Lives here: what may be asked of an object and how it is done. What must not: who may ask or decide. Invariants owned:
what is read is JSON and holds no secret, and it is what will be saved, after all validation that the model has; a
change is made to the row as it is, under its lock, and changes nothing else of it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from copy import copy
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS, ObjectDoesNotExist, SuspiciousFileOperation, ValidationError
from django.core.files.base import File
from django.core.files.utils import validate_file_name
from django.db import DataError, IntegrityError, models, transaction
from django.db.models.fields.files import FieldFile
from django.forms.utils import from_current_timezone
from django.utils.functional import Promise
from django.utils.translation import gettext as _

from approvals.display.values import show_text
from approvals.subjects.diff_parts import same_json
from approvals.subjects.field_values import MISREAD, REDACTED, AnyField, is_secret, to_plain
from approvals.subjects.reference import (
    MAX_REASON,
    InvalidChange,
    find_alias,
    find_field,
    find_rows,
    is_state,
    read_field,
    refuse_unsaved,
    sort_keys,
    write_keys,
)
from workflows.exceptions import InvalidCall
from workflows.values.json_text import dump_value
from workflows.wording.messages import Reason, gettext_noop

#: Rows that one relation to many may be set to.
MAX_RELATED = 1_000

#: Why a change cannot be made, beside what validation says.
GONE = Reason(gettext_noop("its object is no longer there"))
UNKNOWN = Reason(gettext_noop("this server does not know such objects: if it is being updated, try again soon"))
REFUSED_THERE = Reason(gettext_noop("the database refuses it"))

_NUMBERS = (models.IntegerField, models.FloatField, models.DecimalField)
_TEXTS = (models.CharField, models.TextField)


def read_change(obj: models.Model, change: Mapping[str, Any]) -> dict[str, Any]:
    """The change as JSON, once it is clear that it could be made now; nothing is saved.

    Values are what a form has cleaned, what the model takes, or JSON: rows or their keys for relations, lists of
    them for relations to many. What the row has already is left out, so an empty answer says that nothing would
    change. Compared and tried out is the stored row, because a form may have changed `obj` already.
    Raises InvalidChange with every field's reasons.

    >>> read_change(invoice, {"amount": Decimal("99.5"), "customer": acme, "due": invoice.due})
    {'amount': '99.50', 'customer': 2}
    """
    refuse_unsaved(obj)
    row = find_rows(type(obj), find_alias(obj)).filter(pk=obj.pk).first()
    if row is None:
        raise InvalidChange("change", obj, {"": [GONE]})
    values = _read_values(row, change)
    now = {field: _write_value(row, field, read_field(row, field)) for field in values}
    _try_out(row, values)
    # A model's `clean` may have had its say about these too; rows of a relation to many are not set before the save.
    tried = {field: values[field] if field.many_to_many else read_field(row, field) for field in values}
    plain = {field: _write_value(row, field, value) for field, value in tried.items()}
    return {field.name: value for field, value in plain.items() if not same_json(value, now[field])}


def apply_change(obj: models.Model, change: Mapping[str, Any]) -> models.Model:
    """Make a change and save it; returns the object as it is then.

    The row is locked and read again first, so that nothing else of `obj` is saved and nothing that others changed
    meanwhile is undone. Where validation refuses, nothing is saved and `obj` stands as the row does.
    """
    refuse_unsaved(obj)
    using, model = find_alias(obj), type(obj)
    with transaction.atomic(using=using):
        locked = find_rows(model, using).select_for_update(no_key=True)
        try:
            obj.refresh_from_db(using, [field.attname for field in model._meta.concrete_fields], from_queryset=locked)
        except ObjectDoesNotExist as error:
            raise InvalidChange("change", obj, {"": [GONE]}) from error
        values = _read_values(obj, change)
        kept = {**obj.__dict__}, {**obj._state.fields_cache}
        try:
            _try_out(obj, values)
            if values:
                _save(obj, values)
        except BaseException:
            obj.__dict__.clear()
            obj.__dict__.update(kept[0])
            obj._state.fields_cache = kept[1]
            raise
    return obj


def _save(obj: models.Model, values: Mapping[AnyField, Any]) -> None:
    try:
        # All fields, because what the model derives when it is saved belongs to the change.
        obj.save()
        for field, value in values.items():
            if isinstance(field, models.ManyToManyField):
                getattr(obj, field.name).set(value)
    except ValidationError as error:
        raise _refuse(obj, error) from error
    except (DataError, IntegrityError) as error:
        # Not its words: they name values, of other rows too.
        raise InvalidChange("change", obj, {"": [REFUSED_THERE]}) from error


def _read_values(obj: models.Model, change: object) -> dict[AnyField, Any]:
    if not isinstance(change, Mapping):
        raise InvalidChange("change", obj, {"": [f"write it as {{field: new value}}, not as {type(change).__name__}"]})
    values: dict[AnyField, Any] = {}
    errors: dict[str, list[str]] = {}
    for name, given in change.items():
        try:
            field = find_field(type(obj), str(name))
            if field in values:
                raise ValidationError("it is named twice")
            values[field] = _read_value(obj, field, given)
        except InvalidChange as error:
            errors.update(error.errors)
        except ValidationError as error:
            errors[str(name)] = _read_reasons(error)
        except MISREAD:
            errors[str(name)] = [_("Enter a valid value.")]
    if errors:
        raise InvalidChange("change", obj, errors)
    return values


def _read_value(obj: models.Model, field: AnyField, given: Any) -> Any:
    """The value as the model's field takes it, validated by the field itself; raises ValidationError."""
    if isinstance(field, models.BinaryField):
        raise ValidationError(_("it cannot be changed: it is binary"))
    if not is_state(field):
        raise ValidationError(_("it cannot be changed: it is part of the key"))
    if field.generated or getattr(field, "auto_now", False) or getattr(field, "auto_now_add", False):
        raise ValidationError(_("it cannot be changed: it is set by itself when the object is saved"))
    if given == REDACTED:
        raise ValidationError(_("this is the mark of a hidden value, not a value"))
    if is_secret(field, type(obj)):
        if to_plain(field, given) == to_plain(field, field.value_from_object(obj)):
            return field.value_from_object(obj)
        raise ValidationError(_("it is secret, and a change is kept and shown; change it in on_decision instead"))
    if isinstance(field, models.ManyToManyField):
        return _read_rows(obj, field, given)
    judge = field
    if not field.editable:  # what forms leave out, such as a status; Django would judge nothing of it
        judge = copy(field)
        judge.editable = True
    value = judge.clean(_read_kind(obj, field, given), obj)
    if hasattr(field, "range_type") and value and None not in (value.lower, value.upper) and value.lower > value.upper:
        raise ValidationError(_("Enter a valid value."))
    _check_storable(field, value)
    return value


def _read_kind(obj: models.Model, field: AnyField, given: Any) -> Any:
    """What `to_python` may be trusted with: it takes 1.9 for 1, True for 1 and any object for its text."""
    if isinstance(given, Enum):
        given = given.value
    if isinstance(given, Promise):
        given = str(given)
    if isinstance(field, models.ForeignKey):
        return _read_key(field, given)
    if isinstance(field, models.FileField):
        return _read_file(obj, field, given)
    if given is None or isinstance(field, models.JSONField):
        return given
    if given == "" and not field.empty_strings_allowed:
        return None
    # A field of another maker may take what it likes.
    ours = type(field).__module__.startswith("django.")
    if hasattr(field, "base_field"):
        return _read_items(obj, field, given)
    if isinstance(given, Mapping | list | tuple | set | frozenset | bytes) and ours:
        raise ValidationError(_("Enter a valid value."))
    if isinstance(field, _TEXTS) and ours and not isinstance(given, str):
        raise ValidationError("write a text, not %(kind)s", params={"kind": type(given).__name__})
    if isinstance(field, _NUMBERS):
        return _read_number(field, given)
    if isinstance(field, models.DateTimeField):
        return _read_moment(field, given)
    return given


def _read_items(obj: models.Model, field: AnyField, given: Any) -> Any:
    """Items of an array, or the two ends of a range."""
    base: AnyField = getattr(field, "base_field")  # noqa: B009 - only fields of django.contrib.postgres have it
    kind = getattr(field, "range_type", None)
    if isinstance(given, str) or (kind and isinstance(given, kind)):
        return to_plain(field, given)
    if not isinstance(given, list | tuple) or (kind and len(given) != 2):
        raise ValidationError(_("Enter a valid value."))
    items = [_read_kind(obj, base, item) for item in given]
    # A range takes its ends as they are.
    return [base.to_python(item) for item in items] if kind else items


def _read_number(field: AnyField, given: Any) -> Any:
    if isinstance(given, bool):
        raise ValidationError(_("Enter a number."))
    if isinstance(field, models.IntegerField) and isinstance(given, float | Decimal) and given != int(given):
        raise ValidationError(_("Enter a whole number."))
    # As it is written: 0.1 is meant, not the binary fraction next to it.
    return repr(given) if isinstance(given, float) and isinstance(field, models.DecimalField) else given


def _read_moment(field: AnyField, given: Any) -> Any:
    if isinstance(given, date) and not isinstance(given, datetime):
        given = datetime.combine(given, time())
    value = field.to_python(given)
    # A moment without a zone is meant in the active one, as in a form; one that the zone skips is refused.
    return from_current_timezone(value) if isinstance(value, datetime) else value


def _read_key(field: models.ForeignKey[Any, Any], given: Any) -> Any:
    """A related row, or its key, as the key."""
    target, model = field.target_field, field.related_model
    if isinstance(given, models.Model):
        if not isinstance(given, model._meta.concrete_model or model):
            raise ValidationError(f"it points to {model._meta.label}, not to {type(given)._meta.label}")
        if given.pk is None:
            raise ValidationError("save what it points to first")
        return getattr(given, target.attname)
    if isinstance(given, bool | Mapping | list | tuple):
        raise ValidationError(_("Enter a valid value."))
    return None if given is None or given == "" else target.to_python(given)


def _read_rows(obj: models.Model, field: models.ManyToManyField[Any, Any], given: Any) -> list[Any]:
    """Rows, or their keys, as keys in order, each of them there."""
    if isinstance(given, str | bytes | Mapping) or not isinstance(given, Iterable | None):
        raise ValidationError("write a list of rows or of their keys")
    target: Any = field.related_model
    items = list(() if given is None else given)
    if len(items) > MAX_RELATED:
        raise ValidationError(f"it names {len(items)} rows, the limit is {MAX_RELATED}")
    if any(isinstance(item, bool) for item in items):
        raise ValidationError(_("Enter a valid value."))
    for item in items:
        if isinstance(item, models.Model) and not isinstance(item, target._meta.concrete_model):
            raise ValidationError(f"it points to {target._meta.label}, not to {type(item)._meta.label}")
    key = target._meta.pk
    keys = sort_keys({key.to_python(item.pk if isinstance(item, models.Model) else item) for item in items})
    field.clean(keys, obj)
    rows = target._base_manager.using(find_alias(obj)).complex_filter(field.get_limit_choices_to())
    found = set(rows.filter(pk__in=keys).values_list("pk", flat=True)) if keys else set()
    if missing := [one for one in keys if one not in found]:
        named = ", ".join(map(str, missing[:5]))
        raise ValidationError(f"{target._meta.label} has no row {named} that may be chosen")
    return keys


def _read_file(obj: models.Model, field: models.FileField, given: Any) -> Any:
    """A stored file by its name; a change cannot carry a file's bytes."""
    if isinstance(given, FieldFile):
        if given and not getattr(given, "_committed", True):
            raise ValidationError("store the file first, then name it here")
        given = given.name
    if isinstance(given, File):
        raise ValidationError("store the file first, then name it here")
    if given is None or given is False:
        given = ""
    if not isinstance(given, str):
        raise ValidationError("name a stored file")
    if len(given) > (field.max_length or len(given)):
        raise ValidationError(f"the file's name has {len(given)} characters, the limit is {field.max_length}")
    if given:
        try:
            validate_file_name(given, allow_relative_path=True)
        except SuspiciousFileOperation as error:
            raise ValidationError("this cannot be the name of a stored file") from error
    return field.attr_class(obj, field, given)


def _check_storable(field: AnyField, value: Any) -> None:
    """JSON that a row can keep: no NUL, no lone surrogate, not too deep and not too large."""
    try:
        text = dump_value(to_plain(field, value), "its value")
    except InvalidCall as error:
        raise ValidationError(show_text(error, MAX_REASON)) from error
    if json.dumps(REDACTED, ensure_ascii=False) in text:
        raise ValidationError(_("it contains the mark of a hidden value"))


def _try_out(obj: models.Model, values: Mapping[AnyField, Any]) -> None:
    """Set the values and let the model judge the whole: raises InvalidChange."""
    if not values:
        return
    for field, value in values.items():
        if not isinstance(field, models.ManyToManyField):
            try:
                setattr(obj, field.attname, value)
            except OSError as error:  # an image's size is read when it is set
                raise InvalidChange("change", obj, {field.name: [_("Enter a valid value.")]}) from error
    others = {field.name for field in obj._meta.fields} - {field.name for field in values}
    try:
        # Fields that stay are not judged again, but rules over several fields are, whichever of them changes.
        obj.full_clean(exclude=others, validate_unique=False, validate_constraints=False)
        obj.validate_unique()
        obj.validate_constraints()
    except ValidationError as error:
        raise _refuse(obj, error) from error


def _refuse(obj: models.Model, error: ValidationError) -> InvalidChange:
    told = error.update_error_dict({})
    return InvalidChange(
        "change",
        obj,
        {
            "" if name == NON_FIELD_ERRORS else show_text(name): _read_reasons(ValidationError(errors))
            for name, errors in told.items()
        },
    )


def _read_reasons(error: ValidationError) -> list[str]:
    return [show_text(message, MAX_REASON) for message in error.messages]


def _write_value(obj: models.Model, field: AnyField, value: Any) -> Any:
    if is_secret(field, type(obj)):
        return REDACTED
    return write_keys(field, value) if isinstance(field, models.ManyToManyField) else to_plain(field, value)
