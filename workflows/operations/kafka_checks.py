"""System checks of the Kafka transport: what keeps it from working, and what leaves it open.

Invariant owned: nothing is asked of a broker, and no message shows what librdkafka is configured with.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from django.core.checks import CheckMessage, Error, Warning
from django.core.exceptions import ImproperlyConfigured

from workflows.channels.kafka.kafka_client import INSTALL, describe_client, import_client
from workflows.conf import conf
from workflows.conf.kafka_settings import KafkaSettings

LOOPBACK = ("127.", "localhost", "[::1]")


def read_settings() -> KafkaSettings | None:
    """The setting, if there is one that can be read; one that cannot is told of with all other settings."""
    try:
        return conf.kafka
    except ImproperlyConfigured:
        return None


def check_kafka() -> Iterator[CheckMessage]:
    """Whether questions can be written, and answers read."""
    settings = read_settings()
    if settings is None:
        return
    if find_spec("confluent_kafka") is None:
        yield Error(
            'WORKFLOWS["KAFKA"] is set, and confluent-kafka is not installed: no question leaves by Kafka.',
            hint=f"{INSTALL}.",
            id="holdpoint.E070",
        )
        return
    yield from _check_options(settings)
    if not settings.answers:
        yield Warning(
            'WORKFLOWS["KAFKA"]["ANSWERS"] names no topic: questions that are asked by Kafka are '
            "not sent, because no request could say where its answer goes.",
            hint='Set "ANSWERS": {"a topic": ["a workspace"]}, and run manage.py workflow_kafka.',
            id="holdpoint.W071",
        )


def check_kafka_deploy() -> Iterator[CheckMessage]:
    """What only matters where others can listen."""
    settings = read_settings()
    if settings is None:
        return
    brokers = [one.strip() for one in settings.bootstrap.split(",")]
    protocol = str(settings.client.get("security.protocol", "plaintext")).lower()
    if not protocol.endswith("ssl") and not all(one.startswith(LOOPBACK) for one in brokers):
        yield Warning(
            "Kafka is spoken to in plain text: whoever is on the way reads the questions and can write answers.",
            hint='Set "CLIENT": {"security.protocol": "SASL_SSL", …} in WORKFLOWS["KAFKA"], and let only those write '
            "to the topics of answers whom you trust with the workspaces that they are for.",
            id="holdpoint.W072",
        )


def _check_options(settings: KafkaSettings) -> Iterator[CheckMessage]:
    """Let the client read its settings; without an address it connects to nobody."""
    client = import_client()
    for name, make, options in (
        ("PRODUCER", client.Producer, settings.producer),
        ("CONSUMER", client.Consumer, {**settings.consumer, "group.id": settings.group}),
    ):
        given = {**describe_client(settings), **options}
        del given["bootstrap.servers"]
        try:
            made = make(given)
            if name == "CONSUMER":
                made.close()
        except (client.KafkaException, TypeError, ValueError) as error:
            # Its words name the property and not the value, but for one that is none of a list.
            key = next((key for key in given if key in str(error)), "a property")
            yield Error(
                f'WORKFLOWS["KAFKA"]: the {name.lower()} cannot be made, because of {key!r} in "CLIENT" or "{name}".',
                hint="Write it as the list of librdkafka's configuration properties has it.",
                id="holdpoint.E073",
            )
