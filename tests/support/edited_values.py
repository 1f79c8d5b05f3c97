"""A form that an approver may fill in otherwise than it was asked: the form, what was asked, and an edit."""

from __future__ import annotations

FORM = {
    "type": "object",
    "properties": {
        "value": {"type": "number", "title": "Value", "maximum": 9600, "default": 9600},
        "months": {"type": "integer", "title": "Months", "default": 12},
    },
    "required": ["value", "months"],
}
ASKED = {"value": 9600, "months": 12}
EDITED = {"value": 9000, "months": 12}
