"""A question that can be sent no more: what its workflow is told, and how it is asked again."""

from __future__ import annotations

from typing import Any

import pytest

import workflows
from tests.support.notices import Place, answer
from tests.support.webhook.flows import STYLES
from tests.support.webhook.partners import find_ids, newest, verify
from workflows import Await, Done, Next, UnitFailed, Workflow, step, store
from workflows.channels.webhook import Webhook
from workflows.models import Interaction
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db

URL = {"now": ""}


class Handles(Workflow):
    name = "failing.handles"

    @step
    def ask(self, ctx):
        return Await(Webhook(ctx.input["url"]), then="end", timeout="30d")

    @step
    def end(self, ctx):
        return Done(ctx.answer)

    @step
    def other(self, ctx):
        return Done(ctx.state)

    def handle(self, error, ctx):
        assert isinstance(error, UnitFailed)
        return Next("other", state=error.reason)


every_style = pytest.mark.parametrize("style", STYLES)


def start(name: str, place: Place, **more: Any) -> Any:
    instance = workflows.start(name, {"url": place.url, **more})
    drain()
    return instance


@every_style
def test_each_style_fails_with_the_reason(partner: Place, style: str) -> None:
    partner.answer = answer(410)
    instance = start(style, partner)
    assert_failed(instance, "answered 410")
    assert_failed(instance, "UnitFailed")
    assert newest().status == "failed"


@every_style
def test_retry_asks_the_very_same_question_again(partner: Place, style: str) -> None:
    partner.answer = answer(410)
    instance = start(style, partner)
    first = newest()
    partner.answer = answer(200)
    workflows.retry(instance)
    drain()
    assert_awaiting(instance)
    assert len(set(find_ids(partner))) == 1
    assert partner.got[0][1].split(b'"deadline"')[0] == partner.got[1][1].split(b'"deadline"')[0]
    assert verify(partner.got[0])["resume_url"] == verify(partner.got[1])["resume_url"]
    again = newest()
    assert (again.pk, again.status, again.dispatch_error) == (first.pk, "pending", None)
    workflows.complete(again, "paid")
    drain()
    assert workflows.result(instance) in ("paid", {"ask": "paid"})


@every_style
def test_a_second_failure_fails_it_again(partner: Place, style: str) -> None:
    partner.answer = answer(410)
    instance = start(style, partner)
    partner.answer = answer(413)
    workflows.retry(instance)
    drain()
    assert_failed(instance, "answered 413")


@every_style
def test_what_is_asked_again_has_its_time_again(partner: Place, style: str) -> None:
    partner.answer = answer(410)
    instance = start(style, partner)
    advance("29d")
    partner.answer = answer(200)
    workflows.retry(instance)
    drain()
    advance("29d")
    assert_awaiting(instance)
    advance("2d")
    assert newest().status == "expired"


def test_a_step_style_workflow_may_handle_it(partner: Place) -> None:
    partner.answer = answer(410)
    instance = start("failing.handles", partner)
    assert "answered 410" in workflows.result(instance)


def test_a_function_may_go_on_from_it(partner: Place) -> None:
    partner.answer = answer(410)
    instance = start("failing.catching", partner)
    question = Interaction.objects.get(channel="api")
    assert "answered 410" in question.request
    workflows.complete(question, "by hand")
    drain()
    assert_done(instance, ["people", "by hand"])


def test_a_failure_that_comes_before_the_park_wakes_the_instance(partner: Place) -> None:
    """The question is committed before its step is; it may fail in between."""
    from tests.support.races import play, settle, take_one

    workflows.start("failing.steps", {"url": partner.url})
    park = play(take_one())
    assert store.fail_question(_db(), newest().pk, "too early")
    settle(park)
    drain()
    found = newest()
    assert found.status == "failed"
    assert_failed(found.instance_id, "too early")


def test_what_is_answered_or_late_does_not_fail(partner: Place) -> None:
    instance = start("failing.function", partner)
    workflows.complete(newest(), 1)
    assert not store.fail_question(_db(), newest().pk, "too late")
    drain()
    assert_done(instance, 1)


def test_a_webhook_for_each_item(partner: Place) -> None:
    instance = start("failing.each", partner, items=["a", "b", "c"])
    bodies = [verify(got) for got in partner.got]
    assert [(body["index"], body["total"], body["request"]) for body in bodies] == [
        (0, 3, "a"),
        (1, 3, "b"),
        (2, 3, "c"),
    ]
    assert len(set(find_ids(partner))) == 3
    assert len({body["resume_url"] for body in bodies}) == 3
    for row in reversed(Interaction.objects.filter(channel="webhook").order_by("index")):
        workflows.complete(row, row.index)
    drain()
    assert_done(instance, [0, 1, 2])


def test_an_item_that_cannot_be_sent_fails_its_unit(partner: Place) -> None:
    partner.answer = answer(410)
    instance = start("failing.each", partner, items=["a", "b"])
    assert_failed(instance, "answered 410")


def test_or_only_itself_where_the_others_count(partner: Place) -> None:
    def refuse_b(handler: Any) -> None:
        answer(410 if handler.path.endswith("/b") else 200)(handler)

    partner.answer = refuse_b
    instance = start("failing.each", partner, items=["a", "b", "c"], on_item="partial")
    for row in Interaction.objects.filter(channel="webhook", status="pending"):
        workflows.complete(row, row.request)
    drain()
    assert workflows.result(instance) == [["completed", "a"], ["failed", None], ["completed", "c"]]


def _db() -> Any:
    from django.db import connection

    return connection
