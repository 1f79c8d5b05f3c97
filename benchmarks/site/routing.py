"""Which population's database a call means, so that two of them can be measured in turns.

Django asks a router for every call of the public API; this one answers with what `use` was told last.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_current = "default"


@contextmanager
def use(alias: str) -> Iterator[None]:
    """Send every call inside the block to one database."""
    global _current
    before, _current = _current, alias
    try:
        yield
    finally:
        _current = before


class Router:
    """Everything goes where `use` says."""

    def db_for_read(self, model: Any, **hints: Any) -> str:
        return _current

    def db_for_write(self, model: Any, **hints: Any) -> str:
        return _current
