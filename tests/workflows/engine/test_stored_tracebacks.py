"""The traceback that a failed run leaves on its instance: the author's lines, and none of the secrets that show up."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db import connections
from django.views.decorators.debug import sensitive_variables

import workflows
from tests.support.api_calls import Api, make_key
from workflows import Await, Done, Next, Retry, SignalTimeoutError, Stop, Workflow, durable, step
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


def test_keys_with_the_scope_operate_see_it_and_keys_that_only_read_do_not():
    instance = run(lambda ctx: charge(), max_attempts=1)
    path = f"/v1/instances/{instance.pk}"
    assert Api(make_key("read", "operate")).get(path).json()["traceback"] == instance.traceback
    assert Api(make_key("read")).get(path).json()["traceback"] is None
    listed = Api(make_key("read", "operate")).get("/v1/instances").json()["results"]
    assert [one["traceback"] for one in listed] == [None]


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
