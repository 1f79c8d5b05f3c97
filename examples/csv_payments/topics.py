"""The two topics of the run over Kafka."""

from __future__ import annotations

from examples.csv_payments.channels import find_answers, find_topic

PARTITIONS = 4


def make_topics(bootstrap: str) -> None:
    """Make those that are not there yet."""
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    known = admin.list_topics(timeout=10).topics
    missing = [NewTopic(name, PARTITIONS, 1) for name in (find_topic(), find_answers()) if name not in known]
    for one in admin.create_topics(missing).values() if missing else ():
        one.result(30)
