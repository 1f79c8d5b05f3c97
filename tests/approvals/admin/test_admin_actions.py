"""What can be done to reviews in the admin: the same calls, the same rules, the same sentences."""

from __future__ import annotations

import html
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Group, Permission, User
from django.core.cache import cache
from django.test import Client
from django.utils import timezone

import workflows
from approvals import claim, comment, decide
from approvals.admin import action_pages
from approvals.models import Delivery, Review, Vote
from approvals.models.writer import insert
from tests.support.review_admin import ask, ask_about, fill, login, page_of, read_messages, read_rows, read_words
from workflows.admin import base
from workflows.lifecycle import Event, Status
from workflows.models import LedgerEvent
from workflows.testing import assert_done, drain

pytestmark = pytest.mark.django_db

LIST = "/admin/holdpoint_approvals/review/"
DEEDS = ("decide", "reassign", "extend", "release", "withdraw", "override")


@pytest.fixture
def ann(db: None) -> User:
    """Who is asked, and may enter the admin and look."""
    return make_staff("ann", "view_review", first_name="Ann", last_name="Archer")


@pytest.fixture
def ada(db: None) -> User:
    return User.objects.create_superuser("ada", first_name="Ada")


@pytest.fixture
def operator(ada: User) -> Client:
    return login(ada)


def make_staff(name: str, *permissions: str, **names: str) -> User:
    user = User.objects.create_user(name, is_staff=True, **names)
    user.user_permissions.set(Permission.objects.filter(codename__in=permissions))
    return user


def read_obstacles(client: Client, review: Review) -> dict[str, str]:
    """What the page says beside each button that cannot be pressed."""
    page = client.get(page_of(review)).text
    found = re.findall(r'id="obstacle-(\w+)" dir="auto">([^<]*)<', page)
    return {name: html.unescape(told) for name, told in found}


def choose(deed: str, *reviews: Review, **given: Any) -> dict[str, Any]:
    """What the browser sends for ticked rows, and with the answer to the question."""
    ticked = [str(one.pk) for one in reviews]
    versions = {f"version-{one.pk}": str(one.version) for one in reviews} if given else {}
    return {"action": deed, "_selected_action": ticked, **versions, **given}


# --- nothing by looking --------------------------------------------------------------------------------


def test_looking_decides_nothing(operator: Client, ada: User) -> None:
    review = ask(assignees=["ada"])
    before = LedgerEvent.objects.count()
    for deed in DEEDS:
        for method in (operator.get, operator.head):
            response = method(f"{page_of(review, f'{deed}/')}?outcome=approve&confirmed=yes&reason=x")
            assert response.status_code in (200, 302, 405)
    operator.get(LIST, choose("decide", review, confirmed="yes", outcome="approve"))
    review.refresh_from_db()
    assert (review.open, review.version) == (True, 1)
    assert not Vote.objects.exists()
    assert LedgerEvent.objects.count() == before


def test_without_a_token_nothing_is_done(ada: User) -> None:
    review = ask(assignees=["ada"])
    client = Client(enforce_csrf_checks=True)
    client.force_login(ada)
    for deed in DEEDS:
        assert client.post(page_of(review, f"{deed}/"), {"outcome": "approve", "confirmed": "yes"}).status_code == 403
    assert not Vote.objects.exists()


# --- decide --------------------------------------------------------------------------------------------


def test_who_is_asked_decides_under_their_own_rights(ann: User) -> None:
    review = ask()
    browser = login(ann)
    response = browser.post(
        page_of(review, "decide/"), fill(browser, review, outcome="approve", reason="fine"), follow=True
    )
    assert response.redirect_chain == [(page_of(review), 302)]
    assert read_messages(response) == ["Decided: “Approve”."]
    vote = Vote.objects.get()
    assert (vote.user_id, vote.outcome, vote.reason, vote.door, vote.override) == (
        ann.pk,
        "approve",
        "fine",
        "admin",
        False,
    )
    review.refresh_from_db()
    assert (review.open, review.effective_at) == (False, None)  # at once: only the inbox has a grace
    entry = LogEntry.objects.get()
    assert (entry.user_id, entry.object_id) == (ann.pk, str(review.pk))
    drain()
    assert_done(review.instance, "approve")


def test_the_page_of_a_decision_shows_what_it_is_about(ann: User, order: Any) -> None:
    review = ask_about(order, change={"amount": "99.50"}, evidence=[("Contract", "https://shop.example/7")])
    page = login(ann).get(page_of(review, "decide/")).text
    words = read_words(page)
    for text in ("Change the order", "€1,240.00", "€99.50", "Contract", "Reason", "One answer decides."):
        assert text in words
    assert page.count('name="outcome"') == 2


def test_a_vote_of_several_says_that_it_takes_more(ann: User, ada: User) -> None:
    review = ask(assignees=["ann", "ada"], quorum=2)
    browser = login(ann)
    response = browser.post(page_of(review, "decide/"), fill(browser, review, outcome="approve"), follow=True)
    assert read_messages(response) == ["Your “Approve” is recorded; it takes more votes."]
    assert "Approve Reject" in read_words(login(ada).get(page_of(review, "decide/")).text)


def test_who_is_not_asked_sees_greyed_buttons_and_is_refused_with_the_same_sentence(ann: User, ada: User) -> None:
    review = ask()
    browser = login(ada)
    told = "You can’t decide because you are not among those asked. Ann Archer can."
    page = browser.get(page_of(review, "decide/")).text
    assert read_obstacles(browser, review)["decide"] == told
    assert 'href="../decide/"' not in browser.get(page_of(review)).text
    assert 'href="../decide/"' in login(ann).get(page_of(review)).text
    assert told in html.unescape(page)
    assert len(re.findall(r'name="outcome"[^>]*disabled', page)) == 2
    given = fill(browser, review, outcome="approve", reason="typed with care")
    response = browser.post(page_of(review, "decide/"), given)
    assert read_messages(response) == [told]
    assert "typed with care" in response.text
    assert not Vote.objects.exists()
    refusal = LedgerEvent.objects.get(kind=Event.REFUSED)
    assert (refusal.actor, refusal.data["rule"], refusal.data["door"]) == (f"user:{ada.pk}", "not_candidate", "admin")


def test_high_risk_needs_a_reason_and_what_was_typed_stays(ann: User) -> None:
    review = ask(risk="high", schema={"type": "object", "properties": {"note": {"type": "string"}}})
    browser = login(ann)
    given = fill(browser, review, outcome="approve", saw="1", reason=" ", **{"data/note": "as agreed"})
    response = browser.post(page_of(review, "decide/"), given)
    assert read_messages(response) == ["“Approve” needs a reason: write one, or choose one."]
    assert "as agreed" in response.text
    assert 'id="data-reason-error"' in response.text
    response = browser.post(page_of(review, "decide/"), {**given, "reason": "checked"}, follow=True)
    assert read_messages(response) == ["Decided: “Approve”."]
    assert Vote.objects.get().data == {"note": "as agreed"}


@pytest.mark.parametrize("deed", ["decide", "override"])
def test_high_risk_takes_a_look_that_is_confirmed_and_not_only_the_pages_version(
    ann: User, operator: Client, deed: str
) -> None:
    """A program that posts what it read elsewhere has looked at nothing."""
    review = ask(risk="high")
    browser = login(ann) if deed == "decide" else operator
    sent = {"outcome": "approve", "reason": "checked", "version": "1", "seen": review.digest}
    response = browser.post(page_of(review, f"{deed}/"), sent)
    assert read_messages(response) == ["The risk is high: look at what changes, then decide."]
    assert 'id="link-saw-error"' in response.text
    assert ">checked<" in response.text.replace("\n", "")
    assert not Vote.objects.exists()
    browser.post(page_of(review, f"{deed}/"), {**sent, "saw": "1"})
    assert Vote.objects.get().outcome == "approve"


def test_high_risk_is_refused_without_a_look(ann: User) -> None:
    review = ask(risk="high")
    browser = login(ann)
    assert 'name="saw"' in browser.get(page_of(review, "decide/")).text
    assert 'name="saw"' not in browser.get(page_of(ask(), "decide/")).text
    browser.post(page_of(review, "decide/"), fill(browser, review, outcome="reject", reason="no"))
    assert Vote.objects.get().outcome == "reject"


def test_bad_data_is_told_at_its_field(ann: User) -> None:
    schema = {
        "type": "object",
        "properties": {"amount": {"type": "integer", "minimum": 10}},
        "required": ["amount"],
    }
    review = ask(schema=schema)
    browser = login(ann)
    given = fill(browser, review, outcome="approve", **{"data/amount": "5"})
    response = browser.post(page_of(review, "decide/"), given)
    assert read_messages(response) == ["Look at what is marked below."]
    assert "10" in section_of_errors(response.text)
    assert not Vote.objects.exists()
    response = browser.post(page_of(review, "decide/"), {**given, "data/amount": "12"}, follow=True)
    assert read_messages(response) == ["Decided: “Approve”."]


def section_of_errors(page: str) -> str:
    return read_words(page.partition('class="form-summary"')[2].partition("</div>")[0])


def test_saying_no_takes_no_data(ann: User) -> None:
    review = ask(schema={"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
    browser = login(ann)
    response = browser.post(page_of(review, "decide/"), fill(browser, review, outcome="reject"), follow=True)
    assert read_messages(response) == ["Decided: “Reject”."]


def test_no_answer_chosen_is_told(ann: User) -> None:
    review = ask()
    browser = login(ann)
    response = browser.post(page_of(review, "decide/"), fill(browser, review, reason="typed"))
    assert read_messages(response) == ["Choose an answer."]
    assert "typed" in response.text


def test_what_has_changed_is_shown_and_what_was_typed_stays(ann: User, order: Any, shop: Any) -> None:
    review = ask_about(order, change={"amount": "99.50"})
    browser = login(ann)
    given = fill(browser, review, outcome="approve", reason="typed with care")
    shop.Order.objects.filter(pk=order.pk).update(note="changed by hand")
    response = browser.post(page_of(review, "decide/"), given)
    (told,) = read_messages(response)
    assert "This changed since you opened it: Note. Look at the change, then decide." in told
    assert "typed with care" in response.text
    assert not Vote.objects.exists()
    response = browser.post(page_of(review, "decide/"), fill(browser, review, outcome="approve"), follow=True)
    assert read_messages(response) == ["Decided: “Approve”."]


def test_the_difference_is_on_the_page_before_it_is_decided(ann: User, order: Any, shop: Any) -> None:
    review = ask_about(order, change={"amount": "99.50"})
    shop.Order.objects.filter(pk=order.pk).update(note="changed by hand")
    browser = login(ann)
    page = browser.get(page_of(review, "decide/")).text
    assert "Changed since this was asked for" in page
    assert "changed by hand" in page
    # Whoever has seen the difference decides about the object as it is now.
    response = browser.post(page_of(review, "decide/"), fill(browser, review, outcome="approve"), follow=True)
    assert read_messages(response) == ["Decided: “Approve”."]


def test_of_two_the_second_is_told_who_was_quicker_and_keeps_what_was_typed(ann: User, ben: User) -> None:
    review = ask(assignees=["ann", "ben"])
    browser = login(ann)
    given = fill(browser, review, outcome="reject", reason="typed with care")
    decide(review, "approve", actor=ben)
    response = browser.post(page_of(review, "decide/"), given)
    (told,) = read_messages(response)
    assert "Ben Okafor has decided this already: “Approve”" in told
    assert "typed with care" in response.text
    assert Vote.objects.count() == 1


def test_the_password_is_asked_again_for_high_risk_where_the_site_wants_it(ann: User, settings: Any) -> None:
    settings.APPROVALS = {"REAUTHENTICATE": True}
    ann.set_password("correct horse")
    ann.save()
    review = ask(risk="high")
    browser = login(ann)
    for password in ("", "wrong"):
        given = fill(browser, review, outcome="approve", reason="checked", saw="1", password=password)
        response = browser.post(page_of(review, "decide/"), given)
        assert read_messages(response) == ["The risk is high: enter your password again to decide."]
        assert "wrong" not in response.text.partition("<form")[2]
    given = fill(browser, review, outcome="approve", reason="checked", saw="1", password="correct horse")
    assert read_messages(browser.post(page_of(review, "decide/"), given, follow=True)) == ["Decided: “Approve”."]


def test_the_password_cannot_be_guessed_on_the_page(ann: User, settings: Any) -> None:
    settings.APPROVALS = {"REAUTHENTICATE": True}
    ann.set_password("correct horse")
    ann.save()
    cache.clear()
    review = ask(risk="high")
    browser = login(ann)
    for number in range(7):
        password = "correct horse" if number == 6 else f"guess {number}"
        given = fill(browser, review, outcome="approve", reason="checked", password=password)
        told = read_messages(browser.post(page_of(review, "decide/"), given))
    assert told == ["Too many tries. Wait 15 minutes."]
    assert not Vote.objects.exists()
    cache.clear()


def test_what_is_decided_cannot_be_opened_for_a_decision(ann: User) -> None:
    review = ask()
    decide(review, "approve", actor=ann)
    response = login(ann).get(page_of(review, "decide/"), follow=True)
    assert response.redirect_chain == [(page_of(review), 302)]
    assert "has decided this already" in read_messages(response)[0]


# --- the others, one at a time -------------------------------------------------------------------------


def test_reassigning_asks_others_instead_or_as_well(operator: Client, ann: User, ben: User) -> None:
    review = ask()
    Group.objects.create(name="legal")
    page = operator.get(page_of(review, "reassign/")).text
    assert 'class="admin-autocomplete"' in page
    given = {"confirmed": "yes", "users": [ben.pk], "groups": [], "reason": "Ann is away"}
    response = operator.post(page_of(review, "reassign/"), given, follow=True)
    assert read_messages(response) == ["Refund €40.00 to Acme : Others are asked instead."]
    assert [one.principal for one in review.candidates.all()] == [f"user:{ben.pk}"]
    given = {"confirmed": "yes", "groups": [Group.objects.get().pk], "keep": "on"}
    operator.post(page_of(review, "reassign/"), given)
    assert review.candidates.count() == 2
    row = LedgerEvent.objects.filter(kind=Event.HANDLED, data__what="reassigned").first()
    assert (row.data["reason"], row.data["door"]) == ("Ann is away", "admin")
    assert LogEntry.objects.count() == 2


def test_whoever_may_not_search_users_writes_their_names(ann: User, ben: User) -> None:
    review = ask()
    browser = login(make_staff("cid", "view_review", "reassign_review"))
    page = browser.get(page_of(review, "reassign/")).text
    assert "Login names, with commas between them." in page
    response = browser.post(page_of(review, "reassign/"), {"confirmed": "yes", "users": "ben, nobody"})
    assert "There is no user nobody." in response.text
    browser.post(page_of(review, "reassign/"), {"confirmed": "yes", "users": "ben"})
    assert [one.principal for one in review.candidates.all()] == [f"user:{ben.pk}"]


def test_reassigning_to_nobody_asks_again(operator: Client, ann: User) -> None:
    review = ask()
    response = operator.post(page_of(review, "reassign/"), {"confirmed": "yes", "reason": "typed"})
    assert "Name at least one user or group" in response.text
    assert "typed" in response.text


def test_extending_moves_what_is_due_and_the_deadline(operator: Client, ann: User) -> None:
    review = ask(due="1d")
    due, deadline = timezone.now() + timedelta(days=5), timezone.now() + timedelta(days=60)
    given = {
        "confirmed": "yes",
        "due_0": due.strftime("%Y-%m-%d"),
        "due_1": "08:00",
        "deadline_0": deadline.strftime("%Y-%m-%d"),
        "deadline_1": "08:00",
        "reason": "holidays",
    }
    response = operator.post(page_of(review, "extend/"), given, follow=True)
    assert read_messages(response) == ["Refund €40.00 to Acme : There is more time."]
    review.refresh_from_db()
    assert review.due_at is not None
    assert review.due_at.date() == due.date()
    assert review.interaction.deadline.date() == deadline.date()


def test_extending_into_the_past_or_not_at_all_asks_again(operator: Client, ann: User) -> None:
    review = ask()
    given = {"confirmed": "yes", "due_0": "2020-01-01", "due_1": "08:00"}
    assert "It lies in the past." in operator.post(page_of(review, "extend/"), given).text
    assert "Say until when" in operator.post(page_of(review, "extend/"), {"confirmed": "yes"}).text
    review.refresh_from_db()
    assert review.due_at is None


def test_releasing_lets_others_decide_again(operator: Client, ann: User) -> None:
    review = ask()
    assert read_obstacles(operator, review)["release"] == "Nobody has claimed it."
    claim(review, actor=ann)
    assert operator.get(page_of(review, "release/")).status_code == 405
    response = operator.post(page_of(review, "release/"), follow=True)
    assert read_messages(response) == ["Refund €40.00 to Acme : Others can decide it again."]
    review.refresh_from_db()
    assert review.claimed_by_id is None


def test_withdrawing_takes_the_request_back(operator: Client, ann: User, ben: User) -> None:
    review = ask(actor=ben)
    response = operator.post(page_of(review, "withdraw/"), {"confirmed": "yes", "reason": "no need"}, follow=True)
    assert read_messages(response) == ["Refund €40.00 to Acme : It was withdrawn."]
    review.refresh_from_db()
    assert (review.open, review.outcome) == (False, "withdrawn")
    assert review.instance.status == Status.CANCELLED


def test_overriding_takes_a_permission_a_question_and_a_reason(operator: Client, ann: User, ada: User) -> None:
    review = ask()
    page = operator.get(page_of(review, "override/")).text
    assert "Nobody else is asked any more." in page
    given = fill(operator, review, "override/", outcome="approve", reason="")
    response = operator.post(page_of(review, "override/"), given)
    assert read_messages(response) == ["“Approve” needs a reason: write one, or choose one."]
    response = operator.post(page_of(review, "override/"), {**given, "reason": "Ann is ill"}, follow=True)
    assert read_messages(response) == ["Decided: “Approve”."]
    vote = Vote.objects.get()
    assert (vote.user_id, vote.override, vote.reason, vote.door) == (ada.pk, True, "Ann is ill", "admin")
    assert "override" in operator.get("/admin/holdpoint_approvals/vote/?special=override").text


def test_nobody_overrides_their_own_request(operator: Client, ann: User, ada: User) -> None:
    review = ask(actor=ada)
    told = read_obstacles(operator, review)["override"]
    assert "you asked for this (four eyes)" in told
    given = fill(operator, review, "override/", outcome="approve", reason="I am the boss")
    assert read_messages(operator.post(page_of(review, "override/"), given)) == [told]
    assert not Vote.objects.exists()


# --- whoever may not, is told why ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("permissions", "may"),
    [
        ((), set()),
        (("reassign_review",), {"reassign", "release"}),
        (("extend_review",), {"extend"}),
        (("withdraw_review",), {"withdraw"}),
        (("override_review",), {"override"}),
    ],
)
def test_each_button_follows_its_permission_and_a_forged_try_gets_the_same_sentence(
    ann: User, permissions: tuple[str, ...], may: set[str]
) -> None:
    review = ask()
    claim(review, actor=ann)
    browser = login(make_staff("cid", "view_review", *permissions))
    obstacles = read_obstacles(browser, review)
    assert set(DEEDS) - set(obstacles) == may
    later = (timezone.now() + timedelta(days=5)).strftime("%Y-%m-%d")
    given = {
        "confirmed": "yes",
        "outcome": "approve",
        "reason": "forged",
        "users": "ann",
        "due_0": later,
        "due_1": "08:00",
        "version": "1",
    }
    for deed, told in obstacles.items():
        response = browser.post(page_of(review, f"{deed}/"), given, follow=True)
        assert read_messages(response)[-1].endswith(told)
        assert browser.get(page_of(review, f"{deed}/")).status_code in (200, 302, 405)
    review.refresh_from_db()
    assert (review.open, review.due_at, review.claimed_by_id) == (True, None, ann.pk)
    assert not Vote.objects.exists()
    assert LedgerEvent.objects.filter(kind=Event.REFUSED).count() == len(obstacles)
    assert not LogEntry.objects.exists()


def test_the_list_offers_what_a_permission_opens(ann: User) -> None:
    ask()
    page = login(ann).get(LIST).text
    offered = set(re.findall(r'<option value="(\w+)">', page))
    assert offered >= {"decide", "release", "withdraw"}
    assert not offered & {"reassign", "extend", "override", "delete_selected"}
    page = login(make_staff("cid", "view_review", "extend_review")).get(LIST).text
    assert "extend" in set(re.findall(r'<option value="(\w+)">', page))


def test_an_action_that_was_not_offered_does_nothing(ann: User) -> None:
    first, second = ask("first"), ask("second")
    given = choose("override", first, second, confirmed="yes", outcome="approve", reason="forged")
    login(ann).post(LIST, given)
    assert not Vote.objects.exists()


# --- many ----------------------------------------------------------------------------------------------


def test_many_are_asked_about_first_and_then_each_has_its_result(operator: Client, ada: User, ann: User) -> None:
    mine, theirs = ask("mine", assignees=["ada"]), ask("theirs")
    risky = ask("risky", assignees=["ada"], risk="high")
    other = ask("other words", assignees=["ada"], outcomes=["publish", "discard"])
    filled = ask("with a form", assignees=["ada"], schema={"type": "object", "required": ["a"]})
    chosen = (mine, theirs, risky, other, filled)
    page = operator.post(LIST, choose("decide", *chosen)).text
    for text in ("Decide these requests?", "mine", "theirs", "high", "Approve", "Publish"):
        assert text in page
    assert not Vote.objects.exists()
    given = choose("decide", *chosen, confirmed="yes", outcome="approve", reason="all fine")
    response = operator.post(LIST, given, follow=True)
    told = dict(one.split(" : ", 1) for one in read_messages(response))
    assert told == {
        "mine": "Decided: “Approve”.",
        "theirs": "You can’t decide because you are not among those asked. Ann Archer can.",
        "risky": "The risk is high: open this request to decide it on its own.",
        "other words": "“approve” is no answer to this. Choose one of: Publish, Discard.",
        "with a form": "It has a form to fill in: open this request to decide it on its own.",
    }
    assert read_messages(response)[-1].startswith("mine")  # refusals first
    assert [vote.review_id for vote in Vote.objects.all()] == [mine.pk]


def test_high_risk_is_never_overridden_in_bulk(operator: Client, ann: User) -> None:
    risky, plain = ask("risky", risk="high"), ask("plain")
    given = choose("override", risky, plain, confirmed="yes", outcome="reject", reason="x")
    told = read_messages(operator.post(LIST, given, follow=True))
    assert told[0] == "risky : The risk is high: open this request to decide it on its own."
    assert [vote.review_id for vote in Vote.objects.all()] == [plain.pk]


def test_overriding_many_takes_a_reason(operator: Client, ann: User) -> None:
    chosen = ask("one"), ask("two")
    response = operator.post(LIST, choose("override", *chosen, confirmed="yes", outcome="reject", reason=""))
    assert "This field is required." in response.text
    assert not Vote.objects.exists()


def test_a_decision_about_many_is_bound_to_what_was_on_the_page(operator: Client, ada: User) -> None:
    same, changed = ask("same", assignees=["ada"]), ask("changed", assignees=["ada"], requester="ada", four_eyes=False)
    given = choose("decide", same, changed, confirmed="yes", outcome="approve", reason="")
    from approvals import answer_info, request_info

    request_info(changed, "Which account?", actor=ada)
    answer_info(changed, "Another one", actor=ada)
    told = read_messages(operator.post(LIST, given, follow=True))
    assert told[0] == "changed : This changed since you opened it. Look at the change, then decide."
    assert [vote.review_id for vote in Vote.objects.all()] == [same.pk]


def test_one_alone_has_a_page_of_its_own(operator: Client, ada: User) -> None:
    review = ask(assignees=["ada"], risk="high")
    response = operator.post(LIST, choose("decide", review))
    assert (response.status_code, response["Location"]) == (302, page_of(review, "decide/"))


def test_many_are_reassigned_extended_released_and_withdrawn(operator: Client, ann: User, ben: User) -> None:
    one, two = ask("one"), ask("two")
    operator.post(LIST, choose("reassign", one, two, confirmed="yes", users=[ben.pk], reason=""), follow=True)
    assert [review.candidates.get().principal for review in (one, two)] == [f"user:{ben.pk}"] * 2
    later = (timezone.now() + timedelta(days=5)).strftime("%Y-%m-%d")
    operator.post(LIST, choose("extend", one, two, confirmed="yes", due_0=later, due_1="08:00"), follow=True)
    assert Review.objects.filter(due_at__isnull=False).count() == 2
    for review in (one, two):
        claim(review, actor=ben)
    operator.post(LIST, choose("release", one, two), follow=True)
    assert not Review.objects.filter(claimed_by__isnull=False).exists()
    decide(one, "approve", actor=ben)
    response = operator.post(LIST, choose("withdraw", one, two, confirmed="yes", reason="x"), follow=True)
    told = read_messages(response)
    assert "Ben Okafor has decided this already: “Approve”" in told[0]
    assert told[1] == "two : It was withdrawn."


def test_too_many_at_once_are_refused(operator: Client, ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(action_pages, "LIMIT", 1)
    response = operator.post(LIST, choose("withdraw", ask("one"), ask("two")), follow=True)
    assert read_messages(response) == ["Choose at most 1 reviews at a time."]


def test_many_results_are_summed_up(operator: Client, ann: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MESSAGES", 2)
    chosen = [ask(f"no {n}") for n in range(3)]
    decide(chosen[0], "approve", actor=ann)
    response = operator.post(LIST, choose("withdraw", *chosen, confirmed="yes", reason=""), follow=True)
    assert read_messages(response)[-1] == "2 of 3 succeeded, 1 were refused."


def test_a_forged_id_is_400(operator: Client) -> None:
    for id in ("1", "x' OR 1=1", ""):
        assert operator.post(LIST, {"action": "withdraw", "_selected_action": [id]}).status_code == 400


def test_in_a_list_of_another_tenant_nothing_is_done(ann: User, ada: User) -> None:
    acme, other = workflows.workspace.create("acme"), workflows.workspace.create("other")
    acme.members.add(ada)
    other.members.add(ann)
    theirs, mine = ask("theirs", workspace="other"), ask("mine", workspace="acme", assignees=["ada"])
    login(ada).post(LIST, choose("withdraw", theirs, mine, confirmed="yes", reason=""))
    theirs.refresh_from_db()
    mine.refresh_from_db()
    assert (theirs.open, mine.open) == (True, False)


def test_every_list_after_an_action_still_says_what_waits(operator: Client, ann: User) -> None:
    ask("stays")
    operator.post(LIST, choose("withdraw", ask("goes"), ask("goes too"), confirmed="yes", reason=""))
    rows = read_rows(operator.get(f"{LIST}?status=waiting").text)
    assert len(rows) == 1
    assert "stays" in rows[0]


# --- messages ------------------------------------------------------------------------------------------


def test_a_message_is_sent_again_by_whoever_may(operator: Client, ann: User) -> None:
    review = ask()
    Delivery.objects.none()
    failed = insert(
        Delivery(
            review=review,
            user_id=ann.pk,
            kind="new",
            channel="email",
            address="a@b.example",
            status="failed",
            created_at=timezone.now(),
            attempts=5,
        )
    )
    page = f"/admin/holdpoint_approvals/delivery/{failed.pk}/"
    looks = login(make_staff("cid", "view_delivery"))
    told = "You can’t send this again: it takes a permission of its own."
    assert told in html.unescape(looks.get(f"{page}change/").text)
    assert "resend" not in looks.get("/admin/holdpoint_approvals/delivery/").text
    response = looks.post(f"{page}resend/", follow=True)
    assert read_messages(response)[0].endswith(told)
    assert operator.get(f"{page}resend/").status_code == 405
    response = operator.post(f"{page}resend/", follow=True)
    assert read_messages(response) == ["Refund €40.00 to Acme : It is sent again."]
    failed.refresh_from_db()
    assert failed.status == "waiting"
    assert LogEntry.objects.filter(object_id=str(failed.pk)).count() == 1
    given = {"action": "resend", "_selected_action": [str(failed.pk)]}
    response = operator.post("/admin/holdpoint_approvals/delivery/", given, follow=True)
    assert read_messages(response) == ["Refund €40.00 to Acme : It is sent again."]


def test_a_comment_needs_no_admin(ann: User) -> None:
    review = ask()
    comment(review, "x", actor=ann)
    assert "What can be done" in login(ann).get(page_of(review)).text
