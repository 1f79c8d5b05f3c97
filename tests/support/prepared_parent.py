"""A process that has imported the project, and forks the others that tests start.

Lives here: both ends of it. What must not: what is started (`tests.support.processes`).
To start Python, Django and the project takes more than a second of a processor; of some hundred starts in a run each
does the same until the settings are read. A fork does what follows: the command with its checks, in an environment of
its own.
Invariants: a child is a process of its own, with its own session, that ends however it likes and may be killed; it and
the parent end with the test run; the parent has one thread and no connection. What differs in more than `OWN` is
started the ordinary way.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
#: What two processes of one parent may have of their own: `adopt` reads it again, or nobody has read it yet.
OWN = {"DATABASE_URL", "WORKERS", "RABBITMQ_URL"}
#: Nobody's: the parent connects to no database.
NOWHERE = "postgresql://nobody@127.0.0.1:1/nowhere"
CHUNK = 1 << 20


# --- the test's end ---------------------------------------------------------------------------------------


class Forked:
    """What a test knows of a forked process: as of a `subprocess.Popen`."""

    def __init__(self, pid: int, told: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._told = told

    def poll(self) -> int | None:
        return self._read(0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._read(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return code

    def send_signal(self, signum: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, signum)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def _read(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._told], [], [], timeout)[0]:
            status = os.read(self._told, 20)
            os.close(self._told)
            # Nothing: the parent has ended, and with it whatever it forked.
            self.returncode = os.waitstatus_to_exitcode(int(status)) if status else -signal.SIGKILL
        return self.returncode


class Parent:
    """A parent for all processes of one environment."""

    def __init__(self, environment: Mapping[str, str], tie: Any) -> None:
        self.environment = find_common(environment)
        self._line, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with far:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.prepared_parent", str(far.fileno())],
                cwd=ROOT,
                env={**environment, "DATABASE_URL": NOWHERE},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[far.fileno()],
                start_new_session=True,
                preexec_fn=tie,
            )
        atexit.register(self.end)

    def end(self) -> None:
        self._line.close()
        self._process.wait()

    def fork(self, arguments: list[str], environment: Mapping[str, str], folder: str, output: int) -> Forked:
        end, tell = os.pipe()
        try:
            wish = json.dumps([arguments, dict(environment), folder]).encode()
            socket.send_fds(self._line, [b"%08d" % len(wish)], [output, tell])
            self._line.sendall(wish)
            return Forked(int(self._line.recv(20)), end)
        finally:
            os.close(tell)


def find_common(environment: Mapping[str, str]) -> dict[str, str]:
    """What all processes of a parent have in common; pytest tells which test runs."""
    return {name: value for name, value in environment.items() if name not in OWN and not name.startswith("PYTEST_")}


# --- the parent's end ---------------------------------------------------------------------------------------


def prepare() -> None:
    import django

    django.setup()
    from django.core.management import get_commands, load_command_class
    from django.urls import get_resolver

    get_resolver().reverse_dict  # noqa: B018  (the checks of a command import every page)
    for name in ("qcluster", "workflow_worker"):
        load_command_class(get_commands()[name], name)
    gc.collect()
    gc.freeze()
    assert threading.active_count() == 1


def serve(line: socket.socket) -> list[str]:
    """Fork whenever a test asks for it; return in a child, with its command."""
    from config.lifeline import tie_to_parent

    tie = tie_to_parent(signal.SIGKILL, os.getpid())
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, int] = {}
    while True:
        if woken in select.select([line, woken], [], [])[0]:
            os.read(woken, 512)
            while running and (ended := os.waitpid(-1, os.WNOHANG))[0]:
                tell = running.pop(ended[0])
                os.write(tell, str(ended[1]).encode())
                os.close(tell)
            continue
        size, fds, _, _ = socket.recv_fds(line, 8, 2)
        if not size:
            os._exit(0)
        wish = b""
        while len(wish) < int(size):
            wish += line.recv(min(CHUNK, int(size) - len(wish)))
        arguments, environment, folder = json.loads(wish)
        output, tell = fds
        if pid := os.fork():
            running[pid] = tell
            os.close(output)
            line.sendall(str(pid).encode())
            continue
        tie()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for one in (woken, wake, tell, *running.values()):
            os.close(one)
        line.close()
        os.setsid()
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.close(output)
        os.chdir(folder)
        adopt(environment)
        return list(arguments)


def adopt(environment: dict[str, str]) -> None:
    """Be as if this process had been started with it."""
    from django.conf import settings
    from django_q.conf import Conf

    from config.environment import parse_database_url, read_number

    os.environ.clear()
    os.environ.update(environment)
    database = parse_database_url(os.environ["DATABASE_URL"])
    database["OPTIONS"] = {**settings.DATABASES["default"]["OPTIONS"], **database["OPTIONS"]}
    settings.DATABASES["default"].update(database)
    settings.Q_CLUSTER["workers"] = Conf.WORKERS = read_number("WORKERS", default=2)


if __name__ == "__main__":
    prepare()
    command = serve(socket.socket(fileno=int(sys.argv[1])))
    if command[0] == "-m":
        sys.argv[:] = command[1:]
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv[:] = command
        runpy.run_path(command[0], run_name="__main__")
