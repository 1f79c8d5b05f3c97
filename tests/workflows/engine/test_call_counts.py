"""How many functions of ours the shortest ways through the engine call."""

from __future__ import annotations

import pytest

import workflows
from tests.support.api_calls import Api, make_key
from tests.support.call_counts import count_calls
from workflows import Await, Done, Workflow, durable, step
from workflows.models import Interaction
from workflows.testing import drain

pytestmark = pytest.mark.django_db

SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}


@durable(name="counted-plain")
def ask_plainly(ctx):
    return ctx.wait_for_signal("gate", timeout="1d")


@durable(name="counted-schema")
def ask_by_schema(ctx):
    return ctx.wait_for_signal("gate", timeout="1d", schema=SCHEMA)


class CountedOrder(Workflow):
    name = "counted-order"

    @step
    def ask(self, ctx):
        return Await("paid", then="end")

    @step
    def end(self, ctx):
        return Done()


def park(workflow: str) -> Interaction:
    started = workflows.start(workflow)
    drain()
    return Interaction.objects.get(instance=started)


def test_a_signal_is_delivered_in_few_calls():
    first, second = workflows.start("counted-order"), workflows.start("counted-order")
    drain()
    workflows.signal(first.id, "paid", {"amount": 5})
    with count_calls() as counts:
        workflows.signal(second.id, "paid", {"amount": 5})
    assert counts.total() <= 20, str(counts)


@pytest.mark.parametrize(("workflow", "most"), [("counted-plain", 65), ("counted-schema", 89)])
def test_a_completion_over_http_takes_few_calls(workflow, most):
    api, first, second = Api(make_key()), park(workflow), park(workflow)
    assert api.post(f"/v1/signals/{first.signal_id}/complete", {"data": {"ok": True}}).status_code == 200
    with count_calls() as counts:
        assert api.post(f"/v1/signals/{second.signal_id}/complete", {"data": {"ok": True}}).status_code == 200
    assert counts.total() <= most, str(counts)
