"""Latency of a system that has nothing else to do: from before the call until the end is visible.

Here the client watches, because on the database's clock the way to the database and the last commit would
be missing. It asks every 0.2 ms, so the figure is too high by up to that. The peer is watched the same way.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from uuid import UUID

import psycopg

import workflows
from benchmarks import workload
from benchmarks.contenders.holdpoint import Holdpoint
from benchmarks.contenders.workers import run_qcluster, run_workers
from benchmarks.plan import Plan
from benchmarks.site.workflows import SIGNAL
from benchmarks.table import Row, at_most, find_median, times_at_most

SAMPLES, QCLUSTER_SAMPLES = 60, 30
LOOK_EVERY = 0.0002
#: Long enough for a worker to mark itself idle, and random, so that no poll falls into step.
GAP = (0.06, 0.14)

ON_DATABASE_CLOCK = """
    SELECT 1000 * extract(epoch FROM
      percentile_cont(0.5) WITHIN GROUP (ORDER BY i.finished_at - s.received_at))
    FROM holdpoint_instance i JOIN holdpoint_signal s ON s.instance_id = i.id
"""


def measure_idle(plan: Plan) -> Iterable[Row]:
    """One worker process that listens."""
    inside: list[float] = []
    with ExitStack() as stack:
        holdpoint = Holdpoint()
        stack.callback(holdpoint.close)
        holdpoint.reset()
        stack.enter_context(run_workers(holdpoint))
        time_idle(holdpoint, plan.url, 10)

        def run() -> float:
            p50 = time_idle(holdpoint, plan.url, SAMPLES)
            inside.append(float(holdpoint.read(ON_DATABASE_CLOCK)))
            return p50

        contenders: dict[str, Callable[[], float]] = {"Holdpoint": run}
        if plan.dbos is not None:
            peer = stack.enter_context(plan.dbos.running())

            def run_peer(size: int = SAMPLES) -> float:
                return find_median(peer.time_idle(peer.park(size), make_gaps(size)))

            run_peer(10)
            contenders["DBOS"] = run_peer
        times = plan.interleave(contenders, "ms")
    yield Row(
        "Idle, signal to completion seen, worker process, p50",
        "ms",
        times["Holdpoint"],
        "DBOS",
        times.get("DBOS", ()),
        (at_most(2.0), times_at_most(0.45)),
        plan.dbos_missing,
    )
    yield Row("… the same on the database's clock, without the last commit", "ms", tuple(inside))


def measure_qcluster(plan: Plan) -> Iterable[Row]:
    """A django-q cluster and no worker process."""
    holdpoint = Holdpoint()
    try:
        holdpoint.reset()
        with run_qcluster(holdpoint):
            time_idle(holdpoint, plan.url, 5)
            times = plan.interleave({"qcluster only": lambda: time_idle(holdpoint, plan.url, QCLUSTER_SAMPLES)}, "ms")
        results, note = times["qcluster only"], ""
    except (TimeoutError, RuntimeError) as error:
        results, note = (), str(error)
    finally:
        holdpoint.close()
    yield Row(
        "Idle, signal to completion seen, only `qcluster`, p50",
        "ms",
        results,
        bars=(at_most(300),),
        note=note,
    )


def time_idle(holdpoint: Holdpoint, url: str, count: int) -> float:
    """Return the p50 in milliseconds of signals sent one at a time into silence."""
    holdpoint.reset()
    ids = holdpoint.park(count)
    with psycopg.connect(url, autocommit=True, prepare_threshold=0) as observer:
        return find_median([time_one(observer, id, gap) for id, gap in zip(ids, make_gaps(count), strict=True)])


def time_one(observer: psycopg.Connection[Sequence[bool]], id: UUID, gap: float) -> float:
    time.sleep(gap)
    begun = time.perf_counter()
    workflows.signal(id, SIGNAL, workload.PAYLOAD)
    while not observer.execute("SELECT finished_at IS NOT NULL FROM holdpoint_instance WHERE id = %s", [id]).fetchone()[
        0
    ]:  # type: ignore[index]
        time.sleep(LOOK_EVERY)
    return (time.perf_counter() - begun) * 1000


def make_gaps(count: int) -> list[float]:
    return [random.uniform(*GAP) for _ in range(count)]
