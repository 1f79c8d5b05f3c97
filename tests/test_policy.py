"""WORKFLOWS["POLICY"]: asked at suspend, resume and timeout; what it refuses changes nothing and is a ledger row."""

from __future__ import annotations

from typing import Any

import pytest

import workflows
from workflows import Await, Done, InvalidData, PolicyRefused, Workflow, durable, event, step
from workflows.completion import complete_at
from workflows.models import Instance, Interaction, LedgerEvent, Signal
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db

asked: list[tuple[str, Any, str]] = []
refuses: dict[str, Any] = {}


def decide(operation: str, interaction: Any, actor: str) -> Any:
    asked.append((operation, interaction, actor))
    answer = refuses.get(operation)
    if isinstance(answer, Exception):
        raise answer
    return answer


@pytest.fixture(autouse=True)
def policy(settings):
    asked.clear()
    refuses.clear()
    settings.WORKFLOWS = {"POLICY": decide}


class Pay(Workflow):
    name = "policy.pay"

    @step
    def ask(self, ctx):
        return Await(ctx.callback("pay"), then="end", timeout="1h")

    @step
    def end(self, ctx):
        return Done({"answer": ctx.answer, "timed_out": ctx.timed_out})


class Patient(Pay):
    name = "policy.patient"

    def handle(self, error, ctx):
        return Done(f"{type(error).__name__}: {error}")


@durable(name="policy.gate", max_attempts=1)
def gate(ctx):
    try:
        return ctx.wait_for_signal("gate", signal="the-gate", timeout="1h")
    except PolicyRefused as error:
        return f"refused: {error}"


def park(workflow: Any = Pay) -> Interaction:
    instance = workflows.start(workflow)
    drain()
    assert_awaiting(instance)
    return Interaction.objects.get(instance=instance)


def refusals() -> list[LedgerEvent]:
    return list(LedgerEvent.objects.filter(kind="refused").order_by("at"))


def test_it_is_asked_at_suspend_and_resume_with_the_actor():
    found = park()
    assert [one[0] for one in asked] == ["suspend"]
    workflows.complete(found, 1, actor="kim")
    assert [(one[0], one[2]) for one in asked] == [("suspend", ""), ("resume", "kim")]
    drain()
    assert_done(found.instance_id)
    assert refusals() == []


def test_it_is_asked_at_timeout():
    found = park()
    advance("1h")
    assert [one[0] for one in asked] == ["suspend", "timeout"]
    assert_done(found.instance_id, {"answer": None, "timed_out": True})


def test_it_is_asked_by_every_door():
    found = park()
    refuses["resume"] = False
    with pytest.raises(PolicyRefused):
        complete_at("id", found.id, 1, workspace="default", door="resume")
    assert asked[-1][0] == "resume"


@pytest.mark.parametrize("operation", ["suspend", "resume", "timeout"])
def test_it_can_tell_which_interaction_it_is_about(operation):
    """Whatever the operation, a policy reads the same names."""
    found = park()
    if operation == "resume":
        workflows.complete(found, 1)
    elif operation == "timeout":
        advance("1h")
    [interaction] = [one[1] for one in asked if one[0] == operation]
    assert interaction.signal_id == found.signal_id
    assert interaction.channel == found.channel
    assert interaction.instance_id == found.instance_id


@pytest.mark.parametrize("allows", [None, True])
def test_none_and_true_allow(allows):
    refuses.update(suspend=allows, resume=allows, timeout=allows)
    found = park()
    workflows.complete(found, 1)
    drain()
    assert_done(found.instance_id)


@pytest.mark.parametrize("no", [False, "not on Sundays", PolicyRefused("resume", "not on Sundays")])
@pytest.mark.parametrize("actor", ["", "kim"])
def test_a_refused_resume_changes_nothing_and_is_a_row(no, actor):
    found = park()
    refuses["resume"] = no
    before = list(Interaction.objects.values())
    with pytest.raises(PolicyRefused) as told:
        workflows.complete(found, 1, actor=actor)
    assert no is False or "not on Sundays" in str(told.value)
    assert list(Interaction.objects.values()) == before
    assert not Signal.objects.exists()
    [row] = refusals()
    assert (row.actor, row.data["refused"], row.data["interaction"]) == (actor, "PolicyRefused", str(found.id))
    assert no is False or "not on Sundays" in row.data["reason"]
    refuses.clear()
    workflows.complete(found, 1, actor=actor)
    drain()
    assert_done(found.instance_id)


def test_its_refusal_comes_before_what_is_wrong_with_the_answer():
    @durable(name="policy.typed")
    def typed(ctx):
        return ctx.wait_for_signal("wait", timeout="1h", schema={"type": "integer"})

    found = park(typed)
    refuses["resume"] = False
    with pytest.raises(PolicyRefused):
        workflows.complete(found, "x", version=9)
    refuses.clear()
    with pytest.raises(InvalidData):
        workflows.complete(found, "x")


def test_what_is_unknown_is_told_before_the_policy_is_asked():
    refuses["resume"] = False
    with pytest.raises(workflows.UnknownInteraction):
        workflows.complete("nobody-asked", 1)
    assert asked == []


def test_a_refused_suspend_opens_nothing_and_goes_to_handle():
    refuses["suspend"] = "not here"
    instance = workflows.start(Patient)
    drain()
    assert "not here" in assert_done(instance).result
    assert not Interaction.objects.exists()
    [row] = refusals()
    assert row.instance_id == instance.pk
    assert row.data["operation"] == "suspend"


def test_a_refused_suspend_fails_the_step_by_default():
    refuses["suspend"] = False
    instance = workflows.start(Pay)
    drain()
    assert_failed(instance, "PolicyRefused")


def test_a_refused_suspend_can_be_caught_in_a_function():
    refuses["suspend"] = "not here"
    instance = workflows.start(gate)
    drain()
    assert assert_done(instance).result.startswith("refused")


def test_a_refused_timeout_is_a_row_and_the_instance_says_why():
    found = park()
    refuses["timeout"] = "only with two keys"
    advance("1h")
    instance = Instance.objects.get(pk=found.instance_id)
    [row] = refusals()
    assert (row.instance_id, row.data["operation"]) == (instance.pk, "timeout")
    assert "only with two keys" in row.data["reason"]
    assert instance.status == "failed"
    assert "only with two keys" in instance.error


def test_a_policy_that_fails_itself_lets_nothing_through():
    found = park()
    refuses["resume"] = RuntimeError("broken")
    with pytest.raises(RuntimeError, match="broken"):
        workflows.complete(found, 1)
    assert Interaction.objects.get(pk=found.pk).status == "pending"


def test_it_may_be_given_as_a_path(settings):
    settings.WORKFLOWS = {"POLICY": f"{__name__}.decide"}
    park()
    assert asked


def test_it_is_not_asked_about_plain_signals_and_events():
    class Plain(Workflow):
        name = "policy.plain"

        @step
        def ask(self, ctx):
            return Await("go", then="listen", timeout="1h")

        @step
        def listen(self, ctx):
            return Await(event("paid"), then="end", timeout="1h")

        @step
        def end(self, ctx):
            return Done()

    instance = workflows.start(Plain)
    drain()
    workflows.signal(instance, "go")
    advance("1h")
    assert_done(instance)
    assert asked == []
