"""An object that is to be made: read from a valid form, and made once it is approved.

Lives here: new rows only; changes of rows that are there are `approvals.subjects.change`'. Invariant owned: as for a
change, what is kept is JSON and holds no secret, and the model judges the whole when it is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django.core.exceptions import NON_FIELD_ERRORS, ValidationError
from django.db import DataError, IntegrityError, models, router, transaction
from django.utils.translation import gettext

from approvals.display.values import show_text
from approvals.subjects.change import REFUSED_THERE
from approvals.subjects.field_display import label_field, show_value
from approvals.subjects.field_values import MISREAD, from_plain, is_secret, to_plain
from approvals.subjects.reference import MAX_REASON, InvalidChange, find_field, write_keys
from approvals.subjects.related import Related
from workflows.wording.messages import Reason, gettext_noop
from workflows.wording.punctuation import join_list


def read_addition(obj: models.Model, cleaned: Mapping[str, Any]) -> dict[str, Any]:
    """The values of a new object as JSON: `obj` as a form has filled it in, relations to many as the form has them.

    >>> read_addition(Order(code="A-1"), {"code": "A-1", "labels": []})
    {'code': 'A-1', 'labels': []}
    """
    plain: dict[str, Any] = {}
    errors: dict[str, list[str]] = {}
    for name, given in cleaned.items():
        field = find_field(type(obj), name)
        if is_secret(field, type(obj)):
            if given not in field.empty_values:
                errors[name] = [gettext("It is secret, and a proposal is kept and shown: leave it empty here.")]
            continue
        if isinstance(field, models.ManyToManyField):
            plain[name] = write_keys(field, (row.pk for row in given or ()))
        else:
            plain[name] = to_plain(field, field.value_from_object(obj))
    if errors:
        raise InvalidChange("addition", obj, errors)
    return plain


def make_addition(model: type[models.Model], plain: Mapping[str, Any]) -> models.Model:
    """Make and save the object; raises `InvalidChange` with the model's reasons."""
    obj = model()
    many: list[tuple[str, Any]] = []
    try:
        for name, value in plain.items():
            field = find_field(model, name)
            if isinstance(field, models.ManyToManyField):
                many.append((name, value))
            else:
                setattr(obj, field.attname, from_plain(field, value))
        with transaction.atomic(using=router.db_for_write(model)):
            # What nobody filled in is the model's affair, but rules over several fields are asked.
            others = {field.name for field in model._meta.fields if field.name not in plain}
            obj.full_clean(exclude=others, validate_unique=False, validate_constraints=False)
            obj.validate_unique()
            obj.validate_constraints()
            obj.save()
            for name, keys in many:
                getattr(obj, name).set(keys)
    except ValidationError as error:
        raise InvalidChange("addition", obj, _read_reasons(error)) from error
    except (DataError, IntegrityError) as error:
        # Not its words: they name values, of other rows too.
        raise InvalidChange("addition", obj, {"": [REFUSED_THERE]}) from error
    except MISREAD as error:
        told = Reason(gettext_noop("one of its values cannot be read any more"))
        raise InvalidChange("addition", obj, {"": [told]}) from error
    return obj


def describe_addition(model: type[models.Model], plain: Mapping[str, Any]) -> dict[str, str]:
    """The values as people read them, by the fields' labels.

    >>> describe_addition(Order, {"code": "A-1", "urgent": True})
    {'Order code': 'A-1', 'Urgent': 'Yes'}
    """
    fields = {name: find_field(model, name) for name in plain}
    related = Related()
    related.fetch(
        (field, key)
        for name, field in fields.items()
        if isinstance(field, models.ForeignKey | models.ManyToManyField)
        for key in _list_keys(plain[name])
    )
    told: dict[str, str] = {}
    for name, field in fields.items():
        if isinstance(field, models.ForeignKey | models.ManyToManyField):
            shown = join_list(related.show(field, key).text for key in _list_keys(plain[name]))
        elif plain[name] in (None, "", [], {}):
            continue
        elif isinstance(field, models.JSONField):
            shown = show_text(plain[name])
        else:
            shown = show_value(field, plain[name]).text
        if shown:
            told[label_field(name, field)] = shown
    return told


def _list_keys(value: Any) -> Iterable[Any]:
    if isinstance(value, list):
        return value
    return () if value is None else (value,)


def _read_reasons(error: ValidationError) -> dict[str, list[str]]:
    found = error.update_error_dict({})
    return {
        "" if name == NON_FIELD_ERRORS else show_text(name): [
            show_text(message, MAX_REASON) for message in ValidationError(reasons).messages
        ]
        for name, reasons in found.items()
    }
