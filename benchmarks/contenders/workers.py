"""Worker processes, started as a project would start them, and ended by the block that needed them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.contenders.holdpoint import Holdpoint
from config.lifeline import tie_to_parent

ROOT = Path(__file__).resolve().parents[2]
WORKER = ["manage.py", "workflow_worker"]
#: django-q forks; the site's own wrapper sees to it that no fork outlives its main process.
QCLUSTER = ["-m", "config.child", "django", "qcluster"]
START_SECONDS = 60
STOP_SECONDS = 15


@contextmanager
def run_workers(holdpoint: Holdpoint, count: int = 1) -> Iterator[None]:
    """Run worker processes, from when all of them listen."""
    with run_processes(holdpoint, [WORKER] * count, f"count(*) FILTER (WHERE idle) >= {count}"):
        yield


@contextmanager
def run_qcluster(holdpoint: Holdpoint) -> Iterator[None]:
    """Run a django-q cluster and nothing else, from when its pump listens."""
    with run_processes(holdpoint, [QCLUSTER], "count(*) FILTER (WHERE idle) >= 1"):
        yield


@contextmanager
def run_processes(holdpoint: Holdpoint, commands: list[list[str]], ready: str) -> Iterator[None]:
    holdpoint.read("WITH gone AS (DELETE FROM holdpoint_worker RETURNING 1) SELECT count(*) FROM gone")
    processes = [
        subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            preexec_fn=tie_to_parent(signal.SIGKILL, os.getpid()),
        )
        for command in commands
    ]
    try:
        until = time.monotonic() + START_SECONDS
        while not holdpoint.read(f"SELECT {ready} FROM holdpoint_worker"):
            if any(process.poll() is not None for process in processes):
                raise RuntimeError("a worker process ended while starting; its message is above")
            if time.monotonic() > until:
                raise TimeoutError(f"no worker was ready within {START_SECONDS} s")
            time.sleep(0.05)
        yield
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
