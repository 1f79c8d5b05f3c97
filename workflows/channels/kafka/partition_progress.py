"""How far each partition has been read, and which of them stands still though more was written to it.

Must not live here: what is done about it (`intake`). Invariants owned:

* A partition is said to stand still only if it brought nothing over two looks, and had more at both of them.
* While records flow the broker is asked nothing; at rest it is asked one thing in a while.
* Nothing is concluded from a time in which the broker or the database was away.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import Consumer, TopicPartition

#: A topic and a number.
Place = tuple[str, int]

#: Seconds between two looks. What stands still is noticed at the third.
LOOK_EVERY_SECONDS = 20.0
#: The same where to begin again did not help: twice as long each time, up to this.
MOST_SECONDS = 640.0
#: The broker's time to answer; reading waits meanwhile, and so does a stop.
ANSWER_SECONDS = 2.0


class PartitionProgress:
    """Of one consumer; belongs to its thread."""

    def __init__(self) -> None:
        #: The offset after the last one that came, or the end where the client said that there is no more.
        self._reached: dict[Place, int] = {}
        self._every = LOOK_EVERY_SECONDS
        self.rest()

    def note(self, topic: str, partition: int, offset: int) -> None:
        """Everything before this offset has come."""
        self._reached[topic, partition] = offset

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """They are another consumer's."""
        for partition in partitions:
            self._reached.pop((partition.topic, partition.partition), None)

    def rest(self) -> None:
        """Something was away: what was seen until now says nothing."""
        self._looked = time.monotonic()
        #: As it was at the last look, for all that was held then.
        self._before: dict[Place, int | None] = {}
        #: Those that had more at the last look.
        self._behind: set[Place] = set()

    def find_still(self, consumer: Consumer) -> list[Place]:
        """Partitions that stand still. To be called when all that had come was just read."""
        now = time.monotonic()
        if now - self._looked < self._every:
            return []
        self._looked = now
        held = [(place.topic, place.partition) for place in consumer.assignment()]
        reached = {place: self._reached.get(place) for place in held}
        quiet = [place for place, offset in reached.items() if self._before.get(place, -1) == offset]
        self._before = reached
        behind = self._find_behind(consumer, quiet) if quiet else set()
        still = sorted(behind & self._behind)
        self._behind = behind
        if still:
            self._every = min(2 * self._every, MOST_SECONDS)
        elif not behind and None not in reached.values():
            self._every = LOOK_EVERY_SECONDS
        return still

    def _find_behind(self, consumer: Consumer, places: list[Place]) -> set[Place]:
        """Those with records that have not come; none where the broker does not say."""
        from confluent_kafka import OFFSET_END, KafkaException, TopicPartition

        asked = [TopicPartition(topic, partition, OFFSET_END) for topic, partition in places]
        try:
            ends = consumer.offsets_for_times(asked, timeout=ANSWER_SECONDS)
        except KafkaException:
            return set()
        # A partition of which nothing was ever heard has more as soon as it has anything: its end would be told.
        return {
            (end.topic, end.partition)
            for end in ends
            if end.error is None and end.offset > self._reached.get((end.topic, end.partition), 0)
        }
