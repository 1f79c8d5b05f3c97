"""Threads of this process that callers hold while nothing is computed: they wait for an end, or for a body.

A server program that knows how many threads it has sets `PLACES.most`; without it nothing is limited here.
Invariant owned: both kinds together never hold more than that, so a thread is left for everybody else.
"""

from __future__ import annotations

import os
import threading


class Places:
    """How many threads are held just now."""

    def __init__(self) -> None:
        #: Of the process's threads, those that may be held.
        self.most: int | None = None
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def take(self) -> bool:
        """Hold one more; False where that is one too many."""
        with self._lock:
            if self.most is not None and self._held >= self.most:
                return False
            self._held += 1
            return True

    def give_back(self) -> None:
        """Hold one less."""
        with self._lock:
            self._held -= 1

    def _forget(self) -> None:
        """In a forked child: the other threads did not come along."""
        self._lock = threading.Lock()
        self._held = 0


PLACES = Places()
