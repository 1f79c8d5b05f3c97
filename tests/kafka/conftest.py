"""Fixtures of everything that talks to a real broker."""

import os

import pytest

from tests.kafka_plugin import explain_absence, find_bootstrap


@pytest.fixture(scope="session")
def bootstrap() -> str:
    """The address of the run's broker. Topics and groups of a test bear names of their own."""
    if missing := explain_absence():
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail(f"CI skips no test: {missing}")
        pytest.skip(missing)
    return find_bootstrap()
