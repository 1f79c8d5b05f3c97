"""A channel that sends in memory, for tests of the dispatch itself."""

from __future__ import annotations

from typing import Any, ClassVar

from workflows import Await, Channel, Done, Workflow, durable, step
from workflows.channels.outgoing import Outgoing, Sent


class Letter(Channel[Any]):
    """Sent to a list; fails as often as it is told to."""

    name = "letter"
    sends = True
    resumes = True
    sent: ClassVar[list[Outgoing]] = []
    #: What the next tries raise.
    troubles: ClassVar[list[Exception]] = []

    def __init__(self, to: str) -> None:
        self.config = {"to": to}
        self.request = {"dear": to}

    @classmethod
    def dispatch(cls, question: Outgoing) -> Sent:
        cls.sent.append(question)
        if cls.troubles:
            raise cls.troubles.pop(0)
        return Sent()


class Bulk(Channel[Any]):
    """Sends all at once."""

    name = "bulk-letter"
    sends = True
    batch = 3
    threads = 1
    bags: ClassVar[list[list[Outgoing]]] = []

    def __init__(self, to: str) -> None:
        self.config = {"to": to}

    @classmethod
    def dispatch_many(cls, questions: Any) -> list[Any]:
        cls.bags.append(list(questions))
        return [RuntimeError("torn") if one.config["to"] == "nobody" else None for one in questions]


class Post(Workflow):
    name = "letters.step"

    @step
    def ask(self, ctx):
        return Await(Letter(ctx.input["to"]), then="end", timeout=ctx.input.get("timeout", "30d"))

    @step
    def end(self, ctx):
        return Done(ctx.answer)


@durable(name="letters.function")
def write(ctx, to):
    return ctx.wait_for("write", Letter(to), timeout="30d")


@durable(name="letters.bulk")
def write_in_bulk(ctx, to):
    return ctx.wait_for("write", Bulk(to), timeout="30d")
