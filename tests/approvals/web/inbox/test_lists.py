"""The lists of the inbox: views, filters, search, pages, sections, what is alike, and the counts beside them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.http import QueryDict
from django.test import Client

from approvals import decide
from approvals.actions import actions
from approvals.models import Review, SavedView
from approvals.people.viewer import Viewer
from approvals.web.base.desk import ask_desk, read_desk
from approvals.web.base.filters import Filters, InboxPlace, read_filters
from approvals.web.inbox import lists as lists_module
from approvals.web.inbox.filter_menus import list_menus
from approvals.web.inbox.lists import Lists
from approvals.web.inbox.rail import read_rail, tell_count
from approvals.web.inbox.rows import RowGroup as Alike
from approvals.web.inbox.rows import make_sections, read_rows
from tests.support.review_calls import ask, make_person
from workflows.clock import read_now
from workflows.testing import advance

pytestmark = pytest.mark.django_db


def log_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def look(user: User) -> Lists:
    return Lists(Viewer(user), read_now())


def titles(user: User, **filters: Any) -> list[str]:
    lists = look(user)
    asked = Filters(**filters)
    return [row.title for row in read_rows(lists, lists.find(asked).ids, asked)]


def counts(user: User) -> dict[str, str]:
    viewer = Viewer(user, **ask_desk())
    rail = read_rail(Lists(viewer, read_now()), Filters(), read_desk(viewer).saved)
    return {one.name: one.count for one in (*rail.waiting, *rail.saved, *rail.groups, *rail.mine)}


# --- views --------------------------------------------------------------------------------------------------


def test_each_view_has_what_it_says_and_counts_it(ann: User) -> None:
    ben = make_person("ben", "finance")
    ask(title="plain", groups=["finance"])
    ask(title="today", groups=["finance"], due="1m")
    ask(title="risky", groups=["finance"], risk="high", due="40d")
    mine = ask(title="claimed", assignees=["ann"])
    actions.claim(mine, actor=ann)
    aside = ask(title="aside", groups=["finance"])
    actions.snooze(aside, until=read_now() + timedelta(days=1), actor=ann)
    ask(title="asked", groups=["finance"], requester=ann)
    decided = ask(title="decided", groups=["finance"])
    decide(decided, "approve", actor=ann)
    ask(title="ben's", assignees=[ben.username])

    assert titles(ann) == ["today", "risky", "plain", "claimed"]
    assert titles(ann, view="today") == ["today"]
    assert titles(ann, view="risk") == ["risky"]
    assert titles(ann, view="claimed") == ["claimed"]
    assert titles(ann, view="unassigned") == ["today", "risky", "plain"]
    assert titles(ann, view="snoozed") == ["aside"]
    assert titles(ann, view="requested") == ["asked"]
    assert titles(ann, view="decided") == ["decided"]
    finance = Group.objects.get(name="finance")
    assert sorted(titles(ann, view=f"group-{finance.pk}")) == ["aside", "asked", "plain", "risky", "today"]
    assert counts(ann) == {
        "Waiting for me": "4",
        "Overdue": "",
        "Due today": "1",
        "High risk": "1",
        "Claimed by me": "1",
        "Unassigned": "3",
        "Snoozed": "1",
        "finance": "5",
        "I asked for": "1",
        "Decided": "",
    }


def test_what_was_due_is_overdue_and_comes_first(ann: User) -> None:
    ask(title="later", groups=["finance"], due="3d")
    ask(title="soon", groups=["finance"], due="1h")
    advance("2h")
    lists = look(ann)
    rows = read_rows(lists, lists.find(Filters()).ids, Filters())
    assert [(row.title, row.due_tone) for row in rows] == [("soon", "late"), ("later", "plain")]
    assert [one.heading for one in make_sections(rows, lists, Filters())] == ["Overdue", "This week"]
    assert titles(ann, view="overdue") == ["soon"]
    assert counts(ann)["Overdue"] == "1"


def test_the_group_of_others_is_nobodys_view(ann: User) -> None:
    make_person("lea", "legal")
    ask(title="for legal", groups=["legal"])
    legal = Group.objects.get(name="legal")
    assert titles(ann, view=f"group-{legal.pk}") == []
    assert "legal" not in counts(ann)


def test_another_workspace_is_in_no_view(ann: User) -> None:
    from workflows.models import Workspace

    other = Workspace.objects.create(slug="other")
    home = Workspace.objects.exclude(pk=other.pk).get()
    home.members.add(ann)
    ask(title="here", groups=["finance"])
    Review.objects.all()
    assert titles(ann) == ["here"]
    home.members.remove(ann)
    finance = Group.objects.get(name="finance")
    for view in ("mine", "requested", "decided", f"group-{finance.pk}"):
        assert titles(ann, view=view) == []


# --- filters ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"workflow": "approving.ask"}, ["one", "two", "three"]),
        ({"workflow": "other"}, []),
        ({"risk": "medium"}, ["two"]),
        ({"due": "none"}, ["three"]),
        ({"due": "week"}, ["one", "two"]),
        ({"person": "ben"}, ["two"]),
        ({"person": "nobody"}, []),
        ({"age": "1"}, []),
        ({"type": "auth.user"}, ["two"]),
        ({"asked": "me"}, ["two"]),
        ({"q": "TWO"}, ["two"]),
        ({"q": "parcel"}, ["three"]),
        ({"q": "ben two"}, ["two"]),
        ({"q": "ben three"}, []),
        ({"q": "100%_"}, []),
        ({"sort": "newest"}, ["three", "two", "one"]),
        ({"sort": "oldest"}, ["one", "two", "three"]),
    ],
)
def test_a_filter_keeps_what_it_asks_for(ann: User, asked: dict[str, str], found: list[str]) -> None:
    ben = make_person("ben")
    ask(title="one", groups=["finance"], due="1h")
    ask(title="two", assignees=["ann"], groups=["finance"], due="2d", risk="medium", requester=ben, subject=ben)
    ask(title="three", groups=["finance"], why="Parcel lost")
    assert titles(ann, **asked) == found


def test_a_group_that_is_asked_is_a_filter(ann: User) -> None:
    ask(title="one", groups=["finance"])
    ask(title="two", assignees=["ann"])
    finance = Group.objects.get(name="finance")
    assert titles(ann, asked=f"group-{finance.pk}") == ["one"]
    assert titles(ann, asked="group-0") == []


def test_the_menus_offer_what_is_there_and_name_what_is_chosen(ann: User) -> None:
    ben = make_person("ben")
    ask(title="one", groups=["finance"], requester=ben, subject=ben)
    lists, asked = look(ann), Filters(risk="low", q="one")
    rail = read_rail(lists, asked)
    menus = {one.name: one for one in list_menus(asked, read_rows(lists, lists.find(asked).ids, asked), rail.groups)}
    assert [one.label for one in menus["workflow"].options] == ["Any", "Ask"]
    assert [one.label for one in menus["type"].options] == ["Any", "User"]
    assert [one.label for one in menus["person"].options] == ["Any", "Ben"]
    assert [one.label for one in menus["asked"].options] == ["Any", "Me, by name", "finance"]
    assert menus["risk"].value_label == "Low"
    assert menus["risk"].options[0].url == "/approvals/?q=one"
    assert [one.label for one in menus["sort"].options if one.is_current] == ["Due first"]


def test_whatever_stands_in_an_address_is_a_list() -> None:
    asked = read_filters(QueryDict("view=%00&risk=red&due=never&age=-1&after=x_y&q=%00+a&sort=up&person="))
    assert asked == Filters(q="a")


@pytest.mark.parametrize(
    "query", ["", "view=overdue", "view=group-7&q=a+b", "risk=high&sort=newest", "q=x%26y&workflow=s"]
)
def test_an_address_is_read_as_it_was_written(query: str) -> None:
    assert read_filters(QueryDict(query)).write() == query


def test_a_place_is_read_as_it_was_written() -> None:
    now, id = read_now(), ask(title="x").pk
    for place in (InboxPlace(id), InboxPlace(id, now)):
        assert read_filters(QueryDict(Filters().write(after=place))).after == place


@pytest.mark.parametrize("why", ["", "Late\n", "x" * 2_000, "a\x0bb", "遅" * 2_000])
def test_what_is_alike_leads_to_what_was_seen_and_to_nothing_else(ann: User, why: str) -> None:
    for n in range(3):
        ask(title=f"request {n}", groups=["finance"], why=why, due="3d")
    ask(title="later", groups=["finance"], why=why, due="40d")
    ask(title="another", groups=["finance"], why="Fraud is suspected", due="3d")
    lists, asked = look(ann), Filters()
    sections = make_sections(read_rows(lists, lists.find(asked).ids, asked), lists, asked)
    groups = [one for section in sections for one in section.items if isinstance(one, Alike)]
    assert [one.count for one in groups] == [3]
    page = log_in(ann).get(groups[0].bulk_url)
    assert [line.row.title for line in page.context["together"].lines] == ["request 0", "request 1", "request 2"]
    assert len(groups[0].bulk_url) < 4_000


@pytest.mark.parametrize("view", ["requested", "decided"])
def test_what_was_asked_or_decided_is_filtered_by_when_it_was_due(ann: User, view: str) -> None:
    options: dict[str, Any] = {"requester": ann} if view == "requested" else {}
    for title, due in (("later", "40d"), ("today", "1m")):
        made = ask(title=title, groups=["finance"], due=due, **options)
        if view == "decided":
            decide(made, "approve", actor=ann)
    assert titles(ann, view=view, due="today") == ["today"]
    assert titles(ann, view=view, due="overdue") == []


@pytest.mark.parametrize("view", ["requested", "decided"])
def test_what_is_not_ones_own_to_decide_is_never_decided_together(ann: User, view: str) -> None:
    ask(title="waits", groups=["finance"])
    assert look(ann).find_all(Filters(view=view)) == ()


# --- pages --------------------------------------------------------------------------------------------------


def walk(user: User, **filters: Any) -> list[list[str]]:
    """All pages of a list, by the places that each names."""
    pages, asked = [], Filters(**filters)
    for _ in range(50):
        lists = look(user)
        found = lists.find(asked)
        pages.append([row.title for row in read_rows(lists, found.ids, asked)])
        if found.next is None:
            return pages
        asked = read_filters(QueryDict(asked.write(after=found.next)))
    raise AssertionError("the pages never end")


@pytest.mark.parametrize(
    "filters",
    [{}, {"view": "unassigned"}, {"q": "request"}, {"sort": "newest"}, {"view": "requested"}, {"view": "decided"}],
)
def test_pages_show_everything_once(ann: User, monkeypatch: pytest.MonkeyPatch, filters: dict[str, str]) -> None:
    monkeypatch.setattr(lists_module, "ROWS", 3)
    view = filters.get("view")
    for n in range(8):
        options: dict[str, Any] = {"requester": ann} if view == "requested" else {}
        made = ask(title=f"request {n}", groups=["finance"], due=f"{n % 3 + 1}h" if n % 4 else None, **options)
        if view == "decided":
            decide(made, "approve", actor=ann)
    pages = walk(ann, **filters)
    assert sorted(title for page in pages for title in page) == [f"request {n}" for n in range(8)]
    assert [len(page) for page in pages] == [3, 3, 2]


def test_a_list_that_is_too_long_for_another_order_goes_on_by_due_date(
    ann: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lists_module, "ROWS", 2)
    monkeypatch.setattr(lists_module, "WINDOW", 4)
    for n in range(7):
        ask(title=f"request {n}", groups=["finance"], due=f"{n + 1}h")
    client, address = log_in(ann), "/approvals/?sort=newest"
    seen: list[str] = []
    for _ in range(4):
        page = client.get(address).context["rows"]
        seen += [row.title for row in page.rows]
        address = page.next_url
    assert seen == [f"request {n}" for n in range(7)]
    assert address == ""


def test_what_is_looked_for_is_found_behind_the_window(ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lists_module, "WINDOW", 4)
    for n in range(10):
        ask(title="needle" if n in (5, 9) else f"hay {n}", groups=["finance"], due=f"{n + 1}h")
    assert walk(ann, q="needle") == [[], ["needle"], ["needle"]]
    assert look(ann).find(Filters(q="needle")).is_cut
    assert look(ann).find(Filters(sort="newest")).is_unsorted


def test_a_list_for_deciding_together_has_all_that_match(ann: User) -> None:
    for n in range(5):
        ask(title=f"request {n}", groups=["finance"], why="same" if n else "other")
    assert len(look(ann).find_all(Filters(q="same"))) == 4
    assert len(look(ann).find_all(Filters(q="same"), most=2)) == 2
    assert len(look(ann).find_all(Filters())) == 5


# --- what is alike, and how rows read ------------------------------------------------------------------------


def test_three_that_are_alike_are_one_and_high_risk_never_is(ann: User) -> None:
    for n in range(3):
        ask(title=f"Refund {n}", groups=["finance"], why="Parcel late", due="1h")
    for n in range(3):
        ask(title=f"Deploy {n}", groups=["finance"], why="Release", due="1h", risk="high")
    lists, asked = look(ann), Filters()
    sections = make_sections(read_rows(lists, lists.find(asked).ids, asked), lists, asked)
    (section,) = sections
    group, *rest = section.items
    assert isinstance(group, Alike)
    assert (group.title, group.meta, group.count) == ("3 × Ask", "Parcel late", 3)
    assert [one.title for one in rest] == ["Deploy 0", "Deploy 1", "Deploy 2"]
    assert section.count == 6
    assert QueryDict(group.bulk_url.partition("?")[2]).getlist("pick") == [str(row.id) for row in group.rows]


def test_a_group_is_the_same_when_its_first_is_gone(ann: User) -> None:
    reviews = [ask(title=f"Refund {n}", groups=["finance"], why="Late", due="1h") for n in range(4)]

    def key() -> str:
        lists, asked = look(ann), Filters()
        (section,) = make_sections(read_rows(lists, lists.find(asked).ids, asked), lists, asked)
        (group,) = section.items
        assert isinstance(group, Alike)
        return group.key

    before = key()
    decide(reviews[0], "approve", actor=make_person("ben", "finance"))
    assert key() == before


def test_a_row_says_how_far_it_is_and_who_asked(ann: User) -> None:
    ben, lea = make_person("ben"), make_person("lea", "finance")
    review = ask(title="Pay\u202e now", groups=["finance"], quorum=2, requester=ben)
    decide(review, "approve", actor=lea)
    lists, asked = look(ann), Filters()
    (row,) = read_rows(lists, lists.find(asked).ids, asked)
    assert (row.meta, row.progress, row.status, row.may_pick) == ("Ben · 1 of 2", "1 of 2", "open", True)
    assert "\u202e" not in row.title


def test_what_was_decided_says_by_whom(ann: User) -> None:
    review = ask(title="Pay", groups=["finance"], outcomes=["approve", "reject"])
    decide(review, "reject", actor=ann, reason="no")
    lists, asked = look(ann), Filters(view="decided")
    (row,) = read_rows(lists, lists.find(asked).ids, asked)
    assert (row.status, row.tone, row.may_pick) == ("decided", "negative", False)
    assert row.told.startswith("“Reject” by Ann, Today")


# --- counts -------------------------------------------------------------------------------------------------


def test_a_saved_view_counts_as_its_list_does(ann: User) -> None:
    SavedView.objects.create(user=ann, name="Lost parcels", query="q=parcel")
    SavedView.objects.create(user=ann, name="Mine as asked", query="view=requested")
    SavedView.objects.create(user=make_person("ben"), name="Ben's", query="")
    ask(title="parcel", groups=["finance"])
    ask(title="other", groups=["finance"])
    found = counts(ann)
    assert (found["Lost parcels"], found["Mine as asked"]) == ("1", "")
    assert "Ben's" not in found


def test_counts_say_when_they_are_not_all(ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("approvals.web.inbox.rail.WINDOW", 3)
    for n in range(5):
        ask(title=str(n), groups=["finance"], risk="high" if n == 0 else "low")
    assert (counts(ann)["Waiting for me"], counts(ann)["High risk"]) == ("3+", "1+")
    assert [tell_count(n, is_cut=n > 999) for n in (0, 7, 1_000, 2_000)] == ["", "7", "1,000+", "1,000+"]
