"""Asking item by item: opening a unit of items, and asking those that had to wait for their turn.

Invariants owned:

* A unit and all its items are opened by the holder of the instance's claim, in one statement: all or nothing.
* `total = queued + asked and not over + over`, at every commit. How many are over is counted by the unit and never
  read from its items.
* No more than `concurrency` items are asked and not over. Whoever asks more of them holds the unit's row.
* Nobody waits here for an item: those that somebody holds are left to whoever comes next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.lifecycle import (
    CALL_CODES,
    CARDINALITY_CODES,
    INTERACTION_CODES,
    UNIT_CODES,
    UNIT_PHASE_CODES,
    Call,
    Cardinality,
    Event,
    InteractionStatus,
    UnitPhase,
    UnitStatus,
)
from workflows.store.claim import Claim
from workflows.store.items.line_visits import open_lines
from workflows.store.questions import HELD
from workflows.store.sql import AWAITING, CLOCK, LEDGER, compact, fetch, kind, write_plain, write_texts

PENDING = INTERACTION_CODES[InteractionStatus.PENDING]
COMPLETED = INTERACTION_CODES[InteractionStatus.COMPLETED]
FILLING, ASKED, CLOSED, RELEASED = (UNIT_PHASE_CODES[one] for one in UnitPhase)
_OPEN_UNIT, _DONE_UNIT = UNIT_CODES[UnitStatus.OPEN], UNIT_CODES[UnitStatus.COMPLETED]
_STATUS_OF = {code: status for status, code in INTERACTION_CODES.items()}
_UNIT_STATUS_OF = {code: status for status, code in UNIT_CODES.items()}


@dataclass(frozen=True, slots=True)
class NewUnit:
    """A unit of items to be opened, checked."""

    id: UUID
    step: str
    visit: int
    policy: str
    concurrency: int
    #: Seconds per item, from the moment it is asked; or the moment at which all are over, asked or not.
    timeout: float | None
    until: datetime | None
    #: What the history calls the channel; several where items have channels of their own.
    channel: str
    #: Its channel writes rows of its own: later items are asked by the author's code.
    hooked: bool = False
    #: Answers are continued by lines, which begin with this step; by a function that can be found by its name.
    line_step: str | None = None
    line_then: str | None = None
    #: Of a unit that asks nothing: how many of its lines may be under way.
    line_room: int = 0
    #: Of a function: its place among the checkpoints, and the kind of the call.
    position: int | None = None
    call: str | None = None


@dataclass(slots=True)  # not frozen, which makes thousands of them slow to fill
class NewItem:
    """One item's question, serialised and checked."""

    id: UUID
    signal_id: str
    channel: str
    owned: bool
    request: str
    schema: str | None
    schema_type: str | None
    projector: str | None
    assignee: str | None
    group: str | None
    correlation_id: str | None
    token_key: str | None = None
    token_hash: bytes | None = None
    body: str = "any"
    #: What its channel needs to send it; none of a channel that does not.
    config: str | None = None
    #: It was answered in an earlier visit of the wait: by whom, and what.
    answered_by: str | None = None
    output: str | None = None


@dataclass(frozen=True, slots=True)
class FoundUnit:
    """A unit of items as its row has it."""

    id: UUID
    status: UnitStatus
    visit: int
    total: int
    queued: int
    #: Whether its instance has been told.
    released: bool
    #: Whether it is of items, or of one question.
    items: bool
    #: It ended with its instance, which is never told: a retry opens it anew.
    untold: bool


@dataclass(slots=True)  # not frozen, which makes thousands of them slow to fill
class FoundItem:
    """How one item of a unit ended."""

    index: int
    status: InteractionStatus
    output: str | None
    error: str | None
    #: Where items were asked through channels of their own: what types the answer. A mere label is no channel.
    channel: str | None = None
    schema: str | None = None
    schema_type: str | None = None
    projector: str | None = None


class TakenSignalId(Exception):
    """An item's signal id belongs to a pending question of somebody else: nothing was opened."""


#: A row of the ledger for each run of neighbours among the items that were asked at one time. What a channel sends has
#: a row of its own once it went out: `dispatch_leases` writes it.
_DISPATCHED = f"""
      {LEDGER}
      SELECT r.unit, r.at, NULL, r.seq + row_number() OVER (ORDER BY r.first), r.workspace_id,
        {kind(Event.ITEM_DISPATCHED)}, {AWAITING}, '', NULL, CASE WHEN r.first = r.last
          THEN jsonb_build_object('index', r.first) ELSE jsonb_build_object('first', r.first, 'last', r.last) END
      FROM r"""

#: `v` is planned as a few rows, whatever their number: nothing is joined to it but single rows. Schemas are few and
#: long, so each travels once, and so does what a channel needs for sending. A checkpoint is replaced when its unit was
#: closed by a failure and is asked anew.
_OPEN = compact(f"""
    WITH t AS ({HELD}
    ), v AS (
      SELECT v.*, v.answered_by IS NOT NULL AS done, v.n::int - 1 AS index,
        (count(*) FILTER (WHERE v.answered_by IS NULL) OVER (ORDER BY v.n)) AS place
      FROM unnest(%(ids)s::uuid[], %(signal_ids)s::text[], %(channels)s::text[], %(owned)s::bool[],
        %(requests)s::text[], %(schema_nos)s::int[], %(schema_types)s::text[], %(projectors)s::text[],
        %(assignees)s::text[], %(groups)s::text[], %(correlations)s::text[], %(token_keys)s::text[],
        %(token_hashes)s::text[], %(bodies)s::text[], %(config_nos)s::int[], %(answered_by)s::text[],
        %(outputs)s::text[]) WITH ORDINALITY
        v(id, signal_id, channel, owned, request, schema_no, schema_type, projector, assignee, grp, correlation,
          token_key, token_hash, body, config_no, answered_by, output, n)
    ), m AS MATERIALIZED (
      SELECT {CLOCK} AS at, count(*)::int AS total, (count(*) FILTER (WHERE v.done))::int AS done,
        CASE WHEN %(line_step)s::text IS NULL THEN (count(*) FILTER (WHERE v.done))::int ELSE 0 END AS through,
        (count(*) FILTER (WHERE NOT v.done AND v.place > %(concurrency)s))::int AS queued FROM v
      WHERE EXISTS (SELECT FROM t)  -- a moment under the lock
    ), x AS (
      INSERT INTO holdpoint_interaction(id, unit_id, instance_id, created_at, deadline, dispatched_at, dispatch_at,
        closed_at, workspace_id, index, version, status, item, queued, owned, channel, signal_id, token_key,
        token_hash, actor, assignee, group_name, correlation_id, schema_type, projector, body, request, schema,
        config, output)
      SELECT v.id, %(unit)s::uuid, t.id, m.at,
        CASE WHEN NOT v.done THEN coalesce(%(until)s::timestamptz,
          CASE WHEN q.asked THEN m.at + %(timeout)s::float8 * interval '1 s' END) END,
        CASE WHEN q.asked AND v.config_no IS NULL THEN m.at END,
        CASE WHEN q.asked AND v.config_no IS NOT NULL THEN m.at END,
        CASE WHEN v.done THEN m.at END, t.workspace_id, v.index, 1,
        CASE WHEN v.done THEN {COMPLETED} ELSE {PENDING} END, true, NOT v.done AND NOT q.asked, v.owned, v.channel,
        v.signal_id, v.token_key, decode(v.token_hash, 'hex'), coalesce(v.answered_by, ''), v.assignee, v.grp,
        v.correlation, v.schema_type, v.projector, v.body, v.request::jsonb,
        (%(schemas)s::text[])[v.schema_no]::jsonb, (%(configs)s::text[])[v.config_no]::jsonb, v.output::jsonb
      FROM t, m, v CROSS JOIN LATERAL (SELECT NOT v.done AND v.place <= %(concurrency)s AS asked OFFSET 0) q
      ON CONFLICT (workspace_id, signal_id) WHERE status = {PENDING} DO NOTHING
      RETURNING id, index, status = {PENDING} AND NOT queued AND config IS NULL AS out
    ), r AS MATERIALIZED (
      SELECT %(unit)s::uuid AS unit, m.at, 0 AS seq, t.workspace_id, g.first, g.last FROM t, m, (
        SELECT min(o.index) AS first, max(o.index) AS last FROM (
          SELECT x.index, x.index - row_number() OVER (ORDER BY x.index) AS run FROM x WHERE x.out) o GROUP BY o.run) g
    ), n AS (
      INSERT INTO holdpoint_unit(id, instance_id, created_at, deadline, closed_at, dispatched_at, workspace_id, visit,
        total, remaining, failed, status, cardinality, seq, queued, concurrency, answered, timeout, phase, items,
        lines, line_step, line_then, line_room, hooked, policy, step)
      SELECT %(unit)s::uuid, t.id, m.at, %(until)s::timestamptz, CASE WHEN m.through = m.total THEN m.at END,
        CASE WHEN m.queued = 0 THEN m.at END, t.workspace_id, %(visit)s, m.total, m.total - m.through, 0,
        CASE WHEN m.through = m.total THEN {_DONE_UNIT} ELSE {_OPEN_UNIT} END, %(cardinality)s,
        (SELECT count(*) FROM r) + (m.queued = 0 AND m.done < m.total)::int, m.queued, %(concurrency)s, m.done,
        %(timeout)s::float8,
        CASE WHEN m.through = m.total THEN {CLOSED} WHEN m.queued > 0 THEN {FILLING} ELSE {ASKED} END, true,
        %(line_step)s::text IS NOT NULL, %(line_step)s::text, %(line_then)s::text, %(line_room)s::int,
        %(hooked)s, %(policy)s::text, %(step)s::text
      FROM t, m
    ), c AS (
      INSERT INTO holdpoint_checkpoint(instance_id, saved_at, unit_id, position, kind, settled, expired, failed,
        blamed, name)
      SELECT t.id, m.at, %(unit)s::uuid, %(position)s::int, %(call)s::smallint, false, false, false, false,
        %(step)s::text FROM t, m WHERE %(position)s::int IS NOT NULL
      ON CONFLICT (instance_id, position) DO UPDATE SET unit_id = excluded.unit_id, saved_at = excluded.saved_at
    ), u AS (
      UPDATE holdpoint_instance i SET seq = i.seq + 1, asked = i.asked + 1 FROM t WHERE i.id = t.id
      RETURNING i.id, i.seq, i.workspace_id, i.status
    ), l AS (
      {LEDGER}
      SELECT u.id, m.at, NULL, u.seq, u.workspace_id, {kind(Event.ASKED)}, u.status, '', NULL,
        jsonb_strip_nulls(jsonb_build_object('step', %(step)s::text, 'unit', %(unit)s::uuid, 'items', m.total,
          'channel', %(channel)s::text, 'timeout', %(timeout)s::float8, 'until', %(until)s::timestamptz,
          'concurrency', %(concurrency)s::int, 'policy', %(policy)s::text, 'schema',
          (%(schemas)s::text[])[1]::jsonb)) FROM u, m
    ), ld AS ({_DISPATCHED}
    ), la AS (
      {LEDGER}
      SELECT %(unit)s::uuid, m.at, NULL, (SELECT count(*) FROM r) + 1, t.workspace_id, {kind(Event.UNIT_DISPATCHED)},
        {AWAITING}, '', NULL, jsonb_build_object('items', m.total) FROM t, m WHERE m.queued = 0 AND m.done < m.total
    )
    SELECT (SELECT count(*) FROM x) FROM t
""")

#: The latest visit of a wait for items.
_FIND = compact(f"""
    SELECT n.id, n.status, n.visit, n.total, n.queued, n.released_at IS NOT NULL, n.items,
      n.phase = {RELEASED} AND n.released_at IS NULL FROM holdpoint_unit n
    WHERE n.instance_id = %(instance)s::uuid AND n.step = %(step)s::text AND n.items ORDER BY n.visit DESC LIMIT 1
""")

_LOOK = compact(f"""
    SELECT n.id, n.status, n.visit, n.total, n.queued, n.released_at IS NOT NULL, n.items,
      n.phase = {RELEASED} AND n.released_at IS NULL FROM holdpoint_unit n
    WHERE n.id = %(unit)s::uuid
""")

_READ_ENDS = compact("""
    SELECT x.index, x.status, x.output::text, x.error{types} FROM holdpoint_interaction x
    WHERE x.unit_id = %(unit)s::uuid ORDER BY x.index
""")

_TYPES = ", CASE WHEN x.owned THEN x.channel END, x.schema::text, x.schema_type, x.projector"

_READ_ANSWERED = compact(f"""
    SELECT x.index, x.request::text, x.output::text, x.actor FROM holdpoint_interaction x
    WHERE x.unit_id = %(unit)s::uuid AND x.status + 0 = {COMPLETED}
""")

#: Those whose turn it is by their number, of a unit that has room. Items that somebody holds are passed over, and the
#: unit is locked after the items, as everywhere; only then it is known how much room there is. Of what was locked in
#: vain nothing changes. `only` names the items that the author's code has made ready.
_ADMIT = compact(f"""
    WITH c AS MATERIALIZED (
      SELECT x.id, x.index FROM holdpoint_interaction x
      WHERE x.unit_id = %(unit)s::uuid AND x.status = {PENDING} AND x.queued
        AND (%(only)s::uuid[] IS NULL OR x.id = ANY(%(only)s::uuid[]))
      ORDER BY x.index LIMIT (SELECT {{room}} FROM holdpoint_unit n WHERE n.id = %(unit)s::uuid)
      FOR NO KEY UPDATE SKIP LOCKED
    ), n AS MATERIALIZED (
      SELECT n.id, n.workspace_id, n.seq, n.queued, n.timeout, n.deadline, {{room}} AS room, {CLOCK} AS at
      FROM holdpoint_unit n WHERE n.id = %(unit)s::uuid AND n.status + 0 = {_OPEN_UNIT} AND (%(hooked)s OR NOT n.hooked)
        AND (SELECT count(*) FROM c) > 0 FOR NO KEY UPDATE
    ), p AS MATERIALIZED (
      SELECT c.id, c.index FROM n, (SELECT c.*, row_number() OVER (ORDER BY c.index) AS place FROM c) c
      WHERE c.place <= n.room
    ), x AS (
      UPDATE holdpoint_interaction x SET queued = false, created_at = n.at,
        dispatched_at = CASE WHEN x.config IS NULL THEN n.at END,
        dispatch_at = CASE WHEN x.config IS NOT NULL THEN n.at END,
        deadline = coalesce(n.deadline, n.at + n.timeout * interval '1 s')
      FROM n WHERE x.id = ANY(ARRAY(SELECT p.id FROM p)) RETURNING x.id, x.index, x.config IS NULL AS out
    ), r AS MATERIALIZED (
      SELECT n.id AS unit, n.at, n.seq, n.workspace_id, g.first, g.last FROM n, (
        SELECT min(o.index) AS first, max(o.index) AS last FROM (
          SELECT x.index, x.index - row_number() OVER (ORDER BY x.index) AS run FROM x WHERE x.out) o GROUP BY o.run) g
    ), u AS (
      UPDATE holdpoint_unit u SET queued = u.queued - q.n, seq = u.seq + q.rows + (u.queued = q.n)::int,
        phase = CASE WHEN u.queued = q.n THEN {ASKED} ELSE u.phase END,
        dispatched_at = CASE WHEN u.queued = q.n THEN n.at END
      FROM n, (SELECT (SELECT count(*) FROM p)::int AS n, (SELECT count(*) FROM r)::int AS rows) q
      WHERE u.id = n.id AND q.n > 0 RETURNING u.id, u.queued, u.seq, u.total, n.at, u.workspace_id
    ), ld AS ({_DISPATCHED}
    ), la AS (
      {LEDGER}
      SELECT u.id, u.at, NULL, u.seq, u.workspace_id, {kind(Event.UNIT_DISPATCHED)}, {AWAITING}, '', NULL,
        jsonb_build_object('items', u.total) FROM u WHERE u.queued = 0
    )
    SELECT x.id FROM x ORDER BY x.index
""").replace("{room}", "greatest(0, n.concurrency - (n.total - n.queued - n.answered - n.failed - n.expired))")


def open_items(
    db: BaseDatabaseWrapper, claim: Claim, new: NewUnit, items: Sequence[NewItem], before: UUID | None = None
) -> bool:
    """Open the unit and ask the first of its items; False when the claim was lost.

    Within a transaction, which `TakenSignalId` rolls back. The lines of the visit `before` that worked go on with it.
    """
    schemas = list(dict.fromkeys(one.schema for one in items if one.schema is not None))
    number = {schema: n for n, schema in enumerate(schemas, 1)}
    configs = list(dict.fromkeys(one.config for one in items if one.config is not None))
    place = {config: n for n, config in enumerate(configs, 1)}
    rows = fetch(
        db,
        _OPEN,
        {
            "instance": claim.id,
            "fence": claim.fence,
            "unit": new.id,
            "step": new.step,
            "visit": new.visit,
            "policy": new.policy,
            "concurrency": new.concurrency,
            "timeout": new.timeout,
            "until": new.until,
            "channel": new.channel,
            "hooked": new.hooked,
            "line_step": new.line_step,
            "line_then": new.line_then,
            "line_room": new.line_room,
            "cardinality": CARDINALITY_CODES[Cardinality.ONE_TO_ONE],
            "position": new.position,
            "call": None if new.call is None else CALL_CODES[Call(new.call)],
            "schemas": write_texts(schemas),
            "configs": write_texts(configs),
            "ids": write_plain([one.id for one in items]),
            "signal_ids": write_texts([one.signal_id for one in items]),
            "channels": write_texts([one.channel for one in items]),
            "owned": write_plain([one.owned for one in items]),
            "requests": write_texts([one.request for one in items]),
            "schema_nos": write_plain([None if one.schema is None else number[one.schema] for one in items]),
            "schema_types": write_texts([one.schema_type for one in items]),
            "projectors": write_texts([one.projector for one in items]),
            "assignees": write_texts([one.assignee for one in items]),
            "groups": write_texts([one.group for one in items]),
            "correlations": write_texts([one.correlation_id for one in items]),
            "token_keys": write_texts([one.token_key for one in items]),
            "token_hashes": write_texts([None if one.token_hash is None else one.token_hash.hex() for one in items]),
            "bodies": write_texts([one.body for one in items]),
            "config_nos": write_plain([None if one.config is None else place[one.config] for one in items]),
            "answered_by": write_texts([one.answered_by for one in items]),
            "outputs": write_texts([one.output for one in items]),
        },
    )
    if not rows:
        return False
    if rows[0][0] != len(items):
        raise TakenSignalId
    claim.asked += 1
    if new.line_step is not None:
        open_lines(db, new.id, before)
    return True


def find_taken(db: BaseDatabaseWrapper, workspace: int, signal_ids: Sequence[str]) -> str | None:
    """One of these signal ids that belongs to a pending question."""
    statement = f"""SELECT signal_id FROM holdpoint_interaction WHERE workspace_id = %(ws)s::int
      AND signal_id = ANY(%(ids)s::text[]) AND status = {PENDING} LIMIT 1"""
    rows = fetch(db, statement, {"ws": workspace, "ids": list(signal_ids)})
    return rows[0][0] if rows else None


def find_unit(db: BaseDatabaseWrapper, claim: Claim, step: str) -> FoundUnit | None:
    """The latest visit of a wait for items."""
    rows = fetch(db, _FIND, {"instance": claim.id, "step": step})
    return _read_found(rows[0]) if rows else None


def read_unit(db: BaseDatabaseWrapper, unit: UUID) -> FoundUnit:
    """How a unit stands."""
    return _read_found(fetch(db, _LOOK, {"unit": unit})[0])


def _read_found(row: tuple[Any, ...]) -> FoundUnit:
    id, status, *columns = row
    return FoundUnit(id, _UNIT_STATUS_OF[status], *columns)


def read_ends(db: BaseDatabaseWrapper, unit: UUID, *, typed: bool = False) -> list[FoundItem]:
    """How the items of a unit ended, in their order; with `typed` also what types each answer."""
    statement = _READ_ENDS.replace("{types}", _TYPES if typed else "")
    return [FoundItem(row[0], _STATUS_OF[row[1]], *row[2:]) for row in fetch(db, statement, {"unit": unit})]


def read_answered(db: BaseDatabaseWrapper, unit: UUID) -> dict[int, tuple[str, str | None, str]]:
    """Index -> what was asked, what was answered and by whom, of the items of a unit that were completed."""
    return {
        index: (request, output, actor) for index, request, output, actor in fetch(db, _READ_ANSWERED, {"unit": unit})
    }


def admit_items(
    db: BaseDatabaseWrapper, unit: UUID, *, hooked: bool = False, only: Sequence[UUID] | None = None
) -> list[UUID]:
    """Ask the next of a unit's items while there is room; which were asked.

    Of a unit whose channel writes rows of its own only with `hooked`, by whoever writes them in the same transaction.
    """
    params: dict[str, Any] = {"unit": unit, "hooked": hooked, "only": None if only is None else list(only)}
    return [id for (id,) in fetch(db, _ADMIT, params)]
