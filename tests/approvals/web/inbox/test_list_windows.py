"""Where the inbox stops looking, and says so: windows of lists, counts of saved views, many absences of one person."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.http import QueryDict
from django.test import Client
from django.test.utils import CaptureQueriesContext

from approvals import decide, explain, snooze
from approvals.models import Absence, Review
from approvals.people.viewer import Viewer
from approvals.web.base.desk import Kept
from approvals.web.base.filters import Filters, read_filters
from approvals.web.inbox import lists as lists_module
from approvals.web.inbox.lists import Found, Lists
from approvals.web.inbox.rail import MOST_SAVED, read_rail
from tests.support.review_calls import again, ask, make_person
from workflows.clock import read_now
from workflows.models import Workspace

pytestmark = pytest.mark.django_db


def look(user: User) -> Lists:
    return Lists(Viewer(user), read_now())


def walk(user: User, **filters: Any) -> list[Found]:
    """All pages of a list, by the places that each names."""
    pages: list[Found] = []
    asked = Filters(**filters)
    while not pages or pages[-1].next is not None:
        assert len(pages) < 50, "the pages never end"
        pages.append(look(user).find(asked))
        asked = read_filters(QueryDict(asked.write(after=pages[-1].next)))
    return pages


def titles(found: Found) -> list[str]:
    names = dict(Review.objects.values_list("pk", "title"))
    return [names[id] for id in found.ids]


# --- lists --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("view", ["decided", "requested", "snoozed"])
def test_a_filter_looks_through_a_window_and_goes_on(ann: User, monkeypatch: pytest.MonkeyPatch, view: str) -> None:
    monkeypatch.setattr(lists_module, "WINDOW", 4)
    for n in range(10):
        title = "needle" if n in (1, 5) else f"hay {n}"
        made = ask(title=title, groups=["finance"], requester=ann if view == "requested" else None)
        if view == "decided":
            decide(made, "approve", actor=ann)
        if view == "snoozed":
            snooze(made, until=read_now() + timedelta(days=1), actor=ann)
    pages = walk(ann, view=view, q="needle")
    found = [titles(one) for one in pages]
    assert found == ([["needle"], ["needle"], []] if view == "snoozed" else [[], ["needle"], ["needle"]])
    assert [one.is_cut for one in pages] == [True, True, False]
    assert [one.count for one in pages] == [len(found[0]), None, None]


@pytest.mark.parametrize("view", ["decided", "requested"])
def test_a_filtered_list_has_pages_within_its_window(ann: User, monkeypatch: pytest.MonkeyPatch, view: str) -> None:
    monkeypatch.setattr(lists_module, "ROWS", 2)
    for n in range(5):
        made = ask(title=f"needle {n}", groups=["finance"], requester=ann if view == "requested" else None)
        if view == "decided":
            decide(made, "approve", actor=ann)
    pages = walk(ann, view=view, q="needle")
    assert [titles(one) for one in pages] == [["needle 4", "needle 3"], ["needle 2", "needle 1"], ["needle 0"]]
    assert [titles(one) for one in walk(ann, view=view)] == [titles(one) for one in pages]
    assert not any(one.is_cut for one in pages)


# --- counts -------------------------------------------------------------------------------------------------


def save(count: int) -> list[Kept]:
    return [Kept(n, f"view {n}", Filters(q="needle")) for n in range(count)]


def test_the_first_saved_views_are_counted(ann: User) -> None:
    ask(title="needle", groups=["finance"])
    rail = read_rail(look(ann), Filters(), save(MOST_SAVED + 2))
    assert [one.count for one in rail.saved] == ["1"] * MOST_SAVED + ["", ""]


def test_a_saved_view_is_counted_at_the_beginning_of_the_list(ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("approvals.web.inbox.rail.WINDOW_OF_SAVED", 3)
    for n in range(5):
        ask(title=f"needle {n}", groups=["finance"])
    rail = read_rail(look(ann), Filters(), save(1))
    assert (rail.saved[0].count, rail.waiting[0].count) == ("3+", "5")


def test_what_searches_for_many_words_is_counted_in_fewer_rows(ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("approvals.web.inbox.rail.MOST_LOOKED_FOR", 12)
    for n in range(8):
        ask(title=f"a b c {n}", groups=["finance"])
    saved = [Kept(1, "short", Filters(q="a")), Kept(2, "long", Filters(q="a b c"))]
    assert [one.count for one in read_rail(look(ann), Filters(), saved).saved] == ["3+", "3+"]
    assert [one.count for one in read_rail(look(ann), Filters(), saved[:1]).saved] == ["8"]


def test_any_number_of_saved_views_costs_what_ten_do(ann: User) -> None:
    ask(title="needle", groups=["finance"])
    asked = []
    for count in (MOST_SAVED, 50):
        lists, views = look(ann), save(count)
        with CaptureQueriesContext(connection) as heard:
            read_rail(lists, Filters(), views)
        asked.append(sum(one["sql"].upper().count("'%NEEDLE%'") for one in heard.captured_queries))
    assert asked[0] == asked[1]
    assert asked[0] > 0


# --- absences -----------------------------------------------------------------------------------------------


def make_absent(user: User, substitute: User, **options: Any) -> None:
    Absence.objects.create(user=user, substitute=substitute, since=read_now() - timedelta(hours=1), **options)


def test_any_number_of_absences_of_one_person_costs_what_one_does(ann: User) -> None:
    ben = make_person("ben")
    ask(title="for ann", groups=["finance"])
    client = Client()
    client.force_login(ben)
    client.get("/approvals/")
    costs = []
    for more in (1, 49):
        for _ in range(more):
            make_absent(ann, ben)
        with CaptureQueriesContext(connection) as heard:
            page = client.get("/approvals/").context["rows"]
        assert [row.title for row in page.rows] == ["for ann"]
        costs.append((len(heard), sum(one["sql"].count("holdpoint_candidate") for one in heard.captured_queries)))
    assert costs[0] == costs[1]


def may(review: Review, user: User) -> bool:
    """As the lists say, which say the same."""
    viewer = Viewer(user)
    found = Review.objects.for_user(viewer).filter(pk=review.pk).exists()
    assert Review.objects.visible_to(viewer).filter(pk=review.pk).exists() is found
    assert (explain(again(review), user)["decide"] is None) is found
    return found


@pytest.mark.parametrize(
    ("absences", "found"),
    [
        ([{"workflows": ["other"]}], False),
        ([{"workflows": ["other"]}, {"workflows": ["approving.ask"]}], True),
        ([{"workflows": ["other"]}, {}], True),
        ([{"workspace": "elsewhere"}], False),
        ([{"workspace": "elsewhere"}, {"workflows": ["approving.ask"]}], True),
        ([{"workspace": "elsewhere"}, {"workflows": ["other"]}], False),
        (
            [{"workspace": "elsewhere", "workflows": ["approving.ask"]}, {"workspace": "here", "workflows": ["x"]}],
            False,
        ),
        ([{"workspace": "here", "workflows": ["approving.ask"]}, {"workspace": "here", "workflows": ["x"]}], True),
    ],
)
def test_what_several_absences_say_is_added_up(ann: User, absences: list[dict[str, Any]], found: bool) -> None:
    ben = make_person("ben")
    review = ask(groups=["finance"])
    here, elsewhere = again(review).workspace, Workspace.objects.create(slug="elsewhere")
    for workspace in (here, elsewhere):
        workspace.members.add(ann, ben)
    for options in absences:
        where = {"here": here, "elsewhere": elsewhere}.get(options.get("workspace", ""))
        make_absent(ann, ben, workspace=where, workflows=options.get("workflows"))
    assert may(review, ben) is found
