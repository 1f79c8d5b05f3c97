"""`fork` of an instance that has ended in any way, or lives: the first one stays as it was, row by row."""

from __future__ import annotations

from typing import Any

import pytest

import workflows
from workflows import Await, Done, Next, Stop, Workflow, step
from workflows.models import Instance, LedgerEvent
from workflows.testing import advance, assert_awaiting, drain

pytestmark = pytest.mark.django_db


class AnyLife(Workflow):
    name = "fork.any"
    keep_states = 5

    @step
    def begin(self, ctx: Any) -> Any:
        return Next("ask", {"begun": True})

    @step
    def ask(self, ctx: Any) -> Any:
        return Await("go", then="end", timeout="1d")

    @step
    def end(self, ctx: Any) -> Any:
        if ctx.timed_out:
            return Next("ask", delay="1h")
        return Stop("as it was wanted") if ctx.awaited[0].payload == "fail" else Done("ended")


def lead(life: str) -> Instance:
    first = workflows.start(AnyLife, key="first")
    if life == "runnable":
        return first
    drain()
    match life:
        case "done":
            workflows.signal(first, "go")
        case "failed":
            workflows.signal(first, "go", "fail")
        case "cancelled":
            workflows.cancel(first)
        case "sleeping":
            advance("1d")
    drain()
    first.refresh_from_db()
    assert first.status == life
    return first


@pytest.mark.parametrize("life", ["runnable", "awaiting", "sleeping", "done", "failed", "cancelled"])
def test_one_that_has_ended_in_any_way_or_lives_is_forked_and_not_touched(life: str) -> None:
    first = lead(life)
    before = [
        Instance.objects.filter(pk=first.pk).values().get(),
        *LedgerEvent.objects.filter(instance=first).order_by("seq").values(),
    ]
    forked = workflows.fork(first, at=None if life == "runnable" else "ask", key="forked")
    assert (forked.forked_from_id, forked.state) == (first.pk, {} if life == "runnable" else {"begun": True})
    assert [
        Instance.objects.filter(pk=first.pk).values().get(),
        *LedgerEvent.objects.filter(instance=first).order_by("seq").values(),
    ] == before
    drain()
    assert_awaiting(forked, "go")
