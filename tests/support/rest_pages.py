"""Pages of the API's lists as the database sees them: a call for one, and places within a list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from workflows.rest.base.lists import OrderPlace, find_page

MODES = ["web, custom", "web, generic"]
#: A workspace in which nothing is.
OTHER = 1_000_000
MIDDLE = UUID(int=1 << 127)


def page(rows: Any, segments: Any, *place: Any) -> Callable[[], object]:
    return lambda: find_page(rows, segments, OrderPlace(*place) if place else None, 50)
