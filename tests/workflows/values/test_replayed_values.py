"""What is stored and handed back: the same value in the first run and in every replay, the order of keys included."""

import contextlib
import json

import pytest
from django.db import connection
from hypothesis import given, settings
from hypothesis import strategies as st

import workflows
from workflows import Await, Done, Next, Workflow, durable, step
from workflows.models import Instance
from workflows.testing import advance, assert_done, drain
from workflows.values.json_text import dump_value, read_back

pytestmark = pytest.mark.django_db

#: NUL and lone surrogates are refused where they are written.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=12)
NUMBERS = (
    st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([-0.0, 0.0, 1e16, -1.5e16, 1e300, 5e-324, 1e-7, 123456789.125, 10**40, -(10**40)])
)
KEYS = TEXTS | st.sampled_from(["fig", "banana", "é", "zz", "日", "ab", "-0.0", "1e+16", ""])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6),
    max_leaves=12,
)


def exact(value):
    """A text that differs wherever two values do: by order of keys, by type, by the sign of zero."""
    return json.dumps(value)


@settings(max_examples=200)
@given(VALUES | st.dictionaries(st.integers() | st.floats(allow_nan=False, allow_infinity=False), NUMBERS, max_size=4))
def check_that_reading_back_is_what_the_database_does(value):
    text = dump_value(value, "a value")
    with connection.cursor() as cursor:
        cursor.execute("SELECT %s::jsonb::text", [text])
        assert exact(read_back(text)) == exact(json.loads(cursor.fetchone()[0]))


def test_a_value_is_read_back_as_the_database_has_it():
    check_that_reading_back_is_what_the_database_does()


class Carried(Exception):
    """Carries a value, as an author's exception may."""


@settings(max_examples=60)
@given(VALUES)
def check_that_every_run_of_a_function_has_the_same_values(value):
    runs = []

    def fail():
        error = Carried("no", value)
        error.more = value
        raise error

    def body(ctx, given):
        seen = [given, ctx.input, ctx.step("step", lambda: value), ctx.atomic("atomic", lambda: value)]
        try:
            ctx.step("failing", fail)
        except Carried as error:
            seen += [*error.args, error.more]
        with contextlib.suppress(KeyError):
            seen.append(ctx.invoke("child", "values.child", {"given": value}))
        runs.append([exact(one) for one in seen])
        ctx.sleep("pause", "1m")
        return value

    durable(name="values.function")(body)
    instance = workflows.start("values.function", {"given": value})
    drain()
    advance("1m")
    assert_done(instance)
    assert len(runs) >= 2
    assert all(run == runs[0] for run in runs)
    stored = Instance.objects.get(pk=instance.pk)
    assert exact(instance.input) == exact(stored.input)
    assert exact(stored.result) == exact(read_back(dump_value(value, "a value")))


@durable(name="values.child")
def child(ctx, given):
    return given


def test_every_run_of_a_function_has_the_same_values():
    check_that_every_run_of_a_function_has_the_same_values()


@settings(max_examples=30)
@given(VALUES)
def check_that_a_step_has_the_same_values_as_the_one_before(value):
    seen = []

    class Values(Workflow):
        @step
        def first(self, ctx):
            seen.append(exact(ctx.input["given"]))
            return Next("second", {"given": value})

        @step
        def second(self, ctx):
            seen.append(exact(ctx.state["given"]))
            return Await("paid", then="third")

        @step
        def third(self, ctx):
            seen.extend([exact(ctx.state["given"]), exact(ctx.awaited[0].payload)])
            return Done(value)

    instance = workflows.start(Values, {"given": value})
    seen.append(exact(instance.input["given"]))
    drain()
    workflows.signal(instance, "paid", value)
    drain()
    assert_done(instance)
    assert set(seen) == {exact(workflows.result(instance))}


def test_every_step_has_the_same_values():
    check_that_a_step_has_the_same_values_as_the_one_before()


def test_a_function_that_goes_through_a_dict_makes_the_same_calls_in_every_run():
    @durable(name="values.loop")
    def body(ctx):
        bought = [
            ctx.step(f"buy {name}", lambda name=name: name)
            for name in ctx.step("prices", lambda: {"banana": 2, "fig": 1})
        ]
        ctx.sleep("pause", "1m")
        return bought

    instance = workflows.start(body)
    drain()
    advance("1m")
    assert_done(instance, ["fig", "banana"])


def test_a_function_that_takes_the_first_of_a_dict_takes_the_same_in_every_run():
    @durable(name="values.first")
    def body(ctx):
        best = next(iter(ctx.step("rank", lambda: {"stripe": 0.9, "adyen": 0.8})))
        charged = ctx.step("charge", lambda: f"charged by {best}")
        ctx.sleep("pause", "1m")
        return {"charged": charged, "refunded": ctx.step("refund", lambda: f"refunded by {best}")}

    instance = workflows.start(body)
    drain()
    advance("1m")
    assert_done(instance, {"charged": "charged by adyen", "refunded": "refunded by adyen"})


def test_a_started_instance_shows_its_input_as_its_row_has_it():
    instance = workflows.start("values.child", {"given": {"banana": -0.0, "fig": 1e16}})
    assert exact(instance.input) == exact(Instance.objects.get(pk=instance.pk).input)
    assert exact(instance.input["given"]) == '{"fig": 10000000000000000, "banana": 0.0}'
