"""Web servers, started as the site starts its own: the same granian with as many workers and threads."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

from config.lifeline import tie_to_parent
from config.run import Site

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 60
STOP_SECONDS = 15

FLOOR = "benchmarks.contenders.floor:application"


@contextmanager
def run_server(application: str = "", **environment: str) -> Iterator[int]:
    """Run the site, or another WSGI application in its place; its port."""
    port = find_port()
    web = Site(port).list_servers()[0]
    command = [*web.command[:-1], application] if application else web.command
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT), "PORT": str(port), **environment},
        stdout=subprocess.DEVNULL,
        preexec_fn=tie_to_parent(signal.SIGKILL, os.getpid()),
    )
    try:
        wait_until_it_answers(process, port)
        yield port
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until_it_answers(process: subprocess.Popen[bytes], port: int) -> None:
    until = time.monotonic() + START_SECONDS
    while True:
        if process.poll() is not None:
            raise RuntimeError("the web server ended while starting; its message is above")
        try:
            with urlopen(f"http://127.0.0.1:{port}/healthz", timeout=2):
                return
        except (URLError, OSError):
            if time.monotonic() > until:
                raise TimeoutError(f"the web server did not answer within {START_SECONDS} s") from None
            time.sleep(0.05)


def find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
