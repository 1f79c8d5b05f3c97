"""What an emit and a park on an event cost: how many statements, and index look-ups beside 100,000 parked.

Plans are taken from the very statements that the calls execute, like those of test_statements: with the values
known, without (the generic plan that a kept statement ends up with), and as kept since the tables were empty.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.db import transaction

import workflows
from tests.support.database import db
from tests.support.statements import explain, listen, statements
from workflows import Await, Done, Workflow, emit, step, store
from workflows.definitions.awaited_event import EventSpec, event
from workflows.models import EventWait, Instance
from workflows.store import named_events
from workflows.testing import drain

pytestmark = pytest.mark.django_db

PARKED = 100_000
TABLES = "holdpoint_instance, holdpoint_signal, holdpoint_ledger, holdpoint_event, holdpoint_event_wait"
SCANS = re.compile(r"Seq Scan on holdpoint_(instance|signal|ledger|event|event_wait)\b")


class Waiter(Workflow):
    name = "EventPlanWaiter"

    @step
    def ask(self, ctx):
        return Await(event("own", match=ctx.input), then="end")

    @step
    def end(self, ctx):
        return Done()


def parked(count: int, **match: Any) -> list[Instance]:
    started = workflows.start_many(Waiter, [match] * count)
    drain()
    return started


# --- how many -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("waits", "needed"), [(0, 3), (1, 4), (20, 4)])
def test_an_emit_takes_three_statements_and_one_more_if_it_wakes(waits: int, needed: int) -> None:
    parked(waits)
    with statements(needed):
        assert emit("own", {"any": 1}) == waits


def test_a_duplicate_takes_three_statements() -> None:
    emit("own", dedup_key="k")
    with statements(3):
        emit("own", dedup_key="k")


def test_waits_with_other_fields_cost_no_statement() -> None:
    for fields in range(5):
        parked(1, **{f"field{n}": 1 for n in range(fields)})
    with statements(4):
        assert emit("own", {f"field{n}": 1 for n in range(5)}) == 5


def claimed() -> store.Claim:
    workflows.start(Waiter)
    [claim] = store.claim(db(), 1)
    return claim


def park(claim: store.Claim) -> None:
    store.lock_event(db(), claim.workspace, "own", shared=True)
    store.lock_claim(db(), claim)
    store.park_on_event(db(), claim, EventSpec("own", {"n": 1}))


def test_opening_a_wait_takes_two_statements_and_a_third_to_take_an_early_event() -> None:
    claim = claimed()
    with statements(2 + 2):
        park(claim)
    claim = claimed()
    emit("own", {"n": 1})
    with statements(2 + 3):
        park(claim)


def test_statements_are_short_enough_for_psycopg_to_remember() -> None:
    parked(1)
    for sql, _ in listen(lambda: emit("own")) + listen(lambda: park(claimed())):
        assert len(sql) <= 4096
    for sql in vars(named_events).values():
        assert not isinstance(sql, str) or len(sql) <= 4096


# --- plans ----------------------------------------------------------------------------------------


def fill_tables(parked: int) -> None:
    """So many parked on events: most want an order of their own, some all want the same, some nothing special."""
    rows = f"generate_series(1, {parked}) n, holdpoint_workspace w WHERE w.slug = 'default'"
    match = """CASE WHEN mod(n, 50) = 0 THEN '{}'::jsonb WHEN mod(n, 50) = 1 THEN '{"region": "eu"}'
        ELSE jsonb_build_object('order', n) END"""
    with db().cursor() as cursor:
        cursor.execute(f"""
            INSERT INTO holdpoint_instance (id, created_at, workspace_id, fence, seq, inbox, pending, version, status,
              attempt, runs, spawns, timed_out, solo, workflow, step, started_by, names, input)
            SELECT md5(n::text)::uuid, now() - interval '1 d', w.id, 1, 3, 0, 0, 1, 3, 0, 0, 0, false, false,
              'EventPlanWaiter', 'end', '', ARRAY['holdpoint:event:' || md5('wait' || n)::uuid], '{{}}' FROM {rows}
        """)
        cursor.execute(f"""
            INSERT INTO holdpoint_event_wait (id, instance_id, workspace_id, hash, event, fields, match)
            SELECT md5('wait' || n)::uuid, md5(n::text)::uuid, w.id, jsonb_hash_extended(m, 0),
              CASE WHEN mod(n, 5) = 4 THEN 'paid' || mod(n, 1000) ELSE 'paid' END,
              (SELECT coalesce(jsonb_agg(f), '[]')::text FROM jsonb_object_keys(m) f), m
            FROM (SELECT n, {match} AS m FROM generate_series(1, {parked}) n) n, holdpoint_workspace w
            WHERE w.slug = 'default'
        """)
        cursor.execute(f"""
            INSERT INTO holdpoint_signal (instance_id, received_at, consumed_at, consumed_by, n, workspace_id, name,
              dedup_key, source, payload)
            SELECT md5(n::text)::uuid, now(), now(), 1, 2, w.id, 'go', 'd', '', '1'::jsonb FROM {rows}
        """)
        cursor.execute(f"""
            INSERT INTO holdpoint_event (id, workspace_id, at, name, actor, data)
            SELECT md5('event' || n)::uuid, w.id, now() - n * interval '1 s', 'paid' || mod(n, 10), '', '{{}}'
            FROM {rows}
        """)
        cursor.execute(f"ANALYZE {TABLES}")


def emits(data: Any) -> Callable[[], object]:
    return lambda: emit("paid", data, dedup_key=json.dumps(data))


def emits_again() -> object:
    return emit("paid", "again", dedup_key="again") + emit("paid", "again", dedup_key="again")


def parks() -> object:
    claim = claimed()
    emit("paid3", {"n": 1})
    with store.atomic(db()):
        store.lock_event(db(), claim.workspace, "paid3", shared=True)
        store.lock_claim(db(), claim)
        return store.park_on_event(db(), claim, EventSpec("paid3", {"n": 1}))


CALLS: dict[str, Callable[[], object]] = {
    "emit for one": emits({"order": 77}),
    "emit for many": emits({"region": "eu", "order": 102}),
    "emit for nobody": lambda: emit("unheard of", {"order": 1}),
    "emit again": emits_again,
    "park and look back": parks,
    "prune": lambda: store.prune_events(db()),
}
MODES = ["web, custom", "web, generic", "pump, custom", "pump, generic", "pump, planned while new"]
#: A statement that meets nothing but small tables may read them; these indexes must be in some plan of the call.
INDEXES = {
    "emit for one": {
        "holdpoint_event_wait_match",
        "holdpoint_instance_pkey",
        "holdpoint_event_wait_pkey",
        "holdpoint_event_pkey",
    },
    "emit for many": {"holdpoint_event_wait_match", "holdpoint_instance_pkey", "holdpoint_event_wait_pkey"},
    "emit for nobody": {"holdpoint_event_wait_match"},
    "emit again": {"holdpoint_event_dedup"},
    "park and look back": {"holdpoint_event_lookback", "hashed SubPlan", "holdpoint_instance_pkey"},
    "prune": {"holdpoint_event_age"},
}


@pytest.fixture(scope="module")
def plans(django_db_setup: None, django_db_blocker: Any) -> dict[tuple[str, str], list[str]]:
    """(call, mode) -> the plans of its statements. Filled once, in one transaction that is rolled back."""
    found: dict[tuple[str, str], list[str]] = {}
    with django_db_blocker.unblock(), transaction.atomic():
        with transaction.atomic():
            with db().cursor() as cursor:
                cursor.execute(f"TRUNCATE {TABLES}")
            for name, call in CALLS.items():
                found[name, MODES[4]] = [explain(MODES[4], *one) for one in listen(call)]
            transaction.set_rollback(True)
        fill_tables(PARKED)
        for name, call in CALLS.items():
            heard = listen(call)
            for mode in MODES[:4]:
                found[name, mode] = [explain(mode, *one) for one in heard]
        transaction.set_rollback(True)
    return found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("call", CALLS)
def test_no_statement_reads_a_whole_table(plans: dict[tuple[str, str], list[str]], call: str, mode: str) -> None:
    for plan in plans[call, mode]:
        assert not SCANS.search(plan), plan


@pytest.mark.parametrize("mode", MODES[:4])
@pytest.mark.parametrize("call", CALLS)
def test_each_call_takes_its_indexes(plans: dict[tuple[str, str], list[str]], call: str, mode: str) -> None:
    told = "\n".join(plans[call, mode])
    for index in INDEXES[call]:
        assert re.search(rf"\b{index}\b", told), f"{index} is missing from\n{told}"


@pytest.mark.parametrize("mode", MODES[:4])
def test_an_emit_probes_for_its_own_values(plans: dict[tuple[str, str], list[str]], mode: str) -> None:
    """Not merely the index: all four columns of it are compared, so that no neighbour is read."""
    told = "\n".join(plans["emit for one", mode])
    conditions = [line for line in told.splitlines() if "Index Cond" in line and "hash" in line]
    assert conditions, told
    for line in conditions:
        assert all(column in line for column in ("workspace_id", "event", "fields", "hash")), line


def test_an_emit_beside_30_000_parked_wakes_the_right_ones_and_reads_few_pages() -> None:
    parked = 30_000  # so that more than one batch of 500 wants nothing special
    fill_tables(parked)
    with db().cursor() as cursor:
        cursor.execute("SELECT pg_stat_get_xact_tuples_returned('holdpoint_event_wait'::regclass)")
        [before] = cursor.fetchone()
        with statements(4 + 2):  # two more for each further 500
            assert emit("paid", {"order": 77}) == 1 + parked // 50  # its own wait, and those that want nothing special
        cursor.execute("SELECT pg_stat_get_xact_tuples_returned('holdpoint_event_wait'::regclass)")
        assert cursor.fetchone()[0] == before, "rows of the waits were read one after the other"
    assert EventWait.objects.filter(closed_at=None).count() == parked - 1 - parked // 50
