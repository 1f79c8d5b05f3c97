"""Looking at a peer's database while it works.

Lives here: reading one value, and waiting for one. Must not live here: what a peer's tables are called. Invariant
owned: figures are made of moments that the database has written down, so how often it is looked at is in none.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import psycopg

#: Seconds that a peer has for one measurement.
PATIENCE = 300
LOOK_EVERY = 0.1


@dataclass
class Observer:
    """A connection of our own to the database of a peer."""

    connection: psycopg.Connection[Any]
    peer: str

    def execute(self, query: str) -> psycopg.Cursor[Any]:
        """Carry out any statement."""
        return self.connection.execute(query)

    def read(self, query: str) -> Any:
        """Return the one value of the one row of a query."""
        [(value,)] = self.connection.execute(query).fetchall()
        return value

    def read_clock(self) -> float:
        """Return the database's moment, in seconds since 1970."""
        moment: float = self.read("SELECT extract(epoch FROM clock_timestamp())::float8")
        return moment

    def wait_for(self, query: str) -> None:
        """Wait until a query says true."""
        until = time.monotonic() + PATIENCE
        while not self.read(query):
            if time.monotonic() > until:
                raise TimeoutError(f"{self.peer} did not get there in {PATIENCE} s: {query}")
            time.sleep(LOOK_EVERY)
