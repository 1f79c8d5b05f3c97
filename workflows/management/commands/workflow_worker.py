"""The pump as a process of its own, for where milliseconds count or django-q is not wanted."""

from __future__ import annotations

import gc
import os
import signal
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from workflows.definitions.flow.known_limits import check_queue
from workflows.exceptions import UnknownQueue
from workflows.management.housekeeping_thread import Tidier
from workflows.management.terminal import show_count
from workflows.worker.pump import Pump

#: EX_SOFTWARE: a supervisor sees a failure and starts a fresh process.
STUCK = 70


class Command(BaseCommand):
    """`manage.py workflow_worker`: run workflows until SIGTERM or Ctrl-C."""

    help = (
        "Runs workflow steps and fires deadlines until SIGTERM or Ctrl-C; then finishes the running step and "
        "gives the rest back. Seals the ledger and deletes old events and answers once a minute. Any number of workers "
        "and django-q clusters may run at once."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Which queues it serves; the number of processes is the only other knob."""
        parser.add_argument(
            "--queue",
            action="append",
            dest="queues",
            metavar="NAME",
            help="serve this queue only; may be repeated. Without it, all of them.",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Pump until told to stop."""
        # What is loaded now stays; batches make and drop thousands of small objects, which reference counting
        # frees, so looking for cycles every 700 of them would only cost time.
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        queues: list[str] | None = options["queues"]
        try:
            for name in queues or ():
                check_queue(name)
        except UnknownQueue as error:
            raise CommandError(str(error)) from error
        pump = Pump(kind="worker", on_stuck=self.give_up, queues=queues)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: pump.stop())
        self.stdout.write(f"worker {pump.holder} is ready; SIGTERM or Ctrl-C stops it")
        self.stdout.flush()
        tidier = Tidier()
        tidier.start()
        try:
            pump.run()
        finally:
            tidier.stop()
        self.stdout.write(f"worker {pump.holder} stopped after {show_count(pump.steps, 'step')}")

    def give_up(self) -> None:
        """A step ignores its interruption, so nothing in this process will ever move again."""
        self.stderr.write("a step does not end when it is interrupted: ending this process for a fresh one")
        self.stderr.flush()
        os._exit(STUCK)
