"""Step style and questions: callbacks, events and channels in `Await`, and what completes them."""

from __future__ import annotations

import pytest
from django.db import connection

import workflows
from workflows import (
    Await,
    Channel,
    Done,
    InteractionResolved,
    Next,
    SignalCollision,
    Stop,
    UnknownInteraction,
    Workflow,
    durable,
    event,
    step,
)
from workflows.definitions.question import name_projector
from workflows.models import AwaitUnit, EventWait, Instance, Interaction, Signal
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db


class Pay(Workflow):
    name = "questions.pay"

    @step
    def ask(self, ctx):
        return Next("wait", {"url": ctx.callback("pay").resume_url})

    @step
    def wait(self, ctx):
        return Await(ctx.callback("pay"), then="paid", timeout="24h")

    @step
    def paid(self, ctx):
        if ctx.answer is None:
            return Stop("never paid")
        if ctx.answer.get("again"):
            return Next("ask")
        return Done({"got": ctx.answer, "url": ctx.state["url"]})


def test_a_callback_has_its_url_before_the_park_and_its_answer_wakes_the_step():
    instance = workflows.start(Pay)
    drain()
    assert_awaiting(instance, "pay")
    assert_awaiting(instance, f"pay-{instance.id}")
    interaction = Interaction.objects.get(instance=instance)
    assert interaction.deadline == Instance.objects.get(pk=instance.pk).due_at
    workflows.complete(interaction, {"amount": 5})
    drain()
    result = assert_done(instance).result
    assert result["got"] == {"amount": 5}
    assert result["url"].startswith("http")
    assert AwaitUnit.objects.get(instance=instance).status == "completed"


def test_each_visit_of_a_wait_in_a_loop_is_a_new_interaction():
    instance = workflows.start(Pay)
    drain()
    workflows.complete(f"pay-{instance.id}", {"again": True})
    drain()
    workflows.complete(f"pay-{instance.id}", {"amount": 1})
    drain()
    assert_done(instance)
    visits = AwaitUnit.objects.filter(instance=instance).values_list("visit", flat=True)
    assert list(visits) == [1, 2]


def test_an_answer_before_the_park_is_kept():
    class Early(Workflow):
        name = "questions.early"

        @step
        def ask(self, ctx):
            assert ctx.callback("pay").resume_url
            return Next("wait", delay="1m")

        @step
        def wait(self, ctx):
            return Await(ctx.callback("pay"), then="paid", timeout="24h")

        @step
        def paid(self, ctx):
            return Done(ctx.answer)

    instance = workflows.start(Early)
    drain()
    workflows.complete(f"pay-{instance.id}", 7)
    advance("1m")
    assert_done(instance, 7)


def test_a_deadline_expires_the_interaction_and_wakes_the_step():
    instance = workflows.start(Pay)
    drain()
    advance("24h")
    assert_failed(instance, "never paid")
    assert Interaction.objects.get(instance=instance).status == "expired"
    assert AwaitUnit.objects.get(instance=instance).status == "expired"
    with pytest.raises(InteractionResolved):
        workflows.complete(f"pay-{instance.id}", 1)


def test_a_late_completion_is_refused_and_fires_the_deadline():
    from workflows.testing import _skew

    instance = workflows.start(Pay)
    drain()
    _skew(connection, 86401)
    with pytest.raises(InteractionResolved):
        workflows.complete(f"pay-{instance.id}", 1)
    row = Instance.objects.get(pk=instance.pk)
    assert (row.status, row.timed_out) == ("runnable", True)
    assert not Signal.objects.filter(instance=instance).exists()
    drain()
    assert_failed(instance, "never paid")


def test_cancelling_closes_units_and_interactions_and_event_waits():
    class Listen(Workflow):
        name = "questions.listen"

        @step
        def go(self, ctx):
            return Await(event("order.paid"), then="end")

        @step
        def end(self, ctx):
            return Done(ctx.answer)

    one, two = workflows.start(Pay), workflows.start(Listen)
    drain()
    assert_awaiting(two, "order.paid")
    workflows.cancel(one)
    workflows.cancel(two)
    assert Interaction.objects.get(instance=one).status == "cancelled"
    assert AwaitUnit.objects.get(instance=one).status == "cancelled"
    assert EventWait.objects.get(instance=two).closed_at is not None
    with pytest.raises(UnknownInteraction):
        workflows.complete(f"pay-{one.id}", 1)
    assert workflows.emit("order.paid") == 0


def test_a_signal_id_that_is_pending_fails_the_second_and_leaves_the_first():
    @durable(name="questions.gate")
    def gate(ctx):
        return ctx.wait_for_signal("gate", signal="the-gate", timeout="1h")

    first, second = workflows.start(gate), workflows.start(gate)
    drain()
    assert_failed(second, "SignalCollision")
    assert_awaiting(first, "the-gate")
    workflows.complete("the-gate", "yes")
    drain()
    assert_done(first, "yes")
    third = workflows.start(gate)
    drain()
    assert_awaiting(third)


def test_a_channel_in_await_opens_in_the_same_transaction_and_owns_its_answers():
    opened = []

    class Ask(Channel):
        name = "ask"
        owns_answers = True
        request = {"title": "really?"}

        def open(self, interactions):
            opened.extend(interactions)

    class Gate(Workflow):
        name = "questions.channel"

        @step
        def go(self, ctx):
            return Await(Ask(), then="end", timeout="1h")

        @step
        def end(self, ctx):
            return Done(ctx.answer)

    instance = workflows.start(Gate)
    drain()
    assert [one.request for one in opened] == [{"title": "really?"}]
    with pytest.raises(workflows.AnswerElsewhere):
        workflows.complete(opened[0], "yes")
    assert_awaiting(instance, "go")


def test_a_collision_in_a_step_goes_to_handle():
    @durable(name="questions.first")
    def first(ctx):
        ctx.wait_for_signal("x", signal="taken", timeout="1h")

    class Second(Workflow):
        name = "questions.second"

        @step
        def go(self, ctx):
            from workflows.definitions.question import Question

            return Await(Question("go", signal_id="taken"), then="go")

        def handle(self, error, ctx):
            assert isinstance(error, SignalCollision)
            return Done("collided")

    workflows.start(first)
    second = workflows.start(Second)
    drain()
    assert_done(second, "collided")


def add_tax(request, submitted):
    return {"total": submitted["net"] * request["rate"]}


def test_a_projector_makes_the_trusted_output_and_leaves_the_interaction_pending_when_it_fails():
    @durable(name="questions.projected")
    def fn(ctx):
        return ctx.wait_for("tax", "api", input={"rate": 2}, projector=add_tax, timeout="1h", schema={"type": "object"})

    instance = workflows.start(fn)
    drain()
    with pytest.raises(workflows.ProjectionFailed, match="net"):
        workflows.complete(f"tax-{instance.id}", {"gross": 1})
    assert_awaiting(instance, "tax")
    workflows.complete(f"tax-{instance.id}", {"net": 4})
    drain()
    assert_done(instance, {"total": 8})
    with pytest.raises(workflows.InvalidCall, match="top of a module"):
        name_projector(lambda request, submitted: submitted)


# Deadlines


class Again(Workflow):
    name = "questions.again"

    @step
    def ask(self, ctx):
        return Await(ctx.callback("pay"), then="look", timeout="1h")

    @step
    def look(self, ctx):
        times = ctx.state.get("times", 0) + 1
        return Next("ask", {"times": times}) if ctx.timed_out and times < 2 else Done([times, ctx.answer])


def test_a_step_style_re_await_restarts_the_deadline():
    instance = workflows.start(Again)
    drain()
    advance("59m")
    first = Interaction.objects.get()
    advance("1m")
    second = Interaction.objects.get(status="pending")
    assert (first.pk == second.pk, second.signal_id == first.signal_id) == (False, True)
    assert 3595 < (second.deadline - first.deadline).total_seconds() < 3605
    advance("59m")
    assert_awaiting(instance)
    workflows.complete(second, "in time")
    drain()
    assert_done(instance, [2, "in time"])


def dies_before_it_parks(workflow):
    """Started, asked, and the worker dead before it could commit; half an hour later it runs again."""
    from tests.support.races import forget, play, take_one
    from workflows import store
    from workflows.testing import _skew

    instance = workflows.start(workflow)
    claim = take_one()
    assert isinstance(play(claim), store.Commit)
    before = Interaction.objects.get(instance=instance)
    forget(claim)
    assert store.reclaim(connection) == 1
    _skew(connection, 1800)
    drain()
    assert_awaiting(instance)
    return instance, before, Interaction.objects.get(instance=instance)


def test_a_function_style_replay_waits_on_for_the_same_deadline():
    @durable(name="questions.same_deadline")
    def fn(ctx):
        return ctx.wait_for_signal("gate", timeout="1h")

    instance, before, after = dies_before_it_parks(fn)
    assert (after.pk, after.deadline) == (before.pk, before.deadline)
    assert Instance.objects.get(pk=instance.pk).due_at == before.deadline
    advance("29m")
    assert_awaiting(instance)
    advance("2m")
    assert_failed(instance, "SignalTimeoutError")


def test_a_step_that_runs_again_finds_its_question_and_restarts_the_deadline():
    instance, before, after = dies_before_it_parks(Again)
    assert (after.pk, after.token_hash) == (before.pk, before.token_hash)
    assert 1790 < (after.deadline - before.deadline).total_seconds() < 1810
    assert Instance.objects.get(pk=instance.pk).due_at == after.deadline


def test_a_timeout_is_a_wake_and_no_failure():
    instance = workflows.start(Again)
    drain()
    advance("1h")
    row = Instance.objects.get(pk=instance.pk)
    assert (row.attempt, row.runs, row.error) == (0, 0, None)
    assert row.events.filter(kind__in=["run_failed", "retried", "failed"]).count() == 0


def test_by_style_a_timeout_wakes_raises_or_takes_the_side_path():
    from workflows import FAIL, Machine, SignalTimeoutError, action, flow, wait_for

    @durable(name="questions.styles_function")
    def function(ctx):
        nothing = ctx.wait_for_event("paid", event="questions.paid", timeout="1h")
        try:
            ctx.wait_for_signal("gate", timeout="1h")
        except SignalTimeoutError:
            return ["late", nothing]

    class Flow(Machine):
        name = "questions.styles_machine"
        pay = wait_for(callback=True, timeout="1h", on_timeout="give_up")
        give_up = flow(action(lambda ctx: {"status": "timed_out"}))

    class Fails(Machine):
        name = "questions.styles_fail"
        pay = wait_for(callback=True, timeout="1h")

    class Told(Machine):
        name = "questions.styles_told"
        pay = wait_for(callback=True, timeout="1h", on_timeout=FAIL)

    one, two, three, four = (workflows.start(each) for each in (function, Flow, Fails, Told))
    drain()
    advance("2h")
    assert_done(one, ["late", None])
    assert_done(two, {"status": "timed_out"})
    assert_failed(three)
    assert_failed(four)
    assert set(Interaction.objects.values_list("status", flat=True)) == {"expired"}


def test_an_armed_deadline_never_fires_after_an_answer():
    instance = workflows.start(Again)
    drain()
    workflows.complete(Interaction.objects.get(), "yes")
    from workflows.testing import _skew

    _skew(connection, 7200)
    drain()
    assert_done(instance, [1, "yes"])
    assert instance.events.filter(kind="timed_out").count() == 0


def test_a_plain_signal_is_never_refused_while_its_instance_lives():
    from workflows.testing import _skew

    instance = workflows.start(Again)
    drain()
    _skew(connection, 7200)
    assert workflows.signal(instance, "anything", 1).refused is None


# Words


def test_a_bare_await_opens_neither_unit_nor_interaction():
    class Bare(Workflow):
        name = "questions.bare"

        @step
        def go(self, ctx):
            return Await({"a", "b"}, then="end", timeout="1h")

        @step
        def end(self, ctx):
            return Done()

    instance = workflows.start(Bare)
    drain()
    row = Instance.objects.get(pk=instance.pk)
    assert (sorted(row.names), row.due_at is None, row.asked) == (["a", "b"], False, 0)
    assert not AwaitUnit.objects.exists()
    assert not Interaction.objects.exists()
    with pytest.raises(UnknownInteraction):
        workflows.complete("a", 1)


def test_every_row_of_a_question_belongs_to_its_instances_workspace():
    acme = workflows.workspace.create("acme")
    instance = workflows.start(Pay, workspace="acme")
    drain()
    workflows.complete(f"pay-{instance.id}", {"amount": 1}, workspace="acme")
    for model in (AwaitUnit, Interaction, Signal):
        assert set(model.objects.filter(instance=instance).values_list("workspace", flat=True)) == {acme.pk}
    assert set(instance.events.values_list("workspace", flat=True)) == {acme.pk}


def test_the_suspensions_row_holds_its_timeout_channel_and_schema():
    @durable(name="questions.told")
    def fn(ctx):
        return ctx.wait_for("gate", "api", timeout="1h", schema={"type": "integer"})

    instance = workflows.start(fn)
    drain()
    [row] = instance.events.filter(kind="asked")
    assert (row.data["timeout"], row.data["channel"]) == (3600, "api")
    assert row.data["schema"]["type"] == "integer"


def test_the_instance_points_at_its_open_unit():
    instance = workflows.start(Pay)
    drain()
    unit = AwaitUnit.objects.get(instance=instance)
    assert Instance.objects.get(pk=instance.pk).names == [f"holdpoint:unit:{unit.pk}"]
    assert (unit.status, unit.visit, unit.closed_at) == ("open", 1, None)
