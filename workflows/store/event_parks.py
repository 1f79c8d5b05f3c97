"""Committing a wait for a named event.

Invariant owned: the row of the wait, the look back at earlier events and the park are one transaction, under the lock
that an emit of this event takes too. Whichever comes second sees what the first has committed, so that neither misses
the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows.definitions.awaited_event import EVENT
from workflows.store.commit import commit_locked, lock_claim
from workflows.store.named_events import lock_event, park_on_event
from workflows.store.planned_commit import Commit
from workflows.store.sql import atomic, read_clock, wait_for_locks


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
        armed = replace(park, names=(f"{EVENT}{wait}",))
        if park.step is not None and park.delay is not None:
            armed.delay = read_clock(db) + park.delay
        return bool(commit_locked(db, [armed]))
