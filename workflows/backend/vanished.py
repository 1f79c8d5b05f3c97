"""When the server gives up a client whose machine vanished: a lost network says goodbye to nobody.

Lives here: the limits of a session on the server's side, how they are set and how they are read. libpq's own options
(`keepalives_idle` and its like) tell the client of a dead server; the server has limits of its own for a dead client,
two hours by default, and that long it keeps the locks of its transaction. Invariant owned: both sides of a connection
over a network are given the same limits. A socket file needs none: who is behind it cannot vanish alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: The server's setting, libpq's option of the same meaning, and what both are where the project says nothing. By these
#: a silent peer is given up after 25 seconds: because of unanswered data, or of unanswered probes.
LIMITS = (
    ("tcp_keepalives_idle", "keepalives_idle", 10),
    ("tcp_keepalives_interval", "keepalives_interval", 5),
    ("tcp_keepalives_count", "keepalives_count", 3),
    ("tcp_user_timeout", "tcp_user_timeout", 25_000),
)

_READ = "SELECT name, setting FROM pg_settings WHERE name = ANY(%s)"


def limit_silence(raw: Any, options: Mapping[str, Any]) -> None:
    """Give this session, a psycopg connection, the limits of its client on the server's side too."""
    if not is_remote(raw) or str(options.get("keepalives", 1)) == "0":
        return
    given = str(options.get("options") or "")
    wanted = {name: str(options.get(option, default)) for name, option, default in LIMITS if name not in given}
    if wanted:
        calls = ", ".join(["set_config(%s, %s, false)"] * len(wanted))
        raw.execute(f"SELECT {calls}", [part for pair in wanted.items() for part in pair])


def is_remote(raw: Any) -> bool:
    """Whether a network is between this psycopg connection and its server."""
    return not str(raw.info.host).startswith(("/", "@"))


def read_patience(raw: Any) -> float | None:
    """Seconds after which the server gives up this silent session when nothing is under way; None without a network."""
    if not is_remote(raw):
        return None
    found = dict(raw.execute(_READ, [[name for name, _, _ in LIMITS]]).fetchall())
    idle, interval, count, limit = (int(found.get(name, 0)) for name, _, _ in LIMITS)
    # With a limit on unanswered data the first probe after it decides, however many there would be.
    return max(idle + interval, limit / 1000) if limit else idle + interval * count
