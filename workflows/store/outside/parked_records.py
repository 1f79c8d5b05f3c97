"""Records that were read from a topic of answers: which came before, and those that nobody could take.

Invariants owned: a record is parked once, however often it is read; what was taken from a record is told by the actor
on the interaction, which names that record, so reading it again is seen without a row of its own.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.types.json import Json

from workflows.store.sql import CLOCK, compact, fetch, write_plain, write_texts
from workflows.uuid7 import make_uuid7


@dataclass(frozen=True, slots=True)
class Parked:
    """A record, and why it was not taken."""

    topic: str
    partition: int
    offset: int
    sent_ms: int
    reason: str
    detail: str
    key: bytes | None
    value: bytes | None
    headers: Sequence[tuple[str, str]] | None = None
    workspace: int | None = None
    interaction: UUID | None = None

    @property
    def place(self) -> tuple[str, int, int, int]:
        """What tells it from every other record."""
        return self.topic, self.partition, self.offset, self.sent_ms


#: Two consumers may read the same record while its partition changes hands: the second writes nothing.
_PARK = compact(f"""
    INSERT INTO holdpoint_parked_answer (id, at, taken_at, workspace_id, interaction, record_offset, sent_ms, partition,
      topic, reason, detail, key, value, headers)
    VALUES (%(id)s::uuid, {CLOCK}, NULL, %(workspace)s::int, %(interaction)s::uuid, %(offset)s::bigint,
      %(sent_ms)s::bigint, %(partition)s::int, %(topic)s::text, %(reason)s::text, %(detail)s::text, %(key)s::bytea,
      %(value)s::bytea, %(headers)s::jsonb)
    ON CONFLICT (topic, partition, record_offset, sent_ms) DO NOTHING RETURNING id
""")

#: By an index both: the key of the interaction, and the unique place of a parked record. A question that names the
#: topic of its answer is answered by no other; of another workspace's question nothing is told.
_SEEN = compact("""
    SELECT v.n, coalesce(x.taken, false) OR EXISTS (SELECT FROM holdpoint_parked_answer p WHERE p.topic = v.topic
      AND p.partition = v.partition AND p.record_offset = v.record_offset AND p.sent_ms = v.sent_ms), x.answers
    FROM unnest(%(ns)s::int[], %(topics)s::text[], %(partitions)s::int[], %(offsets)s::bigint[], %(sent)s::bigint[],
        %(interactions)s::uuid[], %(actors)s::text[], %(slugs)s::text[], %(sources)s::text[])
      v(n, topic, partition, record_offset, sent_ms, interaction, actor, slug, source)
    LEFT JOIN LATERAL (SELECT o.actor = v.actor AS taken, CASE WHEN o.config->>'answers' <> v.source
        AND v.slug = (SELECT w.slug FROM holdpoint_workspace w WHERE w.id = o.workspace_id)
        THEN o.config->>'answers' END AS answers
      FROM holdpoint_interaction o WHERE o.id = v.interaction OFFSET 0) x ON true
""")

_TAKEN = compact(f"""
    UPDATE holdpoint_parked_answer SET taken_at = {CLOCK} WHERE id = %(id)s::uuid AND taken_at IS NULL RETURNING id
""")

_AGAIN = compact("""
    UPDATE holdpoint_parked_answer SET reason = %(reason)s::text, detail = %(detail)s::text
    WHERE id = %(id)s::uuid AND taken_at IS NULL
""")

_PRUNE = compact(f"""
    DELETE FROM holdpoint_parked_answer p USING (
      SELECT o.id FROM holdpoint_parked_answer o
      WHERE o.at < {CLOCK} - least(%(seconds)s::float8, 3e10) * interval '1 s'
      ORDER BY o.at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    ) old WHERE p.id = old.id RETURNING 1
""")

_COUNT_OLD = compact(f"""
    SELECT count(*) FROM holdpoint_parked_answer o
    WHERE o.at < {CLOCK} - least(%(seconds)s::float8, 3e10) * interval '1 s'
""")


def park_answer(db: BaseDatabaseWrapper, parked: Parked) -> bool:
    """Keep a record; whether it was not kept before."""
    headers = None if parked.headers is None else Json([list(pair) for pair in parked.headers], dumps=_dump)
    params = {
        "id": make_uuid7(),
        "workspace": parked.workspace,
        "interaction": parked.interaction,
        "offset": parked.offset,
        "sent_ms": parked.sent_ms,
        "partition": parked.partition,
        "topic": parked.topic,
        "reason": parked.reason,
        "detail": parked.detail,
        "key": parked.key,
        "value": parked.value,
        "headers": headers,
    }
    return bool(fetch(db, _PARK, params))


@dataclass(frozen=True, slots=True)
class ParkedOrigin:
    """Where a record comes from, and what it answers."""

    place: tuple[str, int, int, int]
    #: Its topic; that of the place, unless the record is looked at once more.
    topic: str
    actor: str
    interaction: UUID | None
    workspace: str | None


def find_seen(db: BaseDatabaseWrapper, records: Sequence[ParkedOrigin]) -> tuple[set[int], dict[int, str]]:
    """Which of these (by their place in the list) were parked or taken before; and whose question names another topic
    for its answer, with that."""
    if not records:
        return set(), {}
    topics, partitions, offsets, sent = zip(*(one.place for one in records), strict=True)
    params = {
        "ns": write_plain(range(len(records))),
        "topics": write_texts(topics),
        "partitions": write_plain(partitions),
        "offsets": write_plain(offsets),
        "sent": write_plain(sent),
        "interactions": write_plain([one.interaction for one in records]),
        "actors": write_texts([one.actor for one in records]),
        "slugs": write_texts([one.workspace for one in records]),
        "sources": write_texts([one.topic for one in records]),
    }
    rows = fetch(db, _SEEN, params)
    return {n for n, is_seen, _ in rows if is_seen}, {n: topic for n, _, topic in rows if topic is not None}


def mark_taken(db: BaseDatabaseWrapper, id: UUID) -> bool:
    """A parked record was taken after all; whether nobody marked it before."""
    return bool(fetch(db, _TAKEN, {"id": id}))


def park_again(db: BaseDatabaseWrapper, id: UUID, reason: str, detail: str) -> None:
    """It was not taken this time either: why."""
    fetch(db, _AGAIN, {"id": id, "reason": reason, "detail": detail}, rows=False)


def prune_parked(db: BaseDatabaseWrapper, *, older_than: float, batch: int = 1_000, dry_run: bool = False) -> int:
    """Delete what was parked more than so many seconds ago; how many."""
    if dry_run:
        count: int = fetch(db, _COUNT_OLD, {"seconds": older_than})[0][0]
        return count
    deleted = 0
    while gone := len(fetch(db, _PRUNE, {"seconds": older_than, "limit": batch})):
        deleted += gone
    return deleted


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
