"""A provider's message is taken once, however often and from wherever it comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.db import OperationalError, connection, connections
from psycopg import errors

import workflows
from tests.support.hook_posts import counted, post, signed
from tests.support.statements import MODES, explain, listen
from workflows import Await, Done, Workflow, hook, step, store
from workflows.hooks import HookMessage
from workflows.models import HookReceipt, Instance
from workflows.testing import advance
from workflows.worker.housekeeping import tidy

pytestmark = pytest.mark.django_db

EVENT = {"id": "evt_1", "pending": 2}


class HookOnce(Workflow):
    name = "hook-once"

    @step
    def ask(self, ctx: Any) -> Await:
        return Await("paid", then="end")

    @step
    def end(self, ctx: Any) -> Done:
        return Done()


@pytest.fixture(autouse=True)
def starts() -> None:
    @hook("starts", verify=signed)
    def start(message: HookMessage) -> Any:
        return {"instance": str(workflows.start(HookOnce).pk)}


def test_a_message_that_comes_again_is_told_the_first_answer() -> None:
    first, again = post("starts", EVENT), post("starts", EVENT)
    assert (first.status_code, again.status_code) == (200, 200)
    assert again.content == first.content
    assert "Idempotency-Replayed" not in first.headers
    assert again.headers["Idempotency-Replayed"] == "true"
    assert Instance.objects.count() == 1
    assert counted() == {"taken": 1, "repeated": 1}


def test_it_is_known_by_its_id_and_not_by_its_bytes() -> None:
    """Providers write some members anew each time, such as how many addresses have not taken it yet."""
    first = post("starts", EVENT)
    assert post("starts", EVENT | {"pending": 1}).content == first.content
    assert post("starts", EVENT | {"id": "evt_2"}).content != first.content
    assert Instance.objects.count() == 2


def test_an_id_belongs_to_its_hook_and_its_workspace() -> None:
    workflows.workspace.create("acme")

    @hook("other", verify=signed)
    @hook("tenants", verify=signed, workspace=lambda message: message.data["account"])
    def start(message: HookMessage) -> None:
        workflows.start(HookOnce)

    post("starts", EVENT)
    post("other", EVENT)
    for account in ("default", "acme", "acme"):
        post("tenants", EVENT | {"account": account})
    assert Instance.objects.count() == 4


def test_a_message_that_was_not_taken_is_not_known() -> None:
    tries: list[int] = []

    @hook("tries", verify=signed)
    def take(message: HookMessage) -> None:
        tries.append(1)
        workflows.start(HookOnce)
        if len(tries) == 1:
            raise RuntimeError
        if len(tries) == 2:
            workflows.signal("nobody", "paid")

    assert [post("tries", EVENT).status_code for _ in range(4)] == [500, 409, 200, 200]
    assert len(tries) == 3
    assert Instance.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_a_deadlock_is_tried_again_and_doubles_nothing() -> None:
    tries: list[int] = []

    @hook("locks", verify=signed)
    def take(message: HookMessage) -> None:
        tries.append(1)
        workflows.start(HookOnce)
        if len(tries) == 1:
            raise OperationalError from errors.DeadlockDetected()

    assert post("locks", EVENT).status_code == 200
    assert len(tries) == 2
    assert Instance.objects.count() == 1
    assert HookReceipt.objects.count() == 1


# --- how long it is known -------------------------------------------------------------------------------------------


def test_a_message_is_known_for_thirty_days(settings: Any) -> None:
    db = connections["default"]
    post("starts", EVENT)
    advance("29d")
    post("starts", EVENT | {"id": "evt_2"})
    assert store.prune_receipts(db) == 0
    advance("2d")
    tidy(db)
    assert [one.event_id for one in HookReceipt.objects.all()] == ["evt_2"]
    settings.WORKFLOWS = {**settings.WORKFLOWS, "HOOK_RETENTION": "1d"}
    assert store.prune_receipts(db) == 1
    settings.WORKFLOWS = {**settings.WORKFLOWS, "HOOK_RETENTION": "100000w"}
    assert store.prune_receipts(db) == 0


def test_more_than_a_batch_goes_at_once() -> None:
    for n in range(5):
        post("starts", EVENT | {"id": f"evt_{n}"})
    advance("31d")
    assert store.prune_receipts(connection, batch=2, batches=2) == 4
    assert store.prune_receipts(connection, batch=2, batches=2) == 1


def test_receipts_are_found_by_their_id_and_pruned_by_their_age_through_indexes() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO holdpoint_hook_receipt (workspace_id, at, hook, event_id, answer) "
            "SELECT 1, now() - n * interval '1 min', 'h' || n % 10, 'evt_' || n, '' FROM generate_series(1, 5000) n"
        )
        cursor.execute("ANALYZE holdpoint_hook_receipt")
    for mode in MODES:
        told = plan(mode, lambda: store.reserve_receipt(connection, 1, "h7", "evt_4997"))
        assert "holdpoint_hook_receipt_once" in told
        told = plan(mode, lambda: store.prune_receipts(connection))
        assert "holdpoint_hook_receipt_age" in told


def plan(mode: str, call: Callable[[], Any]) -> str:
    told = "\n".join(explain(mode, *one) for one in listen(call))
    assert "Seq Scan" not in told, told
    return told
