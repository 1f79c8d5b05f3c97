"""One claimed instance at a time: call the author, turn what comes back into a row that can be committed.

Lives here: `run` (author code, errors, atomic steps, spawning) and `settle` (commit a batch of
outcomes). Must not live here: loops, threads, SQL. Invariants owned:

* Whatever the author's code does, the answer is an outcome: an exception becomes `handle`'s outcome, a
  malformed or unserialisable one becomes an exception, and if `handle` fails too, a stop with the reason.
* One bad row never fails its batch.
"""

from __future__ import annotations

import json
import logging
import random
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.db import DatabaseError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import errors

from workflows import registry, scope, store
from workflows.conf import conf
from workflows.context import Context
from workflows.exceptions import (
    ClaimLost,
    DuplicateKey,
    InvalidData,
    InvalidInput,
    InvalidOutcome,
    NotSerializable,
    TooLarge,
    show,
)
from workflows.host import Host
from workflows.journal import Journal, Ousted
from workflows.jsontext import RESERVED, dump_value
from workflows.lifecycle import Call
from workflows.models import Instance
from workflows.outcomes import (
    UNSET,
    Await,
    Child,
    Done,
    Invoke,
    Next,
    Outcome,
    Retry,
    RunAgain,
    Spawn,
    Stop,
    Suspend,
)
from workflows.registry import Definition
from workflows.store import Claim, Commit, Kind, NewInstance
from workflows.styles.steps import describe_error
from workflows.uuid7 import make_uuid7
from workflows.waits import EVENT, UNIT, Channel, EventSpec, Question, ask_channel

logger = logging.getLogger("workflows")

LONGEST_BACK_OFF = 300.0
#: Characters of state and result in one statement: PostgreSQL and the driver hold it several times over.
HEAVIEST_COMMIT = 16 * 1024 * 1024
#: An instance whose workflow this process does not know waits for a process that does.
FIRST_PUT_BACK = 10.0
LONGEST_PUT_BACK = 120.0
#: Seconds that a park waits for the lock of its event, before the pump goes on with other work.
EVENT_PATIENCE = 0.05
#: Trouble of the server that says nothing about the row: it is tried again later.
_PASSING = (errors.LockNotAvailable, errors.QueryCanceled, errors.InsufficientResources, errors.OutOfMemory)
_PUT_BACK = re.compile(r"put back (\d+) times")


def run(claim: Claim, host: Host) -> Commit | None:
    """Run one step; the outcome to commit, or None where it is committed (or lost) already."""
    definition = registry.find(claim.workflow, claim.version)
    if definition is None or claim.step not in definition.steps:
        return _put_back(claim)
    if claim.runs > definition.max_attempts:
        return _stop(claim, _spent(claim, definition))
    ctx = _make_context(claim, definition, host)
    with scope.enter(claim.workspace):
        try:
            if claim.timed_out and (refusal := _ask_about_timeout(claim, host)):
                return _stop(claim, refusal)
            if definition.steps[claim.step].atomic:
                return store.retrying(connections[host.alias], lambda: _run_atomically(claim, definition, host))
            outcome = host.call_author(lambda: definition.run(ctx))
            return _commit_of(claim, definition, ctx, outcome, host.db)
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


def settle(db: BaseDatabaseWrapper, commits: Sequence[Commit], blocked: list[Commit] | None = None) -> set[str]:
    """Commit a batch; the ids whose outcome was applied. Lost claims are logged and change nothing.

    Where the connection has a lock_timeout, rows that somebody holds for longer end up in `blocked`.
    """
    if not commits:
        return set()
    if parks := [one for one in commits if one.event is not None]:
        rest = [one for one in commits if one.event is None]
        return set().union(settle(db, rest, blocked), *(_settle_park(db, one, blocked) for one in parks))
    if len(commits) > 1 and _weigh(commits) > HEAVIEST_COMMIT:
        half = len(commits) // 2
        return settle(db, commits[:half], blocked) | settle(db, commits[half:], blocked)
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
        if db.in_atomic_block or _lost_connection(db):
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
        logger.error("outcome of instance %s cannot be stored: %s", commits[0].claim.id, error)
        return applied | settle(db, [_stop(commits[0].claim, f"its outcome cannot be stored: {describe_error(error)}")])


def _lost_connection(db: BaseDatabaseWrapper) -> bool:
    raw: Any = db.connection
    return raw is None or raw.closed or raw.broken


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


def plan_instance(definition: Definition, input: Any, key: str | None, what: str = "the input") -> NewInstance:
    """The first row of an instance, checked and serialised."""
    text = dump_value(input, what)
    check_input(definition, json.loads(text))
    return NewInstance(
        id=make_uuid7(),
        workflow=definition.name,
        version=definition.version,
        step=definition.initial,
        input=text,
        key=key,
        solo=definition.max_attempts == 1,
        fingerprint=definition.fingerprint,
    )


def plan_child(workflow: Any, input: Any) -> NewInstance:
    """A child that a function invokes."""
    definition = registry.resolve(workflow)
    return plan_instance(definition, {} if input is None else input, None, f"the input of child {definition.name!r}")


def check_input(definition: Definition, input: Any) -> None:
    """Refuse an input that the workflow cannot take: its `accepts`, or a function's parameters."""
    if definition.signature is not None:
        if not isinstance(input, dict):
            raise InvalidInput(definition.name, {"": "must be an object with the function's parameters"})
        ctx, *parameters = definition.signature.parameters.values()
        known = {one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
        takes_any = any(one.kind is one.VAR_KEYWORD for one in parameters)
        errors = {
            one.name: "is required"
            for one in parameters
            if one.name in known and one.default is one.empty and one.name not in input
        }
        if takes_any and ctx.name in input:
            errors[ctx.name] = "is the function's own first parameter"
        if not takes_any:
            errors |= {name: "is no parameter of the function" for name in input if name not in known}
        if errors:
            raise InvalidInput(definition.name, errors)
    if definition.accepts is not None:
        try:
            definition.accepts.check(input)
        except InvalidData as error:
            raise InvalidInput(definition.name, error.errors) from error


def _make_context(claim: Claim, definition: Definition, host: Host) -> Context:
    return (definition.make_context or Context)(claim, Journal(claim, host))


def _ask_about_timeout(claim: Claim, host: Host) -> str | None:
    """The project's policy on a deadline that has passed; why it refuses, if it does."""
    if conf.policy is None or not claim.names or not claim.names[0].startswith(UNIT):
        return None
    return host.call_author(lambda: Journal(claim, host).ask_about_timeout(claim.names[0][len(UNIT) :]))  # type: ignore[index]


class _AtomicStepRaised(Exception):
    """Carries an error of an atomic step, with the ctx of the try that met it, past the retries."""

    def __init__(self, ctx: Context, error: Exception) -> None:
        self.ctx, self.error = ctx, error


def _run_atomically(claim: Claim, definition: Definition, host: Host) -> None:
    """Author's writes and outcome in one transaction; fence and row lock last, so deliveries never wait.

    A try that loses a deadlock left nothing behind, so the caller repeats it, with a ctx of its own.
    """
    db, ctx = connections[host.alias], _make_context(claim, definition, host)
    try:
        with transaction.atomic(using=host.alias):
            outcome = host.call_author_inside(lambda: definition.run(ctx))
            commit = _commit_of(claim, definition, ctx, outcome, db)
            if commit is not None and not _commit_inside(db, commit) and not store.ended_here(db, host.db, claim):
                raise ClaimLost(claim.id, claim.fence)
    except ClaimLost:
        raise
    except Exception as error:
        if isinstance(error.__cause__, errors.DeadlockDetected | errors.SerializationFailure):
            raise
        raise _AtomicStepRaised(ctx, error) from error
    finally:
        host.clean_up()


def _log_raised(claim: Claim, error: Exception, outcome: Outcome) -> None:
    """Where it was raised is told nowhere else: the row and the ledger keep the message only."""
    level = {Stop: logging.ERROR, RunAgain: logging.WARNING}.get(type(outcome), logging.INFO)
    what = {Stop: "raised, and the instance failed", RunAgain: "raised, and will run again"}.get(
        type(outcome), "raised"
    )
    logger.log(level, "step %s of %s %s %s", claim.step, claim.workflow, claim.id, what, exc_info=error)


def _commit_inside(db: BaseDatabaseWrapper, commit: Commit) -> bool:
    if commit.event is not None:
        return _park_on_event(db, commit, patient=True)
    return bool(store.commit_locked(db, [commit]))


def _handle(claim: Claim, definition: Definition, ctx: Context, error: Exception, host: Host) -> Commit | None:
    try:
        outcome = host.call_author(lambda: definition.handle(error, ctx))
        _log_raised(claim, error, outcome)
        if isinstance(outcome, Stop):
            return _stop(claim, outcome.reason)  # without the state: what the failed run did to it has not happened
        return _commit_of(claim, definition, ctx, outcome, host.db)
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
        return _stop(claim, reason)
    except BaseException as second:
        return _fail_unless_ours(claim, definition, second)


def _fail_unless_ours(claim: Claim, definition: Definition, error: BaseException) -> Commit:
    """What is no Exception ends the run (a timeout, exit(), asyncio's cancellation), unless it is for the process.

    That is Ctrl-C, and subclasses of SystemExit: with one, django-q ends a task that takes too long.
    """
    if isinstance(error, KeyboardInterrupt) or (isinstance(error, SystemExit) and type(error) is not SystemExit):
        raise error
    return _fail_run(claim, definition, error)


def _commit_of(
    claim: Claim, definition: Definition, ctx: Context, outcome: Outcome, db: BaseDatabaseWrapper
) -> Commit | None:
    """The row an outcome becomes. What writes other rows first is committed here, with them."""
    match outcome:
        case Await(what=EventSpec() as spec):
            park = _park(claim, definition, ctx, outcome.then, outcome.state, consume=_was_answered(claim))
            park.event, park.delay = spec, outcome.timeout
            return park
        case Suspend(event=EventSpec() as spec):
            park = _park(claim, definition, ctx, None, UNSET, consume=True)
            park.event, park.delay = spec, outcome.until.timestamp() if outcome.until else None
            return park
        case Invoke():
            _invoke(claim, definition, ctx, outcome, db)
            return None
        case Await() if not outcome.what and _was_answered(claim):
            park = _park(claim, definition, ctx, outcome.then, outcome.state, consume=True)
            park.names = outcome.names
            park.delay = None if outcome.timeout is None else store.read_clock(db) + outcome.timeout
            return park
    commit = _plain_commit(claim, definition, ctx, outcome)
    if isinstance(outcome, Spawn) and outcome.children:
        _spawn(claim, outcome, commit, db)
        return None
    return commit


def _plain_commit(claim: Claim, definition: Definition, ctx: Context, outcome: Outcome) -> Commit:
    solo = definition.max_attempts == 1
    match outcome:
        case Next(step, state, delay, consume):
            return Commit(
                claim,
                Kind.NEXT,
                step=step,
                state=_state_text(claim, ctx, state),
                delay=delay or None,
                signals=ctx.number_handed(consume),
                solo=solo,
            )
        case Await(what=Question() | Channel() as what):
            question = what if isinstance(what, Question) else _ask_in_step(claim, what)
            asked = ctx.ask_and_arm(question, outcome.timeout)
            park = _park(claim, definition, ctx, outcome.then, outcome.state, consume=_was_answered(claim))
            park.names = (asked.name,)
            park.delay = asked.deadline.timestamp() if asked.deadline else None
            return park
        case Suspend(names, _, until, taken):
            park = _park(claim, definition, ctx, None, UNSET, consume=True, taken=taken)
            park.names = names or None
            park.delay = until.timestamp() if until else None
            return park
        case RunAgain(error):
            return _fail_run(claim, definition, error)
        case Await(names, _, then, state, timeout):
            return Commit(
                claim,
                Kind.AWAIT,
                step=then,
                state=_state_text(claim, ctx, state),
                names=names,
                delay=timeout,
                signals=ctx.number_handed(frozenset()),
                solo=solo,
            )
        case Retry(state, delay):
            wait = min(2.0 ** min(claim.attempt, 40), 2.0**33) if delay is None else delay
            return Commit(claim, Kind.RETRY, state=_state_text(claim, ctx, state), delay=wait or None, solo=solo)
        case Spawn(children, then, state):
            return Commit(
                claim,
                Kind.SPAWN,
                step=then,
                state=_state_text(claim, ctx, state),
                signals=ctx.number_handed(frozenset()),
                solo=solo,
                children=len(children),
            )
        case Done(result):
            return Commit(
                claim,
                Kind.DONE,
                state=_state_text(claim, ctx, UNSET),
                result=dump_value(result, "the result"),
                signals=ctx.number_handed(frozenset()),
            )
        case Stop(reason):
            return Commit(claim, Kind.STOP, state=_last_state(claim, ctx), error=reason)
    raise InvalidOutcome(f"{show(outcome)} is not an outcome the engine knows")


def _was_answered(claim: Claim) -> bool:
    """Whether the step was woken for an answer or an event: it has been handed out, and so is used up by any park.

    Signals of plain names accumulate; the answer of a question belongs to one visit.
    """
    return claim.names is not None and claim.names[0].startswith(RESERVED)


def _ask_in_step(claim: Claim, channel: Channel) -> Question:
    """A channel in `Await` is named after its step; a callback of that name is another question."""
    question = ask_channel(claim.step, channel)
    address = replace(question, step=f"{claim.step}.{channel.name}").address(UUID(claim.id))
    return replace(question, signal_id=address)


def _park(
    claim: Claim,
    definition: Definition,
    ctx: Context,
    then: str | None,
    state: Any,
    *,
    consume: bool,
    taken: frozenset[str] = frozenset(),
) -> Commit:
    return Commit(
        claim,
        Kind.SUSPEND,
        step=then,
        state=_state_text(claim, ctx, state),
        signals=ctx.number_handed(taken) if consume else [],
        solo=definition.max_attempts == 1,
    )


def _park_on_event(db: BaseDatabaseWrapper, park: Commit, *, patient: bool) -> bool:
    """Wait row, look-back and park in one transaction, under the lock that an emit of this event takes too.

    Whichever comes second sees what the first has committed, so that neither misses the other. An emit inside a
    long transaction must not hold up everybody else's work: unless `patient`, the lock is waited for a moment only.
    """
    claim, spec = park.claim, park.event
    assert spec is not None
    # A function's deadline was fixed when it called; a step's begins with this park.
    relative = park.delay if park.step is not None else None
    with store.atomic(db):
        store.wait_for_locks(db, 0.0 if patient else EVENT_PATIENCE)
        store.lock_event(db, claim.workspace, spec.name, shared=True)
        if not store.lock_claim(db, claim):
            return False
        park.names = (f"{EVENT}{store.park_on_event(db, claim, spec)}",)
        if relative is not None:
            park.delay = store.read_clock(db) + relative
        try:
            return bool(store.commit_locked(db, [park]))
        finally:
            park.delay = relative if relative is not None else park.delay


def _settle_park(db: BaseDatabaseWrapper, park: Commit, blocked: list[Commit] | None) -> set[str]:
    """One wait for an event; where its event or its row is held just now, it is settled later."""
    try:
        if store.retrying(db, lambda: _park_on_event(db, park, patient=blocked is None)):
            return {park.claim.id}
        logger.warning("%s", ClaimLost(park.claim.id, park.claim.fence))
    except DatabaseError as error:
        if db.in_atomic_block or _lost_connection(db):
            raise
        if blocked is not None and isinstance(error.__cause__, _PASSING):
            blocked.append(park)
            return set()
        logger.error("the wait of instance %s cannot be stored: %s", park.claim.id, error)
        return settle(db, [_stop(park.claim, f"its wait cannot be stored: {describe_error(error)}")], blocked)
    return set()


def _invoke(claim: Claim, definition: Definition, ctx: Context, outcome: Invoke, db: BaseDatabaseWrapper) -> None:
    commit = Commit(
        claim,
        Kind.SPAWN,
        delay=outcome.timeout,
        signals=ctx.number_handed(outcome.taken),
        solo=definition.max_attempts == 1,
        children=1,
    )

    def write() -> None:
        with store.atomic(db):
            store.wait_for_locks(db)
            if not store.lock_claim(db, claim):
                raise ClaimLost(claim.id, claim.fence)
            store.insert_instances(
                db,
                [outcome.child],
                workspace=claim.workspace,
                parent=claim.id,
                spawn_no=claim.spawns + 1,
                actor=f"instance:{claim.id}",
            )
            store.save_checkpoint(
                db,
                claim,
                outcome.position,
                Call.INVOKE,
                outcome.call,
                settled=False,
                timeout=outcome.timeout,
                child=outcome.child.id,
            )
            store.commit(db, [commit])

    store.retrying(db, write)


def _spawn(claim: Claim, outcome: Spawn, commit: Commit, db: BaseDatabaseWrapper) -> None:
    new = [_plan_child(child) for child in outcome.children]

    def write() -> None:
        with store.atomic(db):
            store.wait_for_locks(db)
            if not store.lock_claim(db, claim):
                raise ClaimLost(claim.id, claim.fence)
            written = store.insert_instances(
                db, new, workspace=claim.workspace, parent=claim.id, spawn_no=claim.spawns + 1
            )
            for one in new:
                if one.id not in written:
                    raise _duplicate(db, one, claim.workspace)
            store.commit(db, [commit])

    store.retrying(db, write)


def _plan_child(child: Child) -> NewInstance:
    definition = registry.resolve(child.workflow)
    return plan_instance(definition, child.input, child.key, f"the input of child {definition.name!r}")


def _duplicate(db: BaseDatabaseWrapper, one: NewInstance, workspace: int) -> DuplicateKey:
    holder = store.find_holder(db, one.key or "", workspace)
    instance = Instance.objects.using(db.alias).filter(pk=holder).first() if holder else None
    return DuplicateKey(one.key or "", instance)


def _state_text(claim: Claim, ctx: Context, given: Any) -> str | None:
    """The state to store; None while it is what the row already holds."""
    value = ctx.changed_state if given is UNSET else given
    if value is UNSET:
        return None
    text = dump_value(value, "the state")
    return None if text == (claim.input if claim.state is None else claim.state) else text


def _last_state(claim: Claim, ctx: Context) -> str | None:
    """The state at the end; one that cannot be stored must not hide the author's reason for stopping."""
    try:
        return _state_text(claim, ctx, UNSET)
    except (NotSerializable, TooLarge):
        return None


def _weigh(commits: Sequence[Commit]) -> int:
    return sum(len(one.state or "") + len(one.result or "") for one in commits)


def _put_back(claim: Claim) -> Commit:
    """This process does not know the workflow: wait for one that does, ever longer, as a deploy ends soon or never."""
    before = _PUT_BACK.match(claim.error or "")
    times = int(before[1]) + 1 if before else 1
    reason = (
        f"put back {times} times: the worker knows no workflow {claim.workflow!r} version {claim.version} with step "
        f"{claim.step!r}; was it started before the workflow was deployed?"
    )
    logger.warning("instance %s is %s", claim.id, reason)
    wait = min(FIRST_PUT_BACK * 2.0 ** min(times - 1, 20), LONGEST_PUT_BACK) * random.uniform(0.5, 1.5)
    return Commit(claim, Kind.PUT_BACK, error=reason, delay=wait, solo=claim.solo)


def _stop(claim: Claim, reason: str) -> Commit:
    return Commit(claim, Kind.STOP, error=reason)


def _fail_run(claim: Claim, definition: Definition, error: BaseException) -> Commit:
    """A run that ended without an outcome: again later, until the attempts are used up."""
    raised = isinstance(error, Exception)
    if claim.runs >= definition.max_attempts:
        runs = f"run {claim.runs} of at most {definition.max_attempts} without progress"
        return _stop(claim, f"{describe_error(error)} ({runs if raised else _spent(claim, definition)})")
    wait = min(2.0 ** min(claim.runs - 1, 20), LONGEST_BACK_OFF) * random.uniform(0.5, 1.0)
    # Alone only where the run may have cost a worker; an exception costs nobody anything.
    solo = claim.solo or not raised or definition.max_attempts == 1
    return Commit(claim, Kind.RUN_FAILED, error=describe_error(error), delay=wait, solo=solo)


def _spent(claim: Claim, definition: Definition) -> str:
    return (
        f"step {claim.step!r} ended {definition.max_attempts} times without an outcome: its worker died or the "
        f"step timed out (max_attempts={definition.max_attempts})"
    )
