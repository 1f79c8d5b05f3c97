"""How a payment reaches the provider: within the process, by webhook, or over Kafka. The machine is the same."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from typing import Any

import workflows
from examples.csv_payments.provider import SLOW_SECONDS, Status, decide, order_answers
from workflows import Channel
from workflows.channels.kafka import Kafka
from workflows.channels.outgoing import Outgoing, Sent
from workflows.channels.webhook import Webhook

VIA = ("inprocess", "webhook", "kafka")


class InProcess(Channel[Status]):
    """A provider in the worker's own process, which answers before it counts as asked.

    So a worker that is killed meanwhile asks again, and what was answered already is not taken a second time.
    """

    name = "inprocess"
    sends = True
    batch = 100
    threads = 16

    @classmethod
    def dispatch_many(cls, questions: Sequence[Outgoing]) -> list[Sent | Exception | None]:
        """Answer all of them, out of order."""
        quick, slow = order_answers([(one.request, one) for one in questions])
        answer(quick)
        if slow:
            time.sleep(SLOW_SECONDS)
            answer(slow)
        return [None] * len(questions)


def answer(questions: Sequence[Outgoing]) -> None:
    """Tell what the provider decided of each; what is said twice, or no longer wanted, is refused and left."""
    for workspace in {one.workspace for one in questions}:
        told = [(one.id, decide(one.request)) for one in questions if one.workspace == workspace]
        workflows.complete_many(told, workspace=workspace, actor="provider")


def make_channel(via: str) -> Channel[Any]:
    """The channel of each record of a run."""
    if via == "kafka":
        return Kafka(find_topic(), answers=find_answers())
    if via == "webhook":
        return Webhook(find_address())
    return InProcess()


def find_topic() -> str:
    """The topic that the provider reads."""
    return os.environ.get("CSV_PAYMENTS_TOPIC", "csv_payments.requests")


def find_answers() -> str:
    """The topic that it writes to."""
    return os.environ.get("CSV_PAYMENTS_ANSWERS", "csv_payments.answers")


def find_address() -> str:
    """The address that it takes payments at."""
    return os.environ.get("CSV_PAYMENTS_ADDRESS", "http://127.0.0.1:8600/payments")
