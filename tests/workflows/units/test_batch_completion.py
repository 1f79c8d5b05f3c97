"""Many answers in one call: a result for each, as a call of its own would have told it."""

from typing import Any
from uuid import uuid4

import pytest
from django.db import connections
from django.test.utils import CaptureQueriesContext

import workflows
from tests.support.units.payments import answer, begin
from workflows import complete_many, durable
from workflows.models import AwaitUnit, Interaction
from workflows.testing import advance, assert_done, drain

pytestmark = pytest.mark.django_db


def errors(results: list[Any]) -> list[str | None]:
    return [None if one.error is None else type(one.error).__name__ for one in results]


def address(instance: Any, index: int) -> str:
    return f"pay.{index}-{instance.pk}"


@durable(name="batches.one")
def one(ctx: Any) -> Any:
    """One question."""
    return ctx.wait_for("gate", "api", schema={"ok": bool})


@durable(name="batches.typed")
def typed(ctx: Any) -> Any:
    """Three items with a schema."""
    return ctx.wait_for_each("pay", [1, 2, 3], "api", schema={"ok": bool})


def test_a_batch_of_answers_completes_a_unit() -> None:
    instance = begin(5)
    results = complete_many([(address(instance, index), index) for index in (4, 3, 2, 1, 0)], actor="bank")
    assert [str(done.completion.signal_id) for done in results] == [address(instance, n) for n in (4, 3, 2, 1, 0)]
    drain()
    assert_done(instance, [0, 1, 2, 3, 4])
    assert set(Interaction.objects.values_list("actor", flat=True)) == {"bank"}


def test_items_of_several_units_and_single_questions_may_be_mixed() -> None:
    first, second, third = begin(2), begin(1), workflows.start(one)
    drain()
    results = complete_many(
        [
            (address(first, 1), "b"),
            (Interaction.objects.get(instance=second), "c"),
            (f"gate-{third.pk}", {"ok": True}),
            (Interaction.objects.get(instance=first, index=0).pk, "a"),
        ]
    )
    assert errors(results) == [None] * 4
    drain()
    assert_done(first, ["a", "b"])
    assert_done(second, ["c"])
    assert_done(third, {"ok": True})


def test_each_line_that_is_refused_is_told_why_and_the_others_are_taken() -> None:
    instance = workflows.start(typed)
    drain()
    results = complete_many(
        [
            (address(instance, 0), {"ok": True}),
            (address(instance, 1), {"ok": "perhaps"}),
            (address(instance, 0), {"ok": False}),
            ("nobody", 1),
            (uuid4(), 1),
            (3, 1),
            (address(instance, 2), {"ok": True}, None, 7),
        ]
    )
    assert errors(results) == [
        *(None, "InvalidData", "InteractionResolved", "UnknownInteraction", "UnknownInteraction", "InvalidCall"),
        "StaleVersion",
    ]
    assert [done.ok for done in results] == [True] + [False] * 6
    assert AwaitUnit.objects.get(instance=instance).remaining == 2


def test_a_line_with_an_idempotency_key_is_told_again() -> None:
    instance = begin(2)
    lines = [(address(instance, 0), "a", "key-0"), (address(instance, 1), "b", "key-1")]
    first = complete_many(lines)
    again = complete_many(lines)
    assert [done.completion.replayed for done in first] == [False, False]
    assert [done.completion.replayed for done in again] == [True, True]
    other = complete_many([(address(instance, 0), "c", "key-0")])
    assert errors(other) == ["IdempotencyConflict"]


def test_a_late_line_fires_the_deadline_of_its_item_and_is_refused() -> None:
    instance = begin(2, timeout="1h", on_item="partial")
    from workflows.testing import _db, _skew

    _skew(_db(), 3700)
    assert errors(complete_many([(address(instance, 0), 1)])) == ["InteractionResolved"]
    rows = Interaction.objects.filter(instance=instance).order_by("index")
    assert list(rows.values_list("status", flat=True)) == ["expired", "pending"]
    advance("1s")
    assert_done(instance, [["expired", None, None], ["expired", None, None]])


def test_an_empty_batch_is_nothing() -> None:
    assert complete_many([]) == []


@pytest.mark.parametrize("count", [1, 300, 1_000])
def test_a_batch_takes_two_statements_and_one_to_ask_the_next(count: int) -> None:
    instance = begin(1_200, concurrency=1_000)
    with CaptureQueriesContext(connections["default"]) as captured:
        complete_many([(address(instance, index), index) for index in range(count)])
    assert len(captured) == 3, [one["sql"][:200] for one in captured]


def test_answering_one_item_takes_two_statements() -> None:
    instance = begin(3)
    with CaptureQueriesContext(connections["default"]) as captured:
        answer(instance, 0)
    assert len(captured) == 2, [one["sql"][:200] for one in captured]
