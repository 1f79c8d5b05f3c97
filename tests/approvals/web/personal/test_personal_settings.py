"""`/approvals/settings/`: how somebody likes to work, and who stands in while they are away."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import IntegrityError, transaction
from django.test import Client, override_settings
from django.utils import timezone

import workflows
from approvals.models import Absence, Preference
from approvals.people.viewer import list_absences
from tests.support.bulk_page import Browser, read_words
from tests.support.html_pages import Page
from tests.support.review_calls import ask, make_person, truth  # noqa: F401 (a fixture)
from workflows.models import Workspace

pytestmark = pytest.mark.django_db

AT = "/approvals/settings/"
HOSTILE = "<img src=x onerror=alert(1)>\u202egpj"


def keep(client: Client, **changes: Any) -> Any:
    sent = {"language": "", "time_zone": "", "email": "each", "shortcuts": "on", "theme": "system", **changes}
    return client.post(AT, {"do": "preferences", **{name: text for name, text in sent.items() if text is not None}})


def add(client: Client, **changes: Any) -> Any:
    sent = {"substitute": "ben", "since": "2026-01-01T09:00", "until": "", "workspace": "", "note": "", **changes}
    return client.post(AT, {"do": "add", **sent})


def check(answer: Any, field: str, words: str) -> None:
    """Refused, with a sentence at the field, which says whose error it is."""
    assert answer.status_code == 422
    page = Page(answer.text)
    [control] = [one for one in page.controls if one.attributes.get("name") == field]
    assert control.attributes["aria-invalid"] == "true"
    assert f"id_{field}_error" in str(control.attributes["aria-describedby"])
    assert page.references <= set(page.ids)
    assert words in read_words(answer.text)


# --- how they work ------------------------------------------------------------------------------------------


def test_what_is_kept_is_how_pages_speak(ann: User, client: Client) -> None:
    answer = keep(client, language="de", time_zone="Asia/Tokyo", email="daily", shortcuts=None, theme="dark")
    assert (answer.status_code, answer["Location"]) == (303, f"{AT}?done=kept")
    assert answer.cookies["holdpoint_theme"].value == "dark"
    kept = Preference.objects.get(user=ann)
    assert (kept.language, kept.time_zone, kept.email, kept.shortcuts) == ("de", "Asia/Tokyo", "daily", False)
    page = client.get(answer["Location"])
    assert 'lang="de"' in page.text
    assert "Asia/Tokyo" in page.text
    assert 'data-theme="dark"' in page.text
    sent = Page(page.text).send()
    assert (sent["language"], sent["time_zone"], sent["email"], sent["theme"]) == ("de", "Asia/Tokyo", "daily", "dark")
    assert "shortcuts" not in sent
    keep(client, shortcuts="on")
    kept.refresh_from_db()
    assert (kept.language, kept.time_zone, kept.shortcuts) == ("", "", True)
    assert Preference.objects.count() == 1


def test_languages_stand_there_by_their_own_names(client: Client) -> None:
    words = read_words(client.get(AT).text)
    for name in ("As my browser says", "Deutsch", "Español", "Français", "日本語", "한국어"):
        assert name in words


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("language", "tlh", "Select a valid choice"),
        ("time_zone", "Mars/Olympus", "There is no time zone “Mars/Olympus”. Write it like Europe/Madrid."),
        ("time_zone", "../../etc/passwd", "There is no time zone"),
        ("email", "often", "Select a valid choice"),
    ],
)
def test_what_there_is_not_is_told_at_its_field(client: Client, field: str, value: str, words: str) -> None:
    check(keep(client, **{field: value}), field, words)
    assert not Preference.objects.exists()


def test_what_is_typed_wrong_is_text_and_kept(client: Client) -> None:
    html = keep(client, time_zone=HOSTILE, theme=HOSTILE).text
    assert "<img" not in html
    assert "&lt;img src=x onerror=alert(1)&gt;" in html


def test_a_theme_of_the_system_takes_the_cookie_away(client: Client) -> None:
    client.cookies["holdpoint_theme"] = "dark"
    assert keep(client, theme="nothing").cookies["holdpoint_theme"]["max-age"] == 0


# --- absences -----------------------------------------------------------------------------------------------


def test_an_absence_lets_the_other_decide_in_its_times(ann: User, ben: User, client: Client) -> None:
    review = ask(assignees=["ann"])
    answer = add(client, note="Holiday")
    assert (answer.status_code, answer["Location"]) == (303, f"{AT}?done=added")
    assert [one.user for one in list_absences(ben)] == [ann]
    browser = Browser(ben)
    browser.open()
    assert browser.ticked == [str(review.pk)]
    words = read_words(client.get(AT).text)
    assert "Ben" in words
    assert "until further notice · now · Holiday" in words
    [absence] = Absence.objects.all()
    assert client.post(AT, {"do": "end", "absence": absence.pk})["Location"] == f"{AT}?done=ended"
    assert list_absences(ben) == []
    assert "· over" in read_words(client.get(AT).text)
    assert client.post(AT, {"do": "remove", "absence": absence.pk})["Location"] == f"{AT}?done=removed"
    assert not Absence.objects.exists()


def test_times_are_read_and_shown_in_the_persons_zone(ann: User, ben: User, client: Client) -> None:
    Preference.objects.create(user=ann, time_zone="Asia/Tokyo")
    add(client, since="2030-07-01T09:00", until="2030-07-02T18:30")
    [absence] = Absence.objects.all()
    assert absence.since == datetime(2030, 7, 1, 0, 0, tzinfo=UTC)
    assert absence.until == datetime(2030, 7, 2, 9, 30, tzinfo=UTC)
    words = read_words(client.get(AT).text)
    assert "1 Jul 2030, 09:00 – 2 Jul 2030, 18:30 · to come" in words
    assert "Times are those of Asia/Tokyo." in words


def test_what_is_typed_wrong_is_kept_beside_what_is_right(ben: User, client: Client) -> None:
    answer = add(client, substitute="nobody", since="2030-07-01T09:00", note="Holiday")
    sent = Page(answer.text).send()
    assert (sent["substitute"], sent["since"], sent["note"]) == ("nobody", "2030-07-01T09:00", "Holiday")


@pytest.mark.parametrize(
    ("field", "changes", "words"),
    [
        ("substitute", {"substitute": ""}, "required"),
        ("substitute", {"substitute": "nobody"}, "There is nobody of that name here. Choose somebody else."),
        ("substitute", {"substitute": "gone"}, "There is nobody of that name here. Choose somebody else."),
        ("substitute", {"substitute": "ann"}, "Nobody can stand in for themselves."),
        ("substitute", {"substitute": "a\0b"}, "Null"),
        ("since", {"since": "tomorrow"}, "Enter a valid date/time."),
        ("since", {"since": ""}, "required"),
        ("until", {"until": "2025-01-01T00:00"}, "It lies in the past."),
        ("until", {"since": "2030-07-02T00:00", "until": "2030-07-01T00:00"}, "An absence ends after it begins."),
        ("workspace", {"workspace": "999"}, "Select a valid choice"),
        ("note", {"note": "x" * 201}, "at most 200 characters"),
    ],
)
def test_what_cannot_be_is_told_at_its_field(
    ann: User, ben: User, client: Client, field: str, changes: dict[str, str], words: str
) -> None:
    make_person("gone", is_active=False)
    check(add(client, **changes), field, words)
    assert not Absence.objects.exists()


def test_a_time_that_there_is_not_is_told(ann: User, ben: User, client: Client) -> None:
    Preference.objects.create(user=ann, time_zone="Europe/Madrid")
    check(add(client, since="2030-03-31T02:30"), "since", "couldn’t be interpreted in time zone Europe/Madrid")


def test_only_who_shares_a_workspace_can_stand_in(ann: User, ben: User, client: Client) -> None:
    [home] = Workspace.objects.all()
    acme = workflows.workspace.create("acme")
    home.members.add(ann)
    check(add(client), "substitute", "There is nobody of that name here.")
    home.members.add(ben)
    check(add(client, workspace=str(acme.pk)), "workspace", "Select a valid choice")
    acme.members.add(ann)
    check(add(client, workspace=str(acme.pk)), "substitute", "They are not in this workspace")
    assert "acme" in client.get(AT).text
    assert add(client, workspace=str(home.pk)).status_code == 303
    assert Absence.objects.get().workspace == home


def test_it_can_be_about_some_workflows(ann: User, ben: User, client: Client) -> None:
    assert add(client, workflows=["nothing"]).status_code == 422
    assert add(client, workflows=["approving.ask"]).status_code == 303
    assert Absence.objects.get().workflows == ["approving.ask"]
    add(client)
    assert Absence.objects.latest("pk").workflows is None


@pytest.mark.parametrize("do", ["end", "remove"])
def test_another_persons_absence_is_not_there(ann: User, ben: User, client: Client, do: str) -> None:
    absence = Absence.objects.create(
        user=ben, substitute=ann, since=timezone.now() - timedelta(days=1), note="Not for Ann’s eyes"
    )
    for key in (absence.pk, "0", "999", "x", "", "-1", "9" * 40):
        answer = client.post(AT, {"do": do, "absence": key})
        assert answer.status_code == (409 if do == "end" else 404), key
        assert "Not for Ann" not in answer.text
        absence.refresh_from_db()
        assert absence.until is None


def test_what_has_not_begun_cannot_be_ended(ann: User, ben: User, client: Client) -> None:
    absence = Absence.objects.create(user=ann, substitute=ben, since=timezone.now() + timedelta(days=1))
    assert client.post(AT, {"do": "end", "absence": absence.pk}).status_code == 409
    absence.refresh_from_db()
    assert absence.until is None


def test_there_are_fifty_at_most(ann: User, ben: User, client: Client) -> None:
    Absence.objects.bulk_create(Absence(user=ann, substitute=ben, since=timezone.now()) for _ in range(50))
    answer = add(client)
    assert answer.status_code == 422
    assert "You have 50 of these: remove some first." in answer.text


def test_whatever_an_absence_says_is_text(ann: User, client: Client) -> None:
    User.objects.create_user("dan", first_name=HOSTILE)
    add(client, substitute="dan", note=HOSTILE)
    html = client.get(AT).text
    assert "<img" not in html
    assert html.count("&lt;img src=x onerror=alert(1)&gt;⟨U+202E⟩gpj") >= 2
    assert " style=" not in html


# --- doors --------------------------------------------------------------------------------------------------


def test_a_form_of_another_site_changes_nothing(ann: User, ben: User) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(ann)
    assert add(client).status_code == 403
    assert keep(client, language="de").status_code == 403
    assert not Absence.objects.exists()
    assert not Preference.objects.exists()
    assert Client().post(AT, {"do": "add"}).status_code == 401
    assert Client().get(AT).status_code == 302


def test_looking_changes_nothing_and_what_says_nothing_is_told(client: Client) -> None:
    client.get(AT, {"do": "preferences", "language": "de"})
    client.get(AT, {"done": HOSTILE})
    assert client.put(AT).status_code == 405
    assert client.post(AT, {"do": "burn"}).status_code == 422
    assert not Preference.objects.exists()


@pytest.mark.parametrize("zone", ["America/Los_Angeles", "Asia/Tokyo", "UTC"])
def test_a_moment_that_no_zone_can_tell_is_refused(client: Client, ann: User, ben: User, zone: str) -> None:
    Preference.objects.create(user=ann, time_zone=zone)
    for since, until in (
        ("0001-01-01T00:00", ""),
        ("9999-12-31T23:59", ""),
        ("2026-01-01T00:00", "9999-12-31T23:59"),
        ("1969-01-01T00:00", ""),
    ):
        assert add(client, since=since, until=until).status_code == 422, (since, until)
        assert not Absence.objects.exists()


def test_the_table_takes_no_such_moment_from_anybody(ann: User, ben: User) -> None:
    late = datetime(9999, 12, 31, tzinfo=UTC)
    with pytest.raises(IntegrityError, match="holdpoint_absence_within"), transaction.atomic():
        Absence.objects.create(user=ann, substitute=ben, since=datetime(2026, 1, 1, tzinfo=UTC), until=late)


@override_settings(LANGUAGES=[("en", "English"), ("de-at", "Austrian"), ("pl", "Polish"), ("zh-hant", "Chinese")])
def test_only_languages_that_the_pages_speak_are_offered(client: Client) -> None:
    words = client.get(AT).text
    assert 'value="de-at"' in words
    assert 'value="pl"' not in words
    assert 'value="zh-hant"' not in words


def test_what_stands_below_a_field_describes_it(client: Client) -> None:
    """Help, what the page adds to it, and what is wrong: each is told with the field, in that order."""

    def describe(html: str, name: str) -> list[str]:
        page = Page(html)
        assert page.references <= set(page.ids)
        [control] = [one for one in page.controls if one.attributes.get("name") == name]
        return control.attributes.get("aria-describedby", "").split()

    html = client.get(AT).text
    assert describe(html, "time_zone") == ["id_time_zone_helptext", "id_time_zone_note"]
    assert describe(html, "since") == ["id_since_note"]
    assert describe(html, "until") == ["id_until_helptext"]
    assert describe(html, "language") == []
    refused = keep(client, time_zone="Nowhere/Atlantis").text
    assert describe(refused, "time_zone") == ["id_time_zone_helptext", "id_time_zone_note", "id_time_zone_error"]
    assert "Times are those of" in html
