"""The broker itself."""

import pytest

from tests.support.kafka.broker import bootstrap as bootstrap


def pytest_itemcollected(item: pytest.Item) -> None:
    item.add_marker(pytest.mark.kafka)
    item.add_marker(pytest.mark.process)
