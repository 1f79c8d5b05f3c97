"""What a mail says, in whose language, and when: one by one, threaded, or collected."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.test import Client
from hypothesis import given
from hypothesis import strategies as st

from approvals import Outcome, decide, undo
from approvals.access.personal_links import make_link
from approvals.actions import actions
from approvals.models import Delivery, Review
from approvals.notify.messages.mail import MAX_REQUESTS, Request, write_digest
from approvals.notify.preferences import find_language, find_zone
from approvals.notify.preferences import make_reader as read_reader
from approvals.notify.schedule import MAX_ATTEMPTS, SPREAD_SECONDS, find_next_try, find_slot
from tests.support.html_pages import HOSTILE
from tests.support.notices import (  # noqa: F401
    SITE,
    ask_quietly,
    find_html,
    list_deliveries,
    list_told,
    make_reader,
    prefer,
    site,
    take_mail,
)
from tests.support.review_calls import ask, make_person
from workflows.clock import read_now
from workflows.testing import advance, drain

pytestmark = pytest.mark.django_db


class Shown(HTMLParser):
    """A mail as a mail program shows it."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: set[str] = set()
        self.links: list[str] = []
        self.words = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name == "href"]
        assert "src" not in dict(attrs)

    def handle_data(self, data: str) -> None:
        self.words += data


# --- one mail ---------------------------------------------------------------------------------------------


def test_a_mail_says_what_happens_who_asked_until_when_and_what_then(settings: Any) -> None:
    make_reader("ann")
    make_person("ben", last_name="Okafor")
    target = User.objects.create_user("target", first_name="Xenia")
    review = ask(
        title="Rename the target",
        assignees=["ann"],
        requester="ben",
        subject=target,
        change={"first_name": "Zoe"},
        due="2h",
        evidence=[("Invoice", "https://shop.example/7"), ("Orders", 12), ("Scan", "/files/7.pdf")],
        risk="medium",
    )
    told = take_mail("ann")
    link = make_link(review, User.objects.get(username="ann"))
    for text in (told.body, " ".join(Shown(find_html(told)).words.split())):
        for words in (
            *("Hello Ann, please decide, it is due ", "Rename the target", "Ben Okafor asked for this."),
            *("If nobody decides: ", "Medium risk.", "Waiting for you since", "What changes", "Xenia", "Zoe"),
            *("Invoice", "Orders", "12", "please don’t forward this mail", "Times are in UTC"),
        ):
            assert words in text
    assert link in told.body
    assert "https://shop.example/7" in told.body
    assert f"{SITE}/files/7.pdf" in told.body
    shown = Shown(find_html(told))
    assert not {"script", "img", "link", "form", "iframe"} & shown.tags
    assert f"{link}?outcome=approve" in shown.links
    assert f"{link}?outcome=reject" in shown.links
    assert told.from_email == settings.DEFAULT_FROM_EMAIL
    assert told.extra_headers["Auto-Submitted"] == "auto-generated"


def test_every_button_leads_to_a_page_on_which_it_comes_first_and_no_link_decides() -> None:
    make_reader("ann")
    review = ask(assignees=["ann"], outcomes=("approve", Outcome("send_back", "Send it back"), "reject"))
    shown = Shown(find_html(take_mail("ann")))
    assert [part.partition("?")[2] for part in shown.links[:3]] == [
        "outcome=approve",
        "outcome=send_back",
        "outcome=reject",
    ]
    for link in shown.links:
        assert Client().get(link.removeprefix(SITE)).status_code == 200
        assert Client().head(link.removeprefix(SITE)).status_code == 200
    assert Review.objects.get(pk=review.pk).open


def test_what_others_wrote_can_be_no_header_no_markup_and_no_hidden_text() -> None:
    ann = make_reader("ann")
    make_reader("ben")
    User.objects.update(first_name="A\u202e\u200b\r\nBcc: evil@example.org")
    review = ask(title=f"Pay\r\nBcc: evil@example.org {HOSTILE[:100]}", assignees=["ann"], requester="ben")
    actions.request_info(review, f"{HOSTILE}\n.\nBcc: evil@example.org", actor=ann)
    drain()
    assert len(mail.outbox) == 2
    for told in mail.outbox:
        assert told.recipients() in (["ann@example.org"], ["ben@example.org"])
        raw = told.message().as_string()
        head = raw.partition("\n\n")[0]
        assert "\nBcc:" not in head
        assert not {"\r", "\n"} & set(told.subject)
        html = find_html(told)
        assert "<script>" not in html
        assert "<img" not in html
        assert "\u202e" not in told.subject + told.body + html
        assert "\u200b" not in told.subject + told.body + html


def test_a_mail_says_why_now() -> None:
    make_reader("ann")
    ask(assignees=["ann"], title="Refund Acme", why="The parcel <b>is lost</b>.")
    mail = take_mail("ann")
    assert "    Refund Acme\n\nThe parcel <b>is lost</b>.\n" in mail.body
    assert "The parcel <b>is lost</b>." in Shown(find_html(mail)).words
    assert "b" not in Shown(find_html(mail)).tags


def test_a_long_sentence_is_cut_in_the_subject_only() -> None:
    make_reader("ann")
    ask(title="Refund " + "very " * 55 + "much", assignees=["ann"])
    told = take_mail("ann")
    assert len(told.subject) <= 140
    assert told.subject.endswith("…")
    assert "very much" in told.body


def test_a_reminder_after_the_due_moment_says_so() -> None:
    make_reader("ann")
    ask(assignees=["ann"], due="1h", remind=["2h"])
    assert take_mail("ann").subject.startswith("Due ")
    advance("121m")
    told = take_mail("ann")
    assert told.subject == "Overdue: Pay the invoice"
    assert "still waits for you" in told.body


def test_what_is_secret_by_its_name_is_in_no_mail() -> None:
    make_reader("ann")
    ask(assignees=["ann"], request={"account": "4711", "api_key": "canary", "inner": {"password": "canary"}})
    told = take_mail("ann")
    assert "4711" in told.body
    assert "canary" not in told.body + find_html(told)


def test_replies_go_together_with_the_first_mail_about_a_request() -> None:
    ann = make_reader("ann")
    ben = make_reader("ben")
    review = ask(assignees=["ann"], requester="ben", remind=["1d"])
    first = take_mail("ann")
    assert "References" not in first.extra_headers
    advance("25h")
    reminder = take_mail("ann")
    id = first.extra_headers["Message-ID"]
    assert reminder.extra_headers["Message-ID"] != id
    assert (reminder.extra_headers["References"], reminder.extra_headers["In-Reply-To"]) == (id, id)
    actions.request_info(review, "Why?", actor=ann)
    drain()
    assert "References" not in take_mail("ben").extra_headers  # their own first
    actions.answer_info(review, "So.", actor=ben)
    drain()
    assert take_mail("ann").extra_headers["References"] == id


def test_the_sender_is_the_sites_choice(settings: Any) -> None:
    settings.APPROVALS = {"FROM_EMAIL": "Holdpoint <hp@example.org>"}
    make_reader("ann")
    ask(assignees=["ann"])
    assert take_mail("ann").from_email == "Holdpoint <hp@example.org>"


# --- language and time zone -------------------------------------------------------------------------------


def test_each_reads_in_their_own_language_and_time_zone(settings: Any) -> None:
    make_reader("ann", language="de", time_zone="Asia/Tokyo")
    make_reader("ben", language="fr-CA", time_zone="America/New_York")
    make_reader("cid")
    due = datetime(2031, 7, 15, 20, 30, tzinfo=UTC)
    ask(assignees=["ann", "ben", "cid"], due=due)
    html = {one.to[0]: find_html(one) for one in mail.outbox}
    body = {one.to[0]: one.body for one in mail.outbox}
    assert '<html lang="de"' in html["ann@example.org"]
    assert "16. Juli 2031" in body["ann@example.org"]
    assert "05:30 Uhr (JST)" in body["ann@example.org"]
    assert '<html lang="fr"' in html["ben@example.org"]
    assert "16:30 (EDT)" in body["ben@example.org"]
    assert '<html lang="en"' in html["cid@example.org"]
    assert "20:30 (UTC)" in body["cid@example.org"]


def test_a_language_and_a_time_zone_that_there_are_not_are_the_sites(settings: Any) -> None:
    settings.TIME_ZONE = "Europe/Berlin"
    make_reader("ann", language="xx-nowhere", time_zone="Mars/Olympus")
    ask(assignees=["ann"], due=datetime(2031, 7, 15, 20, 30, tzinfo=UTC))
    told = take_mail("ann")
    assert '<html lang="en"' in find_html(told)
    assert "22:30 (CEST)" in told.body


@pytest.mark.parametrize(("code", "found"), [("de", "de"), ("de-at", "de"), ("", ""), ("x", ""), ("../../etc", "")])
def test_languages_are_those_of_the_site(code: str, found: str) -> None:
    assert find_language(code) == found


@pytest.mark.parametrize(
    "name", ["", "nowhere", "../../etc/passwd", "/etc/passwd", "Europe", "\x00", "Europe/Berlin\x00"]
)
def test_what_is_no_time_zone_is_none(name: str) -> None:
    assert find_zone(name) is None


# --- collected --------------------------------------------------------------------------------------------


def test_what_is_asked_during_a_day_comes_in_one_mail_at_eight_in_the_readers_morning() -> None:
    zone = ZoneInfo("Asia/Tokyo")
    ann = make_reader("ann", mail="daily", time_zone="Asia/Tokyo")
    for title, due in (("Third", None), ("First", "1d"), ("Second", "3d")):
        ask(title=title, assignees=["ann"], due=due)
    assert list_told() == []
    due_at = {one.due_at for one in list_deliveries()}
    [moment] = due_at
    assert moment is not None
    assert (moment.astimezone(zone).hour, moment.astimezone(zone).minute) == (8, 0)
    advance(moment - read_now() - timedelta(seconds=1))
    assert list_told() == []
    advance("2s")
    told = take_mail("ann")
    assert told.subject == "3 requests wait for you: First …"
    assert [told.body.index(title) for title in ("First", "Second", "Third")] == sorted(
        told.body.index(title) for title in ("First", "Second", "Third")
    )
    assert "(JST)" in told.body
    for review in Review.objects.all():
        assert make_link(review, ann) in told.body
        assert make_link(review, ann) in find_html(told)
    sent = list_deliveries()
    assert {one.status for one in sent} == {"sent"}
    assert {one.external_id for one in sent} == {told.extra_headers["Message-ID"]}
    advance("2d")
    assert list_told() == []


def test_an_hourly_mail_collects_news_and_reminders_of_one_request_once() -> None:
    make_reader("ann", mail="hourly")
    ask(assignees=["ann"], remind=["5m"])
    advance("70m")
    subjects = [subject for _, subject in list_told()]
    assert subjects
    assert set(subjects) == {"One request waits for you: Pay the invoice"}


def test_what_is_urgent_or_ones_own_is_not_collected() -> None:
    ann = make_reader("ann", mail="daily")
    ben = make_reader("ben", mail="daily")
    make_reader("boss", "bosses", mail="daily")
    review = ask(assignees=["ann"], requester="ben", escalate=[("1m", ("add", "bosses"))])
    actions.nudge(review, actor=ben)
    actions.request_info(review, "Why?", actor=ann)
    actions.answer_info(review, "So.", actor=ben)
    advance("2m")
    decide(review, "approve", actor=ann)
    drain()
    assert [(name, subject.partition(":")[0]) for name, subject in list_told()] == [
        ("ann", "Ben answered"),
        ("ann", "Ben asks for your decision"),
        ("ben", "Ann asks you"),
        ("ben", "Approved"),
        ("boss", "Now with you"),
    ]


def test_what_was_decided_by_then_is_left_out_and_without_the_rest_no_mail_goes() -> None:
    make_reader("ann", mail="hourly")
    ben = make_reader("ben")
    one, other = ask(title="One", assignees=["ann", "ben"]), ask(title="Other", assignees=["ann", "ben"])
    list_told()
    decide(one, "approve", actor=ben)
    advance("61m")
    assert list_told() == [("ann", "One request waits for you: Other")]
    assert [row.status for row in list_deliveries(one, user__username="ann")] == ["dropped"]
    third = ask(title="Third", assignees=["ann", "ben"])
    list_told()
    decide(third, "approve", actor=ben)
    decide(other, "approve", actor=ben)
    advance("61m")
    assert list_told() == []


def test_what_is_being_decided_at_that_moment_is_told_by_itself_once_that_was_undone(settings: Any) -> None:
    settings.APPROVALS = {"UNDO_SECONDS": 3600}
    make_reader("ann", mail="hourly")
    ben = make_reader("ben")
    review = ask(assignees=["ann", "ben"])
    list_told()
    advance(Delivery.objects.get(user__username="ann").due_at - read_now() - timedelta(seconds=1))
    decide(review, "approve", actor=ben, grace=True)
    advance("5s")
    assert list_told() == []
    undo(review, actor=ben)
    advance("61m")
    assert list_told() == [("ann", "Please decide: Pay the invoice")]


def test_a_collected_mail_names_fifty_and_counts_the_rest() -> None:
    make_reader("ann", mail="hourly")
    review = ask(assignees=["ann"])
    requests = [Request(review, "", "", False)] * (MAX_REQUESTS + 7)
    told = write_digest("batch", requests, read_reader(User.objects.get(), None), how="daily", now=read_now())
    assert told.body.count("* Pay the invoice") == MAX_REQUESTS
    assert "And 7 more." in told.body
    assert told.subject.startswith("57 requests wait")


def test_two_requests_of_one_reader_have_the_very_same_moment_and_two_readers_do_not() -> None:
    make_reader("ann", mail="hourly")
    make_reader("ben", mail="hourly")
    for _ in range(2):
        ask_quietly(assignees=["ann", "ben"])
    drain()
    moments: dict[Any, set[Any]] = {}
    for one in list_deliveries():
        moments.setdefault(one.user_id, set()).add(one.due_at)
    assert [len(found) for found in moments.values()] == [1, 1]
    assert len(set.union(*moments.values())) == 2


ZONES = ["UTC", "Asia/Kathmandu", "America/New_York", "Europe/Berlin", "Pacific/Apia", "Australia/Lord_Howe"]


@given(
    now=st.datetimes(datetime(2020, 1, 1), datetime(2035, 1, 1)),
    zone=st.sampled_from(ZONES),
    how=st.sampled_from(["hourly", "daily"]),
    key=st.integers(),
)
def test_the_next_moment_is_ahead_near_and_at_a_full_hour_of_the_reader(
    now: datetime, zone: str, how: str, key: int
) -> None:
    now = now.replace(tzinfo=UTC)
    slot = find_slot(how, now, ZoneInfo(zone), key=key)
    assert slot > now
    assert slot - now <= (timedelta(hours=1) if how == "hourly" else timedelta(hours=25)) + timedelta(
        seconds=SPREAD_SECONDS
    )
    local = slot.astimezone(ZoneInfo(zone))
    assert local.minute == 0 or (how == "hourly" and zone == "Australia/Lord_Howe")
    assert how == "hourly" or local.hour == 8
    assert find_slot(how, slot - timedelta(microseconds=1), ZoneInfo(zone), key=key) == slot


def test_tries_are_further_and_further_apart_and_eight_at_most() -> None:
    now = datetime(2026, 7, 14, tzinfo=UTC)
    waits = [find_next_try(attempt, now) for attempt in range(1, MAX_ATTEMPTS + 1)]
    assert MAX_ATTEMPTS == 8
    assert waits[-1] is None
    minutes = [int((one - now).total_seconds() // 60) for one in waits[:-1] if one is not None]
    assert minutes[:4] == [1, 5, 30, 120]
    assert minutes == sorted(minutes)


def test_no_style_of_a_mail_needs_anything_from_elsewhere() -> None:
    make_reader("ann")
    ask(assignees=["ann"])
    html = find_html(take_mail("ann"))
    assert "url(" not in html
    assert "@import" not in html
    assert "prefers-color-scheme: dark" in html
    assert not re.findall(r"https?://(?!holdpoint\.example)", html)
