"""Planning: what an outcome becomes, as a value that the store writes.

Lives here: the plan for every kind of outcome, and the commits of runs that have none. Must not live here: calling the
author, and writing. Invariant owned: a plan is serialised and checked; the same outcome of the same run is planned
alike however often.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any
from uuid import UUID

from workflows.definitions.awaited_event import EventSpec
from workflows.definitions.channel import Channel
from workflows.definitions.flow.known_limits import check_queue
from workflows.definitions.outcomes import (
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
from workflows.definitions.question import OpenedQuestion, Question, ask_channel
from workflows.definitions.registry import RERUN, Definition
from workflows.engine.context import Context
from workflows.engine.planning import plan_spawned
from workflows.exceptions import (
    InvalidOutcome,
    NotSerializable,
    TooLarge,
    describe_error,
    show,
    to_one_line,
)
from workflows.exceptions.trouble import Trouble
from workflows.store import Claim, Commit, InvokePlan, Kind, Move, SpawnPlan
from workflows.values import back_off
from workflows.values.json_text import RESERVED, dump_value

logger = logging.getLogger("workflows")

_PUT_BACK = re.compile(r"put back (\d+) times")
_POSTPONED = re.compile(r"postponed (\d+) times")


def plan_outcome(
    claim: Claim, definition: Definition, ctx: Context, outcome: Outcome
) -> Commit | SpawnPlan | InvokePlan:
    """What to write for an outcome; an `Await` has a plan of its own."""
    match outcome:
        case Suspend(names, event, until, position):
            park = _plan_suspend(claim, definition, ctx, outcome.then, outcome.state, consume=True)
            park.tells = _describe_wait(event, outcome.told)
            park.names, park.delay = names or None, until.timestamp() if until else None
            park.event, park.position = event, position
            park.withdraws = ctx.list_used(outcome)
            return park
        case Invoke(timeout=timeout):
            signals, solo = ctx.number_handed(), definition.max_attempts == 1
            seconds = None if isinstance(timeout, datetime) else timeout  # a moment is counted when it is written
            return InvokePlan(Commit(claim, Kind.SPAWN, delay=seconds, signals=signals, solo=solo, children=1), outcome)
    commit = _plan_plainly(claim, definition, ctx, outcome)
    commit.withdraws = ctx.list_used(outcome)
    if isinstance(outcome, Spawn) and outcome.children:
        return SpawnPlan(commit, [plan_spawned(child) for child in outcome.children])
    return commit


def _plan_plainly(claim: Claim, definition: Definition, ctx: Context, outcome: Outcome) -> Commit:
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
                move=_plan_move(definition, outcome),
            )
        case RunAgain(error):
            return make_failed_run(claim, definition, error)
        case Retry(state, delay):
            wait = back_off.RETRY.find_seconds(claim.attempt) if delay is None else delay
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


def _plan_move(definition: Definition, outcome: Next) -> Move | None:
    """Where what follows stands, if that changes."""
    if outcome.queue is None and outcome.priority is None and outcome.key is None:
        return None
    check_queue(outcome.queue)
    limit = None if definition.flow is None else definition.flow.concurrency
    if outcome.key is not None and limit is None:
        raise InvalidOutcome(
            f"Next(key={outcome.key!r}) is the key of a Concurrency, and workflow {definition.name!r} has none; "
            "declare it as concurrency=Concurrency(key, limit)"
        )
    return Move(outcome.queue, outcome.priority, outcome.key, limit is not None and limit.hold == "instance")


def plan_await(
    claim: Claim,
    definition: Definition,
    ctx: Context,
    outcome: Await,
    question: Question | None,
    asked: OpenedQuestion | None,
    now: float,
) -> Commit:
    """What to write for an `Await`: the question that it asks, and how that was opened, come with it."""
    what, answered = outcome.what, was_answered(claim)
    if what is None and not answered:
        return Commit(
            claim,
            Kind.AWAIT,
            step=outcome.then,
            state=_state_text(claim, ctx, outcome.state),
            names=outcome.names,
            delay=find_seconds(outcome.timeout, now),
            signals=ctx.number_handed(),
            solo=definition.max_attempts == 1,
            withdraws=ctx.list_used(outcome),
        )
    park = _plan_suspend(claim, definition, ctx, outcome.then, outcome.state, consume=answered)
    park.withdraws = ctx.list_used(outcome)
    if asked is not None:
        park.names, park.delay = (asked.name,), asked.deadline.timestamp() if asked.deadline else None
        if question is not None and question.token and outcome.timeout is not None:
            # Its address may have been read before: then the row of the asking knows no timeout.
            park.tells = _describe_wait(
                None, {"step": question.step, "channel": question.channel, **_describe_time(outcome.timeout)}
            )
    elif isinstance(what, EventSpec):
        # Still in seconds: it begins under the event's lock.
        park.event, park.delay = what, find_seconds(outcome.timeout, now)
        park.tells = _describe_wait(what, _describe_time(outcome.timeout))
    else:
        park.names = outcome.names
        left = find_seconds(outcome.timeout, now)
        park.delay = None if left is None else now + left
    return park


def find_seconds(time: float | datetime | None, now: float) -> float | None:
    """Seconds from now until a wait ends; a moment that has passed is now."""
    return max(time.timestamp() - now, 0.0) if isinstance(time, datetime) else time


def _describe_time(time: float | datetime | None) -> dict[str, Any]:
    """How long a wait lasts, as the history tells it."""
    return {"until": time} if isinstance(time, datetime) else {"timeout": time}


def find_question(claim: Claim, outcome: Await) -> Question | None:
    """The question that an `Await` asks, if it asks one.

    A channel is named after its step; a callback of that name is another question.
    """
    if not isinstance(outcome.what, Channel):
        return outcome.what if isinstance(outcome.what, Question) else None
    question = ask_channel(claim.step, outcome.what)
    address = replace(question, step=f"{claim.step}.{outcome.what.name}").address(UUID(claim.id))
    return replace(question, signal_id=address)


def wants_clock(claim: Claim, outcome: Await) -> bool:
    """Whether a plan needs the moment: for a wait until one, or for plain names that begins after an answer."""
    if isinstance(outcome.timeout, datetime):
        return outcome.what is None or isinstance(outcome.what, EventSpec)
    return outcome.what is None and outcome.timeout is not None and was_answered(claim)


def _describe_wait(spec: EventSpec | None, told: Mapping[str, Any] | None) -> str | None:
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


def was_answered(claim: Claim) -> bool:
    """Whether the step was woken for an answer or an event: it has been handed out, and so is used up by any park.

    Signals of plain names accumulate; the answer of a question belongs to one visit.
    """
    return claim.names is not None and claim.names[0].startswith(RESERVED)


def _plan_suspend(
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
    wait = back_off.PUT_BACK.find_seconds(times)
    return Commit(claim, Kind.PUT_BACK, error=reason, delay=wait, solo=claim.solo)


def make_postponed(claim: Claim, trouble: Trouble) -> Commit:
    """The engine's own trouble ended the run: again a little later, alone, and no attempt is spent.

    Unless the instance meets it again while it runs alone: it may be its own doing, and so each such run counts as one
    whose worker died. A row that somebody holds is nobody's doing.
    """
    before = _POSTPONED.match(claim.error or "")
    times = int(before[1]) + 1 if before else 1
    reason = f"postponed {times} times, the last time for {describe_error(trouble.error)}"
    wait = back_off.POSTPONED.find_seconds(times)
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
    wait = back_off.FAILED_RUN.find_seconds(claim.runs)
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
