"""A unit of items: asking a list and completing all of it, and whether the last item costs what the first one did.

Measured in this process, on a connection like the pump's: from before the claim that asks until the outcome of the
released instance is committed.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import partial

import workflows
from benchmarks.contenders.holdpoint import Holdpoint
from benchmarks.plan import Plan, say
from benchmarks.site.workflows import ask_each
from benchmarks.table import Row, at_least, find_median, times_at_most

ITEMS = 10_000
#: Items that one call completes.
BATCH = 1_000
#: Items that are completed one by one at the beginning of a unit, and at its end.
SINGLES = 300


def measure_units(plan: Plan) -> Iterable[Row]:
    """10,000 items in batches; and the first of them one by one beside the last."""
    holdpoint = Holdpoint()
    try:
        pay_in_batches(holdpoint, 1_000)
        title = f"Unit of {ITEMS:,} items, asked and completed in batches of {BATCH:,}"
        rates = plan.interleave({"Holdpoint": partial(pay_in_batches, holdpoint, ITEMS)})
        yield Row(title, "items/s", rates["Holdpoint"], bars=(at_least(20_000),))
        firsts, lasts = [], []
        for repetition in range(1, plan.repetitions + 1):
            first, last = time_singles(holdpoint)
            say(f"    {repetition}/{plan.repetitions}  items 1 to {SINGLES}: {first:.3f} ms, the last: {last:.3f} ms")
            firsts.append(first)
            lasts.append(last)
        title = f"Completing one item of {ITEMS:,}, the last {SINGLES}, p50"
        yield Row(title, "ms", tuple(lasts), f"the first {SINGLES}", tuple(firsts), (times_at_most(1.2),))
    finally:
        holdpoint.close()


def pay_in_batches(holdpoint: Holdpoint, items: int) -> float:
    """Items per second, from the claim that asks to the commit of the instance that was released."""
    holdpoint.reset()
    instance = workflows.start(ask_each, {"count": items})
    answers = [(f"pay.{index}-{instance.pk}", {"paid": index}) for index in range(items)]
    begun = time.perf_counter()
    holdpoint.work_off()
    for first in range(0, items, BATCH):
        assert all(one.ok for one in workflows.complete_many(answers[first : first + BATCH]))
    holdpoint.work_off()
    seconds = time.perf_counter() - begun
    assert workflows.result(instance) == items
    return items / seconds


def time_singles(holdpoint: Holdpoint) -> tuple[float, float]:
    """Milliseconds of one completion: among the first of a unit, and among its last."""
    holdpoint.reset()
    instance = workflows.start(ask_each, {"count": ITEMS})
    holdpoint.work_off()
    holdpoint.vacuum()

    def complete(begin: int, end: int) -> float:
        spent = []
        for index in range(begin, end):
            begun = time.perf_counter()
            workflows.complete(f"pay.{index}-{instance.pk}", {"paid": index})
            spent.append((time.perf_counter() - begun) * 1000)
        return find_median(spent)

    first = complete(0, SINGLES)
    middle = range(SINGLES, ITEMS - SINGLES)
    workflows.complete_many([(f"pay.{index}-{instance.pk}", {"paid": index}) for index in middle])
    last = complete(ITEMS - SINGLES, ITEMS)
    holdpoint.work_off()
    assert workflows.result(instance) == ITEMS
    return first, last
