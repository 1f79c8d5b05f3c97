"""Schedules declared in code: made once, changed with the code, and left to whoever changed them at run time."""

from __future__ import annotations

import time

import pytest
from django.db import connections

import workflows
from tests.support.races import COMMITTED, race
from workflows import Done, InvalidDefinition, Machine, Workflow, action, durable, step
from workflows.api.schedule_calls import change_schedule
from workflows.definitions import registry
from workflows.models import Instance, Schedule
from workflows.schedules import declared_schedules, tick_sweep
from workflows.testing import advance, drain


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    """What a test declares is forgotten with it: a declared schedule ticks in every test that moves the clock."""
    monkeypatch.setattr(registry, "_definitions", dict(registry._definitions))
    monkeypatch.setattr(registry, "_latest", dict(registry._latest))
    monkeypatch.setattr(declared_schedules, "_settled", {})
    monkeypatch.setattr(declared_schedules, "_owed", {})


def declare(version: int = 1, **options):
    @durable(name="declared.nightly", version=version, **options)
    def nightly(ctx, kind="short"):
        return [kind, ctx.tick.isoformat()]

    return nightly


def restart():
    """Another process begins with the code as it is now."""
    declared_schedules._settled.clear()
    drain()


@pytest.mark.django_db
def test_every_style_declares_a_schedule():
    declare(cron="0 9 * * 1-5", tz="Europe/Berlin", overlap="allow", catch_up=3)

    class Hourly(Workflow):
        name = "declared.hourly"
        every = "1h"

        @step
        def end(self, ctx):
            return Done(ctx.tick.isoformat())

    class Weekly(Machine):
        name = "declared.weekly"
        cron = "0 9 * * 1"
        tz = "America/New_York"
        overlap = "cancel"
        catch_up = "none"
        report = action(lambda ctx: ctx.tick.isoformat())

    drain()
    found = {one.name: one for one in Schedule.objects.all()}
    nightly, hourly, weekly = (found[name] for name in ("declared.nightly", "declared.hourly", "declared.weekly"))
    assert (nightly.cron, nightly.tz, nightly.overlap, nightly.catch_up) == ("0 9 * * 1-5", "Europe/Berlin", "allow", 3)
    assert (hourly.every.total_seconds(), hourly.overlap, hourly.catch_up) == (3600, "skip", 1)
    assert (weekly.cron, weekly.tz, weekly.overlap, weekly.catch_up) == ("0 9 * * 1", "America/New_York", "cancel", 0)
    assert {one.workspace.slug for one in found.values()} == {"default"}
    assert all(one.declared and not one.edited for one in found.values())
    advance("1h1s")
    [one] = Instance.objects.filter(workflow="declared.hourly")
    assert one.result == one.tick.isoformat()


@pytest.mark.django_db
def test_a_machine_of_a_yaml_file_declares_a_schedule():
    Machine.from_yaml("name: declared.yaml\nevery: 2h\nstages:\n  - end: {sleep: 1s}\n")
    drain()
    assert Schedule.objects.get(name="declared.yaml").every.total_seconds() == 7200


@pytest.mark.django_db
def test_a_declared_schedule_is_made_once():
    declare(every="1h")
    drain()
    made = Schedule.objects.get()
    advance("30m")
    restart()
    assert Schedule.objects.get().next_at == made.next_at


@pytest.mark.django_db
def test_a_declaration_that_changes_changes_its_schedule():
    declare(every="1h")
    drain()
    workflows.disable_schedule("declared.nightly")
    declare(every="2h", version=2)
    restart()
    found = Schedule.objects.get()
    assert (found.every.total_seconds(), found.enabled) == (7200, False)


@pytest.mark.django_db
def test_a_declaration_never_overwrites_what_somebody_changed_at_run_time():
    declare(every="1h")
    drain()
    change_schedule("declared.nightly", {"cron": "0 5 * * *"})
    declare(every="2h", version=2)
    restart()
    found = Schedule.objects.get()
    assert (found.cron, found.every, found.edited) == ("0 5 * * *", None, True)


@pytest.mark.django_db
def test_a_declared_schedule_that_is_only_switched_stays_the_codes():
    nightly = declare(cron="0 9 * * *", tz="Europe/Berlin")
    drain()
    change_schedule("declared.nightly", {"enabled": False})
    change_schedule("declared.nightly", {})
    same = {"cron": "0 9 * * *", "tz": "Europe/Berlin"}
    assert not workflows.schedule("declared.nightly", nightly, **same).edited
    declare(every="2h", version=2)
    restart()
    found = Schedule.objects.get()
    assert (found.every.total_seconds(), found.enabled) == (7200, False)
    workflows.schedule("declared.nightly", nightly, every="2h", input={"kind": "long"})
    assert Schedule.objects.get().edited


@pytest.mark.django_db
def test_a_schedule_that_somebody_switched_off_comes_back_with_its_declaration_switched_off():
    declare(every="1h")
    drain()
    workflows.disable_schedule("declared.nightly")
    declare(version=2)
    restart()
    declare(every="2h", version=3)
    restart()
    assert not Schedule.objects.get().enabled
    advance("3h")
    assert not Instance.objects.filter(workflow="declared.nightly").exists()


@pytest.mark.django_db
def test_a_declared_schedule_that_somebody_removed_is_not_made_again():
    declare(every="1h")
    drain()
    workflows.unschedule("declared.nightly")
    advance("2h")
    declare(every="2h", version=2)
    restart()
    assert not Schedule.objects.exists()
    assert not Instance.objects.filter(workflow="declared.nightly").exists()
    # But by whoever wants it after all.
    again = workflows.schedule("declared.nightly", "declared.nightly", every="3h", input={"kind": "long"})
    assert again.enabled
    advance("3h1s")
    assert Instance.objects.get(workflow="declared.nightly").result[0] == "long"


@pytest.mark.django_db
def test_a_schedule_goes_with_its_declaration_and_comes_back_with_it():
    declare(every="1h")
    drain()
    declare(version=2)
    restart()
    assert not Schedule.objects.exists()
    declare(every="1h", version=3)
    restart()
    assert Schedule.objects.get().enabled


@pytest.mark.django_db
def test_a_schedule_of_somebodys_own_that_has_the_name_stays_theirs():
    plain = declare()
    workflows.schedule("declared.nightly", plain, every="5h")
    declare(every="1h", version=2)
    restart()
    found = Schedule.objects.get()
    assert (found.every.total_seconds(), found.declared) == (5 * 3600, None)


WRONG = [
    ({"cron": "0 0 30 2 *"}, "never fires"),
    ({"cron": "0 9 * * *", "every": "1h"}, "exclude each other"),
    ({"every": "0.1s"}, "not between 1 second"),
    ({"cron": "0 9 * * *", "tz": "Mars/Base"}, "no time zone"),
    ({"every": "1h", "overlap": "never"}, "overlap="),
    ({"every": "1h", "catch_up": -1}, "catch_up="),
    ({"tz": "Europe/Berlin"}, "tz= is of a schedule, and it declares none"),
    ({"overlap": "skip"}, "overlap= is of a schedule"),
    ({"catch_up": 3}, "catch_up= is of a schedule"),
]


@pytest.mark.parametrize(("options", "told"), WRONG, ids=lambda value: str(value)[:40])
def test_a_declaration_that_cannot_be_carried_out_is_refused_by_its_statement(options, told):
    with pytest.raises(InvalidDefinition, match=f"declared.*{told}"):
        declare(**options)
    with pytest.raises(InvalidDefinition, match=told):
        type("Wrong", (Workflow,), {"name": "declared.wrong", "end": step(lambda self, ctx: Done()), **options})
    with pytest.raises(InvalidDefinition, match=told):
        type("WrongMachine", (Machine,), {"name": "declared.machine", "end": action(lambda ctx: None), **options})


def test_a_workflow_that_needs_an_input_cannot_declare_a_schedule():
    with pytest.raises(InvalidDefinition, match=r"starts it with \{\}, and .* amount: is required"):

        @durable(name="declared.needy", every="1h")
        def needy(ctx, amount):
            return amount

    with pytest.raises(InvalidDefinition, match=r"Give what it takes defaults"):

        class Needy(Machine):
            name = "declared.needy_machine"
            every = "1h"
            accepts = {"amount": int}
            end = action(lambda ctx: None)


@COMMITTED
@pytest.mark.usefixtures("committed")
@pytest.mark.parametrize("what", ["made", "changed", "removed"])
def test_a_row_that_somebody_holds_delays_its_own_declaration_and_no_other_schedule(what, monkeypatch):
    """Whether he has it locked, or has made one of the name and not committed that."""

    @durable(name="declared.free")
    def free(ctx):
        return None

    if what != "made":
        declare(every="1h")
        restart()
    if what == "removed":
        declare(version=2)
    else:
        declare(version=2, every="3h")
    durable(name="declared.other", every="5h")(lambda ctx: None)
    workflows.schedule("free", free, every="1h")
    make_due("free")
    declared_schedules._settled.clear()

    def hold():
        if what == "made":
            workflows.schedule("declared.nightly", free, every="7h")
        else:
            assert Schedule.objects.select_for_update().get(name="declared.nightly")

    def pump():
        worked = [tick_sweep.work() for _ in range(3)]
        return worked, tick_sweep.seconds_to_next(connections["default"])

    _, (worked, seconds) = race(hold, pump, waits=False, rollback=True)
    assert worked == [1, 1, 0]
    assert seconds > 0
    assert Instance.objects.filter(started_by="schedule:free").count() == 1
    assert Schedule.objects.filter(name="declared.other").exists()
    now = time.monotonic
    monkeypatch.setattr(time, "monotonic", lambda: now() + 10)
    assert tick_sweep.seconds_to_next(connections["default"]) == 0
    tick_sweep.work()
    assert tick_sweep.seconds_to_next(connections["default"]) > 0
    left = [one.every.total_seconds() for one in Schedule.objects.filter(name="declared.nightly")]
    assert left == ([] if what == "removed" else [3 * 3600])


def make_due(name):
    """As if it had been made an hour earlier."""
    with connections["default"].cursor() as cursor:
        cursor.execute(
            "UPDATE holdpoint_schedule SET anchor_at = anchor_at - (next_at - now()), next_at = now() WHERE name = %s",
            [name],
        )
