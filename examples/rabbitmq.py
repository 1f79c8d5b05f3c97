"""A transport of your own in one class: questions go to a queue of RabbitMQ, and answers come back in another one.

`RabbitMQ` is the channel. `take_answers` is the way back; `manage.py rabbitmq_answers` runs it. Below both is a
workflow that uses them. RABBITMQ_URL says where the server is; `pip install pika` is all that this needs.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

import workflows
from workflows import Channel, DispatchFailed, FunctionContext, SignalTimeoutError, durable
from workflows.exceptions import UnknownInteraction, WorkflowError

if TYPE_CHECKING:
    from pika import BlockingConnection
    from pika.adapters.blocking_connection import BlockingChannel

    from workflows.channels.outgoing import Outgoing, Sent

#: Where answers are written, and where those go that nothing can be made of, with the reason in a header.
ANSWERS = "holdpoint.answers"
PARKED = "holdpoint.answers.parked"


class RabbitMQ(Channel[Any]):
    """A question that is written to a queue, for whoever reads it there."""

    name = "rabbitmq"
    sends = True
    #: One connection serves many questions; two threads keep the server busy.
    batch = 500
    threads = 2

    def __init__(self, queue: str, request: Any = None, *, schema: Any = None) -> None:
        self.request, self.schema = request, schema
        self.config = {"queue": queue}  # kept on the row; the password is not

    @classmethod
    def dispatch_many(cls, questions: Sequence[Outgoing]) -> list[Sent | Exception | None]:
        """Write all of them; a result for each. Whatever is raised counts for all."""
        from pika.exceptions import AMQPError, NackError, UnroutableError

        results: list[Sent | Exception | None] = []
        try:
            with connect() as connection:
                channel = connection.channel()
                channel.confirm_delivery()  # a question is sent when the server has it on its disk
                for queue in {question.config["queue"] for question in questions}:
                    channel.queue_declare(queue, durable=True)
                for question in questions:
                    try:
                        write_question(channel, question)
                        results.append(None)
                    except (NackError, UnroutableError) as error:
                        results.append(DispatchFailed(f"RabbitMQ refused it: {type(error).__name__}"))
        except (AMQPError, OSError) as error:
            # Its text might hold the address. It was not there for any question, so no try is used up.
            away = DispatchFailed(f"RabbitMQ is away: {type(error).__name__}", away=True, retry_after=2)
            results += [away] * (len(questions) - len(results))
        return results


def write_question(channel: BlockingChannel, question: Outgoing) -> None:
    """The envelope that all transports share; its id is the same at every try, so the reader can drop a second one."""
    from pika import BasicProperties, DeliveryMode

    properties = BasicProperties(
        content_type="application/json",
        delivery_mode=DeliveryMode.Persistent,
        message_id=question.key,
        correlation_id=str(question.id),
        reply_to=ANSWERS,
        headers={"traceparent": question.traceparent} if question.traceparent else None,
    )
    body = json.dumps(question.write_envelope()).encode()
    channel.basic_publish("", question.config["queue"], body, properties, mandatory=True)


def take_answers(stop: threading.Event, *, idle: float | None = None) -> int:
    """Complete what was answered until `stop` is set, or nothing came for `idle` seconds; how many answers were read.

    An answer is `{"workspace": …, "interaction": …, "data": …}`. It is taken off its queue when the database has it, so
    a crash in between delivers it again, and the second time changes nothing. What nothing can be made of is parked.
    """
    read = 0
    with connect() as connection:
        channel = connection.channel()
        channel.queue_declare(ANSWERS, durable=True)
        channel.queue_declare(PARKED, durable=True)
        channel.confirm_delivery()
        channel.basic_qos(prefetch_count=100)
        for method, properties, body in channel.consume(ANSWERS, inactivity_timeout=idle or 0.5):
            if method is None:
                if idle is not None or stop.is_set():
                    break
                continue
            try:
                complete(body)
            except (WorkflowError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                park(channel, properties, body, f"{type(error).__name__}: {error}")
            channel.basic_ack(method.delivery_tag)
            read += 1
            if stop.is_set():
                break
        channel.cancel()  # what was fetched and not read goes back
    return read


def complete(body: bytes) -> None:
    """Hand the answer in, once: the same answer again is told the same.

    Whoever may write to the queue is believed about what was asked by it, and about nothing else: no callback, no
    question of another channel.
    """
    from workflows.models import Interaction

    answer = json.loads(body)
    target, scope = UUID(answer["interaction"]), answer["workspace"]
    if Interaction.objects.filter(pk=target).exclude(channel=RabbitMQ.name).exists():
        raise UnknownInteraction
    workflows.complete(target, answer["data"], workspace=scope, actor="rabbitmq", idempotency_key="rabbitmq")


def park(channel: BlockingChannel, properties: Any, body: bytes, reason: str) -> None:
    """Keep it where people can look at it; the queue goes on."""
    from pika import BasicProperties, DeliveryMode

    headers = {**(properties.headers or {}), "reason": reason[:1000]}
    kept = BasicProperties(headers=headers, delivery_mode=DeliveryMode.Persistent, message_id=properties.message_id)
    channel.basic_publish("", PARKED, body, kept, mandatory=True)


def connect() -> BlockingConnection:
    from pika import BlockingConnection, URLParameters

    return BlockingConnection(URLParameters(os.environ.get("RABBITMQ_URL", "amqp://guest:guest@localhost/")))


# --- a workflow that asks by it ------------------------------------------------------------------------


@durable(name="demo.score")
def score(ctx: FunctionContext, customer: int) -> dict[str, Any]:
    """Ask the scoring service, which reads the queue `scores`; without an answer in an hour nobody gets credit."""
    question: RabbitMQ = RabbitMQ("scores", {"customer": customer}, schema={"points": int})
    try:
        answer = ctx.wait_for("score", question, timeout="1h")
    except SignalTimeoutError:
        return {"customer": customer, "credit": 0}
    return {"customer": customer, "credit": 10 * answer["points"]}
