"""What is set at run time of queues, limits and paused workflows: written by calls, read by every pump.

Invariant owned: one row per workspace and name, whoever sets it first. What is set is in force as soon as a pump reads
it, which each does once a second.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.store.sql import CLOCK, RUNNABLE, RUNNING, compact, fetch


@dataclass(frozen=True, slots=True)
class Tokens:
    """A bucket's size: so many in so many seconds, at most so many at once."""

    count: int
    per: float
    burst: int


@dataclass(frozen=True, slots=True)
class QueueSetting:
    """What somebody has set of a queue; None is left to the code."""

    limit: int | None = None
    paused: bool = False
    rate: Tokens | None = None


@dataclass(frozen=True, slots=True)
class Control:
    """Everything that is set at run time, of all workspaces, by their ids."""

    queues: dict[tuple[int, str], QueueSetting] = field(default_factory=dict)
    slots: dict[tuple[int, str], int] = field(default_factory=dict)
    rates: dict[tuple[int, str], Tokens] = field(default_factory=dict)
    paused: frozenset[tuple[int, str]] = frozenset()
    #: Whether any instance waits in a lane.
    lanes: bool = False


_RATE = "CASE WHEN r.rate_count IS NOT NULL THEN json_build_array(r.rate_count, r.rate_per, r.rate_burst) END"
#: From the end of the index where the newest rows are: entries of those that are done may lie at the other one.
_CONTROL = compact(f"""
    SELECT
      (SELECT json_agg(json_build_array(r.workspace_id, r.name, r."limit", r.paused, {_RATE}))::text
        FROM holdpoint_queue r),
      (SELECT json_agg(json_build_array(r.workspace_id, r.kind, r.name, r."limit", {_RATE}))::text
        FROM holdpoint_limit r),
      (SELECT json_agg(json_build_array(r.workspace_id, r.workflow))::text FROM holdpoint_paused_workflow r),
      (SELECT true FROM holdpoint_instance i WHERE i.status = {RUNNABLE} AND i.lane IS NOT NULL
        ORDER BY i.priority DESC, i.workspace_id DESC, i.lane DESC, i.due_at DESC LIMIT 1)
""")

_SET_QUEUE = compact(f"""
    INSERT INTO holdpoint_queue AS q (workspace_id, name, "limit", paused, rate_count, rate_per, rate_burst, changed_at,
      changed_by)
    VALUES (%(ws)s, %(name)s, %(limit)s, coalesce(%(paused)s, false), %(count)s, %(per)s, %(burst)s, {CLOCK}, %(by)s)
    ON CONFLICT (workspace_id, name) DO UPDATE SET changed_at = {CLOCK}, changed_by = excluded.changed_by,
      paused = coalesce(%(paused)s, q.paused),
      "limit" = CASE WHEN %(sets_limit)s THEN excluded."limit" ELSE q."limit" END,
      rate_count = CASE WHEN %(sets_rate)s THEN excluded.rate_count ELSE q.rate_count END,
      rate_per = CASE WHEN %(sets_rate)s THEN excluded.rate_per ELSE q.rate_per END,
      rate_burst = CASE WHEN %(sets_rate)s THEN excluded.rate_burst ELSE q.rate_burst END
""")

_SET_LIMIT = compact(f"""
    INSERT INTO holdpoint_limit (workspace_id, kind, name, "limit", rate_count, rate_per, rate_burst, changed_at,
      changed_by)
    VALUES (%(ws)s, %(kind)s, %(name)s, %(limit)s, %(count)s, %(per)s, %(burst)s, {CLOCK}, %(by)s)
    ON CONFLICT (workspace_id, kind, name) DO UPDATE SET changed_at = {CLOCK}, changed_by = excluded.changed_by,
      "limit" = excluded."limit", rate_count = excluded.rate_count, rate_per = excluded.rate_per,
      rate_burst = excluded.rate_burst
""")

_DROP_LIMIT = """
    DELETE FROM holdpoint_limit WHERE workspace_id = %(ws)s AND kind = %(kind)s AND name = %(name)s RETURNING 1
"""

_PAUSE = compact(f"""
    INSERT INTO holdpoint_paused_workflow (workspace_id, workflow, changed_at, changed_by)
    VALUES (%(ws)s, %(workflow)s, {CLOCK}, %(by)s) ON CONFLICT (workspace_id, workflow) DO NOTHING RETURNING 1
""")
_UNPAUSE = """
    DELETE FROM holdpoint_paused_workflow WHERE workspace_id = %(ws)s AND workflow = %(workflow)s RETURNING 1
"""

#: Of each queue what runs, and what waits of at most so many rows.
MOST_COUNTED = 10_000
_COUNT = compact(f"""
    SELECT q.name, (SELECT count(*) FROM holdpoint_instance i
        WHERE i.status = {RUNNING} AND i.workspace_id = %(ws)s AND coalesce(i.queue, 'default') = q.name),
      (SELECT count(*) FROM (SELECT FROM holdpoint_instance i
        WHERE i.status = {RUNNABLE} AND i.lane IS NOT NULL AND i.workspace_id = %(ws)s AND i.queue = q.name
        LIMIT {MOST_COUNTED}) w),
      CASE WHEN q.name = 'default' THEN (SELECT count(*) FROM (SELECT FROM holdpoint_instance i
        WHERE i.status = {RUNNABLE} AND i.lane IS NULL AND i.workspace_id = %(ws)s LIMIT {MOST_COUNTED}) w) ELSE 0 END
    FROM unnest(%(names)s::text[]) q(name)
""")


def read_control(db: BaseDatabaseWrapper) -> Control:
    """All that is set, and whether anything waits in a lane: tables of few rows, and one look at an index."""
    [(queues, limits, paused, lanes)] = fetch(db, _CONTROL, {})
    slots: dict[tuple[int, str], int] = {}
    rates: dict[tuple[int, str], Tokens] = {}
    for ws, kind, name, limit, rate in json.loads(limits or "[]"):
        if kind == "rate":
            rates[ws, name] = Tokens(*rate)
        else:
            slots[ws, name] = limit
    return Control(
        queues={
            (ws, name): QueueSetting(limit, paused, None if rate is None else Tokens(*rate))
            for ws, name, limit, paused, rate in json.loads(queues or "[]")
        },
        slots=slots,
        rates=rates,
        paused=frozenset((ws, workflow) for ws, workflow in json.loads(paused or "[]")),
        lanes=bool(lanes),
    )


def set_queue(
    db: BaseDatabaseWrapper,
    workspace: int,
    name: str,
    *,
    limit: int | None = None,
    sets_limit: bool = False,
    rate: Tokens | None = None,
    sets_rate: bool = False,
    paused: bool | None = None,
    actor: str = "",
) -> None:
    """Set what is to be set of a queue; the rest stays."""
    params = {"ws": workspace, "name": name, "limit": limit, "sets_limit": sets_limit, "paused": paused, "by": actor}
    fetch(db, _SET_QUEUE, params | _tokens(rate) | {"sets_rate": sets_rate}, rows=False)


def set_limit(
    db: BaseDatabaseWrapper,
    workspace: int,
    kind: str,
    name: str,
    *,
    limit: int | None = None,
    rate: Tokens | None = None,
    actor: str = "",
) -> None:
    """Put a number in the place of the code's."""
    params = {"ws": workspace, "kind": kind, "name": name, "limit": limit, "by": actor}
    fetch(db, _SET_LIMIT, params | _tokens(rate), rows=False)


def drop_limit(db: BaseDatabaseWrapper, workspace: int, kind: str, name: str) -> bool:
    """Let the code's number hold again; whether another one was set."""
    return bool(fetch(db, _DROP_LIMIT, {"ws": workspace, "kind": kind, "name": name}))


def pause_workflow(db: BaseDatabaseWrapper, workspace: int, workflow: str, *, actor: str = "") -> bool:
    """Claim nothing of it any more; False when it was paused already."""
    return bool(fetch(db, _PAUSE, {"ws": workspace, "workflow": workflow, "by": actor}))


def unpause_workflow(db: BaseDatabaseWrapper, workspace: int, workflow: str) -> bool:
    """Claim of it again; False when it was not paused."""
    return bool(fetch(db, _UNPAUSE, {"ws": workspace, "workflow": workflow}))


def count_queues(db: BaseDatabaseWrapper, workspace: int, names: list[str]) -> dict[str, tuple[int, int]]:
    """Of each queue how many steps run and how many instances wait to; of many that wait `MOST_COUNTED` at most."""
    rows = fetch(db, _COUNT, {"ws": workspace, "names": names})
    return {name: (running, min(placed + plain, MOST_COUNTED)) for name, running, placed, plain in rows}


def _tokens(rate: Tokens | None) -> dict[str, Any]:
    if rate is None:
        return {"count": None, "per": None, "burst": None}
    return {"count": rate.count, "per": rate.per, "burst": rate.burst}
