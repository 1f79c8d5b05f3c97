"""Gives each process of a pytest run a PostgreSQL of its own, before any settings are read.

What lives here: the servers around a run. What must not: fixtures.
The controller starts one and xdist's first worker inherits its address; every other worker starts another. On a shared
server, what is counted or sealed waits for the oldest transaction of all databases: for the tests of other workers.
Invariants: two runs never share a server, because their test databases have the same names; no
server outlives its run, however the run ends; DATABASE_URL, when given, is used and left alone.
"""

import os
import signal
from collections.abc import Generator

import pytest

from config.postgres import temporary_server

#: The address of the first server, by which workers find what one of them has migrated (`shared_migrations`).
FIRST_SERVER = "HOLDPOINT_TEST_SERVER"


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, None, None]:
    """Prepare the environment; as a wrapper, because pytest-django sets Django up in the same hook."""
    is_begun_by_hand = not os.environ.get("DATABASE_URL")
    if is_begun_by_hand or inherits_server():
        if is_begun_by_hand:  # a worker ends with its controller
            signal.signal(signal.SIGTERM, signal.default_int_handler)  # end like a Ctrl-C, cleaning up
        block = temporary_server()
        os.environ["DATABASE_URL"] = block.__enter__().url
        os.environ.setdefault(FIRST_SERVER, os.environ["DATABASE_URL"])
        early_config.add_cleanup(lambda: leave(block))
    return (yield)


def inherits_server() -> bool:
    """Whether this is a worker whose server is that of the first one."""
    first = os.environ.get(FIRST_SERVER)
    is_first = os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0"
    return first is not None and os.environ["DATABASE_URL"] == first and not is_first


def leave(block: object) -> None:
    os.environ.pop("DATABASE_URL", None)
    os.environ.pop(FIRST_SERVER, None)
    block.__exit__(None, None, None)  # type: ignore[attr-defined]
