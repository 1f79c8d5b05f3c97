"""Ann, logged in."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.test import Client


@pytest.fixture
def client(ann: User) -> Client:
    client = Client()
    client.force_login(ann)
    return client
