"""Telling those who wait for the ends of instances: the sweep beside the pump.

Must not live here: how one is told; the store does that. Invariant owned: whoever cannot be told now is told by the
next look.
"""

from __future__ import annotations

from django.db import connections, router

from workflows import store
from workflows.definitions.sweeps import Sweep, may_go_on, register_sweep
from workflows.models import Instance

#: Ends of one round.
BATCH = 500


def register() -> None:
    """Let every pump look."""
    register_sweep(Sweep("ends", store.seconds_to_ends, work))


def work() -> int:
    """Tell some of the ends that nobody knows of; how many."""
    db = connections[router.db_for_write(Instance)]
    done = 0
    for instance, position in store.list_ends(db, BATCH):
        if not may_go_on():
            break
        store.retrying(db, lambda instance=instance, position=position: store.tell_end(db, instance, position))  # type: ignore[misc]
        done += 1
    return done
