"""Gauges of other apps: numbers of theirs that `/metrics` shows as well.

Lives here: which there are. Must not live here: any of them; the engine knows none by name. Invariant owned: each is
read with the engine's own, in their transaction, and is of one workspace where those are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from django.db.backends.base.base import BaseDatabaseWrapper


@dataclass(frozen=True, slots=True)
class Gauge:
    """How something stands, as one number."""

    name: str
    told: str
    #: On this connection, of this workspace or of all (None): one statement of bounded cost, by an index.
    read: Callable[[BaseDatabaseWrapper, int | None], float]


def register_gauge(gauge: Gauge) -> None:
    """Make a gauge known; one of the same name is replaced.

    >>> register_gauge(Gauge("shop_unpaid_invoices", "Invoices that are not paid.", count_unpaid))
    """
    _gauges[gauge.name] = gauge


def list_gauges() -> list[Gauge]:
    """All of them, in the order in which they were registered."""
    return list(_gauges.values())


_gauges: dict[str, Gauge] = {}
