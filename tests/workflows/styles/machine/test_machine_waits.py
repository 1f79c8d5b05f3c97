"""Waits of a Machine: events, callbacks and channels, their answers, their timeouts and their side paths."""

import json
from dataclasses import dataclass
from typing import Any

import pytest

import workflows
from workflows import END, InvalidData, Machine, action, branch, flow, launch, sleep, wait_for
from workflows.definitions.channel import Channel
from workflows.lifecycle import Status
from workflows.models import AwaitUnit, Instance, Interaction
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db


def run(machine: Any, input: Any = None, **options: Any) -> Instance:
    """Start an instance and run whatever can run now."""
    instance = workflows.start(machine, input, **options)
    drain()
    instance.refresh_from_db()
    return instance


def pending(instance: Instance) -> Interaction:
    return Interaction.objects.get(instance=instance, status="pending")


def answer(instance: Instance, data: Any) -> None:
    workflows.complete(pending(instance), data)
    drain()


# --- events -----------------------------------------------------------------------------------------


def test_a_wait_for_an_event_takes_its_data_as_the_result() -> None:
    class WaitEvent(Machine):
        paid = wait_for(event="order.paid", timeout="24h")
        receipt = action(lambda ctx: {"amount": ctx.steps.paid.amount})

    instance = run(WaitEvent)
    assert_awaiting(instance)
    assert workflows.emit("order.paid", {"amount": 5}) == 1
    drain()
    assert_done(instance, {"amount": 5})


def test_an_event_must_match() -> None:
    class WaitMatch(Machine):
        paid = wait_for(event="order.paid", match=lambda ctx: {"order": ctx.input["order"]})

    class WaitMatchFixed(Machine):
        paid = wait_for(event="order.paid", match={"order": 9})

    seven, nine = run(WaitMatch, {"order": 7}), run(WaitMatchFixed)
    assert workflows.emit("order.paid", {"order": 8}) == 0
    assert workflows.emit("order.paid", {"order": 7, "by": "card"}) == 1
    drain()
    assert_done(seven, {"order": 7, "by": "card"})
    assert_awaiting(nine)


def test_a_match_may_use_what_an_earlier_stage_returned() -> None:
    class WaitMatchStep(Machine):
        order = action(lambda ctx: {"lines": {"items": [1]}})
        paid = wait_for(event="order.paid", match=lambda ctx: {"lines": ctx.steps.order.lines})

    instance = run(WaitMatchStep)
    workflows.emit("order.paid", {"lines": {"items": [1]}})
    drain()
    assert_done(instance)


def test_a_match_that_is_no_dict_fails_at_once_saying_where() -> None:
    class WaitBadMatch(Machine):
        paid = wait_for(event="order.paid", match=lambda ctx: ["order"])

    assert_failed(run(WaitBadMatch), "match= of stage 'paid' returned")


def test_an_event_that_its_schema_refuses_leaves_the_wait_parked() -> None:
    class WaitEventSchema(Machine):
        paid = wait_for(event="order.paid", schema={"amount": int})

    instance = run(WaitEventSchema)
    assert workflows.emit("order.paid", {"amount": "much"}) == 0
    drain()
    assert_awaiting(instance)
    workflows.emit("order.paid", {"amount": 5})
    drain()
    assert_done(instance, {"amount": 5})


def test_an_event_between_the_start_and_the_wait_is_not_lost() -> None:
    class WaitLookBack(Machine):
        trigger = action(lambda ctx: workflows.emit("order.paid", {"n": 1}))
        paid = wait_for(event="order.paid")

    assert_done(run(WaitLookBack), {"n": 1})


def test_two_waits_for_one_event_take_two_events() -> None:
    class WaitTwice(Machine):
        one = wait_for(event="go")
        two = wait_for(event="go")
        both = action(lambda ctx: [ctx.steps.one, ctx.steps.two])

    instance = run(WaitTwice)
    workflows.emit("go", 1)
    drain()
    assert_awaiting(instance)
    workflows.emit("go", 2)
    drain()
    assert_done(instance, [1, 2])


def test_null_is_an_answer_too() -> None:
    class WaitNull(Machine):
        go = wait_for(event="go", timeout="1h", on_timeout="late")
        done = action(lambda ctx: [ctx.steps.go, "go" in ctx.steps])
        late = flow(action(lambda ctx: "late"))

    instance = run(WaitNull)
    workflows.emit("go", None)
    drain()
    assert_done(instance, [None, True])


def test_a_plain_signal_does_not_end_a_wait() -> None:
    class WaitPlain(Machine):
        go = wait_for(event="go")

    instance = run(WaitPlain)
    with pytest.raises(workflows.NoReader):
        workflows.signal(instance, "go", {})
    drain()
    assert_awaiting(instance)


# --- callbacks ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Payment:
    payment_id: str
    amount: int = 0


def test_the_payment_machine_gives_out_its_address_and_goes_on_with_the_answer() -> None:
    posted = []

    class PaymentMachine(Machine):
        charge = action(lambda ctx: posted.append(ctx.steps.payment._resume_url))
        payment = wait_for(callback=True, timeout="24h", on_timeout="give_up", schema=Payment)
        receipt = action(lambda ctx: {"payment_id": ctx.steps.payment.payment_id})
        give_up = flow(action(lambda ctx: {"payment_status": "timed_out"}))

    answered, late = run(PaymentMachine, {"amount": 5}), run(PaymentMachine, {"amount": 6})
    assert len(set(posted)) == 2
    assert all(url.startswith("http") for url in posted)
    answer(answered, {"payment_id": "p-1"})
    assert_done(answered, {"payment_id": "p-1"})
    advance("24h")
    assert_done(late, {"payment_status": "timed_out"})


def test_the_address_read_early_is_the_one_that_the_wait_waits_for() -> None:
    seen = []

    class WaitSameAddress(Machine):
        a = action(lambda ctx: seen.append((ctx.steps.cb._resume_url, ctx.steps.cb._resume_token)))
        b = action(lambda ctx: seen.append((ctx.steps["cb"]._resume_url, ctx.callback("cb").resume_token)))
        cb = wait_for(callback=True)

    instance = run(WaitSameAddress)
    assert seen[0] == seen[1]
    assert seen[0][1] in seen[0][0]
    assert AwaitUnit.objects.filter(instance=instance).count() == 1
    answer(instance, 1)
    assert_done(instance, 1)


def test_neither_address_nor_token_is_kept_in_the_state() -> None:
    seen = []

    class WaitSecret(Machine):
        a = action(lambda ctx: seen.append(ctx.steps.cb._resume_token))
        cb = wait_for(callback=True)
        b = wait_for(callback=True)

    instance = run(WaitSecret)
    answer(instance, {"x": 1})
    instance.refresh_from_db()
    [token] = seen
    assert token
    assert token not in json.dumps([instance.state, instance.input])
    assert instance.state["steps"] == {"a": None, "cb": {"x": 1}}


def test_an_answer_that_comes_before_the_wait_is_kept_for_it() -> None:
    class WaitEarly(Machine):
        a = action(lambda ctx: bool(ctx.steps.cb._resume_url))
        pause = sleep("1h")
        cb = wait_for(callback=True, timeout="1h")
        b = action(lambda ctx: ctx.steps.cb)

    instance = run(WaitEarly)
    answer(instance, {"early": True})
    instance.refresh_from_db()
    assert instance.status == Status.SLEEPING
    advance("1h")
    assert_done(instance, {"early": True})


def test_a_callback_whose_address_nobody_read_is_opened_by_its_wait() -> None:
    class WaitUnread(Machine):
        cb = wait_for(callback=True, timeout="1h", input={"please": "pay"})

    instance = run(WaitUnread)
    asked = pending(instance)
    assert (asked.channel, asked.request, asked.deadline is not None) == ("callback", {"please": "pay"}, True)
    workflows.complete(asked.signal_id, [1])
    drain()
    assert_done(instance, [1])


def test_an_atomic_action_may_hand_out_the_address_too() -> None:
    urls = []

    class WaitAtomic(Machine):
        charge = action(lambda ctx: urls.append(ctx.steps.cb._resume_url), atomic=True)
        cb = wait_for(callback=True)

    instance = run(WaitAtomic)
    assert len(urls) == 1
    answer(instance, 1)
    assert_done(instance, 1)


def test_an_address_stays_the_same_when_its_stage_is_tried_again() -> None:
    urls = []

    def charge(ctx: Any) -> None:
        urls.append(ctx.steps.cb._resume_url)
        if len(urls) == 1:
            raise OSError("not now")

    class WaitStable(Machine):
        charge_it = action(charge)
        cb = wait_for(callback=True)

    instance = run(WaitStable)
    advance("1m")
    assert_awaiting(instance)
    assert len(urls) == 2
    assert len(set(urls)) == 1


def test_what_is_asked_may_be_a_function_of_ctx() -> None:
    class WaitAsks(Machine):
        order = action(lambda ctx: {"items": [1, 2]})
        cb = wait_for(callback=True, input=lambda ctx: {"order": ctx.steps.order})

    assert pending(run(WaitAsks)).request == {"order": {"items": [1, 2]}}


def test_an_address_may_be_needed_before_all_that_is_asked_is_known() -> None:
    class WaitAsksLater(Machine):
        charge = action(lambda ctx: {"url": bool(ctx.steps.cb._resume_url)})
        cb = wait_for(callback=True, input=lambda ctx: {"charge": ctx.steps.charge})

    instance = run(WaitAsksLater)
    answer(instance, 1)
    assert_done(instance, 1)


def test_an_answer_that_its_schema_refuses_says_where_and_leaves_the_wait_parked() -> None:
    class WaitSchema(Machine):
        cb = wait_for(callback=True, schema=Payment)
        b = action(lambda ctx: ctx.steps.cb.amount)

    instance = run(WaitSchema)
    with pytest.raises(InvalidData) as caught:
        workflows.complete(pending(instance), {"payment_id": "p", "amount": "many"})
    assert list(caught.value.errors) == ["amount"]
    drain()
    assert_awaiting(instance)
    answer(instance, {"payment_id": "p", "amount": 3})
    assert_done(instance, 3)


def test_an_answer_with_a_class_as_schema_is_read_as_that_class_by_every_later_stage() -> None:
    seen = []

    class WaitTyped(Machine):
        cb = wait_for(callback=True, schema=Payment)
        a = action(lambda ctx: seen.append(ctx.steps.cb))
        b = action(lambda ctx: seen.append(ctx.steps["cb"]))

    instance = run(WaitTyped)
    answer(instance, {"payment_id": "p"})
    assert seen == [Payment("p"), Payment("p")]


def test_before_its_answer_a_callback_has_nothing_but_its_address() -> None:
    told = []

    def look(ctx: Any) -> None:
        for miss in (lambda: ctx.steps.cb.amount, lambda: ctx.steps.cb["amount"]):
            with pytest.raises((AttributeError, KeyError), match="stage 'cb' has not run yet"):
                miss()
        told.append([bool(ctx.steps.cb), "cb" in ctx.steps, hasattr(ctx.steps.cb, "amount")])

    class WaitNotYet(Machine):
        a = action(look)
        cb = wait_for(callback=True)

    assert_awaiting(run(WaitNotYet))
    assert told == [[False, False, False]]


def test_ctx_callback_names_the_stages_that_wait_for_one() -> None:
    class WaitNoCallback(Machine):
        a = action(lambda ctx: ctx.callback("b"))
        b = action(lambda ctx: 1)
        cb = wait_for(callback=True)

    assert_failed(run(WaitNoCallback), "no stage 'b' waits for a callback; these do: cb")


@pytest.mark.parametrize("schema", [None, Payment])
def test_each_visit_of_a_wait_in_a_loop_has_an_address_of_its_own(schema: Any) -> None:
    urls = []

    class WaitLoop(Machine):
        charge = action(lambda ctx: urls.append(ctx.callback("cb").resume_url))
        cb = wait_for(callback=True, schema=schema)
        look = branch(lambda ctx: END if ctx.steps.cb.payment_id == "ok" else "charge")

    instance = run(WaitLoop)
    answer(instance, {"payment_id": "no"})
    assert_awaiting(instance)
    answer(instance, {"payment_id": "ok"})
    assert_done(instance, {"payment_id": "ok"})
    assert len(set(urls)) == 2


def test_in_a_loop_the_earlier_answer_has_the_address_of_the_next_visit() -> None:
    urls = []

    class WaitLoopView(Machine):
        charge = action(lambda ctx: urls.append(ctx.steps.cb._resume_url))
        cb = wait_for(callback=True)
        look = branch(lambda ctx: END if ctx.steps.cb.ok else "charge")

    instance = run(WaitLoopView)
    answer(instance, {"ok": False})
    answer(instance, {"ok": True})
    assert_done(instance, {"ok": True})
    assert len(set(urls)) == 2


# --- channels ----------------------------------------------------------------------------------------


def test_a_channel_label_asks_a_question_that_lists_what_was_given() -> None:
    class WaitChannel(Machine):
        ask = wait_for(channel="chat", input={"question": "ship it?"}, schema={"yes": bool}, timeout="1h")
        done = action(lambda ctx: ctx.steps.ask.yes)

    instance = run(WaitChannel)
    asked = pending(instance)
    assert (asked.channel, asked.request) == ("chat", {"question": "ship it?"})
    assert asked.deadline is not None
    answer(instance, {"yes": True})
    assert_done(instance, True)


class Typed(Channel):
    name = "typed"
    schema = Payment


def test_a_channel_may_bring_the_class_of_its_answers() -> None:
    class WaitTypedChannel(Machine):
        ask = wait_for(channel=Typed())
        done = action(lambda ctx: ctx.steps.ask == Payment("p", 2))

    instance = run(WaitTypedChannel)
    answer(instance, {"payment_id": "p", "amount": 2})
    assert_done(instance, True)


class Desk(Channel):
    name = "desk"

    def __init__(self, text: str) -> None:
        self.request = {"text": text}
        self.assignee = "ann"


@pytest.mark.parametrize("channel", [Desk("refund 5"), lambda ctx: Desk(f"refund {ctx.input['amount']}")])
def test_a_channel_may_be_an_object_or_a_function_of_ctx_that_makes_one(channel: Any) -> None:
    class WaitDesk(Machine):
        ask = wait_for(channel=channel)

    instance = run(WaitDesk, {"amount": 5})
    asked = pending(instance)
    assert (asked.channel, asked.request, asked.assignee) == ("desk", {"text": "refund 5"}, "ann")
    answer(instance, "done")
    assert_done(instance, "done")


# --- timeouts ----------------------------------------------------------------------------------------

WAITS: dict[str, dict[str, Any]] = {
    "event": {"event": "go"},
    "callback": {"callback": True},
    "channel": {"channel": "chat"},
}


@pytest.mark.parametrize("kind", WAITS)
def test_a_wait_that_times_out_fails_the_instance_unless_told_otherwise(kind: str) -> None:
    class WaitFails(Machine):
        ask = wait_for(**WAITS[kind], timeout="24h")
        never = action(lambda ctx: pytest.fail("there is no answer"))

    instance = run(WaitFails)
    advance("23h")
    assert_awaiting(instance)
    advance("1h")
    assert_failed(instance, "stage 'ask' had no answer within its timeout of 24h")


@pytest.mark.parametrize("kind", WAITS)
def test_on_timeout_leads_to_a_flow_whose_last_result_is_the_instances_result(kind: str) -> None:
    class WaitLate(Machine):
        before = action(lambda ctx: {"n": 1})
        ask = wait_for(**WAITS[kind], timeout=3600, on_timeout="late")
        never = action(lambda ctx: pytest.fail("there is no answer"))
        late = flow(
            action(lambda ctx: {"status": "late"}),
            sleep("1h"),
            action(lambda ctx: [ctx.steps["late.0"].status, ctx.steps.before.n, "ask" in ctx.steps]),
        )

    instance = run(WaitLate)
    advance("1h")
    instance.refresh_from_db()
    assert instance.step == "late.2"
    advance("1h")
    assert_done(instance, ["late", 1, False])


def test_a_flow_may_wait_too() -> None:
    class WaitLater(Machine):
        ask = wait_for(event="go", timeout="1h", on_timeout="remind")
        remind = flow(action(lambda ctx: "reminded"), wait_for(event="go", timeout="1h"))

    instance = run(WaitLater)
    advance("1h")
    assert_awaiting(instance)
    assert workflows.emit("go", "at last") == 1
    drain()
    assert_done(instance, "at last")


def test_a_side_path_of_a_side_path_ends_the_instance() -> None:
    class WaitLatest(Machine):
        ask = wait_for(event="go", timeout="1h", on_timeout="remind")
        remind = flow(wait_for(event="go", timeout="1h", on_timeout="give_up"))
        give_up = flow(action(lambda ctx: "given up"))

    instance = run(WaitLatest)
    advance("2h")
    assert_done(instance, "given up")


def test_a_deadline_does_not_fire_after_an_answer() -> None:
    class WaitInTime(Machine):
        ask = wait_for(callback=True, timeout="1h", on_timeout="late")
        pause = sleep("2h")
        done = action(lambda ctx: ctx.steps.ask)
        late = flow(action(lambda ctx: "late"))

    instance = run(WaitInTime)
    answer(instance, "in time")
    advance("3h")
    assert_done(instance, "in time")


def test_an_answer_that_is_there_wins_over_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    from workflows.engine.context import StepContext

    class WaitBoth(Machine):
        ask = wait_for(event="go", timeout="1h", on_timeout="late")
        done = action(lambda ctx: ctx.steps.ask)
        late = flow(action(lambda ctx: "late"))

    instance = run(WaitBoth)
    workflows.emit("go", "both")
    monkeypatch.setattr(StepContext, "timed_out", property(lambda self: True))
    drain()
    assert_done(instance, "both")


def test_an_instance_that_failed_by_a_timeout_asks_anew_when_it_is_retried() -> None:
    class WaitRetried(Machine):
        ask = wait_for(callback=True, timeout="1h")

    instance = run(WaitRetried)
    advance("1h")
    assert_failed(instance)
    workflows.retry(instance)
    drain()
    assert_awaiting(instance)
    advance("1h")
    assert_failed(instance, "stage 'ask' had no answer within its timeout of 1h")
    workflows.retry(instance)
    drain()
    answer(instance, "after all")
    assert_done(instance, "after all")


def test_a_wait_without_timeout_waits_for_ever() -> None:
    class WaitForEver(Machine):
        ask = wait_for(event="go")

    instance = run(WaitForEver)
    advance("400d")
    assert_awaiting(instance)


def test_cancelling_a_machine_closes_what_it_asked() -> None:
    class WaitCancelled(Machine):
        ask = wait_for(callback=True)

    instance = run(WaitCancelled)
    asked = pending(instance)
    workflows.cancel(instance)
    asked.refresh_from_db()
    assert asked.status == "cancelled"


# --- starting by an event ------------------------------------------------------------------------------


def test_on_event_starts_an_instance_with_the_events_data() -> None:
    class WaitStarted(Machine):
        on_event = "order.created"
        a = action(lambda ctx: {"order": ctx.input["order"]})

    assert workflows.emit("order.created", {"order": 7}) == 0
    drain()
    assert_done(Instance.objects.get(workflow="WaitStarted"), {"order": 7})


def test_a_machine_may_launch_what_waits_for_it() -> None:
    class WaitLaunched(Machine):
        name = "machines.waits"
        go = wait_for(event="go", match=lambda ctx: {"by": ctx.input["by"]})

    class WaitLauncher(Machine):
        other = launch(WaitLaunched, lambda ctx: {"by": str(ctx.id)})

    instance = run(WaitLauncher)
    launched = Instance.objects.get(workflow="machines.waits")
    assert_awaiting(launched)
    workflows.emit("go", {"by": str(instance.pk)})
    drain()
    assert_done(launched)
