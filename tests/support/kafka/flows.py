"""Workflows that ask over Kafka; also for the processes that tests start."""

from __future__ import annotations

from typing import Any

from approvals import Approval
from workflows import Channel, durable
from workflows.channels.kafka import Kafka


@durable(name="kafka.pay")
def pay(ctx: Any, topic: str, amount: int = 20, **options: Any) -> Any:
    timeout = options.pop("timeout", "1d")
    return ctx.wait_for("payment", Kafka(topic, request={"amount": amount}, **options), timeout=timeout)


class Courier(Channel[Any]):
    """A channel of its own that is answered by Kafka, and sends nothing."""

    name = "kafka.courier"
    doors = frozenset({"kafka"})


class Mine(Kafka[Any]):
    """One that names the topic of its answers, and reaches nobody."""

    name = "kafka.mine"

    @classmethod
    def dispatch_many(cls, questions: Any) -> list[Any]:
        return [None] * len(questions)


@durable(name="kafka.taking")
def ask(ctx: Any, channel: str = "kafka", schema: Any = None, answers: str | None = None) -> Any:
    """A label alone sends nothing: what is tested is the answer."""
    if channel == "callback":
        return ctx.callback("question", timeout="1h").wait()
    channels = {"approval": Approval("Pay 20", assignees=["ann"]), "courier": Courier()}
    channels["mine"] = Mine("requests", answers=answers)
    return ctx.wait_for("question", channels.get(channel, channel), schema=schema, timeout="1h")


@durable(name="kafka.each")
def ask_each(ctx: Any, count: int, on_item: Any = "fail") -> Any:
    results = ctx.wait_for_each("question", range(count), "kafka", timeout="1h", on_item=on_item)
    return results if on_item == "fail" else [one.status for one in results]


@durable(name="kafka.pay_each")
def pay_each(ctx: Any, topic: str, count: int, **options: Any) -> Any:
    return ctx.wait_for_each("payment", range(count), Kafka(topic), timeout="1h", **options)
