"""System checks: each unsafe setting is named, with what to write instead."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import CheckMessage, run_checks
from django.core.exceptions import ImproperlyConfigured
from django.db import DatabaseError, connection, connections, transaction
from psycopg import IsolationLevel

from workflows import Done, Workflow, step
from workflows.conf import conf
from workflows.definitions import registry

ROOT = Path(__file__).resolve().parents[3]
GOOD = {
    "name": "mysite",
    "orm": "default",
    "workers": 2,
    "timeout": 60,
    "retry": 300,
    "max_attempts": 5,
    "ack_failures": True,
    "save_limit": -1,
}


def look(*, deploy: bool = False) -> dict[str, CheckMessage]:
    """What the checks say, by id; about this file's workflows only, because other tests define odd ones."""
    found = run_checks(tags=["holdpoint"], include_deployment_checks=deploy, databases=[])
    mine = [one for one in found if "<locals>" not in one.msg or __name__ in one.msg]
    assert all(one.hint and one.msg.endswith((".", ")")) for one in mine)
    return {one.id: one for one in mine}


@pytest.fixture
def database(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The settings of the connection, free to be changed."""
    changed = {**connections["default"].settings_dict}
    changed["OPTIONS"] = {**changed["OPTIONS"]}
    monkeypatch.setattr(connections["default"], "settings_dict", changed)
    return changed


def test_the_runnable_site_has_nothing_to_hear():
    assert look(deploy=True) == {}


def test_the_queue_of_the_readme_has_nothing_to_hear(settings):
    settings.Q_CLUSTER = GOOD
    assert look(deploy=True) == {}
    settings.Q_CLUSTER = {**GOOD, "workers": 4, "queue_limit": 4}
    assert look(deploy=True) == {}


# --- Q_CLUSTER ----------------------------------------------------------------------------------------


def test_a_missing_queue(settings):
    del settings.Q_CLUSTER
    found = look()
    assert list(found) == ["holdpoint.E010"]
    assert "Redis" in found["holdpoint.E010"].msg
    assert '"orm": "default"' in found["holdpoint.E010"].hint


@pytest.mark.parametrize(
    ("changes", "id", "words"),
    [
        ({"orm": None, "redis": {"host": "x"}}, "E011", "queued in the transaction"),
        ({"orm": "other"}, "E011", "'other'"),
        ({"timeout": None}, "E012", "for ever"),
        ({"timeout": 0}, "E012", "for ever"),
        ({"timeout": 60.5}, "E012", "whole seconds"),
        ({"timeout": True}, "E012", "for ever"),
        ({"retry": 60}, "E013", "second worker"),
        ({"retry": 75}, "E013", "second worker"),
        ({"retry": None}, "E013", "second worker"),
        ({"retry": 130}, "W014", "memory"),
        ({"workers": 8}, "W014", "memory"),
        ({"queue_limit": 0}, "W014", "any number"),
        ({"max_attempts": 0}, "W016", "for ever"),
        ({"ack_failures": False}, "W016", "for ever"),
        ({"save_limit": 0}, "W017", "all"),
        ({"save_limit": 5000}, "W017", "5000"),
        ({"recycle": 1}, "W018", "after 1 tasks"),
        ({"scheduler": False}, "W019", "sweep"),
    ],
)
def test_an_unsafe_queue_is_named(settings, changes, id, words):
    settings.Q_CLUSTER = {**GOOD, **changes}
    found = look()
    assert list(found) == [f"holdpoint.{id}"]
    assert words in found[f"holdpoint.{id}"].msg


def test_what_the_hint_says_satisfies_the_check(settings):
    settings.Q_CLUSTER = {**GOOD, "workers": 8, "queue_limit": 64}
    hint = look()["holdpoint.W014"].hint
    settings.Q_CLUSTER = {**GOOD, "workers": 8, "queue_limit": 64, "retry": int(hint.split(": ")[1].split(",")[0])}
    assert look() == {}


def test_an_alternative_cluster_is_checked_as_it_will_run(settings):
    settings.Q_CLUSTER = {**GOOD, "ALT_CLUSTERS": {"slow": {"timeout": 400}, "fine": {"workers": 1}}}
    found = look()
    assert list(found) == ["holdpoint.E013"]
    assert "ALT_CLUSTERS['slow']" in found["holdpoint.E013"].msg


def test_synchronous_tasks_are_for_tests(settings):
    settings.Q_CLUSTER = {**GOOD, "sync": True}
    assert look() == {}
    assert list(look(deploy=True)) == ["holdpoint.W042"]


# --- how long a step may take -------------------------------------------------------------------------


def test_the_general_step_timeout_stays_below_the_queues(settings):
    settings.WORKFLOWS = {**settings.WORKFLOWS, "STEP_TIMEOUT": "2m"}
    assert 'WORKFLOWS["STEP_TIMEOUT"]' in look()["holdpoint.E015"].msg


@pytest.fixture
def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Definitions of this test go with it."""
    monkeypatch.setattr(registry, "_definitions", dict(registry._definitions))
    monkeypatch.setattr(registry, "_latest", dict(registry._latest))


@pytest.mark.usefixtures("forget")
def test_the_step_timeout_of_a_workflow_stays_below_the_queues():
    class CheckedLong(Workflow):
        step_timeout = "5m"

        @step
        def only(self, ctx):
            return Done()

    message = look()["holdpoint.E015"]
    assert "CheckedLong" in message.msg
    assert "300 s" in message.msg


@pytest.mark.usefixtures("forget")
def test_the_step_timeout_of_a_step_stays_below_the_queues():
    class CheckedLongStep(Workflow):
        @step(step_timeout=60)
        def compute(self, ctx):
            return Done()

    assert "step 'compute'" in look()["holdpoint.E015"].msg


# --- the database -------------------------------------------------------------------------------------


def test_a_pool_is_refused_where_a_cluster_forks(database):
    database["OPTIONS"]["pool"] = True
    found = look()
    assert list(found) == ["holdpoint.E005"]
    assert "forks" in found["holdpoint.E005"].msg


@pytest.mark.parametrize("level", [IsolationLevel.REPEATABLE_READ, IsolationLevel.SERIALIZABLE])
def test_a_stricter_isolation_level_is_explained(database, level):
    database["OPTIONS"]["isolation_level"] = level
    told = look()["holdpoint.W006"].msg
    assert "serialization failure" in told
    assert "emit() is refused" in told
    assert level.name.replace("_", " ") in told


@pytest.mark.django_db
@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_a_stricter_level_that_only_the_server_knows_of_is_found_by_asking_it(level):
    """ALTER ROLE or ALTER DATABASE … SET default_transaction_isolation gives each session such a default."""
    with connections["default"].cursor() as cursor:
        cursor.execute(f"SET LOCAL default_transaction_isolation = '{level}'")
        found = run_checks(tags=["holdpoint"], databases=["default"])
        cursor.execute("SET LOCAL default_transaction_isolation = 'read committed'")
    [told] = [one for one in found if one.id == "holdpoint.W006"]
    assert f"isolation level {level.upper()}" in told.msg
    assert "holdpoint.W006" not in {one.id for one in run_checks(tags=["holdpoint"], databases=["default"])}


def test_the_default_isolation_level_may_be_spelled_out(database):
    database["OPTIONS"]["isolation_level"] = IsolationLevel.READ_COMMITTED
    assert look() == {}


def test_another_database_is_refused(monkeypatch):
    monkeypatch.setattr(connections["default"], "vendor", "sqlite")
    assert "PostgreSQL" in look()["holdpoint.E003"].msg


def test_the_hint_for_another_database_says_which_apps_go_along_by_a_router(monkeypatch):
    monkeypatch.setattr(connections["default"], "vendor", "sqlite")
    hint = look()["holdpoint.E003"].hint
    for app in ("holdpoint", "holdpoint_approvals", "django_q", "auth", "contenttypes", "admin", "sessions"):
        assert f'"{app}"' in hint


def test_psycopg2_is_refused(monkeypatch):
    monkeypatch.setattr("django.db.backends.postgresql.psycopg_any.is_psycopg3", False)
    assert "psycopg" in look()["holdpoint.E004"].hint


def test_slow_connections_are_named_in_production_only(database):
    database["CONN_MAX_AGE"] = 0
    del database["OPTIONS"]["prepare_threshold"]
    assert look() == {}
    assert sorted(look(deploy=True)) == ["holdpoint.W040", "holdpoint.W041"]
    assert "`interval %s` then needs a cast" in look(deploy=True)["holdpoint.W041"].hint


RAW_SQL = re.findall(r"^  \| `(.*? .*?)` \| `(.*?)` \|$", (ROOT / "docs/install.md").read_text(), re.MULTILINE)


@pytest.mark.django_db
@pytest.mark.parametrize(("refused", "instead"), RAW_SQL)
def test_what_install_md_says_of_raw_sql_is_true(refused, instead):
    def run(sql):
        with transaction.atomic(), connection.cursor() as cursor:
            value = "1s" if "interval" in sql or "timeout" in sql else "x"
            cursor.execute(sql if sql.split()[0].isupper() else f"SELECT {sql}", [value])

    assert connection.settings_dict["OPTIONS"]["server_side_binding"]
    with pytest.raises(DatabaseError):
        run(refused)
    run(instead)


def test_install_md_has_such_rows():
    assert len(RAW_SQL) == 4


# --- WORKFLOWS ----------------------------------------------------------------------------------------


def test_a_misspelled_setting_is_named_with_the_right_one(settings):
    settings.WORKFLOWS = {**settings.WORKFLOWS, "STEP_TIMOUT": 10}
    message = look()["holdpoint.W030"]
    assert "'STEP_TIMOUT'" in message.msg
    assert message.hint == "Did you mean STEP_TIMEOUT?"


def test_an_invented_setting_is_answered_with_those_there_are(settings):
    settings.WORKFLOWS = {**settings.WORKFLOWS, "COLOUR": "red"}
    assert "STEP_TIMEOUT" in look()["holdpoint.W030"].hint


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("STEP_TIMEOUT", "soon"),
        ("STEP_TIMEOUT", 0),
        ("STEP_TIMEOUT", None),
        ("MAX_BODY", "512k"),
        ("MAX_BODY", -1),
        ("MAX_BODY", True),
        ("BASE_URL", "holdpoint.example"),
        ("BASE_URL", "ftp://holdpoint.example"),
        ("BASE_URL", "http://[broken"),
        ("TOKEN_KEYS", ["x" * 20]),
        ("TOKEN_KEYS", {"a": "short"}),
        ("TOKEN_KEYS", {"": "x" * 20}),
        ("TOKEN_KEYS", {"a b": "x" * 20}),
        ("RETENTION", "for ever"),
        ("POLICY", "nowhere"),
        ("WORKSPACES_FOR", 7),
        ("METRICS_PUBLIC", "yes"),
        ("SHARE_COMMITS", "no"),
    ],
)
def test_a_value_that_cannot_be_read_is_named(settings, name, value):
    settings.WORKFLOWS = {**settings.WORKFLOWS, name: value}
    found = look()
    assert list(found) == ["holdpoint.E031"]
    assert name in found["holdpoint.E031"].msg


def test_every_setting_of_the_contract_is_accepted(settings):
    settings.WORKFLOWS = {
        "BASE_URL": "https://holdpoint.example/under/here/",
        "TOKEN_KEYS": {"2026-11": "x" * 40, "2025-11": "y" * 40},
        "MAX_BODY": 1024,
        "MAX_BULK_BODY": 1024,
        "AWAIT_AGGREGATE_MAX_INPUT_ITEMS": 1,
        "AWAIT_AGGREGATE_MAX_OUTPUT_ITEMS": 1,
        "RETENTION": "90d",
        "STEP_TIMEOUT": "30s",
        "EVENT_LOOKBACK": "1h",
        "POLICY": "shop.rules.may",
        "WORKSPACES_FOR": lambda user: ["a"],
        "METRICS_PUBLIC": True,
        "SHARE_COMMITS": False,
    }
    assert look(deploy=True) == {}
    assert conf.base_url == "https://holdpoint.example/under/here"
    assert list(conf.token_keys) == ["2026-11", "2025-11"]
    assert (conf.step_timeout, conf.max_body) == (30.0, 1024)


def test_a_duration_is_explained_once_and_with_one_full_stop(settings):
    settings.WORKFLOWS = {**settings.WORKFLOWS, "RETENTION": "for ever"}
    hint = look()["holdpoint.E031"].hint
    assert ".." not in hint
    assert hint.count("timedelta") == 1
    assert hint.endswith(".")


def test_a_short_secret_is_told_with_its_length(settings):
    settings.WORKFLOWS = {**settings.WORKFLOWS, "TOKEN_KEYS": {"good": "x" * 20, "a": "short"}}
    found = look()["holdpoint.E031"]
    assert found.msg == "WORKFLOWS[\"TOKEN_KEYS\"]['a'] has 5 characters, and a secret needs 16 at least."
    assert "secrets.token_urlsafe" in found.hint


def test_a_secret_is_never_shown(settings):
    settings.WORKFLOWS = {**settings.WORKFLOWS, "TOKEN_KEYS": {"a": "hunter2"}}
    assert "hunter2" not in str(look()["holdpoint.E031"])


def test_a_setting_that_is_no_dictionary(settings):
    settings.WORKFLOWS = [("STEP_TIMEOUT", 5)]
    assert "not a dictionary" in look()["holdpoint.E031"].msg


def test_links_need_keys_and_an_address_in_production(settings):
    settings.WORKFLOWS = {}
    assert look() == {}  # test runs hear of it twice otherwise, and need no links
    message = look(deploy=True)["holdpoint.W032"]
    assert "cannot be made" in message.msg
    assert all(name in message.msg and name in message.hint for name in ("BASE_URL", "TOKEN_KEYS"))
    assert sum(one.id == "holdpoint.W032" for one in run_checks(include_deployment_checks=True)) == 1
    with pytest.raises(ImproperlyConfigured, match="BASE_URL"):
        _ = conf.base_url
    with pytest.raises(ImproperlyConfigured, match="TOKEN_KEYS"):
        _ = conf.token_keys


def test_a_developers_site_makes_its_own(settings):
    settings.WORKFLOWS = {}
    settings.DEBUG = True
    assert look() == {}
    assert conf.base_url.startswith("http://localhost")
    assert conf.token_keys == conf.token_keys != {}
    assert settings.SECRET_KEY not in str(conf.token_keys)


# --- routes -------------------------------------------------------------------------------------------


def test_routes_that_are_not_included_are_named_with_the_include(settings):
    assert look() == {}
    settings.ROOT_URLCONF = "approvals.urls"
    found = look()["holdpoint.W045"]
    assert "'approvals.urls'" in found.msg
    assert "are told 404" in found.msg
    assert 'path("", include("workflows.urls"))' in found.hint
    for alone in ("workflows.urls", "workflows.urls_resume", None):  # None: a process that serves nothing
        settings.ROOT_URLCONF = alone
        assert "holdpoint.W045" not in look()


# --- apps and names -----------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["django_q", "rest_framework"])
def test_a_missing_app_is_named(settings, missing):
    settings.INSTALLED_APPS = [one for one in settings.INSTALLED_APPS if one != missing]
    assert repr(missing) in look()["holdpoint.E001"].msg


def test_a_package_of_the_hosts_that_is_called_like_ours_is_explained(monkeypatch, tmp_path):
    for name in ("workflows", "approvals"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").touch()
    (tmp_path / "approvals" / "__init__.py").unlink()  # a folder without code is nobody's rival
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    found = look()
    assert list(found) == ["holdpoint.W002"]
    assert str(tmp_path) in found["holdpoint.W002"].msg


@pytest.mark.process
def test_a_project_without_the_queue_starts_far_enough_to_hear_of_it(tmp_path):
    (tmp_path / "bare.py").write_text(
        "from config.settings import *\nINSTALLED_APPS = [one for one in INSTALLED_APPS if one != 'django_q']\n"
    )
    answer = subprocess.run(
        [sys.executable, "manage.py", "check"],
        cwd=ROOT,
        env={**os.environ, "DEBUG": "1", "DJANGO_SETTINGS_MODULE": "bare", "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "holdpoint.E001" in answer.stderr
    assert "INSTALLED_APPS" in answer.stderr
