"""How items end: answered, failed, expired, or cancelled with their unit.

Invariants owned:

* One winner for each item. Items are locked before their units, ids ascending, and both are looked at again under the
  locks: an item that is over stays as it is, and so do all items of a unit that is over. The instance is never locked.
* A unit counts its items as they end and reads none of them. Only its own end looks at those that are left.
* The last item, or the first that fails under `fail`, closes the unit in the same transaction. What the instance hears
  of it is another one (see `unit_release`).
* What happens to an item is a row of the unit's own history, numbered by the unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.lifecycle import (
    INTERACTION_CODES,
    UNIT_CODES,
    UNIT_PHASE_CODES,
    Event,
    InteractionStatus,
    ItemPolicy,
    UnitPhase,
    UnitStatus,
)
from workflows.store.channel_closing import listens, tell_closed
from workflows.store.items.item_lines import start_lines
from workflows.store.sql import AWAITING, CLOCK, LEDGER, NOW, atomic, compact, fetch, kind, write_plain, write_texts

PENDING = INTERACTION_CODES[InteractionStatus.PENDING]
COMPLETED = INTERACTION_CODES[InteractionStatus.COMPLETED]
EXPIRED = INTERACTION_CODES[InteractionStatus.EXPIRED]
CANCELLED = INTERACTION_CODES[InteractionStatus.CANCELLED]
OPEN, DONE, UNIT_CANCELLED = (UNIT_CODES[one] for one in (UnitStatus.OPEN, UnitStatus.COMPLETED, UnitStatus.CANCELLED))
FILLING, ASKED, CLOSED, RELEASED = (UNIT_PHASE_CODES[one] for one in UnitPhase)
_STATUS_OF = {code: status for status, code in INTERACTION_CODES.items()}

#: Items in one statement: joins of a batch with its units compare each with each.
BATCH = 1_000


@dataclass(slots=True)  # not frozen, which makes thousands of them slow to fill
class ItemAnswer:
    """One answer to an item, serialised and checked."""

    id: UUID
    output: str | None
    #: The version that the caller was shown, if it demands that one.
    version: int | None = None
    #: Who answers, where that is not one for all.
    actor: str | None = None


@dataclass(frozen=True, slots=True)
class ItemFailure:
    """One item that cannot be answered any more."""

    id: UUID
    reason: str


@dataclass(slots=True)
class Ended:
    """What became of a batch of items, and what is to be done next."""

    #: Item -> how it ended in this call. What is missing was over already, or its unit was.
    how: dict[UUID, InteractionStatus] = field(default_factory=dict)
    #: Items past their deadline, whose answer came too late: they have not ended yet.
    late: list[UUID] = field(default_factory=list)
    #: Other items that were cancelled because their unit has failed.
    cancelled: list[UUID] = field(default_factory=list)
    #: Units that have closed: their instances wait for the release.
    closed: set[UUID] = field(default_factory=set)
    #: Open units with items that wait for their turn.
    filling: set[UUID] = field(default_factory=set)

    def add(self, other: Ended) -> None:
        """Take over what became of another batch."""
        self.how.update(other.how)
        self.late += other.late
        self.cancelled += other.cancelled
        self.closed |= other.closed
        self.filling = (self.filling | other.filling) - self.closed


def _lock(values: str) -> str:
    """Items by ascending id, then their units: each is looked up by itself, and is what it is under the lock."""
    return f"""
    v AS ({values}
    ), k AS MATERIALIZED (
      SELECT v.*, x.unit_id, x.index, x.status, x.version AS now, x.deadline, x.queued, x.channel
      FROM (SELECT * FROM v ORDER BY id) v, LATERAL (
        SELECT * FROM holdpoint_interaction x WHERE x.id = v.id AND x.item FOR NO KEY UPDATE) x
    ), n AS MATERIALIZED (
      SELECT n.*, {CLOCK} AS at
      FROM (SELECT DISTINCT k.unit_id FROM k ORDER BY 1) d, LATERAL (
        SELECT * FROM holdpoint_unit n WHERE n.id = d.unit_id FOR NO KEY UPDATE) n
    )"""


#: What a unit's row becomes of `g`, the sum of its items that have ended.
_FILLED = "n.queued > 0 AND n.queued = g.queued"
_COUNTS = f"""queued = n.queued - g.queued, remaining = n.remaining - g.through,
        dispatched_at = CASE WHEN {_FILLED} THEN g.at ELSE n.dispatched_at END"""


def _write_history(tells: str, unit_row: str) -> str:
    """A row for each item, then one for the last that was asked by ending, then one for the end of the unit."""
    return f"""
    li AS (
      {LEDGER}
      SELECT x.unit_id, x.at, NULL, x.seq + row_number() OVER (PARTITION BY x.unit_id ORDER BY x.index),
        x.workspace_id, {kind(Event.ITEM_COMPLETED)}, {AWAITING}, x.actor, NULL,
        jsonb_strip_nulls(jsonb_build_object('interaction', x.id, 'index', x.index, 'channel', x.channel, {tells}))
      FROM x
    ), lf AS (
      {LEDGER}
      SELECT u.id, u.at, NULL, u.seq - u.closes::int, u.workspace_id, {kind(Event.UNIT_DISPATCHED)}, {AWAITING}, '',
        NULL, jsonb_build_object('items', u.total) FROM u WHERE u.filled
    ), lc AS (
      {LEDGER}
      SELECT u.id, u.at, NULL, u.seq, u.workspace_id, {kind(Event.UNIT_COMPLETED)}, {AWAITING}, '', NULL,
        jsonb_build_object('items', u.total, 'completed', u.answered, 'failed', u.failed, 'expired', u.expired)
      FROM u WHERE {unit_row}
    )"""


#: The same from the row as it was locked. PostgreSQL checks the constraints of a row that it computes from the version
#: that the statement began with, before it looks whether there is a newer one: an item that was asked once more while
#: its answer waited for the lock is not counted in that.
_FILLED_UNDER_LOCK = _FILLED.replace("n.queued", "g.waiting")
_COUNTS_UNDER_LOCK = _COUNTS.replace("n.queued", "g.waiting").replace("n.remaining", "g.remaining")

#: What it returns names an item by its place in the call, and its unit only where that is to be followed up.
_COMPLETE = compact(f"""
    WITH {
    _lock('''SELECT * FROM unnest(%(ids)s::uuid[], %(outputs)s::text[], %(versions)s::int[],
        %(actors)s::text[]) WITH ORDINALITY v(id, output, version, actor, n)''')
}, c AS MATERIALIZED (
      SELECT k.*, n.at, n.seq, n.workspace_id, coalesce(k.deadline <= n.at, false) AS late
      FROM k JOIN n ON n.id = k.unit_id
      WHERE k.status = {PENDING} AND n.status = {OPEN} AND k.now = coalesce(k.version, k.now)
    ), x AS (
      UPDATE holdpoint_interaction x SET status = {COMPLETED}, closed_at = c.at, version = x.version + 1,
        actor = coalesce(c.actor, %(actor)s::text), queued = false, output = c.output::jsonb
      FROM c WHERE x.id = c.id AND NOT c.late
      RETURNING x.id, x.unit_id, x.index, x.channel, x.actor, c.at, c.seq, c.workspace_id, c.queued
    ), g AS (
      SELECT x.unit_id, min(x.at) AS at, count(*)::int AS n, (count(*) FILTER (WHERE x.queued))::int AS queued,
        CASE WHEN bool_or(n.lines) THEN 0 ELSE count(*)::int END AS through, min(n.remaining) AS remaining,
        min(n.queued) AS waiting, min(n.answered) AS answered, min(n.failed) AS failed, min(n.expired) AS expired
      FROM x JOIN n ON n.id = x.unit_id GROUP BY 1
    ), u AS (
      UPDATE holdpoint_unit n SET {_COUNTS_UNDER_LOCK}, answered = g.answered + g.n,
        failed = g.failed, expired = g.expired,
        seq = n.seq + g.n + ({_FILLED_UNDER_LOCK})::int + (g.remaining = g.through)::int,
        status = CASE WHEN g.remaining = g.through THEN {DONE} ELSE n.status END,
        closed_at = CASE WHEN g.remaining = g.through THEN g.at END,
        phase = CASE WHEN g.remaining = g.through THEN {CLOSED} WHEN {_FILLED_UNDER_LOCK} THEN {ASKED} ELSE n.phase END
      FROM g WHERE n.id = g.unit_id
      RETURNING n.id, n.seq, n.workspace_id, n.total, n.answered, n.failed, n.expired, n.queued, n.hooked, n.lines,
        n.status <> {OPEN} AS closes, n.queued = 0 AND g.queued > 0 AS filled, g.at
    ), {_write_history("'how', 'completed', 'door', %(door)s::text, 'override', %(override)s::text", "u.closes")}
    SELECT c.n, c.late, u.closes, CASE WHEN u.closes OR (u.queued > 0 AND NOT u.hooked) THEN u.id END, u.lines
    FROM c LEFT JOIN u ON u.id = c.unit_id
""")

#: Of the units of these items: what a failure does to them.
_POLICIES = compact("""
    SELECT DISTINCT n.id, n.policy FROM unnest(%(ids)s::uuid[]) v(id)
    CROSS JOIN LATERAL (SELECT x.unit_id FROM holdpoint_interaction x WHERE x.id = v.id AND x.item OFFSET 0) x
    CROSS JOIN LATERAL (SELECT o.id, o.policy FROM holdpoint_unit o WHERE o.id = x.unit_id OFFSET 0) n
""")
_LEFT = compact(f"""
    SELECT x.id FROM unnest(%(units)s::uuid[]) v(id) CROSS JOIN LATERAL (
      SELECT o.id FROM holdpoint_interaction o WHERE o.unit_id = v.id AND o.status + 0 = {PENDING} OFFSET 0) x
""")
_LOCK = compact("""
    SELECT x.id FROM (SELECT id FROM unnest(%(ids)s::uuid[]) v(id) ORDER BY id) v, LATERAL (
      SELECT x.id FROM holdpoint_interaction x WHERE x.id = v.id FOR NO KEY UPDATE) x
""")

#: Of a unit that has failed nothing waits for its turn any more.
_QUEUED_AFTER = "CASE WHEN q.breaks THEN 0 ELSE n.queued - g.queued END"

#: After `_LOCK`: whatever it writes is locked, and seen as it now is. Items that are left when the unit fails are
#: cancelled; `s` and `x` are different rows.
_END = compact(f"""
    WITH {_lock("SELECT * FROM unnest(%(ids)s::uuid[], %(reasons)s::text[]) v(id, reason)")}, x AS (
      UPDATE holdpoint_interaction x SET status = %(how)s, closed_at = n.at, version = x.version + 1,
        actor = %(actor)s::text, queued = false, error = k.reason
      FROM k, n WHERE x.id = k.id AND n.id = k.unit_id AND k.status = {PENDING} AND n.status = {OPEN}
        AND (%(how)s <> {EXPIRED} OR k.deadline <= n.at)
      RETURNING x.id, x.unit_id, x.index, x.channel, x.actor, x.error, n.at, n.seq, n.workspace_id, k.queued
    ), g AS (
      SELECT x.unit_id, min(x.at) AS at, count(*)::int AS n, (count(*) FILTER (WHERE x.queued))::int AS queued,
        count(*)::int AS through FROM x GROUP BY 1
    ), u AS (
      UPDATE holdpoint_unit n SET {_COUNTS.replace("n.queued - g.queued", _QUEUED_AFTER)},
        failed = n.failed + CASE WHEN %(how)s = {EXPIRED} THEN 0 ELSE g.n END,
        expired = n.expired + CASE WHEN %(how)s = {EXPIRED} THEN g.n ELSE 0 END,
        seq = n.seq + g.n + ({_FILLED} AND NOT q.breaks)::int + (n.remaining = g.through AND NOT q.breaks)::int,
        status = CASE WHEN q.breaks THEN %(how)s WHEN n.remaining = g.through THEN {DONE} ELSE n.status END,
        closed_at = CASE WHEN q.breaks OR n.remaining = g.through THEN g.at END,
        phase = CASE WHEN q.breaks OR n.remaining = g.through THEN {CLOSED} WHEN {_FILLED} THEN {ASKED}
          ELSE n.phase END
      FROM g CROSS JOIN LATERAL (
        SELECT bool_or(n.policy = '{ItemPolicy.FAIL}') AS breaks FROM n WHERE n.id = g.unit_id OFFSET 0) q
      WHERE n.id = g.unit_id
      RETURNING n.id, n.seq, n.workspace_id, n.total, n.answered, n.failed, n.expired, n.queued, n.hooked, q.breaks,
        n.status <> {OPEN} AND NOT q.breaks AS closes, n.status <> {OPEN} AS over,
        n.queued = 0 AND g.queued > 0 AND NOT q.breaks AS filled, g.at
    ), s AS (
      UPDATE holdpoint_interaction x SET status = {CANCELLED}, closed_at = u.at, version = x.version + 1, queued = false
      FROM u CROSS JOIN LATERAL (SELECT o.id FROM holdpoint_interaction o
        WHERE u.breaks AND o.unit_id = u.id AND o.status + 0 = {PENDING} AND o.id <> ALL(%(ids)s::uuid[]) OFFSET 0) o
      WHERE x.id = o.id AND x.status + 0 = {PENDING} RETURNING x.id
    ), {_write_history("'how', %(word)s::text, 'reason', x.error, 'door', %(door)s::text", "u.closes")}
    SELECT x.id, x.unit_id, u.over, u.queued > 0 AND NOT u.hooked AND NOT u.over, false
    FROM x LEFT JOIN u ON u.id = x.unit_id
    UNION ALL SELECT s.id, NULL, NULL, NULL, true FROM s
""")

#: For units whose items are locked: whatever of them is not over yet, and those that nobody has been told of.
_CANCEL = compact(f"""
    WITH n AS (
      UPDATE holdpoint_unit n SET status = CASE WHEN n.status = {OPEN} THEN {UNIT_CANCELLED} ELSE n.status END,
        closed_at = coalesce(n.closed_at, {CLOCK}), phase = {RELEASED}, queued = 0, seq = n.seq + 1
      WHERE n.id = ANY(%(units)s::uuid[]) AND n.phase < {RELEASED}
      RETURNING n.id, n.seq, n.workspace_id, n.status, n.total, n.answered, n.failed, n.expired, n.lines
    ), x AS (
      UPDATE holdpoint_interaction x SET status = {CANCELLED}, closed_at = {CLOCK}, version = x.version + 1,
        queued = false
      FROM n CROSS JOIN LATERAL (SELECT o.id FROM holdpoint_interaction o
        WHERE o.unit_id = n.id AND o.status + 0 = {PENDING} OFFSET 0) o
      WHERE x.id = o.id AND x.status + 0 = {PENDING} RETURNING x.id
    ), l AS (
      {LEDGER}
      SELECT n.id, {CLOCK}, NULL, n.seq, n.workspace_id, {kind(Event.UNIT_TERMINAL)}, {AWAITING}, '', NULL,
        jsonb_build_object('status', {{words}}, 'items', n.total, 'completed', n.answered, 'failed', n.failed,
          'expired', n.expired) FROM n
    )
    SELECT x.id, false FROM x UNION ALL SELECT n.id, true FROM n WHERE n.lines
""").replace(
    "{words}",
    "CASE n.status " + " ".join(f"WHEN {code} THEN '{status}'" for status, code in UNIT_CODES.items()) + " END",
)

_DUE = compact(f"""
    SELECT x.id FROM holdpoint_interaction x
    WHERE x.status = {PENDING} AND x.item AND x.deadline IS NOT NULL AND x.deadline <= {NOW}
    ORDER BY x.deadline, x.id LIMIT %(limit)s
""")


def complete_items(
    db: BaseDatabaseWrapper,
    answers: Sequence[ItemAnswer],
    *,
    actor: str,
    door: str | None = None,
    override: str | None = None,
    lines: bool = True,
) -> Ended:
    """Answer items, whatever units they belong to; each item at most once.

    Items past their deadline come back as `late`: they are for `expire_items`. An answer and its line share a
    transaction; a caller who knows that no unit has `lines` spares it.
    """
    ended = Ended()
    for begin in range(0, len(answers), BATCH):
        batch = answers[begin : begin + BATCH]
        params = {
            "ids": write_plain([one.id for one in batch]),
            "outputs": write_texts([one.output for one in batch]),
            "versions": write_plain([one.version for one in batch]),
            "actors": write_texts([one.actor for one in batch]),
            "actor": actor,
            "door": door,
            "override": override,
        }
        with atomic(db) if lines or listens() else nullcontext():
            rows = fetch(db, _COMPLETE, params)
            start_lines(db, [batch[n - 1].id for n, late, _, _, has_lines in rows if has_lines and not late])
            tell_closed(db, [batch[n - 1].id for n, late, _, _, _ in rows if not late])
        for n, late, closes, unit, _ in rows:
            if late:
                ended.late.append(batch[n - 1].id)
                continue
            ended.how[batch[n - 1].id] = InteractionStatus.COMPLETED
            if unit is not None:
                (ended.closed if closes else ended.filling).add(unit)
    ended.filling -= ended.closed
    return ended


def fail_items(
    db: BaseDatabaseWrapper, failures: Sequence[ItemFailure], *, actor: str, door: str | None = None
) -> Ended:
    """End items as failed."""
    reasons = {one.id: one.reason for one in failures}
    return _end(db, reasons, InteractionStatus.FAILED, actor=actor, door=door)


def expire_items(db: BaseDatabaseWrapper, ids: Iterable[UUID], *, actor: str = "", door: str | None = None) -> Ended:
    """End items whose deadline has passed; of the others nothing changes."""
    return _end(db, dict.fromkeys(ids, None), InteractionStatus.EXPIRED, actor=actor, door=door)


def list_due_items(db: BaseDatabaseWrapper, limit: int = BATCH) -> list[UUID]:
    """Items whose deadline has passed, the oldest first."""
    return [id for (id,) in fetch(db, _DUE, {"limit": limit})]


def cancel_units(db: BaseDatabaseWrapper, units: Iterable[UUID]) -> list[UUID]:
    """End units of items with their instance; what was cancelled. Within a transaction.

    Their lines end before them, as instances are locked before items. A line that was written by somebody who held the
    unit, or was retried, is seen only when the unit is ours; after that none can begin.
    """
    from workflows.store.instance_tree import cancel_lines

    ids = write_plain(list(units))
    asked = cancel_lines(db, ids)
    lock_items(db, [id for (id,) in fetch(db, _LEFT, {"units": ids})])
    rows = fetch(db, _CANCEL, {"units": ids})
    if lined := [id for id, has_lines in rows if has_lines]:
        asked += cancel_lines(db, write_plain(lined))
    return [*asked, *(id for id, has_lines in rows if not has_lines)]


def _end(
    db: BaseDatabaseWrapper,
    reasons: dict[UUID, str | None] | dict[UUID, str],
    how: Literal[InteractionStatus.FAILED, InteractionStatus.EXPIRED],
    *,
    actor: str,
    door: str | None,
) -> Ended:
    """Items that end badly, and with them their units, if their policy says so.

    Then all that is left of the unit is locked first, in the order of ids, so that two such ends, an answer and a
    cancellation wait for each other in one direction only.
    """
    ended = Ended()
    ids = sorted(reasons)
    for begin in range(0, len(ids), BATCH):
        batch = ids[begin : begin + BATCH]
        with atomic(db):
            policies = fetch(db, _POLICIES, {"ids": write_plain(batch)})
            broken = [unit for unit, policy in policies if policy == ItemPolicy.FAIL]
            left = fetch(db, _LEFT, {"units": write_plain(broken)}) if broken else []
            lock_items(db, {*batch, *(id for (id,) in left)})
            rows = fetch(
                db,
                _END,
                {
                    "ids": write_plain(batch),
                    "reasons": write_texts([reasons[id] for id in batch]),
                    "how": INTERACTION_CODES[how],
                    "word": how.value,
                    "actor": actor,
                    "door": door,
                },
            )
            tell_closed(db, [id for id, *_ in rows])
        one = Ended()
        for id, unit, over, fills, sibling in rows:
            if sibling:
                one.cancelled.append(id)
                continue
            one.how[id] = how
            if over:
                one.closed.add(unit)
            elif fills:
                one.filling.add(unit)
        ended.add(one)
    return ended


def lock_items(db: BaseDatabaseWrapper, ids: Iterable[UUID]) -> None:
    if ids := sorted(ids):
        params: dict[str, Any] = {"ids": write_plain(ids)}
        fetch(db, _LOCK, params)
