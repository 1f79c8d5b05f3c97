"""Firing: overlap, missed ticks, what cannot be started, and the cost of a batch."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, connection, connections, transaction

import workflows
from tests.support.statements import statements
from workflows import Await, Concurrency, Done, Rate, Workflow, durable, step, store
from workflows.clock import read_now
from workflows.definitions import registry
from workflows.lifecycle import Status
from workflows.models import Instance, Schedule, ScheduleTick
from workflows.schedules import tick_sweep
from workflows.testing import _skew, advance, drain

pytestmark = pytest.mark.django_db


class Quick(Workflow):
    name = "ticks.quick"

    @step
    def end(self, ctx):
        return Done()


class Lasting(Workflow):
    name = "ticks.lasting"

    @step
    def wait(self, ctx):
        return Await("go", then="end")

    @step
    def end(self, ctx):
        return Done()


def jump(duration: timedelta) -> None:
    """Nobody fires anything meanwhile."""
    _skew(connections["default"], duration.total_seconds())


def list_outcomes(name: str) -> list[str]:
    return list(ScheduleTick.objects.filter(schedule__name=name).order_by("at").values_list("outcome", flat=True))


def list_started(name: str) -> list[Instance]:
    return list(Instance.objects.filter(started_by=f"schedule:{name}").order_by("id"))


def test_overlap_skip_skips_while_the_last_one_lives():
    workflows.schedule("lasting", Lasting, every="10m", overlap="skip")
    advance("25m")
    [one] = list_started("lasting")
    assert list_outcomes("lasting") == ["started", "skipped"]
    workflows.signal(one, "go")
    advance("10m")
    assert len(list_started("lasting")) == 2


def test_overlap_allow_starts_beside_the_last_one():
    workflows.schedule("lasting", Lasting, every="10m", overlap="allow")
    advance("35m")
    assert [one.status for one in list_started("lasting")] == [Status.AWAITING] * 3


def test_overlap_cancel_cancels_the_last_one():
    workflows.schedule("lasting", Lasting, every="10m", overlap="cancel")
    advance("25m")
    first, second = list_started("lasting")
    assert (first.status, first.error) == (Status.CANCELLED, "its schedule has started the next one")
    assert first.events.last().actor == "schedule:lasting"
    assert second.status == Status.AWAITING


@pytest.mark.parametrize(
    ("catch_up", "expected"), [("none", []), ("last", [5]), (3, [3, 4, 5]), (100, [1, 2, 3, 4, 5])]
)
def test_missed_ticks_are_made_up_for_in_their_order(catch_up, expected):
    made = workflows.schedule("quick", Quick, every="10m", overlap="allow", catch_up=catch_up)
    jump(timedelta(minutes=55))
    drain()
    ticks = [(one.tick - made.anchor_at) / timedelta(minutes=10) for one in list_started("quick")]
    assert ticks == expected
    made.refresh_from_db()
    assert made.next_at == made.anchor_at + timedelta(hours=1)
    assert made.last_at == (made.anchor_at + timedelta(minutes=50) if expected else None)


@pytest.mark.parametrize("catch_up", ["none", "last", 2])
def test_no_tick_of_the_last_minute_is_missed_however_many_there_were(catch_up):
    made = workflows.schedule("quick", Quick, every="10s", overlap="allow", catch_up=catch_up)
    jump(timedelta(seconds=45))
    drain()
    assert [(one.tick - made.anchor_at).seconds for one in list_started("quick")] == [10, 20, 30, 40]
    # Those before are: of the hour that follows the last minute fires.
    jump(timedelta(hours=1))
    drain()
    assert [(one.tick - made.anchor_at).seconds for one in list_started("quick")][4:] == list(range(3590, 3650, 10))


def test_of_ticks_of_the_last_minute_that_exclude_each_other_one_starts():
    workflows.schedule("lasting", Lasting, every="10s", overlap="skip")
    jump(timedelta(seconds=45))
    drain()
    assert list_outcomes("lasting") == ["started", "skipped", "skipped", "skipped"]


def test_ticks_whose_inputs_are_large_are_not_all_held_at_once():
    """Each is carried out all the same, once and in its order."""
    many = {"catch_up": 50, "overlap": "allow", "input": {"text": "x" * 200_000}}
    for name in ("large", "other"):
        workflows.schedule(name, Quick, every="10s", **many)
    jump(timedelta(seconds=505))
    assert tick_sweep.work() == 1
    assert 0 < Instance.objects.count() < 50
    while tick_sweep.work():
        pass
    for name in ("large", "other"):
        assert list_outcomes(name) == ["started"] * 50
        ticks = [one.tick for one in list_started(name)]
        assert ticks == sorted(set(ticks))
        assert len(ticks) == 50


def test_of_schedules_whose_inputs_are_large_no_more_are_read_than_can_start():
    noise = random.Random(7)
    for n in range(10):
        workflows.schedule(f"heavy-{n}", Quick, every="1h", input={"noise": noise.randbytes(50_000).hex()})
    jump(timedelta(hours=1, seconds=1))
    _, read = store.lock_due_schedules(connections["default"], ["ticks.quick"], 100, 250_000)
    assert 2 <= len(read) <= 5  # what a row takes depends on how well it is packed
    _, read = store.lock_due_schedules(connections["default"], ["ticks.quick"], 100, 1)
    assert len(read) == 1
    advance("1s")
    assert Instance.objects.count() == 10


def test_a_tick_that_is_a_little_late_is_not_missed():
    workflows.schedule("quick", Quick, every="10m", catch_up="none")
    jump(timedelta(minutes=10, seconds=50))
    drain()
    assert len(list_started("quick")) == 1


@pytest.mark.parametrize(
    ("overlap", "outcomes"),
    [("skip", ["started", "skipped", "skipped"]), ("cancel", ["skipped", "skipped", "started"])],
)
def test_of_missed_ticks_that_exclude_each_other_one_starts(overlap, outcomes):
    workflows.schedule("lasting", Lasting, every="10m", overlap=overlap, catch_up=3)
    jump(timedelta(minutes=35))
    drain()
    assert list_outcomes("lasting") == outcomes
    assert [one.status for one in list_started("lasting")] == [Status.AWAITING]


def test_a_year_of_missed_minutes_is_looked_through_from_its_end():
    workflows.schedule("quick", Quick, cron="* * * * *", tz="Europe/Berlin", catch_up=2)
    jump(timedelta(days=365))
    with statements(4):
        tick_sweep.work()
    assert len(list_outcomes("quick")) == 2


def test_a_clock_that_is_put_back_fires_no_tick_twice():
    workflows.schedule("quick", Quick, every="10m", overlap="allow")
    advance("20m1s")
    jump(-timedelta(minutes=19))
    drain()
    advance("18m")
    assert len(list_started("quick")) == 2
    advance("11m2s")
    assert len(list_started("quick")) == 3


def test_a_tick_that_was_written_before_starts_nothing():
    """The row of the tick decides, whatever the schedule says."""
    made = workflows.schedule("quick", Quick, every="10m", overlap="allow")
    advance("10m1s")
    with connections["default"].cursor() as cursor:
        cursor.execute("UPDATE holdpoint_schedule SET next_at = last_at")
    drain()
    [one] = list_started("quick")
    made.refresh_from_db()
    assert made.last_instance == one.pk
    assert made.next_at > read_now()


def test_a_schedule_that_cannot_start_says_why_and_keeps_none_of_the_others():
    @durable(name="ticks.changing")
    def changing(ctx):
        return None

    workflows.schedule("changing", changing, every="10m")
    workflows.schedule("quick", Quick, every="10m")

    @durable(name="ticks.changing", version=2)
    def changed(ctx, amount):
        return amount

    advance("10m1s")
    broken = Schedule.objects.get(name="changing")
    assert "amount: is required" in broken.error
    assert list_outcomes("changing") == ["refused"]
    assert len(list_started("quick")) == 1
    assert broken.next_at > read_now()
    workflows.schedule("changing", changed, every="10m", input={"amount": 3})
    advance("10m")
    assert [one.result for one in list_started("changing")] == [3]
    broken.refresh_from_db()
    assert broken.error is None


def ask_wrongly(input: Any) -> str:
    """As an author who looks a key up, in a table that is not there any more."""
    if input.get("wrong"):
        with connection.cursor() as cursor:
            cursor.execute("SELECT name FROM nowhere")
    return "key"


def ask_wrongly_and_hide_it(input: Any) -> str:
    try:
        return ask_wrongly(input)
    except DatabaseError:
        return "unknown"


def ask_wrongly_within(input: Any) -> str:
    """Its inner block marks the outer one as broken."""
    try:
        with transaction.atomic(savepoint=False):
            return ask_wrongly(input)
    except DatabaseError:
        return "unknown"


#: Where an author's own query is made: for a limit, for the turn, for a rate.
WRONG: dict[str, dict[str, Any]] = {
    "concurrency": {"concurrency": Concurrency(ask_wrongly, 5)},
    "fair_by": {"fair_by": ask_wrongly_and_hide_it},
    "rate": {"rate": Rate("ticks.wrong", 5, per="1s", key=ask_wrongly_within)},
}


def define_wrong(option: str) -> type[Workflow]:
    """A workflow of one test: while it is there, any name may be a key of its limit."""

    class Wrong(Workflow):
        name = f"ticks.wrong_{option}"
        concurrency = WRONG[option].get("concurrency")
        fair_by = WRONG[option].get("fair_by")
        rate = WRONG[option].get("rate")

        @step
        def end(self, ctx):
            return Done()

    return Wrong


def make_wrong(workflow: type[Workflow], **options: Any) -> Schedule:
    """A schedule whose author's query begins to fail after it was made."""
    made = workflows.schedule(workflow.name, workflow, every="10m", **options)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_schedule SET input = '{\"wrong\": true}' WHERE id = %s", [made.pk])
    return made


@pytest.mark.parametrize("option", WRONG)
def test_an_authors_query_that_fails_keeps_none_of_the_other_schedules(option: str):
    wrong = define_wrong(option)
    for name in ("first", "last"):
        workflows.schedule(name, Quick, every="10m")
        if name == "first":
            made = make_wrong(wrong)
    advance("10m1s")
    assert [len(list_started(name)) for name in ("first", "last")] == [1, 1]
    made.refresh_from_db()
    assert made.next_at > read_now()
    assert (list_outcomes(wrong.name), bool(made.error)) in ((["refused"], True), (["started"], False))
    if option == "concurrency":
        assert "nowhere" in made.error
        assert not list_started(wrong.name)


def test_a_schedule_that_cannot_start_the_next_one_cancels_nothing():
    class WrongLater(Workflow):
        name = "ticks.wrong_later"
        concurrency = Concurrency(ask_wrongly, 5)

        @step
        def wait(self, ctx):
            return Await("go", then="wait")

    workflows.schedule("ticks.wrong_later", WrongLater, every="10m", overlap="cancel")
    advance("10m1s")
    make_wrong(WrongLater, overlap="cancel")
    advance("10m")
    [one] = list_started("ticks.wrong_later")
    assert one.status == Status.AWAITING
    assert list_outcomes("ticks.wrong_later") == ["started", "refused"]


def test_a_schedule_of_a_workflow_that_is_not_known_here_is_left_to_others(monkeypatch):
    workflows.schedule("quick", Quick, every="10m")
    jump(timedelta(minutes=11))
    latest = {name: one for name, one in registry._latest.items() if name != "ticks.quick"}
    with monkeypatch.context() as patch:
        patch.setattr(registry, "_latest", latest)
        drain()
        assert not list_started("quick")
    drain()
    assert len(list_started("quick")) == 1


@pytest.mark.parametrize("count", [3, 60])
def test_a_batch_takes_the_same_statements_however_many_are_due(count):
    for number in range(count):
        workflows.schedule(f"quick {number}", Quick, cron="* * * * *", tz="UTC")
    drain()
    jump(timedelta(minutes=1))
    with statements(4):  # what is due, their ticks, instances, and the next ticks
        assert tick_sweep.work() == count
    assert Instance.objects.filter(workflow="ticks.quick").count() == count


def test_old_ticks_are_forgotten():
    workflows.schedule("quick", Quick, every="1d")
    advance("10d1s")
    assert store.prune_ticks(connections["default"]) == 3
    assert len(list_outcomes("quick")) == 7
