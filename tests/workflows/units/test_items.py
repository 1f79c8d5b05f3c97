"""A wait for each of a list of items: their order, their concurrency, their ends."""

import pytest

from tests.support.units.payments import answer, asked, begin
from workflows.models import AwaitUnit, Interaction
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db


def test_outputs_come_back_in_the_order_of_the_items_however_they_are_answered() -> None:
    instance = begin(4)
    assert_awaiting(instance, "pay")
    for index in (2, 0, 3, 1):
        answer(instance, index)
    drain()
    assert_done(instance, [0, 1, 2, 3])


def test_an_empty_stream_completes_at_once() -> None:
    assert_done(begin(0), [])
    assert not AwaitUnit.objects.exists()


def test_no_more_items_are_asked_at_a_time_than_concurrency_says() -> None:
    instance = begin(5, concurrency=2)
    for index in range(5):
        assert asked(instance) == list(range(index, min(5, index + 2)))
        answer(instance, index)
    drain()
    assert_done(instance, [0, 1, 2, 3, 4])


def test_an_expired_item_fails_the_unit_under_fail() -> None:
    instance = begin(3, concurrency=2, timeout="1h")
    advance("2h")
    assert_failed(instance, "item 0 of 'pay' was not answered before its deadline")


def test_under_partial_each_item_is_marked_and_its_time_begins_when_it_is_asked() -> None:
    instance = begin(3, concurrency=2, timeout="1h", on_item="partial")
    advance("30m")
    answer(instance, 1)
    advance("31m")
    assert Interaction.objects.get(instance=instance, index=2).status == "pending"
    advance("30m")
    assert_done(instance, [["expired", None, None], ["completed", 1, None], ["expired", None, None]])
