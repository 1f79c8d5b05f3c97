"""Schemas: what authors may give, what is refused, which errors come back, and the way through a row."""

import enum
import json
import logging
import subprocess
import sys
import types
import typing
import uuid
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path
from time import thread_time
from typing import Annotated, Any, Literal

import pydantic
import pytest
from django import forms
from django.db import OperationalError
from hypothesis import example, given
from hypothesis import strategies as st
from rest_framework import serializers

from workflows.exceptions import InvalidData, InvalidInput, InvalidSchema
from workflows.schemas import schema as schema_module
from workflows.schemas.schema import Schema, load_schema, read_schema


class Method(enum.Enum):
    CARD = "card"
    CASH = "cash"


@dataclass(frozen=True)
class Line:
    sku: str
    count: int = 1


@dataclass
class Payment:
    amount: Decimal
    paid_at: datetime
    method: Method = Method.CARD
    lines: list[Line] = field(default_factory=list)
    note: str | None = None

    def __post_init__(self) -> None:
        if self.amount < 0:
            raise ValueError("money only flows in")


class Review(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True, extra="forbid")

    score: int = pydantic.Field(ge=1, le=5, description="1 is bad")
    day: date
    tags: set[str] = set()

    @pydantic.field_validator("score")
    @classmethod
    def refuse_three(cls, value: int) -> int:
        if value == 3:
            raise ValueError("make up your mind")
        return value

    @pydantic.model_validator(mode="after")
    def refuse_old(self) -> "Review":
        if self.day.year < 2000:
            raise ValueError("too long ago")
        return self


class Card(pydantic.BaseModel):
    kind: Literal["card"]
    number: str


class Cash(pydantic.BaseModel):
    kind: Literal["cash"]
    given: int


class Till(pydantic.BaseModel):
    paid: Card | Cash


class Address(serializers.Serializer):
    street = serializers.CharField(max_length=10)
    since = serializers.DateField(required=False, allow_null=True)


class Order(serializers.Serializer):
    number = serializers.IntegerField(min_value=1, help_text="as printed")
    price = serializers.DecimalField(max_digits=6, decimal_places=2)
    state = serializers.ChoiceField(choices=[("new", "New"), ("old", "Old")], default="new")
    tags = serializers.ListField(child=serializers.CharField(), max_length=2, required=False)
    address = Address()
    others = Address(many=True, required=False)
    extra = serializers.DictField(child=serializers.IntegerField(), required=False)
    anything = serializers.JSONField(required=False)
    id = serializers.UUIDField(read_only=True)

    def validate_number(self, value: int) -> int:
        if value == 13:
            raise serializers.ValidationError("bad luck")
        return value

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if attrs["number"] > 1000:
            raise serializers.ValidationError("too many")
        return attrs


class Contact(forms.Form):
    name = forms.CharField(max_length=10, label="Your name")
    age = forms.IntegerField(min_value=18, required=False)
    price = forms.DecimalField(min_value=Decimal("0.5"), required=False)
    when = forms.SplitDateTimeField(required=False)
    born = forms.DateField(required=False, input_formats=["%d.%m.%Y"])
    day = forms.DateField(required=False)
    colour = forms.ChoiceField(choices=[("Warm", [("r", "Red")]), ("b", "Blue")])
    sizes = forms.TypedMultipleChoiceField(choices=[(1, "S"), (2, "M")], coerce=int, required=False)
    news = forms.BooleanField(required=False)
    data = forms.JSONField(required=False)

    def clean(self) -> dict[str, Any]:
        if self.cleaned_data.get("name") == "nobody":
            raise forms.ValidationError("who is that")
        return self.cleaned_data


class Upload(forms.Form):
    scan = forms.FileField()


class Needy(forms.Form):
    def __init__(self, user: object, **options: Any) -> None:
        super().__init__(**options)


FIELDS = {"amount": Decimal, "day": date, "owner": uuid.UUID, "count": int, "note": str | None}
FILLED = {"amount": "1.50", "day": "2026-01-31", "owner": str(uuid.UUID(int=7)), "count": 2}


def read(given: Any) -> Schema:
    schema = read_schema(given)
    assert schema is not None
    return schema


def errors_of(given: Any, data: Any) -> dict[str, list[str]]:
    with pytest.raises(InvalidData) as caught:
        read(given).check(data)
    return caught.value.errors


def reload(schema: Schema) -> Schema:
    """Through a row, into a process that has seen nothing of it."""
    for cache in (schema_module._load, schema_module._find_source):
        cache.cache_clear()
    loaded = load_schema(json.loads(json.dumps(schema.json)), schema.type_path)
    assert loaded is not None
    return loaded


# --- what may be given --------------------------------------------------------------------------------


def test_no_schema_stays_none() -> None:
    assert read_schema(None) is None
    assert load_schema(None, None) is None


def test_a_schema_that_was_read_already_is_taken() -> None:
    schema = read({"type": "object"})
    assert read_schema(schema) is schema


@pytest.mark.parametrize("given", [{}, True, {"type": "object"}, {"x-amount": True}, {"title": "Answer"}])
def test_json_schema_takes_data_as_it_is(given: Any) -> None:
    schema = read(given)
    data = {"a": [1]}
    schema.check(data)
    assert schema.cast(data) is data
    assert (schema.json, schema.type_path) == (given, None)


def test_false_refuses_everything() -> None:
    assert errors_of(False, 1) == {"": ["is not allowed"]}
    assert read(False).describe() == {"not": {}}
    assert read(True).describe() == {}


def test_the_schema_given_can_change_later_without_effect() -> None:
    given = {"type": "object"}
    schema = read(given)
    given["type"] = "string"
    schema.describe()["type"] = "null"
    schema.check({})


@pytest.mark.parametrize(
    "given",
    [3, "text", [], int, object(), Line("a"), Path, print, {1: int}, {"a": int, "b": "text"}, {"a": {"b": int}}],
)
def test_what_is_no_schema_is_refused_with_a_hint(given: Any) -> None:
    with pytest.raises(InvalidSchema, match="Pass a JSON Schema, a dataclass"):
        read_schema(given)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"approved": "bool", "amount": "integr"}, r"'amount': 'integr' is neither a type .*did you mean 'integer'"),
        ({"proprties": {"a": {"type": "integer"}}}, "did you mean 'properties'"),
        ({"x": 3}, "'x': 3 is neither"),
        ({"amount": True}, "'amount': True is neither"),
        ({"type": "object", "requird": ["a"]}, "did you mean 'required'"),
        ({"id": "strng"}, "did you mean 'string'"),
        ({"lines": {"type": "array"}}, "'lines'"),
        ({"title": "str", "description": "string"}, "lets all data pass"),
        ({"x-amount": "int"}, "lets all data pass"),
        ({"approved": "bool", "required": ["approved"]}, "'approved': 'bool' is a field .* in \"properties\""),
    ],
)
def test_a_dict_that_would_let_everything_pass_by_a_slip_is_refused(given: Any, told: str) -> None:
    with pytest.raises(InvalidSchema, match=told):
        read_schema(given)


@pytest.mark.parametrize(
    "given",
    [
        {"type": "object"},
        {"type": "string", "format": "date"},
        {"type": "string", "title": "date"},
        {"format": "date"},
        {"const": "int"},
        {"$comment": "string", "type": "null"},
        {"type": "object", "x-note": "string"},
        {"$schema": "http://json-schema.org/draft-04/schema#", "id": "http://e.com/a", "type": "object"},
        {"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {}, "dependencies": {}},
        {"$ref": "#/components/schemas/A", "components": {"schemas": {"A": {"type": "integer"}}}},
        {"properties": {"a": {"type": "integer", "nullable": True}}},
        {"oneOf": [{"type": "null"}], "discriminator": {"propertyName": "kind"}},
    ],
)
def test_a_json_schema_stays_one_whatever_its_words(given: Any) -> None:
    assert (read(given).json, read(given).type_path) == (given, None)


def test_the_words_of_json_schema_name_types_too() -> None:
    named = {"s": "string", "i": "integer", "n": "number", "b": "boolean", "a": "array | null", "o": "object"}
    data = {"s": "x", "i": 1, "n": 1.5, "b": True, "a": [1], "o": {"k": 1}}
    schema = read(named)
    schema.check(data)
    assert reload(schema).cast(data) == data
    assert errors_of(named, {**data, "i": "x", "b": 1}) == {
        "i": ["must be a whole number"],
        "b": ["must be true or false"],
    }
    assert errors_of({"id": "integer"}, {"id": "x"}).keys() == {"id"}
    assert errors_of({"type": "string", "name": "string"}, {"type": "a"}) == {"name": ["is required"]}


def test_the_dialect_that_is_named_counts() -> None:
    old = {"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 3, "exclusiveMinimum": True}
    assert "" in errors_of(old, 3)
    read({"$schema": "https://json-schema.org/draft/2019-09/schema", "type": "object"}).check({})
    with pytest.raises(InvalidSchema):  # a number since draft 6
        read_schema({"minimum": 3, "exclusiveMinimum": True})


@pytest.mark.parametrize("dialect", ["https://example.com/mine", 7, None, ["a"]])
def test_an_unknown_dialect_is_refused(dialect: Any) -> None:
    with pytest.raises(InvalidSchema, match="draft/2020-12"):
        read_schema({"$schema": dialect})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"type": "text"}, "type"),
        ({"properties": {"a": {"type": 7}}}, r"at properties\.a\.type"),
        ({"pattern": "("}, "pattern|regex"),
        ({"patternProperties": {"[": {}}}, "pattern|regex"),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "patternProperties": {"[": {}}}, "pattern"),
        ({"required": "a"}, "required"),
        ({"multipleOf": 0}, "multipleOf|minimum"),
        ({"enum": [float("nan")]}, "nan"),
        ({"const": "\0"}, "NUL"),
        ({"$id": "http://[bad", "$ref": "#"}, "cannot be used"),
    ],
)
def test_a_broken_json_schema_is_refused_when_it_is_read(given: Any, told: str) -> None:
    with pytest.raises(InvalidSchema, match=told):
        read_schema(given)


# --- references ---------------------------------------------------------------------------------------


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise AssertionError("somebody opened a connection")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("urllib.request.urlopen", refuse)


@pytest.mark.parametrize(
    "reference",
    ["https://example.com/a.json", "file:///etc/passwd", "other.json", "https://json-schema.org/draft/2020-12/schema"],
)
@pytest.mark.usefixtures("no_network")
def test_a_reference_outside_is_refused_when_it_is_read(reference: str) -> None:
    for schema in (
        {"$ref": reference},
        {"properties": {"a": {"items": {"$ref": reference}}}},
        {"$defs": {"unused": {"$ref": reference}}},
        {"$ref": "#/elsewhere", "elsewhere": {"$ref": reference}},
        {"$id": "https://example.com/base", "$dynamicRef": reference},
    ):
        with pytest.raises(InvalidSchema, match="nothing is ever fetched"):
            read_schema(schema)


def test_references_inside_are_followed() -> None:
    tree = {
        "$ref": "#/$defs/node",
        "$defs": {"node": {"properties": {"next": {"$ref": "#"}, "n": {"type": "integer"}}}},
    }
    assert errors_of(tree, {"next": {"next": {"n": "x"}}}) == {"next.next.n": ["must be a whole number"]}
    assert errors_of({"$ref": "#it", "$defs": {"a": {"$anchor": "it", "type": "null"}}}, 1) == {"": ["must be null"]}
    bundled = {"$id": "https://e.com/a", "$ref": "b", "$defs": {"b": {"$id": "b", "type": "null"}}}
    assert errors_of(bundled, 1) == {"": ["must be null"]}


def test_a_reference_in_data_is_not_a_reference() -> None:
    read({"const": {"$ref": "https://example.com"}}).check({"$ref": "https://example.com"})
    read({"properties": {"$ref": {"type": "string"}}}).check({"$ref": "x"})


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"$ref": "#/$defs/none"}, "leads nowhere"),
        ({"$ref": "#none"}, "leads nowhere"),
        ({"$ref": "#/title", "title": "x"}, "no schema"),
        ({"$ref": "#/x", "x": {"type": "nonsense"}}, "nonsense"),
        ({"$ref": "#"}, "without end"),
        ({"properties": {"a": {"anyOf": [{"$ref": "#/properties/a"}]}}}, "without end"),
        ({"$defs": {"a": {"not": {"$ref": "#/$defs/b"}}, "b": {"$ref": "#/$defs/a"}}}, "without end"),
    ],
)
def test_a_reference_to_nothing_or_in_a_circle_is_refused(given: Any, told: str) -> None:
    with pytest.raises(InvalidSchema, match=told):
        read_schema(given)


# --- errors -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "data", "errors"),
    [
        ({"type": "integer"}, True, {"": ["must be a whole number"]}),
        ({"type": "number"}, False, {"": ["must be a number"]}),
        ({"const": 1}, True, {"": ["must be 1"]}),
        ({"enum": [0, "a"]}, False, {"": ['must be one of 0 or "a"']}),
        ({"type": ["integer", "null"]}, "a", {"": ["must be a whole number or null"]}),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "a", {"": ["must be a whole number or null"]}),
        ({"anyOf": [{"minimum": 3, "type": "integer"}, {"type": "null"}]}, 1, {"": ["must be at least 3"]}),
        ({"oneOf": [{}, {"type": "null"}]}, None, {"": ["fits several of the forms that are allowed, and must fit "
                                                         "exactly one"]}),
        ({"anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {}, {"": ["is required"]}),
        ({"required": ["a", "b"]}, {}, {"a": ["is required"], "b": ["is required"]}),
        ({"properties": {"x": {"required": ["a"]}}}, {"x": {}}, {"x.a": ["is required"]}),
        ({"items": {"required": ["a"]}}, [{"a": 1}, {}], {"1.a": ["is required"]}),
        ({"dependentRequired": {"a": ["b", "c"]}}, {"a": 1, "c": 1}, {"b": ["is required together with a"]}),
        ({"properties": {"a": {}}, "patternProperties": {"^x": {}}, "additionalProperties": False},
         {"a": 1, "b": 1, "xy": 1, "c": 1}, {"b": ["is not expected"], "c": ["is not expected"]}),
        ({"properties": {"a": {}}, "unevaluatedProperties": False}, {"a": 1, "b": 1}, {"b": ["is not expected"]}),
        ({"propertyNames": {"maxLength": 2}}, {"long": 1},
         {"long": ["is not allowed as a name: must have at most 2 characters"]}),
        ({"properties": {"a": False}}, {"a": 1}, {"a": ["is not allowed"]}),
        ({"not": {"type": "null"}}, None, {"": ["is not allowed"]}),
        ({"minLength": 1}, "", {"": ["must not be empty"]}),
        ({"minimum": 5, "multipleOf": 2}, 3, {"": ["must be at least 5", "must be a multiple of 2"]}),
        ({"format": "date"}, "2026-02-30", {"": ["is not a valid date"]}),
        ({"format": "date-time"}, "yesterday", {"": ["is not a valid date-time"]}),
        ({"format": "date-time"}, "2026-02-30T10:00:00Z", {"": ["is not a valid date-time"]}),
        ({"format": "time"}, "25:00:00", {"": ["is not a valid time"]}),
        ({"type": ["number", "string"], "format": "decimal"}, "1,5", {"": ["is not a valid decimal"]}),
        ({"format": "email"}, "me", {"": ["is not a valid email"]}),
        ({"format": "uuid"}, "1", {"": ["is not a valid uuid"]}),
        ({"pattern": "^a"}, "b", {"": ["does not match the pattern ^a"]}),
        ({"contains": {"type": "null"}}, [1], {"": ["holds no item of the kind that it must hold"]}),
        ({"multipleOf": 0.5}, 10**400, {"": ["holds something too large to be checked"]}),
        ({"if": {"required": ["a"]}, "then": {"required": ["b"]}}, {"a": 1}, {"b": ["is required"]}),
    ],
)  # fmt: skip
def test_each_error_is_told_at_its_place_in_plain_words(given: Any, data: Any, errors: dict[str, list[str]]) -> None:
    assert errors_of(given, data) == errors


def test_every_error_is_told_and_the_message_names_them_all() -> None:
    given = {
        "properties": {"a": {"type": "string"}, "l": {"items": {"type": "integer"}}},
        "required": ["b"],
        "additionalProperties": False,
    }
    with pytest.raises(InvalidData, match=r"b: is required") as caught:
        read(given).check({"a": 1, "l": [1, "x", None], "c": 0})
    assert set(caught.value.errors) == {"a", "l.1", "l.2", "b", "c"}


def test_a_reason_never_repeats_the_data() -> None:
    with pytest.raises(InvalidData) as caught:
        read({"type": "string", "not": {}, "enum": ["x"]}).check({"secret": "s" * 9000})
    assert "secret" not in str(caught.value)


def test_the_list_of_errors_has_an_end() -> None:
    errors = errors_of({"items": {"type": "null"}}, [1] * 5000)
    assert len(errors) == 1001
    assert errors[""] == ["more is wrong than the first 1000 problems listed here"]


def test_names_that_are_not_expected_are_told_up_to_an_end() -> None:
    body = {f"k{number}": 1 for number in range(40_000)}
    start = thread_time()
    for keyword in ("additionalProperties", "unevaluatedProperties"):
        errors = errors_of({"properties": {"a": {}}, keyword: False}, body)
        assert len(errors) <= 21
        assert "names that are not expected" in errors[""][0]
        assert len(str(InvalidData(errors))) < 2000
    assert thread_time() - start < 3


class Picky(serializers.Serializer):
    def to_internal_value(self, data: Any) -> Any:
        raise serializers.ValidationError({f"k{number}": ["no"] for number in range(5000)})


def test_what_a_class_finds_has_an_end_too() -> None:
    assert len(errors_of(Picky, {})) == 1001


@pytest.mark.parametrize(
    ("items", "twice"),
    [
        ([1, 1.0], True),
        ([1, True, 0, False, "1", None, "", []], False),
        ([{"a": [1, {"b": 2}]}, {"a": [1.0, {"b": 2}]}], True),
        ([{"a": 1, "b": 2}, {"b": 2, "a": 1}], True),
        ([[1], [True]], False),
        ([{"a": 1}, {"a": 1.5}, [["a", 1]]], False),
        ([0.0, -0.0], True),
        ("aa", False),
    ],
)
@pytest.mark.parametrize(
    "dialect", ["https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-03/schema#"]
)
def test_the_same_item_twice_is_found_as_json_has_it(items: Any, twice: bool, dialect: str) -> None:
    given = {"$schema": dialect, "uniqueItems": True}
    if twice:
        assert errors_of(given, items) == {"": ["must not hold the same item twice"]}
    else:
        read(given).check(items)
    read({**given, "uniqueItems": False}).check(items)


@pytest.mark.parametrize(
    "items",
    [[{"a": n} for n in range(20_000)], [n * (2**61 - 1) for n in range(20_000)]],
    ids=["objects", "numbers that share one hash"],
)
def test_many_different_items_do_not_keep_a_process_busy(items: list[Any]) -> None:
    schema = read({"uniqueItems": True})
    start = thread_time()
    schema.check(items)
    assert thread_time() - start < 3


class Huge(forms.Form):
    price = forms.FloatField()


class Broken(serializers.Serializer):
    n = serializers.IntegerField()

    def validate_n(self, value: int) -> float:
        return 1 / (value - 7)


@dataclass
class BrokenToo:
    n: int

    def __post_init__(self) -> None:
        print({}[self.n])


class Away(serializers.Serializer):
    def validate(self, attrs: Any) -> Any:
        raise OperationalError("the database is away")


def test_a_number_that_a_class_cannot_hold_is_told_like_any_other() -> None:
    for call in (read(Huge).check, read(Huge).cast):
        with pytest.raises(InvalidData, match="too large") as caught:
            call({"price": 10**400})
        assert caught.value.errors == {"": ["holds something too large to be checked"]}


@pytest.mark.parametrize(("kind", "told"), [(Broken, "ZeroDivisionError"), (BrokenToo, "KeyError")])
def test_what_a_classs_own_check_raises_is_told_and_logged(
    kind: Any, told: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert errors_of(kind, {"n": 7}) == {"": [f"cannot be checked: {kind.__name__} raised {told}"]}
    [record] = caplog.records
    assert record.exc_info
    assert told in str(record.exc_info[0])


def test_a_database_that_is_away_says_nothing_about_the_data() -> None:
    with pytest.raises(OperationalError):
        read(Away).check({})


def test_the_message_names_no_place_where_the_whole_is_wrong() -> None:
    assert str(InvalidData({"": ["must be an object"]})).endswith("schema: must be an object")
    assert str(InvalidInput("w", {"": "must be an object"})).endswith("input: must be an object")
    assert str(InvalidInput("w", {"a": ["is x", "is y"], "b": "is z"})).endswith("input: a: is x, is y; b: is z")
    assert str(InvalidData({str(n): ["no"] for n in range(25)})).endswith("19: no; and 5 more")


@pytest.mark.parametrize("text", ["2026-01-31T10:00:00Z", "2026-01-31t10:00:00.123456+02:00", "2026-01-31T10:00"])
def test_moments_with_and_without_a_zone_are_moments(text: str) -> None:
    read({"format": "date-time"}).check(text)
    read({"at": datetime}).check({"at": text})


# --- dataclasses and pydantic models ------------------------------------------------------------------


def test_a_dataclass_gives_its_instance() -> None:
    schema = read(Payment)
    data = {"amount": "12.50", "paid_at": "2026-01-31T10:00:00Z", "method": "cash", "lines": [{"sku": "x"}]}
    schema.check(data)
    paid = Payment(Decimal("12.50"), datetime(2026, 1, 31, 10, tzinfo=UTC), Method.CASH, [Line("x")])
    assert schema.cast(data) == paid
    assert schema.describe()["required"] == ["amount", "paid_at"]
    assert schema.type_path == "tests.workflows.schemas.test_schema:Payment"


def test_a_dataclass_refuses_at_each_place() -> None:
    data = {"amount": [], "method": "gold", "lines": [{"count": True}], "note": 1}
    assert errors_of(Payment, data) == {
        "amount": ["must be a number or text"],
        "paid_at": ["is required"],
        "method": ['must be one of "card" or "cash"'],
        "lines.0.sku": ["is required"],
        "lines.0.count": ["must be a whole number"],
        "note": ["must be text or null"],
    }


def test_what_a_dataclass_itself_refuses_is_told_alike() -> None:
    assert errors_of(Payment, {"amount": -1, "paid_at": "2026-01-31T10:00"}) == {"": ["money only flows in"]}


def test_a_strict_model_reads_json() -> None:
    schema = read(Review)
    data = {"score": 5, "day": "2026-01-31", "tags": ["a", "b"]}
    schema.check(data)
    assert schema.cast(data) == Review(score=5, day=date(2026, 1, 31), tags={"a", "b"})
    assert schema.describe()["properties"]["score"]["description"] == "1 is bad"


@pytest.mark.parametrize(
    ("data", "errors"),
    [
        (
            {"score": 9, "more": 1},
            {"score": ["must be at most 5"], "day": ["is required"], "more": ["is not expected"]},
        ),
        ({"score": 3, "day": "2026-01-31"}, {"score": ["make up your mind"]}),
        ({"score": 4, "day": "1999-01-31"}, {"": ["too long ago"]}),
        ([], {"": ["must be an object"]}),
    ],
)
def test_a_model_refuses_at_each_place(data: Any, errors: dict[str, list[str]]) -> None:
    assert errors_of(Review, data) == errors


def test_of_several_forms_the_one_that_was_meant_is_told() -> None:
    assert errors_of(Till, {"paid": {"kind": "cash", "given": "x"}}) == {"paid.given": ["must be a whole number"]}
    assert errors_of(Till, {"paid": 1}) == {"paid": ["must be an object"]}
    assert read(Till).cast({"paid": {"kind": "cash", "given": 3}}).paid == Cash(kind="cash", given=3)


def test_a_place_has_no_names_of_types_in_it() -> None:
    class Even(pydantic.BaseModel):
        n: Annotated[int, pydantic.AfterValidator(lambda value: 1 / 0 if value == 1 else value)] | list[str]
        d: dict[str, timedelta]

    assert errors_of(Even, {"n": ["a"], "d": {"k": "no"}}).keys() == {"d.k"}


def test_a_default_that_json_cannot_hold_is_no_problem() -> None:
    class Odd(pydantic.BaseModel):
        what: Any = object

    read(Odd).check({})


@pytest.mark.parametrize("kind", [type("Plain", (), {}), print])
def test_a_field_that_json_cannot_carry_is_refused(kind: Any) -> None:
    with pytest.raises(InvalidSchema):
        read_schema({"a": kind})


# --- serializers --------------------------------------------------------------------------------------


def test_a_serializer_gives_validated_data() -> None:
    schema = read(Order)
    data = {"number": 7, "price": "1.50", "address": {"street": "Elm", "since": "2026-01-31"}, "extra": {"a": 1}}
    before = json.dumps(data)
    schema.check(data)
    assert schema.cast(data) == {
        "number": 7,
        "price": Decimal("1.50"),
        "state": "new",
        "address": {"street": "Elm", "since": date(2026, 1, 31)},
        "extra": {"a": 1},
    }
    assert json.dumps(data) == before


def test_a_serializer_is_described_with_limits_choices_and_words() -> None:
    told = read(Order).describe()
    assert told["required"] == ["number", "price", "address"]
    assert told["properties"]["number"] == {"type": "integer", "minimum": 1, "title": "Number",
                                            "description": "as printed"}  # fmt: skip
    assert told["properties"]["state"]["enum"] == ["new", "old"]
    assert told["properties"]["tags"]["maxItems"] == 2
    assert told["properties"]["address"]["properties"]["street"]["maxLength"] == 10
    assert told["properties"]["address"]["properties"]["since"]["type"] == ["string", "null"]
    assert told["properties"]["others"]["items"]["required"] == ["street"]
    assert "id" not in told["properties"]


@pytest.mark.parametrize(
    ("data", "errors"),
    [
        ({"number": True, "price": "x", "address": {}},
         {"number": ["must be a whole number"], "price": None, "address.street": ["is required"]}),
        ({"number": 13, "price": 1, "address": {"street": "Elm"}}, {"number": ["bad luck"]}),
        ({"number": 1001, "price": 1, "address": {"street": "Elm"}}, {"": ["too many"]}),
        ({"number": 1, "price": "1.999", "address": {"street": "   "}}, {"price": None, "address.street": None}),
        ({"number": 1, "price": 1, "address": {"street": "Elm"}, "others": [{"street": "a"}, {"street": " "}]},
         {"others.1.street": None}),
        ({"number": 1, "price": 1, "address": {"street": "Elm"}, "state": "gone", "tags": ["a", "b", "c"]},
         {"state": None, "tags": None}),
        (7, {"": ["must be an object"]}),
    ],
)  # fmt: skip
def test_a_serializer_refuses_at_each_place(data: Any, errors: dict[str, Any]) -> None:
    found = errors_of(Order, data)
    assert found.keys() == errors.keys()
    assert all(errors[place] in (None, reasons) for place, reasons in found.items())
    assert all(isinstance(reason, str) for reasons in found.values() for reason in reasons)


# --- forms --------------------------------------------------------------------------------------------


def test_a_form_gives_cleaned_data() -> None:
    schema = read(Contact)
    data = {
        "name": "Ana", "age": 30, "price": 0.75, "when": ["2026-01-31", "10:30:00"], "born": "31.01.1990",
        "day": "2026-01-31", "colour": "r", "sizes": [1, 2], "news": True, "data": "text",
    }  # fmt: skip
    schema.check(data)
    cleaned = schema.cast(data)
    assert cleaned["when"].replace(tzinfo=None) == datetime(2026, 1, 31, 10, 30)
    assert {**cleaned, "when": None} == {
        "name": "Ana", "age": 30, "price": Decimal("0.75"), "when": None, "born": date(1990, 1, 31),
        "day": date(2026, 1, 31), "colour": "r", "sizes": [1, 2], "news": True, "data": "text",
    }  # fmt: skip


def test_what_a_form_does_not_require_may_be_null_or_left_out() -> None:
    schema = read(Contact)
    for data in (
        {"name": "Ana", "colour": "b"},
        {"name": "Ana", "colour": "b", "age": None, "day": None, "when": None},
    ):
        schema.check(data)
        assert schema.cast(data)["age"] is None
        assert schema.cast(data)["news"] is False


class Blank(forms.Form):
    mail = forms.EmailField(required=False)
    code = forms.CharField(required=False, min_length=3)
    known = forms.NullBooleanField()


class BlankToo(serializers.Serializer):
    mail = serializers.EmailField(allow_blank=True)
    code = serializers.CharField(allow_blank=True, min_length=3)
    state = serializers.ChoiceField(["a"], allow_blank=True)


@pytest.mark.parametrize("kind", [Blank, BlankToo])
def test_an_empty_text_is_taken_where_the_class_takes_it(kind: Any) -> None:
    schema = read(kind)
    schema.check({"mail": "", "code": "", "state": ""})
    assert schema.cast({"mail": "", "code": "", "state": ""})["mail"] == ""
    assert errors_of(kind, {"mail": "me", "code": "", "state": ""}).keys() == {"mail"}


def test_a_form_is_described_with_limits_choices_and_words() -> None:
    told = read(Contact).describe()
    assert told["required"] == ["name", "colour"]
    assert told["properties"]["name"] == {"type": "string", "minLength": 1, "maxLength": 10, "title": "Your name"}
    assert told["properties"]["colour"]["enum"] == ["r", "b"]
    assert told["properties"]["sizes"]["items"]["enum"] == [1, 2]
    assert told["properties"]["day"]["format"] == "date"
    assert "format" not in told["properties"]["born"]
    assert told["properties"]["price"]["minimum"] == 0.5


@pytest.mark.parametrize(
    ("data", "places"),
    [
        ({"age": 3}, {"name", "age", "colour"}),
        ({"name": "", "colour": "green"}, {"name", "colour"}),
        ({"name": "  ", "colour": "b"}, {"name"}),
        ({"name": "nobody", "colour": "b"}, {""}),
        ({"name": "Ana", "colour": "b", "price": "0.1"}, {"price"}),
        ({"name": "Ana", "colour": "b", "born": "1990-01-31", "age": "30"}, {"age"}),
    ],
)
def test_a_form_refuses_at_each_place(data: Any, places: set[str]) -> None:
    assert errors_of(Contact, data).keys() == places


def test_a_form_with_a_prefix_reads_plain_names() -> None:
    prefixed = type("Prefixed", (Contact,), {"prefix": "left"})
    read(prefixed).check({"name": "Ana", "colour": "b"})


@pytest.mark.parametrize(("form", "told"), [(Upload, "file"), (Needy, "arguments")])
def test_a_form_that_cannot_read_json_is_refused(form: Any, told: str) -> None:
    with pytest.raises(InvalidSchema, match=told):
        read_schema(form)


# --- a dict of field to type --------------------------------------------------------------------------


def test_fields_are_cast_to_a_plain_dict() -> None:
    schema = read(FIELDS)
    schema.check(FILLED)
    cast = schema.cast(FILLED)
    assert type(cast) is dict
    assert cast == {"amount": Decimal("1.50"), "day": date(2026, 1, 31), "owner": uuid.UUID(int=7), "count": 2,
                    "note": None}  # fmt: skip


def test_fields_are_required_unless_they_take_none() -> None:
    assert errors_of(FIELDS, {"count": "2", "note": 1}) == {
        "amount": ["is required"],
        "day": ["is required"],
        "owner": ["is required"],
        "count": ["must be a whole number"],
        "note": ["must be text or null"],
    }
    read(FIELDS).check({**FILLED, "note": None})


def test_more_fields_are_let_through() -> None:
    read(FIELDS).check({**FILLED, "more": 1})
    assert read(FIELDS).cast({**FILLED, "more": 1})["more"] == 1


@pytest.mark.parametrize("name", ["order-id", "_private", "class", "schema", "type", "model_fields", "properties"])
def test_a_field_may_have_any_name(name: str) -> None:
    assert errors_of({name: int}, {name: "x"}) == {name: ["must be a whole number"]}


def test_fields_may_hold_classes_and_lists_of_them() -> None:
    schema = read({"lines": list[Line], "by": dict[str, Review], "how": Literal["a", 2], "one": Line | None})
    data = {"lines": [{"sku": "x"}], "by": {"ana": {"score": 1, "day": "2026-01-31"}}, "how": 2}
    schema.check(data)
    assert schema.cast(data)["lines"] == [Line("x")]
    assert reload(schema).cast(data) == schema.cast(data)
    assert errors_of({"lines": list[Line]}, {"lines": [{}]}) == {"lines.0.sku": ["is required"]}


def test_fields_may_be_named_as_yaml_has_them() -> None:
    schema = read({"title": "str", "amount": "decimal", "day": "date | None"})
    assert errors_of({"title": "str", "n": "int"}, {"title": 1}) == {"title": ["must be text"], "n": ["is required"]}
    assert schema.cast({"title": "x", "amount": 1, "day": "2026-01-31"})["day"] == date(2026, 1, 31)
    assert read({"type": "null"}).type_path is None


VALUES: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(-(2**70), 2**70),
    float: st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53),
    str: st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
    bool: st.booleans(),
    Decimal: st.decimals(allow_nan=False, allow_infinity=False).map(lambda value: f"{value:f}") | st.integers(-99, 99),
    datetime: st.datetimes(timezones=st.none() | st.just(UTC)).map(lambda value: value.isoformat()),
    date: st.dates().map(str),
    time: st.times().map(str),
    uuid.UUID: st.uuids().map(str),
    list[int]: st.lists(st.integers(-9, 9), max_size=3),
    dict[str, bool]: st.dictionaries(st.text("abc"), st.booleans(), max_size=3),
    str | None: st.none() | st.text("abc"),
    Method: st.sampled_from(["card", "cash"]),
}


@given(st.sampled_from(list(VALUES)).flatmap(lambda kind: st.tuples(st.just(kind), VALUES[kind])))
@example((datetime, "2026-01-31 10:00"))
def test_good_values_pass_and_survive_the_way_through_a_row(pair: tuple[Any, Any]) -> None:
    kind, value = pair
    schema = read({"x": kind})
    schema.check({"x": value})
    loaded = reload(schema)
    loaded.check({"x": value})
    assert loaded.cast({"x": value}) == schema.cast({"x": value})


ODD = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(-1e15, 1e15), st.text("0123456789-:TZ.e+ ab"),
    st.lists(st.integers(), max_size=2), st.dictionaries(st.text("ab"), st.integers(), max_size=2),
    st.dates().map(str), st.from_regex(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d)?Z?", fullmatch=True),
    st.from_regex(r"\d\d:\d\d(:\d\d)?", fullmatch=True),
)  # fmt: skip


@given(st.sampled_from(list(VALUES)), ODD)
def test_what_the_json_schema_of_fields_accepts_can_be_cast(kind: Any, value: Any) -> None:
    schema = read({"x": kind})
    try:
        Schema(schema.json).check({"x": value})
    except InvalidData:
        return
    cast = schema.cast({"x": value})["x"]
    if isinstance(kind, type) and not typing.get_args(kind):
        assert type(cast) is kind


# --- through a row ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (Payment, {"amount": 1, "paid_at": "2026-01-31T10:00:00Z"}),
        (Review, {"score": 1, "day": "2026-01-31"}),
        (Order, {"number": 7, "price": "1.50", "address": {"street": "Elm"}}),
        (Contact, {"name": "Ana", "colour": "r"}),
        (FIELDS, FILLED),
    ],
)
def test_a_schema_comes_back_from_a_row_the_same(kind: Any, data: Any) -> None:
    schema = read(kind)
    loaded = reload(schema)
    assert loaded == schema
    assert hash(loaded) == hash(schema)
    loaded.check(data)
    assert loaded.cast(data) == schema.cast(data)
    assert type(loaded.cast(data)) is type(schema.cast(data))
    assert load_schema(schema.json, schema.type_path) is loaded


def test_what_cannot_be_imported_has_no_path_and_still_casts_here() -> None:
    @dataclass
    class Local:
        n: int

    for local in (Local, {"x": Local}, {"x": Annotated[int, [1]]}):
        assert read(local).type_path is None
    assert read(Local).cast({"n": 1}) == Local(1)
    assert reload(read(Local)).cast({"n": 1}) == {"n": 1}
    with pytest.raises(InvalidData):
        reload(read(Local)).check({"n": "x"})


def test_a_class_that_hides_behind_another_has_no_path() -> None:
    hidden = dataclass(type("Line", (), {"__annotations__": {"n": int}, "__module__": __name__}))
    assert read(hidden).type_path is None


def test_a_class_inside_a_class_has_a_path_also_while_that_is_being_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nested_schemas.py").write_text(
        "from dataclasses import dataclass\nfrom workflows.schemas.schema import read_schema\n"
        "class Flow:\n    @dataclass\n    class Paid:\n        n: int\n    wait = read_schema(Paid)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    import nested_schemas  # type: ignore[import-not-found]

    assert nested_schemas.Flow.wait.type_path == "nested_schemas:Flow.Paid"
    assert reload(nested_schemas.Flow.wait).cast({"n": 1}) == nested_schemas.Flow.Paid(1)


@pytest.mark.parametrize("change", ["gone", "other kind", "module gone", "broken import"])
def test_when_the_class_is_gone_the_json_schema_still_stands_and_it_is_logged_once(
    change: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    module = types.ModuleType("deployed_schemas")
    monkeypatch.setitem(sys.modules, "deployed_schemas", module)
    Line2 = type("Line2", (), {"__annotations__": {"n": int}, "__module__": "deployed_schemas"})  # noqa: N806
    module.Line2 = dataclass(Line2)  # type: ignore[attr-defined]
    schema = read(module.Line2)
    assert schema.type_path == "deployed_schemas:Line2"
    if change == "gone":
        del module.Line2
    elif change == "other kind":
        module.Line2 = 7  # type: ignore[attr-defined]
    else:
        monkeypatch.delitem(sys.modules, "deployed_schemas")
        if change == "broken import":
            (tmp_path / "deployed_schemas.py").write_text("raise RuntimeError('no')")
            monkeypatch.syspath_prepend(str(tmp_path))
    with caplog.at_level(logging.WARNING, logger="workflows.schema"):
        loaded = reload(schema)
        assert not caplog.records  # nothing is imported before it is needed
        for _ in range(2):
            assert loaded.cast({"n": 1}) == {"n": 1}
            loaded.check({"n": 1})
        loaded = load_schema({"type": "object"}, schema.type_path) or loaded
        loaded.check({})
    assert len(caplog.records) == 1
    with pytest.raises(InvalidData):
        reload(schema).check({"n": "x"})


# --- cost ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [Payment, FIELDS, {"type": "object"}, {"a": "int"}])
def test_the_same_thing_is_read_once(given: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    first = read(given)
    first.check(
        {
            "amount": 1,
            "paid_at": "2026-01-31T10:00:00Z",
            "day": "2026-01-31",
            "owner": str(uuid.uuid4()),
            "count": 1,
            "a": 1,
        }
    )
    monkeypatch.setattr(schema_module, "make_reader", None)
    monkeypatch.setattr(schema_module, "read_json_schema", None)
    monkeypatch.setattr(schema_module, "make_tree", None)
    again = read(given)
    assert again is first
    again.check(
        {
            "amount": 1,
            "paid_at": "2026-01-31T10:00:00Z",
            "day": "2026-01-31",
            "owner": str(uuid.uuid4()),
            "count": 1,
            "a": 1,
        }
    )


def test_importing_it_loads_neither_models_nor_the_libraries() -> None:
    code = (
        "import sys, workflows.schemas.schema; "
        "print([n for n in ('pydantic', 'rest_framework', 'jsonschema', 'workflows.models') "
        "if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
