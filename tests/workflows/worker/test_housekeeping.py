"""Tidying up: what a turn does, and the thread of `workflow_worker` that takes them beside others that do the same."""

from __future__ import annotations

import logging
import threading
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import call_command
from django.db import DatabaseError, connections, transaction

import workflows
from tests.support.horizon import wait_for_foreigners
from tests.support.kept_answers import answer, list_answers
from tests.support.ledger_rows import execute, live, no_triggers
from tests.support.races import COMMITTED
from workflows import store
from workflows.management import housekeeping_thread as thread
from workflows.management.commands import workflow_worker
from workflows.management.housekeeping_thread import EVERY_SECONDS, Tidier
from workflows.models import LedgerEvent, LedgerSeal, NamedEvent, StoredAnswer
from workflows.store.ledger.seals import LOCK
from workflows.worker import housekeeping
from workflows.worker.housekeeping import tidy

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]


class Minutes:
    """Instead of the thread's Event: so many minutes pass at once, and then it is stopped."""

    def __init__(self, minutes: int) -> None:
        self.left = minutes
        self.waits: list[float] = []

    def wait(self, seconds: float) -> bool:
        self.waits.append(seconds)
        self.left -= 1
        return self.left < 0


def run_tidier(minutes: int) -> Minutes:
    tidier = Tidier()
    tidier._ended = passing = Minutes(minutes)  # type: ignore[assignment]
    tidier.start()
    tidier.join(60)
    assert not tidier.is_alive()
    return passing


def tidy_here() -> int:
    return tidy(connections["default"], sparing=True)


def emit_old(name: str) -> None:
    workflows.emit(name)
    execute("UPDATE holdpoint_event SET at = at - interval '400 days' WHERE name = %s", [name])


def test_each_minute_it_seals_what_is_committed_and_deletes_old_events_and_answers() -> None:
    live(1)
    emit_old("old")
    workflows.emit("young")
    answer("old", days=5)
    answer("young", days=3)
    wait_for_foreigners()
    assert run_tidier(2).waits == [EVERY_SECONDS] * 3
    assert LedgerSeal.objects.count() == 1
    assert [one.name for one in NamedEvent.objects.all()] == ["young"]
    assert list_answers() == {"young"}
    assert sum(LedgerSeal.objects.values_list("rows", flat=True)) == LedgerEvent.objects.count()
    call_command("ledger", "verify")


def test_workers_of_one_minute_and_a_sweep_make_one_seal_and_lose_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    live(1)
    wait_for_foreigners()
    assert tidy(connections["default"]) == 1  # a sweep
    live(1)
    wait_for_foreigners()
    assert [tidy_here(), tidy_here()] == [0, 0]
    assert tidy(connections["default"]) == 1  # another: there is one a minute, which seals whatever it finds
    live(1)
    wait_for_foreigners()
    monkeypatch.setattr(housekeeping, "FRESH", timedelta(0))  # the minute is over
    assert [tidy_here(), tidy_here()] == [1, 0]
    assert sum(LedgerSeal.objects.values_list("rows", flat=True)) == LedgerEvent.objects.count()
    call_command("ledger", "verify")


def test_it_does_not_wait_for_another_that_seals() -> None:
    live(1)
    wait_for_foreigners()
    with transaction.atomic():
        execute("SELECT pg_advisory_xact_lock(%s)", [LOCK])
        run_tidier(1)  # on a connection of its own; would not end
    assert not LedgerSeal.objects.exists()
    assert tidy_here() == 1


def test_a_clock_that_was_once_ahead_does_not_stop_it() -> None:
    live(1)
    wait_for_foreigners()
    assert tidy_here() == 1
    with no_triggers():
        execute("UPDATE holdpoint_seal SET sealed_at = sealed_at + interval '1 year'")
    live(1)
    wait_for_foreigners()
    assert tidy_here() == 1


def test_answers_without_an_instance_go_after_four_days_and_the_others_stay() -> None:
    [instance] = live(1)
    for name, days, of in (("gone", 4.01, None), ("kept", 3.99, None), ("tied", 400, instance.pk)):
        answer(name, days=days, instance=of)
    tidy_here()
    assert list_answers() == {"kept", "tied"}


@pytest.mark.parametrize("error", [DatabaseError("no"), RuntimeError("a mistake")])
@pytest.mark.parametrize("part", ["events", "answers", "ledger"])
def test_what_fails_fails_alone_and_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, part: str, error: Exception
) -> None:
    def refuse(db: Any) -> int:
        raise error

    if part == "ledger":
        monkeypatch.setattr(housekeeping, "seal_ledger", refuse)
    else:
        monkeypatch.setattr(store, f"prune_{part}", refuse)
    live(1)
    emit_old("old")
    answer("old", days=5)
    wait_for_foreigners()
    with caplog.at_level(logging.WARNING, logger="workflows"):
        sealed = tidy_here()
    assert (sealed == 0, NamedEvent.objects.exists(), StoredAnswer.objects.exists()) == (
        part == "ledger",
        part == "events",
        part == "answers",
    )
    [told] = caplog.records
    assert told.levelname == "ERROR"
    assert part in told.message
    assert told.exc_info is not None
    assert told.exc_info[1] is error


@pytest.mark.parametrize("error", [DatabaseError("away"), RuntimeError("a mistake")])
def test_it_goes_on_after_a_failure_and_gives_its_connection_back(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    closed: list[bool] = []
    turns: list[int] = []

    def fail_once(db: Any, **options: Any) -> int:
        closed.append(db.connection is None)
        db.ensure_connection()
        turns.append(1)
        if len(turns) == 1:
            raise error
        return 0

    monkeypatch.setattr(thread, "tidy", fail_once)
    with caplog.at_level(logging.WARNING, logger="workflows"):
        run_tidier(2)
    assert closed == [True, True]
    assert len(caplog.records) == 1


def test_the_command_tidies_beside_its_pump_and_ends_it_with_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    beside: list[str] = []

    class Pump:
        holder, steps = "here", 1

        def __init__(self, **options: Any) -> None:
            pass

        def run(self) -> None:
            beside.extend(thread.name for thread in threading.enumerate())

    monkeypatch.setattr(workflow_worker, "Pump", Pump)
    monkeypatch.setattr(workflow_worker.gc, "freeze", lambda: None)
    monkeypatch.setattr(workflow_worker.gc, "set_threshold", lambda *thresholds: None)
    monkeypatch.setattr(workflow_worker.signal, "signal", lambda number, handler: None)
    call_command("workflow_worker")
    assert "holdpoint-tidier" in beside
    assert "holdpoint-tidier" not in [thread.name for thread in threading.enumerate()]
    assert capsys.readouterr().out.endswith("worker here stopped after 1 step\n")
