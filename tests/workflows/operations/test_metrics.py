"""/metrics: who sees which numbers, what they are called, and that nothing holds it up."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from django.db import connection, connections, transaction
from django.test import Client
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

import workflows
from tests.support.clocks import stopped_clock
from tests.support.database import db
from tests.support.horizon import wait_for_foreigners
from tests.support.ledger_rows import execute, fill_pending
from tests.support.processes import find_environment
from tests.support.races import play, settle
from tests.support.statements import explain, statements
from workflows import Await, Done, Workflow, durable, step, store
from workflows.access import api_keys
from workflows.api import refused as dropped
from workflows.api.refused import Refusal, count_dropped, count_refusal, flush_dropped, record_later
from workflows.conf import conf
from workflows.exceptions import (
    InteractionResolved,
    InvalidCall,
    InvalidToken,
    NoTarget,
    StaleVersion,
    UnknownInteraction,
)
from workflows.models import Instance, Interaction, LedgerEvent, Workspace
from workflows.operations import health, metrics
from workflows.rest.protocol.problems import CONTENT_TYPE
from workflows.store import probe
from workflows.store.ledger.event_sums import REASONS
from workflows.store.ledger.tallies import read_tallies
from workflows.testing import _skew, drain
from workflows.worker.housekeeping import tidy

pytestmark = pytest.mark.django_db(transaction=True)


class MetricsMail(Workflow):
    name = "metrics.mail"
    queue = "metrics-mail"

    @step
    def end(self, ctx):
        return Done()


class MetricsWait(Workflow):
    name = "metrics.secret-name"

    @step
    def ask(self, ctx):
        return Await("go", then="end", timeout="1h")

    @step
    def end(self, ctx):
        return Done()


@durable(name="metrics.gate")
def gate(ctx, signal):
    return ctx.wait_for_signal("gate", signal=signal, timeout="30d")


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch, transactional_db: None) -> Iterator[None]:
    """Neither what other tests counted nor what they looked up is these tests'."""
    execute("DELETE FROM holdpoint_tally")
    monkeypatch.setattr(conf, "supplies_links", True)
    monkeypatch.setattr(dropped, "GATHER_SECONDS", 1.0)
    dropped.forget_dropped()
    api_keys.forget_keys()
    yield
    api_keys.forget_keys()
    dropped.forget_dropped()


def make_key(workspace: str = "default", **options: Any) -> str:
    return api_keys.create_key("scraper", workspace=Workspace.objects.get(slug=workspace), **options)[1]


def get(key: str | None = None, **headers: str) -> Any:
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    return Client().get("/metrics", headers=headers)


def read(key: str | None = None) -> dict[str, float]:
    """Every sample, named as it is written: `name{label="value"}`."""
    wait_for_foreigners()
    answer = get(key)
    assert answer.status_code == 200, answer.content
    found = {}
    for family in read_text(answer.content.decode()):
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
            found[sample.name + (f"{{{labels}}}" if labels else "")] = sample.value
    return found


def live(workspace: str | None = None) -> Instance:
    """Started, parked, signalled, done."""
    one = workflows.start("metrics.secret-name", workspace=workspace)
    drain()
    workflows.signal(one, "go", workspace=workspace)
    drain()
    return one


# --- who ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    [None, "", "Bearer", "Bearer ", "Bearer hp_unknown", "Bearer nothing of ours", "Basic aHA6aHA=", "hp_unknown"],
)
def test_whoever_has_no_key_is_refused_and_told_what_to_send(header: str | None) -> None:
    answer = get(**({} if header is None else {"Authorization": header}))
    assert answer.status_code == 401
    assert answer["Content-Type"] == CONTENT_TYPE
    assert answer["WWW-Authenticate"].startswith("Bearer")
    assert set(answer.json()) == {"type", "title", "status", "detail"}
    assert b"holdpoint_" not in answer.content


def test_a_key_takes_the_scope_read() -> None:
    assert get(make_key(scopes=["read"])).status_code == 200
    assert get(make_key(scopes=["admin"])).status_code == 200
    answer = get(make_key(scopes=["start", "signal", "complete", "operate"]))
    assert (answer.status_code, answer["Content-Type"]) == (403, CONTENT_TYPE)
    assert "scope read" in answer.json()["detail"]


def test_a_key_for_some_workflows_sees_no_numbers_of_all() -> None:
    answer = get(make_key(workflows=["metrics.gate"]))
    assert answer.status_code == 403
    assert "all workflows" in answer.json()["detail"]


def test_a_revoked_key_reads_nothing() -> None:
    row, key = api_keys.create_key("scraper", workspace=Workspace.objects.get(slug="default"))
    assert get(key).status_code == 200
    api_keys.revoke_key(row)
    assert get(key).status_code == 401


def test_where_metrics_are_public_nobody_needs_a_key_but_a_wrong_one_is_told(settings: Any) -> None:
    settings.WORKFLOWS = {**settings.WORKFLOWS, "METRICS_PUBLIC": True}
    assert get().status_code == 200
    assert get(Authorization="Basic aHA6aHA=").status_code == 200  # of a proxy before us
    assert get("hp_unknown").status_code == 401
    assert get(make_key(scopes=["signal"])).status_code == 403


def test_a_session_is_no_key(admin_client: Client) -> None:
    assert admin_client.get("/metrics").status_code == 401


@pytest.mark.parametrize("method", ["post", "put", "patch", "delete", "options"])
def test_it_is_only_read(method: str) -> None:
    client = Client(enforce_csrf_checks=True, headers={"Authorization": f"Bearer {make_key()}"})
    answer = getattr(client, method)("/metrics")
    assert (answer.status_code, answer["Allow"]) == (405, "GET, HEAD")
    assert answer["Content-Type"] == CONTENT_TYPE


def test_a_project_that_demands_logins_and_transactions_changes_nothing(settings: Any) -> None:
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.contrib.auth.middleware.LoginRequiredMiddleware"]
    assert get(make_key()).status_code == 200
    assert set(connections) <= metrics.metrics._non_atomic_requests  # type: ignore[attr-defined]


def test_it_is_never_cached_and_a_look_at_its_head_has_no_body() -> None:
    key = make_key()
    assert "no-store" in get(key)["Cache-Control"]
    assert "no-store" in get()["Cache-Control"]
    head = Client().head("/metrics", headers={"Authorization": f"Bearer {key}"})
    assert (head.status_code, head.content) == (200, b"")


# --- what -----------------------------------------------------------------------------------------------------------


def test_the_numbers_of_a_life_are_told() -> None:
    live()
    workflows.cancel(workflows.start("metrics.secret-name"))
    found = read(make_key())
    assert found["holdpoint_instances_started_total"] == 2
    assert found["holdpoint_deliveries_total"] == 1
    assert found["holdpoint_resumptions_total"] == 1
    assert found['holdpoint_instances_ended_total{status="done"}'] == 1
    assert found['holdpoint_instances_ended_total{status="cancelled"}'] == 1
    assert found['holdpoint_instances_ended_total{status="failed"}'] == 0
    assert found["holdpoint_time_to_resume_seconds_count"] == 1
    assert found['holdpoint_time_to_resume_seconds_bucket{le="+Inf"}'] == 1
    assert 0 < found["holdpoint_time_to_resume_seconds_sum"] < 60
    assert found['holdpoint_time_to_resume_seconds_bucket{le="3600.0"}'] == 1
    assert found["holdpoint_uncounted_seconds"] == 0


def test_what_runs_and_waits_is_told_by_queue() -> None:
    workflows.workspace.create("acme")
    workflows.start_many("metrics.secret-name", [{}] * 3)
    workflows.start("metrics.secret-name", priority=5)
    workflows.start("metrics.mail")
    workflows.start("metrics.mail", workspace="acme")
    store.claim(db(), 1)
    found = read(make_key())
    assert found['holdpoint_running{queue="default"}'] == 1
    assert found['holdpoint_waiting{queue="default"}'] == 3
    assert found['holdpoint_running{queue="metrics-mail"}'] == 0
    assert found['holdpoint_waiting{queue="metrics-mail"}'] == 1


def test_all_that_the_contract_names_is_there_from_the_beginning() -> None:
    found = read(make_key())
    for reason in REASONS:
        assert found[f'await_completion_dropped_total{{reason="{reason}"}}'] == 0
    for age in ("1h", "1d", "7d", "older"):
        assert found[f'holdpoint_pending{{age="{age}"}}'] == 0
    for name in (
        *(f"{name}_total" for name in ("deliveries", "resumptions", "completions", "timeouts", "reclaims")),
        *(f"{name}_total" for name in ("failed_runs", "put_back", "instances_started")),
        *("time_to_resume_seconds_count", "deadline_lag_seconds", "pump_lag_seconds", "pumps", "pending_capped"),
        *("units_open", "items_in_flight", "items_queued"),
    ):
        assert found[f"holdpoint_{name}"] == 0


@pytest.mark.no_fold(reason="it moves deadlines by SQL")
def test_how_things_stand_is_the_same_for_everybody() -> None:
    workflows.workspace.create("acme")
    waiting = workflows.start("metrics.secret-name")
    overdue = workflows.start("metrics.secret-name")
    claims = {claim.id: claim for claim in store.claim(db(), 2)}
    assert settle(play(claims[str(overdue.pk)]))
    store.release(db(), [claims[str(waiting.pk)]])
    with stopped_clock():
        execute("UPDATE holdpoint_instance SET due_at = holdpoint_clock() - interval '90 s' WHERE status = 1")
        execute("UPDATE holdpoint_instance SET due_at = holdpoint_clock() - interval '50 s' WHERE status = 3")
        store.beat(db(), "worker:secret-host:1", "worker", "secret-host:1")
        for workspace in ("default", "acme"):
            found = read(make_key(workspace))
            assert found["holdpoint_pump_lag_seconds"] == 90
            assert found["holdpoint_deadline_lag_seconds"] == 50
            assert found["holdpoint_pumps"] == 1


def test_a_key_sees_its_own_workspace_and_the_public_all(settings: Any) -> None:
    workflows.workspace.create("acme")
    live()
    live("acme")
    live("acme")
    workflows.start("metrics.gate", {"signal": "a"}, workspace="acme")
    drain()
    name, pending = "holdpoint_deliveries_total", 'holdpoint_pending{age="1h"}'
    assert [read(make_key())[one] for one in (name, pending)] == [1, 0]
    assert [read(make_key("acme"))[one] for one in (name, pending)] == [2, 1]
    settings.WORKFLOWS = {**settings.WORKFLOWS, "METRICS_PUBLIC": True}
    assert [read()[one] for one in (name, pending)] == [3, 1]
    assert [read(make_key())[one] for one in (name, pending)] == [1, 0]


def test_no_label_holds_a_name_or_an_id(settings: Any) -> None:
    live()
    workflows.start("metrics.gate", {"signal": "secret-signal"})
    drain()
    text = get(make_key()).content.decode()
    assert "secret" not in text
    families = {family.name: family for family in read_text(text)}
    assert {label for family in families.values() for one in family.samples for label in one.labels} == {
        "le",
        "age",
        "status",
        "reason",
        "outcome",
        "queue",  # whose name is the code's, as no caller can make one
    }


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        (None, "text/plain"),
        ("text/html", "text/plain"),
        ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5", "application/openmetrics-text"),
    ],
)
def test_it_is_written_as_the_scraper_reads_it(accept: str | None, content_type: str) -> None:
    live()
    answer = get(make_key(), **({} if accept is None else {"Accept": accept}))
    assert answer["Content-Type"].startswith(content_type)
    parse = read_openmetrics if "openmetrics" in content_type else read_text
    names = {family.name for family in parse(answer.content.decode())}
    assert {"holdpoint_deliveries", "await_completion_dropped", "holdpoint_time_to_resume_seconds"} <= names


def test_a_reading_costs_twelve_statements_and_two_more_to_count() -> None:
    live()
    wait_for_foreigners()
    for count in (14, 12):  # one of them is the gauge of approvals
        with statements(count):
            metrics.read_metrics(db(), None)


# --- refusals -------------------------------------------------------------------------------------------------------


def refuse(target: Any, data: Any = 1, **options: Any) -> None:
    with pytest.raises((UnknownInteraction, InteractionResolved, StaleVersion)):
        workflows.complete(target, data, **options)


def test_refusals_of_the_ledger_and_of_strangers_are_one_number() -> None:
    workflows.start("metrics.gate", {"signal": "gate"})
    drain()
    refuse("gate", version=7, actor="kim")
    count_dropped(Workspace.objects.get(slug="default").pk, "stale_version")
    assert read(make_key())['await_completion_dropped_total{reason="stale_version"}'] == 2


def test_what_is_nobodys_is_told_to_all() -> None:
    workflows.workspace.create("acme")
    count_dropped(None, "invalid_token")
    count_dropped(Workspace.objects.get(slug="acme").pk, "unknown")
    for workspace, unknown in (("default", 0), ("acme", 1)):
        found = read(make_key(workspace))
        assert found['await_completion_dropped_total{reason="invalid_token"}'] == 1
        assert found['await_completion_dropped_total{reason="unknown"}'] == unknown


def test_an_unknown_reason_is_refused_and_names_those_there_are() -> None:
    with pytest.raises(InvalidCall, match="invalid_token"):
        count_dropped(None, "because")


@pytest.mark.parametrize(
    ("refused", "reason"),
    [
        (InvalidToken(), "invalid_token"),
        (StaleVersion(1, 2), "stale_version"),
        (InteractionResolved("expired"), "expired"),
        (InteractionResolved("completed"), "resolved"),
        (NoTarget("x"), None),
        (ValueError("x"), None),
    ],
)
def test_what_was_raised_says_the_reason(refused: Exception, reason: str | None) -> None:
    count_refusal(None, refused)
    flush_dropped()
    assert read_tallies(db(), None) == ({("dropped", reason): 1} if reason else {})


def wait_for_tallies(wanted: dict[tuple[str, str], float]) -> None:
    until = time.monotonic() + 60
    while read_tallies(db(), None) != wanted:
        assert time.monotonic() < until, read_tallies(db(), None)
        time.sleep(0.02)


def test_counting_asks_nothing_of_the_database_and_is_added_within_seconds(django_assert_num_queries: Any) -> None:
    begun = time.monotonic()
    with django_assert_num_queries(0):
        for _ in range(1000):
            count_dropped(None, "unknown")
    wait_for_tallies({("dropped", "unknown"): 1000})
    assert time.monotonic() - begun < 5
    for thread in threading.enumerate():
        if thread.name == "holdpoint-dropped":
            thread.join(60)
    count_dropped(None, "unknown")  # the thread that ended is followed by another
    wait_for_tallies({("dropped", "unknown"): 1001})


def test_counts_in_a_transaction_that_is_rolled_back_stay_counted() -> None:
    with transaction.atomic():
        count_dropped(None, "unknown")
        transaction.set_rollback(True)
    wait_for_tallies({("dropped", "unknown"): 1})


def test_many_threads_count_exactly() -> None:
    def count() -> None:
        for n in range(500):
            count_dropped(n % 3 or None, "unknown")

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    wait_for_tallies({("dropped", "unknown"): 2000})


def test_what_cannot_be_added_is_kept_and_added_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dropped, "GATHER_SECONDS", 0.0)
    monkeypatch.setattr(dropped, "RETRY_SECONDS", 0.05)
    execute("ALTER TABLE holdpoint_tally RENAME TO holdpoint_tally_away")
    try:
        count_dropped(None, "unknown")
        assert flush_dropped() in (True, False)
        count_dropped(None, "unknown")
    finally:
        execute("ALTER TABLE holdpoint_tally_away RENAME TO holdpoint_tally")
    wait_for_tallies({("dropped", "unknown"): 2})


def test_what_is_kept_in_memory_is_bounded_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dropped, "MOST", 10)
    monkeypatch.setattr(dropped, "GATHER_SECONDS", 3600.0)  # nobody adds meanwhile
    for workspace in range(1, 1000):
        count_dropped(workspace, "unknown")
    assert len(dropped._drops._counts) <= 11
    assert flush_dropped()
    assert read_tallies(db(), None) == {("dropped", "unknown"): 999}


def cancel_a_gate() -> Refusal:
    started = workflows.start("metrics.gate", {"signal": "gate"})
    drain()
    workflows.cancel(started)
    return Refusal(started.workspace_id, started.pk, "key:1", '{"refused": "UnknownInteraction"}')


def test_rows_that_are_written_later_are_bounded_and_those_that_are_not_written_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dropped, "MOST", 10)
    monkeypatch.setattr(dropped, "GATHER_SECONDS", 3600.0)
    one = cancel_a_gate()
    for n in range(100):
        record_later(replace(one, actor=f"key:{n}"))
    record_later(replace(one, instance=uuid.uuid4()))
    assert flush_dropped()
    assert LedgerEvent.objects.filter(kind="refused").count() == 10
    assert read_tallies(db(), one.workspace) == {("dropped", "unknown"): 91}


def test_a_row_that_cannot_be_written_is_written_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dropped, "GATHER_SECONDS", 3600.0)
    record_later(cancel_a_gate())
    execute("ALTER TABLE holdpoint_ledger RENAME TO holdpoint_ledger_away")
    try:
        assert not flush_dropped()
    finally:
        execute("ALTER TABLE holdpoint_ledger_away RENAME TO holdpoint_ledger")
    assert flush_dropped()
    assert LedgerEvent.objects.filter(kind="refused").count() == 1


ENDING = """
import django; django.setup()
import multiprocessing, os
from workflows.api.refused import count_dropped
count_dropped(None, "unknown")
count_dropped(None, "unknown")
{more}
"""
FORKING = """
import warnings; warnings.simplefilter("ignore")
def child():
    count_dropped(None, "unknown")
one = multiprocessing.get_context("fork").Process(target=child)
one.start(); one.join()
assert one.exitcode == 0
pid = os.fork()
if pid == 0:
    os._exit(0)  # it has nothing of its own to add
os.waitpid(pid, 0)
"""


@pytest.mark.process
@pytest.mark.parametrize(("more", "count"), [("", 2), (FORKING, 3)], ids=["ends", "forks"])
def test_a_process_that_ends_or_forks_adds_each_count_once(more: str, count: int) -> None:
    environment = {**find_environment(), "DJANGO_SETTINGS_MODULE": "config.settings"}
    done = subprocess.run(
        [sys.executable, "-c", ENDING.format(more=more)],
        env=environment | {"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert read_tallies(db(), None) == {("dropped", "unknown"): count}, done.stderr


# --- every door -----------------------------------------------------------------------------------------------------


@durable(name="metrics.call")
def call(ctx):
    pay = ctx.callback("pay", timeout="1h", schema={"type": "integer"})
    tokens[str(ctx.id)] = pay.resume_token
    return pay.wait()


#: What the partners of a running test were given, by instance.
tokens: dict[str, str] = {}


def resume(token: str, data: Any = 1) -> int:
    return int(Client().post(f"/resume/{token}", {"data": data}, content_type="application/json").status_code)


def read_dropped(key: str) -> dict[str, float]:
    found = {name: value for name, value in read(key).items() if name.startswith("await_completion_dropped") and value}
    return {name.split('"')[1]: value for name, value in found.items()}


def test_a_stranger_is_counted_at_the_door_once_for_each_refusal() -> None:
    key = make_key()
    early, late = workflows.start("metrics.call"), workflows.start("metrics.call")
    drain()
    first, second = tokens[str(early.pk)], tokens[str(late.pk)]
    assert resume("nothing of ours") == 404
    assert read_dropped(key) == {"invalid_token": 1}
    assert resume(first, "no number") == 422
    assert resume(first) == 200
    assert resume(first) == 410
    assert read_dropped(key) == {"invalid_token": 1, "invalid_data": 1, "resolved": 1}
    execute("UPDATE holdpoint_interaction SET deadline = now() - interval '1 s' WHERE instance_id = %s", [late.pk])
    assert resume(second) == 410  # this answer makes it the expiry, and the ledger tells
    assert resume(second) == 410  # of this one it does not
    assert read_dropped(key) == {"invalid_token": 1, "invalid_data": 1, "resolved": 1, "expired": 2}


def test_a_key_is_counted_by_the_ledger_or_where_that_knows_nothing_and_never_by_both() -> None:
    workflows.workspace.create("acme")
    key, other = make_key(), make_key("acme")
    workflows.start("metrics.gate", {"signal": "gate"})
    drain()

    def complete(by: str, signal: str, **body: Any) -> int:
        client = Client(headers={"Authorization": f"Bearer {by}"})
        path = f"/v1/signals/{signal}/complete"
        return int(client.post(path, {"data": 1, **body}, content_type="application/json").status_code)

    assert complete(key, "nowhere") == 404
    assert complete(other, "gate") == 404  # another workspace's
    assert complete(key, "gate", version=7) == 409
    assert complete(key, "gate") == 200
    assert complete(key, "gate") == 410
    drain()
    assert read_dropped(key) == {"unknown": 1, "stale_version": 1, "resolved": 1}
    assert complete(key, "\x07") == 404
    assert complete(key, "gate", more=1) == 400
    assert read_dropped(key) == {"unknown": 2, "stale_version": 1, "resolved": 1, "malformed": 1}
    assert read_dropped(other) == {"unknown": 1}


def test_a_sweep_counts_the_ledger() -> None:
    live()
    wait_for_foreigners()
    tidy(db())
    assert read_tallies(db(), None)["deliveries", ""] == 1


# --- pending --------------------------------------------------------------------------------------------------------


def test_what_is_pending_is_told_by_its_age() -> None:
    for n in range(3):
        workflows.start("metrics.gate", {"signal": f"gate{n}"})
    drain()
    default = Workspace.objects.get(slug="default").pk
    assert probe.read_pending(db(), default) == probe.Pending({"1h": 3, "1d": 0, "7d": 0, "older": 0}, capped=False)
    told = []
    with transaction.atomic():
        for seconds in (3700, 86_400, 7 * 86_400):
            _skew(db(), seconds)
            told.append(probe.read_pending(db(), None).ages)
        transaction.set_rollback(True)
    assert told == [
        {"1h": 0, "1d": 3, "7d": 0, "older": 0},
        {"1h": 0, "1d": 0, "7d": 3, "older": 0},
        {"1h": 0, "1d": 0, "7d": 0, "older": 3},
    ]
    workflows.complete("gate0", 1)
    assert probe.read_pending(db(), None).ages["1h"] == 2


@pytest.mark.django_db
@pytest.mark.no_fold(reason="it writes interactions by SQL")
def test_of_very_many_only_so_many_are_looked_at_and_through_the_index() -> None:
    with transaction.atomic():
        fill_pending(100_500)
        default = Workspace.objects.get(slug="default").pk
        found = probe.read_pending(db(), default)
        assert found.capped
        assert sum(found.ages.values()) == 100_000
        assert found.ages["7d"] > found.ages["older"] > found.ages["1h"] > 0
        probe.prepare_reading(db(), 5)
        scopes = (("one", {"ws": default}), ("all", {}))
        for mode, (scope, params) in itertools.product(("pump, custom", "pump, generic"), scopes):
            plan = explain(mode, probe._PENDING[scope], params)
            assert "Index Only Scan using holdpoint_interaction_inbox" in plan, plan
            assert "Seq Scan on holdpoint_interaction" not in plan, plan
        transaction.set_rollback(True)


# --- when things go wrong -------------------------------------------------------------------------------------------


def test_a_database_that_hangs_is_answered_for_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    key = make_key()
    assert get(key).status_code == 200
    monkeypatch.setattr(metrics, "ANSWER_SECONDS", 0.7)
    with connection.cursor() as cursor:
        cursor.execute("BEGIN; LOCK TABLE holdpoint_worker IN ACCESS EXCLUSIVE MODE")
        try:
            for _ in range(2):  # the second does not even begin
                begun = time.monotonic()
                answer = get(key)
                assert answer.status_code == 503
                assert answer["Content-Type"] == CONTENT_TYPE
                assert answer["Retry-After"]
                assert time.monotonic() - begun < 2
            assert Client().get("/healthz").status_code == 200
            hanging = [thread for thread in threading.enumerate() if thread.name == "holdpoint-probe"]
            assert len(hanging) == 1
        finally:
            cursor.execute("ROLLBACK")
    for thread in hanging:
        thread.join(60)
    assert get(key).status_code == 200
    assert Client().get("/readyz").status_code == 200
    assert health.call_within is not metrics._call_within


def test_a_database_without_the_tables_is_a_problem_that_names_nothing() -> None:
    key = make_key()
    execute("ALTER TABLE holdpoint_tally RENAME TO holdpoint_tally_away")
    try:
        answer = get(key)
    finally:
        execute("ALTER TABLE holdpoint_tally_away RENAME TO holdpoint_tally")
    assert (answer.status_code, answer["Content-Type"]) == (503, CONTENT_TYPE)
    assert "tally" not in json.dumps(answer.json())


def test_a_ledger_that_cannot_be_counted_just_now_shows_what_was_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    key = make_key()
    live()
    assert read(key)["holdpoint_deliveries_total"] == 1
    live()
    monkeypatch.setattr(metrics, "TALLY_SECONDS", 0.2)
    wait_for_foreigners()
    with connection.cursor() as cursor:
        cursor.execute("BEGIN; LOCK TABLE holdpoint_tally IN SHARE MODE")  # whoever writes waits
        try:
            answer = get(key)
        finally:
            cursor.execute("ROLLBACK")
    assert answer.status_code == 200
    assert b"holdpoint_deliveries_total 1.0" in answer.content
    assert b"holdpoint_uncounted_seconds 0.0" not in answer.content
    assert read(key)["holdpoint_deliveries_total"] == 2


def test_many_scrapes_at_once_are_all_answered_and_count_once() -> None:
    key = make_key()
    for _ in range(3):
        live()
    wait_for_foreigners()
    answers: list[int] = []
    threads = [threading.Thread(target=lambda: answers.append(get(key).status_code)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == [200] * 8
    assert read(key)["holdpoint_deliveries_total"] == 3


def test_nothing_of_a_reading_stays_open() -> None:
    key = make_key()
    clients = (
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_type = 'client backend'"
    )
    before = execute(clients)
    get(key)
    until = time.monotonic() + 60
    while execute(clients) != before:
        assert time.monotonic() < until
        time.sleep(0.02)
    assert Interaction.objects.count() == 0


def test_a_project_without_time_zones_is_counted_alike(settings: Any) -> None:
    settings.USE_TZ, settings.TIME_ZONE = False, "America/New_York"
    before = read(make_key())
    live()
    live()
    after = read(make_key())
    assert after["holdpoint_instances_started_total"] == before["holdpoint_instances_started_total"] + 2
    assert read(make_key())["holdpoint_instances_started_total"] == after["holdpoint_instances_started_total"]


@pytest.mark.parametrize("accept", ["text/plain; version=x", "application/openmetrics-text; version=abc"])
def test_a_version_that_is_none_gets_the_ordinary_format(accept: str) -> None:
    assert get(make_key(), Accept=accept).status_code == 200
