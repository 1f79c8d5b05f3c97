"""The admin of a site with tenants: staff of one find what is theirs, and of everything else nothing."""

from __future__ import annotations

import re
from typing import Any
from uuid import uuid4

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.urls import NoReverseMatch, reverse

import workflows
from approvals import Approval, decide
from approvals.actions.actions import comment
from approvals.models import Review
from tests.support.admin_pages import login
from workflows import Await, Concurrency, Done, Workflow, step
from workflows.access.api_keys import create_key, find_access, forget_keys
from workflows.api import flow_control
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


@pytest.fixture
def other() -> Workspace:
    """A tenant with something of everything."""
    forget_keys()
    workflows.workspace.create("mine")
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
    return other


@pytest.fixture
def member(other: Workspace) -> Client:
    """The browser of somebody who may do everything, in one workspace."""
    user = User.objects.create_user("mia", is_staff=True)
    permissions = Permission.objects.exclude(codename="all_workspaces")
    user.user_permissions.set(permissions.filter(content_type__app_label__startswith="holdpoint"))
    Workspace.objects.get(slug="mine").members.add(user)
    return login(user)


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
    for row in find_foreign(model):
        unknown = make_unknown(row)
        pages = zip(list_pages(model_admin, row.pk), list_pages(model_admin, unknown), strict=True)
        for foreign, nobodys in pages:
            for data in (None, {}, {"confirmed": "1", "reason": "x", "grace": "0s", "post": "yes"}):
                answers = []
                for url, pk in ((foreign, row.pk), (nobodys, unknown)):
                    answer = member.get(url) if data is None else member.post(url, data)
                    answers.append(read_bytes(answer, pk))
                    member.cookies.pop("messages", None)  # the next page would show what this one left to be told
                assert answers[0] == answers[1], foreign
                assert CANARY not in answers[0]
    assert snapshot() == before


@pytest.mark.parametrize(("model", "model_admin"), OURS, ids=lambda one: getattr(one, "__name__", ""))
def test_every_action_leaves_a_foreign_row_alone(model: Any, model_admin: Any, member: Client) -> None:
    before = snapshot()
    url = reverse(f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist")
    request = member.get(url).wsgi_request
    for row in find_foreign(model):
        for action in model_admin.get_actions(request):
            for confirmed in ({}, {"confirmed": "1", "reason": "x"}, {"post": "yes"}):
                answers = []
                for pk in (row.pk, make_unknown(row)):
                    asked = {"action": action, "index": "0", "_selected_action": [str(pk)], **confirmed}
                    answer = member.post(url, asked, follow=True)
                    answers.append(read_bytes(answer, pk))
                assert CANARY not in answers[0]
                assert answers[0] == answers[1], (model, action)
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


def test_where_there_is_one_workspace_only_staff_see_it_without_being_members(db: None) -> None:
    workflows.start("AdminWaits", {}, key="mine")
    user = User.objects.create_user("sue", is_staff=True)
    user.user_permissions.set(Permission.objects.filter(codename="view_instance"))
    assert "mine" in login(user).get("/admin/holdpoint/instance/").text


# --- keys ----------------------------------------------------------------------------------------------


def with_rights(*codenames: str) -> Client:
    user = User.objects.create_user("kim", is_staff=True)
    keys = ["add_apikey", "change_apikey", "view_apikey"]
    user.user_permissions.set(Permission.objects.filter(codename__in=[*keys, *codenames]))
    Workspace.objects.get(slug="default").members.add(user)
    return login(user)


def fill(**more: Any) -> dict[str, Any]:
    workspace = Workspace.objects.get(slug="default").pk
    form = {"name": "billing", "workspace": workspace, "scopes": ["read"], "reach": "all", "rate": ""}
    return {**form, "expires_at_0": "", "expires_at_1": "", "_save": "Save", **more}


ADD = "/admin/holdpoint/apikey/add/"


def test_who_may_make_keys_and_nothing_else_makes_none(db: None) -> None:
    browser = with_rights()
    assert browser.post(ADD, fill()).status_code == 403
    assert not ApiKey.objects.exists()


@pytest.mark.parametrize("scope", ["start", "operate", "admin"])
def test_a_key_may_do_no_more_than_whoever_makes_it(scope: str, db: None) -> None:
    browser = with_rights("view_instance", "view_interaction", "view_schedule", "cancel_instance")
    assert browser.post(ADD, fill(scopes=["read", scope])).status_code == 200
    assert not ApiKey.objects.exists()
    browser.post(ADD, fill())
    assert ApiKey.objects.get().scopes == ["read"]


def test_a_key_is_of_one_s_own_workspace(other: Workspace) -> None:
    browser = with_rights("view_instance", "view_interaction", "view_schedule")
    before = ApiKey.objects.count()
    assert browser.post(ADD, fill(workspace=other.pk)).status_code == 200
    assert ApiKey.objects.count() == before


def test_a_key_that_may_more_than_i_can_be_ended_and_neither_widened_nor_replaced(db: None) -> None:
    row, key = create_key("ci", workspace=Workspace.objects.get(slug="default"))
    browser = with_rights("view_instance", "view_interaction", "view_schedule")
    page = f"/admin/holdpoint/apikey/{row.pk}/"
    assert 'name="scopes"' not in browser.get(f"{page}change/").text
    assert browser.post(f"{page}change/", fill(name="mine")).status_code == 403
    assert browser.post(f"{page}rotate/", {"grace": "1h", "confirmed": "1"}).status_code == 403
    assert ApiKey.objects.count() == 1
    assert find_access(key) is not None
    browser.post(f"{page}revoke/", {"confirmed": "1"})
    assert find_access(key) is None


def test_all_scopes_take_all_rights(db: None) -> None:
    needed = ["view_instance", "view_interaction", "start_instance", "signal_instance", "complete_interaction"]
    needed += ["cancel_instance", "retry_instance", "redrive_interaction", "control_queue", "manage_schedule"]
    needed += ["view_schedule", "run_schedule", "fork_instance"]
    browser = with_rights(*needed)
    browser.post(ADD, fill(scopes=["admin"]))
    assert ApiKey.objects.get().scopes == ["admin"]


def test_every_model_of_ours_that_has_a_workspace_is_walked() -> None:
    """Whoever registers another model has it walked by the tests above."""
    for config in ("holdpoint", "holdpoint_approvals"):
        for model in apps.get_app_config(config).get_models():
            if admin.site.is_registered(model) and model not in SHARED:
                assert model in {one for one, _ in OURS}
