"""What is told to somebody who makes one of the mistakes that are made first."""

import datetime as dt
import uuid

import pytest
from django.core.checks import run_checks
from django.core.management import call_command

import workflows
from tests.support.clocks import beat_for_long
from workflows import (
    Await,
    Done,
    InvalidDefinition,
    InvalidDuration,
    Next,
    NoTarget,
    NotFinished,
    Spawn,
    Stop,
    UnknownInteraction,
    UnknownWorkflow,
    Workflow,
    durable,
    step,
)
from workflows.definitions import registry
from workflows.operations import step_checks
from workflows.testing import assert_failed, drain

pytestmark = pytest.mark.django_db


class Waits(Workflow):
    name = "mistakes.waits"

    @step
    def ask(self, ctx):
        return Await("paid", then="end")

    @step
    def end(self, ctx):
        return Done()


@pytest.mark.parametrize("wrong", ["1M", "1H", "2D", "1W30m", "30S", " 1M "])
def test_a_unit_in_capitals_is_refused_because_a_month_may_be_meant(wrong):
    with pytest.raises(InvalidDuration, match="units are lower case: w, d, h, m \\(minutes\\) and s; months have none"):
        Await("paid", then="end", timeout=wrong)


@pytest.mark.parametrize("text", ["PT1M", "pt1m", "P1D", "PT24H"])
def test_iso_durations_may_be_written_in_either_case(text):
    assert Await("paid", then="end", timeout=text).timeout > 0


@pytest.mark.parametrize("call", ["signal", "cancel", "result"])
def test_an_id_as_text_is_a_key_and_the_error_says_how_to_address_by_id(call):
    instance = workflows.start(Waits)
    arguments = ["paid"] if call == "signal" else []
    with pytest.raises(NoTarget) as caught:
        getattr(workflows, call)(str(instance.pk), *arguments)
    assert f"to address by id pass uuid.UUID('{instance.pk}')" in str(caught.value)


@pytest.mark.parametrize("target", ["order-7", uuid.UUID(int=7)])
def test_another_target_that_is_not_there_is_told_without_that_hint(target):
    with pytest.raises(NoTarget) as caught:
        workflows.signal(target, "paid")
    assert "pass uuid.UUID" not in str(caught.value)


def test_an_answer_before_its_question_is_told_what_may_come_first():
    with pytest.raises(UnknownInteraction, match=r"its wait has not begun.*emit an event, or hand out a callback"):
        workflows.complete("not-asked-yet", {"approved": True})


def test_the_id_of_an_instance_answers_nothing_and_the_error_says_which_id_is_meant():
    with pytest.raises(
        UnknownInteraction, match=r"signal id of the question, .*id or the key of an instance is neither"
    ):
        workflows.complete(workflows.start(Waits).pk, {"approved": True})


@pytest.mark.parametrize("outcome", [Await("paid", then="end"), Done({"paid": True}), Stop("never paid")], ids=repr)
def test_a_function_that_returns_what_only_steps_return_is_told_what_functions_do(outcome):
    @durable(name="mistakes.returns-outcome")
    def returns(ctx):
        return outcome

    instance = workflows.start(returns)
    drain()
    error = assert_failed(instance).error
    assert f"returned {type(outcome).__name__}(…), which only steps return" in error
    assert "A function returns its result itself, waits by a call such as ctx.wait_for_signal" in error


def test_a_class_without_a_step_is_told_so():
    class Forgotten(Workflow):
        def ask(self, ctx):
            return Done()

    with pytest.raises(UnknownWorkflow, match=r"Forgotten has no steps: write @step above each method"):
        workflows.start(Forgotten)
    with pytest.raises(UnknownWorkflow, match=r"Found|found in the workflows.py"):
        workflows.start(dt.date)


def test_a_step_without_ctx_is_refused_where_it_is_written():
    with pytest.raises(InvalidDefinition, match=r"step 'ship' takes self and ctx: write def ship\(self, ctx\)"):

        class Short(Workflow):
            @step
            def ship(self):
                return Done()

    with pytest.raises(InvalidDefinition, match="step 'ship' takes self and ctx"):

        class Long(Workflow):
            @step(atomic=True)
            def ship(self, ctx, order):
                return Done()


def test_a_step_may_have_more_parameters_with_defaults():
    class Fine(Workflow):
        @step
        def ship(self, ctx, *, carrier="post", **more):
            return Done(carrier)

    assert Fine.definition.initial == "ship"


def test_the_check_finds_a_misspelt_step_where_it_is_written_as_a_literal(monkeypatch):
    class Misspelt(Workflow):
        name = "mistakes.misspelt"

        @step
        def ask(self, ctx):
            if ctx.input:
                return Await("paid", then="setle")
            return Spawn([], then="ask") if ctx.state else workflows.Next(step="shp")

        @step
        def settle(self, ctx):
            target = "computed"
            return Next(target) if ctx.awaited else Next("ask")

        def handle(self, error, ctx):
            return Next("mend")

    known = Misspelt.definition
    registry._definitions.pop((known.name, known.version))  # other tests expect no warning
    monkeypatch.setattr(registry, "_definitions", {(known.name, known.version): known})
    told = list(step_checks.check_targets())
    assert [one.id for one in told] == ["holdpoint.W060"] * 3
    assert [one.msg.rpartition("leads to ")[2].partition(",")[0] for one in told] == ["'setle'", "'shp'", "'mend'"]
    assert {one.hint for one in told} == {"It has ask, settle."}
    assert [one for one in run_checks(tags=["holdpoint"]) if one.id == "holdpoint.W060" and "Misspelt" in one.msg]


def test_a_result_that_nobody_works_on_is_told_that_no_worker_lives():
    instance = workflows.start(Waits)
    with pytest.raises(NotFinished, match=r"step 'ask', not finished\. No worker shows a sign of life: start"):
        workflows.result(instance)
    beat_for_long("here", "workflow_worker", "me")
    with pytest.raises(NotFinished, match=r"not finished$"):
        workflows.result(instance)


@pytest.mark.parametrize("task", ["list", "show"])
def test_the_command_says_that_no_worker_lives_while_something_waits_for_one(task, capsys):
    instance = workflows.start(Waits)
    target = [str(instance.pk)] if task == "show" else []
    call_command("workflows", task, *target)
    assert "No worker shows a sign of life: start manage.py qcluster" in capsys.readouterr().err
    workflows.cancel(instance)
    call_command("workflows", task, *target)
    assert "No worker" not in capsys.readouterr().err
