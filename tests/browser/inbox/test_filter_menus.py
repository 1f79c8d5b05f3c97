"""The menus of the bar: whatever the width, all of them is in the window."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from approvals import Outcome
from tests.browser.conftest import Site
from tests.support.browser.visits import Visits
from tests.support.review_calls import ask, make_person


@pytest.mark.parametrize("widths", [(375,), (1024, 1360, 1600)])
def test_the_reasons_open_inside_the_window(visit: Visits, site: Site, widths: tuple[int, ...]) -> None:
    ann = make_person("ann", "finance")
    review = ask(groups=["finance"], outcomes=["approve", Outcome("reject", presets=["No receipt", "Too late"])])
    is_phone = widths[0] < 700
    page = visit(ann, width=widths[0], height=900, touch=is_phone)
    page.goto(f"/approvals/{review.pk}/" if is_phone else "/approvals/")
    if not is_phone:
        page.locator(".request-link").click()
    summary = page.locator(".decision-bar summary").filter(has_text="Reject")
    panel = page.locator(".decision-bar .menu[open] .menu-panel")
    for width in widths:
        page.set_viewport_size({"width": width, "height": 900})
        summary.click()
        expect(panel).to_be_visible()
        box = panel.bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        assert box["y"] >= 0
        assert box["y"] + box["height"] <= 900
        expect(page.get_by_role("button", name="No receipt")).to_be_in_viewport()
        summary.click()
        expect(panel).to_have_count(0)
