"""Labels beside events and callbacks: which door of the outside may answer. And a machine in a file, in plain words.

A label restricts the doors of the outside; the project's own code is trusted, and reaches every wait.
"""

from __future__ import annotations

from typing import Any

import pytest

import workflows
from tests.support.api_calls import Api, make_key
from workflows import (
    AnswerElsewhere,
    Await,
    Done,
    InvalidCall,
    InvalidDefinition,
    InvalidInput,
    Machine,
    Workflow,
    action,
    durable,
    event,
    flow,
    step,
    wait_for,
)
from workflows.api.completions.completion import complete_at
from workflows.api.events import emit_event
from workflows.models import EventWait, Instance, Interaction
from workflows.testing import advance, assert_done, drain

pytestmark = pytest.mark.django_db

STYLES = ["step", "function", "machine"]


class Listen(Workflow):
    name = "labels.listen"

    @step
    def ask(self, ctx):
        return Await(event("paid", channel=ctx.input["label"]), then="end", timeout="1h")

    @step
    def end(self, ctx):
        return Done(ctx.answer)


@durable(name="labels.listening")
def listening(ctx, label):
    return ctx.wait_for_event("pay", event="paid", channel=label, timeout="1h")


def make_machine(label: str) -> Any:
    class Labelled(Machine):
        name = f"labels.machine_{label}"
        payment = wait_for(event="paid", channel=label, timeout="1h")

    return Labelled


def begin(style: str, label: str) -> Instance:
    workflow: Any = {"step": Listen, "function": listening, "machine": None}[style] or make_machine(label)
    return workflows.start(workflow, {"label": label})


every_style = pytest.mark.parametrize("style", STYLES)


@every_style
@pytest.mark.parametrize(("label", "woke"), [("api", 1), ("webhook", 0), ("chat", 0)])
def test_an_event_of_a_door_wakes_only_a_wait_with_its_label(style: str, label: str, woke: int) -> None:
    instance = begin(style, label)
    drain()
    assert EventWait.objects.get().channel == label
    assert emit_event("paid", {"n": 1}, door="api").woke == woke
    drain()
    instance.refresh_from_db()
    assert instance.status == ("done" if woke else "awaiting")


@every_style
@pytest.mark.parametrize(("label", "taken"), [("api", True), ("webhook", False)])
def test_an_event_of_a_door_that_came_before_is_taken_only_with_its_label(style: str, label: str, taken: bool) -> None:
    instance = begin(style, label)
    emit_event("paid", {"n": 1}, door="api")
    drain()
    instance.refresh_from_db()
    assert instance.status == ("done" if taken else "awaiting")


@every_style
def test_what_the_projects_own_code_emits_reaches_every_label(style: str) -> None:
    instance = begin(style, "webhook")
    drain()
    assert workflows.emit("paid", {"n": 1}) == 1
    drain()
    assert_done(instance, {"n": 1})


def test_a_wait_without_a_label_takes_events_of_every_door() -> None:
    instance = workflows.start(Listen, {"label": None})
    drain()
    assert emit_event("paid", 1, door="api").woke == 1
    drain()
    assert_done(instance, 1)


def test_the_api_is_the_door_called_api() -> None:
    webhook, api = begin("step", "webhook"), begin("step", "api")
    drain()
    answer = Api(make_key("signal")).post("/v1/events", {"event": "paid", "data": {"n": 1}})
    assert answer.json()["woke"] == 1
    drain()
    assert_done(api)
    assert Instance.objects.get(pk=webhook.pk).status == "awaiting"


# --- callbacks --------------------------------------------------------------------------------------------


class Call(Workflow):
    name = "labels.call"

    @step
    def ask(self, ctx):
        return Await(ctx.callback("pay", channel=ctx.input["label"]), then="end", timeout="1h")

    @step
    def end(self, ctx):
        return Done(ctx.answer)


@durable(name="labels.calling")
def calling(ctx, label):
    return ctx.callback("pay", timeout="1h", channel=label).wait()


def make_calling_machine(label: str) -> Any:
    class Calling(Machine):
        name = f"labels.calling_{label}"
        pay = wait_for(callback=True, channel=label, timeout="1h")

    return Calling


@every_style
@pytest.mark.parametrize(("label", "opens"), [("webhook", True), ("callback", True), ("api", False), ("chat", False)])
def test_the_label_of_a_callback_says_whether_its_address_may_answer(style: str, label: str, opens: bool) -> None:
    workflow: Any = {"step": Call, "function": calling, "machine": None}[style] or make_calling_machine(label)
    instance = workflows.start(workflow, {"label": label})
    drain()
    found = Interaction.objects.get()
    assert found.channel == label
    if not opens:
        with pytest.raises(AnswerElsewhere):
            complete_at("id", found.id, {"n": 1}, workspace="default", door="resume")
        assert Interaction.objects.get().status == "pending"
    complete_at("id", found.id, {"n": 1}, workspace="default", door="resume" if opens else "api")
    drain()
    assert_done(instance, {"n": 1})


@pytest.mark.parametrize("label", [7, object(), ""])
def test_beside_an_event_or_a_callback_a_channel_is_a_label(label: Any) -> None:
    with pytest.raises(InvalidCall):
        event("paid", channel=label)
    with pytest.raises(InvalidDefinition, match="stage 'pay'"):

        class Wrong(Machine):
            name = "labels.wrong"
            pay = wait_for(callback=True, channel=label)


def test_an_event_and_a_callback_still_exclude_each_other() -> None:
    with pytest.raises(InvalidDefinition, match="event and callback"):

        class Both(Machine):
            name = "labels.both"
            pay = wait_for(event="paid", callback=True, channel="webhook")
            late = flow(action(lambda ctx: None))


# --- a machine in a file, in the words of people who do not program -----------------------------------------


PLAIN = """
name: labels.plain
accepts:
  order: number is required
  note: text
stages:
  - payment:
      wait for:
        event: payment_confirmed
        channel: webhook
        timeout: 24h
        on_timeout: flow(give_up)
        schema:
          amount: number, is required
          paid: boolean is required
          lines: list is required
          remark: text
  - receipt: {action: receipt}
flows:
  give_up:
    - action: give_up
"""


def load(text: str = PLAIN) -> Any:
    return Machine.from_yaml(text, functions={"receipt": receipt, "give_up": lambda ctx: "gave up"})


def receipt(ctx: Any) -> Any:
    payment = ctx.steps.payment
    return {"amount": payment.amount, "remark": payment.get("remark")}


def test_a_timeout_leads_into_the_flow_that_is_named_with_its_word() -> None:
    instance = workflows.start(load(), {"order": 7})
    advance("24h")
    assert_done(instance, "gave up")


@pytest.mark.parametrize(("more", "remark"), [({}, None), ({"remark": "thanks"}, "thanks")])
def test_a_field_without_the_modifier_is_optional_beside_one_that_has_it(more: Any, remark: Any) -> None:
    instance = workflows.start(load(), {"order": 7, "note": "quick"})
    drain()
    assert workflows.emit("payment_confirmed", {"amount": 3, "paid": True, "lines": [1], **more}) == 1
    drain()
    assert_done(instance, {"amount": 3, "remark": remark})


@pytest.mark.parametrize(
    "wrong",
    [
        {"paid": True, "lines": []},
        {"amount": 1, "lines": []},
        {"amount": "1", "paid": True, "lines": []},
        {"amount": 1, "paid": "yes", "lines": []},
        {"amount": 1, "paid": True, "lines": "x"},
        {"amount": 1, "paid": True, "lines": [], "remark": 7},
    ],
    ids=str,
)
def test_what_is_required_and_of_which_type_is_checked(wrong: Any) -> None:
    workflows.start(load(), {"order": 7})
    drain()
    assert workflows.emit("payment_confirmed", wrong) == 0


def test_the_input_is_checked_by_the_same_words() -> None:
    machine = load()
    for wrong in ({}, {"note": "x"}, {"order": "seven"}, {"order": 7, "note": 7}):
        with pytest.raises(InvalidInput):
            workflows.start(machine, wrong)


def test_without_the_modifier_every_field_is_required_as_before() -> None:
    machine = load(PLAIN.replace("number is required", "number").replace("labels.plain", "labels.strict"))
    with pytest.raises(InvalidInput):
        workflows.start(machine, {"order": 7})
    workflows.start(machine, {"order": 7, "note": "quick"})
