"""Everything is killed in the middle of a payment file: see `kills`, which runs larger ones by hand.

`KILLED_RECORDS=10000 KILLED_ROUNDS=3 KILLED_SEED=7` repeats a run, but for its moments.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest

from tests.support.kafka_plugin import explain_absence
from tests.support.processes import ROOT

pytestmark = [pytest.mark.kafka, pytest.mark.process, pytest.mark.kill, pytest.mark.slow]

RECORDS = int(os.environ.get("KILLED_RECORDS", "200"))
ROUNDS = int(os.environ.get("KILLED_ROUNDS", "1"))


def test_every_record_is_in_the_report_once_though_worker_provider_consumer_broker_and_postgresql_are_killed() -> None:
    # The broker is killed as well, so one of the run's own is started, and none that others use.
    if missing := explain_absence():
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail(f"CI skips no test: {missing}")
        pytest.skip(missing)
    seed = int(os.environ.get("KILLED_SEED") or random.SystemRandom().randrange(1_000_000))
    environment = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "KAFKA_BOOTSTRAP")}
    command = ["-m", "tests.support.csv_payments.kills", "--records", str(RECORDS), "--rounds", str(ROUNDS)]
    done = subprocess.run(
        [sys.executable, *command, "--seed", str(seed)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    print(f"KILLED_SEED={seed}\n{done.stdout}")
    assert done.returncode == 0, f"KILLED_SEED={seed}\n{done.stdout}\n{done.stderr[-4000:]}"
