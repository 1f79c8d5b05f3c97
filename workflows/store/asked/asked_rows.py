"""Asking one of several questions that has no address of its own, and ending any of them.

Invariants owned:

* Only the holder of the claim asks, settles and ends: everything hangs on the fenced lock of the instance row (`t`).
* Whoever wants to know of an end locks the instance that is to end, and its own, in the order of ids. Whoever ends that
  one holds the same lock, so either sees the other.
* A question past its deadline is ended by whoever runs next, one statement for each; the park only wakes for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.lifecycle import CALL_CODES, FIRST_TERMINAL, INTERACTION_CODES, Call, Event, InteractionStatus, Watch
from workflows.store.channel_closing import listens, tell_closed
from workflows.store.claim import Claim
from workflows.store.questions import HELD, MOMENT, PENDING
from workflows.store.sql import CLOCK, LEDGER, atomic, compact, fetch, kind

_EXPIRED, _CANCELLED = INTERACTION_CODES[InteractionStatus.EXPIRED], INTERACTION_CODES[InteractionStatus.CANCELLED]

#: A place that is filled again is of a question that is asked anew.
_ASK = compact(f"""
    WITH t AS ({HELD}
    ), c AS (
      INSERT INTO holdpoint_checkpoint(instance_id, saved_at, deadline, child_id, position, kind, settled, expired,
        failed, blamed, name, value, watch)
      SELECT t.id, t.at, coalesce(%(until)s::timestamptz, t.at + %(timeout)s::float8 * interval '1 s'),
        %(child)s::uuid, %(position)s::int, %(call)s::smallint, false, false, false, false, %(name)s::text,
        %(value)s::jsonb, CASE WHEN %(child)s::uuid IS NULL THEN {Watch.NONE:d}
          WHEN (SELECT h.status FROM holdpoint_instance h WHERE h.id = %(child)s::uuid) >= {FIRST_TERMINAL}
          THEN {Watch.ENDED:d} ELSE {Watch.ARMED:d} END FROM {MOMENT}
      ON CONFLICT (instance_id, position) DO UPDATE SET saved_at = excluded.saved_at, deadline = excluded.deadline,
        child_id = excluded.child_id, settled = false, expired = false, signal = NULL, value = excluded.value,
        watch = excluded.watch
      RETURNING instance_id, saved_at, deadline, watch
    ), u AS (
      UPDATE holdpoint_instance i SET seq = i.seq + 1, asked = i.asked + 1 FROM c WHERE i.id = c.instance_id
      RETURNING i.id, i.seq, i.workspace_id, i.status
    ), l AS (
      {LEDGER}
      SELECT u.id, c.saved_at, c.deadline, u.seq, u.workspace_id, {kind(Event.ASKED)}, u.status, '', NULL,
        %(data)s::jsonb FROM u, c
    )
    SELECT c.deadline, c.watch FROM c
""")

#: Both rows, in the order of their ids; the one that is to tell is marked.
_LOCK = "SELECT id FROM holdpoint_instance WHERE id = ANY(%(ids)s::uuid[]) ORDER BY id FOR NO KEY UPDATE"
_WATCH = compact("""
    UPDATE holdpoint_instance i SET watched = true WHERE i.id = %(child)s::uuid AND NOT i.watched
""")
_ADOPT = "DELETE FROM holdpoint_checkpoint WHERE instance_id = %(instance)s::uuid AND position = %(position)s::int"

#: How a question ends that nobody has answered: what it has in the tables, the row of its place, and the history. One
#: with an address is past its deadline by the clock under the lock, or is not ended: its deadline may have been moved.
_END = compact(f"""
    WITH t AS ({HELD}
    ), x AS (
      UPDATE holdpoint_interaction x SET status = %(how)s::smallint, closed_at = {CLOCK}, version = x.version + 1
      FROM t WHERE x.unit_id = %(unit)s::uuid AND x.instance_id = t.id AND x.status + 0 = {PENDING}
        AND (NOT %(expired)s::bool OR x.deadline <= {CLOCK}) RETURNING x.id, x.unit_id
    ), n AS (
      UPDATE holdpoint_unit n SET status = %(how)s::smallint, closed_at = {CLOCK} FROM x WHERE n.id = x.unit_id
    ), w AS (
      UPDATE holdpoint_event_wait w SET closed_at = {CLOCK}
      FROM t WHERE w.instance_id = t.id AND w.slot = %(position)s::int + 1 AND w.closed_at IS NULL
    ), c AS (
      UPDATE holdpoint_checkpoint c SET settled = true, expired = %(expired)s, watch = {Watch.NONE:d}
      FROM t WHERE c.instance_id = t.id AND c.position = %(position)s::int
        AND (NOT %(expired)s::bool OR c.unit_id IS NULL) RETURNING c.name
    ), u AS (
      UPDATE holdpoint_instance i SET seq = i.seq + 1 FROM t
      WHERE i.id = t.id AND (EXISTS (SELECT FROM x) OR EXISTS (SELECT FROM c))
      RETURNING i.id, i.seq, i.workspace_id, i.status
    ), l AS (
      {LEDGER}
      SELECT u.id, {CLOCK}, NULL, u.seq, u.workspace_id, {kind(Event.HANDLED)}, u.status, '', NULL,
        jsonb_strip_nulls(jsonb_build_object('what', %(what)s::text, 'step', %(name)s::text,
          'interaction', (SELECT x.id FROM x))) FROM u
    )
    SELECT t.id, (SELECT x.id FROM x) FROM t
""")

#: Of an instance whose row is locked: the questions at these places are closed, and forgotten.
_WITHDRAW = compact(f"""
    WITH c AS (
      DELETE FROM holdpoint_checkpoint c
      WHERE c.instance_id = %(instance)s::uuid AND c.position = ANY(%(positions)s::int[])
      RETURNING c.unit_id, c.position
    ), n AS (
      UPDATE holdpoint_unit n SET status = {_CANCELLED}, closed_at = {CLOCK}
      FROM c WHERE n.id = c.unit_id AND n.status + 0 = {PENDING} AND NOT n.items RETURNING n.id
    ), x AS (
      UPDATE holdpoint_interaction x SET status = {_CANCELLED}, closed_at = {CLOCK}, version = x.version + 1
      FROM n WHERE x.unit_id = n.id AND x.closed_at IS NULL RETURNING x.id
    ), w AS (
      UPDATE holdpoint_event_wait w SET closed_at = {CLOCK}
      FROM c WHERE w.instance_id = %(instance)s::uuid AND w.slot = c.position + 1 AND w.closed_at IS NULL
    )
    SELECT x.id FROM x
""")

_HOW_IT_STANDS = compact("""
    SELECT x.status, x.output::text, x.deadline, x.closed_at FROM holdpoint_interaction x
    WHERE x.unit_id = %(unit)s::uuid AND x.index = 0
""")

_RESULT = "SELECT i.status, i.result::text, i.error FROM holdpoint_instance i WHERE i.id = %(id)s::uuid"

#: Of a question that was opened before, because its address was read.
_TAKE = compact(f"""
    WITH t AS ({HELD}
    )
    INSERT INTO holdpoint_checkpoint(instance_id, saved_at, unit_id, position, kind, settled, expired, failed, blamed,
      name)
    SELECT t.id, {CLOCK}, %(unit)s::uuid, %(position)s::int, %(call)s::smallint, false, false, false, false,
      %(name)s::text FROM t
    ON CONFLICT (instance_id, position) DO UPDATE SET unit_id = excluded.unit_id, saved_at = excluded.saved_at
    RETURNING position
""")

_STATUS_OF = {code: status for status, code in INTERACTION_CODES.items()}


@dataclass(frozen=True, slots=True)
class NewAsk:
    """One question without an address, to be opened."""

    position: int
    call: Call
    name: str
    #: Seconds from now, or the moment of its deadline.
    time: float | datetime | None
    #: What the history tells, as JSON.
    data: str
    #: The instance whose end is waited for.
    child: UUID | None = None
    #: The id of the wait for an event, as JSON.
    value: str | None = None


@dataclass(frozen=True, slots=True)
class AskStanding:
    """How a question with an address stands."""

    status: InteractionStatus
    output: str | None
    deadline: datetime | None
    closed_at: datetime | None


def open_ask(db: BaseDatabaseWrapper, claim: Claim, new: NewAsk) -> tuple[datetime | None, int] | None:
    """Ask it; its deadline and how far a watch is. None when the claim was lost."""
    until, timeout = (new.time, None) if isinstance(new.time, datetime) else (None, new.time)
    params = {
        "instance": claim.id,
        "fence": claim.fence,
        "position": new.position,
        "call": CALL_CODES[new.call],
        "name": new.name,
        "until": until,
        "timeout": timeout,
        "child": new.child,
        "value": new.value,
        "data": new.data,
    }
    rows = fetch(db, _ASK, params)
    if not rows:
        return None
    claim.asked += 1
    return rows[0][0], rows[0][1]


def watch_instance(db: BaseDatabaseWrapper, claim: Claim, target: UUID) -> None:
    """Lock an instance and the one that wants to know of its end, and mark it; first in its transaction."""
    fetch(db, _LOCK, {"ids": sorted({UUID(claim.id), target})})
    fetch(db, _WATCH, {"child": target}, rows=False)


def adopt_ask(db: BaseDatabaseWrapper, claim: Claim, position: int) -> None:
    """Take a child over that an earlier run put aside: the row of its place goes, in the transaction of the asking."""
    fetch(db, _ADOPT, {"instance": claim.id, "position": position}, rows=False)


def end_ask(
    db: BaseDatabaseWrapper, claim: Claim, position: int, name: str, unit: UUID | None, *, expired: bool
) -> bool:
    """End a question that is open, for its deadline or because nobody wants its answer any more; if the claim held."""
    params = {
        "instance": claim.id,
        "fence": claim.fence,
        "position": position,
        "name": name,
        "unit": unit,
        "how": _EXPIRED if expired else _CANCELLED,
        "what": "expired" if expired else "withdrawn",
        "expired": expired,
    }
    with atomic(db) if unit is not None and listens() else nullcontext():
        rows = fetch(db, _END, params)
        tell_closed(db, [id for _, id in rows if id is not None])
    return bool(rows)


def take_question(db: BaseDatabaseWrapper, claim: Claim, position: int, name: str, unit: UUID) -> bool:
    """Make one of several of a question that was opened before, as its address was read; whether the claim held."""
    params = {
        "instance": claim.id,
        "fence": claim.fence,
        "unit": unit,
        "position": position,
        "call": CALL_CODES[Call.ASK_CHANNEL],
        "name": name,
    }
    return bool(fetch(db, _TAKE, params))


def withdraw_asks(db: BaseDatabaseWrapper, instance: str, positions: Sequence[int]) -> list[UUID]:
    """Close and forget questions, in the transaction of the outcome that leaves them; the interactions among them."""
    return [id for (id,) in fetch(db, _WITHDRAW, {"instance": instance, "positions": list(positions)})]


def read_standing(db: BaseDatabaseWrapper, unit: UUID) -> AskStanding:
    """How a question with an address stands now."""
    [(status, output, deadline, closed_at)] = fetch(db, _HOW_IT_STANDS, {"unit": unit})
    return AskStanding(_STATUS_OF[status], output, deadline, closed_at)


def read_result(db: BaseDatabaseWrapper, id: UUID) -> Sequence[Any] | None:
    """The status code of an instance, its result and its error."""
    rows = fetch(db, _RESULT, {"id": id})
    return rows[0] if rows else None
