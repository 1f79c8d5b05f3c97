"""A process that stops between two writes, to be killed: `python -m tests.support.units.killed_process POINT ID`.

Lives here: the points. Each is a real call of the engine's, held where a crash would strike: before it, or after it
and before the commit that follows.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, NoReturn
from unittest.mock import patch

import django

django.setup()

from django.db import connections  # noqa: E402

import tests.support.units.flows  # noqa: E402, F401
import workflows  # noqa: E402
from tests.support.races import play, settle, take_one  # noqa: E402
from workflows import engine, store  # noqa: E402
from workflows.engine.journals.journal import Journal  # noqa: E402
from workflows.models import AwaitUnit, Interaction  # noqa: E402
from workflows.units import item_outcomes, unit_sweep  # noqa: E402


def stop(*args: Any, **kwargs: Any) -> NoReturn:
    """Here it is killed."""
    print("HERE", flush=True)
    while True:
        time.sleep(60)


def stop_after(call: Callable[..., Any]) -> Callable[..., Any]:
    """Let the call do its work, and stop before what follows."""

    def stopping(*args: Any, **kwargs: Any) -> NoReturn:
        call(*args, **kwargs)
        stop()

    return stopping


def run() -> None:
    settle(play(take_one()))


def answer(instance: str, *indexes: int) -> None:
    for index in indexes:
        item = Interaction.objects.get(instance=instance, index=index)
        workflows.complete(item, index)


def close(instance: str) -> None:
    """All is answered, and nobody has been released."""
    with patch.object(item_outcomes, "_release"):
        answer(instance, 0, 1, 2)


def let_go(instance: str) -> None:
    item_outcomes.release(connections["default"], AwaitUnit.objects.get(instance=instance).pk)


def in_transaction(call: Callable[[], Any]) -> None:
    with store.atomic(connections["default"]):
        call()
        stop()


def expire(instance: str) -> None:
    with connections["default"].cursor() as cursor:
        cursor.execute(
            "UPDATE holdpoint_interaction SET deadline = now() - interval '1 s' "
            "WHERE instance_id = %s AND deadline IS NOT NULL",
            [instance],
        )
    unit_sweep.work()


def stop_in_opening(instance: str) -> None:
    with patch.object(Journal, "_write_each", stop_after(Journal._write_each)):
        run()


def stop_before_parking(instance: str) -> None:
    with patch.object(engine, "settle", stop), patch("tests.support.races.engine.settle", stop):
        run()


def stop_in_answer(instance: str) -> None:
    run()
    in_transaction(lambda: answer(instance, 0))


def stop_before_asking_next(instance: str) -> None:
    run()
    with patch.object(item_outcomes, "follow_up", stop):
        answer(instance, 0)


def stop_in_asking_next(instance: str) -> None:
    run()
    with patch.object(item_outcomes, "follow_up"):
        answer(instance, 0)
    in_transaction(lambda: unit_sweep.work())


def stop_before_releasing(instance: str) -> None:
    run()
    answer(instance, 0, 1)
    with patch.object(item_outcomes, "_release", stop):
        answer(instance, 2)


def stop_in_releasing(instance: str) -> None:
    run()
    close(instance)
    in_transaction(lambda: let_go(instance))


def stop_after_releasing(instance: str) -> None:
    run()
    answer(instance, 0, 1, 2)
    stop()


def stop_before_next_state(instance: str) -> None:
    run()
    answer(instance, 0, 1, 2)
    stop_before_parking(instance)


def stop_before_releasing_what_expired(instance: str) -> None:
    run()
    with patch.object(item_outcomes, "_release", stop):
        expire(instance)


POINTS: dict[str, Callable[[str], None]] = {
    "unit written, not committed": stop_in_opening,
    "unit opened, instance not parked": stop_before_parking,
    "answer written, not committed": stop_in_answer,
    "answer stored, next item not asked": stop_before_asking_next,
    "next item asked, not committed": stop_in_asking_next,
    "unit over, instance not released": stop_before_releasing,
    "release written, not committed": stop_in_releasing,
    "instance released, not run": stop_after_releasing,
    "instance run, next state not committed": stop_before_next_state,
    "items expired, instance not released": stop_before_releasing_what_expired,
}

if __name__ == "__main__":
    POINTS[sys.argv[1]](sys.argv[2])
