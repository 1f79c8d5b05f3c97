"""Processes that are told what to do line by line, and end with the block that needed them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from config.lifeline import tie_to_parent

ROOT = Path(__file__).resolve().parents[2]


class Piped:
    """One process; each line of JSON that it is told, it answers with one."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            preexec_fn=tie_to_parent(signal.SIGKILL, os.getpid()),
        )

    def tell(self, **command: Any) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def hear(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._process.args!r:.200} ended with {self._process.wait()}")
        return json.loads(line)

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


@contextmanager
def run_piped(*commands: Sequence[str]) -> Iterator[list[Piped]]:
    """Run such processes, from when each has spoken for the first time."""
    processes = [Piped(command) for command in commands]
    try:
        for one in processes:
            one.hear()
        yield processes
    finally:
        for one in processes:
            one.end()


def share_out(callers: Sequence[Piped], count: int, **command: Any) -> None:
    """Have so many things done by all of them together, and wait for it."""
    each, more = divmod(count, len(callers))
    for n, caller in enumerate(callers):
        caller.tell(count=each + (n < more), **command)
    for caller in callers:
        caller.hear()
