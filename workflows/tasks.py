"""What django-q runs: the pump as a bounded task, and the one-minute net.

django-q is a host, never the truth: its tasks take no argument or one short text, return None, may run
twice or never. Invariants owned: at most one worker of a cluster pumps at a time (the role is a heartbeat
row, not a lock, so a stopped or killed holder loses it by silence), a pump always has a successor, and
however many pumps were queued only the one asked for last goes round.
"""

from __future__ import annotations

import time

from workflows import store
from workflows.worker.django_q import watch
from workflows.worker.django_q.cluster import WaitingTasks
from workflows.worker.django_q.pump_queue import push_pump, reach_database, role_name
from workflows.worker.housekeeping import tidy
from workflows.worker.pump import Pump

#: How long a pump task stays in its worker before it enqueues its successor and ends. Far below
#: Q_CLUSTER's timeout, and short, because a cluster that stops waits for its running tasks.
LINGER_SECONDS = 10.0


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
