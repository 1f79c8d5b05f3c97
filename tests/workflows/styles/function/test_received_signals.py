"""Plain signals in functions: who reads them, who refuses them, and what is wrong with a wait."""

from __future__ import annotations

import re

import pytest

import workflows
from workflows import (
    InvalidDefinition,
    NoReader,
    SignalTimeoutError,
    child,
    durable,
    instance,
    question,
    received,
    sleep,
)
from workflows.models import Instance, Signal
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db


@durable(name="received-paid")
def wait_until_paid(ctx):
    try:
        signal = ctx.wait_for("paid", received("paid", "refused"), timeout="1d")
    except SignalTimeoutError:
        return "never"
    return [signal.name, signal.payload, signal.source]


def _wait_elsewhere(ctx):
    return ctx.wait_for("paid", received("paid")).payload


@durable(name="received-elsewhere")
def wait_elsewhere(ctx):
    return _wait_elsewhere(ctx)


@durable(name="received-deaf")
def deaf(ctx):
    ctx.sleep("nap", "1h")


HIDDEN = {"wait": _wait_elsewhere}


@durable(name="received-hidden")
def hidden(ctx):
    return HIDDEN["wait"](ctx)


@durable(name="received-told", signals=True)
def tells(ctx):
    return HIDDEN["wait"](ctx)


def start(workflow):
    started = workflows.start(workflow)
    drain()
    return started


def test_a_function_is_handed_the_signal():
    started = start("received-paid")
    assert_awaiting(started, "paid", "refused")
    workflows.signal(started.id, "refused", {"why": "no"}, actor="bank")
    drain()
    assert_done(started, ["refused", {"why": "no"}, "bank"])
    assert Signal.objects.get(instance=started).consumed_at is not None


def test_the_time_of_the_wait_is_over():
    started = start("received-paid")
    advance("1d")
    assert_done(started, "never")


def test_a_signal_to_a_function_that_reads_none_is_refused():
    with pytest.raises(NoReader):
        workflows.signal(start("received-deaf").id, "paid")


@pytest.mark.parametrize("workflow", ["received-elsewhere", "received-told"])
def test_a_function_that_calls_another_one_of_its_module_or_says_so_reads_them(workflow):
    started = start(workflow)
    workflows.signal(started.id, "paid", 5)
    drain()
    assert_done(started, 5)


def test_a_wait_that_nothing_could_reach_is_an_error_that_says_what_to_write():
    assert_failed(start("received-hidden"), "@durable(signals=True)")


def test_a_line_of_an_item_reads_no_signals():
    def body(ctx):
        def then(ctx, item, output):
            return ctx.wait_for("paid", received("paid"))

        return ctx.wait_for_each("ask", [1], "api", then=then)

    started = durable(name="received-line")(body).start()
    drain()
    workflows.complete(f"ask.0-{started.id}", 1)
    drain()
    assert_failed(Instance.objects.get(parent=started), "an instance of its own, which no signal reaches")


def test_signals_of_a_name_that_is_not_waited_for_stay_in_the_inbox():
    def body(ctx):
        first = ctx.wait_for("one", received("one"))
        return [first.payload, ctx.wait_for("two", received("two")).payload]

    started = durable(name="received-order", signals=True)(body).start()
    drain()
    workflows.signal(started.id, "two", 2)
    assert drain() == {}
    workflows.signal(started.id, "one", 1)
    drain()
    assert_done(started, [1, 2])


def test_many_signals_of_a_name_are_taken_one_by_one_in_their_order():
    def body(ctx):
        return [ctx.wait_for(f"n{n}", received("n")).payload for n in range(100)]

    started = durable(name="received-many", signals=True)(body).start()
    drain()
    workflows.signal_many([(started, "n", n) for n in range(100)])  # more than a claim carries
    drain()
    assert_done(started, list(range(100)))


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        (lambda ctx: ctx.ask("a", 7), r"about 7: write a channel such as Approval"),
        (lambda ctx: ctx.ask("", received("paid")), "the id of a question must not be empty"),
        (lambda ctx: [ctx.ask("a", received("x")), ctx.ask("a", received("y"))], "'a'"),
        (lambda ctx: ctx.wait_any(), "takes the questions to wait for, and there are none"),
        (lambda ctx: ctx.wait_any([]), "there are none"),
        (lambda ctx: ctx.wait_any("a"), r"takes what ctx.ask\(…\) returned, not 'a'"),
        (lambda ctx: ctx.wait_all(*[ctx.ask("a", received("x"))] * 2), "has 'a' twice"),
        (lambda ctx: ctx.ask("a", sleep("1h"), timeout="1h"), "sleep\\(…\\) tells how long"),
        (lambda ctx: ctx.ask("a", question("api")).resume_url, "has no resume URL: ask callback"),
        (lambda ctx: ctx.ask("a", received("x")).signal_id, "has no address"),
        (lambda ctx: ctx.ask("a", received("x")).instance_id, "waits for no instance"),
        (lambda ctx: ctx.ask("a", instance("nobody")), "no live instance for 'nobody'"),
        (lambda ctx: ctx.ask("a", child("nothing of this name")), "no workflow"),
        (lambda ctx: ctx.wait_for("a", received("x"), assignee="ann"), r"only timeout= and until= are known here"),
        (lambda ctx: ctx.ask("a", received()), "takes the names of signals"),
        (lambda ctx: ctx.ask("a", received("holdpoint:x")), "belong to the engine"),
        (lambda ctx: ctx.ask("a", instance(7)), "takes an Instance, its UUID or a correlation key"),
    ],
)
def test_what_cannot_be_asked_is_an_error_where_it_is_written(call, problem):
    started = durable(name="received-wrong", max_attempts=1, signals=True)(lambda ctx: call(ctx)).start()
    drain()
    found = Instance.objects.get(pk=started.pk)
    assert found.status == "failed"
    assert re.search(problem, found.error), found.error


def test_a_withdrawn_question_cannot_be_waited_for():
    def body(ctx):
        asked = ctx.ask("a", received("x"))
        asked.withdraw()
        ctx.wait_any(asked)

    started = durable(name="received-gone", signals=True)(body).start()
    drain()
    assert_failed(started, "cannot wait for 'a': it was withdrawn")


def test_other_questions_in_a_later_run_are_not_deterministic():
    asks = iter([received("one"), question("api")])

    def body(ctx):
        asked = ctx.ask("a", next(asks))
        ctx.sleep("nap", "1m")
        return asked.id

    started = durable(name="received-changed", signals=True)(body).start()
    advance("1m")
    assert_failed(started, "NonDeterministic")
    assert "ask_signal 'a'" in Instance.objects.get(pk=started.pk).error


def test_whether_a_function_reads_signals_is_said_by_true_or_false():
    with pytest.raises(InvalidDefinition, match="signals= is True or False, not 'paid'"):
        durable(name="received-flag", signals="paid")(lambda ctx: None)
