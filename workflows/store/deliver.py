"""Delivering signals: lock the instance, store the signal, wake it if it waits for that name.

Invariants owned:

* An accepted signal is a row of a live instance. Everything hangs on the lock of that row (`t`), which
  re-reads the newest version after waiting: a target that ended meanwhile yields no row, nothing is
  stored.
* A dedup key is used once per instance, for its whole life. The unique index decides, not a snapshot.
* A signal that its workflow can never read is not stored. Which those are the caller says; of a workflow that it does
  not know nothing is said.
* The UPDATE is unconditional and decides in a CASE. Guarded by `WHERE status = awaiting` it would not
  wait for a worker that is just parking the instance, and the wake-up would be lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.lifecycle import FIRST_TERMINAL, Event
from workflows.store.sql import (
    AWAITING,
    CLOCK,
    LEDGER,
    LIVE,
    NOTIFY_IDLE,
    RUNNABLE,
    becoming,
    compact,
    fetch,
    kind,
    write_plain,
    write_texts,
)
from workflows.store.targets import FORMS, Address, address_kind, target_sql, workspace_sql


@dataclass(slots=True)
class Delivered:
    """What became of one signal: its instance and number there, or the workflow that can never read it."""

    instance: Any
    n: int
    duplicate: bool
    woke: bool
    deaf: str | None = None


_DEAF = "CASE WHEN i.workflow || ':' || i.version = ANY(%(deaf)s::text[]) THEN i.workflow END"
_HITS = f"(i.status = {AWAITING} AND %(name)s::text = ANY(i.names))"
_WAKES = f"CASE WHEN {{wakes}} THEN {RUNNABLE} ELSE i.status END"
_WAKES_DUE = f"CASE WHEN {{wakes}} THEN {CLOCK} ELSE i.due_at END"

_DELIVER = {
    form: compact(f"""
    WITH t AS (
      SELECT i.id, i.seq, i.workspace_id, {_HITS} AS wakes, {_DEAF} AS deaf
      FROM holdpoint_instance i WHERE {target_sql(form)} AND i.{LIVE} FOR NO KEY UPDATE
    ), s AS (
      INSERT INTO holdpoint_signal(instance_id, received_at, n, workspace_id, name, dedup_key, source, payload)
      SELECT t.id, {CLOCK}, t.seq + 1, t.workspace_id, %(name)s::text, %(dedup)s::text, %(source)s::text,
        %(payload)s::jsonb FROM t WHERE t.deaf IS NULL
      ON CONFLICT (instance_id, dedup_key) WHERE dedup_key IS NOT NULL DO NOTHING RETURNING n, instance_id
    ), u AS (
      UPDATE holdpoint_instance i SET inbox = i.inbox + 1, seq = s.n,
        {becoming(_WAKES.format(wakes=_HITS), _WAKES_DUE.format(wakes=_HITS))}
      FROM s WHERE i.id = s.instance_id RETURNING i.id, i.workspace_id, i.status, s.n
    ), l AS (
      {LEDGER}
      SELECT u.id, {CLOCK}, NULL, u.n, u.workspace_id, {kind(Event.SIGNALLED)}, u.status, %(source)s::text,
        %(name)s::text, NULL FROM u
    )
    SELECT t.id, u.n, t.wakes, t.deaf, CASE WHEN t.wakes AND u.n > 0 THEN {NOTIFY_IDLE} END FROM t LEFT JOIN u ON true
    """)
    for form in FORMS
}

#: A duplicate, told by a snapshot of its own: the first delivery may have committed while we waited.
#: By id this also finds the signals of an instance that has ended.
_FIRST = {
    form: compact(f"""
    SELECT i.id, s.n FROM holdpoint_instance i
    JOIN holdpoint_signal s ON s.instance_id = i.id AND s.dedup_key = %(dedup)s::text WHERE {target_sql(form)}
    """)
    for form in FORMS
}

#: The first delivery of a dedup key to whoever had the correlation key before and has ended.
_PAST = {
    by: compact(f"""
    SELECT i.id, s.n FROM holdpoint_instance i CROSS JOIN LATERAL (
      SELECT s.n FROM holdpoint_signal s WHERE s.instance_id = i.id AND s.dedup_key = %(dedup)s::text OFFSET 0) s
    WHERE i.workspace_id = {workspace_sql(by)} AND i.key = %(target)s::text AND i.status >= {FIRST_TERMINAL}
    ORDER BY i.id LIMIT 1
    """)
    for by in ("id", "slug")
}

#: Lines of one instance are numbered in the caller's order; rows are locked in id order, as everywhere.
#: Two things keep the plan right whatever PostgreSQL believes. The cross join yields one row but counts
#: as a hundred: a cached plan then expects a thousand lines, not ten, and does not compare every line
#: with every other. And locking inside LATERAL means one index look-up per line, never a scan.
_DELIVER_MANY = {
    by: compact(f"""
    WITH v AS (
      SELECT v.*, row_number() OVER (PARTITION BY v.id ORDER BY v.ord) AS rn
      FROM unnest(%(ids)s::uuid[], %(names)s::text[], %(dedups)s::text[], %(payloads)s::text[])
        WITH ORDINALITY v(id, name, dedup, payload, ord) CROSS JOIN jsonb_array_elements('[0]') expected
    ), t AS (
      SELECT v.id, v.ord, v.name, v.dedup, v.payload, i.seq + v.rn AS n, i.status, i.workspace_id,
        i.status = {AWAITING} AND v.name = ANY(i.names) AS hits, {_DEAF} AS deaf
      FROM (SELECT * FROM v ORDER BY id, ord) v CROSS JOIN LATERAL (
        SELECT i.seq, i.status, i.workspace_id, i.names, i.workflow, i.version FROM holdpoint_instance i
        WHERE i.id = v.id AND i.workspace_id = {workspace_sql(by)} AND i.{LIVE} FOR NO KEY UPDATE
      ) i
    ), s AS (
      INSERT INTO holdpoint_signal(instance_id, received_at, n, workspace_id, name, dedup_key, source, payload)
      SELECT t.id, {CLOCK}, t.n, t.workspace_id, t.name, t.dedup, %(source)s::text, t.payload::jsonb FROM t
      WHERE t.deaf IS NULL
      ON CONFLICT (instance_id, dedup_key) WHERE dedup_key IS NOT NULL DO NOTHING RETURNING instance_id, n
    ), got AS MATERIALIZED (
      SELECT t.ord, t.id, t.n, t.name, t.status, t.workspace_id,
        min(t.n) FILTER (WHERE t.hits) OVER (PARTITION BY t.id) AS waker
      FROM s JOIN t ON t.id = s.instance_id AND t.n = s.n
    ), u AS (
      UPDATE holdpoint_instance i SET inbox = i.inbox + g.count, seq = g.top,
        {becoming(_WAKES.format(wakes="g.waker IS NOT NULL"), _WAKES_DUE.format(wakes="g.waker IS NOT NULL"))}
      FROM (SELECT id, count(*)::int AS count, max(n) AS top, min(waker) AS waker FROM got GROUP BY id) g
      WHERE i.id = g.id
    ), l AS (
      {LEDGER}
      SELECT got.id, {CLOCK}, NULL, got.n, got.workspace_id, {kind(Event.SIGNALLED)},
        CASE WHEN got.waker IS NULL THEN got.status ELSE {RUNNABLE} END, %(source)s::text, got.name, NULL FROM got
    )
    SELECT got.ord, got.n, got.n = got.waker, NULL FROM got
    UNION ALL SELECT t.ord, 0, false, t.deaf FROM t WHERE t.deaf IS NOT NULL
    """)
    for by in ("id", "slug")
}

#: They stay the same from signal to signal.
_write_deaf = lru_cache(maxsize=4)(write_texts)

_NOTIFY = f"SELECT {NOTIFY_IDLE}"

_FIRST_MANY = compact("""
    SELECT v.ord, s.n FROM unnest(%(ids)s::uuid[], %(dedups)s::text[]) WITH ORDINALITY v(id, dedup, ord)
    JOIN holdpoint_signal s ON s.instance_id = v.id AND s.dedup_key = v.dedup
    JOIN holdpoint_instance i ON i.id = v.id WHERE i.workspace_id = {ws}
""")

_HOLDERS = {
    by: f"SELECT key, id FROM holdpoint_instance WHERE workspace_id = {workspace_sql(by)} "
    f"AND key = ANY(%(keys)s::text[]) AND {LIVE}"
    for by in ("id", "slug")
}


def deliver(
    db: BaseDatabaseWrapper,
    to: Address,
    name: str,
    payload: str,
    *,
    dedup: str | None,
    source: str,
    deaf: tuple[str, ...] = (),
) -> Delivered | None:
    """Deliver one signal; None when there is no live target. One statement, but for the rare misses."""
    params = {
        "ws": to.workspace,
        "target": to.value,
        "name": name,
        "payload": payload,
        "dedup": dedup,
        "source": source,
        "deaf": _write_deaf(deaf),
    }
    # A key whose holder ended while we waited for its lock may have been taken again meanwhile: the
    # statement then finds nothing in its old snapshot, and only a second one sees the new holder.
    for _ in range(2 if to.by == "key" else 1):
        rows = fetch(db, _DELIVER[to.form], params)
        if rows and rows[0][1] is not None:
            return Delivered(rows[0][0], rows[0][1], duplicate=False, woke=rows[0][2])
        if rows and rows[0][3] is not None:
            return Delivered(rows[0][0], 0, duplicate=False, woke=False, deaf=rows[0][3])
        if dedup is not None and (first := fetch(db, _FIRST[to.form], params)):
            return Delivered(first[0][0], first[0][1], duplicate=True, woke=False)
    return None


def find_past_signal(db: BaseDatabaseWrapper, to: Address, dedup: str) -> Delivered | None:
    """What an ended instance that had this key took under this dedup key."""
    params = {"ws": to.workspace, "target": to.value, "dedup": dedup}
    rows = fetch(db, _PAST[address_kind(to.workspace)], params)
    return Delivered(rows[0][0], rows[0][1], duplicate=True, woke=False) if rows else None


@dataclass(slots=True)
class SentSignal:
    """One signal of a batch, for an instance whose id is known. Not frozen: making a frozen one costs twice as much."""

    id: str
    name: str
    payload: str
    dedup: str | None


def deliver_many(
    db: BaseDatabaseWrapper,
    lines: Sequence[SentSignal],
    *,
    workspace: str | int,
    source: str,
    deaf: tuple[str, ...] = (),
) -> list[Delivered | None]:
    """Deliver a batch in one statement; the answers are in the order of the lines."""
    by = address_kind(workspace)
    dedups = [line.dedup for line in lines]
    params = {
        "ws": workspace,
        "ids": write_plain([line.id for line in lines]),
        "names": write_texts([line.name for line in lines]),
        "dedups": write_texts(dedups),
        "payloads": write_texts([line.payload for line in lines]),
        "source": source,
        "deaf": _write_deaf(deaf),
    }
    answers: list[Delivered | None] = [None] * len(lines)
    woke_any = False
    for ord_, n, woke, unread_by in fetch(db, _DELIVER_MANY[by], params):
        answers[ord_ - 1] = Delivered(lines[ord_ - 1].id, n, duplicate=False, woke=bool(woke), deaf=unread_by)
        woke_any = woke_any or bool(woke)
    if woke_any:
        fetch(db, _NOTIFY, {})
    if None in answers and any(dedups):
        missed = _FIRST_MANY.format(ws=workspace_sql(by))
        for ord_, n in fetch(db, missed, {key: params[key] for key in ("ws", "ids", "dedups")}):
            if answers[ord_ - 1] is None:
                answers[ord_ - 1] = Delivered(lines[ord_ - 1].id, n, duplicate=True, woke=False)
    return answers


def find_holders(db: BaseDatabaseWrapper, keys: Sequence[str], workspace: str | int) -> dict[str, Any]:
    """The live instances that hold these keys now."""
    by = address_kind(workspace)
    return dict(fetch(db, _HOLDERS[by], {"ws": workspace, "keys": list(keys)}))
