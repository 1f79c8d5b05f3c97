"""Probes. The views follow with the hosts."""

from typing import Any

urlpatterns: list[Any] = []
