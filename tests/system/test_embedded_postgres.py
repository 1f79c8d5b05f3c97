"""The embedded PostgreSQL: what survives a kill, and who owns a server."""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from config.postgres import Server, locate_home, start
from config.postgres.home import find_postmaster

pytestmark = pytest.mark.process

OWNER = """
import sys
from pathlib import Path
from config.postgres import start
server = start(Path(sys.argv[1]), durable=False)
print(server.process.pid, flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def reachable_folder() -> Iterator[Path]:
    """A folder that the server's account can reach, unlike pytest's own, which is private."""
    with tempfile.TemporaryDirectory(prefix="holdpoint-server-") as name:
        Path(name).chmod(0o711)
        yield Path(name, "pg")


@pytest.fixture
def empty_folder() -> Iterator[Path]:
    with reachable_folder() as folder:
        yield folder


@pytest.fixture(scope="module")
def made() -> Iterator[Path]:
    """The files of a server that ran and was stopped: PostgreSQL takes two seconds to make them."""
    with reachable_folder() as folder:
        start(folder, durable=False).stop()
        yield folder


@pytest.fixture
def folder(made: Path) -> Iterator[Path]:
    """A copy of them."""
    with reachable_folder() as folder:
        subprocess.run(["cp", "-a", str(made), str(folder)], check=True)
        yield folder


def ask(server: Server, statement: str) -> object:
    with psycopg.connect(server.url) as connection:
        row = connection.execute(statement).fetchone()
        return row[0] if row else None


def start_in_another_process(folder: Path) -> tuple[subprocess.Popen[str], int]:
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    return owner, int(owner.stdout.readline())


def end(owner: subprocess.Popen[str]) -> None:
    owner.kill()
    owner.communicate()


def test_data_survive_a_killed_server(empty_folder: Path) -> None:
    server = start(empty_folder)
    with psycopg.connect(server.url) as connection:
        connection.execute("create table kept as select 42 as answer")
    assert server.process is not None
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait()
    server.stop()
    server = start(empty_folder)
    try:
        assert ask(server, "select answer from kept") == 42
    finally:
        server.stop()
    assert find_postmaster(server.home) is None


def test_a_second_start_joins_the_running_server_and_leaves_it_alone(folder: Path) -> None:
    first = start(folder, durable=False)
    second = start(folder, durable=False)
    second.stop()
    assert second.url == first.url
    assert ask(first, "select 1") == 1
    first.stop()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux signals the children of a killed process")
def test_a_server_does_not_outlive_a_killed_owner(folder: Path) -> None:
    owner, pid = start_in_another_process(folder)
    end(owner)
    server = start(folder, durable=False)  # waits for the orphan to end, or ends it
    try:
        assert server.process is not None
        assert server.process.pid != pid
        assert not Path(f"/proc/{pid}/cwd").exists()  # nor has a process that only waits to be reaped
    finally:
        server.stop()


def test_a_start_recovers_when_owner_and_server_were_both_killed(folder: Path) -> None:
    owner, pid = start_in_another_process(folder)
    os.kill(pid, signal.SIGKILL)
    end(owner)
    server = start(folder, durable=False)
    try:
        assert ask(server, "select 1") == 1
    finally:
        server.stop()


def test_a_pid_file_that_names_a_stranger_is_stale(folder: Path) -> None:
    start(folder, durable=False).stop()
    home = locate_home(folder)
    (home.data / "postmaster.pid").write_text(f"{os.getpid()}\n{home.data}\n0\n5432\n\n\n\nready\n")
    server = start(folder, durable=False)
    try:
        assert ask(server, "select 1") == 1
    finally:
        server.stop()


def test_nobody_else_can_reach_the_socket(folder: Path) -> None:
    server = start(folder, durable=False)
    try:
        assert server.home.sockets.stat().st_mode & 0o077 == 0
        assert ask(server, "show listen_addresses") == ""
    finally:
        server.stop()
