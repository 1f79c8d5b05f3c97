"""The inbox as pages: the list, what of it is alive, the theme and the keys, and what each costs."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth.models import Group, User
from django.core.signals import got_request_exception
from django.db import connection
from django.test import Client, RequestFactory, override_settings
from django.test.utils import CaptureQueriesContext
from django.views.debug import SafeExceptionReporterFilter

from approvals import decide
from approvals.actions import actions
from approvals.models import Absence, Preference, Presence, Review, SavedView
from approvals.people.viewer import find_viewer
from approvals.web.base.page import Opened
from approvals.web.inbox.inbox_page import inbox
from tests.support.review_calls import ask, ask_all, grant, make_person
from workflows.clock import read_now
from workflows.models import Workspace
from workflows.testing import advance

pytestmark = pytest.mark.django_db

#: Of very many tenants.
SLUGS = ["default", *(f"tenant-{number}" for number in range(60))]


def log_in(user: User) -> Client:
    client = Client()
    client.force_login(user)
    return client


def hear(client: Client, address: str) -> list[str]:
    """The statements of a page that was opened before."""
    assert client.get(address).status_code == 200
    with CaptureQueriesContext(connection) as heard:
        assert client.get(address).status_code == 200
    told: list[str] = [one["sql"] for one in heard.captured_queries]
    return [one for one in told if not one.startswith(("SAVEPOINT", "RELEASE"))]


# --- the page -----------------------------------------------------------------------------------------------


def test_a_stranger_is_sent_to_the_login_and_back() -> None:
    answer = Client().get("/approvals/?view=today")
    assert answer.status_code == 302
    assert answer["Location"].endswith("?next=/approvals/%3Fview%3Dtoday")


def test_an_empty_inbox_says_so(ann: User) -> None:
    answer = log_in(ann).get("/approvals/")
    assert answer.context["rows"].is_empty
    assert "Nothing waits" in answer.text


def test_an_empty_inbox_tells_what_was_done_today(ann: User) -> None:
    client = log_in(ann)
    assert "You decided" not in client.get("/approvals/").text
    for number in range(3):
        review = ask(groups=["finance"], title=f"Refund {number}")
        advance("10m")
        decide(review, "approve", actor=ann)
    assert "You decided 3 requests today; the median wait was 10\u00a0minutes." in client.get("/approvals/").text
    assert "You decided" not in client.get("/approvals/?view=overdue").text
    assert "You decided" not in log_in(make_person("ben", "finance")).get("/approvals/").text
    advance("1d")
    assert "You decided" not in client.get("/approvals/").text


def test_the_bar_names_those_who_have_voted(ann: User) -> None:
    review = ask(groups=["finance"], quorum=3)
    client, cid = log_in(ann), make_person("cid", "finance")
    make_person("dee", "finance")
    assert "0 of 3 approved." in client.get(f"/approvals/{review.pk}/").text
    decide(review, "approve", actor=make_person("ben", "finance"))
    assert "1 of 3 approved: Ben." in client.get(f"/approvals/{review.pk}/").text
    decide(review, "reject", actor=cid, reason="Too much")
    # Whose vote was which stands in the history.
    assert "1 of 3 approved, 1 rejected." in client.get(f"/approvals/{review.pk}/").text


def test_what_high_risk_takes_away_is_said_above_the_sentence(ann: User) -> None:
    client, told = log_in(ann), "no undo, no bulk, no single key"
    assert told in client.get(f"/approvals/{ask(groups=['finance'], risk='high').pk}/").text
    assert told not in client.get(f"/approvals/{ask(groups=['finance']).pk}/").text


def test_what_was_decided_before_says_why_and_leads_there(ann: User) -> None:
    before = ask(groups=["finance"], title="Refund one")
    decide(before, "reject", actor=ann, reason="No receipt <b>")
    page = log_in(ann).get(f"/approvals/{ask(groups=['finance']).pk}/").text
    assert f'<a href="/approvals/{before.pk}/"><bdi>Refund one</bdi></a>' in page
    assert "<bdi>No receipt &lt;b&gt;</bdi>" in page


def test_in_lists_of_what_waits_for_others_nothing_is_said_to_wait_for_oneself(ann: User) -> None:
    ben = make_person("ben")
    for view, told in (("requested", False), ("mine", True)):
        client, whose = (log_in(ben), {"requester": ben}) if view == "requested" else (log_in(ann), {})
        client.get(f"/approvals/?view={view}")
        ask(groups=["finance"], title=f"Refund {view}", **whose)
        news = client.get(f"/approvals/live/?view={view}&shown=&stamp=", headers={"HX-Request": "true"}).text
        assert f"New: Refund {view}." in news
        assert ("for you." in news) is told


def test_whether_an_answer_can_be_taken_back_is_said_to_whoever_can_give_it(ann: User) -> None:
    ben = make_person("ben")
    review = ask(groups=["finance"], requester=ben)
    assert "It can be undone for 8 seconds." in log_in(ann).get(f"/approvals/{review.pk}/").text
    assert "It can be undone" not in log_in(ben).get(f"/approvals/{review.pk}/").text
    high = ask(groups=["finance"], risk="high")
    assert "It takes effect at once and can’t be undone." in log_in(ann).get(f"/approvals/{high.pk}/").text


def test_a_question_to_the_requester_stands_in_their_list(ann: User) -> None:
    ben = make_person("ben")
    review, _ = ask(groups=["finance"], requester=ben), ask(groups=["finance"], requester=ben)
    assert "A question for you" not in log_in(ben).get("/approvals/?view=requested").text
    actions.request_info(review, "Which card?", actor=ann)
    assert log_in(ben).get("/approvals/?view=requested").text.count("A question for you") == 1
    assert "A question for you" not in log_in(ann).get("/approvals/").text
    actions.answer_info(review, "The blue one", actor=ben)
    assert "A question for you" not in log_in(ben).get("/approvals/?view=requested").text


def test_a_list_of_a_group_that_one_is_not_in_is_ones_own(ann: User) -> None:
    ask(groups=["finance"], title="Refund one")
    legal = Group.objects.create(name="legal")
    answer = log_in(ann).get(f"/approvals/?view=group-{legal.pk}")
    assert answer.context["rows"].title == "Waiting for me"
    assert "Refund one" in answer.text


def test_the_rail_asks_about_groups_only_where_something_waits_for_them(ann: User) -> None:
    Group.objects.create(name="legal").user_set.add(ann)
    ask(groups=["finance"])
    longest = max(map(len, hear(log_in(ann), "/approvals/")))
    with override_settings(WORKFLOWS={**django_settings.WORKFLOWS, "WORKSPACES_FOR": lambda user: SLUGS}):
        for slug in SLUGS:
            Workspace.objects.get_or_create(slug=slug)
        answer = log_in(ann).get("/approvals/?workspace=default")
        assert [(one.name, one.count) for one in answer.context["rail"].groups] == [("finance", "1"), ("legal", "")]
        assert max(map(len, hear(log_in(ann), "/approvals/"))) < longest + 40 * len(SLUGS)


def test_an_account_that_was_closed_a_moment_ago_sees_nothing_and_breaks_nothing(ann: User) -> None:
    ask(groups=["finance"], title="Refund one")
    request = RequestFactory().get("/approvals/")
    request.user = User.objects.get(pk=ann.pk)
    User.objects.filter(pk=ann.pk).update(is_active=False)
    answer = inbox(request)
    assert answer.status_code == 200
    assert "Refund one" not in answer.text


def test_a_filter_that_nothing_passes_is_not_an_empty_inbox(ann: User) -> None:
    ask(groups=["finance"])
    answer = log_in(ann).get("/approvals/?q=nothing-of-this")
    assert answer.context["rows"].is_narrowed
    assert "Nothing waits for you" not in answer.text


def test_what_waits_is_listed_as_text_and_leads_to_its_page(ann: User) -> None:
    review = ask(title="Refund <b>Acme</b>\u202e", groups=["finance"], why="<script>alert(1)</script>")
    client = log_in(ann)
    page = client.get("/approvals/")
    assert "Refund &lt;b&gt;Acme&lt;/b&gt;" in page.text
    assert f'href="/approvals/{review.pk}/"' in page.text
    for text in (page.text, client.get(f"/approvals/{review.pk}/").text):
        assert "<b>Acme" not in text
        assert "<script>alert" not in text
        assert "\u202e" not in text


def test_it_has_no_inline_script_or_style_and_a_strict_policy(ann: User) -> None:
    ask(groups=["finance"])
    page = log_in(ann).get("/approvals/")
    assert " style=" not in page.text
    assert "<style" not in page.text
    assert " onclick=" not in page.text
    assert page.text.count("<script") == page.text.count("<script src=")
    assert page["Content-Security-Policy"].startswith("default-src 'none'; style-src 'self'; ")
    assert page["Cache-Control"] == "no-store"


@override_settings(APPROVALS={"BASE_TEMPLATE": "admin/base_site.html"})
def test_it_stands_in_a_projects_own_frame(ann: User) -> None:
    review = ask(groups=["finance"])
    client = log_in(ann)
    for address in ("/approvals/", f"/approvals/{review.pk}/"):
        page = client.get(address)
        assert "admin/css/base.css" in page.text
        assert "Pay the invoice" in page.text


def test_only_reading_is_offered(ann: User) -> None:
    client = log_in(ann)
    for address in ("/approvals/", "/approvals/live/"):
        assert client.post(address, {"outcome": "approve"}).status_code == 405
        assert client.head(address).status_code == 200


def test_it_costs_few_statements_however_many_wait(ann: User) -> None:
    client, ben = log_in(ann), make_person("ben", "finance")
    Absence.objects.create(user=ben, substitute=ann, since=read_now())
    SavedView.objects.create(user=ann, name="Mine", query="q=pay")
    ask(groups=["finance"], requester=ben)
    queries = ("", "?view=overdue", "?q=pay", "?risk=low&sort=newest", "?view=requested")
    few = [hear(client, f"/approvals/{query}") for query in queries]
    common: dict[str, Any] = {"groups": ["finance"], "quorum": 2, "risk": "medium"}
    ask_all({"title": f"Pay {n}", "requester": make_person(f"p{n}"), "why": str(n), **common} for n in range(12))
    for query, before in zip(queries, few, strict=True):
        many = hear(client, f"/approvals/{query}")
        # Who is away is read like who looks; saved views are counted by themselves.
        assert len(many) <= len(before) <= 12 + 4 + 1, "\n\n".join([query, *many])


def test_a_plain_inbox_costs_twelve_statements_at_most(ann: User) -> None:
    ask(groups=["finance"])
    assert len(told := hear(log_in(ann), "/approvals/")) <= 12, "\n\n".join(told)


# --- what is alive ------------------------------------------------------------------------------------------


def look(client: Client, shown: list[Review] = [], **asked: Any) -> Any:  # noqa: B006
    return client.get("/approvals/live/", {**asked, "shown": ",".join(str(one.pk) for one in shown)})


def test_it_says_nothing_until_something_changes(ann: User) -> None:
    client = log_in(ann)
    first = ask(title="one", groups=["finance"])
    stamp = look(client, [first]).context["rows"].stamp
    assert look(client, [first], stamp=stamp).status_code == 204
    ask(title="two", groups=["finance"])
    answer = look(client, [first], stamp=stamp)
    assert [row.title for row in answer.context["rows"].rows] == ["one", "two"]


def test_what_somebody_else_decided_stays_and_says_so(ann: User) -> None:
    client, ben = log_in(ann), make_person("ben", "finance")
    reviews = [ask(title=title, groups=["finance"]) for title in ("one", "two", "three")]
    decide(reviews[1], "approve", actor=ben)
    page = look(client, reviews).context["rows"]
    assert [(row.title, row.status) for row in page.rows] == [("one", "open"), ("two", "decided"), ("three", "open")]
    assert "by Ben" in page.rows[1].told
    assert page.announcement.startswith("two: “Approve” by Ben")
    assert page.announcement.endswith("2 wait for you.")


def test_what_has_come_is_announced_and_what_moved_up_is_not(ann: User) -> None:
    client = log_in(ann)
    old = ask(title="old", groups=["finance"])
    advance("5m")
    ask(title="new", groups=["finance"])
    assert client.get("/approvals/").context["rows"].announcement == ""
    assert look(client).context["rows"].announcement == "New: new. 2 wait for you."
    for n in range(4):
        ask(title=f"more {n}", groups=["finance"])
    assert look(client, [old]).context["rows"].announcement == "5 new requests. 6 wait for you."


def test_the_open_request_says_that_somebody_claimed_or_said_something(ann: User) -> None:
    client, ben = log_in(ann), make_person("ben", "finance")
    review = ask(groups=["finance"])
    said = client.get(f"/approvals/{review.pk}/").context["said"]
    assert look(client, open=str(review.pk)).context["opened"].said == said
    actions.comment(review, "Wait", actor=ben)
    later = look(client, open=str(review.pk)).context["opened"].said
    assert later != said
    actions.claim(review, actor=ben)
    assert look(client, open=str(review.pk)).context["opened"].said not in (said, later)


def test_what_somebody_decided_themselves_is_not_told_them_again(ann: User) -> None:
    client = log_in(ann)
    reviews = [ask(title=title, groups=["finance"]) for title in ("one", "two")]
    decide(reviews[0], "approve", actor=ann)
    page = look(client, reviews).context["rows"]
    assert [(row.title, row.status) for row in page.rows] == [("one", "decided"), ("two", "open")]
    assert page.announcement == ""


def test_what_somebody_else_claimed_stays_and_says_so(ann: User) -> None:
    client, ben = log_in(ann), make_person("ben", "finance")
    reviews = [ask(title=title, groups=["finance"]) for title in ("one", "two", "three")]
    actions.claim(reviews[0], actor=ben)
    page = look(client, reviews).context["rows"]
    assert [(row.title, row.claimed_by) for row in page.rows] == [("one", "Ben"), ("two", ""), ("three", "")]
    assert page.announcement == "one: Ben has claimed it. 2 wait for you."
    assert [row.title for row in look(client).context["rows"].rows] == ["two", "three"]


def test_what_was_taken_from_somebodys_sight_is_not_told_them(ann: User) -> None:
    client, ben = log_in(ann), make_person("ben", "finance")
    review = ask(title="secret", groups=["finance"])
    ann.groups.clear()
    decide(review, "approve", actor=ben)
    assert "secret" not in look(client, [review]).text


def test_it_says_who_else_has_the_open_request_open(ann: User) -> None:
    client, ben = log_in(ann), make_person("ben", "finance")
    review = ask(groups=["finance"])
    log_in(ben).get(f"/approvals/{review.pk}/", headers={"HX-Request": "true"})
    opened = look(client, open=str(review.pk)).context["opened"]
    assert (opened.looking, opened.status) == (("Ben",), "open")
    assert Presence.objects.filter(user=ann).exists()
    (row,) = look(client).context["rows"].rows
    assert row.looking == ("Ben",)
    decide(review, "approve", actor=ben)
    assert look(client, open=str(review.pk)).context["opened"].status == "over"


def test_it_tells_nothing_of_what_is_not_theirs(ann: User) -> None:
    stranger = log_in(make_person("eve"))
    review = ask(title="secret", groups=["finance"])
    answer = look(stranger, [review], open=str(review.pk))
    assert "secret" not in answer.text
    assert answer.context["opened"].status == "gone"
    assert Presence.objects.count() == 0


def test_whatever_a_browser_says_it_shows_is_survived(ann: User) -> None:
    client = log_in(ann)
    for shown in ("x", ",,,", "0" * 5000, ",".join(["c4ca4238-a0b9-2382-0dcc-509a6f75849b"] * 1000)):
        assert client.get("/approvals/live/", {"shown": shown, "open": shown}).status_code == 200


def test_whoever_may_see_all_sees_what_they_look_at(ann: User) -> None:
    boss = grant(make_person("boss"), "view_review")
    review = ask(groups=["finance"])
    assert log_in(boss).get(f"/approvals/{review.pk}/").status_code == 200
    assert log_in(boss).get("/approvals/").context["rows"].is_empty


# --- theme and keys -----------------------------------------------------------------------------------------


def test_a_theme_is_kept_for_the_browser_and_stands_in_the_page(ann: User) -> None:
    client = log_in(ann)
    answer = client.post("/approvals/theme/", {"theme": "dark", "next": "/approvals/?view=today"})
    assert (answer.status_code, answer["Location"]) == (303, "/approvals/?view=today")
    assert 'data-theme="dark"' in client.get("/approvals/").text
    assert client.post("/approvals/theme/", {"theme": "system"}, headers={"HX-Request": "true"}).status_code == 204
    assert "data-theme=" not in client.get("/approvals/").text.partition("<body")[0]


def test_keys_can_be_turned_off_for_good(ann: User) -> None:
    client = log_in(ann)
    client.post("/approvals/keys/", {"shortcuts": "off"})
    assert client.get("/approvals/").context["person"].keys_on is False
    client.post("/approvals/keys/", {"shortcuts": "on"})
    assert Preference.objects.get(user=ann).shortcuts


@pytest.mark.parametrize("address", ["/approvals/theme/", "/approvals/keys/"])
def test_these_take_no_strangers_form_and_lead_nowhere_else(ann: User, address: str) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(ann)
    client.post(address, {"theme": "dark", "shortcuts": "off"})
    assert not Preference.objects.exists()
    assert "holdpoint_theme" not in client.cookies or not client.cookies["holdpoint_theme"].value
    answer = log_in(ann).post(address, {"theme": "dark", "next": "https://evil.example/"})
    assert answer["Location"] == "/approvals/"


# --- what is around it --------------------------------------------------------------------------------------


def test_a_viewer_that_the_project_made_earlier_does_not_hide_who_it_is(ann: User, rf: RequestFactory) -> None:
    SavedView.objects.create(user=ann, name="Mine", query="q=pay")
    request = rf.get("/approvals/")
    request.user = ann
    first = find_viewer(request)
    page = Opened(request)
    assert [one.name for one in page.desk.saved] == ["Mine"]
    assert page.viewer is not first
    assert find_viewer(request) is page.viewer


@override_settings(AUTHENTICATION_BACKENDS=["django.contrib.auth.backends.AllowAllUsersModelBackend"])
def test_a_closed_account_is_nobody_whatever_a_backend_says(ann: User) -> None:
    client = log_in(ann)
    User.objects.filter(pk=ann.pk).update(is_active=False)
    assert client.get("/approvals/").status_code == 302
    assert client.post("/approvals/keys/", {"shortcuts": "off"}).status_code == 401
    assert not Preference.objects.exists()


def test_a_password_stands_in_no_report_of_an_error(ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
    client, heard = log_in(ann), []
    client.raise_request_exception = False
    review = ask(groups=["finance"])

    def listen(sender: Any, request: Any, **more: Any) -> None:
        heard.append(SafeExceptionReporterFilter().get_post_parameters(request))

    got_request_exception.connect(listen)
    try:
        with override_settings(APPROVALS={"UNDO_SECONDS": object()}):  # as if something of ours failed
            answer = client.post(
                f"/approvals/{review.pk}/", {"outcome": "approve", "version": "1", "password": "s3cret"}
            )
    finally:
        got_request_exception.disconnect(listen)
    assert answer.status_code == 500
    assert heard[0]["outcome"] == "approve"
    assert heard[0]["password"] != "s3cret"


@pytest.mark.parametrize("charset", ["hex", "unicode_escape", "utf-16", "nonsense"])
@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=b"])
def test_a_form_in_another_character_set_is_refused(ann: User, kind: str, charset: str) -> None:
    review, client = ask(groups=["finance"]), log_in(ann)
    for address in (f"/approvals/{review.pk}/", "/approvals/theme/", "/approvals/settings/", "/approvals/views/"):
        body = b"theme=dark&name=%5cud800&do=comment&text=%5cud800"
        answer = client.generic("POST", address, body, content_type=f"{kind}; charset={charset}")
        assert answer.status_code == 400
        assert "UTF-8" in answer.text


def test_an_address_of_a_thousand_parts_is_a_list_too(ann: User) -> None:
    many = "%26".join(["a"] * 3_000)
    assert log_in(ann).get(f"/approvals/views/?query={many}").status_code == 200
    assert log_in(ann).get(f"/approvals/bulk/?list={many}").status_code == 200
