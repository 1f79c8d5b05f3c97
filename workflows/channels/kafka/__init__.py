"""Questions by Apache Kafka: the channel that writes them to a topic, and the consumer of the answers."""

from workflows.channels.kafka.kafka_channel import Kafka
from workflows.channels.kafka.taking import take_again

__all__ = ["Kafka", "take_again"]
