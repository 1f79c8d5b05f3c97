"""A RabbitMQ of one's own: Debian's programs, a folder, ports and a cookie of its own, on this machine alone.

Lives here: the life of its two processes (the node and its port mapper), which die with us. What must not: queues.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from config.lifeline import tie_to_parent
from config.ports import find_free_port

HOST = "127.0.0.1"
#: Not the one in PATH, which wants to become another user.
PROGRAM = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
START_SECONDS = 120.0
STOP_SECONDS = 30.0
READY = "Server startup complete"


def explain_absence() -> str:
    """Why this machine runs no RabbitMQ, or nothing if it does."""
    if PROGRAM.exists() and shutil.which("epmd"):
        return ""
    return "RabbitMQ is not installed: apt-get install rabbitmq-server"


@dataclass
class Node:
    """It keeps its folder and its port, so that clients find it and its queues again after a restart."""

    folder: Path
    port: int = field(default_factory=find_free_port)
    mapper: subprocess.Popen[bytes] | None = None
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@{HOST}:{self.port}/"

    def start(self) -> None:
        """Run until it takes connections."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "plugins").write_text("[].\n")
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),  # where it makes its cookie
            "LANG": "C.UTF-8",
            "ERL_EPMD_PORT": str(find_free_port()),
            "ERL_EPMD_ADDRESS": HOST,
            "RABBITMQ_NODENAME": f"holdpoint{self.port}@localhost",
            "RABBITMQ_NODE_IP_ADDRESS": HOST,
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(find_free_port()),
            "RABBITMQ_MNESIA_BASE": str(self.folder / "data"),
            "RABBITMQ_LOG_BASE": str(self.folder),
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self.folder / "plugins"),
            "RABBITMQ_CONFIG_FILE": str(self.folder / "none"),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            # The script then becomes the node, which so has one id and dies with us.
            "RABBITMQ_ALLOW_INPUT": "1",
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "-noinput -kernel inet_dist_use_interface {127,0,0,1}",
        }
        self.mapper = self.launch(["epmd", "-address", HOST, "-port", environment["ERL_EPMD_PORT"]], environment)
        self.process = self.launch([str(PROGRAM)], environment)
        until = time.monotonic() + START_SECONDS
        while READY not in (said := self.read_log()):
            if self.process.poll() is not None or time.monotonic() > until:
                self.kill()
                raise RuntimeError(f"RabbitMQ did not start. It said:\n{said[-3000:]}")
            time.sleep(0.05)

    def launch(self, command: list[str], environment: dict[str, str]) -> subprocess.Popen[bytes]:
        with (self.folder / "log").open("wb") as log:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=environment,
                start_new_session=True,
                preexec_fn=tie_to_parent(signal.SIGKILL, os.getpid()),
            )

    def read_log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")

    def kill(self) -> None:
        """End it as a power cut would."""
        for process in (self.process, self.mapper):
            if process is not None:
                process.kill()
                process.wait()
        self.process = self.mapper = None

    def stop(self) -> None:
        """Ask it to end, and then no longer ask."""
        if self.process is not None:
            self.process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(STOP_SECONDS)
        self.kill()
