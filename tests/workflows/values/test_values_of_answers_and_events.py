"""The rules for values hold at the Python doors of answers and events too, and a refusal changes nothing."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from django.contrib.auth.models import User

import workflows
from approvals import decide
from approvals.models import Vote
from approvals.testing import decide as decide_in_tests
from tests.support.refused_values import REFUSED, check, nested
from tests.support.review_calls import ask as ask_people
from tests.support.review_calls import make_person
from workflows import InvalidData, NotSerializable, TooLarge, durable
from workflows.models import Interaction, LedgerEvent, Signal
from workflows.testing import assert_awaiting, assert_done, drain

pytestmark = pytest.mark.django_db


@durable(name="doors-ask")
def asks(ctx: Any, schema: Any = None) -> Any:
    return ctx.wait_for("ask", "api", schema=schema, timeout="1d")


@durable(name="doors-event")
def listens(ctx: Any) -> Any:
    return ctx.wait_for_event("news", event="doors.news", timeout="1d")


def park(workflow: Any = asks, **input: Any) -> Any:
    instance = workflows.start(workflow, input)
    drain()
    return assert_awaiting(instance)


def count() -> list[int]:
    return [model.objects.count() for model in (Signal, LedgerEvent, Vote)]


# Nothing is kept of what is refused, so one question, or one review, is there for all that is no value.


@pytest.mark.parametrize("key", [None, "once"])
def test_an_answer_that_cannot_be_kept_is_refused(key: str | None) -> None:
    instance = park()
    question, before = Interaction.objects.get(instance=instance), count()
    for value, path, told in (one.values for one in REFUSED):
        for target in (question, question.pk, question.signal_id):
            with pytest.raises(NotSerializable, match="the data cannot be stored") as caught:
                workflows.complete(target, value, idempotency_key=key)
            check(caught, path, told)
    assert count() == before
    assert_awaiting(instance)


def test_an_event_that_cannot_be_kept_is_refused() -> None:
    instance, before = park(listens), count()
    for value, path, told in (one.values for one in REFUSED):
        with pytest.raises(NotSerializable, match="the data of event") as caught:
            workflows.emit("doors.news", value)
        check(caught, path, told)
    assert count() == before
    assert_awaiting(instance)


def test_one_bad_signal_of_many_is_refused() -> None:
    before = count()
    for value, path, told in (one.values for one in REFUSED):
        with pytest.raises(NotSerializable) as caught:
            workflows.signal_many([("nobody", "go"), ("nobody", "go", value)])
        check(caught, path, told)
    assert count() == before


@pytest.mark.parametrize("call", [decide, decide_in_tests], ids=["decide", "testing"])
def test_a_decision_with_data_that_cannot_be_kept_is_refused(call: Callable[..., Any]) -> None:
    ann: User = make_person("ann", "finance")
    review = ask_people(groups=["finance"], schema={"x": Any})
    before = Vote.objects.count()
    for value, _, _ in (one.values for one in REFUSED):
        with pytest.raises((NotSerializable, InvalidData)) as caught:
            call(review, "approve", actor=ann, data={"x": value})
        str(caught.value).encode()
    assert Vote.objects.count() == before


def test_the_limits_are_those_of_http() -> None:
    instance = park()
    question = Interaction.objects.get(instance=instance)
    with pytest.raises(TooLarge, match="524288"):
        workflows.complete(question, "x" * (512 * 1024 - 1))
    with pytest.raises(TooLarge, match="524288"):
        workflows.emit("doors.news", "x" * (512 * 1024 - 1))
    assert workflows.complete(question, nested(32)).replayed is False
    drain()
    assert_done(instance, nested(32))


def test_an_answer_is_checked_as_it_is_kept() -> None:
    """A date is a text in JSON, a tuple is a list, and a name is a text."""
    schema = {
        "type": "object",
        "properties": {
            "day": {"type": "string", "format": "date"},
            "lines": {"type": "array", "items": {"type": "integer"}},
            "sum": {"type": "string"},
            "7": {"type": "boolean"},
        },
        "required": ["day", "lines", "sum", "7"],
        "additionalProperties": False,
    }
    instance = park(schema=schema)
    question = Interaction.objects.get(instance=instance)
    workflows.complete(question, {"day": dt.date(2026, 1, 31), "lines": (1, 2), "sum": Decimal("1.50"), 7: True})
    drain()
    assert_done(instance, {"day": "2026-01-31", "lines": [1, 2], "sum": "1.50", "7": True})


def test_an_answer_to_a_question_for_many_may_be_a_tuple() -> None:
    @durable(name="doors-many")
    def many(ctx: Any) -> Any:
        return ctx.wait_for("many", "api", cardinality="ONE_TO_MANY", timeout="1d")

    instance = park(many)
    workflows.complete(Interaction.objects.get(instance=instance), (1, 2))
    drain()
    assert_done(instance, [1, 2])


def test_the_data_of_a_decision_is_checked_as_it_is_kept() -> None:
    ann = make_person("ann", "finance")
    schema = {"type": "object", "properties": {"day": {"type": "string", "format": "date"}, "lines": {"type": "array"}}}
    review = ask_people(groups=["finance"], schema=schema)
    decide(review, "approve", actor=ann, data={"day": dt.date(2026, 1, 31), "lines": (1, 2)})
    assert Vote.objects.get().data == {"day": "2026-01-31", "lines": [1, 2]}
