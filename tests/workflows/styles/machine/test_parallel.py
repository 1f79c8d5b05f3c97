"""`parallel` of a Machine: branches that run side by side, each in a line of its own, and the join."""

from typing import Any

import pytest
from django.db import connections

import workflows
from tests.support.races import forget, play, settle, take
from workflows import END, FAIL, Machine, action, branch, collect, expand, flow, parallel, sleep, store, wait_for
from workflows.models import Instance, Interaction, Signal
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db

seen: list[Any] = []


@pytest.fixture(autouse=True)
def forget_seen() -> None:
    seen.clear()


def run(machine: Any, input: Any = None, **options: Any) -> Instance:
    instance = workflows.start(machine, {} if input is None else input, **options)
    drain()
    instance.refresh_from_db()
    return instance


def see(value: Any, result: Any = None) -> Any:
    seen.append(value)
    return value if result is None else result


def answer(step: str, data: Any) -> None:
    workflows.complete(Interaction.objects.get(status="pending", unit__step=step), data)
    drain()


class Hire(Machine):
    name = "parallel.hire"
    start = action(lambda ctx: {"who": ctx.input["who"]})
    checks = parallel(
        legal=wait_for(channel="chat", input={"ask": "legal?"}),
        money=[
            action(lambda ctx: see(f"offer for {ctx.steps.start.who}")),
            wait_for(channel="chat", input=lambda ctx: {"ask": ctx.steps["checks.money.0"]}),
            action(lambda ctx: {"paid": ctx.steps["checks.money.1"]}),
        ],
    )
    both = action(lambda ctx: [ctx.steps.checks.legal, ctx.steps.checks.money.paid, ctx.steps["checks.money.1"]])


@pytest.mark.parametrize("first", ["checks.legal", "checks.money.1"])
def test_branches_wait_side_by_side_and_are_answered_in_any_order(first: str) -> None:
    one = run(Hire, {"who": "Ann"})
    asked = {one.unit.step: one.request for one in Interaction.objects.filter(status="pending").select_related("unit")}
    assert asked == {"checks.legal": {"ask": "legal?"}, "checks.money.1": {"ask": "offer for Ann"}}
    answer(first, "yes")
    assert_awaiting(one)
    [left] = Interaction.objects.filter(status="pending").select_related("unit")
    assert left.unit.step != first
    answer(left.unit.step, "well")
    words = {first: "yes", left.unit.step: "well"}
    assert_done(one, [words["checks.legal"], words["checks.money.1"], words["checks.money.1"]])
    assert seen == ["offer for Ann"]


def test_a_machine_that_ends_with_parallel_ends_with_the_results_by_branch() -> None:
    class Last(Machine):
        both = parallel(
            a=action(lambda ctx: 1), b=[action(lambda ctx: 2), action(lambda ctx: ctx.steps["both.b.0"] + 1)]
        )

    assert_done(run(Last), {"a": 1, "b": 3})


def test_a_branch_sees_the_machine_it_belongs_to() -> None:
    class Sees(Machine):
        before = action(lambda ctx: {"rate": 3})
        both = parallel(
            a=action(lambda ctx: [str(ctx.id), ctx.key, ctx.input["n"], ctx.steps.before.rate, sorted(ctx.steps)]),
            b=action(lambda ctx: "both.a" in ctx.steps),
        )

    one = run(Sees, {"n": 5}, key="k1")
    assert_done(one, {"a": [str(one.pk), "k1", 5, 3, ["before"]], "b": False})


def test_stages_of_branches_have_their_own_names_where_they_are_attributes() -> None:
    class Named(Machine):
        draft = action(lambda ctx: see("draft"))
        sign = wait_for(channel="chat")
        both = parallel(paper=[draft, sign], other=action(lambda ctx: see("other", 0)))
        last = action(lambda ctx: [ctx.steps.draft, ctx.steps.sign, ctx.steps.both.paper])

    one = run(Named)
    answer("sign", "signed")
    assert_done(one, ["draft", "signed", "signed"])
    assert sorted(seen) == ["draft", "other"]


def test_then_end_in_a_branch_ends_that_branch_only() -> None:
    class Ends(Machine):
        both = parallel(
            a=[action(lambda ctx: "early", then=END), action(lambda ctx: see("never"))],
            b=[branch(lambda ctx: END), action(lambda ctx: see("never"))],
            c=[sleep("1h"), action(lambda ctx: "late"), sleep("1h")],
        )
        last = action(lambda ctx: [ctx.steps.both.a, ctx.steps.both.b, ctx.steps.both.c])

    one = run(Ends)
    advance("1h")
    assert_awaiting(one)
    advance("1h")
    assert_done(one, ["early", None, "late"])
    assert seen == []


def test_a_branch_leads_to_stages_of_its_own_and_to_flows() -> None:
    class Leads(Machine):
        late = flow(action(lambda ctx: {"late": ctx.step}))
        again = action(lambda ctx: see("again"))
        loop = branch(lambda ctx: "again" if len(seen) < 3 else END, to=["again", END])
        both = parallel(a=wait_for(event="paid", timeout="1h", on_timeout="late"), b=[again, loop])
        last = action(lambda ctx: [ctx.steps.both.a.late, ctx.steps.both.b])

    one = run(Leads)
    advance("2h")
    assert_done(one, ["late.0", "again"])
    assert seen == ["again"] * 3


def boom(ctx: Any) -> Any:
    if "mended" not in seen:
        raise ValueError("no")
    return see("worked")


class Breaks(Machine):
    name = "parallel.breaks"
    max_attempts = 1
    both = parallel(
        a=[action(lambda ctx: see("once")), wait_for(event="go"), action(boom)],
        b=[action(lambda ctx: see("b")), wait_for(channel="chat"), action(lambda ctx: see("after"))],
    )


def test_a_branch_that_fails_fails_the_machine_and_withdraws_what_the_others_ask() -> None:
    one = run(Breaks)
    assert workflows.emit("go") == 1
    drain()
    assert_failed(one, "branch 'a' of 'both' failed: ValueError: no")
    assert str(Interaction.objects.get(unit__step="both.b.1").status) == "cancelled"


def test_a_retry_goes_on_from_where_each_branch_had_come_to() -> None:
    one = run(Breaks)
    workflows.emit("go")
    drain()
    assert_failed(one)
    see("mended")
    workflows.retry(one)
    drain()
    answer("both.b.1", "yes")
    assert_done(one, {"a": "worked", "b": "after"})
    assert seen == ["once", "b", "mended", "worked", "after"]


def test_a_branch_that_is_tried_again_keeps_no_other_waiting() -> None:
    class Tries(Machine):
        both = parallel(a=action(boom), b=action(lambda ctx: see("b")))

    one = run(Tries)
    assert seen == ["b"]
    see("mended")
    advance("10m")
    assert_done(one, {"a": "worked", "b": "b"})


def test_fail_in_a_branch_and_a_wait_without_answer_fail_the_machine() -> None:
    class Late(Machine):
        both = parallel(a=wait_for(channel="chat", timeout="1h"), b=wait_for(channel="chat"))

    class Fails(Machine):
        both = parallel(a=branch(lambda ctx: FAIL), b=wait_for(channel="chat"))

    late, fails = run(Late), run(Fails)
    advance("2h")
    assert_failed(late, "branch 'a' of 'both' failed: stage 'both.a' had no answer within its timeout of 1h")
    assert_failed(fails, "branch 'a' of 'both' failed: branch 'both.a' returned FAIL")
    assert not Interaction.objects.filter(status="pending").exists()


def test_cancelling_the_machine_withdraws_what_its_branches_ask() -> None:
    one = run(Hire, {"who": "Ann"})
    workflows.cancel(one)
    assert not Interaction.objects.filter(status="pending").exists()
    assert not Instance.objects.filter(status__in=["awaiting", "runnable"]).exists()


def test_a_loop_runs_the_branches_anew() -> None:
    class Loops(Machine):
        both = parallel(a=action(lambda ctx: see(len(seen))), b=wait_for(channel="chat"))
        more = branch(lambda ctx: END if ctx.steps.both.b == "stop" else "both", to=["both", END])

    one = run(Loops)
    answer("both.b", "go")
    answer("both.b", "stop")
    assert_done(one, {"a": 1, "b": "stop"})


def test_a_callback_in_a_branch_has_its_address_there() -> None:
    class Partner(Machine):
        pay = wait_for(callback=True)
        both = parallel(a=[action(lambda ctx: see(ctx.steps.pay._resume_token, {})), pay], b=action(lambda ctx: 1))

    class Outside(Machine):
        max_attempts = 1
        early = action(lambda ctx: ctx.steps.answer._resume_url)
        answer = wait_for(callback=True)
        both = parallel(a=answer)

    one = run(Partner)
    asked = Interaction.objects.get(status="pending")
    assert len(seen) == 1
    workflows.complete(asked, {"paid": 1})
    drain()
    assert_done(one, {"a": {"paid": 1}, "b": 1})
    assert_failed(run(Outside), "'answer' is asked by branch 'a' of 'both', and has its address only there")


def test_parallel_stands_before_and_after_streams() -> None:
    class Mixed(Machine):
        first = parallel(a=action(lambda ctx: {"n": 2}), b=action(lambda ctx: 3))
        numbers = expand(lambda ctx: [1, 2])
        times = action(lambda ctx: ctx.item * ctx.steps.first.a.n * ctx.steps.first.b)
        total = collect(lambda ctx: sum(ctx.items))
        second = parallel(a=action(lambda ctx: ctx.steps.total), b=action(lambda ctx: ctx.steps.first.b))

    assert_done(run(Mixed), {"a": 18, "b": 3})


def test_the_results_of_branches_cannot_be_changed_and_miss_with_their_place() -> None:
    class Reads(Machine):
        max_attempts = 1
        both = parallel(a=action(lambda ctx: {"x": 1}))
        last = action(lambda ctx: ctx.steps.both.a.y)

    assert_failed(run(Reads), "steps.both.a has no field 'y'")


# --- plain signals ---------------------------------------------------------------------------------


class Signalled(Machine):
    name = "parallel.signalled"
    both = parallel(
        paid=[sleep("1h"), wait_for(signal="paid")],
        either=wait_for(signal=["paid", "refused"], timeout="3h", on_timeout="silent"),
        ask=wait_for(channel="chat"),
    )
    later = wait_for(signal="paid")
    last = action(lambda ctx: [ctx.steps.both, ctx.steps.later])
    silent = flow(action(lambda ctx: "silent"))


def test_a_signal_to_the_machine_reaches_each_branch_that_waits_for_its_name() -> None:
    one = run(Signalled)
    assert workflows.signal(one, "paid", 1).woke
    drain()
    advance("2h")
    assert workflows.signal(one, "paid", 2, dedup_key="second").duplicate is False
    assert workflows.signal(one, "paid", 2, dedup_key="second").duplicate
    drain()
    answer("both.ask", "yes")
    assert_done(one, [{"paid": 1, "either": 1, "ask": "yes"}, 2])


def test_a_signal_that_came_before_the_branches_began_is_not_lost() -> None:
    one = workflows.start(Signalled)
    workflows.signal(one, "paid", 1)
    drain()
    advance("4h")
    answer("both.ask", "yes")
    assert_awaiting(one, "paid")
    workflows.signal(one, "paid", 3)
    drain()
    assert_done(one, [{"paid": 1, "either": 1, "ask": "yes"}, 3])


def test_a_signal_that_no_branch_can_take_any_more_stays_for_the_stages_after_them() -> None:
    one = run(Signalled)
    advance("4h")  # nobody refuses any more, and one branch still waits for a payment
    workflows.signal(one, "refused", 0)
    workflows.signal(one, "paid", 1)
    drain()
    workflows.signal(one, "paid", 2)
    drain()
    assert str(one.status) == "awaiting"
    answer("both.ask", "yes")
    assert_done(one, [{"paid": 1, "either": "silent", "ask": "yes"}, 2])


def test_a_machine_whose_branches_read_no_signal_refuses_one() -> None:
    one = run(Hire, {"who": "Ann"})
    with pytest.raises(workflows.NoReader):
        workflows.signal(one, "paid")


# --- crashes -----------------------------------------------------------------------------------------


def run_dying() -> None:
    """Each run dies once before its outcome is committed; the next worker finds what it has left behind."""
    died = set[str]()
    while claims := take():
        [claim] = claims
        result = play(claim)
        if claim.id in died:
            died.remove(claim.id)
            settle(result)
        else:
            died.add(claim.id)
            forget(claim)
            store.reclaim(connections["default"])


def test_a_crash_before_every_commit_begins_no_branch_and_asks_nothing_twice() -> None:
    one = workflows.start(Signalled)
    workflows.signal(one, "paid", 1)
    run_dying()
    drain()
    assert Instance.objects.filter(parent=one).count() == 3
    assert Interaction.objects.filter(unit__step="both.ask").count() == 1
    advance("4h")
    workflows.complete(Interaction.objects.get(status="pending", unit__step="both.ask"), "yes")
    run_dying()
    drain()
    workflows.signal(one, "paid", 2)
    run_dying()
    drain()
    assert_done(one, [{"paid": 1, "either": 1, "ask": "yes"}, 2])
    assert Signal.objects.filter(name="paid").count() == 4  # two sent, and the first of them handed on to two branches
    seen.clear()
    two = workflows.start(Hire, {"who": "Ann"})
    run_dying()
    drain()
    answer("checks.money.1", "well")
    answer("checks.legal", "yes")
    assert_done(two, ["yes", "well", "well"])
