"""`manage.py workflow_kafka`: takes the answers that partners write to topics."""

from __future__ import annotations

import json
import signal
from typing import Any

from django.core.exceptions import ImproperlyConfigured
from django.core.management.base import BaseCommand, CommandError, CommandParser

from workflows.channels.kafka.envelopes import read_schema
from workflows.channels.kafka.intake import Intake
from workflows.conf import conf
from workflows.management.terminal import show_count


class Command(BaseCommand):
    """`manage.py workflow_kafka`: consume answers until SIGTERM or Ctrl-C."""

    help = (
        'Takes answers from the topics of WORKFLOWS["KAFKA"]["ANSWERS"] until SIGTERM or Ctrl-C; then finishes its '
        "batch. Any number may run at once and share the partitions. What cannot be taken is parked (see the admin)."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """Which topics, or only a look at the envelopes."""
        parser.add_argument("--topic", action="append", default=[], help="take answers from this one only; repeatable")
        parser.add_argument(
            "--schema",
            choices=("request", "response"),
            help="print the JSON Schema of an envelope, and do nothing else",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        """Consume until told to stop."""
        if options["schema"]:
            self.stdout.write(json.dumps(read_schema(options["schema"]), indent=2))
            return
        try:
            settings = conf.kafka
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from error
        if settings is None or not settings.answers:
            raise CommandError(
                'No topic is read: set WORKFLOWS["KAFKA"] = {"BOOTSTRAP": "kafka:9092", '
                '"ANSWERS": {"a topic of answers": ["a workspace"]}}'
            )
        if unknown := sorted(set(options["topic"]) - set(settings.answers)):
            known = ", ".join(sorted(settings.answers))
            raise CommandError(f'WORKFLOWS["KAFKA"]["ANSWERS"] has no topic {", ".join(unknown)}; it has {known}')
        try:
            intake = Intake(settings, topics=options["topic"], on_ready=self.tell_ready)
        except ImproperlyConfigured as error:
            raise CommandError(str(error)) from error
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: intake.stop())
        self.tell(f"consumer of {', '.join(intake.topics)} in group {settings.group}; SIGTERM or Ctrl-C stops it")
        intake.run()
        taken = intake.taken
        self.tell(f"stopped after {show_count(taken.completed, 'answer')}; {taken.parked} parked")

    def tell_ready(self, partitions: str) -> None:
        """The group has given it what it reads."""
        self.tell(f"consumer reads {partitions}")

    def tell(self, line: str) -> None:
        """A line that is seen at once."""
        self.stdout.write(line)
        self.stdout.flush()
