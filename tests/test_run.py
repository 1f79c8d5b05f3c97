"""`make run` as one process tree: it comes up whole, heals, and ends whole."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

import psutil
import pytest

pytestmark = [pytest.mark.process, pytest.mark.kill, pytest.mark.slow]

PATIENCE = 60


@dataclass
class Site:
    """A running supervisor, what it said so far, and the processes below it."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)
    heard: threading.Condition = field(default_factory=threading.Condition)

    def listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with self.heard:
                self.lines.append(line.rstrip())
                self.heard.notify_all()

    def wait_for(self, text: str) -> None:
        with self.heard:
            found = self.heard.wait_for(lambda: any(text in line for line in self.lines), PATIENCE)
        assert found, "\n".join([f"nothing said {text!r}:", *self.lines])

    def list_tree(self) -> list[psutil.Process]:
        return psutil.Process(self.process.pid).children(recursive=True)

    def find_main(self, command: str) -> psutil.Process:
        (main,) = (child for child in psutil.Process(self.process.pid).children() if command in child.cmdline())
        return main


def list_survivors(processes: list[psutil.Process]) -> list[psutil.Process]:
    _, alive = psutil.wait_procs(processes, timeout=10)
    return [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture
def site(port: int) -> Iterator[Site]:
    process = subprocess.Popen(
        [sys.executable, "-m", "config.run"],
        env={**os.environ, "PORT": str(port)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    site = Site(process)
    listener = threading.Thread(target=site.listen)
    listener.start()
    try:
        site.wait_for("Holdpoint is ready")
        yield site
    finally:
        process.terminate()
        process.wait(30)
        listener.join(10)
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_stop_ends_every_process(site: Site, signum: signal.Signals) -> None:
    tree = site.list_tree()
    site.process.send_signal(signum)
    assert site.process.wait(30) == 0
    assert list_survivors(tree) == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux signals the children of a killed process")
def test_a_killed_supervisor_leaves_nothing_behind(site: Site) -> None:
    tree = site.list_tree()
    site.process.kill()
    site.process.wait()
    assert list_survivors(tree) == []


@pytest.mark.parametrize("name", ["qcluster", "granian"])
def test_a_killed_child_takes_its_own_children_with_it_and_is_started_again(site: Site, name: str) -> None:
    main = site.find_main(name)
    family = [main, *main.children(recursive=True)]
    main.kill()
    site.wait_for("ended (SIGKILL); starting it again")
    assert list_survivors(family) == []
    label = {"qcluster": "queue", "granian": "web"}[name]
    assert any(f"{label} ended" in line for line in site.lines)


def test_a_taken_port_is_refused_with_the_remedy(port: int) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", port))
        other.listen()
        answer = subprocess.run(
            [sys.executable, "-m", "config.run"],
            env={**os.environ, "PORT": str(port)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert answer.returncode == 1
    assert f"PORT={port + 1} make run" in answer.stderr
