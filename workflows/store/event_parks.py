"""Beginning a wait for a named event: its row, the look back, and the park.

Invariant owned: the row of the wait, the look back at earlier events and the park are one transaction, under the lock
that an emit of this event takes too. Whichever comes second sees what the first has committed, so that neither misses
the other. A wait that is one of several open questions begins without a park, under the same lock.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.conf import conf
from workflows.definitions.awaited_event import EVENT as PREFIX
from workflows.exceptions import InvalidData
from workflows.lifecycle import Event
from workflows.store.commit import commit_locked, lock_claim
from workflows.store.named_events import FIRST_ID, SECONDS_BACK, lock_event
from workflows.store.planned_commit import Commit
from workflows.store.sql import CLOCK, LEDGER, NOW, atomic, compact, fetch, kind, read_clock, wait_for_locks
from workflows.uuid7 import make_uuid7
from workflows.values.json_text import dump_value

if TYPE_CHECKING:
    from workflows.definitions.awaited_event import EventSpec
    from workflows.schemas.schema import Schema
    from workflows.store.claim import Claim

logger = logging.getLogger("workflows")

#: Events that a wait with a schema looks at before it asks for more.
_LOOK = 50

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
      ) s WHERE s.since < {NOW} - {SECONDS_BACK.format("lookback")})
""")

#: Events since the instance started, within the look-back, that it has not taken; the oldest first. NOT IN reads
#: what was taken once and hashes it; as a join each event would be compared with every signal of the instance.
_LOOK_BACK = compact(f"""
    SELECT e.id, e.at, e.data::text, e.actor FROM holdpoint_event e
    WHERE e.workspace_id = %(ws)s AND e.name = %(event)s AND e.at >= greatest(
        (SELECT i.created_at FROM holdpoint_instance i WHERE i.id = %(instance)s::uuid),
        {NOW} - {SECONDS_BACK.format("lookback")}, %(at)s::timestamptz)
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

#: One of several open questions.
_PARK_ASKED = _PARK.replace("schema_type, schema)", "schema_type, schema, slot, deadline)").replace(
    "%(schema)s::jsonb FROM", "%(schema)s::jsonb, %(slot)s::int, %(deadline)s::timestamptz FROM"
)


def commit_event_park(
    db: BaseDatabaseWrapper, park: Commit, *, patience: float, allows: Callable[[UUID, str], bool] | None
) -> bool:
    """Begin a wait for an event; whether the claim still held.

    An emit inside a long transaction must not hold up everybody else's work: the lock is waited for so many seconds;
    with 0, as long as it takes. `allows` may refuse an earlier event, by its id and who emitted it.
    """
    claim, spec = park.claim, park.event
    assert spec is not None
    with atomic(db):
        wait_for_locks(db, patience)
        lock_event(db, claim.workspace, spec.name, shared=True)
        if not lock_claim(db, claim):
            return False
        # A copy, because the park itself may be tried again. A function's deadline was fixed when it called; a step's
        # begins here.
        wait = park_on_event(db, claim, spec, park.position, allows=allows)
        armed = replace(park, names=(f"{PREFIX}{wait}",))
        if park.step is not None and park.delay is not None:
            armed.delay = read_clock(db) + park.delay
        return bool(commit_locked(db, [armed]))


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
    wait = make_uuid7()
    _begin_wait(db, claim, spec, wait, _PARK, {"position": position}, allows)
    return wait


def ask_event(
    db: BaseDatabaseWrapper,
    claim: Claim,
    spec: EventSpec,
    wait: UUID,
    position: int,
    deadline: datetime | None,
    *,
    allows: Callable[[UUID, str], bool] | None = None,
) -> None:
    """Open an event wait as one of several questions: it takes its event whatever its instance does."""
    more = {"position": None, "slot": position + 1, "deadline": deadline}
    _begin_wait(db, claim, spec, wait, _PARK_ASKED, more, allows)


def _begin_wait(
    db: BaseDatabaseWrapper,
    claim: Claim,
    spec: EventSpec,
    wait: UUID,
    statement: str,
    more: dict[str, Any],
    allows: Callable[[UUID, str], bool] | None,
) -> None:
    schema = spec.schema
    params: dict[str, Any] = more | {
        "wait": wait,
        "instance": claim.id,
        "ws": claim.workspace,
        "event": spec.name,
        "match": dump_value(dict(spec.match), f"the match of event {spec.name!r}"),
        "lookback": conf.event_lookback,
        "channel": spec.channel,
        "type": None if schema is None else schema.type_path,
        "schema": None if schema is None else dump_value(schema.json, f"the schema of event {spec.name!r}"),
    }
    [[unseen]] = fetch(db, statement, params)
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


def _find_earlier(
    db: BaseDatabaseWrapper, spec: EventSpec, params: dict[str, Any], allows: Callable[[UUID, str], bool] | None
) -> UUID | None:
    """The oldest event that fits, its schema included, and that is allowed."""
    at: Any = "-infinity"
    after = FIRST_ID
    limit = 1 if spec.schema is None and allows is None else _LOOK
    while True:
        rows = fetch(db, _LOOK_BACK, params | {"at": at, "after": after, "limit": limit})
        for id, _, data, actor in rows:
            if accepts_event(spec.schema, json.loads(data)) and (allows is None or allows(id, actor)):
                return id  # type: ignore[no-any-return]
        if len(rows) < limit:
            return None
        after, at, *_ = rows[-1]
