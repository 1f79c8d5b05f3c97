"""Atomic steps: the author's database writes and the outcome are one commit.

Django's groups stand in for an author's business rows.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction

import workflows
from tests.support.database import db
from workflows import Await, Child, Done, Next, Retry, Spawn, Stop, Workflow, engine, step, store
from workflows.engine.author_calls import Host
from workflows.lifecycle import Status
from workflows.models import Instance, LedgerEvent, Signal
from workflows.store import Address
from workflows.testing import assert_awaiting, assert_done, assert_failed, drain

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def rival() -> Iterator[Any]:
    """A second connection, as another process has."""
    other = db().copy()
    yield other
    other.close()


def read(rival: Any, statement: str, **params: Any) -> list[tuple[Any, ...]]:
    return store.fetch(rival, statement, params)


def names() -> list[str]:
    return sorted(Group.objects.values_list("name", flat=True))


class Leaf(Workflow):
    name = "AtomicLeaf"

    @step
    def a(self, ctx):
        return Done()


@pytest.mark.parametrize(
    "outcome",
    [
        pytest.param(lambda: Done(), id="Done"),
        pytest.param(lambda: Stop("reason"), id="Stop"),
        pytest.param(lambda: Next("b"), id="Next"),
        pytest.param(lambda: Next("b", delay=60), id="Next with delay"),
        pytest.param(lambda: Await("go", then="b"), id="Await"),
        pytest.param(lambda: Retry(delay=60), id="Retry"),
        pytest.param(lambda: Spawn([Child(Leaf), Child(Leaf)], then="b"), id="Spawn"),
        pytest.param(lambda: Spawn([], then="b"), id="Spawn of none"),
    ],
)
def test_the_authors_writes_commit_with_the_outcome_exactly_once(outcome: Any) -> None:
    class AtomicOnce(Workflow):
        @step(atomic=True)
        def a(self, ctx):
            Group.objects.create(name=f"written by {ctx.id}")
            return outcome()

        @step
        def b(self, ctx):
            return Done()

    instance = workflows.start(AtomicOnce)
    drain()
    assert names() == [f"written by {instance.pk}"]
    instance.refresh_from_db()
    assert instance.status not in (Status.RUNNABLE, Status.RUNNING)
    assert instance.events.count() == LedgerEvent.objects.filter(instance=instance).latest("seq").seq


def test_neither_the_writes_nor_the_outcome_are_seen_before_the_other(rival: Any) -> None:
    seen = []

    class AtomicHidden(Workflow):
        @step(atomic=True)
        def a(self, ctx):
            Group.objects.create(name="hidden")
            seen.extend(read(rival, "SELECT count(*) FROM auth_group"))
            return Done()

    workflows.start(AtomicHidden)
    drain()
    assert seen == [(0,)]
    assert read(rival, "SELECT g.name, i.status FROM auth_group g, holdpoint_instance i") == [
        ("hidden", Status.DONE.code)
    ]


def test_the_claim_is_committed_before_the_atomic_step_runs(rival: Any) -> None:
    class AtomicClaim(Workflow):
        @step(atomic=True)
        def a(self, ctx):
            return Done(read(rival, "SELECT status, fence, runs FROM holdpoint_instance"))

    instance = workflows.start(AtomicClaim)
    drain()
    assert_done(instance, [[Status.RUNNING.code, 1, 1]])


def test_an_exception_rolls_back_the_authors_writes_then_handles_outcome_commits_on_its_own() -> None:
    class AtomicHandled(Workflow):
        @step(atomic=True)
        def a(self, ctx):
            Group.objects.create(name="rolled back")
            raise RuntimeError("no")

        @step
        def b(self, ctx):
            return Done(ctx.state)

        def handle(self, error, ctx):
            Group.objects.create(name="by handle")
            return Next("b", {"handled": str(error)})

    instance = workflows.start(AtomicHandled)
    drain()
    assert_done(instance, {"handled": "no"})
    assert names() == ["by handle"]


def test_an_exception_without_handle_fails_the_instance_and_rolls_back() -> None:
    class AtomicFails(Workflow):
        @step(atomic=True)
        def a(self, ctx):
            Group.objects.create(name="rolled back")
            raise RuntimeError("no")

    instance = workflows.start(AtomicFails)
    drain()
    assert_failed(instance, "RuntimeError: no")
    assert names() == []


def test_a_database_error_in_an_atomic_step_rolls_back_and_reaches_handle() -> None:
    class AtomicIntegrity(Workflow):
        @step(atomic=True)
        def a(self, ctx):
            Group.objects.create(name="twice")
            Group.objects.create(name="twice")
            return Done()

        def handle(self, error, ctx):
            return Done(isinstance(error, IntegrityError))

    instance = workflows.start(AtomicIntegrity)
    drain()
    assert_done(instance, True)
    assert names() == []


def test_a_database_error_that_the_author_caught_without_a_savepoint_reaches_handle() -> None:
    class AtomicBroken(Workflow):
        @step(atomic=True)
        def a(self, ctx):
            Group.objects.create(name="twice")
            try:
                Group.objects.create(name="twice")
            except IntegrityError:
                return Done("as if nothing had happened")

    instance = workflows.start(AtomicBroken)
    drain()
    assert_failed(instance, "TransactionManagementError")
    assert names() == []


@pytest.mark.parametrize(
    "outcome",
    [
        pytest.param(lambda: Done(object()), id="unserialisable result"),
        pytest.param(lambda: Next("nowhere"), id="unknown step"),
        pytest.param(lambda: None, id="no outcome"),
        pytest.param(lambda: Spawn([Child(Leaf), Child(Leaf, key="taken")], then="a"), id="taken key"),
        pytest.param(lambda: Spawn([Child("Nobody")], then="a"), id="unknown child"),
    ],
)
def test_a_bad_outcome_of_an_atomic_step_rolls_back_its_writes_too(outcome: Any) -> None:
    class AtomicHolder(Workflow):
        @step
        def a(self, ctx):
            return Await("go", then="a")

    class AtomicBadOutcome(Workflow):
        @step(atomic=True)
        def a(self, ctx):
            Group.objects.create(name="rolled back")
            return outcome()

    workflows.start(AtomicHolder, key="taken")
    instance = workflows.start(AtomicBadOutcome)
    drain()
    assert_failed(instance)
    assert names() == []
    assert Instance.objects.count() == 2


def test_exit_in_an_atomic_step_rolls_back_its_writes() -> None:
    class AtomicExit(Workflow):
        @step(atomic=True)
        def a(self, ctx):
            Group.objects.create(name="rolled back")
            raise SystemExit(1)

    instance = workflows.start(AtomicExit)
    drain()
    assert names() == []
    instance.refresh_from_db()
    assert (instance.status, instance.runs) == (Status.SLEEPING, 1)


@pytest.mark.parametrize("how", ["reclaimed", "claimed again", "cancelled"])
def test_a_lost_claim_rolls_back_the_authors_writes(rival: Any, how: str) -> None:
    class AtomicLost(Workflow):
        handled: list[Exception] = []

        @step(atomic=True)
        def a(self, ctx):
            Group.objects.create(name="stale")
            if how == "cancelled":
                read(
                    rival,
                    "UPDATE holdpoint_instance SET status = 12, fence = fence + 1, due_at = NULL, "
                    "finished_at = now() WHERE id = %(id)s RETURNING 1",
                    id=ctx.id,
                )
            else:
                store.reclaim(rival)
                if how == "claimed again":
                    store.claim(rival, 1)
            return Done("stale")

        def handle(self, error, ctx):
            AtomicLost.handled.append(error)
            return Done("handled")

    instance = workflows.start(AtomicLost)
    [claim] = store.claim(db(), 1, lease=0.0)
    assert engine.run(claim, Host(db(), "default")) is store.RunEnd.LOST
    assert names() == []
    assert AtomicLost.handled == []
    instance.refresh_from_db()
    assert instance.result is None
    assert instance.fence == (3 if how == "claimed again" else 2)
    assert not LedgerEvent.objects.filter(instance=instance, kind="done").exists()


def test_the_run_after_a_lost_claim_writes_once() -> None:
    class AtomicAgain(Workflow):
        @step(atomic=True)
        def a(self, ctx):
            Group.objects.create(name="once")
            return Done()

    instance = workflows.start(AtomicAgain)
    [stale] = store.claim(db(), 1, lease=0.0)
    store.reclaim(db())
    assert engine.run(stale, Host(db(), "default")) is store.RunEnd.LOST
    assert names() == []
    drain()
    assert_done(instance)
    assert names() == ["once"]


def test_deliveries_never_wait_for_the_authors_code(rival: Any) -> None:
    class AtomicDelivery(Workflow):
        @step(atomic=True)
        def a(self, ctx):
            Group.objects.create(name="slow work")
            read(rival, "SELECT set_config('lock_timeout', '1s', false)")
            to = Address("id", ctx.id, "default")
            sent = store.deliver(rival, to, "go", "1", dedup="k", source="")
            return Await("go", then="b", state={"n": sent.n})

        @step
        def b(self, ctx):
            return Done([s.payload for s in ctx.awaited])

    instance = workflows.start(AtomicDelivery)
    drain()
    assert_done(instance, [1])
    assert names() == ["slow work"]


def test_a_signal_sent_by_an_atomic_step_that_fails_was_never_sent() -> None:
    class AtomicTarget(Workflow):
        @step
        def a(self, ctx):
            return Await("go", then="a")

    class AtomicSender(Workflow):
        @step(atomic=True)
        def a(self, ctx):
            workflows.signal("target", "go")
            workflows.start(AtomicTarget, key="started by the step")
            raise RuntimeError("no")

    target = workflows.start(AtomicTarget, key="target")
    drain()
    sender = workflows.start(AtomicSender)
    drain()
    assert_failed(sender)
    assert_awaiting(target, "go")
    assert Signal.objects.count() == 0
    assert Instance.objects.count() == 2


def test_an_atomic_step_may_use_savepoints_of_its_own() -> None:
    class AtomicSavepoint(Workflow):
        @step(atomic=True)
        def a(self, ctx):
            Group.objects.create(name="kept")
            try:
                with transaction.atomic():
                    Group.objects.create(name="undone")
                    raise ValueError
            except ValueError:
                return Done()

    instance = workflows.start(AtomicSavepoint)
    drain()
    assert_done(instance)
    assert names() == ["kept"]


def test_on_commit_hooks_of_an_atomic_step_run_after_the_outcome_is_committed(rival: Any) -> None:
    seen = []

    class AtomicHooks(Workflow):
        @step(atomic=True)
        def a(self, ctx):
            transaction.on_commit(lambda: seen.extend(read(rival, "SELECT status FROM holdpoint_instance")))
            return Done()

    workflows.start(AtomicHooks)
    drain()
    assert seen == [(Status.DONE.code,)]


def test_steps_are_not_atomic_unless_they_say_so() -> None:
    class AtomicNot(Workflow):
        @step
        def plain(self, ctx):
            return Done()

        @step()
        def called(self, ctx):
            return Done()

        @step(atomic=True)
        def asked(self, ctx):
            return Done()

    assert [options.atomic for options in AtomicNot.definition.steps.values()] == [False, False, True]


def test_a_plain_steps_writes_are_committed_as_they_are_made(rival: Any) -> None:
    class AtomicPlain(Workflow):
        @step
        def a(self, ctx):
            Group.objects.create(name="at once")
            return Done(read(rival, "SELECT count(*) FROM auth_group"))

        def handle(self, error, ctx):
            raise error

    instance = workflows.start(AtomicPlain)
    [claim] = store.claim(db(), 1)
    engine.settle(db(), [engine.run(claim, Host(db(), "default"))])
    assert_done(instance, [[1]])


def test_a_plain_step_that_raises_keeps_the_writes_it_made() -> None:
    class AtomicPlainRaises(Workflow):
        @step
        def a(self, ctx):
            Group.objects.create(name="outside the transaction")
            raise RuntimeError("no")

    instance = workflows.start(AtomicPlainRaises)
    [claim] = store.claim(db(), 1)
    engine.settle(db(), [engine.run(claim, Host(db(), "default"))])
    assert_failed(instance)
    assert names() == ["outside the transaction"]
