"""Lines and the doors of the outside: who may answer what they ask, and what nobody is asked."""

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

import workflows
from approvals import Approval
from approvals.testing import decide
from tests.support.api_calls import make_key
from tests.support.races import forget, play, settle, take_one
from workflows import AnswerElsewhere, Machine, action, collect, durable, expand, store, wait_for
from workflows.models import AwaitUnit, Instance, Interaction
from workflows.testing import assert_awaiting, assert_done, drain

pytestmark = pytest.mark.django_db

healthy: list[Any] = []


@pytest.fixture(autouse=True)
def recover() -> None:
    healthy.clear()


class Quiet(Machine):
    name = "lines.quiet"
    numbers = expand(lambda ctx: [1, 2, 3], concurrency=1)
    ask = wait_for(channel="api")
    all = collect(lambda ctx: ctx.items)


def run(workflow: Any, input: Any = None) -> Instance:
    instance = workflows.start(workflow, {} if input is None else input)
    drain()
    return instance


def get(client: Client, path: str, key: str) -> Any:
    return client.get(path, headers={"authorization": f"Bearer {key}"}).json()


def test_items_that_nobody_is_asked_about_are_in_no_list_and_answered_by_nobody(client: Client) -> None:
    one = run(Quiet)
    key = make_key()
    listed = get(client, "/v1/interactions", key)["results"]
    assert [row["workflow"] for row in listed] == ["lines.quiet:items"]
    for n in range(3):
        with pytest.raises(AnswerElsewhere):
            workflows.complete(f"numbers.{n}-{one.pk}", "x")
    assert AwaitUnit.objects.get(items=True).queued == 2


def test_a_key_for_a_workflow_answers_what_its_lines_ask(client: Client) -> None:
    run(Quiet)
    mine = make_key(workflows=["lines.quiet"])
    other = make_key(workflows=["lines.other"])
    asked = Interaction.objects.get(status="pending", channel="api")
    path = f"/v1/interactions/{asked.pk}/complete"

    def answer(key: str) -> int:
        headers = {"authorization": f"Bearer {key}"}
        return client.post(path, {"data": 1}, content_type="application/json", headers=headers).status_code

    assert [answer(other), answer(mine)] == [404, 200]


def test_an_approval_for_each_item() -> None:
    ann = User.objects.create_user("ann")

    class Reviews(Machine):
        orders = expand(lambda ctx: ["a", "b"])
        review = wait_for(channel=lambda ctx: Approval(f"Ship {ctx.item}?", assignees=[ann]), each=True)
        ship = action(lambda ctx: [ctx.item, ctx.steps.review.outcome])
        all = collect(lambda ctx: [ctx.items, [one.outcome for one in ctx.steps.review]])

    one = run(Reviews)
    first, second = Interaction.objects.filter(instance=one).order_by("index")
    decide(second.review, "reject", actor=ann, reason="no")
    drain()
    assert Instance.objects.get(parent=one).result == ["b", "reject"]
    decide(first.review, "approve", actor=ann)
    drain()
    assert_done(one, [[["a", "approve"], ["b", "reject"]], ["approve", "reject"]])


def test_a_failed_line_is_retried_by_its_item_too() -> None:
    def then(ctx: Any, item: Any, output: Any) -> Any:
        if item not in healthy:
            raise ValueError(item)
        return output

    @durable(name="lines.item.retried", max_attempts=1)
    def retried(ctx):
        ends = ctx.wait_for_each("pay", ["a", "b"], "api", on_item="partial", then=then)
        return [one.output for one in ends]

    one = run(retried)
    workflows.complete(f"pay.0-{one.pk}", 5)
    drain()
    healthy.extend("ab")
    workflows.retry_item(Interaction.objects.get(instance=one, index=0))
    drain()
    workflows.complete(f"pay.1-{one.pk}", 6)
    drain()
    assert_done(one, [5, 6])


def test_a_worker_that_dies_between_opening_a_stream_and_parking_on_it_opens_no_second_one() -> None:
    calls: list[int] = []

    class Opened(Machine):
        numbers = expand(lambda ctx: calls.append(1) or [1, 2])
        ask = wait_for(channel="api", each=True)
        all = collect(lambda ctx: ctx.items)

    one = workflows.start(Opened)
    claim = take_one()
    assert isinstance(play(claim), store.Commit)  # and it dies before the commit
    unit = AwaitUnit.objects.get(instance=one)
    workflows.complete(f"ask.0-{one.pk}", "early")
    forget(claim)
    drain()
    assert_awaiting(one, "ask")
    assert (calls, AwaitUnit.objects.get(instance=one)) == ([1], unit)
    workflows.complete(f"ask.1-{one.pk}", "late")
    drain()
    assert_done(one, ["early", "late"])


def test_a_stream_that_is_through_before_the_machine_parks_is_gone_on_from() -> None:
    class Early(Machine):
        numbers = expand(lambda ctx: [1])
        ask = wait_for(channel="api", each=True)
        all = collect(lambda ctx: ctx.items)

    one = workflows.start(Early)
    claim = take_one()
    commit = play(claim)
    workflows.complete(f"ask.0-{one.pk}", "early")
    assert settle(commit)
    drain()
    assert_done(one, ["early"])


def test_a_line_whose_worker_dies_before_its_end_is_committed_ends_once() -> None:
    class Ends(Machine):
        numbers = expand(lambda ctx: [1])
        double = action(lambda ctx: ctx.item * 2)
        all = collect(lambda ctx: ctx.items)

    one = workflows.start(Ends)
    settle(play(take_one()))
    line = take_one()
    stale = play(line)
    forget(line)
    drain()
    assert not settle(stale)
    assert_done(one, [2])
    assert AwaitUnit.objects.get(instance=one).remaining == 0
