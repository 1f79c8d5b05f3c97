"""One-person links: who may decide by one, that looking decides nothing, and what is no link at all."""

from __future__ import annotations

from types import ModuleType
from typing import Any
from uuid import uuid4

import pytest
from django.contrib.auth.models import Group, Permission, User
from django.test import Client
from django.urls import include, path

import workflows
from approvals import decide
from approvals.access.personal_links import make_link, make_link_token, read_link
from approvals.actions import actions
from approvals.models import Review, Vote
from tests.support.html_pages import Page
from tests.support.link_pages import (  # noqa: F401
    FORM,
    KEYS,
    SCHEMA,
    SITE,
    LinkTwice,
    Visitor,
    ask,
    make_ann,
    make_ben,
    site,
    snapshot,
)
from workflows.definitions import callback_tokens
from workflows.exceptions import InvalidToken
from workflows.models import LedgerEvent, Workspace
from workflows.testing import advance, assert_done, drain

pytestmark = pytest.mark.django_db


# --- looking decides nothing ------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["get", "head", "options", "trace", "put", "delete", "patch"])
def test_no_safe_method_and_no_other_one_but_post_decides(ann: User, method: str) -> None:
    review = ask(assignees=["ann"])
    before = snapshot()
    at = make_link(review, ann).removeprefix(SITE)
    for query in ("", "?outcome=approve", "?outcome=reject", "?do=withdraw", "?outcome=%00%ff"):
        for headers in ({}, {"Sec-Purpose": "prefetch;prerender"}, {"X-Moz": "prefetch"}):
            answer = getattr(Client(headers=headers), method)(at + query)
            assert answer.status_code == (200 if method in ("get", "head") else 405)
    assert snapshot() == before


def test_the_page_runs_no_script_so_a_scanner_that_does_decides_nothing_either(ann: User) -> None:
    visitor = Visitor(ask(assignees=["ann"]), ann)
    visitor.open()
    assert visitor.page is not None
    assert not {"script", "iframe", "img", "object"} & visitor.page.tags


def test_the_second_tap_decides_and_the_page_shows_it_from_then_on(ann: User) -> None:
    review = ask(assignees=["ann"])
    visitor = Visitor(review, ann)
    assert "Refund €40.00" in visitor.open("?outcome=approve")
    assert "You approved this today at" in visitor.send(outcome="approve")
    drain()
    assert_done(review.instance_id, {"outcome": "approve", "data": None})
    [vote] = Vote.objects.all()
    assert (vote.user_id, vote.outcome, vote.door, vote.automated) == (ann.pk, "approve", "link", False)
    advance("300d")
    assert "You approved this" in visitor.open()
    assert "Keep this link" in visitor.open("?outcome=reject")


def test_there_is_no_grace_by_a_link(ann: User) -> None:
    review = ask(assignees=["ann"])
    visitor = Visitor(review, ann)
    visitor.open()
    visitor.send(outcome="reject", reason="no")
    review.refresh_from_db()
    assert (review.open, review.outcome, review.effective_at) == (False, "reject", None)


@pytest.mark.parametrize(
    ("query", "first"), [("", "approve"), ("?outcome=reject", "reject"), ("?outcome=x", "approve")]
)
def test_the_answer_that_the_mail_spoke_of_comes_first(ann: User, query: str, first: str) -> None:
    visitor = Visitor(ask(assignees=["ann"]), ann)
    visitor.at += query
    assert visitor.list_buttons()[0] == first


# --- who ------------------------------------------------------------------------------------------------


def test_it_is_the_links_user_who_decides_whoever_is_logged_in(ann: User, ben: User) -> None:
    review = ask(assignees=["ann", "ben"], quorum=2)
    client = Client(enforce_csrf_checks=True)
    client.force_login(ben)
    visitor = Visitor(review, ann, client=client)
    assert "for Ann Archer" in visitor.open()
    visitor.send(outcome="approve")
    assert [one.user_id for one in Vote.objects.all()] == [ann.pk]
    assert client.session["_auth_user_id"] == str(ben.pk)


def test_a_form_that_comes_from_elsewhere_decides_nothing_and_is_kept(ann: User) -> None:
    review = ask(assignees=["ann"])
    before = snapshot()
    client = Client(enforce_csrf_checks=True)
    answer = client.post(Visitor(review, ann).at, {"outcome": "approve", "reason": "because"})
    assert answer.status_code == 403
    assert "because" in answer.text
    assert "Nothing was sent" in answer.text
    assert snapshot() == before
    visitor = Visitor(review, ann)
    visitor.open()
    visitor.send(csrfmiddlewaretoken="x" * 64, outcome="approve", status=403)
    assert snapshot() == before


def test_a_browser_of_another_site_is_refused_by_its_origin(ann: User) -> None:
    visitor = Visitor(ask(assignees=["ann"]), ann)
    visitor.open()
    assert visitor.page is not None
    sent = visitor.page.send(outcome="approve").urlencode()
    answer = visitor.client.post(visitor.at, sent, content_type=FORM, headers={"Origin": "https://evil.example"})
    assert answer.status_code == 403
    assert not Vote.objects.exists()


def check_forbidden(review: Review, user: Any, status: int, words: str, *, seen: int = 200) -> None:
    """Whoever may not: told so when they look, refused when they post all the same; and no vote of theirs."""
    votes = Vote.objects.count()
    visitor = Visitor(review, user)
    assert words in visitor.open(status=seen)
    # A page that was open before, or a form that somebody made up.
    other = Visitor(review, User.objects.get(username="ann"))
    other.client.get(other.at)
    token = visitor.client.cookies.get("csrftoken") or other.client.cookies["csrftoken"]
    visitor.client.cookies["csrftoken"] = token.value
    sent = {"csrfmiddlewaretoken": token.value, "outcome": "approve", "version": str(review.version), "saw": "1"}
    answer = visitor.client.post(visitor.at, sent)
    assert answer.status_code == status, answer.text
    assert words in " ".join(Page(answer.text).words.split())
    assert Vote.objects.count() == votes


def test_the_requester_cannot_decide_by_a_link(ann: User, ben: User) -> None:
    review = ask(assignees=["ann", "ben"], requester="ben")
    check_forbidden(review, ben, 403, "Waiting for Ann Archer or Ben Okafor")
    visitor = Visitor(review, ben)
    visitor.open()
    assert "four eyes" in visitor.send(outcome="approve", status=403)
    assert LedgerEvent.objects.filter(kind="refused", actor=f"user:{ben.pk}", data__door="link").count() == 2


def test_who_decided_an_earlier_stage_cannot_decide_by_a_link(ann: User) -> None:
    User.objects.create_user("cid")
    instance = workflows.start(LinkTwice)
    drain()
    decide(Review.objects.get(instance=instance), "approve", actor=ann)
    drain()
    review = Review.objects.get(instance=instance, step="second")
    check_forbidden(review, ann, 403, "you decided an earlier stage")


def test_nobody_decides_twice_by_a_link(ann: User, ben: User) -> None:
    review = ask(assignees=["ann", "ben"], quorum=2)
    decide(review, "reject", actor=ann)
    check_forbidden(review, ann, 409, "You have decided on this already")


def test_what_somebody_else_has_claimed_waits_for_them(ann: User, ben: User) -> None:
    review = ask(assignees=["ann", "ben"])
    actions.claim(review, actor=ben)
    check_forbidden(review, ann, 409, "Ben Okafor has claimed this")


def test_what_somebody_is_deciding_waits_for_that(ann: User, ben: User) -> None:
    review = ask(assignees=["ann", "ben"])
    decide(review, "approve", actor=ben, grace=True)
    check_forbidden(review, ann, 409, "Ben Okafor")


@pytest.mark.parametrize("status", ["open", "decided"])
def test_who_left_the_group_sees_the_outcome_at_most(ann: User, ben: User, status: str) -> None:
    group = Group.objects.create(name="finance")
    ann.groups.add(group)
    ben.groups.add(group)
    review = ask(groups=["finance"], title="Secret plan")
    if status == "decided":
        decide(review, "approve", actor=ben)
    ann.groups.clear()
    visitor = Visitor(review, ann)
    words = visitor.open(status=403)
    assert "no longer among those asked" in words
    assert "Secret plan" not in words
    assert ("Ben Okafor approved this" in words) is (status == "decided")


def test_who_is_no_member_of_the_workspace_sees_nothing(ann: User) -> None:
    review = ask(assignees=["ann"], title="Secret plan")
    assert Workspace.objects.count() == 1
    workflows.workspace.create("acme")
    visitor = Visitor(review, ann)
    assert "Secret plan" not in visitor.open(status=403)
    review.workspace.members.add(ann)
    assert "Secret plan" in visitor.open()


def test_the_link_of_an_inactive_user_can_no_longer_decide(ann: User, ben: User) -> None:
    review = ask(assignees=["ann", "ben"], title="Secret plan")
    visitor = Visitor(review, ann)
    visitor.open()
    User.objects.filter(pk=ann.pk).update(is_active=False)
    words = visitor.send(outcome="approve", status=403)
    assert "This link can no longer decide" in words
    assert "somebody who can no longer log in" in words
    assert "Secret plan" not in words
    assert "This link can no longer decide" in visitor.open(status=403)
    assert not Vote.objects.exists()


def test_a_stranger_for_whom_somebody_could_make_a_link_sees_nothing(ann: User, ben: User) -> None:
    review = ask(assignees=["ann"], title="Secret plan")
    check_forbidden(review, ben, 403, "no longer among those asked", seen=403)


def test_a_link_is_good_for_one_review_only(ann: User) -> None:
    one, other = ask(assignees=["ann"], title="One"), ask(assignees=["ann"], title="Other")
    visitor = Visitor(one, ann)
    visitor.open()
    visitor.send(outcome="approve")
    other.refresh_from_db()
    assert other.open


# --- what is no link --------------------------------------------------------------------------------------


def test_whatever_is_no_link_is_told_the_same(ann: User, ben: User) -> None:
    review = ask(assignees=["ann"])
    good = make_link_token(review, ann)
    gone = User.objects.create_user("gone")
    of_gone = make_link_token(review, gone)
    gone.delete()
    bad = [
        *("x", good[:-1], good + "A", good[1:], good.swapcase(), "%00", "a/b/c", "a%0Ab", "é", "a" * 5000),
        of_gone,
        callback_tokens.make_token(review.pk, workspace=review.workspace_id, visit=0)[0],
        callback_tokens.make_token(review.pk, workspace=review.workspace_id, visit=0, purpose="review")[0],
        callback_tokens.make_token(review.pk, workspace=review.workspace_id, visit=1, purpose=f"review:{ann.pk}")[0],
        callback_tokens.make_token(review.pk, workspace=review.workspace_id, visit=0, purpose="review:x")[0],
        callback_tokens.make_token(review.pk, workspace=review.workspace_id + 1, visit=0, purpose=f"review:{ann.pk}")[
            0
        ],
        callback_tokens.make_token(uuid4(), workspace=review.workspace_id, visit=0, purpose=f"review:{ann.pk}")[0],
    ]
    answers = {Client().get(f"/approvals/link/{one}/").content for one in bad}
    assert len(answers) == 1
    for one in bad:
        answer = Client().get(f"/approvals/link/{one}/")
        assert answer.status_code == 404
        assert "There is nothing here" in answer.text
        assert Client().post(f"/approvals/link/{one}/", {"outcome": "approve"}).content == answers.copy().pop()
    assert not Vote.objects.exists()


def test_a_link_is_no_resume_token_and_a_resume_token_is_no_link(ann: User) -> None:
    review = ask(assignees=["ann"])
    answer = Client().post(f"/resume/{make_link_token(review, ann)}", {"data": 1}, content_type="application/json")
    assert answer.status_code == 404
    with pytest.raises(InvalidToken):
        read_link(callback_tokens.make_token(review.pk, workspace=review.workspace_id, visit=0, purpose="resume")[0])


def test_a_new_key_signs_new_links_and_old_ones_live_as_long_as_their_key_is_listed(ann: User, settings: Any) -> None:
    review = ask(assignees=["ann"])
    visitor = Visitor(review, ann)
    settings.WORKFLOWS = {"BASE_URL": SITE, "TOKEN_KEYS": {"2027-01": "z" * 40, **KEYS}}
    assert make_link_token(review, ann) != visitor.token
    visitor.open()
    assert "You approved this" in visitor.send(outcome="approve")
    settings.WORKFLOWS = {"BASE_URL": SITE, "TOKEN_KEYS": {"2027-01": "z" * 40}}
    assert "There is nothing here" in visitor.open(status=404)


def test_a_slash_too_few_or_too_many_does_no_harm(ann: User) -> None:
    review = ask(assignees=["ann"])
    at = Visitor(review, ann).at
    assert Client().get(at.rstrip("/")).status_code == 200
    assert Client().get(at + "/").status_code == 404


class Elsewhere(ModuleType):
    urlpatterns = [path("deep/inside/", include("approvals.urls"))]


def test_the_page_works_wherever_it_is_mounted(ann: User, settings: Any) -> None:
    settings.ROOT_URLCONF = Elsewhere("tests.elsewhere")
    review = ask(assignees=["ann"])
    assert make_link(review, ann).startswith(f"{SITE}/deep/inside/link/")
    visitor = Visitor(review, ann)
    visitor.open()
    assert "You approved this" in visitor.send(outcome="approve")


def test_who_may_see_all_may_look_but_not_decide_by_a_link(ann: User, ben: User) -> None:
    review = ask(assignees=["ann"])
    ben.user_permissions.add(Permission.objects.get(codename="view_review"))
    check_forbidden(review, ben, 403, "not among those asked")
