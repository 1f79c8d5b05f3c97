"""Several open questions of a function: asking, waiting for any and for all, withdrawing, deadlines."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

import workflows
from workflows import (
    ChildCancelled,
    ChildFailed,
    DuplicateKey,
    PolicyRefused,
    SignalCollision,
    SignalTimeoutError,
    UnitFailed,
    callback,
    child,
    durable,
    event,
    instance,
    question,
    received,
    sleep,
)
from workflows.models import Checkpoint, EventWait, Instance, Interaction, LedgerEvent
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, assert_open, drain

pytestmark = pytest.mark.django_db


@durable(name="open-pack")
def pack(ctx, box=1):
    return {"packed": ctx.wait_for_signal("pack", timeout="30d")["ok"], "box": box}


@durable(name="open-three")
def wait_for_three(ctx):
    paid = ctx.ask("paid", received("paid"))
    agreed = ctx.ask("agreed", question("api"), timeout="2d")
    packed = ctx.ask("packed", child(pack, {"box": 7}))
    first = ctx.wait_any(paid, agreed, packed)
    return {"first": first.id, "answered": [one.id for one in (paid, agreed, packed) if one.answered]}


def start(function, name, **options):
    """Start a function that is known under its name, and run it to its first park."""
    made = durable(name=f"open-{name}", **options)(function)
    started = made.start()
    drain()
    return started


def answer(started: Instance, step: str, data: object) -> None:
    asked = Interaction.objects.get(instance=started, unit__step=step, status="pending")
    workflows.complete(asked, data)


def find_child(started: Instance) -> Instance:
    return Instance.objects.get(parent=started)


def find_status(started: Instance, step: str) -> str:
    return Interaction.objects.get(instance=started, unit__step=step).status


def run_both(ctx, *, wait):
    """Ask for two signals, and tell what each of two waits returned."""
    one, two = ctx.ask("one", received("one")), ctx.ask("two", received("two"))
    first = wait(one, two)
    second = wait(two if first is one else one)
    return [first.id, second.id]


# --- any ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["paid", "agreed", "packed"])
def test_waiting_for_any_of_a_signal_a_question_and_a_child_returns_with_the_one_that_is_answered(first):
    started = workflows.start("open-three")
    drain()
    assert_awaiting(started, "paid", "agreed", "packed")
    assert_open(started, ["paid", "agreed", "packed"])
    match first:
        case "paid":
            workflows.signal(started.id, "paid", {"amount": 5})
        case "agreed":
            answer(started, "agreed", {"yes": True})
        case _:
            answer(find_child(started), "pack", {"ok": True})
    drain()
    assert_done(started, {"first": first, "answered": [first]})


def test_the_others_stay_open():
    def body(ctx):
        one, two = ctx.ask("one", question("api")), ctx.ask("two", question("api"))
        first = ctx.wait_any(one, two)
        ctx.sleep("nap", "1h")
        second = ctx.wait_any(two if first is one else one)
        return [first.answer, second.answer]

    started = start(body, "others")
    answer(started, "two", 2)
    drain()
    assert_open(started, ["one"])
    answer(started, "one", 1)
    drain()
    assert Instance.objects.get(pk=started.pk).status == "sleeping"
    advance("1h")
    assert_done(started, [2, 1])


def test_of_two_answers_one_is_first_and_the_second_is_there_for_the_next_wait():
    def body(ctx):
        return run_both(ctx, wait=ctx.wait_any)

    started = start(body, "race", signals=True)
    workflows.signal(started.id, "two")
    workflows.signal(started.id, "one")
    drain()
    assert_done(started, ["two", "one"])


def test_the_first_stays_the_first_in_every_later_run():
    def body(ctx):
        one, two = ctx.ask("one", question("api")), ctx.ask("two", question("api"))
        first = ctx.wait_any(one, two)
        told = [one.answered, two.answered]
        ctx.sleep("nap", "1h")
        return [first.id, *told, one.answered]

    started = start(body, "first")
    answer(started, "two", 2)
    drain()
    answer(started, "one", 1)
    advance("1h")
    assert_done(started, ["two", False, True, False])


def test_waiting_for_any_again_returns_the_same_one_until_it_is_left_out():
    def body(ctx):
        one, two = ctx.ask("one", received("one")), ctx.ask("two", received("two"))
        return [ctx.wait_any(one, two).id, ctx.wait_any([one, two]).id]

    started = start(body, "again")
    workflows.signal(started.id, "one")
    drain()
    assert_done(started, ["one", "one"])


# --- all ------------------------------------------------------------------------------------------


def test_waiting_for_all_returns_when_the_last_is_answered():
    def body(ctx):
        asked = [ctx.ask(f"q{n}", question("api")) for n in range(3)]
        return [one.answer for one in ctx.wait_all(asked)]

    started = start(body, "all")
    answer(started, "q2", "c")
    drain()
    answer(started, "q0", "a")
    assert drain() == {"await": 1}
    assert_open(started, ["q1"])
    answer(started, "q1", "b")
    drain()
    assert_done(started, ["a", "b", "c"])


def test_waiting_for_all_ends_with_its_own_time_and_leaves_the_questions_open():
    def body(ctx):
        one, two = ctx.ask("one", received("one")), ctx.ask("two", received("two"))
        try:
            ctx.wait_all(one, two, timeout="1h")
        except SignalTimeoutError as error:
            return [str(error), one.result().name, ctx.wait_any(two).id]

    started = start(body, "all-late", signals=True)
    workflows.signal(started.id, "one")
    drain()
    advance("1h")
    workflows.signal(started.id, "two")
    drain()
    assert_done(started, ["'one, two' was not answered before its deadline", "one", "two"])


# --- answers, typed as the single waits give them --------------------------------------------------


def test_an_answer_is_what_the_single_wait_gives():
    def body(ctx):
        signal = ctx.ask("signal", received("paid", "refused")).result()
        happened = ctx.ask("event", event("order.paid", {"order": 7})).result()
        asked = ctx.ask("question", question("api", schema={"ok": bool})).result()
        packed = ctx.ask("child", child(pack, {"box": 2})).result()
        ctx.ask("later", sleep("1m")).result()
        return [signal.name, signal.payload, signal.source, happened, asked, packed]

    started = start(body, "typed")
    workflows.signal(started.id, "refused", {"why": "no"}, actor="bank")
    drain()
    workflows.emit("order.paid", {"order": 7, "amount": 5})
    drain()
    answer(started, "question", {"ok": True})
    drain()
    answer(find_child(started), "pack", {"ok": 1})
    drain()
    assert Instance.objects.get(pk=started.pk).status == "awaiting"
    advance("1m")
    assert_done(
        started,
        [
            "refused",
            {"why": "no"},
            "bank",
            {"order": 7, "amount": 5},
            {"ok": True},
            {"packed": 1, "box": 2},
        ],
    )


def test_a_question_with_a_resume_url_has_its_address_before_the_wait():
    def body(ctx):
        asked = ctx.ask("partner", callback(body="raw"), timeout="1d")
        sent = ctx.step("send", lambda: asked.resume_url.rpartition("/resume/")[2])
        return [ctx.wait_any(asked).answer, sent == f"{asked.resume_token}"]

    started = start(body, "partner")
    answer(started, "partner", {"n": 1})
    drain()
    assert_done(started, [{"n": 1}, True])


def test_a_result_waits_where_no_wait_has_returned_with_it():
    def body(ctx):
        one, two = ctx.ask("one", question("api")), ctx.ask("two", question("api"))
        before = [one.answered, one.answer, one.over]
        return [*before, two.result(), one.result(), one.answered]

    started = start(body, "result")
    answer(started, "one", 1)
    assert drain() == {}
    answer(started, "two", 2)
    drain()
    assert_done(started, [False, None, False, 2, 1, True])


@pytest.mark.parametrize(("end", "error"), [("fail", ChildFailed), ("cancel", ChildCancelled)])
def test_a_child_that_does_not_end_well_is_told_by_its_result(end, error):
    def body(ctx):
        asked = ctx.wait_any(ctx.ask("packed", child(pack)))
        told = [asked.over, asked.answered, asked.answer]
        try:
            asked.result()
        except error as raised:
            return [*told, raised.reason]

    started = start(body, f"child-{end}")
    if end == "fail":
        workflows.fail(Interaction.objects.get(instance=find_child(started)), "the box is broken")
    else:
        workflows.cancel(find_child(started), "not wanted")
    drain()
    told = assert_done(started).result
    assert told[:3] == [True, False, None]
    assert ("the box is broken" if end == "fail" else "not wanted") in told[3]


def test_the_end_of_any_instance_can_be_waited_for():
    other = workflows.start("open-pack", {"box": 3}, key="box-3")

    def body(ctx):
        by_key, by_id = ctx.ask("key", instance("box-3")), ctx.ask("id", instance(other))
        ctx.wait_all(by_key, by_id)
        return [by_key.answer, by_id.answer, str(by_id.instance_id)]

    started = start(body, "instance")
    assert_open(started, ["key", "id"])
    answer(other, "pack", {"ok": 1})
    drain()
    done = {"packed": 1, "box": 3}
    assert_done(started, [done, done, str(other.pk)])


def test_the_end_of_an_instance_that_has_ended_is_told_at_once():
    other = workflows.start("open-pack")
    workflows.cancel(other, "not wanted")

    def body(ctx):
        try:
            ctx.wait_for("other", instance(other))
        except ChildCancelled as error:
            return error.reason

    assert_done(start(body, "ended"), "not wanted")


def test_nobody_can_wait_for_an_instance_that_is_not_there_or_for_itself():
    def body(ctx, key):
        ctx.ask("other", instance(key))

    durable(name="open-nobody")(body)
    missing = workflows.start("open-nobody", {"key": "nobody"})
    itself = workflows.start("open-nobody", {"key": "me"}, key="me")
    drain()
    assert "no live instance for 'nobody'" in Instance.objects.get(pk=missing.pk).error
    workflows.cancel(missing)
    assert_failed(itself, "cannot wait for its own end")


def test_one_signal_is_taken_by_one_question_the_oldest():
    def body(ctx):
        one, two = ctx.ask("one", received("paid")), ctx.ask("two", received("paid"))
        first = ctx.wait_any(one, two)
        return [first.id, one.answer.payload, ctx.wait_any(two).answer.payload]

    started = start(body, "oldest")
    workflows.signal(started.id, "paid", 1)
    drain()
    assert_open(started, ["two"])
    workflows.signal(started.id, "paid", 2)
    drain()
    assert_done(started, ["one", 1, 2])


def test_a_signal_that_came_before_the_question_is_taken():
    def body(ctx):
        ctx.sleep("nap", "1h")
        return ctx.wait_for("paid", received("paid"), timeout="1h").payload

    started = start(body, "early")
    workflows.signal(started.id, "paid", 5)
    advance("1h")
    assert_done(started, 5)


def test_two_questions_of_one_instance_want_an_event_and_the_older_takes_it():
    def body(ctx):
        one, two = ctx.ask("one", event("paid")), ctx.ask("two", event("paid"))
        first = ctx.wait_any(one, two)
        return [first.id, ctx.wait_any(two).answer]

    started = start(body, "two-events")
    assert workflows.emit("paid", 1) == 1
    drain()
    assert_open(started, ["two"])
    workflows.emit("paid", 2)
    drain()
    assert_done(started, ["one", 2])
    assert not EventWait.objects.filter(instance=started, closed_at=None).exists()


def test_an_event_is_taken_while_the_function_does_something_else():
    def body(ctx):
        paid = ctx.ask("paid", event("order.paid", {"order": 7}))
        ctx.sleep("nap", "1h")
        return paid.result()

    started = start(body, "busy")
    assert workflows.emit("order.paid", {"order": 8}) == 0
    assert workflows.emit("order.paid", {"order": 7}) == 0  # it sleeps on
    advance("1h")
    assert_done(started, {"order": 7})


def test_an_event_that_came_before_the_question_is_taken():
    def body(ctx):
        ctx.sleep("nap", "1h")
        return ctx.wait_any(ctx.ask("paid", event("order.paid"))).answer

    started = start(body, "early-event")
    workflows.emit("order.paid", 3)
    advance("1h")
    assert_done(started, 3)


# --- withdrawing ------------------------------------------------------------------------------------


def test_withdrawing_closes_the_question_the_event_and_the_address():
    def body(ctx):
        asked = [
            ctx.ask("question", question("api")),
            ctx.ask("event", event("order.paid")),
            ctx.ask("partner", callback()),
            ctx.ask("signal", received("paid")),
        ]
        for one in asked:
            one.withdraw()
        ctx.sleep("nap", "1h")
        return [one.withdrawn for one in asked]

    started = start(body, "withdraw")
    assert_open(started, [])
    assert {one.status for one in Interaction.objects.filter(instance=started)} == {"cancelled"}
    assert workflows.emit("order.paid") == 0
    told = [one.data["step"] for one in LedgerEvent.objects.filter(instance=started, kind="handled")]
    assert told == ["question", "event", "partner", "signal"]
    advance("1h")
    assert_done(started, [True] * 4)
    # A run that repeats it withdraws nothing twice.
    assert LedgerEvent.objects.filter(instance=started, kind="handled").count() == 4


def test_a_child_that_is_not_waited_for_any_more_goes_on():
    def body(ctx):
        asked = ctx.ask("packed", child(pack))
        asked.withdraw()
        return str(asked.instance_id)

    started = start(body, "left")
    packing = find_child(started)
    assert_done(started, str(packing.pk))
    answer(packing, "pack", {"ok": 1})
    drain()
    assert_done(packing)
    assert not Checkpoint.objects.exclude(watch=0).exists()


def test_an_answer_that_no_wait_has_returned_is_not_read_after_the_withdrawal():
    def body(ctx):
        asked = ctx.ask("question", question("api"))
        ctx.sleep("nap", "1h")
        asked.withdraw()
        ctx.sleep("nap again", "1h")
        return [asked.withdrawn, asked.answered, asked.answer]

    started = start(body, "withdraw-late")
    answer(started, "question", 1)
    advance("2h")
    assert_done(started, [True, False, None])
    assert find_status(started, "question") == "completed"


def ask_within_a_coroutine(ctx):
    async def ask():
        ctx.ask("inner", question("api"))

    ctx.step("outer", ask)


MISUSES = {
    "no questions": (lambda ctx, asked: ctx.wait_any(), "takes the questions to wait for, and there are none"),
    "an empty list": (lambda ctx, asked: ctx.wait_all([]), "takes the questions to wait for, and there are none"),
    "one twice": (lambda ctx, asked: ctx.wait_any(asked, [asked]), "has 'asked' twice"),
    "a withdrawn one": (lambda ctx, asked: [asked.withdraw(), ctx.wait_any(asked)], "it was withdrawn"),
    "its result": (lambda ctx, asked: [asked.withdraw(), asked.result()], "the question was withdrawn"),
    "an id": (lambda ctx, asked: ctx.wait_any("asked"), "takes what ctx.ask"),
    "an id again": (lambda ctx, asked: ctx.ask("asked", question("api")), "'asked'"),
    "within a step": (
        lambda ctx, asked: ctx.step("outer", ctx.ask, "inner", question("api")),
        "inside the function of",
    ),
    "within a coroutine": (lambda ctx, asked: ask_within_a_coroutine(ctx), "inside the function of"),
    "a wait within a step": (lambda ctx, asked: ctx.step("outer", ctx.wait_any, asked), "inside the function of"),
    "within a gather": (
        lambda ctx, asked: ctx.gather("outer", {"a": lambda: ctx.ask("inner", question("api"))}),
        "inside the function of",
    ),
    "withdrawing within a step": (lambda ctx, asked: ctx.step("outer", asked.withdraw), "inside the function of"),
}


@pytest.mark.parametrize("misuse", MISUSES)
def test_what_cannot_be_waited_for_or_asked_is_refused_and_asks_nothing(misuse):
    call, message = MISUSES[misuse]

    def body(ctx):
        call(ctx, ctx.ask("asked", question("api")))

    started = start(body, "misuse", max_attempts=1)
    assert message in assert_failed(started).error
    assert list(Interaction.objects.filter(instance=started).values_list("unit__step", flat=True)) == ["asked"]


# --- deadlines --------------------------------------------------------------------------------------


def test_the_earliest_deadline_wakes_the_run_and_only_that_question_expires():
    def body(ctx):
        short, long = ctx.ask("short", question("api"), timeout="1h"), ctx.ask("long", question("api"), timeout="2h")
        first = ctx.wait_any(short, long)
        told = [first.id, first.over, first.answered]
        try:
            first.result()
        except SignalTimeoutError as error:
            told.append(error.wait)
        return [*told, long.result()]

    started = start(body, "deadlines")
    advance("59m")
    assert find_status(started, "short") == "pending"
    advance("1m")
    assert [find_status(started, "short"), find_status(started, "long")] == ["expired", "pending"]
    answer(started, "long", "in time")
    drain()
    assert_done(started, ["short", True, False, "short", "in time"])


@pytest.mark.parametrize(
    "what", [lambda: received("paid"), lambda: event("paid"), lambda: child(pack)], ids=["signal", "event", "child"]
)
def test_what_comes_after_the_deadline_of_a_question_is_no_answer(what):
    def body(ctx):
        asked = ctx.ask("asked", what(), timeout="1h")
        ctx.sleep("nap", "3h")
        return [ctx.wait_any(asked).answered, ctx.ask("again", received("paid"), timeout="1h").result().payload]

    started = start(body, "late", signals=True)
    advance("2h")
    workflows.emit("paid", 1)
    workflows.signal(started.id, "paid", 2)
    for one in Instance.objects.filter(parent=started):
        answer(one, "pack", {"ok": 1})
    advance("1h")
    assert_done(started, [False, 2])  # the signal was not used up


def test_a_late_answer_to_one_of_several_is_refused_and_wakes_the_run():
    def body(ctx):
        asked, other = ctx.ask("asked", question("api"), timeout="1h"), ctx.ask("other", question("api"))
        return [ctx.wait_any(asked, other).id, asked.answered]

    started = start(body, "refused")
    asked = Interaction.objects.get(instance=started, unit__step="asked")
    from workflows import store
    from workflows.testing import _db, _skew

    _skew(_db(), 3601)
    with pytest.raises(workflows.InteractionResolved):
        workflows.complete(asked, 1)
    drain()
    assert store.seconds_to_next(_db()) is None
    assert_done(started, ["asked", False])


def test_until_is_a_moment_and_a_timeout_is_a_time():
    moment = datetime.now(UTC) + timedelta(hours=2)

    def body(ctx):
        asked = ctx.ask("asked", question("api"), until=moment)
        other = ctx.ask("other", event("other"), until=moment)
        last = ctx.ask("later", sleep(until=moment + timedelta(hours=1)))
        ctx.wait_all(asked, other, last)
        return [asked.answered, other.answered, last.answered]

    started = start(body, "until")
    assert Interaction.objects.get(instance=started).deadline == moment
    assert EventWait.objects.get(instance=started).deadline == moment
    advance("2h1m")
    assert Instance.objects.get(pk=started.pk).due_at == moment + timedelta(hours=1)
    advance("1h")
    assert_done(started, [False, False, True])


# --- ends ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["done", "fail", "cancel"])
def test_the_end_of_an_instance_closes_all_its_questions(end):
    def body(ctx):
        ctx.ask("question", question("api"))
        ctx.ask("event", event("order.paid"))
        ctx.ask("other", child(pack))
        ctx.sleep("nap", "1h")
        if end == "fail":
            raise SignalTimeoutError("enough")

    started = start(body, f"end-{end}")
    if end == "cancel":
        workflows.cancel(started)
    else:
        advance("1h")
    assert find_status(started, "question") == "cancelled"
    assert not EventWait.objects.filter(instance=started, closed_at=None).exists()
    packing = find_child(started)
    if end == "cancel":
        assert Instance.objects.get(pk=packing.pk).status == "cancelled"
    else:
        answer(packing, "pack", {"ok": 1})
        drain()
        assert_done(packing)
    drain()
    assert not Checkpoint.objects.filter(watch=2).exists()


def test_a_retry_asks_anew_what_the_failure_closed():
    fails = [True]

    def body(ctx):
        asked, happened = ctx.ask("question", question("api")), ctx.ask("event", event("order.paid"))
        packed = ctx.ask("packed", child(pack))
        ctx.sleep("nap", "1h")
        if fails.pop() if fails else False:
            raise SignalTimeoutError("enough")
        ctx.wait_all(asked, happened, packed)
        return [asked.answer, happened.answer, packed.answer["packed"]]

    started = start(body, "retried")
    advance("1h")
    assert_failed(started, "enough")
    workflows.retry(started)
    drain()
    assert_open(started, ["question", "event", "packed"])
    answer(started, "question", 1)
    workflows.emit("order.paid", 2)
    answer(find_child(started), "pack", {"ok": 3})
    drain()
    assert_done(started, [1, 2, 3])


def test_an_error_of_asking_can_be_caught():
    workflows.start("open-pack", key="box")

    def body(ctx):
        told = []
        try:
            ctx.ask("packed", child(pack, key="box"))
        except DuplicateKey:
            told.append("taken")
        ctx.ask("one", question("api", signal="gate-1"))
        try:
            ctx.ask("two", question("api", signal="gate-1"))
        except SignalCollision:
            told.append("collision")
        ctx.sleep("nap", "1h")
        return told

    started = start(body, "caught")
    advance("1h")
    assert_done(started, ["taken", "collision"])


# --- failures, the policy, children that were put aside ------------------------------------------------


def test_a_question_that_failed_is_over_and_says_why():
    def body(ctx):
        asked = ctx.wait_any(ctx.ask("one", question("api")), ctx.ask("two", question("api")))
        told = [asked.id, asked.over, asked.answered]
        ctx.sleep("nap", "1m")
        try:
            asked.result()
        except UnitFailed as error:
            return [*told, error.reason]

    started = start(body, "failed")
    workflows.fail(Interaction.objects.get(instance=started, unit__step="two"), "nobody is there")
    advance("1m")
    assert_done(started, ["two", True, False, "nobody is there"])


def test_a_retry_waits_for_the_child_that_still_lives():
    def body(ctx):
        return ctx.ask("packed", child(pack), timeout="1h").result()["packed"]

    started = start(body, "adrift")
    packing = find_child(started)
    advance("1h")
    assert_failed(started, "was not answered before its deadline")
    workflows.retry(started)
    drain()
    assert find_child(started) == packing
    assert_open(started, ["packed"])
    answer(packing, "pack", {"ok": 5})
    drain()
    assert_done(started, 5)


def refuse_questions(operation, interaction, actor):
    if operation == REFUSED[0] and interaction.channel in ("api", "event"):
        raise PolicyRefused(operation, "not today")


REFUSED = ["suspend"]


@pytest.mark.parametrize("what", [lambda: question("api"), lambda: event("paid")], ids=["question", "event"])
def test_the_policy_is_asked_about_each_question(settings, what):
    settings.WORKFLOWS = {**settings.WORKFLOWS, "POLICY": f"{__name__}.refuse_questions"}
    REFUSED[0] = "suspend"

    def body(ctx):
        try:
            ctx.ask("asked", what())
        except PolicyRefused as error:
            return error.reason

    started = start(body, "policy")
    assert_done(started, "not today")
    assert LedgerEvent.objects.filter(instance=started, kind="refused").exists()


@pytest.mark.parametrize("what", [lambda: question("api"), lambda: event("paid")], ids=["question", "event"])
def test_the_policy_is_asked_about_each_deadline(settings, what):
    settings.WORKFLOWS = {**settings.WORKFLOWS, "POLICY": f"{__name__}.refuse_questions"}
    REFUSED[0] = "timeout"

    def body(ctx):
        return ctx.wait_any(ctx.ask("asked", what(), timeout="1h"), ctx.ask("other", received("paid"))).id

    started = start(body, "policy-timeout", signals=True)
    advance("1h")
    assert_failed(started, "not today")
    assert LedgerEvent.objects.filter(instance=started, kind="refused").exists()


def test_a_fork_keeps_what_was_answered_and_asks_what_was_open_anew():
    def body(ctx):
        one, two = ctx.ask("one", received("one")), ctx.ask("two", event("two"))
        three, packed = ctx.ask("three", question("api")), ctx.ask("packed", child(pack))
        first = ctx.wait_any(one, two, three)
        ctx.sleep("nap", "1h")
        ctx.wait_all(two, three, packed)
        return [first.id, one.answer.payload, two.answer, three.answer, packed.answer["packed"]]

    started = start(body, "forked")
    workflows.signal(started.id, "one", 1)
    drain()
    fork = workflows.fork(started, at="nap")
    advance("1h")
    for instance_, n in ((started, 2), (fork, 3)):
        assert_open(instance_, ["two", "three", "packed"])
        answer(instance_, "three", n)
        answer(find_child(instance_), "pack", {"ok": n})
    workflows.emit("two", "both")
    drain()
    assert_done(started, ["one", 1, "both", 2, 2])
    assert_done(fork, ["one", 1, "both", 3, 3])


def test_the_order_in_which_questions_are_passed_means_nothing():
    turns = [False, True, False, True]

    def body(ctx):
        asked = [ctx.ask(name, question("api")) for name in "abc"]
        first = ctx.wait_any(sorted(asked, key=lambda one: one.id, reverse=turns.pop()), timeout="1d")
        ctx.sleep("nap", "1h")
        return first.id

    started = start(body, "order")
    answer(started, "b", 1)
    advance("1h")
    assert_done(started, "b")
