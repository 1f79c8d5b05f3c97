"""Forks in Django's admin: the form, its refusals, and links both ways; and the traceback of a failed run."""

from __future__ import annotations

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth import get_user_model

import workflows
from tests.support.admin_pages import page_of, staff
from workflows import Done, Next, Workflow, durable, step
from workflows.models import Instance
from workflows.testing import drain

pytestmark = pytest.mark.django_db


class AdminForks(Workflow):
    name = "admin.forks"
    keep_states = 5

    @step
    def begin(self, ctx):
        return Next("end", {"n": 1})

    @step
    def end(self, ctx):
        return Done([ctx.input, ctx.state])


def run_first() -> Instance:
    first = workflows.start(AdminForks, {"order": 7})
    drain()
    return first


def test_an_operator_forks_an_instance_and_is_led_to_the_new_one():
    client, first = staff("view_instance", "fork_instance"), run_first()
    assert "/fork/" in client.get(page_of(first, "change/")).text
    form = client.get(page_of(first, "fork/")).text
    assert '<option value="end">end</option>' in form
    assert 'name="state"' not in form
    answer = client.post(page_of(first, "fork/"), {"at": "end", "key": "again", "confirmed": "yes"}, follow=True)
    forked = Instance.objects.get(forked_from=first)
    assert (forked.key, forked.step, forked.started_by[:5]) == ("again", "end", "user:")
    assert answer.redirect_chain == [(page_of(forked, "change/"), 302)]
    assert LogEntry.objects.get().object_id == str(first.pk)
    assert page_of(first, "change/") in answer.text
    assert page_of(forked, "change/") in client.get(page_of(first, "change/")).text


def test_values_of_ones_own_take_the_permission_to_start():
    first = run_first()
    body = {"at": "end", "input": '{"order": 8}', "state": '{"n": 2}', "confirmed": "yes"}
    for permissions, result in (
        ([], [{"order": 7}, {"n": 1}]),
        (["start_instance"], [{"order": 8}, {"n": 2}]),
    ):
        client = staff("view_instance", "fork_instance", *permissions)
        client.post(page_of(first, "fork/"), body)
        get_user_model().objects.all().delete()
        drain()
        assert Instance.objects.filter(forked_from=first).latest("id").result == result


def test_what_cannot_be_forked_is_told_in_the_form_and_nothing_is_started():
    client, first = staff("view_instance", "fork_instance", "start_instance"), run_first()
    workflows.start(AdminForks, key="held")
    for body, told in (
        ({"key": "held"}, "is held by instance"),
        ({"at": "nowhere"}, "nowhere is not one of the available choices"),
        ({"input": "{"}, "This is no JSON: at line 1 column 2"),
    ):
        answer = client.post(page_of(first, "fork/"), {**body, "confirmed": "yes"})
        assert (answer.status_code, told in answer.text) == (200, True), answer.text
    assert not first.forks.exists()


def test_nobody_forks_without_the_permission():
    client, first = staff("view_instance", "retry_instance", "start_instance"), run_first()
    assert "/fork/" not in client.get(page_of(first, "change/")).text
    assert client.get(page_of(first, "fork/")).status_code == 403
    assert client.post(page_of(first, "fork/"), {"confirmed": "yes"}).status_code == 403
    assert not first.forks.exists()


@durable(name="admin.traceback", max_attempts=1)
def fails(ctx):
    raise ValueError("<script>alert(1)</script>")


def run_failing() -> Instance:
    first = workflows.start(fails)
    drain()
    return first


def test_the_traceback_of_a_failed_run_is_shown_as_text_to_whoever_may_retry_it():
    first, client = run_failing(), staff("view_instance", "retry_instance")
    page = client.get(page_of(first, "change/")).text
    assert "ValueError: &lt;script&gt;alert(1)" in page
    assert "test_forks_in_admin.py" in page
    assert "<script>alert(1)" not in page
    assert client.get(page_of(first, "value/traceback/")).text.endswith("ValueError: <script>alert(1)</script>")


@pytest.mark.parametrize("permission", [(), ("cancel_instance",), ("fork_instance",)])
def test_others_see_that_there_is_a_traceback_and_who_may_see_it_and_not_a_line_of_it(permission):
    first, client = run_failing(), staff("view_instance", *permission)
    page = client.get(page_of(first, "change/")).text
    assert "One is stored. Whoever may retry it sees it." in page
    assert "test_forks_in_admin.py" not in page
    assert "/value/traceback/" not in page
    assert client.get(page_of(first, "value/traceback/")).status_code == 403


def test_where_no_traceback_is_stored_nothing_is_said_of_one():
    assert "One is stored" not in staff("view_instance").get(page_of(run_first(), "change/")).text
