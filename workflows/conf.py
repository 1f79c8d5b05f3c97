"""The WORKFLOWS setting, read in one place with types and defaults.

Values are looked up at every access, so `override_settings` works; system checks validate them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings

from workflows.durations import parse_timeout

DEFAULTS: Mapping[str, Any] = {
    "STEP_TIMEOUT": 50,
    "MAX_BODY": 512 * 1024,
}


class Conf:
    """`WORKFLOWS` with attribute access."""

    @property
    def given(self) -> Mapping[str, Any]:
        """What the project wrote."""
        value = getattr(settings, "WORKFLOWS", {})
        return value if isinstance(value, Mapping) else {}

    def _read(self, name: str) -> Any:
        return self.given.get(name, DEFAULTS[name])

    @property
    def step_timeout(self) -> float:
        """Seconds one run of a step may take unless its workflow says otherwise."""
        return parse_timeout(self._read("STEP_TIMEOUT"))

    @property
    def max_body(self) -> int:
        """The largest payload of one signal, in bytes of JSON."""
        return int(self._read("MAX_BODY"))


conf = Conf()
