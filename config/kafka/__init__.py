"""An Apache Kafka of our own, for development and tests: one node that is broker and controller (KRaft).

`start()` gives a running broker with `.bootstrap` and `.stop()`; `temporary_broker()` one for a `with` block;
`fetch_jars()` takes its programs from Maven's central repository. Nothing here imports Django or a Kafka client.
"""

from config.kafka.broker import Broker, start, temporary_broker
from config.kafka.jars import KafkaError, fetch_jars, find_jars, find_java

__all__ = ["Broker", "KafkaError", "fetch_jars", "find_jars", "find_java", "start", "temporary_broker"]
