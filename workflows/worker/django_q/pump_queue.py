"""The queue of pumps: one waits in django-q's broker, and its ticket says whether it still counts.

Lives here: putting a pump into the queue of this cluster, the row of its role, and the connection for both. Must not
live here: what a pump does once it has begun; that is `workflows.tasks`, whose path stands in django-q's rows.
"""

from __future__ import annotations

from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper
from django_q.conf import Conf
from django_q.tasks import async_task

from workflows.models import Instance

#: A step that begins at the end of the lingering still has its whole time; checked against `retry`.
MARGIN_SECONDS = 15


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
