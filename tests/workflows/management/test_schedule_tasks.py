"""`manage.py workflows schedules` and `schedule`: what they print, do and refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import CommandError

import workflows
from tests.support.command_line import worker  # noqa: F401 (a fixture)
from workflows import Await, Workflow, durable, step
from workflows.models import Instance, Schedule
from workflows.testing import advance

pytestmark = pytest.mark.django_db

Run = Callable[..., str]


class CommandLasting(Workflow):
    name = "command.lasting"

    @step
    def wait(self, ctx: Any) -> Await:
        return Await("go", then="wait")


@durable(name="command.greet")
def greet(ctx, name="Ada"):
    return name


def test_schedules_are_listed_with_their_ticks(run: Run) -> None:
    assert run("schedules").strip() == "No schedules."
    workflows.schedule("nightly", greet, cron="0 3 * * *", tz="Europe/Berlin")
    workflows.schedule("often", CommandLasting, every="15m")
    workflows.disable_schedule("nightly")
    advance("16m")
    head, nightly, often = run("schedules").splitlines()
    assert head.split()[:4] == ["schedule", "workflow", "times", "state"]
    assert nightly.split() == ["nightly", "command.greet", "0", "3", "*", "*", "*", "Europe/Berlin", "disabled"]
    assert often.split()[:5] == ["often", "command.lasting", "every", "0:15:00", "enabled"]
    assert run("schedules", "--workflow", "command.greet").count("\n") == 2
    assert "there are more" in run("schedules", "--limit", 1)
    rows = json.loads(run("schedules", "--json"))
    assert [(row["name"], row["enabled"], len(row["next_ticks"])) for row in rows] == [
        ("nightly", False, 5),
        ("often", True, 5),
    ]


def test_one_is_shown_with_its_next_and_its_last_ticks(run: Run) -> None:
    workflows.schedule("often", CommandLasting, every="15m", input={"a": 1}, catch_up=3)
    advance("31m")
    shown = run("schedule", "show", "often")
    assert shown.count(" UTC") == 7
    assert 'input      {"a": 1}' in shown
    assert [line.split()[3] for line in shown.splitlines() if "skipped" in line or "started" in line] == [
        "skipped",
        "started",
    ]
    assert str(Instance.objects.get().pk) in shown
    [row] = json.loads(run("schedule", "show", "often", "--json"))
    assert (row["catch_up"], row["every"], [one["outcome"] for one in row["ticks"]]) == (
        3,
        900,
        ["skipped", "started"],
    )


def test_schedules_are_run_switched_and_removed(run: Run) -> None:
    for name in ("a", "b"):
        workflows.schedule(name, CommandLasting, every="1h")
    shown = run("schedule", "run", "a", "b", "a").splitlines()
    assert [line.partition("instance ")[0] for line in shown] == [f"schedule {name} has started " for name in "ab"]
    assert Instance.objects.exclude(started_by="").count() == 2
    assert run("schedule", "disable", "a", "b").splitlines() == ["schedule a is disabled", "schedule b is disabled"]
    assert not Schedule.objects.filter(enabled=True).exists()
    assert run("schedule", "enable", "b").startswith("schedule b is enabled; its next tick is at 20")
    assert run("schedule", "remove", "a").strip() == "schedule a is removed"
    assert Schedule.objects.get().enabled


def test_one_that_is_refused_keeps_none_of_the_others(run: Run) -> None:
    for name in ("busy", "free"):
        workflows.schedule(name, CommandLasting, every="1h")
    workflows.run_schedule("busy")
    with pytest.raises(CommandError, match="2 of 3 were refused"):
        run("schedule", "run", "busy", "nobody", "free")
    assert Instance.objects.count() == 2
    for action in ("show", "enable", "remove"):
        with pytest.raises(CommandError):
            run("schedule", action, "nobody")
    with pytest.raises(CommandError, match="invalid choice"):
        run("schedule", "stop", "busy")


def test_another_workspace_has_its_own_schedules(run: Run) -> None:
    workflows.workspace.create("acme")
    workflows.schedule("theirs", greet, every="1h", workspace="acme")
    assert run("schedules").strip() == "No schedules."
    assert "theirs" in run("schedules", "--workspace", "acme")
    run("schedule", "run", "theirs", "--workspace", "acme")
    assert Instance.objects.get().workspace.slug == "acme"
    with pytest.raises(CommandError, match="no workspace 'nowhere'"):
        run("schedules", "--workspace", "nowhere")
