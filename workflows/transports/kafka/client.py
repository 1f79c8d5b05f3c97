"""The Kafka client, which is an extra, and how both of its sides are set up."""

from __future__ import annotations

import logging
from types import ModuleType
from typing import Any

from django.core.exceptions import ImproperlyConfigured

from workflows.conf_kafka import KafkaSettings

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
