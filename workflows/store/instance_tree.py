"""What an operator does to instances that stand still or run: cancel (with all children) and retry.

Invariants owned: a cancelled tree is cancelled in one transaction; a parent counts a child once; a
failed instance comes back only while nobody else took its place.
"""

from __future__ import annotations

from typing import Any

from django.db import IntegrityError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.lifecycle import FIRST_TERMINAL, Event
from workflows.store.channel_closing import listens, tell_closed, where_models_write
from workflows.store.checkpoints import forget_failed
from workflows.store.items.line_ends import end_lines, reopen_line
from workflows.store.question_failure import revive_questions
from workflows.store.questions import close_questions
from workflows.store.sql import (
    AWAITING_CHILDREN,
    CANCELLED,
    CLOCK,
    FAILED,
    LEDGER,
    LIVE,
    NOTIFY_IDLE,
    RUNNABLE,
    atomic,
    becoming,
    compact,
    fetch,
    kind,
    retrying,
)
from workflows.store.targets import FORMS, Address, target_sql

_FIND = {form: f"SELECT i.id, i.parent_id FROM holdpoint_instance i WHERE {target_sql(form)}" for form in FORMS}

_ENDED = f"SELECT id FROM holdpoint_instance WHERE id = ANY(%(ids)s::uuid[]) AND status >= {FIRST_TERMINAL}"

#: Whether it waits for anything that has a row of its own.
_ASKS = "asked > 0 OR starts_with(names[1], 'holdpoint:event:')"

_LOCK = compact(f"""
    SELECT id, status, {_ASKS} FROM holdpoint_instance
    WHERE id = ANY(%(ids)s::uuid[]) ORDER BY id FOR NO KEY UPDATE
""")

#: One index look-up per node, whatever PostgreSQL expects of a recursion: it would rather read the table.
_DESCENDANTS = compact(f"""
    WITH RECURSIVE tree AS (
      SELECT i.id, i.status FROM unnest(%(roots)s::uuid[]) v(id) CROSS JOIN LATERAL (
        SELECT i.id, i.status FROM holdpoint_instance i WHERE i.parent_id = v.id OFFSET 0) i
      UNION ALL SELECT i.id, i.status FROM tree CROSS JOIN LATERAL (
        SELECT i.id, i.status FROM holdpoint_instance i WHERE i.parent_id = tree.id OFFSET 0) i
    )
    SELECT id FROM tree WHERE {LIVE}
""")

#: Raising the fence makes whatever a worker is doing with these rows void. Only the root's parent is
#: counted down: every other parent in the tree ends in the same statement.
_CANCEL = compact(f"""
    WITH u AS (
      UPDATE holdpoint_instance i SET fence = i.fence + 1, seq = i.seq + 1, error = %(reason)s::text,
        {becoming(CANCELLED, "NULL")}
      WHERE i.id = ANY(%(ids)s::uuid[]) AND i.{LIVE}
      RETURNING i.id, i.seq, i.workspace_id, i.status, i.parent_id, i.spawn_no, i.unit_id
    ), l AS (
      {LEDGER}
      SELECT id, {CLOCK}, NULL, seq, workspace_id, {kind(Event.CANCELLED)}, status, %(actor)s::text, NULL,
        to_jsonb(nullif(%(reason)s::text, '')) FROM u
    ), p AS (
      UPDATE holdpoint_instance i SET pending = i.pending - 1, seq = i.seq + 1,
        {
    becoming(
        f"CASE WHEN i.status = {AWAITING_CHILDREN} AND i.pending = 1 THEN {RUNNABLE} ELSE i.status END",
        f"CASE WHEN i.status = {AWAITING_CHILDREN} AND i.pending = 1 THEN {CLOCK} ELSE i.due_at END",
    )
}
      FROM u WHERE u.id = %(root)s::uuid AND u.spawn_no = i.spawns AND i.id = u.parent_id AND i.{LIVE}
      RETURNING i.id, i.seq, i.workspace_id, i.status
    ), pl AS (
      {LEDGER}
      SELECT id, {CLOCK}, NULL, seq, workspace_id, {kind(Event.CHILD_ENDED)}, status, '', NULL, '1'::jsonb FROM p
    )
    SELECT u.id, u.unit_id, {NOTIFY_IDLE} FROM u
""")

_LINES = compact(f"""
    SELECT i.id FROM unnest(%(units)s::uuid[]) v(id) CROSS JOIN LATERAL (
      SELECT i.id FROM holdpoint_instance i WHERE i.unit_id = v.id AND i.{LIVE} OFFSET 0) i
""")
#: Why a line is cancelled that nobody waits for.
UNWANTED = "nobody waits for its item any more"

_REOPEN = compact(f"""
    WITH u AS (
      UPDATE holdpoint_instance i SET attempt = 0, runs = 0, error = NULL, traceback = NULL, failed_call = NULL,
        seq = i.seq + 1, slot = NULL, slots = NULL, lane = CASE WHEN i.lane < 0 THEN ~i.lane ELSE i.lane END,
        {becoming(RUNNABLE, CLOCK)}
      WHERE i.id = %(id)s::uuid AND i.status = {FAILED} AND i.spawn_no IS NULL
      RETURNING i.id, i.seq, i.workspace_id, i.status, i.step, i.unit_id,
        coalesce(starts_with(i.names[1], 'holdpoint:unit:'), false) AND i.inbox > 0 AS heard
    ), l AS (
      {LEDGER}
      SELECT id, {CLOCK}, NULL, seq, workspace_id, {kind(Event.REOPENED)}, status, %(actor)s::text, step, NULL FROM u
    )
    SELECT u.unit_id, u.heard, {NOTIFY_IDLE} FROM u
""")


class _Over(Exception):
    """Nobody waits for the line any more: what was written goes back."""


def find_ended(db: BaseDatabaseWrapper, ids: list[Any]) -> list[Any]:
    """Which of these instances have ended."""
    return [id for (id,) in fetch(db, _ENDED, {"ids": ids})]


def find_instance(db: BaseDatabaseWrapper, to: Address) -> tuple[Any, Any] | None:
    """The id and the parent of the addressed instance, whatever its status (a key means a live one)."""
    rows = fetch(db, _FIND[to.form], {"ws": to.workspace, "target": to.value})
    return (rows[0][0], rows[0][1]) if rows else None


def cancel_tree(db: BaseDatabaseWrapper, root: Any, parent: Any, *, reason: str, actor: str) -> bool:
    """Cancel an instance and everything below it; False when it had ended already."""
    if not listens():
        return retrying(db, lambda: _cancel_once(db, root, parent, reason, actor))

    def cancel() -> bool:
        with where_models_write(db) as writer:
            return _cancel_once(writer, root, parent, reason, actor)

    return retrying(connections[db.alias], cancel)


def _cancel_once(db: BaseDatabaseWrapper, root: Any, parent: Any, reason: str, actor: str) -> bool:
    with atomic(db):
        ids = {root} | ({parent} if parent else set())
        locked: set[Any] = set()
        # A running descendant may spawn more until its row is locked: look again after every locking.
        while ids - locked:
            rows = fetch(db, _LOCK, {"ids": sorted(ids)})
            statuses = {id: status for id, status, _ in rows}
            if statuses.get(root, FIRST_TERMINAL) >= FIRST_TERMINAL:
                return False
            locked = set(ids)
            ids |= {row[0] for row in fetch(db, _DESCENDANTS, {"roots": [root]})}
        params = {"ids": sorted(ids - {parent}), "root": root, "reason": reason, "actor": actor}
        cancelled = fetch(db, _CANCEL, params)
        closed = list[Any]()
        if asking := [id for id, _, asks in rows if asks and id != parent]:
            closed += close_questions(db, asking)
        if any(id == root and unit is not None for id, unit, _ in cancelled):
            closed += end_lines(db, [root], [root])[1]  # the line of an item: its unit counts it
        tell_closed(db, closed)
    return True


def cancel_lines(db: BaseDatabaseWrapper, units: str) -> list[Any]:
    """Cancel what the lines of these units still do, and whatever they have begun; the interactions that were closed.

    Within a transaction, for units that nobody waits for any more: they count nothing.
    """
    roots = {id for (id,) in fetch(db, _LINES, {"units": units})}
    ids, locked = set(roots), set[Any]()
    rows: list[tuple[Any, ...]] = []
    while ids - locked:
        rows = fetch(db, _LOCK, {"ids": sorted(ids)})
        locked = set(ids)
        ids |= {row[0] for row in fetch(db, _DESCENDANTS, {"roots": sorted(roots)})}
    if not ids:
        return []
    fetch(db, _CANCEL, {"ids": sorted(ids), "root": None, "reason": UNWANTED, "actor": ""})
    asking = [id for id, _, asks in rows if asks]
    return close_questions(db, asking) if asking else []


def reopen(db: BaseDatabaseWrapper, id: Any, *, actor: str) -> bool:
    """failed -> runnable; False when it is not failed, is a counted child, or its key is taken."""
    try:
        with atomic(db):
            reopened = fetch(db, _REOPEN, {"id": id, "actor": actor})
            if not reopened:
                return False
            unit, heard, _ = reopened[0]
            if heard:  # of its question, which may have failed
                revive_questions(db, id)
            forget_failed(db, id)
            if unit is not None and not reopen_line(db, unit, id, actor=actor):
                raise _Over
            return True
    except _Over:
        return False
    except IntegrityError:
        # The partial unique index on the key: another live instance took the place.
        return False
