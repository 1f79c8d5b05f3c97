"""Topics of a test's own on the run's broker, and a partner who reads the questions and writes answers."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.support.processes import wait_until

PATIENCE_SECONDS = 90.0


@dataclass
class Partner:
    """Whoever is asked: reads a topic from its beginning, and writes what a test wants."""

    bootstrap: str
    #: Part of every name, so that tests side by side never meet.
    mark: str = field(default_factory=lambda: uuid.uuid4().hex[:12])

    def __post_init__(self) -> None:
        self.producer = Producer({"bootstrap.servers": self.bootstrap, "linger.ms": 0})
        self.admin = AdminClient({"bootstrap.servers": self.bootstrap})
        self.group = f"group-{self.mark}"

    def make_topic(self, name: str, partitions: int = 1) -> str:
        topic = f"{name}.{self.mark}"
        self.admin.create_topics([NewTopic(topic, partitions, 1)])[topic].result(30)
        # The broker answers before every part of it knows the topic.
        wait_until(lambda: self._knows(topic, partitions), f"topic {topic}")
        return topic

    def _knows(self, topic: str, partitions: int) -> bool:
        found = self.admin.list_topics(topic, timeout=60).topics[topic]
        return (
            found.error is None
            and len(found.partitions) == partitions
            and all(one.leader >= 0 for one in found.partitions.values())
        )

    def write(self, topic: str, value: bytes | None, **options: Any) -> None:
        """One record, written when this returns."""
        self.write_all(topic, [value], **options)

    def write_all(self, topic: str, values: list[bytes | None], **options: Any) -> None:
        errors: list[object] = []
        for value in values:
            self.producer.produce(topic, value, on_delivery=lambda error, _: errors.append(error), **options)
            self.producer.poll(0)
        assert self.producer.flush(30) == 0
        assert errors == [None] * len(values), errors

    def read(self, topic: str, count: int = 1) -> list[Message]:
        """The first records of a topic, however many partitions it has."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": f"reader-{uuid.uuid4().hex}"})
        try:
            parts = consumer.list_topics(topic, timeout=60).topics[topic].partitions
            consumer.assign([TopicPartition(topic, part, OFFSET_BEGINNING) for part in parts])
            found: list[Message] = []

            def look() -> int:
                found.extend(one for one in consumer.consume(count - len(found), timeout=0.2) if one.error() is None)
                return len(found)

            wait_until(look, f"{count} records in {topic}", is_it=lambda seen: seen >= count)
            return found
        finally:
            consumer.close()

    def count(self, topic: str) -> int:
        """How many records the topic holds."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": f"reader-{uuid.uuid4().hex}"})
        try:
            parts = consumer.list_topics(topic, timeout=60).topics[topic].partitions
            marks = [consumer.get_watermark_offsets(TopicPartition(topic, part), timeout=60) for part in parts]
            return sum(high - low for low, high in marks)
        finally:
            consumer.close()

    @contextmanager
    def join(self, topic: str) -> Iterator[Callable[[], list[int]]]:
        """Another member of the group, who commits nothing; a look tells its partitions, and keeps it in the group."""
        options = {"group.id": self.group, "enable.auto.commit": False, "session.timeout.ms": 10_000}
        strategy = {"partition.assignment.strategy": "cooperative-sticky"}
        consumer = Consumer({"bootstrap.servers": self.bootstrap, **options, **strategy})
        consumer.subscribe([topic])

        def look() -> list[int]:
            consumer.poll(0.1)
            return sorted(held.partition for held in consumer.assignment())

        try:
            yield look
        finally:
            consumer.close()

    def find_committed(self, topic: str, group: str | None = None) -> int:
        """The sum of the offsets that the group has committed for a topic."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": group or self.group})
        try:
            parts = [
                TopicPartition(topic, part) for part in consumer.list_topics(topic, timeout=60).topics[topic].partitions
            ]
            return sum(max(one.offset, 0) for one in consumer.committed(parts, timeout=60))
        except KafkaException:
            return 0
        finally:
            consumer.close()


def read_requests(records: list[Message]) -> list[dict[str, Any]]:
    return [json.loads(one.value() or b"") for one in records]


def answer(request: Mapping[str, Any], answered: Any = None, /, **changes: Any) -> bytes:
    """A well-formed answer to a question; `changes` replace members, and None removes one."""
    envelope = {
        "type": "holdpoint.response",
        "version": 1,
        "workspace": request["workspace"],
        "interaction": request["interaction"],
        "data": answered,
    } | changes
    kept = {name: value for name, value in envelope.items() if value is not ...}
    return json.dumps(kept).encode()
