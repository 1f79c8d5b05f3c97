"""Somebody at the page of many requests, for tests.

Lives here: what the test modules of `/approvals/bulk/` begin with. What must not: assertions about one rule.
"""

from __future__ import annotations

import re
from html import unescape
from typing import Any

from django.contrib.auth.models import User
from django.http import QueryDict
from django.test import Client

from approvals.models import Review
from tests.support.html_pages import Page
from tests.support.review_calls import ask_all

AT = "/approvals/bulk/"


class Browser:
    """Somebody at the page, who presses what is on it."""

    def __init__(self, user: User) -> None:
        self.client = Client(enforce_csrf_checks=True)
        self.client.force_login(user)
        self.at, self.page, self.html = AT, Page(""), ""

    def open(self, query: str = "", status: int = 200) -> str:
        self.at = f"{AT}?{query}" if query else AT
        return self._read(self.client.get(self.at), status)

    def open_picked(self, *reviews: Review) -> str:
        return self.open("&".join(f"pick={one.pk}" for one in reviews))

    def press(self, outcome: str = "approve", status: int = 200, **changes: Any) -> str:
        """A button of the page that is open; the undo button is named "do"."""
        return self._read(self.post(self.fill(outcome=outcome, **changes)), status)

    def fill(self, **changes: Any) -> QueryDict:
        """What is on the page, with changes."""
        sent = self.page.send().copy()
        for name, value in changes.items():
            sent.setlist(name, value if isinstance(value, list) else [value])
        return sent

    def undo(self) -> str:
        return self._read(self.post(self.fill(do="undo")), 200)

    def post(self, sent: Any) -> Any:
        body = sent.urlencode()
        return self.client.post(self.at, body, content_type="application/x-www-form-urlencoded")

    def _read(self, answer: Any, status: int) -> str:
        assert answer.status_code == status, read_words(answer.text)[:1000]
        assert answer["Cache-Control"] == "no-store"
        assert "default-src 'none'" in answer["Content-Security-Policy"]
        assert " style=" not in answer.text
        assert "<script>" not in answer.text
        self.html, self.page = answer.text, Page(answer.text)
        assert len(self.page.ids) == len(set(self.page.ids))
        return read_words(answer.text)

    @property
    def ticked(self) -> list[str]:
        """The ids of the boxes that are ticked and can be sent."""
        found = re.findall(r'name="pick" value="([0-9a-f-]+)" checked', self.html)
        return [str(one) for one in found]

    def told(self, review: Review) -> str:
        """What its row says."""
        [row] = re.findall(rf'<tr[^>]*data-id="{review.pk}">(.*?)</tr>', self.html, re.DOTALL)
        return read_words(row)


def read_words(html: str) -> str:
    """What stands on a page, whatever it stands in."""
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def ask_many(n: int, **options: Any) -> list[Review]:
    given = {"assignees": ["ann"], "requester": None, **options}
    return ask_all(
        {
            "title": f"Refund {number}",
            "request": {"amount": f"{number}.50", "currency": "EUR", "rule": "late"},
            **given,
        }
        for number in range(1, n + 1)
    )
