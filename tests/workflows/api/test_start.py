"""Starting: what an instance is given, who started it, when it runs, and many at once."""

import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from datetime import timezone as dt_timezone
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import connection, transaction
from django.db.models.signals import post_init
from django.test import override_settings
from django.utils import timezone

import workflows
from workflows import Await, Done, DuplicateKey, InvalidCall, Next, UnknownWorkflow, UnknownWorkspace, Workflow, step
from workflows.lifecycle import Status
from workflows.models import Instance, LedgerEvent
from workflows.testing import advance, assert_awaiting, assert_done, drain

pytestmark = pytest.mark.django_db


class Taker(Workflow):
    name = "InputTaker"

    @step
    def a(self, ctx):
        return Done([ctx.input, ctx.state])


class Holder(Workflow):
    name = "InputHolder"

    @step
    def a(self, ctx):
        return Await("go", then="b")

    @step
    def b(self, ctx):
        return Done()


# --- the input ------------------------------------------------------------------------------------


def test_an_input_left_out_is_an_empty_object() -> None:
    instance = workflows.start(Taker)
    assert instance.input == {}
    drain()
    assert_done(instance, [{}, {}])


@pytest.mark.parametrize("input", [{"order": 1}, [], [1, 2], "text", "", 0, 5, False, {}])
def test_an_input_may_be_any_json_value(input: Any) -> None:
    instance = workflows.start(Taker, input)
    drain()
    assert_done(instance, [input, input])


def test_the_state_begins_as_a_copy_of_the_input() -> None:
    class InputCopy(Workflow):
        @step
        def a(self, ctx):
            ctx.state["items"].append(2)
            return Next("b", {"now": ctx.input, "state": ctx.state})

        @step
        def b(self, ctx):
            return Done([ctx.input, ctx.state])

    instance = workflows.start(InputCopy, {"items": [1]})
    drain()
    one, two = {"items": [1]}, {"items": [1, 2]}
    assert_done(instance, [one, {"now": one, "state": two}])


def test_the_input_never_changes_even_if_a_step_changes_what_it_read() -> None:
    class InputKept(Workflow):
        @step
        def a(self, ctx):
            ctx.input["added"] = True
            return Next("b")

        @step
        def b(self, ctx):
            return Done(ctx.input)

    instance = workflows.start(InputKept, {"n": 1})
    drain()
    assert_done(instance, {"n": 1})
    instance.refresh_from_db()
    assert (instance.input, instance.state) == ({"n": 1}, {"n": 1})


def test_the_callers_object_is_not_shared_with_the_instance() -> None:
    given = {"items": [1]}
    instance = workflows.start(Taker, given)
    given["items"].append(2)
    assert instance.input == {"items": [1]}


# --- what start returns -----------------------------------------------------------------------------


def test_the_instance_returned_is_the_row_that_was_written() -> None:
    returned = workflows.start(Taker, {"n": 1}, key="k", actor="cron")
    stored = Instance.objects.get(pk=returned.pk)
    for field in Instance._meta.concrete_fields:
        assert getattr(returned, field.attname) == getattr(stored, field.attname), field.attname
    assert returned.state == stored.state == {"n": 1}
    assert (returned._state.adding, returned._state.db) == (stored._state.adding, stored._state.db)
    assert returned.workspace == stored.workspace
    assert returned == stored


def test_whoever_listens_for_new_models_hears_of_started_ones() -> None:
    heard: list[Instance] = []

    def hear(instance: Instance, **kwargs: Any) -> None:
        heard.append(instance)

    post_init.connect(hear, sender=Instance)
    try:
        returned = workflows.start(Taker)
    finally:
        post_init.disconnect(hear, sender=Instance)
    assert heard == [returned]


@pytest.fixture
def put_zone(committed: None, settings: Any) -> Iterator[Callable[[bool, str | None], None]]:
    """Change how moments are read, as a project's settings do."""
    before = connection.settings_dict["TIME_ZONE"]

    def put(use_tz: bool, zone: str | None) -> None:
        settings.USE_TZ = use_tz
        connection.settings_dict["TIME_ZONE"] = zone
        for name in ("timezone", "timezone_name"):
            connection.__dict__.pop(name, None)
        connection.close()  # the next one is made for it

    yield put
    put(True, before)


@pytest.mark.parametrize(
    ("use_tz", "zone"), [(True, None), (True, "Europe/Berlin"), (True, "America/New_York"), (False, None)]
)
def test_the_moments_returned_are_those_that_django_reads(
    put_zone: Callable[[bool, str | None], None], use_tz: bool, zone: str | None
) -> None:
    put_zone(use_tz, zone)
    twice = [datetime(2037, 10, 25, hour, 30, tzinfo=UTC) for hour in (0, 1)]  # half past two in Berlin, twice
    for run_at in (None, *twice):
        given = run_at if use_tz or run_at is None else timezone.make_naive(run_at)
        returned = workflows.start(Taker, run_at=given)
        stored = Instance.objects.get(pk=returned.pk)
        for name in ("created_at", "due_at"):
            mine, djangos = getattr(returned, name), getattr(stored, name)
            assert (mine.isoformat(), mine.tzinfo, mine.fold) == (djangos.isoformat(), djangos.tzinfo, djangos.fold)


def test_a_started_instance_is_runnable_in_its_first_step() -> None:
    instance = workflows.start(Taker, key="order-1")
    assert (instance.status, instance.step, instance.attempt, instance.key) == (Status.RUNNABLE, "a", 0, "order-1")
    assert (instance.workflow, instance.version, instance.parent_id) == ("InputTaker", 1, None)
    event = instance.events.get()
    assert (event.seq, event.kind, event.status, event.name) == (1, "started", Status.RUNNABLE, "a")


def test_a_start_that_is_rolled_back_never_happened() -> None:
    with transaction.atomic():
        workflows.start(Taker, key="k")
        transaction.set_rollback(True)
    assert drain() == {}
    assert not Instance.objects.exists()
    assert not LedgerEvent.objects.exists()


# --- actor ------------------------------------------------------------------------------------------


def test_the_actor_is_kept_as_started_by_and_in_the_ledger() -> None:
    instance = workflows.start(Taker, actor="nightly import")
    assert instance.started_by == "nightly import"
    assert instance.events.get().actor == "nightly import"


def test_nobody_is_a_fine_actor() -> None:
    assert workflows.start(Taker).started_by == ""
    assert workflows.start(Taker, actor=None).started_by == ""


def test_a_user_as_actor_is_kept_by_primary_key() -> None:
    user = User.objects.create_user("ann")
    assert workflows.start(Taker, actor=user).started_by == f"user:{user.pk}"
    [many] = workflows.start_many(Taker, [{}], actor=user)
    assert many.started_by == f"user:{user.pk}"


def test_a_user_that_was_not_saved_is_no_actor() -> None:
    with pytest.raises(InvalidCall, match="saved user"):
        workflows.start(Taker, actor=User(username="ghost"))
    assert not Instance.objects.exists()


# --- run_at -----------------------------------------------------------------------------------------


def test_run_at_in_the_future_sleeps_until_then() -> None:
    instance = workflows.start(Taker, run_at=timezone.now() + timedelta(hours=2))
    assert instance.status == Status.SLEEPING
    advance("1h59m")
    instance.refresh_from_db()
    assert instance.status == Status.SLEEPING
    advance("2m")
    assert_done(instance)


def test_run_at_in_the_past_runs_at_once() -> None:
    instance = workflows.start(Taker, run_at=datetime(2001, 1, 1, tzinfo=UTC))
    assert instance.status == Status.RUNNABLE
    assert instance.due_at >= instance.created_at
    drain()
    assert_done(instance)


def test_a_sleeper_takes_signals_and_keeps_its_key() -> None:
    class InputSleeper(Workflow):
        @step
        def a(self, ctx):
            return Done([s.payload for s in ctx.inbox])

    instance = workflows.start(InputSleeper, key="k", run_at=timezone.now() + timedelta(hours=1))
    with pytest.raises(DuplicateKey):
        workflows.start(InputSleeper, key="k")
    assert not workflows.signal("k", "early", 1).woke
    assert drain() == {}
    advance("61m")
    assert_done(instance, [1])


@pytest.mark.parametrize("run_at", ["2030-01-01", 5, timedelta(hours=1), timezone.now().date(), datetime(2030, 1, 1)])
def test_run_at_is_a_datetime_with_a_time_zone(run_at: Any) -> None:
    with pytest.raises(InvalidCall, match="run_at"):
        workflows.start(Taker, run_at=run_at)
    assert not Instance.objects.exists()


@override_settings(USE_TZ=False, TIME_ZONE="UTC")
def test_run_at_may_be_naive_where_the_project_is() -> None:
    instance = workflows.start(Taker, run_at=datetime(2130, 1, 1))
    assert instance.status == Status.SLEEPING


def test_run_at_beyond_what_a_datetime_holds_in_utc_is_refused_and_nothing_is_stored() -> None:
    with pytest.raises(InvalidCall, match="beyond what a datetime holds"):
        workflows.start(Taker, run_at=datetime.max.replace(tzinfo=dt_timezone(timedelta(hours=-5))))
    assert not Instance.objects.exists()


def test_run_at_may_be_as_late_as_a_datetime_goes() -> None:
    instance = workflows.start(Taker, run_at=datetime.max.replace(tzinfo=UTC))
    assert instance.status == Status.SLEEPING
    assert advance("3650d") == {}


# --- workspaces ---------------------------------------------------------------------------------------


def test_the_workspace_is_the_default_one_unless_it_is_named() -> None:
    workflows.workspace.create("acme")
    assert workflows.start(Taker).workspace.slug == "default"
    assert workflows.start(Taker, workspace="acme").workspace.slug == "acme"
    with workflows.workspace("acme"):
        assert workflows.start(Taker).workspace.slug == "acme"
        assert workflows.start(Taker, workspace="default").workspace.slug == "default"


def test_a_workspace_that_does_not_exist_is_an_error_and_nothing_is_stored() -> None:
    with pytest.raises(UnknownWorkspace, match=r"workflows\.workspace\.create\('nowhere'\)"):
        workflows.start(Taker, workspace="nowhere")
    with pytest.raises(UnknownWorkspace):
        workflows.start_many(Taker, [{}, {}], workspace="nowhere")
    assert not Instance.objects.exists()


def test_one_key_may_be_held_in_two_workspaces() -> None:
    workflows.workspace.create("acme")
    workflows.start(Holder, key="k")
    assert workflows.start(Holder, key="k", workspace="acme").key == "k"


# --- keys ---------------------------------------------------------------------------------------------


def test_a_second_live_instance_with_the_key_is_refused_and_names_the_first() -> None:
    first = workflows.start(Holder, key="order-1")
    with pytest.raises(DuplicateKey, match=str(first.pk)) as caught:
        workflows.start(Taker, key="order-1")
    assert caught.value.instance == first
    assert caught.value.key == "order-1"
    assert Instance.objects.count() == 1
    assert LedgerEvent.objects.count() == 1


def test_a_refused_start_leaves_the_callers_transaction_usable() -> None:
    workflows.start(Holder, key="order-1")
    with transaction.atomic():
        with pytest.raises(DuplicateKey):
            workflows.start(Holder, key="order-1")
        workflows.start(Holder, key="order-2")
    assert Instance.objects.count() == 2


def test_a_key_is_free_again_when_its_instance_ends() -> None:
    first = workflows.start(Taker, key="k")
    drain()
    assert_done(first)
    assert workflows.start(Taker, key="k").pk != first.pk


def test_keys_that_look_alike_are_different() -> None:
    for key in ("k", "K", " k", "k ", "ﬁ", "fi", "e\u0301", "é"):
        workflows.start(Holder, key=key)
    assert Instance.objects.count() == 8


# --- many at once -------------------------------------------------------------------------------------


def test_many_are_started_in_the_order_of_their_inputs() -> None:
    instances = workflows.start_many(Taker, ({"n": n} for n in range(1_200)))
    assert [one.input["n"] for one in instances] == list(range(1_200))
    assert [one.pk for one in instances] == sorted(one.pk for one in instances)
    assert Instance.objects.count() == LedgerEvent.objects.count() == 1_200


def test_starting_none_is_fine() -> None:
    assert workflows.start_many(Taker, []) == []
    assert workflows.start_many(Taker, [], keys=[]) == []


def test_none_among_the_inputs_is_an_input_left_out() -> None:
    assert [one.input for one in workflows.start_many(Taker, [None, {"n": 1}])] == [{}, {"n": 1}]


def test_keys_go_with_the_inputs() -> None:
    instances = workflows.start_many(Holder, [{}, {}, {}], keys=["a", None, "b"])
    assert [one.key for one in instances] == ["a", None, "b"]


@pytest.mark.parametrize("keys", [[], ["a"], ["a", "b", "c"]])
def test_there_must_be_as_many_keys_as_inputs(keys: list[str]) -> None:
    with pytest.raises(InvalidCall, match="one per input"):
        workflows.start_many(Holder, [{}, {}], keys=keys)
    assert not Instance.objects.exists()


def test_one_taken_key_starts_none_of_many() -> None:
    first = workflows.start(Holder, key="k700")
    with pytest.raises(DuplicateKey) as caught:
        workflows.start_many(Holder, [{}] * 800, keys=[f"k{n}" for n in range(800)])
    assert caught.value.instance == first
    assert Instance.objects.count() == LedgerEvent.objects.count() == 1


def test_a_key_given_twice_starts_none_of_many() -> None:
    with pytest.raises(DuplicateKey) as caught:
        workflows.start_many(Holder, [{}, {}], keys=["k", "k"])
    assert caught.value.key == "k"
    assert not Instance.objects.exists()


def test_on_duplicate_return_gives_the_live_holder_of_a_taken_key() -> None:
    first = workflows.start(Holder, {"first": True}, key="b")
    drain()
    a, b, again = workflows.start_many(
        Holder, [{"n": 1}, {"n": 2}, {"n": 3}], keys=["a", "b", "a"], on_duplicate="return"
    )
    assert (b.pk, b.input) == (first.pk, {"first": True})
    assert again.pk == a.pk
    assert (a.input, again.input) == ({"n": 1}, {"n": 1})
    assert_awaiting(b)
    assert Instance.objects.count() == 2


def test_on_duplicate_return_finds_all_holders_in_few_statements(django_assert_max_num_queries: Any) -> None:
    keys = [f"k{n}" for n in range(300)]
    holders = workflows.start_many(Holder, [{}] * 300, keys=keys)
    with django_assert_max_num_queries(10):  # savepoints included
        again = workflows.start_many(Holder, [{}] * 300, keys=keys, on_duplicate="return")
    assert [one.pk for one in again] == [one.pk for one in holders]
    with django_assert_max_num_queries(10):
        mixed = workflows.start_many(
            Holder,
            [{}] * 400,
            keys=[*keys[:200], *[None] * 100, *[f"new{n}" for n in range(100)]],
            on_duplicate="return",
        )
    assert [one.pk for one in mixed[:200]] == [one.pk for one in holders[:200]]
    assert len({one.pk for one in mixed}) == 400


@pytest.mark.parametrize("on_duplicate", ["ignore", "", None, True])
def test_on_duplicate_is_one_of_two_words(on_duplicate: Any) -> None:
    with pytest.raises(InvalidCall, match='"raise" or "return"'):
        workflows.start_many(Holder, [{}], on_duplicate=on_duplicate)


def test_many_of_an_unknown_workflow_are_refused() -> None:
    with pytest.raises(UnknownWorkflow):
        workflows.start_many("Nobody", [{}])


# --- by id, by key ------------------------------------------------------------------------------------


def test_an_instance_is_its_own_id() -> None:
    instance = workflows.start(Holder, key="k")
    drain()
    for target in (instance, instance.pk, "k"):
        assert workflows.signal(target, "other").id.startswith(f"{instance.pk}:")


@pytest.mark.parametrize("target", [None, 5, b"k", ["k"], object()])
def test_what_addresses_nothing_is_no_target(target: Any) -> None:
    for call in (
        lambda: workflows.signal(target, "go"),
        lambda: workflows.cancel(target),
        lambda: workflows.retry(target),
    ):
        with pytest.raises(workflows.InvalidTarget):
            call()


def test_an_id_as_text_is_a_key_and_found_nowhere() -> None:
    instance = workflows.start(Holder)
    with pytest.raises(workflows.NoTarget):
        workflows.signal(str(instance.pk), "go")
    with pytest.raises(workflows.NoTarget):
        workflows.signal(uuid.uuid4(), "go")
