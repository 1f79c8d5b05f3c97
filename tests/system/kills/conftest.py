"""What is killed, and what becomes of it."""

import pytest


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.process)
    item.add_marker(pytest.mark.kill)
    item.add_marker(pytest.mark.slow)
