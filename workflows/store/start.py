"""Starting instances: rows, their first ledger rows and the wake-up, in one statement.

Invariant owned: one live instance per workspace and key. The partial unique index decides; a loser
waits for the winner's commit or rollback inside `ON CONFLICT`, so there is no gap between looking and
writing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import product
from typing import Any
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.definitions.flow.flow_options import Place
from workflows.lifecycle import Event
from workflows.store.sql import (
    CLOCK,
    LEDGER,
    LIVE,
    NOTIFY_IDLE,
    RUNNABLE,
    SLEEPING,
    compact,
    fetch,
    kind,
    micros,
    write_plain,
    write_texts,
)
from workflows.store.targets import address_kind, workspace_sql

#: How often a key is tried that was taken, and whose holder had ended when it was looked for.
KEY_TRIES = 20


@dataclass(frozen=True, slots=True)
class NewInstance:
    """What is needed to write one instance's first row."""

    id: UUID
    workflow: str
    version: int
    step: str
    input: str
    key: str | None
    solo: bool
    fingerprint: int = 0
    #: Where it stands in the order of things; None is a plain row.
    place: Place | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """The running instance that starts others: they carry on who asked for it."""

    id: UUID | str
    #: Children and what was launched belong to its family; what an event or a plain `start` begins does not.
    is_family: bool
    #: By which spawn of it they are born; None for what is no child.
    spawn_no: int | None = None

    @property
    def parent(self) -> UUID | str | None:
        """Whose children they are."""
        return None if self.spawn_no is None else self.id


@dataclass(frozen=True, slots=True)
class TickPlace:
    """Where a schedule starts an instance, as whom, and for which of its ticks."""

    workspace: int
    actor: str
    tick: datetime


#: Where a running instance starts others, its row says who asked: themselves, or whoever it carries. An instance that
#: launches its own workflow begins a new round, which is a family of its own. A row that should carry it and does not
#: (an older worker wrote it) hands nothing on; `workflows.api.origin` then looks for it.
_ORIGIN = """
    , o AS (
      SELECT p.workspace_id, p.workflow, coalesce(p.family, p.id) AS family, CASE
          WHEN p.origin IS NOT NULL THEN p.origin
          WHEN p.parent_id IS NULL AND p.started_by NOT LIKE 'instance:%%' THEN p.started_by END AS origin
      FROM holdpoint_instance p WHERE p.id = %(source)s::uuid
    )"""
_CARRIED = """, (SELECT coalesce(o.origin, CASE WHEN %(parent)s::uuid IS NULL AND %(actor)s::text NOT LIKE 'instance:%%'
          THEN '?' END) FROM o), (SELECT o.family FROM o WHERE %(is_family)s::bool
        AND o.workspace_id = w.id AND (%(parent)s::uuid IS NOT NULL OR o.workflow <> v.workflow))"""

#: Of instances that do not all stand in the same place. A plain row has none of it, nor its statement.
_PLACE = "queue, priority, lane, flow_key, gate, rate_key, fair_key, holds"
_PLACE_VALUES = ", " + ", ".join(f"v.{name.strip()}" for name in _PLACE.split(","))
_PLACE_ARRAYS = """, %(queues)s::text[], %(priorities)s::int[], %(lanes)s::bigint[], %(flow_keys)s::text[],
        %(gates)s::bigint[], %(rate_keys)s::text[], %(fair_keys)s::text[], %(holding)s::bool[]"""

#: Who starts it and where: all rows of one call alike; each row by its own caller, of calls that are written together;
#: or (of schedules) each row for itself, with the tick's moment.
_SHARED = {"workspace": "w.id", "actor": "%(actor)s::text", "rows": "FROM v, w WHERE w.id IS NOT NULL"}
_BY_CALLER = _SHARED | {"actor": "v.actor"}
_BY_ROW = {"workspace": "v.workspace", "actor": "v.actor", "rows": "FROM v"}
_ACTOR_ARRAY = ", %(actors)s::text[]"
_TICK_ARRAYS = ", %(workspaces)s::int[], %(actors)s::text[], %(ticks)s::timestamptz[]"


def _start(workspace: str, *, carries: bool, placed: bool, ticks: bool = False, callers: bool = False) -> str:
    # `run_at` in the future makes a sleeper, which the sweep wakes; `solo` comes from max_attempts = 1.
    by = _BY_ROW if ticks else _BY_CALLER if callers else _SHARED
    by_row = ticks or callers
    more = f", {_PLACE}" if placed else ""
    more += ", workspace, actor, tick" if ticks else ", actor" if callers else ""
    arrays = _TICK_ARRAYS if ticks else _ACTOR_ARRAY if callers else ""
    return compact(f"""
    WITH {"" if ticks else f"w AS (SELECT {workspace} AS id), "}v AS (
      SELECT * FROM unnest(%(ids)s::uuid[], %(workflows)s::text[], %(versions)s::int[], %(steps)s::text[],
        %(keys)s::text[], %(inputs)s::text[], %(solos)s::bool[], %(prints)s::int[]{_PLACE_ARRAYS if placed else ""}
        {arrays}) v(id, workflow, version, step, key, input, solo, fingerprint{more})
    ){_ORIGIN if carries else ""}, n AS (
      INSERT INTO holdpoint_instance(id, created_at, due_at, parent_id, workspace_id, fence, seq, inbox, pending,
        version, status, attempt, runs, spawns, spawn_no, timed_out, solo, fingerprint, workflow, step, key, started_by,
        input{f", {_PLACE}" if placed else ""}{", origin, family" if carries else ""}{", tick" if ticks else ""})
      SELECT v.id, {CLOCK}, greatest(%(run_at)s::timestamptz, {CLOCK}), %(parent)s::uuid, {by["workspace"]}, 0, 1, 0, 0,
        v.version, CASE WHEN %(run_at)s::timestamptz > {CLOCK} THEN {SLEEPING} ELSE {RUNNABLE} END, 0, 0, 0,
        %(spawn_no)s::int, false, v.solo, v.fingerprint, v.workflow, v.step, v.key, {by["actor"]}, v.input::jsonb
        {_PLACE_VALUES if placed else ""}{_CARRIED if carries else ""}{", v.tick" if ticks else ""}
      {by["rows"]}
      ON CONFLICT (workspace_id, key) WHERE key IS NOT NULL AND {LIVE} DO NOTHING
      RETURNING id, workspace_id, status, step, due_at, created_at{", started_by" if by_row else ""}
    ), l AS (
      {LEDGER}
      SELECT id, {CLOCK}, CASE WHEN status = {SLEEPING} THEN due_at END, 1, workspace_id, {kind(Event.STARTED)},
        status, {"started_by" if by_row else "%(actor)s::text"}, step, NULL FROM n
    )
    SELECT n.id, n.workspace_id, n.status, {micros("n.created_at")}, {micros("n.due_at")}, {NOTIFY_IDLE}
    FROM n
    """)


_START = {
    (by, carries, placed): _start(workspace_sql(by), carries=carries, placed=placed)
    for by, carries, placed in product(("id", "slug"), (False, True), (False, True))
}
_START_TOGETHER = {
    (by, placed): _start(workspace_sql(by), carries=False, placed=placed, callers=True)
    for by, placed in product(("id", "slug"), (False, True))
}
_START_TICKS = {placed: _start("", carries=False, placed=placed, ticks=True) for placed in (False, True)}

_HOLDER = {
    by: f"SELECT id FROM holdpoint_instance WHERE workspace_id = {workspace_sql(by)} AND key = %(key)s AND {LIVE}"
    for by in ("id", "slug")
}


def insert_instances(
    db: BaseDatabaseWrapper,
    new: Sequence[NewInstance],
    *,
    workspace: str | int,
    actor: str = "",
    run_at: datetime | None = None,
    source: Source | None = None,
) -> dict[UUID, tuple[Any, ...]]:
    """Write the instances; those whose key is taken are missing from the answer."""
    placed = any(one.place is not None for one in new)
    rows = fetch(
        db,
        _START[address_kind(workspace), source is not None, placed],
        {
            **_list_columns(new, placed=placed),
            "ws": workspace,
            "actor": actor,
            "run_at": run_at,
            "parent": None if source is None else source.parent,
            "spawn_no": None if source is None else source.spawn_no,
            **({} if source is None else {"source": source.id, "is_family": source.is_family}),
        },
    )
    return {row[0]: row for row in rows}


def insert_started(
    db: BaseDatabaseWrapper, new: Sequence[NewInstance], actors: Sequence[str], workspace: str | int
) -> list[tuple[Any, ...] | None]:
    """Write the keyless instances that callers start at the same moment; None where there is no such workspace."""
    placed = any(one.place is not None for one in new)
    params = {
        **_list_columns(new, placed=placed),
        "ws": workspace,
        "run_at": None,
        "parent": None,
        "spawn_no": None,
        "actors": write_texts(actors),
    }
    rows = {row[0]: row for row in fetch(db, _START_TOGETHER[address_kind(workspace), placed], params)}
    return [rows.get(one.id) for one in new]


def insert_ticked(db: BaseDatabaseWrapper, new: Sequence[NewInstance], places: Sequence[TickPlace]) -> None:
    """Write the instances that schedules start: each in its own workspace, by its own actor, for its own tick."""
    placed = any(one.place is not None for one in new)
    params = {
        **_list_columns(new, placed=placed),
        "run_at": None,
        "parent": None,
        "spawn_no": None,
        "workspaces": write_plain([one.workspace for one in places]),
        "actors": write_texts([one.actor for one in places]),
        "ticks": write_texts([one.tick.isoformat() for one in places]),
    }
    fetch(db, _START_TICKS[placed], params)


def _list_columns(new: Sequence[NewInstance], *, placed: bool) -> dict[str, str]:
    return {
        "ids": write_plain([one.id for one in new]),
        "workflows": write_texts([one.workflow for one in new]),
        "versions": write_plain([one.version for one in new]),
        "steps": write_texts([one.step for one in new]),
        "keys": write_texts([one.key for one in new]),
        "inputs": write_texts([one.input for one in new]),
        "solos": write_plain([one.solo for one in new]),
        "prints": write_plain([one.fingerprint for one in new]),
        **(write_places([one.place for one in new]) if placed else {}),
    }


def write_places(places: Sequence[Place | None]) -> dict[str, str]:
    """The columns of these places, as parameters."""
    return {
        "queues": write_texts([None if one is None else one.queue for one in places]),
        "priorities": write_plain([None if one is None else one.priority for one in places]),
        "lanes": write_plain([None if one is None else one.lane for one in places]),
        "flow_keys": write_texts([None if one is None else one.key for one in places]),
        "gates": write_plain([None if one is None else one.gate for one in places]),
        "rate_keys": write_texts([None if one is None else one.rate_key for one in places]),
        "fair_keys": write_texts([None if one is None else one.fair_key for one in places]),
        "holding": write_plain([None if one is None else one.holds for one in places]),
    }


def find_holder(db: BaseDatabaseWrapper, key: str, workspace: str | int) -> UUID | None:
    """The live instance that holds the key now."""
    rows = fetch(db, _HOLDER[address_kind(workspace)], {"ws": workspace, "key": key})
    return rows[0][0] if rows else None
