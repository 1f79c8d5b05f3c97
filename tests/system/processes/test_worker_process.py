"""`manage.py workflow_worker`: the pump as a process of its own."""

import os
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest

import workflows
from config.postgres import start as start_server
from tests.support.other_server import elsewhere, fill
from tests.support.processes import (
    Cluster,
    Process,
    find_environment,
    read_runs,
    running,
    wait_for_run,
    wait_for_status,
    wait_until,
    workflow_worker,
)
from workflows.lifecycle import Event, Status
from workflows.models import Instance, Worker

pytestmark = pytest.mark.django_db(transaction=True)

RESUME_SECONDS = 20.0


def test_sigterm_finishes_the_running_step_and_gives_the_rest_back(file):
    started = workflows.start_many("HostedSlow", [{"file": str(file), "seconds": 0.8}] * 40)
    with workflow_worker() as worker:
        wait_for_run(file)
        code, took = worker.stop()
    assert code == 0
    assert took < 3.0  # all of them would take half a minute
    rows = list(Instance.objects.filter(pk__in=[one.pk for one in started]))
    done = [one for one in rows if one.status == Status.DONE]
    assert len(done) == len(read_runs(file)) >= 1
    assert all(one.status == Status.RUNNABLE and one.runs == 0 for one in rows if one not in done)
    assert not Worker.objects.exists()  # it signed off


def test_an_idle_worker_stops_at_once():
    with workflow_worker() as worker:
        code, took = worker.stop()
    print(f"stopped {took:.2f} s after it was asked to")
    assert code == 0
    assert took < 2.0


def test_a_worker_serves_the_queues_that_it_is_told_and_one_without_any_all_of_them():
    mail, report, other = (workflows.start(one) for one in ("HostedMail", "HostedReport", "HostedQuick"))
    with workflow_worker("--queue", "hosted-mail", "--queue", "hosted-reports"):
        wait_for_status(mail, "done")
        wait_for_status(report, "done")
        late = workflows.start("HostedMail")
        wait_for_status(late, "done")
    assert Instance.objects.get(pk=other.pk).status == "runnable"
    late = workflows.start("HostedMail")
    with workflow_worker():
        wait_for_status(late, "done")
        wait_for_status(other, "done")


@pytest.mark.kill
def test_another_worker_takes_over_from_a_killed_one(file):
    with workflow_worker() as first:
        slow = workflows.start("HostedSlow", {"file": str(file), "seconds": 3})
        wait_for_run(file)
        first.kill()
        killed = time.monotonic()
        with workflow_worker():
            quick = workflows.start("HostedQuick")
            wait_for_status(quick, Status.DONE, seconds=5)  # nobody waits for the dead
            wait_for_run(file, runs=2)
            resumed = time.monotonic() - killed
            slow.refresh_from_db()
            assert (slow.status, slow.runs, slow.solo) == (Status.RUNNING, 2, True)
            wait_for_status(slow, Status.DONE)
    print(f"resumed {resumed:.1f} s after the kill")
    assert resumed < RESUME_SECONDS
    assert slow.events.get(kind=Event.RECLAIMED).data == 1
    assert (slow.runs, slow.solo) == (0, False)


@pytest.mark.kill
def test_a_stopped_worker_that_wakes_up_again_changes_nothing_and_goes_on(file):
    with workflow_worker() as zombie:
        slow = workflows.start("HostedSlow", {"file": str(file), "seconds": 2})
        wait_for_run(file)
        zombie.kill(signal.SIGSTOP)
        with workflow_worker():
            wait_for_status(slow, Status.DONE, seconds=RESUME_SECONDS + 5)
            events = list(slow.events.values())
        zombie.kill(signal.SIGCONT)
        wait_for_status(workflows.start("HostedQuick"), Status.DONE, seconds=15)
        wait_until(lambda: "no longer valid" in zombie.read_log(), "the zombie's outcome to be refused")
    slow.refresh_from_db()
    assert list(slow.events.values()) == events
    assert slow.result == read_runs(file)[1]


def test_a_worker_whose_step_ignores_every_interruption_ends_itself():
    with workflow_worker() as worker:
        stubborn = workflows.start("HostedStubborn", {"how": "everything"})
        code = wait_until(worker.popen.poll, "the worker to end", is_it=lambda code: code is not None)
        assert code == 70
        with workflow_worker():
            wait_for_status(stubborn, Status.FAILED, seconds=RESUME_SECONDS)


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="holdpoint-server-") as name:
        Path(name).chmod(0o711)
        yield Path(name, "pg")


@pytest.mark.kill
def test_workflows_go_on_after_a_restart_of_postgresql(folder):
    server = start_server(folder, durable=False)
    environment = {"DATABASE_URL": server.url}

    def count(status: Status) -> int:
        with psycopg.connect(server.url) as connection:
            row = connection.execute(
                "SELECT count(*) FROM holdpoint_instance WHERE status = %s", [status.code]
            ).fetchone()
        return int(row[0])

    def start_one() -> None:
        with elsewhere(server.url):
            workflows.start("HostedTimer", {"seconds": 1})

    try:
        fill(server.url, find_environment()["DATABASE_URL"])
        with (
            running(Process("manage.py", "workflow_worker", **environment)) as worker,
            running(Cluster(WORKERS="1", **environment)) as cluster,
        ):
            start_one()
            wait_until(lambda: count(Status.DONE), "the first to end", is_it=lambda done: done == 1)
            # One that is still starting ends where it finds no server, as Django's own commands do.
            wait_until(lambda: " running." in cluster.read_log(), "the cluster to run")
            assert server.process is not None
            server.process.kill()
            server.process.wait()
            server.stop()
            wait_until(lambda: "lost the database" in worker.read_log(), "the worker to notice")
            server = start_server(folder, durable=False)
            again = time.monotonic()
            start_one()
            wait_until(lambda: count(Status.DONE), "the second to end", is_it=lambda done: done == 2)
            print(f"{time.monotonic() - again:.1f} s after the restart")
            assert time.monotonic() - again < RESUME_SECONDS
            assert worker.popen.poll() is None
            worker.kill()  # now the cluster alone
            start_one()
            wait_until(lambda: count(Status.DONE), "the third to end", is_it=lambda done: done == 3)
            assert cluster.popen.poll() is None
    finally:
        server.stop()


def test_a_worker_on_a_database_that_is_not_migrated_says_so_once_and_waits_for_it():
    address = urlsplit(find_environment()["DATABASE_URL"])
    name = f"unmigrated_{os.getpid()}"
    url = urlunsplit(address._replace(path=f"/{name}"))
    with psycopg.connect(urlunsplit(address._replace(path="/postgres")), autocommit=True) as server:
        server.execute(f"CREATE DATABASE {name}")
        try:
            with running(Process("manage.py", "workflow_worker", DATABASE_URL=url)) as worker:
                wait_until(lambda: "run `python manage.py migrate`" in worker.read_log(), "the advice")
                with running(Process("manage.py", "migrate", "--verbosity", "0", DATABASE_URL=url)) as migrating:
                    assert migrating.popen.wait(120) == 0, migrating.read_log()
                with psycopg.connect(url) as there:
                    pumps = "SELECT count(*) FROM holdpoint_worker"
                    wait_until(lambda: there.execute(pumps).fetchone()[0], "the worker to pump")
                    there.rollback()
                assert worker.read_log().count("run `python manage.py migrate`") == 1
                assert "lost the database" not in worker.read_log()
        finally:
            server.execute(f"DROP DATABASE {name} WITH (FORCE)")
