"""A partition that is held and brings nothing of what is there: it is noticed, and read all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition

import workflows
from config.kafka import Broker
from tests.support.kafka.consumer import Consumer as Member
from tests.support.kafka.records import describe
from tests.support.kafka.world import Partner, answer
from tests.support.processes import wait_until
from tests.support.races import COMMITTED
from workflows.channels.kafka import partition_progress
from workflows.channels.kafka.partition_progress import PartitionProgress
from workflows.models import Interaction
from workflows.testing import assert_done, drain

pytestmark = [pytest.mark.kafka, pytest.mark.process]


class Reader:
    """A consumer whose progress is kept as the intake keeps it, and looked at when the test says."""

    def __init__(self, partner: Partner, topic: str) -> None:
        self.progress = PartitionProgress()
        options = {"group.id": partner.group, "enable.auto.commit": False, "enable.partition.eof": True}
        self.consumer = Consumer(
            {"bootstrap.servers": partner.bootstrap, "auto.offset.reset": "earliest", "log_level": 0, **options}
        )
        self.consumer.subscribe([topic])
        self.ends: dict[int, int] = {}

    def read(self) -> None:
        for message in self.consumer.consume(100, 0.1):
            error, topic = message.error(), message.topic()
            partition, offset = message.partition(), message.offset()
            assert error is None or error.code() == KafkaError._PARTITION_EOF
            assert topic is not None
            assert partition is not None
            assert offset is not None
            if error is not None:
                self.ends[partition] = offset
            self.progress.note(topic, partition, offset if error else offset + 1)

    def read_to(self, *ends: int) -> None:
        """Until the client has said that these are the ends of all its partitions."""

        def look() -> dict[int, int]:
            self.read()
            return self.ends

        wait_until(look, f"the ends {ends}", is_it=lambda seen: seen == dict(enumerate(ends)))

    def look(self) -> list[int]:
        return [partition for _, partition in self.progress.find_still(self.consumer)]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each look is due; those of a test are made by hand, or one for each read."""
    monkeypatch.setattr(partition_progress, "LOOK_EVERY_SECONDS", 0.0)


@pytest.fixture
def open_reader() -> Iterator[Callable[[Partner, str], Reader]]:
    readers: list[Reader] = []

    def open_reader(partner: Partner, topic: str) -> Reader:
        readers.append(Reader(partner, topic))
        return readers[-1]

    yield open_reader
    for reader in readers:
        reader.consumer.close()


def test_what_stands_still_is_said_at_the_third_look_and_what_was_read_to_its_end_never(
    partner: Partner, open_reader: Any
) -> None:
    topic = partner.make_topic("answers", 3)
    partner.write(topic, b"one", partition=0)
    reader = open_reader(partner, topic)
    reader.read_to(1, 0, 0)
    assert [reader.look() for _ in range(4)] == [[]] * 4
    reader.consumer.pause([held for held in reader.consumer.assignment() if held.partition < 2])
    for partition in (1, 2):
        partner.write(topic, b"two", partition=partition)
    wait_until(lambda: reader.read() or reader.ends[2], "the one that is read", is_it=lambda end: end == 1)
    reader.progress.rest()
    assert [reader.look() for _ in range(4)] == [[], [], [1], [1]]
    reader.consumer.resume(reader.consumer.assignment())
    reader.read_to(1, 1, 1)
    assert [reader.look() for _ in range(4)] == [[]] * 4


def test_a_partition_that_never_began_stands_still_as_soon_as_there_is_something(
    partner: Partner, open_reader: Any
) -> None:
    topic = partner.make_topic("answers", 2)
    reader = open_reader(partner, topic)
    reader.read_to(0, 0)
    reader.progress.forget(reader.consumer.assignment())
    reader.consumer.pause(reader.consumer.assignment())
    assert [reader.look() for _ in range(4)] == [[]] * 4
    partner.write(topic, b"one", partition=1)
    assert [reader.look() for _ in range(2)] == [[], [1]]


def test_marks_of_transactions_at_the_end_of_a_partition_are_nothing_that_is_missed(
    partner: Partner, open_reader: Any
) -> None:
    topic = partner.make_topic("answers")
    writer = Producer({"bootstrap.servers": partner.bootstrap, "transactional.id": partner.mark})
    writer.init_transactions(60)
    for end in (writer.commit_transaction, writer.abort_transaction):
        writer.begin_transaction()
        writer.produce(topic, b"one")
        writer.flush(60)
        end(60)
    reader = open_reader(partner, topic)
    reader.read_to(4)
    assert [reader.look() for _ in range(4)] == [[]] * 4


@pytest.mark.kill
def test_nothing_is_said_of_a_broker_that_is_away(own_broker: Broker, open_reader: Any) -> None:
    partner = Partner(own_broker.bootstrap)
    topic = partner.make_topic("answers")
    reader = open_reader(partner, topic)
    reader.read_to(0)
    reader.consumer.pause(reader.consumer.assignment())
    partner.write(topic, b"one")
    assert [reader.look() for _ in range(2)] == [[], []]
    own_broker.kill()
    assert reader.look() == []
    own_broker.launch()
    wait_until(reader.look, "what stands still", is_it=lambda still: still == [0])


@COMMITTED
@pytest.mark.usefixtures("committed")
def test_a_consumer_whose_partitions_stand_still_joins_again_and_reads_them(
    partner: Partner, configure: Callable[..., None], caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Soon, and yet twice as late each time: where a machine is slow, a client that begins again is let begin.
    monkeypatch.setattr(partition_progress, "LOOK_EVERY_SECONDS", 0.5)
    topic = partner.make_topic("answers", 4)
    configure({topic: ["default"]})
    workflows.start_many("kafka.taking", [{}] * 20)
    drain()
    rows = list(Interaction.objects.select_related("workspace").order_by("id"))
    partner.write_all(topic, [answer(describe(row), number) for number, row in enumerate(rows)])
    member = Member()
    stuck = member.intake._consumer

    def hold_up(_: str) -> None:
        """On the intake's own thread and behind its back: nobody knows of the pause who would end it."""
        if member.intake._consumer is stuck:
            partitions = [TopicPartition(topic, number) for number in range(4)]
            stuck.incremental_assign(partitions)
            stuck.pause(partitions)

    member.intake._on_ready = hold_up
    member.thread.start()
    try:
        wait_until(lambda: member.intake.taken.completed, "20 answers", is_it=lambda seen: seen == 20)
        assert member.intake._consumer is not stuck
    finally:
        member.stop()
    assert "nothing comes of" in caplog.text
    drain()
    for number, row in enumerate(rows):
        assert_done(row.instance, result=number)
    assert partner.find_committed(topic) == 20
