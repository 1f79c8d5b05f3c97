"""The people of the demo and their papers."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User

from examples.demo import rows
from examples.demo.people import make_people


@pytest.fixture
def people() -> dict[str, User]:
    rows.file_papers()
    return make_people(addresses=False)
