"""A server for one run of something: tests, checks, benchmarks.

What lives here: a server in a folder of its own that goes when the run ends. What must not: a
server whose data anybody wants to keep.
Invariant: a run that is killed leaves no server, and its files go with the next run.
"""

import contextlib
import fcntl
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from config.postgres.server import Server, start

PREFIX = "holdpoint-run-"
SETTLED_SECONDS = 60  # a younger folder may belong to a run that is about to take its lock


@contextlib.contextmanager
def temporary_server(*, durable: bool = False) -> Iterator[Server]:
    """Run a server for the length of a `with` block; by default one that forgets at a power cut."""
    remove_leftovers()
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    folder.chmod(0o711)  # the server's account must be able to pass; nobody needs to look
    try:
        server = start(folder / "pg", durable=durable)
        try:
            yield server
        finally:
            server.stop()
            # The home is elsewhere if the account could not enter the folder.
            shutil.rmtree(server.home.path, ignore_errors=True)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_leftovers() -> None:
    """Remove the folders of runs that were killed: their servers died with them, their files did not."""
    for lock in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/pg/lock"):
        with contextlib.suppress(OSError), lock.open("a") as handle:
            if time.time() - lock.stat().st_mtime < SETTLED_SECONDS:
                continue
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.parent.parent)
