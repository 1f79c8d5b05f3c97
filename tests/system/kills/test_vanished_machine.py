"""A machine that vanishes without a word: its locks are free soon, and somebody else finishes its work.

Two network namespaces, a cable between them that can be pulled, PostgreSQL at one end and a worker at the other.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import workflows
from config.postgres import start as start_server
from config.postgres.binaries import find_binaries
from config.postgres.home import DATABASE, ROLE
from tests.support.other_server import elsewhere, fill
from tests.support.processes import ROOT, Process, find_environment, running, wait_until
from workflows.lifecycle import Status

pytestmark = pytest.mark.django_db(transaction=True)

SERVER, WORKER = f"hp-server-{os.getpid()}", f"hp-worker-{os.getpid()}"
ADDRESS = "10.213.7.1"
#: What the documentation says, and a little for a slow machine to notice it.
FREED_SECONDS = 40.0


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


@pytest.fixture(scope="module")
def cable() -> Iterator[None]:
    """Two namespaces and a cable; inside `pulled` it is cut."""
    try:
        if not shutil.which("ip") or not shutil.which("nsenter"):
            raise FileNotFoundError("there is no `ip` (iproute2) or no `nsenter` (util-linux)")
        ip("netns", "add", SERVER)
    except (OSError, subprocess.CalledProcessError) as error:
        reason = f"network namespaces cannot be made here: {getattr(error, 'stderr', None) or error}"
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail(reason)
        pytest.skip(reason)
    try:
        ip("netns", "add", WORKER)
        ip("-n", SERVER, "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", WORKER)
        for name, address in ((SERVER, ADDRESS), (WORKER, "10.213.7.2")):
            ip("-n", name, "address", "add", f"{address}/30", "dev", "cable")
            ip("-n", name, "link", "set", "cable", "up")
        yield
    finally:
        for name in (SERVER, WORKER):
            with contextlib.suppress(subprocess.CalledProcessError):
                ip("netns", "delete", name)


@contextlib.contextmanager
def pulled() -> Iterator[None]:
    ip("-n", WORKER, "link", "set", "cable", "down")
    try:
        yield
    finally:
        ip("-n", WORKER, "link", "set", "cable", "up")


@pytest.fixture(scope="module")
def server(cable: None) -> Iterator[tuple[str, str]]:
    """A PostgreSQL at one end: its address through the file system, and the one over the cable."""
    with tempfile.TemporaryDirectory(prefix="holdpoint-server-") as name:
        Path(name).chmod(0o711)
        made = start_server(Path(name, "pg"), durable=False)
        made.stop()
        home = made.home
        major = (home.data / "PG_VERSION").read_text().strip()
        with (home.data / "pg_hba.conf").open("a") as rules:
            rules.write("host all all 10.213.7.0/30 trust\n")
        who = [] if home.account is None else [f"--setuid={home.account.pw_uid}", f"--setgid={home.account.pw_gid}"]
        command = ["nsenter", f"--net=/run/netns/{SERVER}", *who, str(find_binaries(home.account, major) / "postgres")]
        command += ["-D", str(home.data), "-c", f"listen_addresses={ADDRESS}", "-c", "fsync=off"]
        command += ["-c", f"unix_socket_directories={home.sockets}"]
        process = subprocess.Popen(command, cwd=home.path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: can_connect(home.url), "the server")
            yield home.url, f"postgresql://{ROLE}@{ADDRESS}:5432/{DATABASE}"
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(5)
            process.kill()
            process.wait()


def can_connect(url: str) -> bool:
    with contextlib.suppress(psycopg.OperationalError):
        psycopg.connect(url).close()
        return True
    return False


def test_the_locks_of_a_machine_that_vanished_are_free_soon_and_others_finish_its_work(
    server: tuple[str, str], tmp_path: Path
) -> None:
    near, far = server

    def ask(statement: str) -> int:
        with psycopg.connect(near) as db:
            row = db.execute(statement).fetchone()
        assert row is not None
        return int(row[0])

    file = tmp_path / "ran"
    fill(near, find_environment()["DATABASE_URL"])
    with psycopg.connect(near) as db:
        db.execute("CREATE TABLE stock (id int PRIMARY KEY, taken int)")
        db.execute("INSERT INTO stock VALUES (1, 0)")
    remote = ("netns", "exec", WORKER, sys.executable, "manage.py", "workflow_worker")
    with running(Process(*remote, python="ip", DATABASE_URL=far)):
        with elsewhere(near):
            workflows.start("HostedTaking", {"file": str(file)})
        wait_until(file.exists, "the far worker to take from the stock")
        with pulled():
            began = time.monotonic()
            held = "SELECT count(*) FROM pg_locks WHERE relation = 'stock'::regclass AND mode = 'RowExclusiveLock'"
            assert ask(held) == 1
            with running(Process("manage.py", "workflow_worker", DATABASE_URL=near)) as other:
                done = f"SELECT count(*) FROM holdpoint_instance WHERE status = {Status.DONE.code}"
                wait_until(lambda: ask(done), "the other worker to finish it", seconds=FREED_SECONDS)
                print(f"done {time.monotonic() - began:.1f} s after the cable was pulled")
                assert "StepTimedOut" not in other.read_log()
    assert ask("SELECT taken FROM stock") == 1


LOOK = """
import os, sys, django
from django.conf import settings
settings.DATABASES["default"]["ENGINE"] = sys.argv[1]
django.setup()
from django.core.checks import run_checks
from django.db import connection
from workflows.worker.pump_connection import connect
def show(db):
    with db.cursor() as cursor:
        return [cursor.execute(f"SHOW tcp_{name}").fetchone()[0] for name in
                ("keepalives_idle", "keepalives_interval", "keepalives_count", "user_timeout")]
print([one.id for one in run_checks(databases=["default"]) if one.id == "holdpoint.W008"])
print(show(connection))
print(show(connect("default")))
"""


@pytest.mark.parametrize("engine", ["workflows.backend", "django.db.backends.postgresql"])
def test_sessions_have_the_limits_and_the_check_names_those_that_have_not(server: tuple[str, str], engine: str) -> None:
    environment = {**os.environ, **find_environment(), "DATABASE_URL": server[1]}
    told = subprocess.run(
        ["ip", "netns", "exec", WORKER, sys.executable, "-c", LOOK, engine],
        cwd=ROOT,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    found, author, pump = told.stdout.splitlines()[-3:]
    limits = "['10', '5', '3', '25000']"
    assert pump == limits
    if engine == "workflows.backend":
        assert (found, author) == ("[]", limits)
    else:
        assert found == "['holdpoint.W008']"
