"""A caller who dawdles in a transaction holds up what it has touched, and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.db import transaction
from django.db.backends.base.base import BaseDatabaseWrapper

import workflows
from tests.support.races import COMMITTED
from workflows import Done, Workflow, engine, step, store
from workflows.engine.author_calls import Host
from workflows.models import Instance
from workflows.worker.pump_connection import connect

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]


@pytest.fixture
def pump_db() -> Iterator[BaseDatabaseWrapper]:
    """A connection like the pump's own."""
    db = connect("default")
    yield db
    db.close()


class Held(Workflow):
    name = "held.row"

    @step
    def only(self, ctx):
        return Done()


def test_outcomes_are_committed_around_a_row_that_a_caller_holds(pump_db):
    instances = workflows.start_many(Held, [{}] * 20)
    claims = store.claim(pump_db, 20)
    results = [engine.run(claim, Host(pump_db, "default")) for claim in claims]
    commits = [one for one in results if isinstance(one, store.Commit)]
    blocked: list[store.Commit] = []
    with transaction.atomic():
        workflows.signal(instances[3], "hello")
        applied = engine.settle(pump_db, commits, blocked)
    assert [one.claim.id for one in blocked] == [str(instances[3].pk)]
    assert applied == {str(one.pk) for one in instances} - {str(instances[3].pk)}
    assert engine.settle(pump_db, blocked) == {str(instances[3].pk)}
    assert Instance.objects.filter(status="done").count() == 20


def test_a_held_row_is_not_given_back_and_does_not_keep_its_neighbours(pump_db):
    instances = workflows.start_many(Held, [{}] * 3)
    claims = store.claim(pump_db, 3)
    with transaction.atomic():
        workflows.signal(instances[1], "hello")
        released = store.release(pump_db, claims)
    assert released == {str(instances[0].pk), str(instances[2].pk)}
    assert store.release(pump_db, claims) == {str(instances[1].pk)}


def test_leases_of_free_rows_are_renewed_beside_a_held_one(pump_db):
    instances = workflows.start_many(Held, [{}] * 3)
    claims = store.claim(pump_db, 3)
    with transaction.atomic():
        workflows.signal(instances[1], "hello")
        assert store.renew(pump_db, claims) == {str(instances[0].pk), str(instances[2].pk)}
