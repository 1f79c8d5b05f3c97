"""The form that proposes: the project's own, which also says whether what is in it can be proposed.

Invariants owned: whether it needs approval is told by what would be saved beside the row as it is, never by what the
browser says was changed; what cannot be kept (a secret, a new file, what is no field of the model) is refused at its
field, before anything is asked of anybody; nothing that was typed is lost without a word.
"""

from __future__ import annotations

import types
from collections.abc import Collection, Mapping
from typing import Any, cast

from django.db import models
from django.forms import BaseModelForm
from django.utils.translation import gettext

from approvals.required.core.new_objects import read_addition
from approvals.required.core.row_diff import Stored, find_differences, is_key, keep_stored, read_stored
from approvals.subjects.change import read_change
from approvals.subjects.diff_parts import same_json
from approvals.subjects.field_values import AnyField, to_plain
from approvals.subjects.reference import InvalidChange, find_alias, find_field, is_state
from workflows.wording.messages import make_sentence
from workflows.wording.punctuation import join_label


class ProposingForm:
    """Mixed into a form's class: a valid form has `proposed`, the change or the values as JSON; else it is None."""

    #: "change" or "add"; set in `make_proposing`.
    proposes = "change"
    #: The fields that need approval; None: all.
    needing: frozenset[str] | None = None
    proposed: dict[str, Any] | None = None
    instance: Any
    #: The row as it is, of a form that was sent; and what would be saved otherwise, by field.
    stored: Stored | None = None
    changed: dict[str, Any] | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        form = cast("BaseModelForm[Any]", self)
        # Django has the browser send along what a field with a computed default began with, and believes it.
        for field in form.fields.values():
            field.show_hidden_initial = False
        # The form is going to fill in the instance, its key too where that can be edited.
        self._key = form.instance.pk

    def _post_clean(self) -> None:
        """After all that the form and the model say: whether it can be proposed."""
        cast(Any, super())._post_clean()
        form = cast("BaseModelForm[Any]", self)
        if form.errors or (self.proposes == "change" and not self._compare(form)) or not self.needs_approval():
            return
        try:
            self.proposed = self._read_proposal(form)
        except InvalidChange as refused:
            for name, reasons in refused.errors.items():
                shown = name if name in form.fields else None
                for reason in reasons:
                    told = make_sentence(reason)
                    form.add_error(shown, told if shown or not name else join_label(name, told))

    def needs_approval(self) -> bool:
        """Whether something would be saved that takes an approval; then all of it does."""
        return self.needing is None or self.changed is None or not self.needing.isdisjoint(self.changed)

    def _compare(self, form: BaseModelForm[Any]) -> bool:
        """Find `changed`; False where it cannot be told, which the form then says."""
        obj = form.instance
        self.stored = None if self._key is None else read_stored(type(obj), self._key, find_alias(obj))
        if self.stored is None:
            form.add_error(None, gettext("It is no longer there."))
            return False
        many = {}
        for name, given in form.cleaned_data.items():
            field = _find_field(form, name)
            if isinstance(field, models.ManyToManyField):
                many[name] = [getattr(one, "pk", one) for one in given or ()]
            elif field is not None and field.value_from_object(obj) == given:
                kept = keep_stored(given, field.value_from_object(self.stored.row))
                setattr(obj, field.attname, kept)
                form.cleaned_data[name] = kept
        # What the form leaves to the project's own saving was typed as well.
        left = {name: given for name, given in form.cleaned_data.items() if self._is_left(form, name, self.stored)}
        self.changed = {**left, **find_differences(self.stored, obj, many)}
        keys = [name for name in self.changed if is_key(find_field(type(obj), name))]
        for name in keys:
            told = gettext("This says which object it is, and cannot be changed: another one would be written.")
            form.add_error(name if name in form.fields else None, told)
        return not keys

    def _is_left(self, form: BaseModelForm[Any], name: str, stored: Stored) -> bool:
        """Whether a form of the project's takes a value for a field, and does not write it."""
        field, saved = _find_field(form, name), form._meta.fields
        if field is None or isinstance(field, models.ManyToManyField):
            return False
        if field.editable and (saved is None or name in saved) and name not in (form._meta.exclude or ()):
            return False
        before = to_plain(field, field.value_from_object(stored.row))
        return not same_json(to_plain(field, form.cleaned_data[name]), before)

    def _read_proposal(self, form: BaseModelForm[Any]) -> dict[str, Any]:
        own = [name for name in form.cleaned_data if _find_field(form, name) is None]
        errors: dict[str, list[str]] = {}
        for name in own:
            # An empty field of the form's own says nothing.
            if name in form.changed_data if self.proposes == "change" else form.cleaned_data[name] not in _NOTHING:
                told = gettext("This is no field of the object, so a proposal cannot keep it: leave it as it was.")
                errors[name] = [told]
        for field in form.instance._meta.concrete_fields:
            if isinstance(field, models.FileField) and not field.value_from_object(form.instance)._committed:
                told = gettext("A proposal keeps values, and cannot keep a new file: leave this as it was.")
                errors[field.name] = [told]
        if errors:
            raise InvalidChange("change", form.instance, errors)
        if self.proposes == "change":
            return read_difference(form.instance, self.changed or {}, {*(self.needing or ()), *form.fields})
        given = {name: value for name, value in form.cleaned_data.items() if name not in own}
        return read_addition(form.instance, given)


_NOTHING: tuple[Any, ...] = (None, "", [], False)


def make_proposing(form: type[Any], proposes: str, needing: frozenset[str] | None) -> type[Any]:
    """A form's class that proposes what it would save.

    >>> make_proposing(OrderForm, "change", frozenset({"amount"})).needing
    frozenset({'amount'})
    """
    made: type[Any] = types.new_class(
        form.__name__, (ProposingForm, form), exec_body=lambda body: body.update(proposes=proposes, needing=needing)
    )
    return made


def read_difference(obj: models.Model, found: Mapping[str, Any], always: Collection[str]) -> dict[str, Any]:
    """The change that makes of an object what was found; raises InvalidChange.

    What nobody edits is left out, because the model derives it again when the change is made; but never `always`.
    """
    model = type(obj)
    return read_change(
        obj, {name: value for name, value in found.items() if name in always or _can_change(model, name)}
    )


def _can_change(model: type[models.Model], name: str) -> bool:
    field = find_field(model, name)
    return field.editable and is_state(field)


def _find_field(form: BaseModelForm[Any], name: str) -> AnyField | None:
    try:
        return find_field(type(form.instance), name)
    except InvalidChange:
        return None
