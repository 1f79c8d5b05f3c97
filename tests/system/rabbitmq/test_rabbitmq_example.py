"""The example transport against a real RabbitMQ: one class out, one loop back, and nothing lost or doubled."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pika
import pytest

import workflows
from examples import rabbitmq
from examples.rabbitmq import ANSWERS, PARKED, take_answers
from tests.support.processes import Process, running, wait_for_status, wait_until, workflow_worker
from tests.support.rabbitmq_node import Node, explain_absence
from tests.support.races import COMMITTED
from workflows.models import Interaction
from workflows.testing import advance, assert_awaiting, assert_done, drain

IDLE = 0.3


@workflows.durable(name="rabbitmq-test.callback")
def call_back(ctx: Any) -> Any:
    return ctx.callback("question", timeout="1h").wait()


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    """A node for all tests of this file, which one process so runs: to start one takes five seconds."""
    if missing := explain_absence():
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail(f"CI skips no test: {missing}")
        pytest.skip(missing)
    with tempfile.TemporaryDirectory(prefix="holdpoint-rabbitmq-", ignore_cleanup_errors=True) as folder:
        node = Node(Path(folder))
        node.start()
        try:
            yield node
        finally:
            node.stop()


@pytest.fixture(autouse=True)
def _empty_queues(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RABBITMQ_URL", node.url)
    with rabbitmq.connect() as connection:
        channel = connection.channel()
        for queue in ("scores", ANSWERS, PARKED):
            channel.queue_delete(queue)
            channel.queue_declare(queue, durable=True)


@pytest.fixture
def channel(_empty_queues: None) -> Iterator[Any]:
    """The other program's connection."""
    with rabbitmq.connect() as connection:
        yield connection.channel()


def read(channel: Any, queue: str) -> list[tuple[Any, Any]]:
    """Everything in a queue, off it: properties and body."""
    taken = []
    while (message := channel.basic_get(queue, auto_ack=True))[0] is not None:
        taken.append((message[1], json.loads(message[2])))
    return taken


def answer(channel: Any, body: Any) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    channel.basic_publish("", ANSWERS, raw, pika.BasicProperties(delivery_mode=pika.DeliveryMode.Persistent))


def write_answer(envelope: dict[str, Any], points: Any) -> dict[str, Any]:
    return {"workspace": envelope["workspace"], "interaction": envelope["interaction"], "data": {"points": points}}


@pytest.mark.django_db
def test_a_question_is_written_to_its_queue_and_its_answer_goes_on_with_the_workflow(channel: Any) -> None:
    instance = workflows.start("demo.score", {"customer": 7})
    drain()
    [(properties, envelope)] = read(channel, "scores")
    row = Interaction.objects.get()
    assert (envelope["request"], envelope["interaction"]) == ({"customer": 7}, str(row.pk))
    assert properties.message_id.startswith(str(row.pk))  # and the visit of the wait
    assert properties.correlation_id == str(row.pk)
    assert (properties.delivery_mode, properties.reply_to) == (2, ANSWERS)
    assert row.dispatched_at is not None
    assert "guest" not in json.dumps(row.config)
    answer(channel, write_answer(envelope, 12))
    assert take_answers(threading.Event(), idle=IDLE) == 1
    drain()
    assert_done(instance, {"customer": 7, "credit": 120})
    row.refresh_from_db()
    assert row.actor == "rabbitmq"


@pytest.mark.django_db
def test_many_questions_leave_in_one_batch(channel: Any) -> None:
    workflows.start_many("demo.score", [{"customer": number} for number in range(50)])
    drain()
    sent = read(channel, "scores")
    assert sorted(envelope["request"]["customer"] for _, envelope in sent) == list(range(50))
    assert not Interaction.objects.filter(dispatched_at=None).exists()


@pytest.mark.django_db
def test_the_same_answer_twice_is_taken_once_and_a_bad_one_is_parked_with_its_reason(channel: Any) -> None:
    instance = workflows.start("demo.score", {"customer": 7})
    drain()
    [(_, envelope)] = read(channel, "scores")
    bad = [
        b"no json",
        {"data": {"points": 1}},
        {**write_answer(envelope, 1), "workspace": "nobody"},
        {**write_answer(envelope, 1), "interaction": "00000000-0000-0000-0000-000000000007"},
        write_answer(envelope, "many"),
        [],
        b"[" * 100_000,
    ]
    for one in bad:
        answer(channel, one)
    answer(channel, write_answer(envelope, 5))
    answer(channel, write_answer(envelope, 5))
    answer(channel, write_answer(envelope, 6))
    assert take_answers(threading.Event(), idle=IDLE) == len(bad) + 3
    drain()
    assert_done(instance, {"customer": 7, "credit": 50})
    kept = []
    while (message := channel.basic_get(PARKED, auto_ack=True))[0] is not None:
        kept.append((message[1].headers["reason"].partition(":")[0], message[2]))
    assert [reason for reason, _ in kept] == [
        "JSONDecodeError",
        "KeyError",
        "UnknownWorkspace",
        "UnknownInteraction",
        "InvalidData",
        "TypeError",
        "RecursionError",
        "IdempotencyConflict",
    ]
    assert kept[0][1] == b"no json"


@pytest.mark.django_db
def test_the_queue_answers_nothing_that_was_asked_otherwise(channel: Any) -> None:
    asked = workflows.start("rabbitmq-test.callback", {})
    drain()
    row = Interaction.objects.get()
    answer(channel, {"workspace": "default", "interaction": str(row.pk), "data": 1})
    assert take_answers(threading.Event(), idle=IDLE) == 1
    assert_awaiting(asked)
    [(properties, _)] = read(channel, PARKED)
    assert properties.headers["reason"].startswith("UnknownInteraction")


@pytest.mark.django_db
def test_a_server_that_is_away_uses_up_no_try_and_gets_the_question_when_it_is_back(
    channel: Any, monkeypatch: pytest.MonkeyPatch, node: Node
) -> None:
    from config.ports import find_free_port

    monkeypatch.setenv("RABBITMQ_URL", f"amqp://guest:guest@127.0.0.1:{find_free_port()}/")
    instance = workflows.start("demo.score", {"customer": 7})
    drain()
    row = Interaction.objects.get()
    assert (row.dispatched_at, row.tries) == (None, 0)
    assert row.dispatch_error is not None
    assert row.dispatch_error.startswith("RabbitMQ is away")
    assert_awaiting(instance)
    monkeypatch.setenv("RABBITMQ_URL", node.url)
    advance("10s")
    assert len(read(channel, "scores")) == 1
    row.refresh_from_db()
    assert row.dispatched_at is not None


@COMMITTED
@pytest.mark.kill
@pytest.mark.usefixtures("committed")
def test_answers_survive_a_killed_server_and_a_killed_reader(node: Node) -> None:
    """One answer is in its queue when the server is killed, a reader is killed too; each instance is done once."""
    started = workflows.start_many("demo.score", [{"customer": number} for number in range(20)])

    def run_reader() -> Process:
        return Process("manage.py", "rabbitmq_answers", RABBITMQ_URL=node.url)

    with workflow_worker(RABBITMQ_URL=node.url):
        wait_until(lambda: Interaction.objects.exclude(dispatched_at=None).count() == 20, "all to be written")
        with rabbitmq.connect() as connection:
            channel = connection.channel()
            channel.confirm_delivery()  # what the server has confirmed it keeps
            sent = read(channel, "scores")
            for _, envelope in sent[:10]:
                answer(channel, write_answer(envelope, 1))
        node.kill()
        node.start()
        with running(run_reader()) as reader:
            wait_until(lambda: Interaction.objects.filter(status="completed").count() == 10, "the first ten")
            reader.kill(signal.SIGKILL)
        with rabbitmq.connect() as connection:
            channel = connection.channel()
            for _, envelope in [*sent[10:], *sent]:  # the service that was told nothing says all of it again
                answer(channel, write_answer(envelope, 1))
        with running(run_reader()):
            for one in started:
                wait_for_status(one, "done", seconds=60)
        assert {(one.result["customer"], one.result["credit"]) for one in started} == {(n, 10) for n in range(20)}
    with rabbitmq.connect() as connection:
        assert not read(connection.channel(), PARKED)
