"""The engine in Django's admin, seen through the test client."""

import json
import re
from datetime import timedelta
from typing import Any
from urllib.parse import unquote
from uuid import uuid4

import pytest
from django.contrib.admin import site
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

import workflows
from tests.support.admin_pages import (
    ESCAPED,
    HOSTILE,
    LIST,
    page_of,
    read_rows,
    staff,
)
from tests.support.clocks import beat_for_long
from tests.support.combinations import take_share
from workflows import Child, Done, Spawn, Stop, Workflow, step, store
from workflows.admin.bounded_lists import CappedPaginator
from workflows.admin.instances.instance_history import ROWS
from workflows.lifecycle import Event, Status
from workflows.models import Instance, LedgerEvent, Worker, Workspace
from workflows.testing import advance, drain

pytestmark = pytest.mark.django_db


class AdminBreaks(Workflow):
    """Fails with the text it is given."""

    @step
    def begin(self, ctx: Any) -> Stop:
        return Stop(ctx.input["reason"])


class AdminBreeds(Workflow):
    """Starts children and waits for them."""

    @step
    def begin(self, ctx: Any) -> Spawn:
        return Spawn([Child("AdminWaits", {"n": n}) for n in range(ctx.input["children"])], then="end")

    @step
    def end(self, ctx: Any) -> Done:
        return Done(len(ctx.children))


def parked(**options: Any) -> Instance:
    instance = workflows.start("AdminWaits", {"order": 1}, **options)
    drain()
    return instance


def failed(reason: str = "no stock", **options: Any) -> Instance:
    instance = workflows.start("AdminBreaks", {"reason": reason}, **options)
    drain()
    return instance


def status_of(instance: Instance) -> Status:
    found: Status = Instance.objects.get(pk=instance.pk).status
    return found


def choose(action: str, *instances: Instance, **more: str) -> dict[str, Any]:
    """What the browser sends for ticked rows."""
    return {"action": action, "index": "0", "_selected_action": [str(one.pk) for one in instances], **more}


# --- the list ------------------------------------------------------------------------------------------


def test_characters_that_nobody_sees_have_a_shape(operator: Client) -> None:
    instance = workflows.start("AdminWaits", {"file": "invoice\u202egpj.exe", "long": "\u200b" * 100}, key="a\u202eb")
    drain()
    workflows.signal(instance, "x\u2066y", {"file": "\u202e"})
    for page in (LIST, page_of(instance), page_of(instance, "history/"), page_of(instance, "delete/")):
        content = operator.get(page).content.decode()
        assert not re.search("[\u200b\u202e\u2066]", content), page
    assert "invoice⟨U+202E⟩gpj.exe" in operator.get(page_of(instance)).content.decode()


def test_a_row_tells_where_an_instance_stands(operator: Client) -> None:
    instance = parked(key="order-1")
    (row,) = read_rows(operator.get(LIST).text)
    assert instance.id.hex[-8:] in row
    for text in ("AdminWaits v1", "order-1", "awaiting", "tell", "go", "in 23 hours", "just now"):
        assert text in row


def test_a_missed_moment_is_called_late(operator: Client) -> None:
    workflows.start("AdminWaits", run_at=timezone.now() - timedelta(hours=3))
    with connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_instance SET due_at = now() - interval '3 hours'")
    (row,) = read_rows(operator.get(LIST).text)
    assert "3 hours late" in row


@pytest.mark.no_fold(reason="the row's counters are set by SQL")
def test_retries_and_lost_runs_are_told_where_there_are_any(operator: Client) -> None:
    workflows.start("AdminWaits")
    (row,) = read_rows(operator.get(LIST).text)
    assert "attempt" not in row
    with connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_instance SET attempt = 2, runs = 3")
    (row,) = read_rows(operator.get(LIST).text)
    assert "attempt 2, run 3" in row


def test_the_newest_instance_comes_first_whatever_the_address_asks(operator: Client) -> None:
    for key in ("first", "second", "third"):
        workflows.start("AdminWaits", key=key)
    for address in (LIST, f"{LIST}?o=5", f"{LIST}?o=-8.3"):
        rows = read_rows(operator.get(address).text)
        assert [next(key for key in ("first", "second", "third") if key in row) for row in rows] == [
            "third",
            "second",
            "first",
        ]


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("status=awaiting", ["a"]),
        ("status=failed", ["b"]),
        ("status=live", ["a"]),
        ("status=ended", ["b"]),
        ("workflow=AdminBreaks", ["b"]),
        ("created=hour", ["b", "a"]),
        ("created=today", ["b", "a"]),
        ("created=week", ["b", "a"]),
        ("created=month", ["b", "a"]),
        ("created=older", []),
        ("workspace=default", ["b", "a"]),
        ("workspace=acme", []),
        ("status=failed&workflow=AdminWaits", []),
    ],
)
def test_filters_narrow_the_list(operator: Client, query: str, keys: list[str]) -> None:
    workflows.workspace.create("acme")
    parked(key="key-a")
    failed(key="key-b")
    rows = read_rows(operator.get(f"{LIST}?{query}").text)
    assert [row.partition("key-")[2][0] for row in rows] == keys


@pytest.mark.no_fold(reason="the instance gets another id by SQL")
def test_old_instances_are_found_by_their_age(operator: Client) -> None:
    parked(key="young")
    old = parked(key="old")
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE holdpoint_instance SET created_at = now() - interval '60 days', "
            "id = (lpad(to_hex((extract(epoch FROM now() - interval '60 days') * 1000)::bigint), 12, '0')"
            " || '7abc8def0123456789ab')::uuid WHERE id = %s",
            [old.pk],
        )
    assert [row for row in read_rows(operator.get(f"{LIST}?created=older").text) if "old" in row]
    assert not [row for row in read_rows(operator.get(f"{LIST}?created=month").text) if "old" in row]


def test_an_impossible_status_in_the_address_leads_back_to_the_list(operator: Client) -> None:
    assert operator.get(f"{LIST}?status=lost").status_code == 302


def test_a_workspace_is_offered_as_a_filter_only_where_there_are_two(operator: Client) -> None:
    assert "?workspace=" not in operator.get(LIST).text
    workflows.workspace.create("acme")
    assert "?workspace=acme" in operator.get(LIST).text


def test_a_workflow_that_this_site_does_not_have_is_offered_as_a_filter(operator: Client) -> None:
    parked()
    with connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_instance SET workflow = 'Elsewhere'")
    assert "?workflow=Elsewhere" in operator.get(LIST).text


def test_a_whole_id_finds_its_instance(operator: Client) -> None:
    wanted, _ = parked(key="one"), parked(key="two")
    for term in (str(wanted.pk), wanted.pk.hex, f" {wanted.pk} "):
        (row,) = read_rows(operator.get(LIST, {"q": term}).text)
        assert "one" in row


def test_the_beginning_of_a_key_finds_its_instances(operator: Client) -> None:
    for key in ("order-1", "order-2", "reorder-1"):
        parked(key=key)
    assert len(read_rows(operator.get(LIST, {"q": "order-"}).text)) == 2
    assert read_rows(operator.get(LIST, {"q": "order-%"}).text) == []


def test_a_key_that_looks_like_an_id_is_found_too(operator: Client) -> None:
    key = str(uuid4())
    parked(key=key)
    assert len(read_rows(operator.get(LIST, {"q": key}).text)) == 1


def test_the_name_of_a_workflow_finds_its_instances(operator: Client) -> None:
    parked()
    failed()
    (row,) = read_rows(operator.get(LIST, {"q": "AdminBreaks"}).text)
    assert "failed" in row


def test_counting_stops_at_the_cap_and_the_page_says_so(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    workflows.start_many("AdminWaits", [{}] * 12)
    assert "There are more." not in operator.get(LIST).text
    monkeypatch.setattr(CappedPaginator, "cap", 10)
    with CaptureQueriesContext(
        connection,
    ) as seen:
        page = operator.get(LIST).text
    assert "There are more. Only the newest 10 are counted" in page
    (count,) = [one["sql"] for one in seen if "COUNT(" in one["sql"]]
    assert "LIMIT 11" in count


def test_facets_which_would_count_everything_are_not_to_be_had(operator: Client) -> None:
    workflows.start_many("AdminWaits", [{}] * 3)
    with CaptureQueriesContext(connection) as seen:
        operator.get(f"{LIST}?_facets=True")
    assert len([one for one in seen if "COUNT(" in one["sql"]]) == 1


def test_the_list_costs_the_same_for_fifty_rows_as_for_one(operator: Client, django_assert_num_queries: Any) -> None:
    parked()
    with django_assert_num_queries(6):  # session, user, workflows, workspaces, count, rows
        operator.get(LIST)
    workspace = workflows.workspace.create("acme")
    workflows.start_many("AdminWaits", [{"n": n} for n in range(49)], workspace=workspace.slug)
    drain()
    with django_assert_num_queries(6):
        assert len(read_rows(operator.get(LIST).text)) == 50


def test_the_list_loads_no_values(operator: Client) -> None:
    parked()
    with CaptureQueriesContext(connection) as seen:
        operator.get(LIST)
    (rows,) = [one["sql"] for one in seen if '"holdpoint_instance"."fence"' in one["sql"]]
    for column in ("input", "state", "result", "error"):
        assert f'"holdpoint_instance"."{column}"' not in rows


# --- the page of one -----------------------------------------------------------------------------------


def test_the_page_tells_the_inbox_and_the_ledger(operator: Client) -> None:
    ada = get_user_model().objects.get(username="ada")
    instance = parked(key="order-1", actor=ada)
    workflows.signal(instance, "other", {"amount": 120}, dedup_key="evt-7", actor=ada)
    page = operator.get(page_of(instance)).text
    inbox, ledger = page.partition('id="inbox-page"')[2].split('id="ledger-page"')
    assert "1 signal waits to be consumed" in inbox
    for text in ("other", "evt-7", "&quot;amount&quot;: 120", f"ada (user:{ada.pk})"):
        assert text in inbox
    for text in ("started", "parked", "signal received", "awaiting"):
        assert text in ledger


def test_a_timeout_is_told_with_what_came_of_it(operator: Client) -> None:
    instance = parked()
    advance("25h")
    page = operator.get(page_of(instance)).text
    assert "nobody came" in page
    assert "timed out" in page


def test_what_only_looks_like_a_user_is_shown_as_it_is(operator: Client) -> None:
    for actor in ("user:", "user:x", "user:99999999999999999999", "robot:1"):
        assert actor in operator.get(page_of(parked(actor=actor))).text


def test_parent_and_children_link_to_each_other(operator: Client) -> None:
    parent = workflows.start("AdminBreeds", {"children": 2})
    drain()
    children = list(Instance.objects.filter(parent=parent))
    page = operator.get(page_of(parent)).text
    assert "2 not ended" in page
    assert all(page_of(child) in page for child in children)
    assert page_of(parent) in operator.get(page_of(children[0])).text


def test_the_page_costs_the_same_for_a_hundred_signals_and_events(
    operator: Client, django_assert_num_queries: Any
) -> None:
    ContentType.objects.get_for_model(Instance)  # kept by the process
    instance = parked()
    # session, user, instance, workspace, signals, events, checkpoints, children
    with django_assert_num_queries(8):
        operator.get(page_of(instance))
    workflows.signal_many([(instance, f"name-{n}", {"n": n}) for n in range(100)])
    assert LedgerEvent.objects.filter(instance=instance).count() >= 100
    with django_assert_num_queries(8):
        page = operator.get(page_of(instance)).text
    assert "name-0<" in page
    assert "name-99<" in page


def test_a_long_inbox_is_turned_page_by_page(operator: Client) -> None:
    instance = parked()
    workflows.signal_many([(instance, f"name-{n}") for n in range(ROWS + 5)])
    newest = operator.get(page_of(instance)).text
    assert "Rows 1 to 200, newest first." in newest
    assert "?inbox_page=2#inbox-page" in newest
    assert f"name-{ROWS + 4}<" in newest
    assert "name-4<" not in newest.partition('id="ledger-page"')[0]
    oldest = operator.get(page_of(instance), {"inbox_page": "2"}).text.partition('id="ledger-page"')[0]
    assert "Rows 201 to 205" in oldest
    assert "name-4<" in oldest
    ledger = operator.get(page_of(instance), {"ledger_page": "2"}).text.partition('id="ledger-page"')[2]
    assert "started" in ledger


@pytest.mark.parametrize("number", ["0", "-1", "x", "", "99999999999999999999", "²"])
def test_a_strange_page_number_does_no_harm(operator: Client, number: str) -> None:
    assert operator.get(page_of(parked()), {"inbox_page": number}).status_code == 200


def test_a_huge_payload_stays_out_of_the_page_and_is_one_link_away(operator: Client) -> None:
    instance = parked()
    workflows.signal(instance, "other", {"text": "x" * 100_000 + "end"})
    page = operator.get(page_of(instance))
    assert len(page.content) < 60_000
    (link,) = re.findall(r'href="([^"]*/value/signal-\d+/)"', page.text)
    whole = operator.get(link)
    assert whole["Content-Type"] == "text/plain; charset=utf-8"
    assert whole["X-Content-Type-Options"] == "nosniff"
    assert json.loads(whole.text)["text"].endswith("end")


@pytest.mark.parametrize("what", ["input", "state", "result", "error", "event-1"])
def test_every_value_can_be_had_in_full(operator: Client, what: str) -> None:
    answer = operator.get(page_of(failed("no stock"), f"value/{what}/"))
    assert answer.status_code == 200
    assert what != "error" or answer.text == "no stock"


@pytest.mark.parametrize("what", ["signal-99", "event-999999999", "fence", "signal-x", "workspace"])
def test_what_is_not_a_value_is_not_found(operator: Client, what: str) -> None:
    # Django's admin takes an unknown address for an id and leads back to the index.
    assert operator.get(page_of(parked(), f"value/{what}/")).status_code in (302, 404)


def test_payloads_made_to_swell_when_indented_do_not(operator: Client) -> None:
    instance = parked()
    nested: Any = 1
    for _ in range(30):
        nested = [nested]
    workflows.signal_many([(instance, "other", [nested] * 30) for _ in range(100)])
    assert len(operator.get(page_of(instance)).content) < 600_000


def test_nothing_that_was_stored_runs_as_script(operator: Client) -> None:
    instance = workflows.start("AdminBreaks", {"reason": HOSTILE, HOSTILE: [HOSTILE]}, key=HOSTILE, actor=HOSTILE)
    workflows.signal(instance, HOSTILE, {HOSTILE: HOSTILE * 50}, dedup_key=HOSTILE, actor=HOSTILE)
    drain()
    for address in (LIST, page_of(instance), page_of(instance, "cancel/")):
        page = operator.get(address).text
        assert "<script>alert" not in page
        assert ESCAPED in page
    done = operator.post(page_of(instance, "retry/"), follow=True).text
    assert "runs again" in done
    assert "<script>alert" not in done
    told = operator.post(LIST, choose("cancel", instance, confirmed="yes", reason=HOSTILE), follow=True).text
    assert "was cancelled" in told
    assert "<script>alert" not in told
    assert "<script>alert" not in operator.get(page_of(instance)).text
    assert "<script>alert" not in operator.get(page_of(instance, "history/")).text


def test_moments_are_shown_in_the_users_time_zone(operator: Client) -> None:
    instance = parked()
    created = Instance.objects.get(pk=instance.pk).created_at
    with timezone.override("Asia/Tokyo"):
        page = operator.get(page_of(instance)).text
        assert timezone.localtime(created).strftime("%Y-%m-%d %H:%M:%S") in page


def test_nothing_can_be_added_changed_or_deleted(operator: Client) -> None:
    instance = parked()
    assert operator.get(f"{LIST}add/").status_code == 403
    assert operator.post(page_of(instance), {"step": "tell"}).status_code == 403
    assert operator.post(page_of(instance, "delete/"), {"post": "yes"}).status_code == 403
    assert status_of(instance) == Status.AWAITING


def test_our_markup_needs_no_inline_script_or_style(operator: Client) -> None:
    instance = failed("x" * 300)
    for address in (LIST, page_of(instance), page_of(instance, "cancel/")):
        page = operator.get(address).text
        assert " style=" not in page
        assert "workflows/admin.css" in page
        assert not re.search(r"<script(?![^>]*\bsrc=)", page)


# --- cancel and retry ----------------------------------------------------------------------------------


def test_cancelling_asks_first_and_keeps_the_reason_and_the_user(operator: Client) -> None:
    ada = get_user_model().objects.get(username="ada")
    instance = parked(key="order-1")
    question = operator.get(page_of(instance, "cancel/")).text
    assert "Cancel this instance?" in question
    assert status_of(instance) == Status.AWAITING
    answer = operator.post(page_of(instance, "cancel/"), {"confirmed": "yes", "reason": "withdrawn"}, follow=True)
    assert answer.redirect_chain == [(page_of(instance), 302)]
    assert "was cancelled." in answer.text
    found = Instance.objects.get(pk=instance.pk)
    assert (found.status, found.error) == (Status.CANCELLED, "withdrawn")
    event = LedgerEvent.objects.get(instance=instance, kind=Event.CANCELLED)
    assert event.actor == f"user:{ada.pk}"
    assert LogEntry.objects.get().change_message == "Cancelled. withdrawn"


def test_the_action_asks_for_all_ticked_rows_at_once(operator: Client) -> None:
    chosen = [parked(key=f"order-{n}") for n in range(3)]
    question = operator.post(LIST, choose("cancel", *chosen)).text
    assert "Cancel 3 instances" in question
    assert all(f'value="{one.pk}"' in question for one in chosen)
    assert {status_of(one) for one in chosen} == {Status.AWAITING}
    answer = operator.post(LIST, choose("cancel", *chosen, confirmed="yes", reason="flood"), follow=True)
    assert answer.text.count("was cancelled.") == 3
    assert {status_of(one) for one in chosen} == {Status.CANCELLED}


def test_a_refusal_of_one_is_told_and_leaves_the_others_be(operator: Client) -> None:
    ended, open_one = failed(key="ended"), parked(key="open")
    answer = operator.post(LIST, choose("cancel", ended, open_one, confirmed="yes"), follow=True).text
    assert f"Instance {ended.pk} cannot be cancelled: it is failed already" in answer
    assert status_of(open_one) == Status.CANCELLED


def test_what_left_the_filtered_list_while_the_question_stood_is_told_too(operator: Client) -> None:
    instance = parked()
    workflows.cancel(instance)
    answer = operator.post(f"{LIST}?status=awaiting", choose("cancel", instance, confirmed="yes"), follow=True).text
    assert "cannot be cancelled: it is cancelled already" in answer


def test_a_reason_that_is_too_long_is_asked_for_again(operator: Client) -> None:
    instance = parked()
    answer = operator.post(page_of(instance, "cancel/"), {"confirmed": "yes", "reason": "x" * 10_001})
    assert "at most 10000 characters" in answer.text
    assert status_of(instance) == Status.AWAITING


def test_retrying_runs_failed_instances_again(operator: Client) -> None:
    instance, waiting = failed(), parked()
    answer = operator.post(LIST, choose("retry", instance, waiting), follow=True).text
    assert "runs again." in answer
    assert f"Instance {waiting.pk} cannot be retried: it is awaiting; only a failed" in answer
    assert status_of(instance) == Status.RUNNABLE


def test_the_retry_button_runs_one_again(operator: Client) -> None:
    instance = failed()
    answer = operator.post(page_of(instance, "retry/"), follow=True)
    assert answer.redirect_chain == [(page_of(instance), 302)]
    assert status_of(instance) == Status.RUNNABLE


def test_following_a_link_never_retries(operator: Client) -> None:
    instance = failed()
    assert operator.get(page_of(instance, "retry/")).status_code == 405
    assert status_of(instance) == Status.FAILED


def test_buttons_appear_only_where_they_can_work(operator: Client) -> None:
    waiting, broken = operator.get(page_of(parked())).text, operator.get(page_of(failed())).text
    assert ("/cancel/" in waiting, "/retry/" in waiting) == (True, False)
    assert ("/cancel/" in broken, "/retry/" in broken) == (False, True)


def test_too_many_at_once_are_refused(operator: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workflows.admin.instances.instance_actions.LIMIT", 2)
    chosen = workflows.start_many("AdminWaits", [{}] * 3)
    answer = operator.post(LIST, choose("cancel", *chosen[:1], select_across="1"), follow=True).text
    assert "Choose at most 2 instances at a time." in answer
    assert {status_of(one) for one in chosen} == {Status.RUNNABLE}


def test_many_results_are_summed_up(operator: Client) -> None:
    chosen = workflows.start_many("AdminWaits", [{}] * 30)
    answer = operator.post(LIST, choose("cancel", *chosen, confirmed="yes"), follow=True).text
    assert answer.count("was cancelled.") == 20
    assert "30 of 30 succeeded, 0 were refused." in answer


def test_a_forged_id_is_a_bad_request(operator: Client) -> None:
    answer = operator.post(LIST, {"action": "cancel", "index": "0", "_selected_action": ["1"]})
    assert answer.status_code == 400


def test_the_instance_of_an_unknown_id_is_not_found(operator: Client) -> None:
    assert operator.get(page_of(parked(), "value/error/")).status_code == 404
    for tail in ("cancel/", "retry/", "value/input/"):
        assert operator.post(f"{LIST}{uuid4()}/{tail}").status_code == 404


# --- who may -------------------------------------------------------------------------------------------


def test_a_viewer_sees_neither_actions_nor_buttons() -> None:
    client, waiting, broken = staff("view_instance"), parked(), failed()
    assert 'name="action"' not in client.get(LIST).text
    for instance in (waiting, broken):
        page = client.get(page_of(instance)).text
        assert "/cancel/" not in page
        assert "/retry/" not in page


@pytest.mark.parametrize("permission", ["cancel", "retry"])
def test_a_permission_gives_its_own_action_and_button_only(permission: str) -> None:
    client = staff("view_instance", f"{permission}_instance")
    waiting, broken = parked(), failed()
    listed, pages = client.get(LIST).text, client.get(page_of(waiting)).text + client.get(page_of(broken)).text
    for action in ("cancel", "retry"):
        assert (f'<option value="{action}"' in listed) is (action == permission)
        assert (f"/{action}/" in pages) is (action == permission)


def test_a_viewers_forged_requests_are_forbidden() -> None:
    client, waiting, broken = staff("view_instance"), parked(), failed()
    for post in (
        (LIST, choose("cancel", waiting, confirmed="yes")),
        (LIST, {key: value for key, value in choose("cancel", waiting, confirmed="yes").items() if key != "index"}),
        (LIST, choose("retry", broken)),
        (page_of(waiting, "cancel/"), {"confirmed": "yes"}),
        (page_of(broken, "retry/"), {}),
    ):
        assert client.post(*post).status_code == 403
    assert client.get(page_of(waiting, "cancel/")).status_code == 403
    assert (status_of(waiting), status_of(broken)) == (Status.AWAITING, Status.FAILED)


def test_who_may_cancel_but_not_look_may_do_neither() -> None:
    client, instance = staff("cancel_instance", "retry_instance"), parked()
    assert client.get(LIST).status_code == 403
    assert client.get(page_of(instance)).status_code == 403
    assert client.get(page_of(instance, "value/input/")).status_code == 403
    assert client.post(page_of(instance, "cancel/"), {"confirmed": "yes"}).status_code == 403
    assert client.post(LIST, choose("cancel", instance, confirmed="yes")).status_code == 403


def test_a_stranger_is_sent_to_the_login() -> None:
    instance = parked()
    for tail in ("change/", "cancel/", "retry/", "value/input/"):
        answer = Client().post(page_of(instance, tail))
        assert answer.status_code == 302
        assert answer["Location"].startswith("/admin/login/")


def test_a_request_from_another_site_is_refused() -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(get_user_model().objects.create_superuser("eve"))
    instance = failed()
    assert client.post(page_of(instance, "retry/")).status_code == 403
    assert status_of(instance) == Status.FAILED


# --- workspaces and workers ----------------------------------------------------------------------------


def test_a_workspace_is_made_and_renamed(operator: Client) -> None:
    assert operator.post("/admin/holdpoint/workspace/add/", {"slug": "acme", "name": "Acme"}).status_code == 302
    acme = Workspace.objects.get(slug="acme")
    operator.post(f"/admin/holdpoint/workspace/{acme.pk}/change/", {"slug": "acme-2", "name": "Acme Ltd"})
    assert Workspace.objects.filter(slug="acme-2", name="Acme Ltd").exists()


def test_the_default_workspace_keeps_its_slug_and_stays(operator: Client) -> None:
    default = Workspace.objects.get(slug="default")
    page = f"/admin/holdpoint/workspace/{default.pk}/"
    operator.post(f"{page}change/", {"slug": "other", "name": "Main"})
    assert (Workspace.objects.get(pk=default.pk).slug, Workspace.objects.get(pk=default.pk).name) == ("default", "Main")
    assert operator.post(f"{page}delete/", {"post": "yes"}).status_code == 403
    ticked = {"action": "delete_selected", "_selected_action": [str(default.pk)], "post": "yes"}
    operator.post("/admin/holdpoint/workspace/", ticked)
    assert Workspace.objects.filter(pk=default.pk).exists()


def test_a_workspace_in_use_stays_and_an_empty_one_goes(operator: Client) -> None:
    acme, empty = workflows.workspace.create("acme"), workflows.workspace.create("empty")
    workflows.start("AdminWaits", workspace="acme")
    page = operator.post(f"/admin/holdpoint/workspace/{acme.pk}/delete/", {"post": "yes"}).text
    assert "acme has instances" in page
    operator.post(f"/admin/holdpoint/workspace/{empty.pk}/delete/", {"post": "yes"})
    assert set(Workspace.objects.values_list("slug", flat=True)) == {"default", "acme"}


def test_a_workspace_leads_to_its_instances(operator: Client) -> None:
    workflows.workspace.create("acme")
    workflows.start("AdminWaits", workspace="acme", key="theirs")
    workflows.start("AdminWaits", key="ours")
    assert f"{LIST}?workspace=acme" in operator.get("/admin/holdpoint/workspace/").text
    (row,) = read_rows(operator.get(f"{LIST}?workspace=acme").text)
    assert "acme/ theirs" in row


def test_workers_tell_whether_they_are_alive(operator: Client) -> None:
    beat_for_long("alpha", "worker", "host-1")
    store.beat(connection, "beta", "worker", "host-2")  # type: ignore[arg-type]
    with connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_worker SET beat_at = beat_at - interval '3 hours' WHERE name = 'beta'")
    first, second = read_rows(operator.get("/admin/holdpoint/worker/").text)
    assert "alpha" in first
    assert "alive" in first
    assert "silent for 3 hours" in second
    assert Worker.objects.count() == 2
    assert operator.get("/admin/holdpoint/worker/alpha/change/").status_code == 200
    assert operator.get("/admin/holdpoint/worker/add/").status_code == 403
    assert operator.post("/admin/holdpoint/worker/alpha/delete/", {"post": "yes"}).status_code == 403


# --- odd addresses -------------------------------------------------------------------------------------

ODD = ["%00", "a", "%ED%A0%80", "9" * 40]
OURS = ("holdpoint", "holdpoint_approvals")
SHOWN = ("o", "p", "_popup", "_to_field")


@pytest.mark.parametrize("value", ODD)
def test_no_filter_of_any_list_is_an_error(operator: Client, value: str) -> None:
    """Every list of ours, each of its filters and columns, with what cannot be looked for."""
    parked()
    tried = 0
    ours = ((model, listing) for model, listing in site._registry.items() if model._meta.app_label in OURS)
    for place, (model, listing) in enumerate(ours):
        path = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
        filters = [one.parameter_name for one in listing.list_filter if not isinstance(one, str)]
        fields = model._meta.get_fields()
        # What a value is read as depends on the kind of a column: one of each kind, and each other column once.
        kinds = {(type(one), one.related_model): one.name for one in reversed(fields)}
        others = [one.name for one in fields if one.name not in kinds.values()]
        columns = [*kinds.values(), *others[ODD.index(value) :: len(ODD)]]
        # The same as without it, said otherwise: each of these columns once.
        exact = [f"{one}__exact" for one in columns[ODD.index(value) :: len(ODD)]]
        # Read by Django for every list alike: each list is asked with each of them, and each of them with each value.
        shown = [one for _, one in take_share([model], SHOWN, ODD.index(value) + place, len(ODD))]
        for name in (*filters, *columns, *exact, *shown, "q"):
            answer = operator.get(f"{path}?{name}={value}")
            assert answer.status_code in (200, 302, 400), (path, name, value)
            tried += 1
    assert tried > 100


@pytest.mark.parametrize("value", ["%00", "a", "9" * 40])
def test_no_page_and_no_choice_of_rows_is_an_error(operator: Client, value: str) -> None:
    """Every page of ours at the address of a row that cannot be; forms with values from the address; chosen rows."""
    for model in site._registry:
        if model._meta.app_label not in OURS:
            continue
        path = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
        begun = "&".join(f"{field.name}={value}" for field in model._meta.get_fields())
        pages = [f"{value}/{page}/" for page in ("change", "history", "delete")]
        for page in (*pages, f"add/?{begun}", f"add/?_changelist_filters=workspace%3D{value}"):
            assert operator.get(path + page).status_code in (200, 302, 403, 404), (path, page)
        chosen = {"action": "delete_selected", "_selected_action": unquote(value), "index": "0"}
        assert operator.post(path, chosen).status_code in (200, 302, 400, 403), path


def test_pages_of_the_admin_say_what_they_may_load(operator: Client) -> None:
    for path in ("/admin/", LIST, page_of(parked()), "/admin/auth/user/add/"):
        answer = operator.get(path)
        assert "default-src 'self'" in answer["Content-Security-Policy"]
        page = answer.content.decode()
        assert not re.search(r"<script(?![^>]*(src=|application/json))|<style|\son\w+=|\sstyle=", page), path
