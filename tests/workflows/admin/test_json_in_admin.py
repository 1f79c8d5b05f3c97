"""JSON that is typed into forms of the admin: read as a body of the API is, and refused at its field."""

from __future__ import annotations

from typing import Any

import pytest
from django import forms
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import Client, RequestFactory
from django.urls import reverse

import workflows
from tests.support.admin_pages import page_of
from workflows import Next, Workflow, step
from workflows.admin.instances.instance_forks import ForkForm
from workflows.admin.json_field import StrictJsonField
from workflows.models import Instance, Schedule, Workspace
from workflows.testing import drain

pytestmark = pytest.mark.django_db

BAD = {
    "a number of 5,000 digits": "9" * 5_000,
    "the same deep inside": '{"a": [{"b": ' + "9" * 5_000 + "}]}",
    "many levels": "[" * 100_000,
    "no number": "NaN",
    "more than a float": "1e400",
    "a name twice": '{"a": 1, "a": 2}',
    "a zero byte": '"\\u0000"',
    "half a character": '"\\ud800"',
    "cut off": '{"a":',
}


class AdminJson(Workflow):
    name = "admin.json"
    keep_states = 5

    @step
    def begin(self, ctx):
        return Next("begin", delay="1h")


@pytest.fixture
def client() -> Client:
    client = Client(raise_request_exception=False)
    client.force_login(User.objects.create_superuser("ann"))
    return client


def fill(**fields: Any) -> dict[str, Any]:
    plain = {"name": "new", "workflow": "admin.json", "every": "1h", "overlap": "skip", "catch_up": "last"}
    return {**plain, "workspace": Workspace.objects.get().pk, **fields}


@pytest.mark.parametrize("typed", BAD.values(), ids=BAD.keys())
def test_what_no_body_may_hold_no_form_of_the_admin_takes(client: Client, typed: str) -> None:
    made = workflows.schedule("made", AdminJson, every="1h")
    first = workflows.start(AdminJson)
    drain()
    add = reverse("admin:holdpoint_schedule_add")
    change = reverse("admin:holdpoint_schedule_change", args=[made.pk])
    for page, body in (
        (add, fill(input=typed)),
        (change, fill(input=typed)),
        (page_of(first, "fork/"), {"input": typed, "confirmed": "yes"}),
        (page_of(first, "fork/"), {"state": typed, "confirmed": "yes"}),
    ):
        answer = client.post(page, body)
        assert (answer.status_code, "This is no JSON: " in answer.text) == (200, True), (page, answer.text[:500])
        form = answer.context["form"] if "form" in answer.context else answer.context["adminform"].form
        assert list(form.errors) == ["state" if "state" in body else "input"]
    assert Schedule.objects.get().input == {}
    assert Instance.objects.count() == 1


def test_what_was_typed_stands_in_the_form_again(client: Client) -> None:
    answer = client.post(reverse("admin:holdpoint_schedule_add"), fill(input='{"a": 1, "a": 2}'))
    assert "{&quot;a&quot;: 1, &quot;a&quot;: 2}" in answer.text
    answer = client.post(reverse("admin:holdpoint_schedule_add"), fill(input='{"a": "é"}', every=""))
    assert "{&quot;a&quot;: &quot;é&quot;}" in answer.text
    assert client.post(reverse("admin:holdpoint_schedule_add"), fill(input=' {"a": "é"} ')).status_code == 302
    assert Schedule.objects.get().input == {"a": "é"}


def test_every_field_of_json_in_the_admin_is_this_one() -> None:
    """Also of a form that is added."""
    request = RequestFactory().get("/")
    request.user = User.objects.create_superuser("ben")
    found = {("ForkForm", name): field for name, field in ForkForm.base_fields.items()}
    for model, options in admin.site._registry.items():
        if model._meta.app_label.startswith("holdpoint") and options.has_add_permission(request):
            for name, field in options.get_form(request).base_fields.items():
                found[model.__name__, name] = field
    strict = {place for place, field in found.items() if isinstance(field, forms.JSONField)}
    assert {("ForkForm", "input"), ("ForkForm", "state"), ("Schedule", "input")} <= strict
    assert all(isinstance(found[place], StrictJsonField) for place in strict)
