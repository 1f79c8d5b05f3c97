"""Deliveries alone, with no worker running: the public API beside the fewest statements that could do it."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from benchmarks.contenders.holdpoint import Holdpoint
from benchmarks.contenders.raw import Raw
from benchmarks.plan import Plan
from benchmarks.table import Row, times_at_least

ONE_BY_ONE = 3_000
IN_BATCHES = 10_000
BATCHES = {100: 0.35, 500: 0.4}


def measure_deliver(plan: Plan) -> Iterable[Row]:
    """`workflows.signal` in a loop."""
    raw, holdpoint = Raw(plan.raw_url), Holdpoint()

    def deliver(count: int = ONE_BY_ONE) -> float:
        holdpoint.reset()
        took = holdpoint.signal_each(holdpoint.park(count))
        holdpoint.expect(count, "status = 1 AND inbox = 1")
        return count / took

    try:
        deliver(500), raw.deliver(500)
        rates = plan.interleave({"Holdpoint": deliver, "raw": lambda: raw.deliver(ONE_BY_ONE)})
    finally:
        raw.close()
        holdpoint.close()
    yield Row(
        "Deliver alone, one by one",
        "/s",
        rates["Holdpoint"],
        "raw",
        rates["raw"],
        (times_at_least(0.57),),
    )


def measure_bulk_deliver(plan: Plan) -> Iterable[Row]:
    """`workflows.signal_many`, so many lines a call."""
    raw, holdpoint = Raw(plan.raw_url), Holdpoint()

    def deliver(batch: int, count: int = IN_BATCHES) -> float:
        holdpoint.reset()
        took = holdpoint.signal_all(holdpoint.park(count), batch)
        holdpoint.expect(count, "status = 1 AND inbox = 1")
        return count / took

    try:
        for batch, bar in BATCHES.items():
            deliver(batch, 1000), raw.deliver_many(1000, batch)
            rates = plan.interleave(
                {
                    f"Holdpoint, {batch} a call": partial(deliver, batch),
                    f"raw, {batch} a statement": partial(raw.deliver_many, IN_BATCHES, batch),
                    "raw, payloads in one JSON": partial(raw.deliver_many, IN_BATCHES, batch, json_array=True),
                }
            )
            mine, limit, fastest = rates.values()
            yield Row(f"`signal_many` alone, batches of {batch}", "/s", mine, "raw", limit, (times_at_least(bar),))
            yield Row("… against raw with all payloads in one JSON array", "/s", mine, "raw", fastest)
    finally:
        raw.close()
        holdpoint.close()
