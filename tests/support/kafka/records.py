"""Records of a topic without a broker: a question that waits, its answers as records, and taking them."""

from __future__ import annotations

from typing import Any

import workflows
from tests.support.kafka import flows  # noqa: F401
from workflows.channels.kafka.taking import Received, Taken, take_answers
from workflows.conf import conf
from workflows.models import Interaction
from workflows.testing import drain

TOPIC = "answers"


def ask(workspace: str = "default", **options: Any) -> Interaction:
    """A question that waits for its answer; it is not sent, because nothing here drains."""
    with workflows.workspace(workspace):
        instance = workflows.start("kafka.taking", options)
    drain()
    return Interaction.objects.get(instance=instance)


def describe(row: Interaction) -> dict[str, Any]:
    return {"workspace": row.workspace.slug, "interaction": str(row.pk)}


_offsets = iter(range(1_000_000))


def receive(value: bytes | None, *, topic: str = TOPIC, offset: int | None = None) -> Received:
    number = next(_offsets) if offset is None else offset
    return Received(topic, 0, number, 1_700_000_000_000, b"key", value, [("tenant", b"acme\xff")])


def take(*records: Received) -> Taken:
    assert conf.kafka is not None
    return take_answers(records, conf.kafka)


def refuse_strangers(operation: str, interaction: Any, actor: str) -> Any:
    if actor.startswith("kafka:"):
        raise ZeroDivisionError("the project's own mistake")
    return None
