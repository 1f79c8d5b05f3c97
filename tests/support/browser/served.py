"""A site that a browser can visit, inside the transaction of an ordinary test.

Lives here: the server, and how its threads and the test share one database connection. What must not: browsers,
assertions. A test that commits has to flush every table afterwards, and cannot move the clock; so here requests run in
the test's own transaction, as Django's test client does it, although they come over a socket and in threads.
Invariants owned:

* One of them speaks at a time: a request runs from its first statement to its last while the test waits at its next
  one, and so savepoints are always closed in the order in which they were opened.
* Each request has a connection object of its own (blocks, savepoints, rollbacks) over the shared connection.
* No request outlives its test: what comes later is answered 503, and asks the database nothing.

What it cannot show is how two people race: that is for the tests with two connections. An answer that streams for
ever would keep its turn for ever.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any

from django.core.handlers.wsgi import WSGIHandler
from django.core.servers.basehttp import ThreadedWSGIServer
from django.db import DEFAULT_DB_ALIAS, connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.test.testcases import QuietWSGIRequestHandler
from psycopg.pq import TransactionStatus

from workflows import testing
from workflows.clock import read_now


class Served:
    """One server for the tests of a worker; it answers while a test lends it its transaction."""

    def __init__(self) -> None:
        self._turn = threading.RLock()
        self._keeps = False
        self._db: BaseDatabaseWrapper | None = None
        self._handler: Callable[..., Any] | None = None
        self._server = ThreadedWSGIServer(("127.0.0.1", 0), QuietWSGIRequestHandler)
        self._server.set_app(self)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        """Answer no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @contextmanager
    def lending(self, db: BaseDatabaseWrapper) -> Iterator[None]:
        """Serve from the open transaction of this connection until the end of the block."""
        assert db.in_atomic_block, "browser tests are ordinary django_db tests, without transaction=True"
        with self._turn:
            self._db, self._handler = db, WSGIHandler()
        db.execute_wrappers.append(self._wait_for_turn)
        try:
            yield
        finally:
            db.execute_wrappers.remove(self._wait_for_turn)
            with self._turn:
                self._db = self._handler = None
            self._keep_turn(False)

    @contextmanager
    def taking_turn(self) -> Iterator[None]:
        """Keep requests waiting until the end of the block."""
        with self._turn:
            yield

    def __call__(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> list[bytes]:
        """Answer one request, as WSGI wants it: in a thread of the server's."""
        with self._turn:
            if self._db is None or self._handler is None:
                start_response("503 Service Unavailable", [("Content-Length", "0")])
                return []
            connections[DEFAULT_DB_ALIAS] = _lend(self._db)
            try:
                response = self._handler(environ, start_response)
                try:
                    return [b"".join(response)]
                finally:
                    response.close()
            finally:
                del connections[DEFAULT_DB_ALIAS]

    def _wait_for_turn(self, execute: Callable[..., Any], *given: Any) -> Any:
        """Around each statement of the test."""
        with self._turn:
            try:
                return execute(*given)
            finally:
                # Until it is rolled back to a savepoint, a statement that failed has broken it for everybody.
                db = given[-1]["connection"]
                self._keep_turn(db.connection.info.transaction_status == TransactionStatus.INERROR)

    def _keep_turn(self, keep: bool) -> None:
        if keep and not self._keeps:
            self._turn.acquire()
        elif self._keeps and not keep:
            self._turn.release()
        self._keeps = keep


class Site:
    """What a browser test knows of the site that it visits."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self.url = served.url
        #: What `new Date()` is in pages that are opened from now on; None: what it is.
        self.fixed: datetime | None = None

    def go_on(self) -> dict[str, int]:
        """Let the pump do all that is due: steps, notices, graces that have ended.

        >>> site.go_on()
        {'done': 1}
        """
        with self._served.taking_turn():
            return testing.drain()

    def pass_time(self, duration: object) -> dict[str, int]:
        """Let time pass, for the database, and let the pump do what became due.

        >>> site.pass_time("10s")
        {'done': 1}
        """
        with self._served.taking_turn():
            return testing.advance(duration)

    def set_clock(self, moment: datetime) -> None:
        """Make it this moment, for the database and for the scripts of pages that are opened from now on.

        For pictures: what they say of times is then the same in every run. Call it before anything is made.
        """
        with self._served.taking_turn():
            testing._skew(connections[DEFAULT_DB_ALIAS], (moment - read_now()).total_seconds())
        self.fixed = moment + timedelta(seconds=1)


def _lend(db: BaseDatabaseWrapper) -> BaseDatabaseWrapper:
    """Another connection object for the same connection, within the transaction that is open there."""
    lent: BaseDatabaseWrapper = db.copy()
    lent.connection = db.connection
    lent.autocommit, lent.in_atomic_block = False, True
    # At its start and end a request closes what was left in a transaction; this one is the test's.
    lent.close = lent.close_if_unusable_or_obsolete = _close_nothing  # type: ignore[method-assign]
    return lent


def _close_nothing() -> None: ...
