"""Schedules over Python: made, changed, switched, removed, run now; and what is refused where it is written."""

from __future__ import annotations

from datetime import UTC, timedelta

import pytest
from django.db import connection, transaction

import workflows
from workflows import (
    Await,
    Done,
    DuplicateSchedule,
    InvalidCall,
    InvalidInput,
    InvalidSchedule,
    ScheduleBusy,
    UnknownSchedule,
    UnknownWorkflow,
    UnknownWorkspace,
    Workflow,
    durable,
    step,
)
from workflows.api.schedule_calls import change_schedule, create_schedule
from workflows.clock import read_now
from workflows.exceptions import EngineOwned
from workflows.lifecycle import Status
from workflows.models import Instance, Schedule, ScheduleTick
from workflows.testing import advance, drain

pytestmark = pytest.mark.django_db


class Report(Workflow):
    name = "schedules.report"

    @step
    def write(self, ctx):
        return Done({"tick": ctx.tick and ctx.tick.isoformat(), "input": ctx.input})


class Endless(Workflow):
    name = "schedules.endless"

    @step
    def wait(self, ctx):
        return Await("never", then="wait")


@durable(name="schedules.greet")
def greet(ctx, name, greeting="hello"):
    return f"{greeting} {name}"


def list_started(workflow: object) -> list[Instance]:
    return list(Instance.objects.filter(workflow=workflow.definition.name).order_by("tick"))


def test_a_schedule_starts_an_instance_per_tick():
    before = read_now()
    made = workflows.schedule("reports", Report, every="10m", input={"kind": "short"})
    assert made.next_at - timedelta(minutes=10) >= before
    assert (made.enabled, made.overlap, made.catch_up, made.tz) == (True, "skip", 1, "UTC")
    advance("31m")
    first, second, third = list_started(Report)
    assert [second.tick - first.tick, third.tick - second.tick] == [timedelta(minutes=10)] * 2
    assert first.tick == made.next_at
    assert {one.started_by for one in (first, second, third)} == {"schedule:reports"}
    assert third.result == {"tick": third.tick.astimezone(UTC).isoformat(), "input": {"kind": "short"}}
    made.refresh_from_db()
    assert (made.last_at, made.last_instance) == (third.tick, third.pk)
    assert made.next_at == third.tick + timedelta(minutes=10)


def test_ticks_of_several_schedules_fire_in_their_order():
    workflows.schedule("slow", Report, every="7m", input={"of": "slow"})
    workflows.schedule("quick", Report, every="3m", input={"of": "quick"})
    advance("14m30s")
    order = [one.input["of"] for one in Instance.objects.order_by("id")]
    assert order == ["quick", "quick", "slow", "quick", "quick", "slow"]


def test_the_same_call_again_changes_nothing_and_moves_no_tick():
    first = workflows.schedule("reports", Report, every="1h", input={"a": 1})
    advance("30m")
    again = workflows.schedule("reports", Report, every="60m", input={"a": 1})
    assert (again.pk, again.next_at, again.anchor_at) == (first.pk, first.next_at, first.anchor_at)
    other = workflows.schedule("reports", Report, every="1h", input={"a": 2}, overlap="allow")
    assert (other.next_at, other.overlap, other.input) == (first.next_at, "allow", {"a": 2})
    moved = workflows.schedule("reports", Report, every="2h")
    assert moved.next_at == moved.anchor_at + timedelta(hours=2) > first.next_at


def test_a_schedule_that_is_switched_off_has_no_tick_and_misses_none():
    workflows.schedule("reports", Report, every="10m", catch_up=5)
    off = workflows.disable_schedule("reports")
    assert (off.enabled, off.next_at) == (False, None)
    advance("1h1s")
    assert not list_started(Report)
    on = workflows.enable_schedule("reports")
    assert on.next_at == on.anchor_at + timedelta(minutes=70)
    advance("9m50s")
    assert not list_started(Report)
    advance("10s")
    assert len(list_started(Report)) == 1


def test_a_changed_schedule_that_is_off_stays_off():
    workflows.schedule("reports", Report, every="10m")
    workflows.disable_schedule("reports")
    assert not workflows.schedule("reports", Report, every="20m").enabled


def test_a_removed_schedule_is_gone_and_what_it_has_started_goes_on():
    workflows.schedule("reports", Endless, every="10m")
    advance("10m1s")
    workflows.unschedule("reports")
    assert not Schedule.objects.exists()
    assert not ScheduleTick.objects.exists()
    advance("1h")
    [one] = list_started(Endless)
    assert one.status == Status.AWAITING
    with pytest.raises(UnknownSchedule, match="no schedule of this workspace is called 'reports'"):
        workflows.unschedule("reports")


def test_a_schedule_runs_now_beside_its_ticks():
    made = workflows.schedule("reports", Report, every="1h", input={"a": 1}, overlap="allow")
    before, due = read_now(), made.next_at
    one = workflows.run_schedule("reports", actor="user:7")
    assert (one.workflow, one.input, one.started_by) == ("schedules.report", {"a": 1}, "user:7")
    assert before <= one.tick <= read_now()
    made.refresh_from_db()
    assert (made.last_instance, made.next_at, made.last_at) == (one.pk, due, None)
    assert workflows.run_schedule("reports").started_by == "schedule:reports"
    assert ScheduleTick.objects.filter(outcome="started").count() == 2


def test_running_now_obeys_overlap():
    workflows.schedule("one", Endless, every="1h", overlap="skip")
    first = workflows.run_schedule("one")
    with pytest.raises(ScheduleBusy, match=f"instance {first.pk}, which it started last, has not ended"):
        workflows.run_schedule("one")
    workflows.schedule("one", Endless, every="1h", overlap="cancel")
    second = workflows.run_schedule("one")
    first.refresh_from_db()
    assert (first.status, first.error) == (Status.CANCELLED, "its schedule was run anew")
    workflows.schedule("one", Endless, every="1h", overlap="allow")
    workflows.run_schedule("one")
    second.refresh_from_db()
    assert second.status == Status.RUNNABLE


@pytest.mark.parametrize("overlap", ["skip", "cancel"])
def test_what_another_workflow_runs_neither_skips_a_tick_nor_is_cancelled(overlap):
    made = workflows.schedule("one", Endless, every="1h", overlap=overlap)
    first = workflows.run_schedule("one")
    changed = change_schedule("one", {"workflow": "schedules.report"})
    assert changed.last_instance is None
    # As the rows are that an earlier version has changed.
    with connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_schedule SET last_instance = %s WHERE id = %s", [first.pk, made.pk])
    assert workflows.run_schedule("one").workflow == "schedules.report"
    advance("1h1s")
    first.refresh_from_db()
    assert first.status == Status.AWAITING
    assert len(list_started(Report)) == 2


def test_runs_of_one_moment_have_a_tick_each():
    workflows.schedule("one", Report, every="1h", overlap="allow")
    moment = f"SELECT ''{read_now().isoformat()}''::timestamptz"
    with connection.cursor() as cursor:  # a clock that stands still
        cursor.execute(
            f"CREATE OR REPLACE FUNCTION holdpoint_clock() RETURNS timestamptz LANGUAGE sql VOLATILE AS '{moment}'"
        )
    runs = [workflows.run_schedule("one") for _ in range(3)]
    found = ScheduleTick.objects.filter(outcome="started").order_by("at")
    assert [(tick.at, tick.instance) for tick in found] == [(one.tick, one.pk) for one in runs]
    assert len({one.tick for one in runs}) == 3


def test_the_next_ticks_are_told():
    workflows.schedule("weekdays", Report, cron="0 9 * * 1-5", tz="Europe/Berlin")
    ticks = workflows.list_next_ticks("weekdays")
    assert len(ticks) == 5
    assert ticks[0] == Schedule.objects.get().next_at
    assert all(tick.weekday() < 5 and tick.tzinfo is UTC for tick in ticks)
    workflows.disable_schedule("weekdays")
    assert workflows.list_next_ticks("weekdays", 2) == ticks[:2]


def test_a_schedule_belongs_to_its_workspace():
    workflows.workspace.create("acme")
    workflows.schedule("reports", Report, every="10m", workspace="acme", input={"of": "acme"})
    workflows.schedule("reports", Report, every="10m", input={"of": "default"})
    with pytest.raises(UnknownWorkspace):
        workflows.schedule("reports", Report, every="10m", workspace="nowhere")
    advance("10m1s")
    assert {one.workspace.slug: one.input["of"] for one in list_started(Report)} == {
        "acme": "acme",
        "default": "default",
    }
    with workflows.workspace("acme"):
        workflows.unschedule("reports")
    assert [one.workspace.slug for one in Schedule.objects.all()] == ["default"]


def test_a_cron_expression_without_a_zone_speaks_of_the_projects_own(settings):
    settings.TIME_ZONE = "Asia/Tokyo"
    made = workflows.schedule("reports", Report, cron="0 9 * * *")
    assert made.tz == "Asia/Tokyo"
    assert made.next_at.astimezone(UTC).hour == 0


WRONG = [
    ({"cron": "0 0 30 2 *"}, "never fires"),
    ({"cron": "0 0 31 4,6 *"}, "never fires"),
    ({"cron": "61 * * * *"}, "cannot be read"),
    ({"cron": "every day"}, "cannot be read"),
    ({"cron": ""}, "cannot be read"),
    ({"cron": "* * * *"}, "five fields"),
    ({"cron": 5}, "must be text"),
    ({"cron": "0" * 300}, "limit is 200"),
    ({}, "neither cron= nor every="),
    ({"cron": "0 9 * * *", "every": "1h"}, "exclude each other"),
    ({"cron": "0 9 * * *", "tz": "Europe/Nowhere"}, "no time zone that is known here"),
    ({"cron": "0 9 * * *", "tz": "a/" * 400}, "no time zone that is known here"),
    ({"cron": "0 9 * * *", "tz": "../etc/passwd"}, "no time zone that is known here"),
    ({"cron": "0 9 * * *", "tz": "localtime"}, "no time zone that is known here"),
    ({"cron": "0 9 * * *", "tz": 5}, "is no text"),
    ({"every": "1h", "tz": "Europe/Berlin"}, "knows no time zone"),
    ({"every": "0.5s"}, "not between 1 second"),
    ({"every": 0}, "longer than zero"),
    ({"every": "soon"}, "not a usable duration"),
    ({"every": "1000000d"}, "not between 1 second"),
    ({"every": "1h", "overlap": "queue"}, 'write "allow", "skip" or "cancel"'),
    ({"every": "1h", "overlap": None}, 'write "allow", "skip" or "cancel"'),
    ({"every": "1h", "catch_up": "all"}, "from 1 to 1000"),
    ({"every": "1h", "catch_up": 0}, "from 1 to 1000"),
    ({"every": "1h", "catch_up": True}, "from 1 to 1000"),
    ({"every": "1h", "catch_up": 1001}, "from 1 to 1000"),
]


@pytest.mark.parametrize(("options", "told"), WRONG, ids=lambda value: str(value)[:40])
def test_times_that_cannot_be_carried_out_are_refused_where_they_are_written(options, told):
    with pytest.raises(InvalidSchedule, match=told):
        workflows.schedule("reports", Report, **options)
    assert not Schedule.objects.exists()


def test_an_input_that_the_workflow_refuses_is_refused_where_it_is_written():
    with pytest.raises(InvalidInput, match="name: is required"):
        workflows.schedule("greetings", greet, every="1h")
    made = workflows.schedule("greetings", greet, every="1h", input={"name": "Ada"})
    assert made.workflow == "schedules.greet"
    advance("1h1s")
    assert [one.result for one in list_started(greet)] == ["hello Ada"]


@pytest.mark.parametrize("name", ["", " reports", "reports/run", "a\0b", "a\nb", "..", "a/../b", "a/.", 5, "n" * 201])
def test_a_name_that_cannot_be_an_address_is_refused(name):
    with pytest.raises(InvalidCall):
        workflows.schedule(name, Report, every="1h")


def test_an_unknown_workflow_is_refused():
    with pytest.raises(UnknownWorkflow):
        workflows.schedule("reports", "no.such", every="1h")


@pytest.mark.parametrize("call", [workflows.run_schedule, workflows.enable_schedule, workflows.disable_schedule])
def test_a_schedule_that_is_not_there_is_told(call):
    for name in ("reports", "a\0b"):
        with pytest.raises(UnknownSchedule):
            call(name)


def test_fields_are_changed_one_by_one():
    create_schedule("reports", {"workflow": "schedules.report", "every": "1h", "enabled": False})
    with pytest.raises(DuplicateSchedule):
        create_schedule("reports", {"workflow": "schedules.report", "every": "1h"})
    made = change_schedule("reports", {"cron": "0 9 * * *", "tz": "Europe/Berlin"})
    assert (made.cron, made.every, made.tz, made.enabled) == ("0 9 * * *", None, "Europe/Berlin", False)
    made = change_schedule("reports", {"enabled": True, "catch_up": "none"})
    assert (made.enabled, made.catch_up, made.tz) == (True, 0, "Europe/Berlin")
    made = change_schedule("reports", {"every": 90})
    assert (made.cron, made.every, made.tz) == (None, timedelta(seconds=90), "UTC")
    with pytest.raises(InvalidSchedule, match="it has no name"):
        change_schedule("reports", {"name": "other"})
    with pytest.raises(InvalidCall, match="enabled is True or False"):
        change_schedule("reports", {"enabled": "no"})
    with pytest.raises(UnknownSchedule):
        change_schedule("others", {"enabled": True})


def test_a_row_is_written_by_the_calls_only():
    made = workflows.schedule("reports", Report, every="1h")
    with pytest.raises(EngineOwned, match=r"workflows\.schedule\(\)"):
        made.save()
    with pytest.raises(EngineOwned):
        Schedule.objects.all().delete()


def test_a_roll_back_takes_the_schedule_with_it():
    with transaction.atomic():
        workflows.schedule("reports", Report, every="10m")
        transaction.set_rollback(True)
    assert drain() == {}
    assert not Schedule.objects.exists()
