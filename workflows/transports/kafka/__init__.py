"""Questions by Apache Kafka: the channel that writes them to a topic, and the consumer of the answers."""

from workflows.transports.kafka.channel import Kafka

__all__ = ["Kafka"]
