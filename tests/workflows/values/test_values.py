"""Values on their way into the database and back: what changes on the way, and what is refused.

Whatever is refused is refused at the call, and nothing is stored.
"""

import datetime as dt
import enum
import json
import uuid
from collections import OrderedDict, namedtuple
from decimal import Decimal
from typing import Any

import pytest
from django.utils.functional import lazystr

import workflows
from tests.support.refused_values import REFUSED, check, nested
from workflows import (
    Await,
    Child,
    Done,
    InvalidCall,
    Next,
    NotSerializable,
    Retry,
    Spawn,
    TooLarge,
    Workflow,
    step,
)
from workflows.models import Instance, LedgerEvent, Signal
from workflows.testing import assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db

KIB = 1024
MIB = 1024 * KIB


def counts() -> list[int]:
    return [model.objects.count() for model in (Instance, Signal, LedgerEvent)]


class Echo(Workflow):
    """Hands its input back as result, through its state."""

    name = "ValueEcho"

    @step
    def a(self, ctx):
        return Next("b", {"first": ctx.input})

    @step
    def b(self, ctx):
        return Done([ctx.input, ctx.state["first"]])


class Listener(Workflow):
    name = "ValueListener"

    @step
    def ask(self, ctx):
        return Await("go", then="end")

    @step
    def end(self, ctx):
        return Done([s.payload for s in ctx.awaited])


# --- round trips ----------------------------------------------------------------------------------

Point = namedtuple("Point", "x y")


class Colour(enum.StrEnum):
    RED = "red"


class Size(enum.IntEnum):
    BIG = 3


ROUND_TRIPS = [
    pytest.param((1, (2, 3)), [1, [2, 3]], id="tuples become lists"),
    pytest.param(Point(1, 2), [1, 2], id="named tuples become lists"),
    pytest.param({1: "a", 2.5: "b", None: "d"}, {"1": "a", "2.5": "b", "null": "d"}, id="keys become text"),
    pytest.param({True: "a", False: "b"}, {"true": "a", "false": "b"}, id="true becomes a text key"),
    pytest.param(dt.datetime(2030, 1, 2, 3, 4, 5, tzinfo=dt.UTC), "2030-01-02T03:04:05Z", id="datetime"),
    pytest.param(dt.datetime(2030, 1, 2, 3, 4, 5), "2030-01-02T03:04:05", id="naive datetime"),
    pytest.param(dt.datetime(2030, 1, 2, 3, 4, 5, 6789, tzinfo=dt.UTC), "2030-01-02T03:04:05.006Z", id="microseconds"),
    pytest.param(dt.date(2030, 1, 2), "2030-01-02", id="date"),
    pytest.param(dt.time(3, 4), "03:04:00", id="time"),
    pytest.param(dt.timedelta(hours=1), "P0DT01H00M00S", id="timedelta"),
    pytest.param(Decimal("1.10"), "1.10", id="decimal"),
    pytest.param(uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001", id="uuid"),
    pytest.param(lazystr("later"), "later", id="lazy text"),
    pytest.param(Colour.RED, "red", id="text enum"),
    pytest.param(Size.BIG, 3, id="number enum"),
    pytest.param(OrderedDict(b=1, a=2), {"a": 2, "b": 1}, id="ordered dict"),
]


@pytest.mark.parametrize(("given", "back"), ROUND_TRIPS)
def test_an_author_gets_a_value_back_after_its_round_trip_also_in_the_first_run(given: Any, back: Any) -> None:
    instance = workflows.start(Echo, {"v": given})
    assert instance.input == {"v": back}
    drain()
    assert_done(instance, [{"v": back}, {"v": back}])


@pytest.mark.parametrize(("given", "back"), ROUND_TRIPS)
def test_a_payload_makes_the_round_trip(given: Any, back: Any) -> None:
    instance = workflows.start(Listener)
    drain()
    workflows.signal(instance, "go", given)
    drain()
    assert_done(instance, [back])


@pytest.mark.parametrize(("given", "back"), ROUND_TRIPS)
def test_state_and_result_make_the_round_trip(given: Any, back: Any) -> None:
    class ValueState(Workflow):
        @step
        def a(self, ctx):
            return Next("b", given)

        @step
        def b(self, ctx):
            assert ctx.state == back
            assert type(ctx.state) is type(back)
            return Done(given)

    instance = workflows.start(ValueState)
    drain()
    assert_done(instance, back)


@pytest.mark.parametrize(("given", "back"), ROUND_TRIPS)
def test_a_childs_input_and_result_make_the_round_trip(given: Any, back: Any) -> None:
    class ValueParent(Workflow):
        @step
        def a(self, ctx):
            return Spawn([Child(Echo, {"v": given})], then="b")

        @step
        def b(self, ctx):
            return Done(ctx.children[0].result)

    parent = workflows.start(ValueParent)
    drain()
    assert_done(parent, [{"v": back}, {"v": back}])


SAME = [
    None, True, False, 0, -1, 2**53 + 1, 10**30, 10**4299, -(10**4299), 0.1, 1e-300, 5e-324, 1e16,
    1e22, -0.5, "", " ", "x" * 10_000, "ünïcödé 🦊", "\\u0000", "\\\\u0000", "\x01\x1f\x7f", "\u2028", "\ufeff",
    "\uffff", "'\"\\%s{}$1", [], {}, [[]], {"": ""}, {"a": {"b": [1, None, {"c": False}]}},
]  # fmt: skip


@pytest.mark.parametrize("value", SAME, ids=lambda value: ascii(value)[:20] if not isinstance(value, int) else None)
def test_json_values_come_back_equal(value: Any) -> None:
    instance = workflows.start(Echo, {"v": value})
    drain()
    assert_done(instance, [{"v": value}, {"v": value}])
    assert workflows.result(instance) == [{"v": value}, {"v": value}]


@pytest.mark.parametrize("value", [1e23, 123456789012345678901234567890.0, 1.7976931348623157e308, -1e300, 3.0])
def test_a_large_float_comes_back_as_the_same_number(value: float) -> None:
    instance = workflows.start(Echo, {"v": value})
    drain()
    instance.refresh_from_db()
    assert [float(one["v"]) for one in instance.result] == [value, value]


def test_32_levels_are_not_too_deep() -> None:
    instance = workflows.start(Listener)
    drain()
    workflows.signal(instance, "go", nested(32))
    drain()
    assert instance.signals.get().payload == nested(32)


def test_many_brackets_side_by_side_are_not_deep() -> None:
    value = [[[]]] * 1000 + [{"{[": "[[[{{{" * 100}]
    instance = workflows.start(Echo, value)
    drain()
    assert_done(instance, [value, value])


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize(("value", "path", "told"), REFUSED)
def test_a_bad_input_is_refused_at_the_call_and_nothing_is_stored(value: Any, path: str, told: str) -> None:
    before = counts()
    with pytest.raises(NotSerializable, match="the input cannot be stored") as caught:
        workflows.start(Echo, value)
    check(caught, path, told)
    assert counts() == before


@pytest.mark.parametrize(("value", "path", "told"), REFUSED)
def test_one_bad_input_among_many_is_named_and_none_is_started(value: Any, path: str, told: str) -> None:
    before = counts()
    with pytest.raises(NotSerializable, match="input 1 cannot be stored") as caught:
        workflows.start_many(Echo, [{"fine": 1}, value, {"fine": 2}])
    check(caught, path, told)
    assert counts() == before


@pytest.mark.parametrize(("value", "path", "told"), REFUSED)
def test_a_bad_payload_is_refused_at_the_call_and_nothing_is_stored(value: Any, path: str, told: str) -> None:
    instance = workflows.start(Listener)
    drain()
    before = counts()
    with pytest.raises(NotSerializable, match="payload of signal 'go'") as caught:
        workflows.signal(instance, "go", value)
    check(caught, path, told)
    with pytest.raises(NotSerializable, match="payload of signal 'go'"):
        workflows.signal_many([(instance, "go", 1), (instance, "go", value)])
    assert counts() == before


@pytest.mark.parametrize(("value", "path", "told"), REFUSED)
@pytest.mark.parametrize(
    ("what", "make"),
    [
        ("the state", lambda value: Next("a", value)),
        ("the state", lambda value: Await("x", then="a", state=value)),
        ("the state", lambda value: Retry(value)),
        ("the state", lambda value: Spawn([Child(Echo)], then="a", state=value)),
        ("the result", Done),
        ("the input of child 'ValueEcho'", lambda value: Spawn([Child(Echo), Child(Echo, value)], then="a")),
    ],
    ids=["Next", "Await", "Retry", "Spawn", "Done", "Child"],
)
def test_a_bad_state_result_or_childs_input_is_an_error_at_once_and_nothing_of_it_is_stored(
    what: str, make: Any, value: Any, path: str, told: str
) -> None:
    class ValueBadOutcome(Workflow):
        errors: list[Exception] = []

        @step
        def a(self, ctx):
            return make(value)

        def handle(self, error, ctx):
            ValueBadOutcome.errors.append(error)
            return super().handle(error, ctx)

    instance = workflows.start(ValueBadOutcome)
    assert drain() == {"stop": 1}
    [error] = ValueBadOutcome.errors
    assert isinstance(error, NotSerializable)
    assert error.what == what
    assert path is None or error.path == path
    failed = assert_failed(instance, "cannot be stored")
    assert told in failed.error
    assert (failed.state, failed.result) == ({}, None)
    assert counts() == [1, 0, 2]


# --- sizes ------------------------------------------------------------------------------------------


def text_of(size: int) -> str:
    """Text that is exactly `size` bytes of JSON, with its quotes."""
    return "x" * (size - 2)


def test_a_payload_may_have_512_kib_and_not_a_byte_more() -> None:
    instance = workflows.start(Listener)
    drain()
    before = counts()
    with pytest.raises(TooLarge, match="524289 bytes as JSON, the limit is 524288"):
        workflows.signal(instance, "go", text_of(512 * KIB + 1))
    with pytest.raises(TooLarge):
        workflows.signal_many([(instance, "go", 1), (instance, "go", text_of(512 * KIB + 1))])
    assert counts() == before
    assert workflows.signal(instance, "go", text_of(512 * KIB)).woke


def test_an_input_may_have_1_mib_and_not_a_byte_more() -> None:
    before = counts()
    with pytest.raises(TooLarge, match="the limit is 1048576"):
        workflows.start(Echo, text_of(MIB + 1))
    with pytest.raises(TooLarge, match="input 1"):
        workflows.start_many(Echo, [{}, text_of(MIB + 1)])
    assert counts() == before
    workflows.start(Echo, text_of(MIB))


@pytest.mark.parametrize(
    ("what", "make"),
    [("the state", lambda value: Next("end", value)), ("the result", lambda value: Done(value))],
)
def test_state_and_result_may_have_1_mib_each_and_not_a_byte_more(what: str, make: Any) -> None:
    class ValueSizes(Workflow):
        @step
        def a(self, ctx):
            return make(text_of(MIB + ctx.input["more"]))

        @step
        def end(self, ctx):
            return Done(len(ctx.state))

    fits, too_large = workflows.start_many(ValueSizes, [{"more": 0}, {"more": 1}])
    drain()
    assert_done(fits)
    error = assert_failed(too_large).error
    assert error.startswith(f"TooLarge: {what} is 1048577 bytes as JSON, the limit is 1048576")


def test_numbers_are_measured_as_they_are_stored_and_read_back() -> None:
    """jsonb writes 1e300 out, with 301 digits: what fits today must fit after a round trip too."""

    class ValueNumbers(Workflow):
        @step
        def a(self, ctx):
            return Next("b", [1e300] * ctx.input)

        @step
        def b(self, ctx):
            ctx.state.append(1)  # so that it is written again
            return Next("c")

        @step
        def c(self, ctx):
            return Done(len(ctx.state))

    fits, too_many = workflows.start(ValueNumbers, 3_000), workflows.start(ValueNumbers, 5_000)
    drain()
    assert_done(fits, 3_001)
    failed = assert_failed(too_many, "TooLarge: the state is")
    assert failed.step == "a"  # at once, and not in whatever step touches it next
    before = counts()
    with pytest.raises(TooLarge):
        workflows.signal(workflows.start(Listener), "go", [1e308] * 65_000)
    assert counts()[1] == before[1]


def test_sizes_are_bytes_and_not_characters() -> None:
    with pytest.raises(TooLarge):
        workflows.start(Echo, "é" * (MIB // 2))


# --- texts ------------------------------------------------------------------------------------------

BAD_TEXT = ["", "   ", "a\0b", "\ud800", "\udc80x", "x" * 201, 5, b"k", ["k"], {"k": 1}, object(), 10**5000]
TEXT_IDS = [
    "empty",
    "blank",
    "NUL",
    "surrogate",
    "surrogate 2",
    "long",
    "int",
    "bytes",
    "list",
    "dict",
    "object",
    "huge",
]


def refused(call: Any) -> None:
    before = counts()
    with pytest.raises(InvalidCall) as caught:
        call()
    assert len(str(caught.value)) < 500
    str(caught.value).encode()
    assert counts() == before


@pytest.mark.parametrize("key", BAD_TEXT, ids=TEXT_IDS)
def test_a_bad_key_is_refused_and_nothing_is_stored(key: Any) -> None:
    refused(lambda: workflows.start(Echo, key=key))
    refused(lambda: workflows.start_many(Echo, [{}, {}], keys=["fine", key]))


@pytest.mark.parametrize("name", [*BAD_TEXT, None], ids=[*TEXT_IDS, "None"])
def test_a_bad_signal_name_is_refused_and_nothing_is_stored(name: Any) -> None:
    instance = workflows.start(Listener)
    refused(lambda: workflows.signal(instance, name))
    refused(lambda: workflows.signal_many([(instance, "go"), (instance, name)]))


@pytest.mark.parametrize("dedup_key", BAD_TEXT, ids=TEXT_IDS)
def test_a_bad_dedup_key_is_refused_and_nothing_is_stored(dedup_key: Any) -> None:
    instance = workflows.start(Listener)
    refused(lambda: workflows.signal(instance, "go", dedup_key=dedup_key))
    refused(lambda: workflows.signal_many([(instance, "go"), (instance, "go", 1, dedup_key)]))


@pytest.mark.parametrize("key", ["", "  ", "a\0b", "\ud800", "x" * 201])
def test_a_bad_correlation_key_is_refused_and_nothing_is_stored(key: str) -> None:
    refused(lambda: workflows.signal(key, "go"))
    refused(lambda: workflows.signal_many([(key, "go")]))
    refused(lambda: workflows.cancel(key))


@pytest.mark.parametrize("reason", ["  ", "a\0b", "\ud800", "x" * 10_001, 5, None, b"r"])
def test_a_bad_reason_is_refused_and_nothing_is_cancelled(reason: Any) -> None:
    instance = workflows.start(Listener)
    refused(lambda: workflows.cancel(instance, reason))
    instance.refresh_from_db()
    assert not instance.ended


@pytest.mark.parametrize("actor", ["a\0b", "\ud800", "x" * 256, 5, b"a", object()])
def test_a_bad_actor_is_refused_and_nothing_is_stored(actor: Any) -> None:
    instance = workflows.start(Listener)
    refused(lambda: workflows.start(Echo, actor=actor))
    refused(lambda: workflows.start_many(Echo, [{}], actor=actor))
    refused(lambda: workflows.signal(instance, "go", actor=actor))
    refused(lambda: workflows.signal_many([(instance, "go")], actor=actor))
    refused(lambda: workflows.cancel(instance, actor=actor))
    refused(lambda: workflows.retry(instance, actor=actor))


@pytest.mark.parametrize("slug", ["", "a\0b", "\ud800", "x" * 201, 5])
def test_a_bad_workspace_slug_is_refused_and_nothing_is_stored(slug: Any) -> None:
    instance = workflows.start(Listener)
    refused(lambda: workflows.start(Echo, workspace=slug))
    refused(lambda: workflows.signal("key", "go", workspace=slug))
    refused(lambda: workflows.signal(instance, "go", workspace=slug))


@pytest.mark.parametrize("name", [None, "Nobody\0", "\ud800", "x" * 100_000, b"ValueEcho"])
def test_a_bad_workflow_name_is_refused_and_nothing_is_stored(name: Any) -> None:
    before = counts()
    with pytest.raises(workflows.UnknownWorkflow):
        workflows.start(name)
    assert counts() == before


UGLY = ["x" * 200, "ünï 🦊", "'; DROP TABLE holdpoint_instance; --", "%s %(x)s {0}", "\\", '"', "a\nb", "\x01", " a "]


@pytest.mark.parametrize("text", UGLY, ids=lambda value: ascii(value)[:10])
def test_any_other_text_is_a_fine_key_name_and_dedup_key(text: str) -> None:
    class ValueUgly(Workflow):
        @step
        def ask(self, ctx):
            return Await(text, then="end")

        @step
        def end(self, ctx):
            return Done([ctx.key, ctx.awaited[0].name])

    instance = workflows.start(ValueUgly, key=text, actor=text)
    assert instance.started_by == text
    drain()
    assert workflows.signal(text, text, dedup_key=text).woke
    assert workflows.signal(text, text, dedup_key=text).duplicate
    drain()
    assert_done(instance, [text, text])


def test_one_bad_value_never_fails_its_batch() -> None:
    class ValueBatch(Workflow):
        @step
        def a(self, ctx):
            return Done({"\0": 1} if ctx.input["bad"] else "fine")

    good, bad, other = workflows.start_many(ValueBatch, [{"bad": n == 1} for n in range(3)])
    assert drain() == {"done": 2, "stop": 1}
    assert_done(good, "fine")
    assert_failed(bad, "NUL")
    assert_done(other, "fine")


def test_a_value_that_was_stored_is_plain_json() -> None:
    instance = workflows.start(Echo, {"v": (1, Decimal("2.5"))})
    instance.refresh_from_db()
    assert json.loads(json.dumps(instance.input)) == {"v": [1, "2.5"]}
