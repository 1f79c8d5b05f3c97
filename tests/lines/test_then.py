"""`then=` of ctx.wait_for_each: a line of its own for each item, begun as soon as the item is answered."""

from typing import Any

import pytest

import workflows
from workflows import durable
from workflows.models import Instance
from workflows.testing import assert_awaiting, assert_done, drain

pytestmark = pytest.mark.django_db

seen: list[Any] = []


@pytest.fixture(autouse=True)
def forget() -> None:
    seen.clear()


def answer(instance: Instance, step: str, index: int, data: Any) -> None:
    workflows.complete(f"{step}.{index}-{instance.pk}", data)
    drain()


def run(workflow: Any, input: Any = None) -> Instance:
    instance = workflows.start(workflow, {} if input is None else input)
    drain()
    return instance


def note(ctx: Any, item: Any, output: Any) -> Any:
    seen.append(item)
    return {"item": item, "output": output}


@durable(name="lines.named")
def named(ctx, items):
    return ctx.wait_for_each("pay", items, "api", then=note)


def test_an_item_is_continued_before_another_one_is_answered() -> None:
    one = run(named, {"items": ["a", "b", "c"]})
    answer(one, "pay", 2, 20)
    assert seen == ["c"]
    assert_awaiting(one)
    answer(one, "pay", 0, 0)
    assert seen == ["c", "a"]
    answer(one, "pay", 1, 10)
    assert_done(one, [{"item": item, "output": n * 10} for n, item in enumerate("abc")])


def test_a_closure_is_found_by_running_the_function_again() -> None:
    @durable(name="lines.closure")
    def closure(ctx, factor):
        base = ctx.step("base", lambda: seen.append("base") or 100)
        return ctx.wait_for_each("pay", [1, 2], "api", then=lambda ctx, item, output: base + item * factor + output)

    one = run(closure, {"factor": 10})
    answer(one, "pay", 1, 5)
    answer(one, "pay", 0, 7)
    assert_done(one, [117, 125])
    assert seen == ["base"]
