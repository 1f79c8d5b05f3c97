"""Writing records to topics, and waiting for the broker to have them.

Lives here: the one producer of a process. Invariants owned: it is idempotent, so what it repeats is written once; it
belongs to the process that made it, because its threads do not survive a fork; a record is reported as written only by
the broker itself.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from workflows.channels.kafka.kafka_client import Teller, describe_client, import_client
from workflows.conf import conf
from workflows.conf.kafka_settings import KafkaSettings
from workflows.exceptions import DispatchFailed

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Producer

logger = logging.getLogger("workflows")

#: Milliseconds that the client goes on trying to write one record, through restarts of brokers.
DELIVERY_MS = 20_000
#: Seconds after which a broker that is away is tried again.
AWAY_SECONDS = 5.0
DEFAULTS = {
    "linger.ms": 5,
    "compression.type": "lz4",
    "delivery.timeout.ms": DELIVERY_MS,
    # A topic that was made a moment ago is known at once, and one that is not there fails early.
    "topic.metadata.propagation.max.ms": 5_000,
    "topic.metadata.refresh.interval.ms": 10_000,
}
OURS = {"enable.idempotence": True, "acks": "all"}


@dataclass(frozen=True, slots=True)
class Record:
    """What is written to a topic."""

    topic: str
    key: bytes
    value: bytes
    headers: list[tuple[str, str | bytes | None]] = field(default_factory=list)


def send_records(records: Sequence[Record]) -> list[Exception | None]:
    """Write records; for each None once the broker has it, or why it has not."""
    settings = conf.kafka
    assert settings is not None  # no record is made without
    held = _hold_producer(settings)
    batch = _RecordBatch(held.producer, len(records))
    for place, record in enumerate(records):
        batch.write(place, record)
    results = batch.wait()
    if held.is_broken:
        _forget_producer(held)
    return results


class _RecordBatch:
    """Records on their way, and what the broker says of each."""

    def __init__(self, producer: Producer, count: int) -> None:
        self._producer = producer
        self._results: list[Exception | None] = [DispatchFailed("the broker did not say that it has it")] * count
        self._missing = 0
        self._lock = threading.Lock()

    def write(self, place: int, record: Record) -> None:
        def report(error: KafkaError | None, _message: Any) -> None:
            self._report(place, record, error)

        with self._lock:
            self._missing += 1
        while True:
            try:
                self._producer.produce(
                    record.topic, record.value, record.key, headers=record.headers, on_delivery=report
                )
                return
            except BufferError:  # more than the client holds: let some of it leave
                self._producer.poll(0.1)
            except Exception as error:
                self._report(place, record, _find_kafka_error(error), raised=error)
                return

    def wait(self) -> list[Exception | None]:
        # Whoever polls is told of the records of all threads, so each looks at its own count.
        until = time.monotonic() + DELIVERY_MS / 1000 + 10
        while self._missing and time.monotonic() < until:
            self._producer.poll(0.05)
        return self._results

    def _report(self, place: int, record: Record, error: KafkaError | None, *, raised: Exception | None = None) -> None:
        with self._lock:
            self._missing -= 1
            self._results[place] = raised if error is None else describe_trouble(record, error)


def describe_trouble(record: Record, error: KafkaError) -> DispatchFailed:
    """Why a record was not written, and whether that is the broker's absence, the record's fault or a passing one."""
    from confluent_kafka import KafkaError as E

    code = error.code()
    where = f"Kafka did not take the record for {record.topic!r}"
    if code in (E._MSG_TIMED_OUT, E._TRANSPORT, E._ALL_BROKERS_DOWN, E._TIMED_OUT, E._TIMED_OUT_QUEUE, E._RESOLVE):
        told = f"{where}: no broker took it within {DELIVERY_MS // 1000} s ({error.name()})"
        return DispatchFailed(told, away=True, retry_after=AWAY_SECONDS)
    if code in (E.MSG_SIZE_TOO_LARGE, E.RECORD_LIST_TOO_LARGE):
        return DispatchFailed(
            f"{where}: it has {len(record.value)} bytes, more than the client or the topic takes (message.max.bytes)",
            final=True,
        )
    if code in (E.UNKNOWN_TOPIC_OR_PART, E._UNKNOWN_TOPIC):
        return DispatchFailed(f"{where}: the broker has no such topic ({error.name()}); make it, or mend its name")
    return DispatchFailed(f"{where}: {error.str()}")


def _find_kafka_error(error: Exception) -> KafkaError | None:
    from confluent_kafka import KafkaError, KafkaException

    found = error.args[0] if isinstance(error, KafkaException) and error.args else None
    return found if isinstance(found, KafkaError) else None


class _Held:
    """A producer, the settings that it was made by, and whether it can go on."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings
        self.is_broken = False
        self._warn = Teller(logger)
        options = {**DEFAULTS, **describe_client(settings), **settings.producer, **OURS, "error_cb": self._tell}
        self.producer: Producer = import_client().Producer(options)

    def _tell(self, error: KafkaError) -> None:
        if error.fatal():  # an idempotent producer that lost its place in the order cannot go on
            self.is_broken = True
            logger.error("the Kafka producer cannot go on and is replaced: %s", error.str())
        else:
            self._warn(error.name(), f"Kafka: {error.str()}")


_lock = threading.Lock()
_held: _Held | None = None
#: Producers of the process that this one was forked from. To free one would wait for its threads, which are not here.
_inherited: list[_Held] = []


def _hold_producer(settings: KafkaSettings) -> _Held:
    """The process's producer; another one where the settings have changed, as they do in tests."""
    global _held
    with _lock:
        if _held is None or _held.settings != settings:
            _held = _Held(settings)
        return _held


def _forget_producer(held: _Held) -> None:
    global _held
    with _lock:
        if _held is held:
            _held = None


def _begin_anew() -> None:
    """In a forked process: the producer and whoever holds the lock are its parent's."""
    global _lock, _held
    _lock = threading.Lock()
    if _held is not None:
        _inherited.append(_held)
        _held = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
