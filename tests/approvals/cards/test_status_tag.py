"""`{% approval_status object %}`: how the newest review about a row stands, on any page of a project."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from django.contrib.auth.models import AnonymousUser, Group, Permission, User
from django.db import connection
from django.template import Context, Template
from django.test.utils import CaptureQueriesContext

from approvals import Outcome, decide, withdraw
from approvals.cards.latest_review import find_newest, find_visible
from approvals.models import Review
from approvals.rules.door import Door
from approvals.templatetags.approvals import gauge, initials
from tests.support.worlds.cards import Page, People, ask
from workflows.testing import advance

pytestmark = pytest.mark.django_db


def render(obj: Any, user: Any = None, **context: Any) -> str:
    template = Template("{% load approvals %}{% approval_status object %}")
    return template.render(Context({"object": obj, "user": user, **context})).strip()


def load(user: User) -> User:
    return User.objects.get(pk=user.pk)


def test_it_says_how_the_newest_review_stands_and_links_to_it(people: People) -> None:
    decide(ask(groups=["Finance"], subject=people.finance), "reject", actor=people.ann)
    review = ask(groups=["Finance"], subject=people.finance, quorum=3)
    decide(review, "approve", actor=people.ann)
    decide(review, "approve", actor=people.cid)
    advance("2d")
    page = Page(render(people.finance, load(people.dee)))
    day = f"{review.created_at:%A}"
    assert page.words == f"Waiting for Finance since {day}, 2 of 3 approved"
    (link,) = page.find("a")
    assert link["href"] == f"/approvals/{review.pk}/"
    (span,) = page.find("span")
    assert span["class"] == "holdpoint-status holdpoint-status-open"
    decide(review, "approve", actor=people.dee)
    assert "holdpoint-status-decided holdpoint-status-positive" in render(people.finance, load(people.dee))
    assert Page(render(people.finance, load(people.dee))).words.startswith("You approved this ")


def test_it_says_nothing_where_there_is_nothing_to_say(people: People, shop: Any) -> None:
    assert render(people.finance) == ""
    assert render(shop.Order(code="unsaved")) == ""
    for nothing in (None, "", 7, "order"):
        assert render(nothing) == ""
    assert Template("{% load approvals %}{% approval_status nowhere %}").render(Context({})).strip() == ""


def test_who_may_not_see_the_review_learns_that_somebody_is_asked_and_no_more(people: People) -> None:
    review = ask("Dismiss Ben", groups=["Finance"], subject=people.finance, requester=people.ben, quorum=2)
    eve = User.objects.create_user("eve")
    strangers = (None, AnonymousUser(), eve)
    waits = '<span class="holdpoint-status holdpoint-status-open"><bdi>Waiting for a decision</bdi></span>'
    assert {render(people.finance, user) for user in strangers} == {waits}
    decide(review, "reject", actor=people.ann, reason="He is needed")
    assert {render(people.finance, user) for user in strangers} == {waits}
    assert "Waiting for Finance since" in render(people.finance, load(people.ann))
    assert Page(render(people.finance, load(people.ben))).find("a")
    decide(review, "reject", actor=people.cid, grace=True, door=Door("page"))
    assert {render(people.finance, user) for user in strangers} == {waits}
    assert "holdpoint-status-grace" in render(people.finance, load(people.ann))
    advance("1h")
    decided = '<span class="holdpoint-status holdpoint-status-decided"><bdi>Decided</bdi></span>'
    assert {render(people.finance, user) for user in strangers} == {decided}
    assert "rejected this" in render(people.finance, load(people.ben))
    eve.user_permissions.add(Permission.objects.get(codename="view_review"))
    assert Page(render(people.finance, load(eve))).find("a")
    eve.is_active = False
    eve.save()
    assert render(people.finance, load(eve)) == decided


def test_what_was_taken_back_is_nothing_to_who_may_not_see_it(people: People) -> None:
    withdraw(ask(groups=["Finance"], subject=people.finance, requester=people.ben), actor=people.ben)
    assert "You withdrew this" in render(people.finance, load(people.ben))
    assert render(people.finance) == ""


def test_the_viewer_is_found_as_in_every_template(people: People) -> None:
    ask(groups=["Finance"], subject=people.finance)
    template = Template("{% load approvals %}{% approval_status object %}")
    request = SimpleNamespace(user=load(people.ann))
    assert "<a" in template.render(Context({"object": people.finance, "request": request}))
    assert "<a" not in template.render(Context({"object": people.finance}))


def test_a_site_without_the_pages_gets_no_link(people: People, settings: Any) -> None:
    ask(groups=["Finance"], subject=people.finance)
    settings.ROOT_URLCONF = "workflows.urls"
    html = render(people.finance, load(people.ann))
    assert "<a" not in html
    assert "Waiting for Finance" in html


def test_it_costs_two_statements_and_the_viewer_once_for_a_page(people: People) -> None:
    rows = [Group.objects.create(name=f"Group {number}") for number in range(6)]
    reviews = [ask(groups=["Finance"], subject=row, quorum=3) for row in rows[:4]]
    for review in reviews:
        decide(review, "approve", actor=people.ann)
    decide(reviews[0], "approve", actor=people.cid)

    def count(template: str, user: Any) -> int:
        user = None if user is None else load(user)
        with CaptureQueriesContext(connection) as found:
            Template("{% load approvals %}" + template).render(Context({"rows": rows, "row": rows[0], "user": user}))
        return len(found)

    one, all_of_them = "{% approval_status row %}", "{% for row in rows %}{% approval_status row %}{% endfor %}"
    assert count(one, None) == 1
    assert count(all_of_them, None) == 6
    viewer = count(one, people.dee) - 2
    assert viewer <= 6  # who the viewer is
    assert count(all_of_them, people.dee) == 4 * 2 + 2 + viewer  # one statement finds that there is none


def test_a_row_is_found_by_all_names_of_its_model(people: People, shop: Any) -> None:
    order = shop.Order.objects.create(code="A-1")
    ask(groups=["Finance"], subject=shop.OrderProxy.objects.get())
    assert "Waiting for" in render(order)
    assert "Waiting for" in render(shop.OrderProxy.objects.get())
    assert render(shop.Customer.objects.create(pk=order.pk, name="x", code="x")) == ""
    label = shop.Label.objects.create(name="a key that is no number")
    ask(groups=["Finance"], subject=label)
    assert "Waiting for" in render(label)


def test_nothing_of_others_becomes_markup(people: People) -> None:
    people.finance.name = "<script>alert(1)</script>\u202e"
    people.finance.save()
    outcomes = (Outcome("approve", "<b>yes</b>"), "reject")
    review = ask('" onmouseover="x', groups=[people.finance], subject=people.ben, quorum=2, outcomes=outcomes)
    decide(review, "approve", actor=people.ann)
    page = Page(render(people.ben, load(people.cid)))
    assert not page.find("script") + page.find("b")
    assert page.find("a")[0].keys() == {"href", "title"}
    assert "\u202e" not in page.words


def test_the_newest_can_be_asked_for_in_python(people: People) -> None:
    review = ask(groups=["Finance"], subject=people.finance)
    found = find_newest(people.finance, people.ann, visible=find_visible(people.ann))
    assert found is not None
    assert (found.review, found.status, found.title) == (review, "open", review.title)
    assert find_newest(people.finance, people.ann) == found
    stranger = find_newest(people.finance)
    assert stranger is not None
    assert (stranger.review, stranger.title, stranger.url) == (None, "", None)
    assert find_visible(None) is find_visible(AnonymousUser()) is None
    assert Review.objects.count() == 1


def test_faces_and_gauges(people: People) -> None:
    assert [initials(name) for name in ("Ann Archer", "cid", "", "Ana María de la Cruz", "“x” y", "李")] == [
        "AA",
        "C",
        "",
        "AC",
        "Y",
        "李",
    ]
    from approvals.cards.status import Progress

    drawn = gauge(Progress("", 1, 2, "approve", ""))
    assert drawn is not None
    assert [dot["given"] for dot in drawn["dots"]] == [True, False]
    assert gauge(Progress("", 1, 40, "approve", "")) is None
