"""Connections that fall silent without an end stop no worker for long, and hold up no stop."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

import workflows
from tests.support.processes import Process, running, wait_for_status
from tests.support.silent_network import Proxy, proxied
from workflows import store
from workflows.lifecycle import Status
from workflows.worker.pump_connection import connect
from workflows.worker.silent_connections import Lookout

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.django_db(transaction=True)]

RESUME_SECONDS = 30.0


@pytest.fixture
def proxy() -> Iterator[tuple[Proxy, str]]:
    with proxied() as made:
        yield made


def wait_for_one() -> None:
    wait_for_status(workflows.start("HostedQuick"), Status.DONE, seconds=RESUME_SECONDS)


@pytest.mark.parametrize("command", ["workflow_worker", "qcluster"])
def test_a_worker_whose_connections_all_fall_silent_goes_on_with_new_ones(
    proxy: tuple[Proxy, str], command: str
) -> None:
    between, url = proxy
    with running(Process("manage.py", command, DATABASE_URL=url, WORKERS="1")) as worker:
        wait_for_one()
        assert between.swallow() >= 1
        silent = time.monotonic()
        wait_for_one()
        print(f"{time.monotonic() - silent:.1f} s of silence")
        assert worker.popen.poll() is None
        assert "has said nothing" in worker.read_log()


def test_a_worker_whose_connections_are_silent_stops_when_it_is_told_to(proxy: tuple[Proxy, str]) -> None:
    between, url = proxy
    with running(Process("manage.py", "workflow_worker", DATABASE_URL=url)) as worker:
        wait_for_one()
        between.swallow()
        code, took = worker.stop(seconds=RESUME_SECONDS)
    print(f"stopped {took:.1f} s after it was told to")
    assert code == 0


def test_a_statement_that_the_server_is_at_work_on_is_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    asked: list[float] = []

    def lose_patience() -> float:
        asked.append(time.monotonic())
        return 0.0

    lookout = Lookout(lose_patience)
    db = connect("default", lookout)
    lookout.start()
    try:
        assert store.fetch(db, "SELECT pg_sleep(4), 1", {})[0][1] == 1
        assert len(asked) >= 3
    finally:
        lookout.stop()
        db.close()
    assert "is cut" not in caplog.text


def test_a_cluster_whose_connections_are_silent_stops_when_it_is_told_to(proxy: tuple[Proxy, str]) -> None:
    between, url = proxy
    with running(Process("manage.py", "qcluster", DATABASE_URL=url, WORKERS="1")) as worker:
        wait_for_one()
        between.swallow()
        code, took = worker.stop(seconds=3 * RESUME_SECONDS)
    print(f"stopped {took:.1f} s after it was told to")
    assert code == 0
