"""From the first delivery to the last completion: N instances each wait for one signal.

Both ends are read from the database's clock: its time just before the first call, and the last row's own
stamp. A watching client would need a processor that two cores do not have to spare.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack

from benchmarks.contenders.holdpoint import Holdpoint
from benchmarks.contenders.workers import run_workers
from benchmarks.plan import Plan
from benchmarks.table import Bar, Row, at_least, times_at_least

ONE_BY_ONE, PEER_ONE_BY_ONE = 3_000, 1_000
BULK = 5_000
BATCH = 500


def measure_one_by_one(plan: Plan) -> Iterable[Row]:
    """One caller in a loop, one worker process."""
    yield compare(
        plan,
        f"One by one, end to end, one worker (N = {ONE_BY_ONE:,}; DBOS {PEER_ONE_BY_ONE:,})",
        count=ONE_BY_ONE,
        peer_count=PEER_ONE_BY_ONE,
        batch=1,
        bars=(times_at_least(5),),
    )


def measure_bulk(plan: Plan) -> Iterable[Row]:
    """One caller with calls of 500 lines, one worker process."""
    yield compare(
        plan,
        f"Bulk, end to end, one worker (N = {BULK:,})",
        count=BULK,
        peer_count=BULK,
        batch=BATCH,
        bars=(at_least(15_000), times_at_least(40)),
    )


def compare(plan: Plan, title: str, *, count: int, peer_count: int, batch: int, bars: tuple[Bar, ...]) -> Row:
    """Run Holdpoint and, where it is installed, DBOS, in turns."""
    with ExitStack() as stack:
        holdpoint = Holdpoint()
        stack.callback(holdpoint.close)
        holdpoint.reset()
        stack.enter_context(run_workers(holdpoint))
        contenders: dict[str, Callable[[], float]] = {}

        def run(size: int = count) -> float:
            holdpoint.reset()
            ids = holdpoint.park(size)
            begun = holdpoint.read_clock()
            if batch == 1:
                holdpoint.signal_each(ids)
            else:
                holdpoint.signal_all(ids, batch)
            return size / (holdpoint.wait_until_ended(size) - begun)

        run(500)
        contenders["Holdpoint"] = run
        if plan.dbos is not None:
            peer = stack.enter_context(plan.dbos.running())

            def run_peer(size: int = peer_count) -> float:
                return peer.finish(peer.park(size), batch=batch)[1]

            run_peer(50)
            contenders["DBOS"] = run_peer
        rates = plan.interleave(contenders)
    return Row(title, "/s", rates["Holdpoint"], "DBOS", rates.get("DBOS", ()), bars, plan.dbos_missing)
