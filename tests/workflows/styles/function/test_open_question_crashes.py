"""A worker that loses its claim at any write of a run with several open questions, and two that meet on one row."""

from __future__ import annotations

from uuid import UUID

import pytest
from django.db import connection

import workflows
from tests.support.folds import check_all_folds
from tests.support.races import COMMITTED, play, race, settle, take, take_one, work
from workflows import callback, child, durable, event, instance, question, received, sleep
from workflows.lifecycle import Watch
from workflows.models import Checkpoint, EventWait, Instance, Interaction, LedgerEvent
from workflows.testing import advance, assert_done, assert_open, drain

#: Fenced writes of the whole story below, counted by its own test.
WRITES = 34


@durable(name="crash-pack")
def pack(ctx):
    return ctx.wait_for_signal("pack", timeout="30d")


@durable(name="crash-story")
def tell_story(ctx, other):
    asked = {
        "paid": ctx.ask("paid", received("paid"), timeout="1d"),
        "agreed": ctx.ask("agreed", question("api"), timeout="1d"),
        "partner": ctx.ask("partner", callback(), timeout="1d"),
        "happened": ctx.ask("happened", event("happened"), timeout="1d"),
        "packed": ctx.ask("packed", child(pack)),
        "other": ctx.ask("other", instance(UUID(other))),
        "unwanted": ctx.ask("unwanted", question("api")),
    }
    asked.pop("unwanted").withdraw()
    told = []
    while asked:
        first = ctx.wait_any(asked.values(), timeout="30d")
        told.append([first.id, getattr(first.answer, "payload", first.answer)])
        asked.pop(first.id)
    ctx.ask("later", sleep("0s")).result()
    return told


def complete(step: str, data: object) -> None:
    workflows.complete(
        Interaction.objects.get(unit__step=step, status="pending", instance__workflow="crash-story"), data
    )


def end_pack(started: Instance | None, data: object) -> None:
    packing = Instance.objects.get(workflow="crash-pack", parent=started)
    workflows.complete(Interaction.objects.get(instance=packing, status="pending"), data)


class Fence:
    """Loses the claim of the story before its n-th fenced write, or before the lock that a transaction begins with.

    Under that lock nobody can take a claim.
    """

    def __init__(self, at: int) -> None:
        self.at, self.count, self.story = at, 0, ""
        self._depth = 0

    def __call__(self, execute, sql, params, many, context):
        if self._is_boundary(sql) and self.story in " ".join(map(str, params.values())):
            self.count += 1
            if self.count == self.at:
                with connection.cursor() as cursor:
                    cursor.execute(
                        "UPDATE holdpoint_instance i SET fence = i.fence + 1, status = 1, due_at = holdpoint_clock() "
                        "WHERE id = %s",
                        [self.story],
                    )
        return execute(sql, params, many, context)

    def _is_boundary(self, sql: str) -> bool:
        depth = len(connection.savepoint_ids)
        if depth < self._depth:
            self._depth = 0
        if self._depth or "fence" not in sql or "fence = i.fence + 1" in sql:
            return False
        if sql.startswith("SELECT"):
            self._depth = depth if sql.startswith("SELECT id::text, fence") else 0
            return bool(self._depth)
        return True


def play_story(at: int) -> Fence:
    """The story with everybody who answers in it, told to its end; the claim is lost once."""
    other = workflows.start("crash-pack")
    drain()
    fence = Fence(at)
    story = workflows.start("crash-story", {"other": str(other.pk)})
    fence.story = str(story.pk)
    answers = [
        lambda: complete("agreed", 1),
        lambda: workflows.emit("happened", 2),
        lambda: workflows.signal(story.id, "paid", 3),
        lambda: end_pack(story, 4),
        lambda: complete("partner", 5),
        lambda: end_pack(None, 6),
    ]
    with connection.execute_wrapper(fence):
        for answer in [lambda: None, *answers]:
            answer()
            drain()
    assert_done(story, [["agreed", 1], ["happened", 2], ["paid", 3], ["packed", 4], ["partner", 5], ["other", 6]])
    assert Instance.objects.filter(parent=story).count() == 1
    asked = LedgerEvent.objects.filter(instance=story, kind="asked").count()
    assert asked == 8, "a question was asked twice"
    assert not Interaction.objects.filter(instance=story, status="pending").exists()
    assert not EventWait.objects.filter(instance=story, closed_at=None).exists()
    assert not Checkpoint.objects.filter(watch__in=(Watch.ARMED, Watch.ENDED)).exists()
    check_all_folds()
    return fence


@pytest.mark.django_db
def test_the_story_has_so_many_fenced_writes():
    assert play_story(0).count == WRITES


@pytest.mark.django_db
@pytest.mark.parametrize("at", range(1, WRITES + 1))
def test_a_claim_that_is_lost_between_any_two_writes_changes_nothing_of_what_is_told(at):
    assert play_story(at).count > at


ANSWERS = {
    "signal": lambda started: workflows.signal(started.id, "signal", "signal"),
    "question": lambda started: answer(started, "question", "question"),
    "child": lambda started: end_pack(started, "child"),
}


@pytest.mark.django_db
@pytest.mark.parametrize("first", ANSWERS)
@pytest.mark.parametrize("died", ["before the park", "after the wait"])
def test_which_answer_was_first_stays_so_where_the_worker_died_and_another_answer_came(first, died):
    def body(ctx):
        waiting = [
            ctx.ask("signal", received("signal")),
            ctx.ask("question", question("api")),
            ctx.ask("child", child(pack)),
        ]
        order = []
        while waiting:
            one = ctx.wait_any(waiting)
            waiting.remove(one)
            order.append([one.id, getattr(one.answer, "payload", one.answer)])
        return order

    started = durable(name="crash-first", signals=True)(body).start()
    if died == "before the park":
        play(take_one())
        advance("1m")
    drain()
    assert_open(started, ["signal", "question", "child"])
    ANSWERS[first](started)
    if died == "after the wait" and first != "child":
        play(take_one())  # and no outcome of it
    elif first == "child":
        drain()
    others = [one for one in ANSWERS if one != first]
    for one in others:
        ANSWERS[one](started)
    advance("1m")
    told = Instance.objects.get(pk=started.pk).result
    assert told[0] == [first, first]
    assert sorted(told) == [[one, one] for one in sorted(ANSWERS)]
    assert Instance.objects.filter(parent=started).count() == 1
    check_all_folds()


# --- two connections ----------------------------------------------------------------------------------


def start(body, name):
    return durable(name=f"crash-{name}")(body).start()


def run_once() -> None:
    settle(play(take_one()))


@COMMITTED
@pytest.mark.parametrize("first", ["end", "ask"])
def test_an_end_and_a_question_about_it_miss_each_other_on_neither_side(first):
    other = workflows.start("crash-pack")
    run_once()

    def body(ctx):
        asked = ctx.wait_any(ctx.ask("other", instance(other)))
        return asked.answered

    started = start(body, "ends")
    calls = (lambda: workflows.cancel(other), run_once)
    race(*(calls if first == "end" else calls[::-1]))
    from workflows.worker import end_sweep

    assert end_sweep.work() == 1
    work()
    assert_done(started, False)


@COMMITTED
@pytest.mark.parametrize("first", ["emit", "ask"])
def test_an_emit_and_a_question_about_its_event_miss_each_other_on_neither_side(first):
    def body(ctx):
        return ctx.wait_any(ctx.ask("happened", event("happened"))).answer

    started = start(body, "events")
    calls = (lambda: workflows.emit("happened", 1), run_once)
    race(*(calls if first == "emit" else calls[::-1]))
    work()
    assert_done(started, 1)


@COMMITTED
@pytest.mark.parametrize("first", ["answer", "withdraw"])
def test_an_answer_and_a_withdrawal_have_one_winner(first):
    def body(ctx):
        asked = ctx.ask("asked", question("api"))
        ctx.wait_any(ctx.ask("go", received("go")))
        asked.withdraw()
        return asked.answer

    started = durable(name="crash-withdraw", signals=True)(body).start()
    run_once()
    workflows.signal(started.id, "go")
    asked, claim = Interaction.objects.get(instance=started), take_one()
    calls = (lambda: workflows.complete(asked, 1), lambda: settle(play(claim)))
    answers = race(*(calls if first == "answer" else calls[::-1]))
    work()
    assert_done(started, None)
    assert Interaction.objects.get(pk=asked.pk).status == ("completed" if first == "answer" else "cancelled")
    refused = [one for one in answers if getattr(one, "error", None) is not None]
    assert [one.error for one in refused] == ([] if first == "answer" else [workflows.UnknownInteraction])


@COMMITTED
@pytest.mark.parametrize("first", ["one", "two"])
def test_of_two_answers_at_once_one_is_first_and_the_other_is_there_for_the_next_wait(first):
    def body(ctx):
        one, two = ctx.ask("one", question("api")), ctx.ask("two", question("api"))
        won = ctx.wait_any(one, two)
        return [won.id, ctx.wait_any(two if won is one else one).id]

    started = start(body, "answers")
    run_once()
    calls = [lambda: answer(started, "one"), lambda: answer(started, "two")]
    race(*(calls if first == "one" else calls[::-1]))
    work()
    assert_done(started, ["one", "two"] if first == "one" else ["two", "one"])


def answer(started: Instance, step: str, data: object = 1) -> None:
    workflows.complete(Interaction.objects.get(instance=started, unit__step=step), data)


@COMMITTED
def test_an_answer_that_comes_while_the_run_parks_wakes_it():
    def body(ctx):
        one, two = ctx.ask("one", question("api")), ctx.ask("two", question("api"))
        return ctx.wait_any(one, two).id

    started = start(body, "parks")
    claim = take_one()
    parked = play(claim)
    answer(started, "two")  # after the run has looked, before it is parked
    assert settle(parked)
    assert Instance.objects.get(pk=started.pk).status == "runnable"
    work()
    assert_done(started, "two")
    assert take() == []
