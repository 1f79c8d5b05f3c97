"""The partner that the tests of webhooks post to."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.notices import Place, serving
from tests.support.webhook.partners import allow


@pytest.fixture
def partner(settings: Any) -> Iterator[Place]:
    """A server that keeps what it was sent, and answers as a test says."""
    allow(settings, "127.0.0.1")
    with serving() as place:
        yield place
