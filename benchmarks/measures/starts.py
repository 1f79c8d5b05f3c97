"""From the first start to the end of the last: instances of one step, started one by one and in batches.

What outsiders can compare: a queue's job, durable on both ways. Both ends are read from the database's clock, as
`end_to_end` does.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass

import workflows
from benchmarks import workload
from benchmarks.contenders.holdpoint import Holdpoint
from benchmarks.contenders.pipes import run_piped, share_out
from benchmarks.contenders.workers import run_workers
from benchmarks.plan import Plan
from benchmarks.site.workflows import Noop
from benchmarks.table import Row, at_least

SINGLE, PEER_SINGLE = 3_000, 1_000
MANY, BATCH = 10_000, 500
STARTER = [sys.executable, "-m", "benchmarks.contenders.starter"]


@dataclass(frozen=True)
class Callers:
    """Who calls at once: processes, each with so many threads, as web servers have them."""

    words: str
    processes: int
    threads: int = 1


CALLERS = (
    Callers("one caller", 1),
    Callers("four callers", 4),
    Callers("sixteen callers in two processes", 2, 8),
)


def measure_starts(plan: Plan) -> Iterable[Row]:
    """Starts one by one by one caller, four and sixteen, and by `start_many`; one worker process."""
    for callers in CALLERS:
        yield from compare(plan, callers)
    yield measure_many(plan)


def compare(plan: Plan, callers: Callers) -> Iterable[Row]:
    """Run Holdpoint, DBOS and django-q2 in turns, each with processes and threads of its own."""
    with ExitStack() as stack:
        holdpoint = Holdpoint()
        stack.callback(holdpoint.close)
        holdpoint.reset()
        stack.enter_context(run_workers(holdpoint))
        starters = stack.enter_context(run_piped(*[STARTER] * callers.processes))

        def run(size: int = SINGLE) -> float:
            holdpoint.wait_for(lambda: not holdpoint.count("status < 10"))
            holdpoint.reset()
            begun = holdpoint.read_clock()
            share_out(starters, size, threads=callers.threads)
            return size / (holdpoint.wait_until_ended(size) - begun)

        contenders: dict[str, Callable[[], float]] = {"Holdpoint": run}
        run(500)
        if plan.dbos is not None:
            dbos = stack.enter_context(plan.dbos.queueing(callers.processes, callers.threads))
            contenders["DBOS"] = lambda: dbos.run(PEER_SINGLE)
            dbos.run(50)
        if plan.django_q is not None:
            queue = stack.enter_context(plan.django_q.running(callers.processes, callers.threads))
            contenders["django-q2"] = lambda: queue.run(PEER_SINGLE)
            queue.run(50)
        rates = plan.interleave(contenders)
    title = f"Single starts, one step, to the end, {callers.words} (N = {SINGLE:,}; peers {PEER_SINGLE:,})"
    mine = rates["Holdpoint"]
    yield Row(title, "/s", mine, "DBOS", rates.get("DBOS", ()), (at_least(5_000),), plan.dbos_missing)
    yield Row("… against django-q2", "/s", mine, "django-q2", rates.get("django-q2", ()))


def measure_many(plan: Plan) -> Row:
    """One caller, with calls of 500; neither peer starts more than one at a time."""
    with ExitStack() as stack:
        holdpoint = Holdpoint()
        stack.callback(holdpoint.close)
        holdpoint.reset()
        stack.enter_context(run_workers(holdpoint))

        def run(size: int = MANY) -> float:
            holdpoint.reset()
            begun = holdpoint.read_clock()
            for _ in range(size // BATCH):
                workflows.start_many(Noop, [workload.INPUT] * BATCH)
            return size / (holdpoint.wait_until_ended(size) - begun)

        run(2_000)
        rates = plan.interleave({"start_many": run})
    title = f"`start_many`, one step, to the end, batches of {BATCH} (N = {MANY:,})"
    return Row(title, "/s", rates["start_many"], bars=(at_least(15_000),))
