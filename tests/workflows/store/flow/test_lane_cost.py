"""What a claimer pays for lanes: a look at each, however many rows wait in it, and nothing where there are none."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection

import workflows
from tests.support.races import COMMITTED, play, settle
from workflows import Concurrency, Done, Workflow, step, store
from workflows.engine.lanes import look_backs
from workflows.engine.lanes.flow_claims import FlowClaims
from workflows.worker.claim_schedule import ClaimSchedule
from workflows.worker.pump_connection import connect

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]

#: Behind one key: many times what fits into the pages that a look may read.
MANY = 5_000
#: Pages of indexes and tables.
FEW = 60


class CostKeyed(Workflow):
    name = "cost.keyed"
    concurrency = Concurrency("cost:{tenant}", 1, hold="instance")

    @step
    def a(self, ctx):
        return Done()


class CostQueue(Workflow):
    """Makes the queue known."""

    name = "cost.queue"
    queue = "cost-queue"

    @step
    def a(self, ctx):
        return Done()


class CostPlain(Workflow):
    name = "cost.plain"

    @step
    def a(self, ctx):
        return Done()


@pytest.fixture
def pump_db() -> Iterator[Any]:
    db = connect("default")
    yield db
    db.close()


def fill(many: int) -> None:
    """A key whose one slot is taken, and so many that wait for it."""
    workflows.start_many(CostKeyed, [{"tenant": "full"}] * (many + 1))
    flow, db = FlowClaims(), connection
    flow.refresh(db)
    assert len(flow.take(db, flow.look(db), 10, 3600.0)) == 1
    sweep_out()


def sweep_out() -> None:
    """Entries that earlier tests have left would be read with those of this one."""
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE holdpoint_instance")


def explain(db: Any, call: Callable[[], object]) -> list[dict[str, Any]]:
    """The plans of a call's statements, as they are executed."""
    plans: list[dict[str, Any]] = []

    def wrap(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if "holdpoint_instance" in sql:
            execute("SAVEPOINT before", None, many, context)
            execute(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", params, many, context)
            plans.append(context["cursor"].fetchone()[0][0]["Plan"])
            execute("ROLLBACK TO SAVEPOINT before", None, many, context)
        return execute(sql, params, many, context)

    db.set_autocommit(False)
    try:
        with db.execute_wrapper(wrap):
            call()
    finally:
        db.rollback()
        db.set_autocommit(True)
    return plans


def count_pages(plan: dict[str, Any]) -> int:
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


def test_rows_behind_a_full_key_are_not_read(pump_db: Any) -> None:
    fill(MANY)
    flow = FlowClaims()
    flow.refresh(pump_db)
    for _ in range(2):  # the first one in a session also reads what it then remembers
        plans = explain(pump_db, lambda: flow.look(pump_db))
    assert flow.look(pump_db) == []
    [look] = plans
    assert count_pages(look) <= FEW
    assert look["Actual Rows"] == 1


def test_a_claim_of_others_reads_nothing_of_them(pump_db: Any) -> None:
    fill(MANY)
    workflows.start(CostPlain)
    other = workflows.start(CostKeyed, {"tenant": "free"})
    flow = FlowClaims()
    flow.refresh(pump_db)
    for _ in range(2):
        plain = explain(pump_db, lambda: store.claim(pump_db, 500))
        lanes = explain(pump_db, lambda: flow.take(pump_db, flow.look(pump_db), 500))
    assert sum(map(count_pages, plain)) <= FEW
    assert sum(map(count_pages, lanes)) <= 3 * FEW
    assert [one.id for one in flow.take(pump_db, flow.look(pump_db), 500)] == [str(other.pk)]


def test_while_a_snapshot_is_held_a_claim_reads_entries_of_what_is_done_once_a_second(
    pump_db: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look_backs, "LOOK_BACK_EVERY", 1e9)
    workflows.start_many(CostPlain, [{}] * 500, queue="cost-queue")
    sweep_out()
    holder = connect("default")
    holder.set_autocommit(False)
    store.fetch(holder, "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", {}, rows=False)
    store.fetch(holder, "SELECT count(*) FROM holdpoint_instance", {})
    try:
        with connection.cursor() as cursor:
            for back in (*["1 h"] * 20, "0 s"):  # as often as the same instances have run
                cursor.execute("UPDATE holdpoint_instance SET due_at = clock_timestamp() - %s::interval", [back])
        flow = FlowClaims()
        flow.refresh(pump_db)
        pages = []
        for _ in range(3):
            plans = explain(pump_db, lambda: flow.take(pump_db, flow.look(pump_db), 2))
            pages.append(count_pages(plans[-1]))
            assert len(flow.take(pump_db, flow.look(pump_db), 2)) == 2
        assert pages[0] > 5 * FEW
        assert max(pages[1:]) < pages[0] / 2
        [control] = explain(pump_db, lambda: store.read_control(pump_db))
        assert count_pages(control) <= FEW
    finally:
        holder.rollback()
        holder.close()


def test_lanes_and_slots_are_found_by_the_indexes_made_for_them(pump_db: Any) -> None:
    fill(300)
    workflows.start(CostKeyed, {"tenant": "free"})
    flow = FlowClaims()
    flow.refresh(pump_db)
    flow.look(pump_db)  # the first one also looks for rows that a clock has left behind
    look, slots, take = map(str, explain(pump_db, lambda: flow.take(pump_db, flow.look(pump_db), 500)))
    for plan, indexes in ((look, ("lanes", "slot")), (slots, ("slot",)), (take, ("lanes", "instance_pkey"))):
        for index in indexes:
            assert re.search(rf"\bholdpoint_{index}\b", plan), plan
        assert "Seq Scan" not in plan, plan
        assert not re.search(r"'Node Type': 'Sort'[^{]*holdpoint_lanes", plan), plan


def test_where_nothing_waits_in_lanes_a_busy_claimer_asks_for_them_once_a_second(pump_db: Any) -> None:
    workflows.start_many(CostPlain, [{}] * 40)
    asked: list[str] = []
    claimed: list[str] = []

    def count(execute: Callable[..., Any], sql: str, params: Any, many: bool, context: Any) -> Any:
        if "holdpoint_queue" in sql:
            asked.append(sql)
        elif "UPDATE holdpoint_instance" in sql and "fence + 1" in sql:
            claimed.append(sql)
        return execute(sql, params, many, context)

    schedule = ClaimSchedule()
    schedule.learn(1, 1.0, unknown=0)
    began = time.monotonic()
    with pump_db.execute_wrapper(count):
        for _ in range(20):
            for claim in schedule.take(pump_db):
                assert settle(play(claim))
    assert len(claimed) == 20
    assert len(asked) <= 1 + (time.monotonic() - began)
    assert not any("lane =" in one or "queue_slot" in one for one in claimed)
