"""How fast workers get through steps of no length: the engine's own cost per step.

All instances become runnable at once, by the commit of the `start_many` that made them. The clock starts
just before that commit, while the workers are idle and listen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from django.db import transaction

import workflows
from benchmarks.contenders.holdpoint import Holdpoint
from benchmarks.contenders.raw import Raw
from benchmarks.contenders.workers import run_workers
from benchmarks.plan import Plan
from benchmarks.site.workflows import Chain, Noop
from benchmarks.table import Row, at_least

STEPS = 20_000
HOPS = 10
BARS = {1: 30_000, 2: 45_000}
WORDS = {1: "one worker", 2: "two workers"}


def measure_drain(plan: Plan) -> Iterable[Row]:
    """Instances of one step, and chains of ten, with one worker process and with two."""
    raw, holdpoint = Raw(plan.raw_url), Holdpoint()
    contenders: dict[str, Callable[[], float]] = {"raw, one client": partial(raw.drain, STEPS)}
    for count in BARS:
        contenders[f"single steps, {WORDS[count]}"] = partial(drain, holdpoint, count, Noop, {}, 1)
        contenders[f"chains of {HOPS}, {WORDS[count]}"] = partial(drain, holdpoint, count, Chain, {"left": HOPS}, HOPS)
    try:
        rates = plan.interleave(contenders)
    finally:
        raw.close()
        holdpoint.close()
    limit = rates.pop("raw, one client")
    for name, mine in rates.items():
        bar = BARS[1 if WORDS[1] in name else 2]
        yield Row(f"Drain of zero-length steps: {name}", "/s", mine, "raw", limit, (at_least(bar),))


def drain(holdpoint: Holdpoint, workers: int, workflow: Any, input: Any, steps: int) -> float:
    """Make everything runnable at once; steps per second until the last instance is done."""
    holdpoint.reset()
    with run_workers(holdpoint, workers):
        start_at_once(holdpoint, workflow, input, 1_000 // steps)  # plans and caches are warm afterwards
        holdpoint.reset()
        count = STEPS // steps
        begun = start_at_once(holdpoint, workflow, input, count)
        return count * steps / (holdpoint.wait_until_ended(count) - begun)


def start_at_once(holdpoint: Holdpoint, workflow: Any, input: Any, count: int) -> float:
    """Return the moment just before the commit that makes all of them runnable; wait for the last."""
    with transaction.atomic():
        workflows.start_many(workflow, [input] * count)
        begun = holdpoint.read_clock()
    holdpoint.wait_until_ended(count)
    return begun
