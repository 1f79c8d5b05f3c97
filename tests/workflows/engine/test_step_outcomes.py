"""What each outcome of a step does to its instance, and what it refuses to be made of."""

from datetime import datetime, timedelta
from typing import Any

import pytest

import workflows
from workflows import (
    Await,
    Child,
    Done,
    InvalidCall,
    InvalidDuration,
    InvalidOutcome,
    Next,
    NoTarget,
    Retry,
    Spawn,
    Stop,
    Workflow,
    step,
)
from workflows.lifecycle import Status
from workflows.models import Instance, Signal
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db


def run(workflow: Any, input: Any = None) -> Instance:
    instance = workflows.start(workflow, input)
    drain()
    instance.refresh_from_db()
    return instance


def open_signals(instance: Instance) -> list[str]:
    return [one.name for one in Signal.objects.filter(instance=instance, consumed_at=None)]


# --- Next -------------------------------------------------------------------------------------


def test_next_continues_with_the_named_step_and_the_given_state() -> None:
    class OutcomeNext(Workflow):
        @step
        def a(self, ctx):
            return Next("c", {"n": 1})

        @step
        def b(self, ctx):
            return Stop("skipped over")

        @step
        def c(self, ctx):
            return Done([ctx.step, ctx.state])

    assert_done(run(OutcomeNext), ["c", {"n": 1}])


def test_next_takes_its_state_by_keyword_too() -> None:
    assert Next("b", state=[1]).state == Next("b", [1]).state == [1]


def test_next_with_a_delay_sleeps_first() -> None:
    class OutcomeDelay(Workflow):
        @step
        def a(self, ctx):
            return Next("b", delay="2h")

        @step
        def b(self, ctx):
            return Done(ctx.timed_out)

    instance = run(OutcomeDelay)
    assert instance.status == Status.SLEEPING
    advance("1h59m")
    instance.refresh_from_db()
    assert instance.status == Status.SLEEPING
    advance("1m")
    assert_done(instance, False)


def test_a_signal_does_not_wake_a_sleeper_and_is_there_when_it_wakes() -> None:
    class OutcomeSleeper(Workflow):
        @step
        def a(self, ctx):
            return Next("b", delay="1h")

        @step
        def b(self, ctx):
            return Done([[s.name for s in ctx.awaited], [s.name for s in ctx.inbox]])

    instance = run(OutcomeSleeper)
    assert not workflows.signal(instance, "early").woke
    assert drain() == {}
    advance("1h")
    assert_done(instance, [[], ["early"]])


def test_next_may_name_its_own_step() -> None:
    class OutcomeLoop(Workflow):
        @step
        def a(self, ctx):
            n = ctx.state.get("n", 0)
            return Done(n) if n == 50 else Next("a", {"n": n + 1})

    assert_done(run(OutcomeLoop), 50)


def test_next_consumes_exactly_the_signals_the_step_was_handed_as_awaited() -> None:
    class OutcomeConsume(Workflow):
        @step
        def ask(self, ctx):
            return Await(["a", "b"], then="take")

        @step
        def take(self, ctx):
            workflows.signal(ctx.id, "a", "latecomer")
            return Next("look", {"handed": [[s.name, s.payload] for s in ctx.awaited]})

        @step
        def look(self, ctx):
            return Done([ctx.state["handed"], [[s.name, s.payload] for s in ctx.inbox], len(ctx.awaited)])

    instance = run(OutcomeConsume)
    for name, payload in (("x", 0), ("a", 1), ("b", 2), ("a", 3)):
        workflows.signal(instance, name, payload)
    drain()
    handed, left, awaited = assert_done(instance).result
    assert handed == [["a", 1], ["b", 2], ["a", 3]]
    assert left == [["x", 0], ["a", "latecomer"]]
    assert awaited == 0


@pytest.mark.parametrize("consume", ["note", ["note"], {"note", "absent"}, (n for n in ["note"])])
def test_next_consumes_the_signals_named_in_consume_too(consume: Any) -> None:
    class OutcomeConsumeMore(Workflow):
        @step
        def ask(self, ctx):
            return Await("go", then="take")

        @step
        def take(self, ctx):
            return Next("look", consume=consume)

        @step
        def look(self, ctx):
            return Await("never", then="look")

    instance = run(OutcomeConsumeMore)
    for name in ("note", "other", "note", "go"):
        workflows.signal(instance, name)
    drain()
    assert open_signals(instance) == ["other"]


def test_a_consumed_signal_stays_as_a_row_and_says_when_and_by_which_run() -> None:
    class OutcomeConsumedRow(Workflow):
        @step
        def ask(self, ctx):
            return Await("go", then="take")

        @step
        def take(self, ctx):
            return Done()

    instance = run(OutcomeConsumedRow)
    workflows.signal(instance, "go")
    drain()
    row = Signal.objects.get(instance=instance)
    assert row.consumed_at >= row.received_at
    assert row.consumed_by == 2


# --- state left out -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "outcome",
    [
        pytest.param(lambda: Next("see"), id="Next"),
        pytest.param(lambda: Next("see", delay=60), id="Next with delay"),
        pytest.param(lambda: Await("go", then="see", timeout=60), id="Await"),
        pytest.param(lambda: Spawn([Child(Small)], then="see"), id="Spawn"),
        pytest.param(lambda: Spawn([], then="see"), id="Spawn of none"),
    ],
)
def test_state_left_out_means_ctx_state_as_it_stands_when_the_step_returns(outcome: Any) -> None:
    class OutcomeStateKept(Workflow):
        @step
        def change(self, ctx):
            made = outcome()
            ctx.state["seen"] = True
            return made

        @step
        def see(self, ctx):
            return Done(ctx.state)

    instance = workflows.start(OutcomeStateKept, {"n": 1})
    advance("2m")
    assert_done(instance, {"n": 1, "seen": True})


class Small(Workflow):
    @step
    def a(self, ctx):
        return Done("small")


def test_state_left_out_of_a_retry_means_the_same() -> None:
    class OutcomeRetryState(Workflow):
        @step
        def a(self, ctx):
            if ctx.attempt:
                return Done(ctx.state)
            ctx.state = {"assigned": 1}
            return Retry(delay=0)

    assert_done(run(OutcomeRetryState), {"assigned": 1})


def test_a_state_that_is_given_replaces_what_the_step_changed() -> None:
    class OutcomeStateGiven(Workflow):
        @step
        def a(self, ctx):
            ctx.state["lost"] = True
            return Next("b", {"kept": True})

        @step
        def b(self, ctx):
            return Done(ctx.state)

    assert_done(run(OutcomeStateGiven), {"kept": True})


@pytest.mark.parametrize("value", [None, 0, "", [], {}, False])
def test_a_state_may_be_any_json_value_even_an_empty_one(value: Any) -> None:
    class OutcomeStateEmpty(Workflow):
        @step
        def a(self, ctx):
            return Next("b", value)

        @step
        def b(self, ctx):
            return Done([ctx.state])

    instance = assert_done(run(OutcomeStateEmpty, {"n": 1}), [value])
    assert instance.state == value
    assert instance.input == {"n": 1}


@pytest.mark.parametrize("last", [Done("result"), Stop("reason")])
def test_the_last_state_is_kept_with_the_ended_instance(last: Any) -> None:
    class OutcomeLastState(Workflow):
        @step
        def a(self, ctx):
            ctx.state["last"] = True
            return last

    assert run(OutcomeLastState).state == {"last": True}


# --- Await --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "what",
    ["paid", ["paid"], ("paid", "paid"), {"paid"}, frozenset({"paid"}), {"paid": 1}, (n for n in ["paid"])],
    ids=lambda value: type(value).__name__,
)
def test_await_parks_on_a_name_or_any_iterable_of_names(what: Any) -> None:
    class OutcomeAwait(Workflow):
        @step
        def ask(self, ctx):
            return Await(what, then="end")

        @step
        def end(self, ctx):
            return Done(ctx.awaited[0].name)

    instance = assert_awaiting(run(OutcomeAwait), "paid")
    assert instance.step == "end"
    assert instance.due_at is None
    workflows.signal(instance, "paid")
    drain()
    assert_done(instance, "paid")


def test_await_parks_on_a_set_of_names_and_any_of_them_wakes() -> None:
    class OutcomeAwaitSet(Workflow):
        @step
        def ask(self, ctx):
            return Await({"paid", "refused"}, then="end")

        @step
        def end(self, ctx):
            return Done([s.name for s in ctx.awaited])

    instance = assert_awaiting(run(OutcomeAwaitSet), "paid", "refused")
    assert not workflows.signal(instance, "other").woke
    assert workflows.signal(instance, "refused").woke
    drain()
    assert_done(instance, ["refused"])


def test_await_consumes_nothing() -> None:
    class OutcomeAccumulate(Workflow):
        @step
        def ask(self, ctx):
            return Await("vote", then="count")

        @step
        def count(self, ctx):
            votes = [s.payload for s in ctx.awaited]
            return Done(votes) if len(votes) == 3 else Await("vote", then="count")

    instance = run(OutcomeAccumulate)
    for n in range(3):
        assert len(open_signals(instance)) == n
        workflows.signal(instance, "vote", n)
        drain()
    assert_done(instance, [0, 1, 2])


@pytest.mark.parametrize("name", ['"', "\\", "{a,b}", "a,b", " spaced ", "NULL", "ünï", "a'b", "%(x)s", "{}", "\n"])
def test_await_takes_names_with_characters_that_mean_something_to_postgresql(name: str) -> None:
    class OutcomeNames(Workflow):
        @step
        def ask(self, ctx):
            return Await([name, "other"], then="end")

        @step
        def end(self, ctx):
            return Done([s.name for s in ctx.awaited])

    if not name.strip():
        with pytest.raises(InvalidCall):
            Await(name, then="end")
        return
    instance = run(OutcomeNames)
    assert sorted(instance.names) == sorted([name, "other"])
    assert workflows.signal(instance, name).woke
    drain()
    assert_done(instance, [name])


def test_await_with_a_timeout_runs_the_next_step_when_it_passes() -> None:
    class OutcomeTimeout(Workflow):
        @step
        def ask(self, ctx):
            return Await("paid", then="end", timeout=timedelta(hours=24))

        @step
        def end(self, ctx):
            return Done([ctx.timed_out, len(ctx.awaited), ctx.attempt])

    instance = run(OutcomeTimeout)
    assert instance.due_at is not None
    advance("23h")
    assert_awaiting(instance)
    advance("1h")
    assert_done(instance, [True, 0, 0])


# --- Retry --------------------------------------------------------------------------------------


def test_retry_runs_the_same_step_again_with_the_attempt_raised() -> None:
    class OutcomeRetry(Workflow):
        @step
        def a(self, ctx):
            seen = [*ctx.state.get("seen", []), ctx.attempt]
            return Done(seen) if len(seen) == 4 else Retry({"seen": seen}, delay=0)

    assert_done(run(OutcomeRetry), [0, 1, 2, 3])


def test_retry_without_a_delay_waits_2_to_the_n_seconds() -> None:
    began: list[datetime] = []

    class OutcomeBackOff(Workflow):
        @step
        def a(self, ctx):
            began.append(ctx.now)
            return Retry() if ctx.attempt < 8 else Done(ctx.attempt)

    instance = run(OutcomeBackOff)
    assert instance.status == Status.SLEEPING
    advance("1h")
    assert_done(instance, 8)
    armed = list(instance.events.filter(kind="retried"))
    assert len(armed) == 8
    for n, retried in enumerate(armed):
        # Counted from a moment after the run began and before its ledger row was written, however slow the machine is.
        wait = timedelta(seconds=2**n)
        assert began[n] + wait <= retried.due_at <= retried.at + wait
        assert retried.due_at <= began[n + 1]


def test_retry_with_delay_0_runs_at_once() -> None:
    class OutcomeAtOnce(Workflow):
        @step
        def a(self, ctx):
            return Done(ctx.attempt) if ctx.attempt else Retry(delay=0)

    instance = workflows.start(OutcomeAtOnce)
    assert drain() == {"retry": 1, "done": 1}
    assert_done(instance, 1)


def test_retry_with_a_delay_waits_that_long() -> None:
    class OutcomeRetryDelay(Workflow):
        @step
        def a(self, ctx):
            return Done(ctx.attempt) if ctx.attempt else Retry(delay="1h")

    instance = run(OutcomeRetryDelay)
    advance("59m")
    instance.refresh_from_db()
    assert instance.status == Status.SLEEPING
    advance("1m")
    assert_done(instance, 1)


def test_retry_keeps_the_awaited_inputs_and_consumes_nothing() -> None:
    class OutcomeRetryInputs(Workflow):
        @step
        def ask(self, ctx):
            return Await("paid", then="ship", timeout="1h")

        @step
        def ship(self, ctx):
            handed = [s.payload for s in ctx.awaited]
            return Done(handed) if ctx.attempt == 2 else Retry(delay="1m")

    instance = run(OutcomeRetryInputs)
    workflows.signal(instance, "paid", 1)
    drain()
    assert open_signals(instance) == ["paid"]
    workflows.signal(instance, "paid", 2)
    advance("1m")
    assert open_signals(instance) == ["paid", "paid"]
    advance("1m")
    assert_done(instance, [1, 2])


def test_retry_keeps_timed_out() -> None:
    class OutcomeRetryTimedOut(Workflow):
        @step
        def ask(self, ctx):
            return Await("paid", then="end", timeout="1h")

        @step
        def end(self, ctx):
            return Done(ctx.timed_out) if ctx.attempt else Retry(delay="1m")

    instance = run(OutcomeRetryTimedOut)
    advance("2h")
    assert_done(instance, True)


# --- Done and Stop ------------------------------------------------------------------------------


@pytest.mark.parametrize("result", [None, 0, "", [], {"a": [1]}, True, "text"])
def test_done_ends_the_instance_with_its_result(result: Any) -> None:
    class OutcomeDone(Workflow):
        @step
        def a(self, ctx):
            return Done(result)

    instance = run(OutcomeDone)
    assert (instance.status, instance.result, instance.error) == (Status.DONE, result, None)
    assert instance.finished_at is not None
    assert workflows.result(instance) == result


def test_stop_ends_the_instance_as_failed_with_its_reason() -> None:
    class OutcomeStop(Workflow):
        @step
        def a(self, ctx):
            return Stop("payment never came")

    instance = run(OutcomeStop)
    assert (instance.status, instance.result, instance.error) == (Status.FAILED, None, "payment never came")
    assert instance.finished_at is not None
    with pytest.raises(workflows.InstanceFailed, match="payment never came"):
        workflows.result(instance)


@pytest.mark.parametrize("last", [Done(), Stop("reason")], ids=["done", "failed"])
def test_the_whole_inbox_is_closed_at_the_end(last: Any) -> None:
    class OutcomeInboxClosed(Workflow):
        @step
        def ask(self, ctx):
            return Await("paid", then="end")

        @step
        def end(self, ctx):
            return last

    instance = run(OutcomeInboxClosed)
    workflows.signal(instance, "unasked")
    workflows.signal(instance, "paid")
    drain()
    with pytest.raises(NoTarget):
        workflows.signal(instance, "paid")
    assert Signal.objects.filter(instance=instance).count() == 2


# --- what outcomes refuse to be made of -----------------------------------------------------------

BAD_NAMES = [None, 5, b"paid", "", "   ", "a\0b", "\ud800", "x" * 201, ["paid"], object()]


@pytest.mark.parametrize("name", BAD_NAMES, ids=lambda value: ascii(value)[:20])
@pytest.mark.parametrize(
    "make",
    [
        pytest.param(Next, id="Next"),
        pytest.param(lambda name: Await("paid", then=name), id="Await then"),
        pytest.param(lambda name: Await([name], then="a"), id="Await name"),
        pytest.param(lambda name: Next("a", consume=[name]), id="Next consume"),
        pytest.param(lambda name: Spawn([], then=name), id="Spawn then"),
    ],
)
def test_a_name_must_be_usable_text(make: Any, name: Any) -> None:
    with pytest.raises(InvalidCall):
        make(name)


@pytest.mark.parametrize("key", [5, b"k", "", "  ", "a\0b", "\ud800", "x" * 201, object()])
def test_a_childs_key_must_be_usable_text(key: Any) -> None:
    with pytest.raises(InvalidCall, match="key"):
        Child("Pack", key=key)


@pytest.mark.parametrize("reason", [None, 5, "", "  ", "a\0b", "\ud800", "x" * 100_001, ValueError("no")])
def test_a_reason_must_be_usable_text(reason: Any) -> None:
    with pytest.raises(InvalidCall, match="reason"):
        Stop(reason)


@pytest.mark.parametrize("what", [None, 5, object(), [], set(), ()])
def test_await_needs_a_name_or_several(what: Any) -> None:
    with pytest.raises(InvalidOutcome):
        Await(what, then="a")


@pytest.mark.parametrize("consume", [5, object(), None])
def test_consume_takes_a_name_or_several(consume: Any) -> None:
    with pytest.raises(InvalidCall):
        Next("a", consume=consume)


@pytest.mark.parametrize("timeout", [0, -1, "0s", "-5m", "soon", "", timedelta(0), float("nan"), True, [1], b"1h"])
def test_a_timeout_must_be_a_duration_above_zero(timeout: Any) -> None:
    with pytest.raises(InvalidDuration):
        Await("paid", then="a", timeout=timeout)


@pytest.mark.parametrize("delay", [-1, "-5m", "soon", "", timedelta(-1), float("nan"), False, [1]])
@pytest.mark.parametrize("make", [lambda delay: Next("a", delay=delay), lambda delay: Retry(delay=delay)])
def test_a_delay_must_be_a_duration_from_zero_on(make: Any, delay: Any) -> None:
    with pytest.raises(InvalidDuration):
        make(delay)


@pytest.mark.parametrize("children", [["Pack"], [None], [Small], [Child(Small), {"workflow": "Pack"}]])
def test_spawn_takes_children_only(children: Any) -> None:
    with pytest.raises(InvalidOutcome, match="Child"):
        Spawn(children, then="a")


@pytest.mark.parametrize("children", [None, 5, Child("Pack")])
def test_spawn_takes_an_iterable_of_children(children: Any) -> None:
    with pytest.raises(InvalidCall, match="Spawn"):
        Spawn(children, then="a")


def test_two_children_of_one_spawn_cannot_have_the_same_key() -> None:
    with pytest.raises(InvalidOutcome, match="same key"):
        Spawn([Child("Pack", key="k"), Child("Pack", key="k")], then="a")


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Await("paid"), TypeError),
        (lambda: Await("paid", "then"), TypeError),
        (lambda: Next("a", {}, 5), TypeError),
        (lambda: Spawn([Child("Pack")]), TypeError),
        (lambda: Child("Pack", {}, "key"), TypeError),
        (lambda: Stop(), TypeError),
        (lambda: Retry({}, 5), TypeError),
    ],
)
def test_required_and_keyword_only_arguments_are_so(make: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        make()


@pytest.mark.parametrize(
    "outcome", [Next("a"), Await("b", then="a"), Retry(), Spawn([], then="a"), Done(), Stop("r"), Child("c")]
)
def test_outcomes_are_frozen(outcome: Any) -> None:
    with pytest.raises((AttributeError, TypeError)):
        outcome.step = "other"
    with pytest.raises((AttributeError, TypeError)):
        outcome.brand_new = 1


def test_an_error_in_an_outcome_reaches_handle_like_any_other() -> None:
    class OutcomeBadArgument(Workflow):
        @step
        def a(self, ctx):
            return Await("paid", then="a", timeout=0)

    assert_failed(run(OutcomeBadArgument), "InvalidDuration: 0 is not a usable duration")
