"""One thread in every django-q worker process that sees to it that somebody pumps.

A django-q cluster can lose its way: a killed idle worker takes the queue's lock with it, and no task
ever runs again although every process looks alive. So each worker watches the pump's heartbeat row; when
it is silent for 3 s one of them enqueues a pump, and when that has not begun 3 s later, a watcher pumps
itself, in its thread. Invariant owned: while any worker process of a cluster lives, workflows move.
"""

from __future__ import annotations

import logging
import multiprocessing
import threading
import time
from typing import Any

from django.db import DatabaseError, InterfaceError, connections, router

from workflows import store
from workflows.models import Instance
from workflows.pump import Pump

logger = logging.getLogger("workflows")

LOOK_EVERY = 1.0
SILENCE = 3.0
#: A watcher that pumps asks this often for a pump task, which takes the role from it when it begins.
TURN_SECONDS = 20.0


def start_watching(**kwargs: Any) -> None:
    """Receiver of django-q's `post_spawn`, sent in each worker process after its fork."""
    if multiprocessing.parent_process() is None:
        return  # a task run in the caller's own process (sync=True): nothing was spawned
    threading.Thread(target=_watch, name="holdpoint-watch", daemon=True).start()


def _watch() -> None:
    from workflows import tasks

    while True:
        try:
            _look(tasks.role_name())
        except (DatabaseError, InterfaceError):
            logger.info("the watcher cannot reach the database; it looks again in a second")
            connections[router.db_for_write(Instance)].close()
        except Exception:
            logger.exception("the watcher failed; it goes on")
        time.sleep(LOOK_EVERY)


def _look(role: str) -> None:
    from workflows import tasks

    db = connections[router.db_for_write(Instance)]
    silence, asked = store.silence(db, role)
    if silence is not None and silence < SILENCE:
        return
    if asked is None or silence is None or silence < asked:
        if store.suspect(db, role, "cluster", silence=SILENCE):
            tasks.enqueue_pump()
        return
    if asked > SILENCE:
        _pump_here(role)


def _pump_here(role: str) -> None:
    """No pump task began although one was asked for: do its work in this thread until one does."""
    from workflows import tasks

    logger.warning("no pump task has begun; pumping in the watch thread")
    while _pump_a_turn(role):
        tasks.enqueue_pump()


def _pump_a_turn(role: str) -> bool:
    """False when a pump task has taken the role."""
    until = time.monotonic() + TURN_SECONDS
    return Pump(name=role, kind="watch", should_stop=lambda: time.monotonic() > until).run()
