"""The run's broker and a partner on it."""

from collections.abc import Iterator

import pytest

from config.kafka import Broker, temporary_broker
from tests.support.kafka.broker import bootstrap as bootstrap
from tests.support.kafka.broker import configure as configure
from tests.support.kafka.broker import partner as partner


@pytest.fixture
def own_broker(bootstrap: str) -> Iterator[Broker]:
    with temporary_broker() as broker:
        yield broker
