"""Plain signals in a machine: `wait_for(signal=…)` takes the oldest of its names and leaves the others."""

from typing import Any

import pytest

import workflows
from workflows import END, Machine, action, branch, flow, wait_for
from workflows.models import Instance
from workflows.testing import advance, assert_awaiting, assert_done, drain

pytestmark = pytest.mark.django_db


class Reads(Machine):
    name = "signals.reads"
    message = wait_for(signal=["message", "last"], timeout="1d", on_timeout="silent")
    more = branch(lambda ctx: "tell" if ctx.steps.message["n"] > 2 else "message", to=["message", "tell"])
    tell = action(lambda ctx: ctx.steps.message["n"], then=END)
    silent = flow(action(lambda ctx: "silent"))


def run() -> Instance:
    one = workflows.start(Reads)
    drain()
    return one


def test_each_visit_takes_one_signal_in_the_order_of_their_arrival_whenever_they_came() -> None:
    one = workflows.start(Reads)
    for n in (1, 2):
        workflows.signal(one, "message", {"n": n})
    drain()
    assert_awaiting(one, "message", "last")
    workflows.signal(one, "last", {"n": 3})
    workflows.signal(one, "message", {"n": 4})
    drain()
    assert_done(one, 3)


def test_without_a_signal_its_time_runs_the_flow() -> None:
    one = run()
    advance("1d")
    assert_done(one, "silent")


def test_a_duplicate_is_taken_once() -> None:
    one = run()
    for _ in range(2):
        workflows.signal(one, "message", {"n": 1}, dedup_key="m1")
    drain()
    assert_awaiting(one)


def test_only_a_machine_that_names_signals_reads_any() -> None:
    class Deaf(Machine):
        gate = wait_for(event="x")

    one = workflows.start(Deaf)
    drain()
    with pytest.raises(workflows.NoReader):
        workflows.signal(one, "message")


def test_the_result_is_the_payload() -> None:
    class Paid(Machine):
        paid = wait_for(signal="paid")

    results: list[Any] = []
    for payload in (None, 5, {"amount": 5}):
        one = workflows.start(Paid)
        workflows.signal(one, "paid", payload)
        drain()
        one.refresh_from_db()
        results.append(one.result)
    assert results == [None, 5, {"amount": 5}]
