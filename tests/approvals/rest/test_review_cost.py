"""What the reviewers' addresses cost the database: so many statements, however many rows there are.

Counted on a connection outside of any transaction, as a web process has it. A bound is what it was when it was
written; that it does not grow with the rows is the point.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.db import connections
from django.test.utils import CaptureQueriesContext

from approvals import decide
from approvals.actions import actions
from tests.support.api_calls import Api, make_key
from tests.support.races import work
from tests.support.rest_reviews import login
from tests.support.review_calls import ask, make_person
from tests.support.statements import TRANSACTION
from tests.support.statements import exact_statements as statements

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("committed")]


@pytest.fixture
def ann() -> User:
    cache.clear()
    return make_person("ann", "finance")


def ask_many(count: int, **options: Any) -> None:
    for n in range(count):
        make_person(f"asker-{count}-{n}")
        given = {"groups": ["finance"], "requester": f"asker-{count}-{n}", **options}
        ask(due="1h" if n % 2 else None, run=work, **given)


@contextmanager
def counted(most: int) -> Iterator[list[int]]:
    """At most so many statements, without those that begin or end a transaction; how many, once it is over."""
    told: list[int] = []
    with CaptureQueriesContext(connections["default"]) as captured:
        yield told
    sent = [one["sql"].lstrip() for one in captured]
    told.append(sum(not sql.upper().startswith(TRANSACTION) for sql in sent))
    assert told[0] <= most, "\n".join(sql[:200] for sql in sent)


def test_a_list_costs_the_same_however_many_rows_it_has(ann: User) -> None:
    """The session and the user; who she is (workspaces, of the call and of the list; groups, rules and absences;
    permissions, two); under which of her names something waits; then both parts of the page, and people's names."""
    api, seen = login(ann), []
    for rows in (4, 12):
        ask_many(rows)
        api.get("/v1/approvals")
        with counted(11) as told:
            shown = api.get("/v1/approvals").json()["results"]
        seen += told
    assert len(set(seen)) == 1
    assert len(shown) == len({row["requester"] for row in shown}) == 16


def test_a_key_pays_for_both_parts_of_the_page_and_for_names(ann: User) -> None:
    ask_many(6)
    api = Api(make_key("read"))
    api.get("/v1/approvals")
    with statements(3):
        assert len(api.get("/v1/approvals").json()["results"]) == 6
    with statements(2):
        assert len(api.get("/v1/approvals", limit=3, status="any").json()["results"]) == 3


def test_one_of_them_costs_the_same_however_much_was_said(ann: User) -> None:
    review = ask(groups=["finance"], requester=make_person("ben").username, quorum=3, run=work)
    others = [make_person(name, "finance") for name in ("cid", "dan")]
    api, path = login(ann), f"/v1/approvals/{review.pk}"
    api.get(path)
    seen = []
    for times in (1, 10):
        for one in others:
            for _ in range(times):
                actions.comment(review, "?", actor=one)
            if times == 1:
                decide(review, "approve", actor=one)
        with counted(12) as told:
            timeline = api.get(path).json()["timeline"]
        seen += told
    assert len(set(seen)) == 1
    assert len(timeline) == 1 + 2 + 22


def test_a_decision_costs_so_much_and_two_more_with_a_key(ann: User) -> None:
    reviews = [ask(groups=["finance"], requester=make_person(name).username, run=work) for name in ("b", "c")]
    api = login(ann)
    api.get("/v1/approvals")
    first, second = (f"/v1/approvals/{review.pk}/decide" for review in reviews)
    with counted(19) as plain:
        assert api.post(first, {"outcome": "approve"}).status_code == 200
    with counted(21) as keyed:
        assert api.post(second, {"outcome": "approve"}, {"Idempotency-Key": "k"}).status_code == 200
    assert keyed == [plain[0] + 2]
    with statements(5, wrapping=2):  # the session, the user, the workspaces; it was told, and what
        api.post(second, {"outcome": "approve"}, {"Idempotency-Key": "k"})


def test_nothing_is_asked_for_who_may_not_call(ann: User) -> None:
    review = ask(groups=["finance"], run=work)
    api = Api(make_key())
    api.get("/v1/approvals")
    with statements(3, wrapping=2):  # a key is of the workspace: that it tried is in the ledger
        assert api.post(f"/v1/approvals/{review.pk}/decide", {"outcome": "approve"}).status_code == 403
    with statements(0):
        assert Api().post(f"/v1/approvals/{review.pk}/decide", {"outcome": "approve"}).status_code == 401
