"""Real processes: a cluster, workers, sites."""

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.process)
    item.add_marker(pytest.mark.slow)
