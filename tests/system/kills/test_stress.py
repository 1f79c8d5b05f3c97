"""The kernel under everything at once, shortly: see `stressed`. `STRESS_SEED=7` repeats the choices of seed 7."""

import os
import random
import subprocess
import sys

import pytest

from tests.support.processes import ROOT, find_environment

#: Whatever it is, there are eight faults, each of which meets work.
SECONDS = float(os.environ.get("STRESS_SECONDS", "8"))


@pytest.mark.django_db(transaction=True)
def test_nothing_is_lost_doubled_failed_or_stuck_while_workers_die_connections_end_and_the_server_restarts():
    seed = int(os.environ.get("STRESS_SEED") or random.SystemRandom().randrange(1_000_000))
    environment = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    environment["STRESS_SOURCE"] = find_environment()["DATABASE_URL"]  # whose tables it copies
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.apps.stressed", str(seed), str(SECONDS)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS + 240,
    )
    print(f"STRESS_SEED={seed}\n{done.stdout}")
    assert done.returncode == 0, f"STRESS_SEED={seed}\n{done.stdout}\n{done.stderr[-4000:]}"
