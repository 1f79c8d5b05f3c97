"""Sending bytes to an address outside, and to nowhere inside.

Invariants owned: the connection goes to an address that was checked and to no other, whatever the name says a moment
later; no redirect is followed; time and size of an answer are bounded; no error names more of an address than its
host, because the path of a webhook's address is often its password.
"""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import socket
import ssl
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

from approvals.notify.failures import SendFailed
from approvals.show_values import show_text

#: Seconds for a connection, for each silence of the other side, and for all of it.
CONNECT_SECONDS = 5.0
SILENCE_SECONDS = 10.0
TOTAL_SECONDS = 20.0
#: Bytes of an answer that are read.
MAX_ANSWER = 64 * 1024

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

#: Where an IPv6 address is an IPv4 one in disguise: mapped, compatible, NAT64.
_DISGUISES = tuple(map(ipaddress.IPv6Network, ("::ffff:0:0/96", "::/96", "64:ff9b::/96")))
_TUNNELS = tuple(map(ipaddress.IPv6Network, ("2001::/32", "2002::/16")))
_UNICAST = ipaddress.IPv6Network("2000::/3")
#: What older versions of `ipaddress` take for global: of protocols, relays and documentation. The last one
#: looks public, and is the host of each machine in one large cloud.
_SPECIAL = tuple(
    map(ipaddress.ip_network, ("192.0.0.0/24", "192.88.99.0/24", "2001::/23", "3fff::/20", "168.63.129.16/32"))
)


@dataclass(frozen=True, slots=True)
class Posted:
    """What came back."""

    status: int
    body: bytes


def post(url: str, body: bytes, headers: Mapping[str, str], *, allow_private: bool = False) -> Posted:
    """Send it; `SendFailed` unless the answer says that it was taken.

    >>> post("https://hooks.example/1", b"{}", {"Content-Type": "application/json"}).status
    200
    """
    parts = _split(url)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    addresses = find_addresses(host, port, allow_private=allow_private)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    posted = _send(_Pinned(host, port, addresses, is_secure=parts.scheme == "https"), path, body, headers)
    if 300 <= posted.status < 400:
        raise SendFailed(f"{host} answered {posted.status}: redirects are not followed, write the address it leads to")
    if not 200 <= posted.status < 300:
        raise SendFailed(f"{host} answered {posted.status}", is_place=posted.status >= 500 or posted.status == 429)
    return posted


def name_host(url: str) -> str:
    """What may be told of an address.

    >>> name_host("https://hooks.example/services/T0/B0/secret")
    'hooks.example'
    """
    try:
        return show_text(urlsplit(url).hostname or "?")
    except ValueError:
        return "?"


def find_addresses(host: str, port: int, *, allow_private: bool = False) -> list[str]:
    """The addresses of a host, all of them outside.

    >>> find_addresses("127.0.0.1", 80)
    Traceback (most recent call last):
    approvals.notify.failures.SendFailed: 127.0.0.1 leads inside (127.0.0.1), …
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, ValueError):
        raise SendFailed(f"the name {show_text(host)} cannot be resolved", is_place=True) from None
    addresses = list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))
    for one in addresses:
        # One that leads inside is reason enough: who answers so for a name of the web means no good.
        if not allow_private and not is_outside(one):
            raise SendFailed(
                f'{show_text(host)} leads inside ({one}), where webhooks do not go: APPROVALS["WEBHOOKS_PRIVATE"] = '
                "True would allow it",
                is_final=True,
            )
    return addresses


def is_outside(address: str) -> bool:
    """Whether an address is one of the public internet.

    >>> is_outside("93.184.215.14"), is_outside("10.0.0.1"), is_outside("::ffff:10.0.0.1")
    (True, False, False)
    """
    try:
        given: Address = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(given, ipaddress.IPv6Address):
        if any(given in one for one in _DISGUISES):
            return is_outside(str(ipaddress.IPv4Address(int(given) & 0xFFFFFFFF)))
        if given not in _UNICAST or any(given in one for one in _TUNNELS):
            return False
    if any(given in one for one in _SPECIAL):
        return False
    inside = given.is_private or given.is_loopback or given.is_link_local or given.is_reserved
    return given.is_global and not (inside or given.is_multicast or given.is_unspecified)


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        raise SendFailed("the address of this webhook cannot be read", is_final=True) from None
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise SendFailed("the address of this webhook does not begin with https:// and a host", is_final=True)
    if parts.username is not None or parts.password is not None:
        raise SendFailed("the address of this webhook has a user in it: messages are signed instead", is_final=True)
    if not url.isascii() or not url.isprintable() or " " in url:
        raise SendFailed("the address of this webhook has to be written in plain ASCII", is_final=True)
    return parts


class _Pinned(http.client.HTTPConnection):
    """A connection to addresses that are known to be good; the name is only what is said and what is certified."""

    def __init__(self, host: str, port: int, addresses: list[str], *, is_secure: bool) -> None:
        super().__init__(host, port, timeout=SILENCE_SECONDS)
        self._addresses = addresses
        self._context = ssl.create_default_context() if is_secure else None
        self.is_cut = False
        self.default_port = 443 if is_secure else 80  # which is left out of the Host header

    def connect(self) -> None:
        self.sock = self._reach()
        self.sock.settimeout(SILENCE_SECONDS)
        if self._context is not None:
            # The handshake afterwards, so that whoever ends this has the very socket that waits.
            self.sock = self._context.wrap_socket(self.sock, server_hostname=self.host, do_handshake_on_connect=False)
            self.sock.do_handshake()

    def _reach(self) -> Any:
        for place, address in enumerate(self._addresses, start=1):
            try:
                return socket.create_connection((address, self.port), CONNECT_SECONDS)
            except OSError:
                if place == min(len(self._addresses), 3):
                    raise
        raise AssertionError("a name that resolves has an address")  # pragma: no cover

    def cut(self) -> None:
        """End it, whatever it waits for."""
        self.is_cut = True
        with contextlib.suppress(OSError, AttributeError):
            self.sock.shutdown(socket.SHUT_RDWR)


def _send(connection: _Pinned, path: str, body: bytes, headers: Mapping[str, str]) -> Posted:
    host = show_text(connection.host)
    # A timeout of a socket bounds one silence, and not an answer that comes byte by byte.
    timer = threading.Timer(TOTAL_SECONDS, connection.cut)
    timer.daemon = True
    timer.start()
    try:
        connection.request("POST", path, body, {"User-Agent": "Holdpoint", **headers})
        answer = connection.getresponse()
        posted = Posted(answer.status, answer.read(MAX_ANSWER))
        if connection.is_cut:  # which looks like the end of an answer without a body
            raise TimeoutError
        return posted
    except TimeoutError:
        raise SendFailed(f"{host} did not answer in time", is_place=True) from None
    except ssl.SSLCertVerificationError as error:
        raise SendFailed(f"{host} has no good certificate: {show_text(error.verify_message)}", is_place=True) from None
    except (OSError, http.client.HTTPException) as error:
        # Neither its message nor its cause: both may hold the address.
        raise SendFailed(f"{host} cannot be reached or broke off ({type(error).__name__})", is_place=True) from None
    finally:
        timer.cancel()
        connection.close()
