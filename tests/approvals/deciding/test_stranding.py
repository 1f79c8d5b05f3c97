"""An approval whose last possible decider leaves: it says so, it is counted, and it escalates."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client

from approvals import decide, reassign
from approvals.cards.card import build_card
from approvals.cards.status import describe_status
from approvals.cards.timeline import list_entries
from approvals.deciding import stranding
from approvals.models import Review
from approvals.notify.fan_out import expand_notices
from approvals.notify.messages.smtp import Postman
from approvals.notify.sending import send_messages
from approvals.reviews.case import Case
from approvals.reviews.electorate import may_be_stranded
from tests.support.notices import list_deliveries, make_reader, site  # noqa: F401 (a fixture)
from tests.support.review_calls import (
    again,
    ask,
    count_statements,
    grant,
    list_asked,
    list_events,
    list_notices,
    make_person,
    truth,  # noqa: F401 (a fixture)
)
from workflows import store
from workflows.testing import advance, assert_done, drain

pytestmark = pytest.mark.django_db

NOBODY = "Nobody can decide this any more"


def leave(user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_active=False)


def come_back(user: User) -> None:
    User.objects.filter(pk=user.pk).update(is_active=True)


def list_stranded() -> list[Any]:
    return list(Review.objects.filter(open=True, stranded_at__isnull=False).values_list("pk", flat=True))


# --- it says so -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["deactivated", "deleted"])
def test_when_the_last_who_was_asked_leaves_the_request_says_so_at_once(how: str, ann: User, ben: User) -> None:
    review = ask(assignees=["ann"], requester="ben")
    assert NOBODY not in describe_status(review)
    leave(ann) if how == "deactivated" else ann.delete()
    told = describe_status(again(review), ben)
    assert told == f"{NOBODY}, because those asked have left: reassign it, or withdraw it"
    assert build_card(again(review), ben).told == told
    drain()
    assert list_stranded() == [review.pk]
    assert next(one.what for one in list_entries(Case(again(review)))) == "Those asked have left or may not decide it"


def test_who_asked_and_is_all_that_is_left_cannot_decide_it(ann: User, ben: User) -> None:
    review = ask(assignees=["ann", "ben"], requester="ben")
    leave(ann)
    assert f"{NOBODY}, because too few" in describe_status(again(review))
    drain()
    assert list_stranded() == [review.pk]


def test_where_fewer_are_left_than_have_to_agree_nobody_can_decide_it(ann: User, ben: User) -> None:
    make_person("cid")
    review = ask(assignees=["ann", "ben"], requester="cid", quorum=2)
    leave(ann)
    assert f"{NOBODY}, because too few" in describe_status(again(review))


def test_whoever_is_left_can_decide_it(ann: User, ben: User) -> None:
    review = ask(assignees=["ann", "ben"])
    leave(ann)
    drain()
    assert describe_status(again(review)).startswith("Waiting for Ann or Ben")
    assert list_stranded() == []
    decide(review, "approve", actor=ben)


def test_a_group_may_have_members_again(ann: User) -> None:
    make_person("ben", "board")
    review = ask(assignees=["ann"], groups=["board"])
    User.objects.update(is_active=False)
    drain()
    assert NOBODY not in describe_status(again(review))
    assert list_stranded() == []


def test_lists_and_the_api_tell_it(ann: User, ben: User) -> None:
    review = ask(assignees=["ann"], requester="ben", title="Pay the rent")
    leave(ann)
    drain()
    browser = Client()
    browser.force_login(ben)
    assert NOBODY in browser.get("/approvals/?view=requested").content.decode()
    row = browser.get(f"/v1/approvals/{review.pk}").json()
    assert row["told"].startswith(NOBODY)
    assert row["stranded_at"] is not None


# --- it escalates -----------------------------------------------------------------------------------------


def test_the_next_rung_that_asks_others_comes_at_once(ann: User, ben: User) -> None:
    review = ask(assignees=["ann"], remind=["1d"], escalate=[("2d", ("add", "user", "ben"))])
    leave(ann)
    drain()
    assert list_asked(review) == [f"user:{ann.pk}", f"user:{ben.pk}"]
    assert [one.to for one in list_notices(review, "escalation")] == [[f"user:{ben.pk}"]]
    assert list_stranded() == []
    assert list_notices(review, "stranded") == []
    advance("3d")
    assert len([one for one in list_events(review, "handled") if one.data["what"] == "escalated"]) == 1
    decide(review, "approve", actor=ben)


def test_rungs_that_ask_people_who_have_left_too_are_passed_until_one_helps(ann: User, ben: User) -> None:
    cid = make_person("cid")
    review = ask(assignees=["ann"], escalate=[("1d", ("reassign", "user", "ben")), ("2d", ("reassign", "user", "cid"))])
    leave(ann)
    leave(ben)
    drain()
    assert list_asked(review) == [f"user:{cid.pk}"]
    assert list_stranded() == []


def test_the_answer_at_the_end_keeps_its_moment(ann: User, ben: User) -> None:
    review = ask(assignees=["ann"], requester="ben", escalate=[("2d", ("outcome", "reject"))])
    leave(ann)
    drain()
    assert again(review).open
    assert list_stranded() == [review.pk]
    advance("1d")
    assert again(review).open
    advance("2d")
    assert_done(review.instance_id, {"outcome": "reject", "actor": "time"})


def test_without_a_ladder_the_log_and_who_asked_are_told_once(ann: User, ben: User, caplog: Any) -> None:
    review = ask(assignees=["ann"], requester="ben")
    leave(ann)
    with caplog.at_level(logging.WARNING, "approvals"):
        drain()
        advance("1d")
    assert [one.to for one in list_notices(review, "stranded")] == [[f"user:{ben.pk}"]]
    assert len([one for one in caplog.records if "nobody can decide it any more" in one.getMessage()]) == 1


# --- somebody can decide it again -------------------------------------------------------------------------


def test_who_is_back_can_decide_it_again(ann: User) -> None:
    review = ask(assignees=["ann"])
    leave(ann)
    drain()
    come_back(ann)
    assert describe_status(again(review)).startswith("Waiting for Ann")
    drain()
    assert list_stranded() == []
    leave(ann)
    drain()
    assert list_stranded() == [review.pk]
    assert len([one for one in list_events(review, "handled") if one.data["what"] == "stranded"]) == 2


def test_handed_to_somebody_else_it_waits_for_them(ann: User, ben: User) -> None:
    review = ask(assignees=["ann"])
    leave(ann)
    drain()
    reassign(review, users=[ben], actor=grant(make_person("boss"), "reassign_review"))
    assert list_stranded() == []
    assert describe_status(again(review)).startswith("Waiting for Ben")
    leave(ben)
    drain()
    assert list_stranded() == [review.pk]


def test_what_is_being_decided_is_judged_after_its_grace(ann: User, ben: User) -> None:
    review = ask(assignees=["ann", "ben"])
    decide(review, "approve", actor=ann, grace=60)
    User.objects.update(is_active=False)
    drain()
    assert list_stranded() == []
    assert stranding.seconds_to_next(connection) is None


# --- what people hear -------------------------------------------------------------------------------------


def test_who_asked_hears_nothing_where_somebody_was_back_before_it_was_sent(settings: Any) -> None:
    ann = make_reader("ann")
    ben = make_reader("ben")
    review = ask(assignees=["ann"], requester="ben")
    leave(ann)
    drain()
    come_back(ann)
    expand_notices(10)
    with Postman() as postman:
        send_messages(10, postman)
    told = [(one.status, one.error) for one in list_deliveries(review, user=ben)]
    assert told == [("dropped", "Somebody can decide it again.")]


# --- what it costs ----------------------------------------------------------------------------------------


#: Reviews that ask ten people each by name, of two hundred.
_MANY = """
    INSERT INTO holdpoint_review (id, instance_id, created_at, workspace_id, version, rung, open, four_eyes, risk,
      title, why, workflow, step, subject_model, subject_pk, subject_using, subject_label, digest, outcome, on_decision,
      calendar, outcomes, quorum)
    SELECT md5('r' || n)::uuid, md5('i' || n)::uuid, now(), {workspace}, 1, 0, true, true, 'low', 'Refund', '', 'w',
      'ask', '', '', '', '', '', '', '', '', '[]', '{{}}' FROM generate_series(1, 2000) n;
    INSERT INTO holdpoint_candidate (review_id, workspace_id, open, principal, instead_of, added_by)
    SELECT md5('r' || n)::uuid, {workspace}, true, 'user:' || {first} + (n + m) % 200, '', ''
    FROM generate_series(1, 2000) n, generate_series(1, 10) m
"""


def count_stranded(workspace: int | None = None) -> float:
    return stranding.count_stranded(connection, workspace)


def test_it_is_counted_for_metrics(ann: User) -> None:
    review = ask(assignees=["ann"])
    assert count_stranded() == 0
    leave(ann)
    drain()
    assert (count_stranded(), count_stranded(review.workspace_id), count_stranded(-1)) == (1, 1, 0)


def test_many_are_judged_in_bounded_turns_and_each_once(ann: User, ben: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stranding, "BATCH", 2)
    for _ in range(3):
        ask(assignees=["ann"])
    ask(assignees=["ann", "ben"])
    ask(assignees=["ben"])
    leave(ann)
    assert [stranding.work(), stranding.work(), stranding.work()] == [2, 2, 0]
    assert len(list_stranded()) == 3
    assert stranding.seconds_to_next(connection) is None


def test_looking_takes_one_statement_however_many_wait(ann: User, ben: User) -> None:
    for _ in range(4):
        ask(assignees=["ann", "ben"])
    assert len(count_statements(lambda: stranding.seconds_to_next(connection))) == 1


def test_a_look_reads_partial_indexes_and_no_table_whole(ann: User) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO auth_user (username, password, first_name, last_name, email, is_active, is_staff, "
            "is_superuser, date_joined) SELECT 'asked' || n, '', '', '', '', true, false, false, now() "
            "FROM generate_series(0, 9999) n"
        )
        cursor.execute(_MANY.format(first=User.objects.get(username="asked0").pk, workspace=1))
        cursor.execute("ANALYZE holdpoint_review, holdpoint_candidate, auth_user")
        [statement] = count_statements(lambda: stranding.seconds_to_next(connection))
        assert stranding.seconds_to_next(connection) is None
        cursor.execute(f"EXPLAIN {statement}")
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "Seq Scan" not in plan, plan
    assert "holdpoint_candidate_here" in plan
    assert "holdpoint_candidate_gone" in plan
    assert "auth_user_pkey" in plan
    where = "EXPLAIN " + stranding._COUNT.format(where="")
    plan = "\n".join(row[0] for row in store.fetch(connection, where, {"most": 10}))
    assert "holdpoint_review_stranded" in plan


def test_a_card_of_what_somebody_can_decide_costs_nothing_more(ann: User, ben: User) -> None:
    review = ask(assignees=["ann", "ben"])
    case = Case(again(review))
    case.who  # noqa: B018 (reads the names)
    case.all_votes  # noqa: B018
    assert count_statements(lambda: may_be_stranded(case)) == []
