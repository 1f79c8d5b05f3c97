"""What is told to somebody who makes one of the mistakes that are made first."""

import datetime as dt
import uuid

import pytest

import workflows
from workflows import Await, Done, InvalidDuration, NoTarget, UnknownInteraction, UnknownWorkflow, Workflow, step

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


def test_a_class_without_a_step_is_told_so():
    class Forgotten(Workflow):
        def ask(self, ctx):
            return Done()

    with pytest.raises(UnknownWorkflow, match=r"Forgotten has no steps: write @step above each method"):
        workflows.start(Forgotten)
    with pytest.raises(UnknownWorkflow, match=r"Found|found in the workflows.py"):
        workflows.start(dt.date)
