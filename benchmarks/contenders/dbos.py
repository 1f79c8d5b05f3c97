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
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from benchmarks.contenders.observer import Observer
from benchmarks.contenders.pipes import Piped, run_piped, share_out
from config.lifeline import tie_to_parent

HERE = Path(__file__).resolve().parent.parent / "peers" / "dbos"
HOME = HERE.parents[2] / "var" / "benchmarks" / "dbos"
TABLES = "workflow_status, operation_outputs, notifications, workflow_input, workflow_output"


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
                yield RunningDbos(executor, client, Observer(observer, "DBOS"))
        finally:
            for process in (client, executor):
                if process is not None:
                    process.kill()
                    process.wait()

    @contextmanager
    def queueing(self, callers: int, threads: int) -> Iterator[QueueingDbos]:
        """Start one process that works off a queue, and processes that put workflows into it."""
        run = [str(self.python), str(HERE / "peer.py")]
        with (
            run_piped([*run, "executor", self.url]),
            run_piped(*[[*run, "client", self.url]] * callers) as clients,
            psycopg.connect(self.url, autocommit=True) as observer,
        ):
            observer.execute("SET search_path = dbos")
            yield QueueingDbos(clients, threads, Observer(observer, "DBOS"))

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
    observer: Observer

    def park(self, count: int) -> list[str]:
        """Start workflows and wait until each has recorded that it waits."""
        self.observer.execute(f"SET search_path = dbos; TRUNCATE {TABLES} CASCADE")
        ids: list[str] = ask(self.executor, do="start", count=count)
        self.observer.wait_for(f"SELECT count(*) = {count} FROM operation_outputs WHERE function_name = 'DBOS.sleep'")
        self.observer.execute("VACUUM ANALYZE")
        return ids

    def finish(self, ids: list[str], *, batch: int) -> tuple[float, float]:
        """Send to each (in calls of `batch`); sent per second, and ended per second."""
        begun = self.observer.read_clock()
        sending = ask(self.client, do="send", ids=ids, batch=batch)
        self.observer.wait_for("SELECT NOT EXISTS (SELECT FROM workflow_status WHERE status = 'PENDING')")
        [(ended, good)] = self.observer.execute(
            "SELECT max(completed_at) / 1000.0::float8, count(*) FROM workflow_status WHERE status = 'SUCCESS'"
        ).fetchall()
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


@dataclass
class QueueingDbos:
    """Its queue at work."""

    callers: list[Piped]
    threads: int
    observer: Observer

    def run(self, count: int) -> float:
        """Workflows of one step per second, from just before the first is put into the queue to the end of the last."""
        self.observer.execute(f"TRUNCATE {TABLES} CASCADE")
        begun = self.observer.read_clock()
        share_out(self.callers, count, do="enqueue", threads=self.threads)
        self.observer.wait_for(f"SELECT count(*) >= {count} FROM workflow_status WHERE status = 'SUCCESS'")
        return count / (self.observer.read("SELECT max(completed_at) / 1000.0::float8 FROM workflow_status") - begun)


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
