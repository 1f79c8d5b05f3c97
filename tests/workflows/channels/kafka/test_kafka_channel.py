"""Questions that go out over Kafka: what is written, when, how often, and what the row says of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

import workflows
from tests.support.kafka import flows  # noqa: F401
from tests.support.kafka.world import Partner, read_requests
from workflows.channels.kafka.envelopes import read_schema
from workflows.models import Interaction
from workflows.testing import advance, drain

pytestmark = [pytest.mark.kafka, pytest.mark.process, pytest.mark.django_db]


def ask(topic: str, **options: Any) -> Interaction:
    instance = workflows.start("kafka.pay", {"topic": topic, **options})
    drain()
    return Interaction.objects.get(instance=instance)


def test_a_question_is_written_to_its_topic_once_in_the_published_envelope(
    partner: Partner, configure: Callable[..., None]
) -> None:
    topic, answers = partner.make_topic("payments"), partner.make_topic("answers")
    configure({answers: ["default"]})
    row = ask(topic, correlation_id="order-7", headers={"tenant": "acme"})
    drain()
    assert partner.count(topic) == 1
    [record] = partner.read(topic)
    [request] = read_requests([record])
    jsonschema.validate(request, dict(read_schema("request")), format_checker=jsonschema.FormatChecker())
    assert request["id"].startswith(str(row.pk))
    assert (request["interaction"], request["workspace"]) == (str(row.pk), "default")
    assert (request["request"], request["correlation_id"]) == ({"amount": 20}, "order-7")
    assert request["answers"] == answers
    assert request["deadline"] is not None
    headers = dict(record.headers())
    assert (headers["holdpoint-id"], headers["tenant"]) == (request["id"].encode(), b"acme")
    assert record.key() == str(row.pk).encode()


def test_the_trace_of_whoever_asks_goes_along(partner: Partner, configure: Callable[..., None]) -> None:
    from opentelemetry import trace
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

    topic, answers = partner.make_topic("payments"), partner.make_topic("answers")
    configure({answers: ["default"]})
    span = NonRecordingSpan(SpanContext(0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7, False, TraceFlags(1)))
    with trace.use_span(span):
        ask(topic)
    ask(topic)
    traced, plain = partner.read(topic, 2)
    trace_id = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    requests = read_requests([traced, plain])
    assert dict(traced.headers())["traceparent"] == trace_id.encode()
    assert requests[0]["traceparent"] == trace_id
    assert "traceparent" not in dict(plain.headers())
    assert "traceparent" not in requests[1]


def test_dispatched_at_is_set_when_the_broker_has_the_record_and_not_before(
    partner: Partner, configure: Callable[..., None]
) -> None:
    answers = partner.make_topic("answers")
    quick = {"delivery.timeout.ms": 300, "request.timeout.ms": 200}
    configure({answers: ["default"]}, BOOTSTRAP="127.0.0.1:1", PRODUCER=quick)
    topic = partner.make_topic("payments")
    row = ask(topic)
    assert row.dispatched_at is None
    assert "no broker took it" in row.dispatch_error
    assert row.tries == 0, "a broker that is away is no try"
    configure({answers: ["default"]})
    advance("10s")
    row.refresh_from_db()
    assert row.dispatched_at is not None
    assert (row.dispatch_error, row.tries) == (None, 1)
    assert partner.count(topic) == 1
