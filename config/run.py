"""`make run`: the whole site on one machine, as one supervised process tree.

What lives here: what is started, in which order, and what is said about it. What must not: how
processes are watched (`supervisor`) or how PostgreSQL lives (`postgres`).
Invariants: Ctrl-C or SIGTERM ends everything in bounded time; a killed supervisor leaves nothing
behind; the database is the first to start and the last to stop.
"""

import os
import signal
import socket
import sys
import time
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from config.environment import FALSE
from config.lifeline import tie_to_parent
from config.postgres import PostgresError, Server, start
from config.supervisor import Child, Supervisor, python, say

READY_HINT_SECONDS = 15


class Site:
    """The running site: its database, its readiness and what it says when ready."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.address = f"http://127.0.0.1:{port}"
        self.environment = {"DEBUG": "1", **os.environ, "PORT": str(port), "PYTHONUNBUFFERED": "1"}
        self.server: Server | None = None
        self.ready = False
        self.next_look = 0.0
        self.next_hint = time.monotonic() + READY_HINT_SECONDS

    def start_database(self) -> None:
        if self.environment.get("DATABASE_URL"):
            say("run", "using the PostgreSQL of DATABASE_URL")
            return
        self.server = start()
        self.environment["DATABASE_URL"] = self.server.url
        say("run", f"PostgreSQL runs, its data in {self.server.home.path}")

    def stop_database(self) -> None:
        if self.server is not None:
            self.server.stop()

    def describe_command(self, name: str, *arguments: str) -> Child:
        return Child(name, python("manage.py", *arguments), self.environment)

    def list_servers(self) -> list[Child]:
        granian = ["granian", "--interface", "wsgi", "--host", "127.0.0.1", "--port", str(self.port), "--no-ws"]
        # More threads than cores, because a long poll holds one for up to half a minute.
        granian += ["--workers", "2", "--blocking-threads", "16", "--log-level", "error"]
        granian += ["--respawn-failed-workers", "--respawn-interval", "0.5", "--workers-kill-timeout", "3"]
        granian += ["config.wsgi:application"]
        return [
            Child("web", python("-m", "config.child", *granian), self.environment),
            Child("queue", python("-m", "config.child", "django", "qcluster"), self.django_environment),
        ]

    @property
    def django_environment(self) -> dict[str, str]:
        return self.environment | {"DJANGO_SETTINGS_MODULE": "config.settings"}

    def look(self) -> None:
        """Between looks at the children: revive the database, and tell when the site is ready."""
        now = time.monotonic()
        if now < self.next_look:
            return
        self.next_look = now + (2 if self.ready else 0.3)
        if self.server is not None and not self.server.is_alive():
            say("run", "PostgreSQL ended; starting it again")
            self.server.stop()
            self.server = start()
        if not self.ready:
            state = self.ask_readiness()
            if state == "200":
                self.ready = True
                self.announce()
            elif now > self.next_hint:
                self.next_hint = now + READY_HINT_SECONDS
                say("run", f"not ready yet: {self.address}/readyz?require=cluster says {state}")

    def ask_readiness(self) -> str:
        try:
            with urlopen(f"{self.address}/readyz?require=cluster", timeout=2) as answer:
                return str(answer.status)
        except HTTPError as error:
            return f"{error.code} {summarize(error)}"
        except (URLError, OSError):
            return "nothing: the web server has not begun to listen"

    @property
    def shows_demo(self) -> bool:
        """Whether the demo is made: never without DEBUG, because everybody knows its passwords."""
        return all(self.environment.get(name, "1").strip().lower() not in FALSE for name in ("DEBUG", "DEMO"))

    def list_commands(self) -> list[tuple[str, ...]]:
        """What has to be done before anything is served."""
        migrate = ("migrate", "--verbosity", "0")
        return [migrate, ("demo",)] if self.shows_demo else [migrate]

    def tell_demo(self) -> list[str]:
        if not self.shows_demo:
            return ["Without the demo; .venv/bin/python manage.py createsuperuser  makes a login."]
        return [
            "One click logs in as Maya, or somebody else of the demo; samir, with the password demo, may use /admin/."
        ]

    def announce(self) -> None:
        for line in (
            "",
            f"Holdpoint is ready:  {self.address}/",
            *self.tell_demo(),
            f"The API is told at {self.address}/v1/docs; .venv/bin/python manage.py api_key create me  makes a key.",
            "Ctrl-C stops everything; the data stay for the next run.",
            "",
        ):
            say("run", line)


def summarize(error: HTTPError) -> str:
    """Return what a failed probe says, unless it is a page for people."""
    kind = error.headers.get_content_type()
    return error.reason if kind == "text/html" else error.read(500).decode(errors="replace")


def refuse_taken_port(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            sys.exit(f"Port {port} cannot be used ({error.strerror}). Choose another one: PORT={port + 1} make run")


def main() -> int:
    try:
        port = int(os.environ.get("PORT") or 8000)
    except ValueError:
        sys.exit(f"PORT={os.environ['PORT']!r} is not a number.")
    if "MAKELEVEL" in os.environ:  # make is our parent, and would leave us behind if it were killed
        tie_to_parent(signal.SIGTERM, os.getppid())()
    refuse_taken_port(port)
    supervisor = Supervisor()
    supervisor.listen_for_signals()
    site = Site(port)
    try:
        site.start_database()
        for command in site.list_commands():
            if supervisor.stopping:
                break
            if not supervisor.run_once(site.describe_command(command[0], *command)) and not supervisor.stopping:
                say("run", f"`manage.py {command[0]}` failed; see above")
                return 1
        if not supervisor.stopping:
            supervisor.run_all(site.list_servers(), site.look)
        say("run", "stopping")
    except PostgresError as error:
        say("run", str(error))
        return 1
    finally:
        supervisor.stop_all()
        site.stop_database()
    say("run", "stopped")
    return 0


if __name__ == "__main__":
    sys.exit(main())
