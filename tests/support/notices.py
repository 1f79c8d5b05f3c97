"""Telling people, for tests: people with addresses, what was sent to whom, places outside that answer as a test says.

Lives here: what the test modules of `approvals.notify` begin with. What must not: assertions about one rule.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import django
import pytest
from django.contrib.auth.models import User
from django.core import mail
from django.core.cache import cache
from django.core.mail.backends.locmem import EmailBackend
from django.db import connection

from approvals.models import Delivery, Preference, Review
from approvals.notify import notify_sweep
from tests.support import review_calls
from workflows.conf import conf
from workflows.definitions.sweeps import Sweep, register_sweep, unregister_sweep

SITE = "https://holdpoint.example"
KEYS = {"2026-11": "n" * 40}


@pytest.fixture(autouse=True)
def site(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A site that makes links, with nobody's tries left over."""
    monkeypatch.setattr(conf, "supplies_links", False)
    settings.WORKFLOWS = {"BASE_URL": SITE, "TOKEN_KEYS": KEYS}
    cache.clear()


def make_reader(name: str, *groups: str, email: str | None = None, last_name: str = "", **preference: Any) -> User:
    """Somebody who gets mail at "ann@example.org"."""
    address = f"{name}@example.org" if email is None else email
    user = review_calls.make_person(name, *groups, email=address, last_name=last_name)
    if preference:
        prefer(user, **preference)
    return user


def prefer(user: User, **preference: Any) -> None:
    """How they like to be told."""
    how = {"email" if name == "mail" else name: value for name, value in preference.items()}
    Preference.objects.update_or_create(user=user, defaults=how)


def list_told() -> list[tuple[str, str]]:
    """(name, subject) of each mail since the last look, in the order of names."""
    told = sorted((one.to[0].partition("@")[0], one.subject) for one in mail.outbox)
    mail.outbox.clear()
    return told


def take_mail(name: str) -> Any:
    """The one mail to somebody; all others are forgotten."""
    [found] = [one for one in mail.outbox if one.to == [f"{name}@example.org"]]
    mail.outbox.clear()
    return found


def find_html(message: Any) -> str:
    """What a mail program shows."""
    [(html, kind)] = message.alternatives
    assert kind == "text/html"
    return str(html)


def list_deliveries(review: Review | None = None, **chosen: Any) -> list[Delivery]:
    """The messages of a review, the oldest first."""
    rows = Delivery.objects.filter(**chosen).order_by("pk")
    return list(rows if review is None else rows.filter(review=review))


def ask_quietly(**options: Any) -> Review:
    """The review, before anybody was told."""
    unregister_sweep("notices")
    try:
        return review_calls.ask(**options)
    finally:
        register_sweep(Sweep("notices", notify_sweep.count_seconds_to_next, notify_sweep.work))


def bring_forward() -> None:
    """As if the moment for which each message waits had come."""
    with connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_delivery SET due_at = holdpoint_now() WHERE due_at IS NOT NULL")


class FailingBackend(EmailBackend):
    """Django's own backend for tests, but for mails that a test wants to fail; those fail as it says."""

    #: Called with each mail; what it raises is raised.
    fail: Callable[[Any], None] = staticmethod(lambda message: None)
    lock = threading.Lock()

    def send_messages(self, messages: Any) -> int:
        for message in messages:
            type(self).fail(message)
        with self.lock:
            return super().send_messages(messages)


def use_backend(settings: Any, path: str, **options: Any) -> None:
    """Let mails go through this backend, by whichever setting this Django reads; Django before 6.1 has no options."""
    if django.VERSION >= (6, 1):
        settings.MAILERS = {"default": {"BACKEND": path, "OPTIONS": options}}
    else:
        settings.EMAIL_BACKEND = path


@pytest.fixture(name="failing")
def use_failing_backend(settings: Any) -> Iterator[type[FailingBackend]]:
    """A backend whose `fail` a test sets."""
    use_backend(settings, f"{__name__}.FailingBackend")
    yield FailingBackend
    FailingBackend.fail = staticmethod(lambda message: None)


# --- places outside ---------------------------------------------------------------------------------------


class Place:
    """A server that keeps what it was sent, and answers as a test says."""

    def __init__(self) -> None:
        self.url = ""
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.answer: Callable[[Any], None] = answer(200, b"ok")
        self.over = threading.Event()

    def list_events(self) -> list[Any]:
        """The bodies, since the last look."""
        found = [json.loads(body) for _, body in self.got]
        self.got.clear()
        return found


def answer(status: int, body: bytes = b"", **headers: str) -> Callable[[Any], None]:
    """An ordinary answer."""

    def give(handler: Any) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return give


class _Handler(BaseHTTPRequestHandler):
    place: Place

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.place.got.append((dict(self.headers), body))
        self.place.answer(self)

    def do_GET(self) -> None:
        raise AssertionError("nobody reads from a place")

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    #: So many may call at once: beyond it the kernel breaks connections off while a slow machine accepts the first.
    request_queue_size = 128


@contextmanager
def serving() -> Iterator[Place]:
    """A place at 127.0.0.1."""
    place = Place()
    server = _Server(("127.0.0.1", 0), type("_OneHandler", (_Handler,), {"place": place}))
    place.url = f"http://127.0.0.1:{server.server_port}/services/T0/B0/canarypath0123456789ABC"
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield place
    finally:
        place.over.set()
        server.shutdown()
        server.server_close()


class Killed(BaseException):
    """A worker that dies where it stands."""
