"""Consumers of answers for tests: in a thread of the test, or as the command in a process of its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.processes import Process, running, wait_until
from workflows.channels.kafka.intake import Intake
from workflows.conf import conf

JOIN_SECONDS = 40.0


class Consumer:
    """An intake in a thread."""

    def __init__(self) -> None:
        assert conf.kafka is not None
        self.partitions: list[str] = []
        self.intake = Intake(conf.kafka, on_ready=self.partitions.append)
        self.errors: list[BaseException] = []
        self.thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        try:
            self.intake.run()
        except BaseException as error:
            self.errors.append(error)

    def stop(self) -> None:
        self.intake.stop()
        self.thread.join(JOIN_SECONDS)
        assert not self.thread.is_alive(), "the consumer does not stop"
        assert self.errors == []


@contextmanager
def consuming(*, ready: bool = True) -> Iterator[Consumer]:
    """A consumer for the length of a `with` block; it has its partitions at the beginning."""
    one = Consumer()
    one.thread.start()
    try:
        if ready:
            wait_until(lambda: one.partitions or one.errors, "the consumer's partitions")
        yield one
    finally:
        one.stop()


@contextmanager
def commanded(*, ready: bool = True) -> Iterator[Process]:
    """`manage.py workflow_kafka`, configured as the test is."""
    kafka = conf.given["KAFKA"]
    process = Process(
        "manage.py",
        "workflow_kafka",
        DJANGO_SETTINGS_MODULE="tests.support.kafka.settings",
        TEST_KAFKA=json.dumps(kafka),
    )
    with running(process):
        if ready:
            wait_until(lambda: "consumer reads" in process.read_log(), "the consumer's partitions")
        yield process
