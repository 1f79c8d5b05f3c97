"""A channel that sends in memory, for tests of the dispatch itself."""

from __future__ import annotations

from typing import Any, ClassVar

from workflows import Channel
from workflows.transports.outgoing import Outgoing, Sent


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
