"""Dispatchers side by side: threads that send, rows that several want, early answers, and processes that die."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection, connections

import workflows
from tests.support.notices import Place, answer
from tests.support.processes import Process, find_environment, running, wait_until
from tests.support.pumps import pumping
from tests.support.races import Other, race, run_threads
from tests.support.webhook.letters import Letter
from tests.support.webhook.partners import find_ids, newest, verify
from workflows import store
from workflows.channels import dispatcher
from workflows.channels.webhook import Webhook
from workflows.definitions.sweeps import Sweep, list_sweeps, register_sweep, unregister_sweep
from workflows.models import Dispatch, Instance, Interaction
from workflows.outbound.posting import PostLimits
from workflows.testing import drain

pytestmark = pytest.mark.django_db(transaction=True)

PATIENCE = 60.0


@pytest.fixture(autouse=True)
def _by_hand() -> Iterator[None]:
    """What `drain` starts is sent by the test."""
    [one] = [one for one in list_sweeps() if one.name == "dispatch"]
    unregister_sweep("dispatch")
    yield
    register_sweep(one)


def ask(place: Place, count: int = 1) -> list[Any]:
    started = workflows.start_many("partners.ask", [{"url": place.url, "request": n} for n in range(count)])
    drain()
    return started


def wait_for(look: Callable[[], Any], what: str) -> None:
    wait_until(look, what, seconds=PATIENCE)


def rewind() -> None:
    """As if the leases had ended."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_interaction SET dispatch_at = now() WHERE dispatch_at IS NOT NULL")


def test_many_are_sent_by_several_threads_each_once(partner: Place) -> None:
    """The partner answers nobody before so many have called: one thread alone would wait for ever."""
    together = threading.Barrier(8)

    def meet(handler: Any) -> None:
        together.wait(PATIENCE)
        answer(200)(handler)

    partner.answer = meet
    ask(partner, 24)
    assert dispatcher.work() == 24
    assert len(set(find_ids(partner))) == len(partner.got) == 24
    assert Interaction.objects.filter(dispatched_at__isnull=False, dispatch_at__isnull=True).count() == 24
    assert Dispatch.objects.filter(sent=True).count() == 24


def test_two_dispatchers_share_the_rows(partner: Place) -> None:
    together = threading.Barrier(2)

    def meet(handler: Any) -> None:
        together.wait(PATIENCE)
        answer(200)(handler)

    partner.answer = meet
    ask(partner, 2)
    assert len(store.lease_questions(connection, "webhook", 1, 60.0)) == 1  # one dispatcher has the first
    other = Other(dispatcher.work)
    wait_for(lambda: len(partner.got) == 1, "the second one")
    together.wait(PATIENCE)
    assert other.join() == 1
    assert len(set(find_ids(partner))) == 1
    assert Interaction.objects.filter(dispatched_at__isnull=False).count() == 1


def test_a_row_that_one_dispatcher_takes_another_passes_by(partner: Place) -> None:
    ask(partner)
    take = lambda: store.lease_questions(connections["default"], "webhook", 10, 60.0)  # noqa: E731
    first, second = race(take, take, waits=False)
    assert (len(first), second) == (1, [])


def test_while_something_is_sent_no_row_of_it_is_locked(partner: Place) -> None:
    """The partner answers its question before it says that it has it."""
    held: list[Any] = []

    def answer_first(handler: Any) -> None:
        try:
            held.append(workflows.complete(newest(), {"paid": True}))
        finally:
            connections.close_all()
        answer(200)(handler)

    partner.answer = answer_first
    [instance] = ask(partner)
    assert dispatcher.work() == 1
    drain()
    assert workflows.result(instance) == {"paid": True}
    row = newest()
    assert (row.status, row.dispatch_error) == ("completed", None)
    assert row.dispatched_at is not None
    assert len(partner.got) == 1
    assert Dispatch.objects.get().sent


def test_an_answer_before_a_failure_is_an_answer(partner: Place) -> None:
    def answer_and_fail(handler: Any) -> None:
        try:
            workflows.complete(newest(), 1)
        finally:
            connections.close_all()
        answer(410)(handler)

    partner.answer = answer_and_fail
    [instance] = ask(partner)
    dispatcher.work()
    drain()
    assert workflows.result(instance) == 1
    assert newest().status == "completed"


def test_the_later_of_two_tries_decides_but_a_success_stands(partner: Place) -> None:
    ask(partner)
    [first] = store.lease_questions(connection, "webhook", 1, 60.0)
    rewind()
    [second] = store.lease_questions(connection, "webhook", 1, 60.0)
    assert (first.tries, second.tries) == (1, 2)
    store.record_tries(connection, [store.Tried(first.id, 1, sent=False, delay=5.0, error="stale")])
    assert newest().dispatch_error is None
    store.record_tries(connection, [store.Tried(first.id, 1, sent=True)])
    assert newest().dispatched_at is not None
    store.record_tries(connection, [store.Tried(second.id, 2, sent=False, delay=5.0, error="late")])
    assert Interaction.objects.get().dispatched_at is not None


def test_a_completion_and_a_record_of_one_row_wait_for_each_other(partner: Place) -> None:
    ask(partner, 8)
    leased = store.lease_questions(connection, "webhook", 8, 60.0)
    rows = list(Interaction.objects.all())

    def record() -> None:
        store.record_tries(connections["default"], [store.Tried(one.id, 1, sent=True, logged=True) for one in leased])

    def complete() -> None:
        for row in reversed(rows):
            workflows.complete(row, 1)

    run_threads([record, complete])
    assert Interaction.objects.filter(status="completed", dispatched_at__isnull=False).count() == 8
    assert Dispatch.objects.count() == 8


def test_a_channel_that_hangs_holds_up_no_other(partner: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    Letter.sent.clear()
    stuck = threading.Event()
    monkeypatch.setattr(Webhook, "threads", 1)

    def hang(handler: Any) -> None:
        stuck.wait(PATIENCE)
        answer(200)(handler)

    partner.answer = hang
    ask(partner, 2)
    other = Other(dispatcher.work)
    wait_for(lambda: partner.got, "the partner to be called")
    workflows.start("letters.function", {"to": "Ann"})
    drain()
    second = Other(dispatcher.work)
    wait_for(lambda: Letter.sent, "the letter")
    stuck.set()
    other.join()
    second.join()
    assert Interaction.objects.filter(dispatched_at__isnull=False).count() == 3


def test_beside_a_pump_it_is_sent_and_answered(partner: Place) -> None:
    register_sweep(Sweep("dispatch", dispatcher.seconds_to_next, dispatcher.work))
    with pumping():
        instance = workflows.start("partners.ask", {"url": partner.url})
        wait_for(lambda: partner.got, "the webhook")
        workflows.complete(verify(partner.got[0])["signal_id"], "done")
        wait_for(lambda: Instance.objects.get(pk=instance.pk).status == "done", "the end")
    unregister_sweep("dispatch")


SCRIPT = """
import django; django.setup()
import tests.support.webhook.partners
from workflows.channels import dispatcher
print("sent", dispatcher.work(), flush=True)
"""


@pytest.mark.process
@pytest.mark.kill
def test_a_dispatcher_that_dies_between_sending_and_recording_loses_nothing(partner: Place) -> None:
    """The partner has the message, and nobody has written it down: it gets the same one again, under the same id."""
    died = threading.Event()

    def hold(handler: Any) -> None:
        died.wait(PATIENCE)

    partner.answer = hold
    ask(partner)
    environment = {**find_environment(), "DJANGO_SETTINGS_MODULE": "tests.support.webhook.settings"}
    with running(Process("-c", SCRIPT, **environment)) as process:
        wait_until(lambda: partner.got, "the message")
        process.kill()
        wait_until(process.popen.poll, "its death", is_it=lambda code: code is not None)
    died.set()
    partner.answer = answer(200)
    row = newest()
    assert (row.status, row.tries, row.dispatched_at) == ("pending", 1, None)
    assert dispatcher.work() == 0  # its lease has not ended
    rewind()
    assert dispatcher.work() == 1
    assert len(partner.got) == 2
    assert len(set(find_ids(partner))) == 1
    assert partner.got[0][1] == partner.got[1][1]
    assert newest().dispatched_at is not None


@pytest.mark.process
@pytest.mark.kill
def test_a_process_of_its_own_sends_what_this_one_asked(partner: Place) -> None:
    ask(partner, 3)
    environment = {**find_environment(), "DJANGO_SETTINGS_MODULE": "tests.support.webhook.settings"}
    with running(Process("-c", SCRIPT, **environment)) as process:
        wait_until(lambda: "sent 3" in process.read_log(), "three to be sent")
    assert len(partner.got) == 3
    assert {verify(one)["resume_url"] for one in partner.got}


def test_a_crash_before_the_question_is_failed_is_made_good(partner: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last try is written down, the end of the question is not: after the lease it is tried once more."""

    class Killed(BaseException):
        pass

    def die(*args: Any) -> None:
        raise Killed

    partner.answer = answer(410)
    [instance] = ask(partner)
    with monkeypatch.context() as patched:
        patched.setattr(dispatcher, "fail_interactions", die)
        with pytest.raises(Killed):
            dispatcher.work()
    assert (newest().status, newest().dispatch_at is None) == ("pending", False)
    rewind()
    dispatcher.work()
    assert newest().status == "failed"
    drain()
    assert Instance.objects.get(pk=instance.pk).status == "failed"


def test_what_comes_while_a_partner_hangs_is_sent_to_the_others(
    partner: Place,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Webhook, "limits", PostLimits(silence=5 * PATIENCE, whole=5 * PATIENCE))
    release = threading.Event()

    def hang(handler: Any) -> None:
        if len(partner.got) == 1:
            release.wait(4 * PATIENCE)
        answer(200)(handler)

    partner.answer = hang
    ask(partner)
    other = Other(dispatcher.work)
    try:
        wait_for(lambda: len(partner.got) == 1, "the first one")
        ask(partner)
        wait_for(lambda: newest().dispatched_at is not None, "the second one, while the first one hangs")
        assert Interaction.objects.filter(dispatched_at=None).count() == 1
    finally:
        release.set()
    assert other.join() == 2
