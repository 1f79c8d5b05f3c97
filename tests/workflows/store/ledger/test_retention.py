"""Retention against everybody else: nobody loses an instance that lives, nobody waits for long."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection, connections

import workflows
from tests.support.horizon import wait_for_foreigners
from tests.support.kept_answers import answer, list_answers
from tests.support.races import COMMITTED, race, work
from workflows import Child, Done, Spawn, Stop, Workflow, step, store
from workflows.models import Instance, LedgerEvent, StoredAnswer
from workflows.store.ledger.retention import Pruned, prune
from workflows.store.ledger.seals import seal_batch

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]


class Failing(Workflow):
    name = "prune.failing"

    @step
    def only(self, ctx):
        return Stop("no")


class Family(Workflow):
    name = "prune.family"

    @step
    def split(self, ctx):
        return Spawn([Child(Failing), Child(Failing)], then="end")

    @step
    def end(self, ctx):
        return Done()


def make(workflow: Any) -> Instance:
    """An instance that has run to its end."""
    instance = workflows.start(workflow)
    work()
    return instance


def sweep() -> Pruned:
    """Prune whatever has ended at all."""
    total = Pruned()
    for one in prune(connections["default"], older_than=0.0):
        total += one
    return total


def test_a_failed_instance_that_somebody_retries_at_this_moment_stays():
    instance = make(Failing)
    retried, swept = race(lambda: workflows.retry(instance), sweep, waits=False)
    assert retried.status == "runnable"
    assert swept == Pruned(kept=1)
    assert Instance.objects.get(pk=instance.pk).status == "runnable"
    assert sweep() == Pruned()


def test_a_retry_that_comes_too_late_changes_nothing():
    instance = make(Failing)
    swept, retried = race(sweep, lambda: workflows.retry(instance))
    assert swept == Pruned(trees=1, instances=1)
    assert not isinstance(retried, Instance)
    assert not Instance.objects.exists()


def test_a_rolled_back_sweep_has_deleted_nothing():
    instance = make(Failing)
    race(sweep, lambda: workflows.retry(instance), rollback=True)
    assert Instance.objects.get().status == "runnable"


def test_a_tree_with_a_member_that_somebody_holds_stays_whole():
    family = make(Family)
    child = family.children.first()

    def hold() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 FROM holdpoint_instance WHERE id = %s FOR NO KEY UPDATE", [child.pk])

    _, swept = race(hold, sweep, waits=False)
    assert swept == Pruned(kept=1)
    assert Instance.objects.count() == 3
    assert sweep() == Pruned(trees=1, instances=3)


def test_two_sweeps_at_once_delete_each_tree_once():
    make(Family)
    first, second = race(sweep, sweep, waits=False)
    assert first + second == Pruned(trees=1, instances=3, kept=1)


def test_what_was_told_about_an_instance_outlives_it_until_it_is_four_days_old():
    instance = make(Failing)
    answer("young", days=3, instance=instance.pk)
    answer("old", days=5, instance=instance.pk)
    assert store.prune_answers(connections["default"]) == 0  # both stay as long as their instance
    assert sweep() == Pruned(trees=1, instances=1)
    assert list(StoredAnswer.objects.values_list("instance", flat=True)) == [None, None]
    assert store.prune_answers(connections["default"]) == 1
    assert list_answers() == {"young"}


def test_of_a_sealed_history_one_row_stays_that_says_who_pruned_it():
    instance = make(Failing)
    wait_for_foreigners()
    while seal_batch(connections["default"])[1]:
        pass
    for _ in prune(connections["default"], older_than=0.0, actor="shell:ann"):
        pass
    (stays,) = LedgerEvent.objects.filter(instance_id=instance.pk)
    assert (stays.kind, stays.actor, stays.data["pruned"]) == ("redacted", "shell:ann", 2)
