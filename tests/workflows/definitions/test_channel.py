"""What is asked and of whom: labels, channels of one's own, schemas of every kind, projectors, and the typed answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pydantic
import pytest
from django import forms
from rest_framework import serializers

import workflows
from workflows import (
    AnswerElsewhere,
    Await,
    Channel,
    Done,
    InvalidCall,
    InvalidData,
    InvalidSchema,
    SignalCollision,
    Workflow,
    durable,
    event,
    step,
)
from workflows.api.completions.completion import complete_at
from workflows.models import AwaitUnit, Instance, Interaction
from workflows.testing import advance, assert_awaiting, assert_done, drain
from workflows.values.json_text import MISSING

pytestmark = pytest.mark.django_db


# Schemas of every kind: none of them takes a text for the amount.


@dataclass(frozen=True)
class Line:
    amount: int
    tags: list[str] = field(default_factory=list)


class Bill(pydantic.BaseModel):
    amount: int
    tags: list[str] = []


class BillSerializer(serializers.Serializer):
    amount = serializers.IntegerField()
    tags = serializers.ListField(child=serializers.CharField(), required=False)


class BillForm(forms.Form):
    amount = forms.IntegerField()


KINDS: dict[str, Any] = {
    "json schema": {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]},
    "dataclass": Line,
    "pydantic": Bill,
    "serializer": BillSerializer,
    "form": BillForm,
    "fields": {"amount": int},
}
TYPED: dict[str, Any] = {"dataclass": Line(5), "pydantic": Bill(amount=5)}
every_kind = pytest.mark.parametrize("kind", KINDS)

seen: list[Any] = []


@pytest.fixture(autouse=True)
def forget_seen():
    seen.clear()


class StepStyle(Workflow):
    name = "channels.step"

    @step
    def ask(self, ctx):
        return Await(ctx.callback("wait", schema=KINDS[ctx.input["kind"]]), then="end", timeout="1h")

    @step
    def end(self, ctx):
        seen.append(ctx.answer)
        return Done()


class EventStep(Workflow):
    name = "channels.event"

    @step
    def ask(self, ctx):
        return Await(event("billed", schema=KINDS[ctx.input["kind"]]), then="end", timeout="1h")

    @step
    def end(self, ctx):
        seen.append(ctx.answer)
        return Done()


@durable(name="channels.function")
def function_style(ctx, kind, how):
    schema = KINDS[kind]
    if how == "signal":
        seen.append(ctx.wait_for_signal("wait", timeout="1h", schema=schema))
    elif how == "callback":
        seen.append(ctx.callback("wait", timeout="1h", schema=schema).wait())
    elif how == "channel":
        seen.append(ctx.wait_for("wait", "api", schema=schema, timeout="1h"))
    else:
        seen.append(ctx.wait_for_event("wait", event="billed", timeout="1h", schema=schema))
    ctx.wait_for_signal("again", timeout="1h")


def check_seen(kind: str) -> None:
    for value in seen:
        if kind in TYPED:
            assert value == TYPED[kind]
            assert type(value) is type(TYPED[kind])
        else:
            assert value == {"amount": 5}


def refuse_bad(found: Interaction, kind: str) -> None:
    for bad, place in (({"amount": "many"}, "amount"), ({}, "amount"), ({"amount": None}, "amount")):
        with pytest.raises(InvalidData) as told:
            workflows.complete(found, bad)
        assert set(told.value.errors) == {place}, (kind, bad)
        assert all(isinstance(reason, str) and reason for reason in told.value.errors[place])
    for bad in (None, [], "amount", 5):
        with pytest.raises(InvalidData) as told:
            workflows.complete(found, bad)
        assert told.value.errors
    assert Interaction.objects.get(pk=found.pk).status == "pending"


@every_kind
def test_in_step_style_each_kind_tells_errors_by_field_and_types_the_answer(kind):
    instance = workflows.start(StepStyle, {"kind": kind})
    drain()
    found = Interaction.objects.get(instance=instance)
    assert found.schema
    refuse_bad(found, kind)
    workflows.complete(found, {"amount": 5})
    drain()
    assert_done(instance)
    assert len(seen) == 1
    check_seen(kind)


@every_kind
@pytest.mark.parametrize("how", ["signal", "callback", "channel"])
def test_in_function_style_each_kind_does_so_and_types_it_again_in_every_replay(kind, how):
    instance = workflows.start(function_style, {"kind": kind, "how": how})
    drain()
    found = Interaction.objects.get(instance=instance)
    refuse_bad(found, kind)
    workflows.complete(found, {"amount": 5})
    drain()
    workflows.complete(f"again-{instance.id}", None)
    drain()
    assert_done(instance)
    assert len(seen) == 2  # the run that got it, and its replay
    check_seen(kind)


@every_kind
def test_an_event_with_a_schema_types_its_data_and_invalid_data_leaves_the_waits_parked(kind):
    one = workflows.start(EventStep, {"kind": kind})
    two = workflows.start(function_style, {"kind": kind, "how": "event"})
    drain()
    assert workflows.emit("billed", {"amount": "many"}) == 0
    assert workflows.emit("billed", None) == 0
    drain()
    assert_awaiting(one, "billed")
    assert_awaiting(two, "billed")
    assert workflows.emit("billed", {"amount": 5}) == 2
    drain()
    assert_done(one)
    workflows.complete(f"again-{two.id}", None)
    drain()
    assert_done(two)
    assert len(seen) == 3
    check_seen(kind)


def test_the_answer_is_none_on_timeout_whatever_the_schema():
    one = workflows.start(StepStyle, {"kind": "dataclass"})
    two = workflows.start(EventStep, {"kind": "pydantic"})
    advance("1h")
    assert_done(one)
    assert_done(two)
    assert seen == [None, None]


def test_a_schema_that_points_elsewhere_is_refused_where_it_is_written():
    for remote in ("https://example.com/schema.json", "//example.com/x", "file:///etc/passwd"):
        with pytest.raises(InvalidSchema):
            event("paid", schema={"$ref": remote})


def test_a_null_schema_field_is_validated_like_any_other():
    @durable(name="channels.nullable")
    def nullable(ctx):
        return [ctx.wait_for_signal("wait", signal="nullable", timeout="1h", schema={"type": "null"})]

    instance = workflows.start(nullable)
    drain()
    with pytest.raises(InvalidData):
        workflows.complete("nullable", 1)
    workflows.complete("nullable", None)
    drain()
    assert_done(instance, [None])


# Labels


@durable(name="channels.label")
def labelled(ctx, label, name="wait"):
    return ctx.wait_for(name, label, input={"q": 1}, assignee="kim", group="staff", timeout="1h")


def ask(label: str, **options: Any) -> Interaction:
    instance = workflows.start(labelled, {"label": label}, **options)
    drain()
    return Interaction.objects.get(instance=instance)


def test_what_is_asked_stands_on_the_row():
    found = ask("chat", key="order-7")
    assert (found.channel, found.request, found.assignee, found.group) == ("chat", {"q": 1}, "kim", "staff")
    assert (found.correlation_id, found.status, found.version, found.index) == ("order-7", "pending", 1, 0)
    assert found.deadline == Instance.objects.get(pk=found.instance_id).due_at
    unit = AwaitUnit.objects.get(pk=found.unit_id)
    assert (unit.step, unit.cardinality, unit.total, unit.remaining) == ("wait", "ONE_TO_ONE", 1, 1)


@pytest.mark.parametrize("label", ["webhook", "chat", "api", "signal", "anything at all"])
def test_a_label_never_keeps_trusted_code_out(label):
    found = ask(label)
    workflows.complete(found, "yes")
    drain()
    assert_done(found.instance_id, "yes")


@pytest.mark.parametrize("label", ["chat", "api", "signal"])
def test_a_label_keeps_the_resume_door_shut(label):
    found = ask(label)
    with pytest.raises(AnswerElsewhere):
        complete_at("id", found.id, "no", workspace="default", door="resume")
    assert Interaction.objects.get(pk=found.pk).status == "pending"


@pytest.mark.parametrize("label", ["callback", "webhook"])
def test_a_label_that_is_answered_by_a_partner_opens_it(label):
    found = ask(label)
    with pytest.raises(InvalidData) as told:
        complete_at("id", found.id, MISSING, workspace="default", door="resume")
    assert told.value.errors == {"data": ["is required"]}
    assert complete_at("id", found.id, None, workspace="default", door="resume").id == found.id


@pytest.mark.parametrize("bad", [7, None, b"api", ["api"], Channel, "", "\0", "x" * 201])
def test_what_is_no_channel_is_refused_at_the_wait(bad):
    told: list[str] = []

    @durable(name="channels.bad", max_attempts=1)
    def asks(ctx):
        try:
            ctx.wait_for("wait", bad)
        except InvalidCall as error:
            told.append(str(error))

    instance = workflows.start(asks)
    drain()
    assert_done(instance)
    assert told
    assert not Interaction.objects.exists()


def test_an_unknown_cardinality_is_refused():
    @durable(name="channels.cardinality", max_attempts=1)
    def asks(ctx):
        with pytest.raises(InvalidCall, match="ONE_TO_MANY"):
            ctx.wait_for("wait", "api", cardinality="SOME_TO_FEW")

    instance = workflows.start(asks)
    drain()
    assert_done(instance)


# Channels of one's own

written: list[Any] = []


class Desk(Channel):
    name = "desk"
    owns_answers = True
    door = "at the desk"

    def __init__(self, title: str = "really?", schema: Any = None) -> None:
        self.request, self.schema, self.assignee = {"title": title}, schema, "kim"

    def open(self, interactions):
        written.extend(interactions)
        if self.request["title"] == "fails":
            raise RuntimeError("the desk is closed")
        # A row of the channel's own, which must come and go with the question.
        workflows.workspace.create(f"desk-{interactions[0].id}")


@durable(name="channels.desk")
def desk(ctx, title="really?"):
    try:
        return ctx.wait_for("wait", Desk(title), timeout="1h")
    except RuntimeError as error:
        return str(error)


class DeskStep(Workflow):
    name = "channels.desk_step"

    @step
    def ask(self, ctx):
        return Await(Desk(ctx.input.get("title", "really?")), then="end", timeout="1h")

    @step
    def end(self, ctx):
        return Done(ctx.answer)

    def handle(self, error, ctx):
        return Done(str(error))


both_styles = pytest.mark.parametrize("workflow", [desk, DeskStep], ids=["function", "step"])


@pytest.fixture(autouse=True)
def forget_written():
    written.clear()


@both_styles
def test_a_channel_sees_its_interaction_in_the_transaction_that_opens_it(workflow):
    instance = workflows.start(workflow)
    drain()
    [found] = written
    assert (found.channel, found.owned, found.request, found.assignee) == ("desk", True, {"title": "really?"}, "kim")
    assert found.instance_id == instance.pk
    assert workflows.models.Workspace.objects.filter(slug=f"desk-{found.id}").exists()
    assert_awaiting(instance)


@both_styles
def test_a_channel_that_cannot_open_opens_nothing(workflow):
    instance = workflows.start(workflow, {"title": "fails"})
    drain()
    assert_done(instance, "the desk is closed")
    assert not Interaction.objects.filter(instance=instance).exists()
    assert not AwaitUnit.objects.filter(instance=instance).exists()


@both_styles
def test_no_door_of_the_outside_answers_for_a_channel_that_owns_its_answers(workflow):
    instance = workflows.start(workflow)
    drain()
    [found] = written
    for call in (
        lambda: workflows.complete(found, "yes"),
        lambda: workflows.complete(found.signal_id, "yes", actor="kim"),
        lambda: complete_at("id", found.id, "yes", workspace="default", door="resume"),
        lambda: complete_at("id", found.id, "yes", workspace="default", door="api", actor="key:1"),
    ):
        with pytest.raises(AnswerElsewhere) as told:
            call()
        assert told.value.channel == "desk"
    assert_awaiting(instance)


def test_a_channel_whose_signal_id_is_taken_collides_and_writes_no_row_of_its_own():
    first = workflows.start(DeskStep)
    drain()
    taken = Interaction.objects.get(instance=first).signal_id

    class Copy(Workflow):
        name = "channels.copy"

        @step
        def ask(self, ctx):
            from workflows.definitions.question import Question

            return Await(Question("ask", signal_id=taken, channel="desk", opener=Desk()), then="ask")

        def handle(self, error, ctx):
            assert isinstance(error, SignalCollision)
            return Done("collided")

    second = workflows.start(Copy)
    drain()
    assert_done(second, "collided")
    assert len(written) == 1
    assert_awaiting(first)


# Projectors


def price(request: Any, submitted: Any) -> Any:
    """The price is ours, the count is theirs."""
    return {"total": request["price"] * submitted["count"]}


class Shop(Channel):
    name = "shop"
    request = {"price": 7}
    schema = {"type": "object", "properties": {"count": {}}, "required": ["count"]}
    projector = staticmethod(price)


@durable(name="channels.shop")
def shop(ctx):
    return ctx.wait_for("wait", Shop(), timeout="1h")


def test_a_projector_makes_the_trusted_output_of_what_was_asked_and_what_was_sent():
    instance = workflows.start(shop)
    drain()
    found = Interaction.objects.get(instance=instance)
    workflows.complete(found, {"count": 3})
    drain()
    assert_done(instance, {"total": 21})
    assert Interaction.objects.get(pk=found.pk).output == {"total": 21}


def test_when_a_projector_fails_the_interaction_stays_pending():
    instance = workflows.start(shop)
    drain()
    found = Interaction.objects.get(instance=instance)
    with pytest.raises(workflows.WorkflowError):
        workflows.complete(found, {"count": None})
    with pytest.raises(InvalidData):  # the schema comes first
        workflows.complete(found, {})
    row = Interaction.objects.get(pk=found.pk)
    assert (row.status, row.version, row.output) == ("pending", 1, None)
    assert_awaiting(instance)
    workflows.complete(found, {"count": 1})
    drain()
    assert_done(instance, {"total": 7})


def test_a_projector_that_fails_for_a_named_actor_is_a_row_of_the_ledger():
    instance = workflows.start(shop)
    drain()
    with pytest.raises(workflows.WorkflowError):
        workflows.complete(Interaction.objects.get(instance=instance), {"count": None}, actor="kim")
    [row] = instance.events.filter(kind="refused")
    assert (row.actor, row.data["refused"]) == ("kim", "ProjectionFailed")
