"""The pump as a django-q task, the sweep, and what every migrated database has; without any cluster."""

import multiprocessing
import threading
import time
from collections.abc import Iterator
from multiprocessing.queues import Queue
from typing import Any

import pytest
from django.apps import apps
from django.core.management import call_command
from django.db import connection, connections
from django_q.conf import Conf
from django_q.models import OrmQ, Schedule
from django_q.signing import SignedPackage

import workflows
from tests.support.clocks import stopped_clock
from tests.support.kept_answers import answer, list_answers
from tests.support.races import race
from workflows import Done, Workflow, step, store, tasks
from workflows.lifecycle import Status
from workflows.models import Worker, Workspace
from workflows.worker.django_q import cluster, pump_queue
from workflows.worker.django_q.schedule import SCHEDULE, provide_defaults
from workflows.worker.pump import Pump

pytestmark = pytest.mark.django_db(transaction=True)


class TaskHello(Workflow):
    @step
    def only(self, ctx):
        return Done("hello")


class TaskEndless(Workflow):
    max_attempts = 1

    @step(step_timeout=1.2)
    def only(self, ctx):
        until = time.monotonic() + 120
        while time.monotonic() < until:
            pass
        return Done()


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "LINGER_SECONDS", 0.3)
    OrmQ.objects.all().delete()


def read_queue() -> list[dict[str, Any]]:
    return [SignedPackage.loads(row.payload) for row in OrmQ.objects.order_by("pk")]


def beat(kind: str = "cluster", holder: str = "somebody") -> bool:
    return store.beat(connections["default"], pump_queue.role_name(), kind, holder)


# --- the pump as a task -------------------------------------------------------------------------------


def test_a_pump_task_runs_what_is_due_and_queues_its_successor():
    instance = workflows.start(TaskHello)
    assert tasks.pump() is None
    instance.refresh_from_db()
    assert instance.status == Status.DONE
    [successor] = read_queue()
    assert successor["func"] == "workflows.tasks.pump"
    [ticket] = successor["args"]
    assert isinstance(ticket, str)
    assert not store.is_void(connections["default"], pump_queue.role_name(), ticket)


def test_a_pump_task_has_time_for_a_step_that_begins_at_its_end():
    tasks.enqueue_pump()
    [task] = read_queue()
    longest_step = 60  # a step's limit is below Q_CLUSTER's timeout: system check E015
    assert isinstance(task["timeout"], int)
    assert task["timeout"] >= longest_step + 10
    assert task["timeout"] < Conf.RETRY
    assert (task["save"], task["ack_failure"]) == (False, True)


def test_a_second_pump_task_leaves_the_role_to_the_first():
    with stopped_clock():
        beat()
        tasks.pump()
    assert read_queue() == []
    assert Worker.objects.get().holder == "somebody"


def test_of_many_pumps_asked_for_only_the_last_counts():
    for _ in range(3):
        tasks.enqueue_pump()
    first, second, third = [one["args"][0] for one in read_queue()]
    OrmQ.objects.all().delete()
    for void in (first, second):
        tasks.pump(void)
        assert read_queue() == []
        assert Worker.objects.get().holder == ""
    tasks.pump(third)
    assert len(read_queue()) == 1


def test_a_pump_that_was_asked_for_before_the_heartbeats_were_lost_still_runs():
    tasks.enqueue_pump()
    [ticket] = [one["args"][0] for one in read_queue()]
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM holdpoint_worker")  # an unlogged table after a crash
    instance = workflows.start(TaskHello)
    tasks.pump(ticket)
    instance.refresh_from_db()
    assert instance.status == Status.DONE


def test_a_queue_that_refuses_tasks_costs_the_role_but_no_workflow(monkeypatch):
    def refuse(*args, **kwargs):
        raise ConnectionError("the broker is gone")

    monkeypatch.setattr(pump_queue, "async_task", refuse)
    instance = workflows.start(TaskHello)
    with pytest.raises(ConnectionError):
        tasks.pump()
    instance.refresh_from_db()
    assert instance.status == Status.DONE
    assert Worker.objects.get().holder == ""  # free for a watcher


def test_tasks_that_run_where_they_are_queued_do_not_pump_within_the_pump(monkeypatch):
    monkeypatch.setattr(Conf, "SYNC", True)
    tasks.pump()
    assert read_queue() == []


def test_a_watcher_gives_the_role_to_a_pump_task_at_once():
    with stopped_clock():
        assert beat("watch", "a watcher")
        assert beat("cluster", "a task")
        assert not beat("watch", "a watcher")


def test_a_step_past_its_limit_is_interrupted_in_a_watchers_thread_too():
    endless = workflows.start(TaskEndless)
    begun = time.monotonic()

    def run() -> None:
        until = time.monotonic() + 60
        Pump(kind="watch", on_long_step=lambda: None, should_stop=lambda: time.monotonic() > until).run()
        connections.close_all()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(120)
    endless.refresh_from_db()
    assert endless.status == Status.FAILED
    assert "StepTimedOut" in endless.error
    assert time.monotonic() - begun < 6


# --- the cluster's queues -----------------------------------------------------------------------------


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(cluster, "DEAD_AFTER", 0.3)
    queue = Queue(ctx=multiprocessing.get_context())
    yield queue
    queue.close()
    queue.join_thread()


def fill(queue: Any) -> None:
    queue.put("a task")
    while queue.empty():
        time.sleep(0.001)


def look_for(reader: cluster.DeadReader, seconds: float) -> bool:
    until = time.monotonic() + seconds
    freed = False
    while time.monotonic() < until and not freed:
        freed = reader.look()
        time.sleep(0.02)
    return freed


def test_a_lock_that_a_dead_reader_holds_is_freed(queue):
    queue._rlock.acquire()  # as a process does that waits in get(), and keeps when it is killed
    fill(queue)
    assert look_for(cluster.DeadReader(queue), 60)
    assert queue.get(timeout=60) == "a task"


def test_of_several_processes_that_look_at_the_same_moment_one_frees_the_lock(queue, monkeypatch):
    monkeypatch.setattr(cluster, "DEAD_AFTER", 0.0)  # each look is the last one
    queue._rlock.acquire()
    fill(queue)
    together, freed = threading.Barrier(3), []

    def look() -> None:
        reader = cluster.DeadReader(queue)
        together.wait(60)
        freed.append(reader.look())

    lookers = [threading.Thread(target=look) for _ in range(2)]
    for one in lookers:
        one.start()
    together.wait(60)
    assert queue.get(timeout=60) == "a task"  # as a reader does that has waited for the lock
    for one in lookers:
        one.join(60)
    assert sorted(freed) == [False, True]
    assert queue._rlock.acquire(block=False)
    assert not queue._rlock.acquire(block=False)
    queue._rlock.release()


def test_a_lock_that_an_idle_reader_holds_is_left_alone(queue):
    queue._rlock.acquire()
    assert not look_for(cluster.DeadReader(queue), 0.6)
    queue._rlock.release()


def test_a_queue_whose_readers_are_busy_is_left_alone(queue):
    fill(queue)
    assert not look_for(cluster.DeadReader(queue), 0.6)
    assert queue.get(timeout=60) == "a task"


# --- the sweep ----------------------------------------------------------------------------------------


def test_the_sweep_asks_for_a_pump_when_nobody_pumps():
    with stopped_clock():
        tasks.sweep()
        [asked] = read_queue()
        assert asked["func"] == "workflows.tasks.pump"
        tasks.sweep()
        assert len(read_queue()) == 1  # one request at a time


def test_the_sweep_leaves_a_live_pump_alone():
    with stopped_clock():
        beat()
        tasks.sweep()
    assert read_queue() == []


def test_the_sweep_forgets_workers_that_are_long_gone():
    store.beat(connections["default"], "worker:gone", "worker", "gone")
    store.beat(connections["default"], "worker:here", "worker", "here")
    with connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_worker SET beat_at = now() - interval '2 h' WHERE holder = 'gone'")
    tasks.sweep()
    assert not Worker.objects.filter(name="worker:gone").exists()
    assert Worker.objects.filter(name="worker:here").exists()


def test_the_sweep_deletes_old_answers_that_belong_to_no_instance():
    instance = workflows.start(TaskHello)
    for name, days, of in (("old", 4.01, None), ("young", 3.99, None), ("of an instance", 400, instance.pk)):
        answer(name, days=days, instance=of)
    tasks.sweep()
    assert list_answers() == {"young", "of an instance"}


# --- what a migrated database has ---------------------------------------------------------------------


def test_migrating_again_and_again_makes_one_workspace_and_one_schedule():
    for _ in range(3):
        call_command("migrate", verbosity=0)
    assert Workspace.objects.filter(slug="default").count() == 1
    schedule = Schedule.objects.get(name=SCHEDULE)
    assert (schedule.func, schedule.schedule_type, schedule.minutes, schedule.repeats) == (
        "workflows.tasks.sweep",
        Schedule.MINUTES,
        1,
        -1,
    )
    assert schedule.args is None or schedule.args == ""  # one that cannot be read stops all others


def test_a_flushed_database_has_them_too():
    call_command("flush", interactive=False, verbosity=0)
    assert Workspace.objects.filter(slug="default").exists()
    assert Schedule.objects.filter(name=SCHEDULE).count() == 1


def test_a_damaged_or_doubled_schedule_is_mended():
    Schedule.objects.filter(name=SCHEDULE).update(func="workflows.tasks.gone")
    Schedule.objects.create(name=SCHEDULE, func="workflows.tasks.sweep", schedule_type=Schedule.DAILY)
    provide_defaults()
    assert Schedule.objects.get(name=SCHEDULE).func == "workflows.tasks.sweep"


def test_what_an_operator_changed_is_kept():
    Schedule.objects.filter(name=SCHEDULE).update(cluster="other", repeats=7)
    provide_defaults()
    schedule = Schedule.objects.get(name=SCHEDULE)
    assert (schedule.cluster, schedule.repeats) == ("other", 7)


def test_two_simultaneous_migrates_make_one_schedule():
    Schedule.objects.all().delete()
    race(provide_defaults, provide_defaults)
    assert Schedule.objects.filter(name=SCHEDULE).count() == 1


def test_a_database_without_the_queues_tables_is_provided_for_later():
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE django_q_schedule RENAME TO elsewhere")
    try:
        Workspace.objects.all().delete()
        provide_defaults()
        assert Workspace.objects.filter(slug="default").exists()
    finally:
        with connection.cursor() as cursor:
            cursor.execute("ALTER TABLE elsewhere RENAME TO django_q_schedule")


def test_providing_costs_few_statements(django_assert_max_num_queries):
    provide_defaults()
    with django_assert_max_num_queries(5):  # with the transaction's own two
        provide_defaults()


def test_the_sweeps_name_can_be_imported_by_a_cluster():
    assert apps.is_installed("django_q")
    assert callable(tasks.sweep)
    assert tasks.sweep.__module__ == "workflows.tasks"
