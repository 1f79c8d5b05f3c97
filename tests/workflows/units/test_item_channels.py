"""How items are asked: a channel for all, a channel or a schema for each, rows that a channel writes, addresses."""

from collections.abc import Sequence
from typing import Any

import pytest

import workflows
from tests.support.units.payments import begin
from workflows import Channel, InvalidData, durable
from workflows.models import AwaitUnit, Interaction
from workflows.testing import assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db

OPENED: list[list[int]] = []


class Slip(Channel[Any]):
    """A channel that takes note of what it is asked to open."""

    name = "units-slip"

    def __init__(self, schema: Any = None, assignee: str | None = None) -> None:
        self.schema, self.assignee = schema, assignee

    def open(self, interactions: Sequence[Interaction]) -> None:
        """Written with the items, in their transaction."""
        OPENED.append([one.index for one in interactions])


class Plain(Channel[Any]):
    """A channel without rows."""

    name = "units-plain"


@durable(name="units.channel")
def channels(ctx: Any, how: str, n: int, **more: Any) -> Any:
    """Ask in one of several ways."""
    asked = {
        "slip": Slip(),
        "plain": Plain(),
        "each": lambda item: Slip({"n": int} if item % 2 else {"s": str}, assignee=f"person-{item}"),
        "labels": lambda item: f"desk-{item}",
        "wrong": lambda item: item,
    }[how]
    return ctx.wait_for_each("ask", list(range(n)), asked, **more)


def start(how: str, n: int = 3, **more: Any) -> Any:
    OPENED.clear()
    instance = workflows.start(channels, {"how": how, "n": n, **more})
    drain()
    return instance


def answer(instance: Any, index: int, data: Any) -> None:
    workflows.complete(f"ask.{index}-{instance.pk}", data)


def test_a_channel_opens_the_items_that_are_asked_as_one_list() -> None:
    instance = start("slip", n=5, concurrency=3)
    assert OPENED == [[0, 1, 2]]
    answer(instance, 1, "b")
    answer(instance, 0, "a")
    assert OPENED == [[0, 1, 2]]  # the author's code opens the others, not whoever answers
    drain()
    assert OPENED == [[0, 1, 2], [3, 4]]
    for index in (2, 3, 4):
        answer(instance, index, index)
    drain()
    assert_done(instance, ["a", "b", 2, 3, 4])


def test_a_channel_without_rows_of_its_own_needs_no_run_of_the_author() -> None:
    instance = start("plain", n=3, concurrency=1)
    assert not AwaitUnit.objects.get(instance=instance).hooked
    answer(instance, 0, 1)
    assert Interaction.objects.filter(instance=instance, queued=False).count() == 2


def test_each_item_may_have_a_channel_and_a_schema_of_its_own() -> None:
    instance = start("each")
    rows = Interaction.objects.filter(instance=instance).order_by("index")
    assert list(rows.values_list("assignee", flat=True)) == ["person-0", "person-1", "person-2"]
    assert OPENED == [[0], [1], [2]]
    with pytest.raises(InvalidData):
        answer(instance, 0, {"n": 1})
    answer(instance, 0, {"s": "x"})
    with pytest.raises(InvalidData):
        answer(instance, 1, {"s": "x"})
    answer(instance, 1, {"n": 1})
    answer(instance, 2, {"s": "y"})
    drain()
    assert_done(instance, [{"s": "x"}, {"n": 1}, {"s": "y"}])


def test_a_label_for_each_item_lists_it_there() -> None:
    instance = start("labels", n=2)
    rows = Interaction.objects.filter(instance=instance).order_by("index")
    assert list(rows.values_list("channel", flat=True)) == ["desk-0", "desk-1"]


def test_a_function_that_returns_no_channel_is_told_for_which_item() -> None:
    assert_failed(start("wrong"), "the function passed as channel returned 0 for the item 0")
    assert not AwaitUnit.objects.exists()


def test_an_address_that_is_taken_opens_nothing_of_the_unit() -> None:
    @durable(name="units.taker")
    def taker(ctx: Any, address: str) -> Any:
        return ctx.wait_for_signal("gate", signal=address, timeout="1h")

    @durable(name="units.taken")
    def taken(ctx: Any) -> Any:
        ctx.launch("first", "units.taker", {"address": f"ask.1-{ctx.id}"})
        ctx.sleep("moment", "1s")
        return ctx.wait_for_each("ask", [1, 2, 3], "api")

    from workflows.testing import advance

    instance = workflows.start(taken)
    drain()
    advance("2s")
    assert_failed(instance, f"SignalCollision: signal id 'ask.1-{instance.pk}'")
    assert not AwaitUnit.objects.filter(instance=instance).exists()
    assert taker is not None


def test_odd_items_and_ids_have_addresses_too() -> None:
    @durable(name="units.odd")
    def odd(ctx: Any) -> Any:
        return ctx.wait_for_each("café / 7", [None, {"a": [1]}, "x"], "api")

    instance = workflows.start(odd)
    drain()
    rows = Interaction.objects.filter(instance=instance).order_by("index")
    assert [row.request for row in rows] == [None, {"a": [1]}, "x"]
    assert rows[0].signal_id == f"caf~e9~~20~~2f~~20~7.0-{instance.pk}"
    for row in rows:
        workflows.complete(row.signal_id, None)
    drain()
    assert_done(instance, [None, None, None])


@pytest.mark.parametrize(
    ("more", "problem"),
    [
        ({"concurrency": 0}, "concurrency= must be a number from 1"),
        ({"concurrency": True}, "concurrency= must be a number from 1"),
        ({"on_item": "maybe"}, "on_item= must be 'fail' or 'partial'"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": "soon"}, "timeout|duration"),
    ],
)
def test_what_cannot_be_meant_is_refused_where_it_is_written(more: dict[str, Any], problem: str) -> None:
    instance = begin(1, **more)
    assert instance is not None
    found = assert_failed(instance)
    import re

    assert re.search(problem, found.error or ""), found.error
