"""System checks: what in the settings cannot work, in `msg`, and what to write instead, in `hint`.

Lives here: questions to the settings, which cost nothing and need no database, and the few that ask it and run
with `check --database default` only. Errors are what loses or repeats work, or stops it; warnings what surprises
or slows down. What only matters in production is said by `check --deploy` alone, so that a fresh project hears
nothing.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import ProgrammingError, connections, router, transaction

from workflows.backend.vanished import read_patience
from workflows.conf import conf
from workflows.conf.settings import SettingProblem, find_problems
from workflows.definitions import registry
from workflows.exceptions import InvalidDuration
from workflows.hooks.checks import check_hook_retention, check_hook_routes, check_hook_secrets
from workflows.importing import foreign_packages
from workflows.models import Instance
from workflows.operations import stuck
from workflows.operations.asked_database import check_server, choose_database
from workflows.operations.kafka_checks import check_kafka, check_kafka_deploy
from workflows.operations.link_checks import check_links, check_routes, check_token_keys, check_webhook_secrets
from workflows.operations.step_checks import check_targets

TAG = "holdpoint"
#: What `pump_queue.push_pump` adds to Q_CLUSTER's timeout for a pump.
PUMP_MARGIN = 15
#: As `conf` wants it.
SHORTEST_SECRET = 16
#: Seconds that a vanished client may keep its locks.
LONGEST_SILENCE = 60
MANY_KEPT = 500
FEW_TASKS = 10
#: Groups of stuck instances that are named; `manage.py workflows stuck` names all.
MANY_STUCK = 20

Check = Callable[..., list[CheckMessage]]


def register_checks() -> None:
    """Make the checks known to Django; called once, when the app is ready."""
    for check in (check_apps, check_names, check_database, check_queue, check_settings):
        register(_as_list(check), TAG)
    register(_as_list(check_kafka), TAG)
    register(_as_list(check_kafka_deploy), TAG, deploy=True)
    register(_as_list(check_routes), TAG)
    register(_as_list(check_hook_routes), TAG)
    register(_as_list(check_targets), TAG)
    register(_as_list(check_speed), TAG, deploy=True)
    register(check_server, TAG, Tags.database)
    register(check_deploy, TAG, Tags.database)
    register(check_isolation, TAG, Tags.database)
    register(check_vanished, TAG, Tags.database)
    register(_as_list(check_links), TAG, deploy=True)
    register(_as_list(check_hook_secrets), TAG, deploy=True)
    register(_as_list(check_hook_retention), TAG, deploy=True)
    register(check_token_keys, TAG, Tags.database)
    register(check_webhook_secrets, TAG, Tags.database)


def check_apps() -> Iterator[CheckMessage]:
    """The other two apps that a project lists."""
    for app, without in (
        ("django_q", "there is no qcluster, and no table for its queue"),
        ("rest_framework", "the REST pages lack their templates"),
    ):
        if not apps.is_installed(app):
            yield Error(
                f"INSTALLED_APPS lacks {app!r}: {without}.",
                hint='INSTALLED_APPS needs "django_q", "rest_framework" and "workflows", and "approvals" where people '
                "decide.",
                id="holdpoint.E001",
            )


def check_names() -> Iterator[CheckMessage]:
    """Whether another package is called like one of ours."""
    home = Path(__file__).resolve().parents[2]
    for name in ("workflows", "approvals"):
        for place in _list_places(name):
            if place.resolve().parent != home:
                yield Warning(
                    f"Another Python package called {name!r} stands in {place.parent}: whichever comes first on "
                    "sys.path hides the other one.",
                    hint=f"Rename yours, or move it into a package: mysite/{name}/, imported as mysite.{name}.",
                    id="holdpoint.W002",
                )
        if others := foreign_packages.list_owners(name):
            yield Warning(
                f"The distribution {' and '.join(map(repr, others))} has a package {name!r} too, in the same place: "
                "one of the two has written over files of the other.",
                hint=f"Make an environment without {' and '.join(map(repr, others))}, and run "
                f"`pip install --force-reinstall {foreign_packages.OURS}` in it.",
                id="holdpoint.W002",
            )


def check_database() -> Iterator[CheckMessage]:
    """The connection that the engine's tables are reached by."""
    alias = router.db_for_write(Instance)
    database = connections[alias].settings_dict
    where, options = f'DATABASES["{alias}"]', database.get("OPTIONS") or {}
    if connections[alias].vendor != "postgresql":
        yield Error(
            f"{where} is {connections[alias].display_name}, and the engine is written for PostgreSQL.",
            hint='Use "django.db.backends.postgresql". For another alias a database router sends "holdpoint", '
            '"holdpoint_approvals" and "django_q" there, and with them what their tables refer to: "auth" (or the app '
            'of AUTH_USER_MODEL), "contenttypes", "admin" and "sessions".',
            id="holdpoint.E003",
        )
        return
    from django.db.backends.postgresql import psycopg_any

    if not psycopg_any.is_psycopg3:
        yield Error(
            "Django uses psycopg2, and workers need psycopg 3 to listen for work.",
            hint='pip install "psycopg[binary]"',
            id="holdpoint.E004",
        )
    if options.get("pool"):
        yield Error(
            f'{where}["OPTIONS"] has a "pool". qcluster forks, and its processes would share the pool\'s sockets: '
            "tasks run twice and answers get mixed up.",
            hint='Remove "pool" and set CONN_MAX_AGE = 60; pool web connections outside (PgBouncer).',
            id="holdpoint.E005",
        )
    if (level := options.get("isolation_level")) is not None and int(level) > 2:
        yield _warn_of_level(f'{where}["OPTIONS"] asks for', getattr(level, "name", str(level)))


def check_isolation(
    app_configs: Any = None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """The level that transactions have where no setting of Django says so: a role or a database may have its own."""
    alias = choose_database(databases)
    if alias is None:
        return []
    db = connections[alias]
    if "isolation_level" in (db.settings_dict.get("OPTIONS") or {}):
        return []  # that is what holds, and check_database has seen it
    with db.cursor() as cursor:
        cursor.execute("SHOW default_transaction_isolation")
        level: str = cursor.fetchone()[0]
    if level in ("read committed", "read uncommitted"):
        return []
    return [_warn_of_level(f'The server of DATABASES["{alias}"] begins transactions at', level)]


def check_vanished(
    app_configs: Any = None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    """How long the server keeps the locks of a client whose machine vanished: what this session really has."""
    alias = choose_database(databases)
    if alias is None:
        return []
    db = connections[alias]
    with db.wrap_database_errors:
        patience = read_patience(db.connection)
    if patience is None or 0 < patience <= LONGEST_SILENCE:
        return []
    return [
        Warning(
            f'The server of DATABASES["{alias}"] keeps the session of a machine that vanished, and its locks, for '
            f"{patience:,.0f} s: so long nobody else gets on with the rows that it held.",
            hint='Set "ENGINE": "workflows.backend", or OPTIONS: "options": "-c tcp_keepalives_idle=10 '
            '-c tcp_keepalives_interval=5 -c tcp_keepalives_count=3 -c tcp_user_timeout=25000". Where a pooler is in '
            "between, set the same in its server's postgresql.conf.",
            id="holdpoint.W008",
        )
    ]


def _warn_of_level(who: str, level: str) -> Warning:
    return Warning(
        f"{who} isolation level {level.upper().replace('_', ' ')}. Inside your own transactions emit() is refused, "
        "because it could miss who waits, and signals, answers and starts sometimes raise a serialization failure.",
        hint="Leave the level at READ COMMITTED (OPTIONS, and default_transaction_isolation of the server, the "
        "database and the role), or repeat such transactions and emit after them. What the engine does in "
        "transactions of its own is READ COMMITTED anyway.",
        id="holdpoint.W006",
    )


def check_queue() -> Iterator[CheckMessage]:
    """Q_CLUSTER, and each of its ALT_CLUSTERS."""
    given = getattr(settings, "Q_CLUSTER", None)
    if not isinstance(given, Mapping) or not given:
        yield Error(
            "Q_CLUSTER is not set: django-q would look for its queue in a Redis on this machine.",
            hint='Q_CLUSTER = {"name": "mysite", "orm": "default", "workers": 2, "timeout": 60, "retry": 300, '
            '"max_attempts": 5, "ack_failures": True, "save_limit": -1}',
            id="holdpoint.E010",
        )
        return
    yield from _check_cluster("Q_CLUSTER", given)
    alternatives = given.get("ALT_CLUSTERS")
    if isinstance(alternatives, Mapping):
        for name, changes in alternatives.items():
            known = {message.msg for message in _check_cluster("Q_CLUSTER", given)}
            for message in _check_cluster("Q_CLUSTER", {**given, **changes}):
                if message.msg not in known:
                    message.msg = f"{message.msg} (ALT_CLUSTERS[{name!r}])"
                    yield message


def check_settings() -> Iterator[CheckMessage]:
    """WORKFLOWS."""
    for problem in find_problems():
        if problem.name and problem.what.endswith("changes nothing."):
            yield Warning(problem.what, hint=problem.fix, id="holdpoint.W030")
        else:
            yield _tell_unreadable(problem)


def _tell_unreadable(problem: SettingProblem) -> CheckMessage:
    what, hint = problem.what, problem.fix
    keys = conf.given.get("TOKEN_KEYS") if problem.name == "TOKEN_KEYS" else None
    for name, secret in keys.items() if isinstance(keys, Mapping) else ():
        if isinstance(secret, str) and len(secret) < SHORTEST_SECRET and "characters" in problem.fix:
            size = f"{len(secret)} character{'' if len(secret) == 1 else 's'}"
            what = f'WORKFLOWS["TOKEN_KEYS"][{name!r}] has {size}, and a secret needs {SHORTEST_SECRET} at least.'
            hint = "Make one: python -c 'import secrets; print(secrets.token_urlsafe(50))'"
            break
    # What a duration may be is part of the problem's own words already, with their full stop.
    return Error(what, hint=f"{hint.partition('.. ')[0].rstrip('.')}.", id="holdpoint.E031")


def check_speed() -> Iterator[CheckMessage]:
    """What works and is slow, or is right on a developer's machine only."""
    alias = router.db_for_write(Instance)
    database = connections[alias].settings_dict
    where, options = f'DATABASES["{alias}"]', database.get("OPTIONS") or {}
    if database.get("CONN_MAX_AGE") == 0:
        yield Warning(
            f"{where} has CONN_MAX_AGE = 0: the queue connects anew at every poll, several times a second.",
            hint='Set "CONN_MAX_AGE": 60 and "CONN_HEALTH_CHECKS": True.',
            id="holdpoint.W040",
        )
    if not (options.get("server_side_binding") and options.get("prepare_threshold") is not None):
        yield Warning(
            f"{where} prepares no statements: each signal is planned anew.",
            hint='Set OPTIONS: "server_side_binding": True, "prepare_threshold": 2 (not behind a transaction pooler). '
            "It is for the whole alias: raw SQL of yours such as `interval %s` then needs a cast, and no call may hold "
            "two statements. docs/install.md tells which.",
            id="holdpoint.W041",
        )
    if (getattr(settings, "Q_CLUSTER", None) or {}).get("sync"):
        yield Warning(
            'Q_CLUSTER["sync"] runs tasks inside whoever queues them; it is meant for tests.',
            hint='Remove "sync".',
            id="holdpoint.W042",
        )


def check_deploy(app_configs: Any = None, databases: Sequence[str] | None = None, **kwargs: Any) -> list[CheckMessage]:
    """Instances that this code cannot take further; only where their database is asked about."""
    alias = choose_database(databases)
    if alias is None:
        return []
    try:
        with transaction.atomic(using=alias):
            found = [one for one in stuck.find_stuck(alias) if one.blocks]
    except ProgrammingError:
        return []  # `migrate` asks before the tables are there
    return [Warning(f"{one}.", hint=one.advice, id="holdpoint.W050") for one in found[:MANY_STUCK]]


def _check_cluster(where: str, given: Mapping[str, Any]) -> Iterator[CheckMessage]:
    yield from _check_broker(where, given)
    timeout, retry = given.get("timeout"), given.get("retry", 60)
    if not isinstance(timeout, int) or isinstance(timeout, bool) or timeout <= 0:
        yield Error(
            f'{where}["timeout"] is {timeout!r}: a task that hangs would keep its worker for ever'
            + (", and django-q can only count whole seconds." if isinstance(timeout, float) else "."),
            hint='Set "timeout": 60, in whole seconds.',
            id="holdpoint.E012",
        )
    else:
        yield from _check_retry(where, given, timeout, retry)
        yield from _check_step_timeouts(where, timeout)
    yield from _check_failures(where, given)


def _check_broker(where: str, given: Mapping[str, Any]) -> Iterator[CheckMessage]:
    alias = router.db_for_write(Instance)
    if given.get("orm") != alias:
        broker = f"keeps its queue in {given['orm']!r}" if given.get("orm") else 'has no "orm"'
        yield Error(
            f"{where} {broker}, and the engine's tables are in {alias!r}: a task would not be queued in the "
            "transaction that needs it, so it may run too early, or for something that was rolled back.",
            hint=f'Set "orm": "{alias}" and no other broker.',
            id="holdpoint.E011",
        )


def _check_retry(where: str, given: Mapping[str, Any], timeout: int, retry: Any) -> Iterator[CheckMessage]:
    if not isinstance(retry, int) or retry <= timeout + PUMP_MARGIN:
        yield Error(
            f'{where}["retry"] is {retry!r}: a task that takes its whole timeout of {timeout} s would be given '
            "to a second worker while the first one still runs it.",
            hint=f'Set "retry" well above timeout + {PUMP_MARGIN}, such as {timeout * 5}.',
            id="holdpoint.E013",
        )
        return
    workers = given.get("workers") or 1
    limit = given.get("queue_limit", int(workers) ** 2)
    # The lease runs from the moment a task is fetched, while it waits in the cluster's memory.
    needed = timeout * (limit / workers + 2) if limit else float("inf")
    if retry < needed:
        wanted = f'"retry": {round(needed)}' if limit else f'"queue_limit": {workers}'
        yield Warning(
            f"{where} fetches up to {limit or 'any number of'} tasks for {workers} workers, so one may wait longer "
            f"than retry = {retry} s in a cluster's memory and then run twice.",
            hint=f'Set {wanted}, or a "queue_limit" near the number of workers.',
            id="holdpoint.W014",
        )


def _check_step_timeouts(where: str, timeout: int) -> Iterator[CheckMessage]:
    limits: dict[str, float] = {}
    with contextlib.suppress(InvalidDuration):  # reported as unreadable
        limits['WORKFLOWS["STEP_TIMEOUT"]'] = conf.step_timeout
    for definition in registry.list_definitions():
        if definition.step_timeout is not None:
            limits[f"workflow {definition.source}"] = definition.step_timeout
        for name, options in definition.steps.items():
            if options.step_timeout is not None:
                limits[f"step {name!r} of workflow {definition.source}"] = options.step_timeout
    for what, limit in limits.items():
        if limit >= timeout:
            yield Error(
                f'{what} allows a step {limit:g} s, and {where}["timeout"] ends its worker after {timeout} s: the '
                "step would count as a dead worker and hold up its instance until the lease ends.",
                hint=f'Allow the step less than {timeout} s, or raise "timeout" (and "retry" with it).',
                id="holdpoint.E015",
            )


def _check_failures(where: str, given: Mapping[str, Any]) -> Iterator[CheckMessage]:
    if not given.get("max_attempts") or not given.get("ack_failures"):
        yield Warning(
            f'{where} lacks "max_attempts" or "ack_failures": a task that fails is repeated for ever.',
            hint='Set "max_attempts": 5 and "ack_failures": True. Steps have retries of their own.',
            id="holdpoint.W016",
        )
    kept = given.get("save_limit", 250)
    if isinstance(kept, int) and (kept == 0 or kept > MANY_KEPT):
        yield Warning(
            f'{where}["save_limit"] keeps {kept or "all"} finished tasks, which are counted after each task: the '
            "more, the slower.",
            hint='Set "save_limit": -1 (failures are kept all the same) or at most a few hundred.',
            id="holdpoint.W017",
        )
    recycle = given.get("recycle", 500)
    if isinstance(recycle, int) and recycle < FEW_TASKS:
        yield Warning(
            f'{where}["recycle"] replaces a worker after {recycle} tasks: processes start all the time.',
            hint='Leave "recycle" at 500, or set "max_rss".',
            id="holdpoint.W018",
        )
    if given.get("scheduler", True) is False:
        yield Warning(
            f"{where} runs no scheduler: the sweep once a minute, the last net below pumps and watchers, is missing.",
            hint='Remove "scheduler": False, in one cluster at least.',
            id="holdpoint.W019",
        )


def _list_places(name: str) -> Iterator[Path]:
    """Where on sys.path a top-level module or package of the name stands; folders without code do not count."""
    for entry in dict.fromkeys(sys.path):
        spec = PathFinder.find_spec(name, [entry or str(Path.cwd())])
        if spec is not None and spec.origin is not None:
            origin = Path(spec.origin)
            yield origin.parent if origin.stem == "__init__" else origin


@functools.cache  # apps may be set up again (tests do), and Django knows a check by its identity
def _as_list(check: Callable[[], Iterator[CheckMessage]]) -> Check:
    def run(app_configs: Any = None, **kwargs: Any) -> list[CheckMessage]:
        return list(check())

    return run
