"""The news that a page asks for every few seconds, and the clock of the page, which brings them on.

Lives here: how a test makes a page ask, and sees that it has done with the answer. A response that has come is not
enough: the page has yet to read it, and only then sets the time at which it asks again. Whoever moves the clock before
that moves it past nothing.
"""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.support.browser.visits import Visits

#: The page asks every five seconds.
EVERY = 5.1


def open_inbox(visit: Visits, user: object, address: str = "/approvals/") -> Page:
    """A page whose clock the test moves."""
    page = visit(user)
    page.clock.install()
    page.goto(address)
    return page


def wait_for_news(page: Page, seconds: float = EVERY) -> None:
    """Move the page's clock so that it asks for news, and wait until it has shown them, or that there are none."""
    wait_until_done(page)
    with page.expect_request("**/approvals/live/**"):
        page.clock.fast_forward(round(seconds * 1000))
    wait_until_done(page)


def wait_until_done(page: Page) -> None:
    """No question for news is under way, and the time of the next one is set."""
    expect(page.locator("[data-asking]")).to_have_count(0)
