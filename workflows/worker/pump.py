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
from collections.abc import Callable, Collection
from typing import Any

from django.db import DatabaseError, InterfaceError, close_old_connections, connections, router
from django.db.backends.base.base import BaseDatabaseWrapper
from psycopg import errors
from psycopg.pq import TransactionStatus

from workflows import engine, store
from workflows.conf import conf
from workflows.definitions.sweeps import Sweeper
from workflows.engine.author_calls import Host
from workflows.exceptions import StepTimedOut
from workflows.models import Instance
from workflows.worker import pump_connection
from workflows.worker.batch import Batch
from workflows.worker.claim_schedule import ClaimSchedule
from workflows.worker.deadlines import Deadlines
from workflows.worker.lease_keeper import LONG_STEP, Keeper
from workflows.worker.owed_outcomes import OwedOutcomes
from workflows.worker.silent_connections import LAST_PATIENCE, PATIENCE, Lookout

logger = logging.getLogger("workflows")

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
PAY_UP_SECONDS = 3.0
#: After a small batch wait this long before claiming again: senders get the processor, batches grow.
LINGER = 0.005
SMALL_BATCH = 8


class Pump:
    """One worker's loop. `name` is its heartbeat row; two pumps of one name take turns, not both.

    Of some `queues` only, or of all; deadlines and what died it looks after whichever those are.
    """

    def __init__(
        self,
        *,
        name: str | None = None,
        kind: str = "worker",
        on_long_step: Callable[[], None] | None = None,
        on_stuck: Callable[[], None] = lambda: None,
        should_stop: Callable[[], bool] = lambda: False,
        queues: Collection[str] | None = None,
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
        self._on_stuck = on_stuck
        self._keeper = Keeper(self)
        self._queues = queues
        self._claims = ClaimSchedule(queues)
        self._sweeper = Sweeper()
        self._deadlines = Deadlines()
        self._db: BaseDatabaseWrapper | None = None
        self._host: Host | None = None
        self._owed = OwedOutcomes()
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
        pump_connection.close_authors_connections()
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
        self._owed.pay(db, self._host)
        # What was signalled comes before what time has woken: the former is somebody waiting for an answer.
        claims = self._claims.take(db)
        if not claims and (self._sweep(db) or not self._idle):
            self._beat(db, idle=True)
            claims = self._claims.take(db)
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
                result = self._run_step(claim)
                commit = result if isinstance(result, store.Commit) else None
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
            self._claims.learn(ran, time.monotonic() - begun, unknown=unknown)
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
        return self._owed.list_claims() + [one for batch in self._left for one in batch.list_held()]

    def _owe(self, batch: Batch) -> None:
        finished = batch.take_finished() + batch.take_owed()
        self._owed.add(finished)
        batch.put_back(finished, ())

    def _pay_up(self) -> None:
        """Before the end: a stop is no crash, so what was run should not have to run again."""
        until = time.monotonic() + PAY_UP_SECONDS
        try:
            while time.monotonic() < until:
                if not self._owed.commits and all(one.is_over() for one in (*self._left, self._batch)):
                    return
                self._collect(self._reach())
                if self._owed.commits:
                    # Waits for a held row itself, for LOCK_TIMEOUT_MS.
                    self._owed.settle(self._reach(), self._host)
                else:
                    time.sleep(POLL)  # the keeper has something in its hands
        except (DatabaseError, InterfaceError) as error:
            logger.warning("the pump ends without having committed %d outcomes: %s", len(self._owed.commits), error)

    def _run_step(self, claim: store.Claim) -> store.RunResult:
        assert self._host is not None
        return engine.run(claim, self._host)

    def is_in_author(self) -> bool:
        """Whether the author's code is running just now."""
        return self._host is not None and self._host.in_author

    def _get_on(self) -> object:
        """Changes with what the engine does on the author's connection; None in his own code, which has its limit."""
        return None if self.is_in_author() else (self._batch, self._batch.since)

    def interrupt_author(self) -> None:
        """The author's code is about to be interrupted."""
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
                self._claims.notified = True

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
        return store.beat(db, self.name, self.kind, self.holder, idle=self._idle, queues=self._queues)

    def beat_on(self, db: BaseDatabaseWrapper) -> None:
        """From the keeper, while a step takes long."""
        if not self._gave_up_role:
            store.beat(db, self.name, self.kind, self.holder, idle=False, queues=self._queues)

    @property
    def handed_over(self) -> bool:
        """Whether a successor was asked for already, because a step took long."""
        return self._handed_over

    def give_up_role(self, db: BaseDatabaseWrapper) -> None:
        """A long step has begun: let another pump take the name, where there is somebody to ask."""
        if self._on_long_step is not None and not self._gave_up_role:
            self._gave_up_role = self._stopped = True
            store.leave(db, self.name, self.holder)
            self._on_long_step()
            self._handed_over = True

    def report_stuck(self) -> None:
        """A step past its limit ignores the interruption."""
        self._on_stuck()

    def find_limit(self, claim: store.Claim) -> float:
        """Seconds the claimed step may run."""
        return engine.limit_of(claim, self._default_limit)

    def _ending(self) -> bool:
        return self._stopped or self._should_stop()

    def connect(self) -> BaseDatabaseWrapper:
        """A connection of the engine's own, which is watched for silence."""
        return pump_connection.connect(self._alias, self._lookout)

    def _reach(self) -> BaseDatabaseWrapper:
        if self._db is None:
            self._db = self.connect()
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
