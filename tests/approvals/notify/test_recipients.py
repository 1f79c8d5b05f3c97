"""Who is told of what: every kind of notice, whoever may and may not decide, and what comes of it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core import mail
from django.db import connection
from django.utils import timezone

import workflows
from approvals import decide, delegate, reassign, undo
from approvals.actions import actions
from approvals.models import Absence, Delivery, Notice, Review
from approvals.models.writer import insert_notice
from tests.support.notices import ask_quietly, list_deliveries, list_told, make_reader, prefer, site, take_mail  # noqa: F401
from tests.support.review_calls import ask, find_review, grant, start
from workflows.testing import advance, drain

pytestmark = pytest.mark.django_db

TITLE = "Pay the invoice"


def absent(user: Any, substitute: Any, **values: Any) -> Absence:
    return Absence.objects.create(user=user, substitute=substitute, since=timezone.now() - timedelta(days=1), **values)


# --- those asked ------------------------------------------------------------------------------------------


def test_those_asked_are_told_when_it_is_asked() -> None:
    make_reader("ann")
    make_reader("ben", "finance")
    make_reader("cid", "finance")
    make_reader("dan")
    ask(assignees=["ann"], groups=["finance"])
    please = f"Please decide: {TITLE}"
    assert list_told() == [("ann", please), ("ben", please), ("cid", please)]
    assert not Notice.objects.exists()


def test_who_has_the_permission_or_is_named_by_a_rule_is_told() -> None:
    grant(make_reader("ann"), "decide_review")
    make_reader("ben")
    ask()
    assert [name for name, _ in list_told()] == ["ann"]


def test_who_joined_the_group_meanwhile_is_reminded_and_who_left_is_not() -> None:
    ann, ben = make_reader("ann", "finance"), make_reader("ben")
    ask(groups=["finance"], remind=["1d"])
    assert [name for name, _ in list_told()] == ["ann"]
    ben.groups.set(ann.groups.all())
    ann.groups.clear()
    advance("25h")
    assert list_told() == [("ben", f"Still waits for you: {TITLE}")]


def test_the_requester_is_not_asked_under_four_eyes() -> None:
    make_reader("ann")
    make_reader("ben")
    ask(assignees=["ann", "ben"], requester="ben", remind=["1d"])
    assert [name for name, _ in list_told()] == ["ann"]
    advance("25h")
    assert [name for name, _ in list_told()] == ["ann"]


def test_without_four_eyes_the_requester_is_asked_like_anybody_because_the_workflow_asks() -> None:
    make_reader("ann")
    make_reader("ben")
    ask(assignees=["ann", "ben"], requester="ben", four_eyes=False)
    assert [name for name, _ in list_told()] == ["ann", "ben"]


def test_who_decided_an_earlier_stage_is_not_asked_again() -> None:
    ann = make_reader("ann")
    make_reader("ben")
    instance = start({"assignees": ["ann"]}, {"assignees": ["ann", "ben"]})
    decide(find_review(instance), "approve", actor=ann)
    list_told()
    drain()
    assert [name for name, _ in list_told()] == ["ben"]


def test_who_has_voted_is_not_reminded() -> None:
    ann = make_reader("ann")
    make_reader("ben")
    review = ask(assignees=["ann", "ben"], quorum=2, remind=["1d"])
    decide(review, "approve", actor=ann)
    list_told()
    advance("25h")
    assert [name for name, _ in list_told()] == ["ben"]


def test_who_stands_in_for_somebody_away_is_told_too_and_for_whom() -> None:
    ann = make_reader("ann")
    absent(ann, make_reader("ben"))
    ask(assignees=["ann"])
    [told] = [one for one in mail.outbox if one.to == ["ben@example.org"]]
    assert "You stand in for Ann, who is away." in told.body
    assert [name for name, _ in list_told()] == ["ann", "ben"]


@pytest.mark.parametrize("values", [{"workflows": ["other"]}, {"until": "past"}])
def test_a_stand_in_elsewhere_or_not_any_more_is_not_told(values: dict[str, Any]) -> None:
    until = timezone.now() - timedelta(hours=1) if values.pop("until", None) else None
    absent(make_reader("ann"), make_reader("ben"), until=until, **values)
    ask(assignees=["ann"])
    assert [name for name, _ in list_told()] == ["ann"]


def test_a_stand_in_who_may_not_decide_is_not_told() -> None:
    absent(make_reader("ann"), make_reader("ben"))
    ask(assignees=["ann"], requester="ben")
    assert [name for name, _ in list_told()] == ["ann"]


def test_only_members_of_the_workspace_are_told() -> None:
    ann = make_reader("ann")
    make_reader("ben")
    make_reader("cid")
    acme = workflows.workspace.create("acme")
    acme.members.add(ann)
    with workflows.workspace("acme"):
        review = ask(assignees=["ann", "ben"], requester="cid")
    decide(review, "approve", actor=ann)
    drain()
    assert [name for name, _ in list_told()] == ["ann"]
    assert [one.user_id for one in list_deliveries(review)] == [ann.pk]


def test_who_can_no_longer_log_in_is_not_told() -> None:
    ann, ben = make_reader("ann"), make_reader("ben")
    type(ben).objects.filter(pk=ben.pk).update(is_active=False)
    ask(assignees=["ann", "ben"])
    assert [name for name, _ in list_told()] == ["ann"]
    assert ann.is_active


def test_an_escalation_tells_whom_it_hands_on_to() -> None:
    make_reader("ann")
    make_reader("boss", "bosses")
    ask(assignees=["ann"], escalate=[("1d", ("add", "bosses"))])
    list_told()
    advance("25h")
    assert list_told() == [("boss", f"Now with you: {TITLE}")]


def test_whom_it_is_handed_on_to_is_told_by_whom() -> None:
    ann = make_reader("ann")
    make_reader("ben")
    review = ask(assignees=["ann"])
    list_told()
    delegate(review, to="ben", actor=ann)
    drain()
    [told] = mail.outbox
    assert (told.to, told.subject) == (["ben@example.org"], f"Handed on to you: {TITLE}")
    assert "Ann handed this on to you:" in told.body


def test_whoever_reassigns_to_a_group_of_their_own_is_not_told() -> None:
    boss = grant(make_reader("boss", "finance"), "reassign_review")
    make_reader("ann")
    make_reader("ben", "finance")
    review = ask(assignees=["ann"])
    list_told()
    reassign(review, groups=["finance"], actor=boss)
    drain()
    assert [name for name, _ in list_told()] == ["ben"]


def test_a_nudge_tells_those_asked_and_not_who_nudges() -> None:
    make_reader("ann")
    ben = make_reader("ben")
    review = ask(assignees=["ann", "ben"], requester="ben", four_eyes=False)
    list_told()
    actions.nudge(review, actor=ben)
    drain()
    assert list_told() == [("ann", f"Ben asks for your decision: {TITLE}")]


def test_of_what_somebody_has_claimed_only_they_are_reminded() -> None:
    ann = make_reader("ann")
    make_reader("ben")
    review = ask(assignees=["ann", "ben"], remind=["1d"])
    list_told()
    actions.claim(review, actor=ann)
    advance("25h")
    assert [name for name, _ in list_told()] == ["ann"]


def test_what_somebody_has_put_aside_they_are_not_reminded_of() -> None:
    ann = make_reader("ann")
    review = ask(assignees=["ann"], remind=["1d"])
    list_told()
    actions.snooze(review, until=timezone.now() + timedelta(days=3), actor=ann)
    advance("25h")
    assert list_told() == []
    assert [one.error for one in list_deliveries(review, kind="reminder")] == ["They have put it aside."]


# --- everybody else ---------------------------------------------------------------------------------------


def test_a_question_is_told_to_the_requester_and_its_answer_to_who_asked() -> None:
    ann, ben = make_reader("ann"), make_reader("ben")
    make_reader("cid")
    review = ask(assignees=["ann", "cid"], requester="ben")
    list_told()
    actions.request_info(review, "Which account?\nAnd why?", actor=ann)
    drain()
    [told] = mail.outbox
    assert (told.to, told.subject) == (["ben@example.org"], f"Ann asks you: {TITLE}")
    assert "> Which account?\n> And why?" in told.body
    mail.outbox.clear()
    actions.answer_info(review, "Account 4711", actor=ben)
    drain()
    [told] = mail.outbox
    assert (told.to, told.subject) == (["ann@example.org"], f"Ben answered: {TITLE}")
    assert "> Account 4711" in told.body


def test_the_requester_hears_what_was_decided_and_why() -> None:
    ann = make_reader("ann")
    make_reader("ben")
    review = ask(assignees=["ann"], requester="ben")
    list_told()
    decide(review, "reject", actor=ann, reason="Not in the budget")
    drain()
    [told] = mail.outbox
    assert (told.to, told.subject) == (["ben@example.org"], f"Rejected: {TITLE}")
    assert "Ann rejected this today at" in told.body
    assert "Not in the budget" in told.body


def test_who_decided_their_own_request_need_not_be_told() -> None:
    ann = make_reader("ann")
    review = ask(assignees=["ann"], requester="ann", four_eyes=False)
    list_told()
    decide(review, "approve", actor=ann)
    drain()
    assert list_told() == []


def test_whoever_voted_otherwise_hears_it_and_the_others_are_not_flooded() -> None:
    ann, ben, cid = (make_reader(name) for name in ("ann", "ben", "cid"))
    make_reader("dan")
    review = ask(assignees=["ann", "ben", "cid", "dan"], quorum=2)
    list_told()
    decide(review, "reject", actor=ann)
    decide(review, "approve", actor=ben)
    decide(review, "approve", actor=cid)
    drain()
    assert list_told() == [("ann", f"Approved: {TITLE}")]


def test_the_requester_hears_that_time_ran_out() -> None:
    make_reader("ann")
    make_reader("ben")
    review = ask(assignees=["ann"], requester="ben")
    list_told()
    advance("8d")
    [told] = mail.outbox
    assert (told.to, told.subject) == (["ben@example.org"], f"No longer waits: {TITLE}")
    assert "The time to decide ended" in told.body
    assert [one.kind for one in list_deliveries(review)] == ["new", "closed"]


def test_the_requester_hears_that_it_was_cancelled_also_within_the_grace() -> None:
    ann = make_reader("ann")
    make_reader("ben")
    review = ask(assignees=["ann"], requester="ben")
    decide(review, "approve", actor=ann, grace=True)
    list_told()
    workflows.cancel(review.instance)
    drain()
    assert list_told() == [("ben", f"No longer waits: {TITLE}")]


def test_who_withdrew_it_need_not_be_told() -> None:
    make_reader("ann")
    ben = make_reader("ben")
    review = ask(assignees=["ann"], requester="ben")
    list_told()
    actions.withdraw(review, actor=ben)
    drain()
    assert list_told() == []
    [sent] = list_deliveries(review)
    assert (sent.kind, sent.closed_at is not None) == ("new", True)


def fail(answer: Any, instance: Any) -> None:
    raise ValueError("no such account")


def test_whose_decision_could_not_be_carried_out_hears_why() -> None:
    ann = make_reader("ann")
    review = ask(assignees=["ann"], on_decision=fail)
    list_told()
    decide(review, "approve", actor=ann, grace=True)
    advance("10s")
    [told] = mail.outbox
    assert (told.to, told.subject) == (["ann@example.org"], f"Not carried out, waits again: {TITLE}")
    assert "no such account" in told.body
    assert "Look and decide" in told.body


def rename_subject(review: Review) -> None:
    Group.objects.filter(pk=review.subject_pk).update(name="council")


def leave(review: Review) -> None:
    for user in User.objects.all():
        user.groups.clear()


@pytest.mark.parametrize(
    ("happen", "options", "told"),
    [
        (rename_subject, {}, ("Dies hat sich geändert", ": Name.", "this changed")),
        (leave, {}, ("Sie können dies nicht mehr entscheiden", "", "You can’t")),
        (lambda review: None, {"on_decision": fail}, ("Es konnte nicht ausgeführt werden", "no such account", "could")),
    ],
)
def test_why_it_was_not_carried_out_is_told_in_the_readers_language(
    happen: Any, options: Any, told: tuple[str, str, str]
) -> None:
    make_reader("ann", "board", language="de")
    review = ask(groups=["board"], subject=Group.objects.create(name="subject"), **options)
    list_told()
    decide(review, "approve", actor=User.objects.get(username="ann"), grace=True)
    happen(review)
    advance("10s")
    [sent] = mail.outbox
    german, beside, english = told
    assert german in sent.body
    assert beside in sent.body
    assert english not in sent.body


# --- what is over by then ---------------------------------------------------------------------------------


def test_what_was_decided_before_the_message_went_out_is_asked_of_nobody() -> None:
    ann = make_reader("ann")
    make_reader("ben")
    review = ask_quietly(assignees=["ann", "ben"])
    decide(review, "approve", actor=ann)
    drain()
    assert list_told() == []
    told = {(one.status, one.error) for one in list_deliveries(review)}
    assert told == {("dropped", "It was decided before this was sent.")}


def test_while_it_can_be_undone_nobody_is_asked_and_afterwards_the_others_are() -> None:
    ann = make_reader("ann")
    make_reader("ben")
    review = ask_quietly(assignees=["ann", "ben"])
    decide(review, "approve", actor=ann, grace=True)
    drain()
    assert list_told() == []
    assert {one.status for one in list_deliveries(review)} == {"waiting"}
    undo(review, actor=ann)
    advance("20s")
    assert [name for name, _ in list_told()] == ["ben"]


def test_once_decided_every_mail_leads_to_the_outcome() -> None:
    ann = make_reader("ann")
    make_reader("ben")
    review = ask(assignees=["ann", "ben"])
    assert [one.closed_at for one in list_deliveries(review)] == [None, None]
    decide(review, "approve", actor=ann)
    drain()
    assert all(one.closed_at is not None for one in list_deliveries(review))


# --- who gets no mail -------------------------------------------------------------------------------------


def test_without_an_address_there_is_no_mail_and_a_row_says_why() -> None:
    make_reader("ann", email="")
    review = ask(assignees=["ann"])
    [kept] = list_deliveries(review)
    assert (kept.status, kept.error, kept.due_at) == ("dropped", "They have no e-mail address.", None)


def test_who_wants_no_mail_gets_none() -> None:
    make_reader("ann", mail="none")
    review = ask(assignees=["ann"])
    assert list_told() == []
    assert [one.error for one in list_deliveries(review)] == ["They want no mail."]


def test_a_site_may_send_no_mail_at_all(settings: Any) -> None:
    settings.APPROVALS = {"EMAIL": False}
    make_reader("ann")
    review = ask(assignees=["ann"])
    assert list_told() == []
    assert list_deliveries(review) == []


def test_who_changes_their_mind_before_it_is_sent_gets_none() -> None:
    ann = make_reader("ann", mail="hourly")
    review = ask(assignees=["ann"])
    prefer(ann, mail="none")
    advance("2h")
    assert list_told() == []
    assert [one.status for one in list_deliveries(review)] == ["dropped"]


# --- the rows -------------------------------------------------------------------------------------------


def test_every_message_is_a_row_that_says_what_became_of_it() -> None:
    make_reader("ann")
    review = ask(assignees=["ann"])
    [told] = mail.outbox
    [sent] = list_deliveries(review)
    assert (sent.status, sent.kind, sent.channel, sent.address) == ("sent", "new", "email", "ann@example.org")
    assert (sent.attempts, sent.due_at, sent.error) == (1, None, "")
    assert sent.sent_at is not None
    assert sent.external_id == told.extra_headers["Message-ID"] == f"<{sent.pk}@holdpoint.example>"


@pytest.mark.no_fold(reason="the interaction is deleted behind the engine's back, as retention does")
def test_messages_go_with_their_review() -> None:
    make_reader("ann")
    review = ask(assignees=["ann"])
    insert_notice(review, "reminder", at=timezone.now())
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM holdpoint_interaction WHERE id = %s", [review.pk])
    assert not Delivery.objects.exists()
    assert not Notice.objects.exists()


# --- nobody is left ---------------------------------------------------------------------------------------


def test_who_asked_gets_one_mail_when_nobody_can_decide_it_any_more() -> None:
    ann = make_reader("ann")
    make_reader("ben")
    ask(assignees=["ann"], requester="ben")
    list_told()
    ann.is_active = False
    ann.save()
    drain()
    found = take_mail("ben")
    assert found.subject == f"Nobody can decide this any more: {TITLE}"
    assert "Ask for somebody else, or withdraw it" in found.body
    advance("2d")
    assert list_told() == []
