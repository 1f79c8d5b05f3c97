"""A customer of the shop."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.fixture
def acme(shop: Any, db: None) -> Any:
    return shop.Customer.objects.create(name="Acme GmbH", code="acme")
