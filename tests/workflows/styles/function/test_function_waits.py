"""Waits of a durable function: signals, callbacks, channels and events, their answers, timeouts and refusals."""

import dataclasses
import itertools

import pytest
from django.contrib.auth.models import Group
from django.db import connection

import workflows
from tests.support.races import forget, play, take_one
from workflows import (
    InteractionResolved,
    InvalidData,
    SignalCollision,
    SignalTimeoutError,
    UnknownInteraction,
    durable,
    store,
)
from workflows.definitions.channel import Channel
from workflows.models import AwaitUnit, Checkpoint, EventWait, Instance, Interaction
from workflows.testing import _skew, advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db

_numbers = itertools.count()


def run(body, input=None, *, max_attempts=5, **options):
    """Start `body` as a function of its own and run whatever can run now."""
    name = f"waits.{next(_numbers)}"
    instance = workflows.start(durable(name=name, max_attempts=max_attempts)(body), input, **options)
    drain()
    instance.refresh_from_db()
    return instance


def pending(instance):
    return Interaction.objects.get(instance=instance, status="pending")


def answer(instance, data):
    workflows.complete(pending(instance), data)
    drain()


# --- wait_for_signal -----------------------------------------------------------------------------


@pytest.mark.parametrize("call", ["wait_for_signal", "wait_for_event", "callback"])
def test_a_timeout_is_required(call):
    def body(ctx):
        match call:
            case "wait_for_event":
                ctx.wait_for_event("a", event="e")
            case _:
                getattr(ctx, call)("a")

    assert_failed(run(body, max_attempts=1), "timeout")
    assert not Checkpoint.objects.exists()


@pytest.mark.parametrize("timeout", [0, -1, "soon", "", True, None])
@pytest.mark.parametrize("call", ["wait_for_signal", "wait_for_event", "callback"])
def test_a_timeout_that_is_zero_negative_or_unreadable_is_refused_at_the_call(call, timeout):
    def body(ctx):
        match call:
            case "wait_for_event":
                ctx.wait_for_event("a", event="e", timeout=timeout)
            case _:
                getattr(ctx, call)("a", timeout=timeout)

    instance = run(body, max_attempts=1)
    assert instance.status == "failed"
    assert not Checkpoint.objects.exists()
    assert not Interaction.objects.exists()


def test_the_signal_id_defaults_to_the_id_and_that_of_the_instance():
    instance = run(lambda ctx: ctx.wait_for_signal("gate", timeout="1h"))
    assert pending(instance).signal_id == f"gate-{instance.pk}"
    assert_awaiting(instance, "gate")


def test_only_the_completion_satisfies_the_wait_and_a_plain_signal_never_does():
    instance = run(lambda ctx: ctx.wait_for_signal("gate", signal="go", timeout="1h"))
    for name in ("go", "gate"):
        with pytest.raises(workflows.NoReader):
            workflows.signal(instance, name, 1)
    drain()
    assert_awaiting(instance)
    workflows.complete("go", 2)
    drain()
    assert_done(instance, 2)


def test_null_is_an_answer():
    instance = run(lambda ctx: [ctx.wait_for_signal("gate", timeout="1h")])
    answer(instance, None)
    assert_done(instance, [None])


def test_a_schema_is_checked_at_the_door_and_the_author_gets_the_typed_value():
    @dataclasses.dataclass(frozen=True)
    class Answer:
        approved: bool
        note: str = ""

    def body(ctx):
        got = ctx.wait_for_signal("gate", timeout="1h", schema=Answer)
        ctx.sleep("nap", "1m")
        assert isinstance(got, Answer)
        return got.note

    instance = run(body)
    with pytest.raises(InvalidData) as caught:
        workflows.complete(pending(instance), {"approved": "perhaps"})
    assert list(caught.value.errors) == ["approved"]
    assert_awaiting(instance)
    answer(instance, {"approved": True, "note": "well"})
    advance("1m")
    assert_done(instance, "well")


def test_a_taken_signal_id_raises_a_collision_at_the_wait_and_the_first_keeps_waiting():
    first = run(lambda ctx: ctx.wait_for_signal("gate", signal="same", timeout="1h"))
    second = run(lambda ctx: ctx.wait_for_signal("gate", signal="same", timeout="1h"))
    assert_failed(second, "SignalCollision")
    assert not [event for event in second.events.all() if event.kind == "run_failed"]
    assert_awaiting(first)
    workflows.complete("same", 1)
    drain()
    assert_done(first, 1)


def test_a_collision_can_be_caught():
    run(lambda ctx: ctx.wait_for_signal("gate", signal="same", timeout="1h"))

    def body(ctx):
        try:
            ctx.wait_for_signal("gate", signal="same", timeout="1h")
        except SignalCollision as error:
            return error.signal_id

    assert_done(run(body), "same")


def test_a_collision_that_was_caught_is_remembered_by_later_runs():
    run(lambda ctx: ctx.wait_for_signal("gate", signal="same", timeout="1h"))

    def body(ctx):
        try:
            ctx.wait_for_signal("gate", signal="same", timeout="1h")
        except SignalCollision:
            return ctx.wait_for_signal("mine", timeout="1h")

    instance = run(body)
    answer(instance, 1)
    assert_done(instance, 1)


def test_a_signal_id_is_free_again_after_its_completion_and_after_its_expiry():
    for end in (lambda: workflows.complete("same", 1), lambda: advance("1h"), lambda: None):
        instance = run(lambda ctx: ctx.wait_for_signal("gate", signal="same", timeout="1h"))
        assert_awaiting(instance)
        end()
        drain()


@pytest.mark.parametrize("signal", ["", "a\nb", "\x7f", "x" * 201, ".", "..", 7])
def test_a_signal_id_that_is_no_address_is_refused_at_the_call(signal):
    instance = run(lambda ctx: ctx.wait_for_signal("gate", signal=signal, timeout="1h"), max_attempts=1)
    assert_failed(instance, "InvalidSignalId")
    assert not Interaction.objects.exists()


# --- timeouts ------------------------------------------------------------------------------------


def test_a_wait_whose_deadline_passed_raises_on_every_replay():
    raised = []

    def body(ctx):
        try:
            ctx.wait_for_signal("gate", timeout="1h")
        except SignalTimeoutError as error:
            raised.append(error.wait)
        ctx.sleep("one", "1m")
        ctx.sleep("two", "1m")
        return "end"

    instance = run(body)
    advance("63m")
    assert_done(instance, "end")
    assert raised == ["gate", "gate", "gate"]


def test_an_answer_after_the_deadline_is_refused_and_fires_the_deadline():
    instance = run(lambda ctx: ctx.wait_for_signal("gate", timeout="1h"))
    asked = pending(instance)
    advance("1h")
    with pytest.raises(InteractionResolved):
        workflows.complete(asked.pk, 1)
    assert_failed(instance, "SignalTimeoutError")


@pytest.mark.parametrize("how", ["signal", "channel", "callback"])
def test_an_uncaught_timeout_fails_the_instance_at_once(how):
    def body(ctx):
        match how:
            case "signal":
                ctx.wait_for_signal("gate", timeout="1h")
            case "channel":
                ctx.wait_for("gate", "api", timeout="1h")
            case "callback":
                ctx.callback("gate", timeout="1h").wait()

    instance = run(body)
    advance("1h")
    assert_failed(instance, "'gate' was not answered before its deadline")
    assert not [event for event in instance.events.all() if event.kind == "run_failed"]


def test_a_deadline_never_fires_after_an_answer():
    def body(ctx):
        got = ctx.wait_for_signal("gate", timeout="1h")
        ctx.sleep("nap", "3h")
        return got

    instance = run(body)
    answer(instance, 1)
    advance("3h")
    assert_done(instance, 1)
    assert Interaction.objects.get().status == "completed"


# --- callbacks -----------------------------------------------------------------------------------


def test_a_callback_has_its_address_before_the_wait_and_it_is_the_same_in_every_run():
    seen = []

    def body(ctx):
        cb = ctx.callback("pay", timeout="1h")
        seen.append((cb.resume_url, cb.resume_token))
        ctx.step("tell", lambda: None)
        ctx.sleep("nap", "1m")
        return cb.wait()

    instance = run(body)
    advance("1m")
    assert pending(instance).status == "pending"
    answer(instance, {"paid": True})
    assert_done(instance, {"paid": True})
    assert len(seen) == 3
    assert len(set(seen)) == 1
    assert seen[0][1] in seen[0][0]
    assert AwaitUnit.objects.count() == 1


def test_an_answer_that_comes_before_the_wait_is_kept_for_it():
    def body(ctx):
        cb = ctx.callback("pay", timeout="1h")
        ctx.sleep("nap", "2h")
        return cb.wait()

    instance = run(body)
    answer(instance, 5)
    assert Instance.objects.get(pk=instance.pk).status == "sleeping"
    advance("2h")
    assert_done(instance, 5)


def test_an_answer_within_the_run_that_gave_out_the_address_is_found_without_a_park():
    def body(ctx):
        cb = ctx.callback("pay", timeout="1h")
        ctx.step("tell", lambda: workflows.complete(Interaction.objects.get().pk, 5).replayed)
        return cb.wait()

    assert_done(run(body), 5)


def test_the_time_of_a_callback_begins_where_it_is_waited_for():
    def body(ctx):
        cb = ctx.callback("pay", timeout="1h")
        ctx.sleep("nap", "5h")
        try:
            cb.wait()
        except SignalTimeoutError:
            return ctx.now.timestamp()

    instance = run(body)
    advance("5h")
    assert_awaiting(instance, "pay")
    advance("59m")
    assert_awaiting(instance, "pay")
    advance("1m")
    assert_done(instance)


def test_each_visit_of_a_callback_in_a_loop_is_an_interaction_of_its_own():
    urls = []

    def body(ctx):
        got = []
        for n in range(3):
            cb = ctx.callback(f"pay-{n}", timeout="1h")
            ctx.step(f"tell-{n}", lambda cb=cb: urls.append(cb.resume_url))
            got.append(cb.wait())
        return got

    instance = run(body)
    for n in range(3):
        answer(instance, n)
    assert_done(instance, [0, 1, 2])
    assert len(set(urls)) == 3


def test_a_callback_may_be_waited_for_twice():
    def body(ctx):
        cb = ctx.callback("pay", timeout="1h")
        return [cb.wait(), cb.wait()]

    instance = run(body)
    answer(instance, 1)
    assert_done(instance, [1, 1])


def test_a_callback_has_a_schema():
    @dataclasses.dataclass(frozen=True)
    class Payment:
        amount: int

    instance = run(lambda ctx: ctx.callback("pay", timeout="1h", schema=Payment).wait().amount)
    with pytest.raises(InvalidData):
        workflows.complete(pending(instance), {"amount": "much"})
    answer(instance, {"amount": 3})
    assert_done(instance, 3)


# --- wait_for ------------------------------------------------------------------------------------


def test_wait_for_lists_the_question_under_its_label_with_all_that_was_given():
    instance = run(
        lambda ctx: ctx.wait_for(
            "ask", "api", input={"n": 1}, schema={"ok": bool}, timeout="1h", assignee="ann", group="sales"
        ),
        key="k",
    )
    asked = pending(instance)
    assert (asked.channel, asked.request, asked.assignee, asked.group) == ("api", {"n": 1}, "ann", "sales")
    assert asked.deadline is not None
    assert asked.correlation_id == "k"
    answer(instance, {"ok": True})
    assert_done(instance, {"ok": True})


def test_wait_for_needs_no_timeout():
    instance = run(lambda ctx: ctx.wait_for("ask", "api"))
    assert pending(instance).deadline is None
    advance("1000d")
    assert_awaiting(instance)
    answer(instance, 1)
    assert_done(instance, 1)


def test_a_channel_s_own_rows_are_written_with_the_question_once():
    class Board(Channel):
        name = "board"
        request = {"title": "look"}
        assignee = "bob"

        def open(self, interactions):
            for one in interactions:
                Group.objects.create(name=str(one.pk))

    def body(ctx):
        got = ctx.wait_for("ask", Board(), timeout="1h")
        ctx.sleep("nap", "1m")
        return got

    instance = run(body)
    asked = pending(instance)
    assert (asked.channel, asked.request, asked.assignee) == ("board", {"title": "look"}, "bob")
    answer(instance, 1)
    advance("1m")
    assert_done(instance, 1)
    assert [group.name for group in Group.objects.all()] == [str(asked.pk)]


def test_a_list_cardinality_accepts_only_a_list():
    instance = run(lambda ctx: ctx.wait_for("ask", "api", cardinality="ONE_TO_MANY", timeout="1h"))
    with pytest.raises(InvalidData):
        workflows.complete(pending(instance), {"a": 1})
    answer(instance, [1, 2])
    assert_done(instance, [1, 2])


@pytest.mark.parametrize("bad", [{"cardinality": "SOME"}, {"assignee": ""}, {"channel": 7}, {"channel": ""}])
def test_wait_for_refuses_what_it_cannot_ask(bad):
    options = {"channel": "api", **bad}
    instance = run(lambda ctx: ctx.wait_for("ask", options.pop("channel"), **options), max_attempts=1)
    assert instance.status == "failed"
    assert not Interaction.objects.exists()


# --- wait_for_event ------------------------------------------------------------------------------


def test_an_event_is_taken_when_its_fields_match():
    instance = run(lambda ctx: ctx.wait_for_event("paid", event="paid", match={"order": 7}, timeout="1h"))
    assert_awaiting(instance, "paid")
    assert workflows.emit("paid", {"order": 8}) == 0
    assert workflows.emit("other", {"order": 7}) == 0
    assert workflows.emit("paid", {"order": 7, "by": "card"}) == 1
    drain()
    assert_done(instance, {"order": 7, "by": "card"})
    assert not EventWait.objects.filter(closed_at=None).exists()


def test_an_event_before_the_wait_is_not_lost():
    def body(ctx):
        ctx.step("order", lambda: workflows.emit("paid", {"n": 1}))
        return ctx.wait_for_event("paid", event="paid", timeout="1h")

    assert_done(run(body), {"n": 1})


def test_an_event_from_before_the_start_is_not_taken():
    workflows.emit("paid", {"n": 1})
    instance = run(lambda ctx: ctx.wait_for_event("paid", event="paid", timeout="1h"))
    assert_awaiting(instance)


def test_two_waits_take_two_events_in_their_order():
    def body(ctx):
        return [ctx.wait_for_event(f"w{n}", event="go", timeout="1h") for n in range(3)]

    instance = run(body)
    for n in range(3):
        workflows.emit("go", n)
    drain()
    assert_done(instance, [0, 1, 2])


def test_an_event_wait_returns_none_on_its_timeout_and_on_every_replay():
    def body(ctx):
        first = ctx.wait_for_event("w", event="go", timeout="1h")
        ctx.sleep("nap", "1m")
        return [first, ctx.wait_for_event("w2", event="go", timeout="1h")]

    instance = run(body)
    advance("1h")
    workflows.emit("go", 5)
    advance("1m")
    assert_done(instance, [None, 5])


def test_a_second_event_wait_looks_back_although_the_first_timed_out_and_the_worker_died():
    def body(ctx):
        first = ctx.wait_for_event("first", event="go", timeout="1h")
        return [first, ctx.wait_for_event("second", event="go", timeout="1h")]

    instance = run(body)
    _skew(connection, 3601)
    store.expire_due(connection)
    lost = take_one()
    assert play(lost).event is not None  # the second wait is saved, and its park is never committed
    _skew(connection, 1800)
    workflows.emit("go", 5)
    _skew(connection, 1801)  # the second deadline is over too, and the event not yet forgotten
    forget(lost)
    assert store.reclaim(connection) == 1
    drain()
    assert_done(instance, [None, 5])


def test_an_event_wait_that_expired_is_over_for_a_worker_that_takes_over_too():
    runs = []

    def body(ctx):
        answer = ctx.wait_for_event("only", event="go", timeout="1h")
        runs.append(answer)
        return answer

    instance = run(body)
    _skew(connection, 3601)
    store.expire_due(connection)
    lost = take_one()
    play(lost)
    workflows.emit("go", 5)  # too late
    forget(lost)
    assert store.reclaim(connection) == 1
    drain()
    assert_done(instance, None)
    assert runs == [None, None]


def test_an_event_of_null_is_an_event():
    instance = run(lambda ctx: [ctx.wait_for_event("w", event="go", timeout="1h")])
    assert workflows.emit("go") == 1
    drain()
    assert_done(instance, [None])


def test_an_event_that_its_schema_refuses_leaves_the_wait_parked_and_a_valid_one_is_typed():
    @dataclasses.dataclass(frozen=True)
    class Paid:
        amount: int

    def body(ctx):
        got = ctx.wait_for_event("w", event="go", timeout="1h", schema=Paid)
        ctx.sleep("nap", "1m")
        return got.amount

    instance = run(body)
    assert workflows.emit("go", {"amount": "much"}) == 0
    drain()
    assert_awaiting(instance)
    assert workflows.emit("go", {"amount": 3}) == 1
    advance("1m")
    assert_done(instance, 3)


def test_a_plain_signal_is_no_event():
    instance = run(lambda ctx: ctx.wait_for_event("w", event="go", timeout="1h"))
    with pytest.raises(workflows.NoReader):
        workflows.signal(instance, "go", 1)
    drain()
    assert_awaiting(instance)


@pytest.mark.parametrize("bad", [{"event": ""}, {"event": 7}, {"event": "holdpoint:x"}, {"match": [1]}])
def test_an_event_that_nobody_can_emit_is_refused_at_the_call(bad):
    options = {"event": "go", "timeout": "1h", **bad}
    instance = run(lambda ctx: ctx.wait_for_event("w", **options), max_attempts=1)
    assert instance.status == "failed"
    assert not Checkpoint.objects.exists()


# --- cancelling ----------------------------------------------------------------------------------


def test_cancelling_closes_question_event_wait_and_deadline():
    asking = run(lambda ctx: ctx.wait_for_signal("gate", timeout="1h"))
    expecting = run(lambda ctx: ctx.wait_for_event("w", event="go", timeout="1h"))
    for one in (asking, expecting):
        workflows.cancel(one, "enough")
    with pytest.raises(UnknownInteraction):
        workflows.complete(f"gate-{asking.pk}", 1)
    assert workflows.emit("go") == 0
    assert advance("2h") == {}
    assert Interaction.objects.get().status == "cancelled"
    assert AwaitUnit.objects.get().status == "cancelled"
    assert not EventWait.objects.filter(closed_at=None).exists()


# --- several at once -----------------------------------------------------------------------------


def test_callbacks_may_be_answered_in_another_order_than_they_are_waited_for():
    def body(ctx):
        first, second = ctx.callback("one", timeout="1h"), ctx.callback("two", timeout="1h")
        return [first.wait(), second.wait()]

    instance = run(body)
    assert_awaiting(instance, "one")
    workflows.complete(f"two-{instance.pk}", 2)
    drain()
    assert_awaiting(instance, "one")
    workflows.complete(f"one-{instance.pk}", 1)
    drain()
    assert_done(instance, [1, 2])
    assert Instance.objects.get(pk=instance.pk).inbox == 0


@pytest.mark.parametrize("how", ["done", "failed"])
def test_a_callback_that_nobody_waits_for_is_closed_with_its_instance(how):
    def body(ctx):
        ctx.callback("pay", timeout="1h")
        if how == "failed":
            raise RuntimeError("no")

    instance = run(body, max_attempts=1)
    assert instance.status == how
    asked = Interaction.objects.get(instance=instance)
    assert asked.status == asked.unit.status == "cancelled"
    with pytest.raises(UnknownInteraction):
        workflows.complete(asked.signal_id, 1)


def test_two_workspaces_may_use_one_signal_id():
    workflows.workspace.create("acme")
    waits = durable(name="waits.same")(lambda ctx: ctx.wait_for_signal("gate", signal="same", timeout="1h"))
    here, there = workflows.start(waits), workflows.start(waits, workspace="acme")
    drain()
    workflows.complete("same", 1, workspace="acme")
    drain()
    assert_done(there, 1)
    assert_awaiting(here)


def test_an_exhausted_collision_may_be_retried_when_the_id_is_free():
    first = run(lambda ctx: ctx.wait_for_signal("gate", signal="same", timeout="1h"))
    second = run(lambda ctx: ctx.wait_for_signal("gate", signal="same", timeout="1h"))
    assert_failed(second, "SignalCollision")
    answer(first, 1)
    workflows.retry(second)
    drain()
    answer(second, 2)
    assert_done(second, 2)
