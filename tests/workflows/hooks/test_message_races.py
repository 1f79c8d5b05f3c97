"""Equal messages at the same moment: two connections, and the second is seen waiting for the first."""

from __future__ import annotations

from typing import Any

import pytest

import workflows
from tests.support.hook_posts import post, signed
from tests.support.races import COMMITTED, race
from workflows import Done, Workflow, hook, step
from workflows.hooks import HookMessage
from workflows.models import HookReceipt, Instance

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]

EVENT = {"id": "evt_1"}


class HookRaces(Workflow):
    name = "hook-races"

    @step
    def end(self, ctx: Any) -> Done:
        return Done()


@pytest.fixture(autouse=True)
def starts() -> None:
    @hook("starts", verify=signed)
    def start(message: HookMessage) -> Any:
        return {"instance": str(workflows.start(HookRaces).pk)}


def send() -> Any:
    return post("starts", EVENT)


def test_the_second_waits_for_the_first_and_is_told_its_answer() -> None:
    first, second = race(send, send)
    assert (first.status_code, second.status_code) == (200, 200)
    assert second.content == first.content
    assert second.headers["Idempotency-Replayed"] == "true"
    assert Instance.objects.count() == HookReceipt.objects.count() == 1


def test_the_second_takes_the_place_of_a_first_that_came_to_nothing() -> None:
    first, second = race(send, send, rollback=True)
    assert second.status_code == 200
    assert second.content != first.content
    assert "Idempotency-Replayed" not in second.headers
    assert str(Instance.objects.get().pk) == second.json()["instance"]
    assert HookReceipt.objects.count() == 1


def test_other_messages_wait_for_nobody() -> None:
    first, second = race(send, lambda: post("starts", {"id": "evt_2"}), waits=False)
    assert second.content != first.content
    assert Instance.objects.count() == 2
