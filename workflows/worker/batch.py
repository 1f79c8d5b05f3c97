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

    def __init__(self, claims: Sequence[Claim], kept: Sequence[Claim] = ()) -> None:
        self._lock = threading.Lock()
        self._waiting = deque(claims)
        self._finished: list[Commit] = []
        #: Finished, and kept out by a row that somebody holds: tried again when the batch is over or a step takes long.
        self._owed: list[Commit] = []
        #: Taken by one of the two threads and not yet answered for: their leases are kept until that has worked.
        self._releasing: list[Claim] = []
        self._settling: list[Commit] = []
        #: Of earlier batches: they are in other hands, and only their leases are kept here.
        self._kept = list(kept)
        self.running: Claim | None = None
        self.since = 0.0

    def begin_next(self) -> Claim | None:
        """The next claim to run; None when nothing waits (or the keeper has taken the rest)."""
        with self._lock:
            self.running = self._waiting.popleft() if self._waiting else None
            self.since = time.monotonic()
            return self.running

    def finish(self, commit: Commit | None) -> None:
        """The running claim has its outcome (None: it leaves nothing to commit)."""
        with self._lock:
            self.running = None
            if commit is not None:
                self._finished.append(commit)

    def take_finished(self) -> list[Commit]:
        """Outcomes to commit; whoever takes them answers for them with `put_back`."""
        with self._lock:
            taken, self._finished = self._finished, []
            self._settling.extend(taken)
            return taken

    def owe(self, blocked: Sequence[Commit]) -> None:
        """Outcomes that could not be committed just now; their leases are kept meanwhile."""
        with self._lock:
            self._owed.extend(blocked)

    def take_owed(self) -> list[Commit]:
        """Those, to be tried again; whoever takes them answers for them with `put_back`."""
        with self._lock:
            taken, self._owed = self._owed, []
            self._settling.extend(taken)
            return taken

    def take_waiting(self) -> list[Claim]:
        """Claims nobody has begun, to be released; whoever takes them answers for them with `put_back`."""
        with self._lock:
            taken = list(self._waiting)
            self._waiting.clear()
            self._releasing.extend(taken)
            return taken

    def put_back(self, taken: Sequence[Claim] | Sequence[Commit], left: Sequence[Claim] | Sequence[Commit]) -> None:
        """Whoever took these has done them, but for what is left: that is the batch's again."""
        with self._lock:
            done = {id(one) for one in taken}
            self._settling = [one for one in self._settling if id(one) not in done]
            self._releasing = [one for one in self._releasing if id(one) not in done]
            for one in left:
                if isinstance(one, Commit):
                    self._finished.append(one)
                else:
                    self._waiting.append(one)

    def is_over(self) -> bool:
        """Whether all of it has been answered for, so that nothing can come back to it."""
        with self._lock:
            held = self._waiting or self._finished or self._owed or self._releasing or self._settling
            return self.running is None and not held

    def list_held(self) -> list[Claim]:
        """Everything whose lease must be kept."""
        with self._lock:
            running = [self.running] if self.running is not None else []
            outcomes = [one.claim for one in (*self._finished, *self._owed, *self._settling)]
            return [*running, *self._waiting, *self._releasing, *outcomes, *self._kept]
