"""Lines: the instances that continue single items of a unit, from its answer to its result.

Invariants owned:

* An answered item of a unit with lines has one line, written in the transaction that stores the answer. A unique index
  holds that.
* An item is through in the transaction that ends its line. The unit is told of all lines of a batch in one statement;
  nothing is read of the lines that are still under way.
* A line is a child of the unit's instance that no parent counts (`spawn_no` is NULL): it ends without locking it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.definitions.registry import LINES
from workflows.lifecycle import (
    INTERACTION_CODES,
    STATUS_OF,
    UNIT_CODES,
    UNIT_PHASE_CODES,
    Event,
    InteractionStatus,
    Status,
    UnitPhase,
    UnitStatus,
)
from workflows.store.claim import Claim
from workflows.store.sql import (
    AWAITING,
    CLOCK,
    DONE,
    LEDGER,
    NOTIFY_IDLE,
    RUNNABLE,
    atomic,
    compact,
    fetch,
    kind,
    write_plain,
)
from workflows.uuid7 import make_uuid7

_COMPLETED = INTERACTION_CODES[InteractionStatus.COMPLETED]
_CANCELLED = INTERACTION_CODES[InteractionStatus.CANCELLED]
_PENDING = INTERACTION_CODES[InteractionStatus.PENDING]
_OPEN, _THROUGH_STATUS, _FAILED = (
    UNIT_CODES[one] for one in (UnitStatus.OPEN, UnitStatus.COMPLETED, UnitStatus.FAILED)
)
_FILLING, _ASKED, _CLOSED = (UNIT_PHASE_CODES[one] for one in (UnitPhase.FILLING, UnitPhase.ASKED, UnitPhase.CLOSED))
_ANSWERS = {code: status for status, code in INTERACTION_CODES.items()}


@dataclass(frozen=True, slots=True)
class LineItem:
    """What a line is about."""

    unit: UUID
    index: int
    #: The wait, or the stage, that the unit belongs to.
    step: str
    request: str
    output: str | None
    schema: str | None
    schema_type: str | None
    #: Of a channel that owns its answers, and so types them.
    channel: str | None
    projector: str | None
    #: "module:qualname" of the function that continues the item, where it can be found by its name.
    then: str | None


@dataclass(frozen=True, slots=True)
class LineResult:
    """How an item ended, with its line."""

    index: int
    answer: InteractionStatus
    output: str | None
    error: str | None
    #: Of its line; None where it never had one.
    status: Status | None
    result: str | None


@dataclass(frozen=True, slots=True)
class UnitLine:
    """One line of a unit as it stands."""

    id: UUID
    #: What its item is, as JSON.
    request: str
    status: Status
    #: Of a machine: the stage whose result is the latest.
    last: str | None
    result: str | None
    error: str | None


#: The parent is read and not locked: what is taken from it never changes. Its `solo` is not taken over, because that
#: may tell of a worker that died; where a line may run only once, its first claimer puts it back to run alone.
_START = compact(f"""
    WITH n AS (
      INSERT INTO holdpoint_instance(id, created_at, due_at, parent_id, workspace_id, fence, seq, inbox, pending,
        version, status, attempt, runs, spawns, timed_out, solo, fingerprint, workflow, step, started_by, origin,
        family, unit_id, item, input, state)
      SELECT v.id, {CLOCK}, {CLOCK}, p.id, p.workspace_id, 0, 1, 0, 0, p.version, {RUNNABLE}, 0, 0, 0, false, false,
        p.fingerprint, p.workflow || '{LINES}', coalesce(o.step, u.line_step), 'instance:' || p.id,
        coalesce(p.origin, CASE WHEN p.parent_id IS NULL AND p.started_by NOT LIKE 'instance:%%' THEN p.started_by END),
        coalesce(p.family, p.id), u.id, x.index, jsonb_build_object('unit', u.id, 'index', x.index),
        o.state
      FROM unnest(%(ids)s::uuid[], %(items)s::uuid[]) v(id, item)
      CROSS JOIN LATERAL (SELECT x.unit_id, x.index FROM holdpoint_interaction x WHERE x.id = v.item OFFSET 0) x
      CROSS JOIN LATERAL (SELECT u.id, u.instance_id, u.line_step FROM holdpoint_unit u
        WHERE u.id = x.unit_id AND u.lines AND u.status + 0 = {_OPEN} OFFSET 0) u
      CROSS JOIN LATERAL (SELECT p.* FROM holdpoint_instance p WHERE p.id = u.instance_id OFFSET 0) p
      LEFT JOIN LATERAL (SELECT o.step, o.state FROM holdpoint_instance o
        WHERE o.unit_id = %(before)s::uuid AND o.item = x.index) o ON true
      RETURNING id, workspace_id, status, step
    ), l AS (
      {LEDGER}
      SELECT n.id, {CLOCK}, NULL, 1, n.workspace_id, {kind(Event.STARTED)}, n.status, '', n.step, NULL FROM n
    )
    SELECT n.id, {NOTIFY_IDLE} FROM n
""")

_READ = compact("""
    SELECT u.id, x.index, u.step, x.request::text, x.output::text, x.schema::text, x.schema_type,
      CASE WHEN x.owned THEN x.channel END,      x.projector,      u.line_then
    FROM holdpoint_instance i JOIN holdpoint_unit u ON u.id = i.unit_id
    JOIN holdpoint_interaction x ON x.unit_id = u.id AND x.index = i.item WHERE i.id = %(line)s::uuid
""")

#: As a claim has it, for what a function read of itself before the wait.
_PARENT = compact(f"""
    SELECT p.id::text, p.fence, p.workflow, p.version, p.step, p.attempt, p.runs, false, p.inbox, NULL::text[],
      p.parent_id::text, p.key, p.workspace_id, p.spawns, p.solo, p.asked, p.error, p.seq, p.input::text, p.state::text,
      {CLOCK}, 0.0, NULL
    FROM holdpoint_instance p WHERE p.id = %(parent)s::uuid
""")

#: How items ended whose answers are continued by lines, or would have been.
_RESULTS = compact("""
    SELECT x.index, x.status, x.output::text, coalesce(i.error, x.error), i.status, i.result::text
    FROM holdpoint_interaction x LEFT JOIN LATERAL (
      SELECT i.status, i.result, i.error FROM holdpoint_instance i
      WHERE i.unit_id = x.unit_id AND i.item = x.index) i ON true
    WHERE x.unit_id = %(unit)s::uuid ORDER BY x.index
""")

_LINES = compact("""
    SELECT i.id, x.request::text, i.status, i.state ->> 'last', i.result::text, i.error
    FROM holdpoint_interaction x CROSS JOIN LATERAL (
      SELECT * FROM holdpoint_instance i WHERE i.unit_id = x.unit_id AND i.item = x.index) i
    WHERE x.unit_id = %(unit)s::uuid ORDER BY x.index
""")

_REQUESTS = "SELECT x.request::text FROM holdpoint_interaction x WHERE x.unit_id = %(unit)s::uuid ORDER BY x.index"

_KEPT = f"""CASE WHEN i.status = {DONE} AND i.state ->> 'last' = %(stage)s::text THEN i.result::text
      ELSE (i.state #> ARRAY['steps', %(stage)s::text])::text END"""
_LINE_RESULT = compact(f"SELECT {_KEPT} FROM holdpoint_instance i WHERE i.id = %(line)s::uuid")
_STAGE_RESULTS = compact(f"""
    SELECT {_KEPT}
    FROM holdpoint_interaction x LEFT JOIN LATERAL (
      SELECT i.status, i.state, i.result FROM holdpoint_instance i
      WHERE i.unit_id = x.unit_id AND i.item = x.index) i ON true
    WHERE x.unit_id = %(unit)s::uuid ORDER BY x.index
""")

#: Items that no line has asked or continued yet, as far as there is room: of a unit without questions, the answer is
#: that it is their turn. The unit is locked after the items, as everywhere.
_ROOM = "greatest(0, n.line_room - (n.remaining - n.queued))"
_ADMIT = compact(f"""
    WITH c AS MATERIALIZED (
      SELECT x.id, x.index FROM holdpoint_interaction x
      WHERE x.unit_id = %(unit)s::uuid AND x.status = {_PENDING} AND x.queued
      ORDER BY x.index LIMIT (SELECT {_ROOM} FROM holdpoint_unit n WHERE n.id = %(unit)s::uuid)
      FOR NO KEY UPDATE SKIP LOCKED
    ), n AS MATERIALIZED (
      SELECT n.id, n.seq, n.workspace_id, {_ROOM} AS room, {CLOCK} AS at FROM holdpoint_unit n
      WHERE n.id = %(unit)s::uuid AND n.status + 0 = {_OPEN} AND (SELECT count(*) FROM c) > 0 FOR NO KEY UPDATE
    ), p AS MATERIALIZED (
      SELECT c.id, c.index FROM n, (SELECT c.*, row_number() OVER (ORDER BY c.index) AS place FROM c) c
      WHERE c.place <= n.room
    ), x AS (
      UPDATE holdpoint_interaction x SET status = {_COMPLETED}, queued = false, dispatched_at = n.at, closed_at = n.at,
        version = x.version + 1
      FROM n, p WHERE x.id = p.id RETURNING x.id
    ), r AS MATERIALIZED (
      SELECT g.first, g.last FROM (
        SELECT min(o.index) AS first, max(o.index) AS last FROM (
          SELECT p.index, p.index - row_number() OVER (ORDER BY p.index) AS run FROM p) o GROUP BY o.run) g
    ), u AS (
      UPDATE holdpoint_unit u SET queued = u.queued - q.n, answered = u.answered + q.n,
        seq = u.seq + q.rows + (u.queued = q.n)::int,
        phase = CASE WHEN u.queued = q.n THEN {_ASKED} ELSE u.phase END,
        dispatched_at = CASE WHEN u.queued = q.n THEN n.at END
      FROM n, (SELECT (SELECT count(*) FROM p)::int AS n, (SELECT count(*) FROM r)::int AS rows) q
      WHERE u.id = n.id AND q.n > 0 RETURNING u.id, u.queued, u.seq, u.total, u.workspace_id, n.at
    ), ld AS (
      {LEDGER}
      SELECT n.id, n.at, NULL, n.seq + row_number() OVER (ORDER BY r.first), n.workspace_id,
        {kind(Event.ITEM_DISPATCHED)}, {AWAITING}, '', NULL, CASE WHEN r.first = r.last
          THEN jsonb_build_object('index', r.first) ELSE jsonb_build_object('first', r.first, 'last', r.last) END
      FROM n, r
    ), la AS (
      {LEDGER}
      SELECT u.id, u.at, NULL, u.seq, u.workspace_id, {kind(Event.UNIT_DISPATCHED)}, {AWAITING}, '', NULL,
        jsonb_build_object('items', u.total) FROM u WHERE u.queued = 0
    )
    SELECT x.id FROM x
""")


def start_lines(db: BaseDatabaseWrapper, items: Sequence[UUID], before: UUID | None = None) -> int:
    """Begin a line for each of these answered items, in the transaction that answers them; how many were begun.

    It begins where the item's line in the unit `before` has ended.
    """
    if not items:
        return 0
    ids = [make_uuid7() for _ in items]
    return len(fetch(db, _START, {"ids": write_plain(ids), "items": write_plain(items), "before": before}))


def admit_lines(db: BaseDatabaseWrapper, unit: UUID) -> int:
    """Begin the next lines of a unit that asks nothing, while there is room; how many."""
    with atomic(db):
        return start_lines(db, [id for (id,) in fetch(db, _ADMIT, {"unit": unit})])


def read_line(db: BaseDatabaseWrapper, claim: Claim) -> LineItem:
    """What a line is about."""
    [row] = fetch(db, _READ, {"line": claim.id})
    return LineItem(*row)


def read_parent(db: BaseDatabaseWrapper, claim: Claim) -> Claim:
    """The instance that a line belongs to, in the form of a claim that nobody holds."""
    [row] = fetch(db, _PARENT, {"parent": claim.parent})
    return Claim(*row)


def read_results(db: BaseDatabaseWrapper, unit: UUID) -> list[LineResult]:
    """How the items of a unit ended, in their order."""
    return [
        LineResult(index, _ANSWERS[answer], output, error, None if status is None else STATUS_OF[status], result)
        for index, answer, output, error, status, result in fetch(db, _RESULTS, {"unit": unit})
    ]


def list_lines(db: BaseDatabaseWrapper, unit: UUID) -> list[UnitLine]:
    """The lines of a unit as they stand, in the order of their items."""
    return [
        UnitLine(id, request, STATUS_OF[status], *rest)
        for id, request, status, *rest in fetch(db, _LINES, {"unit": unit})
    ]


def read_requests(db: BaseDatabaseWrapper, unit: UUID) -> list[str]:
    """What each item of a unit is, in their order."""
    return [text for (text,) in fetch(db, _REQUESTS, {"unit": unit})]


def read_stage_results(db: BaseDatabaseWrapper, unit: UUID, stage: str) -> list[str | None]:
    """What the line of each item kept of a stage, in the order of the items."""
    return [text for (text,) in fetch(db, _STAGE_RESULTS, {"unit": unit, "stage": stage})]


def read_line_result(db: BaseDatabaseWrapper, line: UUID, stage: str) -> str | None:
    """What one line kept of a stage."""
    rows = fetch(db, _LINE_RESULT, {"line": line, "stage": stage})
    return rows[0][0] if rows else None


def is_line(claim: Claim) -> bool:
    """Whether it is the line of an item."""
    return claim.parent is not None and claim.workflow.endswith(LINES)
