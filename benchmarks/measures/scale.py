"""Whether a call costs the same with a thousand instances parked, a hundred thousand, or a million.

The populations stand side by side in databases of their own, and every call is made once in each, in
turns. All instances have a deadline, so that the sweep has an index to pass over.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable
from uuid import UUID

import workflows
from benchmarks import workload
from benchmarks.contenders.holdpoint import Holdpoint
from benchmarks.plan import Plan, say
from benchmarks.site.routing import use
from benchmarks.site.workflows import SIGNAL, Expire
from benchmarks.table import Row, find_median, times_at_most
from workflows import store

SIZES = {"small": 1_000, "large": 100_000, "huge": 1_000_000}
BAR = 1.25
SAMPLES, WARM_UP = 300, 30
CLAIM = 10
VACUUM_EVERY = 25_000


class Population:
    """So many parked instances in one database."""

    def __init__(self, alias: str) -> None:
        self.alias, self.size = alias, SIZES[alias]
        self.holdpoint = Holdpoint(alias)
        self.holdpoint.reset()
        self.parked: list[UUID] = []
        self.claimed: list[store.Claim] = []
        self.park(self.size)

    def park(self, count: int) -> None:
        self.parked += self.holdpoint.park(count, workflow=Expire, vacuum_every=VACUUM_EVERY)

    def deliver(self) -> None:
        workflows.signal(self.parked.pop(random.randrange(len(self.parked))), SIGNAL, workload.PAYLOAD)

    def claim(self) -> None:
        self.claimed += store.claim(self.holdpoint.db, CLAIM)

    def sweep(self) -> None:
        store.expire_due(self.holdpoint.db)

    def restore(self) -> None:
        """End what was delivered to, and park as many anew."""
        missing = self.size - len(self.parked)
        self.holdpoint.run_all(self.claimed)
        self.claimed = []
        self.holdpoint.work_off()
        self.park(missing)
        self.holdpoint.expect(self.size, "status = 3")


def measure_scale(plan: Plan) -> Iterable[Row]:
    """Deliver, claim, claim with nothing runnable, sweep with nothing due."""
    populations = []
    for alias in ("small", "large", "huge") if plan.full else ("small", "large"):
        begun = time.monotonic()
        populations.append(Population(alias))
        say(f"    {SIZES[alias]:,} parked in {time.monotonic() - begun:.1f} s")
    measured: dict[str, dict[str, list[float]]] = {}
    for repetition in range(1, plan.repetitions + 1):
        for name, times in measure_once(populations).items():
            told = "   ".join(f"{SIZES[alias]:>9,}: {p50:.3f} ms" for alias, p50 in times.items())
            say(f"    {repetition}/{plan.repetitions}  {name:<28} {told}")
            for alias, p50 in times.items():
                measured.setdefault(name, {}).setdefault(alias, []).append(p50)
        for one in populations:
            one.restore()
    for one in populations:
        one.holdpoint.reset()
        one.holdpoint.close()
    for name, by_alias in measured.items():
        small, *others = by_alias.items()
        for alias, p50s in others:
            yield Row(
                f"{name}, p50 with {SIZES[alias]:,} parked",
                "ms",
                tuple(p50s),
                f"{SIZES['small']:,} parked",
                tuple(small[1]),
                (times_at_most(BAR),),
            )


def measure_once(populations: list[Population]) -> dict[str, dict[str, float]]:
    """The p50 of each call in each population."""
    return {
        "Deliver": time_calls(populations, Population.deliver, SAMPLES),
        f"Claim of {CLAIM}": time_calls(populations, Population.claim, SAMPLES // CLAIM, warm_up=0),
        "Claim, nothing runnable": time_calls(populations, Population.claim, SAMPLES),
        "Sweep, nothing due": time_calls(populations, Population.sweep, SAMPLES),
    }


def time_calls(
    populations: list[Population], call: Callable[[Population], None], samples: int, *, warm_up: int = WARM_UP
) -> dict[str, float]:
    """Make one call in each population, so many times in turns; the p50 in milliseconds of each."""
    times: dict[str, list[float]] = {one.alias: [] for one in populations}
    for number in range(warm_up + samples):
        for one in populations[:: 1 if number % 2 else -1]:  # nobody is always first
            with use(one.alias):
                begun = time.perf_counter()
                call(one)
                took = time.perf_counter() - begun
            if number >= warm_up:
                times[one.alias].append(took * 1000)
    return {alias: find_median(values) for alias, values in times.items()}
