"""The webhook transport against a real server: what is posted, what its answers mean, and what the log keeps."""

from __future__ import annotations

import contextlib
import json
import threading
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from standardwebhooks import WebhookVerificationError

import workflows
from tests.support.notices import Place, answer, serving
from tests.support.webhook.partners import allow, ask, find_ids, newest, verify
from tests.support.webhook.secrets import NEW, OLD
from workflows import InvalidCall
from workflows.channels.webhook import MOST_RESPONSE, Webhook, _show
from workflows.models import Dispatch, Interaction
from workflows.outbound.posting import PostLimits
from workflows.store.ledger.retention import prune
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db


def log() -> list[Any]:
    return list(Dispatch.objects.order_by("id").values_list("number", "status", "sent", "error"))


# --- what is posted -------------------------------------------------------------------------------------------------


def test_the_reference_library_accepts_what_is_posted(partner: Place) -> None:
    instance = ask(partner, request={"amount": 5, "to": "Zoë"})
    [got] = partner.got
    body = verify(got)
    row = newest()
    assert body["interaction"] == str(row.pk)
    assert (body["workspace"], body["workflow"], body["step"]) == ("default", "partners.ask", "ask")
    assert body["instance"] == str(instance.pk)
    assert body["request"] == {"amount": 5, "to": "Zoë"}
    assert datetime.fromisoformat(body["deadline"]) == row.deadline
    assert body["resume_url"].startswith("http")
    assert got[0]["Content-Type"] == "application/json"


def test_a_changed_body_or_another_secret_is_not_accepted(partner: Place) -> None:
    ask(partner, request="pay")
    [(headers, body)] = partner.got
    for changed, secret in ((body.replace(b"pay", b"pry"), OLD), (body, NEW)):
        with pytest.raises(WebhookVerificationError):
            verify((headers, changed), secret)


def test_while_a_secret_is_changed_the_old_and_the_new_one_are_good(partner: Place, settings: Any) -> None:
    allow(settings, "127.0.0.1", WEBHOOK_SECRETS={"default": [NEW, OLD]})
    ask(partner)
    verify(partner.got[0], NEW)
    verify(partner.got[0], OLD)


def test_each_partner_may_have_a_secret_of_its_own(partner: Place, settings: Any) -> None:
    allow(settings, "127.0.0.1", WEBHOOK_SECRETS={"default": OLD, "bank": NEW})
    ask(partner, secret="bank")
    verify(partner.got[0], NEW)
    assert newest().config == {"url": partner.url, "secret": "bank"}


def test_no_secret_is_on_a_row(partner: Place) -> None:
    partner.answer = echo
    ask(partner)
    for row in (*Interaction.objects.values(), *Dispatch.objects.values()):
        assert OLD.removeprefix("whsec_") not in str(row)


def test_a_secret_that_is_not_there_is_named_when_the_webhook_is_written(settings: Any) -> None:
    allow(settings)
    with pytest.raises(ImproperlyConfigured, match=r"WEBHOOK_SECRETS.*'bank'"):
        Webhook("https://bank.example/", secret="bank")


def test_the_trace_of_whoever_asks_goes_along(partner: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    from opentelemetry import trace
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

    span = NonRecordingSpan(SpanContext(0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7, False, TraceFlags(1)))
    with trace.use_span(span):
        ask(partner)
    [(headers, body)] = partner.got
    told = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    assert headers["traceparent"] == json.loads(body)["traceparent"] == told


def test_without_a_trace_none_is_told(partner: Place) -> None:
    ask(partner)
    assert "traceparent" not in json.loads(partner.got[0][1])


# --- the answer -----------------------------------------------------------------------------------------------------


def test_the_partner_answers_by_the_resume_url(partner: Place, client: Any) -> None:
    instance = ask(partner)
    url = verify(partner.got[0])["resume_url"]
    path = url[url.index("/resume/") :]
    told = client.post(path, {"data": {"paid": True}}, content_type="application/json")
    assert told.status_code == 200, told.content
    drain()
    assert_done(instance, {"paid": True})


def test_an_answer_that_the_schema_refuses_leaves_it_open(partner: Place, client: Any) -> None:
    instance = workflows.start("partners.step", {"url": partner.url})
    drain()
    body = verify(partner.got[0])
    path = body["resume_url"][body["resume_url"].index("/resume/") :]
    assert body["schema"]["properties"]["paid"]["type"] == "boolean"
    assert client.post(path, {"paid": "often"}, content_type="application/json").status_code == 422
    assert_awaiting(instance)
    assert client.post(path, {"paid": True}, content_type="application/json").status_code == 200


def test_a_label_called_webhook_is_still_a_mere_label(partner: Place) -> None:
    @workflows.durable(name="partners.label")
    def wait(ctx):
        return ctx.wait_for("wait", "webhook", timeout="1h")

    instance = workflows.start("partners.label")
    drain()
    assert partner.got == []
    assert newest().dispatch_at is None
    workflows.complete(newest(), 7)
    drain()
    assert_done(instance, 7)


def test_a_partner_may_have_a_channel_and_threads_of_its_own(partner: Place, client: Any) -> None:
    class Bank(Webhook):
        name = "bank-webhook"
        threads = 2

    @workflows.durable(name="partners.bank")
    def ask_bank(ctx, url):
        return ctx.wait_for("ask", Bank(url), timeout="1h")

    instance = workflows.start("partners.bank", {"url": partner.url})
    drain()
    url = verify(partner.got[0])["resume_url"]
    assert client.post(url[url.index("/resume/") :], {"data": 7}, content_type="application/json").status_code == 200
    drain()
    assert_done(instance, 7)


# --- failures -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_each_2xx_is_an_acceptance(partner: Place, status: int) -> None:
    partner.answer = answer(status)
    ask(partner)
    assert newest().dispatched_at is not None
    assert log() == [(1, status, True, None)]


@pytest.mark.parametrize("status", [301, 302, 307, 401, 403, 404, 408, 409, 425, 429, 500, 502, 503, 504])
def test_what_may_pass_is_tried_again_under_the_same_id(partner: Place, status: int) -> None:
    partner.answer = answer(status, Location="http://127.0.0.1:9/")
    ask(partner)
    assert f"answered {status}" in (newest().dispatch_error or "")
    partner.answer = answer(200)
    advance("3s")
    assert len(partner.got) == 2
    assert len(set(find_ids(partner))) == 1
    assert partner.got[0][1] == partner.got[1][1]
    assert [(one[0], one[1], one[2]) for one in log()] == [(1, status, False), (2, 200, True)]
    assert newest().dispatch_error is None


def write_date(seconds: float) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


@pytest.mark.parametrize("write", [lambda: "600", lambda: write_date(600)], ids=["seconds", "date"])
def test_retry_after_is_honoured(partner: Place, write: Any) -> None:
    partner.answer = answer(503, **{"Retry-After": write()})
    ask(partner)
    advance("7m")
    assert len(partner.got) == 1
    advance("6m")
    assert len(partner.got) == 2


@pytest.mark.parametrize("text", ["soon", "-5", "1e99", "Fri, 99 Foo 2026", "9" * 400])
def test_a_retry_after_that_says_nothing_is_as_none(partner: Place, text: str) -> None:
    partner.answer = answer(503, **{"Retry-After": text})
    ask(partner)
    advance("8h")
    assert len(partner.got) > 1


def test_a_partner_that_is_slow_is_given_up_and_tried_again(
    partner: Place,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    partner.answer = lambda handler: handler.place.over.wait(60) and None
    with monkeypatch.context() as patched:
        patched.setattr(Webhook, "limits", PostLimits(silence=0.2))
        ask(partner)
    assert "did not answer in time" in (newest().dispatch_error or "")
    partner.over.set()
    partner.answer = answer(200)
    advance("3s")
    assert newest().dispatched_at is not None


def test_a_partner_that_answers_byte_by_byte_is_cut_off(
    partner: Place,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It would go on until the end of the test."""
    monkeypatch.setattr(Webhook, "limits", PostLimits(whole=0.5))

    def drip(handler: Any) -> None:
        with contextlib.suppress(OSError):
            handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
            while not handler.place.over.wait(0.05):
                handler.wfile.write(b"X: y\r\n")

    partner.answer = drip
    ask(partner)
    assert "did not answer in time" in (newest().dispatch_error or "")


@pytest.mark.parametrize("headers", [b"Connection: close", b"Connection: close\r\nTransfer-Encoding: chunked"])
def test_an_answer_that_never_ends_is_cut_off_and_counts_by_its_status(
    partner: Place,
    monkeypatch: pytest.MonkeyPatch,
    headers: bytes,
) -> None:
    """Of a connection that is to be closed the socket belongs to the answer alone."""
    monkeypatch.setattr(Webhook, "limits", PostLimits(whole=0.5))
    ended = threading.Event()

    def drip(handler: Any) -> None:
        try:
            handler.wfile.write(b"HTTP/1.1 200 OK\r\n" + headers + b"\r\n\r\n")
            while not handler.place.over.wait(0.05):
                handler.wfile.write(b"1\r\nx\r\n")
        except OSError:
            ended.set()

    partner.answer = drip
    ask(partner)
    assert ended.wait(60)
    assert newest().dispatched_at is not None


def test_a_partner_that_drops_the_connection_is_tried_again(partner: Place) -> None:
    partner.answer = lambda handler: handler.connection.close()
    ask(partner)
    assert "broke off" in (newest().dispatch_error or "")
    assert newest().dispatch_at is not None


def test_half_an_answer_that_begins_with_200_is_an_acceptance(partner: Place) -> None:
    def break_off(handler: Any) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nhalf of")

    partner.answer = break_off
    ask(partner)
    assert newest().dispatched_at is not None
    assert Dispatch.objects.get().response == "half of"


@pytest.mark.parametrize("garbage", [b"\x00\xff", b"SSH-2.0-x\r\n", b"HTTP/1.1 abc\r\n\r\n", b"HTTP/1.1 \r\n"])
def test_what_is_no_http_is_a_failure(partner: Place, garbage: bytes) -> None:
    partner.answer = lambda handler: handler.wfile.write(garbage)
    ask(partner)
    assert newest().dispatch_error


def test_of_a_flood_only_the_beginning_is_read(partner: Place) -> None:
    def flood(handler: Any) -> None:
        handler.send_response(200)
        handler.end_headers()
        with contextlib.suppress(OSError):
            for _ in range(10_000):
                handler.wfile.write(b"x" * 10_000)

    partner.answer = flood
    ask(partner)
    assert Dispatch.objects.get().response == "x" * MOST_RESPONSE


def echo(handler: Any) -> None:
    """Answers with all that it was sent."""
    headers, body = handler.place.got[-1]
    answer(200, json.dumps(headers).encode() + body + b"\x00\xff")(handler)


def test_the_log_keeps_neither_the_token_nor_the_signature(partner: Place) -> None:
    partner.answer = echo
    ask(partner)
    [(headers, body)] = partner.got
    kept = Dispatch.objects.get().response
    assert json.loads(body)["resume_url"].rpartition("/")[2] not in kept
    assert headers["webhook-signature"].removeprefix("v1,") not in kept
    assert "webhook-id" in kept


def test_nor_does_it_keep_them_with_the_backslashes_of_json() -> None:
    text = r'{"signature": "v1,ab\/cd+ef=", "url": "https:\/\/site\/resume\/t0k3n"}'
    kept = _show(text.encode(), ["v1,ab/cd+ef=", "https://site/resume/t0k3n", "t0k3n"])
    assert kept == '{"signature": "…", "url": "…"}'


def test_no_reason_holds_the_path_of_an_address(partner: Place, caplog: Any) -> None:
    def answer_badly(handler: Any) -> None:
        handler.wfile.write(b"HTTP/1.1 500 No\r\nno header at all\r\n\r\n")

    for how in (answer(500), answer(301, Location="/x"), lambda handler: handler.connection.close(), answer_badly):
        partner.answer = how
        ask(partner)
        assert newest().dispatch_error
        assert "canarypath" not in (newest().dispatch_error or "")
    assert "canarypath" not in caplog.text


def test_what_the_log_tells_goes_with_its_instance(partner: Place) -> None:
    instance = ask(partner)
    workflows.cancel(instance)
    assert Dispatch.objects.count() == 1
    with connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_instance SET finished_at = finished_at - interval '2 days'")
    list(prune(connection, older_than=86400))
    assert (Interaction.objects.count(), Dispatch.objects.count()) == (0, 0)


# --- where it goes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "url",
    ["", "ftp://x.example/", "//x.example/", "https://", "https://u:p@x.example/", "https://x.example:99999/", "x", 7],
)
def test_an_address_that_is_none_is_refused_where_it_is_written(url: Any) -> None:
    with pytest.raises(InvalidCall):
        Webhook(url)


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "169.254.169.254", "100.64.0.1", "2130706433", "localhost"])
def test_nothing_inside_is_called_unless_the_site_allows_it(settings: Any, host: str) -> None:
    allow(settings)
    ask(f"https://{host}:9/hook")
    assert "WEBHOOK_ALLOWED" in (Dispatch.objects.get().error or "")


def test_a_redirect_leads_nowhere(partner: Place) -> None:
    with serving() as inside:
        partner.answer = answer(307, Location=inside.url)
        ask(partner)
        assert inside.got == []
    assert "redirects are not followed" in (newest().dispatch_error or "")


@pytest.mark.parametrize(
    ("url", "reason"),
    [("http://8.8.8.8/hook", "https"), ("https://8.8.8.8:22/hook", "port 22"), ("https://8.8.8.8:25/", "port 25")],
)
def test_outside_only_https_at_a_port_for_it_is_called(settings: Any, url: str, reason: str) -> None:
    allow(settings)
    ask(url)
    assert reason in (Dispatch.objects.get().error or "")


def test_what_was_judged_is_what_is_called(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that leads outside when it is judged, and inside a moment later."""
    import socket

    import urllib3

    allow(settings)
    answers = iter(["8.8.8.8"])
    called: list[Any] = []

    def resolve(host: str, port: int, *args: Any, **options: Any) -> Any:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (next(answers), port))]

    def connect(address: Any, *args: Any, **options: Any) -> Any:
        called.append(address)
        raise ConnectionRefusedError

    instance = workflows.start("partners.ask", {"url": "https://rebind.example/"})
    monkeypatch.setattr(urllib3.util.connection, "create_connection", connect)
    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    drain()
    assert called == [("8.8.8.8", 443)]
    assert_awaiting(instance)


def test_without_tries_left_the_question_fails_with_its_reason(partner: Place, settings: Any) -> None:
    allow(settings, "127.0.0.1", DISPATCH_TRIES=3)
    partner.answer = answer(503)
    instance = ask(partner)
    advance("1h")
    assert len(partner.got) == 3
    row = newest()
    assert (row.status, row.tries) == ("failed", 3)
    assert "answered 503" in (row.dispatch_error or "")
    assert_failed(instance, "answered 503")


@pytest.mark.parametrize("status", [400, 410, 413, 422, 501])
def test_what_can_never_be_taken_fails_at_once(partner: Place, status: int) -> None:
    partner.answer = answer(status)
    instance = ask(partner)
    assert newest().status == "failed"
    assert_failed(instance, f"answered {status}")
