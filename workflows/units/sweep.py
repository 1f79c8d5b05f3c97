"""What units of items need beside the pump: items whose time is over, items whose turn it is, instances to be told.

Whoever ends an item does the rest of it at once (see `ends`); this finds what a crash or somebody's open transaction
has left, and what only time brings about. Everything is found by an index and done under the locks of `store`, so it
may be done twice, or by several processes at once.
"""

from __future__ import annotations

from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper

from workflows import store
from workflows.models import Instance
from workflows.units.ends import follow_up, release

#: Items and units of one round.
BATCH = 500


def seconds_to_next(db: BaseDatabaseWrapper) -> float | None:
    """Seconds until something is to be done."""
    return store.seconds_to_units(db)


def work() -> int:
    """Do some of what is due; how much was done."""
    db = connections[router.db_for_write(Instance)]
    done = 0
    if due := store.list_due_items(db, BATCH):
        ended = store.retrying(db, lambda: store.expire_items(db, due))
        follow_up(db, ended)
        done += len(ended.how)
    for unit in store.list_closed_units(db, BATCH):
        done += release(db, unit)
    for unit, hooked, asks_nothing in store.list_filling_units(db, BATCH):
        if hooked:
            done += store.call_author(db, unit)
        elif asks_nothing:
            done += store.retrying(db, lambda unit=unit: store.admit_lines(db, unit))  # type: ignore[misc]
        else:
            done += len(store.retrying(db, lambda unit=unit: store.admit_items(db, unit)))  # type: ignore[misc]
    return done
