"""One thread in every django-q worker process that sees to it that somebody pumps.

A django-q cluster can lose its way: a killed idle worker takes the queue's lock with it, and no task
ever runs again although every process looks alive. So each worker frees such locks, and watches the
pump's heartbeat row; when it is silent for 3 s one of them enqueues a pump, and when that has not begun
3 s later, a watcher pumps itself, in its thread. It steps in sooner where it knows more: when the pump of
its own process ended and no other task has begun half a second later, all workers are busy.
Invariant owned: while any worker process of a cluster lives, workflows move.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import threading
import time
from multiprocessing import util
from typing import Any

from django.db import DatabaseError, InterfaceError, connections

from workflows import store
from workflows.exceptions import StepTimedOut
from workflows.worker.django_q.cluster import DeadReader, find_queues
from workflows.worker.pump import Pump
from workflows.worker.silent_connections import Lookout

logger = logging.getLogger("workflows")

LOOK_EVERY = 1.0
SILENCE = 3.0
#: How soon the successor of a pump must have begun: the queue is polled every 0.2 s.
HANDOVER = 0.5
#: So long after its start a process may find that nobody has pumped for a while.
BEGINNING = 15.0
#: A watcher that pumps asks this often for a pump task, which takes the role from it when it begins.
TURN_SECONDS = 60.0
#: A process that ends waits this long for the step that its watcher is running.
LAST_STEP_SECONDS = 5.0

_handed_over = threading.Event()
_watching: int | None = None


def start_watching(**kwargs: Any) -> None:
    """Receiver of django-q's `post_spawn`, sent in each worker process after its fork."""
    global _watching
    if multiprocessing.parent_process() is None or _watching == os.getpid():
        return  # a task run in the caller's own process (sync=True): nothing was spawned
    _watching = os.getpid()
    _Watcher().start()


def expect_successor() -> None:
    """The pump of this process is ending: see that the next one begins at once."""
    _handed_over.set()


class _Watcher(threading.Thread):
    """Looks each second, and pumps when nobody else does."""

    def __init__(self, *, pump_first: bool = False) -> None:
        super().__init__(name="holdpoint-watch", daemon=True)
        self._pump_first = pump_first
        self._pump: Pump | None = None
        self._leaving = threading.Event()
        self._looks = 0
        self._born = time.monotonic()
        self._readers = [DeadReader(queue) for queue in find_queues()]
        # A daemon thread would die with its process in the middle of a step.
        util.Finalize(None, self._leave, exitpriority=10)

    def run(self) -> None:
        """Until the process ends, or another watcher took this one's place."""
        from workflows.worker.django_q import pump_queue

        if self._pump_first:
            time.sleep(HANDOVER)
        lookout = Lookout()
        lookout.watch(pump_queue.reach_database(), lambda: self._looks)
        lookout.start()
        while not self._leaving.is_set():
            pause = LOOK_EVERY
            self._looks += 1
            try:
                for reader in self._readers:
                    reader.look()
                pause = self._look(pump_queue.role_name())
            except (DatabaseError, InterfaceError):
                logger.info("the watcher cannot reach the database; it looks again in a second")
                pump_queue.reach_database().close()
            except (Exception, StepTimedOut):  # an interruption that came too late for its step
                logger.exception("the watcher failed; it goes on")
            if not self._leaving.is_set() and _handed_over.wait(pause):
                _handed_over.clear()
                time.sleep(HANDOVER)
                self._pump_first = True
        lookout.stop()
        connections.close_all()

    def _look(self, role: str) -> float:
        """Do what is needed; how long to wait before looking again."""
        from workflows.worker.django_q import pump_queue

        db = pump_queue.reach_database()
        silence, asked = store.silence(db, role)
        if self._pump_first:
            self._pump_first = False
            if silence is not None and silence > HANDOVER:
                logger.info("every worker is busy: pumping in a watch thread")
                self._pump_here(role)
            return LOOK_EVERY
        if silence is not None and silence < SILENCE:
            return min(LOOK_EVERY, SILENCE - silence + 0.01)
        if asked is None or silence is None or silence < asked:
            if ticket := store.suspect(db, role, "cluster", silence=SILENCE):
                pump_queue.push_pump(ticket)
        elif asked > SILENCE:
            # Just after a start the seconds are those in which nothing ran, and no reason to worry anybody.
            if time.monotonic() - self._born > BEGINNING:
                logger.warning("a pump was asked for and none has begun in %.1f s: pumping in a watch thread", asked)
            else:
                logger.info("the queue is still starting: workflows run in a watch thread until it does")
            self._pump_here(role)
        else:
            return min(LOOK_EVERY, SILENCE - asked + 0.01)
        return LOOK_EVERY

    def _pump_here(self, role: str) -> None:
        """Do a pump task's work in this thread until one begins."""
        from workflows.worker.django_q import pump_queue

        while not self._leaving.is_set() and self._pump_a_turn(role):
            try:
                pump_queue.push_pump(store.ask(pump_queue.reach_database(), role, "cluster"))
            except Exception:
                logger.exception("a pump task cannot be queued; the watch thread goes on pumping")

    def _pump_a_turn(self, role: str) -> bool:
        """False when a pump task has taken the role, or another watcher has taken over from a long step."""
        until = time.monotonic() + TURN_SECONDS
        self._pump = Pump(
            name=role,
            kind="watch",
            on_long_step=self._make_way,
            should_stop=lambda: self._leaving.is_set() or time.monotonic() > until,
        )
        try:
            return self._pump.run()
        finally:
            self._pump = None

    def _make_way(self) -> None:
        """A long step has begun in this thread: a fresh one pumps on, this one ends with its step."""
        self._leaving.set()
        _Watcher(pump_first=True).start()

    def _leave(self) -> None:
        """The process ends: finish the running step, give the rest back."""
        self._leaving.set()
        if (pump := self._pump) is not None:
            pump.stop()
            self.join(LAST_STEP_SECONDS)
