"""Real processes against the test database: qcluster, workflow_worker, a web server.

Lives here: starting and ending them, telling a cluster's processes apart, and waiting. What must not:
assertions about workflows, fixed sleeps. Every process is ended by its own id, and every wait is for
something seen, bounded, and shows the logs when it fails.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit, urlunsplit

import psutil
from django.conf import settings
from django.db import connection

import tests.support.apps.hosted.workflows  # noqa: F401  (the tests start what the processes run)
from config.lifeline import tie_to_parent
from config.ports import find_free_port as find_free_port
from tests.support.prepared_parent import Forked, Parent, find_common
from workflows import store
from workflows.models import Instance
from workflows.store.heartbeats import list_alive

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 90.0
STOP_SECONDS = 15.0

Found = TypeVar("Found")

_running: list[Process] = []
_parents: list[Parent] = []
#: Before any test has changed it.
BEGINNING = dict(os.environ)


class Process:
    """One command, its log and everything it started."""

    def __init__(
        self,
        *arguments: str,
        python: str | Path = sys.executable,
        folder: Path = ROOT,
        environment: Mapping[str, str] | None = None,
        **changes: str,
    ) -> None:
        descriptor, name = tempfile.mkstemp(prefix="holdpoint-test-", suffix=".log")
        self.log = Path(name)
        self.command = arguments
        base = {**os.environ, **find_environment()} if environment is None else environment
        whole = {**base, **changes}
        ours = arguments[0] == "manage.py" or arguments[1].startswith("tests.support.")
        prepared = ours and environment is None and python == sys.executable and folder == ROOT
        parent = find_parent(whole) if prepared else None
        self.popen: subprocess.Popen[bytes] | Forked
        if parent is not None:
            self.popen = parent.fork([*arguments], whole, str(folder), descriptor)
        else:
            self.popen = subprocess.Popen(
                [str(python), *arguments],
                cwd=folder,
                env=whole,
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=tie_to_parent(signal.SIGKILL, os.getpid()),
            )
        os.close(descriptor)
        self.pid = self.popen.pid
        _running.append(self)

    def kill(self, signum: int = signal.SIGKILL) -> None:
        """Signal the main process only, as a supervisor should."""
        self.popen.send_signal(signum)

    def stop(self, seconds: float = STOP_SECONDS) -> tuple[int, float]:
        """Ask it to stop; its exit code and how long it took."""
        asked = time.monotonic()
        self.kill(signal.SIGTERM)
        code = wait_until(self.popen.poll, "the process to stop", seconds=seconds, is_it=lambda code: code is not None)
        return code, time.monotonic() - asked

    def end(self) -> None:
        """Leave nothing of it: its whole session, whoever is the parent by now, and what it started in others."""
        family: list[psutil.Process] = []
        if self.popen.poll() is None:  # else its number may be somebody else's
            with contextlib.suppress(psutil.Error):
                family = psutil.Process(self.pid).children(recursive=True)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.popen.wait()
        for one in family:  # told to end by the kernel, they would work on the next test's rows until they have
            with contextlib.suppress(psutil.Error):
                one.kill()
        psutil.wait_procs(family, timeout=30)
        for one in psutil.process_iter():
            with contextlib.suppress(psutil.Error, ProcessLookupError):
                if os.getsid(one.pid) == self.pid:
                    one.kill()
        if self in _running:
            _running.remove(self)
        self.log.unlink(missing_ok=True)

    def read_log(self) -> str:
        return self.log.read_text(errors="replace")


class Cluster(Process):
    """A qcluster; its parts name themselves in its log."""

    def __init__(self, **environment: str) -> None:
        super().__init__("manage.py", "qcluster", **environment)

    def list_workers(self) -> list[int]:
        return self._list("ready for work at")

    def find_monitor(self) -> int:
        return self._list("monitoring at")[-1]

    def find_pusher(self) -> int:
        return self._list("pushing tasks at")[-1]

    def find_sentinel(self) -> int:
        return psutil.Process(self.pid).children()[0].pid

    def _list(self, words: str) -> list[int]:
        pids = [int(pid) for pid in re.findall(rf"{words} (\d+)", self.read_log())]
        return [pid for pid in pids if is_alive(pid)]


def find_parent(environment: Mapping[str, str]) -> Parent | None:
    """Who has prepared such a process; made for the first, and nobody for one that is unlike the others."""
    common = find_common({**BEGINNING, **find_environment()})
    if find_common(environment) != common:
        return None
    if not _parents:
        _parents.append(Parent(common, tie_to_parent(signal.SIGKILL, os.getpid())))
    return _parents[0] if _parents[0].environment == common else None


def is_alive(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    return False


@contextlib.contextmanager
def running(process: Process) -> Iterator[Any]:
    """End it at the end of a `with` block."""
    try:
        yield process
    finally:
        process.end()


@contextlib.contextmanager
def qcluster(*, workers: int = 2, by_task: bool = True, **environment: str) -> Iterator[Cluster]:
    """A cluster that pumps: in a task, or (where a pump was asked for in vain before) in a watch thread at first."""
    with running(Cluster(WORKERS=str(workers), **environment)) as cluster:
        if by_task:
            wait_for_pump("cluster")
        else:
            wait_until(lambda: list_alive(find_db(), 1.5), "anybody to pump")
        wait_until(lambda: len(cluster.list_workers()) == workers, "all workers")
        yield cluster


@contextlib.contextmanager
def workflow_worker(*options: str, **environment: str) -> Iterator[Process]:
    """A worker process that pumps."""
    with running(Process("manage.py", "workflow_worker", *options, **environment)) as worker:
        wait_until(lambda: "is ready" in worker.read_log(), "the worker")
        wait_for_pump("worker")
        yield worker


def find_environment() -> dict[str, str]:
    """What a process needs to be a site on this test's database."""
    parts = urlsplit(os.environ["DATABASE_URL"])
    return {
        "DATABASE_URL": urlunsplit(parts._replace(path=f"/{connection.settings_dict['NAME']}")),
        "DJANGO_SETTINGS_MODULE": "tests.support.apps.hosted.settings",
        "SECRET_KEY": settings.SECRET_KEY,
        "DEBUG": "1",
        "PYTHONUNBUFFERED": "1",
    }


def wait_until(
    look: Callable[[], Found], what: str, *, seconds: float = PATIENCE, is_it: Callable[[Found], Any] = bool
) -> Found:
    """Look until it is so; what was seen."""
    until = time.monotonic() + seconds
    while not is_it(found := look()):
        assert time.monotonic() < until, describe_failure(f"waited {seconds:g} s for {what}; saw {found!r:.200}")
        time.sleep(0.02)
    return found


def wait_for_pump(kind: str) -> None:
    """Somebody of this kind pumps, now."""
    wait_until(lambda: [one for one in list_alive(find_db(), 1.5) if one[1] == kind], f"a {kind} to pump")


def wait_for_status(instance: Instance, *statuses: str, seconds: float = PATIENCE) -> Instance:
    """The instance as it is once it has one of these statuses."""

    def look() -> Instance:
        instance.refresh_from_db()
        return instance

    return wait_until(look, f"{instance} to be {statuses}", seconds=seconds, is_it=lambda one: one.status in statuses)


def find_db() -> Any:
    """The test's own connection."""
    from django.db import connections

    return connections["default"]


def read_pump_kinds() -> set[str]:
    return {kind for kind, _ in store.read_state(find_db(), 2.0).pumps}


def describe_failure(problem: str) -> str:
    logs = [f"--- {' '.join(one.command)} ({one.pid})\n{one.read_log()[-6000:]}" for one in _running]
    return "\n".join([problem, *logs])


def read_runs(file: Path) -> list[int]:
    """The processes that ran a HostedSlow, one per run."""
    return [int(line) for line in file.read_text().split()] if file.exists() else []


def wait_for_run(file: Path, runs: int = 1) -> int:
    return wait_until(lambda: read_runs(file), "a step to begin", is_it=lambda found: len(found) >= runs)[-1]


def run_python(script: str) -> str:
    ran = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, check=False, env={}
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()
