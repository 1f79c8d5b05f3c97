"""A payment in each style: the address is handed out by one process, the answer is taken by another."""

import os
from pathlib import Path
from typing import Any

from workflows import Await, Done, Machine, Next, Workflow, action, durable, step, wait_for


def tell(file: str, url: str) -> int:
    """What the partner would be sent; which process did it."""
    with Path(file).open("a") as told:
        told.write(f"{os.getpid()} {url}\n")
    return os.getpid()


class RestartedSteps(Workflow):
    @step
    def charge(self, ctx: Any) -> Any:
        return Next("ask", {"by": tell(ctx.input["file"], ctx.callback("payment").resume_url)})

    @step
    def ask(self, ctx: Any) -> Any:
        return Await(ctx.callback("payment"), then="end", timeout="24h")

    @step
    def end(self, ctx: Any) -> Any:
        return Done([ctx.state["by"], ctx.answer, os.getpid()])


@durable(name="RestartedFunction")
def restarted_function(ctx: Any, file: str) -> Any:
    payment = ctx.callback("payment", timeout="24h")
    by = ctx.step("charge", lambda: tell(file, payment.resume_url))
    answer = payment.wait()
    # Derived again, by another process and under another newest key: the partner's address is still that one.
    assert payment.resume_url == Path(file).read_text().split()[1], "the address has changed"
    return [by, answer, os.getpid()]


class RestartedMachine(Machine):
    charge = action(lambda ctx: {"by": tell(ctx.input["file"], ctx.steps.payment._resume_url)})
    payment = wait_for(callback=True, timeout="24h")
    end = action(lambda ctx: [ctx.steps.charge.by, ctx.steps["payment"].amount, os.getpid()])
