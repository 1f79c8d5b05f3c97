"""An atomic step that asks several questions: its locks come in the order of all others, and after author code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

import pytest
from django.db import connection, transaction

import workflows
from tests.support.database import db
from tests.support.races import COMMITTED, Other, play, take, take_one, work
from workflows import Await, Done, PolicyRefused, Workflow, any_of, event, instance, question, step, store
from workflows.models import Instance, Interaction
from workflows.testing import assert_done, drain

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]

_NOW = "SELECT id FROM holdpoint_instance WHERE id = %(id)s::uuid FOR NO KEY UPDATE NOWAIT"


class AtomicOther(Workflow):
    name = "atomic-questions-other"

    @step
    def a(self, ctx):
        return Await("go", then="a")


class AtomicAsking(Workflow):
    name = "atomic-questions"

    @step(atomic=True)
    def a(self, ctx):
        what = {"first": question("chat"), "happened": event("happened"), "second": question("chat")}
        if "other" in ctx.input:
            what["ended"] = instance(UUID(ctx.input["other"]))
        return Await(any_of(**{id: what[id] for id in ctx.input["asks"]}), then=ctx.input.get("then", "end"))

    @step(atomic=True)
    def leave(self, ctx):
        ctx.withdraw("second")
        return Await(event("happened"), then="end")

    @step
    def end(self, ctx):
        return Done(sorted(ctx.answers))


def is_free(one: Instance) -> bool:
    """Locks it in this transaction, which gives up at once where somebody else has it."""
    return bool(store.fetch(connection, _NOW, {"id": str(one.pk)}))


def check_order(hold: Callable[[], Any], asking: Instance) -> None:
    """Somebody has what comes before the asking instance: it is waited for before that one is locked."""
    claim = take_one()
    assert claim.id == str(asking.pk)
    with transaction.atomic():
        hold()
        other = Other(lambda: play(claim))
        other.wait_until_blocked()
        assert is_free(asking)
    assert other.join() is store.RunEnd.COMMITTED


def test_the_instance_whose_end_is_waited_for_is_locked_in_the_order_of_ids() -> None:
    other = workflows.start(AtomicOther)
    work()
    asking = workflows.start(AtomicAsking, {"asks": ["first", "ended"], "other": str(other.pk)})
    assert other.pk < asking.pk
    check_order(lambda: is_free(other), asking)
    workflows.cancel(other)
    drain()
    assert_done(asking, ["ended"])


def test_the_lock_of_an_event_comes_before_that_of_the_instance() -> None:
    asking = workflows.start(AtomicAsking, {"asks": ["first", "happened"]})
    check_order(lambda: workflows.emit("happened", 1), asking)
    drain()
    assert_done(asking, ["happened"])


def test_the_lock_of_an_event_comes_before_what_was_withdrawn_is_closed() -> None:
    asking = workflows.start(AtomicAsking, {"asks": ["first", "second"], "then": "leave"})
    work()
    workflows.complete(Interaction.objects.get(unit__step="first"), None)
    check_order(lambda: workflows.emit("happened", 1), asking)
    assert not Interaction.objects.filter(status="pending").exists()


def test_the_policy_is_asked_about_all_of_them_before_the_instance_is_locked(
    settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rival, asked = db().copy(), []

    def decide(operation: str, interaction: Any, actor: str) -> None:
        asked.append((operation, bool(store.fetch(rival, _NOW, {"id": str(asking.pk)}))))

    settings.WORKFLOWS = {"POLICY": f"{__name__}.decide"}
    monkeypatch.setitem(globals(), "decide", decide)
    asking = workflows.start(AtomicAsking, {"asks": ["first", "happened", "second"]})
    try:
        work()
    finally:
        rival.close()
    assert asked == [("suspend", True)] * 3
    asking.refresh_from_db()
    assert asking.status == "awaiting"


def test_what_the_policy_refuses_leaves_none_of_them_open(settings: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def decide(operation: str, interaction: Any, actor: str) -> None:
        if interaction.signal_id.startswith("second"):
            raise PolicyRefused(operation, "not this one")

    settings.WORKFLOWS = {"POLICY": f"{__name__}.decide"}
    monkeypatch.setitem(globals(), "decide", decide)
    asking = workflows.start(AtomicAsking, {"asks": ["first", "second"]})
    work()
    asking.refresh_from_db()
    assert asking.status == "failed"
    assert not Interaction.objects.exists()
    assert take() == []
