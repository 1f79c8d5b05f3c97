"""A client that costs next to nothing: so many connections that stay open, one request in flight on each.

Raw sockets and one loop, because on a machine with few processors a comfortable client would take as much of them as
the server that is measured.
"""

from __future__ import annotations

import re
import select
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass

PATIENCE = 60
_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *([0-9]+)\r\n", re.IGNORECASE)


@dataclass(frozen=True)
class Calls:
    """How long all of them took together, and each alone; seconds."""

    seconds: float
    each: tuple[float, ...]

    def find_percentile(self, percent: float) -> float:
        """Milliseconds within which so many of a hundred were answered."""
        ordered = sorted(self.each)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))] * 1000


def write_post(port: int, path: str, body: bytes, key: str = "") -> bytes:
    """The bytes of a request."""
    head = [f"POST {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Content-Type: application/json"]
    head += [f"Authorization: Bearer {key}"] if key else []
    return "\r\n".join([*head, f"Content-Length: {len(body)}", "", ""]).encode() + body


def write_get(port: int, path: str, **headers: str) -> bytes:
    """The bytes of a request that only looks."""
    head = [f"GET {path} HTTP/1.1", f"Host: 127.0.0.1:{port}", *(f"{name}: {told}" for name, told in headers.items())]
    return "\r\n".join([*head, "", ""]).encode()


def call_all(port: int, requests: Sequence[bytes], *, in_flight: int, status: int) -> Calls:
    """Send all; every one has to be answered with this status."""
    poll, lines = select.epoll(), {}
    try:
        for _ in range(min(in_flight, len(requests))):
            line = _Line(port, f"HTTP/1.1 {status} ".encode())
            lines[line.number] = line
            poll.register(line.number, select.EPOLLIN)
        waiting, each = iter(requests), []
        begun = time.perf_counter()
        for line in lines.values():
            line.send(next(waiting))
        left = len(requests)
        while left:
            ready = poll.poll(PATIENCE)
            if not ready:
                raise TimeoutError(f"{left} of {len(requests)} calls were not answered within {PATIENCE} s")
            for number, _ in ready:
                took = lines[number].receive()
                if took is not None:
                    each.append(took)
                    left -= 1
                    if (request := next(waiting, None)) is not None:
                        lines[number].send(request)
        return Calls(time.perf_counter() - begun, tuple(each))
    finally:
        poll.close()
        for line in lines.values():
            line.close()


class _Line:
    """One connection."""

    def __init__(self, port: int, good: bytes) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.number = self._socket.fileno()
        self._good = good
        self._got, self._sent = b"", 0.0

    def send(self, request: bytes) -> None:
        self._got, self._sent = b"", time.perf_counter()
        self._socket.sendall(request)

    def receive(self) -> float | None:
        """Seconds since the request when the answer is whole; None while it is not."""
        got = self._socket.recv(1 << 20)
        if not got:
            raise ConnectionError("the server hung up")
        self._got += got
        end = self._got.find(_END)
        if end < 0:
            return None
        if not self._got.startswith(self._good):
            raise AssertionError(f"unexpected answer: {self._got[:500]!r}")
        told = _LENGTH.search(self._got, 0, end + len(_END))
        if told is None:
            raise AssertionError("an answer without Content-Length is not read here")
        if len(self._got) < end + len(_END) + int(told[1]):
            return None
        return time.perf_counter() - self._sent

    def close(self) -> None:
        self._socket.close()
