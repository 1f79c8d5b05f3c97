"""One wait asked again and again, in the step style: each visit has its own question, answer and end."""

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
    Retry,
    StaleVersion,
    Stop,
    UnknownInteraction,
    Workflow,
    step,
)
from workflows.models import AwaitUnit, Instance, Interaction, LedgerEvent
from workflows.testing import _skew, advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db


def start(workflow):
    instance = workflows.start(workflow)
    drain()
    return instance


def answer(instance, wait, data):
    workflows.complete(f"{wait}-{instance.id}", data)
    drain(max_steps=30)


def visits(instance, wait):
    return list(AwaitUnit.objects.filter(instance=instance, step=wait).order_by("visit").values_list("visit", "status"))


# --- old answers and new visits ------------------------------------------------------------------


def test_a_loop_over_two_questions_is_handed_each_answer_once():
    seen = []

    class Loop(Workflow):
        name = "visits.two"

        @step
        def ask(self, ctx):
            return Await(ctx.callback("review"), then="decide", timeout="24h")

        @step
        def decide(self, ctx):
            seen.append(ctx.answer)
            return Done("ok") if ctx.answer == "ok" else Await(ctx.callback("edit"), then="edited", timeout="24h")

        @step
        def edited(self, ctx):
            seen.append(ctx.answer)
            return Await(ctx.callback("review"), then="decide", timeout="24h")

    instance = start(Loop)
    answer(instance, "review", "no")
    answer(instance, "edit", "edited")
    assert_awaiting(instance, "review")
    answer(instance, "review", "no, again")
    answer(instance, "edit", "edited again")
    answer(instance, "review", "ok")
    assert_done(instance, "ok")
    assert seen == ["no", "edited", "no, again", "edited again", "ok"]
    assert visits(instance, "review") == [(1, "completed"), (2, "completed"), (3, "completed")]
    assert visits(instance, "edit") == [(1, "completed"), (2, "completed")]
    assert Instance.objects.get(pk=instance.pk).inbox == 0


@pytest.mark.parametrize("between", ["wait", "next", "sleep"])
def test_the_answer_of_a_visit_does_not_answer_the_next_whatever_came_between(between):
    seen = []

    class Loop(Workflow):
        name = "visits.between"

        @step
        def ask(self, ctx):
            return Await(ctx.callback("review"), then="decide", timeout="24h")

        @step
        def decide(self, ctx):
            seen.append(ctx.answer)
            if ctx.answer == "ok":
                return Done("ok")
            return Await("edited", then="again") if between == "wait" else Next("again")

        @step
        def again(self, ctx):
            return Next("ask", delay="1m" if between == "sleep" else None)

    instance = start(Loop)
    answer(instance, "review", "no")
    if between == "wait":
        assert_awaiting(instance, "edited")
        workflows.signal(instance, "edited")
    advance("1m")
    assert_awaiting(instance, "review")
    assert seen == ["no"]
    answer(instance, "review", "ok")
    assert_done(instance, "ok")
    assert seen == ["no", "ok"]


def test_an_answer_stays_with_its_step_over_a_retry_and_is_gone_at_the_next_visit():
    seen = []

    class Again(Workflow):
        name = "visits.retried"

        @step
        def go(self, ctx):
            return Await(ctx.callback("pay"), then="end", timeout="1h")

        @step
        def end(self, ctx):
            seen.append((ctx.attempt, ctx.answer))
            if ctx.attempt == 0:
                return Retry(delay=0)
            if ctx.answer == "again":
                return Await(ctx.callback("pay"), then="end", timeout="1h")
            return Done(ctx.answer)

    instance = start(Again)
    answer(instance, "pay", "again")
    assert_awaiting(instance, "pay")
    answer(instance, "pay", "enough")
    assert_done(instance, "enough")
    assert seen == [(0, "again"), (1, "again"), (0, "enough"), (1, "enough")]
    assert Instance.objects.get(pk=instance.pk).inbox == 0


def test_an_answer_to_a_question_whose_step_failed_after_asking_is_handed_to_the_next_try():
    class Failing(Workflow):
        name = "visits.failing"

        @step
        def go(self, ctx):
            asked = ctx.callback("pay")
            if not ctx.state.get("again"):
                assert asked.resume_url
                raise ValueError("after asking")
            return Await(asked, then="end", timeout="1h")

        @step
        def end(self, ctx):
            return Done(ctx.answer)

        def handle(self, error, ctx):
            return Next("go", {"again": 1}, delay="1m")

    instance = start(Failing)
    answer(instance, "pay", 5)
    advance("1m")
    assert_done(instance, 5)
    assert visits(instance, "pay") == [(1, "completed")]


def test_a_retry_goes_on_with_a_new_visit_of_what_its_failure_closed_in_an_earlier_step():
    broken = [True]

    class Two(Workflow):
        name = "visits.closed"

        @step
        def hand_out(self, ctx):
            return Next("wait", {"url": ctx.callback("pay").resume_url})

        @step
        def wait(self, ctx):
            return Stop("no") if broken else Await(ctx.callback("pay"), then="end", timeout="1h")

        @step
        def end(self, ctx):
            return Done(ctx.answer)

    instance = start(Two)
    assert_failed(instance, "no")
    broken.clear()
    workflows.retry(instance)
    drain()
    assert_awaiting(instance, "pay")
    answer(instance, "pay", 3)
    assert_done(instance, 3)
    assert visits(instance, "pay") == [(1, "cancelled"), (2, "completed")]


# --- plain waits between -------------------------------------------------------------------------


class Mixed(Workflow):
    name = "visits.mixed"

    @step
    def ask(self, ctx):
        return Await(ctx.callback("pay"), then="plain", timeout="1h")

    @step
    def plain(self, ctx):
        return Await("go", then="end", timeout="5m")

    @step
    def end(self, ctx):
        return Done([ctx.timed_out, [one.payload for one in ctx.awaited]])


def test_a_plain_wait_after_a_question_takes_the_signal_that_came_before_it():
    instance = start(Mixed)
    workflows.signal(instance, "go", 1)
    answer(instance, "pay", "paid")
    assert_done(instance, [False, [1]])


def test_a_plain_wait_after_a_question_does_not_take_its_answer():
    instance = start(Mixed)
    answer(instance, "pay", "paid")
    assert_awaiting(instance, "go")
    advance("5m")
    assert_done(instance, [True, []])


# --- a callback named like a step ----------------------------------------------------------------


class Desk(Channel):
    name = "desk"
    owns_answers = True
    opened: list[Interaction] = []

    def open(self, interactions):
        self.opened.extend(interactions)


class Same(Workflow):
    name = "visits.same"

    @step
    def pay(self, ctx):
        return Next("desk", {"url": ctx.callback("desk").resume_url})

    @step
    def desk(self, ctx):
        return Await(Desk(), then="end", timeout="1h")

    @step
    def end(self, ctx):
        return Done(ctx.answer)


def test_a_callback_named_like_the_step_of_a_channel_is_another_question():
    Desk.opened.clear()
    instance = start(Same)
    [opened] = Desk.opened
    asked = Interaction.objects.filter(instance=instance, status="pending")
    assert {one.channel: one.pk for one in asked}["desk"] == opened.pk
    assert sorted(one.channel for one in asked) == ["callback", "desk"]
    assert len({one.signal_id for one in asked}) == 2
    workflows.complete(f"desk-{instance.id}", "by the partner")
    drain()
    assert_awaiting(instance, opened.signal_id)


def test_both_are_named_alike_in_one_step():
    class One(Workflow):
        name = "visits.one"

        @step
        def pay(self, ctx):
            assert ctx.callback("pay").resume_url
            return Await(Desk(), then="end", timeout="1h")

        @step
        def end(self, ctx):
            return Done(ctx.answer)

    Desk.opened.clear()
    instance = start(One)
    assert [one.instance_id for one in Desk.opened] == [instance.pk]
    assert Interaction.objects.filter(instance=instance, status="pending").count() == 2


# --- latecomers of an earlier visit --------------------------------------------------------------


@pytest.mark.parametrize("how", ["answered", "expired", "late"])
def test_one_who_shows_an_old_version_is_told_so_before_that_it_is_too_late(how):
    instance = start(Mixed)
    [asked] = Interaction.objects.filter(instance=instance)
    match how:
        case "answered":
            workflows.complete(asked, 1)
        case "expired":
            advance("1h")
        case "late":  # nobody has noticed yet that the time is over
            _skew(connection, 3601)
    with pytest.raises(StaleVersion):
        workflows.complete(asked, 2, version=asked.version + 5)
    with pytest.raises(InteractionResolved):
        workflows.complete(asked, 2)


def test_an_answer_to_a_cancelled_visit_by_somebody_is_a_refusal_in_the_ledger():
    instance = start(Mixed)
    [asked] = Interaction.objects.filter(instance=instance)
    workflows.cancel(instance)
    with pytest.raises(UnknownInteraction):
        workflows.complete(asked, 1)
    assert not LedgerEvent.objects.filter(kind="refused").exists()
    with pytest.raises(UnknownInteraction):
        workflows.complete(asked, 1, actor="kim")
    [row] = LedgerEvent.objects.filter(kind="refused")
    assert (row.instance_id, row.actor, row.data["refused"]) == (instance.pk, "kim", "UnknownInteraction")
