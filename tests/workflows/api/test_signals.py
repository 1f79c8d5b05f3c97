"""Signals: delivered durably whenever they come, never lost, never consumed twice."""

from __future__ import annotations

from uuid import UUID, uuid4

import pytest
from django.db import transaction

import workflows
from tests.support.races import play, settle, take_one
from workflows import Await, Done, Next, NoTarget, Retry, Stop, Workflow, step
from workflows.exceptions import InvalidCall, InvalidTarget, NotSerializable, TooLarge
from workflows.models import Instance, Signal
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db


class Waiter(Workflow):
    """Waits for the names in its input, then tells what it was handed."""

    name = "signals.waiter"

    @step
    def ask(self, ctx):
        return Await(ctx.input["names"], then="got")

    @step
    def got(self, ctx):
        return Done(
            {
                "awaited": [[signal.name, signal.payload] for signal in ctx.awaited],
                "inbox": [[signal.name, signal.payload] for signal in ctx.inbox],
            }
        )


class Collector(Workflow):
    """Re-awaits votes until there are enough; consumes nothing on the way."""

    name = "signals.collector"

    @step
    def collect(self, ctx):
        if len(ctx.awaited) < ctx.input["enough"]:
            return Await("vote", then="collect")
        return Done([signal.payload for signal in ctx.awaited])


class Loop(Workflow):
    """Takes one batch of signals after the other, consuming each with Next."""

    name = "signals.loop"

    @step
    def ask(self, ctx):
        return Await("item", then="take")

    @step
    def take(self, ctx):
        seen = [*ctx.state.get("seen", []), [signal.payload for signal in ctx.awaited]]
        return Next("ask", {"seen": seen})


def parked(names="paid", workflow=Waiter, **options) -> Instance:
    instance = workflows.start(workflow, {"names": names, "enough": 3}, **options)
    drain()
    return instance


def unconsumed(instance) -> list[str]:
    return [signal.name for signal in Signal.objects.filter(instance=instance, consumed_at=None)]


# Before, during and after the park


def test_a_signal_may_come_before_the_park():
    instance = workflows.start(Waiter, {"names": "paid"})
    assert workflows.signal(instance, "paid", 1).woke is False
    assert drain() == {"await": 1, "done": 1}
    assert_done(instance, {"awaited": [["paid", 1]], "inbox": [["paid", 1]]})


def test_a_signal_may_come_while_the_step_that_parks_is_running():
    instance = workflows.start(Waiter, {"names": "paid"})
    claim = take_one()
    outcome = play(claim)
    assert workflows.signal(instance, "paid", 1).woke is False
    assert settle(outcome)
    instance.refresh_from_db()
    assert instance.status == "runnable"
    assert drain() == {"done": 1}
    assert_done(instance, {"awaited": [["paid", 1]], "inbox": [["paid", 1]]})


def test_a_signal_of_another_name_that_comes_while_the_step_runs_does_not_keep_it_from_parking():
    instance = workflows.start(Waiter, {"names": "paid"})
    outcome = play(take_one())
    workflows.signal(instance, "noise")
    assert settle(outcome)
    assert_awaiting(instance, "paid")


def test_a_signal_may_come_after_the_park():
    instance = parked()
    assert workflows.signal(instance, "paid", 1).woke is True
    assert drain() == {"done": 1}
    assert_done(instance, {"awaited": [["paid", 1]], "inbox": [["paid", 1]]})


def test_only_the_first_signal_wakes_the_second_finds_it_awake():
    instance = parked()
    assert [workflows.signal(instance, "paid", n).woke for n in range(3)] == [True, False, False]
    drain()
    assert_done(instance, {"awaited": [["paid", n] for n in range(3)], "inbox": [["paid", n] for n in range(3)]})


# Addressing


def test_an_instance_is_addressed_by_object_by_uuid_or_by_key():
    instance = parked("x", key="order-1")
    assert isinstance(instance.id, UUID)
    ids = [workflows.signal(target, "y").id for target in (instance, instance.id, "order-1")]
    assert len(set(ids)) == 3
    assert Signal.objects.filter(instance=instance).count() == 3


def test_a_uuid_written_as_text_is_a_key_and_not_an_id():
    instance = parked()
    with pytest.raises(NoTarget):
        workflows.signal(str(instance.id), "paid")
    text = str(uuid4())
    keyed = parked(key=text)
    assert workflows.signal(text, "paid").woke
    drain()
    assert_done(keyed)


@pytest.mark.parametrize("target", [7, None, b"order-1", ("order-1",), 1.5, object()])
def test_anything_else_is_no_target_and_the_error_says_what_is(target):
    with pytest.raises(InvalidTarget, match="pass an Instance or its UUID") as caught:
        workflows.signal(target, "paid")
    assert isinstance(caught.value, NoTarget)


# Targets that are not there


@pytest.mark.parametrize("how", ["done", "failed", "cancelled"])
def test_a_terminal_target_is_refused_and_nothing_is_stored(how):
    class Ends(Workflow):
        @step
        def only(self, ctx):
            return Done() if how == "done" else Stop("no") if how == "failed" else Await("x", then="only")

    instance = workflows.start(Ends, key="k")
    drain()
    if how == "cancelled":
        workflows.cancel(instance)
    instance.refresh_from_db()
    assert instance.status == how
    for target in (instance, instance.id, "k"):
        with pytest.raises(NoTarget, match="Nothing was stored"):
            workflows.signal(target, "x", dedup_key="d")
    assert not Signal.objects.filter(instance=instance).exists()
    assert "signalled" not in [event.kind for event in instance.events.all()]


@pytest.mark.parametrize("target", [UUID(int=1), "nobody"])
def test_an_unknown_target_is_refused_and_nothing_is_stored(target):
    with pytest.raises(NoTarget, match="no live instance"):
        workflows.signal(target, "x", dedup_key="d")
    assert not Signal.objects.exists()


def test_a_signal_that_loses_the_race_against_the_terminal_commit_is_refused():
    instance = workflows.start(Waiter, {"names": "paid"})
    workflows.signal(instance, "paid")
    drain()
    with pytest.raises(NoTarget):
        workflows.signal(instance, "paid")
    assert Signal.objects.filter(instance=instance).count() == 1


def test_the_end_closes_the_whole_inbox():
    instance = parked("paid")
    workflows.signal(instance, "other")
    workflows.signal(instance, "paid")
    drain()
    assert_done(instance)
    assert unconsumed(instance) == ["other"]
    assert drain() == {}


# Dedup keys


def test_a_duplicate_returns_the_first_id_stores_nothing_and_wakes_nobody():
    instance = parked("paid")
    first = workflows.signal(instance, "noise", 1, dedup_key="evt")
    second = workflows.signal(instance, "paid", 2, dedup_key="evt")
    assert first.duplicate is False
    assert (second.id, second.duplicate, second.woke, second.refused) == (first.id, True, False, None)
    assert_awaiting(instance, "paid")
    assert [signal.payload for signal in Signal.objects.filter(instance=instance)] == [1]
    instance.refresh_from_db()
    assert instance.inbox == 1
    assert [event.kind for event in instance.events.all()].count("signalled") == 1


def test_a_dedup_key_holds_after_consumption():
    instance = parked(workflow=Loop)
    first = workflows.signal(instance, "item", 1, dedup_key="evt")
    drain()
    assert Signal.objects.get(instance=instance).consumed_at is not None
    again = workflows.signal(instance, "item", 1, dedup_key="evt")
    assert (again.id, again.duplicate, again.woke) == (first.id, True, False)
    assert drain() == {}
    assert_awaiting(instance, "item")


def test_a_dedup_key_addressed_by_id_holds_even_after_the_end():
    instance = parked(key="k")
    first = workflows.signal("k", "paid", dedup_key="evt")
    drain()
    assert_done(instance)
    for target in (instance, instance.id):
        again = workflows.signal(target, "paid", dedup_key="evt")
        assert (again.id, again.duplicate, again.woke) == (first.id, True, False)
    with pytest.raises(NoTarget):
        workflows.signal(instance, "paid", dedup_key="another")
    with pytest.raises(NoTarget):
        workflows.signal("k", "paid", dedup_key="evt")
    assert Signal.objects.filter(instance=instance).count() == 1


def test_a_dedup_key_belongs_to_one_instance():
    one, two = parked(), parked()
    assert not workflows.signal(one, "paid", dedup_key="evt").duplicate
    assert not workflows.signal(two, "paid", dedup_key="evt").duplicate


def test_signals_without_a_dedup_key_are_never_duplicates():
    instance = parked()
    assert [workflows.signal(instance, "paid").duplicate for _ in range(2)] == [False, False]
    drain()
    assert_done(instance, {"awaited": [["paid", None]] * 2, "inbox": [["paid", None]] * 2})


# Which signals wake, and what the step is handed


def test_only_a_matching_name_wakes():
    instance = parked(["paid", "refused"])
    for name in ("pai", "paid ", "PAID", "paid,refused", "{paid}"):
        assert workflows.signal(instance, name).woke is False
    assert drain() == {}
    assert_awaiting(instance, "paid", "refused")
    assert workflows.signal(instance, "refused").woke is True


@pytest.mark.parametrize("name", ['qu"ote', "back\\slash", "comma,name", "{brace}", "NULL", "ünï→", "a b", "%s"])
def test_any_text_is_a_name(name):
    instance = parked([name, "other"])
    assert_awaiting(instance, name, "other")
    assert workflows.signal(instance, name, 1).woke
    drain()
    assert_done(instance, {"awaited": [[name, 1]], "inbox": [[name, 1]]})


def test_awaited_holds_every_unconsumed_signal_of_the_names_in_arrival_order_and_inbox_all():
    instance = workflows.start(Waiter, {"names": ["a", "b"]})
    for n, name in enumerate("bcabca"):
        workflows.signal(instance, name, n)
    drain()
    assert_done(
        instance,
        {
            "awaited": [["b", 0], ["a", 2], ["b", 3], ["a", 5]],
            "inbox": [["b", 0], ["c", 1], ["a", 2], ["b", 3], ["c", 4], ["a", 5]],
        },
    )


def test_before_any_await_awaited_is_empty_and_the_inbox_is_not():
    class Looks(Workflow):
        @step
        def look(self, ctx):
            return Done([len(ctx.awaited), len(ctx.inbox)])

    instance = workflows.start(Looks)
    workflows.signal(instance, "x")
    drain()
    assert_done(instance, [0, 1])


def test_a_signal_has_name_payload_received_at_and_source():
    class Tells(Workflow):
        @step
        def ask(self, ctx):
            return Await("x", then="tell")

        @step
        def tell(self, ctx):
            [signal] = ctx.awaited
            return Done([signal.name, signal.payload, signal.source, signal.received_at, ctx.now])

    instance = workflows.start(Tells)
    workflows.signal(instance, "x", {"a": [1]}, actor="alice")
    drain()
    name, payload, source, received_at, now = assert_done(instance).result
    assert (name, payload, source) == ("x", {"a": [1]}, "alice")
    assert received_at <= now


def test_a_payload_left_out_is_null_and_a_mutable_one_is_handed_over_as_json():
    instance = parked(["a", "b"])
    workflows.signal(instance, "a")
    workflows.signal(instance, "b", {"tuple": (1, 2), 3: "three"})
    drain()
    assert assert_done(instance).result["awaited"] == [["a", None], ["b", {"tuple": [1, 2], "3": "three"}]]


# Consumption


def test_next_consumes_exactly_what_the_step_was_handed():
    instance = parked(workflow=Loop)
    workflows.signal(instance, "other")
    workflows.signal(instance, "item", 1)
    drain()
    assert unconsumed(instance) == ["other"]
    assert_awaiting(instance, "item")
    assert assert_awaiting(instance).state == {"seen": [[1]]}


def test_latecomers_that_arrive_while_a_step_runs_survive_its_consumption():
    instance = parked(workflow=Loop)
    workflows.signal(instance, "item", "early")
    outcome = play(take_one())
    late = workflows.signal(instance, "item", "late")
    assert late.woke is False
    assert settle(outcome)
    assert unconsumed(instance) == ["item"]
    drain()
    assert assert_awaiting(instance).state == {"seen": [["early"], ["late"]]}
    assert unconsumed(instance) == []


def test_next_also_consumes_the_names_in_consume():
    class Clears(Workflow):
        @step
        def ask(self, ctx):
            return Await("go", then="clear")

        @step
        def clear(self, ctx):
            return Next("ask", consume=["noise"])

    instance = workflows.start(Clears)
    for name in ("noise", "keep", "noise", "go"):
        workflows.signal(instance, name)
    drain()
    assert unconsumed(instance) == ["keep"]
    instance.refresh_from_db()
    assert instance.inbox == 1


def test_a_name_in_consume_that_was_awaited_too_is_consumed_once():
    class Clears(Workflow):
        @step
        def ask(self, ctx):
            return Await("go", then="clear")

        @step
        def clear(self, ctx):
            return Next("ask", consume="go")

    instance = workflows.start(Clears)
    workflows.signal(instance, "go")
    drain()
    instance.refresh_from_db()
    assert (instance.inbox, unconsumed(instance)) == (0, [])


def test_a_consumed_signal_says_which_run_consumed_it_and_is_never_handed_out_again():
    instance = parked(workflow=Loop)
    for n in range(3):
        workflows.signal(instance, "item", n)
        drain()
    assert assert_awaiting(instance).state == {"seen": [[0], [1], [2]]}
    runs = [signal.consumed_by for signal in Signal.objects.filter(instance=instance)]
    assert runs == sorted(set(runs))


# Accumulating


def test_reawaiting_consumes_nothing_and_the_next_run_is_handed_everything():
    instance = parked(workflow=Collector)
    for n in range(3):
        assert workflows.signal(instance, "vote", n).woke
        assert sum(drain().values()) == 1
    assert_done(instance, [0, 1, 2])


def test_reawaiting_with_unconsumed_input_parks_cleanly_without_spinning():
    instance = parked(workflow=Collector)
    workflows.signal(instance, "vote", 1)
    assert drain(max_steps=5) == {"await": 1}
    assert_awaiting(instance, "vote")
    assert len(unconsumed(instance)) == 1
    assert drain(max_steps=5) == {}


def test_reawaiting_does_not_spin_either_with_other_signals_beside_the_handed_ones():
    instance = parked(workflow=Collector)
    workflows.signal(instance, "noise")
    workflows.signal(instance, "vote", 1)
    workflows.signal(instance, "noise")
    assert drain(max_steps=5) == {"await": 1}
    assert_awaiting(instance, "vote")
    assert workflows.signal(instance, "vote", 2).woke
    claim = take_one()
    workflows.signal(instance, "noise")
    assert settle(play(claim))
    assert_awaiting(instance, "vote")


def test_reawaiting_wakes_for_what_came_while_the_step_ran():
    instance = parked(workflow=Collector)
    workflows.signal(instance, "vote", 1)
    outcome = play(take_one())
    workflows.signal(instance, "vote", 2)
    assert settle(outcome)
    instance.refresh_from_db()
    assert instance.status == "runnable"
    assert drain() == {"await": 1}
    assert_awaiting(instance, "vote")


def test_handed_means_in_awaited_so_awaiting_another_name_wakes_for_what_was_only_in_the_inbox():
    class Widens(Workflow):
        @step
        def ask(self, ctx):
            return Await("a", then="widen")

        @step
        def widen(self, ctx):
            return Await(["a", "b"], then="tell")

        @step
        def tell(self, ctx):
            return Done([signal.name for signal in ctx.awaited])

    instance = workflows.start(Widens)
    workflows.signal(instance, "b")
    drain()
    assert_awaiting(instance, "a")
    workflows.signal(instance, "a")
    assert drain() == {"await": 1, "done": 1}
    assert_done(instance, ["b", "a"])


def test_the_comparison_is_a_set_of_ids_and_not_a_high_water_mark():
    class Switches(Workflow):
        @step
        def ask(self, ctx):
            return Await("late", then="switch")

        @step
        def switch(self, ctx):
            return Await("early", then="tell")

        @step
        def tell(self, ctx):
            return Done([signal.name for signal in ctx.awaited])

    instance = workflows.start(Switches)
    workflows.signal(instance, "early")  # a smaller number than the one that is handed out first
    workflows.signal(instance, "late")
    drain()
    assert_done(instance, ["early"])


def test_a_reawait_of_another_name_does_not_wake_for_what_was_handed_under_the_old_one():
    class Forgets(Workflow):
        @step
        def ask(self, ctx):
            return Await("a", then="again")

        @step
        def again(self, ctx):
            return Await(["a", "b"], then="tell")

        @step
        def tell(self, ctx):
            return Done([signal.name for signal in ctx.awaited])

    instance = workflows.start(Forgets)
    workflows.signal(instance, "a")
    assert drain(max_steps=5) == {"await": 2}
    assert_awaiting(instance, "a", "b")
    workflows.signal(instance, "b")
    drain()
    assert_done(instance, ["a", "b"])


# Retry, failure and the inbox


def test_retry_keeps_the_awaited_inputs_and_consumes_nothing():
    class Stubborn(Workflow):
        @step
        def ask(self, ctx):
            return Await("x", then="work")

        @step
        def work(self, ctx):
            if ctx.attempt < 2:
                return Retry(delay=0)
            return Done([ctx.attempt, [signal.payload for signal in ctx.awaited]])

    instance = workflows.start(Stubborn)
    workflows.signal(instance, "x", 5)
    assert drain() == {"await": 1, "retry": 2, "done": 1}
    assert_done(instance, [2, [5]])


def test_a_signal_does_not_wake_a_step_that_waits_for_its_retry():
    class Backs(Workflow):
        @step
        def ask(self, ctx):
            return Await("x", then="work")

        @step
        def work(self, ctx):
            return Done([signal.payload for signal in ctx.awaited]) if ctx.attempt else Retry(delay="1m")

    instance = workflows.start(Backs)
    workflows.signal(instance, "x", 1)
    drain()
    assert workflows.signal(instance, "x", 2).woke is False
    assert drain() == {}
    assert advance("1m") == {"done": 1}
    assert_done(instance, [1, 2])


def test_the_operators_retry_reopens_the_signals_that_the_failure_closed():
    fails = [True]

    class Fragile(Workflow):
        @step
        def ask(self, ctx):
            return Await("x", then="work")

        @step
        def work(self, ctx):
            if fails.pop() if fails else False:
                raise RuntimeError("not yet")
            return Done([signal.payload for signal in ctx.awaited])

    instance = workflows.start(Fragile)
    workflows.signal(instance, "x", 1)
    drain()
    assert_failed(instance, "RuntimeError: not yet")
    with pytest.raises(NoTarget):
        workflows.signal(instance, "x", 2)
    workflows.retry(instance)
    assert workflows.signal(instance, "x", 3).woke is False
    drain()
    assert_done(instance, [1, 3])


# The caller's transaction


def test_a_delivery_in_a_transaction_that_is_rolled_back_was_never_sent():
    instance = parked()
    with transaction.atomic():
        assert workflows.signal(instance, "paid", dedup_key="evt").woke
        transaction.set_rollback(True)
    assert_awaiting(instance, "paid")
    assert not Signal.objects.exists()
    assert not workflows.signal(instance, "paid", dedup_key="evt").duplicate


def test_a_refused_signal_does_not_break_the_callers_transaction():
    instance = parked()
    with transaction.atomic():
        with pytest.raises(NoTarget):
            workflows.signal("nobody", "paid")
        workflows.signal(instance, "paid")
    drain()
    assert_done(instance)


# Arguments


@pytest.mark.parametrize("name", ["", " ", "x" * 201, "nul\0", "\ud800", None, 5])
def test_a_name_that_cannot_be_stored_is_refused_and_nothing_is_stored(name):
    instance = parked()
    with pytest.raises(InvalidCall, match="name"):
        workflows.signal(instance, name)
    assert not Signal.objects.exists()


@pytest.mark.parametrize("key", ["", "x" * 201, "nul\0", "\ud800", 5])
def test_a_dedup_key_that_cannot_be_stored_is_refused_and_nothing_is_stored(key):
    instance = parked()
    with pytest.raises(InvalidCall, match="dedup key"):
        workflows.signal(instance, "paid", dedup_key=key)
    assert not Signal.objects.exists()


@pytest.mark.parametrize("payload", [float("nan"), {"a": "\0"}, ["\ud800"], object(), {1, 2}])
def test_a_payload_that_is_not_json_is_refused_and_nothing_is_stored(payload):
    instance = parked()
    with pytest.raises(NotSerializable, match="payload of signal 'paid'"):
        workflows.signal(instance, "paid", payload)
    assert not Signal.objects.exists()


def test_a_payload_above_the_limit_is_refused_with_the_limit_in_digits(settings):
    instance = parked()
    with pytest.raises(TooLarge, match="524288"):
        workflows.signal(instance, "paid", "x" * 524_288)
    workflows.signal(instance, "paid", "x" * 524_286)


def test_a_step_may_signal_another_instance():
    class Sends(Workflow):
        @step
        def send(self, ctx):
            delivery = workflows.signal("receiver", "paid", ctx.input)
            return Done(delivery.woke)

    receiver = parked(key="receiver")
    sender = workflows.start(Sends, {"n": 1})
    drain()
    assert_done(sender, True)
    assert_done(receiver, {"awaited": [["paid", {"n": 1}]], "inbox": [["paid", {"n": 1}]]})


def test_a_step_may_signal_its_own_instance():
    class Echo(Workflow):
        @step
        def send(self, ctx):
            workflows.signal(ctx.id, "echo", 1)
            return Await("echo", then="got")

        @step
        def got(self, ctx):
            return Done([signal.payload for signal in ctx.awaited])

    instance = workflows.start(Echo)
    assert drain() == {"await": 1, "done": 1}
    assert_done(instance, [1])
