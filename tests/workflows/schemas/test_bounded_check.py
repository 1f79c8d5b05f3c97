"""What checking one answer may cost: counted in keywords that are applied and errors that are made, not in seconds."""

from __future__ import annotations

import inspect
import json
import re
import sys
from typing import Any

import jsonschema
import pydantic
import pytest
from django import forms
from django.core.validators import RegexValidator
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema.validators import validator_for
from rest_framework import serializers

from workflows import durable, emit, start_many
from workflows.exceptions import InvalidData, InvalidSchema, TooComplex
from workflows.schemas.check_budget import MOST_WORK, Work
from workflows.schemas.json_schema import make_tree
from workflows.schemas.patterns import MOST_TRIES, SHORTEST, UNBOUNDED, find_longest, read_pattern
from workflows.schemas.schema import Schema, load_schema, read_schema
from workflows.testing import drain

LIMIT = 512 * 1024


class Tagged(pydantic.BaseModel):
    tags: list[str] | None = None


class Unions(pydantic.BaseModel):
    tags: list[str | bool] | None = None


class Leaf(pydantic.BaseModel):
    child: Leaf | Twig | None = None
    size: int | None = None


class Twig(pydantic.BaseModel):
    child: Leaf | Twig | None = None
    name: str | None = None


class Top(pydantic.BaseModel):
    tree: Leaf | Twig


def read(written: Any) -> Schema:
    schema = read_schema(written)
    assert schema is not None
    return schema


def count(written: Any, data: Any, most: int = 1001) -> tuple[int, int]:
    """The work of one check by JSON Schema, and the errors that it told."""
    work = Work()
    errors = make_tree(read(written).json).check(data, most, work)
    return MOST_WORK - work.left, len(errors)


def nest(levels: int, inner: Any, name: str = "child") -> Any:
    for _ in range(levels):
        inner = {name: inner}
    return inner


# --- what was sent to make a site busy ----------------------------------------------------------------


@pytest.mark.parametrize("model", [Tagged, Unions])
def test_a_long_list_of_the_wrong_kind_below_a_choice_costs_its_first_few_errors(model: Any) -> None:
    data = {"tags": [1] * 249_990}
    assert len(json.dumps(data, separators=(",", ":"))) < LIMIT
    work, errors = count(model, data)
    assert errors == 1
    assert work < 5_000
    with pytest.raises(InvalidData) as caught:
        read(model).check(data)
    assert len(caught.value.errors) <= 25


RECURSIVE = {
    "$defs": {
        "leaf": {"properties": {"child": {"$ref": "#/$defs/tree"}, "size": {"type": "integer"}}, "type": "object"},
        "twig": {"properties": {"child": {"$ref": "#/$defs/tree"}, "name": {"type": "string"}}, "type": "object"},
        "tree": {"anyOf": [{"$ref": "#/$defs/leaf"}, {"$ref": "#/$defs/twig"}]},
    },
    "$ref": "#/$defs/tree",
}


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf"])
def test_each_level_below_a_recursive_choice_costs_the_same(keyword: str) -> None:
    schema = json.loads(json.dumps(RECURSIVE).replace("anyOf", keyword))
    wrong = {"size": "big", "name": 7}
    costs = [count(schema, nest(levels, wrong))[0] for levels in (10, 20, 30)]
    assert costs[2] - costs[1] == costs[1] - costs[0]
    assert costs[2] < 20_000


def test_a_choice_of_many_lists_within_lists_ends_too() -> None:
    schema = {"$defs": {"t": {"anyOf": [{"items": {"$ref": "#/$defs/t"}, "type": "array"}, {"type": "null"}]}}}
    schema |= {"$ref": "#/$defs/t"}
    data: Any = 1
    for _ in range(30):
        data = [data, data, 1]
    work, errors = count(schema, json.loads(json.dumps(nest(0, [[1] * 50] * 50))))
    assert errors == 1
    assert work < 50_000
    assert count(schema, data)[0] < 50_000


def test_a_form_that_a_constant_rules_out_is_not_looked_into() -> None:
    branch = {"type": "object", "properties": {"children": {"items": {"type": "integer"}}, "kind": {"const": "card"}}}
    cash = {"type": "object", "properties": {"kind": {"const": "cash"}}, "required": ["amount"]}
    work, errors = count({"anyOf": [branch, cash]}, {"children": [1] * 100_000, "kind": "cash"})
    assert errors == 1
    assert work < 100


def test_a_model_that_tries_every_form_of_each_choice_is_not_asked_about_what_doubles_with_each_level() -> None:
    assert read(Top).cast({"tree": nest(5, {"size": 1})}).tree.child is not None
    with pytest.raises(TooComplex):
        read(Top).check({"tree": nest(30, {"size": 1})})
    # Where it would be asked, the JSON Schema alone has an answer.
    assert count(Top, {"tree": nest(30, {"size": 1})})[0] < 5_000


def test_a_check_ends_when_it_has_done_the_most_that_one_may_cost() -> None:
    schema = {"items": {"allOf": [{"type": "integer"}] * 20}}
    with pytest.raises(TooComplex) as caught:
        read(schema).check([1] * 250_000)
    assert caught.value.errors == {"": ["takes too much work to be checked: send less at once, or a simpler form"]}


def test_a_schema_that_takes_anything_is_looked_at_for_a_price_too() -> None:
    with pytest.raises(TooComplex):
        count({"allOf": [{"items": True}] * 20}, [1] * 250_000)


def test_the_largest_answer_of_plain_items_is_checked() -> None:
    work, errors = count({"items": {"type": "integer"}}, [1] * 262_000)
    assert errors == 0
    assert work < MOST_WORK / 2


def test_ten_thousand_answers_at_once_are_checked() -> None:
    fields = {f"field{number}": {"type": "string", "maxLength": 10} for number in range(20)}
    schema = {"items": {"type": "object", "properties": fields, "required": list(fields)}}
    work, errors = count(schema, [dict.fromkeys(fields, "x") for _ in range(10_000)])
    assert errors == 0
    assert work <= MOST_WORK


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ({"uniqueItems": True}, [[n] for n in range(50_000)]),
        ({"propertyNames": {"pattern": "^(a+)+$"}}, {"a" * 50 + str(n): 1 for n in range(5_000)}),
        ({"patternProperties": {"^(a+)+$": {"type": "integer"}}}, {"a" * 50 + str(n): 1 for n in range(5_000)}),
        ({"contains": {"const": {"a": "x"}}}, [{"a": n} for n in range(30_000)]),
        ({"contains": {"type": "string"}, "minContains": 3}, list(range(100_000))),
        ({"dependentSchemas": {"a": {"minProperties": 9}, "b": {"required": ["c"]}}}, {"a": 1, "b": 2}),
        ({"if": {"items": {"type": "integer"}}, "then": {"maxItems": 1}, "else": False}, [1] * 60_000),
        ({"multipleOf": 0.01}, 10**4000 + 1),
        ({"multipleOf": 3}, 10**4000),
        ({"enum": [str(n) for n in range(3_000)]}, "none"),
        ({"items": {"enum": [str(n) for n in range(3_000)]}}, ["none"] * 90_000),
        ({"items": {"not": {"type": "integer"}}}, [1] * 90_000),
        ({"not": {"contains": {"type": "integer"}}}, ["a"] * 90_000 + [1]),
        ({"additionalProperties": False, "patternProperties": {"b$": {}}}, {f"k{n}": n for n in range(30_000)}),
        (
            {
                "$dynamicAnchor": "t",
                "properties": {"child": {"$dynamicRef": "#t"}, "size": {"type": "integer"}},
                "unevaluatedProperties": False,
            },
            nest(30, {"size": "x"}),
        ),
        (
            {"$defs": {"t": {"allOf": [{"properties": {"c": {"$ref": "#/$defs/t"}}}], "unevaluatedProperties": False}}}
            | {"$ref": "#/$defs/t"},
            nest(30, 1, "c"),
        ),
        (
            {"allOf": [{"properties": {"c": {"$ref": "#"}}}, {"properties": {"c": {"$ref": "#"}}}]},
            nest(30, {}, "c"),
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) and len(json.dumps(value)) < 400 else "data",
)
def test_no_keyword_makes_the_work_grow_faster_than_the_data(schema: Any, data: Any) -> None:
    try:
        work, _errors = count(schema, data)
    except OverflowError:  # told as too large to be checked
        work = 0
    assert work <= 40 * len(json.dumps(data)) + 50_000


def test_a_choice_among_thousands_costs_what_one_among_few_does() -> None:
    few, many = ({"items": {"enum": [str(n) for n in range(most)]}} for most in (3, 3_000))
    assert count(many, ["1"] * 90_000) == count(few, ["1"] * 90_000)


MANY = [f"name{n}" for n in range(1_000)]


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {name: {"type": "integer"} for name in MANY}},
        {"dependentRequired": {name: ["x"] for name in MANY}},
        {"dependentSchemas": {name: {"required": ["x"]} for name in MANY}},
        {"not": {"required": MANY}},
    ],
    ids=lambda schema: next(iter(schema)),
)
def test_a_schema_with_a_thousand_names_against_very_many_empty_objects_has_an_end(schema: Any) -> None:
    with pytest.raises(TooComplex):
        count({"items": {**schema, "type": "object"}}, [{} for _ in range(170_000)])


def test_the_deepest_data_is_checked_well_within_pythons_stack() -> None:
    wrong = {"size": "big", "name": 7}
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 700)
    try:
        assert count(RECURSIVE, nest(31, {"size": 1}))[1] == 0
        assert count(RECURSIVE, nest(31, wrong))[1] == 1
    finally:
        sys.setrecursionlimit(before)


# --- patterns -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "(x+x+)+y", r"^(\w+\s?)*$", "^(a?){60}a{60}$"])
def test_a_pattern_with_quantifiers_in_quantifiers_is_read_in_one_go(pattern: str) -> None:
    found = read_pattern(pattern)
    assert found.longest == UNBOUNDED
    assert not found.fits("a" * 100_000 + "!") or pattern == "(x+x+)+y"


@pytest.mark.parametrize(
    "pattern",
    [
        r"^(a+)+\1$",
        "^(?=x)(a+)+$",
        "^(?!x)(a|a)*$",
        "(?i)^(?!x)(ab|AB)*$",
        r"(?<!x)(\w+\s?)*$",
        "(?=a)(a?){60}a{60}",
    ],
)
def test_one_that_would_be_tried_without_end_is_refused_where_it_is_written(pattern: str) -> None:
    with pytest.raises(InvalidSchema, match="a quantifier within a quantifier"):
        read({"pattern": pattern})
    with pytest.raises(InvalidSchema, match="a quantifier within a quantifier"):
        read({"patternProperties": {pattern: {}}})


def test_one_that_a_row_still_has_is_tried_on_nothing_long() -> None:
    schema = load_schema({"pattern": r"^(a+)+\1$"}, None)
    assert schema is not None
    with pytest.raises(InvalidData, match="must have at most 0 characters"):
        schema.check("a" * 40 + "!")


@pytest.mark.parametrize("pattern", ["[^,]{1,5000},[^,]{1,5000}x", "(?:a|b|ab|ba){1,3000}x"])
def test_a_long_text_and_a_pattern_with_very_many_places_are_too_much(pattern: str) -> None:
    assert read_pattern(pattern).longest == UNBOUNDED
    with pytest.raises(TooComplex):
        read({"pattern": pattern}).check("a" * 500_000)
    with pytest.raises(TooComplex):
        read({"items": {"pattern": pattern}}).check(["a" * 5_000] * 100)


@pytest.mark.parametrize(
    ("pattern", "text", "times"),
    [
        ("^.{1,2000}$", "a" * 1_999, 260),
        (r"^[\w.+-]+@[\w-]+[.][\w.-]+$", "somebody@example.org", 22_000),
        ("^[A-Z]{2}-[0-9]{4,10}$", "AB-123456", 40_000),
        (r"\w{1,100}@\w{1,100}[.]", "a" * 100 + "@example.org", 1_000),
    ],
)
def test_many_texts_and_a_pattern_as_people_write_them_are_checked(pattern: str, text: str, times: int) -> None:
    work, errors = count({"items": {"pattern": pattern}}, [text] * times)
    assert errors == 0
    assert work < MOST_WORK / 3


@pytest.mark.parametrize(
    ("pattern", "text"),
    [(r"^\d+(?:,\d+)*\Z", "1,"), ("^[a-z0-9]+(?:-[a-z0-9]+)*$", "a-"), (r"^\d{1,3}(,\d{3})*(\.\d+)?$", ",111")],
)
def test_rounds_that_a_mark_tells_apart_are_tried_on_texts_of_some_length(pattern: str, text: str) -> None:
    class Marked(forms.Form):
        name = forms.RegexField(regex=pattern)

    longest = find_longest(pattern)
    assert read(Marked).describe()["properties"]["name"]["maxLength"] == longest >= 512
    assert not re.search(pattern, (text * longest)[: longest - 1] + "!")


@pytest.mark.parametrize(
    "pattern", [r"^(,\d+\d+)*$", "^(,.+)*$", "^(,[^;]+)*$", r"^(_\w+)*$", "^(-[!-/]+)*$", "^(-(?:a|ab)+)*$", "^(aa+)+$"]
)
def test_rounds_that_begin_with_what_may_stand_within_them_are_not(pattern: str) -> None:
    assert find_longest(pattern) < SHORTEST


def test_look_ahead_is_tried_on_texts_of_a_length_that_is_counted() -> None:
    password = read({"pattern": "(?=.*[A-Z])(?=.*[0-9]).{8,}"})
    password.check("Secret-1234")
    with pytest.raises(InvalidData, match="does not match the pattern"):
        password.check("secret-1234")
    longest = find_longest("(?=.*[A-Z])(?=.*[0-9]).{8,}")
    assert SHORTEST < longest < 10_000
    assert longest * longest <= MOST_TRIES
    with pytest.raises(InvalidData, match=f"must have at most {longest} characters"):
        password.check("a" * (longest + 1))


@pytest.mark.filterwarnings("ignore:Possible:FutureWarning")
@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        (r"^a\Z", "a", True),
        (r"\<b\>", "<b>", True),
        ("[[a]", "[", True),
        ("[a&&b]", "&", True),
        ("^a++a$", "aaa", False),
        ("a{", "a{", True),
        ("^a{,2}$", "aa", True),
        (r"(?x) ^a [ ] b$", "a b", True),
        (r"^\d{3}-\w+$", "123-ab", True),
        ("^$", "\n", False),
    ],
)
def test_a_pattern_means_what_it_means_in_python_but_that_an_end_is_the_end(
    pattern: str, text: str, fits: bool
) -> None:
    assert read_pattern(pattern).fits(text) is fits


def test_whether_a_text_is_a_regular_expression_is_not_tried() -> None:
    read({"format": "regex"}).check("(?i)" + "[\x02-\uffff]" * 1_000)
    read({"format": "regex"}).check("(")


class Backtracking(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(regex_engine="python-re")
    name: str = pydantic.Field(pattern="^(a+)+$")


class Bounded(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(regex_engine="python-re")
    name: str = pydantic.Field(pattern="(a+)b")


class Expression(forms.Form):
    name = forms.RegexField(regex="^(a+)+$")


class Mild(forms.Form):
    name = forms.RegexField(regex="(a+)b")
    slug = forms.SlugField()
    site = forms.URLField(assume_scheme="https")


class Validated(serializers.Serializer):
    name = serializers.CharField(validators=[RegexValidator("^(a+)+$")])


class Listed(serializers.Serializer):
    names = serializers.ListField(child=serializers.RegexField("^(a+)+$"))


@pytest.mark.parametrize("source", [Backtracking, Expression, Validated, Listed])
def test_a_class_whose_own_pattern_would_be_tried_without_end_is_refused(source: Any) -> None:
    with pytest.raises(InvalidSchema, match="a quantifier within a quantifier"):
        read(source)


@pytest.mark.parametrize("source", [Bounded, Mild])
def test_a_class_with_a_pattern_of_its_own_says_how_long_a_text_may_be(source: Any) -> None:
    schema = read(source)
    longest = schema.describe()["properties"]["name"]["maxLength"]
    assert longest == find_longest("(a+)b")
    with pytest.raises(InvalidData):
        schema.check({"name": "a" * (longest + 1), "slug": "a", "site": "https://example.com"})


# --- the verdict is that of the library ---------------------------------------------------------------

NAMES = st.sampled_from(["a", "b", "ab"])
PATTERNS = st.sampled_from(["^a", "b$", "^(a|b)+$", "(?!a)b", "[0-9]", "."])
PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.sampled_from([0.5, 1.0, -0.0, 2.5]), st.text("ab1", max_size=3)
)
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3), max_leaves=8
)
TYPES = st.sampled_from(["array", "boolean", "integer", "null", "number", "object", "string"])
DRAFTS = {
    "https://json-schema.org/draft/2020-12/schema": ("$defs", "$dynamicRef"),
    "https://json-schema.org/draft/2019-09/schema": ("$defs", "$recursiveRef"),
    "http://json-schema.org/draft-07/schema#": ("definitions", None),
    "http://json-schema.org/draft-04/schema#": ("definitions", None),
}


def extend(inner: st.SearchStrategy[Any], draft: str) -> st.SearchStrategy[Any]:
    some = st.lists(inner, min_size=1, max_size=3)
    named = st.dictionaries(NAMES, inner, max_size=3)
    size = st.integers(0, 3)
    words: dict[str, st.SearchStrategy[Any]] = {
        "type": TYPES | st.lists(TYPES, min_size=1, max_size=3, unique=True),
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "minimum": size, "maximum": size, "multipleOf": st.sampled_from([1, 2, 0.5, 1.5]),
        "minLength": size, "maxLength": size, "pattern": PATTERNS, "format": st.sampled_from(["date", "email", "uuid"]),
        "minItems": size, "maxItems": size, "uniqueItems": st.booleans(), "items": inner,
        "minProperties": size, "maxProperties": size, "required": st.lists(NAMES, min_size=1, max_size=2, unique=True),
        "properties": named, "patternProperties": st.dictionaries(PATTERNS, inner, max_size=2),
        "additionalProperties": inner, "allOf": some, "anyOf": some, "oneOf": some, "not": inner,
        "$ref": st.just(f"#/{DRAFTS[draft][0]}/x"),
    }  # fmt: skip
    if "draft-04" not in draft:
        words |= {"const": VALUES, "contains": inner, "propertyNames": inner, "exclusiveMinimum": size}
    if "draft-07" in draft:
        words |= {"if": inner, "then": inner, "else": inner, "dependencies": st.dictionaries(NAMES, inner, max_size=2)}
    if "20" in draft:
        words |= {"if": inner, "then": inner, "else": inner, "dependentSchemas": named, "minContains": size}
        words |= {"maxContains": size, "unevaluatedProperties": inner, "unevaluatedItems": st.just(False)}
        words |= {"dependentRequired": st.dictionaries(NAMES, st.lists(NAMES, max_size=2, unique=True), max_size=2)}
    if "2020" in draft:
        words["prefixItems"] = some
    else:
        words["items"] = inner | some
        words["additionalItems"] = inner
    return st.lists(st.sampled_from(sorted(words)), max_size=4, unique=True).flatmap(
        lambda names: st.fixed_dictionaries({name: words[name] for name in names})
    )


@st.composite
def schemas(draw: st.DrawFn) -> Any:
    draft = draw(st.sampled_from(sorted(DRAFTS)))
    base = st.just({}) if "draft-04" in draft else st.booleans() | st.just({})
    inner = st.recursive(base, lambda more: extend(more, draft), max_leaves=8)
    whole = draw(extend(inner, draft))
    return {**whole, "$schema": draft, DRAFTS[draft][0]: {"x": draw(st.sampled_from([{}, {"type": "string"}]))}}


@settings(max_examples=600)
@given(schemas(), VALUES)
def test_the_verdict_is_that_of_the_library(schema: Any, value: Any) -> None:
    plain = validator_for(schema)(schema, format_checker=jsonschema.FormatChecker(formats=["date", "email", "uuid"]))
    assert bool(make_tree(schema).check(value, 1)) == (not plain.is_valid(value))


@settings(max_examples=300)
@given(st.lists(VALUES, max_size=3), VALUES)
def test_the_verdict_on_a_schema_that_refers_to_itself_is_that_of_the_library(choices: list[Any], value: Any) -> None:
    for schema in (
        {**RECURSIVE, "unevaluatedProperties": False},
        {"$dynamicAnchor": "t", "anyOf": [{"items": {"$dynamicRef": "#t"}, "type": "array"}, {"enum": [1, *choices]}]},
        {
            "$schema": "https://json-schema.org/draft/2019-09/schema", "$recursiveAnchor": True,
            "additionalProperties": {"$recursiveRef": "#"}, "type": ["object", "integer"], "unevaluatedItems": False,
        },
        {
            "$schema": "http://json-schema.org/draft-03/schema#",
            "type": ["string", {"properties": {"a": {"type": "any", "required": True}, "b": {"$ref": "#"}}}],
            "disallow": [{"properties": {"ab": {"type": "null", "required": True}}, "type": "object"}],
            "extends": {"maxItems": 2},
        },
    ):  # fmt: skip
        plain = validator_for(schema)(schema)
        assert bool(make_tree(schema).check(value, 1)) == (not plain.is_valid(value)), schema


# --- events -------------------------------------------------------------------------------------------

checked: list[str] = []


class Counted(pydantic.BaseModel):
    name: str

    @pydantic.field_validator("name")
    @classmethod
    def count(cls, name: str) -> str:
        checked.append(name)
        return name


@durable(name="counts-checks")
def counts_checks(ctx: Any) -> Any:
    return ctx.wait_for_event("news", event="news", schema=Counted, timeout="1d") is not None


@pytest.mark.django_db
def test_an_event_is_checked_once_however_many_wait_for_it() -> None:
    start_many(counts_checks, [{}] * 50)
    drain()
    checked.clear()
    assert emit("news", {"name": "a"}) == 50
    assert checked == ["a"]
