"""The peer: DBOS Transact in its own virtual environment, driven through pipes.

What lives here: installing it, its two processes (one executes workflows, one sends) and the observer
that reads its tables. `benchmarks/peers/dbos/peer.py` is what runs on the other side.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from config.lifeline import tie_to_parent

HERE = Path(__file__).resolve().parent.parent / "peers" / "dbos"
HOME = HERE.parents[2] / "var" / "benchmarks" / "dbos"
TABLES = "workflow_status, operation_outputs, notifications, workflow_input, workflow_output"
PATIENCE = 300


class PeerMissing(RuntimeError):
    """The peer cannot be installed here; the message says why."""


@dataclass(frozen=True)
class Dbos:
    """Where DBOS is installed, and its database."""

    python: Path
    url: str

    @contextmanager
    def running(self) -> Iterator[RunningDbos]:
        """Start its processes for one measure."""
        executor, client = self._launch("executor"), None
        try:
            read_answer(executor)  # its tables exist now
            client = self._launch("client")
            read_answer(client)
            with psycopg.connect(self.url, autocommit=True) as observer:
                yield RunningDbos(executor, client, observer)
        finally:
            for process in (client, executor):
                if process is not None:
                    process.kill()
                    process.wait()

    def _launch(self, role: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [str(self.python), str(HERE / "peer.py"), role, self.url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            preexec_fn=tie_to_parent(signal.SIGKILL, os.getpid()),
        )


@dataclass
class RunningDbos:
    """Its processes at work."""

    executor: subprocess.Popen[str]
    client: subprocess.Popen[str]
    observer: psycopg.Connection[Any]

    def park(self, count: int) -> list[str]:
        """Start workflows and wait until each has recorded that it waits."""
        self.observer.execute(f"SET search_path = dbos; TRUNCATE {TABLES} CASCADE")
        ids: list[str] = ask(self.executor, do="start", count=count)
        self._wait_for(f"SELECT count(*) = {count} FROM operation_outputs WHERE function_name = 'DBOS.sleep'")
        self.observer.execute("VACUUM ANALYZE")
        return ids

    def finish(self, ids: list[str], *, batch: int) -> tuple[float, float]:
        """Send to each (in calls of `batch`); sent per second, and ended per second."""
        begun = self._read("SELECT extract(epoch FROM clock_timestamp())::float8")
        sending = ask(self.client, do="send", ids=ids, batch=batch)
        self._wait_for("SELECT NOT EXISTS (SELECT FROM workflow_status WHERE status = 'PENDING')")
        [ended, good] = self.observer.execute(
            "SELECT max(completed_at) / 1000.0::float8, count(*) FROM workflow_status WHERE status = 'SUCCESS'"
        ).fetchone()  # type: ignore[misc]
        if good != len(ids):
            every = self.observer.execute("SELECT status, count(*), min(error) FROM workflow_status GROUP BY 1")
            told = [(status, count, explain(error)) for status, count, error in every]
            raise AssertionError(f"{good} of {len(ids)} DBOS workflows ended well: {told}")
        return len(ids) / sending, len(ids) / (ended - begun)

    def time_idle(self, ids: list[str], gaps: list[float]) -> list[float]:
        """Milliseconds from each send to its completion being visible, one at a time."""
        answer: list[float] = ask(self.client, do="idle", ids=ids, gaps=gaps)
        return answer

    def run_functions(self, count: int, calls: int) -> float:
        """Functions per second that save so many results and wait once."""
        rate: float = ask(self.executor, do="functions", count=count, calls=calls)
        return rate

    def _read(self, query: str) -> Any:
        return self.observer.execute(query).fetchone()[0]  # type: ignore[index]

    def _wait_for(self, query: str) -> None:
        until = time.monotonic() + PATIENCE
        while not self._read(query):
            if time.monotonic() > until:
                raise TimeoutError(f"DBOS did not get there in {PATIENCE} s: {query}")
            time.sleep(0.1)


def install_dbos(url: str) -> Dbos:
    """Return the peer, installed on first use and again when its pins change."""
    requirements = HERE / "requirements.txt"
    python, stamp = HOME / "bin" / "python", HOME / "requirements.sha256"
    digest = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()
    if not stamp.exists() or stamp.read_text() != digest:
        run_or_give_up([sys.executable, "-m", "venv", "--clear", str(HOME)])
        run_or_give_up([str(python), "-m", "pip", "install", "--quiet", "--requirement", str(requirements)])
        stamp.write_text(digest)
    return Dbos(python, url)


def list_versions() -> dict[str, str]:
    """Return what the peer is pinned to."""
    lines = (HERE / "requirements.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if "==" in line)
    return {f"peer: {name}": pins[name] for name in ("dbos", "SQLAlchemy", "psycopg")}


def explain(error: str | None) -> str:
    """Return what can be read of an error that DBOS has pickled."""
    readable = re.findall(rb"[ -~]{4,}", base64.b64decode(error or "", validate=False))
    return b" ".join(readable).decode()[:300]


def run_or_give_up(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise PeerMissing(f"DBOS cannot be installed: {last:.120}")


def ask(process: subprocess.Popen[str], **command: Any) -> Any:
    """Send one command and return the answer."""
    assert process.stdin is not None
    process.stdin.write(json.dumps(command) + "\n")
    process.stdin.flush()
    return read_answer(process)


def read_answer(process: subprocess.Popen[str]) -> Any:
    assert process.stdout is not None
    line = process.stdout.readline()
    if not line:
        raise RuntimeError(f"the DBOS process ended with {process.wait()}")
    return json.loads(line)
