"""How far an instance is, onto its row: a statement of its own, so that an instance that says nothing pays nothing.

Invariant owned: fenced. While a step runs only the holder of its claim writes; at the end of the run the transaction
that commits the outcome does, and only of what was applied.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.store.claim import Claim
from workflows.store.sql import CLOCK, RUNNING, compact, fetch, write_plain, write_texts

#: A row that somebody holds is not waited for: what is said next is as good.
_SHOW = compact(f"""
    UPDATE holdpoint_instance i SET progress = %(progress)s::jsonb, progress_at = {CLOCK}
    FROM (SELECT id FROM holdpoint_instance WHERE id = %(id)s::uuid AND fence = %(fence)s AND status + 0 = {RUNNING}
      FOR NO KEY UPDATE SKIP LOCKED) t
    WHERE i.id = t.id RETURNING 1
""")

_FIND = compact("""
    SELECT id, extract(epoch FROM progress_at)::float8 FROM holdpoint_instance
    WHERE id = ANY(%(ids)s::uuid[]) AND progress_at IS NOT NULL
""")

#: The rows are locked: this transaction has just written them.
_KEEP = compact(f"""
    UPDATE holdpoint_instance i SET progress = v.progress::jsonb, progress_at = {CLOCK}
    FROM unnest(%(ids)s::uuid[], %(texts)s::text[]) v(id, progress)
    WHERE i.id = v.id AND i.id = ANY(%(ids)s::uuid[])
""")


def show_progress(db: BaseDatabaseWrapper, claim: Claim, text: str) -> bool:
    """While its step runs; False where the claim was lost, or the row is held just now."""
    return bool(fetch(db, _SHOW, {"progress": text, "id": claim.id, "fence": claim.fence}))


def find_progressed(db: BaseDatabaseWrapper, ids: Sequence[UUID]) -> dict[UUID, float]:
    """When each of these instances last said how far it is, in seconds since 1970, where it ever did."""
    return dict(fetch(db, _FIND, {"ids": list(ids)}))


def list_advancing(claims: Sequence[Claim]) -> list[Claim]:
    """Those whose run said something that is not kept yet."""
    return [one for one in claims if one.progress is not one.kept]


def keep_progress(db: BaseDatabaseWrapper, claims: Sequence[Claim], applied: Collection[str]) -> None:
    """In the transaction that ended their runs: the last that each of them said."""
    said = [one for one in claims if one.id in applied]
    if said:
        texts = write_texts([one.progress for one in said])
        fetch(db, _KEEP, {"ids": write_plain([one.id for one in said]), "texts": texts}, rows=False)
