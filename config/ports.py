"""Ports for servers that start in a moment.

What lives here: finding one, and keeping it until its server has it. What must not: who listens there.
Invariant: between the look and the server's start nobody is given the port: no connection, because the kernel gives
those the ports above; and nobody who asks here, in this process or in another, because each port that was given is held
by its number among the datagrams, where no server of ours listens, until the process that asked ends.
"""

import socket
from random import SystemRandom

HOST = "127.0.0.1"
#: Below those that the kernel gives to connections, on Linux and elsewhere.
FIRST, LAST = 20_000, 31_999


def find_free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    count = LAST + 1 - FIRST
    begin = SystemRandom().randrange(count)  # so that those who ask at the same moment do not look at the same ones
    for port in (FIRST + (begin + n) % count for n in range(count)):
        if _is_free(port) and _hold(port):
            return port
    raise OSError(f"no port from {FIRST} to {LAST} is free")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
    return True


def _hold(port: int) -> bool:
    """Whether it is ours from now on."""
    with socket.socket(type=socket.SOCK_DGRAM) as claim:
        try:
            claim.bind((HOST, port))
        except OSError:
            return False
        claim.detach()  # closed with the process
    return True
