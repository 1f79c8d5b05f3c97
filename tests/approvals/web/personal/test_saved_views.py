"""`/approvals/views/`: lists that somebody keeps, under names of their own."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from approvals.models import SavedView
from tests.support.bulk_page import read_words
from tests.support.html_pages import Page
from tests.support.review_calls import make_person, truth  # noqa: F401 (a fixture)

pytestmark = pytest.mark.django_db

AT = "/approvals/views/"
HOSTILE = "<img src=x onerror=alert(1)>\u202egpj"


def keep(client: Client, name: str, query: str = "view=overdue", **more: Any) -> Any:
    return client.post(AT, {"do": "keep", "name": name, "query": query, **more})


def list_views(user: User) -> list[tuple[str, str]]:
    return list(SavedView.objects.filter(user=user).values_list("name", "query"))


def test_a_list_is_kept_and_shown(ann: User, client: Client) -> None:
    answer = keep(client, "  Late\u00a0ones ", "risk=high&view=overdue&page=5&x=y")
    assert (answer.status_code, answer["Location"]) == (303, "/approvals/?view=overdue&risk=high")
    assert list_views(ann) == [("Late ones", "view=overdue&risk=high")]
    assert "Late ones" in client.get("/approvals/").text
    page = client.get(AT)
    assert 'href="/approvals/?view=overdue&amp;risk=high"' in page.text
    assert "Late ones" in read_words(page.text)


def test_the_same_name_becomes_the_new_list(ann: User, client: Client) -> None:
    keep(client, "Late")
    keep(client, "Late", "view=today")
    assert list_views(ann) == [("Late", "view=today")]


def test_two_people_may_use_one_name(ann: User, client: Client) -> None:
    ben = make_person("ben")
    SavedView.objects.create(user=ben, name="Late", query="view=risk")
    keep(client, "Late")
    assert list_views(ben) == [("Late", "view=risk")]
    assert "view=risk" not in client.get(AT).text


@pytest.mark.parametrize(
    ("name", "words"),
    [("", "Give it a name."), ("   ", "Give it a name."), ("x" * 61, "at most 60 characters"), ("a\0b", "Null")],
)
def test_a_name_that_cannot_be_is_told_and_kept(ann: User, client: Client, name: str, words: str) -> None:
    answer = keep(client, name)
    assert answer.status_code == 422
    assert words in answer.text
    page = Page(answer.text)
    page_name = next(one for one in page.controls if one.attributes.get("id") == "view-name")
    assert page_name.attributes["aria-invalid"] == "true"
    assert page.references <= set(page.ids)
    assert next(one for one in page.controls if one.attributes.get("name") == "query").attributes["value"]
    assert list_views(ann) == []


def test_a_list_that_is_too_long_is_told(ann: User, client: Client) -> None:
    answer = keep(client, "Long", "q=" + "%C3%A9" * 400)
    assert answer.status_code == 422
    assert "asks for too much" in answer.text
    assert list_views(ann) == []


def test_there_are_fifty_at_most(ann: User, client: Client) -> None:
    SavedView.objects.bulk_create(SavedView(user=ann, name=f"View {n}") for n in range(50))
    answer = keep(client, "One more")
    assert answer.status_code == 422
    assert "You have 50 of these: remove some first." in answer.text
    assert keep(client, "View 7", "view=today").status_code == 303
    assert SavedView.objects.count() == 50


def test_renaming_and_removing(ann: User, client: Client) -> None:
    keep(client, "Late")
    [view] = SavedView.objects.all()
    answer = client.post(AT, {"do": "rename", "view": view.pk, "name": "Overdue"})
    assert (answer.status_code, answer["Location"]) == (303, "/approvals/?view=overdue")
    assert list_views(ann) == [("Overdue", "view=overdue")]
    answer = client.post(AT, {"do": "remove", "view": view.pk, "next": "/approvals/?view=today"})
    assert (answer.status_code, answer["Location"]) == (303, "/approvals/?view=today")
    assert list_views(ann) == []


def test_a_name_that_another_has_is_refused(ann: User, client: Client) -> None:
    keep(client, "Late")
    keep(client, "Soon", "view=today")
    view = SavedView.objects.get(name="Soon")
    answer = client.post(AT, {"do": "rename", "view": view.pk, "name": "Late"})
    assert answer.status_code == 422
    assert "Another one is called so." in answer.text
    assert Page(answer.text).references <= set(Page(answer.text).ids)
    assert client.post(AT, {"do": "rename", "view": view.pk, "name": "Soon"}).status_code == 303
    assert [name for name, _ in list_views(ann)] == ["Late", "Soon"]


@pytest.mark.parametrize("do", ["rename", "remove"])
@pytest.mark.parametrize("key", ["theirs", "0", "999", "x", "", "-1", "9" * 40])
def test_another_persons_view_is_not_there(client: Client, do: str, key: str) -> None:
    ben = make_person("ben")
    view = SavedView.objects.create(user=ben, name="Secret plan", query="view=risk")
    answer = client.post(AT, {"do": do, "view": view.pk if key == "theirs" else key, "name": "Mine"})
    assert answer.status_code == 404
    assert "Secret plan" not in answer.text
    assert list_views(ben) == [("Secret plan", "view=risk")]


def test_a_form_of_another_site_changes_nothing(ann: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(ann)
    assert keep(client, "Late").status_code == 403
    assert list_views(ann) == []
    assert Client().post(AT, {"do": "keep"}).status_code == 401
    assert Client().get(AT).status_code == 302


def test_looking_changes_nothing_and_what_says_nothing_is_told(ann: User, client: Client) -> None:
    client.get(AT, {"do": "keep", "name": "Late", "query": "view=overdue"})
    assert client.put(AT).status_code == 405
    assert client.post(AT, {"do": "burn"}).status_code == 422
    assert list_views(ann) == []


def test_the_way_back_leads_nowhere_else(ann: User, client: Client) -> None:
    keep(client, "Late")
    [view] = SavedView.objects.all()
    answer = client.post(AT, {"do": "remove", "view": view.pk, "next": "https://evil.example/"})
    assert answer["Location"] == "/approvals/"


def test_whatever_a_view_is_called_is_text(ann: User, client: Client) -> None:
    keep(client, HOSTILE)
    html = client.get(AT, {"query": HOSTILE}).text
    assert "<img" not in html
    assert "&lt;img src=x onerror=alert(1)&gt;⟨U+202E⟩gpj" in html
    assert " style=" not in html


def test_without_javascript_a_list_is_kept_on_a_page_of_its_own(client: Client) -> None:
    page = Page(client.get(AT, {"query": "view=risk&nothing=x"}).text)
    sent = page.send(name="Risky")
    assert sent["query"] == "view=risk"
