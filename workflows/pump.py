"""One loop: fire what is due, take back what died, claim, run, commit; and when there is nothing, listen.

Hosted by `tasks.pump` in a django-q worker and by the `workflow_worker` command; both run this same
class. Any number of pumps on any number of machines are safe together: all they share is rows.

Three connections, because they have different duties: the pump's own (its plans must use the partial
indexes however empty the tables were when it was prepared, hence no sequential scans and no JIT), the
author's ordinary one under its alias, and one that the keeper opens when a step takes long. What is due in
other apps the pump only notices: threads of their own do that, on ordinary connections (`sweeps`).
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from django.db import DatabaseError, InterfaceError, close_old_connections, connections, router
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import errors
from psycopg.pq import TransactionStatus

from workflows import engine, registry, store
from workflows.backend.vanished import limit_silence
from workflows.batch import Batch
from workflows.conf import conf
from workflows.deadlines import Deadlines
from workflows.exceptions import StepTimedOut
from workflows.host import Host
from workflows.keeper import LONG_STEP, Keeper
from workflows.models import Instance
from workflows.silence import LAST_PATIENCE, PATIENCE, Lookout
from workflows.sweeps import Sweeper

logger = logging.getLogger("workflows")

BATCH = 500
#: The first claim is small: how long the steps take is not known yet, and others may be idle.
FIRST_BATCH = 32
#: Commit what is finished at least this often, so that nobody waits for a whole batch of slow steps.
COMMIT_EVERY = 0.2
BEAT_EVERY = 1.0
SWEEP_EVERY = 0.25
SWEEP_ROUNDS = 20
RECLAIM_EVERY = 1.0
#: A notification can be missed only around the moment of marking idle; polling is the floor under it.
POLL = 0.05
POLL_CALM = 0.2
CALM_AFTER = 2.0
RECONNECT_EVERY = 1.0
#: libpq waits without end for a server that accepts and says nothing.
CONNECT_SECONDS = 10
PAY_EVERY = 1.0
PAY_UP_SECONDS = 3.0
#: What is owed may be kept out by more than its row (the key of a child): so many are waited for in vain at a time.
MOST_IN_VAIN = 5
#: How long a batch waits for a row that a caller's transaction holds, before the others are committed without it.
LOCK_TIMEOUT_MS = 500
#: What every statement of the store is written for; a role, a database or a server may have other defaults.
_OWN_SETTINGS = {
    "enable_seqscan": "off",
    "jit": "off",
    "statement_timeout": "0",
    "transaction_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
    "default_transaction_isolation": "read committed",
    "default_transaction_read_only": "off",
    "default_transaction_deferrable": "off",
}
#: Those that this version of the server knows.
_SET = """
    SELECT set_config(v.name, v.value, false) FROM unnest(%(names)s::text[], %(values)s::text[]) v(name, value)
    WHERE current_setting(v.name, true) IS NOT NULL
"""
#: Of what may be due the claims look at what became so after the oldest they saw, and at all of it so often: entries of
#: rows that are done stay in the index while somebody's snapshot is older, and reading them costs more and more.
LOOK_BACK_EVERY = 1.0
#: How long a caller's transaction may last after it has woken somebody, and be found at once all the same.
COMMIT_MARGIN = 1.0
#: Whoever was notified of work and found none looks at all of it, but not more often than that.
NOTIFIED_EVERY = 0.25
#: Where nothing waits beside those that run alone, it is looked for so often.
FAIR_EVERY = 0.1
#: After a small batch wait this long before claiming again: senders get the processor, batches grow.
LINGER = 0.005
SMALL_BATCH = 8


class Pump:
    """One worker's loop. `name` is its heartbeat row; two pumps of one name take turns, not both."""

    def __init__(
        self,
        *,
        name: str | None = None,
        kind: str = "worker",
        on_long_step: Callable[[], None] | None = None,
        on_stuck: Callable[[], None] = lambda: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> None:
        self.holder = f"{socket.gethostname()}:{os.getpid()}:{time.monotonic_ns()}"
        self.name = name or f"{kind}:{self.holder}"
        self.kind = kind
        self._alias = router.db_for_write(Instance)
        self._should_stop = should_stop
        self._on_long_step = on_long_step
        self._gave_up_role = self._handed_over = False
        self._default_limit = conf.step_timeout
        self._lookout = Lookout(lambda: LAST_PATIENCE if self._ending() else PATIENCE)
        self._keeper = Keeper(
            lambda: connect(self._alias, self._lookout),
            self._limit_of,
            self._give_up_role,
            self._beat_on,
            on_stuck,
            self._in_author,
            self._interrupt_author,
        )
        self._sweeper = Sweeper()
        self._deadlines = Deadlines()
        self._db: BaseDatabaseWrapper | None = None
        self._host: Host | None = None
        #: Outcomes that could not be committed yet; the fence makes it safe to be late.
        self._owed: list[store.Commit] = []
        self._paid_at = 0.0
        self._limit = FIRST_BATCH
        #: Nothing that may be claimed was due before this moment when everything was last looked at.
        self._oldest = 0.0
        self._looked_back_at = float("-inf")
        self._fair_at = 0.0
        self._notified = self._after_solo = self._after_unknown = False
        self._batch = Batch(())
        #: Batches before it of which the keeper still has something in its hands.
        self._left: list[Batch] = []
        self._beat_at = self._swept_at = self._reclaimed_at = 0.0
        self._busy_at = time.monotonic()
        self._idle = False
        self._stopped = False
        self._unmigrated = self._failed = False
        self.steps = 0

    def stop(self) -> None:
        """Finish the running step, give the rest back, and return from `run`. Safe in a signal handler."""
        self._stopped = True

    def run(self) -> bool:
        """Pump until stopped; False when another pump of this name is alive."""
        self._keeper.start()
        self._lookout.start()
        try:
            while not self._ending():
                try:
                    if not self._turn():
                        return False
                    self._unmigrated = self._failed = False
                except (DatabaseError, InterfaceError) as error:
                    self._recover(error)
                except StepTimedOut:
                    logger.warning("a timed-out step ended too late to be told; its lease will end")
                    self._disconnect()  # it may have been interrupted in the middle of a statement
            self._pay_up()
            return True
        finally:
            self._sweeper.stop()
            self._keeper.stop()
            self._leave()
            self._disconnect()
            # Whoever hands over goes on living, and lets its successor begin: what is under way ends by itself, or is
            # waited for when the process ends.
            if self._on_long_step is None:
                self._sweeper.wait()
            self._lookout.stop()

    def _recover(self, error: Exception) -> None:
        """A statement failed. The server restarted or the network broke: leases end by themselves."""
        if isinstance(error.__cause__, errors.UndefinedTable | errors.UndefinedColumn | errors.UndefinedFunction):
            if not self._unmigrated:
                logger.error(
                    "the database is not migrated: run `python manage.py migrate`. This worker waits for it. (%s)",
                    str(error).partition("\n")[0],
                )
            self._unmigrated = True
        elif self._is_whole() and (not self._failed or isinstance(error.__cause__, errors.LockNotAvailable)):
            # Of a connection that lives no other is needed, unless it fails again for another reason than a lock.
            self._failed = True
            logger.warning("a statement of the pump failed, and is tried again: %s", error)
            time.sleep(RECONNECT_EVERY)
            return
        else:
            logger.warning("the pump lost the database and tries again: %s", error)
        self._disconnect()
        close_authors_connections()
        time.sleep(RECONNECT_EVERY)

    def _is_whole(self) -> bool:
        """Whether the connection lives, and no transaction is left open on it."""
        raw: Any = None if self._db is None else self._db.connection
        return raw is not None and not raw.closed and raw.info.transaction_status == TransactionStatus.IDLE

    def _turn(self) -> bool:
        db = self._reach()
        if not self._beat(db):
            return False
        self._collect(db)
        self._pay(db)
        # What was signalled comes before what time has woken: the former is somebody waiting for an answer.
        claims = self._claim(db)
        if not claims and (self._sweep(db) or not self._idle):
            self._beat(db, idle=True)
            claims = self._claim(db)
        if not claims:
            self._listen(db)
            return True
        self._advance(db, claims)
        if self._idle:
            self._beat(db, idle=False)
        self._busy_at = time.monotonic()
        self._sweep(db)
        if len(claims) < SMALL_BATCH and not claims[0].solo:
            time.sleep(LINGER)
        return True

    def _claim(self, db: BaseDatabaseWrapper) -> list[store.Claim]:
        began = time.monotonic()
        claims = self._claim_recent(db) if began - self._looked_back_at < LOOK_BACK_EVERY else []
        rest = NOTIFIED_EVERY if self._notified else LOOK_BACK_EVERY
        if not claims and began - self._looked_back_at >= rest:
            claims = store.claim(db, self._limit)
            waited = max((one.waited for one in claims), default=0.0)
            self._looked_back_at, self._oldest = began, began - waited - COMMIT_MARGIN
        self._notified = False
        self._after_solo = bool(claims) and claims[0].solo
        return claims

    def _claim_recent(self, db: BaseDatabaseWrapper) -> list[store.Claim]:
        back = time.monotonic() - self._oldest
        # One that runs alone takes a whole turn, and a dead machine leaves thousands. A workflow that was removed may
        # leave as many that can only be put back. In both cases others come in between.
        if (self._after_solo or self._after_unknown) and time.monotonic() >= self._fair_at:
            known = registry.list_names() if self._after_unknown else None
            self._after_unknown = False
            if claims := store.claim(db, self._limit, back=back, solos=not self._after_solo, known=known):
                return claims
            self._fair_at = time.monotonic() + FAIR_EVERY
        return store.claim(db, self._limit, back=back)

    def _advance(self, db: BaseDatabaseWrapper, claims: list[store.Claim]) -> None:
        claims = self._give_back_loners(db, claims)
        if not self._batch.is_over():
            self._left.append(self._batch)
        self._batch = batch = Batch(claims, self._list_kept())
        self._keeper.watch(batch)
        if self._host is not None:
            self._host.vain = 0
        begun = committed = time.monotonic()
        ran = unknown = 0
        try:
            while (claim := batch.begin_next()) is not None:
                commit = self._run_step(claim)
                batch.finish(commit)
                if commit is not None and commit.kind is store.Kind.POSTPONE:
                    store.fetch(db, "SELECT 1", {})  # a dead connection of ours must not meet the rest of the batch
                self.steps += 1
                ran += 1
                unknown += commit is not None and commit.kind is store.Kind.PUT_BACK
                if self._stopped:
                    self._release(db, batch)
                elif batch.since - committed > COMMIT_EVERY:
                    self._settle(db, batch)
                    if batch.since - begun > LONG_STEP:
                        self._release(db, batch)  # others may be idle
                    committed = time.monotonic()
                    self._beat(db)
                    self._sweep(db)
                    self._stopped = self._ending()
            self._settle(db, batch)
            self._after_unknown = 2 * unknown > ran
            self._limit = _size_next(ran, time.monotonic() - begun)
        except BaseException:
            batch.finish(None)  # what was running is nobody's now: its lease ends
            self._owe(batch)
            raise
        finally:
            self._keeper.rest()

    def _settle(self, db: BaseDatabaseWrapper, batch: Batch) -> None:
        finished = batch.take_finished()
        blocked: list[store.Commit] = []
        try:
            engine.settle(db, finished, blocked)
        except BaseException:
            blocked = finished
            raise
        finally:
            batch.owe(blocked)  # first: at no moment is its lease nobody's
            batch.put_back(finished, ())

    def _release(self, db: BaseDatabaseWrapper, batch: Batch) -> None:
        """Give back what nobody has begun; a row that a caller holds just now is run here after all."""
        waiting = batch.take_waiting()
        released: set[str] = set()
        try:
            released = store.release(db, waiting)
        finally:
            batch.put_back(waiting, [one for one in waiting if one.id not in released])

    def _collect(self, db: BaseDatabaseWrapper) -> None:
        """What the keeper could not do and put back when the batch had already ended."""
        for batch in (*self._left, self._batch):
            self._owe(batch)
            self._release(db, batch)
        self._left = [one for one in self._left if not one.is_over()]

    def _list_kept(self) -> list[store.Claim]:
        """Claims of earlier batches that are still to be committed or given back."""
        return [one.claim for one in self._owed] + [one for batch in self._left for one in batch.list_held()]

    def _owe(self, batch: Batch) -> None:
        finished = batch.take_finished() + batch.take_owed()
        self._owed += finished
        batch.put_back(finished, ())

    def _pay(self, db: BaseDatabaseWrapper) -> None:
        """Commit what could not be committed in its turn: a row was held, or the database away."""
        if self._owed and time.monotonic() - self._paid_at > PAY_EVERY:
            self._paid_at = time.monotonic()
            # Not every owed row is locked so that nobody can take it: a wait for an event may want that event's lock.
            store.renew(db, [one.claim for one in self._owed])
            self._settle_owed(db)

    def _pay_up(self) -> None:
        """Before the end: a stop is no crash, so what was run should not have to run again."""
        until = time.monotonic() + PAY_UP_SECONDS
        try:
            while time.monotonic() < until:
                if not self._owed and all(one.is_over() for one in (*self._left, self._batch)):
                    return
                self._collect(self._reach())
                if self._owed:
                    self._settle_owed(self._reach())  # waits for a held row itself, for LOCK_TIMEOUT_MS
                else:
                    time.sleep(POLL)  # the keeper has something in its hands
        except (DatabaseError, InterfaceError) as error:
            logger.warning("the pump ends without having committed %d outcomes: %s", len(self._owed), error)

    def _settle_owed(self, db: BaseDatabaseWrapper) -> None:
        late = deque(one for one in self._owed if one.again is not None)
        owed, self._owed = [one for one in self._owed if one.again is None], []
        assert self._host is not None
        vain, kept = 0, list[store.Commit]()
        free: set[str] | None = None
        try:
            while late:
                if vain == MOST_IN_VAIN or (free is not None and late[0].claim.id not in free):
                    kept.append(late.popleft())
                    continue
                found = engine.complete(late[0], self._host)
                late.popleft()
                if found is None:
                    continue
                owed.append(found)
                if found.again is not None:
                    vain += 1
                    free = store.list_free(db, [one.claim.id for one in late])
            self._owed += kept  # before those tried just now, so that each has its turn
            engine.settle(db, owed, self._owed)
        except BaseException:
            self._owed = [*kept, *late, *owed]
            raise

    def _run_step(self, claim: store.Claim) -> store.Commit | None:
        assert self._host is not None
        return engine.run(claim, self._host)

    def _in_author(self) -> bool:
        return self._host is not None and self._host.in_author

    def _get_on(self) -> object:
        """Changes with what the engine does on the author's connection; None in his own code, which has its limit."""
        return None if self._in_author() else (self._batch, self._batch.since)

    def _interrupt_author(self) -> None:
        if self._host is not None:
            self._host.interrupt()

    def _give_back_loners(self, db: BaseDatabaseWrapper, claims: list[store.Claim]) -> list[store.Claim]:
        """A workflow that was changed to one attempt after its rows were written: alone from now on."""
        if len(claims) == 1:
            return claims
        loners = [one for one in claims if engine.runs_alone(one)]
        if loners:
            store.release(db, loners, solo=True)
        return [one for one in claims if not engine.runs_alone(one)] if loners else claims

    def _listen(self, db: BaseDatabaseWrapper) -> None:
        calm = time.monotonic() - self._busy_at > CALM_AFTER
        raw: Any = db.connection
        with db.wrap_database_errors:  # psycopg's own call raises psycopg's own errors
            for _ in raw.notifies(timeout=POLL_CALM if calm else POLL, stop_after=1):
                self._notified = True

    def _sweep(self, db: BaseDatabaseWrapper) -> bool:
        """Fire what is due and take back what died, each when it is time to look; whether anything became runnable."""
        now, woke = time.monotonic(), 0
        if now - self._swept_at > SWEEP_EVERY:
            self._swept_at = now
            self._sweeper.look(db)
            # Bounded, so that a million deadlines of one moment do not keep what they woke from running.
            for _ in range(SWEEP_ROUNDS):
                fired = self._deadlines.fire(db)
                woke += fired
                if not fired or self._ending():
                    break
                self._beat(db)
        if now - self._reclaimed_at > RECLAIM_EVERY:
            self._reclaimed_at = now
            if taken := store.reclaim(db):
                logger.warning("took %d instances back from workers that fell silent", taken)
                woke += taken
            close_old_connections()
        return woke > 0

    def _beat(self, db: BaseDatabaseWrapper, *, idle: bool | None = None) -> bool:
        """Write the heartbeat when it is due or the idle mark changes; False when the name is taken."""
        now = time.monotonic()
        changed = idle is not None and idle != self._idle
        if self._gave_up_role or (not changed and now - self._beat_at < BEAT_EVERY):
            return True
        self._beat_at = now
        if idle is not None:
            self._idle = idle
        return store.beat(db, self.name, self.kind, self.holder, idle=self._idle)

    def _beat_on(self, db: BaseDatabaseWrapper) -> None:
        """From the keeper, while a step takes long."""
        if not self._gave_up_role:
            store.beat(db, self.name, self.kind, self.holder, idle=False)

    @property
    def handed_over(self) -> bool:
        """Whether a successor was asked for already, because a step took long."""
        return self._handed_over

    def _give_up_role(self, db: BaseDatabaseWrapper) -> None:
        """A long step has begun: let another pump take the name, where there is somebody to ask."""
        if self._on_long_step is not None and not self._gave_up_role:
            self._gave_up_role = self._stopped = True
            store.leave(db, self.name, self.holder)
            self._on_long_step()
            self._handed_over = True

    def _limit_of(self, claim: store.Claim) -> float:
        return engine.limit_of(claim, self._default_limit)

    def _ending(self) -> bool:
        return self._stopped or self._should_stop()

    def _reach(self) -> BaseDatabaseWrapper:
        if self._db is None:
            self._db = connect(self._alias, self._lookout)
            store.fetch(self._db, f"LISTEN {store.CHANNEL}", {}, rows=False)
            self._host = Host(self._db, self._alias)
            for db in self._host.authors:
                self._lookout.watch(db, self._get_on)
            self._beat_at = 0.0
        return self._db

    def _disconnect(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = self._host = None
        connections[self._alias].close_if_unusable_or_obsolete()

    def _leave(self) -> None:
        if self._db is None or self._gave_up_role:
            return
        try:
            store.leave(self._db, self.name, self.holder)
        except (DatabaseError, InterfaceError):
            logger.info("could not sign off; the heartbeat row will be ignored once it is old")


def _size_next(count: int, seconds: float) -> int:
    """How many to claim next: what takes half a second at the pace of the last batch."""
    return BATCH if seconds <= 0 or not count else max(1, min(BATCH, int(count * LONG_STEP / 2 / seconds)))


def close_authors_connections() -> None:
    """After a restart of the server, the step that met a dead connection would be failed by it."""
    for db in connections.all(initialized_only=True):
        if not db.in_atomic_block:
            db.close()


def connect(alias: str, lookout: Lookout | None = None) -> BaseDatabaseWrapper:
    """A connection of our own beside the author's, with prepared statements and index plans."""
    db = connections.create_connection(alias)
    options = {**db.settings_dict.get("OPTIONS", {}), "server_side_binding": True, "prepare_threshold": 1}
    options.pop("pool", None)
    options.pop("isolation_level", None)
    options.setdefault("connect_timeout", CONNECT_SECONDS)
    db.settings_dict = {**db.settings_dict, "OPTIONS": options, "CONN_MAX_AGE": None, "AUTOCOMMIT": True}
    # With DEBUG Django would format and remember every statement of a loop that never ends.
    db.make_debug_cursor = db.make_cursor  # type: ignore[method-assign,assignment]
    try:
        db.ensure_connection()
        if lookout is not None:
            lookout.watch(db)
        _prepare(db)
    except BaseException:
        db.close()
        raise
    return db


def _prepare(db: BaseDatabaseWrapper) -> None:
    with db.wrap_database_errors:
        limit_silence(db.connection, db.settings_dict["OPTIONS"])  # whatever engine of Django's the project uses
    settings = {**_OWN_SETTINGS, "lock_timeout": f"{LOCK_TIMEOUT_MS}ms"}
    store.fetch(db, _SET, {"names": list(settings), "values": list(settings.values())})
