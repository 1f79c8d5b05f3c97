"""The database of another server, for a test that kills or moves its own: its tables, and being in it.

Lives here: filling it, and this process's connections to it. What must not: servers (`config.postgres`).
To migrate it takes four seconds of a processor, to write down what another database has a tenth of that.
Invariant: inside `elsewhere` every connection of this process is one to the other server, and afterwards none is.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from django.core.management import call_command
from django.db import connection, connections

from config.environment import parse_database_url
from config.postgres.binaries import find_binaries
from tests.support.seats import close_seats
from tests.support.shared_migrations import can_copy


def fill(url: str, source: str) -> None:
    """Give an empty database what the migrated one of this run has."""
    if not can_copy():  # whoever named a server may have named a newer one, too
        with elsewhere(url):
            call_command("migrate", verbosity=0)
        return
    programs = find_binaries(None, None)
    dump = subprocess.run([programs / "pg_dump", source], check=True, capture_output=True).stdout
    subprocess.run(
        [programs / "psql", "-qX", "-v", "ON_ERROR_STOP=1", url], input=dump, check=True, capture_output=True
    )


@contextmanager
def elsewhere(url: str) -> Iterator[None]:
    """Be in another database until the end of the block."""
    settings = connections.settings["default"]
    here = dict(settings)
    there = parse_database_url(url)
    there["OPTIONS"] = {**here["OPTIONS"], **there["OPTIONS"]}
    connections.close_all()
    settings.update(there)
    connection.settings_dict.update(there)
    try:
        yield
    finally:
        close_seats()
        connections.close_all()
        settings.update(here)
        connection.settings_dict.update(here)
