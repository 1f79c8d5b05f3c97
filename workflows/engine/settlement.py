"""Committing the outcomes of a batch.

Lives here: which outcomes are committed together, and what becomes of one that cannot be. Must not live here: author
code, SQL. Invariants owned:

* One bad row never fails its batch.
* An outcome that a held row keeps out is handed back, or waited for where nobody else waits.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from django.db import DatabaseError, OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import errors

from workflows import store
from workflows.engine.author_calls import Host
from workflows.engine.commits import make_postponed, make_stop
from workflows.engine.event_permission import make_permission
from workflows.engine.running import EVENT_PATIENCE, complete
from workflows.exceptions import ClaimLost, describe_error
from workflows.exceptions.trouble import Trouble, is_dead, is_lost, is_passing
from workflows.store import Commit, Kind
from workflows.units.item_outcomes import follow_lines

logger = logging.getLogger("workflows")

#: Characters of state and result in one statement: PostgreSQL and the driver hold it several times over.
HEAVIEST_COMMIT = 16 * 1024 * 1024
#: Trouble of the server that says nothing about the row: it is tried again later.
_PASSING = (errors.LockNotAvailable, errors.QueryCanceled, errors.InsufficientResources, errors.OutOfMemory)


def settle(db: BaseDatabaseWrapper, commits: Sequence[Commit], blocked: list[Commit] | None = None) -> set[str]:
    """Commit a batch; the ids whose outcome was applied. Lost claims are logged and change nothing.

    Where the connection has a lock_timeout, rows that somebody holds for longer end up in `blocked`.
    """
    if not commits:
        return set()
    if owed := [one for one in commits if one.again is not None]:
        rest = [one for one in commits if one.again is None]
        if blocked is not None:
            blocked.extend(owed)
            return settle(db, rest, blocked)
        host = Host(db, db.alias, savepoints=db.in_atomic_block)
        completed = [complete(one, host, patient=True) for one in owed]
        return settle(db, rest + [one for one in completed if isinstance(one, Commit)])
    if postponed := [one for one in commits if one.kind is Kind.POSTPONE]:
        rest = [one for one in commits if one.kind is not Kind.POSTPONE]
        return settle(db, rest, blocked) | _settle_postponed(db, postponed, blocked)
    if parks := [one for one in commits if one.event is not None]:
        rest = [one for one in commits if one.event is None]
        return settle(db, rest, blocked) | _settle_parks(db, parks, blocked)
    if closing := [one for one in commits if store.may_close(one)]:
        rest = [one for one in commits if not store.may_close(one)]
        applied = settle(db, rest, blocked) | _settle_closing(db, closing, blocked)
        _follow_lines(db, closing)
        return applied
    if len(commits) > 1 and _weigh(commits) > HEAVIEST_COMMIT:
        half = len(commits) // 2
        return settle(db, commits[:half], blocked) | settle(db, commits[half:], blocked)
    applied = _settle_batch(db, commits, blocked)
    _follow_lines(db, commits)
    return applied


def _settle_batch(db: BaseDatabaseWrapper, commits: Sequence[Commit], blocked: list[Commit] | None) -> set[str]:
    applied: set[str] = set()
    try:
        applied = store.retrying(db, lambda: store.commit(db, commits))
        commits = [one for one in commits if one.claim.id not in applied]
        if commits:
            again = store.retrying(db, lambda: store.commit_locked(db, commits))
            for one in commits:
                if one.claim.id not in again:
                    logger.warning("%s", ClaimLost(one.claim.id, one.claim.fence))
            applied |= again
        return applied
    except DatabaseError as error:
        if db.in_atomic_block or _is_lost(db) or is_lost(error):
            raise  # the caller's transaction, or the connection; not a row
        if isinstance(error.__cause__, errors.LockNotAvailable) and blocked is not None:
            free, held = store.retrying(db, lambda: store.commit_free(db, commits))
            blocked.extend(held)
            return applied | free
        if len(commits) > 1:
            half = len(commits) // 2
            return applied | settle(db, commits[:half], blocked) | settle(db, commits[half:], blocked)
        if blocked is not None and isinstance(error.__cause__, _PASSING):
            blocked.append(commits[0])
            return applied
        if commits[0].kind is Kind.STOP:
            raise
        logger.error("outcome of instance %s cannot be stored: %s", commits[0].claim.id, describe_error(error))
        return applied | settle(
            db, [make_stop(commits[0].claim, f"its outcome cannot be stored: {describe_error(error)}")]
        )


def _settle_closing(db: BaseDatabaseWrapper, commits: Sequence[Commit], blocked: list[Commit] | None) -> set[str]:
    """Outcomes that end questions of which a channel may have to be told: each in a transaction where models write.

    What a channel raises keeps its own outcome only: the step runs again later, and nobody's attempt is spent at once.
    """
    applied: set[str] = set()
    for one in commits:

        def write(one: Commit = one) -> set[str]:
            with store.where_models_write(db, EVENT_PATIENCE) as writer:
                return store.commit_locked(writer, [one])

        try:
            written = store.retrying(connections[db.alias], write)
        except Exception as error:
            if blocked is None:
                raise  # a test's drain(): whoever wrote the channel sees what it raised
            if is_passing(error):
                blocked.append(one)
                continue
            logger.exception("the questions of instance %s cannot be closed; its step runs again", one.claim.id)
            applied |= _settle_postponed(db, [make_postponed(one.claim, Trouble(error))], blocked)
            continue
        if not written:
            logger.warning("%s", ClaimLost(one.claim.id, one.claim.fence))
        applied |= written
    return applied


def _follow_lines(db: BaseDatabaseWrapper, commits: Sequence[Commit]) -> None:
    """What the ends of lines let their units do is done at once; what a held row keeps out is left to a sweep."""
    for one in commits:
        units, one.units = one.units, {}
        if not units or db.in_atomic_block:
            continue
        try:
            follow_lines(db, units)
        except OperationalError as error:
            if not isinstance(error.__cause__, _PASSING):
                raise


def _is_lost(db: BaseDatabaseWrapper) -> bool:
    return db.connection is None or is_dead(db)


def _settle_postponed(db: BaseDatabaseWrapper, postponed: Sequence[Commit], blocked: list[Commit] | None) -> set[str]:
    """Runs that met the engine's trouble; where a row is held just now, all of them wait."""
    try:
        applied = store.retrying(db, lambda: store.postpone(db, postponed))
    except DatabaseError as error:
        if blocked is None or db.in_atomic_block or _is_lost(db) or not isinstance(error.__cause__, _PASSING):
            raise
        if len(postponed) == 1:
            blocked.extend(postponed)
            return set()
        half = len(postponed) // 2
        return _settle_postponed(db, postponed[:half], blocked) | _settle_postponed(db, postponed[half:], blocked)
    for one in postponed:
        if one.claim.id not in applied:
            logger.warning("%s", ClaimLost(one.claim.id, one.claim.fence))
    return applied


def _settle_parks(db: BaseDatabaseWrapper, parks: Sequence[Commit], blocked: list[Commit] | None) -> set[str]:
    """Waits for events, each in its turn; what is known to be held is not waited for once more by each that wants it.

    An emit in a long transaction keeps out all that would wait for its event.
    """
    applied: set[str] = set()
    held: set[tuple[int, str]] = set()
    free: set[str] | None = None
    for one in parks:
        place = (one.claim.workspace, one.event.name)
        if blocked is not None and (place in held or (free is not None and one.claim.id not in free)):
            blocked.append(one)
            continue
        before = 0 if blocked is None else len(blocked)
        applied |= _settle_park(db, one, blocked)
        if blocked is None or len(blocked) == before:
            continue
        if not store.is_event_free(db, *place):
            held.add(place)
        elif free is None:
            free = store.list_free(db, [other.claim.id for other in parks])
    return applied


def _settle_park(db: BaseDatabaseWrapper, park: Commit, blocked: list[Commit] | None) -> set[str]:
    """One wait for an event; where its event or its row is held just now, it is settled later."""
    try:
        patience = 0.0 if blocked is None else EVENT_PATIENCE
        allows = make_permission(db, park.claim, park.event)
        if store.retrying(db, lambda: store.commit_event_park(db, park, patience=patience, allows=allows)):
            return {park.claim.id}
        logger.warning("%s", ClaimLost(park.claim.id, park.claim.fence))
    except DatabaseError as error:
        if db.in_atomic_block or _is_lost(db):
            raise
        if blocked is not None and isinstance(error.__cause__, _PASSING):
            blocked.append(park)
            return set()
        logger.error("the wait of instance %s cannot be stored: %s", park.claim.id, error)
        return settle(db, [make_stop(park.claim, f"its wait cannot be stored: {describe_error(error)}")], blocked)
    return set()


def _weigh(commits: Sequence[Commit]) -> int:
    return sum(len(one.state or "") + len(one.result or "") for one in commits)
