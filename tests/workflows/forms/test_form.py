"""The form of a JSON Schema: what it shows, what comes back, and that nothing gets lost on the way round."""

import json
import math
import re
from datetime import UTC, date, datetime, time
from decimal import Decimal

import pytest
from django import forms
from django.http import QueryDict
from django.template.loader import render_to_string
from django.utils import timezone, translation
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from tests.support.html_pages import HOSTILE, Page
from workflows.exceptions import InvalidData
from workflows.forms.form import SchemaForm, ShownForm
from workflows.forms.form_fields import Code, Field, FormGroup, join_name, make_id
from workflows.forms.form_plan import MOST_FIELDS
from workflows.forms.form_view import ShownOption
from workflows.pages.value_view import MOST_VALUES, show_value
from workflows.schemas.field_order import keep_order, sort_fields
from workflows.schemas.schema import Schema, read_schema
from workflows.values.json_text import MISSING

# --- a browser ----------------------------------------------------------------------------------------


def render(shown: ShownForm) -> str:
    return render_to_string("workflows/form/form.html", {"form": shown, "count": len(shown.problems)})


def open_page(form: SchemaForm, typed=None, errors=None) -> Page:
    page = Page(render(form.show(form.begin() if typed is None else typed, errors)))
    page.check()
    return page


def fill(schema, **typed: str | list[str]):
    """What is read of a form in which this was typed: `lines__0__price` stands for `data/lines/0/price`."""
    form = SchemaForm(schema)
    changes = {"/".join(("data", *name.split("__"))) if name != "data" else name: text for name, text in typed.items()}
    return form.read(form.pick(open_page(form).send(**changes)))


def read(schema, **typed: str | list[str]):
    reading = fill(schema, **typed)
    assert reading.errors == {}
    return reading.value


def refuse(schema, **typed: str | list[str]) -> dict[str, list[str]]:
    reading = fill(schema, **typed)
    assert reading.errors
    return {name.removeprefix("data/"): reasons for name, reasons in reading.errors.items()}


def judge(schema, value) -> dict[str, list[str]]:
    """What the schema itself says, at the fields."""
    form = SchemaForm(schema)
    reading = form.read(form.begin(value))
    found = read_schema(schema)
    assert found is not None
    with pytest.raises(InvalidData) as refused:
        found.check(reading.value)
    reading.place_errors(refused.value.errors)
    return {name.removeprefix("data/"): reasons for name, reasons in reading.errors.items()}


def make_object(required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


TEXT = {"type": "string"}
WHOLE = {"type": "integer"}
NUMBER = {"type": "number"}
YES = {"type": "boolean"}


# --- each kind of field -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "typed", "value"),
    [
        (TEXT, "Ana", "Ana"),
        (TEXT, "two\nlines", "two\nlines"),
        (TEXT, "\nfirst line empty", "\nfirst line empty"),
        (TEXT, "  spaces  ", "  spaces  "),
        ({"type": "string", "maxLength": 20}, "short", "short"),
        ({"type": "string", "maxLength": 20}, "two\nlines", "two\nlines"),
        ({"type": "string", "maxLength": 2000}, "long", "long"),
        ({"type": "string", "format": "date"}, "2026-07-12", "2026-07-12"),
        ({"type": "string", "format": "time"}, "10:30", "10:30"),
        ({"type": "string", "format": "date-time"}, "2026-07-12T10:30", "2026-07-12T10:30:00+00:00"),
        ({"type": "string", "format": "date-time"}, "2026-07-12T10:30:05+02:00", "2026-07-12T10:30:05+02:00"),
        ({"type": "string", "format": "email"}, " ana@example.org ", "ana@example.org"),
        ({"type": "string", "format": "uri"}, "https://example.org/x", "https://example.org/x"),
        (WHOLE, "12", 12),
        (WHOLE, " -12 ", -12),
        (WHOLE, "\N{MINUS SIGN}12", -12),
        (WHOLE, "1" * 400, int("1" * 400)),
        (NUMBER, "12", 12),
        (NUMBER, "12.50", 12.5),
        (NUMBER, ".5", 0.5),
        (NUMBER, "1e3", 1000.0),
        (NUMBER, "12345678901234567890", 12345678901234567890),
        ({"type": ["number", "string"], "format": "decimal"}, "12.500", "12.500"),
        ({"anyOf": [{"type": "number"}, {"type": "string", "format": "decimal"}]}, "0.10", "0.10"),
        ({"type": ["integer", "string"]}, "12", 12),
        ({"type": ["integer", "string"]}, "012", "012"),
        ({"type": ["integer", "string"]}, "x", "x"),
        (YES, "true", True),
        (YES, "false", False),
        ({"enum": ["a", "b"]}, '"b"', "b"),
        ({"enum": [1, "1", True, None]}, '"1"', "1"),
        ({"enum": [1, "1", True, None]}, "1", 1),
        ({"enum": [1, "1", True, None]}, "true", True),
        ({"enum": [1, "1", True, None]}, "", None),
        ({"enum": list("abcdefgh")}, '"h"', "h"),
        ({"oneOf": [{"const": "a", "title": "First"}, {"const": "b", "title": "Second"}]}, '"b"', "b"),
        ({"const": True}, "1", True),
        ({"type": "array", "items": TEXT}, "one\n\ntwo\n", ["one", "two"]),
        ({"type": "array", "items": WHOLE}, "1\n 2 ", [1, 2]),
        ({"type": "array", "items": TEXT}, "", []),
        ({"type": "array", "items": {"enum": ["a", "b", "c"]}}, ['"c"', '"a"'], ["a", "c"]),
        ({"type": "array", "items": {"enum": ["a", "b"]}}, [], []),
        ({"type": "object"}, '{"a": [1]}', {"a": [1]}),
        ({"type": "array"}, "[1, null]", [1, None]),
        ({"type": ["object", "boolean"]}, "false", False),
        ({}, '{"a": 1}', {"a": 1}),
        ({}, "plain words", "plain words"),
        ({}, "5", 5),
        ({}, '"5"', "5"),
        ({}, "null", None),
        (True, "true", True),
        (None, "yes", "yes"),
        ({"type": ["string", "null"]}, "", None),
        ({"anyOf": [WHOLE, {"type": "null"}]}, "", None),
        ({"anyOf": [WHOLE, {"type": "null"}]}, "7", 7),
        ({"type": ["boolean", "null"]}, "", None),
        ({"type": ["array", "null"], "items": TEXT}, "", None),
    ],
)
def test_a_value_is_typed_and_read(schema, typed, value):
    found = read(schema, data=typed)
    assert found == value
    assert type(found) is type(value)
    # And what was sent once stands there the next time.
    form = SchemaForm(schema)
    again = form.read(form.pick(open_page(form, form.begin(value)).send())).value
    if isinstance(value, float) and value.is_integer():
        value = int(value)  # it stands there without the point, as people write it
    assert_same(again, value)
    assert type(again) is type(value)


@pytest.mark.parametrize(
    "text", [":", " :", "\x1f:", "5", "null", "true", "{x", "[", '"', "NaN", " x ", "a\rb", "1e999"]
)
def test_a_text_that_looks_like_something_else_stays_a_text(text):
    form = SchemaForm({})
    assert form.read(form.pick(open_page(form, form.begin(text)).send())).value == text


@pytest.mark.parametrize("schema", [None, {}, TEXT, WHOLE, NUMBER, YES, {"enum": ["a"]}, {"type": "object"}])
def test_what_is_left_empty_is_left_out(schema):
    assert fill(schema).value is MISSING
    assert read(make_object(x={} if schema is None else schema)) == {}
    assert read(make_object(["x"], x={} if schema is None else schema)) == {}


@pytest.mark.parametrize("schema", [TEXT, WHOLE, YES, {"enum": ["a"]}, {"type": "object"}, {}])
def test_what_is_required_and_empty_is_refused_at_its_field(schema):
    assert judge(make_object(["x"], x=schema), {}) == {"x": ["This is missing."]}


@pytest.mark.parametrize(
    ("schema", "typed", "words"),
    [
        (NUMBER, "1,5", "without a comma"),
        (NUMBER, "1.234,50", "without a comma"),
        (WHOLE, "1,234", "without a comma"),
        (NUMBER, "NaN", "has to be a number"),
        (NUMBER, "Infinity", "has to be a number"),
        (NUMBER, "-inf", "has to be a number"),
        (NUMBER, "1e400", "too large"),
        (NUMBER, "0x10", "has to be a number"),
        (NUMBER, "1_000", "has to be a number"),
        (NUMBER, "\u0661\u0662", "has to be a number"),
        (NUMBER, "--1", "has to be a number"),
        (WHOLE, "5.5", "whole number"),
        (WHOLE, "1e3", "whole number"),
        (WHOLE, "twelve", "whole number"),
        (WHOLE, "9" * 4301, "4300 digits"),
        (TEXT, "a\0b", "cannot be kept"),
        (TEXT, "a\ud800b", "cannot be kept"),
        (YES, "maybe", "Choose one of the values"),
        ({"enum": ["a"]}, "a", "Choose one of the values"),
        ({"type": "array", "items": {"enum": ["a"]}}, ['"a"', "x"], "Choose among"),
        ({"type": "array", "items": WHOLE}, "1\n\nx", "Line 3: This has to be a whole number"),
        ({"type": "object"}, "{", "This is no JSON: at line 1 column 2"),
        ({"type": "object"}, '{"a":1,"a":2}', "stands there twice"),
        ({"type": "object"}, "NaN", "no JSON"),
        ({"type": "object"}, "[" * 100_000, "nested deeper than 32"),
        ({"type": "array"}, "1e999", "This is no JSON"),
        ({}, '{"a": ', "This is no JSON"),
        ({}, '"open', "This is no JSON"),
    ],
)
def test_what_cannot_be_read_is_refused_at_its_field_and_stays_there(schema, typed, words):
    form = SchemaForm(make_object(["x"], x=schema))
    posted = {"data/x": [typed] if isinstance(typed, str) else typed}
    reading = form.read(posted)
    [reason] = reading.errors["data/x"]
    assert words in reason
    page = Page(render(form.show(posted, reading.errors)).encode(errors="replace").decode())
    page.check()
    assert "One thing needs you." in page.words
    if schema is TEXT or "integer" in str(schema):
        shown = {control.attributes.get("value") or control.text for control in page.controls}
        assert any(len(each) >= len(posted["data/x"][0]) for each in shown)


def test_a_place_in_a_list_of_lines_is_told_by_its_line():
    schema = {"type": "array", "items": {"type": "integer", "maximum": 5}}
    form = SchemaForm(make_object(x=schema))
    reading = form.read({"data/x": ["1\n\n9"]})
    reading.place_errors({"x.1": ["must be at most 5"]})
    assert reading.errors == {"data/x": ["Line 3: must be at most 5"]}


def test_a_truth_that_may_be_left_out_has_three_answers():
    form = SchemaForm(make_object(x=YES))
    [shown] = form.show(form.begin()).fields
    assert [(one.label, one.chosen) for one in shown.options] == [("No answer", True), ("Yes", False), ("No", False)]
    form = SchemaForm(make_object(["x"], x=YES))
    [shown] = form.show(form.begin()).fields
    assert [(one.label, one.chosen) for one in shown.options] == [("Yes", False), ("No", False)]


@pytest.mark.parametrize(("count", "tag"), [(2, "input"), (5, "input"), (6, "select"), (200, "select")])
def test_few_values_are_radios_and_many_a_menu(count, tag):
    page = open_page(SchemaForm(make_object(["x"], x={"enum": [f"v{n}" for n in range(count)]})))
    assert {control.tag for control in page.controls} == {tag}


def test_more_values_than_anybody_scrolls_through_are_typed():
    values = [f"v{n}" for n in range(5000)]
    assert read(make_object(["x"], x={"enum": values}), x="v4999") == {"x": "v4999"}
    assert judge(make_object(["x"], x={"enum": values}), {"x": "w"}) == {"x": ["Is none of the choices."]}


def test_a_constant_comes_along_and_one_that_may_be_left_out_is_asked_for():
    schema = make_object(["kind"], kind={"const": "card"}, gift={"const": "wrapped"})
    assert read(schema) == {"kind": "card"}
    assert read(schema, gift="1") == {"kind": "card", "gift": "wrapped"}


def test_consent_has_to_be_given():
    schema = make_object(["terms"], terms={"const": True, "title": "I agree"})
    assert read(schema) == {}
    assert judge(schema, {}) == {"terms": ["This is missing."]}
    assert read(schema, terms="1") == {"terms": True}


def test_what_may_only_be_read_is_shown_and_not_asked():
    schema = make_object(["id"], id={"type": "string", "readOnly": True, "default": "A-1"}, note=TEXT)
    page = open_page(SchemaForm(schema))
    assert "A-1" in page.words
    assert [control.attributes["name"] for control in page.controls] == ["data/note"]
    assert read(schema, id="forged") == {"id": "A-1"}


def test_a_default_stands_there_and_can_be_changed():
    schema = make_object(["x"], x={"type": "integer", "default": 5}, y={"enum": ["a", "b"], "default": "b"})
    assert read(schema) == {"x": 5, "y": "b"}
    assert read(schema, x="6", y="") == {"x": 6}


def test_nothing_is_suggested_inside_what_may_be_left_out():
    address = make_object(["street"], street=TEXT, country={"type": "string", "default": "DE"})
    assert read(make_object(address=address)) == {}
    assert read(make_object(["address"], address=address)) == {"address": {"country": "DE"}}


def test_a_moment_is_told_and_read_in_the_zone_that_is_named():
    schema = make_object(x={"type": "string", "format": "date-time"})
    with timezone.override("Europe/Berlin"):
        form = SchemaForm(schema)
        typed = form.begin({"x": "2026-07-12T08:30:00Z"})
        assert typed == {"data/x": ["2026-07-12T10:30:00"]}
        assert form.read(typed).value == {"x": "2026-07-12T10:30:00+02:00"}
        assert "Time zone: Europe/Berlin." in open_page(form).words
        # In the hour that is there twice, only the moment itself will do.
        twice = {"x": "2026-10-25T01:30:00Z"}
        assert form.read(form.begin(twice)).value == twice


# --- objects and lists --------------------------------------------------------------------------------


PARTS = {"type": "array", "items": make_object(["article"], article=TEXT, count=WHOLE)}


def test_an_object_that_may_be_left_out_is_there_once_something_is_in_it():
    inner = make_object(["street"], street=TEXT, floor=WHOLE)
    schema = make_object(address=inner)
    assert read(schema) == {}
    assert read(schema, address__floor="3") == {"address": {"floor": 3}}
    assert judge(schema, {"address": {"floor": 3}}) == {"address/street": ["This is missing."]}
    nullable = make_object(["address"], address={"anyOf": [inner, {"type": "null"}]})
    assert read(nullable) == {"address": None}


def test_rows_keep_their_order_and_empty_ones_are_none():
    form = SchemaForm(make_object(lines=PARTS))
    typed = {
        "data/lines": ["3", "0", "7"],
        "data/lines/3/article": ["first"],
        "data/lines/0/article": [""],
        "data/lines/7/article": ["second"],
        "data/lines/7/count": ["2"],
    }
    reading = form.read(typed)
    assert reading.value == {"lines": [{"article": "first"}, {"article": "second", "count": 2}]}
    reading.place_errors({"lines.1.count": ["must be at most 1"], "lines.0.article": ["is required"]})
    assert reading.errors == {
        "data/lines/7/count": ["Must be at most 1."],
        "data/lines/3/article": ["This is missing."],
    }


def test_a_row_is_added_without_losing_what_was_typed():
    form = SchemaForm(make_object(["lines", "note"], lines=PARTS, note=TEXT))
    page = open_page(form)
    posted = page.send(**{"data/lines/0/article": "KX\r\n-1", "data/note": "hello", "add": "data/lines"})
    pressed = form.press(posted)
    assert pressed is not None
    assert pressed.typed["data/lines"] == ["0", "1"]
    page = Page(render(form.show(pressed.typed, focus=pressed.focus)))
    page.check()
    [focused] = [control for control in page.controls if "autofocus" in control.attributes]
    assert focused.attributes["name"] == "data/lines/1/article"
    again = form.pick(page.send(**{"data/lines/1/article": "second"}))
    assert form.read(again).value == {"lines": [{"article": "KX\n-1"}, {"article": "second"}], "note": "hello"}
    assert form.press(page.send()) is None


def test_a_row_is_taken_away_and_the_others_stay():
    form = SchemaForm(make_object(lines=PARTS))
    typed = form.begin({"lines": [{"article": "a"}, {"article": "b"}, {"article": "c"}]})
    posted = Page(render(form.show(typed))).send(drop="data/lines/1")
    pressed = form.press(posted)
    assert pressed is not None
    assert form.read(pressed.typed).value == {"lines": [{"article": "a"}, {"article": "c"}]}
    assert not [name for name in pressed.typed if name.startswith("data/lines/1")]


def test_rows_within_rows_can_be_added():
    inner = {"type": "array", "items": make_object(["x"], x=TEXT)}
    form = SchemaForm(make_object(outer={"type": "array", "items": make_object(["inner"], inner=inner)}))
    pressed = form.press(QueryDict("add=data/outer"))
    assert pressed is not None
    assert pressed.typed["data/outer"] == ["0"]
    posted = Page(render(form.show(pressed.typed))).send(add="data/outer/0/inner")
    pressed = form.press(posted)
    assert pressed is not None
    assert pressed.typed["data/outer/0/inner"] == ["0", "1"]


@pytest.mark.parametrize(
    "pressed", ["add=", "add=data", "add=data/nothing", "add=data/lines/x", "add=%00", "drop=", "drop=data/lines/9"]
)
def test_a_button_that_was_made_up_changes_nothing(pressed):
    form = SchemaForm(make_object(lines=PARTS))
    found = form.press(QueryDict(f"data/lines=0&data/lines/0/article=a&{pressed}"))
    assert found is not None
    assert form.read(found.typed).value == {"lines": [{"article": "a"}]}


def test_a_form_never_grows_beyond_what_a_browser_may_send(settings):
    settings.DATA_UPLOAD_MAX_NUMBER_FIELDS = 60
    form = SchemaForm(make_object(lines=PARTS))
    typed = form.begin()
    for _ in range(30):
        pressed = form.press(QueryDict("&".join(f"{n}={v}" for n, vs in typed.items() for v in vs) + "&add=data/lines"))
        assert pressed is not None
        typed = pressed.typed
    assert 5 < len(typed["data/lines"]) < 20
    assert pressed.errors == {"data/lines": ["No more fit into this form."]}


@pytest.mark.parametrize("rows", [["x"], ["-1"], ["00"], ["1e3"], ["9" * 50], ["0", "0", "0"], [""]])
def test_rows_that_were_made_up_are_none(rows):
    form = SchemaForm(make_object(lines=PARTS))
    typed = {"data/lines": rows, "data/lines/0/article": ["a"], f"data/lines/{rows[0]}/article": ["a"]}
    value = form.read(typed).value
    assert value in ({}, {"lines": [{"article": "a"}]})


# --- what a schema may say ----------------------------------------------------------------------------


def test_a_reference_leads_to_its_definition_and_keeps_the_propertys_own_words():
    schema = {
        "type": "object",
        "properties": {"billing": {"$ref": "#/$defs/Address"}, "colour": {"$ref": "#/$defs/C", "title": "Paint"}},
        "required": ["billing"],
        "$defs": {"Address": {"title": "Address", **make_object(["city"], city=TEXT)}, "C": {"enum": ["red", "blue"]}},
    }
    form = SchemaForm(schema)
    assert [one.label for one in form.show(form.begin()).fields] == ["Billing", "Paint"]
    assert read(schema, billing__city="Bremen", colour='"red"') == {"billing": {"city": "Bremen"}, "colour": "red"}


def test_what_refers_to_itself_ends_in_json():
    schema = {
        "$ref": "#/$defs/Node",
        "$defs": {
            "Node": make_object(
                ["name"],
                name=TEXT,
                next={"$ref": "#/$defs/Node"},
                all={"type": "array", "items": {"$ref": "#/$defs/Node"}},
            )
        },
    }
    deep = {"name": "a", "next": {"name": "b", "next": {"name": "c", "next": {"name": "d"}}}}
    form = SchemaForm(schema)
    typed = form.begin(deep)
    assert form.read(form.pick(Page(render(form.show(typed))).send())).value == deep


def test_conditions_show_their_fields_and_the_schema_judges():
    schema = {
        **make_object(["outcome"], outcome={"enum": ["approve", "reject"]}),
        "if": {"properties": {"outcome": {"const": "reject"}}},
        "then": {"properties": {"reason": {"type": "string", "minLength": 3}}, "required": ["reason"]},
    }
    assert read(schema, outcome='"approve"') == {"outcome": "approve"}
    assert judge(schema, {"outcome": "reject"}) == {"reason": ["This is missing."]}
    assert judge(schema, {"outcome": "reject", "reason": "x"}) == {"reason": ["Must have at least 3 characters."]}


def test_parts_of_a_schema_come_together():
    schema = {
        "allOf": [
            make_object(["a"], a=TEXT, both={"type": "string"}),
            make_object(["b"], b=WHOLE, both={"title": "Both", "maxLength": 5}),
        ]
    }
    form = SchemaForm(schema)
    fields = form.show(form.begin()).fields
    assert {one.label for one in fields} == {"A", "B", "Both"}
    assert [one.label for one in fields if not one.optional] == ["A", "B"]
    assert read(schema, a="x", b="1") == {"a": "x", "b": 1}


def test_rules_about_several_fields_leave_them_as_they_are():
    schema = {
        **make_object(mail=TEXT, phone=TEXT),
        "anyOf": [{"required": ["mail"]}, {"required": ["phone"]}],
        "dependentRequired": {"mail": ["phone"]},
    }
    assert read(schema, phone="1") == {"phone": "1"}
    assert judge(schema, {"mail": "x"}) == {"phone": ["Is required together with mail."]}


def test_a_required_name_that_nothing_describes_has_a_field():
    schema = {"type": "object", "properties": {"a": TEXT}, "required": ["a", "b"]}
    assert read(schema, a="x", b='{"c": 1}') == {"a": "x", "b": {"c": 1}}


def test_fields_stand_in_the_order_of_what_is_required():
    """The database keeps names by their length."""
    form = SchemaForm(make_object(["last_name", "age"], age=WHOLE, nick=TEXT, last_name=TEXT))
    assert [one.label for one in form.show(form.begin()).fields] == ["Last name", "Age", "Nick"]


def test_several_forms_to_choose_from_are_typed_as_json():
    schema = make_object(pay={"oneOf": [make_object(["card"], card=TEXT), make_object(["iban"], iban=TEXT)]})
    assert read(schema, pay='{"iban": "DE1"}') == {"pay": {"iban": "DE1"}}
    assert refuse(schema, pay="DE1") == {"pay": ["This is no JSON: at line 1 column 1: expecting value."]}
    assert judge(schema, {"pay": {"card": 1}})["pay"]


def test_an_error_that_belongs_to_nothing_is_told_for_the_whole():
    schema = {**make_object(a=TEXT), "minProperties": 1}
    form = SchemaForm(schema)
    reading = form.read(form.begin())
    reading.place_errors({"": ["must have at least 1 properties"], "unknown.place": ["is not expected"]})
    shown = form.show({}, reading.errors)
    assert shown.errors == ("Must have at least 1 properties.", "unknown.place: is not expected")
    assert shown.problems == ()


def test_what_is_missing_only_because_it_could_not_be_read_is_told_once():
    schema = read_schema(make_object(["n", "t"], n=WHOLE, t=TEXT))
    form = SchemaForm(schema.json)
    reading = form.read({"data/n": ["x"]}, schema=schema)
    assert set(reading.errors) == {"data/n", "data/t"}
    assert len(reading.errors["data/n"]) == 1


class Line(BaseModel):
    article: str
    price: Decimal


class Order(BaseModel):
    """What was ordered."""

    placed: date
    at: datetime
    until: time | None = None
    lines: list[Line]
    express: bool = False
    note: str | None = None
    tags: list[str] = []


def test_the_schema_of_a_pydantic_model_is_a_form():
    schema = read_schema(Order)
    value = {
        "placed": "2026-07-12",
        "at": "2026-07-12T10:30:00+00:00",
        "lines": [{"article": "a", "price": "12.50"}],
        "express": True,
    }
    form = SchemaForm(schema.json)
    found = form.read(form.pick(open_page(form, form.begin(value)).send())).value
    assert found == value
    assert schema.cast(found).lines[0].price == Decimal("12.50")
    assert not [one for one in walk(form.tree) if isinstance(one, Code)]


class Contact(forms.Form):
    name = forms.CharField(max_length=40, label="Your name", help_text="As in the passport.")
    born = forms.DateField(required=False)
    colour = forms.ChoiceField(choices=[("r", "Red"), ("b", "Blue")])
    sizes = forms.MultipleChoiceField(choices=[("s", "Small"), ("l", "Large")], required=False)
    price = forms.DecimalField(required=False)


def test_the_schema_of_a_django_form_is_a_form():
    schema = read_schema(Contact)
    value = read(schema.json, name="Ana", colour='"b"', sizes=['"s"'], price="1.50", born="2001-02-03")
    assert value == {"name": "Ana", "colour": "b", "sizes": ["s"], "price": "1.50", "born": "2001-02-03"}
    schema.check(value)
    assert "As in the passport." in open_page(SchemaForm(schema.json)).words


def walk(node: Field):
    yield node
    for inner in [*getattr(node, "fields", ()), *([node.item] if hasattr(node, "item") else [])]:
        yield from walk(inner)


# --- whatever a schema is -----------------------------------------------------------------------------


def test_words_and_values_are_never_markup():
    schema = {
        "title": HOSTILE,
        "description": HOSTILE,
        "type": "object",
        "required": [HOSTILE],
        "properties": {
            HOSTILE: {"type": "string", "title": HOSTILE, "description": HOSTILE, "examples": [HOSTILE]},
            "e": {"enum": [HOSTILE, "b"]},
            "m": {"enum": [HOSTILE, *"abcdefg"]},
            "c": {"type": "array", "items": {"enum": [HOSTILE]}},
            "k": {"const": HOSTILE},
            "l": {"type": "array", "title": HOSTILE, "items": make_object([HOSTILE], **{HOSTILE: TEXT})},
            "o": {"title": HOSTILE, **make_object(x={"type": "object", "title": HOSTILE})},
        },
    }
    form = SchemaForm(schema)
    value = {HOSTILE: HOSTILE, "e": HOSTILE, "m": HOSTILE, "c": [HOSTILE], "l": [{HOSTILE: HOSTILE}]}
    typed = form.begin(value)
    errors = {name: [HOSTILE] for name in ["", *typed, "data/l", "data/o", "data/o/x", "data/k"]}
    html = render(form.show(typed, errors))
    page = Page(html)
    page.check()
    assert "<script" not in html
    assert "<img" not in html
    assert "7|add:1" in html
    assert form.read(form.pick(page.send())).value == value


def test_what_is_long_is_cut():
    form = SchemaForm(make_object(**{"k" * 100_000: {"title": "t" * 100_000, "description": "d" * 100_000}}))
    html = render(form.show(form.begin()))
    assert len(html) < 300_000
    assert html.count("t" * 250) == 0
    assert html.count("d" * 2500) == 0


def nest(depth: int):
    schema = TEXT
    for _ in range(depth):
        schema = make_object(["x"], x=schema)
    return schema


def double(depth: int):
    """Every definition refers to the next one, twice."""
    definitions = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(depth)}
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{depth}": TEXT}}


def spread(width: int, depth: int):
    definitions = {
        f"d{n}": make_object(**{f"p{m}": {"$ref": f"#/$defs/d{n + 1}"} for m in range(width)}) for n in range(depth)
    }
    return {"$ref": "#/$defs/d0", "$defs": {**definitions, f"d{depth}": TEXT}}


@pytest.mark.parametrize(
    "schema",
    [
        make_object(**{f"p{n}": TEXT for n in range(10_000)}),
        nest(30),
        double(40),
        spread(10, 5),
        spread(3, 20),
        {"enum": list(range(100_000))},
        {"type": "array", "items": {"enum": [f"x{n}" for n in range(10_000)]}},
        {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}] * 50}, "b": make_object(a=TEXT)}},
        {"properties": {"a": {"$ref": "#"}}},
        {"properties": {"a": {"$ref": "#/properties/b/items/0"}, "b": {"items": [TEXT]}}},
        {"$ref": "#anchor", "$defs": {"x": {"$anchor": "anchor", "type": "string"}}},
        {"$dynamicRef": "#node"},
        {"type": "unknown"},
        {"type": []},
        {"enum": []},
        {"type": "object", "properties": {"a": False, "b": True}},
        {"not": {}},
        False,
        {"type": "array", "minItems": 10**9, "items": make_object(a=TEXT)},
        {"type": "string", "minLength": 1e300, "maxLength": 10**400},
        {"type": "object", "required": "a", "properties": {"a": {"type": "string", "default": {"not": "text"}}}},
        {"title": 5, "description": ["x"], "examples": "x", "default": [1], "format": 7, "contentMediaType": 3},
        {"anyOf": [True, {"type": ["string", "integer"]}, {"type": {}}]},
        {"allOf": [5], "anyOf": "x", "oneOf": [], "then": [], "dependentSchemas": {"a": 5}},
    ],
    ids=repr,
)
def test_every_schema_has_a_form_of_bounded_size(schema):
    form = SchemaForm(schema)
    assert len(list(walk(form.tree))) <= 2 * MOST_FIELDS
    html = render(form.show(form.begin()))
    assert len(html) < 600_000
    Page(html).check()
    form.read(form.pick(QueryDict("data=1&data/a=1&data/a=2&data/p1/p1=x&add=data")))


def test_numbers_are_not_written_as_a_country_does(settings):
    settings.USE_THOUSAND_SEPARATOR = True
    settings.LANGUAGE_CODE = "de"
    schema = make_object(
        ["n", "rows"],
        n={"type": "number", "minimum": 1234.5, "default": 12345.5},
        w={"enum": [1000, 2000]},
        t={"type": "string", "maxLength": 1000},
        rows={"type": "array", "minItems": 2, "items": make_object(x=WHOLE)},
    )
    with translation.override("de"):
        form = SchemaForm(schema)
        html = render(form.show(form.begin(), {"data/n": ["x"] * 3}))
        page = Page(html)
        assert 'value="12345.5"' in html
        assert 'value="1000"' in html
        assert "1234.5" in page.words
        assert "1000" in page.words
        assert not re.search(r"\d[.,]\d{3}(?!\d)", page.words.replace("1234.5", "").replace("12345.5", ""))
        assert form.read(form.pick(page.send())).value == {"n": 12345.5, "rows": []}


def test_the_forms_of_one_page_do_not_meet():
    one, other = SchemaForm(make_object(x=TEXT), prefix="a"), SchemaForm(make_object(x=TEXT), prefix="ab")
    posted = QueryDict("a/x=1&ab/x=2&data/x=3")
    assert one.read(one.pick(posted)).value == {"x": "1"}
    assert other.read(other.pick(posted)).value == {"x": "2"}


def test_names_and_ids_never_meet():
    keys = ["a/b", "a~1b", "a~b", "a b", "a-20-b", "", "~", "/", "a\nb", "a\rb", "a~nb", "é", "x" * 300, "x" * 301]
    assert len({join_name("data", key) for key in keys}) == len(keys)
    assert len({make_id(join_name("data", key)) for key in keys}) == len(keys)
    assert all(len(make_id(join_name("data", key))) < 120 for key in keys)


# --- whatever was asked -------------------------------------------------------------------------------


def test_a_value_is_shown_in_bounds():
    many = show_value({f"k{n}": [n] for n in range(10_000)})
    assert many.more > 9_000
    assert len(many.values) <= MOST_VALUES
    deep = value = {}
    for _ in range(30):
        value["x"] = {}
        value = value["x"]
    html = render_to_string("workflows/value.html", {"value": show_value(deep)})
    assert html.count("<dl") < 10
    html = render_to_string("workflows/value.html", {"value": show_value({HOSTILE: [HOSTILE, None, 1.5, True, {}]})})
    assert "<script" not in html
    assert "Yes" in html


# --- any simple schema and any value that fits it -----------------------------------------------------

KEYS = st.one_of(
    st.sampled_from(["a", "b c", "x/y", "~", "0", "data", "add", "é", "a.b", "\n", '"', "<b>", "items", "none"]),
    st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"), min_size=1, max_size=8),
)
#: What somebody can type into a text field.
TEXTS = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0\r"), min_size=1, max_size=40)
LINES = TEXTS.filter(lambda text: text.strip() and "\n" not in text)
MOMENTS = st.datetimes(min_value=datetime(1970, 1, 1), max_value=datetime(2200, 1, 1), timezones=st.just(UTC))

SCALARS = st.one_of(
    st.tuples(st.just(TEXT), TEXTS),
    st.tuples(st.just({"type": "string", "maxLength": 100}), TEXTS.filter(lambda text: "\n" not in text)),
    st.tuples(st.just({"type": "string", "maxLength": 1000}), TEXTS),
    st.tuples(st.just({"type": "string", "format": "date"}), st.dates().map(date.isoformat)),
    st.tuples(st.just({"type": "string", "format": "time"}), st.times().map(time.isoformat)),
    st.tuples(st.just({"type": "string", "format": "date-time"}), MOMENTS.map(datetime.isoformat)),
    st.tuples(st.just(WHOLE), st.integers()),
    st.tuples(st.just(NUMBER), st.one_of(st.integers(), st.floats(allow_nan=False, allow_infinity=False))),
    st.tuples(st.just(YES), st.booleans()),
    st.tuples(st.just({"type": ["integer", "string"]}), st.integers(-(10**20), 10**20)),
    st.tuples(st.just({}), st.recursive(st.one_of(st.none(), st.booleans(), st.integers(), TEXTS), st.lists)),
    st.tuples(st.just({"type": "object"}), st.dictionaries(KEYS, st.integers(), max_size=3)),
)


@st.composite
def chosen(draw):
    values = draw(
        st.lists(st.one_of(st.integers(), TEXTS, st.booleans()), min_size=1, max_size=9, unique_by=lambda v: repr(v))
    )
    return {"enum": values}, draw(st.sampled_from(values))


@st.composite
def listed(draw):
    kind = draw(st.sampled_from(["text", "number", "checks"]))
    if kind == "text":
        return {"type": "array", "items": TEXT}, draw(st.lists(LINES, min_size=1, max_size=4))
    if kind == "number":
        return {"type": "array", "items": WHOLE}, draw(st.lists(st.integers(), min_size=1, max_size=4))
    values = draw(st.lists(LINES, min_size=1, max_size=6, unique=True))
    ticked = draw(st.sets(st.sampled_from(values), min_size=1))
    return {"type": "array", "items": {"enum": values}}, [value for value in values if value in ticked]


def grouped(children, *, filled: bool = False):
    @st.composite
    def make(draw):
        pairs = draw(st.dictionaries(KEYS, children, min_size=1, max_size=4))
        required = draw(st.sets(st.sampled_from(sorted(pairs))))
        given = {name for name in pairs if name in required or draw(st.booleans())}
        if filled:
            given |= {min(pairs)}
        schema = {
            "type": "object",
            "properties": {name: pairs[name][0] for name in pairs},
            "required": sorted(required),
        }
        return schema, {name: pairs[name][1] for name in pairs if name in given}

    return make()


@st.composite
def repeated(draw, children):
    schema, first = draw(grouped(children, filled=True))
    count = draw(st.integers(1, 3))
    return {"type": "array", "items": schema}, [first] * count


@st.composite
def nullable(draw, children):
    schema, value = draw(children)
    assume("type" in schema)
    return {"anyOf": [schema, {"type": "null"}]}, value


PLAIN = st.one_of(SCALARS, chosen(), listed())
ANY = st.recursive(
    PLAIN,
    lambda inner: st.one_of(grouped(inner, filled=True), repeated(PLAIN), nullable(inner)),
    max_leaves=8,
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(pair=st.one_of(ANY, grouped(ANY)))
def test_what_fits_a_schema_goes_through_its_form_and_comes_back(pair):
    schema, value = pair
    form = SchemaForm(schema)
    page = Page(render(form.show(form.begin(value))))
    page.check()
    reading = form.read(form.pick(page.send()))
    assert reading.errors == {}
    assert_same(reading.value, value)
    Schema(schema).check(reading.value)


@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(pair=st.one_of(ANY, grouped(ANY)), noise=st.data())
def test_whatever_is_posted_is_read_or_refused_and_kept(pair, noise):
    """Any text in any field: a value that JSON can hold, or an error at a field that is on the page."""
    schema, value = pair
    form = SchemaForm(schema)
    sent = open_page(form, form.begin(value)).send()
    changed = sent.copy()
    for name in sent:
        if noise.draw(st.booleans()):
            changed.setlist(name, noise.draw(st.lists(st.text(max_size=12), max_size=2)))
    typed = form.pick(changed)
    reading = form.read(typed, schema=Schema(schema))
    json.dumps(reading.value, allow_nan=False) if reading.value is not MISSING else None
    shown = form.show(typed, reading.errors)
    page = Page(render(shown).encode(errors="replace").decode())
    page.check()
    told = sum(map(len, reading.errors.values()))
    assert len(shown.problems) + len(shown.errors) == told


def assert_same(found, value):
    """As JSON has it: a truth is no number, a moment is the same in any spelling."""
    if isinstance(value, dict):
        assert isinstance(found, dict)
        assert found.keys() == value.keys()
        for name in value:
            assert_same(found[name], value[name])
    elif isinstance(value, list):
        assert isinstance(found, list)
        assert len(found) == len(value)
        for one, other in zip(found, value, strict=True):
            assert_same(one, other)
    elif found != value and isinstance(value, str):
        assert datetime.fromisoformat(found) == datetime.fromisoformat(value)
    else:
        assert found == value or (isinstance(value, float) and math.isclose(found, value))
        assert isinstance(found, bool) == isinstance(value, bool)


def test_a_group_is_told_from_its_fields():
    """The helpers above would not notice a form without fields."""
    tree = SchemaForm(make_object(a=TEXT, b=make_object(c=TEXT))).tree
    assert isinstance(tree, FormGroup)
    assert len(list(walk(tree))) == 4
    assert ShownOption("i", "t", "l", chosen=True).chosen


# --- the order of fields --------------------------------------------------------------------------------


def test_a_stored_schema_says_the_order_that_the_database_would_lose():
    written = {"properties": {"receipt": {}, "payment_days": {}, "note": {}}, "required": ["receipt"]}
    kept = keep_order(written)
    assert kept == {**written, "x-order": ["receipt", "payment_days", "note"]}
    stored = {**kept, "properties": {"note": {}, "receipt": {}, "payment_days": {}}}
    assert sort_fields(stored["properties"], stored) == ["receipt", "payment_days", "note"]


def test_a_schema_whose_order_survives_stays_as_it_was_written():
    for schema in (
        {"properties": {"note": {}, "amount": {}}},  # as the database has it anyway
        {"properties": {"receipt": {}, "note": {}}, "required": ["receipt"]},  # as a form shows it anyway
        {"properties": {"amount": {}, "note": {}}, "x-order": ["note", "amount"]},  # as its author says
        True,
    ):
        assert keep_order(schema) == schema


def test_the_order_is_kept_wherever_a_schema_has_objects():
    inner = {"properties": {"street": {}, "zip": {}, "city": {}}}
    ordered = {**inner, "x-order": ["street", "zip", "city"]}
    for place in ("items", "not", "then", "additionalProperties"):
        assert keep_order({place: inner}) == {place: ordered}
    assert keep_order({"anyOf": [inner, {}]}) == {"anyOf": [ordered, {}]}
    assert keep_order({"$defs": {"A": inner}}) == {"$defs": {"A": ordered}}
    # A field that is called like a keyword, and data, are no schemas of objects.
    assert keep_order({"properties": {"properties": {"type": "object"}}}) == {
        "properties": {"properties": {"type": "object"}}
    }
    assert keep_order({"const": inner, "default": inner}) == {"const": inner, "default": inner}


def test_a_whole_number_stands_without_a_point_and_so_does_a_limit():
    form = SchemaForm(make_object(limit={"type": "number", "maximum": 7000.0, "default": 7000.0}))
    page = render(form.show(form.begin({"limit": 7000.0}), None))
    assert "7000" in page
    assert "7000.0" not in page
