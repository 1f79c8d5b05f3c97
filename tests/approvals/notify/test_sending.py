"""Messages on their way: failures and tries, sending again, and what rows and logs keep."""

from __future__ import annotations

import logging
import smtplib
from datetime import timedelta
from typing import Any

import pytest
from django.core import mail
from django.utils import timezone

import workflows
from approvals import NotAllowed, UnknownReview, decide
from approvals.access.personal_links import make_link_token
from approvals.models import Delivery, Notice, Review
from approvals.models.writer import insert_notice, rows
from approvals.notify.failures import describe_error, hide_secrets
from approvals.notify.resending import resend
from approvals.notify.schedule import MAX_ATTEMPTS
from tests.support.notices import (  # noqa: F401
    FailingBackend,
    ask_quietly,
    bring_forward,
    list_deliveries,
    list_told,
    make_reader,
    site,
    take_mail,
    use_backend,
    use_failing_backend,
)
from tests.support.review_calls import again, ask, grant, list_events, make_person
from workflows.clock import read_now
from workflows.conf.settings import Conf
from workflows.testing import advance, drain

pytestmark = pytest.mark.django_db


def refuse(message: Any) -> None:
    raise ConnectionRefusedError(111, "Connection refused")


# --- failures ---------------------------------------------------------------------------------------------


def test_a_failure_is_tried_again_later_and_later_and_eight_times_at_most(failing: type[FailingBackend]) -> None:
    make_reader("ann")
    failing.fail = staticmethod(refuse)
    review = ask(assignees=["ann"])
    [row] = list_deliveries(review)
    assert (row.status, row.attempts) == ("waiting", 1)
    assert row.error == "ConnectionRefusedError: [Errno 111] Connection refused"
    assert row.due_at is not None
    assert timedelta(seconds=55) < row.due_at - read_now() <= timedelta(minutes=1)
    for attempt in range(2, MAX_ATTEMPTS + 1):
        bring_forward()
        drain()
        assert list_deliveries(review)[0].attempts == attempt
    [row] = list_deliveries(review)
    assert (row.status, row.due_at, row.sent_at) == ("failed", None, None)
    assert mail.outbox == []


def test_time_itself_brings_the_next_try(failing: type[FailingBackend]) -> None:
    make_reader("ann")
    failing.fail = staticmethod(refuse)
    review = ask(assignees=["ann"])
    failing.fail = staticmethod(lambda message: None)
    advance("30s")
    assert list_told() == []
    advance("31s")
    assert [name for name, _ in list_told()] == ["ann"]
    [row] = list_deliveries(review)
    assert (row.status, row.attempts, row.error) == ("sent", 2, "")


def test_an_address_that_there_is_not_is_not_tried_again(failing: type[FailingBackend]) -> None:
    def turn_away(message: Any) -> None:
        raise smtplib.SMTPRecipientsRefused({message.to[0]: (550, b"no such user here")})

    make_reader("ann")
    failing.fail = staticmethod(turn_away)
    [row] = list_deliveries(ask(assignees=["ann"]))
    assert (row.status, row.due_at, row.attempts) == ("failed", None, 1)
    assert "550 no such user here" in row.error


def test_a_mailbox_that_is_full_is_tried_again(failing: type[FailingBackend]) -> None:
    def turn_away(message: Any) -> None:
        raise smtplib.SMTPRecipientsRefused({message.to[0]: (452, b"mailbox full")})

    make_reader("ann")
    failing.fail = staticmethod(turn_away)
    [row] = list_deliveries(ask(assignees=["ann"]))
    assert row.status == "waiting"


def test_one_mail_that_fails_does_not_hold_up_the_others(failing: type[FailingBackend]) -> None:
    def fail_ann(message: Any) -> None:
        if message.to == ["ann@example.org"]:
            raise smtplib.SMTPDataError(554, b"spam")

    make_reader("ann")
    make_reader("ben")
    failing.fail = staticmethod(fail_ann)
    ask(assignees=["ann", "ben"])
    assert [name for name, _ in list_told()] == ["ben"]


def test_a_server_that_is_away_is_asked_once_a_minute_and_not_once_a_mail(failing: type[FailingBackend]) -> None:
    tried: list[Any] = []

    def count(message: Any) -> None:
        tried.append(message)
        refuse(message)

    names = [f"user{number}" for number in range(10)]
    for name in names:
        make_reader(name)
    failing.fail = staticmethod(count)
    review = ask(assignees=names)
    assert len(tried) == 1
    assert sorted(one.attempts for one in list_deliveries(review)) == [0] * 9 + [1]
    failing.fail = staticmethod(lambda message: None)
    advance("2m")
    assert len(list_told()) == 10


def test_a_backend_that_knows_no_time_limit_and_returns_nothing_will_do(settings: Any) -> None:
    use_backend(settings, f"{__name__}.PlainBackend")
    make_reader("ann")
    [row] = list_deliveries(ask(assignees=["ann"]))
    assert row.status == "sent"


class PlainBackend:
    def __init__(self, **options: Any) -> None:
        pass

    def open(self) -> None:
        pass

    def close(self) -> None:
        pass

    def send_messages(self, messages: Any) -> None:
        pass


def test_a_site_that_cannot_make_links_says_what_is_missing(settings: Any, monkeypatch: Any) -> None:
    make_reader("ann")
    review = ask_quietly(assignees=["ann"])
    settings.WORKFLOWS = {}
    settings.DEBUG = False
    monkeypatch.setattr(Conf, "supplies_links", property(lambda conf: False, lambda conf, value: None))
    drain()
    [row] = list_deliveries(review)
    assert row.status == "waiting"
    assert "BASE_URL" in row.error or "TOKEN_KEYS" in row.error


def test_a_notice_that_cannot_be_told_is_kept_and_holds_up_no_other(caplog: Any) -> None:
    make_reader("ann")
    review, other = ask_quietly(assignees=["ann"]), ask_quietly(assignees=["ann"])
    bad = insert_notice(review, "new", at=timezone.now() - timedelta(days=1), data={"by": "user:nobody"})
    drain()
    assert len(list_told()) == 2
    [kept] = Notice.objects.all()
    assert (kept.pk, kept.data["failures"]) == (bad.pk, 1)
    assert kept.at > timezone.now()
    advance("3m")
    assert Notice.objects.get().data["failures"] == 3
    assert again(other).open


def test_a_notice_of_a_review_that_is_gone_is_forgotten() -> None:
    make_person("ann")
    review = ask_quietly(assignees=["ann"])
    rows(Review).filter(pk=review.pk).delete()
    drain()
    assert not Notice.objects.exists()


# --- sending again ----------------------------------------------------------------------------------------


def test_who_has_the_permission_sends_a_message_again_as_another_one() -> None:
    boss = grant(make_reader("boss"), "resend_delivery")
    make_reader("ann")
    review = ask(assignees=["ann"])
    first = take_mail("ann")
    [row] = list_deliveries(review)
    assert resend(row, actor=boss, door="admin").status == "waiting"
    drain()
    second = take_mail("ann")
    assert second.extra_headers["Message-ID"] == f"<{row.pk}.1@holdpoint.example>" != first.extra_headers["Message-ID"]
    [told] = [one for one in list_events(review, "handled") if one.data["what"] == "resent"]
    assert (told.actor, told.data["delivery"], told.data["door"]) == (f"user:{boss.pk}", str(row.pk), "admin")


def test_what_failed_for_good_can_be_sent_again(failing: type[FailingBackend]) -> None:
    boss = grant(make_reader("boss"), "resend_delivery")
    make_reader("ann")

    def turn_away(message: Any) -> None:
        raise smtplib.SMTPRecipientsRefused({message.to[0]: (550, b"no")})

    failing.fail = staticmethod(turn_away)
    [row] = list_deliveries(ask(assignees=["ann"]))
    assert row.status == "failed"
    failing.fail = staticmethod(lambda message: None)
    resend(row, actor=boss)
    drain()
    assert [name for name, _ in list_told()] == ["ann"]


def test_without_the_permission_or_from_another_workspace_nobody_sends_again() -> None:
    ann = make_reader("ann")
    [row] = list_deliveries(ask(assignees=["ann"]))
    with pytest.raises(NotAllowed, match="permission"):
        resend(row, actor=ann)
    boss = grant(make_reader("boss"), "resend_delivery")
    workflows.workspace.create("acme")
    with pytest.raises(UnknownReview):
        resend(row, actor=boss)
    assert list_deliveries()[0].status == "sent"


def test_what_is_decided_is_not_asked_again_by_sending_again() -> None:
    boss = grant(make_reader("boss"), "resend_delivery")
    ann = make_reader("ann")
    review = ask(assignees=["ann"])
    decide(review, "approve", actor=ann)
    drain()
    list_told()
    resend(list_deliveries(review)[0], actor=boss)
    drain()
    assert list_told() == []
    assert list_deliveries(review)[0].status == "dropped"


# --- secrets ----------------------------------------------------------------------------------------------


def test_no_row_and_no_log_line_holds_a_link(failing: type[FailingBackend], caplog: Any, monkeypatch: Any) -> None:
    """A backend that says in its error all that it was to send, in every encoding that a mail has."""
    ann, ben = make_reader("ann"), make_reader("ben")

    def blab(message: Any) -> None:
        raise RuntimeError(f"{message.body} {message.message().as_string()} {message.alternatives!r} {vars(message)!r}")

    failing.fail = staticmethod(blab)
    for name in ("approvals", "workflows", "django"):
        monkeypatch.setattr(logging.getLogger(name), "propagate", True)
    with caplog.at_level(logging.DEBUG):
        review = ask(assignees=["ann"], requester="ben")
        decide(review, "approve", actor=ann)
        drain()
    assert "was not sent" in caplog.text
    kept = str(list(Delivery.objects.values())) + str(list(Review.objects.values()))
    kept += "".join(record.getMessage() for record in caplog.records)
    for user in (ann, ben):
        token = make_link_token(review, user)
        for start in range(0, len(token) - 20, 7):
            assert token[start : start + 20] not in kept


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("see https://shop.example/approvals/link/AQNkZXYG/?outcome=approve now", "see … now"),
        ("token AQNkZXYIcmV2aWV3OjIBofBaeFZwAL-RxheeZcRPWXKEhKPw", "token …"),
        ("whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD", "…"),
        ("mailbox unavailable, try again later", "mailbox unavailable, try again later"),
        ("insufficient_permissions", "insufficient_permissions"),
        ("", ""),
    ],
)
def test_what_could_be_a_secret_is_taken_out_of_what_others_say(said: str, kept: str) -> None:
    assert hide_secrets(said) == kept


def test_what_a_server_says_is_one_line_without_hidden_characters() -> None:
    told = describe_error(smtplib.SMTPDataError(554, b"first\r\nsecond \xff\xe2\x80\xae third"))
    assert told == "SMTPDataError: 554 first second �⟨U+202E⟩ third"
