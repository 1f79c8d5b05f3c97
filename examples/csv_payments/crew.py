"""The processes of a run: workers, the provider, and what the way to it needs. They end with the command.

Must not live here: what they do. Invariant owned: nothing is started that is not ended, by its own id.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from config.lifeline import tie_to_parent

ROOT = Path(__file__).resolve().parent.parent.parent
START_SECONDS = 60.0
STOP_SECONDS = 20.0


@dataclass
class Member:
    """One process and what it writes."""

    command: list[str]
    log: Path
    process: subprocess.Popen[bytes]


@dataclass
class Crew:
    """Processes of one run, started in the order in which they are needed."""

    #: What they are told beside our own environment.
    environment: dict[str, str] = field(default_factory=dict)
    members: list[Member] = field(default_factory=list)

    def manage(self, *arguments: str, ready: str) -> Member:
        """A command of `manage.py`, once it says that it is ready."""
        return self.start("manage.py", *arguments, ready=ready)

    def start(self, *arguments: str, ready: str) -> Member:
        """A Python program, once it has written `ready`."""
        descriptor, name = tempfile.mkstemp(prefix="csv-payments-", suffix=".log")
        command = [sys.executable, *arguments]
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **self.environment, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            start_new_session=True,
            preexec_fn=tie_to_parent(signal.SIGTERM, os.getpid()),
        )
        os.close(descriptor)
        member = Member(list(arguments), Path(name), process)
        self.members.append(member)
        wait_until(member, lambda: ready in member.log.read_text(errors="replace"))
        return member

    def serve(self, url: str) -> None:
        """The site, unless it is there: partners post their answers to it."""
        place = urlsplit(url)
        if is_open(place.hostname or "", place.port or 80):
            return
        granian = ["granian", "--interface", "wsgi", "--host", "127.0.0.1", "--port", str(place.port), "--no-ws"]
        granian += ["--workers", "1", "--blocking-threads", "8", "--log-level", "error", "config.wsgi:application"]
        member = self.start("-m", *granian, ready="")
        wait_until(member, lambda: is_open(place.hostname or "", place.port or 80))

    def check(self) -> None:
        """Nobody of it has ended before the run; what it wrote, where somebody has."""
        for one in self.members:
            if (code := one.process.poll()) is not None:
                raise RuntimeError(f"{' '.join(one.command)} ended with {code}. It said:\n{read_end(one)}")

    def end(self) -> None:
        """Ask all of them to stop, and then no longer ask."""
        for one in reversed(self.members):
            if one.process.poll() is None:
                one.process.terminate()
        until = time.monotonic() + STOP_SECONDS
        for one in reversed(self.members):
            with contextlib.suppress(subprocess.TimeoutExpired):
                one.process.wait(max(0.0, until - time.monotonic()))
            if one.process.poll() is None:
                one.process.kill()
                one.process.wait()
            one.log.unlink(missing_ok=True)


def wait_until(member: Member, is_so: object) -> None:
    """Until it is ready; what it wrote, where it ends before or takes too long."""
    assert callable(is_so)
    until = time.monotonic() + START_SECONDS
    while not is_so():
        if member.process.poll() is not None or time.monotonic() > until:
            raise RuntimeError(f"{' '.join(member.command)} did not start. It said:\n{read_end(member)}")
        time.sleep(0.05)


def read_end(member: Member) -> str:
    """The last of what it wrote."""
    return member.log.read_text(errors="replace")[-2000:]


def is_open(host: str, port: int) -> bool:
    with contextlib.suppress(OSError), socket.create_connection((host, port), timeout=1):
        return True
    return False


@contextlib.contextmanager
def gather(**environment: str) -> Iterator[Crew]:
    """A crew that ends with the `with` block."""
    crew = Crew(environment)
    try:
        yield crew
    finally:
        crew.end()
