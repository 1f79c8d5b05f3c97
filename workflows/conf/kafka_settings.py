"""`WORKFLOWS["KAFKA"]`, read into a value.

Lives here: what may be written there, and what is said where it cannot be read. What must not: a Kafka client.
Invariant owned: no message shows a value of `CLIENT`, `PRODUCER` or `CONSUMER`, where passwords are.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workflows.exceptions import InvalidCall, show

#: Answers of a topic may be about every workspace.
ALL = "*"
GROUP = "holdpoint"
BATCH = 500
NAMES = ("BOOTSTRAP", "ANSWERS", "GROUP", "BATCH", "CLIENT", "PRODUCER", "CONSUMER")
#: What the transport counts on, and sets itself.
OURS = {
    "CLIENT": ("bootstrap.servers",),
    "PRODUCER": ("bootstrap.servers", "enable.idempotence", "acks"),
    "CONSUMER": (
        *("bootstrap.servers", "group.id"),
        *("enable.auto.commit", "enable.auto.offset.store", "enable.partition.eof"),
    ),
}

_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")


@dataclass(frozen=True, slots=True)
class KafkaSettings:
    """Where the broker is, and from which topics answers are taken."""

    bootstrap: str
    #: Topic -> the workspaces whose questions may be answered there; None: all of them.
    answers: Mapping[str, frozenset[str] | None]
    group: str = GROUP
    #: Answers that one transaction of the consumer takes at most.
    batch: int = BATCH
    #: Settings of librdkafka: for both, for the producer, for the consumer.
    client: Mapping[str, Any] = field(default_factory=dict, repr=False)
    producer: Mapping[str, Any] = field(default_factory=dict, repr=False)
    consumer: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def trusts(self, topic: str, workspace: str) -> bool:
        """Whether what is written to the topic may answer questions of the workspace."""
        trusted = self.answers.get(topic, frozenset())
        return trusted is None or workspace in trusted

    def list_topics(self, workspace: str) -> list[str]:
        """The topics by which questions of the workspace may be answered."""
        return [topic for topic in self.answers if self.trusts(topic, workspace)]


def read_kafka(given: object) -> KafkaSettings:
    """The setting as a value; `InvalidCall` says what to write instead.

    >>> read_kafka({"BOOTSTRAP": "kafka:9092", "ANSWERS": {"answers": ["default"]}}).trusts("answers", "acme")
    False
    """
    if not isinstance(given, Mapping):
        raise InvalidCall('Write {"BOOTSTRAP": "kafka-1:9092,kafka-2:9092", "ANSWERS": {"a topic": ["a workspace"]}}')
    for name in given:
        if name not in NAMES:
            raise InvalidCall(f"There is no {name!r:.60} in it. There are {', '.join(NAMES)}")
    bootstrap = given.get("BOOTSTRAP")
    if not isinstance(bootstrap, str) or not bootstrap.strip():
        raise InvalidCall('"BOOTSTRAP" names the brokers: "kafka-1:9092,kafka-2:9092"')
    group, batch = given.get("GROUP", GROUP), given.get("BATCH", BATCH)
    if not isinstance(group, str) or not group.strip():
        raise InvalidCall('"GROUP" is the name that the consumers of one site share, such as "holdpoint"')
    if not isinstance(batch, int) or isinstance(batch, bool) or not 1 <= batch <= 10_000:
        raise InvalidCall('"BATCH" is a whole number from 1 to 10000')
    return KafkaSettings(
        bootstrap,
        _read_answers(given.get("ANSWERS", {})),
        group,
        batch,
        **{name.lower(): _read_options(name, given.get(name, {})) for name in OURS},
    )


def check_topic(topic: object) -> str:
    """A topic's name as Kafka allows it.

    >>> check_topic("payments.requests")
    'payments.requests'
    """
    if not isinstance(topic, str) or not _TOPIC.fullmatch(topic) or topic in (".", ".."):
        raise InvalidCall(f"{show(topic)} is no topic: use 1 to 249 letters, digits, dots, hyphens and underscores")
    return topic


def _read_answers(given: object) -> dict[str, frozenset[str] | None]:
    fix = f'"ANSWERS" says whose questions each topic may answer: {{"payments.answers": ["acme"]}}, or "{ALL}" for all'
    if not isinstance(given, Mapping):
        raise InvalidCall(fix)
    answers: dict[str, frozenset[str] | None] = {}
    for topic, workspaces in given.items():
        if workspaces == ALL:
            answers[check_topic(topic)] = None
            continue
        if isinstance(workspaces, str) or not isinstance(workspaces, Sequence):
            raise InvalidCall(fix)
        if not workspaces or not all(isinstance(one, str) and one for one in workspaces):
            raise InvalidCall(fix)
        answers[check_topic(topic)] = frozenset(workspaces)
    return answers


def _read_options(name: str, given: object) -> Mapping[str, Any]:
    if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
        raise InvalidCall(f'"{name}" holds settings of librdkafka: {{"security.protocol": "SASL_SSL"}}')
    for key in given:
        if key in OURS[name]:
            where = {"bootstrap.servers": 'write "BOOTSTRAP"', "group.id": 'write "GROUP"'}.get(key, "leave it away")
            raise InvalidCall(f'"{name}" may not set {key!r}: {where}')
    return given
