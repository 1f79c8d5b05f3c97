"""Workflows that take their time, kill their worker or will not end."""

import contextlib
import os
import signal
import time
from pathlib import Path
from typing import Any

from django.contrib.auth.models import Group
from django.db import connection

from workflows import Await, Concurrency, Done, Machine, Stop, Workflow, action, collect, durable, expand, step


class HostedQuick(Workflow):
    @step
    def only(self, ctx: Any) -> Done:
        return Done(os.getpid())


class HostedMail(HostedQuick):
    queue = "hosted-mail"


class HostedReport(HostedQuick):
    queue = "hosted-reports"


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


class HostedKeyed(Workflow):
    """Sleeps in a step that holds its key; one at a time."""

    concurrency = Concurrency("hosted:{key}", 1)
    max_attempts = 5

    @step
    def sleep(self, ctx: Any) -> Done:
        with Path(ctx.state["file"]).open("a") as file:
            file.write(f"{os.getpid()}\n")
        time.sleep(ctx.state["seconds"])
        return Done(os.getpid())


class HostedSingle(HostedKeyed):
    """Sleeps in a step, and holds its key from the first run to the end."""

    concurrency = Concurrency("hosted-single:{key}", 1, hold="instance")


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


def book(item: int) -> int:
    """A name can be given once: a second booking of an item is an error."""
    Group.objects.create(name=f"item {item}")
    return item


@durable(name="HostedLines")
def hosted_lines(ctx: Any, items: int, seconds: float) -> Any:
    def then(ctx: Any, item: int, output: Any) -> Any:
        booked = ctx.atomic("book", book, item)
        ctx.step("rest", time.sleep, seconds)
        return [booked, output]

    return ctx.wait_for_each("pay", range(items), "api", then=then)


class HostedStream(Machine):
    """Each item is booked once, in a line of its own."""

    numbers = expand(lambda ctx: range(ctx.input["items"]))
    booked = action(lambda ctx: book(ctx.item), atomic=True)
    rest = action(lambda ctx: time.sleep(ctx.input["seconds"]))
    report = collect(lambda ctx: ctx.steps.booked)
