"""The provider as a program of its own: `python -m examples.csv_payments.partners webhook|kafka`. It has no Django.

By webhook it takes a payment, says 202 and posts the status to the resume URL later. Over Kafka it reads one topic and
writes to another. It may be killed at any moment: what it had not answered for is sent again.
"""

from __future__ import annotations

import heapq
import http.client
import itertools
import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

from standardwebhooks import Webhook, WebhookVerificationError

from examples.csv_payments.provider import SLOW_SECONDS, decide, is_repeated, is_slow

#: The status of a payment comes a moment later, of a slow one much later: so they come in any order.
QUICK_SECONDS = float(os.environ.get("CSV_PAYMENTS_SECONDS", "0.05"))
POSTERS = 8
#: Seconds between two notes of how far was read.
COMMIT_EVERY = 0.5


class Later:
    """Calls that are due later, made by threads of their own."""

    def __init__(self, threads: int) -> None:
        self._numbers = itertools.count()
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._changed = threading.Condition()
        for _ in range(threads):
            threading.Thread(target=self._run, daemon=True).start()

    def call(self, seconds: float, work: Callable[[], None]) -> None:
        with self._changed:
            heapq.heappush(self._due, (time.monotonic() + seconds, next(self._numbers), work))
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._due or (left := self._due[0][0] - time.monotonic()) > 0:
                    self._changed.wait(left if self._due else None)
                work = heapq.heappop(self._due)[2]
            work()


def find_delays(payment: dict[str, Any]) -> list[float]:
    """After how many seconds its status is told; of some payments twice."""
    first = SLOW_SECONDS if is_slow(payment) else 0.0
    return [first + random.uniform(0, QUICK_SECONDS) for _ in range(2 if is_repeated(payment) else 1)]


# --- by webhook ----------------------------------------------------------------------------------------


class Door(BaseHTTPRequestHandler):
    """Takes payments that are signed with our secret."""

    protocol_version = "HTTP/1.1"
    later: Later
    posters = threading.local()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            Webhook(os.environ["CSV_PAYMENTS_SECRET"]).verify(body, dict(self.headers.items()))
        except WebhookVerificationError:
            self.answer(401)
            return
        question = json.loads(body)
        status = json.dumps({"data": decide(question["request"])}).encode()
        for seconds in find_delays(question["request"]):
            self.later.call(seconds, lambda: self.post(question["resume_url"], status))
        self.answer(202)

    def answer(self, status: int) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    @classmethod
    def post(cls, url: str, body: bytes, tries: int = 20) -> None:
        """Until the other side says that it knows; it is told of the same payment by the same address."""
        place = urlsplit(url)
        try:
            connection = getattr(cls.posters, "connection", None)
            if connection is None:
                connection = cls.posters.connection = http.client.HTTPConnection(place.netloc, timeout=30)
            connection.request("POST", place.path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            failed = answer.status >= 500 or answer.status == 429
        except (OSError, http.client.HTTPException):
            cls.posters.connection = None
            failed = True
        if failed and tries:
            cls.later.call(random.uniform(0.5, 1.5), lambda: cls.post(url, body, tries - 1))

    def log_message(self, *_: Any) -> None:
        """Nothing: there are thousands."""


def serve_webhook(port: int) -> None:
    Door.later = Later(POSTERS)
    server = ThreadingHTTPServer(("127.0.0.1", port), Door)
    server.request_queue_size = 128
    print(f"the provider takes payments at port {server.server_port}", flush=True)
    server.serve_forever()


# --- over Kafka ----------------------------------------------------------------------------------------


def serve_kafka(bootstrap: str, requests: str) -> None:
    """Answer what is read. A payment is read off its topic when its answers are written, so a kill repeats some."""
    from confluent_kafka import Consumer, Producer

    # A broker that is away comes back: no answer is given up.
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5, "acks": "all", "message.timeout.ms": 0})
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"provider-{requests}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 6000,
        }
    )
    consumer.subscribe([requests])
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    print(f"the provider reads {requests}", flush=True)
    desk = Desk()
    committed = time.monotonic()
    while not stop.is_set():
        for record in consumer.consume(500, timeout=0.02):
            if record.error() is None:
                desk.take(record)
        for topic, value in desk.list_due():
            produce(producer, topic, value)
        producer.poll(0)
        if time.monotonic() - committed > COMMIT_EVERY and producer.flush(30) == 0:
            committed = time.monotonic()
            if ends := desk.list_ends(requests):
                consumer.commit(offsets=ends, asynchronous=True)
    consumer.close()


class Desk:
    """Payments that were read, and when which of their answers is due."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._due: list[tuple[float, int, str, bytes, tuple[int, int]]] = []
        #: Of each partition: how many answers its payments are still owed, by their offset; and how far it was read.
        self._owed: dict[int, Counter[int]] = {}
        self._read: dict[int, int] = {}

    def take(self, record: Any) -> None:
        question = json.loads(record.value())
        partition, offset = record.partition(), record.offset()
        self._read[partition] = offset + 1
        for seconds in find_delays(question["request"]):
            self._owed.setdefault(partition, Counter())[offset] += 1
            due = (time.monotonic() + seconds, next(self._numbers))
            heapq.heappush(self._due, (*due, question["answers"], write_answer(question), (partition, offset)))

    def list_due(self) -> Iterator[tuple[str, bytes]]:
        """Topic and answer of what is due now."""
        while self._due and self._due[0][0] <= time.monotonic():
            _, _, topic, value, (partition, offset) = heapq.heappop(self._due)
            yield topic, value
            self._owed[partition][offset] -= 1
            if not self._owed[partition][offset]:
                del self._owed[partition][offset]

    def list_ends(self, topic: str) -> list[Any]:
        """Up to where everything is answered, in each partition."""
        from confluent_kafka import TopicPartition

        return [
            TopicPartition(topic, partition, min(self._owed.get(partition) or [read]))
            for partition, read in self._read.items()
        ]


def produce(producer: Any, topic: str, value: bytes) -> None:
    while True:
        try:
            producer.produce(topic, value)
            producer.poll(0)
            return
        except BufferError:
            producer.poll(0.1)


def write_answer(question: dict[str, Any]) -> bytes:
    """The envelope of an answer, as the docs publish it."""
    envelope = {
        "type": "holdpoint.response",
        "version": 1,
        "workspace": question["workspace"],
        "interaction": question["interaction"],
        "data": decide(question["request"]),
    }
    return json.dumps(envelope).encode()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["webhook", port]:
            serve_webhook(int(port))
        case ["kafka", bootstrap, requests]:
            serve_kafka(bootstrap, requests)
        case _:
            sys.exit("python -m examples.csv_payments.partners webhook PORT | kafka BOOTSTRAP TOPIC")
