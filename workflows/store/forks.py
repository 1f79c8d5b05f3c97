"""Forks: a new instance that goes on from a point in the life of another one.

Invariants owned:

* The first instance is read and not written; its row is held against deletion (`FOR KEY SHARE`) and against nothing
  else. What the new one takes over of answers, lists and children it refers to, and retention keeps it for that.
* Only what is over is referred to: a question that is open is copied without its unit, and so is asked anew. Of a
  function a question counts as over that was over at the point and that a call before it has read. Rows know the first;
  the second is found out by the fork's first run, which makes the calls again up to the point (`part_inherited`).
* The new instance's inbox is that of the first one at the point. What had been consumed by then stays consumed: of it
  the rows with a dedup key come along, under the numbers below zero, because the history of the new instance does not
  tell of them. Signals that a function's questions have taken are there until the first run consumes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.lifecycle import (
    ASKS,
    CALL_CODES,
    FIRST_TERMINAL,
    UNIT_CODES,
    Call,
    Event,
    UnitStatus,
    Watch,
)
from workflows.store.claim import Claim
from workflows.store.items.item_ends import RELEASED
from workflows.store.questions import HELD
from workflows.store.sql import CLOCK, LEDGER, LIVE, NOTIFY_IDLE, RUNNABLE, compact, fetch, kind, write_plain
from workflows.store.start import NewInstance

_PLACE = ("queue", "priority", "lane", "flow_key", "gate", "rate_key", "fair_key", "holds")
_OPEN, _CANCELLED = UNIT_CODES[UnitStatus.OPEN], UNIT_CODES[UnitStatus.CANCELLED]


@dataclass(frozen=True, slots=True)
class KeptRun:
    """What a run was handed: where a fork can begin."""

    step: str
    state: str | None
    names: tuple[str, ...] | None
    timed_out: bool
    attempt: int
    spawns: int
    #: Signals up to this number had come, and those that this run or a later one consumed were still there.
    seq: int
    fence: int


@dataclass(frozen=True, slots=True)
class SavedCall:
    """A call that a function has made."""

    position: int
    name: str
    saved_at: datetime


@dataclass(frozen=True, slots=True)
class NewFork:
    """What is needed to write the first row of a fork."""

    #: As it would be started: its id, key, and place among others.
    planned: NewInstance
    first: UUID
    workspace: int
    step: str
    #: JSON; None takes over what the first one was started with.
    input: str | None
    #: What the ledger tells, as JSON.
    told: str
    #: JSON; None is the input.
    state: str | None = None
    names: tuple[str, ...] | None = None
    timed_out: bool = False
    attempt: int = 0
    spawns: int = 0
    #: Of a function: how many of its calls are copied, and when the next one was made.
    calls: int = 0
    until: datetime | None = None
    #: Of another style: the run whose inbox it takes over; None begins with an empty one.
    seq: int | None = None
    fence: int | None = None


#: The engine's own signals belong to waits of the first one.
_UNREAD = {
    "run": """s.n <= %(seq)s::int AND (s.consumed_by IS NULL OR s.consumed_by >= %(fence)s::int)
        AND (NOT starts_with(s.name, 'holdpoint:') OR s.name = ANY(%(names)s::text[]))""",
    "call": "s.received_at <= %(until)s::timestamptz AND NOT starts_with(s.name, 'holdpoint:')",
    "nothing": "false",
}
_SPENT = {
    "run": "s.n <= %(seq)s::int AND s.consumed_by < %(fence)s::int",
    "call": "false",
    "nothing": "false",
}

#: Calls whose answer a later call may have read, or none. The others were over before the next call was made.
_ASKING = ", ".join(str(CALL_CODES[call]) for call in sorted({*ASKS, Call.CALLBACK}))
#: Whether such a question was over at the point: answered or past its time by then, or withdrawn, which has no moment.
_WAS_WITHDRAWN = "c.settled AND NOT c.expired AND coalesce(c.value->>'at', '') = ''"
_WAS_OVER = f"""CASE WHEN c.unit_id IS NOT NULL AND NOT c.settled
    THEN u.status NOT IN ({_OPEN}, {_CANCELLED}) AND u.closed_at <= p.until
  WHEN c.expired THEN c.deadline <= p.until
  WHEN c.settled AND coalesce(c.value->>'at', '') <> ''
    THEN (c.value->>'at')::float8 <= extract(epoch FROM p.until)::float8
  ELSE c.settled END"""

#: What sleeps has as long as it had at the point; a question that is open has the time that its call gives it anew.
#: One that has checkpoints does not begin with its first claim: that reads none.
#: An invoked child that lives on although its call is over is nobody's but the first one's.
_FORK = {
    inbox: compact(f"""
    WITH o AS (
      SELECT i.id, i.workspace_id, i.workflow, i.version, i.input FROM holdpoint_instance i
      WHERE i.id = %(first)s::uuid AND i.workspace_id = %(ws)s::int FOR KEY SHARE
    ), s AS MATERIALIZED (
      SELECT s.*, 1 + row_number() OVER (ORDER BY s.n) AS number FROM o, holdpoint_signal s
      WHERE s.instance_id = o.id AND s.n > 0 AND {_UNREAD[inbox]}
    ), d AS MATERIALIZED (
      SELECT s.*, -row_number() OVER (ORDER BY s.n) AS number FROM o, holdpoint_signal s
      WHERE s.instance_id = o.id AND s.dedup_key IS NOT NULL AND NOT starts_with(s.name, 'holdpoint:')
        AND (s.n < 0 OR {_SPENT[inbox]})
    ), n AS (
      INSERT INTO holdpoint_instance(id, created_at, due_at, workspace_id, forked_from_id, fence, seq, inbox, pending,
        version, status, attempt, runs, spawns, timed_out, solo, fingerprint, workflow, step, key, started_by, names,
        input, state, {", ".join(_PLACE)})
      SELECT %(id)s::uuid, o.at, o.at, o.workspace_id, o.id, least(%(calls)s::int, 1),
        1 + (SELECT count(*) FROM s), (SELECT count(*) FROM s), 0, o.version, {RUNNABLE}, %(attempt)s::smallint, 0,
        %(spawns)s::int,
        %(timed_out)s::bool, %(solo)s::bool, %(fingerprint)s::int, o.workflow, %(step)s::text, %(key)s::text,
        %(actor)s::text, %(names)s::text[], coalesce(%(input)s::jsonb, o.input), %(state)s::jsonb,
        %(queue)s::text, %(priority)s::smallint, %(lane)s::bigint, %(flow_key)s::text, %(gate)s::bigint,
        %(rate_key)s::text, %(fair_key)s::text, %(holds)s::bool
      FROM (SELECT o.*, {CLOCK} AS at FROM o) o
      ON CONFLICT (workspace_id, key) WHERE key IS NOT NULL AND {LIVE} DO NOTHING
      RETURNING id, created_at, workspace_id, status, step
    ), p AS (
      SELECT coalesce(%(until)s::timestamptz, n.created_at) AS until FROM n
    ), c AS (
      INSERT INTO holdpoint_checkpoint(instance_id, saved_at, deadline, unit_id, child_id, position, kind, settled,
        failed, blamed, expired, name, value, signal, watch)
      SELECT n.id, c.saved_at, CASE WHEN a.settled AND NOT a.withdrawn THEN c.deadline
        ELSE c.deadline + (n.created_at - p.until) END,
        CASE WHEN a.over AND u.status <> {_OPEN} AND (NOT u.items OR u.phase = {RELEASED}) THEN u.id END,
        CASE WHEN c.kind = {CALL_CODES[Call.ASK_INSTANCE]} OR a.over AND h.status >= {FIRST_TERMINAL} THEN h.id END,
        c.position, c.kind, a.settled, c.failed, false, a.over AND c.expired, c.name,
        CASE WHEN a.settled OR NOT a.asks AND c.kind <> {CALL_CODES[Call.EVENT]} THEN c.value END,
        CASE WHEN a.asks AND a.over THEN (SELECT s.number FROM s WHERE s.n = c.signal) END,
        CASE WHEN a.asks AND a.over THEN {Watch.INHERITED:d} ELSE {Watch.NONE:d} END
      FROM n CROSS JOIN p CROSS JOIN holdpoint_checkpoint c LEFT JOIN holdpoint_unit u ON u.id = c.unit_id
      LEFT JOIN holdpoint_instance h ON h.id = c.child_id
      CROSS JOIN LATERAL (
        SELECT k.asks, k.over, c.settled AND k.over AS settled, k.asks AND {_WAS_WITHDRAWN} AS withdrawn FROM (
          SELECT k.asks, NOT k.asks OR ({_WAS_OVER}) AS over
          FROM (SELECT c.kind IN ({_ASKING}) AND NOT c.failed AS asks) k) k
      ) a
      WHERE c.instance_id = %(first)s::uuid AND c.position >= 0 AND c.position < %(calls)s::int
    ), g AS (
      INSERT INTO holdpoint_signal(instance_id, received_at, consumed_at, consumed_by, n, workspace_id, name, dedup_key,
        source, payload)
      SELECT n.id, s.received_at, NULL::timestamptz, NULL::int, s.number::int, s.workspace_id, s.name, s.dedup_key,
        s.source, s.payload
      FROM n, s
      UNION ALL SELECT n.id, d.received_at, coalesce(d.consumed_at, n.created_at), 0, d.number::int, d.workspace_id,
        d.name, d.dedup_key, d.source, d.payload
      FROM n, d
    ), l AS (
      {LEDGER}
      SELECT n.id, n.created_at, NULL::timestamptz, 1, n.workspace_id, {kind(Event.STARTED)}, n.status, %(actor)s::text,
        n.step, jsonb_strip_nulls(%(told)s::jsonb || jsonb_build_object('names', %(names)s::text[],
          'timed_out', nullif(%(timed_out)s::bool, false), 'attempt', nullif(%(attempt)s::int, 0),
          'carried', (SELECT jsonb_agg(d.number ORDER BY d.number) FROM d)))
      FROM n
      UNION ALL SELECT n.id, n.created_at, NULL::timestamptz, s.number::int, n.workspace_id, {kind(Event.SIGNALLED)},
        n.status, s.source, s.name, NULL
      FROM n, s
    )
    SELECT o.id, n.id, CASE WHEN n.id IS NOT NULL THEN {NOTIFY_IDLE} END FROM o LEFT JOIN n ON true
    """)
    for inbox in _UNREAD
}

#: A question of a fork that no call before the point has read is as if it had not been asked yet; a sleep goes on.
_PART = compact(f"""
    WITH t AS ({HELD}
    ), c AS (
      UPDATE holdpoint_checkpoint c SET watch = {Watch.NONE:d}, settled = c.settled AND NOT v.unread,
        expired = c.expired AND NOT v.unread, signal = CASE WHEN NOT v.unread THEN c.signal END,
        unit_id = CASE WHEN NOT v.unread THEN c.unit_id END, value = CASE WHEN NOT v.unread THEN c.value END,
        child_id = CASE WHEN NOT v.unread OR c.kind = {CALL_CODES[Call.ASK_INSTANCE]} THEN c.child_id END
      FROM t, LATERAL (SELECT o.position, o.position = ANY(%(unread)s::int[]) AS unread FROM holdpoint_checkpoint o
        WHERE o.instance_id = t.id AND o.watch = {Watch.INHERITED:d}) v
      WHERE c.instance_id = t.id AND c.position = v.position
    )
    SELECT t.id FROM t
""")

#: An entry begins a visit: it is the first run, was woken for nothing, or comes from another step. A stage that asks
#: runs again with the answer, and begins no visit with that.
_KEPT = compact("""
    SELECT k.step, k.state::text, k.names, k.timed_out, k.attempt, k.spawns, k.seq, k.fence FROM (
      SELECT k.*, k.names IS NULL OR k.fence = 1 OR lag(k.step) OVER (ORDER BY k.fence) <> k.step AS entry
      FROM holdpoint_kept_state k WHERE k.instance_id = %(instance)s::uuid) k
    WHERE (%(step)s::text IS NULL OR k.step = %(step)s::text) AND (k.entry OR NOT %(entries)s)
    ORDER BY k.fence DESC
""")

_CALLS = """
    SELECT position, name, saved_at FROM holdpoint_checkpoint
    WHERE instance_id = %(instance)s::uuid AND position >= 0 ORDER BY position
"""

#: Units that an instance could not go on from by itself.
_UNTOLD = f"""
    SELECT id FROM holdpoint_unit WHERE id = ANY(%(units)s::uuid[])
      AND (status = {_OPEN} OR (items AND phase <> {RELEASED}))
"""

_FORKED = """
    SELECT DISTINCT forked_from_id FROM holdpoint_instance
    WHERE forked_from_id = ANY(%(ids)s::uuid[]) AND id <> ALL(%(ids)s::uuid[])
"""


def list_calls(db: BaseDatabaseWrapper, instance: UUID) -> list[SavedCall]:
    """The calls that a function has made, in their order."""
    return [SavedCall(*row) for row in fetch(db, _CALLS, {"instance": instance})]


def find_kept(db: BaseDatabaseWrapper, instance: UUID, step: str, *, entries: bool) -> KeptRun | None:
    """The latest run of a step that was kept; of `entries`, the latest that began a visit of it."""
    rows = fetch(db, _KEPT + " LIMIT 1", {"instance": instance, "step": step, "entries": entries})
    return _read_run(rows[0]) if rows else None


def list_kept(db: BaseDatabaseWrapper, instance: UUID, *, entries: bool) -> dict[str, tuple[str, ...] | None]:
    """The steps of which a run was kept, the latest first, and what that run was woken for; see `find_kept`."""
    kept: dict[str, tuple[str, ...] | None] = {}
    for row in fetch(db, _KEPT, {"instance": instance, "step": None, "entries": entries}):
        run = _read_run(row)
        kept.setdefault(run.step, run.names)
    return kept


def are_told(db: BaseDatabaseWrapper, units: Iterable[str]) -> bool:
    """Whether all these units are over, and their instance has been told."""
    return not fetch(db, _UNTOLD, {"units": write_plain(list(units))})


def insert_fork(db: BaseDatabaseWrapper, new: NewFork, *, actor: str) -> bool | None:
    """Write it; False where its key is taken, None where the first one is not there any more. One statement."""
    inbox = "run" if new.fence is not None else "nothing" if new.until is None else "call"
    params = {
        "id": new.planned.id,
        "first": new.first,
        "ws": new.workspace,
        "step": new.step,
        "input": new.input,
        "key": new.planned.key,
        "solo": new.planned.solo,
        "fingerprint": new.planned.fingerprint,
        "told": new.told,
        "state": new.state,
        "names": None if new.names is None else list(new.names),
        "timed_out": new.timed_out,
        "attempt": new.attempt,
        "spawns": new.spawns,
        "calls": new.calls,
        "actor": actor,
        **(dict.fromkeys(_PLACE) if new.planned.place is None else new.planned.place.describe()),
        **({"seq": new.seq, "fence": new.fence} if inbox == "run" else {}),
        "until": new.until,
    }
    rows = fetch(db, _FORK[inbox], params)
    return None if not rows else rows[0][1] is not None


def part_inherited(db: BaseDatabaseWrapper, claim: Claim, unread: Sequence[int]) -> bool:
    """Keep what the calls of a fork have read up to its point, and take back the rest; whether the claim held."""
    return bool(fetch(db, _PART, {"instance": claim.id, "fence": claim.fence, "unread": list(unread)}))


def list_forked(db: BaseDatabaseWrapper, ids: Sequence[UUID]) -> set[UUID]:
    """Those of these instances from which one was forked that is none of them."""
    return {id for (id,) in fetch(db, _FORKED, {"ids": list(ids)})}


def _read_run(row: tuple[Any, ...]) -> KeptRun:
    step, state, names, *rest = row
    return KeptRun(step, state, None if names is None else tuple(names), *rest)
