"""The pump as a process of its own, for where milliseconds count or django-q is not wanted."""

from __future__ import annotations

import signal
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from workflows.pump import Pump


class Command(BaseCommand):
    """`manage.py workflow_worker`: run workflows until SIGTERM or Ctrl-C."""

    help = (
        "Runs workflow steps and fires deadlines until SIGTERM or Ctrl-C; then finishes the running step and "
        "gives the rest back. Any number of workers and django-q clusters may run at once."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """No options: the number of processes is the only knob."""

    def handle(self, *args: Any, **options: Any) -> None:
        """Pump until told to stop."""
        pump = Pump(kind="worker")
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: pump.stop())
        self.stdout.write(f"worker {pump.holder} is ready; SIGTERM or Ctrl-C stops it")
        pump.run()
        self.stdout.write(f"worker {pump.holder} stopped after {pump.steps} steps")
