"""One reader of JSON Schema: a form and the page of the API read references, parts and null alike."""

from __future__ import annotations

from typing import Any

import pytest

from workflows.forms.form_fields import Code, FormGroup, Text
from workflows.forms.form_plan import plan_form
from workflows.rest.schema.docs_shapes import Shapes, ValueShape

STREET = {"type": "string", "description": "Where it goes.", "maxLength": 40}


def read_both(schema: dict[str, Any], **definitions: Any) -> tuple[Any, ValueShape]:
    """The only field of a form, and the same member as the page of the API tells it."""
    document = {"components": {"schemas": definitions}, "properties": {"place": schema}, "required": ["place"]}
    form = plan_form(document, label="Answer")
    assert isinstance(form, FormGroup)
    return form.fields[0], Shapes(document).read(schema)


def say(shape: ValueShape) -> str:
    """The words of the page."""
    return f"{shape.before}{shape.name}{shape.after}"


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("street/name", "street~1name"),
        ("street~name", "street~0name"),
        ("~1", "~01"),
        ("street name", "street%20name"),
        ("50%", "50%25"),
    ],
)
def test_a_reference_is_unescaped_alike(name: str, reference: str) -> None:
    field, shape = read_both({"$ref": f"#/components/schemas/{reference}"}, **{name: STREET})
    assert isinstance(field, Text)
    assert field.hint == "Where it goes."
    assert (say(shape), shape.limits) == ("string", ("at most 40 characters",))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": ["string", "null"]},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"oneOf": [{"type": "string"}, {"const": None}]},
        {"oneOf": [{"type": "string"}, {"enum": [None]}]},
        {"allOf": [{"anyOf": [{"type": "string"}, {"type": "null"}]}]},
    ],
)
def test_null_is_told_apart_however_it_is_written(schema: dict[str, Any]) -> None:
    field, shape = read_both(schema)
    assert isinstance(field, Text)
    assert field.nullable
    assert say(shape) == "string or null"


def test_parts_are_merged_alike_and_the_tighter_limit_holds() -> None:
    parts = [{"$ref": "#/components/schemas/Street"}, {"maxLength": 9}, {"maxLength": 20, "minLength": 2}]
    field, shape = read_both({"allOf": parts}, Street=STREET)
    assert isinstance(field, Text)
    assert field.notes == ("At least 2 characters.", "At most 9 characters.")
    assert shape.limits == ("2 to 9 characters",)


@pytest.mark.parametrize("reference", ["#/components/schemas/Nowhere", "#/components/schemas/A", "elsewhere.json"])
def test_a_reference_that_leads_nowhere_or_in_a_circle_ends(reference: str) -> None:
    circle = {"A": {"$ref": "#/components/schemas/B"}, "B": {"$ref": "#/components/schemas/A"}}
    field, shape = read_both({"$ref": reference}, **circle)
    assert isinstance(field, Code)
    assert say(shape) == "any JSON"
