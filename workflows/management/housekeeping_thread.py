"""The thread that tidies up beside the pump of `workflow_worker`, for sites without django-q.

On a connection of its own that is open only while it works, so the pump hardly notices. Invariant owned: a turn that
fails ends neither the thread nor the worker.
"""

from __future__ import annotations

import logging
import threading

from django.db import DatabaseError, InterfaceError, connections, router

from workflows.models import Instance
from workflows.worker.housekeeping import tidy

logger = logging.getLogger("workflows")

EVERY_SECONDS = 60.0
#: A process that ends waits so long for a turn that is under way; what is left undone is rolled back.
LAST_TURN_SECONDS = 0.5


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
            tidy(connections[router.db_for_write(Instance)], sparing=True)
        except (DatabaseError, InterfaceError) as error:
            logger.warning("nothing could be tidied up; the next turn tries again: %s", error)
        except Exception:
            logger.exception("tidying up failed; it goes on")
        finally:
            connections.close_all()

    def stop(self) -> None:
        """End the thread."""
        self._ended.set()
        self.join(LAST_TURN_SECONDS)
