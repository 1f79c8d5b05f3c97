"""A connection that is cut before or after any statement: whoever tries again converges to exactly one advance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from django.db import Error, connection, connections

import workflows
from tests.support.races import COMMITTED, work
from tests.support.units.flows import killed
from workflows import InteractionResolved, UnknownInteraction, durable, store
from workflows.lifecycle import CODES, Status
from workflows.models import AwaitUnit, Instance, Interaction, LedgerEvent, Signal
from workflows.units import unit_sweep

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]


@durable(name="units.cut")
def cut_lines(ctx: Any) -> Any:
    """Two payments, each continued by a line."""
    return ctx.wait_for_each("pay", [10, 20], "api", then=lambda ctx, item, output: output)


class Cut:
    """Cuts the connection once: before its statement of this number, or after it, when its answer is lost."""

    def __init__(self, number: int, before: bool) -> None:
        self.number, self.before, self.seen = number, before, 0

    def __call__(self, execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        self.seen += 1
        if self.seen != self.number:
            return execute(sql, params, many, context)
        if not self.before:
            execute(sql, params, many, context)
        return execute("SELECT pg_terminate_backend(pg_backend_pid())", None, False, context)

    @property
    def was_made(self) -> bool:
        return self.seen >= self.number


def answer_all(instance: Instance) -> int:
    answered = 0
    for asked in Interaction.objects.filter(instance=instance, status="pending", queued=False):
        try:
            workflows.complete(asked, asked.index)
        except (InteractionResolved, UnknownInteraction):
            continue
        answered += 1
    return answered


def go_through(instance: Instance) -> None:
    while work() + unit_sweep.work() + answer_all(instance):
        pass


def go_on(instance: Instance) -> None:
    """The lease of whoever was cut off ends, or the delay before the next try; then as ever."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE holdpoint_instance SET due_at = now() - interval '1 s' WHERE status = ANY(%s)",
            [[CODES[one] for one in (Status.RUNNABLE, Status.RUNNING, Status.SLEEPING)]],
        )
    store.reclaim(connections["default"])
    store.expire_due(connections["default"])
    go_through(instance)


@pytest.mark.parametrize("flow", [killed, cut_lines])
def test_a_connection_cut_at_any_statement_converges_to_exactly_one_advance(flow: Any) -> None:
    number, was_made = 0, True
    while was_made:
        number += 1
        instance = workflows.start(flow)
        cut = Cut(number, before=number % 2 == 0)
        try:
            with connection.execute_wrapper(cut):
                go_through(instance)
        except Error:
            connection.close()
        was_made = cut.was_made
        go_on(instance)
        _assert_advanced_once(instance, [0, 1, 2] if flow is killed else [0, 1], f"cut at {number}")


def _assert_advanced_once(instance: Instance, result: list[int], when: str) -> None:
    found = Instance.objects.get(pk=instance.pk)
    assert (found.status, found.result) == ("done", result), when
    [unit] = AwaitUnit.objects.filter(instance=instance)
    assert (unit.answered, unit.remaining, unit.queued, unit.phase) == (len(result), 0, 0, "released"), when
    assert Signal.objects.filter(instance=instance).count() == 1, when
    kinds = Counter(LedgerEvent.objects.filter(instance=instance).values_list("kind", flat=True))
    ends = Counter(LedgerEvent.objects.filter(instance=unit.pk).values_list("kind", flat=True))
    assert (kinds["asked"], kinds["answered"], kinds["done"]) == (1, 1, 1), (when, kinds)
    assert (ends["await_resume_released"], ends["await_unit_terminal"]) == (1, 1), (when, ends)
    assert ends["await_unit_item_completed"] == len(result), (when, ends)
    lines = Instance.objects.filter(parent=instance)
    assert lines.count() == (len(result) if unit.lines else 0), when
    assert set(lines.values_list("status", flat=True)) <= {"done"}, when
