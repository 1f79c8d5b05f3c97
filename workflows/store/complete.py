"""Completing an interaction: the answer, its closing and the one inbox row are one statement.

Invariants owned:

* One winner. The instance row is locked first, then the interaction, whose `status = pending` is checked
  again on its newest version: a second completer, a deadline or a cancellation that came first leaves no row.
* An answer that comes after the deadline is none: the same statement turns it into the expiry, and wakes the
  instance if the sweep has not. Whether it is late is decided by the database's clock under the locks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.lifecycle import CARDINALITY_CODES, INTERACTION_CODES, Event, InteractionStatus
from workflows.store.channel_closing import listens, tell_closed
from workflows.store.outside.stored_answers import Once, Told, read_told
from workflows.store.sql import (
    AWAITING,
    CLOCK,
    LEDGER,
    LIVE,
    NOTIFY_IDLE,
    NOW,
    RUNNABLE,
    RUNNING,
    atomic,
    becoming,
    compact,
    fetch,
    kind,
    write_plain,
    write_texts,
)
from workflows.store.targets import address_kind, workspace_sql

PENDING = INTERACTION_CODES[InteractionStatus.PENDING]
COMPLETED = INTERACTION_CODES[InteractionStatus.COMPLETED]
EXPIRED = INTERACTION_CODES[InteractionStatus.EXPIRED]
_STATUS_OF = {code: status for status, code in INTERACTION_CODES.items()}
_CARDINALITY_OF = {code: one for one, code in CARDINALITY_CODES.items()}


@dataclass(slots=True)  # not frozen, which makes thousands of them slow to fill
class Addressed:
    """An interaction as a completer finds it, before anything is locked."""

    id: UUID
    instance: UUID
    unit: UUID
    workspace: int
    status: InteractionStatus
    version: int
    channel: str
    owned: bool
    signal_id: str
    schema: str | None
    schema_type: str | None
    late: bool
    cardinality: str
    visit: int
    deadline: datetime | None
    projector: str | None
    request: str | None
    body: str
    #: One item of a unit of items, answered without its instance (see `item_ends`); by its number.
    item: bool = False
    index: int = 0
    #: Of an item: whether a line continues its answer.
    lines: bool = False


COLUMNS = f"""x.id, x.instance_id, x.unit_id, x.workspace_id, x.status, x.version, x.channel, x.owned, x.signal_id,
    x.schema::text, x.schema_type, x.status = {PENDING} AND x.deadline <= {NOW}, n.cardinality, n.visit, x.deadline,
    x.projector, CASE WHEN x.projector IS NOT NULL THEN x.request::text END, x.body, x.item, x.index, n.lines"""
FROM = "FROM holdpoint_interaction x JOIN holdpoint_unit n ON n.id = x.unit_id"
_BY_TOKEN = compact(f"SELECT {COLUMNS} {FROM} WHERE x.token_hash = %(hash)s::bytea")

#: A signal id means the pending one, else the latest that had it. Each arm reads one entry of an index.
_MEANT = {
    "id": "%(id)s::uuid",
    "signal_id": f"""coalesce(
      (SELECT o.id FROM holdpoint_interaction o WHERE o.workspace_id = w.id
        AND o.signal_id = %(signal_id)s::text AND o.status = {PENDING}),
      (SELECT o.id FROM holdpoint_interaction o WHERE o.workspace_id = w.id
        AND o.signal_id = %(signal_id)s::text AND o.status <> {PENDING} ORDER BY o.id DESC LIMIT 1))""",
}

#: One row if there is such a workspace: what this call was told the first time, and the interaction. Both from one
#: snapshot, so that whoever sees a question opened after an answer also sees the answer.
_FIND = {
    (by, scope): compact(f"""
    SELECT k.body_hash, k.status, k.body, k.instance_id, k.workflow, f.* FROM (SELECT {workspace_sql(scope)} AS id) w
    LEFT JOIN holdpoint_answer k ON k.workspace_id = w.id AND k.digest = %(digest)s::bytea
    LEFT JOIN LATERAL (
      SELECT {COLUMNS} {FROM} WHERE x.id = {meant} AND x.workspace_id = w.id AND (%(workflows)s::text[] IS NULL
        OR (SELECT i.workflow FROM holdpoint_instance i WHERE i.id = x.instance_id) = ANY(%(workflows)s::text[]))
    ) f ON true
    WHERE w.id IS NOT NULL
    """)
    for by, meant in _MEANT.items()
    for scope in ("id", "slug")
}

#: Many at once, by numbers of their lines: each is looked up by itself, in one snapshot.
_FIND_MANY = {
    (by, scope): compact(f"""
    SELECT v.n, k.body_hash, k.status, k.body, k.instance_id, k.workflow, f.*
    FROM (SELECT {workspace_sql(scope)} AS id) w CROSS JOIN unnest(%(ns)s::int[], %(values)s::{kind}[],
      %(digests)s::text[]) v(n, value, digest)
    LEFT JOIN LATERAL (SELECT * FROM holdpoint_answer k
      WHERE k.workspace_id = w.id AND k.digest = decode(v.digest, 'hex') OFFSET 0) k ON true
    LEFT JOIN LATERAL (
      SELECT {COLUMNS} {FROM} WHERE x.id = {meant} AND x.workspace_id = w.id AND (%(workflows)s::text[] IS NULL
        OR (SELECT i.workflow FROM holdpoint_instance i WHERE i.id = x.instance_id) = ANY(%(workflows)s::text[]))
      OFFSET 0
    ) f ON true
    WHERE w.id IS NOT NULL
    """)
    for by, kind, meant in (
        ("id", "uuid", "v.value"),
        ("signal_id", "text", _MEANT["signal_id"].replace("%(signal_id)s::text", "v.value")),
    )
    for scope in ("id", "slug")
}

_WAKES = f"(m.was = {AWAITING} AND 'holdpoint:unit:' || x.unit_id = ANY(m.names))"

_BECOMES = f"CASE WHEN x.wakes THEN {RUNNABLE} ELSE i.status END"
_BECOMES_DUE = f"CASE WHEN x.wakes THEN {CLOCK} ELSE i.due_at END"

_COMPLETE = compact(f"""
    WITH t AS (
      SELECT i.id, i.seq, i.workspace_id, i.workflow, i.status AS was, i.names FROM holdpoint_instance i
      WHERE i.id = %(instance)s::uuid AND i.{LIVE} FOR NO KEY UPDATE
    ), m AS MATERIALIZED (
      SELECT t.*, {CLOCK} AS at FROM t  -- one moment for status and output, and one that is under the lock
    ), x AS (
      UPDATE holdpoint_interaction x SET closed_at = {CLOCK}, version = x.version + 1, actor = %(actor)s::text,
        status = CASE WHEN x.deadline <= m.at THEN {EXPIRED} ELSE {COMPLETED} END,
        output = CASE WHEN x.deadline <= m.at THEN NULL ELSE %(output)s::jsonb END
      FROM m WHERE x.id = %(id)s::uuid AND x.instance_id = m.id AND x.status + 0 = {PENDING}
        AND x.version = coalesce(%(version)s::int, x.version)
        AND (x.deadline <= m.at OR NOT %(late)s::bool)  -- a late answer was not checked: it can only be refused
      RETURNING x.id, x.unit_id, x.status, x.channel, m.id AS instance_id, m.seq + 1 AS n, m.workspace_id,
        m.workflow,
        'holdpoint:unit:' || x.unit_id AS name, {_WAKES} AS wakes
    ), s AS (
      INSERT INTO holdpoint_signal(instance_id, received_at, n, workspace_id, name, dedup_key, source, payload)
      SELECT x.instance_id, {CLOCK}, x.n, x.workspace_id, x.name, 'holdpoint:interaction:' || x.id, %(actor)s::text,
        %(output)s::jsonb FROM x WHERE x.status = {COMPLETED}
    ), k AS (
      INSERT INTO holdpoint_answer(workspace_id, digest, body_hash, at, instance_id, workflow, status, body)
      SELECT x.workspace_id, %(digest)s::bytea, %(body_hash)s::bytea, {CLOCK}, x.instance_id, x.workflow, 200,
        %(told)s::text
      FROM x WHERE x.status = {COMPLETED} AND %(digest)s::bytea IS NOT NULL
    ), un AS (
      UPDATE holdpoint_unit n SET remaining = n.remaining - 1, status = x.status, closed_at = {CLOCK},
        released_at = {CLOCK} FROM x WHERE n.id = x.unit_id
    ), u AS (
      UPDATE holdpoint_instance i SET seq = x.n,
        inbox = i.inbox + CASE WHEN x.status = {COMPLETED} THEN 1 ELSE 0 END,
        timed_out = i.timed_out OR (x.status = {EXPIRED} AND x.wakes),
        {becoming(_BECOMES, _BECOMES_DUE, may_end=False)}
      FROM x WHERE i.id = x.instance_id
      RETURNING i.id, i.seq, i.workspace_id, i.status, i.step, x.status AS how, x.wakes, x.id AS interaction, x.channel
    ), l AS (
      {LEDGER}
      SELECT u.id, {CLOCK}, NULL, u.seq, u.workspace_id, CASE WHEN u.how = {COMPLETED} THEN {kind(Event.ANSWERED)}
          WHEN u.wakes THEN {kind(Event.TIMED_OUT)} ELSE {kind(Event.REFUSED)} END,
        u.status, %(actor)s::text, CASE WHEN u.how = {EXPIRED} AND u.wakes THEN u.step END,
        jsonb_strip_nulls(jsonb_build_object('interaction', u.interaction, 'channel', u.channel,
          'door', %(door)s::text, 'override', %(override)s::text)) FROM u
    )
    SELECT u.how, CASE WHEN u.status = {RUNNABLE} THEN {NOTIFY_IDLE} END FROM u
""")

_REFUSE = compact(f"""
    WITH u AS (
      UPDATE holdpoint_instance i SET seq = i.seq + 1 WHERE i.id = %(instance)s::uuid
        AND (%(fence)s::int IS NULL OR (i.fence = %(fence)s::int AND i.status = {RUNNING}))
      RETURNING i.id, i.seq, i.workspace_id, i.status
    ), l AS (
    {LEDGER}
    SELECT u.id, {CLOCK}, NULL, u.seq, u.workspace_id, {kind(Event.REFUSED)}, u.status, %(actor)s::text, NULL,
      %(data)s::jsonb FROM u
    ) SELECT u.id FROM u
""")


class AnswerTarget(NamedTuple):
    """What an answer means."""

    #: What the same call was told the first time.
    told: Told | None
    #: The question, if there is one.
    question: Addressed | None


def find_by_token(db: BaseDatabaseWrapper, token_hash: bytes) -> Addressed | None:
    """The interaction that a token was made for; nothing is locked."""
    rows = fetch(db, _BY_TOKEN, {"hash": token_hash})
    return read_addressed(rows[0]) if rows else None


def find_interaction(
    db: BaseDatabaseWrapper,
    by: Literal["id", "signal_id"],
    value: Any,
    *,
    workspace: str | int,
    once: Once | None = None,
    workflows: Sequence[str] | None = None,
) -> AnswerTarget | None:
    """What this call was told the first time, and the interaction it means; None if there is no such workspace."""
    params = {
        by: value,
        "ws": workspace,
        "digest": None if once is None else once.digest,
        "workflows": None if workflows is None else list(workflows),
    }
    rows = fetch(db, _FIND[by, address_kind(workspace)], params)
    if not rows:
        return None
    body_hash, status, body, instance, workflow, *columns = rows[0]
    told = None if body_hash is None else read_told(body_hash, status, body, instance, workflow)
    return AnswerTarget(told, None if columns[0] is None else read_addressed(columns))


def find_interactions(
    db: BaseDatabaseWrapper,
    by: Literal["id", "signal_id"],
    lines: Sequence[tuple[int, Any, Once | None]],
    *,
    workspace: str | int,
    workflows: Sequence[str] | None = None,
) -> dict[int, AnswerTarget]:
    """The same for many lines at once: (number, address, call); nothing if there is no such workspace."""
    write = write_plain if by == "id" else write_texts
    rows = fetch(
        db,
        _FIND_MANY[by, address_kind(workspace)],
        {
            "ns": write_plain([n for n, _, _ in lines]),
            "values": write([value for _, value, _ in lines]),
            "digests": write_texts([None if once is None else once.digest.hex() for _, _, once in lines]),
            "ws": workspace,
            "workflows": None if workflows is None else list(workflows),
        },
    )
    found = {}
    for n, body_hash, status, body, instance, workflow, *columns in rows:
        told = None if body_hash is None else read_told(body_hash, status, body, instance, workflow)
        found[n] = AnswerTarget(told, None if columns[0] is None else read_addressed(columns))
    return found


def read_addressed(columns: Sequence[Any]) -> Addressed:
    row = list(columns)
    row[4], row[11], row[12] = _STATUS_OF[row[4]], bool(row[11]), _CARDINALITY_OF[row[12]]
    return Addressed(*row)


def complete_interaction(
    db: BaseDatabaseWrapper,
    found: Addressed,
    output: str | None,
    *,
    actor: str,
    door: str | None = None,
    override: str | None = None,
    version: int | None = None,
    once: Once | None = None,
    told: str = "",
) -> InteractionStatus | None:
    """Complete or, past its deadline, expire it; None when somebody else came first.

    `told` is kept for `once`, with the completion.
    """
    params = {
        "instance": found.instance,
        "id": found.id,
        "output": output,
        "actor": actor,
        "door": door,
        "override": override,
        "version": version,
        "late": found.late,
        "digest": None if once is None else once.digest,
        "body_hash": None if once is None else once.body_hash,
        "told": told,
    }
    if listens(found.channel):
        with atomic(db):
            if rows := fetch(db, _COMPLETE, params):
                tell_closed(db, [found.id])
    else:
        rows = fetch(db, _COMPLETE, params)
    return _STATUS_OF[rows[0][0]] if rows else None


def record_refusal(db: BaseDatabaseWrapper, instance: Any, *, actor: str, data: str, fence: int | None = None) -> bool:
    """One ledger row: somebody was told no. With a fence only while that claim holds; whether it was written."""
    return bool(fetch(db, _REFUSE, {"instance": instance, "actor": actor, "data": data, "fence": fence}))
