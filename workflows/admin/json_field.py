"""JSON that is typed into a form of the admin.

Invariants owned: it is read as strictly as a body of the API, so what one door refuses no other takes; and whatever was
typed, it is the field that tells what is wrong with it. Where no value is said the box is empty; "null" does not stand
in it.
"""

from __future__ import annotations

from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.forms.fields import InvalidJSONInput
from django.utils.translation import gettext as _

from workflows.values.json_reader import UnreadableJson, parse_json


class StrictJsonField(forms.JSONField):
    """As Django's, with the house's reader in place of `json.loads`."""

    def to_python(self, value: Any) -> Any:
        """The value; None of an empty field."""
        if self.disabled or not isinstance(value, str):
            return value
        if not value.strip():
            return None
        try:
            return parse_json(value.strip().encode())
        except UnreadableJson as error:
            problem = str(error).partition(": ")[2] or str(error)
            raise ValidationError(_("This is no JSON: %(problem)s") % {"problem": problem}, code="invalid") from None

    def prepare_value(self, value: Any) -> Any:
        """What stands in the box."""
        return "" if value is None else super().prepare_value(value)

    def bound_data(self, data: Any, initial: Any) -> Any:
        """What the form shows again: the value, or what was typed as it was typed."""
        if self.disabled:
            return initial
        try:
            return None if data is None else parse_json(data.strip().encode())
        except UnreadableJson:
            return InvalidJSONInput(data)
