"""Senders that die, and senders that meet: at least once, each time under the same id, and never two at one message."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.db import connection, transaction

from approvals import decide
from approvals.models import Preference
from approvals.notify import delivery_writer, notify_sweep
from approvals.notify.fan_out import expand_notices
from approvals.notify.messages.smtp import Postman
from approvals.notify.sending import send_messages
from tests.support.notices import (  # noqa: F401
    FailingBackend,
    Killed,
    ask_quietly,
    bring_forward,
    list_deliveries,
    list_told,
    make_reader,
    site,
    take_mail,
    use_failing_backend,
)
from tests.support.races import Other, run_threads, work
from tests.support.review_calls import ask
from tests.support.review_races import commit_people  # noqa: F401 (fixtures)
from workflows.clock import read_now
from workflows.testing import advance, drain

ordinary = pytest.mark.django_db
#: As in tests.support.review_races: people are rows too.
committed = pytest.mark.django_db(
    transaction=True,
    available_apps=["django.contrib.contenttypes", "django.contrib.auth", "workflows", "approvals"],
)
with_people = pytest.mark.usefixtures("people")


# --- crashes ----------------------------------------------------------------------------------------------


def die(message: Any) -> None:
    raise Killed


@ordinary
def test_a_crash_before_it_went_out_loses_nothing(failing: type[FailingBackend]) -> None:
    make_reader("ann")
    review = ask_quietly(assignees=["ann"])
    failing.fail = staticmethod(die)
    with pytest.raises(Killed):
        notify_sweep.work()
    [row] = list_deliveries(review)
    assert (row.status, row.attempts) == ("waiting", 1)
    failing.fail = staticmethod(lambda message: None)
    drain()
    assert mail.outbox == []  # its sender might still be at it
    advance(delivery_writer.LEASE + timedelta(seconds=1))
    assert [name for name, _ in list_told()] == ["ann"]


@ordinary
def test_after_a_crash_between_sending_and_recording_it_goes_out_again_under_the_same_id(monkeypatch: Any) -> None:
    make_reader("ann")
    review = ask_quietly(assignees=["ann"])

    def die_too(*args: Any, **options: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(delivery_writer, "record_sent", die_too)
        with pytest.raises(Killed):
            notify_sweep.work()
    assert len(mail.outbox) == 1
    advance(delivery_writer.LEASE + timedelta(seconds=1))
    first, second = mail.outbox
    assert first.extra_headers["Message-ID"] == second.extra_headers["Message-ID"]
    [row] = list_deliveries(review)
    assert (row.status, row.attempts) == ("sent", 2)


@ordinary
def test_a_collected_mail_goes_out_again_under_the_same_id_whatever_came_meanwhile(monkeypatch: Any) -> None:
    # Ten past the hour: what is collected later must not be due before this test is over.
    advance(timedelta(minutes=70 - read_now().minute))
    ann = make_reader("ann", mail="hourly")
    make_reader("ben")
    one, other = ask(title="Alpha", assignees=["ann", "ben"]), ask(title="Other", assignees=["ann"])
    mail.outbox.clear()
    bring_forward()

    def die_too(*args: Any, **options: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(delivery_writer, "record_sent", die_too)
        with pytest.raises(Killed):
            notify_sweep.work()
    decide(one, "approve", actor=User.objects.get(username="ben"))
    late = ask(title="Omega", assignees=["ann"])
    advance(delivery_writer.LEASE + timedelta(seconds=1))
    first, second = mail.outbox
    assert first.extra_headers["Message-ID"] == second.extra_headers["Message-ID"]
    assert ("Alpha" in first.body, "Alpha" in second.body, "Omega" in second.body) == (True, False, False)
    assert [row.status for row in list_deliveries(other, user=ann)] == ["sent"]
    assert [row.status for row in list_deliveries(late, user=ann)] == ["waiting"]


@ordinary
def test_a_sender_that_lost_its_lease_does_not_undo_what_another_recorded() -> None:
    make_reader("ann")
    review = ask_quietly(assignees=["ann"])
    expand_notices(10)
    slow = delivery_writer.claim_message()
    assert slow is not None
    bring_forward()
    with Postman() as postman:
        send_messages(10, postman)
    assert not delivery_writer.record_failure(slow, "too late", due_at=read_now())
    assert not delivery_writer.record_dropped(slow, "too late")
    [row] = list_deliveries(review)
    assert (row.status, row.error) == ("sent", "")


# --- two senders ------------------------------------------------------------------------------------------


@committed
@with_people
def test_two_senders_send_each_message_once(settings: Any) -> None:
    User.objects.filter(username="ann").update(email="ann@example.org")
    User.objects.filter(username="ben").update(email="ben@example.org")
    for number in range(6):
        ask(title=f"No. {number}", assignees=["ann", "ben"], run=work)
    mail.outbox = []  # type: ignore[attr-defined]

    def send() -> None:
        while notify_sweep.work():
            pass

    run_threads([send, send, send])
    told = [(one.to[0], one.subject) for one in mail.outbox]
    assert len(told) == len(set(told)) == 12
    assert {one.attempts for one in list_deliveries(status="sent")} == {1}


@committed
@with_people
def test_what_one_sender_claims_another_leaves_alone() -> None:
    User.objects.filter(username="ann").update(email="ann@example.org")
    ask(assignees=["ann"], run=work)
    with transaction.atomic():
        notice = delivery_writer.take_notice()
        assert notice is not None
        other = Other(lambda: expand_notices(5))
        assert other.join() == 0
    assert expand_notices(5) == 1
    with transaction.atomic():
        assert delivery_writer.claim_message() is not None
        assert Other(delivery_writer.claim_message).join() is None


@committed
@with_people
def test_one_persons_collected_mail_is_claimed_by_one_sender_as_a_whole() -> None:
    User.objects.filter(username="ann").update(email="ann@example.org")
    Preference.objects.create(user=User.objects.get(username="ann"), email="hourly")
    for _ in range(3):
        ask(assignees=["ann"], run=work)
    expand_notices(5)
    bring_forward()
    with transaction.atomic():
        assert len(delivery_writer.claim_digest()) == 3
        assert Other(delivery_writer.claim_digest).join() == []
    assert delivery_writer.claim_digest() == []


@committed
@with_people
def test_nothing_is_sent_within_a_transaction(failing: type[FailingBackend]) -> None:
    seen: list[bool] = []
    failing.fail = staticmethod(lambda message: seen.append(connection.in_atomic_block))
    User.objects.filter(username="ann").update(email="ann@example.org")
    ask(assignees=["ann"], run=work)
    while notify_sweep.work():
        pass
    assert seen == [False]


@committed
@with_people
def test_a_decision_while_a_mail_is_on_its_way_closes_that_mail_too(failing: type[FailingBackend]) -> None:
    User.objects.filter(username__in=["ann", "ben"]).update(email="x@example.org")
    review = ask(assignees=["ann"], run=work)
    sending, decided = threading.Event(), threading.Event()

    def wait(message: Any) -> None:
        if "Please decide" in message.subject:
            sending.set()
            assert decided.wait(60)

    failing.fail = staticmethod(wait)

    def send() -> None:
        while notify_sweep.work():
            pass

    def decide_meanwhile() -> None:
        assert sending.wait(60)
        decide(review, "approve", actor=User.objects.get(username="ann"))
        while notify_sweep.work():
            pass
        decided.set()

    run_threads([send, decide_meanwhile])
    [row] = [one for one in list_deliveries(review) if one.kind == "new"]
    assert (row.status, row.closed_at is not None) == ("sent", True)
