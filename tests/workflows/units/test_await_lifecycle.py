"""The life of an await: which events there are, in which order and at which moment; by Python and over REST."""

from __future__ import annotations

import json
import uuid
from base64 import urlsafe_b64encode
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

import workflows
from tests.support.api_calls import Api, problem
from tests.support.webhook.letters import Letter
from workflows import Await, Done, SignalTimeoutError, Workflow, durable, lifecycle_events, step
from workflows.models import AwaitUnit, Instance, LedgerEvent
from workflows.store.ledger.retention import prune
from workflows.testing import advance, assert_done, drain

pytestmark = pytest.mark.django_db

SENT, ALL_SENT = "await_interaction_dispatched", "await_unit_dispatch_complete"
WAITING, ITEM, COMPLETED = "await_execution_waiting", "await_unit_item_completed", "await_unit_completed"
RELEASED, TERMINAL = "await_resume_released", "await_unit_terminal"


@durable(name="life-one")
def one(ctx, timeout="1h", catch=False):
    try:
        return ctx.wait_for("ask", "api", input={"n": 1}, timeout=timeout)
    except SignalTimeoutError:
        if catch:
            return "late"
        raise


@durable(name="life-each")
def each(ctx, n=3, visits=1, **options):
    for visit in range(visits):
        got = ctx.wait_for_each(f"pay-{visit}" if visit else "pay", [{"n": i} for i in range(n)], "api", **options)
    return [getattr(one, "output", one) for one in got]


@durable(name="life-letter")
def letter(ctx):
    return ctx.wait_for("ask", Letter("Ann"), timeout="1d")


@durable(name="life-letters")
def letters(ctx, n):
    return ctx.wait_for_each("pay", list(range(n)), Letter("Ann"))


class LifeSteps(Workflow):
    name = "life-steps"

    @step
    def ask(self, ctx: Any) -> Await:
        ctx.callback("unused").resume_url  # noqa: B018 (asks)
        return Await("go", then="end", timeout="1h")

    @step
    def end(self, ctx: Any) -> Done:
        return Done(ctx.timed_out)


def start(workflow: Any, **input: Any) -> Instance:
    started = workflows.start(workflow, input)
    drain()
    return started


def answer(instance: Instance, index: int, data: Any = None, wait: str = "pay") -> None:
    workflows.complete(f"{wait}.{index}-{instance.pk}", index if data is None else data, actor="ann")


def kinds(instance: Instance) -> list[str]:
    return [str(event.kind) for event in lifecycle_events(instance)]


def read_all(api: Api, instance: Instance, limit: int) -> list[list[dict[str, Any]]]:
    """All pages, forwards."""
    url, pages = f"/v1/instances/{instance.pk}/events?limit={limit}", []
    while url:
        page = api.get(url).json()
        pages.append(page["results"])
        url = page["next"]
    return pages


def test_one_question_lives_from_its_dispatch_to_its_terminal_event():
    asked = start("life-one")
    assert kinds(asked) == [SENT, ALL_SENT, WAITING]
    workflows.complete(asked.interactions.get(), {"ok": True}, actor="ann")
    drain()
    assert_done(asked, {"ok": True})
    events = list(lifecycle_events(asked))
    assert [str(event.kind) for event in events] == [SENT, ALL_SENT, WAITING, ITEM, COMPLETED, RELEASED, TERMINAL]
    question = asked.interactions.get()
    assert {event.unit for event in events} == {question.unit_id}
    assert (events[3].interaction, events[3].index, events[3].actor) == (question.pk, 0, "ann")
    assert events[3].data == {"how": "completed", "channel": "api"}
    assert events[6].data == {"status": "completed"}


def test_its_events_have_the_moments_of_the_rows_that_tell_of_them():
    asked = start("life-one")
    advance("10m")
    workflows.complete(asked.interactions.get(), 1)
    moments = {str(row.kind): row.at for row in LedgerEvent.objects.filter(instance=asked)}
    sent, all_sent, waiting, *ends = lifecycle_events(asked)
    assert sent.at == all_sent.at == moments["asked"]
    assert waiting.at == moments["suspended"]
    assert waiting.data == {"deadline": asked.interactions.get().deadline}
    assert {event.at for event in ends} == {moments["answered"]}


def test_no_more_rows_are_written_for_the_events_of_one_question():
    asked = start("life-one")
    workflows.complete(asked.interactions.get(), 1)
    drain()
    assert not LedgerEvent.objects.filter(instance_id=asked.interactions.get().unit_id).exists()
    rows = LedgerEvent.objects.filter(instance=asked).order_by("seq")
    assert [str(row.kind) for row in rows] == ["started", "asked", "suspended", "answered", "done"]


@pytest.mark.parametrize("catch", [True, False])
def test_a_question_that_expires_ends_without_being_completed(catch):
    asked = start("life-one", catch=catch)
    advance("2h")
    assert kinds(asked) == [SENT, ALL_SENT, WAITING, ITEM, RELEASED, TERMINAL]
    item, _, terminal = list(lifecycle_events(asked))[3:]
    assert (item.data["how"], terminal.data) == ("expired", {"status": "expired"})


def test_an_answer_that_comes_too_late_expires_the_question_by_its_own_row():
    asked = start("life-one")
    question = asked.interactions.get()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_interaction SET deadline = holdpoint_now() WHERE id = %s", [question.pk])
    with pytest.raises(workflows.InteractionResolved):
        workflows.complete(question, 1)
    assert kinds(asked) == [SENT, ALL_SENT, WAITING, ITEM, RELEASED, TERMINAL]


def test_a_question_that_is_cancelled_with_its_instance_has_a_terminal_event_only():
    asked = start("life-one")
    workflows.cancel(asked, "not needed")
    assert kinds(asked) == [SENT, ALL_SENT, WAITING, TERMINAL]
    *_, terminal = lifecycle_events(asked)
    assert terminal.data == {"status": "cancelled"}
    assert terminal.at == LedgerEvent.objects.get(instance=asked, kind="cancelled").at


def test_a_question_that_nobody_waited_for_ends_with_its_instance():
    asked = start("life-steps")
    assert kinds(asked) == [SENT, ALL_SENT]
    workflows.signal(asked, "go")
    drain()
    assert kinds(asked) == [SENT, ALL_SENT, TERMINAL]


def test_a_deadline_that_is_no_questions_is_no_event_of_an_await():
    asked = start("life-steps")
    advance("2h")
    assert [str(row.kind) for row in asked.events.order_by("seq")][-2:] == ["timed_out", "done"]
    assert kinds(asked) == [SENT, ALL_SENT, TERMINAL]


def test_each_visit_of_a_retried_wait_has_a_life_of_its_own():
    asked = start("life-one")
    advance("2h")
    workflows.retry(asked)
    drain()
    question = asked.interactions.order_by("id").last()
    workflows.complete(question, 1)
    drain()
    expired = [SENT, ALL_SENT, WAITING, ITEM, RELEASED, TERMINAL]
    assert kinds(asked) == [*expired, SENT, ALL_SENT, WAITING, ITEM, COMPLETED, RELEASED, TERMINAL]
    units = [event.unit for event in lifecycle_events(asked)]
    assert units[6:] == [question.unit_id] * 7
    assert question.unit_id not in units[:6]


def test_the_events_of_a_unit_of_items_are_its_own_rows_in_order():
    asked = start("life-each")
    for index in (2, 0, 1):
        answer(asked, index)
    drain()
    assert_done(asked, [0, 1, 2])
    assert kinds(asked) == [SENT, ALL_SENT, WAITING, ITEM, ITEM, ITEM, COMPLETED, RELEASED, TERMINAL]
    events = list(lifecycle_events(asked))
    unit = AwaitUnit.objects.get(instance=asked)
    assert {event.unit for event in events} == {unit.pk}
    assert [event.index for event in events if event.kind == ITEM] == [2, 0, 1]
    assert [event.actor for event in events if event.kind == ITEM] == ["ann"] * 3
    assert events[0].data == {"first": 0, "last": 2}
    moments = [event.at for event in events]
    assert moments == sorted(moments)


def test_items_tell_how_they_ended():
    asked = start("life-each", timeout="1h", on_item="partial")
    answer(asked, 1)
    advance("2h")
    drain()
    ends = {event.index: event.data["how"] for event in lifecycle_events(asked) if event.kind == ITEM}
    assert ends == {0: "expired", 1: "completed", 2: "expired"}


def test_a_unit_of_items_that_is_cancelled_has_one_terminal_event():
    asked = start("life-each")
    answer(asked, 1)
    workflows.cancel(asked)
    assert kinds(asked) == [SENT, ALL_SENT, WAITING, ITEM, TERMINAL]
    *_, terminal = lifecycle_events(asked)
    assert terminal.data["status"] == "cancelled"


def test_items_that_wait_for_their_turn_are_sent_as_others_end():
    asked = start("life-each", concurrency=2)
    for index in range(3):
        answer(asked, index)
    drain()
    assert kinds(asked)[:5] == [SENT, WAITING, ITEM, SENT, ALL_SENT]


def test_what_is_sent_has_the_moment_at_which_it_went_out():
    Letter.sent.clear()
    Letter.troubles[:] = [ConnectionError("busy")]
    asked = start("life-letter")
    assert kinds(asked) == [WAITING]
    advance("10m")
    question = asked.interactions.get()
    sent, all_sent = list(lifecycle_events(asked))[1:]
    assert (str(sent.kind), str(all_sent.kind)) == (SENT, ALL_SENT)
    assert sent.at == all_sent.at == question.dispatched_at
    assert (sent.interaction, sent.index, sent.data["tries"]) == (question.pk, 0, 2)
    workflows.complete(question, 1)
    assert kinds(asked) == [WAITING, SENT, ALL_SENT, ITEM, COMPLETED, RELEASED, TERMINAL]


def test_the_row_of_a_question_that_was_sent_goes_with_its_instance():
    Letter.sent.clear()
    Letter.troubles.clear()
    asked = start("life-letter")
    question = asked.interactions.get()
    assert LedgerEvent.objects.filter(instance_id=question.unit_id).count() == 2
    workflows.cancel(asked)
    advance("1d")
    assert sum(one.instances for one in prune(connection, older_than=60)) == 1
    assert not LedgerEvent.objects.filter(instance_id=question.unit_id).exists()


def test_items_that_are_sent_have_a_row_each_when_they_went_out():
    Letter.sent.clear()
    asked = start("life-letters", n=3)
    unit = AwaitUnit.objects.get(instance=asked)
    sent = [event for event in lifecycle_events(asked) if event.kind == SENT]
    assert [event.index for event in sent] == [0, 1, 2]
    assert [event.interaction for event in sent] == [row.pk for row in unit.interactions.order_by("index")]
    for index in range(3):
        answer(asked, index)
    drain()
    assert_done(asked, [0, 1, 2])
    unit.refresh_from_db()
    assert [row.seq for row in LedgerEvent.objects.filter(instance_id=unit.pk)] == list(range(1, unit.seq + 1))


# Over REST


def test_the_history_of_an_instance_says_what_each_row_means(api):
    asked = start("life-one")
    workflows.complete(asked.interactions.get(), 1)
    drain()
    [rows] = read_all(api, asked, 50)
    assert [(row["kind"], row["lifecycle"], row["unit"]) for row in rows] == [
        ("started", [], None),
        ("asked", [SENT, ALL_SENT], None),
        ("suspended", [WAITING], None),
        ("answered", [ITEM, COMPLETED, RELEASED, TERMINAL], None),
        ("done", [], None),
    ]


def test_the_rows_of_units_stand_among_those_of_their_instance_by_their_moment(api):
    asked = start("life-each")
    for index in (2, 0, 1):
        answer(asked, index)
    drain()
    [rows] = read_all(api, asked, 50)
    unit = str(AwaitUnit.objects.get(instance=asked).pk)
    own = [row["kind"] for row in rows if row["unit"] is None]
    assert own == ["started", "asked", "suspended", "answered", "done"]
    assert [row["seq"] for row in rows if row["unit"] == unit] == list(range(1, len(rows) - len(own) + 1))
    assert [row["at"] for row in rows] == sorted(row["at"] for row in rows)
    assert all(row["lifecycle"] == [row["kind"]] for row in rows if row["unit"])
    assert [row["lifecycle"] for row in rows if row["kind"] == "suspended"] == [[WAITING]]
    names = [name for row in rows for name in row["lifecycle"]]
    assert set(names) == {SENT, ALL_SENT, WAITING, ITEM, COMPLETED, RELEASED, TERMINAL}


@pytest.mark.parametrize(("items", "limits"), [(12, (1, 3, 7)), (110, (7, 100, 500))])
def test_pages_of_a_history_join_without_a_gap_both_ways(api, items, limits):
    asked = start("life-each", n=items, visits=2)
    for wait in ("pay", "pay-1"):
        for index in range(items):
            answer(asked, index, wait=wait)
        drain()
    for limit in limits:
        check_pages(api, asked, limit, more_than=2 * items)


def check_pages(api, asked, limit, more_than):
    forwards = read_all(api, asked, limit)
    rows = [(row["unit"], row["seq"]) for page in forwards for row in page]
    units = [str(unit.pk) for unit in AwaitUnit.objects.filter(instance=asked)]
    wanted = [(None, row.seq) for row in asked.events.all()]
    wanted += [(unit, row.seq) for unit in units for row in LedgerEvent.objects.filter(instance_id=unit)]
    assert len(rows) == len(wanted) > more_than
    assert set(rows) == set(wanted)
    assert all(len(page) == limit for page in forwards[:-1])
    last = api.get(f"/v1/instances/{asked.pk}/events", limit=limit).json()
    assert last["previous"] is None
    while last["next"]:
        last = api.get(last["next"]).json()
    backwards = [last["results"]]
    while last["previous"]:
        last = api.get(last["previous"]).json()
        assert len(last["results"]) <= limit
        backwards.insert(0, last["results"])
    assert [row for page in backwards for row in page] == [row for page in forwards for row in page]


def test_a_row_that_comes_between_two_pages_is_on_the_next_one(api):
    asked = start("life-each", n=4)
    answer(asked, 0)
    first = api.get(f"/v1/instances/{asked.pk}/events", limit=500).json()
    assert first["next"] is None
    page = api.get(f"/v1/instances/{asked.pk}/events", limit=len(first["results"]) - 1).json()
    answer(asked, 3)
    answer(asked, 1)
    rest = api.get(page["next"]).json()["results"]
    assert rest[0] == first["results"][-1]
    assert [row["data"].get("index") for row in rest[1:]] == [3, 1]


def test_a_link_of_before_the_first_unit_had_rows_leads_on(api):
    asked = start("life-each")
    cursor = urlsafe_b64encode(json.dumps([False, 0, 1]).encode()).decode()
    rows = api.get(f"/v1/instances/{asked.pk}/events", cursor=cursor).json()["results"]
    whole = api.get(f"/v1/instances/{asked.pk}/events").json()["results"]
    assert sorted(map(str, rows)) == sorted(map(str, whole[1:]))


@pytest.mark.parametrize(
    "place",
    [
        [False],
        [False, 9],
        [False, 9, -1],
        [False, 9, 2**31],
        [False, 9, True],
        [0, 9, 1],
        [False, 2, 1],
        [False, 9, 1, "x"],
        [False, 9, 1, str(uuid.UUID(int=1)), [str(uuid.UUID(int=1)), -1]],
        [False, 9, 1, str(uuid.UUID(int=1)), [str(uuid.UUID(int=1))]],
        [False, 9, 1, str(uuid.UUID(int=1)), 5],
        {"a": 1},
        5,
        None,
    ],
)
def test_a_place_that_no_history_has_is_refused(api, place):
    asked = start("life-each")
    cursor = urlsafe_b64encode(json.dumps(place).encode()).decode()
    told = api.get(f"/v1/instances/{asked.pk}/events", cursor=cursor)
    assert "cursor" in problem(told, 400, "invalid-request")["errors"]


def test_a_page_costs_the_same_statements_however_many_rows_and_units_there_are(api):
    few, many = start("life-each", n=3, visits=2), start("life-each", n=30, visits=12)
    for asked, visits in ((few, 2), (many, 12)):
        for visit in range(visits):
            wait = f"pay-{visit}" if visit else "pay"
            for index in range(3 if asked == few else 30):
                answer(asked, index, wait=wait)
            drain()
    counts = []
    for asked in (few, many):
        with CaptureQueriesContext(connection) as asked_for:
            assert api.get(f"/v1/instances/{asked.pk}/events", limit=10).status_code == 200
        counts.append(len([one for one in asked_for if "holdpoint_" in one["sql"]]))
    assert max(counts) <= 7, counts


def test_the_history_of_what_never_asked_costs_what_it_did(api):
    plain = workflows.start("life-steps")
    with CaptureQueriesContext(connection) as asked_for:
        assert api.get(f"/v1/instances/{plain.pk}/events").status_code == 200
    about = [one["sql"] for one in asked_for if "holdpoint_ledger" in one["sql"] or "holdpoint_unit" in one["sql"]]
    assert len(about) == 1
