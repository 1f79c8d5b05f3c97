"""What one pump holds: claimed instances, some run already, one running, the rest waiting their turn.

Two threads share it: the pump, which runs steps, and its keeper, which takes work away from a pump that
is stuck in a long step. Invariant owned: every claim is in exactly one place, so it is run, given back
or committed by one of them only.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence

from workflows.store import Claim, Commit


class Batch:
    """Claims on their way through one pump."""

    def __init__(self, claims: Sequence[Claim], owed: Sequence[Commit] = ()) -> None:
        self._lock = threading.Lock()
        self._waiting = deque(claims)
        self._finished: list[Commit] = []
        #: Being committed by one of the two threads: their leases are kept until that has worked.
        self._settling: list[Commit] = list(owed)
        self.running: Claim | None = None
        self.since = 0.0

    def begin_next(self) -> Claim | None:
        """The next claim to run; None when nothing waits (or the keeper has taken the rest)."""
        with self._lock:
            self.running = self._waiting.popleft() if self._waiting else None
            self.since = time.monotonic()
            return self.running

    def finish(self, commit: Commit | None) -> None:
        """The running claim has its outcome (None: committed by itself already)."""
        with self._lock:
            self.running = None
            if commit is not None:
                self._finished.append(commit)

    def take_finished(self) -> list[Commit]:
        """Outcomes to commit; whoever takes them commits them, and then says so."""
        with self._lock:
            taken, self._finished = self._finished, []
            self._settling.extend(taken)
            return taken

    def forget(self, settled: Sequence[Commit]) -> None:
        """These outcomes are committed."""
        with self._lock:
            done = {id(one) for one in settled}
            self._settling = [one for one in self._settling if id(one) not in done]

    def take_waiting(self) -> list[Claim]:
        """Claims nobody has begun; whoever takes them gives them back."""
        with self._lock:
            taken = list(self._waiting)
            self._waiting.clear()
            return taken

    def give_back(self, waiting: Sequence[Claim], finished: Sequence[Commit]) -> None:
        """Whoever took these could not do it: they are the batch's again."""
        with self._lock:
            done = {id(one) for one in finished}
            self._settling = [one for one in self._settling if id(one) not in done]
            self._waiting.extend(waiting)
            self._finished.extend(finished)

    def list_held(self) -> list[Claim]:
        """Everything whose lease must be kept."""
        with self._lock:
            running = [self.running] if self.running is not None else []
            outcomes = [*self._finished, *self._settling]
            return running + list(self._waiting) + [one.claim for one in outcomes]
