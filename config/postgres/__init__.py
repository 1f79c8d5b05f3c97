"""A PostgreSQL of our own, from a wheel's programs or the system's, as root or not.

`start()` gives a running server with `.url` and `.stop()`; `temporary_server()` one for a `with`
block. Nothing here imports Django: the test plugin and the supervisor need a database before
settings are read.
"""

from config.postgres.binaries import PostgresError
from config.postgres.home import Home, locate_home, read_status
from config.postgres.server import Server, start, stop_postmaster
from config.postgres.temporary import temporary_server

__all__ = [
    "Home",
    "PostgresError",
    "Server",
    "locate_home",
    "read_status",
    "start",
    "stop_postmaster",
    "temporary_server",
]
