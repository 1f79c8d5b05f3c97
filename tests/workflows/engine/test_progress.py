"""`ctx.progress`: kept on the instance at most twice a second, fenced, without a ledger row, and seen at every door."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.db import connections
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

import workflows
from tests.support.api_calls import Api, make_key
from tests.support.processes import wait_until
from tests.support.pumps import pumping
from tests.support.races import COMMITTED, forget, play, settle, take, take_one
from workflows import (
    Await,
    Done,
    Machine,
    Next,
    Retry,
    Stop,
    Workflow,
    action,
    collect,
    durable,
    expand,
    step,
    store,
)
from workflows.engine.progress import LONGEST_NOTE
from workflows.models import Instance, LedgerEvent
from workflows.testing import advance, drain

#: What the steps below call while they run.
act: list[Callable[[Any], object]] = []


@pytest.fixture(autouse=True)
def _forget_acts() -> None:
    act.clear()


class Steps(Workflow):
    name = "progress.steps"

    @step
    def a(self, ctx):
        return act[0](ctx) or Done()

    @step
    def b(self, ctx):
        return Done()


class Atomic(Workflow):
    name = "progress.atomic"

    @step(atomic=True)
    def a(self, ctx):
        return act[0](ctx) or Done()


@durable(name="progress.function")
def function(ctx):
    act[0](ctx)


class Stages(Machine):
    name = "progress.machine"

    first = action(lambda ctx: act[0](ctx) and None)


STYLES = pytest.mark.parametrize("workflow", [Steps, Atomic, function, Stages])


def said(instance: Instance) -> tuple[Any, ...] | None:
    instance.refresh_from_db()
    progress = instance.progress
    return None if progress is None else (progress["done"], progress["total"], progress["note"])


# --- what is kept -----------------------------------------------------------------------------------


@pytest.mark.django_db
@STYLES
def test_every_style_keeps_the_last_progress_of_a_run(workflow: Any) -> None:
    def work(ctx: Any) -> None:
        for done in range(1, 1001):
            ctx.progress(done, 1000, f"row {done}")

    act.append(work)
    instance = workflows.start(workflow)
    drain()
    assert said(instance) == (1000, 1000, "row 1000")
    assert instance.status == "done"
    assert instance.progress_at is not None
    assert instance.created_at < instance.progress_at


@pytest.mark.django_db
@pytest.mark.parametrize("how", ["next", "await", "retry", "stop", "raise", "done"])
def test_whatever_becomes_of_the_run_its_progress_is_kept(how: str) -> None:
    def work(ctx: Any) -> Any:
        ctx.progress(3)
        if how == "raise":
            raise ZeroDivisionError
        ends = {"next": Next("b"), "await": Await("go", then="b"), "retry": Retry(), "stop": Stop("no"), "done": Done()}
        return ends[how]

    act.append(work)
    instance = workflows.start(Steps)
    settle(play(take_one()))
    assert said(instance) == (3, None, "")


@pytest.mark.django_db
def test_an_instance_that_says_nothing_has_none_and_keeps_what_it_said_before() -> None:
    act.append(lambda ctx: None)
    instance = workflows.start(Steps)
    drain()
    assert said(instance) is None
    act[0] = lambda ctx: ctx.progress(1, 2) or Next("b")
    instance = workflows.start(Steps)
    drain()
    assert (said(instance), instance.step) == ((1, 2, ""), "b")


@pytest.mark.django_db
def test_it_writes_no_row_of_the_ledger() -> None:
    act.append(lambda ctx: None)
    plain = workflows.start(Steps)
    drain()
    act[0] = lambda ctx: ctx.progress(1)
    told = workflows.start(Steps)
    drain()
    rows = [list(LedgerEvent.objects.filter(instance=one).values_list("kind", flat=True)) for one in (plain, told)]
    assert rows[0] == rows[1]


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("done", "total", "note", "word"),
    [
        ("3", None, "", "done"),
        (True, None, "", "done"),
        (-1, None, "", "done"),
        (float("nan"), None, "", "done"),
        (float("inf"), None, "", "done"),
        (1, "all", "", "total"),
        (1, -1, "", "total"),
        (1, None, 7, "note"),
        (1, None, "\0", "note"),
    ],
)
def test_what_is_no_number_or_text_is_refused_and_named(done: Any, total: Any, note: Any, word: str) -> None:
    act.append(lambda ctx: ctx.progress(done, total, note))
    instance = workflows.start(Steps)
    settle(play(take_one()))
    assert said(instance) is None
    assert word in instance.error


@pytest.mark.django_db
def test_halves_and_unknown_totals_and_any_text_are_kept_and_a_long_note_is_clipped() -> None:
    act.append(lambda ctx: ctx.progress(0.5, 1.5, 'ä"\\{},' + "x" * 1000))
    instance = workflows.start(Steps)
    drain()
    done, total, note = said(instance) or ()
    assert (done, total) == (0.5, 1.5)
    assert note.startswith('ä"\\{},xxx')
    assert len(note) == LONGEST_NOTE


# --- what it costs ----------------------------------------------------------------------------------


@pytest.mark.django_db
@pytest.mark.parametrize("workflow", [Steps, function, Stages])
def test_saying_it_a_thousand_times_is_one_statement_at_the_end_of_the_run(workflow: Any) -> None:
    def count(work: Callable[[Any], object]) -> int:
        act[:] = [work]
        workflows.start(workflow)
        with CaptureQueriesContext(connections["default"]) as queries:
            drain()
        return sum("holdpoint_" in one["sql"] for one in queries.captured_queries)

    def work(ctx: Any) -> None:
        for done in range(1000):
            ctx.progress(done)

    assert count(work) - count(lambda ctx: None) == 1


@pytest.mark.django_db
def test_a_batch_of_instances_keeps_its_progress_in_one_statement() -> None:
    act.append(lambda ctx: ctx.progress(1))
    workflows.start_many(Steps, [{}] * 50)
    commits = [play(claim) for claim in take(50)]
    with CaptureQueriesContext(connections["default"]) as queries:
        assert settle(*commits)
    assert sum("SET progress" in one["sql"] for one in queries.captured_queries) == 1
    assert Instance.objects.filter(progress__done=1).count() == 50


# --- while the step runs ----------------------------------------------------------------------------


@COMMITTED
@pytest.mark.usefixtures("committed")
@STYLES
def test_a_running_step_is_seen_to_advance_and_its_last_word_is_not_lost(workflow: Any) -> None:
    go_on, end = threading.Event(), threading.Event()

    def work(ctx: Any) -> None:
        ctx.progress(1, 3, "reading")
        go_on.wait(120)
        ctx.progress(2, 3, "writing")
        end.wait(120)
        ctx.progress(3, 3)

    act.append(work)
    instance = workflows.start(workflow)
    with pumping():
        wait_until(lambda: said(instance) == (1, 3, "reading"), "the first word")
        assert instance.status == "running"
        go_on.set()
        wait_until(lambda: said(instance) == (2, 3, "writing"), "the second")
        assert instance.status == "running"
        end.set()
        wait_until(lambda: said(instance) == (3, 3, ""), "the last")
        wait_until(lambda: said(instance) and instance.ended, "the end")


@COMMITTED
@pytest.mark.usefixtures("committed")
def test_it_is_written_at_most_twice_a_second() -> None:
    """Every write stamps the row: of a step that speaks without pause no two stamps are closer than half a second."""
    enough = threading.Event()

    def work(ctx: Any) -> None:
        done = 0
        while not enough.wait(0.001):
            done += 1
            ctx.progress(done)

    act.append(work)
    instance = workflows.start(Steps)
    stamps: list[Any] = []

    def look() -> int:
        instance.refresh_from_db()
        if instance.progress_at is not None and instance.progress_at not in stamps:
            stamps.append(instance.progress_at)
        return len(stamps)

    with pumping():
        wait_until(look, "four writes", is_it=lambda count: count == 4)
        enough.set()
        wait_until(lambda: said(instance) and instance.ended, "the end")
    # By two clocks, the keeper's and the server's, which may be slewed meanwhile.
    assert all((later - earlier).total_seconds() > 0.49 for earlier, later in pairwise(stamps))


@COMMITTED
@pytest.mark.usefixtures("committed")
def test_a_held_row_keeps_no_step_waiting_and_is_written_once_it_is_free() -> None:
    said_it, end = threading.Event(), threading.Event()

    def work(ctx: Any) -> None:
        ctx.progress(1)
        said_it.set()
        end.wait(120)

    act.append(work)
    instance = workflows.start(Steps)
    with pumping():
        wait_until(lambda: said(instance) == (1, None, ""), "the first word")
        holder = connections.create_connection("default")
        try:
            holder.set_autocommit(False)
            store.fetch(holder, "SELECT 1 FROM holdpoint_instance WHERE id = %(id)s FOR UPDATE", {"id": instance.pk})
            end.set()  # the end of the run waits for the row as ever; what it said comes with it
            holder.rollback()
        finally:
            holder.close()
        wait_until(lambda: said(instance) and instance.ended, "the end")


@pytest.mark.django_db
def test_a_worker_that_has_lost_its_claim_writes_no_progress() -> None:
    act.append(lambda ctx: ctx.progress(1))
    instance = workflows.start(Steps)
    lost = take_one()
    forget(lost)
    store.reclaim(connections["default"])
    act[0] = lambda ctx: ctx.progress(2) or Next("b")
    settle(play(take_one()))
    assert said(instance) == (2, None, "")
    act[0] = lambda ctx: ctx.progress(1)
    assert not settle(play(lost))
    assert not store.show_progress(connections["default"], lost, json.dumps({"done": 1, "total": None, "note": ""}))
    assert said(instance) == (2, None, "")


@pytest.mark.django_db
def test_a_function_that_repeats_its_way_says_nothing_until_it_is_as_far_again() -> None:
    """Else a bar would run backwards at each resume."""
    heard: list[Any] = []

    def work(ctx: Any) -> None:
        for done in range(1, 4):
            ctx.step(f"row-{done}", int)
            ctx.progress(done, 6)
            heard.append(ctx.claim.progress and json.loads(ctx.claim.progress)["done"])
        ctx.wait_for_signal("go", timeout="1h")
        heard.append(ctx.claim.progress)
        ctx.progress(4, 6)

    act.append(work)
    instance = workflows.start(function)
    drain()
    assert (said(instance), heard) == ((3, 6, ""), [1, 2, 3])
    heard.clear()
    workflows.complete(f"go-{instance.pk}", None)
    drain()
    assert (said(instance), heard) == ((4, 6, ""), [None, None, None, None])


@pytest.mark.django_db
def test_progress_inside_the_function_of_a_call_is_kept_too() -> None:
    act.append(lambda ctx: ctx.step("import", lambda: ctx.progress(7, 7)))
    instance = workflows.start(function)
    drain()
    assert said(instance) == (7, 7, "")


# --- where it is seen -------------------------------------------------------------------------------


@pytest.fixture
def halfway() -> Instance:
    act.append(lambda ctx: ctx.progress(1500, 10000, "<b>rows</b>") or Await("go", then="b", timeout="1h"))
    instance = workflows.start(Steps)
    drain()
    return instance


@pytest.mark.django_db
def test_rest_shows_it_in_the_detail_the_list_and_the_answer_of_a_long_poll(halfway: Instance) -> None:
    api = Api(make_key())
    halfway.refresh_from_db()
    shown = api.get(f"/v1/instances/{halfway.pk}").json()["progress"]
    assert {name: shown[name] for name in ("done", "total", "note")} == {
        "done": 1500,
        "total": 10000,
        "note": "<b>rows</b>",
    }
    assert shown["at"].endswith("Z")
    assert api.get("/v1/instances").json()["results"][0]["progress"] == shown
    waited = api.get(f"/v1/instances/{halfway.pk}?wait=0")
    assert (waited.status_code, waited.json()["progress"]) == (202, shown)


@pytest.mark.django_db
def test_an_instance_without_progress_shows_null() -> None:
    api = Api(make_key())
    instance = workflows.start(Steps)
    assert api.get(f"/v1/instances/{instance.pk}").json()["progress"] is None


@pytest.mark.django_db
def test_the_admin_shows_it_in_the_list_and_on_the_page(halfway: Instance, client: Any) -> None:
    client.force_login(get_user_model().objects.create_superuser("root"))
    for url in (
        reverse("admin:holdpoint_instance_changelist"),
        reverse("admin:holdpoint_instance_change", args=[halfway.pk]),
    ):
        page = client.get(url).content.decode()
        assert "1,500 of 10,000" in page
        assert "&lt;b&gt;rows&lt;/b&gt;" in page
        assert "<b>rows</b>" not in page


@pytest.mark.django_db
def test_the_command_shows_it(halfway: Instance, capsys: Any) -> None:
    call_command("workflows", "show", str(halfway.pk))
    assert "1500 of 10000, <b>rows</b>" in capsys.readouterr().out


@pytest.mark.django_db
def test_it_stays_when_the_instance_goes_on_and_ends(halfway: Instance) -> None:
    advance("2h")
    drain()
    assert said(halfway) == (1500, 10000, "<b>rows</b>")
    assert halfway.ended


@COMMITTED
@pytest.mark.usefixtures("committed")
def test_a_long_poll_that_asks_for_progress_is_answered_as_soon_as_there_is_more() -> None:
    go_on, end = threading.Event(), threading.Event()

    def work(ctx: Any) -> None:
        ctx.progress(1, 3)
        go_on.wait(120)
        ctx.progress(2, 3)
        end.wait(120)

    act.append(work)
    api = Api(make_key())
    instance = workflows.start(Steps)
    address = f"/v1/instances/{instance.pk}?wait=30&progress_after="
    with pumping():
        first = api.get(f"{address}2020-01-01T00:00:00Z")
        assert (first.status_code, first.json()["progress"]["done"]) == (202, 1)
        go_on.set()
        second = api.get(address + first.json()["progress"]["at"])
        assert (second.status_code, second.json()["progress"]["done"]) == (202, 2)
        end.set()
        last = api.get(address + second.json()["progress"]["at"])
        assert (last.status_code, last.json()["status"]) == (200, "done")


@pytest.mark.django_db
@pytest.mark.parametrize("text", ["yesterday", "2026-13-01T00:00:00Z", "2026-11-18T09:30:00"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    api = Api(make_key())
    instance = workflows.start(Steps)
    answer = api.get(f"/v1/instances/{instance.pk}?wait=0&progress_after={text}")
    assert answer.status_code == 400
    assert "progress_after" in answer.json()["detail"]


# --- a list of items counts by itself ---------------------------------------------------------------


@durable(name="progress.each")
def each(ctx, says=False):
    if says:
        ctx.progress(1, 2, "two parts")
    ctx.wait_for_each("pay", ["a", "b", "c"], "bank")


@pytest.mark.django_db
def test_of_a_list_that_is_waited_for_the_items_that_are_through_are_told(client: Any, capsys: Any) -> None:
    instance = workflows.start(each)
    drain()
    workflows.complete(f"pay.1-{instance.pk}", None)
    drain()
    api = Api(make_key())
    expected = {"done": 1, "total": 3, "note": "", "at": None}
    assert api.get(f"/v1/instances/{instance.pk}").json()["progress"] == expected
    assert api.get(f"/v1/instances/{instance.pk}?wait=0").json()["progress"] == expected
    client.force_login(get_user_model().objects.create_superuser("root"))
    page = client.get(reverse("admin:holdpoint_instance_change", args=[instance.pk])).content.decode()
    assert "1 of 3" in page
    call_command("workflows", "show", str(instance.pk))
    assert "1 of 3" in capsys.readouterr().out


@pytest.mark.django_db
def test_what_its_author_said_comes_before_what_is_counted() -> None:
    instance = workflows.start(each, {"says": True})
    drain()
    assert Api(make_key()).get(f"/v1/instances/{instance.pk}").json()["progress"]["note"] == "two parts"


class Lines(Machine):
    name = "progress.lines"

    names = expand(lambda ctx: ctx.input["names"])
    read = action(lambda ctx: ctx.progress(1, 2, f"reads {ctx.item}"))
    total = collect(lambda ctx: len(ctx.items))


def read_answer(ctx, item, output):
    ctx.progress(2, 2, f"{item} is {output}")
    return output


@durable(name="progress.then")
def then_lines(ctx):
    return ctx.wait_for_each("pay", ["a"], "bank", then=read_answer)


@pytest.mark.django_db
def test_a_line_of_a_stream_says_how_far_it_is_on_its_own_row() -> None:
    machine, each = workflows.start(Lines, {"names": ["ann"]}), workflows.start(then_lines)
    drain()
    workflows.complete(f"pay.0-{each.pk}", "paid")
    drain()
    lines = [Instance.objects.get(parent=one) for one in (machine, each)]
    assert [said(one) for one in lines] == [(1, 2, "reads ann"), (2, 2, "a is paid")]
    assert [said(machine), said(each)] == [None, None]
