"""One claimed instance at a time: call the author, and plan or write what comes back.

Lives here: author code, errors, atomic steps, and outcomes that are written with other rows. Must not live here: loops,
threads, SQL. Invariants owned:

* Whatever the author's code does, the answer is an outcome: an exception becomes `handle`'s outcome, a
  malformed or unserialisable one becomes an exception, and if `handle` fails too, a stop with the reason.
* The engine's own trouble (see `trouble`) is no error of the author's: the run ends without an outcome.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from workflows import store
from workflows.conf import conf
from workflows.definitions import registry, workspace
from workflows.definitions.awaited_event import EVENT, EventSpec
from workflows.definitions.awaited_kinds import ASKED, Several
from workflows.definitions.outcomes import Await, Outcome, Spawn, Stop, Suspend
from workflows.definitions.question import UNIT
from workflows.definitions.registry import Definition
from workflows.engine.author_calls import Host
from workflows.engine.author_traceback import log_raised, write_traceback
from workflows.engine.commits import (
    find_question,
    make_failed_run,
    make_postponed,
    make_put_back,
    make_stop,
    plan_await,
    plan_outcome,
    read_awaited,
    tell_spent,
    wants_clock,
)
from workflows.engine.context import Context, StepContext
from workflows.engine.event_loop import refuse_coroutines
from workflows.engine.event_permission import make_permission
from workflows.engine.journals.journal import Journal
from workflows.engine.journals.store_access import Ousted
from workflows.exceptions import ClaimLost, UnitFailed, describe_error
from workflows.exceptions.trouble import Trouble, engine_at_work, is_repeatable, raise_if_passing
from workflows.store import Claim, Commit, InvokePlan, Kind, RunEnd, RunResult

logger = logging.getLogger("workflows")

T = TypeVar("T")

#: Seconds that a park waits for the lock of its event, before the pump goes on with other work.
EVENT_PATIENCE = 0.05
#: How an author's error is told, by what became of it.
_RAISED: dict[Kind | None, tuple[int, str]] = {
    Kind.STOP: (logging.ERROR, "raised, and the instance failed"),
    Kind.RUN_FAILED: (logging.WARNING, "raised, and will run again"),
}


def run(claim: Claim, host: Host) -> RunResult:
    """Run one step: the outcome to commit, or how the run ended that leaves none."""
    definition = registry.find(claim.workflow, claim.version)
    if definition is None or claim.step not in definition.steps:
        return make_put_back(claim)
    if claim.runs > definition.max_attempts:
        return make_stop(claim, tell_spent(claim, definition))
    if definition.keep_states:
        claim.keep = definition.keep_states
    ctx = _make_context(claim, definition, host)
    with workspace.InStep(claim.workspace, claim.id):
        return _guard(claim, definition, ctx, host, lambda: _run(claim, definition, ctx, host))


def _run(claim: Claim, definition: Definition, ctx: Context, host: Host) -> RunResult:
    if claim.timed_out and (refusal := _ask_about_timeout(claim, host)):
        return make_stop(claim, refusal)
    if (waits := _check_question(claim, definition, ctx, host)) is not None:
        return _write_or_owe(claim, definition, ctx, waits, host)
    if definition.steps[claim.step].atomic:
        with engine_at_work():  # what it still meets after several tries
            return store.retrying(connections[host.alias], lambda: _run_atomically(claim, definition, host))
    outcome = _call(ctx, lambda: host.call_author(lambda: definition.run(ctx)))
    return _write_or_owe(claim, definition, ctx, outcome, host)


def _check_question(claim: Claim, definition: Definition, ctx: Context, host: Host) -> Outcome | None:
    """Of a question that failed, its error is raised in place of the step; one that is asked again is still waited for.

    A function sees for itself how its questions stand.
    """
    if not claim.names or definition.make_context is not None:
        return None
    if claim.names[0] == ASKED and isinstance(ctx, StepContext):
        return ctx.park_again()
    if not claim.names[0].startswith(UNIT):
        return None
    awaited = ctx.list_awaited()
    failed = next((one.payload for one in awaited if one.source == store.FAILURE), None)
    if failed is not None:
        raise UnitFailed(failed["wait"], failed["reason"])
    if awaited or claim.timed_out or store.read_unit(host.db, UUID(claim.names[0][len(UNIT) :])).items:
        return None  # of a list, the machine is woken to ask the next items
    return Suspend((claim.names[0],), until=store.read_deadline(host.db, claim.names[0][len(UNIT) :]))


def _guard(claim: Claim, definition: Definition, ctx: Context, host: Host, work: Callable[[], RunResult]) -> RunResult:
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
        return RunEnd.LOST
    except ClaimLost as error:
        logger.warning("%s", error)
        return RunEnd.LOST
    except _AtomicStepRaised as raised:
        return _handle(claim, definition, raised.ctx, raised.error, host)
    except Exception as error:
        return _handle(claim, definition, ctx, error, host)
    except BaseException as error:
        return _fail_unless_ours(claim, definition, error)


def complete(owed: Commit, host: Host, *, patient: bool = False) -> RunResult:
    """Try an outcome again that met a held row: what is left of it to commit, which may be all of it."""
    assert owed.again is not None
    with workspace.InStep(owed.claim.workspace, owed.claim.id):
        return owed.again(host, patient)


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


def _write(
    claim: Claim,
    definition: Definition,
    ctx: Context,
    outcome: Outcome,
    db: BaseDatabaseWrapper,
    patience: float = EVENT_PATIENCE,
) -> RunResult:
    """Plan an outcome, and write at once what has rows besides its own.

    A row that somebody holds is waited for so many seconds; with 0, as long as it takes.
    """
    if isinstance(outcome, Await):
        if not (isinstance(outcome.what, Several) and isinstance(ctx, StepContext)):
            return _write_await(claim, definition, ctx, outcome, db)
        now = 0.0 if outcome.timeout is None else store.read_clock(db)
        outcome = ctx.ask_several(outcome, now)
    elif isinstance(outcome, Spawn) and isinstance(ctx, StepContext):
        ctx.end_withdrawn()
    plan = plan_outcome(claim, definition, ctx, outcome)
    if isinstance(plan, Commit):
        return plan
    if isinstance(plan, InvokePlan):
        store.commit_invoke(db, plan, patience)
    else:
        store.commit_spawn(db, plan, patience)
    return RunEnd.COMMITTED


def _write_await(
    claim: Claim, definition: Definition, ctx: Context, outcome: Await, db: BaseDatabaseWrapper
) -> RunResult:
    event = outcome.what if isinstance(outcome.what, EventSpec) else None
    if event is not None:
        ctx.allow_event(event)
    if isinstance(ctx, StepContext):
        ctx.end_withdrawn(event)
    question = find_question(claim, outcome)
    # Opened before anything else, so that its address stands when the step is left.
    asked = None if question is None else ctx.ask_and_arm(question, outcome.timeout)
    now = store.read_clock(db) if wants_clock(claim, outcome) else 0.0
    return plan_await(claim, definition, ctx, outcome, question, asked, now)


def _write_or_owe(
    claim: Claim,
    definition: Definition,
    ctx: Context,
    outcome: Outcome,
    host: Host,
    patience: float | None = None,
) -> RunResult:
    """The row an outcome becomes. What writes other rows too and meets one that somebody holds is owed as a whole.

    The step is over and is not run again for it, and nobody else waits: a caller may hold the rows of a whole batch.
    """
    if patience is None:
        patience = EVENT_PATIENCE / float(2 ** min(host.vain, 4))
    try:
        with engine_at_work():
            return _write(claim, definition, ctx, outcome, host.db, patience)
    except Trouble as trouble:
        if not trouble.held or not patience:
            raise
        host.vain += 1

    def again(host: Host, patient: bool) -> RunResult:
        patience = 0.0 if patient else EVENT_PATIENCE
        ctx.move(host, patience)
        return _guard(
            claim, definition, ctx, host, lambda: _write_or_owe(claim, definition, ctx, outcome, host, patience)
        )

    return Commit(claim, Kind.POSTPONE, again=again)


def _owe_result(claim: Claim, definition: Definition, ctx: Context) -> Commit:
    """The run of a function ends at a result that a held row kept out; it goes on once that is saved."""

    def save() -> Commit:
        ctx.save_owed()
        return Commit(claim, Kind.POSTPONE, error=claim.error)

    def again(host: Host, patient: bool) -> RunResult:
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


def _run_atomically(claim: Claim, definition: Definition, host: Host) -> RunResult:
    """Author's writes and outcome in one transaction; fence and row lock last, so deliveries never wait.

    A try that loses a deadlock left nothing behind, so the caller repeats it, with a ctx of its own. One that a late
    signal makes run again leaves nothing either, but for that.
    """
    db, ctx = connections[host.alias], _make_context(claim, definition, host)
    try:
        with transaction.atomic(using=host.alias):
            with refuse_coroutines(f"the atomic step {claim.step!r}"):
                outcome = _call(ctx, lambda: host.call_author_inside(lambda: definition.run(ctx)))
            commit = _write(claim, definition, ctx, outcome, db)
            if (
                isinstance(commit, Commit)
                and not _commit_inside(db, commit, host.db)
                and not store.ended_here(db, host.db, claim)
            ):
                raise ClaimLost(claim.id, claim.fence)
        return RunEnd.COMMITTED
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


def _log_raised(claim: Claim, error: Exception, commit: RunResult) -> None:
    """Where it was raised is told by the log, and by the row of an instance whose run failed."""
    if isinstance(commit, Commit) and commit.kind in _RAISED:
        commit.traceback = write_traceback(error)
    level, what = _RAISED.get(commit.kind if isinstance(commit, Commit) else None, (logging.INFO, "raised"))
    log_raised(logger, level, f"step {claim.step} of {claim.workflow} {claim.id} {what}", error)


def _commit_inside(db: BaseDatabaseWrapper, commit: Commit, outside: BaseDatabaseWrapper) -> bool:
    if commit.event is not None:
        return store.commit_event_park(db, commit, patience=0.0, allows=make_permission(db, commit.claim, commit.event))
    return bool(store.commit_locked(db, [commit], outside=outside))


def _handle(claim: Claim, definition: Definition, ctx: Context, error: Exception, host: Host) -> RunResult:
    failed_call = ctx.failed_call
    try:
        outcome = _call(ctx, lambda: host.call_author(lambda: definition.handle(error, ctx)))
        if isinstance(outcome, Stop):
            # Without the state: what the failed run did to it is undone.
            commit: RunResult = make_stop(claim, outcome.reason, awaited=read_awaited(claim, definition))
        else:
            commit = _write_or_owe(claim, definition, ctx, outcome, host)
        _log_raised(claim, error, commit)
        if isinstance(commit, Commit):
            commit.rewind, commit.failed_call = ctx.rewind, failed_call
        return commit
    except Trouble as trouble:
        return make_postponed(claim, trouble)
    except Ousted:
        logger.warning("%s", ClaimLost(claim.id, claim.fence))
        return RunEnd.LOST
    except ClaimLost as lost:
        logger.warning("%s", lost)
        return RunEnd.LOST
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
    commit = make_failed_run(claim, definition, error)
    commit.traceback = write_traceback(error)
    return commit
