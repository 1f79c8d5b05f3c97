"""What an outcome becomes: the row to commit, or several rows that are committed here with it.

Lives here: `make_commit` for every kind of outcome, and the commits of runs that have none. Must not live here:
calling the author. Invariant owned: what writes other rows than its own (children, checkpoints, waits for events)
writes them and its outcome in one transaction, under the lock of the claimed instance.
"""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from django.db.backends.base.base import BaseDatabaseWrapper

from workflows import store
from workflows.awaited_event import EVENT, EventSpec
from workflows.channel import Channel
from workflows.conf import conf
from workflows.context import Context
from workflows.exceptions import (
    ClaimLost,
    DuplicateKey,
    InvalidOutcome,
    NotSerializable,
    PolicyRefused,
    TooLarge,
    describe_error,
    show,
    to_one_line,
)
from workflows.jsontext import RESERVED, dump_value
from workflows.lifecycle import Call
from workflows.models import Instance
from workflows.outcomes import (
    UNSET,
    Await,
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
from workflows.planning import TRIES, plan_spawned
from workflows.policy import ask_policy, describe_event, tell_refused_event
from workflows.question import Question, ask_channel
from workflows.registry import RERUN, Definition
from workflows.store import Claim, Commit, Kind, NewInstance, Source
from workflows.trouble import Trouble

logger = logging.getLogger("workflows")

LONGEST_BACK_OFF = 300.0
#: An instance whose workflow this process does not know waits for a process that does.
FIRST_PUT_BACK = 10.0
LONGEST_PUT_BACK = 600.0
#: Seconds that a park waits for the lock of its event, before the pump goes on with other work.
EVENT_PATIENCE = 0.05
_PUT_BACK = re.compile(r"put back (\d+) times")
#: After the engine's own trouble: soon, as most of it passes, then ever later.
FIRST_POSTPONED = 0.5
LONGEST_POSTPONED = 30.0
_POSTPONED = re.compile(r"postponed (\d+) times")


def make_commit(
    claim: Claim,
    definition: Definition,
    ctx: Context,
    outcome: Outcome,
    db: BaseDatabaseWrapper,
    patience: float = EVENT_PATIENCE,
) -> Commit | None:
    """The row an outcome becomes. What writes other rows first is committed here, with them.

    A row that somebody holds is waited for so many seconds; with 0, as long as it takes.
    """
    match outcome:
        case Await():
            return _park_step(claim, definition, ctx, outcome, db)
        case Suspend(names, event, until, position):
            park = _suspend(claim, definition, ctx, outcome.then, outcome.state, consume=True)
            park.tells = _tell_wait(event, outcome.told)
            park.names, park.delay = names or None, until.timestamp() if until else None
            park.event, park.position = event, position
            return park
        case Invoke():
            _invoke(claim, definition, ctx, outcome, db, patience)
            return None
    commit = _plain_commit(claim, definition, ctx, outcome)
    if isinstance(outcome, Spawn) and outcome.children:
        _spawn(claim, outcome, commit, db, patience)
        return None
    return commit


def _plain_commit(claim: Claim, definition: Definition, ctx: Context, outcome: Outcome) -> Commit:
    """What an outcome says, as a row: nothing is asked for and nothing written."""
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
        case RunAgain(error):
            return make_failed_run(claim, definition, error)
        case Retry(state, delay):
            wait = min(2.0 ** min(claim.attempt, 40), 2.0**33) if delay is None else delay
            return Commit(claim, Kind.RETRY, state=_state_text(claim, ctx, state), delay=wait or None, solo=solo)
        case Spawn(children, then, state):
            return Commit(
                claim,
                Kind.SPAWN,
                step=then,
                state=_state_text(claim, ctx, state),
                signals=ctx.number_handed(),
                solo=solo,
                children=len(children),
            )
        case Done(result):
            return Commit(
                claim,
                Kind.DONE,
                state=_state_text(claim, ctx, UNSET),
                result=dump_value(result, "the result"),
                signals=ctx.number_handed(),
                awaited=read_awaited(claim, definition),
            )
        case Stop(reason):
            awaited = read_awaited(claim, definition)
            return Commit(claim, Kind.STOP, state=_last_state(claim, ctx), error=reason, awaited=awaited)
    raise InvalidOutcome(f"{show(outcome)} is not an outcome the engine knows")


def _park_step(claim: Claim, definition: Definition, ctx: Context, outcome: Await, db: BaseDatabaseWrapper) -> Commit:
    """An Await of whatever kind; a question is opened first, so that its address stands when the step is left."""
    what, answered = outcome.what, _was_answered(claim)
    if what is None and not answered:
        return Commit(
            claim,
            Kind.AWAIT,
            step=outcome.then,
            state=_state_text(claim, ctx, outcome.state),
            names=outcome.names,
            delay=outcome.timeout,
            signals=ctx.number_handed(),
            solo=definition.max_attempts == 1,
        )
    if isinstance(what, EventSpec):
        ctx.allow_event(what)
    question = _ask_in_step(claim, what) if isinstance(what, Channel) else what
    asked = ctx.ask_and_arm(question, outcome.timeout) if isinstance(question, Question) else None
    park = _suspend(claim, definition, ctx, outcome.then, outcome.state, consume=answered)
    if asked is not None:
        park.names, park.delay = (asked.name,), asked.deadline.timestamp() if asked.deadline else None
        if isinstance(question, Question) and question.token and outcome.timeout is not None:
            # Its address may have been read before: then the row of the asking knows no timeout.
            told = {"step": question.step, "channel": question.channel, "timeout": outcome.timeout}
            park.tells = _tell_wait(None, told)
    elif isinstance(what, EventSpec):
        park.event, park.delay = what, outcome.timeout  # still in seconds: it begins under the event's lock
        park.tells = _tell_wait(what, {"timeout": outcome.timeout})
    else:
        park.names = outcome.names
        park.delay = None if outcome.timeout is None else store.read_clock(db) + outcome.timeout
    return park


def _tell_wait(spec: EventSpec | None, told: Mapping[str, Any] | None) -> str | None:
    """What the history shall know of a wait, beside the engine's name for it."""
    if spec is None:
        return None if told is None else dump_value(dict(told), "a wait")
    words = {
        "event": spec.name,
        "channel": spec.channel or "event",
        "match": dict(spec.match) or None,
        "schema": None if spec.schema is None else spec.schema.json,
        **(told or {}),
    }
    return dump_value({key: value for key, value in words.items() if value is not None}, f"event {spec.name!r}")


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


def _suspend(
    claim: Claim, definition: Definition, ctx: Context, then: str | None, state: Any, *, consume: bool
) -> Commit:
    return Commit(
        claim,
        Kind.SUSPEND,
        step=then,
        state=_state_text(claim, ctx, state),
        signals=ctx.number_handed() if consume else [],
        solo=definition.max_attempts == 1,
    )


def park_on_event(db: BaseDatabaseWrapper, park: Commit, *, patient: bool) -> bool:
    """Wait row, look-back and park in one transaction, under the lock that an emit of this event takes too.

    Whichever comes second sees what the first has committed, so that neither misses the other. An emit inside a
    long transaction must not hold up everybody else's work: unless `patient`, the lock is waited for a moment only.
    """
    claim, spec = park.claim, park.event
    assert spec is not None
    allows = None if conf.policy is None else partial(_ask_about_earlier, db, claim, spec)
    with store.atomic(db):
        store.wait_for_locks(db, 0.0 if patient else EVENT_PATIENCE)
        store.lock_event(db, claim.workspace, spec.name, shared=True)
        if not store.lock_claim(db, claim):
            return False
        # A copy, because the park itself may be tried again. A function's deadline was fixed when it called; a step's
        # begins here.
        wait = store.park_on_event(db, claim, spec, park.position, allows=allows)
        armed = replace(park, names=(f"{EVENT}{wait}",))
        if park.step is not None and park.delay is not None:
            armed.delay = store.read_clock(db) + park.delay
        return bool(store.commit_locked(db, [armed]))


def _ask_about_earlier(db: BaseDatabaseWrapper, claim: Claim, spec: EventSpec, id: UUID, actor: str) -> bool:
    """Whether the project's policy lets an event that came before the wait resume it; a refusal is told in its history.

    A policy that fails lets nothing through, and keeps nobody else's outcome.
    """
    wait = describe_event(
        spec.name,
        instance=UUID(claim.id),
        workspace=claim.workspace,
        match=spec.match,
        schema=None if spec.schema is None else spec.schema.json,
        channel=spec.channel,
    )
    try:
        ask_policy("resume", wait, actor)
    except Exception as error:
        if not isinstance(error, PolicyRefused):
            logger.exception("the policy could not be asked about event %r; the wait stays parked", spec.name)
        told = dump_value(tell_refused_event(spec.name, id, error), "a refusal")
        store.record_refusal(db, claim.id, actor=actor, data=told, fence=claim.fence)
        return False
    return True


def _invoke(
    claim: Claim, definition: Definition, ctx: Context, outcome: Invoke, db: BaseDatabaseWrapper, patience: float
) -> None:
    commit = Commit(
        claim,
        Kind.SPAWN,
        delay=outcome.timeout,
        signals=ctx.number_handed(),
        solo=definition.max_attempts == 1,
        children=1,
    )

    def write() -> None:
        with store.atomic(db):
            store.wait_for_locks(db, patience)
            if outcome.adrift is not None:
                store.lock_with_child(db, claim, outcome.adrift[0])
            if not store.lock_claim(db, claim):
                raise ClaimLost(claim.id, claim.fence)
            if outcome.adrift is not None:
                alive = store.join_child(db, claim, *outcome.adrift)
                commit.children, commit.delay = int(alive), outcome.timeout if alive else None
            else:
                store.insert_instances(
                    db,
                    [outcome.child],
                    workspace=claim.workspace,
                    source=Source(claim.id, is_family=True, spawn_no=claim.spawns + 1),
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
                child=outcome.adrift[0] if outcome.adrift is not None else outcome.child.id,
            )
            store.commit(db, [commit])

    store.retrying(db, write)


def _spawn(claim: Claim, outcome: Spawn, commit: Commit, db: BaseDatabaseWrapper, patience: float) -> None:
    new = [plan_spawned(child) for child in outcome.children]

    def write() -> None:
        with store.atomic(db):
            store.wait_for_locks(db, patience)
            if not store.lock_claim(db, claim):
                raise ClaimLost(claim.id, claim.fence)
            _insert_children(db, claim, new)
            store.commit(db, [commit])

    store.retrying(db, write)


def _insert_children(db: BaseDatabaseWrapper, claim: Claim, new: list[NewInstance]) -> None:
    source = Source(claim.id, is_family=True, spawn_no=claim.spawns + 1)
    for left in range(TRIES - 1, -1, -1):
        written = store.insert_instances(db, new, workspace=claim.workspace, source=source)
        new = [one for one in new if one.id not in written]
        if not new:
            return
        taken = _duplicate(db, new[0], claim.workspace)
        if taken.instance is not None or not left:
            raise taken  # a holder that has just ended holds nothing


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


def make_put_back(claim: Claim, unknown: str = "") -> Commit:
    """This process does not know the workflow, or what it is about: wait for one that does.

    Ever longer, as a deploy ends soon or never.
    """
    before = _PUT_BACK.match(claim.error or "")
    times = int(before[1]) + 1 if before else 1
    unknown = unknown or f"no workflow {claim.workflow!r} version {claim.version} with step {claim.step!r}"
    reason = (
        f"put back {times} times: the worker knows {unknown}. If that is new, restart the workers (qcluster, "
        "workflow_worker): each runs the code that it started with. If it is gone, register it again, or cancel"
    )
    logger.warning("instance %s is %s", claim.id, reason)
    wait = min(FIRST_PUT_BACK * 2.0 ** min(times - 1, 20), LONGEST_PUT_BACK) * random.uniform(0.5, 1.5)
    return Commit(claim, Kind.PUT_BACK, error=reason, delay=wait, solo=claim.solo)


def make_postponed(claim: Claim, trouble: Trouble) -> Commit:
    """The engine's own trouble ended the run: again a little later, alone, and no attempt is spent.

    Unless the instance meets it again while it runs alone: it may be its own doing, and so each such run counts as one
    whose worker died. A row that somebody holds is nobody's doing.
    """
    before = _POSTPONED.match(claim.error or "")
    times = int(before[1]) + 1 if before else 1
    reason = f"postponed {times} times, the last time for {describe_error(trouble.error)}"
    wait = min(FIRST_POSTPONED * 2.0 ** min(times - 1, 20), LONGEST_POSTPONED) * random.uniform(0.5, 1.5)
    spent = before is not None and claim.solo and not trouble.held
    logger.warning("step %s of %s %s is %s", claim.step, claim.workflow, claim.id, to_one_line(reason))
    return Commit(claim, Kind.POSTPONE, error=reason, delay=wait, spent=spent)


def make_stop(claim: Claim, reason: str, *, awaited: tuple[str, ...] = ()) -> Commit:
    """The end as failed, with its reason."""
    return Commit(claim, Kind.STOP, error=reason, awaited=awaited)


def read_awaited(claim: Claim, definition: Definition) -> tuple[str, ...]:
    """The names whose late signals make an ending step run again."""
    return tuple(claim.names or ()) if definition.late_signals == RERUN else ()


def make_failed_run(claim: Claim, definition: Definition, error: BaseException) -> Commit:
    """A run that ended without an outcome: again later, until the attempts are used up."""
    raised = isinstance(error, Exception)
    if claim.runs >= definition.max_attempts:
        runs = f"run {claim.runs} of at most {definition.max_attempts} without progress"
        return make_stop(claim, f"{describe_error(error)} ({runs if raised else tell_spent(claim, definition)})")
    wait = min(2.0 ** min(claim.runs - 1, 20), LONGEST_BACK_OFF) * random.uniform(0.5, 1.0)
    # Alone only where the run may have cost a worker; an exception costs nobody anything.
    solo = claim.solo or not raised or definition.max_attempts == 1
    return Commit(claim, Kind.RUN_FAILED, error=describe_error(error), delay=wait, solo=solo)


def tell_spent(claim: Claim, definition: Definition) -> str:
    """Why the attempts are used up."""
    last = f"; {claim.error}" if _POSTPONED.match(claim.error or "") else ""
    cause = "its worker died, it lost its database connection or the" if last else "its worker died or the"
    return (
        f"step {claim.step!r} ended {definition.max_attempts} times without an outcome: {cause} "
        f"step timed out (max_attempts={definition.max_attempts}){last}"
    )
