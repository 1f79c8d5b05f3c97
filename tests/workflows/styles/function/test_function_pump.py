"""Durable functions under real claims and pumps: what a stale worker may do (nothing), what a crash leaves behind.

Each move of a worker is made by hand (`take`, `play`, `settle`, `forget` of `two_connections`), outside of any
transaction of a test, so that what is committed is committed.
"""

import contextlib
import time

import pytest
from django.contrib.auth.models import Group
from django.db import OperationalError, connection, connections, transaction

import workflows
from tests.support.processes import wait_until
from tests.support.pumps import pumping
from tests.support.races import COMMITTED, forget, play, settle, take_one, work
from workflows import SignalCollision, durable, store
from workflows.models import (
    AwaitUnit,
    Checkpoint,
    EventWait,
    Instance,
    Interaction,
    LedgerEvent,
    NamedEvent,
    Signal,
)
from workflows.store import child_commits
from workflows.testing import assert_done

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed", "links")]


@pytest.fixture
def links(settings):
    settings.ROOT_URLCONF = "workflows.urls_resume"  # all that `available_apps` leaves
    Group.objects.all().delete()


@durable(name="pumped.child")
def child(ctx):
    return "child"


def start(body, name="pumped", **options):
    return workflows.start(durable(name=name, **options)(body))


def lose(claim):
    """Its worker is taken for dead, and another one holds the instance."""
    forget(claim)
    assert store.reclaim(connection) == 1
    return take_one()


def look():
    """Everything there is to see, but for what the clock alone changes."""
    return [
        [tuple(row) for row in model.objects.order_by("pk").values_list()]
        for model in (Instance, Checkpoint, Interaction, AwaitUnit, EventWait, NamedEvent, Signal, Group, LedgerEvent)
    ]


CALLS = {
    "step": lambda ctx: ctx.step("x", lambda: 1),
    "atomic": lambda ctx: ctx.atomic("x", lambda: Group.objects.create(name="written").pk),
    "launch": lambda ctx: ctx.launch("x", child),
    "emit": lambda ctx: ctx.emit("x", "said", {"n": 1}),
    "invoke": lambda ctx: ctx.invoke("x", child),
    "sleep": lambda ctx: ctx.sleep("x", "1h"),
    "wait_for_signal": lambda ctx: ctx.wait_for_signal("x", timeout="1h"),
    "wait_for_event": lambda ctx: ctx.wait_for_event("x", event="said", timeout="1h"),
    "wait_for": lambda ctx: ctx.wait_for("x", "api", timeout="1h"),
    "callback": lambda ctx: ctx.callback("x", timeout="1h").wait(),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("swallows", [False, True])
def test_a_stale_worker_s_call_changes_nothing_at_all(call, swallows):
    """Whether or not the author's code catches everything there is."""
    waiting = start(lambda ctx: ctx.wait_for_event("w", event="said", timeout="1h"), "pumped.waiting")
    work()

    def body(ctx):
        with contextlib.suppress(*([BaseException] if swallows else [])):
            CALLS[call](ctx)
        return "end"

    start(body)
    stale = take_one()
    lose(stale)
    before = look()
    commit = play(stale)
    assert commit is store.RunEnd.LOST or not settle(commit)
    assert look() == before
    waiting.refresh_from_db()
    assert waiting.status == "awaiting"


@pytest.mark.parametrize("call", CALLS)
def test_a_cancelled_instance_s_worker_changes_nothing_either(call):
    instance = start(lambda ctx: CALLS[call](ctx))
    claim = take_one()
    workflows.cancel(instance)
    before = look()
    settle(play(claim))
    assert look() == before


def test_a_stale_worker_that_saved_before_it_lost_its_claim_adds_nothing_after():
    taken = []

    def body(ctx):
        ctx.step("one", lambda: 1)
        if not taken:
            taken.append(lose(claim))
        ctx.step("two", lambda: 2)
        return "end"

    instance = start(body)
    claim = take_one()
    assert play(claim) is store.RunEnd.LOST
    assert list(Checkpoint.objects.values_list("name", flat=True)) == ["one"]
    assert settle(play(taken[0]))
    assert_done(instance, "end")
    assert list(Checkpoint.objects.values_list("name", flat=True)) == ["one", "two"]


def test_arming_a_callback_is_fenced():
    def body(ctx):
        cb = ctx.callback("x", timeout="1h")
        if ctx.attempt == 0:
            lose(claim)
        cb.wait()

    start(body)
    claim = take_one()
    assert play(claim) is store.RunEnd.LOST
    assert Interaction.objects.get().deadline is None


# --- a crash between any two moves ---------------------------------------------------------------


def resume_after_crash(claim):
    """The worker died without a word: its lease ends, somebody else takes the instance."""
    return play(lose(claim))


@pytest.mark.parametrize("call", ["wait_for_signal", "wait_for", "callback"])
def test_a_crash_between_the_question_and_the_park_leaves_one_question_and_one_deadline(call):
    urls = []

    def body(ctx):
        if call == "callback":
            cb = ctx.callback("x", timeout="1h")
            urls.append((cb.resume_url, cb.resume_token))
            return cb.wait()
        return CALLS[call](ctx)

    instance = start(body)
    claim = take_one()
    play(claim)  # and never settles
    asked = Interaction.objects.get()
    assert asked.deadline is not None
    assert settle(resume_after_crash(claim))
    instance.refresh_from_db()
    again = Interaction.objects.get()
    assert (again.pk, again.deadline, again.signal_id) == (asked.pk, asked.deadline, asked.signal_id)
    assert (instance.status, instance.due_at) == ("awaiting", asked.deadline)
    assert AwaitUnit.objects.count() == Checkpoint.objects.count() == 1
    assert len(set(urls)) == min(1, len(urls))
    workflows.complete(asked.pk, 7)
    work()
    assert_done(instance, 7)


@pytest.mark.parametrize("call", ["wait_for_signal", "callback"])
def test_an_answer_between_the_question_and_the_park_is_kept(call):
    instance = start(lambda ctx: CALLS[call](ctx))
    claim = take_one()
    parked = play(claim)
    workflows.complete(Interaction.objects.get().pk, 7)
    settle(parked)
    work()
    assert_done(instance, 7)
    assert not Signal.objects.filter(instance=instance, consumed_at=None, instance__status="awaiting").exists()


@pytest.mark.parametrize("call", ["wait_for_signal", "callback"])
def test_an_answer_after_a_crash_before_the_park_is_kept(call):
    instance = start(lambda ctx: CALLS[call](ctx))
    claim = take_one()
    play(claim)
    forget(claim)
    workflows.complete(Interaction.objects.get().pk, 7)
    store.reclaim(connection)
    work()
    assert_done(instance, 7)


def test_a_crash_between_the_sleep_and_its_park_keeps_its_moment():
    instance = start(lambda ctx: ctx.sleep("x", "1h"))
    claim = take_one()
    play(claim)
    ends = Checkpoint.objects.get().deadline
    assert settle(resume_after_crash(claim))
    instance.refresh_from_db()
    assert (instance.status, instance.due_at) == ("sleeping", ends)


def test_a_crash_between_an_event_wait_and_its_park_keeps_its_deadline():
    instance = start(lambda ctx: CALLS["wait_for_event"](ctx))
    claim = take_one()
    play(claim)  # and never settles
    assert not EventWait.objects.exists()
    ends = Checkpoint.objects.get().deadline
    workflows.emit("said", 5)
    settle(resume_after_crash(claim))
    assert Checkpoint.objects.get().deadline == ends
    work()
    assert_done(instance, 5)


def test_a_crash_after_an_answer_was_handed_out_hands_it_out_again():
    seen = []

    def body(ctx):
        seen.append(ctx.wait_for_signal("x", timeout="1h"))
        return seen[-1]

    instance = start(body)
    work()
    workflows.complete(f"x-{instance.pk}", 7)
    claim = take_one()
    play(claim)
    settle(resume_after_crash(claim))
    assert_done(instance, 7)
    assert seen == [7, 7]


def test_a_crash_runs_again_only_what_has_no_checkpoint():
    ran = []

    def body(ctx):
        ctx.step("one", lambda: ran.append("one"))
        ctx.step("two", lambda: ran.append("two"))
        ran.append("end")

    instance = start(body)
    claim = take_one()
    play(claim)
    settle(resume_after_crash(claim))
    assert_done(instance)
    assert ran == ["one", "two", "end", "end"]


# --- effect and checkpoint are one transaction ---------------------------------------------------


def _raise(error):
    def fail(*args, **options):
        raise error

    return fail


EFFECTS = {
    "atomic": Group.objects,
    "launch": Instance.objects.filter(workflow="pumped.child"),
    "emit": NamedEvent.objects,
}


@pytest.mark.parametrize("call", EFFECTS)
def test_an_effect_whose_checkpoint_fails_has_not_happened_and_happens_once(call, monkeypatch):
    def body(ctx):
        CALLS[call](ctx)
        return "end"

    instance = start(body)
    real, failed = store.save_checkpoint, []

    def fail_once(*args, **options):
        saved = real(*args, **options)
        if not failed:
            failed.append(EFFECTS[call].count())
            raise OperationalError("the connection is lost")
        return saved

    monkeypatch.setattr(store, "save_checkpoint", fail_once)
    settle(play(take_one()))
    assert failed == [1]
    assert EFFECTS[call].count() == 0
    assert Checkpoint.objects.count() == 0
    with connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_instance SET due_at = now() WHERE id = %s", [instance.pk])
    store.expire_due(connection)
    work()
    assert_done(instance, "end")
    assert EFFECTS[call].count() == 1


@pytest.mark.parametrize("call", EFFECTS)
def test_an_effect_whose_commit_fails_has_not_happened(call, monkeypatch):
    start(lambda ctx: CALLS[call](ctx), max_attempts=1)
    claim = take_one()
    with monkeypatch.context() as broken:
        broken.setattr(type(connections["default"]), "_commit", _raise(OperationalError("lost at commit")))
        commit = play(claim)
    assert EFFECTS[call].count() == 0
    assert Checkpoint.objects.count() == 0
    settle(commit)
    assert Instance.objects.get(pk=claim.id).status == "failed"


@pytest.mark.parametrize("call", EFFECTS)
def test_a_crash_after_the_commit_finds_effect_and_checkpoint(call):
    instance = start(lambda ctx: str(CALLS[call](ctx)))
    claim = take_one()
    play(claim)
    forget(claim)
    store.reclaim(connection)
    work()
    assert_done(instance)
    assert EFFECTS[call].count() == 1


@pytest.mark.parametrize("where", ["save_checkpoint", "commit"])
def test_invoke_starts_its_child_with_checkpoint_and_park_or_not_at_all(where, monkeypatch):
    instance = start(lambda ctx: ctx.invoke("x", child))
    claim = take_one()
    with monkeypatch.context() as broken:
        broken.setattr(child_commits, where, _raise(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            play(claim)
    assert Instance.objects.count() == 1
    assert Checkpoint.objects.count() == 0
    settle(resume_after_crash(claim))
    assert Instance.objects.filter(parent=instance).count() == Checkpoint.objects.count() == 1
    work()
    assert_done(instance, "child")


def test_atomic_is_not_repeated_for_a_reader_who_looks_at_the_same_time():
    """Its writes are seen by others only together with its checkpoint."""
    seen = []

    def write():
        Group.objects.create(name="written")
        seen.append(Checkpoint.objects.count())

    instance = start(lambda ctx: ctx.atomic("x", write))
    work()
    assert_done(instance)
    assert seen == [0]
    assert Group.objects.count() == Checkpoint.objects.count() == 1


def test_atomic_that_leaves_a_transaction_open_is_told_and_rolled_back():
    def write():
        transaction.atomic().__enter__()
        Group.objects.create(name="half")

    instance = start(lambda ctx: ctx.atomic("x", write), max_attempts=1)
    work()
    instance.refresh_from_db()
    assert "LeftTransactionOpen" in instance.error
    assert Group.objects.count() == Checkpoint.objects.count() == 0


def test_two_questions_with_one_signal_id_race_to_one():
    for n in range(2):
        start(lambda ctx: ctx.wait_for_signal("x", signal="same", timeout="1h"), f"pumped.race{n}")
    claims = [take_one(), take_one()]
    settle(*[play(claim) for claim in claims])
    assert sorted(Instance.objects.values_list("status", flat=True)) == ["awaiting", "failed"]
    assert SignalCollision.__name__ in Instance.objects.get(status="failed").error


def test_a_step_outside_of_atomic_sees_its_own_writes_committed_at_once():
    """An effect before a failing call stands: at least once, not exactly once."""

    def body(ctx):
        ctx.step("x", lambda: Group.objects.create(name="written").pk)
        raise RuntimeError("no")

    start(body, max_attempts=1)
    work()
    assert Group.objects.count() == Checkpoint.objects.count() == 1


# --- step_timeout --------------------------------------------------------------------------------


def test_a_call_that_runs_too_long_is_a_failed_run_and_saves_nothing():
    tries = []

    def hang():
        tries.append(1)
        until = time.monotonic() + (30 if len(tries) == 1 else 0)
        while time.monotonic() < until:  # a thread is interrupted between two statements, not in its sleep
            time.sleep(0.01)
        return len(tries)

    def body(ctx):
        return ctx.step("x", hang)

    instance = start(body, step_timeout="0.3s")
    with pumping():
        wait_until(lambda: not Instance.objects.live().exists(), "its end")
    assert_done(instance, 2)


# --- under pumps ---------------------------------------------------------------------------------


def test_many_functions_run_at_once_each_with_its_own_questions_and_effects():
    def body(ctx):
        ctx.atomic("write", lambda: Group.objects.create(name=str(ctx.id)).pk)
        other = ctx.launch("other", child)
        got = ctx.wait_for_signal("gate", timeout="1h")
        assert ctx.invoke("child", child) == "child"
        return [got, str(other)]

    fn = durable(name="pumped.many")(body)
    started = workflows.start_many(fn, [{} for _ in range(20)])
    with pumping(2):
        asking = Interaction.objects.filter(status="pending")
        wait_until(asking.count, "all to ask", is_it=lambda count: count == 20)
        for n, one in enumerate(started):
            workflows.complete(f"gate-{one.pk}", n)
        wait_until(lambda: not Instance.objects.live().exists(), "all to end")
    results = [assert_done(one).result for one in started]
    assert [got for got, _ in results] == list(range(20))
    assert len({other for _, other in results}) == 20
    assert Group.objects.count() == 20
    assert Instance.objects.filter(workflow="pumped.child").count() == 40


def test_an_event_and_a_park_do_not_miss_each_other_under_pumps():
    fn = durable(name="pumped.events")(lambda ctx: ctx.wait_for_event("w", event="go", timeout="1h"))
    with pumping(2):
        started = workflows.start_many(fn, [{} for _ in range(20)])
        workflows.emit("go", 1)
        wait_until(lambda: not Instance.objects.live().exists(), "all to end")
    for one in started:
        assert_done(one, 1)


def test_atomic_that_fails_only_at_its_commit_is_told_as_what_it_was():
    """A foreign key is checked when the transaction ends, after the checkpoint was written."""

    def write():
        with connection.cursor() as cursor:
            cursor.execute("CREATE TEMP TABLE IF NOT EXISTS late (n int UNIQUE DEFERRABLE INITIALLY DEFERRED)")
            cursor.execute("INSERT INTO late VALUES (1), (1)")

    instance = start(lambda ctx: ctx.atomic("x", write), max_attempts=2)
    for _ in range(3):
        work()
        with connection.cursor() as cursor:
            cursor.execute("UPDATE holdpoint_instance SET due_at = now() WHERE status = 4")
        store.expire_due(connection)
    instance.refresh_from_db()
    assert instance.status == "failed"
    assert "IntegrityError" in instance.error
    assert Checkpoint.objects.count() == 0
