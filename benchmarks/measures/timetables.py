"""Schedules: ten thousand of the same minute, and how late single ticks are.

Seconds by the database's clock, from the moment of the tick until the instance is written.
"""

from __future__ import annotations

from collections.abc import Iterable

import workflows
from benchmarks.contenders.holdpoint import Holdpoint
from benchmarks.contenders.workers import run_workers
from benchmarks.plan import Plan
from benchmarks.site.workflows import Noop
from benchmarks.table import Row, at_most

SCHEDULES = 10_000
SINGLES = 60
#: Moves all schedules: with an interval of a minute they have their tick in three seconds, or within ten.
_AT_ONCE = """
    WITH m AS (SELECT statement_timestamp() + interval '3 s' AS at), u AS (
      UPDATE holdpoint_schedule s SET anchor_at = m.at - s.every, next_at = m.at FROM m RETURNING 1)
    SELECT count(*) FROM u
"""
_SPREAD = """
    WITH m AS (SELECT s.id, statement_timestamp() + (3 + 7 * random()) * interval '1 s' AS at
      FROM holdpoint_schedule s), u AS (
      UPDATE holdpoint_schedule s SET anchor_at = m.at - s.every, next_at = m.at FROM m WHERE m.id = s.id RETURNING 1)
    SELECT count(*) FROM u
"""
_LATE = "SELECT extract(epoch FROM max(created_at - tick))::float8 FROM holdpoint_instance"
_CLEAR = """
    WITH t AS (DELETE FROM holdpoint_schedule_tick), s AS (DELETE FROM holdpoint_schedule RETURNING 1)
    SELECT count(*) FROM s
"""


def measure_timetables(plan: Plan) -> Iterable[Row]:
    """Ten thousand schedules of one minute with two workers, and the lateness of single ticks with one."""
    holdpoint = Holdpoint()
    try:
        late = tuple(fire(holdpoint, SCHEDULES, _AT_ONCE, 2) for _ in range(plan.repetitions))
        yield Row("10,000 schedules of the same minute, until all have started", "s", late, bars=(at_most(5),))
        late = tuple(fire(holdpoint, SINGLES, _SPREAD, 1) for _ in range(plan.repetitions))
        yield Row(f"The latest of {SINGLES} ticks, one by one", "s", late, bars=(at_most(2),))
    finally:
        holdpoint.read(_CLEAR)
        holdpoint.close()


def fire(holdpoint: Holdpoint, count: int, move: str, workers: int) -> float:
    """How late the last of so many schedules is that get their ticks by a statement."""
    holdpoint.reset()
    holdpoint.read(_CLEAR)
    for number in range(count):
        workflows.schedule(f"schedule {number}", Noop, every="60s")
    holdpoint.vacuum()
    with run_workers(holdpoint, workers):
        holdpoint.read(move)
        holdpoint.wait_for(lambda: holdpoint.count("status = 10") == count, look_every=0.1)
        return float(holdpoint.read(_LATE))
