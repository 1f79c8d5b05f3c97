"""The Kafka client, which is an extra, and how both of its sides are set up."""

from __future__ import annotations

import logging
import time
from types import ModuleType
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from workflows.conf.kafka_settings import KafkaSettings

logger = logging.getLogger("workflows.kafka")

INSTALL = 'pip install "django-holdpoint[kafka]"'


def import_client() -> ModuleType:
    """`confluent_kafka`; where it is not installed, what to do."""
    try:
        import confluent_kafka
    except ImportError as error:
        raise ImproperlyConfigured(f"The Kafka transport needs confluent-kafka: {INSTALL}") from error
    return confluent_kafka


def describe_client(settings: KafkaSettings) -> dict[str, Any]:
    """What the producer and the consumer have in common."""
    return {
        "client.id": "holdpoint",
        "logger": logger,
        # A broker that comes back is found within seconds.
        "reconnect.backoff.max.ms": 2_000,
        **settings.client,
        "bootstrap.servers": settings.bootstrap,
    }


class Teller:
    """Writes warnings to a log, each kind once in a while: a client reports a broker that is away every second."""

    PAUSE_SECONDS = 30.0

    def __init__(self, log: logging.Logger) -> None:
        self._log = log
        self._told: dict[str, float] = {}

    def __call__(self, kind: str, text: str) -> None:
        now = time.monotonic()
        if now - self._told.get(kind, -self.PAUSE_SECONDS) >= self.PAUSE_SECONDS:
            self._told[kind] = now
            self._log.warning("%s", text)
