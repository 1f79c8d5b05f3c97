"""Sweeps: what other apps do when rows of theirs become due, in tests and beside a pump.

The rows are of a table that each test makes: `armed` is due at its moment until somebody has done it.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from django.db import ProgrammingError, connection, connections, transaction

import workflows
from tests.support.processes import Process, find_environment, running, wait_until
from tests.support.pumps import pumping
from tests.support.races import COMMITTED
from workflows import Await, Done, Workflow, step, store
from workflows.definitions import sweeps
from workflows.definitions.sweeps import LAST_WORK_SECONDS, Sweep, list_sweeps, register_sweep, unregister_sweep
from workflows.lifecycle import Status
from workflows.models import Instance
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain
from workflows.values import back_off
from workflows.values.back_off import BackOff
from workflows.worker import pump

TABLE = "armed (name text, due_at timestamptz, done_at timestamptz)"
SECONDS = 60.0
#: So often a sweep is looked at that says nothing else.
EVERY = 0.25
#: Far above what it takes beside other workers, and far below what hangs, or what waits for its turn for ever.
SOON = 3.0


@pytest.fixture(autouse=True)
def _no_others() -> Iterator[None]:
    """Those of the project are away during the test, and those of the test after it."""
    theirs = forget_sweeps()
    yield
    forget_sweeps()
    for one in theirs:
        register_sweep(one)


def forget_sweeps() -> list[Sweep]:
    there = list_sweeps()
    for one in there:
        unregister_sweep(one.name)
    return there


@pytest.fixture
def table(db: None) -> None:
    """Goes with the test's transaction."""
    run_sql(f"CREATE TEMPORARY TABLE {TABLE} ON COMMIT DROP")


@pytest.fixture
def shared_table(committed: None) -> Iterator[None]:
    run_sql(f"CREATE TABLE {TABLE}")
    yield
    run_sql("DROP TABLE IF EXISTS armed")


def run_sql(text: str, *values: Any) -> list[Any]:
    with connection.cursor() as cursor:
        cursor.execute(text, values)
        return cursor.fetchall() if cursor.description else []


def arm(seconds: float = 0.0, name: str = "it") -> None:
    run_sql("INSERT INTO armed VALUES (%s, holdpoint_clock() + %s * interval '1 s')", name, seconds)


def count_left() -> int:
    [(left,)] = run_sql("SELECT count(*) FROM armed WHERE done_at IS NULL")
    return int(left)


def list_done() -> list[tuple[datetime, datetime]]:
    """When each was due, and when it was done."""
    return run_sql("SELECT due_at, done_at FROM armed WHERE done_at IS NOT NULL ORDER BY done_at")


def read_seconds(name: str) -> Callable[[Any], float | None]:
    sql = (
        "SELECT extract(epoch FROM min(due_at) - holdpoint_clock())::float8 FROM armed "
        f"WHERE done_at IS NULL AND name = '{name}'"
    )
    return lambda db: store.fetch(db, sql, {})[0][0]


def do_one(name: str = "it") -> int:
    """As a sweep should: in a transaction of its own, skipping what another one is at."""
    with transaction.atomic():
        return len(
            run_sql(
                "UPDATE armed SET done_at = holdpoint_clock() WHERE ctid = (SELECT ctid FROM armed "
                "WHERE done_at IS NULL AND due_at <= holdpoint_clock() AND name = %s "
                "ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING 1",
                name,
            )
        )


def sweep_table(name: str = "it", work: Callable[[], int] | None = None, **options: Any) -> None:
    register_sweep(
        Sweep(name, seconds_to_next=read_seconds(name), work=work or (lambda: do_one(name)), **options),
    )


class Waiter(Workflow):
    name = "sweeps.waiter"

    @step
    def ask(self, ctx):
        return Await("go", then="end", timeout="1h")

    @step
    def end(self, ctx):
        return workflows.Stop("too late") if ctx.timed_out else Done()


class Quick(Workflow):
    name = "sweeps.quick"

    @step
    def only(self, ctx):
        return Done()


# --- which there are ------------------------------------------------------------------------------------


def test_a_sweep_of_the_same_name_takes_the_place_of_the_first() -> None:
    first = Sweep("a", seconds_to_next=lambda db: None, work=lambda: 0)
    second = Sweep("a", seconds_to_next=lambda db: None, work=lambda: 0)
    other = Sweep("b", seconds_to_next=lambda db: None, work=lambda: 0)
    for one in (first, other, second):
        register_sweep(one)
    assert list_sweeps() == [second, other]
    unregister_sweep("a")
    unregister_sweep("never there")
    assert list_sweeps() == [other]


# --- in tests -------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("table")
def test_drain_does_what_is_due_and_nothing_else() -> None:
    sweep_table()
    arm()
    arm(-5)
    arm(60)
    assert drain() == {}  # it counts outcomes of workflows only
    assert count_left() == 1
    assert len(list_done()) == 2


@pytest.mark.usefixtures("table")
def test_advance_stops_at_the_moment_of_every_sweep() -> None:
    sweep_table()
    sweep_table("other")
    for hours in (3, 1, 2):
        arm(hours * 3600)
        arm(hours * 3600 + 60, "other")
    advance("150m")
    assert count_left() == 2
    assert [round((done - due).total_seconds()) for due, done in list_done()] == [0] * 4


@pytest.mark.usefixtures("table")
def test_what_a_sweep_arms_on_its_way_is_done_at_its_own_moment_too() -> None:
    def work() -> int:
        if done := do_one():
            arm(3600)
        return done

    sweep_table(work=work)
    arm(3600)
    assert advance("23h30m") == {}
    assert len(list_done()) == 23
    assert all(abs((done - due).total_seconds()) < 1 for due, done in list_done())


@pytest.mark.usefixtures("table")
def test_steps_and_sweeps_set_each_other_going() -> None:
    class Arms(Workflow):
        name = "sweeps.arms"

        @step
        def ask(self, ctx):
            arm()
            return Await("go", then="end")

        @step
        def end(self, ctx):
            arm(name="other")
            return Done()

    def work() -> int:
        done = do_one()
        if done:
            workflows.signal(instance, "go")
        return done

    sweep_table(work=work)
    sweep_table("other")
    instance = workflows.start(Arms)
    assert drain() == {"await": 1, "done": 1}
    assert count_left() == 0


@pytest.mark.usefixtures("table")
def test_a_sweep_comes_before_a_deadline_of_the_same_moment() -> None:
    def work() -> int:
        done = do_one()
        if done:
            workflows.signal(instance, "go")
        return done

    sweep_table(work=work)
    instance = workflows.start(Waiter)
    drain()
    run_sql("INSERT INTO armed SELECT 'it', due_at FROM holdpoint_instance WHERE id = %s", instance.pk)
    advance("1h")
    assert_done(instance)


@pytest.mark.usefixtures("table")
def test_drain_ends_and_says_so_when_the_work_of_a_sweep_never_does() -> None:
    sweep_table("busybody", lambda: 1)
    arm(name="busybody")
    with pytest.raises(AssertionError, match=r"the sweep 'busybody' 7 times .* return 0"):
        drain(max_steps=7)


@pytest.mark.usefixtures("table")
def test_as_much_work_as_there_may_be_is_not_too_much() -> None:
    sweep_table()
    for _ in range(7):
        arm()
    drain(max_steps=7)
    assert count_left() == 0


@pytest.mark.usefixtures("table")
def test_a_sweep_that_does_nothing_about_what_is_due_holds_neither_the_clock_nor_the_others() -> None:
    sweep_table("idle", lambda: 0)
    sweep_table()
    arm(name="idle")
    arm(60)
    instance = workflows.start(Waiter)
    assert drain() == {"await": 1}
    assert_awaiting(instance, "go")
    advance("30d")  # in as few strides as there are moments
    assert_failed(instance, "too late")
    assert [round((done - due).total_seconds()) for due, done in list_done()] == [0]


@pytest.mark.usefixtures("table")
def test_what_a_sweep_raises_is_for_the_test_to_see() -> None:
    def work() -> int:
        raise LookupError("a mistake")

    sweep_table(work=work)
    arm()
    with pytest.raises(LookupError):
        drain()


# --- beside a pump --------------------------------------------------------------------------------------


def pumped(test: Any) -> Any:
    """A test beside a pump, which sees only what is committed."""
    return COMMITTED(pytest.mark.usefixtures("shared_table")(test))


@contextmanager
def hanging(name: str = "hangs") -> Iterator[threading.Event]:
    """A sweep whose work hangs until the end of the block; the event tells that it has begun to."""
    begun, over = threading.Event(), threading.Event()

    def work() -> int:
        begun.set()
        over.wait(4 * SECONDS)
        return do_one(name)

    sweep_table(name, work)
    arm(name=name)
    try:
        yield begun
    finally:
        over.set()
        wait_until(lambda: list_threads(name), "the work to end", seconds=SECONDS, is_it=lambda threads: not threads)


def list_threads(name: str) -> list[threading.Thread]:
    return [one for one in threading.enumerate() if one.name == f"holdpoint-{name}"]


def wait_for_all_done(what: str = "the sweep") -> None:
    wait_until(count_left, what, seconds=SECONDS, is_it=lambda left: left == 0)


def wait_for_quick_ones() -> float:
    """Steps are run; how long that took."""
    began = time.monotonic()
    instance = workflows.start(Quick)
    wait_until(lambda: Instance.objects.filter(pk=instance.pk, status=Status.DONE), "a step", seconds=SECONDS)
    return time.monotonic() - began


class Watch:
    """The turns of a pump, and its questions to the sweep: whether it asks often is told by these, on any machine.

    Seconds from a due moment to the work would tell how busy the machine is.
    """

    def __init__(self) -> None:
        #: When each began, in which thread, and whether the sweep was at work.
        self.turns: list[tuple[float, int, bool]] = []
        #: When each was asked, in which thread, and whether something was due.
        self.asked: list[tuple[float, int, bool]] = []

    def register(self, work: Callable[[], int] = do_one) -> None:
        read = read_seconds("it")

        def ask(db: Any) -> float | None:
            seconds = read(db)
            self.asked.append((time.monotonic(), threading.get_ident(), seconds is not None and seconds <= 0))
            return seconds

        register_sweep(Sweep("it", seconds_to_next=ask, work=work))

    def note_turn(self) -> bool:
        """Asked by the pump before each turn; by its other threads too, which are left out."""
        self.turns.append((time.monotonic(), threading.get_ident(), bool(list_threads("it"))))
        return False

    def check(self, armed: int) -> None:
        """What was due was begun as soon as it was seen, and no turn passed in which a look was owed."""
        assert max(pump.POLL, pump.POLL_CALM) < EVERY  # so long is the turn of an idle pump
        assert 0 < sum(is_due for _, _, is_due in self.asked) <= armed
        [thread] = {thread for _, thread, _ in self.asked}
        turns = [(began, busy) for began, where, busy in self.turns if where == thread]
        since = turns[0][0]
        for (began, busy), (ended, still_busy) in pairwise(turns):
            if busy or still_busy or any(began <= at < ended for at, _, _ in self.asked):
                since = ended
            else:
                assert began - since <= 2 * EVERY, f"not asked in a turn {began - since:.2f} s after the last look"


@pumped
def test_a_pump_does_what_is_due_at_its_moment_in_a_thread_of_its_own() -> None:
    there: set[str] = set()

    def work() -> int:
        there.add(threading.current_thread().name)
        return do_one()

    watch = Watch()
    watch.register(work)
    for seconds in (-1.0, 0.0, 0.3):
        arm(seconds)
    with pumping(should_stop=watch.note_turn):
        wait_for_all_done()
    assert there == {"holdpoint-it"}
    assert all(done >= due for due, done in list_done())
    watch.check(armed=3)


@pumped
def test_what_becomes_due_while_a_pump_is_idle_or_at_work_is_done_soon() -> None:
    watch = Watch()
    watch.register()
    with pumping(should_stop=watch.note_turn):
        for _ in range(3):
            wait_for_quick_ones()
            arm()
            wait_for_all_done()
        stop = threading.Event()
        feeder = threading.Thread(target=feed, args=[stop])
        feeder.start()
        try:
            arm()
            wait_for_all_done("the sweep of a pump that has always something to run")
        finally:
            stop.set()
            feeder.join(SECONDS)
    watch.check(armed=4)


def feed(stop: threading.Event) -> None:
    try:
        while not stop.is_set():
            workflows.start_many(Quick, [{}] * 50)
    finally:
        connections.close_all()


@pumped
def test_a_sweep_that_hangs_stops_neither_the_others_nor_the_steps(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sweeps, "SLOW_SECONDS", 0.5)
    with pumping(), hanging() as begun:
        assert begun.wait(SECONDS)
        sweep_table()
        for times in (1, 2):
            assert wait_for_quick_ones() < SOON
            arm()
            wait_until(list_done, "the other sweep", seconds=SECONDS, is_it=lambda done, n=times: len(done) == n)
        wait_until(lambda: "sweep hangs has been" in caplog.text, "a word of it", seconds=SECONDS)
        assert len(list_threads("hangs")) == 1
        assert count_left() == 1
    assert caplog.text.count("at the same piece of work") == 1


@pumped
def test_pumps_work_side_by_side() -> None:
    both, met = threading.Barrier(2), threading.Event()

    def work() -> int:
        if not met.is_set():
            both.wait(SECONDS)  # one alone would fail here
            met.set()
        return do_one()

    sweep_table(work=work)
    with pumping(2):
        arm()
        wait_for_all_done()
    assert not both.broken


@pumped
def test_a_round_gives_its_connection_back() -> None:
    pids: list[int] = []

    def work() -> int:
        pids.append(run_sql("SELECT pg_backend_pid()")[0][0])
        return do_one()

    sweep_table(work=work)
    arm()
    arm()
    with pumping():
        wait_for_all_done()
        wait_until(
            lambda: run_sql("SELECT 1 FROM pg_stat_activity WHERE pid = ANY(%s)", pids),
            "the connection to be closed",
            seconds=SECONDS,
            is_it=lambda found: not found,
        )
    assert len(pids) == 3  # until nothing was left
    assert len(set(pids)) == 1


@pumped
def test_a_pump_asks_before_it_lets_deadlines_pass() -> None:
    seen: list[int] = []

    def read(db: Any) -> None:
        seen.append(store.fetch(db, "SELECT status FROM holdpoint_instance", {})[0][0])

    class Short(Workflow):
        name = "sweeps.short"

        @step
        def ask(self, ctx):
            return Await("go", then="end", timeout=0.1)

        @step
        def end(self, ctx):
            return Done()

    instance = workflows.start(Short)
    drain()
    wait_until(lambda: store.seconds_to_next(connection) < 0, "the deadline", seconds=SECONDS)
    register_sweep(Sweep("asks", seconds_to_next=read, work=lambda: 0))
    with pumping():
        wait_until(lambda: Instance.objects.filter(pk=instance.pk, status=Status.DONE), "its end", seconds=SECONDS)
    assert seen[0] == Status.AWAITING.code


# --- what goes wrong ------------------------------------------------------------------------------------


class Failing:
    """Work that fails so many times, and when it was tried."""

    def __init__(self, times: int, fail: Callable[[], None]) -> None:
        self.times = times
        self.fail = fail
        self.tried: list[float] = []

    def __call__(self) -> int:
        self.tried.append(time.monotonic())
        if len(self.tried) <= self.times:
            self.fail()
        return do_one()

    def list_pauses(self) -> list[float]:
        """Before what went well."""
        return [self.tried[n + 1] - self.tried[n] for n in range(self.times)]


def leave_a_broken_transaction() -> None:
    transaction.atomic().__enter__()
    run_sql("SELECT 1 FROM there_is_no_such_table")


def make_a_mistake() -> None:
    raise LookupError("a mistake")


def want_to_exit() -> None:
    raise SystemExit


@pumped
@pytest.mark.parametrize("fail", [make_a_mistake, leave_a_broken_transaction, want_to_exit])
def test_work_that_fails_is_told_and_tried_again_after_ever_longer_pauses(
    fail: Callable[[], None], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(back_off, "SWEEP", BackOff(0.2, 30.0))
    work = Failing(3, fail)
    sweep_table(work=work)
    arm()
    with pumping():
        wait_for_all_done()
        assert all(pause >= least for pause, least in zip(work.list_pauses(), (0.2, 0.4, 0.8), strict=True))
        # What went well makes it begin anew.
        work.times = len(work.tried) + 1
        arm()
        wait_for_all_done()
    told = [one for one in caplog.records if "the sweep it failed" in one.message]
    assert [one.message.rpartition(" in ")[2] for one in told] == ["0.2 s", "0.4 s", "0.8 s", "0.2 s"]
    assert all(one.levelno == logging.ERROR and one.exc_info for one in told)


@pumped
def test_a_sweep_that_always_fails_is_no_busy_loop_whatever_pump_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(back_off, "SWEEP", BackOff(60.0, 30.0))
    failing = Failing(100, make_a_mistake)
    sweep_table("fails", failing)
    sweep_table()
    arm(name="fails")
    for _ in range(2):
        with pumping():  # as one follows the other in a worker of django-q
            arm()
            wait_until(count_left, "the other sweep", seconds=SECONDS, is_it=lambda left: left == 1)
            wait_until(lambda: failing.tried, "the failure", seconds=SECONDS)
    assert len(failing.tried) == 1


@pumped
def test_a_sweep_whose_table_is_missing_stops_nobody_and_works_once_it_is_there(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(back_off, "SWEEP", BackOff(0.5, 30.0))
    asked: Counter[str] = Counter()

    def read(db: Any) -> float | None:
        asked["times"] += 1
        return read_seconds("it")(db)

    run_sql("ALTER TABLE armed RENAME TO later")
    register_sweep(Sweep("it", seconds_to_next=read, work=do_one))
    with pumping():
        wait_until(lambda: asked["times"] > 1, "it to be asked again", seconds=SECONDS)
        assert wait_for_quick_ones() < SOON
        run_sql("ALTER TABLE later RENAME TO armed")
        arm()
        wait_for_all_done()
    told = [one for one in caplog.records if "cannot tell what is due" in one.message]
    assert len(told) >= 2
    assert all(later.created - earlier.created > 0.4 for earlier, later in pairwise(told))
    assert isinstance(told[0].exc_info[1], ProgrammingError)
    assert "lost the database" not in caplog.text


@pumped
def test_a_sweep_whose_table_is_locked_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    sweep_table()
    other = connections.create_connection("default")
    try:
        with other.cursor() as cursor:
            cursor.execute("BEGIN")
            cursor.execute("LOCK TABLE armed IN ACCESS EXCLUSIVE MODE")  # as a migration does
            with pumping():
                wait_until(lambda: "cannot tell what is due" in caplog.text, "it to be told", seconds=SECONDS)
                assert wait_for_quick_ones() < SOON
                cursor.execute("COMMIT")
                arm()
                wait_for_all_done()
    finally:
        other.close()
    assert "lost the database" not in caplog.text


@pumped
def test_a_connection_that_is_lost_while_a_sweep_is_asked_is_made_anew(caplog: pytest.LogCaptureFixture) -> None:
    cut: list[int] = []

    def read(db: Any) -> float | None:
        if not cut:
            cut.append(1)
            store.fetch(db, "SELECT pg_terminate_backend(pg_backend_pid())", {})
        return read_seconds("it")(db)

    register_sweep(Sweep("it", seconds_to_next=read, work=do_one))
    arm()
    with pumping():
        wait_for_all_done()
        wait_for_quick_ones()
    assert "lost the database" in caplog.text
    assert "cannot tell what is due" not in caplog.text


# --- when a pump ends -----------------------------------------------------------------------------------


@pumped
def test_a_pump_that_is_stopped_waits_for_the_work_that_is_under_way_and_begins_no_more() -> None:
    begun, stopped = threading.Event(), threading.Event()

    def work() -> int:
        begun.set()
        stopped.wait(SECONDS)
        run_sql("SELECT pg_sleep(0.5)")
        return do_one()

    sweep_table(work=work)
    arm()
    arm()
    with pumping() as pumps:
        assert begun.wait(SECONDS)
        pumps[0].stop()
        stopped.set()
    assert len(list_done()) == 1
    assert not list_threads("it")


@pumped
def test_a_pump_that_is_stopped_waits_for_all_that_hangs_no_longer_than_it_may(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert LAST_WORK_SECONDS == 5
    monkeypatch.setattr(sweeps, "LAST_WORK_SECONDS", 3.0)
    with hanging("one") as one, hanging("two") as two, hanging("three") as three:
        with pumping():
            assert all(begun.wait(SECONDS) for begun in (one, two, three))
            began = time.monotonic()
        took = time.monotonic() - began
        assert count_left() == 3
    assert 3.0 <= took < 7.5  # not three seconds for each


@pumped
def test_a_pump_that_hands_over_waits_for_nothing_and_its_successor_begins_nothing_beside_what_hangs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sweeps, "LAST_WORK_SECONDS", 40.0)
    with hanging() as begun:
        for _ in range(3):
            with pumping(on_long_step=lambda: None):
                assert begun.wait(SECONDS)
                sweep_table()
                arm()
                wait_until(count_left, "the other sweep", seconds=SECONDS, is_it=lambda left: left == 1)
                assert len(list_threads("hangs")) == 1
                began = time.monotonic()
            assert time.monotonic() - began < 20
    assert count_left() == 0
    with pumping(on_long_step=lambda: None):  # what hung has ended: it is worked at again
        arm(name="hangs")
        wait_for_all_done()


SITE = """
import threading, time, django
django.setup()
from pathlib import Path
from django.core.management import call_command
from workflows.worker.pump import Pump
from workflows.definitions.sweeps import Sweep, list_sweeps, register_sweep, unregister_sweep

begun = threading.Event()

def work():
    begun.set()
    Path({file!r}).write_text("begun")
    time.sleep({seconds})
    Path({file!r}).write_text("done")
    return 1

for one in list_sweeps():
    unregister_sweep(one.name)
register_sweep(Sweep("slow", seconds_to_next=lambda db: 0.0, work=work))
"""
HANDS_OVER = "Pump(on_long_step=lambda: None, should_stop=begun.is_set).run()"


def start_site(file: Path, seconds: float, then: str) -> Process:
    return Process("-c", SITE.format(file=str(file), seconds=seconds) + then, **find_environment())


@pumped
@pytest.mark.process
@pytest.mark.slow
def test_a_process_that_ends_after_a_handover_lets_the_work_end_that_is_under_way(tmp_path: Path) -> None:
    file = tmp_path / "told"
    with running(start_site(file, 1.5, HANDS_OVER)) as site:
        assert wait_until(site.popen.poll, "its end", is_it=lambda code: code is not None) == 0, site.read_log()
        assert site.read_log() == "", site.read_log()
    assert file.read_text() == "done"


@pumped
@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("then", ["call_command('workflow_worker')", HANDS_OVER], ids=["worker", "handover"])
def test_a_process_ends_in_time_though_a_sweep_hangs(tmp_path: Path, then: str) -> None:
    file = tmp_path / "told"
    with running(start_site(file, 600, then)) as site:
        wait_until(file.exists, "the sweep to begin")
        began = time.monotonic()
        if then != HANDS_OVER:
            site.kill(signal.SIGTERM)
        wait_until(site.popen.poll, "its end", is_it=lambda code: code == 0)
        took = time.monotonic() - began
    assert took < LAST_WORK_SECONDS + 3  # it would hang for ten minutes
    assert file.read_text() == "begun"
