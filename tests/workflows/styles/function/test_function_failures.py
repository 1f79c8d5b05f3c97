"""What a durable function raises: which errors are tried again, what a catch decides, what a retry makes anew.

An error that leaves the function was not caught, whatever calls were made on its way out.
"""

import contextlib

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, connection, transaction

import workflows
from tests.support.races import play, take_one
from workflows import Await, Done, InvalidCall, PolicyRefused, SignalTimeoutError, Workflow, durable, step, store
from workflows.exceptions import StepTimedOut
from workflows.models import AwaitUnit, Checkpoint, EventWait, Instance, Interaction, NamedEvent
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db


def start(body, name="failures", **options):
    instance = workflows.start(durable(name=name, **options)(body))
    drain()
    return instance


def retry(instance):
    workflows.retry(instance)
    drain()


def answer(instance, data=None):
    workflows.complete(Interaction.objects.get(instance=instance, status="pending"), data)
    drain()


def count_failed_runs(instance):
    return [event.kind for event in instance.events.all()].count("run_failed")


class Flaky:
    """Something that fails so many times, and then works."""

    def __init__(self, failures, error=ValueError):
        self.failures, self.error, self.ran = failures, error, 0

    def __call__(self):
        self.ran += 1
        if self.ran <= self.failures:
            raise self.error("down")
        return "ok"


class Late(Workflow):
    name = "failures.late"

    @step
    def go(self, ctx):
        return Await("go on", then="end")

    @step
    def end(self, ctx):
        return Done(ctx.input)


# --- an error that leaves the function was not caught --------------------------------------------


def leave_by_finally(ctx, call, clean_up):
    try:
        return call()
    finally:
        clean_up()


def leave_by_raising_it_again(ctx, call, clean_up):
    try:
        return call()
    except ValueError:
        clean_up()
        raise


def leave_by_raising_another_from_it(ctx, call, clean_up):
    try:
        return call()
    except ValueError as error:
        clean_up()
        raise RuntimeError("told otherwise") from error


leaves = pytest.mark.parametrize(
    "leave",
    [
        leave_by_finally,
        leave_by_raising_it_again,
        leave_by_raising_another_from_it,
    ],
)


@leaves
@pytest.mark.parametrize("call", ["step", "atomic"])
def test_a_call_on_the_way_out_does_not_make_an_error_final(leave, call):
    flaky, cleaned = Flaky(2), []

    def body(ctx):
        return leave(
            ctx, lambda: getattr(ctx, call)("work", flaky), lambda: ctx.step("clean", lambda: cleaned.append(1))
        )

    instance = start(body)
    advance("10m")
    assert_done(instance, "ok")
    assert flaky.ran == 3
    assert count_failed_runs(instance) == 2
    by_finally = leave is leave_by_finally
    assert len(cleaned) == (3 if by_finally else 2)
    names = list(Checkpoint.objects.filter(instance=instance).order_by("position").values_list("name", flat=True))
    assert names == (["work", "clean"] if by_finally else ["work"])


@leaves
def test_max_attempts_bounds_an_error_with_calls_on_its_way_out(leave):
    flaky = Flaky(99)

    def body(ctx):
        return leave(ctx, lambda: ctx.step("work", flaky), lambda: ctx.step("clean", lambda: 1))

    instance = start(body, max_attempts=3)
    assert advance("1h")
    assert_failed(instance, "run 3 of at most 3")
    assert flaky.ran == 3


@leaves
def test_what_was_saved_before_the_failing_call_is_progress_all_the_same(leave):
    first, second = Flaky(2), Flaky(2)

    def body(ctx):
        ctx.step("first", first)
        return leave(ctx, lambda: ctx.step("second", second), lambda: ctx.step("clean", lambda: 1))

    instance = start(body, max_attempts=3)
    advance("10m")
    assert_done(instance, "ok")
    assert (first.ran, second.ran) == (3, 3)


@leaves
def test_a_retry_makes_the_call_again_that_failed_before_the_clean_up(leave):
    flaky = Flaky(1)

    def body(ctx):
        ctx.step("before", lambda: kept.append(1))
        return leave(ctx, lambda: ctx.step("work", flaky), lambda: ctx.step("clean", lambda: 1))

    kept = []
    instance = start(body, max_attempts=1)
    assert_failed(instance)
    retry(instance)
    assert_done(instance, "ok")
    assert (flaky.ran, kept) == (2, [1])


def test_a_question_that_was_asked_on_the_way_out_is_closed_and_asked_anew():
    flaky = Flaky(1)

    def body(ctx):
        try:
            return ctx.step("work", flaky)
        finally:
            assert ctx.callback("tell", timeout="1h").resume_url

    instance = start(body)
    [first] = Interaction.objects.filter(instance=instance)
    assert (first.status, first.unit.status) == ("cancelled", "cancelled")
    advance("1m")
    assert_done(instance, "ok")
    assert sorted(AwaitUnit.objects.filter(instance=instance).values_list("visit", flat=True)) == [1, 2]


def test_a_loop_that_tries_by_itself_gives_up_and_begins_with_its_last_try():
    """Each failure but the last was caught; only that one is made again."""
    flaky = Flaky(3)

    def body(ctx):
        for n in range(3):
            try:
                return ctx.step(f"try {n}", flaky)
            except ValueError:
                if n == 2:
                    ctx.step("alert", lambda: 1)
                    raise
        return "never tried"

    instance = start(body)
    advance("10m")
    assert_done(instance, "ok")
    assert flaky.ran == 4
    assert list(Checkpoint.objects.order_by("position").values_list("name", "failed")) == [
        ("try 0", True),
        ("try 1", True),
        ("try 2", False),
    ]


def test_what_a_handler_meets_on_its_way_does_not_undo_its_catch():
    """Another error inside an `except`, not raised from the one it caught, is an error of its own."""
    charge, notes, down = Flaky(1), [], Flaky(1, ConnectionError)

    def body(ctx):
        try:
            return ctx.step("charge", charge)
        except ValueError:
            ctx.step("note", lambda: notes.append(1))
            down()
            return "declined"

    instance = start(body)
    advance("1m")
    assert_done(instance, "declined")
    assert (charge.ran, notes, down.ran) == (1, [1], 2)


# --- what a retry makes again --------------------------------------------------------------------


def test_a_retry_asks_anew_what_timed_out_before_a_clean_up():
    cleaned = []

    def body(ctx):
        try:
            return ctx.wait_for_signal("gate", timeout="1h")
        except SignalTimeoutError:
            ctx.step("clean", lambda: cleaned.append(1))
            raise

    instance = start(body)
    for _ in range(2):
        assert_awaiting(instance, "gate")
        advance("1h")
        assert_failed(instance, "SignalTimeoutError")
        retry(instance)
    assert_awaiting(instance, "gate")
    answer(instance, 5)
    assert_done(instance, 5)
    assert cleaned == [1, 1]
    assert list(Checkpoint.objects.values_list("name", flat=True)) == ["gate"]


def test_a_retry_does_not_wait_again_for_an_event_that_did_not_come():
    """None is a result like any other, even where it was the last one before the failure."""
    broken = [True]

    def body(ctx):
        got = ctx.wait_for_event("w", event="failures.never", timeout="1h")
        if broken:
            raise RuntimeError("unrelated")
        return [got]

    instance = start(body, max_attempts=1)
    advance("1h")
    assert_failed(instance, "unrelated")
    broken.clear()
    retry(instance)
    assert_done(instance, [None])


def test_a_retry_does_not_ask_anew_what_the_function_had_decided_about():
    broken = [True]

    def body(ctx):
        try:
            got = ctx.wait_for_signal("gate", timeout="1h")
        except SignalTimeoutError:
            got = "nobody"
        if broken:
            raise RuntimeError("unrelated")
        return got

    instance = start(body, max_attempts=1)
    advance("1h")
    assert_failed(instance, "unrelated")
    broken.clear()
    retry(instance)
    assert_done(instance, "nobody")
    assert Interaction.objects.count() == 1


def test_a_retry_keeps_what_was_saved_after_a_run_that_failed_while_it_handled_a_timeout():
    """A later run came past it: the instance failed of something else."""
    flaky, broken, refunds = Flaky(1, ConnectionError), [True], []

    def body(ctx):
        try:
            ctx.wait_for_signal("gate", timeout="1h")
        except SignalTimeoutError:
            flaky()
        ctx.step("refund", lambda: refunds.append(1))
        if broken:
            raise RuntimeError("unrelated")
        return "end"

    instance = start(body, max_attempts=2)
    advance("1h")
    advance("1m")
    assert_failed(instance, "unrelated")
    broken.clear()
    retry(instance)
    assert_done(instance, "end")
    assert refunds == [1]


def test_a_retry_asks_anew_what_timed_out_where_the_function_told_it_in_other_words():
    def body(ctx):
        try:
            return ctx.wait_for_signal("gate", timeout="1h")
        except SignalTimeoutError as error:
            ctx.step("clean", lambda: 1)
            raise RuntimeError("nobody came") from error

    instance = start(body, max_attempts=3)
    advance("1h")
    advance("10m")
    assert_failed(instance, "nobody came")
    retry(instance)
    assert_awaiting(instance, "gate")
    answer(instance, 1)
    assert_done(instance, 1)


def test_the_late_end_of_a_child_ends_the_wait_of_a_retry_for_it():
    instance = start(lambda ctx: ctx.invoke("c", Late, {"n": 1}, timeout="1h"))
    advance("1h")
    assert_failed(instance, "SignalTimeoutError")
    retry(instance)
    workflows.signal(Instance.objects.get(workflow="failures.late"), "go on")
    drain()
    assert_done(instance, {"n": 1})


# --- errors that another run would meet again ----------------------------------------------------


async def asynchronous():
    return 1


def call_in_own_block(ctx):
    with transaction.atomic():
        ctx.step("a", lambda: 1)


MISTAKES = {
    "in a block": (call_in_own_block, "inside transaction.atomic()"),
    "nested": (lambda ctx: ctx.step("a", lambda: ctx.step("b", lambda: 1)), "inside the function of 'a'"),
    "async": (lambda ctx: ctx.atomic("a", asynchronous), "is async"),
    "hidden async": (lambda ctx: ctx.atomic("a", lambda: asynchronous()), "is async inside ctx.atomic('a')"),
    "no timeout": (lambda ctx: ctx.callback("a"), "needs timeout="),
    "duration": (lambda ctx: ctx.sleep("a", "soon"), "InvalidDuration"),
    "signal id": (lambda ctx: ctx.wait_for_signal("a", signal="no\nsuch", timeout="1h"), "InvalidSignalId"),
    "schema": (lambda ctx: ctx.wait_for_signal("a", timeout="1h", schema={"type": "wat"}), "InvalidSchema"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_in_the_code_ends_the_instance_in_its_first_run(mistake):
    call, told = MISTAKES[mistake]
    instance = start(lambda ctx: call(ctx))
    assert_failed(instance, told)
    assert count_failed_runs(instance) == 0
    assert not Checkpoint.objects.exists()


def test_a_question_that_the_policy_refuses_ends_the_instance_in_its_first_run(settings):
    settings.WORKFLOWS = {"POLICY": lambda operation, interaction, actor: operation != "suspend"}
    instance = start(lambda ctx: ctx.wait_for_signal("gate", timeout="1h"))
    assert_failed(instance, PolicyRefused.__name__)
    assert count_failed_runs(instance) == 0


def test_waiting_for_a_callback_inside_the_authors_own_block_is_refused_and_its_writes_are_undone():
    def body(ctx):
        asked = ctx.callback("pay", timeout="1h")
        with transaction.atomic():
            Group.objects.create(name="lost")
            return asked.wait()

    instance = start(body)
    assert_failed(instance, "ctx.callback('pay').wait() inside transaction.atomic()")
    assert count_failed_runs(instance) == 0
    assert not Group.objects.exists()
    assert Interaction.objects.get().deadline is None


# --- what was caught is told again, or cannot be caught ------------------------------------------


class Declined(Exception):
    """Its constructor wants what an exception's `args` do not hold."""

    def __init__(self, code, *, why):
        super().__init__(code)
        self.why = why


class Demanding(Exception):
    """Cannot be made without a keyword, not even empty."""

    def __new__(cls, *args, why):
        return super().__new__(cls, *args)

    def __init__(self, code, *, why):
        super().__init__(code)


def catch(make_error, call="step"):
    told = []

    def fail():
        ran.append(1)
        raise make_error()

    def body(ctx):
        try:
            getattr(ctx, call)("charge", fail)
        except Exception as error:
            if isinstance(error, InvalidCall):
                raise
            told.append((type(error), str(error), getattr(error, "why", None)))
        ctx.sleep("nap", "1m")
        return "end"

    ran = []
    return body, told, ran


@pytest.mark.parametrize("call", ["step", "atomic"])
@pytest.mark.parametrize(
    "make_error", [lambda: Declined(5, why="card"), lambda: IntegrityError("taken"), lambda: KeyError("k")]
)
def test_what_was_caught_is_of_the_same_class_and_carries_the_same_in_every_run(make_error, call):
    body, told, ran = catch(make_error, call)
    instance = start(body)
    advance("1m")
    assert_done(instance, "end")
    assert len(told) == 2
    assert told[0] == told[1]
    assert ran == [1]


def make_local_error():
    class Local(Exception):
        pass

    return Local("x")


@pytest.mark.parametrize("make_error", [make_local_error, lambda: Demanding(5, why="card")])
def test_what_no_later_run_could_raise_again_may_not_be_caught_and_the_first_run_says_so(make_error):
    body, told, _ = catch(make_error)
    instance = start(body)
    assert_failed(instance, "which no later run could raise again")
    assert_failed(instance, "step 'charge' raised")
    assert count_failed_runs(instance) == 0
    assert len(told) == 1
    assert not Checkpoint.objects.exists()


def test_an_error_that_could_not_be_raised_again_is_tried_again_where_nobody_catches_it():
    class Local(Exception):
        pass

    flaky = Flaky(2, Local)
    instance = start(lambda ctx: ctx.step("work", flaky))
    advance("1m")
    assert_done(instance, "ok")
    assert flaky.ran == 3


def test_what_was_caught_before_the_wait_of_a_callback_is_kept_too():
    """That wait makes no new checkpoint, and yet ends the run."""
    flaky = Flaky(1)

    def body(ctx):
        asked = ctx.callback("pay", timeout="1h")
        with contextlib.suppress(ValueError):
            ctx.step("a", flaky)
        return asked.wait()

    instance = start(body)
    answer(instance, 1)
    assert_done(instance, 1)
    assert flaky.ran == 1


@pytest.mark.parametrize("call", ["invoke", "launch"])
def test_a_workflow_that_nobody_knows_may_be_caught_again_and_again(call):
    def body(ctx):
        for n in range(2):
            with contextlib.suppress(workflows.UnknownWorkflow):
                getattr(ctx, call)(f"c{n}", "failures.no-such")
        ctx.sleep("nap", "1m")
        return "end"

    instance = start(body)
    advance("1m")
    assert_done(instance, "end")
    assert list(Checkpoint.objects.order_by("position").values_list("failed", flat=True)) == [True, True, False]


# --- what a failed run had saved -----------------------------------------------------------------


EFFECTS = {
    "atomic": (lambda ctx: ctx.atomic("x", lambda: Group.objects.create(name="one").name), Group),
    "launch": (lambda ctx: str(ctx.launch("x", Late)), Instance),
    "emit": (lambda ctx: ctx.emit("x", "failures.said"), NamedEvent),
}


@pytest.mark.parametrize("effect", EFFECTS)
def test_what_a_call_saved_stands_when_its_run_fails_after_it(effect):
    """In a test's one transaction too, where `drain` undoes what the failed run left otherwise."""
    call, model = EFFECTS[effect]
    seen = []

    def body(ctx):
        seen.append(call(ctx))
        if len(seen) == 1:
            raise RuntimeError("later")
        return "end"

    instance = start(body)
    before = model.objects.count()
    advance("1m")
    assert_done(instance, "end")
    assert seen[0] == seen[1]
    assert model.objects.count() == before > 0


@pytest.mark.parametrize(("came", "got"), [([7], [7]), ([], [None])])
def test_a_wait_for_an_event_whose_worker_died_before_its_park_looks_back_even_after_its_deadline(came, got):
    def body(ctx):
        return [ctx.wait_for_event("w", event="failures.in-time", timeout="1h")]

    instance = workflows.start(durable(name="failures")(body))
    play(take_one(lease=-1.0))  # and dies before it settles
    assert not EventWait.objects.exists()
    for data in came:
        workflows.emit("failures.in-time", data)
    with connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_checkpoint SET deadline = saved_at")
    assert store.reclaim(connection) == 1
    drain()
    advance("1s")
    assert_done(instance, got)


def exit_with(code):
    raise SystemExit(code)


@pytest.mark.parametrize("call", ["step", "atomic"])
def test_an_exit_of_a_call_that_the_function_caught_is_told_to_every_later_run(call):
    ran = []

    def body(ctx):
        def leave():
            ran.append("leave")
            exit_with(3)

        try:
            getattr(ctx, call)("leave", leave)
        except SystemExit as error:
            code = error.code
        ctx.step("after", lambda: ran.append("after"))
        ctx.sleep("nap", "1m")
        return code

    instance = start(body, max_attempts=1)
    advance("1m")
    assert_done(instance, 3)
    assert ran == ["leave", "after"]


def test_an_exit_of_a_step_that_nobody_catches_ends_the_run_and_is_tried_again():
    instance = start(lambda ctx: ctx.step("leave", exit_with, 3), max_attempts=2)
    assert count_failed_runs(instance) == 1
    advance("1h")
    assert_failed(instance, "SystemExit: 3")


def test_a_function_cannot_go_on_past_the_end_of_its_time():
    def dawdle():
        raise StepTimedOut

    def body(ctx):
        try:
            ctx.step("dawdle", dawdle)
        except BaseException:
            return "went on"

    assert_failed(start(body, max_attempts=1), "StepTimedOut")
