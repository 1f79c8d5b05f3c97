"""Workflows that take their time, kill their worker or will not end."""

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any

from django.db import connection

from workflows import Await, Done, Stop, Workflow, step


class HostedQuick(Workflow):
    @step
    def only(self, ctx: Any) -> Done:
        return Done(os.getpid())


class HostedTimer(Workflow):
    @step
    def wait(self, ctx: Any) -> Await:
        return Await("nothing", then="end", timeout=ctx.state["seconds"])

    @step
    def end(self, ctx: Any) -> Done:
        return Done(ctx.timed_out)


class HostedSlow(Workflow):
    """Says who runs it, sleeps, and says who has finished it."""

    max_attempts = 3

    @step
    def sleep(self, ctx: Any) -> Done:
        with Path(ctx.state["file"]).open("a") as file:
            file.write(f"{os.getpid()}\n")
        time.sleep(ctx.state["seconds"])
        return Done(os.getpid())


class HostedPoison(Workflow):
    """Kills whoever runs it, as a segmentation fault or the kernel's memory killer would."""

    max_attempts = 2

    @step
    def die(self, ctx: Any) -> Done:
        os.kill(os.getpid(), signal.SIGKILL)
        return Done()


class HostedStubborn(Workflow):
    """Runs past its limit in every way there is."""

    max_attempts = 1

    @step(step_timeout=1.5)
    def hang(self, ctx: Any) -> Done | Stop:
        match ctx.state["how"]:
            case "sleep":
                time.sleep(60)
            case "loop":
                until = time.monotonic() + 60
                while time.monotonic() < until:
                    pass
            case "statement":
                with connection.cursor() as cursor:
                    cursor.execute("SELECT pg_sleep(60)")
            case "except":
                until = time.monotonic() + 60
                while time.monotonic() < until:
                    try:
                        time.sleep(60)
                    except Exception:
                        return Stop("it caught the interruption")
            case "everything":
                until = time.monotonic() + 60
                while time.monotonic() < until:
                    with contextlib.suppress(BaseException):
                        time.sleep(60)
        return Done("it was not interrupted")


class HostedTaking(Workflow):
    """Takes from a stock in its transaction; the first to run it dawdles with the row locked."""

    @step(atomic=True)
    def take(self, ctx: Any) -> Done:
        with connection.cursor() as cursor:
            cursor.execute("UPDATE stock SET taken = taken + 1")
        file = Path(ctx.state["file"])
        if not file.exists():
            file.write_text(f"{os.getpid()}\n")
            time.sleep(40)
        return Done()
