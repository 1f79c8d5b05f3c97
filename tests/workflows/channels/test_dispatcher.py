"""Channels that send: when, how often, under which key, and what the row says of it."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

import workflows
from tests.support.statements import statements
from tests.support.webhook.letters import Bulk, Letter
from workflows import DispatchFailed, store
from workflows.channels import dispatcher
from workflows.channels.dispatcher import find_wait
from workflows.definitions.sweeps import Sweep, list_sweeps, register_sweep, unregister_sweep
from workflows.models import Interaction
from workflows.testing import advance, assert_awaiting, assert_done, drain
from workflows.values import back_off
from workflows.values.back_off import BackOff

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _empty() -> None:
    Letter.sent.clear()
    Letter.troubles.clear()
    Bulk.bags.clear()


def ask(to: str = "Ann") -> Interaction:
    workflows.start("letters.function", {"to": to})
    drain()
    return Interaction.objects.order_by("-id")[0]


def ask_only() -> None:
    """Run what is due, and send nothing."""
    [one] = [one for one in list_sweeps() if one.name == "dispatch"]
    unregister_sweep("dispatch")
    try:
        drain()
    finally:
        register_sweep(one)


def test_a_question_is_sent_once_after_it_is_asked() -> None:
    row = ask()
    [sent] = Letter.sent
    assert (sent.id, sent.tries, sent.visit, sent.request) == (row.id, 1, 1, {"dear": "Ann"})
    assert sent.config == {"to": "Ann"}
    assert row.dispatched_at is not None
    assert (row.dispatch_at, row.tries, row.dispatch_error) == (None, 1, None)
    drain()
    assert len(Letter.sent) == 1


def test_what_is_sent_can_be_answered_by_its_resume_url(client: Any) -> None:
    row = ask()
    url = Letter.sent[0].resume_url
    assert url is not None
    answer = client.post(url.replace("http://localhost:8000", ""), {"data": "yes"}, content_type="application/json")
    assert answer.status_code == 200, answer.content
    drain()
    assert_done(row.instance, "yes")


def test_a_step_and_a_function_send_alike() -> None:
    one = workflows.start("letters.step", {"to": "Ben"})
    drain()
    assert_awaiting(one)
    assert [sent.config["to"] for sent in Letter.sent] == ["Ben"]


def test_a_failure_is_tried_again_under_the_same_key_with_longer_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    # Nothing that a slow machine reaches by itself.
    monkeypatch.setattr(back_off, "DISPATCH", BackOff(600.0, 3600.0, 3.0, (0.8, 1.2)))
    Letter.troubles += [DispatchFailed("the post is closed"), RuntimeError("lost")]
    row = ask()
    assert row.dispatch_error == "the post is closed"
    assert (row.dispatched_at, row.tries) == (None, 1)
    advance("13m")
    row.refresh_from_db()
    assert (row.dispatch_error, row.tries) == ("RuntimeError: lost", 2)
    assert row.dispatch_at is not None
    advance("37m")
    row.refresh_from_db()
    assert row.dispatched_at is not None
    assert (row.dispatch_error, row.dispatch_at, row.tries) == (None, None, 3)
    assert len({sent.key for sent in Letter.sent}) == 1
    assert [sent.tries for sent in Letter.sent] == [1, 2, 3]


def test_the_other_side_says_how_long_it_wants_to_be_left_alone() -> None:
    Letter.troubles.append(DispatchFailed("busy", retry_after=600))
    ask()
    advance("9m")
    assert len(Letter.sent) == 1
    advance("4m")
    assert len(Letter.sent) == 2


def test_waits_grow_scatter_and_have_an_end() -> None:
    assert len({find_wait(1, None) for _ in range(9)}) > 1
    for tries, low, high in ((1, 1.6, 2.4), (2, 4.8, 7.2), (4, 43.2, 64.8), (9, 2880, 4320), (900, 2880, 4320)):
        assert low <= find_wait(tries, None) <= high
    assert find_wait(1, 1e9) <= 1.2 * dispatcher.MOST_RETRY_AFTER
    assert find_wait(1, -5) <= 2.4


def test_what_is_answered_is_not_sent_any_more() -> None:
    Letter.troubles.append(DispatchFailed("closed"))
    row = ask()
    workflows.complete(row, "by telephone")
    advance("1h")
    assert len(Letter.sent) == 1
    assert_done(row.instance, "by telephone")


def test_what_is_late_is_not_sent() -> None:
    row = ask()
    Letter.sent.clear()
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE holdpoint_interaction SET dispatch_at = now(), deadline = now() - interval '1 s' WHERE id = %s",
            [row.id],
        )
    assert dispatcher.work() == 1
    assert Letter.sent == []


def test_what_is_cancelled_is_not_sent() -> None:
    Letter.troubles.append(DispatchFailed("closed"))
    row = ask()
    workflows.cancel(row.instance)
    advance("1h")
    assert len(Letter.sent) == 1


def test_a_channel_that_sends_in_bulk_gets_so_many_at_a_time() -> None:
    workflows.start_many("letters.bulk", [{"to": name} for name in ("a", "b", "nobody", "c", "d")])
    ask_only()
    drain()
    assert sorted(map(len, Bulk.bags)) == [2, 3]
    rows = {one.config["to"]: one for one in Interaction.objects.filter(channel="bulk-letter")}
    assert rows["nobody"].dispatch_error == "RuntimeError: torn"
    assert rows["nobody"].dispatched_at is None
    assert all(rows[name].dispatched_at for name in "abcd")


def test_each_visit_of_a_wait_has_a_key_of_its_own() -> None:
    assert ask("Ann").id != ask("Ben").id
    assert len({sent.key for sent in Letter.sent}) == 2


def test_a_bulk_of_a_hundred_costs_as_many_statements_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Bulk, "batch", 500)
    monkeypatch.setattr(dispatcher, "list_sending", lambda: [Bulk])
    counts = []
    for many in (1, 100):
        workflows.start_many("letters.bulk", [{"to": str(n)} for n in range(many)])
        ask_only()
        with CaptureQueriesContext(connection) as found:
            assert dispatcher.work() == many
        counts.append([one["sql"][:6] for one in found])
    # Take up what is due, lock it and its units and record it in one transaction, see that nothing more is due.
    assert counts[0] == ["WITH c", "SAVEPO", "SELECT", "SELECT", "WITH x", "RELEAS", "WITH c"]
    assert counts[0] == counts[1]


def test_where_nothing_is_sent_the_look_is_no_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dispatcher, "list_sending", list)
    with statements(0):
        assert dispatcher.seconds_to_next(connection) is None


def test_a_stale_failure_does_not_overwrite_a_success() -> None:
    row = ask()
    assert store.record_tries(connection, [store.Tried(row.id, 0, sent=False, delay=5.0, error="old")]) == set()
    row.refresh_from_db()
    assert (row.dispatch_at, row.dispatch_error) == (None, None)


def test_a_channel_has_timers_of_its_own() -> None:
    due, reminded = ["Ann"], []

    def remind() -> int:
        reminded.extend(due)
        due.clear()
        return 0

    class Reminding(Letter):
        name = "reminding-letter"

        @classmethod
        def due_jobs(cls) -> list[Sweep]:
            return [Sweep("reminding-letters", lambda db: 0.0 if due else None, remind)]

    try:
        drain()
    finally:
        unregister_sweep("reminding-letters")
    assert reminded == ["Ann"]
