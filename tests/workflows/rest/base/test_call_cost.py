"""What a call over HTTP costs the database: statements, and that none of them begins or ends a transaction.

Counted on a connection outside of any transaction, as a web process has it; and once as what libpq sends, because what
a connection asks to see whether it still lives (`CONN_HEALTH_CHECKS`) goes past Django.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from django.contrib.auth.models import Permission, User
from django.core.cache import cache
from django.db import ProgrammingError, connections, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext

import workflows
from tests.support.api_calls import Api, make_key
from tests.support.statements import exact_statements as statements
from workflows import Await, Done, Workflow, durable, step
from workflows.access.api_keys import forget_keys
from workflows.api.refused import flush_dropped
from workflows.models import ApiKey, Interaction, LedgerEvent
from workflows.store.ledger.tallies import read_tallies
from workflows.testing import drain

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("committed")]

SCHEMA = {"type": "object", "properties": {"ok": {"type": "boolean"}}, "required": ["ok"]}
ANSWER = {"data": {"ok": True}}


class CostOrder(Workflow):
    name = "cost-order"

    @step
    def ask(self, ctx):
        return Await("paid", then="end")

    @step
    def end(self, ctx):
        return Done()


@durable(name="cost-question")
def question(ctx):
    return ctx.wait_for_signal("gate", timeout="1d", schema=SCHEMA)


@pytest.fixture
def api() -> Api:
    """A caller whose key this process knows."""
    cache.clear()
    api = Api(make_key())
    assert api.get("/v1/instances").status_code == 200
    return api


def park() -> Interaction:
    started = workflows.start("cost-question")
    drain()
    return Interaction.objects.get(instance=started)


def by_signal(found: Interaction) -> str:
    return f"/v1/signals/{found.signal_id}/complete"


def by_id(found: Interaction) -> str:
    return f"/v1/interactions/{found.pk}/complete"


BOTH = pytest.mark.parametrize("address", [by_signal, by_id])
Address = Callable[[Interaction], str]


@BOTH
def test_a_completion_takes_two_statements_and_no_transaction(api, address: Address):
    path = address(park())
    with statements(2):
        assert api.post(path, ANSWER).status_code == 200


@contextmanager
def sent_to_the_server(count: int, tmp_path: Path) -> Iterator[None]:
    """So many round trips, whoever asks for them, of a connection that looks whether it still lives."""
    db = connections["default"]
    db.ensure_connection()
    db.health_check_enabled, db.health_check_done = True, False  # as at the beginning of a request
    with (tmp_path / "trace").open("w+") as trace:
        db.connection.pgconn.trace(trace.fileno())
        yield
        db.connection.pgconn.untrace()
        trace.seek(0)
        asked = [line for line in trace if re.search(r"\tF\t\d+\t(Sync|Query)\b", line)]
    assert len(asked) == count, asked


@BOTH
def test_looking_whether_the_connection_lives_takes_no_round_trip(api, address: Address, tmp_path):
    path = address(park())
    api.get("/v1/instances", limit=1)
    with sent_to_the_server(2, tmp_path):
        assert api.post(path, ANSWER).status_code == 200


def test_a_connection_that_was_ended_meanwhile_fails_no_call(api):
    path, db = by_id(park()), connections["default"]
    db.health_check_enabled = True
    for end in ("terminate", "close"):
        pid = db.connection.pgconn.backend_pid
        if end == "terminate":
            password = db.settings_dict["PASSWORD"]
            with psycopg.connect(db.connection.info.dsn, password=password, autocommit=True) as other:
                other.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])
        else:
            with socket.socket(fileno=os.dup(db.connection.pgconn.socket)) as line:
                line.shutdown(socket.SHUT_RDWR)
        db.health_check_done = False
        assert api.get(path.removesuffix("/complete")).status_code == 200
        assert db.connection.pgconn.backend_pid != pid


def test_a_connection_that_is_not_as_it_should_be_is_asked(tmp_path):
    db = connections["default"]
    db.ensure_connection()
    db.errors_occurred = True
    with sent_to_the_server(1, tmp_path):
        assert db.is_usable()
    db.errors_occurred = False
    with transaction.atomic():
        with pytest.raises(ProgrammingError), db.cursor() as cursor:
            cursor.execute("SELECT nonsense")
        assert not db.is_usable()
        transaction.set_rollback(True)
    assert db.is_usable()


@BOTH
def test_a_project_that_puts_a_transaction_around_each_request_puts_none_around_a_call(api, address, monkeypatch):
    monkeypatch.setitem(connections["default"].settings_dict, "ATOMIC_REQUESTS", True)
    path = address(park())
    with statements(2):
        assert api.post(path, {"data": {"ok": "perhaps"}}).status_code == 422
    with statements(2):
        assert api.post(path, ANSWER).status_code == 200


@BOTH
def test_one_more_with_a_key_that_this_process_has_not_seen(api, address: Address):
    path = address(park())
    forget_keys()
    with statements(3):
        assert api.post(path, ANSWER).status_code == 200


@BOTH
def test_an_idempotency_key_costs_a_completion_no_statement(api, address: Address):
    path, once = address(park()), {"Idempotency-Key": "k"}
    with statements(2):
        first = api.post(path, ANSWER, once)
    with statements(1):
        assert api.post(path, ANSWER, once).content == first.content


@BOTH
def test_a_refused_completion_takes_one_for_its_row_in_the_ledger(api, address: Address):
    path = address(park())
    with statements(2):
        assert api.post(path, {"data": {"ok": "perhaps"}}).status_code == 422
        # Judged as late as any other answer: whoever comes too late should hear that.
    with statements(2):
        assert api.post(path, {"dtaa": {}}).status_code == 422
    with statements(0):
        assert api.post(path, {"data": 1, "dtaa": {}}).status_code == 400
        assert api.post(path, raw=b"{").status_code == 400


@BOTH
def test_a_cancelled_question_costs_what_one_does_that_never_was(api, address: Address):
    """So that nobody learns by the time it takes which of them it was; the ledger tells of it a moment later."""
    workflows.workspace.create("cost-other")
    with workflows.workspace("cost-other"):
        foreign = park()
    cancelled, unknown = park(), Interaction(pk=uuid4(), signal_id="nothing:1")
    workflows.cancel(cancelled.instance)
    asked = []
    for found in (unknown, foreign, cancelled):
        path = address(found)
        with CaptureQueriesContext(connections["default"]) as captured:
            told = [api.post(path, ANSWER).content for _ in range(3)]
        asked.append((len(captured), set(told)))
    assert asked == [(3, set(told))] * 3
    refused = LedgerEvent.objects.filter(kind="refused")
    assert not refused.exists()
    assert flush_dropped()
    [row] = refused  # and not one per attempt: the rest is counted
    assert (row.instance_id, row.actor) == (cancelled.instance_id, f"key:{ApiKey.objects.get().pk}")
    assert (row.data["refused"], row.data["interaction"]) == ("UnknownInteraction", str(cancelled.pk))
    assert read_tallies(connections["default"], cancelled.workspace_id)["dropped", "unknown"] == 3 + 3 + 2


def test_a_start_and_a_signal_take_one_statement_each(api):
    with statements(1):
        id = api.post("/v1/instances", {"workflow": "cost-order", "key": "a"}).json()["id"]
    for path, more in ((f"/v1/instances/{id}/signals", {}), ("/v1/keys/a/signals", {}), ("/v1/signals", {"key": "a"})):
        with statements(1):
            assert api.post(path, {"name": "paid", **more}).status_code == 202


def test_an_idempotency_key_takes_two_more_and_a_transaction_where_the_effect_cannot_keep_the_answer(api):
    once = {"Idempotency-Key": "k"}
    with statements(3, wrapping=2):
        api.post("/v1/instances", {"workflow": "cost-order", "key": "a"}, once)
    with statements(2, wrapping=2):
        api.post("/v1/instances", {"workflow": "cost-order", "key": "a"}, once)
    with statements(3, wrapping=2):
        api.post("/v1/keys/a/signals", {"name": "paid"}, once)


@pytest.mark.parametrize(("count", "needed"), [(1, 2), (100, 2), (500, 2), (501, 4)])
def test_many_signals_take_as_many_statements_as_their_batches(api, count, needed):
    started = workflows.start_many("cost-order", [{}] * count)
    drain()
    body = [{"instance": str(one.pk), "name": "other"} for one in started]
    api.get("/v1/instances", limit=1)  # that took a while, and a key is remembered for two seconds
    with statements(needed - needed // 2):
        told = api.post("/v1/signals/bulk", body)
    assert {one["status"] for one in told.json()["results"]} == {202}
    wake: list[Any] = [{**one, "name": "paid"} for one in body]
    with statements(needed):
        api.post("/v1/signals/bulk", wake)


def test_nothing_is_asked_for_a_caller_who_may_not_call(api):
    path = by_signal(park())
    with statements(0):
        assert Api().post(path, ANSWER).status_code == 401
        assert Api("hp nonsense").post(path, ANSWER).status_code == 401
    with statements(1):
        assert Api("hp_unknown").post(path, ANSWER).status_code == 401
    weak = Api(make_key("read"))
    weak.get("/v1/instances")
    with statements(0):
        assert weak.post(path, ANSWER).status_code == 403


def test_a_session_takes_five_more(api):
    """The session, the user, the permissions of the user and of the groups, and the workspaces."""
    user, client = User.objects.create_user("cost-ann"), Client()
    user.user_permissions.add(Permission.objects.get(codename="complete_interaction"))
    client.force_login(user)
    path = by_signal(park())
    with statements(2 + 5):
        assert Api(client=client).post(path, ANSWER).status_code == 200
