"""A caller of the API."""

from __future__ import annotations

import pytest

from tests.support.api_calls import Api, make_key


@pytest.fixture
def api() -> Api:
    return Api(make_key())
