"""How much may be set at run time in one workspace: the last of it is taken, the next is refused at every door."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse

import workflows
from tests.support.api_calls import Api, make_key, problem
from workflows import Concurrency, Done, Rate, Workflow, WorkspaceFull, step
from workflows.api.flow_control import change_limit, change_queue
from workflows.api.schedule_calls import create_schedule
from workflows.models import Limit, PausedWorkflow, Queue, Schedule, Workspace

pytestmark = pytest.mark.django_db


class FullMail(Workflow):
    name = "full.mail"
    queue = "full-mail"
    concurrency = Concurrency("full:{tenant}", 5)
    rate = Rate("full-smtp", 100, per="1m")

    @step
    def send(self, ctx: Any) -> Done:
        return Done()


class FullOther(Workflow):
    name = "full.other"
    queue = "full-other"

    @step
    def send(self, ctx: Any) -> Done:
        return Done()


@pytest.fixture(autouse=True)
def small(settings: Any) -> None:
    settings.WORKFLOWS = {**settings.WORKFLOWS, "MAX_LIMITS": 2, "MAX_SCHEDULES": 2}


def test_a_workspace_has_so_many_schedules_and_what_it_has_can_be_changed() -> None:
    for name in ("a", "b"):
        workflows.schedule(name, FullMail, every="1h", input={"tenant": 7})
    for make in (
        lambda: workflows.schedule("c", FullOther, every="1h"),
        lambda: create_schedule("c", {"workflow": "full.other", "every": "1h"}),
    ):
        with pytest.raises(
            WorkspaceFull, match=r'this workspace has 2 schedules, .* raise WORKFLOWS\["MAX_SCHEDULES"'
        ) as full:
            make()
        assert full.value.limit == 2
    assert workflows.schedule("b", FullOther, every="2h").workflow == "full.other"
    workflows.workspace.create("acme")
    workflows.schedule("c", FullOther, every="1h", workspace="acme")
    workflows.unschedule("a")
    workflows.schedule("c", FullOther, every="1h")
    assert Schedule.objects.count() == 3


def test_a_workspace_has_so_many_limits_of_its_own_and_what_it_has_can_be_changed() -> None:
    change_limit("concurrency", "full:1", 1)
    change_limit("rate", "full-smtp", "5/s")
    with pytest.raises(WorkspaceFull, match=r'has 2 limits with a number of their own, .*"MAX_LIMITS"'):
        change_limit("concurrency", "full:2", 1)
    assert change_limit("concurrency", "full:1", 3).limit == 3
    assert change_limit("rate", "full-smtp", "6/s").overridden
    workflows.workspace.create("acme")
    change_limit("concurrency", "full:2", 1, workspace="acme")
    change_limit("rate", "full-smtp", None)
    change_limit("concurrency", "full:2", 1)
    assert Limit.objects.filter(workspace__slug="default").count() == 2


def test_limits_take_no_room_of_queues_and_pauses() -> None:
    """Or whoever sets limits could keep others from stopping what goes wrong."""
    for tenant in (1, 2):
        change_limit("concurrency", f"full:{tenant}", 1)
    change_queue("full-mail", limit=3)
    workflows.pause(queue="full-other")
    with pytest.raises(WorkspaceFull, match="has 2 queues"):
        workflows.pause(queue="default")
    with pytest.raises(WorkspaceFull, match="has 2 queues"):
        change_queue("default", limit=3)
    workflows.pause(queue="full-mail")
    for name in ("full.mail", "full.other", "full.mail"):
        workflows.pause(name)
    workflows.unpause("full.other")
    assert (Queue.objects.filter(paused=True).count(), PausedWorkflow.objects.count()) == (2, 1)


def test_a_program_is_told_409() -> None:
    api = Api(make_key())
    body = {"workflow": "full.other", "every": "1h"}
    assert [api.post("/v1/schedules", {**body, "name": name}).status_code for name in "ab"] == [201, 201]
    told = problem(api.post("/v1/schedules", {**body, "name": "c"}), 409, "workspace-full")
    assert "this workspace has 2 schedules" in told["detail"]
    for tenant in (1, 2):
        assert api.patch(f"/v1/limits/concurrency/full:{tenant}", {"limit": 1}).status_code == 200
    problem(api.patch("/v1/limits/concurrency/full:3", {"limit": 1}), 409, "workspace-full")
    assert api.patch("/v1/limits/concurrency/full:2", {"limit": 4}).json()["limit"] == 4


def test_somebody_at_a_form_is_told_above_it() -> None:
    client = Client()
    client.force_login(User.objects.create_superuser("ann"))
    for name in ("a", "b"):
        workflows.schedule(name, FullOther, every="1h")
        change_limit("concurrency", f"full:{name}", 1)
    where = Workspace.objects.get().pk
    plain = {"workspace": where, "workflow": "full.other", "every": "1h", "overlap": "skip", "catch_up": "last"}
    page = client.post(reverse("admin:holdpoint_schedule_add"), {**plain, "name": "c"}, follow=True)
    assert "This workspace has 2 schedules" in page.text
    form = {"workspace": where, "kind": "concurrency", "name": "full:c", "limit": "1"}
    page = client.post(reverse("admin:holdpoint_limit_add"), form, follow=True)
    assert "This workspace has 2 limits" in page.text
    assert (Schedule.objects.count(), Limit.objects.count()) == (2, 2)
