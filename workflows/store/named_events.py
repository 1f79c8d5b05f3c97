"""Named events: the row of each, the waits that want it, and the common lock of emitting and parking.

Invariants owned:

* Emit and park miss each other on neither side. Both take the lock of (workspace, name) first, in a statement
  of its own: an emit alone, a park together with other parks. What the one did is committed before the other
  takes its next snapshot; without the lock each could look before the other's row is visible.
* An emit never reads the parked. Waits lie in a partial index by the names of the fields they compare and by
  the hash of the values: the emit skips from one set of names to the next, then probes each for its own values.
* One wait takes one event: under the lock of its instance the wait is closed and the signal stored. One
  instance takes an event once: the signal's dedup key names the event, and is kept as long as the instance.

Lock order: the events' lock, then instance rows by ascending id, as everywhere.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.conf import conf
from workflows.definitions.awaited_event import (
    EVENT as PREFIX,  # before a wait's id: a name; before an event's id: a dedup key
)
from workflows.exceptions import InvalidData, StrictIsolation
from workflows.lifecycle import Event
from workflows.store.sql import (
    AWAITING,
    CLOCK,
    LEDGER,
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
from workflows.values.json_text import dump_value

if TYPE_CHECKING:
    from workflows.definitions.awaited_event import EventSpec
    from workflows.schemas.schema import Schema
    from workflows.store.claim import Claim

logger = logging.getLogger("workflows")

#: Waits of one page of the search, and rows of one delivering statement.
EVENT_BATCH = 500
#: Events that a wait with a schema looks at before it asks for more.
_LOOK = 50
_FIRST_ID = UUID(int=0)
#: Subtracting a very long time would leave the calendar, so it is bounded where "never" begins.
_SECONDS = "least(%({})s::float8, 3e10) * interval '1 s'"
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
        SELECT w.id, w.instance_id, w.schema, w.schema_type FROM holdpoint_event_wait w
        WHERE {_OPEN} AND w.fields = probe.fields AND w.hash = probe.hash AND w.match = probe.sub
          AND (w.channel = %(door)s::text OR w.channel IS NULL OR %(door)s::text IS NULL)
          AND w.id > %(after)s::uuid ORDER BY w.id LIMIT {EVENT_BATCH}
      ) w ORDER BY w.id LIMIT {EVENT_BATCH}
    )
    SELECT page.schema::text, page.schema_type, array_agg(page.instance_id), array_agg(page.id) FROM page GROUP BY 1, 2
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

#: The checkpoint of a function's wait remembers which row it parked on. What comes back is since how many hours nobody
#: has looked for this event, where that is longer than events are kept.
_PARK = compact(f"""
    WITH c AS (
      UPDATE holdpoint_checkpoint c SET value = to_jsonb(%(wait)s::text)
      WHERE c.instance_id = %(instance)s::uuid AND c.position = %(position)s::int
    )
    INSERT INTO holdpoint_event_wait(id, instance_id, workspace_id, hash, event, fields, match, channel, schema_type,
      schema)
    SELECT %(wait)s::uuid, %(instance)s::uuid, %(ws)s, jsonb_hash_extended(m.match, 0), %(event)s,
      (SELECT coalesce(jsonb_agg(f ORDER BY f COLLATE "C"), '[]')::text FROM jsonb_object_keys(m.match) f),
      m.match, %(channel)s, %(type)s, %(schema)s::jsonb
    FROM (SELECT %(match)s::jsonb) m(match)
    RETURNING (
      SELECT (extract(epoch FROM {NOW} - s.since) / 3600)::float8 FROM (
        SELECT coalesce(
          (SELECT max(o.closed_at) FROM holdpoint_event_wait o
            WHERE o.instance_id = %(instance)s::uuid AND o.closed_at IS NOT NULL AND o.event = %(event)s),
          (SELECT i.created_at FROM holdpoint_instance i WHERE i.id = %(instance)s::uuid)) AS since
      ) s WHERE s.since < {NOW} - {_SECONDS.format("lookback")})
""")

#: Events since the instance started, within the look-back, that it has not taken; the oldest first. NOT IN reads
#: what was taken once and hashes it; as a join each event would be compared with every signal of the instance.
_LOOK_BACK = compact(f"""
    SELECT e.id, e.at, e.data::text, e.actor FROM holdpoint_event e
    WHERE e.workspace_id = %(ws)s AND e.name = %(event)s AND e.at >= greatest(
        (SELECT i.created_at FROM holdpoint_instance i WHERE i.id = %(instance)s::uuid),
        {NOW} - {_SECONDS.format("lookback")}, %(at)s::timestamptz)
      AND (e.at, e.id) > (%(at)s::timestamptz, %(after)s::uuid)
      AND (e.door = %(channel)s::text OR e.door IS NULL OR %(channel)s::text IS NULL)
      AND NOT EXISTS (SELECT FROM jsonb_each(%(match)s::jsonb) f WHERE (e.data -> f.key) IS DISTINCT FROM f.value)
      AND '{PREFIX}' || e.id NOT IN (SELECT s.dedup_key FROM holdpoint_signal s
        WHERE s.instance_id = %(instance)s::uuid AND s.dedup_key IS NOT NULL)
    ORDER BY e.at, e.id LIMIT %(limit)s
""")

#: For an instance that runs: the event goes into its inbox, and its park will find it there.
_TAKE = compact(f"""
    WITH t AS (
      SELECT i.id, i.seq, i.workspace_id FROM holdpoint_instance i WHERE i.id = %(instance)s::uuid FOR NO KEY UPDATE
    ), s AS (
      INSERT INTO holdpoint_signal(instance_id, received_at, n, workspace_id, name, dedup_key, source, payload)
      SELECT t.id, {CLOCK}, t.seq + 1, t.workspace_id, '{PREFIX}' || %(wait)s::uuid, '{PREFIX}' || e.id, e.actor, e.data
      FROM t CROSS JOIN (SELECT * FROM holdpoint_event e WHERE e.id = %(id)s::uuid) e
      RETURNING instance_id, n, name, source
    ), x AS (
      UPDATE holdpoint_event_wait w SET closed_at = {CLOCK} FROM s WHERE w.id = %(wait)s::uuid
    ), u AS (
      UPDATE holdpoint_instance i SET inbox = i.inbox + 1, seq = s.n FROM s WHERE i.id = s.instance_id
      RETURNING i.id, i.seq, i.workspace_id, i.status, s.source, s.name
    )
    {LEDGER}
    SELECT u.id, {CLOCK}, NULL, u.seq, u.workspace_id, {kind(Event.SIGNALLED)}, u.status, u.source, u.name,
      jsonb_build_object('event', %(event)s::text, 'id', %(id)s::uuid) FROM u
""")

_LOCK_ALL = "SELECT FROM holdpoint_instance WHERE id = ANY(%(ids)s::uuid[]) ORDER BY id FOR NO KEY UPDATE"

_PRUNE = {
    which: compact(f"""
    WITH gone AS (
      DELETE FROM holdpoint_event e WHERE e.ctid = ANY(ARRAY(
        SELECT o.ctid FROM holdpoint_event o
        WHERE o.dedup_key IS {which} AND o.at < {NOW} - {_SECONDS.format("keep")}
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
    after = _FIRST_ID
    while True:
        rows = fetch(db, _FIND, {"ws": workspace, "event": event, "id": id, "after": after, "door": door})
        found = [Waits(*row) for row in rows]
        yield from found
        if sum(len(waits.ids) for waits in found) < EVENT_BATCH:
            return
        after = max(max(waits.ids) for waits in found)


def deliver_event(db: BaseDatabaseWrapper, event: str, id: UUID, pairs: Sequence[tuple[UUID, UUID]]) -> int:
    """Give the event to these (instance, wait), in order of instance ids; how many took it and woke up."""
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
        woke += fetch(db, _DELIVER, params)[0][0]
    return woke


def lock_waiting(db: BaseDatabaseWrapper, instances: Sequence[UUID]) -> None:
    """Lock these instances, where more than one statement is to write to them: in one order, as everywhere."""
    fetch(db, _LOCK_ALL, {"ids": write_plain(sorted(set(instances)))}, rows=False)


def park_on_event(
    db: BaseDatabaseWrapper,
    claim: Claim,
    spec: EventSpec,
    position: int | None = None,
    *,
    allows: Callable[[UUID, str], bool] | None = None,
) -> UUID:
    """Open a wait for a claimed instance, and let it take the oldest event that came before it; the wait's id.

    The transaction holds the event's lock (shared) since before it locked the instance. `allows` may refuse an event,
    by its id and who emitted it.
    """
    schema = spec.schema
    wait = make_uuid7()
    params: dict[str, Any] = {
        "wait": wait,
        "instance": claim.id,
        "position": position,
        "ws": claim.workspace,
        "event": spec.name,
        "match": dump_value(dict(spec.match), f"the match of event {spec.name!r}"),
        "lookback": conf.event_lookback,
        "channel": spec.channel,
        "type": None if schema is None else schema.type_path,
        "schema": None if schema is None else dump_value(schema.json, f"the schema of event {spec.name!r}"),
    }
    [[unseen]] = fetch(db, _PARK, params)
    if unseen is not None:
        logger.warning(
            "instance %s of workflow %r begins to wait for event %r, for which it has not looked for %.0f h: one that "
            'was emitted more than %.0f h ago is no longer known. Wait earlier, or raise WORKFLOWS["EVENT_LOOKBACK"].',
            claim.id,
            claim.workflow,
            spec.name,
            unseen,
            conf.event_lookback / 3600,
        )
    if (earlier := _find_earlier(db, spec, params, allows)) is not None:
        fetch(db, _TAKE, params | {"id": earlier}, rows=False)
    return wait


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


def _find_earlier(
    db: BaseDatabaseWrapper, spec: EventSpec, params: dict[str, Any], allows: Callable[[UUID, str], bool] | None
) -> UUID | None:
    """The oldest event that fits, its schema included, and that is allowed."""
    at: Any = "-infinity"
    after = _FIRST_ID
    limit = 1 if spec.schema is None and allows is None else _LOOK
    while True:
        rows = fetch(db, _LOOK_BACK, params | {"at": at, "after": after, "limit": limit})
        for id, _, data, actor in rows:
            if accepts_event(spec.schema, json.loads(data)) and (allows is None or allows(id, actor)):
                return id  # type: ignore[no-any-return]
        if len(rows) < limit:
            return None
        after, at, *_ = rows[-1]


def accepts_event(schema: Schema | None, data: Any) -> bool:
    """Whether a wait with this schema can take the data. A validator that breaks keeps its own waits parked only."""
    try:
        if schema is not None:
            schema.check(data)
    except InvalidData:
        return False
    except Exception:
        logger.exception("a schema could not check the data of an event; its waits stay parked")
        return False
    return True
