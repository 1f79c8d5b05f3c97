"""Starts and stops a broker of one node in a folder.

What lives here: its configuration, its storage and the life of its process. What must not: where its programs come from
(`jars`). Invariants: two starts never meet in one folder, because only the holder of its lock launches; the broker
listens on this machine alone; one that is started here dies with us, however we die.
"""

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from config.kafka.jars import STORE, KafkaError, find_jars, find_java
from config.lifeline import tie_to_parent
from config.ports import find_free_port

START_SECONDS = 120  # a log that was not closed is read again; a broker that exits is noticed at once
STOP_SECONDS = 20
SETTLED_SECONDS = 60  # a younger folder may belong to a run that is about to take its lock
PREFIX = "holdpoint-kafka-"
HOST = "127.0.0.1"
CLUSTER = "aG9sZHBvaW50LWthZmthIQ"  # 16 bytes; the same at each start, because the storage remembers it
READY = "Kafka Server started"  # the broker's own words, when it takes requests

#: Small, and quick to start: it serves one developer or one run of tests.
JAVA_OPTIONS = ["-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:+ExitOnOutOfMemoryError"]
LOG_OPTIONS = {"defaultLogLevel": "warn", "log.kafka.server.KafkaRaftServer": "info", "showDateTime": "true"}

SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "inter.broker.listener.name": "CLIENT",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    # One node holds one copy of everything, its own topics included.
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    # As in production, a misspelt topic is refused and not made.
    "auto.create.topics.enable": "false",
    # Nobody else is about to join a group.
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    # A broker that was killed is believed to live for so long, and its successor has to wait.
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
}


@dataclass
class Broker:
    """A broker in a folder of its own. It keeps its port, so that clients find it again after a restart."""

    folder: Path
    port: int
    jars: Path
    lock: IO[str] | None = None
    process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """What clients are configured with."""
        return f"{HOST}:{self.port}"

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def launch(self) -> None:
        """Run until it takes requests; what its folder holds is kept."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            controller = find_free_port()
            self.write_settings(controller)
            if not (self.folder / "data" / "meta.properties").exists():  # otherwise a Java more, for nothing
                self.run_program("kafka.tools.StorageTool", "format", "-t", CLUSTER, "--ignore-formatted", "-c")
            with self.log.open("ab") as log:
                begin = log.tell()
                self.process = subprocess.Popen(
                    [*self.describe_java(), "kafka.Kafka", str(self.settings_file)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    cwd=self.folder,
                    start_new_session=True,
                    preexec_fn=tie_to_parent(signal.SIGKILL, os.getpid()),
                )
            text = self.wait_until_ready(begin, deadline)
            if READY in text:
                return
            # Somebody took the controller's port between our look and its start: the next look finds another one.
            if "Address already in use" in text and not is_taken(self.port) and time.monotonic() < deadline:
                continue
            raise KafkaError(f"The broker in {self.folder} did not start. It said:\n{text[-3000:]}")

    def wait_until_ready(self, begin: int, deadline: float) -> str:
        """Return what it wrote until it was ready, or ended, or the time was over."""
        while True:
            is_alive = self.is_alive()
            text = self.log.read_bytes()[begin:].decode(errors="replace")
            if READY in text or not is_alive:
                return text
            if time.monotonic() > deadline:
                self.kill()
                return f"{text}\n(not ready after {START_SECONDS} seconds)"
            time.sleep(0.02)

    def kill(self) -> None:
        """End it as a power cut would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self) -> None:
        """End it and give its folder free. It is asked, and then no longer asked."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_SECONDS)
            self.kill()
        if self.lock is not None:
            self.lock.close()
            self.lock = None

    @property
    def settings_file(self) -> Path:
        return self.folder / "server.properties"

    def write_settings(self, controller: int) -> None:
        addresses = {
            "listeners": f"CLIENT://{self.bootstrap},CONTROLLER://{HOST}:{controller}",
            "advertised.listeners": f"CLIENT://{self.bootstrap}",
            "controller.quorum.voters": f"1@{HOST}:{controller}",
            "log.dirs": str(self.folder / "data"),
        }
        lines = [f"{name}={value}\n" for name, value in (SETTINGS | addresses).items()]
        self.settings_file.write_text("".join(lines))

    def describe_java(self) -> list[str]:
        logging = [f"-Dorg.slf4j.simpleLogger.{name}={value}" for name, value in LOG_OPTIONS.items()]
        return [find_java(), *JAVA_OPTIONS, *logging, "-cp", f"{self.jars}/*"]

    def run_program(self, *arguments: str) -> None:
        done = subprocess.run(
            [*self.describe_java(), *arguments, str(self.settings_file)],
            capture_output=True,
            text=True,
            check=False,
            cwd=self.folder,
            timeout=START_SECONDS,
            preexec_fn=tie_to_parent(signal.SIGKILL, os.getpid()),
        )
        if done.returncode:
            raise KafkaError(f"{arguments[0]} failed: {done.stdout[-1000:]}{done.stderr[-1000:]}")


def start(folder: Path = STORE, *, port: int | None = None, jars: Path | None = None) -> Broker:
    """Start the broker of a folder, on the given port or on a free one."""
    find_java()
    programs = find_jars() if jars is None else jars
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    lock = (folder / "lock").open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise KafkaError(f"A broker runs in {folder} already.") from None
    if port is not None and is_taken(port):
        lock.close()
        raise KafkaError(f"Port {port} cannot be used. Choose another one: KAFKA_PORT={port + 10} make kafka")
    broker = Broker(folder, port or find_free_port(), programs, lock)
    try:
        broker.launch()
    except BaseException:
        broker.stop()
        raise
    return broker


@contextlib.contextmanager
def temporary_broker(jars: Path | None = None) -> Iterator[Broker]:
    """Run a broker for the length of a `with` block, in a folder that goes with it."""
    remove_leftovers()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    try:
        broker = start(folder, jars=jars)
        try:
            yield broker
        finally:
            broker.stop()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_leftovers() -> None:
    """Remove the folders of runs that were killed: their brokers died with them, their files did not."""
    for lock in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/lock"):
        with contextlib.suppress(OSError), lock.open("a") as handle:
            if time.time() - lock.stat().st_mtime < SETTLED_SECONDS:
                continue
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent)


def is_taken(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return True
    return False
