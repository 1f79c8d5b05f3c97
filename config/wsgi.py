"""The WSGI application: `granian --interface wsgi config.wsgi:application`.

Lives here: how many of a process's threads callers may hold, and how large a body may be. The server sets no time by
which a body has to be there, so whoever sends half of one holds the thread that reads it. Invariants owned: such
requests, and those that wait for an instance's end, never hold all threads; no body larger than the API takes is read,
not even into a file; a body of which only a part came is never taken for all of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from django.core.wsgi import get_wsgi_application

from workflows.conf import conf
from workflows.rest.base.held_threads import PLACES

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")

#: Of the sixteen threads that `run` gives a process. At most ten of them wait for an end (`MAX_WAITS`), so that
#: bodies are read all the same.
HELD = 12
#: Beside the largest list of the API: what a form adds to what it sends.
ROOM = 64 * 1024
#: Where programs call. These views look at the length before they read, and refuse in words of their own.
MACHINES = ("/v1/", "/resume/", "/hooks/")


class Body:
    """A request's body, which is read while there is a place, and else not at all."""

    def __init__(self, body: Any, length: int = 0) -> None:
        self._body = body
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
        if not PLACES.take():
            raise TimeoutError("too many requests are on their way")
        try:
            return read(*size)
        finally:
            PLACES.give_back()


_serve = get_wsgi_application()
PLACES.most = HELD


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Django, with bodies of a bounded size that only so many threads wait for."""
    announced = environ.get("CONTENT_LENGTH") or ""
    length = int(announced) if announced.isdecimal() and len(announced) < 19 else (1 << 62 if announced else 0)
    most = conf.max_bulk_body + ROOM
    if length > most and not environ.get("PATH_INFO", "").startswith(MACHINES):
        headers = [("Content-Type", "text/plain; charset=utf-8"), ("Connection", "close")]
        start_response("413 Content Too Large", headers)
        return [f"This site takes at most {most} bytes at once.\n".encode()]
    environ["wsgi.input"] = Body(environ["wsgi.input"], length)
    return _serve(environ, start_response)
