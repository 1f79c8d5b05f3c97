"""The admin of a site with tenants: staff of one find what is theirs, and of everything else nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Permission, User
from django.db import connection, transaction
from django.test import Client
from django.urls import NoReverseMatch, reverse

import workflows
from approvals import Approval, decide
from approvals.actions.actions import comment
from approvals.models import Review
from tests.support.admin_pages import login
from workflows import Await, Concurrency, Done, Workflow, step
from workflows.access.api_keys import create_key, forget_keys
from workflows.api import flow_control
from workflows.conf import conf
from workflows.lifecycle import Status
from workflows.models import ApiKey, Instance, Interaction, Limit, PausedWorkflow, Queue, Worker, Workspace
from workflows.testing import drain

pytestmark = pytest.mark.django_db

#: Stands in everything that belongs to the other tenant.
CANARY = "canary"
#: Workers belong to the site: whoever may see them sees all of them.
SHARED = {Worker}
OURS = [
    (model, model_admin)
    for model, model_admin in admin.site._registry.items()
    if model._meta.app_label.startswith("holdpoint") and model not in SHARED
]


class CanaryAsks(Workflow):
    name = "admintenants.asks"
    concurrency = Concurrency("admintenants:{text}", 5)

    @step
    def ask(self, ctx: Any) -> Await:
        approval = Approval(f"{CANARY} title", assignees=[f"{CANARY}-ann", f"{CANARY}-ben"], groups=[])
        return Await(approval, then="wait", timeout="7d")

    @step
    def wait(self, ctx: Any) -> Await:
        return Await(ctx.callback(f"{CANARY}-pay"), then="end", timeout="7d")

    @step
    def end(self, ctx: Any) -> Done:
        return Done()


#: Numbers of rows that no page shows for another reason: row 3 is also in "3:23 a.m.".
FAR = """
    SELECT setval(format('%I.%I', schemaname, sequencename)::regclass, greatest(coalesce(last_value, 0), 70700700))
    FROM pg_sequences WHERE max_value > 100000000
"""


@pytest.fixture(scope="module")
def population(django_db_setup: None, django_db_blocker: Any) -> Iterator[Workspace]:
    """A tenant with something of everything, and somebody of another one; each test takes back what it does to them."""
    with django_db_blocker.unblock(), transaction.atomic(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(conf, "supplies_links", False)
        with connection.cursor() as cursor:
            cursor.execute(FAR)
        yield populate()
        transaction.set_rollback(True)


def populate() -> Workspace:
    mine = workflows.workspace.create("mine")
    other = workflows.workspace.create(f"{CANARY}-corp")
    ann, ben = (User.objects.create_user(f"{CANARY}-{name}") for name in ("ann", "ben"))
    other.members.add(ann, ben)
    for n in range(2):
        workflows.start("admintenants.asks", {"text": CANARY}, workspace=other.slug, key=f"{CANARY}-{n}", actor=ann)
    drain()
    first = Review.objects.order_by("pk").first()
    assert first is not None
    comment(first, f"{CANARY} says", actor=ben)
    decide(first, "approve", actor=ben)
    drain()
    create_key(f"{CANARY} key", workspace=other)
    workflows.pause("admintenants.asks", workspace=other.slug, actor=ann)
    flow_control.change_queue("default", limit=7, workspace=other.slug, actor=ann)
    flow_control.change_limit("concurrency", f"admintenants:{CANARY}", 7, workspace=other.slug, actor=ann)
    mia = User.objects.create_user("mia", is_staff=True)
    permissions = Permission.objects.exclude(codename="all_workspaces")
    mia.user_permissions.set(permissions.filter(content_type__app_label__startswith="holdpoint"))
    mine.members.add(mia)
    return other


@pytest.fixture
def other(population: Workspace) -> Workspace:
    forget_keys()
    return population


@pytest.fixture
def member(other: Workspace) -> Client:
    """The browser of somebody who may do everything, in one workspace."""
    return login(User.objects.get(username="mia"))


def find_foreign(model: Any) -> list[Any]:
    """Rows of the model in the other tenant."""
    names = {field.name for field in model._meta.get_fields()}
    other = Workspace.objects.get(slug=f"{CANARY}-corp")
    if model is Workspace:
        return [other]
    for path in ("workspace", "review__workspace"):
        if path.partition("__")[0] in names:
            return list(model._default_manager.filter(**{path: other}))
    return []


def make_unknown(row: Any) -> Any:
    return uuid4() if isinstance(row.pk, type(uuid4())) else 987654321


def read_bytes(answer: Any, pk: object) -> str:
    """What came, without what differs between any two requests: the id that was asked for, and tokens."""
    text = f"{answer.status_code} {answer.get('Location', '')} {answer.text}"
    text = re.sub(r"<symbol.*?</symbol>", "", text, flags=re.DOTALL)  # drawings are full of small numbers
    # Not what is measured: a box is 40 wide whether or not there is a row 40.
    measures = r'\b(?:size|maxlength|rows|cols|colspan|width|height)="\d+"'
    ids = rf"(?<![\w.-])(?:{re.escape(quote(str(pk)))}|{re.escape(str(pk))})(?![\w.])"
    text = re.sub(f"({measures})|{ids}", lambda match: match[1] or "ID", text)
    return re.sub(r'(name="csrfmiddlewaretoken"|name="once") value="[^"]*"', "", text)


def list_pages(model_admin: Any, pk: object) -> list[str]:
    """Every address of the admin that is about one row."""
    found = []
    for pattern in model_admin.get_urls():
        given = pattern.pattern.regex.groupindex.keys() if hasattr(pattern.pattern, "regex") else ()
        if pattern.name is None or "object_id" not in given:
            continue
        for what in ("input", "event-1", "signal-1", "error", "result", "request", "schema", "output"):
            kwargs = {"object_id": pk, **({"what": what} if "what" in given else {})}
            try:
                found.append(reverse(f"admin:{pattern.name}", kwargs=kwargs))
            except NoReverseMatch:
                continue
    return list(dict.fromkeys(found))


def snapshot() -> list[Any]:
    """All that could be changed."""
    return [
        list(model._default_manager.order_by("pk").values_list("pk", *_columns(model)))
        for model in (Instance, Interaction, ApiKey, Workspace, Review, Queue, Limit, PausedWorkflow)
    ]


def _columns(model: Any) -> list[str]:
    return [one.attname for one in model._meta.concrete_fields if one.attname != "hash"]


def test_the_walk_meets_every_model_and_each_has_foreign_rows(other: Workspace) -> None:
    assert {Instance, Interaction, ApiKey, Workspace, Review, Queue, Limit, PausedWorkflow} <= {
        model for model, _ in OURS
    }
    found = {model.__name__: len(find_foreign(model)) for model, _ in OURS}
    assert all(found[one] for one in ("Instance", "Interaction", "ApiKey", "Workspace", "Review", "Vote", "Comment"))
    assert (found["Queue"], found["Limit"], found["PausedWorkflow"]) == (1, 1, 1)


@pytest.mark.parametrize(("model", "model_admin"), OURS, ids=lambda one: getattr(one, "__name__", ""))
def test_lists_filters_and_choices_show_nothing_of_another_tenant(model: Any, model_admin: Any, member: Client) -> None:
    url = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    for query in ("", "?q=c", "?all=1", "?workspace=mine"):
        answer = member.get(url + query)
        # A list is filtered by what it offers, and by nothing else.
        assert answer.status_code in (200, 302, 400), url
        assert query or answer.status_code == 200, url
        assert CANARY not in answer.text
    if model_admin.has_add_permission(answer.wsgi_request):
        assert f"{CANARY}-corp" not in member.get(f"{url}add/").text


@pytest.mark.parametrize(("model", "model_admin"), OURS, ids=lambda one: getattr(one, "__name__", ""))
def test_every_page_and_button_of_a_foreign_row_answers_as_of_one_that_never_was(
    model: Any, model_admin: Any, member: Client
) -> None:
    before = snapshot()
    rows = find_foreign(model)

    def ask_pages(pk: object) -> Iterator[str]:
        for url in list_pages(model_admin, pk):
            for data in (None, {}, {"confirmed": "1", "reason": "x", "grace": "0s", "post": "yes"}):
                answer = member.get(url) if data is None else member.post(url, data)
                member.cookies.pop("messages", None)  # the next page would show what this one left to be told
                yield read_bytes(answer, pk)

    nobodys = list(ask_pages(make_unknown(rows[0]))) if rows else []
    for row in rows:
        for foreign, nobody in zip(ask_pages(row.pk), nobodys, strict=True):
            assert foreign == nobody, row
            assert CANARY not in foreign
    assert snapshot() == before


@pytest.mark.parametrize(("model", "model_admin"), OURS, ids=lambda one: getattr(one, "__name__", ""))
def test_every_action_leaves_a_foreign_row_alone(model: Any, model_admin: Any, member: Client) -> None:
    before = snapshot()
    url = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    request = member.get(url).wsgi_request
    rows = find_foreign(model)
    for action in model_admin.get_actions(request) if rows else ():
        for confirmed in ({}, {"confirmed": "1", "reason": "x"}, {"post": "yes"}):
            answers = []
            for pk in (make_unknown(rows[0]), *(row.pk for row in rows)):
                asked = {"action": action, "index": "0", "_selected_action": [str(pk)], **confirmed}
                answer = member.post(url, asked, follow=True)
                answers.append(read_bytes(answer, pk))
            nobodys, *foreign = answers
            for one in foreign:
                assert CANARY not in one
                assert one == nobodys, (model, action)
    assert snapshot() == before


def test_autocomplete_offers_nothing_of_another_tenant(member: Client) -> None:
    asked = 0
    for model, _ in OURS:
        for field in (*model._meta.fields, *model._meta.many_to_many):
            if field.remote_field is None or field.related_model is User:  # accounts belong to the site
                continue
            named = {"app_label": model._meta.app_label, "model_name": model._meta.model_name}
            for term in ("", CANARY, "c"):
                answer = member.get("/admin/autocomplete/", {**named, "field_name": field.name, "term": term})
                assert CANARY not in answer.text
                asked += answer.status_code == 200
    assert asked


def test_who_may_operate_all_workspaces_sees_and_changes_all(other: Workspace) -> None:
    user = User.objects.create_user("opa", is_staff=True)
    wanted = ["all_workspaces", "view_instance", "cancel_instance"]
    user.user_permissions.set(Permission.objects.filter(codename__in=wanted))
    browser = login(user)
    instance = Instance.objects.get(key=f"{CANARY}-0")
    assert f"{CANARY}-0" in browser.get("/admin/holdpoint/instance/").text
    browser.post(f"/admin/holdpoint/instance/{instance.pk}/cancel/", {"confirmed": "1", "reason": "x"})
    instance.refresh_from_db()
    assert instance.status == Status.CANCELLED


def test_every_model_of_ours_that_has_a_workspace_is_walked() -> None:
    """Whoever registers another model has it walked by the tests above."""
    for config in ("holdpoint", "holdpoint_approvals"):
        for model in apps.get_app_config(config).get_models():
            if admin.site.is_registered(model) and model not in SHARED:
                assert model in {one for one, _ in OURS}
