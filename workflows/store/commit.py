"""Committing outcomes: a whole batch in one statement, every row fenced.

Invariants owned:

* `ok` is the fence. State, inbox, ledger and parent all join it, so a stale worker's row changes
  nothing at all. Rows that were applied come back; the engine treats the missing ones.
* No wake-up is lost between parking and delivering. A single statement cannot see a signal that was
  committed after it began, not even after waiting for the row's lock: every other table is read from
  the old snapshot. So a park carries the inbox counter of its claim; where the counter has moved the
  park is not applied, and `commit_locked` repeats it in a transaction that holds the lock first.
* Children and parents are locked in one pass in id order, like everywhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.lifecycle import Event
from workflows.store.claim import Claim
from workflows.store.sql import (
    AWAITING,
    AWAITING_CHILDREN,
    CLOCK,
    DONE,
    FAILED,
    FIRST_TERMINAL,
    LEDGER,
    NOTIFY_IDLE,
    RUNNABLE,
    RUNNING,
    SLEEPING,
    atomic,
    becoming,
    compact,
    fetch,
    kind,
)


class Kind(IntEnum):
    """What a committed row does; the numbers appear in the statement and, offset, as ledger kinds."""

    NEXT = Event.ADVANCED.code
    AWAIT = Event.PARKED.code
    RETRY = Event.RETRIED.code
    DONE = Event.DONE.code
    STOP = Event.FAILED.code
    SPAWN = Event.SPAWNED.code
    RUN_FAILED = Event.RUN_FAILED.code
    PUT_BACK = Event.PUT_BACK.code


@dataclass(slots=True)
class Commit:
    """One instance's outcome, serialised and checked, ready for the statement."""

    claim: Claim
    kind: Kind
    step: str | None = None
    state: str | None = None
    result: str | None = None
    error: str | None = None
    names: tuple[str, ...] | None = None
    #: Seconds until a sleeper goes on, or until a park times out (None: no deadline).
    delay: float | None = None
    #: The signal numbers consumed; for AWAIT those the step was handed, which must not wake it again.
    signals: list[int] = field(default_factory=list)
    solo: bool = False
    children: int = 0


#: Stop closes the inbox by being terminal and consumes nothing, so that `retry` finds its input again.
_CONSUMING = f"{Kind.NEXT:d}, {Kind.DONE:d}, {Kind.SPAWN:d}"
_KEEPING = f"{Kind.RETRY:d}, {Kind.RUN_FAILED:d}, {Kind.PUT_BACK:d}, {Kind.STOP:d}"
_PROGRESS = f"{Kind.NEXT:d}, {Kind.AWAIT:d}, {Kind.DONE:d}, {Kind.SPAWN:d}"

_STATUS = f"""CASE
  WHEN ok.kind = {Kind.DONE:d} THEN {DONE}
  WHEN ok.kind = {Kind.STOP:d} THEN {FAILED}
  WHEN ok.kind = {Kind.SPAWN:d} THEN {AWAITING_CHILDREN}
  WHEN ok.kind = {Kind.AWAIT:d} AND NOT ok.woken THEN {AWAITING}
  WHEN ok.kind <> {Kind.AWAIT:d} AND ok.delay > 0 THEN {SLEEPING}
  ELSE {RUNNABLE} END"""

_DUE = f"""CASE
  WHEN ok.kind IN ({Kind.DONE:d}, {Kind.STOP:d}, {Kind.SPAWN:d}) THEN NULL
  WHEN ok.kind = {Kind.AWAIT:d} AND NOT ok.woken THEN {CLOCK} + ok.delay * interval '1 s'
  WHEN ok.kind = {Kind.AWAIT:d} THEN {CLOCK}
  ELSE {CLOCK} + coalesce(ok.delay, 0) * interval '1 s' END"""

_PARENT_WAKES = f"i.status = {AWAITING_CHILDREN} AND i.pending = d.n"

#: A woken park stamps its ledger row with the names it waited for all the same: the fold reads them.
_COMMIT = compact(f"""
    WITH v AS (
      SELECT * FROM unnest(%(ids)s::uuid[], %(fences)s::int[], %(kinds)s::int[], %(steps)s::text[],
        %(states)s::text[], %(results)s::text[], %(errors)s::text[], %(names)s::text[], %(delays)s::float8[],
        %(inboxes)s::int[], %(handed)s::int[], %(solos)s::bool[], %(children)s::int[])
        v(id, fence, kind, step, state, result, error, names, delay, inbox, handed, solo, children)
    ), k AS (
      SELECT i.id, i.fence, i.status, i.inbox, i.parent_id, i.spawn_no FROM holdpoint_instance i
      WHERE i.id = ANY(%(lock)s::uuid[]) ORDER BY i.id FOR NO KEY UPDATE
    ), q AS (
      SELECT * FROM unnest(%(signal_instances)s::uuid[], %(signal_numbers)s::int[]) q(instance, n)
    ), ok AS MATERIALIZED (
      SELECT v.*, k.parent_id, k.spawn_no, v.names::text[] AS wanted,
        CASE WHEN v.kind = {Kind.AWAIT:d} AND k.inbox > v.handed THEN EXISTS (
          SELECT 1 FROM holdpoint_signal s
          WHERE s.instance_id = k.id AND s.consumed_at IS NULL AND s.name = ANY(v.names::text[])
            AND NOT EXISTS (SELECT 1 FROM q WHERE q.instance = s.instance_id AND q.n = s.n)
        ) ELSE false END AS woken
      FROM v JOIN k ON k.id = v.id AND k.fence = v.fence AND k.status = {RUNNING}
        AND (k.inbox = v.inbox OR v.kind <> {Kind.AWAIT:d})
    ), x AS (
      UPDATE holdpoint_signal s SET consumed_at = {CLOCK}, consumed_by = ok.fence
      FROM q JOIN ok ON ok.id = q.instance AND ok.kind IN ({_CONSUMING})
      WHERE s.instance_id = q.instance AND s.n = q.n AND s.consumed_at IS NULL
    ), u AS (
      UPDATE holdpoint_instance i SET {becoming(_STATUS, _DUE)},
        step = coalesce(ok.step, i.step), state = coalesce(ok.state::jsonb, i.state), result = ok.result::jsonb,
        error = ok.error, seq = i.seq + 1, solo = ok.solo,
        names = CASE WHEN ok.kind = {Kind.AWAIT:d} THEN ok.wanted WHEN ok.kind IN ({_KEEPING}) THEN i.names END,
        timed_out = i.timed_out AND ok.kind IN ({_KEEPING}),
        attempt = CASE WHEN ok.kind = {Kind.RETRY:d} THEN least(i.attempt + 1, 32767)
          WHEN ok.kind IN ({_PROGRESS}) THEN 0 ELSE i.attempt END,
        runs = CASE ok.kind WHEN {Kind.PUT_BACK:d} THEN i.runs - 1
          WHEN {Kind.RUN_FAILED:d} THEN i.runs WHEN {Kind.STOP:d} THEN i.runs ELSE 0 END,
        inbox = i.inbox - CASE WHEN ok.kind IN ({_CONSUMING}) THEN ok.handed ELSE 0 END,
        pending = CASE WHEN ok.kind = {Kind.SPAWN:d} THEN ok.children ELSE i.pending END,
        spawns = i.spawns + CASE WHEN ok.kind = {Kind.SPAWN:d} THEN 1 ELSE 0 END
      FROM ok WHERE i.id = ok.id
      RETURNING i.id, i.seq, i.workspace_id, i.status, i.due_at, i.step, ok.kind, ok.wanted, ok.parent_id,
        ok.spawn_no, ok.error, ok.children
    ), l AS (
      {LEDGER}
      SELECT u.id, {CLOCK}, CASE WHEN u.status IN ({AWAITING}, {SLEEPING}) THEN u.due_at END, u.seq, u.workspace_id,
        u.kind, u.status, '', CASE WHEN u.status < {FIRST_TERMINAL} THEN u.step END,
        coalesce(to_jsonb(u.wanted), to_jsonb(u.error), CASE WHEN u.children > 0 THEN to_jsonb(u.children) END) FROM u
    ), p AS (
      UPDATE holdpoint_instance i SET pending = i.pending - d.n, seq = i.seq + 1,
        {becoming(
            f"CASE WHEN {_PARENT_WAKES} THEN {RUNNABLE} ELSE i.status END",
            f"CASE WHEN {_PARENT_WAKES} THEN {CLOCK} ELSE i.due_at END",
        )}
      FROM (
        SELECT u.parent_id, count(*)::int AS n FROM u
        WHERE u.spawn_no IS NOT NULL AND u.status >= {FIRST_TERMINAL} GROUP BY 1
      ) d WHERE i.id = d.parent_id AND i.status < {FIRST_TERMINAL}
      RETURNING i.id, i.seq, i.workspace_id, i.status, d.n
    ), pl AS (
      {LEDGER}
      SELECT p.id, {CLOCK}, NULL, p.seq, p.workspace_id, {kind(Event.CHILD_ENDED)}, p.status, '', NULL,
        to_jsonb(p.n) FROM p
    )
    SELECT u.id::text FROM u
""")

_LOCK = compact(
    "SELECT id::text, fence, status, inbox FROM holdpoint_instance "
    "WHERE id = ANY(%(lock)s::uuid[]) ORDER BY id FOR NO KEY UPDATE"
)

_NOTIFY = f"SELECT {NOTIFY_IDLE}"


def commit(db: BaseDatabaseWrapper, commits: Sequence[Commit]) -> set[str]:
    """Apply a batch in one statement; the ids that were applied come back.

    A missing id was either lost to another worker, or a park whose inbox has changed since the claim:
    `commit_locked` tells them apart.
    """
    numbers = [n for one in commits for n in one.signals]
    rows = fetch(
        db,
        _COMMIT,
        {
            "ids": [one.claim.id for one in commits],
            "fences": [one.claim.fence for one in commits],
            "kinds": [int(one.kind) for one in commits],
            "steps": [one.step for one in commits],
            "states": [one.state for one in commits],
            "results": [one.result for one in commits],
            "errors": [one.error for one in commits],
            "names": [_array_text(one.names) for one in commits],
            "delays": [one.delay for one in commits],
            "inboxes": [one.claim.inbox for one in commits],
            "handed": [len(one.signals) for one in commits],
            "solos": [one.solo for one in commits],
            "children": [one.children for one in commits],
            "signal_instances": [one.claim.id for one in commits for _ in one.signals],
            "signal_numbers": numbers,
            "lock": _lock_order(commits),
        },
    )
    return {row[0] for row in rows}


def commit_locked(db: BaseDatabaseWrapper, commits: Sequence[Commit]) -> set[str]:
    """Apply outcomes under locks taken first, so that the inbox is read as it now is."""
    with atomic(db):
        inboxes = {row[0]: row[3] for row in fetch(db, _LOCK, {"lock": _lock_order(commits)})}
        for one in commits:
            one.claim.inbox = inboxes.get(one.claim.id, one.claim.inbox)
        return commit(db, commits)


def lock_claim(db: BaseDatabaseWrapper, claim: Claim) -> bool:
    """Lock the instance and say whether the claim still holds; for work that ends in `commit`."""
    rows = fetch(db, _LOCK, {"lock": [claim.id]})
    return bool(rows) and rows[0][1] == claim.fence and rows[0][2] == RUNNING


def wake_idle_worker(db: BaseDatabaseWrapper) -> None:
    """Tell one listening worker, if there is one, that something became runnable."""
    fetch(db, _NOTIFY, {})


def _lock_order(commits: Sequence[Commit]) -> list[str]:
    ids = {one.claim.id for one in commits}
    ids.update(
        one.claim.parent for one in commits if one.claim.parent and one.kind in (Kind.DONE, Kind.STOP)
    )
    return sorted(ids)


def _array_text(names: tuple[str, ...] | None) -> str | None:
    """A text[] literal: unnest would flatten an array of arrays."""
    if names is None:
        return None
    quoted = ('"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"' for name in names)
    return "{" + ",".join(quoted) + "}"
