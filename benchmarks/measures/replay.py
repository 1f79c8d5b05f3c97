"""What a durable function costs when it goes on: reading and replaying what it has saved.

Measured in this process, on a connection like the pump's: from before the claim until the outcome is
committed, for a function with 200 saved calls and, in turns, for one with none.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial

import workflows
from benchmarks import workload
from benchmarks.contenders.holdpoint import Holdpoint
from benchmarks.plan import Plan
from benchmarks.site.workflows import remember
from benchmarks.table import Row, at_most, find_median, times_at_least

CALLS = 200
SAMPLES = 40
#: Functions that run from their start to their wait, for the cost of saving.
FUNCTIONS = 50


def measure_replay(plan: Plan) -> Iterable[Row]:
    """Resume functions that wait, one at a time; run others from their start."""
    with ExitStack() as stack:
        holdpoint = Holdpoint()
        stack.callback(holdpoint.close)
        time_resumptions(holdpoint, CALLS, 5)
        contenders = {
            f"{CALLS} checkpoints": partial(time_resumptions, holdpoint, CALLS, SAMPLES),
            "no checkpoint": partial(time_resumptions, holdpoint, 0, SAMPLES),
        }
        times = plan.interleave(contenders, "ms")
        mine, peers = "Holdpoint", "DBOS"
        functions: dict[str, Callable[[], float]] = {mine: partial(rate_functions, holdpoint, 10)}
        if plan.dbos is not None:
            peer = stack.enter_context(plan.dbos.running())
            peer.run_functions(5, 10)
            functions[peers] = partial(peer.run_functions, FUNCTIONS, 10)
        rates = plan.interleave(functions)
    with_calls, without = times[f"{CALLS} checkpoints"], times["no checkpoint"]
    bars = (at_most(30.0),)
    yield Row(f"Resume a function with {CALLS} checkpoints, p50", "ms", with_calls, "none", without, bars)
    yield Row(
        "Functions of 10 calls and one wait, one after the other",
        "/s",
        rates[mine],
        peers,
        rates.get(peers, ()),
        (times_at_least(5),),
        plan.dbos_missing,
    )


def time_resumptions(holdpoint: Holdpoint, calls: int, samples: int) -> float:
    """Milliseconds from claim to commit, p50."""
    holdpoint.reset()
    spent = []
    instances = workflows.start_many(remember, [{"calls": calls}] * samples)
    holdpoint.work_off()
    holdpoint.vacuum()
    for instance in instances:
        workflows.complete(f"gate-{instance.pk}", workload.PAYLOAD)
        begun = time.perf_counter()
        holdpoint.work_off()
        spent.append((time.perf_counter() - begun) * 1000)
        assert workflows.result(instance) == len(workload.PAYLOAD)
    return find_median(spent)


def rate_functions(holdpoint: Holdpoint, calls: int) -> float:
    """Functions per second, from their start to their result."""
    holdpoint.reset()
    begun = time.perf_counter()
    for _ in range(FUNCTIONS):
        instance = workflows.start(remember, {"calls": calls})
        holdpoint.work_off()
        workflows.complete(f"gate-{instance.pk}", workload.PAYLOAD)
        holdpoint.work_off()
        assert workflows.result(instance) == len(workload.PAYLOAD)
    return FUNCTIONS / (time.perf_counter() - begun)
