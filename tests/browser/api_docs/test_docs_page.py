"""/v1/docs in a browser: accessible wherever it is read, and nothing of it comes from elsewhere."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.support.browser.judges import check_axe, check_fits, weigh
from tests.support.browser.pictures import shoot
from tests.support.browser.served import Site
from tests.support.browser.visits import Visits

#: For the whole page some rules of axe take seconds: of each group one operation stays.
LEAVE_SAMPLE = """() => {
  const others = [...document.querySelectorAll(".docs-group > .docs-op:not(:first-of-type)")];
  for (const one of others) {
    document.querySelectorAll(`a[href="#${one.id}"]`).forEach((link) => (link.closest("li") || link).remove());
    one.remove();
  }
  return others.length;
}"""


def test_it_is_read_at_a_desk(visit: Visits, site: Site) -> None:
    page = visit()
    weight = weigh(page, "/v1/docs")
    assert set(weight.kinds) - {"other"} == {"document", "stylesheet"}  # the icon is "other", and comes when it likes
    check_axe(page, without=("color-contrast",))
    check_fits(page)
    shoot(page, "api-docs", whole=False)
    page.get_by_role("navigation").get_by_role("link").nth(3).click()
    expect(page.locator(":target")).to_be_in_viewport()
    assert page.evaluate(LEAVE_SAMPLE) > 20
    check_axe(page)


def test_it_is_read_on_a_phone_at_night(visit: Visits, site: Site) -> None:
    page = visit(theme="dark", width=375, height=720, touch=True)
    page.goto("/v1/docs")
    check_fits(page)
    shoot(page, "api-docs-phone-dark", whole=False)
    assert page.evaluate(LEAVE_SAMPLE) > 20
    check_axe(page)
