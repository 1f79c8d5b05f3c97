"""What is measured, in the order of the table. Each measure takes the plan and gives rows.

The modules load Django's models, so they are imported when the settings are ready.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib import import_module

from benchmarks.plan import Plan
from benchmarks.table import Row

Measure = Callable[[Plan], Iterable[Row]]

NAMES = (
    "deliver",
    "bulk_deliver",
    "one_by_one",
    "bulk",
    "starts",
    "drain",
    "lanes",
    "timetables",
    "idle",
    "qcluster",
    "replay",
    "units",
    "payments",
    "http",
    "size",
    "approval_size",
    "scale",
    "inbox",
)
_HOMES = {
    "deliver": "deliver", "bulk_deliver": "deliver", "one_by_one": "end_to_end", "bulk": "end_to_end",
    "starts": "starts", "drain": "drain", "lanes": "lanes", "timetables": "timetables",
    "idle": "idle", "qcluster": "idle", "replay": "replay",
    "units": "units", "payments": "payments",
    "http": "http", "size": "size", "scale": "scale",
    "approval_size": "inbox_size", "inbox": "inbox",
}  # fmt: skip


def load_measure(name: str) -> Measure:
    """Return the function `measure_<name>`."""
    home = import_module(f"benchmarks.measures.{_HOMES[name]}")
    measure: Measure = getattr(home, f"measure_{name}")
    return measure
