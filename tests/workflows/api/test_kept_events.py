"""Named events after their emit: what a later wait finds, what a schema refuses, what starts, how they go."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any

import pytest
from django.db import connection, connections, transaction
from django.test import override_settings

import workflows
from tests.support.event_waiters import Slow, Waiter, is_parked, waiting
from tests.support.folds import check_all_folds
from workflows import Await, Concurrency, Done, Next, Workflow, durable, emit, step, store, tasks
from workflows.api.events import emit_event
from workflows.definitions import registry
from workflows.definitions.awaited_event import event
from workflows.models import EventWait, Instance, NamedEvent
from workflows.schemas.schema import read_schema
from workflows.testing import advance, assert_done, drain

pytestmark = pytest.mark.django_db

AMOUNT = {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}


class Looper(Workflow):
    """Waits for `paid` as often as its input says, and tells what came."""

    name = "EventLooper"

    @step
    def ask(self, ctx):
        return Await(event("paid"), then="note", state={"got": [], **ctx.state})

    @step
    def note(self, ctx):
        got = [*ctx.state["got"], ctx.answer]
        if len(got) == ctx.input["times"]:
            return Done(got)
        return Await(event("paid"), then="note", state={**ctx.state, "got": got})


# --- early events ---------------------------------------------------------------------------------


def test_an_event_between_the_trigger_and_the_wait_is_not_lost() -> None:
    instance = workflows.start(Slow)
    assert emit("paid", {"order": 2}) == 0
    assert emit("paid", {"order": 1}) == 0
    advance("10m")
    assert_done(instance, {"order": 1})
    assert EventWait.objects.get().closed_at is not None
    check_all_folds()


def test_an_event_before_the_instance_started_is_not_taken() -> None:
    emit("paid")
    assert is_parked(waiting())


def test_an_event_that_an_own_step_emitted_is_found_by_the_wait_after_it() -> None:
    class Both(Workflow):
        name = "EventBoth"

        @step
        def ask(self, ctx):
            emit("paid", "mine")
            return Await(event("paid"), then="end")

        @step
        def end(self, ctx):
            return Done(ctx.answer)

    instance = workflows.start(Both)
    drain()
    assert_done(instance, "mine")


def test_the_oldest_of_several_early_events_is_taken() -> None:
    instance = workflows.start(Waiter, {})
    for n in range(3):
        emit("paid", n)
    drain()
    assert_done(instance, 0)


def test_a_loop_that_waits_twice_takes_two_events_in_their_order() -> None:
    instance = workflows.start(Looper, {"times": 4})
    emit("paid", 1)
    emit("paid", 2)
    drain()
    assert is_parked(instance)
    assert emit("paid", 3) == 1
    assert emit("paid", 4) == 0  # it is awake already: its next wait finds this one
    drain()
    assert_done(instance, [1, 2, 3, 4])
    assert EventWait.objects.filter(instance=instance).count() == 4
    check_all_folds()


def test_an_early_event_is_taken_by_each_instance_once() -> None:
    loops = workflows.start_many(Looper, [{"times": 2}] * 3)
    emit("paid", 1)
    drain()
    assert all(is_parked(one) for one in loops)
    emit("paid", 2)
    drain()
    for one in loops:
        assert_done(one, [1, 2])


@pytest.mark.parametrize(("lookback", "found"), [("5m", False), ("15m", True), ("99999999d", True)])
def test_a_wait_looks_back_as_far_as_the_setting_says(lookback: str, found: bool) -> None:
    with override_settings(WORKFLOWS={"EVENT_LOOKBACK": lookback}):
        instance = workflows.start(Slow)
        emit("paid", {"order": 1})
        advance("10m")
        assert is_parked(instance) is not found
        store.prune_events(connections["default"])
        assert NamedEvent.objects.exists() is (lookback != "5m")


# --- schema ---------------------------------------------------------------------------------------


def test_data_that_the_schema_refuses_leaves_the_wait_parked() -> None:
    instance, any_data = waiting(schema=AMOUNT), waiting()
    assert emit("paid", {"amount": "five"}) == 1
    assert is_parked(instance)
    assert not is_parked(any_data)
    assert emit("paid", {"amount": 5}) == 1
    drain()
    assert_done(instance, {"amount": 5})


@dataclass
class Payment:
    """The author receives this and not the mapping."""

    amount: int


class Typed(Workflow):
    name = "EventTyped"

    @step
    def ask(self, ctx):
        return Await(event("paid", schema=Payment), then="end")

    @step
    def end(self, ctx):
        assert isinstance(ctx.answer, Payment)
        return Done(ctx.answer.amount)


def test_the_answer_is_the_typed_value_of_the_schema() -> None:
    instance = workflows.start(Typed)
    drain()
    assert emit("paid", {"amount": "many"}) == 0
    assert emit("paid", {"amount": 5}) == 1
    drain()
    assert_done(instance, 5)


def test_a_schema_that_cannot_check_leaves_its_own_waits_parked_only() -> None:
    broken, sound = waiting(schema=AMOUNT), waiting(schema={"type": "object"})
    with connections["default"].cursor() as cursor:
        cursor.execute(
            """UPDATE holdpoint_event_wait SET schema = '{"type": "nothing"}' WHERE instance_id = %s""", [broken.pk]
        )
    assert emit("paid", {"amount": 5}) == 1
    assert is_parked(broken)
    assert not is_parked(sound)


def test_looking_back_passes_over_what_the_schema_refuses() -> None:
    instance = workflows.start(Waiter, {"schema": AMOUNT})
    for _ in range(60):
        emit("paid", {"amount": "five"})
    emit("paid", {"amount": 5})
    drain()
    assert_done(instance, {"amount": 5})


def test_waits_that_refuse_the_data_hide_none_that_takes_it() -> None:
    refusing = workflows.start_many(Waiter, [{"schema": AMOUNT}] * 510)
    taking = workflows.start_many(Waiter, [{}] * 3)
    drain()
    assert emit("paid", {"amount": "five"}) == 3
    assert all(is_parked(one) for one in refusing)
    assert not any(is_parked(one) for one in taking)


# --- on_event -------------------------------------------------------------------------------------


def started_by(name: str) -> list[Instance]:
    return list(Instance.objects.filter(workflow=name))


def test_an_event_starts_the_workflows_that_begin_with_it() -> None:
    class Started(Workflow):
        name = "EventStarted"
        on_event = "order.placed"

        @step
        def only(self, ctx):
            return Done(ctx.input)

    emission = emit_event("order.placed", {"order": 1}, dedup_key="evt_1", actor="shop")
    assert (emission.woke, emission.started) == (0, 1)
    assert emit_event("order.placed", {"order": 1}, dedup_key="evt_1").started == 0
    [instance] = started_by("EventStarted")
    assert instance.started_by == "shop"
    drain()
    assert_done(instance, {"order": 1})
    assert emit_event("order.placed").started == 1
    assert emit_event("order.shipped").started == 0
    with transaction.atomic():
        assert emit_event("order.placed").started == 1
        transaction.set_rollback(True)
    assert len(started_by("EventStarted")) == 2


def test_only_the_latest_version_is_started_and_in_the_events_workspace() -> None:
    class One(Workflow):
        name = "EventVersions"
        version = 1
        on_event = "versions"

        @step
        def only(self, ctx):
            return Done()

    class Two(Workflow):
        name = "EventVersions"
        version = 2
        on_event = "versions"

        @step
        def only(self, ctx):
            return Done()

    acme = workflows.workspace.create("acme")
    assert emit_event("versions", workspace="acme").started == 1
    assert [(one.version, one.workspace) for one in started_by("EventVersions")] == [(2, acme)]


def test_an_instance_that_an_event_started_does_not_take_it_again() -> None:
    class Self(Workflow):
        name = "EventSelf"
        on_event = "self"

        @step
        def ask(self, ctx):
            return Await(event("self"), then="end")

        @step
        def end(self, ctx):
            return Done(ctx.answer)

    emit("self", {"n": 1})
    drain()
    [first] = started_by("EventSelf")
    assert is_parked(first)
    emission = emit_event("self", {"n": 2})
    assert (emission.woke, emission.started) == (1, 1)


def test_data_that_a_workflow_refuses_starts_the_others_and_warns(caplog: pytest.LogCaptureFixture) -> None:
    class Taking(Workflow):
        name = "EventTaking"
        on_event = "mixed"

        @step
        def only(self, ctx):
            return Done()

    class Refusing(Taking):
        name = "EventRefusing"

    registry.register(replace(Refusing.definition, accepts=read_schema(AMOUNT)))
    with caplog.at_level(logging.WARNING, logger="workflows"):
        assert emit_event("mixed", {"amount": "five"}).started == 1
    assert "does not start workflow 'EventRefusing'" in caplog.text
    assert emit_event("mixed", {"amount": 5}).started == 2


def test_a_workflow_whose_own_query_fails_keeps_the_event_from_nobody(caplog: pytest.LogCaptureFixture) -> None:
    def ask_wrongly(input: Any) -> str:
        with connection.cursor() as cursor:
            cursor.execute("SELECT name FROM nowhere")
        return "key"

    class Asking(Workflow):
        name = "EventAsking"
        on_event = "asked"
        concurrency = Concurrency(ask_wrongly, 5)

        @step
        def only(self, ctx):
            return Done()

    class Plain(Workflow):
        name = "EventBesideAsking"
        on_event = "asked"

        @step
        def only(self, ctx):
            return Done()

    assert emit_event("asked", {"n": 1}, dedup_key="evt_1").started == 1
    assert [one.name for one in NamedEvent.objects.all()] == ["asked"]
    assert len(started_by("EventBesideAsking")) == 1
    assert not started_by("EventAsking")
    assert "does not start workflow 'EventAsking'" in caplog.text


# --- keeping --------------------------------------------------------------------------------------


def test_events_are_deleted_once_nobody_can_look_back_to_them_keys_days_later() -> None:
    emit("paid")
    emit("paid", dedup_key="evt_1")
    db = connections["default"]
    assert store.prune_events(db) == 0
    with override_settings(WORKFLOWS={"EVENT_LOOKBACK": "1h"}):
        advance("61m")
        assert store.prune_events(db) == 1
        advance("3d")
        assert emit_event("paid", dedup_key="evt_1").duplicate
    advance("4d")
    assert store.prune_events(db) == 1
    assert not emit_event("paid", dedup_key="evt_1").duplicate


def test_the_minutes_sweep_deletes_old_events_in_bounded_batches() -> None:
    for n in range(5):
        emit("paid")
        emit("paid", dedup_key=f"evt_{n}")
    advance("8d")
    assert store.prune_events(connections["default"], batch=2, batches=1) == 4
    assert store.prune_events(connections["default"], batch=1, batches=2) == 4
    tasks.sweep()
    assert not NamedEvent.objects.exists()


def test_one_turn_deletes_more_than_one_batch_of_old_events() -> None:
    """A process emits more in a minute than one batch holds."""
    for _ in range(7):
        emit("paid")
    advance("8d")
    assert store.prune_events(connections["default"], batch=3) == 7


# --- how long -------------------------------------------------------------------------------------


class InOrder(Workflow):
    """Waits for one event, and then for another."""

    name = "EventInOrder"

    @step
    def first(self, ctx):
        return Await(event("first"), then="second", timeout="2d")

    @step
    def second(self, ctx):
        return Await(event("second"), then="end", state={"first": ctx.answer}, timeout="2d")

    @step
    def end(self, ctx):
        return Done([ctx.state["first"], ctx.answer])


def test_two_waits_in_sequence_take_events_that_came_in_the_other_order_hours_apart() -> None:
    instance = workflows.start(InOrder)
    drain()
    emit("second", 2)
    advance("2h")
    emit("first", 1)
    drain()
    assert_done(instance, [1, 2])


def test_an_event_is_there_for_a_wait_that_begins_days_after_it() -> None:
    @durable(name="EventAfterSleep")
    def late(ctx):
        ctx.sleep("rest", "6d")
        return ctx.wait_for_event("wait", event="paid", timeout="1h")

    instance = workflows.start(late)
    advance("30m")
    emit("paid", {"n": 1})
    advance("6d")
    assert_done(instance, {"n": 1})


class Sleeper(Workflow):
    """Looks for the event before and after a long time."""

    name = "EventSleeper"

    @step
    def ask(self, ctx):
        if ctx.input.get("early"):
            return Await(event("paid"), then="rest", timeout="1h")
        return Next("listen", delay=ctx.input["rest"])

    @step
    def rest(self, ctx):
        return Next("listen", delay=ctx.input["rest"])

    @step
    def listen(self, ctx):
        return Await(event("paid"), then="end")

    @step
    def end(self, ctx):
        return Done()


@pytest.mark.parametrize(
    ("input", "warned"),
    [
        ({"rest": "6d"}, 0),
        ({"rest": "8d"}, 1),
        ({"rest": "8d", "early": True}, 1),
        ({"rest": "6d", "early": True}, 0),
    ],
    ids=str,
)
def test_a_wait_that_may_have_missed_an_event_says_so_in_the_log(input: Any, warned: int, caplog: Any) -> None:
    instance = workflows.start(Sleeper, input)
    advance("1h")
    advance("9d")
    assert is_parked(instance)
    told = [one.getMessage() for one in caplog.records if "no longer known" in one.getMessage()]
    assert len(told) == warned
    assert all("'paid'" in one and str(instance.pk) in one and "EVENT_LOOKBACK" in one for one in told)


def test_a_loop_that_listens_all_the_time_is_never_warned(caplog: Any) -> None:
    instance = workflows.start(Looper, {"times": 4})
    for n in range(4):
        advance("6d")
        emit("paid", n)
        drain()
    assert_done(instance, [0, 1, 2, 3])
    assert "no longer known" not in caplog.text
