"""Finding lanes of which something may be claimed, however many there are that are closed.

Lives here: the first lanes, which are looked at for every claim, and those beyond, in rounds. Must not live here: which
lane is open, and whose turn it is. Invariants owned:

* A look goes on at once where it finds nothing but closed lanes, so one that is open behind them does not wait for the
  next look; but it ends after a while, and the next one begins where it ended.
* What was looked at in vain beyond the first lanes takes a tenth of the time at most.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence

from workflows import store
from workflows.store import Lane

#: Lanes of one statement.
MOST_LANES = 500
#: Seconds for which a look goes on while it finds nothing.
LOOK_ON = 0.1
#: After a look beyond the first lanes that has found nothing, so many times what it took is nothing looked at there.
REST = 9

#: Of a look that ends with its round only.
FOREVER = float("inf")

Place = tuple[int, int, int]
#: So many lanes behind a place.
Page = Callable[[Place, int], list[Lane]]


def max_place(one: Place, other: Place) -> Place:
    """Of two places the one that comes later, where the first may be the top again.

    >>> max_place((5, 1, 1), (3, 1, 1))
    (3, 1, 1)
    """
    return min(one, other)


class LaneSearch:
    """One pump's looks."""

    def __init__(self, is_open: Callable[[Lane], bool], patience: float | None = None) -> None:
        self._is_open = is_open
        self._patience = LOOK_ON if patience is None else patience
        #: Behind which lane the next look begins beyond the first ones.
        self._cursor = store.TOP
        #: The lanes beyond the first ones that were found open last.
        self._window: list[Place] = []
        self._rests_until = self._began = float("-inf")
        #: Of this look: where the first lanes end, where it has begun beyond them, and where it is.
        self._first = self._start = self._at = store.TOP
        self._is_over, self._has_turned = True, False
        #: All that the last look has seen, closed ones too.
        self.seen: list[Lane] = []

    @property
    def is_thorough(self) -> bool:
        """Whether a look goes on until nothing is left."""
        return self._patience == FOREVER

    def look(self, page: Page) -> list[Lane]:
        """The open ones among the first lanes, and some of those beyond."""
        self._began = time.monotonic()
        self.seen = lanes = page(store.TOP, MOST_LANES)
        self._window = []
        self._is_over = len(lanes) < MOST_LANES or self._began < self._rests_until
        if not self._is_over:
            self._first = lanes[-1].place
            self._start = self._at = max_place(self._cursor, self._first)
            self._has_turned = False
        return [one for one in lanes if self._is_open(one)] + self._find_more(page)

    def look_on(self, page: Page) -> list[Lane]:
        """More of those beyond; none where all of them were looked at, or for long enough.

        What was found before has brought nothing, and took its time as well.
        """
        if not self._is_over and self._ends_in_vain():
            self._cursor = self._at
        return self._find_more(page)

    def _find_more(self, page: Page) -> list[Lane]:
        while not self._is_over:
            begins_at = self._at
            lanes = page(begins_at, MOST_LANES)
            self.seen = self.seen + lanes
            self._is_over = self._go_behind(lanes)
            if found := [one for one in lanes if self._is_open(one)]:
                self._cursor = begins_at
                self._window = [one.place for one in found]
                return found
            self._cursor = self._at
            self._ends_in_vain()
        return []

    def _ends_in_vain(self) -> bool:
        """Whether nothing is left to be looked at, or no time; then it rests."""
        spent = time.monotonic() - self._began
        if (self._is_over or spent >= self._patience) and not self.is_thorough:
            self._is_over = True
            self._rests_until = self._began + spent * (1 + REST)
        return self._is_over

    def pass_over(self, tried: Collection[Place]) -> None:
        """The next look begins after those that have had their turn, and not before it is theirs."""
        self._cursor = min([self._cursor, *(one for one in self._window if one in tried)])

    def _go_behind(self, lanes: Sequence[Lane]) -> bool:
        """Go behind these, and from the last lane to the first ones; whether the round is where it has begun."""
        is_last = len(lanes) < MOST_LANES
        self._at = self._first if is_last else lanes[-1].place
        if is_last and self._start != self._first and not self._has_turned:
            self._has_turned = True
            return False
        return is_last or (self._has_turned and self._at <= self._start)
