"""What a pump claims next, and how much of it.

Lives here: when everything due is looked at, and when only what became due lately; whose turn it is besides. Must not
live here: running what was claimed. Invariants owned:

* A batch takes half a second at the pace of the last one.
* Neither instances that run alone nor those of an unknown workflow keep the others from their turn.
"""

from __future__ import annotations

import time

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows import store
from workflows.definitions import registry
from workflows.worker.lease_keeper import LONG_STEP

BATCH = 500
#: The first claim is small: how long the steps take is not known yet, and others may be idle.
FIRST_BATCH = 32
#: Of what may be due the claims look at what became so after the oldest they saw, and at all of it so often: entries of
#: rows that are done stay in the index while somebody's snapshot is older, and reading them costs more and more.
LOOK_BACK_EVERY = 1.0
#: How long a caller's transaction may last after it has woken somebody, and be found at once all the same.
COMMIT_MARGIN = 1.0
#: Whoever was notified of work and found none looks at all of it, but not more often than that.
NOTIFIED_EVERY = 0.25
#: Where nothing waits beside those that run alone, it is looked for so often.
FAIR_EVERY = 0.1


class ClaimSchedule:
    """One pump's claims, one after the other."""

    def __init__(self) -> None:
        self._limit = FIRST_BATCH
        #: Nothing that may be claimed was due before this moment when everything was last looked at.
        self._oldest = 0.0
        self._looked_back_at = float("-inf")
        self._fair_at = 0.0
        #: Whether somebody has said since the last claim that there is work.
        self.notified = False
        self._after_solo = self._after_unknown = False

    def take(self, db: BaseDatabaseWrapper) -> list[store.Claim]:
        """Claim the next batch; empty where nothing is found."""
        began = time.monotonic()
        claims = self._take_recent(db) if began - self._looked_back_at < LOOK_BACK_EVERY else []
        rest = NOTIFIED_EVERY if self.notified else LOOK_BACK_EVERY
        if not claims and began - self._looked_back_at >= rest:
            claims = store.claim(db, self._limit)
            waited = max((one.waited for one in claims), default=0.0)
            self._looked_back_at, self._oldest = began, began - waited - COMMIT_MARGIN
        self.notified = False
        self._after_solo = bool(claims) and claims[0].solo
        return claims

    def learn(self, ran: int, seconds: float, *, unknown: int) -> None:
        """A batch is over: so many were run, of which so many belong to no workflow that this process knows."""
        self._after_unknown = 2 * unknown > ran
        self._limit = BATCH if seconds <= 0 or not ran else max(1, min(BATCH, int(ran * LONG_STEP / 2 / seconds)))

    def _take_recent(self, db: BaseDatabaseWrapper) -> list[store.Claim]:
        back = time.monotonic() - self._oldest
        # One that runs alone takes a whole turn, and a dead machine leaves thousands. A workflow that was removed may
        # leave as many that can only be put back. In both cases others come in between.
        if (self._after_solo or self._after_unknown) and time.monotonic() >= self._fair_at:
            known = registry.list_names() if self._after_unknown else None
            self._after_unknown = False
            if claims := store.claim(db, self._limit, back=back, solos=not self._after_solo, known=known):
                return claims
            self._fair_at = time.monotonic() + FAIR_EVERY
        return store.claim(db, self._limit, back=back)
