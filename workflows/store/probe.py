"""How the engine is doing, for probes and metrics: who pumps, how long work has waited, and how long questions have.

Lives here: four statements that stay cheap. One reads the first entry of two partial indexes and a table of few rows;
the second so many entries of the index of pending interactions and no more, and of their rows only the latest; the
third so many rows of open units of items, and none of their items; the fourth what runs, and so many of what waits to.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.lifecycle import INTERACTION_CODES, UNIT_CODES, InteractionStatus, UnitStatus
from workflows.store.sql import CLOCK, NOW, PARKED, RUNNABLE, RUNNING, compact, fetch

PENDING = INTERACTION_CODES[InteractionStatus.PENDING]
OPEN = UNIT_CODES[UnitStatus.OPEN]

_STATE = compact(f"""
    SELECT (
      SELECT json_agg(json_build_array(w.kind, extract(epoch FROM {CLOCK} - w.beat_at)) ORDER BY w.beat_at DESC)::text
      FROM holdpoint_worker w WHERE w.beat_at > {CLOCK} - %(silence)s * interval '1 s'
    ), (
      SELECT extract(epoch FROM {CLOCK} - min(i.due_at))::float8 FROM holdpoint_instance i
      WHERE i.status = {RUNNABLE} AND i.lane IS NULL AND i.due_at <= {NOW}
    ), (
      SELECT extract(epoch FROM {CLOCK} - min(i.due_at))::float8 FROM holdpoint_instance i
      WHERE i.{PARKED} AND i.due_at IS NOT NULL AND i.due_at <= {NOW}
    )
""")

#: For this transaction: a plan that reads a table whole, which a kept one without values may be, is never wanted.
_PREPARE = "SELECT set_config('enable_seqscan', 'off', true), set_config('statement_timeout', %(ms)s::text, true)"

#: Pending interactions that are looked at.
MOST_PENDING = 100_000

#: The ages that pending interactions are sorted by: up to so long, in PostgreSQL's words.
AGES = {"1h": "1 hour", "1d": "1 day", "7d": "7 days"}


def _id_at(age: str) -> str:
    """The lowest id that could have been given so long ago: an id begins with its milliseconds."""
    moment = f"(extract(epoch FROM {NOW} - interval '{age}') * 1000)::bigint"
    return f"(SELECT (lpad(to_hex({moment}), 12, '0') || repeat('0', 20))::uuid)"


#: In the order of the index: what is due first is looked at first.
_PENDING = {
    scope: compact(f"""
    SELECT count(*), {", ".join(f"count(*) FILTER (WHERE x.id >= {_id_at(age)})" for age in AGES.values())} FROM (
      SELECT x.id FROM holdpoint_interaction x WHERE x.status = {PENDING} AND NOT x.queued {where}
      ORDER BY x.workspace_id, x.deadline, x.id LIMIT {MOST_PENDING}) x
    """)
    for scope, where in {"one": "AND x.workspace_id = %(ws)s::int", "all": ""}.items()
}


#: Open units of items that are looked at.
MOST_UNITS = 10_000

#: By the counters of each: how many there are; of their items how many are asked and not over, and wait to be asked.
_UNITS = {
    scope: compact(f"""
    SELECT count(*), coalesce(sum(n.total - n.queued - n.answered - n.failed - n.expired), 0)::int8,
      coalesce(sum(n.queued), 0)::int8 FROM (
      SELECT * FROM holdpoint_unit n WHERE n.items AND n.status = {OPEN} {where}
      ORDER BY n.workspace_id, n.id LIMIT {MOST_UNITS}) n
    """)
    for scope, where in {"one": "AND n.workspace_id = %(ws)s::int", "all": ""}.items()
}


@dataclass(frozen=True, slots=True)
class State:
    """Pumps that are alive, the last heard first, as (kind, seconds since); seconds that due work has waited."""

    pumps: list[tuple[str, float]]
    pump_lag: float
    deadline_lag: float


#: Instances that wait to run and are looked at.
MOST_WAITING = 100_000

_QUEUES = {
    scope: compact(f"""
    SELECT 'running', coalesce(i.queue, 'default'), count(*) FROM holdpoint_instance i
      WHERE i.status = {RUNNING} {where} GROUP BY 2
    UNION ALL SELECT 'waiting', w.queue, count(*) FROM (SELECT i.queue FROM holdpoint_instance i
      WHERE i.status = {RUNNABLE} AND i.lane IS NOT NULL {where} LIMIT {MOST_WAITING}) w GROUP BY 2
    UNION ALL SELECT 'waiting', 'default', count(*) FROM (SELECT FROM holdpoint_instance i
      WHERE i.status = {RUNNABLE} AND i.lane IS NULL {where} LIMIT {MOST_WAITING}) w
    """)
    for scope, where in {"one": "AND i.workspace_id = %(ws)s::int", "all": ""}.items()
}


@dataclass(frozen=True, slots=True)
class Pending:
    """How many interactions are pending, by their age: a name of `AGES`, or "older"."""

    ages: dict[str, int]
    #: There may be more: only these were looked at.
    capped: bool


@dataclass(frozen=True, slots=True)
class OpenUnits:
    """How many units of items are open, and how far their items are; of very many those that began first."""

    open: int
    in_flight: int
    queued: int


def prepare_reading(db: BaseDatabaseWrapper, patience: float) -> None:
    """Within a transaction that only reads: by indexes, and no statement for longer than so many seconds."""
    fetch(db, _PREPARE, {"ms": f"{patience * 1000:.0f}"})


def read_state(db: BaseDatabaseWrapper, silence: float = 10.0) -> State:
    """What the pumps' own rows say; a pump not heard of for `silence` seconds is not counted."""
    [(pumps, pump_lag, deadline_lag)] = fetch(db, _STATE, {"silence": silence})
    return State(
        pumps=[(kind, float(seconds)) for kind, seconds in json.loads(pumps or "[]")],
        pump_lag=float(pump_lag or 0.0),
        deadline_lag=float(deadline_lag or 0.0),
    )


def read_pending(db: BaseDatabaseWrapper, workspace: int | None) -> Pending:
    """What waits for an answer, in one workspace or in all (None). Of more than `MOST_PENDING` what is due first."""
    scope = "all" if workspace is None else "one"
    [(total, *younger)] = fetch(db, _PENDING[scope], {} if workspace is None else {"ws": workspace})
    counts = [*younger, total]
    ages = {age: count - before for age, count, before in zip([*AGES, "older"], counts, [0, *younger], strict=True)}
    return Pending(ages, capped=total == MOST_PENDING)


def read_units(db: BaseDatabaseWrapper, workspace: int | None) -> OpenUnits:
    """Open units of items, of one workspace or of all (None)."""
    scope = "all" if workspace is None else "one"
    return OpenUnits(*fetch(db, _UNITS[scope], {} if workspace is None else {"ws": workspace})[0])


def read_queues(db: BaseDatabaseWrapper, workspace: int | None) -> dict[str, dict[str, int]]:
    """What is "running" and "waiting", by queue, of one workspace or of all (None); of what waits `MOST_WAITING`."""
    scope = "all" if workspace is None else "one"
    found: dict[str, dict[str, int]] = {"running": {}, "waiting": {}}
    for state, queue, count in fetch(db, _QUEUES[scope], {} if workspace is None else {"ws": workspace}):
        found[state][queue] = found[state].get(queue, 0) + count
    return found
