"""Decisions over HTTP that come at the same moment, or again: one vote, one answer, one winner."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from approvals.models import Review, Vote
from tests.support.api_calls import Api, problem
from tests.support.races import race, run_threads, work
from tests.support.rest_reviews import login
from tests.support.review_calls import again, ask, make_person, truth  # noqa: F401 (a fixture)
from workflows.models import Instance, LedgerEvent, StoredAnswer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("committed")]

MANY = 50
KEY = {"Idempotency-Key": "k"}


@pytest.fixture(autouse=True)
def unlimited(settings: Any) -> None:
    settings.WORKFLOWS = {**settings.WORKFLOWS, "API_RATE": None}


Send = Callable[[], Any]


def make_call(user: User, review: Review, body: dict[str, Any], headers: dict[str, str] | None = None) -> Send:
    """A call with a client of its own, in the session that the person has."""
    session = login(user).client.cookies

    def send() -> Any:
        client = Client(raise_request_exception=False)
        client.cookies = session
        return Api(client=client).post(f"/v1/approvals/{review.pk}/decide", body, headers)

    return send


def send_together(calls: Sequence[Send]) -> list[Any]:
    """The answers of calls that begin at the same moment."""
    ready = threading.Barrier(len(calls), timeout=60)
    answers: list[Any] = [None] * len(calls)

    def send(n: int) -> None:
        with connection.cursor() as cursor:  # each is connected before any begins
            cursor.execute("SELECT 1")
        ready.wait()
        answers[n] = calls[n]()

    run_threads([lambda n=n: send(n) for n in range(len(calls))], patience=60)  # type: ignore[misc]
    return answers


def count(answers: Sequence[Any]) -> Counter[int]:
    return Counter(one.status_code for one in answers)


def test_many_duplicates_at_once_are_one_vote_and_one_answer() -> None:
    ann = make_person("ann")
    make_person("ben")
    review = ask(assignees=["ann", "ben"], quorum=2, run=work)
    answers = send_together([make_call(ann, review, {"outcome": "approve"}, KEY)] * MANY)
    assert count(answers) == {200: MANY}
    assert len({one.content for one in answers}) == 1
    assert sum("Idempotency-Replayed" not in one.headers for one in answers) == 1
    assert Vote.objects.count() == StoredAnswer.objects.count() == 1
    assert LedgerEvent.objects.filter(kind="voted").count() == 1


def test_of_many_clicks_of_one_person_one_counts() -> None:
    ann = make_person("ann")
    make_person("ben")
    review = ask(assignees=["ann", "ben"], quorum=2, run=work)
    calls = [make_call(ann, review, {"outcome": "approve"}, {"Idempotency-Key": f"k{n}"}) for n in range(10)]
    answers = send_together(calls + [make_call(ann, review, {"outcome": "reject"})] * 10)
    assert count(answers) == {200: 1, 409: 19}
    for one in answers:
        if one.status_code == 409:
            assert problem(one, 409, "not-now")["rule"] == "voted"
    assert Vote.objects.count() == 1
    assert LedgerEvent.objects.filter(kind="refused").count() == 19


def test_of_many_deciders_one_wins_and_the_others_are_told_who() -> None:
    people = [make_person(f"p{n}", "finance") for n in range(12)]
    review = ask(groups=["finance"], run=work)
    calls = [make_call(one, review, {"outcome": "approve" if n % 2 else "reject"}, KEY) for n, one in enumerate(people)]
    answers = send_together(calls)
    assert count(answers) == {200: 1, 410: 11}
    [winner] = [one.json() for one in answers if one.status_code == 200]
    told = {(one.json()["outcome"], one.json()["decided_by"]) for one in answers if one.status_code == 410}
    decided = again(review)
    assert told == {(winner["outcome"], User.objects.get(pk=decided.decided_by_id).get_full_name())}
    work()
    assert Instance.objects.get().result["outcome"] == winner["outcome"]
    assert Vote.objects.count() == StoredAnswer.objects.count() == 1


def test_everybody_of_many_has_a_vote_and_the_last_one_needed_decides() -> None:
    people = [make_person(f"p{n}", "finance") for n in range(8)]
    review = ask(groups=["finance"], quorum=8, run=work)
    answers = send_together([make_call(one, review, {"outcome": "approve"}, KEY) for one in people])
    assert count(answers) == {200: 8}
    assert Counter(one.json()["status"] for one in answers) == {"open": 7, "decided": 1}
    assert Vote.objects.filter(standing=True).count() == 8


@pytest.mark.parametrize("rollback", [False, True], ids=["the first commits", "the first rolls back"])
def test_a_duplicate_waits_for_the_first_and_then_repeats_or_replaces_it(rollback: bool) -> None:
    ann = make_person("ann")
    review = ask(assignees=["ann"], run=work)
    call = make_call(ann, review, {"outcome": "approve"}, KEY)
    first, second = race(call, call, rollback=rollback)
    assert (first.status_code, second.status_code) == (200, 200)
    assert (second.headers.get("Idempotency-Replayed") is None) is rollback
    assert Vote.objects.count() == 1


def test_a_refused_call_leaves_its_key_to_who_waits_and_its_row_in_the_ledger() -> None:
    ann = make_person("ann")
    review = ask(assignees=["ann"], run=work)
    bad = make_call(ann, review, {"outcome": "aprove"}, KEY)
    good = make_call(ann, review, {"outcome": "approve"}, KEY)
    first, second = race(bad, good)
    assert (first.status_code, second.status_code) == (422, 200)
    assert [row.data["refused"] for row in LedgerEvent.objects.filter(kind="refused")] == ["UnknownOutcome"]
