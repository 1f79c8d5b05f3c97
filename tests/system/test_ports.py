"""A port that is given for a server stays free until the server has it."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from config.ports import FIRST, LAST, find_free_port

RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")


def test_no_two_who_ask_are_given_the_same_port_in_one_process_or_in_several() -> None:
    ask = "from config.ports import find_free_port; print([find_free_port() for _ in range(40)]); input()"
    others = [
        subprocess.Popen([sys.executable, "-c", ask], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    given = [find_free_port() for _ in range(40)]
    for other in others:
        assert other.stdout is not None
        given += [int(port) for port in other.stdout.readline().strip("[]\n").split(",")]
    for other in others:
        other.communicate("\n")
    assert len(given) == len(set(given)) == 120


def test_no_connection_is_given_the_port_of_a_server_that_starts() -> None:
    if RANGE.exists():
        low, high = map(int, RANGE.read_text().split())
        assert high < FIRST or low > LAST


def test_a_server_can_listen_on_the_port_that_it_was_given() -> None:
    with socket.create_server(("127.0.0.1", find_free_port())):
        pass


def test_a_port_that_somebody_listens_on_is_given_to_nobody() -> None:
    port = find_free_port()
    with socket.create_server(("127.0.0.1", port)):
        assert port not in {find_free_port() for _ in range(20)}
