"""The pytest plugin, as a project of somebody else meets it: one run of pytest in a process of its own."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from importlib.metadata import EntryPoint

import pytest

from tests.support.processes import ROOT, find_environment

CONFTEST = """
import pytest


@pytest.fixture(scope="session")
def django_db_setup():
    \"\"\"The database is there, and migrated.\"\"\"
"""

TESTS = """
from datetime import timedelta

import pytest

import workflows
from workflows import Await, Done, Stop, Workflow, step
from workflows.testing import assert_done, assert_failed
from workflows.models import Instance


class Reply(Workflow):
    name = "plugin.reply"

    @step
    def ask(self, ctx):
        return Await("reply", then="close", timeout="2d")

    @step
    def close(self, ctx):
        return Done(ctx.awaited[0].payload) if ctx.awaited else Stop("no reply")


def test_drain_needs_no_mark(workflows_drain):
    reply = workflows.start(Reply)
    assert workflows_drain() == {"await": 1}
    workflows.signal(reply, "reply", "yes")
    workflows_drain()
    assert_done(reply, "yes")


def test_the_clock_is_moved_by_a_duration(workflows_clock):
    reply = workflows.start(Reply)
    begun = workflows_clock.now
    assert workflows_clock.advance("47h") == {"await": 1}
    assert timedelta(hours=47) <= workflows_clock.now - begun < timedelta(hours=48)
    assert workflows_clock.advance("1h") == {"stop": 1}
    assert_failed(reply, "no reply")


def test_the_clock_is_moved_to_a_moment(workflows_clock):
    reply = workflows.start(Reply)
    target = workflows_clock.now + timedelta(days=3)
    assert workflows_clock.advance_to(target) == {"await": 1, "stop": 1}
    assert timedelta() <= workflows_clock.now - target < timedelta(minutes=5)


def test_the_clock_is_right_again_in_the_next_test(workflows_clock):
    from django.utils import timezone

    assert abs(workflows_clock.now - timezone.now()) < timedelta(minutes=5)


@pytest.mark.django_db
def test_leaves_one_runnable():
    workflows.start(Reply)


@pytest.mark.django_db
@pytest.mark.workflows_leftovers(False)
def test_may_leave_one_runnable():
    workflows.start(Reply)


@pytest.mark.django_db
def test_leaves_one_that_waits(workflows_drain):
    workflows.start(Reply)
    workflows_drain()


def test_leaves_many(db):
    workflows.start_many(Reply, [{}] * 9)


def test_uses_no_database():
    pass


@pytest.mark.django_db
def test_fails_for_its_own_reason():
    workflows.start(Reply)
    raise ZeroDivisionError


@pytest.mark.django_db
def test_breaks_its_transaction():
    from django.db import IntegrityError, connection

    workflows.start(Reply)
    with pytest.raises(IntegrityError):
        connection.cursor().execute("INSERT INTO holdpoint_workspace (slug, name) VALUES (NULL, NULL)")


@pytest.mark.django_db
@pytest.mark.workflows_leftovers
def test_wants_to_be_looked_at():
    workflows.start(Reply)
"""
#: Both runs are of one process, because beginning one takes longer than either.
RUNS = """
import sys, pytest
plain = "-p no:holdpoint -p workflows.pytest.plugin -p no:cacheprovider -rA --tb=short".split() + sys.argv[1:]
pytest.main([*plain, "-k", "leave or wants"])
print("=== with the option", flush=True)
pytest.main([*plain, "--workflows-leftovers"])
"""

ENDS = re.compile(r"^(PASSED|FAILED|ERROR) test_replies\.py::(\w+)", re.MULTILINE)

#: Without it there is no database of the tests, which the other process is to use.
pytestmark = [pytest.mark.django_db, pytest.mark.process]


@dataclass(frozen=True)
class Run:
    """How each test ended, and all that was printed."""

    ends: dict[str, str]
    printed: str

    def list_failed(self) -> set[str]:
        return {name for name, end in self.ends.items() if end != "PASSED"}


@pytest.fixture(scope="module")
def runs(django_db_setup: None, tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Without the option, and with it."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_replies.py").write_text(TESTS)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    ran = subprocess.run(
        [sys.executable, "-c", RUNS, "-c", "pytest.ini", "--rootdir", ".", "."],
        cwd=folder,
        env={**os.environ, **find_environment(), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    printed = ran.stdout.split("=== with the option")
    assert len(printed) == 2, ran.stdout + ran.stderr
    return [Run({name: end for end, name in ENDS.findall(one)}, one) for one in printed]


def test_fixtures_drain_and_move_the_clock_without_a_mark(runs: list[Run]) -> None:
    for name in (
        "test_drain_needs_no_mark",
        "test_the_clock_is_moved_by_a_duration",
        "test_the_clock_is_moved_to_a_moment",
        "test_the_clock_is_right_again_in_the_next_test",
    ):
        assert runs[1].ends[name] == "PASSED", runs[1].printed


def test_a_test_that_leaves_runnable_instances_fails_where_that_is_asked_for(runs: list[Run]) -> None:
    asking = runs[1]
    assert asking.list_failed() == {
        "test_leaves_one_runnable",
        "test_leaves_many",
        "test_fails_for_its_own_reason",
        "test_wants_to_be_looked_at",
    }, asking.printed
    assert len(asking.ends) == TESTS.count("\ndef test_")
    assert "(runnable in step 'ask')" in asking.printed
    assert "Call drain() before its end" in asking.printed
    assert "FAILED test_replies.py::test_fails_for_its_own_reason - ZeroDivisionError" in asking.printed


def test_a_run_that_does_not_ask_looks_at_marked_tests_only(runs: list[Run]) -> None:
    assert runs[0].list_failed() == {"test_wants_to_be_looked_at"}, runs[0].printed
    assert {"test_leaves_one_runnable", "test_leaves_many"} <= set(runs[0].ends)


def test_the_distribution_registers_the_plugin() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    [(name, value)] = project["entry-points"]["pytest11"].items()
    assert EntryPoint(name, value, "pytest11").load().__name__ == "workflows.pytest.plugin"
