"""Whoever is not logged in, at every page for people: led to the login, told so, and nothing typed is lost."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import global_settings
from django.contrib import admin
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView
from django.test import Client
from django.urls import include, path

from approvals.access.personal_links import make_link
from approvals.models import Comment, Review, Vote
from tests.support.review_calls import ask, make_person
from workflows.conf import conf

pytestmark = pytest.mark.django_db

HERE = "/approvals/"
NOBODYS = "c4ca4238-a0b9-2382-0dcc-509a6f75849b"
PAGES = ("", "live/", "theme/", "keys/", "bulk/", "views/", "settings/", f"{NOBODYS}/", f"{NOBODYS}/colleagues/")
PART = {"HX-Request": "true"}


@pytest.fixture(autouse=True, params=[False, True], ids=["ours", "with Django's middleware"])
def make_sure(request: pytest.FixtureRequest, settings: Any) -> None:
    """A project may ask for a login everywhere; these pages ask themselves, and are the same with it."""
    if request.param:
        settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.contrib.auth.middleware.LoginRequiredMiddleware"]


@pytest.mark.parametrize("place", PAGES)
def test_a_page_leads_to_the_login_and_back_and_a_part_of_one_says_so(place: str) -> None:
    whole = Client().get(f"{HERE}{place}?view=mine")
    assert (whole.status_code, whole["Location"]) == (302, f"/login/?next={HERE}{place}%3Fview%3Dmine")
    for method in (Client().get, Client().post):
        part = method(f"{HERE}{place}", headers=PART)
        assert part.status_code == 401
        assert part.text.startswith("You are no longer logged in.")
        assert "<" not in part.text


@pytest.mark.parametrize("place", PAGES)
def test_what_was_posted_is_given_back_with_a_way_to_the_login(place: str) -> None:
    sent = {"reason": "I called\u202e <b>them</b>", "password": "s3cret", "outcome": "approve", "pick": "picked"}
    answer = Client(enforce_csrf_checks=True).post(f"{HERE}{place}?view=mine", sent)
    assert answer.status_code == 401
    assert "<h1" in answer.text
    assert f'href="/login/?next={HERE}{place}%3Fview%3Dmine"' in answer.text
    assert "&lt;b&gt;them&lt;/b&gt;" in answer.text
    for hidden in ("\u202e", "s3cret", "picked"):
        assert hidden not in answer.text
    assert answer["Cache-Control"] == "no-store"
    assert answer["X-Frame-Options"] == "DENY"
    assert "default-src 'none'" in answer["Content-Security-Policy"]


def test_whose_session_ended_decides_nothing_and_decides_after_the_login() -> None:
    ann = make_person("ann", "finance")
    review, client = ask(groups=["finance"]), Client()
    client.force_login(ann)
    sent = {"outcome": "approve", "version": str(review.version), "reason": "Seen"}
    client.logout()
    assert client.post(f"{HERE}{review.pk}/", sent).status_code == 401
    assert Vote.objects.count() + Comment.objects.count() == 0
    client.force_login(ann)
    assert client.post(f"{HERE}{review.pk}/", sent).status_code == 303
    assert Vote.objects.get().reason == "Seen"


def test_a_form_that_is_larger_than_is_read_is_told_all_the_same(settings: Any) -> None:
    settings.DATA_UPLOAD_MAX_MEMORY_SIZE = 1_000
    answer = Client().post(f"{HERE}bulk/", {"reason": "x" * 2_000})
    assert (answer.status_code, "xxx" in answer.text) == (401, False)


def test_whose_account_was_closed_is_nobody() -> None:
    ann = make_person("ann", "finance")
    client = Client()
    client.force_login(ann, backend="django.contrib.auth.backends.AllowAllUsersModelBackend")
    User.objects.filter(pk=ann.pk).update(is_active=False)
    assert client.get(HERE).status_code == 302
    assert client.post(f"{HERE}bulk/", {"reason": "Seen"}).status_code == 401


def test_a_link_is_a_door_of_its_own(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conf, "supplies_links", False)
    settings.WORKFLOWS = {"BASE_URL": "https://holdpoint.example", "TOKEN_KEYS": {"2026-11": "n" * 40}}
    ann = make_person("ann", "finance")
    review: Review = ask(groups=["finance"])
    at = make_link(review, ann).removeprefix("https://holdpoint.example")
    page = Client().get(at)
    assert page.status_code == 200
    assert review.title in page.text


class ReadmeUrls:
    """The routes that the README has a newcomer write; the admin is Django's own beginning of a project."""

    urlpatterns = [
        path("admin/", admin.site.urls),
        path("", include("workflows.urls")),
        path("approvals/", include("approvals.urls")),
        path("accounts/login/", LoginView.as_view(template_name="admin/login.html")),
    ]


def test_the_login_of_the_readme_lets_in_who_is_no_staff(settings: Any) -> None:
    settings.ROOT_URLCONF, settings.LOGIN_URL = ReadmeUrls, global_settings.LOGIN_URL
    ann, client = make_person("ann", "finance"), Client()
    ann.set_password("of finance")
    ann.save()
    sent_to = client.get(HERE)["Location"]
    page = client.get(sent_to)
    assert page.status_code == 200
    assert 'name="password"' in page.text
    answer = client.post(sent_to, {"username": "ann", "password": "of finance", "next": HERE})
    assert (answer.status_code, answer["Location"]) == (302, HERE)
    assert client.get(HERE).status_code == 200
