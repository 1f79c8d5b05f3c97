"""Real processes: a cluster, workers, sites."""

from pathlib import Path

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.process)
    item.add_marker(pytest.mark.slow)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "ran"
