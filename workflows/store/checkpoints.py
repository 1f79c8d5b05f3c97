"""Checkpoints of function-style workflows: saved under the fence, read in one statement.

Invariant owned: only the holder of the claim saves. The lock on the instance row is held until the
checkpoint is committed, so a worker that lost its claim meanwhile cannot add one behind its successor's back.
A checkpoint is progress: where earlier runs failed, it sets their count back.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.lifecycle import (
    CALL_CODES,
    INTERACTION_CODES,
    STATUS_OF,
    UNIT_CODES,
    Call,
    InteractionStatus,
    Status,
    UnitStatus,
    Watch,
)
from workflows.store.claim import Claim
from workflows.store.items.item_ends import FILLING, RELEASED, cancel_units
from workflows.store.questions import CANCELLED, HELD, MOMENT, PENDING
from workflows.store.sql import CLOCK, LIVE, compact, fetch

_CALL_OF = {code: call for call, code in CALL_CODES.items()}
_UNIT_STATUS_OF = {code: status for status, code in UNIT_CODES.items()}
_ASKED_OF = {code: status for status, code in INTERACTION_CODES.items()}


@dataclass(slots=True)
class Saved:
    """One checkpoint, with what it points at: the question it waits for, or the child."""

    position: int
    call: Call
    name: str
    settled: bool
    expired: bool
    value: str | None
    deadline: datetime | None
    signal: int | None
    failed: bool = False
    blamed: bool = False
    unit: UUID | None = None
    interaction: UUID | None = None
    signal_id: str | None = None
    status: InteractionStatus | None = None
    output: str | None = None
    ask_deadline: datetime | None = None
    token_key: str | None = None
    visit: int | None = None
    child: UUID | None = None
    child_status: Status | None = None
    child_result: str | None = None
    child_error: str | None = None
    #: Of a unit of items: how it stands, whether its instance may go on, and whether the author's code is to ask more.
    unit_status: UnitStatus | None = None
    released: bool = False
    fills: bool = False
    #: Of a question that was opened in this very run.
    token: str | None = None
    #: When the question was answered, or ended otherwise.
    closed_at: datetime | None = None
    #: Of a wait for the end of an instance; see `lifecycle.Watch`.
    watch: int = Watch.NONE


@dataclass(frozen=True, slots=True)
class Rewind:
    """What the end of a run changes of what was saved, in the transaction of that end."""

    position: int
    #: Forget this call and those after it, of which so many runs have failed; None blames the call, and only that.
    runs: int | None = None


_READ = compact(f"""
    SELECT c.position, c.kind, c.name, c.settled, c.expired, c.value::text, c.deadline, c.signal, c.failed, c.blamed,
      c.unit_id,
      x.id, x.signal_id, x.status, x.output::text, x.deadline, x.token_key, n.visit, c.child_id, i.status,
      i.result::text, i.error, CASE WHEN n.items THEN n.status END, coalesce(n.phase = {RELEASED}, false),
      coalesce(n.hooked AND n.phase = {FILLING} AND n.status = {PENDING}, false), x.closed_at, c.watch
    FROM holdpoint_checkpoint c LEFT JOIN holdpoint_unit n ON n.id = c.unit_id
    LEFT JOIN holdpoint_interaction x ON x.unit_id = c.unit_id AND x.index = 0 AND NOT n.items
    LEFT JOIN holdpoint_instance i ON i.id = c.child_id
    WHERE c.instance_id = %(instance)s::uuid ORDER BY c.position
""")

#: `runs` goes back to this very run, the first since the progress. What is settled later was saved when it was opened:
#: a fork begins there.
_SAVE = compact(f"""
    WITH t AS ({HELD}
    ), r AS (
      UPDATE holdpoint_instance i SET runs = 1 FROM t WHERE i.id = t.id AND i.runs > 1
    )
    INSERT INTO holdpoint_checkpoint(instance_id, saved_at, deadline, child_id, position, kind, settled, expired,
      failed, blamed, signal, name, value)
    SELECT t.id, t.at, t.at + %(timeout)s::float8 * interval '1 s', %(child)s::uuid, %(position)s::int,
      %(call)s::smallint, %(settled)s, %(expired)s, %(failed)s, false, %(signal)s::int, %(name)s::text,
      %(value)s::jsonb FROM {MOMENT}
    ON CONFLICT (instance_id, position) DO UPDATE SET settled = excluded.settled,
      expired = excluded.expired, signal = excluded.signal, value = excluded.value
    RETURNING deadline
""")

_SAVE_UNTIL = _SAVE.replace("t.at + %(timeout)s::float8 * interval '1 s'", "%(timeout)s::timestamptz")

#: An invoked child that still lives is never started twice: its checkpoint is put aside, at a place before all calls,
#: where the call that is made anew finds it.
_ADRIFT = f"""c.kind IN ({CALL_CODES[Call.INVOKE]}, {CALL_CODES[Call.ASK_CHILD]}) AND c.position >= 0 AND EXISTS (
  SELECT FROM holdpoint_instance h WHERE h.id = c.child_id AND h.{LIVE})"""
_ASIDE = f"""position = least((SELECT min(o.position) FROM holdpoint_checkpoint o
    WHERE o.instance_id = %(instance)s::uuid), 0) - 1 - c.position, settled = false, expired = false,
  blamed = false, watch = {Watch.NONE:d}"""

#: Of several open questions one for an event loses the id of its wait, which the failure has closed: it is asked again.
#: The call that the instance failed of, and what was called on the failing path after it. A callback that nobody
#: answered keeps its place, because calls between it and its wait stand; it only asks anew.
_FAILING = """CASE WHEN b.callback THEN c.position > b.position AND c.saved_at > b.closed_at
  ELSE c.position >= b.position END"""
_FORGET = compact(f"""
    WITH b AS (
      SELECT c.position, c.kind = {CALL_CODES[Call.CALLBACK]} AND NOT c.failed AS callback,
        (SELECT n.closed_at FROM holdpoint_unit n WHERE n.id = c.unit_id) AS closed_at
      FROM holdpoint_checkpoint c
      WHERE c.instance_id = %(instance)s::uuid AND c.blamed ORDER BY c.position LIMIT 1
    ), k AS (
      UPDATE holdpoint_checkpoint c SET unit_id = NULL, blamed = false FROM b
      WHERE c.instance_id = %(instance)s::uuid AND c.position = b.position AND b.callback
    ), a AS (
      UPDATE holdpoint_checkpoint c SET {_ASIDE} FROM b
      WHERE c.instance_id = %(instance)s::uuid AND {_FAILING} AND {_ADRIFT}
    ), e AS (
      UPDATE holdpoint_checkpoint c SET value = NULL WHERE c.instance_id = %(instance)s::uuid
        AND c.kind = {CALL_CODES[Call.ASK_EVENT]} AND NOT c.settled AND NOT EXISTS (SELECT FROM b WHERE {_FAILING})
    )
    DELETE FROM holdpoint_checkpoint c USING b
    WHERE c.instance_id = %(instance)s::uuid AND {_FAILING} AND NOT ({_ADRIFT})
""")

#: Both belong to the transaction that has committed the end of the run: the row is locked by it.
_FORGET_FROM = compact(f"""
    WITH c AS (
      DELETE FROM holdpoint_checkpoint c WHERE c.instance_id = %(instance)s::uuid AND c.position >= %(position)s::int
        AND NOT ({_ADRIFT}) RETURNING c.unit_id
    ), a AS (
      UPDATE holdpoint_checkpoint c SET {_ASIDE}
      WHERE c.instance_id = %(instance)s::uuid AND c.position >= %(position)s::int AND {_ADRIFT}
    ), r AS (
      UPDATE holdpoint_instance i SET runs = %(runs)s WHERE i.id = %(instance)s::uuid
    ), n AS (
      UPDATE holdpoint_unit n SET status = {CANCELLED}, closed_at = {CLOCK}
      FROM c WHERE n.id = c.unit_id AND n.status = {PENDING} AND NOT n.items RETURNING n.id
    ), x AS (
      UPDATE holdpoint_interaction x SET status = {CANCELLED}, closed_at = {CLOCK}, version = x.version + 1
      FROM n WHERE x.unit_id = n.id AND x.closed_at IS NULL RETURNING x.id
    ), w AS (
      UPDATE holdpoint_event_wait w SET closed_at = {CLOCK}
      WHERE w.instance_id = %(instance)s::uuid AND w.slot > %(position)s::int AND w.closed_at IS NULL
    )
    SELECT x.id, NULL FROM x UNION ALL
    SELECT NULL, o.id FROM c CROSS JOIN LATERAL (SELECT o.id FROM holdpoint_unit o
      WHERE o.id = c.unit_id AND o.items AND o.phase + 0 < {RELEASED} OFFSET 0) o
""")

_BLAME = compact("""
    UPDATE holdpoint_checkpoint c SET blamed = (c.position = %(position)s::int)
    WHERE c.instance_id = %(instance)s::uuid AND (c.blamed OR c.position = %(position)s::int)
""")


#: The child is counted for its parent's next park. Both are locked first, in the order of their ids.
_LOCK_BOTH = "SELECT id FROM holdpoint_instance WHERE id = ANY(%(ids)s::uuid[]) ORDER BY id FOR NO KEY UPDATE"
_JOIN = compact(f"""
    WITH c AS (
      DELETE FROM holdpoint_checkpoint WHERE instance_id = %(instance)s::uuid AND position = %(position)s::int
    )
    UPDATE holdpoint_instance i SET spawn_no = %(spawn_no)s::int WHERE i.id = %(child)s::uuid AND i.{LIVE} RETURNING 1
""")


def lock_with_child(db: BaseDatabaseWrapper, claim: Claim, child: UUID) -> None:
    """Lock an instance and one of its children; before anything else in the transaction."""
    fetch(db, _LOCK_BOTH, {"ids": sorted([UUID(claim.id), child])})


def join_child(db: BaseDatabaseWrapper, claim: Claim, child: UUID, position: int) -> bool:
    """Take a child over that an earlier run put aside; whether it still lives. Both are locked."""
    params = {"instance": claim.id, "child": child, "position": position, "spawn_no": claim.spawns + 1}
    return bool(fetch(db, _JOIN, params))


def read_checkpoints(db: BaseDatabaseWrapper, claim: Claim) -> list[Saved]:
    """All of them, in the order of the calls; those put aside come first, at places below zero."""
    saved = []
    for row in fetch(db, _READ, {"instance": claim.id}):
        one = Saved(*row[:22])
        one.released, one.fills, one.closed_at, one.watch = row[23:27]
        one.call = _CALL_OF[row[1]]
        one.status = None if row[13] is None else _ASKED_OF[row[13]]
        one.child_status = None if row[19] is None else STATUS_OF[row[19]]
        one.unit_status = None if row[22] is None else _UNIT_STATUS_OF[row[22]]
        saved.append(one)
    return saved


def save_checkpoint(
    db: BaseDatabaseWrapper,
    claim: Claim,
    position: int,
    call: Call,
    name: str,
    *,
    value: str | None = None,
    settled: bool = True,
    expired: bool = False,
    failed: bool = False,
    timeout: float | datetime | None = None,
    signal: int | None = None,
    child: UUID | None = None,
) -> Saved | None:
    """Save a new checkpoint, or settle an open one; None when the claim was lost."""
    rows = fetch(
        db,
        _SAVE_UNTIL if isinstance(timeout, datetime) else _SAVE,
        {
            "instance": claim.id,
            "fence": claim.fence,
            "position": position,
            "call": CALL_CODES[call],
            "name": name,
            "value": value,
            "settled": settled,
            "expired": expired,
            "failed": failed,
            "timeout": timeout,
            "signal": signal,
            "child": child,
        },
    )
    if not rows:
        return None
    return Saved(position, call, name, settled, expired, value, rows[0][0], signal, failed, child=child)


def rewind_checkpoints(db: BaseDatabaseWrapper, instance: str, rewind: Rewind) -> list[UUID]:
    """Forget the calls from one on, and close what they ask, as they will be made again and were no progress.

    Or mark the call that the instance is about to fail of, and no other; none for a position that is not there. The
    interactions that were closed.
    """
    params: dict[str, Any] = {"instance": instance, "position": rewind.position}
    if rewind.runs is None:
        fetch(db, _BLAME, params, rows=False)
        return []
    rows = fetch(db, _FORGET_FROM, params | {"runs": rewind.runs})
    closed = [id for id, _ in rows if id is not None]
    if units := [unit for _, unit in rows if unit is not None]:
        closed += cancel_units(db, units)
    return closed


def forget_failed(db: BaseDatabaseWrapper, instance: Any) -> None:
    """For a retry: let the call that failed be made again. Waits for events that the failure closed begin anew."""
    fetch(db, _FORGET, {"instance": instance}, rows=False)
