"""What django-q runs: the pump as a bounded task, and the one-minute net.

django-q is a host, never the truth: its tasks take no argument or one short text, return None, may run
twice or never. Invariants owned: at most one worker of a cluster pumps at a time (the role is a heartbeat
row, not a lock, so a stopped or killed holder loses it by silence), a pump always has a successor, and
however many pumps were queued only the one asked for last goes round.
"""

from __future__ import annotations

import time

from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper
from django_q.conf import Conf
from django_q.tasks import async_task

from workflows import store
from workflows.models import Instance
from workflows.worker.django_q import watch
from workflows.worker.django_q.cluster import WaitingTasks
from workflows.worker.housekeeping import tidy
from workflows.worker.pump import Pump

#: How long a pump task stays in its worker before it enqueues its successor and ends. Far below
#: Q_CLUSTER's timeout, and short, because a cluster that stops waits for its running tasks.
LINGER_SECONDS = 10.0
#: A step that begins at the end of the lingering still has its whole time; checked against `retry`.
MARGIN_SECONDS = 15


def pump(ticket: str = "") -> None:
    """Run workflows for a while in this worker, then hand over to the next such task."""
    if ticket and store.is_void(reach_database(), role_name(), ticket):
        return  # a later one was asked for: two that gave way to each other would never end
    waiting = WaitingTasks()
    until = time.monotonic() + LINGER_SECONDS
    one = Pump(
        name=role_name(),
        kind="cluster",
        on_long_step=enqueue_pump,
        should_stop=lambda: time.monotonic() > until or waiting.persist(),
    )
    if one.run() and not one.handed_over:
        enqueue_pump()


def sweep() -> None:
    """The last net, once a minute: see that a pump runs, and tidy up."""
    db = reach_database()
    if ticket := store.suspect(db, role_name(), "cluster"):
        push_pump(ticket)
    tidy(db)


def enqueue_pump() -> None:
    """Ask the cluster for a pump, and this process's watcher to step in if none begins at once."""
    watch.expect_successor()
    push_pump(store.ask(reach_database(), role_name(), "cluster"))


def push_pump(ticket: str) -> None:
    """Put a pump into the queue; its ticket is void as soon as another is asked for."""
    if Conf.SYNC:
        return  # "run it here and now" would mean a pump inside a pump
    async_task(
        "workflows.tasks.pump",
        ticket,
        task_name="holdpoint pump",
        timeout=int(Conf.TIMEOUT or 60) + MARGIN_SECONDS,
        ack_failure=True,
        save=False,
    )


def role_name() -> str:
    """The heartbeat row of this cluster's pump."""
    return f"cluster:{Conf.CLUSTER_NAME}"


def reach_database() -> BaseDatabaseWrapper:
    """The engine's database, on this thread's ordinary connection."""
    return connections[router.db_for_write(Instance)]
