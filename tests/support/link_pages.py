"""One-person links, for tests: somebody at the page of one, and workflows that ask.

Lives here: what the test modules of links begin with. What must not: assertions about one rule.
"""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.test import Client

import workflows
from approvals import Approval, Outcome
from approvals.access.personal_links import make_link, make_link_token
from approvals.models import Candidate, Comment, Delivery, Notice, Review, Snooze, Vote
from tests.support.html_pages import Page
from workflows import Await, Done, Workflow, step
from workflows.conf import conf
from workflows.models import AwaitUnit, Instance, Interaction, LedgerEvent, Signal
from workflows.testing import drain

SITE = "https://holdpoint.example"
KEYS = {"2026-11": "n" * 40}
FORM = "application/x-www-form-urlencoded"
SCHEMA = {
    "type": "object",
    "required": ["amount"],
    "properties": {
        "amount": {"type": "integer", "minimum": 1, "title": "Amount"},
        "lines": {
            "type": "array",
            "items": {"type": "object", "properties": {"part": {"type": "string"}}, "required": ["part"]},
        },
    },
}


class LinkAsk(Workflow):
    """Asks once; `about` is a user whose first name is to change."""

    name = "links-ask"

    @step
    def ask(self, ctx: Any) -> Any:
        given = {**ctx.input}
        if (about := given.pop("about", None)) is not None:
            given |= {"subject": User.objects.get(username=about), "change": {"first_name": "Zoe"}}
        if given.pop("fails", False):
            given["on_decision"] = fail
        if presets := given.pop("presets", None):
            given["outcomes"] = ("approve", Outcome("reject", requires_reason=True, presets=presets))
        return Await(Approval(given.pop("title", "Refund €40.00"), **given), then="end", timeout="7d")

    @step
    def end(self, ctx: Any) -> Any:
        return Done(None if ctx.answer is None else {"outcome": ctx.answer.outcome, "data": ctx.answer.data})


class LinkTwice(Workflow):
    """Asks two people, one after the other."""

    name = "links-twice"

    @step
    def first(self, ctx: Any) -> Any:
        return Await(Approval("First", assignees=["ann"]), then="second", timeout="7d")

    @step
    def second(self, ctx: Any) -> Any:
        return Await(Approval("Second", assignees=["ann", "cid"]), then="end", timeout="7d")

    @step
    def end(self, ctx: Any) -> Any:
        return Done(ctx.answer.outcome)


@pytest.fixture(autouse=True)
def site(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conf, "supplies_links", False)
    settings.WORKFLOWS = {"BASE_URL": SITE, "TOKEN_KEYS": KEYS}
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    cache.clear()


@pytest.fixture(name="ann")
def make_ann() -> User:
    return User.objects.create_user("ann", password="ann's own", first_name="Ann", last_name="Archer")


@pytest.fixture(name="ben")
def make_ben() -> User:
    return User.objects.create_user("ben", first_name="Ben", last_name="Okafor")


def fail(answer: Any, instance: Any) -> None:
    raise ValueError("no such account")


def ask(**options: Any) -> Review:
    instance = workflows.start(LinkAsk, options)
    drain()
    return Review.objects.get(instance=instance)


class Visitor:
    """Somebody who has opened a link in a browser without any session."""

    def __init__(self, review: Review, user: Any, *, client: Client | None = None) -> None:
        self.client = client or Client(enforce_csrf_checks=True)
        self.at = make_link(review, user).removeprefix(SITE)
        self.token = make_link_token(review, user)
        self.page: Page | None = None

    def open(self, query: str = "", status: int = 200) -> str:
        return self._read(self.client.get(self.at + query), status)

    def send(self, *, status: int = 303, **changes: Any) -> str:
        """Press a button of the page that is open, after filling in fields: `data__amount` is data/amount."""
        assert self.page is not None
        sent = self.page.send(**{name.replace("__", "/"): text for name, text in changes.items()})
        answer = self.client.post(self.at, sent.urlencode(), content_type=FORM)
        if status == 303:
            assert answer.status_code == 303, answer.text
            assert answer["Location"] == self.at
            return self.open()
        return self._read(answer, status)

    def _read(self, answer: Any, status: int) -> str:
        """The words of a page of ours, which keeps all its promises."""
        assert answer.status_code == status, answer.text
        assert answer["Cache-Control"] == "no-store"
        assert answer["X-Frame-Options"] == "DENY"
        assert answer["X-Robots-Tag"] == "noindex, nofollow, noarchive"
        assert answer["X-Content-Type-Options"] == "nosniff"
        # With a form a browser has to tell its host, and tells nothing more; see workflows.pages.response.
        assert answer["Referrer-Policy"] == ("strict-origin" if "<form" in answer.text else "no-referrer")
        assert answer["Content-Security-Policy"] == (
            "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; frame-ancestors 'none'; "
            "base-uri 'none'"
        )
        assert {"Accept-Language", "Cookie"} <= {one.strip() for one in answer["Vary"].split(",")}
        assert self.token not in answer.text
        self.page = Page(answer.text)
        if status < 500:  # there everything typed is hidden, to be sent again
            self.page.check()
        assert "action" not in self.page.names
        return " ".join(self.page.words.split())

    def list_buttons(self) -> list[str]:
        answer = self.client.get(self.at)
        return [part.split('"')[0] for part in answer.text.split('name="outcome" value="')[1:]]


def snapshot() -> list[Any]:
    """All that anything here could change."""
    tables = (Instance, Interaction, AwaitUnit, Signal, LedgerEvent, Review, Candidate, Vote, Comment, Snooze)
    return [list(table.objects.order_by("pk").values()) for table in (*tables, Notice, Delivery)]
