"""Taking something out of the ledger so that what stays still verifies, and says that it was taken out.

Invariants owned: a payload is cleared only together with a row that keeps its digest, and who did it and why; an
instance's history is deleted only together with a row that keeps, for every seal, how many rows it had there and
their digest. Those rows are sealed in their turn, so removing anything leaves a trace that cannot be removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.lifecycle import Event
from workflows.store.ledger.seals import DIGEST, LOCK, REDACTED, ROW_HASH
from workflows.store.sql import AWAITING, CLOCK, LEDGER, compact, fetch, in_transaction, kind
from workflows.store.targets import address_kind, workspace_sql

#: What has a history: an instance, a unit of items, an item.
_OWNERS = ("holdpoint_instance", "holdpoint_unit", "holdpoint_interaction")

#: The row first, as everywhere; what follows sees all that was committed before the lock was had.
_LOCK_OWNER = {
    scope: [
        compact(f"""
        SELECT 1 FROM {table} i WHERE i.id = %(instance)s::uuid AND i.workspace_id = {workspace_sql(scope)}
        FOR NO KEY UPDATE
    """)
        for table in _OWNERS
    ]
    for scope in ("id", "slug")
}

_TELL = compact(f"""
    WITH l AS (
      SELECT * FROM holdpoint_ledger WHERE instance_id = %(instance)s::uuid AND seq = %(seq)s
        AND data IS NOT NULL AND salt IS NOT NULL AND kind <> {REDACTED}
    ), i AS (
      UPDATE holdpoint_instance SET seq = seq + 1 WHERE id = (SELECT instance_id FROM l)
      RETURNING id, seq, workspace_id, status
    ), n AS (
      UPDATE holdpoint_unit SET seq = seq + 1 WHERE id = (SELECT instance_id FROM l)
      RETURNING id, seq, workspace_id, {AWAITING}::smallint
    ), x AS (
      UPDATE holdpoint_interaction SET seq = seq + 1 WHERE id = (SELECT instance_id FROM l)
      RETURNING id, seq, workspace_id, {AWAITING}::smallint
    ), u AS (
      SELECT * FROM i UNION ALL SELECT * FROM n UNION ALL SELECT * FROM x
    )
    {LEDGER}
    SELECT u.id, {CLOCK}, NULL, u.seq, u.workspace_id, {REDACTED}, u.status, %(actor)s, NULL,
      jsonb_build_object('seq', l.seq, 'digest', {DIGEST}, 'reason', %(reason)s::text) FROM u, l
    RETURNING seq
""")

_CLEAR = compact("""
    UPDATE holdpoint_ledger SET data = NULL, salt = NULL WHERE instance_id = %(instance)s::uuid AND seq = %(seq)s
""")

#: The traceback of a failure says what its row said.
_FORGET = compact(f"""
    UPDATE holdpoint_instance i SET traceback = NULL WHERE i.id = %(instance)s::uuid AND i.traceback IS NOT NULL
      AND EXISTS (SELECT FROM holdpoint_ledger l WHERE l.instance_id = i.id AND l.seq = %(seq)s
        AND l.kind IN ({kind(Event.FAILED)}, {kind(Event.RUN_FAILED)}))
""")

#: What a pruned instance leaves: one row. A row that is not sealed yet needs no digest; nobody vouched for it.
_BURY = compact(f"""
    WITH hashed AS (
      SELECT l.instance_id, l.seq, q.number, {ROW_HASH} AS h FROM holdpoint_ledger l
      LEFT JOIN LATERAL (
        SELECT s.number, s.to_xid FROM holdpoint_seal s
        WHERE s.workspace_id = l.workspace_id AND s.from_xid <= l.xid AND s.era = (
          SELECT e.era FROM unnest(%(eras)s::int[], %(sinces)s::timestamptz[]) e(era, since)
          WHERE e.since <= l.at ORDER BY e.era DESC LIMIT 1)
        ORDER BY s.from_xid DESC LIMIT 1) q ON l.xid < q.to_xid
      WHERE l.instance_id = ANY(%(ids)s::uuid[]) AND NOT (l.kind = {REDACTED} AND l.data ? 'parts')
    ), part AS (
      SELECT instance_id, number, count(*) AS n, sha256(string_agg(h, ''::bytea ORDER BY seq, h)) AS digest
      FROM hashed GROUP BY instance_id, number
    ), tomb AS (
      SELECT instance_id, sum(n) AS n,
        jsonb_agg(jsonb_build_array(number, n, encode(digest, 'hex')) ORDER BY number)
          FILTER (WHERE number IS NOT NULL) AS parts
      FROM part GROUP BY instance_id
    )
    {LEDGER}
    SELECT t.instance_id, {CLOCK}, NULL, l.seq + 1, l.workspace_id, {REDACTED}, l.status, %(actor)s, NULL,
      jsonb_build_object('pruned', t.n, 'parts', t.parts)
    FROM tomb t CROSS JOIN LATERAL (
      SELECT x.seq, x.workspace_id, x.status FROM holdpoint_ledger x WHERE x.instance_id = t.instance_id
      ORDER BY x.seq DESC LIMIT 1) l
    WHERE t.parts IS NOT NULL
""")

_DELETE = compact(f"""
    DELETE FROM holdpoint_ledger l
    WHERE l.instance_id = ANY(%(ids)s::uuid[]) AND NOT (l.kind = {REDACTED} AND l.data ? 'parts')
""")

_ERAS = "SELECT array_agg(era), array_agg(since) FROM (SELECT DISTINCT era, since FROM holdpoint_seal) e"
_PRUNING = "SELECT set_config('holdpoint.pruning', %(on)s, true)"


def instance_is_here(db: BaseDatabaseWrapper, instance: UUID, workspace: str | int) -> bool:
    """Lock the row whose history it is for the rest of the transaction; whether there is one."""
    params = {"instance": instance, "ws": workspace}
    return any(fetch(db, statement, params) for statement in _LOCK_OWNER[address_kind(workspace)])


def redact_row(db: BaseDatabaseWrapper, instance: UUID, seq: int, *, actor: str, reason: str) -> int | None:
    """Clear one row's payload; the number of the row that tells of it, None where there is nothing to clear.

    Within a transaction that holds the instance's row.
    """
    params = {"instance": instance, "seq": seq, "actor": actor, "reason": reason}
    told = fetch(db, _TELL, params)
    if not told:
        return None
    fetch(db, _CLEAR, params, rows=False)
    fetch(db, _FORGET, params, rows=False)
    return int(told[0][0])


def prune_rows(db: BaseDatabaseWrapper, ids: Iterable[UUID], *, actor: str = "retention") -> None:
    """Delete the history of instances that are being deleted, in the caller's transaction if there is one.

    The lock keeps a sealer from sealing rows that go at this moment; one that already works is waited for.
    """

    def work() -> None:
        fetch(db, "SELECT pg_advisory_xact_lock(%(key)s)", {"key": LOCK})
        [(eras, sinces)] = fetch(db, _ERAS, {})
        params = {"ids": sorted(ids), "eras": eras or [], "sinces": sinces or [], "actor": actor}
        fetch(db, _BURY, params, rows=False)
        fetch(db, _PRUNING, {"on": "on"})
        fetch(db, _DELETE, params, rows=False)
        fetch(db, _PRUNING, {"on": "off"})

    in_transaction(db, work)
