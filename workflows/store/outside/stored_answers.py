"""Answers that are told again: kept in the transaction of their effect, found by whoever repeats the call.

Invariants owned: an answer and its effect are committed together or not at all; of two equal calls at the same
moment the second waits for the first, and then finds its answer or, when that one failed, takes its place. A
reservation is locked before any instance; a completion, which writes its answer last, reserves none, so the two never
wait for each other crosswise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.store.sql import CLOCK, NOW, compact, fetch, write_plain, write_texts

#: Answers without an instance are kept this long; the others as long as their instance, and never shorter.
KEEP_DAYS = 4
#: The status of an answer about many, whose body is `{"results": [{"id": "<instance>:<n>", …}, …]}`, or has lines that
#: name their `instance`.
MANY = 207


@dataclass(frozen=True, slots=True)
class Once:
    """A call that may come again: what tells it from every other, and what it said."""

    digest: bytes
    body_hash: bytes
    #: As the caller chose it, to be named in a refusal.
    key: str


@dataclass(frozen=True, slots=True)
class Told:
    """What a caller was told, and for which body."""

    body_hash: bytes
    status: int
    body: str
    instance: Any = None
    #: What that instance runs; known of what was kept.
    workflow: str | None = None


#: Waits for whoever has just reserved the same; a committed one is told apart by there being no row back.
_RESERVE = compact(f"""
    INSERT INTO holdpoint_answer (workspace_id, digest, body_hash, at, instance_id, status, body)
    VALUES (%(ws)s::int, %(digest)s::bytea, %(body_hash)s::bytea, {CLOCK}, NULL, 0, '')
    ON CONFLICT DO NOTHING RETURNING 1
""")

_READ = compact("""
    SELECT body_hash, status, body, instance_id, workflow FROM holdpoint_answer
    WHERE workspace_id = %(ws)s::int AND digest = %(digest)s::bytea
""")

#: An instance that is being pruned at this moment is none: what is told about it then goes by age.
_KEEP = compact("""
    WITH i AS (SELECT id, workflow FROM holdpoint_instance WHERE id = %(instance)s::uuid FOR KEY SHARE)
    UPDATE holdpoint_answer SET status = %(status)s::int, body = %(body)s::text,
      (instance_id, workflow) = (SELECT id, workflow FROM i)
    WHERE workspace_id = %(ws)s::int AND digest = %(digest)s::bytea
""")

#: The instance is read and not locked: what it runs never changes.
_KEEP_ITEMS = compact(f"""
    INSERT INTO holdpoint_answer(workspace_id, digest, body_hash, at, instance_id, workflow, status, body)
    SELECT %(ws)s::int, decode(v.digest, 'hex'), decode(v.hash, 'hex'), {CLOCK}, i.id, i.workflow, 200, v.told
    FROM unnest(%(instances)s::uuid[], %(digests)s::text[], %(hashes)s::text[], %(told)s::text[])
      v(instance, digest, hash, told)
    CROSS JOIN LATERAL (SELECT o.id, o.workflow FROM holdpoint_instance o WHERE o.id = v.instance OFFSET 0) i
""")

_RELEASE = compact("DELETE FROM holdpoint_answer WHERE workspace_id = %(ws)s::int AND digest = %(digest)s::bytea")

#: By the partial index of those without an instance.
_PRUNE = compact(f"""
    DELETE FROM holdpoint_answer a USING (
      SELECT workspace_id, digest FROM holdpoint_answer
      WHERE instance_id IS NULL AND at < {NOW} - interval '{KEEP_DAYS} days'
      ORDER BY at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
    ) old WHERE a.workspace_id = old.workspace_id AND a.digest = old.digest
    RETURNING 1
""")

#: An instance goes, and what was told about it: at once if that is old enough, else by age. What was told about many is
#: tied to another of them that is still there, and not about to be pruned by somebody else (who would not see the tie).
_FORGET = compact(f"""
    UPDATE holdpoint_answer a SET instance_id = CASE WHEN a.status = {MANY} THEN (
      SELECT i.id FROM holdpoint_instance i WHERE i.id <> ALL(%(ids)s::uuid[]) AND i.id IN (
        SELECT coalesce(line->>'instance', split_part(line->>'id', ':', 1))::uuid
        FROM jsonb_array_elements(a.body::jsonb->'results') line WHERE line ? 'id')
      LIMIT 1 FOR KEY SHARE SKIP LOCKED
    ) END WHERE a.instance_id = ANY(%(ids)s::uuid[])
""")


def reserve_answer(db: BaseDatabaseWrapper, workspace: int, once: Once) -> Told | None:
    """Within a transaction: None if the call is ours to carry out, else what it was told the first time."""
    params = {"ws": workspace, "digest": once.digest, "body_hash": once.body_hash}
    while not fetch(db, _RESERVE, params):
        if rows := fetch(db, _READ, {"ws": workspace, "digest": once.digest}):
            return read_told(*rows[0])
        # Whoever we waited for is gone again: it was pruned between the two statements.
    return None


def keep_answer(db: BaseDatabaseWrapper, workspace: int, once: Once, told: Told) -> None:
    """Write what the call was told, in the transaction that reserved it."""
    params = {"status": told.status, "body": told.body, "instance": told.instance}
    fetch(db, _KEEP, {"ws": workspace, "digest": once.digest, **params}, rows=False)


def keep_item_answers(db: BaseDatabaseWrapper, workspace: int, kept: Sequence[tuple[UUID, Once, str]]) -> None:
    """(instance, call, what it was told): in the transaction that has completed the items."""
    params = {
        "ws": workspace,
        "instances": write_plain([instance for instance, _, _ in kept]),
        "digests": write_texts([once.digest.hex() for _, once, _ in kept]),
        "hashes": write_texts([once.body_hash.hex() for _, once, _ in kept]),
        "told": write_texts([told for _, _, told in kept]),
    }
    fetch(db, _KEEP_ITEMS, params, rows=False)


def release_answer(db: BaseDatabaseWrapper, workspace: int, once: Once) -> None:
    """Within the transaction that reserved it: as if it had not, where what else it wrote has to be kept."""
    fetch(db, _RELEASE, {"ws": workspace, "digest": once.digest}, rows=False)


def read_told(body_hash: Any, status: int, body: str, instance: Any, workflow: str | None) -> Told:
    """From the columns."""
    return Told(bytes(body_hash), status, body, instance, workflow)


def forget_answers(db: BaseDatabaseWrapper, ids: list[Any]) -> None:
    """Untie answers from instances that are being deleted, so that age decides about them."""
    fetch(db, _FORGET, {"ids": ids}, rows=False)


def prune_answers(db: BaseDatabaseWrapper, batch: int = 5_000, batches: int = 20) -> int:
    """Delete answers that nobody can need any more, so many at most: the next call goes on. How many."""
    deleted = 0
    for _ in range(batches):
        gone = len(fetch(db, _PRUNE, {"limit": batch}))
        deleted += gone
        if gone < batch:
            break
    return deleted
