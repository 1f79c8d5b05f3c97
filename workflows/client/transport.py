"""One call over HTTP: sent, repeated where that is safe, and told apart from what went wrong.

Invariants owned: a call that changes something carries an idempotency key, and every repetition of it the same key
and the same bytes; no attempt begins after the deadline; nothing is followed to another address; and the key is in
no `repr`, message, log or frame that an error leaves behind.
"""

from __future__ import annotations

import json
import logging
import random
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

try:
    import urllib3
except ImportError as missing:
    raise ImportError("workflows.client needs urllib3: pip install django-holdpoint[client]") from missing
from urllib3.exceptions import HTTPError, InvalidHeader, SSLError
from urllib3.util import Retry, Timeout, parse_url

from workflows.client.errors import (
    ApiError,
    ConnectionFailed,
    Postponed,
    Redirected,
    Untrusted,
    read_problem,
    refuse_answer,
)

logger = logging.getLogger("workflows.client")

#: Seconds before the first repetition; doubled for each further one up to the longest, and cut by up to half at random.
FIRST_PAUSE = 0.25
LONGEST_PAUSE = 8.0

#: Repeating is our own business: urllib3 knows no deadline.
_ONCE = Retry(total=False)
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class Call:
    """What is sent; one value for every repetition."""

    method: str
    path: str = field(repr=False)
    #: The path as it may be shown.
    shown: str
    body: bytes | None = field(default=None, repr=False)
    idempotency_key: str | None = None
    #: Whether it is sent with the key.
    keyed: bool = True
    #: Seconds that the server may take longer than usual, because it was asked to wait.
    patience: float = 0.0
    #: Seconds for all attempts; None for the transport's own.
    deadline: float | None = None


#: The one answer of success that has no body.
NO_CONTENT = 204


@dataclass(frozen=True, slots=True)
class Reply:
    """What came back."""

    status: int
    body: Any = field(repr=False)
    replayed: bool = False
    retry_after: float | None = None


class Secret:
    """A text that is sent and never shown."""

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return "<secret>"

    def reveal(self) -> str:
        """The text itself, for no other place than a header."""
        return self._text


class Transport:
    """The connections to one site, for all threads."""

    def __init__(
        self, base_url: str, key: Secret | None, *, timeout: float, retries: int, deadline: float, pool_size: int
    ) -> None:
        url = parse_url(base_url)
        if url.scheme not in ("http", "https") or not url.host:
            raise ValueError("base_url must be the address of a site, such as https://holdpoint.example")
        if url.auth or url.query or url.fragment:
            raise ValueError("base_url must be an address alone, without a user, a query or a fragment")
        self.host: str = url.host
        if (url.path or "").rstrip("/").endswith("/v1"):
            raise ValueError("base_url must be the address of the site, without /v1")
        self.base_url = f"{url.scheme}://{url.netloc}{(url.path or '').rstrip('/')}"
        self._prefix = (url.path or "").rstrip("/")
        self._key = key
        self._timeout, self._retries, self._deadline = timeout, retries, deadline
        port = url.port or (443 if url.scheme == "https" else 80)
        self._pool = (
            urllib3.HTTPSConnectionPool(url.host, port, maxsize=pool_size, cert_reqs="CERT_REQUIRED")
            if url.scheme == "https"
            else urllib3.HTTPConnectionPool(url.host, port, maxsize=pool_size)
        )

    def close(self) -> None:
        """Give the connections back."""
        self._pool.close()

    def exchange(self, call: Call) -> Reply:
        """Send it, and again where that can help; `ApiError` for whatever is no answer of success."""
        if self._pool.pool is None:
            raise RuntimeError("this client is closed; make another one")
        until = time.monotonic() + (self._deadline if call.deadline is None else call.deadline)
        repeated = 0
        while True:
            result = self._try(call, until - time.monotonic())
            if isinstance(result, Reply):
                return result
            pause = _find_pause(result, repeated)
            if pause is None or repeated >= self._retries or time.monotonic() + pause >= until:
                raise result
            repeated += 1
            logger.info("%s %s: %s; again in %.1f s", call.method, call.shown, _tell_cause(result), pause)
            time.sleep(pause)

    def _try(self, call: Call, left: float) -> Reply | ApiError:
        """One attempt. Errors are returned: one raised in here would drag along the frames that hold the key."""
        limit = max(0.001, min(self._timeout + call.patience, left))
        try:
            with _hide_path(call):
                response = self._pool.urlopen(
                    call.method,
                    self._prefix + call.path,
                    body=call.body,
                    headers=_make_headers(call, self._key),
                    retries=_ONCE,
                    redirect=False,
                    timeout=Timeout(total=limit, connect=min(self._timeout, limit)),
                )
        except HTTPError as error:
            refused = isinstance(error, SSLError) and isinstance(error.args[0], ssl.SSLCertVerificationError)
            kind = Untrusted if refused else ConnectionFailed
            return kind(0, "about:blank", f"No answer from {self.base_url}", str(error))
        return self._read(response)

    def _read(self, response: urllib3.BaseHTTPResponse) -> Reply | ApiError:
        status, headers, raw = response.status, response.headers, response.data
        if status in _REDIRECTS:
            told = _tell_place(headers.get("Location", ""))
            return Redirected(status, "about:blank", "The site is somewhere else", f"{told}Correct base_url.")
        retry_after = _read_retry_after(headers)
        if self._key is not None and status >= 300:
            # Something in between may repeat in its error page what it was sent.
            raw = raw.replace(self._key.reveal().encode(), b"<secret>")
        try:
            body = json.loads(raw)
        except (ValueError, RecursionError):
            body = None
        if status >= 400:
            return read_problem(status, body, retry_after=retry_after)
        if not 200 <= status < 300 or (body is None and (status != NO_CONTENT or raw)):
            return refuse_answer(status, "it has no JSON; correct base_url, or look at what stands in between")
        return Reply(status, body, headers.get("Idempotency-Replayed", "").lower() == "true", retry_after)


def write_query(values: Mapping[str, Any]) -> str:
    """What stands behind a path; values that are None are left out.

    >>> write_query({"status": "pending", "limit": None})
    '?status=pending'
    """
    given = {name: value for name, value in values.items() if value is not None}
    return f"?{urlencode(given)}" if given else ""


def _make_headers(call: Call, key: Secret | None) -> Mapping[str, str]:
    headers = {"Accept": "application/json", "User-Agent": "holdpoint-client"}
    if call.body is not None:
        headers["Content-Type"] = "application/json"
    if call.idempotency_key is not None:
        headers["Idempotency-Key"] = call.idempotency_key
    if call.keyed and key is not None:
        headers["Authorization"] = f"Bearer {key.reveal()}"
    return headers


def _find_pause(problem: ApiError, repeated: int) -> float | None:
    """How long to wait before the call is repeated; None if that cannot help."""
    if isinstance(problem, Untrusted) or not isinstance(problem, ConnectionFailed | Postponed):
        return None
    asked = problem.retry_after if isinstance(problem, Postponed) else None
    longest = min(LONGEST_PAUSE, FIRST_PAUSE * 2**repeated)
    # Never all callers at the same moment, not even where the server told them the same one.
    return (asked or 0.0) + random.uniform(longest / 2, longest)


def _tell_place(location: str) -> str:
    """Only the host: the rest of the address may be a secret."""
    try:
        url = parse_url(location)
    except HTTPError:
        return ""
    return f"It points to {url.scheme}://{url.netloc}. " if url.scheme and url.host else ""


def _tell_cause(problem: ApiError) -> str:
    return f"status {problem.status}" if problem.status else problem.detail


def _read_retry_after(headers: Mapping[str, str]) -> float | None:
    told = headers.get("Retry-After")
    try:
        return None if told is None else Retry().parse_retry_after(told)
    except (InvalidHeader, ValueError, OverflowError):
        return None


#: The secret path that is being sent, and what may be shown of it.
_hidden: ContextVar[tuple[str, str] | None] = ContextVar("_hidden", default=None)


@contextmanager
def _hide_path(call: Call) -> Iterator[None]:
    """urllib3 logs every path at DEBUG, and whoever reads the path of a callback could answer it."""
    before = _hidden.set((call.path, call.shown))
    try:
        yield
    finally:
        _hidden.reset(before)


def _show_path(record: logging.LogRecord) -> bool:
    if (hidden := _hidden.get()) is not None and isinstance(record.args, tuple):
        path, shown = hidden
        record.args = tuple(one.replace(path, shown) if isinstance(one, str) else one for one in record.args)
    return True


logging.getLogger("urllib3.connectionpool").addFilter(_show_path)
