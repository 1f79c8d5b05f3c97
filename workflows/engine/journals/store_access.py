"""One run's way to the database: as the engine, in the midst of the author's code.

Lives here: on which connection something is written, how long a held row is waited for, and what becomes of the
engine's own trouble. Must not live here: what is written. Invariants owned:

* Nothing of it can be interrupted half-way: an interruption lands in the author's code, and this is not.
* After the engine's trouble nothing more is done for the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from django.db import OperationalError, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import errors

from workflows import store
from workflows.engine.event_loop import at_home
from workflows.exceptions import InvalidCall
from workflows.exceptions.trouble import Trouble, engine_at_work
from workflows.store import Claim

if TYPE_CHECKING:
    from workflows.engine.author_calls import Host

T = TypeVar("T")

#: Seconds that a question asked inside the author's own transaction waits for a row that somebody holds.
PATIENCE = 5.0
#: Seconds that the question of an outcome waits for such a row on the author's connection, which has no limit itself.
YIELD_AFTER = 0.5


class Ousted(BaseException):
    """Another worker holds the instance: what this one still does is void. No `except Exception` keeps it going."""


class StoreAccess:
    """What every part of a journal is made of."""

    __slots__ = ("_claim", "_host", "_joined", "_progress", "_yields", "patience", "rewind", "trouble")

    def __init__(self, claim: Claim, host: Host) -> None:
        self._claim, self._host = claim, host
        #: Where this run saved something: progress, unless it is forgotten again.
        self._progress: set[int] = set()
        #: Whether what is written now belongs to the transaction of an atomic step.
        self._joined = False
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

    @at_home
    def look(self, work: Callable[[BaseDatabaseWrapper], T]) -> T:
        """Read something on the engine's connection."""
        with self._at_work():
            return work(self._host.db)

    @property
    def host(self) -> Host:
        """Where this run takes place."""
        return self._host

    def refuse_open_block(self, what: str) -> None:
        """A checkpoint stands at once; what the author's own open transaction does may still be undone."""
        if self._host.in_own_block():
            raise InvalidCall(
                f"{what} inside transaction.atomic(): what it saves would stand even if your block is rolled back. "
                "Leave the block first, or do the writes inside ctx.atomic(id, fn)."
            )

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
