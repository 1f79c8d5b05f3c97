"""Workflows that ask over Kafka; also for the processes that tests start."""

from __future__ import annotations

from typing import Any

from workflows import durable
from workflows.transports.kafka import Kafka


@durable(name="kafka.pay")
def pay(ctx: Any, topic: str, amount: int = 20, **options: Any) -> Any:
    timeout = options.pop("timeout", "1d")
    return ctx.wait_for("payment", Kafka(topic, request={"amount": amount}, **options), timeout=timeout)
