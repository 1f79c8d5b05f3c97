"""Outcomes that could not be committed in their turn: a row was held, or the database away.

Invariants owned: none is lost while its pump lives, and the fence makes it safe to be late. One that is kept out for
longer keeps no other from its turn.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows import engine, store
from workflows.engine.author_calls import Host

PAY_EVERY = 1.0
#: What is owed may be kept out by more than its row (the key of a child): so many are waited for in vain at a time.
MOST_IN_VAIN = 5


class OwedOutcomes:
    """What one pump owes."""

    def __init__(self) -> None:
        self.commits: list[store.Commit] = []
        self._paid_at = 0.0

    def add(self, commits: Sequence[store.Commit]) -> None:
        """These could not be committed."""
        self.commits += commits

    def list_claims(self) -> list[store.Claim]:
        """Claims whose leases must be kept."""
        return [one.claim for one in self.commits]

    def pay(self, db: BaseDatabaseWrapper, host: Host | None) -> None:
        """Try them again, when it is time to."""
        if self.commits and time.monotonic() - self._paid_at > PAY_EVERY:
            self._paid_at = time.monotonic()
            # Not every owed row is locked so that nobody can take it: a wait for an event may want that event's lock.
            store.renew(db, self.list_claims())
            self.settle(db, host)

    def settle(self, db: BaseDatabaseWrapper, host: Host | None) -> None:
        """Commit those that nothing keeps out any more."""
        late = deque(one for one in self.commits if one.again is not None)
        owed, self.commits = [one for one in self.commits if one.again is None], []
        assert host is not None
        vain, kept = 0, list[store.Commit]()
        free: set[str] | None = None
        try:
            while late:
                if vain == MOST_IN_VAIN or (free is not None and late[0].claim.id not in free):
                    kept.append(late.popleft())
                    continue
                result = engine.complete(late[0], host)
                late.popleft()
                if isinstance(result, store.RunEnd):
                    continue
                owed.append(result)
                if result.again is not None:
                    vain += 1
                    free = store.list_free(db, [one.claim.id for one in late])
            self.commits += kept  # before those tried just now, so that each has its turn
            engine.settle(db, owed, self.commits)
        except BaseException:
            self.commits = [*kept, *late, *owed]
            raise
