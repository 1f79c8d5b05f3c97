"""The example workflows do what their docstrings say."""

import pytest

import workflows
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db


def test_an_order_ships_when_it_is_paid():
    order = workflows.start("demo.ship", {"order": 7}, key="order-7")
    drain()
    assert_awaiting(order, "payment_confirmed")
    workflows.signal("order-7", "payment_confirmed", {"amount": 120})
    drain()
    assert_done(order, result={"paid": {"amount": 120}})


def test_an_order_that_is_never_paid_fails_after_a_day():
    order = workflows.start("demo.ship", {"order": 7})
    advance("23h")
    assert_awaiting(order, "payment_confirmed")
    advance("1h")
    assert_failed(order, "payment never came")


def test_reminders_stop_when_somebody_reacts():
    reminder = workflows.start("demo.remind", {"every": "1h", "times": 3})
    advance("90m")
    workflows.signal(reminder, "done")
    drain()
    assert_done(reminder, result={"reminders": 2})


def test_reminders_give_up_after_so_many():
    reminder = workflows.start("demo.remind", {"every": "1h", "times": 3})
    advance("3h")
    assert_failed(reminder, "nobody reacted")
