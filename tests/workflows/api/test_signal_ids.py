"""Signal ids: what they are made of, one pending interaction for each and workspace, and when they are free again."""

from __future__ import annotations

import pytest
from django.db import IntegrityError, connection, transaction

import workflows
from tests.support.bad_input import ANY
from tests.support.folds import check_all_folds
from workflows import Done, InvalidSignalId, SignalCollision, UnknownInteraction, durable
from workflows.definitions.question import Question, check_signal_id
from workflows.models import AwaitUnit, Instance, Interaction
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db

EVERY = "ABCXYZabcxyz0189._~:@-"


@durable(name="collisions.gate")
def gate(ctx, signal="the-gate", timeout="1h"):
    return ctx.wait_for_signal("gate", signal=signal, timeout=timeout)


def park(signal: str = "the-gate", **options: object) -> Instance:
    instance = workflows.start(gate, {"signal": signal}, **options)
    drain()
    return instance


# What it may be


@pytest.mark.parametrize("good", ["a", "7", "-", "...", "..a", ":", "a" * 200, EVERY, *ANY])
def test_a_signal_id_is_any_text_of_1_to_200_characters(good):
    instance = park(good)
    assert_awaiting(instance, good)
    assert workflows.complete(good, 1).signal_id == good
    drain()
    assert_done(instance, 1)


@pytest.mark.parametrize(
    "bad",
    ["", ".", "..", "a" * 201, "a\n", "a\0", "\t", "a\x7f", "a\x85b", "\ud800"],
)
def test_any_other_is_refused_at_the_wait_and_at_the_completion(bad):
    with pytest.raises(InvalidSignalId):
        workflows.complete(bad, 1)
    with pytest.raises(InvalidSignalId):
        Question("gate", signal_id=bad)
    if "\ud800" not in bad and "\0" not in bad:
        told = []

        @durable(name="collisions.bad", max_attempts=1)
        def asks(ctx, signal):
            try:
                ctx.wait_for_signal("gate", signal=signal, timeout="1h")
            except InvalidSignalId as error:
                told.append(str(error))
                return "refused"

        instance = workflows.start(asks, {"signal": bad})
        drain()
        assert_done(instance, "refused")
        assert "1 to 200" in told[0]
    assert not Interaction.objects.exists()


@pytest.mark.parametrize("bad", [7, None, b"gate", ["gate"], object()])
def test_what_is_no_text_is_no_signal_id(bad):
    with pytest.raises(InvalidSignalId):
        check_signal_id(bad)


def test_a_name_that_cannot_stand_in_an_address_still_gets_one():
    @durable(name="collisions.named")
    def named(ctx):
        return ctx.wait_for("café / 7", "api")

    instance = workflows.start(named)
    drain()
    found = Interaction.objects.get(instance=instance)
    assert check_signal_id(found.signal_id)
    assert str(instance.id) in found.signal_id
    workflows.complete(found.signal_id, "yes")
    drain()
    assert_done(instance, "yes")


# Unique among the pending ones of a workspace


def test_the_second_creator_fails_and_the_first_keeps_waiting():
    first = park()
    before = Interaction.objects.values().get()
    second = park()
    failed = assert_failed(second, "SignalCollision")
    assert "'the-gate' is taken" in failed.error
    assert Interaction.objects.values().get() == before
    assert_awaiting(first, "the-gate")
    check_all_folds()


def test_a_collision_opens_nothing():
    park()
    second = park()
    assert not AwaitUnit.objects.filter(instance=second).exists()
    assert not Interaction.objects.filter(instance=second).exists()
    assert Instance.objects.get(pk=second.pk).asked == 0


def test_a_collision_is_never_retried():
    park()
    second = workflows.start(gate)
    assert drain() == {"stop": 1}
    assert second.events.filter(kind="run_failed").count() == 0
    assert advance("1h") == {"stop": 1}  # the first one's deadline, and nothing of the second's
    assert Instance.objects.get(pk=second.pk).fence == 1


def test_a_collision_can_be_caught_at_the_wait():
    @durable(name="collisions.catching")
    def catching(ctx):
        try:
            return ctx.wait_for_signal("gate", signal="the-gate", timeout="1h")
        except SignalCollision as error:
            return ctx.wait_for_signal("other", signal=f"{error.signal_id}-2", timeout="1h")

    first = park()
    second = workflows.start(catching)
    drain()
    assert_awaiting(second, "the-gate-2")
    workflows.complete("the-gate-2", "second")
    workflows.complete("the-gate", "first")
    drain()
    assert_done(first, "first")
    assert_done(second, "second")


def test_a_collision_that_was_caught_is_told_to_every_later_run():
    """A run that is replayed must go the same way, whether or not the id has become free meanwhile."""
    caught = []

    @durable(name="collisions.again")
    def again(ctx):
        try:
            ctx.wait_for_signal("gate", signal="the-gate", timeout="1h")
        except SignalCollision:
            caught.append(1)
        return ctx.wait_for_signal("other", timeout="1h")

    park()
    second = workflows.start(again)
    drain()
    workflows.complete(f"other-{second.id}", "late")
    drain()
    assert_done(second, "late")
    assert len(caught) == 2


def test_one_run_that_asks_twice_for_one_id_collides_with_itself():
    @durable(name="collisions.twice")
    def twice(ctx):
        callbacks = [ctx.callback(f"pay{n}", timeout="1h") for n in range(2)]
        assert len({one.resume_url for one in callbacks}) == 2
        return [ctx.wait_for_signal("a", signal=f"pay0-{ctx.id}", timeout="1h")]

    instance = workflows.start(twice)
    drain()
    assert_failed(instance, "SignalCollision")


def copy_row(**changed: str) -> None:
    """Insert a copy of the only interaction, past the engine."""
    columns = [field.column for field in Interaction._meta.concrete_fields]
    changed = {"id": "gen_random_uuid()", "unit_id": "gen_random_uuid()", **changed}
    names = ", ".join(f'"{name}"' for name in columns)
    values = ", ".join(changed.get(name, f'"{name}"') for name in columns)
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(
            f"INSERT INTO holdpoint_interaction({names}) SELECT {values} FROM holdpoint_interaction ORDER BY id LIMIT 1"
        )


def test_the_constraint_itself_refuses_a_second_pending_row():
    instance = park()
    with pytest.raises(IntegrityError, match="holdpoint_interaction_signal"):
        copy_row()
    assert Interaction.objects.count() == 1
    with transaction.atomic():
        # A row of another workspace, or one that is not pending, is none of its business.
        copy_row(workspace_id=str(workflows.workspace.create("acme").pk))
        copy_row(status="2", closed_at="now()")
        copy_row(status="2", closed_at="now()")
        assert Interaction.objects.count() == 4
        transaction.set_rollback(True)  # no event tells of these rows
    assert_awaiting(instance, "the-gate")


# Free again


@pytest.mark.parametrize("how", ["completed", "expired", "cancelled", "late"])
def test_it_is_free_again_after(how):
    first = park()
    if how == "completed":
        workflows.complete("the-gate", 1)
    elif how == "expired":
        advance("1h")
    elif how == "cancelled":
        workflows.cancel(first)
    else:
        from workflows.testing import _skew

        _skew(connection, 3601)
        with pytest.raises(workflows.InteractionResolved):
            workflows.complete("the-gate", 1)
    # … at once, whether or not its instance has gone on.
    second = workflows.start(gate)
    drain()
    assert_awaiting(second, "the-gate")
    statuses = Interaction.objects.order_by("id").values_list("status", flat=True)
    assert list(statuses) == [{"late": "expired"}.get(how, how), "pending"]
    workflows.complete("the-gate", "mine")
    drain()
    assert_done(second, "mine")
    check_all_folds()


def test_it_is_free_again_when_its_instance_ends_without_having_waited():
    @durable(name="collisions.leaves")
    def leaves(ctx):
        assert ctx.callback("pay", timeout="1h").resume_url
        return "left"

    first = workflows.start(leaves)
    drain()
    assert_done(first, "left")
    assert Interaction.objects.get().status == "cancelled"
    second = park(f"pay-{first.id}")
    assert_awaiting(second)


def test_a_collider_that_is_retried_takes_the_id_when_it_is_free():
    first = park()
    second = park()
    workflows.complete("the-gate", "first")
    drain()
    workflows.retry(second)
    drain()
    assert_awaiting(second, "the-gate")
    workflows.complete("the-gate", "second")
    drain()
    assert_done(first, "first")
    assert_done(second, "second")


# Workspaces


def test_two_workspaces_may_use_the_same_id():
    workflows.workspace.create("acme")
    here, there = park(), park(workspace="acme")
    assert_awaiting(here, "the-gate")
    assert_awaiting(there, "the-gate")
    assert workflows.complete("the-gate", "there", workspace="acme").instance == there.id
    drain()
    assert_done(there, "there")
    assert_awaiting(here, "the-gate")
    with pytest.raises(workflows.InteractionResolved):
        workflows.complete("the-gate", "again", workspace="acme")
    assert workflows.complete("the-gate", "here").instance == here.id


def test_nobody_completes_what_another_workspace_asks():
    workflows.workspace.create("acme")
    workflows.workspace.create("other")
    there = park(workspace="acme")
    found = Interaction.objects.get(instance=there)
    before = list(Interaction.objects.values())
    for target in (found.id, "the-gate"):
        with pytest.raises(UnknownInteraction):
            workflows.complete(target, 1)
        with pytest.raises(UnknownInteraction), workflows.workspace("other"):
            workflows.complete(target, 1)
        with pytest.raises(workflows.UnknownWorkspace):
            workflows.complete(target, 1, workspace="nowhere")
    with pytest.raises(UnknownInteraction):
        workflows.complete(found, 1, workspace="other")  # insisting on a workspace beats the row's own
    assert list(Interaction.objects.values()) == before
    assert workflows.complete(found, 1).instance == there.id  # the row itself says where it lives


def test_inside_a_step_the_workspace_is_the_instances():
    workflows.workspace.create("acme")

    @durable(name="collisions.answering")
    def answering(ctx):
        return str(ctx.step("answer", lambda: str(workflows.complete("the-gate", "from within").instance)))

    here, there = park(), park(workspace="acme")
    helper = workflows.start(answering, workspace="acme")
    drain()
    assert_done(helper, str(there.id))
    assert_done(there, "from within")
    assert_awaiting(here, "the-gate")


def test_completing_what_is_no_address_says_what_is():
    for bad in (7, None, Done(), b"gate"):
        with pytest.raises(workflows.InvalidCall, match="signal id"):
            workflows.complete(bad, 1)
