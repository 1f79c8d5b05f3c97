"""What one run of a step may ask of the engine while it runs: reading its inbox, asking questions, saving results.

Lives here: the way from `ctx` to the store. Invariants owned:

* Everything written is fenced and committed at once, so that it can be shown to the outside: a worker that
  has lost its claim writes nothing and is stopped (`Ousted`).
* None of it can be interrupted half-way: an interruption lands in the author's code, and this is not.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import UUID

from django.db import OperationalError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import errors

from workflows import store
from workflows.awaited_event import EVENT, EventSpec
from workflows.conf import conf
from workflows.exceptions import InvalidCall, PolicyRefused, SignalCollision
from workflows.jsontext import dump_value, read_back
from workflows.lifecycle import Call, InteractionStatus, UnitStatus
from workflows.policy import ask_policy, describe_event, describe_wait
from workflows.question import UNIT, Asked, Question
from workflows.schema_order import keep_order
from workflows.store import Claim, FoundItem, FoundQuestion, NewItem, NewQuestion, NewUnit, Saved
from workflows.trouble import Trouble, engine_at_work
from workflows.units.preparing import describe_item, dump_config, prepare_items
from workflows.units.streams import Asking, ItemStream
from workflows.uuid7 import make_uuid7

if TYPE_CHECKING:
    from workflows.host import Host

T = TypeVar("T")

#: Seconds that a question asked inside the author's own transaction waits for a row that somebody holds.
PATIENCE = 5.0
#: Seconds that the question of an outcome waits for such a row on the author's connection, which has no limit itself.
YIELD_AFTER = 0.5


class Ousted(BaseException):
    """Another worker holds the instance: what this one still does is void. No `except Exception` keeps it going."""


class Journal:
    """One claim's way to the store."""

    __slots__ = ("_claim", "_host", "_joined", "_owed", "_progress", "_yields", "patience", "rewind", "trouble")

    def __init__(self, claim: Claim, host: Host) -> None:
        self._claim, self._host = claim, host
        #: Where this run saved something: progress, unless it is forgotten again.
        self._progress: set[int] = set()
        #: Whether what is written now belongs to the transaction of an atomic step.
        self._joined = False
        #: A result that a held row kept out: what it came from worked, and is not done again for it.
        self._owed: Callable[[BaseDatabaseWrapper], Saved | None] | None = None
        #: The engine's trouble that this run has met: whatever the author made of it, the run is over.
        self.trouble: Trouble | None = None
        #: Whether a row that somebody holds is given up after a moment: nothing is lost when this is asked again.
        self._yields = False
        #: Seconds of that moment, where it is not the connection's own; 0 is as long as it takes.
        self.patience: float | None = None
        #: What the end of this run changes of what was saved.
        self.rewind: store.Rewind | None = None

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """The engine at work in the midst of the author's code: not interrupted, and what it meets is its own trouble.

        After that nothing more is done for this run.
        """
        with self.watched(), self._host.as_engine():
            yield

    @contextmanager
    def _yielding(self) -> Iterator[None]:
        was, self._yields = self._yields, True
        try:
            yield
        finally:
            self._yields = was

    @property
    def _moment(self) -> float | None:
        """The seconds to wait: fewer after each wait in vain of this batch, as a caller may hold many rows."""
        if self.patience is None and self._host.vain:
            return YIELD_AFTER / float(2 ** min(self._host.vain, 7))
        return self.patience

    def move(self, host: Host, patience: float) -> None:
        """What this run could not write because of a held row is written now, from this worker's present place."""
        self._host, self.patience, self.trouble = host, patience, None

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Statements of the engine on the author's connection."""
        if self.trouble is not None:
            raise self.trouble
        try:
            with engine_at_work():
                yield
        except Trouble as trouble:
            self.trouble = trouble
            raise

    # The inbox that was too large to come with the claim: read on the author's connection, from inside its code.

    def read(self, names: list[str] | None) -> list[list[Any]]:
        """The signals, all or of some names."""
        with self.watched():
            return store.read_signals(connections[self._host.alias], self._claim, names)

    def count(self, names: list[str] | None) -> list[int]:
        """Their numbers."""
        with self.watched():
            return store.read_numbers(connections[self._host.alias], self._claim, names)

    def ask(self, question: Question) -> Asked:
        """Open a question, or find the visit of this wait that is under way."""
        with self._at_work():
            latest = self._find(question)
            if latest is not None and self._is_under_way(latest):
                return self._tell(latest)
            return self._open(question, None, latest)

    def ask_and_arm(self, question: Question, timeout: float | None) -> Asked:
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

    def ask_at(self, question: Question, timeout: float | None, call: Call, position: int) -> Asked:
        """For a function: a question and its checkpoint, in one statement."""
        with self._at_work(), self._yielding():
            return self._open(question, timeout, self._find(question), call=call, position=position)

    def ask_each(self, stream: ItemStream, call: Call | None = None, position: int | None = None) -> UUID:
        """Open a unit of items and ask the first of them. What an earlier visit that failed was answered is kept."""
        with self._at_work(), self._yielding():
            before = store.find_unit(self._host.db, self._claim, stream.step) if self._claim.asked else None
            visit, answered = 1, {}
            if before is not None:
                visit = before.visit + 1
                if before.status is not UnitStatus.COMPLETED:
                    answered = store.read_answered(self._host.db, before.id)
            earlier = before.id if answered and before is not None else None
            unit, items = prepare_items(self._claim, stream, visit, answered, call, position)
            if conf.policy is not None:
                for index, item in enumerate(items):
                    self._ask_about_suspending(describe_item(self._claim, unit, item, index), signal_id=item.signal_id)
            try:
                opened = self._commit(lambda db: self._write_each(db, unit, items, stream, earlier), hooked=unit.hooked)
            except store.TakenSignalId as error:
                ids = [item.signal_id for item in items]
                raise SignalCollision(store.find_taken(self._host.db, self._claim.workspace, ids) or ids[0]) from error
            if not opened:
                raise Ousted
            return unit.id

    def _write_each(
        self, db: BaseDatabaseWrapper, unit: NewUnit, items: Sequence[NewItem], stream: ItemStream, before: UUID | None
    ) -> bool:
        with store.atomic(db):
            if not store.open_items(db, self._claim, unit, items, before):
                return False
            if unit.hooked:
                self._open_channels(db, unit.id, stream.find_question)
            if unit.line_room:
                store.admit_lines(db, unit.id)
            return True

    def fill_each(self, unit: UUID, asking: Asking) -> None:
        """Ask the next items of a unit whose channel writes rows of its own, as the author's code makes it."""
        with self._at_work(), self._yielding():
            if not self._commit(lambda db: self._write_next(db, unit, asking), hooked=True):
                raise Ousted

    def _write_next(self, db: BaseDatabaseWrapper, unit: UUID, asking: Asking) -> bool:
        with store.atomic(db):
            if not store.lock_claim(db, self._claim):
                return False
            if asked := store.admit_items(db, unit, hooked=True):
                self._open_channels(db, unit, None, asking, asked)
            return True

    def _open_channels(
        self,
        db: BaseDatabaseWrapper,
        unit: UUID,
        find_question: Callable[[int], Question] | None,
        asking: Asking | None = None,
        only: Sequence[UUID] | None = None,
    ) -> None:
        """Let the channels of items that have just been asked write their rows."""
        from workflows.models import Interaction

        rows = Interaction.objects.using(db.alias).filter(unit_id=unit, item=True, queued=False)
        rows = rows.filter(status=InteractionStatus.PENDING) if only is None else rows.filter(pk__in=list(only))
        groups: dict[int, tuple[Any, list[Interaction]]] = {}
        for row in rows.order_by("index").select_related("unit"):
            question = find_question(row.index) if asking is None else asking.make_question(row.request)  # type: ignore[misc]
            if question.opener is not None:
                groups.setdefault(id(question.opener), (question.opener, []))[1].append(row)
        for opener, interactions in groups.values():
            opener.open(interactions)

    def find_unit(self, step: str) -> store.FoundUnit | None:
        """The latest unit of items of a wait."""
        return self.look(lambda db: store.find_unit(db, self._claim, step))

    def look(self, work: Callable[[BaseDatabaseWrapper], T]) -> T:
        """Read something on the engine's connection."""
        with self._at_work():
            return work(self._host.db)

    @property
    def host(self) -> Host:
        """Where this run takes place."""
        return self._host

    def allow_expiries(self, unit: UUID) -> None:
        """Ask the policy about each item whose time was over; raises `PolicyRefused`."""
        if conf.policy is None:
            return
        from workflows.models import Interaction

        rows = Interaction.objects.using(self._host.alias).filter(unit_id=unit, status=InteractionStatus.EXPIRED)
        for item in rows.order_by("index"):
            try:
                with self._host.as_author():
                    ask_policy("timeout", item, "")
            except PolicyRefused as refused:
                told = {"operation": "timeout", "signal_id": item.signal_id, "reason": str(refused)}
                self._record_refusal(told)
                raise

    def read_each(self, unit: UUID, *, typed: bool) -> list[FoundItem]:
        """How the items of a unit ended."""
        with self._at_work():
            return store.read_ends(self._host.db, unit, typed=typed)

    def arm(self, unit: UUID, timeout: float | None, question: Question | None = None) -> Asked:
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

    def refuse_open_block(self, what: str) -> None:
        """A checkpoint stands at once; what the author's own open transaction does may still be undone."""
        if self._host.in_own_block():
            raise InvalidCall(
                f"{what} inside transaction.atomic(): what it saves would stand even if your block is rolled back. "
                "Leave the block first, or do the writes inside ctx.atomic(id, fn)."
            )

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
        from workflows.tokens import make_token

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
        timeout: float | None,
        latest: FoundQuestion | None,
        *,
        call: Call | None = None,
        position: int | None = None,
    ) -> Asked:
        new = self._prepare(question, timeout, call, position, 1 if latest is None else latest.visit + 1)
        self._ask_policy(new)
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
        self, question: Question, timeout: float | None, call: Call | None, position: int | None, visit: int
    ) -> NewQuestion:
        from workflows.tokens import hash_token, make_token

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

    def allow_event(self, spec: EventSpec) -> None:
        """Ask the policy whether a wait for an event may begin; raises `PolicyRefused`."""
        if conf.policy is None:
            return
        wait = describe_event(
            spec.name,
            instance=UUID(self._claim.id),
            workspace=self._claim.workspace,
            match=spec.match,
            schema=None if spec.schema is None else spec.schema.json,
            channel=spec.channel,
        )
        with self._host.as_engine():
            self._ask_about_suspending(wait, event=spec.name)

    def _ask_policy(self, new: NewQuestion) -> None:
        if conf.policy is not None:
            self._ask_about_suspending(_as_interaction(self._claim, new), signal_id=new.signal_id)

    def _ask_about_suspending(self, interaction: Any, **what: str) -> None:
        try:
            with self._host.as_author():
                ask_policy("suspend", interaction, "")
        except PolicyRefused as refused:
            self._record_refusal({"operation": "suspend", **what, "reason": str(refused)})
            raise

    def forget(self, position: int, runs: int) -> None:
        """This call and what came after it are to be made again by the next run; so many have failed by now.

        Done with the end of this run. Unless this run has saved something that stays: then it is the first since.
        """
        runs = 1 if any(saved < position for saved in self._progress) else runs
        self.rewind = store.Rewind(position, runs)
        self._claim.runs = runs

    def ask_about_timeout(self, name: str) -> str | None:
        """The policy on a deadline that has passed; the reason if it refuses. `name` is what was waited for."""
        from workflows.models import EventWait, Interaction

        if name.startswith(UNIT):
            asked = Interaction.objects.using(self._host.alias).filter(unit_id=name[len(UNIT) :])
            found, what = asked.order_by("index").first(), "signal_id"
        else:
            wait = EventWait.objects.using(self._host.alias).filter(pk=name[len(EVENT) :]).first()
            found, what = None if wait is None else describe_wait(wait), "event"
        try:
            ask_policy("timeout", found, "")
        except PolicyRefused as refused:
            told = {"operation": "timeout", what: found.signal_id if found else None, "reason": str(refused)}
            self._record_refusal(told)
            return f"PolicyRefused: {refused}"
        return None

    def _record_refusal(self, told: dict[str, Any]) -> None:
        data, fence = dump_value(told, "a refusal"), self._claim.fence
        joined, self._joined = self._joined, False  # the transaction of an atomic step is rolled back by the refusal
        try:
            with self._at_work():
                if not self._commit(
                    lambda db: store.record_refusal(db, self._claim.id, actor="", data=data, fence=fence)
                ):
                    raise Ousted
        finally:
            self._joined = joined

    def blame(self, position: int) -> None:
        """The call that the function fails of: a retry makes it again, and what came after it. Done with the end."""
        self.rewind = store.Rewind(position)

    def _commit(self, work: Callable[[BaseDatabaseWrapper], T], *, hooked: bool = False) -> T:
        """On the engine's connection; a channel that writes rows of its own needs the author's, where models write."""
        author = connections[self._host.alias]
        db = author if hooked or self._joined else self._host.db
        if db is author and self._yields and not author.in_atomic_block:
            moment = YIELD_AFTER if self._moment is None else self._moment

            def hurry() -> T:
                store.limit_lock_wait(db, moment)
                return work(db)

            return store.in_transaction(db, hurry)
        if db is author:
            return store.in_transaction(db, lambda: work(db))
        if self._yields and self._moment is not None:
            return self._commit_within(db, work, self._moment)
        try:
            return store.retrying(db, lambda: work(db))  # one statement, which is a transaction of its own
        except OperationalError as error:
            if self._yields or not isinstance(error.__cause__, errors.LockNotAvailable):
                raise
        # Somebody holds the row for longer than a pump waits for a batch. Nobody can take the claim meanwhile, and the
        # keeper renews it: so wait as long as it takes, unless it may be the author's own transaction that holds it.
        patience = PATIENCE if author.in_atomic_block else 0.0

        try:
            return self._commit_within(db, work, patience)
        except OperationalError as error:
            if not isinstance(error.__cause__, errors.LockNotAvailable):
                raise
            raise InvalidCall(
                f"the instance's row has been locked for {PATIENCE:.0f} s while this step is inside a transaction: "
                "leave your transaction before you ask, or do not signal or lock the instance in it"
            ) from error

    def _commit_within(self, db: BaseDatabaseWrapper, work: Callable[[BaseDatabaseWrapper], T], patience: float) -> T:
        def write() -> T:
            with store.atomic(db):
                store.wait_for_locks(db, patience)
                return work(db)

        return store.retrying(db, write)

    def _tell(self, found: FoundQuestion) -> Asked:
        return Asked(
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


def _as_interaction(claim: Claim, new: NewQuestion) -> Any:
    """The row as it will be, for a policy to look at."""
    from workflows.models import Interaction

    return Interaction(
        id=new.id,
        unit_id=new.unit,
        instance_id=UUID(claim.id),
        workspace_id=claim.workspace,
        status=InteractionStatus.PENDING,
        owned=new.owned,
        channel=new.channel,
        signal_id=new.signal_id,
        assignee=new.assignee,
        group=new.group,
        correlation_id=new.correlation_id,
        request=None if new.request is None else read_back(new.request),
        schema=None if new.schema is None else json.loads(new.schema),
    )
