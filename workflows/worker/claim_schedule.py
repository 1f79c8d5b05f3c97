"""What a pump claims next, and how much of it.

Lives here: when everything due is looked at, and when only what became due lately; whose turn it is besides. Must not
live here: running what was claimed. Invariants owned:

* A batch takes half a second at the pace of the last one.
* Neither instances that run alone nor those of an unknown workflow keep the others from their turn.
* Plain instances and those in lanes take turns, while both wait. In the default queue a higher priority comes first,
  but for one turn in so many, and a lower one only when nothing else does.
"""

from __future__ import annotations

import time
from collections.abc import Collection

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows import store
from workflows.definitions import registry
from workflows.definitions.flow.flow_options import DEFAULT_QUEUE
from workflows.engine.lanes.flow_claims import READ_EVERY, FlowClaims
from workflows.engine.lanes.lane_search import REST
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
#: Whether there are lanes is asked so often where nothing else is found.
LOOK_FOR_LANES_EVERY = 0.25
#: Somebody waits for what a worker was notified of: what is set at run time is read before it only when it is so old.
READ_AT_LEAST = 4 * READ_EVERY
#: While plain instances wait, lanes that let nothing through are looked at again after so long, or later where the look
#: was dear: it takes a tenth of the time at most.
LOOK_AGAIN = 0.05
#: Where none of those was found that are held back, they are looked for again so often.
ADOPT_EVERY = 0.5
#: Of so many turns of higher priorities the last one is left to plain instances.
URGENT_TURNS = 4


class ClaimSchedule:
    """One pump's claims, one after the other."""

    def __init__(self, queues: Collection[str] | None = None) -> None:
        #: What is in lanes; of some queues only, where the worker serves no others.
        self._flow = FlowClaims(queues)
        self._urgent = 0
        self._after_lanes = False
        self._look_at = 0.0
        self._limit = FIRST_BATCH
        #: Nothing that may be claimed was due before this moment when everything was last looked at.
        self._oldest = 0.0
        self._looked_back_at = float("-inf")
        self._fair_at = 0.0
        #: Whether somebody has said since the last claim that there is work.
        self.notified = False
        self._after_solo = self._after_unknown = False
        #: Plain instances that somebody holds back.
        self._kept: list[tuple[int, str]] = []
        self._adopt_at = float("-inf")

    def take(self, db: BaseDatabaseWrapper) -> list[store.Claim]:
        """Claim the next batch; empty where nothing is found."""
        notified = self.notified
        self._flow.refresh(db, patience=READ_AT_LEAST if notified else READ_EVERY)
        if self._flow.is_active():
            return self._take_turns(db)
        claims = self._take_plain(db)
        if not claims:
            self._flow.refresh(db, patience=0.0 if notified else LOOK_FOR_LANES_EVERY)
            if self._flow.is_active():
                return self._take_turns(db)
        return claims

    def _take_turns(self, db: BaseDatabaseWrapper) -> list[store.Claim]:
        # Where all lanes were full or held back a moment ago, plain instances do not pay for another look.
        if time.monotonic() < self._look_at and (claims := self._take_plain(db)):
            return claims
        self.notified = False
        began = time.monotonic()
        lanes = self._flow.look(db)
        looked = time.monotonic()
        self._look_at = looked + (0.0 if lanes else max(LOOK_AGAIN, REST * (looked - began)))
        low = [one for one in lanes if one.queue == DEFAULT_QUEUE and one.priority < 0]
        others = [one for one in lanes if one.queue != DEFAULT_QUEUE or one.priority >= 0]
        urgent = any(one.queue == DEFAULT_QUEUE and one.priority > 0 for one in others)
        self._urgent = (self._urgent + 1) % URGENT_TURNS if urgent else 0
        lanes_first = bool(self._urgent) if urgent else not self._after_lanes
        claims = self._flow.take(db, others, self._limit) if lanes_first and others else []
        self._after_lanes = bool(claims)
        if not claims:
            claims = self._take_plain(db)
        if not claims and not lanes_first and others:
            claims = self._flow.take(db, others, self._limit)
        if not claims and low:
            claims = self._flow.take(db, low, self._limit)
        # What was found is open and lets nothing through just now, such as a rate that is used up: there may be more.
        while not claims and lanes and (lanes := self._flow.look_on(db)):
            claims = self._flow.take(db, lanes, self._limit)
        return claims

    def _take_plain(self, db: BaseDatabaseWrapper) -> list[store.Claim]:
        if not self._flow.serves_default:
            self.notified = False
            return []
        self._kept = self._flow.list_kept()
        if self._kept and time.monotonic() >= self._adopt_at and not store.adopt_plain(db, self._kept):
            self._adopt_at = time.monotonic() + ADOPT_EVERY
        began = time.monotonic()
        claims = self._take_recent(db) if began - self._looked_back_at < LOOK_BACK_EVERY else []
        rest = NOTIFIED_EVERY if self.notified else LOOK_BACK_EVERY
        if not claims and began - self._looked_back_at >= rest:
            claims = store.claim(db, self._limit, kept=self._kept)
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
            if claims := store.claim(
                db, self._limit, back=back, solos=not self._after_solo, known=known, kept=self._kept
            ):
                return claims
            self._fair_at = time.monotonic() + FAIR_EVERY
        return store.claim(db, self._limit, back=back, kept=self._kept)
