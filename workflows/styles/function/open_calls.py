"""Calls of a durable function that keep several questions open at once.

Lives here: `ctx.ask`, `ctx.wait_any`, `ctx.wait_all`, and the handle of a question. Must not live here: how questions
stand. Invariants owned:

* What the function is told of a question it was told by a wait: a run that repeats it is told the same, whatever has
  come meanwhile. So a handle knows an answer only when a wait has returned with it.
* Questions are found again by their places, like every call.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, overload
from uuid import UUID

from workflows.definitions import registry
from workflows.definitions.awaited_kinds import AskSpec, Awaitable, read_asked
from workflows.definitions.channel import Channel
from workflows.definitions.question import UNIT, OpenedQuestion
from workflows.engine.answers.open_questions import OpenQuestions, is_past
from workflows.engine.context import Signal
from workflows.exceptions import InvalidCall, SignalTimeoutError, show
from workflows.lifecycle import Call
from workflows.store import Saved
from workflows.styles.function.call_replay import ReplayContext, read_saved
from workflows.values.durations import parse_time
from workflows.values.json_text import read_back
from workflows.values.types_of_signatures import A, Duration

if TYPE_CHECKING:
    from workflows.engine.journals.journal import Journal
    from workflows.store import Claim


class OpenCalls(ReplayContext):
    """The calls of `ctx` for several open questions."""

    __slots__ = ("questions",)

    def __init__(self, claim: Claim, left: Journal) -> None:
        super().__init__(claim, left)
        self.questions = OpenQuestions(self, left)

    @overload
    def ask(
        self,
        id: str,
        what: Awaitable[A] | Channel[A],
        *,
        timeout: Duration | None = None,
        until: datetime | None = None,
    ) -> Asked[A]: ...
    @overload
    def ask(
        self, id: str, what: object, *, timeout: Duration | None = None, until: datetime | None = None
    ) -> Asked[Any]: ...
    def ask(self, id: str, what: object, *, timeout: object = None, until: object = None) -> Asked[Any]:
        """Open a question and go on: `ctx.wait_any` and `ctx.wait_all` wait for several of them at once.

        `what` is a channel such as an approval, `question(…)`, `callback(…)`, `event(…)`, `received(…)`, `child(…)`,
        `instance(…)` or `sleep(…)`. Its time begins here.
        """
        return self.open_question(id, what, timeout, until)

    def open_question(self, id: str, what: object, timeout: object, until: object) -> Asked[Any]:
        """Open it. For the calls that wait for one."""
        spec = read_asked(id, what)
        time = parse_time(timeout, until, f"ctx.ask({id!r})")
        if spec.pause is not None and time is not None:
            raise InvalidCall(f"ctx.ask({id!r}) sleeps, and sleep(…) tells how long: leave timeout= and until= out")
        return self._ask(spec, time)

    def wait_any(
        self,
        *asked: Asked[Any] | Iterable[Asked[Any]],
        timeout: Duration | None = None,
        until: datetime | None = None,
    ) -> Asked[Any]:
        """Wait until one of these questions is over, and return that one; the others stay open.

        Of several that are over it is the one that was over first, again and again: leave it out of the next wait.
        A question whose own time is over, or that failed, is over too: its `result()` raises. `SignalTimeoutError`
        when the time of this wait is over.
        """
        handles = self._read_handles("ctx.wait_any", asked)
        time = parse_time(timeout, until, "ctx.wait_any")
        saved = self._wait_for_some(Call.WAIT_ANY, handles, time, enough=1)
        assert saved is not None
        first = read_saved(saved.value)["first"]
        return next(one for one in handles if one.id == first)

    def wait_all(
        self,
        *asked: Asked[Any] | Iterable[Asked[Any]],
        timeout: Duration | None = None,
        until: datetime | None = None,
    ) -> list[Asked[Any]]:
        """Wait until all of these questions are over; they are returned in the order in which they were passed.

        `SignalTimeoutError` when the time of this wait is over; the questions that are open stay open.
        """
        handles = self._read_handles("ctx.wait_all", asked)
        self._wait_for_some(Call.WAIT_ALL, handles, parse_time(timeout, until, "ctx.wait_all"), enough=len(handles))
        return handles

    def _ask(self, spec: AskSpec, time: float | datetime | None) -> Asked[Any]:
        if spec.names:
            self._refuse_unread(spec)
        saved = self._find(spec.call, spec.id)
        if saved is None:
            with self._making(spec.call, spec.id):
                saved = self._open_ask(spec, time, self._cursor)
            self._add(saved)
        elif self.questions.find_closed_by_failure(saved):
            again = self._open_ask(spec, time, saved.position, saved.child)
            saved.unit, saved.interaction, saved.signal_id = again.unit, again.interaction, again.signal_id
            saved.status, saved.output, saved.token = again.status, again.output, again.token
            saved.ask_deadline, saved.closed_at, saved.deadline = again.ask_deadline, None, again.deadline
            saved.value, saved.child, saved.watch = again.value, again.child, again.watch
        self._opened[saved.position] = saved
        return Asked(self, spec, saved)

    def _open_ask(
        self, spec: AskSpec, time: float | datetime | None, position: int, target: UUID | None = None
    ) -> Saved:
        if spec.question is not None:
            saved = Saved(position, spec.call, spec.id, False, False, None, None, None)
            note_question(saved, self._left.ask_at(spec.question, time, spec.call, position))
            return saved
        adrift = child = None
        if spec.child is not None and target is None:
            from workflows.engine.planning import plan_spawned

            self._load()
            adrift = next((one for one in self._adrift if one.name == spec.id and one.call is spec.call), None)
            child = plan_spawned(spec.child) if adrift is None else None
        return self._left.open_ask(spec, time, position, child=child, adrift=adrift, target=target)

    def _refuse_unread(self, spec: AskSpec) -> None:
        definition = registry.find(self._claim.workflow, self._claim.version)
        if definition is None or definition.reads_signals:
            return
        if self._claim.workflow.endswith(registry.LINES):
            raise InvalidCall(
                f"{spec.id!r}: then= runs in an instance of its own, which no signal reaches. Wait for the signal in "
                "the function itself, or for an event"
            )
        raise InvalidCall(
            f"{spec.id!r} waits for a signal, and workflow {definition.name!r} does not tell that it reads any: "
            "workflows.signal would be refused. Name received in the function itself, or write "
            "@durable(signals=True) above it"
        )

    def _read_handles(self, what: str, asked: Sequence[object]) -> list[Asked[Any]]:
        self.refuse_nesting(what)
        listed: list[Any] = []
        for one in asked:
            listed.extend(one if isinstance(one, Iterable) and not isinstance(one, str | Asked) else [one])
        if not listed:
            raise InvalidCall(f"{what} takes the questions to wait for, and there are none")
        seen: set[str] = set()
        for one in listed:
            if not isinstance(one, Asked):
                raise InvalidCall(f"{what} takes what ctx.ask(…) returned, not {show(one)}")
            if one.ctx is not self:
                raise InvalidCall(f"{what} takes questions of this run; {one.id!r} is of another one")
            if one.withdrawn:
                raise InvalidCall(f"{what} cannot wait for {one.id!r}: it was withdrawn")
            if one.id in seen:
                raise InvalidCall(f"{what} has {one.id!r} twice")
            seen.add(one.id)
        return listed

    def _wait_for_some(
        self, call: Call, handles: list[Asked[Any]], time: float | datetime | None, *, enough: int
    ) -> Saved | None:
        """Wait until `enough` of them are over. It has a checkpoint of its own where a later run may see more."""
        name = ", ".join(sorted(one.id for one in handles))  # a set of them has another order in each run
        what = f"ctx.{call.value}({name})"
        self._left.refuse_open_block(what)
        if call is Call.WAIT_ALL and time is None:
            self._wait_for_all(handles, what)
            return None
        saved = self._find(call, name, repeats=True)
        if saved is None and time is not None:
            saved = self._add(self._left.save(self._cursor, call, name, settled=False, timeout=time))
        if saved is None or not saved.settled:
            saved = self._settle_wait(saved, call, name, handles, enough)
        if saved.expired:
            raise self._trace(saved, SignalTimeoutError(name))
        over = set(read_saved(saved.value)["over"])
        for one in handles:
            if one.id in over:
                one.note_end()
        return saved

    def _settle_wait(self, saved: Saved | None, call: Call, name: str, handles: list[Asked[Any]], enough: int) -> Saved:
        asks = [one.saved for one in handles]
        self._look_at_asks()
        over = self.questions.list_over(asks)
        if len(over) < enough and (saved is None or not is_past(saved, self._claim.at)):
            if saved is None:  # so that a fork knows when the wait began
                saved = self._add(self._left.save(self._cursor, call, name, settled=False))
            self._park(asks, saved.deadline)
        if len(over) < enough:
            values: dict[str, Any] = {"expired": True}
        else:
            values = {"value": json.dumps({"first": over[0].name, "over": [one.name for one in over]})}
        new = self._left.save(self._cursor if saved is None else saved.position, call, name, **values)
        if saved is None:
            return self._add(new)
        self._replace(saved, new)
        return saved

    def _wait_for_all(self, handles: list[Asked[Any]], what: str) -> None:
        """Without a checkpoint: that a question is over stands in its own row, and stays so."""
        self.refuse_nesting(what)
        self._left.refuse_open_block(what)
        asks = [one.saved for one in handles if not one.seen]
        if not all(self.questions.is_over(one) for one in asks):
            self._look_at_asks()
        if not all(self.questions.is_over(one) for one in asks):
            self._park(asks, None)
        for one in handles:
            one.note_end()

    def _look_at_asks(self) -> None:
        """See how all open questions stand."""
        self.questions.look(self._opened.values())
        # Saved where they are read: the answers of questions with an address are used up by the next park.
        self._taken.update(f"{UNIT}{one.unit}" for one in self._opened.values() if one.unit is not None)

    def _park(self, asks: Sequence[Saved], deadline: datetime | None) -> None:
        self._suspend(self.questions.plan_park(asks, self._opened.values(), deadline))

    def _withdraw(self, saved: Saved, what: str) -> None:
        self.refuse_nesting(what)
        self._left.refuse_open_block(what)
        if not self.questions.is_over(saved):
            self._left.end_ask(saved, expired=False)
        self._read.add(saved.position)

    def _read_answer(self, saved: Saved, spec: AskSpec) -> Any:
        """The answer to a question that is over, as the single wait gives it."""
        try:
            return self._cast(saved, spec)
        except Exception as error:
            raise self._trace(saved, error) from None

    def _cast(self, saved: Saved, spec: AskSpec) -> Any:
        if spec.question is not None:
            value = self.questions.read_output(saved)
            if spec.question.projector is not None:
                return value
            channel = Channel if spec.question.opener is None else type(spec.question.opener)
            return channel.read_answer(value, spec.question.schema)
        if saved.call in (Call.ASK_CHILD, Call.ASK_INSTANCE):
            return self.questions.read_end(saved)
        if saved.expired:
            raise SignalTimeoutError(saved.name)
        if saved.call is Call.ASK_SLEEP:
            return None
        told = read_back(saved.value or "")
        if spec.event is not None:
            return told["data"] if spec.event.schema is None else spec.event.schema.cast(told["data"])
        return Signal([told["n"], told["name"], told["payload"], told["received"], told["source"]])


class Asked(Generic[A]):
    """One open question of a run.

    >>> answer = ctx.ask("gate", Approval("Refund 40 €"), timeout="2d")
    >>> ctx.wait_any([answer, ctx.ask("withdrawn", received("withdraw"))]).id
    'gate'
    """

    __slots__ = ("_gone", "_spec", "ctx", "saved", "seen")

    def __init__(self, ctx: OpenCalls, spec: AskSpec, saved: Saved) -> None:
        self.ctx, self._spec, self.saved = ctx, spec, saved
        #: Whether a wait has returned with it.
        self.seen = False
        self._gone = False

    @property
    def id(self) -> str:
        """The id under which it was asked."""
        return self._spec.id

    def note_end(self) -> None:
        """A wait returns with it. For the waits."""
        self.seen = True
        self.ctx._read.add(self.saved.position)

    @property
    def over(self) -> bool:
        """Whether a wait has returned with it: answered, failed, or its time is over."""
        return self.seen and not self._gone

    @property
    def answered(self) -> bool:
        """Whether a wait has returned with its answer."""
        return self.over and self.ctx.questions.is_answered(self.saved)

    @property
    def answer(self) -> A | None:
        """The answer, as the single wait gives it; None where no wait has returned with one."""
        return self.ctx._cast(self.saved, self._spec) if self.answered else None

    @property
    def withdrawn(self) -> bool:
        """Whether this run has withdrawn it."""
        return self._gone

    def result(self) -> A:
        """The answer; waits for it where no wait has returned with it yet. Raises what the single wait raises."""
        what = f"{self.id!r}.result()"
        if self._gone:
            raise InvalidCall(f"{what}: the question was withdrawn")
        if not self.seen:
            self.ctx._wait_for_all([self], what)
        answer: A = self.ctx._read_answer(self.saved, self._spec)
        return answer

    def withdraw(self) -> None:
        """Close it everywhere: the reviewer's card, the address, the wait. A child goes on; nobody waits for it.

        An answer that has come and that no wait has returned is not read any more.
        """
        if not self._gone and not self.seen:
            self.ctx._withdraw(self.saved, f"{self.id!r}.withdraw()")
            self._gone = True

    @property
    def signal_id(self) -> str:
        """The address of a question that has one."""
        if self.saved.signal_id is None:
            raise InvalidCall(f"{self.id!r} has no address: only what is asked of people and programs has one")
        return self.saved.signal_id

    @property
    def instance_id(self) -> UUID:
        """The instance whose end is waited for."""
        if self.saved.child is None:
            raise InvalidCall(f"{self.id!r} waits for no instance")
        return self.saved.child

    @property
    def resume_url(self) -> str:
        """The address to hand to a partner, the same in every run."""
        from workflows.definitions.callback_tokens import resume_url

        return resume_url(self.resume_token)

    @property
    def resume_token(self) -> str:
        """The secret part of that address."""
        if self._spec.question is None or not self._spec.question.token:
            raise InvalidCall(f"{self.id!r} has no resume URL: ask callback(…)")
        return self.ctx._left.token_of(self.saved)

    def __repr__(self) -> str:
        return f"<asked {self.id!r}>"


def note_question(saved: Saved, asked: OpenedQuestion) -> None:
    """Write what the question's row says into the checkpoint at hand."""
    saved.unit, saved.interaction, saved.signal_id = asked.unit, asked.id, asked.signal_id
    saved.status, saved.ask_deadline = asked.status, asked.deadline
    saved.output = None if asked.output is None else json.dumps(asked.output)
    saved.token = asked.token
