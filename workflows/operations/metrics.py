"""`GET /metrics` for Prometheus: what happened, from the database's sums, and how things stand now.

Lives here: who may read which numbers, and their names. Invariants owned: a key sees the numbers of its own workspace
and what is nobody's; no label has unbounded values, so neither a workflow's name nor an id is one (queues are few, and
named by code); an answer comes in bounded time even when the database hangs; and one process shows what all of them
did, because none of the numbers is its own.

Counters come from the ledger (`tallies`), which is counted once a minute and, at most one batch of it, at every
reading. They lag by what runs: a row is counted once every transaction that is older than its own has ended.
`holdpoint_uncounted_seconds` tells by how much.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from django.db import DatabaseError, InterfaceError, connections, router
from django.db.backends.base.base import BaseDatabaseWrapper
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_variables
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import CollectorRegistry

from workflows import store
from workflows.access.api_keys import find_access
from workflows.api.refused import flush_dropped
from workflows.conf import conf
from workflows.definitions.flow import known_limits
from workflows.lifecycle import TERMINAL
from workflows.models import Instance
from workflows.operations import health
from workflows.operations.gauges import Gauge, list_gauges
from workflows.rest.base.authentication import read_key
from workflows.rest.base.program_views import open_to_machines
from workflows.rest.protocol.problems import (
    FORBIDDEN,
    METHOD_NOT_ALLOWED,
    UNAUTHORIZED,
    UNAVAILABLE,
    RequestRefused,
    answer_problem,
)
from workflows.store.ledger.event_sums import BUCKET_LABELS, HOOK_OUTCOMES, ITEM_ENDS, REASONS
from workflows.store.ledger.tallies import read_backlog, read_tallies, tally_batch
from workflows.store.probe import (
    OpenUnits,
    Pending,
    State,
    prepare_reading,
    read_pending,
    read_queues,
    read_state,
    read_units,
)

logger = logging.getLogger("workflows")

ANSWER_SECONDS = 5.0
#: A batch that takes longer than this is left to the sweep.
TALLY_SECONDS = 2.0

Tallies = Mapping[tuple[str, str], float]

#: Counters by their name in the sums.
COUNTERS = {
    "started": ("holdpoint_instances_started", "Instances that were started."),
    "deliveries": ("holdpoint_deliveries", "Signals and events that were put into an inbox; duplicates are not."),
    "completions": ("holdpoint_completions", "Interactions that were completed."),
    "resumptions": ("holdpoint_resumptions", "Parked instances that were woken, by whatever they waited for."),
    "unseen": ("holdpoint_unseen_signals", "Signals that came while a last step ran, and that no step has seen."),
    "timeouts": ("holdpoint_timeouts", "Waits that ended by their deadline."),
    "failed_runs": ("holdpoint_failed_runs", "Runs of a step that ended without an outcome and are tried again."),
    "reclaims": ("holdpoint_reclaims", "Instances that were taken back from a worker that died or hung."),
    "put_back": ("holdpoint_put_back", "Instances that a worker put back because it does not know their workflow."),
}


@dataclass(frozen=True, slots=True, eq=False)
class Reading:
    """What one reading shows."""

    tallies: Tallies
    pending: Pending
    units: OpenUnits
    #: By "running" and "waiting", then by queue.
    queues: Mapping[str, Mapping[str, int]]
    state: State
    backlog: float
    #: Those of other apps, with their values.
    gauges: Sequence[tuple[Gauge, float]] = ()

    def collect(self) -> Iterator[Metric]:
        """The same in Prometheus' terms."""
        for name, (metric, told) in COUNTERS.items():
            yield CounterMetricFamily(metric, told, value=self.tallies.get((name, ""), 0))
        ended = CounterMetricFamily("holdpoint_instances_ended", "Instances that ended.", labels=["status"])
        for status in sorted(TERMINAL):
            ended.add_metric([status], self.tallies.get(("ended", status), 0))
        yield ended
        items = CounterMetricFamily("holdpoint_items", "Items of units that ended.", labels=["status"])
        for end in ITEM_ENDS:
            items.add_metric([end], self.tallies.get(("items", end), 0))
        yield items
        dropped = CounterMetricFamily(
            "await_completion_dropped", "Completions that were refused and changed nothing.", labels=["reason"]
        )
        for reason in REASONS:
            both = (self.tallies.get((source, reason), 0) for source in ("refused", "dropped"))
            dropped.add_metric([reason], sum(both))
        yield dropped
        hooks = CounterMetricFamily(
            "holdpoint_hooks", "Requests to inbound hooks, by what became of them.", labels=["outcome"]
        )
        for outcome in HOOK_OUTCOMES:
            hooks.add_metric([outcome], self.tallies.get(("hooks", outcome), 0))
        yield hooks
        yield self._collect_resumes()
        pending = GaugeMetricFamily(
            "holdpoint_pending", "Interactions that wait for an answer, by how long: up to so long.", labels=["age"]
        )
        for age, count in self.pending.ages.items():
            pending.add_metric([age], count)
        yield pending
        yield from self._collect_queues()
        for name, told, value in (
            (
                "pending_capped",
                "1 if so many interactions are pending that only the first due were counted.",
                self.pending.capped,
            ),
            ("units_open", "Units of items that are open; at most 10,000 are counted.", self.units.open),
            ("items_in_flight", "Items of open units that are asked and not over.", self.units.in_flight),
            ("items_queued", "Items of open units that wait for their turn.", self.units.queued),
            ("pump_lag_seconds", "How long the longest waiting runnable instance has waited.", self.state.pump_lag),
            ("deadline_lag_seconds", "How long the oldest passed deadline has waited.", self.state.deadline_lag),
            ("pumps", "Pumps that have shown a sign of life.", len(self.state.pumps)),
            ("uncounted_seconds", "Age of the oldest event that the counters do not have yet.", self.backlog),
        ):
            yield GaugeMetricFamily(f"holdpoint_{name}", told, value=float(value))
        for gauge, value in self.gauges:
            yield GaugeMetricFamily(gauge.name, gauge.told, value=value)

    def _collect_queues(self) -> Iterator[Metric]:
        for state, told in (
            ("running", "Steps that run, by queue."),
            ("waiting", "Instances that wait to run, by queue; at most 100,000 are counted."),
        ):
            metric = GaugeMetricFamily(f"holdpoint_{state}", told, labels=["queue"])
            counts = self.queues[state]
            for queue in sorted({*known_limits.list_queues(), *counts}):
                metric.add_metric([queue], counts.get(queue, 0))
            yield metric

    def _collect_resumes(self) -> Metric:
        counts = accumulate(self.tallies.get(("time_to_resume", label), 0) for label in BUCKET_LABELS)
        return HistogramMetricFamily(
            "holdpoint_time_to_resume_seconds",
            "From waking a parked instance to the commit of the step that this woke.",
            buckets=list(zip(BUCKET_LABELS, counts, strict=True)),
            sum_value=self.tallies.get(("time_to_resume_sum", ""), 0),
        )


@never_cache
@open_to_machines
def metrics(request: HttpRequest) -> HttpResponse:
    """What a scraper asks for."""
    if request.method not in {"GET", "HEAD"}:
        return answer_problem(METHOD_NOT_ALLOWED, "Metrics are read with GET.", headers={"Allow": "GET, HEAD"})
    key = read_key(request)
    if key is None and not conf.metrics_public:
        return _answer_refused(_refuse_stranger())  # who sends nothing takes nobody's turn at the database
    found = _call_within(ANSWER_SECONDS, lambda: _examine(key))
    if found is None:
        return answer_problem(UNAVAILABLE, "The database cannot be used.", headers={"Retry-After": "5"})
    if isinstance(found, RequestRefused):
        return _answer_refused(found)
    registry = CollectorRegistry()
    registry.register(found)
    encode, content_type = _choose_encoder(request.headers.get("Accept", ""))
    return HttpResponse(encode(registry), content_type=content_type)


def _choose_encoder(accept: str) -> tuple[Callable[[CollectorRegistry], bytes], str]:
    try:
        return choose_encoder(accept)
    except (TypeError, ValueError):  # a version that is no number
        return choose_encoder("")


def read_metrics(db: BaseDatabaseWrapper, workspace: int | None) -> Reading:
    """Count a batch of what is not counted yet, then read: one workspace, or all (None)."""
    flush_dropped()
    try:
        tally_batch(db, patience=TALLY_SECONDS)
    except DatabaseError as error:  # a server that may not write, or a batch too large: it shows what is there
        logger.warning("the ledger could not be counted for metrics: %s", error)
    with store.atomic(db):
        prepare_reading(db, ANSWER_SECONDS)
        return Reading(
            read_tallies(db, workspace),
            read_pending(db, workspace),
            read_units(db, workspace),
            read_queues(db, workspace),
            read_state(db),
            read_backlog(db),
            [(one, one.read(db, workspace)) for one in list_gauges()],
        )


#: A reading that hangs must not hold up the probes, so it does not share their one thread.
_call_within = health.OneAtATime()


@sensitive_variables("key")
def _examine(key: str | None) -> Reading | RequestRefused | None:
    """On a connection of its own: who asks, and what they see."""
    try:
        workspace = None if key is None else _find_workspace(key)
        return read_metrics(connections[router.db_for_write(Instance)], workspace)
    except RequestRefused as refused:
        return refused
    except (DatabaseError, InterfaceError) as error:
        logger.warning("metrics cannot be read: %s", error)
        return None


@sensitive_variables("key")
def _find_workspace(key: str) -> int:
    """Whose numbers a key may see."""
    access = find_access(key)
    if access is None:
        raise _refuse_stranger()
    if not access.scopes & {"read", "admin"}:
        raise RequestRefused(FORBIDDEN, "This takes a key with the scope read.")
    if access.workflows is not None:
        raise RequestRefused(FORBIDDEN, "Metrics are of a whole workspace: they take a key that is for all workflows.")
    return access.workspace


def _refuse_stranger() -> RequestRefused:
    return RequestRefused(
        UNAUTHORIZED,
        'Send a key of this site in the header Authorization: Bearer hp_…, or set WORKFLOWS["METRICS_PUBLIC"].',
        headers={"WWW-Authenticate": 'Bearer realm="holdpoint"'},
    )


def _answer_refused(refused: RequestRefused) -> HttpResponse:
    return answer_problem(refused.kind, refused.detail, headers=refused.headers)
