"""What a durable function may call on its `ctx`, and how a call finds what an earlier run saved.

Invariants owned:

* A saved result is never made again. Calls are matched by position, kind and id; a run that makes others is
  told what differed (`NonDeterministic`), before it has done anything new.
* A wait has one row. Its question, token and deadline are found again by every later run.
* After a suspension nothing happens any more: every further call of that run suspends again.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Generic, Literal, NoReturn, ParamSpec, TypeVar, overload
from uuid import UUID

from workflows.context import Context
from workflows.durations import parse_delay, parse_timeout
from workflows.exceptions import (
    ChildCancelled,
    ChildFailed,
    DuplicateCheckpoint,
    InvalidCall,
    NonDeterministic,
    SignalTimeoutError,
    UnitFailed,
    show,
)
from workflows.jsontext import check_text, dump_value, read_back
from workflows.lifecycle import Call, Cardinality, InteractionStatus, Status
from workflows.outcomes import Done, Invoke, Next, Outcome, Suspend
from workflows.store import FAILURE, Saved
from workflows.styles.each import wait_for_each
from workflows.styles.raised import describe_raised, is_authors, revive_error
from workflows.typed import A, BodyKind, CardinalityName, Duration, Projector, SchemaValue, T, Validating, WorkflowRef
from workflows.units.results import ItemResult
from workflows.units.streams import CONCURRENCY, Asking, read_concurrency, read_policy
from workflows.waits import (
    EVENT,
    UNIT,
    Asked,
    Channel,
    EventSpec,
    Question,
    ask_channel,
    event,
    name_projector,
    read_label,
)

if TYPE_CHECKING:
    from workflows.journal import Journal
    from workflows.schema import Schema
    from workflows.store import Claim
    from workflows.styles.function import Durable

P = ParamSpec("P")
R = TypeVar("R")


class Suspended(BaseException):
    """Ends a run that waits. Not an Exception, so that an author's `except Exception` cannot swallow it."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome


class FunctionContext(Context):
    """The `ctx` of a durable function.

    >>> def outreach(ctx: FunctionContext, contact: str) -> dict[str, str]:
    ...     return {"draft": ctx.step("draft", write_draft, contact)}
    """

    __slots__ = (
        "_adrift",
        "_attempt",
        "_cursor",
        "_names",
        "_origins",
        "_raised",
        "_running",
        "_saved",
        "_taken",
        "interrupted",
        "suspended",
    )

    def __init__(self, claim: Claim, left: Journal) -> None:
        super().__init__(claim, left)
        #: What earlier runs saved, read once, when the first call asks; nothing can be there in the first run.
        self._saved: list[Saved] | None = [] if claim.fence == 1 else None
        self._attempt = max(0, claim.runs - 1)
        #: Children that live on although their calls are to be made again.
        self._adrift: list[Saved] = []
        self._cursor = 0
        #: The call whose function is being run just now.
        self._running: str | None = None
        self._raised: tuple[Call, str, BaseException] | None = None
        self._origins: list[tuple[BaseException, Saved]] = []
        #: What ended a call and is not the author's to catch, such as the end of the step's time.
        self.interrupted: BaseException | None = None
        self._names: set[str] = set()
        self._taken: set[str] = set()
        self.suspended: Suspended | None = None

    @property
    def attempt(self) -> int:
        """0 in the first run; runs that failed one after another without progress add one each."""
        return self._attempt

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Say how far the instance is; kept at most twice a second, and at the end of the run.

        A run that repeats what an earlier one did says nothing until it has come as far.
        """
        if self.suspended is None and self._cursor == len(self._load()):
            super().progress(done, total, note)

    def step(self, id: str, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """The result of `fn(*args, **kwargs)`, made once and saved: every run gets what JSON makes of it."""
        refuse_async(fn, f"ctx.step({id!r})")
        saved = self._find(Call.STEP, id)
        if saved is None:
            with self._making(Call.STEP, id):
                text = dump_value(self._run(id, fn, args, kwargs), f"the result of step {id!r}")
            saved = self._add(self._left.save(self._cursor, Call.STEP, id, value=text))
        result: R = _read(saved.value)
        return result

    def atomic(self, id: str, fn: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """The same, with the database writes of `fn` and the saving in one transaction: exactly once."""
        refuse_async(fn, f"ctx.atomic({id!r})")
        saved = self._find(Call.ATOMIC, id)
        if saved is None:
            what = f"the result of atomic {id!r}"
            with self._making(Call.ATOMIC, id):
                saved = self._add(
                    self._left.save_with(self._cursor, Call.ATOMIC, id, lambda: self._run(id, fn, args, kwargs), what)
                )
        result: R = _read(saved.value)
        return result

    @overload
    def wait_for_signal(
        self, id: str, *, signal: str | None = None, timeout: Duration, schema: type[Validating]
    ) -> dict[str, Any]: ...
    @overload
    def wait_for_signal(self, id: str, *, signal: str | None = None, timeout: Duration, schema: type[T]) -> T: ...
    @overload
    def wait_for_signal(
        self,
        id: str,
        *,
        signal: str | None = None,
        timeout: Duration,
        schema: SchemaValue | None = None,
        projector: Projector | None = None,
    ) -> Any: ...
    @overload
    def wait_for_signal(
        self,
        id: str,
        *,
        signal: str | None = None,
        timeout: Duration,
        schema: type[Any] | SchemaValue | None = None,
        projector: Projector,
    ) -> Any: ...
    def wait_for_signal(
        self, id: str, *, signal: str | None = None, timeout: object, schema: Any = None, projector: Any = None
    ) -> Any:
        """Wait for the completion of a signal id; its data. `SignalTimeoutError` when the time is over."""
        typed = _schema(schema)
        question = Question(
            id,
            signal_id=f"{id}-{self.id}" if signal is None else signal,
            schema=typed,
            channel="signal",
            projector=name_projector(projector),
        )
        return self._wait(Call.SIGNAL, question, parse_timeout(timeout))

    @overload
    def wait_for(
        self,
        id: str,
        channel: Channel[A],
        *,
        input: Any = None,
        cardinality: Literal["ONE_TO_ONE"] = "ONE_TO_ONE",
        schema: None = None,
        timeout: Duration | None = None,
        assignee: str | None = None,
        group: str | None = None,
    ) -> A: ...
    @overload
    def wait_for(
        self,
        id: str,
        channel: str,
        *,
        input: Any = None,
        cardinality: Literal["ONE_TO_ONE"] = "ONE_TO_ONE",
        schema: type[Validating],
        timeout: Duration | None = None,
        assignee: str | None = None,
        group: str | None = None,
    ) -> dict[str, Any]: ...
    @overload
    def wait_for(
        self,
        id: str,
        channel: str,
        *,
        input: Any = None,
        cardinality: Literal["ONE_TO_ONE"] = "ONE_TO_ONE",
        schema: type[T],
        timeout: Duration | None = None,
        assignee: str | None = None,
        group: str | None = None,
    ) -> T: ...
    @overload
    def wait_for(
        self,
        id: str,
        channel: str,
        *,
        input: Any = None,
        cardinality: CardinalityName = "ONE_TO_ONE",
        schema: type[Any] | SchemaValue | None = None,
        timeout: Duration | None = None,
        assignee: str | None = None,
        group: str | None = None,
        projector: Projector | None = None,
    ) -> Any: ...
    @overload
    def wait_for(
        self,
        id: str,
        channel: Channel[Any],
        *,
        input: Any = None,
        cardinality: CardinalityName = "ONE_TO_ONE",
        schema: type[Any] | SchemaValue,
        timeout: Duration | None = None,
        assignee: str | None = None,
        group: str | None = None,
        projector: Projector | None = None,
    ) -> Any: ...
    @overload
    def wait_for(
        self,
        id: str,
        channel: Channel[Any],
        *,
        input: Any = None,
        cardinality: CardinalityName = "ONE_TO_ONE",
        schema: type[Any] | SchemaValue | None = None,
        timeout: Duration | None = None,
        assignee: str | None = None,
        group: str | None = None,
        projector: Projector,
    ) -> Any: ...
    @overload
    def wait_for(
        self,
        id: str,
        channel: Channel[Any],
        *,
        input: Any = None,
        cardinality: CardinalityName,
        schema: type[Any] | SchemaValue | None = None,
        timeout: Duration | None = None,
        assignee: str | None = None,
        group: str | None = None,
        projector: Projector | None = None,
    ) -> Any: ...
    def wait_for(
        self,
        id: str,
        channel: str | Channel,
        *,
        input: Any = None,
        cardinality: str = Cardinality.ONE_TO_ONE,
        schema: Any = None,
        timeout: object = None,
        assignee: str | None = None,
        group: str | None = None,
        projector: Any = None,
    ) -> Any:
        """Ask through a channel, or list the question under a label; the answer."""
        question = ask_channel(
            id,
            channel,
            request=input,
            schema=schema,
            cardinality=cardinality,
            assignee=assignee,
            group=group,
            projector=projector,
        )
        return self._wait(Call.CHANNEL, question, None if timeout is None else parse_timeout(timeout))

    @overload
    def wait_for_each(
        self,
        id: str,
        items: Iterable[Any],
        channel: str | Channel[Any] | Callable[[Any], str | Channel[Any]],
        *,
        then: Callable[[FunctionContext, Any, Any], R],
        schema: type[Any] | SchemaValue | None = None,
        timeout: Duration | None = None,
        on_item: Literal["fail"] = "fail",
        concurrency: int = CONCURRENCY,
        assignee: str | None = None,
        group: str | None = None,
    ) -> list[R]: ...
    @overload
    def wait_for_each(
        self,
        id: str,
        items: Iterable[Any],
        channel: Channel[A] | Callable[[Any], Channel[A]],
        *,
        then: None = None,
        schema: None = None,
        timeout: Duration | None = None,
        on_item: Literal["fail"] = "fail",
        concurrency: int = CONCURRENCY,
        assignee: str | None = None,
        group: str | None = None,
    ) -> list[A]: ...
    @overload
    def wait_for_each(
        self,
        id: str,
        items: Iterable[Any],
        channel: str,
        *,
        then: None = None,
        schema: type[Validating],
        timeout: Duration | None = None,
        on_item: Literal["fail"] = "fail",
        concurrency: int = CONCURRENCY,
        assignee: str | None = None,
        group: str | None = None,
    ) -> list[dict[str, Any]]: ...
    @overload
    def wait_for_each(
        self,
        id: str,
        items: Iterable[Any],
        channel: str,
        *,
        then: None = None,
        schema: type[T],
        timeout: Duration | None = None,
        on_item: Literal["fail"] = "fail",
        concurrency: int = CONCURRENCY,
        assignee: str | None = None,
        group: str | None = None,
    ) -> list[T]: ...
    @overload
    def wait_for_each(
        self,
        id: str,
        items: Iterable[Any],
        channel: str | Channel[Any] | Callable[[Any], str | Channel[Any]],
        *,
        then: None = None,
        schema: type[Any] | SchemaValue | None = None,
        timeout: Duration | None = None,
        on_item: Literal["fail"] = "fail",
        concurrency: int = CONCURRENCY,
        assignee: str | None = None,
        group: str | None = None,
    ) -> list[Any]: ...
    @overload
    def wait_for_each(
        self,
        id: str,
        items: Iterable[Any],
        channel: str | Channel[Any] | Callable[[Any], str | Channel[Any]],
        *,
        then: Callable[[FunctionContext, Any, Any], Any] | None = None,
        schema: type[Any] | SchemaValue | None = None,
        timeout: Duration | None = None,
        on_item: Literal["partial"],
        concurrency: int = CONCURRENCY,
        assignee: str | None = None,
        group: str | None = None,
    ) -> list[ItemResult]: ...
    def wait_for_each(
        self,
        id: str,
        items: Any,
        channel: Any,
        *,
        then: Any = None,
        schema: Any = None,
        timeout: object = None,
        on_item: str = "fail",
        concurrency: int = CONCURRENCY,
        assignee: str | None = None,
        group: str | None = None,
    ) -> list[Any]:
        """Ask each item by itself, `concurrency` of them at a time; their answers, in the order of the items.

        With `on_item="partial"` each is an `ItemResult`. `channel` may be a function that makes a channel of an item.
        `then(ctx, item, output)` is run as soon as an item is answered, with checkpoints and waits of its own; what it
        returns takes the place of the answer.
        """
        if then is not None:
            _check_then(then, f"then= of ctx.wait_for_each({id!r})")
        return wait_for_each(
            self,
            Asking(id, channel, schema, assignee, group),
            items,
            then=then,
            timeout=None if timeout is None else parse_timeout(timeout),
            policy=read_policy(on_item),
            concurrency=read_concurrency(concurrency),
        )

    @overload
    def callback(
        self, id: str, schema: type[Validating], *, timeout: Duration, channel: str = ..., body: BodyKind = ...
    ) -> FunctionCallback[dict[str, Any]]: ...
    @overload
    def callback(
        self, id: str, schema: type[T], *, timeout: Duration, channel: str = ..., body: BodyKind = ...
    ) -> FunctionCallback[T]: ...
    @overload
    def callback(
        self,
        id: str,
        schema: SchemaValue | None = None,
        *,
        timeout: Duration,
        projector: Projector | None = None,
        channel: str = ...,
        body: BodyKind = ...,
    ) -> FunctionCallback[Any]: ...
    @overload
    def callback(
        self,
        id: str,
        schema: type[Any],
        *,
        timeout: Duration,
        projector: Projector,
        channel: str = ...,
        body: BodyKind = ...,
    ) -> FunctionCallback[Any]: ...
    def callback(
        self,
        id: str,
        schema: Any = None,
        *,
        timeout: object = None,
        projector: Any = None,
        channel: str = "callback",
        body: str = "any",
    ) -> FunctionCallback[Any]:
        """A question that a partner answers by its `resume_url`; `.wait()` for the answer."""
        if timeout is None:
            raise InvalidCall(f"ctx.callback({id!r}) needs timeout=, how long .wait() waits for the partner")
        question = Question(
            id,
            channel=read_label(channel),
            token=True,
            schema=_schema(schema),
            projector=name_projector(projector),
            body=body,
        )
        seconds = parse_timeout(timeout)
        # Opened here and not when the URL is read: that is mostly inside a step, which a later run skips.
        return FunctionCallback(self, question, seconds, self._open(Call.CALLBACK, question, None))

    @overload
    def wait_for_event(
        self,
        id: str,
        *,
        event: str,
        match: Mapping[str, Any] | None = None,
        timeout: Duration,
        schema: type[Validating],
        channel: str | None = None,
    ) -> dict[str, Any] | None: ...
    @overload
    def wait_for_event(
        self,
        id: str,
        *,
        event: str,
        match: Mapping[str, Any] | None = None,
        timeout: Duration,
        schema: type[T],
        channel: str | None = None,
    ) -> T | None: ...
    @overload
    def wait_for_event(
        self,
        id: str,
        *,
        event: str,
        match: Mapping[str, Any] | None = None,
        timeout: Duration,
        schema: SchemaValue | None = None,
        channel: str | None = None,
    ) -> Any: ...
    def wait_for_event(
        self,
        id: str,
        *,
        event: str,
        match: Any = None,
        timeout: object,
        schema: Any = None,
        channel: str | None = None,
    ) -> Any:
        """The data of the next named event that matches; None when the time is over."""
        spec = _make_event(event, match, schema, channel)
        seconds = parse_timeout(timeout)
        saved = self._find(Call.EVENT, id)
        if saved is None:
            with self._making(Call.EVENT, id):
                self._left.allow_event(spec)
            saved = self._add(self._left.save(self._cursor, Call.EVENT, id, settled=False, timeout=seconds))
        if not saved.settled:
            self._settle_event(saved, spec, seconds)
        if saved.expired:
            return None
        value = _read(saved.value)
        return value if spec.schema is None else spec.schema.cast(value)

    def sleep(self, id: str, duration: Duration) -> None:
        """Do nothing for a while; costs nothing meanwhile."""
        saved = self._find(Call.SLEEP, id)
        if saved is None:
            saved = self._add(self._left.save(self._cursor, Call.SLEEP, id, timeout=parse_delay(duration)))
        if saved.deadline is not None and saved.deadline > self._claim.at:
            self._suspend(Suspend(until=saved.deadline))

    @overload
    def invoke(
        self,
        id: str,
        workflow: Durable[..., R],
        input: Mapping[str, Any] | None = None,
        *,
        timeout: Duration | None = None,
    ) -> R: ...
    @overload
    def invoke(self, id: str, workflow: WorkflowRef, input: Any = None, *, timeout: Duration | None = None) -> Any: ...
    def invoke(self, id: str, workflow: Any, input: Any = None, *, timeout: object = None) -> Any:
        """Run another workflow as a child and wait for its result."""
        saved = self._find(Call.INVOKE, id)
        if saved is None:
            from workflows.planning import plan_child

            with self._making(Call.INVOKE, id):
                child = plan_child(workflow, input)
            seconds = None if timeout is None else parse_timeout(timeout)
            left = next((one for one in self._adrift if one.name == id and one.child is not None), None)
            adrift = None if left is None or left.child is None else (left.child, left.position)
            self._suspend(Invoke(child, self._cursor, id, seconds, adrift))
        if not saved.expired and saved.child_status is not None and saved.child_status.live:
            if not self._claim.timed_out:
                self._suspend(Next(self.step_name, delay=1))  # not parked on the child: look again
            self._replace(saved, self._left.save(saved.position, saved.call, id, settled=True, expired=True))
        if saved.expired:
            raise self._tell(saved, SignalTimeoutError(id))
        if saved.child_status is Status.FAILED:
            raise self._tell(saved, ChildFailed(id, saved.child, saved.child_error))
        if saved.child_status is not Status.DONE:
            raise self._tell(saved, ChildCancelled(id, saved.child, saved.child_error))
        return _read(saved.child_result)

    def launch(self, id: str, workflow: WorkflowRef, input: Any = None) -> UUID:
        """Start another workflow and go on; its id."""
        saved = self._find(Call.LAUNCH, id)
        if saved is None:
            from workflows.api import start

            with self._making(Call.LAUNCH, id):
                saved = self._add(
                    self._left.save_with(
                        self._cursor,
                        Call.LAUNCH,
                        id,
                        lambda: str(start(workflow, input, actor=f"instance:{self.id}").pk),
                        f"the id launched by {id!r}",
                    )
                )
        return UUID(_read(saved.value))

    def emit(self, id: str, event: str, data: Any = None) -> int:
        """Emit a named event once; how many waits it woke."""
        saved = self._find(Call.EMIT, id)
        if saved is None:
            from workflows.events import emit

            with self._making(Call.EMIT, id):
                saved = self._add(
                    self._left.save_with(
                        self._cursor,
                        Call.EMIT,
                        id,
                        lambda: emit(event, data, actor=f"instance:{self.id}"),
                        f"what emit {id!r} woke",
                    )
                )
        woke: int = _read(saved.value)
        return woke

    def give_up(self, error: Exception, *, for_good: bool) -> None:
        """The function ends this run with an error: the call it came from was not caught after all.

        What that call raised must not be raised again for ever, nor what came after it be kept: a `finally` with calls
        of its own, say. When the instance fails for good, a retry begins again with that call.
        """
        new = None if self._raised is None else self._raised[2]
        self._raised = None
        found: BaseException | None = error
        # Along `raise … from …` only: what a handler meets on its way has the caught error as its context, and that one
        # was caught. What a new call raised came from nowhere else.
        while found is not None and found is not new:
            for raised, saved in self._origins:
                if raised is found:
                    if saved.failed and not for_good:
                        self._left.forget(saved.position, self._attempt + 1)
                    else:
                        self._left.blame(saved.position)
                    return
            found = found.__cause__
        # Without asking the database: where it has not been read, something may be blamed.
        if self._saved is None or any(one.blamed for one in self._saved):
            self._left.blame(-1)  # an earlier run ended there, and this one got past it

    def end(self, result: Any, what: str) -> Outcome:
        """The function has returned: what that means."""
        if self.suspended is not None:
            return self.suspended.outcome
        if self.interrupted is not None:
            raise self.interrupted
        self.refuse_unmade_calls()
        if isinstance(result, Outcome):
            raise InvalidCall(
                f"{what} returned {type(result).__name__}(…), which only steps return. A function returns "
                "its result itself, waits by a call such as ctx.wait_for_signal(…) or ctx.wait_for(…), and fails by "
                "raising"
            )
        return Done(result)

    def refuse_unmade_calls(self) -> None:
        """A run that ends before it has made all the calls of an earlier one took another way."""
        saved = self._load()
        if self._cursor < len(saved):
            raise NonDeterministic(self._cursor, _show(saved[self._cursor]), "the end of the function")

    def number_handed(self, more: frozenset[str] = frozenset()) -> list[int]:
        """What was awaited and what an early answer brought: both have been used."""
        return super().number_handed(more | frozenset(self._taken))

    # For calls that have a module of their own.

    @property
    def left(self) -> Journal:
        """The way to the store."""
        return self._left

    @property
    def position(self) -> int:
        """The place of the next new call."""
        return self._cursor

    def find(self, call: Call, id: str) -> Saved | None:
        """The checkpoint of a call, or None where it is the first new one."""
        return self._find(call, id)

    def making(self, call: Call, id: str) -> AbstractContextManager[None]:
        """Around what a new call does: what it raises is kept if the function goes on from it."""
        return self._making(call, id)

    def add(self, saved: Saved) -> Saved:
        """A new call has its checkpoint."""
        return self._add(saved)

    def tell(self, saved: Saved, error: BaseException) -> BaseException:
        """Remember which call an error comes from."""
        return self._tell(saved, error)

    def take(self, name: str) -> None:
        """What arrived under this name has been used."""
        self._taken.add(name)

    def suspend(self, outcome: Outcome) -> NoReturn:
        """End this run: it waits."""
        self._suspend(outcome)

    # How a call finds what was saved.

    def _load(self) -> list[Saved]:
        if self._saved is None:
            loaded = self._left.load()
            self._adrift = [one for one in loaded if one.position < 0]
            self._saved = [one for one in loaded if one.position >= 0]
        return self._saved

    def _find(self, call: Call, id: str) -> Saved | None:
        """The checkpoint of this call, or None where it is the first new one."""
        self.refuse_nesting(f"ctx.{call.value}({id!r})")
        check_text(id, "the id of a call")
        if id in self._names:
            raise DuplicateCheckpoint(id)
        self._names.add(id)
        self._left.refuse_open_block(f"ctx.{call.value}({id!r})")
        saved = self._load()
        if self._cursor == len(saved):
            return None
        found = saved[self._cursor]
        if found.call is not call or found.name != id:
            raise NonDeterministic(self._cursor, _show(found), f"{call.value} {id!r}")
        self._cursor += 1
        if found.failed:
            raise self._tell(found, revive_error(_read(found.value)))
        return found

    @contextmanager
    def _making(self, call: Call, id: str) -> Iterator[None]:
        """What a call raises is remembered: should the function go on from it, it is saved like a result.

        It is handed on as a later run will raise it, so that nothing depends on what cannot be kept.
        """
        try:
            yield
        except BaseException as error:
            if not is_authors(error):
                self.interrupted = error
                raise
            known = revive_error(_read(describe_raised(error)))
            if type(known) is not type(error):
                self._raised = (call, id, error)
                raise
            self._raised = (call, id, known)
            raise known from error

    def _save_failure(self) -> None:
        """The function caught what a call of it raised: every later run has to be told the same."""
        if self._raised is not None:
            call, id, error = self._raised
            self._raised = None
            if type(revive_error(_read(describe_raised(error)))) is not type(error):
                raise InvalidCall(
                    f"{call.value} {id!r} raised {type(error).__qualname__}, which no later run could raise again: "
                    "catch it inside the function you pass, or define its class at the top of a module"
                ) from error
            saved = self._left.save(self._cursor, call, id, value=describe_raised(error), failed=True)
            self._tell(self._add(saved), error)

    def _tell(self, saved: Saved, error: BaseException) -> BaseException:
        """Remember which call an error came from."""
        self._origins.append((error, saved))
        return error

    def _run(self, id: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._running = id
        try:
            return fn(*args, **kwargs)
        finally:
            self._running = None

    def refuse_nesting(self, what: str) -> None:
        """No call inside the function of another, and none after a suspension."""
        if self.suspended is not None:
            raise self.suspended
        if self.interrupted is not None:
            raise self.interrupted
        self._save_failure()
        if self._running is not None:
            raise InvalidCall(
                f"{what} inside the function of {self._running!r}: a later run skips that function and would miss "
                "the call. Make it before or after."
            )

    def _add(self, saved: Saved) -> Saved:
        self._load().append(saved)
        self._cursor += 1
        return saved

    def _replace(self, old: Saved, new: Saved) -> None:
        old.settled, old.expired, old.value, old.signal = new.settled, new.expired, new.value, new.signal

    def _suspend(self, outcome: Outcome) -> NoReturn:
        self.suspended = Suspended(outcome)
        raise self.suspended

    # Waits.

    def _wait(self, call: Call, question: Question, timeout: float | None) -> Any:
        saved = self._open(call, question, timeout)
        return self._await_answer(saved, question, timeout)

    def _open(self, call: Call, question: Question, timeout: float | None) -> Saved:
        saved = self._find(call, question.step)
        if saved is None:
            with self._making(call, question.step):
                asked = self._left.ask_at(question, timeout, call, self._cursor)
            saved = self._add(Saved(self._cursor, call, question.step, False, False, None, None, None))
            _note(saved, asked)
        elif saved.unit is None or saved.status is InteractionStatus.CANCELLED:  # it failed, and was retried
            _note(saved, self._left.ask_at(question, timeout, call, saved.position))
        return saved

    def _await_answer(self, saved: Saved, question: Question, timeout: float | None) -> Any:
        assert saved.unit is not None
        name = f"{UNIT}{saved.unit}"
        if saved.status is InteractionStatus.PENDING and saved.ask_deadline is None and timeout is not None:
            _note(saved, self._left.arm(saved.unit, timeout))
        if saved.status is InteractionStatus.PENDING:
            # The row of the asking knows no timeout where the time begins only here.
            began = question.token and timeout is not None
            told = {"step": question.step, "channel": question.channel, "timeout": timeout} if began else None
            self._suspend(Suspend((name,), until=saved.ask_deadline, told=told))
        if saved.status is InteractionStatus.COMPLETED:
            self._taken.add(name)
            value = _read(saved.output)
            if question.projector is not None:
                return value
            channel = Channel if question.opener is None else type(question.opener)
            return channel.read_answer(value, question.schema)
        if saved.status is InteractionStatus.FAILED:
            self._taken.add(name)
            why = (one.payload["reason"] for one in self.list_awaited() if one.name == name and one.source == FAILURE)
            raise self._tell(saved, UnitFailed(question.step, next(why, "it can no longer be answered")))
        raise self._tell(saved, SignalTimeoutError(question.step))

    def _settle_event(self, saved: Saved, spec: EventSpec, timeout: float) -> None:
        seen = {one.signal for one in self._load() if one.signal is not None}
        new = next((one for one in self.list_awaited() if one.name.startswith(EVENT) and one.n not in seen), None)
        place = (saved.position, saved.call, saved.name)
        if new is not None:
            text = dump_value(new.payload, "an event's data")
            self._replace(saved, self._left.save(*place, value=text, signal=new.n))
        elif self._is_over(saved):
            self._replace(saved, self._left.save(*place, expired=True))
        else:
            told = {"timeout": timeout}
            self._suspend(Suspend(event=spec, until=saved.deadline, position=saved.position, told=told))

    def _is_over(self, saved: Saved) -> bool:
        """Whether it was this wait whose deadline woke the instance.

        A worker may have died before the park: then nobody has looked for an earlier event yet, however late it is.
        """
        return (
            self._claim.timed_out and saved.value is not None and self._claim.names == [f"{EVENT}{_read(saved.value)}"]
        )


class FunctionCallback(Generic[A]):
    """A callback of a function: an address first, then a wait."""

    __slots__ = ("_ctx", "_question", "_saved", "_timeout")

    def __init__(self, ctx: FunctionContext, question: Question, timeout: float, saved: Saved) -> None:
        self._ctx, self._question, self._timeout, self._saved = ctx, question, timeout, saved

    @property
    def resume_url(self) -> str:
        """The address to hand to the partner, the same in every run."""
        from workflows.tokens import resume_url

        return resume_url(self.resume_token)

    @property
    def resume_token(self) -> str:
        """The secret part of that address."""
        return self._ctx._left.token_of(self._saved)

    def wait(self) -> A:
        """The partner's answer; `SignalTimeoutError` when the time, which begins here, is over."""
        what = f"ctx.callback({self._question.step!r}).wait()"
        self._ctx.refuse_nesting(what)
        self._ctx._left.refuse_open_block(what)
        answer: A = self._ctx._await_answer(self._saved, self._question, self._timeout)
        return answer


def refuse_async(fn: object, what: str, error: type[Exception] = InvalidCall) -> None:
    """Async code has no place in a run that ends and begins again."""
    if not callable(fn):
        raise error(f"{what} takes a function, not {show(fn)}")
    if inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn):
        raise error(
            f"{what}: {getattr(fn, '__name__', fn)} is async. Workflows run in worker processes, one at a time: write "
            "an ordinary function, and call async code through asgiref.sync.async_to_sync."
        )


def _check_then(then: Any, what: str) -> None:
    refuse_async(then, what)
    try:
        inspect.signature(then).bind(None, None, None)
    except TypeError as error:
        told = f"{what} is called with ctx, the item and its answer, which {show(then)} does not allow ({error})"
        raise InvalidCall(told) from error
    except ValueError:
        pass  # some builtins do not tell their arguments


def _make_event(name: str, match: Any, schema: Any, channel: str | None) -> EventSpec:
    return event(name, match, schema, channel=channel)


def _schema(given: Any) -> Schema | None:
    from workflows.schema import read_schema

    return read_schema(given)


def _note(saved: Saved, asked: Asked) -> None:
    """What the question's row says, into the checkpoint at hand."""
    saved.unit, saved.interaction, saved.signal_id = asked.unit, asked.id, asked.signal_id
    saved.status, saved.ask_deadline = asked.status, asked.deadline
    saved.output = None if asked.output is None else json.dumps(asked.output)
    saved.token = asked.token


def _read(text: str | None) -> Any:
    return None if text is None else read_back(text)


def _show(saved: Saved) -> str:
    return f"{saved.call.value} {saved.name!r}"
