"""What units of items need beside the pump: items whose time is over, items whose turn it is, instances to be told.

Whoever ends an item does the rest of it at once (see `item_outcomes`); this finds what a crash or somebody's open
transaction has left, and what only time brings about. Everything is found by an index and done under the locks of
`store`, so it may be done twice, or by several processes at once.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from uuid import UUID

from django.db import connections, router
from django.db.backends.base.base import BaseDatabaseWrapper

from workflows import store
from workflows.exceptions.trouble import is_dead, is_passing
from workflows.models import Instance
from workflows.units.item_outcomes import follow_up, release
from workflows.values import back_off

logger = logging.getLogger("workflows")

#: Items and units of one round.
BATCH = 500
#: Whatever is not met again for so long after its rest is over.
FORGET_SECONDS = 300.0

#: Items and units of which a channel was told in vain: when they are tried again, and how often it was so.
_resting: dict[UUID, tuple[float, int]] = {}


def seconds_to_next(db: BaseDatabaseWrapper) -> float | None:
    """Seconds until something is to be done."""
    return store.seconds_to_units(db)


def work() -> int:
    """Do some of what is due; how much was done."""
    db = connections[router.db_for_write(Instance)]
    done = 0
    resting = _list_resting()
    if due := [one for one in store.list_due_items(db, BATCH + len(resting)) if one not in resting]:
        done += _expire(db, due[:BATCH])
    for unit in store.list_closed_units(db, BATCH + len(resting)):
        if unit in resting:
            continue
        try:
            done += release(db, unit)
        except Exception as error:
            _let_rest(db, unit, error)
        else:
            _resting.pop(unit, None)
    for unit, hooked, asks_nothing in store.list_filling_units(db, BATCH):
        if hooked:
            done += store.call_author(db, unit)
        elif asks_nothing:
            done += store.retrying(db, lambda unit=unit: store.admit_lines(db, unit))  # type: ignore[misc]
        else:
            done += len(store.retrying(db, lambda unit=unit: store.admit_items(db, unit)))  # type: ignore[misc]
    return done


def _expire(db: BaseDatabaseWrapper, due: Sequence[UUID]) -> int:
    """Expire items; where a channel raises as it is told, in halves, so that it keeps none but its own."""
    try:
        ended = store.retrying(db, lambda: store.expire_items(db, due))
    except Exception as error:
        if len(due) == 1 or not store.listens() or is_passing(error):
            _let_rest(db, due[0], error)
            return 0
        half = len(due) // 2
        return _expire(db, due[:half]) + _expire(db, due[half:])
    for one in due:
        _resting.pop(one, None)
    follow_up(db, ended)
    return len(ended.how)


def _let_rest(db: BaseDatabaseWrapper, id: UUID, error: Exception) -> None:
    """Only what a channel may have raised: any other error is the sweep's."""
    if not store.listens() or is_dead(db) or is_passing(error):
        raise error
    failures = _resting.get(id, (0.0, 0))[1]
    logger.error("%s cannot be closed, and is tried again: %s", id, error, exc_info=error)
    _resting[id] = (time.monotonic() + back_off.UNIT.find_seconds(failures + 1), failures + 1)


def _list_resting() -> set[UUID]:
    now = time.monotonic()
    for id in [id for id, (until, _) in _resting.items() if until < now - FORGET_SECONDS]:
        del _resting[id]  # somebody else has ended it
    return {id for id, (until, _) in _resting.items() if until > now}
