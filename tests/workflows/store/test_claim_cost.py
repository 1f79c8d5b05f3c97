"""What a claim reads and takes: no more for a snapshot that is held, and no more bytes than a worker can hold.

And what time does to it: whatever becomes due in the past, or is due in a future that was taken back, is found soon.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.db import connection, connections, transaction
from django.db.backends.signals import connection_created

import workflows
from tests.support.clocks import stopped_clock
from tests.support.processes import wait_until
from tests.support.pumps import pumping
from tests.support.races import COMMITTED, play, settle, take
from workflows import Done, Workflow, step, store
from workflows.lifecycle import Status
from workflows.models import Instance, LedgerEvent
from workflows.worker.pump_connection import connect

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]

SECONDS = 60.0
ran: list[str] = []
during: dict[str, Callable[[], None]] = {}


@pytest.fixture(autouse=True)
def _anew() -> None:
    ran.clear()
    during.clear()


class Cheap(Workflow):
    name = "cost.cheap"

    @step
    def a(self, ctx):
        ran.append(ctx.input.get("role", ""))
        return Done()


class Alone(Workflow):
    name = "cost.alone"
    max_attempts = 1

    @step
    def a(self, ctx):
        ran.append("alone")
        during.pop("alone", lambda: None)()
        return Done()


@pytest.fixture
def pump_db() -> Iterator[Any]:
    db = connect("default")
    yield db
    db.close()


@contextmanager
def held_snapshot() -> Iterator[None]:
    """As a backup does: from now on no row version can be cleared away."""
    settings = connections["default"].get_connection_params()
    with psycopg.connect(
        **{key: settings[key] for key in ("dbname", "host", "port", "user") if settings.get(key)}
    ) as db:
        db.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        db.execute("SELECT count(*) FROM holdpoint_instance")
        yield


def count_buffers(db: Any, back: float) -> int:
    """What an empty claim reads; the first one in a session, or after a vacuum, also reads what it then remembers."""
    plans: list[Any] = []

    def explain(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", params, many, context)
        plans.append(context["cursor"].fetchone()[0][0]["Plan"])
        return execute(sql, params, many, context)

    with db.execute_wrapper(explain):
        for _ in range(3):
            assert store.claim(db, 500, back=back) == []
    return min(int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"]) for plan in plans)


def test_an_empty_claim_reads_no_more_for_what_was_done_while_a_snapshot_is_held(pump_db: Any) -> None:
    before = count_buffers(pump_db, 1.0)
    with held_snapshot():
        for _ in range(4):
            workflows.start_many(Cheap, [{}] * 1_500)
            while claims := take(500):
                assert settle(*map(play, claims))
        assert len(ran) == 6_000
        done = time.monotonic()
        wait_until(time.monotonic, "the last of them to be a second old", is_it=lambda now: now > done + 1.0)
        # An index of thousands of rows is up to two levels deeper than an empty one, and a claim begins two scans.
        assert count_buffers(pump_db, 1.0) <= min(2 * before, before + 4)
        assert count_buffers(pump_db, store.EVER) > 10 * (before + 4)


def test_a_pump_looks_at_everything_about_once_a_second_and_else_at_what_is_new() -> None:
    backs: list[float] = []

    def listen(sender: Any, connection: Any, **kwargs: Any) -> None:
        def record(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
            if isinstance(params, dict) and "back" in params:
                backs.append(params["back"])
            return execute(sql, params, many, context)

        connection.execute_wrappers.append(record)

    connection_created.connect(listen)
    try:
        began = time.monotonic()
        with pumping():
            wait_until(lambda: backs.count(store.EVER), "two looks at everything", is_it=lambda count: count >= 3)
            took = time.monotonic() - began
    finally:
        connection_created.disconnect(listen)
    assert took >= 2.0
    assert len(backs) > 2 * backs.count(store.EVER)
    assert max(back for back in backs if back != store.EVER) < 5.0


def test_what_becomes_runnable_with_an_old_moment_is_found_all_the_same() -> None:
    with pumping():
        wait_until(lambda: done(workflows.start(Cheap)) is not None, "the pump", seconds=SECONDS)
        with transaction.atomic():
            instance = workflows.start(Cheap)
            with connection.cursor() as cursor:
                cursor.execute(
                    "UPDATE holdpoint_instance SET due_at = now() - interval '1 h' WHERE id = %s", [instance.pk]
                )
        wait_until(lambda: done(instance), "the late one", seconds=SECONDS)


def done(instance: Instance) -> bool:
    return Instance.objects.filter(pk=instance.pk, status=Status.DONE).exists()


def test_what_was_woken_by_a_clock_that_was_put_back_is_not_waiting_for_the_difference() -> None:
    instance = workflows.start(Cheap)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_instance SET due_at = now() + interval '10 min' WHERE id = %s", [instance.pk])
    with pumping():
        wait_until(lambda: done(instance), "it", seconds=SECONDS)


def test_a_role_that_was_held_when_the_clock_was_put_back_is_free_again() -> None:
    with stopped_clock(), connection.cursor() as cursor:
        assert store.beat(connection, "cluster:back", "cluster", "before")
        cursor.execute("UPDATE holdpoint_worker SET beat_at = beat_at + interval '10 min' WHERE name = 'cluster:back'")
        silence, _ = store.silence(connection, "cluster:back")
        assert silence == 600
        assert store.suspect(connection, "cluster:back", "cluster")
        assert store.beat(connection, "cluster:back", "cluster", "after")
        assert not store.beat(connection, "cluster:back", "cluster", "before")


def test_a_claim_takes_no_more_bytes_than_a_worker_can_hold() -> None:
    heavy = "".join(random.Random(1).choices("0123456789abcdefghijklmnopqrstuvwxyz", k=900_000))
    workflows.start_many(Cheap, [{"text": heavy}] * 40)
    sizes = [len(take(500)) for _ in range(3)]
    assert sum(sizes) == 40
    assert max(sizes) <= 20


def test_what_may_run_in_company_comes_between_those_that_run_alone() -> None:
    during["alone"] = lambda: workflows.start(Cheap, {"role": "company"}) and None
    workflows.start_many(Alone, [{}] * 50)
    with pumping():
        wait_until(lambda: len(ran), "all", is_it=lambda count: count == 51)
    assert ran.index("company") < 5


def test_what_this_process_knows_comes_between_what_it_does_not_know() -> None:
    workflows.start_many(Cheap, [{}] * 1_500)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_instance SET workflow = 'cost.removed'")
    known = workflows.start(Cheap)
    put_back = Instance.objects.filter(workflow="cost.removed", status=Status.SLEEPING)
    with pumping():
        wait_until(put_back.count, "the others to be put back", is_it=lambda count: count == 1_500)
        wait_until(lambda: done(known), "the known one", seconds=SECONDS)
    before = LedgerEvent.objects.filter(kind="put_back", at__lt=known.events.get(kind="done").at).count()
    assert before <= 500
