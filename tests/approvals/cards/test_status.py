"""How a review stands, in a sentence: every status, to everybody."""

from __future__ import annotations

from datetime import timedelta
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.utils import timezone

from approvals import (
    Outcome,
    decide,
    withdraw,
)
from approvals.cards.status import describe_status, find_status
from approvals.models import Review
from approvals.reviews.case import Case
from tests.support.worlds.cards import People, ask, read_again, tell
from workflows.api.instances import cancel
from workflows.testing import advance, drain


@pytest.fixture(autouse=True)
def berlin(own_language: None) -> None:
    """The viewer is in Berlin, also where the process is not."""
    timezone.activate(ZoneInfo("Europe/Berlin"))


@pytest.mark.django_db
def test_an_open_review_says_for_whom_it_waits_and_how_far_it_is(people: People) -> None:
    review = ask(groups=["Finance"], quorum=3)
    since = f"{timezone.localtime(review.created_at):%H:%M}"
    assert tell(review) == f"Waiting for Finance since {since}, 0 of 3 approved"
    decide(review, "approve", actor=people.ann)
    decide(review, "approve", actor=people.cid)
    assert tell(review) == f"Waiting for Finance since {since}, 2 of 3 approved"
    advance("2d")
    day = f"{timezone.localtime(review.created_at):%A}"
    assert tell(review, people.ben) == f"Waiting for Finance since {day}, 2 of 3 approved"


@pytest.mark.django_db
def test_an_open_review_speaks_to_who_is_asked_alone_and_names_no_permission(people: People) -> None:
    alone = ask(assignees=[people.ann])
    assert tell(alone, people.ann).startswith("Waiting for you since ")
    assert tell(alone, people.cid).startswith("Waiting for Ann Archer since ")
    assert tell(ask()).startswith("Waiting for a decision since ")
    assert tell(ask(assignees=[people.ann, people.cid])).startswith("Waiting for Ann Archer or Cid Campos since ")


@pytest.mark.django_db
def test_a_decided_review_says_who_decided_what_and_when(people: People) -> None:
    outcomes = ("approve", "request_changes", "send_back", Outcome("pay", "Pay now"), "reject")
    expected = {
        "approve": ("Ann Archer approved this today at ", "You approved this today at "),
        "reject": ("Ann Archer rejected this today at ", "You rejected this today at "),
        "request_changes": ("Ann Archer answered “Request changes” today at ", "You answered “Request changes” "),
        "send_back": ("Ann Archer answered “Send back” today at ", "You answered “Send back” today at "),
        "pay": ("Ann Archer answered “Pay now” today at ", "You answered “Pay now” today at "),
    }
    for outcome, (told, to_you) in expected.items():
        review = ask(groups=["Finance"], outcomes=outcomes)
        decide(review, outcome, actor=people.ann)
        assert tell(review).startswith(told)
        assert tell(review, people.ann).startswith(to_you)
    renamed = ask(groups=["Finance"], outcomes=(Outcome("approve", "Release it"), "reject"))
    decide(renamed, "approve", actor=people.ann)
    assert tell(renamed).startswith("Ann Archer answered “Release it” today at ")


@pytest.mark.django_db
def test_nobody_is_said_to_have_rejected_what_failed_for_want_of_agreement(people: People) -> None:
    review = ask(assignees=[people.ann, people.cid], quorum="all")
    decide(review, "reject", actor=people.ann)
    decide(review, "approve", actor=people.cid)
    told = tell(review)
    assert told.startswith("Answered “Reject” today at ")
    assert told.endswith(", because those asked did not agree")


@pytest.mark.django_db
def test_in_its_grace_it_says_how_long_it_can_be_undone(people: People) -> None:
    review = ask(groups=["Finance"])
    decide(review, "approve", actor=people.ann, grace=True)
    until = read_again(review).effective_at
    assert until is not None

    def tell_at(seconds: float, user: Any = None) -> str:
        case = Case(read_again(review))
        case.now = until - timedelta(seconds=seconds)
        return describe_status(case.review, user, case=case)

    assert tell_at(7.6, people.ann) == "You answered “Approve”; you can undo it for 8 more seconds"
    assert tell_at(7.6) == "Ann Archer answered “Approve”; it takes effect in 8 seconds unless it is undone"
    assert tell_at(1) == "Ann Archer answered “Approve”; it takes effect in one second unless it is undone"
    assert tell_at(0) == "Ann Archer answered “Approve”; it takes effect now"


@pytest.mark.django_db
def test_what_ended_without_a_decision_says_how(people: People) -> None:
    timed = ask(groups=["Finance"], escalate=[("1h", ("outcome", "reject"))])
    late = ask(groups=["Finance"], timeout="1h")
    advance("2h")
    assert tell(timed).startswith("Answered “Reject” automatically ")
    assert tell(late).startswith("The time to decide ended ")
    withdrawn = ask(groups=["Finance"], requester=people.ben)
    withdraw(withdrawn, actor=people.ben)
    assert tell(withdrawn).startswith("Ben Okafor withdrew this ")
    assert tell(withdrawn, people.ben).startswith("You withdrew this ")
    answered = ask(groups=["Finance"], requester=people.ben, outcomes=("approve", "withdraw"))
    withdraw(answered, actor=people.ben)
    drain()
    assert tell(answered).startswith("Ben Okafor withdrew this ")
    cancelled = ask(groups=["Finance"])
    cancel(cancelled.instance)
    assert tell(cancelled).startswith("Cancelled ")
    assert tell(cancelled).endswith(", before it was decided")
    undone = ask(groups=["Finance"])
    decide(undone, "approve", actor=people.ann, grace=True)
    cancel(undone.instance)
    assert tell(undone).endswith(", before it was decided")


@pytest.mark.django_db
def test_lists_find_by_status_what_each_review_says_of_itself(people: People) -> None:
    named = {
        name: ask(name, assignees=[people.ann], requester=people.ben)
        for name in ("open", "grace", "decided", "withdrawn", "cancelled", "late")
    }
    decide(named["grace"], "approve", actor=people.ann, grace=True)
    decide(named["decided"], "reject", actor=people.ann)
    withdraw(named["withdrawn"], actor=people.ben)
    cancel(named["cancelled"].instance_id)
    with connection.cursor() as cursor:  # over, and no sweep has come by yet
        cursor.execute(
            "UPDATE holdpoint_interaction SET deadline = now() - interval '1 minute' WHERE id = %s",
            [named["late"].pk],
        )
    found = {
        status: {one.title for one in Review.objects.with_status(status)}
        for status in ("open", "grace", "decided", "closed")
    }
    assert found == {
        "open": {"open"},
        "grace": {"grace"},
        "decided": {"decided"},
        "closed": {"withdrawn", "cancelled", "late"},
    }
    for status, titles in found.items():
        assert {find_status(Case(read_again(named[title]))) for title in titles} == {status}
    assert Review.objects.with_status("any").count() == len(named)
