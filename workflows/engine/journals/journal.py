"""What one run of a step may ask of the engine while it runs: reading its inbox, asking questions, saving results.

Lives here: the way from `ctx` to the store, for signals, questions and checkpoints; items are in `item_journal`.
Invariant owned: everything written is fenced and committed at once, so that it can be shown to the outside. A worker
that has lost its claim writes nothing and is stopped (`Ousted`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper

from workflows import store
from workflows.definitions.awaited_kinds import AskSpec
from workflows.definitions.question import UNIT, OpenedQuestion, Question
from workflows.engine.event_loop import at_home
from workflows.engine.journals.asked_journal import AskedJournal
from workflows.engine.journals.store_access import Ousted
from workflows.exceptions import SignalCollision
from workflows.exceptions.trouble import Trouble
from workflows.lifecycle import Call, InteractionStatus
from workflows.schemas.field_order import keep_order
from workflows.store import Claim, FoundQuestion, NewQuestion, Saved
from workflows.units.prepared_items import dump_config
from workflows.uuid7 import make_uuid7
from workflows.values.json_text import dump_value

if TYPE_CHECKING:
    from workflows.engine.author_calls import Host


class Journal(AskedJournal):
    """One claim's way to the store."""

    __slots__ = ("_owed",)

    def __init__(self, claim: Claim, host: Host) -> None:
        super().__init__(claim, host)
        #: A result that a held row kept out: what it came from worked, and is not done again for it.
        self._owed: Callable[[BaseDatabaseWrapper], Saved | None] | None = None

    # The inbox that was too large to come with the claim: read on the author's connection, from inside its code.

    @at_home
    def read(self, names: list[str] | None) -> list[list[Any]]:
        """The signals, all or of some names."""
        with self.watched():
            return store.read_signals(connections[self._host.alias], self._claim, names)

    def count(self, names: list[str] | None) -> list[int]:
        """Their numbers."""
        with self.watched():
            return store.read_numbers(connections[self._host.alias], self._claim, names)

    @at_home
    def ask(self, question: Question) -> OpenedQuestion:
        """Open a question, or find the visit of this wait that is under way."""
        with self._at_work():
            latest = self._find(question)
            if latest is not None and self._is_under_way(latest):
                return self._tell(latest)
            return self._open(question, None, latest)

    def ask_and_arm(self, question: Question, timeout: float | datetime | None) -> OpenedQuestion:
        """The same, with a deadline that begins now; part of the outcome, and of its transaction if it has one."""
        self._joined = connections[self._host.alias].in_atomic_block
        try:
            with self._at_work(), self._yielding():
                latest = self._find(question)
                if latest is not None and self._is_under_way(latest):
                    return self.arm(latest.unit, timeout, question)
                return self._open(question, timeout, latest)
        finally:
            self._joined = False

    def ask_at(self, question: Question, timeout: float | datetime | None, call: Call, position: int) -> OpenedQuestion:
        """For a function: a question and its checkpoint, in one statement."""
        with self._at_work(), self._yielding():
            return self._open(question, timeout, self._find(question), call=call, position=position)

    def plan_question(self, spec: AskSpec, position: int, *, anew: bool) -> Callable[[UUID | None], Saved]:
        """For one of several of a step: a question and its checkpoint; one that stands already is taken over.

        The policy is asked now, and the rows are written by what comes back.
        """
        question = spec.question
        assert question is not None
        with self._at_work():
            latest = self._find(question)
            new: NewQuestion | None = None
            if anew or latest is None or not self._is_under_way(latest):
                visit = 1 if latest is None else latest.visit + 1
                new = self._prepare(question, None, spec.call, position, visit)
                self._ask_policy(new)

        def write(_: UUID | None) -> Saved:
            saved = Saved(position, spec.call, spec.id, False, False, None, None, None)
            with self._at_work(), self._yielding():
                if new is not None:
                    asked = self._open_prepared(new, question)
                else:
                    assert latest is not None
                    asked = self.arm(latest.unit, None, question)
                    if not self._commit(lambda db: store.take_question(db, self._claim, position, spec.id, asked.unit)):
                        raise Ousted
            saved.unit, saved.interaction, saved.signal_id = asked.unit, asked.id, asked.signal_id
            saved.status, saved.ask_deadline, saved.token = asked.status, asked.deadline, asked.token
            return saved

        return write

    @contextmanager
    def joining(self) -> Iterator[None]:
        """What is asked meanwhile is part of the outcome, and of its transaction if it has one."""
        self._joined = connections[self._host.alias].in_atomic_block
        try:
            yield
        finally:
            self._joined = False

    def arm(self, unit: UUID, timeout: float | datetime | None, question: Question | None = None) -> OpenedQuestion:
        """Give an open question its deadline; how it stands."""
        with self._at_work(), self._yielding():
            request = None if question is None else _dump_request(question)
            found = self._commit(lambda db: store.arm_question(db, self._claim, unit, timeout, request))
            if found is None:
                raise Ousted
            return self._tell(found)

    def load(self) -> list[Saved]:
        """The checkpoints, in one statement."""
        with self._at_work():
            return store.read_checkpoints(self._host.db, self._claim)

    def save(self, position: int, call: Call, name: str, **values: Any) -> Saved:
        """A checkpoint, or the settling of an open one. Kept out by a held row it is owed, and the run is over."""

        def work(db: BaseDatabaseWrapper) -> Saved | None:
            return store.save_checkpoint(db, self._claim, position, call, name, **values)

        try:
            with self._at_work(), self._yielding():
                saved = self._commit(work)
        except Trouble as trouble:
            self._owed = work if trouble.held else None
            raise
        if saved is None:
            raise Ousted
        self._note_progress(position)
        return saved

    @property
    def owes(self) -> bool:
        """Whether a result is still to be saved."""
        return self._owed is not None

    def save_owed(self) -> None:
        """Save what a held row kept out."""
        assert self._owed is not None
        with self._at_work(), self._yielding():
            if self._commit(self._owed) is None:
                raise Ousted
        self._owed = None

    def save_with(self, position: int, call: Call, name: str, work: Callable[[], Any], what: str) -> Saved:
        """Author's or engine's writes and the checkpoint of their result, in one transaction on the author's side."""
        db = connections[self._host.alias]
        # What the author writes is written as strictly as he likes; what the engine does counts on its own level.
        level = nullcontext if call is Call.ATOMIC else partial(store.read_committed, db)

        def write() -> Saved:
            with self._host.outside(), level(), transaction.atomic(using=self._host.alias):
                value = dump_value(self._host.call_nested(work), what)
                with self._host.as_engine():
                    saved = store.save_checkpoint(db, self._claim, position, call, name, value=value)
                if saved is None:
                    raise Ousted  # which rolls the writes back
                return saved

        with self.watched():
            saved = store.retrying(db, write)
        self._note_progress(position)  # not before: the commit itself may fail, at a deferred constraint
        return saved

    def _note_progress(self, position: int) -> None:
        """Failed runs are counted from the last progress on, here as in the row."""
        self._progress.add(position)
        self._claim.runs = min(self._claim.runs, 1)

    def token_of(self, saved: Saved) -> str:
        """The resume token of a checkpoint's question."""
        if saved.token is None:
            assert saved.interaction is not None
            assert saved.visit is not None
            saved.token = self._derive_token(saved.interaction, saved.visit, saved.token_key)
        assert saved.token is not None
        return saved.token

    def _derive_token(self, interaction: UUID, visit: int, key: str | None) -> str | None:
        """The resume token, made again: it is stored nowhere. None for a question that was opened without one."""
        if key is None:
            return None
        from workflows.definitions.callback_tokens import make_token

        return make_token(interaction, workspace=self._claim.workspace, visit=visit, key_id=key)[0]

    def _find(self, question: Question) -> FoundQuestion | None:
        """The latest visit of this wait. Only the holder of the claim opens another, so it stays the latest until then.

        An instance that has never asked has none: the claim's own count spares the look, and a stale one opens nothing.
        """
        if not self._claim.asked:
            return None
        return store.find_question(self._host.db, self._claim, question.step, question.channel)

    def _is_under_way(self, latest: FoundQuestion) -> bool:
        if latest.status is InteractionStatus.PENDING:
            return True
        # Answered before anybody parked: still this visit, until a step has been handed the answer.
        return latest.unread and f"{UNIT}{latest.unit}" not in (self._claim.names or ())

    def _open(
        self,
        question: Question,
        timeout: float | datetime | None,
        latest: FoundQuestion | None,
        *,
        call: Call | None = None,
        position: int | None = None,
    ) -> OpenedQuestion:
        new = self._prepare(question, timeout, call, position, 1 if latest is None else latest.visit + 1)
        self._ask_policy(new)
        return self._open_prepared(new, question)

    def _open_prepared(self, new: NewQuestion, question: Question) -> OpenedQuestion:
        opened = self._commit(lambda db: self._write(db, new, question), hooked=question.opener is not None)
        if opened is True:
            raise Ousted
        if opened is False:
            raise SignalCollision(new.signal_id)
        found = FoundQuestion(
            new.id, new.unit, new.signal_id, InteractionStatus.PENDING, opened, new.token_key, new.visit, None
        )
        return self._tell(found)

    def _write(self, db: BaseDatabaseWrapper, new: NewQuestion, question: Question) -> Any:
        opened = store.open_question(db, self._claim, new)
        if question.opener is not None and not isinstance(opened, bool):
            from workflows.models import Interaction

            question.opener.open(list(Interaction.objects.using(db.alias).filter(pk=new.id)))
        return opened

    def _prepare(
        self, question: Question, timeout: float | datetime | None, call: Call | None, position: int | None, visit: int
    ) -> NewQuestion:
        from workflows.definitions.callback_tokens import hash_token, make_token

        id, instance = make_uuid7(), UUID(self._claim.id)
        token, key = make_token(id, workspace=self._claim.workspace, visit=visit) if question.token else (None, None)
        schema = question.schema
        return NewQuestion(
            id=id,
            unit=make_uuid7(),
            step=question.step,
            visit=visit,
            signal_id=question.address(instance),
            channel=question.channel,
            owned=question.opener is not None and question.opener.owns_answers,
            cardinality=question.cardinality,
            request=_dump_request(question),
            schema=None if schema is None else dump_value(keep_order(schema.json), f"the schema of {question.step!r}"),
            schema_type=None if schema is None else schema.type_path,
            projector=question.projector,
            assignee=question.assignee,
            group=question.group,
            correlation_id=question.correlation_id or self._claim.key,
            token_key=key,
            token_hash=None if token is None else hash_token(token),
            timeout=timeout,
            body=question.body,
            sends=question.opener is not None and question.opener.sends,
            config=None if question.opener is None else dump_config(question.opener),
            position=position,
            call=call,
        )

    def forget(self, position: int, runs: int) -> None:
        """This call and what came after it are to be made again by the next run; so many have failed by now.

        Done with the end of this run. Unless this run has saved something that stays: then it is the first since.
        """
        runs = 1 if any(saved < position for saved in self._progress) else runs
        self.rewind = store.Rewind(position, runs)
        self._claim.runs = runs

    def blame(self, position: int) -> None:
        """The call that the function fails of: a retry makes it again, and what came after it. Done with the end."""
        self.rewind = store.Rewind(position)

    def _tell(self, found: FoundQuestion) -> OpenedQuestion:
        return OpenedQuestion(
            found.id,
            found.unit,
            found.signal_id,
            found.status,
            found.deadline,
            None if found.output is None else json.loads(found.output),
            self._derive_token(found.id, found.visit, found.token_key),
        )


def _dump_request(question: Question) -> str | None:
    given = question.request
    return None if given is None else dump_value(given, f"the request of {question.step!r}")
