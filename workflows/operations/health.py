"""Probes for load balancers and supervisors: is this process alive, and can it serve.

Lives here: what is asked and what the answers mean. Invariants owned: liveness touches nothing but this
process; readiness answers in bounded time even when the database hangs, and at most one probe of a
process waits for it; nobody learns a name, an address or an error's text here.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar, cast

from django.apps import apps
from django.db import DatabaseError, InterfaceError, connections, router
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
from django.db.models import Count, Min, Q
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils import timezone
from django.views.decorators.cache import never_cache

from workflows import store
from workflows.models import Instance
from workflows.rest.base.program_views import open_to_machines
from workflows.rest.protocol.problems import INVALID_REQUEST, METHOD_NOT_ALLOWED, UNAVAILABLE, answer_problem

logger = logging.getLogger("workflows")

View = TypeVar("View", bound=Callable[..., HttpResponse])
Answer = TypeVar("Answer")

ANSWER_SECONDS = 3.0

_migrated = False


@dataclass(slots=True)
class Report:
    """What a readiness probe found; `problem` is why this site cannot serve."""

    problem: str = ""
    database: str = "ok"
    migrations: str = "ok"
    pumps: list[dict[str, Any]] = field(default_factory=list)
    pump_lag: float | None = None
    deadline_lag: float | None = None
    queue: dict[str, Any] | None = None


def probe(view: View) -> View:
    """A view for machines: GET and HEAD, nobody logged in, never cached, never in a transaction."""

    @wraps(view)
    def answer(request: HttpRequest) -> HttpResponse:
        if request.method not in {"GET", "HEAD"}:
            return answer_problem(METHOD_NOT_ALLOWED, "A probe is read with GET.", headers={"Allow": "GET, HEAD"})
        return view(request)

    return cast(View, never_cache(open_to_machines(answer)))


@probe
def healthz(request: HttpRequest) -> HttpResponse:
    """This process answers."""
    return JsonResponse({"status": "ok"})


@probe
def readyz(request: HttpRequest) -> HttpResponse:
    """This site can serve; with `?require=cluster` also: somebody runs its workflows."""
    required = request.GET.get("require", "")
    if required not in {"", "cluster"}:
        return answer_problem(INVALID_REQUEST, f"require={required:.40} is unknown; there is require=cluster.")
    report = call_within(ANSWER_SECONDS, _examine_on_own_connection)
    if report is None:
        report = Report("The database does not answer.", database="silent", migrations="unknown")
    problem = report.problem
    if not problem and required and not report.pumps:
        problem = "No worker has shown a sign of life: start qcluster or workflow_worker."
    body = {
        "ready": not problem,
        "database": report.database,
        "migrations": report.migrations,
        "cluster": {
            "pumps": report.pumps,
            "pump_lag": report.pump_lag,
            "deadline_lag": report.deadline_lag,
        },
        "queue": report.queue,
    }
    return _answer_unready(problem, body) if problem else JsonResponse(body)


def examine(db: BaseDatabaseWrapper) -> Report:
    """Ask the database, in three statements at most."""
    report = Report()
    try:
        missing = list_unapplied(db)
        if missing:
            report.problem = "Migrations have to be applied: run manage.py migrate."
            report.migrations = f"{len(missing)} to apply"
            return report
        state = store.read_state(db)
        report.pumps = [{"kind": kind, "seconds": round(seconds, 1)} for kind, seconds in state.pumps]
        report.pump_lag, report.deadline_lag = round(state.pump_lag, 3), round(state.deadline_lag, 3)
        report.queue = read_queue()
    except (DatabaseError, InterfaceError) as error:
        logger.info("not ready: %s", error)
        report.problem, report.database = "The database cannot be used.", "failed"
    return report


def list_unapplied(db: BaseDatabaseWrapper) -> list[tuple[str, str]]:
    """Our apps' latest migrations that the database needs and does not have; asked until there are none.

    One that only `tidies` is needed by nothing: on a large site it waits for the last worker of the earlier release.
    """
    global _migrated
    if _migrated:
        return []
    ours = [one.label for one in apps.get_app_configs() if one.label.startswith("holdpoint")]
    loader = MigrationLoader(None)
    needed = [_find_needed(loader, leaf) for label in ours for leaf in loader.graph.leaf_nodes(label)]
    try:
        rows = MigrationRecorder.Migration.objects.using(db.alias).filter(app__in=ours)
        applied = set(rows.values_list("app", "name"))
    except DatabaseError as error:
        if "django_migrations" not in str(error):
            raise
        applied = set()  # an empty database
    missing = [one for one in needed if one not in applied]
    _migrated = not missing
    return missing


def _find_needed(loader: MigrationLoader, leaf: tuple[str, str]) -> tuple[str, str]:
    while getattr(loader.disk_migrations[leaf], "tidies", False):
        leaf = next(parent for parent in loader.disk_migrations[leaf].dependencies if parent[0] == leaf[0])
    return leaf


def read_queue() -> dict[str, Any] | None:
    """django-q's queue: tasks that wait, how long the oldest has, and tasks handed to a cluster."""
    if not apps.is_installed("django_q"):
        return None
    from django_q.conf import Conf
    from django_q.models import OrmQ

    if not Conf.ORM:
        return None
    now = timezone.now()  # django-q stamps its rows with the clock of the process that queues
    found = (
        OrmQ.objects.using(Conf.ORM)
        .filter(key=Conf.CLUSTER_NAME)
        .aggregate(
            waiting=Count("pk", filter=Q(lock__lte=now)),
            taken=Count("pk", filter=Q(lock__gt=now)),
            oldest=Min("lock", filter=Q(lock__lte=now)),
        )
    )
    oldest = found["oldest"]
    waited = 0.0 if oldest is None else max(0.0, (now - oldest).total_seconds())
    return {"waiting": found["waiting"], "taken": found["taken"], "oldest_seconds": round(waited, 1)}


class OneAtATime:
    """Calls that may hang, in a thread of their own, so that whoever waits does so for bounded time."""

    def __init__(self) -> None:
        self._free = threading.Lock()
        self._since = 0.0

    def __call__(self, seconds: float, work: Callable[[], Answer]) -> Answer | None:
        """What `work` returns; None if it takes longer, or if an earlier call still hangs."""
        until = time.monotonic() + seconds
        hangs = self._free.locked() and time.monotonic() - self._since > seconds
        if hangs or not self._free.acquire(timeout=seconds):
            return None
        self._since = time.monotonic()
        answers: list[Answer] = []
        thread = threading.Thread(target=self._run, args=(work, answers), name="holdpoint-probe", daemon=True)
        thread.start()
        thread.join(max(0.0, until - time.monotonic()))
        return answers[0] if answers else None

    def _run(self, work: Callable[[], Answer], answers: list[Answer]) -> None:
        try:
            answers.append(work())
        except Exception:
            logger.exception("a probe failed")
        finally:
            connections.close_all()
            self._free.release()


call_within = OneAtATime()


def _examine_on_own_connection() -> Report:
    return examine(connections[router.db_for_write(Instance)])


def _answer_unready(problem: str, body: dict[str, Any]) -> HttpResponse:
    """A problem like any other, beside what a ready site would have said."""
    return answer_problem(UNAVAILABLE, problem, members=body)
