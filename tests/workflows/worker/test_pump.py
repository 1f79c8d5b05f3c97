"""A pump when things go wrong around it: lost connections, held rows, slow steps.

What has run is committed and never run again while its worker lives, and one that is held up holds up nobody.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
import pytest
from django.db import OperationalError, connection, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

import workflows
from tests.support.processes import wait_until
from tests.support.pumps import pumping
from tests.support.races import COMMITTED, count_blocked, take
from workflows import Await, Child, Done, Spawn, Workflow, step, store
from workflows.engine.planning import plan_instance
from workflows.lifecycle import Event, Status
from workflows.models import Instance, LedgerEvent, Worker
from workflows.testing import assert_done
from workflows.worker.batch import Batch
from workflows.worker.pump_connection import LOCK_TIMEOUT_MS, connect

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]

SECONDS = 60.0
ran: Counter[str] = Counter()
on_begin: dict[str, Callable[[], None]] = {}


@pytest.fixture(autouse=True)
def _count_anew(committed: None) -> Iterator[None]:
    """Each test counts from nothing; and whatever it saw, nobody took a row from a worker that lives."""
    ran.clear()
    on_begin.clear()
    yield
    assert not LedgerEvent.objects.filter(kind=Event.RECLAIMED).exists()


class Counted(Workflow):
    """Counts its runs, and does what the test wants done during one of them."""

    name = "pump.counted"

    @step
    def a(self, ctx):
        ran[str(ctx.id)] += 1
        on_begin.get(ctx.input.get("role", ""), lambda: None)()
        return Done()


def start(count: int, role: str = "") -> list[Instance]:
    return workflows.start_many(Counted, [{"role": role}] * count)


def count_done(instances: list[Instance]) -> int:
    return Instance.objects.filter(pk__in=[one.pk for one in instances], status=Status.DONE).count()


def wait_for_all(instances: list[Instance], what: str) -> None:
    wait_until(lambda: count_done(instances), what, seconds=SECONDS, is_it=lambda count: count == len(instances))


def assert_each_ran_once(instances: list[Instance]) -> None:
    assert ran == {str(one.pk): 1 for one in instances}
    assert not Instance.objects.filter(solo=True).exists()
    for one in instances:
        assert [event.kind for event in one.events.all()] == ["started", "done"]


# --- connections that fail ------------------------------------------------------------------------------


@contextmanager
def no_new_connections() -> Iterator[None]:
    """As when the server has no connection left: whoever is connected stays, nobody else gets in."""
    settings = connections["default"].get_connection_params()
    name = settings["dbname"]
    where = {key: settings[key] for key in ("host", "port", "user", "password") if settings.get(key)}
    with psycopg.connect(dbname="postgres", autocommit=True, **where) as server:
        server.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        try:
            yield
        finally:
            server.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')


def test_a_keeper_that_cannot_connect_throws_nothing_away(caplog: pytest.LogCaptureFixture) -> None:
    seen: dict[str, bool] = {}

    def last_long() -> None:
        with no_new_connections():
            wait_until(lambda: "the keeper cannot reach" in caplog.text, "the keeper to fail", seconds=SECONDS)
        # It tries again, while this step still runs: what is finished is committed, and the rest is given back.
        wait_for_all(quick, "the finished outcomes")
        left = [one.pk for one in waiting]
        wait_until(
            lambda: Instance.objects.filter(pk__in=left, status=Status.RUNNABLE, runs=0).count(),
            "what had not begun to be given back",
            seconds=SECONDS,
            is_it=lambda count: count == len(left),
        )
        seen["all"] = True

    on_begin["long"] = last_long
    quick, long, waiting = start(20), start(1, "long"), start(5)
    with pumping():
        wait_until(lambda: seen, "the long step to see it all", seconds=3 * SECONDS)
        wait_for_all(quick + long + waiting, "all")
    assert_each_ran_once(quick + long + waiting)


def test_outcomes_of_a_lost_connection_are_committed_by_the_next_one() -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_backend_pid()")
        [mine] = cursor.fetchone()
    cut = (
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = current_database() "
        "AND backend_type = 'client backend' AND pid NOT IN (pg_backend_pid(), %s)"
    )

    def cut_the_pumps_connection() -> None:
        with connection.cursor() as cursor:
            cursor.execute(cut, [mine])
            assert cursor.fetchall() == [(True,)]

    on_begin["cut"] = cut_the_pumps_connection
    instances = [*start(10), *start(1, "cut"), *start(10)]
    with pumping():
        wait_for_all(instances, "all outcomes")
    assert_each_ran_once(instances)


def test_an_error_on_a_connection_that_lives_costs_no_connection(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def read_sessions() -> set[int]:
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT pid FROM pg_stat_activity "
                "WHERE datname = current_database() AND backend_type = 'client backend'"
            )
            return {pid for (pid,) in cursor.fetchall()}

    with pumping():
        wait_for_all(start(1), "the pump")
        before = read_sessions()
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("LOCK TABLE holdpoint_instance IN ACCESS EXCLUSIVE MODE")
            wait_until(
                lambda: caplog.text.count("is tried again"), "two failures", seconds=SECONDS, is_it=lambda n: n >= 2
            )
        wait_for_all(start(1), "the pump to go on")
        assert before <= read_sessions()
    assert "lost the database" not in caplog.text


def test_the_pumps_connection_is_set_up_for_it_whatever_the_database_prefers() -> None:
    name = connection.settings_dict["NAME"]
    wanted = {
        "default_transaction_isolation": "read committed",
        "enable_seqscan": "off",
        "jit": "off",
        "lock_timeout": f"{LOCK_TIMEOUT_MS}ms",
        "plan_cache_mode": "force_generic_plan",
    }
    with connection.cursor() as cursor:
        cursor.execute(f"ALTER DATABASE \"{name}\" SET default_transaction_isolation = 'repeatable read'")
        try:
            db = connect("default")
            try:
                assert {key: store.fetch(db, f"SHOW {key}", {})[0][0] for key in wanted} == wanted
            finally:
                db.close()
        finally:
            cursor.execute(f'ALTER DATABASE "{name}" RESET default_transaction_isolation')
        # The author's is theirs.
        cursor.execute("SHOW lock_timeout")
        assert cursor.fetchone() == ("0",)


# --- a caller who dawdles ----------------------------------------------------------------------------------


@contextmanager
def hearing_locks() -> Iterator[list[str]]:
    """The statements that gave up waiting for a lock, on connections that are made in the block."""
    in_vain: list[str] = []

    def record(execute: Callable[..., object], sql: str, *given: object) -> object:
        try:
            return execute(sql, *given)
        except OperationalError as error:
            if isinstance(error.__cause__, psycopg.errors.LockNotAvailable):
                in_vain.append(sql)
            raise

    def listen(connection: BaseDatabaseWrapper, **_: object) -> None:
        connection.execute_wrappers.append(record)

    connection_created.connect(listen)
    try:
        yield in_vain
    finally:
        connection_created.disconnect(listen)


def pump_while_rows_are_held(neighbours: int, held: int) -> tuple[list[Instance], int]:
    """A caller locks some rows of a batch while their steps run; all instances, and how often a statement of the pumps
    waited for a lock in vain before all neighbours were done."""
    locked = threading.Event()
    on_begin["first"] = lambda: locked.wait(SECONDS)
    first, some = start(1, "first"), start(neighbours // 2)
    theirs = start(held)
    rest = start(neighbours - neighbours // 2)
    around = first + some + rest
    with hearing_locks() as in_vain, pumping():
        wait_until(lambda: ran[str(first[0].pk)], "the batch to begin", seconds=SECONDS)
        # The second pump comes only now: two that claim at once would share the batch, and the held rows with it.
        with transaction.atomic():
            for one in theirs:
                workflows.signal(one, "hello")
            locked.set()
            with pumping():
                wait_for_all(around, "the neighbours")
                vain = len(in_vain)
            assert count_done(theirs) == 0
        wait_for_all(theirs, "those that were held")
    return first + some + theirs + rest, vain


@pytest.mark.parametrize("held", [1, 8])
def test_rows_held_by_a_caller_hold_up_no_neighbours_and_nothing_runs_twice(held: int) -> None:
    instances, vain = pump_while_rows_are_held(40, held)
    assert ran == {str(one.pk): 1 for one in instances}
    assert vain <= 3  # not for each of them, nor for each halving
    assert not Instance.objects.filter(pk__in=[one.pk for one in instances], solo=True).exists()


def test_a_pump_that_is_stopped_still_commits_what_a_caller_held_up() -> None:
    locked = threading.Event()
    on_begin["first"] = lambda: locked.wait(SECONDS)
    first, [held] = start(1, "first"), start(1)
    with pumping() as pumps:
        wait_until(lambda: ran[str(first[0].pk)], "the batch to begin", seconds=SECONDS)
        with transaction.atomic():
            workflows.signal(held, "hello")
            locked.set()
            wait_for_all(first, "the neighbour")
            # It tries the held row again in its next turn: stopped only when that has been in vain too.
            wait_until(count_blocked, "the second try", seconds=SECONDS)
            wait_until(count_blocked, "its end", seconds=SECONDS, is_it=lambda count: count == 0)
            pumps[0].stop()
    assert count_done([*first, held]) == 2
    assert ran == {str(one.pk): 1 for one in [*first, held]}


def test_the_leases_of_outcomes_that_are_being_committed_are_kept() -> None:
    workflows.start_many(Counted, [{}] * 3)
    first, second, third = take(3)
    batch = Batch([first, second, third])
    for claim in (first, second):
        assert batch.begin_next() is claim
        batch.finish(store.Commit(claim, store.Kind.DONE, result="null"))
    finished = batch.take_finished()
    assert {one.id for one in batch.list_held()} == {first.id, second.id, third.id}
    batch.put_back(finished, ())
    assert batch.list_held() == [third]
    # And of those that an earlier batch could not commit.
    assert {one.id for one in Batch([third], [first, second]).list_held()} == {first.id, second.id, third.id}


def test_what_cannot_be_given_back_because_a_caller_holds_it_is_given_back_later() -> None:
    seen: dict[str, bool] = {}
    locked = threading.Event()

    def last_long() -> None:
        assert locked.wait(SECONDS)
        free = [one.pk for one in waiting[1:]]
        wait_until(
            lambda: Instance.objects.filter(pk__in=free, status=Status.RUNNABLE).count(),
            "the free ones to be given back",
            seconds=SECONDS,
            is_it=lambda count: count == len(free),
        )
        seen["free"] = True
        wait_until(
            lambda: Instance.objects.filter(pk=waiting[0].pk, status=Status.RUNNABLE).exists(),
            "the held one to be given back",
            seconds=SECONDS,
        )

    on_begin["long"] = last_long
    [long] = start(1, "long")
    waiting = start(5)
    with pumping():
        wait_until(lambda: ran[str(long.pk)], "the long step to begin", seconds=SECONDS)
        with transaction.atomic():
            workflows.signal(waiting[0], "hello")
            locked.set()
            wait_until(lambda: seen, "the others to be free", seconds=SECONDS)
        wait_for_all([long, *waiting], "all")
    assert set(ran.values()) == {1}
    assert not Instance.objects.filter(solo=True).exists()


class Listener(Workflow):
    name = "pump.listener"

    @step
    def a(self, ctx):
        return Await("go", then="b")

    @step
    def b(self, ctx):
        return Done()


class Parent(Workflow):
    name = "pump.parent"

    @step
    def a(self, ctx):
        ran["spawning"] += 1
        return Spawn([Child(Counted, key="taken")], then="b")

    @step
    def b(self, ctx):
        return Done([child.status for child in ctx.children])


def test_a_spawn_waits_for_a_caller_who_has_the_childs_key_and_may_not_keep_it() -> None:
    other = connect("default")  # the test's own connection is busy
    try:
        with pumping():
            with transaction.atomic():
                workflows.start(Listener, key="taken")
                parent = store.in_transaction(other, lambda: _start_on(other, Parent))
                wait_until(lambda: ran["spawning"], "the step", seconds=SECONDS)
                unrelated = store.in_transaction(other, lambda: _start_on(other, Listener))
                parked = Instance.objects.filter(pk=unrelated, status=Status.AWAITING)
                wait_until(parked.exists, "one that waits for nobody's key", seconds=SECONDS)
                transaction.set_rollback(True)
            parent = Instance.objects.get(pk=parent)
            wait_until(lambda: count_done([parent]), "the parent", seconds=SECONDS)
    finally:
        other.close()
    assert_done(parent, ["done"])
    assert ran["spawning"] == 1


def _start_on(db: object, workflow: type[Workflow]) -> str:
    planned = plan_instance(workflow.definition, {}, None)
    store.insert_instances(db, [planned], workspace="default")
    return str(planned.id)


# --- slow steps --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_slow_steps_are_shared_by_all_workers() -> None:
    under_way: set[int] = set()
    at_once: list[int] = []

    def work() -> None:
        under_way.add(threading.get_ident())
        at_once.append(len(under_way))
        time.sleep(0.2)
        under_way.remove(threading.get_ident())

    on_begin["work"] = work
    instances = start(40, "work")
    with pumping(4) as pumps:
        wait_for_all(instances, "all steps")
    assert ran == {str(one.pk): 1 for one in instances}
    assert max(at_once) > 1
    assert max(one.steps for one in pumps) <= 25


def test_a_pump_says_in_its_heartbeat_which_queues_it_serves() -> None:
    for queues, said in ((None, None), (["default"], ["default"])):
        with pumping(queues=queues) as [pump]:
            wait_until(lambda pump=pump: Worker.objects.filter(name=pump.name).exists(), "a heartbeat")
            assert Worker.objects.get(name=pump.name).queues == said
