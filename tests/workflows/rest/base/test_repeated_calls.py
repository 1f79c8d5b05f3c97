"""Calls that come at the same moment, and come again: one effect, one answer, whoever was first.

Each caller has a thread and a connection of its own, as the threads of a server have; where the order matters, the
second is seen waiting for the first before that one ends.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client

import workflows
from tests.support.api_calls import Api, make_key, problem
from tests.support.races import COMMITTED, Other, race, run_threads, work
from workflows import Await, Done, Stop, Workflow, durable, step
from workflows.models import Instance, Interaction, LedgerEvent, NamedEvent, Signal, StoredAnswer
from workflows.store.ledger.retention import prune

pytestmark = [COMMITTED, pytest.mark.usefixtures("committed")]

MANY = 50
KEY = {"Idempotency-Key": "order-7"}


class OnceTakes(Workflow):
    name = "once-takes"

    @step
    def ask(self, ctx: Any) -> Await:
        return Await("paid", then="end")

    @step
    def end(self, ctx: Any) -> Done:
        return Done(ctx.awaited[0].payload)


class OnceBegins(Workflow):
    name = "once-begins"
    on_event = "once.opened"

    @step
    def end(self, ctx: Any) -> Done:
        return Done()


class OnceFails(Workflow):
    name = "once-fails"

    @step
    def end(self, ctx: Any) -> Stop:
        return Stop("as it is meant to")


@durable(name="once-asks")
def asks(ctx: Any) -> Any:
    return ctx.wait_for_signal("gate", signal="once-gate", timeout="1h")


@pytest.fixture(autouse=True)
def alone(settings: Any) -> None:
    """Of all apps there is only the engine (see `COMMITTED`), so what others put around its views is not there."""
    settings.WORKFLOWS = {**settings.WORKFLOWS, "API_RATE": None}
    settings.MIDDLEWARE = []
    settings.ROOT_URLCONF = "workflows.urls"


@pytest.fixture
def key() -> str:
    return make_key()


Send = Callable[[Api], Any]
#: A call, and how often its effect is there. `{id}` is an instance's, `{asked}` a question's.
CALLS: dict[str, tuple[str, Any, Callable[[], int]]] = {
    "complete by id": ("/v1/interactions/{asked}/complete", {"data": 1}, lambda: count_ledger("answered")),
    "complete by signal id": ("/v1/signals/once-gate/complete", {"data": 1}, lambda: count_ledger("answered")),
    "start with a key": ("/v1/instances", {"workflow": "once-takes", "key": "k2"}, lambda: count_started("k2")),
    "start without a key": ("/v1/instances", {"workflow": "once-begins"}, lambda: count_runs("once-begins")),
    "signal by id": (
        "/v1/instances/{id}/signals",
        {"name": "note"},
        lambda: Signal.objects.filter(name="note").count(),
    ),
    "signal by key": ("/v1/keys/k1/signals", {"name": "note"}, lambda: Signal.objects.filter(name="note").count()),
    "signal": ("/v1/signals", {"key": "k1", "name": "note"}, lambda: Signal.objects.filter(name="note").count()),
    "bulk": (
        "/v1/signals/bulk",
        [{"key": "k1", "name": "note"}, {"key": "nobody", "name": "note"}, {"name": 1}],
        lambda: Signal.objects.filter(name="note").count(),
    ),
    "complete many": (
        "/v1/interactions/complete",
        [{"signal_id": "once-gate", "data": 1}, {"signal_id": "nobody", "data": 1}, {"id": 1, "data": 1}],
        lambda: count_ledger("answered"),
    ),
    "event": ("/v1/events", {"event": "once.opened"}, lambda: count_runs("once-begins") * NamedEvent.objects.count()),
    "cancel": ("/v1/instances/{id}/cancel", {"reason": "x"}, lambda: count_ledger("cancelled")),
    "retry": ("/v1/instances/{failed}/retry", {}, lambda: count_ledger("reopened")),
    "fork": ("/v1/instances/{failed}/fork", {}, lambda: Instance.objects.filter(forked_from__isnull=False).count()),
}
EACH = pytest.mark.parametrize("name", CALLS)


def count_ledger(kind: str) -> int:
    return LedgerEvent.objects.filter(kind=kind).count()


def count_started(key: str) -> int:
    return Instance.objects.filter(key=key).count()


def count_runs(workflow: str) -> int:
    return Instance.objects.filter(workflow=workflow).count()


@pytest.fixture
def places() -> dict[str, str]:
    """What the calls are about: a parked instance, one that asks, one that has failed."""
    parked = workflows.start("once-takes", key="k1")
    asking = workflows.start("once-asks")
    failed = workflows.start("once-fails")
    work()
    return {"id": str(parked.pk), "asked": str(Interaction.objects.get(instance=asking).pk), "failed": str(failed.pk)}


def make_call(name: str, places: dict[str, str], headers: dict[str, str] = KEY, body: Any = None) -> Send:
    path, good, _ = CALLS[name]
    return lambda api: api.post(path.format(**places), good if body is None else body, headers)


def send_together(key: str, calls: Sequence[Send]) -> list[Any]:
    """The answers of calls that begin at the same moment."""
    ready = threading.Barrier(len(calls), timeout=60)
    answers: list[Any] = [None] * len(calls)

    def send(n: int) -> None:
        with connection.cursor() as cursor:  # each is connected before any begins
            cursor.execute("SELECT 1")
        ready.wait()
        answers[n] = calls[n](Api(key, Client(raise_request_exception=False)))

    run_threads([lambda n=n: send(n) for n in range(len(calls))], patience=60)  # type: ignore[misc]
    return answers


def find_original(answers: Sequence[Any]) -> Any:
    """The one answer that is no replay; the others have its status and bytes."""
    originals = [one for one in answers if "Idempotency-Replayed" not in one.headers]
    assert len(originals) == 1, Counter((one.status_code, one.content[:200]) for one in answers)
    assert {(one.status_code, one.content) for one in answers} == {(originals[0].status_code, originals[0].content)}
    assert {one.headers["Idempotency-Replayed"] for one in answers if one is not originals[0]} == {"true"}
    assert len({one.headers.get("Location") for one in answers}) == 1
    return originals[0]


# --- many at once ---------------------------------------------------------------------------------------


@EACH
def test_many_duplicates_at_once_have_one_effect_and_one_answer(key: str, places: dict[str, str], name: str) -> None:
    answers = send_together(key, [make_call(name, places)] * MANY)
    original = find_original(answers)
    assert 200 <= original.status_code < 300
    assert CALLS[name][2]() == 1
    assert StoredAnswer.objects.count() == 1


@EACH
def test_different_bodies_under_one_key_at_once_are_one_call_and_conflicts(
    key: str, places: dict[str, str], name: str
) -> None:
    good = CALLS[name][1]
    bodies = [json.dumps(good).encode() + b" " * n for n in range(10)]
    path = CALLS[name][0].format(**places)
    calls: list[Send] = [lambda api, raw=raw: api.post(path, headers=KEY, raw=raw) for raw in bodies]  # type: ignore[misc]
    answers = send_together(key, calls)
    taken = [n for n, one in enumerate(answers) if one.status_code < 300]
    assert len(taken) == 1, [(one.status_code, one.content[:200]) for one in answers]
    for n, one in enumerate(answers):
        if n != taken[0]:
            problem(one, 409, "idempotency-conflict")
    assert CALLS[name][2]() == 1
    again = Api(key).post(path, headers=KEY, raw=bodies[taken[0]])
    assert (again.status_code, again.content) == (answers[taken[0]].status_code, answers[taken[0]].content)


def test_the_payload_that_is_kept_is_the_winners(key: str, places: dict[str, str]) -> None:
    calls = [make_call("complete by id", places, body={"data": n}) for n in range(20)]
    answers = send_together(key, calls)
    [winner] = [n for n, one in enumerate(answers) if one.status_code == 200]
    assert Interaction.objects.get().output == winner
    work()
    assert Instance.objects.get(workflow="once-asks").result == winner


@pytest.mark.parametrize("name", ["complete by id", "complete by signal id"])
def test_of_answers_with_keys_of_their_own_one_is_taken(key: str, places: dict[str, str], name: str) -> None:
    calls = [make_call(name, places, {"Idempotency-Key": f"k{n}"}, {"data": n}) for n in range(20)]
    answers = send_together(key, calls)
    [winner] = [n for n, one in enumerate(answers) if one.status_code == 200]
    for n, one in enumerate(answers):
        if n != winner:
            problem(one, 410, "resolved")
    assert Interaction.objects.get().output == winner
    assert StoredAnswer.objects.count() == 1
    assert Signal.objects.count() == 1


def test_of_starts_with_idempotency_keys_of_their_own_one_gets_the_correlation_key(key: str) -> None:
    calls: list[Send] = [
        lambda api, n=n: api.post("/v1/instances", {"workflow": "once-takes", "key": "k"}, {"Idempotency-Key": f"k{n}"})  # type: ignore[misc]
        for n in range(20)
    ]
    answers = send_together(key, calls)
    [winner] = [one for one in answers if one.status_code == 201]
    held = [problem(one, 409, "duplicate-key")["existing"] for one in answers if one is not winner]
    assert set(held) == {winner.json()["id"]}
    assert Instance.objects.count() == StoredAnswer.objects.count() == 1


# --- the second waits -----------------------------------------------------------------------------------


@EACH
@pytest.mark.parametrize("rollback", [False, True], ids=["the first commits", "the first rolls back"])
def test_a_duplicate_waits_for_the_first_and_then_repeats_or_replaces_it(
    key: str, places: dict[str, str], name: str, rollback: bool
) -> None:
    call = make_call(name, places)
    first, second = race(lambda: call(Api(key)), lambda: call(Api(key)), rollback=rollback)
    assert (second.headers.get("Idempotency-Replayed") is None) is rollback, second
    if rollback:
        assert second.status_code == first.status_code
    else:
        find_original([first, second])
    assert CALLS[name][2]() == 1
    assert StoredAnswer.objects.count() == 1


@pytest.mark.parametrize("name", [name for name in CALLS if not name.startswith("complete")])
def test_another_body_waits_too_and_is_then_a_conflict_or_the_call(key: str, places: dict[str, str], name: str) -> None:
    path, body, _ = CALLS[name]
    raw = json.dumps(body).encode() + b" "
    call = make_call(name, places)
    _, second = race(lambda: call(Api(key)), lambda: Api(key).post(path.format(**places), headers=KEY, raw=raw))
    problem(second, 409, "idempotency-conflict")
    assert CALLS[name][2]() == 1


@EACH
def test_another_key_does_not_wait_for_the_answer_of_the_first(key: str, places: dict[str, str], name: str) -> None:
    """Only for the rows that both change, where there are any."""
    other = {"Idempotency-Key": "order-8"}
    path, body, _ = CALLS[name]
    waits = name not in ("start without a key", "fork")
    call = make_call(name, places)
    answers = race(lambda: call(Api(key)), lambda: Api(key).post(path.format(**places), body, other), waits=waits)
    assert "Idempotency-Replayed" not in answers[1].headers
    assert answers[1].status_code in {answers[0].status_code, 409, 410}


def test_a_call_without_a_key_is_never_a_duplicate(key: str, places: dict[str, str]) -> None:
    answers = send_together(key, [make_call("signal", places, headers={})] * 10)
    assert len({one.json()["id"] for one in answers}) == 10
    assert Signal.objects.count() == 10
    assert not StoredAnswer.objects.exists()


# --- what is stored -------------------------------------------------------------------------------------

REFUSED: dict[str, tuple[str, Any, int]] = {
    "unknown": ("/v1/instances/01900000-0000-7000-8000-000000000000/signals", {"name": "note"}, 404),
    "unknown key": ("/v1/signals", {"key": "nobody", "name": "note"}, 404),
    "unknown workflow": ("/v1/instances", {"workflow": "nothing"}, 422),
    "held": ("/v1/instances", {"workflow": "once-takes", "key": "k1"}, 409),
    "not possible": ("/v1/instances/{id}/retry", {}, 409),
    "shape": ("/v1/signals", {"key": "k1", "name": "note", "x": 1}, 400),
    "reserved": ("/v1/signals", {"key": "k1", "name": "holdpoint:x"}, 400),
    "stale": ("/v1/interactions/{asked}/complete", {"data": 1, "version": 99}, 409),
    "no data": ("/v1/interactions/{asked}/complete", {}, 422),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_is_not_kept_and_the_key_is_free_for_the_call_as_it_should_have_been(
    key: str, places: dict[str, str], name: str
) -> None:
    path, body, status = REFUSED[name]
    answers = send_together(key, [lambda api: api.post(path.format(**places), body, KEY)] * 10)
    assert [one.status_code for one in answers] == [status] * 10
    assert len({one.content for one in answers}) == 1
    assert all("Idempotency-Replayed" not in one.headers for one in answers)
    assert not StoredAnswer.objects.exists()
    mended: dict[str, Any] = {
        "/v1/instances": {"workflow": "once-takes"},
        "/v1/signals": {"key": "k1", "name": "note"},
        "/v1/interactions/{asked}/complete": {"data": 1},
    }
    if path in mended:
        assert Api(key).post(path.format(**places), mended[path], KEY).status_code < 300


def test_a_replay_of_a_start_names_its_address_also_when_the_instance_is_gone(key: str) -> None:
    api = Api(key)
    first = api.post("/v1/instances", {"workflow": "once-begins"}, KEY)
    work()
    with connection.cursor() as cursor:  # as long ago as a short RETENTION takes
        cursor.execute(
            "UPDATE holdpoint_instance SET finished_at = now() - interval '2 d', created_at = now() - interval '3 d'"
        )
    assert [one.instances for one in prune(connection, older_than=86_400)] == [1]
    assert not Instance.objects.exists()
    again = api.post("/v1/instances", {"workflow": "once-begins"}, KEY)
    assert (again.status_code, again.content) == (201, first.content)
    assert again.headers["Location"] == first.headers["Location"]


# --- deadlocks ------------------------------------------------------------------------------------------


def test_a_call_that_loses_a_deadlock_is_carried_out_again(key: str, places: dict[str, str]) -> None:
    """Its answer is reserved first, then the instance is locked; here somebody takes them the other way round."""
    call = make_call("signal", places)
    call(Api(key))  # to know the row that stands for this call
    known = StoredAnswer.objects.get()
    digest, workspace = bytes(known.digest), known.workspace_id
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM holdpoint_answer")
        # Whoever looks for a deadlock finds it and ends it by losing: that has to be the call.
        cursor.execute("SET deadlock_timeout = '1min'")
        try:
            with transaction.atomic():
                cursor.execute("SELECT 1 FROM holdpoint_instance WHERE id = %s FOR UPDATE", [places["id"]])
                other = Other(lambda: call(Api(key)))
                other.wait_until_blocked()
                cursor.execute(
                    "INSERT INTO holdpoint_answer (workspace_id, digest, body_hash, at, status, body) "
                    "VALUES (%s, %s, ''::bytea, now(), 0, '') ON CONFLICT DO NOTHING",
                    [workspace, digest],
                )
                transaction.set_rollback(True)
        finally:
            cursor.execute("RESET deadlock_timeout")
    answer = other.join()
    assert answer.status_code == 202, answer
    assert Signal.objects.count() == 2
    assert StoredAnswer.objects.count() == 1
