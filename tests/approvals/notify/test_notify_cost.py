"""What telling people costs: statements that do not grow with them, and a look that reads two rows of indexes."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.db import connection
from django.test.utils import CaptureQueriesContext

from approvals import comment, decide
from approvals.models import Delivery
from approvals.notify import delivery_writer, notify_sweep
from approvals.notify.fan_out import expand_notices
from approvals.notify.messages.smtp import Postman
from approvals.notify.sending import send_messages
from tests.support.notices import ask_quietly, make_reader, site, use_backend  # noqa: F401
from tests.support.processes import wait_until
from tests.support.pumps import PATIENCE, pumping
from tests.support.review_calls import ask
from tests.support.review_races import commit_people  # noqa: F401 (fixtures)

ordinary = pytest.mark.django_db


@ordinary
def test_writing_down_messages_costs_the_same_for_two_and_for_forty() -> None:
    counts = []
    for many in (2, 40):
        for number in range(many):
            make_reader(f"user{many}x{number}", f"group{many}")
        ask_quietly(groups=[f"group{many}"])
        with CaptureQueriesContext(connection) as asked:
            assert expand_notices(1) == 1
        counts.append(len(asked))
        assert Delivery.objects.filter(status="waiting").count() == many
        delivery_writer.rows(Delivery).delete()
    assert counts[0] == counts[1] <= 16


@ordinary
def test_a_mail_costs_a_bounded_number_of_statements() -> None:
    counts = []
    for votes in (1, 6):
        names = [f"user{votes}x{number}" for number in range(votes + 1)]
        for name in names:
            make_reader(name)
        review = ask_quietly(assignees=names, quorum=votes + 1)
        for name in names[1:]:
            user = User.objects.get(username=name)
            decide(review, "approve", actor=user)
            comment(review, "hm", actor=user)
        expand_notices(10)
        with CaptureQueriesContext(connection) as asked, Postman() as postman:
            assert send_messages(1, postman) == 1
        counts.append(len(asked))
        delivery_writer.rows(Delivery).delete()
    assert counts[0] == counts[1] <= 28
    assert len(mail.outbox) == 2


@ordinary
def test_the_pumps_look_reads_the_heads_of_two_indexes() -> None:
    make_reader("ann")
    for _ in range(3):
        ask(assignees=["ann"])
    with CaptureQueriesContext(connection) as asked:
        assert notify_sweep.count_seconds_to_next(connection) is None
    assert len(asked) == 1
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL enable_seqscan = off")  # as on a pump's connection
        cursor.execute(f"EXPLAIN {delivery_writer._NEXT}")
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "Seq Scan" not in plan
    assert "holdpoint_notice_at" in plan
    assert "holdpoint_delivery_due" in plan


@pytest.mark.django_db(
    transaction=True,
    available_apps=["django.contrib.contenttypes", "django.contrib.auth", "workflows", "approvals"],
)
@pytest.mark.usefixtures("people")
def test_beside_a_pump_people_are_told_at_once(settings: Any) -> None:
    User.objects.filter(username="ann").update(email="ann@example.org")
    told: list[Any] = []
    use_backend(settings, f"{__name__}.Telling")
    Telling.told = told
    with pumping():
        ask(assignees=["ann"], run=lambda: None)
        wait_until(lambda: list(told), "a mail", seconds=PATIENCE)
    assert [one.subject for one in told] == ["Please decide: Pay the invoice"]


class Telling:
    """A backend that lets a test see what another thread sent."""

    told: list[Any]

    def __init__(self, *args: Any, **options: Any) -> None:
        pass

    def open(self) -> None:
        pass

    def close(self) -> None:
        pass

    def send_messages(self, messages: Any) -> int:
        self.told.extend(messages)
        return len(messages)
