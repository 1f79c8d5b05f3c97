"""Telling those who wait for the ends of instances: the sweep beside the pump.

Must not live here: how one is told; the store does that. Invariant owned: whoever cannot be told now is told by the
next look, and keeps nobody else from it.
"""

from __future__ import annotations

from functools import partial

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
    """Tell some of the ends that nobody knows of; how many. Those whose rows somebody holds are passed over."""
    db = connections[router.db_for_write(Instance)]
    done, after = 0, store.FIRST_END
    while not done and (ends := store.list_ends(db, BATCH, after)):
        for instance, position in ends:
            if not may_go_on():
                return done
            done += store.retrying(db, partial(store.tell_end, db, instance, position))
        after = ends[-1]
    return done
