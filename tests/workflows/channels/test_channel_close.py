"""A channel that has a `close` is told of each question of its own that is over, in the transaction that ends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

import workflows
from workflows import Await, Channel, Done, InteractionResolved, Workflow, durable, step
from workflows.definitions.channel import _channels, _closing, find_channel, list_closing
from workflows.models import Instance, Interaction
from workflows.testing import assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db

NAME = "close-slip"


class Refuses(Exception):
    """What a channel raises."""


@dataclass
class Told:
    """What a channel was told, and whether it raises."""

    calls: list[tuple[list[int], str]] = field(default_factory=list)
    statuses: set[str] = field(default_factory=set)
    raises: bool = False


@pytest.fixture
def told() -> Iterator[Told]:
    """A channel that is told; no other test has one, because then every closing looks whom to tell."""
    told = Told()

    class Slip(Channel[Any]):
        name = NAME

        @classmethod
        def close(cls, interactions: Sequence[Interaction], how: str) -> None:
            assert connection.in_atomic_block
            ids = [one.pk for one in interactions]
            with connection.cursor() as cursor:
                cursor.execute("UPDATE holdpoint_interaction SET correlation_id = 'told' WHERE id = ANY(%s)", [ids])
            told.statuses |= set(Interaction.objects.filter(pk__in=ids).values_list("status", flat=True))
            told.calls.append(([one.index for one in interactions], how))
            if told.raises:
                raise Refuses(how)

    yield told
    _closing.pop(NAME)
    _channels.pop(NAME)


class Asks(Workflow):
    """One question through the channel, with a deadline."""

    name = "close.asks"

    @step
    def ask(self, ctx: Any) -> Any:
        return Await(find_channel(NAME)(), then="end", timeout="1h")

    @step
    def end(self, ctx: Any) -> Any:
        return Done(ctx.timed_out)


def go_through(ctx: Any, item: Any, output: Any) -> Any:
    """A line that fails, or waits through the channel."""
    if item == "b":
        raise ValueError(item)
    return ctx.wait_for("check", find_channel(NAME)())


@durable(name="close.lists")
def lists(ctx: Any, n: int, **more: Any) -> Any:
    """So many items through the channel."""
    return ctx.wait_for_each("pay", list(range(n)), find_channel(NAME)(), **more)


@durable(name="close.lines", max_attempts=1)
def lines(ctx: Any) -> Any:
    """Items of other channels, whose lines ask through this one."""
    return ctx.wait_for_each("pay", ["a", "b"], "api", then=go_through)


@durable(name="close.items-and-lines", max_attempts=1)
def items_and_lines(ctx: Any) -> Any:
    """Items through this channel, of which a line fails."""
    return ctx.wait_for_each("pay", ["b", "c", "d"], find_channel(NAME)(), then=go_through)


def begin(workflow: Any = Asks, **input: Any) -> Instance:
    instance = workflows.start(workflow, input)
    drain()
    return instance


def find_id(instance: Instance, index: int = 0) -> str:
    return Interaction.objects.get(instance=instance, index=index).signal_id


def make_late(*instances: Instance) -> None:
    ids = [one.pk for one in instances]
    with connection.cursor() as cursor:
        for table in ("interaction", "unit"):
            cursor.execute(
                f"UPDATE holdpoint_{table} SET deadline = now() - interval '1 s' WHERE instance_id = ANY(%s)", [ids]
            )


def make_due(*instances: Instance) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE holdpoint_instance SET due_at = now() - interval '1 s' WHERE id = ANY(%s)",
            [[one.pk for one in instances]],
        )


def list_statuses() -> list[str]:
    return [str(one.status) for one in Interaction.objects.order_by("unit", "index")]


# --- every way to end ------------------------------------------------------------------------------------


def test_an_answer_closes_a_question_as_completed(told: Told) -> None:
    instance = begin()
    workflows.complete(find_id(instance), {"x": 1})
    assert told.calls == [([0], "completed")]
    assert told.statuses == {"completed"}
    assert Interaction.objects.get().correlation_id == "told"
    drain()
    assert_done(instance, False)
    assert len(told.calls) == 1


def test_an_answer_that_comes_too_late_closes_it_as_expired(told: Told) -> None:
    instance = begin()
    make_late(instance)
    with pytest.raises(InteractionResolved):
        workflows.complete(find_id(instance), None)
    assert told.calls == [([0], "expired")]


def test_deadlines_that_pass_together_are_told_of_in_one_call(told: Told) -> None:
    instances = [begin(), begin()]
    make_due(*instances)
    drain()
    assert told.calls == [([0, 0], "expired")]
    for one in instances:
        assert_done(one, True)


def test_a_question_that_fails_is_closed_as_failed(told: Told) -> None:
    instance = begin()
    workflows.fail(find_id(instance), "no such address")
    assert told.calls == [([0], "failed")]


def test_a_cancelled_instance_closes_what_it_asks_in_one_call(told: Told) -> None:
    instance = begin(lists, n=2)
    workflows.cancel(instance)
    assert told.calls == [([0, 1], "cancelled")]
    other = begin()
    workflows.cancel(other)
    assert told.calls[1:] == [([0], "cancelled")]


def test_answers_that_come_together_are_told_of_in_one_call(told: Told) -> None:
    instance = begin(lists, n=3)
    workflows.complete_many([(find_id(instance, index), index) for index in (2, 0)])
    assert told.calls == [([0, 2], "completed")]
    workflows.complete(find_id(instance, 1), 1)
    drain()
    assert_done(instance, [0, 1, 2])
    assert told.calls[1:] == [([1], "completed")]


def test_items_whose_time_is_over_are_told_of_in_one_call(told: Told) -> None:
    instance = begin(lists, n=2, timeout="1h", on_item="partial")
    make_late(instance)
    drain()
    assert told.calls == [([0, 1], "expired")]


def test_an_item_that_fails_its_unit_cancels_the_others(told: Told) -> None:
    instance = begin(lists, n=3)
    workflows.fail(find_id(instance, 1), "no such address")
    assert sorted(told.calls) == [([0, 2], "cancelled"), ([1], "failed")]
    drain()
    assert_failed(instance)
    assert len(told.calls) == 2


def test_what_an_ending_instance_still_asks_is_cancelled(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_closing, "callback", find_channel(NAME))

    class Leaves(Workflow):
        name = "close.leaves"

        @step
        def ask(self, ctx: Any) -> Any:
            assert ctx.callback("one").resume_token
            assert ctx.callback("two").resume_token
            return Done()

    assert_done(begin(Leaves))
    assert told.calls == [([0, 0], "cancelled")]


def test_what_a_function_forgets_before_its_next_run_is_cancelled(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_closing, "callback", find_channel(NAME))

    def break_down() -> None:
        raise ValueError("no")

    @durable(name="close.forgets")
    def forgets(ctx: Any) -> Any:
        try:
            ctx.step("breaks", break_down)
        except ValueError as error:
            caught = error
        assert ctx.callback("gate", timeout="1h").resume_token
        raise caught

    begin(forgets)
    assert told.calls[0] == ([0], "cancelled")
    assert list_statuses()[0] == "cancelled"


def test_a_line_that_fails_closes_what_the_other_lines_and_the_list_ask(told: Told) -> None:
    one = begin(lines)
    workflows.complete(f"pay.0-{one.pk}", None)
    drain()
    workflows.complete(f"pay.1-{one.pk}", None)
    drain()
    assert_failed(one)
    assert told.calls == [([0], "cancelled")]
    told.calls.clear()
    two = begin(items_and_lines)
    workflows.complete(find_id(two, 0), None)
    drain()
    assert_failed(two)
    assert told.calls == [([0], "completed"), ([1, 2], "cancelled")]


# --- what a channel raises -------------------------------------------------------------------------------


def end_in_two_ways(instance: Instance) -> dict[str, Callable[[], Any]]:
    return {
        "answered": lambda: workflows.complete(find_id(instance), 1),
        "failed": lambda: workflows.fail(find_id(instance), "no"),
        "cancelled": lambda: workflows.cancel(instance),
    }


@pytest.mark.parametrize("how", ["answered", "failed", "cancelled"])
@pytest.mark.parametrize("items", [False, True])
def test_an_exception_rolls_the_closing_back(told: Told, how: str, items: bool) -> None:
    instance = begin(lists, n=2) if items else begin()
    before = Instance.objects.values().get()
    told.raises = True
    with pytest.raises(Refuses):
        end_in_two_ways(instance)[how]()
    assert set(list_statuses()) == {"pending"}
    assert not Interaction.objects.exclude(correlation_id=None).exists()
    assert Instance.objects.values().get() == before
    told.raises = False
    end_in_two_ways(instance)[how]()
    assert "pending" not in list_statuses()[:1]


def test_an_item_that_cannot_be_closed_keeps_no_other_item(told: Told, caplog: pytest.LogCaptureFixture) -> None:
    instance = begin(lists, n=2, timeout="1h", on_item="partial")
    told.raises = True
    make_late(instance)
    drain()
    assert_awaiting(instance)
    assert [how for _, how in told.calls] == ["expired"] * 3  # both, then each of them
    assert "cannot be closed, and is tried again" in caplog.text


def test_an_atomic_step_meets_what_a_channel_raises(told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(_closing, "callback", find_channel(NAME))

    class Leaves(Workflow):
        name = "close.atomic"

        @step(atomic=True)
        def ask(self, ctx: Any) -> Any:
            assert ctx.callback("one").resume_token
            return Done()

        def handle(self, error: Exception, ctx: Any) -> Any:
            told.raises = False
            return workflows.Stop(f"met {type(error).__name__}")

    told.raises = True
    assert_failed(begin(Leaves), "met Refuses")


def test_an_instance_method_is_refused_where_it_is_written() -> None:
    with pytest.raises(workflows.InvalidCall, match="must be a class method"):

        class Wrong(Channel[Any]):
            name = "close-wrong"

            def close(self, interactions: Sequence[Interaction], how: str) -> None:  # type: ignore[override]
                """Of which instance?"""


# --- what it costs the others ----------------------------------------------------------------------------


class Plain(Channel[Any]):
    """A channel that wants to hear nothing."""

    name = "close-plain"


@durable(name="close.plain")
def plain(ctx: Any) -> Any:
    """Ask through it."""
    return ctx.wait_for("ask", Plain())


def send(call: Callable[[], Any]) -> list[str]:
    with CaptureQueriesContext(connection) as captured:
        call()
    return [one["sql"].split("(")[0].split(" FROM ")[0][:60] for one in captured]


def test_no_channel_with_a_close_is_known_to_other_tests() -> None:
    assert list_closing() == []


def test_without_such_a_channel_closing_sends_what_it_sent() -> None:
    """The find and the one statement that answers, with no transaction around it; the same for the other ways."""
    one, two, three = begin(plain), begin(plain), begin(plain)
    ids = [find_id(each) for each in (one, two, three)]
    assert len(send(lambda: workflows.complete(ids[0], 1))) == 2
    failing = send(lambda: workflows.fail(ids[1], "no"))
    assert not any(sql.startswith("SAVEPOINT") for sql in failing)
    cancelling = send(lambda: workflows.cancel(three))
    assert sum(sql.startswith("SAVEPOINT") for sql in cancelling) == 1


def test_beside_such_a_channel_an_answer_of_another_costs_what_it_did(told: Told) -> None:
    instance = begin(plain)
    address = find_id(instance)
    assert len(send(lambda: workflows.complete(address, 1))) == 2
    assert told.calls == []
