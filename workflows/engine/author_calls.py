"""Where a step runs: the engine's connection beside the author's, and the border between the two.

Lives here: calling the author's code, and looking at what it left behind. Invariants owned:

* An interruption lands inside the author's code or not at all (`in_author`).
* The next instance finds every connection as the author's code found it: no transaction left open, none
  that somebody was interrupted on, none that is dead. What one workflow forgets must never swallow another one's
  writes.
* A lost connection that the author's code did not catch is the engine's trouble, and never reaches `handle`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from django.db import DatabaseError, InterfaceError, connections, transaction
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg.pq import TransactionStatus

from workflows.exceptions import LeftTransactionOpen
from workflows.exceptions.trouble import Trouble, is_dead, is_lost

logger = logging.getLogger("workflows")

T = TypeVar("T")

CANCEL_SECONDS = 2.0


class Host:
    """One worker's place to run steps. Belongs to the thread that made it."""

    __slots__ = ("_begun", "_block", "alias", "authors", "db", "in_author", "savepoints", "vain")

    def __init__(self, db: BaseDatabaseWrapper, alias: str, *, savepoints: bool = False) -> None:
        self.db = db
        self.alias = alias
        #: For tests: each step in a savepoint, so that its database error does not break the test's transaction.
        self.savepoints = savepoints
        self.in_author = False
        #: How many rows of this batch were waited for in vain: for the next one as long would be too long.
        self.vain = 0
        #: Connections to look at; one that is in a transaction already is its owner's business (a test's).
        self.authors = [connections[name] for name in connections if not connections[name].in_atomic_block]
        #: The transactions that were open when the author's code began.
        self._begun: list[Any] = []
        self._block: Any = None

    def call_author(self, code: Callable[[], T]) -> T:
        """Run the author's code outside any transaction of ours; it must not leave one of its own."""
        if self.savepoints:
            return self._call_in_savepoint(code)
        try:
            self._begun = []
            returned = self._call(code)
        except BaseException as error:
            lost = self._lost_by(error)
            self.clean_up()  # the author's error is the one to tell
            if lost:
                raise Trouble(error) from error
            raise
        if left := self._abandon_unclean():
            raise LeftTransactionOpen(left)
        return returned

    def _call_in_savepoint(self, code: Callable[[], T]) -> T:
        self._block = transaction.atomic(using=self.alias)
        self._block.__enter__()
        try:
            returned = self.call_author_inside(code)
        except BaseException as error:
            block, self._block = self._block, None
            block.__exit__(type(error), error, error.__traceback__)
            if self._lost_by(error):
                raise Trouble(error) from error
            raise
        block, self._block = self._block, None
        block.__exit__(None, None, None)
        return returned

    def call_author_inside(self, code: Callable[[], T]) -> T:
        """Run the author's code inside our transaction; it must end every block that it begins."""
        self._begun = list(connections[self.alias].atomic_blocks)
        return self.call_nested(lambda: self._call(code))

    def call_nested(self, code: Callable[[], T]) -> T:
        """Author's code inside a transaction that we began inside author's code; it must end what it begins."""
        db = connections[self.alias]
        begun, savepoints = list(db.atomic_blocks), len(db.savepoint_ids)
        returned = code()
        if db.atomic_blocks != begun:
            _unwind(db, begun, savepoints)
            raise LeftTransactionOpen([self.alias])
        return returned

    def in_own_block(self) -> bool:
        """Whether the author's code is inside a transaction that it began itself."""
        return connections[self.alias].atomic_blocks != self._begun

    @contextmanager
    def as_engine(self) -> Iterator[None]:
        """The engine at work in the midst of the author's code: no interruption lands here."""
        was, self.in_author = self.in_author, False
        try:
            with self.outside():
                yield
        finally:
            self.in_author = was

    @contextmanager
    def as_author(self) -> Iterator[None]:
        """The project's code in the midst of the engine's work: it may be interrupted like any author's."""
        was, self.in_author = self.in_author, True
        try:
            yield
        finally:
            self.in_author = was

    @contextmanager
    def outside(self) -> Iterator[None]:
        """For tests: what is written stands, as it does in production, even if the author's code fails later.

        The savepoint around that code ends before, and a new one begins after.
        """
        block = None if self.in_own_block() else self._block
        if block is None:
            yield
            return
        self._block = None
        block.__exit__(None, None, None)
        self._begun = list(connections[self.alias].atomic_blocks)
        try:
            yield
        finally:
            # The same one, with a new savepoint: whoever compares the blocks around that code finds what was there.
            self._block = block
            block.__enter__()
            self._begun = list(connections[self.alias].atomic_blocks)

    def _lost_by(self, error: BaseException) -> bool:
        """Whether a connection was lost under the author's code, which let the error out."""
        if not isinstance(error, DatabaseError | InterfaceError):
            return False
        return is_lost(error) or any(is_dead(db) for db in self.authors)

    def _call(self, code: Callable[[], T]) -> T:
        self.in_author = True
        try:
            return code()
        finally:
            self.in_author = False

    def interrupt(self) -> None:
        """The author's code is about to be interrupted: stop what its connections are doing in the server.

        Before the interruption is raised, because on its way out it makes Django roll back and close them, and the
        server would go on with the statement and its locks.
        """
        self.in_author = False
        for db in self.authors:
            _cancel(db)

    def clean_up(self) -> None:
        """After a transaction of ours that may have ended badly."""
        self._abandon_unclean()

    def _abandon_unclean(self) -> list[str]:
        if all(map(_is_clean, self.authors)):
            return []  # as after nearly every step
        unclean = [db for db in self.authors if not _is_clean(db)]
        left = [db.alias for db in unclean if db.in_atomic_block or not is_dead(db)]
        for db in unclean:
            _abandon(db)
        return left


def _is_clean(db: BaseDatabaseWrapper) -> bool:
    if db.in_atomic_block:
        return False
    raw: Any = db.connection
    if raw is None:
        return True
    if not db.autocommit and db.settings_dict["AUTOCOMMIT"]:
        return False
    # A dead one answers UNKNOWN, and Django would hand it to the next step.
    return db.vendor != "postgresql" or raw.pgconn.transaction_status == TransactionStatus.IDLE


def _unwind(db: BaseDatabaseWrapper, begun: list[Any], savepoints: int) -> None:
    """Roll back to where the author's code began, so that our own block ends as it should."""
    while len(db.savepoint_ids) > savepoints:
        if (savepoint := db.savepoint_ids.pop()) is not None:
            db.savepoint_rollback(savepoint)
    db.atomic_blocks[:] = begun


def _abandon(db: BaseDatabaseWrapper) -> None:
    """Roll back and close, whatever Django believes of this connection."""
    _cancel(db)
    db.in_atomic_block = db.needs_rollback = db.closed_in_transaction = False
    db.savepoint_ids, db.atomic_blocks, db.run_on_commit = [], [], []
    db.close()


def _cancel(db: BaseDatabaseWrapper) -> None:
    raw: Any = db.connection
    if raw is None or db.vendor != "postgresql" or raw.pgconn.transaction_status != TransactionStatus.ACTIVE:
        return
    try:
        raw.cancel_safe(timeout=CANCEL_SECONDS)
    except Exception as error:  # the interruption goes on without it
        logger.info("an interrupted statement could not be cancelled: %s", error)
