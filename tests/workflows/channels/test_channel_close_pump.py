"""What a pump ends is told to channels where models write, and what they raise keeps nobody else's outcome."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

import pytest
from django.db import connection

import workflows
from tests.support.processes import wait_until
from tests.support.pumps import pumping
from tests.support.races import COMMITTED
from workflows import Await, Channel, Done, Workflow, durable, step
from workflows.definitions.channel import _channels, _closing, find_channel
from workflows.lifecycle import Status
from workflows.models import Instance, Interaction

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]

NAME = "close-pumped"
SECONDS = 60.0


class Told:
    """What a channel was told of which instances, and for which of them it raises."""

    def __init__(self) -> None:
        self.calls: list[tuple[UUID, str]] = []
        self.sick: set[UUID] = set()
        self.raised: list[UUID] = []


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> Iterator[Told]:
    told = Told()

    class Slip(Channel[Any]):
        name = NAME

        @classmethod
        def close(cls, interactions: Sequence[Interaction], how: str) -> None:
            assert connection.in_atomic_block
            with connection.cursor() as cursor:
                cursor.execute(
                    "UPDATE holdpoint_interaction SET correlation_id = 'told' WHERE id = ANY(%s) AND status > 1",
                    [[one.pk for one in interactions]],
                )
            for one in interactions:
                if one.instance_id in told.sick:
                    told.raised.append(one.instance_id)
                    raise ValueError("the desk is closed")
            told.calls += [(one.instance_id, how) for one in interactions]

    monkeypatch.setitem(_closing, "callback", Slip)  # what a step may leave open as it ends
    yield told
    _closing.pop(NAME)
    _channels.pop(NAME)


class Asks(Workflow):
    """One question through the channel, with a deadline."""

    name = "close.pumped"

    @step
    def ask(self, ctx: Any) -> Any:
        return Await(find_channel(NAME)(), then="end", timeout="1h")

    @step
    def end(self, ctx: Any) -> Any:
        return Done(ctx.timed_out)


class Leaves(Workflow):
    """Ends with an open question."""

    name = "close.pumped-leaves"

    @step
    def ask(self, ctx: Any) -> Any:
        assert ctx.callback("one").resume_token
        return Done("left")


def go_through(ctx: Any, item: Any, output: Any) -> Any:
    """A line that fails, or waits through the channel."""
    if item == "b":
        raise ValueError(item)
    return ctx.wait_for("check", find_channel(NAME)())


@durable(name="close.pumped-lines", max_attempts=1)
def lines(ctx: Any) -> Any:
    """Items through the channel, whose lines ask through it too."""
    return ctx.wait_for_each("pay", ["a", "b", "c"], find_channel(NAME)(), then=go_through)


def wait_for(instances: list[Instance], status: Status) -> None:
    ids = [one.pk for one in instances]
    wait_until(
        lambda: Instance.objects.filter(pk__in=ids, status=status).count(),
        f"all to be {status}",
        seconds=SECONDS,
        is_it=lambda count: count == len(ids),
    )


def make_due(instances: list[Instance]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE holdpoint_instance SET due_at = now() - interval '1 s' WHERE id = ANY(%s) AND status = 3",
            [[one.pk for one in instances]],
        )


def list_told(instances: list[Instance]) -> set[str | None]:
    return set(Interaction.objects.filter(instance__in=instances).values_list("correlation_id", flat=True))


def test_a_deadline_that_a_channel_keeps_from_firing_keeps_no_other(told: Told) -> None:
    instances = workflows.start_many(Asks, [{}] * 4)
    sick, *others = instances
    told.sick = {sick.pk}
    with pumping():
        wait_for(instances, Status.AWAITING)
        make_due(instances)
        wait_for(others, Status.DONE)
        assert list_told(others) == {"told"}
        assert list_told([sick]) == {None}
        assert Instance.objects.get(pk=sick.pk).status == Status.AWAITING
        told.sick = set()
        wait_for(instances, Status.DONE)
    assert sorted(told.calls) == sorted((one.pk, "expired") for one in instances)


def test_an_ending_that_a_channel_keeps_back_keeps_no_other_and_is_made_again(
    told: Told, caplog: pytest.LogCaptureFixture
) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    instances = workflows.start_many(Leaves, [{}] * 4)
    sick, *others = instances
    told.sick = {sick.pk}
    with pumping():
        wait_for(others, Status.DONE)
        wait_until(
            lambda: Instance.objects.get(pk=sick.pk).error,
            "it to be put off",
            seconds=SECONDS,
            is_it=lambda error: error is not None and "the desk is closed" in error,
        )
        told.sick = set()
        wait_for(instances, Status.DONE)
    assert list_told(instances) == {"told"}
    assert sorted(told.calls) == sorted((one.pk, "cancelled") for one in instances)
    assert "its step runs again" in caplog.text


def test_lines_that_end_with_their_unit_are_told_of_on_the_pump(told: Told) -> None:
    [instance] = workflows.start_many(lines, [{}])
    with pumping():
        wait_for([instance], Status.AWAITING)
        workflows.complete(f"pay.0-{instance.pk}", None)
        wait_until(
            lambda: Instance.objects.filter(unit__isnull=False, status=Status.AWAITING).first(),
            "the line to ask",
            seconds=SECONDS,
        )
        line = Instance.objects.get(unit__isnull=False)
        workflows.complete(f"pay.1-{instance.pk}", None)
        wait_for([instance], Status.FAILED)
    assert told.calls == [
        (instance.pk, "completed"),
        (instance.pk, "completed"),
        (instance.pk, "cancelled"),
        (line.pk, "cancelled"),
    ]
    assert list_told([instance, line]) == {"told"}


def test_a_unit_that_a_channel_keeps_from_its_release_is_released_later(told: Told) -> None:
    [instance] = workflows.start_many(lines, [{}])
    with pumping():
        wait_for([instance], Status.AWAITING)
        workflows.complete(f"pay.0-{instance.pk}", None)
        wait_until(
            lambda: Instance.objects.filter(unit__isnull=False, status=Status.AWAITING).first(),
            "the line to ask",
            seconds=SECONDS,
        )
        told.sick = {Instance.objects.get(unit__isnull=False).pk}
        workflows.complete(f"pay.1-{instance.pk}", None)
        wait_until(lambda: told.raised, "the channel to raise", seconds=SECONDS)
        told.sick = set()
        wait_for([instance], Status.FAILED)
