"""Fixtures of everything that talks to a real broker."""

import os
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.kafka.world import Partner
from tests.support.kafka_plugin import explain_absence, find_bootstrap


@pytest.fixture(scope="session")
def bootstrap() -> str:
    """The address of the run's broker. Topics and groups of a test bear names of their own."""
    return require_bootstrap()


def require_bootstrap() -> str:
    """The same, or the end of the test: skipped, or failed where CI may skip nothing."""
    if missing := explain_absence():
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail(f"CI skips no test: {missing}")
        pytest.skip(missing)
    return find_bootstrap()


@pytest.fixture
def partner(bootstrap: str) -> Partner:
    return Partner(bootstrap)


@pytest.fixture
def configure(partner: Partner, settings: Any) -> Callable[..., None]:
    """Let the site talk to the run's broker, with these topics of answers."""

    def configure(answers: dict[str, Any], **others: Any) -> None:
        kafka = {"BOOTSTRAP": partner.bootstrap, "ANSWERS": answers, "GROUP": partner.group, **others}
        settings.WORKFLOWS = {**settings.WORKFLOWS, "KAFKA": kafka}

    return configure
