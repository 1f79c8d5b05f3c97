"""The peer: Restate's server with a service of its Python SDK, driven over HTTP as another service would.

What lives here: installing both (npm and a virtual environment), their processes and their ports. The service is
`benchmarks/peers/restate/peer.py`. Restate keeps its own files: it has no part in PostgreSQL.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from benchmarks import workload
from benchmarks.contenders.caller import call_all, write_post
from benchmarks.contenders.dbos import PeerMissing, ask, read_answer
from benchmarks.contenders.web import find_port
from config.lifeline import tie_to_parent

HERE = Path(__file__).resolve().parent.parent / "peers" / "restate"
HOME = HERE.parents[2] / "var" / "benchmarks" / "restate"
PATIENCE = 120
INSTALL_SECONDS = 900


@dataclass(frozen=True)
class Restate:
    """Where the service's Python and the server are."""

    python: Path
    server: Path

    @contextmanager
    def running(self) -> Iterator[RunningRestate]:
        """Start both with empty files, and make the service known."""
        ingress, admin, node, service = (find_port() for _ in range(4))
        with ExitStack() as stack:
            files = stack.enter_context(tempfile.TemporaryDirectory())  # where PostgreSQL's are too
            process = stack.enter_context(launch([str(self.python), str(HERE / "peer.py"), str(service)], {}))
            read_answer(process)
            stack.enter_context(
                launch(
                    [str(self.server)],
                    {
                        "DO_NOT_TRACK": "1",
                        "RESTATE_LOG_FILTER": "error",
                        "RESTATE_BASE_DIR": files,
                        "RESTATE_LISTEN_MODE": "tcp",
                        "RESTATE_BIND_IP": "127.0.0.1",
                        "RESTATE_BIND_PORT": str(node),
                        "RESTATE_INGRESS__BIND_PORT": str(ingress),
                        "RESTATE_ADMIN__BIND_PORT": str(admin),
                    },
                )
            )
            wait_until(lambda: is_answered(f"http://127.0.0.1:{admin}/health"), "Restate does not start")
            body = json.dumps({"uri": f"http://127.0.0.1:{service}"}).encode()
            deployment = Request(f"http://127.0.0.1:{admin}/deployments", body, {"Content-Type": "application/json"})
            wait_until(lambda: is_answered(deployment), "Restate does not find the service")
            yield RunningRestate(process, ingress)


@dataclass(frozen=True)
class RunningRestate:
    """Both at work."""

    service: subprocess.Popen[str]
    port: int

    def park(self, count: int) -> list[str]:
        """Start handlers, and wait until each has its awakeable."""
        ask(self.service, do="forget")
        body = json.dumps(workload.INPUT).encode()
        call_all(self.port, [write_post(self.port, "/Waiter/wait/send", body)] * count, in_flight=16, status=202)
        wait_until(lambda: ask(self.service, do="look")["waiting"] >= count, f"{count} handlers do not wait")
        time.sleep(0.5)  # an awakeable is known a moment before its handler is journalled
        ids: list[str] = ask(self.service, do="list")["waiting"]
        return ids

    def finish(self, ids: list[str], *, in_flight: int) -> float:
        """Resolve each; per second, from just before the first call until the last handler went on."""
        body = json.dumps(workload.PAYLOAD).encode()
        requests = [write_post(self.port, f"/restate/awakeables/{id}/resolve", body) for id in ids]
        begun = time.time()
        call_all(self.port, requests, in_flight=in_flight, status=202)
        wait_until(lambda: ask(self.service, do="look")["ended"] >= len(ids), "not every handler went on")
        told = ask(self.service, do="look")
        if told["ended"] != len(ids):
            raise AssertionError(f"{told['ended']} of {len(ids)} handlers went on")
        return len(ids) / (float(told["last"]) - begun)


def install_restate() -> Restate:
    """Return the peer, installed on first use and again when its pins change."""
    python, stamp = HOME / "bin" / "python", HOME / "pins.sha256"
    pins = (HERE / "requirements.txt").read_bytes() + (HERE / "package.json").read_bytes()
    digest = hashlib.sha256(pins + sys.version.encode()).hexdigest()
    if not stamp.exists() or stamp.read_text() != digest:
        npm = shutil.which("npm")
        if npm is None:
            raise PeerMissing("Restate cannot be installed: its server comes from npm, which is not here")
        run_or_give_up([sys.executable, "-m", "venv", "--clear", str(HOME)])
        run_or_give_up([str(python), "-m", "pip", "install", "-q", "-r", str(HERE / "requirements.txt")])
        shutil.copy(HERE / "package.json", HOME)
        run_or_give_up([npm, "install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(HOME)])
        stamp.write_text(digest)
    # The program itself: what npm puts in front of it would leave it running when it is killed.
    found = list(HOME.glob("node_modules/@restatedev/restate-server-*/bin/restate-server"))
    if not found:
        raise PeerMissing("Restate cannot be installed: npm has no server for this system")
    return Restate(python, found[0])


def list_versions() -> dict[str, str]:
    """Return what the peer is pinned to."""
    server = json.loads((HERE / "package.json").read_text())["dependencies"]["@restatedev/restate-server"]
    lines = (HERE / "requirements.txt").read_text().splitlines()
    pins = dict(line.split("==") for line in lines if "==" in line)
    return {"peer: restate-server": server, "peer: restate-sdk": pins["restate-sdk"]}


def run_or_give_up(command: list[str]) -> None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=INSTALL_SECONDS)
    except subprocess.TimeoutExpired as late:
        raise PeerMissing(f"Restate cannot be installed within {INSTALL_SECONDS} s") from late
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        raise PeerMissing(f"Restate cannot be installed: {last:.120}")


@contextmanager
def launch(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        command,
        env=os.environ | environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=tie_to_parent(signal.SIGKILL, os.getpid()),
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()


def is_answered(request: str | Request) -> bool:
    try:
        with urlopen(request, timeout=10) as answer:
            return bool(answer.status < 300)
    except (URLError, OSError):
        return False


def wait_until(reached: Any, problem: str) -> None:
    until = time.monotonic() + PATIENCE
    while not reached():
        if time.monotonic() > until:
            raise TimeoutError(f"{problem} within {PATIENCE} s")
        time.sleep(0.02)
