"""`manage.py csv_payments`: pays a file of so many records, and shows how far it is."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

import workflows
from examples.csv_payments.channels import VIA, find_address, find_topic
from examples.csv_payments.crew import Crew, gather
from examples.csv_payments.machine import PayFile
from examples.csv_payments.records import find_report, make_file
from examples.csv_payments.topics import make_topics
from workflows.conf import conf
from workflows.models import Instance, Workspace
from workflows.units.unit_counts import find_progress

LOOK_EVERY = 0.2
WIDTH = 40


class Command(BaseCommand):
    """Starts the workers and the provider that it needs, and ends them."""

    help = (
        "Pays a file of records through a provider that rejects some, is slow with some and says some things twice. "
        "For Kafka run `make kafka` beside it, and set KAFKA_BOOTSTRAP."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        """How many, and which way."""
        parser.add_argument("--records", type=int, default=1000)
        parser.add_argument("--via", choices=VIA, default="inprocess")
        parser.add_argument("--workers", type=int, default=1, help="workers to start; 0 where a site runs already")

    def handle(self, *args: Any, **options: Any) -> None:
        """Write the file, start the run, look on."""
        records, via = options["records"], options["via"]
        most = conf.most_inputs
        if not 0 <= records <= most:
            raise CommandError(f"--records is a number from 0 to {most} (AWAIT_AGGREGATE_MAX_INPUT_ITEMS)")
        try:
            Workspace.objects.exists()
        except DatabaseError as error:
            raise CommandError(
                f"The database cannot be used: {str(error).splitlines()[0]}. Run `make run` beside this, or set "
                "DATABASE_URL to a PostgreSQL of yours and run `manage.py migrate`."
            ) from error
        file = make_file(Path(settings.BASE_DIR) / "var" / "csv_payments", via, records)
        self.stdout.write(f"{records} payments are in {file}")
        with gather() as crew:
            self.prepare(crew, via)
            for _ in range(options["workers"]):
                crew.manage("workflow_worker", ready="is ready")
            began = time.monotonic()
            instance = workflows.start(PayFile, {"path": str(file), "via": via}, actor="csv_payments")
            self.stdout.write(f"instance {instance.pk}")
            self.follow(instance, crew)
            took = time.monotonic() - began
        if instance.status != "done":
            raise CommandError(f"the run {instance.status}: {instance.error}")
        self.stdout.write(f"{instance.result}")
        self.stdout.write(f"{records} records in {took:.1f} s, {records / took:.1f} records/s by {via}")
        self.stdout.write(f"the report is in {find_report(file)}")

    def prepare(self, crew: Crew, via: str) -> None:
        """The provider, and how its answers come back."""
        if via == "kafka":
            bootstrap = os.environ.get("KAFKA_BOOTSTRAP")
            if not bootstrap or conf.kafka is None:
                raise CommandError("Run `make kafka` beside this, and set KAFKA_BOOTSTRAP to the address that it says.")
            make_topics(bootstrap)
            crew.start("-m", "examples.csv_payments.partners", "kafka", bootstrap, find_topic(), ready="reads")
            crew.manage("workflow_kafka", ready="consumer reads")
        elif via == "webhook":
            crew.environment["CSV_PAYMENTS_SECRET"] = conf.webhook_secrets["default"][0]
            port = find_address().rsplit(":", 1)[-1].partition("/")[0]
            crew.start("-m", "examples.csv_payments.partners", "webhook", port, ready="takes payments")
            crew.serve(conf.base_url)

    def follow(self, instance: Instance, crew: Crew) -> None:
        """Show how far it is until it has ended: over the same line on a terminal, else each tenth."""
        shown = -1
        while True:
            instance.refresh_from_db()
            said, _ = find_progress(instance) or (None, None)
            if said is not None and said["total"]:
                part = int(WIDTH * said["done"] / said["total"])
                line = f"[{'#' * part:{WIDTH}}] {said['done']} of {said['total']}"
                if self.stdout.isatty():
                    self.stdout.write(f"\r{line}", ending="")
                elif part // 4 > shown or instance.ended:
                    shown = part // 4
                    self.stdout.write(line)
            if instance.ended:
                if self.stdout.isatty():
                    self.stdout.write("")
                return
            try:
                crew.check()
            except RuntimeError as error:
                raise CommandError(f"instance {instance.pk} waits, but {error}") from error
            time.sleep(LOOK_EVERY)
