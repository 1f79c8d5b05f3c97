"""The reviewer's first page."""

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

from tests.approving import ask

pytestmark = pytest.mark.django_db


def test_a_stranger_is_sent_to_the_login() -> None:
    answer = Client().get("/approvals/")
    assert answer.status_code == 302
    assert answer["Location"] == "/admin/login/?next=/approvals/"


def test_an_empty_inbox_says_so() -> None:
    client = Client()
    client.force_login(get_user_model().objects.create_user("ada"))
    answer = client.get("/approvals/")
    assert answer.status_code == 200
    assert "Nothing waits for you." in answer.text


def test_the_page_needs_no_inline_script_or_style() -> None:
    client = Client()
    client.force_login(get_user_model().objects.create_user("ada"))
    page = client.get("/approvals/").text
    assert "<script" not in page
    assert "<style" not in page
    assert " style=" not in page


def test_what_waits_is_listed_and_leads_to_ones_own_page_of_it() -> None:
    client, ada = Client(), get_user_model().objects.create_user("ada")
    client.force_login(ada)
    review = ask(title="Refund <b>Acme</b>", assignees=["ada"], due="1d")
    page = client.get("/approvals/").text
    assert "Refund &lt;b&gt;Acme&lt;/b&gt;" in page
    assert f'href="/approvals/{review.pk}/"' in page
    answer = client.get(f"/approvals/{review.pk}/", follow=True)
    assert answer.status_code == 200
    assert "Refund &lt;b&gt;Acme&lt;/b&gt;" in answer.text


def test_what_is_not_theirs_to_see_is_not_there() -> None:
    client, _ = Client(), get_user_model().objects.create_user("ada")
    review = ask(assignees=["ada"])
    client.force_login(get_user_model().objects.create_user("eve"))
    assert client.get(f"/approvals/{review.pk}/").status_code == 404
    assert client.get("/approvals/").text.count("<li>") == 0
