"""`manage.py workflows queues`, `pause`, `unpause`, `limit`: what they print, set and refuse."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import CommandError
from django.db import connection

import workflows
from tests.support.command_line import worker  # noqa: F401 (a fixture)
from workflows import Concurrency, Done, Rate, Workflow, step, store
from workflows.models import Limit, PausedWorkflow, Queue, Worker

pytestmark = pytest.mark.django_db

Run = Callable[..., str]


class CommandMail(Workflow):
    name = "command.mail"
    queue = "command-mail"
    concurrency = Concurrency("command:{tenant}", 5)
    rate = Rate("command-smtp", 100, per="1m", burst=200)

    @step
    def send(self, ctx: Any) -> Done:
        return Done()


class CommandHeavy(Workflow):
    name = "command.heavy"
    rate = Rate("command-heavy", 10, per="1h", weight=3)

    @step
    def send(self, ctx: Any) -> Done:
        return Done()


def find_line(text: str, first: str) -> list[str]:
    [line] = [line for line in text.splitlines() if first in line]
    return line.split()


def test_queues_limits_and_pauses_are_listed(run: Run) -> None:
    workflows.start_many("command.mail", [{"tenant": 7}] * 2)
    run("limit", "--queue", "command-mail", 10)
    run("pause", "command.mail")
    told = run("queues")
    assert find_line(told, "command-mail") == ["command-mail", "open", "0", "2", "10"]
    assert find_line(told, "command:{tenant}") == ["concurrency", "command:{tenant}", "5"]
    assert find_line(told, "command-smtp")[2:] == ["100/m,", "200", "at", "once"]
    assert told.splitlines()[-2:] == ["paused workflow", "command.mail"]


def test_a_queue_in_which_something_waits_and_that_nobody_serves_is_told(run: Run) -> None:
    """Of living workers each says in its heartbeat what it serves."""
    workflows.start("command.mail", {"tenant": 7})
    assert "Nobody serves" not in run("queues")
    assert json.loads(run("stuck", "--json"))["unserved"] == []
    Worker.objects.all()._raw_delete("default")
    for name, queues in (("one", ["default"]), ("other", ["reports", "default"])):
        store.beat(connection, name, "worker", name, queues=queues)
    told = run("queues")
    assert find_line(told, "command-mail  ")[:4] == ["command-mail", "unserved", "0", "1"]
    assert "Nobody serves queue command-mail: start manage.py workflow_worker --queue command-mail, or" in told
    assert "default  unserved" not in told
    stuck = run("stuck")
    assert "1 instance waits in queue 'command-mail', which no living worker serves." in stuck
    assert "Start manage.py workflow_worker --queue command-mail, or" in stuck
    [queue] = json.loads(run("stuck", "--json"))["unserved"]
    assert (queue["queue"], queue["count"]) == ("command-mail", 1)
    store.beat(connection, "third", "worker", "third", queues=["command-mail"])
    assert "Nobody serves" not in run("queues")
    assert "no living worker" not in run("stuck")


def test_workflows_and_queues_are_paused_and_go_on(run: Run) -> None:
    told = run("pause", "command.mail", "--queue", "command-mail", "--queue", "default")
    assert told.splitlines() == [
        "workflow command.mail is paused",
        "queue command-mail is paused",
        "queue default is paused",
    ]
    assert Queue.objects.filter(paused=True).count() == 2
    assert find_line(run("queues"), "command-mail")[1] == "paused"
    assert run("unpause", "command.mail", "--queue", "default").splitlines()[0] == "workflow command.mail goes on"
    assert not PausedWorkflow.objects.exists()
    assert Queue.objects.get(paused=True).name == "command-mail"


def test_a_burst_that_is_below_what_a_run_takes_is_told(run: Run) -> None:
    run("limit", "--rate", "command-heavy", "3/h")
    assert "command-heavy" not in "".join(line for line in run("queues").splitlines() if "takes" in line)
    with connection.cursor() as cursor:  # as if a deploy had come after it
        cursor.execute("UPDATE holdpoint_limit SET rate_burst = 2")
    assert "A run takes 3 of rate command-heavy" in run("queues")


@pytest.mark.parametrize("arguments", [["command.mail", "nobody"], ["command.mail", "--queue", "nobody"]])
def test_one_that_is_not_there_leaves_all_as_they_were(run: Run, arguments: list[str]) -> None:
    with pytest.raises(CommandError, match="nobody"):
        run("pause", *arguments)
    assert not PausedWorkflow.objects.exists()
    with pytest.raises(CommandError, match="Which"):
        run("pause")


def test_limits_are_set_and_given_back(run: Run) -> None:
    assert run("limit", "--queue", "command-mail", "10").strip() == "queue command-mail: limit 10, rate none"
    assert "limit 10, rate 5/30s" in run("limit", "--queue", "command-mail", "5/30s")
    assert "limit none, rate none" in run("limit", "--queue", "command-mail", "code")
    assert run("limit", "--concurrency", "command:7", "20").strip() == "concurrency command:7: 20 (code: 5)"
    assert "rate command-smtp: 9/h (code: 100/m, 200 at once)" in run("limit", "--rate", "command-smtp", "9/h")
    assert Limit.objects.count() == 2
    run("limit", "--concurrency", "command:7", "code")
    assert run("limit", "--rate", "command-smtp", "code").strip().endswith("100/m, 200 at once")
    assert not Limit.objects.exists()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--queue", "nobody", "5"], "there is no queue"),
        (["--concurrency", "nobody", "5"], "no workflow has a concurrency limit"),
        (["--queue", "command-mail", "0"], "from 1 to"),
        (["--queue", "command-mail", "9" * 5_000], "is no rate"),
        (["--rate", "command-smtp", "often"], "is no rate"),
        (["--queue", "command-mail", "5", "--workspace", "nowhere"], "nowhere"),
        (["5"], "required"),
    ],
)
def test_what_cannot_be_set_is_refused_in_the_calls_words(run: Run, arguments: list[str], told: str) -> None:
    with pytest.raises(CommandError, match=told):
        run("limit", *arguments)
    assert not Queue.objects.exists()
    assert not Limit.objects.exists()


def test_another_workspace_has_its_own(run: Run) -> None:
    workflows.workspace.create("acme")
    run("pause", "command.mail", "--workspace", "acme")
    assert PausedWorkflow.objects.get().workspace.slug == "acme"
    assert "paused workflow" not in run("queues")
