"""Deadlines of a wait: armed with the park, a wake and not a failure, never after an answer."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connections, transaction

import workflows
from tests.support.races import play, settle, take_one
from workflows import Await, Done, Next, Retry, Stop, Workflow, step, store
from workflows.exceptions import InvalidDuration
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db


class Patient(Workflow):
    """Waits for "a" and "b" with the timeout in its input; tells what woke it."""

    name = "timeouts.patient"

    @step
    def ask(self, ctx):
        return Await(["a", "b"], then="tell", timeout=ctx.input["timeout"])

    @step
    def tell(self, ctx):
        return Done([ctx.timed_out, [signal.name for signal in ctx.awaited], ctx.attempt])


class Both(Workflow):
    """Re-awaits until it has both names, giving up at the first time-out."""

    name = "timeouts.both"

    @step
    def ask(self, ctx):
        if {signal.name for signal in ctx.awaited} >= {"a", "b"}:
            return Done("both")
        if ctx.timed_out:
            return Stop(f"timed out with {len(ctx.awaited)}")
        return Await(["a", "b"], then="ask", timeout="1h")


def parked(timeout="1h", workflow=Patient, **options):
    instance = workflows.start(workflow, {"timeout": timeout}, **options)
    drain()
    return assert_awaiting(instance, "a", "b")


def overdue(workflow=Patient):
    """A parked instance whose deadline is over, and no sweep has come yet."""
    instance = workflows.start(workflow, {"timeout": timedelta(microseconds=1)})
    assert settle(play(take_one()))
    return assert_awaiting(instance, "a", "b")


def expire() -> int:
    return store.expire_due(connections["default"])


# The deadline


def test_a_deadline_is_armed_with_the_park():
    instance = workflows.start(Patient, {"timeout": "1h"})
    advance("5m")
    drain()
    instance = assert_awaiting(instance, "a", "b")
    last = instance.events.last()
    assert (last.kind, last.due_at) == ("parked", instance.due_at)
    assert instance.due_at == last.at + timedelta(hours=1)


def test_a_deadline_counts_from_the_park_and_not_from_the_run_before_it():
    instance = workflows.start(Patient, {"timeout": "1h"})
    [claim] = store.claim(connections["default"], 1, lease=86_400.0)
    outcome = play(claim)
    advance("40m")
    assert settle(outcome)
    advance("40m")
    assert_awaiting(instance, "a", "b")
    advance("20m")
    assert_done(instance, [True, [], 0])


def test_when_the_deadline_passes_the_next_step_runs_with_timed_out_and_nothing_awaited():
    instance = parked("24h")
    assert advance("23h") == {}
    assert_awaiting(instance, "a", "b")
    assert advance("1h") == {"done": 1}
    assert_done(instance, [True, [], 0])
    assert [event.kind for event in instance.events.all()].count("timed_out") == 1


def test_a_timeout_is_a_wake_and_leaves_the_attempt_untouched():
    class Tries(Workflow):
        @step
        def ask(self, ctx):
            return Await("a", then="work", timeout="1h")

        @step
        def work(self, ctx):
            return Retry(delay=0) if ctx.attempt < 2 else Done([ctx.attempt, ctx.timed_out])

    instance = workflows.start(Tries)
    drain()
    assert advance("1h") == {"retry": 2, "done": 1}
    assert_done(instance, [2, True])


def test_at_a_timeout_awaited_may_be_partial():
    instance = parked(workflow=Both)
    workflows.signal(instance, "a")
    assert drain() == {"await": 1}
    advance("1h")
    assert_failed(instance, "timed out with 1")


def test_at_a_timeout_awaited_may_even_be_complete_if_the_answer_came_between_the_wake_and_the_run():
    instance = overdue()
    assert expire() == 1
    assert workflows.signal(instance, "a").woke is False
    assert drain() == {"done": 1}
    assert_done(instance, [True, ["a"], 0])


def test_a_plain_signal_is_never_refused_while_its_instance_lives_not_even_after_the_deadline():
    instance = overdue()
    # The deadline is over and the sweep has not come: the answer wins.
    assert workflows.signal(instance, "a").woke is True
    assert expire() == 0
    drain()
    assert_done(instance, [False, ["a"], 0])


def test_a_signal_of_another_name_does_not_disarm_the_deadline():
    instance = parked("1h")
    before = instance.due_at
    workflows.signal(instance, "noise")
    instance.refresh_from_db()
    assert instance.due_at == before
    advance("1h")
    assert_done(instance, [True, [], 0])


# Never after an answer


def test_an_armed_deadline_never_fires_after_an_answer():
    instance = parked("1h")
    workflows.signal(instance, "a")
    assert advance("2h") == {"done": 1}
    assert_done(instance, [False, ["a"], 0])
    assert "timed_out" not in [event.kind for event in instance.events.all()]


def test_a_deadline_that_is_over_does_not_fire_while_the_answer_waits_to_be_run():
    instance = overdue()
    workflows.signal(instance, "b")
    claim = take_one()
    assert expire() == 0
    assert settle(play(claim))
    assert expire() == 0
    assert_done(instance, [False, ["b"], 0])


def test_a_park_that_finds_its_answer_in_the_inbox_arms_nothing():
    instance = workflows.start(Patient, {"timeout": timedelta(microseconds=1)})
    workflows.signal(instance, "a")
    assert settle(play(take_one()))
    assert expire() == 0
    drain()
    assert_done(instance, [False, ["a"], 0])


def test_a_deadline_does_not_outlive_its_wait():
    class Moves(Workflow):
        @step
        def ask(self, ctx):
            return Await("a", then="then", timeout="1h")

        @step
        def then(self, ctx):
            return Await("b", then="tell")

        @step
        def tell(self, ctx):
            return Done(ctx.timed_out)

    instance = workflows.start(Moves)
    drain()
    workflows.signal(instance, "a")
    drain()
    assert assert_awaiting(instance, "b").due_at is None
    assert advance("10d") == {}
    workflows.signal(instance, "b")
    drain()
    assert_done(instance, False)


def test_timed_out_is_told_to_the_step_it_woke_and_to_no_later_one():
    class Tells(Workflow):
        @step
        def ask(self, ctx):
            return Await("a", then="one", timeout="1h")

        @step
        def one(self, ctx):
            return Next("two", {"one": ctx.timed_out})

        @step
        def two(self, ctx):
            return Await("b", then="three", state={**ctx.state, "two": ctx.timed_out})

        @step
        def three(self, ctx):
            return Done({**ctx.state, "three": ctx.timed_out})

    instance = workflows.start(Tells)
    drain()
    advance("1h")
    workflows.signal(instance, "b")
    drain()
    assert_done(instance, {"one": True, "two": False, "three": False})


def test_timed_out_is_kept_for_a_retry_that_waits_for_its_delay():
    class Backs(Workflow):
        @step
        def ask(self, ctx):
            return Await("a", then="work", timeout="1h")

        @step
        def work(self, ctx):
            return Done([ctx.timed_out, ctx.attempt]) if ctx.attempt else Retry(delay="5m")

    instance = workflows.start(Backs)
    drain()
    advance("1h5m")
    assert_done(instance, [True, 1])


def test_sleeping_for_a_delay_is_no_timeout():
    class Sleeps(Workflow):
        @step
        def ask(self, ctx):
            return Next("tell", delay="1h")

        @step
        def tell(self, ctx):
            return Done(ctx.timed_out)

    instance = workflows.start(Sleeps)
    drain()
    instance.refresh_from_db()
    assert instance.status == "sleeping"
    advance("1h")
    assert_done(instance, False)
    assert "timed_out" not in [event.kind for event in instance.events.all()]


# Re-awaiting


def test_a_reawait_restarts_the_deadline():
    instance = parked(workflow=Both)
    advance("40m")
    workflows.signal(instance, "a")
    drain()
    assert advance("40m") == {}
    assert_awaiting(instance, "a", "b")
    advance("20m")
    assert_failed(instance, "timed out with 1")


def test_after_a_timeout_a_reawait_waits_anew_and_keeps_what_came():
    class Insists(Workflow):
        @step
        def ask(self, ctx):
            return Await(["a", "b"], then="check", timeout="1h")

        @step
        def check(self, ctx):
            late = ctx.state.get("late", 0) + ctx.timed_out
            if len(ctx.awaited) == 2:
                return Done([late, [signal.name for signal in ctx.awaited]])
            return Await(["a", "b"], then="check", state={"late": late}, timeout="1h")

    instance = workflows.start(Insists)
    drain()
    advance("1h")
    workflows.signal(instance, "b")
    drain()
    advance("1h")
    workflows.signal(instance, "a")
    drain()
    assert_done(instance, [2, ["b", "a"]])


# Who has a deadline


def test_a_wait_without_a_timeout_waits_for_ever():
    instance = parked(None)
    assert instance.due_at is None
    assert advance("3650d") == {}
    assert_awaiting(instance, "a", "b")


def test_a_cancelled_instances_deadline_is_gone():
    instance = parked("1h")
    assert workflows.cancel(instance).due_at is None
    assert advance("2h") == {}


def test_an_instance_awaiting_its_children_is_not_woken_by_time():
    class Kid(Workflow):
        name = "timeouts.kid"

        @step
        def ask(self, ctx):
            return Await("a", then="ask")

    class Mother(Workflow):
        @step
        def bear(self, ctx):
            return workflows.Spawn([workflows.Child(Kid)], then="bear")

    mother = workflows.start(Mother)
    drain()
    assert advance("365d") == {}
    mother.refresh_from_db()
    assert mother.status == "awaiting_children"


def test_deadlines_are_rows_and_fire_in_their_order():
    fired = []

    class Notes(Workflow):
        @step
        def ask(self, ctx):
            return Await("a", then="note", timeout=ctx.input["timeout"])

        @step
        def note(self, ctx):
            fired.append(ctx.input["timeout"])
            return Done()

    timeouts = ["3h", "1h", "5h", "2h", "4h"]
    for timeout in timeouts:
        workflows.start(Notes, {"timeout": timeout})
    drain()
    advance("4h")
    assert fired == ["1h", "2h", "3h", "4h"]


def test_a_sweep_takes_as_many_as_it_is_told_and_says_how_many():
    for _ in range(5):
        overdue()
    db = connections["default"]
    assert [store.expire_due(db, 2) for _ in range(4)] == [2, 2, 1, 0]


def test_a_timeout_fires_in_the_transaction_it_fires_in_or_not_at_all():
    instance = overdue()
    with transaction.atomic():
        assert expire() == 1
        transaction.set_rollback(True)
    assert_awaiting(instance, "a", "b")
    assert expire() == 1


def test_a_deadline_is_of_the_databases_clock_not_of_this_processs(monkeypatch):
    import time

    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 86_400)
    instance = parked("1h")
    assert expire() == 0
    assert_awaiting(instance, "a", "b")


# Durations


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("30m", 1800),
        ("24h", 86_400),
        ("7d", 604_800),
        ("1h30m", 5400),
        ("90s", 90),
        ("PT24H", 86_400),
        ("P1DT1H", 90_000),
        (90, 90),
        (0.5, 0.5),
        (timedelta(days=2), 172_800),
    ],
)
def test_a_timeout_may_be_written_in_many_ways(written, seconds):
    assert Await("a", then="x", timeout=written).timeout == seconds


@pytest.mark.parametrize(
    "written",
    [
        0,
        0.0,
        -1,
        "0s",
        "0h0m",
        "-5m",
        "PT0S",
        "-PT5M",
        timedelta(0),
        timedelta(seconds=-1),
        float("nan"),
        -float("inf"),
    ],
)
def test_a_timeout_that_is_zero_or_negative_is_refused_where_it_is_written(written):
    with pytest.raises(InvalidDuration):
        Await("a", then="x", timeout=written)


@pytest.mark.parametrize("written", ["", " ", "soon", "5", "5 parsecs", "h", "1h 30", True, [], {}, object(), b"5m"])
def test_a_timeout_that_is_unreadable_is_refused_where_it_is_written(written):
    with pytest.raises(InvalidDuration, match="not a usable duration"):
        Await("a", then="x", timeout=written)


@pytest.mark.parametrize("written", ["99999999d", 1e300, timedelta.max, float("inf"), "P9999999D"])
def test_there_is_no_maximum(written):
    instance = workflows.start(Patient, {"timeout": None})
    outcome = play(take_one())
    outcome.delay = Await("a", then="x", timeout=written).timeout
    assert settle(outcome)
    assert assert_awaiting(instance).due_at.year > 5000
    assert expire() == 0


def test_a_refused_timeout_fails_the_instance_with_the_reason():
    instance = workflows.start(Patient, {"timeout": "0s"})
    drain()
    assert_failed(instance, "a timeout must be longer than zero")
