"""What a review is about: which object, and what was shown of it.

Lives here: naming an object so that it is found again, a snapshot of it, and the digest that a decision is bound to.
What must not: what a change may be (`change`) and how it reads (`diff`). Invariants owned: a snapshot is JSON and
holds no secret; equal states have equal snapshots and digests, also after a stay in jsonb; a subject is always read
where it is written, never from a replica that lags behind.

    subject = read_subject(invoice)
    shown = snapshot(invoice, change=change)
    seal = digest(shown, change)                                    # with the page, and back with the decision
    now = load_subject(subject, lock=True)                          # None: it is gone
    stale = now is None or digest(snapshot_again(now, shown), change) != seal
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from django.apps import apps
from django.core.exceptions import FieldDoesNotExist, ValidationError
from django.db import DatabaseError, models, router
from django.utils.text import capfirst

from approvals.display.values import show_text
from approvals.exceptions import ApprovalError, InvalidApproval
from approvals.subjects.field_values import REDACTED, AnyField, is_secret, redact_json, to_plain, write_canonical
from workflows.wording.messages import Placed, Reason
from workflows.wording.messages import gettext_noop as _

#: Characters of a subject's name, and of a reason why a change is refused.
MAX_LABEL = 200
MAX_REASON = 300


class InvalidChange(InvalidApproval):
    """What was asked of an object is refused; `.errors` maps a field ("" for the whole) to its reasons.

    >>> print(InvalidChange("change", Invoice, {"amuont": ["there is no such field; did you mean 'amount'?"]}))
    this change of shop.Invoice is refused: amuont: there is no such field; did you mean 'amount'?
    """

    def __init__(self, option: str, given: object, errors: Mapping[str, list[str]]) -> None:
        self.option, self.given, self.errors = option, given, dict(errors)
        self.reason = Placed(errors, _name_fields(given, errors))
        model = getattr(getattr(given, "_meta", None), "label", type(given).__name__)
        # Not the parent's words: they show what was given, and that may be a secret.
        ApprovalError.__init__(self, f"this {option} of {model} is refused: {self.reason}")


@dataclass(frozen=True, slots=True)
class Subject:
    """One row of any model, by name: small, plain, and true after the row is gone."""

    #: `app_label.model`; that of the proxy where it was one.
    model: str
    #: As text: "7", a UUID, or a JSON list for a composite key.
    pk: str
    label: str
    #: The database alias, where it is another than the one that the model is written to.
    using: str = ""

    def __str__(self) -> str:
        return self.label


def read_subject(obj: models.Model) -> Subject:
    """The object by name.

    >>> read_subject(invoice)
    Subject(model='shop.invoice', pk='7', label='Invoice 2026-07', using='')
    """
    model = type(obj)
    refuse_unsaved(obj)
    using = find_alias(obj)
    return Subject(
        model=model._meta.label_lower,
        pk=model._meta.pk.value_to_string(obj),
        label=name_object(obj, MAX_LABEL),
        using="" if using == router.db_for_write(model) else using,
    )


def is_known(label: str) -> bool:
    """Whether this process has a model of that name: one with older code may not have it yet.

    >>> is_known("shop.invoice")
    True
    """
    try:
        apps.get_model(label)
    except (LookupError, ValueError):
        return False
    return True


def load_subject(subject: Subject, *, lock: bool = False) -> models.Model | None:
    """The row as it is now, or None when it is gone, with its model or without.

    `lock` keeps others from changing it until the transaction ends: what is checked is then what is decided about.
    """
    try:
        model = apps.get_model(subject.model)
        key = model._meta.pk.to_python(subject.pk)
    except (LookupError, ValueError, TypeError, ValidationError):
        return None
    rows = find_rows(model, subject.using or router.db_for_write(model))
    if lock:
        rows = rows.select_for_update(no_key=True)
    return rows.filter(pk=tuple(key) if isinstance(key, list) else key).first()


def find_home(subject: Subject) -> str:
    """The alias of the database that the row is in; nothing for a model that is not there any more."""
    try:
        return subject.using or router.db_for_write(apps.get_model(subject.model))
    except (LookupError, ValueError):
        return ""


def snapshot(
    obj: models.Model, fields: Iterable[str] | None = None, *, change: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """The object's state as JSON: its editable fields, or the named ones; and always those that a change names.

    Left out are keys, which say who it is and not how it is, and binary fields; relations to many are there only
    where they are named. A secret stands as `REDACTED`, so its change alone makes nothing stale.

    >>> snapshot(invoice, ["amount", "customer", "api_token"], change={"watchers": [4]})
    {'amount': '1240.00', 'customer': 3, 'api_token': '⟨redacted⟩', 'watchers': [2, 3]}
    """
    model = type(obj)
    chosen = list_fields(model) if fields is None else [find_field(model, name) for name in fields]
    chosen += [field for name in change or () if (field := find_field(model, name)) not in chosen]
    load_deferred(obj, chosen)
    return {field.name: _read_plain(obj, field) for field in chosen}


def snapshot_again(obj: models.Model, shown: Mapping[str, Any]) -> dict[str, Any]:
    """The same fields as in an earlier snapshot, as they are now; those that the model no longer has are left out."""
    return snapshot(obj, [name for name in shown if _has_field(type(obj), name)])


def digest(shown: Mapping[str, Any], change: Mapping[str, Any]) -> str:
    """What a decision is bound to: the SHA-256 of what was shown and what was asked, as canonical JSON.

    >>> digest({"amount": 1.0}, {}) == digest({"amount": 1}, {})
    True
    """
    return hashlib.sha256(write_canonical({"change": change, "shown": shown}).encode()).hexdigest()


def list_fields(model: type[models.Model]) -> list[AnyField]:
    """The fields that make up an object's state, in the order of the model."""
    return [field for field in model._meta.concrete_fields if field.editable and is_state(field)]


def is_state(field: AnyField) -> bool:
    """Whether a field says how an object is: neither part of its key nor binary."""
    keys = field.model._meta.pk_fields
    return not (field.primary_key or field in keys or isinstance(field, models.BinaryField))


def find_field(model: type[models.Model], name: str) -> AnyField:
    """The field of that name that holds a value of the object; raises InvalidChange."""
    try:
        field = model._meta.get_field(name)
    except FieldDoesNotExist as error:
        raise InvalidChange("change", model, {show_text(name, 100): [_suggest(model, name)]}) from error
    if not isinstance(field, models.Field) or not (field.concrete or field.many_to_many):
        raise InvalidChange("change", model, {name: ["it is not a field with a value of its own"]})
    return field


def find_alias(obj: models.Model) -> str:
    """The database that this object is written to."""
    return router.db_for_write(type(obj), instance=obj)


def find_rows(model: type[models.Model], using: str) -> models.QuerySet[models.Model]:
    """All rows, hidden ones too, without joins that a lock could not follow."""
    return model._base_manager.using(using).select_related(None)


def name_object(obj: models.Model, limit: int) -> str:
    """What the object calls itself; its kind and key where it fails to."""
    try:
        name = str(obj)
    except DatabaseError:
        raise  # the transaction is lost already, and who caused it should be seen
    except Exception:
        name = ""
    return show_text(name, limit) if name.strip() else show_text(f"{type(obj)._meta.verbose_name} {obj.pk}", limit)


def sort_keys(keys: Iterable[Any]) -> list[Any]:
    """Keys of related rows in one order; a relation to many has none of its own."""
    return sorted(keys, key=lambda key: (0, key, "") if isinstance(key, int | float) else (1, 0, str(key)))


def write_keys(field: AnyField, keys: Iterable[Any]) -> list[Any]:
    """Keys of a relation to many as JSON."""
    target: Any = field.related_model
    return sort_keys(to_plain(target._meta.pk, key) for key in keys)


def read_field(obj: models.Model, field: AnyField) -> Any:
    """The value that an object has; for a relation to many the keys, asked of the database."""
    if isinstance(field, models.ManyToManyField):
        return set(getattr(obj, field.name).order_by().values_list("pk", flat=True))
    return field.value_from_object(obj)


def load_deferred(obj: models.Model, fields: Iterable[AnyField]) -> None:
    """Fetch at once what Django would fetch field by field."""
    missing = obj.get_deferred_fields() & {field.attname for field in fields}
    if missing:
        obj.refresh_from_db(using=find_alias(obj), fields=sorted(missing))


def refuse_unsaved(obj: models.Model) -> None:
    """Raise InvalidChange for what has no row yet, even where it has a key already."""
    keys = obj.pk if isinstance(obj.pk, tuple) else (obj.pk,)
    if obj._state.adding or None in keys:
        raise InvalidChange("subject", obj, {"": [Reason(_("it is not saved yet; save it before you ask about it"))]})


def _read_plain(obj: models.Model, field: AnyField) -> Any:
    if is_secret(field, type(obj)):
        return REDACTED
    if isinstance(field, models.ManyToManyField):
        return write_keys(field, read_field(obj, field))
    plain = to_plain(field, read_field(obj, field))
    return redact_json(plain) if isinstance(plain, dict | list) else plain


def _has_field(model: type[models.Model], name: str) -> bool:
    try:
        return bool(find_field(model, name))
    except InvalidChange:
        return False


def _suggest(model: type[models.Model], name: str) -> str:
    known = [field.name for field in (*list_fields(model), *model._meta.many_to_many)]
    close = get_close_matches(name[:100], known, n=1)
    return f"there is no such field; did you mean {close[0]!r}?" if close else "there is no such field"


def _name_fields(given: object, names: Iterable[str]) -> dict[str, str]:
    """What people call the fields, of those that there are."""
    meta = getattr(given, "_meta", None)
    known = {} if meta is None else {one.name: one for one in meta.get_fields()}
    labels = {name: getattr(known.get(name), "verbose_name", "") for name in names}
    return {name: show_text(capfirst(str(label))) for name, label in labels.items() if label}
