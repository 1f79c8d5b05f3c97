"""A file of payments over a real broker, with everything killed in the middle of it.

`python -m tests.support.csv_payments.kills --records 10000 --seed 7 --rounds 3`.
Servers of its own are started: PostgreSQL (durable, as a crash is to be survived), Kafka, two workers, the provider and
two consumers of answers. When so many
payments are through, the next of them is ended by `kill -9` and started again. At the end a checker reads the report
and the tables. Exit code 1 tells what is wrong; the seed repeats the order of the faults, not the moments.
"""

from __future__ import annotations

import argparse
import csv
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from config.kafka import temporary_broker
from config.kafka.broker import Broker
from config.lifeline import tie_to_parent
from config.postgres import Server, temporary_server
from config.postgres.server import launch

#: A run that gets nowhere for so long is over.
STUCK_SECONDS = 240.0
LOOK_EVERY = 0.1
SMALL = 1_000
#: How many files are paid, at most, until all that should be killed was killed.
MOST_FILES = 5
VICTIMS = ("PostgreSQL", "broker", "consumer", "provider", "worker")


class Program:
    """One process that may be killed, and is started again."""

    def __init__(self, name: str, log: Path, *command: str) -> None:
        self.name, self.command = name, command
        self.log = log.open("ab")
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, *self.command],
            stdin=subprocess.DEVNULL,
            stdout=self.log,
            stderr=self.log,
            preexec_fn=tie_to_parent(signal.SIGKILL, os.getpid()),
        )

    def replace(self) -> None:
        """What a power cut does to it, and a supervisor afterwards."""
        self.process.kill()
        self.process.wait(30)
        self.process = self._start()

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.log.close()


def replace_server(server: Server) -> None:
    assert server.process is not None
    server.process.kill()
    server.process.wait(30)
    server.process = launch(server.home, durable=True, detached=False, deadline=time.monotonic() + 120)


def replace_broker(broker: Broker) -> None:
    broker.kill()
    broker.launch()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.support.csv_payments.kills")
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--rounds", type=int, default=3, help="how often each of the five is killed")
    parser.add_argument("--order", default="", help="kill these and in this order, as `broker,consumer`")
    given = parser.parse_args()
    order = [name for name in given.order.split(",") if name]
    if unknown := set(order) - set(VICTIMS):
        parser.error(f"--order knows {', '.join(VICTIMS)}, and not {', '.join(sorted(unknown))}")
    print(f"{given.records} records, seed {given.seed}, {given.rounds} rounds", flush=True)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="holdpoint-killing-")))
        server = stack.enter_context(temporary_server(durable=True))
        broker = stack.enter_context(temporary_broker())
        os.environ |= {
            "DATABASE_URL": server.url,
            "DJANGO_SETTINGS_MODULE": "config.settings",
            "SECRET_KEY": "killing-" * 8,
            "DEBUG": "1",
            "KAFKA_BOOTSTRAP": broker.bootstrap,
            # A small file would be through before anybody is killed.
            "CSV_PAYMENTS_SECONDS": "0.05" if given.records > SMALL else "12",
        }
        import django

        django.setup()
        from django.core.management import call_command

        from examples.csv_payments.channels import find_topic
        from examples.csv_payments.topics import make_topics

        call_command("migrate", verbosity=0)
        make_topics(broker.bootstrap)
        log = folder / "log"
        provider = ("-m", "examples.csv_payments.partners", "kafka", broker.bootstrap, find_topic())
        programs = [
            Program("worker 1", log, "manage.py", "workflow_worker"),
            Program("worker 2", log, "manage.py", "workflow_worker"),
            Program("provider", log, *provider),
            Program("consumer 1", log, "manage.py", "workflow_kafka"),
            Program("consumer 2", log, "manage.py", "workflow_kafka"),
        ]
        rng = random.Random(given.seed)
        workers, consumers = programs[:2], programs[3:]
        victims: dict[str, Callable[[], None]] = {
            "worker": lambda: rng.choice(workers).replace(),
            "provider": programs[2].replace,
            "consumer": lambda: rng.choice(consumers).replace(),
            "broker": lambda: replace_broker(broker),
            "PostgreSQL": lambda: replace_server(server),
        }
        faults = order or [name for _ in range(given.rounds) for name in rng.sample(VICTIMS, len(VICTIMS))]
        try:
            wrong = run(folder / "payments.csv", given.records, victims, faults)
        finally:
            for one in programs:
                one.stop()
        if wrong:
            print(log.read_text(errors="replace")[-20_000:])
            # Last, as often only the end of a long output is kept.
            for one in wrong:
                print(f"seed {given.seed}: {one}")
        else:
            print(f"every one of {given.records} records is in the report exactly once", flush=True)
        return bool(wrong)


def run(file: Path, records: int, victims: dict[str, Callable[[], None]], faults: list[str]) -> list[str]:
    """Pay files until all these were killed; what is wrong with any of them.

    Nearly always one file is enough. After the broker was away its answers come all at once, and a file may end before
    what is left could be killed: then the next one meets the rest.
    """
    for number in range(MOST_FILES):
        wrong = pay(file.with_stem(f"{file.stem}{number or ''}"), records, victims, faults)
        if wrong or not faults:
            return wrong
    return [f"{MOST_FILES} files ended before these were killed: {', '.join(faults)}"]


def pay(file: Path, records: int, victims: dict[str, Callable[[], None]], faults: list[str]) -> list[str]:
    """Pay the file, with the faults spread over its payments, and take those away that were done; what is wrong."""
    import workflows
    from examples.csv_payments.machine import PayFile
    from examples.csv_payments.records import write_file

    write_file(file, records)
    # The first when the first payment is through, the last long before the last one is.
    moments = [1 + 3 * (records - 1) * place // (4 * len(faults)) for place in range(len(faults))]
    began = time.monotonic()
    instance = retrying(lambda: workflows.start(PayFile, {"path": str(file), "via": "kafka"}))
    advanced, before = began, -1
    while True:
        through, status = retrying(lambda: look(instance))
        if through != before:
            advanced, before = time.monotonic(), through
        if status in ("done", "failed", "cancelled"):
            break
        if faults and through >= moments[0]:
            moments.pop(0)
            name = faults.pop(0)
            print(f"{time.monotonic() - began:6.1f} s: {through} are through, kill -9 of {name}", flush=True)
            victims[name]()
            advanced = time.monotonic()
        if time.monotonic() - advanced > STUCK_SECONDS:
            return [f"stuck at {through} of {records} for {STUCK_SECONDS:.0f} s", *retrying(lambda: describe(instance))]
        time.sleep(LOOK_EVERY)
    took = time.monotonic() - began
    print(f"{took:6.1f} s: the run is {status}, {records / took:.1f} records/s", flush=True)
    wrong: list[str] = retrying(lambda: list(check(file, instance)))
    return wrong


def retrying(work: Callable[[], Any]) -> Any:
    """The server may be gone just now: it was killed a moment ago."""
    from django.db import DatabaseError, InterfaceError, connection

    until = time.monotonic() + 60
    while True:
        try:
            return work()
        except (DatabaseError, InterfaceError):
            connection.close()
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def look(instance: Any) -> tuple[int, str]:
    """How many payments are through, and how the instance stands."""
    from workflows.models import AwaitUnit

    instance.refresh_from_db()
    unit = AwaitUnit.objects.filter(instance=instance, items=True).values_list("total", "remaining").first()
    return (0 if unit is None else unit[0] - unit[1]), str(instance.status)


def describe(instance: Any) -> list[str]:
    """Where everything stands, of a run that gets nowhere."""
    from django.db.models import Count

    from workflows.models import AwaitUnit, Instance, Interaction

    lines = [str(one) for one in AwaitUnit.objects.filter(instance=instance).values()]
    questions = Interaction.objects.filter(instance=instance)
    lines += [str(one) for one in questions.values("status", "queued", "dispatch_error").annotate(n=Count("id"))]
    return lines + [str(one) for one in Instance.objects.values("workflow", "status", "step").annotate(n=Count("id"))]


def check(file: Path, instance: Any) -> Iterator[str]:
    """What is wrong: of the report, of what was booked, and of the rows."""
    from examples.csv_payments.provider import decide
    from examples.csv_payments.records import find_report, read_file
    from examples.models import BookedPayment
    from workflows.models import AwaitUnit, Instance, Interaction, LedgerEvent, Signal

    instance.refresh_from_db()
    if instance.status != "done":
        yield f"the run {instance.status}: {instance.error}"
        return
    payments = list(read_file(file))
    with find_report(file).open(newline="") as lines:
        report = list(csv.DictReader(lines))
    if [line["reference"] for line in report] != [one["reference"] for one in payments]:
        times = Counter(line["reference"] for line in report)
        missing = [one["reference"] for one in payments if not times[one["reference"]]]
        yield f"the report misses {missing[:5]}, doubles {[name for name, n in times.items() if n > 1][:5]}"
    if [line["status"] for line in report] != [decide(one)["status"] for one in payments]:
        yield "the report says something else than the provider did"
    booked = Counter(BookedPayment.objects.filter(file=str(file)).values_list("reference", flat=True))
    if booked != Counter(one["reference"] for one in payments):
        yield f"{len(payments)} payments, {booked.total()} booked"
    unit = AwaitUnit.objects.get(instance=instance, items=True)
    if (unit.status, unit.remaining, unit.queued, unit.answered) != ("completed", 0, 0, len(payments)):
        yield f"the unit: {unit.status}, {unit.remaining} remaining, {unit.queued} queued, {unit.answered} answered"
    statuses = Counter(Interaction.objects.filter(unit=unit).values_list("status", flat=True))
    if statuses != {"completed": len(payments)}:
        yield f"the questions: {dict(statuses)}"
    told = Counter(LedgerEvent.objects.filter(instance=unit.pk).values_list("kind", flat=True))
    if told["await_unit_item_completed"] != len(payments):
        yield f"the history: {dict(told)}"
    if Signal.objects.filter(instance=instance).count() != 1:
        yield f"{Signal.objects.filter(instance=instance).count()} signals released the instance, and not one"
    left = Counter(Instance.objects.exclude(status="done").values_list("status", flat=True))
    if left:
        yield f"instances that have not ended well: {dict(left)}"


if __name__ == "__main__":
    sys.exit(main())
