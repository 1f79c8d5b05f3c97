"""The form that proposes: the project's own, which also says whether what is in it can be proposed.

Invariant owned: what cannot be kept (a secret, a new file, what is no field of the model) is refused at its field,
before anything is asked of anybody; nothing that was typed is lost without a word.
"""

from __future__ import annotations

import types
from typing import Any, cast

from django.core.files.uploadedfile import UploadedFile
from django.forms import BaseModelForm
from django.utils.translation import gettext

from approvals.changes import read_change
from approvals.plain_values import AnyField
from approvals.required.additions import read_addition
from approvals.subjects import InvalidChange, find_field


class ProposingForm:
    """Mixed into a form's class: a valid form has `proposed`, the change or the values as JSON; else it is None."""

    #: "change" or "add"; set in `make_proposing`.
    proposes = "change"
    #: The fields that need approval; None: all.
    needing: frozenset[str] | None = None
    proposed: dict[str, Any] | None = None

    def _post_clean(self) -> None:
        """After all that the form and the model say: whether it can be proposed."""
        cast(Any, super())._post_clean()
        form = cast("BaseModelForm[Any]", self)
        if form.errors or not self.needs_approval():
            return
        try:
            self.proposed = self._read_proposal(form)
        except InvalidChange as refused:
            for name, reasons in refused.errors.items():
                shown = name if name in form.fields else None
                for reason in reasons:
                    form.add_error(shown, reason if shown or not name else f"{name}: {reason}")

    def needs_approval(self) -> bool:
        """Whether something was filled in that takes an approval; then all of it does."""
        changed = cast("BaseModelForm[Any]", self).changed_data
        return self.needing is None or not self.needing.isdisjoint(changed)

    def _read_proposal(self, form: BaseModelForm[Any]) -> dict[str, Any]:
        names = form.changed_data if self.proposes == "change" else list(form.cleaned_data)
        errors: dict[str, list[str]] = {}
        for name in names:
            if _find_field(form, name) is None:
                # An empty field of the form's own says nothing.
                if self.proposes == "change" or form.cleaned_data[name] not in (None, "", [], False):
                    told = gettext("This is no field of the object, so a proposal cannot keep it: leave it as it was.")
                    errors[name] = [told]
            elif isinstance(form.cleaned_data[name], UploadedFile):
                told = gettext("A proposal keeps values, and cannot keep a new file: leave this as it was.")
                errors[name] = [told]
        if errors:
            raise InvalidChange("change", form.instance, errors)
        given = {name: form.cleaned_data[name] for name in names if _find_field(form, name) is not None}
        if self.proposes == "change":
            return read_change(
                form.instance, {name: keep_lines(value, form.initial.get(name)) for name, value in given.items()}
            )
        return read_addition(form.instance, given)


def make_proposing(form: type[Any], proposes: str, needing: frozenset[str] | None) -> type[Any]:
    """A form's class that proposes what it would save.

    >>> make_proposing(OrderForm, "change", frozenset({"amount"})).needing
    frozenset({'amount'})
    """
    made: type[Any] = types.new_class(
        form.__name__, (ProposingForm, form), exec_body=lambda body: body.update(proposes=proposes, needing=needing)
    )
    return made


def keep_lines(given: Any, before: Any) -> Any:
    """A text with the line ends that it had: browsers send others, and nobody has changed those.

    >>> keep_lines("a\\r\\nb", "a\\nc")
    'a\\nb'
    """
    if not isinstance(given, str) or not isinstance(before, str) or "\r\n" in before:
        return given
    return given.replace("\r\n", "\n")


def _find_field(form: BaseModelForm[Any], name: str) -> AnyField | None:
    try:
        return find_field(type(form.instance), name)
    except InvalidChange:
        return None
