"""Calls of the REST API by a person who is logged in."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.models import User
from django.test import Client

from tests.support.api_calls import Api


def login(user: User, **options: Any) -> Api:
    """Calls of a person."""
    client = Client(**options)
    client.force_login(user)
    return Api(client=client)
