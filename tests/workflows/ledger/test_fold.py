"""An instance's ledger tells its row: folding the events gives what the row says, always."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.db import DatabaseError, connection, connections

import workflows
from tests.support.folds import check_all_folds, check_fold, check_newest_folds, fold
from tests.support.no_fold import NOT_TOLD
from tests.support.races import forget, play, settle, take_one
from workflows import (
    Await,
    Child,
    Done,
    InteractionResolved,
    Next,
    Retry,
    Spawn,
    Stop,
    Workflow,
    durable,
    step,
    store,
)
from workflows.ledger import redact
from workflows.models import Instance, Interaction, LedgerEvent
from workflows.testing import _skew, advance, drain

CONSUMING = {"advanced", "done", "spawned", "suspended"}


class Child1(Workflow):
    name = "fold.child"

    @step
    def ask(self, ctx):
        return Await("end", then="end")

    @step
    def end(self, ctx):
        return Stop("child failed") if ctx.awaited[0].payload == "badly" else Done()


class Story(Workflow):
    name = "fold.story"

    @step
    def ask(self, ctx):
        return Await(["b", "a"], then="work", timeout="1h")

    @step
    def work(self, ctx):
        if ctx.attempt < 2:
            return Retry(delay="1m")
        return Next("bear", delay="5m")

    @step
    def bear(self, ctx):
        return Spawn([Child(Child1, key=f"child-{n}") for n in range(3)], then="finish")

    @step
    def finish(self, ctx):
        return Stop("a child failed") if any(c.status != "done" for c in ctx.children) else Done("fine")


@pytest.mark.django_db
def test_at_every_turn_of_a_long_story_the_events_tell_the_row():
    instance = workflows.start(Story, key="story")
    moves = [
        drain,
        lambda: workflows.signal(instance, "noise"),
        lambda: workflows.signal(instance, "a"),
        lambda: workflows.signal(instance, "b"),
        drain,
        lambda: workflows.signal(instance, "a"),
        lambda: advance("1m"),
        lambda: advance("2m"),
        lambda: advance("5m"),
        drain,
        lambda: workflows.signal("child-0", "end"),
        drain,
        lambda: workflows.signal_many([("child-1", "end", "badly"), ("child-2", "noise"), ("child-2", "end")]),
        drain,
        lambda: workflows.retry(instance),
        lambda: workflows.cancel(instance, "enough"),
    ]
    check_fold(instance)
    for move in moves:
        move()
        check_all_folds()
    assert Instance.objects.get(pk=instance.pk).status == "cancelled"
    assert {"started", "signalled", "parked", "retried", "woke", "advanced", "spawned", "child_ended"} <= {
        str(event.kind) for event in instance.events.all()
    }


@pytest.mark.django_db
def test_a_timeout_a_dead_worker_and_a_released_claim_are_told_too():
    instance = workflows.start(Story)
    drain()
    advance("1h")
    check_fold(instance)
    assert fold(instance.events.all()).timed_out
    advance("1m")
    claim = None
    while claim is None:
        advance("1m")
        instance.refresh_from_db()
        if instance.status == "runnable":
            claim = take_one()
        elif instance.status == "awaiting_children":
            break
    check_fold(instance)
    other = workflows.start(Story)
    dead = take_one()
    workflows.signal(other, "a")
    check_fold(other)
    forget(dead)
    assert store.reclaim(connections["default"]) == 1
    check_fold(other)
    released = take_one()
    store.release(connections["default"], [released])
    check_fold(other)
    assert settle(play(take_one()))
    check_fold(other)


@pytest.mark.django_db
def test_a_park_that_found_its_answer_still_tells_the_names_it_waited_for():
    instance = workflows.start(Story)
    workflows.signal(instance, "a")
    assert settle(play(take_one()))
    folded = fold(instance.events.all())
    assert (folded.status, folded.names, folded.due_at) == ("runnable", ["a", "b"], None)
    check_fold(instance)


@pytest.mark.django_db
@pytest.mark.parametrize("how", ["raises", "exits", "unknown step", "nonsense"])
def test_a_run_that_goes_wrong_is_told(how):
    class Wrong(Workflow):
        name = "fold.wrong"

        @step
        def only(self, ctx):
            if how == "raises":
                raise RuntimeError("broken")
            if how == "exits":
                raise SystemExit(1)
            return Next("nowhere") if how == "unknown step" else 5

    instance = workflows.start(Wrong)
    drain()
    check_fold(instance)
    advance("10m")
    check_fold(instance)
    assert fold(instance.events.all()).status == "failed"


@pytest.mark.django_db
def test_the_numbers_of_the_consumed_signals_can_be_folded():
    """Counts: which signals each outcome consumed, so that the inbox can be told from the events alone."""
    instance = workflows.start(Story)
    drain()
    workflows.signal(instance, "noise")
    workflows.signal(instance, "a")
    advance("10m")
    instance.refresh_from_db()
    assert instance.inbox == 1
    consumed = [n for event in instance.events.all() if str(event.kind) in CONSUMING for n in _numbers(event)]
    assert consumed == [signal.n for signal in instance.signals.all() if signal.consumed_at is not None]


def _numbers(event: LedgerEvent) -> list[int]:
    """The consumed signals as an event names them: a list, alone or beside other data."""
    data = event.data.get("consumed", []) if isinstance(event.data, dict) else event.data
    return data if isinstance(data, list) else []


@pytest.mark.parametrize("name", NOT_TOLD)
def test_every_exception_from_folding_is_a_test_that_there_is(name):
    file, _, function = name.partition("::")
    assert f"def {function}(" in next(Path(__file__).resolve().parents[2].rglob(file)).read_text()


@pytest.mark.django_db
@pytest.mark.no_fold(reason="it spoils the row")
@pytest.mark.parametrize("column", ["attempt = 2", "step = 'bear'", "names = '{c}'", "asked = 1", "timed_out = true"])
def test_a_row_that_its_events_do_not_tell_is_found(column):
    workflows.start(Story)
    drain()
    assert check_all_folds() == 1
    with connection.cursor() as cursor:
        cursor.execute(f"UPDATE holdpoint_instance SET {column}")
    with pytest.raises(AssertionError, match=f"{column.partition(' ')[0]}: .* by the events"):
        check_newest_folds()


@pytest.mark.django_db
def test_what_was_redacted_is_not_compared_until_it_is_told_anew():
    instance = workflows.start(Story)
    drain()
    parked = instance.events.get(kind="parked")
    redact(connection, instance.pk, parked.seq, actor="dpo", reason="on request")
    folded = fold(instance.events.all())
    assert (folded.names, folded.unknown) == (None, {"names"})
    check_fold(instance)
    workflows.signal(instance, "a")
    for _ in range(3):  # two retries keep the names, then the step goes on
        advance("5m")
        check_fold(instance)
    assert fold(instance.events.all()).unknown == set()


@pytest.mark.django_db(transaction=True)
def test_a_test_may_end_in_a_broken_transaction_outside_of_atomic():
    workflows.start(Story)
    connection.set_autocommit(False)
    with pytest.raises(DatabaseError), connection.cursor() as cursor:
        cursor.execute("SELECT 1 / 0")
    check_newest_folds()
    assert connection.get_autocommit()


@pytest.mark.django_db
def test_a_test_may_end_in_a_broken_transaction():
    with pytest.raises(DatabaseError), connection.cursor() as cursor:
        cursor.execute("SELECT 1 / 0")
    check_newest_folds()


@pytest.mark.django_db
def test_a_fold_of_all_instances_costs_two_statements_and_three_where_some_have_units(django_assert_num_queries):
    workflows.start_many(Story, [{"n": n} for n in range(20)])
    drain()
    with django_assert_num_queries(2):
        check_newest_folds()
    workflows.start_many(ask_once, [{}] * 20)
    drain()
    with django_assert_num_queries(3):
        check_newest_folds()


@durable(name="fold.asker")
def ask_once(ctx):
    """One question with a deadline."""
    return ctx.wait_for("agree", "api", timeout="1h")


@pytest.mark.django_db
def test_an_answer_that_is_late_for_an_instance_that_does_not_wait_yet_is_told():
    """Its worker died between asking and parking, so nothing wakes: the deadline is told where the wait meets it."""
    instance = workflows.start("fold.asker")
    claim = take_one()
    play(claim)
    forget(claim)
    assert store.reclaim(connections["default"]) == 1
    _skew(connection, 3601)
    with pytest.raises(InteractionResolved):
        workflows.complete(Interaction.objects.get(instance=instance), "yes", actor="ann")
    instance.refresh_from_db()
    assert (instance.status, instance.timed_out) == ("runnable", False)
    check_fold(instance)


@pytest.mark.django_db
def test_questions_and_their_answers_are_counted_by_their_events():
    instance = workflows.start("fold.asker")
    drain()
    question = Interaction.objects.get(instance=instance)
    workflows.complete(question, "yes", actor="ann")
    with pytest.raises(InteractionResolved):
        workflows.complete(question, "no", actor="bob")  # refused, and told
    folded = fold(instance.events.all())
    assert (folded.asked, folded.answered) == (1, 1)
    drain()
    check_fold(instance)
    late = workflows.start("fold.asker")
    drain()
    _skew(connection, 3601)
    with pytest.raises(InteractionResolved):
        workflows.complete(Interaction.objects.get(instance=late), "yes", actor="ann")
    assert fold(late.events.all()).timed_out
    check_all_folds()
