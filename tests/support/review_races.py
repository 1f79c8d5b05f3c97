"""Several people at one review at once, for tests: committed people, a review they are asked, and their votes.

Lives here: what the test modules of races between people begin with. What must not: assertions about one rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User

from approvals import AlreadyDecided, NotAllowed, decide
from approvals.models import Review
from tests.support.folds import check_all_folds
from tests.support.races import work
from tests.support.review_calls import ask, check_truth, make_person

#: Only these apps are there: what they do beside others is tested elsewhere.
COMMITTED_PEOPLE = [
    pytest.mark.django_db(
        transaction=True,
        available_apps=["django.contrib.contenttypes", "django.contrib.auth", "workflows", "approvals"],
    ),
    pytest.mark.usefixtures("people"),
]
both_ends = pytest.mark.parametrize("rollback", [False, True], ids=["commit", "rollback"])


@pytest.fixture(name="people")
def commit_people(transactional_db: None) -> Iterator[None]:
    for name in ("ann", "ben", "cid"):
        make_person(name)
    yield
    check_truth()
    check_all_folds()


def find(name: str) -> User:
    return User.objects.get(username=name)


def park(**options: Any) -> Review:
    return ask(assignees=["ann", "ben", "cid"], run=work, **options)


def say(review: Review, name: str, outcome: str = "approve", **options: Any) -> Callable[[], Any]:
    """Decide as this person; how it stands then, or the error as it is."""

    def call() -> Any:
        try:
            return decide(review.pk, outcome, actor=find(name), **options).state
        except AlreadyDecided as refused:
            return ("decided already", refused.by, refused.at is not None, refused.outcome)
        except NotAllowed as refused:
            return refused.obstacle.rule

    return call
