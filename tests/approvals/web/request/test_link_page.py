"""The page of a one-person link: the outcome for ever, refusals that lose nothing, high risk, and what people say."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.core.cache import cache
from django.db import OperationalError

import workflows
from approvals import decide
from approvals.access.password_check import TRIES
from approvals.actions import actions
from approvals.models import Comment, Preference, Vote
from tests.support.html_pages import HOSTILE
from tests.support.link_pages import (  # noqa: F401
    FORM,
    KEYS,
    SCHEMA,
    SITE,
    LinkTwice,
    Visitor,
    ask,
    make_ann,
    make_ben,
    site,
    snapshot,
)
from workflows.models import LedgerEvent
from workflows.testing import advance, assert_done, drain

pytestmark = pytest.mark.django_db


# --- the outcome for ever ---------------------------------------------------------------------------------


def test_it_shows_who_else_decided_and_when(ann: User, ben: User) -> None:
    review = ask(assignees=["ann", "ben"])
    visitor = Visitor(review, ann)
    visitor.open()
    decide(review, "reject", actor=ben, reason="Not in the budget")
    words = visitor.send(outcome="approve", reason="I had my reasons", status=410)
    assert "What you sent was not taken" in words
    assert "Ben Okafor rejected this today at" in words
    assert "I had my reasons" in words
    words = visitor.open()
    assert "Ben Okafor rejected this today at" in words
    assert "Not in the budget" in words
    assert visitor.list_buttons() == []


def test_the_same_decision_sent_twice_leads_to_the_page_and_another_one_is_told(ann: User) -> None:
    visitor = Visitor(ask(assignees=["ann"]), ann)
    visitor.open()
    shown = visitor.page
    for _ in range(2):
        visitor.page = shown
        words = visitor.send(outcome="approve", reason="As agreed")
        assert "You approved this" in words
        assert "not taken" not in words
    visitor.page = shown
    words = visitor.send(outcome="approve", reason="For another reason", status=410)
    assert "What you sent was not taken" in words
    assert "For another reason" in words
    assert Vote.objects.get().reason == "As agreed"


def test_it_shows_that_time_ran_out(ann: User) -> None:
    review = ask(assignees=["ann"])
    visitor = Visitor(review, ann)
    visitor.open()
    advance("8d")
    assert "The time to decide ended" in visitor.send(outcome="approve", status=410)
    assert "The time to decide ended" in visitor.open()


def test_it_shows_that_it_was_cancelled(ann: User) -> None:
    review = ask(assignees=["ann"])
    visitor = Visitor(review, ann)
    workflows.cancel(review.instance)
    assert "Cancelled today at" in visitor.open()


def test_it_shows_that_it_was_withdrawn(ann: User, ben: User) -> None:
    review = ask(assignees=["ann"], requester="ben")
    visitor = Visitor(review, ann)
    actions.withdraw(review, actor=ben)
    assert "Ben Okafor withdrew this" in visitor.open()


def test_who_has_voted_sees_how_far_the_others_are(ann: User, ben: User) -> None:
    visitor = Visitor(ask(assignees=["ann", "ben"], quorum=2), ann)
    visitor.open()
    words = visitor.send(outcome="approve")
    assert "1 of 2 approved" in words
    assert "You have decided on this already" in words


# --- refused, and nothing lost ----------------------------------------------------------------------------


def test_what_has_changed_since_is_shown_and_nothing_typed_is_lost(ann: User) -> None:
    target = User.objects.create_user("target", first_name="Xenia")
    review = ask(assignees=["ann"], about="target")
    visitor = Visitor(review, ann)
    assert "Xenia" in visitor.open()
    User.objects.filter(pk=target.pk).update(first_name="Yuri")
    words = visitor.send(outcome="approve", reason="looks good", status=409)
    assert "Changed since you opened it" in words
    assert "First name: Xenia → Yuri" in words
    assert "looks good" in words
    assert not Vote.objects.exists()
    assert "You approved this" in visitor.send(outcome="approve")
    assert Vote.objects.get(standing=True).reason == "looks good"


def test_who_saw_on_the_page_what_has_changed_decides_about_it_at_once(ann: User) -> None:
    target = User.objects.create_user("target", first_name="Xenia")
    visitor = Visitor(ask(assignees=["ann"], about="target"), ann)
    User.objects.filter(pk=target.pk).update(first_name="Yuri")
    words = visitor.open()
    assert "Changed since this was asked for" in words
    assert "Yuri" in words
    assert "You approved this" in visitor.send(outcome="approve")


def test_who_has_not_seen_the_requesters_answer_decides_once_they_have(ann: User, ben: User) -> None:
    review = ask(assignees=["ann"], requester="ben")
    actions.request_info(review, "Which account?", actor=ann)
    visitor = Visitor(review, ann)
    visitor.open()
    actions.answer_info(review, "Account 4711", actor=ben)
    words = visitor.send(outcome="approve", status=409)
    assert "Changed since you opened it" in words
    assert "Account 4711" in words
    assert "You approved this" in visitor.send(outcome="approve")


def test_a_form_without_what_was_shown_decides_nothing(ann: User) -> None:
    visitor = Visitor(ask(assignees=["ann"]), ann)
    visitor.open()
    visitor.send(outcome="approve", version=None, status=409)
    visitor.send(outcome="approve", version="-1", status=409)
    assert not Vote.objects.exists()


def test_a_reason_that_is_needed_is_asked_for_at_its_field(ann: User) -> None:
    visitor = Visitor(ask(assignees=["ann"], presets=["No receipt", "Too late"]), ann)
    visitor.open()
    assert "Write why, or choose a reason." in visitor.send(outcome="reject", status=422)
    visitor.send(**{"preset-reject": "1"}, reason="by far", outcome="reject")
    assert Vote.objects.get().reason == "Too late\nby far"


def test_errors_stand_at_their_fields_and_the_rest_is_kept(ann: User) -> None:
    review = ask(assignees=["ann"], schema=SCHEMA)
    visitor = Visitor(review, ann)
    visitor.open()
    words = visitor.send(outcome="approve", data__amount="0", reason="as agreed", status=422)
    assert "One thing needs you" in words
    assert "as agreed" in words
    words = visitor.send(outcome="approve", data__amount="many", status=422)
    assert "One thing needs you" in words
    visitor.send(add="data/lines", data__amount="7", status=200)
    assert not Vote.objects.exists()
    visitor.send(outcome="approve", data__lines__0__part="KX-1")
    drain()
    assert_done(review.instance_id, {"outcome": "approve", "data": {"amount": 7, "lines": [{"part": "KX-1"}]}})
    assert Vote.objects.get().reason == "as agreed"


def test_saying_no_needs_no_data(ann: User) -> None:
    visitor = Visitor(ask(assignees=["ann"], schema=SCHEMA), ann)
    visitor.open()
    assert "You rejected this" in visitor.send(outcome="reject")


@pytest.mark.parametrize("reason", ["\x00", "a" * 4001])
def test_a_reason_that_cannot_be_kept_is_refused_at_its_field(ann: User, reason: str) -> None:
    visitor = Visitor(ask(assignees=["ann"]), ann)
    visitor.open()
    visitor.send(outcome="approve", reason=reason, status=422)
    assert not Vote.objects.exists()


def test_an_answer_that_there_is_not_decides_nothing(ann: User) -> None:
    visitor = Visitor(ask(assignees=["ann"]), ann)
    visitor.open()
    assert "Use one of the buttons" in visitor.send(outcome="aprove", reason="kept", status=422)
    assert "Use one of the buttons" in visitor.send(reason="kept", status=422)
    assert not Vote.objects.exists()


def test_what_the_projects_own_code_refuses_is_told(ann: User) -> None:
    visitor = Visitor(ask(assignees=["ann"], fails=True), ann)
    visitor.open()
    words = visitor.send(outcome="approve", reason="kept", status=409)
    assert "no such account" in words
    assert "kept" in words
    assert not Vote.objects.exists()


def test_what_people_wrote_is_never_markup(ann: User, ben: User) -> None:
    review = ask(assignees=["ann"], requester="ben", title=HOSTILE[:200])
    actions.request_info(review, HOSTILE, actor=ann)
    actions.comment(review, HOSTILE, actor=ben)
    for user in (ann, ben):
        visitor = Visitor(review, user)
        visitor.open()
        visitor.send(do="comment", text=HOSTILE, reason=HOSTILE, answer=HOSTILE, status=200)


# --- high risk --------------------------------------------------------------------------------------------


def test_high_risk_takes_a_reason_and_a_look(ann: User) -> None:
    visitor = Visitor(ask(assignees=["ann"], risk="high"), ann)
    visitor.open()
    words = visitor.send(outcome="approve", reason="checked it", status=422)
    assert "look at what changes, then decide" in words
    assert "Write why" in visitor.send(outcome="approve", saw="1", reason="", status=422)
    assert "You approved this" in visitor.send(outcome="approve", saw="1", reason="checked it")


@pytest.fixture
def asking_again(settings: Any) -> None:
    settings.APPROVALS = {"REAUTHENTICATE": True}


@pytest.mark.usefixtures("asking_again")
def test_high_risk_takes_the_password_where_the_site_wants_it(ann: User) -> None:
    visitor = Visitor(ask(assignees=["ann"], risk="high"), ann)
    visitor.open()
    given = {"outcome": "approve", "saw": "1", "reason": "checked it"}
    assert "enter your password again" in visitor.send(**given, status=403)
    words = visitor.send(**given, password="ben's own", status=403)
    assert "That is not your password" in words
    assert "checked it" in words
    assert visitor.page is not None
    assert visitor.page.send()["password"] == ""
    assert not Vote.objects.exists()
    assert "You approved this" in visitor.send(**given, password="ann's own")


@pytest.mark.usefixtures("asking_again")
def test_saying_no_takes_no_password(ann: User) -> None:
    visitor = Visitor(ask(assignees=["ann"], risk="high"), ann)
    visitor.open()
    assert "You rejected this" in visitor.send(outcome="reject", reason="no")


@pytest.mark.usefixtures("asking_again")
def test_a_password_cannot_be_guessed(ann: User) -> None:
    visitor = Visitor(ask(assignees=["ann"], risk="high"), ann)
    visitor.open()
    given = {"outcome": "approve", "saw": "1", "reason": "checked it"}
    for guess in range(TRIES):
        visitor.send(**given, password=f"guess {guess}", status=403)
    assert "Too many tries" in visitor.send(**given, password="ann's own", status=429)
    assert not Vote.objects.exists()
    cache.clear()  # counted in the database: no process, and no cache, forgets
    visitor.send(**given, password="ann's own", status=429)
    advance("15m")
    visitor.send(**given, password="ann's own")


@pytest.mark.usefixtures("asking_again")
def test_who_has_no_password_is_sent_to_the_inbox(ben: User) -> None:
    visitor = Visitor(ask(assignees=["ben"], risk="high"), ben)
    visitor.open()
    words = visitor.send(outcome="approve", saw="1", reason="checked it", password="x", status=403)
    assert "you have none here" in words


# --- saying something -------------------------------------------------------------------------------------


def test_a_comment_is_written_and_can_be_read(ann: User) -> None:
    visitor = Visitor(ask(assignees=["ann"]), ann)
    visitor.open()
    assert "Is this within budget?" in visitor.send(do="comment", text="Is this within budget?")
    assert [(one.kind, one.user_id) for one in Comment.objects.all()] == [("comment", ann.pk)]
    assert "Write something first" in visitor.send(do="comment", text="  ", status=422)


def test_what_was_typed_elsewhere_on_the_page_survives_a_comment(ann: User) -> None:
    visitor = Visitor(ask(assignees=["ann"], schema=SCHEMA), ann)
    visitor.open()
    words = visitor.send(do="comment", text="A comment", reason="half a reason", data__amount="7", status=200)
    assert "still there" in words
    assert visitor.page is not None
    sent = visitor.page.send()
    assert (sent["reason"], sent["data/amount"], sent["text"]) == ("half a reason", "7", "")
    assert Comment.objects.count() == 1


def test_the_requester_answers_by_link_what_a_decider_asked_by_link(ann: User, ben: User) -> None:
    review = ask(assignees=["ann"], requester="ben")
    decider, requester = Visitor(review, ann), Visitor(review, ben)
    decider.open()
    decider.send(do="ask", text="Which account?")
    assert "You were asked Which account?" in requester.open()
    assert "Write something first" in requester.send(do="answer", answer="", status=422)
    words = requester.send(do="answer", answer="Account 4711")
    assert "You were asked" not in words
    assert "Account 4711" in decider.open()
    decider.send(outcome="approve")


def test_nobody_else_answers_for_the_requester(ann: User, ben: User) -> None:
    review = ask(assignees=["ann"], requester="ben")
    actions.request_info(review, "Which account?", actor=ann)
    visitor = Visitor(review, ann)
    visitor.open()
    assert "Only who asked for this can answer" in visitor.send(do="answer", answer="4711", status=403)
    assert "Only who asked for this can withdraw" in visitor.send(do="withdraw", status=403)
    assert "Only who asked for this can remind" in visitor.send(do="nudge", status=403)


def test_the_requester_sees_how_it_stands_and_reminds_those_asked_once_in_a_while(ann: User, ben: User) -> None:
    group = Group.objects.create(name="Finance")
    ann.groups.add(group)
    review = ask(groups=["Finance"], requester="ben")
    visitor = Visitor(review, ben)
    assert "Waiting for Finance since" in visitor.open()
    assert visitor.list_buttons() == []
    visitor.send(do="nudge")
    assert LedgerEvent.objects.filter(data__what="nudged", data__door="link").exists()
    assert "You can do it again " in visitor.send(do="nudge", status=409)


def test_the_requester_withdraws(ann: User, ben: User) -> None:
    review = ask(assignees=["ann"], requester="ben")
    visitor = Visitor(review, ben)
    visitor.open()
    assert "You withdrew this" in visitor.send(do="withdraw", withdrawal="Not needed any more")
    assert "What you sent was not taken" in visitor.send(do="withdraw", status=410)


# --- language, logs, failures -----------------------------------------------------------------------------


def test_the_page_speaks_the_language_and_tells_the_time_of_its_user(ann: User) -> None:
    Preference.objects.create(user=ann, language="de", time_zone="Asia/Tokyo")
    review = ask(assignees=["ann"], schema={"type": "boolean", "title": "Ok"}, due="30d")
    visitor = Visitor(review, ann)
    answer = visitor.client.get(visitor.at, headers={"Accept-Language": "es"})
    assert '<html lang="de"' in answer.text
    assert "+09:00" in answer.text


def test_without_a_choice_it_speaks_the_browsers_language(ann: User) -> None:
    visitor = Visitor(ask(assignees=["ann"]), ann)
    assert '<html lang="es"' in visitor.client.get(visitor.at, headers={"Accept-Language": "es"}).text


def test_no_log_line_holds_the_token(ann: User, caplog: Any, monkeypatch: pytest.MonkeyPatch, settings: Any) -> None:
    settings.DEBUG_PROPAGATE_EXCEPTIONS = False
    review = ask(assignees=["ann"], risk="high")
    visitor = Visitor(review, ann)
    visitor.open()
    canary = visitor.token
    for name in ("approvals", "workflows", "django"):
        monkeypatch.setattr(logging.getLogger(name), "propagate", True)
    with caplog.at_level(logging.DEBUG):
        visitor.send(outcome="approve", status=422)
        visitor.client.put(visitor.at)
        visitor.client.get(visitor.at[:-3] + "/")
        visitor.client.get(visitor.at + "/")
        monkeypatch.setattr("approvals.web.request.link_view.make_visit", break_down)
        assert visitor.client.get(visitor.at).status_code == 500
        answer = visitor.client.post(visitor.at, {"reason": "keep me", "password": "ann's own", "outcome": "approve"})
        assert answer.status_code == 500
        assert "keep me" in answer.text
        assert "ann&#x27;s own" not in answer.text
        assert "/approvals/link failed" in caplog.text
    told = caplog.text + "".join(str(vars(one)) for one in caplog.records if one.name != "django.db.backends")
    for secret in (canary, canary[:40], "ann's own"):
        assert secret not in told
        assert secret not in answer.text


def break_down(request: Any, visitor: Any) -> None:
    raise RuntimeError(f"what stands in {request.path}")


def test_without_a_database_the_page_says_so_and_keeps_what_was_typed(ann: User, monkeypatch: Any) -> None:
    visitor = Visitor(ask(assignees=["ann"]), ann)
    visitor.open()

    def lose(token: str) -> None:
        raise OperationalError("gone")

    with monkeypatch.context() as patched:
        patched.setattr("approvals.web.request.link_view.read_link", lose)
        words = visitor.send(outcome="approve", reason="keep me", status=503)
    assert "Not available right now" in words
    assert "keep me" in words
    assert "You approved this" in visitor.send()


def test_a_body_that_is_no_form_is_refused(ann: User) -> None:
    visitor = Visitor(ask(assignees=["ann"]), ann)
    answer = visitor.client.post(visitor.at, b'{"outcome": "approve"}', content_type="application/json")
    assert answer.status_code == 403
    assert not Vote.objects.exists()


def test_a_link_with_more_parameters_than_django_reads_is_refused_and_does_nothing(ann: User) -> None:
    review = ask(assignees=["ann"])
    visitor = Visitor(review, ann)
    many = "?" + "&".join(f"p{n}=1" for n in range(1_001))
    assert "That could not be read" in visitor.open(many, status=400)
    for method in ("get", "post"):
        assert getattr(visitor.client, method)(visitor.at + many).status_code in (400, 403)
    assert not Vote.objects.exists()
