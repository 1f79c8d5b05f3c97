"""Asking: opening, finding, arming and closing the questions of an instance.

Invariants owned:

* A question is opened by the holder of its instance's claim and by nobody else: everything hangs on the
  fenced lock of the instance row (`t`). So looking for the current visit and opening a new one cannot race.
* One pending interaction per workspace and signal id. The partial unique index decides; a loser opens
  nothing, neither unit nor checkpoint, because all of them are selected from the interaction.
* Whatever ends an instance closes its questions and event waits in the same transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.lifecycle import CALL_CODES, CARDINALITY_CODES, INTERACTION_CODES, Cardinality, Event, InteractionStatus
from workflows.store.claim import Claim
from workflows.store.items.item_ends import RELEASED, cancel_units
from workflows.store.sql import CLOCK, LEDGER, RUNNING, compact, fetch, kind, write_plain

PENDING = INTERACTION_CODES[InteractionStatus.PENDING]
CANCELLED = INTERACTION_CODES[InteractionStatus.CANCELLED]
_STATUS_OF = {code: status for status, code in INTERACTION_CODES.items()}

#: The claimed row, locked: a stale worker finds none and so writes nothing. `+ 0` keeps the planner from taking a
#: partial index for what is one look-up by key: made while that index is empty, the plan would read it whole later.
HELD = f"""SELECT i.id, i.workspace_id, i.seq, i.status FROM holdpoint_instance i
      WHERE i.id = %(instance)s::uuid AND i.fence = %(fence)s AND i.status + 0 = {RUNNING}
      FOR NO KEY UPDATE"""
#: The held row with the moment under its lock: read once, for what is stamped with it and what is counted from it.
MOMENT = f"(SELECT t.*, {CLOCK} AS at FROM t) t"


@dataclass(frozen=True, slots=True)
class NewQuestion:
    """One question to be opened, serialised and checked."""

    id: UUID
    unit: UUID
    step: str
    visit: int
    signal_id: str
    channel: str
    owned: bool
    cardinality: str
    request: str | None
    schema: str | None
    schema_type: str | None
    projector: str | None
    assignee: str | None
    group: str | None
    correlation_id: str | None
    token_key: str | None
    token_hash: bytes | None
    #: Seconds from now, or the moment of its deadline.
    timeout: float | datetime | None
    #: What a partner's body holds; see `question.BODIES`.
    body: str = "any"
    #: Whether its channel sends it, and what for that has to be known.
    sends: bool = False
    config: str | None = None
    #: Of a function: its place among the checkpoints, and the kind of the call.
    position: int | None = None
    call: str | None = None


@dataclass(frozen=True, slots=True)
class FoundQuestion:
    """One question as its row has it."""

    id: UUID
    unit: UUID
    signal_id: str
    status: InteractionStatus
    deadline: datetime | None
    token_key: str | None
    visit: int
    output: str | None
    #: Answered, and the answer still lies in the inbox.
    unread: bool = False


#: A checkpoint is replaced when its question was closed by a failure and is asked anew.
_OPEN = compact(f"""
    WITH t AS ({HELD}
    ), x AS (
      INSERT INTO holdpoint_interaction(id, unit_id, instance_id, created_at, deadline, workspace_id, index, version,
        status, owned, channel, signal_id, token_key, token_hash, actor, assignee, group_name, correlation_id,
        schema_type, projector, body, request, schema, dispatch_at, config)
      SELECT %(id)s::uuid, %(unit)s::uuid, t.id, t.at, t.at + %(timeout)s::float8 * interval '1 s',
        t.workspace_id, 0, 1, {PENDING}, %(owned)s, %(channel)s::text, %(signal_id)s::text, %(token_key)s::text,
        %(token_hash)s::bytea, '', %(assignee)s::text, %(group)s::text, %(correlation_id)s::text,
        %(schema_type)s::text, %(projector)s::text, %(body)s::text, %(request)s::jsonb, %(schema)s::jsonb,
        CASE WHEN %(sends)s THEN t.at END, %(config)s::jsonb
      FROM {MOMENT} ON CONFLICT (workspace_id, signal_id) WHERE status = {PENDING} DO NOTHING
      RETURNING id, instance_id, workspace_id, deadline, created_at
    ), n AS (
      INSERT INTO holdpoint_unit(id, instance_id, created_at, deadline, workspace_id, visit, total, remaining, failed,
        status, cardinality, step)
      SELECT %(unit)s::uuid, x.instance_id, x.created_at, x.deadline, x.workspace_id, %(visit)s, 1, 1, 0, {PENDING},
        %(cardinality)s, %(step)s::text FROM x
    ), c AS (
      INSERT INTO holdpoint_checkpoint(instance_id, saved_at, unit_id, position, kind, settled, expired, failed,
        blamed, name)
      SELECT x.instance_id, x.created_at, %(unit)s::uuid, %(position)s::int, %(call)s::smallint, false, false,
        false, false, %(step)s::text FROM x WHERE %(position)s::int IS NOT NULL
      ON CONFLICT (instance_id, position) DO UPDATE SET unit_id = excluded.unit_id, saved_at = excluded.saved_at
    ), u AS (
      UPDATE holdpoint_instance i SET seq = i.seq + 1, asked = i.asked + 1 FROM x WHERE i.id = x.instance_id
      RETURNING i.id, i.seq, i.workspace_id, i.status
    ), l AS (
      {LEDGER}
      SELECT u.id, x.created_at, x.deadline, u.seq, u.workspace_id, {kind(Event.ASKED)}, u.status, '', NULL,
        jsonb_strip_nulls(jsonb_build_object('step', %(step)s::text, 'interaction', x.id,
          'signal_id', %(signal_id)s::text, 'channel', %(channel)s::text, 'timeout', %(timeout)s::float8,
          'schema', %(schema)s::jsonb)) FROM u, x
    )
    SELECT x.id, x.deadline FROM t LEFT JOIN x ON true
""")

#: With the moment itself as the deadline.
_OPEN_UNTIL = _OPEN.replace("t.at + %(timeout)s::float8 * interval '1 s'", "%(timeout)s::timestamptz").replace(
    "'timeout', %(timeout)s::float8", "'until', %(timeout)s::timestamptz"
)

_COLUMNS = """x.id, x.unit_id, x.signal_id, x.status, x.deadline, x.token_key, n.visit, x.output::text"""

_CURRENT = compact(f"""
    SELECT {_COLUMNS}, EXISTS (
      SELECT 1 FROM holdpoint_signal s WHERE s.instance_id = n.instance_id AND s.consumed_at IS NULL
        AND s.name = 'holdpoint:unit:' || n.id)
    FROM holdpoint_unit n JOIN holdpoint_interaction x ON x.unit_id = n.id AND x.index = 0
    WHERE n.instance_id = %(instance)s::uuid AND n.step = %(step)s::text AND x.channel = %(channel)s::text
    ORDER BY n.visit DESC LIMIT 1
""")

_ARM = compact(f"""
    WITH t AS ({HELD}
    ), a AS (
      UPDATE holdpoint_interaction x SET deadline = {CLOCK} + %(timeout)s::float8 * interval '1 s',
        request = coalesce(x.request, %(request)s::jsonb)
      FROM t WHERE x.unit_id = %(unit)s::uuid AND x.instance_id = t.id AND x.status + 0 = {PENDING}
      RETURNING x.unit_id, x.deadline
    ), b AS (UPDATE holdpoint_unit n SET deadline = a.deadline FROM a WHERE n.id = a.unit_id)
    SELECT x.id, x.unit_id, x.signal_id, x.status, coalesce(a.deadline, x.deadline), x.token_key, n.visit,
      x.output::text
    FROM t JOIN holdpoint_interaction x ON x.unit_id = %(unit)s::uuid AND x.index = 0
    JOIN holdpoint_unit n ON n.id = x.unit_id LEFT JOIN a ON true
""")

_ARM_UNTIL = _ARM.replace(f"{CLOCK} + %(timeout)s::float8 * interval '1 s'", "%(timeout)s::timestamptz")

#: For instances whose rows are locked already. An answer to an item locks none: units of items are only named here.
_CLOSE = compact(f"""
    WITH n AS (
      UPDATE holdpoint_unit n SET status = {CANCELLED}, closed_at = {CLOCK}
      FROM unnest(%(ids)s::uuid[]) v(id) CROSS JOIN LATERAL (SELECT o.ctid FROM holdpoint_unit o
        WHERE o.instance_id = v.id AND o.status = {PENDING} AND NOT o.items OFFSET 0) o
      WHERE n.ctid = o.ctid RETURNING n.id
    ), x AS (
      UPDATE holdpoint_interaction x SET status = {CANCELLED}, closed_at = {CLOCK}, version = x.version + 1
      FROM n CROSS JOIN LATERAL (SELECT o.ctid FROM holdpoint_interaction o
        WHERE o.unit_id = n.id OFFSET 0) o WHERE x.ctid = o.ctid AND x.closed_at IS NULL RETURNING x.id, x.channel
    ), w AS (
      UPDATE holdpoint_event_wait w SET closed_at = {CLOCK}
      FROM unnest(%(ids)s::uuid[]) v(id) CROSS JOIN LATERAL (SELECT o.ctid FROM holdpoint_event_wait o
        WHERE o.instance_id = v.id AND o.closed_at IS NULL OFFSET 0) o WHERE w.ctid = o.ctid
        AND coalesce(w.closed_at, 'infinity') = 'infinity'
    )
    SELECT x.id, NULL FROM x UNION ALL
    SELECT NULL, o.id FROM unnest(%(ids)s::uuid[]) v(id) CROSS JOIN LATERAL (SELECT o.id FROM holdpoint_unit o
      WHERE o.instance_id = v.id AND o.items AND o.phase + 0 < {RELEASED} OFFSET 0) o
""")


def open_question(db: BaseDatabaseWrapper, claim: Claim, new: NewQuestion) -> datetime | bool | None:
    """Open it and return its deadline; True when the claim was lost, False when its signal id is taken."""
    rows = fetch(
        db,
        _OPEN_UNTIL if isinstance(new.timeout, datetime) else _OPEN,
        {
            "instance": claim.id,
            "fence": claim.fence,
            "id": new.id,
            "unit": new.unit,
            "step": new.step,
            "visit": new.visit,
            "signal_id": new.signal_id,
            "channel": new.channel,
            "owned": new.owned,
            "cardinality": CARDINALITY_CODES[Cardinality(new.cardinality)],
            "request": new.request,
            "schema": new.schema,
            "schema_type": new.schema_type,
            "projector": new.projector,
            "body": new.body,
            "sends": new.sends,
            "config": new.config,
            "assignee": new.assignee,
            "group": new.group,
            "correlation_id": new.correlation_id,
            "token_key": new.token_key,
            "token_hash": new.token_hash,
            "timeout": new.timeout,
            "position": new.position,
            "call": None if new.call is None else CALL_CODES[new.call],  # type: ignore[index]
        },
    )
    if not rows:
        return True
    if rows[0][0] is None:
        return False
    claim.asked += 1
    deadline: datetime | None = rows[0][1]
    return deadline


def find_question(db: BaseDatabaseWrapper, claim: Claim, step: str, channel: str) -> FoundQuestion | None:
    """The latest visit of a wait; a callback and an approval may have one name."""
    rows = fetch(db, _CURRENT, {"instance": claim.id, "step": step, "channel": channel})
    return _found(rows[0]) if rows else None


def arm_question(
    db: BaseDatabaseWrapper,
    claim: Claim,
    unit: UUID,
    timeout: float | datetime | None,
    request: str | None = None,
) -> FoundQuestion | None:
    """Set the deadline of an open question; how it stands now, or None when the claim was lost.

    Its address may have been read before the request was known: that is filled in.
    """
    params = {"instance": claim.id, "fence": claim.fence, "unit": unit, "timeout": timeout, "request": request}
    rows = fetch(db, _ARM_UNTIL if isinstance(timeout, datetime) else _ARM, params)
    return _found(rows[0]) if rows else None


def close_questions(db: BaseDatabaseWrapper, instances: Iterable[Any]) -> list[UUID]:
    """Cancel what these instances still ask, and end their waits for events; the interactions that were closed.

    Units of items are locked in their own order, and so end in statements of their own. Within a transaction.
    """
    rows = fetch(db, _CLOSE, {"ids": write_plain(list(instances))})
    closed = [id for id, _ in rows if id is not None]
    if units := [unit for _, unit in rows if unit is not None]:
        closed += cancel_units(db, units)
    return closed


def _found(row: tuple[Any, ...]) -> FoundQuestion:
    id, unit, signal_id, status, deadline, token_key, visit, output, *unread = row
    return FoundQuestion(
        id, unit, signal_id, _STATUS_OF[status], deadline, token_key, visit, output, bool(unread and unread[0])
    )
