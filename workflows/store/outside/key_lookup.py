"""Looking an API key up: one statement, which also notes now and then that the key is used."""

from __future__ import annotations

from typing import Any

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.store.sql import CLOCK, NOW, compact, fetch

#: `last_used_at` is written once a minute at most: a row version per call would be the dearest part of the call.
#: Whoever writes it at this moment is not waited for.
_FIND = compact(f"""
    WITH k AS (
      SELECT k.id, k.workspace_id, w.slug, k.scopes, k.workflows, k.rate, k.expires_at, k.last_used_at
      FROM holdpoint_api_key k JOIN holdpoint_workspace w ON w.id = k.workspace_id
      WHERE k.hash = %(hash)s::bytea AND k.revoked_at IS NULL AND (k.expires_at IS NULL OR k.expires_at > {NOW})
    ), used AS (
      UPDATE holdpoint_api_key u SET last_used_at = {CLOCK} FROM (
        SELECT o.id FROM holdpoint_api_key o JOIN k ON k.id = o.id
        WHERE k.last_used_at IS NULL OR k.last_used_at < {NOW} - interval '1 minute'
        FOR NO KEY UPDATE OF o SKIP LOCKED) o
      WHERE u.id = o.id
    )
    SELECT id, workspace_id, slug, scopes, workflows, rate, expires_at FROM k
""")


def find_key(db: BaseDatabaseWrapper, hash: bytes) -> tuple[Any, ...] | None:
    """Id, workspace and its slug, scopes, workflows, rate and expiry of a usable key."""
    rows = fetch(db, _FIND, {"hash": hash})
    return rows[0] if rows else None
