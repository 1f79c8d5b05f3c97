"""A signal that is accepted while the last step runs: it is told of, counted, or makes that step run again.

What a step does to its own instance while it runs stands for what somebody else does: it is another transaction.
"""

import pytest
from django.contrib.auth.models import Group
from django.db import connection, connections
from django.test.utils import CaptureQueriesContext

import workflows
from tests.support.horizon import wait_for_foreigners
from tests.support.races import COMMITTED, Refused, play, race, settle, take_one, work
from workflows import (
    Await,
    Delivery,
    Done,
    InvalidDefinition,
    Machine,
    Next,
    NoTarget,
    Stop,
    Workflow,
    engine,
    sleep,
    step,
)
from workflows.engine.author_calls import Host
from workflows.models import LedgerEvent, Signal
from workflows.store.ledger.tallies import read_tallies, tally_ledger
from workflows.testing import advance, assert_done, assert_failed, drain

OPTIONS = pytest.mark.parametrize("late", ["close", "rerun"])


def names(ctx):
    return [signal.name for signal in ctx.awaited]


def define(end, *, late="rerun", atomic=False, handle=None, awaited=("paid", "refused")):
    """A workflow that waits, then ends as `end(ctx)` says."""

    class Late(Workflow):
        name = "late"
        late_signals = late

        @step
        def ask(self, ctx):
            return Await(awaited, then="settle", timeout="1h")

        @step(atomic=atomic)
        def settle(self, ctx):
            return end(ctx)

    if handle is not None:
        Late.handle = lambda self, error, ctx: handle(error, ctx)
    return Late


def begin(workflow):
    """An instance that has been woken by one signal."""
    instance = workflows.start(workflow)
    drain()
    workflows.signal(instance, "paid", 1)
    return instance


def once(ctx, *sent):
    """Send the signals in the first run only."""
    if len(ctx.inbox) == 1:
        for name in sent:
            workflows.signal(ctx.id, name)


@pytest.fixture
def no_groups():
    """What the flush of these tests leaves of another app's table."""
    Group.objects.all().delete()
    yield
    Group.objects.all().delete()


def last_event(instance):
    return LedgerEvent.objects.filter(instance=instance).last()


@pytest.mark.django_db
class TestToldInTheLedger:
    def test_a_step_that_ends_well_tells_how_many_signals_it_closed_unseen_and_of_which_names(self):
        def end(ctx):
            once(ctx, "paid", "paid", "hello")
            return Done(names(ctx))

        instance = begin(define(end, late="close"))
        drain()
        assert_done(instance, ["paid"])
        told = last_event(instance).data
        assert told["unseen"] == {"count": 3, "names": ["hello", "paid"]}
        assert told["consumed"] == [Signal.objects.filter(instance=instance).earliest("n").n]

    def test_a_step_that_stops_tells_it_beside_its_reason(self):
        def end(ctx):
            once(ctx, "refused")
            return Stop("no stock")

        instance = begin(define(end, late="close"))
        drain()
        assert_failed(instance, "no stock")
        assert last_event(instance).data == {"error": "no stock", "unseen": {"count": 1, "names": ["refused"]}}

    def test_an_end_that_closed_nothing_unseen_is_told_as_ever(self):
        instance = begin(define(lambda ctx: Done(), late="close"))
        workflows.signal(instance, "hello")  # in the inbox of the step, which did not look
        drain()
        assert last_event(instance).data == [Signal.objects.filter(instance=instance).earliest("n").n]


@pytest.mark.django_db
class TestRunsAgain:
    def test_an_ending_step_runs_again_with_an_awaited_signal_that_came_meanwhile(self):
        runs = []

        def end(ctx):
            runs.append((names(ctx), ctx.attempt))
            once(ctx, "refused")
            return Done(names(ctx))

        instance = begin(define(end))
        assert drain() == {"rerun": 1, "done": 1}
        assert_done(instance, ["paid", "refused"])
        assert runs == [(["paid"], 0), (["paid", "refused"], 0)]
        assert not Signal.objects.filter(instance=instance, consumed_at=None).exists()
        again = LedgerEvent.objects.get(instance=instance, kind="rerun")
        assert (again.data, again.name, again.status) == (["refused"], "settle", "runnable")

    def test_it_has_its_state_as_it_was_before(self):
        def end(ctx):
            once(ctx, "paid")
            ctx.state["count"] = ctx.state.get("count", 0) + 1
            return Done(ctx.state["count"])

        instance = begin(define(end))
        drain()
        assert_done(instance, 1)

    def test_what_an_atomic_step_sends_its_own_instance_goes_with_it_and_makes_it_run_no_more(self):
        def end(ctx):
            Group.objects.create(name="written")
            workflows.signal(ctx.id, "paid")
            return Done()

        instance = begin(define(end, atomic=True))
        assert drain() == {"done": 1}
        assert Group.objects.filter(name="written").count() == 1
        assert last_event(instance).data["unseen"] == {"count": 1, "names": ["paid"]}

    def test_a_step_that_stops_runs_again_too(self):
        def end(ctx):
            once(ctx, "paid")
            return Stop("too few") if len(ctx.awaited) == 1 else Done()

        instance = begin(define(end))
        assert drain() == {"rerun": 1, "done": 1}
        assert_done(instance)

    def test_a_timer_that_was_answered_at_its_last_moment_sees_the_answer(self):
        def end(ctx):
            if not ctx.inbox:
                workflows.signal(ctx.id, "paid")
            return Done({"timed_out": ctx.timed_out, "paid": names(ctx)})

        instance = workflows.start(define(end))
        drain()
        advance("1h")
        assert_done(instance, {"timed_out": True, "paid": ["paid"]})

    def test_a_signal_that_it_had_not_awaited_lets_it_end(self):
        def end(ctx):
            once(ctx, "hello")
            return Done()

        instance = begin(define(end))
        assert drain() == {"done": 1}
        assert last_event(instance).data["unseen"] == {"count": 1, "names": ["hello"]}

    def test_a_step_that_was_led_to_by_another_one_awaited_nothing_and_ends(self):
        class Led(Workflow):
            late_signals = "rerun"

            @step
            def first(self, ctx):
                return Next("last")

            @step
            def last(self, ctx):
                workflows.signal(ctx.id, "paid")
                return Done()

        instance = workflows.start(Led)
        assert drain() == {"next": 1, "done": 1}
        assert last_event(instance).data["unseen"] == {"count": 1, "names": ["paid"]}

    def test_running_again_spends_no_attempt(self):
        def end(ctx):
            if len(ctx.awaited) < 12:
                workflows.signal(ctx.id, "paid")
            return Done(len(ctx.awaited))

        instance = begin(define(end))
        assert drain() == {"rerun": 11, "done": 1}
        assert_done(instance, 12)

    @OPTIONS
    def test_an_end_without_latecomers_takes_the_same_statements(self, late):
        def count(workflow):
            begin(workflow)
            with CaptureQueriesContext(connection) as captured:
                drain()
            return [one["sql"][:20].split(' "')[0] for one in captured]

        assert count(define(lambda ctx: Done(), late=late)) == count(define(lambda ctx: Done(), late="close"))

    @pytest.mark.parametrize("wrong", ["again", None, True, ""])
    def test_another_word_is_refused_where_it_is_written(self, wrong):
        with pytest.raises(InvalidDefinition, match='late_signals is "close" or "rerun", not'):
            define(lambda ctx: Done(), late=wrong)

    def test_a_machine_which_reads_no_signals_refuses_the_option(self):
        with pytest.raises(InvalidDefinition, match=r"late_signals= is of the step style"):

            class LateMachine(Machine):
                late_signals = "rerun"
                pause = sleep("1h")


@COMMITTED
@pytest.mark.usefixtures("committed")
class TestTwoConnections:
    @staticmethod
    def meet(late, *, atomic=False):
        workflow = define(lambda ctx: Done(names(ctx)), late=late, atomic=atomic)
        instance = workflows.start(workflow)
        work()
        workflows.signal(instance, "paid")
        return instance, take_one()

    @OPTIONS
    def test_an_end_that_waits_for_a_delivery_knows_of_it(self, late):
        instance, claim = self.meet(late)
        ending = play(claim)
        sent, ended = race(lambda: workflows.signal(instance, "refused"), lambda: settle(ending))
        assert isinstance(sent, Delivery)
        assert ended is True
        work()
        if late == "rerun":
            assert_done(instance, ["paid", "refused"])
        else:
            assert_done(instance, ["paid"])
            assert last_event(instance).data["unseen"] == {"count": 1, "names": ["refused"]}

    @OPTIONS
    def test_a_step_whose_exception_would_end_it_runs_again_too(self, late):
        def end(ctx):
            if len(ctx.awaited) == 1:
                raise ValueError("too few")
            return Done(names(ctx))

        instance = workflows.start(define(end, late=late))
        work()
        workflows.signal(instance, "paid")
        ending = play(take_one())
        race(lambda: workflows.signal(instance, "refused"), lambda: settle(ending))
        work()
        if late == "rerun":
            assert_done(instance, ["paid", "refused"])
        else:
            assert_failed(instance, "too few")

    @OPTIONS
    @pytest.mark.parametrize("ends", ["done", "stop"])
    def test_what_an_atomic_step_wrote_is_rolled_back_before_it_runs_again(self, late, ends, no_groups):
        def end(ctx):
            Group.objects.create(name="with " + " ".join(names(ctx)))
            return Done() if ends == "done" else Stop("enough")

        instance = workflows.start(define(end, late=late, atomic=True))
        work()
        workflows.signal(instance, "paid")
        claim = take_one()

        def run():
            host = Host(connections["default"].copy(), "default")
            try:
                settle(engine.run(claim, host))
            finally:
                host.db.close()

        sent, _ = race(lambda: workflows.signal(instance, "refused"), run)
        assert isinstance(sent, Delivery)
        work()
        instance.refresh_from_db()
        assert instance.ended
        assert [one.name for one in Group.objects.all()] == ["with paid refused" if late == "rerun" else "with paid"]

    @OPTIONS
    def test_a_delivery_that_waits_for_an_end_is_refused(self, late):
        instance, claim = self.meet(late)
        ending = play(claim)
        ended, sent = race(lambda: settle(ending), lambda: workflows.signal(instance, "refused"))
        assert (ended, sent) == (True, Refused(NoTarget))
        assert_done(instance, ["paid"])
        assert Signal.objects.filter(instance=instance).count() == 1

    def test_unseen_signals_are_counted(self):
        before = self.count()
        instance, claim = self.meet("close")
        ending = play(claim)
        workflows.signal_many([(instance, "paid"), (instance, "refused")])
        settle(ending)
        assert self.count() == before + 2

    @staticmethod
    def count():
        wait_for_foreigners()
        tally_ledger(connection, batches=1_000)
        return read_tallies(connection, None).get(("unseen", ""), 0)
