"""Which addresses may be called: those of the public internet, and those inside that the site allows.

Lives here: judging addresses after a name was resolved. Must not live here: calling them. Invariant owned: of a name
every address is judged, in whatever disguise it comes, and a caller connects to what was judged and to nothing else.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from workflows.exceptions import InvalidCall, show
from workflows.wording.hidden_characters import reveal

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

#: Where an IPv6 address is an IPv4 one in disguise: mapped, compatible, NAT64.
DISGUISES = tuple(map(ipaddress.IPv6Network, ("::ffff:0:0/96", "::/96", "64:ff9b::/96")))
_TUNNELS = tuple(map(ipaddress.IPv6Network, ("2001::/32", "2002::/16")))
_UNICAST = ipaddress.IPv6Network("2000::/3")
#: What older versions of `ipaddress` take for global: of protocols, relays and documentation. The last one
#: looks public, and is the host of each machine in one large cloud.
_SPECIAL = tuple(
    map(ipaddress.ip_network, ("192.0.0.0/24", "192.88.99.0/24", "2001::/23", "3fff::/20", "168.63.129.16/32"))
)
_NAME = re.compile(r"(?:\*\.)?(?=.{1,253}$)[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*")


class Unreachable(Exception):
    """A host cannot be called; the text names no more of an address than the host. `forbidden`: it may not be."""

    def __init__(self, message: str, *, forbidden: bool = False) -> None:
        self.forbidden = forbidden
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Guard:
    """What may be called besides the public internet. `remedy` says how a site allows more."""

    names: tuple[str, ...] = ()
    networks: tuple[Network, ...] = ()
    #: Every address, for sites that call inside only.
    everything: bool = False
    remedy: str = ""

    def knows_name(self, host: str) -> bool:
        """Whether a host is allowed by its name.

        >>> Guard(names=("*.internal",)).knows_name("billing.internal")
        True
        """
        if self.everything:
            return True
        name = host.lower().rstrip(".")
        return any(name == one or (one[0] == "*" and name.endswith(one[1:])) for one in self.names)

    def allows(self, address: str) -> bool:
        """Whether an address may be called, whoever has it.

        >>> Guard(networks=(ipaddress.ip_network("10.0.0.0/8"),)).allows("10.0.0.7")
        True
        """
        if self.everything or is_outside(address):
            return True
        return self.covers(address)

    def covers(self, address: str) -> bool:
        """Whether an address is one of the networks that the site allows."""
        plain = _undisguise(address)
        return plain is not None and any(plain in one for one in self.networks)


def read_allowed(entries: Sequence[object], remedy: str) -> Guard:
    """A guard of what a setting lists: host names, `*.` before a domain, addresses and networks.

    >>> read_allowed(["billing.internal", "10.0.0.0/8"], "").names
    ('billing.internal',)
    """
    names: list[str] = []
    networks: list[Network] = []
    for entry in entries:
        text = entry.strip().lower().rstrip(".") if isinstance(entry, str) else ""
        try:
            networks.append(ipaddress.ip_network(text))
        except ValueError:
            # What looks like an address and is none, such as 10.0.0.1/8, is no name either.
            if not _NAME.fullmatch(text) or text.rpartition(".")[2].isdigit():
                raise InvalidCall(
                    f'{show(entry)} is no host name, address or network: write "billing.internal", "*.internal", '
                    '"10.1.2.3" or "10.0.0.0/8"'
                ) from None
            names.append(text)
    return Guard(tuple(names), tuple(networks), remedy=remedy)


def find_addresses(host: str, port: int, guard: Guard) -> list[str]:
    """The addresses of a host, all of which may be called.

    >>> find_addresses("127.0.0.1", 80, Guard())
    Traceback (most recent call last):
    workflows.outbound.address_guard.Unreachable: 127.0.0.1 leads inside (127.0.0.1), …
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, ValueError):
        raise Unreachable(f"the name {show_host(host)} cannot be resolved") from None
    addresses = list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))
    for one in addresses:
        # One that leads inside is reason enough: who answers so for a name of the web means no good.
        if not guard.knows_name(host) and not guard.allows(one):
            told = f"{show_host(host)} leads inside ({one}), where webhooks do not go"
            raise Unreachable(f"{told}: {guard.remedy}" if guard.remedy else told, forbidden=True)
    return addresses


def is_outside(address: str) -> bool:
    """Whether an address is one of the public internet.

    >>> is_outside("93.184.215.14"), is_outside("10.0.0.1"), is_outside("::ffff:10.0.0.1")
    (True, False, False)
    """
    given = _undisguise(address)
    if given is None:
        return False
    if isinstance(given, ipaddress.IPv6Address) and (given not in _UNICAST or any(given in one for one in _TUNNELS)):
        return False
    if any(given in one for one in _SPECIAL):
        return False
    inside = given.is_private or given.is_loopback or given.is_link_local or given.is_reserved
    return given.is_global and not (inside or given.is_multicast or given.is_unspecified)


def show_host(host: str) -> str:
    """A host in a message."""
    return reveal(host)[:200] or "?"


def _undisguise(address: str) -> Address | None:
    """The address itself, which may be an IPv4 one that is written as an IPv6 one."""
    try:
        given: Address = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return None
    if isinstance(given, ipaddress.IPv6Address) and any(given in one for one in DISGUISES):
        plain = ipaddress.IPv4Address(int(given) & 0xFFFFFFFF)
        # ::1 and :: lie in the range of the compatible ones, and are themselves.
        return given if int(given) < 2 else plain
    return given
