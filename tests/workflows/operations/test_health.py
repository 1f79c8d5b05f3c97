"""/healthz and /readyz: what they say, to whom, and how soon."""

import json
import threading
import time

import pytest
from django.db import connection, connections
from django.test import Client
from django_q.models import OrmQ

import workflows
from tests.support.clocks import stopped_clock
from workflows import Done, Workflow, step, store
from workflows.models import Instance
from workflows.operations import health

pytestmark = pytest.mark.django_db(transaction=True)

#: The migrations at the end that nothing needs.
TIDYING = ["0030_earlier_claim_index"]


class HealthIdle(Workflow):
    @step
    def only(self, ctx):
        return Done()


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "_migrated", False)


def beat(kind: str = "worker") -> None:
    store.beat(connections["default"], f"{kind}:secret-host:1", kind, "secret-host:1")


def broken_database():
    """A connection to where no server is."""
    db = connections.create_connection("default")
    db.settings_dict = {**db.settings_dict, "HOST": "/nowhere", "OPTIONS": {"connect_timeout": 1}}
    return db


# --- liveness -----------------------------------------------------------------------------------------


def test_liveness_asks_nothing_of_the_database(client, django_assert_num_queries):
    with django_assert_num_queries(0):
        answer = client.get("/healthz")
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_need_no_login_and_are_never_cached(client, path):
    answer = client.get(path)
    assert answer.status_code == 200
    assert "no-store" in answer["Cache-Control"]
    assert answer["Content-Type"] == "application/json"
    head = client.head(path)
    assert (head.status_code, head.content) == (200, b"")


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
@pytest.mark.parametrize("method", ["post", "put", "patch", "delete", "options"])
def test_other_methods_are_refused(path, method):
    answer = getattr(Client(enforce_csrf_checks=True), method)(path)
    assert answer.status_code == 405
    assert answer["Allow"] == "GET, HEAD"


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_probes_stay_open_where_a_project_demands_a_login_everywhere(client, settings, path):
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, "django.contrib.auth.middleware.LoginRequiredMiddleware"]
    assert client.get(path).status_code == 200


def test_probes_run_outside_transactions():
    for view in (health.healthz, health.readyz):
        assert view._non_atomic_requests == {"default"}


# --- readiness ----------------------------------------------------------------------------------------


def test_a_site_without_workers_is_ready_and_says_so(client):
    body = client.get("/readyz").json()
    assert body["ready"] is True
    assert (body["database"], body["migrations"]) == ("ok", "ok")
    assert body["cluster"] == {"pumps": [], "pump_lag": 0.0, "deadline_lag": 0.0}
    assert body["queue"] == {"waiting": 0, "taken": 0, "oldest_seconds": 0.0}


def test_readiness_can_require_somebody_who_pumps(client):
    answer = client.get("/readyz?require=cluster")
    assert answer.status_code == 503
    assert "qcluster" in answer.json()["detail"]
    with stopped_clock():
        beat()
        answer = client.get("/readyz?require=cluster")
    assert answer.status_code == 200
    assert answer.json()["cluster"]["pumps"] == [{"kind": "worker", "seconds": 0.0}]


def test_an_unknown_requirement_is_refused(client):
    answer = client.get("/readyz?require=clutser")
    assert answer.status_code == 400
    assert "require=cluster" in answer.json()["detail"]


def test_the_body_tells_how_long_work_has_waited(client):
    workflows.start(HealthIdle)
    begun = time.monotonic()
    with stopped_clock(), connection.cursor() as cursor:
        cursor.execute("UPDATE holdpoint_instance SET due_at = holdpoint_clock() - interval '90 s'")
        cursor.execute(
            "INSERT INTO django_q_ormq (key, payload, lock) VALUES ('holdpoint', 'x', now() - interval '30 s'),"
            " ('holdpoint', 'x', now() + interval '1 h'), ('other', 'x', now())"
        )
        body = client.get("/readyz").json()
    passed = time.monotonic() - begun
    assert body["ready"] is True
    assert body["cluster"]["pump_lag"] == 90
    assert (body["queue"]["waiting"], body["queue"]["taken"]) == (1, 1)
    assert 30 <= body["queue"]["oldest_seconds"] <= 30.1 + passed  # by another clock, and rounded
    OrmQ.objects.all().delete()
    Instance.objects.all()._raw_delete("default")


def test_nobody_learns_names_or_addresses(client):
    beat()
    text = client.get("/readyz").content.decode()
    assert "secret-host" not in text
    assert connection.settings_dict["NAME"] not in text


def test_a_missing_migration_of_either_app_makes_the_site_unready():
    latest = (
        "SELECT DISTINCT ON (app) id, app FROM django_migrations WHERE app LIKE 'holdpoint%%' AND name <> ALL(%s) "
        "ORDER BY app, id DESC"
    )
    with connection.cursor() as cursor:
        cursor.execute(latest, [TIDYING])
        rows = cursor.fetchall()
        assert "holdpoint" in [app for _, app in rows]
        for id, app in rows:
            cursor.execute("UPDATE django_migrations SET app = 'away' WHERE id = %s", [id])
            report = health.examine(connections["default"])
            cursor.execute("UPDATE django_migrations SET app = %s WHERE id = %s", [app, id])
            assert "migrate" in report.problem
            assert report.migrations == "1 to apply"
    assert health.examine(connections["default"]).problem == ""


def test_a_migration_that_only_tidies_keeps_no_site_from_being_ready():
    with connection.cursor() as cursor:
        cursor.execute("UPDATE django_migrations SET app = 'away' WHERE name = ANY(%s) RETURNING id", [TIDYING])
        moved = [id for (id,) in cursor.fetchall()]
        assert len(moved) == len(TIDYING)
        report = health.examine(connections["default"])
        cursor.execute("UPDATE django_migrations SET app = 'holdpoint' WHERE id = ANY(%s)", [moved])
    assert (report.problem, report.migrations) == ("", "ok")


def test_a_probe_costs_three_statements_and_two_once_migrated(django_assert_num_queries):
    with django_assert_num_queries(3):
        health.examine(connections["default"])
    with django_assert_num_queries(2):
        health.examine(connections["default"])


def test_a_database_that_cannot_be_reached_makes_the_site_unready():
    report = health.examine(broken_database())
    assert report.problem
    assert report.database == "failed"
    assert "nowhere" not in json.dumps(report.problem)


def test_a_database_that_hangs_is_answered_for_in_bounded_time(client, monkeypatch):
    monkeypatch.setattr(health, "ANSWER_SECONDS", 0.7)
    with connection.cursor() as cursor:
        cursor.execute("BEGIN; LOCK TABLE holdpoint_worker IN ACCESS EXCLUSIVE MODE")
        try:
            for _ in range(2):  # the second does not even begin
                begun = time.monotonic()
                answer = client.get("/readyz")
                assert answer.status_code == 503
                assert answer["Content-Type"] == "application/problem+json"
                assert {"type", "title", "status", "detail"} <= answer.json().keys()
                assert answer.json()["database"] == "silent"
                assert time.monotonic() - begun < 2
            assert client.get("/healthz").status_code == 200
            probes = [thread for thread in threading.enumerate() if thread.name == "holdpoint-probe"]
            assert len(probes) == 1
        finally:
            cursor.execute("ROLLBACK")
    for thread in probes:
        thread.join(60)
    assert client.get("/readyz").status_code == 200


def test_many_probes_at_once_are_all_answered(client):
    answers: list[int] = []
    threads = [threading.Thread(target=lambda: answers.append(Client().get("/readyz").status_code)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == [200] * 8


@pytest.mark.process
def test_a_running_cluster_makes_the_site_ready(client):
    from tests.support.processes import qcluster

    assert client.get("/readyz?require=cluster").status_code == 503
    with qcluster():
        answer = client.get("/readyz?require=cluster")
        assert answer.status_code == 200
        assert [pump["kind"] for pump in answer.json()["cluster"]["pumps"]] == ["cluster"]
