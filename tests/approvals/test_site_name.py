"""`APPROVALS["NAME"]`: what people read as the name of this site, on pages, link pages and in mails."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.core.checks import run_checks
from django.test import Client

from approvals.notify.fan_out import expand_notices
from approvals.notify.messages.smtp import Postman
from approvals.notify.sending import send_messages
from tests.support import link_pages
from tests.support.link_pages import Visitor, site  # noqa: F401 (a fixture)
from tests.support.review_calls import (
    ask,
    make_person,
    truth,  # noqa: F401 (a fixture)
)

pytestmark = pytest.mark.django_db


def read(page: str) -> str:
    """What a person reads: the title and the words."""
    return re.sub(r"<[^>]*>", " ", page)


@pytest.mark.parametrize("at", ["", "settings/", "views/", "bulk/", "01890000-0000-7000-8000-000000000000/"])
def test_pages_are_called_as_the_site_is(settings: Any, at: str) -> None:
    settings.APPROVALS = {"NAME": "Fjord & Sons"}
    client = Client()
    client.force_login(make_person("ann"))
    page = client.get(f"/approvals/{at}").text
    assert "Fjord &amp; Sons</title>" in page
    assert "Fjord &amp; Sons</span>" in page
    assert "Holdpoint</" not in page


def test_a_request_and_its_link_page_are(settings: Any, site: None) -> None:  # noqa: F811 (the fixture)
    settings.APPROVALS = {"NAME": "Fjord"}
    ann = User.objects.create_user("ann", first_name="Ann", email="ann@shop.example")
    review = link_pages.ask(assignees=["ann"])
    client = Client()
    client.force_login(ann)
    for page in (client.get(f"/approvals/{review.pk}/").text, client.get(Visitor(review, ann).at).text):
        assert "· Fjord</title>" in page
        assert "Holdpoint" not in read(page)


def test_mails_are(settings: Any, mailoutbox: Any) -> None:
    settings.APPROVALS = {"NAME": "Fjord"}
    make_person("ann", email="ann@shop.example")
    ask(assignees=["ann"])
    expand_notices(10)
    send_messages(10, Postman())
    [mail] = mailoutbox
    assert "Fjord</p>" in mail.alternatives[0][0]
    assert "Holdpoint" not in read(mail.alternatives[0][0]) + mail.body
    assert mail.body.rstrip().endswith("Fjord")


def test_without_a_name_it_is_ours() -> None:
    client = Client()
    client.force_login(make_person("ann"))
    assert "· Holdpoint</title>" in client.get("/approvals/").text


@pytest.mark.parametrize("name", ["", "  ", 7, None, "a\nb", "x" * 61])
def test_a_name_that_cannot_stand_in_a_title_is_told(settings: Any, name: Any) -> None:
    settings.APPROVALS = {"NAME": name}
    [problem] = [one for one in run_checks(tags=["holdpoint"], databases=[]) if 'APPROVALS["NAME"]' in one.msg]
    assert problem.hint == "Write what people call it, in one line of up to 60 characters."
