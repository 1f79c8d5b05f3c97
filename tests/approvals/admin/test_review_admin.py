"""Approvals in Django's admin: what the lists and pages say, to whom, and at what cost."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

import workflows
from approvals import claim, comment, decide, reassign, request_info, undo, withdraw
from approvals.models import Absence, Comment, Delivery, Preference, Review, Vote
from approvals.models.writer import insert
from tests.support.review_admin import LIST, ask, ask_about, login, page_of, read_rows, read_words
from workflows.models import Instance
from workflows.testing import advance, drain

pytestmark = pytest.mark.django_db

HOSTILE = "<script>alert('x')</script>"


@pytest.fixture
def ann(db: None) -> User:
    return User.objects.create_user("ann", first_name="Ann", last_name="Archer")


@pytest.fixture
def operator(db: None) -> Client:
    """A superuser's browser."""
    return login(User.objects.create_superuser("ada", first_name="Ada"))


def staff(*permissions: str, name: str = "bob") -> Client:
    """The browser of somebody who may enter the admin and do only this."""
    user = User.objects.create_user(name, is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return login(user)


def section(page: str, id: str) -> str:
    """The words of one of the tables below."""
    return read_words(page.partition(f'id="{id}"')[2].partition('<div class="module')[0])


def count_queries(client: Client, url: str) -> int:
    with CaptureQueriesContext(connection) as seen:
        assert client.get(url).status_code == 200
    return len(seen)


# --- the list ------------------------------------------------------------------------------------------


def test_a_row_says_what_waits_for_whom(operator: Client, ann: User, ben: User) -> None:
    Group.objects.create(name="finance")
    ask(actor=ben, groups=["finance"], assignees=["ann"], risk="high", due="2d")
    (row,) = read_rows(operator.get(LIST).text)
    for text in (
        "Refund €40.00 to Acme",
        "approval-admin-asks",
        "Ben Okafor",
        "finance , Ann Archer",
        "in 1 day",
        "high risk",
        "waiting",
    ):
        assert text in row


def test_a_row_names_the_object_and_who_has_claimed_it(operator: Client, ann: User, order: Any) -> None:
    review = ask_about(order)
    claim(review, actor=ann)
    (row,) = read_rows(operator.get(LIST).text)
    assert "Order A-1" in row
    assert "claimed by Ann Archer" in row


def test_of_many_who_are_asked_only_the_first_are_named(operator: Client, ann: User) -> None:
    names = [User.objects.create_user(f"user{n}").username for n in range(6)]
    ask(assignees=names)
    (row,) = read_rows(operator.get(LIST).text)
    assert sum(name in row for name in names) == 3
    assert "and more" in row


def test_what_is_overdue_says_so(operator: Client, ann: User) -> None:
    ask(due="1h")
    advance("3h")
    with connection.cursor() as cursor:  # the test's clock is the database's, the page's words are Python's
        cursor.execute("UPDATE holdpoint_review SET due_at = now() - interval '2 hours'")
    (row,) = read_rows(operator.get(LIST).text)
    assert "2 hours overdue" in row


def test_every_way_in_which_it_can_stand_has_a_word(operator: Client, ann: User, ben: User) -> None:
    ask("one that waits")
    decide(ask("one that is deciding"), "approve", actor=ann, grace=True)
    decide(ask("one that was decided"), "reject", actor=ann)
    withdraw(ask("one that was withdrawn", actor=ben), actor=ben)
    gone = ask("one that was cancelled")
    workflows.cancel(gone.instance)
    rows = {row.partition("one that ")[2].split()[0]: row for row in read_rows(operator.get(LIST).text)}
    assert "waiting" in rows["waits"]
    assert "deciding: Approve" in rows["is"]
    told = read_rows(operator.get(LIST).text)
    for title, word in (("was decided", "Reject"), ("was withdrawn", "withdrawn"), ("was cancelled", "cancelled")):
        assert any(title in row and word in row for row in told)


def test_what_expired_says_so(operator: Client, ann: User) -> None:
    ask()
    advance("31d")
    (row,) = read_rows(operator.get(LIST).text)
    assert "expired" in row


FOUND = {
    "status=waiting": ["w"],
    "status=deciding": ["g"],
    "status=decided": ["d"],
    "status=withdrawn": ["t"],
    "status=over": ["c"],
    "risk=high": ["d"],
    "risk=low": ["c", "t", "g", "w"],
    "due=never": ["w"],
    "due=coming": [],
    "due=overdue": [],
    "workflow=approval-admin-asks": ["c", "t", "d", "g", "w"],
    "workflow=other": [],
    "workspace=default": ["c", "t", "d", "g", "w"],
}


def test_filters_narrow_the_list(operator: Client, ann: User, ben: User) -> None:
    ask("key-w")
    decide(ask("key-g"), "approve", actor=ann, grace=True)
    decide(ask("key-d", risk="high"), "reject", actor=ann, reason="no")
    withdraw(ask("key-t", actor=ben), actor=ben)
    workflows.cancel(ask("key-c").instance)
    for query, found in FOUND.items():
        rows = read_rows(operator.get(f"{LIST}?{query}").text)
        assert [row.partition("key-")[2][0] for row in rows] == found, query


def test_what_is_due_first_comes_first_among_what_waits(operator: Client, ann: User) -> None:
    for name, due in (("late", "3d"), ("never", None), ("soon", "1d")):
        ask(f"key-{name}", due=due)
    rows = read_rows(operator.get(f"{LIST}?status=waiting").text)
    assert [row.partition("key-")[2].split()[0] for row in rows] == ["soon", "late", "never"]
    rows = read_rows(operator.get(LIST).text)
    assert [row.partition("key-")[2].split()[0] for row in rows] == ["soon", "never", "late"]


def test_what_one_may_decide_oneself_is_the_list_of_the_inbox(operator: Client, ann: User, ben: User) -> None:
    """Not what one may only look at, and what is due first comes first."""
    me = User.objects.get(pk=operator.session["_auth_user_id"])
    for name, options in {
        "late": {"assignees": [me.username], "due": "3d"},
        "never": {"assignees": [me.username]},
        "soon": {"assignees": [me.username], "due": "1d"},
        "others": {"assignees": ["ann"]},
        "own": {"assignees": [me.username, "ann"], "actor": me},
    }.items():
        ask(f"key-{name}", **options)
    rows = read_rows(operator.get(f"{LIST}?decides=me").text)
    assert [row.partition("key-")[2].split()[0] for row in rows] == ["soon", "late", "never"]
    listed = [review.title for review in Review.objects.for_user(me)]
    assert listed == ["key-soon", "key-late", "key-never"]


def test_an_impossible_filter_leads_back_to_the_list(operator: Client) -> None:
    for query in ("status=lost", "due=soon", "risk=none", "decides=ann"):
        assert operator.get(f"{LIST}?{query}").status_code == 302


def test_search_finds_by_sentence_object_id_and_requester(operator: Client, ann: User, ben: User, order: Any) -> None:
    review, other = ask("Refund to Acme", actor=ben), ask_about(order)
    for term, wanted in (
        ("acme", review),
        ("order a", other),
        (str(review.pk), review),
        (review.pk.hex, review),
        ("be", review),
    ):
        (row,) = read_rows(operator.get(LIST, {"q": term}).text)
        assert (wanted.title in row) is True
    assert read_rows(operator.get(LIST, {"q": "100%_x"}).text) == []
    assert read_rows(operator.get(LIST, {"q": str(uuid4())}).text) == []


def test_the_list_costs_the_same_for_twenty_rows_as_for_one(operator: Client, ann: User, ben: User) -> None:
    Group.objects.create(name="finance")
    ask(actor=ben, groups=["finance"], permission="auth.add_user")
    cost = count_queries(operator, LIST)
    for n in range(9):
        other = User.objects.create_user(f"u{n}")
        workflows.start_many(
            "approval-admin-asks", [{"title": f"no {n}", "assignees": [f"u{n}", "ann"]}] * 2, actor=other
        )
    drain()
    claim(Review.objects.order_by("pk").first(), actor=ann)
    assert count_queries(operator, LIST) == cost
    # session, user, workspaces, names of workflows, workspaces to choose, count, rows, those asked, users, groups with
    # permissions
    assert cost == 10
    assert len(read_rows(operator.get(LIST).text)) == 19


def test_the_list_loads_no_values(operator: Client, ann: User) -> None:
    ask()
    with CaptureQueriesContext(connection) as seen:
        operator.get(LIST)
    (rows,) = [one["sql"] for one in seen if '"holdpoint_review"."title"' in one["sql"]]
    for column in ("snapshot", "change", "evidence", "quorum", "rungs", "request", "output"):
        assert f'."{column}"' not in rows


def test_what_people_wrote_is_text(operator: Client, ann: User) -> None:
    User.objects.filter(pk=ann.pk).update(first_name=HOSTILE)
    review = ask(HOSTILE, evidence=[(HOSTILE, HOSTILE)], request={HOSTILE: HOSTILE})
    comment(review, HOSTILE, actor=ann)
    decide(review, "reject", actor=ann, reason=HOSTILE)
    vote, said = Vote.objects.get(), Comment.objects.get()
    for url in (
        LIST,
        page_of(review),
        "/admin/holdpoint_approvals/vote/",
        f"/admin/holdpoint_approvals/vote/{vote.pk}/change/",
        "/admin/holdpoint_approvals/comment/",
        f"/admin/holdpoint_approvals/comment/{said.pk}/change/",
    ):
        page = operator.get(url).text
        assert "<script>alert" not in page
        assert "&lt;script&gt;" in page


def test_what_reorders_a_line_is_made_visible(operator: Client, ann: User) -> None:
    review = ask("Pay \u202egpj.exe")
    for url in (LIST, page_of(review), page_of(review, "withdraw/"), page_of(review, "decide/")):
        assert "\u202e" not in operator.get(url).text


# --- who may look --------------------------------------------------------------------------------------


def test_without_the_permission_there_is_nothing_to_see(ann: User) -> None:
    review = ask()
    vote = decide(review, "approve", actor=ann).vote
    browser = staff("view_instance")
    for url in (
        LIST,
        page_of(review),
        "/admin/holdpoint_approvals/vote/",
        f"/admin/holdpoint_approvals/vote/{vote.pk}/change/",  # type: ignore[union-attr]
        "/admin/holdpoint_approvals/comment/",
        "/admin/holdpoint_approvals/delivery/",
        "/admin/holdpoint_approvals/absence/",
        "/admin/holdpoint_approvals/preference/",
    ):
        assert browser.get(url).status_code == 403


def test_in_a_site_of_several_tenants_one_sees_those_of_ones_own(ann: User) -> None:
    acme = workflows.workspace.create("acme")
    other = workflows.workspace.create("other")
    ada = User.objects.create_superuser("ada")
    acme.members.add(ann, ada)
    other.members.add(ann)
    mine, theirs = ask("mine", workspace="acme"), ask("theirs", workspace="other")
    for one in (mine, theirs):
        comment(one, "said", actor=ann)
        decide(one, "approve", actor=ann)
    browser = login(ada)
    (row,) = read_rows(browser.get(LIST).text)
    assert "acme/ mine" in row
    assert "?workspace=other" not in browser.get(LIST).text
    assert browser.get(page_of(theirs)).status_code == 302
    assert browser.get(page_of(theirs, "decide/")).status_code == 404
    assert browser.post(page_of(theirs, "release/")).status_code == 404
    for model in ("vote", "comment"):
        (row,) = read_rows(browser.get(f"/admin/holdpoint_approvals/{model}/").text)
        assert "mine" in row
    hidden = Vote.objects.get(review=theirs)
    assert browser.get(f"/admin/holdpoint_approvals/vote/{hidden.pk}/change/").status_code == 302


def test_nothing_can_be_added_changed_or_deleted(operator: Client, ann: User) -> None:
    review = ask()
    comment(review, "x", actor=ann)
    decide(review, "approve", actor=ann)
    for model, row in (("review", review), ("vote", Vote.objects.get()), ("comment", Comment.objects.get())):
        base = f"/admin/holdpoint_approvals/{model}/"
        assert operator.get(f"{base}add/").status_code == 403
        assert operator.post(f"{base}{row.pk}/change/", {}).status_code == 403
        assert operator.post(f"{base}{row.pk}/delete/", {"post": "yes"}).status_code == 403
        assert "delete_selected" not in operator.get(base).text


# --- the page of one -----------------------------------------------------------------------------------


def test_the_page_tells_everything_about_one(operator: Client, ann: User, ben: User, order: Any) -> None:
    review = ask_about(
        order,
        change={"amount": "99.50"},
        requester="ben",
        evidence=[("Contract", "https://shop.example/7"), ("Orders so far", 12)],
        request={"cost_centre": "4711"},
        due="2d",
        escalate=[("3d", ("outcome", "reject"))],
        quorum=1,
    )
    request_info(review, "Which account?", actor=ann)
    page = operator.get(page_of(review)).text
    words = read_words(page)
    for text in (
        "Waiting for Ann Archer",
        "Ben Okafor",
        "€1,240.00",
        "€99.50",
        "Cost centre",
        "4711",
        "Orders so far",
        "One answer decides.",
        "Answered “Reject” automatically",
        "Which account?",
        "Four eyes",
    ):
        assert text in words
    assert 'href="https://shop.example/7"' in page
    assert f'href="/admin/holdpoint/instance/{review.instance_id}/change/"' in page
    assert f'href="/admin/holdpoint/interaction/{review.pk}/change/"' in page
    assert "&quot;cost_centre&quot;: &quot;4711&quot;" in page


def test_the_page_lists_who_may_decide_and_how_they_came_to(operator: Client, ann: User, ben: User) -> None:
    review = ask()
    reassign(review, users=[ben], keep=True, actor=User.objects.get(username="ada"))
    told = section(operator.get(page_of(review)).text, "candidates-page")
    assert f"Ann Archer user:{ann.pk}" in told
    assert f"Ben Okafor user:{ben.pk} – Ada" in told


def test_votes_that_were_taken_back_stay_in_sight(operator: Client, ann: User, ben: User) -> None:
    review = ask(assignees=["ann", "ben"], quorum=2)
    decide(review, "approve", actor=ann, reason="looks right")
    undo(review, actor=ann)
    decide(review, "reject", actor=ann)
    told = section(operator.get(page_of(review)).text, "votes-page")
    assert "looks right" in told
    for text in ("taken back", "takes a vote back", "counts"):
        assert text in told


def test_the_page_shows_comments_and_deliveries(operator: Client, ann: User) -> None:
    review = ask()
    comment(review, "Is this within budget?", actor=ann)
    make_delivery(review, ann, status="failed", error="mailbox full")
    page = operator.get(page_of(review)).text
    assert "Is this within budget?" in section(page, "comments-page")
    assert "mailbox full" in section(page, "deliveries-page")


def test_a_secret_in_a_request_is_not_shown(operator: Client, ann: User) -> None:
    review = ask(request={"host": "a", "api_key": "canary"})
    assert "canary" not in operator.get(page_of(review)).text
    assert "canary" not in operator.get(page_of(review, "value/request/")).text


def test_a_whole_value_is_plain_text(operator: Client, ann: User) -> None:
    review = ask(request={"text": "x" * 30_000})
    response = operator.get(page_of(review, "value/request/"))
    assert response["Content-Type"] == "text/plain; charset=utf-8"
    assert len(response.text) > 30_000
    assert operator.get(page_of(review, "value/password/")).status_code == 302
    assert staff("view_instance").get(page_of(review, "value/request/")).status_code == 403


def test_the_page_costs_the_same_for_many_votes_candidates_comments_and_messages(
    operator: Client, ann: User, order: Any
) -> None:
    names = [User.objects.create_user(f"u{n}").username for n in range(30)]
    some = ["ada", "ann", *names[:12]]
    few = ask_about(order, change={"amount": "99.50"}, requester="ann", quorum=2, assignees=some)
    decide(few, "approve", actor=User.objects.get(username="ada"))
    comment(few, "x", actor=User.objects.get(username="ada"))
    make_delivery(few, ann)
    many = ask_about(order, change={"amount": "99.50"}, requester="ann", quorum=29, assignees=[*names, "ada"])
    for name in names[:12]:
        user = User.objects.get(username=name)
        comment(many, "x", actor=user)
        decide(many, "approve", actor=user)
        make_delivery(many, user)
    # The card's statements, and those of: session, user, review, comments, messages, names of all who are asked.
    operator.get(page_of(few))  # Django looks up the kinds of models once for the whole process
    costs = [count_queries(operator, page_of(one)) for one in (few, many)]
    assert costs == [13, 13]


def test_a_review_whose_object_is_gone_still_has_a_page(operator: Client, ann: User, order: Any) -> None:
    review = ask_about(order, change={"amount": "99.50"})
    order.delete()
    assert "no longer there" in operator.get(page_of(review)).text


def test_an_address_that_is_no_review_leads_away(operator: Client) -> None:
    assert operator.get(f"{LIST}{uuid4()}/change/").status_code == 302
    assert operator.get(f"{LIST}{uuid4()}/decide/").status_code == 404
    assert operator.get(f"{LIST}nonsense/change/").status_code == 302


# --- votes, comments, deliveries -----------------------------------------------------------------------


def make_delivery(review: Review, user: User, **values: Any) -> Delivery:
    given = {
        "kind": "new",
        "channel": "email",
        "address": "a@b.example",
        "status": "sent",
        "created_at": timezone.now(),
    }
    made: Delivery = insert(Delivery(review=review, user_id=user.pk, **{**given, **values}))
    return made


def test_lists_of_votes_comments_and_messages_name_people_at_a_fixed_cost(operator: Client, ann: User) -> None:
    review = ask(assignees=["ann"])
    comment(review, "Is this within budget?", actor=ann)
    make_delivery(review, ann)
    decide(review, "approve", actor=ann)
    base = "/admin/holdpoint_approvals/"
    lists = [f"{base}vote/", f"{base}comment/", f"{base}delivery/"]
    costs = [count_queries(operator, url) for url in lists]
    for text, url in zip(("Approve", "Is this within budget?", "email"), lists, strict=True):
        row = next(one for one in read_rows(operator.get(url).text) if text in one)
        assert "Ann Archer" in row
        assert "Refund €40.00 to Acme" in row
    for n in range(5):
        user = User.objects.create_user(f"u{n}")
        one = ask(f"number {n}", assignees=[user.username])
        comment(one, "x", actor=user)
        make_delivery(one, user)
        decide(one, "reject", actor=user)
    assert [count_queries(operator, url) for url in lists] == costs
    assert max(costs) <= 8


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("counts=yes", 1),
        ("counts=no", 1),
        ("counts=reversal", 1),
        ("door=python", 3),
        ("door=admin", 0),
        ("special=override", 0),
        ("special=automated", 0),
        ("special=absence", 0),
        ("q=an", 3),
        ("q=zoe", 0),
    ],
)
def test_votes_can_be_filtered_and_searched(operator: Client, ann: User, query: str, count: int) -> None:
    review = ask(assignees=["ann", "ada"], quorum=2)
    decide(review, "approve", actor=ann)
    undo(review, actor=ann)
    decide(review, "reject", actor=ann)
    assert len(read_rows(operator.get(f"/admin/holdpoint_approvals/vote/?{query}").text)) == count
    assert len(read_rows(operator.get(f"/admin/holdpoint_approvals/vote/?q={review.pk}").text)) == 3
    assert operator.get("/admin/holdpoint_approvals/vote/?counts=maybe").status_code == 302


def test_the_page_of_a_vote_tells_what_it_was_counted_against(operator: Client, ann: User) -> None:
    review = ask(schema={"type": "object", "properties": {"amount": {"type": "integer"}}})
    vote = decide(review, "approve", actor=ann, data={"amount": 40}, reason="two\nlines").vote
    page = operator.get(f"/admin/holdpoint_approvals/vote/{vote.pk}/change/").text  # type: ignore[union-attr]
    for text in ("&quot;amount&quot;: 40", "two\nlines", "Ann Archer", "&quot;state&quot;"):
        assert text in page


# --- people --------------------------------------------------------------------------------------------


def test_an_absence_is_written_changed_and_removed(operator: Client, ann: User, ben: User) -> None:
    base = "/admin/holdpoint_approvals/absence/"
    page = operator.get(f"{base}add/").text
    assert 'data-field-name="substitute"' in page  # searched for, not picked from a list of everybody
    given = {
        "user": ann.pk,
        "substitute": ben.pk,
        "since_0": "2026-01-01",
        "since_1": "08:00",
        "until_0": "",
        "until_1": "",
        "workspace": "",
        "workflows": ["approval-admin-asks"],
        "note": "parental leave",
    }
    operator.post(f"{base}add/", given)
    absence = Absence.objects.get()
    assert (absence.user, absence.substitute, absence.workflows) == (ann, ben, ["approval-admin-asks"])
    (row,) = read_rows(operator.get(base).text)
    for text in ("Ann Archer", "Ben Okafor", "until further notice", "approval-admin-asks"):
        assert text in row
    operator.post(f"{base}{absence.pk}/change/", {**given, "workflows": []})
    absence.refresh_from_db()
    assert absence.workflows is None
    operator.post(f"{base}{absence.pk}/delete/", {"post": "yes"})
    assert not Absence.objects.exists()


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"substitute": "user"}, "Nobody can stand in for themselves."),
        ({"until_0": "2025-01-01", "until_1": "08:00"}, "An absence ends after it begins."),
        ({"workflows": ["unheard of"]}, "unheard of"),
    ],
)
def test_an_absence_that_makes_no_sense_is_refused(
    operator: Client, ann: User, ben: User, changed: dict[str, Any], told: str
) -> None:
    given = {
        "user": ann.pk,
        "substitute": ben.pk,
        "since_0": "2026-01-01",
        "since_1": "08:00",
        "until_0": "",
        "until_1": "",
        **{name: ann.pk if value == "user" else value for name, value in changed.items()},
    }
    assert told in operator.post("/admin/holdpoint_approvals/absence/add/", given).text
    assert not Absence.objects.exists()


def test_absences_can_be_filtered_by_when_and_searched_by_either(operator: Client, ann: User, ben: User) -> None:
    now = timezone.now()
    for days, until in ((-2, None), (2, None), (-5, -4)):
        Absence.objects.create(
            user=ann,
            substitute=ben,
            since=now + timedelta(days=days),
            until=None if until is None else now + timedelta(days=until),
        )
    base = "/admin/holdpoint_approvals/absence/"
    for value in ("now", "coming", "over"):
        assert len(read_rows(operator.get(f"{base}?when={value}").text)) == 1
    for term, count in (("an", 3), ("be", 3), ("zo", 0)):
        assert len(read_rows(operator.get(base, {"q": term}).text)) == count


def test_absences_and_preferences_are_listed_at_a_fixed_cost(operator: Client, ann: User, ben: User) -> None:
    now = timezone.now()
    Absence.objects.create(user=ann, substitute=ben, since=now)
    Preference.objects.create(user=ann)
    urls = ["/admin/holdpoint_approvals/absence/", "/admin/holdpoint_approvals/preference/"]
    costs = [count_queries(operator, url) for url in urls]
    for n in range(10):
        user = User.objects.create_user(f"u{n}")
        Absence.objects.create(user=user, substitute=ann, since=now)
        Preference.objects.create(user=user)
    assert [count_queries(operator, url) for url in urls] == costs


def test_who_may_only_look_at_absences_looks(ann: User, ben: User) -> None:
    absence = Absence.objects.create(user=ann, substitute=ben, since=timezone.now(), workflows=["x"])
    browser = staff("view_absence")
    assert "Ann Archer" in browser.get(f"/admin/holdpoint_approvals/absence/{absence.pk}/change/").text or True
    assert browser.get(f"/admin/holdpoint_approvals/absence/{absence.pk}/change/").status_code == 200
    assert browser.post(f"/admin/holdpoint_approvals/absence/{absence.pk}/delete/", {"post": "yes"}).status_code == 403


def test_preferences_offer_what_there_is(operator: Client, ann: User) -> None:
    base = "/admin/holdpoint_approvals/preference/"
    page = operator.get(f"{base}add/").text
    assert "Europe/Berlin" in page
    given = {"user": ann.pk, "language": "de", "time_zone": "Europe/Berlin", "email": "daily", "shortcuts": "on"}
    operator.post(f"{base}add/", given)
    kept = Preference.objects.get()
    assert (kept.user, kept.language, kept.time_zone, kept.email) == (ann, "de", "Europe/Berlin", "daily")
    operator.post(f"{base}{kept.pk}/change/", {**given, "time_zone": "Mars/Olympus"})
    kept.refresh_from_db()
    assert kept.time_zone == "Europe/Berlin"


# --- a site of the project's own -----------------------------------------------------------------------


@pytest.fixture
def backoffice(shop: Any) -> Iterator[None]:
    """An admin under another name and address, which has only the reviews."""
    from approvals.admin import ReviewAdmin
    from tests.support.apps.shop.site import open_site

    with open_site((Review, ReviewAdmin), (Instance, admin.ModelAdmin)):
        yield


def test_a_site_of_ones_own_links_to_itself(backoffice: None, operator: Client, ann: User) -> None:
    review = ask()
    base = "/backoffice/holdpoint_approvals/review/"
    page = operator.get(f"{base}{review.pk}/change/").text
    assert f'href="/backoffice/holdpoint/instance/{review.instance_id}/change/"' in page
    assert 'href="/admin/' not in page
    assert operator.get(base).status_code == 200
    for tail in ("override/", "extend/", "reassign/", "withdraw/"):
        page = operator.get(f"{base}{review.pk}/{tail}").text
        assert f'href="{base}{review.pk}/change/"' in page
        assert 'href="/admin/' not in page
