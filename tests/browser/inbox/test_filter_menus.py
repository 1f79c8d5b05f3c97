"""The menus of the bar: whatever the width, all of them is in the window."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from approvals import Outcome
from tests.browser.conftest import Site
from tests.support.browser.visits import Visits
from tests.support.review_calls import ask, make_person


@pytest.mark.parametrize("width", [375, 1024, 1360, 1600])
def test_the_reasons_open_inside_the_window(visit: Visits, site: Site, width: int) -> None:
    ann = make_person("ann", "finance")
    review = ask(groups=["finance"], outcomes=["approve", Outcome("reject", presets=["No receipt", "Too late"])])
    page = visit(ann, width=width, height=900, touch=width < 700)
    page.goto(f"/approvals/{review.pk}/" if width < 700 else "/approvals/")
    if width >= 700:
        page.locator(".request-link").click()
    summary = page.locator(".decision-bar summary").filter(has_text="Reject")
    summary.click()
    panel = page.locator(".decision-bar .menu[open] .menu-panel")
    expect(panel).to_be_visible()
    box = panel.bounding_box()
    assert box is not None
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    assert box["y"] >= 0
    assert box["y"] + box["height"] <= 900
    expect(page.get_by_role("button", name="No receipt")).to_be_in_viewport()
