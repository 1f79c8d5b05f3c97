"""The demo's pages: its login lets in only whom it may, and whoever asks for something sees what becomes of it."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse
from django.utils import translation
from django.utils.html import escape

import workflows
from approvals.models import Preference
from approvals.testing import assert_asked, decide
from config.messages import LANGUAGES, ROOT, locate_catalogue, read_catalogue
from examples.demo import rows
from examples.demo.offers import OFFERS
from examples.demo.pages import tell_count
from examples.demo.people import PASSWORD, PEOPLE, make_people
from examples.models import Article, Invoice
from workflows.models import Instance
from workflows.testing import drain

pytestmark = pytest.mark.django_db


# --- the login ----------------------------------------------------------------------------------------------


@pytest.fixture
def debug(settings: Any) -> None:
    settings.DEBUG = True


def test_the_front_door_leads_to_the_login_and_then_to_the_inbox(client: Client, debug: None) -> None:
    make_people()
    assert client.get("/")["Location"] == "/login/"
    page = client.get("/login/")
    assert page.status_code == 200
    assert "default-src 'none'" in page["Content-Security-Policy"]
    text = page.content.decode()
    assert all(one.name in text for one in PEOPLE)
    assert " style=" not in text
    assert "<script" not in text
    answer = client.post(reverse("demo:persona", args=["maya"]), {"next": ""})
    assert (answer.status_code, answer["Location"]) == (303, "/")
    assert client.get("/")["Location"] == "/approvals/"
    assert client.get("/demo/").wsgi_request.user.username == "maya"
    assert client.post("/logout/")["Location"] == "/login/"
    assert client.get("/")["Location"] == "/login/"


def test_one_click_lets_in_nobody_but_the_people_of_the_demo(client: Client, debug: None) -> None:
    make_people()
    User.objects.create_superuser("root", "root@home.example", "secret")
    User.objects.filter(username="tom").update(is_active=False)
    for name in ("root", "nobody", "tom"):
        assert client.post(reverse("demo:persona", args=[name])).status_code == 404
    assert client.get(reverse("demo:persona", args=["maya"])).status_code == 405
    assert "_auth_user_id" not in client.session
    strict = Client(enforce_csrf_checks=True)
    assert strict.post(reverse("demo:persona", args=["maya"])).status_code == 403


def test_without_debug_there_is_a_login_and_no_demo(client: Client) -> None:
    make_people()
    page = client.get("/login/").content.decode()
    assert "Maya" not in page
    assert 'name="password"' in page
    assert client.post(reverse("demo:persona", args=["maya"])).status_code == 404
    assert "_auth_user_id" not in client.session
    client.force_login(User.objects.get(username="maya"))
    for path in ("/demo/", f"/demo/{workflows.start('demo.ship', {'order': 1}).pk}/", "/demo/invoice/1/"):
        assert client.get(path).status_code == 404


def test_a_name_and_a_password_work_as_everywhere(client: Client) -> None:
    make_people()
    wrong = client.post("/login/", {"username": "samir", "password": "wrong", "next": "/approvals/"})
    assert wrong.status_code == 200
    assert 'aria-invalid="true"' in wrong.content.decode()
    assert 'value="/approvals/"' in wrong.content.decode()
    right = client.post("/login/", {"username": "samir", "password": PASSWORD, "next": "/approvals/"})
    assert right["Location"] == "/approvals/"


@pytest.mark.parametrize("evil", ["https://evil.example/", "//evil.example/", "/\\evil.example", "javascript:alert(1)"])
def test_nobody_is_led_to_another_site_after_the_login(client: Client, debug: None, evil: str) -> None:
    make_people()
    assert client.post(reverse("demo:persona", args=["maya"]), {"next": evil})["Location"] == "/"
    client.logout()
    answer = client.post("/login/", {"username": "maya", "password": PASSWORD, "next": evil})
    assert answer["Location"] == "/"
    client.logout()
    shown = client.get("/login/", {"next": evil}).content.decode()
    assert "evil.example" not in shown
    assert "alert(1)" not in shown


# --- asking, and watching -----------------------------------------------------------------------------------


@pytest.fixture
def ben(client: Client, debug: None, people: dict[str, User]) -> Client:
    client.force_login(people["ben"])
    return client


@pytest.mark.parametrize("offer", OFFERS, ids=lambda one: one.name)
def test_each_form_starts_its_process_as_who_is_logged_in(ben: Client, people: dict[str, User], offer: Any) -> None:
    fields = {name: field.initial for name, field in offer.form().fields.items()}
    answer = ben.post("/demo/", {"process": offer.name, **fields})
    instance = Instance.objects.get()
    assert answer["Location"] == f"/demo/{instance.pk}/"
    assert (instance.workflow, instance.started_by) == (offer.workflow, f"user:{people['ben'].pk}")
    drain()
    review = assert_asked(instance)
    assert review.requester == people["ben"]
    page = ben.get(answer["Location"]).content.decode()
    assert review.title.split()[0] in page
    assert str(offer.then) in page


def test_what_cannot_be_asked_is_said_at_its_field_and_nothing_is_made(ben: Client) -> None:
    answer = ben.post("/demo/", {"process": "refund", "customer": "Acme", "amount": "-5", "why": "Lost."})
    assert answer.status_code == 422
    assert 'aria-invalid="true"' in answer.content.decode()
    assert not Instance.objects.exists()
    assert not Invoice.objects.exists()
    assert ben.post("/demo/", {"process": "other"}).status_code == 200


def test_whoever_asked_watches_it_wait_be_approved_and_be_paid(ben: Client, people: dict[str, User]) -> None:
    given = {"process": "refund", "customer": "<b>Acme</b>", "amount": "620", "why": "Lost."}
    path = ben.post("/demo/", given)["Location"]

    def look() -> str:
        return ben.get(path, headers={"HX-Request": "true"}).content.decode()

    assert "On its way" in look()
    drain()
    waiting = look()
    assert "Waiting for Finance" in waiting
    assert "0 of 3" in waiting
    assert "Parked" in waiting
    assert "every 2s" in waiting
    assert "<html" not in waiting
    # Without scripts it is loaded anew: by its address, because one with a fragment would only be scrolled to.
    assert f'<noscript><meta http-equiv="refresh" content="3;url={path}"></noscript>' in ben.get(path).content.decode()
    assert "&lt;b&gt;Acme" in waiting
    assert "<b>Acme" not in waiting
    instance = Instance.objects.get()
    for name in ("ana", "lena"):
        decide(instance, "approve", actor=people[name])
    assert "2 of 3" in look()
    decide(instance, "approve", actor=people["maya"])
    assert "Approved by Maya Lindqvist" in look()
    drain()
    paid = look()
    assert "Refund paid: €620.00" in paid
    assert "hx-get" not in paid
    whole = ben.get(path)
    assert "script-src 'self'" in whole["Content-Security-Policy"]
    assert "refresh" not in whole.content.decode()


def test_while_nothing_changes_whoever_watches_is_sent_nothing(ben: Client, people: dict[str, User]) -> None:
    given = {"process": "refund", "customer": "Acme", "amount": "620", "why": "Lost."}
    path = ben.post("/demo/", given)["Location"]
    drain()

    def look(seen: str) -> Any:
        return ben.get(f"{path}?seen={seen}", headers={"HX-Request": "true"})

    first = look("")
    [seen] = re.findall(r'hx-get="[^"]*\?seen=(\w+)"', first.text)
    assert [look(seen).status_code for _ in range(2)] == [204, 204]
    assert f"?seen={seen}" in ben.get(path).text
    decide(Instance.objects.get(), "approve", actor=people["ana"])
    assert look(seen).status_code == 200
    assert "1 of 3" in look(seen).text


def test_a_text_that_was_sent_back_is_sent_again_by_who_asked(ben: Client, people: dict[str, User]) -> None:
    given = {"process": "article", "title": "Moss", "before": "Old.", "after": "New.", "why": "Better."}
    path = ben.post("/demo/", given)["Location"]
    drain()
    instance = Instance.objects.get()
    decide(instance, "request_changes", actor=people["ines"], reason="Too long")
    drain()
    assert "waits for the new text" in ben.get(path).content.decode()
    other = Client()
    other.force_login(people["priya"])
    other.post(path, {"body": "Hers."})
    drain()
    assert "waits for the new text" in ben.get(path).content.decode()
    ben.post(path, {"body": "Newer."})
    drain()
    change: Any = assert_asked(instance, people["ines"]).change
    assert change["body"] == "Newer."
    decide(instance, "approve", actor=people["ines"])
    drain()
    assert "is online" in ben.get(path).content.decode()
    assert Article.objects.get().body == "Newer."


def test_evidence_leads_to_a_page_of_the_row(ben: Client) -> None:
    rows.for_refund("Acme GmbH", "12.00", "Lost.")
    invoice = Invoice.objects.get()
    page = ben.get(f"/demo/invoice/{invoice.pk}/")
    assert "Acme GmbH" in page.content.decode()
    assert ben.get("/demo/invoice/999999/").status_code == ben.get("/demo/nothing/1/").status_code == 404
    assert Client().get("/demo/")["Location"] == "/login/?next=/demo/"
    assert Group.objects.filter(name="Finance").exists()


# --- in other languages -------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_pages_of_the_demo_are_in_the_language_of_the_browser(
    client: Client, debug: None, people: dict[str, User], language: str
) -> None:
    headers: Any = {"Accept-Language": translation.to_language(language)}
    texts = [client.get("/login/", headers=headers).text]
    Preference.objects.filter(user=people["ben"]).update(language="")
    client.force_login(people["ben"])
    path = client.post("/demo/", {"process": "refund", "customer": "Acme", "amount": "620", "why": "Lost."})["Location"]
    drain()
    texts += [client.get(address, headers=headers).text for address in ("/demo/", path, "/approvals/")]
    written = read_catalogue(locate_catalogue(ROOT, "examples", language).read_text(encoding="utf-8"))
    # Whole sentences: a short word may be a name, or the same in both.
    english = [one.source for one in written if len(one.source) > 16 and one.source not in one.forms]
    assert len(english) > 50
    assert [one for one in english if any(f">{escape(one)}<" in text for text in texts)] == []
    assert "2 of 3" not in texts[2]


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("en", ["1 waits, and is overdue.", "3 wait, 2 of them overdue.", "1 waits.", "1 request is on its way."]),
        ("de", ["1 wartet und ist überfällig.", "3 warten, davon 2 überfällig.", "1 wartet.", "1 eigener Antrag"]),
        ("ja", ["1件が判断待ち、うち1件", "3件が判断待ち、うち2件", "1件が判断待ち。", "申請1件が進行中。"]),
    ],
)
def test_one_that_waits_is_told_as_one(code: str, told: list[str]) -> None:
    with translation.override(code):
        said = [tell_count(1, 1, 0), tell_count(3, 2, 0), tell_count(1, 0, 0), tell_count(0, 0, 1)]
    assert [one.startswith(begin) for one, begin in zip(said, told, strict=True)] == [True] * 4
