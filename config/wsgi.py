"""The WSGI application: `granian --interface wsgi config.wsgi:application`.

Lives here: how many of a process's threads may wait for bodies. The server sets no time by which a body has to be
there, so whoever sends half of one holds the thread that reads it. Invariants owned: such requests never hold all; a
body of which only a part came is never taken for all of it.
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

    def __init__(self, body: Any, places: threading.Semaphore, length: int = 0) -> None:
        self._body, self._places = body, places
        #: Bytes that were announced and have not come.
        self._left = length

    def read(self, *size: int) -> bytes:
        """As of any file; TimeoutError where too many are read, ConnectionError where less comes than announced."""
        part = self._take(self._body.read, *size)
        self._count(part, whole=not size or size[0] < 0 or len(part) < size[0])
        return part

    def readline(self, *size: int) -> bytes:
        """The same, up to the next line."""
        part = self._take(self._body.readline, *size)
        self._count(part, whole=not part and size != (0,))
        return part

    def _count(self, part: bytes, *, whole: bool) -> None:
        """The server tells an end that came too early as any other, and what came might be taken for all."""
        self._left -= len(part)
        if whole and self._left > 0:
            raise ConnectionAbortedError("the connection broke before the whole body was sent")

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
    length = environ.get("CONTENT_LENGTH") or ""
    environ["wsgi.input"] = Body(environ["wsgi.input"], _places, int(length) if length.isdecimal() else 0)
    return _serve(environ, start_response)
