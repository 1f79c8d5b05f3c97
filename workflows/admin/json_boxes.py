"""The box in which somebody writes a value as JSON.

Invariant owned: where no value is said the box is empty, as its help says, and not the text "null".
"""

from __future__ import annotations

from typing import Any

from django import forms


class ValueField(forms.JSONField):
    """A value as JSON, in a box that is empty where none is said."""

    def prepare_value(self, value: Any) -> Any:
        """What stands in the box."""
        return "" if value is None else super().prepare_value(value)
