"""The admin's pages of units: how far each is, its items, and the same cost however many there are."""

from __future__ import annotations

import re
import uuid
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.contrib.contenttypes.models import ContentType
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

import workflows
from workflows import durable
from workflows.models import AwaitUnit, Instance
from workflows.testing import drain

pytestmark = pytest.mark.django_db

UNITS, QUESTIONS = "/admin/holdpoint/awaitunit/", "/admin/holdpoint/interaction/"


@durable(name="pages-each")
def each(ctx, n, **options):
    return len(ctx.wait_for_each("pay", list(range(n)), "api", **options))


@durable(name="pages-one")
def one(ctx):
    return ctx.wait_for("look", "chat", timeout="1d")


def start(name: str, **input: Any) -> AwaitUnit:
    started = workflows.start(name, input)
    drain()
    return AwaitUnit.objects.get(instance=started)


def read(browser: Client, path: str) -> str:
    """The text of a page, without its tags."""
    response = browser.get(path)
    assert response.status_code == 200, path
    text = re.sub(r"<[^>]+>", " ", re.sub(r"(?s)<(script|style).*?</\1>", " ", response.content.decode()))
    return " ".join(unescape(text).split())


def test_a_list_shows_how_far_each_unit_is(admin_client):
    unit = start("pages-each", n=7, concurrency=3)
    start("pages-one")
    workflows.complete(f"pay.0-{unit.instance_id}", 1)
    text = read(admin_client, UNITS)
    assert "pay open 1 of 7 3 3 0 0" in text
    assert "look open 0 of 1 1 0 0 0" in text
    assert "look" not in read(admin_client, f"{UNITS}?items=true").partition("Progress")[2]
    assert "pay" not in read(admin_client, f"{UNITS}?items=false&status=open").partition("Progress")[2]
    assert "0 await units" in read(admin_client, f"{UNITS}?status=completed")


def test_the_page_of_a_unit_leads_to_its_items_in_their_order(admin_client):
    unit = start("pages-each", n=4, concurrency=2, on_item="partial", timeout="1h")
    page = admin_client.get(f"{UNITS}{unit.pk}/change/").content.decode()
    assert f"{QUESTIONS}?unit={unit.pk}" in page
    assert "policy “partial”, 2 at a time" in page
    assert "3600 s for each" in page
    text = read(admin_client, f"{QUESTIONS}?unit={unit.pk}")
    shown = re.findall(r"pay\.(\d)-", text)
    assert list(dict.fromkeys(shown)) == ["0", "1", "2", "3"]
    assert text.count("queued") == 2
    assert str(unit.instance_id)[:8] in text


def test_a_unit_that_is_none_has_no_page_and_no_items(admin_client):
    start("pages-each", n=2)
    assert admin_client.get(f"{UNITS}{uuid.uuid4()}/change/").status_code == 302
    assert "0 interactions" in read(admin_client, f"{QUESTIONS}?unit={uuid.uuid4()}")
    for path in (f"{QUESTIONS}?unit=x", f"{UNITS}?status=x"):
        assert admin_client.get(path).status_code == 302


def test_the_page_of_an_instance_shows_the_lists_that_it_asked(admin_client):
    unit = start("pages-each", n=5, concurrency=2)
    page = admin_client.get(f"/admin/holdpoint/instance/{unit.instance_id}/change/").content.decode()
    assert f"{UNITS}{unit.pk}/change/" in page
    assert "0 of 5" in page
    single = start("pages-one")
    assert "Lists of items" not in read(admin_client, f"/admin/holdpoint/instance/{single.instance_id}/change/")


@pytest.mark.parametrize("path", ["{units}", "{units}{id}/change/", "{questions}?unit={id}"])
def test_a_page_costs_the_same_statements_however_many_items_there_are(admin_client, path):
    counts = []
    for n in (2, 60):
        unit = start("pages-each", n=n, concurrency=100)
        if not counts:
            ContentType.objects.clear_cache()
            read(admin_client, path.format(units=UNITS, questions=QUESTIONS, id=unit.pk))  # a process learns it once
        with CaptureQueriesContext(connection) as asked:
            read(admin_client, path.format(units=UNITS, questions=QUESTIONS, id=unit.pk))
        counts.append(len(asked))
    assert counts[0] == counts[1]


def test_somebody_of_another_workspace_sees_no_unit(client):
    unit = start("pages-each", n=2)
    acme = workflows.workspace.create("acme")
    ann = User.objects.create_user("ann", is_staff=True)
    ann.user_permissions.set(Permission.objects.filter(codename__in=["view_awaitunit", "view_interaction"]))
    acme.members.add(ann)
    client.force_login(ann)
    assert "0 await units" in read(client, UNITS)
    assert client.get(f"{UNITS}{unit.pk}/change/").status_code == 302


def test_nothing_is_changed_on_such_a_page(admin_client):
    unit = start("pages-each", n=2)
    admin_client.post(f"{UNITS}{unit.pk}/change/", {"step": "other"})
    admin_client.post(f"{UNITS}{unit.pk}/delete/", {"post": "yes"})
    unit.refresh_from_db()
    assert unit.step == "pay"
    assert admin_client.get(f"{UNITS}add/").status_code == 403
    assert Instance.objects.get(pk=unit.instance_id).status == "awaiting"
