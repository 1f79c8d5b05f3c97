"""The page behind a callback link, for tests: workflows that hand their link out, and somebody who opens it.

Lives here: parking, the link, and a browser that fills the page in. What must not: assertions about one rule.
"""

import pytest
from django.db import connections
from django.test import Client

import workflows
from tests.support.html_pages import Page
from workflows import Await, Done, Workflow, step
from workflows.conf import conf
from workflows.models import AwaitUnit, Instance, Interaction, LedgerEvent, Signal, StoredAnswer
from workflows.testing import assert_awaiting, drain

KEYS = {"2026-11": "n" * 40}
#: What a browser says that it likes.
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
handed: dict[str, str] = {}
SCHEMA = {
    "title": "Confirm the delivery",
    "description": "Missing parts are sent again.",
    "type": "object",
    "required": ["count", "lines"],
    "properties": {
        "count": {"type": "integer", "minimum": 1},
        "note": {"type": "string"},
        "lines": {
            "type": "array",
            "items": {"type": "object", "required": ["part"], "properties": {"part": {"type": "string"}}},
        },
    },
}


class PageAsk(Workflow):
    @step
    def ask(self, ctx):
        delivery = ctx.callback("delivery", schema=SCHEMA)
        handed["url"], handed["token"] = delivery.resume_url, delivery.resume_token
        return Await(delivery, then="end", timeout="24h")

    @step
    def end(self, ctx):
        return Done({"answer": ctx.answer, "timed_out": ctx.timed_out})


class PageFree(Workflow):
    """No schema, no deadline."""

    @step
    def ask(self, ctx):
        free = ctx.callback("free_words")
        handed["url"], handed["token"] = free.resume_url, free.resume_token
        return Await(free, then="end")

    @step
    def end(self, ctx):
        return Done(ctx.answer)


@pytest.fixture(autouse=True)
def fresh(settings, monkeypatch):
    monkeypatch.setattr(conf, "supplies_links", False)
    handed.clear()
    settings.WORKFLOWS = {"BASE_URL": "https://holdpoint.example", "TOKEN_KEYS": KEYS}


def park(workflow=PageAsk) -> Instance:
    instance = workflows.start(workflow)
    drain()
    return assert_awaiting(instance)


def url() -> str:
    return handed["url"].removeprefix("https://holdpoint.example")


def change(assignment: str, *params: object) -> None:
    """What no call of the engine does yet: change a question while it waits."""
    with connections["default"].cursor() as cursor:
        cursor.execute(f"UPDATE holdpoint_interaction SET {assignment}", params)


class Browser:
    """Somebody at a page: keeps cookies, sends the form that is shown."""

    def __init__(self, *, secure: bool = False) -> None:
        self.client = Client(enforce_csrf_checks=True)
        self.secure = secure

    @property
    def headers(self) -> dict[str, str]:
        return {"Accept": BROWSER}

    def open(self, at: str | None = None):
        return self.client.get(at or url(), headers=self.headers, secure=self.secure)

    def send(self, answer, *, at: str | None = None, headers: dict[str, str] | None = None, **changes):
        sent = Page(answer.text).send(**changes)
        return self.client.post(
            at or url(),
            sent.urlencode(),
            content_type="application/x-www-form-urlencoded",
            headers={**self.headers, **(headers or {})},
            secure=self.secure,
        )


def check(answer, status: int, words: str = ""):
    """A page of ours, with all that it promises."""
    assert answer.status_code == status, answer.text
    assert answer["Content-Type"] == "text/html; charset=utf-8"
    assert answer["Cache-Control"] == "no-store"
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert answer["Referrer-Policy"] == ("strict-origin" if "<form" in answer.text else "no-referrer")
    assert {"Accept", "Cookie"} <= {name.strip() for name in answer["Vary"].split(",")}
    assert answer["Content-Security-Policy"] == (
        "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; "
        "base-uri 'none'"
    )
    page = Page(answer.text)
    page.check()
    assert "action" not in page.names
    assert "http:" not in answer.text.replace("http://www.w3.org/2000/svg", "")
    if handed:
        assert handed["token"] not in answer.text
        assert "/resume" not in answer.text
    assert words in " ".join(page.words.split()), page.words
    return page


def snapshot() -> list:
    """All that an answer could change."""
    tables = (Instance, Interaction, AwaitUnit, Signal, LedgerEvent, StoredAnswer)
    return [list(table.objects.order_by("pk").values()) for table in tables]
