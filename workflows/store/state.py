"""How the engine is doing, for probes and metrics: who pumps, and how long work has waited.

Lives here: one cheap statement. It reads the first entry of two partial indexes and a table of a few rows.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.store.sql import CLOCK, NOW, PARKED, RUNNABLE, compact, fetch

_STATE = compact(f"""
    SELECT (
      SELECT json_agg(json_build_array(w.kind, extract(epoch FROM {CLOCK} - w.beat_at)) ORDER BY w.beat_at DESC)::text
      FROM holdpoint_worker w WHERE w.beat_at > {CLOCK} - %(silence)s * interval '1 s'
    ), (
      SELECT extract(epoch FROM {CLOCK} - min(i.due_at))::float8 FROM holdpoint_instance i
      WHERE i.status = {RUNNABLE} AND i.due_at <= {NOW}
    ), (
      SELECT extract(epoch FROM {CLOCK} - min(i.due_at))::float8 FROM holdpoint_instance i
      WHERE i.{PARKED} AND i.due_at IS NOT NULL AND i.due_at <= {NOW}
    )
""")


@dataclass(frozen=True, slots=True)
class State:
    """Pumps that are alive, the last heard first, as (kind, seconds since); seconds that due work has waited."""

    pumps: list[tuple[str, float]]
    pump_lag: float
    deadline_lag: float


def read_state(db: BaseDatabaseWrapper, silence: float = 10.0) -> State:
    """What the pumps' own rows say; a pump not heard of for `silence` seconds is not counted."""
    [(pumps, pump_lag, deadline_lag)] = fetch(db, _STATE, {"silence": silence})
    return State(
        pumps=[(kind, float(seconds)) for kind, seconds in json.loads(pumps or "[]")],
        pump_lag=float(pump_lag or 0.0),
        deadline_lag=float(deadline_lag or 0.0),
    )
