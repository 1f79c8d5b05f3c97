"""The result of a measure: a row with its bars and their verdict.

What lives here: values and the judgement. What must not: how a row is measured or printed.
Invariant: a row without a figure is never "met".
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Bar:
    """One demand: on the result itself, or on its ratio to the peer beside it."""

    of: Literal["result", "ratio"]
    limit: float
    at_most: bool = False

    def is_met_by(self, value: float) -> bool:
        return value <= self.limit if self.at_most else value >= self.limit


@dataclass(frozen=True)
class Row:
    """One line of the table. `results[i]` and `others[i]` were measured in the same repetition."""

    measure: str
    unit: str
    results: tuple[float, ...]
    against: str = ""
    others: tuple[float, ...] = ()
    bars: tuple[Bar, ...] = ()
    note: str = ""
    #: The measure ended with an error, which `note` tells.
    broken: bool = False

    @property
    def result(self) -> float | None:
        return statistics.median(self.results) if self.results else None

    @property
    def ratios(self) -> tuple[float, ...]:
        """Result over peer, repetition by repetition."""
        return tuple(mine / other for mine, other in zip(self.results, self.others, strict=False))

    @property
    def verdict(self) -> str:
        """Say met or missed; "open" where a bar's figure is missing, nothing where there is no bar."""
        if self.broken:
            return "broke off"
        if not self.bars:
            return ""
        values = {"result": self.results, "ratio": self.ratios}
        if not all(values[bar.of] for bar in self.bars):
            return "open"
        return "met" if all(bar.is_met_by(statistics.median(values[bar.of])) for bar in self.bars) else "missed"

    def as_json(self) -> dict[str, Any]:
        """Return the row with what follows from it, for results.json."""
        return asdict(self) | {"result": self.result, "ratios": self.ratios, "verdict": self.verdict}


def at_least(limit: float) -> Bar:
    return Bar("result", limit)


def at_most(limit: float) -> Bar:
    return Bar("result", limit, at_most=True)


def times_at_least(limit: float) -> Bar:
    return Bar("ratio", limit)


def times_at_most(limit: float) -> Bar:
    return Bar("ratio", limit, at_most=True)


def find_median(samples: Sequence[float]) -> float:
    """Return the p50 of one repetition's samples."""
    return statistics.median(samples)
