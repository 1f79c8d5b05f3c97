"""Questions that are to be sent: which are due, who sends them, what became of it.

Invariants owned:

* A question is leased by moving its `dispatch_at` ahead and counting the try, so no transaction is open while it is
  sent; a sender that dies loses nothing, because the moment comes again.
* A failure is written down only by the try that it is of. A success stands, whoever tries again meanwhile.
* What is closed is not sent: the index has pending ones only.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.lifecycle import CARDINALITY_CODES, INTERACTION_CODES, Event, InteractionStatus
from workflows.store.sql import (
    AWAITING,
    CLOCK,
    LEDGER,
    NOW,
    atomic,
    compact,
    fetch,
    kind,
    retrying,
    write_plain,
    write_texts,
)

PENDING = INTERACTION_CODES[InteractionStatus.PENDING]
_CARDINALITY_OF = {code: one for one, code in CARDINALITY_CODES.items()}

#: As the partial index has it.
_WAITS = f"x.status = {PENDING} AND x.dispatch_at IS NOT NULL"

#: The head of the index for each channel: a minimum over all of them would read every entry.
_NEXT = compact(f"""
    SELECT extract(epoch FROM min(o.dispatch_at) - {CLOCK})::float8 FROM unnest(%(channels)s::text[]) v(channel)
    CROSS JOIN LATERAL (SELECT x.dispatch_at FROM holdpoint_interaction x WHERE x.channel = v.channel AND {_WAITS}
      ORDER BY x.dispatch_at LIMIT 1) o
""")

#: Two senders take different rows. A row that changes while it is being locked is left to the next look.
_LEASE = compact(f"""
    WITH c AS MATERIALIZED (
      SELECT x.id FROM holdpoint_interaction x
      WHERE x.channel = %(channel)s AND {_WAITS} AND x.dispatch_at <= {NOW}
      ORDER BY x.dispatch_at, x.id LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
    ), u AS (
      UPDATE holdpoint_interaction x SET dispatch_at = {CLOCK} + %(lease)s * interval '1 s', tries = x.tries + 1
      FROM c CROSS JOIN LATERAL (SELECT o.ctid FROM holdpoint_interaction o WHERE o.id = c.id OFFSET 0) o
      WHERE x.ctid = o.ctid
      RETURNING x.id, x.unit_id, x.instance_id, x.workspace_id, x.index, x.item, x.channel, x.signal_id, x.tries,
        x.created_at, x.deadline, coalesce(x.deadline <= {NOW}, false) AS late, x.correlation_id, x.assignee,
        x.group_name, x.token_key, x.request::text, x.schema::text, x.config::text
    )
    SELECT u.*, n.total, n.visit, n.step, n.cardinality, i.workflow, w.slug FROM u
    CROSS JOIN LATERAL (SELECT o.total, o.visit, o.step, o.cardinality FROM holdpoint_unit o
      WHERE o.id = u.unit_id OFFSET 0) n
    CROSS JOIN LATERAL (SELECT o.workflow FROM holdpoint_instance o WHERE o.id = u.instance_id OFFSET 0) i
    CROSS JOIN LATERAL (SELECT o.slug FROM holdpoint_workspace o WHERE o.id = u.workspace_id OFFSET 0) w
    ORDER BY u.id
""")

#: Held by whoever completes them, for a moment. The next statement sees what came of it.
_LOCK = compact("""
    SELECT x.id FROM holdpoint_interaction x WHERE x.id = ANY(%(ids)s::uuid[]) ORDER BY x.id FOR NO KEY UPDATE
""")

#: After the interactions, as everywhere.
_LOCK_UNITS = compact("""
    SELECT n.id FROM holdpoint_unit n WHERE n.id IN (
      SELECT x.unit_id FROM holdpoint_interaction x WHERE x.id = ANY(%(ids)s::uuid[]) AND x.dispatched_at IS NULL)
    ORDER BY n.id FOR NO KEY UPDATE
""")

#: What went out for the first time is a row in the history of its unit, with the moment at which it was written down.
#: A single question is all that its unit has to send.
_RECORD = compact(f"""
    WITH x AS (
    UPDATE holdpoint_interaction x SET dispatch_error = v.error,
      tries = x.tries - CASE WHEN v.counts THEN 0 ELSE 1 END,
      dispatched_at = CASE WHEN v.sent THEN coalesce(x.dispatched_at, {CLOCK}) ELSE x.dispatched_at END,
      dispatch_at = CASE WHEN v.sent THEN NULL ELSE coalesce({CLOCK} + v.delay * interval '1 s', x.dispatch_at) END
    FROM unnest(%(ids)s::uuid[], %(tries)s::int[], %(sent)s::bool[], %(counts)s::bool[], %(delays)s::float8[],
      %(errors)s::text[]) v(id, tries, sent, counts, delay, error)
    CROSS JOIN LATERAL (SELECT o.ctid, o.dispatched_at IS NULL AS waits FROM holdpoint_interaction o
      WHERE o.id = v.id OFFSET 0) o
    WHERE x.ctid = o.ctid AND (v.sent OR x.tries = v.tries)
    RETURNING x.id, x.unit_id, x.index, x.item, x.channel, x.tries, x.dispatched_at AS at, v.sent AND o.waits AS out
    ), g AS (
      SELECT x.unit_id, count(*)::int AS n, bool_and(x.item) AS items FROM x WHERE x.out GROUP BY 1
    ), u AS (
      UPDATE holdpoint_unit n SET seq = n.seq + g.n + (NOT g.items)::int FROM g WHERE n.id = g.unit_id
      RETURNING n.id, n.workspace_id, n.seq, n.seq - g.n - (NOT g.items)::int AS was, g.items
    ), l AS (
      {LEDGER}
      SELECT u.id, x.at, NULL, u.was + row_number() OVER (PARTITION BY u.id ORDER BY x.index), u.workspace_id,
        {kind(Event.ITEM_DISPATCHED)}, {AWAITING}, '', NULL,
        jsonb_build_object('interaction', x.id, 'index', x.index, 'channel', x.channel, 'tries', x.tries)
      FROM u, x WHERE x.out AND x.unit_id = u.id
    ), la AS (
      {LEDGER}
      SELECT u.id, x.at, NULL, u.seq, u.workspace_id, {kind(Event.UNIT_DISPATCHED)}, {AWAITING}, '', NULL,
        jsonb_build_object('items', 1) FROM u, x WHERE NOT u.items AND x.out AND x.unit_id = u.id
    )
    SELECT x.id FROM x
""")

#: Also of a question that was closed meanwhile. One that was pruned gets none: its row is locked before this.
_LOG = compact(f"""
    INSERT INTO holdpoint_dispatch(interaction_id, at, ms, number, status, sent, error, response)
    SELECT v.id, {CLOCK}, v.ms, v.tries, v.status, v.sent, v.error, v.response
    FROM unnest(%(ids)s::uuid[], %(tries)s::int[], %(sent)s::bool[], %(errors)s::text[], %(status)s::int[],
      %(ms)s::int[], %(responses)s::text[])
      WITH ORDINALITY v(id, tries, sent, error, status, ms, response, place)
    ORDER BY v.place
""")


@dataclass(frozen=True, slots=True)
class Leased:
    """A question that is this sender's for a while, as its rows have it."""

    id: UUID
    unit: UUID
    instance: UUID
    workspace_id: int
    index: int
    item: bool
    channel: str
    signal_id: str
    tries: int
    created_at: datetime
    deadline: datetime | None
    late: bool
    correlation_id: str | None
    assignee: str | None
    group: str | None
    token_key: str | None
    request: Any
    schema: Any
    config: Any
    total: int
    visit: int
    step: str
    cardinality: str
    workflow: str
    workspace: str


@dataclass(frozen=True, slots=True)
class Tried:
    """What became of one try: it was sent, or it is tried again after `delay` seconds.

    Without a delay never: then its lease stays, for whoever ends the question to be followed up.
    """

    id: UUID
    tries: int
    sent: bool
    #: Whether it was a try at all; not, where there was nothing to send it by.
    counts: bool = True
    delay: float | None = None
    error: str | None = None
    #: What the delivery log is told; only of channels that keep one.
    logged: bool = False
    status: int | None = None
    ms: int | None = None
    response: str = ""

    @property
    def is_final(self) -> bool:
        """Whether the question can be sent no more."""
        return not self.sent and self.delay is None


_COLUMNS = [one.name for one in fields(Leased)]
_JSON = [_COLUMNS.index(name) for name in ("request", "schema", "config")]
_CARDINALITY = _COLUMNS.index("cardinality")


def seconds_to_dispatch(db: BaseDatabaseWrapper, channels: Sequence[str]) -> float | None:
    """Seconds until one of these channels has something to send; None when there is nothing."""
    found: float | None = fetch(db, _NEXT, {"channels": list(channels)})[0][0]
    return found


def lease_questions(db: BaseDatabaseWrapper, channel: str, limit: int, lease: float) -> list[Leased]:
    """Take up what is due to be sent, for so many seconds."""
    rows = retrying(db, lambda: fetch(db, _LEASE, {"channel": channel, "limit": limit, "lease": lease}))
    return [_read(row) for row in rows]


def record_tries(db: BaseDatabaseWrapper, tried: Sequence[Tried]) -> set[UUID]:
    """Write down what became of these; those whose row says so now."""
    if not tried:
        return set()
    ordered = sorted(tried, key=lambda one: one.id)
    params = _list_values(ordered)

    def work() -> set[UUID]:
        with atomic(db):
            there = {id for (id,) in fetch(db, _LOCK, {"ids": params["ids"]})}
            fetch(db, _LOCK_UNITS, {"ids": params["ids"]})
            recorded = {id for (id,) in fetch(db, _RECORD, params)}
            if logged := [one for one in ordered if one.logged and one.id in there]:
                fetch(db, _LOG, _list_values(logged), rows=False)
            return recorded

    return retrying(db, work)


def _list_values(tried: Sequence[Tried]) -> dict[str, str]:
    return {
        "ids": write_plain([one.id for one in tried]),
        "tries": write_plain([one.tries for one in tried]),
        "sent": write_plain([one.sent for one in tried]),
        "counts": write_plain([one.counts for one in tried]),
        "delays": write_plain([one.delay for one in tried]),
        "errors": write_texts([one.error for one in tried]),
        "status": write_plain([one.status for one in tried]),
        "ms": write_plain([one.ms for one in tried]),
        "responses": write_texts([one.response for one in tried]),
    }


def _read(row: tuple[Any, ...]) -> Leased:
    values = list(row)
    for place in _JSON:
        values[place] = None if values[place] is None else json.loads(values[place])
    values[_CARDINALITY] = _CARDINALITY_OF[values[_CARDINALITY]]
    return Leased(*values)
