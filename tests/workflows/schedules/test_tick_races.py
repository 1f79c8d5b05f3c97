"""Schedules on two real connections: one tick, whoever fires it and whatever dies."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection, connections, transaction
from django.db.models.functions import Now

import workflows
from tests.support.api_calls import Api, make_key, problem
from tests.support.pumps import pumping
from tests.support.races import COMMITTED, PATIENCE, Other, Refused, race, run_threads
from workflows import Await, Done, Workflow, step, store
from workflows.models import Instance, Schedule, ScheduleTick
from workflows.schedules import tick_sweep

pytestmark = COMMITTED


class Raced(Workflow):
    name = "tick_races.raced"

    @step
    def end(self, ctx):
        return Done()


class Waiting(Workflow):
    name = "tick_races.waiting"

    @step
    def wait(self, ctx):
        return Await("go", then="wait")


@pytest.fixture(autouse=True)
def settled(transactional_db: None) -> None:
    """What code declares is dealt with."""
    tick_sweep.work()


def make_due(*names: str) -> None:
    """As if they had been made so much earlier."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE holdpoint_schedule SET anchor_at = anchor_at - (next_at - now()), next_at = now() "
            "WHERE name = ANY(%s)",
            [list(names)],
        )


def count_started() -> int:
    return Instance.objects.filter(started_by__startswith="schedule:").count()


def test_two_pumps_fire_a_tick_once():
    workflows.schedule("one", Raced, every="1h")
    workflows.schedule("two", Raced, every="1h")
    make_due("one")
    held, second = race(tick_sweep.work, tick_sweep.work, waits=False)
    assert (held, second) == (1, 0)
    assert count_started() == 1


def test_a_pump_that_takes_no_lock_is_stopped_by_the_row_of_the_tick(monkeypatch):
    """Were the schedule not locked, its tick would still start one instance: the second waits for the first's row."""
    workflows.schedule("one", Raced, every="1h")
    make_due("one")
    from workflows.store.schedules import due_ticks

    monkeypatch.setattr(due_ticks, "_LOCK", due_ticks._LOCK.replace("FOR NO KEY UPDATE SKIP LOCKED", ""))
    race(tick_sweep.work, tick_sweep.work)
    assert count_started() == 1
    assert ScheduleTick.objects.count() == 1


def test_a_pump_that_dies_between_tick_and_start_leaves_the_tick_to_another():
    made = workflows.schedule("one", Raced, every="1h")
    make_due("one")
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("LOCK TABLE holdpoint_instance IN SHARE MODE")  # the tick is written, its instance waits
        dying = Other(tick_sweep.work)
        dying.wait_until_blocked()
        cursor.execute("SELECT pg_terminate_backend(%s)", [dying.pid])
        assert isinstance(dying.join(), Refused)
    assert not ScheduleTick.objects.exists()
    assert tick_sweep.work() == 1
    [tick] = ScheduleTick.objects.all()
    assert Instance.objects.get().pk == tick.instance
    made.refresh_from_db()
    assert made.last_instance == tick.instance


def test_whoever_switches_a_schedule_off_waits_for_its_tick_and_there_is_no_other():
    workflows.schedule("one", Raced, every="1h")
    make_due("one")
    fired, off = race(tick_sweep.work, lambda: workflows.disable_schedule("one"))
    assert fired == 1
    assert (off.enabled, off.next_at) == (False, None)
    assert tick_sweep.work() == 0
    assert count_started() == 1


def test_a_schedule_that_is_being_switched_off_does_not_fire():
    workflows.schedule("one", Raced, every="1h")
    make_due("one")
    _, fired = race(lambda: workflows.disable_schedule("one"), tick_sweep.work, waits=False)
    assert fired == 0
    assert tick_sweep.work() == 0
    assert count_started() == 0


def test_a_schedule_that_is_removed_while_it_fires_is_gone_afterwards():
    workflows.schedule("one", Raced, every="1h")
    make_due("one")
    fired, _ = race(tick_sweep.work, lambda: workflows.unschedule("one"))
    assert fired == 1
    assert count_started() == 1
    assert not Schedule.objects.exists()
    assert not ScheduleTick.objects.exists()


def test_two_callers_make_one_schedule():
    first, second = race(
        lambda: workflows.schedule("one", Raced, every="1h").pk, lambda: workflows.schedule("one", Raced, every="2h").pk
    )
    assert first == second
    assert Schedule.objects.get().every.total_seconds() == 7200


def test_running_now_waits_for_a_tick_and_then_obeys_overlap():
    workflows.schedule("one", Waiting, every="1h", overlap="skip")
    make_due("one")
    fired, run = race(tick_sweep.work, lambda: workflows.run_schedule("one"))
    assert fired == 1
    assert run == Refused(workflows.ScheduleBusy)
    assert count_started() == 1


def test_an_instance_that_is_held_keeps_its_cancelling_tick_waiting_and_no_other():
    workflows.schedule("held", Waiting, every="1h", overlap="cancel")
    workflows.schedule("free", Raced, every="1h")
    make_due("held")
    tick_sweep.work()
    [held] = Instance.objects.filter(started_by="schedule:held")
    make_due("held", "free")

    def hold() -> None:
        store.fetch(
            connections["default"], "SELECT 1 FROM holdpoint_instance WHERE id = %(id)s FOR UPDATE", {"id": held.pk}
        )

    race(hold, tick_sweep.work)
    held.refresh_from_db()
    assert held.status == "cancelled"
    assert Instance.objects.filter(started_by="schedule:free").count() == 1
    assert Instance.objects.filter(started_by="schedule:held").count() == 2


def test_many_pumps_fire_many_schedules_once_each():
    names = [f"one {number}" for number in range(40)]
    for name in names:
        workflows.schedule(name, Raced, every="1h")
    make_due(*names)
    run_threads([tick_sweep.work] * 4, patience=PATIENCE)
    while tick_sweep.work():
        pass
    assert count_started() == len(names)
    assert ScheduleTick.objects.count() == len(names)


def test_a_pump_fires_ticks_by_itself():
    workflows.schedule("one", Raced, every="1h")
    with pumping():
        make_due("one")
        until = Other(lambda: wait_for_one())
        assert until.join() == 1


def wait_for_one() -> int:
    import time

    until = time.monotonic() + PATIENCE
    while not Instance.objects.filter(status="done").exists() and time.monotonic() < until:
        time.sleep(0.02)
    return Instance.objects.filter(status="done").count()


@pytest.mark.parametrize("many", [1, 3])
def test_a_last_instance_that_somebody_holds_delays_its_own_schedule_and_no_other(many, monkeypatch):
    monkeypatch.setattr(tick_sweep, "_resting", {})
    monkeypatch.setattr(tick_sweep, "MOST_IN_VAIN", 2)
    held = [f"held{n}" for n in range(many)]
    for name in (*held, "free", "other"):
        workflows.schedule(name, Waiting, every="1h", overlap="allow" if name == "other" else "cancel")
    make_due(*held, "free", "other")
    assert tick_sweep.work() == many + 2
    make_due(*held, "free", "other")

    def hold():
        last = Schedule.objects.filter(name__in=held).values("last_instance")
        return len(Instance.objects.filter(pk__in=last).select_for_update())

    def fire():
        return [tick_sweep.work() for _ in range(3)]

    locked, fired = race(hold, fire, waits=False)
    assert (locked, sum(fired)) == (many, 2)
    assert set(Schedule.objects.filter(next_at__lte=Now()).values_list("name", flat=True)) == set(held)
    tick_sweep._resting.clear()  # as if the time were over
    assert sum(tick_sweep.work() for _ in range(2)) == many
    assert Instance.objects.filter(status="cancelled").count() == many + 1
    assert not Schedule.objects.exclude(error=None).exists()


@pytest.mark.parametrize("call", ["change", "run", "remove"])
def test_a_key_acts_on_no_schedule_that_becomes_another_workflows_meanwhile(call: str, settings: Any) -> None:
    settings.MIDDLEWARE, settings.ROOT_URLCONF = [], "workflows.urls"  # all that `COMMITTED` leaves
    settings.WORKFLOWS = {**settings.WORKFLOWS, "API_RATE": None}
    workflows.schedule("one", Raced, every="1h")
    narrow = Api(make_key(workflows=["tick_races.raced"]))
    calls = {
        "change": lambda: narrow.patch("/v1/schedules/one", {"every": "2h"}),
        "run": lambda: narrow.post("/v1/schedules/one/run", {}),
        "remove": lambda: narrow.call("DELETE", "/v1/schedules/one"),
    }
    with transaction.atomic():
        workflows.schedule("one", Waiting, every="1h")
        acting = Other(calls[call])
        acting.wait_until_blocked()
    problem(acting.join(), 404, "not-found")
    kept = Schedule.objects.get(name="one")
    assert (kept.workflow, kept.every.total_seconds(), kept.removed_at) == ("tick_races.waiting", 3600, None)
    assert not Instance.objects.exists()
