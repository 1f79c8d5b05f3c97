"""The pump's second thread: it renews leases and keeps one long step from holding up its neighbours.

A thread and not the pump itself, because the pump is inside the author's code when this is needed. It
only looks at a variable four times a second and touches the database only when a step has run for a second.
Invariant owned: nothing that has not begun waits behind a step longer than `LONG_STEP`, and no step runs
past its limit unnoticed.
"""

from __future__ import annotations

import ctypes
import logging
import signal
import threading
import time
from types import FrameType
from typing import Any, Protocol

from django.db import DatabaseError, InterfaceError, connections
from django.db.backends.base.base import BaseDatabaseWrapper

from workflows import engine, store
from workflows.exceptions import StepTimedOut
from workflows.store import Claim
from workflows.worker.batch import Batch

logger = logging.getLogger("workflows")

LONG_STEP = 1.0
RENEW_EVERY = 3.0
LOOK_EVERY = 0.25
#: Seconds between two writes of how far the running step is.
PROGRESS_EVERY = 0.5

#: Interrupts a blocking call on the main thread; SIGALRM belongs to django-q, which uses it there too.
INTERRUPT = signal.SIGVTALRM


class KeptPump(Protocol):
    """What a keeper asks of the pump whose batch it watches; always from its own thread, but for an interruption."""

    def connect(self) -> BaseDatabaseWrapper:
        """A connection for the keeper."""

    def find_limit(self, claim: Claim) -> float:
        """Seconds the claimed step may run."""

    def is_in_author(self) -> bool:
        """Whether the author's code is running just now."""

    def interrupt_author(self) -> None:
        """The author's code is about to be interrupted."""

    def beat_on(self, db: BaseDatabaseWrapper) -> None:
        """Write the heartbeat, while a step takes long."""

    def give_up_role(self, db: BaseDatabaseWrapper) -> None:
        """A long step has begun: another pump may take the place."""

    def report_stuck(self) -> None:
        """A step past its limit ignores the interruption."""


class Keeper:
    """Watches the batch that its pump is running."""

    def __init__(self, pump: KeptPump) -> None:
        self._pump = pump
        self._db: BaseDatabaseWrapper | None = None
        self._batch: Batch | None = None
        self._told_long = False
        self._renewed = self._progressed = 0.0
        #: Whose rows were held at the last renewal: they are tried again at each look.
        self._held_up: set[str] = set()
        self._ended = threading.Event()
        #: Whose step an interruption on its way is meant for.
        self._target: Any = None
        self._pump_thread = threading.get_ident()
        self._on_main = threading.current_thread() is threading.main_thread()
        self._thread = threading.Thread(target=self._run, name="holdpoint-keeper", daemon=True)
        self._old_handler: Any = None

    def start(self) -> None:
        """Begin watching; called by the pump's thread."""
        if self._on_main:
            self._old_handler = signal.signal(INTERRUPT, self._interrupted)
        self._thread.start()

    def stop(self) -> None:
        """End the thread and give the signal back."""
        self._ended.set()
        self._thread.join(timeout=10)
        if self._on_main and self._old_handler is not None:
            signal.signal(INTERRUPT, self._old_handler)

    def watch(self, batch: Batch) -> None:
        """A batch begins."""
        self._batch, self._told_long, self._renewed = batch, False, time.monotonic()

    def rest(self) -> None:
        """The batch has ended."""
        self._batch = None

    def _run(self) -> None:
        # Waking this thread for every batch would cost the pump a change of threads each time.
        while not self._ended.wait(LOOK_EVERY):
            batch = self._batch
            if batch is None:
                continue
            try:
                self._look(batch)
            except (DatabaseError, InterfaceError) as error:
                # Leases end by themselves; a new connection is made at the next look.
                logger.warning("the keeper cannot reach the database: %s", error)
                self._disconnect()
            except Exception:
                logger.exception("the keeper failed; it goes on")
        self._disconnect()
        connections.close_all()  # this thread's own: asking for a successor went through the ORM

    def _look(self, batch: Batch) -> None:
        now = time.monotonic()
        claim, ran = batch.running, now - batch.since
        if claim is not None and ran > LONG_STEP:
            if ran > self._pump.find_limit(claim):
                self._interrupt(claim)  # first: it needs no database
            self._free_neighbours(batch)
        # A step past its limit that ignores the interruption loses its lease, so that others go on,
        # and its worker the heartbeat: nothing can be expected of it.
        stuck = claim is not None and ran > self._pump.find_limit(claim) + store.LEASE_SECONDS
        if now - self._renewed > RENEW_EVERY:
            self._renewed = now
            if stuck:
                self._pump.report_stuck()
            else:
                held = batch.list_held()
                self._held_up = {one.id for one in held} - store.renew(self._reach(), held)
                self._pump.beat_on(self._reach())
        elif self._held_up and not stuck:
            again = [one for one in batch.list_held() if one.id in self._held_up]
            self._held_up = {one.id for one in again} - store.renew(self._reach(), again)
        if claim is not None and claim.progress is not claim.kept and now - self._progressed >= PROGRESS_EVERY:
            self._keep_progress(claim)

    def _keep_progress(self, claim: Claim) -> None:
        """What the running step has said since; the end of its run keeps the last of it, whatever is kept here."""
        text = claim.progress
        if text is not None and store.show_progress(self._reach(), claim, text):
            claim.kept, self._progressed = text, time.monotonic()

    def _free_neighbours(self, batch: Batch) -> None:
        # Connected before anything is taken, and put back when it cannot be done: doing either twice is harmless,
        # because of the fence. First what nobody has begun: others can take it at once.
        db = self._reach()
        waiting = batch.take_waiting()
        released: set[str] = set()
        try:
            released = store.release(db, waiting)
        finally:
            batch.put_back(waiting, [one for one in waiting if one.id not in released])
        finished = batch.take_finished() + batch.take_owed()
        unsettled = finished
        try:
            # A channel's code is for the pump's own thread, which settles what is blocked.
            blocked: list[Any] = [one for one in finished if store.may_close(one)]
            engine.settle(db, [one for one in finished if not store.may_close(one)], blocked)
            unsettled = blocked
        finally:
            batch.put_back(finished, unsettled)
        if not self._told_long:
            self._told_long = True
            self._pump.give_up_role(self._reach())

    def _interrupt(self, claim: Any) -> None:
        if not self._hits(claim):
            return
        self._target = claim
        if self._on_main:
            signal.pthread_kill(self._pump_thread, INTERRUPT)
        else:
            # Lands at the next bytecode: enough for Python code; a blocking call ends it late.
            ctypes.pythonapi.PyThreadState_SetAsyncExc(
                ctypes.c_ulong(self._pump_thread), ctypes.py_object(StepTimedOut)
            )

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        # Runs in the pump's thread: what was running when the signal was sent may have ended since.
        if self._hits(self._target):
            self._pump.interrupt_author()  # and nothing but author's code is ever interrupted
            raise StepTimedOut

    def _hits(self, claim: Any) -> bool:
        batch = self._batch
        return self._pump.is_in_author() and batch is not None and claim is not None and batch.running is claim

    def _reach(self) -> BaseDatabaseWrapper:
        if self._db is None:
            self._db = self._pump.connect()
        return self._db

    def _disconnect(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None
