"""The example of a payment file, with a provider that rejects, is slow and repeats itself: records per second.

The command itself is run, with one worker, its provider and whatever else it starts. From the start of the instance to
its end; the report is checked by the tests.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import partial

from benchmarks.contenders.workers import ROOT
from benchmarks.plan import Plan
from benchmarks.table import Row, times_at_least
from config.kafka import KafkaError, temporary_broker
from config.ports import find_free_port

RECORDS = (1_000,)
FULL = (1_000, 10_000)
#: What The Pipeline Framework publishes for its own example of this: records per second, of a thousand. Its ten
#: thousand missed a deadline of 180 s.
PUBLISHED = 58.7
WAYS = {"inprocess": "within the process", "webhook": "by webhook", "kafka": "over Kafka"}


def measure_payments(plan: Plan) -> Iterable[Row]:
    """1,000 records by each way, and with --full 10,000."""
    with ExitStack() as stack:
        missing, bootstrap = "", ""
        try:
            bootstrap = stack.enter_context(temporary_broker()).bootstrap
        except KafkaError as error:
            missing = str(error)
        for records in FULL if plan.full else RECORDS:
            contenders: dict[str, Callable[[], float]] = {
                way: partial(pay, plan.url, way, records, bootstrap) for way in WAYS if way != "kafka" or bootstrap
            }
            rates = plan.interleave(contenders, "records/s")
            for way, words in WAYS.items():
                mine = rates.get(way, ())
                title = f"A file of {records:,} payments, {words}"
                others = (PUBLISHED,) * len(mine)
                yield Row(title, "records/s", mine, "TPF, published", others, (times_at_least(1),), missing)


def pay(url: str, way: str, records: int, bootstrap: str) -> float:
    """Run the command once; records per second, as it says."""
    mark = uuid.uuid4().hex[:8]
    environment = os.environ | {
        "DATABASE_URL": url,
        "DJANGO_SETTINGS_MODULE": "config.settings",
        "DEBUG": "1",
        "PORT": str(find_free_port()),
        "CSV_PAYMENTS_ADDRESS": f"http://127.0.0.1:{find_free_port()}/payments",
        "CSV_PAYMENTS_TOPIC": f"requests.{mark}",
        "CSV_PAYMENTS_ANSWERS": f"answers.{mark}",
        "KAFKA_BOOTSTRAP": bootstrap,
        "KAFKA_GROUP": f"bench-{mark}",
    }
    command = [sys.executable, "manage.py", "csv_payments", "--records", str(records), "--via", way]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    found = re.search(r"([\d.]+) records/s", done.stdout)
    if done.returncode or found is None:
        raise RuntimeError(f"csv_payments by {way} ended with {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
    return float(found[1])
