"""What a decision and the pages around it cost: calls of the project's functions, and statements.

Counted on a connection outside of any transaction, as a web process has it, with warm caches. The statements that begin
and end the decision's transaction are not counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.db import connections
from django.test import Client
from django.test.utils import CaptureQueriesContext

from approvals.models import Review
from tests.support.api_calls import Api
from tests.support.call_counts import count_calls
from tests.support.races import work
from tests.support.review_calls import again, ask, make_person
from tests.support.statements import TRANSACTION

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("committed")]

BY_HTMX = {"HX-Request": "true"}


@contextmanager
def costs(*, calls: int, statements: int) -> Iterator[None]:
    """At most so many calls, and exactly so many statements."""
    with CaptureQueriesContext(connections["default"]) as captured, count_calls() as counts:
        yield
    sent = [one["sql"].lstrip() for one in captured if not one["sql"].lstrip().upper().startswith(TRANSACTION)]
    assert len(sent) == statements, "\n".join(sql[:200] for sql in sent)
    assert counts.total() <= calls, counts


@pytest.fixture
def ann() -> User:
    cache.clear()
    return make_person("ann", "finance")


@pytest.fixture
def client(ann: User) -> Client:
    client = Client()
    client.force_login(ann)
    return client


@pytest.fixture
def reviews(ann: User) -> list[Review]:
    """Six that wait for her, each asked for by somebody else."""
    asked = [make_person(f"ben-{number}").username for number in range(6)]
    return [ask(title=f"Invoice {name}", groups=["finance"], requester=name, run=work) for name in asked]


def read_fields(client: Client, review: Review) -> dict[str, Any]:
    """What the page's form sends with its button "Approve"."""
    card = client.get(f"/approvals/{review.pk}/", headers=BY_HTMX).context["card"]
    return {"version": str(card.version), "seen": card.seen, "outcome": "approve"}


def test_a_click_without_javascript_reads_the_form_decides_and_leads_back(
    client: Client, reviews: list[Review]
) -> None:
    warm, review = reviews[:2]
    client.post(f"/approvals/{warm.pk}/", read_fields(client, warm))
    fields = read_fields(client, review)
    with costs(calls=320, statements=21):
        answer = client.post(f"/approvals/{review.pk}/", fields)
    assert answer.status_code == 303
    assert again(review).outcome == "approve"


def test_a_click_by_htmx_draws_one_card(client: Client, reviews: list[Review]) -> None:
    warm, review = reviews[:2]
    client.post(f"/approvals/{warm.pk}/", read_fields(client, warm), headers=BY_HTMX)
    fields = read_fields(client, review)
    with costs(calls=800, statements=30):
        answer = client.post(f"/approvals/{review.pk}/", fields, headers=BY_HTMX)
    assert answer.status_code == 200
    assert answer.context["card"].status == "grace"


def test_a_decision_by_rest(client: Client, reviews: list[Review]) -> None:
    api = Api(client=client)
    warm, review = reviews[:2]
    api.post(f"/v1/approvals/{warm.pk}/decide", {"outcome": "approve"})
    with costs(calls=230, statements=19):
        answer = api.post(f"/v1/approvals/{review.pk}/decide", {"outcome": "approve"})
    assert answer.status_code == 200


def test_the_inbox_with_six_rows(client: Client, reviews: list[Review]) -> None:
    client.get("/approvals/")
    with costs(calls=680, statements=11):
        answer = client.get("/approvals/")
    assert len(answer.context["rows"].rows) == len(reviews)


def test_the_page_of_a_request(client: Client, reviews: list[Review]) -> None:
    client.get(f"/approvals/{reviews[0].pk}/")
    with costs(calls=535, statements=12):
        answer = client.get(f"/approvals/{reviews[1].pk}/")
    assert answer.context["card"].may_decide
