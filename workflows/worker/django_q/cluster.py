"""What a worker process can see of the django-q cluster it belongs to: its queues, and whether they move.

Lives here: all that leans on how django-q and multiprocessing are built, so that one file has to be read
when they change; whatever is not found is treated as absent. Invariant owned: a queue whose reader died
while it held the lock is freed; nothing else could, and no task would ever run in that cluster again.
"""

from __future__ import annotations

import logging
import multiprocessing
import random
import time
from multiprocessing.queues import Queue
from typing import Any

logger = logging.getLogger("workflows")

#: Other tasks must have waited this long before the pump makes room for them.
YIELD_AFTER = 0.3
#: An idle reader takes a message within microseconds; one that has not for so long is dead.
DEAD_AFTER = 2.5
#: Then it is looked at so often more, at moments of chance that are so many seconds apart at most: every process of the
#: cluster comes to the same end at the same moment, and one that was faster has freed the lock by then.
LAST_LOOKS = 20
LOOKS_APART = 0.04


class WaitingTasks:
    """Whether other tasks (or the order to stop) wait in the cluster's memory for a free worker.

    A task that another worker takes at once is no reason to leave; one still there a moment later is.
    django-q's own count is not asked: a worker killed at the wrong moment leaves it wrong for ever.
    """

    def __init__(self) -> None:
        self._queue = next(iter(find_queues()), None)
        self._since: float | None = None

    def persist(self) -> bool:
        """To be asked often."""
        if self._queue is None or Queue.empty(self._queue):
            self._since = None
            return False
        now = time.monotonic()
        self._since = self._since or now
        return now - self._since > YIELD_AFTER


class DeadReader:
    """Frees one queue from the lock of a killed process.

    Processes that wait for a message hold the queue's lock while they wait, and a killed one holds it for
    ever. Alive, it would have taken the message: a message that lies there although the lock is held, look
    after look, proves the holder dead. When all readers are merely busy, the lock is free.
    """

    def __init__(self, queue: Queue[Any]) -> None:
        self._queue = queue
        self._since: float | None = None

    def look(self) -> bool:
        """To be asked about once a second; whether the lock was freed just now."""
        if Queue.empty(self._queue) or _is_free(self._queue):
            self._since = None
            return False
        now = time.monotonic()
        self._since = self._since or now
        if now - self._since < DEAD_AFTER:
            return False
        self._since = None
        if not self._stands_still():
            return False
        _lock_of(self._queue).release()  # a multiprocessing lock belongs to nobody: any process may
        logger.warning("a process of this cluster was killed while it held a queue's lock; the queue is free again")
        return True

    def _stands_still(self) -> bool:
        for _ in range(LAST_LOOKS):
            time.sleep(random.uniform(0.0, LOOKS_APART))
            if Queue.empty(self._queue) or _is_free(self._queue):
                return False
        return True


def find_queues() -> list[Queue[Any]]:
    """The task queue and the result queue, which django-q hands to each worker as its first arguments."""
    arguments: Any = getattr(multiprocessing.current_process(), "_args", ())
    return [one for one in arguments[:2] if isinstance(one, Queue) and _lock_of(one) is not None]


def _lock_of(queue: Queue[Any]) -> Any:
    return getattr(queue, "_rlock", None)


def _is_free(queue: Queue[Any]) -> bool:
    lock = _lock_of(queue)
    if not lock.acquire(block=False):
        return False
    lock.release()
    return True
