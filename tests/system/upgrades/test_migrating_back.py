"""Going to the latest release's tables and back again, on a database that is in use."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db import connection, transaction
from django.db.migrations.executor import MigrationExecutor

import workflows
from tests.support.copied_database import copied_database
from tests.support.races import Other
from tests.support.released import LAST, STATEMENTS
from tests.support.released.record import prepare
from workflows import Await, Concurrency, Done, Workflow, durable, event, received, step
from workflows.models import EventWait, Instance, KeptState, Schedule
from workflows.testing import drain

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]


class UpgradeHeld(Workflow):
    queue = "upgrade-queue"
    concurrency = Concurrency("held", 1, hold="instance")
    keep_states = 10

    @step
    def first(self, ctx: Any) -> Await:
        return Await("go", then="last")

    @step
    def last(self, ctx: Any) -> Done:
        return Done()


@durable(name="upgrade-asks")
def ask(ctx: Any) -> int:
    one, two, three = (ctx.ask(name, event(name)) for name in ("one", "two", "three"))
    go = ctx.ask("go", received("go"))
    ctx.wait_any(one, two, three, go)
    return 1


@pytest.fixture
def copy(transactional_db: None) -> Iterator[None]:
    with copied_database():
        yield


def migrate(last: str = "") -> None:
    executor = MigrationExecutor(connection)
    executor.migrate([("holdpoint", last)] if last else executor.loader.graph.leaf_nodes("holdpoint"))


def list_indexes() -> dict[str, tuple[bool, str]]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname, x.indisvalid, pg_get_indexdef(x.indexrelid) FROM pg_index x "
            "JOIN pg_class c ON c.oid = x.indexrelid WHERE c.relname LIKE 'holdpoint%%'"
        )
        return {name: (valid, told) for name, valid, told in cursor.fetchall()}


def list_checks() -> dict[str, tuple[bool, str]]:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT conname, convalidated, pg_get_constraintdef(oid) FROM pg_constraint "
            "WHERE conname LIKE 'holdpoint%%'"
        )
        return {name: (valid, told) for name, valid, told in cursor.fetchall()}


def test_rows_that_use_all_that_is_new_go_back_to_the_release_and_forward_again(copy: None) -> None:
    held, waiting = (workflows.start(UpgradeHeld) for _ in range(2))
    asking = ask.start()
    drain()
    fork = workflows.fork(held)
    workflows.schedule("upgrade-nightly", UpgradeHeld, cron="0 3 * * *")
    workflows.pause(queue="upgrade-queue")
    assert (EventWait.objects.filter(closed_at=None).count(), Schedule.objects.count()) == (3, 1)
    assert KeptState.objects.exists()
    assert Instance.objects.get(pk=waiting.pk).lane is not None
    indexes, checks = list_indexes(), list_checks()

    migrate(LAST["holdpoint"])
    for statement in STATEMENTS.values():
        with transaction.atomic(), connection.cursor() as cursor:
            prepare(cursor, statement)
    with connection.cursor() as cursor:
        params = {"limit": 10, "lease": 0.0, "back": 1e10, "solos": True, "known": None}
        cursor.execute(STATEMENTS["workflows.store.claim._CLAIM"], params)
        claimed = {uuid.UUID(row[0]) for row in cursor.fetchall()}
        assert claimed == {waiting.pk, fork.pk}
        cursor.execute(STATEMENTS["workflows.store.claim._RECLAIM"], {"limit": 10})

    migrate()
    assert (list_indexes(), list_checks()) == (indexes, checks)
    for one in (held, waiting, asking, fork):
        drain()
        workflows.signal(one, "go")
    drain()
    assert set(Instance.objects.values_list("status", flat=True)) == {"done"}


def test_an_index_whose_building_was_interrupted_is_built_by_the_next_try(copy: None) -> None:
    indexes = list_indexes()
    migrate("0028_tracebacks")
    for _ in range(2):
        start_as_released()
    with connection.cursor() as cursor:
        for name in ("holdpoint_lanes", "holdpoint_slot"):
            with pytest.raises(Exception, match="could not create unique index"):
                cursor.execute(f"CREATE UNIQUE INDEX CONCURRENTLY {name} ON holdpoint_instance (workflow)")
            assert not list_indexes()[name][0]
    migrate()
    assert list_indexes() == indexes
    # What was done before an interruption is left, and the rest is done.
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM django_migrations WHERE name = '0029_hot_indexes' OR name LIKE '0030%'")
        cursor.execute("DROP INDEX holdpoint_forks")
    migrate()
    assert list_indexes() == indexes


def test_whoever_writes_is_not_kept_waiting_by_a_migration_that_waits_for_another(copy: None) -> None:
    migrate("0027_lineage")
    start_as_released()
    url = connection.get_connection_params()
    with psycopg.connect(dbname=url["dbname"], host=url["host"], user=url["user"]) as long:
        long.execute("UPDATE holdpoint_instance SET error = 'long'")
        migration = Other(migrate)
        migration.wait_until_blocked()
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '60 s'")
        short = start_as_released()
        with connection.cursor() as cursor:
            cursor.execute("UPDATE holdpoint_instance SET error = 'short' WHERE id = %s", [short])
            assert cursor.rowcount == 1
        assert migration.answer is None
    migration.join()
    assert migration.answer is None
    assert set(Instance.objects.values_list("error", "traceback")) == {("long", None), ("short", None)}


def test_an_index_waits_for_others_as_long_as_it_takes_whatever_limits_the_role_has(copy: None) -> None:
    def migrate_within_limits() -> tuple[str, ...]:
        with connection.cursor() as cursor:
            cursor.execute("SET lock_timeout = '100 ms'; SET statement_timeout = '200 ms'")
            migrate("0029_hot_indexes")
            cursor.execute("SELECT current_setting('lock_timeout'), current_setting('statement_timeout')")
            after: tuple[str, ...] = cursor.fetchone()
            cursor.execute("RESET lock_timeout; RESET statement_timeout")
        return after

    url = connection.get_connection_params()
    migrate("0028_tracebacks")
    with psycopg.connect(dbname=url["dbname"], host=url["host"], user=url["user"]) as long:
        long.execute("LOCK TABLE holdpoint_instance IN ROW EXCLUSIVE MODE")
        migration = Other(migrate_within_limits)
        migration.wait_until_blocked()
        long.execute("SELECT pg_sleep(0.5)")  # longer than both
        migration.wait_until_blocked()
    assert migration.join() == ("100ms", "200ms")
    assert all(valid for valid, _ in list_indexes().values())


def start_as_released() -> uuid.UUID:
    """An instance, whatever columns the table has just now; its id."""
    id = uuid.uuid4()
    with connection.cursor() as cursor:
        params = {
            "ids": [id],
            "workflows": ["gone"],
            "versions": [1],
            "steps": ["a"],
            "keys": [None],
            "inputs": ["{}"],
            "solos": [False],
            "prints": [0],
            "ws": "default",
            "actor": "",
            "run_at": None,
            "parent": None,
            "spawn_no": None,
        }
        cursor.execute(STATEMENTS["workflows.store.start._START[('slug', False)]"], params)
    return id
