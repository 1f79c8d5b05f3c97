"""Parked answers in the admin: who sees which, and what trying again says."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import reverse

import workflows
from tests.support.kafka.records import TOPIC, ask, describe, receive, refuse_strangers, take
from tests.support.kafka.world import answer
from workflows.models import ParkedAnswer, Workspace
from workflows.testing import assert_done, drain

pytestmark = pytest.mark.django_db

LIST = "admin:holdpoint_parkedanswer_changelist"


@pytest.fixture(autouse=True)
def _configured(settings: Any) -> None:
    kafka = {"BOOTSTRAP": "127.0.0.1:1", "ANSWERS": {TOPIC: "*"}}
    settings.WORKFLOWS = {**settings.WORKFLOWS, "KAFKA": kafka}


def test_the_list_says_where_a_record_was_read_and_why_it_was_parked(admin_client: Client) -> None:
    client = admin_client
    take(receive(b"<script>nonsense</script>", offset=11))
    page = client.get(reverse(LIST)).content.decode()
    assert "/0/11" in page
    assert "malformed" in page
    row = ParkedAnswer.objects.get()
    page = client.get(reverse("admin:holdpoint_parkedanswer_change", args=[row.pk])).content.decode()
    assert "&lt;script&gt;nonsense" in page
    assert "<script>nonsense" not in page
    assert "tenant: acme" in page


def test_records_of_no_workspace_are_for_whoever_operates_the_whole_site(client: Client) -> None:
    acme = workflows.workspace.create("acme")
    take(
        receive(b"nonsense"),
        receive(answer({"workspace": "acme", "interaction": "0" * 8 + "-0000" * 3 + "-" + "0" * 12})),
    )
    ben = User.objects.create_user("ben", password="x", is_staff=True)
    ben.user_permissions.add(Permission.objects.get(codename="view_parkedanswer"))
    Workspace.objects.get(pk=acme.pk).members.add(ben)
    client.force_login(ben)
    page = client.get(reverse(LIST)).content.decode()
    assert "unknown" in page
    assert "nonsense" not in page
    assert "1 parked answer" in page


def test_an_answer_is_taken_after_all_and_a_refusal_says_why(admin_client: Client, settings: Any) -> None:
    client = admin_client
    row = ask()
    settings.WORKFLOWS = {**settings.WORKFLOWS, "POLICY": refuse_strangers}
    take(receive(answer(describe(row), 1)), receive(b"nonsense"))
    settings.WORKFLOWS = {**settings.WORKFLOWS, "POLICY": None}
    chosen = [str(one.pk) for one in ParkedAnswer.objects.all()]
    told = client.post(reverse(LIST), {"action": "take_again", "_selected_action": chosen}, follow=True)
    page = told.content.decode()
    assert "1 of 2 succeeded, 1 were refused." in page
    assert "line 1 column 1" in page
    drain()
    assert_done(row.instance, result=1)


def test_whoever_may_only_look_is_offered_no_second_try(client: Client) -> None:
    take(receive(b"nonsense"))
    ben = User.objects.create_user("ben", is_staff=True)
    for name in ("view_parkedanswer", "all_workspaces"):
        ben.user_permissions.add(Permission.objects.get(codename=name))
    client.force_login(ben)
    assert "take_again" not in client.get(reverse(LIST)).content.decode()
