"""What a step leaves behind: open transactions, interrupted statements, exceptions of every kind.

The one who forgot something is told; its neighbours in the same batch must not notice. The pumps are real,
and a neighbour is a step that writes one row and is done.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from typing import Any

import pytest
from django.db import connection, connections, transaction

import workflows
from tests.support.processes import wait_until
from tests.support.pumps import pumping
from tests.support.races import COMMITTED, attempt, play, run_threads, settle, take
from workflows import Done, Next, Retry, Stop, Workflow, step
from workflows.models import Instance, Workspace
from workflows.testing import assert_done, assert_failed, drain
from workflows.worker.pump import Pump

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]

SECONDS = 60.0
ran: Counter[str] = Counter()


@pytest.fixture(autouse=True)
def _count_anew() -> None:
    ran.clear()


class Writer(Workflow):
    """A neighbour: writes one row, and is done."""

    name = "host.writer"

    @step
    def a(self, ctx):
        ran[ctx.input] += 1
        Workspace.objects.create(slug=ctx.input)
        return Done()


def execute(statement: str) -> Any:
    with connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchall() if cursor.description else None


def written() -> set[str]:
    return set(Workspace.objects.exclude(slug="default").values_list("slug", flat=True))


def start_around(*between: Any) -> tuple[list[Instance], list[Instance]]:
    """Start these workflows with neighbours before and behind, all in one batch: who is between, and who is around."""
    before = workflows.start_many(Writer, ["before-1", "before-2"])
    started = [workflows.start(workflow, input) for workflow, input in between]
    return started, before + workflows.start_many(Writer, ["behind-1", "behind-2"])


def wait_for_ends(instances: list[Instance]) -> list[Instance]:
    ids = [one.pk for one in instances]

    def look() -> list[Instance]:
        return list(Instance.objects.filter(pk__in=ids).order_by("pk"))

    return wait_until(
        look, "the instances to end", seconds=SECONDS, is_it=lambda found: all(one.ended for one in found)
    )


def assert_neighbours_are_fine(around: list[Instance]) -> None:
    for one in around:
        assert_done(one)
    assert written() == {"before-1", "before-2", "behind-1", "behind-2"}
    assert set(ran.values()) == {1}, ran


# --- a transaction left open ------------------------------------------------------------------------


def leave_autocommit_off() -> None:
    transaction.set_autocommit(False)


def leave_a_block_open() -> None:
    transaction.atomic().__enter__()


def leave_a_raw_transaction_open() -> None:
    execute("BEGIN")


def leave(how: Any) -> None:
    how()
    Workspace.objects.create(slug="swallowed")


class StepLeaves(Workflow):
    name = "host.step-leaves"

    @step
    def a(self, ctx):
        leave(LEAKS[ctx.input])
        return Done()


class AtomicStepLeaves(Workflow):
    name = "host.atomic-step-leaves"

    @step(atomic=True)
    def a(self, ctx):
        leave(LEAKS[ctx.input])
        return Done()


class HandleLeaves(Workflow):
    name = "host.handle-leaves"

    @step
    def a(self, ctx):
        raise ValueError("for handle")

    def handle(self, error, ctx):
        leave(LEAKS[ctx.input])
        return Done()


class RaisesAndLeaves(Workflow):
    name = "host.raises-and-leaves"

    @step
    def a(self, ctx):
        leave(LEAKS[ctx.input])
        raise ValueError("the author's own error")


LEAKS = {"autocommit": leave_autocommit_off, "block": leave_a_block_open, "raw": leave_a_raw_transaction_open}


@pytest.mark.parametrize(
    ("leaver", "how"),
    [
        *[(leaver, how) for leaver in (StepLeaves, HandleLeaves) for how in LEAKS],
        (AtomicStepLeaves, "block"),
    ],
)
def test_an_open_transaction_fails_its_own_instance_and_swallows_nobody_elses_writes(leaver: Any, how: str) -> None:
    [bad], around = start_around((leaver, how))
    with pumping():
        wait_for_ends([bad, *around])
    assert_neighbours_are_fine(around)
    bad.refresh_from_db()
    assert bad.status == "failed"
    assert "LeftTransactionOpen" in bad.error
    with transaction.atomic():  # and nobody holds its row
        Instance.objects.select_for_update(nowait=True).get(pk=bad.pk)


@pytest.mark.parametrize("how", LEAKS)
def test_who_raises_and_leaves_a_transaction_open_is_told_the_own_error(how: str) -> None:
    [bad], around = start_around((RaisesAndLeaves, how))
    with pumping():
        wait_for_ends([bad, *around])
    assert_neighbours_are_fine(around)
    assert_failed(bad, "ValueError: the author's own error")


# --- what is no Exception -----------------------------------------------------------------------------


class Alarm(BaseException):
    """As libraries have them that must not be caught by `except Exception`."""


ALARMS = {one.__name__: one for one in (asyncio.CancelledError, GeneratorExit, SystemExit, Alarm)}


class StepAlarms(Workflow):
    name = "host.step-alarms"
    max_attempts = 2

    @step
    def a(self, ctx):
        raise ALARMS[ctx.input]("enough")


class AtomicStepAlarms(Workflow):
    name = "host.atomic-step-alarms"
    max_attempts = 2

    @step(atomic=True)
    def a(self, ctx):
        Workspace.objects.create(slug="undone")
        raise ALARMS[ctx.input]("enough")


class HandleAlarms(Workflow):
    name = "host.handle-alarms"
    max_attempts = 2

    @step
    def a(self, ctx):
        raise ValueError("for handle")

    def handle(self, error, ctx):
        raise ALARMS[ctx.input]("enough")


@pytest.mark.parametrize("raiser", [StepAlarms, AtomicStepAlarms, HandleAlarms])
def test_whatever_is_raised_ends_its_run_and_not_the_pump(raiser: Any) -> None:
    bad, around = start_around(*[(raiser, name) for name in ALARMS])
    with pumping():
        ended = wait_for_ends(bad + around)
    assert_neighbours_are_fine(around)
    for one in ended:
        if one.workflow == raiser.name:
            assert (one.status, one.runs) == ("failed", 2)
            assert one.input in one.error


# --- interrupted in the middle of a statement ----------------------------------------------------------


class Innocent(Workflow):
    name = "host.innocent"

    @step
    def a(self, ctx):
        return Done(execute("SELECT 42")[0][0])


def dawdle() -> None:
    workflows.start(Innocent, key="innocent")  # runs right behind, on the connection that is left
    execute("SELECT pg_sleep(60)")


class StepDawdles(Workflow):
    name = "host.step-dawdles"
    step_timeout = 1.1
    max_attempts = 1

    @step
    def a(self, ctx):
        dawdle()


class AtomicStepDawdles(Workflow):
    name = "host.atomic-step-dawdles"
    step_timeout = 1.1
    max_attempts = 1

    @step
    def a(self, ctx):
        workflows.start(Innocent, key="innocent")
        return Next("b")

    @step(atomic=True)
    def b(self, ctx):
        execute("SELECT pg_sleep(60)")


class HandleDawdles(Workflow):
    name = "host.handle-dawdles"
    step_timeout = 1.1
    max_attempts = 1

    @step
    def a(self, ctx):
        raise ValueError("for handle")

    def handle(self, error, ctx):
        dawdle()


STILL_AT_IT = (
    "FROM pg_stat_activity WHERE datname = current_database() AND query = 'SELECT pg_sleep(60)' AND state = 'active'"
)


@pytest.mark.parametrize("dawdler", [StepDawdles, AtomicStepDawdles, HandleDawdles])
def test_a_step_timed_out_in_a_statement_leaves_its_successor_a_good_connection(
    dawdler: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Django's own defaults: nobody looks whether a kept connection is still good. On the main thread,
    # because only there a statement is interrupted before it ends.
    assert threading.current_thread() is threading.main_thread()
    connections["default"].close()
    monkeypatch.setitem(connections["default"].settings_dict, "CONN_HEALTH_CHECKS", False)
    monkeypatch.setitem(connections["default"].settings_dict, "CONN_MAX_AGE", 60)
    bad = workflows.start(dawdler)
    observer = connections.create_connection("default")
    until = time.monotonic() + SECONDS

    def is_over() -> bool:
        with observer.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM holdpoint_instance WHERE status >= 10")
            return cursor.fetchone()[0] == 2 or time.monotonic() > until

    try:
        Pump(should_stop=is_over).run()
        with observer.cursor() as cursor:
            cursor.execute(f"SELECT pg_terminate_backend(pid) {STILL_AT_IT}")
            still_at_it = cursor.rowcount
    finally:
        observer.close()
        connections["default"].close()
    assert_done(Instance.objects.get(workflow=Innocent.name), 42)
    bad.refresh_from_db()
    assert bad.status == "failed"
    assert "StepTimedOut" in bad.error
    # Nor does the server go on with what nobody waits for, and with its locks.
    assert still_at_it == 0


# --- atomic steps -----------------------------------------------------------------------------------


class Crosswise(Workflow):
    """Its atomic step signals another instance of its kind: in each one's transaction, the other one's row."""

    name = "host.crosswise"
    met: threading.Barrier
    handled: list[Exception] = []

    @step(atomic=True)
    def a(self, ctx):
        ran["tries"] += 1
        ctx.state["tries"] = ctx.state.get("tries", 0) + 1
        if ran["tries"] <= 2:
            workflows.signal(Instance.objects.exclude(pk=ctx.id).get(workflow=self.name), "hello")
            Crosswise.met.wait(SECONDS)  # both hold the row that the other one's commit needs
        return Done(ctx.state["tries"])

    def handle(self, error, ctx):
        Crosswise.handled.append(error)
        return Stop("handled")


def test_an_atomic_step_that_loses_a_deadlock_is_run_again_and_handle_is_not_asked() -> None:
    Crosswise.met, Crosswise.handled = threading.Barrier(2), []
    both = workflows.start_many(Crosswise, [{}, {}])
    claims = take(2)
    run_threads([lambda: attempt(lambda: settle(play(claims[0]))), lambda: attempt(lambda: settle(play(claims[1])))])
    assert Crosswise.handled == []
    assert ran["tries"] == 3  # there was a deadlock, and one victim
    for one in both:
        # With a ctx of its own: what the lost try did to the state has not happened.
        assert assert_done(one, 1).attempt == 0


class EndsItself(Workflow):
    name = "host.ends-itself"

    @step(atomic=True)
    def a(self, ctx):
        ran["runs"] += 1
        Workspace.objects.create(slug="kept")
        workflows.cancel(ctx.id, "enough", actor="step")
        return Done("nobody asks for it")


def test_an_atomic_step_may_cancel_its_own_instance() -> None:
    one = workflows.start(EndsItself)
    with pumping():
        wait_for_ends([one])
    one.refresh_from_db()
    assert (one.status, one.error, one.result) == ("cancelled", "enough", None)
    assert ran["runs"] == 1
    assert written() == {"kept"}


# --- the state of a run that failed ---------------------------------------------------------------------


@pytest.mark.parametrize("atomic", [False, True])
def test_what_a_failing_run_did_to_the_state_has_not_happened(atomic: bool) -> None:
    class Half(Workflow):
        name = f"host.half.{atomic}"

        @step
        def a(self, ctx):
            return Next("b", {"n": 1})

        @step(atomic=atomic)
        def b(self, ctx):
            ran[str(ctx.state)] += 1
            ctx.state["n"] += 1
            raise ValueError("half way")

    one = workflows.start(Half)
    drain()
    for _ in range(2):
        assert assert_failed(one, "ValueError: half way").state == {"n": 1}
        workflows.retry(one)
        drain()
    assert ran == {"{'n': 1}": 3}


def test_a_handle_that_goes_on_may_keep_what_the_run_did_to_the_state() -> None:
    class HalfKept(Workflow):
        name = "host.half-kept"

        @step
        def a(self, ctx):
            ctx.state["n"] = ctx.state.get("n", 0) + 1
            if ctx.state["n"] < 3:
                raise ValueError("again")
            return Done(ctx.state["n"])

        def handle(self, error, ctx):
            return Retry(ctx.state, delay=0)

    one = workflows.start(HalfKept)
    drain()
    assert_done(one, 3)
