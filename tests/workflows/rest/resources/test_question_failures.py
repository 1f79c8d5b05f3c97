"""Over REST: a question that cannot be answered, and an item that is asked once more."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

import pytest

import workflows
from tests.support.api_calls import Api, make_key, problem
from workflows import UnitFailed, durable, lifecycle_events
from workflows.definitions.channel import Channel
from workflows.models import AwaitUnit, Instance, Interaction, LedgerEvent
from workflows.testing import assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db


class FailDesk(Channel):
    name = "fail-desk"
    owns_answers: ClassVar[bool] = True
    door = "at the desk"


@durable(name="fail-one")
def one(ctx, catch=False, own=False):
    try:
        return ctx.wait_for("ask", FailDesk() if own else "api", timeout="1h")
    except UnitFailed as failed:
        if catch:
            return failed.reason
        raise


@durable(name="fail-each")
def each(ctx, n=3, on_item="partial"):
    return [getattr(one, "status", one) for one in ctx.wait_for_each("pay", list(range(n)), "api", on_item=on_item)]


def start(name: str, **input: Any) -> Instance:
    started = workflows.start(name, input)
    drain()
    return started


def item(instance: Instance, index: int = 0) -> Interaction:
    return Interaction.objects.get(instance=instance, index=index)


def fail(api: Api, question: Interaction, reason: Any = "no such account", **headers: str) -> Any:
    return api.post(f"/v1/interactions/{question.pk}/fail", {"reason": reason}, headers)


def test_a_question_that_is_reported_fails_its_wait_with_the_reason(api):
    asked = start("fail-one", catch=True)
    told = fail(api, item(asked)).json()
    assert (told["id"], told["status"]) == (str(item(asked).pk), "failed")
    drain()
    assert_done(asked, "no such account")


def test_the_life_of_a_question_that_failed_says_so(api):
    asked = start("fail-one")
    fail(api, item(asked))
    drain()
    assert_failed(asked, "no such account")
    ended, released, terminal = list(lifecycle_events(asked))[3:]
    assert [str(event.kind) for event in (ended, released, terminal)] == [
        "await_unit_item_completed",
        "await_resume_released",
        "await_unit_terminal",
    ]
    assert (ended.data["how"], ended.data["reason"]) == ("failed", "no such account")
    assert terminal.data == {"status": "failed"}


def test_an_item_that_is_reported_fails_alone_and_can_be_asked_once_more(api):
    asked = start("fail-each")
    assert fail(api, item(asked, 1)).json()["status"] == "failed"
    unit = AwaitUnit.objects.get(instance=asked)
    assert api.get(f"/v1/units/{unit.pk}").json()["counts"]["failed"] == 1
    told = api.post(f"/v1/interactions/{item(asked, 1).pk}/retry", {}).json()
    assert (told["status"], told["index"]) == ("pending", 1)
    assert api.get(f"/v1/units/{unit.pk}").json()["counts"]["failed"] == 0
    for index in range(3):
        assert api.post(f"/v1/interactions/{item(asked, index).pk}/complete", {"data": index}).status_code == 200
    drain()
    assert_done(asked, ["completed"] * 3)


def test_an_item_that_is_reported_fails_the_unit_where_the_policy_says_so(api):
    asked = start("fail-each", on_item="fail")
    fail(api, item(asked, 2))
    drain()
    assert_failed(asked, "no such account")
    problem(api.post(f"/v1/interactions/{item(asked, 2).pk}/retry", {}), 409, "not-possible")


def test_what_is_over_cannot_be_reported(api):
    asked = start("fail-one")
    question = item(asked)
    workflows.complete(question, 1)
    problem(fail(api, question), 410, "resolved")
    problem(api.post(f"/v1/interactions/{question.pk}/retry", {}), 409, "not-possible")
    cancelled = start("fail-one")
    workflows.cancel(cancelled)
    problem(fail(api, item(cancelled)), 404, "not-found")


@pytest.mark.parametrize("keyed", [False, True])
def test_a_question_that_its_channel_answers_is_reported_there_and_the_refusal_is_kept(api, keyed):
    asked = start("fail-one", own=True)
    problem(fail(api, item(asked), **({"Idempotency-Key": "k"} if keyed else {})), 409, "answered-elsewhere")
    assert LedgerEvent.objects.filter(instance=asked, kind="refused").count() == 1
    assert item(asked).status == "pending"


def test_the_same_report_again_is_told_the_same(api):
    asked = start("fail-each")
    first = fail(api, item(asked), **{"Idempotency-Key": "k"})
    again = fail(api, item(asked), **{"Idempotency-Key": "k"})
    assert first.content == again.content
    assert again.headers["Idempotency-Replayed"] == "true"
    assert AwaitUnit.objects.get(instance=asked).failed == 1


@pytest.mark.parametrize(
    "body", [{}, {"reason": ""}, {"reason": 5}, {"reason": "x" * 10_001}, {"reason": "a", "b": 1}, []]
)
def test_a_report_has_a_reason(api, body):
    asked = start("fail-one")
    problem(api.post(f"/v1/interactions/{item(asked).pk}/fail", body), 400, "invalid-request")
    assert item(asked).status == "pending"


def test_questions_of_others_are_not_there(api):
    asked = start("fail-each")
    for other in (Api(make_key(workspace="acme")), Api(make_key(workflows=["fail-one"]))):
        problem(fail(other, item(asked)), 404, "not-found")
        problem(other.post(f"/v1/interactions/{item(asked).pk}/retry", {}), 404, "not-found")
    problem(api.post(f"/v1/interactions/{uuid.uuid4()}/fail", {"reason": "x"}), 404, "not-found")
    assert item(asked).status == "pending"
