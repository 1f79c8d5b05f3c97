"""Ending a process of a test: nothing of it goes on, on whatever rows the next test makes."""

from __future__ import annotations

import pytest

from tests.support.processes import Process, is_alive, running, wait_until

pytestmark = pytest.mark.process

STARTS_ONE_IN_A_SESSION_OF_ITS_OWN = """
import subprocess, sys, time
deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
waits = deaf + "print('waits', flush=True); time.sleep(600)"
other = subprocess.Popen([sys.executable, "-c", waits], start_new_session=True)
print("other", other.pid, flush=True)
time.sleep(600)
"""


@pytest.mark.django_db(transaction=True)
def test_what_a_process_started_in_a_session_of_its_own_ends_with_it() -> None:
    with running(Process("-c", STARTS_ONE_IN_A_SESSION_OF_ITS_OWN)) as process:
        log = wait_until(process.read_log, "the other one", is_it=lambda log: "waits" in log and "other" in log)
        other = int(log.partition("other ")[2].split()[0])
        assert is_alive(other)
    assert not is_alive(other)
