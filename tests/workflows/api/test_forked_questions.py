"""Forks of functions with several open questions: what was read before the point stays, the rest is asked anew."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

import workflows
from tests.support.races import play, take_one
from workflows import (
    ChildCancelled,
    SignalTimeoutError,
    callback,
    child,
    durable,
    event,
    instance,
    question,
    received,
    sleep,
)
from workflows.models import Checkpoint, Instance, Interaction, Signal
from workflows.testing import advance, assert_awaiting, assert_done, assert_open, drain

pytestmark = pytest.mark.django_db


@durable(name="forked.child")
def wait_for_word(ctx):
    return ctx.wait_for_signal("word", timeout="30d")


def start(body: Any, name: str, input: Any = None, **options: Any) -> Instance:
    durable(name=f"forked.{name}", signals=True)(body)
    started = workflows.start(f"forked.{name}", input, **options)
    drain()
    return started


def fork(first: Instance, at: str, **options: Any) -> Instance:
    forked = workflows.fork(first, at=at, **options)
    drain()
    return forked


def answer(started: Instance, step: str, data: object) -> None:
    workflows.complete(Interaction.objects.get(instance=started, unit__step=step, status="pending"), data)
    drain()


def find_child(started: Instance) -> Instance:
    return Instance.objects.get(parent=started)


def send(started: Instance, kind: str, data: object) -> None:
    """Answer the question `asked`, of any kind."""
    match kind:
        case "signal":
            workflows.signal(started.id, "asked", data)
        case "event":
            workflows.emit("forked.asked", data)
        case "child":
            answer(find_child(started), "word", data)
        case "instance":
            answer(Instance.objects.get(key="forked-other"), "word", data)
        case "sleep":
            advance("1h")
        case _:
            answer(started, "asked", data)
    drain()


def read(value: Any) -> Any:
    return getattr(value, "payload", value)


KINDS: dict[str, Any] = {
    "question": lambda: question("api"),
    "callback": callback,
    "signal": lambda: received("asked"),
    "event": lambda: event("forked.asked"),
    "child": lambda: child(wait_for_word),
    "instance": lambda: instance("forked-other"),
    "sleep": lambda: sleep("1h"),
}


def run_kind(kind: str, *, late: bool) -> Instance:
    """Ask, then a call; the answer is read before the call `point`, or comes after it."""

    def body(ctx):
        asked = ctx.ask("asked", KINDS[kind]())
        if not late:
            asked.result()
        ctx.wait_for_signal("point", timeout="90d")
        return read(asked.result())

    if kind == "instance":
        workflows.start("forked.child", key="forked-other")
    started = start(body, f"{kind}.{late}")
    if not late:
        send(started, kind, 1)
    answer(started, "point", "go")
    if late:
        send(started, kind, 1)
    assert_done(started, None if kind == "sleep" else 1)
    return started


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_that_was_read_before_the_point_stays(kind):
    forked = fork(run_kind(kind, late=False), "point")
    answer(forked, "point", "go")
    assert_done(forked, None if kind == "sleep" else 1)
    assert Interaction.objects.filter(instance=forked, unit__step="asked").count() == 0
    assert not Checkpoint.objects.filter(instance=forked).exclude(watch=0).exists()


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("instance", "sleep")])
def test_an_answer_that_came_after_the_point_does_not_come_along_and_the_question_is_asked_anew(kind):
    forked = fork(run_kind(kind, late=True), "point")
    answer(forked, "point", "go")
    assert_open(forked, ["asked"])
    send(forked, kind, 2)
    assert_done(forked, 2)


def test_a_sleep_that_was_not_over_at_the_point_goes_on_and_an_instance_is_waited_for_again():
    slept, waited = (fork(run_kind(kind, late=True), "point") for kind in ("sleep", "instance"))
    for one in (slept, waited):
        answer(one, "point", "go")
    assert_done(waited, 1)  # it has ended, which is told again
    assert_awaiting(slept)
    advance("1h")
    assert_done(slept, None)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("instance", "sleep", "signal")])
def test_an_answer_that_had_come_and_that_no_call_before_the_point_had_read_is_asked_for_anew(kind):
    def body(ctx):
        asked = ctx.ask("asked", KINDS[kind]())
        ctx.wait_for_signal("before", timeout="90d")
        ctx.step("point", str, "x")
        return read(asked.result())

    first = start(body, f"unread.{kind}")
    send(first, kind, 1)
    answer(first, "before", "go")
    assert_done(first, 1)
    forked = fork(first, "point")
    assert_open(forked, ["asked"])
    send(forked, kind, 2)
    assert_done(forked, 2)
    assert_done(first, 1)


def test_a_signal_that_had_come_and_was_not_read_before_the_point_is_there():
    def body(ctx):
        asked = ctx.ask("asked", received("asked"))
        other = ctx.ask("other", question("api"))
        ctx.wait_any(other)  # which looks at all, and returns with one
        ctx.wait_for_signal("before", timeout="90d")
        ctx.step("point", str, "x")
        return asked.result().payload

    first = start(body, "signal.unread")
    workflows.signal(first.id, "asked", 1, dedup_key="evt_1")
    answer(first, "other", "yes")
    answer(first, "before", "go")
    assert_done(first, 1)
    forked = workflows.fork(first, at="point")
    assert workflows.signal(forked.id, "asked", 1, dedup_key="evt_1").duplicate
    drain()
    assert_done(forked, 1)


def test_a_signal_that_came_before_the_point_and_is_asked_for_after_it_is_there_and_a_later_one_is_not():
    def body(ctx):
        ctx.wait_for_signal("before", timeout="90d")
        ctx.step("point", str, "x")
        one = ctx.wait_for("one", received("go"))
        return [one.payload, ctx.wait_for("two", received("go")).payload]

    first = start(body, "signal.early")
    workflows.signal(first.id, "go", 1)
    answer(first, "before", "go")
    workflows.signal(first.id, "go", 2)
    drain()
    assert_done(first, [1, 2])
    forked = fork(first, "point")
    assert_open(forked, ["two"])
    workflows.signal(forked.id, "go", 3)
    drain()
    assert_done(forked, [1, 3])


def test_a_fork_at_the_asking_itself_does_not_have_the_signal_that_answered_it():
    def body(ctx):
        return ctx.wait_for("paid", received("paid")).payload

    first = start(body, "asking")
    workflows.signal(first.id, "paid", 1)
    drain()
    assert_done(first, 1)
    forked = fork(first, "paid")
    assert_open(forked, ["paid"])
    assert not Signal.objects.filter(instance=forked).exists()


def test_a_fork_at_a_wait_for_any_has_none_of_the_answers_that_came_while_it_waited():
    def body(ctx):
        one, two = ctx.ask("one", received("one")), ctx.ask("two", question("api"))
        first = ctx.wait_any(one, two)
        return [first.id, read(first.answer)]

    first = start(body, "any")
    workflows.signal(first.id, "one", 1)
    drain()
    assert_done(first, ["one", 1])
    forked = fork(first, "one, two")
    assert_open(forked, ["one", "two"])
    answer(forked, "two", 2)
    assert_done(forked, ["two", 2])


def test_a_question_that_was_withdrawn_after_the_point_is_open_in_the_fork_and_one_before_it_is_not():
    def body(ctx):
        asked = {name: ctx.ask(name, what()) for name, what in KINDS.items() if name != "instance"}
        ctx.ask("early", question("api")).withdraw()
        ctx.wait_for_signal("point", timeout="90d")
        for one in asked.values():
            one.withdraw()
        return "end"

    first = start(body, "withdrawn")
    answer(first, "point", "go")
    assert_done(first, "end")
    forked = fork(first, "point")
    assert_open(forked, ["question", "callback", "signal", "event", "child", "sleep", "point"])
    answer(forked, "point", "go")
    assert_done(forked, "end")
    assert Interaction.objects.filter(instance=forked, unit__step="early").count() == 0


def test_a_question_that_expired_before_the_point_stays_so_where_that_was_read_and_is_asked_anew_otherwise():
    def body(ctx):
        read_one = ctx.ask("read", received("read"), timeout="1m")
        unread = ctx.ask("unread", question("api"), timeout="1m")
        signal = ctx.ask("signal", received("asked"), timeout="1m")
        with contextlib.suppress(SignalTimeoutError):
            read_one.result()
        ctx.wait_for_signal("point", timeout="90d")
        return [read_one.over, ctx.wait_any(unread, signal).answered]

    first = start(body, "expired")
    advance("1h")
    answer(first, "point", "go")
    assert_done(first, [True, False])
    forked = fork(first, "point")
    assert_open(forked, ["point", "unread", "signal"])
    answer(forked, "unread", 1)
    answer(forked, "point", "go")
    assert_done(forked, [True, True])


def test_an_address_that_a_later_call_hands_out_is_the_forks_own():
    sent: list[str] = []

    def body(ctx):
        partner, asked = ctx.callback("partner", timeout="1d"), ctx.ask("asked", callback())
        urls = [partner.resume_token, asked.resume_token]  # before the point
        ctx.step("read", str, "x")
        ctx.step("tell", sent.extend, urls)
        return [partner.wait(), asked.result()]

    first = start(body, "addresses")
    answer(first, "partner", 1)
    answer(first, "asked", 1)
    assert_done(first, [1, 1])
    forked = fork(first, "tell")
    assert len(set(sent)) == 4
    answer(forked, "partner", 2)
    answer(forked, "asked", 3)
    assert_done(forked, [2, 3])


def test_a_callback_that_was_waited_for_before_the_point_keeps_its_answer():
    def body(ctx):
        partner = ctx.callback("partner", timeout="1d")
        ctx.step("tell", str, "x")
        answered = partner.wait()
        return [answered, ctx.step("point", str, "y")]

    first = start(body, "callback")
    answer(first, "partner", 1)
    assert_done(first, [1, "y"])
    assert_done(fork(first, "point"), [1, "y"])
    assert_open(fork(first, "tell"), ["partner"])


def test_a_fork_at_the_call_that_failed_has_what_was_read_before_it_and_no_more():
    fails = [True]

    def risky():
        if fails:
            raise LookupError("gone")
        return "well"

    def body(ctx):
        one, two = ctx.ask("one", question("api")), ctx.ask("two", question("api"))
        first = one.result()
        return [first, ctx.step("risky", risky), two.result()]

    durable(name="forked.failed", max_attempts=1)(body)
    first = workflows.start("forked.failed")
    drain()
    answer(first, "two", 1)
    answer(first, "one", 1)
    fails.clear()
    forked = fork(first, "risky")
    assert_open(forked, ["two"])
    answer(forked, "two", 2)
    assert_done(forked, [1, "well", 2])


def test_a_worker_that_dies_in_the_first_run_of_a_fork_changes_nothing_of_what_it_has():
    first = run_kind("question", late=True)
    forked = workflows.fork(first, at="point")
    play(take_one())  # and its worker dies before the outcome
    advance("1m")
    assert_open(forked, ["asked", "point"])
    answer(forked, "asked", 2)
    answer(forked, "point", "go")
    assert_done(forked, 2)


def test_a_child_that_ended_badly_before_the_point_stays_so():
    def body(ctx):
        with contextlib.suppress(ChildCancelled):
            ctx.ask("packed", child(wait_for_word)).result()
        return ctx.step("point", str, "x")

    first = start(body, "child.cancelled")
    workflows.cancel(find_child(first))
    drain()
    assert_done(first, "x")
    forked = fork(first, "point")
    assert_done(forked, "x")
    assert not Instance.objects.filter(parent=forked).exists()


def test_a_fork_of_a_fork_has_the_same():
    def body(ctx):
        one, two = ctx.ask("one", received("go")), ctx.ask("two", received("go"))
        first = ctx.wait_any(one)
        ctx.wait_for_signal("point", timeout="90d")
        return [read(first.answer), read(two.result())]

    first = start(body, "twice")
    workflows.signal(first.id, "go", 1)
    workflows.signal(first.id, "go", 2)
    drain()
    answer(first, "point", "go")
    assert_done(first, [1, 2])
    forked = fork(fork(first, "point"), "point")
    answer(forked, "point", "go")
    assert_done(forked, [1, 2])


def test_a_signal_that_was_read_before_the_point_answers_no_other_question_of_the_fork():
    def body(ctx):
        one = ctx.wait_for("one", received("go")).payload
        ctx.step("point", str, "x")
        two = ctx.wait_for("two", received("go")).payload
        return [one, two, ctx.wait_for("three", received("go")).payload]

    first = start(body, "signal.read")
    for n in range(3):
        workflows.signal(first.id, "go", n)
    drain()
    assert_done(first, [0, 1, 2])
    forked = fork(first, "point")  # all had come by then
    assert_done(forked, [0, 1, 2])
    later = start(body, "signal.read.later")
    workflows.signal(later.id, "go", 0)
    drain()
    forked = fork(later, "point")
    assert_open(forked, ["two"])
    assert Signal.objects.filter(instance=forked, consumed_at=None).count() == 0
    for n in (1, 2):
        workflows.signal(forked.id, "go", n)
        drain()
    assert_done(forked, [0, 1, 2])


@pytest.mark.parametrize("attempts", [1, 5])  # it has failed for good, or waits for its next attempt
def test_a_fork_at_a_first_call_that_failed_has_the_signals_that_came_before(attempts):
    fails = [True]

    def risky():
        if fails:
            raise LookupError("gone")

    def body(ctx):
        ctx.step("risky", risky)
        return ctx.wait_for("go", received("go")).payload

    durable(name="forked.first-call", signals=True, max_attempts=attempts)(body)
    first = workflows.start("forked.first-call")
    workflows.signal(first.id, "go", 1)
    drain()
    fails.clear()
    assert_done(fork(first, "risky"), 1)
