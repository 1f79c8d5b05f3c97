"""Telling ends beside rows that somebody holds: those are told later, and nobody else is."""

from __future__ import annotations

from uuid import UUID

import pytest
from django.db import connection

import workflows
from tests.support.races import COMMITTED, race, work
from workflows import Await, Stop, Workflow, durable, instance, step
from workflows.models import Instance
from workflows.testing import assert_done, drain
from workflows.worker import end_sweep

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]


class EndWaited(Workflow):
    name = "end-sweep-waited"

    @step
    def a(self, ctx):
        return Await("go", then="b")

    @step
    def b(self, ctx):
        return Stop("so it was wanted")


@durable(name="end-sweep-waiter")
def waiter(ctx, other):
    asked = ctx.wait_any(ctx.ask("other", instance(UUID(other))))
    return asked.answered


def begin(many: int) -> list[Instance]:
    """So many that wait for the end of one each, which has ended; in the order in which they are told."""
    others = [workflows.start(EndWaited) for _ in range(many)]
    work()
    waiting = [waiter.start(other=str(one.pk)) for one in others]
    work()
    for one in others:
        workflows.cancel(one)
    return sorted(waiting, key=lambda one: one.pk)


def hold(table: str, column: str, one: Instance) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT FROM {table} WHERE {column} = %s FOR UPDATE", [one.pk])


@pytest.mark.parametrize(("table", "column"), [("holdpoint_instance", "id"), ("holdpoint_checkpoint", "instance_id")])
@pytest.mark.parametrize("batch", [1, 500])
def test_who_is_held_by_an_outsider_is_told_later_and_keeps_nobody_waiting(
    table: str, column: str, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(end_sweep, "BATCH", batch)
    held, *others = begin(3)

    def tell_all() -> int:
        done = 0
        while told := end_sweep.work():
            done += told
        return done

    assert race(lambda: hold(table, column, held), tell_all, waits=False) == (None, 2)
    assert list(Instance.objects.filter(status="runnable").order_by("id")) == others
    assert end_sweep.work() == 1
    assert end_sweep.work() == 0
    drain()
    for one in (held, *others):
        assert_done(one, False)


def test_who_has_ended_and_is_held_is_forgotten_later() -> None:
    gone, other = begin(2)
    workflows.cancel(gone)
    assert race(lambda: hold("holdpoint_instance", "id", gone), end_sweep.work, waits=False) == (None, 1)
    assert end_sweep.work() == 1
    assert end_sweep.work() == 0
    drain()
    assert_done(other, False)
