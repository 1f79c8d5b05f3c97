"""Fixtures of these tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from django.core.cache import cache

from workflows.hooks import definition


@pytest.fixture(autouse=True)
def own_hooks(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A process that knows no hook yet, whose calls nobody has counted."""
    monkeypatch.setattr(definition, "_hooks", {})
    cache.clear()
    yield
    cache.clear()
