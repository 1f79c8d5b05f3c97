"""Streams of a Machine: what is between `expand` and `collect` runs for each item, in a line of its own."""

from typing import Any

import pytest

import workflows
from workflows import (
    END,
    FAIL,
    Channel,
    Machine,
    action,
    branch,
    collect,
    expand,
    flow,
    launch,
    sleep,
    wait_for,
)
from workflows.models import AwaitUnit, Instance, Interaction
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db

seen: list[Any] = []


@pytest.fixture(autouse=True)
def forget() -> None:
    seen.clear()


def run(machine: Any, input: Any = None, **options: Any) -> Instance:
    instance = workflows.start(machine, {} if input is None else input, **options)
    drain()
    instance.refresh_from_db()
    return instance


def see(value: Any, result: Any = None) -> Any:
    seen.append(value)
    return value if result is None else result


def answer(instance: Instance, step: str, index: int, data: Any) -> None:
    workflows.complete(f"{step}.{index}-{instance.pk}", data)
    drain()


# --- expand and collect -------------------------------------------------------------------------


def test_stages_between_expand_and_collect_run_once_per_item() -> None:
    class Doubles(Machine):
        numbers = expand(lambda ctx: ctx.input["numbers"])
        double = action(lambda ctx: ctx.item * 2)
        plus = action(lambda ctx: ctx.steps.double + 1)
        total = collect(lambda ctx: sum(ctx.items))

    assert_done(run(Doubles, {"numbers": [1, 2, 3]}), 3 + 5 + 7)


def test_collect_may_be_passed_the_items_or_read_the_stages_as_lists() -> None:
    class Collects(Machine):
        numbers = expand(lambda ctx: [{"n": 1}, {"n": 2}])
        double = action(lambda ctx: {"n": ctx.item.n * 2})
        plus = action(lambda ctx: {"n": ctx.steps.double.n + 1})
        both = collect(
            lambda ctx, items: [
                [one.n for one in items],
                [one.n for one in ctx.steps.plus],
                [one.n for one in ctx.steps.double],
                [one.n for one in ctx.steps.numbers],
            ]
        )

    assert_done(run(Collects), [[3, 5], [3, 5], [2, 4], [1, 2]])


def test_a_machine_without_collect_ends_with_the_list() -> None:
    class NoCollect(Machine):
        numbers = expand(lambda ctx: range(4))
        double = action(lambda ctx: {"twice": ctx.item * 2})

    assert_done(run(NoCollect), [{"twice": 0}, {"twice": 2}, {"twice": 4}, {"twice": 6}])


@pytest.mark.parametrize("fn", [lambda ctx: [], lambda ctx: iter(())])
def test_an_empty_stream_is_through_at_once(fn: Any) -> None:
    class Empty(Machine):
        numbers = expand(fn)
        double = action(lambda ctx: see(ctx.item))
        total = collect(lambda ctx: {"items": ctx.items})

    class EmptyEnd(Machine):
        numbers = expand(fn)
        double = action(lambda ctx: see(ctx.item))

    assert_done(run(Empty), {"items": []})
    assert_done(run(EmptyEnd), [])
    assert (seen, AwaitUnit.objects.count()) == ([], 0)


def test_items_that_nothing_is_done_with_are_collected_as_they_are() -> None:
    class Nothing(Machine):
        numbers = expand(lambda ctx: [3, 4])
        total = collect(lambda ctx: sum(ctx.items))

    assert_done(run(Nothing), 7)


def test_lines_see_the_machine_they_belong_to() -> None:
    class Sees(Machine):
        before = action(lambda ctx: {"rate": 3})
        numbers = expand(lambda ctx: [1, 2])
        times = action(lambda ctx: [ctx.item * ctx.steps.before.rate * ctx.input["factor"], ctx.key, ctx.workspace])
        last = collect(lambda ctx: [ctx.items, sorted(ctx.steps)])

    one = run(Sees, {"factor": 10}, key="k1")
    assert_done(one, [[[30, "k1", "default"], [60, "k1", "default"]], ["before"]])


def test_two_streams_one_after_the_other() -> None:
    class Two(Machine):
        first = expand(lambda ctx: [1, 2])
        double = action(lambda ctx: ctx.item * 2)
        middle = collect(lambda ctx: ctx.items)
        second = expand(lambda ctx: ctx.steps.middle)
        plus = action(lambda ctx: ctx.item + 1)
        last = collect(lambda ctx: [ctx.steps.middle, ctx.items])

    assert_done(run(Two), [[2, 4], [3, 5]])


# --- waits ----------------------------------------------------------------------------------------


def test_item_3_goes_on_through_the_stages_before_item_1_is_answered() -> None:
    class Pays(Machine):
        orders = expand(lambda ctx: [{"n": n} for n in range(3)])
        payment = wait_for(each=True, channel="api", schema={"paid": int})
        book = action(lambda ctx: see({"order": ctx.item.n, "paid": ctx.steps.payment.paid}))
        report = collect(lambda ctx: [one.paid for one in ctx.items])

    one = run(Pays)
    assert_awaiting(one, "payment")
    answer(one, "payment", 2, {"paid": 30})
    assert seen == [{"order": 2, "paid": 30}]
    answer(one, "payment", 0, {"paid": 10})
    assert_awaiting(one)
    answer(one, "payment", 1, {"paid": 20})
    assert_done(one, [10, 20, 30])
    assert AwaitUnit.objects.get().step == "payment"


def test_the_questions_are_about_the_items() -> None:
    class Asks(Machine):
        orders = expand(lambda ctx: [{"n": 5}])
        payment = wait_for(each=True, channel="api")
        report = collect(lambda ctx: ctx.items)

    one = run(Asks)
    asked = Interaction.objects.get(instance=one)
    assert (asked.index, asked.request, asked.status) == (0, {"n": 5}, "pending")
    answer(one, "payment", 0, "yes")
    assert_done(one, ["yes"])
    assert not Instance.objects.filter(workflow__endswith=":items").exists()


def test_a_wait_for_each_opens_a_stream_of_its_input_or_of_the_stage_before_it() -> None:
    class OfInput(Machine):
        asks = wait_for(each=True, channel="api", input=lambda ctx: ctx.input["orders"])
        total = collect(lambda ctx: ctx.items)

    class OfBefore(Machine):
        orders = action(lambda ctx: [7, 8])
        asks = wait_for(each=True, channel="api")
        book = action(lambda ctx: [ctx.item, ctx.steps.asks])

    one, two = run(OfInput, {"orders": [5]}), run(OfBefore)
    answer(one, "asks", 0, "a")
    assert_done(one, ["a"])
    answer(two, "asks", 1, "b")
    answer(two, "asks", 0, "c")
    assert_done(two, [[7, "c"], [8, "b"]])


def test_waits_inside_a_line_are_questions_of_the_line() -> None:
    class Several(Machine):
        orders = expand(lambda ctx: ["x", "y"])
        first = wait_for(each=True, channel="api")
        double = action(lambda ctx: ctx.steps.first * 2)
        second = wait_for(each=True, channel="api")
        third = wait_for(channel="api", input=lambda ctx: {"about": ctx.item})
        both = action(lambda ctx: [ctx.item, ctx.steps.first, ctx.steps.second, ctx.steps.third])
        report = collect(lambda ctx: ctx.items)

    one = run(Several)
    answer(one, "first", 1, 5)
    asked = Interaction.objects.get(status="pending", unit__step="second")
    assert asked.request == 10
    workflows.complete(asked, "s")
    drain()
    asked = Interaction.objects.get(status="pending", unit__step="third")
    assert asked.request == {"about": "y"}
    workflows.complete(asked, "t")
    drain()
    answer(one, "first", 0, 6)
    for step in ("second", "third"):
        workflows.complete(Interaction.objects.get(status="pending", unit__step=step), step)
        drain()
    assert_done(one, [["x", 6, "second", "third"], ["y", 5, "s", "t"]])


def test_callbacks_events_and_sleeps_inside_a_line() -> None:
    class Partner(Machine):
        orders = expand(lambda ctx: ["x", "y"])
        call = action(lambda ctx: see(ctx.steps.answer._resume_token, {"called": True}))
        answer = wait_for(callback=True, timeout="1h")
        rest = sleep("10m")
        paid = wait_for(event="paid", match=lambda ctx: {"order": ctx.item})
        report = collect(lambda ctx: [[a, p.amount] for a, p in zip(ctx.steps.answer, ctx.items, strict=True)])

    one = run(Partner)
    assert len(set(seen)) == 2
    for n, asked in enumerate(Interaction.objects.filter(status="pending").order_by("instance__item")):
        workflows.complete(asked, n)
    drain()
    advance("11m")
    assert workflows.emit("paid", {"order": "y", "amount": 2}) == 1
    assert workflows.emit("paid", {"order": "x", "amount": 1}) == 1
    drain()
    assert_done(one, [[0, 1], [1, 2]])


def test_a_branch_inside_a_stream_leads_each_item_its_own_way() -> None:
    class Branches(Machine):
        numbers = expand(lambda ctx: [1, 2, 3, 4])
        which = branch(lambda ctx: "odd" if ctx.item % 2 else "even" if ctx.item == 2 else END, to=["odd", "even", END])
        odd = action(lambda ctx: f"odd {ctx.item}", then=END)
        even = action(lambda ctx: f"even {ctx.item}")
        report = collect(lambda ctx: ctx.items)

    assert_done(run(Branches), ["odd 1", "even 2", "odd 3", 4])


@pytest.mark.parametrize("each", [True, False])
def test_a_flow_of_a_timeout_runs_for_the_item_whose_time_is_over(each: bool) -> None:
    class Late(Machine):
        orders = expand(lambda ctx: [1, 2])
        payment = wait_for(channel="api", each=each, timeout="1h", on_timeout="late")
        book = action(lambda ctx: {"paid": ctx.steps.payment})
        report = collect(lambda ctx: ctx.items)
        late = flow(action(lambda ctx: {"late": ctx.item}))

    one = run(Late)
    asked = Interaction.objects.get(status="pending", instance__item=1)
    workflows.complete(asked, "yes")
    drain()
    advance("2h")
    assert_done(one, [{"late": 1}, {"paid": "yes"}])


# --- cardinalities ----------------------------------------------------------------------------------


def test_many_to_one_asks_once_about_all_results() -> None:
    class ManyToOne(Machine):
        numbers = expand(lambda ctx: [1, 2])
        double = action(lambda ctx: ctx.item * 2)
        check = wait_for(channel="api", cardinality="MANY_TO_ONE")
        last = action(lambda ctx: [ctx.steps.check, ctx.steps.double])

    one = run(ManyToOne)
    [asked] = Interaction.objects.filter(instance=one, status="pending")
    assert (asked.request, asked.unit.cardinality) == ([2, 4], "MANY_TO_ONE")
    workflows.complete(asked, "fine")
    drain()
    assert_done(one, ["fine", [2, 4]])


def test_many_to_one_directly_after_expand_asks_about_the_items() -> None:
    class Direct(Machine):
        numbers = expand(lambda ctx: [1, 2])
        check = wait_for(channel="api", cardinality="MANY_TO_ONE", input=lambda ctx: [sum(ctx.items), len(ctx.items)])

    one = run(Direct)
    asked = Interaction.objects.get(status="pending")
    assert asked.request == [3, 2]
    workflows.complete(asked, "fine")
    drain()
    assert_done(one, "fine")


def test_one_to_many_opens_a_stream_of_its_answers() -> None:
    class OneToMany(Machine):
        names = wait_for(channel="api", cardinality="ONE_TO_MANY")
        greet = action(lambda ctx: f"hello {ctx.item}")
        all = collect(lambda ctx: [ctx.items, ctx.steps.names])

    one = run(OneToMany)
    with pytest.raises(workflows.InvalidData):
        workflows.complete(Interaction.objects.get(status="pending"), "Ann")
    workflows.complete(Interaction.objects.get(status="pending"), ["Ann", "Ben"])
    drain()
    assert_done(one, [["hello Ann", "hello Ben"], ["Ann", "Ben"]])


def test_one_to_many_with_an_empty_answer_and_one_that_is_only_collected() -> None:
    class OneToNone(Machine):
        names = wait_for(channel="api", cardinality="ONE_TO_MANY")
        all = collect(lambda ctx: {"names": ctx.items})

    empty, one = run(OneToNone), run(OneToNone)
    workflows.complete(Interaction.objects.get(instance=empty, status="pending"), [])
    workflows.complete(Interaction.objects.get(instance=one, status="pending"), ["Ann"])
    drain()
    assert_done(empty, {"names": []})
    assert_done(one, {"names": ["Ann"]})


def test_many_to_many_ends_one_stream_and_opens_the_next() -> None:
    class ManyToMany(Machine):
        numbers = expand(lambda ctx: [1, 2])
        double = action(lambda ctx: ctx.item * 2)
        swap = wait_for(channel="api", cardinality="MANY_TO_MANY")
        shout = action(lambda ctx: ctx.item.upper())
        last = collect(lambda ctx: ctx.items)

    one = run(ManyToMany)
    asked = Interaction.objects.get(instance=one, status="pending")
    assert asked.request == [2, 4]
    workflows.complete(asked, ["a", "b", "c"])
    drain()
    assert_done(one, ["A", "B", "C"])


def test_an_each_wait_after_a_wait_for_a_list_asks_about_its_answers() -> None:
    class Chain(Machine):
        names = wait_for(channel="api", cardinality="ONE_TO_MANY")
        greet = wait_for(channel="api", each=True)
        last = collect(lambda ctx: ctx.items)

    one = run(Chain)
    workflows.complete(Interaction.objects.get(status="pending"), ["Ann", "Ben"])
    drain()
    answer(one, "greet", 1, "hi")
    answer(one, "greet", 0, "ho")
    assert_done(one, ["ho", "hi"])


# --- policies, failures, retries ------------------------------------------------------------------------


def fail_for(item: Any) -> Any:
    if item in broken:
        raise ValueError(f"no {item}")
    return see(item)


broken: list[Any] = []


class Breaks(Machine):
    max_attempts = 1
    name = "streams.breaks"
    numbers = expand(lambda ctx: [1, 2, 3])
    note = action(lambda ctx: see(f"note {ctx.item}"))
    double = action(lambda ctx: fail_for(ctx.item) * 2)
    total = collect(lambda ctx: sum(ctx.items))


def test_a_failed_item_fails_the_instance_naming_stage_item_and_reason() -> None:
    broken[:] = [2]
    one = run(Breaks)
    assert_failed(one, "'numbers' failed: item 1: ValueError: no 2")
    assert str(AwaitUnit.objects.get().status) == "failed"


def test_a_retry_runs_again_what_failed_and_nothing_else() -> None:
    broken[:] = [2]
    one = run(Breaks)
    assert_failed(one)
    broken.clear()
    workflows.retry(one)
    drain()
    assert_done(one, 12)
    assert sorted(map(str, seen)) == ["1", "2", "3", "note 1", "note 2", "note 3"]


def test_a_retry_that_fails_again_may_be_retried_again() -> None:
    broken[:] = [2]
    one = run(Breaks)
    for _ in range(2):
        workflows.retry(one)
        drain()
        assert_failed(one, "item 1: ValueError: no 2")
    broken.clear()
    workflows.retry(one)
    drain()
    assert_done(one, 12)


def test_under_partial_collect_is_told_how_each_item_ended() -> None:
    class Partial(Machine):
        max_attempts = 1
        numbers = expand(lambda ctx: [1, 2], on_item="partial")
        double = action(lambda ctx: {"twice": fail_for(ctx.item) * 2})
        total = collect(lambda ctx: [[one.status, one.ok, one.output and one.output.twice] for one in ctx.items])

    class PartialEnd(Machine):
        max_attempts = 1
        numbers = expand(lambda ctx: [1, 2], on_item="partial")
        double = action(lambda ctx: fail_for(ctx.item) * 2)

    broken[:] = [1]
    assert_done(run(Partial), [["failed", False, None], ["completed", True, 4]])
    assert_done(run(PartialEnd), [{"status": "failed", "output": None}, {"status": "completed", "output": 4}])


def test_an_item_that_is_not_answered_in_time() -> None:
    class Waits(Machine):
        orders = expand(lambda ctx: ["a", "b"])
        payment = wait_for(channel="api", each=True, timeout="1h")
        report = collect(lambda ctx: ctx.items)

    class WaitsPartial(Machine):
        orders = expand(lambda ctx: ["a", "b"])
        payment = wait_for(channel="api", each=True, timeout="1h", on_item="partial")
        report = collect(lambda ctx: [[one.status, one.output] for one in ctx.items])

    one, two = run(Waits), run(WaitsPartial)
    answer(one, "payment", 1, 5)
    answer(two, "payment", 1, 5)
    advance("2h")
    assert_done(two, [["expired", None], ["completed", 5]])
    assert_failed(one, "item 0 of 'payment' was not answered")
    workflows.retry(one)
    drain()
    assert_awaiting(one, "payment")
    answer(one, "payment", 0, 6)
    assert_done(one, [6, 5])


def test_a_line_that_fails_a_wait_without_a_flow_fails_its_item() -> None:
    class LineWaits(Machine):
        orders = expand(lambda ctx: ["a", "b"], on_item="partial")
        payment = wait_for(channel="api", timeout="1h")
        report = collect(lambda ctx: [str(one.error) for one in ctx.items])

    one = run(LineWaits)
    workflows.complete(Interaction.objects.get(instance__item=1), "paid")
    advance("2h")
    assert_done(one, ["stage 'payment' had no answer within its timeout of 1h", "None"])


def test_branches_of_a_line_may_fail_it_and_lead_nowhere_else() -> None:
    class Leads(Machine):
        max_attempts = 1
        numbers = expand(lambda ctx: [1, 2, 3], on_item="partial")
        which = branch(lambda ctx: {1: FAIL, 2: "total", 3: "side"}[ctx.item])
        total = collect(lambda ctx: [one.error or one.output for one in ctx.items])
        side = flow(action(lambda ctx: f"side {ctx.item}"))

    one = run(Leads)
    first, second, third = assert_done(one).result
    assert (first, third) == ("branch 'which' returned FAIL", "side 3")
    assert "branch 'which' returned 'total'; it may return which, side, END" in second


@pytest.mark.parametrize("given", ["text", {"a": 1}, 5, None])
def test_a_stream_is_made_of_a_list(given: Any) -> None:
    class NoList(Machine):
        max_attempts = 1
        numbers = expand(lambda ctx: given)
        double = action(lambda ctx: ctx.item)

    assert_failed(run(NoList), "what stage 'numbers' returned is")


def test_more_items_than_the_limit_are_refused_before_anything_is_written(settings: Any) -> None:
    settings.WORKFLOWS = {**settings.WORKFLOWS, "AWAIT_AGGREGATE_MAX_INPUT_ITEMS": 3}

    class Limit(Machine):
        numbers = expand(lambda ctx: range(ctx.input["n"]))
        double = action(lambda ctx: ctx.item)

    assert_failed(run(Limit, {"n": 4}), "more than 3 items")
    assert (AwaitUnit.objects.count(), Interaction.objects.count()) == (0, 0)
    assert_done(run(Limit, {"n": 3}), [0, 1, 2])


def test_cancelling_a_machine_in_the_middle_cancels_its_lines() -> None:
    class Middle(Machine):
        numbers = expand(lambda ctx: [1, 2])
        check = wait_for(channel="api")

    one = run(Middle)
    workflows.complete(Interaction.objects.get(instance__item=0), "x")
    drain()
    workflows.cancel(one)
    drain()
    assert sorted(str(line.status) for line in Instance.objects.filter(unit__isnull=False)) == ["cancelled", "done"]
    assert not Interaction.objects.filter(status="pending").exists()


def test_a_wait_may_be_asked_through_a_channel_made_of_each_item() -> None:
    class Asks(Channel[Any]):
        name = "streams.asks"

        def __init__(self, item: int) -> None:
            self.schema = {"n": int}
            self.assignee = f"user:{item}"

        def open(self, interactions: Any) -> None:
            seen.extend(one.assignee for one in interactions)

    class PerItem(Machine):
        numbers = expand(lambda ctx: [1, 2, 3], concurrency=2)
        check = wait_for(channel=lambda ctx: Asks(ctx.item), each=True)
        double = action(lambda ctx: ctx.steps.check.n * 2)
        report = collect(lambda ctx: [ctx.items, [one.n for one in ctx.steps.check]])

    one = run(PerItem)
    assert sorted(seen) == ["user:1", "user:2"]
    with pytest.raises(workflows.InvalidData):
        workflows.complete(f"check.0-{one.pk}", {"n": "x"})
    for n in range(3):
        answer(one, "check", n, {"n": n})
    assert sorted(seen) == ["user:1", "user:2", "user:3"]
    assert_done(one, [[0, 2, 4], [0, 1, 2]])


def test_a_stream_in_a_loop_is_opened_anew_each_time() -> None:
    class Loops(Machine):
        numbers = expand(lambda ctx: [1, 2])
        double = action(lambda ctx: see(ctx.item))
        count = collect(lambda ctx: len(ctx.items) + (ctx.steps.count if "count" in ctx.steps else 0))
        again = branch(lambda ctx: "numbers" if ctx.steps.count < 6 else END)

    assert_done(run(Loops), 6)
    assert list(AwaitUnit.objects.order_by("visit").values_list("visit", flat=True)) == [1, 2, 3]


def test_lines_launch_machines_of_their_own() -> None:
    class Packs(Machine):
        name = "streams.packs"
        pack = action(lambda ctx: ctx.input)

    class Launches(Machine):
        numbers = expand(lambda ctx: [1, 2])
        pack = launch("streams.packs", lambda ctx: {"n": ctx.item})

    assert len(assert_done(run(Launches)).result) == 2
    packed = Instance.objects.filter(workflow="streams.packs")
    assert sorted(one.result["n"] for one in packed) == [1, 2]
