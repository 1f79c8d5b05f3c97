"""Ben, who asks."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User


@pytest.fixture
def ben(db: None) -> User:
    return User.objects.create_user("ben", first_name="Ben", last_name="Okafor")
