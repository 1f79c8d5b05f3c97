"""Running a durable function again: what must match, what a suspension does, what a failure and a retry keep."""

import contextlib
import itertools

import pytest
from django.test.utils import CaptureQueriesContext

import workflows
from workflows import ChildFailed, SignalTimeoutError, Stop, Workflow, durable, step
from workflows.models import AwaitUnit, Checkpoint, EventWait, Instance, Interaction
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db


def start(body, name="replay", *, input=None, **options):
    instance = workflows.start(durable(name=name, **options)(body), input)
    drain()
    return instance


def answer(instance, data=None):
    workflows.complete(Interaction.objects.get(instance=instance, status="pending"), data)
    drain()


# --- what must match -----------------------------------------------------------------------------


@durable(name="replay.child")
def child(ctx):
    return 1


CALLS = {
    "step": lambda ctx, id: ctx.step(id, lambda: 1),
    "atomic": lambda ctx, id: ctx.atomic(id, lambda: 1),
    "sleep": lambda ctx, id: ctx.sleep(id, "1m"),
    "wait_for_signal": lambda ctx, id: ctx.wait_for_signal(id, timeout="1h"),
    "wait_for_event": lambda ctx, id: ctx.wait_for_event(id, event="go", timeout="1h"),
    "wait_for": lambda ctx, id: ctx.wait_for(id, "api"),
    "callback": lambda ctx, id: ctx.callback(id, timeout="1h"),
    "launch": lambda ctx, id: ctx.launch(id, child),
    "emit": lambda ctx, id: ctx.emit(id, "said"),
    "invoke": lambda ctx, id: ctx.invoke(id, child),
}


@pytest.mark.parametrize(
    ("first", "then", "told"),
    [
        (["step a"], ["step b"], "call 0 of this workflow was step 'a', and is step 'b'"),
        (["step a"], ["atomic a"], "call 0 of this workflow was step 'a', and is atomic 'a'"),
        (["step a"], ["sleep a"], "was step 'a', and is sleep 'a'"),
        (["step a"], ["wait_for_signal a"], "was step 'a', and is wait_for_signal 'a'"),
        (["step a"], ["wait_for_event a"], "was step 'a', and is wait_for_event 'a'"),
        (["step a"], ["wait_for a"], "was step 'a', and is wait_for 'a'"),
        (["callback a"], ["step a"], "was callback 'a', and is step 'a'"),
        (["launch a"], ["emit a"], "was launch 'a', and is emit 'a'"),
        (["emit a"], ["invoke a"], "was emit 'a', and is invoke 'a'"),
        (["step a", "step b"], ["step b", "step a"], "call 0 of this workflow was step 'a', and is step 'b'"),
        (["step a", "step b"], ["step a", "step c", "step b"], "call 1 of this workflow was step 'b', and is step 'c'"),
        (["step a", "step b"], ["step b"], "call 0 of this workflow was step 'a', and is step 'b'"),
    ],
)
def test_a_replay_that_makes_other_calls_fails_at_once_saying_what_differed(first, then, told):
    runs = [first, then]

    def body(ctx):
        for one in runs.pop(0):
            kind, id = one.split()
            CALLS[kind](ctx, id)
        ctx.sleep("end", "1m")

    instance = start(body)
    before = Checkpoint.objects.filter(instance=instance).count()
    advance("1m")
    assert_failed(instance, "NonDeterministic")
    assert_failed(instance, told)
    assert not runs
    assert Checkpoint.objects.filter(instance=instance).count() == before


def test_calls_that_are_missing_at_the_end_are_told_too():
    calls = [2, 1]

    def body(ctx):
        for n in range(calls.pop(0)):
            ctx.step(f"s{n}", lambda: 1)
        if len(calls) == 1:
            ctx.sleep("nap", "1m")
        return "end"

    instance = start(body)
    advance("1m")
    assert_failed(instance, "call 1 of this workflow was step 's1', and is the end of the function")


def test_a_function_that_makes_no_call_any_more_is_told_too():
    first = [True]

    def body(ctx):
        if first:
            first.clear()
            ctx.sleep("nap", "1m")

    instance = start(body)
    advance("1m")
    assert_failed(instance, "was sleep 'nap', and is the end of the function")


def test_new_calls_after_the_last_saved_one_are_fine():
    more = []

    def body(ctx):
        ctx.wait_for_signal("gate", timeout="1h")
        return [ctx.step(id, lambda: 1) for id in more]

    instance = start(body)
    more += ["x", "y"]
    answer(instance)
    assert_done(instance, [1, 1])


def test_what_differs_is_noticed_before_anything_new_is_done():
    done, way = [], ["a"]

    def body(ctx):
        ctx.step(way[0], lambda: done.append(way[0]))
        ctx.wait_for_signal("gate", timeout="1h")

    instance = start(body)
    way[0] = "b"
    answer(instance)
    assert done == ["a"]


@pytest.mark.parametrize("second", ["step", "sleep", "wait_for_signal"])
def test_two_calls_with_one_id_in_a_run_are_an_error_that_says_so(second):
    def body(ctx):
        ctx.step("same", lambda: 1)
        CALLS[second](ctx, "same")

    instance = start(body)
    advance("1h")
    assert_failed(instance, "the id 'same' is used by two calls of one run")
    assert not [event for event in instance.events.all() if event.kind == "run_failed"]
    assert Checkpoint.objects.count() == 1


@pytest.mark.parametrize("id", ["", 7, None, "a\0b"])
def test_an_id_that_is_no_text_is_refused(id):
    instance = start(lambda ctx: ctx.step(id, lambda: 1), max_attempts=1)
    assert_failed(instance, "the id of a call")


# --- a step that failed, and was caught ----------------------------------------------------------


def test_a_step_that_failed_and_was_caught_may_be_followed_by_others():
    """Compensation: what the author caught is behind the function, and its later runs must agree."""
    tries = []

    def charge():
        tries.append(1)
        raise OSError("card refused")

    def body(ctx):
        try:
            ctx.step("charge", charge)
        except OSError:
            ctx.step("undo", lambda: 1)
            ctx.sleep("nap", "1m")
            return "compensated"

    instance = start(body)
    advance("1m")
    assert_done(instance, "compensated")


def test_a_failure_that_was_caught_is_told_again_by_class_and_message_and_its_function_does_not_run_again():
    ran, told = [], []

    def charge():
        ran.append(1)
        raise LookupError("no such card")

    def body(ctx):
        try:
            ctx.atomic("charge", charge)
        except LookupError as error:
            told.append(str(error))
        ctx.sleep("nap", "1m")
        return "end"

    instance = start(body)
    advance("1m")
    assert_done(instance, "end")
    assert ran == [1]
    assert told == ["no such card"] * 2


def test_a_failure_that_was_caught_changes_no_later_position():
    def body(ctx):
        got = []
        for n in range(4):
            with contextlib.suppress(ZeroDivisionError):
                got.append(ctx.step(f"s{n}", lambda n=n: 1 // (n % 2)))
            ctx.sleep(f"nap{n}", "1m")
        return got

    instance = start(body)
    advance("4m")
    assert_done(instance, [1, 1])


# --- suspension ----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["sleep", "wait_for_signal", "wait_for_event", "wait_for", "invoke"])
@pytest.mark.parametrize("caught", [Exception, BaseException])
def test_a_suspension_cannot_be_swallowed(kind, caught):
    after = []

    @durable(name="replay.napper")
    def napper(ctx):
        ctx.sleep("nap", "1m")

    def body(ctx):
        try:
            if kind == "invoke":
                ctx.invoke("a", napper)
            else:
                CALLS[kind](ctx, "a")
        except caught:
            after.append("swallowed")
        return "too early"

    instance = start(body)
    assert Instance.objects.get(pk=instance.pk).status in ("awaiting", "sleeping", "awaiting_children")
    assert after == ([] if caught is Exception else ["swallowed"])


def test_a_suspension_that_was_swallowed_lets_no_further_call_happen():
    done = []

    def body(ctx):
        with contextlib.suppress(BaseException):
            ctx.wait_for_signal("gate", timeout="1h")
        for name in ("one", "two"):
            with contextlib.suppress(BaseException):
                ctx.step(name, lambda name=name: done.append(name))
        return "end"

    instance = start(body)
    assert_awaiting(instance, "gate")
    assert done == []
    answer(instance)
    assert_done(instance, "end")
    assert done == ["one", "two"]


def test_an_exception_raised_while_the_suspension_passes_does_not_hide_it():
    def body(ctx):
        try:
            ctx.wait_for_signal("gate", timeout="1h")
        except BaseException as error:
            if type(error).__name__ == "Suspended":
                raise RuntimeError("hidden") from error
            raise
        return "end"

    instance = start(body)
    assert_awaiting(instance, "gate")
    answer(instance)
    assert_done(instance, "end")


def test_finally_runs_on_a_suspension_and_calls_in_it_do_not_happen():
    ran, done = [], []

    def body(ctx):
        try:
            return ctx.wait_for_signal("gate", timeout="1h")
        finally:
            ran.append(1)
            ctx.step("clean", lambda: done.append(1))

    instance = start(body)
    assert_awaiting(instance, "gate")
    assert (ran, done) == ([1], [])
    answer(instance, 5)
    assert_done(instance, 5)
    assert (ran, done) == ([1, 1], [1])


def test_finally_of_a_sleep_runs_and_its_call_waits_for_the_end():
    done = []

    def body(ctx):
        try:
            ctx.sleep("nap", "1h")
        finally:
            ctx.step("clean", lambda: done.append(1))

    instance = start(body)
    assert done == []
    advance("1h")
    assert_done(instance)
    assert done == [1]


# --- errors --------------------------------------------------------------------------------------


def test_an_uncaught_error_is_tried_again_after_a_back_off_that_grows():
    times = []

    def body(ctx):
        times.append((ctx.now, ctx.attempt))
        raise RuntimeError("no")

    instance = start(body, max_attempts=4)
    assert Instance.objects.get(pk=instance.pk).status == "sleeping"
    advance("1h")
    assert_failed(instance, "RuntimeError: no")
    assert [attempt for _, attempt in times] == [0, 1, 2, 3]
    gaps = [(later - sooner).total_seconds() for (sooner, _), (later, _) in itertools.pairwise(times)]
    for n, gap in enumerate(gaps):
        assert 0.5 * 2**n <= gap <= 2**n + 0.5, gaps


def test_the_back_off_ends_at_five_minutes():
    times = []

    def body(ctx):
        times.append(ctx.now)
        raise RuntimeError("no")

    start(body, max_attempts=14)
    advance("1d")
    gaps = [(later - sooner).total_seconds() for sooner, later in itertools.pairwise(times)]
    assert len(times) == 14
    assert max(gaps) <= 300.5


def test_a_step_that_was_saved_does_not_run_again_for_an_error_after_it():
    ran = []

    def body(ctx):
        ctx.step("a", lambda: ran.append(1))
        if ctx.attempt < 2:
            raise RuntimeError("no")
        return ctx.attempt

    instance = start(body)
    advance("1m")
    # The run that saved the step is the first without progress after it.
    assert_done(instance, 2)
    assert ran == [1]


def test_committed_progress_sets_the_count_of_failures_back():
    failures = iter([1] * 12)

    def body(ctx):
        for n in range(12):
            ctx.step(f"s{n}", lambda: 1)
            if n % 3 == 2 and next(failures, None):
                raise RuntimeError("no")
        return "through"

    assert_failed(start(lambda ctx: 1 / 0, "replay.control", max_attempts=1))
    instance = start(body, max_attempts=14)
    advance("1h")
    assert_done(instance, "through")


def test_max_attempts_bounds_the_failures_in_a_row_and_a_wait_between_sets_them_back():
    seen = []

    def body(ctx):
        for n in range(3):
            ctx.wait_for_signal(f"gate-{n}", timeout="1d")
            if len([one for one in seen if one == n]) < 2:
                seen.append(n)
                raise RuntimeError("no")
        return "through"

    instance = start(body, max_attempts=3)
    for _ in range(3):
        answer(instance)
        advance("1m")
    assert_done(instance, "through")
    assert seen == [0, 0, 1, 1, 2, 2]


class Failing(Workflow):
    name = "replay.failing"

    @step
    def go(self, ctx):
        return Stop("no luck")


def test_an_answer_that_was_taken_is_there_again_when_the_run_fails_after_it():
    got = []

    def body(ctx):
        got.append(ctx.wait_for_signal("gate", timeout="1h"))
        if ctx.attempt < 2:
            raise RuntimeError("no")
        return got[-1]

    instance = start(body)
    answer(instance, {"n": 1})
    advance("1m")
    assert_done(instance, {"n": 1})
    assert got == [{"n": 1}] * 3


def test_an_event_that_was_taken_is_there_again_when_the_run_fails_after_it():
    failures = [1, 1]

    def body(ctx):
        first = ctx.wait_for_event("w", event="go", timeout="1h")
        if failures:
            raise RuntimeError(f"no {failures.pop()}")
        return [first, ctx.wait_for_event("w2", event="go", timeout="1h")]

    instance = start(body)
    workflows.emit("go", 1)
    drain()
    advance("1m")
    assert_awaiting(instance, "go")
    workflows.emit("go", 2)
    drain()
    assert_done(instance, [1, 2])


def test_a_timeout_that_was_met_is_met_again_when_the_run_fails_after_it():
    def body(ctx):
        try:
            ctx.invoke("slow", napping, timeout="1m")
        except SignalTimeoutError:
            if ctx.attempt < 2:
                raise RuntimeError("no") from None
            return "late"

    @durable(name="replay.napping")
    def napping(ctx):
        ctx.sleep("nap", "1h")

    instance = start(body)
    advance("2m")
    assert_done(instance, "late")
    assert Instance.objects.filter(parent=instance).count() == 1


# --- what a further run finds again --------------------------------------------------------------


@pytest.mark.parametrize("kind", ["wait_for_signal", "wait_for", "callback", "wait_for_event"])
def test_a_run_that_was_repeated_before_its_park_finds_its_wait_address_and_deadline(kind):
    """The wait is caught on its way out, and the run fails instead of parking: what it asked stands already."""
    urls, failures = [], [1, 1]

    def body(ctx):
        if kind == "callback":
            cb = ctx.callback("ask", timeout="1h")
            urls.append((cb.resume_url, cb.resume_token))
            if failures:
                raise RuntimeError(f"no {failures.pop()}")
            return cb.wait()
        if failures:
            ctx.suspended = None
            with contextlib.suppress(BaseException):
                CALLS[kind](ctx, "ask")
            ctx.suspended = None
            raise RuntimeError(f"no {failures.pop()}")
        return ctx.wait_for("ask", "api", timeout="1h") if kind == "wait_for" else CALLS[kind](ctx, "ask")

    instance = start(body)
    advance("1m")
    assert_awaiting(instance)
    assert not failures
    assert len(set(urls)) <= 1
    assert Checkpoint.objects.count() == 1
    instance.refresh_from_db()
    if kind == "wait_for_event":
        assert EventWait.objects.filter(closed_at=None).count() == 1
        assert instance.due_at == Checkpoint.objects.get().deadline
        workflows.emit("go", 1)
        drain()
    else:
        assert AwaitUnit.objects.count() == 1
        assert instance.due_at == Interaction.objects.get().deadline
        answer(instance, 1)
    assert_done(instance, 1)


def test_a_question_that_stands_is_suspended_on_with_the_same_deadline():
    def body(ctx):
        ctx.sleep("nap", "10m")
        return ctx.wait_for_signal("gate", timeout="1h")

    instance = start(body)
    advance("10m")
    instance.refresh_from_db()
    asked = Interaction.objects.get()
    assert instance.due_at == asked.deadline == asked.unit.deadline


# --- retry ---------------------------------------------------------------------------------------


def test_retry_keeps_what_was_saved_and_asks_anew_what_timed_out():
    ran = []

    def body(ctx):
        ctx.step("a", lambda: ran.append(1))
        return ctx.wait_for_signal("gate", timeout="1h")

    instance = start(body)
    advance("1h")
    assert_failed(instance, "SignalTimeoutError")
    workflows.retry(instance)
    drain()
    assert_awaiting(instance, "gate")
    assert Interaction.objects.filter(instance=instance).count() == 2
    assert sorted(AwaitUnit.objects.values_list("visit", flat=True)) == [1, 2]
    instance.refresh_from_db()
    asked = Interaction.objects.get(status="pending")
    assert instance.due_at == asked.deadline
    answer(instance, 1)
    assert_done(instance, 1)
    assert ran == [1]


def test_retry_asks_a_callback_anew_that_timed_out_after_its_address_was_handed_out():
    urls = []

    def body(ctx):
        cb = ctx.callback("pay", timeout="1h")
        urls.append(cb.resume_url)
        ctx.step("tell", lambda: urls.append(cb.resume_url))
        return cb.wait()

    instance = start(body)
    advance("1h")
    assert_failed(instance, "SignalTimeoutError")
    workflows.retry(instance)
    drain()
    assert_awaiting(instance, "pay")
    answer(instance, 1)
    assert_done(instance, 1)


def test_retry_runs_no_saved_step_again_that_stands_between_a_callback_and_its_wait():
    ran = []

    def body(ctx):
        cb = ctx.callback("pay", timeout="1h")
        ctx.atomic("charge", lambda: ran.append("charge"))
        return cb.wait()

    instance = start(body)
    advance("1h")
    assert_failed(instance, "SignalTimeoutError")
    workflows.retry(instance)
    drain()
    assert_awaiting(instance, "pay")
    assert ran == ["charge"]


def test_retry_asks_an_open_callback_anew_that_the_failure_closed():
    urls, broken = [], [True]

    def body(ctx):
        cb = ctx.callback("pay", timeout="1h")
        urls.append(cb.resume_url)
        ctx.step("tell", lambda: 1)
        if broken:
            raise RuntimeError("no")
        return cb.wait()

    instance = start(body, max_attempts=1)
    assert_failed(instance, "RuntimeError")
    assert Interaction.objects.get().status == "cancelled"
    broken.clear()
    workflows.retry(instance)
    drain()
    assert_awaiting(instance, "pay")
    assert len(set(urls)) == 2
    answer(instance, 1)
    assert_done(instance, 1)


def test_retry_invokes_anew_a_child_that_failed():
    luck = []

    class Lucky(Workflow):
        name = "replay.lucky"

        @step
        def go(self, ctx):
            return Stop("no luck") if not luck else workflows.Done("luck")

    def body(ctx):
        return ctx.invoke("c", Lucky)

    instance = start(body)
    assert_failed(instance, "ChildFailed")
    luck.append(1)
    workflows.retry(instance)
    drain()
    assert_done(instance, "luck")
    assert Instance.objects.filter(parent=instance).count() == 2


def test_retry_invokes_anew_a_child_that_was_too_slow():
    @durable(name="replay.slow")
    def slow(ctx):
        ctx.sleep("nap", "5m")
        return 1

    instance = start(lambda ctx: ctx.invoke("c", slow, timeout="1m"))
    advance("1m")
    assert_failed(instance, "SignalTimeoutError")
    workflows.retry(instance)
    drain()
    assert Instance.objects.get(pk=instance.pk).status == "awaiting_children"


def test_retry_keeps_an_event_wait_that_timed_out_and_was_passed():
    broken = [True]

    def body(ctx):
        got = ctx.wait_for_event("w", event="go", timeout="1m")
        ctx.step("after", lambda: 1)
        if broken:
            raise RuntimeError("no")
        return got

    instance = start(body, max_attempts=1)
    advance("1m")
    assert_failed(instance, "RuntimeError")
    broken.clear()
    workflows.retry(instance)
    drain()
    assert_done(instance, None)


def test_retry_keeps_a_caught_child_failure_that_calls_came_after():
    broken = [True]

    def body(ctx):
        with contextlib.suppress(ChildFailed):
            ctx.invoke("c", Failing)
        ctx.step("after", lambda: 1)
        if broken:
            raise RuntimeError("no")
        return "end"

    instance = start(body, max_attempts=1)
    assert_failed(instance, "RuntimeError")
    broken.clear()
    workflows.retry(instance)
    drain()
    assert_done(instance, "end")
    assert Instance.objects.filter(parent=instance).count() == 1


def test_retry_gives_max_attempts_runs_again():
    runs = []

    def body(ctx):
        runs.append(ctx.attempt)
        raise RuntimeError("no")

    instance = start(body, max_attempts=2)
    advance("1m")
    assert_failed(instance)
    workflows.retry(instance)
    advance("1m")
    assert_failed(instance)
    assert runs == [0, 1, 0, 1]


# --- cost ----------------------------------------------------------------------------------------


def count_statements(checkpoints, pause):
    """What `drain()` sends for one resumption, with so many checkpoints behind it."""

    def body(ctx):
        total = sum(ctx.step(f"s{n}", lambda n=n: n) for n in range(checkpoints))
        pause(ctx)
        return total

    from django.db import connection

    instance = start(body, f"replay.cost_{checkpoints}")
    if (asked := Interaction.objects.filter(instance=instance).first()) is not None:
        workflows.complete(asked, 1)
    elif EventWait.objects.filter(instance=instance).exists():
        workflows.emit("go", 1)
    else:
        Instance.objects.get(pk=instance.pk)
    with CaptureQueriesContext(connection) as captured:
        drain() if Instance.objects.get(pk=instance.pk).status == "runnable" else advance("1m")
    assert_done(instance, sum(range(checkpoints)))
    sent = [one["sql"] for one in captured if not one["sql"].upper().startswith(("SAVEPOINT", "RELEASE", "ROLLBACK"))]
    reads = [
        sql for sql in sent if "holdpoint_checkpoint" in sql and "EXISTS" not in sql
    ]  # but for the look of a sweep
    return len(sent), len(reads)


@pytest.mark.parametrize(
    "pause",
    [
        lambda ctx: ctx.wait_for_signal("gate", timeout="1h"),
        lambda ctx: ctx.callback("gate", timeout="1h").wait(),
        lambda ctx: ctx.sleep("nap", "1m"),
    ],
    ids=["signal", "callback", "sleep"],
)
def test_a_resumption_reads_its_checkpoints_in_one_statement_however_many_there_are(pause):
    count_statements(1, pause)  # the first advance() of a test replaces the clock
    few, few_reads = count_statements(5, pause)
    many, many_reads = count_statements(200, pause)
    assert few == many
    assert few_reads == many_reads == 1


def test_a_first_run_reads_no_checkpoints_at_all():
    from django.db import connection

    workflows.start(durable(name="replay.first")(lambda ctx: ctx.step("a", lambda: 1)))
    with CaptureQueriesContext(connection) as captured:
        drain()
    assert not [one for one in captured if "FROM holdpoint_checkpoint c LEFT JOIN" in one["sql"]]
