"""Ann, who decides many requests together."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from tests.support.review_calls import make_person


@pytest.fixture
def ann() -> User:
    return make_person("ann", "finance")
