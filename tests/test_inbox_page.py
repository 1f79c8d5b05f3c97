"""The reviewer's first page."""

import pytest
from django.contrib.auth import get_user_model
from django.test import Client

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
