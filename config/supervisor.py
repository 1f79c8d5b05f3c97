"""Keeps a few programs running as one tree, and ends them as one.

What lives here: starting, watching, restarting with back-off, prefixing output, stopping in
bounded time. What must not: which programs these are (`run`).
Invariants: a stop signals only the main process of each child, because django-q's deadlocks when
its whole group is signalled; whatever is left of a child's group when its main process has ended
is killed; nothing here starts a thread, because children tied to a thread die with it.
"""

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from types import FrameType
from typing import IO

from config.lifeline import tie_to_parent

STOP_SECONDS = 10
CALM_SECONDS = 30  # a child that ran this long starts with a fresh back-off
LONGEST_PAUSE = 10


def say(name: str, line: str) -> None:
    with contextlib.suppress(OSError):  # the reader of our output may have left; stopping must go on
        print(f"{name:>8} | {line}", flush=True)


@dataclass
class Child:
    """One program: its command, its process and when it may start again."""

    name: str
    command: list[str]
    environment: dict[str, str]
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    pause: float = 0.0
    due: float = 0.0

    def launch(self) -> IO[bytes]:
        """Start in a session of its own, so that a Ctrl-C in the terminal reaches only us."""
        self.process = subprocess.Popen(
            self.command,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=tie_to_parent(signal.SIGKILL, os.getpid()),
        )
        self.started = time.monotonic()
        assert self.process.stdout is not None
        os.set_blocking(self.process.stdout.fileno(), False)
        return self.process.stdout

    def signal_main(self, signum: int) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signum)

    def kill_group(self) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None


@dataclass
class Supervisor:
    """Runs children until a signal asks it to stop. `tick` is called between looks."""

    stopping: bool = False
    children: list[Child] = field(default_factory=list)
    selector: selectors.BaseSelector = field(default_factory=selectors.DefaultSelector)

    def listen_for_signals(self) -> None:
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(signum, self.request_stop)

    def request_stop(self, _signum: int, _frame: FrameType | None) -> None:
        if self.stopping:  # asked twice: somebody is in a hurry
            for child in self.children:
                child.kill_group()
        self.stopping = True

    def run_once(self, child: Child) -> bool:
        """Run a command to its end, and say whether it succeeded."""
        self.children.append(child)
        self.begin(child)
        while child.is_running() and not self.stopping:
            self.relay_output(0.1)
        if self.stopping:
            child.signal_main(signal.SIGTERM)
            self.wait_for_end(STOP_SECONDS)
        child.kill_group()
        self.relay_output(0)
        self.children.remove(child)
        return not self.stopping and child.process is not None and child.process.returncode == 0

    def run_all(self, children: list[Child], tick: Callable[[], None]) -> None:
        """Keep the children running until asked to stop."""
        self.children.extend(children)
        while not self.stopping:
            for child in self.children:
                self.keep_running(child)
            self.relay_output(0.2)
            tick()

    def keep_running(self, child: Child) -> None:
        if child.is_running():
            return
        now = time.monotonic()
        if child.process is not None:
            returncode = child.process.returncode
            child.kill_group()  # its workers, if it was killed over their heads
            child.process = None
            child.pause = 0.5 if now - child.started > CALM_SECONDS else min(LONGEST_PAUSE, 2 * child.pause or 0.5)
            child.due = now + child.pause
            how = signal.Signals(-returncode).name if returncode < 0 else f"exit code {returncode}"
            say("run", f"{child.name} ended ({how}); starting it again in {child.pause:g} s")
        elif now >= child.due:
            self.begin(child)

    def begin(self, child: Child) -> None:
        self.selector.register(child.launch(), selectors.EVENT_READ, (child.name, bytearray()))

    def relay_output(self, timeout: float) -> None:
        """Print whole lines as they come, each with the name of its process."""
        if not self.selector.get_map():
            time.sleep(timeout)
        for key, _ in self.selector.select(timeout):
            name, pending = key.data
            data = key.fileobj.read(65536)  # type: ignore[union-attr]
            pending += data or b""
            *lines, rest = pending.split(b"\n")
            if not data and rest:
                lines, rest = [*lines, rest], b""
            for line in lines:
                say(name, line.decode(errors="replace").rstrip())
            pending[:] = rest
            if data == b"":
                self.selector.unregister(key.fileobj)
                key.fileobj.close()  # type: ignore[union-attr]

    def stop_all(self) -> None:
        """End every child: politely, each main process only, then without asking."""
        self.stopping = True
        for child in self.children:
            child.signal_main(signal.SIGTERM)
        self.wait_for_end(STOP_SECONDS)
        for child in self.children:
            if child.is_running():
                say("run", f"{child.name} did not stop within {STOP_SECONDS} s; killing it")
            child.kill_group()
        self.relay_output(0)

    def wait_for_end(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while any(child.is_running() for child in self.children) and time.monotonic() < deadline:
            self.relay_output(0.05)


def python(*arguments: str) -> list[str]:
    """A command for this very interpreter."""
    return [sys.executable, *arguments]
