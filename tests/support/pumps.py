"""Real pumps in threads of the test's own process.

Lives here: starting them, stopping them and giving back every connection they used. What must not:
assertions about workflows, fixed sleeps. A pump is made in the thread that runs it, as its keeper needs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import connections

from workflows.worker.pump import Pump

PATIENCE = 60.0


@contextmanager
def pumping(count: int = 1, **options: Any) -> Iterator[list[Pump]]:
    """So many pumps until the end of the block; one that raises instead of pumping on is a failure."""
    pumps: list[Pump] = []
    errors: list[BaseException] = []
    made = threading.Barrier(count + 1)

    def pump() -> None:
        try:
            one = Pump(**options)
            pumps.append(one)
            made.wait(PATIENCE)
            one.run()
        except BaseException as error:
            errors.append(error)
        finally:
            _close_all()

    threads = [threading.Thread(target=pump, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    made.wait(PATIENCE)
    try:
        yield pumps
    finally:
        for one in pumps:
            one.stop()
        for thread in threads:
            thread.join(PATIENCE)
    assert not errors, f"a pump died of {errors[0]!r}"
    assert not any(thread.is_alive() for thread in threads), "a pump does not stop"


def _close_all() -> None:
    """Also what is in a transaction: a failing test must not leave locks to the next one."""
    for db in connections.all(initialized_only=True):
        if db.connection is not None:
            db.connection.close()
        db.in_atomic_block = False
        db.close()
