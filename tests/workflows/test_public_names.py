"""What other code may rely on: names, models that only read, ids, `ctx`, `result`."""

import copy
import inspect
import json
import pickle
import pkgutil
import threading
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core import serializers
from django.core.exceptions import ValidationError
from django.db import connections, transaction
from django.utils import timezone

import workflows
from tests.support.processes import run_python
from workflows import Await, Child, Done, EngineOwned, InvalidCall, Next, Retry, Spawn, Stop, Workflow, step, store
from workflows.lifecycle import Status
from workflows.models import Instance, LedgerEvent, Signal, Workspace
from workflows.testing import advance, assert_awaiting, assert_done, assert_failed, drain
from workflows.uuid7 import make_uuid7

STEP_STYLE = "all_of any_of Await Channel Child Done Next Retry Spawn Stop Workflow event step"
FUNCTION_STYLE = "durable Asked callback child instance question received"
FLOW_CONTROL = "Concurrency Rate"
CHANNELS = "Webhook"
MACHINE_STYLE = "END FAIL Machine action branch collect expand flow launch parallel sleep wait_for"
CALLS = (
    "cancel complete complete_many emit fail fork hook lifecycle_events pause redrive result retry retry_item signal "
    "signal_many start start_many unpause workspace "
    "disable_schedule enable_schedule list_next_ticks run_schedule schedule unschedule "
    "acancel acomplete acomplete_many aemit afork apause aresult aretry aschedule asignal asignal_many astart "
    "astart_many aunpause aunschedule"
)
VALUES = "Answer Completion CompletionResult Delivery ItemResult LifecycleEvent Signal"
CONTEXTS = "FunctionContext MachineContext StepContext"
ERRORS = """
    AnswerElsewhere CallRaised ChildCancelled ChildFailed ClaimLost DispatchFailed DuplicateCheckpoint DuplicateKey
    DuplicateWorkflow EngineOwned IdempotencyConflict InstanceCancelled InstanceFailed InteractionRefused
    InteractionResolved
    InvalidCall InvalidData InvalidDefinition InvalidDuration InvalidInput InvalidOutcome InvalidSchema
    InvalidSignalId InvalidTarget Kafka LeftTransactionOpen NoReader NoTarget NonDeterministic NotCancellable
    NotFinished NotForkable NotRedrivable NotRetryable NotSerializable PolicyRefused ProjectionFailed SignalCollision
    SignalTimeoutError StaleVersion
    StepTimedOut StrictIsolation TooComplex TooLarge TooMany UnitFailed UnknownInteraction UnknownLimit UnknownPoint
    UnknownQueue
    UnknownStep UnknownWorkflow UnknownWorkspace WorkflowError
    DuplicateSchedule InvalidSchedule ScheduleBusy UnknownSchedule WorkspaceFull
"""


# --- names ----------------------------------------------------------------------------------------


def test_the_export_list_is_this_one() -> None:
    assert workflows.__all__ == sorted(
        f"{STEP_STYLE} {FUNCTION_STYLE} {MACHINE_STYLE} {FLOW_CONTROL} "
        f"{CONTEXTS} {CALLS} {CHANNELS} {VALUES} {ERRORS}".split()
    )


def test_no_module_takes_the_place_of_an_exported_name() -> None:
    # Importing a module workflows.complete would replace the function workflows.complete.
    modules = {found.name for found in pkgutil.iter_modules(workflows.__path__)}
    assert not modules & set(workflows.__all__)


def test_every_export_can_be_imported_and_listed() -> None:
    for name in workflows.__all__:
        assert getattr(workflows, name) is not None
    assert set(workflows.__all__) <= set(dir(workflows))
    scope: dict[str, Any] = {}
    exec("from workflows import *", scope)
    assert set(workflows.__all__) <= set(scope)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'workflows' has no attribute 'nothing'"):
        _ = workflows.nothing  # type: ignore[attr-defined]


def test_importing_workflows_loads_no_model_and_needs_no_settings() -> None:
    loaded = run_python(
        "import sys, workflows\n"
        "print(sorted(m for m in sys.modules if m.startswith(('django.db', 'workflows.', 'psycopg'))))"
    )
    assert loaded == "['workflows.importing', 'workflows.importing.moved_modules']"


def test_defining_a_workflow_loads_no_model_and_needs_no_settings() -> None:
    script = (
        "import sys\n"
        "from workflows import Workflow, step, Next, Await, Retry, Spawn, Child, Done, Stop, WorkflowError\n"
        "class Ship(Workflow):\n"
        "    @step\n"
        "    def a(self, ctx): return Await('paid', then='a', timeout='24h')\n"
        "from django.conf import settings\n"
        "print('workflows.models' in sys.modules, settings.configured)"
    )
    assert run_python(script) == "False False"


@pytest.mark.parametrize(
    ("call", "signature"),
    [
        ("start", "workflow input=None * key=None workspace=None run_at=None queue=None priority=None actor=''"),
        (
            "start_many",
            "workflow inputs * keys=None workspace=None on_duplicate='raise' queue=None priority=None actor=''",
        ),
        ("signal", "target name payload=None * dedup_key=None workspace=None actor='' start=None input=None"),
        ("signal_many", "signals * workspace=None actor=''"),
        ("cancel", "instance reason='' * workspace=None actor=''"),
        ("retry", "instance * workspace=None actor=''"),
        ("result", "instance timeout=0 * workspace=None"),
        ("Next", "step state=UNSET * delay=None consume=() queue=None priority=None key=None"),
        ("Await", "what * then state=UNSET timeout=None until=None"),
        ("Retry", "state=UNSET * delay=None"),
        ("Spawn", "children * then state=UNSET"),
        ("Done", "result=None"),
        ("Stop", "reason"),
        ("Child", "workflow input=None * key=None queue=None priority=None"),
        ("step", "method=None * atomic=False step_timeout=None"),
    ],
)
def test_calls_and_outcomes_take_these_arguments(call: str, signature: str) -> None:
    words = []
    for one in inspect.signature(getattr(workflows, call)).parameters.values():
        if one.kind is one.KEYWORD_ONLY and "*" not in words:
            words.append("*")
        words.append(one.name if one.default is one.empty else f"{one.name}={one.default!r}")
    assert " ".join(words) == signature


@pytest.mark.parametrize(
    "name",
    [*STEP_STYLE.split(), *CONTEXTS.split(), *CALLS.split(), *VALUES.split(), *ERRORS.split()],
)
def test_everything_exported_says_what_it_is(name: str) -> None:
    thing = getattr(workflows, name)
    assert inspect.getdoc(thing if inspect.isroutine(thing) or inspect.isclass(thing) else type(thing))


# --- models that only read --------------------------------------------------------------------------


class Plain(Workflow):
    name = "SurfacePlain"

    @step
    def ask(self, ctx):
        return Await("go", then="end", timeout="24h")

    @step
    def end(self, ctx):
        how = ctx.awaited[0].payload if ctx.awaited else None
        return Stop("as asked") if how == "stop" else Done({"paid": how})


@pytest.fixture
def instance(db: None) -> Instance:
    started = workflows.start(Plain, {"n": 1}, key="k")
    drain()
    workflows.signal(started, "note", 1)
    return assert_awaiting(started, "go")


WRITES = {
    "create": lambda rows: rows.create(),
    "get_or_create": lambda rows: rows.get_or_create(),
    "update_or_create": lambda rows: rows.update_or_create(),
    "bulk_create": lambda rows: rows.bulk_create([rows.first()]),
    "bulk_update": lambda rows: rows.bulk_update(rows.all(), ["workspace"]),
    "update": lambda rows: rows.all().update(workspace=None),
    "delete": lambda rows: rows.all().delete(),
    "filter update": lambda rows: rows.filter(pk__isnull=False).update(workspace=None),
}


@pytest.mark.parametrize("model", [Instance, Signal, LedgerEvent])
@pytest.mark.parametrize("write", WRITES)
def test_querysets_of_the_engine_refuse_to_write(instance: Instance, model: Any, write: str) -> None:
    before = list(model.objects.order_by("pk").values())
    with pytest.raises(EngineOwned, match="written by the engine only"):
        WRITES[write](model.objects)
    assert list(model.objects.order_by("pk").values()) == before


@pytest.mark.parametrize("model", [Instance, Signal, LedgerEvent])
def test_rows_of_the_engine_refuse_to_be_saved_or_deleted(instance: Instance, model: Any) -> None:
    row = model.objects.first()
    for call in (row.save, row.delete, lambda: row.save(update_fields=["workspace"])):
        with pytest.raises(EngineOwned, match=r"workflows\.start, signal, emit, complete, cancel or retry"):
            call()


@pytest.mark.parametrize("related", ["signals", "events", "children"])
def test_related_managers_refuse_to_write_too(instance: Instance, related: str) -> None:
    rows = getattr(instance, related)
    for call in (lambda: rows.create(), lambda: rows.all().update(workspace=None), lambda: rows.all().delete()):
        with pytest.raises(EngineOwned):
            call()


def test_related_managers_cannot_move_rows_either(instance: Instance) -> None:
    other = workflows.start(Plain)
    for call in (
        lambda: instance.children.add(other),
        lambda: instance.children.set([other]),
        lambda: instance.children.add(other, bulk=False),
        lambda: instance.children.clear(),
        lambda: instance.children.remove(other),
    ):
        with pytest.raises((EngineOwned, Instance.DoesNotExist)), transaction.atomic():
            call()
    assert not instance.children.exists()


@pytest.mark.parametrize("stored", [False, True])
def test_a_copied_or_pickled_instance_reads_the_same(instance: Instance, stored: bool) -> None:
    if stored:
        instance.refresh_from_db()
    for copied in (copy.deepcopy(instance), copy.copy(instance), pickle.loads(pickle.dumps(instance))):
        assert copied == instance
        assert copied.state == instance.state == {"n": 1}


@pytest.mark.parametrize("outcome", [Next("a"), Retry(), Spawn([], then="a"), Await("x", then="a")], ids=repr)
def test_a_copied_or_pickled_outcome_means_the_same(outcome: Any) -> None:
    for copied in (copy.deepcopy(outcome), pickle.loads(pickle.dumps(outcome))):
        assert copied == outcome
        assert copied.state is outcome.state


@pytest.mark.parametrize("model", [Instance, Signal, LedgerEvent, Workspace])
def test_rows_can_be_dumped_as_fixtures(instance: Instance, model: Any) -> None:
    assert json.loads(serializers.serialize("json", model.objects.all()))


@pytest.mark.parametrize("call", ["asave", "adelete"])
def test_the_async_ways_to_write_a_row_are_refused_too(instance: Instance, call: str) -> None:
    from asgiref.sync import async_to_sync

    with pytest.raises(EngineOwned):
        async_to_sync(getattr(instance, call))()


def test_reading_works_like_any_model(instance: Instance) -> None:
    assert Instance.objects.filter(status="awaiting", workspace__slug="default", key="k").get() == instance
    assert Instance.objects.filter(status__in=[Status.AWAITING, "running"]).exists()
    assert Instance.objects.exclude(status=Status.AWAITING).count() == 0
    assert Instance.objects.filter(input__n=1).get().pk == instance.pk
    assert list(Instance.objects.values_list("status", flat=True)) == ["awaiting"]
    assert Instance.objects.live().count() == 1
    assert Instance.objects.ended().count() == 0
    assert Instance.objects.select_related("workspace", "parent").get().workspace.slug == "default"
    assert [one.name for one in instance.signals.all()] == ["note"]
    assert Workspace.objects.get(slug="default").instance_set.count() == 1
    workflows.signal(instance, "go", 5)
    drain()
    instance.refresh_from_db()
    assert instance.result == {"paid": 5}
    assert Instance.objects.ended().get() == instance


def test_an_unknown_status_in_a_query_says_which_there_are(instance: Instance) -> None:
    with pytest.raises(ValidationError, match="awaiting_children"):
        Instance.objects.filter(status="waiting").exists()


def test_a_host_may_point_a_foreign_key_at_an_instance() -> None:
    assert Instance._meta.pk.name == "id"
    assert Instance._meta.pk.get_internal_type() == "UUIDField"


PUBLIC = "id workspace workflow version key status step state input result error attempt parent started_by created_at"


@pytest.mark.parametrize("name", [*PUBLIC.split(), "finished_at"])
def test_an_instance_has_the_promised_fields(instance: Instance, name: str) -> None:
    assert hasattr(instance, name)


def test_models_show_themselves_briefly(instance: Instance) -> None:
    assert str(instance) == "SurfacePlain k"
    assert str(instance.signals.get()) == "note #3"
    assert str(instance.events.first()) == "started #1"
    assert str(instance.workspace) == "default"
    assert str(workflows.start(Plain)).startswith("SurfacePlain 0")


def test_a_signal_has_the_id_that_its_delivery_gave(instance: Instance) -> None:
    delivered = workflows.signal(instance, "note", 2)
    assert instance.signals.last().id == delivered.id


# --- ids ----------------------------------------------------------------------------------------------


def test_ids_are_uuids_of_version_7_and_sort_by_age() -> None:
    ids = [make_uuid7() for _ in range(20_000)]
    assert ids == sorted(ids)
    assert [str(one) for one in ids] == sorted(str(one) for one in ids)
    assert len(set(ids)) == len(ids)
    assert {(one.version, one.variant) for one in ids} == {(7, uuid.RFC_4122)}


def test_an_id_tells_when_it_was_made() -> None:
    made = datetime.fromtimestamp((make_uuid7().int >> 80) / 1000, tz=UTC)
    assert abs(made - datetime.now(tz=UTC)) < timedelta(minutes=1)


def test_ids_made_by_many_threads_are_unique_and_ordered_within_each() -> None:
    found: list[list[uuid.UUID]] = [[] for _ in range(8)]
    threads = [
        threading.Thread(target=lambda mine=mine: mine.extend(make_uuid7() for _ in range(2_000))) for mine in found
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(mine == sorted(mine) for mine in found)
    assert len({one for mine in found for one in mine}) == 16_000


@pytest.mark.django_db
def test_instances_sort_by_age() -> None:
    started = [workflows.start(Plain) for _ in range(20)] + workflows.start_many(Plain, [{}] * 20)
    assert list(Instance.objects.order_by("id")) == started
    assert list(Instance.objects.all()) == started[::-1]


# --- ctx ----------------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_ctx_tells_who_where_and_when() -> None:
    seen: dict[str, Any] = {}

    class SurfaceContext(Workflow):
        @step
        def a(self, ctx):
            for name in ("id", "workspace", "key", "input", "attempt", "now", "step", "state", "timed_out"):
                seen[name] = getattr(ctx, name)
            for name in ("awaited", "inbox", "children"):
                seen[name] = list(getattr(ctx, name))
            return Done()

    workflows.workspace.create("acme")
    instance = workflows.start(SurfaceContext, {"n": 1}, key="k", workspace="acme")
    drain()
    assert_done(instance)
    assert abs(seen.pop("now") - timezone.now()) < timedelta(minutes=1)
    assert seen == {
        "id": instance.pk,
        "workspace": "acme",
        "key": "k",
        "input": {"n": 1},
        "attempt": 0,
        "step": "a",
        "state": {"n": 1},
        "timed_out": False,
        "awaited": [],
        "inbox": [],
        "children": [],
    }


@pytest.mark.django_db
def test_ctx_now_is_the_databases_time_and_has_a_zone() -> None:
    class SurfaceNow(Workflow):
        @step
        def a(self, ctx):
            return Next("b", ctx.now.isoformat(), delay="24h")

        @step
        def b(self, ctx):
            return Done((ctx.now - datetime.fromisoformat(ctx.state)).total_seconds())

    instance = workflows.start(SurfaceNow)
    advance("24h")
    assert assert_done(instance).result == pytest.approx(86_400, abs=5)


@pytest.mark.django_db
def test_a_signal_in_ctx_has_name_payload_received_at_and_source() -> None:
    seen = []

    class SurfaceSignal(Workflow):
        @step
        def ask(self, ctx):
            return Await("go", then="end")

        @step
        def end(self, ctx):
            seen.extend(ctx.awaited)
            return Done()

    instance = workflows.start(SurfaceSignal)
    drain()
    workflows.signal(instance, "go", {"n": 1}, actor="stripe")
    drain()
    [signal] = seen
    assert (signal.name, signal.payload, signal.source) == ("go", {"n": 1}, "stripe")
    assert signal.received_at == instance.signals.get().received_at
    assert signal.received_at.tzinfo is not None


@pytest.mark.django_db
def test_calls_inside_a_step_mean_the_instances_workspace() -> None:
    class SurfaceInside(Workflow):
        @step
        def a(self, ctx):
            made = workflows.start(Plain, key="inner")
            return Done([made.workspace.slug, workflows.signal("inner", "x").refused])

    workflows.workspace.create("acme")
    instance = workflows.start(SurfaceInside, workspace="acme")
    drain()
    assert_done(instance, ["acme", None])
    assert workflows.start(Plain).workspace.slug == "default"


@pytest.mark.django_db
@pytest.mark.parametrize("name", ["id", "input", "attempt", "now", "step", "key", "awaited", "inbox", "children"])
def test_ctx_lets_only_its_state_be_assigned(name: str) -> None:
    class SurfaceReadOnly(Workflow):
        @step
        def a(self, ctx):
            setattr(ctx, name, "changed")
            return Done()

    instance = workflows.start(SurfaceReadOnly)
    drain()
    assert_failed(instance, "AttributeError")


# --- result -------------------------------------------------------------------------------------------


def test_result_of_what_is_not_finished_says_so(instance: Instance) -> None:
    with pytest.raises(workflows.NotFinished, match="awaiting in step 'end'") as caught:
        workflows.result(instance)
    assert caught.value.instance == instance


def test_result_of_a_failed_or_cancelled_instance_raises_with_the_instance(instance: Instance) -> None:
    workflows.signal(instance, "go", "stop")
    drain()
    with pytest.raises(workflows.InstanceFailed, match="as asked") as failed:
        workflows.result(instance.pk)
    assert failed.value.instance == instance
    other = workflows.cancel(workflows.start(Plain), "not needed")
    with pytest.raises(workflows.InstanceCancelled, match="not needed") as cancelled:
        workflows.result(other)
    assert cancelled.value.instance == other


def test_waiting_for_a_result_inside_a_transaction_is_refused(instance: Instance) -> None:
    with pytest.raises(InvalidCall, match="inside a transaction"):
        workflows.result(instance, timeout=1)


@pytest.mark.parametrize("timeout", [-1, "soon", None, True])
def test_the_patience_for_a_result_is_a_duration(instance: Instance, timeout: Any) -> None:
    with pytest.raises(workflows.InvalidDuration):
        workflows.result(instance, timeout=timeout)


@pytest.mark.django_db(transaction=True)
def test_result_waits_no_longer_than_it_was_told() -> None:
    waiting = workflows.start(Plain)
    with pytest.raises(workflows.NotFinished):
        workflows.result(waiting, timeout=0.01)


@pytest.mark.django_db
def test_result_of_nothing_is_no_target() -> None:
    with pytest.raises(workflows.NoTarget):
        workflows.result(uuid.uuid4())


# --- workspaces -----------------------------------------------------------------------------------------


@pytest.mark.django_db
def test_a_default_workspace_exists() -> None:
    assert Workspace.objects.get().slug == "default"


@pytest.mark.django_db
def test_making_a_workspace_twice_returns_the_first() -> None:
    assert workflows.workspace.create("acme") == workflows.workspace.create("acme")


@pytest.mark.django_db
@pytest.mark.parametrize("slug", ["", "with space", "ünï", "a/b", "x" * 101, None, 5])
def test_a_workspace_needs_a_slug(slug: Any) -> None:
    with pytest.raises(InvalidCall):
        workflows.workspace.create(slug)
    assert Workspace.objects.count() == 1


@pytest.mark.django_db
def test_workspaces_are_entered_and_left_and_nested() -> None:
    for slug in ("acme", "other"):
        workflows.workspace.create(slug)

    def here() -> str:
        return workflows.start(Plain).workspace.slug

    with workflows.workspace("acme"):
        with workflows.workspace("other"):
            assert here() == "other"
        assert here() == "acme"
        with pytest.raises(RuntimeError), workflows.workspace("other"):
            raise RuntimeError
        assert here() == "acme"
    assert here() == "default"


@pytest.mark.django_db
def test_nothing_crosses_from_one_workspace_to_another() -> None:
    workflows.workspace.create("acme")
    mine = workflows.start(Plain, key="k")
    drain()
    with workflows.workspace("acme"):
        for target in (mine.pk, "k"):
            with pytest.raises(workflows.NoTarget):
                workflows.signal(target, "go")
            with pytest.raises(workflows.NoTarget):
                workflows.cancel(target)
            with pytest.raises(workflows.NoTarget):
                workflows.result(target)
        assert workflows.signal_many([(mine.pk, "go"), ("k", "go")])[0].refused == "no_target"
    assert_awaiting(mine)
    assert not mine.signals.exists()


# --- workflows.testing ----------------------------------------------------------------------------------


@pytest.mark.django_db
def test_drain_returns_counts_by_outcome() -> None:
    class SurfaceMix(Workflow):
        @step
        def a(self, ctx):
            return Spawn([Child(Plain)], then="b")

        @step
        def b(self, ctx):
            return Done()

    parent = workflows.start(SurfaceMix)
    assert drain() == {"spawn": 1, "await": 1}
    workflows.signal(parent.children.get(), "go")
    assert drain() == {"done": 2}
    assert drain() == {}


@pytest.mark.django_db
def test_drain_of_a_workflow_that_never_ends_raises() -> None:
    class SurfaceEndless(Workflow):
        @step
        def a(self, ctx):
            return Next("a")

    workflows.start(SurfaceEndless)
    with pytest.raises(AssertionError, match="ran 50 steps"):
        drain(max_steps=50)


@pytest.mark.django_db
def test_drain_that_needs_exactly_its_steps_does_not_raise() -> None:
    workflows.start(Plain)
    assert drain(max_steps=1) == {"await": 1}


@pytest.mark.django_db
def test_advance_fires_deadlines_in_their_order_and_what_they_arm() -> None:
    order = []

    class SurfaceOrder(Workflow):
        @step
        def a(self, ctx):
            return Await("go", then="b", timeout=ctx.input["after"])

        @step
        def b(self, ctx):
            order.append(ctx.input["after"])
            return Next("c", delay="1h")

        @step
        def c(self, ctx):
            order.append(ctx.input["after"] + "+1h")
            return Done()

    for after in ("3h", "1h30m", "1h"):
        workflows.start(SurfaceOrder, {"after": after})
    advance("24h")
    assert order == ["1h", "1h30m", "1h+1h", "1h30m+1h", "3h", "3h+1h"]


@pytest.mark.django_db
def test_time_moved_by_advance_is_moved_for_the_databases_clock_only() -> None:
    instance = workflows.start(Plain)
    advance("12h")
    [(ahead,)] = store.fetch(connections["default"], "SELECT extract(epoch FROM holdpoint_now() - now())::float8", {})
    assert ahead == pytest.approx(43_200, abs=5)
    assert_awaiting(instance)
    advance("12h")
    assert_done(instance, {"paid": None})


@pytest.mark.django_db
def test_the_clock_is_right_again_in_the_next_test() -> None:
    [(ahead,)] = store.fetch(
        connections["default"], "SELECT extract(epoch FROM holdpoint_now() - statement_timestamp())::float8", {}
    )
    assert ahead == 0


@pytest.mark.django_db(transaction=True)
def test_advance_outside_a_transaction_is_refused() -> None:
    with pytest.raises(InvalidCall, match="advance"):
        advance("1h")


@pytest.mark.django_db
def test_the_asserts_say_what_is_the_case() -> None:
    instance = workflows.start(Plain)
    for check in (assert_awaiting, assert_done, assert_failed):
        with pytest.raises(AssertionError, match="is runnable in step 'ask'"):
            check(instance)
    drain()
    with pytest.raises(AssertionError, match=r"awaits \['go'\]"):
        assert_awaiting(instance, "other")
    workflows.signal(instance, "go", 1)
    drain()
    with pytest.raises(AssertionError, match="has result"):
        assert_done(instance, {"paid": 2})


def test_a_refused_save_names_the_calls_that_write_such_rows() -> None:
    from approvals.models import Comment, Review

    with pytest.raises(EngineOwned, match=r"approvals\.decide"):
        Review().save()
    with pytest.raises(EngineOwned, match=r"approvals\.comment"):
        Comment().save()
