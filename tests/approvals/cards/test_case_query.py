"""One review with all that a card shows, read in one statement: the same rows, for the same people, at a known cost."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import AnonymousUser, User

from approvals import answer_info, claim, comment, decide, delegate, request_info
from approvals.cards.card import Card, build_card
from approvals.cards.case_query import fill, load_case, read_case
from approvals.models import Review
from approvals.people.viewer import Viewer, find_viewer
from approvals.reviews.case import MAX_ROWS, Case
from approvals.reviews.permissions import find_question
from tests.support.review_calls import count_statements, find_review, make_person, start
from tests.support.worlds.cards import People, build, read_again
from workflows.testing import drain

pytestmark = pytest.mark.django_db


def load(review: Review, user: User) -> Case:
    case = load_case(review.pk, user)
    assert case is not None
    return case


def look(review: Review, user: User) -> Card:
    """As a page does it."""
    viewer = Viewer(User.objects.get(pk=user.pk))
    case = load_case(review.pk, viewer)
    assert case is not None
    return build_card(case.review, viewer.user, case=case)


def test_a_card_that_is_looked_up_for_somebody_costs_ten_statements(asked: Review, people: People) -> None:
    """With the session and the user's row a request takes twelve, however much has happened."""
    told = [
        "holdpoint_workspace_members",  # who looks: their workspaces,
        '"auth_user_user_permissions"',  # permissions, by Django's own two statements,
        '"auth_group_permissions"',
        '"holdpoint_absence"',  # groups, rules and absences
        '"holdpoint_interaction"',  # the review with its question, candidates, votes, comments and history
        '"auth_user"',  # the names of people
        '"auth_group"',  # and of groups and permissions
        '"shop_order"',  # what it is about
        '"holdpoint_review"."decided_at" IS NOT NULL',  # what was decided in cases like this
        '"holdpoint_review"."change" IS NOT NULL',  # other changes of it that wait
    ]

    def count() -> None:
        first, *sent = count_statements(lambda: look(asked, people.cid))
        assert first.startswith('SELECT "auth_user"')
        assert [(name, sql) for name, sql in zip(told, sent, strict=True) if name not in sql] == []

    count()
    for number in range(3):
        comment(asked, f"Comment {number}", actor=people.ben)
    request_info(asked, "Why?", actor=people.cid)
    delegate(asked, to=User.objects.create_user("eve"), actor=people.dee)
    decide(asked, "approve", actor=people.ann, data={})
    claim(asked, actor=people.cid)
    count()


def test_a_card_is_the_same_however_it_was_read(asked: Review, people: People) -> None:
    delegate(asked, to=User.objects.create_user("eve"), actor=people.dee)
    request_info(asked, "Why?", actor=people.cid)
    decide(asked, "approve", actor=people.ann, data={})
    claim(asked, actor=people.cid)
    for user in (people.ann, people.ben, people.cid, people.dee):
        card = look(asked, user)
        if user != people.ben:  # who asked for it
            assert card.timeline[0].what == "claimed it"
        assert replace(card, now=asked.created_at) == replace(build(asked, user), now=asked.created_at)


def test_whoever_may_not_see_a_review_loads_nothing_of_it(asked: Review, people: People) -> None:
    zoe = User.objects.create_user("zoe")
    gone = User.objects.create_user("gone", is_active=False)
    gone.groups.add(people.finance)
    assert load(asked, people.ann).review == asked
    assert load_case(asked.pk, people.ann, workspace=asked.workspace_id) is not None
    assert load_case(asked.pk, people.ann, workspace=asked.workspace_id + 1) is None
    assert [load_case(asked.pk, nobody) for nobody in (zoe, gone, AnonymousUser())] == [None] * 3
    assert load_case(uuid4(), people.ann) is None


def test_rows_that_are_read_together_are_the_rows_themselves(asked: Review, people: People) -> None:
    decide(asked, "approve", actor=people.ann, data={"note": "n", "list": [1, 2.5, None, "\u202e"]})
    delegate(asked, to=User.objects.create_user("eve"), actor=people.dee)
    case, own = load(asked, people.cid), Case(read_again(asked))
    for name in ("candidates", "all_votes"):
        for one, other in zip(getattr(case, name), getattr(own, name), strict=True):
            assert {**vars(one), "_state": None} == {**vars(other), "_state": None}
            assert (one._state.db, one._state.adding) == (other._state.db, other._state.adding)
    assert [len(case.candidates), len(case.all_votes)] == [2, 1]
    assert case.earlier_deciders == own.earlier_deciders == frozenset()
    assert abs(case.now - own.now).total_seconds() < 60


def test_who_decided_an_earlier_stage_is_read_for_each_family_by_itself() -> None:
    """The statement is built once for all reviews: whose it is must not be that of the first one."""
    for name in ("eve", "fay"):
        decider = make_person(name)
        instance = start({"assignees": [decider]}, {"assignees": [make_person(f"{name}-next")]})
        decide(find_review(instance), "approve", actor=decider)
        drain()
        review = find_review(instance)
        filled, found = Case(review), read_case(Review.objects.all(), review.pk)
        fill(filled)
        assert found is not None
        assert found.earlier_deciders == filled.earlier_deciders == Case(review).earlier_deciders == {decider.pk}


def test_the_open_question_is_found_in_what_was_read_and_beyond_it(asked: Review, people: People) -> None:
    question = request_info(asked, "Why?", actor=people.cid)
    assert find_question(load(asked, people.cid)) == find_question(Case(asked)) == question
    for number in range(MAX_ROWS + 1):
        comment(asked, f"Comment {number}", actor=people.ben)
    assert find_question(load(asked, people.cid)) == question
    answer_info(asked, "So.", actor=people.ben)
    assert find_question(load(asked, people.cid)) is None


def test_a_request_has_one_viewer_and_another_user_another(rf: Any, people: People) -> None:
    request = rf.get("/")
    request.user = people.ann
    viewer = find_viewer(request)
    assert find_viewer(request) is viewer
    assert viewer.user == people.ann
    request.user = people.ben
    assert find_viewer(request).user == people.ben
