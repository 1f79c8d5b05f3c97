"""Somebody at a browser: a page of their own, and everything that went wrong on it.

Lives here: opening contexts and listening to them. What must not: what a page should look like.
Invariant owned: a console error or warning, an error of a script, a violation of the Content-Security-Policy, a failed
request and a request to another host fail the test, unless it allowed them by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal
from urllib.parse import urlsplit

import pytest
from django.conf import settings
from django.test import Client
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, Route

PATIENCE_MS = 30_000
#: Chromium tells of violations on the console too, but not of all, nor which directive it was.
TELL_VIOLATIONS = """
addEventListener("securitypolicyviolation", (event) => console.error(
  `CSP: ${event.effectiveDirective} forbids ${event.blockedURI} (${event.sourceFile}:${event.lineNumber})`
));
"""
#: What a browser says when a page is left, or a script gives up, while a request is under way.
GIVEN_UP = "net::ERR_ABORTED"


class Visits:
    """All that a test opens. Called, it opens a page; see `__call__`."""

    def __init__(self, browser: Browser, url: str, *, read_fixed: Callable[[], datetime | None]) -> None:
        self._browser, self._url, self._read_fixed = browser, url, read_fixed
        self._contexts: list[BrowserContext] = []
        self._allowed: list[re.Pattern[str]] = []
        self._problems: list[str] = []

    def __call__(
        self,
        user: Any = None,
        *,
        theme: Literal["light", "dark"] = "light",
        width: int = 1440,
        height: int = 900,
        javascript: bool = True,
        touch: bool = False,
        language: str = "en",
        timezone: str = "Europe/Berlin",
        **options: Any,
    ) -> Page:
        """A new page in a browser of its own, where `user` is logged in. Addresses may begin with "/".

        Other options are those of Playwright's `new_context`.
        """
        context = self._browser.new_context(
            base_url=self._url,
            color_scheme=theme,
            viewport={"width": width, "height": height},
            java_script_enabled=javascript,
            has_touch=touch,
            is_mobile=touch,
            locale=language,
            timezone_id=timezone,
            **{"reduced_motion": "reduce", **options},
        )
        context.set_default_timeout(PATIENCE_MS)
        self._contexts.append(context)
        if user is not None:
            client = Client()
            client.force_login(user)
            name = settings.SESSION_COOKIE_NAME
            context.add_cookies([{"name": name, "value": client.cookies[name].value, "url": self._url}])
        context.add_init_script(TELL_VIOLATIONS)
        if (fixed := self._read_fixed()) is not None:
            context.clock.set_fixed_time(fixed)
        context.on("console", self._hear)
        context.on("weberror", lambda error: self._note(f"error of a script: {error.error}"))
        context.on("request", self._look_at)
        context.on("requestfailed", self._look_at_failed)
        return context.new_page()

    def allow(self, pattern: str) -> None:
        """Let problems of this test pass whose text has this regular expression."""
        self._allowed.append(re.compile(pattern))

    def list_problems(self) -> list[str]:
        """What has gone wrong until now and was not allowed."""
        return [one for one in self._problems if not any(allowed.search(one) for allowed in self._allowed)]

    def finish(self) -> None:
        """Close everything; the test fails if anything went wrong."""
        for context in self._contexts:
            context.close()
        if problems := self.list_problems():
            told = "\n".join(f"  - {one}" for one in dict.fromkeys(problems))
            pytest.fail(f"what the browser complained of:\n{told}", pytrace=False)

    def _note(self, problem: str) -> None:
        self._problems.append(problem)

    def _hear(self, message: ConsoleMessage) -> None:
        place = message.location
        # Where a page names no icon, as those of Django's admin, a browser looks for one by itself.
        if message.type in ("error", "warning") and not place["url"].endswith("/favicon.ico"):
            self._note(f"console {message.type}: {message.text} ({place['url']}:{place['lineNumber']})")

    def _look_at(self, request: Request) -> None:
        if urlsplit(request.url).scheme in ("http", "https", "ws", "wss") and not request.url.startswith(self._url):
            self._note(f"asked another host: {request.url}")

    def _look_at_failed(self, request: Request) -> None:
        if request.failure != GIVEN_UP:
            self._note(f"request failed: {request.method} {request.url}: {request.failure}")


def wait_for_held(page: Page, held: list[Route], count: int = 1) -> None:
    """Until so many requests that a route of the test keeps have come."""
    for _ in range(PATIENCE_MS // 20):
        if len(held) >= count:
            return
        page.wait_for_timeout(20)
    raise AssertionError("it was not asked for")
