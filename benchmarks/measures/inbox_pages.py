"""What a reviewer's browser waits for: whole pages, with login, templates and HTTP, among few and many pending.

Each population has a web server of its own, as the site starts it, and they are asked in turns. One request is in
flight at a time: what is measured is how long one person waits, not how many can be served.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol
from uuid import UUID

from django.contrib.auth import get_user_model
from django.test import Client
from django.urls import reverse

from approvals.models import Review
from approvals.web.base.filters import Filters, InboxPlace
from benchmarks.contenders.caller import call_all, write_get
from benchmarks.contenders.holdpoint import Holdpoint
from benchmarks.contenders.web import run_server
from benchmarks.measures.scale import BAR
from benchmarks.measures.times import SLOWEST, Times
from benchmarks.plan import Plan, say
from benchmarks.site.routing import use
from benchmarks.site.workflows import Ask
from benchmarks.table import Row, at_most, times_at_most

#: Requests of one kind in one repetition, and how many of them go to one server before the next has its turn.
SAMPLES, TURN, WARM_UP = 100, 10, 20


class Population(Protocol):
    """So many pending requests in one database, nearly all of them for one person."""

    alias: str
    size: int
    user: Any


@dataclass(frozen=True)
class Site:
    """A web server of one population, and what its reviewer's browser asks of it."""

    alias: str
    size: int
    requests: dict[str, bytes]
    port: int

    def time(self, name: str, count: int) -> list[float]:
        """Ask for one page so many times, one after the other; the milliseconds of each."""
        calls = call_all(self.port, [self.requests[name]] * count, in_flight=1, status=200)
        return [1000 * took for took in calls.each]


def measure_pages(plan: Plan, populations: Sequence[Population]) -> Iterable[Row]:
    """Whole pages: p50 beside that with few pending, and p95."""
    with ExitStack() as stack:
        sites = [stack.enter_context(_serve(one)) for one in populations]
        small, *others = sites
        for name in small.requests:
            found = {one.alias: Times() for one in sites}
            for one in sites:
                one.time(name, WARM_UP)
            for repetition in range(1, plan.repetitions + 1):
                for alias, times in _ask_in_turns(sites, name).items():
                    found[alias] = found[alias].add(times)
                told = "   ".join(f"{one.size:>9,}: {found[one.alias].p50s[-1]:.1f} ms" for one in sites)
                say(f"    {repetition}/{plan.repetitions}  {name:<40} {told}")
            for one in others:
                ours, few = found[one.alias], found[small.alias]
                title, peer = f"{name}, p50 with {one.size:,} pending", f"{small.size:,} pending"
                yield Row(title, "ms", ours.p50s, peer, few.p50s, (times_at_most(BAR),))
                yield Row("… each, p95", "ms", ours.p95s, bars=(at_most(SLOWEST),))


def _ask_in_turns(sites: Sequence[Site], name: str) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {one.alias: [] for one in sites}
    for turn in range(SAMPLES // TURN):
        for one in sites[:: 1 if turn % 2 else -1]:  # nobody is always first
            times[one.alias] += one.time(name, TURN)
    return times


@contextmanager
def _serve(population: Population) -> Iterator[Site]:
    with use(population.alias):
        browser = Client()
        browser.force_login(population.user)
        cookie = "; ".join(f"{name}={morsel.value}" for name, morsel in browser.cookies.items())
        paths = _list_paths(population)
    with run_server(DJANGO_SETTINGS_MODULE="benchmarks.site.web", POPULATION=population.alias) as port:
        requests = {name: write_get(port, path, Cookie=cookie, **headers) for name, (path, headers) in paths.items()}
        yield Site(population.alias, population.size, requests, port)


def _list_paths(population: Population) -> dict[str, tuple[str, dict[str, str]]]:
    """What is asked for, and with which headers."""
    inbox = reverse("approvals:inbox")
    dated = Review.objects.filter(due_at__isnull=False).by_due()
    half = dated[population.size // 4]
    after = Filters().write(after=InboxPlace(half.pk, half.due_at))
    one = reverse("approvals:review", args=[_ask_one(population)])
    part = {"HX-Request": "true"}
    return {
        "Page of the inbox": (inbox, {}),
        "Page of the inbox in the middle": (f"{inbox}?{after}", {}),
        "Page of the inbox, a word searched": (f"{inbox}?{Filters(q='refund').write()}", {}),
        "Look for news": (f"{reverse('approvals:live')}?shown=", part),
        "Request beside the list": (one, part),
        "Request as a page": (one, {}),
    }


def _ask_one(population: Population) -> UUID:
    """A request with a workflow behind it, for the page of one; the others are rows of reviews alone."""
    get_user_model().objects.get_or_create(username="requester")
    holdpoint = Holdpoint(population.alias)
    try:
        [id] = holdpoint.park(1, workflow=Ask)
    finally:
        holdpoint.close()
    return UUID(str(Review.objects.values_list("pk", flat=True).get(instance_id=id)))
