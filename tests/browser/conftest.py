"""A served site, a Chromium, and people who visit the one with the other.

Lives here: fixtures; what they do is in `served`, `visits`, `judges` and `pictures`, and the markers of every test
below: they are ordinary tests, whose rows are rolled back.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from typing import Any

import pytest
from django.core.cache import cache
from django.db import DEFAULT_DB_ALIAS, connections
from playwright.sync_api import Browser, expect, sync_playwright

from tests.support.browser.served import Served, Site
from tests.support.browser.visits import Visits
from tests.support.browser.world import Desk, make_desk

KEYS = {"2026-11": "n" * 40}
NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
PATIENCE = 300
EXPECT_MS = 15_000
#: Chromium draws the menus below its address bar with pages of its own, made anew with every window, though nobody sees
#: them: half of what a short visit costs. It obeys only the last list, so in this one stands Playwright's own as well.
TURNED_OFF = (
    "WebUIOmniboxPopup",
    "WebUIOmniboxAimPopup",
    "WebUIOmniboxFullPopup",
    "AimEnabled",
    "AvoidUnnecessaryBeforeUnloadCheckSync",
    "DestroyProfileOnBrowserClose",
    "HttpsFirstBalancedModeAutoEnable",
    "HttpsUpgrades",
    "LensOverlay",
    "MediaRouter",
    "NetworkTimeServiceQuerying",
    "OptimizationHints",
    "PaintHolding",
    "PreconnectToSearch",
    "ThirdPartyStoragePartitioning",
)
OPTIONS = ["--font-render-hinting=none", "--disable-gpu", f"--disable-features={','.join(TURNED_OFF)}"]
MISSING = "there is no Chromium: `apt install chromium fonts-noto-cjk`, or name one with CHROMIUM=/path/to/chromium"


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.browser)
    item.add_marker(pytest.mark.django_db)


# For the package and not for the session: as long as Playwright runs, an event loop stands still in this thread. Tests
# elsewhere want to run one, and Django keeps its connections apart by that.
@pytest.fixture(scope="package")
def chromium() -> Iterator[Browser]:
    """One browser for the browser tests of this worker: the system's, never one that Playwright loads."""
    path = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if path is None and os.environ.get("CI", "").lower() in ("1", "true"):
        pytest.fail(MISSING, pytrace=False)
    if path is None:
        pytest.skip(MISSING)
    with sync_playwright() as playwright, pytest.MonkeyPatch.context() as patch:
        # Patience only: a machine may be slow.
        expect.set_options(timeout=EXPECT_MS)
        # Otherwise Django refuses to ask the database where a loop is.
        patch.setenv("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
        browser = playwright.chromium.launch(executable_path=path, args=OPTIONS)
        yield browser
        browser.close()
        connections.close_all()


@pytest.fixture(scope="package")
def served() -> Iterator[Served]:
    """One server for the browser tests of this worker."""
    one = Served()
    yield one
    one.close()


@pytest.fixture
def site(served: Served, db: None, settings: Any) -> Iterator[Site]:
    """The site, served from the test's own transaction; links lead to it."""
    settings.WORKFLOWS = {**settings.WORKFLOWS, "BASE_URL": served.url, "TOKEN_KEYS": KEYS}
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
    cache.clear()
    with served.lending(connections[DEFAULT_DB_ALIAS]):
        yield Site(served)


@pytest.fixture
def desk(site: Site) -> Desk:
    """The people of the inbox, on a served site."""
    return make_desk()


@pytest.fixture
def visit(chromium: Browser, site: Site) -> Iterator[Visits]:
    """Opens pages: `page = visit(ann, theme="dark")`; whatever goes wrong on them fails the test."""
    visits = Visits(chromium, site.url, read_fixed=lambda: site.fixed)
    before = signal.signal(signal.SIGALRM, _give_up)
    signal.alarm(PATIENCE)
    try:
        yield visits
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        visits.finish()


def _give_up(*_: object) -> None:
    # Not everything that Playwright waits for has a limit of its own.
    raise TimeoutError(f"the browser test took longer than {PATIENCE} s")
