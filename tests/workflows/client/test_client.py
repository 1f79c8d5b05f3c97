"""The client against a server that fails on purpose: what it repeats, what it never does, and what it never shows.

The server is a real one on the loopback and has as much of the API as each test tells it to have. The real API is in
test_client_live.py.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import json
import logging
import pickle
import ssl
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import pytest

import workflows.client as package
from workflows.client import (
    Answered,
    AnsweredElsewhere,
    ApiError,
    Client,
    Conflict,
    ConnectionFailed,
    Delivery,
    DuplicateKey,
    Forbidden,
    Gone,
    IdempotencyConflict,
    InstanceCancelled,
    InstanceFailed,
    InvalidData,
    InvalidInput,
    InvalidRequest,
    NotFinished,
    NotFound,
    NotPossible,
    Progress,
    Redirected,
    ServerError,
    StaleVersion,
    TooLarge,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    UnexpectedAnswer,
    UnknownPoint,
    UnknownQueue,
    UnknownWorkflow,
    Untrusted,
    transport,
)

KEY = "hp_test-secret-of-the-client"
ID = "019a0000-0000-7000-8000-000000000007"

INSTANCE = {
    "id": ID,
    "workspace": "default",
    "workflow": "Ship",
    "version": 1,
    "key": "order-7",
    "status": "runnable",
    "step": "ask",
    "state": {"order": 7},
    "input": {"order": 7},
    "result": None,
    "error": None,
    "attempt": 0,
    "queue": "mail",
    "priority": 5,
    "flow_key": "tenant:7",
    "progress": {"done": 3, "total": 10, "note": "reading", "at": "2026-11-18T09:30:10Z"},
    "parent": None,
    "started_by": "key:1",
    "created_at": "2026-11-18T09:30:00.123456Z",
    "finished_at": None,
}
DONE = INSTANCE | {"status": "done", "result": {"paid": 120}, "finished_at": "2026-11-18T09:31:00Z"}
COMPLETED = {"id": ID, "signal_id": "approval-7", "instance": ID, "status": "completed"}


@dataclass(frozen=True)
class Sent:
    """A request, as it arrived."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.path).query)


Act = Callable[["Handler"], None]


@dataclass
class Site:
    """A server, what it was sent, and what it does next; after that it does the last of it again."""

    url: str = ""
    sent: list[Sent] = field(default_factory=list)
    acts: list[Act] = field(default_factory=list)
    #: Set when the test is over, so that nothing hangs longer.
    over: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def will(self, *acts: Act) -> None:
        self.acts = list(acts)

    def client(self, **options: Any) -> Client:
        return Client(self.url, KEY, **options)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer leaves in one piece
    site: Site

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.site.lock:
            self.request_sent = Sent(self.command, self.path, headers, body)
            self.site.sent.append(self.request_sent)
            act = self.site.acts.pop(0) if len(self.site.acts) > 1 else self.site.acts[0]
        act(self)

    do_POST = do_PATCH = do_DELETE = do_GET  # noqa: N815  # the names that http.server looks for

    def log_message(self, format: str, *args: Any) -> None:
        pass


def answer(status: int, body: Any = None, **headers: str) -> Act:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()

    def act(handler: Handler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(raw)))
        handler.end_headers()
        handler.wfile.write(raw)

    return act


def refuse(status: int, slug: str, **members: Any) -> Act:
    return answer(status, describe(status, slug, **members))


def describe(status: int, slug: str, **members: Any) -> dict[str, Any]:
    told = {"type": f"urn:holdpoint:problem:{slug}", "title": slug.title(), "status": status, "detail": "Look again."}
    return told | members


def drop(handler: Handler) -> None:
    """The call has been carried out, and its answer is lost."""
    handler.close_connection = True


def stall(handler: Handler) -> None:
    handler.close_connection = True
    handler.site.over.wait(120)


def break_off(handler: Handler) -> None:
    """Half an answer."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"id": ')
    handler.close_connection = True


def echo(handler: Handler) -> None:
    """What a careless proxy's error page does."""
    told = dict(handler.headers) | {"title": f"Bad {handler.headers['Authorization']}", "detail": str(handler.headers)}
    answer(400, told)(handler)


@contextmanager
def serving(context: ssl.SSLContext | None = None) -> Iterator[Site]:
    site = Site()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("OneHandler", (Handler,), {"site": site}))
    server.daemon_threads = True
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        # A handshake that fails is the client's good right here.
        server.handle_error = lambda *args: None  # type: ignore[method-assign]
    site.url = f"http{'s' if context else ''}://localhost:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield site
    finally:
        site.over.set()
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def site() -> Iterator[Site]:
    with serving() as one:
        yield one


@pytest.fixture
def other_site() -> Iterator[Site]:
    with serving() as one:
        yield one


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transport, "FIRST_PAUSE", 0.01)


def assert_repeated(site: Site, times: int) -> None:
    """So many requests, all the same."""
    assert len(site.sent) == times
    first = site.sent[0]
    assert first.headers["idempotency-key"]
    for one in site.sent[1:]:
        assert (one.method, one.path, one.body) == (first.method, first.path, first.body)
        assert one.headers["idempotency-key"] == first.headers["idempotency-key"]


# --- calls that are repeated --------------------------------------------------------------------------------


def test_a_call_whose_answer_is_lost_has_one_effect(site: Site) -> None:
    started: dict[str, bytes] = {}

    def commit_and_drop(handler: Handler) -> None:
        sent = handler.request_sent
        if sent.headers["idempotency-key"] in started:
            assert started[sent.headers["idempotency-key"]] == sent.body
            answer(201, INSTANCE, Idempotency_Replayed="true")(handler)
        else:
            started[sent.headers["idempotency-key"]] = sent.body
            drop(handler)

    site.will(commit_and_drop)
    with site.client() as client:
        assert client.start("Ship", {"order": 7}, key="order-7").id == UUID(ID)
    assert_repeated(site, 2)
    assert len(started) == 1


@pytest.mark.parametrize(
    "trouble",
    [drop, break_off, answer(502, b"<html>"), answer(503, {}), answer(504), refuse(429, "too-many-requests")],
    ids=["dropped", "broken off", "502", "503", "504", "429"],
)
def test_a_call_is_repeated_with_the_same_bytes_until_it_is_answered(site: Site, trouble: Act) -> None:
    site.will(trouble, trouble, answer(201, INSTANCE))
    with site.client() as client:
        client.start("Ship", {"order": 7, "text": "ä\u2028"})
    assert_repeated(site, 3)


def test_a_call_that_is_not_answered_in_time_is_repeated(site: Site) -> None:
    site.will(stall, answer(202, {"id": f"{ID}:1", "duplicate": False, "woke": True}))
    with site.client(timeout=2) as client:
        assert client.signal("order-7", "paid") == Delivery(f"{ID}:1", duplicate=False, woke=True)
    assert_repeated(site, 2)


CALLS: dict[str, tuple[Callable[[Client], Any], Any]] = {
    "start": (lambda client: client.start("Ship"), INSTANCE),
    "signal by id": (lambda client: client.signal(UUID(ID), "paid"), {"id": "1:1", "duplicate": False, "woke": True}),
    "signal by key": (lambda client: client.signal("k", "paid"), {"id": "1:1", "duplicate": False, "woke": True}),
    "signal_many": (lambda client: client.signal_many([("k", "n")]), {"results": [{"status": 202, "id": "1:1"}]}),
    "emit": (lambda client: client.emit("paid"), {"id": ID, "woke": 1, "started": 0, "duplicate": False}),
    "cancel": (lambda client: client.cancel(ID), INSTANCE),
    "retry": (lambda client: client.retry(ID), INSTANCE),
    "fork": (lambda client: client.fork(ID, at="pay"), INSTANCE),
    "signal with start": (
        lambda client: client.signal("k", "paid", start="Ship", input={"order": 7}),
        {"id": "1:1", "duplicate": False, "woke": True},
    ),
    "complete": (lambda client: client.complete("approval-7", 1), COMPLETED),
    "complete_interaction": (lambda client: client.complete_interaction(ID, 1), COMPLETED),
    "complete_many": (
        lambda client: client.complete_many([("approval-7", 1)]),
        {"results": [COMPLETED | {"status": 200, "replayed": False}]},
    ),
    "fail": (lambda client: client.fail(ID, "no"), COMPLETED),
    "retry_item": (lambda client: client.retry_item(ID), COMPLETED),
    "redrive": (lambda client: client.redrive(ID), COMPLETED),
    "resume": (lambda client: client.resume("token", 1), COMPLETED),
    "pause": (lambda client: client.pause("Ship"), {"name": "Ship", "paused": True}),
    "unpause": (lambda client: client.unpause("Ship"), {"name": "Ship", "paused": False}),
    "change_queue": (lambda client: client.change_queue("mail", limit=5), {"name": "mail"}),
    "create_schedule": (
        lambda client: client.create_schedule("n", "Ship", every="1h"),
        {"name": "n", "workflow": "Ship"},
    ),
    "change_schedule": (
        lambda client: client.change_schedule("n", every="2h"),
        {"name": "n", "workflow": "Ship"},
    ),
    "run_schedule": (lambda client: client.run_schedule("n"), INSTANCE),
    "change_limit": (lambda client: client.change_limit("rate", "smtp", "5/m"), {"kind": "rate", "name": "smtp"}),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_call_that_changes_something_is_safe_to_repeat(site: Site, name: str) -> None:
    call, told = CALLS[name]
    site.will(drop, answer(200, told))
    with site.client() as client:
        call(client)
        assert_repeated(site, 2)
        call(client)
    assert site.sent[2].headers["idempotency-key"] != site.sent[0].headers["idempotency-key"]


def test_a_question_to_the_server_is_repeated_without_an_idempotency_key(site: Site) -> None:
    site.will(drop, answer(503), answer(200, INSTANCE))
    with site.client() as client:
        client.get(ID)
    assert [one.headers.get("idempotency-key") for one in site.sent] == [None] * 3


def test_the_callers_own_idempotency_key_is_sent(site: Site) -> None:
    site.will(drop, answer(201, INSTANCE))
    with site.client() as client:
        client.start("Ship", idempotency_key="order-7")
    assert [one.headers["idempotency-key"] for one in site.sent] == ["order-7"] * 2


def test_a_call_is_repeated_so_many_times_and_no_more(site: Site) -> None:
    site.will(answer(503, describe(503, "unavailable")))
    with site.client(retries=2) as client, pytest.raises(Unavailable) as caught:
        client.start("Ship")
    assert_repeated(site, 3)
    assert (caught.value.status, caught.value.detail) == (503, "Look again.")
    site.sent.clear()
    with site.client(retries=0) as client, pytest.raises(Unavailable):
        client.start("Ship")
    assert len(site.sent) == 1


def test_a_site_that_is_not_there_is_named(site: Site) -> None:
    with Client("http://localhost:1", KEY, retries=1) as client, pytest.raises(ConnectionFailed) as caught:
        client.start("Ship")
    assert "http://localhost:1" in str(caught.value)
    assert "refused" in str(caught.value)
    assert caught.value.status == 0


def test_the_server_says_when_to_come_back(site: Site) -> None:
    site.will(answer(429, describe(429, "too-many-requests"), Retry_After="1"), answer(201, INSTANCE))
    began = time.monotonic()
    with site.client() as client:
        client.start("Ship")
    assert time.monotonic() - began >= 1.0
    assert_repeated(site, 2)


@pytest.mark.parametrize("told", ["0", "Wed, 18 Nov 2020 09:30:00 GMT", "soon", "9" * 5000])
def test_a_time_to_come_back_that_is_none_is_as_good_as_none(site: Site, told: str) -> None:
    site.will(answer(503, {}, Retry_After=told), answer(201, INSTANCE))
    with site.client() as client:
        client.start("Ship")
    assert_repeated(site, 2)


def test_a_wait_that_is_too_long_is_left_to_the_caller(site: Site) -> None:
    site.will(answer(429, describe(429, "too-many-requests"), Retry_After="3600"))
    with site.client() as client, pytest.raises(TooManyRequests) as caught:
        client.start("Ship")
    assert caught.value.retry_after == 3600
    assert len(site.sent) == 1


def test_no_attempt_begins_after_the_deadline(site: Site) -> None:
    site.will(stall)
    began = time.monotonic()
    with site.client(timeout=0.4, deadline=2.0, retries=100) as client, pytest.raises(ConnectionFailed):
        client.start("Ship")
    assert time.monotonic() - began < 5
    assert 2 <= len(site.sent) <= 1 + 2.0 / 0.4  # each of them but the last takes its whole time, and then a pause


def test_an_attempt_ends_with_the_deadline(site: Site) -> None:
    site.will(stall)
    began = time.monotonic()
    with site.client(timeout=9, deadline=0.3) as client, pytest.raises(ConnectionFailed):
        client.start("Ship")
    assert time.monotonic() - began < 5
    assert len(site.sent) == 1


# --- calls that are not repeated ----------------------------------------------------------------------------

REFUSALS = [
    (400, "invalid-request", InvalidRequest),
    (401, "unauthorized", Unauthorized),
    (403, "forbidden", Forbidden),
    (404, "not-found", NotFound),
    (405, "method-not-allowed", ApiError),
    (409, "stale-version", StaleVersion),
    (409, "duplicate-key", DuplicateKey),
    (409, "answered-elsewhere", AnsweredElsewhere),
    (409, "idempotency-conflict", IdempotencyConflict),
    (409, "not-possible", NotPossible),
    (409, "of-a-later-version", Conflict),
    (410, "resolved", Gone),
    (413, "too-large", TooLarge),
    (422, "invalid-data", InvalidData),
    (422, "invalid-input", InvalidInput),
    (422, "unknown-workflow", UnknownWorkflow),
    (422, "unknown-queue", UnknownQueue),
    (422, "unknown-point", UnknownPoint),
    (500, "server-error", ServerError),
]


@pytest.mark.parametrize(("status", "slug", "kind"), REFUSALS, ids=[slug for _, slug, _ in REFUSALS])
def test_a_refusal_is_an_error_of_its_own_and_final(site: Site, status: int, slug: str, kind: type[ApiError]) -> None:
    site.will(refuse(status, slug, errors={"input.order": ["must be a number"]}))
    with site.client() as client, pytest.raises(ApiError) as caught:
        client.start("Ship")
    error = caught.value
    assert type(error) is kind
    assert (error.status, error.type, error.detail) == (status, f"urn:holdpoint:problem:{slug}", "Look again.")
    assert error.errors == {"input.order": ["must be a number"]}
    assert str(error) == f"{status} {slug.title()}: Look again."
    assert len(site.sent) == 1


def test_every_kind_of_problem_that_the_api_knows_is_an_error_of_its_status() -> None:
    """The two sides know nothing of each other; so this is where they are compared."""
    from workflows.client.errors import _BY_STATUS, _BY_TYPE
    from workflows.rest.protocol import problems

    kinds = {kind.slug: kind for kind in vars(problems).values() if isinstance(kind, problems.ProblemKind)}
    assert _BY_TYPE.keys() <= kinds.keys()
    assert {kind.status for kind in kinds.values()} - _BY_STATUS.keys() <= {405, 415, 500}


def test_a_duplicate_key_names_who_holds_it(site: Site) -> None:
    site.will(refuse(409, "duplicate-key", existing=ID))
    with site.client() as client, pytest.raises(DuplicateKey) as caught:
        client.start("Ship", key="order-7")
    assert caught.value.existing == UUID(ID)


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"null", b'{"title": 5, "errors": [1]}', b"\xff", b"[" * 9999])
def test_an_error_page_of_something_in_between_is_an_error_too(site: Site, body: bytes) -> None:
    site.will(answer(403, body))
    with site.client() as client, pytest.raises(Forbidden) as caught:
        client.get(ID)
    assert caught.value.errors == {}


def test_errors_travel_between_processes(site: Site) -> None:
    site.will(refuse(409, "duplicate-key", existing=ID))
    with site.client() as client, pytest.raises(DuplicateKey) as caught:
        client.start("Ship", key="order-7")
    copy = pickle.loads(pickle.dumps(caught.value))
    assert (type(copy), str(copy), copy.existing) == (DuplicateKey, str(caught.value), UUID(ID))


# --- the key stays here -------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(site: Site, other_site: Site, status: int) -> None:
    other_site.will(answer(201, INSTANCE))
    site.will(answer(status, {}, Location=f"{other_site.url}/v1/instances?secret=1"))
    with site.client() as client:
        for call in (lambda: client.start("Ship"), lambda: client.get(ID)):
            with pytest.raises(Redirected, match=other_site.url) as caught:
                call()
            assert "secret" not in str(caught.value)
    assert other_site.sent == []
    assert len(site.sent) == 2


def test_a_redirect_to_nowhere_is_an_error_too(site: Site) -> None:
    site.will(answer(302, {}), answer(302, {}, Location="http://[::1"))
    with site.client() as client:
        for _ in range(2):
            with pytest.raises(Redirected, match="Correct base_url"):
                client.get(ID)


def find_texts(error: BaseException) -> Iterator[str]:
    """All that a report of an error may show: texts, and every variable of every frame."""
    told: BaseException | None = error
    while told is not None:
        yield from traceback.format_exception(told)
        yield from (str(told), repr(told), repr(vars(told)))
        for frame, _ in traceback.walk_tb(told.__traceback__):
            # A report also looks into the objects that it finds there.
            for name, value in frame.f_locals.items():
                if frame.f_code.co_filename != __file__:
                    yield f"{frame.f_code.co_name}.{name} = {value!r} {getattr(value, '__dict__', '')!r}"
        told = told.__cause__ or told.__context__


@pytest.mark.parametrize(
    "trouble",
    [drop, break_off, stall, echo, answer(503), answer(429), answer(200, b"<html>"), answer(200, {})],
    ids=["dropped", "broken off", "stalled", "echoed", "503", "429", "no JSON", "no instance"],
)
def test_the_key_is_in_no_error_and_in_no_log(site: Site, caplog: pytest.LogCaptureFixture, trouble: Act) -> None:
    caplog.set_level(logging.DEBUG)
    site.will(trouble)
    with site.client(timeout=0.2, retries=1) as client, pytest.raises(ApiError) as caught:
        client.start("Ship")
    assert [text for text in find_texts(caught.value) if KEY in text] == []
    assert KEY not in caplog.text
    assert KEY not in repr([record.__dict__ for record in caplog.records])
    assert all(one.headers["authorization"] == f"Bearer {KEY}" for one in site.sent)


def test_the_key_cannot_be_read_off_a_client() -> None:
    client = Client("https://holdpoint.example", KEY)
    assert repr(client) == "<Client https://holdpoint.example>"
    for value in (client, *vars(client).values(), *vars(client._transport).values()):
        assert KEY not in f"{value} {value!r} {getattr(value, '__dict__', '')!r}"


@pytest.mark.parametrize("key", ["", f"{KEY}\n", f"{KEY}\r\nX: y", f" {KEY}", "schlüssel", b"hp_x"])
def test_a_key_that_no_header_can_carry_is_refused_and_not_shown(key: Any) -> None:
    with pytest.raises(ValueError, match="visible ASCII") as caught:
        Client("https://holdpoint.example", key)
    assert KEY not in str(caught.value)


def test_an_idempotency_key_that_no_header_can_carry_is_refused(site: Site) -> None:
    with site.client() as client, pytest.raises(ValueError, match="idempotency key must be of visible ASCII"):
        client.start("Ship", idempotency_key="order\n7")
    assert site.sent == []


@pytest.mark.parametrize(
    "url", ["", "holdpoint.example", "ftp://holdpoint.example", "https://", "https://u:p@h.example", "http://h/?a=1"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="base_url") as caught:
        Client(url, KEY)
    assert "u:p" not in str(caught.value)


#: Of nobody: made for this test, trusted nowhere, and opens nothing.
CERTIFICATE = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgBFlK3yoW0SOofddJ
m7GoMRPYG0SVeDsH7PaaBOrYWZOhRANCAATCM3qQhr85Ker5KQAUv/Rm7cVN821G
chY6Qza6x2ERAAMQ4EXCrAKAh0t7ofjua+MNDnS5NmOuPPA7KjlEoP9I
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
MIIBdzCCAR2gAwIBAgIBATAKBggqhkjOPQQDAjAUMRIwEAYDVQQDDAlsb2NhbGhv
c3QwIBcNMjAwMTAxMDAwMDAwWhgPMjEyMDAxMDEwMDAwMDBaMBQxEjAQBgNVBAMM
CWxvY2FsaG9zdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABMIzepCGvzkp6vkp
ABS/9GbtxU3zbUZyFjpDNrrHYREAAxDgRcKsAoCHS3uh+O5r4w0OdLk2Y6488Dsq
OUSg/0ijXjBcMB0GA1UdDgQWBBRsj+IZ5FuAREMXS81JsDpE2J9QQjAPBgNVHRMB
Af8EBTADAQH/MBoGA1UdEQQTMBGCCWxvY2FsaG9zdIcEfwAAATAOBgNVHQ8BAf8E
BAMCAoQwCgYIKoZIzj0EAwIDSAAwRQIgMuqmikF/V0lE6G3fI1e2/Mdbydjly9Wp
DhGZUpafMCACIQD3Tv/Nto6uJ7bMv0V0o5fQKhWihuPdgsteF9PIWOzaXQ==
-----END CERTIFICATE-----
"""


def test_a_site_whose_certificate_does_not_hold_is_told_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    file = tmp_path / "site.pem"
    file.write_text(CERTIFICATE)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    with serving(context) as site:
        site.will(answer(200, INSTANCE))
        with site.client() as client, pytest.raises(Untrusted, match="self-signed"):
            client.get(ID)
        assert site.sent == []
        assert "again in" not in caplog.text  # nothing gets better by trying
        # And it is the certificate that was at fault: whoever trusts it comes in.
        monkeypatch.setenv("SSL_CERT_FILE", str(file))
        with site.client() as client:
            assert client.get(ID).key == "order-7"


# --- lists --------------------------------------------------------------------------------------------------


def test_a_list_is_followed_to_its_end_by_its_cursors(site: Site) -> None:
    pages = [
        {"results": [INSTANCE], "next": f"{site.url}/v1/instances?cursor=a%2Bb%3D&limit=1", "previous": None},
        {"results": [DONE], "next": "/v1/instances?cursor=two", "previous": None},
        {"results": [], "next": None, "previous": None},
    ]
    site.will(*(answer(200, page) for page in pages))
    with site.client() as client:
        assert [one.status for one in client.list_instances(workflow="a&b=c", limit=1)] == ["runnable", "done"]
    assert [one.query for one in site.sent] == [
        {"workflow": ["a&b=c"], "limit": ["1"]},
        {"workflow": ["a&b=c"], "limit": ["1"], "cursor": ["a+b="]},
        {"workflow": ["a&b=c"], "limit": ["1"], "cursor": ["two"]},
    ]


def test_a_list_fetches_no_page_before_it_is_needed(site: Site) -> None:
    site.will(answer(200, {"results": [INSTANCE], "next": "?cursor=two"}))
    with site.client() as client:
        next(client.list_instances())
    assert len(site.sent) == 1


def test_a_list_is_not_followed_to_another_host(site: Site, other_site: Site) -> None:
    other_site.will(answer(200, {"results": [], "next": None}))
    elsewhere = other_site.url.replace("localhost", "127.0.0.1")
    site.will(answer(200, {"results": [INSTANCE], "next": f"{elsewhere}/v1/instances?cursor=two"}))
    with site.client() as client, pytest.raises(UnexpectedAnswer, match=r"next page is at 127\.0\.0\.1"):
        list(client.list_instances())
    assert other_site.sent == []
    assert len(site.sent) == 1


def test_a_list_never_leaves_its_own_address(site: Site, other_site: Site) -> None:
    """Another port, path or scheme in `next` changes nothing: the cursor is all that is taken from it."""
    other_site.will(answer(200, {"results": [], "next": None}))
    site.will(
        answer(200, {"results": [INSTANCE], "next": f"{other_site.url}/elsewhere?cursor=two"}),
        answer(200, {"results": [], "next": None}),
    )
    with site.client() as client:
        list(client.list_instances())
    assert other_site.sent == []
    assert [one.path for one in site.sent] == ["/v1/instances", "/v1/instances?cursor=two"]


@pytest.mark.parametrize("following", ["?cursor=one", "http://[::1", "?page=2", 5, {}])
def test_a_list_that_leads_nowhere_ends_with_an_error(site: Site, following: Any) -> None:
    site.will(answer(200, {"results": [], "next": following}))
    with site.client() as client, pytest.raises(UnexpectedAnswer):
        list(client.list_instances())
    assert len(site.sent) <= 2


# --- addresses and bodies -----------------------------------------------------------------------------------


def test_a_text_is_a_key_and_an_id_is_an_id(site: Site) -> None:
    site.will(answer(202, {"id": "1:1", "duplicate": False, "woke": False}))
    with site.client() as client:
        client.signal("../a b/ä?#", "paid", {"amount": 120}, dedup_key="evt_1")
        client.signal(ID, "paid")
        client.signal(UUID(ID), "paid", dedup_key="evt_1")
    assert [(one.path, one.json) for one in site.sent] == [
        ("/v1/signals", {"key": "../a b/ä?#", "name": "paid", "payload": {"amount": 120}, "dedup_key": "evt_1"}),
        ("/v1/signals", {"key": ID, "name": "paid", "payload": None}),
        (f"/v1/instances/{ID}/signals", {"name": "paid", "payload": None, "dedup_key": "evt_1"}),
    ]


def test_a_signal_id_is_one_segment_of_the_address(site: Site) -> None:
    site.will(answer(200, COMPLETED))
    with site.client() as client:
        client.complete("a/../b?c#d%2F ü:@~", None, version=3)
        assert site.sent[0].path == "/v1/signals/a%2F..%2Fb%3Fc%23d%252F%20%C3%BC%3A%40~/complete"
        assert site.sent[0].json == {"data": None, "version": 3}
        for nothing in ("", ".", ".."):
            with pytest.raises(ValueError, match="cannot be part of an address"):
                client.complete(nothing, None)
    assert len(site.sent) == 1


def test_what_is_no_id_is_refused_before_it_is_sent(site: Site) -> None:
    with site.client() as client:
        for wrong in ("order-7", "", "..", None, 7):
            for call in (client.get, client.wait, client.events, client.cancel, client.retry, client.interaction):
                with pytest.raises(ValueError, match="is no id"):
                    call(wrong)  # type: ignore[operator]
    assert site.sent == []


def test_the_api_may_live_below_a_path(site: Site) -> None:
    site.will(answer(200, INSTANCE))
    with Client(f"{site.url}/holdpoint/", KEY) as client:
        client.get(ID)
    assert site.sent[0].path == f"/holdpoint/v1/instances/{ID}"


def test_ids_times_and_decimals_are_sent_as_text(site: Site) -> None:
    from decimal import Decimal

    site.will(answer(201, INSTANCE))
    with site.client() as client:
        client.start("Ship", {"id": UUID(ID), "at": datetime(2026, 11, 18, tzinfo=UTC), "amount": Decimal("1.20")})
        assert site.sent[0].json["input"] == {"id": ID, "at": "2026-11-18T00:00:00+00:00", "amount": "1.20"}
        for wrong, kind in ((float("nan"), ValueError), ({1, 2}, TypeError), ("\ud800", ValueError)):
            with pytest.raises(kind):
                client.start("Ship", {"wrong": wrong})
    assert len(site.sent) == 1


def test_many_signals_are_answered_in_their_order(site: Site) -> None:
    told = [
        {"status": 202, "id": "1:1", "duplicate": False, "woke": True},
        describe(404, "not-found"),
        describe(400, "invalid-request"),
        {"status": 202, "id": "1:2", "duplicate": True, "woke": False, "of_a_later_version": 1},
    ]
    site.will(answer(207, {"results": told}))
    with site.client() as client:
        answers = client.signal_many([("k", "n"), ("nobody", "n", 1), (UUID(ID), "n", None, "d"), ["k", "n", 2]])
        assert client.signal_many([]) == []
        with pytest.raises(UnexpectedAnswer, match="4 results for 1 signals"):
            client.signal_many([("k", "n")])
        for wrong in ("kn", ("k",), ("k", "n", 1, "d", 5)):
            with pytest.raises(ValueError, match="is no line"):
                client.signal_many([wrong])
    assert answers == [
        Delivery("1:1", woke=True),
        Delivery(None, refused="no_target", detail="Look again."),
        Delivery(None, refused="invalid_request", detail="Look again."),
        Delivery("1:2", duplicate=True),
    ]
    assert site.sent[0].json == [
        {"key": "k", "name": "n", "payload": None},
        {"key": "nobody", "name": "n", "payload": 1},
        {"instance": ID, "name": "n", "payload": None, "dedup_key": "d"},
        {"key": "k", "name": "n", "payload": 2},
    ]
    assert len(site.sent) == 2


def test_many_answers_are_told_of_in_their_order(site: Site) -> None:
    told = [
        {"status": 200, "id": ID, "signal_id": "approval-7", "instance": ID, "replayed": True},
        describe(410, "resolved"),
        describe(422, "invalid-data") | {"errors": {"n": ["is required"]}},
    ]
    site.will(answer(207, {"results": told}))
    with site.client() as client:
        answers = client.complete_many([("approval-7", 1, "line-1"), (UUID(ID), None), ["approval-8", {}, None, 3]])
        assert client.complete_many([]) == []
        with pytest.raises(UnexpectedAnswer, match="3 results for 1 answers"):
            client.complete_many([("k", 1)])
        for wrong in ("kn", ("k",), ("k", "n", 1, "d", 5)):
            with pytest.raises(ValueError, match="is no line"):
                client.complete_many([wrong])
    assert answers == [
        Answered(status=200, id=UUID(ID), signal_id="approval-7", instance=UUID(ID), replayed=True),
        Answered(status=410, refused="resolved", detail="Look again."),
        Answered(status=422, refused="invalid_data", detail="Look again.", errors={"n": ["is required"]}),
    ]
    assert site.sent[0].json == [
        {"signal_id": "approval-7", "data": 1, "idempotency_key": "line-1"},
        {"id": ID, "data": None},
        {"signal_id": "approval-8", "data": {}, "version": 3},
    ]


# --- callbacks ----------------------------------------------------------------------------------------------


def test_a_callback_is_answered_without_the_key_and_its_token_is_logged_nowhere(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    token = "wht_token.of~it"
    site.will(answer(503), answer(200, COMPLETED, Idempotency_Replayed="true"))
    with site.client(retries=1, timeout=2) as client:
        done = client.resume(token, {"paid": True})
        assert (done.id, done.signal_id, done.replayed) == (UUID(ID), "approval-7", True)
        client.resume(f"{site.url}/resume/{token}", {"paid": True})
        for trouble, kind in ((refuse(410, "resolved"), Gone), (drop, ConnectionFailed), (stall, ConnectionFailed)):
            site.will(trouble)
            with pytest.raises(kind) as caught:
                client.resume(token, {"paid": True})
            assert token not in "".join(traceback.format_exception(caught.value))
    assert {one.path for one in site.sent} == {f"/resume/{token}"}
    assert all("authorization" not in one.headers for one in site.sent)
    assert '"POST /resume/… HTTP/1.1" 200' in caplog.text
    assert "POST /resume/…: status 503; again in" in caplog.text
    assert "wht_token" not in repr([(record.getMessage(), record.__dict__) for record in caplog.records])


def test_whoever_answers_a_callback_needs_no_key(site: Site) -> None:
    site.will(answer(200, COMPLETED))
    with Client(site.url, None) as client:
        client.resume("token", None)
    assert "authorization" not in site.sent[0].headers


@pytest.mark.parametrize(
    "address", ["https://elsewhere.example/resume/secret", "/approvals/secret", "/resume/", "/resume/secret/more"]
)
def test_an_address_that_is_not_of_a_callback_here_is_not_sent_anywhere(site: Site, address: str) -> None:
    with site.client() as client, pytest.raises(ValueError, match=r"address") as caught:
        client.resume(address, None)
    assert "secret" not in str(caught.value)
    assert site.sent == []


# --- what comes back ----------------------------------------------------------------------------------------


def test_an_instance_has_the_fields_of_the_model_and_their_types(site: Site) -> None:
    site.will(answer(200, DONE | {"parent": ID, "of_a_later_version": [1]}))
    with site.client() as client:
        got = client.get(ID)
    assert {name: getattr(got, name) for name in INSTANCE} == DONE | {
        "id": UUID(ID),
        "parent": UUID(ID),
        "progress": Progress(done=3, total=10, note="reading", at=datetime(2026, 11, 18, 9, 30, 10, tzinfo=UTC)),
        "created_at": datetime(2026, 11, 18, 9, 30, 0, 123456, tzinfo=UTC),
        "finished_at": datetime(2026, 11, 18, 9, 31, tzinfo=UTC),
    }
    assert got.ended
    with pytest.raises(AttributeError):
        got.status = "failed"  # type: ignore[misc]


@pytest.mark.parametrize(
    "body",
    [
        b"<html>",
        b"",
        b"null",
        b"[]",
        b'"text"',
        {name: value for name, value in INSTANCE.items() if name != "status"},
        INSTANCE | {"id": "order-7"},
        INSTANCE | {"id": 7},
        INSTANCE | {"status": None},
        INSTANCE | {"version": True},
        INSTANCE | {"created_at": "yesterday"},
    ],
)
def test_an_answer_that_is_none_of_the_api_is_an_error(site: Site, body: Any) -> None:
    site.will(answer(200, body))
    with site.client() as client, pytest.raises(UnexpectedAnswer):
        client.get(ID)
    assert len(site.sent) == 1


# --- waiting ------------------------------------------------------------------------------------------------


def test_waiting_asks_until_there_is_a_result(site: Site) -> None:
    site.will(answer(202, INSTANCE, Retry_After="0"), answer(200, DONE))
    with site.client() as client:
        assert client.wait(ID, timeout=float("inf")) == {"paid": 120}
    assert [one.query for one in site.sent] == [{"wait": ["25"]}] * 2


def test_waiting_takes_longer_than_a_call_may(site: Site) -> None:
    def late(handler: Handler) -> None:
        handler.site.over.wait(3)
        answer(200, DONE)(handler)

    site.will(late)
    with site.client(timeout=1, retries=0) as client:
        assert client.wait(ID, timeout=30) == {"paid": 120}
        with pytest.raises(ConnectionFailed):
            client.get(ID)


def test_waiting_survives_a_server_that_is_away_for_a_moment(site: Site) -> None:
    site.will(drop, answer(503), answer(200, DONE))
    with site.client() as client:
        assert client.wait(ID) == {"paid": 120}


@pytest.mark.parametrize("timeout", [0, 0.2, 1])
def test_waiting_ends_when_its_time_is_over(site: Site, timeout: float) -> None:
    site.will(answer(202, INSTANCE, Retry_After="1"))
    began = time.monotonic()
    with site.client() as client, pytest.raises(NotFinished, match="runnable") as caught:
        client.wait(ID, timeout)
    assert timeout <= time.monotonic() - began < timeout + 2
    assert caught.value.instance.id == UUID(ID)
    # A server that does not wait as long as it was asked to is not hammered.
    assert len(site.sent) <= 3


@pytest.mark.parametrize(
    ("slug", "status", "kind"),
    [("instance-failed", "failed", InstanceFailed), ("instance-cancelled", "cancelled", InstanceCancelled)],
)
def test_waiting_for_one_that_ends_badly_is_an_error(site: Site, slug: str, status: str, kind: type[ApiError]) -> None:
    ended = DONE | {"result": None, "error": "payment never came"}
    problem = describe(422, slug)
    site.will(answer(422, ended | {"instance_status": status} | problem))
    with site.client() as client, pytest.raises(kind) as caught:
        client.wait(ID)
    assert caught.value.status == 422
    assert (caught.value.instance.status, caught.value.instance.error) == (status, "payment never came")
    assert pickle.loads(pickle.dumps(caught.value)).instance == caught.value.instance
    assert len(site.sent) == 1


def test_waiting_for_one_that_the_server_does_not_describe_is_an_error_too(site: Site) -> None:
    site.will(refuse(422, "instance-failed"))
    with site.client() as client, pytest.raises(UnexpectedAnswer):
        client.wait(ID)


# --- one client for all -------------------------------------------------------------------------------------


def test_threads_share_a_client(site: Site) -> None:
    """Every third call meets trouble first; still each gets the answer to what it asked, once."""
    seen: dict[str, int] = {}

    def act(handler: Handler) -> None:
        sent = handler.request_sent
        with handler.site.lock:
            seen[sent.headers["idempotency-key"]] = seen.get(sent.headers["idempotency-key"], 0) + 1
        if sent.json["input"] % 3 == 0 and seen[sent.headers["idempotency-key"]] == 1:
            return drop(handler)
        return answer(201, INSTANCE | {"input": sent.json["input"]})(handler)

    site.will(act)
    with site.client(pool_size=4) as client, ThreadPoolExecutor(16) as threads:
        got = list(threads.map(lambda n: client.start("Ship", n).input, range(1, 301)))
    assert got == list(range(1, 301))
    assert len(seen) == 300
    assert len(site.sent) == 400


def test_a_client_that_is_closed_says_so(site: Site) -> None:
    with site.client() as client:
        pass
    with pytest.raises(RuntimeError, match="closed"):
        client.get(ID)


def test_a_queue_is_changed_in_what_is_named_and_null_is_named(site: Site) -> None:
    site.will(answer(200, {"kind": "concurrency", "name": "mail"}))
    with site.client() as client:
        client.change_queue("mail")
        client.change_queue("mail", limit=None, paused=False)
        client.change_queue("mail", rate="100/m")
        client.change_limit("concurrency", "tenant/7", None)
    assert [one.method for one in site.sent] == ["PATCH"] * 4
    assert [one.json for one in site.sent] == [{}, {"limit": None, "paused": False}, {"rate": "100/m"}, {"limit": None}]
    assert site.sent[3].path == "/v1/limits/concurrency/tenant%2F7"


def test_a_schedule_is_changed_in_what_is_named(site: Site) -> None:
    site.will(answer(200, {"name": "a/b", "workflow": "Ship"}))
    with site.client() as client:
        client.change_schedule("a/b")
        client.change_schedule("a/b", input=None, enabled=False)
        client.change_schedule("a/b", cron="0 9 * * *", tz=None, overlap="allow", catch_up=3)
    assert {(one.method, one.path) for one in site.sent} == {("PATCH", "/v1/schedules/a%2Fb")}
    assert [one.json for one in site.sent] == [
        {},
        {"input": None, "enabled": False},
        {"cron": "0 9 * * *", "tz": None, "overlap": "allow", "catch_up": 3},
    ]


def test_removing_sends_no_body_is_told_none_and_can_be_repeated(site: Site) -> None:
    site.will(drop, answer(204, b""))
    with site.client() as client:
        client.delete_schedule("nightly")
    assert_repeated(site, 2)
    assert [(one.method, one.path, one.body) for one in site.sent] == [("DELETE", "/v1/schedules/nightly", b"")] * 2
    site.will(answer(200, None))
    with site.client() as client, pytest.raises(UnexpectedAnswer):
        client.delete_schedule("nightly")


@pytest.mark.process
def test_the_client_needs_no_django() -> None:
    code = (
        "import sys\n"
        "from workflows.client import Client\n"
        "Client('https://holdpoint.example', 'hp_x').close()\n"
        "ours = {name for name in sys.modules if name.startswith('workflows')}\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules} & {'django', 'rest_framework', 'psycopg'}))\n"
        "print(sorted(name for name in ours if not name.startswith('workflows.client')))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60, env={"PATH": ""}
    )
    ours = ["workflows", *(f"workflows.importing{name}" for name in ("", ".foreign_packages", ".moved_modules"))]
    assert ran.stdout.splitlines() == ["[]", str(ours)]


def test_every_method_shows_its_use() -> None:
    methods = [value for name, value in inspect.getmembers(Client, inspect.isfunction) if name[0] != "_"]
    assert len(methods) == 37
    assert [one.__name__ for one in methods if ">>> " not in (one.__doc__ or "")] == ["close"]


def test_everything_exported_is_there_and_says_what_it_is() -> None:
    assert [name for name in package.__all__ if not inspect.getdoc(getattr(package, name))] == []
    tree = {kind for kind in vars(package).values() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert all(issubclass(kind, ApiError) for kind in tree)
    shown = sys.modules["workflows.client.errors"].__doc__ or ""
    assert sorted(kind.__name__ for kind in tree if kind.__name__ not in shown) == ["InstanceError", "Postponed"]


@pytest.mark.parametrize("name", ["errors", "wire", "transport", "values"])
def test_the_examples_in_the_docstrings_are_true(name: str) -> None:
    """Those of the client itself are in test_client_live.py."""
    ran = doctest.testmod(importlib.import_module(f"workflows.client.{name}"))
    assert ran.attempted
    assert not ran.failed
