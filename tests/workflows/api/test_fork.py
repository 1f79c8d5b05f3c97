"""`fork`: a new instance that goes on from a point in the life of another one, which is not touched."""

from __future__ import annotations

import contextlib
import uuid
from typing import Any

import pytest
from django.db import connection, transaction

import workflows
from tests.support.races import COMMITTED, race
from workflows import (
    Await,
    Concurrency,
    Done,
    DuplicateKey,
    InvalidCall,
    InvalidDefinition,
    InvalidInput,
    Machine,
    Next,
    NoTarget,
    NotForkable,
    SignalCollision,
    SignalTimeoutError,
    Stop,
    UnknownPoint,
    UnknownWorkflow,
    Workflow,
    action,
    any_of,
    collect,
    durable,
    event,
    expand,
    question,
    received,
    step,
    wait_for,
)
from workflows.api.lineage.fork_points import list_points
from workflows.definitions import registry
from workflows.models import Instance, Interaction, KeptState, LedgerEvent, Signal, Workspace
from workflows.store.ledger.retention import prune
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db

made: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_made() -> None:
    made.clear()


def make(what: str) -> str:
    made.append(what)
    return what


# --- functions ------------------------------------------------------------------------------------


@durable(name="fork.refund")
def refund(ctx, order=1, gate=None):
    made_of = ctx.step("read", make, f"order {order}")
    answer = ctx.wait_for_signal("gate", signal=gate, timeout="1d")
    with contextlib.suppress(SignalTimeoutError):
        ctx.wait_for_signal("late", timeout="1m")
    paid = ctx.step("pay", make, f"paid {answer}")
    return [made_of, paid, ctx.wait_for_signal("receipt", timeout="1d")]


def answer(instance: Instance, step_: str, data: Any) -> None:
    workflows.complete(Interaction.objects.get(instance=instance, unit__step=step_, status="pending"), data)
    drain()


def run_refund(**options: Any) -> Instance:
    first = workflows.start(refund, **options)
    drain()
    answer(first, "gate", "yes")
    advance("1h")
    answer(first, "receipt", 7)
    assert_done(first, ["order 1", "paid yes", 7])
    return first


def test_what_was_saved_before_the_call_is_copied_and_that_call_and_all_after_it_run_anew():
    first = run_refund()
    made.clear()
    forked = workflows.fork(first, at="pay")
    drain()
    assert made == ["paid yes"]
    assert_awaiting(forked, "receipt")
    answer(forked, "receipt", 8)
    assert_done(forked, ["order 1", "paid yes", 8])
    assert_done(first, ["order 1", "paid yes", 7])


def test_the_new_instance_knows_where_it_comes_from_and_its_ledger_says_so():
    first = run_refund(input={"order": 1})
    before = LedgerEvent.objects.filter(instance=first).count()
    forked = workflows.fork(first.pk, at="pay", key="again", actor="bob")
    assert (forked.forked_from, list(first.forks.all())) == (first, [forked])
    assert (forked.key, forked.started_by, forked.parent, forked.input) == ("again", "bob", None, first.input)
    row = LedgerEvent.objects.get(instance=forked)
    assert (row.kind, row.actor, row.data) == ("started", "bob", {"forked_from": str(first.pk), "at": "pay"})
    assert LedgerEvent.objects.filter(instance=first).count() == before


def test_a_fork_without_a_point_begins_anew():
    first = run_refund()
    made.clear()
    forked = workflows.fork(first)
    drain()
    assert (made, forked.step) == (["order 1"], "run")
    assert_awaiting(forked, "gate")


def test_waits_that_were_answered_before_the_point_keep_their_answers_and_open_ones_are_asked_anew():
    first = workflows.start(refund)
    drain()
    forked = workflows.fork(first, at="gate")
    drain()
    asked, again = (Interaction.objects.get(instance=one, unit__step="gate") for one in (first, forked))
    assert (asked.pk != again.pk, asked.signal_id != again.signal_id) == (True, True)
    answer(forked, "gate", "no")
    advance("1h")
    answer(forked, "receipt", 1)
    assert_done(forked, ["order 1", "paid no", 1])
    assert Interaction.objects.get(instance=first, unit__step="gate").status == "pending"


def test_a_callback_that_nobody_has_answered_has_another_token_in_the_fork():
    urls = []

    @durable(name="fork.callback")
    def pay(ctx):
        callback = ctx.callback("partner", timeout="1d")
        ctx.step("tell", lambda: urls.append(callback.resume_token))
        return callback.wait()

    first = workflows.start(pay)
    drain()
    forked = workflows.fork(first, at="tell")
    drain()
    assert len(set(urls)) == 2
    answer(forked, "partner", "hello")
    assert_done(forked, "hello")
    assert_awaiting(first)


def test_a_signal_id_of_the_authors_own_collides_with_the_one_that_still_waits():
    first = workflows.start(refund, {"gate": "gate-7"})
    drain()
    forked = workflows.fork(first, at="gate")
    drain()
    assert_failed(forked)
    forked.refresh_from_db()
    assert forked.error is not None
    assert forked.error.startswith(SignalCollision.__name__)
    assert_awaiting(first, "gate-7")


def test_results_of_children_before_the_point_stay():
    @durable(name="fork.child")
    def child(ctx, n):
        return make(f"child {n}")

    @durable(name="fork.parent")
    def parent(ctx):
        return [ctx.invoke("one", child, {"n": 1}), ctx.invoke("two", child, {"n": 2}), ctx.step("end", make, "end")]

    first = workflows.start(parent)
    drain()
    made.clear()
    forked = workflows.fork(first, at="two")
    drain()
    assert_done(forked, ["child 1", "child 2", "end"])
    assert made == ["child 2", "end"]


def test_a_failure_that_was_caught_before_the_point_is_raised_again():
    def fail() -> None:
        raise LookupError("gone")

    @durable(name="fork.caught")
    def caught(ctx):
        try:
            ctx.step("find", fail)
        except LookupError as error:
            return ctx.step("end", make, str(error))

    first = workflows.start(caught)
    drain()
    forked = workflows.fork(first, at="end")
    drain()
    assert_done(forked, "gone")


def test_a_fork_may_have_another_input():
    first = run_refund()
    forked = workflows.fork(first, at="read", input={"order": 2})
    drain()
    assert (forked.input, made[-1]) == ({"order": 2}, "order 2")
    assert LedgerEvent.objects.get(instance=forked, seq=1).data["input"] is True


def test_a_fork_stands_among_others_as_its_own_input_says():
    @durable(name="fork.lanes", concurrency=Concurrency("tenant:{tenant}", 3))
    def limited(ctx, tenant):
        return tenant

    first = workflows.start(limited, {"tenant": 1}, priority=7)
    drain()
    same, other = workflows.fork(first), workflows.fork(first, input={"tenant": 2})
    assert [(one.flow_key, one.priority) for one in (same, other)] == [("tenant:1", 7), ("tenant:2", 7)]


# --- steps ----------------------------------------------------------------------------------------


class ForkShip(Workflow):
    name = "fork.ship"
    keep_states = 3

    @step
    def ask(self, ctx):
        return Await(["paid", "note"], then="ship", state={"asked": True})

    @step
    def ship(self, ctx):
        if not ctx.awaited:
            return Stop("payment never came")
        ctx.state["paid"] = [one.payload for one in ctx.awaited]
        make("ship")
        return Next("close", ctx.state)

    @step
    def close(self, ctx):
        return Done({**ctx.state, "left": [one.name for one in ctx.inbox]})


class ForkForgets(ForkShip):
    name = "fork.forgets"
    keep_states = 0


def run_ship(workflow: Any = ForkShip) -> Instance:
    first = workflows.start(workflow, {"order": 1})
    drain()
    workflows.signal(first, "paid", 5, dedup_key="evt_1")
    drain()
    assert_done(first, {"asked": True, "paid": [5], "left": []})
    return first


def test_a_step_begins_with_the_state_and_the_signals_that_it_was_handed():
    first = run_ship()
    forked = workflows.fork(first, at="ship")
    assert (forked.step, forked.state, forked.names) == ("ship", {"asked": True}, ["note", "paid"])
    drain()
    assert_done(forked, {"asked": True, "paid": [5], "left": []})
    assert made == ["ship", "ship"]


def test_signals_that_came_after_the_point_do_not_come_along():
    first = workflows.start(ForkShip)
    drain()
    workflows.signal(first, "paid", 5)
    drain()
    forked = workflows.fork(first, at="ask")
    drain()
    assert_awaiting(forked, "paid", "note")
    assert not Signal.objects.filter(instance=forked).exists()


def test_what_was_consumed_before_the_point_stays_consumed_and_its_dedup_key_counts():
    first = run_ship()
    forked = workflows.fork(first, at="close", key="again")
    assert (forked.inbox, forked.seq) == (0, 1)
    assert workflows.signal("again", "paid", 5, dedup_key="evt_1").duplicate
    drain()
    assert_done(forked, {"asked": True, "paid": [5], "left": []})


def test_what_had_come_and_was_not_consumed_is_there_under_its_dedup_key():
    first = workflows.start(ForkShip)
    workflows.signal(first, "other", 1, dedup_key="evt_2")
    drain()
    workflows.signal(first, "paid", 5)
    drain()
    forked = workflows.fork(first, at="close")
    assert workflows.signal(forked, "other", 1, dedup_key="evt_2").duplicate
    drain()
    assert_done(forked, {"asked": True, "paid": [5], "left": ["other"]})


def test_the_answer_that_a_step_was_handed_is_there_again():
    class Asked(Workflow):
        name = "fork.asked"
        keep_states = 5

        @step
        def ask(self, ctx):
            return Await(ctx.callback("partner", schema={"n": int}), then="use", timeout="1d")

        @step
        def use(self, ctx):
            return Done(None if ctx.answer is None else ctx.answer["n"])

    first = workflows.start(Asked)
    drain()
    answer(first, "partner", {"n": 3})
    assert_done(first, 3)
    forked = workflows.fork(first, at="use")
    drain()
    assert_done(forked, 3)


def test_a_step_may_begin_with_another_state():
    first = run_ship(ForkForgets)
    forked = workflows.fork(first, at="close", state={"paid": "by hand"})
    drain()
    assert_done(forked, {"paid": "by hand", "left": []})
    row = LedgerEvent.objects.get(instance=forked, seq=1)
    assert row.data == {"forked_from": str(first.pk), "at": "close", "state": True}


def test_a_state_of_the_callers_own_keeps_what_the_step_was_handed():
    forked = workflows.fork(run_ship(), at="ship", state={"other": 1})
    drain()
    assert_done(forked, {"other": 1, "paid": [5], "left": []})


def test_a_state_that_is_not_kept_is_refused_and_the_message_says_what_to_do():
    first = run_ship(ForkForgets)
    with pytest.raises(NotForkable, match=r"Pass state=…, or write keep_states = N in workflow 'fork.forgets'"):
        workflows.fork(first, at="ship")
    assert workflows.fork(first, at="ask").state == {"order": 1}
    assert list_points(first) == ["ask"]


def test_the_last_n_states_are_kept_and_no_others():
    class Counts(Workflow):
        name = "fork.counts"
        keep_states = 3

        @step
        def count(self, ctx):
            n = ctx.state.get("n", 0)
            return Next("count", {"n": n + 1}) if n < 6 else Done(n)

    first = workflows.start(Counts)
    drain()
    kept = list(KeptState.objects.filter(instance=first).order_by("fence").values_list("fence", "state"))
    assert kept == [(5, {"n": 4}), (6, {"n": 5}), (7, {"n": 6})]
    assert workflows.fork(first, at="count").state == {"n": 6}
    with pytest.raises(InvalidDefinition, match="keep_states must be a whole number from 0 to 1000"):
        type("Wrong", (Workflow,), {"keep_states": -1, "go": Counts.count})


def test_a_workflow_that_keeps_no_states_writes_none(django_assert_num_queries):
    run_ship(ForkForgets)
    assert not KeptState.objects.exists()


def test_a_failed_step_is_a_point_without_kept_states():
    class Fails(Workflow):
        name = "fork.fails"

        @step
        def begin(self, ctx):
            return Next("risk", {"n": 1})

        @step
        def risk(self, ctx):
            ctx.state["n"] = 99
            return Done(ctx.input) if "fixed" in ctx.input else 1 / 0

    first = workflows.start(Fails)
    drain()
    first = assert_failed(first)
    assert list_points(first) == ["begin", "risk"]
    forked = workflows.fork(first, at="risk", input={"fixed": True})
    assert forked.state == {"n": 1}
    drain()
    assert_done(forked, {"fixed": True})


def test_a_step_that_waits_has_not_run_and_the_message_says_where_to_begin():
    first = workflows.start(ForkForgets)
    drain()
    with pytest.raises(NotForkable, match=r"step 'ship' has not run yet, because signal 'note' or 'paid' has not come"):
        workflows.fork(first, at="ship")


class ForkSeveral(Workflow):
    name = "fork.several"
    keep_states = 5

    @step
    def ask(self, ctx):
        return Await(any_of(paid=received("paid"), gone=received("gone")), then="use", state={"n": 1})

    @step
    def use(self, ctx):
        return Done(sorted(ctx.answers))


def test_answers_to_several_questions_are_used_up_by_the_step_that_was_handed_them():
    first = workflows.start(ForkSeveral)
    drain()
    workflows.signal(first, "paid", 5)
    drain()
    assert_done(first, ["paid"])
    with pytest.raises(NotForkable, match="Fork at the step that asks them"):
        workflows.fork(first, at="use")
    without, anew = workflows.fork(first, at="use", state={}), workflows.fork(first, at="ask")
    drain()
    assert_done(without, [])
    workflows.signal(anew, "gone")
    drain()
    assert_done(anew, ["gone"])


def test_questions_of_a_function_that_are_open_at_the_point_are_asked_anew():
    @durable(name="fork.asks", signals=True)
    def asks(ctx):
        gate = ctx.ask("gate", question("desk"))
        paid = ctx.ask("paid", received("paid"))
        made_of = ctx.step("made", make, "made")
        first = ctx.wait_any([gate, paid])
        gate.withdraw()
        return [made_of, first.id, ctx.step("end", make, "end")]

    first = workflows.start(asks)
    drain()
    forked = workflows.fork(first, at="made")
    drain()
    assert made == ["made", "made"]
    workflows.signal(forked, "paid", 1)
    drain()
    assert_done(forked, ["made", "paid", "end"])
    asked = Interaction.objects.filter(unit__step="gate").order_by("id").values_list("instance_id", "status")
    assert list(asked) == [(first.pk, "pending"), (forked.pk, "cancelled")]
    again = workflows.fork(forked, at="end")
    drain()
    assert_done(again, ["made", "paid", "end"])


# --- machines -------------------------------------------------------------------------------------


class ForkPayment(Machine):
    name = "fork.payment"
    keep_states = 10
    charge = action(lambda ctx: make("charge"))
    confirmed = wait_for(channel="desk", input="sure?")
    news = wait_for(event="fork.news")
    end = action(lambda ctx: [ctx.steps.charge, ctx.steps.confirmed, ctx.steps.news["n"]])


def run_payment() -> Instance:
    first = workflows.start(ForkPayment)
    drain()
    answer(first, "confirmed", "yes")
    workflows.emit("fork.news", {"n": 1})
    drain()
    assert_done(first, ["charge", "yes", 1])
    return first


def test_a_stage_that_waits_asks_anew():
    forked = workflows.fork(run_payment(), at="confirmed")
    drain()
    assert_awaiting(forked, "confirmed")
    answer(forked, "confirmed", "no")
    workflows.emit("fork.news", {"n": 2})
    drain()
    assert_done(forked, ["charge", "no", 2])
    assert made == ["charge"]


def test_a_machine_may_begin_with_results_of_the_callers_own():
    first = run_payment()
    forked = workflows.fork(first, at="end", state={"steps": {"charge": 1, "confirmed": 2, "news": {"n": 3}}})
    drain()
    assert_done(forked, [1, 2, 3])
    for state, message in (
        ({"charge": 1}, "a machine's state is"),
        ({"steps": {"nothing": 1}}, "the state names 'nothing'"),
        ({"steps": {}, "last": "charge"}, "the state's last is 'charge'"),
        ({"steps": {}, "units": {}}, "it has no 'units'"),
    ):
        with pytest.raises(InvalidCall, match=message):
            workflows.fork(first, at="end", state=state)


def test_a_list_that_is_not_over_is_asked_anew_by_the_stage_that_opens_it_and_no_other():
    class Lists(Machine):
        name = "fork.lists"
        keep_states = 10
        items = expand(lambda ctx: [1, 2])
        asked = wait_for(channel="desk", each=True)
        total = collect(lambda ctx, items: sum(items))

    first = workflows.start(Lists)
    drain()
    assert first.units.count() == 1
    with pytest.raises(NotForkable, match="a list that it asks is not over yet"):
        workflows.fork(first, at="total")
    forked = workflows.fork(first, at="items")
    drain()
    for n, one in enumerate(Interaction.objects.filter(instance=forked, status="pending").order_by("index")):
        workflows.complete(one, 10 * n + 1)
    drain()
    assert_done(forked, 12)
    assert Interaction.objects.filter(instance=first, status="pending").count() == 2


# --- refusals -------------------------------------------------------------------------------------


def test_a_point_that_is_not_there_is_refused_and_the_points_there_are_are_named():
    first = run_refund()
    with pytest.raises(UnknownPoint, match="there are: 'read', 'gate', 'late', 'pay', 'receipt'") as caught:
        workflows.fork(first, at="py")
    assert caught.value.points == list_points(first) == ["read", "gate", "late", "pay", "receipt"]
    with pytest.raises(UnknownPoint, match="none of its steps; there are: 'ask', 'ship', 'close'"):
        workflows.fork(run_ship(), at="read")
    with pytest.raises(UnknownPoint, match="none of its stages"):
        workflows.fork(run_payment(), at="read")


def test_what_else_cannot_be_forked_is_refused_and_nothing_is_stored():
    first = run_refund()
    count = Instance.objects.count()
    other = Workspace.objects.create(slug="acme")
    with pytest.raises(InvalidCall, match="a function, which has no state"):
        workflows.fork(first, at="pay", state={})
    with pytest.raises(InvalidInput):
        workflows.fork(first, at="pay", input={"unknown": 1})
    with pytest.raises(NoTarget):
        workflows.fork(first.pk, workspace=other.slug)
    with pytest.raises(NoTarget):
        workflows.fork(uuid.uuid4())
    live = workflows.start(refund, key="held")
    with pytest.raises(DuplicateKey) as caught:
        workflows.fork(first, key="held")
    assert caught.value.instance == live
    assert Instance.objects.count() == count + 1


def test_a_version_that_this_process_does_not_know_is_refused(monkeypatch):
    first = run_refund()
    monkeypatch.delitem(registry._definitions, ("fork.refund", 1))
    with pytest.raises(UnknownWorkflow, match=r"fork\.refund version 1"):
        workflows.fork(first, at="pay")
    assert list_points(first) == []


def test_the_line_of_an_item_cannot_be_forked():
    @durable(name="fork.each")
    def each(ctx):
        return ctx.wait_for_each("all", [1], "desk", then=lambda ctx, item, answer: answer)

    first = workflows.start(each)
    drain()
    workflows.complete(Interaction.objects.get(instance=first), 1)
    with pytest.raises(NotForkable, match="fork the instance that asks the list"):
        workflows.fork(Instance.objects.get(parent=first))


# --- rows -----------------------------------------------------------------------------------------


def test_a_fork_is_part_of_the_callers_transaction():
    first = run_refund()
    with transaction.atomic():
        workflows.fork(first)
        transaction.set_rollback(True)
    assert not first.forks.exists()


def test_an_instance_stays_as_long_as_one_that_was_forked_from_it():
    first = run_ship()
    forked = workflows.fork(first, at="close")
    later = workflows.fork(forked, at="close")
    drain()
    workflows.start(ForkShip)
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE holdpoint_instance SET finished_at = finished_at - interval '9 d' WHERE id = ANY(%s)",
            [[first.pk, forked.pk]],
        )
    assert sum(one.instances for one in prune(connection, older_than=86_400)) == 0
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE holdpoint_instance SET finished_at = finished_at - interval '9 d' WHERE id = %s", [later.pk]
        )
    assert sum(one.instances for one in prune(connection, older_than=86_400)) == 3
    assert not KeptState.objects.filter(instance=first.pk).exists()


def test_a_fork_of_an_event_wait_takes_an_event_that_is_emitted_after_it():
    class News(Workflow):
        name = "fork.event"
        keep_states = 5

        @step
        def ask(self, ctx):
            return Await(event("fork.told"), then="end")

        @step
        def end(self, ctx):
            return Done(ctx.answer)

    first = workflows.start(News)
    drain()
    workflows.emit("fork.told", 1)
    drain()
    taken, anew = workflows.fork(first, at="end"), workflows.fork(first, at="ask")
    drain()
    assert_done(taken, 1)
    assert_awaiting(anew, "fork.told")
    workflows.emit("fork.told", 2)
    drain()
    assert_done(anew, 2)


@COMMITTED
@pytest.mark.usefixtures("committed")
def test_an_instance_that_is_deleted_meanwhile_cannot_be_forked():
    first = run_ship()
    _, told = race(lambda: list(prune(connection, older_than=0)), lambda: workflows.fork(first, at="close"), waits=True)
    assert told.error is NoTarget
    assert not Instance.objects.exists()


@COMMITTED
@pytest.mark.usefixtures("committed")
def test_an_instance_that_is_being_forked_is_not_deleted():
    first = run_ship()
    forked, pruned = race(
        lambda: workflows.fork(first, at="close"), lambda: list(prune(connection, older_than=0)), waits=False
    )
    assert sum(one.instances for one in pruned) == 0
    drain()
    assert_done(forked)
