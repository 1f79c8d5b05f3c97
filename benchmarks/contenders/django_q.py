"""The peer that is a task queue: django-q2 with its ORM broker, as a Django project would run it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

from benchmarks.contenders.observer import Observer
from benchmarks.contenders.pipes import ROOT, Piped, run_piped, share_out

PEER = str(Path(__file__).resolve().parent.parent / "peers" / "django_q" / "peer.py")


@dataclass(frozen=True)
class DjangoQ:
    """Its database."""

    url: str

    @contextmanager
    def running(self, callers: int, threads: int) -> Iterator[RunningDjangoQ]:
        """Start a cluster, and processes that call `async_task`."""
        run = [sys.executable, PEER]
        subprocess.run([*run, "manage", self.url, "migrate", "-v0"], cwd=ROOT, check=True)
        cluster = Cluster([*run, "manage", self.url, "qcluster"])
        with ExitStack() as stack:
            stack.callback(cluster.end)
            clients = stack.enter_context(run_piped(*[[*run, "client", self.url]] * callers))
            observer = stack.enter_context(psycopg.connect(self.url, autocommit=True))
            yield RunningDjangoQ(clients, threads, Observer(observer, "django-q2"))


class Cluster:
    """A qcluster, whose processes end with it."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )

    def end(self) -> None:
        self._process.terminate()  # it ends its own processes
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@dataclass
class RunningDjangoQ:
    """Its processes at work."""

    callers: list[Piped]
    threads: int
    observer: Observer

    def run(self, count: int) -> float:
        """Tasks per second from just before the first call to the end of the last, as its row says."""
        self.observer.execute("TRUNCATE django_q_task, django_q_ormq")
        begun = self.observer.read_clock()
        share_out(self.callers, count, threads=self.threads)
        self.observer.wait_for(f"SELECT count(*) >= {count} FROM django_q_task WHERE success")
        return count / (
            self.observer.read("SELECT extract(epoch FROM max(stopped))::float8 FROM django_q_task") - begun
        )
