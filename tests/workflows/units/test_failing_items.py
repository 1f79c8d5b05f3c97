"""Items and questions that fail, policies, and items that are asked once more."""

from typing import Any

import pytest

import workflows
from tests.support.units.payments import answer, asked, begin
from workflows import Await, Channel, Done, NotRetryable, Stop, UnitFailed, Workflow, durable, step
from workflows.models import AwaitUnit, Interaction, LedgerEvent
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db


def fail(instance: Any, index: int, reason: str = "no such account") -> None:
    workflows.fail(f"pay.{index}-{instance.pk}", reason, actor="bank")


def statuses(instance: Any) -> list[str]:
    rows = Interaction.objects.filter(instance=instance).order_by("unit__visit", "index")
    return [str(status) for status in rows.values_list("status", flat=True)]


def test_under_fail_the_first_failed_item_fails_the_unit_and_cancels_the_others() -> None:
    instance = begin(4, concurrency=2)
    answer(instance, 0)
    fail(instance, 1)
    assert statuses(instance) == ["completed", "failed", "cancelled", "cancelled"]
    unit = AwaitUnit.objects.get(instance=instance)
    assert (unit.status, unit.queued, unit.failed) == ("failed", 0, 1)
    drain()
    assert_failed(instance, "UnitFailed: 'pay' failed: item 1: no such account")


def test_under_partial_a_failed_item_is_marked_with_its_reason_and_the_others_go_on() -> None:
    instance = begin(3, on_item="partial")
    fail(instance, 1)
    answer(instance, 0)
    answer(instance, 2)
    drain()
    assert_done(instance, [["completed", 0, None], ["failed", None, "no such account"], ["completed", 2, None]])


def test_an_answer_to_an_item_of_a_failed_unit_is_refused() -> None:
    instance = begin(2)
    fail(instance, 0)
    with pytest.raises(workflows.UnknownInteraction):  # cancelled, as if it had never been
        answer(instance, 1)
    with pytest.raises(workflows.InteractionResolved):
        answer(instance, 0)


@durable(name="failing.catch")
def catch(ctx: Any) -> Any:
    """Go on when an item fails."""
    try:
        return ctx.wait_for_each("pay", [1, 2], "api")
    except UnitFailed as error:
        return [error.wait, error.index, error.reason, ctx.wait_for("instead", "api")]


def test_a_function_may_catch_that_a_unit_failed_and_go_on() -> None:
    instance = workflows.start(catch)
    drain()
    fail(instance, 1, "gone")
    drain()
    workflows.complete(f"instead-{instance.pk}", "by hand")
    drain()
    assert_done(instance, ["pay", 1, "gone", "by hand"])


def test_one_failed_item_can_be_asked_once_more_while_its_unit_is_open() -> None:
    instance = begin(3, on_item="partial", timeout="1h")
    fail(instance, 1)
    advance("30m")
    workflows.retry_item(f"pay.1-{instance.pk}", actor="ann")
    assert asked(instance) == [0, 1, 2]
    answer(instance, 0)
    answer(instance, 2)
    advance("31m")
    assert_awaiting(instance)  # its time began anew
    answer(instance, 1)
    drain()
    assert_done(instance, [["completed", n, None] for n in range(3)])


def test_an_expired_item_can_be_asked_once_more() -> None:
    instance = begin(2, on_item="partial", concurrency=1, timeout="1h")
    advance("61m")
    assert statuses(instance) == ["expired", "pending"]
    answer(instance, 1)
    instance.refresh_from_db()
    with pytest.raises(NotRetryable, match=r"its unit is over: retry\(\) the instance"):
        workflows.retry_item(Interaction.objects.get(instance=instance, index=0))
    second = begin(2, on_item="partial", concurrency=1, timeout="1h")
    advance("61m")
    workflows.retry_item(Interaction.objects.get(instance=second, index=0))
    assert asked(second) == [1]  # in its turn
    answer(second, 1)
    assert asked(second) == [0]


def test_what_is_no_failed_item_is_not_asked_once_more() -> None:
    instance = begin(2, on_item="partial")
    answer(instance, 0)
    with pytest.raises(NotRetryable, match="it is completed; only a failed or expired item"):
        workflows.retry_item(f"pay.0-{instance.pk}")
    with pytest.raises(NotRetryable, match="it is pending; only a failed or expired item"):
        workflows.retry_item(f"pay.1-{instance.pk}")
    with pytest.raises(workflows.UnknownInteraction):
        workflows.retry_item("nobody")


def test_a_retry_of_the_instance_asks_anew_what_was_not_answered_and_keeps_the_answers() -> None:
    instance = begin(4, concurrency=2)
    answer(instance, 0, "kept")
    fail(instance, 1)
    drain()
    assert_failed(instance)
    workflows.retry(instance)
    drain()
    assert asked(instance) == [1, 2]
    assert statuses(instance)[4:] == ["completed", "pending", "pending", "pending"]
    for index in (1, 2, 3):
        answer(instance, index)
    drain()
    assert_done(instance, ["kept", 1, 2, 3])
    assert list(AwaitUnit.objects.filter(instance=instance).values_list("visit", "status")) == [
        (1, "failed"),
        (2, "completed"),
    ]


@durable(name="failing.changing")
def changing(ctx: Any) -> Any:
    """Items that are not the same when they are asked anew."""
    return ctx.wait_for_each("pay", ITEMS, "api")


ITEMS: list[str] = []


def test_an_answer_to_what_is_asked_otherwise_now_is_not_kept() -> None:
    ITEMS[:] = ["a", "b", "c"]
    instance = workflows.start(changing)
    drain()
    answer(instance, 0)
    answer(instance, 1)
    fail(instance, 2)
    drain()
    ITEMS[:] = ["a", "B", "c"]
    workflows.retry(instance)
    drain()
    assert asked(instance) == [1, 2]


def test_when_nothing_is_left_to_ask_anew_the_unit_completes_at_once() -> None:
    ITEMS[:] = ["a", "b"]
    instance = workflows.start(changing)
    drain()
    answer(instance, 0, "A")
    fail(instance, 1)
    drain()
    ITEMS[:] = ["a"]
    workflows.retry(instance)
    drain()
    assert_done(instance, ["A"])


@durable(name="failing.one")
def one(ctx: Any) -> Any:
    """One question that may fail."""
    return ctx.wait_for("gate", "api")


def test_a_single_question_that_fails_raises_unit_failed_in_a_function() -> None:
    instance = workflows.start(one)
    drain()
    workflows.fail(f"gate-{instance.pk}", "the line is dead", actor="post")
    drain()
    assert_failed(instance, "UnitFailed: 'gate' failed: the line is dead")
    row = LedgerEvent.objects.get(instance=instance, kind="signalled")
    assert (row.actor, row.data["failed"]) == ("post", "the line is dead")
    workflows.retry(instance)
    drain()
    workflows.complete(f"gate-{instance.pk}", "at last")
    drain()
    assert_done(instance, "at last")


class Gate(Channel[Any]):
    """A plain channel."""

    name = "failing-gate"


class Asking(Workflow):
    """Steps around a question that may fail."""

    @step
    def ask(self, ctx: Any) -> Any:
        return Await(Gate(), then="end")

    @step
    def end(self, ctx: Any) -> Any:
        return Done(ctx.answer)


class Handling(Asking):
    """What the author says to it."""

    def handle(self, error: Exception, ctx: Any) -> Any:
        return Done(str(error)) if isinstance(error, UnitFailed) else Stop("other")


def test_a_failed_question_goes_to_handle_in_the_step_style() -> None:
    for workflow in (Asking, Handling):
        instance = workflows.start(workflow)
        drain()
        workflows.fail(Interaction.objects.get(instance=instance), "no way")
        drain()
        if workflow is Asking:
            assert_failed(instance, "'ask' failed: no way")
        else:
            assert_done(instance, "'ask' failed: no way")


def test_a_question_that_is_over_or_not_there_cannot_fail() -> None:
    instance = workflows.start(one)
    drain()
    with pytest.raises(workflows.UnknownInteraction):
        workflows.fail("nobody", "why not")
    workflows.complete(f"gate-{instance.pk}", 1)
    with pytest.raises(workflows.InteractionResolved):
        workflows.fail(f"gate-{instance.pk}", "too late")
