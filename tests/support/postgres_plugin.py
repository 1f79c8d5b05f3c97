"""Gives the whole pytest run one PostgreSQL of its own, before any settings are read.

What lives here: the server around a run. What must not: fixtures.
The controller starts the server; xdist's workers inherit its address.
Invariants: two runs never share a server, because their test databases have the same names; no
server outlives its run, however the run ends; DATABASE_URL, when given, is used and left alone.
"""

import os
import signal
from collections.abc import Generator

import pytest

from config.postgres import temporary_server


@pytest.hookimpl(wrapper=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> Generator[None, None, None]:
    """Prepare the environment; as a wrapper, because pytest-django sets Django up in the same hook."""
    if not os.environ.get("DATABASE_URL"):  # neither given nor inherited by an xdist worker
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # end like a Ctrl-C, cleaning up
        block = temporary_server()
        os.environ["DATABASE_URL"] = block.__enter__().url
        os.environ["HOLDPOINT_TEST_SERVER"] = "1"  # tests.support.shared_migrations
        early_config.add_cleanup(lambda: leave(block))
    return (yield)


def leave(block: object) -> None:
    os.environ.pop("DATABASE_URL", None)
    os.environ.pop("HOLDPOINT_TEST_SERVER", None)
    block.__exit__(None, None, None)  # type: ignore[attr-defined]
