"""Words from outside in the inbox: nothing of them runs, leads astray, leaves its place or breaks the page; and the
page itself the other way round."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from approvals import Outcome, decide
from approvals.actions import actions
from approvals.models import Review
from examples.models import Invoice
from tests.support.browser.judges import check_axe, check_fits, check_page, check_touch
from tests.support.browser.pictures import shoot
from tests.support.browser.served import Site
from tests.support.browser.visits import Visits
from tests.support.browser.world import (
    PHONE,
    Desk,
    SmallRefund,
    ask,
    ask_day,
    ask_three,
    find_detail,
    find_row,
)
from tests.support.browser.world import read_again as again

SCRIPT = "<script>window.ran=1</script><img src=x onerror='window.ran=1'><style>body{display:none}</style>"
CLOSING = (
    '</template></textarea></title></form><button name="outcome" value="approve">Approve a</button>'
    "\"'><svg onload=ran=1>"
)
LONG = "ab" * 5_000
HIDING = "\u202e\u202c\u2066\u200b\u200e"
TURNED = "pay \u202e0021€\u202c now \u2066abc \u200b\u200e x"
BRACES = "{{ 7*7 }} {% load x %} ${7*7} {title} %(title)s {n} {s} "
#: What reaches beyond its box, and is neither cut off nor scrolled there; marks may stand out by a few pixels.
INSIDE = """(where) => [...document.querySelectorAll(where)].flatMap((box) => {
  const at = box.getBoundingClientRect();
  return [...box.querySelectorAll("*")].filter((one) => {
    const own = one.getBoundingClientRect();
    if (!own.width || one.closest(".vh, svg, .menu-panel")) return false;
    for (let up = one.parentElement; up !== box.parentElement; up = up.parentElement) {
      if (getComputedStyle(up).overflowX !== "visible") return false;
    }
    return own.right > at.right + 8 || own.left < at.left - 8;
  }).map((one) => `${one.localName}.${one.className}`);
})"""


def ask_badly(desk: Desk, words: str, **options: Any) -> Review:
    """One whose every word is theirs."""
    short = words[:90]
    desk.ben.first_name, desk.ben.last_name = short, words[:140]
    desk.ben.save()
    label = short.encode("ascii", "ignore").decode()  # a schema is the project's own code
    invoice = Invoice.objects.create(
        number=f"{short[:14]}{Invoice.objects.count()}", customer=short, amount=Decimal(12)
    )
    review = ask(
        words[:180],
        why=words[:2000],
        subject=invoice,
        change={"customer": f"{words[:95]}!"},
        request={short: words, "link": "javascript:ran=1", "deep": {"order": {"list": [words, {"a": words}]}}},
        evidence=[(short, "https://shop.example/" + "x" * 300), (words[:180], True), ("Amount", words[:300])],
        outcomes=(
            "approve",
            Outcome("reject", requires_reason=True, presets=(short, "No")),
            Outcome("other", short or "Other"),
        ),
        schema={
            "type": "object",
            "properties": {"field": {"type": "string", "title": label, "description": label * 5}},
        },
        **{"due": "1h", **options},
    )
    actions.comment(review, words[:4000], actor=desk.ben)
    return again(review)


def check_whole(page: Page, *, where: str = "#rows .request, .card, .decision-bar") -> None:
    """Nothing ran, and everything is in its place."""
    assert page.evaluate("window.ran === undefined")
    assert page.locator("body").evaluate("(body) => getComputedStyle(body).display") != "none"
    assert page.locator("a[href^='javascript:' i]").count() == 0
    check_fits(page)
    _check_inside(page, where)


def _check_inside(page: Page, where: str) -> None:
    outside = page.evaluate(INSIDE, where)
    assert outside == [], outside[:10]


@pytest.mark.parametrize("words", [SCRIPT, BRACES + CLOSING, LONG, TURNED], ids=["html", "closing", "long", "turned"])
def test_words_stay_words(visit: Visits, site: Site, desk: Desk, words: str) -> None:
    review = ask_badly(desk, words)
    alike = [ask_badly(desk, words, kind=SmallRefund, due="3h") for _ in range(3 if words == SCRIPT else 0)]
    page = visit(desk.maya)
    page.goto("/approvals/")
    check_whole(page)
    find_row(page, review).get_by_role("link").click()
    detail = find_detail(page, review)
    expect(detail).to_be_visible()
    check_whole(page)
    # Ours are the only ones: what looks like a button is text.
    assert detail.locator("button[name=outcome][value=approve]").count() == 1
    assert detail.locator("form").count() == 1
    assert page.locator("#say").count() == 1
    # Characters that hide or turn others are shown as what they are.
    shown = page.evaluate("document.body.innerText + document.title")
    assert [f"{ord(one):x}" for one in HIDING if one in shown] == []
    check_axe(page)
    shoot(page, f"hostile-{words[:4].strip('<>/ ')}", whole=False)
    if alike:
        page.locator("#rows summary").click()
        check_whole(page)
    find_row(page, review).get_by_role("link").focus()
    page.keyboard.press("a")
    expect(page.locator("#toast")).to_be_visible()
    check_whole(page, where="#toast, #rows .request")
    page.keyboard.press("u")
    expect(find_detail(page, review)).to_be_visible()

    phone = visit(desk.maya, **PHONE)
    for address in ("/approvals/", f"/approvals/{review.pk}/", "/approvals/bulk/"):
        phone.goto(address)
        check_whole(phone, where=".request, .card, .decision-bar")
        check_touch(phone)
        shoot(phone, f"hostile-phone-{address.split('/')[2][:4]}-{words[:4].strip('<>/ ')}")
    check_axe(phone)  # what was opened last; the list and the request were judged beside each other
    decide(again(review), "approve", actor=desk.lena, data={"field": words})
    phone.goto(f"/approvals/{review.pk}/")
    check_whole(phone, where=".card")


def test_a_search_and_a_view_are_words_too(visit: Visits, site: Site, desk: Desk) -> None:
    ask_three()
    page = visit(desk.maya, **PHONE)
    for words in (SCRIPT[:150], TURNED, LONG[:190]):
        page.goto("/approvals/")
        page.get_by_role("searchbox").fill(words)
        page.get_by_role("searchbox").press("Enter")
        expect(page.get_by_text("Nothing here matches")).to_be_visible()
        check_whole(page, where=".list-head, .empty")
        page.locator("summary", has_text="Keep").tap()
        page.get_by_label("Keep this list in the rail as").fill(words[:60])
        page.get_by_role("button", name="Keep it").tap()
        expect(page.get_by_role("navigation", name="Views")).to_be_visible()
        check_fits(page)
        check_touch(page)
    check_axe(page)  # all three are beside it by now
    page.goto("/approvals/views/")
    check_whole(page, where="main")


def test_it_reads_from_right_to_left(visit: Visits, site: Site, desk: Desk, settings: Any) -> None:
    settings.LANGUAGES = [*settings.LANGUAGES, ("ar", "Arabic")]
    day = ask_day(site, desk)
    wide, phone = visit(desk.maya, language="ar"), visit(desk.maya, language="ar", **PHONE)
    for page, name in ((wide, "wide"), (phone, "phone")):
        page.goto("/approvals/")
        assert page.evaluate("document.documentElement.dir") == "rtl"
        if page is wide:
            find_row(page, day["acme"]).get_by_role("link").click()
            expect(find_detail(page, day["acme"])).to_be_visible()
        check_page(page)
        assert page.evaluate("document.documentElement.scrollLeft") == 0
        shoot(page, f"rtl-{name}", whole=False)
        page.goto(f"/approvals/{day['acme'].pk}/")
        check_page(page)
        _check_inside(page, ".card, .decision-bar")
        for menu in ("Delegate", "Snooze", "Ask"):
            page.locator("summary", has_text=menu).first.click()
            panel = page.locator("details[open] > .menu-panel").bounding_box()
            assert panel is not None
            assert panel["x"] >= 0, menu
            assert panel["x"] + panel["width"] <= page.evaluate("innerWidth"), menu
            page.locator("summary", has_text=menu).first.click()
        shoot(page, f"rtl-{name}-request", whole=False)
