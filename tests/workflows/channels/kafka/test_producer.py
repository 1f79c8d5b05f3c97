"""Writing to a broker that refuses, is killed, or is reached from a forked process."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.admin import ConfigResource, NewTopic

import workflows
from config.kafka import Broker
from tests.support.kafka import flows  # noqa: F401
from tests.support.kafka.world import Partner
from tests.support.processes import wait_until
from workflows.channels.kafka.producer import Record, send_records
from workflows.exceptions import DispatchFailed
from workflows.models import Interaction
from workflows.testing import drain

pytestmark = [pytest.mark.kafka, pytest.mark.process]


def make_records(topic: str, count: int) -> list[Record]:
    return [Record(topic, b"key", b"%d" % n) for n in range(count)]


@pytest.mark.kill
def test_a_broker_that_is_killed_while_it_is_written_to_has_each_record_once(
    own_broker: Broker, configure: Callable[..., None]
) -> None:
    partner = Partner(own_broker.bootstrap)
    topic = partner.make_topic("payments")
    # Slowly, so that there is a middle to kill it in.
    slow = {"linger.ms": 0, "batch.num.messages": 10, "max.in.flight.requests.per.connection": 1}
    configure({}, BOOTSTRAP=own_broker.bootstrap, PRODUCER=slow)
    results: list[Any] = []
    records = make_records(topic, 20_000)
    thread = threading.Thread(target=lambda: results.extend(send_records(records)))
    thread.start()
    wait_until(lambda: partner.count(topic), "the first records")
    own_broker.kill()
    own_broker.launch()
    thread.join(60)
    assert results == [None] * len(records)
    assert sorted(int(one.value() or b"") for one in partner.read(topic, len(records))) == list(range(len(records)))
    assert partner.count(topic) == len(records)


@pytest.mark.django_db
def test_an_unknown_topic_is_told_and_tried_again_while_others_get_theirs(
    own_broker: Broker, configure: Callable[..., None]
) -> None:
    partner = Partner(own_broker.bootstrap)
    known, answers = partner.make_topic("payments"), partner.make_topic("answers")
    quick = {"topic.metadata.propagation.max.ms": 300, "topic.metadata.refresh.interval.ms": 100}
    configure({answers: ["default"]}, BOOTSTRAP=own_broker.bootstrap, PRODUCER=quick)
    lost = workflows.start("kafka.pay", {"topic": "misspelt"})
    sent = workflows.start("kafka.pay", {"topic": known})
    drain()
    row = Interaction.objects.get(instance=lost)
    assert "Kafka did not take the record for 'misspelt': the broker has no such topic" in row.dispatch_error
    assert (row.tries, row.dispatched_at) == (1, None)
    assert row.dispatch_at is not None
    assert Interaction.objects.get(instance=sent).dispatched_at is not None
    partner.admin.create_topics([NewTopic("misspelt", 1, 1)])["misspelt"].result(30)

    def send_again() -> int:
        assert workflows.redrive(row) == [row.pk]
        drain()
        return partner.count("misspelt")

    # The client learns of the new topic at its next look.
    assert wait_until(send_again, "the record in the new topic") == 1


@pytest.mark.django_db
def test_a_record_that_is_too_large_for_its_topic_fails_the_question_at_once(
    partner: Partner, configure: Callable[..., None]
) -> None:
    answers, topic = partner.make_topic("answers"), f"small.{partner.mark}"
    small = NewTopic(topic, 1, 1, config={"max.message.bytes": "1000"})
    partner.admin.create_topics([small])[topic].result(30)
    described = ConfigResource(ConfigResource.Type.TOPIC, topic)
    wait_until(lambda: partner.admin.describe_configs([described])[described].result(30), "the topic's limit")
    configure({answers: ["default"]})
    # What could be compressed would fit.
    instance = workflows.start("kafka.pay", {"topic": topic, "amount": os.urandom(3000).hex()})
    drain()
    row = Interaction.objects.get(instance=instance)
    assert (row.status, row.dispatch_at) == ("failed", None), "to try again would lead nowhere"
    instance.refresh_from_db()
    assert instance.status == "failed"
    assert "more than the client or the topic takes" in instance.error


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("answers", "options", "told"),
    [
        ({}, {}, "no topic may answer questions of workspace 'default': add one to"),
        ({"a": ["default"], "b": "*"}, {}, "2 topics may answer questions of workspace 'default': name one"),
        ({"a": ["acme"]}, {"answers": "a"}, "may not answer questions of workspace 'default'; add it to"),
    ],
)
def test_a_question_whose_answer_could_not_come_back_is_not_sent(
    answers: dict[str, Any], options: dict[str, Any], told: str, partner: Partner, configure: Callable[..., None]
) -> None:
    topic = partner.make_topic("payments")
    configure(answers)
    instance = workflows.start("kafka.pay", {"topic": topic, **options})
    drain()
    assert told in Interaction.objects.get(instance=instance).dispatch_error
    assert partner.count(topic) == 0


def test_a_forked_process_writes_by_a_producer_of_its_own(partner: Partner, configure: Callable[..., None]) -> None:
    topic = partner.make_topic("payments")
    configure({})
    assert send_records(make_records(topic, 1)) == [None]
    pid = os.fork()
    if pid == 0:  # as a worker of django-q's does
        code = 1
        try:
            code = 0 if send_records(make_records(topic, 1)) == [None] else 2
        finally:
            os._exit(code)
    assert wait_until(lambda: os.waitpid(pid, os.WNOHANG), "the fork", is_it=lambda found: found[0] == pid) == (pid, 0)
    assert send_records(make_records(topic, 1)) == [None]
    assert partner.count(topic) == 3


def test_a_broker_that_nobody_reaches_is_told_as_away(configure: Callable[..., None]) -> None:
    configure({}, BOOTSTRAP="127.0.0.1:1", PRODUCER={"delivery.timeout.ms": 200, "request.timeout.ms": 100})
    [trouble] = send_records(make_records("payments", 1))
    assert isinstance(trouble, DispatchFailed)
    assert trouble.away
    assert not trouble.final
