"""The same stories in the three styles, with the same visible results: whoever asks, waits and answers alike."""

import contextlib
import itertools
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import connections

import workflows
from tests.support.races import forget, take_one
from workflows import (
    FAIL,
    Await,
    Done,
    InteractionResolved,
    InvalidData,
    Machine,
    Next,
    SignalTimeoutError,
    UnknownInteraction,
    Workflow,
    action,
    durable,
    engine,
    event,
    flow,
    step,
    store,
    wait_for,
)
from workflows.engine.author_calls import Host
from workflows.models import AwaitUnit, EventWait, Instance, Interaction, LedgerEvent
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db

#: What the partner, or the rest of the world, does when it is told the address.
told: list[str] = []
partner: list[Any] = []


@dataclass(frozen=True)
class Payment:
    amount: int
    note: str = ""


def tell(url: str) -> None:
    told.append(url)
    for act in partner:
        act()


# --- a payment: an address is handed out, then waited for -----------------------------------------


class PaySteps(Workflow):
    name = "styles.pay.steps"

    @step
    def charge(self, ctx):
        tell(ctx.callback("payment", schema=Payment).resume_url)
        return Next("ask")

    @step
    def ask(self, ctx):
        return Await(ctx.callback("payment", schema=Payment), then="receipt", timeout="24h")

    @step
    def receipt(self, ctx):
        return Done({"paid": None if ctx.answer is None else ctx.answer.amount})


@durable(name="styles.pay.function")
def pay_function(ctx):
    payment = ctx.callback("payment", timeout="24h", schema=Payment)
    ctx.step("charge", lambda: tell(payment.resume_url))
    try:
        return {"paid": payment.wait().amount}
    except SignalTimeoutError:
        return {"paid": None}


class PayMachine(Machine):
    name = "styles.pay.machine"
    charge = action(lambda ctx: tell(ctx.steps.payment._resume_url))
    payment = wait_for(callback=True, timeout="24h", on_timeout="late", schema=Payment)
    receipt = action(lambda ctx: {"paid": ctx.steps.payment.amount})
    late = flow(action(lambda ctx: {"paid": None}))


# --- an order: an event is waited for, after something else ---------------------------------------


class OrderSteps(Workflow):
    name = "styles.order.steps"

    @step
    def place(self, ctx):
        tell("order")
        return Next("wait")

    @step
    def wait(self, ctx):
        return Await(event("paid", match={"order": ctx.input["order"]}), then="end", timeout="24h")

    @step
    def end(self, ctx):
        return Done({"paid": ctx.answer})


@durable(name="styles.order.function")
def order_function(ctx, order):
    ctx.step("place", lambda: tell("order"))
    return {"paid": ctx.wait_for_event("paid", event="paid", match={"order": order}, timeout="24h")}


class OrderMachine(Machine):
    name = "styles.order.machine"
    place = action(lambda ctx: tell("order"))
    paid = wait_for(event="paid", match=lambda ctx: {"order": ctx.input["order"]}, timeout="24h", on_timeout="late")
    end = action(lambda ctx: {"paid": ctx.steps["paid"]})
    late = flow(action(lambda ctx: {"paid": None}))


# --- a deadline that nobody looks after -----------------------------------------------------------


class StrictSteps(Workflow):
    name = "styles.strict.steps"

    @step
    def ask(self, ctx):
        return Await(ctx.callback("payment"), then="end", timeout="24h")

    @step
    def end(self, ctx):
        return Done() if ctx.answer else workflows.Stop("'payment' was not answered")


@durable(name="styles.strict.function")
def strict_function(ctx):
    return ctx.callback("payment", timeout="24h").wait()


class StrictMachine(Machine):
    name = "styles.strict.machine"
    payment = wait_for(callback=True, timeout="24h", on_timeout=FAIL)


STYLES = ["steps", "function", "machine"]
pays = pytest.mark.parametrize("pay", [PaySteps, pay_function, PayMachine], ids=STYLES)
orders = pytest.mark.parametrize("order", [OrderSteps, order_function, OrderMachine], ids=STYLES)


@pytest.fixture(autouse=True)
def fresh():
    told.clear()
    partner.clear()
    yield
    partner.clear()


def start(workflow, input=None) -> Instance:
    instance = workflows.start(workflow, input)
    drain()
    instance.refresh_from_db()
    return instance


def asked(instance) -> Interaction:
    return Interaction.objects.get(instance=instance)


def read_kinds(instance) -> list[str]:
    """Its history from the question on, without what is the style's own way to move on."""
    own = {"started", "advanced", "parked", "suspended", "woke"}
    return [str(one.kind) for one in instance.events.all() if str(one.kind) not in own]


# --- payment arrives -------------------------------------------------------------------------------


@pays
def test_the_payment_arrives(pay):
    instance = start(pay)
    assert_awaiting(instance, "payment")
    one = asked(instance)
    assert (one.status, one.channel, one.index, one.version) == ("pending", "callback", 0, 1)
    assert one.signal_id == f"payment-{instance.pk}"
    assert one.schema["properties"]["amount"]["type"] == "integer"
    assert one.deadline == instance.due_at
    completion = workflows.complete(one.signal_id, {"amount": 5}, actor="bank")
    assert (completion.id, completion.instance, completion.replayed) == (one.pk, instance.pk, False)
    drain()
    assert_done(instance, {"paid": 5})
    one.refresh_from_db()
    assert (one.status, one.output, one.version) == ("completed", {"amount": 5}, 2)
    assert AwaitUnit.objects.get().status == "completed"
    assert read_kinds(instance) == ["asked", "answered", "done"]
    assert LedgerEvent.objects.get(instance=instance, kind="answered").actor == "bank"


@pays
def test_the_payment_times_out(pay):
    instance = start(pay)
    advance("23h 59m".replace(" ", ""))
    assert_awaiting(instance, "payment")
    advance("1m")
    assert_done(instance, {"paid": None})
    assert asked(instance).status == AwaitUnit.objects.get().status == "expired"
    with pytest.raises(InteractionResolved):
        workflows.complete(asked(instance), {"amount": 5})
    assert read_kinds(instance)[:2] == ["asked", "timed_out"]


@pytest.mark.parametrize("strict", [StrictSteps, strict_function, StrictMachine], ids=STYLES)
def test_a_timeout_that_nobody_handles_fails_the_instance_and_retry_asks_anew(strict):
    instance = start(strict)
    advance("24h")
    assert_failed(instance, "'payment'")
    if strict is StrictSteps:
        return  # its retry runs the step after the wait again, as the step style does with every failure
    workflows.retry(instance)
    drain()
    assert_awaiting(instance, "payment")
    workflows.complete(Interaction.objects.get(instance=instance, status="pending"), 1)
    drain()
    assert_done(instance, 1)


@pays
def test_the_answer_comes_before_the_park(pay):
    partner.append(lambda: workflows.complete(Interaction.objects.get(), {"amount": 5}))
    instance = start(pay)
    assert_done(instance, {"paid": 5})
    assert read_kinds(instance) == ["asked", "answered", "done"]


@pays
def test_the_payment_is_answered_twice(pay):
    instance = start(pay)
    workflows.complete(asked(instance), {"amount": 5}, idempotency_key="a")
    with pytest.raises(InteractionResolved):
        workflows.complete(asked(instance), {"amount": 6})
    assert workflows.complete(asked(instance), {"amount": 5}, idempotency_key="a").replayed
    drain()
    assert workflows.complete(asked(instance), {"amount": 5}, idempotency_key="a").replayed
    with pytest.raises(InteractionResolved):
        workflows.complete(asked(instance), {"amount": 6})
    assert_done(instance, {"paid": 5})
    assert read_kinds(instance).count("answered") == 1


@pays
def test_it_is_cancelled_while_it_waits(pay):
    instance = start(pay)
    workflows.cancel(instance, "no longer wanted")
    assert asked(instance).status == AwaitUnit.objects.get().status == "cancelled"
    with pytest.raises(UnknownInteraction):
        workflows.complete(asked(instance).signal_id, {"amount": 5})
    assert advance("48h") == {}
    instance.refresh_from_db()
    assert (instance.status, instance.error, instance.due_at) == ("cancelled", "no longer wanted", None)
    assert read_kinds(instance) == ["asked", "cancelled"]


@pays
def test_its_schema_refuses_and_then_accepts(pay):
    instance = start(pay)
    for bad, place in (({"amount": "much"}, "amount"), ({}, "amount"), ([], "")):
        with pytest.raises(InvalidData) as caught:
            workflows.complete(asked(instance), bad)
        assert list(caught.value.errors) == [place]
    drain()
    assert_awaiting(instance, "payment")
    assert asked(instance).version == 1
    workflows.complete(asked(instance), {"amount": 7, "note": "thanks"}, version=1)
    drain()
    assert_done(instance, {"paid": 7})


@pays
def test_a_plain_signal_never_answers(pay):
    instance = start(pay)
    for name in ("payment", asked(instance).signal_id):
        with contextlib.nullcontext() if pay is PaySteps else pytest.raises(workflows.NoReader):
            workflows.signal(instance, name, {"amount": 5})
    drain()
    assert_awaiting(instance, "payment")


# --- events ----------------------------------------------------------------------------------------


@orders
def test_the_event_comes_before_the_wait(order):
    partner.append(lambda: workflows.emit("paid", {"order": 7, "amount": 5}))
    assert_done(start(order, {"order": 7}), {"paid": {"order": 7, "amount": 5}})
    assert not EventWait.objects.filter(closed_at=None).exists()


@orders
def test_the_event_comes_after_the_wait_and_must_match(order):
    instance = start(order, {"order": 7})
    assert_awaiting(instance, "paid")
    assert workflows.emit("paid", {"order": 8}) == 0
    assert workflows.emit("paid", {"order": 7}) == 1
    assert workflows.emit("paid", {"order": 7, "again": True}) == 0
    drain()
    assert_done(instance, {"paid": {"order": 7}})


@orders
def test_the_event_does_not_come(order):
    instance = start(order, {"order": 7})
    advance("24h")
    assert_done(instance, {"paid": None})
    assert workflows.emit("paid", {"order": 7}) == 0


# --- restart in the middle -------------------------------------------------------------------------


def crash() -> None:
    """A worker claims, runs, and dies before its outcome is committed; its lease ends."""
    db = connections["default"]
    claim = take_one()
    engine.run(claim, Host(db, "default", savepoints=True))
    forget(claim)
    store.reclaim(db)


@pays
@pytest.mark.parametrize("when", ["before it asks", "after it asked", "after the answer"])
def test_it_is_restarted_in_the_middle(pay, when):
    instance = workflows.start(pay)
    if when == "before it asks":
        crash()
    drain()
    if when == "after it asked":
        assert_awaiting(instance, "payment")
    workflows.complete(asked(instance), {"amount": 5})
    if when == "after the answer":
        crash()
    drain()
    assert_done(instance, {"paid": 5})
    assert len(set(told)) == 1, "one address, however often it was handed out"
    assert Interaction.objects.count() == AwaitUnit.objects.count() == 1
    assert asked(instance).output == {"amount": 5}


@orders
def test_an_order_is_restarted_before_every_commit(order):
    instance = workflows.start(order, {"order": 7})
    crash()
    drain()
    workflows.emit("paid", {"order": 7})
    crash()
    drain()
    assert_done(instance, {"paid": {"order": 7}})
    assert EventWait.objects.filter(closed_at=None).count() == 0


def test_the_three_styles_leave_the_same_rows():
    """Column by column, but for ids, times and addresses."""
    left = []
    for pay in (PaySteps, pay_function, PayMachine):
        instance = start(pay)
        workflows.complete(asked(instance), {"amount": 5})
        drain()
        instance.refresh_from_db()
        one = asked(instance)
        left.append(
            (
                (instance.status, instance.result, instance.error, instance.attempt, instance.inbox, instance.asked),
                (one.status, one.channel, one.output, one.version, one.unit.cardinality, one.schema, one.unit.step),
                (one.unit.status, one.unit.visit, one.unit.total, one.unit.remaining),
                read_kinds(instance),
            )
        )
    for first, second in itertools.pairwise(left):
        assert first == second
