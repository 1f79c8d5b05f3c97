"""Where an embedded server lives, as whom, and whether it runs.

What lives here: the *home* folder (`data`, `log`, `lock` and the socket), its place, its privacy and
the reading of its state. What must not: anything that starts or signals a process (`server`).
Invariants: whoever holds `lock` owns the server; only its account, and root, can reach the socket,
which is why the server may trust whoever comes through it.
"""

import contextlib
import fcntl
import hashlib
import os
import pwd
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any
from urllib.parse import quote

from config.postgres.binaries import ROOT_STORE, PostgresError, choose_account, may_enter

DATABASE = ROLE = "holdpoint"
HOME = Path(__file__).resolve().parent.parent.parent / "var" / "postgres"

# A socket's whole path must stay below 104 bytes on some systems, and its file name takes 20.
SOCKET_LIMIT = 80


@dataclass(frozen=True)
class Home:
    """Where a server lives, and as whom it runs."""

    path: Path
    account: pwd.struct_passwd | None

    @property
    def data(self) -> Path:
        return self.path / "data"

    @property
    def sockets(self) -> Path:
        """The socket's folder: the home itself unless its path is too long for a socket."""
        if len(os.fsencode(self.path)) <= SOCKET_LIMIT:
            return self.path
        return Path("/tmp", f"holdpoint-{hashlib.sha256(os.fsencode(self.path)).hexdigest()[:16]}")

    @property
    def url(self) -> str:
        return f"postgresql://{ROLE}@/{DATABASE}?host={quote(str(self.sockets), safe='')}"

    @property
    def demotion(self) -> dict[str, Any]:
        """Arguments for `subprocess` that leave root's rights behind."""
        if self.account is None:
            return {}
        return {"user": self.account.pw_uid, "group": self.account.pw_gid, "extra_groups": []}


def locate_home(folder: Path = HOME) -> Home:
    """Return the home that stands for a folder, following the pointer root may have left there."""
    pointer = folder.with_name(f"{folder.name}.location")
    path = Path(pointer.read_text().splitlines()[0]) if pointer.exists() else folder
    return Home(path, choose_account(path))


def prepare_home(folder: Path) -> Home:
    """Make the home, private to its account, and where that account can reach it.

    Root's account may be unable to enter the project (a clone in root's own home, say). Then the
    data goes to root's store and a pointer file in the project names the place.
    """
    folder = folder.absolute()
    folder.parent.mkdir(parents=True, exist_ok=True)
    home = locate_home(folder)
    if home.path == folder and not may_enter(home.account, folder.parent):
        name = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
        home = Home(ROOT_STORE / f"postgres-{name}", home.account)
        home.path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        folder.with_name(f"{folder.name}.location").write_text(
            f"{home.path}\nThe PostgreSQL account cannot enter this folder, so its data is there.\n"
        )
    for private in {home.path, home.sockets}:
        make_private(private, home.account)
    return home


def make_private(folder: Path, account: pwd.struct_passwd | None) -> None:
    """Create a folder that only the account can enter, and refuse one that somebody else prepared."""
    owner = os.geteuid() if account is None else account.pw_uid
    with contextlib.suppress(FileExistsError):
        folder.mkdir(mode=0o700)
        if account is not None:
            os.chown(folder, account.pw_uid, account.pw_gid)
    state = folder.lstat()
    if state.st_uid != owner or state.st_mode & 0o077:
        raise PostgresError(f"{folder} exists and is not private to user id {owner}: remove it or fix its owner.")


def take_lock(home: Home) -> IO[str] | None:
    """Become the owner of a home, or return None while somebody else is."""
    lock = (home.path / "lock").open("a")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


def read_pid_file(home: Home) -> list[str]:
    try:
        return (home.data / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return []


def read_status(home: Home) -> str:
    """Return what the running server says about itself: `starting`, `ready`, `stopping` …, or nothing."""
    lines = read_pid_file(home)
    return lines[7].strip() if len(lines) > 7 and find_postmaster(home) else ""


def find_postmaster(home: Home) -> int | None:
    """Return the id of the server on this data, never that of a program which inherited the number."""
    lines = read_pid_file(home)
    pid = int(lines[0]) if lines and lines[0].isdigit() else 0
    if not pid:
        return None
    try:
        os.kill(pid, 0)
        working_folder = Path(f"/proc/{pid}/cwd")  # PostgreSQL stands in its data folder
        return pid if not Path("/proc/self").exists() or working_folder.samefile(home.data) else None
    except OSError:
        return None
