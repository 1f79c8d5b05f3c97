"""Ending questions that can be sent no more: a single one, or an item, whose unit's policy then decides.

Invariant owned: the try was written down before, with its lease, so whatever a crash leaves undone here is tried once
more when the lease ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows import store
from workflows.units.ends import follow_up


def fail_unsent(
    db: BaseDatabaseWrapper, singles: Sequence[tuple[UUID, str]], items: Sequence[tuple[UUID, str]]
) -> None:
    """End each with its reason."""
    for id, reason in singles:
        store.fail_question(db, id, reason)
    if items:
        failures = [store.ItemFailure(id, reason) for id, reason in items]
        follow_up(db, store.retrying(db, lambda: store.fail_items(db, failures, actor="")))
