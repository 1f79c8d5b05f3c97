"""The page of a resume address: who sees what, what decides and what never does, and that nothing typed is lost."""

import json
import logging
import re

import pytest
from django.db import OperationalError, connections
from django.test import Client
from django.test.utils import CaptureQueriesContext

import workflows
from tests.support.answer_pages import (
    BROWSER,
    Browser,
    PageFree,
    change,
    check,
    fresh,  # noqa: F401 (a fixture)
    handed,
    park,
    snapshot,
    url,
)
from tests.support.html_pages import HOSTILE, Page
from workflows import store
from workflows.conf import conf
from workflows.definitions.callback_tokens import make_token
from workflows.lifecycle import CARDINALITY_CODES, INTERACTION_CODES, Cardinality, InteractionStatus
from workflows.models import Interaction, LedgerEvent, Signal
from workflows.testing import advance, assert_awaiting, assert_done, drain

pytestmark = pytest.mark.django_db


GOOD = {"data/count": "2", "data/lines/0/part": "KX-1"}
VALUE = {"count": 2, "lines": [{"part": "KX-1"}]}


# --- looking ------------------------------------------------------------------------------------------


def test_the_page_tells_what_is_asked():
    instance = park()
    change("request = %s::jsonb", json.dumps({"order": "A-20718", "express": False, "parts": [{"n": 1}]}))
    page = check(Browser().open(), 200, "Confirm the delivery Missing parts are sent again.")
    row = Interaction.objects.get()
    for words in ("PageAsk", "delivery", row.signal_id, "A-20718", "express", "in 23 hours, 59 minutes", "Due"):
        assert words in " ".join(page.words.split())
    due = row.deadline.strftime("%a %-d %b %Y, %H:%M UTC")
    assert f"One answer, until {due}." in page.words
    names = [control.attributes["name"] for control in page.controls]
    assert names == [
        *("csrfmiddlewaretoken", "version", "shown", "once"),
        *("data/count", "data/note", "data/lines", "data/lines/0/part"),
    ]
    assert_awaiting(instance)


def test_a_wait_without_schema_or_deadline_takes_any_words():
    instance = park(PageFree)
    browser = Browser()
    page = check(browser.open(), 200, "Free words This workflow stands still until somebody answers here.")
    assert "No deadline" in page.words
    assert "What is asked" not in page.words
    browser.send(browser.open(), data="Yes, go on")
    drain()
    assert_done(instance, "Yes, go on")


@pytest.mark.parametrize("method", ["get", "head", "options"])
@pytest.mark.parametrize("state", ["open", "late", "answered", "cancelled", "elsewhere"])
def test_looking_changes_nothing(method, state):
    instance = park()
    match state:
        case "late":
            change("deadline = now() - interval '1 s'")
        case "answered":
            workflows.complete(Interaction.objects.get(), VALUE)
        case "cancelled":
            workflows.cancel(instance)
        case "elsewhere":
            change("owned = true")
    before = snapshot()
    answer = getattr(Client(), method)(url(), headers={"Accept": BROWSER}, query_params={"data": "1", "add": "x"})
    assert answer.status_code == {"options": 405}.get(method, 404 if state == "cancelled" else 200)
    assert snapshot() == before


def test_head_is_get_without_the_page():
    park()
    answers = [getattr(Client(), method)(url(), headers={"Accept": BROWSER}) for method in ("get", "head")]
    kept = [{k: v for k, v in one.headers.items() if k != "Content-Length"} for one in answers]
    assert kept[0] == kept[1]
    assert answers[1].content == b""


@pytest.mark.parametrize("accept", [None, "*/*", "application/json", "application/problem+json, text/html;q=0.5"])
def test_whoever_is_no_browser_is_told_to_post(accept):
    park()
    for method in ("get", "head"):
        answer = getattr(Client(), method)(url(), headers={} if accept is None else {"Accept": accept})
        assert answer.status_code == 405
        assert answer["Content-Type"] == "application/problem+json"
        assert answer["Allow"] == "POST"


def test_a_page_costs_two_statements():
    park()
    with CaptureQueriesContext(connections["default"]) as asked:
        check(Browser().open(), 200)
    assert len(asked) == 2


def test_what_the_workflow_sent_along_is_shown_as_text():
    park()
    change("request = %s::jsonb", json.dumps({HOSTILE: [HOSTILE, {"deep": HOSTILE}], "long": "x" * 300_000}))
    answer = Browser().open()
    check(answer, 200, "<script>alert(1)</script>")
    assert "<script" not in answer.text
    assert len(answer.content) < 80_000


def test_what_is_sent_along_hides_nothing():
    park()
    sent = {"file": "invoice\u202egpj.exe", "na\u2066me": "x", "list": ["\u200b\u200b"]}
    change("request = %s::jsonb", json.dumps(sent))
    answer = Browser().open()
    check(answer, 200, "invoice⟨U+202E⟩gpj.exe")
    assert not re.search("[\u200b\u202e\u2066]", answer.text)


def test_words_of_a_schema_are_text():
    park()
    change("schema = %s::jsonb", json.dumps({"title": HOSTILE, "description": HOSTILE, "type": "string"}))
    answer = Browser().open()
    check(answer, 200, "<script>alert(1)</script>")
    assert "<script" not in answer.text


# --- answering ----------------------------------------------------------------------------------------


def test_a_person_answers_and_the_address_shows_it_from_then_on():
    instance = park()
    browser = Browser()
    sent = browser.send(browser.open(), **GOOD)
    assert sent.status_code == 303, sent.text
    assert sent["Location"] == url()
    assert sent["Referrer-Policy"] == "no-referrer"
    assert sent["Cache-Control"] == "no-store"
    row = LedgerEvent.objects.get(instance=instance, kind="answered")
    assert (row.data["door"], row.actor) == ("resume", "")
    for _ in range(2):
        page = check(browser.open(), 200, "This has been answered")
        assert "KX-1" not in page.words
        assert not page.controls
        drain()
    assert_done(instance, {"answer": VALUE, "timed_out": False})
    advance("30d")
    when = Interaction.objects.get().closed_at.strftime("%a %-d %b %Y, %H:%M UTC")
    check(browser.open(), 200, f"On {when}.")


def test_a_form_may_also_come_in_parts():
    instance = park()
    browser = Browser()
    sent = Page(browser.open().text).send(**GOOD)
    answer = browser.client.post(url(), dict(sent.lists()), headers=browser.headers)
    assert answer.status_code == 303
    drain()
    assert_done(instance, {"answer": VALUE, "timed_out": False})


def test_a_slash_at_the_end_is_forgiven():
    park()
    browser = Browser()
    sent = browser.send(browser.open(f"{url()}/"), at=f"{url()}/", **GOOD)
    assert (sent.status_code, sent["Location"]) == (303, f"{url()}/")


def test_the_same_form_sent_twice_is_one_answer():
    instance = park()
    browser = Browser()
    page = browser.open()
    assert [browser.send(page, **GOOD).status_code for _ in range(3)] == [303, 303, 303]
    assert Signal.objects.filter(instance=instance).count() == 1
    again = browser.send(page, **{**GOOD, "data/count": "3"})
    check(again, 409, "What you sent was not taken")
    assert Signal.objects.filter(instance=instance).count() == 1


def test_rows_are_added_and_taken_away_without_deciding():
    instance = park()
    browser = Browser()
    before = snapshot()
    answer = browser.send(browser.open(), **GOOD, **{"data/note": "kept", "add": "data/lines"})
    page = check(answer, 200, "Item 2")
    assert snapshot() == before
    assert [c.attributes["name"] for c in page.controls if "autofocus" in c.attributes] == ["data/lines/1/part"]
    answer = browser.send(answer, **{"data/lines/1/part": "LL-9", "drop": "data/lines/0"})
    check(answer, 200)
    assert browser.send(answer).status_code == 303
    drain()
    told = {"count": 2, "note": "kept", "lines": [{"part": "LL-9"}]}
    assert_done(instance, {"answer": told, "timed_out": False})


def test_an_invalid_answer_is_told_at_its_fields_and_kept():
    instance = park()
    browser = Browser()
    before = snapshot()
    bad = {"data/count": "0", "data/note": 'my "words" <b>', "data/lines/0/part": "KX-1"}
    answer = browser.send(browser.open(), **bad)
    page = check(answer, 422, "One thing needs you.")
    assert snapshot() == before
    assert page.words.strip().startswith("Error:")
    [count] = [control for control in page.controls if control.attributes["name"] == "data/count"]
    assert count.attributes["aria-invalid"] == "true"
    assert count.attributes["value"] == "0"
    error = f"{count.attributes['id']}-error"
    assert error in str(count.attributes["aria-describedby"]).split()
    assert f'id="{error}"' in answer.text
    assert f'href="#{count.attributes["id"]}"' in answer.text
    assert 'my "words" <b>' in page.words
    assert browser.send(answer, **{"data/count": "1"}).status_code == 303
    drain()
    assert_done(instance)


def test_what_cannot_be_read_is_told_together_with_what_is_missing():
    park()
    browser = Browser()
    page = check(browser.send(browser.open(), **{"data/count": "1,5", "data/lines": []}), 422)
    assert "This has to be a whole number" in page.words or "without a comma" in page.words
    assert Interaction.objects.get().status == "pending"


def test_nothing_at_all_is_no_answer():
    park(PageFree)
    browser = Browser()
    check(browser.send(browser.open()), 422, "This is missing.")
    check(browser.send(browser.open(), data="{"), 422, "This is no JSON")
    assert Interaction.objects.get().status == "pending"


def test_what_no_answer_can_hold_is_refused_and_kept():
    park(PageFree)
    browser = Browser()
    check(browser.send(browser.open(), data="x" * 600_000), 413, "This answer is too large")
    check(browser.send(browser.open(), data='"\\u0000"'), 422, "NUL")
    assert Interaction.objects.get().status == "pending"


def fail_to_project(request, submitted):
    raise ValueError("the parts make 1, and have to make 2")


def test_an_answer_of_which_nothing_can_be_made_is_told():
    park()
    change("projector = 'tests.workflows.callbacks.test_answer_page:fail_to_project'")
    browser = Browser()
    page = check(browser.send(browser.open(), **GOOD), 422, "the parts make 1, and have to make 2")
    assert [c.attributes["value"] for c in page.controls if c.attributes["name"] == "data/count"] == ["2"]
    assert Interaction.objects.get().status == "pending"


def refuse_answers(operation, interaction, actor):
    """A project's policy."""
    return "closed on Sundays" if operation == "resume" else None


def test_the_projects_policy_may_refuse(settings):
    park()
    settings.WORKFLOWS = {**settings.WORKFLOWS, "POLICY": refuse_answers}
    browser = Browser()
    page = check(browser.send(browser.open(), **GOOD), 403, "closed on Sundays")
    assert "2" in [c.attributes.get("value") for c in page.controls]
    assert Interaction.objects.get().status == "pending"


# --- not from a form of ours --------------------------------------------------------------------------


def forge(browser, answer, **options):
    return browser.send(answer, **GOOD, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"csrfmiddlewaretoken": None},
        {"csrfmiddlewaretoken": ""},
        {"csrfmiddlewaretoken": "x" * 64},
        {"headers": {"Origin": "https://evil.example"}},
        {"headers": {"Origin": "null"}},
    ],
    ids=["none", "empty", "wrong", "foreign origin", "hidden origin"],
)
def test_a_form_of_somebody_else_decides_nothing(options):
    instance = park()
    browser = Browser()
    page = browser.open()
    before = snapshot()
    answer = forge(browser, page, **options)
    told = check(answer, 403, "Nothing was sent")
    assert snapshot() == before
    assert "KX-1" in [control.attributes.get("value") or control.text.strip() for control in told.controls]
    assert browser.send(answer).status_code == 303  # this one is ours
    drain()
    assert_done(instance, {"answer": VALUE, "timed_out": False})


def test_a_browser_without_cookies_is_told_so():
    park()
    browser = Browser()
    page = browser.open()
    browser.client.cookies.clear()
    check(forge(browser, page), 403, "your browser keeps no cookies")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://testserver"}, 303),
        ({"Referer": "https://testserver/"}, 303),
        ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://testserver"}, 403),
        ({"Referer": "https://evil.example/"}, 403),
        ({}, 403),
    ],
)
def test_over_tls_the_origin_decides(headers, status):
    """And so the page may not hide it: see its Referrer-Policy."""
    park()
    browser = Browser(secure=True)
    assert forge(browser, browser.open(), headers=headers).status_code == status


def test_a_program_that_sends_a_form_is_answered_in_json():
    park()
    answer = Client().post(url(), "count=1", content_type="application/x-www-form-urlencoded")
    assert answer.status_code == 422
    assert list(answer.json()["errors"]) == ["lines", "count"]


def test_json_is_answered_in_json_also_to_a_browser():
    park(PageFree)
    answer = Client(enforce_csrf_checks=True).post(
        url(), json.dumps({"data": 1}), content_type="application/json", headers={"Accept": BROWSER}
    )
    assert answer.status_code == 200
    assert answer.json()["status"] == "completed"


# --- how it ends --------------------------------------------------------------------------------------


def test_whatever_is_not_there_is_told_alike():
    instance = park()
    row = Interaction.objects.get()
    token = handed["token"]
    unknown = make_token(row.id, workspace=row.workspace_id + 1, visit=1)[0]
    paths = [unknown, token[:-1], token + "A", token.swapcase(), "x", "é", "%00", "a" * 5000, f"{token}/x"]
    browser = Browser()
    form = browser.open()
    answers = [browser.open(f"/resume/{one}") for one in paths]
    answers += [browser.send(form, at=f"/resume/{one}", **GOOD) for one in paths]
    workflows.cancel(instance)
    answers += [browser.open(), browser.send(form, **GOOD)]
    for one in answers:
        check(one, 404, "There is nothing to answer here")
    assert {one.content for one in answers} == {answers[0].content}
    assert len({json.dumps(dict(one.headers)) for one in answers}) == 1


def test_after_the_deadline_the_page_says_so_and_only_sending_ends_the_wait():
    instance = park()
    browser = Browser()
    form = browser.open()
    change("deadline = now() - interval '1 s'")
    check(browser.open(), 200, "The time to answer is over")
    assert_awaiting(instance)
    page = check(browser.send(form, **GOOD), 410, "What you sent was not taken")
    assert '"part": "KX-1"' in page.words
    assert Interaction.objects.get().status == "expired"
    drain()
    assert_done(instance, {"answer": None, "timed_out": True})
    check(browser.open(), 200, "The time to answer is over")


def test_too_late_counts_before_what_is_wrong():
    instance = park()
    browser = Browser()
    form = browser.open()
    change("deadline = now() - interval '1 s'")
    page = check(browser.send(form, **{"data/count": "many"}), 410, "What you sent was not taken")
    assert '"many"' in page.words
    drain()
    assert_done(instance, {"answer": None, "timed_out": True})


def test_of_two_people_the_second_learns_it_and_keeps_what_was_typed():
    instance = park()
    first, second = Browser(), Browser()
    forms = first.open(), second.open()
    assert first.send(forms[0], **GOOD).status_code == 303
    page = check(second.send(forms[1], **{**GOOD, "data/note": "mine"}), 409, "It was answered before, on")
    assert '"note": "mine"' in page.words
    drain()
    assert_done(instance, {"answer": VALUE, "timed_out": False})


def test_what_has_changed_is_said_and_asked_anew():
    instance = park()
    browser = Browser()
    form = browser.open()
    change("version = 7, request = '{\"order\": 2}', deadline = deadline + interval '2 h'")
    before = snapshot()
    answer = browser.send(form, **GOOD)
    page = check(answer, 409, "Changed since you opened it")
    assert snapshot() == before
    assert "What is asked: read it again." in page.words
    assert "The time to answer: it is now until" in page.words
    assert "The fields of the answer" not in page.words
    assert "2" in [c.attributes.get("value") for c in page.controls if c.attributes["name"] == "data/count"]
    assert browser.send(answer).status_code == 303
    drain()
    assert_done(instance)


@pytest.mark.parametrize("version", ["", "0", "-1", "1.0", "9" * 30, "\u0661", "x", None])
def test_a_form_without_its_version_is_as_good_as_old(version):
    park()
    browser = Browser()
    page = check(browser.send(browser.open(), **GOOD, version=version, shown="nonsense|<b>"), 409, "Changed since")
    assert "nonsense" not in page.words
    assert Interaction.objects.get().status == "pending"


@pytest.mark.parametrize(
    ("assignment", "where"),
    [("owned = true", "through its channel"), ("channel = 'api'", "through the channel “api”")],
)
def test_what_is_answered_elsewhere_says_where(assignment, where):
    park()
    browser = Browser()
    form = browser.open()
    change(assignment)
    page = check(browser.open(), 200, f"It is answered {where}, and not by this link.")
    assert not page.controls
    check(browser.send(form, **GOOD), 409, where)
    assert Interaction.objects.get().status == "pending"


@pytest.mark.no_fold(reason="nothing fails a question yet")
def test_a_question_that_failed_says_so():
    park()
    change("status = %s, closed_at = now()", INTERACTION_CODES[InteractionStatus.FAILED])
    check(Browser().open(), 200, "This can no longer be answered")


# --- when something fails -----------------------------------------------------------------------------


def break_database(*args, **kwargs):
    raise OperationalError("connection to server at secret-host failed")


def test_without_a_database_what_was_typed_can_be_sent_again(monkeypatch, caplog):
    instance = park()
    browser = Browser()
    form = browser.open()
    text = '\n<b>"mine"</b>'
    with monkeypatch.context() as broken:
        broken.setattr(store, "find_interaction", break_database)
        answer = browser.send(form, **GOOD, **{"data/note": text})
        told = Page(answer.text)
        assert answer.status_code == 503
        assert answer["Retry-After"]
        assert "It is not certain that your answer was taken." in " ".join(told.words.split())
        assert "secret-host" not in answer.text
    assert "secret-host" in caplog.text
    assert browser.send(answer).status_code == 303
    assert browser.send(answer).status_code == 303  # as often as they like
    drain()
    assert_done(instance, {"answer": {**VALUE, "note": text}, "timed_out": False})


def test_without_a_database_looking_is_told_to_wait(monkeypatch):
    park()
    monkeypatch.setattr(store, "find_by_token", break_database)
    answer = Browser().open()
    check(answer, 503, "Open the link again in a moment.")
    assert answer["Retry-After"]


def test_a_row_that_was_to_be_added_is_not_sent_as_an_answer_after_a_failure(monkeypatch):
    park()
    browser = Browser()
    form = browser.open()
    with monkeypatch.context() as broken:
        broken.setattr(store, "find_by_token", break_database)
        answer = browser.send(form, **GOOD, add="data/lines")
    check(browser.send(answer), 200, "Item 2")
    assert Interaction.objects.get().status == "pending"


def test_a_site_that_lost_its_keys_asks_to_come_back(settings, caplog, monkeypatch):
    park()
    monkeypatch.setattr(conf, "supplies_links", False)
    settings.WORKFLOWS = {"BASE_URL": "https://holdpoint.example"}
    check(Browser().open(), 503, "This site is not set up to take answers.")
    assert "TOKEN_KEYS" in caplog.text


def test_a_failure_of_a_page_is_told_without_one(settings, caplog):
    park()
    settings.TEMPLATES = [{"BACKEND": "django.template.backends.django.DjangoTemplates"}]
    answer = Browser().open()
    assert answer.status_code == 500
    assert answer.json()["type"] == "urn:holdpoint:problem:server-error"
    assert "TemplateDoesNotExist" in caplog.text
    assert handed["token"] not in caplog.text


def send_raw(raw: bytes, kind: str = "application/x-www-form-urlencoded", **extra):
    return Client(enforce_csrf_checks=True).post(url(), raw, content_type=kind, headers={"Accept": BROWSER}, **extra)


@pytest.mark.parametrize(
    ("raw", "kind", "status"),
    [
        (b"a=" + b"x" * 2_000_000, "application/x-www-form-urlencoded", 413),
        (b"&".join(b"a%d=1" % n for n in range(2000)), "application/x-www-form-urlencoded", 413),
        (b"a=1", "application/x-www-form-urlencoded; charset=latin-1", 400),
        (b"nothing", "multipart/form-data", 400),
        (b"nothing", "multipart/form-data; boundary=\xe9", 400),
        (b"--x\r\nnothing", "multipart/form-data; boundary=x", 403),
        (b"%00=%ff&%=&&==&;", "application/x-www-form-urlencoded", 403),
    ],
)
def test_what_is_no_form_is_refused(raw, kind, status):
    park()
    before = snapshot()
    answer = send_raw(raw, kind)
    assert answer.status_code == status
    assert answer["Content-Type"].startswith("text/html")
    assert snapshot() == before


def test_a_form_of_unknown_length_is_not_read():
    park()
    check(send_raw(b"data=1", CONTENT_LENGTH=""), 400, "did not say how much it sends")


# --- what never becomes known -------------------------------------------------------------------------


def test_no_log_line_and_no_page_contains_a_token(caplog, settings, monkeypatch):
    caplog.set_level(logging.DEBUG)
    park()
    token = handed["token"]
    browser = Browser()
    form = browser.open()
    answers = [
        form,
        browser.open(f"/resume/{token[:-1]}"),
        browser.open(f"/resume/{token}/x"),
        forge(browser, form, csrfmiddlewaretoken="x" * 64),
        browser.send(form, **{"data/count": "x"}),
        browser.send(form, add="data/lines"),
        browser.send(form, **GOOD, version="0"),
        send_raw(b"a=" + b"x" * 2_000_000),
        send_raw(b"nothing", "multipart/form-data"),
        send_raw(b"&".join(b"a%d=1" % n for n in range(2000))),
    ]
    with monkeypatch.context() as broken:
        broken.setattr(store, "find_interaction", break_database)
        answers.append(browser.send(form, **GOOD))
        broken.setattr(store, "find_interaction", lambda *args, **kwargs: 1 / 0)
        answers.append(browser.send(form, **GOOD))
    assert {one.status_code for one in answers} == {200, 400, 403, 404, 409, 413, 422, 500, 503}
    assert "ZeroDivisionError" in caplog.text
    assert browser.send(form, **GOOD).status_code == 303
    answers.append(browser.open())
    for text in (caplog.text, *(one.text for one in answers)):
        assert token[:-1] not in text
        assert "/resume/" not in text


def test_no_context_processor_of_the_project_sees_the_page(settings):
    [engine] = settings.TEMPLATES
    failing = {"context_processors": ["tests.workflows.callbacks.test_answer_page.process_context"]}
    settings.TEMPLATES = [{**engine, "OPTIONS": {**engine["OPTIONS"], **failing}}]
    park()
    check(Browser().open(), 200)


def process_context(request):
    raise AssertionError("a context processor saw the page")


# --- in the host project ------------------------------------------------------------------------------


def test_it_needs_no_middleware_session_or_message(settings):
    instance = park()
    settings.MIDDLEWARE = []
    browser = Browser()
    assert forge(browser, browser.open()).status_code == 303
    drain()
    assert_done(instance, {"answer": VALUE, "timed_out": False})


def test_it_keeps_its_secret_where_the_project_keeps_those(settings):
    park()
    settings.CSRF_USE_SESSIONS = True
    browser = Browser()
    form = browser.open()
    assert settings.CSRF_COOKIE_NAME not in browser.client.cookies
    assert forge(browser, form, csrfmiddlewaretoken="x" * 64).status_code == 403
    assert forge(browser, form).status_code == 303


def test_static_files_may_come_from_elsewhere(settings):
    park()
    settings.STATIC_URL = "https://cdn.example/s/"
    policy = Browser().open()["Content-Security-Policy"]
    assert "style-src 'self' https://cdn.example; img-src 'self' https://cdn.example; form-action 'self'" in policy


@pytest.mark.parametrize(("language", "direction"), [("de", "ltr"), ("ar", "rtl"), ("ja", "ltr")])
def test_the_page_speaks_the_readers_language_and_direction(settings, language, direction):
    settings.LANGUAGES = [*settings.LANGUAGES, ("ar", "Arabic")]
    park()
    answer = Client().get(url(), headers={"Accept": BROWSER, "Accept-Language": language})
    check(answer, 200)
    assert f'<html lang="{language}" dir="{direction}">' in answer.text


def test_whoever_is_logged_in_is_not_named(django_user_model):
    park()
    browser = Browser()
    browser.client.force_login(django_user_model.objects.create_user("grace-hopper"))
    assert "grace-hopper" not in browser.open().text


def test_several_answers_at_once_are_a_list():
    park(PageFree)
    with connections["default"].cursor() as cursor:
        cursor.execute("UPDATE holdpoint_unit SET cardinality = %s", [CARDINALITY_CODES[Cardinality.ONE_TO_MANY]])
    browser = Browser()
    check(browser.send(browser.open(), data="words"), 422, "This is no JSON")
    check(browser.send(browser.open(), data='{"a": 1}'), 422, "Must be a list")
    assert browser.send(browser.open(), data="[1, 2]").status_code == 303


def test_the_stylesheet_is_ours_and_small():
    park()
    answer = Browser().open()
    [sheet] = re.findall(r'<link rel="stylesheet" href="([^"]+)">', answer.text)
    assert sheet.endswith("holdpoint/holdpoint.css")
    assert len(answer.content) < 20_000
