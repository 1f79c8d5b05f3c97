"""The shop as a fixture, and one order in it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.apps.shop import open_shop


@pytest.fixture(scope="module")
def shop(django_db_setup: None, django_db_blocker: Any) -> Iterator[Any]:
    """The models of the shop, with tables, for a module of tests."""
    with django_db_blocker.unblock():
        opened = open_shop()
        opened.__enter__()
    from tests.support.apps.shop import models

    yield models
    with django_db_blocker.unblock():
        opened.__exit__(None, None, None)


@pytest.fixture
def order(shop: Any, db: None) -> Any:
    """An order that is saved and read back."""
    row = shop.Order.objects.create(code="A-1", api_token="canary-token", iban="canary-iban", vault="canary-vault")
    return shop.Order.objects.get(pk=row.pk)
