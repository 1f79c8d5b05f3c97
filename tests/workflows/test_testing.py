"""workflows.testing: an ordinary django_db test can run anything, and leaves nothing behind."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, connections, transaction
from django.utils import timezone

import workflows
from workflows import (
    Await,
    Child,
    Done,
    InstanceCancelled,
    InstanceFailed,
    Next,
    NotFinished,
    Retry,
    Spawn,
    Stop,
    Workflow,
    durable,
    question,
    received,
    step,
    store,
)
from workflows.clock import read_now
from workflows.exceptions import InvalidCall, InvalidDuration
from workflows.models import Workspace
from workflows.testing import (
    advance,
    advance_to,
    assert_awaiting,
    assert_done,
    assert_failed,
    assert_no_leftovers,
    assert_open,
    drain,
)


class Waiter(Workflow):
    name = "testing.waiter"

    @step
    def ask(self, ctx):
        return Await(["go", "stop"], then="end", timeout="1h")

    @step
    def end(self, ctx):
        return Stop("too late") if ctx.timed_out else Done([signal.payload for signal in ctx.awaited])


def clock_shift() -> float:
    return store.fetch(
        connections["default"],
        "SELECT extract(epoch FROM holdpoint_now() - statement_timestamp())::float8",
        {},
    )[0][0]


# drain


@pytest.mark.django_db
def test_drain_runs_everything_due_and_counts_by_outcome():
    class Kid(Workflow):
        name = "testing.kid"

        @step
        def only(self, ctx):
            return Retry(delay=0) if ctx.attempt == 0 else Done()

    class Mother(Workflow):
        @step
        def one(self, ctx):
            return Next("two")

        @step
        def two(self, ctx):
            return Spawn([Child(Kid), Child(Kid)], then="three")

        @step
        def three(self, ctx):
            return Await("go", then="three")

    class Stops(Workflow):
        @step
        def only(self, ctx):
            return Stop("no")

    workflows.start(Mother)
    workflows.start(Stops)
    assert drain() == {"next": 1, "spawn": 1, "retry": 2, "done": 2, "await": 1, "stop": 1}
    assert drain() == {}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("outcome", "word"),
    [
        (lambda: Done(), "done"),
        (lambda: Next("second"), "next"),
        (lambda: Await("x", then="second"), "await"),
        (lambda: Stop("no"), "stop"),
        (lambda: Spawn([Child("testing.waiter")], then="second"), "spawn"),
        (lambda: Spawn([], then="second"), "spawn"),
        (lambda: Retry(delay="1h"), "retry"),
    ],
)
@pytest.mark.parametrize("atomic", [False, True])
def test_drain_counts_an_atomic_step_like_any_other(outcome, word, atomic):
    class One(Workflow):
        name = "testing.one"

        @step(atomic=atomic)
        def first(self, ctx):
            return outcome()

        @step
        def second(self, ctx):
            return Await("never", then="second")

    workflows.start(One)
    assert drain(max_steps=10)[word] >= 1


@pytest.mark.django_db
def test_a_failing_step_of_a_test_does_not_break_the_tests_transaction():
    class Breaks(Workflow):
        @step
        def only(self, ctx):
            Workspace.objects.create(slug="made-by-the-step")
            Workspace.objects.create(slug="default")

    instance = workflows.start(Breaks)
    assert drain() == {"stop": 1}
    assert_failed(instance, "IntegrityError")
    assert not Workspace.objects.filter(slug="made-by-the-step").exists(), "the step's writes are undone with it"


@pytest.mark.django_db
def test_a_step_that_catches_its_own_database_error_goes_on():
    class Catches(Workflow):
        @step
        def only(self, ctx):
            try:
                with transaction.atomic():
                    Workspace.objects.create(slug="default")
            except IntegrityError:
                return Done("caught")

    instance = workflows.start(Catches)
    drain()
    assert_done(instance, "caught")


@pytest.mark.django_db
def test_drain_stops_after_max_steps_and_says_so():
    class Forever(Workflow):
        @step
        def again(self, ctx):
            return Next("again")

    workflows.start(Forever)
    with pytest.raises(AssertionError, match=r"ran 7 steps and there is still work.*\{'next': 7\}"):
        drain(max_steps=7)


@pytest.mark.django_db
def test_drain_fires_deadlines_though_there_is_always_more_to_run():
    ended: list[bool] = []

    class Late(Workflow):
        @step
        def ask(self, ctx):
            return Await("go", then="end", until=timezone.now() - timedelta(hours=1))

        @step
        def end(self, ctx):
            ended.append(ctx.timed_out)
            return Done()

    class UntilThat(Workflow):
        @step
        def look(self, ctx):
            return Done() if ended else Next("look")

    workflows.start(Late)
    workflows.start(UntilThat)
    assert drain(max_steps=200)["done"] == 2
    assert ended == [True]


@pytest.mark.django_db
def test_exactly_max_steps_of_work_is_not_too_much():
    class Three(Workflow):
        @step
        def count(self, ctx):
            n = ctx.state.get("n", 0) + 1
            return Done(n) if n == 3 else Next("count", {"n": n})

    instance = workflows.start(Three)
    assert drain(max_steps=3) == {"next": 2, "done": 1}
    assert_done(instance, 3)


@pytest.mark.django_db
def test_drain_leaves_alone_what_is_not_due():
    later = workflows.start(Waiter, run_at=timezone.now() + timedelta(hours=1))
    assert drain() == {}
    later.refresh_from_db()
    assert later.status == "sleeping"
    assert advance("1h") == {"await": 1}


@pytest.mark.django_db
def test_drain_runs_what_was_due_in_the_past():
    instance = workflows.start(Waiter, run_at=timezone.now() - timedelta(hours=1))
    assert instance.status == "runnable"
    assert drain() == {"await": 1}


@pytest.mark.django_db
def test_drain_counts_a_step_of_an_unknown_workflow_as_put_back():
    from workflows.definitions import registry

    class Vanishes(Workflow):
        @step
        def only(self, ctx):
            return Done()

    instance = workflows.start(Vanishes)
    definition = registry._definitions.pop(("Vanishes", 1))
    try:
        assert drain() == {"put_back": 1}
        assert drain() == {}
        instance.refresh_from_db()
        assert instance.status == "sleeping"
    finally:
        registry.register(definition)
    assert advance("15s") == {"done": 1}


# advance


@pytest.mark.django_db
def test_advance_fires_in_order_and_each_at_its_own_moment():
    at = []

    class Notes(Workflow):
        @step
        def ask(self, ctx):
            return Next("note", delay=ctx.input["delay"])

        @step
        def note(self, ctx):
            at.append((ctx.input["delay"], ctx.now))
            return Done()

    for delay in ("3h", "1h", "2h"):
        workflows.start(Notes, {"delay": delay})
    begun = timezone.now()
    assert advance("3h") == {"next": 3, "done": 3}
    assert [delay for delay, _ in at] == ["1h", "2h", "3h"]
    hours = [round((when - begun).total_seconds() / 3600, 2) for _, when in at]
    assert hours == [1.0, 2.0, 3.0]


@pytest.mark.django_db
def test_what_a_step_arms_on_the_way_fires_at_its_own_moment_too():
    class Ticks(Workflow):
        @step
        def tick(self, ctx):
            n = ctx.state.get("n", 0)
            return Await("never", then="tick", state={"n": n + 1}, timeout="1h")

    instance = workflows.start(Ticks)
    assert advance("23h30m") == {"await": 24}
    assert assert_awaiting(instance).state == {"n": 24}


@pytest.mark.django_db
def test_the_clock_can_be_moved_to_a_moment():
    waiter = workflows.start(Waiter)
    assert advance_to(read_now() + timedelta(minutes=59)) == {"await": 1}
    assert advance_to(read_now() + timedelta(minutes=2)) == {"stop": 1}
    assert_failed(waiter, "too late")


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("moment", "word"),
    [(datetime(2030, 1, 1), "time zone"), ("2030-01-01", "time zone"), (datetime(2001, 1, 1, tzinfo=UTC), "past")],
)
def test_it_is_moved_to_a_later_moment_with_a_time_zone_only(moment, word):
    with pytest.raises(InvalidCall, match=word):
        advance_to(moment)
    assert clock_shift() == 0


@pytest.mark.django_db
def test_what_a_worker_would_run_at_once_is_left_over_and_nothing_else():
    workflows.start(Waiter, run_at=timezone.now() + timedelta(days=1))
    waiting = workflows.start(Waiter)
    drain()
    assert_no_leftovers()
    workflows.signal(waiting, "go")
    with pytest.raises(AssertionError, match=r"testing\.waiter .* \(runnable in step 'end'\)"):
        assert_no_leftovers()
    [claim] = store.claim(connections["default"], 1)
    with pytest.raises(AssertionError, match="running"):
        assert_no_leftovers()
    store.release(connections["default"], [claim])
    drain()
    assert_no_leftovers()


@pytest.mark.django_db
def test_advance_runs_first_what_is_due_already():
    instance = workflows.start(Waiter)
    assert advance("30m") == {"await": 1}
    assert_awaiting(instance, "go", "stop")
    assert advance("30m") == {"stop": 1}


@pytest.mark.django_db
def test_advances_add_up():
    instance = workflows.start(Waiter)
    drain()
    for _ in range(59):
        advance("1m")
    assert_awaiting(instance)
    advance("1m")
    assert_failed(instance, "too late")
    assert 3600 <= clock_shift() < 3601


@pytest.mark.django_db
@pytest.mark.parametrize("duration", ["1h", 3600, timedelta(hours=1), "PT1H"])
def test_advance_reads_durations_as_everything_does(duration):
    instance = workflows.start(Waiter)
    drain()
    advance(duration)
    assert_failed(instance)


@pytest.mark.django_db
@pytest.mark.parametrize("duration", ["-1h", -5, "soon", None, True])
def test_time_does_not_go_back_and_nonsense_is_refused(duration):
    with pytest.raises(InvalidDuration):
        advance(duration)


@pytest.mark.django_db
def test_stamps_and_ctx_now_move_with_the_clock():
    class Now(Workflow):
        @step
        def tell(self, ctx):
            return Done(ctx.now)

    advance("10d")
    instance = workflows.start(Now)
    drain()
    ahead = assert_done(instance).created_at - timezone.now()
    assert timedelta(days=9, hours=23) < ahead < timedelta(days=10, minutes=1)


@pytest.mark.django_db
def test_a_dead_workers_instance_comes_back_when_its_lease_has_ended():
    instance = workflows.start(Waiter)
    [claim] = store.claim(connections["default"], 1, 10.0)
    assert drain() == {}
    assert advance("11s") == {"await": 1}
    assert_awaiting(instance)
    assert claim.fence == 1


@pytest.mark.django_db
@pytest.mark.parametrize("turn", [1, 2])
def test_the_moved_clock_is_rolled_back_after_each_test(turn):
    assert clock_shift() == 0
    advance("400d")
    assert clock_shift() > 400 * 86_400 - 1


@pytest.mark.django_db(transaction=True)
def test_advance_outside_a_transaction_is_refused_and_the_clock_is_untouched():
    instance = workflows.start(Waiter)
    with pytest.raises(InvalidCall, match="transaction=True"):
        advance("1h")
    assert clock_shift() == 0
    instance.refresh_from_db()
    assert instance.status == "runnable"


@pytest.mark.django_db(transaction=True)
def test_drain_works_with_transaction_true_too():
    instance = workflows.start(Waiter)
    assert drain() == {"await": 1}
    workflows.signal(instance, "go", 1)
    assert drain() == {"done": 1}
    assert_done(instance, [1])


# The assertions


@pytest.mark.django_db
def test_assert_awaiting_says_where_the_instance_stands_instead():
    instance = workflows.start(Waiter)
    with pytest.raises(AssertionError, match="is runnable in step 'ask', not awaiting"):
        assert_awaiting(instance)
    drain()
    assert assert_awaiting(instance) == instance
    assert assert_awaiting(instance, "stop", "go") == instance
    assert assert_awaiting(instance.pk) == instance
    with pytest.raises(AssertionError, match=r"awaits \['go', 'stop'\], not \['go'\]"):
        assert_awaiting(instance, "go")


@pytest.mark.django_db
def test_assert_done_says_the_reason_of_a_failure_and_the_result_it_found():
    failed = workflows.start(Waiter)
    drain()
    advance("1h")
    with pytest.raises(AssertionError, match="is failed with 'too late' in step 'end', not done"):
        assert_done(failed)
    done = workflows.start(Waiter)
    workflows.signal(done, "go", 5)
    drain()
    assert assert_done(done) == done
    assert assert_done(done, result=[5]) == done
    with pytest.raises(AssertionError, match=r"has result \[5\], not None"):
        assert_done(done, None)


@pytest.mark.django_db
def test_assert_failed_compares_the_reason():
    instance = workflows.start(Waiter)
    with pytest.raises(AssertionError, match="not failed"):
        assert_failed(instance)
    advance("1h")
    assert assert_failed(instance) == instance
    assert assert_failed(instance, "too late") == instance
    with pytest.raises(AssertionError, match="failed with 'too late', not 'another'"):
        assert_failed(instance, "another")


# result


@pytest.mark.django_db
def test_result_returns_it_or_says_how_the_instance_stands():
    instance = workflows.start(Waiter)
    with pytest.raises(NotFinished, match="is runnable in step 'ask', not finished"):
        workflows.result(instance)
    workflows.signal(instance, "go", {"a": 1})
    drain()
    assert workflows.result(instance) == [{"a": 1}]
    assert workflows.result(instance.id) == [{"a": 1}]
    late = workflows.start(Waiter)
    advance("1h")
    with pytest.raises(InstanceFailed, match="too late"):
        workflows.result(late)
    gone = workflows.cancel(workflows.start(Waiter), "why not")
    with pytest.raises(InstanceCancelled, match="why not"):
        workflows.result(gone)


@pytest.mark.django_db
def test_result_with_a_timeout_is_refused_inside_a_transaction_even_when_it_is_there():
    instance = workflows.start(Waiter)
    workflows.signal(instance, "go")
    drain()
    with pytest.raises(InvalidCall, match="inside a transaction"):
        workflows.result(instance, timeout=1)
    assert workflows.result(instance, timeout=0) == [None]


@pytest.mark.django_db(transaction=True)
def test_result_waits_no_longer_than_its_timeout():
    instance = workflows.start(Waiter)
    with pytest.raises(NotFinished):
        workflows.result(instance, timeout=0.05)


@pytest.mark.django_db(transaction=True)
def test_result_with_a_timeout_returns_at_once_what_is_there():
    instance = workflows.start(Waiter)
    workflows.signal(instance, "go", 1)
    drain()
    assert workflows.result(instance, timeout="1h") == [1]


# --- several open questions ------------------------------------------------------------------------


@durable(name="testing.asks")
def asks(ctx):
    one, two = ctx.ask("one", received("one")), ctx.ask("two", question("api"))
    ctx.wait_all(one, two)


@pytest.mark.django_db
@pytest.mark.parametrize("ids", [[], ["one"], ["one", "two", "three"], ["one", "Two"]])
def test_assert_open_fails_with_what_is_open_instead(ids):
    instance = asks.start()
    drain()
    assert_open(instance, ["two", "one"])
    with pytest.raises(AssertionError, match=r"has \['one', 'two'\] open, not"):
        assert_open(instance, ids)


@pytest.mark.django_db
def test_assert_open_takes_a_list_and_knows_what_was_answered():
    instance = asks.start()
    drain()
    with pytest.raises(InvalidCall, match="takes a list of ids"):
        assert_open(instance, "one")
    workflows.signal(instance, "one")
    drain()
    assert_open(instance, ["two"])
