"""What a step is handed: `ctx`. Reading only, and lazily, because most steps look at very little.

Invariant owned: every value an author sees has been through JSON, also in the first run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast
from uuid import UUID

from django.conf import settings
from django.db import router

from workflows.definitions.awaited_kinds import ASKED
from workflows.definitions.channel import read_label
from workflows.definitions.outcomes import UNSET
from workflows.definitions.question import Callback, OpenedQuestion, Question, name_projector
from workflows.definitions.registry import LINES
from workflows.engine.event_loop import at_home
from workflows.engine.journals.handed_rows import ChildResult, cast_answer, list_children
from workflows.engine.progress import write_progress

if TYPE_CHECKING:
    from workflows.definitions.awaited_event import EventSpec
    from workflows.definitions.outcomes import Await, Outcome, Suspend
    from workflows.engine.answers.step_questions import StepQuestions
    from workflows.engine.author_calls import Host
    from workflows.engine.journals.journal import Journal
    from workflows.exceptions.trouble import Trouble
    from workflows.store import Claim, Rewind
    from workflows.units.line_access import UnitAccess
    from workflows.values.types_of_signatures import BodyKind, Projector, SchemaArgument


class Signal:
    """One signal of the inbox."""

    __slots__ = ("_received", "n", "name", "payload", "source")

    #: Its number in the inbox of this instance.
    n: int
    name: str
    #: What was sent with it.
    payload: Any
    #: Who sent it: the `actor` of the call, or empty.
    source: str

    def __init__(self, row: list[Any]) -> None:
        self.n, self.name, self.payload, self._received, self.source = row

    @property
    def received_at(self) -> datetime:
        """When it arrived, by the database's clock."""
        moment = datetime.fromisoformat(self._received)
        return moment if settings.USE_TZ else moment.replace(tzinfo=None)  # written in the connection's time zone

    def __repr__(self) -> str:
        return f"<signal {self.name!r} #{self.n}>"


class Context:
    """The author's view of the instance that is being run: what every style has, and what the engine asks of it."""

    __slots__ = (
        "_awaited",
        "_claim",
        "_id",
        "_inbox",
        "_input",
        "_left",
        "_state",
        "_tick",
        "_unread",
        "_workspace",
    )

    def __init__(self, claim: Claim, left: Journal) -> None:
        self._claim = claim
        self._left = left
        self._unread: frozenset[int] = frozenset()  # numbers of awaited signals that this run leaves in the inbox
        self._state: Any = UNSET
        self._input: Any = UNSET
        self._id: UUID | None = None
        self._workspace: str | None = None
        self._tick: Any = UNSET
        self._inbox: list[Signal] | None = None
        self._awaited: list[Signal] | None = None

    @property
    def id(self) -> UUID:
        """The instance's id."""
        if self._id is None:
            self._id = UUID(self._claim.id)
        return self._id

    @property
    def workspace(self) -> str:
        """The slug of the instance's workspace."""
        if self._workspace is None:
            with self._left.watched():
                self._workspace = _read_slug(self._claim.workspace)
        return self._workspace

    @property
    def key(self) -> str | None:
        """The correlation key, if it has one."""
        return self._claim.key

    @property
    def tick(self) -> datetime | None:
        """The moment of the schedule for which it was started, also where that was late; None without a schedule."""
        if self._tick is UNSET:
            from workflows.models import Instance

            id = self._claim.parent if self._claim.workflow.endswith(LINES) else self._claim.id
            rows = Instance.objects.using(router.db_for_write(Instance)).filter(pk=id)
            with self._left.watched():
                self._tick = rows.values_list("tick", flat=True).get()
        return cast("datetime | None", self._tick)

    @property
    def attempt(self) -> int:
        """0 in the step's first run; every `Retry` adds one."""
        return self._claim.attempt

    @property
    def now(self) -> datetime:
        """The database's time when this run began."""
        return self._claim.at

    @property
    def input(self) -> Any:
        """What the instance was started with."""
        if self._input is UNSET:
            self._input = json.loads(self._claim.input)
        return self._input

    def progress(self, done: float, total: float | None = None, note: str = "") -> None:
        """Say how far the instance is, for people and programs that look at it.

        It costs no statement here: the worker keeps the latest, at most twice a second and at the end of the run.
        """
        self._claim.progress = write_progress(done, total, note)

    @property
    def step_name(self) -> str:
        """The engine's name of the step that runs. For the engine and the styles."""
        return self._claim.step

    def list_inbox(self) -> list[Signal]:
        """Every unconsumed signal, in order of arrival. For the styles."""
        if self._inbox is None:
            carried = self._claim.signals
            rows = self._left.read(None) if carried is None else carried
            self._inbox = [Signal(row) for row in rows]
        return self._inbox

    def list_awaited(self) -> list[Signal]:
        """The unconsumed signals whose names were awaited, in order of arrival. For the styles."""
        if self._awaited is None:
            names = self._claim.names or []
            if self._claim.signals is None and self._inbox is None:
                rows = self._left.read(names) if names else []
                self._awaited = [Signal(row) for row in rows]
            else:
                self._awaited = [signal for signal in self.list_inbox() if signal.name in names]
        return self._awaited

    def number_handed(self, more: frozenset[str] = frozenset()) -> list[int]:
        """The numbers of the awaited signals, and of others by name. For the engine: the same set whenever asked."""
        names = set(self._claim.names or ()) | more
        if not names:
            return []
        rows = self._claim.signals
        numbers = self._left.count(sorted(names)) if rows is None else [row[0] for row in rows if row[1] in names]
        return [n for n in numbers if n not in self._unread] if self._unread else numbers

    def leave_unread(self, signals: Iterable[Signal]) -> None:
        """Leave awaited signals in the inbox, although this run goes on. For the styles."""
        self._unread = frozenset(one.n for one in signals)

    @property
    def claim(self) -> Claim:
        """The claimed row. For the engine and the styles."""
        return self._claim

    def at_work(self) -> AbstractContextManager[None]:
        """Around statements of the engine. For the styles."""
        return self._left.watched()

    def move(self, host: Host, patience: float) -> None:
        """Finish an outcome that a held row kept waiting. For the engine."""
        self._left.move(host, patience)

    @property
    def trouble(self) -> Trouble | None:
        """The engine's trouble that this run has met. For the engine."""
        return self._left.trouble

    @property
    def owes(self) -> bool:
        """Whether this run has made a result that could not be saved yet. For the engine."""
        return self._left.owes

    def save_owed(self) -> None:
        """Save it. For the engine."""
        self._left.save_owed()

    @property
    def failed_call(self) -> str | None:
        """The call that raised and was not caught, as far as this run knows. For the engine."""
        return None

    @property
    def rewind(self) -> Rewind | None:
        """What the end of this run changes of a function's checkpoints. For the engine."""
        return self._left.rewind

    @property
    def units(self) -> UnitAccess:
        """The way to units of items. For the styles."""
        from workflows.units.line_access import UnitAccess

        return UnitAccess(self._claim, self._left)

    def ask_early(self, question: Question) -> OpenedQuestion:
        """Open a question before parking on it, or find it again. For the styles."""
        return self._left.ask(question)

    def ask_and_arm(self, question: Question, timeout: float | datetime | None) -> OpenedQuestion:
        """Open or find it, with a deadline that begins now. For the engine."""
        return self._left.ask_and_arm(question, timeout)

    def allow_event(self, spec: EventSpec) -> None:
        """Ask the project's policy about a wait for an event that is to begin. For the engine."""
        self._left.allow_event(spec)

    def list_used(self, outcome: Outcome) -> tuple[int, ...]:
        """The rows of several questions that go with an outcome. For the engine."""
        return ()

    @property
    def changed_state(self) -> Any:
        """The state if the step touched it, else UNSET. For the engine."""
        return self._state


class StepContext(Context):
    """The `ctx` of a step.

    >>> def ship(self, ctx: StepContext) -> Outcome:
    ...     return Done({"paid": ctx.awaited[0].payload})
    """

    __slots__ = ("_answer", "_children", "_questions")

    def __init__(self, claim: Claim, left: Journal) -> None:
        super().__init__(claim, left)
        self._answer: Any = UNSET
        self._questions: StepQuestions | None = None
        self._children: list[ChildResult] | None = None

    @property
    def step(self) -> str:
        """The name of the running step."""
        return self._claim.step

    @property
    def state(self) -> Any:
        """The author's own state; begins as a copy of the input, and may be changed in place."""
        if self._state is UNSET:
            stored = self._claim.state
            self._state = json.loads(self._claim.input if stored is None else stored)
        return self._state

    @state.setter
    def state(self, value: Any) -> None:
        self._state = value

    @property
    def inbox(self) -> list[Signal]:
        """Every unconsumed signal, in order of arrival."""
        return self.list_inbox()

    @property
    def awaited(self) -> list[Signal]:
        """The unconsumed signals whose names were awaited, in order of arrival."""
        return self.list_awaited()

    @property
    def answered(self) -> bool:
        """Whether what was awaited has come."""
        return bool(self.awaited)

    @property
    def answer(self) -> Any:
        """What came for the event, callback or channel that was awaited, as its schema types it; None without one.

        Of several signals it is the payload of the first.
        """
        if self._answer is UNSET:
            first = self.awaited[0] if self.awaited else None
            with self._left.watched():
                self._answer = None if first is None else cast_answer(first.name, first.payload)
        return self._answer

    @property
    def answers(self) -> Mapping[str, Any]:
        """What has come for `any_of` and `all_of`, by the ids of the questions, the first one first.

        It stays until `Next` uses it up. Reading an answer raises what a single wait would have raised.
        """
        return self.questions.answers

    def withdraw(self, *ids: str) -> None:
        """Close these questions of `any_of` or `all_of` everywhere, with the outcome of this step; without ids all."""
        self.questions.withdraw(ids)

    @property
    def questions(self) -> StepQuestions:
        """The several questions of the instance, looked at when somebody asks. For the engine and the styles."""
        if self._questions is None:
            from workflows.engine.answers.step_questions import find_questions

            self._questions = find_questions(self, self._left)
        return self._questions

    def list_used(self, outcome: Outcome) -> tuple[int, ...]:
        return () if self._questions is None else self._questions.list_used(outcome)

    def end_withdrawn(self, event: EventSpec | None = None) -> None:
        """Close at once what the author has withdrawn, before an event is waited for. For the engine."""
        if self._questions is not None:
            self._questions.end_withdrawn(event)

    def ask_several(self, outcome: Await, now: float) -> Suspend:
        """Ask several questions and park on them. For the engine."""
        return self.questions.open(outcome, now)

    def park_again(self) -> Suspend | None:
        """Go on waiting, where too few of several questions are over. For the engine."""
        return self.questions.park_again()

    def number_handed(self, more: frozenset[str] = frozenset()) -> list[int]:
        """The numbers of what was awaited; of several questions those that they have taken. For the engine."""
        if self._questions is None:
            return super().number_handed(more)
        return self._questions.list_numbers(more)

    @property
    def timed_out(self) -> bool:
        """Whether the deadline woke this step; an answer may have come all the same since then."""
        return self.questions.is_late if (self._claim.names or [""])[0] == ASKED else self._claim.timed_out

    @property
    def children(self) -> list[ChildResult]:
        """The children of the latest Spawn, in the order in which they were spawned."""
        if self._children is None:
            with self._left.watched():
                self._children = list_children(self.id, self._claim.spawns) if self._claim.spawns else []
        return self._children

    def callback(
        self,
        id: str,
        schema: SchemaArgument | None = None,
        *,
        projector: Projector | None = None,
        channel: str = "callback",
        body: BodyKind = "any",
    ) -> Callback:
        """A question that a partner answers: hand out its `resume_url`, then `Await` it.

        >>> Await(ctx.callback("payment"), then="ship", timeout="24h").names
        ()
        """
        from workflows.schemas.schema import read_schema

        question = Question(
            id,
            channel=read_label(channel),
            token=True,
            schema=read_schema(schema),
            projector=name_projector(projector),
            body=body,
        )
        return Callback(question, self.ask_early)


@at_home
def _read_slug(workspace: int) -> str:
    from workflows.models import Workspace

    rows = Workspace.objects.using(router.db_for_write(Workspace))
    slug: str = rows.values_list("slug", flat=True).get(pk=workspace)
    return slug
