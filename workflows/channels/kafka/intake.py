"""The consumer: reads the topics of answers, lets them be taken, and then tells the broker how far it is.

Must not live here: what becomes of a record (`taking`). Invariants owned:

* An offset is committed only after the database has committed everything before it.
* Where the database is away, nothing is lost and nothing committed: the same records are tried again when it is back,
  and the group is told meanwhile that this consumer lives.
* A stop finishes the batch under way, if the database lets it, commits its offsets and leaves the group.
* A partition that it holds is read: where the client brings nothing of what is there, a new client takes its place.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from django.db import connections, router

from workflows.channels.kafka.kafka_client import Teller, describe_client, import_client
from workflows.channels.kafka.partition_progress import PartitionProgress, Place
from workflows.channels.kafka.taking import AWAY, Received, Taken, is_there, take_answers
from workflows.conf.kafka_settings import KafkaSettings
from workflows.models import Interaction

if TYPE_CHECKING:
    from confluent_kafka import Consumer, KafkaError, Message, TopicPartition

logger = logging.getLogger("workflows")

#: Seconds of one look for records; a stop is noticed as late.
LOOK_SECONDS = 0.5
#: Seconds between two looks whether the database is back.
AWAY_SECONDS = 1.0
DEFAULTS = {
    # An answer that was written before the first consumer came is taken as well.
    "auto.offset.reset": "earliest",
    # One that was killed is missed after so many milliseconds, and its partitions go to the others.
    "session.timeout.ms": 10_000,
    "heartbeat.interval.ms": 3_000,
    # Partitions that stay with a consumer are not taken from it for a moment.
    "partition.assignment.strategy": "cooperative-sticky",
    # A topic that is made later is found as soon.
    "topic.metadata.refresh.interval.ms": 10_000,
}
UNCOMMITTED = "offsets were not committed; what was taken is recognised when it comes again"
#: The last one: that a partition has no more is told as well, so it is known from one whose records do not come.
OURS = {"enable.auto.commit": False, "enable.auto.offset.store": False, "enable.partition.eof": True}


class Intake:
    """One consumer of a site's group. `run` belongs to one thread; `stop` may be called from any, or by a signal."""

    def __init__(
        self, settings: KafkaSettings, *, topics: Sequence[str] = (), on_ready: Callable[[str], None] = logger.info
    ) -> None:
        self.settings = settings
        self.topics = list(topics or settings.answers)
        self.taken = Taken()
        self._on_ready = on_ready
        self._stopping = threading.Event()
        self._tell = Teller(logger)
        self._next: dict[Place, int] = {}
        self._progress = PartitionProgress()
        #: Whether the database is away: then nothing new is asked for.
        self._is_paused = False
        self._consumer = self._connect()

    def stop(self) -> None:
        """Finish what is under way, and end."""
        self._stopping.set()

    def run(self) -> None:
        """Take answers until told to stop."""
        self._join()
        try:
            while not self._stopping.is_set():
                messages = self._read()
                records = [record for message in messages if (record := self._receive(message)) is not None]
                # Of a full batch it is not known whether the rest is on its way.
                still = self._progress.find_still(self._consumer) if len(messages) < self.settings.batch else []
                if records:
                    self._take(records)
                if still and not self._stopping.is_set():
                    self._begin_again(still)
        finally:
            self._leave()
            connections.close_all()

    def _connect(self) -> Consumer:
        settings = self.settings
        options = {**DEFAULTS, **describe_client(settings), **settings.consumer, **OURS, "group.id": settings.group}
        consumer: Consumer = import_client().Consumer(
            {**options, "error_cb": self._tell_error, "on_commit": self._tell_commit}
        )
        return consumer

    def _join(self) -> None:
        self._consumer.subscribe(
            self.topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def _leave(self) -> None:
        self._commit(wait=True)
        self._consumer.close()

    def _begin_again(self, still: list[Place]) -> None:
        """Whatever holds them up is in the client, so it goes; what was not committed is read again."""
        places = ", ".join(f"{topic}/{partition}" for topic, partition in still)
        logger.warning(
            "nothing comes of %s, though there is more; this consumer leaves its group and joins again", places
        )
        self._leave()
        self._next.clear()
        self._consumer = self._connect()
        self._join()

    def _read(self) -> list[Message]:
        """What is there, up to a batch; waits a moment for the first."""
        first = self._consumer.poll(LOOK_SECONDS)
        if first is None:
            return []
        more = self._consumer.consume(self.settings.batch - 1, 0) if self.settings.batch > 1 else []
        return [first, *more]

    def _receive(self, message: Message) -> Received | None:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        if (error := message.error()) is not None:
            from confluent_kafka import KafkaError

            if error.code() != KafkaError._PARTITION_EOF:
                self._tell_error(error)
            elif topic is not None and partition is not None and offset is not None:
                self._progress.note(topic, partition, offset)
            return None
        _, sent_ms = message.timestamp()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        self._progress.note(topic, partition, offset + 1)
        headers: Any = message.headers() or []
        return Received(topic, partition, offset, sent_ms, message.key(), message.value(), headers)

    def _take(self, records: list[Received]) -> None:
        """Until the database has them; then the broker is told. What was given to another consumer meanwhile is its."""
        while True:
            try:
                taken = take_answers(records, self.settings)
                break
            except AWAY as error:
                self._tell("database", f"the database is away, so answers wait: {error}".strip())
                if not self._wait_for_database():
                    return
                ours = {(one.topic, one.partition) for one in self._consumer.assignment()}
                records = [one for one in records if (one.topic, one.partition) in ours]
                if not records:
                    return
        self.taken += taken
        for one in records:
            self._next[one.topic, one.partition] = one.offset + 1
        self._commit(wait=False)

    def _wait_for_database(self) -> bool:
        """Stay in the group, and return once the database is back; False where a stop came first."""
        db = connections[router.db_for_write(Interaction)]
        self._is_paused = True
        try:
            self._consumer.pause(self._consumer.assignment())
            while not self._stopping.is_set():
                message = self._consumer.poll(AWAY_SECONDS)  # without it the group would miss us
                if message is not None and message.error() is None:
                    self._give_back(message)
                if is_there(db):
                    logger.warning("the database is back; answers are taken again")
                    return True
            return False
        finally:
            self._is_paused = False
            self._consumer.resume(self._consumer.assignment())
            self._progress.rest()

    def _give_back(self, message: Message) -> None:
        """A record of a partition that came while nothing was asked for: it is read again."""
        from confluent_kafka import TopicPartition

        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        self._consumer.seek(TopicPartition(topic, partition, offset))

    def _commit(self, *, wait: bool) -> None:
        """Tell the broker how far the database is. It may be away: then it is told with the next batch, or never."""
        from confluent_kafka import KafkaException, TopicPartition

        offsets = [TopicPartition(topic, part, offset) for (topic, part), offset in self._next.items()]
        if not offsets:
            return
        try:
            if wait:
                self._consumer.commit(offsets=offsets, asynchronous=False)
            else:
                self._consumer.commit(offsets=offsets, asynchronous=True)
        except KafkaException as error:
            self._tell("commit", f"{UNCOMMITTED}: {error}")

    # --- what the client tells, on the thread of `run` ------------------------------------------------------------

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        if self._is_paused:
            consumer.incremental_assign(partitions)
            consumer.pause(partitions)
        else:
            # The client keeps the pause of a partition that it had to give away, until somebody resumes it.
            consumer.resume(partitions)
        self._on_ready(", ".join(f"{one.topic}/{one.partition}" for one in partitions) or "nothing more")

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Whoever gets them begins where we are."""
        self._commit(wait=True)
        self._on_lost(consumer, partitions)

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """Others read them already: to commit would set them back."""
        self._progress.forget(partitions)
        for one in partitions:
            self._next.pop((one.topic, one.partition), None)

    def _tell_commit(self, error: KafkaError | None, partitions: list[TopicPartition]) -> None:
        if error is not None:
            self._tell("commit", f"{UNCOMMITTED}: {error}")

    def _tell_error(self, error: KafkaError) -> None:
        from confluent_kafka import KafkaError

        if error.code() == KafkaError._ALL_BROKERS_DOWN:
            self._progress.rest()
        self._tell(error.name(), f"Kafka: {error.str()}")
