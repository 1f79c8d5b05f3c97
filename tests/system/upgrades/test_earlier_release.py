"""Workers and web servers of the latest release go on while this one is deployed: on the tables of today."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.apps import apps
from django.db import connection, transaction
from django.db.migrations.loader import MigrationLoader

import workflows
from tests.support.database import db
from tests.support.released import LAST, STATEMENTS
from tests.support.released.record import prepare
from workflows import Concurrency, Done, Workflow, step, store
from workflows.models import Instance
from workflows.worker.claim_schedule import ClaimSchedule

pytestmark = pytest.mark.django_db


class UpgradeFree(Workflow):
    @step
    def only(self, ctx: Any) -> Done:
        return Done()


class UpgradeLimited(Workflow):
    concurrency = Concurrency("one", 1)

    @step
    def only(self, ctx: Any) -> Done:
        return Done()


def run_released(place: str, **params: Any) -> list[tuple[Any, ...]]:
    return store.fetch(db(), STATEMENTS[place], params)


def claim_as_released(limit: int = 10) -> list[uuid.UUID]:
    rows = run_released(
        "workflows.store.claim._CLAIM", limit=limit, lease=10.0, back=store.EVER, solos=True, known=None
    )
    return [uuid.UUID(row[0]) for row in rows]


def claim() -> list[uuid.UUID]:
    return [uuid.UUID(one.id) for one in ClaimSchedule().take(db())]


# --- what stands in a lane is not for workers that know none --------------------------------------------


def test_a_worker_without_lanes_claims_plain_instances_and_none_in_a_lane() -> None:
    limited = workflows.start(UpgradeLimited)
    free = workflows.start(UpgradeFree)
    assert claim_as_released() == [free.pk]
    limited.refresh_from_db()
    assert (limited.status, limited.fence, limited.runs, limited.slot) == ("runnable", 0, 0, None)


def test_what_a_worker_without_lanes_has_left_is_claimed_with_a_slot() -> None:
    first, second = (workflows.start(UpgradeLimited) for _ in range(2))
    assert claim_as_released() == []
    assert claim() == [first.pk]
    assert claim_as_released() == []
    assert [Instance.objects.get(pk=one.pk).slot for one in (first, second)] == [1, None]


def test_a_worker_without_lanes_gives_back_what_died_in_one() -> None:
    limited = workflows.start(UpgradeLimited)
    assert claim() == [limited.pk]
    with connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_instance SET due_at = now() - interval '1 min' WHERE id = %s", [limited.pk])
    assert run_released("workflows.store.claim._RECLAIM", limit=10) == [(1,)]
    assert claim_as_released() == []
    assert claim() == [limited.pk]


# --- its statements ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", STATEMENTS)
def test_a_statement_of_the_release_is_one_of_the_tables_of_today(place: str) -> None:
    with transaction.atomic(), db().cursor() as cursor:
        prepare(cursor, STATEMENTS[place])


# --- its models -------------------------------------------------------------------------------------------


def list_released_fields() -> dict[str, set[str]]:
    """The columns of each table, as the migrations of the release leave them."""
    loader = MigrationLoader(None)
    found: dict[str, set[str]] = {}
    for app, last in LAST.items():
        state = loader.project_state((app, last))
        for model in state.apps.get_app_config(app).get_models(include_auto_created=True):
            found[model._meta.db_table] = {field.column for field in model._meta.local_concrete_fields if field.column}
    return found


def test_a_table_of_the_release_keeps_its_columns_and_asks_for_no_new_one() -> None:
    broken = []
    with connection.cursor() as cursor:
        for table, columns in sorted(list_released_fields().items()):
            cursor.execute(
                "SELECT column_name, is_nullable = 'YES' OR column_default IS NOT NULL OR is_identity = 'YES' "
                "FROM information_schema.columns WHERE table_schema = current_schema() AND table_name = %s",
                [table],
            )
            today = dict(cursor.fetchall())
            broken += [f"{table}.{column} is gone" for column in sorted(columns - today.keys())]
            broken += [
                f"{table}.{column} must be given" for column in sorted(today.keys() - columns) if not today[column]
            ]
    assert broken == []


def test_the_release_is_known_by_migrations_that_are_there() -> None:
    loader = MigrationLoader(None)
    assert all((app, last) in loader.disk_migrations for app, last in LAST.items())
    assert set(LAST) == {one.label for one in apps.get_app_configs() if one.name in {"workflows", "approvals"}}
