"""Named events: the row of each, the waits that want it, and the common lock of emitting and parking.

Invariants owned:

* Emit and park miss each other on neither side. Both take the lock of (workspace, name) first, in a statement
  of its own: an emit alone, a park together with other parks. What the one did is committed before the other
  takes its next snapshot; without the lock each could look before the other's row is visible.
* An emit never reads the parked. Waits lie in a partial index by the names of the fields they compare and by
  the hash of the values: the emit skips from one set of names to the next, then probes each for its own values.
* One wait takes one event: under the lock of its instance the wait is closed and the signal stored. One
  instance takes an event once: the signal's dedup key names the event, and is kept as long as the instance.
* A wait that is one of several open questions (`slot` above 0) takes its event whatever its instance does meanwhile:
  that is locked first, so that what closes a wait under the same lock is seen.

Lock order: the events' lock, then instance rows by ascending id, as everywhere.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.conf import conf
from workflows.definitions.awaited_event import (
    EVENT as PREFIX,  # before a wait's id: a name; before an event's id: a dedup key
)
from workflows.exceptions import StrictIsolation
from workflows.lifecycle import Event
from workflows.store.sql import (
    AWAITING,
    CLOCK,
    LEDGER,
    LIVE,
    NOTIFY_IDLE,
    NOW,
    RUNNABLE,
    becoming,
    compact,
    fetch,
    is_strict,
    kind,
    write_plain,
)
from workflows.store.targets import address_kind
from workflows.uuid7 import make_uuid7

#: Waits of one page of the search, and rows of one delivering statement.
EVENT_BATCH = 500
FIRST_ID = UUID(int=0)
#: Subtracting a very long time would leave the calendar, so it is bounded where "never" begins.
SECONDS_BACK = "least(%({})s::float8, 3e10) * interval '1 s'"
#: A key stops a repeated emit for at least so long, however short the look-back is.
_KEEP_KEYS_SECONDS = 4 * 24 * 3600.0

_KEY = f"hashtextextended('{PREFIX}' || w.id || ':' || %(event)s::text, 0)"
_LOCK = {
    (by, shared): f"SELECT w.id, current_setting('transaction_isolation'), "
    f"pg_advisory_xact_lock{'_shared' if shared else ''}({_KEY}) FROM holdpoint_workspace w WHERE w.{by} = %(ws)s"
    for by in ("id", "slug")
    for shared in (False, True)
}

_IS_FREE = f"SELECT pg_try_advisory_xact_lock_shared({_KEY}) FROM holdpoint_workspace w WHERE w.id = %(ws)s"

_INSERT = compact(f"""
    INSERT INTO holdpoint_event(id, workspace_id, at, name, dedup_key, actor, door, data)
    VALUES (%(id)s::uuid, %(ws)s, {CLOCK}, %(event)s, %(dedup)s, %(actor)s, %(door)s, %(data)s::jsonb)
    ON CONFLICT (workspace_id, name, dedup_key) WHERE dedup_key IS NOT NULL DO NOTHING RETURNING id
""")

_FIRST = "SELECT id FROM holdpoint_event WHERE workspace_id = %(ws)s AND name = %(event)s AND dedup_key = %(dedup)s"

_OPEN = "w.workspace_id = %(ws)s AND w.event = %(event)s AND w.closed_at IS NULL"

#: `shape` takes one index look-up per distinct set of field names. A set that the data does not have in full
#: cannot match: a missing field is not a null one. Comparing `match` itself settles hashes that collide.
_FIND = compact(f"""
    WITH RECURSIVE e AS MATERIALIZED (
      SELECT CASE WHEN jsonb_typeof(e.data) = 'object' THEN e.data ELSE '{{}}' END AS data
      FROM holdpoint_event e WHERE e.id = %(id)s::uuid
    ), shape AS (
      (SELECT w.fields FROM holdpoint_event_wait w WHERE {_OPEN} ORDER BY w.fields LIMIT 1)
      UNION ALL
      SELECT (SELECT w.fields FROM holdpoint_event_wait w WHERE {_OPEN} AND w.fields > shape.fields
        ORDER BY w.fields LIMIT 1) FROM shape WHERE shape.fields IS NOT NULL
    ), probe AS MATERIALIZED (
      SELECT shape.fields, m.sub, jsonb_hash_extended(m.sub, 0) AS hash FROM shape CROSS JOIN e CROSS JOIN LATERAL (
        SELECT coalesce(jsonb_object_agg(f.name, e.data -> f.name), '{{}}') AS sub,
          coalesce(bool_and(e.data ? f.name), true) AS whole
        FROM jsonb_array_elements_text(shape.fields::jsonb) f(name)
      ) m WHERE shape.fields IS NOT NULL AND m.whole
    ), page AS (
      SELECT w.* FROM probe CROSS JOIN LATERAL (
        SELECT w.id, w.instance_id, w.schema, w.schema_type, w.slot FROM holdpoint_event_wait w
        WHERE {_OPEN} AND w.fields = probe.fields AND w.hash = probe.hash AND w.match = probe.sub
          AND (w.channel = %(door)s::text OR w.channel IS NULL OR %(door)s::text IS NULL)
          AND w.id > %(after)s::uuid ORDER BY w.id LIMIT {EVENT_BATCH}
      ) w ORDER BY w.id LIMIT {EVENT_BATCH}
    )
    SELECT page.schema::text, page.schema_type, page.slot > 0, array_agg(page.instance_id), array_agg(page.id)
    FROM page GROUP BY 1, 2, 3
""")

#: Only an instance that is parked on exactly this wait takes the event: one whose deadline or cancellation was
#: in progress is read anew after waiting for its lock, and then has no row here. The wait is looked up by
#: itself and closed by its place, because a join might be planned as a scan; under the lock nobody moves it.
_DELIVER = compact(f"""
    WITH v AS (
      SELECT v.* FROM unnest(%(instances)s::uuid[], %(waits)s::uuid[]) v(instance, wait)
    ), t AS (
      SELECT v.wait, i.id, i.seq, i.workspace_id FROM (SELECT * FROM v ORDER BY instance) v CROSS JOIN LATERAL (
        SELECT i.id, i.seq, i.workspace_id FROM holdpoint_instance i WHERE i.id = v.instance
          AND i.status = {AWAITING} AND i.names = ARRAY['{PREFIX}' || v.wait] FOR NO KEY UPDATE
      ) i
    ), s AS (
      INSERT INTO holdpoint_signal(instance_id, received_at, n, workspace_id, name, dedup_key, source, payload)
      SELECT t.id, {CLOCK}, t.seq + 1, t.workspace_id, '{PREFIX}' || t.wait, '{PREFIX}' || e.id, e.actor, e.data
      FROM t CROSS JOIN (SELECT * FROM holdpoint_event e WHERE e.id = %(id)s::uuid) e
      ON CONFLICT (instance_id, dedup_key) WHERE dedup_key IS NOT NULL DO NOTHING
      RETURNING instance_id, n, name, source, substr(name, {len(PREFIX) + 1})::uuid AS wait
    ), x AS (
      UPDATE holdpoint_event_wait w SET closed_at = {CLOCK} FROM s CROSS JOIN LATERAL (
        SELECT o.ctid FROM holdpoint_event_wait o WHERE o.id = s.wait AND o.closed_at IS NULL OFFSET 0) o
      WHERE w.ctid = o.ctid
    ), u AS (
      UPDATE holdpoint_instance i SET inbox = i.inbox + 1, seq = s.n, {becoming(RUNNABLE, CLOCK)}
      FROM s WHERE i.id = s.instance_id RETURNING i.id, i.seq, i.workspace_id, i.status, s.source, s.name
    ), l AS (
      {LEDGER}
      SELECT u.id, {CLOCK}, NULL, u.seq, u.workspace_id, {kind(Event.SIGNALLED)}, u.status, u.source, u.name,
        jsonb_build_object('event', %(event)s::text, 'id', %(id)s::uuid) FROM u
    )
    SELECT count(*), CASE WHEN count(*) > 0 THEN {NOTIFY_IDLE} END FROM u
""")

#: Of several open questions; all instances are locked already, by a statement of its own. Where two questions of an
#: instance want the event, the older one takes it.
_DELIVER_ASKED = compact(f"""
    WITH t AS (
      SELECT DISTINCT ON (i.id) w.id AS wait, i.id, i.seq, i.workspace_id,
        i.status = {AWAITING} AND '{PREFIX}' || w.id = ANY(i.names) AS wakes
      FROM unnest(%(instances)s::uuid[], %(waits)s::uuid[]) v(instance, wait) CROSS JOIN LATERAL (
        SELECT i.id, i.seq, i.workspace_id, i.status, i.names FROM holdpoint_instance i
        WHERE i.id = v.instance AND i.{LIVE} OFFSET 0
      ) i CROSS JOIN LATERAL (
        SELECT o.id FROM holdpoint_event_wait o WHERE o.id = v.wait AND o.closed_at IS NULL
          AND coalesce(o.deadline > {CLOCK}, true) OFFSET 0
      ) w ORDER BY i.id, w.id
    ), s AS (
      INSERT INTO holdpoint_signal(instance_id, received_at, n, workspace_id, name, dedup_key, source, payload)
      SELECT t.id, {CLOCK}, t.seq + 1, t.workspace_id, '{PREFIX}' || t.wait, '{PREFIX}' || e.id, e.actor, e.data
      FROM t CROSS JOIN (SELECT * FROM holdpoint_event e WHERE e.id = %(id)s::uuid) e
      ON CONFLICT (instance_id, dedup_key) WHERE dedup_key IS NOT NULL DO NOTHING
      RETURNING instance_id, n, name, source, substr(name, {len(PREFIX) + 1})::uuid AS wait
    ), x AS (
      UPDATE holdpoint_event_wait w SET closed_at = {CLOCK} FROM s CROSS JOIN LATERAL (
        SELECT o.ctid FROM holdpoint_event_wait o WHERE o.id = s.wait OFFSET 0) o
      WHERE w.ctid = o.ctid
    ), u AS (
      UPDATE holdpoint_instance i SET inbox = i.inbox + 1, seq = s.n,
        {
    becoming(
        f"CASE WHEN t.wakes THEN {RUNNABLE} ELSE i.status END",
        f"CASE WHEN t.wakes THEN {CLOCK} ELSE i.due_at END",
        may_end=False,
    )
}
      FROM s JOIN t ON t.id = s.instance_id WHERE i.id = s.instance_id
      RETURNING i.id, i.seq, i.workspace_id, i.status, s.source, s.name, t.wakes
    ), l AS (
      {LEDGER}
      SELECT u.id, {CLOCK}, NULL, u.seq, u.workspace_id, {kind(Event.SIGNALLED)}, u.status, u.source, u.name,
        jsonb_build_object('event', %(event)s::text, 'id', %(id)s::uuid) FROM u
    ), k AS (
      SELECT count(*) AS woke FROM u WHERE u.wakes
    )
    SELECT k.woke, CASE WHEN k.woke > 0 THEN {NOTIFY_IDLE} END FROM k
""")

_LOCK_ALL = "SELECT FROM holdpoint_instance WHERE id = ANY(%(ids)s::uuid[]) ORDER BY id FOR NO KEY UPDATE"

_PRUNE = {
    which: compact(f"""
    WITH gone AS (
      DELETE FROM holdpoint_event e WHERE e.ctid = ANY(ARRAY(
        SELECT o.ctid FROM holdpoint_event o
        WHERE o.dedup_key IS {which} AND o.at < {NOW} - {SECONDS_BACK.format("keep")}
        ORDER BY o.at LIMIT %(limit)s FOR UPDATE SKIP LOCKED)) RETURNING 1
    ) SELECT count(*) FROM gone
    """)
    for which in ("NULL", "NOT NULL")
}


@dataclass(slots=True)
class Waits:
    """Open waits that match an event and share a schema; `instances` and `ids` go in pairs."""

    schema: str | None
    schema_type: str | None
    #: Whether they are of several open questions each.
    asked: bool
    instances: list[UUID]
    ids: list[UUID]


def lock_event(db: BaseDatabaseWrapper, workspace: str | int, event: str, *, shared: bool) -> int | None:
    """Keep emits of this event out (shared), or emits and parks, until the transaction ends; the workspace's id.

    Comes before any instance is locked, and alone: what follows must take a newer snapshot, which a stricter
    transaction does not (`StrictIsolation`). None: no such workspace.
    """
    rows = fetch(db, _LOCK[address_kind(workspace), shared], {"ws": workspace, "event": event})
    if not rows:
        return None
    if is_strict(db, rows[0][1]):
        raise StrictIsolation(event, rows[0][1], waits=shared)
    return rows[0][0]  # type: ignore[no-any-return]


def is_event_free(db: BaseDatabaseWrapper, workspace: int, event: str) -> bool:
    """Whether no emit of this event is under way just now; asked without waiting, in a transaction of its own."""
    rows = fetch(db, _IS_FREE, {"ws": workspace, "event": event})
    return bool(rows) and bool(rows[0][0])


def insert_event(
    db: BaseDatabaseWrapper,
    workspace: int,
    event: str,
    data: str,
    *,
    dedup: str | None,
    actor: str,
    door: str | None = None,
) -> tuple[UUID, bool]:
    """Store an event, under its lock; its id and whether it is new. For a repeated key the first one's id."""
    params = {"ws": workspace, "event": event, "dedup": dedup}
    if rows := fetch(db, _INSERT, params | {"id": make_uuid7(), "data": data, "actor": actor, "door": door}):
        return rows[0][0], True
    return fetch(db, _FIRST, params)[0][0], False


def find_waits(
    db: BaseDatabaseWrapper, workspace: int, event: str, id: UUID, door: str | None = None
) -> Iterator[Waits]:
    """The open waits that the event matches, a page at a time. Under the lock no wait is added meanwhile."""
    after = FIRST_ID
    while True:
        rows = fetch(db, _FIND, {"ws": workspace, "event": event, "id": id, "after": after, "door": door})
        found = [Waits(*row) for row in rows]
        yield from found
        if sum(len(waits.ids) for waits in found) < EVENT_BATCH:
            return
        after = max(max(waits.ids) for waits in found)


def deliver_event(
    db: BaseDatabaseWrapper, event: str, id: UUID, pairs: Sequence[tuple[UUID, UUID]], asked: Set[UUID] = frozenset()
) -> int:
    """Give the event to these (instance, wait), in order of instance ids; how many took it and woke up.

    `asked` names the waits that are of several open questions.
    """
    if not asked:
        return _deliver(db, _DELIVER, event, id, pairs)
    lock_waiting(db, [instance for instance, _ in pairs])
    woke = _deliver(db, _DELIVER, event, id, [pair for pair in pairs if pair[1] not in asked])
    return woke + _deliver(db, _DELIVER_ASKED, event, id, [pair for pair in pairs if pair[1] in asked])


def _deliver(db: BaseDatabaseWrapper, statement: str, event: str, id: UUID, pairs: Sequence[tuple[UUID, UUID]]) -> int:
    woke = 0
    ordered = sorted(pairs)
    for begin in range(0, len(ordered), EVENT_BATCH):
        batch = ordered[begin : begin + EVENT_BATCH]
        params = {
            "id": id,
            "event": event,
            "instances": write_plain([instance for instance, _ in batch]),
            "waits": write_plain([wait for _, wait in batch]),
        }
        woke += fetch(db, statement, params)[0][0]
    return woke


def lock_waiting(db: BaseDatabaseWrapper, instances: Sequence[UUID]) -> None:
    """Lock these instances, where more than one statement is to write to them: in one order, as everywhere."""
    fetch(db, _LOCK_ALL, {"ids": write_plain(sorted(set(instances)))}, rows=False)


def prune_events(db: BaseDatabaseWrapper, batch: int = 10_000, batches: int = 20) -> int:
    """Delete events that no wait can look back to, so many at most: the next call goes on. How many.

    Those with a dedup key stay for days.
    """
    deleted, lookback = 0, conf.event_lookback
    for which, keep in (("NULL", lookback), ("NOT NULL", max(lookback, _KEEP_KEYS_SECONDS))):
        for _ in range(batches):
            gone = fetch(db, _PRUNE[which], {"keep": keep, "limit": batch})[0][0]
            deleted += gone
            if gone < batch:
                break
    return deleted
