"""A body that is shorter than was announced is no answer: a phone that loses its network must not pay half."""

from __future__ import annotations

import json
import socket
from io import BytesIO
from typing import Any
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pytest
from django.core.handlers.wsgi import WSGIRequest
from django.http import HttpResponse, UnreadablePostError
from django.test import Client
from django.test.client import BOUNDARY, MULTIPART_CONTENT, RequestFactory, encode_multipart

import workflows
from approvals.models import Vote
from config.wsgi import Body
from tests.support.answer_pages import Browser
from tests.support.api_calls import make_key
from tests.support.html_pages import Page
from tests.support.processes import Process, find_free_port, wait_until
from tests.support.request_page import Desk
from tests.support.review_calls import ask as ask_people
from tests.support.review_calls import make_person
from workflows import durable
from workflows.models import Instance, Interaction, Signal
from workflows.testing import assert_awaiting, drain

FORM = "application/x-www-form-urlencoded"
handed: dict[str, str] = {}


@durable(name="cut-pay")
def pay(ctx: Any) -> Any:
    link = ctx.callback("pay", timeout="1d", schema={"payment_id": str})
    handed["token"] = link.resume_token
    return link.wait()


def ask() -> tuple[Instance, str]:
    """An instance that waits, and the path of its resume address."""
    instance = workflows.start(pay)
    drain()
    return assert_awaiting(instance), f"/resume/{handed['token']}"


def cut(path: str, body: str | bytes, kind: str, *, lost: int = 5, client: Client | None = None, **headers: str) -> Any:
    """Post less than is announced, in process."""
    raw = body.encode() if isinstance(body, str) else body
    wire: dict[str, Any] = {"CONTENT_LENGTH": str(len(raw)), "wsgi.input": BytesIO(raw[:-lost])}
    return (client or Client()).generic("POST", path, raw, content_type=kind, headers=headers, **wire)


# --- in process ---------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_json_that_was_cut_off_is_refused_though_what_came_reads_as_json() -> None:
    instance, path = ask()
    whole = json.dumps({"data": {"payment_id": "PAY-12"}}) + " " * 20
    for address in (path, "/v1/signals/none/complete", f"/v1/instances/{instance.pk}/signals", "/v1/events"):
        answer = cut(address, whole, "application/json", Authorization=f"Bearer {make_key()}")
        assert answer.status_code == 400, (address, answer.content)
        assert "the connection broke" in answer.json()["detail"]
    assert Interaction.objects.get(instance=instance).status == "pending"


@pytest.mark.django_db
@pytest.mark.parametrize("kind", [FORM, MULTIPART_CONTENT])
def test_the_form_of_a_resume_address_that_was_cut_off_is_refused(kind: str) -> None:
    instance, path = ask()
    browser = Browser()
    sent = Page(browser.open(path).text).send(**{"data/payment_id": "PAY-1200000"}).dict()
    raw = sent | {"data/payment_id": sent.pop("data/payment_id")}  # the last of all
    body = urlencode(raw).encode() if kind == FORM else encode_multipart(BOUNDARY, raw)
    lost = len(body) - body.index(b"00000")
    answer = cut(path, body, kind, lost=lost, client=browser.client, **browser.headers)
    assert answer.status_code == 400, answer.text
    assert "not all of it came" in answer.text
    assert Interaction.objects.get(instance=instance).status == "pending"


@pytest.mark.django_db
def test_the_page_of_an_approval_refuses_what_was_cut_off() -> None:
    ann = Desk(make_person("ann", "finance"))
    review = ask_people(groups=["finance"])
    card = ann.open(review, part=True).context["card"]
    body = urlencode({"version": str(card.version), "seen": card.seen, "outcome": "approve", "reason": "fine by me"})
    answer: HttpResponse = cut(f"/approvals/{review.pk}/", body, FORM, client=ann.client)
    assert answer.status_code == 400
    assert not Vote.objects.exists()


def read_parts(body: bytes, announced: int, how: str) -> bytes:
    """As Django reads: at once, in parts, by lines."""
    stream = Body(BytesIO(body), announced)
    if how == "lines":
        return b"".join(iter(stream.readline, b""))
    parts = [stream.read(announced)] if how == "whole" else []
    while how == "parts" and sum(map(len, parts)) < announced:
        parts.append(stream.read(min(4, announced - sum(map(len, parts)))))
    return stream.read() if how == "rest" else b"".join(parts)


@pytest.mark.parametrize("how", ["whole", "parts", "lines", "rest"])
def test_the_sites_own_server_tells_an_end_that_came_too_early(how: str) -> None:
    assert read_parts(b"a\nbc\ndefgh", 10, how) == b"a\nbc\ndefgh"
    assert read_parts(b"", 0, how) == b""
    with pytest.raises(ConnectionError):
        read_parts(b"a\nbc\nd", 10, how)


def test_django_takes_it_for_a_body_that_cannot_be_read() -> None:
    body = b"a=1&b=2"
    environ = RequestFactory().get("/").META | {"CONTENT_LENGTH": "20", "CONTENT_TYPE": FORM, "REQUEST_METHOD": "POST"}
    environ["wsgi.input"] = Body(BytesIO(body), 20)
    with pytest.raises(UnreadablePostError):
        _ = WSGIRequest(environ).POST


# --- over a socket ------------------------------------------------------------------------------------


def send_cut(port: int, head: str, body: bytes, lost: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
        line.sendall(f"{head}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body[:-lost])
        line.shutdown(socket.SHUT_WR)
        answer = b""
        while part := line.recv(65536):
            answer += part
        return answer


@pytest.mark.process
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("committed")
def test_the_server_that_the_project_runs_takes_no_half_of_a_body() -> None:
    key, port = make_key(), find_free_port()
    instance, _path = ask()
    server = Process(
        *("-m", "granian", "--interface", "wsgi", "--host", "127.0.0.1", "--port", str(port), "--no-ws"),
        *("--workers", "1", "--blocking-threads", "8", "config.wsgi:application"),
    )

    def is_up() -> bool:
        try:
            return bool(urlopen(Request(f"http://127.0.0.1:{port}/healthz"), timeout=10).status == 200)
        except OSError:
            return False

    head = f"Host: 127.0.0.1:{port}\r\nConnection: close\r\nAuthorization: Bearer {key}"
    signal = json.dumps({"name": "paid", "payload": 12}).encode() + b" " * 40
    parts = encode_multipart(BOUNDARY, {"username": "ann", "password": "secret-1200000"})
    try:
        wait_until(is_up, "the server to answer")
        login = "POST /login/ HTTP/1.1"
        address = f"POST /v1/instances/{instance.pk}/signals HTTP/1.1"
        answers = [
            send_cut(port, f"{address}\r\n{head}\r\nContent-Type: application/json", signal, 10),
            send_cut(port, f"{login}\r\n{head}\r\nContent-Type: {FORM}", b"username=ann&password=x120", 3),
            send_cut(port, f"{login}\r\n{head}\r\nContent-Type: {MULTIPART_CONTENT}", parts, 60),
        ]
        for answer in answers:  # where the server itself gives up, there is none
            assert not answer or b" 400 " in answer.split(b"\r\n", 1)[0] or b" 403 " in answer.split(b"\r\n", 1)[0]
        assert not Signal.objects.filter(instance=instance).exists()
        whole = Request(
            f"http://127.0.0.1:{port}/v1/instances/{instance.pk}/signals",
            data=signal,
            headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"},
        )
        assert urlopen(whole, timeout=20).status == 202
    finally:
        server.end()
