"""WORKFLOWS["POLICY"]: asked at suspend, resume and timeout; what it refuses changes nothing and is a ledger row."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

import workflows
from tests.support.statements import statements
from workflows import (
    Await,
    Done,
    InvalidData,
    Machine,
    Next,
    PolicyRefused,
    Workflow,
    action,
    durable,
    event,
    flow,
    step,
    wait_for,
)
from workflows.api.completions.completion import complete_at
from workflows.models import EventWait, Instance, Interaction, LedgerEvent, Signal
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db

asked: list[tuple[str, Any, str]] = []
refuses: dict[str, Any] = {}


def decide(operation: str, interaction: Any, actor: str) -> Any:
    asked.append((operation, interaction, actor))
    if interaction.signal_id != refuses.get("only", interaction.signal_id):
        return None
    if interaction.instance_id != refuses.get("instance", interaction.instance_id):
        return None
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


def test_it_is_not_asked_about_plain_signals():
    class Plain(Workflow):
        name = "policy.plain"

        @step
        def ask(self, ctx):
            return Await("go", then="end", timeout="1h")

        @step
        def end(self, ctx):
            return Done()

    first, second = workflows.start(Plain), workflows.start(Plain)
    drain()
    workflows.signal(first, "go")
    advance("1h")
    assert_done(first)
    assert_done(second)
    assert asked == []


# --- waits for events ---------------------------------------------------------------------------------------


class Listen(Workflow):
    name = "policy.listen"

    @step
    def ask(self, ctx):
        return Await(event("paid", {"order": 7}), then="end", timeout="1h")

    @step
    def end(self, ctx):
        return Done({"answer": ctx.answer, "timed_out": ctx.timed_out})


@durable(name="policy.listening", max_attempts=1)
def listening(ctx):
    answer = ctx.wait_for_event("pay", event="paid", match={"order": 7}, timeout="1h")
    return {"answer": answer, "timed_out": answer is None}


class ListeningMachine(Machine):
    name = "policy.machine"
    payment = wait_for(event="paid", match={"order": 7}, timeout="1h", on_timeout="give_up")
    told = action(lambda ctx: {"answer": dict(ctx.steps.payment), "timed_out": False})
    give_up = flow(action(lambda ctx: {"answer": None, "timed_out": True}))


STYLES = ["step", "function", "machine"]
every_style = pytest.mark.parametrize("workflow", [Listen, listening, ListeningMachine], ids=STYLES)


def listen_to(workflow: Any) -> Instance:
    instance = workflows.start(workflow)
    drain()
    instance.refresh_from_db()
    return instance


@every_style
def test_a_wait_for_an_event_is_asked_about_at_suspend_and_resume(workflow):
    instance = listen_to(workflow)
    assert [(one[0], one[2]) for one in asked] == [("suspend", "")]
    assert workflows.emit("paid", {"order": 8}) == 0
    assert workflows.emit("paid", {"order": 7}, actor="kim") == 1
    assert [(one[0], one[2]) for one in asked] == [("suspend", ""), ("resume", "kim")]
    for _, interaction, _ in asked:
        assert (interaction.signal_id, interaction.channel, interaction.request) == ("paid", "event", {"order": 7})
        assert (interaction.instance_id, interaction.unit_id) == (instance.pk, None)
    drain()
    assert_done(instance, {"answer": {"order": 7}, "timed_out": False})
    assert refusals() == []


@every_style
def test_a_wait_for_an_event_is_asked_about_at_timeout(workflow):
    instance = listen_to(workflow)
    advance("1h")
    assert [one[0] for one in asked] == ["suspend", "timeout"]
    assert asked[-1][1].signal_id == "paid"
    assert_done(instance, {"answer": None, "timed_out": True})


@every_style
def test_a_refused_wait_for_an_event_is_not_begun_and_is_a_row(workflow):
    refuses["suspend"] = "not here"
    instance = listen_to(workflow)
    assert not EventWait.objects.exists()
    assert "not here" in assert_failed(instance, "PolicyRefused").error
    [row] = refusals()
    assert (row.instance_id, row.data["operation"], row.data["event"]) == (instance.pk, "suspend", "paid")
    assert "not here" in row.data["reason"]


def test_a_refused_wait_for_an_event_can_be_caught_in_a_function_and_stays_caught():
    @durable(name="policy.caught")
    def caught(ctx):
        with suppress(PolicyRefused):
            ctx.wait_for_event("pay", event="paid", timeout="1h")
        return ctx.wait_for_event("other", event="other", timeout="1h")

    refuses["suspend"] = PolicyRefused("suspend", "not here")
    refuses["only"] = "paid"
    instance = listen_to(caught)
    assert len(refusals()) == 1
    refuses.clear()
    workflows.emit("other", 1)
    drain()
    assert_done(instance, 1)
    assert len(refusals()) == 1


@every_style
def test_a_refused_event_leaves_the_wait_parked_and_is_a_row(workflow):
    instance = listen_to(workflow)
    refuses["resume"] = "not on Sundays"
    assert workflows.emit("paid", {"order": 7, "n": 1}, actor="kim") == 0
    drain()
    assert Instance.objects.get(pk=instance.pk).status == "awaiting"
    [row] = refusals()
    assert (row.instance_id, row.actor, row.data["operation"]) == (instance.pk, "kim", "resume")
    assert (row.data["event"], row.data["refused"]) == ("paid", "PolicyRefused")
    assert "not on Sundays" in row.data["reason"]
    refuses.clear()
    assert workflows.emit("paid", {"order": 7, "n": 2}) == 1
    drain()
    assert_done(instance, {"answer": {"order": 7, "n": 2}, "timed_out": False})


@every_style
def test_an_event_that_came_before_the_wait_is_asked_about_too(workflow):
    instance = workflows.start(workflow)
    workflows.emit("paid", {"order": 7}, actor="kim")
    refuses["resume"] = False
    drain()
    assert [(one[0], one[2]) for one in asked] == [("suspend", ""), ("resume", "kim")]
    assert Instance.objects.get(pk=instance.pk).status == "awaiting"
    [row] = refusals()
    assert (row.actor, row.data["event"], row.data["operation"]) == ("kim", "paid", "resume")


def test_a_refusal_for_one_wait_keeps_the_event_from_no_other():
    first, second = listen_to(Listen), listen_to(Listen)
    refuses["instance"] = first.pk
    refuses["resume"] = "not this one"
    assert workflows.emit("paid", {"order": 7}) == 1
    drain()
    assert Instance.objects.get(pk=first.pk).status == "awaiting"
    assert_done(second)


@every_style
def test_a_refused_timeout_of_an_event_is_a_row_and_the_instance_says_why(workflow):
    instance = listen_to(workflow)
    refuses["timeout"] = "only with two keys"
    advance("1h")
    [row] = refusals()
    assert (row.instance_id, row.data["operation"], row.data["event"]) == (instance.pk, "timeout", "paid")
    assert "only with two keys" in assert_failed(instance).error


def test_a_policy_that_fails_itself_lets_no_event_through():
    instance = listen_to(Listen)
    refuses["resume"] = RuntimeError("broken")
    with pytest.raises(RuntimeError, match="broken"):
        workflows.emit("paid", {"order": 7})
    assert Instance.objects.get(pk=instance.pk).status == "awaiting"


def test_a_policy_that_fails_itself_lets_no_earlier_event_through(caplog):
    instance = workflows.start(Listen)
    workflows.emit("paid", {"order": 7})
    refuses["resume"] = RuntimeError("broken")
    drain()
    assert Instance.objects.get(pk=instance.pk).status == "awaiting"
    assert [row.data["refused"] for row in refusals()] == ["RuntimeError"]
    assert "the policy could not be asked" in caplog.text


def test_without_a_policy_an_event_costs_what_it_did(settings):
    settings.WORKFLOWS = {}
    instance = listen_to(Listen)
    with statements(4):
        workflows.emit("paid", {"order": 7})
    drain()
    assert_done(instance)
    assert asked == []


# --- what the history tells of a suspension ------------------------------------------------------------------


SCHEMA = {"type": "object", "properties": {"amount": {"type": "integer"}}}


def last_suspension(instance: Instance) -> Any:
    return LedgerEvent.objects.filter(instance=instance, kind="suspended").order_by("seq").last().data


class Typed(Workflow):
    name = "policy.typed_event"

    @step
    def ask(self, ctx):
        return Await(event("paid", {"order": 7}, SCHEMA, channel="webhook"), then="end", timeout="1h")

    @step
    def end(self, ctx):
        return Done()


@durable(name="policy.typed_function")
def typed_function(ctx):
    ctx.wait_for_event("pay", event="paid", match={"order": 7}, schema=SCHEMA, channel="webhook", timeout="1h")


class TypedMachine(Machine):
    name = "policy.typed_machine"
    payment = wait_for(event="paid", match={"order": 7}, schema=SCHEMA, channel="webhook", timeout="1h")


@pytest.mark.parametrize("workflow", [Typed, typed_function, TypedMachine], ids=STYLES)
def test_the_row_of_a_wait_for_an_event_holds_its_name_timeout_channel_and_schema(workflow):
    told = last_suspension(listen_to(workflow))
    assert {key: told[key] for key in ("event", "channel", "match", "timeout", "schema")} == {
        "event": "paid",
        "channel": "webhook",
        "match": {"order": 7},
        "timeout": 3600,
        "schema": SCHEMA,
    }


@every_style
def test_the_row_of_a_wait_without_a_label_says_that_it_is_for_an_event(workflow):
    told = last_suspension(listen_to(workflow))
    assert (told["event"], told["channel"], told["timeout"]) == ("paid", "event", 3600)
    assert "schema" not in told


class ReadBefore(Workflow):
    name = "policy.read_before"

    @step
    def hand_out(self, ctx):
        return Next("ask", {"url": ctx.callback("pay", SCHEMA).resume_token})

    @step
    def ask(self, ctx):
        return Await(ctx.callback("pay", SCHEMA), then="end", timeout="1h")

    @step
    def end(self, ctx):
        return Done()


@durable(name="policy.read_before_function")
def read_before(ctx):
    pay = ctx.callback("pay", SCHEMA, timeout="1h")
    ctx.step("hand out", lambda: pay.resume_token)
    pay.wait()


class ReadBeforeMachine(Machine):
    name = "policy.read_before_machine"
    hand_out = action(lambda ctx: ctx.steps.pay._resume_token)
    pay = wait_for(callback=True, schema=SCHEMA, timeout="1h")


@pytest.mark.parametrize("workflow", [ReadBefore, read_before, ReadBeforeMachine], ids=STYLES)
def test_a_callback_whose_address_was_read_before_its_park_has_its_timeout_in_a_row(workflow):
    instance = listen_to(workflow)
    told = last_suspension(instance)
    assert (told["step"], told["channel"], told["timeout"]) == ("pay", "callback", 3600)
    [row] = LedgerEvent.objects.filter(instance=instance, kind="asked")
    assert (row.data["schema"], row.data["channel"]) == (SCHEMA, "callback")
