"""The example's payment service, in process and through the site that the project runs."""

from __future__ import annotations

import json
import socket
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

import workflows
from examples import hooks as example
from tests.support.hook_posts import post
from tests.support.processes import Process, find_free_port, wait_until
from tests.support.pumps import pumping
from workflows.hooks import definition, stripe
from workflows.models import HookReceipt, Instance, NamedEvent
from workflows.testing import advance, assert_awaiting, assert_done, drain

SECRET = "whsec_of_the_payment_service"
provider = stripe(SECRET)


@pytest.fixture(autouse=True)
def payment_service(monkeypatch: pytest.MonkeyPatch, own_hooks: None, settings: Any) -> None:
    """The hook of the example, and a service that was asked for nothing yet."""
    settings.PAYMENTS_SECRETS = ["the newest", SECRET]
    workflows.hook("payments", verify=stripe(lambda: settings.PAYMENTS_SECRETS))(example.take_payment)
    assert definition.find_hook("payments")
    monkeypatch.setattr(example, "intents", {})


def tell(intent: str, kind: str, id: str) -> dict[str, Any]:
    return {"id": id, "type": kind, "data": {"object": {"id": intent, "amount": 120}}}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("kind", "status"), [("payment_intent.succeeded", "paid"), ("payment_intent.payment_failed", "refused")]
)
def test_a_payment_ends_as_its_service_says(kind: str, status: str) -> None:
    payment = workflows.start("demo.collect", {"amount": 120})
    drain()
    [intent] = example.intents.values()
    assert intent["amount"] == 120
    assert post("payments", tell(intent["id"], "payment_intent.created", "evt_0"), sign=provider).status_code == 200
    drain()
    assert_awaiting(payment, "payment.ended")
    for _ in range(2):
        assert post("payments", tell(intent["id"], kind, "evt_1"), sign=provider).status_code == 200
    drain()
    assert_done(payment, result={"intent": intent["id"], "status": status})
    assert NamedEvent.objects.count() == 1


@pytest.mark.django_db
def test_a_payment_of_which_the_service_tells_nothing_ends_after_three_days() -> None:
    payment = workflows.start("demo.collect", {"amount": 120})
    advance("3d")
    assert_done(payment, result={"intent": f"pi_{payment.pk}", "status": "unknown"})


def announce(port: int, length: int, wanted: str, *, close: bool = False) -> bool:
    """Send one byte of so many; whether that is told, or the server just ends the connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as line:
        head = f"POST /hooks/payments HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n"
        line.sendall(head.encode() + b"{")
        if close:
            line.shutdown(socket.SHUT_WR)
        told = b""
        while wanted.encode() not in told and (part := line.recv(65536)):
            told += part
    return not told or wanted.encode() in told


@pytest.mark.process
@pytest.mark.django_db(transaction=True)
@pytest.mark.usefixtures("committed")
def test_the_running_site_takes_it_once() -> None:
    port = find_free_port()
    server = Process(
        *("-m", "granian", "--interface", "wsgi", "--host", "127.0.0.1", "--port", str(port), "--no-ws"),
        *("--workers", "1", "--blocking-threads", "8", "config.wsgi:application"),
        PAYMENTS_SECRETS=f"the newest,{SECRET}",
    )

    def is_up() -> bool:
        try:
            return bool(urlopen(f"http://127.0.0.1:{port}/healthz", timeout=10).status == 200)
        except OSError:
            return False

    def send(data: Any, headers: dict[str, str], name: str = "payments") -> tuple[int, Any]:
        raw = json.dumps(data).encode()
        request = Request(f"http://127.0.0.1:{port}/hooks/{name}", data=raw, headers=headers)
        try:
            with urlopen(request, timeout=30) as answer:
                return answer.status, (json.loads(answer.read()), answer.headers.get("Idempotency-Replayed"))
        except HTTPError as refused:
            return refused.code, json.loads(refused.read())["type"]

    def sign(data: Any, verifier: Any = provider) -> dict[str, str]:
        return {"Content-Type": "application/json", **verifier.sign(json.dumps(data).encode())}

    try:
        wait_until(is_up, "the server to answer")
        payment = workflows.start("demo.collect", {"amount": 120})
        paid = tell(f"pi_{payment.pk}", "payment_intent.succeeded", "evt_1")
        assert send(paid, sign(paid, stripe("guessed"))) == (401, "urn:holdpoint:problem:not-verified")
        assert send(paid, {}) == (401, "urn:holdpoint:problem:not-verified")
        assert send(paid, sign(paid), "nobody") == (404, "urn:holdpoint:problem:not-found")
        assert announce(port, 60 * 1024 * 1024, "problem:too-large")
        assert announce(port, 100, "the connection broke", close=True)
        assert not HookReceipt.objects.exists()
        assert send(paid, sign(paid)) == (200, ({"received": True}, None))
        assert send(paid, sign(paid)) == (200, ({"received": True}, "true"))
        with pumping():
            wait_until(lambda: Instance.objects.get(pk=payment.pk).status == "done", "the payment to end")
        assert workflows.result(payment) == {"intent": f"pi_{payment.pk}", "status": "paid"}
        assert HookReceipt.objects.count() == NamedEvent.objects.count() == 1
    finally:
        server.end()
