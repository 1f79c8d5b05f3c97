"""API keys in the admin: shown once and nowhere else, changed with effect, ended for good; and who acts with them."""

from __future__ import annotations

import logging
import re
from datetime import timedelta
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Permission
from django.contrib.contenttypes.models import ContentType
from django.contrib.messages import get_messages
from django.db import connection
from django.http import HttpResponse
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

import workflows
from tests.support.admin_pages import ESCAPED, HOSTILE, login, page_of, read_rows, staff
from tests.support.tables import dump_tables
from workflows import Await, Done, Workflow, step
from workflows.access import api_keys
from workflows.access.api_keys import (
    SCOPES,
    Keyring,
    create_key,
    find_access,
    forget_keys,
    revoke_key,
)
from workflows.models import ApiKey, Interaction, Workspace
from workflows.testing import drain

pytestmark = pytest.mark.django_db

KEYS = "/admin/holdpoint/apikey/"
#: What a key with the scope `read` may do, somebody who makes it has to hold.
MAY_READ = ("view_instance", "view_interaction", "view_schedule")
WORKSPACES = "/admin/holdpoint/workspace/"


class KeyedAsks(Workflow):
    """Asks, so that somebody can answer."""

    name = "adminkeys.asks"

    @step
    def begin(self, ctx: Any) -> Await:
        return Await(ctx.callback("pay"), then="end", timeout="24h")

    @step
    def end(self, ctx: Any) -> Done:
        return Done()


@pytest.fixture
def operator() -> Client:
    """A superuser's browser."""
    forget_keys()
    return login(get_user_model().objects.create_superuser("ada"))


def make(name: str = "billing", **options: Any) -> tuple[ApiKey, str]:
    return create_key(name, workspace=workflows.workspace.create(options.pop("of", "default")), **options)


def page(row: ApiKey, tail: str = "change/") -> str:
    return f"{KEYS}{row.pk}/{tail}"


def fill(**more: Any) -> dict[str, Any]:
    """The add form as a browser sends it."""
    workspace = Workspace.objects.get(slug="default").pk
    form = {"name": "billing", "workspace": workspace, "scopes": ["read"], "reach": "all", "rate": ""}
    return {**form, "expires_at_0": "", "expires_at_1": "", "_save": "Save", **more}


def fill_as(row: ApiKey, **more: Any) -> dict[str, Any]:
    """The change form of a key as it is shown, with something changed."""
    end = row.expires_at
    shown = {"name": row.name, "scopes": row.scopes, "rate": row.rate, "workflows": row.workflows or []}
    shown |= {"reach": "all" if row.workflows is None else "some"}
    shown |= {"expires_at_0": f"{end:%Y-%m-%d}" if end else "", "expires_at_1": f"{end:%H:%M:%S}" if end else ""}
    return {**shown, "_save": "Save", **more}


def choose(action: str, *rows: ApiKey, **more: str) -> dict[str, Any]:
    """What the browser sends for ticked rows."""
    return {"action": action, "index": "0", "_selected_action": [str(one.pk) for one in rows], **more}


def read_key(answer: HttpResponse) -> str:
    """The key in its box."""
    (key,) = re.findall(r'<input id="hp-key"[^>]* readonly [^>]*value="(hp_[\w-]{43})"', answer.text)
    return str(key)


def read_errors(answer: HttpResponse) -> str:
    assert answer.status_code == 200
    return " ".join(re.findall(r'<ul class="errorlist[^>]*>(.*?)</ul>', answer.text, re.DOTALL))


def read_told(answer: Any) -> str:
    return " ".join(str(message) for message in get_messages(answer.wsgi_request))


# --- making one ----------------------------------------------------------------------------------------


def test_a_key_is_made_as_the_form_says_and_opens_that(operator: Client) -> None:
    acme = workflows.workspace.create("acme")
    end = (timezone.now() + timedelta(days=30)).replace(microsecond=0)
    form = fill(workspace=acme.pk, scopes=["signal", "read"], rate=" 600/m ", reach="some")
    form |= {"workflows": ["adminkeys.asks"], "expires_at_0": f"{end:%Y-%m-%d}", "expires_at_1": f"{end:%H:%M:%S}"}
    answer = operator.post(f"{KEYS}add/", form)
    assert answer.status_code == 200
    access = find_access(read_key(answer))
    assert access is not None
    assert (access.slug, access.scopes, access.rate) == ("acme", {"read", "signal"}, "600/m")
    assert (access.workflows, access.expires_at) == (("adminkeys.asks",), end)
    ada = get_user_model().objects.get(username="ada")
    assert ApiKey.objects.get().created_by == f"user:{ada.pk}"
    assert f"ada (user:{ada.pk})" in operator.get(page(ApiKey.objects.get())).text


def test_the_page_with_the_key_may_not_be_kept_by_anybody(operator: Client) -> None:
    answer = operator.post(f"{KEYS}add/", fill())
    assert "no-store" in answer["Cache-Control"]
    assert "private" in answer["Cache-Control"]
    assert not re.search(r"<script(?![^>]*\bsrc=)", answer.text)
    assert " style=" not in answer.text
    assert " onclick=" not in answer.text


def test_the_key_is_in_that_answer_and_nowhere_else(operator: Client, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    answer = operator.post(f"{KEYS}add/", fill())
    key = read_key(answer)
    row = ApiKey.objects.get()
    dumped = dump_tables()  # django_session, django_admin_log and all the rest
    assert row.prefix in dumped
    secret = key[len(row.prefix) :]
    assert secret not in dumped
    assert secret not in str(dict(operator.session))
    assert secret not in str(operator.cookies)
    assert secret not in caplog.text
    assert secret not in str(answer.headers)
    for address in (KEYS, page(row), page(row, "history/"), page(row, "revoke/"), page(row, "rotate/"), "/admin/"):
        assert secret not in operator.get(address).text
    assert LogEntry.objects.get().object_repr == f"billing ({row.prefix}…)"


@pytest.mark.parametrize("button", ["_save", "_continue", "_addanother", "_popup"])
def test_the_key_is_shown_whatever_button_was_pressed(operator: Client, button: str) -> None:
    assert read_key(operator.post(f"{KEYS}add/", {**fill(), button: "1"}))


def test_a_form_that_is_sent_again_makes_no_second_key(operator: Client) -> None:
    (once,) = re.findall(r'name="once" value="([^"]+)"', operator.get(f"{KEYS}add/").text)
    read_key(operator.post(f"{KEYS}add/", fill(once=once)))
    again = operator.post(f"{KEYS}add/", fill(once=once), follow=True)
    assert ApiKey.objects.count() == 1
    assert again.redirect_chain == [(page(ApiKey.objects.get()), 302)]
    assert "If it was not copied, rotate it." in again.text
    (other,) = re.findall(r'name="once" value="([^"]+)"', operator.get(f"{KEYS}add/").text)
    assert read_key(operator.post(f"{KEYS}add/", fill(once=other)))
    assert ApiKey.objects.count() == 2


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"name": ""}, "required"),
        ({"name": "  "}, "required"),
        ({"name": "x" * 201}, "at most 200"),
        ({"scopes": []}, "Tick at least one"),
        ({"scopes": ["fly"]}, "fly is not one of the available choices"),
        ({"reach": "some"}, "Tick at least one, or choose “All workflows”."),
        ({"workflows": ["adminkeys.asks"]}, "The key would open all workflows"),
        ({"reach": "some", "workflows": ["Elsewhere"]}, "Elsewhere is not one of the available choices"),
        ({"rate": "fast"}, "This is no rate: write a number per s, m, h or d, such as 600/m."),
        (
            {"expires_at_0": "2001-01-01", "expires_at_1": "00:00"},
            "This lies in the past: to end a key now, revoke it.",
        ),
        ({"expires_at_0": "someday", "expires_at_1": "00:00"}, "Enter a valid date"),
        ({"workspace": 99999}, "not one of the available choices"),
    ],
)
def test_what_cannot_be_meant_is_told_and_makes_no_key(operator: Client, more: dict[str, Any], told: str) -> None:
    assert told in read_errors(operator.post(f"{KEYS}add/", fill(**more)))
    assert not ApiKey.objects.exists()


def test_scopes_and_registered_workflows_are_offered_as_checkboxes(operator: Client) -> None:
    form = operator.get(f"{KEYS}add/").text
    assert re.findall(r'<input type="checkbox" name="scopes" value="(\w+)"', form) == list(SCOPES)
    assert 'type="checkbox" name="workflows" value="adminkeys.asks"' in form
    assert not re.search(r'name="scopes"[^>]*checked', form)


def test_the_workspace_whose_keys_were_listed_is_chosen_already(operator: Client) -> None:
    acme = workflows.workspace.create("acme")
    default = Workspace.objects.get(slug="default")
    assert f'<option value="{default.pk}" selected>' in operator.get(f"{KEYS}add/").text
    listed = operator.get(f"{KEYS}add/", {"_changelist_filters": "workspace=acme"}).text
    assert f'<option value="{acme.pk}" selected>' in listed


# --- the list ------------------------------------------------------------------------------------------


def test_a_row_tells_whose_key_it_is_and_whether_it_is_used(operator: Client) -> None:
    row, key = make("billing", scopes=["start", "signal"], workflows=["Ship"], of="acme")
    find_access(key)
    (shown,) = read_rows(operator.get(KEYS).text)
    for text in (f"{row.prefix}…", "billing", "acme", "start, signal", "(some workflows)", "just now", "usable"):
        assert text in shown


def test_states_are_told_and_filtered_by(operator: Client) -> None:
    make("lasting")
    make("ending", expires_at=timezone.now() + timedelta(days=3, hours=1))
    expired, _ = make("expired-key")
    ApiKey.objects.filter(pk=expired.pk).update(expires_at=timezone.now() - timedelta(days=1))
    revoke_key(make("revoked-key")[0])
    rows = read_rows(operator.get(KEYS).text)
    for row, words in zip(rows, ["revoked", "expired", "usable ends in 3 days", "usable"], strict=True):
        assert words in row
    assert "ends" not in rows[-1]
    for state, names in {
        "usable": ["ending", "lasting"],
        "expired": ["expired-key"],
        "revoked": ["revoked-key"],
    }.items():
        shown = read_rows(operator.get(f"{KEYS}?state={state}").text)
        assert [next(name for name in names if name in row) for row in shown] == names
    assert operator.get(f"{KEYS}?state=lost").status_code == 302


def test_keys_are_found_by_how_they_or_their_names_begin(operator: Client) -> None:
    row, _ = make("billing")
    make("ci")
    for term in (row.prefix, f"{row.prefix}…", f" {row.prefix} ", "bill"):
        (shown,) = read_rows(operator.get(KEYS, {"q": term}).text)
        assert "billing" in shown
    assert len(read_rows(operator.get(KEYS, {"q": "hp_"}).text)) == 2
    for term in ("illing", "%", "hp_%"):
        assert read_rows(operator.get(KEYS, {"q": term}).text) == []


def test_the_list_of_a_workspace_has_its_keys_only(operator: Client) -> None:
    make("theirs", of="acme")
    make("ours")
    (shown,) = read_rows(operator.get(f"{KEYS}?workspace=acme").text)
    assert "theirs" in shown


def test_the_pages_cost_the_same_for_fifty_keys_as_for_one(operator: Client, django_assert_num_queries: Any) -> None:
    ContentType.objects.get_for_model(ApiKey)  # kept by the process
    first, _ = make(actor=get_user_model().objects.get(username="ada"))
    addresses = {KEYS: 5, f"{KEYS}add/": 4, page(first): 4, page(first, "revoke/"): 4, page(first, "rotate/"): 4}
    for address, statements in addresses.items():
        # session and user; workspaces, count and rows | the chosen workspace, all of them | the key, its maker
        with django_assert_num_queries(statements):
            assert operator.get(address).status_code == 200
    for n in range(49):
        make(f"key {n}", of=f"acme-{n % 7}")
    for address, statements in addresses.items():
        with django_assert_num_queries(statements):
            operator.get(address)
    with django_assert_num_queries(7):  # the list, and once more what was ticked
        assert operator.post(KEYS, choose("revoke", *ApiKey.objects.all())).text.count('name="_selected_action"') == 50


def test_no_page_reads_a_hash(operator: Client) -> None:
    row, _ = make()
    with CaptureQueriesContext(connection) as seen:
        for address in (KEYS, page(row), page(row, "revoke/"), page(row, "rotate/")):
            assert bytes(row.hash).hex() not in operator.get(address).text
    assert not any('."hash"' in one["sql"] for one in seen)


def test_nothing_of_a_key_runs_as_script(operator: Client) -> None:
    row, _ = make(HOSTILE, workflows=[HOSTILE], actor=HOSTILE)
    instance = workflows.start("adminkeys.asks", {}, actor=f"key:{row.pk}")
    for address in (KEYS, page(row), page(row, "revoke/"), page(row, "rotate/"), page_of(instance)):
        shown = operator.get(address).text
        assert "<script>alert" not in shown
        assert ESCAPED in shown
    rotated = operator.post(page(row, "rotate/"), {"grace": "1h"}).text
    assert "<script>alert" not in rotated
    assert ESCAPED in rotated
    revoke_key(row)
    assert ESCAPED in operator.get(page(row)).text


# --- changing ------------------------------------------------------------------------------------------


def test_a_change_counts_within_seconds(operator: Client) -> None:
    row, key = make(scopes=["read"])
    at = [0.0]
    elsewhere = Keyring(clock=lambda: at[0])  # another process
    assert find_access(key) == elsewhere.find(key)
    answer = operator.post(
        page(row), fill_as(row, scopes=["signal"], rate="5/s", reach="some", workflows=["adminkeys.asks"], name="ci")
    )
    assert answer.status_code == 302
    access = find_access(key)
    assert access is not None
    assert (access.scopes, access.rate, access.workflows) == ({"signal"}, "5/s", ("adminkeys.asks",))
    at[0] += api_keys.REMEMBER_SECONDS
    assert elsewhere.find(key) == access
    assert ApiKey.objects.get().name == "ci"
    assert LogEntry.objects.get().get_change_message() == "Changed Name, May, Workflows, Only these and Rate."


def test_an_expiry_is_set_moved_and_taken_away(operator: Client) -> None:
    row, key = make()
    end = (timezone.now() + timedelta(days=2)).replace(microsecond=0)
    operator.post(page(row), fill_as(row, expires_at_0=f"{end:%Y-%m-%d}", expires_at_1=f"{end:%H:%M:%S}"))
    row.refresh_from_db()
    assert row.expires_at == end
    past = {"expires_at_0": "2001-01-01", "expires_at_1": "00:00:00"}
    assert "to end a key now, revoke it" in read_errors(operator.post(page(row), fill_as(row, **past)))
    operator.post(page(row), fill_as(row, expires_at_0="", expires_at_1=""))
    row.refresh_from_db()
    assert row.expires_at is None
    assert find_access(key) is not None


def test_an_expired_key_can_be_renamed_and_prolonged(operator: Client) -> None:
    row, key = make()
    ApiKey.objects.update(expires_at=timezone.now() - timedelta(days=1))
    row.refresh_from_db()
    assert operator.post(page(row), fill_as(row, name="old")).status_code == 302
    assert ApiKey.objects.get().name == "old"
    assert find_access(key) is None
    assert operator.post(page(row), fill_as(row, expires_at_0="2999-01-01", expires_at_1="00:00")).status_code == 302
    assert find_access(key) is not None


def test_saving_a_form_does_not_undo_what_others_changed_meanwhile(operator: Client) -> None:
    row, _ = make(scopes=["read"], expires_at=timezone.now() + timedelta(days=1))
    before = ApiKey.objects.values().get()
    form = fill_as(row)
    operator.post(page(row), {**form, "name": "ci"})
    after = ApiKey.objects.values().get()
    assert {**before, "name": "ci"} == after  # to the microsecond


def test_workflows_that_this_site_does_not_know_stay_ticked(operator: Client) -> None:
    row, _ = make(workflows=["Elsewhere"])
    shown = operator.get(page(row)).text
    assert re.search(r'name="workflows" value="Elsewhere"[^>]*checked', shown)
    assert "Elsewhere (not known here)" in shown
    operator.post(page(row), fill_as(row, name="ci", workflows=["Elsewhere", "adminkeys.asks"]))
    assert ApiKey.objects.get().workflows == ["Elsewhere", "adminkeys.asks"]


def test_unticking_the_last_workflow_does_not_open_all_of_them(operator: Client) -> None:
    row, _ = make(workflows=["adminkeys.asks"])
    assert "Tick at least one" in read_errors(operator.post(page(row), fill_as(row, workflows=[])))
    assert ApiKey.objects.get().workflows == ["adminkeys.asks"]
    operator.post(page(row), fill_as(row, workflows=[], reach="all"))
    assert ApiKey.objects.get().workflows is None


def test_neither_the_workspace_nor_the_secret_of_a_key_can_be_changed(operator: Client) -> None:
    row, key = make()
    acme = workflows.workspace.create("acme")
    forged = {
        "workspace": acme.pk,
        "prefix": "hp_forged",
        "hash": "x",
        "created_by": "eve",
        "revoked_at_0": "2001-01-01",
    }
    before = ApiKey.objects.values().get()
    operator.post(page(row), fill_as(row, **forged))
    assert ApiKey.objects.values().get() == before
    assert find_access(key) is not None


def test_a_revoked_key_is_shown_and_cannot_be_changed(operator: Client) -> None:
    row, _ = make("old", scopes=["read"], workflows=["Ship"], rate="5/s")
    revoke_key(row)
    shown = operator.get(page(row)).text
    for text in ("revoked", "old", "read", "Ship", "5/s"):
        assert text in shown
    for gone in ('name="_save"', "/revoke/", "/rotate/"):
        assert gone not in shown
    assert operator.post(page(row), fill_as(row, name="new")).status_code == 403
    assert ApiKey.objects.get().name == "old"


# --- revoking ------------------------------------------------------------------------------------------


def test_revoking_asks_first_and_is_logged_with_the_user(operator: Client) -> None:
    row, key = make()
    question = operator.get(page(row, "revoke/")).text
    assert "Revoke this API key?" in question
    assert f'href="{page(row, "revoke/")}"' in operator.get(page(row)).text
    assert operator.post(page(row, "revoke/")).status_code == 200
    assert find_access(key) is not None
    answer = operator.post(page(row, "revoke/"), {"confirmed": "yes"}, follow=True)
    assert answer.redirect_chain == [(page(row), 302)]
    assert "1 key was revoked." in answer.text
    assert find_access(key) is None
    entry = LogEntry.objects.get()
    assert (entry.user.get_username(), entry.change_message) == ("ada", "Revoked.")


def test_the_action_revokes_all_that_were_ticked(operator: Client) -> None:
    made = [make(f"key {n}") for n in range(3)]
    revoke_key(made[0][0])
    question = operator.post(KEYS, choose("revoke", *(row for row, _ in made))).text
    assert "Revoke these API keys?" in question
    assert "Revoke 3 keys" in question
    assert find_access(made[1][1]) is not None
    sent = choose("revoke", *(row for row, _ in made), confirmed="yes")
    answer = operator.post(f"{KEYS}?state=usable", sent, follow=True)
    assert "2 keys were revoked. The others had been before." in answer.text
    assert not any(find_access(key) for _, key in made)
    assert LogEntry.objects.count() == 2


# --- rotating ------------------------------------------------------------------------------------------


def test_rotating_asks_how_long_and_shows_the_new_key_once(operator: Client) -> None:
    row, old = make(scopes=["read"], workflows=["Ship"], rate="5/s")
    assert "Rotate this API key?" in operator.get(page(row, "rotate/")).text
    answer = operator.post(page(row, "rotate/"), {"grace": "2h"})
    new = read_key(answer)
    assert "no-store" in answer["Cache-Control"]
    row.refresh_from_db()
    assert f"{row.expires_at:%Y-%m-%d %H:%M:%S}" in answer.text
    was, now = find_access(old), find_access(new)
    assert was is not None
    assert now is not None
    assert (now.scopes, now.workflows, now.rate, now.expires_at) == ({"read"}, ("Ship",), "5/s", None)
    assert was.expires_at is not None
    assert abs(was.expires_at - timezone.now() - timedelta(hours=2)) < timedelta(minutes=1)
    assert new[11:] not in dump_tables()
    made = ApiKey.objects.get(pk=now.id)
    ada = get_user_model().objects.get(username="ada")
    assert made.created_by == f"user:{ada.pk}"
    told = {entry.object_id: entry.change_message for entry in LogEntry.objects.all()}
    assert told == {str(row.pk): f"Replaced by {made}.", str(made.pk): f"Replaces {row}."}


def test_a_rotation_that_is_sent_again_makes_no_second_key(operator: Client) -> None:
    row, _ = make()
    (once,) = re.findall(r'name="once" value="([^"]+)"', operator.get(page(row, "rotate/")).text)
    operator.post(page(row, "rotate/"), {"grace": "2h", "once": once})
    again = operator.post(page(row, "rotate/"), {"grace": "2h", "once": once}, follow=True)
    assert again.redirect_chain == [(page(ApiKey.objects.order_by("-id")[0]), 302)]
    assert ApiKey.objects.count() == 2


def test_the_new_key_is_proposed_the_life_that_the_old_one_was_given(operator: Client) -> None:
    row, _ = make(expires_at=timezone.now() + timedelta(days=90))
    shown = operator.get(page(row, "rotate/")).text
    (date,) = re.findall(r'name="expires_at_0" value="([\d-]+)"', shown)
    assert date == f"{timezone.now() + timedelta(days=90):%Y-%m-%d}"
    answer = operator.post(page(row, "rotate/"), {"grace": "2h", "expires_at_0": date, "expires_at_1": "12:00:00"})
    access = find_access(read_key(answer))
    assert access is not None
    assert f"{access.expires_at:%Y-%m-%d %H:%M}" == f"{date} 12:00"


def test_a_key_for_ever_and_a_day_can_be_rotated(operator: Client) -> None:
    row, _ = make(expires_at=timezone.now().replace(year=9999))
    ApiKey.objects.update(created_at=timezone.now() - timedelta(days=400))
    assert 'name="expires_at_0" value="9999-' in operator.get(page(row, "rotate/")).text


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({"grace": "later"}, "This is no length of time: write it as 30m, 24h or 7d."),
        ({"grace": ""}, "required"),
        ({"grace": "1h", "expires_at_0": "2001-01-01", "expires_at_1": "00:00"}, "in the past"),
    ],
)
def test_a_rotation_that_cannot_be_meant_is_told_and_makes_no_key(operator: Client, form: Any, told: str) -> None:
    row, _ = make()
    assert told in read_errors(operator.post(page(row, "rotate/"), form))
    assert ApiKey.objects.get().expires_at is None


def test_the_action_leads_to_the_page_of_one_key(operator: Client) -> None:
    row, other = make()[0], make()[0]
    assert operator.post(KEYS, choose("rotate", row))["Location"] == page(row, "rotate/")
    answer = operator.post(KEYS, choose("rotate", row, other), follow=True)
    assert "Rotate one key at a time" in answer.text
    assert ApiKey.objects.count() == 2


def test_what_opens_nothing_is_not_rotated(operator: Client) -> None:
    row, _ = make()
    revoke_key(row)
    for answer in (operator.get(page(row, "rotate/"), follow=True), operator.post(page(row, "rotate/"), follow=True)):
        assert "opens nothing any more: make a new one" in answer.text
    assert ApiKey.objects.count() == 1


# --- deleting ------------------------------------------------------------------------------------------


def test_a_key_that_was_used_is_not_deleted(operator: Client) -> None:
    row, key = make()
    find_access(key)
    assert "/delete/" not in operator.get(page(row)).text
    assert operator.post(page(row, "delete/"), {"post": "yes"}).status_code == 403
    answer = operator.post(KEYS, choose("delete_selected", row, make("unused")[0], post="yes"))
    assert "was used, and the history names it: revoke it instead" in answer.text
    assert ApiKey.objects.count() == 2


def test_a_key_that_was_never_used_may_be_deleted(operator: Client) -> None:
    row, key = make()
    operator.post(page(row, "delete/"), {"post": "yes"})
    operator.post(KEYS, choose("delete_selected", make("another")[0], post="yes"))
    assert not ApiKey.objects.exists()
    assert find_access(key) is None


# --- who may -------------------------------------------------------------------------------------------


def test_a_viewer_sees_keys_and_can_do_nothing_to_them() -> None:
    client, (row, key) = staff("view_apikey"), make()
    listed, shown = client.get(KEYS).text, client.get(page(row)).text
    assert row.prefix in listed
    for gone in ('name="action"', "/add/", "/revoke/", "/rotate/", 'name="_save"'):
        assert gone not in listed.partition('id="content"')[2] + shown.partition('id="content"')[2]
    for post in (
        (f"{KEYS}add/", fill()),
        (page(row), fill_as(row, name="x")),
        (page(row, "revoke/"), {"confirmed": "yes"}),
        (page(row, "rotate/"), {"grace": "0s"}),
        (page(row, "delete/"), {"post": "yes"}),
    ):
        assert client.post(*post).status_code == 403
    for action in ("revoke", "rotate", "delete_selected"):
        client.post(KEYS, choose(action, row, confirmed="yes", post="yes"))
    assert ApiKey.objects.get().name == "billing"
    assert find_access(key) is not None


def test_who_may_change_may_revoke_and_only_who_may_add_too_may_rotate() -> None:
    client, (row, _) = staff("view_apikey", "change_apikey", *MAY_READ), make(scopes=["read"])
    shown = client.get(page(row)).text
    assert ("/revoke/" in shown, "/rotate/" in shown) == (True, False)
    assert client.post(page(row, "rotate/"), {"grace": "0s"}).status_code == 403
    assert 'value="rotate"' not in client.get(KEYS).text
    user = get_user_model().objects.get(username="bob")
    user.user_permissions.add(Permission.objects.get(codename="add_apikey"))
    assert read_key(client.post(page(row, "rotate/"), {"grace": "1h"}))
    client.post(page(row, "revoke/"), {"confirmed": "yes"})
    row.refresh_from_db()
    assert row.revoked_at is not None


def test_who_may_only_add_gets_the_key_and_sees_no_list() -> None:
    client = staff("add_apikey", *MAY_READ)
    assert find_access(read_key(client.post(f"{KEYS}add/", fill()))) is not None
    assert client.get(KEYS).status_code == 403


def test_a_stranger_and_a_user_of_the_site_get_nowhere() -> None:
    row, _ = make()
    user = login(get_user_model().objects.create_user("carl"))
    for client in (Client(), user):
        for tail in ("change/", "revoke/", "rotate/"):
            assert client.post(page(row, tail), {"confirmed": "yes"})["Location"].startswith("/admin/login/")
    assert ApiKey.objects.get().revoked_at is None


def test_a_request_from_another_site_makes_and_ends_nothing() -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(get_user_model().objects.create_superuser("eve"))
    row, _ = make()
    for post in (
        (f"{KEYS}add/", fill()),
        (page(row, "rotate/"), {"grace": "0s"}),
        (page(row, "revoke/"), {"confirmed": "yes"}),
    ):
        assert client.post(*post).status_code == 403
    assert ApiKey.objects.get().revoked_at is None


@pytest.mark.parametrize("id", ["x", "-1", "9" * 40, "²", "1 OR 1=1"])
def test_a_forged_id_is_a_bad_request(operator: Client, id: str) -> None:
    answer = operator.post(KEYS, {"action": "revoke", "index": "0", "_selected_action": [id]})
    assert answer.status_code == 400


@pytest.mark.parametrize("id", ["999999", "9" * 40])
def test_the_key_of_an_unknown_id_is_not_found(operator: Client, id: str) -> None:
    for tail in ("revoke/", "rotate/"):
        assert operator.get(f"{KEYS}{id}/{tail}").status_code == 404


# --- who acted with a key ------------------------------------------------------------------------------


def test_the_history_names_the_key_that_acted_and_leads_to_it(operator: Client, django_assert_num_queries: Any) -> None:
    row, other = make("billing")[0], make("ci")[0]
    instance = workflows.start("adminkeys.asks", {}, actor=f"key:{row.pk}")
    drain()
    workflows.signal(instance, "other", actor=f"key:{other.pk}")
    shown = operator.get(page_of(instance)).text
    inbox, ledger = shown.partition('id="inbox-page"')[2].split('id="ledger-page"')
    for part, one in ((inbox, other), (ledger, other), (ledger, row), (shown.partition('id="inbox-page"')[0], row)):
        assert re.search(rf'<a href="{page(one)}"><bdi>{one.name}</bdi></a> <span[^>]*>\(key:{one.pk}\)', part)
    with CaptureQueriesContext(connection) as seen:
        operator.get(page_of(instance))
    assert len([one for one in seen if "holdpoint_api_key" in one["sql"]]) == 1
    workflows.signal_many([(instance, f"name-{n}") for n in range(40)], actor=f"key:{row.pk}")
    with django_assert_num_queries(len(seen)):
        operator.get(page_of(instance))


def test_a_page_without_keys_asks_for_none(operator: Client) -> None:
    instance = workflows.start("adminkeys.asks", {}, actor="robot:1")
    with CaptureQueriesContext(connection) as seen:
        operator.get(page_of(instance))
    assert not any("holdpoint_api_key" in one["sql"] for one in seen)


@pytest.mark.parametrize("actor", ["key:", "key:x", "key:99999999999999999999999", "key:999999", "key:-1", "keys:1"])
def test_what_only_looks_like_a_key_is_shown_as_it_is(operator: Client, actor: str) -> None:
    instance = workflows.start("adminkeys.asks", {}, actor=actor)
    assert f"<bdi>{actor}</bdi>" in operator.get(page_of(instance)).text


def test_who_may_not_see_keys_reads_the_name_without_a_link() -> None:
    row, _ = make("billing")
    instance = workflows.start("adminkeys.asks", {}, actor=f"key:{row.pk}")
    shown = staff("view_instance").get(page_of(instance)).text
    assert "billing" in shown
    assert page(row) not in shown


def test_the_page_of_a_question_names_who_answered_it(operator: Client) -> None:
    row, _ = make("billing")
    workflows.start("adminkeys.asks", {})
    drain()
    question = Interaction.objects.get()
    workflows.complete(question, {}, actor=f"key:{row.pk}")
    shown = operator.get(f"/admin/holdpoint/interaction/{question.pk}/change/").text
    assert f'<a href="{page(row)}"><bdi>billing</bdi></a>' in shown


# --- workspaces ----------------------------------------------------------------------------------------


def test_a_workspace_leads_to_its_keys(operator: Client) -> None:
    acme = workflows.workspace.create("acme")
    for address in (WORKSPACES, f"{WORKSPACES}{acme.pk}/change/"):
        assert f'href="{KEYS}?workspace=acme"' in operator.get(address).text


def test_a_workspace_is_given_members(operator: Client) -> None:
    bob, eve = (get_user_model().objects.create_user(name) for name in ("bob", "eve"))
    acme = workflows.workspace.create("acme")
    form = {"slug": "acme", "name": "", "members": [bob.pk, eve.pk]}
    assert operator.post(f"{WORKSPACES}{acme.pk}/change/", form).status_code == 302
    assert set(acme.members.all()) == {bob, eve}
    assert set(bob.holdpoint_workspaces.all()) == {acme}
    shown = operator.get(f"{WORKSPACES}{acme.pk}/change/").text
    assert re.search(rf'<option value="{bob.pk}" selected>bob</option>', shown)


def test_users_are_searched_for_and_not_listed_where_the_project_can_search_them(operator: Client) -> None:
    for n in range(30):
        get_user_model().objects.create_user(f"user-{n}")
    acme = workflows.workspace.create("acme")
    ContentType.objects.get_for_model(Workspace)  # kept by the process
    with CaptureQueriesContext(connection) as seen:
        shown = operator.get(f"{WORKSPACES}{acme.pk}/change/").text
    assert "admin-autocomplete" in shown
    assert "user-7" not in shown
    assert len(seen) == 4  # session, user, workspace, its members
    found = operator.get(
        "/admin/autocomplete/",
        {"app_label": "holdpoint", "model_name": "workspace", "field_name": "members", "term": "user-7"},
    )
    assert [one["text"] for one in found.json()["results"]] == ["user-7"]


def test_users_are_picked_from_a_list_by_login_name_where_they_cannot_be_searched(
    operator: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    acme = workflows.workspace.create("acme")
    for name in ("zoe", "bob"):
        get_user_model().objects.create_user(name, first_name="Not shown")
    monkeypatch.delitem(admin.site._registry, get_user_model())
    shown = operator.get(f"{WORKSPACES}{acme.pk}/change/").text
    assert 'class="selectfilter"' in shown
    assert re.findall(r'<option value="\d+">(\w+)</option>', shown) == ["ada", "bob", "zoe"]


def test_a_workspace_whose_keys_were_used_stays(operator: Client) -> None:
    _, key = make(of="acme")
    acme = Workspace.objects.get(slug="acme")
    find_access(key)
    shown = operator.post(f"{WORKSPACES}{acme.pk}/delete/", {"post": "yes"}).text
    assert "acme has API keys that were used" in shown
    assert find_access(key) is not None
    ApiKey.objects.update(last_used_at=None)
    operator.post(f"{WORKSPACES}{acme.pk}/delete/", {"post": "yes"})
    assert not Workspace.objects.filter(slug="acme").exists()
    assert find_access(key) is None
