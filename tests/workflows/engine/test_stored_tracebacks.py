"""The traceback that a failed run leaves on its instance: the author's lines, and none of the secrets that show up."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from django.db import connections
from django.utils.functional import SimpleLazyObject
from django.views.decorators.debug import sensitive_variables

import workflows
from tests.support.api_calls import Api, make_key
from workflows import Await, Done, Next, Retry, SignalTimeoutError, Stop, Workflow, durable, step
from workflows.engine.author_traceback import LEFT_OUT, write_traceback
from workflows.ledger.redaction import redact
from workflows.models import Instance, LedgerEvent
from workflows.testing import advance, drain

pytestmark = pytest.mark.django_db

ENGINE = Path(workflows.__file__).parent


def run(body, name="tracebacks", **options) -> Instance:
    """A function with this body, until its first failure."""
    instance = workflows.start(durable(name=name, **options)(body), {})
    drain()
    instance.refresh_from_db()
    return instance


def charge(card="4111"):
    raise ValueError(f"declined {card}")


def test_the_last_failed_run_keeps_the_authors_part_of_its_traceback():
    instance = run(lambda ctx: ctx.step("charge", charge), max_attempts=1)
    lines = instance.traceback.splitlines()
    assert lines[-1] == "ValueError: declined 4111"
    assert "in charge" in lines[-3]
    assert lines[-2].strip() == 'raise ValueError(f"declined {card}")'
    assert str(ENGINE) not in instance.traceback
    assert (instance.status, instance.failed_call) == ("failed", "charge")


def test_a_run_that_will_be_tried_again_keeps_it_too_and_committed_progress_clears_it():
    fails = [True]

    def sometimes(ctx):
        if fails:
            charge()
        return ctx.wait_for_signal("gate", timeout="1d")

    instance = run(sometimes)
    assert (instance.status, instance.traceback.count("declined")) == ("sleeping", 2)
    fails.clear()
    advance("1h")
    instance.refresh_from_db()
    assert (instance.status, instance.traceback, instance.error) == ("awaiting", None, None)


def test_a_retry_clears_it():
    instance = run(lambda ctx: charge(), max_attempts=1)
    again = workflows.retry(instance)
    assert (again.status, again.traceback, again.failed_call) == ("runnable", None, None)


def test_a_stop_that_the_author_wants_has_none_also_after_a_failure():
    runs = []

    def stops(ctx):
        runs.append(1)
        if len(runs) == 1:
            charge()
        raise SignalTimeoutError("gate")

    class Stops(Workflow):
        name = "tracebacks.stops"

        @step
        def begin(self, ctx):
            return Stop("no stock")

    instance = run(stops)
    advance("1h")
    instance.refresh_from_db()
    assert "SignalTimeoutError" in instance.traceback
    assert "declined" not in instance.traceback
    other = workflows.start(Stops)
    drain()
    other.refresh_from_db()
    assert (other.status, other.traceback) == ("failed", None)


def test_a_step_whose_handle_goes_on_leaves_none():
    class Handles(Workflow):
        name = "tracebacks.handles"

        @step
        def begin(self, ctx):
            return Next("charge")

        @step
        def charge(self, ctx):
            charge()

        def handle(self, error, ctx):
            return Retry(delay=0) if ctx.attempt == 0 else Await("word", then="begin")

    instance = workflows.start(Handles)
    drain()
    instance.refresh_from_db()
    assert (instance.status, instance.traceback) == ("awaiting", None)


def test_an_instance_that_never_failed_pays_nothing(django_assert_num_queries):
    class Works(Workflow):
        name = "tracebacks.works"

        @step
        def begin(self, ctx):
            return Done()

    from tests.support.races import play, settle, take_one

    workflows.start(Works)
    result = play(take_one())
    with django_assert_num_queries(1):
        settle(result)


def test_what_djangos_reports_hide_is_hidden_wherever_it_shows_up(settings):
    settings.SHOP_API_KEY = "sk_live_1234"

    @sensitive_variables("card")
    def pay(card, note):
        credentials = {"password": "hunter22", "user": "ann"}
        raise ValueError(
            f"card {card} of {credentials['user']}, {note}, {credentials['password']}, {settings.SHOP_API_KEY}, "
            "postgres://ann:letmein@db/shop, token=abc123 Authorization: Bearer xyz789"
        )

    instance = run(lambda ctx: pay("4111222233334444", "a note"), max_attempts=1)
    for secret in ("4111222233334444", "hunter22", "sk_live_1234", "letmein", "abc123", "xyz789"):
        assert secret not in instance.traceback
    assert "of ann, ********************" in instance.traceback


def test_it_has_16_kib_at_most_and_stays_in_its_lines():
    def fail(ctx):
        raise ValueError("ä" * 50_000 + "\nFile evil\0\x1b")

    instance = run(fail, max_attempts=1)
    assert 3_000 < len(instance.traceback.encode()) <= 16 * 1024
    assert instance.traceback.count("\n") == 2

    def nested(depth):
        try:
            raise ValueError("x" * 3_999)
        except ValueError:
            if depth:
                nested(depth - 1)
            raise LookupError("y" * 3_999) from None

    long = run(lambda ctx: nested(60), name="tracebacks.long", max_attempts=1)
    assert len(long.traceback.encode()) <= 16 * 1024


@pytest.mark.parametrize("scopes", [("read",), ("read", "start", "signal", "complete"), ("read", "operate")])
def test_keys_with_the_scope_operate_see_it_and_others_do_not(scopes):
    instance = run(lambda ctx: charge(), max_attempts=1)
    path, api = f"/v1/instances/{instance.pk}", Api(make_key(*scopes))
    seen = instance.traceback if "operate" in scopes else None
    for way in (path, f"{path}?wait=0", f"{path}?wait=1"):  # it has ended: the long poll answers at once
        assert api.get(way).json()["traceback"] == seen
    answer = api.get("/v1/instances?workflow=tracebacks")
    assert ([one["traceback"] for one in answer.json()["results"]], "in charge" in answer.text) == ([None], False)
    assert ("in charge" in api.get(f"{path}/events").text) is False


def test_a_start_that_is_repeated_tells_it_to_nobody_who_does_not_operate():
    api = Api(make_key("start", "read"))
    durable(name="tracebacks.started", max_attempts=1)(lambda ctx: charge())
    body = {"workflow": "tracebacks.started", "input": {}}
    first = api.post("/v1/instances", body, {"Idempotency-Key": "once"})
    drain()
    again = api.post("/v1/instances", body, {"Idempotency-Key": "once"})
    assert (first.json()["id"], again.json()["traceback"]) == (again.json()["id"], None)


def test_a_failure_whose_ledger_row_is_redacted_has_no_traceback_any_more():
    instance = run(lambda ctx: charge(), max_attempts=1)
    rows = LedgerEvent.objects.filter(instance=instance)
    redact(connections["default"], instance.pk, rows.get(kind="failed").seq, actor="ann", reason="a card number")
    instance.refresh_from_db()
    assert instance.traceback is None


def test_a_function_can_be_forked_at_the_call_that_failed():
    works = []

    def risky():
        return "well" if works else charge()

    def body(ctx):
        first = ctx.step("first", works.copy)
        return [first, ctx.step("charge", risky)]

    instance = run(body, max_attempts=1)
    works.append(1)
    forked = workflows.fork(instance, at="charge")
    drain()
    forked.refresh_from_db()
    assert (forked.status, forked.result) == ("done", [[], "well"])


@pytest.mark.parametrize(
    "message",
    [
        "password=hunter22",
        "Authorization: Bearer hunter22",
        "Authorization: Token hunter22",
        "401 for url: https://pay.example/v1?api_key=hunter22",
        "x" * 3_990 + " token=hunter22" + "2" * 500,
    ],
)
def test_what_stands_beside_a_hidden_name_is_hidden_after_any_other_name(message):
    def refuse(ctx):
        raise ValueError(message)

    instance = run(refuse, max_attempts=1)
    assert "ValueError: " in instance.traceback
    assert "hunter" not in instance.traceback


def test_what_a_stranger_writes_costs_as_much_as_any_other_text_of_its_length():
    """Also where it is full of hidden names that nothing is assigned to."""

    def measure(message):
        spent = []
        for _ in range(3):
            try:
                raise ValueError(message)
            except ValueError as error:
                began = time.process_time()
                write_traceback(error)
                spent.append(time.process_time() - began)
        return min(spent)

    plain = measure("words " * 2_700)
    assert all(measure(part * (16_200 // len(part))) < 20 * plain for part in ("KEY", "api_key", "TOKEN-"))


# --- what the author's variables hold -------------------------------------------------------------------

#: The one frame of the next tests, with a secret in its message.
MESSAGE = "declined with hunter22"


def fail_holding(name: str, held: object) -> Instance:
    def refuse(ctx):
        password = MESSAGE[-8:]
        rows = held
        raise ValueError(f"{MESSAGE[:-8]}{password}") if rows is not None else LookupError(rows)

    return run(refuse, name=f"tracebacks.{name}", max_attempts=1)


def nest(depth: int) -> list[object]:
    nested: list[object] = []
    for _ in range(depth):
        nested = [nested]
    return nested


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("list", lambda: [0] * 1_000_000),
        ("dict", lambda: dict.fromkeys(range(1_000_000))),
        ("deep", lambda: nest(100_000)),
        ("wide", lambda: [[0] * 200 for _ in range(1_000)]),
        ("names", lambda: {f"{n:01000}": 1 for n in range(1_000)}),
        ("secrets", lambda: {"tokens": [f"token {n}" for n in range(10_000)]}),
    ],
)
def test_what_cannot_be_looked_through_leaves_the_places_and_no_text(name, make):
    instance = fail_holding(name, make())
    assert instance.status == "failed"
    *places, last = instance.traceback.split("\n")
    assert last == f"ValueError: {LEFT_OUT}"
    assert all(one.startswith("  File ") for one in places)
    assert places[-1].endswith("in refuse")


def test_what_a_budget_suffices_for_is_looked_through_however_deep_it_is_and_if_it_contains_itself():
    nested = nest(10_000)
    nested.append(nested)
    inner: dict[str, object] = {"rows": [({"api_key": "sk_live_1234"},)]}
    inner["self"] = inner

    def refuse(ctx):
        rows = [nested, inner]
        raise ValueError(f"{len(rows)} rows, sk_live_1234")

    instance = run(refuse, name="tracebacks.cycle", max_attempts=1)
    assert instance.traceback.endswith("ValueError: 2 rows, ********************")


def test_no_code_of_the_authors_values_is_run_and_nothing_is_asked_of_the_database(django_assert_num_queries):
    called: list[str] = []

    def note(*args: object, **kwargs: object) -> Any:
        called.append("called")
        raise RuntimeError("not to be called")

    hostile = ("__repr__", "__str__", "__getattr__", "__getattribute__", "__eq__", "__hash__", "__len__", "__bool__")
    hostile += ("__iter__", "__class__", "__format__", "__instancecheck__", "__getitem__", "__contains__", "decode")
    members: dict[str, Any] = {**dict.fromkeys(hostile, note), "__class__": property(note), "items": note}
    kinds = {base.__name__: type(f"Hostile{base.__name__}", (base,), members) for base in (object, str, dict, list)}
    password = [kind.__new__(kind) for kind in kinds.values()]
    error = ValueError("declined")
    try:
        rows = Instance.objects.all()
        user = SimpleLazyObject(note)
        generator = (called.append("begun") for _ in range(3))
        token = (b"\xff secret bytes", bytearray(b"x"), memoryview(b"x"), 1.5, object(), rows, user, generator)
        raise error
    except ValueError:
        with django_assert_num_queries(0):
            text = write_traceback(error)
    assert text.endswith("ValueError: declined")
    assert called == []
    assert len(password) + len(token) == 12


def test_no_code_of_the_authors_values_is_run_either_where_djangos_decorator_is_used():
    called: list[str] = []

    class Hostile:
        def __eq__(self, other: object) -> bool:
            called.append("compared")
            return True

        __hash__ = None

        @property
        def __class__(self) -> Any:
            called.append("asked")
            raise RuntimeError

    @sensitive_variables("card")
    def pay(card: str, thing: object) -> None:
        raise ValueError(f"declined {card}")

    try:
        pay("4111222233334444", Hostile())
    except ValueError as error:
        text = write_traceback(error)
    assert text.endswith("ValueError: declined ********************")
    assert called == []


def test_a_function_that_called_itself_too_often_is_told_soon():
    def dive(token: str, n: int = 0) -> None:
        dive(token, n + 1)

    @sensitive_variables("card")
    def pay(card: str) -> None:
        dive(card)

    first = run(lambda ctx: dive("hunter22"), name="tracebacks.dive", max_attempts=1)
    assert "RecursionError: maximum recursion depth exceeded" in first.traceback
    second = run(lambda ctx: pay("hunter22"), name="tracebacks.decorated", max_attempts=1)
    assert f"RecursionError: {LEFT_OUT}" in second.traceback


@pytest.mark.parametrize("length", [5_000, 20_000, 1_000_000])
@pytest.mark.parametrize("times", [1, 20])
def test_of_a_long_secret_nothing_is_told_however_often_it_is_said(length, times):
    def refuse(ctx):
        token = ("0123456789abcdef" * (length // 16 + 1))[:length]
        raise ValueError("declined " + token * times)

    instance = run(refuse, name="tracebacks.long-secret", max_attempts=1)
    assert "ValueError: declined ****" in instance.traceback
    assert "0123" not in instance.traceback.rpartition("ValueError")[2]


def test_of_a_secret_that_is_cut_off_no_beginning_is_told():
    def refuse(ctx):
        token = "0123456789abcdef" * 60
        raise ValueError("declined " + token * 100)

    instance = run(refuse, name="tracebacks.cut-off", max_attempts=1)
    assert "0123" not in instance.traceback.rpartition("ValueError")[2]


def test_what_errors_before_an_interruption_say_is_not_asked_for_again():
    class Endless(Exception):
        def __str__(self) -> str:
            raise KeyboardInterrupt("it would never end")

    class Interrupted(BaseException):
        pass

    try:
        try:
            raise Endless
        except Endless:
            raise Interrupted("took too long")  # noqa: B904
    except BaseException as error:
        text = write_traceback(error)
    assert "Interrupted: took too long\ncaused by Endless (File" in text
