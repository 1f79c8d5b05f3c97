"""`then=` of ctx.wait_for_each: a line of its own for each item, begun as soon as the item is answered."""

from dataclasses import dataclass
from typing import Any

import pytest

import workflows
from workflows import UnitFailed, durable
from workflows.models import AwaitUnit, Checkpoint, Instance, Interaction
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db

seen: list[Any] = []
#: Items that fail no more.
healthy: list[str] = []


@dataclass(frozen=True)
class Payment:
    amount: int


@pytest.fixture(autouse=True)
def forget() -> None:
    seen.clear()
    healthy.clear()


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


def read_amount(ctx: Any, item: Any, output: Any) -> Any:
    return output.amount + item


def fail_at_b(ctx: Any, item: Any, output: Any) -> Any:
    if item == "b" and item not in healthy:
        raise ValueError(item)
    if item == "wait":
        ctx.wait_for("check", "api")
    return [item, output]


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


def test_then_has_checkpoints_and_waits_of_its_own() -> None:
    @durable(name="lines.waits")
    def waits(ctx, items):
        def then(ctx, item, output):
            booked = ctx.step("book", lambda: seen.append(f"book {item}") or item * 2)
            ctx.sleep("rest", "1h")
            answer = ctx.wait_for("check", "api", input={"item": item, "booked": booked})
            return [item, output, booked, answer, ctx.input["items"], ctx.key]

        return ctx.wait_for_each("pay", items, "api", then=then)

    one = workflows.start(waits, {"items": [1, 2]}, key="k")
    drain()
    answer(one, "pay", 1, "b")
    answer(one, "pay", 0, "a")
    advance("2h")
    for asked in Interaction.objects.filter(unit__step="check", status="pending"):
        workflows.complete(asked, f"ok {asked.request['booked']}")
    drain()
    assert_done(one, [[1, "a", 2, "ok 2", [1, 2], "k"], [2, "b", 4, "ok 4", [1, 2], "k"]])
    assert sorted(seen) == ["book 1", "book 2"]
    assert not Checkpoint.objects.filter(instance=one, name="book").exists()


def test_a_typed_answer_reaches_then_typed_however_then_is_found() -> None:
    @dataclass(frozen=True)
    class Local:
        amount: int

    @durable(name="lines.typed.local")
    def local(ctx):
        return ctx.wait_for_each("pay", [1], "api", schema=Local, then=lambda ctx, item, paid: paid.amount + item)

    @durable(name="lines.typed.named")
    def known(ctx):
        return ctx.wait_for_each("pay", [1], "api", schema=Payment, then=read_amount)

    for workflow in (local, known):
        one = run(workflow)
        answer(one, "pay", 0, {"amount": 5})
        assert_done(one, [6])


def test_an_except_of_the_workflow_does_not_meet_what_then_raises() -> None:
    @durable(name="lines.except", max_attempts=1)
    def guarded(ctx):
        def then(ctx, item, output):
            raise LookupError("then")

        try:
            return ctx.wait_for_each("pay", [1], "api", then=then)
        except LookupError:
            return "met"
        except UnitFailed as failed:
            return str(failed)

    one = run(guarded)
    answer(one, "pay", 0, "x")
    one.refresh_from_db()
    assert (one.status, "item 0: LookupError: then" in one.result) == ("done", True)


# --- lines that fail --------------------------------------------------------------------------------


@durable(name="lines.fails", max_attempts=1)
def fails(ctx, items, on_item="fail"):
    ends = ctx.wait_for_each("pay", items, "api", on_item=on_item, then=fail_at_b)
    return ends if on_item == "fail" else [{"status": one.status, "output": one.output} for one in ends]


def test_a_line_that_fails_fails_the_unit_and_ends_the_others() -> None:
    one = run(fails, {"items": ["wait", "b", "c"]})
    answer(one, "pay", 0, None)
    line = Instance.objects.get(unit__isnull=False)
    assert_awaiting(line)
    answer(one, "pay", 1, None)
    failed = assert_failed(one, "UnitFailed: 'pay' failed: item 1: ValueError: b")
    assert failed.error is not None
    line.refresh_from_db()
    assert line.status == "cancelled"
    unit = AwaitUnit.objects.get(instance=one)
    assert (unit.status, unit.answered, unit.failed) == ("failed", 1, 1)
    assert [str(x.status) for x in unit.interactions.order_by("index")] == ["completed", "completed", "cancelled"]
    with pytest.raises(workflows.UnknownInteraction):
        workflows.complete(f"pay.2-{one.pk}", 1)


def test_under_partial_each_result_says_how_its_item_ended() -> None:
    @durable(name="lines.partial", max_attempts=1)
    def partial(ctx):
        ends = ctx.wait_for_each("pay", ["a", "b", "c"], "api", on_item="partial", timeout="1h", then=fail_at_b)
        return [[one.status, one.output, one.error] for one in ends]

    one = run(partial)
    answer(one, "pay", 0, 1)
    answer(one, "pay", 1, 1)
    advance("2h")
    assert_done(
        one,
        [
            ["completed", ["a", 1], None],
            ["failed", None, "ValueError: b (run 1 of at most 1 without progress)"],
            ["expired", None, None],
        ],
    )


def test_a_failed_line_may_be_retried_while_its_unit_waits() -> None:
    one = run(fails, {"items": ["b", "c"], "on_item": "partial"})
    answer(one, "pay", 0, 1)
    line = Instance.objects.get(unit__isnull=False)
    unit = AwaitUnit.objects.get(instance=one)
    assert (line.status, unit.failed, unit.remaining) == ("failed", 1, 1)
    healthy.append("b")
    workflows.retry(line)
    drain()
    unit.refresh_from_db()
    assert (unit.failed, unit.answered, unit.remaining) == (0, 1, 1)
    answer(one, "pay", 1, 2)
    assert_done(one, [{"status": "completed", "output": ["b", 1]}, {"status": "completed", "output": ["c", 2]}])


def test_a_line_of_a_unit_that_is_over_is_not_retried() -> None:
    one = run(fails, {"items": ["b"], "on_item": "partial"})
    answer(one, "pay", 0, 1)
    line = Instance.objects.get(unit__isnull=False)
    with pytest.raises(workflows.NotRetryable):
        workflows.retry(line)
    line.refresh_from_db()
    assert line.status == "failed"


def test_a_retry_of_the_instance_goes_on_with_the_lines_as_they_were() -> None:
    @durable(name="lines.again", max_attempts=1)
    def again(ctx):
        def then(ctx, item, output):
            ctx.step("book", lambda: seen.append(item))
            if item == "b":
                ctx.step("fail", lambda: fail_at_b(None, item, output))
            if item == "w":
                ctx.wait_for("check", "api")
            return [item, output]

        return ctx.wait_for_each("pay", ["a", "b", "w", "n"], "api", then=then)

    one = run(again)
    answer(one, "pay", 0, 1)
    answer(one, "pay", 2, 3)
    answer(one, "pay", 1, 2)
    assert_failed(one, "item 1: ValueError: b")
    assert seen == ["a", "w", "b"]
    healthy.append("b")
    workflows.retry(one)
    drain()
    assert_awaiting(one)
    assert seen == ["a", "w", "b"]
    workflows.complete(Interaction.objects.get(status="pending", unit__step="check"), "ok")
    answer(one, "pay", 3, 4)
    assert_done(one, [["a", 1], ["b", 2], ["w", 3], ["n", 4]])
    assert seen == ["a", "w", "b", "n"]


# --- ends ---------------------------------------------------------------------------------------------


def test_cancelling_the_instance_cancels_its_lines_and_what_they_ask() -> None:
    one = run(fails, {"items": ["wait", "a", "c"]})
    answer(one, "pay", 0, None)
    answer(one, "pay", 1, None)
    workflows.cancel(one, "enough")
    drain()
    statuses = Instance.objects.filter(unit__isnull=False).order_by("item").values_list("status", flat=True)
    assert [str(status) for status in statuses] == ["cancelled", "done"]
    assert not Interaction.objects.filter(status="pending").exists()
    assert str(AwaitUnit.objects.get(instance=one, items=True).status) == "cancelled"


def test_cancelling_one_line_ends_its_item() -> None:
    one = run(fails, {"items": ["wait", "a"], "on_item": "partial"})
    answer(one, "pay", 0, None)
    answer(one, "pay", 1, 5)
    workflows.cancel(Instance.objects.get(unit__isnull=False, item=0), "no")
    drain()
    assert_done(one, [{"status": "cancelled", "output": None}, {"status": "completed", "output": ["a", 5]}])


def test_a_signal_to_a_line_is_refused_as_nobody_reads_it() -> None:
    one = run(fails, {"items": ["wait"]})
    answer(one, "pay", 0, None)
    with pytest.raises(workflows.NoReader):
        workflows.signal(Instance.objects.get(unit__isnull=False), "hello")


def test_then_is_an_ordinary_function() -> None:
    @durable(name="lines.async")
    def later(ctx):
        async def then(ctx, item, output):
            return item

        return ctx.wait_for_each("pay", [1], "api", then=then)

    assert_failed(run(later), "async")


def test_then_that_takes_other_arguments_is_refused_before_anything_is_asked() -> None:
    @durable(name="lines.arguments")
    def short(ctx):
        return ctx.wait_for_each("pay", [1], "api", then=lambda item: item)

    assert_failed(run(short), "called with ctx, the item and its answer")
    assert not Interaction.objects.exists()


def test_a_function_that_changed_before_the_wait_is_told_so_by_its_lines() -> None:
    steps = ["one"]

    @durable(name="lines.changed")
    def changed(ctx):
        for name in steps:
            ctx.step(name, lambda: 1)
        return ctx.wait_for_each("pay", [1], "api", then=lambda ctx, item, output: item)

    one = run(changed)
    steps[:] = ["two"]
    answer(one, "pay", 0, 1)
    assert "NonDeterministic" in (Instance.objects.get(unit__isnull=False).error or "")


# --- cost -----------------------------------------------------------------------------------------------


def test_many_items_are_asked_128_at_a_time_and_come_back_in_order() -> None:
    one = workflows.start(named, {"items": list(range(150))})
    drain()
    asked = 0
    while pending := list(Interaction.objects.filter(status="pending", queued=False).order_by("-index")):
        asked = max(asked, len(pending))
        for interaction in pending:
            workflows.complete(interaction, interaction.index * 2)
        drain()
    assert asked == 128
    assert_done(one, [{"item": n, "output": n * 2} for n in range(150)])
