"""What a site without django-q needs once a minute: the ledger sealed, and old events and dead workers' rows deleted.

A thread beside the pump of `workflow_worker`, on a connection of its own that is open only while it works; the work
is done by the database, so the pump hardly notices. Invariant owned: any number of these and of sweeps may run at
once. Sealing takes a lock that others do not wait for, deleting skips what others delete, and a thread that finds a
fresh seal makes none, so that ten workers do not make ten times the seals.
"""

from __future__ import annotations

import logging
import threading
from datetime import timedelta

from django.db import DatabaseError, InterfaceError, connections, router
from django.db.backends.base.base import BaseDatabaseWrapper

from workflows import store
from workflows.ledger import seal_ledger
from workflows.models import Instance, LedgerSeal

logger = logging.getLogger("workflows")

EVERY_SECONDS = 60.0
#: A seal this young was made by another worker or by a sweep in this same minute.
FRESH = timedelta(seconds=EVERY_SECONDS * 0.75)
#: A process that ends waits so long for a turn that is under way; what is left undone is rolled back.
LAST_TURN_SECONDS = 0.5


def tidy(db: BaseDatabaseWrapper) -> int:
    """One turn; how many seals it made."""
    store.forget_silent(db)
    try:
        store.prune_events(db)
    except DatabaseError:  # no reason to leave the ledger unsealed
        logger.warning("old events could not be deleted; the next turn tries again", exc_info=True)
    return 0 if _is_sealed(db) else seal_ledger(db)


def _is_sealed(db: BaseDatabaseWrapper) -> bool:
    """Whether the last seal is of this minute. One far ahead is not: a clock may once have been wrong."""
    seals = LedgerSeal.objects.using(db.alias).order_by("-id")
    last = seals.values_list("sealed_at", flat=True).first()
    return last is not None and abs(store.read_clock(db) - last.timestamp()) < FRESH.total_seconds()


class Tidier(threading.Thread):
    """Tidies up each minute until it is stopped. A failure is told, and the next turn tries again."""

    def __init__(self) -> None:
        super().__init__(name="holdpoint-tidier", daemon=True)
        self._ended = threading.Event()

    def run(self) -> None:
        """First after a whole minute: what begins with every start would be done by all workers of a deploy at once."""
        while not self._ended.wait(EVERY_SECONDS):
            self.take_turn()

    def take_turn(self) -> None:
        """Tidy on this thread's connection, and give it back."""
        try:
            tidy(connections[router.db_for_write(Instance)])
        except (DatabaseError, InterfaceError) as error:
            logger.warning("the ledger could not be sealed; the next turn tries again: %s", error)
        except Exception:
            logger.exception("tidying up failed; it goes on")
        finally:
            connections.close_all()

    def stop(self) -> None:
        """End the thread."""
        self._ended.set()
        self.join(LAST_TURN_SECONDS)
