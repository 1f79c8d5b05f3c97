"""Gives a pytest run one Apache Kafka of its own, from the moment that the first test wants it.

What lives here: the broker around a run. What must not: fixtures (`tests/support/kafka/broker.py`).
The controller owns the broker, because it outlives each of xdist's workers; these ring a bell, a named pipe, and wait
for the address. Invariants: a run that needs no broker starts none; no broker outlives its run, however the run ends;
KAFKA_BOOTSTRAP, when given, is used and left alone.
"""

import contextlib
import os
import shutil
import tempfile
import threading
import time
from pathlib import Path

import pytest

from config.kafka import KafkaError, find_jars, find_java, temporary_broker

BOOTSTRAP = "KAFKA_BOOTSTRAP"
#: Where a run's bell hangs and its broker's address is written; inherited by xdist's workers.
PLACE = "HOLDPOINT_TEST_KAFKA"
PATIENCE = 180.0


@pytest.hookimpl
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Hang up the bell; the broker itself starts when somebody rings."""
    if os.environ.get(BOOTSTRAP) or os.environ.get(PLACE):  # given, or inherited by an xdist worker
        return
    keeper = Keeper(Path(tempfile.mkdtemp(prefix="holdpoint-kafka-bell-")))
    os.environ[PLACE] = str(keeper.place)
    keeper.start()
    early_config.add_cleanup(keeper.end)


class Keeper(threading.Thread):
    """Waits for the bell, runs the broker, and ends it with the run.

    A thread that lives as long as the run, because the broker is tied to the thread that started it.
    """

    def __init__(self, place: Path) -> None:
        super().__init__(name="kafka", daemon=True)
        self.place = place
        self.over = threading.Event()
        os.mkfifo(place / "bell")

    def run(self) -> None:
        with (self.place / "bell").open() as bell:  # returns at the first ring
            bell.read()
        if self.over.is_set():
            return
        try:
            with temporary_broker() as broker:
                publish(self.place / "address", broker.bootstrap)
                self.over.wait()
        except Exception as error:
            publish(self.place / "problem", str(error))

    def end(self) -> None:
        """Stop the broker, or the waiting for it."""
        os.environ.pop(PLACE, None)
        self.over.set()
        while self.is_alive():
            ring(self.place)
            self.join(0.02)
        shutil.rmtree(self.place, ignore_errors=True)


def find_bootstrap() -> str:
    """Return the address of the run's broker, started now if nobody asked before; else say why there is none."""
    if given := os.environ.get(BOOTSTRAP):
        return given
    find_java()
    find_jars()
    place = Path(os.environ[PLACE])
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        ring(place)
        if (place / "address").exists():
            return (place / "address").read_text()
        if (place / "problem").exists():
            raise RuntimeError((place / "problem").read_text())
        time.sleep(0.02)
    raise RuntimeError(f"the run's Kafka was not ready after {PATIENCE:g} s")


def explain_absence() -> str:
    """Return why this machine runs no broker, or nothing if it does."""
    if os.environ.get(BOOTSTRAP):
        return ""
    try:
        find_java()
        find_jars()
    except KafkaError as problem:
        return str(problem)
    return ""


def ring(place: Path) -> None:
    """Ring, where somebody listens: not yet just after the start, and no longer once it was answered."""
    with contextlib.suppress(OSError):
        os.close(os.open(place / "bell", os.O_WRONLY | os.O_NONBLOCK))


def publish(file: Path, text: str) -> None:
    scratch = file.with_suffix(".new")
    scratch.write_text(text)
    scratch.rename(file)
