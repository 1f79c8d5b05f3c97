"""Lanes that let nothing through, and many of them: what waits behind them is found, and they cost little."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.db import connections

import workflows
from tests.support.races import COMMITTED, play, settle
from workflows import Concurrency, Done, Rate, Workflow, step, store
from workflows.engine.lanes import flow_claims, lane_search
from workflows.engine.lanes.flow_claims import FlowClaims
from workflows.engine.lanes.lane_search import FOREVER
from workflows.testing import drain
from workflows.worker.claim_schedule import ClaimSchedule

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]

#: Many times what one statement looks at.
MANY = 3_000
PAGES = MANY // lane_search.MOST_LANES


class ClosedKeyed(Workflow):
    name = "closed.keyed"
    concurrency = Concurrency("closed:{tenant}", 1)

    @step
    def a(self, ctx):
        return Done()


class ClosedFair(Workflow):
    name = "closed.fair"
    fair_by = "{tenant}"

    @step
    def a(self, ctx):
        return Done()


class ClosedMail(Workflow):
    name = "closed.mail"
    queue = "closed-mail"
    fair_by = "{tenant}"

    @step
    def a(self, ctx):
        return Done()


class ClosedRated(Workflow):
    name = "closed.rated"
    rate = Rate("closed-rate", 1, per="10h", key="{tenant}")

    @step
    def a(self, ctx):
        return Done()


@contextmanager
def counting() -> Iterator[list[str]]:
    """The statements that look at lanes or take of them."""
    looks: list[str] = []

    def count(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if "WITH RECURSIVE l" in sql:
            looks.append("look")
        elif "fence + 2" in sql:
            looks.append("take")
        return execute(sql, params, many, context)

    with connections["default"].execute_wrapper(count):
        yield looks


def begin(flow: FlowClaims) -> FlowClaims:
    flow.refresh(connections["default"], patience=0.0)
    return flow


def look(flow: FlowClaims) -> list[str]:
    return [lane.workflow for lane in flow.look(connections["default"])]


def fill_keys(many: int) -> None:
    """So many keys whose slot is taken, and one that waits for each."""
    workflows.start_many(ClosedKeyed, [{"tenant": n} for n in range(many) for _ in range(2)])
    flow, taken = begin(FlowClaims()), 0
    while taken < many:
        taken += len(flow.take(connections["default"], flow.look(connections["default"]), many, 3600.0))


def test_one_look_goes_on_behind_thousands_of_full_keys() -> None:
    fill_keys(MANY)
    flow = begin(FlowClaims(patience=FOREVER))
    with counting() as looks:
        assert look(flow) == []
    assert looks == ["look"] * (PAGES + 1)
    workflows.start(ClosedFair, {"tenant": 1}, priority=-1)
    with counting() as looks:
        assert look(flow) == ["closed.fair"]
    assert looks == ["look"] * (PAGES + 1)


def test_a_look_ends_after_its_time_and_the_next_one_begins_where_it_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_search, "REST", 0)
    workflows.start_many(ClosedFair, [{"tenant": n} for n in range(MANY)])
    workflows.pause(ClosedFair)
    workflows.start(ClosedKeyed, {"tenant": 1}, priority=-1)
    flow = begin(FlowClaims(patience=0.0))
    with counting() as looks:
        assert [look(flow) for _ in range(PAGES)] == [[]] * (PAGES - 1) + [["closed.keyed"]]
    assert looks == ["look"] * 2 * PAGES


def test_what_was_looked_at_in_vain_is_left_alone_for_many_times_as_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_search, "REST", 1e9)
    monkeypatch.setattr(lane_search, "MOST_LANES", 10)
    workflows.start_many(ClosedFair, [{"tenant": n} for n in range(35)])
    workflows.pause(ClosedFair)
    flow = begin(FlowClaims())
    with counting() as looks:
        assert look(flow) == []
        assert looks == ["look"] * 4
        assert look(flow) == []
    assert looks == ["look"] * 5


@pytest.mark.parametrize("why", ["not served", "paused"])
def test_lanes_of_a_queue_that_is_closed_are_passed_over_in_one_step(why: str) -> None:
    workflows.start_many(ClosedMail, [{"tenant": n} for n in range(MANY)], priority=1)
    workflows.start_many(ClosedFair, [{"tenant": n} for n in range(3)], priority=1)
    if why == "paused":
        workflows.pause(queue="closed-mail")
    flow = begin(FlowClaims(["default"] if why == "not served" else None))
    with counting() as looks:
        assert look(flow) == ["closed.fair"] * 3
    assert looks == ["look"]
    other = begin(FlowClaims(["closed-mail"]))
    assert set(look(other)) == ({"closed.mail"} if why == "not served" else set())


def test_lanes_that_hold_their_keys_are_passed_over_and_found_like_the_others() -> None:
    class Holding(Workflow):
        name = "closed.holding"
        concurrency = Concurrency("holding:{tenant}", 1, hold="instance")

        @step
        def a(self, ctx):
            return Done()

    for queue in ("default", "closed-mail"):
        workflows.start_many(Holding, [{"tenant": f"{queue}{n}"} for n in range(5)], queue=queue)
    flow = begin(FlowClaims())
    db = connections["default"]
    store.release(db, flow.take(db, flow.look(db), 500))  # they hold their keys from now on
    assert {one.number < 0 for one in flow.look(db)} == {True}
    for queue in ("default", "closed-mail"):
        assert [one.queue for one in begin(FlowClaims([queue])).look(db)] == [queue] * 5


def test_queues_that_share_the_upper_bits_of_their_lanes_hide_nothing_of_one_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from workflows.definitions.flow import flow_options

    for module in (flow_options, flow_claims):
        monkeypatch.setattr(module, "find_stretch", lambda queue: 7)
    workflows.start_many(ClosedMail, [{"tenant": n} for n in range(3)])
    workflows.start_many(ClosedFair, [{"tenant": n} for n in range(3)])
    assert look(begin(FlowClaims(["default"]))) == ["closed.fair"] * 3
    workflows.pause(queue="closed-mail")
    assert look(begin(FlowClaims())) == ["closed.fair"] * 3


def test_where_open_lanes_bring_nothing_a_claim_goes_on_to_those_behind_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_search, "MOST_LANES", 10)
    monkeypatch.setattr(lane_search, "LOOK_ON", FOREVER)
    spend_rates(45)
    behind = workflows.start(ClosedFair, {"tenant": 1}, priority=-1)
    claims = ClaimSchedule().take(connections["default"])
    assert [one.id for one in claims] == [str(behind.pk)]


def test_open_lanes_that_bring_nothing_are_tried_no_longer_than_a_look_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_search, "MOST_LANES", 10)
    monkeypatch.setattr(lane_search, "LOOK_ON", 0.0)
    monkeypatch.setattr(lane_search, "REST", 0)
    spend_rates(45)
    behind = workflows.start(ClosedFair, {"tenant": 1}, priority=-1)
    schedule, db = ClaimSchedule(), connections["default"]
    with counting() as looks:
        assert schedule.take(db) == []
    assert looks == ["look"] * 2
    claims = [claim for _ in range(4) for claim in schedule.take(db)]
    assert [one.id for one in claims] == [str(behind.pk)]  # each look begins where the one before has ended


def test_drain_finds_what_is_behind_lanes_that_bring_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_search, "MOST_LANES", 10)
    spend_rates(45)
    behind = workflows.start(ClosedFair, {"tenant": 1}, priority=-1)
    drain()
    behind.refresh_from_db()
    assert behind.status == "done"


def test_a_small_claim_tries_many_lanes_in_few_statements_and_takes_no_more_than_it_wants() -> None:
    spend_rates(300)
    flow, db = begin(FlowClaims()), connections["default"]
    with counting() as looks:
        assert flow.take(db, flow.look(db), 1) == []
    assert looks == ["look"]
    workflows.start_many(ClosedKeyed, [{"tenant": n} for n in range(20)], priority=-1)
    with counting() as looks:
        assert len(flow.take(db, flow.look(db), 1)) == 1
    assert looks == ["look", "take"]


def spend_rates(many: int) -> None:
    """So many rates that are used up, and one that waits for each."""
    workflows.start_many(ClosedRated, [{"tenant": n} for n in range(many) for _ in range(2)])
    flow, db, taken = begin(FlowClaims(patience=FOREVER)), connections["default"], 0
    while taken < many:
        claims = flow.take(db, flow.look(db), many)
        taken += len(claims)
        for claim in claims:
            assert settle(play(claim))
