"""Posting bytes to an address outside, and to nowhere inside.

Invariants owned: the connection goes to an address that was judged and to no other, whatever the name says a moment
later; no redirect is followed; time and size of an answer are bounded; no error and no line of the log names more of an
address than its host, because the path of a webhook's address is often its password.
"""

from __future__ import annotations

import contextlib
import functools
import http.client
import logging
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

from workflows.outbound.address_guard import Unreachable, show_host

#: Addresses of one name that are tried.
MOST_ADDRESSES = 3
_USER_AGENT = "Holdpoint"


@dataclass(frozen=True, slots=True)
class PostLimits:
    """Seconds for a connection, for each silence of the other side and for all of it; and bytes of an answer."""

    connect: float = 5.0
    silence: float = 10.0
    whole: float = 20.0
    answer: int = 64 * 1024


LIMITS = PostLimits()


@dataclass(frozen=True, slots=True)
class PostTarget:
    """Where an address leads."""

    scheme: str
    host: str
    port: int
    path: str = field(repr=False)

    @property
    def is_secure(self) -> bool:
        """Whether the way there is encrypted."""
        return self.scheme == "https"

    @property
    def authority(self) -> str:
        """As the Host header has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.is_secure else 80) else f"{host}:{self.port}"


@dataclass(frozen=True, slots=True)
class PostReply:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    ms: int
    #: Whether the answer broke off, or went on for too long.
    is_cut: bool = False


def read_place(url: str) -> PostTarget:
    """Read an address; `Unreachable` where it is none that can be posted to.

    >>> read_place("https://hooks.example/1").port
    443
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Unreachable("the address cannot be read", forbidden=True) from None
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise Unreachable("the address does not begin with https:// and a host", forbidden=True)
    if parts.username is not None or parts.password is not None:
        raise Unreachable("the address has a user in it: messages are signed instead", forbidden=True)
    if not url.isascii() or not url.isprintable() or " " in url:
        raise Unreachable("the address has to be written in plain ASCII", forbidden=True)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    secure = parts.scheme == "https"
    return PostTarget(parts.scheme, parts.hostname, (443 if secure else 80) if port is None else port, path)


def post(
    place: PostTarget, addresses: Sequence[str], body: bytes, headers: Mapping[str, str], limits: PostLimits = LIMITS
) -> PostReply:
    """Send it to one of these addresses, and return whatever is answered; `Unreachable` where nothing is.

    >>> place = read_place("https://hooks.example/1")
    >>> post(place, find_addresses(place.host, place.port, Guard()), b"{}", {}).status
    200
    """
    call = _Call(place, limits)
    # A timeout of a socket bounds one silence, and not an answer that comes byte by byte.
    timer = threading.Timer(limits.whole, call.cut)
    timer.daemon = True
    timer.start()
    try:
        with _silent_about_paths():
            return call.run(addresses, body, {"User-Agent": _USER_AGENT, **headers, "Host": place.authority})
    finally:
        timer.cancel()
        call.close()


class _Call:
    """One request and its answer."""

    def __init__(self, place: PostTarget, limits: PostLimits) -> None:
        self._place, self._limits = place, limits
        self._connection: HTTPConnection | None = None
        #: Kept here: a connection that is to be closed gives its socket to the answer, and knows of it no more.
        self._sock: socket.socket | None = None
        self._answer: Any = None
        self._began = time.monotonic()
        self.is_cut = False

    def run(self, addresses: Sequence[str], body: bytes, headers: Mapping[str, str]) -> PostReply:
        host = show_host(self._place.host)
        try:
            connection = self._connect(addresses)
            connection.request("POST", self._place.path, body, headers, preload_content=False, decode_content=False)
            answer = self._answer = connection.getresponse()
        except urllib3.exceptions.NewConnectionError as error:  # a kind of timeout, to urllib3
            raise Unreachable(f"{host} cannot be reached ({_name(error)})") from None
        except (TimeoutError, urllib3.exceptions.TimeoutError):
            raise Unreachable(f"{host} did not answer in time") from None
        except ssl.SSLCertVerificationError as error:
            raise Unreachable(f"{host} has no good certificate: {show_host(error.verify_message)}") from None
        except (OSError, ValueError, AttributeError, http.client.HTTPException, urllib3.exceptions.HTTPError) as error:
            # Neither its message nor its cause: both may hold the address. A socket that is cut in the midst of reading
            # raises all kinds.
            if self.is_cut:
                raise Unreachable(f"{host} did not answer in time") from None
            raise Unreachable(f"{host} cannot be reached or broke off ({_name(error)})") from None
        if self.is_cut:  # which looks like the end of its headers
            raise Unreachable(f"{host} did not answer in time")
        return self._read(answer)

    def cut(self) -> None:
        """End it, whatever it waits for."""
        self.is_cut = True
        if self._sock is not None:
            with contextlib.suppress(OSError):
                self._sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Give the connection back; an answer that is not read to its end holds it too."""
        if self._answer is not None:
            self._answer.close()
        if self._connection is not None:
            self._connection.close()

    def _connect(self, addresses: Sequence[str]) -> HTTPConnection:
        tried = addresses[:MOST_ADDRESSES]
        for left, address in zip(reversed(range(len(tried))), tried, strict=True):
            try:
                return self._connect_to(address)
            except (OSError, urllib3.exceptions.HTTPError) as error:
                if not left or isinstance(error, ssl.SSLError) or self.is_cut:
                    raise
        raise AssertionError("a name that resolves has an address")  # pragma: no cover

    def _connect_to(self, address: str) -> HTTPConnection:
        """To the address; the name is only what is said and what is certified."""
        port, seconds = self._place.port, self._limits.connect
        if self._place.is_secure:
            self._connection = HTTPSConnection(
                address, port, timeout=seconds, ssl_context=_make_context(), server_hostname=self._place.host
            )
        else:
            self._connection = HTTPConnection(address, port, timeout=seconds)
        self._connection.connect()
        self._connection.timeout = self._limits.silence
        self._sock = self._connection.sock
        if self._sock is not None:
            self._sock.settimeout(self._limits.silence)
        if self.is_cut:  # before there was anything to cut
            raise TimeoutError
        return self._connection

    def _read(self, answer: Any) -> PostReply:
        """The answer says by its status whether it was taken; its body, or a part of it, is for the log."""
        is_cut, parts, left = False, [], self._limits.answer
        try:
            while left > 0 and (part := answer.read(min(left, 8192))):
                parts.append(part)
                left -= len(part)
        except (OSError, ValueError, AttributeError, http.client.HTTPException, urllib3.exceptions.HTTPError):
            is_cut = True
        body = b"".join(parts)
        ms = round((time.monotonic() - self._began) * 1000)
        return PostReply(answer.status, answer.headers, body, ms, is_cut or self.is_cut)


@functools.cache
def _make_context() -> ssl.SSLContext:
    """Made once: reading all authorities takes longer than a request."""
    return ssl.create_default_context()


def _name(error: BaseException) -> str:
    """What an error is called: of a wrapped one the cause says more."""
    cause = error.__cause__ if isinstance(error, urllib3.exceptions.HTTPError) else None
    return type(cause or error).__name__


_posting: ContextVar[bool] = ContextVar("holdpoint_posting", default=False)


@contextlib.contextmanager
def _silent_about_paths() -> Iterator[None]:
    token = _posting.set(True)
    try:
        yield
    finally:
        _posting.reset(token)


def _is_not_ours(record: logging.LogRecord) -> bool:
    return not _posting.get()


#: It warns of headers that it cannot read, with the whole address.
logging.getLogger("urllib3.connection").addFilter(_is_not_ours)
