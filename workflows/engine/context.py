"""What a step is handed: `ctx`. Reading only, and lazily, because most steps look at very little.

Invariant owned: every value an author sees has been through JSON, also in the first run.
"""

from __future__ import annotations

import json
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.conf import settings
from django.db import router

from workflows.definitions.awaited_event import EVENT
from workflows.definitions.channel import Channel, find_channel, read_label
from workflows.definitions.outcomes import UNSET
from workflows.definitions.question import UNIT, Asked, Callback, Question, name_projector
from workflows.engine.progress import write_progress

if TYPE_CHECKING:
    from workflows.definitions.awaited_event import EventSpec
    from workflows.engine.author_calls import Host
    from workflows.engine.journals.journal import Journal
    from workflows.exceptions.trouble import Trouble
    from workflows.schemas.schema import Schema
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


@dataclass(frozen=True, slots=True)
class ChildResult:
    """How one child of the latest Spawn stands."""

    id: UUID
    workflow: str
    key: str | None
    status: str
    result: Any
    error: str | None


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
        "_workspace",
    )

    def __init__(self, claim: Claim, left: Journal) -> None:
        self._claim = claim
        self._left = left
        self._state: Any = UNSET
        self._input: Any = UNSET
        self._id: UUID | None = None
        self._workspace: str | None = None
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
            from workflows.models import Workspace

            rows = Workspace.objects.using(router.db_for_write(Workspace))
            with self._left.watched():
                self._workspace = rows.values_list("slug", flat=True).get(pk=self._claim.workspace)
        return self._workspace

    @property
    def key(self) -> str | None:
        """The correlation key, if it has one."""
        return self._claim.key

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
        if self._claim.signals is None:
            return self._left.count(sorted(names))
        return [row[0] for row in self._claim.signals if row[1] in names]

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
    def rewind(self) -> Rewind | None:
        """What the end of this run changes of a function's checkpoints. For the engine."""
        return self._left.rewind

    @property
    def units(self) -> UnitAccess:
        """The way to units of items. For the styles."""
        from workflows.units.line_access import UnitAccess

        return UnitAccess(self._claim, self._left)

    def ask(self, question: Question) -> Asked:
        """Open a question before parking on it, or find it again. For the styles."""
        return self._left.ask(question)

    def ask_and_arm(self, question: Question, timeout: float | None) -> Asked:
        """Open or find it, with a deadline that begins now. For the engine."""
        return self._left.ask_and_arm(question, timeout)

    def allow_event(self, spec: EventSpec) -> None:
        """Ask the project's policy about a wait for an event that is to begin. For the engine."""
        self._left.allow_event(spec)

    @property
    def changed_state(self) -> Any:
        """The state if the step touched it, else UNSET. For the engine."""
        return self._state


class StepContext(Context):
    """The `ctx` of a step.

    >>> def ship(self, ctx: StepContext) -> Outcome:
    ...     return Done({"paid": ctx.awaited[0].payload})
    """

    __slots__ = ("_answer", "_children")

    def __init__(self, claim: Claim, left: Journal) -> None:
        super().__init__(claim, left)
        self._answer: Any = UNSET
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
    def timed_out(self) -> bool:
        """Whether the deadline woke this step; an answer may have come all the same since then."""
        return self._claim.timed_out

    @property
    def children(self) -> list[ChildResult]:
        """The children of the latest Spawn, in the order in which they were spawned."""
        if self._children is None:
            from workflows.models import Instance

            # From the database that is written: a replica may not know yet how the last child ended.
            found = (
                Instance.objects.using(router.db_for_write(Instance))
                .filter(parent_id=self.id, spawn_no=self._claim.spawns)
                .order_by("id")
            )
            with self._left.watched():
                self._children = [
                    ChildResult(c.id, c.workflow, c.key, c.status, c.result, c.error)
                    for c in (found if self._claim.spawns else ())
                ]
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
        return Callback(question, self.ask)


def cast_answer(name: str, payload: Any) -> Any:
    """A payload as the schema of its wait types it; the row of the wait knows the schema."""
    from workflows.models import EventWait, Interaction
    from workflows.schemas.schema import load_schema

    if name.startswith(UNIT):
        asked = Interaction.objects.using(router.db_for_write(Interaction)).filter(
            unit_id=name[len(UNIT) :], index=0, projector=None
        )
        row = asked.values_list("owned", "channel", "schema", "schema_type").first()
        if row is None:
            return payload
        # A mere label may be called like a channel; what owns its answers is one.
        channel = find_channel(row[1]) if row[0] else Channel
        return channel.read_answer(payload, load_schema(*row[2:]))
    if name.startswith(EVENT):
        rows = EventWait.objects.using(router.db_for_write(EventWait)).filter(pk=name[len(EVENT) :])
    else:
        return payload
    found = rows.values_list("schema", "schema_type").first()
    schema = None if found is None else load_schema(*found)
    return payload if schema is None else schema.cast(payload)


def find_owner(instance: UUID, step: str) -> tuple[type[Channel], Schema | None] | None:
    """The channel that owned the latest answer to a wait, and the schema of what it asked for; the row knows both."""
    from workflows.lifecycle import InteractionStatus
    from workflows.models import Interaction
    from workflows.schemas.schema import load_schema

    asked = Interaction.objects.using(router.db_for_write(Interaction)).filter(
        unit__instance=instance, unit__step=step, status=InteractionStatus.COMPLETED, owned=True
    )
    row = asked.order_by("-unit__visit").values_list("channel", "schema", "schema_type").first()
    return None if row is None else (find_channel(row[0]), load_schema(*row[1:]))
