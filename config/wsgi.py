"""The WSGI application: `granian --interface wsgi config.wsgi:application`.

Lives here: how many of a process's threads may wait for bodies. The server sets no time by which a body has to be
there, so whoever sends half of one holds the thread that reads it. Invariant owned: such requests never hold all.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable
from typing import Any

from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

#: Of the sixteen threads that `run` gives a process.
READERS = 12


class Body:
    """A request's body, which is read while there is a place, and else not at all."""

    def __init__(self, body: Any, places: threading.Semaphore) -> None:
        self._body, self._places = body, places

    def read(self, *size: int) -> bytes:
        """As of any file; TimeoutError where too many are being read."""
        return self._take(self._body.read, *size)

    def readline(self, *size: int) -> bytes:
        """The same, up to the next line."""
        return self._take(self._body.readline, *size)

    def _take(self, read: Callable[..., bytes], *size: int) -> bytes:
        if not self._places.acquire(blocking=False):
            raise TimeoutError("too many requests are on their way")
        try:
            return read(*size)
        finally:
            self._places.release()


_serve = get_wsgi_application()
_places = threading.Semaphore(READERS)


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Django, with bodies that only so many threads wait for."""
    environ["wsgi.input"] = Body(environ["wsgi.input"], _places)
    return _serve(environ, start_response)
