"""Places outside: our signed events, messages for chats, where they never go, and that they hear when it is over."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import User
from standardwebhooks import Webhook, WebhookVerificationError

import workflows
from approvals import decide, delegate
from approvals.access.personal_links import make_link_token
from approvals.actions import actions
from approvals.models import Delivery
from approvals.notify import delivery_writer
from approvals.notify.fan_out import expand_notices
from approvals.notify.messages.http_post import name_host
from approvals.notify.messages.webhook import read_answer
from tests.support.html_pages import HOSTILE
from tests.support.notices import (
    SITE,
    Killed,
    Place,
    answer,
    ask_quietly,
    bring_forward,
    list_deliveries,
    make_reader,
    serving,
    site,  # noqa: F401
)
from tests.support.review_calls import ask
from workflows.testing import advance, drain

pytestmark = pytest.mark.django_db


SECRET = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"


@pytest.fixture
def ops(settings: Any) -> Iterator[Place]:
    """A place that takes our events."""
    with serving() as place:
        place_at(settings, ops={"url": place.url, "format": "json", "secret": SECRET})
        yield place


@pytest.fixture
def chat(settings: Any) -> Iterator[Place]:
    """A place that takes messages for people, and says what it called them."""
    with serving() as place:
        place.answer = answer(200, b'{"ok": true, "ts": "1752480000.000100"}')
        place_at(settings, chat={"url": place.url, "format": "slack"})
        yield place


def place_at(settings: Any, **places: Any) -> None:
    settings.APPROVALS = {"WEBHOOKS": places, "WEBHOOKS_PRIVATE": True, "UNDO_SECONDS": 8}


# --- our events -------------------------------------------------------------------------------------------


def test_a_place_hears_of_everything_in_its_order(ops: Place) -> None:
    ann = make_reader("ann")
    make_reader("ben")
    make_reader("boss", "bosses")
    review = ask(
        assignees=["ann"], requester="ben", remind=["1h"], escalate=[("2h", ("add", "bosses"))], due="5h", quorum=1
    )
    actions.nudge(review, actor=User.objects.get(username="ben"))
    delegate(review, to="boss", actor=ann)
    advance("3h")
    decide(review, "approve", actor=User.objects.get(username="boss"), reason="Fine")
    drain()
    events = ops.list_events()
    assert [one["type"] for one in events] == [
        "approval.requested",
        "approval.nudged",
        "approval.handed_on",
        "approval.reminder",
        "approval.escalated",
        "approval.decided",
    ]
    last = events[-1]["data"]
    assert (last["id"], last["title"], last["status"]) == (str(review.pk), "Pay the invoice", "decided")
    assert (last["answer"]["outcome"], last["answer"]["by"], last["answer"]["reason"]) == ("approve", "Boss", "Fine")
    assert (last["requester"], last["url"]) == ("Ben", f"{SITE}/approvals/{review.pk}/")


def test_an_event_is_signed_so_that_the_standard_library_of_its_receiver_accepts_it(ops: Place) -> None:
    make_reader("ann")
    ask(assignees=["ann"])
    [(headers, body)] = ops.got
    told = {name.lower(): value for name, value in headers.items()}
    assert Webhook(SECRET).verify(body, told) == json.loads(body)
    assert told["webhook-id"] == json.loads(body)["id"]
    with pytest.raises(WebhookVerificationError):
        Webhook(SECRET).verify(body.replace(b"Pay", b"Get"), told)
    with pytest.raises(WebhookVerificationError):
        Webhook("whsec_" + "A" * 32).verify(body, told)


def test_a_try_after_a_failure_has_the_same_id(ops: Place) -> None:
    make_reader("ann")
    ops.answer = answer(503)
    review = ask(assignees=["ann"])
    ops.answer = answer(200)
    advance("70s")
    ids = [{name.lower(): value for name, value in headers.items()}["webhook-id"] for headers, _ in ops.got]
    assert len(ids) == 2
    assert len(set(ids)) == 1
    [row] = list_deliveries(review, channel="ops")
    assert (row.status, row.attempts, row.address) == ("sent", 2, "127.0.0.1")


def test_after_a_crash_between_sending_and_recording_it_comes_again_under_the_same_id(
    ops: Place, monkeypatch: Any
) -> None:
    make_reader("ann", email="")
    review = ask_quietly(assignees=["ann"])

    def die(*args: Any, **options: Any) -> None:
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(delivery_writer, "record_sent", die)
        with pytest.raises(Killed):
            drain()
    advance(delivery_writer.LEASE.total_seconds() + 1)
    assert [row.status for row in list_deliveries(review, channel="ops")] == ["sent"]
    assert len({event["id"] for event in ops.list_events()}) == 1


def test_an_end_that_nobody_decided_is_told(ops: Place) -> None:
    make_reader("ann")
    ask(assignees=["ann"])
    other = ask(assignees=["ann"])
    workflows.cancel(other.instance)
    advance("8d")
    ends = [one for one in ops.list_events() if one["type"] == "approval.closed"]
    assert len(ends) == 2
    assert {one["data"]["status"] for one in ends} == {"closed"}


def test_what_was_decided_before_it_was_told_is_told_as_decided_only(ops: Place) -> None:
    ann = make_reader("ann")
    review = ask_quietly(assignees=["ann"])
    decide(review, "approve", actor=ann)
    drain()
    assert [one["type"] for one in ops.list_events()] == ["approval.decided"]


def test_an_event_holds_no_one_person_link_and_no_secret(ops: Place) -> None:
    ann = make_reader("ann")
    review = ask(assignees=["ann"], request={"api_key": "canary"}, title=HOSTILE[:200])
    [(headers, body)] = ops.got
    assert make_link_token(review, ann) not in body.decode()
    assert "canary" not in body.decode()
    assert SECRET.removeprefix("whsec_") not in body.decode() + str(headers)
    assert "\u202e" not in body.decode()


def test_a_secret_that_is_none_is_told_and_not_tried_again(ops: Place, settings: Any) -> None:
    make_reader("ann")
    place_at(settings, ops={"url": ops.url, "secret": "no base64!"})
    [row] = list_deliveries(ask(assignees=["ann"]), channel="ops")
    assert row.status == "failed"
    assert "is not base64" in row.error
    assert "no base64!" not in row.error


def test_without_a_secret_an_event_is_not_signed(ops: Place, settings: Any) -> None:
    make_reader("ann")
    place_at(settings, ops={"url": ops.url})
    ask(assignees=["ann"])
    [(headers, _)] = ops.got
    assert "webhook-signature" not in {name.lower() for name in headers}


def test_a_place_that_the_site_took_away_is_told_nothing_more(ops: Place, settings: Any) -> None:
    make_reader("ann")
    review = ask_quietly(assignees=["ann"])
    expand_notices(5)
    settings.APPROVALS = {}
    drain()
    [row] = list_deliveries(review, channel="ops")
    assert row.status == "dropped"
    assert ops.got == []


# --- chats ----------------------------------------------------------------------------------------------


def find_buttons(message: Any) -> list[tuple[str, str]]:
    return [
        (one["text"]["text"], one["url"])
        for block in message["blocks"]
        if block["type"] == "actions"
        for one in block["elements"]
    ]


def test_a_chat_gets_text_and_blocks_whose_buttons_are_links_to_a_page_that_asks_who_is_there(chat: Place) -> None:
    ann = make_reader("ann")
    review = ask(assignees=["ann"], due="2h")
    [message] = chat.list_events()
    assert message["text"] == "Decide: Pay the invoice"
    page = f"{SITE}/approvals/{review.pk}/"
    assert find_buttons(message) == [
        ("Approve", f"{page}?outcome=approve"),
        ("Reject", f"{page}?outcome=reject"),
        ("Look at it", page),
    ]
    assert make_link_token(review, ann) not in json.dumps(message)
    [row] = list_deliveries(review, channel="chat")
    assert row.external_id == "1752480000.000100"


def test_once_decided_a_chat_hears_it_in_the_thread_of_the_first_message(chat: Place) -> None:
    ann = make_reader("ann")
    review = ask(assignees=["ann"], remind=["1h"])
    advance("61m")
    decide(review, "reject", actor=ann, reason="Not in the budget")
    drain()
    first, reminder, last = chat.list_events()
    assert "thread_ts" not in first
    assert reminder["thread_ts"] == last["thread_ts"] == "1752480000.000100"
    assert last["text"] == "Rejected: Pay the invoice"
    assert "Ann rejected this" in json.dumps(last, ensure_ascii=False)
    assert "Not in the budget" in json.dumps(last)
    assert find_buttons(last) == []
    assert all(one.closed_at is not None for one in list_deliveries(review, channel="chat", kind="new"))


def test_a_chat_that_heard_nothing_hears_no_end(chat: Place) -> None:
    ann = make_reader("ann")
    review = ask_quietly(assignees=["ann"])
    decide(review, "approve", actor=ann)
    drain()
    assert chat.list_events() == []
    assert {one.status for one in list_deliveries(review, channel="chat")} == {"dropped"}


def test_the_end_waits_for_a_message_that_is_on_its_way(chat: Place) -> None:
    ann = make_reader("ann")
    chat.answer = answer(500)
    review = ask(assignees=["ann"])
    chat.answer = answer(200, b'{"ts": "7"}')
    chat.got.clear()
    row = delivery_writer.rows(Delivery).get(channel="chat")
    delivery_writer.rows(Delivery).filter(pk=row.pk).update(due_at=None)  # claimed, and not recorded yet
    decide(review, "approve", actor=ann)
    drain()
    assert chat.list_events() == []
    delivery_writer.record_sent(row, external_id="7", address="127.0.0.1")
    advance("16s")
    [last] = chat.list_events()
    assert last["thread_ts"] == "7"


def test_what_people_wrote_cannot_command_a_chat(chat: Place) -> None:
    ann = make_reader("ann")
    review = ask(assignees=["ann"], title="<!channel> *x* <https://evil.example|y> & co")
    decide(review, "reject", actor=ann, reason="<!here>")
    drain()
    for message in chat.list_events():
        assert "<" not in message["text"]
        assert "&lt;!channel&gt;" in message["text"]
        for block in message["blocks"]:
            kinds = [block.get("text", {}).get("type"), *(one["type"] for one in block.get("fields", ()))]
            assert set(kinds) <= {"plain_text", None}


def test_a_chat_is_not_told_what_only_one_person_is_handed(chat: Place) -> None:
    ann = make_reader("ann")
    make_reader("ben")
    review = ask(assignees=["ann"])
    chat.got.clear()
    delegate(review, to="ben", actor=ann)
    actions.comment(review, "hm", actor=User.objects.get(username="ben"))
    drain()
    assert chat.list_events() == []


def test_a_chat_that_says_no_in_its_answer_is_tried_again(chat: Place) -> None:
    make_reader("ann")
    chat.answer = answer(200, b'{"ok": false, "error": "channel_not_found"}')
    [row] = list_deliveries(ask(assignees=["ann"]), channel="chat")
    assert (row.status, row.error) == ("waiting", "it was refused: channel_not_found")


@pytest.mark.parametrize(
    ("body", "id"),
    [
        (b"ok", ""),
        (b"", ""),
        (b"[1]", ""),
        (b'{"id": 7}', "7"),
        (b'{"id": true}', ""),
        (b'{"id": {"a": 1}}', ""),
        (b'{"message_id": "a\\u0000b"}', "a⟨U+0000⟩b"),
        (b"[" * 100_000, ""),
        (b"\xff\xfe", ""),
    ],
)
def test_whatever_a_place_answers_can_be_kept(body: bytes, id: str) -> None:
    assert read_answer(body) == id


# --- failures, and secrets --------------------------------------------------------------------------------


def test_a_name_that_leads_inside_is_not_called_and_not_tried_again(settings: Any) -> None:
    with serving() as place:
        settings.APPROVALS = {"WEBHOOKS": {"ops": {"url": place.url.replace("127.0.0.1", "localhost")}}}
        make_reader("ann")
        [row] = list_deliveries(ask(assignees=["ann"]), channel="ops")
    assert (row.status, place.got) == ("failed", [])
    assert "leads inside" in row.error


def test_a_place_that_fails_holds_up_neither_mail_nor_other_places(settings: Any) -> None:
    with serving() as good, serving() as bad:
        bad.answer = answer(500)
        place_at(settings, bad={"url": bad.url}, good={"url": good.url})
        make_reader("ann")
        for _ in range(5):
            ask_quietly(assignees=["ann"])
        drain()
        assert len(good.got) == 5
        assert len(bad.got) == 1
        bad.answer = answer(200)
        bring_forward()
        drain()
        assert len(bad.got) == 6


def test_no_row_and_no_log_line_holds_the_path_of_an_address_or_a_key(
    ops: Place, caplog: Any, monkeypatch: Any, settings: Any
) -> None:
    make_reader("ann")
    for name in ("approvals", "workflows", "django"):
        monkeypatch.setattr(logging.getLogger(name), "propagate", True)

    def echo(handler: Any) -> None:
        answer(500, json.dumps(dict(handler.headers)).encode())(handler)

    def refuse(handler: Any) -> None:
        answer(200, json.dumps({"ok": False, "error": f"bad {handler.path} {dict(handler.headers)}"}).encode())(handler)

    def hang_up(handler: Any) -> None:
        handler.close_connection = True

    with caplog.at_level(logging.DEBUG):
        for how in (echo, refuse, hang_up, answer(302, Location=ops.url)):
            ops.answer = how
            ask(assignees=["ann"])
            bring_forward()
            drain()
        place_at(settings, ops={"url": "http://127.0.0.1:1/services/canarypath0123456789ABC", "secret": SECRET})
        bring_forward()
        drain()
    assert "was not sent" in caplog.text
    kept = str(list(Delivery.objects.values())) + "".join(one.getMessage() for one in caplog.records)
    for secret in ("canarypath0123456789ABC", SECRET, SECRET.removeprefix("whsec_")):
        assert secret not in kept
    assert "canarypath" not in name_host(ops.url)
