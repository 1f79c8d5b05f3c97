"""`until=` beside `timeout=` at every wait of every style: one moment, one of the two, and with a time zone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.test import override_settings

import workflows
from tests.support.clocks import stopped_clock
from workflows import (
    Await,
    Done,
    InvalidCall,
    InvalidDefinition,
    Machine,
    SignalTimeoutError,
    Workflow,
    action,
    callback,
    collect,
    durable,
    event,
    expand,
    flow,
    question,
    received,
    sleep,
    step,
    wait_for,
)
from workflows.clock import read_now
from workflows.models import AwaitUnit, Instance, Interaction, LedgerEvent
from workflows.testing import advance, assert_done, assert_failed, drain
from workflows.values.durations import parse_time

pytestmark = pytest.mark.django_db

HOUR = timedelta(hours=1)


@durable(name="until-child")
def wait_long(ctx):
    ctx.sleep("nap", "30d")


WAITS = {
    "signal": lambda ctx, until: ctx.wait_for_signal("w", until=until),
    "channel": lambda ctx, until: ctx.wait_for("w", "api", until=until),
    "callback": lambda ctx, until: ctx.callback("w", until=until).wait(),
    "event": lambda ctx, until: ctx.wait_for_event("w", event="never", until=until),
    "received": lambda ctx, until: ctx.wait_for("w", received("never"), until=until),
    "invoke": lambda ctx, until: ctx.invoke("w", wait_long, until=until),
    "ask": lambda ctx, until: ctx.ask("w", question("api"), until=until).result(),
    "wait_any": lambda ctx, until: ctx.wait_any(ctx.ask("w", event("never")), until=until),
    "wait_all": lambda ctx, until: ctx.wait_all(ctx.ask("w", callback()), until=until),
}


@pytest.mark.parametrize("wait", WAITS)
def test_each_wait_of_a_function_ends_at_the_moment_and_not_before(wait):
    moment = read_now() + 2 * HOUR

    def body(ctx):
        ctx.sleep("first", "1h")
        try:
            return WAITS[wait](ctx, moment)
        except SignalTimeoutError:
            return "over"

    started = durable(name=f"until-{wait}", signals=True)(body).start()
    advance("1h")
    parked = Instance.objects.get(pk=started.pk)
    assert abs(parked.due_at - moment) < timedelta(milliseconds=500)  # the wait began with its own moment
    advance("58m")
    assert not Instance.objects.get(pk=started.pk).ended
    advance("3m")
    assert_done(started, None if wait == "event" else "over")


def test_a_sleep_of_a_function_ends_at_the_moment():
    moment = read_now() + HOUR

    def body(ctx):
        ctx.sleep("nap", until=moment)
        return "awake"

    started = durable(name="until-sleep")(body).start()
    drain()
    assert Instance.objects.get(pk=started.pk).due_at == moment
    advance("1h")
    assert_done(started, "awake")


@pytest.mark.parametrize("what", ["never", event("never"), "callback"], ids=["names", "event", "callback"])
def test_an_await_of_a_step_ends_at_the_moment(what):
    class Step(Workflow):
        name = "until-step"

        @step
        def ask(self, ctx):
            wanted = ctx.callback("partner") if what == "callback" else what
            return Await(wanted, then="end", until=moment)

        @step
        def end(self, ctx):
            return Done(ctx.timed_out)

    with stopped_clock() as now:
        moment = now + HOUR
        started = workflows.start(Step)
        drain()
    assert abs(Instance.objects.get(pk=started.pk).due_at - moment) <= timedelta(microseconds=1)  # a float of seconds
    advance("59m")
    assert not Instance.objects.get(pk=started.pk).ended
    advance("2m")
    assert_done(started, True)


@pytest.mark.parametrize("kind", [{"event": "never"}, {"callback": True}, {"channel": "api"}, {"signal": "never"}])
def test_a_wait_of_a_machine_ends_at_the_moment_that_a_function_tells(kind):
    class Waits(Machine):
        name = "until-machine"
        gate = wait_for(**kind, until=lambda ctx: ctx.now + HOUR, on_timeout="late")
        late = flow(action(lambda ctx: "late"))

    started = workflows.start(Waits)
    advance("59m")
    assert not Instance.objects.get(pk=started.pk).ended
    advance("2m")
    assert_done(started, "late")


def test_a_sleep_of_a_machine_ends_at_the_moment():
    moment = read_now() + HOUR

    class Sleeps(Machine):
        name = "until-machine-sleep"
        nap = sleep(until=moment)
        told = sleep(until=lambda ctx: moment + HOUR)
        end = action(lambda ctx: "awake")

    started = workflows.start(Sleeps)
    advance("1h")
    assert not Instance.objects.get(pk=started.pk).ended
    advance("1h")
    assert_done(started, "awake")


def test_a_moment_that_has_passed_ends_the_wait_at_once():
    past = read_now() - HOUR

    def body(ctx):
        return ctx.wait_for_event("w", event="never", until=past)

    started = durable(name="until-past")(body).start()
    drain()
    assert_done(started, None)


def test_the_history_tells_the_moment():
    moment = read_now() + HOUR
    started = durable(name="until-told")(lambda ctx: ctx.wait_for("w", "api", until=moment)).start()
    drain()
    asked = LedgerEvent.objects.get(instance=started, kind="asked")
    assert datetime.fromisoformat(asked.data["until"]) == moment
    assert "timeout" not in asked.data


# --- what is refused where it is written -----------------------------------------------------------


@pytest.mark.parametrize(
    ("timeout", "until", "problem"),
    [
        ("1h", datetime(2030, 1, 1, tzinfo=UTC), "has timeout= and until=: leave one of them out"),
        (None, datetime(2030, 1, 1), r"has no time zone: write django\.utils\.timezone\.make_aware"),
        (None, "2030-01-01", "is a moment: a datetime with a time zone, not '2030-01-01'"),
        (None, None, "needs timeout=, how long it waits, or until="),
    ],
)
def test_one_of_both_is_taken_and_only_with_a_time_zone(timeout, until, problem):
    with pytest.raises(InvalidCall, match=problem):
        parse_time(timeout, until, "ctx.wait_for_signal('gate')", needed=True)


def test_a_site_without_time_zones_takes_its_own_moments():
    with override_settings(USE_TZ=False):
        assert parse_time(None, datetime(2030, 1, 1), "Await").utcoffset() is not None


def test_a_machine_says_so_when_its_class_is_made():
    with pytest.raises(InvalidDefinition, match="timeout= and until="):

        class Both(Machine):
            gate = wait_for(event="e", timeout="1h", until=lambda ctx: ctx.now)

    with pytest.raises(InvalidDefinition, match="has no time zone"):

        class Naive(Machine):
            gate = wait_for(event="e", until=datetime(2030, 1, 1))

    with pytest.raises(InvalidDefinition, match="sleep takes a duration"):

        class Neither(Machine):
            nap = sleep()


def test_a_step_says_so_where_it_returns():
    with pytest.raises(InvalidCall, match="leave one of them out"):
        Await("paid", then="ship", timeout="1h", until=datetime(2030, 1, 1, tzinfo=UTC))


def test_a_function_fails_at_once():
    started = durable(name="until-naive")(lambda ctx: ctx.sleep("nap", until=datetime(2030, 1, 1))).start()
    drain()
    assert_failed(started, "has no time zone")


# --- lists --------------------------------------------------------------------------------------------


def ask_each(name: str, items: int, **options: object) -> Instance:
    def body(ctx):
        return [one.status for one in ctx.wait_for_each("each", list(range(items)), "api", **options)]

    started = durable(name=f"until-{name}")(body).start()
    drain()
    return started


def test_the_items_of_a_list_end_at_one_moment_also_those_whose_turn_has_not_come():
    moment = read_now() + 2 * HOUR
    started = ask_each("each", 5, until=moment, on_item="partial", concurrency=2)
    asked = Interaction.objects.filter(instance=started)
    assert (set(asked.values_list("deadline", flat=True)), asked.filter(queued=True).count()) == ({moment}, 3)
    assert (AwaitUnit.objects.get(instance=started).deadline, AwaitUnit.objects.get().timeout) == (moment, None)
    advance("1h")
    workflows.complete(asked.get(index=0), "yes")  # and the third is asked
    drain()
    assert asked.filter(queued=True).count() == 2
    assert set(asked.filter(status="pending").values_list("deadline", flat=True)) == {moment}
    advance("58m")
    assert not Instance.objects.get(pk=started.pk).ended
    advance("3m")
    assert_done(started, ["completed", *["expired"] * 4])
    told = LedgerEvent.objects.get(instance=started, kind="asked").data
    assert (datetime.fromisoformat(told["until"]), "timeout" in told) == (moment, False)


def test_a_timeout_of_a_list_is_of_each_item_from_the_moment_it_is_asked():
    started = ask_each("each-timeout", 2, timeout="1h", on_item="partial", concurrency=1)
    advance("50m")
    workflows.complete(Interaction.objects.get(instance=started, index=0), "yes")
    drain()
    advance("50m")
    assert not Instance.objects.get(pk=started.pk).ended
    advance("11m")
    assert_done(started, ["completed", "expired"])


def test_a_list_whose_moment_has_passed_is_over_at_once():
    started = ask_each("each-past", 300, until=read_now() - HOUR, on_item="partial")
    drain()
    assert_done(started, ["expired"] * 300)
    failing = ask_each("each-past-fail", 3, until=read_now() - HOUR)
    drain()
    assert_failed(failing, "SignalTimeoutError")


def test_an_item_that_is_asked_once_more_keeps_the_moment():
    moment = read_now() + 2 * HOUR
    started = ask_each("each-again", 2, until=moment, on_item="partial")
    workflows.fail(Interaction.objects.get(instance=started, index=0), "no")
    again = Interaction.objects.get(instance=started, index=0)
    workflows.redrive(again)
    drain()
    again.refresh_from_db()
    assert (again.status, again.queued, again.deadline) == ("pending", False, moment)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"until": datetime(2030, 1, 1)}, "has no time zone"),
        ({"until": "2030-01-01"}, "is a moment: a datetime with a time zone"),
        ({"until": datetime(2030, 1, 1, tzinfo=UTC), "timeout": "1h"}, "has timeout= and until="),
    ],
)
def test_a_list_refuses_what_every_other_wait_refuses(options, message):
    started = ask_each("each-refused", 1, **options)
    for _ in range(5):
        advance("1h")
    assert_failed(started, message)
    assert not AwaitUnit.objects.filter(instance=started).exists()


def test_a_stage_that_asks_about_each_item_ends_at_its_moment_or_at_what_a_function_tells():
    moment = read_now() + 2 * HOUR

    class Each(Machine):
        name = "until-each"
        people = expand(lambda ctx: ["ann", "bob"], on_item="partial")
        asked = wait_for(channel="api", each=True, until=lambda ctx: datetime.fromisoformat(ctx.input["until"]))
        end = collect(lambda ctx, items: [one.status for one in items])

    class Fixed(Machine):
        name = "until-each-fixed"
        people = expand(lambda ctx: ["ann", "bob"], on_item="partial")
        asked = wait_for(channel="api", each=True, until=moment)
        end = collect(lambda ctx, items: [one.status for one in items])

    both = [workflows.start(Each, {"until": moment.isoformat()}), workflows.start(Fixed)]
    drain()
    assert set(Interaction.objects.values_list("deadline", flat=True)) == {moment}
    advance("3h")
    for one in both:
        assert_done(one, ["expired", "expired"])
    with pytest.raises(InvalidDefinition, match="has timeout= and until="):
        type("Both", (Machine,), {"w": wait_for(channel="api", each=True, input=[1], until=moment, timeout="1h")})
