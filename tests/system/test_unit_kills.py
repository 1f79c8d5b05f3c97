"""A process that is killed between any two writes: what is left converges to exactly one advance."""

from collections import Counter
from typing import Any

import pytest
from django.db import connection, connections

import workflows
from tests.support.processes import Process, find_environment, running, wait_until
from tests.support.races import COMMITTED, work
from tests.support.units.flows import killed
from tests.support.units.killed_process import POINTS
from workflows import InteractionResolved, UnknownInteraction, store
from workflows.models import AwaitUnit, Instance, Interaction, LedgerEvent, Signal
from workflows.units import unit_sweep

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]


def kill_at(point: str, instance: Instance) -> None:
    with running(
        Process("-m", "tests.support.units.killed_process", point, str(instance.pk), **find_environment())
    ) as process:
        wait_until(lambda: "HERE" in process.read_log() or process.popen.poll() is not None, point)
        assert process.popen.poll() is None, process.read_log()
        process.kill()  # SIGKILL
        process.popen.wait()


def go_on(instance: Instance) -> None:
    """Workers and sweeps of other processes, and somebody who answers whatever is asked."""
    with connection.cursor() as cursor:  # the lease of the dead ends
        cursor.execute("UPDATE holdpoint_instance SET due_at = now() - interval '1 s' WHERE status = 2")
    store.reclaim(connections["default"])
    while work() + unit_sweep.work() + answer_something(instance):
        pass


def answer_something(instance: Instance) -> int:
    pending = Interaction.objects.filter(instance=instance, status="pending", queued=False).first()
    if pending is None:
        return 0
    try:
        workflows.complete(pending, pending.index)
    except (InteractionResolved, UnknownInteraction):
        return 0
    return 1


@pytest.mark.parametrize("point", POINTS)
def test_a_kill_between_two_writes_converges_to_exactly_one_advance(point: str) -> None:
    expires = "expired" in point
    more: dict[str, Any] = {"timeout": "1h"} if expires else {}
    instance = workflows.start(killed, more)
    kill_at(point, instance)
    go_on(instance)

    found = Instance.objects.get(pk=instance.pk)
    [unit] = AwaitUnit.objects.filter(instance=instance)
    kinds = Counter(LedgerEvent.objects.filter(instance=instance).values_list("kind", flat=True))
    ends = Counter(LedgerEvent.objects.filter(instance=unit.pk).values_list("kind", flat=True))
    assert found.status == ("failed" if expires else "done"), found.error
    if not expires:
        assert found.result == [0, 1, 2]
        assert ends["await_unit_item_completed"] == 3
    assert Signal.objects.filter(instance=instance).count() == 1
    assert (kinds["asked"], kinds["answered"], kinds[str(found.status)]) == (1, 1, 1), kinds
    assert (ends["await_resume_released"], ends["await_unit_terminal"]) == (1, 1), ends
    assert ends["await_unit_dispatch_complete"] == (0 if expires else 1)
