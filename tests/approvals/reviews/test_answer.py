"""Who gave the answer: a vote that was lost is told with nobody's name, and with no words of who said otherwise."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.test import Client

from approvals import decide
from approvals.cards.card import build_card
from approvals.exceptions import AlreadyDecided
from approvals.models import Review
from approvals.reviews.case import Case
from approvals.rules import find_obstacle
from tests.support.notices import list_told, make_reader, take_mail
from tests.support.notices import site as site
from tests.support.request_page import Desk, tell
from tests.support.rest_reviews import login
from tests.support.review_calls import again, ask
from workflows.testing import advance, drain

pytestmark = pytest.mark.django_db

DIVIDED = ", because those asked did not agree"


@pytest.fixture
def ann() -> User:
    return make_reader("ann")


@pytest.fixture
def ben() -> User:
    return make_reader("ben")


@pytest.fixture
def lost(ann: User, ben: User) -> Review:
    """Both had to agree: Ann said no, Ben said yes and so closed it."""
    make_reader("req")
    review = ask(assignees=["ann", "ben"], quorum=2, requester="req")
    decide(review, "reject", actor=ann, reason="too expensive")
    mail.outbox.clear()
    assert decide(review, "approve", actor=ben, reason="I like it").outcome == "reject"
    drain()
    return again(review)


def test_a_lost_vote_is_told_in_the_words_of_who_voted_for_the_answer_and_as_nobodys(lost: Review) -> None:
    answer = build_card(lost, None).answer
    assert answer is not None
    assert (answer.outcome, answer.reason, answer.by) == ("reject", "too expensive", "")


def test_the_mail_of_a_lost_vote_quotes_nobody_who_said_otherwise(lost: Review) -> None:
    told = take_mail("req").body
    assert "too expensive" in told
    assert "I like it" not in told
    assert "Ben" not in told


def test_whose_vote_was_lost_hears_of_the_answer(lost: Review) -> None:
    assert "ben" in [name for name, _ in list_told()]


def test_over_http_a_lost_vote_is_nobodys_answer(lost: Review, ann: User) -> None:
    api = login(ann)
    told = api.get(f"/v1/approvals/{lost.pk}").json()["answer"]
    assert (told["outcome"], told["reason"], told["by"]) == ("reject", "too expensive", "")
    late = api.post(f"/v1/approvals/{lost.pk}/decide", {"outcome": "approve"})
    assert late.status_code == 410
    assert "decided_by" not in late.json()
    assert "Ben" not in late.json()["detail"]


def test_a_button_of_a_lost_vote_says_that_those_asked_did_not_agree(lost: Review, ann: User) -> None:
    case = Case(lost)
    found = find_obstacle(case.rules, case.state)
    assert found is not None
    assert found.message.startswith("Answered “Reject” ")
    assert found.message.endswith(f"{DIVIDED}.")
    with pytest.raises(AlreadyDecided) as late:
        decide(lost, "approve", actor=ann)
    assert (late.value.by, late.value.outcome) == ("", "reject")


def test_in_a_list_a_lost_vote_bears_no_name(lost: Review, ben: User) -> None:
    client = Client()
    client.force_login(ben)
    [row] = [one for part in client.get("/approvals/?view=decided").context["rows"].sections for one in part.items]
    assert row.told.startswith("“Reject”, ")


def test_the_pane_says_what_became_of_a_vote_that_was_lost(ann: User, ben: User) -> None:
    review = ask(assignees=["ann", "ben"], quorum=2)
    decide(review, "reject", actor=ann)
    desk = Desk(ben)
    told = tell(desk.send(review, outcome="approve"))
    assert "those asked did not agree" in told["told"]
    assert "“Reject”" in told["told"]
    page = desk.open(review).text
    assert "You answered “Reject”" not in page
    assert "Those asked did not agree: it becomes “Reject” in" in page
    assert desk.open(review).context["card"].status == "grace"
    other = login(ann).post(f"/v1/approvals/{review.pk}/decide", {"outcome": "approve"}).json()
    assert "Ben" not in other["detail"]
    assert "Those asked did not agree" in other["detail"]
    advance("10s")
    assert again(review).outcome == "reject"


def test_similar_decisions_quote_who_voted_for_the_answer(lost: Review, ann: User) -> None:
    [found] = build_card(ask(assignees=["ann"]), ann).similar
    assert (found.outcome_label, found.reason) == ("Reject", "too expensive")


def test_who_gave_the_answer_is_named_as_before(ann: User, ben: User) -> None:
    review = ask(assignees=["ann", "ben"], quorum=2)
    decide(review, "approve", actor=ann, reason="fine")
    decide(review, "approve", actor=ben, reason="fine by me")
    answer: Any = build_card(again(review), None).answer
    assert (answer.by, answer.reason) == ("Ben", "fine by me")
    with pytest.raises(AlreadyDecided, match="by Ben"):
        decide(review, "reject", actor=ann)
