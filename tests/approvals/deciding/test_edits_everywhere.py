"""An edit at every door: page, link, REST, admin, agents, many at once, and mails."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User

from approvals import decide
from approvals.mcp.agent_desk import open_desk
from approvals.models import Review, Vote
from approvals.notify.fan_out import expand_notices
from approvals.notify.messages.smtp import Postman
from approvals.notify.sending import send_messages
from approvals.rules.door import Door
from tests.support import link_pages
from tests.support.api_calls import problem
from tests.support.bulk_page import Browser
from tests.support.edited_values import ASKED, EDITED, FORM
from tests.support.link_pages import Visitor, site  # noqa: F401 (a fixture)
from tests.support.request_page import Desk
from tests.support.rest_reviews import login
from tests.support.review_admin import fill
from tests.support.review_calls import (
    again,
    answers,
    ask,
    list_standing,
    make_person,
    truth,  # noqa: F401 (a fixture)
)
from workflows import InvalidData
from workflows.testing import drain

pytestmark = pytest.mark.django_db

CHANGE = {"name": "value", "label": "Value", "before": "9,600", "after": "9,000"}


@pytest.fixture
def maya() -> User:
    return make_person("maya", "Legal", last_name="Lindqvist", email="maya@shop.example")


@pytest.fixture
def lena() -> User:
    return make_person("lena", "Legal", email="lena@shop.example")


def edit(maya: User, **options: Any) -> Review:
    """Maya has edited and approved."""
    review = ask(**{"groups": ["Legal"], "schema": FORM, "quorum": 2, **options})
    decide(review, "approve", actor=maya, data=EDITED, reason="On the phone")
    return review


def pick(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in CHANGE}


# --- pages --------------------------------------------------------------------------------------------------


def test_the_page_shows_the_edit_and_begins_with_it(maya: User, lena: User) -> None:
    review = edit(maya)
    desk = Desk(lena)
    page = " ".join(desk.open(review).text.split())
    assert "Maya Lindqvist answered with changes" in page
    assert 'value="9000"' in page
    assert "If you change them, everybody who agreed to that is asked again." in page
    assert "changed by Maya Lindqvist" in page
    desk.send(review, outcome="approve", **{"data/value": "9000", "data/months": "12"})
    assert [vote.data for vote in Vote.objects.filter(standing=True)] == [EDITED, EDITED]
    assert again(review).outcome == "approve"


def test_a_page_that_showed_the_earlier_data_is_told_and_takes_over_what_was_not_touched(
    maya: User, lena: User
) -> None:
    review = ask(groups=["Legal"], schema=FORM, quorum=2)
    desk = Desk(lena)
    seen = desk.open(review, part=True).context["card"].seen
    decide(review, "approve", actor=maya, data=EDITED)
    shown = {"version": "1", "seen": seen, "data/value": "9600", "data/months": "24", "reason": "kept"}
    page = desk.post(review, status=409, outcome="approve", **shown).text
    assert "Changed since you opened it" in page
    assert "Value: 9,600 → 9,000" in page
    assert 'value="9000"' in page  # left as it was shown: what is there now stands in it
    assert 'value="24"' in page  # typed: kept
    assert "kept" in page
    assert list_standing(review) == [(f"user:{maya.pk}", "approve")]


@pytest.mark.usefixtures("site")
def test_the_link_page_does_the_same(maya: User) -> None:
    ann = User.objects.create_user("ann", first_name="Ann", email="ann@shop.example")
    review = link_pages.ask(assignees=["ann", "maya"], quorum=2, schema=FORM)
    visitor = Visitor(review, ann)
    visitor.open()
    decide(review, "approve", actor=maya, data=EDITED)
    words = visitor.send(outcome="approve", status=409)
    assert "Value: 9,600 → 9,000" in words
    assert "Maya Lindqvist answered with changes" in words
    assert "You approved this" in visitor.send(outcome="approve")
    assert [vote.data for vote in Vote.objects.all()] == [EDITED, EDITED]


def test_in_the_admin_as_well(maya: User, client: Any) -> None:
    admin = User.objects.create_superuser("root", "root@shop.example", "x")
    review = ask(assignees=["root", "maya"], schema=FORM, quorum=2)
    client.force_login(admin)
    sent = fill(client, review, outcome="approve", **{"data/value": "9600", "data/months": "12"})
    decide(review, "approve", actor=maya, data=EDITED)
    url = f"/admin/holdpoint_approvals/review/{review.pk}/decide/"
    page = client.post(url, sent)
    assert page.status_code == 200
    assert "Maya Lindqvist answered with changes" in page.text
    assert 'value="9000"' in page.text
    sent = fill(client, review, outcome="approve", **{"data/value": "9000", "data/months": "12"})
    assert client.post(url, sent).status_code == 302
    assert again(review).outcome == "approve"
    page = client.get(f"/admin/holdpoint_approvals/review/{review.pk}/change/")
    assert "Value: 9,600 → 9,000" in page.text


def test_many_at_once_leave_out_what_somebody_has_filled_in(maya: User, lena: User) -> None:
    optional = {"type": "object", "properties": {"note": {"type": "string"}}}
    plain, edited = (ask(groups=["Legal"], schema=optional, quorum=2) for _ in range(2))
    browser = Browser(lena)
    browser.open_picked(plain, edited)
    assert sorted(browser.ticked) == sorted([str(plain.pk), str(edited.pk)])
    decide(edited, "approve", actor=maya, data={"note": "only with a deposit"})
    browser.press()
    assert Vote.objects.filter(review=plain, user=lena).exists()
    assert not Vote.objects.filter(review=edited, user=lena).exists()
    assert "It has a form to fill in: open this request to decide it on its own." in browser.open_picked(edited)
    assert browser.ticked == []


@pytest.mark.parametrize("data", [None, {}, {"note": "other"}])
def test_no_door_for_many_agrees_to_what_nobody_looked_at(maya: User, lena: User, data: Any) -> None:
    optional = {"type": ["object", "null"], "properties": {"note": {"type": "string"}}}
    review = ask(groups=["Legal"], schema=optional, quorum=2)
    decide(review, "approve", actor=maya, data={"note": "only with a deposit"})
    with pytest.raises(InvalidData):
        decide(review, "approve", actor=lena, data=data, version=2, door=Door("admin", via_bulk=True))
    assert decide(review, "reject", actor=lena, version=2, door=Door("admin", via_bulk=True)).state == "decided"


# --- mails --------------------------------------------------------------------------------------------------


def test_who_is_asked_again_gets_one_mail_with_the_difference(maya: User, lena: User, mailoutbox: Any) -> None:
    review = ask(groups=["Legal"], schema=FORM, quorum=2)
    decide(review, "approve", actor=lena, data=ASKED)
    expand_notices(100)
    send_messages(100, Postman())
    mailoutbox.clear()
    decide(review, "approve", actor=maya, data=EDITED, reason="On the phone")
    expand_notices(100)
    send_messages(100, Postman())
    [mail] = mailoutbox
    assert mail.to == ["lena@shop.example"]
    assert mail.subject == "Changed by Maya Lindqvist, please decide again: Pay the invoice"
    assert "> Value: 9,600 → 9,000" in mail.body
    assert "> On the phone" in mail.body
    assert "What your answer sets" in mail.body
    assert "Value: 9,000 (asked: 9,600)" in mail.body
    assert "9,000" in mail.alternatives[0][0]


def test_who_has_decided_again_meanwhile_gets_no_mail(maya: User, lena: User, mailoutbox: Any) -> None:
    review = ask(groups=["Legal"], schema=FORM, quorum=3)
    decide(review, "approve", actor=lena, data=ASKED)
    expand_notices(100)
    send_messages(100, Postman())
    mailoutbox.clear()
    decide(review, "approve", actor=maya, data=EDITED)
    decide(review, "approve", actor=lena, data=EDITED)
    expand_notices(100)
    send_messages(100, Postman())
    assert mailoutbox == []


def test_who_agreed_to_other_data_is_told_of_the_decision_made_without_them(
    maya: User, lena: User, mailoutbox: Any
) -> None:
    tom = make_person("tom", "Legal", email="tom@shop.example")
    review = ask(groups=["Legal"], schema=FORM, quorum=2)
    decide(review, "approve", actor=lena, data=ASKED)
    decide(review, "approve", actor=maya, data=EDITED)
    decide(review, "approve", actor=tom, data=EDITED)
    expand_notices(100)
    send_messages(100, Postman())
    [mail] = mailoutbox
    assert mail.to == ["lena@shop.example"]
    assert mail.subject == "Approved: Pay the invoice"
    assert "What was filled in" in mail.body
    assert "Value: 9,000 (asked: 9,600)" in mail.body


# --- programs -----------------------------------------------------------------------------------------------


def test_rest_shows_the_edit_and_agrees_by_version(maya: User, lena: User) -> None:
    review = edit(maya)
    told = login(lena).get(f"/v1/approvals/{review.pk}").json()
    assert told["data"] == EDITED
    assert (told["edit"]["by"], told["edit"]["reason"]) == ("Maya Lindqvist", "On the phone")
    assert [pick(one) for one in told["edit"]["changes"]] == [CHANGE]
    assert [pick(one) for one in told["timeline"][0]["changes"]] == [CHANGE]
    assert [pick(one) for one in told["settings"]][:1] == [CHANGE]
    sent = login(lena).post(f"/v1/approvals/{review.pk}/decide", {"outcome": "approve", "data": ASKED, "version": 1})
    assert problem(sent, 409, "stale-version")["difference"] == {"Value": ["9,600", "9,000"]}
    sent = login(lena).post(f"/v1/approvals/{review.pk}/decide", {"outcome": "approve", "version": 2})
    assert (sent.status_code, sent.json()["status"]) == (200, "decided")
    answer = login(lena).get(f"/v1/approvals/{review.pk}").json()["answer"]
    assert (answer["data"], [one["data"] for one in answer["decisions"]]) == (EDITED, [EDITED, EDITED])


def test_rest_without_a_version_votes_with_its_own_data(maya: User, lena: User) -> None:
    review = edit(maya)
    sent = login(lena).post(f"/v1/approvals/{review.pk}/decide", {"outcome": "approve", "data": ASKED})
    assert (sent.json()["status"], sent.json()["version"]) == ("open", 3)
    assert [vote.data for vote in Vote.objects.filter(standing=True)] == [ASKED]
    told = login(maya).get(f"/v1/approvals/{review.pk}").json()
    assert told["edit"]["fallen"] == "Maya Lindqvist"
    assert [one["void"] for one in told["timeline"]] == [False, True, False]


def test_an_agent_reads_the_edit_and_agrees_to_what_it_has_read(maya: User, lena: User) -> None:
    review = edit(maya)
    desk = open_desk("lena")
    told = desk.get(str(review.pk))
    assert (told["data"], told["version"]) == (EDITED, 2)
    assert desk.decide(str(review.pk), "approve", told["version"])["status"] == "decided"
    drain()
    assert answers[-1] is not None
    assert answers[-1].data == EDITED


def test_secrets_of_a_form_are_shown_nowhere(maya: User, lena: User) -> None:
    schema = {"type": "object", "properties": {"api_key": {"type": "string"}}, "required": ["api_key"]}
    review = ask(groups=["Legal"], schema=schema, quorum=2)
    decide(review, "approve", actor=maya, data={"api_key": "hunter2"})
    assert "hunter2" not in login(lena).get(f"/v1/approvals/{review.pk}").text
    sent = login(lena).post(f"/v1/approvals/{review.pk}/decide", {"outcome": "approve", "version": 2})
    assert sent.json()["status"] == "decided"
    assert "hunter2" not in login(lena).get(f"/v1/approvals/{review.pk}").text


# --- what a form does not show ------------------------------------------------------------------------------

KEYED = {
    "type": "object",
    "properties": {
        "host": {"type": "string"},
        "api_key": {"type": "string"},
        "phrase": {"type": "string", "format": "password"},
        "note": {"type": ["string", "null"]},
    },
    "required": ["host", "api_key", "phrase"],
}
FILLED = {"host": "a", "api_key": "hunter2", "phrase": "xyzzy", "note": None, "extra": [1]}
SHOWN = {"data/host": "a", "data/api_key": "", "data/phrase": "", "data/note": ""}


def test_a_page_never_shows_the_secrets_of_another_and_they_need_not_be_filled_in_again(maya: User, lena: User) -> None:
    review = ask(groups=["Legal"], schema=KEYED, quorum=2)
    decide(review, "approve", actor=maya, data=FILLED)
    page = Desk(lena).open(review).text
    assert "hunter2" not in page
    assert "xyzzy" not in page
    assert page.count("It is filled in. Left empty it stays as it is.") == 2
    assert "Maya Lindqvist filled this in" in page
    assert "changes; its value is secret" not in page  # it was given, not changed
    for name in ("api_key", "phrase"):
        [control] = re.findall(rf'<[^>]*name="data/{name}"[^>]*>', page)
        assert " required" not in control
    told = login(lena).get(f"/v1/approvals/{review.pk}").text
    assert "hunter2" not in told
    assert "xyzzy" not in told


def test_a_page_on_which_nothing_was_changed_agrees_also_to_what_its_form_cannot_hold(maya: User, lena: User) -> None:
    review = ask(groups=["Legal"], schema=KEYED, quorum=2)
    decide(review, "approve", actor=maya, data=FILLED)
    Desk(lena).send(review, outcome="approve", **SHOWN)
    assert again(review).outcome == "approve"
    assert [vote.data for vote in Vote.objects.filter(standing=True)] == [FILLED, FILLED]


def test_who_changes_one_field_on_a_page_keeps_the_rest(maya: User, lena: User) -> None:
    review = ask(groups=["Legal"], schema=KEYED, quorum=2)
    decide(review, "approve", actor=maya, data=FILLED)
    Desk(lena).send(review, outcome="approve", **SHOWN | {"data/host": "b", "data/phrase": "plugh"})
    [vote] = Vote.objects.filter(standing=True)
    assert vote.data == {**FILLED, "host": "b", "phrase": "plugh"}


def test_programs_that_send_back_what_they_were_shown_mean_what_stands_there(maya: User, lena: User) -> None:
    review = ask(groups=["Legal"], schema=KEYED, quorum=2)
    decide(review, "approve", actor=maya, data=FILLED)
    shown = login(lena).get(f"/v1/approvals/{review.pk}").json()
    sent = {"outcome": "approve", "version": shown["version"], "data": shown["data"]}
    assert login(lena).post(f"/v1/approvals/{review.pk}/decide", sent).json()["status"] == "decided"
    assert [vote.data for vote in Vote.objects.filter(standing=True)] == [FILLED, FILLED]


def test_the_admin_shows_what_a_vote_filled_in_without_its_secrets(maya: User, lena: User, client: Any) -> None:
    client.force_login(User.objects.create_superuser("root", "root@shop.example", "x"))
    review = ask(groups=["Legal"], schema=KEYED, quorum=2)
    decide(review, "approve", actor=maya, data=FILLED)
    decide(review, "approve", actor=lena, data={**FILLED, "host": "b"})
    for vote in Vote.objects.all():
        page = client.get(f"/admin/holdpoint_approvals/vote/{vote.pk}/change/")
        assert page.status_code == 200
        assert "⟨redacted⟩" in page.text
        assert not any(secret in page.text for secret in ("hunter2", "xyzzy"))
