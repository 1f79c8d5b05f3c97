"""Fixtures of what talks to a real RabbitMQ."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.rabbitmq_node import Node, explain_absence


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.process)


@pytest.fixture(scope="session")
def node() -> Iterator[Node]:
    """A node for all tests of this process."""
    if missing := explain_absence():
        if os.environ.get("CI", "").lower() in ("1", "true"):
            pytest.fail(f"CI skips no test: {missing}")
        pytest.skip(missing)
    with tempfile.TemporaryDirectory(prefix="holdpoint-rabbitmq-", ignore_cleanup_errors=True) as folder:
        node = Node(Path(folder))
        node.start()
        try:
            yield node
        finally:
            node.stop()
