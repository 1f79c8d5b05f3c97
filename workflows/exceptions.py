"""The errors of the engine: one tree, each class names a condition and words its own message.

    WorkflowError
    ├── InvalidCall (ValueError)        the caller's argument is wrong; nothing was stored
    │   ├── NotSerializable             a value that JSON in PostgreSQL cannot hold, with its path
    │   ├── TooLarge                    a payload, state, result or body above its limit
    │   ├── TooMany                     a list with more items than a unit may have
    │   ├── InvalidDuration             a timeout or delay that is zero, negative or unreadable
    │   ├── InvalidInput                an input the workflow does not accept; `.errors`
    │   ├── InvalidData                 an answer or event that its schema refuses; `.errors`
    │   │   └── TooComplex              one that takes too much work to be checked
    │   ├── InvalidSchema               a schema that cannot be used as it is written
    │   ├── InvalidSignalId             a text that cannot be a signal id
    │   └── InvalidOutcome              a step returned something that is not an outcome
    │       └── UnknownStep             an outcome names a step that the workflow does not have
    ├── UnknownWorkflow                 no workflow of that name (and version) is registered
    ├── DuplicateWorkflow               two definitions claim one name and version
    ├── InvalidDefinition               a workflow class cannot work as it is written
    ├── UnknownWorkspace                no workspace has that slug
    ├── NoTarget                        no live instance there to take the signal
    │   └── InvalidTarget (TypeError)   the target is not an Instance, a UUID or a str key
    ├── NoReader                        the workflow there can never read a signal
    ├── DuplicateKey                    a live instance of the workspace holds the key; `.instance`
    ├── NotRetryable                    only a failed instance nobody replaced or counted can be retried
    ├── NotRedrivable                   a question that is over, or whose workflow has gone on, is not sent again
    ├── NotCancellable                  the instance has already ended
    ├── NotFinished                     `result()` was asked before the end
    ├── InstanceFailed                  `result()` of a failed instance; `.instance`
    ├── InstanceCancelled               `result()` of a cancelled instance; `.instance`
    ├── SignalCollision                 another pending interaction of the workspace has the signal id
    ├── SignalTimeoutError              a wait of a function ended by its deadline
    ├── ChildFailed                     an invoked child failed; `.child`
    │   └── ChildCancelled              an invoked child was cancelled
    ├── UnitFailed                      a question was reported as failed, or one of several items was
    ├── CallRaised                      a call raised in an earlier run what cannot be raised again as it was
    ├── NonDeterministic                a replay does not match what was saved
    │   └── DuplicateCheckpoint         one run used an id twice
    ├── InteractionRefused              a completion changed nothing
    │   ├── UnknownInteraction          (404) no such interaction in the workspace
    │   ├── StaleVersion                (409) it has changed since it was shown
    │   ├── AnswerElsewhere             (409) its channel takes the answer, this door does not
    │   ├── IdempotencyConflict         (409) the idempotency key came with other data before
    │   ├── InteractionResolved         (410) it has been answered, or its time is over
    │   ├── ProjectionFailed            (422) no output could be made of what was submitted
    │   └── PolicyRefused               (403) WORKFLOWS["POLICY"] said no
    ├── DispatchFailed                  a channel could not send a question; raised by its `dispatch`
    ├── InvalidToken (LookupError)      not a token of this site, or of a key that it no longer has
    ├── LeftTransactionOpen             a step returned with a transaction of its own still open
    ├── StrictIsolation                 an event inside a transaction that could miss who waits for it
    ├── EngineOwned                     a model was written past the store
    └── ClaimLost                       a stale worker tried to commit; nothing changed

`StepTimedOut` stands outside: it is a `BaseException`, so that an author's `except Exception` cannot
keep a step alive past its limit.

A message is English and for who calls; what people can do wrong by what they type has a `.reason` besides, which
`tell()` says in their language, without the names and the values that only a program's author knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.utils.translation import gettext

from workflows import clash as clash  # first, so that somebody else's package is told of before anything fails
from workflows.reasons import Placed, Reason, make_sentence
from workflows.reasons import gettext_noop as _

if TYPE_CHECKING:
    from workflows.models import Instance
    from workflows.transports.outgoing import Sent


def show(value: object) -> str:
    """A value in a message: short, and readable even where its `repr` fails."""
    try:
        return f"{value!r:.80}"
    except Exception:
        return f"<{type(value).__name__} that cannot be shown>"


def _tell_places(errors: Mapping[str, Any]) -> str:
    """Places with their reasons, in one line; what is wrong with the whole has no place."""
    told = []
    for place, given in list(errors.items())[:20]:
        reasons = ", ".join(map(str, given)) if isinstance(given, list | tuple) else str(given)
        told.append(f"{place:.200}: {reasons}" if place else reasons)
    if len(errors) > 20:
        told.append(f"and {len(errors) - 20} more")
    return "; ".join(told)


class WorkflowError(Exception):
    """Whatever the engine refuses or reports."""


class InvalidCall(WorkflowError, ValueError):
    """An argument is wrong; the message says what to write instead. Nothing was stored."""

    #: What is wrong, where it can be somebody's who typed it.
    reason: str = ""

    def __init__(self, message: str, *, reason: str = "") -> None:
        if reason:
            self.reason = reason
        super().__init__(message)

    def tell(self) -> str:
        """A sentence for whoever typed it, in the language that is spoken now."""
        return make_sentence(self.reason) if self.reason else gettext("This cannot be used as it is.")


class NotSerializable(InvalidCall):
    """A value that cannot be kept as JSON in PostgreSQL."""

    def __init__(self, what: str, path: str, problem: str) -> None:
        self.what, self.path, self.problem = what, path, problem
        self.reason = Reason(
            _("this cannot be kept as it is: at %(place)s, %(problem)s"), {"place": path, "problem": problem}
        )
        super().__init__(f"{what} cannot be stored: at {path}, {problem}")


class TooLarge(InvalidCall):
    """A value above its limit."""

    def __init__(self, what: str, size: int, limit: int) -> None:
        self.what, self.size, self.limit = what, size, limit
        told = _("This answer is too large: %(size)s bytes, and %(limit)s at most.")
        self.reason = Reason(told, {"size": str(size), "limit": str(limit)})
        super().__init__(
            f"{what} is {size} bytes as JSON, the limit is {limit}. "
            "Keep the large part elsewhere and pass a reference to it."
        )


class TooMany(InvalidCall):
    """A list has more items than a unit may have."""

    def __init__(self, what: str, limit: int, setting: str) -> None:
        self.limit = limit
        super().__init__(
            f'{what} has more than {limit} items: split it into several waits, or raise WORKFLOWS["{setting}"]'
        )


class InvalidDuration(InvalidCall):
    """A duration that is not positive or not readable."""

    def __init__(self, value: object, problem: str) -> None:
        self.value = value
        super().__init__(
            f"{show(value)} is not a usable duration: {problem}. "
            'Write "30m", "24h", "7d", "1h30m", ISO 8601 such as "PT24H", seconds, or a timedelta.'
        )


class InvalidInput(InvalidCall):
    """The workflow does not accept this input; `.errors` maps a field to what is wrong with it."""

    def __init__(self, workflow: str, errors: Mapping[str, Any]) -> None:
        self.workflow, self.errors = workflow, dict(errors)
        super().__init__(f"workflow {workflow!r} does not accept this input: {_tell_places(self.errors)}")


class InvalidData(InvalidCall):
    """Data that its schema refuses; `.errors` maps a place ("amount", "lines.0.price", "" for all of it) to reasons."""

    def __init__(self, errors: Mapping[str, list[str]]) -> None:
        self.errors = dict(errors)
        self.reason = Placed(self.errors)
        super().__init__(f"the data does not fit its schema: {_tell_places(self.errors)}")


class TooComplex(InvalidData):
    """Data that takes more work to be checked than one answer may cost, right or wrong."""

    def __init__(self) -> None:
        super().__init__({"": [Reason(_("takes too much work to be checked: send less at once, or a simpler form"))]})


class InvalidSchema(InvalidCall):
    """A schema that cannot be used as it is written."""

    def __init__(self, schema: object, problem: str) -> None:
        super().__init__(
            f"{show(schema)} cannot be used as a schema: {problem}. Pass a JSON Schema, a dataclass, a pydantic model, "
            "a DRF serializer, a Django form, or a dict of field to type."
        )


class InvalidSignalId(InvalidCall):
    """A signal id that cannot be an address."""

    def __init__(self, signal_id: object) -> None:
        super().__init__(
            f"{show(signal_id)} is no signal id: use 1 to 200 characters, no control characters, and not . or .."
        )


class InvalidOutcome(InvalidCall):
    """A step returned something the engine cannot commit."""


class UnknownStep(InvalidOutcome):
    """An outcome leads to a step that does not exist."""

    def __init__(self, workflow: str, step: object, known: list[str]) -> None:
        self.workflow, self.step = workflow, step
        super().__init__(f"workflow {workflow!r} has no step {show(step)}; it has {', '.join(known)}")


class UnknownWorkflow(WorkflowError, LookupError):
    """Nothing is registered under this name, or not in this version."""

    def __init__(self, workflow: object, known: list[str]) -> None:
        self.workflow = workflow
        names = ", ".join(known) or "none"
        if isinstance(workflow, type) and any(one.__name__ == "Workflow" for one in workflow.__bases__):
            super().__init__(f"{workflow.__qualname__} has no steps: write @step above each method that is one")
            return
        super().__init__(
            f"no workflow {show(workflow)} is registered (registered: {names}). Workflows are found in the "
            "workflows.py of each installed app."
        )


class DuplicateWorkflow(WorkflowError):
    """Two definitions claim one name and version."""

    def __init__(self, name: str, version: int, first: str, second: str) -> None:
        super().__init__(
            f"workflow {name!r} version {version} is defined twice, in {first} and in {second}. "
            "Give one of them another `name`, or raise `version` when it replaces the other."
        )


class InvalidDefinition(WorkflowError):
    """A workflow cannot work as it is written; raised when its class is made."""


class UnknownWorkspace(WorkflowError, LookupError):
    """No workspace has this slug."""

    def __init__(self, slug: object) -> None:
        self.slug = slug
        super().__init__(f"there is no workspace {slug!r}; make it with workflows.workspace.create({slug!r})")


class NoTarget(WorkflowError, LookupError):
    """No live instance is there to take the signal; nothing was stored."""

    def __init__(self, target: object) -> None:
        self.target = target
        super().__init__(
            f"no live instance for {target!r}: it has ended, never existed, or is in another workspace. "
            f"Nothing was stored.{_hint_at_id(target)}"
        )


def _hint_at_id(target: object) -> str:
    """Sessions and JSON turn an id into a text, and a text is a key."""
    try:
        id = UUID(target) if isinstance(target, str) else None
    except ValueError:
        return ""
    return (
        "" if id is None else f" A UUID written as text is a correlation key; to address by id pass uuid.UUID('{id}')."
    )


class NoReader(WorkflowError):
    """The workflow of the instance can never read a signal that is sent by name; nothing was stored."""

    def __init__(self, workflow: str) -> None:
        self.workflow = workflow
        super().__init__(
            f"workflow {workflow!r} is a function or a machine and reads no signals: answer what it asks with "
            "workflows.complete, or emit the event that it waits for. Nothing was stored."
        )


class InvalidTarget(NoTarget, TypeError):
    """The target is of a kind that addresses nothing."""

    def __init__(self, target: object) -> None:
        self.target = target
        Exception.__init__(
            self,
            f"{show(target)} is no target: pass an Instance or its UUID to address by id, or a str to address "
            "by correlation key (a UUID written as text is a key; wrap it in uuid.UUID to use it as an id)",
        )


class DuplicateKey(WorkflowError):
    """A live instance of the workspace already holds the key; `.instance` is that one."""

    def __init__(self, key: str, instance: Instance | None) -> None:
        self.key, self.instance = key, instance
        held = f"instance {instance.id} ({instance.workflow})" if instance else "an instance that just ended"
        super().__init__(f"key {key!r} is held by {held}. Signal that one, or start again when it has ended.")


class NotRetryable(WorkflowError):
    """`retry()` or `retry_item()` was refused; the message says which rule forbids it."""

    def __init__(self, instance_id: object, problem: str, *, item: str | None = None) -> None:
        what = f"instance {instance_id}" if item is None else f"{item!r}"
        super().__init__(f"{what} cannot be retried: {problem}")


class NotRedrivable(WorkflowError):
    """`redrive()` was refused; the message says why the question is not sent again."""

    def __init__(self, interaction_id: object, problem: str) -> None:
        super().__init__(f"interaction {interaction_id} cannot be sent again: {problem}")


class NotCancellable(WorkflowError):
    """The instance has already ended."""

    def __init__(self, instance_id: object, status: str) -> None:
        self.status = status
        super().__init__(f"instance {instance_id} cannot be cancelled: it is {status} already")


#: Where work waits and nobody does it.
NO_WORKER = "No worker shows a sign of life: start manage.py qcluster or workflow_worker."


class NotFinished(WorkflowError):
    """The instance has not ended yet."""

    def __init__(self, instance: Instance, hint: str = "") -> None:
        self.instance = instance
        why = f" ({instance.error})" if instance.error else ""
        super().__init__(
            f"instance {instance.id} is {instance.status} in step {instance.step!r}, not finished{why}"
            f"{'. ' if hint else ''}{hint}"
        )


class InstanceFailed(WorkflowError):
    """The instance ended as failed; `.instance.error` holds the reason."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        super().__init__(f"instance {instance.id} ({instance.workflow}) failed: {instance.error}")


class InstanceCancelled(WorkflowError):
    """The instance was cancelled; `.instance.error` holds the reason given."""

    def __init__(self, instance: Instance) -> None:
        self.instance = instance
        reason = f": {instance.error}" if instance.error else ""
        super().__init__(f"instance {instance.id} ({instance.workflow}) was cancelled{reason}")


class SignalCollision(WorkflowError):
    """A pending interaction of the workspace has this signal id already; that one keeps waiting."""

    def __init__(self, signal_id: str) -> None:
        self.signal_id = signal_id
        super().__init__(
            f"signal id {signal_id!r} is taken by another pending interaction of this workspace. It is free again when "
            "that one is answered, expires or is cancelled; put ctx.id into the id to make it your own."
        )


class SignalTimeoutError(WorkflowError):
    """The deadline of a wait passed without an answer."""

    def __init__(self, wait: str, index: int | None = None) -> None:
        #: The item whose time was over, counted from 0; None where one question was asked and not a list.
        self.wait, self.index = wait, index
        item = "" if index is None else f"item {index} of "
        super().__init__(f"{item}{wait!r} was not answered before its deadline")


class ChildFailed(WorkflowError):
    """An invoked child did not end well."""

    _how = "failed"

    def __init__(self, call: str, child: object, reason: str | None) -> None:
        self.call, self.child, self.reason = call, child, reason
        super().__init__(f"{call!r}: its child {child} {self._how}{f': {reason}' if reason else ''}")


class ChildCancelled(ChildFailed):
    """An invoked child was cancelled."""

    _how = "was cancelled"


class UnitFailed(WorkflowError):
    """What was asked cannot be answered any more: it was reported as failed, or one of several items was."""

    def __init__(self, wait: str, reason: str, index: int | None = None) -> None:
        #: The item that failed first, counted from 0; None where one question was asked and not a list.
        self.wait, self.reason, self.index = wait, reason, index
        item = "" if index is None else f"item {index}: "
        super().__init__(f"{wait!r} failed: {item}{reason}")


class CallRaised(WorkflowError):
    """A call of a function raised something in an earlier run, of a class that cannot be imported."""

    def __init__(self, text: str) -> None:
        super().__init__(
            f"{text} (raised in an earlier run; define its class at the top of a module to catch it by name)"
        )


class NonDeterministic(WorkflowError):
    """A function that is run again did not make the calls that it made before."""

    def __init__(self, position: int, saved: str, now: str) -> None:
        self.position, self.saved, self.now = position, saved, now
        super().__init__(
            f"call {position} of this workflow was {saved}, and is {now} in this run. A function must make the same "
            "calls in the same order each time: add new calls after the last saved one only, keep what changes between "
            "runs (time, random numbers, database reads) inside ctx.step(…), or register the changed function with a "
            "higher `version`."
        )


class DuplicateCheckpoint(NonDeterministic):
    """Two calls of one run have the same id."""

    def __init__(self, name: str) -> None:
        self.name = name
        WorkflowError.__init__(
            self,
            f"the id {name!r} is used by two calls of one run; give each call its own, in a loop e.g. f'{name}-{{n}}'",
        )


class DispatchFailed(WorkflowError):
    """A question could not be sent. The text is kept on the question, so it must name no secret.

    >>> DispatchFailed("hooks.example answered 503", retry_after=30).final
    False
    """

    def __init__(
        self,
        message: str,
        *,
        final: bool = False,
        away: bool = False,
        retry_after: float | None = None,
        sent: Sent | None = None,
    ) -> None:
        #: Whether trying again leads nowhere.
        self.final = final
        #: Whether the transport itself was not there, for this question or any other: then it does not count as a try.
        self.away = away
        #: Seconds that the other side asks to be left alone.
        self.retry_after = retry_after
        #: What the delivery log is told.
        self.sent = sent
        super().__init__(message)


class InteractionRefused(WorkflowError):
    """A completion was refused; nothing has changed by it."""


class UnknownInteraction(InteractionRefused, LookupError):
    """Unknown, cancelled, or of another workspace: told alike."""

    def __init__(self) -> None:
        super().__init__(
            "there is no such interaction here: check the id and the workspace. The id is the signal id of the "
            "question, or that of its Interaction; the id or the key of an instance is neither. Perhaps its wait has "
            "not begun, and it was not asked yet. Where an answer may come before its wait, emit an event, or hand out "
            "a callback first"
        )


class StaleVersion(InteractionRefused):
    """The caller decided on something that has changed."""

    def __init__(self, shown: object, current: int) -> None:
        self.shown, self.current = shown, current
        super().__init__(f"the interaction is at version {current}, not {shown!r}: look at it again, then answer")


class AnswerElsewhere(InteractionRefused):
    """The channel of this interaction takes its answers itself."""

    def __init__(self, channel: str, door: str) -> None:
        self.channel, self.door = channel, door
        super().__init__(f"an interaction of channel {channel!r} is answered {door}, not here")


class IdempotencyConflict(InteractionRefused):
    """The same idempotency key came with other data."""

    def __init__(self, key: str) -> None:
        self.key = key
        super().__init__(f"idempotency key {key!r} was used with other data; use a new key for another call")


class InteractionResolved(InteractionRefused):
    """It has been answered, or its deadline has passed."""

    def __init__(self, how: str) -> None:
        self.how = how
        super().__init__(f"the interaction is {how} already; an answer can no longer be taken")


class ProjectionFailed(InteractionRefused):
    """The projector raised; the interaction stays pending."""

    def __init__(self, projector: str, error: Exception) -> None:
        self.projector = projector
        super().__init__(
            f"no output could be made of this answer: {projector} raised {type(error).__name__}: {show(error)}"
        )


class PolicyRefused(InteractionRefused):
    """The project's policy said no."""

    def __init__(self, operation: str, reason: str = "") -> None:
        self.operation, self.reason = operation, reason
        super().__init__(f'WORKFLOWS["POLICY"] refused {operation!r}{f": {reason}" if reason else ""}')


class InvalidToken(WorkflowError, LookupError):
    """Not a token that this site made with one of its keys. The message never holds the token."""

    def __init__(self) -> None:
        super().__init__(
            'this is no token of this site: it was not copied in full, or its key is gone from WORKFLOWS["TOKEN_KEYS"]'
        )


class LeftTransactionOpen(WorkflowError):
    """A step returned with a transaction of its own still open; it was rolled back."""

    def __init__(self, aliases: list[str]) -> None:
        self.aliases = aliases
        super().__init__(
            f"the step left a transaction open on {', '.join(aliases)}, which was rolled back: end what you begin "
            "(use `with transaction.atomic():`), or let @step(atomic=True) begin and end it for you"
        )


class StrictIsolation(WorkflowError):
    """A transaction stricter than READ COMMITTED cannot see what the lock of an event made it wait for."""

    def __init__(self, event: str, level: str, *, waits: bool) -> None:
        self.event, self.level = event, level
        if waits:
            super().__init__(
                f"an atomic step inside a {level.upper()} transaction cannot wait for event {event!r}: it could miss "
                "one that was emitted since it began. Wait in a step that is not atomic, or leave the isolation level "
                "at READ COMMITTED."
            )
        else:
            super().__init__(
                f"event {event!r} was emitted inside a {level.upper()} transaction, which could miss who began to wait "
                "for it since the transaction began. Emit after it: transaction.on_commit(lambda: "
                f"emit({event!r}, …)), in a workflow with ctx.emit(…); or leave the isolation level at READ COMMITTED."
            )


class EngineOwned(WorkflowError):
    """A row of the engine was about to be written past the store."""

    def __init__(self, model: str, calls: str = "") -> None:
        calls = calls or "workflows.start, signal, emit, complete, cancel or retry"
        super().__init__(f"{model} rows are written by the engine only. Use {calls}; reading through the ORM is fine.")


class ClaimLost(WorkflowError):
    """Another worker holds the instance now; this worker's outcome changed nothing."""

    def __init__(self, instance_id: object, fence: int) -> None:
        super().__init__(f"claim {fence} on instance {instance_id} is no longer valid; nothing was changed")


class StepTimedOut(BaseException):
    """Raised inside a step that ran longer than its `step_timeout`."""
