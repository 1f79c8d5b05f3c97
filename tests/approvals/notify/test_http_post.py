"""The way to places outside: never to an address inside, whatever it is spelled like; and what a place may do to us."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import time
from typing import Any

import pytest
import urllib3
from hypothesis import given
from hypothesis import strategies as st

from approvals.notify.failures import SendFailed
from approvals.notify.messages.http_post import post
from tests.support.notices import (
    answer,
    serving,
    site,  # noqa: F401
)
from workflows.outbound import posting
from workflows.outbound.address_guard import DISGUISES, Guard, find_addresses, is_outside
from workflows.outbound.posting import LIMITS, PostLimits

pytestmark = pytest.mark.django_db


# --- where nothing goes -----------------------------------------------------------------------------------

INSIDE = [
    *("127.0.0.1", "127.1", "2130706433", "0x7f000001", "0x7f.0.0.1", "0177.0.0.1", "017700000001", "localhost"),
    *("0.0.0.0", "0", "10.0.0.1", "10.1", "172.16.0.1", "172.31.255.255", "192.168.0.1", "169.254.169.254"),
    *("2852039166", "0xA9FEA9FE", "100.64.0.1", "192.0.0.8", "198.18.0.1", "224.0.0.1", "239.255.255.250"),
    *("240.0.0.1", "255.255.255.255", "::1", "::", "::ffff:127.0.0.1", "::ffff:7f00:1", "::ffff:169.254.169.254"),
    *("::127.0.0.1", "0:0:0:0:0:ffff:0a00:0001", "fe80::1", "fc00::1", "fd12:3456::1", "ff02::1", "2002:7f00:1::"),
    *("2001::1", "64:ff9b::7f00:1", "64:ff9b::10.0.0.1", "168.63.129.16", "2001:db8::1", "100::1", "fec0::1"),
]


@pytest.mark.parametrize("host", INSIDE)
def test_no_spelling_of_an_address_inside_is_called(host: str) -> None:
    url = f"http://{f'[{host}]' if ':' in host else host}:9/hook"
    with pytest.raises(SendFailed) as refused:
        post(url, b"{}", {})
    assert "WEBHOOKS_PRIVATE" in str(refused.value) or "cannot be resolved" in str(refused.value)


@pytest.mark.parametrize("host", ["93.184.215.14", "8.8.8.8", "2606:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8"])
def test_addresses_of_the_web_may_be_called(host: str) -> None:
    assert is_outside(host)
    assert [ipaddress.ip_address(one) for one in find_addresses(host, 443, Guard())] == [ipaddress.ip_address(host)]


@given(st.ip_addresses(v=4))
def test_an_address_is_judged_the_same_in_all_its_disguises(address: ipaddress.IPv4Address) -> None:
    number = int(address)
    judged = is_outside(str(address))
    assert is_outside(str(ipaddress.IPv6Address(0xFFFF << 32 | number))) is judged
    assert is_outside(str(ipaddress.IPv6Address((0x64FF9B << 96) | number))) is judged
    assert not is_outside(str(ipaddress.IPv6Address((0x2002 << 112) | number << 80)))
    if not address.is_global or address.is_multicast:
        assert not judged


@given(st.ip_addresses(v=6))
def test_no_address_that_is_not_global_is_outside(address: ipaddress.IPv6Address) -> None:
    if is_outside(str(address)) and not any(address in one for one in DISGUISES):
        assert address.is_global
        assert not address.is_multicast


@pytest.mark.parametrize("text", ["", "nonsense", "1.2.3", "1.2.3.4.5", "::gg"])
def test_what_is_no_address_is_not_outside(text: str) -> None:
    assert not is_outside(text)


@pytest.mark.parametrize(
    "url",
    [
        *("", "ftp://x.example/", "file:///etc/passwd", "//x.example/", "http://", "http:///x", "gopher://x.example"),
        *("http://user:pass@8.8.8.8/", "http://8.8.8.8:99999/", "http://[::1", "http://8.8.8.8/a\r\nHost: evil"),
        *("http://8.8.8.8/a b", "http://ex\u00e4mple.example/", "http://[fe80::1%25eth0]/"),
    ],
)
def test_no_address_that_is_none_is_called(url: str) -> None:
    with pytest.raises(SendFailed) as refused:
        post(url, b"{}", {})
    assert "pass" not in str(refused.value)


def test_a_name_with_one_address_inside_among_others_is_not_called(monkeypatch: Any) -> None:
    found = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, 80)) for one in ("8.8.8.8", "127.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *args, **options: found)
    with pytest.raises(SendFailed, match="leads inside"):
        post("http://rebind.example/", b"{}", {})


def test_what_was_checked_is_what_is_called_whatever_the_name_says_a_moment_later(monkeypatch: Any) -> None:
    answers = iter([[(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("8.8.8.8", 80))]])
    called: list[Any] = []

    def resolve(*args: Any, **options: Any) -> Any:
        return next(answers)

    def connect(address: Any, *args: Any, **options: Any) -> Any:
        called.append(address)
        raise ConnectionRefusedError

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    monkeypatch.setattr(urllib3.util.connection, "create_connection", connect)
    with pytest.raises(SendFailed, match="ConnectionRefusedError"):
        post("http://rebind.example/", b"{}", {})
    assert called == [("8.8.8.8", 80)]


def test_a_redirect_is_not_followed() -> None:
    with serving() as inside, serving() as place:
        for status in (301, 302, 303, 307, 308):
            place.answer = answer(status, Location=inside.url)
            with pytest.raises(SendFailed, match="redirects are not followed"):
                post(place.url, b"{}", {}, allow_private=True)
        assert inside.got == []


# --- what a place may do to us ----------------------------------------------------------------------------


def shorten(monkeypatch: Any, **limits: float) -> None:
    monkeypatch.setattr(posting.post, "__defaults__", (PostLimits(**limits),))


def test_of_a_long_answer_only_the_beginning_is_read() -> None:
    def flood(handler: Any) -> None:
        handler.send_response(200)
        handler.end_headers()
        with contextlib.suppress(OSError):
            for _ in range(10_000):
                handler.wfile.write(b"x" * 10_000)

    with serving() as place:
        place.answer = flood
        assert len(post(place.url, b"{}", {}, allow_private=True).body) == LIMITS.answer


def test_an_answer_that_drips_is_cut_off(monkeypatch: Any) -> None:
    shorten(monkeypatch, whole=0.5)

    def drip(handler: Any) -> None:
        with contextlib.suppress(OSError):
            handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
            while not handler.place.over.wait(0.05):
                handler.wfile.write(b"X: y\r\n")

    with serving() as place:
        place.answer = drip
        began = time.monotonic()
        with pytest.raises(SendFailed):
            post(place.url, b"{}", {}, allow_private=True)
        assert time.monotonic() - began < 5


def test_a_place_that_is_silent_is_given_up(monkeypatch: Any) -> None:
    shorten(monkeypatch, silence=0.2)
    with serving() as place:
        place.answer = lambda handler: handler.place.over.wait(10) and None
        with pytest.raises(SendFailed, match="did not answer in time"):
            post(place.url, b"{}", {}, allow_private=True)
        place.over.set()


@pytest.mark.parametrize("garbage", [b"", b"\x00\xff", b"SSH-2.0-x\r\n", b"HTTP/1.1 abc\r\n\r\n"])
def test_what_is_no_http_is_a_failure(garbage: bytes) -> None:
    def babble(handler: Any) -> None:
        handler.wfile.write(garbage)

    with serving() as place:
        place.answer = babble
        with pytest.raises(SendFailed):
            post(place.url, b"{}", {}, allow_private=True)


def test_a_certificate_that_nobody_vouches_for_is_refused() -> None:
    with serving() as place, pytest.raises(SendFailed):
        post(place.url.replace("http:", "https:"), b"{}", {}, allow_private=True)
