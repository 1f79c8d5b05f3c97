"""A network in between that can fall silent: it goes on acknowledging, and passes nothing on.

Lives here: a proxy on this machine's own address, before the test's PostgreSQL. What must not: assertions.
"""

from __future__ import annotations

import contextlib
import select
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit, urlunsplit

from tests.support.processes import find_environment


class Proxy:
    """Passes on until it swallows; who connects after that is served again."""

    def __init__(self, upstream: str | tuple[str, int]) -> None:
        self._upstream = upstream
        self._silent: set[socket.socket] = set()
        self._links: list[tuple[socket.socket, socket.socket]] = []
        self._ended = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.settimeout(0.1)
        self._lock = threading.Lock()
        self.port: int = self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def swallow(self) -> int:
        """Pass nothing on any more of what is connected now; how many connections these are."""
        with self._lock:
            self._silent.update(one for link in self._links for one in link)
            return len(self._links)

    def close(self) -> None:
        self._ended.set()
        self._thread.join(60)
        self._listener.close()
        for link in self._links:
            for one in link:
                one.close()

    def _run(self) -> None:
        while not self._ended.is_set():
            with self._lock:
                peers = {a: b for link in self._links for a, b in (link, link[::-1])}
            ready, _, _ = select.select([self._listener, *peers], [], [], 0.1)
            for one in ready:
                if one is self._listener:
                    self._accept()
                elif not self._pass_on(one, peers[one]):
                    self._drop(one)

    def _accept(self) -> None:
        near, _ = self._listener.accept()
        far = socket.socket(socket.AF_UNIX if isinstance(self._upstream, str) else socket.AF_INET)
        far.connect(self._upstream)
        with self._lock:
            self._links.append((near, far))

    def _pass_on(self, one: socket.socket, peer: socket.socket) -> bool:
        with contextlib.suppress(OSError):
            data = one.recv(65_536)
            if one not in self._silent:
                peer.sendall(data)
            return bool(data)
        return False

    def _drop(self, one: socket.socket) -> None:
        with self._lock:
            [link] = [link for link in self._links if one in link] or [None]
            if link is not None:
                self._links.remove(link)
                for end in link:
                    end.close()


@contextlib.contextmanager
def proxied() -> Iterator[tuple[Proxy, str]]:
    """A proxy before the test's own server, and the address of the test's database through it."""
    parts = urlsplit(find_environment()["DATABASE_URL"])
    folder = parse_qs(parts.query).get("host")
    who = parts.netloc.rpartition("@")[0]
    proxy = Proxy(str(Path(folder[0], ".s.PGSQL.5432")) if folder else (parts.hostname or "", parts.port or 5432))
    try:
        yield proxy, urlunsplit(parts._replace(netloc=f"{who}@127.0.0.1:{proxy.port}", query=""))
    finally:
        proxy.close()
