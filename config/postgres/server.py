"""Starts and stops the server of one home.

What lives here: the life of the process. What must not: where things are (`home`), or any Django.
Invariants: two starts never meet in one data folder, because only the holder of the lock launches;
a data folder is complete or absent, because it is made beside its place and published by a rename.
The server listens on no network address.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from config.lifeline import tie_to_parent
from config.postgres.binaries import PostgresError, find_binaries
from config.postgres.home import (
    DATABASE,
    HOME,
    ROLE,
    Home,
    find_postmaster,
    prepare_home,
    read_status,
    take_lock,
)

START_SECONDS = 300  # a crash recovery may take a while; a server that exits is noticed at once
STOP_SECONDS = 20

SETTINGS = {"listen_addresses": "", "max_connections": "200", "timezone": "UTC", "log_timezone": "UTC"}
FORGETFUL = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


@dataclass
class Server:
    """A running server. `stop()` does nothing to one that somebody else owns."""

    home: Home
    process: subprocess.Popen[bytes] | None = None
    lock: IO[str] | None = None

    @property
    def url(self) -> str:
        return self.home.url

    def is_alive(self) -> bool:
        if self.process is not None:
            return self.process.poll() is None
        return find_postmaster(self.home) is not None

    def stop(self) -> None:
        if self.lock is None:
            return
        stop_postmaster(self.home, self.process)
        if self.home.sockets != self.home.path:
            with contextlib.suppress(OSError):
                self.home.sockets.rmdir()
        self.lock.close()
        self.lock = None


def start(folder: Path = HOME, *, durable: bool = True, detached: bool = False) -> Server:
    """Start the server of a folder, or join the one that runs there already.

    A `durable` server survives a power cut; tests do without. A `detached` one outlives us and is
    ended by `stop`; any other dies with us even if we are killed.
    """
    home = prepare_home(folder)
    deadline = time.monotonic() + START_SECONDS
    while (lock := take_lock(home)) is None:
        if read_status(home) == "ready":
            return Server(home)
        if time.monotonic() > deadline:
            raise PostgresError(f"The PostgreSQL in {home.path} belongs to another process and never got ready.")
        time.sleep(0.05)
    with contextlib.ExitStack() as unless_owned:
        unless_owned.callback(lock.close)
        if find_postmaster(home) is not None:
            if (home.path / "detached").exists():
                wait_until_ready(home, None, deadline)
                return Server(home)
            # The owner was killed. Its server may be on its way down or, where the system has no
            # lifeline, run on: a clean start under our own settings needs no cases.
            stop_postmaster(home, None)
        process = launch(home, durable=durable, detached=detached, deadline=deadline)
        if detached:
            return Server(home)
        unless_owned.pop_all()
    return Server(home, process, lock)


def launch(home: Home, *, durable: bool, detached: bool, deadline: float) -> subprocess.Popen[bytes]:
    """Run the server until it answers; the caller holds the lock and knows that none runs."""
    version = home.data / "PG_VERSION"
    binaries = find_binaries(home.account, version.read_text().strip() if version.exists() else None)
    if not home.data.exists():
        create_cluster(home, binaries, durable=durable)
    # A pid file left by a kill may name a number that some other program has by now, and
    # PostgreSQL would refuse to start. We hold the lock and found no server: it is stale.
    for stale in (home.data / "postmaster.pid", home.sockets / ".s.PGSQL.5432.lock"):
        stale.unlink(missing_ok=True)
    marker = home.path / "detached"
    marker.touch() if detached else marker.unlink(missing_ok=True)
    options = SETTINGS | {"unix_socket_directories": str(home.sockets), "unix_socket_permissions": "0700"}
    options |= {} if durable else FORGETFUL
    command = [str(binaries / "postgres"), "-D", str(home.data)]
    command += [part for name, value in options.items() for part in ("-c", f"{name}={value}")]
    while True:
        with (home.path / "log").open("ab") as log:
            log_start = log.tell()
            process: subprocess.Popen[bytes] = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=home.path,
                start_new_session=True,
                preexec_fn=None if detached else tie_to_parent(signal.SIGINT, os.getpid()),
                **home.demotion,
            )
        try:
            wait_until_ready(home, process, deadline)
        except PostgresError as error:
            said = (home.path / "log").read_bytes()[log_start:].decode(errors="replace")
            # The last sessions of a killed server need a moment to notice that it is gone.
            if "shared memory block" in said and time.monotonic() < deadline:
                time.sleep(0.2)
                continue
            raise PostgresError(f"{error} It said:\n{said[-2000:]}") from None
        return process


def create_cluster(home: Home, binaries: Path, *, durable: bool) -> None:
    """Make the data folder with its one database, beside its place, and publish it by a rename."""
    scratch = home.path / "data.new"
    if scratch.exists():
        shutil.rmtree(scratch)
    settings = ["--auth=trust", f"--username={ROLE}", "--encoding=UTF8", "--locale=C"]
    run_program(home, [binaries / "initdb", "-D", scratch, *settings, *([] if durable else ["--no-sync"])])
    # Single-user mode needs no running server, so the database is part of the same publication.
    run_program(home, [binaries / "postgres", "--single", "-D", scratch, "postgres"], f"CREATE DATABASE {DATABASE}\n")
    scratch.rename(home.data)


def run_program(home: Home, command: list[Path | str], text: str = "") -> None:
    done = subprocess.run(
        [str(part) for part in command],
        input=text,
        capture_output=True,
        text=True,
        cwd=home.path,
        check=False,
        preexec_fn=tie_to_parent(signal.SIGKILL, os.getpid()),
        **home.demotion,
    )
    if done.returncode:
        raise PostgresError(f"{Path(command[0]).name} failed: {done.stdout[-1000:]}{done.stderr[-1000:]}")


def wait_until_ready(home: Home, process: subprocess.Popen[bytes] | None, deadline: float) -> None:
    while read_status(home) != "ready":
        if find_postmaster(home) is None if process is None else process.poll() is not None:
            raise PostgresError(f"PostgreSQL in {home.path} ended while starting.")
        if time.monotonic() > deadline:
            raise PostgresError(f"PostgreSQL in {home.path} was not ready after {START_SECONDS} seconds.")
        time.sleep(0.02)


def stop_postmaster(home: Home, process: subprocess.Popen[bytes] | None) -> None:
    """Stop fast but cleanly; a server that does not obey is stopped at once and recovers next time."""
    for signum, seconds in ((signal.SIGINT, STOP_SECONDS), (signal.SIGQUIT, 8), (signal.SIGKILL, 2)):
        pid = find_postmaster(home)
        if process is not None:
            pid = process.pid if process.poll() is None else None
        if pid is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signum)
        for _ in poll_for(seconds):
            if (find_postmaster(home) is None) if process is None else (process.poll() is not None):
                return
    raise PostgresError(f"PostgreSQL in {home.path} cannot be stopped.")


def poll_for(seconds: float) -> Iterator[None]:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        yield
        time.sleep(0.02)
