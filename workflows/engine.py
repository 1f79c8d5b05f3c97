"""One claimed instance at a time: call the author, turn what comes back into a row that can be committed.

Lives here: `run` (author code, errors, atomic steps, spawning) and `settle` (commit a batch of
outcomes). Must not live here: loops, threads, SQL. Invariants owned:

* Whatever the author's code does, the answer is an outcome: an exception becomes `handle`'s outcome, a
  malformed or unserialisable one becomes an exception, and if `handle` fails too, a stop with the reason.
* One bad row never fails its batch.
* The engine's own trouble (see `trouble`) is no error of the author's: the run ends without an outcome.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TypeVar
from uuid import UUID

from django.db import DatabaseError, OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import errors

from workflows import registry, scope, store
from workflows.awaited_event import EVENT
from workflows.commits import (
    EVENT_PATIENCE,
    make_commit,
    make_failed_run,
    make_postponed,
    make_put_back,
    make_stop,
    park_on_event,
    read_awaited,
    tell_spent,
)
from workflows.conf import conf
from workflows.context import Context, StepContext
from workflows.exceptions import (
    ClaimLost,
    UnitFailed,
    describe_error,
)
from workflows.host import Host
from workflows.journal import Journal, Ousted
from workflows.outcomes import (
    Outcome,
    Stop,
    Suspend,
)
from workflows.question import UNIT
from workflows.registry import Definition
from workflows.store import Claim, Commit, Kind
from workflows.traces import log_raised
from workflows.trouble import (
    Trouble,
    engine_at_work,
    is_dead,
    is_lost,
    is_passing,
    is_repeatable,
    raise_if_passing,
)
from workflows.units.ends import follow_lines

logger = logging.getLogger("workflows")

T = TypeVar("T")

#: Characters of state and result in one statement: PostgreSQL and the driver hold it several times over.
HEAVIEST_COMMIT = 16 * 1024 * 1024
#: How an author's error is told, by what became of it.
_RAISED: dict[Kind | None, tuple[int, str]] = {
    Kind.STOP: (logging.ERROR, "raised, and the instance failed"),
    Kind.RUN_FAILED: (logging.WARNING, "raised, and will run again"),
}
#: Trouble of the server that says nothing about the row: it is tried again later.
_PASSING = (errors.LockNotAvailable, errors.QueryCanceled, errors.InsufficientResources, errors.OutOfMemory)


def run(claim: Claim, host: Host) -> Commit | None:
    """Run one step; the outcome to commit, or None where it is committed (or lost) already."""
    definition = registry.find(claim.workflow, claim.version)
    if definition is None or claim.step not in definition.steps:
        return make_put_back(claim)
    if claim.runs > definition.max_attempts:
        return make_stop(claim, tell_spent(claim, definition))
    ctx = _make_context(claim, definition, host)
    with scope.enter_step(claim.workspace, claim.id):
        return _guard(claim, definition, ctx, host, lambda: _run(claim, definition, ctx, host))


def _run(claim: Claim, definition: Definition, ctx: Context, host: Host) -> Commit | None:
    if claim.timed_out and (refusal := _ask_about_timeout(claim, host)):
        return make_stop(claim, refusal)
    if (waits := _check_question(claim, definition, ctx, host)) is not None:
        return _make_or_owe(claim, definition, ctx, waits, host)
    if definition.steps[claim.step].atomic:
        with engine_at_work():  # what it still meets after several tries
            return store.retrying(connections[host.alias], lambda: _run_atomically(claim, definition, host))
    outcome = _call(ctx, lambda: host.call_author(lambda: definition.run(ctx)))
    return _make_or_owe(claim, definition, ctx, outcome, host)


def _check_question(claim: Claim, definition: Definition, ctx: Context, host: Host) -> Outcome | None:
    """Of a question that failed, its error is raised in place of the step; one that is asked again is still waited for.

    A function sees for itself how its questions stand.
    """
    if not claim.names or not claim.names[0].startswith(UNIT) or definition.make_context is not None:
        return None
    awaited = ctx.list_awaited()
    failed = next((one.payload for one in awaited if one.source == store.FAILURE), None)
    if failed is not None:
        raise UnitFailed(failed["wait"], failed["reason"])
    if awaited or claim.timed_out or store.read_unit(host.db, UUID(claim.names[0][len(UNIT) :])).items:
        return None  # of a list, the machine is woken to ask the next items
    return Suspend((claim.names[0],), until=store.read_deadline(host.db, claim.names[0][len(UNIT) :]))


def _guard(
    claim: Claim, definition: Definition, ctx: Context, host: Host, work: Callable[[], Commit | None]
) -> Commit | None:
    """What becomes of whatever is raised on the way to an outcome."""
    try:
        return work()
    except Trouble as trouble:
        host.vain += trouble.held
        return _owe_result(claim, definition, ctx) if ctx.owes else make_postponed(claim, trouble)
    except registry.NotDeployed as error:
        return make_put_back(claim, str(error))
    except Ousted:
        logger.warning("%s", ClaimLost(claim.id, claim.fence))
        return None
    except ClaimLost as error:
        logger.warning("%s", error)
        return None
    except _AtomicStepRaised as raised:
        return _handle(claim, definition, raised.ctx, raised.error, host)
    except Exception as error:
        return _handle(claim, definition, ctx, error, host)
    except BaseException as error:
        return _fail_unless_ours(claim, definition, error)


def complete(owed: Commit, host: Host, *, patient: bool = False) -> Commit | None:
    """Try an outcome again that met a held row: what is left of it to commit, which may be all of it."""
    assert owed.again is not None
    with scope.enter_step(owed.claim.workspace, owed.claim.id):
        return owed.again(host, patient)


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
        return settle(db, rest + [one for it in owed if (one := complete(it, host, patient=True)) is not None])
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


def limit_of(claim: Claim, default: float) -> float:
    """Seconds the claimed step may run."""
    definition = registry.find(claim.workflow, claim.version)
    if definition is None:
        return default
    options = definition.steps.get(claim.step)
    own = options.step_timeout if options else None
    return own or definition.step_timeout or default


def runs_alone(claim: Claim) -> bool:
    """Whether the workflow allows one attempt only, and so must never share a batch."""
    definition = registry.find(claim.workflow, claim.version)
    return definition is not None and definition.max_attempts == 1


def _make_context(claim: Claim, definition: Definition, host: Host) -> Context:
    return (definition.make_context or StepContext)(claim, Journal(claim, host))


def _ask_about_timeout(claim: Claim, host: Host) -> str | None:
    """The project's policy on a deadline that has passed; why it refuses, if it does."""
    if conf.policy is None or not claim.names or not claim.names[0].startswith((UNIT, EVENT)):
        return None
    name = claim.names[0]
    return host.call_author(lambda: Journal(claim, host).ask_about_timeout(name))


def _make_or_owe(
    claim: Claim,
    definition: Definition,
    ctx: Context,
    outcome: Outcome,
    host: Host,
    patience: float | None = None,
) -> Commit | None:
    """The row an outcome becomes. What writes other rows too and meets one that somebody holds is owed as a whole.

    The step is over and is not run again for it, and nobody else waits: a caller may hold the rows of a whole batch.
    """
    if patience is None:
        patience = EVENT_PATIENCE / float(2 ** min(host.vain, 4))
    try:
        with engine_at_work():
            return make_commit(claim, definition, ctx, outcome, host.db, patience)
    except Trouble as trouble:
        if not trouble.held or not patience:
            raise
        host.vain += 1

    def again(host: Host, patient: bool) -> Commit | None:
        patience = 0.0 if patient else EVENT_PATIENCE
        ctx.move(host, patience)
        return _guard(
            claim, definition, ctx, host, lambda: _make_or_owe(claim, definition, ctx, outcome, host, patience)
        )

    return Commit(claim, Kind.POSTPONE, again=again)


def _owe_result(claim: Claim, definition: Definition, ctx: Context) -> Commit:
    """The run of a function ends at a result that a held row kept out; it goes on once that is saved."""

    def save() -> Commit:
        ctx.save_owed()
        return Commit(claim, Kind.POSTPONE, error=claim.error)

    def again(host: Host, patient: bool) -> Commit | None:
        ctx.move(host, 0.0 if patient else EVENT_PATIENCE)
        return _guard(claim, definition, ctx, host, save)

    return Commit(claim, Kind.POSTPONE, again=again)


def _call(ctx: Context, code: Callable[[], T]) -> T:
    """The author's code; whatever he made of the engine's trouble, the run has met it and is over."""
    try:
        returned = code()
    except BaseException:
        if ctx.trouble is not None:
            raise ctx.trouble from None
        raise
    if ctx.trouble is not None:
        raise ctx.trouble
    return returned


class _AtomicStepRaised(Exception):
    """Carries an error of an atomic step, with the ctx of the try that met it, past the retries."""

    def __init__(self, ctx: Context, error: Exception) -> None:
        self.ctx, self.error = ctx, error


def _run_atomically(claim: Claim, definition: Definition, host: Host) -> Commit | None:
    """Author's writes and outcome in one transaction; fence and row lock last, so deliveries never wait.

    A try that loses a deadlock left nothing behind, so the caller repeats it, with a ctx of its own. One that a late
    signal makes run again leaves nothing either, but for that.
    """
    db, ctx = connections[host.alias], _make_context(claim, definition, host)
    try:
        with transaction.atomic(using=host.alias):
            outcome = _call(ctx, lambda: host.call_author_inside(lambda: definition.run(ctx)))
            commit = make_commit(claim, definition, ctx, outcome, db)
            if (
                commit is not None
                and not _commit_inside(db, commit, host.db)
                and not store.ended_here(db, host.db, claim)
            ):
                raise ClaimLost(claim.id, claim.fence)
        return None
    except store.CameLate as late:
        return late.again
    except ClaimLost:
        raise
    except Exception as error:
        if is_repeatable(error):
            raise
        raise_if_passing(error)  # whoever's statement met it: the transaction is the engine's
        raise _AtomicStepRaised(ctx, error) from error
    finally:
        host.clean_up()


def _log_raised(claim: Claim, error: Exception, commit: Commit | None) -> None:
    """Where it was raised is told nowhere else: the row and the ledger keep the message only."""
    level, what = _RAISED.get(None if commit is None else commit.kind, (logging.INFO, "raised"))
    log_raised(logger, level, f"step {claim.step} of {claim.workflow} {claim.id} {what}", error)


def _commit_inside(db: BaseDatabaseWrapper, commit: Commit, outside: BaseDatabaseWrapper) -> bool:
    if commit.event is not None:
        return park_on_event(db, commit, patient=True)
    return bool(store.commit_locked(db, [commit], outside=outside))


def _handle(claim: Claim, definition: Definition, ctx: Context, error: Exception, host: Host) -> Commit | None:
    try:
        outcome = _call(ctx, lambda: host.call_author(lambda: definition.handle(error, ctx)))
        if isinstance(outcome, Stop):
            # Without the state: what the failed run did to it is undone.
            commit: Commit | None = make_stop(claim, outcome.reason, awaited=read_awaited(claim, definition))
        else:
            commit = _make_or_owe(claim, definition, ctx, outcome, host)
        _log_raised(claim, error, commit)
        if commit is not None:
            commit.rewind = ctx.rewind
        return commit
    except Trouble as trouble:
        return make_postponed(claim, trouble)
    except Ousted:
        logger.warning("%s", ClaimLost(claim.id, claim.fence))
        return None
    except ClaimLost as lost:
        logger.warning("%s", lost)
        return None
    except Exception as second:
        reason = describe_error(second)
        if second is not error:
            reason = f"{describe_error(error)}; then handle() failed: {reason}"
        stop = make_stop(claim, reason)
        _log_raised(claim, second, stop)
        return stop
    except BaseException as second:
        return _fail_unless_ours(claim, definition, second)


def _fail_unless_ours(claim: Claim, definition: Definition, error: BaseException) -> Commit:
    """What is no Exception ends the run (a timeout, exit(), asyncio's cancellation), unless it is for the process.

    That is Ctrl-C, and subclasses of SystemExit: with one, django-q ends a task that takes too long.
    """
    if isinstance(error, KeyboardInterrupt) or (isinstance(error, SystemExit) and type(error) is not SystemExit):
        raise error
    return make_failed_run(claim, definition, error)


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
        if store.retrying(db, lambda: park_on_event(db, park, patient=blocked is None)):
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
