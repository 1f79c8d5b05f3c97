"""Sending bytes to a place outside, in words that a delivery may keep.

Must not live here: how it is posted, and which addresses may be called: `workflows.channels`. Invariant owned: what
fails is a `SendFailed`, which names no more of an address than its host.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlsplit

from approvals.display.values import show_text
from approvals.notify.failures import SendFailed
from workflows.outbound.address_guard import Guard, Unreachable, find_addresses
from workflows.outbound.posting import PostReply, read_place
from workflows.outbound.posting import post as send

_REMEDY = 'APPROVALS["WEBHOOKS_PRIVATE"] = True would allow it'


def post(url: str, body: bytes, headers: Mapping[str, str], *, allow_private: bool = False) -> PostReply:
    """Send it; `SendFailed` unless the answer says that it was taken.

    >>> post("https://hooks.example/1", b"{}", {"Content-Type": "application/json"}).status
    200
    """
    try:
        place = read_place(url)
        addresses = find_addresses(place.host, place.port, Guard(everything=allow_private, remedy=_REMEDY))
        posted = send(place, addresses, body, headers)
    except Unreachable as error:
        raise SendFailed(str(error), is_final=error.forbidden, is_place=not error.forbidden) from None
    host = show_text(place.host)
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
