"""How far back a claim looks within a lane.

Entries of rows that are done stay in the index as long as somebody's snapshot is older, and a claim from the old end of
a lane reads them all. Must not live here: SQL. Invariant owned: all of a lane is looked at once a second, and between
those looks whatever became due since the oldest row that the last of them has claimed.
"""

from __future__ import annotations

import time

from workflows import store

#: All of a lane is looked at so often, in seconds.
LOOK_BACK_EVERY = 1.0
#: How long a caller's transaction may last after it has woken somebody, and be found at once all the same.
COMMIT_MARGIN = 1.0
#: Lanes that are remembered.
MOST_REMEMBERED = 5_000

Place = tuple[int, int, int]


class LookBacks:
    """What one pump remembers of lanes."""

    def __init__(self) -> None:
        #: When all of a lane was looked at, and a moment before which nothing was due then.
        self._oldest: dict[Place, tuple[float, float]] = {}

    def find_seconds(self, lane: Place) -> float:
        """How many seconds back from now a claim has to look."""
        now = time.monotonic()
        looked_at, oldest = self._oldest.get(lane, (float("-inf"), 0.0))
        return now - oldest if now - looked_at < LOOK_BACK_EVERY else store.EVER

    def learn(self, lane: Place, waited: float) -> None:
        """All of a lane was looked at, and the oldest row that was claimed had been due for so long."""
        now = time.monotonic()
        if len(self._oldest) >= MOST_REMEMBERED:
            self._oldest = {at: one for at, one in self._oldest.items() if now - one[0] < LOOK_BACK_EVERY}
        self._oldest[lane] = now, now - waited - COMMIT_MARGIN
