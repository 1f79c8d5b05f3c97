"""One request in the inbox: the page and the pane, what their forms do, and what refuses them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from approvals import Outcome, decide
from approvals.actions import actions
from approvals.deciding.timers import work
from approvals.models import Comment, Preference, Presence, Review, Snooze, Vote
from approvals.web.inbox.presence import list_lookers, look
from tests.support.request_page import Desk, tell
from tests.support.review_calls import again, ask, fail_always, make_person, start
from workflows.clock import read_now
from workflows.models import LedgerEvent, Workspace
from workflows.testing import advance, assert_done, drain

pytestmark = pytest.mark.django_db


@pytest.fixture
def ann() -> Desk:
    return Desk(make_person("ann", "finance"))


@pytest.fixture
def ben() -> Desk:
    return Desk(make_person("ben", "finance"))


# --- who sees it --------------------------------------------------------------------------------------------


def test_a_stranger_is_led_to_the_login_and_a_script_is_told() -> None:
    make_person("ann", "finance")
    review, client = ask(groups=["finance"]), Client()
    assert client.get(f"/approvals/{review.pk}/").status_code == 302
    for answer in (
        client.get(f"/approvals/{review.pk}/", headers={"HX-Request": "true"}),
        client.post(f"/approvals/{review.pk}/", {"outcome": "approve"}),
    ):
        assert answer.status_code == 401
        assert "no longer logged in" in answer.text
    assert Vote.objects.count() == 0


def test_what_is_not_theirs_is_not_there(ann: Desk) -> None:
    lea = Desk(make_person("lea", "legal"))
    review = ask(groups=["finance"])
    missing = lea.client.get("/approvals/c4ca4238-a0b9-2382-0dcc-509a6f75849b/")
    foreign = lea.open(review, status=404)
    assert foreign.text == missing.text
    for fields in ({"outcome": "approve", "version": "1"}, {"do": "claim"}, {"do": "comment", "text": "x"}):
        nowhere = lea.client.post("/approvals/c4ca4238-a0b9-2382-0dcc-509a6f75849b/", fields)
        assert lea.post(review, part=False, status=404, **fields).text == nowhere.text
    assert Vote.objects.count() + Comment.objects.count() == 0


def test_looking_decides_nothing_but_says_who_looks(ann: Desk, ben: Desk) -> None:
    review = ask(groups=["finance"])
    before = (again(review).version, LedgerEvent.objects.count())
    for method in (ann.client.get, ann.client.head):
        assert method(f"/approvals/{review.pk}/?outcome=approve&do=claim").status_code == 200
    assert ann.client.options(f"/approvals/{review.pk}/").status_code == 405
    assert (again(review).version, LedgerEvent.objects.count()) == before
    assert "Ann" in ben.open(review).context["looking"]
    assert ben.open(review, part=True).context["looking"] == ("Ann",)
    assert ann.open(review).context["looking"] == ("Ben",)


def test_a_page_that_is_fetched_ahead_is_not_looked_at(ann: Desk) -> None:
    review = ask(groups=["finance"])
    ann.client.get(f"/approvals/{review.pk}/", headers={"Sec-Purpose": "prefetch;prerender"})
    assert Presence.objects.count() == 0


def test_who_stops_looking_is_gone_after_a_while(ann: Desk, ben: Desk) -> None:
    review = ask(groups=["finance"])
    look(review.pk, ann.user)
    assert list_lookers(review.pk, ben.user) == ("Ann",)
    advance("1m")
    assert list_lookers(review.pk, ben.user) == ()
    advance("2h")
    look(review.pk, ben.user)
    assert list(Presence.objects.values_list("user__username", flat=True)) == ["ben"]


# --- deciding -----------------------------------------------------------------------------------------------


def test_a_decision_can_be_undone_for_a_while_and_is_then_carried_out(ann: Desk) -> None:
    instance = start({"groups": ["finance"]})
    review = Review.objects.get(instance=instance)
    told = tell(ann.send(review, outcome="approve"))
    assert told["id"] == str(review.pk)
    assert told["undo"] is True
    assert told["seconds"] == 8
    assert told["told"] == "“Approve”: Pay the invoice."
    drain()
    assert again(review).open
    advance("9s")
    work()
    drain()
    assert_done(instance, {"outcome": "approve", "actor": f"user:{ann.user.pk}"})


def test_undo_takes_it_back(ann: Desk) -> None:
    review = ask(groups=["finance"])
    ann.send(review, outcome="approve")
    told = tell(ann.post(review, do="undo"))
    assert (told["told"], told["undo"]) == ("Undone. Nothing was carried out.", False)
    advance("1m")
    work()
    assert again(review).outcome == ""
    assert ann.open(review).context["card"].may_decide


def test_without_a_script_the_page_leads_back_to_itself(ann: Desk) -> None:
    review = ask(groups=["finance"])
    answer = ann.send(review, part=False, status=303, query="?view=today", outcome="approve")
    assert answer["Location"] == f"/approvals/{review.pk}/?view=today"
    page = ann.open(review)
    assert page.context["undo"]["seconds"] in (7, 8)
    assert "Undo" in page.text


def test_a_vote_that_is_not_the_last_says_so(ann: Desk) -> None:
    review = ask(groups=["finance"], quorum=2)
    told = tell(ann.send(review, outcome="approve"))
    assert told["told"] == "“Approve” noted: Pay the invoice. Others still have to decide."
    assert told["undo"] is False


def test_a_single_key_never_decides_what_is_of_high_risk(ann: Desk) -> None:
    review = ask(groups=["finance"], risk="high")
    fields: Any = {"outcome": "approve", "reason": "checked", "saw": "1"}
    page = ann.send(review, status=403, key="1", **fields)
    assert "single key" in page.text
    assert "checked" in page.text
    assert Vote.objects.count() == 0
    told = tell(ann.send(review, **fields))
    assert told["undo"] is False
    assert not again(review).open


def test_high_risk_wants_the_difference_seen_and_a_reason(ann: Desk) -> None:
    review = ask(groups=["finance"], risk="high", subject=ann.user, change={"first_name": "Anna"})
    page = ann.send(review, status=422, outcome="approve", reason="ok")
    assert page.context["typed"].saw_error
    page = ann.send(review, status=422, outcome="approve", saw="1")
    assert page.context["typed"].reason_error == "Write why, or choose a reason."
    assert Vote.objects.count() == 0


def test_who_has_no_password_here_decides_high_risk_after_a_fresh_login(ann: Desk, settings: Any) -> None:
    settings.APPROVALS = {"REAUTHENTICATE": True}
    ann.user.set_unusable_password()
    ann.user.last_login = read_now() - timedelta(hours=1)
    ann.user.save()
    ann.client.force_login(ann.user)
    review = ask(groups=["finance"], risk="high")
    User.objects.filter(pk=ann.user.pk).update(last_login=read_now() - timedelta(hours=1))
    given = {"outcome": "approve", "reason": "Checked", "saw": "1"}
    told = ann.send(review, status=403, **given).text
    assert "it takes a fresh login: log out, log in, and decide within 15 minutes." in told
    assert "Checked</textarea>" in told
    User.objects.filter(pk=ann.user.pk).update(last_login=read_now() - timedelta(minutes=1))
    ann.send(review, **given)
    assert again(review).outcome == "approve"


def test_a_password_is_asked_for_where_there_is_one_however_fresh_the_login_is(ann: Desk, settings: Any) -> None:
    settings.APPROVALS = {"REAUTHENTICATE": True}
    User.objects.filter(pk=ann.user.pk).update(last_login=read_now())
    review = ask(groups=["finance"], risk="high")
    User.objects.get(pk=ann.user.pk)
    ann.user.set_password("secret")
    ann.user.save()
    ann.client.force_login(ann.user)
    ann.send(review, status=403, outcome="approve", reason="Checked", saw="1")
    ann.send(review, outcome="approve", reason="Checked", saw="1", password="secret")
    assert again(review).outcome == "approve"


def test_saying_no_takes_neither_a_look_nor_a_password_whatever_it_is_called(ann: Desk) -> None:
    def list_gated(*outcomes: Any) -> list[str]:
        page = ann.open(ask(groups=["finance"], risk="high", outcomes=outcomes))
        return re.findall(r'name="outcome" value="(\w+)"[^>]* data-gated', page.text)

    decline, delete = Outcome("decline", tone="negative"), Outcome("delete", tone="negative")
    assert list_gated("approve", decline) == ["approve"]
    assert list_gated("approve", "request_changes", "reject") == ["approve"]
    # A red button may well do something, where it is not the last one.
    assert list_gated("approve", delete, decline) == ["approve", "delete"]
    review = ask(groups=["finance"], risk="high", outcomes=("approve", decline))
    ann.send(review, outcome="decline", reason="Not ours")
    assert again(review).outcome == "decline"


def test_two_decide_at_once_and_the_second_sees_who_was_first(ann: Desk, ben: Desk) -> None:
    review = ask(groups=["finance"])
    shown = ann.open(review).context["card"]
    decide(review, "reject", actor=ben.user, reason="Not in the budget")
    page = ann.post(review, status=410, outcome="approve", version=shown.version, seen=shown.seen, reason="I looked")
    assert "Ben rejected this" in page.text
    assert "I looked" in page.text
    assert Vote.objects.count() == 1


def test_a_changed_subject_is_shown_before_it_can_be_decided(ann: Desk) -> None:
    lea = make_person("lea")
    review = ask(groups=["finance"], subject=lea, change={"first_name": "Zoe"})
    shown = ann.open(review).context["card"]
    User.objects.filter(pk=lea.pk).update(first_name="Leonie")
    page = ann.post(review, status=409, outcome="approve", version=shown.version, seen=shown.seen, reason="typed")
    assert "Changed since you opened it" in page.text
    assert "Leonie" in page.text
    assert "typed" in page.text
    assert Vote.objects.count() == 0


def test_who_may_not_reads_the_rule(ann: Desk) -> None:
    review = ask(groups=["finance"], requester=ann.user)
    assert "because you asked for this (four eyes)" in ann.open(review).text
    ann.send(review, status=403, outcome="approve")
    assert Vote.objects.count() == 0


def test_what_the_schema_refuses_stands_at_the_field_with_what_was_typed(ann: Desk) -> None:
    schema = {"type": "object", "required": ["amount"], "properties": {"amount": {"type": "integer", "minimum": 5}}}
    review = ask(groups=["finance"], schema=schema)
    typed: Any = {"outcome": "approve", "data/amount": "4", "reason": "because"}
    page = ann.send(review, status=422, **typed)
    assert 'value="4"' in page.text
    assert "because" in page.text
    assert 'aria-invalid="true"' in page.text
    assert Vote.objects.count() == 0


@dataclass
class Address:
    street: str = ""
    zip: str = ""
    city: str = ""


@dataclass
class Check:
    receipt: bool
    payment_days: int = 14
    note: str = ""
    address: Address = field(default_factory=Address)


def test_a_form_has_its_fields_in_the_order_in_which_they_were_written(ann: Desk) -> None:
    review = ask(groups=["finance"], schema=Check)
    page = ann.open(review).text
    shown = list(dict.fromkeys(re.findall(r'name="data/([a-z_/]+)"', page)))
    assert shown == ["receipt", "payment_days", "note", "address/street", "address/zip", "address/city"]
    assert "Payment days" in page


def test_a_form_that_is_not_ours_does_nothing_and_loses_nothing(ann: Desk) -> None:
    review = ask(groups=["finance"])
    client = Client(enforce_csrf_checks=True)
    client.force_login(ann.user)
    answer = client.post(f"/approvals/{review.pk}/", {"outcome": "approve", "version": "1", "reason": "my words"})
    assert answer.status_code == 403
    assert "my words" in answer.text
    assert Vote.objects.count() == 0
    token = client.cookies["csrftoken"].value
    fields = {"outcome": "approve", "version": "1", "csrfmiddlewaretoken": token}
    assert client.post(f"/approvals/{review.pk}/", fields).status_code == 303
    assert Vote.objects.count() == 1


# --- the other deeds ----------------------------------------------------------------------------------------


def test_claim_and_release(ann: Desk, ben: Desk) -> None:
    review = ask(groups=["finance"])
    assert tell(ann.post(review, do="claim"))["told"] == "It is yours now."
    assert again(review).claimed_by == ann.user
    assert "claimed" in ben.post(review, status=409, do="claim").text
    ann.post(review, do="release")
    assert again(review).claimed_by is None


def test_comment_ask_and_answer(ann: Desk) -> None:
    zoe = Desk(make_person("zoe"))
    review = ask(groups=["finance"], requester=zoe.user)
    ann.post(review, do="comment", text="Looks fine")
    assert "Looks fine" in ann.open(review).text
    assert ann.post(review, status=422, do="comment", text=" ").context["typed"].said_errors == {
        "text": "Write something first."
    }
    ann.post(review, do="ask", text="Which account?")
    assert zoe.open(review).context["question"] == "Which account?"
    zoe.post(review, do="answer", answer="The main one")
    assert [one.kind for one in Comment.objects.order_by("pk")] == ["comment", "question", "answer"]


def test_a_comment_leaves_what_else_was_typed_on_the_page(ann: Desk) -> None:
    review = ask(groups=["finance"])
    page = ann.post(review, do="comment", text="Looks fine", reason="half a reason")
    assert "half a reason" in page.text
    assert "still there" in page.text


@pytest.mark.parametrize("value", ["later", "tomorrow", "monday", "week"])
def test_snooze_and_back(ann: Desk, value: str) -> None:
    review = ask(groups=["finance"])
    ann.post(review, do="snooze", until=value)
    until = Snooze.objects.get().until
    assert timedelta(hours=1) < until - read_now() <= timedelta(days=7, hours=8)
    assert Review.objects.for_user(ann.user).count() == 0
    ann.post(review, do="unsnooze")
    assert Review.objects.for_user(ann.user).count() == 1


def test_snoozing_until_never_is_refused(ann: Desk) -> None:
    review = ask(groups=["finance"])
    page = ann.post(review, status=422, do="snooze", until="never")
    assert page.context["typed"].said_errors == {"until": "Choose until when."}


def test_hand_on(ann: Desk, ben: Desk) -> None:
    lea = make_person("lea", "finance")
    make_person("customer")
    review = ask(assignees=["ann"])
    assert ann.open(review).context["colleagues"] == (("ben", "Ben"), ("lea", "Lea"))
    assert ("lea", "Lea") in ann.open(review).context["colleagues"]
    page = ann.post(review, status=422, do="delegate", to="nobody", handing="please")
    assert page.context["typed"].said_errors == {"to": "There is nobody of that name here. Choose somebody else."}
    assert page.context["typed"].said["handing"] == "please"
    ann.post(review, do="delegate", to="lea", handing="please")
    assert Review.objects.for_user(lea).count() == 1


def test_whoever_is_not_in_the_list_is_handed_it_by_their_login_name(ann: Desk) -> None:
    zoe = make_person("zoe")
    review = ask(assignees=["ann"])
    assert "zoe" not in ann.client.get(f"/approvals/{review.pk}/colleagues/").text
    page = ann.post(review, status=422, do="delegate", whom="zoë", handing="please")
    assert 'value="zoë"' in page.text
    ann.post(review, do="delegate", whom=" zoe ", handing="please")
    assert Review.objects.for_user(zoe).count() == 1


def test_handing_on_to_who_is_asked_too_leads_back_to_the_list(ann: Desk, ben: Desk) -> None:
    review = ask(assignees=["ann", "ben"])
    told = tell(ann.post(review, do="delegate", to="ben"))
    assert (told["told"], told["left"]) == ("Handed on.", True)
    assert Review.objects.for_user(ben.user).count() == 1
    other = ask(assignees=["ann", "ben"])
    assert ann.post(other, part=False, status=303, do="delegate", to="ben")["Location"] == "/approvals/"


@pytest.mark.parametrize("part", [True, False])
def test_what_was_typed_for_what_asks_others_now_is_given_back(ann: Desk, part: bool) -> None:
    review = ask(groups=["finance"])
    ann.user.groups.clear()
    fields: Any = {"outcome": "approve", "version": "1", "reason": "I looked\u202e", "password": "s3cret"}
    page = ann.post(review, part=part, status=404, **fields)
    assert "I looked" in page.text
    assert "\u202e" not in page.text
    assert "s3cret" not in page.text
    assert ("<html" in page.text) is not part


def test_colleagues_are_named_to_whoever_may_hand_on_and_to_nobody_else(ann: Desk) -> None:
    zoe = Desk(make_person("zoe"))
    make_person("lea", "finance")
    review = ask(assignees=["ann"], requester=zoe.user)
    assert "lea" in ann.client.get(f"/approvals/{review.pk}/colleagues/").text
    assert "lea" not in zoe.client.get(f"/approvals/{review.pk}/colleagues/").text
    assert Desk(make_person("eve")).client.get(f"/approvals/{review.pk}/colleagues/").status_code == 404


def test_nudge_and_withdraw_are_the_requesters(ann: Desk) -> None:
    zoe = Desk(make_person("zoe"))
    review = ask(groups=["finance"], requester=zoe.user)
    assert "Those asked were reminded." in tell(zoe.post(review, do="nudge"))["told"]
    assert "a moment ago" in zoe.post(review, status=409, do="nudge").text
    ann.post(review, status=403, do="withdraw")
    assert again(review).open
    zoe.post(review, do="withdraw", withdrawal="ordered twice")
    assert not again(review).open


# --- what it costs, and whom it speaks to --------------------------------------------------------------------


@pytest.mark.parametrize("part", [True, False])
def test_withdrawing_that_fails_in_code_of_the_project_is_told_and_keeps_what_was_typed(ann: Desk, part: bool) -> None:
    ben = Desk(make_person("ben"))
    outcomes = ("approve", "reject", "withdraw")
    review = ask(groups=["finance"], requester="ben", outcomes=outcomes, on_decision=fail_always)
    told = ben.send(review, part=part, status=409, do="withdraw", withdrawal="No longer needed").text
    assert "the books are closed" in told
    assert "No longer needed" in told
    assert again(review).open


def close_the_door(answer: Any, instance: Any) -> None:
    """With a second workspace, only members of the first see what is in it."""
    Workspace.objects.create(slug="second", name="Second")


@pytest.mark.parametrize("part", [True, False])
def test_a_decision_that_takes_the_request_out_of_their_sight_is_told_as_taken(
    ann: Desk, settings: Any, part: bool
) -> None:
    settings.APPROVALS = {"UNDO_SECONDS": 0}
    review = ask(groups=["finance"], on_decision=close_the_door)
    answer = ann.send(review, part=part, status=200 if part else 303, outcome="approve")
    assert again(review).outcome == "approve"
    if part:
        assert "holdpoint:done" in answer["HX-Trigger"]
    else:
        assert answer["Location"] == "/approvals/"
    ann.open(review, status=404)


def test_what_is_not_theirs_takes_as_many_statements_as_what_is_not_there(ann: Desk) -> None:
    theirs, nowhere = ask(assignees=[make_person("ben")]), uuid4()
    told: list[str] = []
    costs = []
    for id in (theirs.pk, nowhere):
        ann.client.get(f"/approvals/{id}/")
        with CaptureQueriesContext(connection) as heard:
            assert ann.client.get(f"/approvals/{id}/").status_code == 404
        told.append(heard.captured_queries[-1]["sql"].replace(id.hex, "…"))
        assert '"holdpoint_interaction"' in told[-1]
        costs.append(len(heard))
    assert told[0] == told[1]
    assert costs[0] == costs[1]


def test_it_costs_few_statements_however_much_is_on_it(ann: Desk, ben: Desk) -> None:
    review = ask(groups=["finance"], quorum=3, subject=ben.user, change={"first_name": "B"})
    for n in range(5):
        actions.comment(review, f"comment {n}", actor=ben.user)
    decide(review, "approve", actor=ben.user)
    ann.open(review, part=True)  # content types and templates are known from here on
    with CaptureQueriesContext(connection) as heard:
        ann.open(review, part=True)
    told = [one["sql"] for one in heard.captured_queries if not one["sql"].startswith(("SAVEPOINT", "RELEASE"))]
    assert len(told) <= 13, "\n\n".join(told)


def test_it_speaks_the_persons_language_in_their_time_zone(ann: Desk) -> None:
    Preference.objects.create(user=ann.user, language="de", time_zone="Asia/Tokyo")
    review = ask(groups=["finance"])
    page = ann.open(review)
    assert '<html lang="de"' in page.text
    assert "+09:00" in page.text


def test_the_policy_lets_nothing_of_others_run(ann: Desk) -> None:
    page = ann.open(ask(groups=["finance"]))
    policy = page["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self';" in policy
    assert "unsafe" not in policy
    assert page["X-Frame-Options"] == "DENY"
    assert " style=" not in page.text
    assert "<style" not in page.text
    assert "javascript:" not in page.text


def test_a_vote_among_several_can_be_taken_back_on_the_page(ann: Desk) -> None:
    review = ask(groups=["finance"], quorum=2)
    assert 'value="undo"' not in ann.open(review).text
    ann.send(review, outcome="approve")
    page = ann.open(review)
    assert page.context["may_undo"]
    assert 'value="undo"' in page.text
    ann.post(review, do="undo")
    assert not Vote.objects.filter(standing=True).exists()
    assert 'value="undo"' not in ann.open(review).text


# --- the same twice: a second tap, or a second tab ------------------------------------------------------------


@pytest.mark.parametrize("passed", ["", "9s"], ids=["while it can be undone", "when it is carried out"])
@pytest.mark.parametrize("part", [True, False])
def test_the_same_decision_sent_twice_is_answered_twice_alike(ann: Desk, part: bool, passed: str) -> None:
    review = ask(groups=["finance"])
    shown = ann.open(review).context["card"]
    sent: Any = {"outcome": "approve", "reason": " As agreed ", "version": shown.version, "seen": shown.seen}
    first = ann.post(review, part=part, status=200 if part else 303, **sent)
    before = LedgerEvent.objects.count()
    if passed:
        advance(passed)
        work()
        drain()
        before = LedgerEvent.objects.count()
    second = ann.post(review, part=part, status=first.status_code, **sent)
    if part:
        assert tell(second)["told"] == tell(first)["told"]
        assert tell(second)["undo"] is not bool(passed)
    else:
        assert second["Location"] == first["Location"]
        assert "You answered “Approve”" in ann.open(review).text or passed
    assert "was not taken" not in second.text
    assert Vote.objects.count() == 1
    assert LedgerEvent.objects.count() == before


def test_a_vote_among_several_sent_twice_counts_once_and_is_no_mistake(ann: Desk) -> None:
    review = ask(groups=["finance"], quorum=2)
    first, second = (tell(ann.send(review, outcome="approve")) for _ in range(2))
    assert second == first
    assert Vote.objects.count() == 1


@pytest.mark.parametrize("changes", [{"outcome": "reject"}, {"reason": "For another reason"}, {"data/amount": "41"}])
def test_something_else_sent_after_a_decision_is_told_and_kept(ann: Desk, changes: dict[str, str]) -> None:
    schema = {"type": "object", "required": ["amount"], "properties": {"amount": {"type": "integer"}}}
    review = ask(groups=["finance"], schema=schema)
    sent: Any = {"outcome": "approve", "reason": "As agreed", "data/amount": "40"}
    ann.send(review, **sent)
    page = ann.send(review, status=409, **{**sent, **changes})
    assert "Nothing was decided" in page.text
    assert (changes.get("reason") or "As agreed") in page.text
    assert Vote.objects.get().data == {"amount": 40}


def test_what_was_undone_can_be_decided_again(ann: Desk) -> None:
    review = ask(groups=["finance"])
    ann.send(review, outcome="approve")
    ann.post(review, do="undo")
    ann.send(review, outcome="approve")
    assert Vote.objects.filter(standing=True).count() == 1
    assert again(review).outcome == "approve"


# --- other changes of the same row ------------------------------------------------------------------------


def test_a_card_names_other_changes_of_the_same_row_that_its_reader_may_see(ann: Desk, ben: Desk) -> None:
    about: dict[str, Any] = {"groups": ["finance"], "subject": ben.user}
    review = ask(title="Call him B", change={"first_name": "B"}, **about)
    other = ask(title="Call him C", change={"first_name": "C"}, **about)
    hidden = ask(title="Call him D", change={"first_name": "D"}, assignees=["ben"], subject=ben.user)
    ask(title="Praise him", **about)
    decide(ask(title="Call him E", change={"first_name": "E"}, **about), "reject", actor=ben.user)
    page = ann.open(review)
    assert [one.id for one in page.context["card"].rivals] == [other.pk]
    assert "Another change of <bdi>ben</bdi> waits" in page.text
    assert f'href="/approvals/{other.pk}/"' in page.text
    assert [one.id for one in ann.open(other).context["card"].rivals] == [review.pk]
    assert [one.id for one in ben.open(review).context["card"].rivals] == [hidden.pk, other.pk]
    decide(other, "reject", actor=ben.user)
    assert "Another change" not in ann.open(review).text


def test_looking_for_other_changes_costs_one_statement_and_only_where_something_would_change(
    ann: Desk, ben: Desk
) -> None:
    costs = {}
    for name, options in {"nothing": {}, "a change": {"change": {"first_name": "B"}}}.items():
        review = ask(groups=["finance"], subject=ben.user, **options)
        ann.open(review, part=True)
        with CaptureQueriesContext(connection) as heard:
            ann.open(review, part=True)
        costs[name] = [one["sql"] for one in heard.captured_queries if " LIMIT 100)" in one["sql"]]
    assert [len(sent) for sent in costs.values()] == [0, 1]
