"""`?wait=`: an answer as soon as the instance has ended, and nothing held meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any
from urllib.request import Request, urlopen

import pytest
from django.db import connection, connections

import workflows
from tests.support.api_calls import Api, make_key
from tests.support.processes import PATIENCE, Process, find_free_port, wait_until
from workflows import Await, Done, Workflow, step
from workflows.models import Instance
from workflows.rest.base.held_threads import PLACES
from workflows.rest.resources import long_polls
from workflows.rest.resources.instance_views import MOST_SECONDS
from workflows.testing import drain

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("committed")]

#: Whoever waits here is to wait until the test ends it, and not because its time is over.
LONGEST = MOST_SECONDS


@pytest.fixture(autouse=True)
def no_server_program(monkeypatch):
    """Whoever imported config.wsgi in this process has set how many threads it has."""
    monkeypatch.setattr(PLACES, "most", None)


class WaitedFor(Workflow):
    name = "waited-for"

    @step
    def ask(self, ctx):
        return Await("go", then="end")

    @step
    def end(self, ctx):
        return Done("gone")


def park() -> Instance:
    started = workflows.start("waited-for")
    drain()
    return started


def end(one: Instance) -> None:
    workflows.signal(one, "go")
    drain()


def call(api: Api, one: Instance, seconds: int) -> tuple[int, float]:
    """The status and how long it took, in a thread with a connection of its own."""
    began = time.monotonic()
    try:
        return api.get(f"/v1/instances/{one.pk}", wait=seconds).status_code, time.monotonic() - began
    finally:
        connections.close_all()


def in_threads(count: int, work: Callable[[], Any]) -> list[Future[Any]]:
    pool = ThreadPoolExecutor(count)
    futures = [pool.submit(work) for _ in range(count)]
    pool.shutdown(wait=False)
    return futures


def count_waiting() -> int:
    return sum(len(events) for events in long_polls._lobby._waiting.values())


def count_connections() -> int:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity "
            "WHERE datname = current_database() AND backend_type = 'client backend'"
        )
        return int(cursor.fetchone()[0])


def test_the_answer_comes_when_the_instance_ends_and_not_before():
    one, api = park(), Api(make_key())
    [future] = in_threads(1, lambda: call(api, one, LONGEST))
    wait_until(count_waiting, "the call to wait", is_it=lambda n: n == 1)
    assert not future.done()
    end(one)
    status, seconds = future.result(PATIENCE)
    assert status == 200
    assert seconds < 10


def test_the_time_over_is_202():
    one, api = park(), Api(make_key())
    status, seconds = in_threads(1, lambda: call(api, one, 1))[0].result(PATIENCE)
    assert status == 202
    assert 1 <= seconds < 5


def test_many_who_wait_hold_no_connections(settings):
    settings.WORKFLOWS = {**settings.WORKFLOWS, "MAX_WAITS": 40}
    one, api = park(), Api(make_key())
    before = count_connections()
    futures = in_threads(20, lambda: call(api, one, LONGEST))
    wait_until(count_waiting, "all of them to wait", is_it=lambda n: n == 20)
    # One that looks for all of them; those of the calls are closed, which the server notices a little later.
    wait_until(count_connections, "their connections to go", is_it=lambda n: n <= before + 1)
    end(one)
    assert [future.result(PATIENCE)[0] for future in futures] == [200] * 20
    wait_until(
        lambda: [thread.name for thread in threading.enumerate()],
        "the thread that looks to end",
        is_it=lambda names: "holdpoint-waiting" not in names,
    )
    assert count_waiting() == 0


def test_where_too_many_wait_the_next_is_told_at_once(settings):
    settings.WORKFLOWS = {**settings.WORKFLOWS, "MAX_WAITS": 4}
    one, api, other = park(), Api(make_key()), Api(make_key())
    futures = in_threads(3, lambda: call(api, one, LONGEST))
    wait_until(count_waiting, "three to wait", is_it=lambda n: n == 3)
    # One caller has three quarters of the places; the last one is for others, and then there is none.
    assert in_threads(1, lambda: call(api, one, LONGEST))[0].result(PATIENCE)[0] == 202
    futures += in_threads(1, lambda: call(other, one, LONGEST))
    wait_until(count_waiting, "the other one to wait", is_it=lambda n: n == 4)
    status, seconds = in_threads(1, lambda: call(Api(make_key()), one, LONGEST))[0].result(PATIENCE)
    assert (status, seconds < 10) == (202, True)
    end(one)
    assert [future.result(PATIENCE)[0] for future in futures] == [200] * 4


def test_a_thread_that_cannot_start_costs_one_call_and_no_other(monkeypatch):
    one, api = park(), Api(make_key())

    class Refused(threading.Thread):
        def start(self):
            if self.name == "holdpoint-waiting":
                raise RuntimeError("can't start new thread")
            super().start()

    with monkeypatch.context() as patch:
        patch.setattr(long_polls.threading, "Thread", Refused)
        assert api.get(f"/v1/instances/{one.pk}", wait=5).status_code == 202
    [future] = in_threads(1, lambda: call(api, one, LONGEST))
    wait_until(count_waiting, "the call to wait", is_it=lambda n: n == 1)
    end(one)
    assert future.result(PATIENCE)[0] == 200


def test_a_database_that_goes_away_meanwhile_ends_no_wait():
    one, api = park(), Api(make_key())
    [future] = in_threads(1, lambda: call(api, one, LONGEST))
    wait_until(count_waiting, "the call to wait", is_it=lambda n: n == 1)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() "
            "AND pid <> pg_backend_pid() AND backend_type = 'client backend'"
        )
    end(one)
    assert future.result(PATIENCE)[0] == 200


@pytest.mark.process
@pytest.mark.parametrize("interface", ["wsgi", "asgi"])
def test_a_server_of_either_kind_serves_others_while_many_wait(interface):
    one, key, port = park(), make_key(), find_free_port()
    threads = ["--blocking-threads", "12"] if interface == "wsgi" else []
    server = Process(
        *("-m", "granian", "--interface", interface, "--host", "127.0.0.1", "--port", str(port), "--no-ws"),
        *("--workers", "1", *threads, f"config.{interface}:application"),
    )

    def ask(path: str) -> int:
        request = Request(f"http://127.0.0.1:{port}{path}", headers={"Authorization": f"Bearer {key}"})
        with urlopen(request, timeout=PATIENCE) as answer:
            return int(answer.status)

    def is_up() -> bool:
        try:
            return ask("/healthz") == 200
        except OSError:
            return False

    try:
        wait_until(is_up, "the server to answer")
        before = count_connections()
        futures = in_threads(8, lambda: ask(f"/v1/instances/{one.pk}?wait={LONGEST}"))
        assert ask("/v1/instances?limit=1") == 200
        wait_until(count_connections, "those who wait to hold none", is_it=lambda n: n <= before + 3)
        assert not any(future.done() for future in futures)
        end(one)
        assert [future.result(PATIENCE) for future in futures] == [200] * 8
    finally:
        server.end()


def test_threads_that_wait_for_bodies_are_none_for_those_that_wait_for_an_end(monkeypatch):
    one, api = park(), Api(make_key())
    monkeypatch.setattr(PLACES, "most", 3)
    assert [PLACES.take(), PLACES.take()] == [True, True]  # two bodies on their way
    try:
        [future] = in_threads(1, lambda: call(api, one, LONGEST))
        wait_until(count_waiting, "the call to wait", is_it=lambda n: n == 1)
        assert not PLACES.take()  # no further body is read
        status, seconds = in_threads(1, lambda: call(Api(make_key()), one, LONGEST))[0].result(PATIENCE)
        assert (status, seconds < 10) == (202, True)
        end(one)
        assert future.result(PATIENCE)[0] == 200
        assert PLACES.take()
        PLACES.give_back()
    finally:
        PLACES.give_back()
        PLACES.give_back()
