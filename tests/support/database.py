"""The connection that the engine writes on, as its statements take it."""

from __future__ import annotations

from typing import Any

from django.db import connections


def db() -> Any:
    return connections["default"]
