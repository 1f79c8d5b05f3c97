"""Sealing the history, and the anchors of its chains.

Lives here: new seals, and the ends of the chains to be kept elsewhere. Must not live here: SQL, and what a seal proves.
Invariant owned: one call of `seal_ledger` has an end, however much is left to seal.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.store.ledger import ledger_audit
from workflows.store.ledger import seals as seal
from workflows.store.sql import in_transaction


@dataclass(frozen=True, slots=True)
class Anchor:
    """The end of a workspace's chain at some moment, to be kept where the database's owner cannot write."""

    workspace: str
    number: int
    hash: str
    to_xid: int
    sealed_at: str


def seal_ledger(db: BaseDatabaseWrapper, *, batches: int = 20, limit: int = seal.BATCH) -> int:
    """Seal what has been committed since the last time; how many seals that made. Another sealer at work: none.

    Bounded, so that it can run between other things: what is left is for the next call.
    """
    made, more = 0, True
    while more and batches > 0:
        seals, more = in_transaction(db, lambda: seal.seal_batch(db, limit))
        made, batches = made + seals, batches - 1
    return made


def make_anchors(db: BaseDatabaseWrapper, workspace: int | None = None) -> list[Anchor]:
    """The ends of the chains as they are now."""
    return [
        Anchor(slug, number, bytes(digest).hex(), to_xid, sealed_at.astimezone(UTC).isoformat())
        for slug, number, digest, to_xid, sealed_at in ledger_audit.read_heads(db, workspace)
    ]


def write_moment(moment: datetime | None) -> str | None:
    """A moment in UTC, as anchors and exports have it."""
    return None if moment is None else moment.astimezone(UTC).isoformat()
