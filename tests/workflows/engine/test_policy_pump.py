"""WORKFLOWS["POLICY"] beside real pumps: what it refuses in an atomic step, or while a pump parks, is told, too."""

from __future__ import annotations

from typing import Any

import pytest

import workflows
from tests.support.processes import wait_until
from tests.support.pumps import pumping
from tests.support.races import COMMITTED
from workflows import Await, Done, Workflow, event, step
from workflows.models import Instance, Interaction, LedgerEvent

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]

refuses: set[str] = set()


def decide(operation: str, interaction: Any, actor: str) -> Any:
    return f"no {operation}" if operation in refuses else None


@pytest.fixture(autouse=True)
def policy(settings: Any) -> None:
    refuses.clear()
    settings.WORKFLOWS = {**settings.WORKFLOWS, "POLICY": decide}


class Ask(Workflow):
    name = "policy_pump.ask"

    @step(atomic=True)
    def ask(self, ctx):
        return Await(ctx.callback("pay") if ctx.input["question"] else event("paid"), then="end", timeout="1h")

    @step
    def end(self, ctx):
        return Done(ctx.answer)


class Listen(Workflow):
    name = "policy_pump.listen"

    @step
    def begin(self, ctx):
        workflows.emit("paid", 1)
        return Await(event("paid"), then="end", timeout="1h")

    @step
    def end(self, ctx):
        return Done(ctx.answer)


def status(instance: Instance) -> str:
    return str(Instance.objects.get(pk=instance.pk).status)


def refusals(instance: Instance) -> list[str]:
    return [row.data["operation"] for row in LedgerEvent.objects.filter(instance=instance, kind="refused")]


@pytest.mark.parametrize("question", [True, False], ids=["question", "event"])
def test_a_refused_suspend_in_an_atomic_step_is_a_row_though_the_step_is_rolled_back(question: bool) -> None:
    refuses.add("suspend")
    instance = workflows.start(Ask, {"question": question})
    with pumping():
        wait_until(lambda: status(instance) == "failed", "the refusal")
    assert refusals(instance) == ["suspend"]
    assert not Interaction.objects.exists()


def test_a_pump_that_may_not_hand_out_an_earlier_event_parks_and_goes_on_with_other_work() -> None:
    refuses.add("resume")
    instance = workflows.start(Listen)
    with pumping():
        wait_until(lambda: status(instance) == "awaiting", "the park")
        assert refusals(instance) == ["resume"]
        refuses.clear()
        other = workflows.start(Listen)
        wait_until(lambda: status(other) == "done" and status(instance) == "done", "the other work")
