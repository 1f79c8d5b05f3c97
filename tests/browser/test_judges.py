"""The judges of the browser tests: what is wrong with a page is found, whatever it is."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from django.contrib.auth.models import Group, User
from django.db import IntegrityError, transaction
from playwright.sync_api import Page, expect

from tests.support.answer_pages import handed, park
from tests.support.browser.judges import check_axe, check_fits, check_page, check_touch, weigh
from tests.support.browser.served import Site
from tests.support.browser.visits import Visits
from workflows.clock import read_now


def test_whatever_goes_wrong_in_a_page_is_noticed(visit: Visits, site: Site) -> None:
    park()
    page = visit()
    page.goto(handed["url"])
    with page.expect_event("pageerror"):
        page.evaluate("""() => {
          document.body.setAttribute("style", "color: red");
          fetch("http://127.0.0.1:9/").catch(() => console.warn("look at this"));
          setTimeout(() => { throw new Error("broken"); }, 50);
        }""")
    page.goto("/nothing")
    expect(page.get_by_text("Not Found").first).to_be_visible()
    for words in (
        "CSP: style-src-attr forbids inline",
        "CSP: connect-src forbids http://127.0.0.1:9/",
        "console warning: look at this",
        "error of a script: broken",
        "the server responded with a status of 404",
    ):
        assert any(words in one for one in visit.list_problems()), (words, visit.list_problems())
    visit.allow("CSP|Content.Security|look at this|broken|status of 404")
    assert visit.list_problems() == []


def test_a_request_to_another_host_is_noticed(visit: Visits, site: Site) -> None:
    page = visit(bypass_csp=True)
    page.goto("/v1/docs")
    with page.expect_event("requestfailed"):
        page.evaluate("new Image().src = 'http://127.0.0.1:9/elsewhere.svg'; 0")
    told = "\n".join(visit.list_problems())
    assert "asked another host: http://127.0.0.1:9/elsewhere.svg" in told
    assert "request failed: GET http://127.0.0.1:9/elsewhere.svg: net::ERR" in told
    visit.allow("127.0.0.1:9")


BAD: dict[str, tuple[Callable[[Page], None], str]] = {
    '<p style="color: #bbb">pale</p>': (check_axe, "color-contrast"),
    "<input>": (check_axe, "label"),
    '<p style="width: 500px">wide</p>': (check_fits, '<p class=""> ends at 5'),
    "<button>x</button>": (check_touch, "<button> x: "),
    '<label style="font-size: 30px">y <input style="font-size: 15px; height: 50px"></label>': (
        check_touch,
        "text of 15px",
    ),
}


@pytest.mark.parametrize("html", BAD)
def test_what_is_bad_is_found(visit: Visits, site: Site, html: str) -> None:
    check, words = BAD[html]
    page = visit(width=375, touch=True)
    page.set_content(
        "<!doctype html><html lang=en><title>Judged</title><meta name=viewport content='width=device-width'>"
        "<main><h1>Judged</h1></main>"
    )
    check_page(page)
    page.evaluate("(html) => document.querySelector('main').insertAdjacentHTML('beforeend', html)", html)
    with pytest.raises(pytest.fail.Exception) as told:
        check(page)
    assert words in str(told.value)


def test_a_site_is_visited_as_somebody_who_lives_elsewhere(visit: Visits, site: Site) -> None:
    site.set_clock(datetime(2026, 11, 18, 9, 41, tzinfo=UTC))
    ann = User.objects.create_superuser("ann", first_name="Ann")
    page = visit(ann, language="de", timezone="Asia/Tokyo", theme="dark")
    page.goto("/admin/")
    expect(page.locator("html")).to_have_attribute("lang", "de")
    expect(page.get_by_text("Ann", exact=True)).to_be_visible()
    assert page.evaluate("[new Date().getHours(), matchMedia('(prefers-color-scheme: dark)').matches]") == [18, True]
    assert f"{read_now():%H:%M}" == "09:41"


def test_requests_and_the_test_take_turns(visit: Visits, site: Site) -> None:
    ann = User.objects.create_superuser("ann")
    page = visit(ann)
    page.goto("/admin/")
    page.evaluate("""() => {
      const ask = () => fetch("/admin/password_change/").then((answer) => answer.status);
      window.answers = Promise.all(Array.from({length: 24}, ask));
    }""")
    for n in range(24):
        with transaction.atomic():
            Group.objects.create(name=f"group {n}")
            with contextlib.suppress(IntegrityError), transaction.atomic():
                Group.objects.create(name=f"group {n}")
    assert page.evaluate("window.answers") == [200] * 24
    assert Group.objects.count() == 24


def test_a_first_visit_is_weighed(visit: Visits, site: Site) -> None:
    weight = weigh(visit(), "/v1/docs")
    assert weight.requests >= 3  # the page and two style sheets
    assert weight.bytes > 3 * weight.compressed > 0
    assert sum(weight.kinds.values()) == weight.compressed
