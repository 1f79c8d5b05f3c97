"""What flow control costs: drains with keys and rates beside the plain one, and what a full key does to others.

All drains are of instances with one step of no length, runnable at once, with one worker process.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from django.db import transaction

import workflows
from benchmarks.contenders.holdpoint import BATCH, Holdpoint
from benchmarks.contenders.workers import run_workers
from benchmarks.plan import Plan
from benchmarks.site.workflows import Fair, Keyed, Noop, Rated, Single
from benchmarks.table import Row, at_most, times_at_least
from workflows.engine.lanes.flow_claims import FlowClaims
from workflows.worker.claim_schedule import ClaimSchedule

STEPS = 20_000
TENANTS = 100
WAITING = 100_000
CLAIMED = 60_000
PLAIN = "the plain drain"
#: A drain with it, as a part of the plain one.
BARS = {"a key per tenant (100 tenants, limit 10)": 0.6, "a rate that never binds": 0.7}
ALONE, BEHIND = "claims, alone", "claims, beside 100,000"


def measure_lanes(plan: Plan) -> Iterable[Row]:
    """Drains with keys, with a rate, and beside a full key; the batches that a single instance waits for."""
    holdpoint = Holdpoint()
    keyed = [{"tenant": n % TENANTS} for n in range(STEPS)]
    key, rate = BARS
    contenders: dict[str, Callable[[], float]] = {
        PLAIN: partial(drain, holdpoint, Noop, [{}] * STEPS),
        key: partial(drain, holdpoint, Keyed, keyed),
        rate: partial(drain, holdpoint, Rated, [{}] * STEPS),
    }
    claims: dict[str, Callable[[], float]] = {
        ALONE: partial(claim_others, holdpoint, 0),
        BEHIND: partial(claim_others, holdpoint, WAITING),
    }
    try:
        rates = plan.interleave(contenders)
        plain = rates.pop(PLAIN)
        for name, mine in rates.items():
            yield Row(f"Drain with {name}", "/s", mine, PLAIN, plain, (times_at_least(BARS[name]),))
        paces = plan.interleave(claims)
        what = "Instances claimed beside 100,000 behind one full key"
        yield Row(what, "/s", paces[BEHIND], "alone", paces[ALONE], (times_at_least(0.9),))
        batches = tuple(float(count_batches(holdpoint)) for _ in range(plan.repetitions))
        what = "Batches before one tenant's single instance, beside another's 100,000"
        yield Row(what, "", batches, bars=(at_most(2),))
    finally:
        holdpoint.close()


def drain(holdpoint: Holdpoint, workflow: Any, inputs: Sequence[Any]) -> float:
    """Make everything runnable at once; steps per second until the last of them is done."""
    holdpoint.reset()
    with run_workers(holdpoint, 1):
        start_at_once(holdpoint, workflow, inputs[:1_000])  # plans and caches are warm afterwards
        begun = start_at_once(holdpoint, workflow, inputs)
        holdpoint.expect(len(inputs) + 1_000, "status = 10")
        last = "SELECT extract(epoch FROM max(finished_at))::float8 FROM holdpoint_instance"
        return len(inputs) / (float(holdpoint.read(last)) - begun)


def start_at_once(holdpoint: Holdpoint, workflow: Any, inputs: Sequence[Any]) -> float:
    """Return the moment just before the commit that makes all of them runnable; wait for the last."""
    with transaction.atomic():
        workflows.start_many(workflow, inputs)
        begun = holdpoint.read_clock()
    # By indexes of few rows, so that whoever waits costs the worker nothing, however large the table.
    lane = "NULL" if workflow is Noop else "NOT NULL"
    waiting = f"EXISTS (SELECT FROM holdpoint_instance WHERE status = 1 AND lane IS {lane})"
    running = "EXISTS (SELECT FROM holdpoint_instance WHERE status = 2)"
    holdpoint.wait_for(lambda: not holdpoint.read(f"SELECT {waiting} OR {running}"), look_every=0.05)
    return begun


def claim_others(holdpoint: Holdpoint, behind: int) -> float:
    """Claim plain instances as a pump does, with so many behind a full key beside them; how many a second."""
    holdpoint.reset()
    if behind:
        fill(holdpoint, behind)
    workflows.start_many(Noop, [{}] * CLAIMED)
    holdpoint.vacuum()
    schedule, spent, count = ClaimSchedule(), 0.0, 0
    while count < CLAIMED:
        schedule.learn(BATCH, 0.0, unknown=0)
        begun = time.perf_counter()
        claims = schedule.take(holdpoint.db)
        spent += time.perf_counter() - begun
        count += len(claims)
        holdpoint.run_all(claims)
    return count / spent


def fill(holdpoint: Holdpoint, waiting: int) -> None:
    """A key whose one slot is taken for good, and so many that wait for it."""
    workflows.start_many(Single, [{"tenant": "full"}] * (waiting + 1))
    flow = FlowClaims()
    flow.refresh(holdpoint.db)
    if len(flow.take(holdpoint.db, flow.look(holdpoint.db), 1, 86_400.0)) != 1:
        raise AssertionError("the slot of the full key was not taken")
    holdpoint.vacuum()


def count_batches(holdpoint: Holdpoint) -> int:
    """The batch that brings the single instance, as a worker claims them, one after the other."""
    holdpoint.reset()
    workflows.start_many(Fair, [{"tenant": "large"}] * WAITING)
    single = workflows.start(Fair, {"tenant": "small"})
    flow = FlowClaims()
    for batch in range(1, 1_000):
        flow.refresh(holdpoint.db)
        claims = flow.take(holdpoint.db, flow.look(holdpoint.db), BATCH)
        if any(one.id == str(single.pk) for one in claims):
            return batch
        holdpoint.run_all(claims)
    raise AssertionError("the single instance was never claimed")
