"""What follows when items have ended: the next are asked, and the instance of a unit that is over is told.

Invariant owned: nothing here has to happen for what was stored to be true. A crash before it, or a caller's open
transaction around it, leaves it to the sweep, which finds it in the rows.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import partial
from uuid import UUID

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from workflows import store
from workflows.exceptions.trouble import is_passing
from workflows.lifecycle import InteractionStatus
from workflows.store import Addressed, Ended, ItemAnswer, Once

logger = logging.getLogger("workflows")


def answer_item(
    db: BaseDatabaseWrapper,
    found: Addressed,
    output: str | None,
    *,
    actor: str,
    door: str | None = None,
    override: str | None = None,
    version: int | None = None,
    once: Once | None = None,
    told: str = "",
) -> InteractionStatus | None:
    """Complete an item or, past its deadline, expire it; None when somebody else came first.

    The same as `store.complete_interaction` does for a single question.
    """

    def work() -> Ended:
        if not found.late:
            answer = ItemAnswer(found.id, output, version)
            if once is None:
                ended = store.complete_items(db, [answer], actor=actor, door=door, override=override, lines=found.lines)
            else:
                with store.atomic(db):
                    ended = store.complete_items(db, [answer], actor=actor, door=door, override=override)
                    if ended.how:
                        store.keep_item_answers(db, found.workspace, [(found.instance, once, told)])
            if not ended.late:
                return ended
        return store.expire_items(db, [found.id], actor=actor, door=door)

    ended = store.retrying(db, work)
    follow_up(db, ended)
    return ended.how.get(found.id)


def follow_up(db: BaseDatabaseWrapper, ended: Ended) -> None:
    """Ask the next items of the units, and release the instances of those that are over."""
    for unit in sorted(ended.filling):
        store.admit_items(db, unit)
    if not ended.closed:
        return
    if not db.in_atomic_block:
        _release(db, ended)
    elif connections[db.alias] is db:
        # The instance's row is locked by no answer to an item: not inside the caller's transaction either.
        transaction.on_commit(partial(_release, db, ended), using=db.alias, robust=True)


def _release(db: BaseDatabaseWrapper, ended: Ended) -> None:
    for unit in sorted(ended.closed):
        _try_release(db, unit)


def _try_release(db: BaseDatabaseWrapper, unit: UUID) -> None:
    """What a channel raises as it is told of a line's questions is for the sweep, which tries again."""
    try:
        release(db, unit)
    except Exception as error:
        if not store.listens() or is_passing(error):
            raise
        logger.exception("unit %s cannot be released yet", unit)


def follow_lines(db: BaseDatabaseWrapper, units: Mapping[UUID, bool]) -> None:
    """The same after lines have ended: of each unit whether it is over, or may begin more of them."""
    for unit, over in sorted(units.items()):
        if over:
            _try_release(db, unit)
        else:
            store.retrying(db, partial(store.admit_lines, db, unit))


def release(db: BaseDatabaseWrapper, unit: UUID) -> bool:
    """Let the instance of a unit that is over go on, once; what its lines still do of it is cancelled before."""
    for line, parent in store.list_live_lines(db, unit):
        store.cancel_tree(db, line, parent, reason="its unit has failed", actor="")
    return store.retrying(db, partial(store.release_unit, db, unit))
