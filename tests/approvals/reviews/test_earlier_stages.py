"""Who asked, and who decided another stage of the same matter: known whatever else is deleted meanwhile."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection

import workflows
from approvals import Approval, decide
from approvals.exceptions import NotAllowed
from approvals.models import Review
from tests.support.review_calls import ask as make_review
from tests.support.review_calls import find_review, start
from workflows import Await, Child, Done, Spawn, Workflow, durable, step
from workflows.models import Instance
from workflows.store.ledger.retention import prune
from workflows.testing import advance, drain

pytestmark = pytest.mark.django_db


@durable(name="family.ask")
def ask(ctx: Any, wait: str = "0s", stage: str = "x") -> Any:
    if wait != "0s":
        ctx.sleep("first", wait)
    return ctx.wait_for("ok", Approval(f"Do {stage}", assignees=["ann", "ben"]), timeout="7d").outcome


@durable(name="family.other")
def ask_elsewhere(ctx: Any) -> Any:
    return ctx.wait_for("ok", Approval("Do it elsewhere", assignees=["ann", "ben"]), timeout="7d").outcome


@durable(name="family.launch")
def launch(ctx: Any, wait: str = "60d") -> str:
    return str(ctx.launch("next", ask, {"wait": wait}))


@durable(name="family.rounds")
def go_round(ctx: Any, left: int) -> Any:
    if left:
        return str(ctx.launch("next", go_round, {"left": left - 1}))
    return ctx.wait_for("ok", Approval("At last", assignees=["ann", "ben"]), timeout="7d").outcome


@durable(name="family.two")
def two_stages(ctx: Any) -> list[Any]:
    first = ctx.invoke("s1", ask, {"stage": "one"}, timeout="7d")
    return [first, ctx.invoke("s2", ask, {"stage": "two"}, timeout="7d")]


@durable(name="family.launch-two")
def launch_two(ctx: Any) -> list[str]:
    return [str(ctx.launch(name, ask, {"stage": name})) for name in ("a", "b")]


@durable(name="family.own-then-child")
def own_then_child(ctx: Any) -> Any:
    ctx.wait_for("own", Approval("First here", assignees=["ann", "ben"]), timeout="7d")
    return ctx.invoke("child", ask, {}, timeout="7d")


@durable(name="family.child-then-own")
def child_then_own(ctx: Any) -> Any:
    ctx.invoke("child", ask, {}, timeout="7d")
    return ctx.wait_for("own", Approval("Then here", assignees=["ann", "ben"]), timeout="7d").outcome


class Fan(Workflow):
    name = "family.fan"

    @step
    def begin(self, ctx: Any) -> Any:
        others = [Child(ask_elsewhere)] if ctx.input.get("other") else []
        return Spawn([*(Child(ask, {"stage": one}) for one in "xy"), *others], then="end")

    @step
    def end(self, ctx: Any) -> Any:
        return Done([one.result for one in ctx.children])


class StartInStep(Workflow):
    name = "family.start-in-step"

    @step
    def begin(self, ctx: Any) -> Any:
        return Done(str(workflows.start(ask, {}, **ctx.input).pk))


class Emitting(Workflow):
    name = "family.emitting"

    @step
    def begin(self, ctx: Any) -> Any:
        workflows.emit("family.happened", {})
        return Done()


class OnEvent(Workflow):
    name = "family.on-event"
    on_event = "family.happened"

    @step
    def begin(self, ctx: Any) -> Any:
        return Await(Approval("React", assignees=["ann", "ben"]), then="end", timeout="7d")

    @step
    def end(self, ctx: Any) -> Any:
        return Done(ctx.answer.outcome)


def refuse(review: Review, user: User, *, rule: str) -> None:
    with pytest.raises(NotAllowed) as refused:
        decide(review, "approve", actor=user)
    assert refused.value.obstacle.rule == rule
    assert not Review.objects.for_user(user).filter(pk=review.pk).exists()  # as the inbox says


def open_review(**which: Any) -> Review:
    return Review.objects.get(open=True, **which)


def test_the_requester_cannot_decide_after_what_they_started_was_pruned(ann: User, ben: User) -> None:
    first = workflows.start(launch, {}, actor=ann)
    drain()
    assert sum(one.instances for one in prune(connection, older_than=0.0)) == 1
    assert not Instance.objects.filter(pk=first.pk).exists()
    advance("61d")
    review = open_review()
    assert review.requester_id == ann.pk
    refuse(review, ann, rule="requester")
    decide(review, "approve", actor=ben)


def test_the_requester_cannot_decide_after_however_many_rounds(ann: User, ben: User) -> None:
    workflows.start(go_round, {"left": 25}, actor=ann)
    drain()
    refuse(open_review(), ann, rule="requester")


@pytest.mark.parametrize("workflow", [two_stages, launch_two, own_then_child, child_then_own])
def test_who_decided_one_stage_cannot_decide_another_of_the_same_family(ann: User, ben: User, workflow: Any) -> None:
    workflows.start(workflow, {})
    drain()
    first = Review.objects.filter(open=True).order_by("pk").first()
    assert first is not None
    decide(first, "approve", actor=ben)
    drain()
    second = open_review()
    assert second.pk != first.pk
    refuse(second, ben, rule="decided_before")
    decide(second, "approve", actor=ann)
    drain()


def test_what_is_spawned_together_is_one_stage_for_many_items(ann: User, ben: User) -> None:
    workflows.start(Fan, {})
    drain()
    for review in Review.objects.filter(open=True):
        decide(review, "approve", actor=ben)
    drain()
    assert Instance.objects.filter(status="done").count() == 3


def test_two_workflows_that_are_spawned_together_are_two_stages(ann: User, ben: User) -> None:
    workflows.start(Fan, {"other": True})
    drain()
    decide(open_review(title="Do it elsewhere"), "approve", actor=ben)
    refuse(open_review(title="Do x"), ben, rule="decided_before")


def test_a_new_round_of_the_same_workflow_is_a_new_matter_of_the_same_person(ann: User, ben: User) -> None:
    workflows.start(go_round, {"left": 1}, actor=ann)
    drain()
    one = Instance.objects.get(status="awaiting")
    assert one.family is None
    assert one.origin == f"user:{ann.pk}"


def test_two_families_know_nothing_of_each_other(ann: User, ben: User) -> None:
    for _ in range(2):
        workflows.start(ask, {})
    drain()
    for review in Review.objects.filter(open=True):
        decide(review, "approve", actor=ben)


@pytest.mark.parametrize("workflow", [StartInStep, Emitting])
def test_what_a_step_starts_or_an_event_begins_was_asked_for_by_the_same_person(
    ann: User, ben: User, workflow: Any
) -> None:
    workflows.start(workflow, {}, actor=ann)
    drain()
    review = open_review()
    assert (review.requester_id, review.family) == (ann.pk, None)
    refuse(review, ann, rule="requester")


def test_a_step_may_start_something_in_the_name_of_somebody_else(ann: User, ben: User) -> None:
    workflows.start(StartInStep, {"actor": f"user:{ben.pk}"}, actor=ann)
    drain()
    assert open_review().requester_id == ben.pk


def test_what_a_program_began_excludes_nobody_as_requester_in_no_child_either(ann: User, ben: User) -> None:
    workflows.start(two_stages, {}, actor="cron")
    drain()
    review = open_review()
    assert review.requester_id is None
    assert Instance.objects.get(pk=review.instance_id).origin == "cron"
    decide(review, "approve", actor=ann)


def test_what_began_for_nobody_costs_a_row_nothing_and_a_child_one_byte(ann: User) -> None:
    workflows.start(launch, {"wait": "0s"})
    drain()
    first, second = Instance.objects.order_by("id")
    assert (first.origin, first.family) == (None, None)
    assert (second.origin, second.family) == ("", first.pk)


def test_what_is_in_another_workspace_is_no_family(ann: User) -> None:
    workflows.workspace.create("acme")
    workflows.start(StartInStep, {"workspace": "acme"}, actor=ann)
    drain()
    other = Instance.objects.get(workspace__slug="acme")
    assert (other.origin, other.family) == (f"user:{ann.pk}", None)


def _forget(*instances: Instance) -> None:
    """As rows were before instances carried it."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE holdpoint_instance SET origin = NULL, family = NULL WHERE id = ANY(%s)",
            [[one.pk for one in instances]],
        )


def _migrate() -> None:
    with connection.cursor() as cursor:
        for app, name in (("workflows", "0010_origins"), ("approvals", "0004_families")):
            cursor.execute(import_module(f"{app}.migrations.{name}").CARRY)
        cursor.execute("DROP TABLE holdpoint_links, holdpoint_origins")


def test_rows_from_before_are_given_what_rows_tell(ann: User, ben: User) -> None:
    workflows.start(two_stages, {}, actor=ann)
    workflows.start(go_round, {"left": 3}, actor=ben)
    workflows.start(Fan, {}, actor="cron")
    drain()
    kept = {one.pk: (one.origin, one.family) for one in Instance.objects.all()}
    reviews = set(Review.objects.values_list("pk", "family", "place"))
    _forget(*Instance.objects.all())
    with connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_review SET family = NULL, place = NULL")
    _migrate()
    assert {one.pk: (one.origin, one.family) for one in Instance.objects.all()} == kept
    assert set(Review.objects.values_list("pk", "family", "place")) == reviews


@pytest.mark.parametrize("migrated", [False, True])
def test_where_who_asked_cannot_be_known_four_eyes_does_not_open(ann: User, ben: User, migrated: bool) -> None:
    workflows.start(launch, {}, actor=ann)
    drain()
    sleeper = Instance.objects.get(status="sleeping")
    _forget(sleeper)
    list(prune(connection, older_than=0.0))
    if migrated:
        _migrate()
    advance("61d")
    sleeper.refresh_from_db()
    assert not Review.objects.exists()
    assert sleeper.error is not None
    assert "requester=" in sleeper.error
    assert "four_eyes=False" in sleeper.error


def test_what_an_older_worker_started_is_looked_for_while_it_is_there(ann: User, ben: User) -> None:
    workflows.start(launch, {}, actor=ann)
    drain()
    _forget(Instance.objects.get(status="sleeping"))
    advance("61d")
    refuse(open_review(), ann, rule="requester")


# --- nobody ---------------------------------------------------------------------------------------------


def test_what_only_its_requester_could_decide_is_refused_when_it_is_opened(ann: User, ben: User) -> None:
    error = Instance.objects.get(pk=start({"assignees": ["ann"]}, actor=ann).pk).error
    assert error is not None
    assert "Ann" in error
    assert "Four eyes keep out who asked for it" in error
    assert "four_eyes=False" in error
    assert not Review.objects.exists()


@pytest.mark.parametrize("how", ["inactive", "no member", "decided another stage"])
def test_what_nobody_of_those_named_could_decide_is_refused(how: str, ann: User, ben: User) -> None:
    stages: list[dict[str, Any]] = [{"assignees": ["ann"]}]
    if how == "inactive":
        User.objects.filter(pk=ann.pk).update(is_active=False)
    elif how == "no member":
        workflows.workspace.create("acme")
    else:
        stages.insert(0, {"assignees": ["ann", "ben"]})
    instance = start(*stages)
    if how == "decided another stage":
        decide(find_review(instance), "approve", actor=ann)
        drain()
    instance.refresh_from_db()
    assert instance.status == "failed"
    assert "nobody of these can decide it" in str(instance.error)
    assert not Review.objects.filter(open=True).exists()


@pytest.mark.parametrize(
    "options",
    [
        {"assignees": ["ann"], "four_eyes": False},
        {"assignees": ["ann", "ben"]},
        {"assignees": ["ann"], "groups": ["empty"]},
        {"assignees": ["ann"], "escalate": [("1d", ("add", "user", "ben"))]},
        {"assignees": ["ann"], "escalate": [("1d", ("outcome", "reject"))]},
    ],
)
def test_what_somebody_may_yet_decide_or_time_answers_is_opened(options: dict[str, Any], ann: User, ben: User) -> None:
    Group.objects.create(name="empty")
    assert make_review(actor=ann, **options).open
