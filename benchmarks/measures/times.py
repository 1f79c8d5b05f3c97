"""Milliseconds of one call, repetition by repetition."""

from __future__ import annotations

import statistics
from dataclasses import dataclass

from benchmarks.table import find_median

#: Milliseconds that a reviewer waits for a page, in one of twenty cases at most.
SLOWEST = 100


@dataclass(frozen=True)
class Times:
    """Of one call in one database."""

    p50s: tuple[float, ...] = ()
    p95s: tuple[float, ...] = ()

    def add(self, times: list[float]) -> Times:
        """With one more repetition."""
        cuts = statistics.quantiles(times, n=20)
        return Times((*self.p50s, find_median(times)), (*self.p95s, cuts[-1]))
